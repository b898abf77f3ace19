# SPDX-License-Identifier: Apache-2.0
"""A cube core hands its products to a vector core through GM: relu(x @ y), tile by tile, with flags across cores.

A flag that names its core sits on that core, wherever it is written. Reading GM after writing it is a dependency as
well, so here the flags cost their own cycle and nothing waits longer for them.
"""

from mskpp import Chip, Core, Tensor, mmad, set_flag, vrelu, wait_flag

TILES, TILE = 8, 64
DONE = ("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 0)


def produce(gm_z: Tensor) -> None:
    gm_x = Tensor("GM", "FP16", [TILE, TILE], format="ND")
    gm_y = Tensor("GM", "FP16", [TILE, TILE], format="ND")
    l1_x, l1_y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
    x, y = Tensor("L0A"), Tensor("L0B")
    b = Tensor("L0C", "FP32", [TILE, TILE], format="NZ")
    l1_x.load(gm_x)
    l1_y.load(gm_y)
    x.load(l1_x)
    y.load(l1_y)
    (out,) = mmad(x, y, b, is_inited=True)()
    gm_z.load(out)  # FP32 becomes FP16 and NZ becomes ND on the way
    set_flag(*DONE)


def consume(gm_z: Tensor) -> None:
    wait_flag(*DONE)
    z, relu = Tensor("UB"), Tensor("UB")
    z.load(gm_z)
    vrelu(z, relu)()
    gm_z.load(relu)


with Chip("Ascend910B1") as chip:
    for _ in range(TILES):
        gm_z = Tensor("GM", "FP16", [TILE, TILE], format="ND")
        with Core("aic0"):
            produce(gm_z)
        with Core("aiv0"):
            consume(gm_z)

print(chip.result)
for name, pipe in chip.result.pipes.items():
    print(f"{name:15} {pipe.cycles:6} cycles busy, {pipe.cycles / chip.result.total_cycles:6.1%}")
