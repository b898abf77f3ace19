# SPDX-License-Identifier: Apache-2.0
"""The page of a modelled kernel: what it holds, that nothing in it runs, its size, and how it behaves in a browser."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import random
import re
import stat
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.browser import Opened

from mskpp import Chip, Core, Tensor, load_result, mmad, set_flag, wait_flag
from mskpp.errors import ArgumentError, FileError, InputError
from mskpp.report import advice, report_page
from mskpp.report.analysis import Gain, LiveTensor, MemoryUse
from mskpp.report.report_page import FILES, LIMITS, gains_shown, in_page, report_of, steps_thinned, write_report
from mskpp.report.result import Event, Result
from mskpp.report.schema import load
from mskpp.report.slices import BINS, Slices, folded, packed

EVIL = (
    "</script><img src=x onerror=\"alert(1)\"><b>${alert(2)}</b>%{x}<a href='javascript:alert(3)'>l</a>"
    "<!--<script>window.ran = 1; alert(4)</script>\u2028$x^2$`\0"
)
MOST_BYTES = 10_000_000
PATIENCE_MS = 15_000  # until the page can be used, on a machine busy with other tests; alone it takes less than 1 s
PageOf = Callable[[Path], Opened]


def matmul(tiles: int) -> Result:
    """The documented one, 6 instructions a tile, on no core."""
    with Chip("Ascend910B1") as chip:
        for _ in range(tiles):
            gm_x = Tensor("GM", "FP16", [32, 48], format="ND")
            gm_y = Tensor("GM", "FP16", [48, 16], format="ND")
            l1_x, l1_y, x, y = Tensor("L1"), Tensor("L1"), Tensor("L0A"), Tensor("L0B")
            l1_x.load(gm_x)
            l1_y.load(gm_y)
            x.load(l1_x)
            y.load(l1_y)
            (out,) = mmad(x, y, Tensor("L0C", "FP32", [32, 16], format="NC1HWC0"), True)()
            Tensor("GM", "FP32", [32, 16], format="NC1HWC0").load(out)
    return chip.result


def double_buffered(products: int, cores: int = 2, steps: int = 16) -> Result:
    """A tiled matmul with two buffers in L1 and L0 that are handed back by flags."""
    with Chip("Ascend910B1") as chip:
        gm_x = Tensor("GM", "FP16", [128, 64 * steps], format="ND")
        gm_y = Tensor("GM", "FP16", [64 * steps, 256], format="ND")
        for core in range(cores):
            with Core(f"aic{core}"):
                for at in range(products):
                    slot, k = at % 2, at % steps
                    if k == 0:
                        out = Tensor("L0C", "FP32", [128, 256], format="NZ", is_inited=True)
                    if at > 1:
                        wait_flag("PIPE-MTE1", "PIPE-MTE2", slot)
                    l1_x, l1_y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
                    l1_x.load(gm_x[:, k * 64 : (k + 1) * 64])
                    l1_y.load(gm_y[k * 64 : (k + 1) * 64, :])
                    set_flag("PIPE-MTE2", "PIPE-MTE1", slot)
                    wait_flag("PIPE-MTE2", "PIPE-MTE1", slot)
                    if at > 1:
                        wait_flag("PIPE-M", "PIPE-MTE1", slot)
                    x, y = Tensor("L0A"), Tensor("L0B")
                    x.load(l1_x)
                    y.load(l1_y)
                    set_flag("PIPE-MTE1", "PIPE-MTE2", slot)
                    (out,) = mmad(x, y, out)()
                    set_flag("PIPE-M", "PIPE-MTE1", slot)
                    if k == steps - 1:
                        Tensor("GM", "FP32", [128, 256], format="ND").load(out)
                for slot in range(min(2, products)):
                    wait_flag("PIPE-MTE1", "PIPE-MTE2", slot)
                    wait_flag("PIPE-M", "PIPE-MTE1", slot)
    return chip.result


@pytest.fixture(scope="module")
def small() -> Result:
    return matmul(8)


@pytest.fixture(scope="module")
def large() -> Result:
    result = double_buffered(9_000)
    assert len(result) > 198_000
    return result


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], Path]:
    def write(result: Any) -> Path:
        path = tmp_path / "report.html"
        write_report(result, path)
        return path

    return write


def with_changes(result: Result, **changes: Any) -> Result:
    """A copy whose attributes, the cached ones too, are these."""
    out = object.__new__(Result)
    out.__dict__.update(result.__dict__)
    out.__dict__.update(changes)
    return out


class Parts(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attributes)))
        self._inside = name
        if name == "script":
            self.scripts.append("")

    def handle_endtag(self, name: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    def data(self) -> Any:
        return json.loads(self.scripts[0])

    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def sections(self) -> list[str]:
        return [a["id"] or "" for name, a in self.tags if name == "section"]


# --------------------------------------------------------------------------- columns of numbers


def unpacked(text: str) -> list[int]:
    """What page_files/timeline.js reads."""
    out, value, weight = [], 0, 1
    for byte in base64.b64decode(text):
        value += (byte & 127) * weight
        weight *= 128
        if byte < 128:
            out.append(value)
            value, weight = 0, 1
    return out


def unfolded(values: Iterable[int]) -> list[int]:
    return [-(value + 1) // 2 if value % 2 else value // 2 for value in values]


def decoded(data: dict[str, Any]) -> list[tuple[str, str, str, int, int, int, int]]:
    """(pipe, name, line, start, end, work, slack) of every instruction that the page has."""
    kind = unpacked(data["kind"])
    columns: dict[str, list[int]] = {}
    for name in ("duration", "work", "slack"):
        last: dict[int, int] = {}
        columns[name] = []
        for one, difference in zip(kind, unfolded(unpacked(data[name])), strict=True):
            last[one] = last.get(one, 0) + difference
            columns[name].append(last[one])
    gaps = unfolded(unpacked(data["gap"]))
    out, at = [], 0
    for lane in data["lanes"]:
        time = 0
        for _ in range(lane["kept"]):
            start = time + gaps[at]
            time = start + columns["duration"][at]
            name, _kind, _origin, line = (data["texts"][text] for text in data["kinds"][kind[at]])
            out.append((lane["pipe"], name, line, start, time, columns["work"][at], columns["slack"][at]))
            at += 1
    return out


def test_numbers_of_every_size() -> None:
    values = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**53 - 1, 2**62]
    assert unpacked(packed(np.array(values, np.int64))) == values
    signed = [0, -1, 1, -2, 2, -(2**40), 2**40]
    assert unfolded(unpacked(packed(folded(np.array(signed, np.int64))))) == signed
    assert packed(np.zeros(0, np.int64)) == ""


def test_the_timeline_is_whole_and_exact() -> None:
    result = double_buffered(40)
    data = Slices(result.events(), result.slack()).data(10**6)
    assert data["count"] == data["kept"] == len(result) and "busy" not in data
    slack = list(result.slack())
    real = [(e.pipe, e.name, e.line, e.start, e.end, e.work, slack[at]) for at, e in enumerate(result.events())]
    assert sorted(decoded(data)) == sorted(real)
    assert [lane["pipe"] for lane in data["lanes"]] == [
        f"aic{core}-PIPE-{pipe}" for core in (0, 1) for pipe in ("MTE2", "MTE1", "M", "FIX")
    ]


def test_of_too_many_the_longest_are_kept_and_busy_shares_tell_of_all() -> None:
    draw = random.Random(7)
    events, time = [], {"a-PIPE-M": 0, "b-PIPE-V": 0}
    for at in range(4_000):
        pipe = draw.choice(list(time))
        start = time[pipe] + draw.randrange(50)
        time[pipe] = end = start + draw.choice((1, 5, 400))
        events.append(Event(f"I{at % 7}", pipe, start, end, "computation", at, "user", "k.py:1"))
    slices = Slices(events, [0] * len(events))
    data = slices.data(500)
    assert data["kept"] == 500 and data["shortest"] == 400 and data["count"] == 4_000
    kept = decoded(data)
    assert {event[4] - event[3] for event in kept} == {400}
    assert {event[:5] for event in kept} <= {(e.pipe, e.name, e.line, e.start, e.end) for e in events}
    total = max(event.end for event in events)
    for lane, text in zip(data["lanes"], data["busy"], strict=True):
        shares = unpacked(text)
        busy = sum(event.end - event.start for event in events if event.pipe == lane["pipe"])
        assert len(shares) == BINS and max(shares) <= 1000
        assert sum(shares) * total / BINS / 1000 == pytest.approx(busy, rel=0.01)


def test_steps_thinned_keeps_peaks() -> None:
    points = [(at, at * 7919 % 1009) for at in range(1_000)]
    thin = steps_thinned(points, 50)
    assert len(thin) <= 51 and max(points, key=lambda point: point[1]) in thin and thin[-1] == points[-1]
    assert steps_thinned(points[:5], 50) == points[:5]


# --------------------------------------------------------------------------- what it holds


def test_headline(small: Result, written: Callable[[Any], Path]) -> None:
    path = written(small)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    parts = Parts(path.read_text(encoding="utf-8"))
    text = parts.text()
    assert text.startswith(
        f"test_report_page.py: {small.duration_us:.3f} µs on Ascend910B1 test_report_page.py "
        "Predicted kernel time on Ascend910B1 at 1,850 MHz, L2 cache hit ratio 0 (cold, the default), page made 20"
    )
    assert f"Time {small.duration_us:.3f} µs {small.total_cycles:,} cycles" in text
    share = small.pipes["PIPE-MTE2"].cycles / small.total_cycles
    assert f"Busiest pipe PIPE-MTE2 busy {100 * share:.1f} % of the time" in text
    assert "of the best rate of GM→L1" in text
    assert "Instructions 48 4 pipes" in text and "Costs measured 50.0 % 24 interpolated" in text
    assert "does not hold everything" not in text and "Warning" not in text
    for gain in advice.first_changes(small.what_if):
        assert in_page(advice.effect(gain, small.clock_mhz)) in text
    assert parts.sections() == [
        f"s-{name}"
        for name in (
            "advice", "timeline", "ledger", "critical", "gains", "statistics", "roofline", "memory", "origins",
        )
    ]  # fmt: skip


def test_the_first_advice_is_the_largest_gain(small: Result) -> None:
    """Of what can be changed of the kernel; the hit ratio, an assumption, comes last."""
    changes = advice.first_changes(small.what_if)
    first = changes[0]
    able = [gain for gain in small.what_if if gain.change in ("2x larger", "no conversion", "+1", "+1 per id")]
    assert [gain.kind == "cache" for gain in changes] == sorted(gain.kind == "cache" for gain in changes)
    assert first.gain_cycles == max(gain.gain_cycles for gain in able)
    twice = next(gain for gain in small.what_if if (gain.subject, gain.change) == ("MOV-GM_TO_L1", "2x"))
    assert advice.sentence(twice) == "GM->L1 moves twice as fast"
    us = [cycles / small.clock_mhz for cycles in (small.total_cycles, twice.total_cycles)]
    percent = 100 * twice.gain_cycles / small.total_cycles
    assert advice.effect(twice, small.clock_mhz) == f"{us[0]:.3f} us -> {us[1]:.3f} us (-{percent:.0f} %)"


@pytest.mark.parametrize(
    ("gain", "words", "what"),
    [
        (Gain("pipe", "PIPE-V", "free", 90, 10), "all of PIPE-V at no cost", "0.100 us -> 0.090 us (-10 %)"),
        (Gain("instruction", "MMAD", "2x", 995, 5), "MMAD twice as fast", "1.000 us -> 0.995 us (-0.5 %)"),
        (Gain("cache", "cache_hit_ratio", "ratio 0", 12, -2), "L2 cache hit ratio 0", "0.010 us -> 0.012 us (+20 %)"),
        (
            Gain("buffer", "PIPE-M -> PIPE-MTE1", "+1", 10**9, 1),
            "one more buffer from PIPE-MTE1 to PIPE-M",
            "1,000,000 us -> 1,000,000 us (less than 0.01 %)",
        ),
        (Gain("path", "odd", "2x", 0, 0), "odd twice as fast", "0.000 us -> 0.000 us (0 %)"),
    ],
)  # fmt: skip
def test_gains_in_words(gain: Gain, words: str, what: str) -> None:
    assert advice.sentence(gain) == words and advice.effect(gain, 1000.0) == what


def test_tables_are_those_of_the_result(small: Result) -> None:
    data = Parts(report_of(small)).data()
    assert (data["total"], data["clockMhz"]) == (small.total_cycles, small.clock_mhz)
    assert {row[0]: row[1] for row in data["pipes"]} == {name: row.cycles for name, row in small.pipes.items()}
    assert [tuple(row) for row in data["ledger"]] == [dataclasses.astuple(row) for row in small.ledger.pipes]
    assert [tuple(row) for row in data["stalls"]] == [dataclasses.astuple(row) for row in small.ledger.stalls]
    assert sum(row[3] for row in data["critical"]["parts"]) == small.total_cycles
    shown = gains_shown(small.what_if)
    assert [row[5] for row in data["gains"]] == [gain.gain_cycles for gain in shown]
    left = [gain for gain in small.what_if if gain not in shown]
    assert left and {gain.kind for gain in left} == {"pipe"}
    assert all(
        any((one.change, one.total_cycles) == (gain.change, gain.total_cycles) for one in shown) for gain in left
    )
    last = [gain.change in ("free", "ratio 0") for gain in shown]
    assert last == sorted(last) and True in last
    assert sum(row[6] for row in data["gains"]) == len(advice.first_changes(small.what_if))
    assert [use["peak"] for use in data["memory"]] == [use.peak_bytes for use in small.memory]
    assert sum(row[4] for row in data["origins"]) == small.origins["interpolated"]
    assert {row[1] for row in data["origins"]} == {"interpolated"}


def test_warnings_and_notes(small: Result) -> None:
    use = MemoryUse("aic0", "L1", 600_000, 7, 524_288, ((0, 1), (7, 600_000)), (LiveTensor("L1 tensor", 600_000, 3),))
    text = Parts(report_of(with_changes(small, memory=(use,)))).text()
    assert "Warning: L1 of aic0 holds up to 600,000 bytes, at cycle 7; its capacity is 524,288" in text
    with Chip("Ascend910B3") as chip:
        Tensor("L1").load(Tensor("GM", "FP16", [32, 48], format="ND"))
    text = Parts(report_of(chip.result)).text()
    assert "Taken from another chip's tables: " in text and chip.result.notes[0] in text


def test_an_empty_program() -> None:
    with Chip("Ascend910B1") as chip:
        pass
    parts = Parts(report_of(chip.result))
    assert "Nothing was issued: the program is empty." in parts.text() and parts.sections() == []


def test_a_saved_result_has_all_but_the_timeline(small: Result, tmp_path: Path) -> None:
    small.write_json(tmp_path / "result.json")
    parts = Parts(report_of(load_result(tmp_path / "result.json")))
    assert "Made of a result.json, which has no timeline" in parts.text()
    assert "s-timeline" not in parts.sections() and "s-ledger" in parts.sections()
    mine = Parts(report_of(small)).data()
    assert {**parts.data(), "timeline": 0} == {**mine, "timeline": 0}


def test_a_page_is_named_by_the_kernels_file(small: Result) -> None:
    saved = load(small.to_json())
    assert report_page.kernel_of(small) == report_page.kernel_of(saved) == "test_report_page.py"
    with Chip("Ascend910B1") as chip:
        pass
    assert report_page.kernel_of(chip.result) == ""
    assert "<title>0.000 &#181;s on Ascend910B1</title>" in report_of(chip.result)


def test_utilisation_is_that_of_the_busiest_pipe(small: Result) -> None:
    text = Parts(report_of(small)).text()
    [core] = small.roofline
    assert small.bound == "PIPE-MTE2" and core.bound == "GM_TO_L1"
    assert f"Utilisation {report_page.percent_text(core.utilisation or 0.0)} of the best rate of GM→L1" in text


def test_no_change_helps(small: Result) -> None:
    text = Parts(report_of(with_changes(small, what_if=()))).text()
    assert "Nothing that was tried gains 1 %." in text


def measured(tmp_path: Path) -> Result:
    file = tmp_path / "op_summary_1.csv"
    file.write_text("Op Name,Task Type,aicore_time(us),aic_mac_time(us),aic_mte2_time(us)\nmm<b>,AI_CORE,9.5,0.1,9.0\n")
    with Chip("Ascend910B1") as chip:
        chip.set_prof_summary_path(file)
        x = Tensor("L1")
        x.load(Tensor("GM", "FP16", [32, 48], format="ND"))
        Tensor("L0A").load(x)
    return chip.result


def test_comparison(tmp_path: Path) -> None:
    result = measured(tmp_path)
    assert result.comparison is not None
    parts = Parts(report_of(result))
    total = result.comparison.pipes["Total"]
    assert f"Measured 9.500 µs {total.summary_ratio:.2f} × the prediction" in parts.text()
    assert "Measured: mm<b>, 1 call, op_summary_1.csv." in parts.text()
    rows = {row[0]: row[1:] for row in parts.data()["comparison"]["rows"]}
    assert rows["PIPE-MTE2"][1] == 9.0 and rows["Total"][0] == pytest.approx(result.duration_us)


# --------------------------------------------------------------------------- nothing runs, nothing is too large


def hostile(small: Result) -> Result:
    """Every text that a user, a registration or a file can give is an attack."""
    row = small.ledger.stalls[0]
    fields = {f.name: EVIL for f in dataclasses.fields(row) if isinstance(getattr(row, f.name), str)} | {
        "cause": "data"
    }
    part = dataclasses.replace(small.critical_path.parts[0], name=EVIL, pipe=EVIL, line=EVIL)
    pipes = {EVIL: dataclasses.replace(small.pipes["PIPE-MTE2"], name=EVIL, origins={EVIL: 3}), **small.pipes}
    out = with_changes(
        small,
        chip=EVIL,
        notes=[EVIL],
        pipes=pipes,
        instructions={EVIL: dataclasses.replace(small.instructions["MMAD"], name=EVIL)},
        ledger=dataclasses.replace(
            small.ledger,
            stalls=(dataclasses.replace(row, **fields), *small.ledger.stalls),
            pipes=tuple(dataclasses.replace(pipe, pipe=EVIL) for pipe in small.ledger.pipes),
        ),
        critical_path=dataclasses.replace(small.critical_path, parts=(part,)),
        what_if=(
            Gain("path", EVIL, "2x", 10, small.total_cycles - 10),
            Gain("buffer", f"{EVIL} -> {EVIL}", "+1", 10, small.total_cycles - 10),
        ),
        roofline=tuple(
            dataclasses.replace(
                core, core=EVIL, bound=EVIL, paths=tuple(dataclasses.replace(path, name=EVIL) for path in core.paths)
            )
            for core in small.roofline
        ),
        memory=(MemoryUse(EVIL, EVIL, 9, 1, 8, ((0, 9), (5, 1)), (LiveTensor(EVIL, 9, 2),)),),
        costs_not_measured=tuple(
            dataclasses.replace(one, name=EVIL, origin=EVIL, pipe=EVIL, line=EVIL) for one in small.costs_not_measured
        ),
    )
    events = [event._replace(name=EVIL, line=EVIL, pipe=EVIL + event.pipe, origin=EVIL) for event in small.events()]
    out.events = lambda: iter(events)  # type: ignore[method-assign]
    return out


def test_own_files_hold_no_address_and_write_no_html() -> None:
    for name in ("timeline.js", "report.js", "report.css"):
        text = (FILES / name).read_text(encoding="utf-8")
        assert "SPDX-License-Identifier: Apache-2.0" in text.splitlines()[0]
        assert not re.search(r"https?:|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|</script|\r", text)


def test_only_its_own_scripts_may_run(small: Result) -> None:
    parts = Parts(report_of(hostile(small)))
    policy = next(a["content"] for n, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in parts.scripts[1:]}
    assert len(hashes) == 4 and hashes == set(re.findall(r"'sha256-([^']+)'", policy))
    kinds = [a.get("type") for n, a in parts.tags if n == "script"]
    assert kinds == ["application/json", "text/plain", None, None, None]
    for closed in ("default-src 'none'", "connect-src 'none'", "form-action 'none'", "base-uri 'none'"):
        assert closed in policy
    assert [a for _, a in parts.tags if a.get("src") or a.get("href")] == [{"rel": "icon", "href": "data:,"}]
    assert not [n for n, _ in parts.tags if n in ("img", "iframe", "a")]
    assert EVIL[:40] in " ".join(parts.words)


def test_pages_stay_small_whatever_the_program() -> None:
    """Nothing repeats: names, lines, durations, works and gaps are all different."""
    draw = random.Random(11)
    result = matmul(1)
    time, events = 0, []
    for at in range(150_000):
        start = time + draw.randrange(10**6)
        time = start + draw.randrange(10**6)
        line = f"{'deep/' * 30}{at}.py:{at}"
        work = draw.randrange(10**9)
        events.append(Event(f"{'NAME<' * 20}{at}", f"aic{at % 48}-PIPE-M", start, time, "move", work, "user", line))
    out = with_changes(result, total_cycles=time)
    out.events = lambda: iter(events)  # type: ignore[method-assign]
    out.slack = lambda: memoryview(np.array([draw.randrange(10**9) for _ in events], np.int64))  # type: ignore[method-assign]
    text = report_of(out)
    assert len(text.encode()) < MOST_BYTES
    data = Parts(text).data()["timeline"]
    assert data["count"] == 150_000 and LIMITS[-1].slices <= data["kept"] < 150_000
    assert f"{150_000 - data['kept']:,} of 150,000 instructions on the timeline" in text


def test_long_tables_are_cut_and_said_so(small: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_page, "LIMITS", (report_page.Limits(20, 2, 60),))
    core = small.roofline[0]
    text = Parts(report_of(with_changes(small, roofline=(core, core), memory=small.memory * 2))).text()
    assert "This page does not hold everything" in text
    for said in (
        "28 of 48 instructions on the timeline: it draws the longest, from ",
        "2 of 4 pipes, those with the fewest cycles.",
        f"{len(small.ledger.stalls) - 2} of {len(small.ledger.stalls)} causes of stalls",
        "Rooflines of 1 of 2 cores.",
        f"Charts of {2 * len(small.memory) - 3} of {2 * len(small.memory)} memories.",
    ):
        assert said in text


# --------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        (3, ArgumentError, "to_html: the path must be a str or a path, got int"),
        (b"x", ArgumentError, "to_html: the path must be a str or a path, got bytes"),
        ("", InputError, "to_html: the path '' names no file; give one such as 'report.html'"),
        ("a\0b", InputError, r"to_html: the path 'a\x00b' names no file"),
        ("none/report.html", FileError, "to_html: report.html cannot be written: No such file or directory"),
        (".", InputError, "to_html: the path '.' names no file; give one such as 'report.html'"),
        ("folder/..", FileError, "to_html: .. cannot be written: "),
    ],
)
def test_not_written_where_it_cannot_be(
    small: Result, path: Any, kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=re.escape(message)):
        small.to_html(path)
    assert list(tmp_path.iterdir()) == []


def test_written_again_in_place(small: Result, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    small.to_html(str(path))
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


# --------------------------------------------------------------------------- in a browser


def opened_whole(opened: Opened) -> Opened:
    """Waits until the charts are drawn too."""
    opened.page.wait_for_selector("html[data-ready=yes]", state="attached")
    return opened


def clean(opened: Opened) -> bool:
    assert opened.errors == [] and opened.requests == [] and opened.dialogs == []
    assert opened.run("window.ran === undefined")
    return True


def view(opened: Opened) -> tuple[float, float]:
    opened.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    data = opened.run("({...document.getElementById('timeline-canvas').dataset})")
    return float(data["from"]), float(data["to"])


def over(opened: Opened, lane: int, cycle: float) -> None:
    """Moves the pointer to a place on the timeline."""
    opened.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    box = opened.page.locator("#timeline-canvas").bounding_box()
    x, y = opened.run("([lane, cycle]) => [timeline.view().x(cycle), timeline.view().y(lane)]", [lane, cycle])
    opened.page.mouse.move(box["x"] + x, box["y"] + y)


def cells(opened: Opened, selector: str) -> list[list[str]]:
    rows = opened.page.locator(f"{selector} tbody tr")
    return [[str(text).strip() for text in row.locator("td").all_inner_texts()] for row in rows.all()]


def figures_agree(opened: Opened, result: Result) -> None:
    """What the page shows is what the result has."""
    assert f"{result.total_cycles:,} cycles" in opened.text("#figure-time")
    assert result.bound is not None and result.bound in opened.text("#figure-bound")
    first = advice.first_changes(result.what_if)[0]
    assert in_page(advice.effect(first, result.clock_mhz)) in opened.texts("ol.advice li")[0]
    pipes = {row[0]: row[2] for row in cells(opened, "#pipe-table")}
    assert pipes == {name: f"{row.cycles:,}" for name, row in result.pipes.items()}
    shown = opened.run(
        "Array.from(document.querySelectorAll('#ledger-pipes tbody tr'), (row) => [row.cells[0].textContent, "
        "Array.from(row.querySelectorAll('[data-cycles]'), (cell) => Number(cell.dataset.cycles))])"
    )
    kinds = ("busy", "data", "flag", "barrier", "end")
    assert {name: sum(values) for name, values in shown} == {
        row.pipe: result.total_cycles for row in result.ledger.pipes
    }
    assert {name: sorted(value for value in values if value) for name, values in shown} == {
        row.pipe: sorted(value for kind in kinds if (value := getattr(row, kind))) for row in result.ledger.pipes
    }
    gains = cells(opened, "#gains")
    assert gains[0][2] == f"{gains_shown(result.what_if)[0].total_cycles:,}"
    assert cells(opened, "#critical")[0][3] == f"{result.critical_path.parts[0].cycles:,}"
    stall = next(row for row in result.ledger.stalls if row.cause != "end")
    assert cells(opened, "#stalls")[0][1] == f"{stall.cycles:,}"
    peaks = opened.run("Array.from(document.querySelectorAll('.memory'), (one) => Number(one.dataset.peak))")
    assert peaks == [use.peak_bytes for use in result.memory if use.core == result.memory[0].core]


def test_a_small_page(small: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    opened = opened_whole(page_of(written(small)))
    assert len(small) == 48
    figures_agree(opened, small)
    assert opened.page.locator(".plot .main-svg").count() > 0
    assert opened.run("Array.from(document.querySelectorAll('.plot'), (one) => one.clientHeight > 100).every(Boolean)")
    assert int(opened.run("document.documentElement.dataset.interactiveMs")) < PATIENCE_MS
    clean(opened)


def test_hover_tells_of_instructions_and_gaps(small: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    opened = opened_whole(page_of(written(small)))
    events = [event for event in small.events() if event.pipe == "PIPE-FIX"]
    over(opened, 3, (events[0].start + events[0].end) / 2)
    text = opened.text("#timeline-tip")
    for said in ("MOV-L0C_TO_GM", "PIPE-FIX", f"{events[0].start:,} to {events[0].end:,}", "2,048 bytes", "measured"):
        assert said in text
    assert "test_report_page.py:" in text and "could end" in text
    over(opened, 3, (events[0].end + events[1].start) / 2)
    text = opened.text("#timeline-tip")
    assert "PIPE-FIX waits" in text and "data: L0C tensor [32,16] FP32" in text and "written by MMAD on PIPE-M" in text
    assert f"{events[1].start - events[0].end:,}" in text
    over(opened, 0, 100)
    assert "none: on a critical path" in opened.text("#timeline-tip")
    opened.page.mouse.down()
    opened.page.mouse.up()
    assert "MOV-GM_TO_L1" in opened.text("#timeline-chosen")
    opened.page.keyboard.press("]")
    first, second = [event for event in small.events() if event.pipe == "PIPE-MTE2"][:2]
    assert f"{second.start:,} to {second.end:,}" in opened.text("#timeline-chosen") and first.start == 0
    opened.page.mouse.move(0, 0)
    assert not opened.page.locator("#timeline-tip").is_visible()
    clean(opened)


def test_zoom_and_move(small: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    opened = opened_whole(page_of(written(small)))
    total = small.total_cycles
    assert view(opened) == (0, total)
    over(opened, 0, total / 2)
    opened.page.mouse.wheel(0, -200)  # scrolls the page: the timeline was not clicked
    assert view(opened) == (0, total)
    over(opened, 0, total / 2)
    opened.page.keyboard.down("Control")
    opened.page.mouse.wheel(0, -300)
    opened.page.keyboard.up("Control")
    begin, end = view(opened)
    assert 0 < begin < total / 2 < end < total and end - begin == pytest.approx(total * 0.549, rel=0.02)
    over(opened, 1, total / 2)
    opened.page.mouse.down()
    over(opened, 1, total / 2 + 500)  # 500 cycles to the right
    opened.page.mouse.up()
    moved = view(opened)
    assert moved[0] == pytest.approx(begin - 500, abs=20) and moved[1] - moved[0] == pytest.approx(end - begin)
    opened.page.mouse.wheel(0, -100)  # after a click the wheel alone
    assert view(opened)[1] - view(opened)[0] < end - begin
    opened.page.keyboard.press("0")
    assert view(opened) == (0, total)
    for key in ("+", "+", "+"):
        opened.page.keyboard.press(key)
    span = view(opened)[1] - view(opened)[0]
    assert span == pytest.approx(total / 1.6**3)
    opened.page.keyboard.press("Home")
    assert view(opened)[0] == 0
    opened.page.keyboard.press("ArrowRight")
    assert view(opened)[0] == pytest.approx(0.2 * span)
    for _ in range(60):
        opened.page.keyboard.press("+")
    assert view(opened)[1] - view(opened)[0] == pytest.approx(8)
    opened.page.get_by_role("button", name="the whole timeline (0)").click()
    assert view(opened) == (0, total)
    event = next(event for event in small.events() if event.pipe == "PIPE-FIX")
    over(opened, 3, (event.start + event.end) / 2)
    opened.page.mouse.dblclick(*opened.run(
        "([lane, cycle]) => { const box = document.getElementById('timeline-canvas').getBoundingClientRect(); "
        "return [box.x + timeline.view().x(cycle), box.y + timeline.view().y(lane)]; }",
        [3, (event.start + event.end) / 2],
    ))  # fmt: skip
    begin, end = view(opened)
    assert begin <= event.start and event.end <= end and end - begin == pytest.approx(4 * (event.end - event.start))
    for name in ("cost origin", "critical path", "instruction"):
        opened.page.get_by_role("button", name=name, exact=True).click()
    opened.page.locator(".tl-legend button").first.click()
    assert opened.page.locator(".tl-legend button").first.get_attribute("aria-pressed") == "true"
    clean(opened)


def test_what_is_drawn_is_where_it_should_be(small: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    opened = opened_whole(page_of(written(small)))
    event = next(event for event in small.events() if event.name == "MOV-L0C_TO_GM")
    opened.run("([a, b]) => timeline.view().look(a, b)", [event.start - 400, event.end + 400])
    view(opened)
    colour = opened.run(
        """([lane, cycle]) => {
          const canvas = document.getElementById("timeline-canvas");
          const ratio = canvas.width / canvas.clientWidth;
          const at = [timeline.view().x(cycle), timeline.view().y(lane) - 6].map((px) => Math.round(px * ratio));
          return Array.from(canvas.getContext("2d").getImageData(...at, 1, 1).data);
        }""",
        [3, event.end - 5],
    )
    expected = opened.run("timeline.view().colourOf.get('MOV-L0C_TO_GM')")
    assert "#" + "".join(f"{part:02x}" for part in colour[:3]) == expected
    clean(opened)


def test_two_hundred_thousand_instructions(large: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    path = written(large)
    assert path.stat().st_size < MOST_BYTES
    opened = opened_whole(page_of(path))
    assert int(opened.run("document.documentElement.dataset.interactiveMs")) < PATIENCE_MS
    figures_agree(opened, large)
    assert opened.run("timeline.view().lanes.reduce((sum, lane) => sum + lane.start.length, 0)") == len(large)
    assert (
        opened.run("timeline.view().lanes.reduce((last, lane) => Math.max(last, lane.end.at(-1)), 0)")
        == large.total_cycles
    )
    frame = opened.run(
        "(() => { const t = performance.now(); for (let k = 0; k < 10; k += 1) timeline.view().draw(); "
        "return (performance.now() - t) / 10; })()"
    )
    assert frame < 1_000  # milliseconds; alone about 10
    mine = [event for event in large.events() if event.pipe == "aic1-PIPE-M"]
    event = next(event for event in mine[len(mine) // 2 :] if event.name == "MMAD")
    opened.run("([a, b]) => timeline.view().look(a, b)", [event.start - 1_000, event.end + 1_000])
    view(opened)
    over(opened, 6, (event.start + event.end) / 2)
    text = opened.text("#timeline-tip")
    assert "MMAD" in text and f"{event.start:,} to {event.end:,}" in text and event.line in text
    clean(opened)


def test_a_timeline_that_is_cut(
    written: Callable[[Any], Path], page_of: PageOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "LIMITS", (report_page.Limits(100, 2_000, 2_000),))
    opened = opened_whole(page_of(written(double_buffered(40))))
    assert opened.run("timeline.view().lanes.reduce((sum, lane) => sum + lane.start.length, 0)") == 100
    assert "instructions on the timeline: it draws the longest" in opened.text("#left-out")
    for _ in range(5):
        opened.page.locator("#timeline-canvas").press("+")
    clean(opened)


def test_nothing_of_the_user_runs(small: Result, written: Callable[[Any], Path], page_of: PageOf) -> None:
    opened = opened_whole(page_of(written(hostile(small))))
    for lane in range(4):
        over(opened, lane, 1_500)
        opened.page.mouse.down()
        opened.page.mouse.up()
    assert EVIL.split("$x")[0][:30] in opened.text("#timeline-chosen")
    assert opened.page.locator("img").count() == 0 and opened.page.locator("main a").count() == 0
    clean(opened)


def test_pages_of_other_kinds(small: Result, tmp_path: Path, page_of: PageOf) -> None:
    """Without a timeline, without instructions, with a measurement, without operations, with memory beyond capacity."""
    small.write_json(tmp_path / "result.json")
    with Chip("Ascend910B1") as chip:
        pass
    use = MemoryUse("", "L1", 900, 5, 800, ((0, 10), (5, 900)), (LiveTensor("L1 tensor", 900, 2),))
    kinds = [load_result(tmp_path / "result.json"), chip.result, measured(tmp_path), with_changes(small, memory=(use,))]
    for at, result in enumerate(kinds):
        path = tmp_path / f"{at}.html"
        write_report(result, path)
        opened = opened_whole(page_of(path))
        assert f"{result.total_cycles:,} cycles" in opened.text("#figure-time")
        clean(opened)
    assert "900 B of 800 B (113 %)" in opened.text(".memory-about.over")


def test_printing(small: Result, written: Callable[[Any], Path], page_of: PageOf, tmp_path: Path) -> None:
    opened = opened_whole(page_of(written(small)))
    opened.page.pdf(path=str(tmp_path / "page.pdf"))
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
    clean(opened)
