# SPDX-License-Identifier: Apache-2.0
"""compile(): scripts and the built-in command, what is reused and what never, limits, interrupts, messages."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from utils.kernels import FAST, python, running, wait_until, write

from mskpp.errors import ArgumentError, BackendError, CompileError, FileError, InputError, TimeLimitError, UnsafeError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile, compile_executable, compiler

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
    assert compiler.is_current(builds.output, fixed)
    for length in range(len(whole)):
        builds.record.write_bytes(whole[:length])
        assert not compiler.is_current(builds.output, fixed), length
    for at in range(len(whole)):
        builds.record.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        assert not compiler.is_current(builds.output, fixed), at
    builds.record.write_bytes(whole)
    assert compiler.is_current(builds.output, fixed)


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
    import sys

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
