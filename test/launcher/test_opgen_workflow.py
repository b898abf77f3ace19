# SPDX-License-Identifier: Apache-2.0
"""The flow of an msOpGen project on the host: tiling function, kernel binary, results as numpy computes them."""

from __future__ import annotations

import json
import logging
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mskpp.errors import (
    ArgumentError,
    BackendError,
    FileError,
    InputError,
    LaunchError,
    StateError,
    TimeLimitError,
    UnsafeError,
)
from mskpp.launcher import binary, compiler, session, tiling
from mskpp.launcher.binary import KernelBinaryInvokeConfig
from mskpp.launcher.code_generator import Launcher
from mskpp.launcher.compiler import compile_kernel_binary, compile_tiling
from mskpp.launcher.opgen_workflow import TilingCall, TilingOutput, get_kernel_from_binary, tiling_func, tiling_runner
from mskpp.launcher.tiling import TilingConfig

Golden = Callable[[str, str], None]
HERE = Path(__file__).parent
LAUNCHER = Path(tiling.__file__).parent
INCLUDE = LAUNCHER / "include"


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSKPP_BACKEND", "host")
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    session.forget()


def run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled projects: <name>.so, a tiling library each, and the kernels <name>.o."""
    folder = tmp_path_factory.mktemp("project")
    front = [sys.executable, "-I", LAUNCHER / "cc.py", "-O1", "-shared", HERE / "projects" / "kernels.cpp"]
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{INCLUDE}", f"-I{INCLUDE / 'host'}"]
    settings = {  # a tiling library need not be compiled as its caller is
        "add_custom": ["-fvisibility=hidden", "-O2"],
        "scale_custom": ["-D_GLIBCXX_USE_CXX11_ABI=0"],
        "matmul_leakyrelu_custom": ["-std=c++20"],
        "bad_custom": [],
    }
    compilations: list[list[str | Path]] = [
        ["g++", *options, *more, HERE / "projects" / f"{name}.cpp", "-o", folder / f"{name}.so"]
        for name, more in settings.items()
    ]
    compilations += [
        [*front, "-DADD", "-o", folder / "add_custom.o"],
        [*front, "-DMATMUL", "-o", folder / "matmul_leakyrelu_custom.o"],
    ]
    threads = [threading.Thread(target=run, args=command) for command in compilations]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(folder.iterdir())) == len(compilations)
    return folder


# --- the whole flow ---


def test_add_custom(project: Path, tmp_path: Path) -> None:
    x = np.arange(8 * 2048, dtype=np.float32).reshape(8, 2048)
    z = np.zeros_like(x)
    output = tiling_func("AddCustom", inputs=[x, 2 * x], outputs=[z], lib_path=str(project / "add_custom.so"))
    assert (output.blockdim, output.workspace_size, output.tiling_key) == (8, 0, 0)
    assert output.tiling_data.dtype == np.uint8
    assert output.tiling_data.view(np.uint32).tolist() == [8 * 2048, 8]
    assert repr(output) == "TilingOutput(blockdim=8, workspace_size=0, tiling_key=0, tiling_data=8 bytes)"
    assert session.latest_tiling() is output and session.op_type() == "AddCustom"

    kernel = get_kernel_from_binary(str(project / "add_custom.o"), "vec")
    assert kernel.kernel_name == "add_custom"
    kernel(x, 2 * x, z, output.workspace, output.tiling_data)
    np.testing.assert_array_equal(z, 3 * x)
    z[:] = 0
    kernel[4](x, x, z, output.workspace, output.tiling_data)
    np.testing.assert_array_equal(z, 2 * x)

    folder = tmp_path / "mindstudio_mskpp_gen"
    assert folder.stat().st_mode & 0o777 == 0o750
    names = sorted(path.name.split(".")[0] + path.suffix for path in folder.iterdir())
    first = {path: path.stat().st_mtime_ns for path in folder.glob("_mskpp_gen_tiling*.so")}
    tiling_func("AddCustom", inputs=[x, x], outputs=[z], lib_path=str(project / "add_custom.so"))
    assert first == {path: path.stat().st_mtime_ns for path in folder.glob("_mskpp_gen_tiling*.so")}  # compiled once
    assert names == [
        "_mskpp_gen_binary_launch.cpp",
        "_mskpp_gen_binary_module.so",
        "_mskpp_gen_tiling.cpp",
        "_mskpp_gen_tiling.so",
    ]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_scale_custom_sees_everything(project: Path, tmp_path: Path) -> None:
    half = np.zeros((8, 16), np.float16)
    (tmp_path / "value").write_bytes(np.array([5, -6], np.int64).tobytes())
    output = tiling_func(
        "ScaleCustom",
        inputs=[half, [half, half], None, None],
        inputs_info=[
            {"format": "FRACTAL_NZ", "ori_shape": [128], "ori_format": "ND"},
            None,
            None,
            {"shape": [2], "dtype": "int64", "data_path": "value"},
        ],
        outputs=[half],
        lib_path=project / "scale_custom.so",
        attr={
            "factor": 0.1,
            "axes": [3, -2, 1],
            "mode": "linear",
            "transpose": True,
            "axis": -(2**63),
            "rows": [[1], [2, -3]],
            "weights": [0.25, 0.5],
            "switches": [True, False],
        },
    )
    assert (output.blockdim, output.tiling_key) == (4, 2**64 - 1)
    assert output.workspace_size == 1024 + 24
    assert output.workspace.shape == (1048,) and output.workspace.dtype == np.uint8 and not output.workspace.any()
    assert output.workspace is output.workspace
    expected = struct.pack("=BxHiiiiB", 4, 1, 3, -2, 1, -1, 6)  # as a C++ structure of the same fields
    expected += bytes(24 - len(expected)) + struct.pack("=B3xfq", 1, 0.1, -(2**63))
    expected += struct.pack("=qI4x", -6, 0xFE)
    assert output.tiling_data.tobytes() == expected


def leaky(a: np.ndarray, b: np.ndarray, bias: Any, slope: float) -> np.ndarray:
    product: np.ndarray = a @ b + bias
    return np.where(product > 0, product, product * slope)


def test_matmul_leakyrelu_with_and_without_bias(project: Path) -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((100, 32), (32, 48)))
    bias = random.integers(-4, 5, 48).astype(np.float32)
    for given in (bias, None):
        c = np.zeros((100, 48), np.float32)
        output = tiling_func(
            "MatmulLeakyreluCustom",
            inputs=[a, b, given],
            outputs=[c],
            lib_path=project / "matmul_leakyrelu_custom.so",
            attr=[{"name": "slope", "dtype": "float", "value": 0.25}],
            soc_version=None if given is not None else "Ascend910B4",
        )
        rows = 5  # of 100 on 24 or 20 cores
        assert output.blockdim == 20
        assert output.tiling_key == (given is not None)
        assert output.workspace_size == 100 * 48 * 4
        *sizes, slope, has_bias, ub_bytes = struct.unpack("=4IfIQ", output.tiling_data.tobytes())
        assert (sizes, slope, has_bias, ub_bytes) == ([100, 48, 32, rows], 0.25, given is not None, 196608)
        kernel = get_kernel_from_binary(project / "matmul_leakyrelu_custom.o")
        arguments = [a, b, c] if given is None else [a, b, bias, c]
        kernel(*arguments, output.workspace, output.tiling_data)
        np.testing.assert_array_equal(c, leaky(a, b, 0 if given is None else bias, 0.25))


def test_launcher_and_compilation_by_hand(project: Path) -> None:
    config = TilingConfig("AddCustom", [np.zeros(16)], [], project / "add_custom.so")
    result = compile_tiling(Launcher(config).code_gen("add.cpp"), "add.so")()
    assert result == {"blockdim": 8, "workspace_size": 0, "tiling_key": 0, "tiling_data": struct.pack("=II", 16, 8)}
    source = Launcher(KernelBinaryInvokeConfig(str(project / "add_custom.o"), None, 0)).code_gen("launch.cpp")
    x, z = np.ones(16, np.float32), np.zeros(16, np.float32)
    data = np.frombuffer(result["tiling_data"], np.uint8)
    compile_kernel_binary(source, "launch.so")[2](x, x, z, None, data)
    assert z.tolist() == [2] * 16


def test_values_are_those_of_each_call(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    attr = {"factor": 1.0, "axes": [1], "mode": "", "transpose": False, "axis": 0, "rows": [[1], [2, 3]],
            "weights": [1.0], "switches": [True]}  # fmt: skip
    values: dict[int, int] = {}

    def call(value: int) -> None:
        inputs = [np.zeros(1, np.int32), np.array([1, value])]
        output = tiling_func("ScaleCustom", inputs, [], project / "scale_custom.so", attr=attr)
        latest = session.latest_tiling()
        assert latest is output
        values[value] = int(output.tiling_data[40:48].view(np.int64)[0])

    threads = [threading.Thread(target=call, args=(value,)) for value in (11, 22)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == {11: 11, 22: 22}
    assert not caplog.records
    assert session.latest_tiling() is None  # each thread has its own


# --- what goes wrong ---


@pytest.fixture(scope="session")
def bad(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], TilingCall]:
    """The compiled call of a tiling function that does what $BAD says."""
    source, library = (tmp_path_factory.mktemp("bad") / f"bad{suffix}" for suffix in (".cpp", ".so"))
    config = TilingConfig("BadCustom", [np.zeros(1, np.float16)], [], project / "bad_custom.so", attr={"alpha": 3})
    source.write_text(config.generate())
    compile_tiling(str(source), str(library), backend="host")
    return lambda timeout: TilingCall(source, library, timeout=timeout)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("status", "failed with status 7\n  m must be a multiple of 16"),
        ("failed", "failed with status 4294967295 (GRAPH_FAILED)"),
        ("crash", "crashed with SIGSEGV (memory that is not its own)\n  about to crash"),
        ("exit", "ended its process without a result"),
        ("throw", "threw: no tile fits"),
        ("no block", "set no block dim (0); it must call context->SetBlockDim with at least 1"),
        (
            "wrong attribute",
            "failed with status 9\n  mskpp tiling: attribute 0, 'alpha', is of type int but is read as another",
        ),
        (
            "attribute beyond",
            "crashed with SIGSEGV (memory that is not its own)\n  mskpp tiling: attribute 1 is read, but 1 are given "
            "(attributes count from 0, in their order)",
        ),
        (
            "attribute beyond, and talk",
            "crashed with SIGSEGV (memory that is not its own)\n  mskpp tiling: attribute 1 is read, but 1 are given "
            "(attributes count from 0, in their order)\n  line 9",
        ),
    ],
)
def test_failing_tiling_function(
    bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    monkeypatch.setenv("BAD", mode)
    with pytest.raises(LaunchError) as raised:
        bad(60)()
    assert f"tiling_func: the tiling function of 'BadCustom' {message}" in str(raised.value)


DONE = '{"code": 0, "error": "", "names": [], "status": 0, "blockdim": 1, "workspace_size": 1, "tiling_key": 1}'
TO_FOLDER = r"""cd "$(dirname "$(tr '\0' '\n' < /proc/$PPID/cmdline | tail -n 1)")" || exit
case "$PWD" in */mskpp-tiling-*) ;; *) exit 1 ;; esac
"""


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("{}", "code is None"),
        ("[]", "it holds []"),
        ("7", "it holds 7"),
        ("{", "Expecting property name"),
        ("\xff", "Expecting value"),
        ('{"code": 99}', "code is 99"),
        ('{"code": true}', "code is True"),
        ('{"code": 0, "blockdim": "x", "workspace_size": [], "tiling_key": null}', "status is None"),
        (DONE.replace('"blockdim": 1', '"blockdim": "x"'), "blockdim is 'x'"),
        (DONE.replace('"blockdim": 1', '"blockdim": -1'), "blockdim is -1"),
        (DONE.replace('"blockdim": 1', '"blockdim": 4294967296'), "blockdim is 4294967296"),
        (DONE.replace('"workspace_size": 1', '"workspace_size": -5'), "workspace_size is -5"),
        (DONE.replace('"tiling_key": 1', '"tiling_key": 1.5'), "tiling_key is 1.5"),
        (DONE.replace("[]", "5"), "error and names are no texts"),
        ('{"code": 5, "error": 5}', "error and names are no texts"),
        (DONE, "there is no tiling data beside it"),
    ],
)
def test_tiling_function_that_writes_its_own_result(
    bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch, result: str, reason: str
) -> None:
    monkeypatch.setenv("BAD", "shell")
    monkeypatch.setenv("RESULT", result)
    monkeypatch.setenv("COMMAND", TO_FOLDER + 'printf %s "$RESULT" > result.json')
    with pytest.raises(LaunchError) as raised:
        bad(60)()
    message = "tiling_func: the tiling function of 'BadCustom' changed the file of its result ("
    assert str(raised.value).startswith(message + reason)
    assert "); it must leave files of mskpp alone" in str(raised.value)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("mkfifo result.json", "it is not a regular file"),
        ("ln -s /dev/zero result.json", "Too many levels of symbolic links"),
        ("mkdir result.json", "Is a directory"),
        ("truncate -s 100M result.json", "it has more than 67,108,864 bytes"),
        ("head -c 100000 /dev/zero | tr '\\0' '[' > result.json", ""),
        ("""printf %s "$RESULT" > result.json; mkfifo data""", "it is not a regular file"),
        ("""printf %s "$RESULT" > result.json; truncate -s 131073 data""", "it has more than 131,072 bytes"),
        ("""printf %s "$RESULT" > result.json; ln -s /etc/passwd data""", "Too many levels of symbolic links"),
    ],
)
def test_tiling_function_that_replaces_the_files(
    bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    monkeypatch.setenv("BAD", "shell")
    monkeypatch.setenv("RESULT", DONE)
    monkeypatch.setenv("COMMAND", TO_FOLDER + command)
    with pytest.raises(LaunchError) as raised:
        bad(60)()
    assert f"changed the file of its result ({reason}" in str(raised.value)


def test_tiling_function_that_removes_the_folder(
    bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BAD", "shell")
    monkeypatch.setenv("ELSEWHERE", str(tmp_path))
    (tmp_path / "kept").touch()
    for then in ("", '; ln -s "$ELSEWHERE" "$d"', '; touch "$d"'):
        monkeypatch.setenv("COMMAND", TO_FOLDER + 'd="$PWD"; cd /; rm -rf "$d"' + then)
        with pytest.raises(LaunchError, match=r"ended its process without a result|changed the file of its result"):
            bad(60)()
    assert (tmp_path / "kept").exists()


def test_files_in_the_way_of_the_result(bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD", "shell, then on")
    monkeypatch.setenv("COMMAND", TO_FOLDER + "mkfifo result.json && ln -s /dev/full data")
    assert bad(60)() == {"blockdim": 1, "workspace_size": 0, "tiling_key": 0, "tiling_data": b""}


@pytest.mark.parametrize(
    ("timeout", "error", "message"),
    [
        (float("inf"), InputError, "timeout is inf; allowed are seconds above 0 and up to 1,000,000, or None for no"),
        (float("nan"), InputError, "timeout is nan"),
        (1e12, InputError, "timeout is 1000000000000.0"),
        (10**400, InputError, "timeout is 1000000"),
        pytest.param(10**5000, InputError, "timeout is int", id="large"),
        (0, InputError, "timeout is 0"),
        (-1, InputError, "timeout is -1"),
        (True, ArgumentError, "timeout is True; give a number, or None for no limit"),
        ("x", ArgumentError, "timeout is 'x'; give a number"),
    ],
)
def test_refused_timeout(timeout: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        tiling_func("AddCustom", [], [], timeout=timeout)
    assert str(raised.value).startswith(f"tiling_func: {message}")
    assert not Path("mindstudio_mskpp_gen").exists()


def test_longest_timeout(bad: Callable[[float | None], TilingCall], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAD", raising=False)
    assert bad(1_000_000)()["blockdim"] == bad(None)()["blockdim"] == 1


def test_damaged_library_of_an_earlier_call(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call() -> TilingOutput:
        return tiling_func("AddCustom", [np.zeros(16)], [], project / "add_custom.so")

    call()
    folder = Path("mindstudio_mskpp_gen")
    (library,) = folder.glob("*.so")
    whole = library.read_bytes()
    compiled = []

    def stand_in(source: str, output: str, *, backend: str) -> None:  # the compiler takes long
        compiled.append(source)
        Path(output).write_bytes(whole)

    monkeypatch.setattr(compiler, "compile_tiling", stand_in)
    assert call().blockdim == 8 and not compiled
    content = {"empty": b"", "text": b"text" * 99, "cut": whole[:-1], "only the head": whole[:64]}
    for damage in (*content, "folder", "link", "link to nothing", "pipe"):
        library.unlink()
        if damage == "folder":
            library.mkdir()
            (library / "kept").touch()
        elif damage == "pipe":
            os.mkfifo(library)
        elif damage.startswith("link"):
            library.symlink_to("/etc/passwd" if damage == "link" else tmp_path / "absent")
        else:
            library.write_bytes(content[damage])
        compiled.clear()
        for _ in range(2):
            assert call().blockdim == 8
        assert len(compiled) == 1, damage
        assert library.read_bytes() == whole and not library.is_symlink()
    assert [path.parent.name.endswith(".aside") for path in folder.rglob("kept")] == [True]
    assert "is a folder, a library belongs there; it was renamed to" in caplog.text


def test_hanging_tiling_function(bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAD", "hang")
    with pytest.raises(
        TimeLimitError, match=r"tiling_func: the tiling function of 'BadCustom' did not end within 0.5 s"
    ):
        bad(0.5)()


def test_output_of_the_tiling_function_is_logged(
    bad: Callable[[float], TilingCall], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mskpp")
    monkeypatch.setenv("BAD", "print")
    assert bad(60)()["blockdim"] == 1
    monkeypatch.setenv("BAD", "too much")
    assert len(bad(60)()["tiling_data"]) == 131072
    assert [record.message for record in caplog.records] == [
        "tiling_func: from the tiling function",
        "tiling_func: mskpp tiling: SetDataSize(1048576) is more than the capacity, 131072 bytes",
    ]


def test_unknown_operator_and_wrong_library(project: Path) -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(InputError) as raised:
        tiling_func("ScaleCostum", [x], [x], project / "scale_custom.so")
    assert str(raised.value) == (
        f"tiling_func: {project}/scale_custom.so has no tiling function for op_type 'ScaleCostum'; "
        "did you mean 'ScaleCustom'? It has: ScaleCustom, ScaleOther"
    )
    with pytest.raises(
        LaunchError, match=r"add_custom.o is not a tiling library that can be loaded\n.*no tiling functions"
    ):
        tiling_func("AddCustom", [x], [x], project / "add_custom.o")
    assert session.latest_tiling() is None


def test_library_with_many_operators(tmp_path: Path) -> None:
    (tmp_path / "many.cpp").write_text(
        '#include "register/op_impl_registry.h"\n'
        "static ge::graphStatus Any(gert::TilingContext*) { return ge::GRAPH_SUCCESS; }\n"
        + "".join(f"IMPL_OP_OPTILING(Op{n}).Tiling(Any);\n" for n in range(100))
    )
    run("g++", "-shared", "-fPIC", "-O0", f"-I{INCLUDE}", f"-I{INCLUDE / 'host'}", "many.cpp", "-o", "many.so")
    with pytest.raises(InputError) as raised:
        tiling_func("Op100", [np.zeros(1)], [], "many.so")
    assert re.search(r"did you mean 'Op\d+'\? It has: (Op\d+, ){19}Op\d+ and 80 more$", str(raised.value))


def test_libraries_in_one_process_keep_apart(project: Path) -> None:
    code = (
        "import ctypes, sys\n"
        "for path in sys.argv[1:]:\n"
        "    names = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL).mskpp_tiling_names_v1\n"
        "    names.restype = ctypes.c_char_p\n"
        "    print(names().decode().split())\n"
    )
    paths = [str(project / f"{name}.so") for name in ("bad_custom", "scale_custom")]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True)
    assert done.stdout == "['BadCustom']\n['ScaleCustom', 'ScaleOther']\n", done.stderr


def test_no_library_on_the_host() -> None:
    with pytest.raises(InputError, match="lib_path is not given; nothing is deployed on the host"):
        tiling_func("AddCustom", [], [])


def test_tiling_code_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "x.cpp").write_text("// Generated by mskpp; do not edit.\nint x;\n")
    with pytest.raises(InputError, match=r"x\.cpp is no tiling code"):
        TilingCall(tmp_path / "x.cpp", tmp_path / "x.so")


def test_compiled_call_that_cannot_be_loaded(project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = TilingConfig("AddCustom", [np.arange(3)], [], project / "add_custom.so")
    (tmp_path / "x.cpp").write_text(config.generate())
    config.written(tmp_path / "x.cpp")
    with pytest.raises(BackendError, match=r"cannot be loaded: .*absent\.so: cannot open shared object file"):
        tiling_runner(tmp_path / "x.cpp", tmp_path / "absent.so")()
    (tmp_path / "x.cpp.values").unlink()
    with pytest.raises(BackendError):
        tiling_runner(tmp_path / "x.cpp", tmp_path / "absent.so")()
    assert "'AddCustom' sees no values of its inputs" in caplog.text and "x.cpp.values is missing" in caplog.text
    (tmp_path / "x.cpp.values").write_bytes(tiling.VALUES_MARK + bytes(8))
    with pytest.raises(InputError, match=r"x\.cpp\.values has fewer than the 24 bytes of values"):
        tiling_runner(tmp_path / "x.cpp", tmp_path / "absent.so")
    (tmp_path / "x.cpp.values").write_bytes(bytes(999))
    with pytest.raises(InputError, match=r"x\.cpp\.values is no file of values that mskpp wrote"):
        tiling_runner(tmp_path / "x.cpp", tmp_path / "absent.so")
    (tmp_path / "x.cpp.values").unlink()
    for make in (Path.mkdir, lambda path: path.symlink_to("absent"), os.mkfifo):
        make(tmp_path / "x.cpp.values")
        with pytest.raises(FileError, match=r"x\.cpp\.values, the values of the inputs, cannot be read"):
            tiling_runner(tmp_path / "x.cpp", tmp_path / "absent.so")
        (tmp_path / "x.cpp.values").rename(tmp_path / f"was{os.urandom(4).hex()}")


def test_values_beside_the_source_reach_the_function(project: Path) -> None:
    attr = {"factor": 1.0, "axes": [1], "mode": "", "transpose": False, "axis": 0, "rows": [[1], [2, 3]],
            "weights": [1.0], "switches": [True]}  # fmt: skip
    given = TilingConfig(
        "ScaleCustom", [np.zeros(1, np.int32), np.array([1, 77])], [], project / "scale_custom.so", attr=attr
    )
    data = compile_tiling(Launcher(given).code_gen("scale.cpp"), "scale.so")()["tiling_data"]
    assert struct.unpack("=q", data[40:48]) == (77,)


def test_tiling_output_of_a_dict() -> None:
    given = {"blockdim": 2, "workspace_size": 3, "tiling_key": 1, "tiling_data": [1, 255]}
    output = TilingOutput(given)
    assert output.tiling_data.tolist() == [1, 255] and output.workspace.tolist() == [0, 0, 0]
    output.tiling_data[0] = 7  # a copy that can be written to
    with pytest.raises(InputError, match="TilingOutput: the key 'tiling_key' is missing"):
        TilingOutput({"blockdim": 2, "workspace_size": 3})
    with pytest.raises(InputError, match="a workspace of 9223372036854775807 bytes cannot be allocated"):
        _ = TilingOutput(given | {"workspace_size": 2**63 - 1}).workspace


# --- kernel binaries ---


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A shared object that exports the functions named in a text, made once."""
    folder = tmp_path_factory.mktemp("binaries")

    def make(names: str) -> Path:
        path = folder / f"{names.replace(' ', '-')}.o"
        if not path.exists():
            source = folder / "source.c"
            source.write_text("".join(f"void {name}(void) {{}}\n" for name in names.split()))
            run("gcc", "-shared", "-fPIC", source, "-o", path)
        return path

    return make


