# SPDX-License-Identifier: Apache-2.0
"""``mskpp lint``: scripts of every kind, exit codes, both forms of output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mskpp.command.main import main

Ran = tuple[int, str, str]
Run = Callable[..., Ran]

HEAD = "from mskpp import Chip, Tensor, set_flag, vexp, wait_flag\n"
CLEAN = """
with Chip("Ascend910B1") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    set_flag("PIPE-MTE2", "PIPE-V", 0)
    wait_flag("PIPE-MTE2", "PIPE-V", 0)
"""
UNMATCHED = """
with Chip("Ascend910B4"):
    set_flag("PIPE-MTE2", "PIPE-V", 0)
"""
CROSSED = """
with Chip("Ascend910B1"):
    wait_flag("PIPE-V", "PIPE-MTE2", 0)
    set_flag("PIPE-MTE2", "PIPE-V", 1)
    wait_flag("PIPE-MTE2", "PIPE-V", 1)
    set_flag("PIPE-V", "PIPE-MTE2", 0)
"""
NEEDLESS = """
with Chip("Ascend910B1"):
    for _ in range(1000):
        set_flag("PIPE-V", "PIPE-V", 9)
        wait_flag("PIPE-V", "PIPE-V", 9)
"""


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Writes kernel.py and runs ``mskpp lint`` on it: exit code, stdout, stderr."""

    def go(text: str, *words: str) -> Ran:
        (tmp_path / "kernel.py").write_text(HEAD + text)
        status = main(["lint", "kernel.py", *words])
        told = capfd.readouterr()
        return status, told.out, told.err

    return go


def test_a_clean_script_writes_nothing(run: Run, tmp_path: Path) -> None:
    assert run(CLEAN) == (0, "0 errors, 0 warnings, 0 hints in 1 block\n", "")
    assert os.listdir(tmp_path) == ["kernel.py"]


def test_errors_of_all_blocks_are_found(run: Run) -> None:
    status, out, err = run(CLEAN + UNMATCHED + CROSSED)
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[:4] == [
        "block 2 (Ascend910B4)",
        "kernel.py:10: error: unmatched",
        '  set_flag("PIPE-MTE2", "PIPE-V", 0) is never waited for',
        '  cure: issue wait_flag("PIPE-MTE2", "PIPE-V", 0) where PIPE-V must wait, or remove the set_flag',
    ]
    assert lines[4:6] == [
        "block 3 (Ascend910B1)",
        "kernel.py:13, kernel.py:16, kernel.py:15, kernel.py:14: error: crossed",
    ]
    assert lines[-1] == "2 errors, 0 warnings, 0 hints in 3 blocks"


def test_warnings_and_hints_are_no_failure(run: Run) -> None:
    status, out, _ = run(NEEDLESS)
    assert status == 0
    assert "kernel.py:5, kernel.py:6: warning: own-pipe, 1,000 times" in out
    assert out.endswith("0 errors, 1 warning, 1 hint in 1 block\n")


def test_json(run: Run) -> None:
    status, out, _ = run("print('noise')\n" + CROSSED + NEEDLESS, "--json")
    told: dict[str, Any] = json.loads(out)
    assert status == 1
    assert {name: told[name] for name in ("schema", "script", "failure", "errors", "warnings", "hints")} == {
        "schema": 1, "script": "kernel.py", "failure": None, "errors": 1, "warnings": 1, "hints": 1,
    }  # fmt: skip
    crossed, needless = (block["findings"][0] for block in told["blocks"])
    assert told["blocks"][0]["chip"] == "Ascend910B1"
    assert crossed["kind"] == "crossed" and crossed["pairs"] == [[3, 0], [1, 2]] and len(crossed["lines"]) == 4
    assert set(needless) == {"kind", "severity", "lines", "text", "cure", "count", "pairs"}
    assert (needless["severity"], needless["count"]) == ("warning", 1000)


