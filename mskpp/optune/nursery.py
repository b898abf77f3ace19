# SPDX-License-Identifier: Apache-2.0
"""The processes that evaluate a Python function, and the one they are forked from.

They are forks, so that any function will do: one of a script, a lambda, a closure. A fork of a process with several
threads has of them only the one that forked, and finds what the others held locked, locked. So this process forks but
once, the nursery: it does nothing but fork from then on, when a worker is to be replaced, has a single thread, and runs
nothing of the user's. What CPython and the C library lock themselves (logging, imports, memory, stdio) they release in
a fork; standard output and error, whose locks they do not, workers replace.

Each worker has a session of its own: neither a terminal's Ctrl-C nor what a function does to its process group reaches
anybody else. When the nursery is told, or its parent has gone away, it ends all workers with what they started; when
it is killed itself, the workers are killed by the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import io
import marshal
import math
import numbers
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mskpp.errors import InputError, LaunchError, MskppError

Function = Callable[[Any], Any]
ANSWER_SECONDS = 20.0  # for the nursery, which needs milliseconds
LOOK_SECONDS = 0.5  # how often the nursery looks whether its parent is there
ABORT_SECONDS = 0.3  # for a worker to say where it was
END_SECONDS = 1.5
LOG_BYTES = 4000  # of what was printed, for the log of a failure
LOG_LINES = 12
TIME = struct.Struct("<Bd")
FAILURE = struct.Struct("<BI")
_PR_SET_PDEATHSIG = 1
_PACKAGE = str(Path(__file__).resolve().parent)


@dataclass(frozen=True)
class Failure:
    """A configuration without a time: "failed", "crashed" or "timed out", the reason in one line, and what is known."""

    ending: str
    reason: str
    log: str = ""


def time_of(value: object) -> float:
    """The value as a time in us. InputError unless it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"the time is {type(value).__name__}; it must be a number of us")
    found = float(value)
    if not (math.isfinite(found) and found > 0):
        raise InputError(f"the time is {found}; it must be a finite number of us above 0")
    return found


def failure_of(error: BaseException, printed: str = "") -> Failure:
    """What is known of an exception of the user's function: without the frames of this package that called it."""
    try:
        text = str(error).strip()
    except Exception:  # a __str__ of the user's
        text = ""
    first = text.splitlines()[0] if text else ""
    name = type(error).__name__
    reason = (first or name) if isinstance(error, MskppError) else f"{name}: {first}" if first else name
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        at = at.tb_next
    lines = "".join(traceback.format_exception(type(error), error, at)).splitlines()[-LOG_LINES:]
    return Failure("failed", reason[:LOG_BYTES], with_printed("\n".join(lines), printed))


def with_printed(log: str, printed: str) -> str:
    log = log[-LOG_BYTES:]
    return log + ("\n" if log else "") + "printed: " + printed[-LOG_BYTES:].strip() if printed.strip() else log


def without_callers(stack: str) -> str:
    """What faulthandler wrote, up to the user's function: the innermost frames come first."""
    return stack.partition(f'\n  File "{_PACKAGE}{os.sep}')[0]


def evaluated_one(function: Function, config: Any, printed: Callable[[], str] = str) -> float | Failure:
    """The function's time for the configuration. Whatever it raises is a failure."""
    try:
        return time_of(function(config))
    except BaseException as error:
        return failure_of(error, printed())


# --- the worker ---


