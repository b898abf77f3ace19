# SPDX-License-Identifier: Apache-2.0
"""The trial store in a search: a second one measures nothing that it knows, and takes nothing for known that is not."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.kernels import FAST, python, write

from mskpp.errors import CompileError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile
from mskpp.optune import compiling
from mskpp.optune.decorators import TuneError, autotune
from mskpp.optune.results import TuneResult
from mskpp.optune.store import Store

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


class Work:
    """What a search does: the compilations, the kernels that ran, those that were measured."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.launched = 0
        self.measured: list[str] = []
        self.prebuilt: Path | None = None

    def taken(self) -> tuple[int, int, int]:
        """How many of each since it was last asked."""
        out = len(self.compiled), self.launched, len(set(self.measured))
        self.compiled, self.launched, self.measured = [], 0, []
        return out


def same_as_prebuilt(source: Path) -> bool:
    text = source.read_text()
    return "KIND = 0" in text and "KIND == 13" not in text and "GM_ADDR t" not in text


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, prebuilt: Path) -> Iterator[Work]:
    """Counts, and makes each time 1 ms more than the last one's; real ones would make ties. Only what has another KIND
    is compiled, as the rest does the same."""
    found = Work()
    found.prebuilt = prebuilt
    compile_here, launch = compiling.compile_here, CompiledKernel.launch

    def counted(job: compiling.Job, stop: Any, observed: Any = None) -> None:
        found.compiled.append(job.output.parent.name)
        if found.prebuilt and job.build_script is None and same_as_prebuilt(job.source.parent / "source" / "work.cpp"):
            shutil.copy(found.prebuilt, job.output)
        else:
            compile_here(job, stop, observed)

    def counted_launch(self: CompiledKernel, *values: Any, **keywords: Any) -> None:
        found.launched += 1
        launch(self, *values, **keywords)

    def measure(self: CompiledKernel, *values: Any, repeat: int, **keywords: Any) -> list[int]:
        number = Path(self.module_path).parent.name
        found.measured.append(number)
        return [1_000_000 * (int(number) + 1)] * repeat

    monkeypatch.setattr(compiling, "compile_here", counted)
    monkeypatch.setattr(CompiledKernel, "launch", counted_launch)
    monkeypatch.setattr(CompiledKernel, "measure", measure)
    yield found


def tuned(configs: Any, options: Any = FAST, n: int = 64, keywords: Any = None, **plan: Any) -> TuneResult:
    found, x, z = tuned_arrays(configs, options, n, keywords, **plan)
    np.testing.assert_array_equal(z, 2 * x)
    return found


def tuned_any(configs: Any, **plan: Any) -> TuneResult:
    """Whatever the output is."""
    return tuned_arrays(configs, **plan)[0]


def tuned_arrays(configs: Any, options: Any = FAST, n: int = 64, keywords: Any = None, **plan: Any) -> Any:
    @autotune(configs, **plan)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
        compile(None, code, options=options)[2](x, y, z, n, **(keywords or {}))

    x, z = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    return work(x, x, z, n), x, z


CONFIGS = [{"MUCH": 1}, {"MUCH": 2}, {"MUCH": 3}, {"KIND": 1}, {"KIND": 2}, {"KIND": 11}]


def test_nothing_is_measured_twice(source: Path, work: Work) -> None:
    first = tuned(CONFIGS)
    endings = [trial.ending for trial in first]
    assert endings == ["measured"] * 3 + ["does not compile", "crashed", "wrong result"]
    assert work.taken()[2] == 4 and not any(trial.known for trial in first)
    again = tuned(CONFIGS)
    # The best is compiled, and runs once in the user's function.
    assert work.taken() == (1, 1, 0)
    assert all(trial.known for trial in again) and again.complete
    assert [(t.ending, t.time_us, t.reason, t.samples) for t in again] == [
        (t.ending, t.time_us, t.reason, t.samples) for t in first
    ]
    assert again.ties == first.ties == (0,)


def test_one_more_costs_one(source: Path, work: Work) -> None:
    tuned(CONFIGS[:5])
    work.taken()
    more = tuned([*CONFIGS[:5], {"MUCH": 4}])
    # Besides it the best is compiled, and runs for its output, with which that of the new one is compared.
    assert work.taken() == (2, 3, 1)
    assert [trial.known for trial in more] == [True] * 5 + [False]
    work.taken()
    tuned([{"MUCH": 4}, *CONFIGS[:5]])
    assert work.taken() == (1, 1, 0)


