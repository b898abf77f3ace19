# SPDX-License-Identifier: Apache-2.0
"""A modelled kernel as one HTML page without a network: how long it takes, why, and what to change.

Figures are of all instructions, whatever their number. Of very long timelines the page draws the longest instructions
only, and of very long tables the first rows, so that it stays below 10 MB; it says what it leaves out.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.errors import ArgumentError, InputError
from mskpp.report import advice
from mskpp.report.output import new_file
from mskpp.report.page import Html, joined, json_text, page, shortened, tag
from mskpp.report.portable import hit_ratio_text
from mskpp.report.schema import SavedResult
from mskpp.report.slices import Slices, cut

if TYPE_CHECKING:
    from mskpp.report.analysis import Gain
    from mskpp.report.result import Result, Statistic

FILES = Path(__file__).with_name("page_files")
DATA_BYTES = 4_500_000  # with a chart library of 4.8 MB a page stays below 10 MB
MOST_NOTES = 50
MOST_LOOKED_AT = 1_000  # instructions, for the name of the kernel's file
_TENSOR = 200  # characters of a tensor's text


@dataclass(frozen=True)
class Limits:
    """How much of a result a page holds: instructions drawn, rows of each table, points of all memory charts."""

    slices: int
    rows: int
    points: int


# The first that fits is taken; the last one always does.
LIMITS = (
    Limits(400_000, 2_000, 40_000),
    Limits(200_000, 1_000, 20_000),
    Limits(100_000, 500, 10_000),
    Limits(20_000, 200, 5_000),
    Limits(2_000, 50, 2_000),
)


def write_report(result: Result | SavedResult, path: str | os.PathLike[str]) -> None:
    """Writes the page (mode 0600) to the path, whole or not at all; a file that is there is replaced.

    Raises ArgumentError and InputError for what is no path, FileError where it cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ArgumentError(f"to_html: the path must be a str or a path, got {type(path).__name__}")
    if not Path(path).name or "\0" in os.fspath(path):
        raise InputError(f"to_html: the path {os.fspath(path)!r} names no file; give one such as 'report.html'")
    text = report_of(result)
    with new_file(Path(path), "to_html") as file:
        file.write(text)


def report_of(result: Result | SavedResult) -> str:
    """The page as a text."""
    slices = None if isinstance(result, SavedResult) else Slices(result.events(), result.slack())
    for limits in LIMITS:
        data = data_of(result, slices, limits)
        if len(json_text(data)) <= DATA_BYTES:
            break
    kernel = kernel_of(result)
    return page(
        f"{shortened(kernel, 100)}{': ' if kernel else ''}{us_text(result.duration_us)} µs on "
        f"{shortened(result.chip, 100)}",
        body(result, data),
        data,
        scripts=[FILES / "timeline.js", FILES / "report.js"],
        styles=[FILES / "report.css"],
        charts_later=True,
    )


# --------------------------------------------------------------------------- the data


def data_of(result: Result | SavedResult, slices: Slices | None, limits: Limits) -> dict[str, Any]:
    """All that the scripts of the page need."""
    left_out: list[str] = []

    def first(rows: Sequence[Any], noun: str) -> Sequence[Any]:
        if len(rows) > limits.rows:
            left_out.append(f"{len(rows) - limits.rows:,} of {len(rows):,} {noun}, those with the fewest cycles.")
        return rows[: limits.rows]

    timeline = None if slices is None else slices.data(limits.slices)
    if timeline is not None and timeline["kept"] < timeline["count"]:
        left_out.append(
            f"{timeline['count'] - timeline['kept']:,} of {timeline['count']:,} instructions on the timeline: it draws "
            f"the longest, from {timeline['shortest']:,} cycles on, over a band that shows how busy each pipe is."
        )
    ledger, path = result.ledger, result.critical_path
    pipes = sorted(result.pipes.values(), key=lambda row: -row.cycles)
    instructions = sorted(result.instructions.values(), key=lambda row: -row.cycles)
    chosen = advice.first_changes(result.what_if)
    gains = gains_shown(result.what_if)
    data: dict[str, Any] = {
        "clockMhz": result.clock_mhz,
        "total": result.total_cycles,
        "timeline": timeline,
        "pipes": [_statistic(row) for row in first(pipes, "pipes")],
        "instructions": [_statistic(row) for row in first(instructions, "instructions")],
        "ledger": [
            [cut(row.pipe), row.busy, row.data, row.flag, row.barrier, row.end]
            for row in first(ledger.pipes, "pipes of the ledger")
        ],
        "stalls": [
            [
                cut(row.pipe), row.cause, row.cycles, row.count, cut(row.tensor, _TENSOR), cut(row.by),
                cut(row.by_pipe), cut(row.by_line), cut(row.waiting), cut(row.line),
            ]
            for row in first(ledger.stalls, "causes of stalls")
        ],
        "critical": {
            "steps": path.step_count,
            "parts": [
                [cut(row.name), cut(row.pipe), cut(row.line), row.cycles, row.count]
                for row in first(path.parts, "parts of the critical path")
            ],
        },
        "gains": [
            [gain.kind, cut(gain.subject), gain.change, cut(in_page(advice.sentence(gain)), _TENSOR), gain.total_cycles,
             gain.gain_cycles, gain in chosen]
            for gain in first(gains, "changes of the what-if table")
        ],
        "roofline": _roofline(result, limits, left_out),
        "memory": _memory(result, limits, left_out),
        "comparison": _comparison(result, limits, left_out),
        "origins": first(_origins(result), "rows of costs that are not measured"),
    }  # fmt: skip
    data["leftOut"] = left_out
    return data


