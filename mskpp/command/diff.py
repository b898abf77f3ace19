# SPDX-License-Identifier: Apache-2.0
"""``mskpp diff``: what changed between two results, and whether it grew too much."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mskpp.command import modelled, output
from mskpp.command.frame import FAILED, GOOD, Subparsers, command, whole
from mskpp.command.output import emit, printable, say
from mskpp.command.table import Column, emit_table

if TYPE_CHECKING:
    from mskpp.report.difference import Change, Difference
    from mskpp.report.schema import SavedResult

SCHEMA = 1
SHOWN_ROWS = 10
WHAT = "a result.json, its folder, or a script that models with Chip"

DESCRIPTION = """Shows what takes longer and what shorter in B than in A: the total, pipes, instructions, and what pipes
wait for. The largest changes come first.

A and B are each a result.json (or the folder that has one, as `mskpp run --out` makes it), or a script, which is run.

With --fail-over the exit code is 1 where the total grew by more, so that a CI job fails. A limit is a share of A, as
5%, or a number of cycles, as 1000. --fail-over-pipe does the same for the busy time of each pipe. With
--fail-on-warnings it is 1 where a local memory of B overflows."""

EXAMPLES = """
mskpp diff before/result.json after/result.json
mskpp diff before after --fail-over 5%            # exit code 1 when the total grew by more than 5 %
mskpp diff baseline.json matmul.py --fail-over 0% --fail-over-pipe 1000
mskpp diff before after --json | jq .total
"""


@dataclass(frozen=True)
class Limit:
    """How much something may grow: a share, or cycles."""

    text: str
    value: float
    is_share: bool


def limit(text: str) -> Limit:
    """The type of an option: 5% or 1000."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*(%?)", text.strip(), re.ASCII)
    if found is None or (not found[2] and "." in found[1]):
        share = re.fullmatch(r"0?\.\d{1,15}", text.strip(), re.ASCII)
        meant = f"; did you mean {100 * float(share[0]):.12g}%?" if share is not None else ""
        raise argparse.ArgumentTypeError(f"{text!r} is neither a share, as 5%, nor a number of cycles, as 1000{meant}")
    return Limit(text.strip(), float(found[1]) / (100 if found[2] else 1), bool(found[2]))


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "diff",
        run,
        summary="what changed between two results; a gate for CI",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="Words after -- are the arguments of the scripts, sys.argv[1:].",
    )
    parser.add_argument("before", metavar="A", help="result.json, its folder, or SCRIPT.py")
    parser.add_argument("after", metavar="B", help="likewise")
    parser.add_argument("--fail-over", type=limit, metavar="LIMIT", help="exit code 1 when the total grew by more")
    parser.add_argument("--fail-over-pipe", type=limit, metavar="LIMIT", help="exit code 1 when a pipe grew by more")
    parser.add_argument("--fail-on-warnings", action="store_true", help="exit code 1 when a memory of B overflows")
    parser.add_argument("--block", type=whole(1), metavar="N", help="the N-th Chip block of a script with several")
    parser.add_argument(
        "--rows", type=whole(0), default=SHOWN_ROWS, metavar="N",
        help=f"show so many changes of each kind; 0: all ({SHOWN_ROWS}; --json has all)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    paths = (arguments.before, arguments.after)
    for path in paths:
        modelled.checked(path, arguments.parser, WHAT)
    if not any(map(modelled.is_script, paths)) and (arguments.rest or arguments.block is not None):
        given = "words after -- are" if arguments.rest else "--block is"
        arguments.parser.error(f"{given} for scripts, and neither A nor B is one")

    from mskpp.report.difference import Difference

    before, after = (modelled.read(path, arguments.block, arguments.rest, arguments.parser.prog) for path in paths)
    difference = Difference.of(before, after)
    grown = exceeded(arguments, difference, before.clock_mhz)
    if arguments.json:
        output.emit_json(document(arguments, before, after, difference, grown))
    else:
        show(arguments, before, after, difference)
    for text in grown:
        say(f"{arguments.parser.prog}: {text}")
    return FAILED if grown else GOOD


def exceeded(arguments: argparse.Namespace, difference: Difference, clock_mhz: float) -> list[str]:
    """A line for each limit that does not hold."""
    found = []
    for option, allowed, changes in (
        ("--fail-over", arguments.fail_over, [difference.total]),
        ("--fail-over-pipe", arguments.fail_over_pipe, difference.pipes),
    ):
        if allowed is None:
            continue
        most = allowed.value / (1 if allowed.is_share or difference.unit == "cycles" else clock_mhz)
        for change in changes:
            if change.exceeds(most, allowed.is_share):
                share = "" if change.share is None else f" ({change.share:+.2%})"
                figures = f"{figure(change.before, difference.unit)} to {figure(change.after, difference.unit)}"
                name = "the total" if change is difference.total else change.name
                found.append(f"{name} grew from {figures} {difference.unit}{share}, more than {option} {allowed.text}")
    if arguments.fail_on_warnings:
        found += [f"--fail-on-warnings: {text}" for text in difference.warnings]
    return found


# ---------------------------------------------------------------- what is told


def show(arguments: argparse.Namespace, before: SavedResult, after: SavedResult, difference: Difference) -> None:
    for what, path, result in (("before", arguments.before, before), ("after ", arguments.after, after)):
        emit(printable(f"{what}: {path}, {result.chip}, {result.duration_us:,.3f} us"))
    for note in difference.notes:
        emit(printable(f"note: {note}"))
    for warning in difference.warnings:
        what = "new in B" if warning in difference.new_warnings else "A too has one of it"
        emit(printable(f"warning, {what}: {warning}"))
    for warning in difference.gone_warnings:
        emit(printable(f"warning, only of A: {warning}"))
    unit = difference.unit
    emit("")
    show_group(f"total, {unit}", [difference.total], 0, unit)
    for title, changes in (
        (f"pipe, busy {unit}", difference.pipes),
        (f"instruction, busy {unit}", difference.instructions),
        (f"pipe waits for, {unit}", difference.causes),
    ):
        changed = [change for change in changes if change.absolute]
        emit("")
        if changed:
            show_group(title, changed, arguments.rows, unit)
        else:
            emit(f"{title}: no change")


def show_group(title: str, changes: Sequence[Change], rows: int, unit: str) -> None:
    columns = [Column(title), Column("before", True, 1), Column("after", True), Column("change", True)]
    columns.append(Column("%", True))
    shown = changes[: rows or None]
    cells = [
        [
            change.name,
            figure(change.before, unit),
            figure(change.after, unit),
            figure(change.absolute, unit, "+"),
            "-" if change.share is None else f"{100 * change.share:+,.2f}",
        ]
        for change in shown
    ]
    emit_table(columns, cells)
    if len(changes) > len(shown):
        emit(f"... {len(changes) - len(shown):,} more; --rows 0 shows all")


def figure(value: float | None, unit: str, sign: str = "") -> str:
    if value is None:
        return "-"
    return format(value, f"{sign},.0f" if unit == "cycles" else f"{sign},.3f")


def document(
    arguments: argparse.Namespace, before: SavedResult, after: SavedResult, difference: Difference, grown: list[str]
) -> dict[str, Any]:
    """Changes of 0 too. ``exceeded``: a line for each limit that does not hold."""

    def rows(changes: Sequence[Change]) -> list[dict[str, Any]]:
        return [
            {
                "name": change.name,
                "before": change.before,
                "after": change.after,
                "change": change.absolute,
                "share": change.share,
            }
            for change in changes
        ]

    def side(path: str, result: SavedResult) -> dict[str, Any]:
        return {
            "source": path,
            "chip": result.chip,
            "cycles": result.total_cycles,
            "us": result.duration_us,
            "warnings": list(result.warnings),
        }

    return {
        "schema": SCHEMA,
        "before": side(arguments.before, before),
        "after": side(arguments.after, after),
        "notes": list(difference.notes),
        "unit": difference.unit,
        "total": rows([difference.total])[0],
        "pipes": rows(difference.pipes),
        "instructions": rows(difference.instructions),
        "ledger": rows(difference.causes),
        "warnings": list(difference.warnings),
        "new_warnings": list(difference.new_warnings),
        "exceeded": grown,
    }
