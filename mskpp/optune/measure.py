# SPDX-License-Identifier: Apache-2.0
"""What samples of a time say: the median, how sure it is, and which candidates cannot be told apart.

Times of one machine drift together, so candidates are measured in rounds: one sample of each, then again. The interval
of a median is that of its order statistics (binomial, 95 %), which supposes nothing of the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
FEW, ENOUGH = 3, 7  # samples, below which a median says little, and less than all: it may be too large by
DOUBT, REST = 0.25, 0.05


@dataclass(frozen=True)
class Interval:
    """A median with the bounds that hold it with 95 % confidence; with less than six samples, all of them."""

    median: float
    low: float
    high: float
    samples: int

    @property
    def width(self) -> float:
        """Relative to the median."""
        return (self.high - self.low) / self.median if self.median > 0 else math.inf


def is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0


def interval(samples: Sequence[float]) -> Interval:
    """Of at least one sample. ValueError for none, and for what cannot be a time."""
    if not samples:
        raise ValueError("no samples")
    if not all(map(is_time, samples)):
        raise ValueError(f"a time of {next(s for s in samples if not is_time(s))}")
    ordered = sorted(samples)
    count = len(ordered)
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    # The largest k with P(fewer than k of the samples lie below the true median) <= (1 - confidence) / 2.
    below, k = 0.0, 0
    while k < middle:
        below += math.comb(count, k) / 2**count
        if below > (1 - CONFIDENCE) / 2:
            break
        k += 1
    first = max(k - 1, 0)
    return Interval(median, ordered[first], ordered[count - 1 - first], count)


def best_of(found: Mapping[int, Interval]) -> tuple[int, list[int]]:
    """The number with the smallest median (of equal ones the smallest number), and all that cannot be told from it,
    in the order of their medians: their intervals overlap."""
    order = sorted(found, key=lambda number: (found[number].median, number))
    best = found[order[0]]
    return order[0], [number for number in order if found[number].low <= best.high]


def needs_more(found: Mapping[int, Interval], narrow: float) -> list[int]:
    """Who is worth another sample: the contenders for the best whose median is not known within ``narrow``.

    Of few samples all may have been unlucky, so a contender is then also who would be one with a quarter less, and up
    to seven samples with a twentieth less, unless they are all equal. A lone best needs none once no other is near.
    """
    best, _ = best_of(found)
    limit = found[best].high

    def low(one: Interval) -> float:
        return one.low * (1 - (DOUBT if one.samples < FEW else REST if is_open(one) else 0.0))

    def is_open(one: Interval) -> bool:
        return one.samples < ENOUGH and one.width > 0

    near = [n for n in sorted(found, key=lambda n: (found[n].median, n)) if low(found[n]) <= limit]
    if near == [best] and found[best].samples > 1:
        return []
    least = FEW if len(near) > 1 else 2
    return [
        n for n in near if found[n].width > narrow or found[n].samples < least or (len(near) > 1 and is_open(found[n]))
    ]
