# SPDX-License-Identifier: Apache-2.0
"""``mskpp diff``: what changed, and its exit code for CI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mskpp
from mskpp import Chip, Tensor, vexp
from mskpp.command import diff
from mskpp.command.main import main
from mskpp.report.difference import Change, Difference
from mskpp.report.result import Result
from mskpp.report.schema import load

Ran = tuple[int, str, str]
Run = Callable[..., Ran]

SCRIPT = """import sys
import shapes
from mskpp import Chip, Tensor, vexp
print("runs", sys.argv[1:])
for size in sys.argv[1:] or [shapes.SIZE]:
    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        x, y = Tensor("UB"), Tensor("UB")
        x.load(Tensor("GM", "FP16", [int(size)]))
        vexp(x, y)()
"""


def block(size: int = 4096, chip: str = "Ascend910B1", ratio: float = 0.0) -> Result:
    with Chip(chip) as opened:
        opened.set_cache_hit_ratio({"cache_hit_ratio": ratio})
        x, y = Tensor("UB"), Tensor("UB")
        x.load(Tensor("GM", "FP16", [size]))
        vexp(x, y)()
    return opened.result


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs ``mskpp diff``: exit code, stdout, stderr. small.json and large.json differ in size."""
    block().write_json("small.json")
    block(8192).write_json("large.json")
    for folder, size in (("old", 4096), ("new", 8192)):
        Path(folder).mkdir()
        Path(folder, "kernel.py").write_text(SCRIPT)
        Path(folder, "shapes.py").write_text(f"SIZE = {size}\n")

    def go(*words: str) -> Ran:
        status = main(["diff", *words])
        told = capfd.readouterr()
        return status, told.out, told.err

    return go


def test_two_results(run: Run) -> None:
    status, out, err = run("small.json", "large.json")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "before: small.json, Ascend910B1, 0.246 us",
        "after : large.json, Ascend910B1, 0.360 us",
        "",
        "total, cycles  before  after  change       %",
        "Total             456    666    +210  +46.05",
        "",
        "pipe, busy cycles  before  after  change        %",
        "PIPE-V                125    250    +125  +100.00",
        "PIPE-MTE2             331    416     +85   +25.68",
        "",
        "instruction, busy cycles  before  after  change        %",
        "VEXP                         125    250    +125  +100.00",
        "MOV-GM_TO_UB                 331    416     +85   +25.68",
        "",
        "pipe waits for, cycles  before  after  change        %",
        "PIPE-MTE2 end              125    250    +125  +100.00",
        "PIPE-V data                331    416     +85   +25.68",
    ]


def test_nothing_changed(run: Run) -> None:
    status, out, err = run("small.json", "small.json", "--fail-over", "0%", "--fail-over-pipe", "0")
    assert (status, err) == (0, "")
    assert "Total             456    456      +0  +0.00" in out and out.count(": no change\n") == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fail-over", "46.1%"], []),
        (["--fail-over", "46%"], ["the total grew from 456 to 666 cycles (+46.05%), more than --fail-over 46%"]),
        (["--fail-over", "210"], []),
        (["--fail-over", "209"], ["the total grew from 456 to 666 cycles (+46.05%), more than --fail-over 209"]),
        (["--fail-over-pipe", "100%"], []),
        (
            ["--fail-over-pipe", "99 %"],
            ["PIPE-V grew from 125 to 250 cycles (+100.00%), more than --fail-over-pipe 99 %"],
        ),
        (
            ["--fail-over-pipe", "84", "--fail-over", "1000%"],
            [
                "PIPE-V grew from 125 to 250 cycles (+100.00%), more than --fail-over-pipe 84",
                "PIPE-MTE2 grew from 331 to 416 cycles (+25.68%), more than --fail-over-pipe 84",
            ],
        ),
    ],
)
def test_limits(run: Run, words: list[str], told: list[str]) -> None:
    status, out, err = run("small.json", "large.json", *words)
    assert status == (1 if told else 0)
    assert err.splitlines() == [f"mskpp diff: {line}" for line in told] and "Total" in out
    status, out, _ = run("small.json", "large.json", "--json", *words)
    assert (status, json.loads(out)["exceeded"]) == (1 if told else 0, told)
    assert run("large.json", "small.json", *words)[0] == 0  # it became faster


