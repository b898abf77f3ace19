# SPDX-License-Identifier: Apache-2.0
"""result.json: written and read back, documented, and strict on damage; tables for pandas and notebooks."""

from __future__ import annotations

import builtins
import dataclasses
import json
import os
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import mskpp
from mskpp import Chip, Core, RegisterPrefOf, Tensor, mmad, set_flag, vadd, wait_flag
from mskpp.errors import ArgumentError, FileError, InputError, StateError
from mskpp.report import schema
from mskpp.report.portable import TABLES, Portable
from mskpp.report.result import Event, Result
from mskpp.report.schema import Document, load

ROOT = Path(__file__).resolve().parents[2]
PROFILE = (
    "Op Name,OP Type,Task Duration(us),aicore_time(us),aic_mac_time(us),aic_mte2_time(us)\nm,M,12.5,10.0,2.5,8.0\n"
)


def matmul(chip: str = "Ascend910B4", tiles: int = 2, **options: Any) -> Result:
    with Chip(chip, **options) as opened, Core("aic0"):
        for _ in range(tiles):
            x, y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
            x.load(Tensor("GM", "FP16", [64, 64], format="ND"))
            y.load(Tensor("GM", "FP16", [64, 64], format="ND"))
            set_flag("PIPE-MTE2", "PIPE-MTE1", 0)
            wait_flag("PIPE-MTE2", "PIPE-MTE1", 0)
            l0a, l0b = Tensor("L0A"), Tensor("L0B")
            l0a.load(x)
            l0b.load(y)
            (out,) = mmad(l0a, l0b, Tensor("L0C", "FP32", [64, 64], format="NZ"), is_inited=True)()
            Tensor("GM", "FP32", [64, 64], format="ND").load(out)
    return opened.result


def overfull() -> Result:
    """With a measurement, and more in UB than it holds."""
    Path("op_summary.csv").write_text(PROFILE)
    with Chip("Ascend910B1") as chip:
        chip.set_prof_summary_path("op_summary.csv")
        found = [Tensor("UB") for _ in range(9)]
        for x in found:
            x.load(Tensor("GM", "FP32", [8192]))
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        for x in found:
            vadd(x, x, x)()
    return chip.result


def empty() -> Result:
    with Chip("Ascend910B1") as chip:
        pass
    return chip.result


PROGRAMS = [matmul, overfull, empty]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_result_is_the_same_when_it_is_read_again(program: Callable[[], Result]) -> None:
    result = program()
    result.write_json("result.json")
    assert os.stat("result.json").st_mode & 0o777 == 0o600
    saved = mskpp.load_result("result.json")
    assert saved.to_json() == result.to_json() == Path("result.json").read_text()
    assert repr(saved) == repr(result) and len(saved) == len(result)
    known = [name for name in vars(Result) if not name.startswith("_")]
    known += [name for name in vars(result) if not name.startswith("_")]
    for name in known:
        assert hasattr(saved, name) or name in ("of", "compare", "write_trace"), name
        if not callable(getattr(result, name)):
            assert getattr(saved, name) == getattr(result, name), name
    assert mskpp.load_result(Path(".")).total_cycles == result.total_cycles  # the folder


def test_the_whole_document(golden: Callable[[str, str], None]) -> None:
    text = re.sub(r"test_result_json\.py:\d+", "test_result_json.py:LINE", matmul().to_json())
    golden("result.json", text.replace(f'"mskpp": "{mskpp.__version__}"', '"mskpp": "VERSION"'))


def test_what_rests_on_no_measurement() -> None:
    @RegisterPrefOf("VADD")
    class Slow(mskpp.PrefModel):
        def time(self) -> float:
            return 500

    result = overfull()
    (row,) = [row for row in result.costs_not_measured if row.origin == "user"]
    assert (row.name, row.pipe, row.cycles, row.count) == ("VADD", "PIPE-V", 4500, 9)
    assert row.line.startswith("test_result_json.py:")
    counted: dict[str, int] = {}
    for row in matmul().costs_not_measured:
        counted[row.origin] = counted.get(row.origin, 0) + row.count
    assert counted == matmul().origins == {"inherited": 12}
    assert matmul("Ascend910B1").costs_not_measured == ()


