# SPDX-License-Identifier: Apache-2.0
"""757 programs with known cycles (data/model_cases.txt), through the DSL; a sample of them through the files too."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from utils import results

import mskpp

FILE = Path(__file__).parent / "data" / "model_cases.txt"
EVERY = 12  # one case in so many is also read back from its files


class Case(NamedTuple):
    name: str
    chip: str
    hit_ratio: float
    operations: list[list[str]]
    total: int
    pipes: dict[str, int]
    events: Counter[tuple[str, int, int]]


def _events(text: str) -> Counter[tuple[str, int, int]]:
    out: Counter[tuple[str, int, int]] = Counter()
    for group in text.split():
        name, times = group.split("=")
        for time in times.split(","):
            start, duration = map(int, time.split("+"))
            out[name, start, start + duration] += 1
    return out


def _read() -> list[Case]:
    cases = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, chip, ratio, operations, total, pipes, events = line.split(" | ")
        busy = {pipe: int(cycles) for pipe, cycles in (pair.split("=") for pair in pipes.split())}
        words = [operation.split() for operation in operations.split("; ")]
        cases.append(Case(name, chip, float(ratio), words, int(total), busy, _events(events)))
    return cases


CASES = _read()


def _shape(text: str) -> list[int]:
    return [int(extent) for extent in text.split("x")]


def _operand(text: str, tensors: list[Any]) -> Any:
    if text[0] == "#":
        return json.loads(text[1:])
    if text[0] == "=":
        return text[1:]
    return _shape(text[1:]) if text[0] == "[" else tensors[int(text)]


def _replay(operations: list[list[str]]) -> None:
    tensors: list[Any] = []
    cores: list[mskpp.Core] = []
    for kind, *words in operations:
        if kind == "T":
            memory, dtype, shape, layout = (None if word == "-" else word for word in words)
            tensors.append(
                mskpp.Tensor(memory.rstrip("!"), dtype, shape and _shape(shape), layout, memory.endswith("!"))
            )
        elif kind == "S":
            bounds = [slice(*map(int, axis.split(":"))) for axis in words[1].split(",")]
            tensors.append(tensors[int(words[0])][tuple(bounds)])
        elif kind == "L":
            tensors[int(words[0])].load(tensors[int(words[1])], *map(int, words[2:]))
        elif kind == "M":
            tensors.append(mskpp.mmad(*(tensors[int(word)] for word in words[:3]), words[3:] == ["!"])()[0])
        elif kind == "V":
            getattr(mskpp, words[0])(*(_operand(word, tensors) for word in words[1:]))()
        elif kind in "FW":
            (mskpp.set_flag if kind == "F" else mskpp.wait_flag)(words[0], words[1], int(words[2]))
        elif words:
            cores.append(mskpp.Core(words[0]))
            cores[-1].__enter__()
        else:
            cores.pop().__exit__(None, None, None)


def test_the_data_is_whole() -> None:
    assert len(CASES) == 757
    assert len({case.name for case in CASES}) == 757


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    with mskpp.Chip(case.chip) as chip:
        chip.set_cache_hit_ratio({"cache_hit_ratio": case.hit_ratio})
        _replay(case.operations)
    events = Counter((e.name, e.start, e.end) for e in chip.result.events() if e.kind in ("move", "computation"))
    assert events == case.events
    assert {pipe.name: pipe.cycles for pipe in chip.result.pipes.values()} == case.pipes
    assert chip.result.total_cycles == case.total


@pytest.mark.parametrize("case", CASES[::EVERY], ids=lambda case: case.name)
def test_case_in_files(case: Case) -> None:
    with mskpp.Chip(case.chip) as chip:
        chip.enable_trace()
        chip.enable_metrics()
        chip.set_cache_hit_ratio({"cache_hit_ratio": case.hit_ratio})
        _replay(case.operations)
    clock = round(chip.result.clock_mhz)
    events = Counter(
        (event["name"], round(event["ts"] * clock), round((event["ts"] + event["dur"]) * clock))
        for event in results.slices(chip.output_dir)
        if "FLAG" not in event["name"]
    )
    assert events == case.events
    total, *pipes = results.table(chip.output_dir, "Pipe_statistic.csv")
    assert total["Pipe"] == "Total" and int(total["Cycle"]) == case.total
    assert {row["Pipe"]: int(row["Cycle"]) for row in pipes} == case.pipes
    instructions = results.table(chip.output_dir, "Instruction_statistic.csv")
    expected: Counter[str] = Counter()
    for (name, start, end), count in case.events.items():
        expected[name] += (end - start) * count
    assert {row["Instruction"]: int(row["Cycle"]) for row in instructions} == expected
