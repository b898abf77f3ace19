# SPDX-License-Identifier: Apache-2.0
"""The measured rates themselves, one class an instruction: ``VaddData().get(4096, "FP16_FP16_FP16")``.

Rates are bytes per cycle (of mmad, MAC per cycle) on the chip of the enclosing ``with Chip``, else on Ascend910B1;
None where there is no figure. A class exists for every instruction with a table: its name in any case, and ``Data``.
"""

from __future__ import annotations

from typing import Any

from mskpp import _core
from mskpp.core import data
from mskpp.core.chip import current_chip
from mskpp.core.place import shown
from mskpp.errors import ArgumentError, InputError


def _costs() -> _core.Costs:
    chip = current_chip()
    return data.default_costs() if chip is None else chip._costs


def _count(value: Any, what: str) -> int:
    try:
        number: int | None = None if isinstance(value, bool) else value.__index__()
    except AttributeError:
        number = None
    if number is None:
        raise ArgumentError(f"prof_data: {what} must be an int, got {type(value).__name__}")
    if not 1 <= number < 1 << 63:
        raise InputError(f"prof_data: {what} is {shown(number)}; it must be from 1 to 2^63-1")
    return number


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"prof_data: {what} must be a str, got {type(value).__name__}")
    return value


class MovData:
    """Rates of moves."""

    def get(self, src: str, dst: str, bytes: int, transform: bool = False) -> float | None:
        """Measured bytes per cycle of a transfer of that many bytes; transform: the format changes on the way."""
        return _costs().move_rate(_text(src, "src"), _text(dst, "dst"), _count(bytes, "bytes"), bool(transform))

    def get_peak(self, src: str, dst: str) -> float | None:
        """Width of the path's port in bytes per cycle."""
        return _costs().port_rate(_text(src, "src"), _text(dst, "dst"))

    def get_repeat(self, src: str, dst: str, repeat: int) -> float | None:
        """Measured bytes per cycle of a transfer of that many repeats."""
        return _costs().move_repeat_rate(_text(src, "src"), _text(dst, "dst"), _count(repeat, "repeat"))


class MmadData:
    """Rates of the cube."""

    def get(self, granularity: int, dtype: str = "FP16") -> float | None:
        """MAC per cycle at granularity = m*k*n; dtype: of the operands, or the whole key FP16_FP16_FP32."""
        return _costs().mmad_rate(_text(dtype, "dtype").split("_")[0], _count(granularity, "granularity"))


class VectorData:
    """Rates of one vector instruction."""

    instruction = ""

    def get(self, granularity: int, instr_type: str) -> float | None:
        """Bytes per cycle of a call on that many elements; instr_type: the dtypes of the cost key, FP16_FP16_FP16."""
        dtypes = " ".join(_text(instr_type, "instr_type").upper().split("_"))
        return _costs().vector_rate(self.instruction, dtypes, _count(granularity, "granularity"))


def __getattr__(name: str) -> Any:
    wanted = name.upper()
    if wanted.endswith("DATA"):
        for instruction in _costs().vector_instructions():
            if instruction + "DATA" == wanted and instruction != "MMAD":
                return type(name, (VectorData,), {"instruction": instruction, "__module__": __name__})
    raise AttributeError(
        f"module 'mskpp.prof_data' has no {name!r}; it has MovData, MmadData and <instruction>Data, as VaddData"
    )
