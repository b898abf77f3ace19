// SPDX-License-Identifier: Apache-2.0
// C = A B + bias, tile by tile: each block takes every blockdim-th tile of C. For the CPU and for an NPU's scalar unit.
#include <mskpp/kernel.h>

namespace gemm {

struct Coord {
    uint32_t m, n, k;
};

struct RowMajor {
    uint32_t rows, columns;
    int64_t stride;
};

template <uint32_t M, uint32_t N, uint32_t K>
struct TileShape {
    static constexpr uint32_t m = M, n = N, k = K;
};

}  // namespace gemm

using L1TileShape = gemm::TileShape<32, 64, 64>;  // tunable

// Accumulates in the workspace: one tile of floats for each block.
template <class LayoutA, class LayoutB, class LayoutC>
__global__ __aicore__ void TiledMatmul(gemm::Coord problem, GM_ADDR a, LayoutA layout_a, GM_ADDR b, LayoutB layout_b,
                                       GM_ADDR bias, GM_ADDR c, LayoutC layout_c, GM_ADDR workspace) {
    using Tile = L1TileShape;
    const auto* pa = reinterpret_cast<__gm__ float*>(a);
    const auto* pb = reinterpret_cast<__gm__ float*>(b);
    const auto* pbias = reinterpret_cast<__gm__ float*>(bias);
    auto* pc = reinterpret_cast<__gm__ float*>(c);
    auto* sum = reinterpret_cast<__gm__ float*>(workspace) + GetBlockIdx() * Tile::m * Tile::n;
    const uint32_t across = (problem.n + Tile::n - 1) / Tile::n, down = (problem.m + Tile::m - 1) / Tile::m;
    for (uint32_t tile = GetBlockIdx(); tile < across * down; tile += GetBlockNum()) {
        const uint32_t m0 = tile / across * Tile::m, n0 = tile % across * Tile::n;
        const uint32_t m = problem.m - m0 < Tile::m ? problem.m - m0 : Tile::m;
        const uint32_t n = problem.n - n0 < Tile::n ? problem.n - n0 : Tile::n;
        for (uint32_t i = 0; i < m; ++i)
            for (uint32_t j = 0; j < n; ++j) sum[i * Tile::n + j] = pbias[n0 + j];
        for (uint32_t k0 = 0; k0 < problem.k; k0 += Tile::k)
            for (uint32_t i = 0; i < m; ++i)
                for (uint32_t k = k0; k < k0 + Tile::k && k < problem.k; ++k)
                    for (uint32_t j = 0; j < n; ++j)
                        sum[i * Tile::n + j] += pa[(m0 + i) * layout_a.stride + k] * pb[k * layout_b.stride + n0 + j];
        for (uint32_t i = 0; i < m; ++i)
            for (uint32_t j = 0; j < n; ++j) pc[(m0 + i) * layout_c.stride + n0 + j] = sum[i * Tile::n + j];
    }
}
