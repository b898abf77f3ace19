# SPDX-License-Identifier: Apache-2.0
"""One configuration on its way through a search."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from mskpp.errors import CompileError, LaunchError, MskppError, TimeLimitError
from mskpp.optune.measure import Interval, interval
from mskpp.optune.outputs import WrongResultError
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial
from mskpp.optune.space import Config

ERROR_LINE = re.compile(r"\b(?:fatal )?error\b ?:", re.IGNORECASE)


class ProgramError(MskppError, RuntimeError):
    """A program that ended by itself, and says or shows that something is wrong."""


@dataclass
class Candidate:
    """What is known of a configuration: how far it came, its samples, or why it failed."""

    number: int
    config: Config
    device: int = 0  # position in the plan's device_ids
    predicted: float | None = None  # us
    known: Interval | None = None  # its time, from the store
    from_store: bool = False
    verdicts: list[str] = field(default_factory=list)  # for which its output was right (Outputs.verdict)
    group: str = ""  # of those whose outputs were found equal; "" where nothing was compared
    library: Path | None = None  # compiled
    compile_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)  # us
    ending: str = NOT_TRIED
    reason: str = ""
    log: str = ""
    suspect: bool = False  # it failed after another one on its device
    elapsed: float = 0.0

    @property
    def good(self) -> bool:
        return self.ending == MEASURED

    @property
    def time(self) -> Interval:
        """Of one that was measured."""
        return interval(self.samples) if self.known is None else self.known

    def fail(self, error: BaseException) -> None:
        """Notes how it ended. An error of any class is an ending."""
        text = str(error).strip()
        lines = [line.strip() for line in text.splitlines()] or [type(error).__name__]
        if isinstance(error, CompileError):  # the compiler's first error says more than the command, which may be long
            lines.insert(0, next((line for line in lines[1:] if ERROR_LINE.search(line)), lines[0]))
        self.ending = ending_of(error)
        self.reason = lines[0] if self.ending != "failed" or text else f"{type(error).__name__}"
        self.log = f"{type(error).__name__}: {text}"
        self.known = None

    def trial(self) -> Trial:
        found = self.time if self.good else None
        return Trial(
            self.number,
            self.config,
            self.ending,
            found.median if found else None,
            found.low if found else None,
            found.high if found else None,
            found.samples if found else 0,
            self.compile_seconds,
            self.reason,
            self.log,
            self.predicted,
            self.from_store,
            self.elapsed,
        )


def ending_of(error: BaseException) -> str:
    if isinstance(error, WrongResultError):
        return "wrong result"
    if isinstance(error, ProgramError):
        return "failed"
    if isinstance(error, TimeLimitError):
        return "timed out"
    if isinstance(error, CompileError):
        return "does not compile"
    return "crashed" if isinstance(error, LaunchError) else "failed"


def without_folder(error: Exception, folder: Path) -> Exception:
    """The error without the names of temporary folders, which say nothing: paths from where the user's source is."""
    text = str(error).replace(f"{folder / 'source'}{os.sep}", "").replace(f"{folder}{os.sep}", "")
    if text == str(error) or not error.args:
        return error
    changed = type(error)(text)
    changed.__cause__ = error
    return changed
