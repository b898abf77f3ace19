# SPDX-License-Identifier: Apache-2.0
"""The scheduling rule, as short as it can be said. The C++ core must agree with it on every program.

A program is a list of steps in the order issued. A step starts as soon as everything it waits for has ended:

1. the steps issued before it on its pipe, which runs one at a time;
2. across a PIPE-ALL barrier, everything issued before it on its core;
3. for each cell it reads, the step that wrote the cell last; if the cell is empty, the step that will write it next;
4. if it expects a mark, the step that wrote the version so marked;
5. if it is the k-th wait for a flag, the k-th set of that flag.

A cell is one element of one tensor. Writing waits for nothing: every write makes a fresh version.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

Cells = frozenset[tuple[Any, ...]]
NOBODY = -1  # a step that never ends


class Step(NamedTuple):
    """One instruction; or, without a pipe, set_valid (it writes) or set_invalid (it empties)."""

    core: str = ""
    pipe: str = ""
    cycles: int = 0
    reads: Cells = frozenset()
    updates: Cells = frozenset()  # an accumulator: read as well, if all of it holds a value
    writes: Cells = frozenset()
    empties: Cells = frozenset()
    marks: int | None = None  # set_value, of the version it writes
    expects: int | None = None  # expect_value, of the version it reads
    sets: Any = None  # a flag: (source, target, id)
    awaits: Any = None
    barrier: bool = False  # PIPE-ALL
    bytes: int = 0  # of what it writes
    over: Cells = frozenset()  # what it reads and writes in the same place


def schedule(steps: list[Step]) -> list[tuple[int, int]] | None:
    """Start and end of each step: the longest path to it. None if the program cannot go on to its end."""
    waiting = dict(enumerate(waits_for(steps)))
    ends: dict[int, int] = {}
    while waiting:
        ready = [i for i, others in waiting.items() if others <= ends.keys()]
        if not ready:
            return None
        for i in ready:
            ends[i] = max((ends[j] for j in waiting.pop(i)), default=0) + steps[i].cycles
    return [(ends[i] - step.cycles, ends[i]) for i, step in enumerate(steps)]


def waits_for(steps: list[Step]) -> list[set[int]]:
    """For each step, the steps it waits for."""
    waits: list[set[int]] = [set() for _ in steps]
    holds: dict[Any, int] = {}  # cell -> the step it has its value from; an empty cell is not there
    hungry = defaultdict(set)  # empty cell -> the steps that read it
    for i, step in enumerate(steps):
        waits[i] |= {j for j in range(i) if in_order(steps[j], step)}
        if step.awaits is not None:
            k = sum((other.awaits, other.pipe) == (step.awaits, step.pipe) for other in steps[:i])
            waits[i].add([j for j, other in enumerate(steps) if other.sets == step.awaits][k])
        if step.pipe:
            for cell in step.writes:
                for reader in hungry.pop(cell, ()):
                    waits[reader].add(i)
        if step.expects is not None:
            waits[i].add(marked_version(steps, i))
        else:
            for cell in step.reads | (step.updates if step.updates <= holds.keys() else frozenset()):
                waits[i].add(holds[cell]) if cell in holds else hungry[cell].add(i)
        holds.update(dict.fromkeys(step.writes, i))
        for cell in step.empties:
            holds.pop(cell, None)
    for reader in set().union(*hungry.values()):
        waits[reader].add(NOBODY)
    return waits


def in_order(earlier: Step, later: Step) -> bool:
    """Whether the place of the two alone makes the later one wait."""
    if not earlier.pipe or not later.pipe or earlier.core != later.core:
        return False
    return earlier.pipe == later.pipe or earlier.barrier or later.barrier


def marked_version(steps: list[Step], i: int) -> int:
    """The latest earlier version of what step i reads that has the mark it expects, else the next one to come."""
    reads = steps[i].reads
    marked = [j for j, other in enumerate(steps) if other.marks == steps[i].expects and reads & other.writes]
    forgotten = [j for j in range(i) if not steps[j].pipe and reads & (steps[j].writes | steps[j].empties)]
    earlier = [j for j in marked if max(forgotten, default=-1) < j < i]
    return earlier[-1] if earlier else next((j for j in marked if j > i), NOBODY)
