# SPDX-License-Identifier: Apache-2.0
"""The trial store: what is found again, by whom, and that nothing wrong with the file is ever a hit or an error."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import numpy
import pytest
from utils.kernels import python

from mskpp.errors import ArgumentError, InputError, StateError
from mskpp.optune import store
from mskpp.optune.store import Store

NOBODY = 65534
PARTS: dict[str, Any] = {
    "sources": {Path("k.cpp"): "a" * 64, Path("k.h"): "b" * 64},
    "script": None,
    "options": ["-O2"],
    "compiler": "g++ 12",
    "backend": "host",
    "device": "cpu",
    "arguments": [[[64, 64], "float32", [256, 4]], ["int", 3]],
    "blockdim": 8,
    "kernel": "k",
    "template": None,
    "environment": ["CXX=g++"],
    "method": {"version": "1", "warmup_us": 300, "repeat": 1},
    "config": {"N": 8},
}


def key(number: int = 0, **changes: Any) -> str:
    return store.key({**PARTS, "config": {"N": number}, **changes})


def measured(number: int = 0, **changes: Any) -> dict[str, Any]:
    figures = {"ending": "measured", "time_us": 2.0, "low_us": 1.5, "high_us": 2.5, "samples": 7}
    return {**figures, "config": {"N": number}, "compile_seconds": 0.5, "reason": "", "log": "", **changes}


def failed(ending: str = "crashed", **changes: Any) -> dict[str, Any]:
    nothing = {"time_us": None, "low_us": None, "high_us": None, "samples": 0}
    return measured(**{**nothing, "ending": ending, "reason": "it did", "log": "all of it", **changes})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MSKPP_CACHE_DIR", "XDG_CACHE_HOME", "MSKPP_ALLOW_UNSAFE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "cache" / "trials.sqlite"


class Quick(sqlite3.Connection):
    """Does not wait for the disk."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith("BEGIN"):
            super().execute("PRAGMA synchronous = OFF")
        return super().execute(statement, *values)


