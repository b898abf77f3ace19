# SPDX-License-Identifier: Apache-2.0
"""What the lint of flags finds, against the oracle: which knows neither lint nor clocks, only who waits for whom."""

from __future__ import annotations

import functools
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import NOBODY, Step, schedule, waits_for
from programs import Program, issued

import mskpp

codes = st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=40)  # each is the seed of an operation


class OnLines(Program):
    """Each flag is issued from a line of its own."""

    def issue_flag(self, what: str, source: Any, target: Any, number: int, qualified: bool) -> None:
        real = getattr(mskpp, what)
        line = len(self.steps)
        at_line = compile("\n" * line + "call()", f"{what}.py", "exec")
        setattr(mskpp, what, lambda *names: exec(at_line, {"call": functools.partial(real, *names)}))
        try:
            super().issue_flag(what, source, target, number, qualified)
        finally:
            setattr(mskpp, what, real)


class Linted:
    def __init__(self, chip: str, program: list[int]) -> None:
        self.deadlock = ""
        try:
            with mskpp.Chip(chip) as self.chip:
                written = OnLines(chip, wild=sum(program) % 3 == 0)
                written.write(program)
        except mskpp.DeadlockError as error:
            self.deadlock = str(error)
        self.steps: list[Step] = written.steps
        self.step_of = issued(self.steps)
        self.found = self.chip.lint()

    def pairs(self, kind: str) -> set[tuple[int, int]]:
        """Set and wait of the findings, as numbers of steps."""
        pairs = {pair for finding in self.found if finding.kind == kind for pair in finding.pairs}
        return {(self.step_of[s], self.step_of[w]) for s, w in pairs if s is not None and w is not None}

    def own(self) -> set[tuple[int, int]]:
        """The pairs within one pipe."""
        places = [(step.core, step.pipe) for step in self.steps]
        return {(made, wait) for made, wait in self.matched() if places[made] == places[wait]}

    def matched(self) -> list[tuple[int, int]]:
        """Set and wait of each pair; the two waits of PIPE-VEC are two pairs."""
        pairs = []
        for i, step in enumerate(self.steps):
            if step.awaits is not None:
                k = sum((other.awaits, other.pipe) == (step.awaits, step.pipe) for other in self.steps[:i])
                pairs.append(([j for j, other in enumerate(self.steps) if other.sets == step.awaits][k], i))
        return pairs


def reached(waits: list[set[int]], start: int, but: int | None = None) -> set[int]:
    """Whom the step waits for in the end, without its own waiting for ``but``."""
    seen: set[int] = set()
    left = [other for other in waits[start] if other != but]
    while left:
        step = left.pop()
        if step not in seen and step != NOBODY:
            seen.add(step)
            left += waits[step]
    return seen


@settings(max_examples=150)
@given(st.sampled_from(("Ascend910B1", "Ascend950PR_9589")), codes)
def test_crossed_flags_are_the_cycles_that_have_a_flag(chip: str, program: list[int]) -> None:
    run = Linted(chip, program)
    waits = waits_for(run.steps)
    crossed = any(wait in reached(waits, made) for made, wait in run.matched())
    assert crossed == any(finding.kind == "crossed" for finding in run.found)
    if crossed:
        assert "cycle: " in run.deadlock
    for finding in run.found:
        assert finding.severity != "error" or finding.kind == "crossed"
    cyclic = any(i in reached(waits, i) for i in range(len(run.steps)))
    assert cyclic == ("  cycle: " in run.deadlock)


@settings(max_examples=150)
@given(st.sampled_from(("Ascend910B1", "Ascend950PR_9589")), codes, st.integers(0, 2**32 - 1))
def test_flags_never_needed_delay_nothing_whatever_the_costs(chip: str, program: list[int], seed: int) -> None:
    run = Linted(chip, program)
    needless = run.pairs("never-needed") | run.pairs("own-pipe")
    waits = waits_for(run.steps)
    for made, wait in needless:
        assert run.deadlock or (made, wait) in run.own() or made in reached(waits, wait, but=made)
    second = {wait + 1 for _, wait in needless if run.steps[wait].pipe == "RVECLD0"}
    idle = {step for pair in needless for step in pair} | second
    choice = random.Random(seed)
    costs = [choice.choice((0, 1, choice.randrange(1000))) for _ in run.steps]
    priced = [
        step if step.sets is not None or step.awaits is not None else step._replace(cycles=cost)
        for step, cost in zip(run.steps, costs, strict=True)
    ]
    without = [step._replace(sets=None, awaits=None) if i in idle else step for i, step in enumerate(priced)]
    if not run.deadlock:
        assert schedule(without) == schedule(priced)


@settings(max_examples=100)
@given(codes)
def test_other_waits_are_needed_by_the_graph(program: list[int]) -> None:
    run = Linted("Ascend910B1", program)
    waits = waits_for(run.steps)
    if run.deadlock:
        return
    implied = {(made, wait) for made, wait in run.matched() if made in reached(waits, wait, but=made)}
    assert run.pairs("own-pipe") == run.own()
    assert run.pairs("never-needed") == implied - run.own()


VECTOR = ("PIPE-V", "RVECLD0", "RVECLD1", "RVECEX0", "RVECEX1", "RVECST")  # one unit, which keeps its order


def by_itself(one: Step, other: Step) -> bool:
    """Whether hardware keeps the two in order without a flag."""
    return one.core == other.core and (one.pipe == other.pipe or {one.pipe, other.pipe} <= set(VECTOR))


def is_local(cells: Any) -> bool:
    """Cells of one tensor, which is in a local memory."""
    return not any(cell[0].startswith(("GM", "VEC")) for cell in cells)


@settings(max_examples=150)
@given(st.sampled_from(("Ascend910B1", "Ascend950PR_9589")), codes)
def test_unordered_reads_are_those_that_only_data_puts_behind_their_write(chip: str, program: list[int]) -> None:
    run = Linted(chip, program)
    steps = run.steps
    waits = waits_for(steps)
    order = waits_for([step._replace(reads=frozenset(), updates=frozenset(), expects=None) for step in steps])
    cyclic = {i for i in range(len(steps)) if i in reached(waits, i)}
    expected = set()
    for reader, writers in enumerate(waits):
        behind = reached(order, reader)
        if reader in cyclic or reached(waits, reader) & cyclic:
            continue
        for writer in writers - behind - {NOBODY}:
            if steps[writer].pipe and is_local(steps[writer].writes) and not by_itself(steps[writer], steps[reader]):
                expected.add((writer, reader))
    assert run.pairs("unordered") == expected
    within = any(step.sets is not None and step.sets[0][0] == step.sets[1][0] for step in steps)
    for finding in run.found:
        if finding.kind == "unordered" and within:
            assert finding.severity == "warning"
