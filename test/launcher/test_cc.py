# SPDX-License-Identifier: Apache-2.0
"""mskpp-cc: sorting of options, rewriting of launches, and what its programs do."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from utils.kernels import COMPILER, wait_until, write

from mskpp.launcher import cc

# -------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "words",
    [
        "-xcce",
        "-x cce",
        "-xasc",
        "--npu-arch=dav-2201",
        "--npu-soc=Ascend910B",
        "--cce-aicore-arch=dav-c220",
        "--cce-aicore-only",
        "--cce-soc-version=Ascend910B1",
        "-cce-enable-mix",
        "-fcce-vf-vl=256",
        "-mllvm -cce-aicore-stack-size=0x8000",
        "-Xaicore -O3",
        "-Xaicore-start -O0 -DDEVICE=1 -std=c++20 -Xaicore-end",
        "-mcpu=dav-c220-cube",
        "-march=dav-c310",
        "-lascendcl -lruntime -ltiling_api -lregister -lc_sec -lascendalog",
        "-l platform",
        "-Xhost-start -Xhost-end",
    ],
)
def test_what_has_no_meaning_on_a_cpu_is_dropped(words: str) -> None:
    assert cc.sort([*words.split(), "a.cpp"]) == cc.Arguments(sources=["a.cpp"])


def test_host_options_between_markers_are_kept() -> None:
    found = cc.sort(
        ["-Xhost-start", "-O2", "-DHOST=1", "-Xhost-end", "-Xaicore-start", "-O1", "-DCUBE", "-Xaicore-end", "a.cpp"]
    )
    assert (found.compile, found.preprocess, found.sources) == (["-O2"], ["-DHOST=1"], ["a.cpp"])


def test_each_option_goes_to_the_step_that_needs_it() -> None:
    words = (
        "-I inc -Iinc2 -D X -DY=1 -U Z -include a.h -isystem sys -MMD -MF deps -std=c++20 -g -fopenmp -shared -L lib "
        "-Wl,-s -z now -lm -pthread x.o y.a a.cpp b.cce -o out"
    )
    assert cc.sort(words.split()) == cc.Arguments(
        sources=["a.cpp", "b.cce"],
        inputs=["-lm", "x.o", "y.a"],
        preprocess=[
            "-I",
            "inc",
            "-Iinc2",
            "-D",
            "X",
            "-DY=1",
            "-U",
            "Z",
            "-include",
            "a.h",
            "-isystem",
            "sys",
            "-MMD",
            "-MF",
            "deps",
        ],
        compile=["-std=c++20", "-g", "-fopenmp", "-pthread"],
        link=["-shared", "-L", "lib", "-Wl,-s", "-z", "now"],
        output="out",
    )


def test_a_library_of_the_toolkit_is_kept_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "libascendcl.so").touch()
    for words in ([f"-L{tmp_path}", "-lascendcl"], ["-L", str(tmp_path), "-lascendcl"]):
        assert cc.sort(words).inputs == ["-lascendcl"]


def test_the_output_may_be_joined_to_its_option() -> None:
    assert cc.sort(["-oout.so", "a.cpp"]).output == "out.so"


def test_a_language_makes_sources_of_files_with_any_name() -> None:
    assert cc.sort(["-x", "cce", "launch.txt", "b.o", "-x", "none", "c.txt"]) == cc.Arguments(
        sources=["launch.txt"], inputs=["b.o", "c.txt"]
    )


@pytest.mark.parametrize(
    ("given", "default"),
    [
        ("", "-O3 -march=native -fPIC -std=c++17"),
        ("-O0 -std=c++20", "-march=native -fPIC"),
        ("-march=x86-64 -fpic --std=gnu++20", "-O3"),
        ("-Ofast -fno-pic -mcpu=native", "-std=c++17"),
    ],
)
def test_defaults_stand_back(given: str, default: str) -> None:
    assert cc.default_options(given.split()) == default.split()


def test_an_older_standard_than_the_header_needs_is_dropped() -> None:
    assert cc.sort(["-std=c++11", "--std=gnu++14", "a.cpp"]) == cc.Arguments(sources=["a.cpp"])


# ------------------------------------------------------------------------------------------------------------ rewriting


def launch(callee: str, arguments: str = "x", setting: str = "8, l2, stream") -> str:
    return cc.rewrite(f"{callee}<<<{setting}>>>({arguments});")


@pytest.mark.parametrize(
    "callee",
    [
        "k",
        "::k",
        "ns::inner::k",
        "k<half>",
        "ns::k<A, B<C, D<4>>>",
        "k<A<B<C<int>>>>",
        "ns::Kernel<4>::k",
        "Kernel<int>::template k<float>",
        "k<(1 >> 2)>",
        "k<(a > b)>",
        "k<'>', 4>",
        "k<f(1), g[2], h{3}>",
        "this->k",
        "this->template k<4>",
        "object.k",
        "this->inner.k<4>",
        "k<sizeof(int) << 2>",
    ],
)
def test_every_form_of_the_callee_is_called(callee: str) -> None:
    for before in ("", "return ", "if (a < b) ", "{ x = 1; } ", "a ? b : "):
        assert cc.rewrite(f"{before}{callee}<<<8, l2, stream>>>(x);") == (
            f"{before}::mskpp::launch(8, l2, stream, ::mskpp::bound([=](auto mskpp_0) mutable "
            f'{{ {callee}(mskpp_0); }}, x), "k");'
        )


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("", "[=]() mutable { k(); }"),
        ("x, y + 1", "[=](auto mskpp_0, auto mskpp_1) mutable { k(mskpp_0, mskpp_1); }, x, y + 1"),
        ("0, x, nullptr, 'a', 1.5f", "[=](auto mskpp_0) mutable { k(0, mskpp_0, nullptr, 'a', 1.5f); }, x"),
        ("{1, 2}, x", "[=](auto mskpp_0) mutable { k({1, 2}, mskpp_0); }, x"),
        ("f(a, b), c[d, e]", "[=](auto mskpp_0, auto mskpp_1) mutable { k(mskpp_0, mskpp_1); }, f(a, b), c[d, e]"),
        ("[&](int i) { return i, 1; }", "[=](auto mskpp_0) mutable { k(mskpp_0); }, [&](int i) { return i, 1; }"),
        ("f<1, 2>(x), y", "[=](auto... mskpp_all) mutable { k(mskpp_all...); }, f<1, 2>(x), y"),
        ("\n x,\n 0,\n\n y\n", "[=](auto mskpp_0, auto mskpp_1) mutable { k(mskpp_0, 0, mskpp_1); }, x, y"),
    ],
)  # fmt: skip
def test_arguments_are_evaluated_once_and_kept(given: str, called: str) -> None:
    lines = "\n" * given.count("\n")  # those that follow keep their numbers
    assert launch("k", given) == f'::mskpp::launch(8, l2, stream, ::mskpp::bound({called}){lines}, "k");'


@pytest.mark.parametrize(
    ("setting", "whole"),
    [
        ("8", "8, nullptr, nullptr"),
        ("f(a, b)", "f(a, b), nullptr, nullptr"),
        ("8, nullptr", "8, nullptr, nullptr"),
        ("n >> 1, 0, s", "n >> 1, 0, s"),
        ("(a > b ? a : b), 0, s", "(a > b ? a : b), 0, s"),
        ("f<1, 2>(), 0, s", "f<1, 2>(), 0, s"),
        ("n\n,\n0, s", "n\n,\n0, s"),
    ],
)
def test_settings_left_out_are_null(setting: str, whole: str) -> None:
    assert launch("k", setting=setting).startswith(f"::mskpp::launch({whole}, ::mskpp::bound(")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int x = a << 2 >> 1;",
        "std::vector<A<B<int>>> v;",
        'const char* s = "k<<<1, 2, 3>>>(x)";',
        "char c = '<', d = '\\'', e = '\"';",
        'auto s = R"(k<<<1>>>(x) " )";',
        'auto s = u8R"mark(k<<<1>>>(x))" )mark";',
        'auto s = "\\"k<<<1>>>(x)\\\\";',
        "int million = 1'000'000; auto s = \"k<<<1>>>(x)\";",
        '#pragma message "k<<<1>>>(x)"\nint x;',
        "A<&operator<<, 1> x;",
    ],
)
def test_what_is_no_launch_is_left_as_it_is(text: str) -> None:
    assert cc.rewrite(text) == text


def test_system_headers_are_not_looked_at() -> None:
    text = '# 1 "/usr/include/odd.h" 1 3 4\n<<< this is not C++ >>>\n# 2 "a.cpp" 2\nk<<<1>>>();\n'
    assert cc.rewrite(text).startswith(
        '# 1 "/usr/include/odd.h" 1 3 4\n<<< this is not C++ >>>\n# 2 "a.cpp" 2\n::mskpp::'
    )


def test_aicore_in_brackets_is_left_out() -> None:
    assert cc.rewrite("__global__ [aicore] void k(); int a[aicore2];") == "__global__  void k(); int a[aicore2];"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("k<<<8, 0, s;", "<<< is never closed by >>>"),
        ("k<<<", "<<< is never closed by >>>"),
        ("k<<<8, 0, s>>>", "no arguments in ( ) follow >>>"),
        ("k<<<8, 0, s>>>;", "no arguments in ( ) follow >>>"),
        ("k<<<8, 0, s>>>(x", "the launch's bracket is never closed"),
        ("(k)<<<8, 0, s>>>(x);", "no kernel's name stands before <<<"),
        ("<<<8>>>(x);", "no kernel's name stands before <<<"),
        ("k<<<>>>(x);", "0 settings in <<< >>>; they are blockdim, l2ctrl and stream"),
        ("k<<<1, 2, 3, 4>>>(x);", "4 settings in <<< >>>; they are blockdim, l2ctrl and stream"),
    ],
)
def test_a_launch_that_is_not_understood_says_where(code: str, reason: str) -> None:
    text = f'# 1 "dir/a b.cpp"\nint x;\n# 41 "dir/in \\"quotes\\".h" 1\nvoid f() {{\n\n{code}\n'
    with pytest.raises(cc.LaunchSyntaxError) as caught:
        cc.rewrite(text)
    assert str(caught.value) == f'dir/in \\"quotes\\".h:43: error: launch: {reason}'


PIECES = (
    "k < > <<< >>> ( ) [ ] { } , :: -> . template this 0 1'0 'a' \"s\" ' \" aicore R\"(x)\" return / = * \\n "
    "\\n#~3~\"a.cpp\"~3~4\\n \\n#~4~\"b.h\"~2\\n \\n#~1~\"c.h\"~1~3\\n"
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES.replace("\\n", "\n").split(" ")), max_size=20))
def test_any_text_is_rewritten_or_refused(pieces: list[str]) -> None:
    text = " ".join(pieces).replace("~", " ")
    with contextlib.suppress(cc.LaunchSyntaxError):
        out = cc.rewrite(text)
        assert out == text or "<<<" in text or "aicore" in text


# ---------------------------------------------------------------------------------------------------------- compilation

FORMS = r"""
#include "kernels.h"
#include <memory>
#include <vector>

