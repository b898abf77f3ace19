# SPDX-License-Identifier: Apache-2.0
"""The ``// tunable`` marks: which are found, what may be put in, and that no other byte changes."""

from __future__ import annotations

import enum
import os
import pickle
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mskpp.errors import ArgumentError, FileError, InputError, StateError
from mskpp.launcher import checks
from mskpp.optune.tunable import Markers, check, instance, read_markers, value_text


@pytest.fixture(autouse=True)
def usual_rights() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def read(text: str | bytes, name: str = "kernel.cpp") -> Markers:
    """The markers of a source with this text."""
    path = Path.cwd() / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_markers(path)


def found(text: str | bytes) -> list[tuple[str, str]]:
    return [(marker.key, marker.value) for marker in read(text)]


def instance_bytes(markers: Markers, config: Mapping[str, object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        check(markers, [config], "autotune")
        return instance(markers.path, markers, config, Path(folder) / "one").read_bytes()


def put(text: str | bytes, config: Mapping[str, object]) -> str:
    """The source after the values were put in."""
    return instance_bytes(read(text), config).decode("utf-8", "surrogateescape")


def refused(text: str | bytes, config: Mapping[str, object]) -> str:
    """The message of check; instance says the same, and writes nothing."""
    markers = read(text)
    with pytest.raises(InputError) as by_check:
        check(markers, [config], "autotune")
    with pytest.raises(InputError) as by_instance:
        instance(markers.path, markers, config, Path.cwd() / "private")
    assert str(by_check.value) == str(by_instance.value)
    assert not (Path.cwd() / "private").exists()
    return str(by_check.value)


# ---------------------------------------------------------------- which places there are


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("using X = Type<1, 2>; // tunable", [("X", "Type<1, 2>")]),
        ("constexpr uint32_t N = 4; // tunable", [("N", "4")]),
        ("constexpr\tuint32_t\tN\t=\t4\t;\t// tunable", [("N", "4")]),
        ("#define N 4 // tunable", [("N", "4")]),
        ("#  define N(x, y) ((x) + (y)) // tunable", [("N", "((x) + (y))")]),
        ("#define N /* a */ 3 /* b */ // tunable", [("N", "3")]),
        ("#define ARGS 1, 2 // tunable", [("ARGS", "1, 2")]),
        ("#define FLAG // tunable", []),
        ("#define N 4 // tunable: A", [("A", "4")]),
        ("template <> constexpr int N<2, int> = 4; // tunable", [("N", "4")]),
        ("struct S { int size() const NOEXCEPT { return n; } }; // tunable", []),
        ("template <int N = 4, int M = 2> // tunable\nvoid f();", [("N", "4"), ("M", "2")]),
        ("template <class T = F<1, 2>, int N = (3 > 2)> // tunable\nvoid f();", [("T", "F<1, 2>"), ("N", "(3 > 2)")]),
        ("int N = 4 /*c*/, M = 5; // tunable", [("N", "4"), ("M", "5")]),
        ("int N{4}; // tunable", [("N", "4")]),
        ("Foo x{1, {2, 3}}; // tunable", [("x", "1, {2, 3}")]),
        ("int N{}; // tunable", [("N", "")]),
        ("int N(4); // tunable", [("N", "4")]),
        ("int N[2] = {1, 2}; // tunable", [("N", "{1, 2}")]),
        ("int *N = 0; // tunable", [("N", "0")]),
        ("static constexpr auto x = Foo<1>{}; // tunable", [("x", "Foo<1>{}")]),
        ("enum E {\n kStages = 2, // tunable\n kLast = 3 // tunable\n};", [("kStages", "2"), ("kLast", "3")]),
        ("void f(int a = 1, // tunable\n float b = 1.5f); // tunable", [("a", "1"), ("b", "1.5f")]),
        ("struct S {\n int n = 4; // tunable\n int m{3}; // tunable\n};", [("n", "4"), ("m", "3")]),
        ("struct S { int a = 1, b{2}, c; }; // tunable", [("a", "1"), ("b", "2")]),
        ("typedef Foo<1> X; // tunable", [("X", "Foo<1>")]),
        ("int Foo::n = 4; // tunable", [("n", "4")]),
        ("int (*fp)(int) = &foo; // tunable", [("fp", "&foo")]),
        ("[[maybe_unused]] alignas(32) constexpr int k = 3; // tunable", [("k", "3")]),
        ("void f() {\n n = 8; // tunable\n p.n = 9; // tunable\n n += 1; // tunable\n}", [("n", "8"), ("p.n", "9")]),
        ("Foo f = {\n .n = 1, // tunable\n .m = 2, // tunable: M\n};", [("n", "1"), ("M", "2")]),
        ("int z = a ? 1 : 2; // tunable", [("z", "a ? 1 : 2")]),
        ("using X =\n  Foo<1>; // tunable", [("X", "Foo<1>")]),
        ("using X = Foo<1, // tunable\n  2>;", [("X", "Foo<1, // tunable\n  2>")]),
        ("int n = 1; //tunable", [("n", "1")]),
        ("int n = 1; //  tunable  ", [("n", "1")]),
        ("int n = 1; //  tunable :\tALIAS  ", [("ALIAS", "1")]),
        ("int n = 1; // stages // tunable", [("n", "1")]),
        ("int n = 1; /* x */ // tunable", [("n", "1")]),
        ("__global__ __aicore__ void f(__gm__ int *a, int b = 1) // tunable\n{}", [("b", "1")]),
        ("constexpr int FAST_KERNEL = 1; // tunable", [("FAST_KERNEL", "1")]),
        ("int n = 1\\\n+ 2; \\\n// tun\\\nable", [("n", "1\\\n+ 2")]),
        ("#define N \\\n  4 // tunable", [("N", "4")]),
        ("int n = 1; // tunable \\\nint m = 2;", []),
    ],
)  # fmt: skip
def test_places(text: str, places: list[tuple[str, str]]) -> None:
    for source in (text, text + "\n", text.replace("\n", "\r\n") + "\r\n", "\ufeff" + text):
        expected = [(k, v.replace("\n", "\r\n")) if "\r\n" in source else (k, v) for k, v in places]
        assert found(source) == expected


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "using X = GemmShape<128, // tunable: M\n  256, // tunable: N\n  64>; // tunable: K",
            [("M", "128"), ("N", "256"), ("K", "64")],
        ),
        ("using X = Gemm<\n  a::Shape<1, 2>, // tunable: T\n  void>;", [("T", "a::Shape<1, 2>")]),
        ("using X = Gemm<\n  1, 2, // tunable: T\n  void>;", [("T", "1, 2")]),
        ("auto x = run<128, // tunable: T\n  2>(3);", [("T", "128")]),
        ("void g() { f(4, // tunable: A\n 5); }", [("A", "4")]),
        ("int a[] = {1, // tunable: A\n 5};", [("A", "1")]),
        ("void g() {\n  k<<<20, // tunable: B\n nullptr, s>>>(a);\n}", [("B", "20")]),
        ("void g() {\n  f<4>(x); // tunable: A\n}", [("A", "f<4>(x)")]),
        ("Foo<8> foo; // tunable: A", [("A", "Foo<8> foo")]),
        ("void g() {\n  return f(4); // tunable: A\n}", [("A", "return f(4)")]),
        ("using X = Gemm< // tunable: A\n  1>;", [("A", "Gemm< // tunable: A\n  1>")]),
        ("using X = Gemm<1,\n 2> ; // tunable: A", [("A", "2")]),
        ("if (N == 4) // tunable: A\n  return;", []),
        ("int n = 1; // tunable: two words", []),
    ],
)  # fmt: skip
def test_alias_places(text: str, places: list[tuple[str, str]]) -> None:
    assert found(text) == places