def gains_shown(what_if: Sequence[Gain]) -> list[Gain]:
    """What can be made before what cannot, as an instruction at no cost; without pipes whose time is all in one thing
    that has a row of its own."""
    rows = {(gain.change, gain.total_cycles) for gain in what_if if gain.kind in ("path", "instruction")}
    kept = [gain for gain in what_if if gain.kind != "pipe" or (gain.change, gain.total_cycles) not in rows]
    return sorted(kept, key=lambda gain: gain.change in ("free", "ratio 0"))


def kernel_of(result: Result | SavedResult) -> str:
    """The file with the first line of user code that is known; "" where none is."""
    is_saved = isinstance(result, SavedResult)
    events = () if is_saved else itertools.islice(result.events(), MOST_LOOKED_AT)
    lines = (one.line for one in (*events, *result.critical_path.steps[:MOST_LOOKED_AT]))
    return next((line.rpartition(":")[0] for line in lines if line), "")


def in_page(text: str) -> str:
    """With the arrows and units of the page."""
    return text.replace("->", "→").replace(" us", " µs")


def _statistic(row: Statistic) -> list[Any]:
    return [cut(row.name), row.cycles, row.bytes, row.operations, row.count, dict(row.origins)]


def _origins(result: Result | SavedResult) -> list[list[Any]]:
    """Costs that are not measured, those of all cores as one: name, origin, pipe, line, count, cycles."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for row in result.costs_not_measured:
        pipe = row.pipe[max(row.pipe.rfind("PIPE-"), 0) :]
        sums = found.setdefault((row.name, row.origin, pipe, row.line), [0, 0])
        sums[0] += row.count
        sums[1] += row.cycles
    rows = [[*(cut(text) for text in key), *sums] for key, sums in found.items()]
    return sorted(rows, key=lambda row: -row[5])


def _roofline(result: Result | SavedResult, limits: Limits, left_out: list[str]) -> list[dict[str, Any]]:
    most = max(1, limits.rows // 20)
    cores = result.roofline
    if len(cores) > most:
        left_out.append(f"Rooflines of {len(cores) - most:,} of {len(cores):,} cores.")
    return [
        {
            "core": cut(core.core),
            "operations": core.operations,
            "rate": _figure(core.operations_per_cycle),
            "peak": _figure(core.peak_operations_per_cycle),
            "intensity": _figure(core.intensity),
            "bound": cut(core.bound),
            "utilisation": _figure(core.utilisation),
            "paths": [
                [cut(path.name), path.bytes, _figure(path.bytes_per_cycle), _figure(path.peak_bytes_per_cycle),
                 _figure(path.share)]
                for path in core.paths[:50]
            ],
        }
        for core in cores[:most]
    ]  # fmt: skip


def _memory(result: Result | SavedResult, limits: Limits, left_out: list[str]) -> list[dict[str, Any]]:
    uses = result.memory
    most = limits.points // 20
    if len(uses) > most:
        left_out.append(f"Charts of {len(uses) - most:,} of {len(uses):,} memories.")
    shown = uses[:most]
    points = max(20, limits.points // max(len(shown), 1))
    return [
        {
            "core": cut(use.core),
            "memory": cut(use.memory),
            "peak": use.peak_bytes,
            "at": use.peak_cycle,
            "capacity": use.capacity_bytes,
            "points": [number for point in steps_thinned(use.points, points) for number in point],
            "largest": [[cut(live.text, _TENSOR), live.bytes, live.versions] for live in use.largest],
        }
        for use in shown
    ]


def _comparison(result: Result | SavedResult, limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
    comparison = result.comparison
    if comparison is None:
        return None
    rows = list(comparison.pipes.values())
    if len(rows) > limits.rows:
        left_out.append(f"{len(rows) - limits.rows:,} of {len(rows):,} rows of the comparison.")
    profile = comparison.profile
    return {
        "file": cut(os.path.basename(profile.path), _TENSOR),
        "operator": cut(profile.operator, _TENSOR),
        "what": profile.what,
        "caution": profile.caution,
        "rows": [
            [cut(row.name), _figure(row.predicted_us), _figure(row.summary_us), _figure(row.summary_ratio)]
            for row in rows[: limits.rows]
        ],
    }


def steps_thinned(points: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most so many of the steps of a function over time; of equal parts the largest value stays."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / max(most - 1, 1))
    kept = [max(points[at : at + size], key=lambda point: point[1]) for at in range(0, len(points), size)]
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _figure(value: float | None) -> float | None:
    """With as many digits as a page can show; None for what JSON does not have."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.10g}")


