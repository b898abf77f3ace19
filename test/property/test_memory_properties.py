# SPDX-License-Identifier: Apache-2.0
"""Live bytes of random programs against a slow rule: look at every version at every cycle where something changes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from oracle import Step, marked_version
from test_schedule_properties import CHIPS, Run, codes

Steps = list[Step]


def read_versions(steps: Steps) -> list[set[tuple[int, bool]]]:
    """For each step, the steps whose versions it reads, and whether it writes over them.

    The rule of the oracle's ``waits_for``, with nothing but data.
    """
    reads: list[set[tuple[int, bool]]] = [set() for _ in steps]
    holds: dict[Any, int] = {}
    hungry: dict[Any, set[int]] = defaultdict(set)
    for i, step in enumerate(steps):
        if step.pipe:
            for cell in step.writes:
                for reader in hungry.pop(cell, ()):
                    reads[reader].add((i, False))
        if step.expects is not None:
            reads[i].add((marked_version(steps, i), False))
        else:
            for cell in step.reads | (step.updates if step.updates <= holds.keys() else frozenset()):
                if cell in holds:
                    reads[i].add((holds[cell], cell in step.over))
                else:
                    hungry[cell].add(i)
        holds.update(dict.fromkeys(step.writes, i))
        for cell in step.empties:
            holds.pop(cell, None)
    return reads


def memory_of(step: Step) -> str:
    """As "L0C" of the cells of L0C0 and L0C-12."""
    name = next(iter(step.writes))[0]
    return name.split("-")[0] if "-" in name else name[:-1]


def expected_points(run: Run) -> dict[tuple[str, str], list[tuple[int, int]]]:
    times = {i: (event.start, event.end) for i, event in zip(run.instructions, run.events, strict=True)}
    last = {i: end for i, (_, end) in times.items()}
    for reader, versions in enumerate(read_versions(run.steps)):
        over = {version for version, in_place in versions if in_place}
        for version in {version for version, _ in versions} & last.keys():
            last[version] = max(last[version], times[reader][0 if version in over else 1])
    lives = defaultdict(list)
    for i in run.instructions:
        step = run.steps[i]
        if step.writes and memory_of(step) != "GM":
            lives[step.core, memory_of(step)].append((times[i][0], last[i], step.bytes))
    found = {}
    for key, versions in lives.items():
        points = [(0, 0)]
        for cycle in sorted({time for start, end, _ in versions for time in (start, end)}):
            live = sum(size for start, end, size in versions if start <= cycle < end)
            if live != points[-1][1]:
                points.append((cycle, live))
        found[key] = points[1:] if points[1:] and points[1][0] == 0 else points
    return found


def check(run: Run) -> None:
    if run.result is None:
        return
    expected = expected_points(run)
    memory = run.result.memory
    assert {(use.core, use.memory): list(use.points) for use in memory} == expected
    for use in memory:
        peak = max(live for _, live in use.points)
        assert (use.peak_bytes, use.peak_cycle) == (peak, next(cycle for cycle, live in use.points if live == peak))
        assert use.points[-1][1] == 0 and use.points[-1][0] <= run.result.total_cycles


@pytest.mark.parametrize("chip", CHIPS)
@given(program=codes)
def test_live_bytes_are_those_of_the_rule(chip: str, program: list[int]) -> None:
    check(Run(chip, program))
