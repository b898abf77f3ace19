// SPDX-License-Identifier: Apache-2.0
// The kernels of the operator projects here, as a binary has them: a function for each tiling key.
#include "mskpp/kernel.h"

#ifdef ADD
extern "C" __global__ __aicore__ void add_custom_0(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    const uint32_t length = reinterpret_cast<__gm__ uint32_t*>(tiling)[0] / GetBlockNum();
    const uint32_t first = length * GetBlockIdx();
    for (uint32_t i = first; i < first + length; ++i) {
        reinterpret_cast<__gm__ float*>(z)[i] =
            reinterpret_cast<__gm__ float*>(x)[i] + reinterpret_cast<__gm__ float*>(y)[i];
    }
    (void)workspace;
}
#endif

#ifdef MATMUL
struct MatmulTiling {
    uint32_t m, n, k;
    uint32_t rows_per_block;
    float slope;
    uint32_t has_bias;
    uint64_t ub_bytes;
};

static void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
    const MatmulTiling t = *reinterpret_cast<__gm__ MatmulTiling*>(tiling);
    const uint32_t first = t.rows_per_block * GetBlockIdx();
    for (uint32_t i = first; i < first + t.rows_per_block && i < t.m; ++i) {
        float* const row = reinterpret_cast<__gm__ float*>(workspace) + i * t.n;
        for (uint32_t j = 0; j < t.n; ++j) {
            row[j] = bias != nullptr ? reinterpret_cast<__gm__ float*>(bias)[j] : 0;
            for (uint32_t l = 0; l < t.k; ++l) {
                row[j] +=
                    reinterpret_cast<__gm__ float*>(a)[i * t.k + l] * reinterpret_cast<__gm__ float*>(b)[l * t.n + j];
            }
        }
        for (uint32_t j = 0; j < t.n; ++j) {
            reinterpret_cast<__gm__ float*>(c)[i * t.n + j] = row[j] > 0 ? row[j] : row[j] * t.slope;
        }
    }
}

extern "C" __global__ __aicore__ void matmul_leakyrelu_0(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace,
                                                         GM_ADDR tiling) {
    matmul(a, b, nullptr, c, workspace, tiling);
}
extern "C" __global__ __aicore__ void matmul_leakyrelu_1(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c,
                                                         GM_ADDR workspace, GM_ADDR tiling) {
    matmul(a, b, bias, c, workspace, tiling);
}
#endif
