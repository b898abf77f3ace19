# SPDX-License-Identifier: Apache-2.0
"""What is read of a kernel in its source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from utils.kernels import write

from mskpp.errors import InputError
from mskpp.launcher.signature import Parameter, Signature, read_signature


def read(tmp_path: Path, source: str | bytes, kernel: str = "k") -> Signature:
    return read_signature(write(tmp_path / "a.cpp", source), kernel)


@pytest.mark.parametrize(
    ("source", "declaration"),
    [
        ('extern "C" __global__ __aicore__ void k(GM_ADDR x, uint32_t n) {}', "void k(GM_ADDR x, uint32_t n)"),
        ("__global__ __aicore__ void k() {}", "void k()"),
        ("__global__ __aicore__ void k(void) {}", "void k()"),
        ("__global__ [aicore] void k(__gm__ half *x) {}", "void k(half* x)"),
        ("__global__ __mix__(1, 2) void k(__gm__ uint8_t* __restrict__ x) {}", "void k(uint8_t* x)"),
        ("__global__ __launch_bounds__(1024) void k(__gm__ float* __restrict x) {}", "void k(float* x)"),
        ("__global__ __aicore__ __attribute__((noinline)) void k(int n) {}", "void k(int n)"),
        ("inline __global__ __aicore__ void k(int n) {}", "void k(int n)"),
        ("extern \"C\" {\n__global__ __aicore__ void k(int n) {}\n}", "void k(int n)"),
        ("CATLASS_GLOBAL void k(int n) {}", "void k(int n)"),
        ("__global__ __aicore__ void\nk(const  float *x ,\n  int   n\n) {}", "void k(const float* x, int n)"),
        ("__global__ void k(float x[], const int y[4], int* const z) {}",
         "void k(float* x, const int* y, int* const z)"),
        ("__global__ void k(unsigned long long a, const unsigned char b, bool c) {}",
         "void k(unsigned long long a, const unsigned char b, bool c)"),
        ("__global__ void k(const ns::Shape<4, int>& s, std::array<int, 2> a) {}",
         "void k(const ns::Shape<4, int>& s, std::array<int, 2> a)"),
        ("__global__ void k(int /* rows */ m /* count */, int n = 4, // columns\n float) {}",
         "void k(int m, int n, float)"),
        ("__global__ void k(int n = sizeof(int) == 4 ? 1 : 2) {}", "void k(int n)"),
        ("__global__ void k(struct Shape s, Kind kind, float** list) {}",
         "void k(struct Shape s, Kind kind, float** list)"),
        ("namespace a { namespace b { __global__ void k(T x) {} } }", "void a::b::k(T x)"),
        ("namespace a::b { namespace { __global__ void k(T x) {} } }", "void a::b::k(T x)"),
        ("template <class T> __global__ void k(T x) {}", "template <class T> void k(T x)"),
        ("template <typename T, uint32_t N = 4, bool = true, class... More>\n__global__ void k(T x, More... more) {}",
         "template <typename T, uint32_t N = 4, bool = true, class... More> void k(T x, More... more)"),
        ("template <template <class> class C, class = int> __global__ void k(C<int> x) {}",
         "template <template <class> class C, class = int> void k(C<int> x)"),
        ("template <class T>\n__global__ __aicore__\n// a comment\nvoid k(typename T::Params p) {}",
         "template <class T> void k(typename T::Params p)"),
        ("#define KERNEL __global__ __aicore__ void\n#define ANY\nANY KERNEL k(int n) {}", "void k(int n)"),
        ("#ifdef A\n__global__ void k(int n) {}\n#endif", "void k(int n)"),
        ("void k(int n) {}", "void k(int n)"),
    ],
)  # fmt: skip
def test_the_declaration(tmp_path: Path, source: str, declaration: str) -> None:
    assert read(tmp_path, source).declaration == declaration


# Copies that are no kernel, or not the one that counts; the kernel takes (int right).
DECOYS = {
    "in a line comment": "// __global__ void k(int wrong) {}\n",
    "in a block comment": "/* \n__global__ void k(int wrong) {}\n*/\n",
    "in a string": 'const char* s = "__global__ void k(int wrong) {}";\n',
    "in a raw string": 'auto s = R"(\n__global__ void k(int wrong) {}\n)";\n',
    "switched off": "#if 0\n__global__ void k(int wrong) {}\n#endif\n",
    "a call": "void f() { k(1); k<<<1, 2, 3>>>(wrong); }\n",
    "a method": "struct S { void k(int wrong) {} };\n",
    "another function with that beginning": "__global__ void kk(int wrong) {}\n",
    "a host function of that name": "void k(float wrong, int also) {}\n",
    "a declaration": "__global__ void k(int);\n",
    "a macro": "#define k2(x) k(x)\n",
    "a local declaration": "void f() { void k(int wrong); }\n",
}


@pytest.mark.parametrize("decoy", DECOYS.values(), ids=DECOYS)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_what_only_looks_like_the_kernel_is_passed_over(tmp_path: Path, decoy: str, before: bool) -> None:
    kernel = "__global__ __aicore__ void k(int right) { }\n"
    found = read(tmp_path, decoy + kernel if before else kernel + decoy)
    assert found.declaration == "void k(int right)"
    assert found.line == (decoy.count("\n") if before else 0) + 1


def test_names_of_template_parameters(tmp_path: Path) -> None:
    text = "template <class A, typename = B, template <class X, int> class C, int D = E, class... F, Kind, "
    text += "template <class> class = Q, G* H, bool... I>"
    found = read(tmp_path, f"{text} __global__ void k() {{}}").template
    assert found is not None
    assert [p.name for p in found] == ["A", "", "C", "D", "F", "", "", "H", "I"]
    assert [p.is_type for p in found] == [True, True, False, False, True, False, False, False, False]
    assert [p.has_default for p in found] == [False, True, False, True, False, False, True, False, False]
    assert [p.is_pack for p in found] == [False, False, False, False, True, False, False, False, True]


def test_the_live_branch_of_if_0(tmp_path: Path) -> None:
    text = "#if 0\n__global__ void k(int wrong) {}\n#else\n__global__ void k(int right) {}\n#endif\n"
    assert read(tmp_path, text).declaration == "void k(int right)"


def test_overloads_the_first_definition_counts(tmp_path: Path) -> None:
    text = "__global__ void k(float b);\n__global__ void k(int a) {}\n__global__ void k(float b) {}\n"
    assert read(tmp_path, text).declaration == "void k(int a)"


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"][:2], ids=["crlf", "lf"])
@pytest.mark.parametrize(
    "start", [b"", b"\xef\xbb\xbf", b"// \xb0\xa1 \xff\xfe\n/* \x80 */"], ids=["ascii", "bom", "gbk"]
)
def test_any_encoding(tmp_path: Path, start: bytes, end: bytes) -> None:
    text = (
        start + b"__global__ __aicore__ void k(GM_ADDR x, // \xd6\xd0\xce\xc4" + end + b"  int n) {" + end + b"}" + end
    )
    assert read(tmp_path, text).declaration == "void k(GM_ADDR x, int n)"


def test_a_kernel_in_an_included_header(tmp_path: Path) -> None:
    write(tmp_path / "inner" / "deep.hpp", "__global__ void k(int deep) {}\n")
    write(tmp_path / "inner" / "mid.h", '#include "deep.hpp"\n#include "mid.h"\n#include "absent.h"\n')
    found = read(tmp_path, '#include <vector>\n  #  include "inner/mid.h" // kernels\n')
    assert found.declaration == "void k(int deep)"
    assert (found.file, found.line) == (str(tmp_path / "inner" / "deep.hpp"), 1)


def test_the_lines_are_those_of_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, b"\n\n#define A \\\n 1\n__global__ void\nk(int n)\n{}\n").line == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void kernel_add(int n) {}",
         "a.cpp has no function 'kernel_ad'; did you mean 'kernel_add'? Functions found: kernel_add"),
        ("", "a.cpp has no function 'kernel_ad'; Functions found: none"),
        ("int x = kernel_ad;", "a.cpp has no function 'kernel_ad'; Functions found: none"),
        ("\0\xff" * 1000, "a.cpp has no function 'kernel_ad'; Functions found: none"),
    ],
)  # fmt: skip
def test_a_kernel_that_is_not_there(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, source, "kernel_ad")
    assert str(caught.value) == f"KernelInvokeConfig: {message}"


def test_includes_that_no_file_can_have_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "circle.h").symlink_to("elcric.h")
    (tmp_path / "elcric.h").symlink_to("circle.h")
    (tmp_path / "folder.h").mkdir()
    os.mkfifo(tmp_path / "pipe.h")
    with open(tmp_path / "large.h", "wb") as large:
        large.write(b"__global__ void k(int large);\n")
        large.truncate((64 << 20) + 1)
    names = [b"a\0b", b"x" * 300, b"y/" * 3000, b"circle.h", b"folder.h", b"pipe.h", b"large.h", b"\xff\xfe.h"]
    names += [b"/proc/self/mem", b"/dev/zero", b"/dev/tty", b"a.cpp/x.h"]
    includes = b"".join(b'#include "%s"\n' % name for name in names)
    write(tmp_path / "last.h", "__global__ void k(int last);\n")
    assert read(tmp_path, includes + b'#include "last.h"\n').declaration == "void k(int last)"
    with pytest.raises(InputError, match=r"a\.cpp has no function 'other'"):
        read(tmp_path, includes, "other")


def test_a_source_that_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.cpp")
    for name in ("a.cpp", "absent.cpp", "a\0b", "x" * 300):
        with pytest.raises(InputError, match="has no function 'k'; Functions found: none"):
            read_signature(tmp_path / name, "k")


def test_many_includes_and_functions(tmp_path: Path) -> None:
    includes = "".join(f'#include "absent{n}.h"\n' for n in range(50_000))
    functions = "".join(f"__global__ void f{n}();\n" for n in range(5000))
    with pytest.raises(InputError) as caught:
        read(tmp_path, includes + functions)
    assert str(caught.value).endswith(f"{', '.join(f'f{n}' for n in range(20))} and 4,980 more")


@pytest.mark.parametrize(
    ("type_text", "is_pointer"),
    [
        ("float*", True),
        ("GM_ADDR", True),
        ("const GM_ADDR", True),
        ("float* const", True),
        ("const float* volatile", True),
        ("float**", True),
        ("float*&", True),
        ("float", False),
        ("const Shape&", False),
        ("GM_ADDRESS", False),
    ],
)
def test_pointers(type_text: str, is_pointer: bool) -> None:
    assert Parameter(type_text, "x").is_pointer is is_pointer