// k<<<8, nullptr, nullptr>>>(comment);
/* k<<<8, nullptr, nullptr>>>(comment); */
#if 0
k<<<8, nullptr, nullptr>>>(inactive);
#endif

const char* const text = "k<<<8, nullptr, nullptr>>>(text) // \" \\";
const char* const raw = R"x(k<<<8, nullptr, nullptr>>>(raw) ")x";
void* const stream = nullptr;

template <class T, int N>
struct Tile { static constexpr int n = N; using type = T; };

namespace ns::inner {
template <class A, class B, bool flag>
__global__ __aicore__ void store(__gm__ float* x, B scale) {
    if (flag) x[GetBlockIdx()] = A::n * static_cast<float>(scale) + GetBlockNum();
}
}

__global__ [aicore] void take(GM_ADDR x, int (*f)(int), Pair pair, half h, bfloat16_t b) {
    if (AscendC::GetBlockIdx() == 0) reinterpret_cast<float*>(x)[0] = f(pair.a) + pair.b + h + b;
}

__global__ __aicore__ void maybe(float* x, const float* y) { if (y == nullptr) x[GetBlockIdx()] = 7; }

struct Owner {
    std::vector<float> memory = std::vector<float>(8);
    static __global__ __aicore__ void k(float* x) { x[GetBlockIdx()] = -1.0f - GetBlockIdx(); }
    void go() { this->k<<<8>>>(memory.data()); }
};

