# SPDX-License-Identifier: Apache-2.0
"""Flags, barriers and cores."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Core, DeadlockError, FlagError, Tensor, pipe_barrier, set_flag, wait_flag
from mskpp.errors import ArgumentError, InputError

PIPES = ("PIPE-MTE1", "PIPE-MTE2", "PIPE-MTE3", "PIPE-FIX", "PIPE-M", "PIPE-V", "PIPE-S")


@pytest.fixture(autouse=True)
def ten_cycles_each() -> None:
    register_cost(["MOV-GM_TO_UB", "MOV-UB_TO_GM", "VABS"], lambda: 10)


def load(size: int = 128) -> Tensor:
    target = Tensor("UB")
    target.load(Tensor("GM", "FP16", [size]))
    return target


def compute() -> None:
    mskpp.vabs(Tensor("UB", "FP16", [128], None, True), Tensor("UB"))()


def times(chip: Chip) -> list[tuple[str, str, int, int]]:
    return [(event.name, event.pipe, event.start, event.end) for event in chip.result.events()]


# --- flags ---


def test_a_wait_ends_one_cycle_after_the_set() -> None:
    with Chip("Ascend910B1") as chip:
        load()
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        compute()
    assert times(chip) == [
        ("MOV-GM_TO_UB", "PIPE-MTE2", 0, 10),
        ("SET_FLAG", "PIPE-MTE2", 10, 11),
        ("WAIT_FLAG", "PIPE-V", 11, 12),
        ("VABS", "PIPE-V", 12, 22),
    ]
    assert [event.kind for event in chip.result.events()] == ["move", "set_flag", "wait_flag", "computation"]


def test_a_wait_whose_set_is_long_past_takes_one_cycle() -> None:
    with Chip("Ascend910B1") as chip:
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        compute()
        compute()
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
    assert times(chip)[-1] == ("WAIT_FLAG", "PIPE-V", 20, 21)


def test_the_wait_may_be_written_before_the_set() -> None:
    with Chip("Ascend910B1") as chip:
        wait_flag("PIPE-MTE2", "PIPE-V", 3)
        compute()
        load()
        set_flag("PIPE-MTE2", "PIPE-V", 3)
    assert chip.result.total_cycles == 10 + 1 + 1 + 10


def test_ids_are_reused_in_loops() -> None:
    with Chip("Ascend910B1") as chip:
        for _ in range(3):
            load()
            set_flag("PIPE-MTE2", "PIPE-V", 0)
            wait_flag("PIPE-MTE2", "PIPE-V", 0)
            compute()
    waits = [(start, end) for name, _, start, end in times(chip) if name == "WAIT_FLAG"]
    assert waits == [(11, 12), (22, 23), (33, 34)]


def test_ids_and_pipes_tell_flags_apart() -> None:
    with Chip("Ascend910B1") as chip:
        load()
        set_flag("PIPE-MTE2", "PIPE-V", 1)  # 10 to 11
        set_flag("PIPE-MTE2", "PIPE-V", 0)  # 11 to 12
        set_flag("PIPE-MTE2", "PIPE-M", 0)  # 12 to 13
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-M", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 1)
    ends = {(pipe, end) for name, pipe, _, end in times(chip) if name == "WAIT_FLAG"}
    assert ends == {("PIPE-V", 13), ("PIPE-M", 14), ("PIPE-V", 14)}


@pytest.mark.parametrize("qualified", ["aic0_PIPE-FIX", "aic0_pipe-fix", "aic0-PIPE-FIX"])
def test_a_qualified_flag_sits_on_the_named_core(qualified: str) -> None:
    with Chip("Ascend910B1") as chip:
        with Core("elsewhere"):
            set_flag(qualified, "aiv0_PIPE-MTE2", 5)
        wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 5)
    assert [pipe for _, pipe, _, _ in times(chip)] == ["aic0-PIPE-FIX", "aiv0-PIPE-MTE2"]


def test_an_unqualified_flag_sits_on_the_current_core() -> None:
    with Chip("Ascend910B1") as chip, Core("aiv3"):
        set_flag("PIPE-MTE2", "aiv4_PIPE-V", 0)
        wait_flag("aiv3_PIPE-MTE2", "aiv4_PIPE-V", 0)
    assert [pipe for _, pipe, _, _ in times(chip)] == ["aiv3-PIPE-MTE2", "aiv4-PIPE-V"]


@pytest.mark.parametrize("pipe", PIPES)
def test_every_pipe_can_set_and_wait(pipe: str) -> None:
    with Chip("Ascend910B1") as chip:
        set_flag(pipe.lower(), "PIPE-S", numpy.int64(65535))
        wait_flag(pipe, "PIPE-S", 65535)
    assert times(chip)[0][1] == pipe


def test_flags_do_not_count_in_the_statistics() -> None:
    with Chip("Ascend910B1") as chip:
        load()
        set_flag("PIPE-MTE2", "PIPE-S", 0)
        wait_flag("PIPE-MTE2", "PIPE-S", 0)
    assert list(chip.result.pipes) == ["PIPE-MTE2"]  # a pipe with flags only has no row
    assert chip.result.pipes["PIPE-MTE2"].cycles == 10 and chip.result.pipes["PIPE-MTE2"].count == 1
    assert list(chip.result.instructions) == ["MOV-GM_TO_UB"]
    assert chip.result.total_cycles == 12 and len(chip.result) == 3


def test_unpaired_flags_are_listed_with_their_lines() -> None:
    with pytest.raises(FlagError) as caught, Chip("Ascend910B1"):
        set_flag("PIPE-MTE2", "PIPE-V", 3)
        set_flag("PIPE-MTE2", "PIPE-V", 3)
        wait_flag("PIPE-MTE2", "PIPE-V", 3)
        wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 9)
    first, *lines = str(caught.value).splitlines()
    assert first == "flags: 2 of set_flag and wait_flag do not pair up"
    assert len(lines) == 3 and lines[2] == "  mskpp lint SCRIPT.py explains the flags"
    assert lines[0].startswith('  set_flag("PIPE-MTE2", "PIPE-V", 3) (test_sync.py:')
    assert lines[0].endswith(") is never waited for")
    assert lines[1].startswith('  wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 9) (test_sync.py:')
    assert lines[1].endswith(") waits for a set_flag that is never issued")
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, mskpp.MskppError)


def test_a_long_list_of_unpaired_flags_is_cut() -> None:
    with pytest.raises(FlagError) as caught, Chip("Ascend910B1"):
        for number in range(100):
            set_flag("PIPE-MTE2", "PIPE-V", number)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("flags: 100 of") and lines[-2] == "  ... and 80 more" and len(lines) == 23


def test_unpaired_flags_of_one_line_are_told_once() -> None:
    with pytest.raises(FlagError) as caught, Chip("Ascend910B1"):
        for _ in range(12):
            set_flag("PIPE-MTE2", "PIPE-V", 0)
    first, line, _ = str(caught.value).splitlines()
    assert first.startswith("flags: 12 of") and line.endswith(") is never waited for x 12")


def test_a_pipe_without_its_prefix_is_understood_as_a_slip() -> None:
    with Chip("Ascend910B1"), pytest.raises(ValueError) as caught:
        set_flag("MTE2", "PIPE-V", 0)
    assert "set_flag: unknown pipe 'MTE2'; did you mean 'PIPE-MTE2'?" in str(caught.value)


def test_flags_that_wait_for_each_other_are_a_cycle() -> None:
    with pytest.raises(DeadlockError) as caught, Chip("Ascend910B1"):
        wait_flag("PIPE-V", "PIPE-MTE2", 0)
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        set_flag("PIPE-V", "PIPE-MTE2", 0)
    message = str(caught.value)
    assert message.startswith("schedule: deadlock, 2 pipes stuck\n")
    assert "  PIPE-MTE2  WAIT_FLAG 0 (test_sync.py:" in message and "which comes on PIPE-V behind" in message
    assert "  cycle: 2 pipes wait for each other" in message
    assert isinstance(caught.value, RuntimeError)


def test_a_deadlock_of_many_pipes_is_cut() -> None:
    with pytest.raises(DeadlockError) as caught, Chip("Ascend910B1"):
        for number in range(50):
            with Core(f"aiv{number}"):
                mskpp.vabs(Tensor("UB", "FP16", [128]), Tensor("UB"))()
    lines = str(caught.value).splitlines()
    assert lines[0] == "schedule: deadlock, 50 pipes stuck" and len(lines) < 30
    assert "  ... and 30 more" in lines


@pytest.mark.parametrize("function", [set_flag, wait_flag])
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("PIPE-X", "PIPE-V", 0), InputError, "unknown pipe 'PIPE-X'; did you mean 'PIPE-M'"),
        (("PIPE-V", "", 0), InputError, "unknown pipe ''"),
        (("aic0_PIPE-X", "PIPE-V", 0), InputError, "unknown pipe 'PIPE-X'"),
        (
            ("a b_PIPE-V", "PIPE-V", 0),
            InputError,
            "Core: name 'a b'; allowed are 1 to 128 letters A-Z a-z and digits 0-9",
        ),
        (("_PIPE-V", "PIPE-V", 0), InputError, "Core: name ''"),
        (("PIPE-ALL", "PIPE-V", 0), InputError, "'PIPE-ALL' names no single pipe"),
        (("PIPE-VEC", "PIPE-V", 0), InputError, "Ascend910B1 (architecture 2201) has no vector registers"),
        (("RVECLD", "PIPE-V", 0), InputError, "'RVECLD' names no single pipe"),
        (("PIPE-V", "PIPE-M", -1), InputError, "event_id is -1; allowed are 0 to 65535"),
        (("PIPE-V", "PIPE-M", 65536), InputError, "event_id is 65536; allowed are 0 to 65535"),
        (("PIPE-V", "PIPE-M", True), ArgumentError, "event_id must be an int, got bool"),
        (("PIPE-V", "PIPE-M", 1.0), ArgumentError, "event_id must be an int, got float"),
        (("PIPE-V", "PIPE-M", None), ArgumentError, "event_id must be an int, got NoneType"),
        ((1, "PIPE-M", 0), ArgumentError, "pipe_src must be a str, got int"),
        (("PIPE-V", None, 0), ArgumentError, "pipe_dst must be a str, got NoneType"),
    ],
)
def test_wrong_flags(function: Any, arguments: Any, error: type[Exception], words: str) -> None:
    with Chip("Ascend910B1") as chip:
        with pytest.raises(error) as caught:
            function(*arguments)
        assert words in str(caught.value) and "(test_sync.py:" in str(caught.value)
    assert len(chip.result) == 0  # nothing half-recorded, and nothing unpaired


# --- barriers ---


def test_a_barrier_of_one_pipe_costs_nothing() -> None:
    with Chip("Ascend910B1") as chip:
        compute()
        pipe_barrier("PIPE-V")
        compute()
    assert times(chip)[1:] == [("PIPE_BARRIER", "PIPE-V", 10, 10), ("VABS", "PIPE-V", 10, 20)]
    assert chip.result.pipes["PIPE-V"].count == 2


def test_pipe_all_holds_the_whole_core_and_no_other() -> None:
    with Chip("Ascend910B1") as chip:
        with Core("a"):
            load()
            pipe_barrier("PIPE-ALL")
            compute()
        with Core("b"):
            compute()
    assert [(name, start) for name, _, start, _ in times(chip) if name == "VABS"] == [("VABS", 10), ("VABS", 0)]


def test_two_pipe_all_barriers_in_a_row() -> None:
    with Chip("Ascend910B1") as chip:
        load()
        pipe_barrier("PIPE-ALL")
        pipe_barrier("PIPE-ALL")
        load()
        compute()
    assert [start for name, _, start, _ in times(chip) if name in ("VABS", "MOV-GM_TO_UB")] == [0, 10, 10]


def test_pipe_all_holds_flags_as_well() -> None:
    with Chip("Ascend910B1") as chip:
        load()
        pipe_barrier("PIPE-ALL")
        set_flag("PIPE-M", "PIPE-V", 0)
        wait_flag("PIPE-M", "PIPE-V", 0)
    assert times(chip)[-2:] == [("SET_FLAG", "PIPE-M", 10, 11), ("WAIT_FLAG", "PIPE-V", 11, 12)]


@pytest.mark.parametrize(
    ("pipe", "error", "words"),
    [("PIPE", InputError, "unknown pipe 'PIPE'"), (3, ArgumentError, "pipe must be a str, got int"),
     (None, ArgumentError, "pipe must be a str, got NoneType")],
)  # fmt: skip
def test_wrong_barriers(pipe: Any, error: type[Exception], words: str) -> None:
    with Chip("Ascend910B1") as chip:
        with pytest.raises(error) as caught:
            pipe_barrier(pipe)
        assert f"pipe_barrier: {words}" in str(caught.value)
    assert len(chip.result) == 0


def test_a_barrier_of_the_register_pipes_needs_one_name() -> None:
    with (
        Chip("Ascend950PR_9589"),
        pytest.raises(InputError, match="pipe_barrier: 'PIPE-VEC' names no single pipe; name one, or PIPE-ALL"),
    ):
        pipe_barrier("PIPE-VEC")


# --- cores ---


def test_cores_nest_and_leaving_one_restores_the_outer() -> None:
    with Chip("Ascend910B1") as chip:
        compute()
        with Core("aic0"):
            compute()
            with Core("AIV1"):
                compute()
            compute()
        compute()
    assert [pipe for _, pipe, _, _ in times(chip)] == ["PIPE-V", "aic0-PIPE-V", "AIV1-PIPE-V", "aic0-PIPE-V", "PIPE-V"]


def test_the_same_core_twice_is_the_same_core() -> None:
    with Chip("Ascend910B1") as chip:
        core = Core("aic0")
        for _ in range(2):
            with core:
                compute()
        with Core("aic0"):
            compute()
    assert chip.result.total_cycles == 30
    assert repr(core) == "Core('aic0')"


def test_cores_run_beside_each_other() -> None:
    with Chip("Ascend910B1") as chip:
        for number in range(8):
            with Core(f"aiv{number}"):
                compute()
    assert chip.result.total_cycles == 10 and len(chip.result.pipes) == 8


@pytest.mark.parametrize("name", ["a", "0", "A" * 128, "aic0", "AIV47"])
def test_names_of_cores(name: str) -> None:
    with Chip("Ascend910B1") as chip, Core(name):
        compute()
    assert list(chip.result.pipes) == [f"{name}-PIPE-V"]


@pytest.mark.parametrize(
    "name", ["", "a" * 129, "aic 0", "aic-0", "aic_0", "核", "a\n", 'a"', "a\\", "\x01", "\ud800", "a.b"]
)
def test_names_no_core_can_have(name: str) -> None:
    with pytest.raises(InputError) as caught:
        Core(name)
    message = str(caught.value)
    assert message.startswith(
        f"Core: name {name[:64]!a}; allowed are 1 to 128 letters A-Z a-z and digits 0-9 (test_sync.py:"
    )
    assert message.isprintable() and len(message) < 300


@pytest.mark.parametrize("name", [None, 0, True, b"aic0"])
def test_names_that_are_no_text(name: Any) -> None:
    with pytest.raises(ArgumentError, match="Core: the name must be a str, got "):
        Core(name)


def test_a_core_outside_any_chip_does_no_harm(outside_chip: None) -> None:
    with Core("aic0"):
        set_flag("PIPE-V", "PIPE-M", 0)
    with Chip("Ascend910B1") as chip:
        compute()
    assert list(chip.result.pipes) == ["PIPE-V"]


def test_thousands_of_cores_are_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match="Core: more than 4095 cores in one program"), Chip("Ascend910B1"):
        for number in range(5000):
            with Core(f"c{number}"):
                pass