@pytest.mark.parametrize(
    "text",
    [
        'const char* s = "int n = 1; // tunable";',
        'auto s = R"(\nint n = 1; // tunable\n)";',
        'auto s = R"x(\n)" int n = 1; // tunable\n)x";',
        "/* int n = 1; // tunable */",
        "/*\nint n = 1; // tunable\n*/",
        "// int n = 1; // tunable",
        "//int n = 1; // tunable",
        "// tunable",
        "int n = 1;\n// tunable",
        "int n = 1; // not tunable",
        "int n = 1; // tunable (note)",
        "int n = 1; // tunable, as it is",
        "int n = 1; /* tunable */",
        "int n = 1; // Tunable",
        "int n = 1; // tunables",
        "#if 0\nint n = 1; // tunable\n#endif",
        "#if 1\n#else\nint n = 1; // tunable\n#endif",
        "int n; // tunable",
        "#pragma unroll 4 // tunable",
        "#if N > 4 // tunable\n#endif",
        "using namespace n; // tunable",
        "struct S { int n : 4; }; // tunable",
        "auto [n, m] = f(1); // tunable",
        "'",
        '"',
        'R"(',
        "/*",
        "#",
        "#define",
        "#define N(",
        "#else\n#endif\n#if",
        "",
        "\\",
    ],
)
def test_look_alikes_are_no_marks(text: str) -> None:
    assert found(text) == []


def test_strings_and_comments_around_a_value() -> None:
    source = (
        'const char*u="http://x /* \\" \'"; /* ; */ char c = \'"\' /* = */; // tunable\n'
        "int big = 1'000'000; // tunable"
    )
    assert found(source) == [("u", '"http://x /* \\" \'"'), ("c", "'\"'"), ("big", "1'000'000")]


def test_lines_are_counted_as_an_editor_does() -> None:
    markers = read('\ufeffauto s = R"(\n\n)";\n/*\n*/ #define A \\\n 1 // tunable\r\n\r\nint n = 1; // tunable')
    assert [(m.key, m.line) for m in markers] == [("A", 6), ("n", 8)]


def test_a_marker_tells_its_bytes() -> None:
    source = "// \u4f60\u597d\nusing X = Foo<1>; // tunable: A\n".encode()
    (marker,) = read(source)
    assert source[marker.start : marker.end] == b"Foo<1>"
    assert (marker.name, marker.alias, marker.line, marker.value) == ("X", "A", 2, "Foo<1>")
    assert marker.file == Path.cwd() / "kernel.cpp"
    assert pickle.loads(pickle.dumps(marker)) == marker


