# SPDX-License-Identifier: Apache-2.0
"""An instruction of one's own: VSWISH, and then a path's cost of one's own, used like the built-in ones.

RegisterOf says what the instruction is: its pipe, and dtype and size of its output. RegisterPrefOf says what it costs.
"""

import math

import mskpp
from mskpp import Chip, PrefModel, RegisterOf, RegisterPrefOf, Tensor

DTYPE_BYTES = {"FP16": 2, "FP32": 4}


@RegisterOf("VSWISH")
class Swish:
    """x * sigmoid(x)."""

    pipe = "PIPE-V"

    def infer_shape(self, inputs, outputs, attr):
        outputs[0].dtype = inputs[0].dtype
        outputs[0].size = inputs[0].size
        outputs[0].format = inputs[0].format


@RegisterPrefOf("VSWISH")
class SwishCost(PrefModel):
    def size(self):
        return math.prod(self.inputs[0].size)

    def time(self):
        repeats = math.ceil(self.size() * DTYPE_BYTES[self.inputs[0].dtype] / 256)
        return 14 + repeats * self.attr.get("cycles_per_repeat", 4)


@RegisterPrefOf("MOV-UB_TO_GM")
class StoreCost(PrefModel):
    """As if the store ran at 64 bytes a cycle, after a start-up of 200 cycles."""

    def size(self):
        return math.prod(self.inputs[0].size) * DTYPE_BYTES[self.inputs[0].dtype]

    def time(self):
        return 200 + self.size() / 64


with Chip("Ascend910B1") as chip:
    for _ in range(4):
        gm_x, gm_y = Tensor("GM", "FP16", [8192], format="ND"), Tensor("GM", "FP16", [8192], format="ND")
        x, y = Tensor("UB"), Tensor("UB")
        x.load(gm_x)
        mskpp.vswish(x, y, cycles_per_repeat=5)()
        gm_y.load(y)

for row in chip.result.instructions.values():
    print(f"{row.name:13} {row.cycles:6} cycles, {row.count} times, {row.origins}")
