# SPDX-License-Identifier: Apache-2.0
"""compile(): scripts and the built-in command, what is reused and what never, limits, interrupts, messages."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from utils.kernels import FAST, python, running, wait_until, write

from mskpp.errors import ArgumentError, BackendError, CompileError, FileError, InputError, TimeLimitError, UnsafeError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile, compile_executable, compiler, record

SOURCE = '#include "value.h"\n__global__ __aicore__ void k(GM_ADDR x) { x[GetBlockIdx()] = VALUE; }\n'


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Launch code of a kernel that stores what value.h says."""
    monkeypatch.setenv("MSKPP_BACKEND", "host")
    write(tmp_path / "value.h", "#define VALUE 1\n")
    write(tmp_path / "k.cpp", SOURCE)
    return Launcher(KernelInvokeConfig("k.cpp", "k")).code_gen("gen.cpp")


def stored(kernel: CompiledKernel) -> int:
    x = numpy.zeros(2, numpy.uint8)
    kernel[2](x)
    assert x[0] == x[1]
    return int(x[0])


LONG = 10**8 + os.getpid()  # seconds of a sleep that can be told from anybody else's


def script(text: str, name: str = "build.sh") -> str:
    write(Path(name), text).chmod(0o700)
    return name


# ------------------------------------------------------------------------------------------------------ stale code


def test_two_compilations_to_one_output_run_each_their_own_code(generated: str) -> None:
    first = compile(gen_file=generated, options=FAST)
    write(Path("value.h"), "#define VALUE 2\n")
    second = compile(gen_file=generated, options=FAST)
    assert (first.module_path, first.kernel_name) == (second.module_path, "k")
    assert (stored(second), stored(first), stored(second)) == (2, 1, 2)
    Path("_gen_module.so").unlink()
    assert (stored(second), stored(first)) == (2, 1)

    # A failing compilation leaves nothing that a later one could take for its own.
    write(Path("value.h"), "#define VALUE bad\n")
    compile_again = [False, True]
    for use_cache in compile_again:
        with pytest.raises(CompileError, match=r"\Wbad\W was not declared"):
            compile(gen_file=generated, options=FAST, use_cache=use_cache)
        assert not Path("_gen_module.so").exists() and not Path("_gen_module.so.mskpp").exists()


