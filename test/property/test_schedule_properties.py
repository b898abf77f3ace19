# SPDX-License-Identifier: Apache-2.0
"""Random programs against the oracle, and what holds for every schedule."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Step, schedule, waits_for
from programs import PRICED, Program, full_name, issued
from utils.registrations import forget_registrations, register_cost

import mskpp

CHIPS = ("Ascend910B1", "Ascend950PR_9589")
operations = st.integers(0, 2**32 - 1)  # each is the seed of one
codes = st.one_of(st.lists(operations, max_size=6), st.lists(operations, min_size=6, max_size=30))
costs = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 10**12)), min_size=1, max_size=25)


class Run:
    """A program run in the DSL: its steps, with the costs the DSL gave them, and its result; None after a deadlock."""

    def __init__(self, chip: str, program: list[int], flags: bool = True) -> None:
        self.result: Any = None
        try:
            with mskpp.Chip(chip) as self.chip:
                written = Program(chip, flags, wild=sum(program) % 4 == 0)
                written.write(program)
            self.result = self.chip.result
        except mskpp.DeadlockError as error:
            self.message = str(error)
        self.steps: list[Step] = written.steps
        self.instructions = issued(self.steps)
        if self.result is not None:
            self.events = list(self.result.events())
            for i, event in zip(self.instructions, self.events, strict=True):
                self.steps[i] = self.steps[i]._replace(cycles=event.end - event.start)

    @property
    def costs(self) -> list[int]:
        return [event.end - event.start for event in self.events]

    @property
    def outcome(self) -> Any:
        return None if self.result is None else (self.events, self.result.pipes, self.result.instructions)


class Prices:
    """Costs given by a list, round and round, in place of the tables."""

    def __init__(self) -> None:
        register_cost(PRICED, self.next)

    def next(self) -> int:
        self.position += 1
        return self.list[(self.position - 1) % len(self.list)]

    def run(self, prices: list[int], program: list[int], flags: bool = True) -> Run:
        self.list, self.position = prices, 0
        return Run("Ascend910B1", program, flags)


@pytest.fixture(scope="module")
def prices() -> Any:
    """Set up anew for each example, since the package is cleaned after every test."""
    yield Prices
    forget_registrations()


def check_against_oracle(run: Run) -> None:
    expected = schedule(run.steps)
    assert (run.result is None) == (expected is None)
    if expected is None:
        assert run.message.startswith("schedule: deadlock, ")
        return
    wanted = [(full_name(run.steps[i]), *expected[i]) for i in run.instructions]
    assert [(event.pipe, event.start, event.end) for event in run.events] == wanted
    assert run.result.total_cycles == max((end for _, end in expected), default=0)


@settings(max_examples=2000)
@given(codes)
def test_910_agrees_with_the_oracle(program: list[int]) -> None:
    check_against_oracle(Run("Ascend910B1", program))


@settings(max_examples=1500)
@given(codes)
def test_950_with_vector_scopes_agrees_with_the_oracle(program: list[int]) -> None:
    check_against_oracle(Run("Ascend950PR_9589", program))


@settings(max_examples=1500)
@given(costs, codes)
def test_any_costs_agree_with_the_oracle(prices: Any, given_costs: list[int], program: list[int]) -> None:
    check_against_oracle(prices().run(given_costs, program))


@settings(max_examples=300)
@given(costs, codes)
def test_total_lies_between_the_busiest_pipe_and_the_sum(
    prices: Any, given_costs: list[int], program: list[int]
) -> None:
    run = prices().run(given_costs, program)
    if run.result is not None:
        busiest = max((pipe.cycles for pipe in run.result.pipes.values()), default=0)
        assert busiest <= run.result.total_cycles <= sum(run.costs)


@settings(max_examples=200)
@given(codes)
def test_a_pipe_runs_in_issue_order_one_at_a_time(program: list[int]) -> None:
    run = Run("Ascend910B1", program)
    if run.result is None:
        return
    free: dict[str, int] = {}
    for event in run.events:
        assert event.start >= free.get(event.pipe, 0)
        free[event.pipe] = event.end


@settings(max_examples=200)
@given(costs, codes)
def test_nothing_starts_before_what_it_waits_for_ends(prices: Any, given_costs: list[int], program: list[int]) -> None:
    run = prices().run(given_costs, program)
    if run.result is None:
        return
    event_of = dict(zip(run.instructions, run.events, strict=True))
    for i, needed in enumerate(waits_for(run.steps)):
        for j in needed & event_of.keys():
            assert event_of[j].end <= event_of[i].start


@settings(max_examples=300)
@given(costs, codes, st.integers(0, 24), st.integers(1, 10**9))
def test_a_slower_instruction_never_makes_the_total_smaller(
    prices: Any, given_costs: list[int], program: list[int], which: int, more: int
) -> None:
    slower = list(given_costs)
    slower[which % len(slower)] += more
    before, after = prices().run(given_costs, program), prices().run(slower, program)
    assert (before.result is None) == (after.result is None)
    if before.result is not None:
        assert before.result.total_cycles <= after.result.total_cycles


@settings(max_examples=300)
@given(costs, codes, st.integers(0, 1000))
def test_the_total_scales_with_the_costs(prices: Any, given_costs: list[int], program: list[int], k: int) -> None:
    """Without flags, whose one cycle is no cost that could be scaled."""
    once = prices().run(given_costs, program, flags=False)
    scaled = prices().run([k * cost for cost in given_costs], program, flags=False)
    assert (once.result is None) == (scaled.result is None)
    if once.result is not None:
        assert scaled.result.total_cycles == k * once.result.total_cycles
        assert [event.start for event in scaled.events] == [k * event.start for event in once.events]


@settings(max_examples=150)
@given(codes, codes)
def test_a_program_gives_the_same_again_and_beside_another(program: list[int], other: list[int]) -> None:
    alone, again = Run(CHIPS[0], program), Run(CHIPS[0], program)
    assert alone.outcome == again.outcome

    with mskpp.Chip(CHIPS[1]):  # the inner block is complete in itself
        inside = Run(CHIPS[0], program)
    assert inside.outcome == alone.outcome

    beside: list[Run] = []
    thread = threading.Thread(target=lambda: beside.append(Run(CHIPS[1], other)))
    thread.start()
    meanwhile = Run(CHIPS[0], program)
    thread.join()
    assert meanwhile.outcome == alone.outcome
    assert beside[0].outcome == Run(CHIPS[1], other).outcome
