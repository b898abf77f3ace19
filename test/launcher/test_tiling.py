# SPDX-License-Identifier: Apache-2.0
"""TilingConfig: what it accepts and refuses, and the C++ text it gives."""

# The table of refusals has a row a case.
# ruff: noqa: E501

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mskpp.errors import ArgumentError, FileError, InputError, UnsafeError
from mskpp.launcher import tiling
from mskpp.launcher.tiling import DTYPES, FORMATS, TilingConfig

Golden = Callable[[str, str], None]
INCLUDE = Path(tiling.__file__).parent / "include"
X = np.zeros((8, 16), np.float16)


@pytest.fixture(autouse=True)
def no_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)


def config(**given: Any) -> TilingConfig:
    return TilingConfig(**{"op_type": "AddCustom", "inputs": [X, X], "outputs": [X], **given})


def text(tmp_path: Path, given: TilingConfig) -> str:
    return given.generate().replace(str(tmp_path.resolve()), "/project")


def tensor_lines(given: TilingConfig) -> list[str]:
    return re.findall(r"^    \{(ge::.*)\},$", given.generate(), re.MULTILINE)


class Torch:
    """Stand-ins for torch tensors, of a class Tensor in a module torch, which is never imported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = ModuleType("torch")

        class Tensor:
            def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
                self._array = array
                self.shape = array.shape
                self.dtype = dtype or f"torch.{array.dtype.name}"

            def detach(self) -> Tensor:
                return self

            cpu = contiguous = detach

            def numpy(self) -> np.ndarray:
                return self._array

        class Parameter(Tensor):
            pass

        Tensor.__module__ = Parameter.__module__ = "torch"
        monkeypatch.setitem(sys.modules, "torch", module)
        self.Tensor, self.Parameter = Tensor, Parameter


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    yield Torch(monkeypatch)


# --- the text ---


def test_text_of_a_plain_operator(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "liboptiling.so").write_bytes(b"\x7fELF")
    golden("launcher/tiling_add.cpp", text(tmp_path, config(lib_path="liboptiling.so")))


def everything(tmp_path: Path) -> TilingConfig:
    (tmp_path / 'lib "a\\b?? é.so').write_bytes(b"\x7fELF")
    (tmp_path / "shape.bin").write_bytes(bytes(24))
    big = np.arange(4, dtype=">i4")
    return TilingConfig(
        op_type="All_1",
        inputs=[X, [X, None, big], None, np.array(3.5, np.float32), None],
        inputs_info=[
            {"format": "fractal_nz", "ori_shape": [16, 8], "ori_format": "ND"},
            [None, {"shape": [2, 3], "dtype": "bf16", "format": "NCHW"}, None],
            None,
            None,
            {"shape": (3,), "dtype": "int64", "data_path": str(tmp_path / "shape.bin")},
        ],
        outputs=[[X, X], X],
        outputs_info=[None, {"shape": [4, 8]}],
        lib_path=str(tmp_path / 'lib "a\\b?? é.so'),
        attr=[
            {"name": "a", "dtype": "int", "value": -(2**63)},
            {"name": "b", "dtype": "float", "value": 0.1},
            {"name": "c", "dtype": "bool", "value": True},
            {"name": "d", "dtype": "str", "value": 'a"b\\c\n??/é'},
            {"name": "e", "dtype": "list_int", "value": []},
            {"name": "f", "dtype": "list_float32", "value": [1, -0.0, float("inf"), float("-inf"), float("nan")]},
            {"name": "g", "dtype": "list_bool", "value": [True, False]},
            {"name": "h", "dtype": "list_string", "value": ["x", ""]},
            {"name": "i", "dtype": "list_list_int64", "value": [[1, 2], [], [3]]},
            {"name": "j", "dtype": "int64", "value": np.int16(5)},
            {"name": "k", "dtype": "float32", "value": np.float32(0.5)},
        ],
        soc_version="Ascend910B4-1",
    )


def test_text_of_an_operator_with_everything(tmp_path: Path, golden: Golden) -> None:
    golden("launcher/tiling_everything.cpp", text(tmp_path, everything(tmp_path)))


def test_text_of_every_dtype_and_format_compiles(tmp_path: Path) -> None:
    dtypes = [{"shape": [2], "dtype": name} for name in DTYPES]
    formats = [{"shape": [2], "dtype": "int8", "format": name.upper()} for name in FORMATS]
    for number, given in enumerate((everything(tmp_path), config(inputs=None, inputs_info=dtypes + formats))):
        (tmp_path / f"{number}.cpp").write_text(given.generate())
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{INCLUDE}",
        f"-I{INCLUDE / 'host'}",
        "0.cpp",
        "1.cpp",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_surface_of_the_host(tmp_path: Path) -> None:
    source = Path(__file__).parent / "projects" / "surface.cpp"
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g1",
        "-fsanitize=address,undefined",
        f"-I{INCLUDE}",
        f"-I{INCLUDE / 'host'}",
    ]
    done = subprocess.run([*command, source, "-o", "surface"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    chip = "name=Ascend310P3;cube_cores=8;vector_cores=16;l0c_bytes=131072"
    done = subprocess.run(["./surface"], capture_output=True, text=True, env={"MSKPP_TILING_CHIP": chip})
    assert done.stdout == "0\n", done.stdout + done.stderr
    assert done.stderr.splitlines() == [
        "mskpp tiling: 'Twice' has two tiling functions; the first is used",
        "mskpp tiling: SaveToBuffer needs 32 bytes, the buffer has 31: nothing is written",
        "mskpp tiling: SaveToBuffer needs 32 bytes, the buffer has 0: nothing is written",
        "mskpp tiling: attribute 1, 'f', is of type float but is read as another type",
        "mskpp tiling: attribute 2 is read, but 2 are given (attributes count from 0, in their order)",
        "mskpp tiling: tensor 1, but NodeIoNum said 1",
        "mskpp tiling: absent holds 0 bytes, input 0 needs 1",
    ]


def test_same_call_same_text_whatever_the_values(tmp_path: Path) -> None:
    first, second = (config(inputs=[np.full(3, n, np.int32)]) for n in (1, 2))
    assert first.generate() == second.generate()


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.uint16, "UINT16"), (np.float64, "DOUBLE"), (np.float32, "FLOAT"), (np.float16, "FLOAT16"),
        (np.bool_, "BOOL"), (np.int8, "INT8"), (np.uint64, "UINT64"), (np.complex64, "COMPLEX64"),
    ],
)  # fmt: skip
def test_dtype_of_an_array(array: type, dtype: str) -> None:
    (line,) = tensor_lines(config(inputs=[np.zeros((2, 3), array)], outputs=[]))
    assert line.startswith(f"ge::DT_{dtype}, ge::FORMAT_ND, ge::FORMAT_ND, {{2, 3}}, {{2, 3}}, Value::")


def test_uint16_tensor_with_shape_and_dtype() -> None:
    given = config(inputs=[np.arange(4, dtype=np.uint16)], inputs_info=[{"shape": [2, 2], "dtype": "uint16"}])
    assert tensor_lines(given)[0].endswith("{2, 2}, {2, 2}, Value::kGiven, nullptr")


def test_info_fills_in_for_the_other_half() -> None:
    given = config(
        inputs=None,
        inputs_info=[
            {"shape": [1], "dtype": "int8", "format": "NHWC"},
            {"shape": [1, 2], "ori_shape": [2], "dtype": "int8", "ori_format": "nchw"},
        ],
    )
    assert tensor_lines(given)[:2] == [
        "ge::DT_INT8, ge::FORMAT_NHWC, ge::FORMAT_NHWC, {1}, {1}, Value::kNone, nullptr",
        "ge::DT_INT8, ge::FORMAT_NCHW, ge::FORMAT_ND, {2}, {1, 2}, Value::kNone, nullptr",
    ]


def test_optional_and_dynamic_parameters_are_counted() -> None:
    given = config(inputs=[X, None, [X, X, X], []], outputs=[X]).generate()
    assert "kInputCount = 4;" in given and "kOutputCount = 1;" in given
    assert "std::vector<uint32_t>{1, 0, 3, 0}" in given


def test_torch_tensors(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    half = torch.Tensor(np.zeros((2, 3), np.float16))
    brain = torch.Parameter(np.zeros((4,), np.int16), "torch.bfloat16")
    index = torch.Tensor(np.arange(3, dtype=np.int64))
    given = config(inputs=[half, [brain], index], outputs=[half])
    assert [re.findall(r"DT_(\w+)", line)[0] for line in tensor_lines(given)] == ["FLOAT16", "BF16", "INT64", "FLOAT16"]
    values = given.values()
    assert values[:2] == [None, None]
    assert values[2] is not None and values[2].tolist() == [0, 1, 2]


def test_values_that_go_with_the_call(tmp_path: Path) -> None:
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    given = config(inputs=[base[:, ::2], np.array([1, 2], ">i8"), X, np.zeros(0, np.int32), np.ones(2, bool)])
    values = given.values()
    assert values[0] is not None and values[0].flags.c_contiguous
    assert values[1] is not None and values[1].tobytes() == np.array([1, 2], np.int64).tobytes()
    assert values[2:] == [None, None, None]
    assert tiling.places(values) == [[0, 24], [64, 16], None, None, None]
    assert given.write_values(tmp_path / "values")
    data = (tmp_path / "values").read_bytes().removeprefix(tiling.VALUES_MARK)
    assert data[:24] == base[:, ::2].tobytes() and data[64:] == np.array([1, 2], np.int64).tobytes()
    assert (tmp_path / "values").stat().st_mode & 0o777 == 0o600


def test_values_beside_the_source(tmp_path: Path) -> None:
    source = tmp_path / "x.cpp"
    config(inputs=[np.arange(3)]).written(source)
    assert (tmp_path / "x.cpp.values").read_bytes() == tiling.VALUES_MARK + np.arange(3).tobytes()
    config(inputs=[np.arange(2)]).written(source)
    assert (tmp_path / "x.cpp.values").read_bytes() == tiling.VALUES_MARK + np.arange(2).tobytes()
    config().written(source)
    assert not (tmp_path / "x.cpp.values").exists()


@pytest.mark.parametrize("kind", ["file", "empty file", "folder", "link", "link to values", "link to nothing", "pipe"])
def test_what_is_not_ours_beside_the_source_is_kept(tmp_path: Path, kind: str) -> None:
    values, other = tmp_path / "x.cpp.values", tmp_path / "other"
    other.write_bytes(tiling.VALUES_MARK if kind == "link to values" else b"somebody's")
    if kind == "folder":
        values.mkdir()
    elif kind == "pipe":
        os.mkfifo(values)
    elif kind.startswith("link"):
        values.symlink_to(tmp_path / "absent" if kind == "link to nothing" else other)
    else:
        values.write_bytes(b"somebody's" if kind == "file" else b"")
    before, content = values.lstat(), other.read_bytes()
    config().written(tmp_path / "x.cpp")  # no values: nothing to write, nothing to remove
    with pytest.raises(FileError, match=r"^tiling_func: .*x\.cpp\.values, and what is there was not written by mskpp"):
        config(inputs=[np.arange(3)]).written(tmp_path / "x.cpp")
    assert (values.lstat().st_ino, values.lstat().st_size) == (before.st_ino, before.st_size)
    assert other.read_bytes() == content


# --- the second line of generated code ---

META = '{"scenario": "tiling", "op_type": "A", "library": "", "soc_version": null, "inputs": 2, "values": [[1, 0, 8]]}'


def metadata_of(tmp_path: Path, line: str) -> tiling.CallMetadata:
    (tmp_path / "x.cpp").write_text(f"// Generated by mskpp; do not edit.\n// mskpp: {line}\nint x;\n")
    return tiling.read_metadata(tmp_path / "x.cpp")


def test_second_line(tmp_path: Path) -> None:
    assert metadata_of(tmp_path, META) == tiling.CallMetadata("A", "", None, [None, [0, 8]])
    (tmp_path / "y.cpp").write_text(config(lib_path=None, soc_version="Ascend910B4", inputs=[np.arange(3)]).generate())
    read = tiling.read_metadata(tmp_path / "y.cpp")
    assert read == tiling.CallMetadata("AddCustom", "", "Ascend910B4", [[0, 24]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"op_type": "A", ', "", "op_type is missing, not the name of an operator"),
        ('"A"', "5", "op_type is 5, not the name of an operator"),
        ('"A"', '"A; x"', "op_type is 'A; x', not the name"),
        ('"library": ""', '"library": 1', "library is 1, not a path"),
        ('"library": ""', r'"library": "a\u0000b"', r"library is 'a\x00b', not a path"),
        ("null", "5", "soc_version is 5, not the name of a chip"),
        ("null", '"../x"', "soc_version is '../x', not the name of a chip"),
        ('"inputs": 2', '"inputs": "x"', "inputs is 'x', not a number from 0 to 100000"),
        ('"inputs": 2', '"inputs": 10000000000000', "inputs is 10000000000000, not a number from 0 to 100000"),
        ('"inputs": 2', '"inputs": -1', "inputs is -1"),
        ('"inputs": 2', '"inputs": true', "inputs is True"),
        ('"inputs": 2', '"inputs": 1e3', "inputs is 1000.0"),
        ("[[1, 0, 8]]", "5", "values is 5, not a list"),
        ("[[1, 0, 8]]", "[5]", "values has 5, not [input, offset, bytes]"),
        ("[[1, 0, 8]]", "[[2, 0, 8]]", "values has [2, 0, 8]; there are 2 inputs"),
        ("[[1, 0, 8]]", "[[1, 0, 8], [1, 0, 8]]", "values has [1, 0, 8]; there are 2 inputs, with one value each"),
        ("[[1, 0, 8]]", "[[1, -99999999, 5]]", "values has [1, -99999999, 5], not [input, offset, bytes]"),
        ("[[1, 0, 8]]", "[[1, 0, 1e99]]", "values has [1, 0, 1e+99], not"),
        ("[[1, 0, 8]]", "[[1, 0, 0]]", "values has [1, 0, 0], a value of 0 bytes"),
        ("[[1, 0, 8]]", f"[{'[' * 500}{']' * 500}]", "values has [[[[[["),
    ],
)  # fmt: skip
def test_damaged_second_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in META
    with pytest.raises(InputError) as raised:
        metadata_of(tmp_path, META.replace(old, new))
    assert str(raised.value).startswith(f"compile_tiling: line 2 of {tmp_path}/x.cpp is damaged: {message}")
    assert str(raised.value).endswith("; write the file anew with Launcher(TilingConfig(...))")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("line", ["[" * 100_000, "[]", "", "{}", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
                                  '{"scenario": "kernel"}', '{"a": ' + "9" * 5000 + "}"])  # fmt: skip
def test_second_line_of_another_file(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"x\.cpp is no tiling code; write it with Launcher"):
        metadata_of(tmp_path, line)


def test_source_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cpp")
    for name in ("pipe.cpp", "absent.cpp", "."):
        with pytest.raises(FileError, match=r"^(\[Errno \d+\] )?compile_tiling: "):
            tiling.read_metadata(tmp_path / name)


def test_a_value_that_does_not_match_is_not_passed(caplog: pytest.LogCaptureFixture) -> None:
    three = np.arange(3, dtype=np.int32)
    for info in ({"shape": [4]}, {"dtype": "float32"}):
        assert config(inputs=[three], inputs_info=[info]).values() == [None]
    assert "inputs_info[0]: shape [4] has more elements than the tensor of shape [3]" in caplog.text
    assert "inputs_info[0]: dtype is FLOAT, the tensor's is INT32; FLOAT is used" in caplog.text
    (part,) = config(inputs=[three], inputs_info=[{"shape": [2]}]).values()
    assert part is not None and part.nbytes == 12


def test_a_huge_value_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "MOST_VALUE_BYTES", 8)
    assert config(inputs=[np.arange(3)]).values() == [None]


def test_data_path_of_an_output_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "v").write_bytes(bytes(8))
    config(outputs_info=[{"data_path": str(tmp_path / "v")}])
    assert "outputs_info[0]: data_path of an output is not used" in caplog.text


def test_toolkit_library_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config().lib_path is None
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "liboptiling.so").write_bytes(b"")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert config().lib_path == (tmp_path / "lib64" / "liboptiling.so").resolve()


def attribute_lines(attr: Any) -> list[str]:
    return re.findall(r"builder\.AddAttr\((.*)\);", config(attr=attr).generate())


def test_attributes_of_the_dict_form() -> None:
    given = {"n": 1, "b": True, "s": "a_b", "e": "", "f": 2.0, "li": [1, 2], "lf": [0.5], "ls": ["x"], "lb": [False],
             "ll": [[1], [2, 3]], "np": np.int64(3), "nb": np.bool_(False)}  # fmt: skip
    assert attribute_lines(given) == [
        '"n", (int64_t)1',
        '"b", true',
        '"s", std::string{"a_b"}',
        '"e", std::string{""}',
        '"f", (float)2.0',
        '"li", std::vector<int64_t>{(int64_t)1, (int64_t)2}',
        '"lf", std::vector<float>{(float)0.5}',
        '"ls", std::vector<std::string>{std::string{"x"}}',
        '"lb", std::vector<bool>{false}',
        '"ll", std::vector<std::vector<int64_t>>{std::vector<int64_t>{(int64_t)1}, '
        "std::vector<int64_t>{(int64_t)2, (int64_t)3}}",
        '"np", (int64_t)3',
        '"nb", false',
    ]


def test_limits_of_attributes() -> None:
    lines = attribute_lines({"a": 2**63 - 1, "b": -(2**63), "c": 3.4028235e38, "d": -1})
    assert lines == [
        '"a", (int64_t)9223372036854775807',
        '"b", std::numeric_limits<int64_t>::min()',
        '"c", (float)3.4028235e+38',
        '"d", (int64_t)-1',
    ]


def test_figures_of_the_chip(caplog: pytest.LogCaptureFixture) -> None:
    assert tiling.chip_text("ascend910b4").startswith(
        "name=Ascend910B4;architecture=2201;cube_cores=20;vector_cores=40;ub_bytes="
    )
    assert tiling.chip_text(None).startswith("name=Ascend910B1;")
    assert not caplog.records
    assert tiling.chip_text("Ascend310P3").startswith("name=Ascend310P3;architecture=2201;cube_cores=24;")
    assert (
        "no data of chip 'Ascend310P3'; the tiling function sees the core counts and memory sizes of Ascend910B1"
        in caplog.text
    )


# --- what is refused ---

ENTRY = {"name": "a", "dtype": "int", "value": 1}
INFO = {"shape": [2], "dtype": "int8"}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"op_type": "Add-Custom"}, InputError, "op_type: the name 'Add-Custom' is not allowed"),
        ({"op_type": 3}, ArgumentError, "op_type: the name is 3 (int)"),
        ({"soc_version": ""}, InputError, "soc_version: the name '' is not allowed"),
        ({"soc_version": 'x"; y'}, InputError, "soc_version: the name"),
        ({"soc_version": 910}, ArgumentError, "soc_version: the name is 910 (int)"),
        ({"lib_path": ""}, InputError, "lib_path is empty"),
        ({"lib_path": 1}, ArgumentError, "lib_path is int"),
        ({"lib_path": "absent.so"}, FileError, "lib_path: file"),
        ({"inputs": X}, ArgumentError, "inputs is float16 array [8,16]; it must be a list"),
        ({"inputs_info": {"shape": [1]}}, ArgumentError, "inputs_info is dict; it must be a list"),
        ({"inputs": None}, InputError, "neither inputs nor inputs_info is given"),
        ({"outputs": None}, InputError, "neither outputs nor outputs_info is given"),
        ({"inputs": [None] * 100_001}, InputError, "inputs has 100001 elements; at most 100000"),
        ({"inputs_info": [None]}, InputError, "inputs has 2 elements and inputs_info 1"),
        ({"inputs": [3]}, ArgumentError, "inputs[0] is int; it must be a numpy array, a torch tensor, None or a list"),
        ({"inputs": [[X, "x"]]}, ArgumentError, "inputs[0][1] is str; it must be a numpy array, a torch tensor, None"),
        ({"inputs": [[X, None]]}, InputError, "inputs[0][1] is None and has no info; give a tensor or a dict in inputs_info"),
        ({"inputs": [[X]], "inputs_info": [INFO]}, InputError, "inputs[0] is a list of 1 and inputs_info[0] dict"),
        ({"inputs": [X], "inputs_info": [[INFO]]}, InputError, "inputs[0] is float16 array [8,16] and inputs_info[0] a list of 1"),
        ({"inputs": [[X]], "inputs_info": [[INFO] * 2]}, InputError, "inputs[0] is a list of 1 and inputs_info[0] a list of 2"),
        ({"inputs": [X, X], "inputs_info": [None, {"formt": "ND"}]}, InputError,
         "tiling_func: inputs_info[1]: unknown key 'formt'; allowed: ori_shape, shape, ori_format, format, dtype, data_path; "
         "did you mean 'format'?"),
        ({"inputs": [X], "inputs_info": [[1]]}, InputError, "inputs[0] is float16 array [8,16]"),
        ({"inputs": None, "inputs_info": [[1]]}, ArgumentError, "inputs_info[0][0] is int; it must be a dict"),
        ({"outputs": None, "outputs_info": ["x"]}, ArgumentError, "outputs_info[0] is str; it must be a dict"),
        ({"inputs": None, "inputs_info": [{"shape": [1]}]}, InputError, "inputs_info[0]: 'dtype' must be given"),
        ({"inputs": None, "inputs_info": [{}]}, InputError, "inputs_info[0]: 'shape' and 'dtype' must be given"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": []}]}, InputError, "inputs_info[0]: shape is empty"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": 3}]}, ArgumentError, "inputs_info[0]: shape is int"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": "12"}]}, ArgumentError, "inputs_info[0]: shape is str"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": [1, 0]}]}, InputError, "inputs_info[0]: shape[1] is 0"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": [True]}]}, ArgumentError, "inputs_info[0]: shape[0] is True"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": [1.0]}]}, ArgumentError, "inputs_info[0]: shape[0] is 1.0"),
        ({"inputs": None, "inputs_info": [INFO | {"ori_shape": [-1]}]}, InputError, "inputs_info[0]: ori_shape[0] is -1"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": [65536, 65536]}]}, InputError, "has 4294967296 elements"),
        ({"inputs": None, "inputs_info": [INFO | {"shape": [1] * 26}]}, InputError, "has 26 dimensions; at most 25"),
        ({"inputs": None, "inputs_info": [INFO | {"format": "NHCW"}]}, InputError,
         "inputs_info[0]: unknown format 'nhcw'; did you mean 'nhwc'?"),
        ({"inputs": None, "inputs_info": [INFO | {"ori_format": "?!"}]}, InputError, "unknown ori_format '?!'. Known, in any"),
        ({"inputs": None, "inputs_info": [INFO | {"format": 2}]}, ArgumentError, "inputs_info[0]: format is int"),
        ({"inputs": None, "inputs_info": [INFO | {"dtype": "Float16"}]}, InputError,
         "inputs_info[0]: unknown dtype 'Float16'; did you mean 'float16'? Known, case counts: float,"),
        ({"inputs": None, "inputs_info": [INFO | {"dtype": np.int8}]}, ArgumentError, "inputs_info[0]: dtype is type"),
        ({"inputs": None, "inputs_info": [INFO | {"data_path": "no"}]}, FileError, "inputs_info[0]: data_path: file"),
        ({"inputs": [np.array(["x"])]}, InputError, "inputs[0]: unknown dtype 'str32'"),
        ({"inputs": [np.zeros(1, object)]}, InputError, "inputs[0]: unknown dtype 'object'"),
        ({"attr": 3}, ArgumentError, "attr is int; it must be a dict, or a list of dicts"),
        ({"attr": {"a b": 1}}, InputError, "attr: the name 'a b' is not allowed"),
        ({"attr": {"a": None}}, ArgumentError, "attr['a'] is NoneType"),
        ({"attr": {"a": []}}, InputError, "attr['a'] is empty, so its type is not known; give attr as a list"),
        ({"attr": {"a": [1, 2.0]}}, ArgumentError, "attr['a'] mixes types: [0] is int, [1] is float"),
        ({"attr": {"a": [True, 1]}}, ArgumentError, "attr['a'] mixes types: [0] is bool, [1] is int"),
        ({"attr": {"a": [[1], 2]}}, ArgumentError, "attr['a'][1] is 2; it must be a list"),
        ({"attr": {"a": [[1.5]]}}, ArgumentError, "attr['a'][0][0] is 1.5; it must be an int"),
        ({"attr": {"a": [object]}}, ArgumentError, "attr['a'][0] is type"),
        ({"attr": {"a": 2**63}}, InputError, "attr['a'] is 9223372036854775808; an int must be from -2^63 to 2^63 - 1"),
        ({"attr": {"a": 1e39}}, InputError, "attr['a'] is 1e+39; attributes are 32-bit floats"),
        ({"attr": {"a": "x\0y"}}, InputError, r"attr['a'] is 'x\x00y'; C++ strings end at"),
        ({"attr": {"a": "\ud800"}}, InputError, r"attr['a'] is '\ud800', which has no UTF-8 form"),
        ({"attr": [3]}, ArgumentError, "attr[0] is int; it must be a dict with the keys name, dtype, value"),
        ({"attr": [{"name": "a"}]}, InputError, "attr[0]: the key 'dtype' is missing"),
        ({"attr": [ENTRY | {"values": 3}]}, InputError, "attr[0]: unknown key 'values'; allowed: name, dtype, value; did"),
        ({"attr": [ENTRY, ENTRY]}, InputError, "attr[1]: the name 'a' was given before"),
        ({"attr": [ENTRY | {"name": "a-b"}]}, InputError, "attr[0]: the name 'a-b' is not allowed"),
        ({"attr": [ENTRY | {"dtype": "list_itn"}]}, InputError, "attr[0]: unknown dtype 'list_itn'; did you mean 'list_int'?"),
        ({"attr": [ENTRY | {"dtype": int}]}, ArgumentError, "attr[0]: dtype is type"),
        ({"attr": [ENTRY | {"value": 1.0}]}, ArgumentError, "attr[0]: 'a' is 1.0; it must be an int"),
        ({"attr": [ENTRY | {"value": True}]}, ArgumentError, "attr[0]: 'a' is True; it must be an int"),
        ({"attr": [ENTRY | {"dtype": "float", "value": True}]}, ArgumentError, "attr[0]: 'a' is True; it must be a float"),
        ({"attr": [ENTRY | {"dtype": "float", "value": 10**400}]}, InputError, "attributes are 32-bit floats"),
        ({"attr": [ENTRY | {"dtype": "bool"}]}, ArgumentError, "attr[0]: 'a' is 1; it must be a bool"),
        ({"attr": [ENTRY | {"dtype": "str"}]}, ArgumentError, "attr[0]: 'a' is 1; it must be a str"),
        ({"attr": [ENTRY | {"dtype": "list_int"}]}, ArgumentError, "attr[0]: 'a' is 1; it must be a list"),
        ({"attr": [ENTRY | {"dtype": "list_str", "value": ["x", 1]}]}, ArgumentError, "attr[0]: 'a'[1] is 1; it must be a str"),
        ({"attr": [ENTRY | {"dtype": "list_list_int"}]}, ArgumentError, "attr[0]: 'a' is 1; it must be a list of lists"),
    ],
)  # fmt: skip
def test_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        config(**given)
    assert str(raised.value).startswith("tiling_func: ")
    assert message in str(raised.value)


def nested(depth: int, value: Any = 1) -> list[Any]:
    for _ in range(depth):
        value = [value]
    return value  # type: ignore[no-any-return]


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_deep_large_and_strange_values_are_shown_short() -> None:
    self_containing: list[Any] = []
    self_containing.append(self_containing)
    typed = [{"name": "a", "dtype": dtype, "value": nested(3000)} for dtype in tiling.ATTRIBUTE_DTYPES]
    for attr in (
        {"a": nested(3000)},
        {"a": (nested(3000),)},
        {"a": self_containing},
        *([entry] for entry in typed),
        [{"name": "a", "dtype": "list_list_int", "value": self_containing}],
        {"a": 10**5000},
        {"a": [10**5000]},
        [{"name": "a", "dtype": "float", "value": 10**5000}],
        [{"name": "a", "dtype": "str", "value": list(range(10**6))}],
        [{"name": "a", "dtype": "int", "value": Unspeakable()}],
        [{"name": "a", "dtype": "int", "value": "x" * 10**6}],
        [{"name": "a", "dtype": "x" * 10**6, "value": 1}],
        [{"name": "a", Unspeakable(): 1}],
        {"a": "x\0" * 10**5},
    ):
        with pytest.raises((ArgumentError, InputError), match=r"^tiling_func: attr\[") as raised:
            config(attr=attr)
        assert len(str(raised.value)) < 1500
    for info in ({"shape": [10**5000]}, {"shape": [-(10**5000)]}, {"shape": [nested(3000)]}, {Unspeakable(): 1},
                 {"format": "x" * 10**6}, {"dtype": "y" * 10**6}):  # fmt: skip
        with pytest.raises((ArgumentError, InputError), match=r"^tiling_func: inputs_info\[0\]") as raised:
            config(inputs=None, inputs_info=[info])
        assert len(str(raised.value)) < 2000


def test_too_many_tensors_in_lists() -> None:
    with pytest.raises(InputError, match="inputs are 100002 tensors; at most 100000 are allowed"):
        config(inputs=None, inputs_info=[[INFO] * 50_001] * 2)


def test_listed() -> None:
    assert tiling.listed(["a", "b"]) == "a, b"
    names = [f"n{i}" for i in range(5000)]
    assert tiling.listed(names) == f"{', '.join(names[:20])} and 4,980 more"
    assert tiling.listed(["x" * 10**6]) == "x" * 200


def test_a_data_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(bytes(10))
    with pytest.raises(InputError, match=r"inputs_info\[0\]: data_path .* has 10 bytes; shape \[8\] of INT32 needs 32"):
        config(inputs=None, inputs_info=[{"shape": [8], "dtype": "int32", "data_path": "v"}])


def test_an_array_with_too_many_elements() -> None:
    huge = np.broadcast_to(np.int8(0), (65536, 65536))
    with pytest.raises(InputError, match=r"inputs\[0\]: the tensor's shape .* has 4294967296 elements"):
        config(inputs=[huge])


def test_a_library_that_everybody_may_write(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"")
    library.chmod(0o666)
    with pytest.raises(UnsafeError, match=r"lib_path: .*chmod o-w"):
        config(lib_path="lib.so")
