# SPDX-License-Identifier: Apache-2.0
"""Statistics as CSV files and as the one table in the terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from typing import TextIO

from mskpp.report.result import Result, Statistic

COLUMNS = ("Duration(us)", "Cycle", "Size(B)", "Ops")
_MOST_ROWS = 30  # of each kind, so that stdout stays under 100 lines whatever was modelled
_PIPED_WIDTH = 110
_LONGEST_NAME = 44


def _cells(row: Statistic) -> list[str]:
    work = ["-" if value is None else str(value) for value in (row.bytes, row.operations)]
    return [row.name, f"{row.duration_us:.6f}", str(row.cycles), *work]


def _write(file: TextIO, title: str, rows: Iterable[list[str]]) -> None:
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([title, *COLUMNS])
    writer.writerows(rows)


def write_pipes(result: Result, file: TextIO) -> None:
    """Pipe_statistic.csv: a row Total (the makespan), then a row a pipe."""
    total = ["Total", f"{result.duration_us:.6f}", str(result.total_cycles), "-", "-"]
    _write(file, "Pipe", [total, *map(_cells, result.pipes.values())])


def write_instructions(result: Result, file: TextIO) -> None:
    """Instruction_statistic.csv: a row an instruction."""
    _write(file, "Instruction", map(_cells, result.instructions.values()))


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
    for heading in ("us", "cycles", "busy", "bytes", "operations", "count"):
        table.add_column(heading, justify="right")
    for rows in (result.pipes, result.instructions):
        busiest = sorted(rows.values(), key=lambda row: -row.cycles)
        for row in busiest[:_MOST_ROWS]:
            share = row.cycles / result.total_cycles if result.total_cycles else 0
            work = ["-" if value is None else f"{value:,}" for value in (row.bytes, row.operations)]
            table.add_row(
                row.name, f"{row.duration_us:.3f}", f"{row.cycles:,}", f"{share:.1%}", *work, f"{row.count:,}"
            )
        if len(busiest) > _MOST_ROWS:
            table.add_row(f"... {len(busiest) - _MOST_ROWS} more in the CSV file", *[""] * 6)
        if rows is result.pipes:
            table.add_section()
    console.print(table)
    for note in result.notes if result.origins.get("inherited") else ():
        console.print(note, markup=False)
    guesses = {origin: count for origin, count in result.origins.items() if origin not in ("measured", "interpolated")}
    if guesses:
        console.print(
            "costs not measured: " + ", ".join(f"{count:,} {origin}" for origin, count in guesses.items()), markup=False
        )
    console.print(f"files: {folder}", markup=False, soft_wrap=True)
