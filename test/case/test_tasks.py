# SPDX-License-Identifier: Apache-2.0
"""Schedule: tasks written in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import mskpp
from mskpp import DeadlockError, Schedule
from mskpp.errors import ArgumentError, InputError


class Task:
    def __init__(self, name: str, owner: str, cycles: Any, ready: Callable[[], bool] | None = None) -> None:
        self.name, self.owner, self.cycles = name, owner, cycles
        self.calls: list[str] = []
        if ready is not None:
            self.is_ready = ready

    def cost_time(self) -> Any:
        return self.cycles

    def pre_func(self) -> None:
        self.calls.append("pre")

    def post_func(self) -> None:
        self.calls.append("post")

    @property
    def times(self) -> tuple[float, float]:
        return self.start_time, self.end_time


def run(*tasks: Any) -> float:
    schedule = Schedule()
    for task in tasks:
        schedule.add_task(task)
    return schedule.run()


def test_a_pipe_runs_in_order_and_pipes_side_by_side() -> None:
    a, b, c = Task("a", "PIPE-V", 10), Task("b", "PIPE-V", 5), Task("c", "PIPE-M", 12)
    assert run(a, b, c) == 15
    assert (a.times, b.times, c.times) == ((0, 10), (10, 15), (0, 12))
    assert a.calls == b.calls == c.calls == ["pre", "post"]


def test_tasks_wait_until_they_are_ready() -> None:
    done: list[str] = []
    a = Task("a", "PIPE-MTE2", 10)
    a.post_func = lambda: done.append("a")  # type: ignore[method-assign]
    b = Task("b", "PIPE-V", 4, lambda: "a" in done)
    c = Task("c", "PIPE-V", 1)
    assert run(b, c, a) == 15
    assert (b.times, c.times) == ((10, 14), (14, 15))  # c stays behind b: one pipe, one order


def test_completions_come_in_order_of_time_and_then_of_pipes() -> None:
    order: list[str] = []
    tasks = [Task("late", "p1", 7), Task("tie of p2", "p2", 3), Task("tie of p3", "p3", 3), Task("early", "p4", 1)]
    for task in tasks:
        task.post_func = lambda name=task.name: order.append(name)  # type: ignore[method-assign]
    assert run(*tasks) == 7
    assert order == ["early", "tie of p2", "tie of p3", "late"]


def test_what_is_not_needed_may_be_missing() -> None:
    class Small:
        owner = "PIPE-V"

        def cost_time(self) -> int:
            return 3

    assert run(Small(), Small()) == 6


def test_an_empty_schedule() -> None:
    assert run() == 0


def test_a_schedule_may_be_used_again() -> None:
    schedule = Schedule()
    for _ in range(2):
        schedule.add_task(Task("a", "PIPE-V", 3))
        assert schedule.run() == 3
    assert schedule.run() == 0


@pytest.mark.parametrize("cycles", [0, 0.5, 2**70, numpy.float32(1.5), numpy.int64(7)], ids=repr)
def test_costs(cycles: Any) -> None:
    assert run(Task("a", "PIPE-V", cycles)) == cycles


@pytest.mark.parametrize(
    ("cycles", "error"),
    [
        ("7", ArgumentError),
        (None, ArgumentError),
        (True, ArgumentError),
        (1j, ArgumentError),
        (numpy.bool_(True), ArgumentError),
        (-1, InputError),
        (math.nan, InputError),
        (math.inf, InputError),
        (-math.inf, InputError),
    ],
    ids=repr,
)
def test_costs_that_are_none(cycles: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        run(Task("mine", "PIPE-V", cycles))
    assert str(caught.value).startswith("Schedule: cost_time() of task mine returned ")
    assert "it must be a finite number of at least 0" in str(caught.value)


def test_tasks_that_never_get_ready_are_a_deadlock() -> None:
    tasks = [Task(f"t{n}", f"p{n}", 1, lambda: False) for n in range(30)]
    with pytest.raises(DeadlockError) as caught:
        run(Task("fine", "PIPE-V", 1), *tasks)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("schedule: deadlock, 30 pipes stuck") and lines[1] == "  p0  t0" and len(lines) <= 22
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("method", ["cost_time", "is_ready", "pre_func", "post_func"])
def test_an_exception_propagates_as_itself_and_the_schedule_is_clean(method: str) -> None:
    def fail() -> Any:
        raise KeyError("mine")

    schedule = Schedule()
    bad = Task("bad", "PIPE-V", 1)
    setattr(bad, method, fail)
    schedule.add_task(bad)
    with pytest.raises(KeyError, match="mine"):
        schedule.run()
    schedule.add_task(Task("good", "PIPE-V", 2))
    assert schedule.run() == 2


@pytest.mark.parametrize(
    "task",
    [None, 5, object(), type("T", (), {"owner": "p"})(), type("T", (), {"owner": 3, "cost_time": int})()],
    ids=range(5),
)
def test_what_is_no_task(task: Any) -> None:
    with pytest.raises(ArgumentError, match=r"Schedule: task \w+ must have owner, a str, and cost_time\(\)"):
        Schedule().add_task(task)


def test_tasks_do_not_touch_the_chip_in_force() -> None:
    with mskpp.Chip("Ascend910B1") as chip:
        assert run(Task("a", "PIPE-V", 3)) == 3
    assert len(chip.result) == 0
