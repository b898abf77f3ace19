// SPDX-License-Identifier: Apache-2.0
// The kernel for tiling key 0: z = x + y, a part of it in each block.
#include <mskpp/kernel.h>

extern "C" __global__ __aicore__ void add_custom_0(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    const uint32_t elements = reinterpret_cast<__gm__ uint32_t*>(tiling)[0];
    const uint32_t per_block = reinterpret_cast<__gm__ uint32_t*>(tiling)[1];
    const uint32_t first = GetBlockIdx() * per_block;
    for (uint32_t i = first; i < first + per_block && i < elements; ++i)
        reinterpret_cast<__gm__ float*>(z)[i] =
            reinterpret_cast<__gm__ float*>(x)[i] + reinterpret_cast<__gm__ float*>(y)[i];
}
