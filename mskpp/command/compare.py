# SPDX-License-Identifier: Apache-2.0
"""``mskpp compare``: a prediction beside what a profiler measured."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mskpp.command import output
from mskpp.command.frame import FAILED, GOOD, INTERRUPTED, Subparsers, command, near, whole
from mskpp.command.lint import run_script
from mskpp.command.output import say
from mskpp.command.table import Column, emit_table, terminal_columns
from mskpp.core.exploring import Explorer
from mskpp.errors import FileError, InputError

if TYPE_CHECKING:
    from mskpp.core.chip import Chip
    from mskpp.report.compare import Comparison

SCHEMA = 1
SHOWN_ROWS = 3
WIDTH_OF_SUMMARY = 40  # of predicted us, measured us and ratio on a terminal, with the gaps
WIDTH_OF_PAIR = 35
MOST_BLOCKS = 10_000
MOST_RESULT_BYTES = 1 << 30
DESCRIPTION = """Shows what a profiler measured beside the prediction, pipe by pipe, and how many times as long it took.

PROFILE is PipeUtilization.csv or OpBasicInfo.csv of msprof op, op_summary*.csv of msprof, kernel_details*.csv of the
framework's profiler, or the folder that has one of them. The prediction is a result.json, or that of a script, which is
run; its chips write no files then."""
EXAMPLES = """mskpp compare OPPROF_20260102/PipeUtilization.csv --script matmul.py
mskpp compare op_summary_0.csv --operator matmul_kernel --result MSKPP20260102/result.json
mskpp compare kernel_details.csv --operator MatMulV2 --script matmul.py --json -- 1024"""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "compare",
        run,
        summary="a prediction beside a measurement",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="Words after -- are the script's own arguments, sys.argv[1:].",
    )
    parser.add_argument("profile", metavar="PROFILE.csv", help="what the profiler wrote")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--result", metavar="FILE.json", help="the prediction, as a result.json")
    source.add_argument("--script", metavar="FILE.py", help="run it; the prediction is what it models")
    parser.add_argument("--operator", metavar="NAME", help="which operator, by name or type, where there are several")
    parser.add_argument(
        "--block", type=whole(1), metavar="N", help="the script's N-th Chip block, where it has several"
    )
    parser.add_argument(
        "--rows", type=whole(0), default=SHOWN_ROWS, metavar="N",
        help=f"show so many rows of PROFILE beside the one for all; 0: all ({SHOWN_ROWS}; --json has all)",
    )  # fmt: skip


@dataclass(frozen=True)
class Prediction:
    """What is compared."""

    chip: str
    total_us: float
    pipes_us: dict[str, float]
    """By full name, as aic0-PIPE-MTE2."""


def run(arguments: argparse.Namespace) -> int:
    if arguments.result is not None and (arguments.rest or arguments.block is not None):
        given = "words after -- are" if arguments.rest else "--block is"
        arguments.parser.error(f"{given} for --script, and --result is given")
    if arguments.script is not None and not os.path.isfile(arguments.script):
        what = "is a folder, no file" if os.path.isdir(arguments.script) else "does not exist"
        arguments.parser.error(f"{arguments.script} {what}; give a Python file that models with Chip")

    from mskpp.report.compare import Comparison
    from mskpp.report.profiler import read_profile

    profile = read_profile(arguments.profile, operator=arguments.operator)  # first: scripts may take long
    if arguments.result is not None:
        prediction = read_result(arguments.result)
    else:
        collector = Collector()
        with output.stdout_set_aside(arguments.json):
            failure, interrupted = run_script(arguments, collector)
        if failure or interrupted:
            say(f"{arguments.parser.prog}: {failure}")
            return INTERRUPTED if interrupted else FAILED
        prediction = chosen(collector.predictions, arguments.block, arguments.script)
    comparison = Comparison.of(prediction.total_us, prediction.pipes_us, profile)
    if arguments.json:
        output.emit_json(document(prediction, comparison))
    else:
        show(prediction, comparison, arguments.rows)
    return GOOD


# ---------------------------------------------------------------- the prediction


class Collector(Explorer):
    """Keeps what each block of a script predicts, while its chips write and print nothing."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.predictions: list[Prediction] = []

    def ended(self, chip: Chip) -> None:
        super().ended(chip)
        if len(self.predictions) < MOST_BLOCKS:
            result = chip.result
            pipes_us = {name: pipe.duration_us for name, pipe in result.pipes.items()}
            self.predictions.append(Prediction(result.chip, result.duration_us, pipes_us))


