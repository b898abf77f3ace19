# SPDX-License-Identifier: Apache-2.0
"""``mskpp chips``, ``mskpp instructions`` and ``mskpp data check``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from utils.terminal import Terminal

import mskpp
from mskpp import _core
from mskpp.command import data_check
from mskpp.command.main import main
from mskpp.core import data

Ran = tuple[int, str, str]
Run = Callable[..., Ran]

GOOD = "key,value\nbase,Ascend910B1\naliases,Npu1 OldNpu\nclock_mhz,2000\n"
BAD_RATE = (
    "instruction,dtypes,elements,bytes_per_cycle\nVMUL,INT16 INT16 INT16,128,60.5\nVMUL,INT16 INT16 INT16,256,0.07\n"
)
OWN = "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,out_dtype,out_shape,summary\n"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs ``mskpp``: exit code, stdout, stderr."""

    def go(*words: str) -> Ran:
        status = main(list(words))
        told = capfd.readouterr()
        return status, told.out, told.err

    return go


def folder(name: str, **files: str) -> None:
    Path(name).mkdir(parents=True)
    for stem, text in files.items():
        Path(name, f"{stem}.csv").write_text(text)


# ---------------------------------------------------------------- chips


def test_all_chips(run: Run) -> None:
    status, out, err = run("chips")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["chip", "architecture", "cube", "vector", "MHz", "costs", "from"]
    assert [line.split()[0] for line in lines[1:]] == mskpp.chips()
    assert "Ascend910B1       2201            24      48  1850  own tables" in lines
    document = json.loads(run("chips", "--json")[1])
    assert [chip["name"] for chip in document["chips"]] == mskpp.chips() and document["broken"] == []


def test_one_chip(run: Run) -> None:
    status, out, err = run("chips", "910b4")
    assert (status, err) == (0, "")
    costs = _core.Costs.load("Ascend910B4", data.search_path())
    lines = out.splitlines()
    assert lines[:4] == [
        "chip           Ascend910B4",
        "architecture   2201",
        "cores          20 cube, 40 vector",
        "clock          1500 MHz",
    ]
    assert f"UB             {costs.capacity_bytes('UB'):,} bytes" in lines and "vec.csv        Ascend910B1" in lines
    assert f"folder         {costs.folder}" in lines
    assert "GM    UB   PIPE-MTE2                128" in lines
    document = json.loads(run("chips", "910b4", "--json")[1])
    assert (document["name"], document["clock_mhz"], document["memory_bytes"]["UB"]) == ("Ascend910B4", 1500, 196608)
    paths = [(path["source"], path["target"], path["pipe"]) for path in document["paths"]]
    assert paths == [path[:3] for path in costs.paths]


def test_own_chips(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder("chips/MyNpu", chip=GOOD, mov="path,bytes,gib_per_s\nGM_TO_UB,1024,12.5\n")
    status, out, _ = run("chips", "./chips/MyNpu")
    assert status == 0 and "also called    Npu1, OldNpu" in out and "mov.csv        MyNpu over Ascend910B1" in out
    folder("chips/Bad", chip="key,value\nbase,Ascend910B1\n", vec=BAD_RATE)
    monkeypatch.setenv("MSKPP_CHIP_PATH", "chips")
    status, out, err = run("chips")
    assert status == 1 and "\nMyNpu " in out and "\nBad " not in out
    assert err.startswith("mskpp chips: Bad cannot be used: data: Bad/vec.csv:3: rate 0.07 is below a quarter of 60.5")
    assert err.endswith("remove it\n")  # and no line of Python code
    status, out, _ = run("chips", "--json")
    assert status == 1 and [row["name"] for row in json.loads(out)["broken"]] == ["Bad"]


@pytest.mark.parametrize("words", [["chips", "Ascend910B9"], ["instructions", "--chip", "Ascend910B9"]])
def test_unknown_chips(run: Run, words: list[str]) -> None:
    status, out, err = run(*words)
    assert (status, out) == (1, "")
    assert f"mskpp {words[0]}: Chip: unknown chip 'Ascend910B9'; did you mean 'Ascend910B1'?" in err
    assert err.endswith("docs/add_a_chip.md\n")


# ---------------------------------------------------------------- instructions


def test_all_instructions(run: Run) -> None:
    status, out, err = run("instructions")
    assert (status, err) == (0, "")
    names = [line.split("(")[0] for line in out.splitlines()[1:]]
    assert names == list(mskpp.core.instructions.BUILT_IN)
    line = next(line for line in out.splitlines() if line.startswith("vadd("))
    assert line.split("  ")[0] == "vadd(x, y, z)" and "FP16, FP32, INT16, INT32" in line and "Addition" in line


@pytest.mark.parametrize("name", ["vadd", "VADD", "Vadd"])
def test_one_instruction(run: Run, name: str) -> None:
    status, out, err = run("instructions", name, "--chip", "910b4")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "call          vadd(x, y, z)()",
        "what it does  Addition",
        "in reports    VADD on PIPE-V",
        "reads         x, y",
        "writes        z",
        "output        dtype as x, size as x",
        "cost          rate x x out",
        "dtypes        FP16 FP16 FP16",
        "              FP32 FP32 FP32",
        "              INT16 INT16 INT16",
        "              INT32 INT32 INT32",
    ]


