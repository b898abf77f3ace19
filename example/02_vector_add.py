# SPDX-License-Identifier: Apache-2.0
"""A vector add, z = x + y, in tiles through UB, with flags where Ascend C has them; with 1, 2 and 3 buffers.

Data dependencies are known to the model without any flag, but its local memory is unlimited. The flags from PIPE-MTE3
back to PIPE-MTE2 say what a real kernel must wait for: a buffer is loaded anew only when the tile before has left it.
"""

from mskpp import Chip, Tensor, set_flag, vadd, wait_flag

TILES, ELEMENTS = 16, 4096


def vector_add(buffers: int) -> None:
    for tile in range(TILES):
        event = tile % buffers
        gm_x = Tensor("GM", "FP16", [ELEMENTS], format="ND")
        gm_y = Tensor("GM", "FP16", [ELEMENTS], format="ND")
        gm_z = Tensor("GM", "FP16", [ELEMENTS], format="ND")
        x, y, z = Tensor("UB"), Tensor("UB"), Tensor("UB")
        if tile >= buffers:
            wait_flag("PIPE-MTE3", "PIPE-MTE2", event)
        x.load(gm_x)
        y.load(gm_y)
        set_flag("PIPE-MTE2", "PIPE-V", event)
        wait_flag("PIPE-MTE2", "PIPE-V", event)
        vadd(x, y, z)()
        set_flag("PIPE-V", "PIPE-MTE3", event)
        wait_flag("PIPE-V", "PIPE-MTE3", event)
        gm_z.load(z)
        if tile + buffers < TILES:
            set_flag("PIPE-MTE3", "PIPE-MTE2", event)


for buffers in (1, 2, 3):
    with Chip("Ascend910B1") as chip:
        vector_add(buffers)
    result = chip.result
    busy = result.pipes[result.bound].cycles / result.total_cycles
    print(f"buffers {buffers}: {result.duration_us:6.3f} us, busiest {result.bound} {busy:.1%}")
