# SPDX-License-Identifier: Apache-2.0
"""The kernel's arguments for the candidates, and what candidates leave in them, compared with each other."""

from __future__ import annotations

import ctypes
import hashlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mskpp.errors import MskppError
from mskpp.launcher.arguments import byte_bounds, copied, is_array, is_memory, is_tensor
from mskpp.log import logger

MOST_KINDS = 16  # of output that are kept to be compared with
FLOATS = frozenset("efdg")  # codes of ctypes


class WrongResultError(MskppError, ValueError):
    """A candidate whose output is not the right one."""


class Arguments:
    """The kernel's arguments as they were, and copies for the candidates: a kernel may change what it is given.

    Arguments that are the same memory are so in the copies. The values that are given belong to this object.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def fresh(self) -> list[Any]:
        return copies(self._values)


def copies(values: Sequence[Any]) -> list[Any]:
    known: dict[tuple[object, ...], Any] = {}

    def one(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([one(item) for item in value])
        if is_array(value) and value.flags.c_contiguous:
            key: tuple[object, ...] = ("array", *byte_bounds(value))
            if key in known and value.size:  # perhaps of another shape
                return known[key].view(value.dtype).reshape(value.shape)
        elif is_memory(value):
            key = ("object", id(value))
        else:
            return copied(value)
        if key not in known:
            known[key] = copied(value)
        return known[key]

    return [one(value) for value in values]


class Snapshot:
    """What memory holds, to be put back: what a function does before it launches is done again when it is called
    again."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._pairs = [(memory, copied(memory)) for memory in memories(values)]

    def restore(self) -> None:
        for memory, before in self._pairs:
            if is_array(memory):
                if memory.flags.writeable:
                    memory[...] = before
            elif is_tensor(memory):
                memory.detach().copy_(before)
            elif isinstance(memory, bytearray):
                memory[:] = before
            else:
                ctypes.memmove(ctypes.addressof(memory), ctypes.addressof(before), ctypes.sizeof(memory))


