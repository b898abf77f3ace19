# SPDX-License-Identifier: Apache-2.0
"""The package's data tables, read with the standard library, and calls that hit one of their rows."""

from __future__ import annotations

import csv
import itertools
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import mskpp
from mskpp.core.instructions import BUILT_IN

CHIPS = Path(mskpp.__path__[0]) / "data" / "chips"
GIB = 2**30
BITS = {"INT4": 4, "UINT64": 64, "INT64": 64} | {
    name + str(bits): bits for name in ("INT", "UINT", "FP", "BF") for bits in (8, 16, 32)
}

Curve = list[tuple[int, float]]


def rows(chip: str, table: str) -> list[dict[str, str]]:
    """Rows of one of the chip's tables; none where it has no such table."""
    file = CHIPS / chip / f"{table}.csv"
    if not file.exists():
        return []
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def figures(chip: str) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows(chip, "chip")}


def clock_mhz(chip: str) -> float:
    return float(figures(chip)["clock_mhz"])


def curves(chip: str, table: str) -> dict[tuple[str, ...], Curve]:
    """The points of a table by what they are for."""
    out: dict[tuple[str, ...], Curve] = defaultdict(list)
    for row in rows(chip, table):
        *key, size, value = (row[column] for column in row if column != "source")
        out[tuple(key)].append((int(size), float(value)))
    return dict(out)


def ceil(cycles: float) -> int:
    return math.ceil(cycles - 1e-9)


def lerp(curve: Curve, x: float) -> float:
    if x <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return curve[-1][1]


def path_of(key: str) -> tuple[str, str, bool]:
    """'GM_TO_L1_TRANS' -> ('GM', 'L1', True)."""
    path = key.removesuffix("_TRANS")
    source, target = path.split("_TO_")
    return source, target, path != key


def move(source: str, target: str, size_bytes: int, transform: bool = False, repeat: int = 1) -> None:
    """Issues a move of that many bytes."""
    formats = (("ND", "NZ") if source == "GM" else ("NZ", "ND")) if transform else (None, None)
    given = mskpp.Tensor(source, "INT8", [size_bytes], formats[0], True)
    mskpp.Tensor(target, "INT8", [size_bytes], formats[1]).load(given, repeat=repeat)


def vector_call(name: str, dtypes: list[str], elements: int) -> tuple[Any, ...]:
    """Issues a call that the row (name, dtypes) prices, with that many elements of work."""
    instruction = next(i for i in BUILT_IN.values() if i.instruction == name)
    out = dtypes[-1]
    x_shape = [elements]
    arguments: list[Any] = []
    for argument in str(instruction.__text_signature__).strip("()").split(", "):
        if argument == "x":
            arguments.append(mskpp.Tensor("UB", dtypes[0], x_shape, "ND", True))
        elif argument == "z" or (argument == "y" and "z" not in str(instruction.__text_signature__)):
            arguments.append(mskpp.Tensor("UB"))
        elif argument == "y":
            arguments.append(mskpp.Tensor("UB", dtypes[1], [elements], "ND", True))
        elif argument == "dtype":
            arguments.append(out)
        elif argument == "if_mix=False":
            arguments.append(dtypes[0] == "FP16" and out == "FP32")
        elif argument == "fill_shape":
            arguments[0] = mskpp.Tensor("UB", dtypes[0], [1], "ND", True)
            arguments.append([elements])
        elif argument == "broadcast_num":
            arguments[0] = mskpp.Tensor("UB", dtypes[0], [1], "ND", True)
            arguments.append(elements)
        else:
            arguments.append(1)
    return getattr(mskpp, instruction.__name__)(*arguments)()
