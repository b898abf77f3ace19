# SPDX-License-Identifier: Apache-2.0
"""``mskpp instructions``: which instructions there are, and for which dtypes a chip has their cost."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.command.chip_data import loaded, without_place
from mskpp.command.frame import GOOD, Subparsers, command, near
from mskpp.command.output import emit, emit_json, printable
from mskpp.command.table import Column, emit_table
from mskpp.errors import InputError, MskppError

if TYPE_CHECKING:
    from mskpp._core import Costs

SCHEMA = 1
COLUMNS = ["function", "instruction", "arguments", "reads", "writes", "accumulates", "pipe", "cost", "out_dtype"]
COLUMNS += ["out_shape", "summary"]
MOST_BASES = 8
LEAST_POWER = 10  # a move of 1 KiB: [16, 32] of FP16
MOST_POWER = 20
MOVE_COLUMNS = {
    "plain": "cycles",
    "plain_hit_0": "cycles, hit 0",
    "plain_hit_1": "hit 1",
    "converted": "ND to NZ",
    "converted_hit_0": "ND to NZ, hit 0",
    "converted_hit_1": "hit 1",
}
MMAD_WORK = 4096  # any will do to see whether there is a rate

DESCRIPTION = """Lists the instructions, with the dtypes that the chip has a cost for. With NAME (of the function, or as
reports name it), shows one: operands, what it reads and writes, pipe, and each set of dtypes with a cost.

With a move, as MOV-GM_TO_L1, shows what it costs for how many bytes: without and with a change of the format on the way
(ND to NZ), at an L2 cache hit ratio of 0 and of 1.

Costs of other dtypes can be registered: docs/add_an_instruction.md."""

EXAMPLES = """
mskpp instructions
mskpp instructions vadd --chip Ascend910B4
mskpp instructions VADD --json
mskpp instructions MOV-GM_TO_L1                   # its cycles by bytes
"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "instructions",
        run,
        summary="which instructions there are, and their dtypes",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="one instruction: vadd, VADD or MOV-GM_TO_L1")
    parser.add_argument("--chip", metavar="X", help="whose costs; name or folder (the chip that most tables are of)")


def run(arguments: argparse.Namespace) -> int:
    from mskpp.core import data

    costs = loaded(arguments.chip or data.DEFAULT_CHIP)
    if arguments.name is not None and arguments.name.upper().startswith("MOV-"):
        return show_move(arguments, costs)
    found = rows_of(costs)
    if arguments.name is not None:
        wanted = arguments.name.lower()
        found = [row for row in found if wanted in (row["function"], row["instruction"].lower())]
        if not found:
            known = [row["function"] for row in rows_of(costs)]
            raise InputError(
                f"unknown instruction {arguments.name[:64]!r}{near(wanted, known)} `{arguments.parser.prog}` lists all "
                f"{len(known)}"
            )
    if arguments.json:
        emit_json({"schema": SCHEMA, "chip": costs.name, "instructions": found})
    elif arguments.name is not None:
        for row in found:
            show(row, costs.name)
    else:
        columns = [Column("call"), Column("in reports", rank=3), Column("pipe", rank=2)]
        columns += [Column("what it does", rank=1), Column("dtypes with a cost")]
        cells = [
            [
                f"{row['function']}({row['arguments'].replace(' ', ', ')})",
                row["instruction"],
                row["pipe"],
                row["summary"],
                short(row),
            ]
            for row in found
        ]
        emit_table(columns, cells)
    return GOOD


def show_move(arguments: argparse.Namespace, costs: Costs) -> int:
    wanted = arguments.name.upper()
    paths = {f"MOV-{source}_TO_{target}": (source, target, pipe, port) for source, target, pipe, port in costs.paths}
    if wanted not in paths:
        raise InputError(
            f"{costs.name} has no move {arguments.name[:64]!r}{near(wanted, list(paths))} `mskpp chips {costs.name}` "
            "lists its paths"
        )
    source, target, pipe, port = paths[wanted]
    rows = move_rows(costs, source, target)
    if arguments.json:
        document = {"name": wanted, "source": source, "target": target, "pipe": pipe, "port_bytes_per_cycle": port}
        emit_json({"schema": SCHEMA, "chip": costs.name, "move": {**document, "cycles": rows}})
        return GOOD
    emit(printable(f"{wanted} on {pipe}, {costs.name} at {costs.clock_mhz:g} MHz: port {port:g} bytes/cycle"))
    emit("")
    shown = [name for name in rows[0] if name != "bytes" and any(row[name] is not None for row in rows)]
    if not shown:
        emit(f"what it costs does not follow from bytes alone: model it with tensors of {target}")
        return GOOD
    columns = [Column("bytes", True)]
    for name in shown:
        columns += [Column(MOVE_COLUMNS[name], True), Column("bytes/cycle", True, 1)]
    cells = []
    for row in rows:
        size = row["bytes"] or 0
        line = [f"{size:,}"]
        for name in shown:
            cycles = row[name]
            line += ["-", "-"] if cycles is None else [f"{cycles:,}", f"{size / cycles:.2f}" if cycles else "-"]
        cells.append(line)
    emit_table(columns, cells)
    return GOOD


