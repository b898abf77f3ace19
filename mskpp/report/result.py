# SPDX-License-Identifier: Apache-2.0
"""The prediction as Python values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mskpp import __version__, _core
from mskpp.report.analysis import (
    CoreRoofline,
    CriticalPath,
    Gain,
    Ledger,
    MemoryUse,
    Part,
    PipeLedger,
    Stall,
    Step,
    Unmeasured,
)
from mskpp.report.compare import Comparison
from mskpp.report.memory import memory_of, warnings_of
from mskpp.report.portable import Portable, unmeasured_of
from mskpp.report.profiler import Profile
from mskpp.report.roofline import roofline_of

_MOST_STEPS = 10_000


@dataclass(frozen=True)
class Statistic:
    """What ran on one pipe, or under one instruction name. Flags and barriers do not count."""

    name: str
    cycles: int
    """Busy cycles; of a pipe never more than the makespan."""
    duration_us: float
    bytes: int | None
    """Bytes moved; None where nothing was moved."""
    operations: int | None
    """Operations computed; None where nothing was computed."""
    count: int
    """How many instructions."""
    origins: dict[str, int] = field(default_factory=dict)
    """How many of them by the origin of their cost, as docs/how_it_works.md names them."""


class Event(NamedTuple):
    """One instruction of the timeline, in cycles from 0."""

    name: str
    pipe: str
    start: int
    end: int
    kind: str
    """move, computation, set_flag, wait_flag or barrier."""
    work: int
    """Bytes of a move, operations of a computation, 0 else."""
    origin: str
    line: str
    """The line of user code, as "kernel.py:18"; "" where there is none."""


class Result(Portable):
    """The prediction for one block."""

    def __init__(
        self,
        chip: str,
        clock_mhz: float,
        total: int,
        pipes: list[Statistic],
        instructions: list[Statistic],
        timeline: _core.Timeline,
        notes: list[str],
    ) -> None:
        self.chip = chip
        self.clock_mhz = clock_mhz
        self.total_cycles = total
        """The makespan: when the last instruction ends."""
        self.pipes = {pipe.name: pipe for pipe in pipes}
        """By full name, in the order they were first used."""
        self.instructions = {instruction.name: instruction for instruction in instructions}
        self.notes = notes
        """What the chip takes from another chip's tables."""
        self.comparison: Comparison | None = None
        """With what ``chip.set_prof_summary_path`` named; None where nothing was."""
        self.cache_hit_ratio: float | None = 0.0
        """Of the block; None where it changed within."""
        self.mskpp_version = __version__
        self._timeline = timeline

    @classmethod
    def of(cls, costs: _core.Costs, timeline: _core.Timeline, notes: list[str]) -> Result:
        total, pipes, instructions = _core.measure(timeline)

        def statistics(rows: list[tuple]) -> list[Statistic]:
            return [
                Statistic(
                    name,
                    cycles,
                    cycles / costs.clock_mhz,
                    moved if moves else None,
                    done if computations else None,
                    moves + computations,
                    origins,
                )
                for name, cycles, moved, done, moves, computations, origins in rows
            ]

        return cls(costs.name, costs.clock_mhz, total, statistics(pipes), statistics(instructions), timeline, notes)

    @property
    def duration_us(self) -> float:
        """The makespan in microseconds."""
        return self.total_cycles / self.clock_mhz

    @property
    def origins(self) -> dict[str, int]:
        """How many instructions by the origin of their cost."""
        total: Counter[str] = Counter()
        for pipe in self.pipes.values():
            total.update(pipe.origins)
        return dict(total)

    @property
    def bound(self) -> str | None:
        """The busiest pipe; None for an empty program."""
        return max(self.pipes.values(), key=lambda pipe: pipe.cycles).name if self.pipes else None

    def compare(self, profile: Profile | None) -> None:
        """Sets ``comparison``."""
        if profile is not None:
            pipes_us = {name: pipe.duration_us for name, pipe in self.pipes.items()}
            self.comparison = Comparison.of(self.duration_us, pipes_us, profile)

    # --- why it takes so long; worked out when it is asked for ---

    @cached_property
    def ledger(self) -> Ledger:
        """Where every pipe's cycles go: busy, or waiting for what."""
        total, pipes, stalls = _core.ledger(self._timeline)
        return Ledger(total, tuple(PipeLedger(*row) for row in pipes), tuple(Stall(*row) for row in stalls))

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The chain of instructions that decides the makespan."""
        total, parts, steps, count = _core.critical_path(self._timeline, _MOST_STEPS)
        return CriticalPath(total, tuple(Part(*row) for row in parts), tuple(Step(*row) for row in steps), count)

    @cached_property
    def memory(self) -> tuple[MemoryUse, ...]:
        """Live bytes of every local memory along the timeline, by core and memory."""
        return memory_of(self._timeline)

    @cached_property
    def roofline(self) -> tuple[CoreRoofline, ...]:
        """What each core achieved against the chip's best rates."""
        return roofline_of(self._timeline)

    @cached_property
    def costs_not_measured(self) -> tuple[Unmeasured, ...]:
        """What rests on something else than a measurement; the most cycles first."""
        return unmeasured_of(self.events() if set(self.origins) - {"measured"} else ())

    @property
    def warnings(self) -> list[str]:
        """A line for each local memory whose peak exceeds the chip's capacity."""
        return warnings_of(self.memory)

    @cached_property
    def _slack(self) -> memoryview:
        return _core.slack(self._timeline)

    def slack(self) -> memoryview:
        """For each instruction in the order issued, by how many cycles it could end later without changing the
        makespan: 0 on the critical path. Read-only, of 64-bit integers."""
        return self._slack

    @cached_property
    def what_if(self) -> tuple[Gain, ...]:
        """What a change would gain, each scheduled anew; the most first."""
        return tuple(Gain(*row) for row in _core.what_if(self._timeline))

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline as trace-event JSON, to a file that does not exist yet. Raises FileError."""
        _core.write_trace(self._timeline, path)

    def __len__(self) -> int:
        """How many instructions were issued, flags and barriers included."""
        return len(self._timeline)

    def events(self) -> Iterator[Event]:
        """Every instruction in the order issued."""
        for i in range(len(self._timeline)):
            yield Event(*self._timeline.event(i))
