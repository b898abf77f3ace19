# SPDX-License-Identifier: Apache-2.0
"""A tuning as one HTML page without a network: what won, how the search went, what parameters do, what failed.

Figures and lines are of all trials, whatever their number. What is drawn as points and listed in the table is limited,
so that a page stays below 10 MB and a browser can show it; the page says what it leaves out.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from mskpp.launcher import checks
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult, encodable
from mskpp.report.page import Html, joined, json_text, page, shortened, tag

FILES = Path(__file__).with_name("page_files")
DATA_BYTES = 4_500_000  # with a chart library of 4.8 MB a page stays below 10 MB
MOST_NAMES = 40  # of tuned names, in the table
MOST_PLOTS = 24  # of names with a plot
MOST_PAIRED = 8  # of names in the heat map
MOST_CATEGORIES = 30  # of a name's values, unless they are numbers
MOST_NUMBERS = 48  # of a name's numbers; more are put into ranges
RANGES = 32
MOST_CAUSES = 100
FEW_SAMPLES = 3  # fewer give no bounds
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Limits:
    """How much of a result a page holds: trials, and characters of a value, a reason, a log and all logs."""

    trials: int
    value: int
    reason: int
    log: int
    logs: int


# The first that fits is taken; the last one always does.
LIMITS = (
    Limits(10_000, 2_000, 2_000, 20_000, 2_000_000),
    Limits(10_000, 300, 300, 2_000, 500_000),
    Limits(3_000, 300, 300, 2_000, 300_000),
    Limits(1_000, 200, 200, 1_000, 200_000),
    Limits(200, 60, 100, 200, 20_000),
)


def write_page(result: TuneResult, path: str | Path) -> None:
    """The page of a tuning (0600), whole or not at all. Raises what checks.write_file does, for example FileError."""
    checks.write_file(path, encodable(page_of(result)), "to_html")


def page_of(result: TuneResult) -> str:
    """The page of a tuning as a text."""
    view = View(result)
    for limits in LIMITS:
        data = view.data(limits)
        if len(json_text(data)) <= DATA_BYTES:
            break
    return page(
        f"Tuning of {shortened(result.kernel, 200)}",
        body(view, data),
        data,
        scripts=[FILES / "tuning.js"],
        styles=[FILES / "tuning.css"],
    )


class View:
    """What the page needs to know of a result, with every value of a name as a number: its place among the texts."""

    def __init__(self, result: TuneResult) -> None:
        self.result = result
        self.trials = result.trials
        counts = Counter(trial.ending for trial in self.trials)
        self.not_tried = counts.pop(NOT_TRIED, 0)
        self.tried = len(self.trials) - self.not_tried
        self.failed = self.tried - counts[MEASURED]
        self.known = sum(trial.known for trial in self.trials)
        times = [trial.time_us for trial in self.trials if _measured(trial)]
        self.slowest = max((time for time in times if time is not None), default=None)
        # In the order in which they ended; without clock readings in the order of their numbers.
        ended = [trial for trial in self.trials if trial.ending != NOT_TRIED]
        self.order = sorted(ended, key=lambda trial: (trial.elapsed_seconds, trial.number))
        self.timed = any(trial.elapsed_seconds > 0 for trial in ended)
        self.steps = list(self._steps())
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.config))
        self.all_names = len(names)
        self.names = names[:MOST_NAMES]
        self.parameters = [Parameter.of(name, self.trials) for name in self.names]
        self.pairs = self._pairs()

    def _steps(self) -> Iterator[tuple[int, Trial]]:
        """Each trial that was the best so far, after the number of trials that had ended then."""
        best = math.inf
        for count, trial in enumerate(self.order, 1):
            if _measured(trial) and trial.time_us is not None and trial.time_us < best:
                best = trial.time_us
                yield count, trial

    def data(self, limits: Limits) -> dict[str, Any]:
        """All that the scripts of the page need."""
        chosen = self.chosen(limits.trials)
        left_out = []
        if len(chosen) < len(self.trials):
            left_out.append(
                f"{len(self.trials) - len(chosen):,} of {len(self.trials):,} configurations are not in the table and "
                "not among the points: the fastest, those that were the best when they ended and an even share of the "
                "others are. to_csv() and json() have all."
            )
        if self.all_names > len(self.names):
            left_out.append(f"{self.all_names - len(self.names):,} of {self.all_names:,} tuned names.")
        parameters = [parameter.data(chosen, limits.value) for parameter in self.parameters]
        left_out += [text for parameter in self.parameters if (text := parameter.left_out())]
        trials, cut_logs = self.columns(chosen, limits)
        if cut_logs:
            left_out.append(f"{cut_logs:,} logs, or parts of them, that are too long. json() has all.")
        shown, rest = self.causes(limits)
        if rest:
            left_out.append(f"{rest:,} more causes of failure, each less frequent than those listed.")
        best = self.result.best
        return {
            "measured": MEASURED,
            "notTried": NOT_TRIED,
            "timed": self.timed,
            "seconds": _figure(self.result.seconds),
            "fewSamples": FEW_SAMPLES,
            "best": best.number if best else None,
            "ties": list(self.result.ties[: limits.trials]),
            "correlation": _figure(self.result.correlation),
            "steps": [
                [count, _figure(t.elapsed_seconds), _figure(t.time_us), t.number]
                for count, t in _thinned(self.steps, 2_000)
            ],
            "counted": self.tried,
            "plots": MOST_PLOTS,
            "paired": MOST_PAIRED,
            "parameters": parameters,
            "pairs": self.pairs,
            "trials": trials,
            "causes": shown,
            "leftOut": left_out,
        }

    def chosen(self, most: int) -> list[int]:
        """The places of the trials that the page holds, in their order: the most telling ones and a share of all."""
        if len(self.trials) <= most:
            return list(range(len(self.trials)))
        place = {trial.number: at for at, trial in enumerate(self.trials)}
        ranked = [place[trial.number] for trial in self.result.ranking]
        failed = [at for at, trial in enumerate(self.trials) if not trial.good and trial.ending != NOT_TRIED]
        wanted = dict.fromkeys(place[number] for number in self.result.ties[: most // 4])
        wanted.update(dict.fromkeys(place[trial.number] for _, trial in _thinned(self.steps, most // 8)))
        wanted.update(dict.fromkeys(ranked[: most // 8]))
        wanted.update(dict.fromkeys(_thinned(failed, most // 8)))
        wanted = dict.fromkeys(list(wanted)[:most])
        rest = [at for at in range(len(self.trials)) if at not in wanted]
        wanted.update(dict.fromkeys(_thinned(rest, most - len(wanted))))
        return sorted(wanted)

    def _pairs(self) -> dict[str, list[list[Any]]]:
        """For each two names the cells of their map: the place of the cell, its best time and whose that is.

        A cell's place is the slot of the first name, times the number of slots of the second, plus the slot of the
        second. Where all have failed there is the first of them, without a time.
        """
        place = {trial.number: at for at, trial in enumerate(self.trials)}
        ranked = [place[trial.number] for trial in self.result.ranking if _measured(trial)]
        ranked += [at for at, trial in enumerate(self.trials) if trial.ending != NOT_TRIED and not _measured(trial)]
        paired = self.parameters[:MOST_PAIRED]
        slots = [[parameter.slots[code] for code in parameter.codes] for parameter in paired]
        out: dict[str, list[list[Any]]] = {}
        for first, second in combinations(range(len(paired)), 2):
            width = len(paired[second].values)
            mine, other = slots[first], slots[second]
            cells: dict[int, int] = {}
            for at in ranked:
                if mine[at] >= 0 and other[at] >= 0:
                    cells.setdefault(mine[at] * width + other[at], at)
            best = [self.trials[at] for at in cells.values()]
            times = [_figure(trial.time_us) if trial.good else None for trial in best]
            out[f"{first},{second}"] = [list(cells), times, [trial.number for trial in best]]
        return out

    def columns(self, chosen: Sequence[int], limits: Limits) -> tuple[dict[str, list[Any]], int]:
        """The trials, a list for each field; and how many logs are not whole."""
        trials = [self.trials[at] for at in chosen]
        count = {trial.number: at for at, trial in enumerate(self.order, 1)}
        texts: dict[str, int] = {"": 0}
        room = limits.logs
        cut = 0
        logs = []
        for trial in trials:
            text = shortened(trial.log, limits.log)
            if text not in texts:
                if len(text) > room:
                    text = ""
                room -= len(text)
            cut += text != trial.log
            logs.append(texts.setdefault(text, len(texts)))
        reasons = [texts.setdefault(shortened(trial.reason, limits.reason), len(texts)) for trial in trials]
        return {
            "number": [trial.number for trial in trials],
            "ending": [trial.ending for trial in trials],
            "time": [_figure(trial.time_us) if trial.good else None for trial in trials],
            "low": [_figure(trial.low_us) for trial in trials],
            "high": [_figure(trial.high_us) for trial in trials],
            "samples": [trial.samples for trial in trials],
            "compile": [_figure(trial.compile_seconds) for trial in trials],
            "predicted": [_figure(trial.predicted_us) for trial in trials],
            "known": [int(trial.known) for trial in trials],
            "elapsed": [_figure(trial.elapsed_seconds) for trial in trials],
            "count": [count.get(trial.number) for trial in trials],
            "reason": reasons,
            "log": logs,
            "texts": list(texts),
        }, cut

    def causes(self, limits: Limits) -> tuple[list[dict[str, Any]], int]:
        """The failures by cause, the most frequent first; and how many causes are not among them."""
        groups: defaultdict[tuple[str, str], list[Trial]] = defaultdict(list)
        for trial in self.trials:
            if not trial.good and trial.ending != NOT_TRIED:
                groups[trial.ending, trial.reason].append(trial)
        found = sorted(groups.items(), key=lambda group: -len(group[1]))
        shown = [
            {
                "ending": ending,
                "reason": shortened(reason, limits.reason),
                "count": len(trials),
                "numbers": [trial.number for trial in trials[:12]],
                "log": shortened(trials[0].log, min(limits.log, 4_000)),
            }
            for (ending, reason), trials in found[:MOST_CAUSES]
        ]
        return shown, len(found) - len(shown)


@dataclass(frozen=True)
class Parameter:
    """A tuned name: its values as texts, and what became of them over all trials.

    ``codes``: for each trial the place of its value among the texts, -1 for none. A chart has a slot for each value; of
    many numbers a slot is a range, and of many other values only those with the best times have one. ``slots``: of each
    text, then -1 for a trial without a value. ``values``: for each slot its label, its number or the middle of its
    range, how many were tried and measured, and the best and the median time.
    """

    name: str
    texts: list[str]
    codes: list[int]
    numbers: list[float] | None
    log: bool
    ranges: bool
    slots: list[int]
    values: list[tuple[str, float | None, int, int, float | None, float | None]]

    @classmethod
    def of(cls, name: str, trials: Sequence[Trial]) -> Parameter:
        seen: dict[str, int] = {}
        codes = [
            seen.setdefault(value_shown(trial.config[name]), len(seen)) if name in trial.config else -1
            for trial in trials
        ]
        texts = list(seen)
        given = [number_of(text) for text in texts]
        numbers = [number for number in given if number is not None]
        if len(numbers) < len(texts):
            slots, labels = _category_slots(texts, codes, trials)
            return cls(name, texts, codes, None, False, False, slots, _values(slots, labels, codes, trials))
        log = spans_powers(sorted(numbers))
        ranges = len(set(numbers)) > MOST_NUMBERS
        slots, labels = _ranges(numbers, log) if ranges else _number_slots(texts, numbers)
        return cls(name, texts, codes, numbers, log, ranges, slots, _values(slots, labels, codes, trials))

    def left_out(self) -> str | None:
        if self.numbers is not None or len(self.values) == len(self.texts):
            return None
        name = shortened(self.name, 100)
        count = len(self.texts)
        return f"In the charts: {count - len(self.values):,} of {count:,} values of {name}, the slowest ones."

    def data(self, chosen: Sequence[int], most: int) -> dict[str, Any]:
        """For the scripts, with those texts only that a chosen trial has."""
        used = sorted({self.codes[at] for at in chosen} - {-1})
        renumbered = {old: new for new, old in enumerate(used)}
        return {
            "name": shortened(self.name, 200),
            "numeric": self.numbers is not None,
            "log": self.log,
            "ranges": self.ranges,
            "texts": [shortened(self.texts[code], most) for code in used],
            "numbers": [self.numbers[code] for code in used] if self.numbers is not None else None,
            "slots": [self.slots[code] for code in used],
            "values": [
                [shortened(label, most), _figure(x), tried, measured, _figure(best), _figure(median)]
                for label, x, tried, measured, best, median in self.values
            ],
            "codes": [renumbered.get(self.codes[at], -1) for at in chosen],
        }


Labels = list[tuple[str, float | None]]


def _category_slots(texts: list[str], codes: list[int], trials: Sequence[Trial]) -> tuple[list[int], Labels]:
    best = [math.inf] * len(texts)
    for code, trial in zip(codes, trials, strict=True):
        if code >= 0 and _measured(trial) and trial.time_us is not None:
            best[code] = min(best[code], trial.time_us)
    shown = sorted(range(len(texts)), key=lambda code: (best[code], code))[:MOST_CATEGORIES]
    shown.sort(key=lambda code: natural(texts[code]))
    slots = [-1] * (len(texts) + 1)
    for slot, code in enumerate(shown):
        slots[code] = slot
    return slots, [(texts[code], None) for code in shown]


def _number_slots(texts: list[str], numbers: list[float]) -> tuple[list[int], Labels]:
    """A slot for each number; "8" and "8.0" share one."""
    place = {number: slot for slot, number in enumerate(sorted(set(numbers)))}
    labels: dict[int, str] = {}
    for text, number in zip(texts, numbers, strict=True):
        labels.setdefault(place[number], text)
    return [*(place[number] for number in numbers), -1], [(labels[slot], number) for number, slot in place.items()]


def _ranges(numbers: list[float], log: bool) -> tuple[list[int], Labels]:
    """Ranges of equal width, or of equal factor on a logarithmic axis."""
    scaled = [math.log(number) for number in numbers] if log else numbers
    low, high = min(scaled), max(scaled)
    width = (high - low) / RANGES
    slots = [min(RANGES - 1, int((number - low) / width)) if width else 0 for number in scaled]
    ends = [low + width * at for at in range(RANGES)] + [high]
    if log:
        ends = [math.exp(end) for end in ends]
        middles = [math.sqrt(a) * math.sqrt(b) for a, b in pairwise(ends)]
    else:
        middles = [a / 2 + b / 2 for a, b in pairwise(ends)]
    return [*slots, -1], [(f"{ends[at]:.4g} to {ends[at + 1]:.4g}", middle) for at, middle in enumerate(middles)]


def _values(
    slots: list[int], labels: Labels, codes: list[int], trials: Sequence[Trial]
) -> list[tuple[str, float | None, int, int, float | None, float | None]]:
    times: list[list[float]] = [[] for _ in labels]
    tried = [0] * len(labels)
    for code, trial in zip(codes, trials, strict=True):
        slot = slots[code]
        if slot >= 0 and trial.ending != NOT_TRIED:
            tried[slot] += 1
            if _measured(trial) and trial.time_us is not None:
                times[slot].append(trial.time_us)
    return [
        (label, x, tried[at], len(times[at]), min(times[at], default=None), statistics.median(times[at] or [math.nan]))
        for at, (label, x) in enumerate(labels)
    ]


def body(view: View, data: dict[str, Any]) -> Html:
    """The page without its data: the figures that matter, and places for what the scripts make."""
    result = view.result
    best = result.best
    sections = [headline(view), notes(view, data)]
    if best is not None:
        sections.append(best_section(view, best))
    if view.tried:
        sections.append(
            section(
                "progress",
                "Progress of the search",
                "Each point is a configuration. The line is the best time so far; crosses at the bottom are failures.",
            )
        )
    if best is not None and view.names:
        sections.append(
            section(
                "effect",
                "Effect of each parameter",
                "Times of all configurations with a value; the other parameters vary. A parameter whose best times "
                "differ little hardly matters.",
            )
        )
    if best is not None and len(view.names) > 1:
        sections.append(
            section("pair", "Two parameters together", "The best time of all configurations with both values.")
        )
    if any(trial.predicted_us is not None and trial.good for trial in view.trials):
        sections.append(section("prediction", "Prediction against measurement", correlation_text(result)))
    if view.failed:
        sections.append(section("failures", "Failures by cause", f"{view.failed:,} of {view.tried:,} that were tried."))
    sections.append(section("trials", "All configurations" if not data["leftOut"] else "Configurations", None))
    scripted = tag("noscript", tag("p", "Charts and tables need JavaScript, which is switched off.", class_="note"))
    return tag("main", *sections, scripted, footer(data))


def section(name: str, title: str, about: str | None) -> Html:
    return tag(
        "section",
        tag("h2", title),
        tag("p", about, class_="about") if about else None,
        tag("div", id=name),
        id=f"s-{name}",
    )


def headline(view: View) -> Html:
    result = view.result
    best = result.best
    state, kind = ("complete", "good") if result.complete else ("incomplete", "warn")
    figures = []
    if best is not None:
        bounds = f"{time_text(best.low_us)} to {time_text(best.high_us)} µs" if best.samples >= FEW_SAMPLES else None
        figures.append(figure("Best time", f"{time_text(best.time_us)} µs", bounds, "best"))
        ratio = (view.slowest or 0.0) / best.time_us if best.time_us else 0.0
        text = f"{ratio:,.2f} ×" if ratio else "–"
        figures.append(figure("Worst / best", text, f"worst {time_text(view.slowest)} µs", ""))
    else:
        figures.append(figure("Best time", "none", "nothing could be measured", "bad"))
    more = f"{view.known:,} known before" if view.known else None
    if view.not_tried:
        more = f"{more}, {view.not_tried:,} not tried" if more else f"{view.not_tried:,} not tried"
    figures.append(figure("Tried", f"{view.tried:,}", more, ""))
    share = f"{100 * view.failed / view.tried:.0f} % of those tried" if view.failed else None
    figures.append(figure("Failed", f"{view.failed:,}", share, "bad" if view.failed else ""))
    tied = len(result.ties)
    figures.append(
        figure("Ties with the best", f"{max(tied - 1, 0):,}", "cannot be told apart" if tied > 1 else None, "")
    )
    figures.append(figure("Duration", duration_text(result.seconds), None, ""))
    title = tag("h1", shortened(result.kernel, 300))
    return tag(
        "header",
        tag("div", title, tag("span", state, class_=f"badge {kind}"), class_="title"),
        tag("p", f"Tuning on the backend {shortened(result.backend, 100)}", class_="sub"),
        tag("div", *figures, class_="figures"),
    )


def figure(name: str, value: str, more: str | None, kind: str) -> Html:
    return tag(
        "div",
        tag("div", name, class_="name"),
        tag("div", value, class_="value"),
        tag("div", more, class_="more") if more else None,
        class_=f"figure {kind}".strip(),
    )


def notes(view: View, data: dict[str, Any]) -> Html:
    out = []
    if not view.tried:
        out.append(tag("p", "No configuration was tried.", class_="note"))
    elif view.result.best is None:
        out.append(
            tag("p", "No configuration could be measured. The causes are listed below with their logs.", class_="note")
        )
    if not view.result.complete:
        text = "The search is incomplete: a budget or an interrupt ended it, and there may be a faster configuration."
        out.append(tag("p", text, class_="note"))
    if data["leftOut"]:
        text = "This page does not hold everything; what it leaves out is listed at its end."
        out.append(tag("p", text, class_="note"))
    return joined(out)


def best_section(view: View, best: Trial) -> Html:
    rows = []
    for name in list(best.config)[:MOST_NAMES]:
        rows.append(tag("dt", shortened(name, 200)))
        rows.append(tag("dd", shortened(value_shown(best.config[name]), 2_000)))
    others = view.result.ties[1:]
    tied = None
    if others:
        listed = ", ".join(f"No.{number}" for number in others[:20]) + (", …" if len(others) > 20 else "")
        tied = tag("p", f"Its time cannot be told from that of {listed}.", class_="about")
    return tag(
        "section",
        tag("h2", f"Best configuration: No.{best.number}"),
        tied,
        tag("dl", *rows, class_="best"),
        id="s-best",
    )


def footer(data: dict[str, Any]) -> Html:
    from mskpp import __version__

    text = (
        "Times are medians of their samples; from three samples on with bounds that hold the median with up to 95 % "
        "confidence, of fewer than six samples their range."
    )
    parts = [tag("p", f"{text} mskpp {__version__}")]
    if data["leftOut"]:
        items = [tag("li", text) for text in data["leftOut"]]
        parts.insert(0, tag("div", "Not on this page:", tag("ul", *items), class_="note", id="left-out"))
    return tag("footer", *parts)


def correlation_text(result: TuneResult) -> str:
    if result.correlation is None or not math.isfinite(result.correlation):
        return "Too few configurations have both for a rank correlation."
    return (
        f"Rank correlation (Spearman): {result.correlation:.2f}. With 1 the prediction puts the configurations in the "
        "order that the measurement does, with 0 it says nothing about it."
    )


def value_shown(value: object) -> str:
    """A value as the page shows it; two values that are shown alike are the same one."""
    try:
        return str(value)
    except Exception as error:  # whatever the value's class does, the others are shown
        return f"({type(value).__name__}, which has no text: {type(error).__name__})"


def number_of(text: str) -> float | None:
    """The number that a text is; None for any other text, and for a number that a chart could not tell from others."""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if number == 0 or 1e-15 <= abs(number) <= 1e15 else None


def natural(text: str) -> list[tuple[int, float, str]]:
    """A key that sorts "8x64" before "16x64": runs of digits count as numbers."""
    return [
        (0, float(part), "") if part.isdecimal() and len(part) < 300 else (1, 0.0, part)
        for part in re.split(r"(\d+)", text[:2_000])
        if part
    ]


def spans_powers(numbers: Sequence[float]) -> bool:
    """Whether a logarithmic axis fits sorted numbers: powers of two, and others that grow by factors as those do."""
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < 4 * numbers[0]:
        return False
    if all(math.frexp(number)[0] == 0.5 for number in numbers):
        return True
    # The middle of a geometric series is the geometric mean of its ends, that of an arithmetic one their mean.
    middle = statistics.median(numbers)
    geometric = math.sqrt(numbers[0] * numbers[-1])
    arithmetic = (numbers[0] + numbers[-1]) / 2
    return numbers[-1] >= 8 * numbers[0] and middle / geometric < arithmetic / middle


def time_text(us: float | None) -> str:
    """Three decimals as in the console; without them where they are noise, more where there would be nothing."""
    if us is None or not math.isfinite(us):
        return "–"
    if us and abs(us) < 0.01:
        return f"{us:.4g}"
    return f"{us:,.3f}" if abs(us) < 100_000 else f"{us:,.0f}"


def duration_text(seconds: float) -> str:
    if not math.isfinite(seconds) or seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _measured(trial: Trial) -> bool:
    return trial.good and trial.time_us is not None and math.isfinite(trial.time_us)


def _figure(value: float | None) -> float | None:
    """With as many digits as a page can show; None for what JSON does not have."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.10g}")


def _thinned(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them, evenly chosen, the first and the last included."""
    if len(items) <= most:
        return list(items)
    if most < 2:
        return list(items[: max(most, 0)])
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]