def move_rows(costs: Costs, source: str, target: str) -> list[dict[str, int | None]]:
    """The cycles of one move of each size, as a block models it; None where the chip cannot make it."""
    sizes = [1 << power for power in range(LEAST_POWER, MOST_POWER + 1)]
    room = [bytes_ for memory in (source, target) if (bytes_ := costs.capacity_bytes(memory)) is not None]
    sizes = [size for size in sizes if size <= min(room, default=sizes[-1])] or sizes[:1]
    rows: list[dict[str, int | None]] = [{"bytes": size} for size in sizes]
    ratios = (0.0, 1.0) if "GM" in (source, target) else (0.0,)
    for is_converted in (False, True):
        for ratio in ratios:
            found = move_cycles(costs, (source, target), sizes, ratio, is_converted)
            name = (
                f"{'converted' if is_converted else 'plain'}_hit_{ratio:g}"
                if len(ratios) > 1
                else ("converted" if is_converted else "plain")
            )
            for at, row in enumerate(rows):
                row[name] = found[at] if found else None
    return rows


def move_cycles(
    costs: Costs, path: tuple[str, str], sizes: list[int], ratio: float, is_converted: bool
) -> list[int] | None:
    from mskpp import Chip, Tensor

    if is_converted and path != ("GM", "L1"):
        return None
    source, target = path
    try:
        with Chip(str(costs.folder)) as chip:
            chip.set_cache_hit_ratio({"cache_hit_ratio": ratio})
            for size in sizes:
                form = "ND" if source in ("GM", "UB") or target in ("GM", "UB") else "NZ"
                to = Tensor(target, format="NZ" if is_converted else form)
                to.load(Tensor(source, "FP16", [16, size // 32], form, True))
    except MskppError:  # as a path that needs a shape of its own
        return None
    return [event.end - event.start for event in chip.result.events() if event.kind == "move"]


def rows_of(costs: Costs) -> list[dict[str, Any]]:
    """The rows of the package's table and of the chip's own, with the dtypes."""
    from mskpp.core.instructions import TABLE, chip_instructions

    without_place(lambda: chip_instructions(costs))  # a DataError for tables that cannot be used
    found: dict[str, dict[str, Any]] = {}
    for file in (TABLE, *(Path(folder) / "instructions.csv" for folder in costs.folders)):
        if file.exists():
            for row in table_rows(file):
                found.setdefault(row["function"], row)
    return [{**{name: row.get(name) or "" for name in COLUMNS}, "dtypes": dtypes(row, costs)} for row in found.values()]


def table_rows(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def dtypes(row: dict[str, str], costs: Costs) -> list[str] | None:
    """The keys of its costs, as "FP16 FP16 FP16"; None: any."""
    kind = row["cost"].split()[0]
    if kind == "rate":
        return costs.vector_dtypes(row["instruction"])
    if kind == "mmad":
        return mmad_dtypes(costs)
    if kind == "register" and not any(target == "VEC" for _, target, _, _ in costs.paths):
        return []  # a chip without vector registers
    return None


def mmad_dtypes(costs: Costs) -> list[str]:
    """Those that the chip or one of its bases has a peak for."""
    names: dict[str, None] = {}
    base: Costs | None = costs
    for _ in range(MOST_BASES):
        if base is None:
            break
        attributes = base.attributes
        names.update(dict.fromkeys(key.partition(".")[2] for key in attributes if key.startswith("mmad_peak.")))
        above = attributes.get("base")
        base = loaded(above) if above else None
    return sorted(name for name in names if costs.mmad_rate(name, MMAD_WORK))


def short(row: dict[str, Any]) -> str:
    """The dtypes in a cell: of operands that are all alike, one."""
    if row["dtypes"] is None:
        return "any"
    parts = []
    for key in row["dtypes"]:
        words = key.split()
        parts.append(words[0] if len(set(words)) == 1 else "->".join(words) if len(words) == 2 else key)
    return ", ".join(sorted(parts)) or "none"


def show(row: dict[str, Any], chip: str) -> None:
    known = row["dtypes"]
    lines = [
        ("call", f"{row['function']}({row['arguments'].replace(' ', ', ')})()"),
        ("what it does", row["summary"]),
        ("in reports", f"{row['instruction']} on {row['pipe']}"),
        ("reads", row["reads"].replace(" ", ", ")),
        ("writes", "a new tensor" if row["writes"] == "new" else row["writes"]),
        ("accumulates", "reads what it writes too, once that holds a value" if row["accumulates"] else ""),
        ("output", f"dtype as {row['out_dtype']}, size as {row['out_shape']}"),
        ("cost", row["cost"]),
        ("dtypes", "any" if known is None else "" if known else f"none on {chip}: docs/add_an_instruction.md"),
    ]
    for what, text in lines:
        if text:
            emit(printable(f"{what:13} {text}"))
    for number, key in enumerate(known or ()):
        emit(printable(f"{'' if number else 'dtypes':13} {key}"))
