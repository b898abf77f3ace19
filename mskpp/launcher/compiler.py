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
import fcntl
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mskpp import __version__
from mskpp.errors import ArgumentError, BackendError, CompileError, InputError
from mskpp.launcher import backend as backends
from mskpp.launcher import cc, checks, observation, process
from mskpp.launcher.arguments import type_text
from mskpp.launcher.code_generator import read_metadata
from mskpp.launcher.kernel import CompiledExecutable, CompiledKernel, ending
from mskpp.log import logger

KERNEL_SECONDS = 600.0
EXECUTABLE_SECONDS = 120.0


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
    source = checks.readable_file(source_file, who)
    script = checks.script(text(build_script, who, "build_script"), who) if build_script is not None else None
    if output in (source, script, Path(str(read_metadata(source).get("source", "")))):
        raise InputError(f"{who}: output_bin_path is {output}, which is what is to be compiled; give another path")
    chosen = backends.chosen(backend, who)
    with locked(output), tempfile.TemporaryDirectory(prefix="mskpp-compile-") as folder:
        fixed = fixed_key(chosen, script, options, source, shared)
        if use_cache and is_current(output, fixed):
            logger.info("%s: %s is up to date; nothing is compiled", who, output)
            yield source
            return
        dependencies = Path(folder) / "dependencies"
        command = (
            ["bash", str(script), str(source), str(output)]
            if script is not None
            else chosen.compile_command(source, output, options, shared=shared)
        )
        began = time.time()
        record_path(output).unlink(missing_ok=True)
        output.unlink(missing_ok=True)
        with chosen.script_environment() as environment:
            environment = {**environment, "MSKPP_DEPENDENCIES": str(dependencies)}
            run_compiler(who, command, output, environment, timeout)
        output.chmod(0o700 if not shared else 0o600)
        write_record(output, fixed, dependencies, began)
        yield source


def run_compiler(
    who: str, command: Sequence[str], output: Path, environment: dict[str, str] | None, timeout: float | None
) -> None:
    """Runs a compilation; CompileError when it fails or leaves no output."""
    done = process.run(command, timeout=timeout, who=who, env=environment)
    if done.returncode != 0:
        output.unlink(missing_ok=True)
        raise CompileError(
            f"{who}: the compilation ended with {ending(done.returncode)}\n  {process.shown(command)}{said(done)}"
        )
    if not output.is_file() or output.is_symlink():
        raise CompileError(
            f"{who}: the compilation ended well but wrote no {output}; a build script must write its second argument\n"
            f"  {process.shown(command)}{process.last_lines(done.stdout, done.stderr)}"
        )
    if done.stdout.strip():
        logger.info("%s: %s", who, done.stdout.rstrip())
    if done.stderr.strip():
        logger.debug("%s: %s", who, done.stderr.rstrip())


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
) -> None:
    """Compiles launch code to an output of which nobody else knows: nothing is locked, recorded or reused.

    What compilers put into the temporary folder goes to ``folder``. CompileError has all that was said.
    """
    script = checks.script(build_script, who) if build_script is not None else None
    command = (
        ["bash", str(script), str(source), str(output)]
        if script is not None
        else backend.compile_command(source, output, options, shared=True)
    )
    with backend.script_environment() as environment:
        done = process.run(
            command,
            timeout=timeout,
            who=who,
            env={**environment, "TMPDIR": str(folder)},
            memory_bytes=limits.memory_bytes,
            stop=limits.stop,
        )
    said = (done.stdout + done.stderr).rstrip()[:MOST_SHOWN]
    if done.returncode != 0:
        how = f"the compilation ended with {ending(done.returncode)}"
    elif not output.is_file() or output.is_symlink():
        how = f"the compilation ended well but wrote no {output}; a build script must write its second argument"
    else:
        output.chmod(0o700)
        return
    raise CompileError(f"{who}: {how}\n  {process.shown(command)}\n{said}")


# ------------------------------------------------------------------------------------------------------------- cache


def record_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.mskpp")


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """One compilation to one output at a time, of all processes. The system's lock ends with its holder."""
    name = hashlib.sha256(os.fsencode(output)).hexdigest()[:32]
    folder = Path(tempfile.gettempdir()) / f"mskpp-locks-{os.geteuid()}"
    folder = checks.make_folder(str(folder), "compile")
    with open(os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(path: str | Path) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "absent"


def fixed_key(
    backend: backends.Backend, script: Path | None, options: Sequence[str], source: Path, shared: bool
) -> dict[str, Any]:
    """What is known before compiling."""
    metadata = read_metadata(source)
    return {
        "version": __version__,
        "backend": backend.name,
        "compiler": backend.identity(),
        "script": [str(script), digest(script)] if script is not None else None,
        "options": list(options),
        "source": [str(source), digest(source)],
        "kernel": [metadata["source"], digest(metadata["source"])] if "source" in metadata else None,
        "shared": shared,
        "environment": hashlib.sha256(
            "\0".join(backends.environment_key()).encode(errors="surrogateescape")
        ).hexdigest(),
    }


def is_newer(name: str, moment: float) -> bool:
    """Whether the file may have changed after the moment; also when it is gone."""
    try:
        return os.stat(name).st_mtime > moment
    except OSError:
        return True


def write_record(output: Path, fixed: dict[str, Any], dependencies: Path, began: float) -> None:
    """Notes what the output was made from; nothing when the compiler did not say what it read, or when a file that it
    read has changed since the compilation ``began``: which text was compiled is not known then."""
    known = {pair[0] for pair in (fixed["source"], fixed["kernel"]) if pair is not None and pair[1] == digest(pair[0])}
    try:
        names = sorted({line for line in dependencies.read_text(errors="surrogateescape").split("\n") if line})
    except OSError:
        names = ["?"]
    if "?" in names or any(is_newer(name, began) for name in names if name not in known):
        logger.debug("compile: the compiler did not say what it read, or it has changed; %s will not be reused", output)
        return
    record = {**fixed, "included": {name: digest(name) for name in names}, "output": digest(output)}
    checks.write_file(record_path(output), json.dumps(record, indent=1), "compile")


def is_current(output: Path, fixed: dict[str, Any]) -> bool:
    """Whether the output is whole and made from what is there now. A broken record is none."""
    try:
        record = json.loads(record_path(output).read_text())
        included = dict(record.pop("included"))
        whole = record.pop("output") == digest(output)
        return bool(whole and record == fixed and all(digest(name) == known for name, known in included.items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


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
    chosen = backends.chosen(backend, who)
    with locked(output):
        output.unlink(missing_ok=True)
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
        run_compiler(who, command, output, None, KERNEL_SECONDS)
        output.chmod(0o600)
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
