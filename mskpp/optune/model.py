# SPDX-License-Identifier: Apache-2.0
"""The model as the device: a function that models a kernel is called for each configuration, and its time is what the
model says. Nothing is compiled, and nothing written: chips are quiet while a search explores."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import inspect
import numbers
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mskpp.core.chip import Chip
from mskpp.core.exploring import Explorer
from mskpp.errors import InputError
from mskpp.launcher import process
from mskpp.log import logger
from mskpp.optune.folder import PrivateFolder
from mskpp.optune.names import check_names, name_of
from mskpp.optune.nursery import Failure, time_of
from mskpp.optune.plan import Plan
from mskpp.optune.pool import MOST_AHEAD, SECONDS_EACH, Numbered, Outcome, Pool
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult
from mskpp.optune.space import Config, Space
from mskpp.optune.strategy import Walk
from mskpp.optune.tuner import Course, protected
from mskpp.report.result import Result

BACKEND = "model"
MOST_LOGS = 1000  # different ones that are kept; after them failures have their reason alone


class Evaluation:
    """``function(*args, **keywords, **configuration)`` as a time in us, quietly; picklable where its parts are.

    scratch: an existing folder for what functions look for on the disk; None: that for temporary files.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
        scratch: str | None = None,
    ) -> None:
        self.function = function
        self.args = tuple(args)
        self.keywords = dict(keywords or {})
        self.scratch = scratch
        self._explorers = threading.local()  # a thread each: what one learns, such as chips, serves the next call

    def __call__(self, config: Config) -> float:
        explorer = getattr(self._explorers, "explorer", None)
        if explorer is None:
            explorer = self._explorers.explorer = Explorer(quiet=True, scratch=self.scratch)
        return contextvars.copy_context().run(modelled, explorer, self.function, self.args, self.keywords, config)

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluation, (self.function, self.args, self.keywords)  # the folder is this machine's

    def by_name(self) -> Evaluation | None:
        """The same of the function that stands under its name, undecorated; None when that is another one."""
        if not is_named(self.function):
            return None
        return Evaluation(ByName(self.function.__module__, self.function.__qualname__), self.args, self.keywords)


class ByName:
    """Calls what is decorated under a name of a module: pickle refuses a function when its name means another one."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.__name__ = name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return inspect.unwrap(named(self.module, self.name))(*args, **keywords)


def named(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def is_named(function: Callable[..., Any]) -> bool:
    """Whether the function is what is decorated under its name."""
    try:
        return inspect.unwrap(named(function.__module__, function.__qualname__)) is function
    except (AttributeError, ImportError, ValueError):  # a closure, say, or no function
        return False


def evaluated(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], config: Config) -> float:
    """The time of one call in us, quietly: what it returns (a number, a Result or a Chip), else that of the last Chip
    whose block ended in it. What it raises goes through; InputError for no time, or one that is not above 0."""
    return Evaluation(function, args, keywords)(config)


def confirm(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    config: Config,
    explored_us: float | None = None,
) -> float:
    """As evaluated(), for real: chips write and print what the function asks for. A warning when its time is not the
    one that was found exploring."""
    found = modelled(Explorer(quiet=False), function, args, keywords, config)
    if explored_us is not None and found != explored_us:
        logger.warning(
            "%s: %s takes %.3f us when it is modelled alone, and took %.3f us in the search; "
            "its time depends on more than its configuration",
            name_of(function),
            config,
            found,
            explored_us,
        )
    return found


def modelled(
    explorer: Explorer,
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    config: Config,
) -> float:
    with explorer.looking_on():
        value = function(*args, **{**keywords, **config})
        last = explorer.last
        explorer.last = None
        if isinstance(value, numbers.Real):
            return time_of(value)
        if isinstance(value, Result):
            return time_of(value.duration_us)
        chip = value if isinstance(value, Chip) else last
        if chip is None:
            kind = "None" if value is None else type(value).__name__
            raise InputError(
                f"{name_of(function)}: it returned {kind}, and no block of a Chip ended in it; "
                "return a time in us, a Chip, or its result"
            )
        return time_of(chip.result.duration_us)


@contextlib.contextmanager
def pool_of(
    evaluation: Evaluation,
    plan: Plan,
    stop: process.Stop,
    workers: int | None = None,
    seconds_each: float = SECONDS_EACH,
) -> Iterator[Pool]:
    """Processes, or the plan's executor, for one search."""
    with contextlib.closing(PrivateFolder()) as folder:
        evaluation.scratch = str(folder.path)
        with Pool(
            evaluation,
            workers=workers,
            seconds_each=seconds_each,
            memory_bytes=plan.memory_bytes,
            stop=stop,
            executor=plan.executor,
            by_name=evaluation.by_name(),
            who=plan.who,
        ) as pool:
            yield pool


