# SPDX-License-Identifier: Apache-2.0
"""Reading back what a block wrote, strictly: a file that no tool could read is a failure here."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

STATISTICS = ("Pipe_statistic.csv", "Instruction_statistic.csv")
ALL_FILES = ("Instruction_statistic.csv", "Pipe_statistic.csv", "instruction_cycle_consumption.html", "trace.json")


def table(folder: str | Path, name: str) -> list[dict[str, str]]:
    """Rows of a statistics file by column."""
    with open(Path(folder) / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def trace(folder: str | Path) -> list[dict[str, Any]]:
    """All events of trace.json. Times are exact fractions of a microsecond, not doubles."""
    text = (Path(folder) / "trace.json").read_text(encoding="utf-8")
    return json.loads(text, parse_float=Fraction, parse_constant=_no_constant)["traceEvents"]


def slices(folder: str | Path) -> list[dict[str, Any]]:
    """The instructions in trace.json."""
    return [event for event in trace(folder) if event["ph"] == "X"]


def thread_names(folder: str | Path) -> dict[tuple[int, int], str]:
    """(process, thread) -> 'aic0-PIPE-MTE1', put together from the metadata."""
    processes, threads = {}, {}
    for event in trace(folder):
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    return {key: (f"{processes[key[0]]}-{name}" if key[0] else name) for key, name in threads.items()}
