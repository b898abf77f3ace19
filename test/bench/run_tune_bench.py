# SPDX-License-Identifier: Apache-2.0
"""What tuning costs beyond compiling and measuring, whether it finds the same best again, and tilings a second.

    python3 build.py bench --tune

A search's overhead is its wall time over what could not be less: on the host the compilers' CPU time over the cores
plus the time of measuring, as the two never overlap there; on an NPU the larger of the two. Here that is the emulated
toolkit, whose kernels wait before they run, so that they leave the CPU to the compilers as a device does.
Times on a shared machine vary; compare figures of one run only.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import mskpp
from mskpp.optune import targets
from mskpp.optune.results import TuneResult

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test"))
CANDIDATES = 50
CORES = len(os.sched_getaffinity(0))
SHAPES = [(4, 8, 8), (8, 8, 8), (16, 16, 16), (32, 32, 32), (32, 64, 64), (64, 64, 64), (32, 128, 32), (16, 256, 64),
          (64, 256, 64), (1, 8, 1), (128, 128, 128), (2, 16, 512)]  # fmt: skip
KERNEL = """
#include <mskpp/kernel.h>
constexpr int STEP = 1;  // tunable
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR z, int32_t n) {
    auto *a = (__gm__ float*)x, *c = (__gm__ float*)z;
    for (volatile int i = 0; i < 1000 * STEP; i = i + 1) {}
    for (int i = GetBlockIdx(); i < n; i += GetBlockNum()) c[i] = 2 * a[i];
}
"""


@contextmanager
def quiet() -> Iterator[None]:
    """Without the lines that a search prints."""
    out, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115
    try:
        yield
    finally:
        sys.stdout.close()
        sys.stdout = out


class Clock:
    """The seconds in which candidates are checked and measured."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        kept = targets.Kernel.check, targets.Kernel.sample

        def timed(method: Any) -> Any:
            def work(*arguments: Any) -> Any:
                begin = time.perf_counter()
                try:
                    return method(*arguments)
                finally:
                    self.seconds += time.perf_counter() - begin

            return work

        targets.Kernel.check, targets.Kernel.sample = map(timed, kept)  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            targets.Kernel.check, targets.Kernel.sample = kept  # type: ignore[method-assign]


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tuned(script: str | None, warmup: int, count: int = CANDIDATES) -> TuneResult:
    @mskpp.autotune([{"STEP": i + 1} for i in range(count)], warmup=warmup, store=False)
    def scale(x: Any, z: Any, n: int) -> None:
        code = mskpp.Launcher(mskpp.KernelInvokeConfig("scale.cpp", "scale")).code_gen()
        mskpp.compile(script, code, options=["-O1"] if script is None else [])[1](x, z, n)

    x = np.ones(1 << 10, np.float32)
    with quiet():
        return scale(x, x.copy(), x.size)


def compile_cpu(script: str | None) -> float:
    """CPU seconds of the compilers alone, of all candidates."""
    kept = targets.Kernel.check

    def none(*arguments: Any) -> None:
        raise mskpp.errors.LaunchError("not run")

    targets.Kernel.check = none  # type: ignore[method-assign,assignment]
    before = children_cpu()
    try:
        tuned(script, 1)
    except mskpp.TuneError:
        pass
    finally:
        targets.Kernel.check = kept  # type: ignore[method-assign]
    return children_cpu() - before


def overhead(title: str, script: str | None, warmup: int, *, overlaps: bool) -> None:
    compiling = compile_cpu(script) / CORES
    clock = Clock()
    begin = time.perf_counter()
    with clock.watching():
        found = tuned(script, warmup)
    wall = time.perf_counter() - begin
    least = max(compiling, clock.seconds) if overlaps else compiling + clock.seconds
    print(
        f"{title:36} wall {wall:6.2f} s, compilers' CPU / cores {compiling:6.2f} s, measuring {clock.seconds:6.2f} s, "
        f"ratio {wall / least:.2f} (limit 1.15), {len(found.ranking)} measured"
    )


class Coord(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint32), ("k", ctypes.c_uint32)]

    @staticmethod
    def get_namespace() -> str:
        return "gemm::"


class RowMajor(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_uint32), ("columns", ctypes.c_uint32), ("stride", ctypes.c_int64)]

    @staticmethod
    def get_namespace() -> str:
        return "gemm::"