class Exploration:
    """One search on the model. InputError where names do not fit, before anything is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        space: Space,
        plan: Plan,
        *,
        workers: int | None = None,
        seconds_each: float = SECONDS_EACH,
    ) -> None:
        check_names(function, args, keywords, space.samples(), plan.who)
        self._evaluation = Evaluation(function, args, keywords)
        self._space = space
        self._plan = plan
        self._workers = workers
        self._seconds_each = seconds_each
        self._stop = process.Stop()
        self._trials: dict[int, Trial] = {}
        self._open: dict[int, Config] = {}  # handed out, and not ended
        self._logs: dict[str, str] = {}
        self._began = time.monotonic()
        self._seconds = 0.0
        self._complete = False

    def run(self, course: Course) -> TuneResult:
        """Searches. An interrupt goes through; result() then has what is known. Another thread tells the course."""
        context = contextvars.copy_context()
        protected(lambda: context.run(self._search, course), self._stop.set)
        return self.result()

    def result(self) -> TuneResult:
        """What is known."""
        trials = {number: Trial(number, config, NOT_TRIED) for number, config in list(self._open.items())}
        trials.update(self._trials)
        ordered = tuple(trials[number] for number in sorted(trials))
        best = min((trial.time_us for trial in ordered if trial.time_us is not None), default=None)
        ties = () if best is None else tuple(trial.number for trial in ordered if trial.time_us == best)
        seconds = self._seconds or time.monotonic() - self._began
        name = name_of(self._evaluation.function)
        return TuneResult(ordered, BACKEND, name, ties, self._complete, seconds, size=self._space.size)

    def _search(self, course: Course) -> None:
        evaluation, plan = self._evaluation, self._plan
        self._began = time.monotonic()
        course.phase("modelling")
        walk = Walk(self._space, plan)
        with pool_of(evaluation, plan, self._stop, self._workers, self._seconds_each) as pool:
            for number, outcome in pool.map(self._wanted(walk), most_ahead=1 if walk.learns else MOST_AHEAD):
                trial = self._trial(number, self._open[number], outcome)
                self._trials[number] = trial
                del self._open[number]
                walk.tell(number, trial.time_us)
                course.ended(trial)
            if pool.broken:
                logger.warning(
                    "%s: the executor can do no more, which ends the search: %s; %d configurations that it had are not "
                    "tried",
                    plan.who,
                    pool.broken,
                    len(self._open),
                )
        self._complete = walk.complete and not self._open and not self._stop.is_set and not pool.broken
        self._seconds = time.monotonic() - self._began

    def _wanted(self, walk: Walk) -> Iterator[Numbered]:
        while not self._stop.is_set:
            number = walk.ask()
            if number is None:
                return
            self._open[number] = self._space.config(number)
            yield number, self._open[number]

    def _trial(self, number: int, config: Config, outcome: Outcome) -> Trial:
        elapsed = time.monotonic() - self._began
        if not isinstance(outcome, Failure):
            return Trial(number, config, MEASURED, outcome, outcome, outcome, 1, elapsed_seconds=elapsed)
        log = outcome.log if len(self._logs) < MOST_LOGS else self._logs.get(outcome.log, "")
        log = self._logs.setdefault(log, log)  # many fail in one way
        return Trial(number, config, outcome.ending, reason=outcome.reason, log=log, elapsed_seconds=elapsed)


def explore(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    space: Space,
    plan: Plan,
    course: Course,
) -> TuneResult:
    """Exploration.run(), where what an interrupt leaves is of no interest."""
    return Exploration(function, args, keywords, space, plan).run(course)