def use(connection: type[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **{"factory": connection, **k}))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; the others wait for the disk."""
    use(Quick, monkeypatch)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    caplog.set_level(logging.WARNING, "mskpp")
    return Warnings(caplog)


class Warnings:
    """The messages since the last look."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def taken(self) -> list[str]:
        out = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return out

    def one(self, *parts: str) -> str:
        found = self.taken()
        assert len(found) == 1, found
        assert found[0].startswith("trial store: ")
        assert "\n" not in found[0] and found[0].isprintable()
        assert all(part in found[0] for part in parts), found[0]
        return found[0]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder, where permissions hold: root is somebody else for the test."""
    folder = Path(tempfile.mkdtemp(prefix="mskpp-store-"))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if was_root:
            os.seteuid(0)
        for name in [folder, *folder.rglob("*")]:
            if name.is_dir() and not name.is_symlink():
                name.chmod(0o700)
        shutil.rmtree(folder)


def filled(path: Path, count: int = 20) -> list[str]:
    keys = [key(number) for number in range(count)]
    with Store.open(path) as opened:
        for number, name in enumerate(keys):
            opened.put(name, measured(number))
    return keys


def sql(path: Path, statement: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def works(opened: Store) -> None:
    """Whatever happened, what is put can be got, forgotten and cleared."""
    for number in (900, 901):
        opened.put(key(number), measured(number))
        assert opened.get(key(number)) == measured(number)
    assert {key(900), key(901)} <= {name for name, _ in opened.entries()}
    opened.forget(key(900))
    assert opened.get(key(900)) is None
    opened.clear()
    assert opened.get(key(901)) is None and list(opened.entries()) == []


# ------------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("name", store.PARTS)
def test_every_part_counts_and_must_be_given(name: str) -> None:
    changed = {"sources": {Path("k.cpp"): "a" * 64, Path("k.h"): "c" * 64}}.get(name, "another")
    assert store.key({**PARTS, name: changed}) != store.key(PARTS)
    rest = {n: v for n, v in PARTS.items() if n != name}
    with pytest.raises(InputError, match=f"the key lacks '{name}'"):
        store.key(rest)


def test_a_misspelt_part_is_named() -> None:
    parts = {("sorces" if n == "sources" else n): v for n, v in PARTS.items()}
    with pytest.raises(InputError, match=r"lacks 'sources' .*is 'sorces' meant"):
        store.key(parts)
    with pytest.raises(InputError, match=r"sources are \{\}"):
        key(sources={})


def test_the_key_is_the_same_in_every_process_and_order() -> None:
    assert re.fullmatch("[0-9a-f]{64}", store.key(PARTS))
    assert store.key(dict(reversed(PARTS.items()))) == store.key(PARTS)
    assert key(options=("-O2",)) == key()
    assert key(config={"N": numpy.int64(8)}) == key(config={"N": 8})
    assert key(config={"N": numpy.str_("8")}) == key(config={"N": "8"})
    assert key(sources={PurePosixPath("k.cpp"): "d"}) == key(sources={"k.cpp": "d"})
    # Stands here so that a change of the form, which makes every store worthless, is seen.
    assert store.key(PARTS) == "53b2bd7cf57b45e4d79597a4f3bee8698700dbe399ba9ef1852d5a2d10e7e82e"


def test_values_that_look_alike_differ() -> None:
    values: list[Any] = [None, True, False, 0, 1, 1.0, -0.0, 0.0, "1", "", b"1", b"", [], {}, [1], ["1"], [[1]], [1, 1]]
    values += [{"a": 1}, {"a": "1"}, ["a", 1], ["a1"], ["a", "1"], "i1:1", ["i1:1"], "\ud800", "é", "e\u0301", 10**30]
    values += [
        numpy.float32(0.1),
        0.1,
        float("inf"),
        float("nan"),
        {"a": {"b": 1}},
        {"a": {}, "b": 1},
        {1: 2},
        {"1": 2},
    ]
    assert len({key(config=value) for value in values}) == len(values)


def test_what_has_no_fixed_form_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"parts\['config'\]\['N'\] is object"):
        key(config={"N": object()})
    with pytest.raises(ArgumentError, match=r"parts\['arguments'\]\[0\] is ndarray"):
        key(arguments=[numpy.zeros(3)])
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ArgumentError, match="more than 50 deep"):
        key(config=circle)
    with pytest.raises(InputError, match="give what key"), Store.open("x/y") as opened:
        opened.get("abc")


# ----------------------------------------------------------------------------------------------------------- records


def test_what_is_put_is_there_in_another_run(path: Path) -> None:
    records = {key(1): measured(1), key(2): failed("does not compile"), key(3): measured(3, device="é\ud800", when=[1])}
    with Store.open(path) as opened:
        for name, record in records.items():
            assert opened.get(name) is None
            opened.put(name, record)
            assert opened.get(name) == record
    with Store.open(path) as opened:
        assert dict(opened.entries()) == records
        opened.put(key(1), measured(7))
        assert opened.get(key(1)) == measured(7)
        opened.forget(key(1))
        opened.forget(key(1))
        assert opened.get(key(1)) is None
        opened.clear()
    with Store.open(path) as opened:
        assert list(opened.entries()) == []
    assert path.stat().st_size <= 8192


def test_numpy_scalars_come_back_as_numbers(path: Path) -> None:
    with Store.open(path) as opened:
        opened.put(key(), measured(config={"N": numpy.int32(8), "F": numpy.bool_(True)}, time_us=numpy.float64(2)))
        found = opened.get(key())
    assert found is not None and found["config"] == {"N": 8, "F": True} and found["time_us"] == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ending": "not tried"}, "has the ending 'not tried'"),
        ({"ending": 3}, "has ending=3; it must be str"),
        ({"time_us": 0.0}, "cannot be a measurement"),
        ({"time_us": True}, "cannot be a measurement"),
        ({"time_us": 10**400}, "cannot be a measurement"),
        ({"low_us": 2.2}, "cannot be a measurement"),
        ({"samples": 0}, "cannot be a measurement"),
        ({"samples": True}, "has samples=True"),
        ({"config": [1]}, "has config="),
        ({"compile_seconds": -1}, "has compile_seconds=-1"),
        ({"time_us": float("nan")}, "cannot be written as JSON"),
        ({"ending": "crashed"}, "only what is measured has times"),
    ],
)
def test_what_is_no_finished_trial_is_refused(path: Path, changes: dict[str, Any], message: str) -> None:
    with Store.open(path) as opened:
        with pytest.raises(InputError, match=re.escape(message)):
            opened.put(key(), measured(**changes))
        with pytest.raises(ArgumentError, match="the record is list"):
            opened.put(key(), [])  # type: ignore[arg-type]
        assert opened.get(key()) is None


def test_failures_that_depend_on_limits_need_them_in_the_key(path: Path) -> None:
    limits = {"seconds": 60, "bytes": 1 << 30}
    limited, other = key(limits=limits), key(limits={**limits, "seconds": 600})
    assert len({limited, other, key()}) == 3 and limited.endswith("-limited")
    with Store.open(path) as opened:
        for record in (failed("timed out"), failed("crashed", limited=True)):
            with pytest.raises(InputError, match="needs a key with the part 'limits'"):
                opened.put(key(), record)
            opened.put(limited, record)
            assert opened.get(limited) == record
        assert opened.get(other) is None and opened.get(key()) is None


def test_records_are_bounded(path: Path, warnings: Warnings) -> None:
    with Store.open(path) as opened:
        opened.put(key(), failed(log="b" + "x" * 10**6 + "e", reason="r" * 5000))
        found = opened.get(key())
        assert found is not None and len(found["log"]) < store.MOST_LOG + 100 and len(found["reason"]) < 1100
        assert found["log"].startswith("bxx") and found["log"].endswith("xxe")
        assert "983,618 characters are left out" in found["log"]
        assert warnings.taken() == []
        opened.put(key(1), measured(config={"N": "x" * 100_000}))
        opened.put(key(2), measured(config={"N": "x" * 100_000}))
        assert opened.get(key(1)) is None
        warnings.one("65,536 are allowed")


def test_the_least_used_go_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_ENTRIES", 10)
    monkeypatch.setattr(store, "PRUNE_EVERY", 1)
    filled(path, 10)
    for number in range(10):
        sql(path, "UPDATE trials SET used = ? WHERE key = ?", 1000 + number, key(number).encode())
    with Store.open(path) as opened:
        assert opened.get(key(0)) and opened.get(key(1))  # used again: noted on closing
    with Store.open(path) as opened:
        opened.put(key(100), measured(100))
        opened.put(key(101), measured(101))
        left = {record["config"]["N"] for _, record in opened.entries()}
    assert left == {0, 1, 4, 5, 6, 7, 8, 9, 100, 101}


def test_a_put_waits_for_the_disk(path: Path) -> None:
    with Store.open(path) as opened:
        connection: Any = opened._file._connection  # type: ignore[union-attr]
        settings = [connection.execute(f"PRAGMA {name}").fetchall()[0][0] for name in ("journal_mode", "synchronous")]
    assert settings == [b"truncate", 1]


def test_after_close_nothing_works_but_close(path: Path) -> None:
    opened = Store.open(path)
    opened.close()
    opened.close()
    with pytest.raises(StateError, match="it is closed"):
        opened.get(key())


# ------------------------------------------------------------------------------------------------------------- where


def test_the_place_and_its_rights(path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    before = os.umask(0)
    try:
        home, base, own = (path.parent.parent / name for name in ("home", "base", "own"))
        for name, value, expected in (
            ("HOME", str(home), home / ".cache" / "mskpp"),
            ("XDG_CACHE_HOME", "relative", home / ".cache" / "mskpp"),
            ("XDG_CACHE_HOME", str(base), base / "mskpp"),
            ("MSKPP_CACHE_DIR", f"{own}/a #?%é", own / "a #?%é"),
        ):
            monkeypatch.setenv(name, value)
            with Store.open() as opened:
                opened.put(key(), measured())
                assert opened.path == expected / "trials.sqlite"
            assert stat.S_IMODE(expected.stat().st_mode) == 0o750
            for file in expected.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert warnings.taken() == []


@pytest.mark.parametrize("value", ["", " ", "relative/x", "~", "/tmp/a\nb", "/tmp/\x1b[2J", "/tmp/" + "x" * 300])
def test_a_place_that_cannot_be_means_memory(value: str, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    monkeypatch.setenv("MSKPP_CACHE_DIR", value)
    with Store.open() as opened:
        works(opened)
        assert opened.path is None
    warnings.one("Trials are kept in memory only")


def test_without_home_it_is_memory(path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    monkeypatch.delenv("HOME")
    with Store.open() as opened:
        works(opened)
    warnings.one("HOME is ''; set MSKPP_CACHE_DIR")
    with Store.open("a\ud800") as opened:
        works(opened)
    warnings.one("no file can be called")
    with pytest.raises(ArgumentError, match="path is int"):
        Store.open(3)  # type: ignore[arg-type]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    monkeypatch.setenv("MSKPP_CACHE_DIR", "")
    monkeypatch.setattr(store, "MOST_IN_MEMORY", 3)
    with Store.open() as opened:
        for number in range(5):
            opened.put(key(number), measured(number))
        assert [record["config"]["N"] for _, record in opened.entries()] == [2, 3, 4]
    warnings.one("MSKPP_CACHE_DIR is ''")


@pytest.mark.parametrize("kind", ["link", "dead link", "folder", "pipe", "socket", "below a file", "a circle"])
def test_what_is_no_file_is_left_alone(path: Path, kind: str, warnings: Warnings) -> None:
    path.parent.mkdir(mode=0o750)
    other = path.with_name("other")
    other.write_bytes(b"mine")
    with closing(socket.socket(socket.AF_UNIX)) as server:
        if kind in ("link", "dead link"):
            path.symlink_to(other if kind == "link" else "nowhere")
        elif kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            server.bind("cache/trials.sqlite")
        elif kind == "a circle":
            path.with_name("loop").symlink_to("loop")
        at = {"below a file": other / "trials.sqlite", "a circle": path.parent / "loop" / "x"}.get(kind, path)
        before = sorted(os.listdir(path.parent))
        with Store.open(at) as opened:
            works(opened)
        warnings.one("Trials are kept in memory only")
        assert sorted(os.listdir(path.parent)) == before and other.read_bytes() == b"mine"


def test_links_on_the_way_are_followed(path: Path, warnings: Warnings) -> None:
    (path.parent.parent / "real").mkdir()
    path.parent.symlink_to("real")
    filled(path, 1)
    assert warnings.taken() == [] and (path.parent.parent / "real" / "trials.sqlite").is_file()


def test_a_file_that_others_may_write_is_not_used(path: Path, warnings: Warnings) -> None:
    (name,) = filled(path, 1)
    path.chmod(0o666)
    with Store.open(path) as opened:
        assert opened.get(name) is None
        works(opened)
    warnings.one("is refused: everybody may write to it")
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with Store.open(path) as opened:
        assert opened.get(name) is None
    warnings.one("chmod 750")
    path.parent.chmod(0o750)
    with Store.open(path) as opened:
        assert opened.get(name) == measured()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_not_used(unprivileged: Path, warnings: Warnings) -> None:
    path = unprivileged / "trials.sqlite"
    (name,) = filled(path, 1)
    os.seteuid(0)
    path.chmod(0o644)
    os.chown(path, 1234, -1)
    os.seteuid(NOBODY)
    with Store.open(path) as opened:
        assert opened.get(name) is None
        works(opened)
    warnings.one("it belongs to user 1234")


def test_read_only_files_are_read(unprivileged: Path, warnings: Warnings) -> None:
    path = unprivileged / "cache" / "trials.sqlite"
    keys = filled(path, 2)
    sql(path, "UPDATE trials SET used = 5")
    for mode, of in ((0o400, path), (0o550, path.parent)):
        for beside in path.parent.glob("*-journal"):
            beside.unlink()
        of.chmod(mode)
        with Store.open(path) as opened:
            assert opened.get(keys[0]) == measured(0)
        assert warnings.taken() == []
        with Store.open(path) as opened:
            opened.put(key(900), measured(900))
            assert opened.get(key(900)) == measured(900) and opened.get(keys[1]) == measured(1)
            opened.forget(keys[0])
            assert opened.get(keys[0]) is None
            works(opened)
            assert opened.get(keys[1]) is None
        warnings.one("readonly database", "memory only")
        of.chmod(0o700)
    with Store.open(path) as opened:
        assert {name for name, _ in opened.entries()} == set(keys)


def test_a_folder_where_nothing_can_be_made(unprivileged: Path, warnings: Warnings) -> None:
    unprivileged.chmod(0o500)
    for path in (unprivileged / "trials.sqlite", unprivileged / "a" / "b" / "trials.sqlite"):
        with Store.open(path) as opened:
            works(opened)
        warnings.one("Permission denied", "memory only")
    unprivileged.chmod(0)
    with Store.open(unprivileged / "trials.sqlite") as opened:
        works(opened)
    warnings.one("Permission denied", "memory only")


# ------------------------------------------------------------------------------------------------------------ damage


def opened_damaged(path: Path, data: bytes, keys: list[str], warnings: Warnings, most_warnings: int = 1) -> int:
    """How many records of a file with this content are hits. The rest are misses, of which one warning tells."""
    shutil.rmtree(path.parent)
    path.parent.mkdir(mode=0o750)
    path.write_bytes(data)
    path.chmod(0o600)
    with Store.open(path) as opened:
        found = [opened.get(name) for name in keys]
        assert all(record in (None, measured(number)) for number, record in enumerate(found))
        assert all(record in (None, measured(keys.index(name))) for name, record in opened.entries())
        opened.put(keys[0], measured(0))
        opened.put(key(900), measured(900))
        assert opened.path == path
    with Store.open(path) as opened:
        assert opened.get(keys[0]) == measured(0) and opened.get(key(900)) == measured(900)
    told = warnings.taken()
    assert len(told) <= most_warnings, told
    hits = sum(record is not None for record in found)
    if hits < len(keys) and most_warnings == 1:
        assert len(told) == 1 and told[0].isprintable()
        assert path.with_name("trials.sqlite.damaged-1").read_bytes() == data
    return hits


def test_cut_at_every_hundredth_byte(path: Path, warnings: Warnings) -> None:
    keys = filled(path)
    data = path.read_bytes()
    hits = [opened_damaged(path, data[:size], keys, warnings) for size in range(0, len(data), 100)]
    assert max(hits) > 0
    assert opened_damaged(path, data, keys, warnings) == len(keys)


def test_0xff_in_the_middle(path: Path, warnings: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = filled(path)
    data = path.read_bytes()
    places = [*range(100), *range(100, len(data), 149)]
    hits = [opened_damaged(path, data[:i] + b"\xff" + data[i + 1 :], keys, warnings) for i in places]
    assert hits.count(len(keys)) > 10 and hits.count(len(keys) - 1) > 10
    # The same in a file too large to be checked as a whole when it is opened.
    monkeypatch.setattr(store, "CHECKED_BYTES", 0)
    for i in places[::2]:
        opened_damaged(path, data[:i] + b"\xff" + data[i + 1 :], keys, warnings, most_warnings=2)
    for size in range(0, len(data), 700):
        opened_damaged(path, data[:size], keys, warnings, most_warnings=2)


@pytest.mark.parametrize("data", [b"x", b"#!/bin/sh\necho\n" * 500, b"\xff" * 9000, b"\0" * 5000, b"SQLite format 3\0"])
def test_a_file_of_something_else(path: Path, data: bytes, warnings: Warnings) -> None:
    keys = filled(path, 2)
    assert opened_damaged(path, data, keys, warnings) == 0


def test_a_database_of_another_program(path: Path, warnings: Warnings) -> None:
    path.parent.mkdir()
    sql(path, "CREATE TABLE cookies (a)")
    data = path.read_bytes()
    with Store.open(path) as opened:
        works(opened)
    warnings.one("it is not a trial store", "it is trials.sqlite.damaged-1 now")
    assert path.with_name("trials.sqlite.damaged-1").read_bytes() == data


def test_a_journal_goes_with_its_file(path: Path) -> None:
    path.parent.mkdir()
    for end in ("", "-journal", "-wal"):
        path.with_name(f"trials.sqlite{end}").write_text(end)
    path.with_name("trials.sqlite.damaged-1-shm").write_text("of an older one")
    store._File(path, lambda kind, text: None)._moved_aside()
    left = {file.name: file.read_text() for file in path.parent.iterdir()}
    assert left == {f"trials.sqlite.damaged-1{end}": end for end in ("", "-journal", "-wal")}


@pytest.mark.parametrize("version", [0, -1, 101, 2**31 - 1])
def test_an_older_or_impossible_schema_is_made_anew(path: Path, version: int, warnings: Warnings) -> None:
    filled(path, 2)
    sql(path, f"PRAGMA user_version = {version}")
    with Store.open(path) as opened:
        works(opened)
    warnings.one(f"its schema is {version}", "damaged-1")


def test_a_newer_schema_is_left_as_it_is(path: Path, warnings: Warnings) -> None:
    keys = filled(path, 2)
    sql(path, f"PRAGMA user_version = {store.SCHEMA + 1}")
    data = path.read_bytes()
    with Store.open(path) as opened:
        assert opened.get(keys[0]) is None
        works(opened)
    warnings.one(str(path), "newer mskpp (schema 2", "set MSKPP_CACHE_DIR")
    assert path.read_bytes() == data and not list(path.parent.glob("*damaged*"))


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE trials", "ALTER TABLE trials RENAME COLUMN used TO of", "ALTER TABLE trials ADD COLUMN more"],
)
def test_another_table(path: Path, statement: str, warnings: Warnings) -> None:
    filled(path, 2)
    sql(path, statement)
    with Store.open(path) as opened:
        works(opened)
    warnings.one("its table is another")


def content(changes: dict[str, Any], *without: str) -> bytes:
    return json.dumps({n: v for n, v in measured(**changes).items() if n not in without}).encode()


@pytest.mark.parametrize("size", [0, store.CHECKED_BYTES])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"", "no JSON"),
        (b"[1]", "is list, no dict"),
        (b"null", "no dict"),
        (content({}, "ending"), "has no 'ending'"),
        (content({}, "samples"), "has no 'samples'"),
        (content({"time_us": "2"}), "cannot be a measurement"),
        (content({}, "time_us"), "cannot be a measurement"),
        (content({"time_us": float("nan")}), "cannot be a measurement"),
        (content({"ending": "fine"}), "has the ending 'fine'"),
        (content({"log": None}), "has log=None"),
        (json.dumps(failed("timed out")).encode(), "depends on limits"),
    ],
)
def test_a_record_that_is_none_is_a_miss(
    path: Path, data: bytes, reason: str, size: int, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHECKED_BYTES", size)
    keys = filled(path, 3)
    name = keys[1].encode()
    sql(path, "UPDATE trials SET content = ?, checksum = ? WHERE key = ?", data, store.checksum(name, data), name)
    with Store.open(path) as opened:
        assert [opened.get(name) for name in keys] == [measured(0), None, measured(2)]
        warnings.one(reason, "measured again")
        opened.put(keys[1], measured(1))
        assert opened.get(keys[1]) == measured(1)


@pytest.mark.parametrize(
    ("column", "value"),
    [("content", "text"), ("content", 3), ("checksum", b"x"), ("checksum", 1.5), ("used", b"x"), ("used", "\udcff")]
    + [("key", b"short"), ("key", 7), ("content", content({"time_us": 1.9})), ("key", key(77).encode())],
)
def test_a_changed_row_is_a_miss(path: Path, column: str, value: object, warnings: Warnings) -> None:
    keys = filled(path, 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        given = f"CAST(x'{value.encode('utf-8', 'surrogateescape').hex()}' AS TEXT)" if isinstance(value, str) else "?"
        values = [v for v in (value, keys[1].encode()) if not isinstance(v, str)]
        connection.execute(f"UPDATE trials SET {column} = {given} WHERE key = ?", values)
    with Store.open(path) as opened:
        assert [opened.get(name) for name in keys] == [measured(0), None, measured(2)]
        assert opened.get(key(77)) is None and len(list(opened.entries())) == 2
    warnings.one("a record: ")


def test_damage_while_the_store_is_open(path: Path, warnings: Warnings) -> None:
    keys = filled(path, 200)
    with Store.open(path) as opened:
        assert opened.get(keys[0]) == measured(0)
        size = path.stat().st_size
        with path.open("r+b") as file:
            for at in range(4096, size, 4096):
                file.seek(at)
                file.write(b"\xff" * 4096)
            file.seek(24)
            file.write(b"\xff\xff\xff\xff")  # the change counter: nothing that was read counts any longer
        assert opened.get(keys[1]) is None
        warnings.one("damaged-1")
        works(opened)
        assert opened.path == path
    assert warnings.taken() == []


def test_a_store_that_is_removed_or_replaced_meanwhile(path: Path, warnings: Warnings) -> None:
    keys = filled(path, 2)
    with Store.open(path) as opened:
        assert opened.get(keys[0]) == measured(0)
        path.rename(path.with_name("kept"))
        assert opened.get(keys[0]) is None
        opened.put(keys[0], measured(5))
        path.with_name("kept").rename(path)
        assert opened.get(keys[0]) == measured(0)
        shutil.rmtree(path.parent)
        works(opened)
    assert path.is_file() and warnings.taken() == []


def test_files_moved_aside_are_bounded(path: Path, warnings: Warnings) -> None:
    path.parent.mkdir()
    for number in range(store.MOST_DAMAGED + 2):
        path.write_bytes(b"%d" % number)
        path.chmod(0o600)
        with Store.open(path) as opened:
            works(opened)
        text = warnings.one("damaged-")
        assert ("was removed" in text) == (number >= store.MOST_DAMAGED)
    left = sorted(file.read_bytes() for file in path.parent.glob("*.damaged-?"))
    assert left == sorted(b"%d" % number for number in range(2, store.MOST_DAMAGED + 2))


# ------------------------------------------------------------------------------------------------- disks that are full

LIMITED = """
import resource, sys, logging
from op_tune.test_store import key, measured, works, Store
messages = []
logging.getLogger("mskpp").addFilter(lambda record: messages.append(record.getMessage()) or False)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
with Store.open(sys.argv[2]) as store:
    for number in range(100, 300):
        store.put(key(number), measured(number, log="x" * 500))
    assert all(store.get(key(number)) for number in range(100, 300))
    print(sum(store.get(key(number)) == measured(number) for number in range(20)))
    works(store)
