# SPDX-License-Identifier: Apache-2.0
"""Scheduling of tasks written in Python. Instructions do not come here: they are scheduled in C++."""

from __future__ import annotations

import heapq
import math
import numbers
from collections import deque
from typing import Any

from mskpp.core.place import shown
from mskpp.errors import ArgumentError, DeadlockError, InputError


def _cycles_of(task: Any) -> float:
    cycles = task.cost_time()
    what = f"Schedule: cost_time() of task {_name(task)} returned {shown(cycles)}"
    if isinstance(cycles, bool) or not isinstance(cycles, numbers.Real):
        raise ArgumentError(f"{what}; it must be a finite number of at least 0")
    if not 0 <= cycles < math.inf:  # type: ignore[operator]
        raise InputError(f"{what}; it must be a finite number of at least 0")
    return cycles  # type: ignore[return-value]


def _name(task: Any) -> str:
    return str(getattr(task, "name", type(task).__name__))


class Schedule:
    """Tasks written in Python, in per-pipe queues.

    A task has ``name``, ``owner`` (its pipe), ``cost_time()`` and, if it likes, ``is_ready()``, ``pre_func()``
    (called at its start) and ``post_func()`` (called at its end); ``start_time`` and ``end_time`` are set on it.

    A pipe runs its tasks in the order they were added, one at a time. A task starts when its pipe is free and
    is_ready() is true, which is asked again whenever a task ends. Tasks end in order of time (ties: the pipe added
    first).
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[Any]] = {}

    def add_task(self, task: Any) -> None:
        """Queues a task on its pipe. Raises ArgumentError when it has no owner or no cost_time()."""
        if not isinstance(getattr(task, "owner", None), str) or not callable(getattr(task, "cost_time", None)):
            raise ArgumentError(f"Schedule: task {_name(task)} must have owner, a str, and cost_time()")
        self._queues.setdefault(task.owner, deque()).append(task)

    def run(self) -> float:
        """Runs all queued tasks and returns the time at which the last ends. The queues are empty then, errors or not.

        Raises DeadlockError when tasks are left that never get ready; an exception in a task passes through.
        """
        queues, self._queues = self._queues, {}
        free = dict.fromkeys(queues, 0)
        running: list[tuple[float, int, str]] = []
        busy: set[str] = set()
        order = {pipe: number for number, pipe in enumerate(queues)}
        now: float = 0
        while True:
            for pipe, queue in queues.items():
                if queue and pipe not in busy and _is_ready(queue[0]):
                    task = queue[0]
                    task.start_time = max(now, free[pipe])
                    _hook(task, "pre_func")
                    task.end_time = task.start_time + _cycles_of(task)
                    heapq.heappush(running, (task.end_time, order[pipe], pipe))
                    busy.add(pipe)
            if not running:
                break
            now, _, pipe = heapq.heappop(running)
            busy.discard(pipe)
            free[pipe] = now  # type: ignore[assignment]
            _hook(queues[pipe].popleft(), "post_func")
        stuck = [f"{pipe}  {_name(queue[0])}" for pipe, queue in queues.items() if queue]
        if stuck:
            raise DeadlockError(
                f"schedule: deadlock, {len(stuck)} pipes stuck whose next task never gets ready\n  "
                + "\n  ".join(stuck[:20])
            )
        return now


def _is_ready(task: Any) -> bool:
    is_ready = getattr(task, "is_ready", None)
    return True if is_ready is None else bool(is_ready())


def _hook(task: Any, name: str) -> None:
    function = getattr(task, name, None)
    if function is not None:
        function()