@pytest.mark.parametrize(
    ("symbol", "name", "key"),
    [
        ("add_custom_3", "add_custom", 3),
        ("add_custom_3_mix_aic", "add_custom", 3),
        ("add_custom_mix_aiv", "add_custom", 0),
        ("add_custom", "add_custom", 0),
        ("x_1_18446744073709551615", "x_1", 2**64 - 1),
    ],
)
def test_name_and_key_of_a_symbol(symbol: str, name: str, key: int) -> None:
    assert binary.name_and_key(symbol) == (name, key)


def test_functions_of_a_host_binary(binaries: Callable[[str], Path]) -> None:
    path = binaries("k_1 k_22 mskpp_x")
    assert binary.host_functions(path, 22) == ["k_22"]
    with pytest.raises(InputError, match=r"has no kernel for tiling_key 3; it has: 1 \(k_1\), 22 \(k_22\)"):
        binary.host_functions(path, 3)
    assert binary.host_functions(binaries("lone"), 0) == ["lone"]
    assert binary.host_functions(binaries("m_5_mix_aiv m_5_mix_aic"), 5) == ["m_5_mix_aic", "m_5_mix_aiv"]
    with pytest.raises(InputError, match="has several kernels for tiling_key 1: a_1, b_1"):
        binary.host_functions(binaries("a_1 b_1"), 1)
    with pytest.raises(InputError, match="exports no kernel; a binary for the host is compiled by mskpp-cc"):
        binary.host_functions(binaries("mskpp_y"), 0)


