# SPDX-License-Identifier: Apache-2.0
"""Predicted times, by which candidates are ranked before any is compiled."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator

from mskpp.launcher import process
from mskpp.log import logger
from mskpp.optune.model import Evaluation, pool_of
from mskpp.optune.names import check_names
from mskpp.optune.nursery import Failure
from mskpp.optune.plan import Plan
from mskpp.optune.space import Space
from mskpp.optune.strategy import MOST_PREDICTED


def check(plan: Plan, space: Space) -> None:
    """InputError where ``predict`` does not take the names of the space."""
    if plan.predict is not None:
        check_names(plan.predict, (), {}, space.samples(), f"{plan.who}: predict")


def predictions(plan: Plan, space: Space, stop: process.Stop) -> dict[int, float | None]:
    """The predicted time in us of each configuration, in parallel processes; None where ``predict`` fails, and where
    the plan's seconds were over."""
    assert plan.predict is not None
    evaluation = Evaluation(plan.predict)
    order = "in order" if space.size <= MOST_PREDICTED else "random"
    begin = time.monotonic()

    def numbers() -> Iterator[int]:
        return itertools.islice(space.numbers(order, plan.seed), MOST_PREDICTED)

    found: dict[int, float | None] = {}
    reasons: Counter[str] = Counter()
    with pool_of(evaluation, plan, stop) as pool:
        for number, outcome in pool.map((number, space.config(number)) for number in numbers()):
            found[number] = None if isinstance(outcome, Failure) else outcome
            if isinstance(outcome, Failure):
                reasons[outcome.reason] += 1
            if plan.seconds is not None and time.monotonic() - begin >= plan.seconds / 2:  # the rest is for measuring
                logger.warning(
                    "%s: half of the %g seconds went into predictions; no more are made", plan.who, plan.seconds
                )
                break
    if reasons:
        reason, count = reasons.most_common(1)[0]
        logger.warning(
            "%s: predict failed for %d of %d configurations, which come last; %d times: %s",
            plan.who,
            reasons.total(),
            len(found),
            count,
            reason,
        )
    return found
