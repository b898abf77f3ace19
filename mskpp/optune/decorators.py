# SPDX-License-Identifier: Apache-2.0
"""``@autotune`` and ``@autotune_v2``: a function that launches a kernel, runs a program or models one becomes one that
finds its best parameters."""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mskpp.errors import ArgumentError, InputError, TuneError
from mskpp.launcher import checks
from mskpp.log import logger
from mskpp.optune import targets
from mskpp.optune.live import Live
from mskpp.optune.names import name_of
from mskpp.optune.plan import Plan, Wishes
from mskpp.optune.recorder import Recording, record, replay
from mskpp.optune.reference import Reference
from mskpp.optune.results import NOT_TRIED, Trial, TuneResult, causes, encodable, plain
from mskpp.optune.space import Space
from mskpp.optune.tuner import Course, Search

__all__ = ["TuneError", "Wishes", "autotune", "autotune_v2", "overriding"]

Function = TypeVar("Function", bound=Callable[..., Any])
MODEL = "model"


@dataclass(frozen=True)
class Overriding:
    """What holds within overriding()."""

    wishes: Wishes
    results: list[TuneResult]


_overriding: ContextVar[Overriding | None] = ContextVar("mskpp_overriding", default=None)


@contextlib.contextmanager
def overriding(wishes: Wishes) -> Iterator[list[TuneResult]]:
    """Within the block every tuning goes by the wishes; its result, also of one that was interrupted, joins the list
    that is given."""
    found: list[TuneResult] = []
    token = _overriding.set(Overriding(wishes, found))
    try:
        yield found
    finally:
        _overriding.reset(token)


def autotune(
    configs: Sequence[Mapping[str, Any]] | None = None,
    warmup: int = 300,
    repeat: int = 1,
    device_ids: Sequence[int] = (0,),
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    where: Callable[..., bool] | None = None,
    strategy: str | None = None,
    seed: int = 0,
    trials: int | None = None,
    seconds: float | None = None,
    reference: Callable[..., Any] | None = None,
    predict: Callable[..., Any] | None = None,
    top_k: int | float | None = None,
    executor: Executor | None = None,
    store: bool = True,
    flush_cache: bool = False,
    memory_bytes: int | None = None,
    backend: str | None = None,
) -> Callable[[Function], Callable[..., TuneResult]]:
    """Tunes the ``// tunable`` parameters of the kernel that the decorated function launches.

    Calling the function runs the search and returns a TuneResult. A line for each configuration goes to stdout, then
    the best. The function itself runs twice: up to its first launch, to learn what it launches, and to its end with the
    best kernel, so that the caller's arrays hold that one's results. What the first run did to the memory of its
    arguments is undone before the second; other effects of the code before the launch happen twice. That launch is the
    one that is tuned; other kernels run as ever.

    With ``backend="model"`` the function is one that models a kernel, and takes the configuration as keywords: it is
    run for every configuration, in parallel processes, and no compiler is needed. Its time is what it returns (us, a
    Result or a Chip), else that of the last Chip whose block ended in it. At last it runs with the best configuration.

    Args:
        configs: configurations, dicts of tunable names to values (str, int, float, bool, numpy scalars).
        warmup: us of launches before a sample, 1 to 100000.
        repeat: launches a sample is the mean of, 1 to 10000.
        device_ids: devices to measure on; each measures one kernel at a time.
        space: instead of configs, names to lists of values: every combination, lazily.
        where: a condition on a configuration, called with its values as keywords.
        strategy: "in order", "random" (of ``seed``), "model-ranked" (needs ``predict``), or "optuna", which learns from
            the times (Optuna must be installed).
        trials, seconds: budgets; what they leave out makes the result incomplete.
        reference: called with copies of the kernel's arguments, to write into them what the kernel must leave there.
            Without it the output of most configurations counts as right (of equally many that with the smallest
            number among them), and others are wrong. Parameters with "workspace" in their name are not compared.
        predict: called with a configuration as keywords, in parallel processes; returns what a function for
            ``backend="model"`` may. The best predicted configurations are tried first.
        top_k: only so many of them (an int), or this share (between 0.0 and 1.0). More are tried as long as the rank
            correlation of predictions and times is below 0.5.
        executor: a concurrent.futures.Executor that compiles, or evaluates the model, in place of processes here. Its
            workers must see this machine's files.
        store: keep finished trials, and take known ones from the store (``mskpp tune show``).
        flush_cache: empty the device's last cache before each launch that is measured.
        memory_bytes: the address space of each compiler, and of each process that runs a kernel; None: no limit.
            Threads reserve some hundred MiB of it.
        backend: "model"; None: where the function's compile() says.

    Each compilation and each kernel runs in processes of its own: kernels on the host one for each, on an NPU one for
    each device, which begins anew after a failure. They see copies of the arguments.

    Raises InputError or ArgumentError before anything is compiled when a name or value is wrong, TuneError when no
    configuration could be measured.
    """
    who = "autotune"
    check_use(who, configs)
    if backend not in (None, MODEL):
        raise InputError(
            f"{who}: backend is {backend!r}; it may be 'model'. compile(backend=...) says where kernels run"
        )
    plan = Plan(
        who,
        warmup,
        repeat,
        device_ids=tuple(device_ids) if isinstance(device_ids, list) else device_ids,  # type: ignore[arg-type]
        strategy=strategy,
        seed=seed,
        trials=trials,
        seconds=seconds,
        reference=Reference(reference, who) if callable(reference) else reference,
        memory_bytes=memory_bytes,
        predict=predict,
        top_k=top_k,
        executor=executor,
        store=store,
        flush_cache=flush_cache,
        model=backend == MODEL,
    )

    def tune(plan: Plan, function: Function, args: tuple[Any, ...], keywords: dict[str, Any]) -> TuneResult:
        found = Space(configs, space, where, who, cpp=not plan.model)
        if plan.model:
            return explore(found, plan, function, args, keywords)
        check_call(function, args, keywords, found, who)
        return search(record(function, args, keywords, who), found, plan, function, args, keywords)

    return decorator(plan, tune, names_in(configs, space) if plan.model else frozenset())


