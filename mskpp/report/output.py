# SPDX-License-Identifier: Apache-2.0
"""The output folder of a block and the files in it: all of them whole, or none."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from mskpp import _core
from mskpp.errors import FileError
from mskpp.log import logger
from mskpp.report import pie, tables
from mskpp.report.result import Result

_MOST_IN_ONE_SECOND = 10_000
_LONG_RUN = 1_000_000  # instructions from which a progress bar is worth its room
_LARGE_TRACE_BYTES = 256 << 20

Progress = Callable[[str], None]


def _remove_if_empty(path: Path, process: int) -> None:
    if os.getpid() != process:
        return
    with contextlib.suppress(OSError):  # it holds files, or it is gone: both are fine
        path.rmdir()


class OutputFolder:
    """``MSKPP<UTC time>`` in the current directory, mode 0750, reserved at once; removed again if nothing is written.

    Raises FileError when it cannot be made.
    """

    def __init__(self) -> None:
        self.path = self._make()
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _remove_if_empty, self.path, self._process)

    @staticmethod
    def _make() -> Path:
        here = Path.cwd()
        name = "MSKPP" + time.strftime("%Y%m%d%H%M%S", time.gmtime())
        for number in range(_MOST_IN_ONE_SECOND):
            path = here / (f"{name}_{number}" if number else name)
            try:
                path.mkdir(mode=0o750)
                path.chmod(0o750)
                return path
            except FileExistsError:
                continue
            except OSError as error:
                raise FileError(
                    f"output: folder {name} cannot be made in the current directory: {error.strerror}"
                ) from None
        raise FileError(f"output: {_MOST_IN_ONE_SECOND} folders {name}_* exist already")

    def close(self) -> None:
        """Removes the folder if it is empty; not in a child process, which does not own it."""
        if os.getpid() == self._process:
            self._finalizer()
        else:
            self._finalizer.detach()


@contextlib.contextmanager
def new_file(path: Path, who: str = "output") -> Iterator[TextIO]:
    """A text file of mode 0600 that appears under its name only when it is whole. Raises FileError, which begins with
    ``who``."""
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced
        raise FileError(f"{who}: {path} is no regular file; give another path")
    part = path.with_name(f".mskpp-{os.getpid()}-{os.urandom(8).hex()}.part")
    try:
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline=""
        ) as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask
            yield file
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileError(f"{who}: {path.name} cannot be written: {error.strerror}") from error
        raise


def _write_trace(timeline: _core.Timeline, path: Path, progress: Progress) -> None:
    _core.write_trace(timeline, path, lambda written: progress(f"trace: {written:,} instructions"))
    size = path.stat().st_size
    if size > _LARGE_TRACE_BYTES:
        logger.warning(
            "trace.json has %d MiB; chrome://tracing and Perfetto open about 256 MiB, trace a smaller part for them",
            size >> 20,
        )


def write(
    folder: OutputFolder, result: Result, timeline: _core.Timeline, trace: bool, metrics: bool, progress: Progress
) -> None:
    """Writes what was asked for; removes what it wrote when one file fails."""
    before = set(folder.path.glob("*"))  # what a user put there stays, whatever happens
    written: list[Path] = []
    try:
        if metrics:
            for name, writer in (
                ("Pipe_statistic.csv", tables.write_pipes),
                ("Instruction_statistic.csv", tables.write_instructions),
                ("instruction_cycle_consumption.html", pie.write_pie),
            ):
                written.append(folder.path / name)  # before it exists: an interrupt may come at any point
                with new_file(folder.path / name) as file:
                    writer(result, file)
                progress(name)
        if trace:
            written.append(folder.path / "trace.json")
            _write_trace(timeline, folder.path / "trace.json", progress)
    except BaseException:
        for path in written:
            if path not in before:
                path.unlink(missing_ok=True)
        raise
    if sys.stdout is None:
        return
    if metrics:
        tables.print_summary(result, str(folder.path))
    else:
        print(f"{result.chip}: {result.duration_us:.3f} us, {result.total_cycles:,} cycles")
        for warning in result.warnings:
            print(f"warning: {warning}")
        print(f"files: {folder.path}")


@contextlib.contextmanager
def progress(instructions: int) -> Iterator[Progress]:
    """Shows on stderr what a long run is at, where stderr is a terminal."""
    if instructions < _LONG_RUN or sys.stderr is None or not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(f"{instructions:,} instructions: scheduling", total=None)
        yield lambda step: bar.update(task, description=f"{instructions:,} instructions: {step}")