def test_markers_can_be_sent_to_other_processes() -> None:
    markers = read("int n = 1; // tunable\nint m = 2; // Tunable\n")
    copy = pickle.loads(pickle.dumps(markers))
    assert (copy, copy.path, copy.unmarked, copy.digests) == (
        markers,
        markers.path,
        markers.unmarked,
        markers.digests,
    )


@pytest.mark.parametrize("comment", [b"\xb0\xa1\xc4\xe3", b"\xe9t\xe9", b"\xff\xfe\x80", "\u4f60".encode()])
def test_any_encoding(comment: bytes) -> None:
    source = b'int a = 0; // %b\nauto s = "%b"; // tunable\nint n = 1; /* %b */ // tunable\n' % ((comment,) * 3)
    markers = read(source)
    assert [m.key for m in markers] == ["s", "n"]
    assert instance_bytes(markers, {"n": 2}) == source.replace(b"n = 1", b"n = 2")
    assert instance_bytes(markers, {"s": markers[0].value}) == source


# ---------------------------------------------------------------- branches


def test_branches_of_one_if_are_all_replaced() -> None:
    source = "#if A\nint n = 1; // tunable\n#elif B\nint n = 2; // tunable\n#else\nint n = 3; // tunable\n#endif\n"
    assert put(source, {"n": 8}) == source.replace("n = 1", "n = 8").replace("n = 2", "n = 8").replace("n = 3", "n = 8")


def test_branches_that_are_no_cpp_each_alone() -> None:
    source = (
        "#ifdef A\ntemplate <int N = 4> // tunable\nvoid f(int a) {\n#else\ntemplate <int N = 8> // tunable\n"
        "void f(long a) {\n#if B\n  int m = 1; // tunable\n#else\n  int m = 2; // tunable\n#endif\n#endif\n}\n"
    )
    assert found(source) == [("N", "4"), ("N", "8"), ("m", "1"), ("m", "2")]
    assert put(source, {"N": 1, "m": 7}).count("= 7; // tunable") == 2


def test_different_ifs_are_ambiguous() -> None:
    source = "#ifdef A\nint n = 1; // tunable\n#endif\n#ifndef A\nint n = 2; // tunable\n#endif\n"
    assert "tunable 'n' is ambiguous: it is marked in line 2 and line 5;" in refused(source, {"n": 8})


# ---------------------------------------------------------------- the documented samples


def test_documented_shapes() -> None:
    source = (
        "    using L1TileShape = GemmShape<128, 256, 256>; // tunable\n\n"
        "    using L0TileShape = GemmShape<128, 256, 64>; // tunable\n"
    )
    config = {"L1TileShape": "GemmShape<64, 128, 512>", "L0TileShape": "GemmShape<64, 128, 128>"}
    assert put(source, config) == (
        "    using L1TileShape = GemmShape<64, 128, 512>; // tunable\n\n"
        "    using L0TileShape = GemmShape<64, 128, 128>; // tunable\n"
    )


@pytest.mark.parametrize("ending", ["", ";"])
def test_documented_alias_on_a_line_of_its_own(ending: str) -> None:
    source = "using L0TileShape =\nMatmulShape<128, 256, 64>; // tunable: L0Shape\n"
    assert put(source, {"L0Shape": "MatmulShape<64, 256, 64>" + ending}) == source.replace("<128", "<64")


@pytest.mark.parametrize("ending", ["", ","])
def test_alias_of_one_argument_with_its_comma(ending: str) -> None:
    source = (
        "using K = typename D<\n        A,\n        n::Shape<128, 256, 256>, // tunable: Tile\n        void>::Kernel;\n"
    )
    assert put(source, {"Tile": "<128, 128, 128>" + ending}) == source.replace(
        "n::Shape<128, 256, 256>", "<128, 128, 128>"
    )


# ---------------------------------------------------------------- the forms of a value


