# SPDX-License-Identifier: Apache-2.0
"""The model as the device: functions evaluated in processes that may die, and searches of spaces that have no end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.kernels import python, wait_until

from mskpp import Chip, Tensor, mmad
from mskpp.core import exploring
from mskpp.errors import ArgumentError, InputError, LaunchError
from mskpp.launcher import process
from mskpp.optune import nursery
from mskpp.optune.decorators import autotune
from mskpp.optune.model import Evaluation, Exploration, confirm, evaluated, explore
from mskpp.optune.nursery import Failure
from mskpp.optune.plan import Plan
from mskpp.optune.pool import Pool
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult
from mskpp.optune.space import Space

M = N = K = 1024
L0A_BYTES = L0B_BYTES = 65536
L0C_BYTES = 131072
L1_BYTES = 524288


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files go to a folder of the test's; in it nothing may be left, nor a child of this process."""
    temporary = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = children(os.getpid())
    yield temporary
    assert wait_until(lambda: children(os.getpid()) <= before)
    assert not list(temporary.iterdir())


def children(parent: int) -> set[int]:
    """The processes that have this parent."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.add(int(folder.name))
    return found


def numbered(count: int | None = None, **more: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    numbers = itertools.count() if count is None else range(count)
    return ((number, {"n": number, **more}) for number in numbers)


def outcomes(function: Callable[[Any], Any], count: int, **options: Any) -> dict[int, float | Failure]:
    with Pool(function, **options) as pool:
        found = list(pool.map(numbered(count)))
    assert len(found) == count
    return dict(found)


# --- the pool ---


def deep(n: int) -> int:
    return deep(n + 1)


def hang(config: Any) -> float:
    while True:
        time.sleep(0.01)


class Nameless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fork_and_return(config: Any) -> float:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return 7.0


def fail(error: BaseException) -> float:
    raise error


# What goes wrong, how it ends, its reason, and what its log holds.
WRONGS: dict[str, tuple[Callable[[Any], Any], str, str, str]] = {
    "an exception": (lambda c: fail(ValueError("bad\nvery bad")), "failed", "ValueError: bad", "very bad"),
    "one of ours": (lambda c: fail(InputError("vadd: no")), "failed", "vadd: no", "mskpp.errors.InputError"),
    "one without text": (lambda c: fail(KeyError()), "failed", "KeyError", "in fail"),
    "one whose text is an error": (lambda c: fail(Nameless()), "failed", "Nameless", "Nameless"),
    "exit": (lambda c: sys.exit(3), "failed", "SystemExit: 3", "sys.exit(3)"),
    "interrupt": (lambda c: fail(KeyboardInterrupt()), "failed", "KeyboardInterrupt", "KeyboardInterrupt"),
    "depth": (lambda c: deep(0), "failed", "RecursionError: maximum recursion depth exceeded", "in deep"),
    "bool": (lambda c: True, "failed", "the time is bool; it must be a number of us", ""),
    "text": (lambda c: "3", "failed", "the time is str; it must be a number of us", ""),
    "zero": (lambda c: 0, "failed", "the time is 0.0; it must be a finite number of us above 0", ""),
    "below zero": (lambda c: -2.5, "failed", "the time is -2.5; it must be a finite number of us above 0", ""),
    "nan": (lambda c: float("nan"), "failed", "the time is nan; it must be a finite number of us above 0", ""),
    "infinity": (lambda c: float("inf"), "failed", "the time is inf; it must be a finite number of us above 0", ""),
    "sudden exit": (lambda c: os._exit(3), "crashed", "the process that evaluated it ended: exit code 3", ""),
    "segfault": (
        lambda c: os.kill(os.getpid(), signal.SIGSEGV),
        "crashed",
        "the process that evaluated it ended: SIGSEGV (memory that is not its own)",
        "in <lambda>",
    ),
    "kill of its group": (
        lambda c: os.kill(0, signal.SIGKILL),
        "crashed",
        "the process that evaluated it ended: SIGKILL (killed, perhaps for want of memory)",
        "",
    ),
    "all its descriptors closed": (lambda c: os.closerange(0, 100), "crashed", "the process that evaluated it", ""),
    "hang": (hang, "timed out", "no result within 1 s", "in hang"),
}


@pytest.mark.parametrize("what", WRONGS)
def test_a_wrong_one_fails_alone(what: str) -> None:
    wrong, ending, reason, log = WRONGS[what]
    found = outcomes(lambda c: wrong(c) if c["n"] == 3 else 1.0 + c["n"], 9, seconds_each=1.0, workers=2)
    failure = found.pop(3)
    assert isinstance(failure, Failure)
    assert (failure.ending, failure.reason[: len(reason)]) == (ending, reason)
    assert log in failure.log
    assert "nursery" not in failure.log and len(failure.log) < 10_000
    assert found == {n: 1.0 + n for n in range(9) if n != 3}


def test_functions_that_fork_or_close_their_output_do_no_harm() -> None:
    assert outcomes(fork_and_return, 5) == dict.fromkeys(range(5), 7.0)

    def close(config: Any) -> float:
        print("something")
        sys.stdout.close()
        return 1.0

    assert outcomes(close, 5) == dict.fromkeys(range(5), 1.0)


def test_what_is_printed_is_shown_in_the_log_of_a_failure_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def talk(config: Any) -> float:
        for line in range(1000):
            print("line", line)
        print("to stderr", config["n"], file=sys.stderr, flush=True)
        sys.stdout.buffer.write(b"bytes\n")
        os.write(1, b"raw\n")
        if config["n"] == 2:
            raise ValueError("after all that")
        if config["n"] == 3:
            os.write(sys.stdout.fileno(), b"last words\n")
            os._exit(1)
        with pytest.raises(EOFError):
            input()
        return 1.0

    found = outcomes(talk, 5, workers=1)
    assert found[0] == found[1] == found[4] == 1.0
    failure, crash = found[2], found[3]
    assert isinstance(failure, Failure) and isinstance(crash, Failure)
    assert "ValueError: after all that\nprinted: " in failure.log
    assert "to stderr 2\nbytes" in failure.log and "line 999" in failure.log and "line 0\n" not in failure.log
    assert "last words" in crash.log
    assert capfd.readouterr() == ("", "")


def test_no_more_is_taken_than_is_needed() -> None:
    taken = []

    def configs() -> Iterator[tuple[int, Any]]:
        for number, config in numbered():
            taken.append(number)
            yield number, config

    def slow(config: Any) -> float:
        time.sleep(0.05)
        return 1.0

    with Pool(slow, workers=2) as pool:
        for ended, _ in enumerate(pool.map(configs()), 1):
            assert len(taken) <= ended + 2  # one a worker
            if ended == 6:
                break
    with Pool(lambda c: 1.0, workers=2) as pool:
        for count, _ in enumerate(pool.map(numbered())):
            if count == 5000:
                break


def test_an_error_of_the_space_goes_through() -> None:
    def configs() -> Iterator[tuple[int, Any]]:
        yield from numbered(3)
        raise ZeroDivisionError("in where")

    with pytest.raises(ZeroDivisionError, match="in where"), Pool(lambda c: 1.0) as pool:
        list(pool.map(configs()))


def test_a_value_that_cannot_be_sent_fails_alone() -> None:
    class Own(int):
        pass

    wrong = {0, 1, 41, 99}
    items = [(n, {"n": Own(n) if n in wrong else n}) for n in range(100)]
    with Pool(lambda c: 1.0 + c["n"]) as pool:
        found = dict(pool.map(items))
    for number in wrong:
        failure = found.pop(number)
        assert isinstance(failure, Failure) and "pickle" in failure.reason
    assert found == {n: 1.0 + n for n in range(100) if n not in wrong}


def test_long_values_and_long_logs_do_not_block() -> None:
    def echo(config: Any) -> float:
        raise ValueError("y" * 100_000)

    with Pool(echo, workers=2) as pool:
        found = dict(pool.map(numbered(300, text="x" * 50_000)))
    assert len(found) == 300
    assert all(
        isinstance(one, Failure) and len(one.log) < 10_000 and len(one.reason) < 10_000 for one in found.values()
    )


def test_a_worker_that_takes_too_much_memory_fails_alone() -> None:
    def take(config: Any) -> float:
        return float(len(bytearray(1 << 40 if config["n"] == 1 else 10)))

    found = outcomes(take, 4, memory_bytes=64 << 30)
    failure = found.pop(1)
    assert isinstance(failure, Failure) and failure.reason == "MemoryError"
    assert found == dict.fromkeys((0, 2, 3), 10.0)


def test_a_wish_to_stop_ends_it() -> None:
    stop = process.Stop()
    with Pool(hang, stop=stop) as pool:
        timer = threading.Timer(0.3, stop.set)
        timer.start()
        assert list(pool.map(numbered())) == []
        timer.join()


def test_forking_beside_threads_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fork

    def fork() -> int:
        """As Python 3.12 does it: where a filter makes the warning an error, the child is lost."""
        child = real()
        if child:
            warnings.warn("multi-threaded", DeprecationWarning, stacklevel=1)
        return child

    monkeypatch.setattr(os, "fork", fork)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outcomes(lambda c: 1.0, 3) == dict.fromkeys(range(3), 1.0)


def test_a_killed_nursery_is_made_anew_but_not_for_ever() -> None:
    def kill_parent(config: Any) -> float:
        if not marker.exists():
            marker.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return 1.0

    marker = Path.cwd() / "killed"
    assert outcomes(kill_parent, 6, workers=2) == dict.fromkeys(range(6), 1.0)

    def kill_always(config: Any) -> float:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
        return 1.0

    with pytest.raises(LaunchError, match=r"autotune: the process that forks others was killed 4 times; look whether"):
        outcomes(kill_always, 6, workers=2)


def test_no_room_for_processes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real, us = os.fork, os.getpid()

    def refuse_here() -> int:
        raise BlockingIOError(11, "no room")

    monkeypatch.setattr(os, "fork", refuse_here)
    with pytest.raises(LaunchError, match="autotune: no process can be forked: Resource temporarily unavailable"):
        outcomes(lambda c: 1.0, 3)

    monkeypatch.setattr(os, "fork", lambda: real() if os.getpid() == us else refuse_here())
    with pytest.raises(
        LaunchError, match="no process can be forked: Resource temporarily unavailable; end some others"
    ):
        outcomes(lambda c: 1.0, 3)

    room = [1]  # for one worker

    def refuse_later() -> int:
        if os.getpid() != us and not room:
            return refuse_here()
        if os.getpid() != us:
            room.pop()
        return real()

    monkeypatch.setattr(os, "fork", refuse_later)
    assert outcomes(lambda c: 1.0, 30, workers=4) == dict.fromkeys(range(30), 1.0)


def test_a_nursery_that_is_gone_says_so() -> None:
    one = nursery.Nursery(lambda c: 1.0, None, "autotune")
    try:
        os.kill(one._process, signal.SIGKILL)
        with pytest.raises(nursery.GoneError, match="autotune: the process that forks others is gone"):
            one.new()
    finally:
        one.close()
        one.close()


def test_a_nursery_that_is_stopped_is_no_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(nursery, "END_SECONDS", 0.2)
    one = nursery.Nursery(lambda c: 1.0, None, "autotune")
    try:
        os.kill(one._process, signal.SIGSTOP)
        with pytest.raises(LaunchError) as caught:
            one.new()
    finally:
        one.close()
    assert str(caught.value) == ("autotune: the process that forks others did not answer within 0.2 s; is it stopped?")


# A program that searches for ever with functions that hang, three levels of processes deep.
PROGRAM = """
    import subprocess, sys, time
    from mskpp.optune.model import Exploration
    from mskpp.optune.plan import Plan
    from mskpp.optune.space import Space
    class Course:
        ended = phase = lambda self, told: None
    def work(n):
        if n >= 20:
            with subprocess.Popen(["sleep", "100"]):
                open(f"hangs{n}", "w").close()
                time.sleep(100)
        return 1.0 + n
    space = Space(None, {"n": list(range(50))}, None, "autotune")
    one = Exploration(work, (), {}, space, Plan("autotune"), workers=4)
    try:
        one.run(Course())
    except KeyboardInterrupt:
        result = one.result()
        print(len(result.ranking), len(result.failures) >= 4, result.complete, result.best.number)
        sys.exit(5)
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, when its four workers hang."""
    with python(tmp_path, PROGRAM) as started:
        try:
            assert wait_until(lambda: len(list(tmp_path.glob("hangs*"))) == 4)
            yield started
        finally:
            started.kill()


def descendants(parent: int) -> set[int]:
    found = children(parent)
    return found.union(*map(descendants, found))


@pytest.mark.parametrize("whom", ["its group", "it alone"])
def test_ctrl_c_ends_everything_and_keeps_what_is_known(program: subprocess.Popen[str], whom: str) -> None:
    below = descendants(program.pid)
    assert len(below) == 1 + 4 + 4
    began = time.monotonic()
    (os.killpg if whom == "its group" else os.kill)(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert time.monotonic() - began < 10  # 2 on a quiet machine
    assert (out, err, program.returncode) == ("20 True False 0\n", "", 5)
    assert wait_until(lambda: not any(map(alive, below)), 5)


@pytest.mark.parametrize("stopped", [False, True])
def test_kill_of_the_search_leaves_no_child(program: subprocess.Popen[str], stopped: bool) -> None:
    below = descendants(program.pid)
    assert len(below) == 1 + 4 + 4
    if stopped:
        program.send_signal(signal.SIGSTOP)
    program.kill()
    program.communicate(timeout=30)
    assert wait_until(lambda: not any(map(alive, below)), 10)


def test_kill_of_the_nursery_leaves_no_worker(program: subprocess.Popen[str]) -> None:
    (forking,) = children(program.pid)
    workers = children(forking)
    os.kill(forking, signal.SIGKILL)
    assert wait_until(lambda: not any(map(alive, workers)), 10)


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- executors ---


def plus_one(config: Any) -> float:
    if config["n"] == 3:
        raise ValueError("bad")
    return 1.0 + int(config["n"])


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_evaluates(kind: type[Executor]) -> None:
    with kind(2) as executor:  # type: ignore[call-arg]
        found = outcomes(plus_one, 50, executor=executor)
        failure = found.pop(3)
        assert isinstance(failure, Failure) and failure.reason == "ValueError: bad"
        assert found == {n: 1.0 + n for n in range(50) if n != 3}
        with Pool(plus_one, executor=executor) as pool:
            for count, _ in enumerate(pool.map(numbered())):
                if count == 100:
                    break


def test_a_function_that_cannot_be_sent_says_what_helps() -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(ArgumentError) as caught:
        outcomes(lambda c: 1.0, 50, executor=executor)
    text = str(caught.value)
    assert text.startswith("autotune: executor=ProcessPoolExecutor cannot send the function: ")
    assert text.endswith(
        "; define it at the top of a module that the workers can import, or take an executor that uses cloudpickle, "
        "such as dask.distributed's Client.get_executor()"
    )


def die(config: Any) -> float:
    if config["n"] == 3:
        os._exit(1)
    return 1.0


def test_an_executor_that_breaks_ends_the_search() -> None:
    with ProcessPoolExecutor(1) as executor, Pool(die, executor=executor) as pool:
        found = dict(pool.map(numbered(50)))
    assert pool.broken.startswith("BrokenProcessPool: ")
    assert 3 not in found and set(found.values()) <= {1.0}  # through no fault of what it had
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    with Pool(die, executor=ended) as pool:
        assert list(pool.map(numbered(5))) == []
    assert pool.broken == "RuntimeError: cannot schedule new futures after shutdown"


class Answering(Executor):
    """Answers as a function does, given the number of the call, the configurations and the future."""

    def __init__(self, answer: Callable[[int, list[Any], Future[Any]], None]) -> None:
        self._answer = answer
        self._calls = 0

    def submit(self, function: Any, /, *args: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls += 1
        if self._calls == 1:
            future.set_result(function(*args))
        else:
            self._answer(self._calls, args[1], future)
        return future


def cancel(call: int, configs: list[Any], future: Future[Any]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()


def refuse(call: int, configs: list[Any], future: Future[Any]) -> None:
    raise ValueError("no more\nof it")


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (cancel, "CancelledError: it cancelled what it was given"),
        (lambda n, c, f: f.set_exception(CancelledError()), "CancelledError"),
        (refuse, "ValueError: no more of it"),
        (lambda n, c, f: f.set_result(([1.0] * (len(c) + 1), 0.1)), "it answered with something else than the results"),
        (lambda n, c, f: f.set_result(([], 0.1)), "it answered with something else"),
        (lambda n, c, f: f.set_result(([None] * len(c), 0.1)), "it answered with something else"),
        (lambda n, c, f: f.set_result(([1.0] * len(c), "x")), "it answered with something else"),
        (lambda n, c, f: f.set_result(None), "it answered with something else"),
    ],
)
def test_an_executor_that_does_not_what_it_should_ends_the_search(
    answer: Any, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known stays; what it had was not tried."""
    result = searched(plus_n, space_of(n=list(range(500))), executor=Answering(answer))
    assert not result.complete and result[0].time_us == 1.0
    assert {trial.ending for trial in result} <= {MEASURED, NOT_TRIED} and result.size == 500
    assert f"the executor can do no more, which ends the search: {broken}" in caplog.text