# --------------------------------------------------------------------------- the body


def body(result: Result | SavedResult, data: dict[str, Any]) -> Html:
    """The page without its data: the figures that matter, and places for what the scripts make."""
    sections = [headline(result), remarks(result, data)]
    if len(result):
        sections.append(advised(result))
        if data["timeline"] is not None:
            sections.append(section("timeline", "Timeline", None))
        sections.append(
            section(
                "ledger",
                "Where the time goes",
                "Every cycle of every pipe is busy or waits for the one thing that released it last: data that another "
                "instruction writes, a flag, a barrier; or the pipe is done. Each bar is the whole makespan.",
            )
        )
        sections.append(
            tag(
                "div",
                section(
                    "critical",
                    "Critical path",
                    f"The chain of {result.critical_path.step_count:,} instructions that decides the makespan: only "
                    "what shortens it shortens the whole.",
                ),
                section("gains", "What if", "The makespan, scheduled anew with one thing changed."),
                class_="columns",
            )
        )
        sections.append(
            section(
                "statistics",
                "Pipes and instructions",
                "Busy cycles, without flags and waiting. Pipes run beside each other, so that shares overlap in time.",
            )
        )
    if data["comparison"]:
        sections.append(section("comparison", "Prediction against measurement", measured_text(data["comparison"])))
    if data["roofline"]:
        sections.append(
            section(
                "roofline",
                "Roofline",
                "A point is a path: operations per byte it carried, and operations per cycle. Its line is what the "
                "path's best rate allows at that intensity, the level line the best rate of computing.",
            )
        )
    if data["memory"]:
        sections.append(
            section(
                "memory",
                "Memory over time",
                "Live bytes: what is written lives from the start of its write to the end of its last read.",
            )
        )
    if data["origins"]:
        sections.append(
            section(
                "origins",
                "Costs that are not measured",
                "Instructions whose cycles are not a measured point of the chip's tables, those with the most first. "
                "The prediction is as good as these.",
            )
        )
    scripted = tag("noscript", tag("p", "Charts and tables need JavaScript, which is switched off.", class_="note"))
    return tag("main", *sections, scripted, footer(result, data))


def section(name: str, title: str, about: str | None) -> Html:
    return tag(
        "section",
        tag("h2", title),
        tag("p", about, class_="about") if about else None,
        tag("div", id=name),
        id=f"s-{name}",
    )


def headline(result: Result | SavedResult) -> Html:
    figures = [figure("Time", f"{us_text(result.duration_us)} µs", f"{result.total_cycles:,} cycles", "best", "time")]
    if result.bound is not None and result.total_cycles:
        share = result.pipes[result.bound].cycles / result.total_cycles
        name = shortened(result.bound, 60)
        figures.append(figure("Busiest pipe", name, f"busy {percent_text(share)} of the time", "", "bound"))
    figures += [item for item in (_utilisation(result),) if item is not None]
    cores = len({pipe.rpartition("PIPE-")[0] for pipe in result.pipes}) or 1
    where = f"{len(result.pipes)} pipes" + (f" of {cores} cores" if cores > 1 else "")
    figures.append(figure("Instructions", f"{len(result):,}", where, "", "count"))
    origins = result.origins
    costs = sum(origins.values())
    if costs:
        measured = origins.get("measured", 0)
        rest = ", ".join(
            f"{count:,} {origin.replace('_', ' ')}"
            for origin, count in sorted(origins.items(), key=lambda item: -item[1])
            if origin != "measured"
        )
        figures.append(
            figure("Costs measured", percent_text(measured / costs), rest or "all of them", "", "measured-share")
        )
    if result.comparison is not None:
        total = result.comparison.pipes.get("Total")
        if total is not None and total.summary_us is not None:
            ratio = "" if total.summary_ratio is None else f"{total.summary_ratio:.2f} × the prediction"
            figures.append(figure("Measured", f"{us_text(total.summary_us)} µs", ratio, "", "measured"))
    return tag(
        "header",
        tag("div", tag("h1", shortened(kernel_of(result) or result.chip, 200)), class_="title"),
        tag(
            "p",
            f"Predicted kernel time on {shortened(result.chip, 200)} at {result.clock_mhz:,.0f} MHz, "
            f"{hit_ratio_text(result.cache_hit_ratio)}, page made {time.strftime('%Y-%m-%d %H:%M')}",
            class_="sub",
        ),
        tag("div", *figures, class_="figures"),
    )


