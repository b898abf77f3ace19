# SPDX-License-Identifier: Apache-2.0
"""AscendCL by its C ABI: the functions that a launch needs, each failing with what the toolkit says.

Nothing is loaded at import. The libraries come from $ASCEND_HOME_PATH/lib64.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from mskpp.errors import BackendError, LaunchError, TimeLimitError
from mskpp.launcher import checks

HOST_TO_DEVICE = 1
DEVICE_TO_HOST = 2
HUGE_PAGES_FIRST = 0

REPEATED_INITIALIZATION = 100002
NO_CONTEXT = 107002
TIME_OUTS = frozenset([107019, 507046])

# What the codes mean that a launch can meet.
MEANINGS = {
    100000: "invalid parameter",
    100001: "AscendCL is not initialized",
    100002: "AscendCL is initialized already",
    100037: "AscendCL is finalized already",
    107000: "invalid parameter",
    107001: "no such device",
    107002: "no device is set in this thread",
    107003: "the stream belongs to another context",
    107017: "invalid handle",
    107019: "time-out",
    200000: "out of memory",
    507015: "the kernel failed on the AI core",
    507046: "time-out of the stream",
}


def meaning(code: int) -> str:
    """ "107017 (invalid handle)", or the number alone."""
    return f"{code} ({MEANINGS[code]})" if code in MEANINGS else str(code)


def toolkit() -> Path:
    """The folder of the toolkit. BackendError, which says where it was looked for, when it is not there."""
    given = os.environ.get("ASCEND_HOME_PATH")
    if not given:
        raise BackendError(
            "backend ascend: no toolkit: ASCEND_HOME_PATH is not set; source the toolkit's set_env.sh, or run on the "
            "CPU with MSKPP_BACKEND=host"
        )
    home = Path(given)
    if not home.is_dir():
        raise BackendError(
            f"backend ascend: no toolkit: ASCEND_HOME_PATH is {given}, which is no folder; source the toolkit's "
            "set_env.sh, or run on the CPU with MSKPP_BACKEND=host"
        )
    return home.resolve()


def library(home: Path, name: str) -> Path:
    """A library of the toolkit. BackendError when it is not there, UnsafeError when others may write it."""
    path = home / "lib64" / name
    if not path.is_file():
        raise BackendError(
            f"backend ascend: {name} is not in {home / 'lib64'}; ASCEND_HOME_PATH must be the folder of a complete "
            "toolkit"
        )
    checks.trusted(path, "backend ascend")
    return path


def load(path: Path) -> ctypes.CDLL:
    """Loads a library for the whole process, as launch code links to it. BackendError with the loader's reason."""
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise BackendError(
            f"backend ascend: {path} cannot be loaded: {error}; is the driver installed, and LD_LIBRARY_PATH set as by "
            "the toolkit's set_env.sh?"
        ) from None


