# SPDX-License-Identifier: Apache-2.0
"""Errors raised in Python name the line of user code, as those of the C++ core do."""

from __future__ import annotations

from typing import Any, TypeVar

from mskpp import _core
from mskpp.errors import MskppError

Kind = TypeVar("Kind", bound=MskppError)


def at_user_line(kind: type[Kind], message: str) -> Kind:
    """The error, with the innermost line outside the package behind its message: "... (kernel.py:18)"."""
    line = _core.user_line()
    return kind(with_place(message, f" ({line})") if line else message)


def with_place(message: str, place: str) -> str:
    """The message with the place at the end of its first line: what follows has lines of its own."""
    first, newline, rest = message.partition("\n")
    return f"{first}{place}{newline}{rest}"


def shown(value: Any, most: int = 64) -> str:
    """The value as a message shows it: cut, and never an error of its own."""
    try:
        text = str(value)
    except Exception as error:  # an int of thousands of digits, or a __str__ of the user's
        return f"<{type(value).__name__} whose text is a {type(error).__name__}>"
    return text if len(text) <= most else text[:most] + "..."
