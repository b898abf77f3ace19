# SPDX-License-Identifier: Apache-2.0
"""The search: candidates are made from the tunable source, compiled side by side, measured in rounds, and ranked.

A candidate that fails is a row of the result. Where compiling disturbs measuring (the host), a batch is compiled before
any of it is timed; on a device the first measurements run while others compile.

Everything is done by threads other than the caller's, which only waits: an interrupt reaches the main thread alone, and
so never falls between a thing and its removal. After one (Ctrl-C) the processes of all candidates are ended, the
threads end because of that, and what is known is in result().
"""

from __future__ import annotations

import _thread
import contextvars
import os
import statistics
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mskpp.errors import BackendError, CompileError, LaunchError, StateError
from mskpp.launcher import process
from mskpp.launcher.record import Moment
from mskpp.log import logger
from mskpp.optune import compiling, device
from mskpp.optune.candidate import Candidate, without_folder
from mskpp.optune.folder import PrivateFolder
from mskpp.optune.measure import FEW as FEW_SAMPLES
from mskpp.optune.measure import best_of, needs_more
from mskpp.optune.memory import Memory
from mskpp.optune.plan import Plan
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult
from mskpp.optune.space import Space
from mskpp.optune.strategy import Walk
from mskpp.optune.targets import Target

NARROW = 0.02  # of the median: known well enough
MOST_ROUNDS = 40
ROUNDS_SECONDS = 10.0  # of measuring contenders again
BATCH = 8  # candidates a core that are compiled before any of them is measured, where compiling disturbs
POOR = 0.5  # rank correlation, below which predictions do not decide
FEW = 3  # for a correlation
LOOK_SECONDS = 0.1  # how often an interrupt is looked for
WAITERS = 32  # threads that wait for an executor
END_SECONDS = 10.0  # for the threads to end after an interrupt; then they are left
Found = TypeVar("Found")


class Course(Protocol):
    """Who is told how a search goes, by several threads."""

    def ended(self, trial: Trial) -> None:
        """A candidate has ended, or is known better."""
        ...

    def phase(self, text: str) -> None:
        """What is being done now."""
        ...


def protected(work: Callable[[], Found], stop: Callable[[], object]) -> Found:
    """The result of the work, which another thread does. An interrupt calls ``stop()``, waits for the work to end, and
    goes on then; further ones do not shorten that wait."""
    # The plain lock and thread: an interrupt within threading.Event or Thread.start can leave their locks taken.
    done = _thread.allocate_lock()
    done.acquire()
    begun: list[bool] = []
    found: list[Found] = []
    failure: list[BaseException] = []

    def run() -> None:
        begun.append(True)
        try:
            found.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
        # In pieces: an interrupt that comes just before a wait begins does not end it, and is acted on only after it.
        while not done.acquire(timeout=LOOK_SECONDS):
            pass
    except BaseException:
        began = time.monotonic()
        while not found and not failure:
            try:
                stop()
                passed = time.monotonic() - began
                if passed > END_SECONDS or (not begun and passed > 0.2):
                    break
                time.sleep(0.005)
            except KeyboardInterrupt:
                continue
        raise
    if failure:
        raise failure[0]
    return found[0]


