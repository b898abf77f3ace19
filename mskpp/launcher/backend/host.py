# SPDX-License-Identifier: Apache-2.0
"""The CPU of this machine: kernels compiled by mskpp-cc and run by a process of their own.

A kernel that crashes or never ends takes that process with it and not the caller's. The process (host_worker.py) keeps
the library loaded from launch to launch. Memory is shared, with a guard page behind each buffer: what reads or writes
more than 63 bytes beyond its end crashes, and says in which block.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import platform
import re
import shlex
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mskpp.errors import ArgumentError, BackendError, FileError, LaunchError, MskppError, TimeLimitError
from mskpp.launcher import cc, process
from mskpp.launcher.arguments import ANY_NUMBER, Buffer, Described, Slot, buffers, prepare, refined, write_back

WORKER = Path(__file__).with_name("host_worker.py")
COMPILER = Path(cc.__file__)
PAGE = mmap.PAGESIZE
MOST_THREADS = 64  # of kernel.h, whose Status is laid out as STATUS
STATUS = struct.Struct(f"<{MOST_THREADS}qqq")
IDLE = -1
START_SECONDS = 60.0
WAIT_SECONDS = 0.2  # for an answer, at a time
MOST_ANSWERED = 1 << 20  # bytes
CACHES = Path("/sys/devices/system/cpu")
CACHE_SIZE = re.compile(r"(\d{1,9})([KMG]?)")
CPU_INFORMATION = Path("/proc/cpuinfo")
UNKNOWN_CACHE = 32 << 20  # bytes, where the system does not tell
MOST_FLUSHED = 1 << 30  # bytes
FLUSHED_EACH_MS = 1 << 16  # bytes that are walked in a millisecond at the slowest
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Host:
    """The backend ``host``."""

    name = "host"

    def compile_command(self, source: Path, output: Path, options: Sequence[str], *, shared: bool) -> list[str]:
        kind = ["-shared"] if shared else []
        return [sys.executable, "-I", str(COMPILER), *options, *kind, str(source), "-o", str(output)]

    @contextlib.contextmanager
    def script_environment(self, folder: Path | None = None) -> Iterator[dict[str, str]]:
        """The caller's, with ``mskpp-cc`` on PATH, and also as ``bisheng`` where there is no other: scripts written for
        the toolkit compile for the CPU unchanged."""
        with tempfile.TemporaryDirectory(prefix="mskpp-bin-", dir=folder) as programs:
            for name in ("mskpp-cc", "bisheng"):
                front = Path(programs) / name
                front.write_text(
                    f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I {shlex.quote(str(COMPILER))} "$@"\n'
                )
                front.chmod(0o700)
            yield {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def identity(self, timeout: float = 60.0) -> str:
        compiler = cc.compiler()
        if not compiler:
            raise BackendError(f"backend host: {cc.no_compiler()}")
        try:
            done = process.run([*compiler, "--version"], timeout=timeout, who=f"backend host: {compiler[0]} --version")
        except FileError as error:
            raise BackendError(f"{error}. It is what MSKPP_CXX, CXX or PATH names") from None
        front = COMPILER.read_text() + (cc.INCLUDE / "mskpp" / "kernel.h").read_text()
        return f"host {done.stdout.splitlines()[:1]} {hash_of(front)} {cpu_flags()}"

    def device_name(self, device_id: int = 0) -> str:
        """The CPU's model, and how many of its cores this process may use."""
        check_device(device_id, "backend host")
        return f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores"

    def load(self, path: Path, metadata: dict[str, Any], limits: process.Limits | None = None) -> HostLibrary:
        return HostLibrary(path, metadata, limits)


def flushed_bytes(caches: Path = CACHES) -> int:
    """How much is to be walked so that nothing else stays in a cache: twice the largest one, at most 1 GiB."""
    found = [UNITS[size[2]] * int(size[1]) for size in map(CACHE_SIZE.fullmatch, cache_sizes(caches)) if size]
    return min(2 * max(found, default=UNKNOWN_CACHE), MOST_FLUSHED)


def cache_sizes(caches: Path) -> Iterator[str]:
    """What the system says of the caches of each CPU, as 2048K."""
    for path in caches.glob("cpu[0-9]*/cache/index*/size"):
        with contextlib.suppress(OSError, ValueError):
            yield path.read_text().strip()


def cpu_name(information: Path = CPU_INFORMATION) -> str:
    """The CPU's model, as the system names it."""
    with contextlib.suppress(OSError, ValueError):
        lines = [line.partition(":") for line in reversed(information.read_text().splitlines())]
        known = {name.strip(): " ".join(value.split()) for name, _, value in lines}
        # Machines of other kinds than x86 name it otherwise, or not at all.
        named = [known[name] for name in ("model name", "Model", "cpu model", "cpu") if known.get(name)]
        if named:
            return named[0]
        if "CPU part" in known:
            return f"{platform.machine()} of implementer {known.get('CPU implementer')}, part {known['CPU part']}"
    return platform.machine() or "CPU"