def _utilisation(result: Result | SavedResult) -> Html | None:
    """Of the core with the busiest pipe, and of what that pipe does."""
    busiest = (result.bound or "").rpartition("PIPE-")[0].removesuffix("-")
    core = next((one for one in result.roofline if one.core == busiest), None)
    if core is None or core.utilisation is None:
        return None
    limit = "computing" if core.bound == "compute" else shortened(core.bound.replace("_TO_", "→"), 40)
    where = f" on {shortened(core.core, 30)}" if core.core else ""
    return figure(
        "Utilisation", percent_text(core.utilisation or 0.0), f"of the best rate of {limit}{where}", "", "use"
    )


def figure(name: str, value: str, more: str | None, kind: str, identity: str) -> Html:
    return tag(
        "div",
        tag("div", name, class_="name"),
        tag("div", value, class_="value"),
        tag("div", more, class_="more") if more else None,
        class_=f"figure {kind}".strip(),
        id=f"figure-{identity}",
    )


def advised(result: Result | SavedResult) -> Html:
    """The first three things to change."""
    chosen = advice.first_changes(result.what_if)
    if not chosen:
        text = "Nothing that was tried gains 1 %."
        return tag("section", tag("h2", "What to change first"), tag("p", text, class_="about"), id="s-advice")
    rows = []
    for gain in chosen:
        before = gain.total_cycles + gain.gain_cycles
        left = 100 * gain.total_cycles / before if before else 100.0
        bar = tag("span", tag("span", style=f"width:{left:.2f}%"), class_="shrink", aria_hidden="true")
        said = tag("b", capital(shortened(in_page(advice.sentence(gain)), 160)))
        effect = advice.effect(gain, result.clock_mhz)
        small = "small" if abs(gain.gain_cycles) < before / 200 else None
        rows.append(tag("li", said, tag("span", in_page(effect), class_="gain"), bar, class_=small))
    return tag("section", tag("h2", "What to change first"), tag("ol", *rows, class_="advice"), id="s-advice")


def remarks(result: Result | SavedResult, data: dict[str, Any]) -> Html:
    """Warnings, and what there is to know of the figures."""
    out = []
    if not len(result):
        out.append(tag("p", "Nothing was issued: the program is empty.", class_="note"))
    for warning in result.warnings[:MOST_NOTES]:
        out.append(tag("p", tag("b", "Warning: "), shortened(warning, 1_000), class_="note bad warning"))
    notes = [tag("li", shortened(note, 500)) for note in result.notes[:MOST_NOTES]]
    if notes and result.origins.get("inherited"):
        out.append(tag("div", "Taken from another chip's tables:", tag("ul", *notes), class_="note", id="notes"))
    if data["timeline"] is None:
        text = "Made of a result.json, which has no timeline; mskpp report with the script itself draws it."
        out.append(tag("p", text, class_="note"))
    if data["leftOut"]:
        text = "This page does not hold everything: what it leaves out is listed at its end. Its figures are of all."
        out.append(tag("p", text, class_="note"))
    return joined(out)


def measured_text(comparison: dict[str, Any]) -> str:
    name = f"{comparison['operator']}, " if comparison["operator"] else ""
    caution = f" {capital(comparison['caution'])}." if comparison["caution"] else ""
    return f"Measured: {name}{comparison['what']}, {comparison['file']}.{caution}"


def footer(result: Result | SavedResult, data: dict[str, Any]) -> Html:
    from mskpp import __version__

    parts = [tag("p", f"A model's prediction, not a measurement. mskpp {__version__}")]
    if data["leftOut"]:
        items = [tag("li", text) for text in data["leftOut"]]
        parts.insert(0, tag("div", "Not on this page:", tag("ul", *items), class_="note", id="left-out"))
    return tag("footer", *parts)


def capital(text: str) -> str:
    """With a capital at its begin."""
    return text[:1].upper() + text[1:]


def us_text(us: float) -> str:
    """Three decimals as in the console; without them where they are noise, more where there would be nothing."""
    if us and abs(us) < 0.01:
        return f"{us:.4g}"
    return f"{us:,.3f}" if abs(us) < 100_000 else f"{us:,.0f}"


def percent_text(share: float) -> str:
    percent = 100 * share
    if percent and percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.{0 if percent >= 99.95 or not percent else 1}f} %"
