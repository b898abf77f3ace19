# SPDX-License-Identifier: Apache-2.0
"""A user's reference, whose mistakes are told as such."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mskpp.errors import ArgumentError, InputError
from mskpp.launcher.arguments import is_array
from mskpp.optune.names import name_of


class Reference:
    """Calls the function with copies of the kernel's arguments, in which it leaves what the kernel must leave there.

    InputError, with the cause, where it raises; ArgumentError where it returns something that is none
    of its arguments. Its attributes are those of
    the function, so that it is known again by its code.
    """

    def __init__(self, function: Callable[..., Any], who: str) -> None:
        functools.update_wrapper(self, function)
        self.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)
        self._function = function
        self._who = who

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # before __init__, as copying does
            raise AttributeError(name)
        return getattr(self._function, name)

    def __call__(self, *args: Any) -> None:
        kinds = ", ".join(type(value).__name__ for value in args)
        called = f"it is called with copies of the kernel's arguments ({kinds})"
        try:
            returned = self._function(*args)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise InputError(f"{self._who}: reference: {name_of(self._function)}: {text}; {called}") from error
        if returned is not None and not is_part_of(returned, args):
            raise ArgumentError(
                f"{self._who}: reference: it returned an {type(returned).__name__}; write the results into its "
                f"arguments, z[:] = ...; {called}"
            )


def is_part_of(value: Any, args: Sequence[Any]) -> bool:
    """Whether it is one of the arguments or a view of one, as ``numpy.add(x, y, out=z)`` returns."""
    if any(value is one for one in args):
        return True
    if not is_array(value):
        return False
    import numpy

    return any(is_array(one) and numpy.may_share_memory(value, one) for one in args)
