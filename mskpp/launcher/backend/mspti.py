# SPDX-License-Identifier: Apache-2.0
"""Times of kernels on the device, from the toolkit's profiling interface (libmspti.so) by its C ABI.

    with KernelMonitor(home) as monitor:
        monitor.forget()
        ...                                   # launch the kernel n times and wait for the stream
        times = monitor.times("vadd", n)      # ns, in the order of the launches

Records are told apart by the kernel's name and put in order by their correlation number: they may come late, in any
order, and among those of other kernels. There can be one monitor in a process at a time.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from mskpp.errors import LaunchError
from mskpp.launcher.backend import acl

KERNEL = 2  # msptiActivityKind
LAST_RECORD = 3  # MAX_LIMIT_REACHED, which GetNextRecord answers with at the end
BUFFER_BYTES = 4 << 20  # the library wants 2 MiB at least
RECORD_BYTES = 56
RECORD = struct.Struct("<IQQIIQQQ")  # kind, start, end, device, stream, correlation, address of type, address of name
WAIT_SECONDS = 2.0

RESULTS = {
    1: "invalid parameter",
    2: "another profiler is at work in this process",
    3: "limit reached",
    4: "the device is offline",
    5: "no data",
    6: "libmspti.so was not preloaded",
    999: "internal error",
}

_REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
# Called for API calls when a domain is enabled; none is. (userdata, domain, id, data)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)


@dataclass(frozen=True)
class Record:
    """One kernel that ran. Times in ns of the device's clock; both 0: not collected."""

    name: str
    start: int
    end: int
    device: int
    stream: int
    correlation: int


def is_of(kernel: str, recorded: str) -> bool:
    """Whether a recorded name is the kernel's: itself, C++ mangled, or with hash, tiling key and core behind."""
    if re.fullmatch(rf"{re.escape(kernel)}(_[0-9a-f]{{32}})?(_\d+)?(_mix_ai[cv])?", recorded):
        return True
    return recorded.startswith("_Z") and re.search(rf"(?<!\d){len(kernel)}{re.escape(kernel)}", recorded) is not None


class KernelMonitor:
    """Collects the records of all kernels of the process while the block lasts."""

    def __init__(self, home: Path, who: str = "profiling") -> None:
        self._who = who
        self._library = acl.load(acl.library(home, "libmspti.so"))
        self._library.msptiActivityGetNextRecord.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_void_p),
        ]
        self._library.msptiUnsubscribe.argtypes = [ctypes.c_void_p]
        self._subscriber = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}  # handed out, by address
        self._failure = ""
        # Kept, as the library calls them from threads of its own.
        self._callback = _CALLBACK(lambda *arguments: None)
        self._request = _REQUEST(self._give_buffer)
        self._complete = _COMPLETE(self._take_buffer)

    def __enter__(self) -> KernelMonitor:
        self._call("msptiSubscribe", ctypes.byref(self._subscriber), self._callback, None)
        try:
            self._call("msptiActivityRegisterCallbacks", self._request, self._complete)
            self._call("msptiActivityEnable", KERNEL)
        except BaseException:
            self._library.msptiUnsubscribe(self._subscriber)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Each step, whatever becomes of the others; the failure of a stop is no failure of what was measured.
        self._library.msptiActivityDisable(KERNEL)
        self._library.msptiActivityFlushAll(1)
        self._library.msptiUnsubscribe(self._subscriber)

    def _call(self, name: str, *arguments: object) -> None:
        result = int(self._library[name](*arguments))
        if result != 0:
            meaning = f" ({RESULTS[result]})" if result in RESULTS else ""
            raise LaunchError(f"{self._who}: {name} failed with {result}{meaning}")

    def _give_buffer(self, buffer: ctypes._Pointer, size: ctypes._Pointer, most: ctypes._Pointer) -> None:
        memory = ctypes.create_string_buffer(BUFFER_BYTES + 8)
        address = (ctypes.addressof(memory) + 7) // 8 * 8
        with self._lock:
            self._buffers[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER_BYTES, 0

    def _take_buffer(self, buffer: int | None, size: int, valid: int) -> None:
        try:
            found = self._read(buffer or 0, valid)
        except (ValueError, OSError, struct.error) as error:  # nobody above could catch it
            found, failure = [], f"{type(error).__name__}: {error}"
        else:
            failure = ""
        with self._lock:
            self._records += found
            self._failure = self._failure or failure
            self._buffers.pop(buffer or 0, None)

    def _read(self, buffer: int, valid: int) -> list[Record]:
        found: list[Record] = []
        at = ctypes.c_void_p()
        while True:
            result = self._library.msptiActivityGetNextRecord(buffer, valid, ctypes.byref(at))
            if result == LAST_RECORD or at.value is None:
                return found
            if result != 0:
                raise ValueError(f"msptiActivityGetNextRecord gave {result}")
            if int.from_bytes(ctypes.string_at(at.value, 4), "little") != KERNEL:
                continue
            raw = RECORD.unpack(ctypes.string_at(at.value, RECORD.size))
            _, start, end, device, stream, correlation, _, name = raw
            text = ctypes.string_at(name).decode(errors="replace") if name else ""
            found.append(Record(text, start, end, device, stream, correlation))

    def _flush(self) -> list[Record]:
        self._call("msptiActivityFlushAll", 1)
        with self._lock:
            if self._failure:
                raise LaunchError(f"{self._who}: the profiler's records cannot be read: {self._failure}")
            return list(self._records)

    def forget(self) -> None:
        """Drops all records of what ran before."""
        self._flush()
        with self._lock:
            self._records.clear()

    def times(self, kernel: str, launches: int) -> list[int]:
        """The time in ns of each of the last launches, in their order. Wait for the stream first.

        A launch that runs several kernels of that name takes the time of all. LaunchError when records are missing.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        pause = 0.001
        before = 0
        while True:  # until enough have come, and with one more look no more of them
            everything = self._flush()
            found = merged([record for record in everything if is_of(kernel, record.name)])
            if len(found) == before >= launches or time.monotonic() >= deadline:
                break
            before = len(found)
            time.sleep(pause)
            pause *= 2
        if not found or len(found) % launches != 0:
            others = sorted({record.name for record in everything if not is_of(kernel, record.name)})
            seen = f"; others: {', '.join(others[:8])}" if others else ""
            cure = "" if everything else (
                ". Does something in this process initialize AscendCL before mskpp? Then start it with "
                "LD_PRELOAD=$ASCEND_HOME_PATH/lib64/libmspti.so"
            )  # fmt: skip
            raise LaunchError(
                f"{self._who}: the profiler has {len(found)} records of {kernel} for {launches} launches{seen}{cure}"
            )
        for record in found:
            if record.end <= record.start:
                raise LaunchError(
                    f"{self._who}: the profiler collected no time of {kernel} (start {record.start}, end {record.end} "
                    "ns); does another program use the device? npu-smi info shows it"
                )
        each = len(found) // launches
        return [sum(r.end - r.start for r in found[i * each : (i + 1) * each]) for i in range(launches)]


def merged(records: list[Record]) -> list[Record]:
    """One record a correlation, in their order: parts of one kernel (its cores' halves) span from first to last."""
    by_number: dict[int, Record] = {}
    for record in records:
        known = by_number.get(record.correlation)
        if known is not None:
            start, end = min(known.start, record.start), max(known.end, record.end)
            record = Record(known.name, start, end, known.device, known.stream, known.correlation)
        by_number[record.correlation] = record
    return [by_number[number] for number in sorted(by_number)]
