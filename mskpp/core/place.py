# SPDX-License-Identifier: Apache-2.0
"""Errors raised in Python name the line of user code, as those of the C++ core do."""

from __future__ import annotations

from typing import TypeVar

from mskpp import _core
from mskpp.errors import MskppError

Kind = TypeVar("Kind", bound=MskppError)


def at_user_line(kind: type[Kind], message: str) -> Kind:
    """The error, with the innermost line outside the package behind its message: "... (kernel.py:18)"."""
    line = _core.user_line()
    return kind(f"{message} ({line})" if line else message)
