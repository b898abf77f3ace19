# SPDX-License-Identifier: Apache-2.0
"""A matmul that slices its GM tensors as numpy does and accumulates over k: z[128,256] = x[128,512] @ y[512,256].

The result of one mmad is the b of the next, so that z leaves L0C once an output tile and not once a product.
"""

from mskpp import Chip, Tensor, mmad

M, K, N = 128, 512, 256
TILE_M, TILE_K, TILE_N = 64, 128, 128

with Chip("Ascend910B1") as chip:
    gm_x = Tensor("GM", "FP16", [M, K], format="ND")
    gm_y = Tensor("GM", "FP16", [K, N], format="ND")
    gm_z = Tensor("GM", "FP32", [M, N], format="ND")
    for m in range(0, M, TILE_M):
        for n in range(0, N, TILE_N):
            out = Tensor("L0C", "FP32", [TILE_M, TILE_N], format="NZ", is_inited=True)
            for k in range(0, K, TILE_K):
                l1_x = Tensor("L1", format="NZ")  # ND becomes NZ on the way from GM
                l1_y = Tensor("L1", format="NZ")
                x, y = Tensor("L0A"), Tensor("L0B")
                l1_x.load(gm_x[m : m + TILE_M, k : k + TILE_K])
                l1_y.load(gm_y[k : k + TILE_K, n : n + TILE_N])
                x.load(l1_x)
                y.load(l1_y)
                (out,) = mmad(x, y, out)()
            gm_z[m : m + TILE_M, n : n + TILE_N].load(out)  # and back to ND

result = chip.result
print(result)
for pipe in result.pipes.values():
    print(f"{pipe.name:10} {pipe.cycles:6} cycles, {pipe.count:2} instructions, origins {pipe.origins}")
print("first product starts at cycle", next(e.start for e in result.events() if e.name == "MMAD"))
