# SPDX-License-Identifier: Apache-2.0
"""Which configurations there are, and in which order they are tried.

A space is a list of configurations, or names with their values and a condition on them. A product of values is never
written out: a configuration is made from its number, so that ten thousand million of them cost nothing before they are
tried.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mskpp.errors import ArgumentError, InputError
from mskpp.log import logger
from mskpp.optune.names import check_names
from mskpp.optune.tunable import value_text

Config = dict[str, Any]
ORDERS = ("in order", "random", "model-ranked", "optuna")  # the strategies; the first two are orders of the space alone
MOST_REFUSALS = 1_000_000  # in a row, by the condition, before the space counts as exhausted


class Space:
    """Configurations by number, from 0; number i is always the same one. Values are plain ones of Python.

    Args:
        configs: a list of dicts, each a configuration; or None.
        space: a dict of names to lists of values, of which every combination is meant; or None.
        where: called with each configuration as keywords; those for which it is false are left out.
        cpp: values are put into a source, so that each must have a text in C++; else they may be anything.
    """

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]] | None,
        space: Mapping[str, Sequence[Any]] | None,
        where: Callable[..., bool] | None,
        who: str,
        *,
        cpp: bool = True,
    ) -> None:
        if (configs is None) == (space is None):
            raise ArgumentError(f"{who}: give either configs, a list of dicts, or space, a dict of names to values")
        self._who = who
        self._where = where
        self.gave_up = False
        """Whether numbers() ended early, after refusals in a row."""
        if where is not None and not callable(where):
            raise ArgumentError(f"{who}: where is {type(where).__name__}; it must be a function of the names")
        if configs is not None:
            self._configs: list[Config] | None = checked_configs(configs, who, cpp)
            self._names: list[str] = []
            self._values: list[list[Any]] = []
            self.size = len(self._configs)
        else:
            self._configs = None
            self._names, self._values = checked_space({} if space is None else space, who, cpp)
            self.size = math.prod(len(values) for values in self._values)
        if where is not None:
            check_names(where, (), {}, self.samples(), f"{who}: where")

    def config(self, number: int) -> Config:
        """The configuration of a number; the last name's values change fastest."""
        if self._configs is not None:
            return dict(self._configs[number])
        out = []
        for values in reversed(self._values):
            number, at = divmod(number, len(values))
            out.append(values[at])
        return dict(zip(self._names, reversed(out), strict=True))

    def dimensions(self) -> dict[str, Sequence[Any]]:
        """Values by name; a list of configurations has one dimension, of its numbers."""
        if self._configs is not None:
            return {"configuration": range(self.size)}
        return dict(zip(self._names, self._values, strict=True))

    def number(self, positions: Sequence[int]) -> int:
        """The number of the configuration that has these values of the dimensions."""
        out = 0
        for values, at in zip(self.dimensions().values(), positions, strict=True):
            out = out * len(values) + at
        return out

    def allowed(self, config: Config) -> bool:
        """What the condition says. InputError, with the cause, where it raises."""
        if self._where is None:
            return True
        try:
            return bool(self._where(**config))
        except Exception as error:
            raise InputError(
                f"{self._who}: where: {type(error).__name__}: {error}, for {config}; it must be true or false for "
                "every configuration"
            ) from error

    def identity(self) -> str:
        """The same for the same configurations."""
        found = hashlib.sha256()
        for name, values in self.dimensions().items():
            found.update(repr((name, [self._configs[at] for at in values] if self._configs else list(values))).encode())
        code = getattr(self._where, "__code__", None)
        found.update(b"" if code is None else code.co_code + repr(code.co_consts).encode())
        return found.hexdigest()

    def samples(self) -> Iterator[Config]:
        """Configurations for a check of names and values before anything is tried: they have every name with every
        text, and numbers of each kind, of which one is as good as another."""
        if self._configs is not None:
            yield from (dict(config) for config in self._configs)
            return
        first = {name: values[0] for name, values in zip(self._names, self._values, strict=True)}
        for name, values in zip(self._names, self._values, strict=True):
            kinds = {kind_of(value): value for value in reversed(values)}
            yield from ({**first, name: value} for value in reversed(kinds.values()))

    def names(self) -> list[str]:
        """The names that a configuration may have."""
        if self._configs is not None:
            return list(dict.fromkeys(name for config in self._configs for name in config))
        return list(self._names)

    def numbers(self, strategy: str, seed: int) -> Iterator[int]:
        """Every number that is allowed, once: "in order", or "random" of the seed.

        After a million refusals in a row it ends, with a warning and ``gave_up``: the rest is not looked at. InputError
        where none was allowed until then.
        """
        order: Iterator[int] = iter(range(self.size)) if strategy == "in order" else shuffled(self.size, seed)
        refused = allowed = 0
        for number in order:
            if self.allowed(self.config(number)):
                refused = 0
                allowed += 1
                yield number
            else:
                refused += 1
                if refused >= MOST_REFUSALS:
                    self._give_up(refused, allowed)
                    return
        if not allowed:
            raise InputError(f"{self._who}: where refused all {self.size:,} configurations; it must be true for one")

    def _give_up(self, refused: int, allowed: int) -> None:
        text = f"where refused {refused:,} configurations in a row"
        if not allowed:
            raise InputError(f"{self._who}: {text}; make the space narrower")
        self.gave_up = True
        logger.warning(
            "%s: %s after %s that it allowed; the search leaves out the rest, make the space narrower",
            self._who,
            text,
            f"{allowed:,}",
        )