def test_a_binary_with_many_functions(tmp_path: Path) -> None:
    path = tmp_path / "many.o"
    (tmp_path / "many.c").write_text("".join(f"void k_{n}(void) {{}}\n" for n in range(5000)))
    run("gcc", "-shared", "-fPIC", "-O0", tmp_path / "many.c", "-o", path)
    assert binary.host_functions(path, 7) == ["k_7"]
    with pytest.raises(InputError) as raised:
        binary.host_functions(path, 99999)
    assert str(raised.value).endswith("it has: " + ", ".join(f"{n} (k_{n})" for n in range(20)) + " and 4,980 more")


def test_a_symbol_with_more_digits_than_a_key_has() -> None:
    assert binary.name_and_key("k_" + "9" * 5000) == ("k_" + "9" * 5000, 0)


def test_damaged_binaries(binaries: Callable[[str], Path], tmp_path: Path) -> None:
    good = binaries("k_0 k_1").read_bytes()
    (headers,) = struct.unpack_from("<Q", good, 0x28)
    random = np.random.default_rng(7)
    path = tmp_path / "k.o"
    refused = 0
    for number in range(300):
        data = bytearray(good)
        for _ in range(random.choice([1, 2, 5])):
            places = [random.integers(64), random.integers(headers, len(data)), random.integers(len(data))]
            data[random.choice(places)] = random.choice([0, 1, 255, 127, random.integers(256)])
        path.write_bytes(data[: random.integers(len(data))] if number % 10 == 0 else data)
        for table in (".symtab", ".dynsym"):
            try:
                binary.symbols(path, "who", table)
            except InputError as error:
                assert str(error).startswith(f"who: {path} cannot be read as a kernel binary (")
                refused += 1
    assert refused
    # The name of a section, the size or the place of .dynsym far outside the file: seek takes no such offset.
    entries, size = struct.unpack_from("<H", good, 0x3C)[0], 64
    for field in (0x10, 0x18, 0x20, 0x38):
        for value in (0, 1, 2**40, 2**63, 2**64 - 1):
            data = bytearray(good)
            for entry in range(entries):
                if struct.unpack_from("<I", data, headers + entry * size + 4)[0] in (3, 11):
                    struct.pack_into("<Q", data, headers + entry * size + field, value)
            path.write_bytes(data)
            try:
                binary.symbols(path, "who", ".dynsym")
            except InputError:
                refused += 1
    path.unlink()
    with pytest.raises(FileError, match=r"^who: .*k\.o cannot be read: No such file"):
        binary.symbols(path, "who", ".dynsym")