def test_the_script_runs_as_with_python(run: Run) -> None:
    text = (
        "import sys\nassert __name__ == '__main__' and sys.modules['__main__'].HERE\n" + CLEAN + "print(sys.argv)\n"
        "print(chip.result.total_cycles)\nsys.exit(0)\n"
    )
    before = sys.modules["__main__"]
    status, out, err = run("HERE = 1\n" + text, "--", "--size", "3")
    assert (status, err) == (0, "")
    assert out.splitlines()[:2] == ["['kernel.py', '--size', '3']", "2"]
    assert sys.modules["__main__"] is before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0\n", "mskpp lint: the script ended with ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "mskpp lint: the script ended itself with sys.exit(3) (kernel.py:"),
        ("Tensor('UBB')\n", "mskpp lint: Tensor: unknown mem_type 'UBB'; did you mean 'UB'?"),
        ("chip.result\n", "mskpp lint: flags: 1 of set_flag and wait_flag do not pair up"),
        ("def f(:\n", "mskpp lint: the script ended with SyntaxError"),
    ],
)
def test_what_was_found_before_the_script_failed_is_told(run: Run, text: str, words: str) -> None:
    broken = text.startswith("def")
    status, out, err = run(UNMATCHED.replace('4"):', '4") as chip:') + text)
    assert status == 1 and words in err
    assert ("kernel.py:4: error: unmatched" in out) != broken
    status, out, err = run(text, "--json")
    assert status == 1 and json.loads(out)["failure"] and json.loads(out)["blocks"] == []


def test_a_script_without_a_block(run: Run) -> None:
    status, out, err = run("")
    assert (status, out) == (1, "")
    assert err == ("mskpp lint: kernel.py ran no `with Chip(...)` block to its end, so there is nothing to look at\n")


def test_an_interrupt_ends_it(run: Run) -> None:
    status, out, err = run(UNMATCHED + "raise KeyboardInterrupt\n")
    assert status == 130 and "error: unmatched" in out and err == "mskpp lint: interrupted\n"


def test_a_file_that_cannot_be_read(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "nowhere.py"]) == 1
    assert "nowhere.py cannot be read: No such file or directory" in capfd.readouterr().err


def test_help_teaches(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--help"]) == 0
    told = capfd.readouterr().out
    assert "mskpp lint matmul.py --json" in told and "exit codes:" in told and "crossed" in told
    assert "reads of local memory that no flag puts behind the write on another pipe" in told


def test_reads_without_flags_are_one_hint_and_with_some_a_warning_each(run: Run) -> None:
    block = """
with Chip("Ascend910B1"):
    x, y = Tensor("UB"), Tensor("UB")
    x.load(Tensor("GM", "FP16", [4096]))
    vexp(x, y)()
    Tensor("GM").load(y)
"""
    status, out, _ = run(block)
    assert status == 0 and "kernel.py:5, kernel.py:6: hint: unordered, 2 times\n  no flags at all: the model" in out
    assert out.endswith("0 errors, 0 warnings, 1 hint in 1 block\n")
    status, out, _ = run(block + "    set_flag('PIPE-V', 'PIPE-MTE3', 0)\n    wait_flag('PIPE-V', 'PIPE-MTE3', 0)\n")
    assert "kernel.py:5, kernel.py:6: warning: unordered\n" in out and "kernel.py:6, kernel.py:7: warning: uno" in out


@pytest.mark.parametrize("verb", ["run", "lint"])
def test_the_line_stands_in_the_first_line_of_a_message(
    verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raising = "from mskpp.errors import InputError\n\n\nraise InputError('all:\\n  one\\n  two')\n"
    (tmp_path / "bad.py").write_text(raising)
    assert main([verb, "bad.py"]) == 1
    assert f"mskpp {verb}: all: (bad.py:4)\n  one\n  two\n" in capfd.readouterr().err
    (tmp_path / "bad.py").write_text(HEAD + UNMATCHED.replace('4"):', '4") as chip:') + "chip.result\n")
    assert main([verb, "bad.py"]) == 1
    told = capfd.readouterr().err
    assert "flags: 1 of set_flag and wait_flag do not pair up\n" in told
    assert told.endswith("(bad.py:4) is never waited for\n  mskpp lint SCRIPT.py explains the flags\n")
