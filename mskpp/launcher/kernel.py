# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels and programs, ready to run: ``kernel[blockdim](...)``, ``executable(...)``."""

from __future__ import annotations

import contextlib
import json
import numbers
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mskpp.errors import ArgumentError, CompileError, FileError, InputError, LaunchError, StateError
from mskpp.launcher import backend as backends
from mskpp.launcher import checks, process, session
from mskpp.launcher.arguments import type_text
from mskpp.log import logger

EXECUTABLE_SECONDS = 600.0


class CompiledKernel:
    """A kernel in a compiled launch code.

        kernel[blockdim](x, y, z)        # launches and waits; arrays hold the results afterwards
        kernel(x, y, z)                  # after tiling_func: with the blockdim it gave

    Keywords of the call: ``stream`` (a handle of the backend's, None: one of its own), ``device_id`` (None: the current
    one, else 0), ``timeout`` in milliseconds (300000; -1: for ever), ``kernel_name`` (for messages and profilers),
    ``repeat`` (1). The file is copied when the object is made: what is compiled to the same path later does not change
    it. Objects can be pickled; the copy is made anew from the path then.
    """

    def __init__(
        self,
        output_bin_path: str,
        kernel_name: str = "",
        *,
        backend: str | None = None,
        private: bool = False,
        limits: process.Limits | None = None,
    ) -> None:
        """``private``: the file is nobody else's, and is used where it is. ``limits``: of the process that runs it, on
        the host."""
        who = "CompiledKernel"
        if not isinstance(kernel_name, str):
            raise ArgumentError(f"{who}: kernel_name is {type_text(kernel_name)}; it must be a str")
        path = checks.readable_file(output_bin_path, who)
        checks.trusted(path, who)
        self.module_path = str(path)
        self._backend_name = backend
        copy = path if private else self._copied(path)
        if b"mskpp_launch" not in copy.read_bytes():
            raise InputError(
                f"{who}: {path} exports no mskpp_launch: it is not compiled launch code. compile() takes the file that "
                "Launcher(config).code_gen() wrote, not the kernel's source"
            )
        metadata = library_metadata(copy)
        self.kernel_name = kernel_name or str(metadata.get("kernel", "")) or path.stem
        self._metadata = {**metadata, "kernel": self.kernel_name}
        self._library = backends.chosen(backend, who).load(copy, self._metadata, limits)

    def _copied(self, path: Path) -> Path:
        try:
            folder = tempfile.mkdtemp(prefix="mskpp-kernel-")
            self._cleaner = weakref.finalize(self, remove_own, folder, os.getpid())
            # A name of its own: the dynamic loader takes a path it knows for the file it has loaded from there.
            copy = Path(folder) / f"{path.stem}-{os.urandom(4).hex()}{path.suffix}"
            shutil.copyfile(path, copy)
            copy.chmod(0o700)
        except OSError as error:
            raise FileError(
                f"CompiledKernel: {path} cannot be copied to the temporary folder: {error.strerror or error}; TMPDIR "
                "chooses it"
            ) from None
        return copy

    def __getitem__(self, blockdim: int) -> Callable[..., None]:
        def launcher(*args: Any, **keywords: Any) -> None:
            self.launch(*args, blockdim=blockdim, **keywords)

        return launcher

    def __call__(self, *args: Any, **keywords: Any) -> None:
        if "blockdim" in keywords:
            return self.launch(*args, **keywords)
        tiling = session.latest_tiling()
        if tiling is None:
            raise StateError(
                f"{self.kernel_name}: called without a blockdim; write kernel[blockdim](...), or call tiling_func "
                "first, whose blockdim is then used"
            )
        return self.launch(*args, blockdim=tiling.blockdim, **keywords)

    def launch(
        self,
        *args: Any,
        blockdim: int,
        stream: int | None = None,
        device_id: int | None = None,
        timeout: int = 300000,
        kernel_name: str | None = None,
        repeat: int = 1,
    ) -> None:
        """As ``kernel[blockdim](*args)``."""
        name = self.kernel_name
        repeat = whole_number(repeat, f"{name}: repeat", 1, 1 << 20)
        if stream is not None:
            stream = whole_number(stream, f"{name}: stream", 0, (1 << 64) - 1)
        self._checked(self._library.launch, args, blockdim, device_id, timeout, stream=stream, repeat=repeat)

    def measure(
        self,
        *args: Any,
        blockdim: int,
        device_id: int | None = None,
        timeout: int = 300000,
        warmup_us: int = 0,
        repeat: int = 1,
        flush_cache: bool = False,
    ) -> list[int]:
        """The time of each of ``repeat`` launches in ns: on the device, or on the host around the launch.

        Each starts with the arguments as they are, which do not change. Before come launches of ``warmup_us`` in all
        that do not count, at least one. With ``flush_cache`` the last-level cache is emptied before each that counts:
        the times are those of data that comes from memory. Raises as a launch.
        """
        name = self.kernel_name
        repeat = whole_number(repeat, f"{name}: repeat", 1, 1 << 20)
        warmup_us = whole_number(warmup_us, f"{name}: warmup_us", 0, 1 << 40)
        if not isinstance(flush_cache, bool):
            raise ArgumentError(f"{name}: flush_cache is {type_text(flush_cache)}; it must be True or False")
        keywords = {"warmup_us": warmup_us, "repeat": repeat, "flush_cache": flush_cache}
        return self._checked(self._library.measure, args, blockdim, device_id, timeout, **keywords)

    def _checked(
        self,
        call: Callable[..., list[int]],
        args: Sequence[Any],
        blockdim: int,
        device_id: int | None,
        timeout: int,
        **keywords: Any,
    ) -> list[int]:
        """What the library's call returns, after the checks that every backend shares."""
        name = self.kernel_name
        blockdim = whole_number(blockdim, f"{name}: blockdim", 1, (1 << 32) - 1)
        timeout = whole_number(timeout, f"{name}: timeout", -1, (1 << 31) - 1)
        if timeout == 0:
            raise InputError(f"{name}: timeout is 0 ms; give more, or -1 for no limit")
        if device_id is not None:
            device_id = whole_number(device_id, f"{name}: device_id", 0, 1023)
        self._check_count(args)
        try:
            return call(args, blockdim=blockdim, device_id=device_id, timeout_ms=timeout, **keywords)
        except ArgumentError as error:
            declaration = self._metadata.get("declaration", "")
            raise ArgumentError(f"{error}\n  {declaration}" if declaration else str(error)) from None

    def _check_count(self, args: Sequence[Any]) -> None:
        from mskpp.launcher.arguments import mismatch
        from mskpp.launcher.signature import Parameter

        types = self._metadata.get("types")
        if types is None:
            return
        parameters = [Parameter(str(t), str(n)) for t, n in zip(types, self._metadata.get("names", ()), strict=False)]
        where = f"\n  {self._metadata.get('declaration', '')}"
        if len(args) != len(parameters):
            missing = ", ".join(map(str, parameters[len(args) :]))
            what = f"missing: {missing}" if missing else f"{len(args) - len(parameters)} too many"
            raise ArgumentError(
                f"{self.kernel_name}: {len(args)} arguments for {len(parameters)} parameters; {what}{where}"
            )
        for i, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
            reason = mismatch(parameter, value) if parameter.is_pointer else None
            if reason:
                raise ArgumentError(
                    f"{self.kernel_name}: argument {i + 1} is {type_text(value)}, but the parameter is '{parameter}'; "
                    f"{reason}{where}"
                )

    def close(self) -> None:
        """Gives back what the kernel holds: its process on the host. A launch starts it again."""
        self._library.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (self.module_path, self.kernel_name, self._backend_name)

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.kernel_name} of {self.module_path}>"


