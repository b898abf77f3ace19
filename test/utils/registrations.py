# SPDX-License-Identifier: Apache-2.0
"""Instructions and costs that tests register, and how they go away again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mskpp
from mskpp import _core
from mskpp.core import instructions, registry

MEMORIES = ("GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB", "VEC")


def forget_registrations() -> None:
    """Takes back every RegisterOf and RegisterPrefOf."""
    registry._instructions.clear()
    registry._models.clear()
    registry._move_pipes.clear()
    for source, target in itertools.product(MEMORIES, repeat=2):
        _core.set_move_model(source, target, None, None)
    for name, instruction in instructions.BUILT_IN.items():
        instruction.model = None
        setattr(mskpp, name, instruction)


def register_cost(names: list[str], time: Callable[[], Any], size: Callable[[], Any] = lambda: 1) -> None:
    """Makes time() the cost of all these instructions and paths."""

    class Cost(mskpp.PrefModel):
        def time(self) -> Any:
            return time()

        def size(self) -> Any:
            return size()

    for name in names:
        mskpp.RegisterPrefOf(name)(Cost)
