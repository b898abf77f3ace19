# SPDX-License-Identifier: Apache-2.0
"""Runs one program and lets nothing of it outlive the caller. A script of its own: ``python -I -S supervisor.py``.

Arguments: the descriptor of the lifeline (a socket to the caller), that of the report, and the caller's process id.

1. The lifeline first brings the order (read_order). Its end, or the end of the caller, means: end everything now. So
   a caller that is killed needs no last words.
2. This process is a session leader (the caller sees to that) and a child subreaper: whoever of the descendants loses
   its parent becomes our child, even after setsid() and a double fork. "No child is left" is therefore the same as
   "no descendant is left", which waitpid answers exactly.
3. The report is one line, written when all are gone: ``exit CODE``, ``signal NUMBER`` or ``error STEP ERRNO``, each
   with the number of processes that could not be ended.

It imports no more than it needs: its start is a part of the time of every run.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import select
import signal
import sys
import time

GRACE_SECONDS = 0.3  # from SIGTERM to SIGKILL
KILL_SECONDS = 4.0  # after that what cannot be killed (another user's, or stuck in the kernel) is left and reported
LOOK_SECONDS = 0.5  # the longest wait for anything; then the caller is looked at
ORDER_HEAD_BYTES = 8
NOT_STARTED = 127

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def read_order(lifeline: int, watch: Watch) -> dict[str, object] | None:
    """The order: 8 bytes of length, then a marshalled dict; None where the caller went away before it was whole."""

    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            # The caller is looked at as well: a fork of it may hold the other end of the lifeline open.
            while not select.select([lifeline], [], [], LOOK_SECONDS)[0]:
                if watch.asked_to_end or watch.caller_is_gone():
                    return b""
            more = os.read(lifeline, count - len(data))
            if not more:
                return b""
            data += more
        return data

    head = exactly(ORDER_HEAD_BYTES)
    body = exactly(int.from_bytes(head, "little")) if head else b""
    return marshal.loads(body) if body else None


def prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def become_program(order: dict[str, object], failed: int, supervisor: int) -> None:
    """In the new child: becomes the program, or writes ``STEP ERRNO`` to failed. Never returns."""
    step = "start"
    try:
        os.setpgid(0, 0)  # "kill 0" in a script must not reach the supervisor
        for number in (*_ENDING, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(NOT_STARTED)
        if order["memory_bytes"] is not None:
            import resource

            step = "memory"
            resource.setrlimit(resource.RLIMIT_AS, (order["memory_bytes"], order["memory_bytes"]))  # type: ignore[arg-type]
        if order["umask"] is not None:
            os.umask(order["umask"])  # type: ignore[arg-type]
        if order["cwd"] is not None:
            step = "folder"
            os.chdir(order["cwd"])  # type: ignore[arg-type]
        step = "program"
        os.execve(order["program"], order["command"], order["environment"])  # type: ignore[arg-type]
    except OSError as error:
        os.write(failed, f"{step} {error.errno}".encode())
    except (ValueError, MemoryError):
        os.write(failed, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(NOT_STARTED)


def start(order: dict[str, object]) -> tuple[int, str]:
    """Starts the program; (process id, ""), or (0, "STEP ERRNO") where it could not be started."""
    supervisor = os.getpid()
    failed, failed_in_child = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        return 0, f"start {error.errno}"
    if child == 0:
        become_program(order, failed_in_child, supervisor)
    os.close(failed_in_child)
    reason = os.read(failed, 256).decode()  # the end: exec closed it
    os.close(failed)
    if reason:
        os.waitpid(child, 0)
        return 0, reason
    return child, ""


def descendants() -> list[tuple[int, int]]:
    """(process id, process group) of every living descendant that /proc shows now."""
    children: dict[int, list[int]] = {}
    group: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue  # it is gone
        try:
            stat = os.read(descriptor, 1024)
        except OSError:
            stat = b""
        os.close(descriptor)
        fields = stat[stat.rfind(b")") + 2 :].split()  # the name before it may hold anything
        if len(fields) < 3:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        if fields[0] not in (b"Z", b"X"):
            group[int(name)] = int(fields[2])
    found = []
    left = list(children.get(os.getpid(), ()))
    while left:
        process = left.pop()
        left += children.get(process, ())
        if process in group:
            found.append((process, group[process]))
    return found


def signal_all(number: int) -> int:
    """Sends the signal to every descendant; the number of those there were.

    Whole groups at once: a group gets it at one moment, so a program that forks without end has nowhere to run to.
    """
    own = os.getpgrp()
    found = descendants()
    groups = {group for _, group in found if group not in (0, own)}
    for send, targets in ((os.killpg, groups), (os.kill, {process for process, _ in found})):
        for target in targets:
            try:
                send(target, number)
            except OSError:
                continue  # it ended before, or belongs to another user: the count of those left will tell
    return len(found)


class Watch:
    """What can happen: a child ends, somebody asks us to end, the lifeline or the caller ends."""

    def __init__(self, lifeline: int, caller: int) -> None:
        self.asked_to_end = False
        self.child = 0
        self.status: int | None = None  # of the child, when it has ended
        self._caller = caller
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in _ENDING:
            signal.signal(number, self._asked)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._poll.register(lifeline, select.POLLIN)
        try:
            # The caller's end as such: a fork of the caller may hold the other end of the lifeline open.
            self._poll.register(os.pidfd_open(caller), select.POLLIN)
        except (OSError, AttributeError):
            return  # an old kernel: wait() looks at the parent often enough

    def _asked(self, number: int, frame: object) -> None:
        self.asked_to_end = True

    def caller_is_gone(self) -> bool:
        return os.getppid() != self._caller

    def wait(self, seconds: float | None) -> None:
        """Until something happens, or the seconds are over; never longer than LOOK_SECONDS."""
        most = LOOK_SECONDS if seconds is None else max(0.0, min(seconds, LOOK_SECONDS))
        for descriptor, _ in self._poll.poll(most * 1000):
            if descriptor != self._woken:
                self.asked_to_end = True
                self._poll.unregister(descriptor)  # it stays readable
                continue
            try:
                while os.read(self._woken, 4096):
                    pass
            except BlockingIOError:
                continue
        if self.caller_is_gone():
            self.asked_to_end = True

    def reap(self) -> bool:
        """Takes what ended; True while any child, so any descendant, is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if process == self.child:
                self.status = status


