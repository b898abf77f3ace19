# SPDX-License-Identifier: Apache-2.0
"""Where candidates run: each host kernel in a process of its own, each NPU served by one.

A candidate that crashes or hangs takes that process with it and not the tuner. On an NPU a new process follows a
failure and resets the device first: it may have been left in a state in which nobody's launches succeed.
"""

from __future__ import annotations

import ctypes
import socket
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from mskpp import errors
from mskpp.errors import BackendError, LaunchError, MskppError, TimeLimitError
from mskpp.launcher import process
from mskpp.launcher.arguments import is_array, is_memory, is_tensor
from mskpp.launcher.backend import chosen
from mskpp.launcher.kernel import CompiledKernel, ending
from mskpp.log import logger

KEPT = 16  # processes of host kernels, of the fastest
ANSWER_SECONDS = 60.0  # beyond what the launches may take
RESET_SECONDS = 30.0


class Device(Protocol):
    """One device. Used by one thread."""

    def launch(self, library: Path, values: list[Any], **keywords: Any) -> list[Any]:
        """One launch; the values after it. Raises as CompiledKernel.launch()."""
        ...

    def measure(self, library: Path, values: list[Any], **keywords: Any) -> list[int]:
        """As CompiledKernel.measure()."""
        ...

    def name(self) -> str:
        """What it is, as far as times depend on it. Raises as a launch."""
        ...

    def close(self) -> None:
        """Ends its processes."""
        ...


class HostDevice:
    """The CPU. The processes of the fastest kernels are kept, as they will be measured again."""

    def __init__(self, limits: process.Limits) -> None:
        self._limits = limits
        self._kernels: dict[Path, CompiledKernel] = {}
        self._times: dict[Path, int] = {}

    def _kernel(self, library: Path) -> CompiledKernel:
        if library not in self._kernels:
            self._kernels[library] = CompiledKernel(str(library), backend="host", private=True, limits=self._limits)
        return self._kernels[library]

    def launch(self, library: Path, values: list[Any], **keywords: Any) -> list[Any]:
        self._kernel(library).launch(*values, **keywords)
        return values

    def measure(self, library: Path, values: list[Any], **keywords: Any) -> list[int]:
        try:
            times = self._kernel(library).measure(*values, **keywords)
        except BaseException:
            self._close(library)
            raise
        self._times[library] = min([*times, *([self._times[library]] if library in self._times else [])], default=0)
        for extra in sorted(self._times, key=self._times.__getitem__)[KEPT:]:
            self._close(extra)
        for other in [path for path in self._kernels if path not in self._times]:  # failed, or not found right
            self._close(other)
        return times

    def name(self) -> str:
        return chosen("host").device_name()

    def _close(self, library: Path) -> None:
        self._times.pop(library, None)
        kernel = self._kernels.pop(library, None)
        if kernel is not None:
            kernel.close()

    def close(self) -> None:
        for library in list(self._kernels):
            self._close(library)