@pytest.mark.parametrize("text", ["0.05", "5%%", "-5%", "5 us", "100us", "", "1e3", "five", "5.%", "9" * 16])
def test_limits_that_are_none(run: Run, text: str) -> None:
    status, _, err = run("small.json", "large.json", f"--fail-over={text}")
    assert status == 2 and f"{text!r} is neither a share, as 5%, nor a number of cycles, as 1000" in err


def test_a_share_without_a_percent_sign(run: Run) -> None:
    for text, meant in (("0.05", "5%"), (".025", "2.5%")):
        status, _, err = run("small.json", "large.json", f"--fail-over={text}")
        assert status == 2 and f"as 1000; did you mean {meant}?" in err


def test_warnings_are_told(run: Run) -> None:
    block(1 << 17).write_json("full.json")
    status, out, err = run("small.json", "full.json")
    assert (status, err) == (0, "")
    assert "\nwarning, new in B: UB holds up to 524,288 bytes" in out
    assert "\nwarning, A too has one of it: UB holds" in run("full.json", "full.json")[1]
    assert "\nwarning, only of A: UB holds" in run("full.json", "small.json")[1]
    assert run("full.json", "small.json", "--fail-on-warnings")[0] == 0
    status, _, err = run("small.json", "full.json", "--fail-on-warnings")
    assert status == 1 and err.startswith("mskpp diff: --fail-on-warnings: UB holds up to 524,288 bytes")
    status, out, _ = run("small.json", "full.json", "--fail-on-warnings", "--json")
    document = json.loads(out)
    (warning,) = document["warnings"]
    assert status == 1 and document["new_warnings"] == [warning] == document["after"]["warnings"]
    assert document["before"]["warnings"] == [] and document["exceeded"] == [f"--fail-on-warnings: {warning}"]


def test_a_folder_with_blocks(run: Run) -> None:
    for number in (1, 2, 10):
        Path(f"several/{number}").mkdir(parents=True)
        block().write_json(f"several/{number}/result.json")
    status, out, err = run("several", "small.json")
    assert (status, out) == (1, "")
    assert err == "mskpp diff: load_result: several has blocks 1, 2, 10: name one, as several/1\n"
    assert run("several/10", "small.json")[0] == 0


