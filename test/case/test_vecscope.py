# SPDX-License-Identifier: Apache-2.0
"""Vector registers of architecture 3510: VecScope, register moves, RV_ instructions and PIPE-VEC."""

from __future__ import annotations

from typing import Any

import pytest
from utils import results

import mskpp
from mskpp import Chip, Core, Tensor, VecScope, set_flag, wait_flag
from mskpp.core.instructions import BUILT_IN
from mskpp.errors import ArgumentError, InputError, StateError

CHIP = "Ascend910_95"  # the name these scripts use
RV = [name for name in BUILT_IN if name.startswith("rv_")]


def ub(elements: int = 128, dtype: str = "FP16") -> Tensor:
    return Tensor("UB", dtype, [elements], None, True)


def register(elements: int = 128, dtype: str = "FP16") -> Tensor:
    return Tensor("VEC", dtype, [elements], None, True)


def times(chip: Chip) -> list[tuple[str, str, int, int]]:
    return [(event.name, event.pipe, event.start, event.end) for event in chip.result.events()]


def test_slots_are_used_in_turn_from_the_first_in_each_scope() -> None:
    with Chip(CHIP) as chip:
        for _ in range(2):
            with VecScope("vf"):
                x, y, z, out = Tensor("VEC"), Tensor("VEC"), Tensor("VEC"), Tensor("UB")
                x.load(ub())
                y.load(ub())
                mskpp.rv_vadd(x, y, z)()
                mskpp.rv_vmax(x, y, z)()
                mskpp.rv_vmin(x, y, z)()
                out.load(z)
    assert chip.name == "Ascend950PR_9589"
    once = [
        ("RV_VLD", "RVECLD0"),
        ("RV_VLD", "RVECLD1"),
        ("RV_VADD", "RVECEX0"),
        ("RV_VMAX", "RVECEX1"),
        ("RV_VMIN", "RVECEX0"),
        ("RV_VST", "RVECST"),
    ]
    assert [(name, pipe) for name, pipe, _, _ in times(chip)] == once * 2
    assert [(start, end) for _, _, start, end in times(chip)[:6]] == [(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("name", RV)
@pytest.mark.parametrize(
    ("elements", "dtype", "registers"), [(1, "FP16", 1), (128, "FP16", 1), (129, "FP16", 2), (640, "FP32", 10)]
)
def test_one_cycle_a_register(name: str, elements: int, dtype: str, registers: int) -> None:
    with Chip(CHIP) as chip, VecScope("vf"):
        out = getattr(mskpp, name)(register(elements, dtype), register(elements, dtype), Tensor("VEC"))()[0]
    [event] = chip.result.events()
    assert (event.name, event.pipe, event.end) == (name.upper(), "RVECEX0", registers)
    assert (out.dtype, out.size, out.mem_type) == (dtype, [elements], "VEC")
    assert event.kind == "computation"


@pytest.mark.parametrize(("elements", "cycles"), [(1, 1), (128, 1), (129, 2), (1280, 10)])
def test_register_moves_cost_one_cycle_a_register(elements: int, cycles: int) -> None:
    with Chip(CHIP) as chip, VecScope("vf"):
        x = Tensor("VEC")
        x.load(ub(elements))
        Tensor("UB").load(x)
    assert [(name, end - start) for name, _, start, end in times(chip)] == [("RV_VLD", cycles), ("RV_VST", cycles)]


def test_a_scalar_operand() -> None:
    with Chip(CHIP) as chip, VecScope("vf"):
        mskpp.rv_vadds(register(), 2.0, Tensor("VEC"))()
    assert chip.result.total_cycles == 1


def test_statistics_name_register_moves() -> None:
    with Chip(CHIP) as chip, VecScope("vf"):
        x = Tensor("VEC")
        x.load(ub())
        Tensor("UB").load(x)
    assert {row.name: row.bytes for row in chip.result.instructions.values()} == {"RV_VLD": 256, "RV_VST": 256}
    assert list(chip.result.pipes) == ["RVECLD0", "RVECST"]


def test_the_trace_spans_each_scope_on_pipe_vec() -> None:
    with Chip(CHIP) as chip:
        chip.enable_trace()
        for name in ("first", 'se"cond \\ <b>'):
            with VecScope(name):
                x = Tensor("VEC")
                x.load(ub(256))
                Tensor("UB").load(x)
        with VecScope("empty"):
            pass
    names = results.thread_names(chip.output_dir)
    spans = [e for e in results.slices(chip.output_dir) if names[e["pid"], e["tid"]] == "PIPE-VEC"]
    assert [(e["name"], e["args"]["Cycle"], e["args"]["Scope"]) for e in spans] == [
        ("PIPE-VEC", 4, "first"),
        ("PIPE-VEC", 4, 'se"cond \\ <b>'),
    ]


def test_scopes_of_cores_are_their_own() -> None:
    with Chip(CHIP) as chip:
        for core in ("aiv0", "aiv1"):
            with Core(core), VecScope("vf"):
                Tensor("VEC").load(ub())
    assert [pipe for _, pipe, _, _ in times(chip)] == ["aiv0-RVECLD0", "aiv1-RVECLD0"]


def test_a_nested_scope_counts_for_itself() -> None:
    with Chip(CHIP) as chip, VecScope("outer"):
        Tensor("VEC").load(ub())
        with VecScope("inner"):
            Tensor("VEC").load(ub())
        Tensor("VEC").load(ub())
    assert [pipe for _, pipe, _, _ in times(chip)] == ["RVECLD0", "RVECLD0", "RVECLD1"]


def test_pipe_vec_as_target_holds_both_load_slots() -> None:
    with Chip(CHIP) as chip:
        x = Tensor("UB")
        x.load(Tensor("GM", "FP16", [4096]))
        set_flag("PIPE-MTE2", "PIPE-VEC", 0)
        wait_flag("PIPE-MTE2", "PIPE-VEC", 0)
        with VecScope("vf"):
            for _ in range(2):
                Tensor("VEC").load(ub())
    loaded = times(chip)[0][3]
    assert times(chip)[2:4] == [
        ("WAIT_FLAG", "RVECLD0", loaded + 1, loaded + 2),
        ("WAIT_FLAG", "RVECLD1", loaded + 1, loaded + 2),
    ]
    assert [start for name, _, start, _ in times(chip) if name == "RV_VLD"] == [loaded + 2] * 2


def test_pipe_vec_as_source_is_the_store_slot() -> None:
    with Chip(CHIP) as chip:
        with VecScope("vf"):
            Tensor("UB").load(register())
        set_flag("PIPE-VEC", "PIPE-MTE3", 0)
        wait_flag("PIPE-VEC", "PIPE-MTE3", 0)
    assert times(chip) == [
        ("RV_VST", "RVECST", 0, 1),
        ("SET_FLAG", "RVECST", 1, 2),
        ("WAIT_FLAG", "PIPE-MTE3", 2, 3),
    ]


def test_pipe_vec_flags_may_be_waited_for_before_they_are_set() -> None:
    with Chip(CHIP) as chip:
        wait_flag("PIPE-V", "PIPE-VEC", 0)
        set_flag("PIPE-V", "PIPE-VEC", 0)
    assert [(start, end) for _, _, start, end in times(chip)] == [(1, 2), (1, 2), (0, 1)]


def test_unpaired_pipe_vec_flags_are_told_as_they_were_written() -> None:
    with pytest.raises(mskpp.FlagError, match=r'wait_flag\("PIPE-V", "PIPE-VEC", 4\)'), Chip(CHIP):
        wait_flag("PIPE-V", "PIPE-VEC", 4)


@pytest.mark.parametrize(
    "issue",
    [
        lambda: Tensor("VEC").load(ub()),
        lambda: Tensor("UB").load(register()),
        lambda: mskpp.rv_vadd(register(), register(), Tensor("VEC"))(),
    ],
)
def test_registers_are_used_inside_a_scope_only(issue: Any) -> None:
    with (
        Chip(CHIP) as chip,
        pytest.raises(StateError, match=r"vector registers are used inside `with VecScope\(name\):` only"),
    ):
        issue()
    assert len(chip.result) == 0


@pytest.mark.parametrize("name", RV)
def test_910_has_no_registers(name: str) -> None:
    with pytest.raises(InputError) as caught, Chip("Ascend910B1"), VecScope("vf"):
        getattr(mskpp, name)(register(), register(), Tensor("VEC"))()
    assert f"{name}: Ascend910B1 (architecture 2201) has no vector registers; they came with" in str(caught.value)


@pytest.mark.parametrize("name", RV)
def test_operands_are_registers(name: str) -> None:
    for i in range(3):
        operands = [register(), register(), Tensor("VEC")]
        operands[i] = ub()
        with (
            pytest.raises(InputError, match=f"{name}: {'xyz'[i]} lies in UB; it must lie in VEC"),
            Chip(CHIP),
            VecScope("vf"),
        ):
            getattr(mskpp, name)(*operands)()


def test_operands_agree() -> None:
    with Chip(CHIP), VecScope("vf"):
        with pytest.raises(
            ArgumentError, match=r"rv_vadd: x is FP16 \[128\] but y is FP32 \[128\]; their dtypes must agree"
        ):
            mskpp.rv_vadd(register(), register(128, "FP32"), Tensor("VEC"))()
        with pytest.raises(InputError, match="each axis of y must equal x's or be 1"):
            mskpp.rv_vadd(register(), register(64), Tensor("VEC"))()


@pytest.mark.parametrize("name", ["v", "name with blanks", "向量", "v" * 128, 'q"\\'])
def test_names_of_scopes(name: str) -> None:
    assert repr(VecScope(name)) == f"VecScope({name!r})"


@pytest.mark.parametrize("name", ["", "v" * 129, "a\nb", "\x01", "\ud800"])
def test_names_no_scope_can_have(name: str) -> None:
    with pytest.raises(InputError) as caught:
        VecScope(name)
    assert "allowed are 1 to 128 printable characters (test_vecscope.py:" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [None, 1, b"vf"])
def test_names_that_are_no_text(name: Any) -> None:
    with pytest.raises(ArgumentError, match="VecScope: the name must be a str, got "):
        VecScope(name)


def test_a_scope_outside_any_chip_does_no_harm() -> None:
    with VecScope("vf"), Chip(CHIP) as chip, VecScope("inner"):
        Tensor("VEC").load(ub())
    assert len(chip.result) == 1
