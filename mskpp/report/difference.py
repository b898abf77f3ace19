# SPDX-License-Identifier: Apache-2.0
"""What differs between two results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mskpp.report.result import Result
from mskpp.report.schema import SavedResult

_CAUSES = ("data", "flag", "barrier", "end")
AnyResult = Result | SavedResult

ROUNDING = 1e-12  # of shares: 29 % of 100 cycles are 29


@dataclass(frozen=True)
class Change:
    """A figure before and after; None where one side does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def absolute(self) -> float:
        """How much more it is after; what is missing counts as 0."""
        return (self.after or 0) - (self.before or 0)

    @property
    def share(self) -> float | None:
        """The same as a share of before; None where that is 0 or missing."""
        return self.absolute / self.before if self.before else None

    def exceeds(self, limit: float, is_share: bool) -> bool:
        """Whether it grew by more than the limit; something from nothing exceeds every share."""
        most = limit * (self.before or 0) if is_share else limit
        return self.absolute > most * (1 + ROUNDING)


@dataclass(frozen=True)
class Difference:
    """Two results, figure by figure; each group sorted by the absolute change, the largest first."""

    unit: str
    """Of all figures: "cycles", or "us" where the clocks differ."""
    total: Change
    pipes: tuple[Change, ...]
    """Busy time, by full name."""
    instructions: tuple[Change, ...]
    """Busy time, by name."""
    causes: tuple[Change, ...]
    """Idle time of the ledger, as "aic0-PIPE-M data"."""
    notes: tuple[str, ...]
    """In what else the two differ, so that figures may not be comparable."""
    warnings: tuple[str, ...] = ()
    """The memory warnings of after."""
    new_warnings: tuple[str, ...] = ()
    """Those of after about memories that before does not warn of."""
    gone_warnings: tuple[str, ...] = ()
    """Those of before about memories that after does not warn of."""

    @classmethod
    def of(cls, before: AnyResult, after: AnyResult) -> Difference:
        is_same_clock = before.clock_mhz == after.clock_mhz
        clocks = (None, None) if is_same_clock else (before.clock_mhz, after.clock_mhz)

        def changes(old: Mapping[str, int], new: Mapping[str, int]) -> tuple[Change, ...]:
            names = dict.fromkeys([*old, *new])
            found = [
                Change(name, _scaled(old.get(name), clocks[0]), _scaled(new.get(name), clocks[1])) for name in names
            ]
            return tuple(sorted(found, key=lambda change: -abs(change.absolute)))

        (total,) = changes({"Total": before.total_cycles}, {"Total": after.total_cycles})
        return cls(
            "cycles" if is_same_clock else "us",
            total,
            changes(_busy(before, "pipes"), _busy(after, "pipes")),
            changes(_busy(before, "instructions"), _busy(after, "instructions")),
            changes(_idle(before), _idle(after)),
            tuple(_notes(before, after)),
            tuple(after.warnings),
            tuple(_others(after.warnings, before.warnings)),
            tuple(_others(before.warnings, after.warnings)),
        )


def _scaled(cycles: int | None, clock_mhz: float | None) -> float | None:
    return cycles if cycles is None or clock_mhz is None else cycles / clock_mhz


def _busy(result: AnyResult, what: str) -> dict[str, int]:
    return {name: row.cycles for name, row in getattr(result, what).items()}


def _idle(result: AnyResult) -> dict[str, int]:
    found = {f"{row.pipe} {cause}": getattr(row, cause) for row in result.ledger.pipes for cause in _CAUSES}
    return {name: cycles for name, cycles in found.items() if cycles}


def _others(warnings: list[str], known: list[str]) -> list[str]:
    """Those about another memory: their figures change with every size."""
    memories = {_memory(text) for text in known}
    return [text for text in warnings if _memory(text) not in memories]


def _memory(warning: str) -> str:
    """What a warning is about, as "UB of aiv0"."""
    return warning.partition(" holds ")[0]


def _notes(before: AnyResult, after: AnyResult) -> list[str]:
    notes = []
    if before.chip != after.chip:
        notes.append(f"the chips differ: {before.chip} and {after.chip}")
    if before.clock_mhz != after.clock_mhz:
        notes.append(
            f"the clocks differ: {before.clock_mhz:g} and {after.clock_mhz:g} MHz; all figures are times in us"
        )
    if before.cache_hit_ratio != after.cache_hit_ratio:
        ratios = [
            "one that changes in the block" if ratio is None else f"{ratio:g}"
            for ratio in (before.cache_hit_ratio, after.cache_hit_ratio)
        ]
        notes.append(f"the cache hit ratios differ: {ratios[0]} and {ratios[1]}")
    if before.mskpp_version != after.mskpp_version:
        notes.append(f"mskpp {before.mskpp_version} and {after.mskpp_version} made them")
    return notes