def dtypes(run: Run, name: str, chip: str) -> list[str] | None:
    (row,) = json.loads(run("instructions", name, "--chip", chip, "--json")[1])["instructions"]
    found: list[str] | None = row["dtypes"]
    return found


def test_dtypes_are_those_with_a_cost(run: Run) -> None:
    assert dtypes(run, "mmad", "Ascend910B4") == ["BF16", "FP16", "FP32", "INT4", "INT8", "UINT8"]
    assert dtypes(run, "mmad", "Ascend950PR_9589") == ["BF16", "FP16", "FP32", "INT8", "UINT8"]
    assert dtypes(run, "vsubrelu", "Ascend910B1") and dtypes(run, "vsubrelu", "Ascend950PR_9589") == []
    assert dtypes(run, "rv_vadd", "Ascend950PR_9589") is None and dtypes(run, "rv_vadd", "Ascend910B1") == []
    costs = _core.Costs.load("Ascend910B1", data.search_path())
    for row in json.loads(run("instructions", "--json")[1])["instructions"]:
        if row["cost"].startswith("rate"):
            assert row["dtypes"] == costs.vector_dtypes(row["instruction"])
    out = run("instructions", "vsubrelu", "--chip", "Ascend950PR_9589")[1]
    assert "dtypes        none on Ascend950PR_9589: docs/add_an_instruction.md" in out
    assert "accumulates   reads what it writes too" in run("instructions", "vmla")[1]
    assert "writes        a new tensor" in run("instructions", "mmad")[1]


def test_instructions_of_a_chip_of_ones_own(run: Run) -> None:
    row = "vfoo,VFOO,x y,x,y,,PIPE-V,x,fixed 9,x,x,Does foo\n"
    folder("MyNpu", chip=GOOD, instructions=OWN + row)
    status, out, _ = run("instructions", "vfoo", "--chip", "./MyNpu")
    assert status == 0 and "what it does  Does foo" in out and "dtypes        any" in out
    assert len(run("instructions", "--chip", "./MyNpu")[1].splitlines()) == 2 + len(mskpp.core.instructions.BUILT_IN)


def test_moves_by_bytes(run: Run) -> None:
    status, out, err = run("instructions", "mov-gm_to_l1", "--chip", "910b1")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "MOV-GM_TO_L1 on PIPE-MTE2, Ascend910B1 at 1850 MHz: port 256 bytes/cycle"
    assert lines[2].split("  ")[-7:-1] and lines[2].count("bytes/cycle") == 4
    assert lines[6].split() == ["8,192", "1,096", "7.47", "244", "33.57", "3,640", "2.25", "809", "10.13"]
    document = json.loads(run("instructions", "MOV-GM_TO_L1", "--json")[1])["move"]
    sizes = [row["bytes"] for row in document["cycles"]]
    assert sizes == [1 << power for power in range(10, 20)] and document["pipe"] == "PIPE-MTE2"
    assert document["cycles"][3]["converted_hit_0"] == 3640
    inner = json.loads(run("instructions", "MOV-L1_TO_L0A", "--json")[1])["move"]["cycles"]
    assert list(inner[0]) == ["bytes", "plain", "converted"] and inner[0]["converted"] is None
    status, out, err = run("instructions", "MOV-GM_TO_L")
    assert (status, out) == (1, "") and "has no move 'MOV-GM_TO_L'; did you mean 'MOV-GM_TO_L1'? `mskpp chips" in err


def test_a_move_whose_cost_does_not_follow_from_bytes(run: Run) -> None:
    status, out, err = run("instructions", "MOV-UB_TO_VEC", "--chip", "Ascend950PR_9589")
    assert (status, err) == (0, "") and out.startswith("MOV-UB_TO_VEC on RVECLD, Ascend950PR_9589 at 1650 MHz")
    assert out.endswith("what it costs does not follow from bytes alone: model it with tensors of VEC\n")


def test_every_move_has_its_cycles(run: Run) -> None:
    for chip in ("Ascend910B1", "Ascend950PR_9589"):
        costs = _core.Costs.load(chip, data.search_path())
        for source, target, _, _ in costs.paths:
            status, out, err = run("instructions", f"MOV-{source}_TO_{target}", "--chip", chip, "--json")
            assert (status, err) == (0, ""), (source, target)
            assert all(
                row["plain" if "GM" not in (source, target) else "plain_hit_0"] is None or row["bytes"] > 0
                for row in json.loads(out)["move"]["cycles"]
            )


def test_unknown_instructions(run: Run) -> None:
    status, out, err = run("instructions", "vaddd")
    assert (status, out) == (1, "")
    assert err == (
        "mskpp instructions: unknown instruction 'vaddd'; did you mean 'vadd'? `mskpp instructions` lists all 63\n"
    )


# ---------------------------------------------------------------- data check


