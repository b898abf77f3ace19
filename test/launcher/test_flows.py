# SPDX-License-Identifier: Apache-2.0
"""The users' flows from end to end, each interface alone and chained, on the CPU and on the emulated toolkit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "example"

PRELUDE = """
    import ctypes, json, sys
    from pathlib import Path
    import numpy as np
    import mskpp
    random = np.random.default_rng(5)
"""
VADD = """
    #include <mskpp/kernel.h>
    extern "C" __global__ __aicore__ void vadd(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, float scale) {
        auto *a = (__gm__ float*)x, *b = (__gm__ float*)y, *c = (__gm__ float*)z;
        for (uint32_t i = GetBlockIdx(); i < n; i += GetBlockNum()) c[i] = a[i] + scale * b[i];
    }
"""
SCRIPT = """
    cd "$(dirname "$0")"
    bisheng -O1 -fPIC -std=c++17 -xcce --cce-aicore-arch=dav-c220 -mllvm -cce-aicore-stack-size=0x8000 \\
        -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/lib64" -lruntime -lascendcl --shared "$1" -o "$2"
"""


@pytest.fixture(params=["host", "ascend"])
def backend(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment in which scripts use this backend."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MSKPP_", "ASCEND_", "EMULATED_"))}
    if request.param == "ascend":
        ours |= request.getfixturevalue("emulated_cann")
    return {**ours, "MSKPP_BACKEND": request.param, "PYTHONPATH": str(ROOT)}


def run(folder: Path, environment: dict[str, str], script: str, *prefix: str) -> str:
    """What a user's script prints. It has to succeed."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(script))
    done = subprocess.run(
        [*prefix, sys.executable, str(path)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(textwrap.dedent(text).lstrip())


def test_vector_add_by_a_script_of_the_users(tmp_path: Path, backend: dict[str, str]) -> None:
    write(tmp_path, "vadd.cpp", VADD)
    write(tmp_path, "build.sh", SCRIPT)
    printed = run(
        tmp_path,
        backend,
        """
        def get_kernel():
            config = mskpp.KernelInvokeConfig("vadd.cpp", "vadd")
            gen_file = mskpp.Launcher(config).code_gen()
            return mskpp.compile(build_script="build.sh", launch_src_file=gen_file)
        x, y = random.random((50, 3), np.float32), random.random((50, 6), np.float32)[:, ::2]
        z = np.zeros((3, 50), np.float32).T
        get_kernel()[4](x, y, z, 150, 2.0)
        print(np.array_equal(z, x + 2 * y), sorted(p.name for p in Path().iterdir()))
        """,
    )
    made = "['_gen_launch.cpp', '_gen_module.so', '_gen_module.so.mskpp', 'build.sh', 'script.py', 'vadd.cpp']"
    assert printed == f"True {made}\n"


def test_code_gen_alone(tmp_path: Path, backend: dict[str, str]) -> None:
    write(tmp_path, "vadd.cpp", VADD)
    printed = run(
        tmp_path,
        backend,
        """
        print(mskpp.Launcher(mskpp.KernelInvokeConfig("vadd.cpp", "vadd")).code_gen("launch.cpp"))
        text = Path("launch.cpp").read_text()
        print('vadd<<<blockdim, l2ctrl, stream>>>' in text, oct(Path("launch.cpp").stat().st_mode & 0o777))
        """,
    )
    assert printed == "launch.cpp\nTrue 0o600\n"


def test_the_old_package_name(tmp_path: Path, backend: dict[str, str]) -> None:
    write(tmp_path, "vadd.cpp", VADD)
    printed = run(
        tmp_path,
        backend,
        """
        import mskl
        kernel = mskl.compile(None, mskl.Launcher(mskl.KernelInvokeConfig("vadd.cpp", "vadd")).code_gen())
        x = random.random(9, np.float32); z = np.zeros(9, np.float32)
        kernel[2](x, x, z, 9, 1)
        print(np.array_equal(z, 2 * x))
        """,
    )
    assert printed == "True\n"


def test_matmul_of_templates_with_layouts(tmp_path: Path, backend: dict[str, str]) -> None:
    """The example, on both backends; it has a bias and a workspace too."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "10_launch_kernel" / "launch_kernel.py")],
        cwd=tmp_path, env=backend, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("equal to numpy: True\n")


def test_tile_shapes_as_template_parameters(tmp_path: Path, backend: dict[str, str]) -> None:
    source = (EXAMPLE / "10_launch_kernel" / "basic_matmul.cpp").read_text()
    source = source.replace("using L1TileShape = gemm::TileShape<32, 64, 64>;\n", "")
    source = source.replace("template <class LayoutA", "template <class L1TileShape, uint32_t Extra, class LayoutA")
    write(tmp_path, "matmul.cpp", source)
    printed = run(
        tmp_path,
        backend,
        """
        class Coord(ctypes.Structure):
            _fields_ = [(n, ctypes.c_uint32) for n in "mnk"]
        class RowMajor(ctypes.Structure):
            _fields_ = [("rows", ctypes.c_uint32), ("columns", ctypes.c_uint32), ("stride", ctypes.c_int64)]
            @classmethod
            def get_namespace(cls): return "gemm::"
        def one(problem, a, la, b, lb, bias, c, lc, workspace):
            def helper():
                config = mskpp.KernelInvokeConfig("matmul.cpp", "BasicMatmul")
                return mskpp.Launcher(config, template_param=[tile, 4]).code_gen()
            kernel = mskpp.compile(gen_file=(lambda: helper())(), options=["-O1"])
            kernel[3](problem, a, la, b, lb, bias, c, lc, workspace)
        m, n, k = 40, 24, 56
        a, b, bias = random.random((m, k), np.float32), random.random((k, n), np.float32), random.random(n, np.float32)
        for tile in ("gemm::TileShape<16, 16, 16>", "gemm::TileShape<32, 8, 64>"):
            c = np.zeros((m, n), np.float32)
            one(Coord(m, n, k), a, RowMajor(m, k, k), b, RowMajor(k, n, n), bias, c, RowMajor(m, n, n),
                np.zeros(3 * 512, np.float32))
            print(np.allclose(c, a @ b + bias, rtol=1e-4))
        """,
    )
    assert printed == "True\nTrue\n"


def test_tiling_then_binary(tmp_path: Path, backend: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "11_msopgen_project" / "run_project.py")],
        cwd=tmp_path, env=backend, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("compare success\n")


def test_executable(tmp_path: Path, backend: dict[str, str]) -> None:
    source = EXAMPLE / "12_executable" / "vector_scale.cpp"
    printed = run(
        tmp_path,
        backend,
        f"""
        executable = mskpp.compile_executable(src_file={str(source)!r}, options=["-O1"])
        print(executable(100, 3), end="")
        print(Path(executable.get_executable_path()).name)
        """,
    )
    assert printed == "last of 100: 297\n_gen_executable\n"


def test_a_profiler_starts_the_script(tmp_path: Path, emulated_cann: dict[str, str]) -> None:
    """Under `msprof op` (a stand-in) the script does what it does alone."""
    write(tmp_path, "vadd.cpp", VADD)
    environment = {**os.environ, **emulated_cann, "MSKPP_BACKEND": "ascend", "PYTHONPATH": str(ROOT)}
    printed = run(
        tmp_path,
        environment,
        """
        kernel = mskpp.compile(gen_file=mskpp.Launcher(mskpp.KernelInvokeConfig("vadd.cpp", "vadd")).code_gen(),
                               use_cache=True)
        x = random.random(9, np.float32); z = np.zeros(9, np.float32)
        kernel[2](x, x, z, 9, 1)
        Path("result.json").write_text(json.dumps(bool(np.array_equal(z, 2 * x))))
        """,
        str(Path(emulated_cann["ASCEND_HOME_PATH"]) / "bin" / "msprof"),
        "op",
        "--warm-up=1",
        f"--output={tmp_path}",
    )
    assert "Profiling results saved in" in printed
    assert json.loads((tmp_path / "result.json").read_text()) is True


def test_no_toolkit_is_one_clear_message(tmp_path: Path) -> None:
    write(tmp_path, "vadd.cpp", VADD)
    environment = {k: v for k, v in os.environ.items() if k != "ASCEND_HOME_PATH"}
    printed = run(
        tmp_path,
        {**environment, "MSKPP_BACKEND": "ascend", "PYTHONPATH": str(ROOT)},
        """
        try:
            mskpp.compile(gen_file=mskpp.Launcher(mskpp.KernelInvokeConfig("vadd.cpp", "vadd")).code_gen())
        except mskpp.errors.BackendError as error:
            print(error)
        """,
    )
    assert printed.startswith("backend ascend: ") and "ASCEND_HOME_PATH" in printed
    assert printed.count("\n") == 1