def plus_n(n: int) -> float:
    return 1.0 + n


def test_an_executor_that_hangs_is_left() -> None:
    class Never(Executor):
        def submit(self, *args: Any, **keywords: Any) -> Future[Any]:
            submitted.append(Future())
            return submitted[-1]

    submitted: list[Future[Any]] = []
    stop = process.Stop()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    with Pool(plus_one, executor=Never(), workers=2, stop=stop) as pool:
        assert list(pool.map(numbered())) == []
    timer.join()
    assert len(submitted) == 4 and all(future.cancelled() for future in submitted)


# --- what a call's time is ---


def block(cycles: int = 1, **settings: Any) -> Chip:
    with Chip("Ascend910B1", **settings) as chip:
        for _ in range(cycles):
            Tensor("L1").load(Tensor("GM", "FP16", [32, 48], format="ND"))
    return chip


ONE = block().result.duration_us
TWO = block(2).result.duration_us


@pytest.mark.parametrize(
    ("function", "time_us"),
    [
        (lambda: 3, 3.0),
        (lambda: np.float32(2.5), 2.5),
        (lambda: [block(2), 4.0][1], 4.0),
        (lambda: block(), ONE),
        (lambda: block().result, ONE),
        (lambda: [block(2), block()][0], TWO),
        (lambda: [block(2), block(), None][2], ONE),
        (lambda: (block(2), "words"), TWO),
        (lambda: with_an_error_after_a_block(), TWO),
    ],
    ids=["int", "numpy", "number first", "chip", "result", "that chip", "last chip", "whatever", "failed block"],
)
def test_time_of_a_call(function: Callable[[], Any], time_us: float) -> None:
    assert evaluated(function, (), {}, {}) == time_us
    assert confirm(function, (), {}, {}) == time_us


