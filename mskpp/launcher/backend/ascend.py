# SPDX-License-Identifier: Apache-2.0
"""An NPU with its toolkit: kernels compiled by bisheng, and run through AscendCL in this process.

The toolkit is the one in $ASCEND_HOME_PATH; nothing of it is loaded before it is used. Memory of the caller is copied
to the device for a launch and back after it, whatever its strides; nothing stays on the device afterwards.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import os
import re
import shutil
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mskpp.errors import ArgumentError, BackendError, InputError, LaunchError, UnsafeError
from mskpp.launcher import process
from mskpp.launcher.arguments import ANY_NUMBER, Described, Slot, buffers, copied, prepare, refined, write_back
from mskpp.launcher.backend import acl
from mskpp.launcher.backend.acl import AscendCL, toolkit
from mskpp.launcher.backend.mspti import KernelMonitor
from mskpp.log import logger

__all__ = ["Ascend", "AscendLibrary", "toolkit"]

INCLUDE = Path(__file__).resolve().parents[1] / "include"
# Where a toolkit may keep its compiler; then PATH is searched.
COMPILER_FOLDERS = ("bin", "compiler/ccec_compiler/bin", "tools/bisheng_compiler/bin", "ccec_compiler/bin")
# The architecture of a chip, by the start of its name. dav-c220 is documented for the 910B family (Atlas A2 and A3);
# dav-c310 for the 950 is not, it is what its compiler is known to take.
ARCHITECTURES = (
    (re.compile(r"Ascend910(B\d|_93)"), "dav-c220"),
    (re.compile(r"Ascend(950|910_95)"), "dav-c310"),
)
ARCHITECTURE_OPTIONS = ("--cce-aicore-arch", "--npu-arch", "--npu-soc")
# All documented, in the sample build scripts of the toolkit's template library (dav-c220).
DEVICE_OPTIONS = {
    "dav-c220": [
        "-mllvm",
        "-cce-aicore-stack-size=0x8000",
        "-mllvm",
        "-cce-aicore-function-stack-size=0x8000",
        "-mllvm",
        "-cce-aicore-record-overflow=true",
        "-mllvm",
        "-cce-aicore-addr-transform",
        "-mllvm",
        "-cce-aicore-dcci-insert-for-scalar=false",
        "-DL2_CACHE_HINT",
    ],
}
INCLUDE_FOLDERS = (
    "include",
    "include/aclnn",
    "include/experiment/runtime",
    "include/experiment/msprof",
    "compiler/tikcpp",
    "compiler/tikcpp/tikcfw",
    "compiler/tikcpp/tikcfw/impl",
    "compiler/tikcpp/tikcfw/interface",
)
LIBRARIES = ["runtime", "platform", "stdc++", "ascendcl", "m", "tiling_api", "c_sec", "dl", "nnopbase"]
ARGUMENT_ALIGNMENT = 64
MOST_DESCRIBED = 1024
ABANDON_SECONDS = 5.0
WAIT_SECONDS = 0.2  # for the work, at a time
# What is written to so that nothing else stays in the L2 cache: twice the largest one of the known chips, which has
# 192 MiB (the 910B family; l2_bytes of mskpp/data/chips, from the toolkit's platform configuration).
FLUSHED_BYTES = 2 * (192 << 20)
Result = TypeVar("Result")
MISSING_LIBRARY = re.compile(r"(lib[\w.+-]+): cannot open shared object file")


class Ascend:
    """The backend ``ascend``. Making one only looks for the toolkit: BackendError when there is none."""

    name = "ascend"

    def __init__(self) -> None:
        self._home = toolkit()
        self._lock = threading.Lock()
        self._opened: AscendCL | None = None

    @staticmethod
    def available() -> bool:
        """Whether a toolkit and a device are there."""
        try:
            Ascend().runtime()
        except BackendError as error:
            logger.info("the backend ascend is not used: %s", error)
            return False
        except UnsafeError as error:
            logger.warning("the backend ascend is not used: %s", error)
            return False
        return True

    def runtime(self) -> AscendCL:
        """AscendCL, loaded at the first call. BackendError when a library or every device is missing."""
        with self._lock:
            if self._opened is None:
                opened = AscendCL(self._home)
                if opened.device_count() == 0:
                    raise BackendError(
                        "backend ascend: no device: AscendCL finds 0; `npu-smi info` lists those that the driver "
                        "knows. MSKPP_BACKEND=host runs on the CPU"
                    )
                self._opened = opened
            return self._opened

    def compiler(self) -> Path:
        """bisheng. BackendError, with the places, when it is not there."""
        for folder in COMPILER_FOLDERS:
            path = self._home / folder / "bisheng"
            if os.access(path, os.X_OK):
                return path
        found = shutil.which("bisheng")
        if found is None:
            places = ", ".join(str(self._home / folder) for folder in COMPILER_FOLDERS)
            raise BackendError(f"backend ascend: no compiler: bisheng is not in {places} and not on PATH")
        return Path(found)

    def compile_command(self, source: Path, output: Path, options: Sequence[str], *, shared: bool) -> list[str]:
        """bisheng with the options of the device's architecture; options that name an architecture decide it."""
        compiler = self.compiler()
        named = next((o.partition("=")[2] for o in options if o.startswith(ARCHITECTURE_OPTIONS)), None)
        architecture = named or self._architecture()
        command = [str(compiler), "-O2", "-std=c++17", "-xcce", *DEVICE_OPTIONS.get(architecture, ())]
        if named is None:
            command.append(f"--cce-aicore-arch={architecture}")
        command += [f"-I{self._home / folder}" for folder in INCLUDE_FOLDERS]
        command += ["-idirafter", str(INCLUDE), *options, str(source), f"-L{self._home / 'lib64'}"]
        command += [f"-l{name}" for name in LIBRARIES]
        return [*command, *(["-fPIC", "--shared"] if shared else []), "-o", str(output)]

    def _architecture(self) -> str:
        cure = "give options=['--cce-aicore-arch=...'] or a build_script"
        try:
            chip = self.runtime().soc_name()
        except BackendError as error:
            raise BackendError(f"{error}. To compile without a device, {cure}") from None
        for pattern, architecture in ARCHITECTURES:
            if pattern.match(chip):
                return architecture
        raise BackendError(f"backend ascend: the compiler's architecture of the chip '{chip}' is not known; {cure}")

    @contextlib.contextmanager
    def script_environment(self, folder: Path | None = None) -> Iterator[dict[str, str]]:
        """The caller's, with the toolkit's programs first on PATH."""
        path = os.environ.get("PATH", os.defpath)
        folders = [str(self._home / "bin")]
        with contextlib.suppress(BackendError):  # a script may bring a compiler of its own
            folders.append(str(self.compiler().parent))
        front = os.pathsep.join(dict.fromkeys(folders))
        yield {**os.environ, "ASCEND_HOME_PATH": str(self._home), "PATH": f"{front}{os.pathsep}{path}"}

    def identity(self, timeout: float = 60.0) -> str:
        compiler = self.compiler()
        done = process.run([str(compiler), "--version"], timeout=timeout, who="bisheng --version")
        return f"ascend {self._home} {compiler} {done.stdout.strip()!r}"

    def device_name(self, device_id: int = 0) -> str:
        """The chip, as Ascend910B1. Initializes AscendCL in this process, and sets no device."""
        runtime = self.runtime()
        count = runtime.device_count()
        if not 0 <= device_id < count:
            raise InputError(f"backend ascend: device_id is {device_id}; allowed are 0 to {count - 1}")
        return runtime.soc_name() or "Ascend"

    def renew_device(self, device_id: int) -> None:
        """Resets the device for a process that is the first to use it after another has failed there. LaunchError."""
        self.runtime().reset_device(device_id, "backend ascend")

    def load(self, path: Path, metadata: dict[str, Any], limits: process.Limits | None = None) -> AscendLibrary:
        return AscendLibrary(self, self._home, path, metadata)