@pytest.mark.parametrize(
    ("line", "value", "expected"),
    [
        ("using X = Foo<1>; // tunable: A", "Foo<2>", "using X = Foo<2>; // tunable: A"),
        ("using X = Foo<1>; // tunable: A", "Foo<2>;", "using X = Foo<2>; // tunable: A"),
        ("using X = Foo<1>; // tunable: A", "using X = Bar<2>;", "using X = Bar<2>; // tunable: A"),
        ("using X = Foo<1>; // tunable: A", "using  X=Bar<2>", "using X = Bar<2>; // tunable: A"),
        ("using X =\n  Foo<1>; // tunable: A", "using X = Bar<2>;", "using X = Bar<2>; // tunable: A"),
        ("constexpr uint32_t N = 8; // tunable: A", "constexpr int N = 4;", "constexpr int N = 4; // tunable: A"),
        ("constexpr uint32_t N = 8; // tunable", "constexpr int N{4}", "constexpr int N{4}; // tunable"),
        ("constexpr uint32_t N = 8; // tunable", " 4; ", "constexpr uint32_t N = 4; // tunable"),
        ("int N = 1, M = 2; // tunable: A", "long N = 3, M = 4;", "long N = 3, M = 4; // tunable: A"),
        ("int N{1}; // tunable", "{2}", "int N{2}; // tunable"),
        ("int N{}; // tunable", "2", "int N{2}; // tunable"),
        ("Foo N{{1}}; // tunable", "{2}", "Foo N{{2}}; // tunable"),
        ("int N[2] = {1, 2}; // tunable", "{3, 4};", "int N[2] = {3, 4}; // tunable"),
        ("enum { a = 2, // tunable: A\n};", "3,", "enum { a = 3, // tunable: A\n};"),
        ("enum { b,\n  a = 2, // tunable: A\n};", "a = 3,", "enum { b,\n  a = 3, // tunable: A\n};"),
        ("void f(int a = 2, // tunable\n int b);", "long a = 3", "void f(long a = 3, // tunable\n int b);"),
        ("using X = Foo<1, // tunable: A\n 2>;", "using X = Foo<7,", "using X = Foo<7, // tunable: A\n 2>;"),
        ("using X = Foo<1,\n 2>; // tunable: A", "7>;", "using X = Foo<1,\n 7>; // tunable: A"),
        ("using X = Foo<1,\n 2>; // tunable: A", "Bar<7>", "using X = Foo<1,\n Bar<7>>; // tunable: A"),
        ("Foo<8> foo; // tunable: A", "Foo<4> foo;", "Foo<4> foo; // tunable: A"),
        ("#define N 4 // tunable", "#define N 8", "#define N 8 // tunable"),
        ("#define Q inline // tunable", "static inline", "#define Q static inline // tunable"),
        ("typedef Foo<1> X; // tunable", "Foo<2>", "typedef Foo<2> X; // tunable"),
        ("typedef Foo<1> X; // tunable: A", "typedef Foo<2> X;", "typedef Foo<2> X; // tunable: A"),
        ("auto s = 0; // tunable", '"a;b//c#{"', 'auto s = "a;b//c#{"; // tunable'),
        ("auto s = 0; // tunable", "R\"(\"#;)\"", "auto s = R\"(\"#;)\"; // tunable"),
        ("auto s = 0; // tunable", "';'", "auto s = ';'; // tunable"),
        ("int b = 0; // tunable", "x < 1 ? f(a > b, 3) : F<1, 2>::v", "int b = x < 1 ? f(a > b, 3) : F<1, 2>::v; // tunable"),  # noqa: E501
    ],
)  # fmt: skip
def test_forms_of_a_value(line: str, value: str, expected: str) -> None:
    key = "A" if ": A" in line else next(iter(dict(found(line))))
    assert put(line, {key: value}) == expected


def test_several_keys_of_one_line() -> None:
    source = "template <int N = 4, int M = 2> // tunable\r\nstruct S { int a[2] = {1, 2}; }; // tunable"
    assert put(source, {"M": 16, "N": 8, "a": "{0, 0}"}) == (
        "template <int N = 8, int M = 16> // tunable\r\nstruct S { int a[2] = {0, 0}; }; // tunable"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1\n2", "has '\\n' inside"),
        ("1\r", "has '\\r' inside"),
        ("1\0", "has '\\x00' inside"),
        ("1; int m = 2", "has ';' inside"),
        ("1;;", "has ';' inside"),
        ("1, m = 2", "has a comma outside brackets"),
        ("a > b, m", "has a comma outside brackets"),
        ("1 // x", "has a comment (//) inside"),
        ("1 /* x", "has a comment (/*) inside"),
        ("1 /* x */", "has a comment (/*) inside"),
        ("#x", "has '#' inside"),
        ("%:x", "has '%:' inside"),
        ("1 \\", "has '\\' inside"),
        ("1 ??/", "has '??/' inside"),
        ("f(1", "has '(' that is not closed"),
        ("f(1]", "has ']' without its opening bracket"),
        ("1}", "has '}' without its opening bracket"),
        ("1<%", "has '<%' inside"),
        ('"abc', 'has a " that is not closed'),
        ('"abc\\"', 'has a " that is not closed'),
        ("'", "has a ' that is not closed"),
        ('R"(a', 'has a " that is not closed'),
        ("", "is empty"),
        ("  \t", "is empty"),
        (";", "is empty"),
        ("1,", "ends with ',', but the value in the source is followed by ';'; leave it out"),
        ("using Y = Foo<2>;", "begins a declaration, but not one of 'n'"),
        ("\ud800", "has characters that have no UTF-8 form"),
    ],
)
def test_values_that_are_more_than_a_value(value: str, said: str) -> None:
    message = refused("int n = 1; // tunable\n", {"n": value})
    assert message.startswith(f"autotune: tunable 'n': the value {value!r} {said}")


@pytest.mark.parametrize(
    ("line", "value", "said"),
    [
        ("template <int n = 1> void f(); // tunable", "1> void g() {} template <int n = 1", "has '<' or '>' that"),
        ("template <int n = 1> void f(); // tunable", "2>", "has '<' or '>' that"),
        ("using X = Foo<1, // tunable: n\n 2>;", "a < b", "has '<' or '>' that"),
        ("using X = Foo<1, // tunable: n\n 2>;", "3>::v, Foo<4", "has '<' or '>' that"),
        ("Foo<8> foo; // tunable: n", "void g() {} Foo<4> foo", "has more than one statement"),
    ],
)
def test_values_that_leave_their_place(line: str, value: str, said: str) -> None:
    assert f"the value {value!r} {said}" in refused(line, {"n": value})


