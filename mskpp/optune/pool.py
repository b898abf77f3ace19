# SPDX-License-Identifier: Apache-2.0
"""Evaluates a Python function for many configurations side by side, in processes of its own or in a user's executor.

A configuration that fails, crashes, hangs or ends its process is an outcome like any other, and touches no other one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Any

from mskpp.errors import ArgumentError, LaunchError
from mskpp.launcher import process
from mskpp.launcher.kernel import ending
from mskpp.optune.nursery import (
    Failure,
    Function,
    GoneError,
    Nursery,
    Worker,
    evaluated_one,
    failure_of,
    unpacked,
    with_printed,
    without_callers,
)

Outcome = float | Failure
Numbered = tuple[int, Any]

SECONDS_EACH = 60.0
AHEAD_SECONDS = 0.01  # of work that a worker has before it, so that it waits for nobody
CHUNK_SECONDS = 0.2  # of work that an executor gets at a time: it may be on another machine
MOST_AHEAD = 256
MOST_NURSERIES = 4  # that may be killed before it is no accident
READ_BYTES = 1 << 16
PRINTED_BYTES = 1 << 14
MOST_READS = 64  # of what stands in a pipe, which has 1 MiB at the most
LOOK_SECONDS = 0.1  # how often an executor's user looks for a wish to stop


class _Rate:
    """How long one configuration takes a worker, of late."""

    def __init__(self) -> None:
        self._seconds = 1.0

    def add(self, seconds: float, count: int) -> None:
        self._seconds += 0.3 * (seconds / count - self._seconds)

    def within(self, seconds: float) -> int:
        """How many configurations fill so many seconds."""
        return max(1, min(MOST_AHEAD, int(seconds / max(self._seconds, 1e-6))))


class _Busy:
    """A worker with the configurations that it has, the first of which it evaluates."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.waiting: deque[Numbered] = deque()
        self.since = 0.0  # it has evaluated the first
        self.outgoing = bytearray()
        self.incoming = bytearray()
        self.printed = bytearray()

    def give(self, items: Sequence[Numbered], data: bytes) -> None:
        if not self.waiting:
            self.since = time.monotonic()
        self.waiting.extend(items)
        self.outgoing += len(data).to_bytes(4, "little") + data

    def read_output(self) -> bool:
        """Takes of what was printed to its descriptors a part that is there; False when there is none."""
        try:
            data = os.read(self.worker.output, READ_BYTES)
        except BlockingIOError:
            return False
        self.printed += data
        del self.printed[:-PRINTED_BYTES]
        return bool(data)

    def close(self) -> None:
        self.worker.channel.close()
        os.close(self.worker.output)


