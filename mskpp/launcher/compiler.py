# SPDX-License-Identifier: Apache-2.0
"""Compilation of launch code, programs, tiling code and binary launch code.

A build script is run as ``bash SCRIPT <absolute source> <absolute output>``; without one the backend's own command is
used. The output is removed before and must be there after, so what is loaded is what was compiled. With
``use_cache=True`` an output is kept when everything it was made from is the same: its source and each file that was
included, the script or options, compiler, backend, and the environment compilers read. The record lies beside it
(``<output>.mskpp``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mskpp import __version__
from mskpp.errors import (
    ArgumentError,
    BackendError,
    CompileError,
    FileError,
    InputError,
    MskppError,
    TimeLimitError,
    UnsafeError,
)
from mskpp.launcher import backend as backends
from mskpp.launcher import cc, checks, observation, process, record
from mskpp.launcher.arguments import type_text
from mskpp.launcher.code_generator import read_metadata
from mskpp.launcher.kernel import CompiledExecutable, CompiledKernel, ending, remove_own
from mskpp.launcher.reading import regular_bytes
from mskpp.log import logger

KERNEL_SECONDS = 600.0
EXECUTABLE_SECONDS = 120.0
VERSION_SECONDS = 60.0
MOST_SECONDS = 1e8  # what is longer is no limit
MOST_LOOK_SECONDS = 0.05  # how often a lock is looked at


def compile(
    build_script: str | None = None,
    gen_file: str | None = None,
    output_bin_path: str = "_gen_module.so",
    use_cache: bool = False,
    *,
    launch_src_file: str | None = None,
    options: Sequence[str] = (),
    backend: str | None = None,
    timeout: float | None = KERNEL_SECONDS,
) -> CompiledKernel:
    """Compiles launch code and returns the kernel.

    Args:
        build_script: a bash script that compiles its first argument to its second; None: the backend's own command.
        gen_file: the launch code, as ``code_gen`` returned it; also as ``launch_src_file``.
        output_bin_path: the library to write; it must end in .so.
        use_cache: keep an output whose record says that nothing it depends on has changed.
        options: options for the backend's own command, without a build script.
        backend: host, ascend or auto; None: MSKPP_BACKEND.
        timeout: seconds; TimeLimitError after them, with nothing left running.

    Raises CompileError with the command and what it said, UnsafeError for a script that is not safe to run.
    """
    who = "compile"
    source = one_of(who, gen_file=gen_file, launch_src_file=launch_src_file)
    observer = observation.observer()
    if observer is not None:
        observed: CompiledKernel | None = observer.compiled(
            observation.Compilation(build_script, source, tuple(options), backend, timeout), shared=True
        )
        if observed is not None:
            return observed
    output = checks.output_path(text(output_bin_path, who, "output_bin_path"), who, suffix=".so")
    with built(who, build_script, source, output, use_cache, options, backend, timeout, shared=True) as made:
        return CompiledKernel(str(output), str(read_metadata(made).get("kernel", "")), backend=backend)


def compile_executable(
    build_script: str | None = None,
    src_file: str | None = None,
    output_bin_path: str = "_gen_executable",
    use_cache: bool = False,
    profiling_cmd: Sequence[str] | None = None,
    *,
    gen_file: str | None = None,
    options: Sequence[str] = (),
    backend: str | None = None,
    timeout: float | None = EXECUTABLE_SECONDS,
) -> CompiledExecutable:
    """Compiles a program with a main() and returns it; arguments as compile().

    ``profiling_cmd``: the words to put in front of the program's command, e.g. ["msprof", "op"].
    """
    who = "compile_executable"
    source = one_of(who, src_file=src_file, gen_file=gen_file)
    observer = observation.observer()
    if observer is not None:
        observed: CompiledExecutable | None = observer.compiled(
            observation.Compilation(build_script, source, tuple(options), backend, timeout), shared=False
        )
        if observed is not None:
            return observed
    output = checks.output_path(text(output_bin_path, who, "output_bin_path"), who)
    with built(who, build_script, source, output, use_cache, options, backend, timeout, shared=False):
        return CompiledExecutable(str(output), profiling_cmd=profiling_cmd)


def one_of(who: str, **given: str | None) -> str:
    """The one argument that is given under one of its names."""
    there = {name: value for name, value in given.items() if value is not None}
    if len(there) != 1:
        raise ArgumentError(
            f"{who}: {len(there)} of {', '.join(given)} are given; give one, the source to compile. The first argument "
            "is the build script, None without one"
        )
    name, value = there.popitem()
    return text(value, who, name)


def text(value: object, who: str, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{who}: {name} is {type_text(value)}; it must be a str")
    return value


@contextlib.contextmanager
def built(
    who: str,
    build_script: str | None,
    source_file: str,
    output: Path,
    use_cache: bool,
    options: Sequence[str],
    backend: str | None,
    timeout: float | None,
    *,
    shared: bool,
) -> Iterator[Path]:
    """Compiles source_file to output, or leaves an output that is up to date; gives the source's path. Within the block
    nobody else compiles to the same output: what is loaded there is what was compiled here."""
    if not isinstance(use_cache, bool):
        raise ArgumentError(f"{who}: use_cache is {type_text(use_cache)}; it must be a bool")
    if not isinstance(options, list | tuple) or not all(isinstance(o, str) for o in options):
        raise ArgumentError(f"{who}: options is {type_text(options)}; it must be a list of str, one an option")
    if build_script is not None and options:
        raise ArgumentError(f"{who}: options are for a compilation without build_script; a script has its own")
    options = checked_options(options, who)
    limit = time_limit(timeout, who)
    source = checks.readable_file(source_file, who)
    script = checks.script(text(build_script, who, "build_script"), who) if build_script is not None else None
    inputs = [source, *named_files(source), *([script] if script is not None else [])]
    check_not_an_input(who, output, "", inputs)
    check_not_an_input(who, record.record_path(output), "one whose record would be ", inputs)
    chosen = backends.chosen(backend, who)
    with system_errors(who, output), locked(output, who, limit) as left, scratch(who) as folder:
        fixed = fixed_key(chosen, script, options, source, shared, left)
        if use_cache and record.is_current(output, fixed):
            logger.info("%s: %s is up to date; nothing is compiled", who, output)
            yield source
            return
        dependencies = folder / "dependencies"
        command = (
            ["bash", str(script), str(source), str(output)]
            if script is not None
            else chosen.compile_command(source, output, options, shared=shared)
        )
        began = record.Moment.now()
        record.forget(output, who)
        with chosen.script_environment(folder) as environment:
            environment = {**environment, "MSKPP_DEPENDENCIES": str(dependencies)}
            run_compiler(who, command, output, environment, left, folder, executable=not shared)
        record.write(output, fixed, dependencies, began)
        yield source


def checked_options(options: Sequence[str], who: str) -> list[str]:
    for option in options:
        try:
            os.fsencode(option)
        except UnicodeEncodeError:
            raise InputError(f"{who}: the option {option!r} has half a surrogate pair; no program can get it") from None
        if "\0" in option:
            raise InputError(f"{who}: the option {option!r} has a NUL character; remove it")
    return list(options)


def time_limit(timeout: object, who: str) -> float | None:
    """The seconds; None for no limit, also where it would be years away."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise ArgumentError(f"{who}: timeout is {timeout!r}; give a number, or None for no limit")
    if timeout > MOST_SECONDS:
        return None
    if not timeout > 0:
        shown = "nan" if timeout != timeout else repr(timeout) if timeout > -1e18 else "far below 0"
        raise InputError(f"{who}: timeout is {shown}; it must be above 0, or None for no limit")
    return float(timeout)


