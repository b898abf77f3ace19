# SPDX-License-Identifier: Apache-2.0
"""Which tiling is best? Models z[512,512] = x[512,1024] @ y[1024,512] with several tiles, sorted by predicted time."""

from itertools import product

from mskpp import Chip, Tensor, mmad
from mskpp.report.result import Result

M, K, N = 512, 1024, 512
L0A_BYTES, L0B_BYTES, L0C_BYTES = 65536, 65536, 131072


def matmul(tile_m: int, tile_k: int, tile_n: int) -> Result:
    gm_x = Tensor("GM", "FP16", [M, K], format="ND")
    gm_y = Tensor("GM", "FP16", [K, N], format="ND")
    gm_z = Tensor("GM", "FP32", [M, N], format="ND")
    with Chip("Ascend910B1") as chip:
        chip.set_cache_hit_ratio({"cache_hit_ratio": 0.8})
        for m, n in product(range(0, M, tile_m), range(0, N, tile_n)):
            out = Tensor("L0C", "FP32", [tile_m, tile_n], format="NZ", is_inited=True)
            for k in range(0, K, tile_k):
                l1_x, l1_y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
                x, y = Tensor("L0A"), Tensor("L0B")
                l1_x.load(gm_x[m : m + tile_m, k : k + tile_k])
                l1_y.load(gm_y[k : k + tile_k, n : n + tile_n])
                x.load(l1_x)
                y.load(l1_y)
                (out,) = mmad(x, y, out)()
            gm_z[m : m + tile_m, n : n + tile_n].load(out)
    return chip.result


rows = []
for tile in product((64, 128, 256), (32, 64, 128, 256), (64, 128, 256)):
    m, k, n = tile
    # Local memory has no end in the model: what does not fit is left out here. L0A and L0B hold two buffers each.
    if 2 * m * k * 2 <= L0A_BYTES and 2 * k * n * 2 <= L0B_BYTES and m * n * 4 <= L0C_BYTES:
        rows.append((matmul(m, k, n), tile))
rows.sort(key=lambda row: row[0].total_cycles)

print("tile m,k,n        us  MACs per cycle  busiest pipe")
for result, tile in rows[:10]:
    busy = result.pipes[result.bound].cycles / result.total_cycles
    shown = ",".join(map(str, tile))
    print(f"{shown:11} {result.duration_us:8.1f}  {M * K * N / result.total_cycles:14.0f}  {result.bound} {busy:.0%}")
print(f"slowest of {len(rows)}: {rows[-1][1]} with {rows[-1][0].duration_us:.1f} us")
