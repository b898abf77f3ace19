# SPDX-License-Identifier: Apache-2.0
"""The documented matmul: z[160,80] = x[160,240] @ y[240,80], 125 times the tile [32,48] x [48,16].

Each tile runs through the whole data path of the cube: GM -> L1 -> L0A and L0B -> mmad -> L0C -> GM.
Prints the statistics and leaves a trace, two CSV files and a pie chart in a new folder.
"""

from pathlib import Path

from mskpp import Chip, Tensor, mmad

M, K, N = 160, 240, 80
TILE_M, TILE_K, TILE_N = 32, 48, 16


def matmul_tile(gm_x: Tensor, gm_y: Tensor, gm_z: Tensor) -> None:
    l1_x, l1_y = Tensor("L1"), Tensor("L1")
    x, y = Tensor("L0A"), Tensor("L0B")
    b = Tensor("L0C", "FP32", [TILE_M, TILE_N], format="NC1HWC0")
    l1_x.load(gm_x)
    l1_y.load(gm_y)
    x.load(l1_x)
    y.load(l1_y)
    (out,) = mmad(x, y, b, True)()
    gm_z.load(out)


with Chip("Ascend910B1") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    for _ in range(M // TILE_M * (K // TILE_K) * (N // TILE_N)):
        gm_x = Tensor("GM", "FP16", [TILE_M, TILE_K], format="ND")
        gm_y = Tensor("GM", "FP16", [TILE_K, TILE_N], format="ND")
        gm_z = Tensor("GM", "FP32", [TILE_M, TILE_N], format="NC1HWC0")
        matmul_tile(gm_x, gm_y, gm_z)

for file in sorted(Path(chip.output_dir).iterdir()):
    print(f"  {file.name}")
