# SPDX-License-Identifier: Apache-2.0
"""prof_data: the measured rates themselves."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from utils import tables

import mskpp
from mskpp import Chip, prof_data
from mskpp.errors import ArgumentError, InputError

B1 = 2**30 / 1.85e9  # GiB/s to bytes per cycle of Ascend910B1


def test_vectors_give_bytes_per_cycle() -> None:
    for (name, dtypes), curve in tables.curves("Ascend910B1", "vec").items():
        model = getattr(prof_data, f"{name.capitalize()}Data")()
        key = dtypes.replace(" ", "_")
        for elements, rate in curve[:-1]:
            assert model.get(elements, key) == pytest.approx(rate)
        middle = (curve[0][0] + curve[1][0]) // 2
        assert model.get(middle, key.lower()) == pytest.approx(tables.lerp(curve, middle))
        assert model.get(1, key) == pytest.approx(curve[0][1])
        assert model.get(10**9, key) == pytest.approx(max(rate for _, rate in curve))


def test_moves_give_bytes_per_cycle() -> None:
    model = prof_data.MovData()
    for (path,), curve in tables.curves("Ascend910B1", "mov").items():
        source, target, transform = tables.path_of(path)
        for size in (1, curve[1][0], curve[1][0] + 100, 10**8):
            assert model.get(source, target, size, transform) == pytest.approx(tables.lerp(curve, size) * B1)
    assert model.get("gm", "ub", numpy.int64(1024)) is not None
    assert model.get_peak("L1", "L0A") == 256 and model.get_peak("L0C", "L1") == 128
    curve = tables.curves("Ascend910B1", "mov_repeat")[("L1_TO_L0B",)]
    assert model.get_repeat("L1", "L0B", 3) == pytest.approx(tables.lerp(curve, 3) * B1)


def test_the_cube_gives_mac_per_cycle() -> None:
    curve = tables.curves("Ascend910B1", "mmad")["MMAD", "FP16 FP16 FP32"]
    model = prof_data.MmadData()
    for size in (1, 8192, 10_000, curve[-1][0]):
        assert model.get(size) == pytest.approx(tables.lerp(curve, size))
        assert model.get(size, "FP16_FP16_FP32") == model.get(size, "half") == model.get(size)
    assert model.get(10**9) == 4096
    assert model.get(10**9, "INT8") == 8192 and model.get(10**9, "FP32") == 1024 and model.get(10**9, "INT4") == 16384


@pytest.mark.parametrize(
    "ask",
    [
        lambda: prof_data.VaddData().get(128, "INT64_INT64_INT64"),
        lambda: prof_data.VaddData().get(128, "nonsense"),
        lambda: prof_data.MovData().get("L0C", "L1", 128),  # a path without a table
        lambda: prof_data.MovData().get("UB", "L0A", 128),  # no path
        lambda: prof_data.MovData().get_peak("UB", "L0A"),
        lambda: prof_data.MovData().get_repeat("GM", "UB", 2),
        lambda: prof_data.MmadData().get(128, "INT16"),
    ],
    ids=range(7),
)
def test_none_where_there_is_no_figure(ask: Any) -> None:
    assert ask() is None


def test_rates_are_those_of_the_chip_in_force() -> None:
    outside = prof_data.MovData().get("GM", "UB", 4096)
    with Chip("Ascend910B4"):  # 1500 MHz; the same time is fewer cycles
        inside = prof_data.MovData().get("GM", "UB", 4096)
        assert prof_data.MovData().get("UB", "L0C", 4096) is None
    assert inside == pytest.approx(outside * 1850 / 1500)
    with Chip("Ascend950PR_9589"):
        assert prof_data.MmadData().get(10**9, "FP32") == 256
        assert prof_data.MmadData().get(10**9, "INT4") is None


def test_the_documented_use() -> None:
    rate = prof_data.VaddData().get(4096, "FP16_FP16_FP16")
    with Chip("Ascend910B1") as chip:
        tables.vector_call("VADD", ["FP16"] * 3, 4096)
    assert tables.ceil(2 * 4096 / rate) == chip.result.total_cycles


def test_every_instruction_with_a_table_has_a_class() -> None:
    for name in {name for name, _ in tables.curves("Ascend910B1", "vec")}:
        assert getattr(prof_data, f"{name}Data").instruction == name
    for wrong in ("FooData", "Vadd", "vtranspose_data", "__path__"):
        with pytest.raises(AttributeError):
            getattr(prof_data, wrong)
    with pytest.raises(
        AttributeError, match="has no 'FooData'; it has MovData, MmadData and <instruction>Data, as VaddData"
    ):
        prof_data.FooData  # noqa: B018


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: prof_data.MovData().get("GM", "XX", 1), InputError, "MovData: unknown mem_type 'XX'"),
        (lambda: prof_data.MovData().get(None, "UB", 1), ArgumentError, "src must be a str, got NoneType"),
        (lambda: prof_data.MovData().get("GM", "UB", 0), InputError, "bytes is 0; it must be from 1 to 2^63-1"),
        (lambda: prof_data.MovData().get("GM", "UB", 2**63), InputError, "bytes is 9223372036854775808"),
        (lambda: prof_data.MovData().get("GM", "UB", True), ArgumentError, "bytes must be an int, got bool"),
        (lambda: prof_data.MovData().get("GM", "UB", 1.0), ArgumentError, "bytes must be an int, got float"),
        (lambda: prof_data.MovData().get_repeat("GM", "UB", -1), InputError, "repeat is -1"),
        (lambda: prof_data.MmadData().get(1, "FP17"), InputError, "MmadData: unknown dtype 'FP17'"),
        (lambda: prof_data.MmadData().get(1, 5), ArgumentError, "dtype must be a str, got int"),
        (lambda: prof_data.MmadData().get("1"), ArgumentError, "granularity must be an int, got str"),
        (lambda: prof_data.VaddData().get(1, 5), ArgumentError, "instr_type must be a str, got int"),
        (
            lambda: prof_data.VaddData().get(None, "FP16_FP16_FP16"),
            ArgumentError,
            "granularity must be an int, got NoneType",
        ),
    ],
    ids=range(12),
)
def test_wrong_questions(ask: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        ask()
    assert words in str(caught.value) and isinstance(caught.value, mskpp.MskppError)
