# SPDX-License-Identifier: Apache-2.0
"""Debug mode: no files, the order of each pipe in the log, and the explanation of what is stuck."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Core, Tensor, set_flag, wait_flag


@pytest.fixture(autouse=True)
def ten_cycles_each() -> None:
    register_cost(["MOV-GM_TO_UB", "MOV-UB_TO_GM", "VABS"], lambda: 10)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [re.sub(r"test_debug\.py:\d+", "LINE", record.getMessage()) for record in caplog.records]


def tile() -> None:
    x, y = Tensor("UB"), Tensor("UB")
    x.load(Tensor("GM", "FP16", [128]))
    mskpp.vabs(x, y)()
    Tensor("GM").load(y)


def test_the_order_of_joining_and_leaving(caplog: pytest.LogCaptureFixture) -> None:
    with Chip("Ascend910B1", debug_mode=True) as chip:
        tile()
        with Core("b"):
            tile()
    joined, left = lines(caplog)[:6], lines(caplog)[6:]
    assert joined == [
        "enqueue PIPE-MTE2 MOV-GM_TO_UB (LINE)",
        "enqueue PIPE-V VABS (LINE)",
        "enqueue PIPE-MTE3 MOV-UB_TO_GM (LINE)",
        "enqueue b-PIPE-MTE2 MOV-GM_TO_UB (LINE)",
        "enqueue b-PIPE-V VABS (LINE)",
        "enqueue b-PIPE-MTE3 MOV-UB_TO_GM (LINE)",
    ]
    assert left == [
        "dequeue PIPE-MTE2 MOV-GM_TO_UB (LINE) from 0 to 10",
        "dequeue b-PIPE-MTE2 MOV-GM_TO_UB (LINE) from 0 to 10",
        "dequeue PIPE-V VABS (LINE) from 10 to 20",
        "dequeue b-PIPE-V VABS (LINE) from 10 to 20",
        "dequeue PIPE-MTE3 MOV-UB_TO_GM (LINE) from 20 to 30",
        "dequeue b-PIPE-MTE3 MOV-UB_TO_GM (LINE) from 20 to 30",
    ]
    assert chip.result.total_cycles == 30


def test_no_files_and_nothing_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Chip("Ascend910B1", debug_mode=True) as chip:
        chip.enable_trace()
        chip.enable_metrics()
        tile()
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().out == ""


def test_the_log_of_instructions_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    with Chip("Ascend910B1", debug_mode=True) as chip:
        chip.disable_instr_log()
        tile()
    assert lines(caplog) == [] and chip.result.total_cycles == 30


def test_it_is_logged_whatever_the_level_and_the_level_stays(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mskpp")
    before = logger.level
    with Chip("Ascend910B1", debug_mode=True):
        tile()
    assert logger.level == before and len(caplog.records) == 6


@pytest.mark.parametrize("quiet", [False, True])
def test_what_is_stuck_is_explained(caplog: pytest.LogCaptureFixture, quiet: bool) -> None:
    with pytest.raises(mskpp.DeadlockError) as caught, Chip("Ascend910B1", debug_mode=True) as chip:
        if quiet:
            chip.disable_instr_log()
        tile()
        x = Tensor("UB", "FP16", [64, 64])
        mskpp.vabs(x, Tensor("UB"))()
        set_flag("PIPE-V", "PIPE-MTE3", 3)
        wait_flag("PIPE-V", "PIPE-MTE3", 3)
    message = re.sub(r"test_debug\.py:\d+", "LINE", str(caught.value))
    assert message == (
        "schedule: deadlock, 2 pipes stuck\n"
        "  PIPE-V  VABS (LINE) waits for UB tensor [64,64] FP16 (LINE), which nothing writes\n"
        "  stuck behind that:\n"
        "    PIPE-MTE3  WAIT_FLAG 3 (LINE) waits for SET_FLAG 3 (LINE) on PIPE-V, behind VABS (LINE)\n"
        "  to give a tensor its first value: load it, set_valid(), or is_inited=True"
    )
    logged = lines(caplog)
    assert logged[-1] == message and caplog.records[-1].levelname == "ERROR"
    assert len([line for line in logged if line.startswith("enqueue")]) == (0 if quiet else 6)
    assert len([line for line in logged if line.startswith("dequeue")]) == (0 if quiet else 3)


def test_a_cycle_is_printed_as_a_cycle() -> None:
    with pytest.raises(mskpp.DeadlockError) as caught, Chip("Ascend910B1"):
        with Core("a"):
            wait_flag("b_PIPE-V", "PIPE-V", 0)
            set_flag("PIPE-V", "b_PIPE-V", 0)
        with Core("b"):
            wait_flag("a_PIPE-V", "PIPE-V", 0)
            set_flag("PIPE-V", "a_PIPE-V", 0)
    assert re.sub(r"test_debug\.py:\d+", "LINE", str(caught.value)).splitlines()[1:] == [
        "  cycle: 2 pipes wait for each other",
        "    +-> b-PIPE-V  WAIT_FLAG 0 (LINE)",
        "    |     | flag: raised by SET_FLAG 0 (LINE),",
        "    |     | which comes on a-PIPE-V behind",
        "    |     v",
        "    |   a-PIPE-V  WAIT_FLAG 0 (LINE)",
        "    |     | flag: raised by SET_FLAG 0 (LINE),",
        "    |     | which comes on b-PIPE-V behind",
        "    +-----+",
        "  mskpp lint SCRIPT.py explains the flags",
    ]


def test_who_would_have_provided_it_is_named() -> None:
    with pytest.raises(mskpp.DeadlockError) as caught, Chip("Ascend910B1"):
        x = Tensor("UB", "FP16", [128])
        y = Tensor("UB", "FP16", [128])
        mskpp.vabs(x, y)()  # the writer of x comes later, on the same pipe
        mskpp.vabs(y, x)()
    message = re.sub(r"test_debug\.py:\d+", "LINE", str(caught.value))
    assert "| data: UB tensor [128] FP16 (LINE),\n" in message and "| written by VABS (LINE),\n" in message
    assert "| which comes on PIPE-V behind\n" in message