def as_text(tmp_path: Path, path: Path, given: str) -> str:
    return given.replace(str(path), "/project/kernel.o").replace(path.stem, "kernel")


def test_texts_of_a_binary(
    binaries: Callable[[str], Path], golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = binaries("add_custom_3_mix_aic add_custom_3_mix_aiv")
    config = KernelBinaryInvokeConfig(path, None, 3)
    golden("launcher/binary_host.cpp", as_text(tmp_path, path, config.text_for("host")))
    golden("launcher/binary_acl.cpp", as_text(tmp_path, path, config.text_for("ascend")))
    (tmp_path / "lib64").mkdir()
    binaries("other").rename(tmp_path / "lib64" / "libruntime.so")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert not binary.runtime_takes_tiling_keys()
    binaries("rtKernelLaunchWithHandleV2").rename(tmp_path / "lib64" / "libruntime.so")
    golden("launcher/binary_runtime.cpp", as_text(tmp_path, path, config.text_for("ascend")))
    given = KernelBinaryInvokeConfig(path, "cube", 3).text_for("ascend")
    assert "kMagic = 0x41494343;" in given and "kMagicIsGiven = true" in given
    assert "kMagic = 0x41415246;" in KernelBinaryInvokeConfig(binaries("lone"), None, 0).text_for("ascend")


def test_texts_of_a_binary_compile(binaries: Callable[[str], Path], tmp_path: Path) -> None:
    path = binaries("lone")
    path.with_suffix(".json").write_text('{"debugOptions": "printf"}')
    config = KernelBinaryInvokeConfig(path, None, 2**64 - 1)
    path.with_suffix(".json").unlink()
    (tmp_path / "acl.cpp").write_text(config._for_acl())
    (tmp_path / "runtime.cpp").write_text(config._for_runtime())
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "acl.cpp", "runtime.cpp")


