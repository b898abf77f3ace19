# SPDX-License-Identifier: Apache-2.0
"""``mskpp run SCRIPT.py``: runs a script that models, and says how long each block takes and what would help."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.command import modelled, output
from mskpp.command.chip_data import loaded
from mskpp.command.frame import FAILED, GOOD, INTERRUPTED, Subparsers, command
from mskpp.command.lint import run_script
from mskpp.command.output import emit, printable, say
from mskpp.command.table import Column, emit_table
from mskpp.errors import MskppError

if TYPE_CHECKING:
    from mskpp.report.result import Result

SCHEMA = 1
SHOWN_BLOCKS = 50
EXPLAINED_BLOCKS = 3  # of more, only the slowest is explained

DESCRIPTION = """Runs a script as python does, and shows of each `with Chip(...)` block how long it takes, the pipe that
it is bound by, the L2 cache hit ratio, and at most three changes that would gain 1 % or more.

With --out, all that is known of a block is written: result.json for programs, report.html for people, trace.json for
chrome://tracing and Perfetto, and the tables as CSV. With several blocks each has a folder: DIR/1, DIR/2 ...
What the script itself writes and prints stays as it is."""

EXAMPLES = """
mskpp run matmul.py                               # time, bound, what would help
mskpp run matmul.py --out before                  # before/result.json, report.html, trace.json ...
mskpp run matmul.py --chip Ascend910B4            # on another chip than the script names
mskpp run matmul.py --strict                      # a local memory that overflows is an error
mskpp run matmul.py --json | jq .results[0].total
mskpp run matmul.py -- --size 4096                # sys.argv[1:] of matmul.py
"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "run",
        run,
        summary="run a script: how long its kernels take, and why",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="Words after -- are the script's own arguments, sys.argv[1:].",
    )
    parser.add_argument("script", metavar="SCRIPT.py", help="the script; it runs as with python")
    parser.add_argument("--chip", metavar="X", help="every Chip of the script models this one; name or folder")
    parser.add_argument("--out", metavar="DIR", help="write all results there; it is made where it is missing")
    parser.add_argument("--strict", action="store_true", help="as Chip(..., strict=True), for every Chip of the script")


def run(arguments: argparse.Namespace) -> int:
    modelled.checked(arguments.script, arguments.parser, "a script")
    chip = checked_chip(arguments)
    out = checked_out(arguments)
    blocks = modelled.Blocks(quiet=False)

    from mskpp.core import exploring

    with output.stdout_set_aside(arguments.json):
        with exploring.wishing(chip, arguments.strict):
            failure, interrupted = run_script(arguments, blocks)
        if not blocks.results and not failure and not interrupted:
            failure = f"{arguments.script} ran no `with Chip(...)` block to its end, so there is nothing to show"
        files: list[Path] = []
        if out is not None and blocks.results:
            try:
                files = written(blocks.results, out, arguments.parser.prog)
            except MskppError as error:
                failure = failure or str(error)
    if arguments.json:
        output.emit_json(document(arguments.script, blocks, files, failure))
    elif blocks.results:
        tell(blocks, out)
    if blocks.left_out:
        kept = len(blocks.results)
        say(f"{arguments.parser.prog}: {blocks.left_out:,} more blocks ran; the first {kept:,} are kept")
    if failure:
        say(f"{arguments.parser.prog}: {failure}")
    if interrupted:
        return INTERRUPTED
    return FAILED if failure else GOOD


def checked_chip(arguments: argparse.Namespace) -> str | None:
    """The folder of the chip that takes the place of the script's. Ends with wrong usage for an unknown one."""
    if arguments.chip is None:
        return None
    try:
        costs = loaded(arguments.chip)
    except MskppError as error:
        arguments.parser.error(f"--chip: {str(error).removeprefix('Chip: ')}")
    return str(costs.folder)


def checked_out(arguments: argparse.Namespace) -> Path | None:
    """The folder, absolute, as scripts may change theirs. Ends with wrong usage where it cannot be one."""
    if arguments.out is None:
        return None
    out = Path(os.path.abspath(arguments.out))
    above = next(folder for folder in (out, *out.parents) if os.path.lexists(folder))
    if not above.is_dir():
        arguments.parser.error(f"--out: {above} is no folder; give a folder, or the name of a new one")
    if not os.access(above, os.W_OK | os.X_OK):
        arguments.parser.error(f"--out: {above} cannot be written to")
    return out


