# SPDX-License-Identifier: Apache-2.0
"""The search: candidates are made from the tunable source, compiled side by side, measured in rounds, and ranked.

A candidate that fails is a row of the result. On the host compiling is over before anything is timed; on a device the
first measurements run while others compile.

Everything is done by threads other than the caller's, which only waits: an interrupt reaches the main thread alone, and
so never falls between a thing and its removal. After one (Ctrl-C) the processes of all candidates are ended, the
threads end because of that, and what is known is in result().
"""

from __future__ import annotations

import _thread
import contextvars
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mskpp.errors import BackendError, CompileError, InputError, LaunchError, StateError, TimeLimitError
from mskpp.launcher import backend as backends
from mskpp.launcher import checks, compiler, process
from mskpp.launcher.code_generator import check_values, generate_kernel
from mskpp.launcher.kernel import CompiledKernel
from mskpp.launcher.signature import read_signature
from mskpp.log import logger
from mskpp.optune import device, tunable
from mskpp.optune.folder import PrivateFolder
from mskpp.optune.measure import best_of, interval, is_time, needs_more
from mskpp.optune.outputs import Arguments, Outputs, WrongResultError
from mskpp.optune.recorder import Recording
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult
from mskpp.optune.space import Config, Space

NARROW = 0.02  # of the median: known well enough
MOST_ROUNDS = 40
ROUNDS_SECONDS = 10.0  # of measuring contenders again
LAUNCH_MS = 60000  # when the user's launch gives no timeout
END_SECONDS = 10.0  # for the threads to end after an interrupt; then they are left
ERROR_LINE = re.compile(r"\b(?:fatal )?error\b ?:", re.IGNORECASE)
Found = TypeVar("Found")


@dataclass(frozen=True)
class Plan:
    """How to search."""

    warmup_us: int = 300
    repeat: int = 1
    device_ids: tuple[int, ...] = (0,)
    strategy: str = "in order"
    seed: int = 0
    trials: int | None = None  # at most so many
    seconds: float | None = None  # no new candidate after them
    reference: Callable[..., Any] | None = None
    memory_bytes: int | None = None
    who: str = "autotune"


@dataclass
class Candidate:
    """One configuration on its way."""

    number: int
    config: Config
    library: Path | None = None  # compiled
    compile_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)  # us
    ending: str = NOT_TRIED
    reason: str = ""
    log: str = ""

    def fail(self, error: BaseException) -> None:
        """Notes how it ended. An error of any class is an ending."""
        text = str(error).strip()
        lines = [line.strip() for line in text.splitlines()] or [type(error).__name__]
        if isinstance(error, CompileError):  # the compiler's first error says more than the command, which may be long
            lines.insert(0, next((line for line in lines[1:] if ERROR_LINE.search(line)), lines[0]))
        self.ending = ending_of(error)
        self.reason = lines[0] if self.ending != "failed" or text else f"{type(error).__name__}"
        self.log = f"{type(error).__name__}: {text}"
        self.library = None

    def trial(self) -> Trial:
        found = interval(self.samples) if self.ending == MEASURED else None
        return Trial(
            self.number,
            self.config,
            self.ending,
            found.median if found else None,
            found.low if found else None,
            found.high if found else None,
            found.samples if found else 0,
            self.compile_seconds,
            self.reason,
            self.log,
        )