def test_comparisons_in_template_arguments() -> None:
    source = "template <bool n = false> void f(); // tunable"
    assert put(source, {"n": "(a > b)"}) == source.replace("false", "(a > b)")
    assert put(source, {"n": "Foo<1, (2 < 3)>::v"}) == source.replace("false", "Foo<1, (2 < 3)>::v")


def test_unknown_macros_around() -> None:
    source = (
        "BEGIN_SPACE(a)\nAPI_CALL inline FORCE void f(IN int *p, int n = 1) // tunable\n"
        "{\n  LIKELY(x) int m = 2; // tunable\n"
        "  using T = Foo<1>; // tunable\n  PRAGMA(unroll)\n  constexpr int k = 3; // tunable\n}\nEND_SPACE\n"
        "template <class T> MY_DEVICE void g() {\n  static constexpr int q{4}; // tunable\n}\n"
    )
    assert dict(found(source)).items() >= {"T": "Foo<1>", "k": "3", "q": "4"}.items()


def test_a_semicolon_the_source_does_not_have() -> None:
    assert "followed by nothing; leave it out" in refused("#define n 1 // tunable", {"n": "1;"})
    assert "followed by '>'; leave it out" in refused("template <int n = 1> // tunable\nvoid f();", {"n": "2;"})


def test_an_alias_of_several_declarations_needs_all_of_them() -> None:
    message = refused("int a = 1, b = 2; // tunable: A", {"A": "3"})
    assert message == (
        "autotune: tunable 'A': the value '3' is for a line with several values; "
        "give the whole declaration, or mark the line plainly"
    )


def test_a_declaration_that_would_drop_a_name() -> None:
    source = "int n = 1, m; // tunable"
    assert put(source, {"n": "long n = 2, m"}) == "long n = 2, m; // tunable"
    message = refused(source, {"n": "long n = 2;"})
    assert message.endswith("declares n in the place of m, n; give the value alone, or declare them all")


def test_overlapping_places() -> None:
    source = "using X = Foo< // tunable\n  Bar<1>>; // tunable: B\ntypedef int P, Q; // tunable\n"
    assert put(source, {"B": "2"}) == source.replace("Bar<1>", "2")
    assert "tunables 'X' and 'B' overlap in kernel.cpp" in refused(source, {"X": "Foo<2>", "B": "3"})
    assert "overlap" in refused(source, {"P": "long", "Q": "short"})


# ---------------------------------------------------------------- keys


def test_a_key_without_a_place() -> None:
    source = (
        "\n" * 40 + "using L0TileShape = A<1>; // tunable\n" + "\n" * 15 + "constexpr int kStages = 2; // tunable\n"
    )
    assert refused(source, {"L1TileShape": "A<2>"}) == (
        "autotune: tunable 'L1TileShape' matches no marked line of kernel.cpp; "
        "marked: L0TileShape (line 41), kStages (line 57); did you mean 'L0TileShape'?"
    )


def test_a_key_without_a_place_shows_what_looks_like_a_mark() -> None:
    source = (
        "int kStages = 2; // Tunable\nint b = 1; /* tunable */\n"
        "#if 0\nint c = 1; // tunable\n#endif\nint d; // tunable\n"
    )
    assert refused(source, {"kStages": 1}) == (
        "autotune: tunable 'kStages' matches no marked line of kernel.cpp; nothing is marked: end a line with "
        "'// tunable'; not taken for marks: line 1 '// Tunable' (no mark)"
    )
    message = refused(source, {"zzz": 1})
    assert "line 2 '/* tunable */' (no mark), line 4 '// tunable' (in a branch that is never compiled)" in message
    assert message.endswith("line 6 '// tunable' (no value that can be replaced)")
    assert "line 1 '// int n = 1; // tunable' (no declaration on its line)" in refused(
        "// int n = 1; // tunable", {"n": 1}
    )


def test_the_name_of_an_aliased_declaration() -> None:
    message = refused("int n = 1; // tunable: Stages", {"n": 2})
    assert message.endswith("marked: Stages (line 1); line 1 declares it, but its mark gives it the name 'Stages'")


def test_case_matters() -> None:
    assert refused("int kStages = 1; // tunable", {"kstages": 2}).endswith("did you mean 'kStages'?")


def test_a_name_at_two_places() -> None:
    message = refused("int n = 1; // tunable\nvoid f() { int n = 2; } // tunable", {"n": 3})
    assert message == (
        "autotune: tunable 'n' is ambiguous: it is marked in line 1 and line 2; give one of them another name: "
        "// tunable: NAME"
    )
    assert "line 1, twice;" in refused("struct A { int n = 1; }; struct B { int n = 1; }; // tunable", {"n": 3})
    assert "is ambiguous" in refused("int n = 1; // tunable\nint m = 1; // tunable: n", {"n": 3})


