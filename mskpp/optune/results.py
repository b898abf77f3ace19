# SPDX-License-Identifier: Apache-2.0
"""What a tuning found: a row for each configuration, whatever became of it."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mskpp.errors import StateError

MEASURED = "measured"
NOT_TRIED = "not tried"
# In the order in which a candidate can end.
ENDINGS = ("does not compile", "crashed", "timed out", "wrong result", "failed", NOT_TRIED, MEASURED)
SCHEMA = 1


@dataclass(frozen=True)
class Trial:
    """One configuration. Times in us: the median and the bounds that hold it with 95 % confidence."""

    number: int
    config: dict[str, Any]
    ending: str
    time_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    samples: int = 0
    compile_seconds: float = 0.0
    reason: str = ""  # of a failure, one line
    log: str = field(default="", repr=False)  # all that is known of it
    predicted_us: float | None = None
    known: bool = False  # from the store, not measured now
    elapsed_seconds: float = 0.0  # since the search began, when it ended

    @property
    def good(self) -> bool:
        return self.ending == MEASURED

    def line(self, unit: str = "μs") -> str:
        """As existing scripts read it: "No.3: 14.982μs, {...}"."""
        if self.good:
            return f"No.{self.number}: {self.time_us:.3f}{unit}, {self.config}"
        return f"No.{self.number}: {self.ending}, {self.config}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class TuneResult:
    """All trials by number, and the best.

    ``ties``: numbers whose times cannot be told from the best's, the best first. ``complete``: every configuration was
    tried; else a budget, ``top_k`` or an interrupt ended the search. ``correlation``: Spearman's, of predicted and
    measured times; None without predictions, and of fewer than three. ``size``: how many configurations the space has
    at most, those included that its condition refuses; None where it is not known.
    """

    trials: tuple[Trial, ...]
    backend: str
    kernel: str
    ties: tuple[int, ...] = ()
    complete: bool = True
    seconds: float = 0.0
    correlation: float | None = None
    size: int | None = None

    @functools.cached_property
    def _by_number(self) -> dict[int, Trial]:
        return {trial.number: trial for trial in self.trials}

    @property
    def best(self) -> Trial | None:
        """None when no configuration could be measured."""
        return self[self.ties[0]] if self.ties else None

    @property
    def ranking(self) -> list[Trial]:
        """Those that were measured, the fastest first."""
        good = [trial for trial in self.trials if trial.good]
        return sorted(good, key=lambda trial: (trial.time_us or 0.0, trial.number))

    @property
    def failures(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.good]

    def __getitem__(self, number: int) -> Trial:
        """The trial of a number. KeyError when there is none."""
        return self._by_number[number]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        best = self.best
        found = f"best No.{best.number}: {best.time_us:.3f} us {best.config}" if best else "none could be measured"
        tied = f", {len(self.ties)} cannot be told apart" if len(self.ties) > 1 else ""
        part = "" if self.complete else ", incomplete"
        count = f"{len(self)} configurations, {len(self.failures)} failed{part}"
        return f"<TuneResult of {self.kernel}: {count}; {found}{tied}>"

    def rows(self) -> list[dict[str, Any]]:
        """A flat dict for each trial: its figures, then its configuration with the names as they are."""
        out = []
        for trial in self.trials:
            row = values_of(trial)
            config = row.pop("config")
            out.append({**row, **{f"config.{name}": value for name, value in config.items()}})
        return out

    def json(self) -> str:
        """The whole result; ``schema`` changes when the meaning of a field does."""
        text = json.dumps(
            {
                "schema": SCHEMA,
                "kernel": self.kernel,
                "backend": self.backend,
                "complete": self.complete,
                "seconds": self.seconds,
                "correlation": self.correlation,
                "size": self.size,
                "ties": list(self.ties),
                "trials": [{**values_of(trial), "config": plain(trial.config)} for trial in self.trials],
            },
            indent=1,
            ensure_ascii=False,
            default=plain,
        )
        return encodable(text)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows as CSV with a header; also written to ``path`` (0600) when it is given."""
        rows = self.rows()
        names: list[str] = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        found = encodable(text.getvalue())
        if path is not None:
            from mskpp.launcher import checks

            checks.write_file(path, found, "to_csv")
        return found

    def to_html(self, path: str | Path) -> None:
        """A page with the search's course, the effect of each name, and all trials; it needs no network."""
        from mskpp.optune.page import write_page

        write_page(self, path)

    def to_dataframe(self) -> Any:
        """The rows as a pandas DataFrame. StateError when pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise StateError(
                "to_dataframe: pandas is not installed; pip install pandas, or take rows(), to_csv() or json()"
            ) from None
        return pandas.DataFrame(self.rows())


def values_of(trial: Trial) -> dict[str, Any]:
    """Its fields by name. The values of its configuration are not copied: they may be of any class."""
    return {one.name: getattr(trial, one.name) for one in fields(trial)}


def plain(value: Any) -> Any:
    """As JSON has it: lists of tuples, numbers of numpy scalars, and texts of all that it lacks."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "dtype"):
        found = value.tolist() if hasattr(value, "tolist") else value.item()
        return found if hasattr(found, "dtype") else plain(found)
    return str(value)


def encodable(text: str) -> str:
    """With an escape in place of each half of a surrogate pair, which has no form in a file."""
    return text.encode("utf-8", "backslashreplace").decode()


def causes(trials: Sequence[Trial]) -> str:
    """The distinct causes of failure with their counts, the most frequent first."""
    counts: dict[str, int] = {}
    for trial in trials:
        text = f"{trial.ending}: {trial.reason}" if trial.reason else trial.ending
        counts[text] = counts.get(text, 0) + 1
    return "".join(f"\n  {count} x {text}" for text, count in sorted(counts.items(), key=lambda c: -c[1]))