class DeviceProcess:
    """An NPU, used by a process of its own (device_process.py), which begins with the first launch."""

    def __init__(self, number: int, limits: process.Limits) -> None:
        self._number = number
        self._limits = limits
        self._running: process.Running | None = None
        self._channel: Connection | None = None

    def launch(self, library: Path, values: list[Any], **keywords: Any) -> list[Any]:
        _, changed = self._run("launch", library, values, keywords, 1)
        return [restored(value, data) for value, data in zip(values, changed, strict=True)]

    def measure(self, library: Path, values: list[Any], **keywords: Any) -> list[int]:
        found: list[int]
        # The warm-up is as long as it is to be, and one launch; another tells how many fill it.
        found, _ = self._run("measure", library, values, keywords, keywords["repeat"] + 2)
        return found

    def name(self) -> str:
        return str(self._ask(("name", "", [], {"device_id": self._number}), ANSWER_SECONDS))

    def _run(self, do: str, library: Path, values: list[Any], keywords: dict[str, Any], launches: int) -> Any:
        timeout = keywords["timeout"]
        seconds = ANSWER_SECONDS + launches * timeout / 1000 + keywords.get("warmup_us", 0) / 1e6
        given = {"device_id": self._number, **keywords}
        request = do, str(library), [portable(value) for value in values], given
        try:
            return self._ask(request, None if timeout < 0 else seconds)
        except BackendError:  # it is the toolkit's
            raise
        except Exception:
            self._renew()
            raise

    def _renew(self) -> None:
        """Resets the device, by a new process. At once: what comes next may be no candidate but the caller's own."""
        if self._limits.stop is not None and self._limits.stop.is_set:
            return
        try:
            self._ask(("renew", "", [], {"device_id": self._number}), RESET_SECONDS)
        except MskppError as error:
            if self._limits.stop is None or not self._limits.stop.is_set:
                logger.warning("device %d was not reset after a launch that failed: %s", self._number, error)

    def _ask(self, request: tuple[str, str, list[Any], dict[str, Any]], seconds: float | None) -> Any:
        """What the process answers. After an error it is ended."""
        with self._limits.ends(self._abandon):
            try:
                channel = self._started()
                channel.send(request)
                if not channel.poll(seconds):
                    raise TimeLimitError(f"device {self._number} did not answer within {seconds:.0f} s")
                found = channel.recv()
            except (EOFError, ConnectionError):
                code = self._running.wait(5.0) if self._running is not None else None
                self.close()
                how = "it is not known how" if code is None else ending(code)
                raise LaunchError(f"the process that ran it on device {self._number} ended: {how}") from None
            except BaseException:
                self.close()
                raise
        failure, answer = found
        if failure:
            self.close()
            kind = getattr(errors, failure, MskppError)
            raise kind(answer)
        return answer

    def _started(self) -> Connection:
        if self._channel is None:
            ours, its = socket.socketpair()
            with its:
                # As this process would import it, whatever the folder and the environment.
                code = (
                    f"import sys; sys.path[:] = {sys.path!r}; "
                    f"from mskpp.optune.device_process import main; main({its.fileno()})"
                )
                self._channel = Connection(ours.detach())
                self._running = process.start(
                    [sys.executable, "-c", code],
                    pass_fds=(its.fileno(),),
                    who=f"device {self._number}",
                    memory_bytes=self._limits.memory_bytes,
                )
            if self._limits.stop is not None and self._limits.stop.is_set:
                raise LaunchError(f"device {self._number}: the launch was interrupted")
        return self._channel

    def _abandon(self) -> None:
        running = self._running
        if running is not None:
            running.end()

    def close(self) -> None:
        running, channel = self._running, self._channel
        self._running = self._channel = None
        if running is not None:
            running.stop()
        if channel is not None:
            channel.close()


def portable(value: Any) -> Any:
    """The value for another process, which has neither the user's classes nor his device memory: structures become
    their bytes, tensors arrays."""
    if isinstance(value, list | tuple):
        return type(value)([portable(item) for item in value])
    if is_tensor(value):
        torch = sys.modules["torch"]
        return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return bytearray(value) if is_memory(value) and not is_array(value) else value


def restored(value: Any, data: Any) -> Any:
    """What portable() gave, after the launch, as the value was."""
    if isinstance(value, list | tuple):
        return type(value)([restored(item, part) for item, part in zip(value, data, strict=True)])
    if is_tensor(value):
        torch = sys.modules["torch"]
        return torch.frombuffer(bytearray(data), dtype=value.dtype).reshape(value.shape)
    if isinstance(value, ctypes.Array | ctypes.Structure | ctypes.Union):
        return type(value).from_buffer_copy(data)
    return data


def devices(backend: str, numbers: Sequence[int], limits: process.Limits) -> list[Device]:
    """The devices of these numbers."""
    if backend == "host":
        return [HostDevice(limits) for _ in numbers]
    return [DeviceProcess(number, limits) for number in numbers]