def end_all(watch: Watch) -> int:
    """Ends every descendant: asks, waits GRACE_SECONDS, then kills until none is left. The number that stayed."""
    if not watch.reap():
        return 0
    signal_all(signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    while watch.reap() and time.monotonic() < end:
        watch.wait(end - time.monotonic())
    end = time.monotonic() + KILL_SECONDS
    left = 0
    while watch.reap():
        left = signal_all(signal.SIGKILL)
        if time.monotonic() > end:
            return left
        if watch.reap():
            watch.wait(0.005)
    return 0


def main() -> None:
    lifeline, report, caller = (int(text) for text in sys.argv[1:4])
    os.set_inheritable(lifeline, False)
    os.set_inheritable(report, False)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    watch = Watch(lifeline, caller)
    order = None if watch.caller_is_gone() else read_order(lifeline, watch)
    if order is None:
        return
    child, reason = start(order)
    if not child:
        os.write(report, f"error {reason} 0\n".encode())
        return
    watch.child = child
    watch.reap()
    while watch.status is None and not watch.asked_to_end:
        watch.wait(None)
        watch.reap()
    left = end_all(watch)
    status = watch.status
    if status is None:
        line = f"signal {int(signal.SIGKILL)} {left}\n"  # it cannot be killed at present
    elif os.WIFSIGNALED(status):
        line = f"signal {os.WTERMSIG(status)} {left}\n"
    else:
        line = f"exit {os.WEXITSTATUS(status)} {left}\n"
    try:
        os.write(report, line.encode())
    except BrokenPipeError:
        sys.exit(1)  # nobody waits for it


if __name__ == "__main__":
    main()