@pytest.mark.parametrize(
    ("before", "inside", "expected"), [(None, None, 0.0), (0.5, None, 0.5), (0.5, 0.5, 0.5), (0.5, 0.25, None)]
)
def test_the_cache_hit_ratio(before: float | None, inside: float | None, expected: float | None) -> None:
    chip = Chip("Ascend910B1")
    if before is not None:
        chip.set_cache_hit_ratio({"cache_hit_ratio": before})
    with chip:
        Tensor("L1").load(Tensor("GM", "FP16", [4096]))
        if inside is not None:
            chip.set_cache_hit_ratio({"cache_hit_ratio": inside})
    assert chip.result.cache_hit_ratio == expected
    assert load(chip.result.to_json()).cache_hit_ratio == expected


def test_a_result_without_a_timeline_says_so() -> None:
    saved = load(matmul().to_json())
    for call in (saved.events, saved.slack, lambda: saved.to_dataframe("events")):
        with pytest.raises(StateError, match=r"has no timeline; run the script again and use chip\.result"):
            call()


# ---------------------------------------------------------------- the page on the schema


def dataclasses_in(kind: Any) -> Iterator[type]:
    """The dataclass and those that its fields hold."""
    if dataclasses.is_dataclass(kind):
        yield typing.cast(type, kind)
        for _, hint, _ in schema.fields_of(typing.cast(type, kind)):
            yield from dataclasses_in(hint)
    for part in typing.get_args(kind):
        yield from dataclasses_in(part)


KINDS = list(dict.fromkeys(dataclasses_in(Document)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_documented(kind: type) -> None:
    page = (ROOT / "docs" / "result_json.md").read_text(encoding="utf-8")
    sections = page.split(f"\n### {kind.__name__}\n")
    assert len(sections) == 2, f"docs/result_json.md has no section {kind.__name__}"
    rows = re.findall(r"^\| `(\w+)` \| ", sections[1].split("\n### ")[0], re.MULTILINE)
    assert rows == [field.name for field in dataclasses.fields(kind)]


def test_the_page_documents_nothing_else() -> None:
    page = (ROOT / "docs" / "result_json.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == {kind.__name__ for kind in KINDS}
    assert f"## Schema {schema.SCHEMA}\n" in page and f"`kind`, `{schema.KIND}`" in page


# ---------------------------------------------------------------- damage


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(matmul().to_json())
    change(document)
    return json.dumps(document)


def test_fields_of_later_versions_are_left_alone() -> None:
    def add(document: dict[str, Any]) -> None:
        document["later"] = [1]
        document["ledger"]["pipes"][0]["later"] = {"x": None}

    assert load(changed(add)).to_json() == load(changed(lambda document: None)).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.pop("kind"),
            "is no result of mskpp: it has no kind, 'mskpp result' is needed; write it anew",
        ),
        (lambda d: d.update(kind="x"), "is no result of mskpp: its kind is 'x', 'mskpp result' is needed"),
        (
            lambda d: d.update(schema=2),
            "has schema 2, and mskpp .* reads up to 1; use the mskpp that wrote",
        ),
        (lambda d: d.update(schema=10**9), "has schema 1000000000, and mskpp"),
        (lambda d: d.update(schema="1"), "has schema '1', a whole number from 1 is needed"),
        (lambda d: d.update(schema=True), "has schema 'True', a whole number from 1 is needed"),
        (lambda d: d.update(schema=0), "has schema '0', a whole number from 1 is needed"),
        (lambda d: d.pop("chip"), "is damaged: it has no 'chip'; write it anew with mskpp run --out"),
        (lambda d: d["total"].pop("us"), "is damaged: total has no 'us'; "),
        (lambda d: d["ledger"]["pipes"][1].pop("busy"), r"is damaged: ledger\.pipes\[1\] has no 'busy'; "),
        (lambda d: d["total"].update(cycles="9"), r'is damaged: total\.cycles is "9", a whole number is needed'),
        (lambda d: d["total"].update(cycles=1.5), r"is damaged: total\.cycles is 1\.5, a whole number is needed"),
        (lambda d: d["total"].update(cycles=True), r"is damaged: total\.cycles is true, a whole number is needed"),
        (lambda d: d["total"].update(cycles=10**30), r"is damaged: total\.cycles is 10{30}, a whole number is needed"),
        (lambda d: d.update(clock_mhz=float("nan")), "is damaged: clock_mhz is NaN, a number is needed"),
        (lambda d: d.update(clock_mhz=float("inf")), "is damaged: clock_mhz is Infinity, a number is needed"),
        (lambda d: d.update(chip=None), "is damaged: chip is null, a string is needed"),
        (lambda d: d.update(pipes={}), "is damaged: pipes is an object, a list is needed"),
        (lambda d: d.update(origins=[]), "is damaged: origins is a list, an object is needed"),
        (lambda d: d.update(ledger=3), "is damaged: ledger is 3, an object is needed"),
        (lambda d: d["origins"].update(user="x"), r'is damaged: origins\.user is "x", a whole number is needed'),
        (lambda d: d["memory"][0]["points"].append([1]), r"memory\[0\]\.points\[\d+\] has 1 items, 2 are needed"),
        (lambda d: d["pipes"].append(d["pipes"][0]), "is damaged: pipes has 'aic0-PIPE-MTE2' twice"),
        (lambda d: d.update(comparison={}), "is damaged: comparison has no 'profile'"),
        (lambda d: d.update(notes=[1]), r"is damaged: notes\[0\] is 1, a string is needed"),
    ],
)
def test_what_is_no_whole_result_is_refused(change: Callable[[dict[str, Any]], object], message: str) -> None:
    Path("r.json").write_text(changed(change))
    with pytest.raises(InputError, match=f"^load_result: r.json .*{message}"):
        mskpp.load_result("r.json")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\x00", "9" * 5000, "{'a': 1}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    Path("r.json").write_text(text)
    with pytest.raises(InputError, match=r"^load_result: r.json is no JSON \("):
        mskpp.load_result("r.json")