def test_an_alias_at_several_places() -> None:
    same = "int n = 1; // tunable: A\nint m = 1; // tunable: A\n"
    assert put(same, {"A": 2}) == same.replace("1;", "2;")
    message = refused(same.replace("m = 1", "m = 3"), {"A": 2})
    branches = "#if X\nint n = 1; // tunable: A\n#else\nint m = 3; // tunable: A\n#endif\n"
    assert put(branches, {"A": 2}) == branches.replace("1;", "2;").replace("3;", "2;")
    assert "'A' is ambiguous: it is marked in line 1 and line 2 with different values (1 and 3)" in message


def test_wrong_types() -> None:
    markers = read("int n = 1; // tunable")
    for config in ({1: 2}, {"n": None}, {"n": (1, 2)}, [("n", 1)], "n"):
        with pytest.raises(ArgumentError, match=r"^autotune: "):
            check(markers, [config], "autotune")  # type: ignore[list-item]


def test_check_looks_at_all_configurations() -> None:
    markers = read("int n = 1; // tunable\nint m = 1; // tunable")
    check(markers, [{"n": 1}, {"m": 2}, {"n": 2, "m": 1}, {}] * 1000, "autotune")
    with pytest.raises(InputError, match=r"^autotune_v2: tunable 'k' matches no"):
        check(markers, [{"n": 1}, {"k": 2}], "autotune_v2")


# ---------------------------------------------------------------- values


class Colour(str, enum.Enum):
    RED = "Red<1>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("A<1>", "A<1>"),
        (8, "8"),
        (-8, "-8"),
        (True, "true"),
        (False, "false"),
        (0.1, "0.1"),
        (4.0, "4.0"),
        (1e22, "1e+22"),
        (np.int64(8), "8"),
        (np.uint8(8), "8"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (np.bool_(True), "true"),
        (np.float64(0.1), "0.1"),
        (np.float32(0.5), "0.5"),
        (np.float16(0.5), "0.5"),
        (np.longdouble(0.5), "0.5"),
        (np.str_("x"), "x"),
        (enum.IntEnum("Number", ["ONE"])["ONE"], "1"),
        (Colour.RED, "Red<1>"),
    ],
)
def test_value_text(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    "value", [None, b"x", 1j, [1], (1,), {}, np.array(1), np.complex64(1), np.datetime64("2020-01-01")]
)
def test_values_of_other_types(value: object) -> None:
    with pytest.raises(ArgumentError, match="give C\\+\\+ text, an int, float, bool or numpy scalar"):
        value_text(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("inf"), 2**64, -(2**63) - 1])
def test_numbers_that_have_no_literal(value: object) -> None:
    with pytest.raises(InputError, match="give C\\+\\+ text"):
        value_text(value)


def test_a_number_too_long_to_be_printed() -> None:
    with pytest.raises(InputError, match="the value has 16610 bits; C\\+\\+ integers have 64"):
        value_text(10**5000)


# ---------------------------------------------------------------- files


