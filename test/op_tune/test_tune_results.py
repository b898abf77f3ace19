# SPDX-License-Identifier: Apache-2.0
"""Results: what they say of themselves, and their forms on disk."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from mskpp.errors import StateError
from mskpp.optune.results import MEASURED, NOT_TRIED, SCHEMA, Trial, TuneResult, causes

TRIALS = (
    Trial(0, {"Tile": 'Shape<1, "2">', "N": 8}, MEASURED, 14.98249, 14.5, 15.25, 7, 0.5),
    Trial(
        1, {"Tile": "β\n", "N": True}, "does not compile", reason="a.cpp:1:2: error: 'x'", log="CompileError: a,b\nc"
    ),
    Trial(2, {"Tile": "x", "N": 0.1}, MEASURED, 3.0, 3.0, 3.0, 3),
    Trial(3, {"Tile": "y"}, MEASURED, 3.0, 2.9, 3.1, 3),
    Trial(4, {"Tile": "z"}, NOT_TRIED),
)


def result(**changes: object) -> TuneResult:
    return TuneResult(**{"trials": TRIALS, "backend": "host", "kernel": "matmul", "ties": (2, 3), **changes})  # type: ignore[arg-type]


def test_lines_as_existing_scripts_read_them() -> None:
    assert TRIALS[0].line() == "No.0: 14.982μs, {'Tile': 'Shape<1, \"2\">', 'N': 8}"
    assert TRIALS[0].line(" us").startswith("No.0: 14.982 us, {")
    assert TRIALS[1].line() == "No.1: does not compile, {'Tile': 'β\\n', 'N': True}: a.cpp:1:2: error: 'x'"
    assert TRIALS[4].line() == "No.4: not tried, {'Tile': 'z'}"


def test_the_best_the_ranking_and_the_failures() -> None:
    found = result()
    assert found.best is TRIALS[2]
    assert [trial.number for trial in found.ranking] == [2, 3, 0]
    assert [trial.number for trial in found.failures] == [1, 4]
    assert found[3] is TRIALS[3] and len(found) == 5 and list(found) == list(TRIALS)
    with pytest.raises(KeyError):
        found[9]


def test_what_a_result_shows() -> None:
    shown = "<TuneResult of matmul: 5 configurations, 2 failed; best No.2: 3.000 us {'Tile': 'x', 'N': 0.1}"
    assert repr(result()) == shown + ", 2 cannot be told apart>"
    assert "5 configurations, 2 failed, incomplete; best" in repr(result(complete=False))
    assert repr(result(trials=TRIALS[1:2], ties=())).endswith("1 configurations, 1 failed; none could be measured>")
    assert result(ties=()).best is None


def test_csv_and_back(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    text = result().to_csv(file)
    assert file.read_bytes().decode() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(TRIALS)
    for row, trial in zip(rows, TRIALS, strict=True):
        assert None not in row and None not in row.values()
        assert {n: row[f"config.{n}"] for n in trial.config} == {n: str(v) for n, v in trial.config.items()}
        assert int(row["number"]) == trial.number and row["ending"] == trial.ending
        assert (row["reason"], row["log"]) == (trial.reason, trial.log)
        assert row["time_us"] == ("" if trial.time_us is None else repr(trial.time_us))
    assert rows[3]["config.N"] == ""


def test_a_csv_replaces_what_was_there_but_no_link(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("old")
    result().to_csv(file)
    assert file.read_text().startswith("number,ending,time_us,")
    (tmp_path / "link.csv").symlink_to(file)
    with pytest.raises(OSError, match="to_csv"):
        result().to_csv(tmp_path / "link.csv")


def test_json_has_everything() -> None:
    found = json.loads(result(seconds=1.5, complete=False).json())
    assert sorted(found) == [
        "backend",
        "complete",
        "correlation",
        "kernel",
        "schema",
        "seconds",
        "size",
        "ties",
        "trials",
    ]
    assert (found["schema"], found["kernel"], found["backend"]) == (SCHEMA, "matmul", "host")
    assert (found["ties"], found["complete"], found["seconds"]) == ([2, 3], False, 1.5)
    assert [trial["config"] for trial in found["trials"]] == [trial.config for trial in TRIALS]
    assert sorted(found["trials"][0]) == sorted([field.name for field in dataclasses.fields(Trial)])
    again = tuple(Trial(**trial) for trial in found["trials"])
    assert again == TRIALS


def test_json_of_numbers_of_numpy() -> None:
    one = Trial(0, {"N": np.int64(3)}, MEASURED, 1.0, 1.0, 1.0, 1)
    assert json.loads(result(trials=(one,), ties=(0,)).json())["trials"][0]["config"] == {"N": 3}


class Odd:
    def __repr__(self) -> str:
        return "odd"

    def __deepcopy__(self, memo: object) -> None:
        raise TypeError("it is not copied")


def test_values_of_any_kind(tmp_path: Path) -> None:
    """As functions that model a kernel may take them."""
    values = [(1, (2, 3)), None, [4], {"a": (1,), 2: None}, Odd(), float("inf"), np.arange(2), np.float32(0.5), {1}]
    trials = tuple(Trial(at, {"v": value}, MEASURED, 1.0 + at, 1.0, 2.0, 1) for at, value in enumerate(values))
    found = result(trials=trials, ties=(0,))
    assert [trial["config"]["v"] for trial in json.loads(found.json())["trials"]] == [
        [1, [2, 3]], None, [4], {"a": [1], "2": None}, "odd", "inf", [0, 1], 0.5, "{1}",
    ]  # fmt: skip
    assert [row["config.v"] for row in csv.DictReader(io.StringIO(found.to_csv(), newline=""))] == [
        "(1, (2, 3))", "", "[4]", "{'a': (1,), 2: None}", "odd", "inf", "[0 1]", "0.5", "{1}",
    ]  # fmt: skip
    found.to_html(tmp_path / "out.html")
    assert "(1, (2, 3))" in (tmp_path / "out.html").read_text()


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path: Path) -> None:
    one = Trial(0, {"v": "\ud800"}, "crashed", reason="\udcff", log="\udcff\n")
    found = result(trials=(one,), ties=(), kernel="k\udfff")
    assert json.loads(found.json())["trials"][0]["config"] == {"v": "\ud800"}
    found.json().encode()
    assert "\\ud800" in found.to_csv(tmp_path / "out.csv") and "\\udcff" in (tmp_path / "out.csv").read_text()
    found.to_html(tmp_path / "out.html")
    assert (tmp_path / "out.html").read_text().isprintable() is False


def test_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; to_dataframe needs it")
    frame = result().to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["number"]) == [0, 1, 2, 3, 4] and frame["config.Tile"][2] == "x"


def test_without_pandas_there_is_no_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(StateError, match="pandas is not installed"):
        result().to_dataframe()


def test_causes_are_counted_the_most_frequent_first() -> None:
    trials = [Trial(i, {}, "crashed", reason="SIGSEGV") for i in range(3)]
    trials += [Trial(9, {}, "does not compile", reason="error: x"), Trial(10, {}, NOT_TRIED)]
    assert causes(trials) == "\n  3 x crashed: SIGSEGV\n  1 x does not compile: error: x\n  1 x not tried"