def test_json(run: Run) -> None:
    status, out, err = run("small.json", "large.json", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    names = ["schema", "before", "after", "notes", "unit", "total", "pipes", "instructions", "ledger"]
    names += ["warnings", "new_warnings", "exceeded"]
    assert list(document) == names
    assert document["before"] == {
        "source": "small.json",
        "chip": "Ascend910B1",
        "cycles": 456,
        "us": 456 / 1850,
        "warnings": [],
    }
    assert (document["unit"], document["notes"]) == ("cycles", [])
    assert document["total"] == {"name": "Total", "before": 456, "after": 666, "change": 210, "share": 210 / 456}
    assert [row["name"] for row in document["ledger"]] == ["PIPE-MTE2 end", "PIPE-V data"]


def test_scripts_do_not_see_each_others_modules(run: Run) -> None:
    """Both import a module ``shapes``, each its own; their chips may write, and what they print goes to stderr."""
    status, out, err = run("old/kernel.py", "new/kernel.py", "--json")
    assert status == 0, err
    document = json.loads(out)
    assert (document["total"]["before"], document["total"]["after"]) == (456, 666)
    assert err.count("runs []\n") == 2
    status, out, err = run("small.json", "new/kernel.py", "--fail-over", "5%", "--", "4096")
    assert (status, out.splitlines()[1]) == (0, "after : new/kernel.py, Ascend910B1, 0.246 us")


def test_a_script_of_several_blocks(run: Run) -> None:
    status, _, err = run("small.json", "new/kernel.py", "--", "64", "4096")
    assert status == 1
    assert "kernel.py has 2 Chip blocks; choose one with --block: 1 (Ascend910B1, 0." in err
    status, out, _ = run("small.json", "new/kernel.py", "--json", "--block", "2", "--", "64", "4096")
    assert status == 0 and json.loads(out)["total"]["change"] == 0
    status, _, err = run("small.json", "new/kernel.py", "--block", "3", "--", "64", "4096")
    assert status == 1 and "--block is 3, and kernel.py has 2 Chip blocks" in err


def test_a_script_that_fails(run: Run) -> None:
    Path("bad.py").write_text("1 / 0")
    status, out, err = run("small.json", "bad.py")
    assert (status, out) == (1, "")
    assert "ZeroDivisionError" in err
    assert err.splitlines()[-1] == "mskpp diff: bad.py failed, so there is nothing to compare"
    Path("bad.py").write_text("raise KeyboardInterrupt")
    assert run("small.json", "bad.py")[0] == 130


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["none.json", "small.json"], 2, "none.json does not exist"),
        (
            ["small.json", "smal.json"],
            2,
            "smal.json does not exist; did you mean 'small.json'? Give a result.json, its",
        ),
        (["small.json", "large.json", "--block", "1"], 2, "--block is for scripts, and neither A nor B is one"),
        (["small.json", "large.json", "--", "1"], 2, "words after -- are for scripts, and neither A nor B is one"),
        (["small.json", "old"], 1, "result.json cannot be read: No such file or directory; mskpp run --out writes one"),
        (["small.json", "bad.json"], 1, "mskpp diff: load_result: bad.json is no JSON ("),
    ],
)
def test_what_cannot_be_compared(run: Run, words: list[str], status: int, message: str) -> None:
    Path("bad.json").write_text("{")
    code, out, err = run(*words)
    assert (code, out) == (status, "") and message in err


def test_other_chips_and_ratios_are_noted(run: Run) -> None:
    block(chip="Ascend910B4", ratio=0.5).write_json("other.json")
    status, out, _ = run("small.json", "other.json", "--fail-over", "100000")
    assert status == 0
    assert out.splitlines()[2:5] == [
        "note: the chips differ: Ascend910B1 and Ascend910B4",
        "note: the clocks differ: 1850 and 1500 MHz; all figures are times in us",
        "note: the cache hit ratios differ: 0 and 0.5",
    ]
    assert "total, us  before  after  change" in out
    assert run("small.json", "other.json", "--fail-over", "0")[0] == 1
    text = json.loads(block().to_json())
    text.update(mskpp="9.9", cache_hit_ratio=None)
    notes = Difference.of(block(), load(json.dumps(text))).notes
    assert notes == (
        "the cache hit ratios differ: 0 and one that changes in the block",
        f"mskpp {mskpp.__version__} and 9.9 made them",
    )


def test_what_only_one_side_has() -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("L1").load(Tensor("GM", "FP16", [4096]))
    found = Difference.of(block(), chip.result)
    changes = {change.name: change for change in found.instructions}
    assert changes["VEXP"] == Change("VEXP", 125, None) and changes["VEXP"].absolute == -125
    new = changes["MOV-GM_TO_L1"]
    assert new.before is None and new.share is None and new.exceeds(10, True) and not new.exceeds(10**6, False)
    sizes = [abs(change.absolute) for change in found.instructions]
    assert sizes == sorted(sizes, reverse=True)


def test_rows(run: Run) -> None:
    _, out, _ = run("small.json", "large.json", "--rows", "1")
    assert out.count("... 1 more; --rows 0 shows all\n") == 3
    _, out, _ = run("small.json", "large.json", "--rows", "0")
    assert "more;" not in out


def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[Any, ...]] = [((None, "us"), "-"), ((1234.5678, "us"), "1,234.568"), ((1234, "cycles"), "1,234")]
    for arguments, text in cases:
        assert diff.figure(*arguments) == text
