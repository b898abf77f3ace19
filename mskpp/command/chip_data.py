# SPDX-License-Identifier: Apache-2.0
"""Chips as subcommands load them: errors do not end with a line of code, as no code of the user's has asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mskpp.errors import MskppError

if TYPE_CHECKING:
    from mskpp._core import Costs

Value = TypeVar("Value")


def loaded(name: str, parents: Sequence[Path] | None = None) -> Costs:
    """The chip of that name or folder. InputError where there is none, DataError where it cannot be used."""
    from mskpp import _core
    from mskpp.core import data

    return without_place(lambda: _core.Costs.load(name, data.search_path() if parents is None else parents))


def without_place(work: Callable[[], Value]) -> Value:
    """What ``work`` returns. An error of the core says last where in the user's code it was caused; here that would be
    the start of the command."""
    from mskpp import _core

    try:
        return work()
    except MskppError as error:
        raise type(error)(str(error).removesuffix(f" ({_core.user_line()})")) from None