print(len(messages), messages)
"""


@pytest.mark.parametrize("limit", [0, 1000, 20_000, 60_000])
def test_no_room_for_a_larger_file(path: Path, limit: int) -> None:
    keys = filled(path)
    program = path.parent.parent / "limited.py"
    program.write_text(LIMITED)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'test'}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(program), str(limit), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    hits, told = done.stdout.splitlines()
    assert hits == "20" and told.startswith("1 ") and "memory only" in told
    with Store.open(path) as opened:
        assert all(opened.get(name) == measured(number) for number, name in enumerate(keys))
        works(opened)
    assert not list(path.parent.glob("*damaged*")) and not list(path.parent.glob(".*"))


class Failing(Quick):
    """A connection whose statements of one kind fail."""

    statement = "INSERT"
    error: Exception = sqlite3.OperationalError("database or disk is full")

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith(self.statement):
            raise self.error
        return super().execute(statement, *values)

    def executemany(self, statement: str, values: Any) -> sqlite3.Cursor:
        if statement.startswith(self.statement):
            raise self.error
        return super().executemany(statement, values)


@pytest.mark.parametrize("statement", ["INSERT", "SELECT", "BEGIN", "COMMIT", "PRAGMA", "DELETE", "CREATE"])
@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.OperationalError("locking protocol"),
        sqlite3.DatabaseError("database disk image is malformed"),
        sqlite3.OperationalError("attempt to write a readonly database"),
        OSError(28, "No space left on device"),
        MemoryError(),
    ],
    ids=str,
)
@pytest.mark.parametrize("exists", [True, False])
def test_statements_that_fail(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, error: Exception, exists: bool, warnings: Warnings
) -> None:
    if exists:
        filled(path, 1)
    use(Failing, monkeypatch)
    monkeypatch.setattr(Failing, "statement", statement)
    monkeypatch.setattr(Failing, "error", error)
    with Store.open(path) as opened:
        works(opened)
    told = warnings.taken()
    assert len([text for text in told if "memory only" in text]) == (0 if statement == "CREATE" and exists else 1)
    assert len(told) <= 2
    assert not list(path.parent.glob(".*"))


def test_a_file_that_stays_locked(path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    (name,) = filled(path, 1)
    monkeypatch.setattr(store, "PATIENCE_SECONDS", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path) as opened:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        opened.put(key(1), measured(1))
        opened.put(key(2), measured(2))
        assert time.monotonic() - began < 5
        assert opened.get(key(1)) == measured(1) and opened.get(name) == measured()
        warnings.one("was locked by another process for 0.2 s")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Store.open(path) as opened:
            works(opened)
        warnings.one("was locked by another process")


# ------------------------------------------------------------------------------------------------ processes and threads

WRITER = """
import sys
sys.path.insert(0, {test!r})
from op_tune.test_store import key, measured, Store
with Store.open({path!r}) as store:
    for number in range({first}, {first} + {count}):
        store.put(key(number), measured(number))
        print(number, flush=True)