def test_new_ones_are_compared_with_what_was_right(source: Path, work: Work) -> None:
    tuned(CONFIGS[:3])
    found = tuned([*CONFIGS[:3], {"KIND": 12}, {"KIND": 12, "MUCH": 2}])
    # One of the known ones runs, and stands for all three.
    assert [trial.ending for trial in found] == ["measured"] * 3 + ["wrong result"] * 2
    assert "differs from that of No.0 and 2 more" in found[3].reason


def test_a_reference_checks_the_best_known_one(source: Path, work: Work) -> None:
    tuned(CONFIGS)
    work.taken()

    def right(x: Any, y: Any, z: Any, n: int) -> None:
        z[:] = x + y

    # The best one's output, and that of the one which was wrong by comparison.
    found = tuned(CONFIGS, reference=right)
    assert work.taken()[2] == 0 and found[5].ending == "wrong result" and not found[5].known
    tuned(CONFIGS, reference=right)
    assert work.taken() == (1, 1, 0)


def changed(text: str, new: str) -> None:
    path = Path("work.cpp")
    path.write_text(path.read_text().replace(text, new))


@pytest.mark.parametrize(
    "change",
    ["source", "header", "options", "shape", "dtype", "scalar", "warmup", "repeat", "flush", "environment"],
)
def test_what_a_time_depends_on(source: Path, work: Work, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    write(Path("more.h"), "constexpr int ONE = 1;\n")
    changed("#include <csignal>", '#include "more.h"\n#include <csignal>')
    configs = CONFIGS[:2]
    plain: dict[str, Any] = {"configs": configs, "warmup": 100}
    tuned(**plain)
    work.taken()
    tuned(**plain)
    assert work.taken()[2] == 0
    if change == "source":
        changed("zero = 0", "zero = 0 + 0")
    elif change == "header":
        write(Path("more.h"), "constexpr int ONE = 2;\n")
    elif change == "environment":
        monkeypatch.setenv("CXXFLAGS", "-DX=1")
    else:
        plain.update(
            {
                "options": {"options": ["-O1"]},
                "shape": {"n": 65},
                "dtype": {"n": 66},
                "scalar": {"n": 67},
                "warmup": {"warmup": 101},
                "repeat": {"repeat": 2},
                "flush": {"flush_cache": True},
            }[change]
        )
    tuned(**plain)
    assert work.taken()[2] == 2
    tuned(**plain)
    assert work.taken()[2] == 0


def test_without_the_store(source: Path, work: Work) -> None:
    tuned(CONFIGS[:2], store=False)
    tuned(CONFIGS[:2], store=False)
    assert work.taken() == (4, 6, 2)
    tuned(CONFIGS[:2])
    assert work.taken()[0] == 2


def test_a_time_out_is_known_under_its_limit(source: Path, work: Work) -> None:
    configs = [{"MUCH": 1}, {"KIND": 5}]
    first = tuned(configs, keywords={"timeout": 300})
    assert first[1].ending == "timed out"
    work.taken()
    assert tuned(configs, keywords={"timeout": 300})[1].known
    assert work.taken()[0] == 1
    assert not tuned(configs, keywords={"timeout": 301})[1].known


def test_failures_of_the_machine_are_tried_again(source: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    full = write(Path("full.sh"), 'echo "as: error: no.s: No space left on device" >&2; exit 1\n')

    @autotune([{"MUCH": 1}])
    def fails(x: Any, y: Any, z: Any, n: int) -> None:
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
        compile(str(full), code)[2](x, y, z, n)

    x = np.zeros(4, np.float32)
    for _ in range(2):
        with pytest.raises(TuneError, match="No space left"):
            fails(x, x, x.copy(), 4)
    assert len(work.compiled) == 2


def test_a_best_that_compiles_no_more(source: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something has changed that no key has. The next best is taken, and the store is put right."""
    tuned(CONFIGS[:3])
    work.taken()
    real = compiling.compile_here

    def broken(job: compiling.Job, stop: Any, observed: Any = None) -> None:
        if job.output.parent.name == "0":
            raise CompileError("autotune: error: the headers are gone")
        real(job, stop, observed)

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "compile_here", broken)
        found = tuned(CONFIGS[:3])
    assert found[0].ending == "does not compile" and found.best is not None and found.best.number == 1
    work.taken()
    assert tuned(CONFIGS[:3]).ties == (0,)
    assert work.taken()[2] == 1


def test_what_was_compared_with_nothing_is_not_known(source: Path, work: Work) -> None:
    """Each alone is as good as any; together two of three agree."""
    for kind in (0, 11, 12):
        tuned_any([{"KIND": kind}])
    work.taken()
    found = tuned([{"KIND": 11}, {"KIND": 0}, {"KIND": 0, "MUCH": 2}])
    assert not any(trial.known for trial in found)
    assert [trial.ending for trial in found] == ["wrong result", "measured", "measured"]
    # A search of one alone is another matter.
    tuned([{"KIND": 0}])
    work.taken()
    assert tuned([{"KIND": 0}])[0].known


def test_groups_that_were_found_equal_do_not_stand_for_each_other(source: Path, work: Work) -> None:
    tuned_any([{"KIND": 11}, {"KIND": 11, "MUCH": 2}])
    tuned_any([{"KIND": 0}, {"KIND": 0, "MUCH": 2}, {"KIND": 0, "MUCH": 3}])
    found = tuned([{"KIND": 11}, {"KIND": 11, "MUCH": 2}, {"KIND": 0}, {"KIND": 0, "MUCH": 2}, {"KIND": 0, "MUCH": 3}])
    assert [trial.ending for trial in found] == ["wrong result"] * 2 + ["measured"] * 3


def test_a_verdict_by_comparison_counts_for_the_same_set_alone(source: Path, work: Work) -> None:
    configs = [{"KIND": 11}, {"KIND": 0}, {"KIND": 0, "MUCH": 2}]
    first = tuned_any(configs, trials=2)
    assert [trial.ending for trial in first] == ["measured", "wrong result"]  # of two the smaller number counts
    found = tuned(configs)
    assert [trial.ending for trial in found] == ["wrong result", "measured", "measured"]
    again = tuned(configs)
    assert all(trial.known for trial in again)
    assert [trial.ending for trial in again] == ["wrong result", "measured", "measured"]


def test_a_reference_is_what_it_leaves(source: Path, work: Work) -> None:
    def reference(factor: float) -> Any:
        def right(x: Any, y: Any, z: Any, n: int) -> None:
            z[:] = factor * x

        return right

    configs = [{"MUCH": 1}, {"MUCH": 2}]
    with pytest.raises(TuneError, match="2 x wrong result"):
        tuned(configs, reference=reference(3))
    assert not any(trial.known for trial in tuned(configs, reference=reference(2)))
    assert all(trial.known for trial in tuned(configs, reference=reference(2)))
    with pytest.raises(TuneError, match="2 x wrong result"):
        tuned(configs, reference=reference(3))


def test_the_best_known_one_must_be_right_for_these_arguments(source: Path, work: Work) -> None:
    """KIND 13 is right where x is 0. Its time is known then, and no more."""
    changed("(KIND == 11)", "(KIND == 13) * (a[i] != 0) + (KIND == 11)")

    def right(x: Any, y: Any, z: Any, n: int) -> None:
        z[:] = x + y

    def tuned_with(values: Any) -> TuneResult:
        @autotune([{"KIND": 13}, {"KIND": 0}], reference=right)
        def work(x: Any, y: Any, z: Any, n: int) -> None:
            code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
            compile(None, code, options=FAST)[2](x, y, z, n)

        z = np.zeros(2000, np.float32)
        found = work(values, values, z, 2000)
        np.testing.assert_array_equal(z, 2 * values)
        return found

    zeros, ones = np.zeros(2000, np.float32), np.ones(2000, np.float32)
    assert tuned_with(zeros).ties == (0,)
    work.taken()
    found = tuned_with(ones)
    assert work.taken()[2] == 0
    assert [trial.ending for trial in found] == ["wrong result", "measured"] and found[1].known


@pytest.mark.parametrize("kind", ["array", "bytearray"])
def test_what_little_memory_holds_may_be_sizes(source: Path, work: Work, kind: str) -> None:
    changed("int32_t n)", "GM_ADDR t)")
    changed("volatile int zero", "int n = *(__gm__ int32_t*)t; volatile int zero")

    def tuned_with(n: int) -> TuneResult:
        @autotune([{"KIND": 0}, {"KIND": 0, "MUCH": 2}])
        def work(x: Any, y: Any, z: Any, t: Any) -> None:
            code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
            compile(None, code, options=FAST)[2](x, y, z, t)

        x = np.ones(2000, np.float32)
        sizes = np.array([n], np.int32)
        return work(x, x, x.copy(), sizes if kind == "array" else bytearray(sizes.tobytes()))

    tuned_with(10)
    assert not tuned_with(2000)[0].known
    assert tuned_with(10)[0].known


def test_which_arguments_are_the_same_memory(source: Path, work: Work) -> None:
    def tuned_with(x: Any, z: Any) -> TuneResult:
        @autotune(CONFIGS[:2])
        def work(x: Any, y: Any, z: Any, n: int) -> None:
            code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
            compile(None, code, options=FAST)[2](x, y, z, n)

        return work(x, x, z, 2000)

    x = np.zeros(2000, np.float32)
    tuned_with(x, x.copy())
    assert tuned_with(x, x.copy())[0].known
    assert not tuned_with(x, x)[0].known


def test_with_an_executor_nothing_is_kept(source: Path, work: Work) -> None:
    """What its compilers read, and in which environment, is not seen."""
    with ThreadPoolExecutor(2) as executor:
        tuned(CONFIGS[:2], executor=executor)
        assert not tuned(CONFIGS[:2], executor=executor)[0].known


@pytest.mark.parametrize(
    "said",
    [
        "error: File too large",
        "fatal error: Terminated signal terminated program cc1plus",
        "error: Disk quota exceeded",
    ],
)
def test_more_failures_of_the_machine(source: Path, work: Work, said: str) -> None:
    script = write(Path("full.sh"), f'echo "{said}" >&2; exit 1\n')

    @autotune([{"MUCH": 1}])
    def fails(x: Any, y: Any, z: Any, n: int) -> None:
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
        compile(str(script), code)[2](x, y, z, n)

    x = np.zeros(4, np.float32)
    for _ in range(2):
        with pytest.raises(TuneError):
            fails(x, x, x.copy(), 4)
    assert len(work.compiled) == 2


def test_known_trials_count_against_the_budget(source: Path, work: Work) -> None:
    space: dict[str, Any] = {"space": {"MUCH": range(1000)}, "configs": None}
    first = tuned(trials=3, **space)
    again = tuned(trials=5, **space)
    assert [t.number for t in first] == [0, 1, 2] and [t.known for t in again] == [True] * 3 + [False] * 2
    assert not again.complete


def test_what_is_in_the_store(source: Path, work: Work) -> None:
    tuned(CONFIGS)
    with Store.open() as store:
        entries = [record for _, record in store.entries()]
    assert sorted(entry["ending"] for entry in entries) == sorted(
        ["measured"] * 3 + ["does not compile", "crashed", "wrong result"]
    )
    assert {entry["kernel"] for entry in entries} == {"work"}
    assert {entry["backend"] for entry in entries} == {"host"}
    assert {entry["source"] for entry in entries} == {str(source)}


@pytest.mark.parametrize("damage", ["cut", "garbage", "folder", "readonly"])
def test_a_store_that_cannot_be_used(source: Path, work: Work, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    tuned(CONFIGS[:2])
    work.taken()
    path = Path(os.environ["MSKPP_CACHE_DIR"], "trials.sqlite")
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "garbage":
        path.write_bytes(os.urandom(5000))
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        os.environ["MSKPP_CACHE_DIR"] = "/proc/no_such"
    found = tuned(CONFIGS[:2])
    assert found.complete and found.ties == (0,)
    assert caplog.records  # it says so


SCRIPT = """
    import numpy as np
    import mskpp
    from mskpp.optune.decorators import autotune

    @autotune([{"MUCH": 1}, {"MUCH": 2}, {"KIND": 1}], warmup=1)
    def work(x, y, z, n):
        code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
        mskpp.compile("build.sh", code)[2](x, y, z, n)

    x, z = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    found = work(x, x, z, 50)
    assert (z == 2 * x).all()
    print("known", [trial.known for trial in found], [trial.ending for trial in found])
"""


@pytest.mark.parametrize("backend", ["host", "ascend"])
def test_with_a_build_script(source: Path, tmp_path: Path, emulated_cann: dict[str, str], backend: str) -> None:
    """What it compiles, and with which headers, is seen at the first run."""
    write(tmp_path / "far" / "far.h", "constexpr int FAR = 1;\n")
    changed("#include <csignal>", '#include "far.h"\n#include <csignal>')
    write(tmp_path / "build.sh", 'bisheng -O0 -std=c++17 -xcce -I"$PWD/far" --shared "$1" -o "$2"\n')
    environment = {
        **(emulated_cann if backend == "ascend" else {}),
        "MSKPP_BACKEND": backend,
        "EMULATED_CANN_KERNEL_NS": "work:7000",
    }

    def known() -> str:
        child = python(tmp_path, textwrap.dedent(SCRIPT), env=environment)
        out, err = child.communicate(timeout=200)
        assert child.returncode == 0, out + err
        return out.splitlines()[-1]

    endings = "['measured', 'measured', 'does not compile']"
    assert known() == f"known [False, False, False] {endings}"
    assert known() == f"known [True, True, True] {endings}"
    write(tmp_path / "far" / "far.h", "constexpr int FAR = 2;\n")
    assert known() == f"known [False, False, False] {endings}"
