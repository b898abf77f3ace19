# SPDX-License-Identifier: Apache-2.0
"""What a block needs of each local memory, and what to say where that is more than the chip has."""

from __future__ import annotations

from collections.abc import Iterable

from mskpp import _core
from mskpp.report.analysis import LiveTensor, MemoryUse

_CURE = (
    "make the tiles smaller, or let what fills the memory wait with flags until what it held has been read "
    "(docs/errors.md#capacityerror)"
)


def memory_of(timeline: _core.Timeline) -> tuple[MemoryUse, ...]:
    """Live bytes of every memory of every core that something is written to."""
    return tuple(
        MemoryUse(core, memory, peak, cycle, capacity, points, tuple(LiveTensor(*row) for row in largest))
        for core, memory, peak, cycle, capacity, points, largest in _core.memory_use(timeline)
    )


def _exceeded(uses: Iterable[MemoryUse]) -> list[tuple[MemoryUse, int]]:
    """Of each memory with too little room, the core that needs most of it, and on how many cores it is so."""
    found: dict[str, tuple[MemoryUse, int]] = {}
    for use in uses:
        if use.exceeded:
            worst, cores = found.get(use.memory, (use, 0))
            found[use.memory] = (use if use.peak_bytes > worst.peak_bytes else worst, cores + 1)
    return list(found.values())


def _what(use: MemoryUse, cores: int) -> str:
    core = f" of {use.core}" if use.core else ""
    others = f" ({cores - 1} more cores are over it too)" if cores > 1 else ""
    return (
        f"{use.memory}{core} holds up to {use.peak_bytes:,} bytes, at cycle {use.peak_cycle:,}; "
        f"its capacity is {use.capacity_bytes:,}{others}"
    )


def _largest(use: MemoryUse) -> str:
    return ", ".join(
        f"{live.bytes:,} bytes in {f'{live.versions:,} x ' if live.versions > 1 else ''}{live.text}"
        for live in use.largest
    )


def warnings_of(uses: Iterable[MemoryUse]) -> list[str]:
    """One line for each kind of memory that would overflow."""
    return [f"{_what(use, cores)}; largest there: {_largest(use)}" for use, cores in _exceeded(uses)]


def with_cure(warning: str) -> str:
    """The warning as the log says it."""
    return f"Chip: {warning}; {_CURE}"


def refusal_of(uses: Iterable[MemoryUse]) -> str:
    """The message of the error that stands for all the warnings; "" where there is none."""
    found = warnings_of(uses)
    if not found:
        return ""
    return "\n  ".join([f"Chip: more live bytes than the memory has; {_CURE}", *found])