class Pool:
    """Evaluates ``function(configuration)``, which returns a time in us, for many configurations.

    Args:
        workers: processes; None: one for each core this process may use.
        seconds_each: after so many a configuration has timed out. Not with an executor.
        memory_bytes: the address space of each worker; None: no limit. Not with an executor.
        stop: its set() ends everything early.
        executor: evaluates in place of processes of the pool's. The function has to be one it can send.
        by_name: what the executor gets where it cannot send the function.

    Used by one thread, as a context manager. The worker processes end with the block, and with this process.
    """

    def __init__(
        self,
        function: Function,
        *,
        workers: int | None = None,
        seconds_each: float = SECONDS_EACH,
        memory_bytes: int | None = None,
        stop: process.Stop | None = None,
        executor: Executor | None = None,
        by_name: Function | None = None,
        who: str = "autotune",
    ) -> None:
        self._function = function
        self._size = workers or len(os.sched_getaffinity(0))
        self._seconds_each = seconds_each
        self._memory_bytes = memory_bytes
        self._stop = stop or process.Stop()
        self._executor = executor
        self._by_name = by_name
        self._who = who
        self._rate = _Rate()
        self._nursery: Nursery | None = None
        self._nurseries = 0
        self._workers: list[_Busy] = []
        self._again: deque[Numbered] = deque()  # were given to a worker that ended before their turn
        self._stack = contextlib.ExitStack()
        self.broken = ""
        """Why the executor can do no more; what it had then has no outcome."""

    def __enter__(self) -> Pool:
        self._selector = self._stack.enter_context(selectors.DefaultSelector())
        woken, wake = socket.socketpair()
        self._stack.enter_context(woken)
        self._stack.enter_context(wake)
        wake.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)

        def end() -> None:
            with contextlib.suppress(OSError):  # it is full, which wakes too
                wake.send(b"x")

        self._stack.enter_context(self._stop.ends(end))
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers. Again is no harm."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.close()
        for busy in self._workers:
            busy.close()
        self._workers = []
        self._stack.close()

    def map(self, configs: Iterable[Numbered], *, most_ahead: int = MOST_AHEAD) -> Iterator[tuple[int, Outcome]]:
        """The outcome of each (number, configuration), in the order in which they end; fewer after a wish to stop.

        ``configs`` may have no end: it is asked for at most ``most_ahead`` items a worker more than have ended, and
        for about as many as fill a hundredth of a second. What it raises goes through. LaunchError when no process can
        be had.
        """
        if self._executor is not None:
            return self._by_executor(self._executor, iter(configs), most_ahead)
        return self._by_workers(iter(configs), most_ahead)

    # --- by processes ---

    def _by_workers(self, configs: Iterator[Numbered], most_ahead: int) -> Iterator[tuple[int, Outcome]]:
        left = True
        while not self._stop.is_set:
            refused: list[tuple[int, Outcome]] = []
            left = self._hand_out(configs, most_ahead, refused) if left or self._again else False
            yield from refused
            if any(busy.waiting for busy in self._workers):
                yield from self._ended()
            elif not left and not self._again:
                return

    def _hand_out(self, configs: Iterator[Numbered], most_ahead: int, refused: list[tuple[int, Outcome]]) -> bool:
        """Gives work to workers that have little; False when there is no more."""
        depth = min(most_ahead, self._rate.within(AHEAD_SECONDS))
        for position in range(self._size):
            busy = self._workers[position] if position < len(self._workers) else None
            have = 0 if busy is None else len(busy.waiting)
            if 2 * have > depth or have >= depth:
                continue
            items: list[Numbered] = []
            while len(items) < depth - have:
                item = self._again.popleft() if self._again else next(configs, None)
                if item is None:
                    break
                items.append(item)
            if items:
                if busy is None:
                    busy = self._started_if_possible()
                if busy is None:
                    self._again.extendleft(reversed(items))
                    return True
                self._give(busy, items, refused)
            if len(items) < depth - have:
                return False
        return True

    def _give(self, busy: _Busy, items: list[Numbered], refused: list[tuple[int, Outcome]]) -> None:
        try:
            data = pickle.dumps([config for _, config in items], protocol=5)
        except Exception as error:  # a value of a class of the user's: any of them may be it
            if len(items) == 1:
                refused.append((items[0][0], failure_of(error)))
                return
            for item in items:
                self._give(busy, [item], refused)
            return
        busy.give(items, data)
        self._send(busy)

    def _started_if_possible(self) -> _Busy | None:
        try:
            return self._started()
        except LaunchError:
            if not self._workers:
                raise
            self._size = len(self._workers)  # the machine has room for no more
            return None

    def _started(self) -> _Busy:
        for _ in range(MOST_NURSERIES):
            if self._nursery is None:
                self._nurseries += 1
                if self._nurseries > MOST_NURSERIES:
                    break
                self._nursery = Nursery(self._function, self._memory_bytes, self._who)
            try:
                worker = self._nursery.new()
            except GoneError:
                self._lose_nursery()
                continue
            busy = _Busy(worker)
            self._workers.append(busy)
            self._selector.register(worker.channel, selectors.EVENT_READ, busy)
            self._selector.register(worker.output, selectors.EVENT_READ, busy)
            return busy
        raise LaunchError(
            f"{self._who}: the process that forks others was killed {MOST_NURSERIES} times; "
            "look whether the function kills it, or the machine has too little memory"
        )

    def _lose_nursery(self) -> None:
        """Its workers are gone with it, through no fault of what they were doing."""
        assert self._nursery is not None
        self._nursery.close()
        self._nursery = None
        for busy in self._workers:
            self._again.extendleft(reversed(busy.waiting))
            self._forget(busy)
        self._workers = []

    def _forget(self, busy: _Busy) -> None:
        self._selector.unregister(busy.worker.channel)
        with contextlib.suppress(KeyError):
            self._selector.unregister(busy.worker.output)
        busy.close()

    def _send(self, busy: _Busy) -> None:
        """Sends what the channel takes, and the rest when it takes more."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):  # its end is seen elsewhere
            while busy.outgoing:
                del busy.outgoing[: busy.worker.channel.send(busy.outgoing)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if busy.outgoing else 0)
        if self._selector.get_key(busy.worker.channel).events != events:
            self._selector.modify(busy.worker.channel, events, busy)

    def _ended(self) -> list[tuple[int, Outcome]]:
        """Waits for something to happen; the outcomes that are known by it."""
        now = time.monotonic()
        limits = [busy.since + self._seconds_each - now for busy in self._workers if busy.waiting]
        out: list[tuple[int, Outcome]] = []
        gone: list[_Busy] = []
        for key, events in self._selector.select(max(0.0, min(limits)) if limits else None):
            busy = key.data
            if busy is None:  # a wish to stop
                return []
            if key.fd == busy.worker.output:
                if not busy.read_output():  # it was closed
                    self._selector.unregister(key.fd)
                continue
            if events & selectors.EVENT_WRITE:
                self._send(busy)
            if events & selectors.EVENT_READ and not self._read(busy, out):
                gone.append(busy)
        for busy in gone:
            if busy in self._workers:
                out += self._replaced(busy, in_time=True)
        now = time.monotonic()
        for busy in list(self._workers):
            if busy in self._workers and busy.waiting and now - busy.since >= self._seconds_each:
                out += self._replaced(busy, in_time=False)
        return out

    def _read(self, busy: _Busy, out: list[tuple[int, Outcome]]) -> bool:
        """Takes the worker's answers; False when there will be no more."""
        try:
            data = busy.worker.channel.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        busy.incoming += data
        count = 0
        for outcome in unpacked(busy.incoming):
            out.append((busy.waiting.popleft()[0], outcome))
            count += 1
        if count:
            now = time.monotonic()
            self._rate.add(now - busy.since, count)
            busy.since = now
            busy.printed.clear()
        return bool(data)

    def _replaced(self, busy: _Busy, *, in_time: bool) -> list[tuple[int, Outcome]]:
        """What becomes of the configurations of a worker that has ended, or hangs: the first fails, and others go on
        elsewhere."""
        assert self._nursery is not None
        try:
            code = self._nursery.end(busy.worker, abort=not in_time)
        except GoneError:
            self._lose_nursery()
            return []
        for _ in range(MOST_READS):
            if not busy.read_output():
                break
        self._workers.remove(busy)
        self._forget(busy)
        if not busy.waiting:
            return []
        number, _ = busy.waiting.popleft()
        self._again.extendleft(reversed(busy.waiting))
        printed = without_callers(busy.printed.decode(errors="replace"))
        if in_time:
            reason = f"the process that evaluated it ended: {ending(code)}"
            return [(number, Failure("crashed", reason, with_printed(reason, printed)))]
        reason = f"no result within {self._seconds_each:g} s"
        return [(number, Failure("timed out", reason, with_printed(reason, printed)))]

    # --- by an executor ---

    def _by_executor(
        self, executor: Executor, configs: Iterator[Numbered], most_ahead: int
    ) -> Iterator[tuple[int, Outcome]]:
        forms = [self._function, *([] if self._by_name is None else [self._by_name])]
        size = getattr(executor, "_max_workers", None)
        most = 2 * (size if isinstance(size, int) else self._size)
        flying: dict[Future[tuple[list[Outcome], float]], tuple[Function, list[Numbered]]] = {}
        try:
            while not self._stop.is_set and not self.broken:
                while len(flying) < most:
                    items = [*self._taken(configs, min(most_ahead, self._rate.within(CHUNK_SECONDS)))]
                    if not items:
                        break
                    try:
                        future = executor.submit(evaluated_chunk, forms[0], [config for _, config in items])
                    except Exception as error:  # it is broken or was shut down, or whatever its class raises
                        self.broken = reason_of(error)
                        break
                    flying[future] = forms[0], items
                if not flying:
                    return
                for future in wait(flying, LOOK_SECONDS, FIRST_COMPLETED).done:
                    form, items = flying.pop(future)
                    cancelled = CancelledError("it cancelled what it was given")
                    failure = cancelled if future.cancelled() else future.exception()
                    if failure is None:
                        answer = answer_of(future.result(), len(items))
                        if answer is None:
                            self.broken = "it answered with something else than the results of what it was given"
                            continue
                        self._rate.add(answer[1], len(items))
                        yield from zip((number for number, _ in items), answer[0], strict=True)
                    elif isinstance(failure, BrokenExecutor | CancelledError):  # through no fault of what it had
                        self.broken = reason_of(failure)
                    elif is_about_pickling(failure):
                        if form is forms[0]:
                            forms.pop(0)
                        if not forms:
                            raise self._cannot_be_sent(failure)
                        self._again.extendleft(reversed(items))
                    else:
                        reason = f"its executor failed: {type(failure).__name__}: {failure}".splitlines()[0]
                        yield from ((number, Failure("crashed", reason, reason)) for number, _ in items)
        finally:
            for future in flying:
                future.cancel()

    def _taken(self, configs: Iterator[Numbered], most: int) -> Iterator[Numbered]:
        for _ in range(most):
            item = self._again.popleft() if self._again else next(configs, None)
            if item is None:
                return
            yield item

    def _cannot_be_sent(self, error: BaseException) -> ArgumentError:
        return ArgumentError(
            f"{self._who}: executor={type(self._executor).__name__} cannot send the function: {error}; define it at "
            "the top of a module that the workers can import, or take an executor that uses cloudpickle, such as "
            "dask.distributed's Client.get_executor()"
        )


def evaluated_chunk(function: Function, configs: Sequence[Any]) -> tuple[list[Outcome], float]:
    """What an executor does: the outcomes, and how long they took."""
    began = time.monotonic()
    return [evaluated_one(function, config) for config in configs], time.monotonic() - began


def answer_of(answer: Any, count: int) -> tuple[list[Outcome], float] | None:
    """What evaluated_chunk() gave for so many configurations; None of what it cannot have given."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return None
    outcomes, seconds = answer
    if not isinstance(outcomes, list | tuple) or len(outcomes) != count or not isinstance(seconds, int | float):
        return None
    if not all(isinstance(one, int | float | Failure) for one in outcomes):
        return None
    return list(outcomes), seconds


def reason_of(error: BaseException) -> str:
    """One line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")


def is_about_pickling(error: BaseException) -> bool:
    """Whether it is what pickle raises; it has one class of its own, and uses others."""
    return isinstance(error, pickle.PicklingError) or (
        isinstance(error, AttributeError | TypeError) and "pickle" in str(error).lower()
    )
