# SPDX-License-Identifier: Apache-2.0
"""``mskpp chips``: which chips there are, and what is known of one."""

from __future__ import annotations

import argparse
from typing import Any

from mskpp.command.chip_data import loaded
from mskpp.command.frame import FAILED, GOOD, Subparsers, command
from mskpp.command.output import emit, emit_json, printable, say
from mskpp.command.table import Column, emit_table
from mskpp.errors import MskppError

SCHEMA = 1
TABLES = ("mov", "mov_repeat", "mmad", "vec")
MEMORIES = ("GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB")

DESCRIPTION = """Lists the chips that Chip("...") finds: those that come with mskpp, and those of $MSKPP_CHIP_PATH. With
NAME, shows all that is known of one: cores, clock, memories, the moves it can make, and where its costs come from."""

EXAMPLES = """
mskpp chips
mskpp chips 910b4                       # the word Ascend and the case do not matter
mskpp chips ./chips/MyNpu               # a folder of your own
mskpp chips --json | jq -r '.chips[].name'
"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers, "chips", run, summary="which chips there are", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a chip's name, or the path of its folder")


def run(arguments: argparse.Namespace) -> int:
    from mskpp.core import data

    if arguments.name is not None:
        facts = facts_of(arguments.name)
        if arguments.json:
            emit_json({"schema": SCHEMA, **facts})
        else:
            show(facts)
        return GOOD
    found, broken = [], []
    for name in data.chips():
        try:
            found.append(facts_of(name))
        except MskppError as error:  # one bad folder of the user's must not hide the others
            broken.append({"name": name, "problem": str(error)})
    if arguments.json:
        short = ("name", "architecture", "cube_cores", "vector_cores", "clock_mhz", "folder", "costs_from")
        chips = [{key: facts[key] for key in short} for facts in found]
        emit_json({"schema": SCHEMA, "chips": chips, "broken": broken})
    else:
        columns = [Column("chip"), Column("architecture", rank=2), Column("cube", True), Column("vector", True)]
        columns += [Column("MHz", True), Column("costs from", rank=1)]
        emit_table(columns, [short_row(facts) for facts in found])
    for row in broken:
        say(f"{arguments.parser.prog}: {row['name']} cannot be used: {row['problem']}")
    return FAILED if broken else GOOD


def facts_of(name: str) -> dict[str, Any]:
    """InputError for an unknown chip, DataError for a folder that cannot be used."""
    costs = loaded(name)
    return {
        "name": costs.name,
        "folder": str(costs.folder),
        "architecture": costs.architecture,
        "cube_cores": costs.cube_cores,
        "vector_cores": costs.vector_cores,
        "clock_mhz": costs.clock_mhz,
        "aliases": costs.attributes.get("aliases", "").split(),
        "memory_bytes": {memory: costs.capacity_bytes(memory) for memory in MEMORIES},
        "costs_from": {table: costs.sources_of(table) for table in TABLES},
        "paths": [
            {"source": source, "target": target, "pipe": pipe, "port_bytes_per_cycle": port}
            for source, target, pipe, port in costs.paths
        ],
        "vector_instructions": costs.vector_instructions(),
    }


def short_row(facts: dict[str, Any]) -> list[str]:
    sources = dict.fromkeys(source for found in facts["costs_from"].values() for source in found)
    return [
        facts["name"],
        facts["architecture"],
        str(facts["cube_cores"]),
        str(facts["vector_cores"]),
        f"{facts['clock_mhz']:g}",
        ", ".join("own tables" if source == facts["name"] else source for source in sources) or "port widths only",
    ]


def show(facts: dict[str, Any]) -> None:
    lines = [
        ("chip", facts["name"]),
        ("also called", ", ".join(facts["aliases"])),
        ("architecture", facts["architecture"]),
        ("cores", f"{facts['cube_cores']} cube, {facts['vector_cores']} vector"),
        ("clock", f"{facts['clock_mhz']:g} MHz"),
    ]
    lines += [(f"{memory}", f"{size:,} bytes") for memory, size in facts["memory_bytes"].items() if size is not None]
    for table, sources in facts["costs_from"].items():
        lines.append((f"{table}.csv", " over ".join(sources) or "none: port widths are the costs"))
    lines.append(("folder", facts["folder"]))
    for what, text in lines:
        if text:
            emit(printable(f"{what:14} {text}"))
    emit("")
    columns = [Column("from"), Column("to"), Column("pipe"), Column("port, bytes/cycle", True)]
    rows = [
        [path["source"], path["target"], path["pipe"], f"{path['port_bytes_per_cycle']:g}"] for path in facts["paths"]
    ]
    emit_table(columns, rows)
    emit(f"\nmskpp instructions --chip {facts['name']} lists the instructions with their costs")
