# SPDX-License-Identifier: Apache-2.0
"""Tensor.load: paths, what the target takes over, formats, dtypes, sizes and repeats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest
from utils import tables
from utils.registrations import MEMORIES, register_cost

import mskpp
from mskpp import Chip, Tensor
from mskpp.errors import ArgumentError, InputError

CHIPS = ("Ascend910B1", "Ascend950PR_9589")
PATHS = {chip: {(row["source"], row["target"]): row for row in tables.rows(chip, "paths")} for chip in CHIPS}
LEGAL = [(chip, *path) for chip in CHIPS for path in PATHS[chip] if "VEC" not in path]
ILLEGAL = [
    (chip, source, target)
    for chip in CHIPS
    for source, target in itertools.product(MEMORIES, repeat=2)
    if (source, target) not in PATHS[chip]
]


def ready(memory: str, dtype: str = "FP16", size: Any = (16, 16), layout: str | None = None) -> Tensor:
    return Tensor(memory, dtype, size, layout, True)


@pytest.mark.parametrize(("chip", "source", "target"), LEGAL)
def test_every_path_runs_on_its_pipe(chip: str, source: str, target: str) -> None:
    with Chip(chip) as opened:
        Tensor(target).load(ready(source))
    [event] = opened.result.events()
    assert (event.name, event.kind, event.work) == (f"MOV-{source}_TO_{target}", "move", 512)
    assert event.pipe == PATHS[chip][source, target]["pipe"]


@pytest.mark.parametrize(("chip", "source", "target"), ILLEGAL)
def test_every_other_path_is_an_error(chip: str, source: str, target: str) -> None:
    ways = [other for one, other in PATHS[chip] if one == source]
    with pytest.raises(InputError) as caught, Chip(chip):
        Tensor(target).load(ready(source))
    message = (
        f"load: {chip} has no path {source} to {target}; from {source} data goes to {', '.join(ways) or 'nowhere'} ("
    )
    assert str(caught.value).startswith(message)


def test_the_target_takes_over_what_it_lacks() -> None:
    with Chip("Ascend910B1"):
        target = Tensor("L1")
        target.load(Tensor("GM", "BF16", [32, 48], "ND"))
        assert (target.dtype, target.size, target.format) == ("BF16", [32, 48], "ND")
        partly = Tensor("L1", size=[2000], format="NZ")
        partly.load(Tensor("GM", "BF16", [32, 48], "ND"))
        assert (partly.dtype, partly.size, partly.format) == ("BF16", [2000], "NZ")


def test_the_target_takes_the_shape_of_a_slice() -> None:
    with Chip("Ascend910B1"):
        target = Tensor("UB")
        target.load(Tensor("GM", "FP16", [32, 48])[::2, 3])
        assert target.size == [16]


def test_a_failed_load_leaves_the_target_as_it_was() -> None:
    target = Tensor("UB", size=[4])
    with pytest.raises(InputError), Chip("Ascend910B1"):
        target.load(Tensor("GM", "FP16", [32, 48], "ND"))
    assert (target.dtype, target.size, target.format) == (None, [4], None)


def test_bytes_are_those_of_the_source_view() -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("UB", "FP16", [64, 64]).load(ready("GM", size=[32, 48])[:16])
    assert next(chip.result.events()).work == 16 * 48 * 2


# --- sizes ---


@pytest.mark.parametrize("size", [[16, 16], [256], [1000], [2, 2, 64]])
def test_a_target_of_at_least_the_size_is_enough(size: list[int]) -> None:
    with Chip("Ascend910B1"):
        Tensor("UB", "FP16", size).load(ready("GM"))


def test_a_smaller_target_is_an_error() -> None:
    with pytest.raises(InputError) as caught, Chip("Ascend910B1"):
        Tensor("UB", "FP16", [16, 16])[:15].load(ready("GM"))
    assert "the target [15,16] is smaller than the source [16,16]; it must hold at least 256 elements" in str(
        caught.value
    )


@pytest.mark.parametrize("source", [Tensor("L1"), Tensor("L1", "FP16"), Tensor("L1", None, [4])], ids=repr)
def test_a_source_without_dtype_or_size_is_an_error(source: Tensor) -> None:
    with (
        pytest.raises(InputError, match="has no dtype or no size yet; give it both, or load it first"),
        Chip("Ascend910B1"),
    ):
        Tensor("L0A").load(source)


# --- dtypes ---


@pytest.mark.parametrize(
    ("given", "wanted"), [("FP32", "FP16"), ("FP32", "BF16"), ("FP32", "FP32"), ("INT32", "FP16"), ("INT32", "INT8")]
)
@pytest.mark.parametrize(("chip", "target"), [(CHIPS[0], "GM"), (CHIPS[0], "L1"), (CHIPS[1], "UB")])
def test_the_fixpipe_converts_at_no_extra_cost(chip: str, target: str, given: str, wanted: str) -> None:
    with Chip(chip) as opened:
        Tensor(target, wanted, [16, 16]).load(ready("L0C", given))
        Tensor(target, given, [16, 16]).load(ready("L0C", given))
    converted, plain = opened.result.events()
    assert converted.end - converted.start == plain.end - plain.start
    assert converted.work == plain.work == 1024


@pytest.mark.parametrize(
    ("source", "target", "given", "wanted"),
    [
        ("L0C", "GM", "FP32", "INT8"),
        ("L0C", "GM", "INT32", "BF16"),
        ("L0C", "GM", "FP16", "FP32"),
        ("GM", "UB", "FP32", "FP16"),
        ("GM", "L1", "FP16", "BF16"),
        ("UB", "GM", "INT32", "FP16"),
        ("UB", "UB", "FP16", "UINT16"),
    ],
)
def test_other_dtypes_must_agree(source: str, target: str, given: str, wanted: str) -> None:
    with pytest.raises(ArgumentError) as caught, Chip("Ascend910B1"):
        Tensor(target, wanted, [16, 16]).load(ready(source, given))
    words = f"load: the source is {given} [16,16] in {source} but the target is {wanted} in {target}; dtypes must agree"
    assert str(caught.value).startswith(words)
    assert isinstance(caught.value, TypeError)


# --- formats ---


@pytest.mark.parametrize(
    ("source", "target", "given", "wanted"),
    [
        ("GM", "L1", "ND", "NZ"),
        ("GM", "L1", "NHWC", "NC1HWC0"),
        ("L0C", "GM", "NZ", "ND"),
        ("L0C", "GM", "NC1HWC0", "NHWC"),
    ],
)
def test_conversions_on_the_way_cost_by_their_own_table(source: str, target: str, given: str, wanted: str) -> None:
    curve = tables.curves("Ascend910B1", "mov")[(f"{source}_TO_{target}_TRANS",)]
    size, rate = curve[len(curve) // 2]
    with Chip("Ascend910B1") as chip:
        chip.set_cache_hit_ratio({"cache_hit_ratio": 1})
        Tensor(target, "INT8", [size], wanted).load(ready(source, "INT8", [size], given))
    assert chip.result.total_cycles == tables.ceil(size / (rate * 2**30 / 1.85e9))


@pytest.mark.parametrize("layout", ["ND", "NZ", "NCHW", "NHWC", "NC1HWC0", "FRACTAL"])
def test_the_same_format_is_no_conversion(layout: str) -> None:
    with Chip("Ascend910B1") as chip:
        for wanted in (layout, None):
            Tensor("L1", "FP16", [16, 16], wanted).load(ready("GM", layout=layout))
    first, second = chip.result.events()
    assert first.end - first.start == second.end - second.start


@pytest.mark.parametrize(
    ("source", "target", "given", "wanted"),
    [
        ("GM", "L1", "NZ", "ND"),
        ("GM", "L1", "ND", "NC1HWC0"),
        ("GM", "L1", "NCHW", "NZ"),
        ("GM", "UB", "ND", "NZ"),
        ("L1", "L0A", "ND", "NZ"),
        ("L0C", "GM", "ND", "NZ"),
        ("L0C", "GM", "NZ", "NHWC"),
        ("L0C", "L1", "NZ", "ND"),
        ("UB", "GM", "NZ", "ND"),
    ],
)
def test_other_conversions_are_errors_that_name_both_formats(source: str, target: str, given: str, wanted: str) -> None:
    with pytest.raises(ArgumentError) as caught, Chip("Ascend910B1"):
        Tensor(target, "FP16", [16, 16], wanted).load(ready(source, layout=given))
    assert f"the source is {given} in {source} but the target is {wanted} in {target};" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "wanted"), [("GM", "L1", "NZ"), ("GM", "L1", "NC1HWC0"), ("L0C", "GM", "ND")]
)
def test_where_a_conversion_hangs_on_it_the_source_needs_a_format(source: str, target: str, wanted: str) -> None:
    with pytest.raises(ArgumentError) as caught, Chip("Ascend910B1"):
        Tensor(target, "FP16", [16, 16], wanted).load(Tensor(source, "FP16", [16, 16], None, True))
    words = (
        f"load: the source has no format in {source} but the target is {wanted} in {target}; give the source its format"
    )
    assert str(caught.value).startswith(words)


def test_elsewhere_a_source_without_a_format_is_not_converted() -> None:
    with Chip("Ascend910B1") as chip:
        target = Tensor("UB", "FP16", [16, 16], "ND")
        target.load(Tensor("GM", "FP16", [16, 16]))
    assert target.format == "ND" and len(chip.result) == 1


# --- repeat ---


@pytest.mark.parametrize("repeat", [2, 7, numpy.int64(16)])
def test_repeat_costs_by_the_repeat_table(repeat: int) -> None:
    curve = tables.curves("Ascend910B1", "mov_repeat")[("L1_TO_L0A",)]
    with Chip("Ascend910B1") as chip:
        Tensor("L0A").load(ready("L1"), repeat=repeat)
    rate = tables.lerp(curve, max(int(repeat), 1)) * 2**30 / 1.85e9
    assert chip.result.total_cycles == tables.ceil(512 / rate)


def test_a_path_without_a_size_table_always_costs_by_repeats() -> None:
    curve = tables.curves("Ascend910B1", "mov_repeat")[("GM_TO_L0A",)]
    with Chip("Ascend910B1") as chip:
        for size, count in ((100, 1), (512, 1), (513, 2), (5000, 10)):
            Tensor("L0A").load(ready("GM", "INT8", [size]))
            rate = tables.lerp(curve, count) * 2**30 / 1.85e9
            assert count == -(-size // 512)
            expected = tables.ceil(max(size, 512) / rate)
            Tensor("UB").load(ready("GM", "INT8", [expected]))  # carries the expectation to below
    events = list(chip.result.events())
    assert [e.end - e.start for e in events[::2]] == [e.work for e in events[1::2]]


def test_repeat_means_nothing_to_a_path_without_a_repeat_table() -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(ready("GM"), repeat=9)
        Tensor("UB").load(ready("GM"))
    first, second = chip.result.events()
    assert first.end - first.start == second.end - second.start


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"repeat": 0}, InputError, "load: repeat is 0; it must be at least 1"),
        ({"repeat": -1}, InputError, "load: repeat is -1"),
        ({"repeat": True}, ArgumentError, "load: repeat must be an int, got bool"),
        ({"repeat": 1.0}, ArgumentError, "load: repeat must be an int, got float"),
        ({"repeat": 2**63}, InputError, "load: repeat is an integer outside -2^63 to 2^63-1"),
        ({"repeat": None}, ArgumentError, "load: repeat must be an int, got NoneType"),
        ({"set_value": -2}, InputError, "load: set_value is -2 and expect_value -1; allowed are -1 (none) and above"),
        ({"expect_value": -7}, InputError, "expect_value -7"),
        ({"set_value": "1"}, ArgumentError, "load: set_value must be an int, got str"),
        ({"expect_value": False}, ArgumentError, "load: expect_value must be an int, got bool"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught, Chip("Ascend910B1"):
        Tensor("UB").load(ready("GM"), **options)
    assert words in str(caught.value) and "(test_load.py:" in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, "GM", [ready("GM")]], ids=repr)
def test_a_source_that_is_no_tensor(source: Any) -> None:
    with pytest.raises(ArgumentError, match="load: the source must be a Tensor, got "), Chip("Ascend910B1"):
        Tensor("UB").load(source)


# --- registered costs of paths ---


def test_a_path_may_get_a_cost_of_the_users_own() -> None:
    register_cost(["MOV-GM_TO_UB"], lambda: 77.2, lambda: 5)
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(ready("GM"))
    [event] = chip.result.events()
    assert (event.end, event.origin, event.work, event.pipe) == (78, "user", 5, "PIPE-MTE2")


def test_the_work_of_a_path_is_its_bytes_unless_the_user_says_otherwise() -> None:
    @mskpp.RegisterPrefOf("MOV-GM_TO_UB")
    class Cost(mskpp.PrefModel):
        def time(self) -> int:
            return 7

    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(ready("GM"))
    assert next(chip.result.events()).work == 512


def test_memory_is_unlimited_and_writing_waits_for_nothing() -> None:
    """Write-after-read: the second load into a buffer does not wait for the reader of the first."""
    register_cost(["MOV-GM_TO_UB"], lambda: 10)
    register_cost(["VABS"], lambda: 100)
    with Chip("Ascend910B1") as chip:
        x = Tensor("UB", "FP16", [128])
        for _ in range(3):
            x.load(ready("GM", size=[128]))
            mskpp.vabs(x, Tensor("UB"))()
    times = [(e.name, e.start, e.end) for e in chip.result.events()]
    assert times[::2] == [("MOV-GM_TO_UB", 0, 10), ("MOV-GM_TO_UB", 10, 20), ("MOV-GM_TO_UB", 20, 30)]
    assert times[1::2] == [("VABS", 10, 110), ("VABS", 110, 210), ("VABS", 210, 310)]


# --- marked versions ---


@pytest.fixture
def priced() -> None:
    costs = iter((100, 30, 20, 10, 5, 5, 5))
    register_cost(["MOV-GM_TO_UB", "MOV-UB_TO_GM", "MOV-UB_TO_UB"], lambda: next(costs))


def starts(chip: Chip) -> list[int]:
    return [event.start for event in chip.result.events()]


def test_expect_value_waits_for_the_latest_earlier_version_so_marked(priced: None) -> None:
    with Chip("Ascend910B1") as chip:
        x, g = Tensor("UB", "FP16", [128]), ready("GM", size=[128])
        with mskpp.Core("a"):
            x.load(g, set_value=1)  # 0 to 100
        with mskpp.Core("b"):
            x.load(g, set_value=1)  # 0 to 30
        with mskpp.Core("c"):
            x.load(g, set_value=2)  # 0 to 20
        Tensor("GM").load(x, expect_value=1)
    assert starts(chip) == [0, 0, 0, 30]


def test_expect_value_waits_for_the_next_version_if_there_is_none_yet(priced: None) -> None:
    with Chip("Ascend910B1") as chip:
        x, g = Tensor("UB", "FP16", [128]), ready("GM", size=[128])
        with mskpp.Core("a"):
            x.load(g)
        with mskpp.Core("b"):
            Tensor("GM").load(x, expect_value=0)  # for the third, not for what is there
        with mskpp.Core("c"):
            x.load(g, set_value=3)
        with mskpp.Core("d"):
            x.load(g, set_value=0)  # 0 to 10
    assert starts(chip) == [0, 10, 0, 0]


@pytest.mark.parametrize("forget", ["set_valid", "set_invalid"])
def test_set_valid_and_set_invalid_forget_marked_versions(priced: None, forget: str) -> None:
    with Chip("Ascend910B1") as chip:
        x, g = Tensor("UB", "FP16", [128]), ready("GM", size=[128])
        with mskpp.Core("a"):
            x.load(g, set_value=1)  # 0 to 100
        getattr(x, forget)()
        with mskpp.Core("b"):
            Tensor("GM").load(x, expect_value=1)
        with mskpp.Core("c"):
            x.load(g, set_value=1)  # 0 to 20
    assert starts(chip) == [0, 20, 0]


def test_a_mark_on_another_part_is_another_version(priced: None) -> None:
    with Chip("Ascend910B1") as chip:
        x, g = Tensor("UB", "FP16", [4, 128]), ready("GM", size=[4, 128])
        with mskpp.Core("a"):
            x[2:].load(g[2:], set_value=1)  # 0 to 100
        with mskpp.Core("b"):
            x[:2].load(g[:2], set_value=1)  # 0 to 30
        with mskpp.Core("c"):
            Tensor("GM").load(x[1], expect_value=1)
    assert starts(chip) == [0, 0, 30]


def test_a_mark_that_never_comes_is_a_deadlock() -> None:
    with pytest.raises(mskpp.DeadlockError, match="which nothing writes"), Chip("Ascend910B1"):
        Tensor("UB").load(ready("GM"), expect_value=4)
