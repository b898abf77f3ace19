# SPDX-License-Identifier: Apache-2.0
"""What one call leaves to the next: the latest tiling, for get_kernel_from_binary and for ``kernel(...)``.

It belongs to the context (``contextvars``) in which tiling_func ran: each thread and each asyncio task has its own.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mskpp.launcher.opgen_workflow import TilingOutput

_latest: ContextVar[tuple[str, TilingOutput] | None] = ContextVar("mskpp_latest_tiling", default=None)


def remember(op_type: str, tiling: TilingOutput) -> None:
    """Makes this the latest tiling."""
    _latest.set((op_type, tiling))


def forget() -> None:
    """There is no latest tiling any more."""
    _latest.set(None)


def latest_tiling() -> TilingOutput | None:
    """What the last tiling_func of this context returned; None before the first."""
    found = _latest.get()
    return None if found is None else found[1]


def op_type() -> str | None:
    """The operator of the latest tiling."""
    found = _latest.get()
    return None if found is None else found[0]