@pytest.mark.parametrize("text", ["null", "[]", "3", '"mskpp result"'])
def test_json_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="it has no kind"):
        load(text)


def test_a_damaged_result_is_an_error_wherever_a_field_is_missing() -> None:
    """Each field but those with a default, once."""
    for kind in KINDS:
        names = {name for name, _, optional in schema.fields_of(kind) if not optional}
        whole = json.loads((matmul() if kind.__name__ not in MEASURED else overfull()).to_json())
        for found in objects_of(whole, names):
            for name in names:
                value = found.pop(name)
                with pytest.raises(InputError, match=f"is damaged: .*has no '{name}'"):
                    load(json.dumps(whole))
                found[name] = value
            break
        else:
            pytest.fail(f"no {kind.__name__} in the document")


MEASURED = ("Comparison", "Profile", "Row", "Compared", "LiveTensor")


def objects_of(value: Any, names: set[str]) -> Iterator[dict[str, Any]]:
    """The objects that have exactly these fields, optional ones aside."""
    if isinstance(value, dict):
        if names <= set(value) and len(value) <= len(names) + 2:
            yield value
        for item in value.values():
            yield from objects_of(item, names)
    elif isinstance(value, list):
        for item in value:
            yield from objects_of(item, names)


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(
        FileError, match=r"^load_result: none.json cannot be read: No such file .*; mskpp run --out writes"
    ):
        mskpp.load_result("none.json")
    with pytest.raises(FileError, match=r"cannot be read: .*null"):
        mskpp.load_result("a\0b")
    with pytest.raises(ArgumentError, match=r"^load_result: the path must be a str or a path, got int"):
        mskpp.load_result(3)
    os.mkfifo("fifo.json")
    with pytest.raises(InputError, match=r"^load_result: fifo.json is no regular file; give a result.json"):
        mskpp.load_result("fifo.json")
    Path("big.json").touch()
    os.truncate("big.json", 300 << 20)
    with pytest.raises(InputError, match=r"^load_result: big.json has 300 MiB; at most 256 MiB are read"):
        mskpp.load_result("big.json")


def test_a_file_that_cannot_be_written() -> None:
    with pytest.raises(FileError, match=r"^write_json: result.json cannot be written: No such file or directory"):
        matmul().write_json("none/result.json")
    Path("result.json").write_text("old")
    matmul().write_json("result.json")
    assert mskpp.load_result("result.json").chip == "Ascend910B4"
    assert os.listdir() == ["result.json"]