def hash_of(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def cpu_flags() -> str:
    """-march=native makes the CPU a part of the compiler's identity."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return hash_of(line)
    return ""


class Worker:
    """The running process, its socket and the page it reports its blocks in."""

    def __init__(self, memory_bytes: int | None = None) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket = ours
        status = shared_memory("mskpp-status", PAGE)
        try:
            self.status = mmap.mmap(status, PAGE)
            self.clear_status()
            self.running = process.start(
                [sys.executable, "-I", "-S", str(WORKER), str(its.fileno()), str(status)],
                pass_fds=(its.fileno(), status),
                who="host worker",
                memory_bytes=memory_bytes,
            )
        finally:
            its.close()
            os.close(status)
        self.pending = b""  # of an answer
        self.asked = 0  # requests so far
        self.gone = False  # it has closed its end
        self.owner = os.getpid()
        self.described: list[list[int]] | int = ANY_NUMBER

    def load(self, library: Path) -> str | None:
        """Loads the launch code; what is wrong with it, or None. Raises as ask()."""
        answer = self.ask({"do": "load", "path": str(library)}, [], START_SECONDS)
        self.described = answer.get("described", ANY_NUMBER)
        error: str | None = answer.get("error")
        return error

    def clear_status(self) -> None:
        STATUS.pack_into(self.status, 0, *[IDLE] * MOST_THREADS, IDLE, 0)

    def ask(self, request: dict[str, Any], descriptors: list[int], seconds: float | None) -> dict[str, Any]:
        """One request, one answer. EOFError when the process is gone, TimeoutError when the time is over, and
        LaunchError for what is no answer: a kernel can write to every file of its process."""
        end = None if seconds is None else time.monotonic() + seconds
        self.asked += 1
        most = MOST_ANSWERED + 24 * int(request.get("repeat", 0))
        line = json.dumps({**request, "number": self.asked}).encode() + b"\n"
        try:
            self._wait(end)
            if descriptors:  # they travel with the first byte
                socket.send_fds(self.socket, [b"\n"], descriptors)
            self.socket.sendall(line)
            while True:
                answer = self._line(end, most)
                # Late lines of earlier requests, which a kernel may have doubled, are passed over.
                if answer is None or not 0 < answer.get("number", 0) < self.asked:
                    break
        except (BrokenPipeError, ConnectionResetError):
            self.gone = True
            raise EOFError from None
        if answer is None or answer.get("number") != self.asked or not is_answer(answer):
            raise LaunchError("the process that ran it sent what is no answer; does the kernel write to open files?")
        return answer

    def _line(self, end: float | None, most: int) -> dict[str, Any] | None:
        """The next line as an object; None when it is none. EOFError when the process is gone."""
        while b"\n" not in self.pending:
            if len(self.pending) > most:
                return None
            data = self._received(end)
            if not data:
                self.gone = True
                raise EOFError
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            out = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return out if isinstance(out, dict) and type(out.get("number")) is int else None

    def _received(self, end: float | None) -> bytes:
        """What comes next. Waited for in pieces: a signal that comes just before a wait begins does not end it, and
        Python acts on it (an interrupt) only when the wait is over."""
        while True:
            self._wait(end)
            left = self.socket.gettimeout()
            self.socket.settimeout(WAIT_SECONDS if left is None else min(left, WAIT_SECONDS))
            with contextlib.suppress(TimeoutError):
                return self.socket.recv(1 << 16)

    def _wait(self, end: float | None) -> None:
        """Lets the socket's next step take as long as is left. TimeoutError when nothing is."""
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)

    def blocks(self) -> tuple[list[int], int, int]:
        """The blocks that run now, the one that crashed (or -1), and its signal."""
        *running, failed, number = STATUS.unpack_from(self.status, 0)
        return sorted({b for b in running if b != IDLE}), failed, number

    def stop(self) -> int | None:
        """Ends the process; its return code where it had ended by itself."""
        code = None
        if self.owner != os.getpid():  # a fork of the caller: the process is the caller's
            return code
        with contextlib.suppress(LaunchError, FileError, TimeLimitError):
            code = self.running.wait(1.0 if self.gone else 0.0)
        self.running.stop()
        self.socket.close()
        return code


