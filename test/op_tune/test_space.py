# SPDX-License-Identifier: Apache-2.0
"""Spaces: which configurations there are, their order, and what is refused before anything is tried."""

from __future__ import annotations

import itertools
import math
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mskpp.errors import ArgumentError, InputError
from mskpp.optune.space import Space, shuffled


def listed(configs: Any = None, space: Any = None, where: Any = None, strategy: str = "in order", seed: int = 0) -> Any:
    one = Space(configs, space, where, "autotune")
    return [one.config(number) for number in one.numbers(strategy, seed)]


def refused(kind: type[Exception], configs: Any = None, space: Any = None, where: Any = None) -> str:
    with pytest.raises(kind) as caught:
        Space(configs, space, where, "autotune")
    return str(caught.value)


def test_a_list_is_taken_as_it_is() -> None:
    configs = [{"A": "x<1, 2>"}, {"A": 3, "B": True}, {"B": 0.5}]
    assert listed(configs) == configs


def test_a_product_changes_its_last_name_fastest() -> None:
    assert listed(space={"A": [1, 2], "B": ["x", "y", "z"]}) == [
        {"A": a, "B": b} for a, b in itertools.product([1, 2], "xyz")
    ]


def test_the_list_that_was_given_may_change_afterwards() -> None:
    configs = [{"A": 1}]
    one = Space(configs, None, None, "autotune")
    configs[0]["A"] = 2
    one.config(0)["A"] = 3
    assert one.config(0) == {"A": 1}


@pytest.mark.parametrize(
    "value", [True, 3, -1, 0.25, "gemm::TileShape<1, 2>", np.int64(8), np.float32(0.5), np.bool_(True), np.uint8(255)]
)
def test_values_of_every_kind(value: object) -> None:
    (found,) = listed([{"A": value}])
    assert found["A"] == value
    assert type(found["A"]) in (bool, int, float, str)


def test_values_of_numpy_arrays_and_ranges() -> None:
    assert listed(space={"A": range(2), "B": np.array([8, 300])}) == [
        {"A": a, "B": b} for a in (0, 1) for b in (8, 300)
    ]


def test_a_condition_leaves_some_out_and_keeps_the_numbers() -> None:
    one = Space(None, {"A": range(4), "B": range(4)}, lambda A, B: (A + B) % 3 == 0, "autotune")
    numbers = list(one.numbers("in order", 0))
    assert [(c["A"], c["B"]) for c in map(one.config, numbers)] == [(0, 0), (0, 3), (1, 2), (2, 1), (3, 0), (3, 3)]
    assert numbers == [0, 3, 6, 9, 12, 15]


