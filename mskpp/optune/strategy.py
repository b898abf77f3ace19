# SPDX-License-Identifier: Apache-2.0
"""The order in which configurations are tried, and where it ends."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from mskpp.errors import InputError, StateError
from mskpp.log import logger
from mskpp.optune.plan import Plan
from mskpp.optune.space import Space

MOST_PREDICTED = 100_000  # of a larger space so many, at random
MOST_ASKED = 100  # times in a row, for a configuration that was not tried yet


class Order(Protocol):
    """Numbers of configurations, each once."""

    learns: bool  # from times, so that few are to be tried before some are told

    @property
    def leaves_out(self) -> bool:
        """Whether some that would be allowed never come, as things stand."""
        ...

    def ask(self) -> int | None:
        """The next; None when there is none."""
        ...

    def tell(self, number: int, time_us: float | None) -> None:
        """What came of it; None: it failed."""
        ...

    def widen(self) -> bool:
        """Goes on where ``top_k`` ended it. False when there is no more."""
        ...


class Listed:
    """In the space's own order, or at random."""

    learns = False
    leaves_out = False

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def ask(self) -> int | None:
        return next(self._numbers, None)

    def tell(self, number: int, time_us: float | None) -> None:
        pass

    def widen(self) -> bool:
        return False


class Ranked:
    """The best predicted first; those without a prediction last."""

    learns = False

    def __init__(self, predictions: Mapping[int, float | None], top_k: int | float | None, size: int) -> None:
        self._numbers = sorted(predictions, key=lambda n: (predictions[n] is None, predictions[n] or 0.0, n))
        count = len(self._numbers)
        self._limit = count if top_k is None else max(1, top_k if isinstance(top_k, int) else round(top_k * count))
        self._at = 0
        self._all_predicted = size <= MOST_PREDICTED

    @property
    def leaves_out(self) -> bool:
        return self._limit < len(self._numbers) or not self._all_predicted

    def ask(self) -> int | None:
        if self._at >= min(self._limit, len(self._numbers)):
            return None
        self._at += 1
        return self._numbers[self._at - 1]

    def tell(self, number: int, time_us: float | None) -> None:
        pass

    def widen(self) -> bool:
        if self._limit >= len(self._numbers):
            return False
        self._limit *= 2
        return True


class Sampled:
    """As Optuna's TPE sampler proposes, which learns from the times. What it proposes twice, or the space's condition
    refuses, it is told, and asked again; in the end what is left comes at random. StateError without Optuna."""

    learns = True
    leaves_out = False

    def __init__(self, space: Space, seed: int, who: str) -> None:
        try:
            optuna: Any = importlib.import_module("optuna")
        except ImportError:
            raise StateError(
                f"{who}: strategy='optuna' needs Optuna, which is not installed; pip install optuna"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._states = optuna.trial.TrialState
        sampler = optuna.samplers.TPESampler(seed=seed & 0xFFFFFFFF, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler)
        self._space = space
        self._distributions: dict[str, Any] = {}
        for name, values in space.dimensions().items():
            if ascending(values):
                self._distributions[name] = optuna.distributions.IntDistribution(0, len(values) - 1)
            else:
                self._distributions[name] = optuna.distributions.CategoricalDistribution(range(len(values)))
        self._rest = space.numbers("random", seed)
        self._asked: dict[int, Any] = {}
        self._times: dict[int, float | None] = {}

    def ask(self) -> int | None:
        for _ in range(MOST_ASKED):
            trial = self._study.ask(self._distributions)
            number = self._space.number([trial.params[name] for name in self._distributions])
            if number not in self._asked and self._space.allowed(self._space.config(number)):
                self._asked[number] = trial
                return number
            self._answer(trial, self._times.get(number))
        for number in self._rest:
            if number not in self._asked:
                self._asked[number] = None
                return number
        return None

    def tell(self, number: int, time_us: float | None) -> None:
        self._times[number] = time_us
        if self._asked.get(number) is not None:
            self._answer(self._asked[number], time_us)

    def _answer(self, trial: Any, time_us: float | None) -> None:
        if time_us is None:
            self._study.tell(trial, state=self._states.FAIL)
        else:
            self._study.tell(trial, time_us)

    def widen(self) -> bool:
        return False


def ascending(values: Sequence[Any]) -> bool:
    """Numbers in their order: neighbours are alike then."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values) and all(
        a < b for a, b in itertools.pairwise(values)
    )


class Walk:
    """Configurations in the order of the plan's strategy, until a budget of the plan ends; at least one."""

    def __init__(
        self,
        space: Space,
        plan: Plan,
        predictions: Mapping[int, float | None] | None = None,
        begin: float | None = None,
    ) -> None:
        """``begin``: when the budget's seconds began (time.monotonic()); None: now."""
        self._plan = plan
        self._order: Order
        if predictions is not None:
            self._order = Ranked(predictions, plan.top_k, space.size)
        elif plan.order == "optuna":
            self._order = Sampled(space, plan.seed, plan.who)
        else:
            self._order = Listed(space.numbers(plan.order, plan.seed))
        self._space = space
        self._who = plan.who
        self._given = 0
        self._begin = time.monotonic() if begin is None else begin
        self._exhausted = False
        self._cut = False

    @property
    def learns(self) -> bool:
        return self._order.learns

    @property
    def complete(self) -> bool:
        """Every allowed configuration was given out."""
        return self._exhausted and not self._order.leaves_out and not self._cut and not self._space.gave_up

    @property
    def over_budget(self) -> bool:
        if self._plan.trials is not None and self._given >= self._plan.trials:
            return True
        return bool(self._given) and self._plan.seconds is not None and self.elapsed >= self._plan.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._begin

    def ask(self) -> int | None:
        """The next; None when there is none or a budget is spent."""
        if self._exhausted or self.over_budget:
            # Whether that was all shows only when one asks; a budget that fits exactly leaves nothing out.
            self._exhausted = self._exhausted or self._given >= self._space.size
            return None
        try:
            number = self._order.ask()
        except InputError as error:  # of the user's condition; what is known is not lost
            if not self._given:
                raise
            logger.warning("%s; the search ends here", error)
            self._cut = True
            number = None
        if number is None:
            self._exhausted = True
        else:
            self._given += 1
        return number

    def tell(self, number: int, time_us: float | None) -> None:
        self._order.tell(number, time_us)

    def widen(self) -> bool:
        """Beyond ``top_k``, if there is more."""
        if self.over_budget or not self._order.widen():
            return False
        self._exhausted = False
        return True
