# SPDX-License-Identifier: Apache-2.0
"""What a result and one read from a file can do alike: JSON, and tables for pandas and notebooks."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mskpp.errors import ArgumentError, InputError, StateError
from mskpp.report.analysis import Unmeasured

if TYPE_CHECKING:
    from mskpp.report.result import Event, Result
    from mskpp.report.schema import SavedResult

TABLES = ("pipes", "instructions", "events", "stalls", "what_if", "ledger", "critical_path", "roofline", "memory")
_MOST_PIPES = 12


class Portable:
    """The part that ``chip.result`` and ``mskpp.load_result`` have in common."""

    def to_json(self: Any) -> str:
        """The whole result as the text of a result.json (docs/result_json.md)."""
        from mskpp.report import schema

        return schema.dump(self)

    def write_json(self: Any, path: str | os.PathLike[str]) -> None:
        """Writes result.json: whole or not at all. Raises FileError."""
        from pathlib import Path

        from mskpp.report import output

        text = self.to_json()
        with output.new_file(Path(path), "write_json") as file:
            file.write(text)

    def to_html(self: Any, path: str | os.PathLike[str]) -> None:
        """Writes report.html: one page without a network that says why it takes so long (docs/read_a_report.md).

        Whole or not at all. Raises ArgumentError and InputError for what is no path, and FileError.
        """
        from mskpp.report import report_page

        report_page.write_report(self, path)

    def to_dataframe(self: Any, table: str = "pipes") -> Any:
        """A table as a pandas DataFrame: "pipes", "instructions", "events", "stalls", "what_if", "ledger" (a row a
        pipe), "critical_path" (its parts), "roofline" (a row a path of a core, and one for computing) or "memory" (a
        row a memory of a core).

        Raises StateError without pandas, InputError for another table.
        """
        if not isinstance(table, str):
            raise ArgumentError(f"to_dataframe: the table must be a str, got {type(table).__name__}")
        if table not in TABLES:
            raise InputError(f"to_dataframe: unknown table {table[:64]!r}; there are {', '.join(TABLES)}")
        try:
            import pandas
        except ImportError as error:
            raise StateError(
                f"to_dataframe: pandas cannot be imported ({error}); install it with `pip install pandas`, or take the "
                "rows from the result itself"
            ) from None
        columns, rows = _table(self, table)
        frame = pandas.DataFrame(rows, columns=columns)
        whole = [name for name in ("bytes", "operations") if name in columns]
        return frame.astype(dict.fromkeys(whole, "Int64"))  # None, and no floats for the others

    def _repr_html_(self: Any) -> str:
        """What a notebook shows: the total, and the busiest pipes."""
        total = self.total_cycles
        busiest = sorted(self.pipes.values(), key=lambda pipe: -pipe.cycles)
        rows = [
            f'<tr><td style="text-align:left">{html.escape(pipe.name)}</td><td>{pipe.duration_us:,.3f}</td>'
            f"<td>{pipe.cycles:,}</td><td>{pipe.cycles / total if total else 0:.1%}</td><td>{pipe.count:,}</td></tr>"
            for pipe in busiest[:_MOST_PIPES]
        ]
        if len(busiest) > _MOST_PIPES:
            rows.append(f'<tr><td colspan="5">... {len(busiest) - _MOST_PIPES} more pipes</td></tr>')
        heads = "".join(f"<th>{heading}</th>" for heading in ("pipe", "us", "cycles", "busy", "count"))
        warnings = "".join(f"<p>warning: {html.escape(warning)}</p>" for warning in self.warnings)
        return (
            f"<div><p><b>{html.escape(self.chip)}</b>: {self.duration_us:,.3f} us, {total:,} cycles, {len(self):,} "
            f"instructions</p><table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{warnings}"
            "</div>"
        )

    def __repr__(self: Any) -> str:
        bound = ""
        if self.bound in self.pipes and self.total_cycles:
            share = self.pipes[self.bound].cycles / self.total_cycles
            bound = f", busiest {self.bound} {share:.0%}"
        return (
            f"<{self.chip}: {self.duration_us:.3f} us, {self.total_cycles:,} cycles, {len(self):,} instructions{bound}>"
        )


def _table(result: Result | SavedResult, table: str) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows."""
    from mskpp.report.analysis import Gain, Part, PipeLedger, Stall
    from mskpp.report.result import Event

    if table == "events":
        return list(Event._fields), [list(event) for event in result.events()]
    if table in ("pipes", "instructions"):
        return _statistics(result, table)
    if table == "roofline":
        return _rooflines(result)
    if table == "memory":
        columns = ["core", "memory", "peak_bytes", "peak_cycle", "capacity_bytes"]
        return columns, [[getattr(use, name) for name in columns] for use in result.memory]
    kind: type
    found: Iterable[Any]
    if table == "what_if":
        kind, found = Gain, result.what_if
    elif table == "critical_path":
        kind, found = Part, result.critical_path.parts
    elif table == "ledger":
        kind, found = PipeLedger, result.ledger.pipes
    else:
        kind, found = Stall, result.ledger.stalls
    names = [field.name for field in dataclasses.fields(kind)]
    return names, [[getattr(row, name) for name in names] for row in found]


def _rooflines(result: Result | SavedResult) -> tuple[list[str], list[list[Any]]]:
    """What was done per cycle beside the best rate: bytes of paths, operations of computing."""
    rows: list[list[Any]] = []
    for core in result.roofline:
        rows += [
            [core.core, path.name, path.bytes, None, path.bytes_per_cycle, path.peak_bytes_per_cycle, path.share]
            for path in core.paths
        ]
        if core.operations:
            best = core.peak_operations_per_cycle
            share = core.operations_per_cycle / best if best else None
            rows.append([core.core, "compute", None, core.operations, core.operations_per_cycle, best, share])
        for row in rows[len(rows) - len(core.paths) - bool(core.operations) :]:
            row.append(row[1] == core.bound)
    return ["core", "limit", "bytes", "operations", "per_cycle", "peak_per_cycle", "share", "is_bound"], rows


def hit_ratio_text(ratio: float | None) -> str:
    """The L2 cache hit ratio of a result in words."""
    if ratio is None:
        return "L2 cache hit ratio: changes within the block"
    return f"L2 cache hit ratio {ratio:g}{'' if ratio else ' (cold, the default)'}"


def _statistics(result: Result | SavedResult, table: str) -> tuple[list[str], list[list[Any]]]:
    """A column for each origin of costs, with how many instructions have it."""
    from mskpp.report.result import Statistic

    found = list(getattr(result, table).values())
    names = [field.name for field in dataclasses.fields(Statistic) if field.name != "origins"]
    origins = list(dict.fromkeys(origin for row in found for origin in row.origins))
    rows = [
        [*(getattr(row, name) for name in names), *(row.origins.get(origin, 0) for origin in origins)] for row in found
    ]
    return [*names, *origins], rows


def unmeasured_of(events: Iterable[Event]) -> tuple[Unmeasured, ...]:
    """The costs whose origin is not measured, those of one instruction, pipe, line and origin as one."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for event in events:
        if event.origin and event.origin != "measured" and event.kind in ("move", "computation"):
            sums = found.setdefault((event.origin, event.name, event.pipe, event.line), [0, 0])
            sums[0] += event.end - event.start
            sums[1] += 1
    rows = [Unmeasured(*key, *sums) for key, sums in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.cycles))
