# SPDX-License-Identifier: Apache-2.0
"""``@autotune``: a function that launches a kernel becomes one that finds the kernel's best parameters."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mskpp.errors import ArgumentError, InputError, MskppError
from mskpp.launcher.kernel import whole_number
from mskpp.log import logger
from mskpp.optune.recorder import record, replay
from mskpp.optune.results import NOT_TRIED, TuneResult, causes
from mskpp.optune.space import STRATEGIES, Space
from mskpp.optune.tuner import Candidate, Plan, Search

Function = TypeVar("Function", bound=Callable[..., Any])


class TuneError(MskppError, RuntimeError):
    """No configuration could be measured. ``result`` has them all, with their causes."""

    def __init__(self, message: str, result: TuneResult) -> None:
        super().__init__(message)
        self.result = result


def autotune(
    configs: Sequence[Mapping[str, Any]] | None = None,
    warmup: int = 300,
    repeat: int = 1,
    device_ids: Sequence[int] = (0,),
    *,
    space: Mapping[str, Sequence[Any]] | None = None,
    where: Callable[..., bool] | None = None,
    strategy: str = "in order",
    seed: int = 0,
    trials: int | None = None,
    seconds: float | None = None,
    reference: Callable[..., Any] | None = None,
    memory_bytes: int | None = None,
) -> Callable[[Function], Callable[..., TuneResult]]:
    """Tunes the ``// tunable`` parameters of the kernel that the decorated function launches.

    Calling the function runs the search and returns a TuneResult. A line for each configuration goes to stdout, then
    the best. The function itself runs twice: up to its first launch, to learn what it launches, and to its end with the
    best kernel, so that the caller's arrays hold that one's results. What the first run did to the memory of its
    arguments is undone before the second; other effects of the code before the launch happen twice. That launch is the
    one that is tuned; other kernels run as ever.

    Args:
        configs: configurations, dicts of tunable names to values (str, int, float, bool, numpy scalars).
        warmup: us of launches before a sample, 1 to 100000.
        repeat: launches a sample is the mean of, 1 to 10000.
        device_ids: devices to measure on; each measures one kernel at a time.
        space: instead of configs, names to lists of values: every combination, lazily.
        where: a condition on a configuration, called with its values as keywords.
        strategy: "in order", or "random" (of ``seed``).
        trials, seconds: budgets; what they leave out makes the result incomplete.
        reference: called with copies of the kernel's arguments, to write into them what the kernel must leave there.
            Without it the output of most configurations counts as right (of equally many that with the smallest
            number among them), and others are wrong. Parameters with "workspace" in their name are not compared.
        memory_bytes: the address space of each compiler, and of each process that runs a kernel; None: no limit.
            Threads reserve some hundred MiB of it.

    Each compilation and each kernel runs in processes of its own: kernels on the host one for each, on an NPU one for
    each device, which begins anew after a failure. They see copies of the arguments.

    Raises InputError or ArgumentError before anything is compiled when a name or value is wrong, TuneError when no
    configuration could be measured.
    """
    who = "autotune"
    if callable(configs):
        raise ArgumentError(f"{who}: it stands above the function without its arguments; write @autotune(configs)")
    plan = checked_plan(who, warmup, repeat, device_ids, strategy, seed, trials, seconds, reference, memory_bytes)

    def decorate(function: Function) -> Callable[..., TuneResult]:
        @functools.wraps(function)
        def tuned(*args: Any, **keywords: Any) -> TuneResult:
            found = Space(configs, space, where, who)
            recording = record(function, args, keywords, who)
            return search(
                Search(recording, found, plan), lambda kernel: replay(recording, function, args, keywords, kernel)
            )

        return tuned

    return decorate


def checked_plan(
    who: str,
    warmup: int,
    repeat: int,
    device_ids: Sequence[int],
    strategy: str,
    seed: int,
    trials: int | None,
    seconds: float | None,
    reference: Callable[..., Any] | None,
    memory_bytes: int | None,
) -> Plan:
    """The arguments of a decorator as a plan. ArgumentError or InputError that names the argument."""
    if isinstance(device_ids, str) or not isinstance(device_ids, Sequence):
        raise ArgumentError(f"{who}: device_ids is {type(device_ids).__name__}; it must be a list of ints")
    numbers = tuple(whole_number(number, f"{who}: device_ids", 0, 1023) for number in device_ids)
    if not 1 <= len(numbers) <= 100 or len(set(numbers)) != len(numbers):
        raise InputError(f"{who}: device_ids has {len(numbers)} items; it must have 1 to 100, each once")
    if strategy not in STRATEGIES:
        raise InputError(f"{who}: strategy is {strategy!r}; allowed are {', '.join(map(repr, STRATEGIES))}")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise InputError(f"{who}: seconds is {seconds!r}; it must be a number above 0")
    if reference is not None and not callable(reference):
        raise ArgumentError(f"{who}: reference is {type(reference).__name__}; it must be a function")
    return Plan(
        whole_number(warmup, f"{who}: warmup", 1, 100000),
        whole_number(repeat, f"{who}: repeat", 1, 10000),
        numbers,
        strategy,
        whole_number(seed, f"{who}: seed", 0, (1 << 63) - 1),
        None if trials is None else whole_number(trials, f"{who}: trials", 1, (1 << 63) - 1),
        seconds,
        reference,
        None if memory_bytes is None else whole_number(memory_bytes, f"{who}: memory_bytes", 1 << 20, 1 << 62),
        who,
    )


def search(one: Search, with_best: Callable[[Any], Any]) -> TuneResult:
    """Runs the search, prints its lines and lets the winner run."""
    with one:
        try:
            result = one.run(announce)
        except KeyboardInterrupt:
            show(one.result())
            raise
        show(result)
        best = result.best
        if best is None:
            raise TuneError(
                f"{result.kernel}: none of {len(result)} configurations could be measured:{causes(result.failures)}",
                result,
            )
        kernel = one.kernel(best.number)
    try:
        with_best(kernel)
    finally:
        kernel.close()
    return result


def announce(candidate: Candidate) -> None:
    """A candidate has ended, one way or the other."""
    logger.info("autotune: %s", candidate.trial().line())


def show(result: TuneResult) -> None:
    """The lines that existing scripts read, by number; failures too."""
    lines = [trial.line() for trial in result if trial.ending != NOT_TRIED]
    if result.best is not None:
        lines.append(f"Best config: No.{result.best.number}")
        if len(result.ties) > 1:
            lines.append(f"Not to be told apart: {', '.join(f'No.{number}' for number in result.ties)}")
    if not result.complete:
        untried = sum(trial.ending == NOT_TRIED for trial in result)
        lines.append("The search is incomplete" + (f"; {untried} were not tried" if untried else ""))
    text = "".join(f"{line}\n" for line in lines)
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:  # a terminal without the letter for micro
        sys.stdout.write(text.encode("ascii", "backslashreplace").decode())
    sys.stdout.flush()
