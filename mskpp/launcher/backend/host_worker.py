# SPDX-License-Identifier: Apache-2.0
"""The process that runs kernels on the CPU for backend/host.py; `python -I -S` starts it: standard library only.

    host_worker.py SOCKET STATUS

SOCKET: one JSON object a line each way; file descriptors travel with a byte in front of their line. STATUS: the page in
which the kernel's threads say which block they run (mskpp/kernel.h). Ends when the socket does.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
import time
from typing import Any

PROT_NONE, PROT_BOTH = 0, mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
MOST_DESCRIBED = 1024
WALKED = 64 << 10  # bytes at a time, few enough for stores that do not pass by the caches
PAGE = mmap.PAGESIZE

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.memchr.restype = ctypes.c_void_p


def mapped(address: int | None, size: int, protection: int, flags: int, descriptor: int, offset: int) -> int:
    found = libc.mmap(address, size, protection, flags, descriptor, offset)
    if found in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no room for {size} bytes: {os.strerror(ctypes.get_errno())}")
    return int(found)


class Memory:
    """The buffers of one launch at their addresses, each between two pages that nobody may touch."""

    def __init__(self, descriptor: int, buffers: list[tuple[int, int]]) -> None:
        spans = []
        for place, nbytes in buffers:
            first = place // PAGE * PAGE
            spans.append((first, -(-(place + nbytes) // PAGE) * PAGE - first))
        self.size = sum(size + PAGE for _, size in spans) + PAGE
        self.base = mapped(None, self.size, PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        self.addresses = []
        at = self.base + PAGE
        for (place, _), (first, size) in zip(buffers, spans, strict=True):
            mapped(at, size, PROT_BOTH, mmap.MAP_SHARED | MAP_FIXED, descriptor, first)
            self.addresses.append(at + place - first)
            at += size + PAGE

    def contents(self, buffers: list[list[int]]) -> list[tuple[int, bytes]]:
        """A copy of every buffer, with its address."""
        return [(a, ctypes.string_at(a, nbytes)) for a, (_, nbytes) in zip(self.addresses, buffers, strict=True)]

    def restore(self, contents: list[tuple[int, bytes]]) -> None:
        for address, data in contents:
            ctypes.memmove(address, data, len(data))

    def close(self) -> None:
        libc.munmap(self.base, self.size)


class Walk:
    """Empties the caches: its memory is written to and read, and takes the place of all else there.

    What other cores have in caches of their own goes too where the kernel's buffers are restored before: who writes to
    memory takes it from them. The memory is held for one measurement, as processes of other kernels may be waiting.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._base = 0
        self._value = 0
        if size:
            try:
                self._base = mapped(None, size, PROT_BOTH, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            except MemoryError as error:
                raise MemoryError(f"flush_cache: {error}; measure without it, or let the kernel have more") from None

    def __call__(self) -> None:
        self._value = (self._value + 1) & 0xFF
        for start in range(self._base, self._base + self._size, WALKED):
            ctypes.memset(start, self._value, min(WALKED, self._base + self._size - start))
        if self._size:
            libc.memchr(self._base, self._value ^ 0xFF, self._size)  # is nowhere, so all is read

    def close(self) -> None:
        if self._size:
            libc.munmap(self._base, self._size)


class Library:
    """The launch code of one kernel."""

    def __init__(self, path: str, status: int) -> None:
        self.process = os.getpid()
        self.code = ctypes.CDLL(path)
        self.launch_code = self.code.mskpp_launch
        self.launch_code.argtypes = [
            ctypes.c_uint32,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint32,
        ]
        self.code.mskpp_error.restype = ctypes.c_char_p
        attach = getattr(self.code, "mskpp_host_attach", None)
        if attach is not None:
            attach.argtypes = [ctypes.c_void_p]
            attach(status)

    def described(self) -> int | list[list[int]]:
        room = (ctypes.c_uint32 * (2 * MOST_DESCRIBED))()
        self.code.mskpp_describe.restype = ctypes.c_uint32
        count = int(self.code.mskpp_describe(room, MOST_DESCRIBED))
        if count > MOST_DESCRIBED:
            return count
        return [[room[2 * i], room[2 * i + 1]] for i in range(count)]

    def launch(self, request: dict[str, Any], descriptor: int) -> dict[str, Any]:
        walk = Walk(request["flushed"])
        memory = Memory(descriptor, request["buffers"])
        try:
            kept: list[object] = []  # what the arguments point to

            def pointer(slot: list[Any]) -> int:
                kind, value = slot
                if kind == "buffer":
                    return int(memory.addresses[value])
                if kind == "list":  # eight, then the addresses: the layout of a list of tensors
                    block = (ctypes.c_uint64 * (len(value) + 1))(8, *[pointer(item) or 0 for item in value])
                    kept.append(block)
                    return ctypes.addressof(block)
                return int(value)

            slots = request["slots"]
            arguments = (ctypes.c_void_p * max(len(slots), 1))()
            for i, slot in enumerate(slots):
                data = bytes.fromhex(slot[1]) if slot[0] == "bytes" else (pointer(slot) or 0).to_bytes(8, sys.byteorder)
                raw = ctypes.create_string_buffer(data, max(len(data), 1) + 16)
                kept.append(raw)
                arguments[i] = ctypes.addressof(raw)
            warmup = request["warmup_ns"]
            original = [] if warmup is None else memory.contents(request["buffers"])
            times: list[int] = []
            warm = 0  # ns of the launches that do not count
            while len(times) < request["repeat"]:
                memory.restore(original)
                if warmup is None or warm >= max(warmup, 1):
                    walk()
                begin = time.perf_counter_ns()
                code = self.launch_code(request["blockdim"], None, None, arguments, len(slots))
                took = time.perf_counter_ns() - begin
                if os.getpid() != self.process:  # a fork that the kernel made and did not end
                    os._exit(0)
                libc.fflush(None)
                if code != 0:
                    text = (self.code.mskpp_error() or b"").decode("utf-8", "replace")
                    return {"error": text or f"the launch failed with code {code}"}
                if warmup is not None and warm < max(warmup, 1):
                    warm += took
                else:
                    times.append(took)
            return {"error": None, "ns": times}
        finally:
            memory.close()
            walk.close()


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    status = mapped(None, PAGE, PROT_BOTH, mmap.MAP_SHARED, int(sys.argv[2]), 0)
    library: Library
    pending = b""
    descriptors: list[int] = []
    while True:
        line, found, rest = pending.partition(b"\n")
        if not found:
            data, received, _, _ = socket.recv_fds(channel, 1 << 16, 4)
            if not data:
                return
            descriptors += received
            pending += data
            continue
        pending = rest
        if not line:
            continue
        request = json.loads(line)
        try:
            if request["do"] == "load":
                library = Library(request["path"], status)
                answer: dict[str, Any] = {"error": None, "described": library.described()}
            else:
                answer = library.launch(request, descriptors[0])
        except (OSError, AttributeError, MemoryError, IndexError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for descriptor in descriptors:
            os.close(descriptor)
        descriptors = []
        channel.sendall(json.dumps({**answer, "number": request["number"]}).encode() + b"\n")


if __name__ == "__main__":
    main()
