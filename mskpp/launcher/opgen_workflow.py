# SPDX-License-Identifier: Apache-2.0
"""The two calls for an msOpGen project: its tiling function (tiling_func) and its compiled kernel.

Generated files lie in ``./mindstudio_mskpp_gen`` (0750) and are named by a hash of their text, so the same call writes
the same file, and calls that differ never share one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import struct
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.errors import ArgumentError, BackendError, FileError, InputError, LaunchError, TimeLimitError
from mskpp.launcher import checks, process, session
from mskpp.launcher import tiling as tilings
from mskpp.launcher.kernel import ending
from mskpp.launcher.reading import regular_bytes
from mskpp.log import logger

if TYPE_CHECKING:
    import numpy

    from mskpp.launcher.backend import Backend
    from mskpp.launcher.kernel import CompiledKernel

WHO = tilings.WHO
FOLDER = "mindstudio_mskpp_gen"
TILING_SECONDS = 60.0
MOST_SECONDS = 1_000_000  # what every clock and wait of the system can count
_MOST_RESULT_BYTES = 64 << 20
_MOST_DATA_BYTES = 131_072  # of tiling.cpp.in
_MOST_ERROR_CHARACTERS = 4000
_COMPLAINT = "mskpp tiling: "  # what lines of include/mskpp/tiling.h begin with
_MOST_COMPLAINTS = 3
_WORKER = Path(__file__).with_name("tiling_worker.py")
_HEADER = Path(__file__).parent / "include" / "mskpp" / "tiling.h"
_DONE, _NO_LIBRARY, _NO_FUNCTION, _FAILED, _NO_CONTEXT, _EXCEPTION = range(6)  # Code of tiling.cpp.in
_NOT_LOADED = -1  # of tiling_worker.py


class TilingOutput:
    """What a tiling function decided.

    blockdim: blocks to launch. workspace_size: bytes of workspace: what the function asked for and, on an NPU,
    78,643,200 more for printf inside the kernel. workspace: that many zero bytes (uint8), allocated at first use.
    tiling_data: the bytes for the kernel (uint8). tiling_key: which variant of the kernel to take.
    """

    def __init__(self, tiling_output: Mapping[str, Any]) -> None:
        import numpy

        try:
            self.blockdim = int(tiling_output["blockdim"])
            self.workspace_size = int(tiling_output["workspace_size"])
            self.tiling_key = int(tiling_output["tiling_key"])
            data = tiling_output["tiling_data"]
        except KeyError as error:
            raise InputError(
                f"TilingOutput: the key {error.args[0]!r} is missing; needed: blockdim, workspace_size, tiling_key, "
                "tiling_data"
            ) from None
        raw = data if isinstance(data, (bytes, bytearray)) else bytes(bytearray(data))
        self.tiling_data: numpy.ndarray = numpy.frombuffer(raw, dtype=numpy.uint8).copy()

    @functools.cached_property
    def workspace(self) -> numpy.ndarray:
        import numpy

        try:
            return numpy.zeros(self.workspace_size, dtype=numpy.uint8)
        except (MemoryError, ValueError) as error:
            raise InputError(
                f"TilingOutput: a workspace of {self.workspace_size} bytes cannot be allocated ({error}); "
                "is it what the tiling function meant?"
            ) from None

    def __repr__(self) -> str:
        return (
            f"TilingOutput(blockdim={self.blockdim}, workspace_size={self.workspace_size}, "
            f"tiling_key={self.tiling_key}, tiling_data={len(self.tiling_data)} bytes)"
        )


def _seconds(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise ArgumentError(f"{WHO}: timeout is {tilings.shown(timeout)}; give a number, or None for no limit")
    if not 0 < timeout <= MOST_SECONDS:
        raise InputError(
            f"{WHO}: timeout is {tilings.shown(timeout)}; allowed are seconds above 0 and up to {MOST_SECONDS:,}, or "
            "None for no limit"
        )
    return timeout


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__


def _shown_output(stdout: str, stderr: str) -> str:
    """The end of what was printed, for messages; what the tiling interface said of wrong calls before that too."""
    end: str = process.last_lines(stdout, stderr)
    shown = end.splitlines()
    complaints = [f"  {line}" for line in stderr.splitlines() if line.startswith(_COMPLAINT)]
    missed = [line for line in dict.fromkeys(complaints) if line not in shown][:_MOST_COMPLAINTS]
    return "".join(f"\n{line[:_MOST_ERROR_CHARACTERS]}" for line in missed) + end


@dataclass(frozen=True)
class _Answer:
    """What tiling_worker.py wrote. The tiling function could write there too, so nothing of it is taken on trust."""

    code: int
    error: str
    names: list[str]
    status: int
    blockdim: int
    workspace_size: int
    tiling_key: int
    tiling_data: bytes

    @staticmethod
    def read(result: Path, data: Path) -> _Answer:
        """Raises OSError, ValueError or RecursionError; FileNotFoundError if there is no result."""
        found = json.loads(regular_bytes(result, _MOST_RESULT_BYTES, follow_links=False))
        if not isinstance(found, dict):
            raise ValueError(f"it holds {tilings.shown(found)}")

        def number(key: str, bits: int) -> int:
            value = found.get(key) if done else found.get(key, 0)
            if type(value) is not int or not 0 <= value < 2**bits:
                raise ValueError(f"{key} is {tilings.shown(value)}")
            return value

        code = found.get("code")
        if type(code) is not int or not _NOT_LOADED <= code <= _EXCEPTION:
            raise ValueError(f"code is {tilings.shown(code)}")
        done = code == _DONE
        error, names = found.get("error", ""), found.get("names", [])
        if not isinstance(error, str) or not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise ValueError("error and names are no texts")
        return _Answer(
            code,
            _printable(error)[:_MOST_ERROR_CHARACTERS],
            [_printable(name) for name in names],
            number("status", 32),
            number("blockdim", 32),
            number("workspace_size", 64),
            number("tiling_key", 64),
            _data_of(data) if done else b"",
        )


def _data_of(path: Path) -> bytes:
    try:
        return regular_bytes(path, _MOST_DATA_BYTES, follow_links=False)
    except FileNotFoundError:
        raise ValueError("there is no tiling data beside it") from None


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


class TilingCall:
    """Compiled tiling code. Each call runs the tiling function in a process of its own and returns a dict with
    blockdim, workspace_size (as the function asked for it), tiling_key and tiling_data (bytes).

    values: the file with the values of the inputs, where there are any (TilingConfig.write_values).
    Raises InputError for an operator that the tiling library does not know, LaunchError when the function fails or
    crashes or sets no block dim, TimeLimitError when it does not end within ``timeout`` seconds.
    """

    def __init__(
        self, source: Path, library: Path, values: Path | None = None, timeout: float | None = TILING_SECONDS
    ) -> None:
        metadata = tilings.read_metadata(source)
        self._source = source
        self._library = library
        self._timeout = _seconds(timeout)
        self._op_type = metadata.op_type
        self._tiling_library = metadata.library
        self._soc_version = metadata.soc_version
        self._places = metadata.places
        self._values = values if any(self._places) else None
        if self._values is not None:
            needed = max(place[0] + place[1] for place in self._places if place)
            tilings.check_values(self._values, needed, source)

    def __call__(self) -> dict[str, Any]:
        if self._values is None and any(self._places):
            logger.warning(
                "%s: the tiling function of %r sees no values of its inputs; %s is missing",
                WHO,
                self._op_type,
                tilings.values_path(self._source),
            )
        # What a tiling function may have done to the folder is no reason to fail.
        with tempfile.TemporaryDirectory(prefix="mskpp-tiling-", ignore_cleanup_errors=True) as folder:
            request = Path(folder, "request.json")
            result, data = Path(folder, "result.json"), Path(folder, "data")
            request.write_text(
                json.dumps(
                    {
                        "library": str(self._library),
                        "tiling_library": self._tiling_library,
                        "values": str(self._values) if self._values else None,
                        "places": self._places,
                        "result": str(result),
                        "data": str(data),
                    }
                )
            )
            stderr, output = self._run(request)
            try:
                answer = _Answer.read(result, data)
            except FileNotFoundError:
                raise LaunchError(
                    f"{WHO}: the tiling function of {self._op_type!r} ended its process without a result{output}"
                ) from None
            except (OSError, ValueError, RecursionError) as error:
                raise LaunchError(
                    f"{WHO}: the tiling function of {self._op_type!r} changed the file of its result "
                    f"({_reason(error)}); it must leave files of mskpp alone{output}"
                ) from None
            if answer.code != _DONE:
                raise self._error(answer, output)
            if answer.blockdim == 0:
                raise LaunchError(
                    f"{WHO}: the tiling function of {self._op_type!r} set no block dim (0); it must call "
                    f"context->SetBlockDim with at least 1{output}"
                )
            if stderr:
                logger.warning("%s: %s", WHO, stderr)
            return {
                "blockdim": answer.blockdim,
                "workspace_size": answer.workspace_size,
                "tiling_key": answer.tiling_key,
                "tiling_data": answer.tiling_data,
            }

    def _run(self, request: Path) -> tuple[str, str]:
        """Runs the process; its stderr, and the end of what it printed for messages. LaunchError when it crashed."""
        command = [sys.executable, "-I", "-S", str(_WORKER), str(request)]
        try:
            done = process.run(command, timeout=self._timeout, who=WHO, env=self._environment())
        except TimeLimitError as error:
            lines = str(error).partition("\n")
            raise TimeLimitError(
                f"{WHO}: the tiling function of {self._op_type!r} did not end within {self._timeout:g} s and was ended"
                f"{lines[1]}{lines[2]}"
            ) from None
        output = _shown_output(done.stdout, done.stderr)
        if done.returncode < 0:
            raise LaunchError(
                f"{WHO}: the tiling function of {self._op_type!r} crashed with {ending(done.returncode)}{output}"
            )
        if done.stdout.strip():
            logger.info("%s: %s", WHO, done.stdout.rstrip())
        return done.stderr.rstrip(), output

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "MSKPP_TILING_CHIP": tilings.chip_text(self._soc_version)}
        if os.environ.get("ASCEND_HOME_PATH"):
            folders = [os.path.join(os.environ["ASCEND_HOME_PATH"], "lib64"), os.environ.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
        return environment

    def _error(self, answer: _Answer, output: str) -> Exception:
        op, library = self._op_type, self._tiling_library
        if answer.code == _NOT_LOADED:
            return BackendError(f"{WHO}: the compiled call of the tiling function cannot be loaded: {answer.error}")
        if answer.code == _NO_LIBRARY:
            return LaunchError(f"{WHO}: {library} is not a tiling library that can be loaded{output}")
        if answer.code == _NO_FUNCTION:
            if not library:
                return InputError(f"{WHO}: no deployed operator {op!r} has a tiling function; give lib_path{output}")
            names = answer.names
            known = f"It has: {tilings.listed(names)}" if names else "Check the name (case counts) and the library"
            return InputError(
                f"{WHO}: {library} has no tiling function for op_type {op!r}"
                f"{tilings.nearest(op, names) or '.'} {known}{output}"
            )
        if answer.code == _FAILED and answer.status:
            failed = " (GRAPH_FAILED)" if answer.status == 0xFFFFFFFF else ""
            return LaunchError(
                f"{WHO}: the tiling function of {op!r} failed with status {answer.status}{failed}{output}"
            )
        if answer.code == _EXCEPTION:
            return LaunchError(f"{WHO}: the tiling function of {op!r} threw: {answer.error}{output}")
        return LaunchError(f"{WHO}: {op!r}: {answer.error}{output}")


def tiling_runner(source: Path, library: Path) -> TilingCall:
    """Compiled tiling code as a function without arguments; values of inputs are in ``<source>.values``."""
    values = tilings.values_path(source)
    return TilingCall(source, library, values if os.path.lexists(values) else None)


def _generated(text: str, stem: str, who: str) -> Path:
    """Writes generated code into the folder for it; its name holds a hash of the text."""
    folder = checks.make_folder(FOLDER, who)
    path = folder / f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    checks.write_file(path, text, who)
    return path


def _compiled_tiling(source: Path, backend: Backend) -> Path:
    """The library made from generated tiling code. On the host, one that was made from the same by the same is kept."""
    from mskpp.launcher.backend import environment_key
    from mskpp.launcher.compiler import compile_tiling

    library = source.with_suffix(".so")
    if backend.name == "host":
        parts = [source.read_bytes(), _HEADER.read_bytes(), backend.identity().encode()]
        parts += [text.encode("utf-8", "surrogateescape") for text in environment_key()]
        library = source.with_suffix(f".{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}.so")
        if _is_whole_library(library):
            checks.trusted(library, WHO)
            return library
        if library.is_dir() and not library.is_symlink():
            _move_aside(library)
    # Under a name of its own until it is whole: another thread or process may be at the same.
    part = source.with_suffix(f".{os.getpid()}-{os.urandom(4).hex()}.so")
    try:
        compile_tiling(str(source), str(part), backend=backend.name)
        try:
            part.replace(library)
        except OSError as error:
            raise FileError(
                error.errno,
                f"{WHO}: {library} cannot be replaced: {error.strerror}; remove it: rm -r {shlex.quote(str(library))}",
            ) from None
    finally:
        part.unlink(missing_ok=True)
    return library


def _is_whole_library(path: Path) -> bool:
    """Whether a regular ELF file is there that reaches to the end of its section table, which linkers write last."""
    try:
        head = regular_bytes(path, 64, follow_links=False, prefix=True)
        size = path.lstat().st_size
    except OSError:
        return False
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little end first
        return False
    offset: int = struct.unpack_from("<Q", head, 0x28)[0]
    entry_bytes: int
    entries: int
    entry_bytes, entries = struct.unpack_from("<HH", head, 0x3A)
    return 0 < offset <= size - entry_bytes * entries


def _move_aside(folder: Path) -> None:
    """Makes room where a folder is in the way; what is in it is not ours to remove."""
    aside = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}.aside")
    try:
        folder.rename(aside)
    except OSError as error:
        raise FileError(
            error.errno, f"{WHO}: {folder} is a folder and cannot be moved away: {error.strerror}; remove it"
        ) from None
    logger.warning("%s: %s is a folder, a library belongs there; it was renamed to %s", WHO, folder, aside.name)


def tiling_func(
    op_type: str,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    lib_path: str | os.PathLike[str] | None = None,
    inputs_info: Sequence[Any] | None = None,
    outputs_info: Sequence[Any] | None = None,
    attr: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    soc_version: str | None = None,
    *,
    timeout: float | None = TILING_SECONDS,
    backend: str | None = None,
) -> TilingOutput:
    """Calls the tiling function of an operator and returns what it decided.

    Arguments as TilingConfig. timeout: seconds for the tiling function. The result is also what
    get_kernel_from_binary(...) and kernel(...) use from then on.

    Raises ArgumentError or InputError for arguments that are not allowed, an unknown op_type included, CompileError,
    LaunchError when the tiling function fails, TimeLimitError, UnsafeError.
    """
    from mskpp.launcher import backend as backends
    from mskpp.launcher.binary import PRINTF_BYTES

    timeout = _seconds(timeout)
    config = tilings.TilingConfig(op_type, inputs, outputs, lib_path, inputs_info, outputs_info, attr, soc_version)
    chosen = backends.chosen(backend, WHO).name
    if chosen == "host" and config.lib_path is None:
        raise InputError(
            f"{WHO}: lib_path is not given; nothing is deployed on the host, give the tiling library of the project"
        )
    source = _generated(config.generate(), "_mskpp_gen_tiling", WHO)
    library = _compiled_tiling(source, backends.chosen(chosen, WHO))
    with tempfile.TemporaryDirectory(prefix="mskpp-values-") as folder:
        values = Path(folder, "values")
        call = TilingCall(source, library, values if config.write_values(values) else None, timeout)
        result = call()
    if chosen != "host":
        result["workspace_size"] += PRINTF_BYTES  # behind the user's; the host has no use for it
    output = TilingOutput(result)
    session.remember(config.op_type, output)
    logger.debug("%s: %s: %r", WHO, config.op_type, output)
    return output


def get_kernel_from_binary(
    kernel_binary_file: str | os.PathLike[str],
    kernel_type: str | None = None,
    tiling_key: int | None = None,
    *,
    backend: str | None = None,
) -> CompiledKernel:
    """The kernel in a compiled binary (.o) of an msOpGen project, ready to launch.

    kernel_type: mix, vec or cube; None: as the binary's symbols say. tiling_key: the variant; None: that of the latest
    tiling_func. The kernel takes pointers only, in the order of the operator: inputs, outputs, workspace, tiling data.

    Raises InputError for a kernel_type or tiling_key that is not allowed or not in the binary, StateError without
    tiling_key before any tiling_func, FileError, UnsafeError, BackendError, CompileError.
    """
    from mskpp.launcher import backend as backends
    from mskpp.launcher.binary import WHO as BINARY
    from mskpp.launcher.binary import KernelBinaryInvokeConfig
    from mskpp.launcher.compiler import compile_kernel_binary

    config = KernelBinaryInvokeConfig(kernel_binary_file, kernel_type, tiling_key)
    chosen = backends.chosen(backend, BINARY).name
    source = _generated(config.text_for(chosen), "_mskpp_gen_binary_launch", BINARY)
    name = source.name.replace("_launch.", "_module.")
    return compile_kernel_binary(str(source), str(source.with_name(name).with_suffix(".so")), backend=chosen)