# ---------------------------------------------------------------- pandas, notebooks


def test_data_frames() -> None:
    result = overfull()
    pipes = result.to_dataframe()
    assert isinstance(pipes, pandas.DataFrame)
    origins = list(result.origins)
    assert list(pipes.columns) == ["name", "cycles", "duration_us", "bytes", "operations", "count", *origins]
    assert pipes.set_index("name").loc["PIPE-MTE2", "bytes"] == 9 * 32768 and str(pipes["bytes"].dtype) == "Int64"
    assert pipes.set_index("name")["operations"].isna().tolist() == [True, False]
    assert result.to_dataframe("instructions")["count"].tolist() == [9, 9]
    events = result.to_dataframe("events")
    assert list(events.columns) == list(Event._fields) and events["end"].max() == result.total_cycles
    assert result.to_dataframe("stalls")["cycles"].tolist() == [row.cycles for row in result.ledger.stalls]
    assert result.to_dataframe("what_if")["gain_cycles"].iloc[0] == result.what_if[0].gain_cycles
    ledger = result.to_dataframe("ledger").set_index("pipe")
    assert (ledger.sum(axis=1) == result.total_cycles).all()
    assert result.to_dataframe("critical_path")["cycles"].sum() == result.total_cycles
    roof = result.to_dataframe("roofline")
    assert list(roof.columns)[:4] == ["core", "limit", "bytes", "operations"] and roof["is_bound"].sum() == 1
    assert roof.set_index("limit").loc["compute", "operations"] == sum(core.operations for core in result.roofline)
    assert result.to_dataframe("memory")["peak_bytes"].tolist() == [use.peak_bytes for use in result.memory]
    saved = load(result.to_json())
    for table in TABLES:
        assert len(empty().to_dataframe(table)) == (0 if table != "what_if" else len(empty().what_if))
        if table != "events":
            assert saved.to_dataframe(table).equals(result.to_dataframe(table))


def test_data_frames_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    result = empty()
    with pytest.raises(
        InputError, match=r"^to_dataframe: unknown table 'pipe'; there are pipes, instructions, events, st"
    ):
        result.to_dataframe("pipe")
    with pytest.raises(ArgumentError, match=r"^to_dataframe: the table must be a str, got int"):
        result.to_dataframe(3)
    real = builtins.__import__

    def without_pandas(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(
        StateError, match=r"^to_dataframe: pandas cannot be imported \(No .*\); install it with `pip inst"
    ):
        result.to_dataframe()


def test_notebooks_show_a_small_table() -> None:
    result = matmul()
    text = result._repr_html_()
    assert "<b>Ascend910B4</b>: " in text and f"{result.total_cycles:,} cycles, {len(result)} instructions" in text
    assert text.count("<tr>") == 1 + len(result.pipes) and "aic0-PIPE-MTE2" in text
    assert load(result.to_json())._repr_html_() == text
    assert "warning: UB holds up to" in overfull()._repr_html_()
    assert "0 cycles" in empty()._repr_html_()
    many = load(changed(lambda d: d["pipes"].extend({**d["pipes"][0], "name": f"<b>{i}"} for i in range(40))))
    shown = many._repr_html_()
    assert "<b>0" not in shown and "&lt;b&gt;0" in shown and "more pipes" in shown and shown.count("<tr>") <= 14
    assert isinstance(result, Portable)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clock_mhz": 0}, "clock_mhz is 0.0, a number above 0 is needed"),
        ({"clock_mhz": -5}, "clock_mhz is -5.0, a number above 0 is needed"),
        ({"bound": "nope"}, "bound is 'nope', which is none of pipes"),
        ({"pipes": []}, "which is none of pipes"),
        ({"instruction_count": -1}, "instruction_count is -1, 0 to 2"),
        ({"instruction_count": 1 << 64}, "instruction_count is 18446744073709551616, 0 to 2"),
    ],
)
def test_what_no_prediction_has(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(Tensor("GM", "FP16", [16, 16], format="ND"))
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**json.loads(chip.result.to_json()), **change}))
    with pytest.raises(InputError, match=re.escape(message)):
        mskpp.load_result(path)