def with_an_error_after_a_block() -> None:
    block(2)
    with contextlib.suppress(ValueError), Chip("Ascend910B1"):
        raise ValueError


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            None,
            "work: it returned None, and no block of a Chip ended in it; return a time in us, a Chip, or its result",
        ),
        ("3", "work: it returned str, and no block of a Chip ended in it; return a time in us, a Chip, or its result"),
        (True, "the time is bool; it must be a number of us"),
        (0, "the time is 0.0; it must be a finite number of us above 0"),
        (float("inf"), "the time is inf; it must be a finite number of us above 0"),
    ],
)
def test_a_call_without_a_time(value: object, message: str) -> None:
    def work() -> object:
        return value

    with pytest.raises(InputError) as caught:
        evaluated(work, (), {}, {})
    assert str(caught.value) == message


def test_a_block_of_an_earlier_call_is_not_this_ones() -> None:
    blocks = iter([True, False])
    evaluation = Evaluation(lambda: block() if next(blocks) else None)
    assert evaluation({}) == ONE
    with pytest.raises(InputError, match="no block of a Chip ended in it"):
        evaluation({})


def test_exploring_writes_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], own_temporary_folder: Path
) -> None:
    folders = []

    def work(n: int) -> Chip:
        with Chip("Ascend910B1", debug_mode=n == 1) as chip:
            chip.enable_trace()
            chip.enable_metrics()
            Tensor("L1").load(Tensor("GM", "FP16", [32, 48], format="ND"))
        folder = Path(chip.output_dir)
        assert folder.is_absolute() and (n == 2 or list(folder.iterdir()) == [])
        (folder / "mine.txt").write_text("x")
        folders.append(folder)
        assert str(folder) == chip.output_dir
        return chip

    for n in (0, 1):
        assert evaluated(work, (), {}, {"n": n}) == ONE
    assert len(set(folders)) == 2 and not any(folder.exists() for folder in folders)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")

    assert confirm(work, (), {}, {"n": 2}) == ONE
    (folder,) = tmp_path.iterdir()
    assert {"mine.txt", "trace.json", "Pipe_statistic.csv"} <= {file.name for file in folder.iterdir()}
    assert "Ascend910B1" in capfd.readouterr().out