class Search:
    """One tuning of one target."""

    def __init__(
        self,
        target: Target,
        space: Space,
        plan: Plan,
        predicted: Callable[[process.Stop], Mapping[int, float | None]] | None = None,
    ) -> None:
        self._target = target
        self._space = space
        self._plan = plan
        self._predicted = predicted
        self._predictions: Mapping[int, float | None] | None = None
        self._walk: Walk | None = None
        self._stop = process.Stop()
        self._limits = process.Limits(plan.memory_bytes, self._stop)
        self._folder: PrivateFolder | None = None
        self._memory: Memory | None = None
        self.candidates: list[Candidate] = []
        self._broken: set[int] = set()  # devices whose last candidate failed
        self._waiting: list[set[int]] = [set() for _ in range(target.devices)]  # for each device
        self._is_compiling = False
        self._vouched: set[str] = set()  # groups from the store of which one has run
        self._finished = False
        self._begin = time.monotonic()
        self._seconds = 0.0

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the candidates' processes and removes what was made for them."""
        protected(self._close, self._stop.set)

    def _close(self) -> None:
        self._target.close()
        if self._memory is not None:
            self._memory.close()
        if self._folder is not None:
            self._folder.close()

    def run(self, course: Course) -> TuneResult:
        """Searches. An interrupt goes through; result() then has what is known."""
        context = contextvars.copy_context()
        protected(lambda: context.run(self._search, course), self._stop.set)
        return self.result()

    def winner(self, number: int) -> Any:
        """What stands for the candidate's kernel or program in the user's function. A kernel outlives the search."""
        return self._target.winner(next(c for c in self.candidates if c.number == number))

    def result(self) -> TuneResult:
        candidates = sorted(self.candidates, key=lambda c: c.number)
        known = {c.number: c.time for c in candidates if c.good}
        ties = tuple(best_of(known)[1]) if known else ()
        return TuneResult(
            tuple(candidate.trial() for candidate in candidates),
            self._target.backend,
            self._target.name,
            ties,
            self._finished and self._walk is not None and self._walk.complete,
            self._seconds or time.monotonic() - self._begin,
            correlation(candidates),
            self._space.size,
        )

    def _search(self, course: Course) -> None:
        self._folder = PrivateFolder()
        self._target.open(self._limits)
        if self._plan.store:
            self._memory = Memory(self._target, self._space, self._plan)
        if self._predicted is not None:
            course.phase("predicting")
            self._predictions = self._predicted(self._stop)
        self._walk = Walk(self._space, self._plan, self._predictions, self._begin)
        with ExitStack() as stack:
            threads = [
                stack.enter_context(ThreadPoolExecutor(1, f"mskpp device {number}"))
                for number in range(self._target.devices)
            ]
            stack.callback(self._stop.set)  # before the threads are waited for, whatever happened
            while not self._stop.is_set and self._batch(threads, course):
                pass
            self._more_rounds(threads, course)
            self._compile_best(threads, course)
            self._finished = not self._stop.is_set
            self._seconds = time.monotonic() - self._begin

    def _batch(self, threads: Sequence[ThreadPoolExecutor], course: Course) -> bool:
        """Some candidates from nothing to their ending. False when no more are wanted."""
        assert self._walk is not None
        cores = len(os.sched_getaffinity(0))
        limit = 2 * cores if self._walk.learns else BATCH * cores if self._target.disturbed else None
        first = len(self.candidates)
        self._first_round(threads, course, limit)
        new = self.candidates[first:]
        self._try_suspects(threads, course, new)
        self._judge(threads, course)
        for candidate in new:
            self._keep(candidate)
            self._walk.tell(candidate.number, candidate.time.median if candidate.good else None)
        return bool(new) or self._widened()

    def _widened(self) -> bool:
        """Goes on beyond ``top_k`` where predictions and times do not agree, or nothing was good."""
        assert self._walk is not None
        found = correlation(self.candidates)
        if self._stop.is_set or (any(c.good for c in self.candidates) and (found is None or found >= POOR)):
            return False
        if not self._walk.widen():
            return False
        if self._predictions is not None:
            why = "no candidate was good" if found is None else f"prediction and measurement agree poorly ({found:.2f})"
            logger.warning("%s: %s; more are tried than top_k", self._plan.who, why)
        return True

    # --- candidates ---

    def _wanted(self, limit: int | None) -> Iterator[Candidate]:
        """New candidates, until a budget ends; at most so many of which nothing is known."""
        assert self._walk is not None
        unknown = 0
        while not self._stop.is_set and (limit is None or unknown < limit):
            number = self._walk.ask()
            if number is None:
                return
            candidate = Candidate(number, self._space.config(number), len(self.candidates) % self._target.devices)
            candidate.predicted = None if self._predictions is None else self._predictions.get(number)
            if self._memory is not None:
                self._memory.recall(candidate)
            unknown += not candidate.from_store
            self.candidates.append(candidate)
            yield candidate

    def _compiled(self, limit: int | None) -> Generator[Candidate, None, None]:
        """Candidates as they are compiled, with their library or their failure; at most a few wait to be compiled."""
        workers = len(os.sched_getaffinity(0)) if self._plan.executor is None else WAITERS
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(workers, thread_name_prefix="mskpp compile"))
            waiting: dict[Future[Any], Candidate] = {}

            def ended() -> Iterable[Candidate]:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    candidate = waiting.pop(future)
                    future.result()
                    yield candidate

            try:
                for candidate in self._wanted(limit):
                    if candidate.from_store:
                        yield candidate
                        continue
                    waiting[pool.submit(self._compile, candidate)] = candidate
                    while len(waiting) >= 2 * workers:
                        yield from ended()
                while waiting:
                    yield from ended()
            finally:
                if waiting:  # given up
                    self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _folder_of(self, candidate: Candidate) -> Path:
        assert self._folder is not None
        return self._folder.path / str(candidate.number)

    def _compile(self, candidate: Candidate) -> None:
        """BackendError and StateError are no candidate's fault, and go through."""
        assert self._folder is not None
        if self._stop.is_set:
            return
        begin = time.monotonic()
        try:
            moment = None if self._memory is None else Moment.now()
            job = self._target.generate(candidate, self._folder_of(candidate), self._folder.path)
            watched = None if self._memory is None else self._memory.watched(job)
            if self._plan.executor is None:
                compiling.compile_here(job, self._stop, None if watched is None else watched.environment)
            else:
                self._compile_there(job)
            candidate.library = job.output
            if self._memory is not None and moment is not None and watched is not None:
                self._memory.compiled(candidate, watched, moment)
        except (BackendError, StateError):
            raise
        except Exception as error:
            if not self._stop.is_set:
                self._fail(candidate, error)
        candidate.compile_seconds = time.monotonic() - begin

    def _compile_there(self, job: compiling.Job) -> None:
        """Has the executor compile, and waits for it; not after an interrupt."""
        assert self._plan.executor is not None
        future = self._plan.executor.submit(compiling.compile_there, job)
        while True:
            try:
                future.result(LOOK_SECONDS).check()
                return
            except BrokenExecutor as error:
                raise StateError(f"{self._plan.who}: the executor broke: {error}") from error
            except FutureTimeoutError:
                if future.done():
                    continue
                if self._stop.is_set:
                    future.cancel()
                    raise LaunchError("interrupted") from None

    # --- times ---

    def _first_round(self, threads: Sequence[ThreadPoolExecutor], course: Course, limit: int | None) -> None:
        measured: list[Future[None]] = []
        self._is_compiling = not self._target.disturbed
        course.phase("compiling" if self._target.disturbed else "compiling and measuring")
        with closing(self._compiled(limit)) as compiled:
            arriving: Iterable[Candidate] = compiled
            if self._target.disturbed:
                ready = []
                for candidate in compiled:
                    ready.append(candidate)
                    course.phase(f"compiling, {len(ready)} ready")
                arriving = sorted(ready, key=lambda candidate: candidate.number)
            for candidate in arriving:
                if candidate.library is None or candidate.ending != NOT_TRIED:
                    self._ended(candidate, course)
                else:
                    self._waiting[candidate.device].add(candidate.number)
                    measured.append(threads[candidate.device].submit(self._first, candidate, course))
            self._is_compiling = False
        course.phase("measuring")
        for future in measured:
            future.result()

    def _first(self, candidate: Candidate, course: Course) -> None:
        """The output's check and the first sample."""
        self._waiting[candidate.device].discard(candidate.number)
        if self._stop.is_set:
            return
        try:
            self._target.check(candidate)
            # What else a host does can make a single launch many times as long.
            for _ in range(FEW_SAMPLES if self._target.disturbed else 1):
                candidate.samples.append(self._target.sample(candidate))
            candidate.ending = MEASURED
        except BackendError:
            raise
        except Exception as error:
            if self._stop.is_set:  # it was ended
                return
            self._fail(candidate, error)
        # A device that one has broken may make the next ones fail; on the host each has a process of its own.
        broken = candidate.ending in ("crashed", "timed out") and not self._target.disturbed
        after_another = candidate.device in self._broken and candidate.ending == "crashed"
        candidate.suspect = broken and after_another and not candidate.suspect
        (self._broken.add if broken else self._broken.discard)(candidate.device)
        self._ended(candidate, course)
        self._use_the_wait(candidate.device)

    def _use_the_wait(self, device: int) -> None:
        """While others compile and none of them is ready, the device measures the contenders so far again."""
        for _ in range(MOST_ROUNDS):
            if not self._is_compiling or self._waiting[device] or self._stop.is_set:
                return
            known = {c.number: c.time for c in self.candidates if c.good}
            wanted = needs_more(known, NARROW) if known else []
            mine = [c for c in self.candidates if c.number in wanted and c.device == device and not c.from_store]
            if not mine:
                return
            self._again(min(mine, key=lambda c: len(c.samples)))

    def _ended(self, candidate: Candidate, course: Course) -> None:
        candidate.elapsed = time.monotonic() - self._begin
        for one in self.candidates if candidate.good else [candidate]:
            if not one.good or self._is_compared(one):
                self._keep(one)
        course.ended(candidate.trial())

    def _is_compared(self, candidate: Candidate) -> bool:
        """Whether its output is known to be right. Of outputs that are compared with each other the right one shows
        when two agree."""
        trusted = self._target.trusted()
        return trusted is None or candidate.number in trusted

    def _keep(self, candidate: Candidate) -> None:
        if self._memory is not None and candidate.ending != NOT_TRIED and not self._stop.is_set:
            self._memory.keep(candidate, compared=self._is_compared(candidate))

    def _try_suspects(self, threads: Sequence[ThreadPoolExecutor], course: Course, new: Sequence[Candidate]) -> None:
        """Those that failed right after another one on their device once more, each on a device that is opened anew."""
        for candidate in [c for c in new if c.suspect]:
            if self._stop.is_set:
                return
            self._target.reopen(candidate.device)
            candidate.ending, candidate.reason, candidate.log = NOT_TRIED, "", ""
            candidate.samples.clear()
            threads[candidate.device].submit(self._first, candidate, course).result()

    def _fail(self, candidate: Candidate, error: Exception) -> None:
        candidate.fail(without_folder(error, self._folder_of(candidate)))

    def _disprove(self, candidate: Candidate, error: Exception) -> None:
        """What the store says of it is not so."""
        logger.warning("%s: No.%d is not as the store has it: %s", self._plan.who, candidate.number, error)
        self._fail(candidate, error)
        candidate.from_store = False
        if self._memory is not None:
            self._memory.drop(candidate)

    def _compare_with_known(self, threads: Sequence[ThreadPoolExecutor]) -> None:
        """Outputs of candidates from the store were compared in groups, when they were measured. One of each group runs
        once more, for new ones and other groups to be compared with."""
        known = [c for c in self.candidates if c.good and c.from_store]
        groups = {c.group for c in known}
        fresh = any(c.good and not c.from_store for c in self.candidates)
        if self._target.trusted() is None or not (fresh or len(groups) > 1):
            return
        for group in sorted(groups - self._vouched):
            members = sorted((c for c in known if c.group == group), key=lambda c: (c.time.median, c.number))
            for one in members:
                if self._stop.is_set:
                    return
                if self._runs(one, threads):
                    self._target.vouch(one.number, [c.number for c in members if c is not one and c.good])
                    self._vouched.add(group)
                    break

    def _runs(self, candidate: Candidate, threads: Sequence[ThreadPoolExecutor]) -> bool:
        """Compiles one that the store knows and checks its output; what is wrong with it disproves the store."""
        try:
            if candidate.library is None:
                self._compile(candidate)
            if candidate.good:
                threads[candidate.device].submit(self._target.check, candidate).result()
                return True
            self._disprove(candidate, CompileError(candidate.log.partition(": ")[2] or candidate.reason))
        except BackendError:
            raise
        except Exception as error:
            if not self._stop.is_set:
                self._disprove(candidate, error)
        return False

    def _compile_best(self, threads: Sequence[ThreadPoolExecutor], course: Course) -> None:
        """What is best by the store is not compiled yet, and need not compile any more, nor be right for these
        arguments and this reference."""
        while not self._stop.is_set:
            best = self.result().best
            candidate = next((c for c in self.candidates if best is not None and c.number == best.number), None)
            if candidate is None or not candidate.from_store:
                return
            assert self._memory is not None
            if self._memory.is_right(candidate) or self._target.trusted() is not None:
                if candidate.library is None:
                    self._compile(candidate)
                if candidate.good:
                    return
                self._disprove(candidate, CompileError(candidate.log.partition(": ")[2] or candidate.reason))
            elif self._runs(candidate, threads):
                self._memory.confirm(candidate)
                return
            course.ended(candidate.trial())

    def _judge(self, threads: Sequence[ThreadPoolExecutor], course: Course) -> None:
        self._compare_with_known(threads)
        wrong = self._target.wrong()
        for candidate in self.candidates:
            if candidate.number in wrong and candidate.good:
                if candidate.from_store:
                    self._disprove(candidate, wrong[candidate.number])
                else:
                    self._fail(candidate, wrong[candidate.number])
                course.ended(candidate.trial())

        self._join_groups()

    def _join_groups(self) -> None:
        """Those that were found equal now are one group from now on."""
        trusted = self._target.trusted()
        if trusted is None or self._memory is None:
            return
        right = [c for c in self.candidates if c.good and c.number in trusted]
        groups = Counter(c.group for c in right if c.from_store)
        group = groups.most_common(1)[0][0] if groups else ""
        for candidate in right if group else ():
            if candidate.group != group:
                candidate.group = group
                if candidate.from_store:
                    self._memory.confirm(candidate)

    def _more_rounds(self, threads: Sequence[ThreadPoolExecutor], course: Course) -> None:
        """Contenders again, one sample each a round, until the best is known or a limit ends it."""
        end = time.monotonic() + ROUNDS_SECONDS
        if self._plan.seconds is not None:
            end = min(end, self._begin + self._plan.seconds)
        changed: set[int] = set()
        course.phase("measuring the best again")
        for _ in range(MOST_ROUNDS):
            known = {c.number: c.time for c in self.candidates if c.good}
            fresh = {c.number for c in self.candidates if not c.from_store}
            # No more than have their process still.
            wanted = [number for number in needs_more(known, NARROW) if number in fresh] if known else []
            again = set(wanted[: device.KEPT])
            if not again or time.monotonic() >= end or self._stop.is_set:
                break
            for future in [threads[c.device].submit(self._again, c) for c in self.candidates if c.number in again]:
                future.result()
            changed |= again
            for candidate in self.candidates:
                if candidate.number in again:
                    course.ended(candidate.trial())
        for candidate in self.candidates:
            if candidate.number in changed:
                self._keep(candidate)

    def _again(self, candidate: Candidate) -> None:
        if self._stop.is_set:
            return
        try:
            candidate.samples.append(self._target.sample(candidate))
        except Exception as error:
            if self._stop.is_set:
                return
            logger.warning("%s: No.%d failed when it was measured again: %s", self._plan.who, candidate.number, error)
            self._fail(candidate, error)


def correlation(candidates: Iterable[Candidate]) -> float | None:
    """Spearman's rank correlation of predicted and measured times; None of fewer than FEW, or of equal ones."""
    pairs = [(c.predicted, c.time.median) for c in candidates if c.good and c.predicted is not None]
    if len(pairs) < FEW:
        return None
    try:
        return statistics.correlation(ranks([p for p, _ in pairs]), ranks([m for _, m in pairs]))
    except statistics.StatisticsError:  # all are equal
        return None


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal ones share the mean of theirs."""
    order = sorted(values)
    return [(bisect_left(order, value) + bisect_right(order, value) - 1) / 2 for value in values]
