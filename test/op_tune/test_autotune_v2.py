# SPDX-License-Identifier: Apache-2.0
"""``@autotune_v2``: a program is compiled, profiled and ranked, on the host and with the emulated ``msprof op``."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from utils.kernels import write

import mskpp
from mskpp.errors import ArgumentError, BackendError, InputError, StateError
from mskpp.optune import targets
from mskpp.optune.decorators import TuneError, autotune_v2
from mskpp.optune.results import TuneResult

pytestmark = pytest.mark.usefixtures("own_temporary_folder")

# The program doubles numbers, checks them, and says which STEP it has. KIND says what goes wrong.
SOURCE = """
    #include <mskpp/kernel.h>
    #include "check.h"
    #include <cstdio>
    #include <cstdlib>
    #include <unistd.h>
    #include <vector>
    constexpr int STEP = 1;  // tunable
    constexpr int KIND = 0;  // tunable
    __global__ __aicore__ void scale(GM_ADDR data, int n) {
        auto* x = (__gm__ float*)data;
        for (int s = GetBlockIdx(); s < STEP; s += GetBlockNum())
            for (int i = s; i < n; i += STEP) x[i] *= 2;
    }
    __global__ __aicore__ void other(GM_ADDR data) { for (volatile int i = 0; i < 1000000; i = i + 1) {} }
    int main(int argc, char** argv) {
        std::vector<float> x(argc > 1 ? std::atoi(argv[1]) : 100, 1.0f);
        if (KIND == 1) return 7;
        if (KIND == 2) std::abort();
        if (KIND == 3) for (;;) pause();
        if (KIND != 4) scale<<<2, nullptr, nullptr>>>((GM_ADDR)x.data(), (int)x.size());
        if (KIND == 5) other<<<1, nullptr, nullptr>>>((GM_ADDR)x.data());
        std::printf("step %d of %s\\n", STEP, argc > 2 ? argv[2] : "?");
        return good(x) || KIND == 4 ? 0 : 9;
    }
"""
CHECK = """
    #include <vector>
    inline bool good(const std::vector<float>& x) { for (float v : x) if (v != 2.0f) return false; return true; }
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path) -> Path:
    write(tmp_path / "check.h", CHECK)
    return write(tmp_path / "scale.cpp", SOURCE)


def tuned(
    configs: Any = None, call: Any = None, script: str | None = None, **plan: Any
) -> tuple[TuneResult, list[str]]:
    """The result, and what the program said in the user's function at last."""
    said = []
    plan.setdefault("warmup_times", 1)

    @autotune_v2(configs, **plan)
    def run(count: int, word: str) -> None:
        options = ["-O0"] if script is None else ()
        executable = mskpp.compile_executable(script, "scale.cpp", options=options)
        said.append(executable(count, word, **(call or {})))

    result = run(200, "hello")
    return result, said


def test_a_program_on_the_host(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = (tmp_path / "scale.cpp").read_bytes()
    result, said = tuned([{"STEP": 1}, {"STEP": 10}, {"KIND": 1}, {"KIND": "no"}, {"KIND": 4}])
    assert [trial.ending for trial in result] == ["measured"] * 2 + ["failed", "does not compile", "failed"]
    assert "scale: ended with exit code 7" in result[2].reason
    assert "it launched no kernel" in result[4].reason
    assert result.best is not None and said == [f"step {result.best.config['STEP']} of hello\n"]
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"No\.0: \d+\.\d{3} us, \{'STEP': 1\}", lines[0])
    assert f"Best config: No.{result.best.number}" in lines
    assert (tmp_path / "scale.cpp").read_bytes() == before


def test_the_table(tmp_path: Path) -> None:
    result, _ = tuned([{"STEP": 1}, {"STEP": 3, "KIND": 0}, {"KIND": 1}])
    files = [path for path in tmp_path.iterdir() if path.name.startswith("MSKPP_AUTOTUNE_RESULTS_")]
    assert len(files) == 1 and stat.S_IMODE(files[0].stat().st_mode) == 0o600
    rows = list(csv.DictReader(io.StringIO(files[0].read_text())))
    assert list(rows[0]) == ["No.", "Config", "TaskDuration(us)", "Args"]
    assert [json.loads(row["Config"]) for row in rows] == [trial.config for trial in result]
    assert rows[0]["TaskDuration(us)"] == f"{result[0].time_us:.3f}" and rows[2]["TaskDuration(us)"] == ""
    assert {row["Args"] for row in rows} == {"200 hello"}
    tuned([{"STEP": 1}])
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".csv"]) == 2


def test_a_second_run_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [{"STEP": 1}, {"STEP": 2}, {"KIND": "no"}]
    first, _ = tuned(configs)
    with monkeypatch.context() as patch:
        patch.setattr(targets.Program, "sample", lambda *a: pytest.fail("it was measured"))
        again, said = tuned(configs)
    assert all(trial.known for trial in again) and len(said) == 1
    assert [trial.time_us for trial in again] == [trial.time_us for trial in first]
    # What a program may read: its environment, the files of its folder.
    monkeypatch.setenv("SIZE", "3")
    assert not any(trial.known for trial in tuned(configs)[0])
    write(Path("data.txt"), "5")
    assert not any(trial.known for trial in tuned(configs)[0])


def test_exit_codes_are_tried_again() -> None:
    for _ in range(2):
        result, _ = tuned([{"KIND": 1}, {"KIND": 0}])
        assert result[0].ending == "failed" and not result[0].known