def remove_own(folder: str, owner: int) -> None:
    """Removes the folder; not in a fork of the process that made it."""
    if owner == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def rebuild(path: str, name: str, backend: str | None) -> CompiledKernel:
    return CompiledKernel(path, name, backend=backend)


def library_metadata(path: Path) -> dict[str, Any]:
    """What the launch code says of itself, read from its bytes: nothing of it is run for that."""
    data = path.read_bytes()
    at = data.find(b'"scenario": "')
    while at >= 0:
        begin = data.find(b"{", data.rfind(b"\0", 0, at) + 1, at)
        with contextlib.suppress(ValueError):
            found = json.loads(data[begin : data.find(b"\0", at)])
            if isinstance(found, dict):
                return found
        at = data.find(b'"scenario": "', at + 1)
    return {}


def whole_number(value: Any, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentError(f"{what} is {type_text(value)}; it must be an int")
    whole = int(value)
    if not low <= whole <= high:
        raise InputError(f"{what} is {whole}; allowed are {low} to {high}")
    return whole


class CompiledExecutable:
    """A compiled program.

    ``executable(arg, ..., profiling_cmd=[...])`` runs it, its arguments as text, and returns what it wrote on stdout;
    LaunchError when it fails, TimeLimitError after 600 s (``timeout=`` seconds changes that).
    """

    def __init__(self, executable_path: str, *, profiling_cmd: Sequence[str] | None = None) -> None:
        self._path = checks.readable_file(executable_path, "CompiledExecutable")
        checks.trusted(self._path, "CompiledExecutable")
        if not os.access(self._path, os.X_OK):
            raise CompileError(f"CompiledExecutable: {self._path} cannot be executed; chmod u+x {self._path}")
        self._profiling_cmd = words(profiling_cmd, "CompiledExecutable")

    def __call__(
        self, *args: Any, profiling_cmd: Sequence[str] | None = None, timeout: float | None = EXECUTABLE_SECONDS
    ) -> str:
        prefix = self._profiling_cmd if profiling_cmd is None else words(profiling_cmd, self._path.name)
        done = process.run([*prefix, str(self._path), *map(str, args)], timeout=timeout, who=self._path.name)
        if done.returncode != 0:
            raise LaunchError(
                f"{self._path.name}: it ended with {ending(done.returncode)}"
                f"{process.last_lines(done.stdout, done.stderr)}"
            )
        if done.stdout:
            logger.info("%s", done.stdout.rstrip())
        return done.stdout

    def get_executable_path(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        return f"<CompiledExecutable {self._path}>"


def words(command: Sequence[str] | None, who: str) -> list[str]:
    if command is None:
        return []
    if not isinstance(command, list | tuple) or not all(isinstance(word, str) for word in command):
        raise ArgumentError(f"{who}: profiling_cmd is {type_text(command)}; it must be a list of str, one a word")
    return list(command)


def ending(returncode: int) -> str:
    from mskpp.launcher.backend.host import exit_text

    return exit_text(returncode)
