# SPDX-License-Identifier: Apache-2.0
"""The stack of chips, cores and vector scopes in force: one immutable chain of frames per thread or asyncio task."""

from __future__ import annotations

import contextvars

from mskpp._core import NO_SCOPE, Frame, Program

_top: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("mskpp_frame", default=None)

variable = _top  # for the C++ side, which reads it at every instruction


def current() -> Frame | None:
    return _top.get()


def current_owner(kind: type) -> object | None:
    """The innermost object of the kind that is in force."""
    frame = _top.get()
    while frame is not None and not isinstance(frame.owner, kind):
        frame = frame.parent
    return None if frame is None else frame.owner


def push(owner: object, program: Program | None, core: int = 0, scope: int = NO_SCOPE) -> None:
    _top.set(Frame(program, core, scope, _top.get(), owner))


def pop(owner: object) -> None:
    """Takes the owner's innermost frame off, wherever it is: a generator may be closed while others are still open."""
    above = []
    frame = _top.get()
    while frame is not None and frame.owner is not owner:
        above.append(frame)
        frame = frame.parent
    if frame is None:
        return
    rest = frame.parent
    for kept in reversed(above):
        rest = Frame(kept.program, kept.core, kept.scope, rest, kept.owner)
    _top.set(rest)