def shared_memory(name: str, size: int) -> int:
    """The descriptor of memory that is shared with the worker. Its size is sealed: were it cut, who touches it would
    die of SIGBUS."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_answer(answer: dict[str, Any]) -> bool:
    """Whether all that is used of an answer is of its type."""
    error, times, described = answer.get("error"), answer.get("ns", []), answer.get("described", 0)
    pairs = [] if isinstance(described, int) else described
    return (
        (error is None or isinstance(error, str))
        and isinstance(times, list)
        and all(type(t) is int for t in times)
        and isinstance(pairs, list)
        and all(isinstance(p, list) and len(p) == 2 and all(type(n) is int for n in p) for p in pairs)
    )


def stop_worker(state: dict[str, Worker]) -> None:
    worker = state.pop("worker", None)
    if worker is not None:
        worker.stop()


class HostLibrary:
    """Launch code for the CPU. One launch at a time; others wait."""

    def __init__(self, path: Path, metadata: dict[str, Any], limits: process.Limits | None = None) -> None:
        self._path = path
        self._limits = limits or process.Limits()
        self._kernel = str(metadata.get("kernel", path.name))
        self._metadata = metadata
        self._state: dict[str, Worker] = {}  # "worker" while it runs
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._end = weakref.finalize(self, stop_worker, self._state)

    def close(self) -> None:
        with self._lock:
            stop_worker(self._state)

    def launch(
        self,
        values: Sequence[Any],
        *,
        blockdim: int,
        stream: int | None = None,
        device_id: int | None = None,
        timeout_ms: int = 300000,
        repeat: int = 1,
    ) -> list[int]:
        check_device(device_id, self._kernel)
        return self._guarded(lambda: self._launch(values, blockdim, timeout_ms, repeat))

    def measure(
        self,
        values: Sequence[Any],
        *,
        blockdim: int,
        device_id: int | None = None,
        timeout_ms: int = 300000,
        warmup_us: int = 0,
        repeat: int = 1,
        flush_cache: bool = False,
    ) -> list[int]:
        check_device(device_id, self._kernel)
        flushed = flushed_bytes() if flush_cache else 0
        return self._guarded(lambda: self._launch(values, blockdim, timeout_ms, repeat, warmup_us, flushed))

    def _abandon(self) -> None:
        """For another thread: ends the process, so that the launch ends too."""
        worker = self._state.get("worker")
        if worker is not None:
            worker.running.end()

    def _guarded(self, launch: Callable[[], list[int]]) -> list[int]:
        if self._owner != os.getpid():  # a fork: what is there is the parent's, the lock may be held for ever
            self._owner, self._lock = os.getpid(), threading.Lock()
            self._state.clear()
        with self._lock:
            try:
                with self._limits.ends(self._abandon):
                    return launch()
            except ArgumentError:
                raise  # nothing was launched
            except (OSError, MemoryError) as error:
                stop_worker(self._state)
                if isinstance(error, MskppError):
                    raise
                reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "no memory is left"
                raise LaunchError(f"{self._kernel}: the launch could not be set up: {reason}") from error
            except BaseException:
                # Whatever went wrong, an interrupt too: the next launch begins with a new process.
                stop_worker(self._state)
                raise

    def _launch(
        self,
        values: Sequence[Any],
        blockdim: int,
        timeout_ms: int,
        repeat: int,
        warmup_us: int | None = None,
        flushed: int = 0,
    ) -> list[int]:
        """``warmup_us`` None: launches whose results go to the caller's memory; else they are measured, each on the
        memory as it was, after launches of so many us in all, and the caller's memory stays. ``flushed``: the bytes
        that are walked before each measured one."""
        worker = self._state.get("worker")
        if worker is None or worker.running.poll() is not None:
            stop_worker(self._state)
            worker = self._start()
        described = worker.described
        kinds = None if isinstance(described, int) else [Described(*d) for d in described]
        slots = prepare(values, refined(kinds, self._metadata), self._kernel, self._metadata.get("names", ()))
        parts = buffers(slots)
        numbers = {(b.address, b.nbytes): i for i, b in enumerate(parts)}
        places, size = layout(parts)
        memory = shared_memory("mskpp-buffers", max(size, PAGE))
        try:
            with mmap.mmap(memory, max(size, PAGE)) as view:
                for part, place in zip(parts, places, strict=True):
                    view[place : place + part.nbytes] = part.read()
                worker.clear_status()
                request = {
                    "do": "launch",
                    "blockdim": blockdim,
                    "repeat": repeat,
                    "warmup_ns": None if warmup_us is None else warmup_us * 1000,
                    "flushed": flushed,
                    "slots": [wire(slot, numbers) for slot in slots],
                    "buffers": [[place, part.nbytes] for part, place in zip(parts, places, strict=True)],
                }
                # All launches of a measurement are one request; the last of the warm-up begins in its time. So when
                # it takes longer, one of them took longer than the limit.
                all_ms = timeout_ms if warmup_us is None else timeout_ms * (repeat + 1) + warmup_us // 1000
                all_ms += repeat * (flushed // FLUSHED_EACH_MS)
                answer = self._ask(worker, request, memory, timeout_ms, all_ms)
                if answer.get("error") is not None:
                    raise LaunchError(f"{self._kernel}: {answer['error']}")
                times: list[int] = answer.get("ns", [])
                if len(times) != repeat:
                    raise LaunchError(f"{self._kernel}: {len(times)} of {repeat} launches have been reported")
                if warmup_us is None:
                    results = [view[place : place + part.nbytes] for part, place in zip(parts, places, strict=True)]
                    write_back(parts, results, self._kernel)
        finally:
            os.close(memory)
        return times

    def _start(self) -> Worker:
        # Kept before it is waited for: what is to end it must find it.
        worker = self._state["worker"] = Worker(self._limits.memory_bytes)
        try:
            if self._limits.stop is not None and self._limits.stop.is_set:
                raise LaunchError(f"{self._kernel}: the launch was interrupted")
            error = worker.load(self._path)
        except TimeoutError:
            error = f"{self._path} was not loaded within {START_SECONDS:g} s"
        except EOFError:
            error = f"the process that is to run it ended while loading {self._path}: {exit_text(worker.stop())}"
        except BaseException:
            worker.stop()
            raise
        if error is not None:
            worker.stop()
            raise LaunchError(f"{self._kernel}: {error}")
        return worker

    def _ask(
        self, worker: Worker, request: dict[str, Any], memory: int, timeout_ms: int, all_ms: int
    ) -> dict[str, Any]:
        try:
            return worker.ask(request, [memory], None if timeout_ms < 0 else all_ms / 1000)
        except LaunchError as error:
            raise LaunchError(f"{self._kernel}: {error}") from None
        except TimeoutError:
            running, _, _ = worker.blocks()
            where = f"; blocks that still ran: {some(running)}" if running else ""
            raise TimeLimitError(f"{self._kernel}: the launch did not end within {timeout_ms} ms{where}") from None
        except EOFError:
            running, failed, number = worker.blocks()
            code = worker.stop()
            if failed != IDLE:
                sizes = some([nbytes for _, nbytes in request["buffers"]])
                raise LaunchError(
                    f"{self._kernel}: block {failed} crashed: {signal_text(number)}; "
                    + (f"its buffers have {sizes} bytes" if sizes else "it has no buffers")
                ) from None
            how = exit_text(code)
            where = f", while these blocks ran: {some(running)}" if running else ""
            raise LaunchError(f"{self._kernel}: the process that ran it ended: {how}{where}") from None


def check_device(device_id: int | None, who: str) -> None:
    if device_id not in (None, 0):
        raise LaunchError(f"{who}: device_id is {device_id}; the backend host has one device, 0")


def layout(parts: Sequence[Buffer]) -> tuple[list[int], int]:
    """Where in the shared memory each buffer begins, and how much there is.

    A buffer ends (but for 63 bytes, as it begins at a multiple of 64) where a page does, so that the worker can put a
    guard page behind it.
    """
    places, end = [], 0
    for part in parts:
        pages = -(-part.nbytes // PAGE) * PAGE
        places.append(end + pages - -(-part.nbytes // 64) * 64)
        end += pages
    return places, end


def wire(slot: Slot, numbers: dict[tuple[int, int], int]) -> list[Any]:
    if slot.kind == "bytes":
        return ["bytes", slot.data.hex()]
    if slot.buffer is not None:
        return ["buffer", numbers[(slot.buffer.address, slot.buffer.nbytes)]]
    if slot.kind == "list":
        return ["list", [wire(item, numbers) for item in slot.items]]
    return ["address", slot.address]


def signal_text(number: int) -> str:
    meaning = {
        signal.SIGSEGV: "memory that is not its own",
        signal.SIGBUS: "memory that is not there",
        signal.SIGFPE: "a division by zero",
        signal.SIGABRT: "abort, or an assertion",
        signal.SIGKILL: "killed, perhaps for want of memory",
    }.get(number)  # type: ignore[call-overload]
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name + (f" ({meaning})" if meaning else "")
    return f"signal {number}"


def exit_text(code: int | None) -> str:
    """How a process with this return code ended; None: it is not known."""
    if code is None:
        return "it is not known how"
    return signal_text(-code) if code < 0 else f"exit code {code}"


def some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:16]))
    return shown + (f", ... ({len(numbers)} in all)" if len(numbers) > 16 else "")