def kind_of(value: Any) -> object:
    """The same for values of which one is as good as another for a check."""
    if isinstance(value, str):
        return value
    return type(value), isinstance(value, int | float) and value < 0


def shuffled(size: int, seed: int) -> Iterator[int]:
    """The numbers below ``size`` in a random order, each once, without a list of them: a Feistel network over the next
    power of four, whose results beyond the size are walked through once more."""
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    source = random.Random(seed)
    keys = [source.getrandbits(64) for _ in range(6)]

    def mixed(number: int) -> int:
        left, right = number >> half, number & mask
        for key in keys:
            left, right = right, left ^ (hash_of(right, key, half) & mask)
        return left << half | right

    for number in range(size):
        out = mixed(number)
        while out >= size:
            out = mixed(out)
        yield out


def hash_of(number: int, key: int, bits: int) -> int:
    """``bits`` bits that depend on all of the number."""
    if bits > 32:
        data = number.to_bytes(bits // 8 + 1, "little") + key.to_bytes(8, "little")
        return int.from_bytes(hashlib.shake_128(data).digest(bits // 8 + 1), "little")
    number = (number ^ key) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    number ^= number >> 27
    return (number * 0x94D049BB133111EB & (1 << 64) - 1) >> 31


def checked_configs(configs: object, who: str, cpp: bool = True) -> list[Config]:
    if isinstance(configs, str | bytes | Mapping) or not isinstance(configs, Sequence):
        raise ArgumentError(f"{who}: configs is {type(configs).__name__}; it must be a list of dicts")
    if not configs:
        raise InputError(f"{who}: configs is empty; give at least one configuration")
    seen: dict[tuple[tuple[str, str], ...], int] = {}
    out = []
    for number, config in enumerate(configs):
        if not isinstance(config, Mapping):
            raise ArgumentError(f"{who}: configs[{number}] is {type(config).__name__}; it must be a dict")
        if not config:
            raise InputError(f"{who}: configs[{number}] is empty; it must give at least one tunable a value")
        for name in config:
            check_name(name, f"{who}: configs[{number}]")
        texts = {n: checked_text(value, f"{who}: configs[{number}][{n!r}]", cpp) for n, value in config.items()}
        key = tuple(sorted(texts.items()))
        if key in seen:
            raise InputError(f"{who}: configs[{number}] is the same as configs[{seen[key]}]; each may stand once")
        seen[key] = number
        out.append({name: plain(value) for name, value in config.items()})
    return out


def checked_space(space: object, who: str, cpp: bool = True) -> tuple[list[str], list[list[Any]]]:
    if not isinstance(space, Mapping):
        raise ArgumentError(f"{who}: space is {type(space).__name__}; it must be a dict of names to lists of values")
    if not space:
        raise InputError(f"{who}: space is empty; give at least one name with its values")
    names, all_values = [], []
    for name, values in space.items():
        check_name(name, f"{who}: space")
        if isinstance(values, str | bytes | Mapping) or not (isinstance(values, Sequence) or is_vector(values)):
            raise ArgumentError(
                f"{who}: space[{name!r}] is {type(values).__name__}; it must be a list of values, which have an order"
            )
        listed = list(values)
        if not listed:
            raise InputError(f"{who}: space[{name!r}] has no values; give at least one")
        texts = [checked_text(value, f"{who}: space[{name!r}][{at}]", cpp) for at, value in enumerate(listed)]
        if len(set(texts)) != len(texts):
            twice = next(text for text in texts if texts.count(text) > 1)
            raise InputError(f"{who}: space[{name!r}] has the value {twice} twice; each may stand once")
        names.append(name)
        all_values.append([plain(value) for value in listed])
    return names, all_values


def is_vector(values: object) -> bool:
    """An array of numpy, of one dimension."""
    return getattr(values, "ndim", None) == 1 and hasattr(values, "dtype")


def check_name(name: object, where: str) -> None:
    if not isinstance(name, str):
        raise ArgumentError(f"{where}: the name {name!r} is {type(name).__name__}; it must be a str")
    if not name.strip():
        raise InputError(f"{where}: a name is empty")


def checked_text(value: object, where: str, cpp: bool = True) -> str:
    """The value as a text, of C++ or of Python, which tells whether two are the same."""
    if not cpp:
        return shown(plain(value), where)
    text = value_text(value, where)
    if not text.strip():
        raise InputError(f"{where} is empty; give the value as C++ text")
    return text


def plain(value: Any) -> Any:
    """The value of a numpy scalar, as it is put into the source."""
    found = value.item() if hasattr(value, "dtype") and not getattr(value, "ndim", 0) else value
    return float(found) if hasattr(found, "dtype") and not getattr(found, "ndim", 0) else found


def shown(value: object, where: str) -> str:
    """The value's repr. ArgumentError where its class has none."""
    try:
        return repr(value)
    except Exception as error:  # whatever the class does
        raise ArgumentError(
            f"{where} is {type(value).__name__}, whose repr() raises {type(error).__name__}: {error}; values are told "
            "apart by it"
        ) from error
