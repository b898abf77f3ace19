# SPDX-License-Identifier: Apache-2.0
"""``@autotune`` from end to end: documented scripts, right results, and candidates, users and signals that do harm."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import signal
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.kernels import FAST, ROOT, python, running, wait_until, write
from utils.tuning import LONG, PRELUDE, SOURCE, long_run

from mskpp.errors import ArgumentError, BackendError, InputError, LaunchError, StateError, UnsafeError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile
from mskpp.launcher import process as processes
from mskpp.optune import compiling, device, tuner
from mskpp.optune.decorators import TuneError, autotune
from mskpp.optune.folder import PREFIX, PrivateFolder
from mskpp.optune.results import TuneResult

N = 100
pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def arrays() -> tuple[Any, Any, Any]:
    x = np.arange(N, dtype=np.float32)
    return x, x[::-1] * 3, np.full(N, -1, np.float32)


def kernel_of(script: str | None = None, path: str = "work.cpp", name: str = "work") -> Any:
    config = KernelInvokeConfig(path, name)
    return compile(script, Launcher(config).code_gen(), options=FAST if script is None else ())


def tuned(configs: Any = None, *, script: str | None = None, launch: Any = None, **plan: Any) -> TuneResult:
    """Tunes SOURCE; the arrays must then hold the sum."""
    plan.setdefault("warmup", 10)

    @autotune(configs, **plan)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        kernel_of(script)[2](x, y, z, n, **(launch or {}))

    x, y, z = arrays()
    found = work(x, y, z, N)
    np.testing.assert_array_equal(z, x + y)
    return found


def refused(kind: type[Exception], *arguments: Any, **keywords: Any) -> str:
    """The message, when nothing was compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling.compiler, "compile_alone", lambda *a, **k: pytest.fail("it was compiled"))
        with pytest.raises(kind) as caught:
            tuned(*arguments, **keywords)
    return str(caught.value)


# ----------------------------------------------------------------------------------------------- documented scripts

MATMUL = (ROOT / "test" / "utils" / "tiled_matmul.cpp").read_text()
DOCUMENTED = """
    class Coord(ctypes.Structure):
        _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint32), ("k", ctypes.c_uint32)]
        @staticmethod
        def get_namespace(): return "gemm::"

    class RowMajor(ctypes.Structure):
        _fields_ = [("rows", ctypes.c_uint32), ("columns", ctypes.c_uint32), ("stride", ctypes.c_int64)]
        @staticmethod
        def get_namespace(): return "gemm::"

    def get_kernel():
        kernel_file, kernel_name = "tiled_matmul.cpp", "TiledMatmul"
        build_script = "build.sh"
        config = mskpp.KernelInvokeConfig(kernel_file, kernel_name)
        gen_file = mskpp.Launcher(config).code_gen()
        kernel = mskpp.compile(build_script=build_script, launch_src_file=gen_file)
        return kernel

    def configurations(shapes):
        return [{"L1TileShape": "gemm::TileShape<%d, %d, %d>" % shape} for shape in shapes]

    def run(configs, m, n, k, **options):
        @autotune(configs=configs, **options)
        def tiled_matmul(problem, a, layout_a, b, layout_b, bias, c, layout_c, workspace):
            kernel = get_kernel()
            blockdim = 8
            return kernel[blockdim](problem, a, layout_a, b, layout_b, bias, c, layout_c, workspace)

        generator = np.random.default_rng(1)
        a, b = generator.random((m, k), np.float32), generator.random((k, n), np.float32)
        bias, c = generator.random(n, np.float32), np.zeros((m, n), np.float32)
        workspace = np.zeros(8 * 128 * 256, np.float32)
        found = tiled_matmul(Coord(m, n, k), a, RowMajor(m, k, k), b, RowMajor(k, n, n), bias, c, RowMajor(m, n, n),
                             workspace)
        np.testing.assert_allclose(c, a @ b + bias, rtol=1e-3)
        return found
"""
SHAPES = [(4, 8, 8), (8, 8, 8), (16, 16, 16), (32, 32, 32), (32, 64, 64), (64, 64, 64), (32, 128, 32), (16, 256, 64),
          (64, 256, 64), (1, 8, 1), (128, 128, 128), (2, 16, 512)]  # fmt: skip


def script(folder: Path, code: str, options: str, env: dict[str, str], expected: int = 0) -> str:
    """What a user's script prints on stdout; on stderr too when it fails as expected."""
    write(folder / "tiled_matmul.cpp", MATMUL)
    write(folder / "build.sh", f'bisheng {options} -std=c++17 -xcce --shared "$1" -o "$2"\n')
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(DOCUMENTED) + textwrap.dedent(code)
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    before = sorted(path.name for path in folder.iterdir()) + ["program.py"]
    child = python(folder, text, env={"TMPDIR": str(temporary), **env})
    out, err = child.communicate(timeout=200)
    assert child.returncode == expected, out + err
    assert sorted(path.name for path in folder.iterdir()) == sorted(before)
    assert list(temporary.iterdir()) == []
    return out + (err if expected else "")


def test_twelve_tile_shapes_on_the_host(tmp_path: Path) -> None:
    printed = script(
        tmp_path,
        f"""
        shapes = {SHAPES}
        found = run(configurations(shapes), 128, 256, 128, warmup=1000, repeat=3, device_ids=[0])
        assert found.complete and not found.failures and len(found) == 12
        ranking = found.ranking
        print("ratio", ranking[-1].time_us / ranking[0].time_us)
        print("samples", ranking[0].samples, ranking[-1].samples)
        """,
        "-O3",
        {"MSKPP_BACKEND": "host"},
    )
    lines = printed.splitlines()
    for number, (line, shape) in enumerate(zip(lines, SHAPES, strict=False)):
        time_us, _, rest = line.removeprefix(f"No.{number}: ").partition("μs, ")
        assert rest == str({"L1TileShape": f"gemm::TileShape<{shape[0]}, {shape[1]}, {shape[2]}>"})
        assert float(time_us) > 0 and len(time_us.partition(".")[2]) == 3
    assert lines[12].startswith("Best config: No.")
    told = {line.split()[0]: line.split()[1:] for line in lines[-2:]}
    assert float(told["ratio"][0]) >= 2  # about eight on a quiet machine
    assert int(told["samples"][0]) >= int(told["samples"][1]) >= 1