def test_the_cache_sees_a_header_of_the_kernel_and_options(generated: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mskpp")

    def made(*options: str) -> tuple[int, bool]:
        caplog.clear()
        value = stored(compile(gen_file=generated, options=[*FAST, *options], use_cache=True))
        return value, "nothing is compiled" not in caplog.text

    assert made() == (1, True)
    assert made() == (1, False)
    write(Path("value.h"), "#ifndef VALUE\n#define VALUE 3\n#endif\n")
    assert made() == (3, True)
    assert made("-DVALUE=4") == (4, True)
    assert made("-DVALUE=4") == (4, False)
    assert made() == (3, True)
    os.utime("value.h")
    assert made() == (3, False)  # what is in the files counts, not when they were written


# A build script that takes no time: the "library" is the source, and it says what it has read.
FAKE = """
echo run >> {folder}/log
cp "$1" "$2"
printf '%s\\n' "$1" {folder}/value.h >> "$MSKPP_DEPENDENCIES"
"""


class Builds:
    """Compilations with the script that counts its runs."""

    def __init__(self, folder: Path, generated: str) -> None:
        self.folder, self.generated = folder, generated
        self.script = script(FAKE.format(folder=folder))
        self.output = folder / "_gen_module.so"
        self.record = folder / "_gen_module.so.mskpp"

    def again(self, **options: Any) -> bool:
        """Compiles with use_cache; whether the script ran."""
        before = self.count()
        compile(self.script, self.generated, use_cache=True, **options)
        return self.count() > before

    def count(self) -> int:
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def builds(tmp_path: Path, generated: str) -> Builds:
    found = Builds(tmp_path, generated)
    assert found.again()
    assert not found.again()
    return found


def append(name: str) -> Callable[..., None]:
    def change(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
        path = builds.folder / name
        path.write_text(path.read_text() + "\n")

    return change


def environment(name: str, value: str) -> Callable[..., None]:
    return lambda builds, monkeypatch: monkeypatch.setenv(name, value)


def rewritten(path: str, data: bytes) -> Callable[..., None]:
    return lambda builds, monkeypatch: (builds.folder / path).write_bytes(data)


CHANGES: dict[str, Callable[..., None]] = {
    "launch code": append("gen.cpp"),
    "kernel's source": append("k.cpp"),
    "included header": append("value.h"),
    "included header is gone": lambda builds, monkeypatch: (builds.folder / "value.h").unlink(),
    "script": append("build.sh"),
    "compiler": environment("CXX", "clang++" if shutil.which("clang++") else "g++ -v"),
    "compiler by our variable": environment("MSKPP_CXX", "env g++"),
    "include path": environment("CPATH", "/nonexistent"),
    "flags": environment("CXXFLAGS", "-O1"),
    "PATH": lambda builds, monkeypatch: monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/nonexistent"),
    "toolkit": environment("ASCEND_HOME_PATH", "/nonexistent"),
    "version": lambda builds, monkeypatch: monkeypatch.setattr(compiler, "__version__", "0"),
    "output replaced": rewritten("_gen_module.so", b"another"),
    "output emptied": rewritten("_gen_module.so", b""),
    "output is gone": lambda builds, monkeypatch: builds.output.unlink(),
    "record is gone": lambda builds, monkeypatch: builds.record.unlink(),
    "record is empty": rewritten("_gen_module.so.mskpp", b""),
    "record is no text": rewritten("_gen_module.so.mskpp", b"\xff\xfe\0"),
    "record is a list": rewritten("_gen_module.so.mskpp", b"[1, 2]"),
    "record is a number": rewritten("_gen_module.so.mskpp", b"1e999"),
    "record is a null": rewritten("_gen_module.so.mskpp", b"null"),
    "record is odd inside": rewritten("_gen_module.so.mskpp", b'{"included": 5, "output": null}'),
    "record names odd files": rewritten("_gen_module.so.mskpp", b'{"included": {"\\u0000": "x"}, "output": "y"}'),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_makes_use_cache_compile_again(
    builds: Builds, change: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(builds, monkeypatch)
    assert builds.again()
    assert builds.output.read_bytes() == (builds.folder / "gen.cpp").read_bytes()
    (builds.folder / "value.h").touch()
    builds.again()
    assert not builds.again()


def test_what_does_not(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (*builds.folder.glob("*.cpp"), builds.folder / "value.h", builds.output):
        os.utime(path)
    monkeypatch.setenv("HOME", "/nonexistent")
    assert not builds.again()


def test_without_use_cache_it_always_compiles(builds: Builds) -> None:
    for _ in range(2):
        compile(builds.script, builds.generated)
    assert builds.count() == 3
    assert not builds.again()


def test_another_script_of_the_same_text_is_another(builds: Builds) -> None:
    shutil.copy2("build.sh", "build2.sh")
    builds.script = "build2.sh"
    assert builds.again()


def test_a_record_cut_at_any_byte_is_a_miss(builds: Builds) -> None:
    whole = builds.record.read_bytes()
    assert json.loads(whole)["kernel"] is not None
    fixed = {key: value for key, value in json.loads(whole).items() if key not in ("included", "output")}
    assert record.is_current(builds.output, fixed)
    for length in range(len(whole)):
        builds.record.write_bytes(whole[:length])
        assert not record.is_current(builds.output, fixed), length
    for at in range(len(whole)):
        builds.record.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        assert not record.is_current(builds.output, fixed), at
    builds.record.write_bytes(whole)
    assert record.is_current(builds.output, fixed)


def test_nothing_is_reused_where_the_compiler_does_not_say_what_it_read(generated: str, tmp_path: Path) -> None:
    silent = script(f'echo run >> {tmp_path}/log; cp "$1" "$2"')
    for _ in range(2):
        compile(silent, generated, use_cache=True)
    assert Path("log").read_text() == "run\nrun\n"


def test_a_header_that_changes_while_it_is_compiled(builds: Builds) -> None:
    """Which of its texts was compiled is not known."""
    script(f'{FAKE.format(folder=builds.folder)}\necho "#define VALUE 9" > value.h', "build.sh")
    assert builds.again()
    assert builds.again()


def test_the_record_and_the_library_are_the_users_alone(builds: Builds) -> None:
    assert builds.record.stat().st_mode & 0o777 == 0o600
    assert builds.output.stat().st_mode & 0o777 == 0o600


def test_processes_that_compile_to_one_output(generated: str, tmp_path: Path) -> None:
    """Each ends up with a library of its own text, whoever comes first; one compilation at a time."""
    busy = script(f"""
        mkdir {tmp_path}/busy || exit 1
        sleep 0.1
        cp "$1" "$2"
        rmdir {tmp_path}/busy
    """)
    code = f"""
        import sys, time
        from pathlib import Path
        from mskpp.launcher import CompiledKernel, compile, compiler

        class Slow(CompiledKernel):
            def __init__(self, *args, **keywords):
                time.sleep(0.05)
                super().__init__(*args, **keywords)

        compiler.CompiledKernel = Slow
        Path(f"gen{{sys.argv[1]}}.cpp").write_text("// mskpp_launch\\n// " + sys.argv[1] * 100)
        kernel = compile({busy!r}, f"gen{{sys.argv[1]}}.cpp", "one.so")
        print(Path(kernel._library._path).read_text()[-100:] == sys.argv[1] * 100)
    """
    program = write(tmp_path / "many.py", code)
    children = [
        subprocess.Popen([sys.executable, program, str(i)], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        for i in range(4)
    ]
    assert [child.communicate(timeout=60)[0] for child in children] == ["True\n"] * 4


def test_threads_that_compile_to_one_output(builds: Builds) -> None:
    failures: list[BaseException] = []

    def one() -> None:
        try:
            builds.again()
        except BaseException as error:
            failures.append(error)

    builds.record.unlink()
    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and builds.count() == 2


# ------------------------------------------------------------------------------------------------------------- scripts


def test_a_script_gets_absolute_paths_and_may_go_elsewhere(generated: str, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    name = script(f'echo "$#|$PWD|$1|$2" > {tmp_path}/said; cd /; cp "$1" "$2"', "a b/build it.sh")
    kernel = compile(name, generated, "a b/out put.so")
    assert (tmp_path / "said").read_text() == f"2|{tmp_path}|{tmp_path}/gen.cpp|{tmp_path}/a b/out put.so\n"
    assert kernel.module_path == str(tmp_path / "a b" / "out put.so")


def test_a_script_for_the_toolkits_compiler_runs_unchanged(generated: str) -> None:
    name = script("""
        set -e
        LAUNCH_SRC_FILE=$1
        OUTPUT_LIB_FILE=$2
        cd "$(dirname "$0")"
        command -v mskpp-cc > /dev/null
        bisheng -O0 -fPIC -shared -xcce --cce-aicore-arch=dav-c220 -mllvm -cce-aicore-stack-size=0x8000 \\
            -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -lruntime --std=c++17 \\
            -Xhost-start -Werror -Xhost-end "$LAUNCH_SRC_FILE" -o "$OUTPUT_LIB_FILE"
    """)
    assert stored(compile(build_script=name, launch_src_file=generated, output_bin_path="out.so")) == 1
    assert stored(compile(name, generated, "out.so", True)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo to stdout; echo to stderr >&2; exit 3",
         "ended with exit code 3\n  bash .*build.sh .*gen.cpp .*so\n  to stderr"),
        ("echo only stdout; exit 1", "ended with exit code 1\n  bash .*\n  only stdout"),
        ("kill -SEGV $$", r"ended with SIGSEGV \(memory that is not its own\)\n  bash "),
        ("nonexistent-compiler x", "exit code 127\n.*\n.*nonexistent-compiler: command not found"),
        ("if true; then", "exit code 2\n.*\n.*syntax error"),
        ("printf 'caf\\xe9 \\xff\\n' >&2; exit 1", "\n  caf\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}"),
        ("true", r"ended well but wrote no .*out\.so; a build script must write its second argument\n  bash "),
        ("mkdir $2", r"ended well but wrote no .*out\.so"),
        ("ln -s $1 $2", r"ended well but wrote no .*out\.so"),
        ("for i in $(seq 1000); do echo line $i; done; exit 1",
         "(?s)exit code 1\n  bash .*\n  line 981\n.*\n  line 1000$"),
    ],
)  # fmt: skip
def test_a_script_that_fails(generated: str, text: str, message: str) -> None:
    write(Path("out.so"), "of before")
    with pytest.raises(CompileError, match=message) as caught:
        compile(script(text), generated, "out.so")
    assert str(caught.value).startswith("compile: the compilation ")
    assert not Path("out.so").is_file() or Path("out.so").is_symlink()
    assert not Path("out.so.mskpp").exists()


def test_what_a_script_says_is_logged(generated: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mskpp")
    compile(script("echo -e 'h\\xffi'; echo warning >&2; cp $1 $2"), generated)
    assert tuple(r.getMessage() for r in caplog.records[:2]) == (
        "compile: h\N{REPLACEMENT CHARACTER}i",
        "compile: warning",
    )


def test_a_script_that_hangs_is_ended_with_all_it_started(generated: str) -> None:
    name = script(f"sleep {LONG}1 & (setsid sleep {LONG}2 &) ; echo begun; sleep {LONG}3")
    begin = time.monotonic()
    with pytest.raises(TimeLimitError, match=r"compile: bash .*did not end within 0\.5 s .*\n  begun"):
        compile(name, generated, timeout=0.5)
    assert time.monotonic() - begin < 5
    assert not running(f"sleep\0{LONG}")
    assert not Path("_gen_module.so").exists()


def test_what_a_script_leaves_behind_is_ended(generated: str) -> None:
    compile(script(f"sleep {LONG}4 & cp $1 $2"), generated, timeout=20)
    assert not running(f"{LONG}4")


@pytest.mark.parametrize("text", ["sudo make", "make && su -c x", "x=$(pkexec id)", "chmod u+s $2"])
def test_a_script_that_raises_privileges_is_not_run(generated: str, text: str) -> None:
    with pytest.raises(UnsafeError, match=r"compile: .*build\.sh"):
        compile(script(f"{text}; cp $1 $2"), generated)


def test_interrupt_while_compiling(generated: str, tmp_path: Path) -> None:
    name = script(f"touch begun; exec sleep {LONG}5")
    child = python(
        tmp_path,
        f"""
        import os
        from mskpp.launcher import compile
        try:
            compile({name!r}, "gen.cpp")
        except KeyboardInterrupt:
            print("interrupted", [n for n in os.listdir() if n.startswith((".mskpp", "_gen"))])
        """,
    )
    assert wait_until(lambda: (tmp_path / "begun").exists())
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (out, err) == ("interrupted []\n", "") and time.monotonic() - begin < 2
    assert not running(f"{LONG}5")


def test_a_killed_compilation_blocks_no_later_one(
    generated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the child's locks are
    name = script(f"touch begun; sleep {LONG}6; cp $1 $2")
    child = python(tmp_path, f"from mskpp.launcher import compile\ncompile({name!r}, 'gen.cpp')\n")
    assert wait_until(lambda: (tmp_path / "begun").exists())
    child.kill()
    child.communicate()
    compile(script("cp $1 $2", "other.sh"), generated, timeout=20)
    assert wait_until(lambda: not running(f"{LONG}6"), 5)


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ArgumentError, "compile: 0 of gen_file, launch_src_file are given; give one, the source to compile"),
        ({"gen_file": "gen.cpp", "launch_src_file": "x"}, ArgumentError, "compile: 2 of gen_file, launch_src_file"),
        ({"gen_file": 5}, ArgumentError, "compile: gen_file is int; it must be a str"),
        ({"gen_file": "gen.cpp", "build_script": 5}, ArgumentError, "compile: build_script is int; it must be a str"),
        ({"gen_file": "gen.cpp", "output_bin_path": None}, ArgumentError, "compile: output_bin_path is NoneType"),
        ({"gen_file": "gen.cpp", "use_cache": 1}, ArgumentError, "compile: use_cache is int; it must be a bool"),
        ({"gen_file": "gen.cpp", "options": "-O2"}, ArgumentError, "compile: options is str; it must be a list of str"),
        ({"gen_file": "gen.cpp", "options": [1]}, ArgumentError, "compile: options is list; it must be a list of str"),
        ({"gen_file": "gen.cpp", "options": ["-O2"], "build_script": "b.sh"}, InputError, None),
        ({"gen_file": "absent.cpp"}, FileError, r"compile: .*absent\.cpp.*does not exist"),
        ({"gen_file": "."}, FileError, "compile: .*is a folder"),
        ({"gen_file": "gen.cpp", "build_script": "absent.sh"}, FileError, r"compile: .*absent\.sh"),
        ({"gen_file": "gen.cpp", "output_bin_path": "out"}, InputError, r"compile: 'out' must end with '\.so'"),
        ({"gen_file": "gen.cpp", "output_bin_path": "absent/out.so"}, FileError, "compile: output folder"),
        ({"gen_file": "gen.cpp", "output_bin_path": "folder.so"}, FileError, "compile: .*is a folder already"),
        ({"gen_file": "gen.cpp", "output_bin_path": "link.so"}, UnsafeError, "compile: .*is a link"),
        ({"gen_file": "gen.cpp", "output_bin_path": "a\nb.so"}, InputError, "compile: .*control character"),
        ({"gen_file": "gen.cpp", "output_bin_path": "a" * 300 + ".so"}, InputError, "compile: the name 'a+'"),
        ({"gen_file": "gen.cpp", "backend": 5}, ArgumentError, "compile: backend is int; it must be one of auto, ho"),
        ({"gen_file": "gen.cpp", "backend": "npu"}, InputError, "compile: backend is 'npu'; allowed are auto, host, a"),
        ({"gen_file": "gen.cpp", "timeout": 0}, InputError, "compile: timeout is 0; it must be above 0"),
        ({"gen_file": "gen.cpp", "timeout": "1"}, ArgumentError, "compile: timeout is '1'; give a number"),
    ],
)  # fmt: skip
def test_wrong_arguments(
    generated: str, arguments: dict[str, Any], error: type[Exception], message: str | None
) -> None:
    script("cp $1 $2", "b.sh")
    Path("folder.so").mkdir()
    Path("link.so").symlink_to("victim")
    if message is None:
        error, message = (
            ArgumentError,
            "compile: options are for a compilation without build_script; a script has its own",
        )
    with pytest.raises(error, match=f"^{message}"):
        compile(**arguments)
    assert not Path("victim").exists()


@pytest.mark.parametrize("output", ["gen.cpp", "k.cpp", "b.sh", "./../{folder}/gen.cpp"])
def test_the_output_may_not_be_what_is_compiled(generated: str, tmp_path: Path, output: str) -> None:
    name = script("cp $1 $2", "b.sh")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"compile_executable: output_bin_path is .*, which is what is to be compiled"):
        compile_executable(name, generated, output.format(folder=tmp_path.name))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("value", ["host", " HOST ", "auto", ""])
def test_the_backend_of_the_environment(generated: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSKPP_BACKEND", value)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    compile(script("command -v bisheng > said; cp $1 $2"), generated)
    assert "mskpp-bin-" in Path("said").read_text()


def test_a_backend_that_does_not_exist(generated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSKPP_BACKEND", "gpu")
    with pytest.raises(InputError, match="compile: MSKPP_BACKEND is 'gpu'; allowed are auto, host, ascend"):
        compile(script("cp $1 $2"), generated)
    compile("build.sh", generated, backend="host")  # the argument counts first
    monkeypatch.setenv("MSKPP_BACKEND", "ascend")
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(BackendError, match="ASCEND_HOME_PATH"):
        compile("build.sh", generated).launch(blockdim=1)


def test_without_a_compiler(generated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BackendError, match=r"backend host: no C\+\+ compiler: neither g\+\+ nor"):
        compile(gen_file=generated)


def test_an_error_in_the_kernel_shows_the_command_and_its_line(generated: str, tmp_path: Path) -> None:
    write(Path("k.cpp"), SOURCE + "\nint f() { return undefined; }\n")
    with pytest.raises(CompileError) as caught:
        compile(gen_file=generated, options=FAST)
    lines = str(caught.value).splitlines()
    assert lines[0] == "compile: the compilation ended with exit code 1"
    assert re.search(r"cc\.py -O0 -shared \S*/gen\.cpp -o \S*/_gen_module\.so$", lines[1])
    assert re.search(rf"{tmp_path}/k\.cpp:4:18: error: .undefined. was not declared", str(caught.value))


def test_no_temporary_file_is_left(generated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    kernel = compile(script("cp $1 $2"), generated)
    with pytest.raises(CompileError):
        compile(script("exit 1", "bad.sh"), generated)
    left = sorted(re.sub("-[^-]*$", "", path.name) for path in (tmp_path / "temporary").iterdir())
    assert left == ["mskpp-kernel", "mskpp-locks"]
    del kernel
    assert [path.name[:11] for path in (tmp_path / "temporary").iterdir()] == ["mskpp-locks"]


# ---------------------------------------------------------------------------------------- what others hold or put there


def test_a_fork_taken_while_compiling_holds_nothing_up(generated: str, tmp_path: Path) -> None:
    slow, fast = script("touch begun; sleep 0.5; cp $1 $2", "slow.sh"), script("cp $1 $2")
    child = python(
        tmp_path,
        f"""
        import os, signal, threading, time
        from mskpp.launcher import compile
        first = threading.Thread(target=compile, args=({slow!r}, "gen.cpp"))
        first.start()
        while not os.path.exists("begun"):
            time.sleep(0.01)
        fork = os.fork()
        if fork == 0:
            time.sleep(60)
            os._exit(0)
        first.join()
        compile({fast!r}, "gen.cpp", timeout=5)
        print("compiled")
        os.kill(fork, signal.SIGKILL)
        """,
    )
    assert child.communicate(timeout=30) == ("compiled\n", "")


def test_waiting_for_another_compilation_has_a_limit(generated: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    with (
        compiler.locked(tmp_path / "_gen_module.so", "x", None),
        pytest.raises(
            TimeLimitError,
            match=rf"compile: another compilation to the same output \(of process {os.getpid()}, or of a fork of it\) "
            r"did not end within 0\.3 s; .*_gen_module\.so$",
        ),
    ):
        compile(script("touch ran; cp $1 $2"), generated, timeout=0.3)
    assert 0.2 < time.monotonic() - begin < 5 and not Path("ran").exists()
    with compiler.locked(tmp_path / "x.so", "x", 5.0) as left:
        assert left == 5.0
    compile("build.sh", generated, timeout=5)


def lock_of(output: Path) -> Path:
    with compiler.locked(output, "x", None):
        folder = Path(tempfile.gettempdir()) / f"mskpp-locks-{os.geteuid()}"
        return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo, lambda path: os.symlink("victim", path)])
def test_something_else_where_the_lock_is(
    generated: str, tmp_path: Path, put: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lock = lock_of(tmp_path / "_gen_module.so")
    lock.unlink()
    put(lock)
    with pytest.raises(FileError, match=r"compile: the lock .*mskpp-locks-.*; remove it"):
        compile(script("cp $1 $2"), generated)
    assert not Path("victim").exists()


def test_the_folder_of_locks_is_somebody_elses(
    generated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path / f"mskpp-locks-{os.geteuid()}", "a file")
    compile(script("cp $1 $2"), generated)
    assert len(list((tmp_path / "cache" / "mskpp" / "locks").iterdir())) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with pytest.raises(
        FileError, match=r"compile: there is no folder for locks; set TMPDIR to .*mskpp-locks.*/dev/null"
    ):
        compile("build.sh", generated)


def test_no_folder_for_temporary_files(generated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileError, match=r"compile: no folder for temporary files can be made: No such file .* TMPDIR"):
        compile(script("cp $1 $2"), generated)


@pytest.mark.parametrize("more", [0, 1, 2, 3, 5, 8, 11])
def test_no_more_open_files(generated: str, tmp_path: Path, more: int) -> None:
    name = script("cp $1 $2")
    child = python(
        tmp_path,
        f"""
        import os, resource
        from mskpp.errors import MskppError
        from mskpp.launcher import compile
        compile({name!r}, "gen.cpp")  # imports what it needs
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + {more}, 4096))
        try:
            compile({name!r}, "gen.cpp")
            print("fine")
        except MskppError as error:
            print("Too many open files" in str(error) or str(error))
        """,
    )
    out, err = child.communicate(timeout=30)
    assert out in ("True\n", "fine\n") and err == ""


# ------------------------------------------------------------------------------------------------ what is not reused


REPLACE = "cp -p new.h other.h; mv other.h value.h"


@pytest.mark.parametrize(
    "change",
    [
        REPLACE,
        f"{REPLACE}; touch -d '1 year ago' value.h",
        "ln -sf new.h link.h",
        "cp -p gen.cpp kept; echo >> gen.cpp; mv kept gen.cpp",  # and back
    ],
)
def test_what_is_replaced_while_it_is_compiled(builds: Builds, change: str) -> None:
    write(Path("new.h"), "#define VALUE 2\n")
    Path("link.h").symlink_to("value.h")
    os.utime("new.h", (1e9, 1e9))
    note = f"printf '%s\\n' {builds.folder}/link.h >> \"$MSKPP_DEPENDENCIES\"\n"
    script(f"{FAKE.format(folder=builds.folder)}{note}{change}\n", "build.sh")
    assert builds.again()
    assert not builds.record.exists()
    assert builds.again()
    script(FAKE.format(folder=builds.folder) + note, "build.sh")
    assert builds.again()
    assert not builds.again()


def test_a_clock_that_went_back() -> None:
    now = record.Moment.now()
    assert not now.clock_went_back()
    assert record.Moment(now.real_ns + 60 * 10**9, now.steady_ns).clock_went_back()


def test_a_file_written_just_before_counts_as_unchanged(tmp_path: Path) -> None:
    for number in range(20):
        path = write(tmp_path / "x", str(number))
        now = record.Moment.now()
        assert record.unchanged(path, now) == record.digest(path)
        path.write_text("later")
        assert record.unchanged(path, now) is None


def test_libraries_and_headers_that_come_first(generated: str, tmp_path: Path) -> None:
    write(Path("value.h"), "#include <number.h>\n")
    for name in ("inc1", "inc2", "lib1", "lib2"):
        Path(name).mkdir()

    def library(path: str, value: int) -> None:
        write(Path("l.cpp"), f'extern "C" int value() {{ return {value}; }}\n')
        subprocess.run("g++ -fPIC -c l.cpp && rm -f new.a && ar rc new.a l.o", shell=True, check=True)
        os.replace("new.a", path)

    def made(*more: str) -> tuple[int, bool]:
        before = Path("_gen_module.so").stat().st_ctime_ns if Path("_gen_module.so").exists() else 0
        options = [*FAST, "-Iinc1", "-Iinc2", "-Llib1", "-L", "lib2", "-lmy", *more]
        kernel = compile(gen_file=generated, options=options, use_cache=True)
        return stored(kernel), Path("_gen_module.so").stat().st_ctime_ns != before

    library("lib2/libmy.a", 1)
    write(Path("inc2/number.h"), 'extern "C" int value();\n#define VALUE value()\n')
    assert made() == (1, True)
    assert made() == (1, False)
    library("lib2/libmy.a", 2)
    assert made() == (2, True)
    library("lib1/libmy.a", 3)
    assert made() == (3, True)
    assert made() == (3, False)
    write(Path("inc1/number.h"), "#define VALUE 4\n")
    assert made() == (4, True)
    assert made() == (4, False)
    assert made("-Wl,lib1/libmy.a")[1] and made("-Wl,lib1/libmy.a")[1]  # in a way that nobody looks through


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), lambda path: os.mkdir(path)])
def test_what_is_no_regular_file_is_not_waited_for(builds: Builds, put: Callable[[Path], None]) -> None:
    """As a file that was included, and as the record."""
    (builds.folder / "value.h").unlink()
    put(builds.folder / "value.h")
    assert builds.again() and builds.again()
    builds.record.unlink(missing_ok=True)
    put(builds.record)
    if builds.record.is_dir():
        with pytest.raises(
            FileError, match=r"compile: .*so\.mskpp, where the record .* will be, cannot be .*: a folder; remove"
        ):
            builds.again()
    else:
        assert builds.again()


@pytest.mark.parametrize(
    "data",
    [b"[" * 200_000, b'{"included": ' + b"[" * 200_000, b'{"included": {"a\\u0000": "x"}}', b" " * (17 << 20)],
    ids=["brackets", "brackets inside", "NUL", "huge"],
)
def test_records_made_to_do_harm(builds: Builds, data: bytes) -> None:
    builds.record.write_bytes(data)
    assert builds.again()
    assert not builds.again()


@pytest.mark.parametrize(
    "text",
    [
        'rm -f "$MSKPP_DEPENDENCIES"; mkfifo "$MSKPP_DEPENDENCIES"',
        'printf "/a\\0b\\n" >> "$MSKPP_DEPENDENCIES"',
        'rm -f "$MSKPP_DEPENDENCIES"; ln -s /dev/zero "$MSKPP_DEPENDENCIES"',
        'echo /dev/zero >> "$MSKPP_DEPENDENCIES"',
        'echo /proc/self/mem >> "$MSKPP_DEPENDENCIES"',
        'rm -rf "$(dirname "$MSKPP_DEPENDENCIES")"',
    ],
)
def test_dependencies_made_to_do_harm(builds: Builds, text: str) -> None:
    script(FAKE.format(folder=builds.folder) + text + "\n", "build.sh")
    assert builds.again() and builds.again()


@pytest.mark.parametrize("source", [5, "a\0b", ["a"], "\ud800", "/dev/zero", "a" * 5000, None, {}])
def test_metadata_that_names_odd_sources(generated: str, source: object) -> None:
    lines = Path(generated).read_text().split("\n")
    lines[1] = "// mskpp: " + json.dumps({"source": source})
    write(Path("odd.cpp"), "\n".join(lines))
    compile(script("cp $1 $2"), "odd.cpp", use_cache=True)
    lines[1] = "// mskpp: " + "[" * 60_000
    write(Path("odd.cpp"), "\n".join(lines))
    compile(script("cp $1 $2"), "odd.cpp", use_cache=True)


# -------------------------------------------------------------------------------------------- files that must not go


def test_the_record_may_not_be_what_is_compiled(generated: str, tmp_path: Path) -> None:
    name = script("cp $1 $2", "build.mskpp")
    shutil.copy(generated, "source.mskpp")
    for arguments in ((name, generated, "build"), (None, "source.mskpp", "source")):
        with pytest.raises(
            InputError, match=r"output_bin_path is one whose record would be .*\.mskpp, which is what is to"
        ):
            compile_executable(*arguments)
    assert Path(name).exists() and Path("source.mskpp").exists()


@pytest.mark.parametrize("victim", ["gen.cpp", "k.cpp", "b.sh"])
def test_another_name_of_what_is_compiled(generated: str, victim: str) -> None:
    name = script("cp $1 $2", "b.sh")
    os.link(victim, "out.so")
    with pytest.raises(
        InputError, match=rf"out\.so, which is what is to be compiled \(.*{victim}, of which it is another"
    ):
        compile(name, generated, "out.so")
    assert Path(victim).stat().st_nlink == 2


def test_the_binary_and_library_that_generated_code_names(generated: str, tmp_path: Path) -> None:
    write(Path("user.so"), "the user's")
    for key, call in (("binary", compiler.compile_kernel_binary), ("library", compiler.compile_tiling)):
        write(Path("named.cpp"), f'//\n// mskpp: {{"{key}": "{tmp_path}/user.so"}}\n')
        with pytest.raises(InputError, match=r"output_bin_path is .*user\.so, which is what is to be compiled"):
            call("named.cpp", "user.so", backend="host")
    assert Path("user.so").read_text() == "the user's"


def test_launch_code_is_not_written_over_the_kernel(generated: str) -> None:
    os.link("k.cpp", "hard.cpp")
    for name in ("k.cpp", "hard.cpp"):
        with pytest.raises(
            InputError, match=rf"code_gen: gen_file is .*{name}, which is kernel_src_file of the config"
        ):
            Launcher(KernelInvokeConfig("k.cpp", "k")).code_gen(name)
    assert Path("k.cpp").read_text() == SOURCE


# ---------------------------------------------------------------------------------------------- what a script leaves


LEFT = ['echo half > "$2"', 'mkdir -p "$2/a"', 'mkfifo "$2"', 'ln -s "$PWD/victim" "$2"', 'ln -s /nonexistent "$2"']


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize(("end", "error"), [("exit 3", CompileError), ("sleep 60", TimeLimitError), ("", CompileError)])
def test_nothing_half_done_is_left(generated: str, left: str, end: str, error: type[Exception]) -> None:
    write(Path("victim"), "the user's")
    write(Path("out.so"), "of before")
    if left == LEFT[0] and not end:
        error, end = InputError, "true"  # a whole output, though no library: that is found when it is loaded
    with pytest.raises(error):
        compile(script(f"{left}; {end or 'true'}"), generated, "out.so", timeout=0.5 if "sleep" in end else 20)
    assert os.path.lexists("out.so") == (error is InputError)
    assert Path("victim").read_text() == "the user's"
    compile(script("cp $1 $2"), generated, "out.so")


def test_an_interrupt_leaves_nothing(generated: str, tmp_path: Path) -> None:
    name = script(f'echo half > "$2"; touch begun; exec sleep {LONG}7')
    child = python(
        tmp_path,
        f"""
        import os
        from mskpp.launcher import compile
        try:
            compile({name!r}, "gen.cpp")
        except KeyboardInterrupt:
            print(os.path.exists("_gen_module.so"))
        """,
    )
    assert wait_until(lambda: (tmp_path / "begun").exists())
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20) == ("False\n", "")


def test_what_compilers_write_is_the_users_alone_and_goes(
    generated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    text = (
        f"umask > said; echo x > object.o; mktemp -d; mkdir $TMPDIR/mskpp-cc-1; touch begun; [ -z $1 ] || sleep {LONG}8"
    )
    with pytest.raises(TimeLimitError):
        compile(script(text), generated, timeout=0.5)
    assert Path("said").read_text() == "0077\n" and Path("object.o").stat().st_mode & 0o777 == 0o600
    assert [path.name[:11] for path in (tmp_path / "temporary").iterdir()] == ["mskpp-locks"]


def test_control_characters_of_a_compiler_do_not_reach_the_terminal(generated: str) -> None:
    with pytest.raises(CompileError, match=r"\n  a\N{REPLACEMENT CHARACTER}\[2J\tb\N{REPLACEMENT CHARACTER}$"):
        compile(script("printf 'a\\033[2J\\tb\\233' >&2; exit 1"), generated)
    with pytest.raises(TimeLimitError, match=r"\n  a\N{REPLACEMENT CHARACTER}\[2J"):
        compile(script("printf 'a\\033[2J\\n'; sleep 60"), generated, timeout=0.5)


# ---------------------------------------------------------------------------------------------------- odd arguments


@pytest.mark.parametrize("timeout", [math.inf, 1e12, 10**400, 1e8 + 1, None, 50])
def test_limits_that_are_none(generated: str, timeout: float | None) -> None:
    compile(script("cp $1 $2"), generated, timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1, -math.inf, math.nan, -(10**400), -(10**5000)], ids=list("abcdef"))
def test_limits_that_cannot_be(generated: str, timeout: float) -> None:
    with pytest.raises(InputError, match=r"compile: timeout is .*; it must be above 0"):
        compile(script("cp $1 $2"), generated, timeout=timeout)
    with pytest.raises(ArgumentError, match="compile: timeout is True; give a number"):
        compile("build.sh", generated, timeout=True)


@pytest.mark.parametrize(("option", "reason"), [("-D\ud800", "half a surrogate pair"), ("-D\0", "a NUL character")])
def test_options_that_no_program_can_get(generated: str, option: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"compile: the option .* has {reason}"):
        compile(gen_file=generated, options=[option])


def test_options_that_are_too_long(generated: str) -> None:
    with pytest.raises(FileError, match=r"compile: .* cannot be started: Argument list too long"):
        compile(gen_file=generated, options=["-D" + "x" * 300_000])


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("#!/bin/sh\nexec sleep 60\n", TimeLimitError, "backend host: .*/cxx --version: .* did not end within 0.5 s"),
        ("\x7fELF nonsense", BackendError, "backend host: .*/cxx --version: .*Exec format error.*MSKPP_CXX"),
        ("#!/bin/sh\nprintf 'caf\\351\\n'; [ $# = 1 ] || exit 1\n", CompileError, "exit code 1"),
    ],
)
def test_compilers_that_do_not_tell_their_version(
    generated: str, tmp_path: Path, text: str, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "cxx", text.encode()).chmod(0o700)
    monkeypatch.setenv("MSKPP_CXX", str(tmp_path / "cxx"))
    with pytest.raises(error, match=message):
        compile(gen_file=generated, timeout=0.5 if error is TimeLimitError else 20)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file takes root")
def test_an_output_of_another_user_in_a_sticky_folder(generated: str, tmp_path: Path) -> None:
    """One that may not be removed: a child without root's rights tries."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    write(shared / "out.so", "another's")
    os.chown(shared, 4242, 4242)
    os.chown(shared / "out.so", 4242, 4242)
    code = f"""
        import os
        from pathlib import Path
        from mskpp.errors import FileError
        from mskpp.launcher import compiler
        os.setresuid(4243, 4243, 4243)
        try:
            compiler.remove(Path({str(shared / "out.so")!r}), "compile")
        except FileError as error:
            print(error)
    """
    out, err = python(tmp_path, code).communicate(timeout=30)
    assert re.search(
        r"compile: .*out\.so cannot be replaced: (Operation not permitted|Permission denied); remove", out
    ), err
