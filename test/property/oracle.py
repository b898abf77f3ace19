# SPDX-License-Identifier: Apache-2.0
"""The scheduling rule, as short as it can be said. The C++ core must agree with it on every program.

A program is a list of steps in the order issued. A step starts as soon as everything it waits for has ended, so its start is
the longest path to it. What it waits for is one of five things, and `waits_for` names them one after another:

1. the steps before it on its pipe, which runs one at a time, in the order issued;
2. across a PIPE-ALL barrier, all the steps before it on its core;
3. for each cell it reads, the step that wrote the cell last, or, if the cell is empty, the one that will write it next;
4. if it expects a mark, the step that wrote the marked version;
5. if it is the k-th wait for a flag, the k-th set of that flag.

A cell is one element of one tensor. Writing never waits: every write makes a fresh version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Cells = frozenset[tuple[Any, ...]]
NOBODY = -1  # waiting for it never ends


class Step(NamedTuple):
    """One instruction. Without a pipe it is no instruction but set_valid (it writes) or set_invalid (it empties)."""

    core: str = ""
    pipe: str | None = None
    cycles: int = 0
    reads: Cells = frozenset()
    updates: Cells = frozenset()  # read too, if all of them hold a value: an accumulator
    writes: Cells = frozenset()
    empties: Cells = frozenset()
    marks: int | None = None  # the version written, set_value
    expects: int | None = None  # of the version read, expect_value
    sets: Any = None  # the flag (source, target, id)
    awaits: Any = None
    barrier: bool = False  # PIPE-ALL


def schedule(steps: list[Step]) -> list[tuple[int, int]] | None:
    """Start and end of each step, or None if the program cannot go on to its end."""
    waiting = {i: set(waits_for(steps, i)) for i in range(len(steps))}
    ends: dict[int, int] = {}
    while waiting:
        ready = [i for i, others in waiting.items() if others <= ends.keys()]
        if not ready:
            return None
        for i in ready:
            ends[i] = max((ends[j] for j in waiting.pop(i)), default=0) + steps[i].cycles
    return [(ends[i] - step.cycles, ends[i]) for i, step in enumerate(steps)]


def waits_for(steps: list[Step], i: int) -> Iterator[int]:
    step, before, after = steps[i], range(i), range(i + 1, len(steps))
    for j in before:
        if step.pipe and steps[j].pipe and step.core == steps[j].core:
            if step.pipe == steps[j].pipe or step.barrier or steps[j].barrier:
                yield j
    if step.expects is not None:
        since = max((j for j in before if not steps[j].pipe and step.reads & (steps[j].writes | steps[j].empties)), default=-1)
        marked = [j for j, other in enumerate(steps) if other.marks == step.expects and step.reads & other.writes and j != i]
        yield next((j for j in reversed(marked) if since < j < i), next((j for j in marked if j > i), NOBODY))
    else:
        for cell in step.reads:
            writer = holds(steps, i, cell)
            yield next((j for j in after if steps[j].pipe and cell in steps[j].writes), NOBODY) if writer is None else writer
        writers = [holds(steps, i, cell) for cell in step.updates]
        yield from () if None in writers else writers
    if step.awaits is not None:
        k = sum(steps[j].awaits == step.awaits for j in before)
        yield [j for j, other in enumerate(steps) if other.sets == step.awaits][k]


def holds(steps: list[Step], i: int, cell: tuple[Any, ...]) -> int | None:
    """The step that gave the cell the value it has before step i; None if it has none."""
    changed = next((j for j in reversed(range(i)) if cell in steps[j].writes | steps[j].empties), None)
    return None if changed is None or cell in steps[changed].empties else changed
