# SPDX-License-Identifier: Apache-2.0
"""The register pipes of the 950 family: a vector function that adds two tensors and keeps the larger of sum and x.

Inside VecScope, UB -> VEC loads take the slots RVECLD0 and RVECLD1 in turn, RV_ instructions RVECEX0 and RVECEX1; there
is one store slot, RVECST. Each takes one cycle per 256-byte register.
"""

from mskpp import Chip, Tensor, VecScope, rv_vadd, rv_vmax, set_flag, wait_flag

ELEMENTS, REGISTER = 4096, 128  # of FP16: a register holds 256 bytes

with Chip("Ascend950PR_9589") as chip:
    gm_x = Tensor("GM", "FP16", [ELEMENTS], format="ND")
    gm_y = Tensor("GM", "FP16", [ELEMENTS], format="ND")
    gm_z = Tensor("GM", "FP16", [ELEMENTS], format="ND")
    ub_x, ub_y = Tensor("UB"), Tensor("UB")
    ub_z = Tensor("UB", "FP16", [ELEMENTS], format="ND")
    ub_x.load(gm_x)
    ub_y.load(gm_y)
    set_flag("PIPE-MTE2", "PIPE-VEC", 0)
    wait_flag("PIPE-MTE2", "PIPE-VEC", 0)  # holds both load slots
    with VecScope("add_max"):
        for i in range(0, ELEMENTS, REGISTER):
            x, y, total, larger = (Tensor("VEC", "FP16", [REGISTER], format="ND") for _ in range(4))
            x.load(ub_x[i : i + REGISTER])
            y.load(ub_y[i : i + REGISTER])
            rv_vadd(x, y, total)()
            rv_vmax(total, x, larger)()
            ub_z[i : i + REGISTER].load(larger)
    set_flag("PIPE-VEC", "PIPE-MTE3", 0)
    wait_flag("PIPE-VEC", "PIPE-MTE3", 0)
    gm_z.load(ub_z)

print(chip.result)
for row in (*chip.result.pipes.values(), *chip.result.instructions.values()):
    print(f"{row.name:13} {row.cycles:5} cycles, {row.count:3} times, {row.origins}")