def named_files(source: Path) -> list[Path]:
    """The user's files that generated code says it was made from or will load: source, binary, tiling library."""
    try:
        line = regular_bytes(source, checks.MOST_BYTES).split(b"\n", 2)[1]
        found = json.loads(line.removeprefix(b"// mskpp: "))
        names = [found.get(key) for key in ("source", "binary", "library")]
    except (OSError, ValueError, IndexError, AttributeError, RecursionError):
        return []
    return [Path(name) for name in names if isinstance(name, str) and name]


def check_not_an_input(who: str, path: Path, what: str, inputs: Sequence[Path]) -> None:
    """InputError where what will be written is, by whatever name, one of the files that something is made from."""
    for given in inputs:
        if path == given or is_same_file(path, given):
            name = "" if path == given else f" ({given}, of which it is another name)"
            raise InputError(
                f"{who}: output_bin_path is {what}{path}, which is what is to be compiled{name}; give another path"
            )


def is_same_file(path: Path, other: Path) -> bool:
    """Also for a hard link; False where one of them is not there, or has a name that no file can have."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def system_errors(who: str, output: Path) -> Iterator[None]:
    """FileError for what the system refuses within the block: a full disk, no more open files, no rights."""
    try:
        yield
    except OSError as error:
        if isinstance(error, MskppError):
            raise
        where = plain(f" ({os.fsdecode(error.filename)})") if isinstance(error.filename, str | bytes) else ""
        raise FileError(f"{who}: {output} cannot be compiled and loaded: {error.strerror or error}{where}") from error


@contextlib.contextmanager
def scratch(who: str) -> Iterator[Path]:
    """A folder of our own that is gone afterwards."""
    try:
        folder = tempfile.mkdtemp(prefix="mskpp-compile-")
    except OSError as error:
        raise FileError(
            f"{who}: no folder for temporary files can be made: {error.strerror}; TMPDIR={os.environ.get('TMPDIR', '')}"
            " says where, set it to a folder you may write to"
        ) from None
    owner = os.getpid()
    try:
        yield Path(folder)
    finally:
        remove_own(folder, owner)


def run_compiler(
    who: str,
    command: Sequence[str],
    output: Path,
    environment: dict[str, str],
    timeout: float | None,
    folder: Path,
    *,
    executable: bool,
) -> None:
    """Runs a compilation, whose temporary files go to the folder. The output is new and the user's alone.

    CompileError when it fails or writes none. Unless all went well nothing is left at the output's path.
    """
    remove(output, who)
    good = False
    try:
        done = finished(who, command, environment, timeout, folder)
        if done.returncode != 0:
            raise CompileError(
                f"{who}: the compilation ended with {ending(done.returncode)}\n  {plain(process.shown(command))}"
                f"{said(done)}"
            )
        make_own(who, command, output, done, executable=executable)
        good = True
    finally:
        if not good:
            with contextlib.suppress(FileError):  # what went wrong before counts
                remove(output, who)
    if done.stdout.strip():
        logger.info("%s: %s", who, done.stdout.rstrip())
    if done.stderr.strip():
        logger.debug("%s: %s", who, done.stderr.rstrip())


def finished(
    who: str,
    command: Sequence[str],
    environment: dict[str, str],
    timeout: float | None,
    folder: Path,
    limits: process.Limits | None = None,
) -> process.Completed:
    """Runs a compiler or script to its end. What it says has no control characters, which could rule a terminal."""
    temporary = folder / "tmp"
    limits = limits or process.Limits()
    try:
        temporary.mkdir(mode=0o700, exist_ok=True)
        done = process.run(
            command,
            timeout=timeout,
            who=who,
            env={**environment, "TMPDIR": str(temporary)},
            memory_bytes=limits.memory_bytes,
            stop=limits.stop,
            umask=0o077,
        )
    except TimeLimitError as error:
        raise TimeLimitError(plain(str(error))) from None
    return process.Completed(done.returncode, plain(done.stdout), plain(done.stderr), done.seconds)


def make_own(who: str, command: Sequence[str], output: Path, done: process.Completed, *, executable: bool) -> None:
    """Gives the output the mode of a file that is the user's alone; CompileError where there is no such file."""
    try:
        descriptor = os.open(output, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = stat.S_ISREG(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        found = False
    if not found:
        raise CompileError(
            f"{who}: the compilation ended well but wrote no {output}; a build script must write its second argument\n"
            f"  {plain(process.shown(command))}{process.last_lines(done.stdout, done.stderr)}"
        )
    output.chmod(0o700 if executable else 0o600)


def remove(path: Path, who: str) -> None:
    """Removes what is at the path, a link and not what it points to. FileError where that cannot be."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):  # a compilation made it: an output that is a folder is refused before
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{who}: {path} cannot be replaced: {error.strerror}; remove it or give another path") from None


CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")


def plain(said: str) -> str:
    """The text with a sign in place of each control character but line ends and tabs."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", said.replace("\r\n", "\n"))


ASCEND_C = re.compile(r"TPipe|TQue|TBuf|GlobalTensor|LocalTensor|DataCopy|matmul::|Catlass|catlass")
FIRST_LINES, LAST_LINES = 12, 8


def said(done: process.Completed) -> str:
    """What a compiler said: from its first error on, and its end; without an error only the end."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line)), None)
    if first is None:
        return process.last_lines(done.stdout, done.stderr)
    shown = lines[first:]
    if len(shown) > FIRST_LINES + LAST_LINES:
        left = len(shown) - FIRST_LINES - LAST_LINES
        shown = [*shown[:FIRST_LINES], f"[{left} lines left out]", *shown[-LAST_LINES:]]
    if ASCEND_C.search(lines[first]) and "mskpp" in done.stderr:
        shown.append(
            "the CPU has no Ascend C classes and instructions: a kernel for the backend host is plain C++ "
            "(docs/launch_kernels.md)"
        )
    return "".join(f"\n  {line[:2000]}" for line in shown)


MOST_SHOWN = 1 << 16  # characters


def compile_alone(
    who: str,
    build_script: str | None,
    source: Path,
    output: Path,
    *,
    options: Sequence[str],
    backend: backends.Backend,
    timeout: float | None,
    folder: Path,
    limits: process.Limits,
    shared: bool = True,
    observed: Callable[[dict[str, str]], dict[str, str]] | None = None,
) -> None:
    """Compiles launch code, or (not ``shared``) a program, to an output of which nobody else knows: nothing is locked,
    recorded or reused.

    What compilers put into the temporary folder goes to ``folder``. ``observed`` gives, for the environment that the
    compilation would have, the one that it gets. CompileError has all that was said.
    """
    script = checks.script(build_script, who) if build_script is not None else None
    command = (
        ["bash", str(script), str(source), str(output)]
        if script is not None
        else backend.compile_command(source, output, options, shared=shared)
    )
    with backend.script_environment(folder) as environment:
        if observed is not None:
            environment = observed(environment)
        done = finished(who, command, environment, time_limit(timeout, who), folder, limits)
    if done.returncode == 0:
        make_own(who, command, output, done, executable=True)
        return
    said = (done.stdout + done.stderr).rstrip()[:MOST_SHOWN]
    how = f"the compilation ended with {ending(done.returncode)}"
    raise CompileError(f"{who}: {how}\n  {plain(process.shown(command))}\n{said}")


# --------------------------------------------------------------------------------------------------- one at a time


def lock_folders() -> Iterator[Path]:
    """Where locks may lie; the first that can be used counts, so all processes of a user come to the same."""
    with contextlib.suppress(OSError):  # no folder for temporary files
        yield Path(tempfile.gettempdir()) / f"mskpp-locks-{os.geteuid()}"
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()
    with contextlib.suppress(OSError):
        (cache / "mskpp").mkdir(mode=0o700, parents=True, exist_ok=True)
    yield cache / "mskpp" / "locks"


def lock_folder(who: str) -> Path:
    reasons = []
    for folder in lock_folders():
        try:
            return checks.make_folder(str(folder), who)
        except (FileError, UnsafeError, InputError) as error:
            reasons.append(str(error).removeprefix(f"{who}: "))
    raise FileError(
        f"{who}: there is no folder for locks; set TMPDIR to a folder of your own. Tried: {'; '.join(reasons)}"
    )


@contextlib.contextmanager
def locked(output: Path, who: str, timeout: float | None) -> Iterator[float | None]:
    """One compilation to one output at a time, of all processes; gives what is left of the seconds.

    The system's lock ends with its holder, and at the end of the block also where a fork of this process lives on.
    TimeLimitError when another compilation holds it for longer.
    """
    path = lock_folder(who) / hashlib.sha256(os.fsencode(output)).hexdigest()[:32]
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        cure = "" if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOSPC) else "; remove it"
        raise FileError(f"{who}: the lock {path} cannot be opened: {os.strerror(error.errno or 0)}{cure}") from None
    owner = os.getpid()
    held = False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(f"{who}: the lock {path} is no regular file; remove it")
        waited = wait_for_lock(descriptor, output, who, timeout)
        held = True
        with contextlib.suppress(OSError):  # it is for messages only
            os.pwrite(descriptor, f"{owner:<20}".encode(), 0)
        yield None if timeout is None else timeout - waited
    finally:
        if held and os.getpid() == owner:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def wait_for_lock(descriptor: int, output: Path, who: str, timeout: float | None) -> float:
    """Takes the lock; the seconds that it took, 0.0 when it was free."""
    began = time.monotonic()
    waited = 0.0
    pause = 0.002
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return waited
        except BlockingIOError:
            waited = time.monotonic() - began
        except OSError as error:
            raise FileError(f"{who}: {output} cannot be locked: {error.strerror}; set TMPDIR to a local disk") from None
        if timeout is not None and waited >= timeout:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            by = f" (of process {holder}, or of a fork of it)" if holder.isdigit() else ""
            raise TimeLimitError(
                f"{who}: another compilation to the same output{by} did not end within {timeout:g} s; wait for it, end "
                f"it, or give another path than {output}"
            )
        time.sleep(pause if timeout is None else min(pause, max(timeout - waited, 0.0)))
        pause = min(2 * pause, MOST_LOOK_SECONDS)


# ------------------------------------------------------------------------------------------------------------- cache


def fixed_key(
    backend: backends.Backend,
    script: Path | None,
    options: Sequence[str],
    source: Path,
    shared: bool,
    timeout: float | None = None,
) -> dict[str, Any]:
    """What is known before compiling. ``timeout``: of what is asked of the compiler, in seconds."""
    digest = record.digest
    seconds = VERSION_SECONDS if timeout is None else min(timeout, VERSION_SECONDS)
    metadata = read_metadata(source)
    return {
        "version": __version__,
        "backend": backend.name,
        "compiler": backend.identity(seconds),
        "script": [str(script), digest(script)] if script is not None else None,
        "options": list(options),
        "source": [str(source), digest(source)],
        "kernel": [metadata["source"], digest(metadata["source"])] if "source" in metadata else None,
        "shared": shared,
        "environment": hashlib.sha256(
            "\0".join(backends.environment_key()).encode(errors="surrogateescape")
        ).hexdigest(),
    }


# ----------------------------------------------------------------------------------- tiling code and binary launch code

# Hardening as for anything that is loaded into a process.
SAFE_OPTIONS = [
    "-std=c++17",
    "-O2",
    "-Wall",
    "-fPIC",
    "-shared",
    "-fstack-protector-all",
    "-D_FORTIFY_SOURCE=2",
    "-fvisibility=hidden",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,-z,noexecstack",
    "-s",
]


@contextlib.contextmanager
def built_for_this_machine(
    who: str, cpp_path: str, so_path: str, backend: str | None, libraries: Sequence[str]
) -> Iterator[Path]:
    """Compiles generated host code; gives the output, 0600. Within the block nobody else compiles to it."""
    source = checks.readable_file(cpp_path, who)
    output = checks.output_path(text(so_path, who, "so_path"), who, suffix=".so")
    check_not_an_input(who, output, "", [source, *named_files(source)])
    chosen = backends.chosen(backend, who)
    with (
        system_errors(who, output),
        locked(output, who, KERNEL_SECONDS) as left,
        scratch(who) as folder,
    ):
        if chosen.name == "host":
            command = chosen.compile_command(source, output, SAFE_OPTIONS, shared=True)
        else:
            from mskpp.launcher.backend.ascend import toolkit

            cann = toolkit()
            compiler = cc.compiler()
            if not compiler:
                raise BackendError(f"{who}: no g++ or clang++ on PATH; install one, for example: apt install g++")
            found = [f"-l{name}" for name in libraries]
            command = [*compiler, *SAFE_OPTIONS, str(source), "-o", str(output), f"-I{cann / 'include'}",
                       f"-L{cann / 'lib64'}", *found, "-ldl"]  # fmt: skip
        run_compiler(who, command, output, dict(os.environ), left, folder, executable=False)
        yield output


TILING_LIBRARIES = ("tiling_api", "graph_base", "graph", "c_sec", "register", "opp_registry", "ascendalog", "platform")


def compile_tiling(cpp_path: str, so_path: str, *, backend: str | None = None) -> Callable[[], dict[str, Any]]:
    """Compiles the code that calls a tiling function; calling what is returned runs it and gives its results."""
    from mskpp.launcher.opgen_workflow import tiling_runner

    with built_for_this_machine("compile_tiling", cpp_path, so_path, backend, TILING_LIBRARIES) as output:
        return tiling_runner(Path(cpp_path), output)


def compile_kernel_binary(src_file: str, so_path: str, *, backend: str | None = None) -> CompiledKernel:
    """Compiles the code that launches a kernel's binary and returns the kernel."""
    libraries = ("ascendcl", "runtime", "ascend_dump")
    with built_for_this_machine("compile_kernel_binary", src_file, so_path, backend, libraries) as output:
        return CompiledKernel(str(output), str(read_metadata(Path(src_file)).get("kernel", "")), backend=backend)