class _Kept(io.RawIOBase):
    """A stream that keeps the last of what is written to it."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, data: Any) -> int:
        self._bytes += data
        if len(self._bytes) > 4 * LOG_BYTES:  # a multiple, so that each byte is moved about once
            del self._bytes[:-LOG_BYTES]
        return len(data)

    def taken(self) -> str:
        text = self._bytes[-LOG_BYTES:].decode(errors="replace")
        self._bytes.clear()
        return text


class _Printed:
    """sys.stdout and sys.stderr while a function runs."""

    def __init__(self) -> None:
        self._raw = _Kept()
        self._open()

    def _open(self) -> None:
        buffered = io.BufferedWriter(self._raw, 1 << 14)
        self._text = io.TextIOWrapper(buffered, encoding="utf-8", errors="backslashreplace")

    def fresh(self) -> None:
        """For the next configuration."""
        self.taken()
        sys.stdout = sys.stderr = self._text

    def taken(self) -> str:
        """What was printed since."""
        if self._text.closed:
            self._raw = _Kept()
            self._open()
        self._text.flush()
        return self._raw.taken()


def _own_signals() -> None:
    """As in a new program; Ctrl-C is the parent's."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _work(channel: socket.socket, output: int, function: Function, memory_bytes: int | None, nursery: int) -> None:
    """Answers each batch of configurations, one by one, until the channel ends."""
    os.setsid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in {nothing, output} - {0, 1, 2}:
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    printed = _Printed()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if memory_bytes is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes if most < 0 else min(memory_bytes, most), most))
    faulthandler.enable(2, all_threads=False)  # a crash says where it was, and so does SIGABRT
    us = os.getpid()
    stream = channel.makefile("rb")
    while True:
        head = stream.read(4)
        if len(head) < 4:
            return
        for config in pickle.loads(stream.read(int.from_bytes(head, "little"))):
            printed.fresh()
            outcome = evaluated_one(function, config, printed.taken)
            if os.getpid() != us:  # the function forked, and its child came back
                return
            channel.sendall(packed(outcome))


def packed(outcome: float | Failure) -> bytes:
    if not isinstance(outcome, Failure):
        return TIME.pack(0, outcome)
    body = marshal.dumps((outcome.ending, outcome.reason, outcome.log))
    return FAILURE.pack(1, len(body)) + body


def unpacked(data: bytearray) -> Iterator[float | Failure]:
    """Takes what is there as a whole off the data."""
    at = 0
    while at < len(data):
        if data[at] == 0:
            if len(data) - at < TIME.size:
                break
            yield float(TIME.unpack_from(data, at)[1])
            at += TIME.size
            continue
        if len(data) - at < FAILURE.size:
            break
        size = FAILURE.unpack_from(data, at)[1]
        if len(data) - at < FAILURE.size + size:
            break
        at += FAILURE.size
        yield Failure(*marshal.loads(data[at : at + size]))
        at += size
    del data[:at]


# --- the nursery ---


def _forked(child: Callable[[], object]) -> int:
    """The process that runs ``child`` and ends. Signals wait until it has its own handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # That others have threads is a warning from Python 3.12 on; why it does no harm here is said at the top.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    if process:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process
    _end_with(child)


def _end_with(child: Callable[[], object]) -> NoReturn:
    """Runs ``child``, and none of what the parent's process does at its end."""
    code = 1
    try:
        _own_signals()
        child()
        code = 0
    finally:
        os._exit(code)


class _Workers:
    """The nursery's side: the workers that are not reaped yet."""

    def __init__(self, control: socket.socket, function: Function, memory_bytes: int | None) -> None:
        self._control = control
        self._function = function
        self._memory_bytes = memory_bytes
        self._alive: set[int] = set()

    def serve(self, parent: int) -> None:
        """Obeys until the parent says no more."""
        os.setsid()
        gc.freeze()  # what is there is shared with the workers for as long as nobody touches it
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        try:
            while True:
                if not poll.poll(LOOK_SECONDS * 1000):
                    if os.getppid() != parent:
                        return
                    continue
                order = self._control.recv(64).split()
                if not order:
                    return
                if order[0] == b"new":
                    self._new()
                else:
                    self._control.send(b"%d" % self._end(int(order[1]), abort=order[0] == b"abort"))
        except OSError:
            return  # the parent has gone away within an order
        finally:
            for worker in list(self._alive):
                self._kill(worker)
            for worker in list(self._alive):
                self._reap(worker)

    def _new(self) -> None:
        try:
            ours, its = socket.socketpair()
            read, write = os.pipe()
            nursery = os.getpid()

            def child() -> None:
                self._control.close()
                ours.close()
                os.close(read)
                _work(its, write, self._function, self._memory_bytes, nursery)

            worker = _forked(child)
        except OSError as error:
            self._control.send(b"error %d" % (error.errno or 0))
            return
        self._alive.add(worker)
        its.close()
        os.close(write)
        socket.send_fds(self._control, [b"%d" % worker], [ours.fileno(), read])
        ours.close()
        os.close(read)

    def _end(self, worker: int, abort: bool) -> int:
        """Ends the worker and what it started, however it ended; its return code."""
        if worker in self._alive:
            if abort:
                os.kill(worker, signal.SIGABRT)
            end = time.monotonic() + ABORT_SECONDS  # its channel has ended otherwise, so it is about to
            while time.monotonic() < end and self._running(worker):
                time.sleep(0.002)
        self._kill(worker)
        return self._reap(worker)

    def _running(self, worker: int) -> bool:
        # Not reaped: its number stands for its group until the group is killed.
        return os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def _kill(self, worker: int) -> None:
        if worker not in self._alive:
            return
        with contextlib.suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
        with contextlib.suppress(OSError):  # it may not lead a session yet
            os.kill(worker, signal.SIGKILL)

    def _reap(self, worker: int) -> int:
        if worker not in self._alive:
            return -int(signal.SIGKILL)
        self._alive.discard(worker)
        return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


