# SPDX-License-Identifier: Apache-2.0
"""``mskpp tune FILE.py:function``: runs a function that tunes, with other budgets than its decorators say."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mskpp.command import output, user_file
from mskpp.command.frame import (
    FAILED,
    GOOD,
    INTERRUPTED,
    Subparsers,
    above_zero,
    command,
    count_or_share,
    near,
    whole,
)  # fmt: skip
from mskpp.command.output import reader_is_gone, say
from mskpp.command.table import Column, emit_table
from mskpp.errors import MskppError
from mskpp.log import logger

if TYPE_CHECKING:
    from mskpp.optune.results import TuneResult

ACTIONS = ["show", "export", "clear"]
SCHEMA = 1
MOST_ROWS = 10
MOST_CAUSES = 10
FEW_SAMPLES = 3  # fewer give no interval

EXAMPLES = """
mskpp tune matmul.py:tune_it                      # a function without parameters
mskpp tune matmul.py                              # the one function with @mskpp.autotune
mskpp tune matmul.py:tune_it --trials 50 --strategy random --seed 7
mskpp tune matmul.py:tune_it --json --html tune.html > tune.json
mskpp tune matmul.py:tune_it -- --size 4096       # sys.argv[1:] of matmul.py
mskpp tune show                                   # what was measured so far; also export, clear
"""

DESCRIPTION = """Runs a function of a Python file that calls what @mskpp.autotune decorates, and reports what was found.

