# SPDX-License-Identifier: Apache-2.0
"""Launch code: who called decides nothing but the values, what is given is checked, the text is as expected."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from utils.kernels import FAST, build, write

from mskpp.errors import ArgumentError, FileError, InputError, UnsafeError
from mskpp.launcher import KernelInvokeConfig, Launcher, compile
from mskpp.launcher.code_generator import Callers, read_metadata

SOURCE = """
#include <cstdint>
namespace Lib {
struct Coord { uint32_t m, n; };
namespace layout { struct RowMajor { int64_t stride; }; struct ColumnMajor { int64_t stride; }; }
enum class Kind { none, bias };
}
extern "C" __global__ __aicore__ void vadd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, half scale) {}
namespace Lib::inner {
template <class LayoutA, class LayoutB>
__global__ __aicore__ void matmul(Lib::Coord shape, GM_ADDR a, LayoutA la, GM_ADDR b, LayoutB const& lb) {}
}
template <uint32_t rows, bool flag = true, Lib::Kind = Lib::Kind::none, typename... More>
__global__ __aicore__ void tile(__gm__ const float* x) {}
template <class T> __global__ __aicore__ void scalar(GM_ADDR x, T value) {}
template <class... All> __global__ __aicore__ void pack(All... all) {}
__global__ __aicore__ void nothing() {}
"""


class Coord(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint32)]

    @staticmethod
    def get_namespace() -> str:
        return "Lib::"


class RowMajor(ctypes.Structure):
    _fields_ = [("stride", ctypes.c_int64)]

    @classmethod
    def get_namespace(cls) -> str:
        return "Lib::layout::"


class ColumnMajor(ctypes.Structure):
    _fields_ = [("stride", ctypes.c_int64)]

    def get_namespace(self) -> str:
        return "Lib::layout::"


ARRAY = numpy.zeros(4, numpy.float16)
MATMUL = (Coord(2, 3), ARRAY, RowMajor(3), ARRAY, ColumnMajor(2))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source.cpp", SOURCE)


def generate(kernel: str, **given: Any) -> str:
    """The launch code of a kernel of source.cpp, written by this very function."""
    file = Launcher(KernelInvokeConfig("source.cpp", kernel), **given).code_gen("out.cpp")
    return Path(file).read_text()


def instance(text: str) -> str:
    """What launch_instance calls: the template's arguments."""
    found = re.search(r"        mskpp_launch_kernel(<.*>)?\(blockdim, l2ctrl, stream, args\);", text)
    assert found is not None
    return found.group(1) or ""


# --------------------------------------------------------------------------------------------------------- golden files


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        ("vadd", {}),
        ("matmul", {"arguments": MATMUL}),
        ("tile", {"template_param": [16, False, "Lib::Kind::bias", "A<B<int>>"]}),
    ],
)
def test_whole_files(source: Path, golden: Callable[[str, str], None], kernel: str, given: dict[str, Any]) -> None:
    golden(f"launcher/{kernel}.cpp", generate(kernel, **given).replace(str(source.parent), "SOURCE_FOLDER"))


def test_the_second_line_describes_the_file(source: Path) -> None:
    generate("vadd")
    assert read_metadata(Path("out.cpp")) == {
        "scenario": "kernel",
        "kernel": "vadd",
        "source": str(source),
        "declaration": "void vadd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, half scale)",
        "names": ["x", "y", "z", "n", "scale"],
        "types": ["GM_ADDR", "GM_ADDR", "GM_ADDR", "uint32_t", "half"],
    }
    assert read_metadata(source) == {}
    for text in (b"", b"\n", b"// a\n// mskpp: {", b"// a\n// mskpp: [1]\n", b"// a\n// mskpp: \xff\n"):
        assert read_metadata(write(Path("other.cpp"), text)) == {}


# ---------------------------------------------------------------------------------------------------- depth of the call

