# SPDX-License-Identifier: Apache-2.0
"""How to search: what the decorators' arguments say, checked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from typing import Any

from mskpp.errors import ArgumentError, InputError
from mskpp.launcher.kernel import whole_number
from mskpp.optune.space import ORDERS

MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Plan:
    """How to search; raises on what cannot be. Units and meanings as in decorators.autotune()."""

    who: str
    warmup: int = 300  # us
    repeat: int = 1
    warmup_times: int = 5  # runs of a program
    device_ids: tuple[int, ...] = (0,)
    strategy: str | None = None
    seed: int = 0
    trials: int | None = None
    seconds: float | None = None
    reference: Callable[..., Any] | None = None
    memory_bytes: int | None = None
    predict: Callable[..., Any] | None = None
    top_k: int | float | None = None
    executor: Executor | None = None
    store: bool = True
    flush_cache: bool = False
    model: bool = False  # a function that models a kernel is searched

    def __post_init__(self) -> None:
        who = self.who
        for name, least, most in (
            ("warmup", 1, 100000),
            ("repeat", 1, 10000),
            ("warmup_times", 0, 500),
            ("seed", 0, MOST),
            ("trials", 1, MOST),
            ("memory_bytes", 1 << 20, 1 << 62),
        ):
            value = getattr(self, name)
            if value is not None:
                whole_number(value, f"{who}: {name}", least, most)
        self._check_devices()
        if self.model:
            self._check_model()
        if self.strategy is not None and self.strategy not in ORDERS:
            raise InputError(f"{who}: strategy is {self.strategy!r}; allowed are {', '.join(map(repr, ORDERS))}")
        if self.seconds is not None and not (is_number(self.seconds) and 0 < self.seconds <= MOST):
            given = shortened(self.seconds)
            raise InputError(f"{who}: seconds is {given}; it must be a number above 0, and at most 2^63-1")
        for name in ("reference", "predict"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ArgumentError(f"{who}: {name} is {type(value).__name__}; it must be a function")
        for name in ("store", "flush_cache"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ArgumentError(f"{who}: {name} is {type(value).__name__}; it must be a bool")
        if self.executor is not None and not callable(getattr(self.executor, "submit", None)):
            raise ArgumentError(
                f"{who}: executor is {type(self.executor).__name__}; it must be a concurrent.futures.Executor"
            )
        self._check_predictions()

    def _check_devices(self) -> None:
        who, given = self.who, self.device_ids
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ArgumentError(f"{who}: device_ids is {type(given).__name__}; it must be a list of ints")
        numbers = tuple(whole_number(number, f"{who}: device_ids", 0, 1023) for number in given)
        if not 1 <= len(numbers) <= 100 or len(set(numbers)) != len(numbers):
            raise InputError(f"{who}: device_ids has {len(numbers)} items; it must have 1 to 100, each once")
        object.__setattr__(self, "device_ids", numbers)

    def _check_model(self) -> None:
        """What only a kernel that is compiled has."""
        for name, is_given in (
            ("predict", self.predict is not None),
            ("top_k", self.top_k is not None),
            ("reference", self.reference is not None),
            ("flush_cache", self.flush_cache is not False),
            ("strategy", self.strategy == "model-ranked"),
            ("device_ids", self.device_ids != (0,)),
        ):
            if is_given:
                value: Any = getattr(self, name)
                shown = str(getattr(value, "__name__", shortened(list(value) if isinstance(value, tuple) else value)))
                raise InputError(
                    f'{self.who}: {name} is {shown}, which is for kernels that are compiled; backend="model" compiles '
                    f"and runs none: leave out {name} or backend"
                )

    def _check_predictions(self) -> None:
        who, k = self.who, plain_number(self.top_k)
        object.__setattr__(self, "top_k", k)
        if self.predict is None:
            for name, given in (("top_k", k is not None), ("strategy", self.strategy == "model-ranked")):
                if given:
                    raise InputError(f"{who}: {name}={getattr(self, name)!r} needs predict, which says the order")
        elif self.strategy not in (None, "model-ranked"):
            raise InputError(f"{who}: predict is given, and strategy is {self.strategy!r}; leave it out")
        if k is None:
            return
        if not is_number(k):
            raise ArgumentError(f"{who}: top_k is {type(k).__name__}; it must be a number")
        if not (1 <= k <= MOST if isinstance(k, int) else 0 < k < 1):
            raise InputError(
                f"{who}: top_k is {shortened(k)}; it must be an int from 1, or a share between 0.0 and 1.0"
            )

    @property
    def order(self) -> str:
        """The strategy that is meant where none is given."""
        return self.strategy or ("in order" if self.predict is None else "model-ranked")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def plain_number(value: Any) -> Any:
    """Integers and floats of numpy as those of Python; all else as it is."""
    if isinstance(value, bool | float) or value is None or bool(getattr(value, "ndim", 0)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        return float(value) if kind == "f" else value


def shortened(value: object) -> str:
    """The value for a message; a number of thousands of digits has no text in Python."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    return repr(value)


@dataclass(frozen=True)
class Wishes:
    """What somebody who runs a script wants instead of what its decorators say; None: as they say."""

    trials: int | None = None
    seconds: float | None = None
    strategy: str | None = None
    seed: int | None = None
    top_k: int | float | None = None
    store: bool | None = None

    def changed(self, plan: Plan) -> Plan:
        """The plan with the wishes. InputError where they do not fit together."""
        values = {one.name: getattr(plan, one.name) for one in fields(plan)}
        values.update({one.name: given for one in fields(self) if (given := getattr(self, one.name)) is not None})
        return Plan(**values)