#define LAUNCH(kernel, blocks, ...) kernel<<<blocks, nullptr, stream>>>(__VA_ARGS__)

template <class T>
void from_template(float* x) { ns::inner::store<Tile<T, (8 >> 1)>, T, (2 > 1)><<<4, nullptr, stream>>>(x, T(2)); }

int main() {
    std::vector<float> x(8);
    int evaluated = 0;
    plus_index<<<8, nullptr, stream>>>(x.data(), ++evaluated);
    std::printf("vector %g %g %d\n", x[0], x[7], evaluated);

    LAUNCH(plus_index, 1 << 3, x.data(), 10);
    std::printf("macro %g\n", x[7]);

    launch_in_header(x.data());
    std::printf("header %g\n", x[7]);

    from_template<float>(x.data());
    std::printf("template %g %g\n", x[0], x[3]);

    auto own = std::make_unique<float[]>(8);
    plus_index<<<8>>>(own.get(), 3);
    std::printf("unique %g\n", own[7]);

    take<<<
        8,  // a comment
        nullptr, stream
    >>>(reinterpret_cast<uint8_t*>(x.data()),
        [](int i) { return i << 1; }, {3, 4},
        0.5f, 0.25f);
    std::printf("lambda %g line %d\n", x[0], __LINE__);

    maybe<<<8, nullptr, stream>>>(x.data(), 0);
    maybe<<<1, 0, 0>>>(&x[0], NULL); std::printf("macro of the system line %d\n", __LINE__);
    plus_index<<<UINT8_MAX / UINT8_MAX, NULL, stream>>>(x.data(), INT8_MAX); std::printf("line %d\n", __LINE__);
    take<<<1>>>(static_cast<GM_ADDR>(NULL) + INTPTR_MAX * 0 + reinterpret_cast<intptr_t>(x.data()), abs, {INT8_MAX,
        INT8_MAX}, 0, 0);
    std::printf("null %g %g line %d\n", x[0], x[7], __LINE__);

    Owner owner;
    owner.go();
    std::printf("member %g\n", owner.memory[7]);
    if (x[0] != 0) plus_index<<<0, nullptr, nullptr>>>(x.data(), 99);
    std::printf("none %g\n", x[0]);
    std::printf("%s|%s\n", text, raw);
    return CODE;
}
"""
HEADER = """
#pragma once
struct Pair { int a, b; };
__global__ __aicore__ void plus_index(float* x, int n) { x[GetBlockIdx()] = n + GetBlockIdx(); }
inline void launch_in_header(float* x) { plus_index<<<8, nullptr, nullptr>>>(x, 20); }
"""
EXPECTED = """\
vector 1 8 1
macro 17
header 27
template 12 12
unique 10
lambda 10.75 line 67
macro of the system line 70
line 71
null 254 7 line 74
member -8
none 254
k<<<8, nullptr, nullptr>>>(text) // " \\|k<<<8, nullptr, nullptr>>>(raw) "
"""


def compiled(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMPILER, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_every_form_of_a_launch_runs(tmp_path: Path, compiler: str) -> None:
    if not any((Path(p) / compiler).exists() for p in os.environ["PATH"].split(os.pathsep)):
        pytest.skip(f"no {compiler} here")
    write(tmp_path / "sub dir" / "kernels.h", HEADER)
    source = write(tmp_path / "a 'b' \\ \"é\".cpp", FORMS)
    options = ["-O0", "-Wall", "-Werror", "-Wno-unused-variable", "-DCODE=3", "-I", tmp_path / "sub dir"]
    done = compiled("-xcce", "--npu-arch=dav-2201", *options, source, "-o", tmp_path / "program", MSKPP_CXX=compiler)
    assert (done.returncode, done.stderr) == (0, "")
    ran = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == (EXPECTED, "", 3)


@pytest.mark.parametrize(
    ("start", "end"),
    [(b"//", b"\r\n"), (b"\xef\xbb\xbf//", b"\n"), (b"// \xb0\xa1\xff", b"\n")],
    ids=["crlf", "bom", "gbk"],
)
def test_any_encoding_and_the_lines_of_the_source_in_messages(tmp_path: Path, start: bytes, end: bytes) -> None:
    lines = [
        start,
        b"__global__ void k(int n, void* p) {}",
        b"void f() {",
        b"  k<<<2,",
        b"  nullptr>>>(1,",
        b"    NULL",
    ]
    lines += [b"  );", b"  bad();", b"}", b""]
    source = write(tmp_path / "a.cpp", end.join(lines))
    done = compiled("-O0", "-fsyntax-only", source)
    assert done.returncode == 1
    assert re.search(rf"{source}:8:3: error: .bad. was not declared", done.stderr)
    assert done.stderr.count("error:") == 1


def test_bytes_in_comments_and_strings_come_out_as_they_are(tmp_path: Path) -> None:
    source = write(tmp_path / "gbk.cpp", b'const char* s = "\xb0\xa1"; void k(); void f() { k<<<1>>>(); }\n')
    assert compiled("-E", source, "-o", tmp_path / "out.ii").returncode == 0
    text = (tmp_path / "out.ii").read_bytes()
    assert b'"\xb0\xa1"' in text and b"::mskpp::launch(1, nullptr, nullptr, " in text


def test_a_launch_error_is_shown_with_file_and_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.cpp", "void k();\nvoid f() {\n  k<<<1, 2, 3, 4>>>();\n}\n")
    done = compiled(source, "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{source}:3: error: launch: 4 settings")
    assert not (tmp_path / "out").exists()


def test_objects_assembly_and_several_sources(tmp_path: Path) -> None:
    write(tmp_path / "k.h", "void k(int* x);\nvoid go(int* x);\n")
    write(tmp_path / "a.cpp", '#include "k.h"\n__global__ void k(int* x) { x[GetBlockIdx()] = 5; }\n')
    write(tmp_path / "b.cce", '#include "k.h"\nvoid go(int* x) { k<<<4, nullptr, nullptr>>>(x); }\n')
    write(tmp_path / "c.cpp", '#include "k.h"\nint main() { int x[4] = {}; go(x); return x[0] + x[3]; }\n')
    run = {"cwd": tmp_path, "check": True}
    subprocess.run([*COMPILER, "-O0", "-c", "a.cpp", "b.cce"], **run)
    assert (tmp_path / "a.o").exists() and (tmp_path / "b.o").exists()
    subprocess.run([*COMPILER, "-O0", "-c", "c.cpp", "-oother.o"], **run)
    notes = tmp_path / "notes"
    subprocess.run(
        [*COMPILER, "a.o", "b.o", "other.o", "-o", "program"],
        env={**os.environ, "MSKPP_DEPENDENCIES": str(notes)},
        **run,
    )
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 10
    assert notes.read_text() == "?\n"  # nobody knows what an object was made from

    subprocess.run([*COMPILER, "-O0", "a.cpp", "b.cce", "other.o", "-o", "again"], **run)
    assert subprocess.run([tmp_path / "again"], check=False).returncode == 10

    subprocess.run([*COMPILER, "-O0", "-S", "a.cpp"], **run)
    assert "GetBlockIdx" in (tmp_path / "a.s").read_text()
    done = subprocess.run([*COMPILER, "-E", "b.cce"], cwd=tmp_path, capture_output=True, check=True)
    assert b"::mskpp::launch(4, nullptr, nullptr, " in done.stdout
    done = subprocess.run(
        [*COMPILER, "-c", "a.cpp", "b.cce", "-o", "x.o"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 1 and b"-o with -c and 2 sources" in done.stderr


def test_the_files_that_were_read_are_noted(tmp_path: Path) -> None:
    header = write(tmp_path / 'a "b" é\\.h', "int x;\n")
    source = write(tmp_path / "a.cpp", f"#include <{header}>\n")
    notes = tmp_path / "notes"
    assert compiled("-E", source, "-o", tmp_path / "a.ii", MSKPP_DEPENDENCIES=str(notes)).returncode == 0
    lines = notes.read_text().splitlines()
    assert str(source) in lines and str(header) in lines and str(cc.INCLUDE / "mskpp" / "kernel.h") in lines
    assert not any(line.startswith("<") for line in lines)


def test_a_failing_compiler_gives_its_exit_code_and_no_output(tmp_path: Path) -> None:
    source = write(tmp_path / "a.cpp", '#error "here"\n')
    done = compiled(source, "-o", tmp_path / "out")
    assert done.returncode != 0 and "#error" in done.stderr and not (tmp_path / "out").exists()
    assert compiled(tmp_path / "absent.cpp", "-o", tmp_path / "out").returncode != 0


MISSING = "no C++ compiler: neither g++ nor clang++ is on PATH; install one, for example: apt install g++"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("MSKPP_CXX", raising=False)
    assert cc.main(["a.cpp"]) == 1
    assert capfd.readouterr().err == "mskpp-cc: error: " + MISSING + "\n"


def test_without_an_input(capfd: pytest.CaptureFixture[str]) -> None:
    assert cc.main(["-O2"]) == 1
    assert capfd.readouterr().err == "mskpp-cc: error: no input file\n"


def test_the_compiler_may_have_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MSKPP_CXX", raising=False)
    monkeypatch.setenv("CXX", "env LANG=C g++")
    assert cc.compiler() == ["env", "LANG=C", "g++"]
    monkeypatch.setenv("MSKPP_CXX", "clang++-of-no-version")
    assert cc.compiler() == []
    assert cc.no_compiler().startswith("no C++ compiler: MSKPP_CXX is 'clang++-of-no-version', which is no program")


def test_version_is_the_compilers() -> None:
    done = compiled("--version", MSKPP_CXX="g++")
    assert done.returncode == 0 and re.match(r"g\+\+|.*GCC", done.stdout)


def test_exceptions_may_be_off(tmp_path: Path) -> None:
    source = write(tmp_path / "a.cpp", "void k(int* x) { *x = 1; }\nint f(int* x) { return k<<<1>>>(x), 0; }\n")
    done = compiled("-fsyntax-only", "-fno-exceptions", "-std=c++11", "-Wall", "-Werror", source)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------------------------------- what goes wrong, and ends


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_takes_its_files_away(tmp_path: Path, number: int) -> None:
    write(tmp_path / "cxx", "#!/bin/sh\ntouch begun\nexec sleep 60\n").chmod(0o700)
    (tmp_path / "temporary").mkdir()
    child = subprocess.Popen(
        [*COMPILER, write(tmp_path / "a.cpp", "int x;\n"), "-o", tmp_path / "out"],
        env={**os.environ, "MSKPP_CXX": str(tmp_path / "cxx"), "TMPDIR": str(tmp_path / "temporary")},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # who runs the tests may ignore it
    )
    assert wait_until((tmp_path / "begun").exists)
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    child.send_signal(number)
    assert (child.communicate(timeout=20)[1], child.returncode) == (b"", -number)
    assert not list((tmp_path / "temporary").iterdir())


def test_what_the_system_refuses_is_one_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.cpp", "int x;\n")
    cases: list[tuple[list[object], dict[str, str], str]] = [
        (["-E", source, "-o", "/dev/full"], {}, "No space left on device"),
        (["-E", source, "-o", tmp_path], {}, rf"Is a directory \({tmp_path}\)"),
        ([source], {"MSKPP_CXX": str(write(tmp_path / "cxx", b"\x7fELF"))}, r"Exec format error \(.*cxx\)"),
    ]
    (tmp_path / "cxx").chmod(0o700)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("a.cpp")
    cases.append(
        (["-E", source], {"MSKPP_DEPENDENCIES": str(tmp_path / "fifo")}, r"No such device or address \(.*fifo\)")
    )
    cases.append((["-E", source], {"MSKPP_DEPENDENCIES": str(tmp_path / "link")}, r"Too many levels .* \(.*link\)"))
    cases.append((["-E", source], {"MSKPP_DEPENDENCIES": "/dev/null"}, "/dev/null, which .* names, is no regular file"))
    for words, environment, reason in cases:
        done = compiled(*words, **environment)
        assert done.returncode == 1 and re.fullmatch(f"mskpp-cc: error: {reason}\n", done.stderr), done.stderr
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMPILER, "-E", source], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"mskpp-cc: error: No space left on device\n")


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ("-Wl,-z,relro -Wl,--whole-archive -lmy -Wl,--no-whole-archive -Wl,-rpath,/x -z now -s -lm", True),
        ("-Xlinker --as-needed -l my -Wl,-soname,x -Wl,-zdefs", True),
        ("-L none -lmy -l:libmy.a", True),
        ("-Wl,libmy.a", False),
        ("-Wl,-rpath,/x,libmy.a", False),
        ("-Xlinker libmy.a", False),
        ("-Wl,-T,x.ld", False),
        ("-Wl,--version-script=x", False),
        ("-Wl,@file", False),
        ("-fplugin=x.so", False),
        ("-specs=x", False),
        ("-B.", False),
        ("libmy.a", False),
        ("-lscript", False),
    ],
)
def test_whether_what_is_linked_is_known(
    tmp_path: Path, options: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "libmy.a", b"!<arch>\n")
    write(tmp_path / "libscript.so", "INPUT(libmy.a)")
    write(tmp_path / "cxx", "#!/bin/sh\nexit 0\n").chmod(0o700)
    write(tmp_path / "a.cpp", "")
    monkeypatch.setenv("MSKPP_CXX", str(tmp_path / "cxx"))
    monkeypatch.setenv("MSKPP_DEPENDENCIES", str(tmp_path / "notes"))
    assert cc.main(["-L.", *options.split(), "a.cpp", "-o", "x.so"]) == 0
    lines = (tmp_path / "notes").read_text().splitlines() if (tmp_path / "notes").exists() else []
    assert ("?" not in lines) == known
    if known:
        assert str(tmp_path / "libmy.a") in lines and f"!{tmp_path}/libmy.so" in lines
