# SPDX-License-Identifier: Apache-2.0
"""Tuners that are interrupted or killed at random moments, and many that tune one kernel at once."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import pytest
from utils.kernels import running, wait_until, write
from utils.tuning import LONG, SOURCE, long_run, long_runs, numbers_told, tuning

from mskpp.optune import tuner
from mskpp.optune.folder import LOCK, PREFIX

pytestmark = pytest.mark.usefixtures("own_temporary_folder")

CONFIGS = 4
SHORT = LONG.replace("range(10)", f"range({CONFIGS})").replace("warmup=20000", "warmup=2000")
PAUSE = 0.05  # of each compilation
END_SECONDS = 2.0  # promised; and on a machine that others keep busy for all but a few
LATE_SECONDS = 15.0


def seconds_of_a_run(folder: Path, prebuilt: Path) -> float:
    """How long a tuning of its own takes, from its first word to its end."""
    child = long_run(folder, prebuilt, SHORT, PAUSE)
    began = time.monotonic()
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0 and numbers_told(out) == list(range(CONFIGS)), err
    return time.monotonic() - began


def assert_nothing_is_left(folder: Path) -> None:
    assert wait_until(lambda: not running(str(folder)), 5), running(str(folder))
    assert list((folder / "temporary").iterdir()) == []


def test_fifty_interrupts(tmp_path: Path, prebuilt: Path) -> None:
    """Each ends the tuner, which prints what it knows; a few at once, as one machine has several users."""
    moments = random.Random(50)
    most = seconds_of_a_run(tmp_path / "whole", prebuilt)
    known = whole = late = 0
    for turn in range(10):
        folders = [tmp_path / f"{turn}-{i}" for i in range(5)]
        children = long_runs(folders, prebuilt, SHORT, PAUSE)
        began = time.monotonic()
        delays = sorted(moments.uniform(0, 1.2 * most) for _ in folders)
        for child, folder, delay in zip(children, folders, delays, strict=True):
            time.sleep(max(0.0, began + delay - time.monotonic()))
            os.kill(child.pid, signal.SIGINT)
            sent = time.monotonic()
            out, err = child.communicate(timeout=60)
            took = time.monotonic() - sent
            told = numbers_told(out)
            assert told == sorted(set(told)) and set(told) <= set(range(CONFIGS)), out
            if out.endswith("end\n"):  # it had finished
                assert len(told) == CONFIGS
                whole += 1
            else:
                late += took > END_SECONDS
                assert took < LATE_SECONDS
                assert child.returncode == -signal.SIGINT and err.rstrip().endswith("KeyboardInterrupt"), err
                # The second run of the function, with the best, may be interrupted as well.
                assert "The search is incomplete" in out or len(told) in (0, CONFIGS), out
                known += bool(told)
            assert_nothing_is_left(folder)
            assert (folder / "work.cpp").read_text() == textwrap.dedent(SOURCE).lstrip("\n")
    assert known > 0 and known + whole < 50, (known, whole)
    assert late <= 2


def test_an_interrupt_that_does_not_end_the_wait() -> None:
    """Another thread takes the signal, so the main thread waits on. The same comes to pass now and then, on a busy
    machine, where the signal finds it just about to wait."""
    stopped = threading.Event()

    def interrupt() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        tuner.protected(lambda: stopped.wait(30), stopped.set)
    assert time.monotonic() - began < 15 and stopped.is_set()
    thread.join()


TOGETHER = f"""
    configs = [{{"MUCH": i}} for i in range({CONFIGS})]
    @autotune(configs, warmup=500)
    def work(x, y, z, n):
        code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
        mskpp.compile("slow.sh", code)[2](x, y, z, n)
    x = np.arange(50, dtype=np.float32)
    z = np.zeros(50, np.float32)
    print("begin", flush=True)
    sys.stdin.readline()
    for turn in range(2):  # the store knows all of it the second time, where there is one
        z[:] = 0
        found = work(x, 2 * x, z, 50)
        assert (z == 3 * x).all()
        assert found.complete and not found.failures and found.best is not None, found
        assert [trial.config for trial in found] == configs
        assert all(trial.time_us > 0 for trial in found)
"""


def test_ten_tuners_of_one_kernel_in_one_folder(tmp_path: Path, prebuilt: Path) -> None:
    """They share the source, the folder for temporary files and the trial store, and begin at one moment."""
    folder = tmp_path / "shared"
    write(folder / "slow.sh", f'exec cp "{prebuilt}" "$2"\n')
    reader, writer = os.pipe()
    children: list[subprocess.Popen[str]] = []
    try:
        for number in range(10):
            children.append(tuning(folder, TOGETHER, reader, tmp_path / str(number)))
        before = sorted(path.name for path in folder.iterdir() if path.name != "cache")
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "begin\n", child.communicate(timeout=10)
        os.close(writer)  # the end of everybody's input
        writer = -1
        for child in children:
            out, err = child.communicate(timeout=200)
            assert child.returncode == 0, err
            assert numbers_told(out) == [*range(CONFIGS)] * 2 and out.count("Best config: No.") == 2
            assert "incomplete" not in out and err == ""
    finally:
        os.close(reader)
        with contextlib.suppress(OSError):
            os.close(writer)
        for child in children:
            child.kill()
    assert (folder / "work.cpp").read_text() == textwrap.dedent(SOURCE).lstrip("\n")
    assert sorted(path.name for path in folder.iterdir() if path.name != "cache") == before
    assert_nothing_is_left(folder)


def test_ten_tuners_that_are_killed(tmp_path: Path, prebuilt: Path) -> None:
    """No process outlives its tuner, and the next tuner removes the folder."""
    moments = random.Random(9)
    most = seconds_of_a_run(tmp_path / "whole", prebuilt)
    folder = tmp_path / "killed"
    abandoned = 0
    for turn in range(10):
        if turn % 4:  # else the next tuner goes on with what this one has kept
            shutil.rmtree(folder / "cache", ignore_errors=True)
        child = long_run(folder, prebuilt, SHORT, PAUSE)
        time.sleep(moments.uniform(0, most))
        child.kill()
        child.communicate(timeout=10)
        assert wait_until(lambda: not running(str(folder)), 5), running(str(folder))
        abandoned += bool(locked(folder))
        assert len(locked(folder)) <= 1, "the tuner before has left its folder"
    seconds_of_a_run(folder, prebuilt)
    assert abandoned > 0 and not locked(folder)


def locked(folder: Path) -> list[Path]:
    """The folders of tuners. One that was killed just before it locked its own is not told from one that begins."""
    found = (folder / "temporary").glob(f"{PREFIX}*")
    with contextlib.suppress(FileNotFoundError):
        return [path for path in found if (path / LOCK).exists()]
    return []
