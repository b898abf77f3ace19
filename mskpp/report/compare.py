# SPDX-License-Identifier: Apache-2.0
"""A prediction beside a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mskpp.report.profiler import TOTAL, Profile, Row

_LETTERS = {"aic": "cube", "aiv": "vector"}  # that the name of a core begins with
_ONLY_ON = {"PIPE-M": "cube", "PIPE-MTE1": "cube", "PIPE-FIX": "cube", "PIPE-V": "vector"}


@dataclass(frozen=True)
class Compared:
    """One pipe, or Total. Times in microseconds; None where there is no such time."""

    name: str
    """As the prediction calls it; of a pipe that only the measurement has: its core's kind and the pipe."""
    predicted_us: float | None
    measured_us: tuple[float | None, ...]
    """For each row of the profile."""
    summary_us: float | None
    """Of the profile's summary."""

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Measured / predicted for each row; None where one is missing, or the prediction 0."""
        return tuple(self._ratio(measured) for measured in self.measured_us)

    @property
    def summary_ratio(self) -> float | None:
        return self._ratio(self.summary_us)

    def _ratio(self, measured_us: float | None) -> float | None:
        return measured_us / self.predicted_us if measured_us is not None and self.predicted_us else None


@dataclass(frozen=True)
class Comparison:
    """A prediction and a profile, pipe by pipe."""

    profile: Profile
    pipes: dict[str, Compared]
    """Total, then the pipes of the prediction, then those that only the measurement has."""

    @classmethod
    def of(cls, total_us: float, pipes_us: Mapping[str, float], profile: Profile) -> Comparison:
        """pipes_us: the prediction by full name, as ``aic0-PIPE-MTE2``."""

        def compared(name: str, predicted_us: float | None, core: str, pipe: str) -> Compared:
            measured = tuple(_measured(row, core, pipe) for row in profile.rows)
            return Compared(name, predicted_us, measured, _measured(profile.summary, core, pipe))

        kind = _kind_of(pipes_us)
        if kind and not any(getattr(row, kind) for row in profile.rows):
            kind = ""  # the measurement has none of it

        has = {core: any(getattr(row, core) for row in profile.rows) for core in _LETTERS.values()}
        found = {
            TOTAL: Compared(
                TOTAL, total_us, tuple(_total(row, kind) for row in profile.rows), _total(profile.summary, kind)
            )
        }
        seen = set()
        for name, predicted_us in pipes_us.items():
            core, pipe = _parts(name)
            core = core or kind
            if core and not has[core]:  # the measurement has but one kind of core
                core = ""
            seen |= {(one, pipe) for one in ((core, "plain") if core else ("cube", "vector", "plain"))}
            found[name] = compared(name, predicted_us, core, pipe)
        for core, prefix in (("cube", "aic-"), ("vector", "aiv-"), ("plain", "")):
            ran = [pipe for row in profile.rows for pipe, time_us in getattr(row, core).items() if time_us]
            for pipe in dict.fromkeys(ran):
                if pipe != TOTAL and (core, pipe) not in seen:
                    found[prefix + pipe] = compared(prefix + pipe, None, core, pipe)
        return cls(profile, found)

    def headings(self) -> list[str]:
        """Of the columns of the pipe table: two for each row of the profile."""
        return [text for i in range(len(self.profile.rows)) for text in (f"ProfDuration(us)_{i}", f"ProfRatio_{i}")]

    def cells(self, name: str) -> list[str]:
        """The cells under the headings."""
        pairs = zip(self.pipes[name].measured_us, self.pipes[name].ratios, strict=True)
        return [text for measured, ratio in pairs for text in (as_text(measured, 6), as_text(ratio, 4))]


def as_text(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"


def _parts(name: str) -> tuple[str, str]:
    """The kind of core that a pipe's full name tells, or "", and the pipe."""
    core, dash, pipe = name.partition("-PIPE-")
    if not dash:
        return "", name
    return _LETTERS.get(core.lower()[:3], ""), f"PIPE-{pipe}"


def _kind_of(names: Iterable[str]) -> str:
    """The one kind of core that is predicted, told by the names of cores or else by pipes that only one kind has; ""
    where it is both or not clear."""
    kinds = set()
    for name in names:
        core, pipe = _parts(name)
        kinds.add(core or _ONLY_ON.get(pipe, ""))
    kinds.discard("")
    return kinds.pop() if len(kinds) == 1 else ""


def _total(row: Row, kind: str) -> float | None:
    """The row's time, of one kind of core where only that is predicted."""
    if not kind or row.is_task:
        return row.total_us
    times: Mapping[str, float] = getattr(row, kind)
    others = [core for core in _LETTERS.values() if core != kind and getattr(row, core)]
    return times.get(TOTAL, None if others else row.total_us)


def _measured(row: Row, core: str, pipe: str) -> float | None:
    """What the row has of the pipe, on that kind of core; "" is any."""
    if not core:
        return row.pipes.get(pipe)
    times: Mapping[str, float] = getattr(row, core)
    return times.get(pipe, row.plain.get(pipe))
