# SPDX-License-Identifier: Apache-2.0
"""A chip of one's own: the folder Ascend910B1X beside this file, which takes what it does not say from Ascend910B1.

The folder also adds an instruction, vswish. Chip("B1X") finds it too when MSKPP_CHIP_PATH names the folder above it.
"""

from pathlib import Path

import mskpp
from mskpp import Chip, Tensor, vexp

OWN = Path(__file__).parent / "Ascend910B1X"


def model(chip_name: str | Path) -> Chip:
    with Chip(chip_name) as chip:
        for _ in range(4):
            gm_x, gm_y = Tensor("GM", "FP16", [8192], format="ND"), Tensor("GM", "FP16", [8192], format="ND")
            x, y = Tensor("UB"), Tensor("UB")
            x.load(gm_x)
            if chip_name == OWN:
                mskpp.vswish(x, y)()
            else:
                vexp(x, y)()
            gm_y.load(y)
    return chip


for name in ("Ascend910B1", OWN):
    chip = model(name)
    print(chip.result)
    for row in chip.result.instructions.values():
        print(f"  {row.name:13} {row.cycles:6} cycles {row.origins}")
    for note in chip.notes:
        print(" ", note)
