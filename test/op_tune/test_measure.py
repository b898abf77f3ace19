# SPDX-License-Identifier: Apache-2.0
"""What samples say: medians, their intervals, ties, and who is measured again."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mskpp.optune.measure import Interval, best_of, interval, needs_more

TIMES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60)


def exact(time: float, samples: int = 5) -> Interval:
    return Interval(time, time, time, samples)


def test_the_median_of_odd_and_even_counts() -> None:
    assert interval([3.0]) == Interval(3.0, 3.0, 3.0, 1)
    assert interval([9.0, 1.0, 2.0]) == Interval(2.0, 1.0, 9.0, 3)
    assert interval([4.0, 1.0, 2.0, 9.0]).median == 3.0


def test_the_bounds_are_those_of_the_binomial_distribution() -> None:
    # Ranks (from 1) of the tables for a median's 95 % interval.
    for count, low, high in [(5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (40, 14, 27)]:
        found = interval([float(i) for i in range(1, count + 1)])
        assert (found.low, found.high) == (low, high), count


@given(TIMES)
def test_bounds_hold_the_median_and_are_samples(samples: list[float]) -> None:
    found = interval(samples)
    assert found.low <= found.median <= found.high
    assert {found.low, found.high} <= set(samples)
    assert found == interval(samples[::-1])


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    source = random.Random(1)
    held = 0
    for _ in range(2000):
        found = interval([source.lognormvariate(0, 1) for _ in range(15)])  # whose median is 1
        held += found.low <= 1 <= found.high
    assert 0.94 < held / 2000 < 0.995


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -0.0])
def test_what_cannot_be_a_time(bad: float) -> None:
    with pytest.raises(ValueError, match="a time of"):
        interval([1.0, bad])


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        interval([])


def test_the_best_is_the_smallest_median_and_of_equal_ones_the_first() -> None:
    assert best_of({3: exact(2.0), 1: exact(1.0), 0: exact(1.0)}) == (0, [0, 1])
    assert best_of({7: exact(1e-12), 2: exact(1.0)}) == (7, [7])


def test_those_whose_intervals_overlap_the_bests_are_ties() -> None:
    found = {0: Interval(10, 9, 11, 9), 1: Interval(10.5, 10, 12, 9), 2: Interval(12, 11, 13, 9), 3: exact(11.01)}
    assert best_of(found) == (0, [0, 1, 2])


def test_noise_larger_than_the_differences_is_a_tie_of_all() -> None:
    source = random.Random(7)
    found = {i: interval([100 * (1 + i / 1000) * source.gauss(1, 0.05) for _ in range(9)]) for i in range(20)}
    best, ties = best_of(found)
    assert len(ties) >= 15 and best in ties


def test_a_clear_best_needs_no_more() -> None:
    assert needs_more({0: exact(1.0, 2), 1: exact(5.0, 1), 2: exact(9.0, 1)}, 0.02) == []
    assert needs_more({0: exact(1.0, 1), 1: exact(5.0, 1)}, 0.02) == [0]  # one sample is no knowledge


def test_contenders_are_measured_until_they_are_known() -> None:
    wide = Interval(10, 9, 11, 9)
    assert needs_more({0: wide, 1: Interval(10.2, 9.5, 11, 9), 2: exact(20.0, 1)}, 0.02) == [0, 1]
    assert needs_more({0: exact(10.0), 1: exact(10.0)}, 0.02) == []


def test_a_single_unlucky_sample_does_not_lose() -> None:
    assert needs_more({0: exact(10.0, 1), 1: exact(12.0, 1), 2: exact(14.0, 1)}, 0.02) == [0, 1]
    assert needs_more({0: exact(10.0, 3), 1: exact(12.0, 3)}, 0.02) == []


def test_the_width_is_relative() -> None:
    assert Interval(10, 9, 11, 9).width == pytest.approx(0.2)
    assert Interval(0, 0, 0, 1).width == math.inf


def test_near_contenders_get_seven_samples_unless_they_are_all_equal() -> None:
    def three(*values: float) -> Interval:
        return interval(values)

    near = {0: three(1.0, 1.0, 1.001), 1: three(1.03, 1.03, 1.031), 2: three(1.2, 1.2, 1.201)}
    assert needs_more(near, 0.02) == [0, 1]
    exact = {0: three(1.0, 1.0, 1.0), 1: three(1.03, 1.03, 1.03)}
    assert needs_more(exact, 0.02) == []
    seven = {0: interval([1.0] * 6 + [1.001]), 1: interval([1.03] * 6 + [1.031])}
    assert needs_more(seven, 0.02) == []