def tree(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): stat.S_IMODE(p.lstat().st_mode) for p in folder.rglob("*")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A source whose headers lie around it. Returns the source."""
    files = {
        "p/src/deep/kernel.cpp": '#include "tile.h"\n#include "../../include/shape.h"\n#include <vector>\n'
        '#include "gone/../own.h"\nconstexpr int kStages = 2; // tunable\nint use = kTile + kRows + kOwn + kStages;\n',
        "p/src/deep/tile.h": '#pragma once\n#include "sub/inner.h"\nconstexpr int kTile = kInner; // tunable: Tile\n',
        "p/src/deep/sub/inner.h": '#pragma once\n#include "../tile.h"\nconstexpr int kInner = 1; // tunable\n',
        "p/include/shape.h": "#pragma once\nconstexpr int kRows{16}; // tunable\n",
        "p/src/deep/own.h": "constexpr int kOwn = 3;\n",
        "p/src/deep/unused.h": "int n = 1; // tunable\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "p/src/deep/gone").mkdir()
    return tmp_path / "p/src/deep/kernel.cpp"


def test_headers(project: Path, tmp_path: Path) -> None:
    markers = read_markers(project)
    assert [(m.key, m.file.name, m.line) for m in markers] == [
        ("kStages", "kernel.cpp", 5),
        ("Tile", "tile.h", 3),
        ("kRows", "shape.h", 2),
        ("kInner", "inner.h", 3),
    ]
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}
    names = tree(tmp_path)
    made = instance(project, markers, {"kRows": 32, "kInner": np.int64(7)}, tmp_path / "private")

    assert made == tmp_path / "private/source/src/deep/kernel.cpp"
    assert made.read_bytes() == project.read_bytes()
    assert tree(tmp_path / "private") == {
        "source": 0o750,
        "source/include": 0o750,
        "source/include/shape.h": 0o600,
        "source/src": 0o750,
        "source/src/deep": 0o750,
        "source/src/deep/gone": 0o750,
        "source/src/deep/kernel.cpp": 0o600,
        "source/src/deep/own.h": 0o600,
        "source/src/deep/sub": 0o750,
        "source/src/deep/sub/inner.h": 0o600,
        "source/src/deep/tile.h": 0o600,
    }
    assert (made.parent / "sub/inner.h").read_text().endswith("kInner = 7; // tunable\n")
    assert (made.parent / "../../include/shape.h").read_text().endswith("kRows{32}; // tunable\n")
    assert (made.parent / "own.h").stat().st_mtime_ns == project.with_name("own.h").stat().st_mtime_ns
    compiles(made)
    assert ("kRows", "32") in [(m.key, m.value) for m in read_markers(made)]

    shutil.rmtree(tmp_path / "private")
    assert tree(tmp_path) == names
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}


def test_a_key_of_a_header_is_named_with_it(project: Path) -> None:
    with pytest.raises(
        InputError, match=r"marked: kStages \(line 5\), Tile \(tile.h line 3\), kRows \(shape.h line 2\), "
    ):
        check(read_markers(project), [{"kTile": 1}], "autotune")


def test_a_header_through_links(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.h").write_text('#include "b.h"\nint a = 1; // tunable\n')
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.h").symlink_to(real / "a.h")
    (tmp_path / "src/b.h").write_text("int b = 1; // tunable\n")  # next to the link, where a compiler looks
    source = tmp_path / "src/kernel.cpp"
    source.write_text('#include "a.h"\n')
    markers = read_markers(source)
    assert [(m.key, m.file) for m in markers] == [("a", real / "a.h"), ("b", tmp_path / "src/b.h")]
    made = instance(source, markers, {"a": 2, "b": 3}, tmp_path / "private")
    assert (made.parent / "a.h").read_text() == '#include "b.h"\nint a = 2; // tunable\n'
    assert not (made.parent / "a.h").is_symlink()
    compiles(made)


def test_absolute_and_angle_includes_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x.h").write_text("int n = 1; // tunable\n")
    markers = read(f'#include "{tmp_path}/x.h"\n#include <x.h>\n#include "nowhere.h"\nint m = 1; // tunable\n')
    assert [m.key for m in markers] == ["m"]
    made = instance(markers.path, markers, {"m": 2}, tmp_path / "private")
    assert list(tree(tmp_path / "private")) == ["source", "source/kernel.cpp"]
    assert made.read_text().endswith("int m = 2; // tunable\n")


def test_a_source_that_changed(project: Path, tmp_path: Path) -> None:
    markers = read_markers(project)
    project.with_name("own.h").write_text("int other;\n")
    with pytest.raises(StateError, match=r"own\.h was changed since its marks were read; tune again"):
        instance(project, markers, {"kStages": 3}, tmp_path / "private")
    assert not (tmp_path / "private").exists()


def test_a_folder_that_has_an_instance(project: Path, tmp_path: Path) -> None:
    markers = read_markers(project)
    made = instance(project, markers, {"kStages": 3}, tmp_path / "private")
    with pytest.raises(FileError, match="source exists already; give each instance a folder of its own"):
        instance(project, markers, {"kStages": 4}, tmp_path / "private")
    assert "kStages = 3" in made.read_text()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^autotune: "):
        read_markers(tmp_path / "none.cpp")
    with pytest.raises(FileError, match=r"^autotune: "):
        read_markers(tmp_path)


@pytest.mark.parametrize("failing", [0, 2, 4])
def test_nothing_half_written(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    markers = read_markers(project)
    real, calls = checks.write_file, iter(range(100))

    def write_file(path: Path, text: bytes, who: str) -> None:
        if next(calls) == failing:
            raise KeyboardInterrupt
        real(path, text, who)

    monkeypatch.setattr(checks, "write_file", write_file)
    with pytest.raises(KeyboardInterrupt):
        instance(project, markers, {"kStages": 3}, tmp_path / "private")
    assert tree(tmp_path / "private") == {}


# ---------------------------------------------------------------- properties

LINES = [
    "using N{i} = {t}; // tunable",
    "constexpr int N{i} = {v};\t//tunable",
    "#define N{i} {v} // tunable",
    "#define N{i}(x) {v} /* , */ // tunable",
    "template <int N{i} = {v}, class T{i} = Foo<1>> // tunable\nvoid f{i}();",
    "int a{i} = 4 /*,*/, N{i} = {v}; // tunable",
    "int N{i}{{{v}}}; // tunable",
    "int N{i}[1] = {{{v}}}; // tunable",
    "enum E{i} {{ N{i} = {v}, // tunable\n}};",
    "void f{i}(int N{i} = {v}, // tunable\n  int b = 2);",
    "struct S{i} {{\n\tint N{i} = {v}; // tunable\n}};",
    "typedef {t} N{i}; // tunable",
    "using X{i} = Shape<1,\n  {v}, // tunable: N{i}\n  3>;",
    "using X{i} =\n  {t}; // note // tunable : N{i}",
    'const char* s{i} = "// tunable"; int N{i} = {v}; // tunable',
    "/* int N{i} = 7; // tunable */ int N{i} = \\\n {v}; // tunable",
    "// int N{i} = 7; // tunable\nauto N{i} = {v}; // tunable",
    "#if A\nint N{i} = {v}; // tunable\n#else\nint N{i} = {v}; // tunable\n#endif",
    'auto r{i} = R"(\nint N{i} = 1; // tunable\n)"; int N{i} = {v}; // tunable',
]  # fmt: skip
VALUES = st.sampled_from(
    ["1", "0x10u", "(1 + 2)", "A::b", "f(1, 2)", "sizeof(int)", "1'000", "-3", "'\"'", "x ? 1 : 2"]
)
TYPES = st.sampled_from(["int", "Foo<1, 2>", "a::B<f(1), (2 > 1)>", "unsigned long", "typename A<int>::B", "F<'1'>"])
NOISE = st.sampled_from(["", "// plain", "/* \u4f60 */", "int z; // Tunable", '#include "none.h"', "namespace a {}"])


@st.composite
def programs(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """A source with the tunables N0, N1, ...; and a value that fits for each."""
    templates = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=6))
    parts, others = [], {}
    for i, template in enumerate(templates):
        parts += [draw(NOISE), template.format(i=i, v=draw(VALUES), t=draw(TYPES))]
        others[f"N{i}"] = draw(TYPES if "{t}" in template else VALUES)
    text = "\n".join(parts) + draw(st.sampled_from(["", "\n"]))
    encoded = text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "gbk"])))
    return (encoded.replace(b"\n", b"\r\n") if draw(st.booleans()) else encoded), others


@settings(max_examples=100)
@given(programs())
def test_the_same_values_give_the_same_bytes(program: tuple[bytes, dict[str, str]]) -> None:
    source, others = program
    markers = read(source)
    config = {marker.key: marker.value for marker in markers}
    assert set(others) <= set(config)
    branches = {m.key for m in markers if len({o.value for o in markers if o.key == m.key}) > 1}
    assert instance_bytes(markers, {key: value for key, value in config.items() if key not in branches}) == source


@settings(max_examples=100)
@given(programs(), st.data())
def test_only_the_values_change(program: tuple[bytes, dict[str, str]], data: st.DataObject) -> None:
    source, others = program
    markers = read(source)
    config = {key: value for key, value in others.items() if data.draw(st.booleans())}
    made = instance_bytes(markers, config)

    expected, at = b"", 0
    for marker in sorted(markers, key=lambda m: m.start):
        if marker.key in config:
            expected += source[at : marker.start] + config[marker.key].encode()
            at = marker.end
    assert made == expected + source[at:]

    again = [(marker.key, marker.value) for marker in read(made)]
    assert again == [(m.key, config.get(m.key, m.value)) for m in markers]


@settings(max_examples=200)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_can_be_read(before: bytes, after: bytes) -> None:
    source = before + b"\nint n = 1; // tunable" + after
    for marker in read(source):
        assert source[marker.start : marker.end] == marker.value.encode("utf-8", "surrogateescape")


@settings(max_examples=300)
@given(st.text("1a,;(){}[]<>\"'\\/*#=+ \n:%R?", max_size=12))
def test_a_value_never_reaches_beyond_its_declaration(value: str) -> None:
    """However odd: the lines around stay what they were to a parser, and the mark stays."""
    source = "int a = 1; // tunable\nint n = 1; // tunable\nint b = 2; // tunable\n"
    markers = read(source)
    try:
        check(markers, [{"n": value}], "autotune")
    except InputError:
        return
    made = instance_bytes(markers, {"n": value}).decode()
    lines = made.split("\n")
    assert [lines[0], lines[2], lines[3]] == ["int a = 1; // tunable", "int b = 2; // tunable", ""]
    assert lines[1].startswith("int n = ") and lines[1].endswith("; // tunable")
    literals = r"""R"\(.*?\)"|"(?:\\.|[^"])*"|'(?:\\.|[^'])*'"""
    assert re.sub(literals, "", lines[1]).count(";") == 1


