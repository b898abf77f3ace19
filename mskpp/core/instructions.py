# SPDX-License-Identifier: Apache-2.0
"""The instruction functions: the package's, one a row of data/instructions.csv, and those of a chip's own table."""

from __future__ import annotations

from pathlib import Path

from mskpp import _core
from mskpp.core.data import DATA
from mskpp.errors import DataError, InputError

TABLE = DATA / "instructions.csv"


def read_table(file: Path) -> dict[str, _core.Instruction]:
    """The rows of a table by function name."""
    return {instruction.__name__: instruction for instruction in _core.read_instructions(file)}


BUILT_IN: dict[str, _core.Instruction] = read_table(TABLE)


def named(function: str) -> _core.Instruction:
    """The built-in instruction of that name; how an instruction is unpickled."""
    if function not in BUILT_IN:
        raise InputError(f"pickle: '{function}' is not built in; only built-in instructions are pickled")
    return BUILT_IN[function]


def chip_instructions(costs: _core.Costs) -> dict[str, _core.Instruction]:
    """What the instructions.csv of the chip's folder, and of the chips it inherits from, add to the built-in ones."""
    added: dict[str, _core.Instruction] = {}
    for folder in costs.folders:
        file = Path(folder) / "instructions.csv"
        if not file.exists():
            continue
        for function, instruction in read_table(file).items():
            if function in BUILT_IN:
                raise DataError(
                    f"data: {file.parent.name}/instructions.csv: '{function}' is built in; choose another name"
                )
            added.setdefault(function, instruction)
    return added
