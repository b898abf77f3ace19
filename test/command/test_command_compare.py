# SPDX-License-Identifier: Apache-2.0
"""``mskpp compare``: a script's or a result.json's prediction beside a profiler's file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from utils.terminal import Terminal

from mskpp.command import compare
from mskpp.command.main import main

Ran = tuple[int, str, str]
Run = Callable[..., Ran]

SUMMARY = """Op Name,OP Type,Task Duration(us),aicore_time(us),aic_mac_time(us),aic_mte2_time(us),aiv_time(us)
matmul,MatMul,12.5,10.0,2.5,8.0,0
matmul,MatMul,11.5,9.0,2.0,7.0,0
matmul,MatMul,10.5,8.0,1.5,6.0,0
matmul,MatMul,10.5,7.0,1.5,6.0,0
cast,Cast,4.5,0,0,0,3.5
"""
INFO = "Op Name,Op Type,Task Duration(us),Block Dim,\nmatmul_0_mix_aic,mix,12.5,1,\n"
SCRIPT = """import sys
from mskpp import Chip, Core, Tensor

def block(size):
    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        chip.enable_trace()
        with Core("aic0"):
            Tensor("L1").load(Tensor("GM", "FP16", [size]))
    return chip

if __name__ == "__main__":
    print("modelling", sys.argv[1:])
    for size in sys.argv[1:] or ["4096"]:
        block(int(size))
"""
RESULT = {
    "schema": 1,
    "chip": "Ascend910B1",
    "total": {"us": 5, "cycles": 9250},
    "pipes": [{"name": "aic0-PIPE-MTE2", "duration_us": 4.0, "more": 1}, {"name": "aic0-PIPE-M", "duration_us": 0}],
}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs ``mskpp compare``: exit code, stdout, stderr."""
    Path("op_summary.csv").write_text(SUMMARY)
    Path("OpBasicInfo.csv").write_text(INFO)
    Path("kernel.py").write_text(SCRIPT)
    Path("result.json").write_text(json.dumps(RESULT))

    def go(*words: str) -> Ran:
        status = main(["compare", *words])
        told = capfd.readouterr()
        return status, told.out, told.err

    return go


def test_a_result(run: Run) -> None:
    status, out, err = run("op_summary.csv", "--operator", "matmul", "--result", "result.json")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "measured: matmul, median of 4 calls, op_summary.csv",
        "predicted: Ascend910B1",
        "pipe            predicted us  measured us  ratio  ProfDuration(us)_0  ProfRatio_0  ProfDuration(us)_1  "
        "ProfRatio_1  ProfDuration(us)_2  ProfRatio_2",
        "Total                  5.000        8.000   1.60              10.000         2.00               9.000  "
        "       1.80               8.000         1.60",
        "aic0-PIPE-MTE2         4.000        6.000   1.50               8.000         2.00               7.000  "
        "       1.75               6.000         1.50",
        "aic0-PIPE-M            0.000        1.500      -               2.500            -               2.000  "
        "          -               1.500            -",
        "... 1 more row; --json has all",
    ]
    assert run("op_summary.csv", "--operator", "MatMul", "--result", ".", "--rows", "0")[1].count("ProfRatio_") == 4


def test_a_script(run: Run) -> None:
    status, out, err = run("OpBasicInfo.csv", "--script", "kernel.py")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "modelling []",
        "measured: matmul_0_mix_aic, 1 call, OpBasicInfo.csv",
        "predicted: Ascend910B1",
    ]
    assert lines[3].split() == ["pipe", "predicted", "us", "ProfDuration(us)_0", "ProfRatio_0"]
    assert [line.split()[0] for line in lines[4:6]] == ["Total", "aic0-PIPE-MTE2"]
    assert lines[4].split()[2] == "12.500" and lines[5].split()[2:] == ["-", "-"]
    assert lines[6].startswith("Total is the task's duration, which has the launch in it")
    assert sorted(os.listdir()) == ["OpBasicInfo.csv", "kernel.py", "op_summary.csv", "result.json"], "nothing is left"


def test_json(run: Run) -> None:
    status, out, err = run("op_summary.csv", "--script", "kernel.py", "--json", "--operator", "matmul", "--", "8192")
    assert status == 0 and err == "modelling ['8192']\n"
    found = json.loads(out)
    assert {key: found[key] for key in found if key != "pipes"} == {
        "schema": 1,
        "profile": "op_summary.csv",
        "operator": "matmul",
        "measured": "median of 4 calls",
        "is_task_duration": False,
        "left_out": 0,
        "chip": "Ascend910B1",
        "rows": [{"line": line, "block": None} for line in (2, 3, 4, 5)],
    }
    total, mte2, cube = found["pipes"]
    assert (total["name"], total["measured_us"], total["prof_duration_us"]) == ("Total", 8.0, [10.0, 9.0, 8.0, 7.0])
    assert total["ratio"] == pytest.approx(8 / total["predicted_us"])
    assert mte2["prof_ratio"] == pytest.approx([us / mte2["predicted_us"] for us in (8, 7, 6, 6)])
    assert cube == {
        "name": "aic-PIPE-M", "predicted_us": None, "measured_us": 1.5, "ratio": None,
        "prof_duration_us": [2.5, 2.0, 1.5, 1.5], "prof_ratio": [None] * 4,
    }  # fmt: skip


