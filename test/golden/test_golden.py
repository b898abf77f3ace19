# SPDX-License-Identifier: Apache-2.0
"""Whole outputs of two programs. To accept a change: python3 build.py golden, and read the difference."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import mskpp
from mskpp import Chip, Core, Tensor, mmad, pipe_barrier, set_flag, vadd, wait_flag

Golden = Callable[[str, str], None]


def matmul() -> None:
    """The documented tile, twice."""
    for _ in range(2):
        l1_x, l1_y, x, y = Tensor("L1"), Tensor("L1"), Tensor("L0A"), Tensor("L0B")
        b = Tensor("L0C", "FP32", [32, 16], format="NC1HWC0")
        l1_x.load(Tensor("GM", "FP16", [32, 48], format="ND"))
        l1_y.load(Tensor("GM", "FP16", [48, 16], format="ND"))
        x.load(l1_x)
        y.load(l1_y)
        (out,) = mmad(x, y, b, True)()
        Tensor("GM", "FP32", [32, 16], format="NC1HWC0").load(out)


def two_cores() -> None:
    """A product on a cube core; two vector cores add up its halves."""
    c, z = (Tensor("GM", "FP32", [64, 64], format="ND") for _ in range(2))
    with Core("aic0"):
        x, y = Tensor("L0A", "FP16", [64, 64], None, True), Tensor("L0B", "FP16", [64, 64], None, True)
        (out,) = mmad(x, y, Tensor("L0C", "FP32", [64, 64], format="NZ"), True)()
        c.load(out)
        for core in ("aiv0", "aiv1"):
            set_flag("PIPE-FIX", f"{core}_PIPE-MTE2", 0)
    for i in range(2):
        with Core(f"aiv{i}"):
            wait_flag("aic0_PIPE-FIX", "PIPE-MTE2", 0)
            a, total = Tensor("UB"), Tensor("UB")
            a.load(c[32 * i : 32 * i + 32])
            vadd(a, a, total)()
            z[32 * i : 32 * i + 32].load(total)


def stuck() -> None:
    """A circle through two flags, a read of what nothing writes, and what stands behind it."""
    with Core("aic0"):
        wait_flag("aiv0_PIPE-MTE3", "PIPE-FIX", 1)
        set_flag("PIPE-FIX", "aiv0_PIPE-MTE2", 2)
    with Core("aiv0"):
        wait_flag("aic0_PIPE-FIX", "PIPE-MTE2", 2)
        a = Tensor("UB")
        a.load(Tensor("GM", "FP16", [128]))
        Tensor("GM").load(a)
        set_flag("PIPE-MTE3", "aic0_PIPE-FIX", 1)
    Tensor("L0A").load(Tensor("L1", "FP16", [64, 64]))
    set_flag("PIPE-MTE1", "PIPE-M", 0)
    wait_flag("PIPE-MTE1", "PIPE-M", 0)


def stuck_in_many_ways() -> None:
    """Four circles: a long one, two of one pipe each, one through a barrier; and what stands behind them."""
    for i in range(9):
        with Core(f"aiv{i}"):
            wait_flag(f"aiv{(i + 1) % 9}_PIPE-V", "PIPE-V", 3)
            set_flag("PIPE-V", f"aiv{(i + 8) % 9}_PIPE-V", 3)
            set_flag("PIPE-V", "PIPE-MTE3", 0)
            wait_flag("PIPE-V", "PIPE-MTE3", 0)
    with Core("aic0"):
        a = Tensor("UB", "FP16", [128])
        vadd(a, a, Tensor("UB"))()
        pipe_barrier("PIPE-ALL")
        a.load(Tensor("GM", "FP16", [128]))
    for core in ("aic1", "aic2"):
        with Core(core):
            wait_flag("PIPE-FIX", "PIPE-FIX", 0)
            set_flag("PIPE-FIX", "PIPE-FIX", 0)


PROGRAMS = {"matmul": ("Ascend910B1", matmul), "two_cores": ("Ascend910B4", two_cores)}


def without_places(text: str) -> str:
    """Lines of this file move with every edit of it; which function they are in does not matter here."""
    return re.sub(r"test_golden\.py:\d+", "test_golden.py:LINE", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_and_terminal(name: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    chip_name, program = PROGRAMS[name]
    with Chip(chip_name) as chip:
        chip.enable_trace()
        chip.enable_metrics()
        program()
    folder = Path(chip.output_dir)
    for file in ("Pipe_statistic.csv", "Instruction_statistic.csv", "trace.json"):
        golden(f"{name}/{file}", (folder / file).read_text(encoding="utf-8"))
    terminal = capsys.readouterr().out.replace(chip.output_dir, "FOLDER")
    golden(f"{name}/terminal.txt", "\n".join(line.rstrip() for line in terminal.splitlines()) + "\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_debug_log(name: str, golden: Golden, caplog: pytest.LogCaptureFixture) -> None:
    chip_name, program = PROGRAMS[name]
    with Chip(chip_name, debug_mode=True):
        program()
    golden(f"{name}/debug.txt", without_places("\n".join(record.getMessage() for record in caplog.records) + "\n"))


@pytest.mark.parametrize(("name", "program"), [("deadlock", stuck), ("deadlocks", stuck_in_many_ways)])
def test_deadlock(name: str, program: Callable[[], None], golden: Golden, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "mskpp")
    with pytest.raises(mskpp.DeadlockError) as caught, Chip("Ascend910B1"):
        program()
    golden(f"{name}.txt", without_places(f"{caught.value}\n"))


def test_unpaired_flags(golden: Golden) -> None:
    with pytest.raises(mskpp.FlagError) as caught, Chip("Ascend910B1"):
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        with Core("aic0"):
            wait_flag("PIPE-M", "aiv0_PIPE-MTE2", 7)
    golden("unpaired_flags.txt", without_places(f"{caught.value}\n"))
