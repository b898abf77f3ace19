# SPDX-License-Identifier: Apache-2.0
"""Live bytes of local memories: the result, the warnings in every output, and strict=True."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from utils import results

import mskpp
from mskpp import Chip, Core, Tensor, mmad, vabs, vadd
from mskpp.core import exploring
from mskpp.errors import ArgumentError, CapacityError, StateError

OVER = "UB of aiv0 holds up to 262,144 bytes, at cycle "


def too_much() -> None:
    """Two tensors of 128 KiB at a time in a UB of 192."""
    x = Tensor("UB")
    y = Tensor("UB")
    x.load(Tensor("GM", "FP16", [64, 1024], format="ND"))
    vabs(x, y)()
    Tensor("GM").load(y)


def model(chip_name: str = "Ascend910B1", cores: tuple[str, ...] = ("aiv0",), **options: bool) -> Chip:
    with Chip(chip_name, **options) as chip:
        chip.enable_trace()
        chip.enable_metrics()
        for core in cores:
            with Core(core):
                too_much()
    return chip


def test_the_result_has_the_use_of_each_memory() -> None:
    with Chip("Ascend910B1") as chip, Core("aic0"):
        a, x, y = Tensor("L1"), Tensor("L0A"), Tensor("L0B", "FP16", [48, 16], "NZ", True)
        a.load(Tensor("GM", "FP16", [32, 48], format="ND"))
        x.load(a)
        (out,) = mmad(x, y, Tensor("L0C", "FP32", [32, 16], format="NC1HWC0"), True)()
        Tensor("GM", "FP32", [32, 16], format="NC1HWC0").load(out)
    load, move, product, store = chip.result.events()
    l1, l0a, l0c = chip.result.memory
    assert (l1.core, l1.memory, l1.peak_bytes, l1.peak_cycle, l1.capacity_bytes) == ("aic0", "L1", 3072, 0, 524288)
    assert l1.points == ((0, 3072), (move.end, 0))
    assert l0a.points == ((0, 0), (load.end, 3072), (product.end, 0))
    assert l0c.points == ((0, 0), (product.start, 2048), (store.end, 0))
    assert not any(use.exceeded or use.largest for use in chip.result.memory)
    assert chip.result.warnings == []
    assert chip.result.memory is chip.result.memory


def test_nothing_is_used_by_nothing() -> None:
    with Chip("Ascend910B1") as chip:
        mskpp.set_flag("PIPE-MTE2", "PIPE-V", 0)
        mskpp.wait_flag("PIPE-MTE2", "PIPE-V", 0)
    assert chip.result.memory == () and chip.result.warnings == []


@pytest.mark.parametrize("chip", mskpp.chips())
def test_every_chip_says_how_much_it_has(chip: str) -> None:
    costs = Chip(chip)._costs
    for memory in ("L1", "L0A", "L0B", "L0C", "UB", "BT", "FB"):
        assert 1024 <= costs.capacity_bytes(memory) <= 1 << 20, memory
    assert costs.capacity_bytes("VEC") is None  # an instruction on a large VEC tensor stands for a loop


def test_too_much_is_a_warning_in_every_output(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = model()
    [warning] = chip.result.warnings
    assert warning.startswith(OVER) and "its capacity is 196,608; largest there: 131,072 bytes in UB tensor" in warning
    assert warning.count("UB tensor [64,1024] FP16 (test_memory_use.py:") == 2
    [record] = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.getMessage().startswith(f"Chip: {warning}; make the tiles smaller, or let what fills the memory wait")
    assert "".join(f"warning: {warning}".split()) in "".join(capsys.readouterr().out.split())  # whatever the width
    for name in results.STATISTICS:  # which programs read: a row a pipe or instruction, and no other
        assert "Warning" not in Path(chip.output_dir, name).read_text()
    page = Path(chip.output_dir, "instruction_cycle_consumption.html").read_text()
    assert f"<p><strong>Warning:</strong> {warning}</p>" in page
    [mark] = [event for event in results.trace(chip.output_dir) if event["ph"] == "i"]
    [use] = chip.result.memory
    assert (mark["name"], mark["args"]) == ("UB over capacity", {"Peak(B)": 262144, "Capacity(B)": 196608})
    assert abs(mark["ts"] - use.peak_cycle / 1850) < 1e-5


def test_a_trace_alone_prints_the_warning_too(capsys: pytest.CaptureFixture[str]) -> None:
    with Chip("Ascend910B1") as chip, Core("aiv0"):
        chip.enable_trace()
        too_much()
    _, warning, folder = capsys.readouterr().out.splitlines()
    assert warning == f"warning: {chip.result.warnings[0]}" and folder.startswith("files: ")


def test_cores_alike_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    chip = model(cores=("aiv0", "aiv1", "aiv2"))
    [warning] = chip.result.warnings
    assert "its capacity is 196,608 (2 more cores are over it too); largest" in warning
    assert [r.levelno for r in caplog.records].count(logging.WARNING) == 1


def test_alike_tensors_are_counted_together() -> None:
    with Chip("Ascend910B1") as chip:
        for _ in range(40):  # nothing makes the loads wait for what reads them
            x = Tensor("UB")
            x.load(Tensor("GM", "FP16", [8, 1024], format="ND"))
        for _ in range(200):
            vabs(x, Tensor("UB"))()
        with Core("aiv0"):
            for _ in range(20):
                y = Tensor("UB", "FP16", [16, 1024])
                y.load(Tensor("GM", "FP16", [16, 1024], format="ND"))
                vadd(y, y, Tensor("UB"))()
                for _ in range(200):
                    vabs(y, Tensor("UB"))()
    [use] = [use for use in chip.result.memory if use.exceeded]
    assert use.core == "aiv0"
    first = use.largest[0]
    assert first.versions > 4 and first.bytes == first.versions * 32768
    assert f"{first.bytes:,} bytes in {first.versions} x UB tensor [16,1024] FP16 (" in chip.result.warnings[0]


def test_strict_makes_it_an_error() -> None:
    with pytest.raises(CapacityError) as caught:
        model(strict=True)
    head, line = str(caught.value).split("\n")
    assert head == (
        "Chip: more live bytes than the memory has; make the tiles smaller, or let what fills the memory wait with "
        "flags until what it held has been read (docs/errors.md#capacityerror)"
    )
    assert line.startswith(f"  {OVER}") and line.count("131,072 bytes in UB tensor [64,1024] FP16 (test_memory") == 2
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, mskpp.MskppError)
    assert list(Path().glob("MSKPP*")) == []  # nothing is written then


def test_strict_leaves_no_result() -> None:
    chip = Chip("Ascend910B1", strict=True)
    with pytest.raises(CapacityError), chip:
        too_much()
    with pytest.raises(StateError, match="its block failed"):
        _ = chip.result


def test_strict_lets_pass_what_just_fits(caplog: pytest.LogCaptureFixture) -> None:
    with Chip("Ascend910B1", strict=True) as chip:
        Tensor("UB").load(Tensor("GM", "FP16", [96, 1024], format="ND"))
    assert chip.result.memory[0].peak_bytes == chip.result.memory[0].capacity_bytes == 196608
    assert not caplog.records


def test_a_search_is_not_warned_but_strict_refuses_its_candidate(caplog: pytest.LogCaptureFixture) -> None:
    with exploring.Explorer(quiet=True).looking_on():
        with Chip("Ascend910B1") as chip:
            too_much()
        assert chip.result.warnings and not caplog.records
        with pytest.raises(CapacityError, match="UB holds up to 262,144 bytes"), Chip("Ascend910B1", strict=True):
            too_much()


def test_strict_must_be_a_bool() -> None:
    with pytest.raises(ArgumentError, match=r"Chip: strict must be a bool, got int \(test_memory_use.py:\d+\)"):
        Chip("Ascend910B1", strict=1)


def test_counter_tracks() -> None:
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        for core in ("aiv0", "aiv1"):
            with Core(core):
                x = Tensor("UB")
                x.load(Tensor("GM", "FP16", [8, 1024], format="ND"))
                Tensor("GM").load(x)
    counters = [event for event in results.trace(chip.output_dir) if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"UB live bytes"}
    processes = {e["pid"]: e["args"]["name"] for e in results.trace(chip.output_dir) if e["name"] == "process_name"}
    for use in chip.result.memory:
        mine = [event for event in counters if processes[event["pid"]] == use.core]
        assert [event["args"] for event in mine] == [{"bytes": live} for _, live in use.points]
        for event, (cycle, _) in zip(mine, use.points, strict=True):
            assert abs(event["ts"] - cycle / 1850) < 1e-5
