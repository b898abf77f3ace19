# SPDX-License-Identifier: Apache-2.0
"""What is wrong or needless about the flags of a recorded program, found without scheduling it."""

from __future__ import annotations

from dataclasses import dataclass

from mskpp import _core

SEVERITIES = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """Flags of the same lines and kinds of pipe, on all cores, with the same problem.

    docs/errors.md explains the kinds.
    """

    kind: str
    """"unmatched", "crossed", "unordered", "never-needed", "own-pipe", "set-twice" or "id"."""
    severity: str
    """"error": the program cannot be scheduled; "warning": hardware reads too early, or it can do
    without; "hint": hardware sees it otherwise."""
    lines: tuple[str, ...]
    """The lines of user code, "kernel.py:18"; empty where they are not known."""
    text: str
    """What is the matter with the first of them."""
    cure: str
    """What to do."""
    count: int
    """How many there are."""
    pairs: tuple[tuple[int | None, int | None], ...]
    """The set and the wait of each, as numbers of instructions, None for what is not there; at most 10,000.

    Of "set-twice" the wait and the set that may come before it, of "unordered" the writer and the reader.
    """

    def __str__(self) -> str:
        where = f" ({', '.join(self.lines)})" if self.lines else ""
        times = f", {self.count:,} times" if self.count > 1 else ""
        return f"{self.severity}: {self.kind}{where}{times}: {self.text}; {self.cure}"


def findings(program: _core.Program) -> list[Finding]:
    """Errors first, then in program order. The program may still be in the making, or have failed at its end."""
    return [Finding(*found) for found in _core.lint_flags(program)]