def autotune_v2(
    configs: Sequence[Mapping[str, Any]] | None = None,
    warmup_times: int = 5,
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    where: Callable[..., bool] | None = None,
    strategy: str | None = None,
    seed: int = 0,
    trials: int | None = None,
    seconds: float | None = None,
    predict: Callable[..., Any] | None = None,
    top_k: int | float | None = None,
    executor: Executor | None = None,
    store: bool = True,
    memory_bytes: int | None = None,
) -> Callable[[Function], Callable[..., TuneResult]]:
    """Tunes the ``// tunable`` parameters of the program that the decorated function compiles and runs.

    As autotune(). On an NPU the time is the duration of the program's first kernel, from ``msprof op``; on the host it
    is taken around that kernel's launch. A program that ends with another code than 0 is a failure, so it should check
    its own output. The lines of stdout have `` us`` in place of ``μs``, and a table of the times is written to
    ``MSKPP_AUTOTUNE_RESULTS_<time>.csv`` in the current folder.

    Args:
        warmup_times: runs before the one that counts, 0 to 500.
    """
    who = "autotune_v2"
    check_use(who, configs)
    plan = Plan(
        who,
        warmup_times=warmup_times,
        strategy=strategy,
        seed=seed,
        trials=trials,
        seconds=seconds,
        memory_bytes=memory_bytes,
        predict=predict,
        top_k=top_k,
        executor=executor,
        store=store,
    )

    def tune(plan: Plan, function: Function, args: tuple[Any, ...], keywords: dict[str, Any]) -> TuneResult:
        found = Space(configs, space, where, who)
        check_call(function, args, keywords, found, who)
        recording = record(function, args, keywords, who, program=True)
        return search(recording, found, plan, function, args, keywords)

    return decorator(plan, tune)


def names_in(configs: object, space: object) -> frozenset[str]:
    """The names that configurations give values to, as far as what was given can be read."""
    given = [space, *(configs if isinstance(configs, Sequence) else ())]
    return frozenset(name for one in given if isinstance(one, Mapping) for name in one if isinstance(name, str))


def check_call(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], space: Space, who: str) -> None:
    """ArgumentError where the call leaves out arguments that have the names of the space: those are not arguments of a
    function that launches a kernel."""
    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **keywords).arguments
    except (TypeError, ValueError):  # Python says it when the function is called
        return
    names = space.names()
    needed = [
        name
        for name, one in signature.parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and name not in given
    ]
    found = [name for name in needed if name in names]
    if found:
        what = "a kernel" if who == "autotune" else "a program"
        cure = ' A function that models a kernel takes them with backend="model"' if who == "autotune" else ""
        raise ArgumentError(
            f"{who}: {name_of(function)} has the parameters {', '.join(found)}, which the call does not give; the "
            f"space puts their values into the source of {what}, so the function must do without them.{cure}"
        )


def check_use(who: str, configs: object) -> None:
    if callable(configs):
        raise ArgumentError(f"{who}: it stands above the function without its arguments; write @{who}(configs)")


Tune = Callable[[Plan, Any, "tuple[Any, ...]", "dict[str, Any]"], TuneResult]


def decorator(
    plan: Plan, tune: Tune, given: frozenset[str] = frozenset()
) -> Callable[[Function], Callable[..., TuneResult]]:
    def decorate(function: Function) -> Callable[..., TuneResult]:
        @functools.wraps(function)
        def tuned(*args: Any, **keywords: Any) -> TuneResult:
            over = _overriding.get()
            return tune(plan if over is None else over.wishes.changed(plan), function, args, keywords)

        tuned.__mskpp_tuned__ = True  # type: ignore[attr-defined]
        tuned.__mskpp_given__ = given  # type: ignore[attr-defined]  # parameters that the call need not give
        return tuned

    return decorate


