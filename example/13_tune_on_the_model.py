# SPDX-License-Identifier: Apache-2.0
"""Finds the best tiling of z[1024,1024] = x[1024,1024] @ y[1024,1024] by the model alone: nothing is compiled.

The function is called for every tiling that fits, in parallel processes, where it writes and prints nothing; then once
more with the best one, for its trace and tables.
"""

from itertools import product

import mskpp
from mskpp import Chip, Tensor, mmad

M = N = K = 1024
L0A_BYTES, L0B_BYTES, L0C_BYTES, L1_BYTES = 65536, 65536, 131072, 524288


def fits(tile_m: int, tile_n: int, tile_k: int) -> bool:
    """Two buffers each in L1, L0A and L0B, one in L0C. Local memory has no end in the model, so this is said here."""
    x, y, z = 2 * tile_m * tile_k, 2 * tile_k * tile_n, 4 * tile_m * tile_n
    return 2 * x <= L0A_BYTES and 2 * y <= L0B_BYTES and z <= L0C_BYTES and 2 * (x + y) <= L1_BYTES


@mskpp.autotune(
    space={"tile_m": [64, 128, 256], "tile_n": [64, 128, 256], "tile_k": [32, 64, 96, 128]},
    where=fits,
    backend="model",
)
def matmul(tile_m: int, tile_n: int, tile_k: int) -> Chip:
    gm_x = Tensor("GM", "FP16", [M, K], format="ND")
    gm_y = Tensor("GM", "FP16", [K, N], format="ND")
    gm_z = Tensor("GM", "FP32", [M, N], format="ND")
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
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
    return chip  # its result is the time; a number of us would do as well


if __name__ == "__main__":
    found = matmul()
    assert found.best is not None
    slowest = found.ranking[-1]
    print(f"{len(found.ranking)} tilings; the slowest, {slowest.config}, takes {slowest.time_us:.1f} us")