"""


def writer(folder: Path, path: Path, first: int, count: int) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    test = str(Path(__file__).parents[1])
    return python(folder, WRITER.format(test=test, path=str(path), first=first, count=count))


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of writes would wait for the disk only."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path / "shared"
        return
    with tempfile.TemporaryDirectory(prefix="mskpp-store-", dir="/dev/shm") as folder:
        yield Path(folder)


def test_eight_processes(in_memory: Path, tmp_path: Path, warnings: Warnings) -> None:
    path = in_memory / "trials.sqlite"
    running = [writer(tmp_path / str(n), path, 1000 * n, 1000) for n in range(8)]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0 and errors == ""
    with Store.open(path) as opened:
        numbers = [record["config"]["N"] for _, record in opened.entries()]
        assert sorted(numbers) == list(range(8000))
        for number in range(0, 8000, 37):
            assert opened.get(key(number)) == measured(number)
    assert warnings.taken() == [] and not list(in_memory.glob("*damaged*"))


def test_killed_in_the_middle_of_a_put(tmp_path: Path, path: Path, warnings: Warnings) -> None:
    wait = random.Random(1)
    kept: set[int] = set()
    for turn in range(6):
        process = writer(tmp_path / "w", path, 10_000 * turn, 10_000)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(wait.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        lines = [first, *process.communicate()[0].splitlines(keepends=True)]
        kept.update(int(line) for line in lines if line.endswith("\n"))
        with Store.open(path) as opened:
            found = {record["config"]["N"] for _, record in opened.entries()}
            assert kept <= found and len(found - kept) <= turn + 1
            works_still = opened.get(key(10_000 * turn))
            assert works_still == measured(10_000 * turn)
    assert warnings.taken() == [] and not list(path.parent.glob("*damaged*"))


def test_processes_that_meet_one_damaged_file(tmp_path: Path, path: Path, warnings: Warnings) -> None:
    filled(path, 5)
    data = bytearray(path.read_bytes())
    data[-100:-90] = b"\xff" * 10  # in the first record
    path.write_bytes(data)
    running = [writer(tmp_path / str(n), path, 100 * (n + 1), 20) for n in range(4)]
    said = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert sum("damaged-1" in text for text in said) == 1 and not path.with_name("trials.sqlite.damaged-2").exists()
    with Store.open(path) as opened:
        assert len(list(opened.entries())) == 4 + 80
    assert warnings.taken() == []


def test_threads(path: Path) -> None:
    problems: list[BaseException] = []
    with Store.open(path) as opened:

        def work(first: int) -> None:
            try:
                for number in range(first, first + 50):
                    opened.put(key(number), measured(number))
                    assert opened.get(key(number)) == measured(number)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == [] and len(list(opened.entries())) == 300


def test_a_fork_gets_a_connection_of_its_own(path: Path) -> None:
    (name,) = filled(path, 1)
    with Store.open(path) as opened:
        assert opened.get(name) == measured()
        mine = opened._file._connection  # type: ignore[union-attr]
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            with opened._lock:
                held.set()
                release.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()  # the child's copy of this lock is never given back
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)
                assert opened.get(name) == measured()
                assert opened._file._connection is not mine  # type: ignore[union-attr]
                opened.put(key(1), measured(1))
                opened.close()
                code = 0
            finally:
                os._exit(code)
        release.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert opened._file._connection is mine  # type: ignore[union-attr]
        assert opened.get(key(1)) == measured(1)
        opened.put(key(2), measured(2))


def test_an_interrupt_ends_the_wait(path: Path, tmp_path: Path) -> None:
    filled(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = writer(tmp_path / "w", path, 5, 1)
        time.sleep(1.5)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert time.monotonic() - began < 5 and "KeyboardInterrupt" in errors
    with Store.open(path) as opened:
        assert opened.get(key(5)) is None
        works(opened)


def test_file_systems_without_links_and_locks(path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    def refuse(*args: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)
    filled(path, 1)
    path.write_bytes(b"damaged")
    with Store.open(path) as opened:
        works(opened)
    warnings.one("damaged-1")
    assert sorted(file.name for file in path.parent.iterdir() if file.stat().st_size) == [
        "trials.sqlite",
        "trials.sqlite.damaged-1",
    ]


def test_a_folder_that_stays_locked(path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings) -> None:
    monkeypatch.setattr(store, "MAKING_SECONDS", 0.1)
    path.parent.mkdir(0o750)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with Store.open(path) as opened:
            works(opened)
            assert opened.path == path
    finally:
        os.close(folder)
    assert warnings.taken() == []


def test_unfinished_files_of_the_killed_are_removed(path: Path) -> None:
    path.parent.mkdir()
    old, young = (path.with_name(f".trials.sqlite-1-{n}.part") for n in "ab")
    for file in (old, young):
        file.write_bytes(b"")
    os.utime(old, (1, 1))
    filled(path, 1)
    assert not old.exists() and young.exists()