def ending_of(error: BaseException) -> str:
    if isinstance(error, WrongResultError):
        return "wrong result"
    if isinstance(error, TimeLimitError):
        return "timed out"
    if isinstance(error, CompileError):
        return "does not compile"
    return "crashed" if isinstance(error, LaunchError) else "failed"


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
        done.acquire()
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
    """One tuning of one kernel. InputError or ArgumentError where names, values or arguments do not fit."""

    def __init__(self, recording: Recording, space: Space, plan: Plan) -> None:
        self._recording = recording
        self._space = space
        self._plan = plan
        who = plan.who
        compilation = recording.compilation
        self._backend = backends.chosen(compilation.backend, who)
        if self._backend.name == "host" and plan.device_ids != (0,):
            raise InputError(f"{who}: device_ids is {list(plan.device_ids)}; the backend host has one device, 0")
        if compilation.build_script is not None:
            checks.script(compilation.build_script, who)
        signature = read_signature(recording.source, recording.config.kernel_name)
        check_values(signature, recording.args, who)
        self._markers = tunable.read_markers(recording.source)
        tunable.check(self._markers, list(space.samples()), who)
        self._arguments = Arguments(recording.args)
        # What is left in a workspace is nobody's result.
        is_scratch = ["workspace" in parameter.name.lower() for parameter in signature.parameters]
        self._outputs = Outputs(self._arguments, plan.reference, is_scratch)
        self._keywords = {"blockdim": recording.keywords["blockdim"]}
        self._keywords["timeout"] = recording.keywords.get("timeout", LAUNCH_MS)
        self._stop = process.Stop()
        self._limits = process.Limits(plan.memory_bytes, self._stop)
        self._folder: PrivateFolder | None = None
        self._devices: list[device.Device] = []
        self._device_of: dict[int, int] = {}  # by the candidate's number
        self.candidates: list[Candidate] = []
        self._all_wanted = False
        self._finished = False
        self._begin = time.monotonic()
        self._seconds = 0.0

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the candidates' processes and removes what was made for them."""
        protected(self._close, self._stop.set)

    def _close(self) -> None:
        for one in self._devices:
            one.close()
        if self._folder is not None:
            self._folder.close()

    def run(self, progress: Callable[[Candidate], None]) -> TuneResult:
        """Searches. An interrupt goes through; result() then has what is known. ``progress`` is called by other
        threads, when a candidate has ended."""
        context = contextvars.copy_context()
        protected(lambda: context.run(self._search, progress), self._stop.set)
        return self.result()

    def kernel(self, number: int) -> CompiledKernel:
        """The kernel of a candidate that was measured. It outlives the search."""
        library = next(c.library for c in self.candidates if c.number == number)
        assert library is not None
        return CompiledKernel(str(library), backend=self._backend.name)

    def result(self) -> TuneResult:
        candidates = sorted(self.candidates, key=lambda c: c.number)
        known = {c.number: interval(c.samples) for c in candidates if c.ending == MEASURED}
        ties = tuple(best_of(known)[1]) if known else ()
        return TuneResult(
            tuple(candidate.trial() for candidate in candidates),
            self._backend.name,
            self._recording.config.kernel_name,
            ties,
            self._all_wanted and self._finished,
            self._seconds or time.monotonic() - self._begin,
        )

    def _search(self, progress: Callable[[Candidate], None]) -> None:
        self._folder = PrivateFolder()
        self._devices = device.devices(self._backend.name, self._plan.device_ids, self._limits)
        with ExitStack() as stack:
            threads = [
                stack.enter_context(ThreadPoolExecutor(1, f"mskpp device {number}")) for number in self._plan.device_ids
            ]
            stack.callback(self._stop.set)  # before the threads are waited for, whatever happened
            self._first_round(threads, progress)
            self._judge(progress)
            self._more_rounds(threads)
            self._finished = not self._stop.is_set
            self._seconds = time.monotonic() - self._begin

    # --- candidates ---

    def _wanted(self) -> Iterator[Candidate]:
        """Candidates in the order of the strategy, until a budget ends; at least one."""
        for count, number in enumerate(self._space.numbers(self._plan.strategy, self._plan.seed)):
            if self._stop.is_set or (self._plan.trials is not None and count >= self._plan.trials):
                return
            if count and self._plan.seconds is not None and time.monotonic() - self._begin >= self._plan.seconds:
                return
            candidate = Candidate(number, self._space.config(number))
            self._device_of[number] = count % len(self._plan.device_ids)
            self.candidates.append(candidate)
            yield candidate
        self._all_wanted = True

    def _compiled(self, folder: Path) -> Generator[Candidate, None, None]:
        """Candidates as they are compiled, with their library or their failure; at most a few wait to be compiled."""
        workers = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(workers, thread_name_prefix="mskpp compile") as pool:
            waiting: dict[Future[None], Candidate] = {}

            def ended() -> Iterable[Candidate]:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    candidate = waiting.pop(future)
                    future.result()
                    yield candidate

            try:
                for candidate in self._wanted():
                    where = folder / str(candidate.number)
                    waiting[pool.submit(self._compile, candidate, where)] = candidate
                    while len(waiting) >= 2 * workers:
                        yield from ended()
                while waiting:
                    yield from ended()
            finally:
                if waiting:  # given up
                    self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _compile(self, candidate: Candidate, folder: Path) -> None:
        """BackendError and StateError are no candidate's fault, and go through."""
        recording, who = self._recording, self._plan.who
        begin = time.monotonic()
        try:
            checks.make_folder(folder, who)
            scratch = checks.make_folder(folder / "tmp", who)
            source = tunable.instance(recording.source, self._markers, candidate.config, folder)
            launch = folder / "launch.cpp"
            text = generate_kernel(source, recording.config.kernel_name, recording.callers)
            checks.write_file(launch, text, who)
            library = folder / "kernel.so"
            compiler.compile_alone(
                who,
                recording.compilation.build_script,
                launch,
                library,
                options=recording.compilation.options,
                backend=self._backend,
                timeout=recording.compilation.timeout,
                folder=scratch,
                limits=self._limits,
            )
            candidate.library = library
        except (BackendError, StateError):
            raise
        except Exception as error:
            if not self._stop.is_set:
                self._fail(candidate, error)
        candidate.compile_seconds = time.monotonic() - begin

    # --- times ---

    def _first_round(self, threads: Sequence[ThreadPoolExecutor], progress: Callable[[Candidate], None]) -> None:
        assert self._folder is not None
        measured: list[Future[None]] = []
        with closing(self._compiled(self._folder.path)) as compiled:
            arriving: Iterable[Candidate] = compiled
            if self._backend.name == "host":
                arriving = sorted(compiled, key=lambda candidate: candidate.number)
            for candidate in arriving:
                if candidate.library is None:
                    progress(candidate)
                else:
                    thread = threads[self._device_of[candidate.number]]
                    measured.append(thread.submit(self._first, candidate, progress))
        for future in measured:
            future.result()

    def _judge(self, progress: Callable[[Candidate], None]) -> None:
        wrong = self._outputs.wrong()
        for candidate in self.candidates:
            if candidate.number in wrong and candidate.ending == MEASURED:
                candidate.fail(wrong[candidate.number])
                progress(candidate)

    def _more_rounds(self, threads: Sequence[ThreadPoolExecutor]) -> None:
        """Contenders again, one sample each a round, until the best is known or a limit ends it."""
        end = time.monotonic() + ROUNDS_SECONDS
        if self._plan.seconds is not None:
            end = min(end, self._begin + self._plan.seconds)
        for _ in range(MOST_ROUNDS):
            known = {c.number: interval(c.samples) for c in self.candidates if c.ending == MEASURED}
            # No more than have their process still.
            again = set(needs_more(known, NARROW)[: device.KEPT]) if known else set()
            if not again or time.monotonic() >= end or self._stop.is_set:
                return
            for future in [
                threads[self._device_of[c.number]].submit(self._again, c) for c in self.candidates if c.number in again
            ]:
                future.result()

    def _sample(self, candidate: Candidate) -> None:
        """One sample: the mean of ``repeat`` launches after the warm-up, each on the arguments as they were."""
        assert candidate.library is not None
        times = self._devices[self._device_of[candidate.number]].measure(
            candidate.library,
            self._arguments.fresh(),
            **self._keywords,
            warmup_us=self._plan.warmup_us,
            repeat=self._plan.repeat,
        )
        name = self._recording.config.kernel_name
        if len(times) != self._plan.repeat:
            raise LaunchError(f"{name}: {len(times)} times were measured for {self._plan.repeat} launches")
        for one in times:
            if not is_time(one):
                raise LaunchError(f"{name}: the measured time of a launch is {one} ns, which cannot be")
        candidate.samples.append(sum(times) / len(times) / 1000)
        candidate.ending = MEASURED

    def _first(self, candidate: Candidate, progress: Callable[[Candidate], None]) -> None:
        """The output's check and the first sample."""
        if self._stop.is_set:
            return
        try:
            assert candidate.library is not None
            where = self._devices[self._device_of[candidate.number]]
            values = where.launch(candidate.library, self._arguments.fresh(), **self._keywords)
            self._outputs.add(candidate.number, values)
            self._sample(candidate)
        except BackendError:
            raise
        except Exception as error:
            if self._stop.is_set:  # it was ended
                return
            self._fail(candidate, error)
        progress(candidate)

    def _fail(self, candidate: Candidate, error: Exception) -> None:
        assert self._folder is not None
        candidate.fail(without_folder(error, self._folder.path / str(candidate.number)))

    def _again(self, candidate: Candidate) -> None:
        if self._stop.is_set:
            return
        try:
            self._sample(candidate)
        except Exception as error:
            if self._stop.is_set:
                return
            logger.warning("%s: No.%d failed when it was measured again: %s", self._plan.who, candidate.number, error)
            self._fail(candidate, error)


def without_folder(error: Exception, folder: Path) -> Exception:
    """The error without the names of temporary folders, which say nothing: paths from where the user's source is."""
    text = str(error).replace(f"{folder / 'source'}{os.sep}", "").replace(f"{folder}{os.sep}", "")
    if text == str(error) or not error.args:
        return error
    changed = type(error)(text)
    changed.__cause__ = error
    return changed
