# SPDX-License-Identifier: Apache-2.0
"""``mskpp report``: the report page of a result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mskpp.command import modelled, output
from mskpp.command.frame import FAILED, GOOD, INTERRUPTED, Subparsers, command, whole
from mskpp.command.lint import run_script
from mskpp.command.output import emit, printable, say

if TYPE_CHECKING:
    from mskpp.report.result import Result
    from mskpp.report.schema import SavedResult

SCHEMA = 1
WHAT = "a result.json, its folder, or a script that models with Chip"

DESCRIPTION = """Writes one page that explains a result: timeline, pipes, stalls, critical path, what would help. It
needs no network and no other file, so it can be mailed.

SOURCE is a result.json (or the folder that has one), or a script, which is run; its chips write no files then. A page
made of a result.json has no timeline."""

EXAMPLES = """
mskpp report before/result.json                   # report.html here
mskpp report matmul.py --out matmul.html
mskpp report matmul.py --block 2 -- --size 4096   # the second Chip block; sys.argv[1:] of matmul.py
"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "report",
        run,
        summary="a page that explains a result",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="Words after -- are the script's own arguments, sys.argv[1:].",
    )
    parser.add_argument("source", metavar="SOURCE", help="result.json, its folder, or SCRIPT.py")
    parser.add_argument("--out", metavar="FILE", default="report.html", help="write the page there (report.html)")
    parser.add_argument(
        "--block", type=whole(1), metavar="N", help="the script's N-th Chip block, where it has several"
    )


def run(arguments: argparse.Namespace) -> int:
    modelled.checked(arguments.source, arguments.parser, WHAT)
    is_script = modelled.is_script(arguments.source)
    if not is_script and (arguments.rest or arguments.block is not None):
        given = "words after -- are" if arguments.rest else "--block is"
        arguments.parser.error(f"{given} for scripts, and {arguments.source} is none")

    from mskpp.report import files

    out = Path(arguments.out).absolute()
    files.require_report_page()  # before a script that may take long
    result: Result | SavedResult
    if is_script:
        blocks = modelled.Blocks(quiet=True)
        arguments.script = arguments.source
        with output.stdout_set_aside(arguments.json):
            failure, interrupted = run_script(arguments, blocks)
        if failure or interrupted:
            say(f"{arguments.parser.prog}: {failure}")
            return INTERRUPTED if interrupted else FAILED
        texts = [f"{one.chip}, {one.duration_us:,.3f} us" for one in blocks.results[:10]]
        result = modelled.chosen(blocks.results, texts, arguments.block, arguments.source)
    else:
        from mskpp.report.schema import load_result

        result = load_result(arguments.source)
    files.write_report(result, out)
    if arguments.json:
        total = {"cycles": result.total_cycles, "us": result.duration_us}
        output.emit_json({"schema": SCHEMA, "report": str(out), "chip": result.chip, "total": total})
    else:
        emit(printable(f"report: {out}"))
    return GOOD