def kernels_run(file: Path) -> list[tuple[str, int]]:
    """(device, ns) of each kernel that ran, from EMULATED_CANN_TIMES."""
    return [(line.split()[3], int(line.split()[1])) for line in file.read_text().splitlines()]


def test_the_documented_script_on_the_emulated_toolkit(tmp_path: Path, emulated_cann: dict[str, str]) -> None:
    times = tmp_path.parent / f"{tmp_path.name}-times"
    printed = script(
        tmp_path,
        """
        found = run(configurations([(16, 16, 16), (32, 32, 32)]), 32, 32, 32, warmup=100, repeat=2)
        assert found.backend == "ascend" and found.ties == (0, 1)
        print([trial.samples for trial in found])
        """,
        "-O0",
        {
            **emulated_cann,
            "MSKPP_BACKEND": "ascend",
            "EMULATED_CANN_KERNEL_NS": "TiledMatmul:15250",
            "EMULATED_CANN_TIMES": str(times),
        },
    )
    assert printed.splitlines()[:4] == [
        "No.0: 15.250μs, {'L1TileShape': 'gemm::TileShape<16, 16, 16>'}",
        "No.1: 15.250μs, {'L1TileShape': 'gemm::TileShape<32, 32, 32>'}",
        "Best config: No.0",
        "Not to be told apart: No.0, No.1",
    ]
    samples = eval(printed.splitlines()[4])
    # A check of the output each; for each sample one launch, ceil(100 us / 15.25 us) = 7 to warm up, and two; then the
    # function with the best.
    assert len(kernels_run(times)) == 2 + sum(samples) * (1 + 7 + 2) + 1


def test_two_devices_measure_in_parallel(tmp_path: Path, emulated_cann: dict[str, str]) -> None:
    times = tmp_path.parent / f"{tmp_path.name}-times"
    printed = script(
        tmp_path,
        """
        shapes = [(16, 16, 16), (32, 32, 32), (0, 0, 0), (8, 8, 8)]
        found = run(configurations(shapes), 32, 32, 32, warmup=1, repeat=1, device_ids=[0, 1])
        print([(trial.number, trial.ending, trial.time_us) for trial in found])
        """,
        "-O0",
        {
            **emulated_cann,
            "MSKPP_BACKEND": "ascend",
            "EMULATED_CANN_DEVICES": "2",
            "EMULATED_CANN_KERNEL_NS": "TiledMatmul:2000",
            "EMULATED_CANN_TIMES": str(times),
        },
    )
    trials = eval(printed.splitlines()[-1])
    assert [trial[1] for trial in trials] == ["measured", "measured", "crashed", "measured"], printed
    assert [trial[2] for trial in trials] == [2.0, 2.0, None, 2.0]
    assert {where for where, _ in kernels_run(times)} == {"0", "1"}
    assert "No.2: crashed, " in printed


def test_a_candidate_that_takes_its_device_along(tmp_path: Path, emulated_cann: dict[str, str]) -> None:
    """Each device is served by a process, which begins anew; the script's own one and the other candidates go on."""
    write(tmp_path / "work.cpp", SOURCE)
    printed = script(
        tmp_path,
        """
        @autotune([{"KIND": kind} for kind in (6, 0, 2, 5, 13)], warmup=1)
        def work(x, y, z, n):
            code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
            mskpp.compile("build.sh", code)[2](x, y, z, n, timeout=500)
        x, z = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
        found = work(x, x, z, 50)
        assert (z == 2 * x).all()
        for trial in found: print("#", trial.ending, trial.reason)
        """,
        "-O0",
        {**emulated_cann, "MSKPP_BACKEND": "ascend", "EMULATED_CANN_KERNEL_NS": "work:7000"},
    )
    endings = [line[2:] for line in printed.splitlines() if line.startswith("#")]
    assert endings[0] == "crashed the process that ran it on device 0 ended: exit code 3"
    assert endings[1] == endings[4] == "measured "
    assert endings[2].startswith("crashed work: ")
    assert endings[3].startswith("timed out work: the launch did not end within 500 ms")


def test_an_uncaught_total_failure_makes_the_exit_code(tmp_path: Path) -> None:
    printed = script(
        tmp_path,
        'run([{"L1TileShape": "gemm::Nope<%d>" % i} for i in range(2)], 8, 8, 8)',
        "-O0",
        {"MSKPP_BACKEND": "host"},
        expected=1,
    )
    assert "Best config" not in printed
    assert "TiledMatmul: none of 2 configurations could be measured:" in printed
    assert "does not compile: tiled_matmul.cpp:" in printed


# ----------------------------------------------------------------------------------------------------- right results