# ---------------------------------------------------------------- the compiler agrees


def compiles(source: Path) -> None:
    command = ["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"Tile": "Shape<2, 3>", "N": 8, "M": "16,", "kStages": np.int32(3), "fast": True, "scale": 0.5, "Odd": "long"},
        {"Tile": "using Tile = Shape<2, 3>;", "dims": "{3, 4}", "LIMIT": "(1 << 4)", "width": "4", "count": "{9}"},
    ],
)  # fmt: skip
def test_instances_compile(config: dict[str, object]) -> None:
    source = (
        "template <int A, int B> struct Shape { static constexpr int a = A; };\r\n"
        "#define LIMIT 4 // tunable\r\n"
        "using Tile =\r\n  Shape<1, 2>; // tunable: Tile\r\n"
        "template <int N = 4, int W = 2> // tunable\r\nstruct Block { int dims[2] = {1, 2}; // tunable\r\n};\r\n"
        "using Big = Shape<\r\n  128, // tunable: M\r\n  64>;\r\n"
        "enum { kStages = 2, // tunable\r\n};\r\n"
        "constexpr bool fast = false; constexpr double scale = 1; // tunable\r\n"
        "int count{1}; // tunable\r\ntypedef int Odd; // tunable\r\n"
        "int f(int width = 2) { return width; } // tunable\r\n"
        "#if LIMIT > 4\r\nint x = Block<>().dims[0] + Tile::a; // caf\u00e9\r\n#endif\r\n"
    ).encode("latin-1")
    markers = read(source)
    check(markers, [config], "autotune")
    compiles(instance(markers.path, markers, config, Path.cwd() / "private"))
