# SPDX-License-Identifier: Apache-2.0
"""Where a tuner steps in: what the launcher would generate and compile goes to an observer instead, if there is one.

A tuner runs the user's function to learn what it launches, and once more to launch the winner. In between the user's
code is not needed. The observer belongs to the context (contextvars): other threads go on as ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Compilation:
    """One call of compile() or compile_executable()."""

    build_script: str | None
    source: str
    options: tuple[str, ...]
    backend: str | None
    timeout: float | None


class Observer(Protocol):
    """Takes the place of code generation and compilation."""

    def generated(self, config: Any, callers: Any, path: Path) -> bool:
        """Launch code would be written to the path. False: it is to be written."""
        ...

    def compiled(self, compilation: Compilation, *, shared: bool) -> Any:
        """What compile() (``shared``) or compile_executable() returns. None: it is to compile."""
        ...


_observer: ContextVar[Observer | None] = ContextVar("mskpp_observer", default=None)


def observer() -> Observer | None:
    """The observer in force."""
    return _observer.get()


@contextlib.contextmanager
def observed_by(one: Observer) -> Iterator[None]:
    """Within the block ``one`` takes the place of the launcher."""
    token = _observer.set(one)
    try:
        yield
    finally:
        _observer.reset(token)
