# SPDX-License-Identifier: Apache-2.0
"""The compilation of one candidate, here or where an executor runs it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mskpp import errors
from mskpp.errors import CompileError, MskppError
from mskpp.launcher import backend as backends
from mskpp.launcher import compiler, process
from mskpp.optune.folder import LOCK

LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Job:
    """What one compilation needs; plain values, for other processes too."""

    who: str
    build_script: str | None
    source: Path
    output: Path
    options: tuple[str, ...]
    backend: str
    timeout: float | None
    scratch: Path
    shared: bool
    memory_bytes: int | None
    tuner: Path  # the tuner's folder: its lock is held for as long as the tuner lives


def compile_here(
    job: Job, stop: process.Stop, observed: Callable[[dict[str, str]], dict[str, str]] | None = None
) -> None:
    """Compiles; raises as compiler.compile_alone(), which also says what ``observed`` is."""
    compiler.compile_alone(
        job.who,
        job.build_script,
        job.source,
        job.output,
        options=job.options,
        backend=backends.chosen(job.backend, job.who),
        timeout=job.timeout,
        folder=job.scratch,
        limits=process.Limits(job.memory_bytes, stop),
        shared=job.shared,
        observed=observed,
    )


@dataclass(frozen=True)
class Compiled:
    """What became of a job: its seconds, and of a failure the class and the text."""

    seconds: float
    kind: str = ""
    text: str = ""

    def check(self) -> None:
        """Raises the failure."""
        if self.kind:
            known = getattr(errors, self.kind, None)
            raise known(self.text) if known is not None else CompileError(f"{self.kind}: {self.text}")


def compile_there(job: Job) -> Compiled:
    """Compiles in a process of an executor. When the tuner has ended, so does the compilation."""
    begin = time.monotonic()
    stop = process.Stop()
    done = threading.Event()
    threading.Thread(target=watch, args=(job.tuner, stop, done), daemon=True).start()
    try:
        compile_here(job, stop)
    except MskppError as error:
        return Compiled(time.monotonic() - begin, type(error).__name__, str(error))
    except Exception as error:
        return Compiled(time.monotonic() - begin, "CompileError", f"{job.who}: {type(error).__name__}: {error}")
    finally:
        done.set()
    return Compiled(time.monotonic() - begin)


def watch(tuner: Path, stop: process.Stop, done: threading.Event) -> None:
    """Sets ``stop`` when the tuner of the folder lives no more."""
    while not done.wait(LOOK_SECONDS):
        if not is_held(tuner / LOCK):
            stop.set()
            return


def is_held(path: Path) -> bool:
    """Whether another process has locked the file."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
