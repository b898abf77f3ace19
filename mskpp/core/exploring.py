# SPDX-License-Identifier: Apache-2.0
"""Who looks on while a function models: a search, for which chips write and print nothing, or its last, real call."""

from __future__ import annotations

import contextlib
import contextvars
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mskpp import _core
    from mskpp.core.chip import Chip


class Explorer:
    """Looks on while functions model. quiet: chips write and print nothing, and read their folder once."""

    schedules = True
    """Whether a block is scheduled at its end; else when its result is read."""

    def __init__(self, *, quiet: bool, scratch: str | None = None) -> None:
        self.quiet = quiet
        self.last: Chip | None = None
        """Whose block ended last."""
        self.chips: dict[tuple[object, ...], tuple[_core.Costs, dict[str, _core.Instruction]]] = {}
        """What their folders hold, by name and search path."""
        self._scratch = scratch
        self._folder: str | None = None

    def folder(self) -> str:
        """An empty folder in place of a chip's output folder, for a function that looks for one."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="mskpp-explored-", dir=self._scratch)
        return self._folder

    def ended(self, chip: Chip) -> None:
        """The chip's block has ended as it should."""
        self.last = chip

    @contextlib.contextmanager
    def looking_on(self) -> Iterator[None]:
        """The block, in this thread, is what it looks at."""
        self.last = None
        token = _explorer.set(self)
        try:
            yield
        finally:
            _explorer.reset(token)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None


_explorer: contextvars.ContextVar[Explorer | None] = contextvars.ContextVar("mskpp_explorer", default=None)


_wishes: contextvars.ContextVar[tuple[str | None, bool]] = contextvars.ContextVar("mskpp_wishes", default=(None, False))


@contextlib.contextmanager
def wishing(chip: str | None, strict: bool) -> Iterator[None]:
    """Within the block every Chip models that chip, whatever its name, if one is given; and is strict, if wanted."""
    token = _wishes.set((chip, strict))
    try:
        yield
    finally:
        _wishes.reset(token)


def wished(chip: str, strict: bool) -> tuple[str, bool]:
    """The name and strictness of a new Chip."""
    name, is_strict = _wishes.get()
    return chip if name is None else name, strict or is_strict


def current() -> Explorer | None:
    """Who wants chips to be quiet."""
    explorer = _explorer.get()
    return explorer if explorer is not None and explorer.quiet else None


def schedules() -> bool:
    """Whether blocks are scheduled at their end."""
    explorer = _explorer.get()
    return explorer is None or explorer.schedules


def ended(chip: Any) -> None:
    """The chip's block has ended as it should."""
    explorer = _explorer.get()
    if explorer is not None:
        explorer.ended(chip)
