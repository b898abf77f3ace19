#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds, tests and packages mskpp.

Runs with any Python >= 3.10 and nothing but the standard library. Everything it
needs beyond a compiler goes into .venv beside this file; what it compiles goes
into build/, and a wheel into output/.
"""

from __future__ import annotations

import sys

# Before any other import: an old Python should say so, not fail at some syntax.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit("build: this Python is older than 3.10; take a newer one, for example 'python3.11 build.py'")

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BUILD = ROOT / "build"
OUTPUT = ROOT / "output"
PACKAGE = ROOT / "mskpp"
BIN = VENV / "bin"
PYTHON = BIN / "python"

REQUIREMENTS = [ROOT / "requirements.txt", ROOT / "requirements-dev.txt"]
# .venv/mskpp-owner is written first and says that the folder is ours to delete;
# .venv/mskpp-stamp.json is written last and says that the folder is complete.
VENV_OWNER = VENV / "mskpp-owner"
VENV_STAMP = VENV / "mskpp-stamp.json"
EDITABLE_STAMP = VENV / "mskpp-editable"

BUILD_DIRS = ["python", "cpp", "coverage", "coverage-python", "sanitize", "sanitize-python", "wheel"]
COVERAGE_MINIMUM = 90.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The interpreter below any virtual environment that build.py itself runs in.
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Failure(Exception):
    """Ends build.py with one line: what happened; what to do."""

    def __init__(self, what: str, todo: str, code: int = 1) -> None:
        super().__init__(f"{what}; {todo}")
        self.code = code


class Stopped(BaseException):
    """A signal asks for the end. Not an Exception, so that no handler swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def say(text: str) -> None:
    print(f"build: {text}", flush=True)


# --------------------------------------------------------------------------- processes


def environment(**extra: str) -> dict[str, str]:
    """The environment of every child: .venv first, nothing that leads past it."""
    env = dict(os.environ)
    for name in ("PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"):
        env.pop(name, None)
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["VIRTUAL_ENV"] = str(VENV)
    env["PYTHONNOUSERSITE"] = "1"
    env.update(extra)
    return env


def process_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none for a process that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    # The name in parentheses may hold anything, so the fields are counted from behind it.
    fields = stat.rpartition(")")[2].split()
    return fields if fields[0] != "Z" else []