def test_a_chip_of_the_caller_keeps_its_folder(tmp_path: Path) -> None:
    with Chip("Ascend910B1") as outer:
        outer.enable_trace()
        assert evaluated(lambda: block(), (), {}, {}) == ONE
    assert (Path(outer.output_dir) / "trace.json").exists()
    assert outer.result.total_cycles == 0 and exploring.current() is None


def test_confirming_warns_of_another_time(caplog: pytest.LogCaptureFixture) -> None:
    def work(n: int) -> float:
        return n + 0.5

    assert confirm(work, (), {}, {"n": 3}, 3.5) == 3.5
    assert not caplog.records
    assert confirm(work, (), {}, {"n": 3}, 2.0) == 3.5
    assert caplog.messages == [
        "work: {'n': 3} takes 3.500 us when it is modelled alone, and took 2.000 us in the search; "
        "its time depends on more than its configuration"
    ]


# --- the search ---


def space_of(where: Callable[..., bool] | None = None, **values: Any) -> Space:
    return Space(None, values, where, "autotune")


class Course:
    """Who is told of a search's course: the trials that ended, and what is called then."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.trials: list[Trial] = []
        self.phases: list[str] = []
        self._then = then

    def ended(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._then()

    def phase(self, text: str) -> None:
        self.phases.append(text)


def searched(function: Callable[..., Any], space: Space, *args: Any, **options: Any) -> TuneResult:
    more = {name: options.pop(name) for name in ("workers", "seconds_each") if name in options}
    one = Exploration(function, args, options.pop("keywords", {}), space, Plan("autotune", **options), **more)
    return one.run(Course())


@pytest.mark.parametrize(
    ("function", "args", "keywords", "message"),
    [
        (lambda m, /, k: 1.0, (), {}, "takes no keyword 'm'; its parameters are: m, k"),
        (lambda k: 1.0, (), {}, "takes no keyword 'm'; its parameters are: k"),
        (lambda: 1.0, (), {}, "takes no keyword 'm'; its parameters are: none"),
        (lambda *m: 1.0, (), {}, "takes no keyword 'm'; its parameters are: m"),
        (lambda m, k: 1.0, (5,), {}, ": 'm' is given in the call and in the space; leave it out of one"),
        (lambda m, k: 1.0, (), {"k": 1}, ": 'k' is given in the call and in the space; leave it out of one"),
        (lambda **all: 1.0, (), {"k": 1}, ": 'k' is given in the call and in the space; leave it out of one"),
        (lambda m, k, x: 1.0, (), {}, ": missing a required argument: 'x'; the call and the space give m, k"),
        (
            lambda m, k: 1.0,
            (),
            {"y": 1},
            ": got an unexpected keyword argument 'y'; the call and the space give y, m, k",
        ),
    ],
)
def test_names_are_checked_before_any_call(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        searched(function, space_of(m=[1, 2], k=[3]), *args, keywords=keywords)
    assert str(caught.value).startswith("autotune: <lambda>")
    assert str(caught.value).removeprefix("autotune: <lambda>").strip() == message.strip()


def test_names_of_every_configuration_of_a_list_are_checked() -> None:
    space = Space([{"m": 1}, {"m": 2}, {"x": 2}], None, None, "autotune")
    with pytest.raises(InputError, match="work takes no keyword 'x'; its parameters are: m"):

        def work(m: int = 0) -> float:
            return 1.0

        searched(work, space)
    assert searched(lambda **all: 1.0 + len(all), space).complete
    assert searched(max, Space([{"default": 3}], None, None, "autotune"), []).best is not None  # tells no signature


def test_a_search_has_a_row_for_each() -> None:
    def work(base: float, n: int, *, more: float) -> float:
        if n == 1:
            raise ValueError("no")
        if n == 2:
            os._exit(3)
        if n == 3:
            time.sleep(60)
        return base + more + abs(n - 6) // 2

    course = Course()
    one = Exploration(
        work, (1.0,), {"more": 0.5}, space_of(n=list(range(9))), Plan("autotune"), workers=2, seconds_each=1.0
    )
    result = one.run(course)
    assert [trial.number for trial in result] == list(range(9))
    assert [trial.ending for trial in result][:5] == [MEASURED, "failed", "crashed", "timed out", MEASURED]
    assert (result.backend, result.kernel, result.complete, result.ties) == ("model", "work", True, (5, 6, 7))
    assert result.best is not None and result.best.config == {"n": 5}
    trial = result[4]
    assert (trial.time_us, trial.low_us, trial.high_us, trial.samples) == (2.5, 2.5, 2.5, 1)
    assert 0 < trial.elapsed_seconds <= result.seconds
    assert course.phases == ["modelling"]
    assert sorted(course.trials, key=lambda trial: trial.number) == list(result)
    assert "ValueError: no" in result[1].log and result[1].reason == "ValueError: no"


def test_all_failed_is_a_result_too() -> None:
    result = searched(lambda n: None, space_of(n=list(range(2000))))
    assert result.best is None and len(result.failures) == 2000 and result.complete
    assert len({id(trial.log) for trial in result}) == 1  # kept once


def test_the_log_of_many_different_failures_is_short() -> None:
    def work(n: int) -> float:
        raise ValueError(n)

    result = searched(work, space_of(n=list(range(1500))))
    assert sum(bool(trial.log) for trial in result) == 1000
    assert all(trial.reason == f"ValueError: {trial.number}" for trial in result)


def test_a_budget_makes_an_endless_space_cheap() -> None:
    values: dict[str, Any] = {name: list(range(100)) for name in "abcde"}
    result = searched(lambda **all: 1.0 + sum(all.values()), space_of(**values), trials=50)
    assert len(result) == 50 and not result.complete
    result = searched(lambda **all: 1.0 + sum(all.values()), space_of(**values), trials=50, strategy="random", seed=3)
    again = searched(lambda **all: 1.0 + sum(all.values()), space_of(**values), trials=50, strategy="random", seed=3)
    assert [t.number for t in result] == [t.number for t in again] and result.ties == again.ties

    def slow(**all: int) -> float:
        time.sleep(0.05)
        return 1.0

    result = searched(slow, space_of(**values), seconds=0.3)
    assert len(result) and not result.complete and all(trial.good for trial in result)
    assert searched(lambda n: 1.0, space_of(n=[1, 2, 3]), trials=3).complete


def test_a_condition_that_refuses_all_says_so() -> None:
    with pytest.raises(InputError, match="where refused all 3 configurations"):
        searched(lambda n: 1.0, space_of(lambda n: False, n=[1, 2, 3]))


def test_an_interrupt_keeps_what_is_known() -> None:
    def work(n: int) -> float:
        if n >= 40:
            time.sleep(60)
        return 1.0 + n

    def interrupt() -> None:
        if len(course.trials) == 40:
            os.kill(os.getpid(), signal.SIGINT)

    course = Course(interrupt)

    one = Exploration(work, (), {}, space_of(n=list(range(100))), Plan("autotune"), workers=2)
    with pytest.raises(KeyboardInterrupt):
        one.run(course)
    result = one.result()
    assert not result.complete and result.best is not None and result.best.number == 0
    assert [trial.number for trial in result if trial.good] == list(range(40))
    assert {trial.ending for trial in result if not trial.good} <= {NOT_TRIED}


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def other(*args: Any, **keywords: Any) -> Any:
        raise AssertionError

    return other


@decorated
def under_a_decorator(base: float, n: int) -> float:
    return base + n


def test_an_executor_explores_what_a_decorator_covers() -> None:
    """Pickle refuses a function when its name means another one: the workers find it under the name."""
    function = under_a_decorator.__wrapped__  # type: ignore[attr-defined]
    space = space_of(n=list(range(40)))
    with ProcessPoolExecutor(2) as executor:
        result = searched(function, space, 1.0, executor=executor)
    assert [trial.time_us for trial in result] == [1.0 + n for n in range(40)] and result.complete
    assert result.kernel == "under_a_decorator"


def test_an_executor_that_breaks_leaves_the_search_incomplete(caplog: pytest.LogCaptureFixture) -> None:
    with ProcessPoolExecutor(1) as executor:
        result = searched(broken_at, space_of(n=list(range(500))), executor=executor)
    assert not result.complete and not [trial for trial in result if trial.ending == "crashed"]
    assert result[3].ending == NOT_TRIED
    assert "configurations that it had are not tried" in caplog.text
    assert "autotune: the executor can do no more, which ends the search: BrokenProcessPool" in caplog.text


def broken_at(n: int) -> float:
    if n == 3:
        os._exit(1)
    return 1.0


# A closure, which pickle cannot send, and which dask's executor sends by cloudpickle.
CLUSTER = """
    from distributed import Client, LocalCluster
    from mskpp.optune.model import Exploration
    from mskpp.optune.plan import Plan
    from mskpp.optune.space import Space
    class Course:
        ended = phase = lambda self, told: None
    def made(base):
        def work(n):
            if n == 3:
                raise ValueError("bad")
            return base + n
        return work
    if __name__ == "__main__":
        space = Space(None, {"n": list(range(200))}, None, "autotune")
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            found = []
            for executor in (client.get_executor(), None):  # processes are forked beside the client's threads too
                plan = Plan("autotune", executor=executor)
                found.append(Exploration(made(1.0), (), {}, space, plan).run(Course()))
            for result in found:
                times = [trial.time_us for trial in result]
                print(times == [1.0 + n if n != 3 else None for n in range(200)], result.complete, result[3].reason)
