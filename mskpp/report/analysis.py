# SPDX-License-Identifier: Apache-2.0
"""Why a block takes as long as it takes: where each pipe's time goes, what decides the makespan, what a change gains.

Values only; what makes them is in the core. All times are cycles. Lines of user code read "kernel.py:18", "" where
there is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stall:
    """Idle cycles of a pipe with one cause. Equal causes are one row."""

    pipe: str
    cause: str
    """"data", "flag", "barrier", or "end": nothing left to do."""
    cycles: int
    count: int
    """How many gaps."""
    tensor: str
    """What was waited for, as "L1 tensor [64,64] FP16 (kernel.py:22)" or "flag 0 of PIPE-MTE2 to PIPE-V"; "" unless the
    cause is data or flag."""
    by: str
    """Name of the instruction that was waited for; "" at the end. Of a flag, with the last move or computation before
    it on its pipe, as "SET_FLAG behind MOV-GM_TO_L1"."""
    by_pipe: str
    by_line: str
    """Its line; of a flag, that of the move or computation, if there is one."""
    waiting: str
    """Name of the instruction that waited; "" at the end. Of a flag, with the next move or computation behind it on its
    pipe, as "WAIT_FLAG before VADD"."""
    line: str
    """Line of the instruction that waited: of a flag, of the wait."""


@dataclass(frozen=True)
class PipeLedger:
    """Where a pipe's cycles from 0 to the makespan went; they sum to the makespan."""

    pipe: str
    busy: int
    """Cycles in which an instruction of any kind runs, flags too."""
    data: int
    flag: int
    barrier: int
    end: int
    """After the pipe's last instruction."""


@dataclass(frozen=True)
class Ledger:
    """Every cycle of every pipe: busy, or charged to the one thing that the pipe's next instruction waited for last."""

    total_cycles: int
    """The makespan."""
    pipes: tuple[PipeLedger, ...]
    """In the order they were first used."""
    stalls: tuple[Stall, ...]
    """Sorted by cycles, the most first."""


@dataclass(frozen=True)
class Part:
    """What the instructions of one name, pipe and line contribute to the critical path."""

    name: str
    pipe: str
    line: str
    cycles: int
    count: int


@dataclass(frozen=True)
class Step:
    """One instruction on the critical path."""

    index: int
    """Its number in the order issued, from 0."""
    name: str
    pipe: str
    start: int
    end: int
    line: str
    why: str
    """What it waited for last: "data", "flag", "barrier", "pipe" (the instruction before it on its pipe), or "start"
    (nothing: it starts at 0). That is the step before it, which ends as this one starts."""


@dataclass(frozen=True)
class CriticalPath:
    """A chain of instructions without a gap from 0 to the makespan: only what shortens it shortens the whole."""

    total_cycles: int
    """The makespan, which is the sum of the parts."""
    parts: tuple[Part, ...]
    """Sorted by cycles, the most first; complete."""
    steps: tuple[Step, ...]
    """In time order. Of more than 10,000, the first and the last 5,000."""
    step_count: int
    """How many there are."""


@dataclass(frozen=True)
class Gain:
    """The makespan if one thing were different, recomputed."""

    kind: str
    """"pipe" (all moves and computations on pipes of that name, whatever the core), "path" (all moves of that name),
    "instruction" (all computations of that name), "cache" (the hit ratio), "buffer" (one more for the second pipe to
    fill; the first gives buffers back to it by flags)."""
    subject: str
    """As "PIPE-MTE2", "MOV-GM_TO_L1", "MMAD", "cache_hit_ratio", "PIPE-M -> PIPE-MTE1"."""
    change: str
    """"2x" (half the cycles, rounded up), "free" (none), "2x larger" (moves of that path twice as large and half as
    many: each costs half, rounded up, of what one of twice its bytes costs), "no conversion" (moves of that path that
    change the format cost what they would without), "ratio 0", "ratio 1", "+1" (each wait takes the set before the
    one it took, whatever its id), "+1 per id" (the set of its own id before that: one more buffer for each id)."""
    total_cycles: int
    """The makespan with the change."""
    gain_cycles: int
    """How much earlier that is; negative for the worse, as "ratio 0" where the ratio was higher."""


@dataclass(frozen=True)
class LiveTensor:
    """Versions of tensors alike that live at the same time."""

    text: str
    """As "L1 tensor [64,64] FP16 (kernel.py:22)"."""
    bytes: int
    """Of all of them together."""
    versions: int


@dataclass(frozen=True)
class MemoryUse:
    """Live bytes of one local memory along the timeline. A version of a tensor lives from the start of its write to
    the end of its last read."""

    core: str
    memory: str
    peak_bytes: int
    peak_cycle: int
    """The first cycle with that many."""
    capacity_bytes: int | None
    """The chip's; None where its data does not say."""
    points: tuple[tuple[int, int], ...]
    """(cycle, live bytes from there on). At most 2,000; the peaks are kept."""
    largest: tuple[LiveTensor, ...] = ()
    """What lives at the peak, the three largest; where the peak exceeds the capacity only."""

    @property
    def exceeded(self) -> bool:
        """Whether the peak exceeds the capacity."""
        return self.capacity_bytes is not None and self.peak_bytes > self.capacity_bytes


@dataclass(frozen=True)
class PathRoofline:
    """What one path carried."""

    name: str
    """As "GM_TO_L1"."""
    bytes: int
    bytes_per_cycle: float
    """Over the makespan."""
    peak_bytes_per_cycle: float | None
    """From the chip's data; None where it has none."""
    share: float | None
    """Of the peak, 0 to 1; above 1 only with costs of your own."""


@dataclass(frozen=True)
class CoreRoofline:
    """What one core achieved against what the chip's data says is possible."""

    core: str
    operations: int
    operations_per_cycle: float
    """Over the makespan."""
    peak_operations_per_cycle: float | None
    paths: tuple[PathRoofline, ...]
    intensity: float | None
    """Operations per byte that crosses GM; None where nothing does."""
    bound: str
    """What its busiest pipe does: "compute", or the path with most work there; "" where no pipe was busy."""
    utilisation: float | None
    """That one's share of its best rate over the makespan, 0 to 1; None where it has none."""


@dataclass(frozen=True)
class Unmeasured:
    """Instructions whose cost was not measured; those of one origin, name, pipe and line are one row."""

    origin: str
    """As docs/how_it_works.md names it: "interpolated", "inherited", "theoretical", "user" ..."""
    name: str
    pipe: str
    line: str
    cycles: int
    """Of all of them together."""
    count: int
