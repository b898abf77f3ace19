# SPDX-License-Identifier: Apache-2.0
"""``mskpp tune show``, ``export`` and ``clear`` over trial stores in every state."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from utils.terminal import Terminal

from mskpp.command.main import main
from mskpp.optune.store import Store

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MSKPP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "trials.sqlite"


@pytest.fixture
def run(cache: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Run:
    """Runs ``mskpp tune``: exit code, stdout, and stderr after the log, which would be there."""

    def go(*words: str) -> Ran:
        status = main(["tune", *words])
        told = capfd.readouterr()
        logged = caplog.text
        caplog.clear()
        return status, told.out, logged + told.err

    return go


def measured(number: int, **more: Any) -> dict[str, Any]:
    times = {"low_us": 1.5 + number, "time_us": 2.0 + number, "high_us": 2.5 + number}
    base = {"ending": "measured", "config": {"kStep": number}, "reason": "", "log": "", "samples": 3, **times}
    return {**base, **more}


def fill(*records: dict[str, Any]) -> None:
    with Store.open() as store:
        for number, record in enumerate(records):
            store.put(f"{number:064x}", record)


def some() -> None:
    now = time.time()
    fill(
        measured(0, kernel="matmul", backend="host", device="cpu 1", source="a.cpp", when=now - 40 * 86400),
        measured(1, kernel="matmul", backend="host", when=now - 86400),
        measured(2, kernel="softmax", when=now, config={"kStep": "β\x1b[31m", "Tile": "Shape<1, 2>"}),
        measured(3),
        {"ending": "crashed", "config": {}, "reason": "it fell", "log": "", "samples": 0, "kernel": None, "when": "x"},
    )


def test_show(run: Run, cache: Path) -> None:
    some()
    status, out, err = run("show")
    lines = out.splitlines()
    assert (status, err, lines[-1]) == (0, "", f"5 trials in {cache}")
    assert lines[0].split() == ["when", "kernel", "backend", "device", "source", "ending", "us", "configuration"]
    assert [line.split("  ")[-1] for line in lines[1:4]] == ["kStep=β?[31m Tile=Shape<1, 2>", "kStep=1", "kStep=0"]
    assert "matmul" in lines[3] and "cpu 1" in lines[3] and " a.cpp " in lines[3] and " 2.000 " in lines[3]
    assert lines[4].split() == ["-", "-", "-", "-", "-", "measured", "5.000", "kStep=3"]
    assert lines[5].split() == ["-", "-", "-", "-", "-", "crashed", "-"]
    assert run("show", "--limit", "2")[1].endswith(f"... 3 more; --limit 0 shows all\n5 trials in {cache}\n")
    assert run("show", "--kernel", "mat*")[1].count("matmul") == 2
    assert run("show", "--kernel", "nothing")[1] == (
        f"no trial of 'nothing' is kept in {cache}; there are some of matmul, softmax\n"
    )
    assert run("export", "out.csv", "--kernel", "nothing") == (
        1, "",
        f"mskpp tune export: no trial of 'nothing' is kept in {cache}; there are some of matmul, softmax; nothing is "
        "written\n",
    )  # fmt: skip
    assert not Path("out.csv").exists()


def test_names_of_many_kernels_and_of_none(run: Run, cache: Path) -> None:
    assert run("show", "--kernel", "x")[1] == f"no trial of 'x' is kept in {cache}\n"
    fill(*(measured(n, kernel=f"k{n:02}") for n in range(25)))
    assert run("show", "--kernel", "x")[1].endswith("k18, k19 and 5 more\n")


def test_half_a_surrogate_pair_is_written_as_an_escape(run: Run, cache: Path) -> None:
    fill(measured(0, kernel="k", config={"v": "\ud800"}))
    for name in ("out.csv", "out.json"):
        assert run("export", name)[0] == 0 and "\\ud800" in Path(name).read_text()


def test_show_json(run: Run, cache: Path) -> None:
    some()
    found = json.loads(run("show", "--json")[1])
    assert (found["schema"], found["path"], found["count"]) == (1, str(cache), 5)
    assert [trial["key"] for trial in found["trials"]] == [f"{n:064x}" for n in (2, 1, 0, 3, 4)]
    assert found["trials"][2]["config"] == {"kStep": 0} and found["trials"][4]["reason"] == "it fell"
    found = json.loads(run("show", "--json", "--kernel", "matmul", "--limit", "1")[1])
    assert found["count"] == 2 and len(found["trials"]) == 1


def test_many_are_cut(run: Run, cache: Path) -> None:
    fill(*(measured(n) for n in range(40)))
    assert run("show")[1].count("measured") == 30 and "... 10 more;" in run("show")[1]
    assert run("show", "--limit", "0")[1].count("measured") == 40
    assert len(json.loads(run("show", "--json")[1])["trials"]) == 40


@pytest.mark.parametrize("words", [("show",), ("clear", "--yes")])
def test_no_store(run: Run, cache: Path, words: tuple[str, ...]) -> None:
    """Looking for one makes none."""
    status, out, err = run(*words)
    expected = "no trial is kept in" if words == ("show",) else "0 of 0 trials removed from"
    assert (status, out, err) == (0, f"{expected} {cache}\n", "")
    assert json.loads(run(*words, "--json")[1])["path"] == str(cache)
    assert not cache.parent.exists()


def test_export_of_nothing(run: Run, cache: Path, tmp_path: Path) -> None:
    assert run("export", "out.csv") == (0, "0 trials written to out.csv\n", "")
    assert Path("out.csv").read_text().startswith("key,kernel,backend,device,source,when,ending,time_us,")
    assert run("export", "out.json")[0] == 0 and json.loads(Path("out.json").read_text())["trials"] == []
    fill()
    assert run("export", "out.csv") == (0, "0 trials written to out.csv\n", "")
    assert cache.exists()


def test_export(run: Run, cache: Path) -> None:
    some()
    assert run("export", "out.csv") == (0, "5 trials written to out.csv\n", "")
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["config.kStep"] for row in rows] == ["β\x1b[31m", "1", "0", "3", ""]
    assert rows[0]["config.Tile"] == "Shape<1, 2>" and rows[2]["source"] == "a.cpp" and rows[2]["time_us"] == "2.0"
    assert stat.S_IMODE(os.stat("out.csv").st_mode) == 0o600
    status, out, _ = run("export", "OUT.JSON", "--kernel", "matmul", "--json")
    assert status == 0 and json.loads(out)["count"] == 2 and json.loads(out)["file"] == "OUT.JSON"
    assert [trial["config"]["kStep"] for trial in json.loads(Path("OUT.JSON").read_text())["trials"]] == [1, 0]


def test_export_to_where_it_cannot_be(run: Run, tmp_path: Path) -> None:
    status, out, err = run("export", "out.txt")
    assert (status, out) == (2, "") and "'out.txt' ends neither with .csv nor with .json; its ending says" in err
    status, out, err = run("export", "no/out.csv")
    assert (status, out) == (1, "") and err.startswith("mskpp tune export: output folder ") and "no cannot" in err
    Path("link.csv").symlink_to("other.csv")
    status, _, err = run("export", "link.csv")
    assert status == 1 and "link.csv is a link, and links are not followed" in err


def test_clear(run: Run, cache: Path) -> None:
    some()
    expected = (
        f"1 of 5 trials removed from {cache}\n2 are of unknown age and stay; without --older-than they are removed\n"
    )
    assert run("clear", "--older-than", "30", "--yes") == (0, expected, "")
    assert run("clear", "--kernel", "matmul", "--older-than", "0.5", "--yes")[1].startswith("1 of 4 trials removed")
    assert run("clear", "--kernel", "softmax", "--yes")[1].startswith("1 of 3 trials removed")
    assert json.loads(run("clear", "--yes", "--json")[1]) == {
        "schema": 1, "path": str(cache), "removed": 2, "left": 0,
    }  # fmt: skip
    assert run("show")[1] == f"no trial is kept in {cache}\n"


def test_clear_needs_a_yes_where_nobody_can_be_asked(run: Run) -> None:
    some()
    status, out, err = run("clear")
    assert (status, out) == (2, "")
    assert "mskpp tune clear: error: there is no terminal to ask on; give --yes to remove without being asked" in err
    assert json.loads(run("show", "--json")[1])["count"] == 5


@pytest.mark.parametrize(("answer", "status", "left"), [("y\n", 0, 0), ("\n", 1, 5), ("x\n", 1, 5), ("\x04", 1, 5)])
def test_clear_asks(run: Run, cache: Path, tmp_path: Path, answer: str, status: int, left: int) -> None:
    some()
    env = {"MSKPP_CACHE_DIR": str(cache.parent)}
    with Terminal(["-m", "mskpp", "tune", "clear"], columns=300, env=env, folder=tmp_path) as terminal:
        assert terminal.shows(lambda lines: lines and lines[-1] == f"Remove 5 of 5 trials of {cache}? [y/N]")
        terminal.type(answer)
        assert terminal.wait() == status
        expected = f"5 of 5 trials removed from {cache}" if left == 0 else "mskpp tune clear: nothing is removed"
        assert terminal.screen.text[-1].endswith(expected)
    assert json.loads(run("show", "--json")[1])["count"] == left


def test_a_store_that_is_damaged(run: Run, cache: Path) -> None:
    """What is whole is shown; the damage is told on stderr alone."""
    some()
    data = bytearray(cache.read_bytes())
    place = data.index(b"it fell")
    data[place] ^= 1
    cache.write_bytes(data)
    status, out, err = run("show", "--json")
    assert status == 0 and json.loads(out)["count"] == 4
    assert err.startswith("WARNING") and "trial store:" in err and "is damaged" in err and "Traceback" not in err
    cache.write_bytes(b"rubbish" * 1000)
    assert run("export", "out.csv")[:2] == (0, "0 trials written to out.csv\n")
    cache.write_bytes(b"")
    assert run("clear", "--yes")[:2] == (0, f"0 of 0 trials removed from {cache}\n")


def test_a_store_that_cannot_be_used(run: Run, cache: Path) -> None:
    """A newer version's is left as it is, and a folder or a link is none."""
    some()
    with sqlite3.connect(cache) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = cache.read_bytes()
    for words in (("show",), ("show", "--json"), ("export", "out.csv"), ("clear", "--yes")):
        status, out, err = run(*words)
        assert (status, out) == (1, "") and "is of a newer mskpp" in err and "Traceback" not in err
    assert cache.read_bytes() == before and not Path("out.csv").exists()
    cache.unlink()
    cache.mkdir()
    assert run("show")[0] == 1


def test_a_store_that_can_only_be_read(run: Run, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some()
    monkeypatch.setattr(Store, "clear", lambda self: self._give_up(OSError(30, "Read-only file system"), True))
    status, out, err = run("clear", "--yes")
    assert (status, out) == (1, "") and err.endswith(f"mskpp tune clear: {cache} could not be changed\n")
    assert "Read-only file system" in err


def test_the_table_fits_a_narrow_terminal(cache: Path, tmp_path: Path) -> None:
    some()
    env = {"MSKPP_CACHE_DIR": str(cache.parent), "NO_COLOR": "1"}
    with Terminal(["-m", "mskpp", "tune", "show"], columns=44, env=env, folder=tmp_path) as terminal:
        assert terminal.wait() == 0
        lines = terminal.screen.text
    assert lines[0].split("┃")[-2].strip() == "us" and "device" not in lines[0] and lines[6].endswith("│ -  │") is False
    assert len(lines[1]) <= 44 and any("5.000" in line and "kStep=3" in line for line in lines)
