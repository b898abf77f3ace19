# SPDX-License-Identifier: Apache-2.0
"""What the analysis of a schedule must say, as short as it can be said, on top of the scheduling rule in oracle.py.

Everything is by step number; steps without a pipe (set_valid, set_invalid) take part in nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from oracle import Step, waits_for

CAUSES = ("pipe", "data", "flag", "barrier")


def reasons(steps: list[Step]) -> list[dict[str, set[int]]]:
    """For each step, whom it waits for, by cause. A step may stand under several."""
    apart = [
        step._replace(core=str(i), barrier=False, awaits=None) if step.pipe else step for i, step in enumerate(steps)
    ]
    data, everything = waits_for(apart), waits_for(steps)
    out = []
    for i, step in enumerate(steps):
        earlier = [j for j in range(i) if step.pipe and steps[j].pipe and steps[j].core == step.core]
        pipe = {j for j in earlier if steps[j].pipe == step.pipe}
        barrier = {j for j in earlier if step.barrier or steps[j].barrier}
        flag = set()
        if step.awaits is not None:
            k = sum((other.awaits, other.pipe) == (step.awaits, step.pipe) for other in steps[:i])
            flag = {[j for j, other in enumerate(steps) if other.sets == step.awaits][k]}
        assert pipe | barrier | flag | data[i] == everything[i]
        out.append({"pipe": pipe, "data": data[i], "flag": flag, "barrier": barrier})
    return out


def ends(waits: list[set[int]], cycles: list[int]) -> list[int]:
    """When each step ends, given whom it waits for and what it costs."""
    done: dict[int, int] = {}
    while len(done) < len(cycles):
        ready = [i for i in range(len(cycles)) if i not in done and waits[i] <= done.keys()]
        assert ready, "a deadlock"
        for i in ready:
            done[i] = max((done[j] for j in waits[i]), default=0) + cycles[i]
    return [done[i] for i in range(len(cycles))]


class Analysis:
    def __init__(self, steps: list[Step], barriers: frozenset[int] = frozenset()) -> None:
        """`barriers`: which steps are barriers, those of one pipe too, which the scheduling rule does not tell."""
        self.steps = steps
        self.barriers = barriers
        self.instructions = [i for i, step in enumerate(steps) if step.pipe]
        self.reasons = reasons(steps)
        self.waits = [set().union(*why.values()) for why in self.reasons]
        self.cycles = [step.cycles for step in steps]
        self.end = ends(self.waits, self.cycles)
        self.total = max(self.end, default=0)

    def start(self, i: int) -> int:
        return self.end[i] - self.cycles[i]

    def released(self, i: int, causes: tuple[str, ...]) -> tuple[str, int]:
        """Why step i starts when it does, and which step it waited for: ties go by cause, then to the later step."""
        found = [
            (-CAUSES.index(cause), j, cause)
            for cause in causes
            for j in self.reasons[i][cause]
            if self.end[j] == self.start(i) and self.steps[j].pipe
        ]
        _, j, cause = max(found)
        return cause, j

    def ledger(self) -> tuple[dict[Any, Counter[str]], Counter[Any]]:
        """Per pipe, its cycles by what they went to; per (cause, who was waited for, who waited), idle cycles."""
        pipes: dict[Any, Counter[str]] = {}
        stalls: Counter[Any] = Counter()
        free: Counter[Any] = Counter()
        for i in self.instructions:
            pipe = (self.steps[i].core, self.steps[i].pipe)
            idle = self.start(i) - free[pipe]
            pipes.setdefault(pipe, Counter())["busy"] += self.cycles[i]
            if idle:
                cause, by = self.released(i, ("data", "flag", "barrier"))
                pipes[pipe][cause] += idle
                stalls[cause, by, i] += idle
            free[pipe] = self.end[i]
        for pipe, row in pipes.items():
            row["end"] = self.total - free[pipe]
        return pipes, stalls

    def beside(self, i: int) -> int | None:
        """The move or computation that a set comes behind, and that a wait comes before, on its pipe."""
        steps = self.steps
        at_work = [
            j
            for j in self.instructions
            if steps[j][:2] == steps[i][:2] and self.does_work(j) and (j < i) == (steps[i].sets is not None)
        ]
        return None if not at_work else at_work[-1] if steps[i].sets is not None else at_work[0]

    def does_work(self, i: int) -> bool:
        step = self.steps[i]
        return bool(step.sets is None and step.awaits is None and i not in self.barriers)

    def flag(self, i: int) -> str:
        (core, pipe), (other_core, other_pipe), number = self.steps[i].sets
        pipe = "PIPE-VEC" if pipe.removeprefix("PIPE-").startswith("RVEC") else pipe
        ends = [f"{core}-{pipe}" if core else pipe, f"{other_core}-{other_pipe}" if other_core else other_pipe]
        return f"flag {number} of {ends[0]} to {ends[1]}"

    def critical_path(self) -> list[tuple[int, str]]:
        """Steps in time order, each with why it starts when it does."""
        path: list[tuple[int, str]] = []
        last = [i for i in self.instructions if self.end[i] == self.total]
        i = last[-1] if last else None
        while i is not None:
            if self.start(i) == 0:
                path.append((i, "start"))
                break
            cause, before = self.released(i, CAUSES)
            path.append((i, cause))
            i = before
        return path[::-1]

    def total_with(self, cycles: list[int]) -> int:
        return max(ends(self.waits, cycles), default=0)

    def total_with_one_more_buffer(self, source: str, target: str, per_id: bool) -> int | None:
        """With the waits of these flags taking an earlier set; None unless they only give buffers back."""

        def station(core: str, pipe: str) -> tuple[str, str]:
            return core, "PIPE-VEC" if pipe.startswith("RVEC") else pipe

        steps = self.steps
        flows = {
            (station(*steps[j][:2]), station(*steps[i][:2])) for i in self.instructions for j in self.reasons[i]["data"]
        }
        rings: dict[Any, list[int]] = {}
        found = False
        for i in self.instructions:
            key = steps[i].sets
            if key is None:
                continue
            way = (station(*key[0]), station(*key[1]))
            if (way[0][1], way[1][1]) == (source, target) and way[::-1] in flows and way not in flows:
                found = True
                rings.setdefault(key if per_id else key[:2], []).append(i)
        earlier = {j: ([None, *ring])[k] for ring in rings.values() for k, j in enumerate(ring)}
        waits = []
        for why in self.reasons:
            flags = {earlier.get(j, j) for j in why["flag"]} - {None}
            waits.append(why["pipe"] | why["data"] | why["barrier"] | flags)
        return max(ends(waits, self.cycles), default=0) if found else None