@dataclass(frozen=True)
class Worker:
    """A worker as its user has it. output: the descriptor of what it, or what it started, writes to 1 and 2."""

    process: int
    channel: socket.socket
    output: int


class GoneError(LaunchError):
    """The nursery has ended, and all workers with it."""


class Nursery:
    """The parent's side, used by one thread. GoneError when the nursery was killed, LaunchError when it does not do
    what it is to."""

    def __init__(self, function: Function, memory_bytes: int | None, who: str) -> None:
        self._who = who
        self._control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control = self._control
        parent = os.getpid()

        def child() -> None:
            control.close()
            _Workers(its, function, memory_bytes).serve(parent)

        try:
            self._process = _forked(child)
        except OSError as error:
            control.close()
            raise LaunchError(f"{who}: no process can be forked: {os.strerror(error.errno or 0)}") from error
        finally:
            its.close()
        control.settimeout(ANSWER_SECONDS)

    def new(self) -> Worker:
        """A new worker."""
        answer, descriptors = self._asked(b"new", 2)
        if not descriptors:
            code = int(answer.split()[1])
            raise LaunchError(f"{self._who}: no process can be forked: {os.strerror(code)}; end some others")
        channel = socket.socket(fileno=descriptors[0])
        channel.setblocking(False)
        os.set_blocking(descriptors[1], False)
        return Worker(int(answer), channel, descriptors[1])

    def end(self, worker: Worker, *, abort: bool) -> int:
        """Ends a worker, or takes note of its end; its return code, negative for a signal. abort: it is to say first
        where it is."""
        answer, _ = self._asked(b"%s %d" % (b"abort" if abort else b"end", worker.process), 0)
        return int(answer)

    def _asked(self, order: bytes, descriptors: int) -> tuple[bytes, list[int]]:
        try:
            self._control.send(order)
            answer, found, _, _ = socket.recv_fds(self._control, 64, descriptors)
        except TimeoutError:
            seconds = self._control.gettimeout()
            raise LaunchError(
                f"{self._who}: the process that forks others did not answer within {seconds:g} s; is it stopped?"
            ) from None
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if not answer:
            raise GoneError(f"{self._who}: the process that forks others is gone")
        return answer, found

    def close(self) -> None:
        """Ends it and all workers. Again is no harm."""
        if self._control.fileno() < 0:
            return
        with contextlib.suppress(OSError):  # not close() alone: a fork of this process may hold a copy
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        end = time.monotonic() + END_SECONDS
        with contextlib.suppress(ChildProcessError):  # somebody else reaped it
            while time.monotonic() < end:
                if os.waitpid(self._process, os.WNOHANG)[0]:
                    return
                time.sleep(0.002)
            os.kill(self._process, signal.SIGKILL)  # the kernel kills the workers then
            os.waitpid(self._process, 0)
