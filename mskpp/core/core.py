# SPDX-License-Identifier: Apache-2.0
"""Core and VecScope: where instructions run."""

from __future__ import annotations

import re
from types import TracebackType

from mskpp._core import NO_SCOPE
from mskpp.core import context
from mskpp.core.place import at_user_line
from mskpp.errors import ArgumentError, InputError

_CORE_NAME = re.compile(r"[A-Za-z0-9]{1,128}")


class Core:
    """A core of the chip: ``with Core("aic0"):`` issues what is inside on its pipes.

    Cores nest; leaving one restores the outer.

    name: 1 to 128 letters and digits, for example aic0 or AIV1. Raises ArgumentError or InputError for another.
    """

    def __init__(self, core_type_name: str) -> None:
        if not isinstance(core_type_name, str):
            raise at_user_line(ArgumentError, f"Core: the name must be a str, got {type(core_type_name).__name__}")
        if not _CORE_NAME.fullmatch(core_type_name):
            shown = ascii(core_type_name[:64])
            raise at_user_line(InputError, f"Core: name {shown}; allowed are 1 to 128 letters A-Z a-z and digits 0-9")
        self.name = core_type_name

    def __enter__(self) -> Core:
        frame = context.current()
        program = None if frame is None else frame.program
        if frame is None or program is None:
            context.push(self, None)
        else:
            core = program.core(self.name)
            context.push(self, program, core, frame.scope if core == frame.core else NO_SCOPE)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        context.pop(self)

    def __repr__(self) -> str:
        return f"Core({self.name!r})"


class VecScope:
    """A vector function of architecture 3510: inside ``with VecScope(name):`` registers (memory VEC) are in use.

    Register loads take the two load slots in turn, register instructions the two execute slots; the trace shows the
    whole scope on PIPE-VEC. name: 1 to 128 printable characters. Raises ArgumentError or InputError for another.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise at_user_line(ArgumentError, f"VecScope: the name must be a str, got {type(name).__name__}")
        if not 1 <= len(name) <= 128 or not name.isprintable():
            raise at_user_line(InputError, f"VecScope: name {name[:64]!a}; allowed are 1 to 128 printable characters")
        self.name = name

    def __enter__(self) -> VecScope:
        frame = context.current()
        program = None if frame is None else frame.program
        if frame is None or program is None:
            context.push(self, None)
        else:
            context.push(self, program, frame.core, program.open_scope(self.name, frame.core))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        context.pop(self)

    def __repr__(self) -> str:
        return f"VecScope({self.name!r})"
