# SPDX-License-Identifier: Apache-2.0
"""compile_executable(): programs with a main(), run as they are or under a profiler."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from utils.kernels import FAST, python, running, wait_until, write

from mskpp.errors import ArgumentError, CompileError, FileError, InputError, LaunchError, TimeLimitError, UnsafeError
from mskpp.launcher import CompiledExecutable, compile_executable

# As a user writes it for the device: AscendCL calls, memory on both sides, a launch, an event around it.
PROGRAM = r"""
#include <acl/acl.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <unistd.h>
#include "kernel_operator.h"

#define CHECK(call) \
    do { \
        aclError code = call; \
        if (code != ACL_SUCCESS) { fprintf(stderr, "%s: %d\n", #call, code); return 1; } \
    } while (0)

extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, uint32_t n, float factor) {
    const uint32_t per = n / AscendC::GetBlockNum();
    for (uint32_t i = 0; i < per; ++i) {
        const uint32_t at = AscendC::GetBlockIdx() * per + i;
        reinterpret_cast<__gm__ float*>(y)[at] = reinterpret_cast<__gm__ float*>(x)[at] * factor;
    }
}
__global__ __aicore__ void crash(GM_ADDR x) { if (GetBlockIdx() == 3) *x = 1; }
__global__ __aicore__ void unhappy(GM_ADDR) { if (GetBlockIdx() == 2) throw std::runtime_error("no"); }

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    CHECK(aclInit(nullptr));
    int32_t device = -1;
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtGetDevice(&device));
    aclrtContext context;
    CHECK(aclrtCreateContext(&context, device));
    aclrtStream stream;
    CHECK(aclrtCreateStream(&stream));
    const uint32_t n = 64;
    std::vector<float> host(n, 1.5f);
    uint8_t *x = nullptr, *y = nullptr;
    CHECK(aclrtMalloc(reinterpret_cast<void**>(&x), n * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(reinterpret_cast<void**>(&y), n * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(x, n * sizeof(float), host.data(), n * sizeof(float), ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemset(y, n * sizeof(float), 0, n * sizeof(float)));
    aclrtEvent begin, end;
    CHECK(aclrtCreateEvent(&begin));
    CHECK(aclrtCreateEvent(&end));
    CHECK(aclrtRecordEvent(begin, stream));
    scale<<<8, nullptr, stream>>>(x, y, n, 4);
    if (*what == 'c') crash<<<8, nullptr, stream>>>(nullptr);
    if (*what == 't') unhappy<<<8, nullptr, stream>>>(nullptr);
    CHECK(aclrtRecordEvent(end, stream));
    CHECK(aclrtSynchronizeStream(stream));
    float milliseconds = -1;
    CHECK(aclrtEventElapsedTime(&milliseconds, begin, end));
    CHECK(aclrtMemcpyAsync(host.data(), n * sizeof(float), y, n * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    printf("%g %g %d\n", host[0], host[n - 1], milliseconds >= 0);
    for (int i = 1; i < argc; ++i) printf("[%s]", argv[i]);
    if (*what == 'e') { fprintf(stderr, "last words\n"); return atoi(argv[2]); }
    if (*what == 'h') { fflush(stdout); if (fork() == 0) setsid(); for (;;) pause(); }
    if (*what == 'm') { printf("\n"); CHECK(aclrtMemcpy(y, 4, x, 5, ACL_MEMCPY_DEVICE_TO_DEVICE)); }
    if (*what == 'b') printf("\xff\xfe");
    CHECK(aclrtFree(x));
    CHECK(aclrtFree(y));
    CHECK(aclrtDestroyEvent(begin));
    CHECK(aclrtDestroyEvent(end));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtDestroyContext(context));
    CHECK(aclrtResetDevice(device));
    CHECK(aclFinalize());
}
"""


MARK = f"marker-{os.getpid()}-"  # an argument that can be told from anybody else's


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("executable")
    write(folder / "program.cpp", PROGRAM)
    options = [*FAST, "-Wall", "-Werror"]
    compile_executable(None, str(folder / "program.cpp"), str(folder / "program"), options=options, backend="host")
    return folder


@pytest.fixture
def program(folder: Path) -> CompiledExecutable:
    return CompiledExecutable(str(folder / "program"))


def test_its_output_is_returned(program: CompiledExecutable, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mskpp")
    assert program() == "6 6 1\n"
    assert caplog.messages == ["6 6 1"]
    assert program("a b", 5, 1.5, Path("x"), "$(true)", "") == "6 6 1\n[a b][5][1.5][x][$(true)][]"


def test_output_that_is_no_text(program: CompiledExecutable) -> None:
    assert program("b") == "6 6 1\n[b]\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["e", 7], "program: it ended with exit code 7\n  last words"),
        (["c"], r"program: it ended with SIGSEGV \(memory that is not its own\)\n  mskpp: a kernel crashed in block 3"),
        (["t"], r"program: it ended with SIGABRT (?s:.*)block 2 threw: no"),
        (
            ["m"],
            r"program: it ended with exit code 1\n  aclrtMemcpy\(y, 4, x, 5, ACL_MEMCPY_DEVICE_TO_DEVICE\): 100000",
        ),
    ],
)
def test_a_program_that_fails(program: CompiledExecutable, arguments: list[Any], message: str) -> None:
    with pytest.raises(LaunchError, match=f"^{message}"):
        program(*arguments)


def test_a_program_that_hangs(program: CompiledExecutable) -> None:
    begin = time.monotonic()
    with pytest.raises(TimeLimitError, match=rf"^program: .*did not end within 0\.3 s .*\n  6 6 1\n  \[h\]\[{MARK}1\]"):
        program("h", f"{MARK}1", timeout=0.3)
    assert time.monotonic() - begin < 3
    assert not running(f"{MARK}1")


def test_interrupt_while_it_runs(folder: Path, tmp_path: Path) -> None:
    child = python(
        tmp_path,
        f"""
        from mskpp.launcher import CompiledExecutable
        print("begun", flush=True)
        try:
            CompiledExecutable({str(folder / "program")!r})("h", "{MARK}2")
        except KeyboardInterrupt:
            print("interrupted")
        """,
    )
    assert wait_until(lambda: running(f"h\0{MARK}2"))
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20) == ("begun\ninterrupted\n", "")
    assert time.monotonic() - begin < 2 and not running(f"{MARK}2")


PROFILER = """#!/bin/sh
printf '%s|' "$@"
exec "$3" "$4"
"""


def test_under_a_profiler(folder: Path, program: CompiledExecutable, tmp_path: Path) -> None:
    profiler = write(tmp_path / "msprof op", PROFILER)
    profiler.chmod(0o700)
    words = [str(profiler), "op", "--output=a b"]
    expected = f"op|--output=a b|{folder}/program|x|6 6 1\n[x]"
    assert program("x", profiling_cmd=words) == expected
    always = CompiledExecutable(str(folder / "program"), profiling_cmd=words)
    assert always("x") == expected
    assert always("x", profiling_cmd=["env"]) == "6 6 1\n[x]"  # the call's comes first
    assert always("x", profiling_cmd=[]) == "6 6 1\n[x]"


def test_profiling_cmd_of_the_compilation(folder: Path, tmp_path: Path) -> None:
    write(Path("build.sh"), f"cp {folder}/program $2")
    made = compile_executable("build.sh", "build.sh", profiling_cmd=["env", "-u", "HOME"])
    assert made.get_executable_path() == str(tmp_path / "_gen_executable")
    assert repr(made) == f"<CompiledExecutable {tmp_path}/_gen_executable>"
    assert made("x") == "6 6 1\n[x]"
    assert Path("_gen_executable").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("words", ["msprof op", [1], ["a", None], 5])
def test_a_profiling_cmd_that_is_no_list_of_words(program: CompiledExecutable, words: Any) -> None:
    with pytest.raises(ArgumentError, match=r"program: profiling_cmd is .*; it must be a list of str, one a word"):
        program(profiling_cmd=words)
    with pytest.raises(ArgumentError, match="CompiledExecutable: profiling_cmd is"):
        CompiledExecutable(program.get_executable_path(), profiling_cmd=words)


def test_a_profiler_that_is_not_there(program: CompiledExecutable) -> None:
    with pytest.raises(FileError, match="program: program 'msprof-of-nowhere' is not found on PATH"):
        program(profiling_cmd=["msprof-of-nowhere"])


def test_what_can_be_no_program(tmp_path: Path) -> None:
    file = write(tmp_path / "x", "text")
    file.chmod(0o600)
    with pytest.raises(CompileError, match="cannot be executed; chmod u\\+x"):
        CompiledExecutable(str(file))
    file.chmod(0o702)
    with pytest.raises(UnsafeError, match="everybody may write"):
        CompiledExecutable(str(file))
    file.chmod(0o700)
    with pytest.raises(FileError, match=r"x: .*cannot be started: Exec format error"):
        CompiledExecutable(str(file))()
    with pytest.raises(FileError, match="absent"):
        CompiledExecutable(str(tmp_path / "absent"))


def test_reuse_and_failure_of_the_compilation(folder: Path, tmp_path: Path) -> None:
    script = f"echo run >> {tmp_path}/log\ncp {folder}/program $2\necho $1 > $MSKPP_DEPENDENCIES\n"
    write(Path("build.sh"), script)
    write(Path("a.cpp"), "int main() {}")
    for _ in range(2):
        assert compile_executable("build.sh", "a.cpp", "prog", True)() == "6 6 1\n"
    assert Path("log").read_text() == "run\n"
    write(Path("a.cpp"), "int main() { return 0; }")
    compile_executable("build.sh", gen_file="a.cpp", output_bin_path="prog", use_cache=True)
    assert Path("log").read_text() == "run\nrun\n"
    with pytest.raises(
        CompileError, match=r"compile_executable: the compilation ended with exit code 1\n(?s:.*)undefined"
    ):
        compile_executable(
            src_file="build.sh", output_bin_path="prog", backend="host", options=["-xc++", "-Dcp=undefined"]
        )
    assert not Path("prog").exists()


def test_wrong_arguments() -> None:
    write(Path("a.cpp"), "int main() {}")
    with pytest.raises(ArgumentError, match="compile_executable: 0 of src_file, gen_file are given"):
        compile_executable("build.sh")
    with pytest.raises(InputError, match="control character"):
        compile_executable(None, "a.cpp", "a\tb")
    with pytest.raises(ArgumentError, match="CompiledExecutable: profiling_cmd is str"):
        write(Path("build.sh"), "cp /bin/true $2")
        compile_executable("build.sh", "a.cpp", profiling_cmd="msprof")  # type: ignore[arg-type]


def test_the_same_under_gdb_and_with_a_library_preloaded(folder: Path, tmp_path: Path) -> None:
    program = str(folder / "program")
    done = subprocess.run(
        ["gdb", "-q", "-batch", "-ex", "run", "--args", program, "x"], capture_output=True, text=True, check=True
    )
    assert re.search(r"^6 6 1$", done.stdout, re.MULTILINE)
    subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-o", tmp_path / "nothing.so"], check=True)
    preloaded = {**os.environ, "LD_PRELOAD": str(tmp_path / "nothing.so")}
    assert subprocess.run([program], capture_output=True, text=True, env=preloaded, check=True).stdout == "6 6 1\n"