@pytest.mark.parametrize(
    ("content", "prints", "message"),
    [
        ('{"debugOptions": "printf,assert"}', True, "says that the kernel prints"),
        ('{"debugOptions": ["printf"]}', True, "says that the kernel prints"),
        ('{"debugOptions": "assert"}', False, ""),
        ("[]", False, ""),
        ("{", False, "cannot be read"),
    ],
)
def test_description_beside_a_binary(
    binaries: Callable[[str], Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    content: str,
    prints: bool,
    message: str,
) -> None:
    caplog.set_level(logging.INFO, "mskpp")
    (tmp_path / "k.o").write_bytes(binaries("lone").read_bytes())
    (tmp_path / "k.json").write_text(content)
    assert KernelBinaryInvokeConfig("k.o", None, 0).enable_printf is prints
    assert message in caplog.text and bool(message) == bool(caplog.records)


def test_tiling_key_of_the_latest_tiling(binaries: Callable[[str], Path]) -> None:
    path = binaries("lone")
    with pytest.raises(StateError, match="tiling_key is not given and no tiling_func ran here before"):
        KernelBinaryInvokeConfig(path)
    tiling_output = TilingOutput({"blockdim": 1, "workspace_size": 0, "tiling_key": 9, "tiling_data": []})
    session.remember("AddCustom", tiling_output)
    config = KernelBinaryInvokeConfig(path)
    assert (config.tiling_key, config.op_type, config.kernel_name) == (9, "AddCustom", "kernel_binary")
    with pytest.raises(InputError, match="has no kernel for tiling_key 9; it has: 0"):
        get_kernel_from_binary(path)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((None,), InputError, "kernel_binary_file is None; give the path of a kernel binary"),
        (("",), InputError, "kernel_binary_file is ''"),
        (("absent.o",), FileError, "kernel_binary_file: file"),
        (("k.o", "mixed"), InputError, "unknown kernel_type 'mixed'; did you mean 'mix'? Known: mix, vec, cube"),
        (("k.o", 3), ArgumentError, "kernel_type is int; it must be mix, vec, cube or None"),
        (("k.o", None, -1), InputError, "tiling_key is -1; allowed are 0 to 2^64 - 1"),
        (("k.o", None, 2**64), InputError, "tiling_key is 18446744073709551616; allowed are 0 to 2^64 - 1"),
        (("k.o", None, True), ArgumentError, "tiling_key is bool; it must be an int"),
        (("k.o", None, "0"), ArgumentError, "tiling_key is str; it must be an int"),
        (("open.o", None, 0), UnsafeError, "chmod o-w"),
    ],
)
def test_refused_binary(tmp_path: Path, given: tuple[Any, ...], error: type[Exception], message: str) -> None:
    for name in ("k.o", "open.o"):
        (tmp_path / name).write_bytes(b"\x7fELF")
    (tmp_path / "open.o").chmod(0o666)
    with pytest.raises(error) as raised:
        KernelBinaryInvokeConfig(*given)
    assert str(raised.value).startswith("get_kernel_from_binary: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\xff" * 48])
