# SPDX-License-Identifier: Apache-2.0
"""``mskpp data check``: are the chip folders good?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mskpp.command.chip_data import loaded, without_place
from mskpp.command.frame import FAILED, GOOD, Subparsers, command
from mskpp.command.output import emit, emit_json, printable
from mskpp.command.table import Column, emit_table
from mskpp.errors import FileError, InputError, MskppError

SCHEMA = 1
MOST_ENTRIES = 10_000
MOST_SHOWN = 20

DESCRIPTION = """Loads chip folders and reports what is wrong with their tables, with file and line: of each folder the
first problem, as it keeps the others from being seen. docs/add_a_chip.md explains every file, key and column.

FOLDER is one chip's folder, or one with chip folders in it. Without it, all that Chip("...") finds is checked:
$MSKPP_CHIP_PATH and what comes with mskpp. The exit code is 1 when there is a problem."""

EXAMPLES = """
mskpp data check                        # all chips on the search path
mskpp data check chips/MyNpu            # one chip
mskpp data check chips --json
"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "data check",
        run,
        summary="are the chip folders good?",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="a chip's folder, or one with chip folders in it")


def run(arguments: argparse.Namespace) -> int:
    from mskpp.core import data

    usual = data.search_path()
    if arguments.folder is None:
        parents, folders = usual, [entry for parent in usual for entry in chip_folders(parent)]
    else:
        given = Path(arguments.folder)
        if not given.is_dir():
            arguments.parser.error(f"{given} {'is no folder' if given.exists() else 'does not exist'}; give a folder")
        given = given.resolve()
        is_chip = (given / "chip.csv").exists()
        parents = [given.parent if is_chip else given, *usual]
        folders = [given] if is_chip else chip_folders(given)
        if not folders:
            raise InputError(
                f"{arguments.folder} is no chip and has none: there is no chip.csv in it or in a folder of it. How to "
                "write one: docs/add_a_chip.md"
            )
    checked = [(folder, *problem_of(folder, parents)) for folder in folders]
    hidden = hidden_by(folders)
    problems = [(folder, problem) for folder, _, problem in checked if problem]
    if arguments.json:
        chips = [
            {"name": folder.name, "folder": str(folder), "problem": problem or None, "hidden_by": hidden.get(folder)}
            for folder, _, problem in checked
        ]
        emit_json({"schema": SCHEMA, "checked": len(folders), "problems": len(problems), "chips": chips})
    else:
        tell(checked, hidden)
    return FAILED if problems else GOOD


def chip_folders(parent: Path) -> list[Path]:
    """The folders in it that have a table; one without chip.csv is reported, as it was meant to be a chip."""
    try:
        entries = sorted(parent.iterdir())
    except OSError as error:
        raise FileError(f"{parent} cannot be read: {error.strerror}") from None
    if len(entries) > MOST_ENTRIES:
        raise InputError(f"{parent} has more than {MOST_ENTRIES:,} entries; give a folder of chip folders")
    known = ("chip.csv", "paths.csv", "mov.csv", "mov_repeat.csv", "mmad.csv", "vec.csv", "instructions.csv")
    return [entry for entry in entries if entry.is_dir() and any((entry / name).exists() for name in known)]


def problem_of(folder: Path, parents: list[Path]) -> tuple[str, str]:
    """What there is in the folder, and what is wrong with it, or nothing."""
    from mskpp.core.instructions import chip_instructions

    if not (folder / "chip.csv").exists():
        return "", f"data: {folder.name} has tables and no chip.csv, so no name finds it"
    try:
        costs = loaded(str(folder), parents)
        own = len(without_place(lambda: chip_instructions(costs)))
    except MskppError as error:
        return "", with_line(str(error), folder / "chip.csv")
    tables = ", ".join(path.name for path in sorted(folder.glob("*.csv")))
    return f"{tables}{f'; {own} instructions of its own' if own else ''}", ""


def with_line(problem: str, table: Path) -> str:
    """The problem of a key of chip.csv with the line that gives it, where it is this table's."""
    before = f"data: {table.parent.name}/chip.csv:"
    if not problem.startswith(f"{before} "):
        return problem
    key = problem[len(before) :].split()[0]
    with open(table, encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if line.partition(",")[0].strip() == key:
                return f"{before}{number}{problem[len(before) - 1 :]}"
    return problem


def hidden_by(folders: list[Path]) -> dict[Path, str]:
    """The folders that a name does not lead to, as an earlier one has it too."""
    first: dict[str, Path] = {}
    found = {}
    for folder in folders:
        other = first.setdefault(folder.name.lower(), folder)
        if other != folder:
            found[folder] = str(other)
    return found


def tell(checked: list[tuple[Path, str, str]], hidden: dict[Path, str]) -> None:
    for folder, _, problem in checked:
        if problem:
            emit(printable(f"{folder}: {problem.removeprefix('data: ')}"))
    for folder, other in hidden.items():
        emit(printable(f"{folder}: note: {other} comes first and hides it"))
    count = sum(bool(problem) for _, _, problem in checked)
    rows: list[list[Any]] = [[folder.name, tables] for folder, tables, problem in checked if not problem]
    if len(checked) <= MOST_SHOWN and rows:
        emit_table([Column("good"), Column("its files")], rows)
    problems = f"{count} problem{'' if count == 1 else 's'}" if count else "no problem"
    emit(f"{len(checked)} chip folder{'' if len(checked) == 1 else 's'}, {problems}")