class AscendCL:
    """The loaded library, initialized. ``who`` in the methods begins the messages.

    AscendCL is initialized once in a process and stays so: finalizing would take it from everybody else in the process.
    """

    def __init__(self, home: Path) -> None:
        # The profiler hears of kernels only when it is there before AscendCL is.
        if (home / "lib64" / "libmspti.so").is_file():
            load(library(home, "libmspti.so"))
        self._path = library(home, "libascendcl.so")
        self._library = load(self._path)
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        int32, uint32 = ctypes.c_int32, ctypes.c_uint32
        to = ctypes.POINTER
        self._recent_message = self._function("aclGetRecentErrMsg")
        self._recent_message.restype = ctypes.c_char_p
        self._soc_name = self._function("aclrtGetSocName")
        self._soc_name.restype = ctypes.c_char_p
        self._init = self._function("aclInit", ctypes.c_char_p)
        self._set_device = self._function("aclrtSetDevice", int32)
        self._get_device = self._function("aclrtGetDevice", to(int32))
        self._device_count = self._function("aclrtGetDeviceCount", to(uint32))
        self._create_stream = self._function("aclrtCreateStream", to(pointer))
        self._destroy_stream = self._function("aclrtDestroyStream", pointer)
        self._destroy_stream_force = self._function("aclrtDestroyStreamForce", pointer)
        self._synchronize = self._function("aclrtSynchronizeStreamWithTimeout", pointer, int32)
        self._malloc = self._function("aclrtMalloc", to(pointer), size, ctypes.c_int)
        self._free = self._function("aclrtFree", pointer)
        self._memset = self._optional("aclrtMemset", pointer, size, int32, size)
        self._memcpy = self._function("aclrtMemcpy", pointer, size, pointer, size, ctypes.c_int)
        forced = self._optional("aclrtResetDeviceForce", int32)
        self._reset_name = "aclrtResetDevice" if forced is None else "aclrtResetDeviceForce"
        self._reset_device = forced or self._function(self._reset_name, int32)
        self._get_context = self._optional("aclrtGetCurrentContext", to(pointer))
        self._set_context = self._optional("aclrtSetCurrentContext", pointer)
        code = self._init(None)
        if code not in (0, REPEATED_INITIALIZATION):  # somebody else in the process may have been first
            raise BackendError(self._text("backend ascend", "aclInit", code))

    def _function(self, name: str, *arguments: type) -> ctypes._NamedFuncPointer:
        found = self._optional(name, *arguments)
        if found is None:
            raise BackendError(
                f"backend ascend: {self._path} has no function {name}; use another version of the toolkit"
            )
        return found

    def _optional(self, name: str, *arguments: type) -> ctypes._NamedFuncPointer | None:
        try:
            function = self._library[name]
        except AttributeError:
            return None
        function.restype = ctypes.c_int
        function.argtypes = list(arguments)
        return function

    def recent_message(self) -> str:
        """What the toolkit said of the last failure in this thread, once; "" for none."""
        raw = self._recent_message()
        return raw.decode(errors="replace").strip() if raw else ""

    def _text(self, who: str, call: str, code: int) -> str:
        said = self.recent_message()
        return f"{who}: {call} failed with {meaning(code)}" + (f": {said}" if said else "")

    def _check(self, who: str, call: str, code: int) -> None:
        if code != 0:
            raise LaunchError(self._text(who, call, code))

    # ---- devices

    def device_count(self) -> int:
        """How many devices there are. BackendError when that cannot be told, as without a driver."""
        count = ctypes.c_uint32()
        code = self._device_count(ctypes.byref(count))
        if code != 0:
            raise BackendError(self._text("backend ascend", "aclrtGetDeviceCount", code))
        return count.value

    def current_device(self) -> int | None:
        """The device that is set in this thread."""
        device = ctypes.c_int32()
        code = self._get_device(ctypes.byref(device))
        if code != 0:
            self.recent_message()  # that none is set is an answer, no failure to tell of later
        return device.value if code == 0 else None

    def set_device(self, device: int, who: str) -> None:
        self._check(who, f"aclrtSetDevice({device})", self._set_device(device))

    def reset_device(self, device: int, who: str) -> None:
        """Gives back all that this process has on the device, and clears what can be cleared of an error state."""
        self.set_device(device, who)  # only what is set can be reset
        self._check(who, f"{self._reset_name}({device})", self._reset_device(device))

    def soc_name(self) -> str:
        """The chip, as Ascend910B1; "" when no device answers."""
        raw = self._soc_name()
        return raw.decode(errors="replace") if raw else ""

    def entrance(self, who: str) -> Callable[[], None]:
        """What another thread calls to have the device, the context and the streams of this one, which has some."""
        context = ctypes.c_void_p()
        if self._get_context is not None and self._set_context is not None:
            setter = self._set_context
            if self._get_context(ctypes.byref(context)) == 0:
                return lambda: self._check(who, "aclrtSetCurrentContext", setter(context))
        device = self.current_device() or 0
        return lambda: self.set_device(device, who)

    # ---- streams

    def create_stream(self, who: str) -> int:
        stream = ctypes.c_void_p()
        self._check(who, "aclrtCreateStream", self._create_stream(ctypes.byref(stream)))
        return stream.value or 0

    def destroy_stream(self, stream: int, who: str) -> None:
        self._check(who, "aclrtDestroyStream", self._destroy_stream(stream))

    def end_stream(self, stream: int) -> str:
        """Destroys a stream with whatever runs in it. Why that failed, or ""."""
        code = self._destroy_stream_force(stream)
        return self._text("", "aclrtDestroyStreamForce", code).removeprefix(": ") if code else ""

    def synchronize(self, stream: int, timeout_ms: int, who: str) -> None:
        """Waits for the stream, -1: for ever. TimeLimitError, LaunchError."""
        code = self._synchronize(stream, timeout_ms)
        if code in TIME_OUTS:
            self.recent_message()
            limit = f"within {timeout_ms} ms" if timeout_ms >= 0 else "within the limit of the toolkit"
            raise TimeLimitError(
                f"{who}: the launch did not end {limit}; give a longer timeout= where the work needs it"
            )
        self._check(who, "aclrtSynchronizeStreamWithTimeout", code)

    # ---- memory

    def malloc(self, nbytes: int, who: str) -> int:
        address = ctypes.c_void_p()
        code = self._malloc(ctypes.byref(address), nbytes, HUGE_PAGES_FIRST)
        self._check(who, f"aclrtMalloc of {nbytes:,} bytes", code)
        return address.value or 0

    def free(self, address: int) -> str:
        """Frees device memory. Why that failed, or ""."""
        code = self._free(address)
        return self._text("", "aclrtFree", code).removeprefix(": ") if code else ""

    def fill(self, address: int, nbytes: int, value: int, who: str) -> None:
        """Writes to device memory, and waits for it. BackendError when the toolkit cannot."""
        if self._memset is None:
            raise BackendError(f"{who}: {self._path} has no function aclrtMemset; use another version of the toolkit")
        self._check(who, f"aclrtMemset of {nbytes:,} bytes", self._memset(address, nbytes, value, nbytes))

    def to_device(self, address: int, data: memoryview, who: str) -> None:
        with host_address(data) as source:
            code = self._memcpy(address, data.nbytes, source, data.nbytes, HOST_TO_DEVICE)
        self._check(who, f"aclrtMemcpy of {data.nbytes:,} bytes to the device", code)

    def to_host(self, data: bytearray, address: int, who: str) -> None:
        with host_address(memoryview(data)) as target:
            code = self._memcpy(target, len(data), address, len(data), DEVICE_TO_HOST)
        self._check(who, f"aclrtMemcpy of {len(data):,} bytes to the host", code)


@contextlib.contextmanager
def host_address(data: memoryview) -> Iterator[int]:
    """The address of contiguous bytes for as long as the block lasts. What may not be written is copied first."""
    if data.readonly:
        copied = ctypes.create_string_buffer(bytes(data), data.nbytes)
        yield ctypes.addressof(copied)
        return
    whole = (ctypes.c_char * data.nbytes).from_buffer(data)
    yield ctypes.addressof(whole)