def matmul(shapes: list[tuple[int, int, int]], m: int = 128, n: int = 256, k: int = 128) -> TuneResult:
    configs = [{"L1TileShape": f"gemm::TileShape<{a}, {b}, {c}>"} for a, b, c in shapes]

    @mskpp.autotune(configs=configs, warmup=1000, repeat=3, store=False)
    def tiled_matmul(
        problem: Any, a: Any, layout_a: Any, b: Any, layout_b: Any, bias: Any, c: Any, layout_c: Any, workspace: Any
    ) -> None:
        code = mskpp.Launcher(mskpp.KernelInvokeConfig("tiled_matmul.cpp", "TiledMatmul")).code_gen()
        kernel = mskpp.compile(None, code, options=["-O3"])
        kernel[8](problem, a, layout_a, b, layout_b, bias, c, layout_c, workspace)

    make = np.random.default_rng(1)
    a, b, bias = (make.random(size, np.float32) for size in ((m, k), (k, n), n))
    c, workspace = np.zeros((m, n), np.float32), np.zeros(8 * 128 * 256, np.float32)
    with quiet():
        found = tiled_matmul(
            Coord(m, n, k), a, RowMajor(m, k, k), b, RowMajor(k, n, n), bias, c, RowMajor(m, n, n), workspace
        )
    np.testing.assert_allclose(c, a @ b + bias, rtol=1e-3)
    return found


def winners() -> None:
    for turn in range(6):
        shapes = SHAPES if turn < 5 else SHAPES[::-1]
        found = matmul(shapes)
        ranking = found.ranking
        best = [shapes[number] for number in found.ties]
        worst = ranking[-1].time_us / ranking[0].time_us  # type: ignore[operator]
        name = "12 matmul tiles" + (", reversed" if turn == 5 else "")
        print(f"{name:36} best {best}, the worst takes {worst:.1f} times as long, {len(found.failures)} failed")


def tilings(count: int = 2000) -> None:
    """Matmul tilings on the model; the best one is modelled alone as well."""
    spec = importlib.util.spec_from_file_location("example", ROOT / "example" / "13_tune_on_the_model.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = inspect.unwrap(example.matmul)
    sizes, depths = [16 * i for i in range(2, 33)], [8 * i for i in range(4, 65)]
    search = mskpp.autotune(
        space={"tile_m": sizes, "tile_n": sizes, "tile_k": depths}, where=example.fits, trials=count, strategy="random",
        backend="model",
    )(model)  # fmt: skip
    begin = time.perf_counter()
    with quiet():
        found = search()
    wall = time.perf_counter() - begin
    assert found.best is not None
    with mskpp.core.exploring.Explorer(quiet=True).looking_on():
        alone = model(**found.best.config).result.duration_us
    print(
        f"{f'{len(found)} tilings on the model':36} wall {wall:6.2f} s (limit 10), best {found.best.config} "
        f"{found.best.time_us:.3f} us, alone {alone:.3f} us"
    )


def on_the_emulated_toolkit() -> None:
    Path("build.sh").write_text('bisheng -O1 -std=c++17 -xcce --shared "$1" -o "$2"\n')
    for delay_ms in (20, 150):
        os.environ["EMULATED_CANN_DELAY_MS"] = str(delay_ms)
        title = f"emulated NPU, {CANDIDATES} candidates" if delay_ms == 20 else "  with measuring that takes longer"
        overhead(title, "build.sh", 1, overlaps=True)


def main() -> None:
    if sys.argv[1:] == ["emulated"]:
        on_the_emulated_toolkit()
        return
    from emulated_cann.install import install

    with tempfile.TemporaryDirectory(prefix="mskpp-tune-bench-") as folder:
        os.chdir(folder)
        Path("scale.cpp").write_text(KERNEL)
        Path("tiled_matmul.cpp").write_text((ROOT / "test" / "utils" / "tiled_matmul.cpp").read_text())
        os.environ["MSKPP_BACKEND"] = "host"
        tilings()
        winners()
        overhead(f"host, {CANDIDATES} candidates", None, 20000, overlaps=False)
        home = Path(folder, "toolkit")
        install(home)
        environment = {
            **os.environ,
            "MSKPP_BACKEND": "ascend",
            "ASCEND_HOME_PATH": str(home),
            "LD_LIBRARY_PATH": str(home / "lib64"),
            "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "emulated"], env=environment, check=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