def test_one_that_hangs_and_one_that_aborts() -> None:
    result, _ = tuned([{"KIND": 3}, {"KIND": 2}, {"KIND": 0}], call={"timeout": 1.5})
    assert [trial.ending for trial in result] == ["timed out", "crashed", "measured"]
    assert "signal 6" in result[1].reason or "SIGABRT" in result[1].reason


def test_none_is_good() -> None:
    with pytest.raises(TuneError, match=r"scale: none of 2 configurations could be measured:\n  2 x failed"):
        tuned([{"KIND": 1}, {"KIND": 1, "STEP": 2}])


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="autotune_v2: warmup_times is 501"):
        autotune_v2([{"STEP": 1}], warmup_times=501)
    with pytest.raises(ArgumentError, match="autotune_v2: warmup_times is str; it must be an int"):
        autotune_v2([{"STEP": 1}], warmup_times="x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"write @autotune_v2\(configs\)"):
        autotune_v2(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'STEPS' matches no marked line"):
        tuned([{"STEPS": 1}])
    with pytest.raises(ArgumentError, match="the program's call has no keyword 'stream'"):
        tuned([{"STEP": 1}], call={"stream": 1})
    with pytest.raises(InputError, match="timeout is 0; it must be a number of seconds above 0"):
        tuned([{"STEP": 1}], call={"timeout": 0})

    @autotune_v2([{"STEP": 1}])
    def nothing() -> None:
        pass

    with pytest.raises(StateError, match="the function ran no program; it must call compile_executable"):
        nothing()


# ---------------------------------------------------------------------------------------------- emulated toolkit


@pytest.fixture
def ascend(monkeypatch: pytest.MonkeyPatch, emulated_cann: dict[str, str], tmp_path: Path) -> Path:
    """The emulated toolkit; the file that has the kernels that ran."""
    for name, value in emulated_cann.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MSKPP_BACKEND", "ascend")
    monkeypatch.setenv("EMULATED_CANN_KERNEL_NS", "scale:15250,other:900000")
    write(tmp_path / "build.sh", 'bisheng -O0 -std=c++17 -xcce "$1" -o "$2"\n')
    write(tmp_path / "scale.cpp", ASCEND_SOURCE)
    return tmp_path


ASCEND_SOURCE = """
    #include "acl/acl.h"
    #include <cstdio>
    #include <cstdlib>
    #ifdef MSKPP_CC
    #include <mskpp/kernel.h>
    #endif
    constexpr int STEP = 1;  // tunable
    constexpr int KIND = 0;  // tunable
    extern "C" __global__ __aicore__ void scale(GM_ADDR x) { x[0] = STEP; }
    extern "C" __global__ __aicore__ void other(GM_ADDR x) { x[1] = STEP; }
    int main(int argc, char** argv) {
        if (KIND == 1) return 7;
        aclInit(nullptr);
        aclrtSetDevice(0);
        aclrtStream stream;
        aclrtCreateStream(&stream);
        void* data = nullptr;
        aclrtMalloc(&data, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        scale<<<2, nullptr, stream>>>((GM_ADDR)data);
        if (KIND == 5) other<<<1, nullptr, stream>>>((GM_ADDR)data);
        aclrtSynchronizeStream(stream);
        std::printf("step %d\\n", STEP);
        aclrtResetDevice(0);
        aclFinalize();
        return 0;
    }
"""


def test_exact_durations_of_msprof(ascend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, said = tuned([{"STEP": 1}, {"STEP": 2}, {"KIND": 1}, {"KIND": 5}], script="build.sh", warmup_times=3)
    assert result.backend == "ascend"
    assert capsys.readouterr().out.splitlines()[:4] == [
        "No.0: 15.250 us, {'STEP': 1}",
        "No.1: 15.250 us, {'STEP': 2}",
        "No.2: failed, {'KIND': 1}: scale: msprof ended with exit code 7",
        "No.3: 15.250 us, {'KIND': 5}",  # the first kernel's
    ]
    assert result.ties == (0, 1, 3) and said == ["step 1\n"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit=5", "msprof ended with exit code 5"),
        ("nofolder", "OpBasicInfo.csv of msprof op cannot be read"),
        ("nocsv", "OpBasicInfo.csv of msprof op cannot be read"),
        ("empty", "OpBasicInfo.csv of msprof op has no Task Duration(us)"),
        ("header", "OpBasicInfo.csv of msprof op has no Task Duration(us)"),
        ("zero", "the measured time is 0.0 us, which cannot be"),
        ("text", "Task Duration(us) in OpBasicInfo.csv of msprof op is 'N/A'"),
    ],
)
def test_what_msprof_may_do(ascend: Path, monkeypatch: pytest.MonkeyPatch, fault: str, reason: str) -> None:
    monkeypatch.setenv("EMULATED_MSPROF_FAIL", fault)
    with pytest.raises(TuneError) as caught:
        tuned([{"STEP": 1}], script="build.sh")
    assert reason in str(caught.value)


def test_a_silent_msprof_and_an_older_one(ascend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_MSPROF_FAIL", "silent")
    monkeypatch.setenv("EMULATED_MSPROF_COLUMNS", "old")
    result, _ = tuned([{"STEP": 1}], script="build.sh")
    assert result[0].time_us == 15.25


def test_an_msprof_that_hangs(ascend: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_MSPROF_FAIL", "hang")
    with pytest.raises(TuneError, match="timed out"):
        tuned([{"STEP": 1}], script="build.sh", call={"timeout": 1.0})


def test_no_msprof(ascend: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(targets.shutil, "which", lambda *a, **k: None)
    with pytest.raises(BackendError, match="msprof, which measures, is neither on PATH nor in"):
        tuned([{"STEP": 1}], script="build.sh")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".csv")]