def chosen(predictions: Sequence[Prediction], block: int | None, script: str) -> Prediction:
    name = os.path.basename(script)
    if not predictions:
        raise InputError(f"{name} ended no Chip block; give a script that models with Chip")
    if block is None and len(predictions) > 1:
        shown = [f"{i} ({one.chip}, {one.total_us:,.3f} us)" for i, one in enumerate(predictions[:10], 1)]
        more = f" ... ({len(predictions) - 10} more)" if len(predictions) > 10 else ""
        raise InputError(
            f"{name} has {len(predictions)} Chip blocks; choose one with --block: {', '.join(shown)}{more}"
        )
    if block is not None and block > len(predictions):
        raise InputError(f"--block is {block}, and {name} has {len(predictions)} Chip blocks")
    return predictions[(block or 1) - 1]


def read_result(path: str) -> Prediction:
    """The prediction of a result.json, or of the one in a folder. FileError, InputError."""
    if os.path.isdir(path):
        path = os.path.join(path, "result.json")
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_RESULT_BYTES:
                raise InputError(f"{name} is no regular file, or larger than 1 GiB; give a result.json")
            text = file.read(MOST_RESULT_BYTES)
    except OSError as error:
        if os.path.isfile(path):
            raise FileError(f"{name} cannot be read: {error.strerror}") from None
        beside = [entry for entry in listed(os.path.dirname(path)) if entry.endswith(".json")]
        raise FileError(f"{path} cannot be read: {error.strerror}{near(name, beside)}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no JSON ({error}); give a result.json of mskpp") from None
    return of_document(document, name)


def listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


def of_document(document: Any, name: str) -> Prediction:
    """What is compared of a result.json: {"chip", "total": {"us"}, "pipes": [{"name", "duration_us"} ...]}."""
    try:
        pipes = {str(pipe["name"]): time_of(pipe["duration_us"]) for pipe in document["pipes"]}
        return Prediction(str(document.get("chip", "")), time_of(document["total"]["us"]), pipes)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"{name} is no result of mskpp: {what}; write one with a newer mskpp, or use --script"
        ) from None


def time_of(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise ValueError(f"{str(value)[:64]!r} is no time in us")
    return float(value)


# ---------------------------------------------------------------- what is told


def show(prediction: Prediction, comparison: Comparison, rows: int) -> None:
    profile = comparison.profile
    count = len(profile.rows)
    shown = count if rows == 0 else min(rows, count)
    has_summary = count > 1
    if has_summary and sys.stdout is not None and sys.stdout.isatty():
        room = terminal_columns() - max(map(len, comparison.pipes)) - WIDTH_OF_SUMMARY
        shown = max(0, min(shown, room // WIDTH_OF_PAIR))
    operator = f"{profile.operator}, " if profile.operator else ""
    output.emit(output.printable(f"measured: {operator}{profile.what}, {os.path.basename(profile.path)}"))
    output.emit(output.printable(f"predicted: {prediction.chip or 'a chip without a name'}"))
    columns = [Column("pipe"), Column("predicted us", True)]
    columns += [Column("measured us", True), Column("ratio", True)] if has_summary else []
    columns += [Column(heading, True) for heading in comparison.headings()[: 2 * shown]]
    cells = []
    for row in comparison.pipes.values():
        pairs = [(row.summary_us, row.summary_ratio)] if has_summary else []
        pairs += list(zip(row.measured_us, row.ratios, strict=True))[:shown]
        figures = [text for measured, ratio in pairs for text in (as_text(measured, 3), as_text(ratio, 2))]
        cells.append([row.name, as_text(row.predicted_us, 3), *figures])
    emit_table(columns, cells)
    if shown < count:
        more = count - shown
        output.emit(f"... {more:,} more row{'s' if more > 1 else ''}; --json has all")
    if profile.caution:
        output.emit(profile.caution)


def as_text(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def document(prediction: Prediction, comparison: Comparison) -> dict[str, Any]:
    """Of the rows in the lists ``prof_duration_us`` and ``prof_ratio`` of each pipe, ``rows`` says what they are."""
    profile = comparison.profile
    return {
        "schema": SCHEMA,
        "profile": profile.path,
        "operator": profile.operator or None,
        "measured": profile.what,
        "is_task_duration": profile.rows[0].is_task,
        "left_out": profile.left_out,
        "chip": prediction.chip or None,
        "rows": [{"line": row.line, "block": row.block or None} for row in profile.rows],
        "pipes": [
            {
                "name": row.name,
                "predicted_us": row.predicted_us,
                "measured_us": row.summary_us,
                "ratio": row.summary_ratio,
                "prof_duration_us": list(row.measured_us),
                "prof_ratio": list(row.ratios),
            }
            for row in comparison.pipes.values()
        ],
    }
