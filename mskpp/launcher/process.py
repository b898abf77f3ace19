# SPDX-License-Identifier: Apache-2.0
"""Programs that mskpp starts: with a time limit, in a session of their own, and with nothing left of them afterwards.

Each program has a supervisor of its own (supervisor.py), which ends the program and all its descendants when the
program ends, when asked to, and when this process ends in whatever way. A lifeline (a socket) connects the two.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from mskpp.errors import ArgumentError, FileError, InputError, LaunchError, TimeLimitError
from mskpp.launcher import supervisor
from mskpp.log import logger

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_READ_BYTES = 1 << 16
_LONGEST_SECONDS = 1e8
_SHOWN_LINES = 20
_SHOWN_CHARACTERS = 4000
# What the supervisor may need to end everything, and a second for a busy machine.
_END_SECONDS = supervisor.GRACE_SECONDS + supervisor.KILL_SECONDS + 1.0
# A supervisor that was killed cannot tell; how often to look where the kernel has no pidfd.
_LOOK_SECONDS = 0.05
# No wait is longer at a time. A signal that comes when the wait is just about to begin, or that another thread takes,
# does not end it, and Python acts on a signal (an interrupt) only when the wait is over.
_WAIT_SECONDS = 0.2

Command = Sequence["str | os.PathLike[str]"]


@dataclass(frozen=True)
class Completed:
    """A program that ended by itself. returncode is negative for the signal that ended it, as in subprocess."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float


class Stop:
    """A wish to end what other threads wait for. What is registered is ended by set(), and what comes later at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[object, Callable[[], object]] = {}
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._lock:
            self._is_set = True
            ends = list(self._ends.values())
        for end in ends:
            end()

    @contextlib.contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        """Within the block set() calls ``end``, from another thread; at once where it was called before."""
        key = object()
        with self._lock:
            self._ends[key] = end
            late = self._is_set
        try:
            if late:
                end()
            yield
        finally:
            with self._lock:
                del self._ends[key]


@dataclass(frozen=True)
class Limits:
    """What holds for programs that are started on behalf of somebody. memory_bytes: of the address space of each."""

    memory_bytes: int | None = None
    stop: Stop | None = None

    def ends(self, end: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
        """As Stop.ends(), where there is one."""
        return contextlib.nullcontext() if self.stop is None else self.stop.ends(end)


class _Output:
    """The first and the last bytes of a stream, at most limit of both together."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:  # twice, so that each byte is moved only once
            self._cut()

    def _cut(self) -> None:
        extra = len(self._tail) - self._half
        if extra > 0:
            del self._tail[:extra]
            self._left_out += extra

    def text(self) -> str:
        self._cut()
        if not self._left_out:
            return (self._head + self._tail).decode(errors="replace")
        note = f"\n[mskpp: {self._left_out:,} bytes left out]\n"
        return self._head.decode(errors="replace") + note + self._tail.decode(errors="replace")


def shown(command: Command) -> str:
    """The command as one would type it, for messages; shortened where it is very long."""
    import shlex

    text = shlex.join(os.fspath(word) for word in command)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def last_lines(*texts: str) -> str:
    """The end of the last text that holds anything, each line indented; "" where none does."""
    text = next((text for text in reversed(texts) if text.strip()), "")
    lines = text.rstrip()[-_SHOWN_CHARACTERS:].splitlines()[-_SHOWN_LINES:]
    return "".join(f"\n  {line}" for line in lines)


def _words(command: Command, who: str) -> list[str]:
    if isinstance(command, (str, bytes)) or not isinstance(command, Sequence):
        raise ArgumentError(
            f"{who}: command is {type(command).__name__}; give a list of the program and its arguments, not one string"
        )
    if not command:
        raise InputError(f"{who}: command is empty; the first word is the program")
    words: list[str] = []
    for number, word in enumerate(command):
        text = os.fspath(word) if isinstance(word, (str, os.PathLike)) else word
        if not isinstance(text, str):
            raise ArgumentError(f"{who}: word {number} of the command is {text!r}; each is a string or a path")
        if "\0" in text:
            raise InputError(f"{who}: word {number} of the command has a NUL character: {text!r}; remove it")
        words.append(text)
    return words