def test_an_exception_in_the_condition_names_the_configuration() -> None:
    with pytest.raises(InputError) as caught:
        listed([{"A": 0}], where=lambda A: 1 / A)
    assert str(caught.value) == (
        "autotune: where: ZeroDivisionError: division by zero, for {'A': 0}; it must be true or false for every "
        "configuration"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_condition_that_does_not_take_the_names() -> None:
    def where(kRows: int, kStep: int) -> bool:
        return True

    assert refused(InputError, space={"kCols": [1]}, where=lambda kRows: True) == (
        "autotune: where: <lambda> takes no keyword 'kCols'; its parameters are: kRows"
    )
    assert refused(InputError, [{"kRows": 1, "kStep": 2}, {"kRows": 1}], where=where) == (
        "autotune: where: where: missing a required argument: 'kStep'; the call and the space give kRows"
    )
    assert len(listed(space={"A": [1, 2], "B": [3]}, where=lambda A, **rest: A == 1)) == 1


def test_a_condition_that_refuses_endlessly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What was allowed before is not lost; where nothing was it is an error."""
    monkeypatch.setattr("mskpp.optune.space.MOST_REFUSALS", 1000)
    one = Space(None, {"A": range(10**6)}, lambda A: A < 2, "autotune")
    assert one.gave_up is False
    assert list(one.numbers("in order", 0)) == [0, 1] and one.gave_up is True
    assert "where refused 1,000 configurations in a row after 2 that it allowed" in caplog.text
    with pytest.raises(InputError, match=r"autotune: where refused 1,000 configurations in a row; make the space narr"):
        listed(space={"A": range(10**6)}, where=lambda A: False)
    few = Space(None, {"A": range(900)}, lambda A: A < 2, "autotune")
    assert list(few.numbers("in order", 0)) == [0, 1] and not few.gave_up


class Nameless:
    def __repr__(self) -> str:
        raise ValueError("no name")


def test_values_for_no_source_may_be_anything() -> None:
    values = [(1, 2), None, [3], {"x": 1}, 1j, math.inf, "", 2**64, -1, "x"]
    one = Space(None, {"A": values, "B": [np.int64(1), np.array([1, 2])]}, None, "autotune", cpp=False)
    assert one.config(0) == {"A": (1, 2), "B": 1} and type(one.config(0)["B"]) is int
    assert len(list(one.samples())) == len(values) + 2 and one.names() == ["A", "B"]
    assert Space([{"A": None}, {"B": (1,)}, {"A": 1}], None, None, "autotune", cpp=False).names() == ["A", "B"]
    for configs in ([{"A": (1, 2)}, {"A": (1, 2)}], [{"A": 1}, {"A": np.int32(1)}]):
        with pytest.raises(InputError, match=r"configs\[1\] is the same as configs\[0\]"):
            Space(configs, None, None, "autotune", cpp=False)
    with pytest.raises(ArgumentError) as caught:
        Space(None, {"A": [Nameless()]}, None, "autotune", cpp=False)
    assert str(caught.value) == (
        "autotune: space['A'][0] is Nameless, whose repr() raises ValueError: no name; values are told apart by it"
    )


def test_a_condition_that_is_never_true() -> None:
    with pytest.raises(InputError, match="where refused all 2 configurations"):
        listed([{"A": 0}, {"A": 1}], where=lambda A: False)


def test_ten_thousand_million_configurations_cost_nothing() -> None:
    begin = time.perf_counter()
    one = Space(None, {f"P{i}": list(range(10)) for i in range(10)}, None, "autotune")
    assert one.size == 10**10
    for strategy in ("in order", "random"):
        found = [tuple(one.config(n).values()) for n in itertools.islice(one.numbers(strategy, 1), 50)]
        assert len(set(found)) == 50
    assert time.perf_counter() - begin < 1


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1))
def test_a_random_order_has_each_number_once(size: int, seed: int) -> None:
    order = list(shuffled(size, seed))
    assert sorted(order) == list(range(size))
    assert order == list(shuffled(size, seed))


def test_a_random_order_is_one_of_many_and_leaves_other_random_numbers_alone() -> None:
    random.seed(5)
    before = random.getstate()
    orders = {tuple(shuffled(100, seed)) for seed in range(200)}
    assert random.getstate() == before
    assert len(orders) == 200 and tuple(range(100)) not in orders
    # Each number comes first about as often as any other, and an order is no shift of another.
    firsts = [next(shuffled(10, seed)) for seed in range(2000)]
    assert all(120 < firsts.count(number) < 290 for number in range(10))
    assert len({tuple((b - a) % 100 for a, b in itertools.pairwise(order)) for order in orders}) == 200


def test_a_random_order_of_a_space_is_spread() -> None:
    one = Space(None, {f"P{i}": list(range(10)) for i in range(30)}, None, "autotune")
    values = [one.config(n) for n in itertools.islice(one.numbers("random", 3), 400)]
    for name in values[0]:
        assert len({config[name] for config in values}) == 10


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_every_combination_has_a_number(lengths: list[int]) -> None:
    space = {f"P{i}": list(range(length)) for i, length in enumerate(lengths)}
    found = listed(space=space)
    assert len(found) == math.prod(lengths)
    assert [tuple(c.values()) for c in found] == list(itertools.product(*space.values()))


def test_samples_have_every_text_and_each_kind_of_number() -> None:
    one = Space(None, {"A": range(-5, 100_000), "B": ["x", 1, "y", True, 0.5, 2, "z"]}, None, "autotune")
    found = list(one.samples())
    assert found[0] == {"A": -5, "B": "x"}
    assert {config["A"] for config in found} == {-5, 0}
    assert {(type(config["B"]), config["B"]) for config in found} >= {
        (str, "y"),
        (str, "z"),
        (bool, True),
        (float, 0.5),
    }
    assert list(Space([{"A": 1}, {"A": 2}], None, None, "autotune").samples()) == [{"A": 1}, {"A": 2}]


def test_what_is_no_space() -> None:
    assert "give either configs" in refused(ArgumentError)
    assert "give either configs" in refused(ArgumentError, [{"A": 1}], {"A": [1]})
    assert "configs is dict" in refused(ArgumentError, {"A": 1})
    assert "configs is str" in refused(ArgumentError, "A=1")
    assert "configs is generator" in refused(ArgumentError, ({"A": i} for i in range(2)))
    assert "configs is empty" in refused(InputError, [])
    assert "configs[1] is str; it must be a dict" in refused(ArgumentError, [{"A": 1}, "A"])
    assert "configs[0] is empty" in refused(InputError, [{}])
    assert "configs[1] is empty" in refused(InputError, [{"A": 1}, {}])
    assert "space is list" in refused(ArgumentError, space=[{"A": 1}])
    assert "space is empty" in refused(InputError, space={})
    assert "space['A'] has no values" in refused(InputError, space={"A": []})
    assert "space['A'] is str" in refused(ArgumentError, space={"A": "123"})
    assert "space['A'] is set" in refused(ArgumentError, space={"A": {1, 2}})
    assert "where is int" in refused(ArgumentError, [{"A": 1}], where=1)


@pytest.mark.parametrize("bad", [None, [1], (1, 2), {"x": 1}, b"4", 1j, np.array([1, 2]), object()])
def test_what_is_no_value(bad: object) -> None:
    assert "configs[0]['A']" in refused(ArgumentError, [{"A": bad}])
    assert "space['A'][1]" in refused(ArgumentError, space={"A": [1, bad]})


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2**64, "", "  "])
def test_what_has_no_text_in_cpp(bad: object) -> None:
    assert "configs[0]['A']" in refused(InputError, [{"A": bad}])


@pytest.mark.parametrize("bad", [1, None, ("A",)])
def test_what_is_no_name(bad: object) -> None:
    assert "it must be a str" in refused(ArgumentError, [{bad: 1}])
    assert "it must be a str" in refused(ArgumentError, space={bad: [1]})
    assert "a name is empty" in refused(InputError, [{" ": 1}])


@pytest.mark.parametrize(
    ("one", "other"), [(8, 8), (8, "8"), (8, np.int64(8)), (0.5, np.float32(0.5)), (True, "true"), (True, np.bool_(1))]
)
def test_values_that_are_the_same_in_cpp_stand_once(one: object, other: object) -> None:
    configs = [{"A": 0, "B": 1}, {"B": 2, "A": one}, {"A": other, "B": 2}]
    assert "configs[2] is the same as configs[1]" in refused(InputError, configs)
    assert "twice" in refused(InputError, space={"A": [one, other]})


def test_what_differs_in_cpp_may_stand_beside_each_other() -> None:
    assert len(listed([{"A": 1}, {"A": True}, {"A": 1.0}, {"A": "1u"}])) == 4