"""


@pytest.mark.slow
def test_a_cluster_of_dask_explores_what_pickle_cannot_send(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with python(tmp_path, CLUSTER) as program:
        try:
            out, err = program.communicate(timeout=120)
        finally:
            program.kill()
    assert (out, program.returncode) == ("True True ValueError: bad\n" * 2, 0), err


def test_a_strategy_that_learns_is_told_the_times() -> None:
    pytest.importorskip("optuna")

    def work(x: int, y: int) -> float:
        return 1.0 + (x - 30) ** 2 + (y - 70) ** 2

    sides = list(range(100))
    result = searched(work, space_of(x=sides, y=sides), trials=60, strategy="optuna", workers=1)
    assert len(result) == 60 and not result.complete
    assert result.best is not None and (result.best.time_us or 0) < 400  # of up to 9801


# --- tilings of a matmul ---


def matmul(tile_m: int, tile_n: int, tile_k: int) -> Chip:
    """z[M,N] = x[M,K] @ y[K,N], GM -> L1 -> L0A and L0B -> mmad -> L0C -> GM; tiles at the edge may be smaller."""
    gm_x = Tensor("GM", "FP16", [M, K], format="ND")
    gm_y = Tensor("GM", "FP16", [K, N], format="ND")
    gm_z = Tensor("GM", "FP32", [M, N], format="ND")
    with Chip("Ascend910B1") as chip:
        for m, n in itertools.product(range(0, M, tile_m), range(0, N, tile_n)):
            shape = [min(tile_m, M - m), min(tile_n, N - n)]
            out = Tensor("L0C", "FP32", shape, format="NZ", is_inited=True)
            for k in range(0, K, tile_k):
                l1_x, l1_y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
                x, y = Tensor("L0A"), Tensor("L0B")
                l1_x.load(gm_x[m : m + tile_m, k : k + tile_k])
                l1_y.load(gm_y[k : k + tile_k, n : n + tile_n])
                x.load(l1_x)
                y.load(l1_y)
                (out,) = mmad(x, y, out)()
            gm_z[m : m + tile_m, n : n + tile_n].load(out)
    return chip


def fits(tile_m: int, tile_n: int, tile_k: int) -> bool:
    x, y, z = 2 * tile_m * tile_k, 2 * tile_k * tile_n, 4 * tile_m * tile_n
    return x <= L0A_BYTES and y <= L0B_BYTES and z <= L0C_BYTES and 2 * (x + y) <= L1_BYTES


def tilings() -> Space:
    sides = list(range(96, 257, 8))
    return space_of(fits, tile_m=sides, tile_n=sides, tile_k=list(range(64, 257, 16)))


def test_tilings_are_ranked_and_the_best_is_confirmed() -> None:
    result = searched(matmul, tilings(), trials=300, strategy="random", seed=1, workers=2)
    assert len(result.ranking) == 300
    best = result.best
    assert best is not None
    assert confirm(matmul, (), {}, best.config) == best.time_us == result.ranking[0].time_us
    for trial in result.ranking[:: 300 // 4]:
        assert evaluated(matmul, (), {}, trial.config) == trial.time_us
    alone = searched(matmul, tilings(), trials=300, strategy="random", seed=1, workers=1)
    assert [(t.number, t.time_us) for t in alone] == [(t.number, t.time_us) for t in result]
    assert alone.ties == result.ties
    with ThreadPoolExecutor(2) as executor:
        side = searched(matmul, tilings(), trials=20, strategy="random", seed=1, executor=executor)
    assert {t.number: t.time_us for t in side}.items() <= {t.number: t.time_us for t in result}.items()


def test_explore_is_the_whole_of_it() -> None:
    result = explore(matmul, (), {}, tilings(), Plan("autotune", trials=3), Course())
    assert len(result) == 3 and not result.complete


def test_the_decorator_searches_and_then_calls_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the last call, with the best, leaves files and prints."""

    @autotune(space={"tile_m": [128, 256], "tile_n": [128, 256], "tile_k": [64, 128]}, where=fits, backend="model")
    def work(tile_m: int, tile_n: int, tile_k: int) -> Chip:
        print("called with", tile_m, tile_n, tile_k)
        chip = matmul(tile_m, tile_n, tile_k)
        with Chip("Ascend910B1") as other:
            other.enable_trace()
        return chip

    result = work()
    best = result.best
    assert best is not None and (result.complete, result.backend, result.kernel) == (True, "model", "work")
    assert [folder.name for folder in tmp_path.rglob("trace.json")] == ["trace.json"]
    out = capsys.readouterr().out
    assert out.count("called with") == 1 and f"called with {' '.join(map(str, best.config.values()))}\n" in out
    assert f"Best config: No.{best.number}" in out
    assert best.time_us == evaluated(matmul, (), {}, best.config)