def _positive(name: str, value: float | None, who: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{who}: {name} is {value!r}; give a number, or None for no limit")
    if not value > 0:
        raise InputError(f"{who}: {name} is {value!r}; it must be above 0, or None for no limit")


def _program(word: str, environment: Mapping[str, str], who: str) -> str:
    """The file to execute; a word with a slash is taken from the folder the program runs in, as exec does."""
    if "/" in word:
        return word
    search = environment.get("PATH", os.defpath)
    found = shutil.which(word, path=search)
    if found is None:
        raise FileError(f"{who}: program {word!r} is not found on PATH ({search}); install it or set PATH")
    return os.path.abspath(found)


def _send(lifeline: socket.socket, data: bytes) -> None:
    """Sends, where the supervisor is still there; its end shows elsewhere."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        lifeline.sendall(data, socket.MSG_NOSIGNAL)


class Running:
    """A program under its supervisor. When this object, or this process, goes away, the program is ended.

    process is the supervisor, which lives as long as any descendant of the program does.
    """

    def __init__(
        self,
        command: Command,
        *,
        who: str,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        memory_bytes: int | None,
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
        umask: int | None = None,
    ) -> None:
        self.command = _words(command, who)
        self._who = who
        _positive("memory_bytes", memory_bytes, who)
        environment = dict(os.environ if env is None else env)
        order = marshal.dumps(
            {
                "program": os.fsencode(_program(self.command[0], environment, who)),
                "command": [os.fsencode(word) for word in self.command],
                "environment": {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
                "cwd": None if cwd is None else os.fsencode(cwd),
                "memory_bytes": memory_bytes,
                "umask": umask,
            }
        )
        self._returncode: int | None = None
        self.process: subprocess.Popen[bytes]
        self._lifeline, lifeline = socket.socketpair()
        report, report_in_supervisor = os.pipe()
        self._report = open(report, "rb", buffering=0)  # noqa: SIM115 - it lives as long as the program
        try:
            with lifeline, open(report_in_supervisor, "wb", buffering=0):
                self.process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                        *(str(lifeline.fileno()), str(report_in_supervisor), str(os.getpid())),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(lifeline.fileno(), report_in_supervisor, *pass_fds),
                    start_new_session=True,
                )
            _send(self._lifeline, len(order).to_bytes(supervisor.ORDER_HEAD_BYTES, "little") + order)
        except BaseException as error:  # an interrupt may come at any point: the closed lifeline ends what was started
            self.end()
            if hasattr(self, "process"):
                self.stop()
            self._close()
            if isinstance(error, OSError):
                raise FileError(
                    f"{who}: {shown(self.command)} cannot be started: {error.strerror}; its supervisor needs the "
                    f"Python interpreter sys.executable, which is {sys.executable!r}, and room for another process"
                ) from error
            raise

    def _close(self) -> None:
        self._lifeline.close()
        self._report.close()

    def _ended(self) -> bool:
        """Whether the supervisor has ended; it is not reaped, so its number stands for its session still."""
        if self.process.returncode is not None:
            return True
        try:
            result = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True  # the program ignores SIGCHLD or reaped it elsewhere
        return result is not None

    def _end_session(self) -> None:
        """Kills what is left of the session of a supervisor that was killed itself."""
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == self.process.pid:
                continue
            with contextlib.suppress(OSError):  # it ended meanwhile
                stat = Path("/proc", name, "stat").read_bytes()
                if stat[stat.rfind(b")") + 2 :].split()[3] == str(self.process.pid).encode():
                    os.kill(int(name), signal.SIGKILL)

    def _finish(self) -> int:
        """Reads the report of the ended supervisor; the return code of the program. Raises FileError or LaunchError."""
        if self._returncode is not None:
            return self._returncode
        if self._report.closed:
            return -int(signal.SIGKILL)  # stopped before it could tell
        os.set_blocking(self._report.fileno(), False)
        words = (self._report.read(_READ_BYTES) or b"").decode().split()
        if not words:
            self._end_session()
        code = self.process.wait()
        self._close()
        if not words:
            how = f"signal {-code}" if code < 0 else f"code {code}"
            self._returncode = -int(signal.SIGKILL)
            raise LaunchError(
                f"{self._who}: {shown(self.command)} was ended because its supervisor (process {self.process.pid}) "
                f"ended early with {how}; run it again, and look for memory limits where it comes back"
            )
        if int(words[-1]):
            logger.warning(
                "%s: %s processes of %s could not be ended: they belong to another user, or hang in the kernel; "
                "look at them with ps",
                self._who,
                words[-1],
                shown(self.command),
            )
        if words[0] == "error":
            self._returncode = -int(signal.SIGKILL)
            raise self._not_started(words[1], int(words[2]))
        self._returncode = int(words[1]) if words[0] == "exit" else -int(words[1])
        return self._returncode

    def _not_started(self, step: str, code: int) -> FileError:
        cure = {
            "folder": "the folder to run in must exist and be accessible",
            "program": "give an executable file (a script needs a first line such as #!/bin/bash)",
            "memory": "the memory limit is above what this process may use",
            "start": "the machine has no room for another process",
        }[step]
        if code == errno.E2BIG:
            cure = "the words of the command and the environment together are too long"
        return FileError(f"{self._who}: {shown(self.command)} cannot be started: {os.strerror(code)}; {cure}")

    def poll(self) -> int | None:
        """The return code of the program, None while it or a descendant of it runs. Raises as wait()."""
        return self._finish() if self._ended() else None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the program and its descendants; its return code.

        Raises FileError when it could not be started, LaunchError when its supervisor was killed, and TimeLimitError
        after timeout seconds: the program then runs on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._ended():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeLimitError(f"{self._who}: {shown(self.command)} still runs after {timeout:g} s")
            with self.end_descriptor() as descriptor, selectors.DefaultSelector() as selector:
                if descriptor is not None:
                    selector.register(descriptor, selectors.EVENT_READ)
                selector.select(_pause(left, descriptor))
        return self._finish()

    @contextlib.contextmanager
    def end_descriptor(self) -> Iterator[int | None]:
        """A descriptor that is readable when the supervisor has ended; None on kernels that have no such thing."""
        try:
            descriptor = os.pidfd_open(self.process.pid)
        except (OSError, AttributeError):
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def end(self) -> None:
        """Asks the supervisor to end everything, without waiting for it."""
        with contextlib.suppress(OSError):  # closed, or the supervisor has ended
            # Not a byte (the order may have gone out half), nor close() (a fork of this process may hold a copy).
            self._lifeline.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Ends the program and all its descendants, and waits until they are gone. Again is no harm."""
        if self._report.closed:
            return
        self.end()
        end = time.monotonic() + _END_SECONDS
        while not self._ended() and time.monotonic() < end:
            with self.end_descriptor() as descriptor, selectors.DefaultSelector() as selector:
                if descriptor is not None:
                    selector.register(descriptor, selectors.EVENT_READ)
                selector.select(_pause(end - time.monotonic(), descriptor))
        if not self._ended():  # stopped, or stuck: it cannot do its work
            self._end_session()
            self.process.kill()
        with contextlib.suppress(LaunchError, FileError):  # it was to end: how it ended is of no interest
            self._finish()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _pause(left: float | None, end_descriptor: int | None) -> float:
    """How long to wait at a time for the end of a supervisor, with or without its descriptor."""
    most = _LOOK_SECONDS if end_descriptor is None else _WAIT_SECONDS
    return most if left is None else min(max(left, 0.0), most)


def start(
    command: Command,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    pass_fds: Sequence[int] = (),
    who: str = "start",
    memory_bytes: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Running:
    """Starts a long-living program; it keeps the descriptors of pass_fds under their numbers, and no others.

    stdin is /dev/null. stdout and stderr are as for subprocess.Popen, without pipes. That it could not be started
    shows at the first poll() or wait(), except a program that is not on PATH: FileError at once.
    """
    return Running(
        command,
        who=who,
        env=env,
        cwd=cwd,
        memory_bytes=memory_bytes,
        pass_fds=pass_fds,
        stdout=stdout,
        stderr=stderr,
    )


def _read(descriptor: int, output: _Output) -> bool:
    """Reads what is there now; False at the end of the stream."""
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return True
    output.add(data)
    return bool(data)


def _collect(running: Running, outputs: dict[int, _Output], end: float | None) -> bool:
    """Reads the outputs until the supervisor has ended (True), or until the time is over (False)."""
    with running.end_descriptor() as ended, selectors.DefaultSelector() as selector:
        for descriptor in outputs:
            selector.register(descriptor, selectors.EVENT_READ)
        if ended is not None:
            selector.register(ended, selectors.EVENT_READ)
        while not running._ended():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            for key, _ in selector.select(_pause(left, ended)):
                if key.fd in outputs and not _read(key.fd, outputs[key.fd]):
                    selector.unregister(key.fd)
    return True


def _drain(outputs: dict[int, _Output]) -> None:
    """Reads what stands in the pipes; nobody is waited for, should anybody hold them open still."""
    for descriptor, output in outputs.items():
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):  # a pipe holds 1 MiB at the most
                data = os.read(descriptor, _READ_BYTES)
                if not data:
                    break
                output.add(data)


def run(
    command: Command,
    *,
    timeout: float | None,
    who: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    memory_bytes: int | None = None,
    limit_output: int = 8 << 20,
    stop: Stop | None = None,
    umask: int | None = None,
) -> Completed:
    """Runs a program to its end; neither it nor any descendant is left afterwards, whatever happens.

    timeout in seconds; None is no limit. memory_bytes limits the address space of each of its processes. Of each
    stream the first and the last limit_output / 2 bytes are kept. stdin is /dev/null. stop.set() ends it early; where
    it is set already nothing is started, and the result is that of a program killed at once. umask is that of the
    program; None is ours.

    Raises TimeLimitError at the time limit, FileError when the program cannot be started, LaunchError when its
    supervisor was killed. A program that fails raises nothing: see returncode.
    """
    _positive("timeout", timeout, who)
    timeout = None if timeout is not None and timeout > _LONGEST_SECONDS else timeout  # years are no limit
    if stop is not None and stop.is_set:
        return Completed(-int(signal.SIGKILL), "", "", 0.0)
    began = time.monotonic()
    end = None if timeout is None else began + timeout
    with contextlib.ExitStack() as stack:
        ends: list[int] = []
        for _ in range(2):
            for descriptor, mode in zip(os.pipe(), ("rb", "wb"), strict=True):
                stack.enter_context(open(descriptor, mode, buffering=0))
                ends.append(descriptor)
        outputs = {ends[0]: _Output(limit_output), ends[2]: _Output(limit_output)}
        for descriptor in outputs:
            os.set_blocking(descriptor, False)
        running = stack.enter_context(
            Running(
                command,
                who=who,
                env=env,
                cwd=cwd,
                memory_bytes=memory_bytes,
                pass_fds=(),
                stdout=ends[1],
                stderr=ends[3],
                umask=umask,
            )
        )
        if stop is not None:
            stack.enter_context(stop.ends(running.end))
        in_time = _collect(running, outputs, end)
        if not in_time:
            running.end()
            _collect(running, outputs, time.monotonic() + _END_SECONDS)
            running.stop()
        _drain(outputs)
        texts = [output.text() for output in outputs.values()]
        if not in_time:
            raise TimeLimitError(
                f"{who}: {shown(command)} did not end within {timeout:g} s and was ended with all it had started; "
                f"give a longer timeout where the work needs it{last_lines(*texts)}"
            )
        return Completed(running.wait(), texts[0], texts[1], time.monotonic() - began)