def written(results: list[Result], out: Path, prog: str) -> list[Path]:
    """Writes the files of all blocks."""
    from mskpp.report import files
    from mskpp.report.schema import FILE_NAME

    several = len(results) > 1
    found = [
        path
        for number, result in enumerate(results, 1)
        for path in files.write_files(result, out / str(number) if several else out)
    ]
    if not files.has_report_page():
        say(f"{prog}: this mskpp has no report page; report.html is not written")
    others = [out / FILE_NAME, *(entry / FILE_NAME for entry in out.iterdir() if entry.name.isdecimal())]
    old = sorted(str(path.parent) for path in others if path not in found and path.exists())
    if old:
        more = f" and {len(old) - 3} more" if len(old) > 3 else ""
        say(f"{prog}: {', '.join(old[:3])}{more} still has the result.json of an earlier run")
    return found


# ---------------------------------------------------------------- what is told


def tell(blocks: modelled.Blocks, out: Path | None) -> None:
    results = blocks.results
    several = len(results) > 1
    columns = [Column("chip"), Column("us", True), Column("cycles", True, 1), Column("bound by"), Column("busy", True)]
    columns = [Column("block", True), *columns] if several else columns
    rows = [
        [*([str(number)] if several else []), *line(result)] for number, result in enumerate(results[:SHOWN_BLOCKS], 1)
    ]
    emit_table(columns, rows)
    if len(results) > SHOWN_BLOCKS:
        emit(f"... {len(results) - SHOWN_BLOCKS:,} more blocks; --json has all")
    if len(results) <= EXPLAINED_BLOCKS:
        explained = list(range(len(results)))
    else:
        explained = [max(range(len(results)), key=lambda at: results[at].duration_us)]
    for at in explained:
        if several:
            emit(f"\nblock {at + 1}{', the slowest' if len(results) > EXPLAINED_BLOCKS else ''}")
        else:
            emit("")
        explain(results[at])
    if out is not None:
        emit(printable(f"files: {out}{f'/1 ... {out}/{len(results)}' if several else ''}"))


def line(result: Result) -> list[str]:
    bound = result.bound
    share = result.pipes[bound].cycles / result.total_cycles if bound is not None and result.total_cycles else None
    return [
        result.chip,
        f"{result.duration_us:,.3f}",
        f"{result.total_cycles:,}",
        bound or "-",
        "-" if share is None else f"{share:.1%}",
    ]


def explain(result: Result) -> None:
    """What would help, and what is to be known of the figures."""
    from mskpp.report.advice import first_changes, sentence
    from mskpp.report.portable import hit_ratio_text

    emit(hit_ratio_text(result.cache_hit_ratio))
    gains = first_changes(result.what_if)
    if gains:
        columns = [Column("what would help"), Column("us", True), Column("gain", True)]
        rows = [
            [
                sentence(gain),
                f"{gain.total_cycles / result.clock_mhz:,.3f}",
                f"{gain.gain_cycles / result.total_cycles:.1%}",
            ]
            for gain in gains
        ]
        emit_table(columns, rows)
    else:
        emit("what would help: nothing that was tried gains 1 %")
    guesses: Counter[str] = Counter()
    for row in result.costs_not_measured:
        guesses[row.origin] += row.count
    if guesses:
        emit(f"costs not measured: {', '.join(f'{count:,} {origin}' for origin, count in guesses.items())}")
    for note in result.notes if guesses["inherited"] else ():
        emit(printable(note))
    for warning in result.warnings:
        emit(printable(f"warning: {warning}"))


def document(script: str, blocks: modelled.Blocks, files: list[Path], failure: str) -> dict[str, Any]:
    """``results``: a result.json for each block."""
    from mskpp.report.schema import document_of

    return {
        "schema": SCHEMA,
        "script": os.path.basename(script),
        "failure": failure or None,
        "left_out": blocks.left_out,
        "files": [str(path) for path in files],
        "results": [document_of(result) for result in blocks.results],
    }
