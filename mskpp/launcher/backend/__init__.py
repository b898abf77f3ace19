# SPDX-License-Identifier: Apache-2.0
"""Where kernels are compiled and run: ``host``, the CPU of this machine, or ``ascend``, an NPU with its toolkit.

Chosen by an argument ``backend=``, else by MSKPP_BACKEND, else ``auto``: ``ascend`` when a toolkit and a device are
there, ``host`` when not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from mskpp.errors import ArgumentError, InputError
from mskpp.launcher.process import Limits

NAMES = ("auto", "host", "ascend")


class Library(Protocol):
    """Loaded launch code: one kernel of one compiled file. ``close()`` gives back what it holds; launching again is
    allowed afterwards."""

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
        """Runs the kernel ``repeat`` times and waits; the time of each in ns, as far as the backend can tell.

        The arrays of the caller hold what the kernel wrote. Raises ArgumentError, LaunchError, TimeLimitError.
        """
        ...

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
        """The time of each of ``repeat`` launches in ns, each on the memory as it was.

        Before come launches of ``warmup_us`` in all that do not count, at least one. With ``flush_cache`` the
        last-level cache is emptied before each that counts, outside its time. The caller's memory stays as it is.
        Raises as launch().
        """
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """One way to compile and run kernels."""

    name: str

    def compile_command(self, source: Path, output: Path, options: Sequence[str], *, shared: bool) -> list[str]:
        """The built-in compilation of a launch code (``shared``) or of a program."""
        ...

    def script_environment(self, folder: Path | None = None) -> AbstractContextManager[dict[str, str]]:
        """The environment in which a user's build script runs. What it needs for that is put into ``folder``, None:
        among the temporary files."""
        ...

    def identity(self, timeout: float = 60.0) -> str:
        """What a compiled file depends on besides its sources: compiler, version, toolkit. ``timeout``: the seconds
        that the compiler has to tell."""
        ...

    def device_name(self, device_id: int = 0) -> str:
        """What the device is, as far as times depend on it. It may take loading the toolkit, but not the device."""
        ...

    def load(self, path: Path, metadata: dict[str, Any], limits: Limits | None = None) -> Library:
        """The launch code in a compiled file. ``limits`` are those of the process that runs it, if it has its own."""
        ...


def chosen(backend: str | None = None, who: str = "backend") -> Backend:
    """The backend asked for. InputError for a name that does not exist, BackendError when it cannot be had."""
    if backend is not None and not isinstance(backend, str):
        raise ArgumentError(f"{who}: backend is {type(backend).__name__}; it must be one of {', '.join(NAMES)}")
    name = (backend or os.environ.get("MSKPP_BACKEND") or "auto").strip().lower()
    if name not in NAMES:
        origin = "backend" if backend else "MSKPP_BACKEND"
        raise InputError(f"{who}: {origin} is '{name}'; allowed are {', '.join(NAMES)}")
    from mskpp.launcher.backend.host import Host

    if name == "host" or (name == "auto" and not os.environ.get("ASCEND_HOME_PATH")):
        return Host()
    from mskpp.launcher.backend.ascend import Ascend

    if name == "ascend" or Ascend.available():
        return Ascend()
    return Host()


def environment_key() -> Iterator[str]:
    """Every environment variable that can change what a compiler does, as NAME=value."""
    names = ("CC", "CXX", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
             "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH", "ASCEND_HOME_PATH", "MSKPP_CXX")  # fmt: skip
    for name in names:
        yield f"{name}={os.environ.get(name, '')}"
