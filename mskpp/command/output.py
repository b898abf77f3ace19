# SPDX-License-Identifier: Apache-2.0
"""What subcommands print: texts, and one JSON document."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import sys
from collections.abc import Iterator
from typing import Any

from mskpp.errors import FileError


def say(text: str) -> None:
    """A line on stderr, where there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """Writes lines to stdout, where there is one; letters that it does not have are written as escapes."""
    out = sys.stdout
    if out is None:
        return
    with stdout_errors():
        try:
            out.write(f"{text}\n")
        except UnicodeEncodeError:
            encoding = getattr(out, "encoding", None) or "ascii"
            out.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        out.flush()


def flush() -> None:
    if sys.stdout is not None:
        with stdout_errors():
            sys.stdout.flush()


@contextlib.contextmanager
def stdout_errors() -> Iterator[None]:
    """What the system refuses to write is a FileError; a BrokenPipeError stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        leave_stdout()
        raise FileError(f"stdout cannot be written: {error.strerror or error}") from error


def emit_json(document: Any) -> None:
    """One document, in ASCII, so that it is the same everywhere. Numbers that JSON lacks are null."""
    from mskpp.optune.results import plain

    emit(json.dumps(finite(document), indent=1, default=plain, allow_nan=False))


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def printable(text: str) -> str:
    """One line without what could move a cursor or change colours."""
    return "".join(c if c.isprintable() else "?" for c in text)


@contextlib.contextmanager
def stdout_set_aside(wanted: bool) -> Iterator[None]:
    """Within the block, if ``wanted``, all that goes to stdout goes to stderr: of Python, C code and children.
    Behind it sys.stdout is what it was, whatever a user's file has made of it."""
    if not wanted:
        with own_stdout_kept():
            yield
        return
    has_stderr = is_open(2)
    try:
        before = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)  # not the number of a stream that is closed
    except OSError:  # there is none
        before = None
    with open(os.devnull, "w") as nowhere:
        try:
            if before is not None:
                if sys.stdout is not None:
                    sys.stdout.flush()
                os.dup2(2 if has_stderr else nowhere.fileno(), 1)
            with contextlib.redirect_stdout(sys.stderr if sys.stderr is not None else nowhere):
                yield
        finally:
            if before is not None:
                if sys.stdout is not None:
                    sys.stdout.flush()
                ctypes.CDLL(None).fflush(None)  # what C code has printed and not written yet
                os.dup2(before, 1)
                os.close(before)


@contextlib.contextmanager
def own_stdout_kept() -> Iterator[None]:
    """A user's file may put something else in its place, or close it."""
    before = sys.stdout
    try:
        yield
    finally:
        closed = before is not None and before.closed
        sys.stdout = open(1, "w", closefd=False) if closed and is_open(1) else None if closed else before  # noqa: SIM115


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
        return True
    except OSError:
        return False


def numbered(path: str, number: int) -> str:
    """The path of the further results of one call: out.csv, out.2.csv, ..."""
    stem, ending = os.path.splitext(path)
    return path if number == 1 else f"{stem}.{number}{ending}"


def message(prog: str, error: BaseException) -> str:
    """The error's text, which begins with who says it."""
    text = str(error)
    return text if text.startswith(f"{prog}: ") else f"{prog}: {text}"


def check_writable(path: str | None, who: str) -> None:
    """An error before long work whose result could not be written."""
    if path is not None:
        from mskpp.launcher import checks

        checks.output_path(path, who)


def reader_is_gone() -> bool:
    """Whether nobody reads what goes to stdout."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def leave_stdout() -> None:
    """What is left for stdout goes nowhere, so that the end of the interpreter does not fail at it."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, 1)
    os.close(nowhere)