def memories(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if is_memory(value):
            if not is_tensor(value) or hasattr(value, "detach"):
                yield value
        elif isinstance(value, list | tuple):
            yield from memories(value)
        elif isinstance(value, dict):
            yield from memories(list(value.values()))


def contents(value: Any) -> list[Any]:
    """What can be compared in an argument: arrays, lists of numbers, bytes."""
    if is_array(value):
        return [value]
    if is_tensor(value):
        on_host = value.detach().cpu()
        try:
            return [on_host.numpy()]
        except TypeError:  # a type that numpy lacks
            return [on_host.float().numpy()]
    if isinstance(value, list | tuple):
        return [part for item in value for part in contents(item)]
    if isinstance(value, ctypes.Array) and getattr(value._type_, "_type_", None) in FLOATS:
        return [list(value)]
    return [bytes(value)] if is_memory(value) else []


def digest_of(part: Any) -> bytes:
    """Of one of contents()."""
    if isinstance(part, bytes):
        data = b"bytes" + part
    elif isinstance(part, list):
        data = b"list" + repr(part).encode()
    else:
        data = f"{part.dtype} {part.shape}".encode() + part.tobytes()
    return hashlib.sha256(data).digest()


def differing(got: Any, wanted: Any) -> str:
    """How two contents differ beyond the accuracy of their type; "" when they do not."""
    if isinstance(got, bytes):
        count = sum(a != b for a, b in zip(got, wanted, strict=True)) if got != wanted else 0
        return f"{count} of {len(got)} bytes" if count else ""
    if isinstance(got, list):
        scale = max((abs(w) for w in wanted if math.isfinite(w)), default=0.0)
        wrong = [
            i
            for i, (g, w) in enumerate(zip(got, wanted, strict=True))
            if g != w and not (math.isnan(g) and math.isnan(w)) and not abs(g - w) <= 1e-5 * scale
        ]
        return f"{len(wrong)} of {len(got)} elements; {got[wrong[0]]} for {wanted[wrong[0]]}" if wrong else ""
    import numpy

    if got.dtype.kind not in "fc":
        different = got != wanted
    else:
        # Sums in another order differ by some roundings of the largest terms.
        tolerance = 64 * float(numpy.finfo(got.dtype).eps)
        scale = float(numpy.max(numpy.abs(wanted), initial=0.0, where=numpy.isfinite(wanted)))
        different = ~numpy.isclose(got, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    count = int(numpy.count_nonzero(different))
    if not count:
        return ""
    at = tuple(int(i) for i in numpy.argwhere(different)[0])
    return f"{count} of {got.size} elements; {got[at]} for {wanted[at]} at {list(at)}"


@dataclass
class Kind:
    """Candidates that leave the same."""

    values: list[list[Any]]  # of each argument, the first candidate's
    numbers: list[int] = field(default_factory=list)


class Outputs:
    """What the candidates leave in the arguments.

    With a reference its output is the right one. Without, that which most candidates leave is; of equally many the one
    with the smallest number among them. So it does not matter who is measured first.
    """

    def __init__(self, arguments: Arguments, reference: Callable[..., Any] | None, is_scratch: Sequence[bool]) -> None:
        self._lock = threading.Lock()
        self._is_scratch = is_scratch
        self._kinds: list[Kind] = []
        self._strangers: list[int] = []
        self._given = [contents(value) for value in arguments.fresh()]
        self._wanted: list[list[Any]] | None = None
        if reference is not None:
            wanted = arguments.fresh()
            reference(*wanted)
            self._wanted = [contents(value) for value in wanted]
            if not self._difference(self._wanted, self._given):
                logger.warning(
                    "autotune: reference left its arguments as they were; it must write the results into them. Where "
                    "they hold the results already, a kernel that does nothing counts as right"
                )

    def verdict(self) -> str:
        """The same where a candidate that was right is right again: a digest of what the reference leaves; without
        one, of what the arguments hold."""
        found = hashlib.sha256(b"others" if self._wanted is None else b"reference")
        for number, parts in enumerate(self._given if self._wanted is None else self._wanted):
            if not self._is_scratch[number]:
                for part in parts:
                    found.update(digest_of(part))
        return found.hexdigest()

    def _difference(self, got: list[list[Any]], wanted: list[list[Any]], whose: str = "") -> str:
        for number, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
            if self._is_scratch[number]:
                continue
            for one, other in zip(ours, theirs, strict=True):
                difference = differing(one, other)
                if difference:
                    return f"argument {number + 1} differs from {whose}: {difference}"
        return ""

    def add(self, number: int, values: Sequence[Any]) -> None:
        """Takes what a candidate left. WrongResultError when it is not the reference's."""
        got = [contents(value) for value in values]
        if self._wanted is not None:
            difference = self._difference(got, self._wanted, "the reference")
            if difference:
                raise WrongResultError(difference)
            return
        with self._lock:
            for kind in self._kinds:
                if not self._difference(got, kind.values):
                    kind.numbers.append(number)
                    return
            if len(self._kinds) < MOST_KINDS:
                self._kinds.append(Kind(got, [number]))
            else:
                self._strangers.append(number)

    def _right(self) -> Kind:
        return max(self._kinds, key=lambda kind: (len(kind.numbers), -min(kind.numbers)))

    def trusted(self) -> set[int]:
        """Those that leave what most others do, so far; none before two agree."""
        with self._lock:
            numbers = self._right().numbers if self._kinds else []
            return set(numbers) if len(numbers) > 1 else set()

    def vouch(self, number: int, others: Sequence[int]) -> None:
        """``number``, which was added, stands for others that are known to leave the same."""
        with self._lock:
            for kind in self._kinds:
                if number in kind.numbers:
                    kind.numbers.extend(others)

    def wrong(self) -> dict[int, WrongResultError]:
        """Of all that were added without a reference, those whose output is not the right one."""
        if not self._kinds:
            return {}
        right = self._right()
        others = f"that of No.{min(right.numbers)}"
        if len(right.numbers) > 1:
            others += f" and {len(right.numbers) - 1} more"
        found = {}
        for kind in self._kinds:
            if kind is not right:
                found.update(dict.fromkeys(kind.numbers, self._difference(kind.values, right.values, others)))
        found.update(dict.fromkeys(self._strangers, f"the output differs from {others}"))
        return {number: WrongResultError(text) for number, text in found.items()}