The file is loaded as a module (its __name__ is not "__main__"), and the function is called without arguments: let it
make the arrays and call the tuned function. Options given here go before what the decorators say."""


def add(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = command(
        subparsers,
        "tune",
        run,
        summary="find the best parameters of a kernel",
        description=DESCRIPTION,
        examples=EXAMPLES,
        rest="Words after -- are the file's own arguments, sys.argv[1:].",
    )
    parser.usage = "%(prog)s [options] FILE.py[:function] [-- ARGS...]\n       %(prog)s show|export|clear [--help]"
    parser.add_argument("target", metavar="FILE.py:function", help="what to run")
    parser.add_argument("--trials", type=whole(1), metavar="N", help="at most so many configurations")
    parser.add_argument("--seconds", type=above_zero, metavar="S", help="no new configuration after so many seconds")
    parser.add_argument("--strategy", metavar="X", help="the order of the search, as strategy= of the decorator")
    parser.add_argument("--seed", type=whole(0), metavar="N", help="of strategies with chance")
    parser.add_argument(
        "--top-k", type=count_or_share, metavar="K", help="measure only so many, or such a share, of the best predicted"
    )
    parser.add_argument("--no-store", action="store_true", help="measure all anew, and keep nothing for later")
    parser.add_argument("--csv", metavar="OUT", help="write all trials there")
    parser.add_argument("--html", metavar="OUT", help="write a page with plots there; open it with a browser")


@dataclass
class Outcome:
    """What came of a run."""

    results: list[TuneResult] = field(default_factory=list)
    error: str = ""
    interrupted: bool = False
    files: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        return FAILED if self.error or any(result.best is None for result in self.results) else GOOD


def run(arguments: argparse.Namespace) -> int:
    file, name = checked_target(arguments)
    strategy = checked_strategy(arguments)
    for path in (arguments.csv, arguments.html):
        output.check_writable(path, arguments.parser.prog)
    # Made absolute now: the file may change the current folder.
    arguments.csv, arguments.html = (path and os.path.abspath(path) for path in (arguments.csv, arguments.html))

    from mskpp.optune.decorators import overriding
    from mskpp.optune.plan import Wishes

    wishes = Wishes(
        trials=arguments.trials,
        seconds=arguments.seconds,
        strategy=strategy,
        seed=arguments.seed,
        top_k=arguments.top_k,
        store=False if arguments.no_store else None,
    )
    outcome = Outcome()
    with output.stdout_set_aside(arguments.json):
        with overriding(wishes) as results, user_file.program(file, arguments.rest) as module:
            guarded(lambda: user_file.run_file(module), outcome, arguments.parser.prog, str(module.__file__))
            if not outcome.error and not outcome.interrupted and (name is not None or not results):
                function = found_function(arguments, module, name)
                guarded(function, outcome, arguments.parser.prog, str(module.__file__))
        outcome.results = list(results)
        if not outcome.results and not outcome.error and not outcome.interrupted:
            outcome.error = (
                f"{arguments.target} called no function with @mskpp.autotune; name a function that does, and see that "
                "it calls it"
            )
            say(f"{arguments.parser.prog}: {outcome.error}")
        write_files(arguments, outcome)
    if arguments.json:
        output.emit_json(document(outcome))
    else:
        for result in outcome.results:
            summarize(result)
        if outcome.files:
            output.emit(f"files: {', '.join(outcome.files)}")
    if outcome.interrupted:
        say(f"{arguments.parser.prog}: interrupted")
    return outcome.code


# ---------------------------------------------------------------- what to run


def checked_target(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """File and function. Ends with wrong usage where there is no such file."""
    file, name = user_file.split(arguments.target)
    if not file.endswith(".py"):
        arguments.parser.error(
            f"{arguments.target!r} is neither FILE.py:function nor one of {', '.join(ACTIONS)}"
            f"{near(arguments.target, ACTIONS)}"
        )
    if not os.path.isfile(file):
        where = os.path.dirname(file)
        others: list[str] = []
        with contextlib.suppress(OSError):
            others = [os.path.join(where, entry) for entry in os.listdir(where or ".") if entry.endswith(".py")]
        what = "is a folder, no file" if os.path.isdir(file) else "does not exist"
        arguments.parser.error(f"{file} {what}{near(file, others)}")
    if name is not None and not name.isidentifier():
        arguments.parser.error(f"{name!r} in {arguments.target!r} is no name of a function; write {file}:function")
    return file, name


def checked_strategy(arguments: argparse.Namespace) -> str | None:
    if arguments.strategy is None:
        return None
    from mskpp.optune.space import ORDERS

    found = next((known for known in ORDERS if arguments.strategy in (known, known.replace(" ", "-"))), None)
    if found is None:
        arguments.parser.error(
            f"--strategy is {arguments.strategy!r}{near(arguments.strategy, list(ORDERS))} There are "
            f"{', '.join(map(repr, ORDERS))}"
        )
    return found


def found_function(arguments: argparse.Namespace, module: Any, name: str | None) -> Callable[[], object]:
    """The function to call. Ends with wrong usage where there is none that can be called so."""
    file = os.path.basename(str(module.__file__))
    known = user_file.functions(module)
    if name is None:
        tuned = [one for one, function in known.items() if getattr(function, "__mskpp_tuned__", False)]
        if len(tuned) != 1:
            free = [one for one, function in known.items() if one not in tuned and not user_file.required(function)]
            what = f"has {f'{len(tuned)} functions' if tuned else 'no function'} with @mskpp.autotune"
            cure = f"name one: {file}:{'|'.join((tuned + free)[:10])}" if tuned + free else "write one"
            arguments.parser.error(f"{file} {what}; {cure}")
        (name,) = tuned
    function: Any = getattr(module, name, None)
    if not hasattr(module, name):
        there = f" It has {', '.join(list(known)[:10])}" if known else ""
        arguments.parser.error(f"{file} has no function {name!r}{near(name, list(known))}{there}")
    if not callable(function):
        arguments.parser.error(f"{name} of {file} is {type(function).__name__}, no function{near(name, list(known))}")
    needed = user_file.required(function)
    if needed:
        free = [other for other, one in known.items() if not user_file.required(one)]
        there = f". Without parameters: {', '.join(free[:10])}" if free else ""
        one = f"parameter {needed[0]}" if len(needed) == 1 else f"parameters {', '.join(needed)}"
        arguments.parser.error(
            f"{name} needs the {one}, and is called without any; write a function without parameters that makes the "
            f"arrays and calls {name}, and name that one: {file}:function{there}"
        )
    found: Callable[[], object] = function
    return found


def guarded(work: Callable[[], object], outcome: Outcome, prog: str, path: str) -> None:
    """Runs code of the user. What ends it goes into the outcome, and is told on stderr."""
    try:
        work()
    except KeyboardInterrupt:
        outcome.interrupted = True
    except BrokenPipeError as error:
        if reader_is_gone():
            raise
        outcome.error = f"{type(error).__name__}: {error}"
        say(user_file.traceback_text(error, path))
    except MskppError as error:
        outcome.error = user_file.placed(error, path)
        if logger.isEnabledFor(logging.DEBUG):
            say(user_file.traceback_text(error, path))
        say(f"{prog}: {outcome.error}")
    except SystemExit as end:
        if end.code not in (None, 0):
            outcome.error = f"the file ended itself with sys.exit({end.code!r}){user_file.place(end, path)}"
            say(f"{prog}: {outcome.error}")
    except BaseException as error:
        outcome.error = f"{type(error).__name__}: {error}"
        say(user_file.traceback_text(error, path))


# ---------------------------------------------------------------- what is told


def write_files(arguments: argparse.Namespace, outcome: Outcome) -> None:
    for number, result in enumerate(outcome.results, 1):
        for path, write in ((arguments.csv, result.to_csv), (arguments.html, result.to_html)):
            if path is None:
                continue
            target = output.numbered(path, number)
            try:
                write(target)
                outcome.files.append(target)
            except MskppError as error:
                outcome.error = outcome.error or str(error)
                say(output.message(arguments.parser.prog, error))


def document(outcome: Outcome) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "interrupted": outcome.interrupted,
        "error": outcome.error or None,
        "files": outcome.files,
        "results": [json.loads(result.json()) for result in outcome.results],
    }


def summarize(result: TuneResult) -> None:
    """The best ten, why others failed, and what else is to be known."""
    from mskpp.optune.results import NOT_TRIED, causes

    untried = sum(trial.ending == NOT_TRIED for trial in result)
    failures = [trial for trial in result.failures if trial.ending != NOT_TRIED]
    known = sum(trial.known for trial in result)
    counts = [f"{len(result) - untried} configurations", f"{len(failures)} failed"]
    counts += [f"{untried} not tried"] if untried else []
    counts += [f"{known} known from the store"] if known else []
    counts += [f"{result.seconds:.1f} s"] + ([] if result.complete else ["incomplete"])
    output.emit(f"\n{result.kernel} on {result.backend}: {', '.join(counts)}")
    ranking = result.ranking
    if ranking:
        best_table(ranking[:MOST_ROWS])
    if len(ranking) > MOST_ROWS:
        output.emit(f"... {len(ranking) - MOST_ROWS} more; --csv OUT writes all")
    if len(result.ties) > 1:
        output.emit(f"not to be told apart: {', '.join(f'No.{number}' for number in result.ties)}")
    if failures:
        lines = causes(failures).strip("\n").split("\n")
        output.emit("failures:")
        for line in lines[:MOST_CAUSES]:
            output.emit(output.printable(line))
        if len(lines) > MOST_CAUSES:
            output.emit(f"  ... {len(lines) - MOST_CAUSES} more causes")
    if result.correlation is not None:
        output.emit(f"rank correlation of prediction and measurement: {result.correlation:.2f}")


def best_table(trials: Sequence[Any]) -> None:
    is_predicted = any(trial.predicted_us is not None for trial in trials)
    columns = [Column("No.", True, 1), Column("us", True), Column("95 % interval", True, 3), Column("samples", True, 4)]
    columns += [Column("predicted us", True, 2)] if is_predicted else []
    rows = []
    for trial in trials:
        bounds = f"{shown(trial.low_us)} - {shown(trial.high_us)}" if trial.samples >= FEW_SAMPLES else "-"
        row = [str(trial.number), shown(trial.time_us), bounds]
        row += [str(trial.samples), *([shown(trial.predicted_us)] if is_predicted else [])]
        rows.append([*row, " ".join(f"{name}={value}" for name, value in trial.config.items())])
    emit_table([*columns, Column("configuration")], rows)


def shown(time_us: float | None) -> str:
    return "" if time_us is None else f"{time_us:,.3f}"
