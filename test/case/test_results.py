# SPDX-License-Identifier: Apache-2.0
"""What a block leaves: chip.result, the statistics, the trace, the pie page and the terminal."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from utils import results
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Core, RegisterOf, Tensor, pipe_barrier, set_flag, wait_flag
from mskpp.errors import StateError

PICOSECONDS = 10**6  # of a microsecond


def tile() -> None:
    """A load, a computation and a store with a flag between each."""
    x, y = Tensor("UB"), Tensor("UB")
    x.load(Tensor("GM", "FP16", [4096]))
    set_flag("PIPE-MTE2", "PIPE-V", 0)
    wait_flag("PIPE-MTE2", "PIPE-V", 0)
    mskpp.vabs(x, y)()
    pipe_barrier("PIPE-V")
    Tensor("GM").load(y)


def priced_tile() -> None:
    register_cost(["MOV-GM_TO_UB"], lambda: 100, lambda: 8192)
    register_cost(["VABS"], lambda: 30, lambda: 4096)
    register_cost(["MOV-UB_TO_GM"], lambda: 50, lambda: 8192)
    tile()


def run(issue: Any, chip_name: str = "Ascend910B1") -> Chip:
    with Chip(chip_name) as chip:
        chip.enable_trace()
        chip.enable_metrics()
        issue()
    return chip


# --- chip.result ---


def test_result_as_python_values() -> None:
    with Chip("Ascend910B1") as chip:
        priced_tile()
    result = chip.result
    assert (result.chip, result.clock_mhz, result.total_cycles) == ("Ascend910B1", 1850, 100 + 1 + 1 + 30 + 50)
    assert result.duration_us == result.total_cycles / 1850
    assert len(result) == 6 and len(list(result.events())) == 6
    assert result.bound == "PIPE-MTE2"
    assert result.origins == {"user": 3}
    vector = result.pipes["PIPE-V"]
    assert (vector.name, vector.cycles, vector.bytes, vector.operations, vector.count) == ("PIPE-V", 30, None, 4096, 1)
    assert vector.duration_us == 30 / 1850 and vector.origins == {"user": 1}
    load = result.instructions["MOV-GM_TO_UB"]
    assert (load.cycles, load.bytes, load.operations, load.count) == (100, 8192, None, 1)
    assert repr(result) == "<Ascend910B1: 0.098 us, 182 cycles, 6 instructions, busiest PIPE-MTE2 55%>"
    event = next(result.events())
    assert (event.name, event.pipe, event.start, event.end, event.kind) == ("MOV-GM_TO_UB", "PIPE-MTE2", 0, 100, "move")
    assert event.work == 8192 and event.origin == "user" and event.line.startswith("test_results.py:")


def test_an_empty_block() -> None:
    chip = run(lambda: None)
    assert chip.result.total_cycles == 0 and chip.result.bound is None and len(chip.result) == 0
    assert repr(chip.result) == "<Ascend910B1: 0.000 us, 0 cycles, 0 instructions>"
    assert results.table(chip.output_dir, "Pipe_statistic.csv") == [
        {"Pipe": "Total", "Duration(us)": "0.000000", "Cycle": "0", "Size(B)": "-", "Ops": "-"}
    ]
    assert results.table(chip.output_dir, "Instruction_statistic.csv") == []
    assert results.slices(chip.output_dir) == []


def test_instructions_that_cost_nothing() -> None:
    register_cost(["VABS", "MOV-GM_TO_UB", "MOV-UB_TO_GM"], lambda: 0)
    chip = run(tile)
    assert chip.result.total_cycles == 2  # the flags
    moves = [e for e in results.slices(chip.output_dir) if e["name"].startswith("MOV")]
    assert [e["args"]["Bandwidth(GB/s)"] for e in moves] == [0, 0] and [e["dur"] for e in moves] == [0, 0]


def test_the_result_is_there_when_the_block_has_ended() -> None:
    chip = Chip("Ascend910B1")
    with pytest.raises(StateError, match="the result of Ascend910B1 is ready when its block has ended"):
        chip.result  # noqa: B018
    with chip, pytest.raises(StateError, match="is ready when its block has ended"):
        chip.result  # noqa: B018
    assert chip.result.total_cycles == 0


def test_there_is_no_result_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), Chip("Ascend910B1") as chip:
        raise ZeroDivisionError
    with pytest.raises(StateError, match="the result of Ascend910B1 does not exist: its block failed"):
        chip.result  # noqa: B018


def test_the_lines_are_the_users() -> None:
    def deeper() -> None:
        tile()

    with Chip("Ascend910B1") as chip:
        deeper()
    source = Path(__file__).read_text().splitlines()
    for event in chip.result.events():
        file, line = event.line.split(":")
        assert file == "test_results.py"
        assert re.search(r"load|flag|vabs|barrier", source[int(line) - 1])


# --- statistics ---


@pytest.fixture
def finished(capsys: pytest.CaptureFixture[str]) -> Chip:
    return run(priced_tile)


def test_statistics_files(finished: Chip) -> None:
    text = (Path(finished.output_dir) / "Pipe_statistic.csv").read_text()
    assert text == (
        '"Pipe","Duration(us)","Cycle","Size(B)","Ops"\n'
        '"Total","0.098378","182","-","-"\n'
        '"PIPE-MTE2","0.054054","100","8192","-"\n'
        '"PIPE-V","0.016216","30","-","4096"\n'
        '"PIPE-MTE3","0.027027","50","8192","-"\n'
    )
    text = (Path(finished.output_dir) / "Instruction_statistic.csv").read_text()
    assert text == (
        '"Instruction","Duration(us)","Cycle","Size(B)","Ops"\n'
        '"MOV-GM_TO_UB","0.054054","100","8192","-"\n'
        '"VABS","0.016216","30","-","4096"\n'
        '"MOV-UB_TO_GM","0.027027","50","8192","-"\n'
    )


def test_total_is_the_makespan_in_both_columns() -> None:
    def issue() -> None:
        for core in ("aiv0", "aiv1"):
            with Core(core):
                priced_tile()

    chip = run(issue)
    total = results.table(chip.output_dir, "Pipe_statistic.csv")[0]
    assert int(total["Cycle"]) == chip.result.total_cycles == 182
    assert float(total["Duration(us)"]) == pytest.approx(182 / 1850, abs=1e-6)
    assert sum(pipe.cycles for pipe in chip.result.pipes.values()) == 360  # not that


def test_a_pipe_with_flags_only_has_no_row() -> None:
    def issue() -> None:
        set_flag("PIPE-M", "PIPE-S", 0)
        wait_flag("PIPE-M", "PIPE-S", 0)
        pipe_barrier("PIPE-ALL")

    chip = run(issue)
    assert [row["Pipe"] for row in results.table(chip.output_dir, "Pipe_statistic.csv")] == ["Total"]
    assert results.table(chip.output_dir, "Pipe_statistic.csv")[0]["Cycle"] == "2"
    assert {event["name"] for event in results.slices(chip.output_dir)} == {"SET_FLAG", "WAIT_FLAG"}


@pytest.mark.parametrize("name", results.STATISTICS)
def test_every_field_is_quoted(finished: Chip, name: str) -> None:
    text = (Path(finished.output_dir) / name).read_text()
    for line in text.splitlines():
        assert re.fullmatch(r'("[^"]*",){4}"[^"]*"', line)
    with open(Path(finished.output_dir) / name, newline="") as file:
        assert all(len(row) == 5 for row in csv.reader(file, strict=True))


# --- trace ---


def test_arguments_of_a_slice_are_exactly_these(finished: Chip) -> None:
    move, _, _, compute, _ = results.slices(finished.output_dir)
    assert list(move["args"]) == ["Cycle", "Size(B)", "Bandwidth(GB/s)"]
    assert move["args"] == {
        "Cycle": 100,
        "Size(B)": 8192,
        "Bandwidth(GB/s)": Fraction("151.552"),
    }  # 8192 B / 100 * 1.85 GHz
    assert list(compute["args"]) == ["Cycle", "Task Type", "Ops", "Ops/Cycle"]
    assert compute["args"]["Cycle"] == 30 and compute["args"]["Ops"] == 4096
    assert compute["args"]["Ops/Cycle"] == Fraction("136.5333")


def test_names_of_slices(finished: Chip) -> None:
    names = [event["name"] for event in results.slices(finished.output_dir)]
    assert names == ["MOV-GM_TO_UB", "SET_FLAG", "WAIT_FLAG", "VABS", "MOV-UB_TO_GM"]  # a barrier takes no time


def test_a_wait_begins_when_its_pipe_is_free(finished: Chip) -> None:
    wait = results.slices(finished.output_dir)[2]
    assert wait["ts"] == 0 and wait["args"]["Cycle"] == 102


def test_times_have_at_least_six_decimals_and_are_numbers(finished: Chip) -> None:
    text = (Path(finished.output_dir) / "trace.json").read_text()
    times = re.findall(r'"(?:ts|dur)":([^,}]+)', text)
    assert len(times) == 14  # a start and a duration of 5 slices, a time of 4 counter events
    assert all(re.fullmatch(r"\d+\.\d{6,}", time) for time in times)


def test_metadata(finished: Chip) -> None:
    events = results.trace(finished.output_dir)
    metadata = [event for event in events if event["ph"] == "M"]
    assert all(event["args"] for event in metadata) and len(events) == len(metadata) + 5 + 4  # slices and counters
    assert set(results.thread_names(finished.output_dir).values()) == {"PIPE-MTE2", "PIPE-V", "PIPE-MTE3"}


def test_a_process_per_core_and_a_thread_per_pipe() -> None:
    def issue() -> None:
        for core in ("aic0", "aiv0"):
            with Core(core):
                tile()

    chip = run(issue)
    names = results.thread_names(chip.output_dir)
    pids = {pid for pid, _ in names}
    assert len(pids) == 2 and set(names.values()) >= {"aic0-PIPE-V", "aiv0-PIPE-V", "aic0-PIPE-MTE2", "aiv0-PIPE-MTE3"}
    for event in results.slices(chip.output_dir):
        assert (event["pid"], event["tid"]) in names
    processes = {e["pid"]: e["args"]["name"] for e in results.trace(chip.output_dir) if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["aic0", "aiv0"]


@pytest.mark.parametrize("clock", [1, 7, 999, 1850, 3333.3, 999999])
@pytest.mark.parametrize("cost", [1, 3, 10**9 + 7])
def test_neighbours_never_overlap(clock: float, cost: int, tmp_path: Path) -> None:
    """In whole picoseconds, as written, and in the doubles that viewers add up."""
    folder = tmp_path / "Odd"
    folder.mkdir()
    (folder / "chip.csv").write_text(f"key,value\nbase,Ascend910B1\nclock_mhz,{clock}\n")
    register_cost(["VABS"], lambda: cost)

    def issue() -> None:
        x = Tensor("UB", "FP16", [128], None, True)
        for _ in range(200):
            mskpp.vabs(x, Tensor("UB"))()

    chip = run(issue, str(folder))
    events = results.slices(chip.output_dir)
    for event in events:
        assert (event["ts"] * PICOSECONDS).denominator == (event["dur"] * PICOSECONDS).denominator == 1
    for before, after in itertools.pairwise(events):
        assert before["ts"] + before["dur"] <= after["ts"]
        assert float(before["ts"]) + float(before["dur"]) <= float(after["ts"])
        gap = after["ts"] - before["ts"] - before["dur"]
        assert gap <= Fraction(1, PICOSECONDS) + 2 * Fraction(math.ulp(after["ts"]))
        cycles = before["dur"] * Fraction(clock)
        assert abs(cycles - cost) <= Fraction(clock) * (Fraction(2, PICOSECONDS) + 2 * Fraction(math.ulp(after["ts"])))


def test_very_long_times() -> None:
    register_cost(["VABS"], lambda: 2**61)
    chip = run(lambda: [mskpp.vabs(Tensor("UB", "FP16", [128], None, True), Tensor("UB"))() for _ in range(2)])
    assert chip.result.total_cycles == 2**62
    first, second = results.slices(chip.output_dir)
    assert first["args"]["Cycle"] == 2**61
    assert 0 < first["ts"] + first["dur"] <= second["ts"]
    assert float(second["ts"] + second["dur"]) == pytest.approx(2**62 / 1850)
    assert results.table(chip.output_dir, "Pipe_statistic.csv")[0]["Cycle"] == str(2**62)


@pytest.mark.parametrize(
    "name",
    ['qu"ote', "back\\slash", "new\nline", "\x01\x7f", "<script>alert(1)</script>", "emoji 😀", "x" * 128],
    ids=range(7),
)
def test_names_are_escaped(name: str) -> None:
    """No rule lets such a name in today; what writes files must not rely on that."""
    from mskpp import _core
    from mskpp.report import pie, tables

    with Chip("Ascend910B1") as chip:
        _core.add_own(name, "PIPE-V", [], [], 5, 5)
    file = Path("trace.json")
    _core.write_trace(chip.result._timeline, file)
    assert [event["name"] for event in results.slices(".")] == [name]
    with open("t.csv", "w", newline="") as out:
        tables.write_instructions(chip.result, out)
    assert results.table(".", "t.csv")[0]["Instruction"] == name
    with open("pie.html", "w") as out:
        pie.write_pie(chip.result, out)
    page = Path("pie.html").read_text()
    assert json.dumps(name).replace("<", "\\u003c") in page
    assert "<script>alert(1)" not in page


# --- pie page ---


def test_the_pie_page_works_offline(finished: Chip) -> None:
    page = (Path(finished.output_dir) / "instruction_cycle_consumption.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    markup = re.sub(r"(?s)<script>.*?</script>", "<script></script>", page)
    assert len(markup) < 2000 and markup.count("<script") == 2  # the library is inside, whole
    assert not re.search(r"(?i)src|href|<link|@import|//", markup)
    for name, share in (("MOV-GM_TO_UB", 100), ("VABS", 30), ("MOV-UB_TO_GM", 50)):
        assert f'"{name}"' in page and re.search(rf"\b{share}\b", page)
    assert "makespan 182 cycles" in page


# --- files ---


def test_which_files_and_rights(finished: Chip) -> None:
    folder = Path(finished.output_dir)
    assert sorted(file.name for file in folder.iterdir()) == sorted(results.ALL_FILES)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


@pytest.mark.parametrize(
    ("enable", "files"),
    [("enable_trace", {"trace.json"}), ("enable_metrics", set(results.ALL_FILES) - {"trace.json"})],
)
def test_only_what_was_asked_for(enable: str, files: set[str]) -> None:
    with Chip("Ascend910B1") as chip:
        getattr(chip, enable)()
        tile()
    assert {file.name for file in Path(chip.output_dir).iterdir()} == files


def test_nothing_is_written_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Chip("Ascend910B1"):
        tile()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


# --- the terminal ---


def test_the_total_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    chip = run(priced_tile)
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "Ascend910B1: 0.098 us, 182 cycles, 6 instructions"
    assert lines[-1] == f"files: {chip.output_dir}"
    assert "costs not measured: 3 user" in lines


def test_the_trace_alone_tells_total_and_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        priced_tile()
    assert capsys.readouterr().out == f"Ascend910B1: 0.098 us, 182 cycles\nfiles: {chip.output_dir}\n"


def test_stdout_stays_short_whatever_was_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    class Same:
        pipe = "PIPE-V"

        def infer_shape(self, inputs: Any, outputs: Any) -> None:
            outputs[0].dtype, outputs[0].size = "FP16", [1]

    def issue() -> None:
        for number in range(200):
            register_cost([f"VOWN{number}"], lambda: 1)
            instruction = RegisterOf(f"VOWN{number}")(Same)
            with Core(f"aiv{number}"):
                instruction(Tensor("UB", "FP16", [1], None, True), Tensor("UB"))()

    run(issue)
    lines = capsys.readouterr().out.splitlines()
    assert 60 < len(lines) < 100
    assert sum("... 170 more in the CSV file" in line for line in lines) == 2


def test_long_folder_names_are_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("long" * 40) / "[bold]x[/]"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    chip = run(priced_tile)
    assert capsys.readouterr().out.splitlines()[-1] == f"files: {chip.output_dir}"