def test_a_block_of_several(run: Run) -> None:
    status, out, err = run("OpBasicInfo.csv", "--script", "kernel.py", "--", "4096", "8192")
    assert status == 1 and "measured" not in out
    assert err.startswith("mskpp compare: kernel.py has 2 Chip blocks; choose one with --block: 1 (Ascend910B1, ")
    first = run("OpBasicInfo.csv", "--script", "kernel.py", "--block", "1", "--", "4096", "8192")
    second = run("OpBasicInfo.csv", "--script", "kernel.py", "--block", "2", "--", "4096", "8192")
    assert first[0] == second[0] == 0 and first[1] != second[1]
    status, _, err = run("OpBasicInfo.csv", "--script", "kernel.py", "--block", "3", "--", "4096", "8192")
    assert (status, err) == (1, "mskpp compare: --block is 3, and kernel.py has 2 Chip blocks\n")


def test_a_terminal_that_is_narrow(run: Run) -> None:
    words = ["-m", "mskpp", "compare", "op_summary.csv", "--operator", "matmul", "--result", "result.json"]
    for columns, rows in ((60, 0), (100, 1), (160, 3)):
        with Terminal(words, columns=columns, folder=Path.cwd()) as terminal:
            assert terminal.wait() == 0
            text = terminal.screen.text
        assert text[2].count("ProfRatio_") == rows and "measured us" in text[2], text
        assert text[4].split()[0] == "Total"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "the following arguments are required: PROFILE.csv"),
        (["op_summary.csv"], "one of the arguments --result --script is required"),
        (["op_summary.csv", "--result", "a", "--script", "b"], "not allowed with argument"),
        (
            ["op_summary.csv", "--script", "b.py"],
            "error: b.py does not exist; give a Python file that models with Chip",
        ),
        (
            ["op_summary.csv", "--script", "."],
            "error: . is a folder, no file; give a Python file that models with Chip",
        ),
        (["op_summary.csv", "--result", "a", "--block", "1"], "error: --block is for --script, and --result is given"),
        (
            ["op_summary.csv", "--result", "a", "--", "1"],
            "error: words after -- are for --script, and --result is given",
        ),
        (["op_summary.csv", "--result", "a", "--rows", "-1"], "argument --rows: '-1' is no whole number from 0"),
    ],
)
def test_wrong_usage(run: Run, words: list[str], expected: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "") and expected in err


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("op_summary.csv", "profile: op_summary.csv has 2 operators; give one as operator: 'matmul', 'cast'"),
        ("nothing.csv", "profile: nothing.csv cannot be read: No such file or directory"),
        ("result.json", "profile: result.json has no time of an operator. It has "),
    ],
)
def test_profiles_that_cannot_be_used(run: Run, profile: str, words: str) -> None:
    status, out, err = run(profile, "--script", "kernel.py")
    assert (status, out) == (1, "") and err.startswith(f"mskpp compare: {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "x.json is no JSON (Expecting property name"),
        ("[" * 100_000, "x.json is no JSON ("),
        (b"\xff", "x.json is no JSON ("),
        ([], "x.json is no result of mskpp: list indices must be integers or slices, not str; write one with"),
        ({}, "x.json is no result of mskpp: no 'pipes'; write one with a newer mskpp, or use --script"),
        ({**RESULT, "total": 5}, "x.json is no result of mskpp: "),
        ({**RESULT, "total": {"us": -1}}, "x.json is no result of mskpp: '-1' is no time in us"),
        ({**RESULT, "total": {"us": True}}, "x.json is no result of mskpp: 'True' is no time in us"),
        ({**RESULT, "pipes": [{"name": "a"}]}, "x.json is no result of mskpp: no 'duration_us'"),
        ('{"pipes": [], "total": {"us": NaN}}', "x.json is no result of mskpp: 'nan' is no time in us"),
    ],
)
def test_results_that_cannot_be_used(run: Run, text: Any, words: str) -> None:
    data = text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode()
    Path("x.json").write_bytes(data)
    status, out, err = run("OpBasicInfo.csv", "--result", "x.json")
    assert (status, out) == (1, "") and err.startswith(f"mskpp compare: {words}")


def test_result_files_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = run("OpBasicInfo.csv", "--result", "reslt.json")
    assert status == 1
    assert err == ("mskpp compare: reslt.json cannot be read: No such file or directory; did you mean 'result.json'?\n")
    status, _, err = run("OpBasicInfo.csv", "--result", "nowhere/x.json")
    assert (status, err) == (1, "mskpp compare: nowhere/x.json cannot be read: No such file or directory.\n")
    assert run("OpBasicInfo.csv", "--result", "/dev/null")[2].startswith("mskpp compare: null is no regular file")
    monkeypatch.setattr(compare, "MOST_RESULT_BYTES", 3)
    assert (
        "result.json is no regular file, or larger than 1 GiB" in run("OpBasicInfo.csv", "--result", "result.json")[2]
    )


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("x = 1", 1, "mskpp compare: own.py ended no Chip block; give a script that models with Chip\n"),
        ("import sys\nsys.exit(3)", 1, "sys.exit(3) (own.py:2)"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("from mskpp import Chip\nChip('x')", 1, "Chip: unknown chip 'x'"),
        ("raise KeyboardInterrupt", 130, "mskpp compare: interrupted\n"),
    ],
)
def test_scripts_that_end_early(run: Run, text: str, status: int, words: str) -> None:
    Path("own.py").write_text(text)
    found, out, err = run("OpBasicInfo.csv", "--script", "own.py")
    assert (found, out) == (status, "") and words in err


def test_a_file_without_rights(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(compare.FileError, match=r"^result\.json cannot be read: Permission denied$"):
        compare.read_result("result.json")


def test_many_blocks_are_not_all_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MOST_BLOCKS", 15)
    _, _, err = run("OpBasicInfo.csv", "--script", "kernel.py", "--", *["64"] * 20)
    assert "kernel.py has 15 Chip blocks; choose one" in err and err.endswith(" ... (5 more)\n")