class AscendLibrary:
    """Launch code for the NPU. It is loaded at the first launch and stays loaded."""

    def __init__(self, backend: Ascend, home: Path, path: Path, metadata: dict[str, Any]) -> None:
        self._backend = backend
        self._home = home
        self._path = path
        self._kernel = str(metadata.get("kernel", path.name))
        self._metadata = metadata
        self._library: ctypes.CDLL | None = None
        self._lock = threading.Lock()
        self._monitor: KernelMonitor | None = None

    def close(self) -> None:
        """Nothing is held from launch to launch but the loaded code, which the toolkit may still refer to."""

    @contextlib.contextmanager
    def timing(self) -> Iterator[KernelMonitor]:
        """Within the block launch() returns the kernel's time on the device, from the profiling interface."""
        self._backend.runtime()
        with KernelMonitor(self._home, self._kernel) as monitor:
            self._monitor = monitor
            try:
                yield monitor
            finally:
                self._monitor = None

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
        """Runs the kernel ``repeat`` times and waits for each. Within timing() the times in ns, else [].

        ``stream``: an aclrtStream of the caller's, None: one of its own. ``device_id`` None: the device of this thread,
        else 0. Raises ArgumentError, InputError, LaunchError, TimeLimitError, BackendError; then the caller's memory is
        as it was.
        """
        library, slots, launch, enter = self._set_up(values, stream, device_id)
        parts = buffers(slots)

        def work() -> tuple[list[int], list[bytearray]]:
            enter()
            with launch:
                places, start = self._begun(library, slots, launch, blockdim)
                if self._monitor is not None:
                    self._monitor.forget()
                for _ in range(repeat):
                    launch.run(start, timeout_ms)
                times = self._monitor.times(self._kernel, repeat) if self._monitor is not None else []
                return times, [launch.download(places[part.address, part.nbytes], part.nbytes) for part in parts]

        times, results = in_own_thread(work, launch.abandon)
        # The device holds nothing any more and no call has failed: only now the caller's memory changes.
        write_back(parts, results, self._kernel)
        return times

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
        """Times on the device. One launch tells how many fill the warm-up."""
        values = [copied(value) for value in values]
        with self.timing() as monitor:
            library, slots, launch, enter = self._set_up(values, None, device_id)

            def work() -> list[int]:
                enter()
                with launch:
                    _, start = self._begun(library, slots, launch, blockdim)
                    cache = launch.flushed(FLUSHED_BYTES) if flush_cache else 0

                    def timed() -> int:
                        monitor.forget()
                        launch.run(start, timeout_ms)
                        return sum(monitor.times(self._kernel, 1))

                    one = timed()
                    launch.restore()
                    if one < warmup_us * 1000:
                        for _ in range(-(-warmup_us * 1000 // max(one, 1))):
                            launch.run(start, timeout_ms)
                    times = []
                    for _ in range(repeat):
                        launch.restore()
                        if cache:
                            launch.flush(cache, FLUSHED_BYTES)
                        times.append(timed())
                    return times

            return in_own_thread(work, launch.abandon)

    def _set_up(
        self, values: Sequence[Any], stream: int | None, device_id: int | None
    ) -> tuple[ctypes.CDLL, list[Slot], Launch, Callable[[], None]]:
        """All that a launch needs and that needs no device; the last is what the thread that launches calls first."""
        runtime = self._backend.runtime()
        device, enter = chosen_device(runtime, device_id, self._kernel)
        library = self._loaded(runtime)
        slots = self._slots(library, values)
        return library, slots, Launch(runtime, device, enter, stream, self._kernel), enter

    def _begun(
        self, library: ctypes.CDLL, slots: Sequence[Slot], launch: Launch, blockdim: int
    ) -> tuple[dict[tuple[int, int], int], Callable[[], None]]:
        """Where on the device the buffers are now, by address and size, and what starts the kernel."""
        launch.open_stream()
        places: dict[tuple[int, int], int] = {}
        for part in buffers(slots):
            places[part.address, part.nbytes] = launch.upload(memoryview(part.read()).cast("B"))
        block = Arguments([slot_bytes(slot, places, launch) for slot in slots])
        return places, functools.partial(self._start, self._backend.runtime(), library, blockdim, launch.stream, block)

    def _loaded(self, runtime: AscendCL) -> ctypes.CDLL:
        """The launch code. It is linked to the toolkit, which LD_LIBRARY_PATH need not name."""
        with self._lock:
            for _ in range(32):
                if self._library is not None:
                    return self._library
                try:
                    library = ctypes.CDLL(str(self._path), mode=os.RTLD_NOW)
                    library.mskpp_launch.argtypes = [
                        ctypes.c_uint32,
                        ctypes.c_void_p,
                        ctypes.c_void_p,
                        ctypes.c_void_p,
                        ctypes.c_uint32,
                    ]
                    library.mskpp_describe.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
                    library.mskpp_describe.restype = ctypes.c_uint32
                    library.mskpp_error.restype = ctypes.c_char_p
                    self._library = library
                except AttributeError as error:
                    raise LaunchError(f"{self._kernel}: {self._path} is no launch code of mskpp: {error}") from None
                except OSError as error:
                    missing = MISSING_LIBRARY.match(str(error))
                    if missing is None or not (self._home / "lib64" / missing[1]).is_file():
                        raise LaunchError(f"{self._kernel}: {self._path} cannot be loaded: {error}") from None
                    acl.load(acl.library(self._home, missing[1]))
            raise LaunchError(f"{self._kernel}: {self._path} cannot be loaded: it needs too many libraries")

    def _slots(self, library: ctypes.CDLL, values: Sequence[Any]) -> list[Slot]:
        raw = (ctypes.c_uint32 * (2 * MOST_DESCRIBED))()
        count = int(library.mskpp_describe(raw, MOST_DESCRIBED))
        described = None
        if count != ANY_NUMBER:
            if count != len(values):
                raise ArgumentError(f"{self._kernel}: {len(values)} arguments are given, the kernel takes {count}")
            described = [Described(raw[2 * i], raw[2 * i + 1]) for i in range(count)]
        return prepare(values, refined(described, self._metadata), self._kernel, self._metadata.get("names", ()))

    def _start(self, runtime: AscendCL, library: ctypes.CDLL, blockdim: int, stream: int, block: Arguments) -> None:
        runtime.recent_message()  # of what went before
        code = library.mskpp_launch(blockdim, None, stream or None, block.pointers, len(block.pointers))
        said = runtime.recent_message()
        if code != 0:
            reason = (library.mskpp_error() or b"").decode(errors="replace")
            raise LaunchError(
                f"{self._kernel}: the launch failed with {acl.meaning(code)}: {reason or 'no reason is given'}"
                + (f" ({said})" if said else "")
            )
        if said:  # `<<<>>>` has no result; the toolkit's message is all there is
            raise LaunchError(f"{self._kernel}: the launch failed: {said}")


def chosen_device(runtime: AscendCL, device_id: int | None, who: str) -> tuple[int, Callable[[], None]]:
    """The device to use, and what another thread calls to use it. What is set in this thread stays."""
    current = runtime.current_device()
    device = device_id if device_id is not None else current if current is not None else 0
    count = runtime.device_count()
    if not 0 <= device < count:
        raise InputError(f"{who}: device_id is {device}; allowed are 0 to {count - 1}")
    if device == current:
        return device, runtime.entrance(who)
    return device, functools.partial(runtime.set_device, device, who)


def in_own_thread(work: Callable[[], Result], abandon: Callable[[], bool]) -> Result:
    """The result of the work, which another thread does: interrupts come to the main thread only, and only between
    steps of Python. So one (Ctrl-C) ends the wait at once, and none comes between the work and its cleaning up.

    ``abandon()`` is called when the wait is interrupted; True: the work will end soon, and is waited for.
    """
    # The plain lock and thread: an interrupt within threading.Event or Thread.start can leave their locks taken.
    done = _thread.allocate_lock()
    done.acquire()
    outcome: list[Result] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            failure.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
        # In pieces: an interrupt that comes just before a wait begins does not end it, and is acted on only after it.
        while not done.acquire(timeout=WAIT_SECONDS):
            pass
    except BaseException:
        deadline = time.monotonic() + ABANDON_SECONDS
        soon = abandon()
        while soon and not outcome and not failure and time.monotonic() < deadline:
            time.sleep(0.001)
        raise
    if failure:
        raise failure[0]
    return outcome[0]


class Launch:
    """What one launch holds on the device: its memory, and its stream unless that is the caller's.

    All of it is given back at the end, whatever happened, by the thread that does the launch.
    """

    def __init__(self, runtime: AscendCL, device: int, enter: Callable[[], None], stream: int | None, who: str) -> None:
        self._runtime = runtime
        self._device = device
        self._enter = enter
        self._given = stream
        self._own = 0
        self._who = who
        self._memory: list[tuple[int, int]] = []  # address, size
        self._uploads: list[tuple[int, memoryview]] = []
        self._running = False  # perhaps
        self._abandoned = False
        self._lock = threading.Lock()  # of the two above and the stream's handle

    def __enter__(self) -> Launch:
        return self

    def open_stream(self) -> None:
        with self._lock:
            if self._given is None and not self._abandoned:
                self._own = self._runtime.create_stream(self._who)

    @property
    def stream(self) -> int:
        return self._given if self._given is not None else self._own

    def upload(self, data: memoryview) -> int:
        """A copy on the device; its address."""
        address = self._runtime.malloc(data.nbytes, self._who)
        self._memory.append((address, data.nbytes))
        self._runtime.to_device(address, data, self._who)
        self._uploads.append((address, data))
        return address

    def restore(self) -> None:
        """Copies all that was uploaded once more: the kernel may have changed it."""
        for address, data in self._uploads:
            self._runtime.to_device(address, data, self._who)

    def flushed(self, nbytes: int) -> int:
        """Memory on the device for flush(); its address. LaunchError when there is not so much."""
        try:
            address = self._runtime.malloc(nbytes, self._who)
        except LaunchError as error:
            raise LaunchError(
                f"{error}\n  flush_cache needs as much on device {self._device}, to take the place of all that is in "
                "the L2 cache; end what else holds memory there, or measure without flush_cache"
            ) from None
        self._memory.append((address, nbytes))
        return address

    def flush(self, address: int, nbytes: int) -> None:
        """Empties the L2 cache, as far as what writes to memory goes through it. Ends before it returns."""
        self._runtime.fill(address, nbytes, 0, self._who)

    def download(self, address: int, nbytes: int) -> bytearray:
        data = bytearray(nbytes)
        self._runtime.to_host(data, address, self._who)
        return data

    def run(self, start: Callable[[], None], timeout_ms: int) -> None:
        """Starts a kernel and waits for the stream."""
        try:
            with self._lock:
                if self._abandoned:
                    raise LaunchError(f"{self._who}: the launch was interrupted")
                self._running = True
                start()
            self._runtime.synchronize(self.stream, timeout_ms, self._who)
        except LaunchError:  # it has not begun, or has ended badly
            self._running = False
            raise
        self._running = False

    def abandon(self) -> bool:
        """For another thread: ends the stream, so that the launch ends too. A stream that was given is not ended; the
        launch then cleans up when what runs there has ended. Whether that will be soon."""
        with self._lock:
            self._abandoned = True
        if self._given is not None:
            return False
        _thread.start_new_thread(self._end_abandoned, ())
        return True

    def _end_abandoned(self) -> None:
        try:
            self._enter()
            self._end_stream(forced=True)
        except LaunchError as error:
            logger.warning("%s", error)

    def _end_stream(self, *, forced: bool) -> None:
        with self._lock:
            stream, self._own = self._own, 0
        if stream == 0:
            return
        if forced:
            problem = self._runtime.end_stream(stream)
            if problem:
                logger.warning("%s: %s", self._who, problem)
        else:
            self._runtime.destroy_stream(stream, self._who)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._running and self._given is not None:
            # The stream is not ours to end, and what still runs in it may use the memory.
            logger.warning(
                "%s: %s bytes stay on device %d: the stream that was given may still use them",
                self._who,
                f"{sum(nbytes for _, nbytes in self._memory):,}",
                self._device,
            )
            return
        failures: list[str] = []
        try:
            self._end_stream(forced=kind is not None)
        finally:
            for address, _ in reversed(self._memory):
                problem = self._runtime.free(address)
                if problem:
                    failures.append(problem)
        if failures and kind is None:
            raise LaunchError(f"{self._who}: {failures[0]}")
        for problem in failures:
            logger.warning("%s: %s", self._who, problem)


class Arguments:
    """``void** args`` of the launch code: addresses of the arguments' bytes, each aligned for any type."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        places, end = [], 0
        for part in parts:
            places.append(end)
            end += -(-max(len(part), 1) // ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT
        self._memory = ctypes.create_string_buffer(end + ARGUMENT_ALIGNMENT)
        start = -(-ctypes.addressof(self._memory) // ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT
        for place, part in zip(places, parts, strict=True):
            ctypes.memmove(start + place, part, len(part))
        self.pointers = (ctypes.c_void_p * len(parts))(*(start + place for place in places))


def slot_bytes(slot: Slot, places: dict[tuple[int, int], int], launch: Launch) -> bytes:
    """The bytes of an argument; for a pointer its address on the device. A list becomes a block of addresses there:
    first the number of bytes to the first of them, 8, then one for each item."""
    if slot.kind == "bytes":
        return slot.data
    if slot.kind == "list":
        addresses = [struct.unpack("=Q", slot_bytes(item, places, launch))[0] for item in slot.items]
        block = struct.pack(f"={len(addresses) + 1}Q", 8, *addresses)
        return struct.pack("=Q", launch.upload(memoryview(block)))
    address = places[slot.buffer.address, slot.buffer.nbytes] if slot.buffer is not None else slot.address
    return struct.pack("=Q", address)
