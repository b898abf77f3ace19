# SPDX-License-Identifier: Apache-2.0
"""What each core achieved against what the chip's data says is possible: its best rates, whatever the size of the work.

Operations are counted as everywhere here: of ``mmad`` m*k*n without padding, of vector instructions elements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mskpp import _core
from mskpp.report.analysis import CoreRoofline, PathRoofline

COMPUTE = "compute"
"""The name of the limit that is not a path."""


class _Achievement(NamedTuple):
    """As ``_core.achievements`` gives it."""

    core: str
    pipe: str
    move: bool
    name: str
    work: int
    rated_work: int
    least_cycles: float


def roofline_of(timeline: _core.Timeline) -> tuple[CoreRoofline, ...]:
    """One of each core that moved or computed something, in the order of the cores."""
    cores: dict[str, list[_Achievement]] = defaultdict(list)
    for row in _core.achievements(timeline):
        cores[row[0]].append(_Achievement(*row))
    busy = {name: row[0] for name, *row in _core.measure(timeline)[1]}
    return tuple(_of_core(core, rows, timeline.total_cycles, busy) for core, rows in cores.items())


def _of_core(core: str, rows: list[_Achievement], cycles: int, busy: Mapping[str, int]) -> CoreRoofline:
    paths = _paths(rows, cycles)
    computed = [row for row in rows if not row.move]
    operations = sum(row.work for row in computed)
    # Pipes run beside each other: the core is done at the earliest when its longest one is.
    least: dict[str, float] = defaultdict(float)
    for row in computed:
        least[row.pipe] += row.least_cycles
    longest = max(least.values(), default=0.0)
    peak = sum(row.rated_work for row in computed) / longest if longest > 0 else None
    shares = {path.name: path.share for path in paths if path.share is not None}
    if longest > 0 and cycles:
        shares[COMPUTE] = longest / cycles
    bound = _bound(rows, {pipe: busy.get(f"{core}-{pipe}" if core else pipe, 0) for pipe in {row.pipe for row in rows}})
    crossing = sum(path.bytes for path in paths if "GM" in path.name.split("_TO_"))
    return CoreRoofline(
        core,
        operations,
        operations / cycles if cycles else 0.0,
        peak,
        paths,
        operations / crossing if crossing else None,
        bound,
        shares.get(bound),
    )


def _bound(rows: list[_Achievement], busy: Mapping[str, int]) -> str:
    """Computing, or a path: the one with the most work on the busiest pipe. A path that is far from its best rate, as
    its moves are small, bounds the core all the same, so that best rates do not decide."""
    first = max(rows, key=lambda row: (busy[row.pipe], row.least_cycles, row.work))
    if not busy[first.pipe]:
        return ""
    return first.name if first.move else COMPUTE


def _paths(rows: Iterable[_Achievement], cycles: int) -> tuple[PathRoofline, ...]:
    moved: dict[str, tuple[int, int, float]] = {}
    for row in rows:
        if row.move:
            work, rated, least = moved.get(row.name, (0, 0, 0.0))
            moved[row.name] = (work + row.work, rated + row.rated_work, least + row.least_cycles)
    return tuple(
        PathRoofline(
            name,
            work,
            work / cycles if cycles else 0.0,
            rated / least if least > 0 else None,
            least / cycles if least > 0 and cycles else None,
        )
        for name, (work, rated, least) in moved.items()
    )
