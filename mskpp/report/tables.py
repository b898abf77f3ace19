# SPDX-License-Identifier: Apache-2.0
"""Statistics as CSV files and as the one table in the terminal."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from mskpp.report.compare import Comparison, as_text
from mskpp.report.result import Result, Statistic

COLUMNS = ("Duration(us)", "Cycle", "Size(B)", "Ops")
_MOST_ROWS = 30  # of each kind, so that stdout stays under 100 lines whatever was modelled
_PIPED_WIDTH = 110
_LONGEST_NAME = 44
_CONSOLE_COLUMNS = ("us", "cycles", "busy", "bytes", "operations", "count")
# Of columns of usual width in the terminal, with the gaps before them.
_WIDTH_AT_LEAST = 22  # us, busy
_WIDTH_OF_CYCLES = 13
_WIDTH_OF_WORK = 40  # bytes, operations, count
_WIDTH_OF_SUMMARY = 24
_WIDTH_OF_PAIR = 35


def _cells(row: Statistic) -> list[str]:
    work = ["-" if value is None else str(value) for value in (row.bytes, row.operations)]
    return [row.name, f"{row.duration_us:.6f}", str(row.cycles), *work]


def _write(file: TextIO, title: str, rows: Iterable[list[str]], more: Sequence[str] = ()) -> None:
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([title, *COLUMNS, *more])
    writer.writerows(rows)


def write_pipes(result: Result, file: TextIO) -> None:
    """Pipe_statistic.csv: a row Total (the makespan), then a row a pipe; measurements beside them, where there are."""
    rows = [["Total", f"{result.duration_us:.6f}", str(result.total_cycles), "-", "-"]]
    rows += map(_cells, result.pipes.values())
    comparison = result.comparison
    if comparison is None:
        _write(file, "Pipe", rows)
    else:
        compared = (row + comparison.cells(row[0]) for row in rows)
        _write(file, "Pipe", compared, comparison.headings())


def write_instructions(result: Result, file: TextIO) -> None:
    """Instruction_statistic.csv: a row an instruction."""
    _write(file, "Instruction", map(_cells, result.instructions.values()))


@dataclass(frozen=True)
class _Beside:
    """The measured columns of the table in the terminal: as many rows of the profile as there is room for, and one for
    all where there are several."""

    comparison: Comparison
    pairs: int
    columns: tuple[str, ...]
    """What of the prediction there is room for."""

    @classmethod
    def of(cls, comparison: Comparison, names: Iterable[str], room: int) -> _Beside:
        rows = len(comparison.profile.rows)
        room -= min(_LONGEST_NAME, max(map(len, names), default=0)) + _WIDTH_AT_LEAST
        room -= _WIDTH_OF_SUMMARY if rows > 1 else 0
        pairs = max(0 if rows > 1 else 1, min(rows, room // _WIDTH_OF_PAIR))
        room -= pairs * _WIDTH_OF_PAIR
        if room >= _WIDTH_OF_CYCLES + _WIDTH_OF_WORK:
            return cls(comparison, pairs, _CONSOLE_COLUMNS)
        return cls(comparison, pairs, ("us", "cycles", "busy") if room >= _WIDTH_OF_CYCLES else ("us", "busy"))

    def headings(self) -> list[str]:
        summary = ["measured us", "ratio"] if len(self.comparison.profile.rows) > 1 else []
        return summary + self.comparison.headings()[: 2 * self.pairs]

    def cells(self, name: str) -> list[str]:
        row = self.comparison.pipes[name]
        several = len(self.comparison.profile.rows) > 1
        pairs = [(row.summary_us, row.summary_ratio)] if several else []
        pairs += list(zip(row.measured_us, row.ratios, strict=True))[: self.pairs]
        return [text for measured, ratio in pairs for text in (as_text(measured, 3), as_text(ratio, 2))]

    def notes(self) -> list[str]:
        profile = self.comparison.profile
        name = f"{profile.operator}, " if profile.operator else ""
        notes = [f"measured: {name}{profile.what}, {os.path.basename(profile.path)}"]
        notes += [profile.caution] if profile.caution else []
        if self.pairs < len(profile.rows):
            notes.append(f"... {len(profile.rows) - self.pairs:,} more of its rows in Pipe_statistic.csv")
        return notes


def print_summary(result: Result, folder: str) -> None:
    """The total first, then a table of the busiest pipes and instructions, then where the files are."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False)
    console.print(
        f"{result.chip}: {result.duration_us:.3f} us, {result.total_cycles:,} cycles, {len(result):,} instructions",
        markup=False,
    )
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("pipe / instruction", overflow="ellipsis", no_wrap=True, max_width=_LONGEST_NAME)
    names = [*result.pipes, *result.instructions]
    beside = None if result.comparison is None else _Beside.of(result.comparison, names, console.width)
    columns = _CONSOLE_COLUMNS if beside is None else beside.columns
    more = [] if beside is None else beside.headings()
    for heading in (*columns, *more):
        table.add_column(heading, justify="right")
    if beside is not None:
        total = {"us": f"{result.duration_us:.3f}", "cycles": f"{result.total_cycles:,}", "busy": "100.0%"}
        table.add_row("Total", *(total.get(column, "") for column in columns), *beside.cells("Total"))
    for rows in (result.pipes, result.instructions):
        busiest = sorted(rows.values(), key=lambda row: -row.cycles)
        for row in busiest[:_MOST_ROWS]:
            share = row.cycles / result.total_cycles if result.total_cycles else 0
            work = ["-" if value is None else f"{value:,}" for value in (row.bytes, row.operations)]
            cells = [f"{row.duration_us:.3f}", f"{row.cycles:,}", f"{share:.1%}", *work, f"{row.count:,}"]
            of_column = dict(zip(_CONSOLE_COLUMNS, cells, strict=True))
            measured = beside.cells(row.name) if beside is not None and rows is result.pipes else [""] * len(more)
            table.add_row(row.name, *(of_column[column] for column in columns), *measured)
        if len(busiest) > _MOST_ROWS:
            table.add_row(f"... {len(busiest) - _MOST_ROWS} more in the CSV file")
        if rows is result.pipes:
            table.add_section()
    console.print(table)
    for note in beside.notes() if beside is not None else ():
        console.print(note, markup=False)
    for note in result.notes if result.origins.get("inherited") else ():
        console.print(note, markup=False)
    guesses = {origin: count for origin, count in result.origins.items() if origin not in ("measured", "interpolated")}
    if guesses:
        console.print(
            "costs not measured: " + ", ".join(f"{count:,} {origin}" for origin, count in guesses.items()), markup=False
        )
    for warning in result.warnings:
        console.print(f"warning: {warning}", markup=False)
    console.print(f"files: {folder}", markup=False, soft_wrap=True)
