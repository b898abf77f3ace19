# SPDX-License-Identifier: Apache-2.0
"""Tables: for people on a terminal, whose width they fit; else whole cells in plain columns, for other programs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from mskpp.command.output import emit, printable

TEXT_COLUMNS = 16  # that a column of texts should have at the least
GAP = 3  # between two columns on a terminal


@dataclass(frozen=True)
class Column:
    """``is_number``: aligned to the right, and never cut. ``rank``: on a narrow terminal columns are left out, those of
    the highest rank first; 0: never."""

    heading: str
    is_number: bool = False
    rank: int = 0


def emit_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Prints the table on stdout. Each row has a cell for each column."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
        emit(drawn(columns, cells, terminal_columns()))
        return
    rows = [[column.heading for column in columns], *cells]
    widths = [max(map(len, whole)) for whole in zip(*rows, strict=True)]
    for row in rows:
        parts = zip(row, widths, columns, strict=True)
        padded = [f"{cell:>{width}}" if column.is_number else f"{cell:{width}}" for cell, width, column in parts]
        emit("  ".join(padded).rstrip())


def drawn(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> str:
    """The table as a terminal of so many columns shows it."""
    from rich.box import ASCII, HEAVY_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    whole = [[cell_len(column.heading)] for column in columns]
    for row in rows:
        for sizes, cell in zip(whole, row, strict=True):
            sizes.append(cell_len(cell))
    widths = fitted(columns, [max(sizes) for sizes in whole], room)
    text = io.StringIO()
    console = Console(file=text, width=room, force_terminal=True, highlight=False)
    is_unicode = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    table = Table(show_edge=False, pad_edge=False, box=HEAVY_HEAD if is_unicode else ASCII)
    for at, width in widths.items():
        table.add_column(
            columns[at].heading,
            justify="right" if columns[at].is_number else "left",
            overflow="ellipsis" if is_unicode else "crop",
            no_wrap=True,
            width=width,
        )
    for row in rows:
        table.add_row(*(Text(row[at]) for at in widths))
    console.print(table)
    return text.getvalue().rstrip("\n")


def fitted(columns: Sequence[Column], widths: Sequence[int], room: int) -> dict[int, int]:
    """Of the columns that there is room for, the positions with their widths. Texts are cut, the widest first."""
    kept = dict(enumerate(widths))
    for at in sorted(kept, key=lambda at: -columns[at].rank):
        least = [w if columns[one].is_number else min(w, TEXT_COLUMNS) for one, w in kept.items()]
        if sum(least) + GAP * (len(kept) - 1) > room and columns[at].rank:
            del kept[at]
    texts = [at for at in kept if not columns[at].is_number]
    for at in texts:
        kept[at] = min(kept[at], room)
    while sum(kept.values()) + GAP * (len(kept) - 1) > room:
        widest = max(texts, key=lambda at: kept[at], default=None)
        if widest is None or kept[widest] <= 1:
            break
        kept[widest] -= 1
    return kept


def terminal_columns() -> int:
    """What $COLUMNS says, else the terminal itself."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