def descendants(pid: int) -> dict[int, str]:
    """The processes below one: pid -> time of its start, which tells it from a later one with the same pid."""
    below: dict[int, dict[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = process_fields(int(path.name))
        if fields:
            below.setdefault(int(fields[1]), {})[int(path.name)] = fields[19]
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        children = below.get(waiting.pop(), {})
        found.update(children)
        waiting.extend(children)
    return found


def end(process: subprocess.Popen[bytes], signum: int) -> None:
    """Ends a child and all that it started: first asks, then kills what is left.

    The child's own children count too: a compiler that ninja started would go on for minutes.
    """
    tree = descendants(os.getpid())
    in_terminal = False
    with contextlib.suppress(OSError):
        in_terminal = signum == signal.SIGINT and os.tcgetpgrp(0) == os.getpgrp()
    # At a terminal Ctrl-C has reached them already; a second one would cut their clean-up short.
    if not in_terminal:
        for pid in tree:
            with contextlib.suppress(OSError):
                os.kill(pid, signum)
    deadline = time.monotonic() + 5
    while tree and time.monotonic() < deadline:
        time.sleep(0.02)
        process.poll()
        tree = {pid: start for pid, start in tree.items() if process_fields(pid)[19:20] == [start]}
    for pid in tree:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run(
    command: list[str | Path],
    *,
    cwd: Path | str = ROOT,
    env: dict[str, str] | None = None,
    show: bool = True,
    hide_lines: tuple[bytes, ...] = (),
    keep: list[bytes] | None = None,
) -> int:
    """Runs a command to its end and returns its exit code.

    Its output goes straight to ours, unless someone wants it: `keep` collects it, `hide_lines` drops the lines
    that hold one of these texts, and show=False prints nothing.
    """
    piped = keep is not None or hide_lines or not show
    sys.stdout.flush()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=env if env is not None else environment(),
        stdout=subprocess.PIPE if piped else None,
        stderr=subprocess.STDOUT if piped else None,
    )
    try:
        if process.stdout is not None:
            stream = process.stdout
            while data := (stream.readline() if hide_lines else stream.read1(65536)):  # type: ignore[attr-defined]
                if any(text in data for text in hide_lines):
                    continue
                if keep is not None:
                    keep.append(data)
                if show:
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
        code = process.wait()
    except BaseException as problem:
        previous = {name: signal.signal(name, signal.SIG_IGN) for name in STOP_SIGNALS}
        end(process, problem.signum if isinstance(problem, Stopped) else signal.SIGTERM)
        for name, handler in previous.items():
            signal.signal(name, handler)
        raise
    return code if code >= 0 else 128 - code


def must(command: list[str | Path], what: str, todo: str, *, quiet: bool = True, **options: object) -> str:
    """Runs a command that has to succeed. A quiet one shows its output only when it fails."""
    kept: list[bytes] = []
    code = run(command, show=not quiet, keep=kept if quiet else None, **options)  # type: ignore[arg-type]
    text = b"".join(kept).decode(errors="replace")
    if code != 0:
        if text.strip():
            print(text.rstrip(), file=sys.stderr, flush=True)
        raise Failure(f"{what} (exit code {code})", todo)
    return text


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One build at a time in a checkout. The lock is on the folder itself and ends with the process."""
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build.py works in this checkout; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# --------------------------------------------------------------------------- the machine


def probe(compiler: list[str], text: str) -> str | None:
    """What the preprocessor makes of `text`, or None if it refuses."""
    try:
        done = subprocess.run(
            [*compiler, "-x", "c++", "-E", "-P", "-"], input=text, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def good_compiler(compiler: list[str]) -> bool:
    versions = probe(compiler, "__clang_major__ __GNUC__")
    match = re.fullmatch(r"(\w+)\s+(\w+)", versions or "")
    if not match:
        return False
    clang, gcc = match.groups()
    return int(clang) >= 14 if clang.isdigit() else gcc.isdigit() and int(gcc) >= 12


def find_compiler() -> list[str] | None:
    """The C++ compiler: the one that CXX names, or the first good one."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        if good_compiler(chosen):
            return chosen
        raise Failure(
            f"CXX is '{os.environ['CXX']}', which is not g++ >= 12 or clang++ >= 14", "correct it or unset CXX"
        )
    names = ["g++", *(f"g++-{n}" for n in range(12, 17)), "clang++", *(f"clang++-{n}" for n in range(14, 23))]
    for name in names:
        path = shutil.which(name)
        if path and good_compiler([path]):
            return [path]
    return None


def has_header(compiler: list[str], header: str) -> bool:
    return probe(compiler, f"#if !__has_include(<{header}>)\n#error missing\n#endif\n") is not None


def missing_packages(tests: bool, bench: bool) -> dict[str, str]:
    """What this machine lacks: Debian package -> what it is for."""
    missing = {}
    debian_python = BASE_PYTHON.startswith("/usr/bin/")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if any(importlib.util.find_spec(name) is None for name in ("venv", "ensurepip")):
        if not debian_python:
            raise Failure(f"{BASE_PYTHON} has no venv or ensurepip module", "use a complete Python >= 3.10")
        missing[f"{version}-venv"] = "Python's venv"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        if not debian_python:
            raise Failure(f"{BASE_PYTHON} has no Python.h", "use a Python that came with its headers")
        missing[f"{version}-dev"] = "Python.h"
    compiler = find_compiler()
    if compiler is None:
        # A distribution whose plain g++ is too old may still have a newer one beside it.
        missing["g++-12" if shutil.which("g++") else "g++"] = "a C++20 compiler"
    # Someone who points CMake at libraries of their own needs none from the system.
    if not os.environ.get("CMAKE_PREFIX_PATH"):
        if tests and not (compiler and has_header(compiler, "gtest/gtest.h")):
            missing["libgtest-dev"] = "GoogleTest"
        if bench and not (compiler and has_header(compiler, "benchmark/benchmark.h")):
            missing["libbenchmark-dev"] = "Google Benchmark"
    # Tests that look at pages are skipped without it, so it is taken only where nobody has to be asked for it.
    if tests and os.geteuid() == 0 and shutil.which("apt-get") and not shutil.which("chromium"):
        missing["chromium"] = "Chromium"
    return missing


def ensure_machine(tests: bool = False, bench: bool = False) -> None:
    missing = missing_packages(tests, bench)
    if not missing:
        return
    what = ", ".join(missing.values())
    apt = shutil.which("apt-get")
    if not apt:
        raise Failure(f"missing: {what}", f"install it (Debian calls it: {' '.join(missing)})")
    if os.geteuid() != 0:
        raise Failure(f"missing: {what}", f"run 'sudo apt-get install -y {' '.join(missing)}'")
    say(f"installing {' '.join(missing)} with apt-get")
    env = environment(DEBIAN_FRONTEND="noninteractive")
    patient = [apt, "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    todo = "look at the lines above; apt-get needs its package servers"
    must([*patient, "update"], "apt-get update failed", todo, env=env)
    must(
        [*patient, "install", "--no-install-recommends", *missing],
        f"apt-get could not install {' '.join(missing)}",
        todo,
        env=env,
    )
    importlib.invalidate_caches()
    left = missing_packages(tests, bench)
    if left:
        raise Failure(f"still missing after apt-get: {', '.join(left.values())}", "install it by hand")


# --------------------------------------------------------------------------- .venv


def read_json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there complete or not at all."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.replace(path)


def digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
        total.update(b"\0")
    return total.hexdigest()


def interpreter_key() -> dict[str, str]:
    return {"python": BASE_PYTHON, "version": sys.version, "path": str(VENV)}


def venv_is_ours() -> bool:
    if VENV.is_symlink() or not VENV.is_dir():
        return False
    return VENV_OWNER.exists() or (VENV / "pyvenv.cfg").exists() or not any(VENV.iterdir())


def remove_venv() -> None:
    if not VENV.is_symlink() and not VENV.exists():
        return
    if not venv_is_ours():
        raise Failure(f"{VENV} is not a virtual environment of this checkout", "move it away and run build.py again")
    # The stamp goes first: killed in the middle, the rest must not pass for complete.
    VENV_STAMP.unlink(missing_ok=True)
    shutil.rmtree(VENV)


def ensure_venv() -> None:
    """Makes .venv what it should be; does nothing when its stamp says that it is."""
    stamp = read_json(VENV_STAMP) if not VENV.is_symlink() else {}
    want = {"interpreter": interpreter_key(), "requirements": digest(*REQUIREMENTS)}
    if stamp == want and PYTHON.exists():
        return
    if stamp.get("interpreter") == want["interpreter"] and PYTHON.exists():
        say("requirements changed; updating .venv")
        VENV_STAMP.unlink()
    else:
        again = VENV.exists()
        remove_venv()
        say("making .venv anew, as it was incomplete or of another interpreter or place" if again else "making .venv")
        VENV.mkdir()
        VENV_OWNER.write_text("Made by build.py, which may delete this folder.\n")
        must(
            [BASE_PYTHON, "-m", "venv", VENV],
            "could not make .venv",
            "look at the lines above; a complete Python with venv and ensurepip is needed",
        )
    say("installing the pinned packages into .venv (the first time takes about a minute)")
    files: list[str | Path] = [part for path in REQUIREMENTS for part in ("-r", path)]
    must(
        [PYTHON, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", *files],
        "pip could not install the pinned packages",
        "look at the lines above; pip needs a package index that has these versions. Then run build.py again",
    )
    write_whole(VENV_STAMP, json.dumps(want, indent=1))


def setting(text: str) -> tuple[str, str]:
    """An argument for the build backend. In full, as the pip that comes with Python 3.10 knows no -C."""
    return ("--config-settings", text)


def ensure_editable() -> None:
    """Makes the checkout importable in .venv, once per version of what describes the package.

    Nothing is compiled here: build/python writes the module into mskpp/, and pip adds only the path and the
    metadata. That keeps incremental builds out of pip's way.
    """
    want = digest(ROOT / "pyproject.toml") + package_version()
    if EDITABLE_STAMP.exists() and EDITABLE_STAMP.read_text() == want:
        return
    EDITABLE_STAMP.unlink(missing_ok=True)
    say("installing mskpp into .venv in editable mode")
    must(
        [
            *(PYTHON, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"),
            *("--no-build-isolation", "--no-deps", *setting("editable.mode=inplace"), *setting("wheel.cmake=false")),
            *("-e", ROOT),
        ],
        "pip could not install mskpp in editable mode",
        "look at the lines above",
    )
    write_whole(EDITABLE_STAMP, want)


def package_version() -> str:
    match = re.search(r'^__version__ = "(.+)"$', (PACKAGE / "__init__.py").read_text(), re.MULTILINE)
    if not match:
        raise Failure('mskpp/__init__.py has no line like __version__ = "1.2.3"', "put it back")
    return match[1]


# --------------------------------------------------------------------------- compiling


def configure(name: str, options: dict[str, str], build_type: str = "Release") -> Path:
    """Configures build/<name>, or leaves it as it is when it already has these options."""
    folder = BUILD / name
    record = folder / "mskpp-configure.json"
    compiler = find_compiler()
    assert compiler is not None, "ensure_machine() has run before"
    # What cannot be changed in a configured folder: with any of it different, the folder is made anew.
    fixed: dict[str, object] = {
        "root": str(ROOT),
        "venv": read_json(VENV_STAMP),
        "compiler": compiler,
        "build type": build_type,
        "flags": [os.environ.get(flag, "") for flag in ("CXXFLAGS", "LDFLAGS")],
    }
    known = read_json(record)
    kept = known.get("options") if known.get("fixed") == fixed else None
    if isinstance(kept, dict) and kept.items() >= options.items() and (folder / "build.ninja").exists():
        return folder
    if kept is None and folder.exists():
        shutil.rmtree(folder)
    options = {**(kept if isinstance(kept, dict) else {}), **options}
    record.unlink(missing_ok=True)
    say(f"configuring build/{name}")
    arguments = [f"-D{key}={value}" for key, value in options.items()]
    if len(compiler) == 1:
        arguments.append(f"-DCMAKE_CXX_COMPILER={compiler[0]}")
    must(
        [
            *(BIN / "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja"),
            *(f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", f"-DCMAKE_BUILD_TYPE={build_type}", *arguments),
        ],
        f"CMake could not configure build/{name}",
        "look at the lines above",
    )
    write_whole(record, json.dumps({"fixed": fixed, "options": options}, indent=1))
    return folder


def compile_folder(folder: Path) -> None:
    must(
        [BIN / "ninja", "-C", folder, "-j", str(CORES)],
        f"compiling {folder.relative_to(ROOT)} failed",
        "mend the errors above",
        quiet=False,
        hide_lines=(b"ninja: no work to do", b"ninja: Entering directory", b"Re-checking globbed directories"),
    )


def python_options(output: Path) -> dict[str, str]:
    return {
        "MSKPP_BUILD_PYTHON": "ON",
        "MSKPP_PYTHON_OUTPUT_DIR": str(output),
        "Python_EXECUTABLE": str(PYTHON),
    }


def build_python() -> None:
    compile_folder(configure("python", python_options(PACKAGE)))
    ensure_editable()


def build_cpp(tests: bool = False, bench: bool = False) -> Path:
    """Builds build/cpp. What an earlier verb switched on stays on, so that verbs do not undo each other's work."""
    options = {}
    if tests:
        options.update({"MSKPP_BUILD_TESTS": "ON", "MSKPP_BUILD_EXAMPLES": "ON"})
    if bench:
        options["MSKPP_BUILD_BENCH"] = "ON"
    folder = configure("cpp", options)
    compile_folder(folder)
    return folder


def prepare(tests: bool = False, bench: bool = False) -> None:
    ensure_machine(tests, bench)
    ensure_venv()


OVERLAY_HOOK = """\
# Made by build.py. Makes this folder's mskpp the one that is imported, whatever sys.path,
# the current folder or an editable install would choose.
import importlib.machinery
import os
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "mskpp":
            return None
        return importlib.machinery.PathFinder.find_spec(name, [os.path.dirname(os.path.abspath(__file__))])


sys.meta_path.insert(0, Finder)
"""


def overlay(name: str) -> Path:
    """A folder with a second mskpp package: the files of the first one, and room for another extension module.

    Put on PYTHONPATH it takes the place of the editable install, so that an instrumented module never lands in
    mskpp/. Returns the package.
    """
    package = BUILD / name / "mskpp"
    package.mkdir(parents=True, exist_ok=True)
    # Python imports sitecustomize from PYTHONPATH at every start, in the tests' own child processes too.
    (package.parent / "sitecustomize.py").write_text(OVERLAY_HOOK)
    wanted = {p.name: p for p in PACKAGE.iterdir() if p.name != "__pycache__" and not p.match("_core*.so")}
    for entry in package.iterdir():
        if entry.is_symlink() and (entry.name not in wanted or not entry.exists()):
            entry.unlink()
    for entry_name, source in wanted.items():
        if not (package / entry_name).is_symlink():
            (package / entry_name).symlink_to(source)
    return package


def check_overlay(package: Path, env: dict[str, str]) -> None:
    """Testing the plain module by mistake would look like a pass."""
    code = "import mskpp._core as m; print(m.__file__)"
    found = must([PYTHON, "-c", code], "the instrumented module cannot be imported", "look at the lines above", env=env)
    if Path(found.strip().splitlines()[-1]).parent != package:
        raise Failure(f"Python imports {found.strip()} instead of {package}", "report this as an error of build.py")


# --------------------------------------------------------------------------- running tests


def run_ctest(folder: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    kept: list[bytes] = []
    code = run(
        [BIN / "ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "-j", str(CORES)],
        keep=kept,
        env=env,
    )
    return code, closing_line(kept, r"\d+% tests passed.*|No tests were found.*", code)


def run_pytest(arguments: list[str | Path], env: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs pytest, spread over the cores."""
    kept: list[bytes] = []
    command: list[str | Path] = [PYTHON, "-m", "pytest"]
    if CORES > 1:
        # More workers than this cost more to start than they save.
        command += ["-n", str(min(CORES, 8))]
    if sys.stdout.isatty():
        command.append("--color=yes")
    code = run([*command, *arguments], keep=kept, env=env)
    return code, closing_line(kept, r"(?:=+ )?(?:\d+ [a-z]+|no tests ran).* in \d.*", code)


def closing_line(output: list[bytes], pattern: str, code: int) -> str:
    """The last line of a test runner that tells how it went."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", b"".join(output).decode(errors="replace"))
    found = re.findall(rf"^(?:{pattern})$", text, re.MULTILINE)
    return found[-1].strip("= ") if found else f"no closing line, exit code {code}"


def close(lines: list[str], failed: bool) -> int:
    for line in lines:
        say(line)
    say("FAILED" if failed else "OK")
    return 1 if failed else 0


def verb_test(arguments: argparse.Namespace) -> int:
    extra: list[str] = arguments.rest
    codes = []
    if arguments.coverage:
        codes.append(test_coverage(extra))
    if arguments.sanitize:
        codes.append(test_sanitize(extra))
    if codes:
        return max(codes)

    cpp = arguments.cpp or not extra
    with locked():
        prepare(tests=cpp)
        build_python()
        folder = build_cpp(tests=True) if cpp else None
    if folder is None:
        # Straight to the terminal, so that --pdb and the like work.
        return run([PYTHON, "-m", "pytest", *extra])
    ctest_code, ctest_line = run_ctest(folder)
    pytest_code, pytest_line = run_pytest([*extra])
    return close([f"C++ tests: {ctest_line}", f"Python tests: {pytest_line}"], bool(ctest_code or pytest_code))


def test_coverage(extra: list[str]) -> int:
    """Line coverage of csrc/ by both test suites, and of mskpp/ by pytest."""
    with locked():
        prepare(tests=True)
        build_python()
        package = overlay("coverage-python")
        options = {"MSKPP_BUILD_TESTS": "ON", "MSKPP_COVERAGE": "ON", **python_options(package)}
        folder = configure("coverage", options, "Debug")
        compile_folder(folder)
    for counters in folder.rglob("*.gcda"):
        counters.unlink()
    report = folder / "python-coverage.json"
    summary = folder / "cpp-coverage.json"
    for old in (report, summary):
        old.unlink(missing_ok=True)

    ctest_code, ctest_line = run_ctest(folder)
    env = environment(PYTHONPATH=str(package.parent), COVERAGE_FILE=str(folder / "python.coverage"))
    check_overlay(package, env)
    reports = ["--cov=mskpp", "--cov-report=term-missing:skip-covered", f"--cov-report=json:{report}"]
    pytest_code, pytest_line = run_pytest([*reports, *extra], env=env)
    gcovr_code = run(
        [
            *(BIN / "gcovr", "--root", ROOT, "--filter", re.escape(f"{ROOT}/csrc/"), "--gcov-executable", find_gcov()),
            *("--exclude-unreachable-branches", "--exclude-throw-branches", "-j", str(CORES)),
            *("--txt", "-", "--json-summary", summary, folder),
        ]
    )
    cpp = read_json(summary).get("line_percent")
    totals = read_json(report).get("totals")
    python = totals.get("percent_covered") if isinstance(totals, dict) else None
    good = all(isinstance(x, (int, float)) and x >= COVERAGE_MINIMUM for x in (cpp, python))
    shown = [f"{x:.1f} %" if isinstance(x, (int, float)) else "unknown" for x in (cpp, python)]
    return close(
        [
            f"C++ tests: {ctest_line}",
            f"Python tests: {pytest_line}",
            f"line coverage: csrc {shown[0]}, mskpp {shown[1]}; at least {COVERAGE_MINIMUM:.0f} % is required of each",
        ],
        bool(ctest_code or pytest_code or gcovr_code) or not good,
    )


def find_gcov() -> str:
    """The gcov that reads what our compiler writes."""
    compiler = find_compiler() or ["g++"]
    if probe(compiler, "__clang_major__") != "__clang_major__":
        suffix = re.search(r"(-\d+)?$", compiler[-1])
        return f"llvm-cov{suffix[0] if suffix else ''} gcov"
    return re.sub(r"[gc]\+\+(?=(-\d+)?$)", "gcov", compiler[-1])


def sanitizer_libraries() -> str:
    """What LD_PRELOAD needs: Python itself is not instrumented, so the sanitizer must be loaded before it.

    libstdc++ goes along, or the sanitizer cannot follow C++ exceptions.
    """
    compiler = find_compiler() or ["g++"]
    paths = []
    for library in ("libasan.so", "libubsan.so", "libstdc++.so"):
        question: list[str | Path] = [*compiler, f"-print-file-name={library}"]
        text = must(question, f"{compiler[-1]} does not tell where its libraries are", "set CXX to g++")
        if not os.path.isabs(text.strip()):
            raise Failure(f"{compiler[-1]} has no shared {library}", "set CXX to g++ for --sanitize")
        paths.append(os.path.realpath(text.strip()))
    return " ".join(paths)


def test_sanitize(extra: list[str]) -> int:
    """Both test suites on code built with the address and undefined behaviour sanitizers."""
    with locked():
        prepare(tests=True)
        preload = sanitizer_libraries()
        build_python()
        package = overlay("sanitize-python")
        options = {"MSKPP_BUILD_TESTS": "ON", "MSKPP_SANITIZE": "ON", **python_options(package)}
        folder = configure("sanitize", options, "RelWithDebInfo")
        compile_folder(folder)
    ubsan = "print_stacktrace=1"
    ctest_code, ctest_line = run_ctest(folder, env=environment(UBSAN_OPTIONS=ubsan))
    # Reports go to files: pytest would swallow those of its workers, and a test may not look at its child's exit code.
    for old in folder.glob("report.*"):
        old.unlink()
    log = f"log_path={folder / 'report'}"
    env = environment(
        PYTHONPATH=str(package.parent),
        LD_PRELOAD=preload,
        # Python frees little at its end, which is no leak of ours.
        ASAN_OPTIONS=f"detect_leaks=0:{log}",
        UBSAN_OPTIONS=f"{ubsan}:{log}",
    )
    check_overlay(package, env)
    cases = ROOT / "test" / "case"
    what = extra or [str(cases if cases.is_dir() else "test")]
    pytest_code, pytest_line = run_pytest([*what], env=env)
    reports = sorted(folder.glob("report.*"))
    for report in reports:
        print(report.read_text(errors="replace"), flush=True)
    failed = bool(ctest_code or pytest_code or reports)
    verdict = "a test failed or a sanitizer reported, see above" if failed else "no report"
    lines = [f"C++ tests: {ctest_line}", f"Python tests: {pytest_line}", f"sanitizers address, undefined: {verdict}"]
    return close(lines, failed)


# --------------------------------------------------------------------------- the other verbs


def verb_build(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
        build_python()
    say(f"built; run it with {os.path.relpath(PYTHON)}")
    return 0


def verb_demo(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
        build_python()
    rest = list(arguments.rest)
    number = rest.pop(0) if rest and re.fullmatch(r"\d\d", rest[0]) else "01"
    found = [*(ROOT / "example").glob(f"{number}_*.py"), *(ROOT / "example").glob(f"{number}_*/*.py")]
    if len(found) != 1:
        raise Failure(f"there is no example {number}", "see example/README.md")
    return run([PYTHON, found[0], *rest], cwd=os.getcwd())


def verb_bench(arguments: argparse.Namespace) -> int:
    with locked():
        prepare(bench=True)
        build_python()
        folder = build_cpp(bench=True)
    bench = ROOT / "test" / "bench"
    if arguments.rest == ["--tune"]:
        return run([PYTHON, bench / "run_tune_bench.py"])
    return run([PYTHON, bench / "run_bench.py", "--cpp-bench", folder / "bin" / "mskpp_bench", *arguments.rest])


def verb_wheel(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
        # From nothing, so that no left-over of an earlier build gets in.
        shutil.rmtree(BUILD / "wheel", ignore_errors=True)
        OUTPUT.mkdir(exist_ok=True)
        for old in OUTPUT.glob("mskpp-*.whl"):
            old.unlink()
        say("building the wheel")
        # pip and not `python -m build`, which would start this file instead.
        must(
            [
                *(PYTHON, "-m", "pip", "wheel", "-q", "--no-input", "--disable-pip-version-check"),
                *("--no-build-isolation", "--no-deps", *setting("build-dir=build/wheel"), "-w", OUTPUT, ROOT),
            ],
            "pip could not build the wheel",
            "look at the lines above",
        )
        wheels = list(OUTPUT.glob("mskpp-*.whl"))
        if len(wheels) != 1:
            raise Failure(f"output/ holds {len(wheels)} wheels instead of 1", "report this as an error of build.py")
    check_wheel(wheels[0])
    return 0


def check_wheel(wheel: Path) -> None:
    """Looks into the wheel, then installs it into an environment of its own and imports it."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = [name for name in names if re.fullmatch(r"mskpp/_core\..*\.so", name)]
    strangers = [name for name in names if not re.match(r"mskpp/|mskl/|mskpp-[^/]+\.dist-info/", name)]
    kinds = (".py", ".pyi", ".csv", "/py.typed", ".h", ".in")
    ours = [*PACKAGE.rglob("*"), *(ROOT / "mskl").rglob("*")]
    files = [p for p in ours if p.is_file() and str(p).endswith(kinds) and "__pycache__" not in p.parts]
    lost = {str(p.relative_to(ROOT)) for p in files} - names
    if len(modules) != 1 or strangers or lost:
        raise Failure(
            f"{wheel.name} has the wrong content: modules {modules}, not ours {strangers}, lost {sorted(lost)}",
            "correct pyproject.toml or .gitignore",
        )
    say("checking the wheel in an environment of its own")
    with tempfile.TemporaryDirectory(prefix="mskpp-wheel-") as folder:
        python = Path(folder, "venv", "bin", "python")
        must([BASE_PYTHON, "-m", "venv", python.parent.parent], "could not make an environment", "see above")
        pip: list[str | Path] = [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
        # The pins as constraints: the check then sees what the tests saw.
        must([*pip, "-c", REQUIREMENTS[0], wheel], f"pip could not install {wheel.name}", "look at the lines above")
        code = "import mskpp; print(mskpp.__version__)"
        version = must([python, "-c", code], f"mskpp from {wheel.name} cannot be imported", "see above", cwd=folder)
    if version.strip() != package_version():
        raise Failure(f"the wheel says version {version.strip()}", f"it should be {package_version()}")
    size = wheel.stat().st_size // 1024
    say(f"{wheel.relative_to(ROOT)} (version {version.strip()}, {size} KiB) installs and runs")


def verb_lint(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
    fix = arguments.fix
    sources = [p for folder in ("csrc", "test/csrc", "test/bench", "example/cpp") for p in (ROOT / folder).rglob("*")]
    sources = sorted(p for p in sources if p.suffix in (".h", ".hpp", ".cpp"))
    checks: dict[str, list[str | Path]] = {
        "ruff check": [BIN / "ruff", "check", *(["--fix"] if fix else []), ROOT],
        "ruff format": [BIN / "ruff", "format", *([] if fix else ["--check"]), ROOT],
        "mypy": [BIN / "mypy", PACKAGE],
    }
    if sources:
        checks["clang-format"] = [BIN / "clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *sources]
    failed = []
    for name, command in checks.items():
        say(name)
        if run(command) != 0:
            failed.append(name)
    if failed:
        raise Failure(f"lint failed: {', '.join(failed)}", "mend what is listed above, or try 'build.py lint --fix'")
    say("lint OK")
    return 0


def verb_golden(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
        build_python()
    return run([PYTHON, "-m", "pytest", "--update-golden", *(arguments.rest or ["test"])])


def verb_docs(arguments: argparse.Namespace) -> int:
    with locked():
        prepare()
        build_python()
    return run([PYTHON, ROOT / "docs" / "make_docs.py", *arguments.rest])


def verb_clean(arguments: argparse.Namespace) -> int:
    """Removes what build.py and its tools made. A symbolic link is never followed, and never ours."""

    def remove(path: Path) -> None:
        if path.is_symlink():
            say(f"kept {path.relative_to(ROOT)}: a link, not made by build.py")
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def remove_if_empty(folder: Path) -> None:
        if not folder.is_dir() or folder.is_symlink():
            return
        left = sorted(p.name for p in folder.iterdir())
        if left:
            say(f"kept {folder.name}/: not made by build.py: {', '.join(left)}")
        else:
            folder.rmdir()

    with locked():
        if VENV.is_symlink() or (VENV.exists() and not venv_is_ours()):
            say("kept .venv: not made by build.py")
        else:
            remove_venv()
        for folder, ours in ((BUILD, BUILD_DIRS), (OUTPUT, ["mskpp-*.whl"])):
            if folder.is_symlink():
                remove(folder)
                continue
            for path in [p for pattern in ours for p in folder.glob(pattern)]:
                remove(path)
            remove_if_empty(folder)
        for pattern in ("mskpp/_core*.so", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage*"):
            for path in ROOT.glob(pattern):
                remove(path)
        for place, folders, _ in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in (".git", ".venv", "build", "output")]
            if "__pycache__" in folders:
                folders.remove("__pycache__")
                remove(Path(place, "__pycache__"))
    say("clean")
    return 0


# --------------------------------------------------------------------------- the command line


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="Builds, tests and packages mskpp. Without a verb: build into .venv, ready to import.",
        epilog="examples:\n"
        "  python3 build.py                     build into .venv\n"
        "  python3 build.py test                every test, C++ and Python\n"
        "  python3 build.py test -k matmul      only some Python tests\n"
        "  python3 build.py test --coverage     tests with line coverage\n\n"
        "Needs g++ >= 12 or clang++ >= 14 and Python's headers; as root on Debian, what\n"
        "is missing is installed, otherwise the command that installs it is printed.\n"
        "CXX chooses the compiler. Exit code: 0 good, 1 failed, 2 wrong usage, 130 Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(function=verb_build, passes_on=False)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB")

    def add(name: str, function: object, text: str, passes_on: str = "") -> argparse.ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"More arguments are passed on to {passes_on}." if passes_on else None,
            usage=f"build.py {name} [options]" + (" [ARGS ...]" if passes_on else ""),
            allow_abbrev=False,
        )
        verb.set_defaults(function=function, passes_on=bool(passes_on))
        return verb

    add("demo", verb_demo, "build, then run an example here: 01, or the number that ARGS begin with", "the example")
    test = add("test", verb_test, "build and run the C++ and the Python tests; with ARGS only pytest", "pytest")
    test.add_argument("--cpp", action="store_true", help="run the C++ tests even when ARGS are given")
    test.add_argument(
        "--coverage", action="store_true", help=f"measure line coverage; below {COVERAGE_MINIMUM:.0f} %% fails"
    )
    test.add_argument("--sanitize", action="store_true", help="run with the address and undefined sanitizers")
    add("bench", verb_bench, "build for speed and run the benchmarks", "test/bench/run_bench.py")
    add("wheel", verb_wheel, "build a wheel into output/ and check that it installs and runs")
    lint = add("lint", verb_lint, "check style and types: ruff, mypy, clang-format")
    lint.add_argument("--fix", action="store_true", help="reformat and mend what can be mended")
    add("golden", verb_golden, "rebuild, then write the expected results of the tests anew", "pytest")
    add("docs", verb_docs, "build, then make the documentation", "docs/make_docs.py")
    add("clean", verb_clean, "remove everything that build.py made")

    arguments, rest = parser.parse_known_args(argv)
    if rest and not arguments.passes_on:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    arguments.rest = [part for i, part in enumerate(rest) if not (i == 0 and part == "--")]
    return arguments


def main(argv: list[str]) -> int:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped(signum)

    for name in STOP_SIGNALS:
        # One that was ignored from outside (nohup) stays ignored.
        if signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(name, stop)
    try:
        arguments = parse(argv)
        code: int = arguments.function(arguments)
        return code
    except Failure as failure:
        sys.stdout.flush()
        print(f"build: {failure}", file=sys.stderr)
        return failure.code
    except Stopped as stopped:
        print("\nbuild: stopped", file=sys.stderr)
        return 128 + stopped.signum
    except BrokenPipeError:
        # The reader of our output has gone; there is no one left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as problem:
        print(f"build: {problem}; check that file, its rights and the space on the disk", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