def test_the_packages_data_is_good(run: Run) -> None:
    status, out, err = run("data", "check")
    assert (status, err) == (0, "")
    assert out == f"{len(mskpp.chips())} chip folders, no problem\n"


def test_problems_are_told_with_file_and_line(run: Run) -> None:
    folder("chips/Good", chip=GOOD)
    folder("chips/Rate", chip="key,value\nbase,Ascend910B1\n", vec=BAD_RATE)
    folder("chips/Key", chip="key,value\nbase,Ascend910B1\ncolour,red\n")
    folder("chips/Base", chip="key,value\nbase,Ascend910B7\n")
    folder("chips/Twice", chip=GOOD, instructions=OWN + "vadd,VADD,x y z,x y,z,,PIPE-V,x,fixed 9,x,x,Adds\n")
    folder("chips/Lost", vec=BAD_RATE)
    folder("chips/notes")
    where = Path("chips").resolve()
    status, out, err = run("data", "check", "chips")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert [line.split(": ")[0] for line in lines[:5]] == [
        f"{where}/{name}" for name in ("Base", "Key", "Lost", "Rate", "Twice")
    ]
    assert "unknown chip 'Ascend910B7'" in lines[0] or "Ascend910B7" in lines[0]
    assert "Key/chip.csv:3: " in lines[1] and "colour" in lines[1]
    assert lines[2].endswith("Lost has tables and no chip.csv, so no name finds it")
    assert "Rate/vec.csv:3: rate 0.07 is below a quarter of 60.5" in lines[3] and lines[3].endswith("remove it")
    assert "Twice/instructions.csv: 'vadd' is built in; choose another name" in lines[4]
    assert lines[5:] == ["good  its files", "Good  chip.csv", "6 chip folders, 5 problems"]
    document = json.loads(run("data", "check", "chips", "--json")[1])
    assert (document["checked"], document["problems"]) == (6, 5)
    assert {chip["name"]: chip["problem"] is None for chip in document["chips"]}["Good"]


def test_a_bad_value_of_chip_csv_has_its_line(run: Run) -> None:
    folder("Bad", chip="key,value\n# a comment\nbase,Ascend910B1\nclock_mhz,fast\n")
    status, out, _ = run("data", "check", "Bad")
    assert status == 1 and "Bad/chip.csv:4: clock_mhz is 'fast'; it must be" in out
    folder("Heir", chip="key,value\nbase,Bad\n")
    assert "chip.csv:4: clock_mhz" not in run("data", "check", "Heir")[1]


def test_one_folder(run: Run) -> None:
    folder("chips/Base", chip=GOOD)
    folder(
        "chips/Mine", chip="key,value\nbase,Base\n", instructions=OWN + "vfoo,VFOO,x y,x,y,,PIPE-V,x,fixed 9,x,x,Foo\n"
    )
    status, out, err = run("data", "check", "chips/Mine")  # the base is found beside it
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "good  its files",
        "Mine  chip.csv, instructions.csv; 1 instructions of its own",
        "1 chip folder, no problem",
    ]


def test_hidden_chips_are_noted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder("one/ascend910b2", chip=GOOD)
    monkeypatch.setenv("MSKPP_CHIP_PATH", "one")
    status, out, _ = run("data", "check")
    assert status == 0
    assert f"Ascend910B2: note: {Path('one').resolve()}/ascend910b2 comes first and hides it" in out


def test_what_is_no_folder_of_chips(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file.csv").touch()
    Path("empty").mkdir()
    status, _, err = run("data", "check", "none")
    assert status == 2 and "none does not exist; give a folder" in err
    status, _, err = run("data", "check", "file.csv")
    assert status == 2 and "file.csv is no folder; give a folder" in err
    status, _, err = run("data", "check", "empty")
    assert status == 1 and "empty is no chip and has none: there is no chip.csv in it or in a folder of it" in err
    monkeypatch.setattr(data_check, "MOST_ENTRIES", 1)
    for name in "ab":
        Path("empty", name).mkdir()
    status, _, err = run("data", "check", "empty")
    assert status == 1 and "has more than 1 entries; give a folder of chip folders" in err


def test_folders_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    os.mkdir("chips")
    monkeypatch.setattr(Path, "iterdir", refuse)
    status, _, err = run("data", "check", "chips")
    assert status == 1 and err.endswith("chips cannot be read: Permission denied\n")


@pytest.mark.parametrize("words", [["chips"], ["chips", "910b4"], ["instructions"], ["data", "check"]])
def test_tables_fit_the_terminal(words: list[str]) -> None:
    with Terminal(["-m", "mskpp", *words], columns=60, rows=200, folder=Path.cwd()) as terminal:
        assert terminal.wait() == 0
        lines = len(terminal.screen.text)
    with Terminal(["-m", "mskpp", *words], columns=300, rows=200, folder=Path.cwd()) as terminal:
        assert terminal.wait() == 0
        wraps = {"chips", "910b4"} <= set(words)  # the folder's path may be longer
        assert len(terminal.screen.text) <= lines <= len(terminal.screen.text) + (2 if wraps else 0)
