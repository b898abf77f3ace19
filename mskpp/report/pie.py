# SPDX-License-Identifier: Apache-2.0
"""Share of the cycles by instruction, as a pie: one page that needs no network."""

from __future__ import annotations

import functools
import html
import json
from typing import TextIO

from mskpp.report.result import Result


@functools.cache
def _library() -> str:
    """The chart library as a script; it has no closing tag inside."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def write_pie(result: Result, file: TextIO) -> None:
    """instruction_cycle_consumption.html, with the chart library inside."""
    rows = sorted(result.instructions.values(), key=lambda row: -row.cycles)
    title = f"Cycles by instruction, {result.chip}, makespan {result.total_cycles:,} cycles"
    trace = {
        "type": "pie",
        "labels": [row.name for row in rows],
        "values": [row.cycles for row in rows],
        "sort": False,
        "texttemplate": "%{label}<br>%{percent}",
        "hovertemplate": "%{label}: %{value} cycles, %{percent}<extra></extra>",
    }
    figure = json.dumps([[trace], {"title": {"text": title}}]).replace("<", "\\u003c")
    file.write(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n<script>'
    )
    file.write(_library())
    file.write("</script></head>\n<body>")
    for warning in result.warnings:
        file.write(f"<p><strong>Warning:</strong> {html.escape(warning)}</p>\n")
    file.write('<div id="pie" style="height:95vh"></div>\n<script>')
    file.write(
        f'Plotly.newPlot("pie", ...{figure}, {{responsive: true, displayModeBar: false}});</script></body></html>\n'
    )