EXPECTED = "<Lib::layout::RowMajor, Lib::layout::ColumnMajor>"


def directly(shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
    file = Launcher(KernelInvokeConfig("source.cpp", "matmul")).code_gen("out.cpp")
    return Path(file).read_text()


def through_one(problem: Any, a: Any, layout_a: Any, b: Any, layout_b: Any) -> str:
    return generate("matmul")


def get_kernel() -> str:
    return generate("matmul")


def second(name: str = "matmul", use_cache: bool = True) -> str:
    return get_kernel()


def through_three(problem: Any, a: Any, layout_a: Any, b: Any, layout_b: Any) -> str:
    results = [second() for _ in range(1)]
    return results[0]


def with_keywords_only(*, lb: Any, b: Any, la: Any, a: Any, shape: Any) -> str:
    """By the kernel's names, in any order."""
    return generate("matmul")


def with_other_names(shape: Any, a: Any, la: Any, b: Any, lb: Any, blockdim: int = 20, device_id: int = 0) -> str:
    return generate("matmul")


def inside_of_another(*args: Any) -> str:
    def inner(shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
        return (lambda: generate("matmul"))()

    return inner(*args)


def captured(shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
    """Variables that an inner function uses live elsewhere in the frame."""

    def inner() -> str:
        assert la is not lb
        return generate("matmul")

    return inner()


class Holder:
    def method(self, shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
        return self.helper()

    def helper(self) -> str:
        return generate("matmul")

    @classmethod
    def class_method(cls, shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
        return generate("matmul")


CALLS: dict[str, Callable[..., str]] = {
    "directly": directly,
    "one helper": through_one,
    "three helpers": through_three,
    "keywords only": lambda *args: with_keywords_only(**dict(zip(("shape", "a", "la", "b", "lb"), args, strict=True))),
    "with other parameters": with_other_names,
    "inner function": inside_of_another,
    "captured": captured,
    "lambda": lambda shape, a, la, b, lb: generate("matmul"),
    "method": Holder().method,
    "class method": Holder.class_method,
    "callable object": type("Call", (), {"__call__": lambda self, p, a, la, b, lb: get_kernel()})(),
    "given": lambda *args: generate("matmul", arguments=args),
    "given as a list": lambda *args: generate("matmul", arguments=list(args)),
    "by template_param": lambda *args: generate("matmul", template_param=[RowMajor, ColumnMajor]),
    "by half of it": lambda shape, a, la, b, lb: generate("matmul", template_param=[RowMajor]),
    "by a caller's template_param": lambda *args: with_template_param(["Lib::layout::RowMajor", ColumnMajor]),
}


def with_template_param(template_param: list[Any]) -> str:
    return get_kernel()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_how_deep_the_call_is_changes_nothing(source: Path, call: Callable[..., str]) -> None:
    assert instance(call(*MATMUL)) == EXPECTED


def test_a_function_in_between_with_as_many_parameters_is_passed_over(source: Path) -> None:
    def between(one: str, two: int, three: list[int], four: None, five: dict[str, int]) -> str:
        return generate("matmul")

    def user(shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
        return between("x", 1, [2], None, {})

    assert instance(user(*MATMUL)) == EXPECTED


def test_a_module_of_the_user_with_the_packages_beginning_counts(source: Path) -> None:
    import mskpp

    file = Path(mskpp.__file__).parent.parent / "mskpp_of_the_user.py"  # never written: only its name matters
    names: dict[str, Any] = {"get": get_kernel}
    exec(compile_text("def user(shape, a, la, b, lb): return get()", str(file)), names)
    assert instance(names["user"](*MATMUL)) == EXPECTED


def compile_text(text: str, file: str) -> Any:
    import builtins

    return builtins.compile(text, file, "exec")


def test_callers_are_functions_from_the_inside_out() -> None:
    import sys

    def outer(first: int, *rest: int, second: int = 2, **more: int) -> Callers:
        return Callers.here(sys._getframe(0))

    found = outer(1, 5, 6, other=7).frames
    assert (found[0].name, found[0].values) == ("outer", {"first": 1, "second": 2})
    assert found[1].name == "test_callers_are_functions_from_the_inside_out"
    assert all(frame.name != "<module>" for frame in found)


# ------------------------------------------------------------------------------------------------------ wrong arguments


@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        ("vadd", [ARRAY] * 3, "Launcher: 3 arguments for 5 parameters of vadd; missing: uint32_t n, half scale"),
        ("vadd", [ARRAY] * 3 + [1] * 4, "Launcher: 7 arguments for 5 parameters of vadd; too many: 2 of them"),
        ("vadd", [ARRAY, ARRAY, 1.5, 1, 1.0],
         "Launcher: argument 3 is float, but the parameter is 'GM_ADDR z'; it must be an array, a tensor, None or an "
         "address"),
        ("vadd", [ARRAY, ARRAY, ARRAY, "1", 1.0],
         "Launcher: argument 4 is str, but the parameter is 'uint32_t n'; it must be an integer"),
        ("vadd", [ARRAY, ARRAY, ARRAY, 1, True],
         "Launcher: argument 5 is bool, but the parameter is 'half scale'; it must be a number"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(source: Path, kernel: str, arguments: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        generate(kernel, arguments=arguments)
    assert str(caught.value) == (
        f"{message}\n  void vadd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, half scale)\n  {source}:7"
    )
    assert not Path("out.cpp").exists()


def test_a_callers_argument_that_does_not_fit_is_named(source: Path) -> None:
    def user(shape: Any, a: Any, la: Any, b: Any, lb: Any) -> str:
        return get_kernel()

    with pytest.raises(
        ArgumentError, match=r"user\(\): a is str, but the parameter is 'GM_ADDR a'; .*\n  template <class"
    ):
        user(MATMUL[0], "file", *MATMUL[2:])
    with pytest.raises(ArgumentError, match=r"user\(\): lb is ndarray|user\(\): lb is float16 array \[4\], but"):
        user(*MATMUL[:4], ARRAY)


def test_a_template_parameter_that_nothing_tells(source: Path) -> None:
    with pytest.raises(InputError) as caught:
        get_kernel()
    assert str(caught.value).startswith(
        "Launcher: the template parameter 'class LayoutA' of matmul is not known; give template_param=[...] with 2 "
        "items, or call Launcher in a function (or in one it calls) whose parameters are the kernel's, with a ctypes "
        "structure for LayoutA (looked at: "
    )
    with pytest.raises(InputError, match="'uint32_t rows' of tile is not known"):
        generate("tile", arguments=[ARRAY.astype(numpy.float32)])


def test_a_pack_of_parameters_is_refused(source: Path) -> None:
    with pytest.raises(InputError, match=r"pack takes a pack of parameters.*named"):
        generate("pack", template_param=["int"])


# ------------------------------------------------------------------------------------------------------- template_param


class Plain:
    pass


class WrongNamespace(ctypes.Structure):
    @staticmethod
    def get_namespace() -> str:
        return 'Lib::"; system("true"); "'


class NumberNamespace(ctypes.Structure):
    @staticmethod
    def get_namespace() -> int:
        return 5


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (16, "16"),
        (-1, "-1"),
        ((1 << 63) - 1, "9223372036854775807"),
        (1 << 63, "9223372036854775808u"),
        (numpy.int64(4), "4"),
        (numpy.uint8(255), "255"),
        (True, "true"),
        (False, "false"),
        ("half", "half"),
        ("  Catlass::GemmShape<128, 256 , 64>\n", "Catlass::GemmShape<128, 256 , 64>"),
        ("ns::A<ns::B<(1 > 2)>, 'x', '<'>", "ns::A<ns::B<(1 > 2)>, 'x', '<'>"),
        ("1'000'000", "1'000'000"),
        ("(a->b >= 4) ? x : y", "(a->b >= 4) ? x : y"),
        ("&ns::table[4]", "&ns::table[4]"),
        ("float (*)(int, int)", "float (*)(int, int)"),
        ("Tile{1, 2}", "Tile{1, 2}"),
        (Plain, "Plain"),
        (Coord, "Lib::Coord"),
        (Coord(1, 2), "Lib::Coord"),
        (RowMajor, "Lib::layout::RowMajor"),
        (ColumnMajor, "Lib::layout::ColumnMajor"),
        (ctypes.c_int32, "int"),
        (ctypes.c_uint8, "unsigned char"),
        (ctypes.c_double, "double"),
        (ctypes.c_bool, "bool"),
        (float, "float"),
    ],
    ids=lambda item: str(item)[:30],
)
def test_template_arguments(source: Path, item: object, text: str) -> None:
    assert instance(generate("tile", template_param=[item])) == f"<{text}>"
    assert instance(generate("tile", template_param=(1, item))) == f"<1, {text}>"


@pytest.mark.parametrize(
    "item",
    [
        'x>(); system("true")',
        "x>(); abort(); foo<x",
        "x>(0, 0, 0, 0), abort(), foo<x",
        "4;",
        "4\n#include <x>\n4",
        "4 // comment",
        "4 /* comment",
        "4 */",
        '"text"',
        "a\\\nb",
        "x>",
        "<x",
        "f(",
        "f)",
        "a[",
        "{",
        "(]",
        "'",
        "4'",
        "'ab",
        "",
        " \n",
        "1, 2",
        "a, b<c>",
        "a\0b",
        "$(true)",
        "`true`",
        "@x",
        "x\ud800",
    ],
)
def test_text_that_is_no_template_argument_is_refused(source: Path, item: str) -> None:
    with pytest.raises(
        InputError, match=r"^Launcher: template_param\[1\] is .*; it must be one template argument in C\+\+"
    ):
        generate("tile", template_param=[4, item])
    assert not Path("out.cpp").exists()


ONE_ITEM = "it must be a str of C++, an int or a ctypes class"


def test_no_digraph_can_begin_a_directive(source: Path) -> None:
    text = generate("tile", template_param=["4 +\n%:include </etc/passwd>"])
    assert not re.search(r"^\s*(%:|#)(?!include|ifdef|endif|define)|^\s*%:", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("128", ArgumentError, "Launcher: template_param is str; it must be a list"),
        (5, ArgumentError, "Launcher: template_param is int; it must be a list"),
        ([1.5], ArgumentError, f"Launcher: template_param[0] is float; {ONE_ITEM}"),
        ([None], ArgumentError, f"Launcher: template_param[0] is NoneType; {ONE_ITEM}"),
        ([ARRAY], ArgumentError, f"Launcher: template_param[0] is float16 array [4]; {ONE_ITEM}"),
        ([WrongNamespace], InputError, "Launcher: WrongNamespace.get_namespace() gives "
         "'Lib::\"; system(\"true\"); \"'; it must be like 'ns::inner::'"),
        ([NumberNamespace], InputError,
         "Launcher: NumberNamespace.get_namespace() gives 5; it must be like 'ns::inner::'"),
    ],
)  # fmt: skip
def test_wrong_template_param(source: Path, given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        generate("tile", template_param=given)
    assert str(caught.value) == message


def test_too_many_and_for_no_template(source: Path) -> None:
    with pytest.raises(ArgumentError, match="template_param has 3 items for 2 template parameters\n  template <class"):
        generate("matmul", template_param=["A", "B", "C"])
    with pytest.raises(ArgumentError, match="template_param is given, but vadd is no template\n  void vadd"):
        generate("vadd", template_param=[1])
    with pytest.raises(ArgumentError, match="template_param is given, but vadd is no template\n  void vadd"):
        generate("vadd", template_param=[False])
    assert instance(generate("vadd", template_param=[])) == ""
    assert instance(generate("tile", template_param=[1, True, "x", "int", "float", "half"])).count(",") == 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "int"),
        (1 << 31, "long long"),
        (-(1 << 31) - 1, "long long"),
        (1 << 63, "unsigned long long"),
        (True, "bool"),
        (1.5, "float"),
        (numpy.float16(1), "half"),
        (numpy.float32(1), "float"),
        (numpy.float64(1), "double"),
        (numpy.int8(1), "signed char"),
        (numpy.uint64(1), "unsigned long"),
        (numpy.bool_(1), "bool"),
        (ctypes.c_int64(1), "long"),
        (ctypes.c_float(1), "float"),
        (Coord(), "Lib::Coord"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_type_follows_from_the_argument(source: Path, value: object, text: str) -> None:
    assert instance(generate("scalar", arguments=[ARRAY, value])) == f"<{text}>"


@pytest.mark.parametrize("value", ["text", None, [1], numpy.complex64(1)])
def test_a_type_that_the_argument_does_not_tell(source: Path, value: object) -> None:
    with pytest.raises((ArgumentError, InputError), match=r"Launcher: .*(structure|template_param)"):
        generate("scalar", arguments=[ARRAY, value])


# ---------------------------------------------------------------------------------------------------- names and paths


@pytest.mark.parametrize("name", ["vadd;", "vadd\n", "a b", "", "ns::vadd", 'x"', "é", "vadd<4>", "-x", "x" * 10 + "("])
def test_names_that_are_none(source: Path, name: str) -> None:
    with pytest.raises(InputError):
        KernelInvokeConfig("source.cpp", name)


def test_types_of_the_config() -> None:
    with pytest.raises(ArgumentError, match="KernelInvokeConfig: kernel_name is int; it must be a str"):
        KernelInvokeConfig("source.cpp", 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="KernelInvokeConfig: kernel_src_file is NoneType; it must be a str"):
        KernelInvokeConfig(None, "k")  # type: ignore[arg-type]
    with pytest.raises(FileError, match=r"absent\.cpp"):
        KernelInvokeConfig("absent.cpp", "k")
    with pytest.raises(FileError, match="is a folder"):
        KernelInvokeConfig(".", "k")
    with pytest.raises(ArgumentError, match="Launcher: config is str; it must be a KernelInvokeConfig"):
        Launcher("source.cpp")


def test_the_config_as_scripts_read_it(source: Path) -> None:
    config = KernelInvokeConfig("source.cpp", "vadd")
    assert (config.kernel_src_file, config.kernel_name, config.type) == (str(source), "vadd", "Act")


def test_a_scenario_of_ones_own_is_a_class() -> None:
    class Own:
        def generate(self, callers: Callers) -> str:
            return f"// {callers.frames[0].name}\n"

    assert Launcher(Own()).code_gen() == "_gen_launch.cpp"
    assert Path("_gen_launch.cpp").read_text() == "// test_a_scenario_of_ones_own_is_a_class\n"


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_the_file_is_the_users_alone(source: Path, umask: int) -> None:
    write(Path("out.cpp"), "old").chmod(0o666)
    before = os.umask(umask)
    try:
        generate("vadd")
    finally:
        os.umask(before)
    assert Path("out.cpp").stat().st_mode & 0o777 == 0o600


def test_where_launch_code_may_be_written(source: Path, tmp_path: Path) -> None:
    launcher = Launcher(KernelInvokeConfig("source.cpp", "vadd"))
    (tmp_path / "sub").mkdir()
    assert launcher.code_gen("sub/../sub/x y.cpp") == "sub/../sub/x y.cpp"  # as it was given
    assert (tmp_path / "sub" / "x y.cpp").exists()
    (tmp_path / "link.cpp").symlink_to(tmp_path / "victim")
    with pytest.raises(UnsafeError, match="is a link"):
        launcher.code_gen("link.cpp")
    with pytest.raises(FileError):
        launcher.code_gen("absent/x.cpp")
    with pytest.raises(FileError):
        launcher.code_gen("sub")
    for bad in ("", "a\nb.cpp", "a\0b"):
        with pytest.raises(InputError):
            launcher.code_gen(bad)
    with pytest.raises(ArgumentError, match="code_gen: gen_file is PosixPath; it must be a str"):
        launcher.code_gen(tmp_path / "x.cpp")  # type: ignore[arg-type]
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("folder", ["a b", "quote \" and ' and \\n \\", "é中", "$(true) `true` ;#%s%%", "x>y", "-Wl,x"])
def test_a_source_in_a_folder_of_any_name(tmp_path: Path, folder: str) -> None:
    text = '#include "part of.h"\n__global__ __aicore__ void k(GM_ADDR x) { x[0] = VALUE; }\n'
    write(tmp_path / folder / "part of.h", "#define VALUE 7\n")
    source = write(tmp_path / folder / "k.cpp", text)
    x = numpy.zeros(1, numpy.uint8)
    build(source, "k", options=[*FAST, "-fno-exceptions"])[1](x)
    assert x[0] == 7


def test_a_source_that_no_include_can_name(tmp_path: Path) -> None:
    source = write(tmp_path / 'both " and >' / "k.cpp", "__global__ void k() {}")
    with pytest.raises(InputError, match="has both a quote and a '>'; no #include can name it, rename it"):
        Launcher(KernelInvokeConfig(str(source), "k")).code_gen()
    with pytest.raises(InputError, match="control character"):
        KernelInvokeConfig("a\nb.cpp", "k")


def test_any_name_is_free_for_the_kernel(tmp_path: Path) -> None:
    source = write(
        tmp_path / "names.cpp",
        """
        struct Described { int value; };
        struct Value { int value; };
        enum class Kind : int16_t { a };
        template <class T, int count, int blockdim, int args, int all, int i, int out, Kind kind, class Value,
                  class stream>
        __global__ __aicore__ void launch_kernel(GM_ADDR args_, T describe, Value error_text, Described l2ctrl,
                                                 ::Value v) {
            args_[0] = count + blockdim + args + all + i + out + describe + error_text + l2ctrl.value + v.value;
        }
    """,
    )
    x = numpy.zeros(1, numpy.uint8)
    kernel = build(source, "launch_kernel", template_param=["int", 1, 2, 3, 4, 5, 6, "Kind::a", "short", "void"])
    kernel[1](x, 7, 8, (ctypes.c_int * 1)(9), (ctypes.c_int * 1)(10))
    assert x[0] == 55


def test_kernels_of_all_kinds_compile_and_run(source: Path) -> None:
    """What is generated for templates, namespaces and defaults is C++."""
    text = SOURCE.replace("LayoutB const& lb) {}", "LayoutB const& lb) { a[0] = shape.m + la.stride * lb.stride; }")
    text = text.replace("half scale) {}", "half scale) { z[0] = n * scale; }")
    text = text.replace("float* x) {}", "float* x) { const_cast<float*>(x)[0] = rows + (flag ? 100 : 200); }")
    write(source, text)
    a = numpy.zeros(1, numpy.uint8)
    Launcher(KernelInvokeConfig("source.cpp", "matmul"), arguments=MATMUL).code_gen("m.cpp")
    kernel = compile(gen_file="m.cpp", output_bin_path="m.so", options=[*FAST, "-Wall", "-Werror"], backend="host")
    kernel[1](Coord(7, 0), a, RowMajor(2), None, ColumnMajor(5))
    assert a[0] == 17
    build(source, "vadd")[1](None, None, a, 3, 1.5)
    assert a[0] == 4
    x = numpy.zeros(1, numpy.float32)
    build(source, "tile", template_param=[16])[1](x)
    assert x[0] == 116