class Searching(Protocol):
    """A search of either kind."""

    def run(self, course: Course) -> TuneResult: ...

    def result(self) -> TuneResult: ...


class Shown:
    """A search's course for a person at the terminal, and for the log."""

    def __init__(self, live: Live, who: str, unit: str) -> None:
        self._live = live
        self._who = who
        self._unit = unit
        self.phase = live.phase

    def ended(self, trial: Trial) -> None:
        logger.info("%s: %s", self._who, trial.line(self._unit))
        self._live.ended(trial)


def found_by(one: Searching, space: Space, plan: Plan) -> TuneResult:
    """Runs a search, shows its course and prints its lines. TuneError when nothing was good."""
    over = _overriding.get()
    unit = " us" if plan.who == "autotune_v2" else "μs"
    interrupt = None
    with contextlib.closing(Live(plan.who)) as live:
        live.begin(space.size if plan.trials is None else min(space.size, plan.trials), plan.seconds)
        try:
            result = one.run(Shown(live, plan.who, unit))
        except KeyboardInterrupt as error:
            interrupt = error
            result = one.result()
    show(result, unit)
    if over is not None:
        over.results.append(result)
    if interrupt is not None:
        raise interrupt
    if result.best is None:
        raise TuneError(
            f"{result.kernel}: none of {len(result)} configurations could be measured:{causes(result.failures)}", result
        )
    return result


def search(
    recording: Recording, space: Space, plan: Plan, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> TuneResult:
    """Finds the best kernel or program, and lets the function run with it."""
    target = targets.made(recording, space, plan)
    predicted = None
    if plan.predict is not None:
        from mskpp.optune import prediction

        prediction.check(plan, space)
        predicted = functools.partial(prediction.predictions, plan, space)
    with Search(target, space, plan, predicted) as one:
        result = found_by(one, space, plan)
        assert result.best is not None
        if recording.config is None:
            write_table(result, recording)
        found = one.winner(result.best.number)
        if recording.config is None:  # a program is a file, which ends with the search
            replay(recording, function, args, keywords, found)
            return result
    with contextlib.closing(found):
        replay(recording, function, args, keywords, found)
    return result


def explore(space: Space, plan: Plan, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> TuneResult:
    """Finds the best configuration of a function that models a kernel, and lets it run with it."""
    from mskpp.optune import model

    one = model.Exploration(function, args, keywords, space, plan)
    result = found_by(one, space, plan)
    assert result.best is not None
    model.confirm(function, args, keywords, result.best.config, result.best.time_us)
    return result


def lines(result: TuneResult, unit: str) -> Iterator[str]:
    """What existing scripts read, by number; failures too."""
    yield from (trial.line(unit) for trial in result if trial.ending != NOT_TRIED)
    if result.best is not None:
        yield f"Best config: No.{result.best.number}"
        if len(result.ties) > 1:
            yield f"Not to be told apart: {', '.join(f'No.{number}' for number in result.ties)}"
    known = sum(trial.known for trial in result)
    if known:
        yield f"Known from the store: {known} of {len(result)}"
    if not result.complete:
        tried = sum(trial.ending != NOT_TRIED for trial in result)
        untried = len(result) - tried
        if result.size is not None:
            yield f"The search is incomplete: {tried:,} of at most {result.size:,} were tried"
        else:
            yield "The search is incomplete" + (f"; {untried:,} were not tried" if untried else "")


def show(result: TuneResult, unit: str) -> None:
    """Prints the lines."""
    text = "".join(f"{line}\n" for line in lines(result, unit))
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:  # a terminal without the letter for micro
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode())
    sys.stdout.flush()


def write_table(result: TuneResult, recording: Recording) -> None:
    """The times as a CSV file in the current folder; a configuration is JSON, a failure has no duration."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["No.", "Config", "TaskDuration(us)", "Args"])
    words = " ".join(map(str, recording.args))

    def row(trial: Trial) -> list[object]:
        config = json.dumps(trial.config, ensure_ascii=False, default=plain)
        return [trial.number, config, "" if trial.time_us is None else f"{trial.time_us:.3f}", words]

    writer.writerows(row(trial) for trial in result if trial.ending != NOT_TRIED)
    stem = f"MSKPP_AUTOTUNE_RESULTS_{time.strftime('%Y%m%d%H%M%S')}"
    names = (f"{stem}{end}.csv" for end in ("", *(f"_{number}" for number in range(1, 1000))))
    name = next(name for name in names if not os.path.lexists(name))
    checks.write_file(name, encodable(text.getvalue()), "autotune_v2")
    logger.info("autotune_v2: the times are in %s", name)
