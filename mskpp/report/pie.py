# SPDX-License-Identifier: Apache-2.0
"""Share of the cycles by instruction, as a pie: one page that needs no network."""

from __future__ import annotations

from typing import TextIO

from mskpp.report.result import Result


def write_pie(result: Result, file: TextIO) -> None:
    """instruction_cycle_consumption.html, with the chart library inside."""
    from plotly.io import to_html

    rows = sorted(result.instructions.values(), key=lambda row: -row.cycles)
    figure = {
        "data": [
            {
                "type": "pie",
                "labels": [row.name for row in rows],
                "values": [row.cycles for row in rows],
                "sort": False,
                "texttemplate": "%{label}<br>%{percent}",
                "hovertemplate": "%{label}: %{value} cycles, %{percent}<extra></extra>",
            }
        ],
        "layout": {"title": {"text": f"Cycles by instruction, {result.chip}, {result.total_cycles:,} cycles in all"}},
    }
    file.write(to_html(figure, include_plotlyjs=True, full_html=True, validate=False))