def test_the_faster_wins_and_the_caller_has_its_output(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [{"MUCH": 3000}, {"MUCH": 1}, {"MUCH": 1000}]
    found = tuned(configs)
    assert found.best is not None and found.best.number == 1 and found.ties == (1,)
    assert [trial.number for trial in found.ranking] == [1, 2, 0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["No.0", "No.1", "No.2", "Best config"]
    assert all(line.endswith(f"μs, {config}") for line, config in zip(lines, configs, strict=False))
    assert sorted(path.name for path in Path().iterdir()) == ["work.cpp"]


def test_what_the_functions_own_code_does(source: Path) -> None:
    """What stands before the launch acts on the arrays as if it ran once; what stands behind runs once."""
    log: list[str] = []

    @autotune([{"MUCH": 1}, {"MUCH": 2}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int, keep: bytearray, number: Any) -> str:
        x += 1
        keep[0] += 1
        number.value += 1
        log.append("before")
        try:
            kernel_of()[2](x, y, z, n)
        except Exception:  # the launch that is only recorded is none to be handled
            log.append("caught")
        log.append("behind")
        z *= 2
        return "unheard"

    x, y, z = arrays()
    keep, number = bytearray(b"\1"), ctypes.c_int * 1
    one = number(5)

    class Holder(ctypes.Structure):
        _fields_ = [("value", ctypes.c_int)]

    holder = Holder(7)
    found = work(x, y, z, N, keep, holder)
    assert isinstance(found, TuneResult) and one[0] == 5
    np.testing.assert_array_equal(x, np.arange(N) + 1)
    np.testing.assert_array_equal(z, (x + y) * 2)
    assert keep == b"\2" and holder.value == 8
    assert log == ["before", "before", "behind"]


def test_a_kernel_that_changes_its_input(source: Path) -> None:
    """Every launch begins with the arguments as they are, so y += x gives the same each time, and once in the end."""

    @autotune([{"KIND": 10, "MUCH": 1}, {"KIND": 10, "MUCH": 2000}], warmup=1000, repeat=3, reference=add)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        kernel_of()[2](x, y, z, n)

    x, y, z = arrays()
    before = y.copy()
    found = work(x, y, z, N)
    assert not found.failures and found.best is not None and found.best.number == 0
    np.testing.assert_array_equal(y, before + x)
    np.testing.assert_array_equal(z, -1)


def add(x: Any, y: Any, z: Any, n: int) -> None:
    y += x


def total(x: Any, y: Any, z: Any, n: int) -> None:
    z[:] = x + y


def test_one_array_given_twice_is_one_memory_to_the_candidates(source: Path) -> None:
    @autotune([{"MUCH": 1}, {"MUCH": 2}], warmup=1, reference=lambda x, y, z, n: np.add(x, y, out=z.reshape(-1)))
    def work(x: Any, y: Any, n: int) -> None:
        kernel_of()[2](x, y, y.reshape(10, 10), n)

    x, y, _ = arrays()
    wanted = x + y
    assert not work(x, y, N).failures
    np.testing.assert_array_equal(y, wanted)


def test_half_an_output_is_a_wrong_result(source: Path) -> None:
    found = tuned([{"KIND": 9}, {"KIND": 0}, {"KIND": 11}], reference=total)
    assert [trial.ending for trial in found] == ["wrong result", "measured", "wrong result"]
    assert found[0].reason.startswith("argument 3 differs from the reference: 50 of 100 elements; -1.0 for ")
    assert "100 of 100 elements" in found[2].reason


def test_without_a_reference_the_minority_is_wrong(source: Path) -> None:
    """Whoever is first."""
    found = tuned([{"KIND": 11}, {"MUCH": 1}, {"KIND": 12}, {"MUCH": 2}])
    assert [trial.ending for trial in found] == ["wrong result", "measured", "wrong result", "measured"]
    assert found[0].reason.startswith("argument 3 differs from that of No.1 and 1 more: 100 of 100")
    assert found[0].time_us is None


def test_one_against_one_the_first_counts(source: Path) -> None:
    found = tuned([{"KIND": 0}, {"KIND": 11}])
    assert [trial.ending for trial in found] == ["measured", "wrong result"]


def test_all_against_the_reference(source: Path) -> None:
    with pytest.raises(TuneError, match="1 x wrong result: argument 3 differs from the reference") as caught:
        tuned([{"KIND": 11}], reference=total)
    assert caught.value.result[0].ending == "wrong result"


def test_a_reference_that_fails_is_the_users(source: Path) -> None:
    def broken(*values: Any) -> None:
        raise KeyError("mine")

    text = refused(InputError, [{"MUCH": 1}], reference=broken)
    assert text.startswith("autotune: reference: broken: KeyError: 'mine'; it is called with copies of the kernel's")


def test_a_reference_that_writes_nothing_is_warned_of(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TuneError):
        tuned([{"MUCH": 1}], reference=lambda x, y, z, n: None)
    assert "reference left its arguments as they were" in caplog.text


def test_a_list_of_arrays_and_a_workspace() -> None:
    """What lies in a workspace is not compared; items of a list are."""
    write(
        Path("sums.cpp"),
        """
        #include <mskpp/kernel.h>
        constexpr int KIND = 0;  // tunable
        extern "C" __global__ __aicore__ void sums(GM_ADDR list, GM_ADDR workspace) {
            auto* block = (__gm__ uint64_t*)list;
            auto *a = (__gm__ float*)block[1], *b = (__gm__ float*)block[2];
            ((__gm__ float*)workspace)[0] = KIND;
            b[0] = a[0] + a[1] + (KIND == 2);
        }
        """,
    )

    @autotune([{"KIND": i} for i in range(4)], warmup=1)
    def sums(items: Any, workspace: Any) -> None:
        kernel_of(path="sums.cpp", name="sums")[1](items, workspace)

    items = [np.array([1, 2], np.float32), np.zeros(1, np.float32)]
    found = sums(items, np.zeros(4, np.float32))
    assert [trial.ending for trial in found] == ["measured", "measured", "wrong result", "measured"]
    assert items[1][0] == 3


# ------------------------------------------------------------------------------------------------ the torture list

TORTURE: list[tuple[dict[str, Any], str, str]] = [
    ({"KIND": 1}, "does not compile", "kind 1 is not supported"),
    ({"Number": "NoSuchType"}, "does not compile", "NoSuchType"),
    ({"KIND": 77}, "does not compile", "error: the script refuses 77"),
    ({"KIND": 78}, "does not compile", "wrote no kernel.so"),
    ({"KIND": 2}, "crashed", "SIGSEGV"),
    ({"KIND": 3}, "crashed", "SIGABRT"),
    ({"KIND": 4}, "crashed", "SIGFPE"),
    ({"KIND": 5}, "timed out", "did not end within 700 ms; blocks that still ran: 0, 1"),
    ({"KIND": 6}, "crashed", "exit code 3"),
    ({"KIND": 7}, "crashed", "threw: no such thing"),
    ({"KIND": 8}, "crashed", "threw: std::bad_alloc"),
    ({"KIND": 9}, "wrong result", "50 of 100 elements"),
    ({"KIND": 79}, "failed", "kernel.so"),  # no library
]


def test_the_torture_list(tmp_path: Path, prebuilt: Path, own_temporary_folder: Path) -> None:
    write(tmp_path / "work.cpp", SOURCE)
    script = write(
        tmp_path / "build.sh",
        """
                has() { grep -rqF "$1;" "$(dirname "$source")/source"; }
        source="$1"
        has "KIND = 77" && { sleep 100 & echo "error: the script refuses 77" >&2; exit 3; }
        has "KIND = 78" && exit 0
        has "KIND = 79" && { echo "no library" > "$2"; exit 0; }
        has "KIND = 0" && has "Number = float" && exec cp PREBUILT "$2"
        exec mskpp-cc -O0 -shared "$1" -o "$2"
        """.replace("PREBUILT", str(prebuilt)),
    )
    bad = [({**config, "MUCH": i // len(TORTURE) + 1}, ending, cause)
           for i, (config, ending, cause) in enumerate(TORTURE * 2)][:20]  # fmt: skip
    assert len({cause for _, _, cause in bad}) >= 10
    mixed: list[tuple[dict[str, Any], str, str]] = []
    for i in range(20):
        mixed += [bad[i], ({"MUCH": 10 + i}, "measured", "")]
    memory = 6 << 30
    before = sorted(path.name for path in tmp_path.iterdir())
    found = tuned(
        [config for config, _, _ in mixed],
        script=str(script),
        launch={"timeout": 700},
        reference=total,
        memory_bytes=memory,
    )
    assert len(found) == 40 and found.complete
    for trial, (config, ending, cause) in zip(found, mixed, strict=True):
        assert trial.config == config
        assert trial.ending == ending, trial
        assert cause in trial.reason and str(own_temporary_folder) not in trial.reason, trial
    assert len(found.ranking) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert list(own_temporary_folder.iterdir()) == []
    assert not running(str(own_temporary_folder))


def test_the_first_error_of_the_compiler_is_the_reason(source: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "inner.h", 'constexpr int DEEP = 0;  // tunable\nstatic_assert(DEEP == 0, "too deep");\n')
    source.write_text('#include "sub/inner.h"\n' + source.read_text())
    found = tuned([{"Number": "Nope"}, {"DEEP": 1}, {"MUCH": 1}])
    assert found[0].reason.startswith("work.cpp:")
    assert found[1].reason.startswith("sub/inner.h:2:") and "too deep" in found[1].reason
    assert "mskpp-tune" not in found[0].log and "work.cpp:" in found[0].log


def test_all_fail(source: Path) -> None:
    with pytest.raises(TuneError) as caught:
        tuned([{"KIND": 1}, {"KIND": 1, "MUCH": 2}, {"KIND": 2}, {"KIND": 6}], launch={"timeout": 60000})
    lines = str(caught.value).splitlines()
    assert lines[0] == "work: none of 4 configurations could be measured:"
    assert lines[1].startswith("  2 x does not compile: work.cpp:") and "kind 1 is not supported" in lines[1]
    assert sorted(line.split(":")[0] for line in lines[2:]) == ["  1 x crashed", "  1 x crashed"]
    assert isinstance(caught.value, RuntimeError) and len(caught.value.result) == 4


def test_a_compiler_that_never_ends(source: Path, tmp_path: Path, own_temporary_folder: Path) -> None:
    script = write(tmp_path / "build.sh", "(sleep 1000; :) &\nwhile :; do :; done\n")

    @autotune([{"MUCH": 1}])
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        kernel = compile(str(script), Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen(), timeout=0.5)
        kernel[2](x, y, z, n)

    with pytest.raises(TuneError, match=r"1 x timed out: autotune: .* did not end within 0\.5 s"):
        work(*arrays(), N)
    assert not running(str(own_temporary_folder))


# ------------------------------------------------------------------------------ what is refused before it is compiled


def test_names_and_values_that_do_not_fit(source: Path) -> None:
    assert "tunable 'MUSH' matches no marked line" in refused(InputError, [{"MUCH": 1}, {"MUSH": 2}])
    assert "MUCH" in refused(InputError, [{"MUCH": 1}, {"MUSH": 2}])
    assert "configs is empty" in refused(InputError, [])
    assert "configs[0] is empty" in refused(InputError, [{}])
    assert "the same as configs[0]" in refused(InputError, [{"MUCH": 1}, {"MUCH": np.int64(1)}])
    assert "configs[0]['MUCH']" in refused(ArgumentError, [{"MUCH": None}])
    assert "configs[0]['MUCH']" in refused(InputError, [{"MUCH": float("nan")}])
    assert "autotune" in refused(InputError, [{"MUCH": "1; int x = 2"}])
    assert "tunable 'NOPE'" in refused(InputError, space={"MUCH": [1, 2], "NOPE": range(10**6)}, trials=1)
    assert "where refused all" in refused(InputError, [{"MUCH": 1}], where=lambda MUCH: False)


@pytest.mark.parametrize(
    ("argument", "bad", "kind"),
    [
        ("warmup", 0, InputError),
        ("warmup", 100001, InputError),
        ("warmup", True, ArgumentError),
        ("warmup", 0.5, ArgumentError),
        ("repeat", 0, InputError),
        ("repeat", 10001, InputError),
        ("repeat", "2", ArgumentError),
        ("device_ids", [], InputError),
        ("device_ids", [0, 0], InputError),
        ("device_ids", [-1], InputError),
        ("device_ids", [True], ArgumentError),
        ("device_ids", [[0]], ArgumentError),
        ("device_ids", 0, ArgumentError),
        ("device_ids", "0", ArgumentError),
        ("device_ids", [0, 1], InputError),
        ("strategy", "best", InputError),
        ("seed", -1, InputError),
        ("trials", 0, InputError),
        ("trials", True, ArgumentError),
        ("seconds", 0, InputError),
        ("seconds", float("nan"), InputError),
        ("seconds", "1", InputError),
        ("reference", 1, ArgumentError),
        ("where", 1, ArgumentError),
        ("memory_bytes", 1, InputError),
        ("memory_bytes", 1e9, ArgumentError),
    ],
)
def test_arguments_of_the_decorator(source: Path, argument: str, bad: object, kind: type[Exception]) -> None:
    assert argument in refused(kind, [{"MUCH": 1}], **{argument: bad})


def test_a_decorator_without_its_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"write @autotune\(configs\)"):
        autotune(lambda x: x)  # type: ignore[arg-type]


def test_arguments_of_the_launch(source: Path) -> None:
    configs = [{"MUCH": 1}]
    assert "no keyword 'timeoutt'; it has blockdim, " in refused(ArgumentError, configs, launch={"timeoutt": 1})
    assert "timeout is 0 ms" in refused(InputError, configs, launch={"timeout": 0})

    def launched(call: Callable[..., None]) -> Callable[..., Any]:
        return autotune(configs)(call)

    with pytest.raises(ArgumentError, match="3 arguments for 4 parameters of work; missing: int32_t n"):
        launched(lambda x, y, z, n: kernel_of()[2](x, y, z))(*arrays(), N)
    with pytest.raises(ArgumentError, match="argument 4 is float, but the parameter is 'int32_t n'"):
        launched(lambda x, y, z, n: kernel_of()[2](x, y, z, 0.5))(*arrays(), N)
    with pytest.raises(ArgumentError, match="without a blockdim"):
        launched(lambda x, y, z, n: kernel_of()(x, y, z, n))(*arrays(), N)
    with pytest.raises(InputError, match="blockdim is 0"):
        launched(lambda x, y, z, n: kernel_of()[0](x, y, z, n))(*arrays(), N)


def test_a_script_that_may_not_run(source: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "build.sh", "sudo cp a b\n")
    assert "sudo" in refused(UnsafeError, [{"MUCH": 1}], script=str(script))


def test_no_compiler_is_nobodys_fault(
    source: Path, monkeypatch: pytest.MonkeyPatch, own_temporary_folder: Path
) -> None:
    def missing(*arguments: object, **keywords: object) -> None:
        raise BackendError("no compiler")

    monkeypatch.setattr(compiling.compiler, "compile_alone", missing)
    with pytest.raises(BackendError, match="no compiler"):
        tuned([{"MUCH": i} for i in range(10)])


# ---------------------------------------------------------------------------------------------- the user's function


def test_values_of_every_kind_reach_the_source(tmp_path: Path, prebuilt: Path) -> None:
    text = SOURCE + "    constexpr bool FLAG = false;  // tunable\n    constexpr float SHARE = 1;  // tunable\n"
    write(tmp_path / "work.cpp", text)
    script = write(tmp_path / "keep.sh", f'cat "$(dirname "$1")/source/work.cpp" >> seen; exec cp "{prebuilt}" "$2"\n')
    configs = [{"FLAG": True, "MUCH": np.int64(8), "SHARE": 0.25}, {"FLAG": np.bool_(False), "SHARE": np.float32(0.1)}]
    found = tuned(configs, script=str(script))
    assert [trial.config for trial in found] == [
        {"FLAG": True, "MUCH": 8, "SHARE": 0.25},
        {"FLAG": False, "SHARE": float(np.float32(0.1))},
    ]
    seen = (tmp_path / "seen").read_text()
    for line in ("FLAG = true;", "MUCH = 8;", "SHARE = 0.25;", "FLAG = false;", "SHARE = 0.10000000149011612;"):
        assert line in seen


def test_functions_of_every_kind(source: Path, copying: str) -> None:
    wrap = autotune([{"MUCH": 1}], warmup=1)

    class Holder:
        blocks = 2

        @wrap
        def method(self, x: Any, y: Any, z: Any, n: int) -> None:
            kernel_of(copying)[self.blocks](x, y, z, n)

        @staticmethod
        @wrap
        def static(x: Any, y: Any, z: Any, n: int) -> None:
            """Adds."""
            kernel_of(copying)[2](x, y, z, n)

    class Callee:
        def __call__(self, x: Any, y: Any, z: Any, n: int) -> None:
            kernel_of(copying)[2](x, y, z, n)

    def with_kernel(kernel: Any, x: Any, y: Any, z: Any, n: int) -> None:
        kernel(copying)[2](x, y, z, n)

    functions: list[Callable[..., Any]] = [
        Holder().method,
        Holder.static,
        wrap(lambda x, y, z, n: kernel_of(copying)[2](x, y, z, n)),
        wrap(functools.partial(with_kernel, kernel_of)),
        wrap(Callee()),
    ]
    for function in functions:
        x, y, z = arrays()
        assert isinstance(function(x, y, z, n=N), TuneResult)
        np.testing.assert_array_equal(z, x + y)
    assert Holder.static.__doc__ == "Adds." and Holder.static.__name__ == "static"


def test_an_exception_before_the_launch_is_the_users(source: Path) -> None:
    @autotune([{"MUCH": 1}])
    def work(x: Any) -> None:
        raise OSError("mine")

    with pytest.raises(OSError, match=r"^mine$") as caught:
        work(1)
    assert caught.traceback[-1].name == "work" and caught.value.__cause__ is None


def test_an_exception_behind_the_launch_is_the_users(source: Path, copying: str) -> None:
    @autotune([{"MUCH": 1}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        kernel_of(copying)[2](x, y, z, n)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        work(*arrays(), N)
    assert caught.traceback[-1].name == "work"


def test_an_interrupt_in_the_users_code_is_the_users(source: Path) -> None:
    @autotune([{"MUCH": 1}])
    def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()


def test_functions_that_launch_nothing_that_can_be_tuned(source: Path, tmp_path: Path, prebuilt: Path) -> None:
    wrap = autotune([{"MUCH": 1}])
    with pytest.raises(StateError, match="launched no kernel") as caught:
        wrap(lambda: None)()
    assert str(caught.value).endswith(
        'compile() must be called in the function, not before it; a function that models a kernel needs backend="model"'
    )
    with pytest.raises(StateError, match="launched no kernel"):
        wrap(lambda x, y, z, n: kernel_of())(*arrays(), N)
    with pytest.raises(StateError, match="launched no kernel"):  # one that was compiled before
        wrap(lambda x, y, z, n: CompiledKernel(str(prebuilt))[2](x, y, z, n))(*arrays(), N)
    write(tmp_path / "own.cpp", "// written by hand\n")
    with pytest.raises(StateError, match=r"compiled \S*/own.cpp, which no .* wrote in this run"):
        wrap(lambda x, y, z, n: compile(None, "own.cpp")[2](x, y, z, n))(*arrays(), N)


def test_two_launches_and_a_second_kernel(source: Path, tmp_path: Path) -> None:
    """The first launch is tuned; the winner serves both, and another kernel is itself."""
    write(
        tmp_path / "twice.cpp",
        """
        #include <mskpp/kernel.h>
        extern "C" __global__ __aicore__ void twice(GM_ADDR z, int32_t n) {
            for (int i = GetBlockIdx(); i < n; i += GetBlockNum()) ((__gm__ float*)z)[i] *= 2;
        }
        """,
    )

    @autotune([{"MUCH": 2000}, {"MUCH": 1}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        twice = kernel_of(path="twice.cpp", name="twice")
        kernel = kernel_of()
        kernel[2](x, y, z, n)
        kernel[2](z, y, z, n)
        twice[2](z, n)

    x, y, z = arrays()
    found = work(x, y, z, N)
    assert found.kernel == "work" and found.ties == (1,)
    np.testing.assert_array_equal(z, (x + y + y) * 2)


def test_keywords_of_the_users_launch(source: Path, copying: str) -> None:
    launch = {"device_id": 0, "timeout": 5000, "repeat": 2, "stream": None, "kernel_name": "mine"}
    assert not tuned([{"MUCH": 1}, {"MUCH": 2}], script=copying, launch=launch).failures


def test_the_users_files_are_left_alone(source: Path, tmp_path: Path) -> None:
    """What compile() would write in the function is not written while its kernel is tuned."""
    kept = write(tmp_path / "_gen_module.so", "mine")

    @autotune([{"MUCH": 1}, {"MUCH": 2}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen(str(tmp_path / "mine.cpp"))
        compile(None, code, str(tmp_path / "out.so"), use_cache=True, options=FAST)[2](x, y, z, n)

    x, y, z = arrays()
    work(x, y, z, N)
    np.testing.assert_array_equal(z, x + y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_gen_module.so", "work.cpp"]
    assert kept.read_text() == "mine" and source.read_text() == textwrap.dedent(SOURCE).lstrip("\n")


def test_the_winners_kernel_outlives_the_search(source: Path, copying: str) -> None:
    kept: list[Any] = []

    @autotune([{"MUCH": 1}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        kernel = kernel_of(copying)
        kernel[2](x, y, z, n)
        kept.append(kernel)

    work(*arrays(), N)
    x, y, z = arrays()
    kept[0][2](x, y, z, N)
    np.testing.assert_array_equal(z, x + y)
    kept.clear()


@pytest.mark.parametrize("options", [[], ["-W", "error"]], ids=["usual", "warnings"])
def test_at_the_top_of_a_script_in_a_thread_among_others(
    tmp_path: Path, prebuilt: Path, copying: str, options: list[str]
) -> None:
    """No process is forked from Python, nothing is pickled: no __main__ guard is needed."""
    write(tmp_path / "work.cpp", SOURCE)
    code = f"""
        import threading, time
        stop = threading.Event()
        others = [threading.Thread(target=lambda: stop.wait(60)) for _ in range(4)]
        for one in others: one.start()

        @autotune([{{"MUCH": 1}}, {{"MUCH": 2}}], warmup=1)
        def work(x, y, z, n):
            code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
            mskpp.compile({copying!r}, code)[2](x, y, z, n)

        x = np.arange(50, dtype=np.float32)
        z = np.zeros(50, np.float32)
        work(x, x, z, 50)
        z2 = np.zeros(50, np.float32)
        thread = threading.Thread(target=work, args=(x, x, z2, 50))
        thread.start(); thread.join()
        stop.set()
        assert (z == 2 * x).all() and (z2 == 2 * x).all()
    """
    child = python(
        tmp_path, textwrap.dedent(PRELUDE) + textwrap.dedent(code), env={"PYTHONWARNINGS": "error" if options else ""}
    )
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    assert out.count("Best config: No.") == 2 and err == ""


# ------------------------------------------------------------------------------------------------ budgets and orders


def test_exactly_as_many_trials_as_were_given(source: Path, copying: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = tuned(space={"MUCH": range(1000)}, trials=7, script=copying)
    assert [trial.number for trial in found] == list(range(7)) and not found.complete
    assert "The search is incomplete: 7 of at most 1,000 were tried\n" in capsys.readouterr().out
    assert tuned(space={"MUCH": range(7)}, trials=7, script=copying).complete


def test_a_random_order_depends_on_the_seed_only(source: Path, copying: str) -> None:
    plan: dict[str, Any] = {"space": {"MUCH": range(1000)}, "trials": 5, "script": copying, "strategy": "random"}
    one, same, other = tuned(**plan, seed=1), tuned(**plan, seed=1), tuned(**plan, seed=2)
    assert [t.number for t in one] == [t.number for t in same] != [t.number for t in other]
    assert [t.config for t in one] == [{"MUCH": t.number} for t in one]


def test_a_condition(source: Path, copying: str) -> None:
    found = tuned(
        space={"MUCH": range(8), "KIND": [0, 50]}, where=lambda MUCH, KIND: MUCH % 3 == 2 and KIND == 0, script=copying
    )
    assert [trial.config["MUCH"] for trial in found] == [2, 5] and found.complete


def test_a_condition_that_fails_on_the_way(source: Path, copying: str) -> None:
    """What was found until then is not lost."""
    found = tuned([{"MUCH": 2}, {"MUCH": 1}, {"MUCH": 0}], where=lambda MUCH: 1 / MUCH, script=copying)
    assert len(found) == 2 and not found.failures and not found.complete
    with pytest.raises(InputError, match=r"autotune: where: ZeroDivisionError: division by zero, for \{'MUCH': 0\}"):
        tuned([{"MUCH": 0}], where=lambda MUCH: 1 / MUCH, script=copying)


def test_a_space_of_ten_thousand_million(source: Path, copying: str) -> None:
    space = {"MUCH": range(100_000), "KIND": range(13, 100_013)}
    begin = time.monotonic()
    found = tuned(space=space, trials=3, strategy="random", script=copying)
    assert len(found) == 3 and time.monotonic() - begin < 8


def test_the_time_is_a_budget_of_new_candidates(source: Path, tmp_path: Path, prebuilt: Path) -> None:
    script = write(tmp_path / "slow.sh", f'sleep 0.3; exec cp "{prebuilt}" "$2"\n')
    begin = time.monotonic()
    found = tuned(space={"MUCH": range(1000)}, seconds=1, script=str(script))
    assert time.monotonic() - begin < 10
    assert 1 <= len(found) < 30 and not found.complete and not found.failures
    assert len(tuned(space={"MUCH": range(1000)}, seconds=1e-9, script=str(script))) == 1


# --------------------------------------------------------------------------------------------------------- measuring


def faked(monkeypatch: pytest.MonkeyPatch, times: Callable[[int, int], float]) -> dict[str, int]:
    """CompiledKernel.measure gives times(number of the candidate, its samples so far) in ns."""
    calls: dict[str, int] = {}

    def measure(self: CompiledKernel, *values: Any, repeat: int, **keywords: Any) -> list[float]:
        calls[self.module_path] = calls.get(self.module_path, 0) + 1
        number = int(Path(self.module_path).parent.name)
        return [times(number, calls[self.module_path] - 1)] * repeat

    monkeypatch.setattr(CompiledKernel, "measure", measure)
    return calls


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_what_cannot_be_a_time(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch, bad: float) -> None:
    faked(monkeypatch, lambda number, sample: bad if number == 0 else 5000)
    found = tuned([{"MUCH": 1}, {"MUCH": 2}], script=copying)
    assert found[0].ending == "crashed" and "which cannot be" in found[0].reason
    assert found.ties == (1,) and found[1].time_us == 5.0


def test_too_few_times(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledKernel, "measure", lambda self, *values, **keywords: [5000])
    with pytest.raises(TuneError, match="1 times were measured for 3 launches"):
        tuned([{"MUCH": 1}], script=copying, repeat=3)


def test_ties_are_reported(
    source: Path, copying: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source_of_noise = random.Random(3)
    faked(monkeypatch, lambda number, sample: 10000 * (1 + number / 1000) * source_of_noise.gauss(1, 0.05))
    found = tuned([{"MUCH": i} for i in range(8)], script=copying)
    assert len(found.ties) >= 6 and found.best is not None and found.best.number == found.ties[0]
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "Not to be told apart: " + ", ".join(f"No.{number}" for number in found.ties)


def test_the_bad_are_not_measured_again(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = faked(monkeypatch, lambda number, sample: 1000 * (1 + number))
    found = tuned([{"MUCH": i} for i in range(6)], script=copying)
    assert found.ties == (0,)
    assert sorted(calls.values()) == [3, 3, 3, 3, 3, 3]


def test_a_candidate_that_fails_when_it_is_measured_again(
    source: Path, copying: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(number: int, sample: int) -> float:
        if number == 0 and sample:
            raise LaunchError("it broke")
        return 1000 + number

    faked(monkeypatch, times)
    found = tuned([{"MUCH": 1}, {"MUCH": 2}], script=copying)
    assert (found[0].ending, found[0].reason, found[0].time_us) == ("crashed", "it broke", None)
    assert found.best is not None and found.best.number == 1


def test_all_fail_when_they_are_measured_again(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, lambda number, sample: -1 if sample else 1000)
    with pytest.raises(TuneError, match="none of 1 configurations"):
        tuned([{"MUCH": 1}], script=copying)


def test_an_error_of_the_tuners_own_ends_it(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not hang, and not be taken for a candidate's failure."""

    def broken(self: object, *arguments: object) -> None:
        raise RuntimeError("a mistake in the tuner")

    monkeypatch.setattr(tuner.Search, "_first", broken)
    with pytest.raises(RuntimeError, match="a mistake in the tuner"):
        tuned([{"MUCH": i} for i in range(20)], script=copying)


def test_few_processes_are_kept(
    source: Path, copying: str, monkeypatch: pytest.MonkeyPatch, own_temporary_folder: Path
) -> None:
    """Each host kernel has a process; only those of the best are kept meanwhile, of all others none."""
    monkeypatch.setattr(device, "KEPT", 2)
    monkeypatch.setattr(tuner, "MOST_ROUNDS", 5)
    measure = CompiledKernel.measure
    seen: list[int] = []

    def watched(self: CompiledKernel, *values: Any, **keywords: Any) -> list[int]:
        seen.append(len(running(f"{own_temporary_folder}/")))
        return measure(self, *values, **keywords)

    monkeypatch.setattr(CompiledKernel, "measure", watched)
    tuned([{"MUCH": i} for i in range(8)], script=copying)
    assert max(seen) <= 2 * (2 + 1)  # with their supervisors


def test_the_order_in_which_compilations_end_changes_nothing(source: Path, tmp_path: Path, prebuilt: Path) -> None:
    """The first takes longest; who was first to be right is asked by number."""
    script = write(
        tmp_path / "slow.sh",
        f'grep -q "MUCH = 1;" "$(dirname "$1")/source/work.cpp" && sleep 0.5\n'
        f'grep -q "KIND = 11;" "$(dirname "$1")/source/work.cpp" && exec mskpp-cc -O0 -shared "$1" -o "$2"\n'
        f'exec cp "{prebuilt}" "$2"\n',
    )
    found = tuned([{"MUCH": 1, "KIND": 0}, {"MUCH": 2, "KIND": 11}], script=str(script))
    assert [trial.ending for trial in found] == ["measured", "wrong result"]


# --------------------------------------------------------------------------------------------- output of the program


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_without_the_letter(tmp_path: Path, copying: str, encoding: str) -> None:
    write(tmp_path / "work.cpp", SOURCE)
    code = f"""
        @autotune([{{"MUCH": 1}}], warmup=1)
        def work(x, n):
            code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
            mskpp.compile({copying!r}, code)[2](x, x, x, n)
        work(np.zeros(8, np.float32), 8)
    """
    child = python(tmp_path, textwrap.dedent(PRELUDE) + textwrap.dedent(code), env={"PYTHONIOENCODING": encoding})
    assert child.wait(100) == 0
    assert child.stdout is not None
    told = child.stdout.buffer.read().decode(encoding)
    assert "s, {'MUCH': 1}\nBest config: No.0\n" in told and ("μ" in told or "\\u03bc" in told or "\\xb5" in told)


def test_without_stdout(source: Path, copying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert not tuned([{"MUCH": 1}], script=copying).failures


# ----------------------------------------------------------------------------------------------- signals and remains


def test_two_interrupts_in_a_row(tmp_path: Path, prebuilt: Path) -> None:
    child = long_run(tmp_path / "run", prebuilt)
    time.sleep(0.5)
    for _ in range(3):
        os.kill(child.pid, signal.SIGINT)
        time.sleep(0.02)
    _, err = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert wait_until(lambda: not running(str(tmp_path / "run")), 5)
    assert list((tmp_path / "run" / "temporary").iterdir()) == []


def test_an_interrupt_ends_compilers_and_kernels_that_never_end(tmp_path: Path, emulated_cann: dict[str, str]) -> None:
    for number, (kind, backend) in enumerate([("compile", "host"), ("launch", "host"), ("launch", "ascend")]):
        run = tmp_path / str(number)
        write(run / "work.cpp", SOURCE)
        (run / "temporary").mkdir()
        before = "touch reached; sleep 1000\n" if kind == "compile" else ""
        write(run / "slow.sh", f'{before}bisheng -O0 -shared "$1" -o "$2"; touch reached\n')
        code = LONG.replace('{"MUCH": i}', '{"KIND": 5}').replace("range(10)", "range(1)")
        env = {"TMPDIR": str(run / "temporary"), **(emulated_cann if backend == "ascend" else {})}
        child = python(run, textwrap.dedent(PRELUDE) + textwrap.dedent(code), env={**env, "MSKPP_BACKEND": backend})
        assert wait_until((run / "reached").exists)
        time.sleep(1.5 if kind == "launch" else 0.1)
        assert child.poll() is None
        os.kill(child.pid, signal.SIGINT)
        sent = time.monotonic()
        _, err = child.communicate(timeout=30)
        assert time.monotonic() - sent < 2 and "KeyboardInterrupt" in err
        assert wait_until(lambda run=run: not running(str(run)), 1), running(str(run))
        assert list((run / "temporary").iterdir()) == []


def test_a_tuner_that_is_killed_leaves_no_process_and_its_folder_to_the_next(
    tmp_path: Path, prebuilt: Path, own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = long_run(tmp_path / "run", prebuilt)
    time.sleep(1.2)
    child.kill()
    child.communicate(timeout=10)
    assert wait_until(lambda: not running(str(tmp_path / "run")), 5)
    temporary = tmp_path / "run" / "temporary"
    left = [path for path in temporary.iterdir() if path.name.startswith(PREFIX)]
    assert len(left) == 1 and left[0].name.startswith(f"{PREFIX}{child.pid}-")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    PrivateFolder().close()
    assert not [path for path in temporary.iterdir() if path.name.startswith(PREFIX)]
    monkeypatch.setattr(tempfile, "tempdir", str(own_temporary_folder))


def test_only_abandoned_folders_are_removed(own_temporary_folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "precious"
    write(mine / "lock", "")
    write(own_temporary_folder / f"{PREFIX}1-dead" / "lock", "")
    (own_temporary_folder / f"{PREFIX}1-dead" / "link").symlink_to(mine)
    (own_temporary_folder / f"{PREFIX}1-link").symlink_to(mine)
    (own_temporary_folder / f"{PREFIX}1-new").mkdir()  # its owner is about to lock it
    write(own_temporary_folder / f"{PREFIX}1-file", "")
    old = own_temporary_folder / f"{PREFIX}1-old"  # its owner was killed before it could
    write(old / "part", "")
    os.utime(old, (time.time() - 7200,) * 2)
    linked = own_temporary_folder / f"{PREFIX}1-linked"
    linked.mkdir()
    (linked / "lock").symlink_to(mine / "lock")
    living = PrivateFolder()
    other = PrivateFolder()
    assert living.path.is_dir() and oct(living.path.stat().st_mode & 0o777) == "0o700"
    assert sorted(path.name for path in own_temporary_folder.iterdir()) == sorted(
        [living.path.name, other.path.name, *(f"{PREFIX}1-{name}" for name in ("link", "new", "file", "linked"))]
    )
    assert (mine / "lock").exists()
    for one in (living, other):
        one.close()
        one.close()
    for path in own_temporary_folder.iterdir():
        path.unlink() if path.is_symlink() or path.is_file() else remove(path)


def remove(path: Path) -> None:
    for item in path.iterdir():
        item.unlink()
    path.rmdir()


def test_what_is_stopped_ends_at_once() -> None:
    stop = processes.Stop()
    began = time.monotonic()
    threading.Timer(0.2, stop.set).start()
    done = processes.run(["sleep", "100"], timeout=50, who="test", stop=stop)
    assert done.returncode < 0
    done = processes.run(["sleep", "100"], timeout=50, who="test", stop=stop)  # it is set already
    assert done.returncode < 0 and time.monotonic() - began < 5