def test_a_binary_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k.o").write_bytes(content)
    with pytest.raises(InputError, match=r"k.o cannot be read as a kernel binary \(.*must be an ELF|exports no kernel"):
        get_kernel_from_binary("k.o", tiling_key=0)


def test_too_many_arguments(project: Path) -> None:
    kernel = get_kernel_from_binary(project / "add_custom.o", tiling_key=0)
    with pytest.raises(LaunchError, match="33 arguments were given, a binary takes at most 32"):
        kernel[1](*[None] * 33)


# --- the same on the emulated toolkit ---

FLOW = """
import json, os, sys
import numpy as np
from mskpp.errors import MskppError
from mskpp.launcher.opgen_workflow import get_kernel_from_binary, tiling_func
project, kernel_type = sys.argv[1], sys.argv[2] or None
x = np.arange(64, dtype=np.float32)
z = np.zeros_like(x)
output = tiling_func("AddCustom", [x, x], [z], project + "/add_custom.so")
print(json.dumps([output.blockdim, output.workspace_size, output.tiling_key, output.tiling_data.tobytes().hex()]))
kernel = get_kernel_from_binary(project + "/add_custom.o", kernel_type)
for _ in range(2):
    try:
        kernel(x, x, z, output.workspace, output.tiling_data)
    except MskppError as error:
        print(type(error).__name__, error)
print(bool((z == 2 * x).all()))
"""


@pytest.fixture(scope="session")
def device_project(project: Path, emulated_cann: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a kernel for the emulated device."""
    folder = tmp_path_factory.mktemp("device_project")
    (folder / "add_custom.json").write_text('{"debugOptions": "printf"}')
    (folder / "add_custom.so").write_bytes((project / "add_custom.so").read_bytes())
    include = Path(emulated_cann["ASCEND_HOME_PATH"], "include")
    front = [sys.executable, "-I", LAUNCHER / "cc.py", "-O1", "-shared", f"-I{include}", "-DADD"]
    launch = '-DMSKPP_LAUNCH_HEADER="emulated_launch.h"'
    run(*front, launch, HERE / "projects" / "kernels.cpp", "-o", folder / "add_custom.o")
    return folder


def flow(environment: dict[str, str], project: Path, kernel_type: str = "", **more: str) -> tuple[list[str], list[str]]:
    """The lines it printed, and the calls of the toolkit."""
    log = Path("calls.log").resolve()
    log.unlink(missing_ok=True)
    variables = {**os.environ, **environment, "MSKPP_BACKEND": "ascend", "EMULATED_CANN_LOG": str(log), **more}
    done = subprocess.run(
        [sys.executable, "-c", FLOW, project, kernel_type], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), log.read_text().splitlines()


def calls(log: list[str], *names: str) -> list[str]:
    return [line.partition("(")[0] for line in log if line.startswith(names)]


def printed(log: list[str]) -> int:
    """How often the workspace was handed over, to print what the kernel wrote there."""
    return sum(bool(re.match(r"AdumpPrintWorkSpace\(.*, 78643200, .*, AddCustom\) = printed$", line)) for line in log)


TILING = json.dumps([8, 78643200, 0, struct.pack("=II", 64, 8).hex()])


def test_flow_through_the_runtime(emulated_cann: dict[str, str], device_project: Path) -> None:
    lines, log = flow(emulated_cann, device_project)
    assert lines == [TILING, "True"]
    wanted = calls(
        log, "rtRegisterAllKernel", "rtKernelLaunchWithHandleV2", "rtDevBinaryUnRegister", "rtGetC2cCtrlAddr"
    )
    assert wanted == ["rtRegisterAllKernel", *["rtKernelLaunchWithHandleV2"] * 2, "rtDevBinaryUnRegister"]
    assert printed(log) == 2


def test_a_mixed_kernel_and_errors_of_the_runtime(emulated_cann: dict[str, str], device_project: Path) -> None:
    lines, log = flow(emulated_cann, device_project, "mix", EMULATED_CANN_FAIL="rtRegisterAllKernel:1=107000")
    assert lines[0] == TILING
    assert lines[1].startswith("LaunchError ") and "rtRegisterAllKernel returned 107000" in lines[1]
    # The second launch registers again, and hands over the address for the cores to meet at.
    wanted = ["rtRegisterAllKernel", "rtGetC2cCtrlAddr", "rtKernelLaunchWithHandleV2"]
    assert calls(log, *wanted) == ["rtRegisterAllKernel", *wanted]
    assert lines[-1] == "True"


def test_flow_through_ascendcl(emulated_cann_acl_only: dict[str, str], device_project: Path) -> None:
    lines, log = flow(emulated_cann_acl_only, device_project)
    assert lines == [TILING, "True"]
    wanted = ["aclrtBinaryLoadFromFile", "aclrtBinaryGetFunctionByEntry", *["aclrtLaunchKernelWithConfig"] * 2]
    assert calls(log, *wanted, "aclrtBinaryUnLoad") == [*wanted, "aclrtBinaryUnLoad"]
    assert printed(log) == 2
