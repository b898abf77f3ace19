# SPDX-License-Identifier: Apache-2.0
"""The page of a tuning: what it holds, that nothing in it runs, its size, and how it behaves in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.browser import Opened

from mskpp.errors import FileError
from mskpp.optune import page as tune_page
from mskpp.optune.page import LIMITS, number_of, spans_powers, time_text, value_shown, write_page
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult
from mskpp.report.page import Html, escaped, joined, json_text, page, shortened, tag

EVIL = (
    "</script><img src=x onerror=\"alert(1)\"><b>${alert(2)}</b>%{x}<a href='javascript:alert(3)'>l</a>"
    "<!--<script>window.ran = 1; alert(4)</script>\u2028$x^2$`\0"
)
MOST_BYTES = 10_000_000
CAUSES = (
    ("does not compile", "kernel.cpp:41:17: error: the L1 tile does not fit", "kernel.cpp:41: error\n  41 | assert\n"),
    ("crashed", "signal 11 in the launch", "at kernel.cpp:88"),
    ("wrong result", "output 0 differs in 4,096 elements", ""),
)


def tuning(count: int = 60, **changes: Any) -> TuneResult:
    """Three parameters; 8 failures of 3 causes; times from 10 us on, each once."""
    trials = []
    for number in range(count):
        config = {
            "TileShape": f"GemmShape<{(64, 128, 256)[number % 3]}, {(64, 128)[number // 3 % 2]}, 256>",
            "kTile": (8, 16, 32, 64)[number % 4],
            "kStages": str(1 + number % 5),
        }
        given: dict[str, Any] = {"elapsed_seconds": 0.5 * (number + 1), "compile_seconds": 1.25}
        if number % 7 == 3 and number < 56:
            ending, reason, log = CAUSES[number % 3]
            trials.append(Trial(number, config, ending, reason=reason, log=log, **given))
        else:
            time = 10.0 + (number * 37 % count) * 0.75
            given |= {"predicted_us": time * 0.9, "known": number == 5}
            trials.append(Trial(number, config, MEASURED, time, time - 0.2, time + 0.2, 12, **given))
    first = min((trial for trial in trials if trial.good), key=lambda trial: trial.time_us or 0.0, default=None)
    ties = (first.number,) if first else ()
    fields: dict[str, Any] = {"ties": ties, "seconds": 31.0, "correlation": 0.875}
    return TuneResult(tuple(trials), "host", "basic_matmul", **{**fields, **changes})


def one_name(values: list[Any], **changes: Any) -> TuneResult:
    trials = tuple(Trial(at, {"v": value}, MEASURED, 5.0 + at, 5.0, 6.0, 2) for at, value in enumerate(values))
    return TuneResult(trials, "host", "k", **{"ties": (0,), **changes})


@pytest.fixture
def written(tmp_path: Path) -> Callable[[TuneResult], Path]:
    def write(result: TuneResult) -> Path:
        path = tmp_path / "tuning.html"
        write_page(result, path)
        return path

    return write


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


def data_of(result: TuneResult) -> Any:
    return Parts(tune_page.page_of(result)).data()


# --------------------------------------------------------------------------- the base


def test_elements_are_escaped() -> None:
    made = tag("p", "<b>", tag("br"), None, Html("<i></i>"), class_="a\"b'", data_x=3, id=None)
    assert made == '<p class="a&quot;b&#x27;" data-x="3">&lt;b&gt;<br><i></i></p>'
    assert escaped("é\ud800\0&") == "&#233;&#55296;&#65533;&amp;"
    assert joined([tag("b", 1), tag("i")]) == "<b>1</b><i></i>"


def test_json_cannot_leave_its_script() -> None:
    text = json_text({EVIL: [EVIL, 1.5, None]})
    assert "<" not in text and text.isascii()
    assert json.loads(text) == {EVIL: [EVIL, 1.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(float("nan"))


def test_shortened_says_how_much_is_missing() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("a" * 8 + "b" * 4, 6) == "aaaa … (6 characters left out) … bb"


def test_a_page_runs_only_its_own_scripts_and_connects_to_nothing() -> None:
    parts = Parts(page(EVIL, tag("main", EVIL), {"a": EVIL}))
    policy = next(a["content"] for n, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in parts.scripts[1:]]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    assert len(hashes) == 2 and f"script-src {allowed};" in policy
    for closed in ("default-src 'none'", "connect-src 'none'", "form-action 'none'", "base-uri 'none'"):
        assert closed in policy
    assert "unsafe-eval" not in policy and "script-src 'unsafe-inline'" not in policy
    # Nothing on it is loaded: no address in any element, but for the icon that there is none.
    assert [a for _, a in parts.tags if a.get("src") or a.get("href")] == [{"rel": "icon", "href": "data:,"}]
    assert not [n for n, _ in parts.tags if n in ("img", "iframe", "a", "b")]
    assert EVIL.replace("\0", "\ufffd") in parts.words


def test_own_files_hold_no_address_and_write_no_html() -> None:
    for path in [
        *(Path(tune_page.FILES)).iterdir(),
        *(Path(tune_page.FILES).parents[1] / "report/page_files").iterdir(),
    ]:
        text = path.read_text(encoding="utf-8")
        assert "SPDX-License-Identifier: Apache-2.0" in text.splitlines()[0]
        assert not re.search(r"https?:|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|</script|\r", text), (
            path
        )


# --------------------------------------------------------------------------- what it holds


def test_headline(written: Callable[[TuneResult], Path]) -> None:
    result = tuning(complete=False)
    path = written(result)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = Parts(path.read_text(encoding="utf-8")).text()
    assert text.startswith("Tuning of basic_matmul basic_matmul incomplete Tuning on the backend host")
    worst = result.ranking[-1].time_us
    assert result.best is not None and worst is not None and result.best.time_us == 10.0
    assert "Best time 10.000 µs 9.800 to 10.200 µs" in text
    assert f"Worst / best {worst / 10.0:.2f} × worst {worst:.3f} µs" in text
    assert "Tried 60 1 known before Failed 8 13 % of those tried Ties with the best 0 Duration 31.0 s" in text
    assert "Best configuration: No.0 TileShape GemmShape<64, 64, 256> kTile 8 kStages 1" in text
    assert "The search is incomplete: a budget or an interrupt ended it" in text
    assert "Rank correlation (Spearman): 0.88." in text
    assert "does not hold everything" not in text


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_few_samples_have_no_bounds(samples: int) -> None:
    trial = Trial(0, {"v": 1}, MEASURED, 5.0, 4.0, 6.0, samples)
    parts = Parts(tune_page.page_of(TuneResult((trial,), "host", "k", (0,))))
    assert ("4.000 to 6.000" in parts.text()) == (samples == 3)
    assert parts.data()["fewSamples"] == 3
    assert "from three samples on with bounds that hold the median with up to 95 % confidence" in parts.text()


def test_ties_and_what_was_not_tried() -> None:
    result = tuning(ties=(0, 13, 2))
    more = (*result.trials, Trial(60, {"kTile": 1}, NOT_TRIED))
    text = Parts(tune_page.page_of(tuning(ties=(0, 13, 2)).__class__(more, "host", "k", (0, 13, 2)))).text()
    assert "Ties with the best 2 cannot be told apart" in text
    assert "cannot be told from that of No.13, No.2." in text
    assert "Tried 60 1 known before, 1 not tried" in text
    assert "Too few configurations have both for a rank correlation." in text


def test_failures_by_cause_the_most_frequent_first() -> None:
    causes = data_of(tuning())["causes"]
    assert [(c["ending"], c["count"]) for c in causes] == [
        ("does not compile", 3),
        ("crashed", 3),
        ("wrong result", 2),
    ]
    assert (
        causes[0]["numbers"] == [3, 24, 45] and causes[0]["reason"] == CAUSES[0][1] and causes[0]["log"] == CAUSES[0][2]
    )


def test_best_so_far_in_the_order_of_ending() -> None:
    times = {0: (3.0, 9.0), 1: (1.0, 12.0), 2: (2.0, 11.0), 3: (4.0, 9.0), 4: (5.0, 8.0)}
    trials = tuple(
        Trial(number, {"a": number}, MEASURED, time, elapsed_seconds=at) for number, (at, time) in times.items()
    )
    data = data_of(TuneResult(trials, "host", "k", (4,)))
    assert data["steps"] == [[1, 1.0, 12.0, 1], [2, 2.0, 11.0, 2], [3, 3.0, 9.0, 0], [5, 5.0, 8.0, 4]]
    assert data["timed"] and data["trials"]["count"] == [3, 1, 2, 4, 5]
    assert not data_of(one_name([1, 2]))["timed"]


def test_values_of_a_parameter_over_all_trials() -> None:
    result = tuning()
    parameter = data_of(result)["parameters"][1]
    assert parameter["name"] == "kTile" and parameter["numeric"] and parameter["log"]
    for label, x, tried, measured, best, median in parameter["values"]:
        mine = [trial for trial in result if trial.config["kTile"] == x]
        times = sorted(trial.time_us for trial in mine if trial.time_us is not None)
        assert (label, tried, measured, best) == (str(int(x)), len(mine), len(times), times[0])
        assert median == pytest.approx(np.median(times))
    assert [value[1] for value in parameter["values"]] == [8, 16, 32, 64]


@pytest.mark.parametrize(
    ("values", "numeric", "log", "labels"),
    [
        (["16", "2", "4"], True, True, ["2", "4", "16"]),
        ([np.int64(3), 1, 2], True, False, ["1", "2", "3"]),
        ([1.5, -2, "0.5f"], False, False, ["0.5f", "1.5", "-2"]),
        ([True, False], False, False, ["False", "True"]),
        (["Shape<16>", "Shape<8>"], False, False, ["Shape<8>", "Shape<16>"]),
        ([8, "8", 8.0, 9], True, False, ["8", "9"]),
        ([10**30, "inf", "nan"], False, False, [str(10**30), "inf", "nan"]),
    ],
)
def test_axes_by_kind_of_value(values: list[Any], numeric: bool, log: bool, labels: list[str]) -> None:
    parameter = data_of(one_name(values))["parameters"][0]
    assert (parameter["numeric"], parameter["log"]) == (numeric, log)
    assert [value[0] for value in parameter["values"]] == labels


def test_many_numbers_are_put_into_ranges() -> None:
    parameter = data_of(one_name(list(range(1000))))["parameters"][0]
    assert parameter["ranges"] and len(parameter["values"]) == tune_page.RANGES
    assert sum(value[2] for value in parameter["values"]) == 1000
    assert parameter["values"][0][0] == "0 to 31.22" and parameter["values"][0][4] == 5.0
    assert parameter["slots"][0] == 0 and parameter["slots"][-1] == tune_page.RANGES - 1
    growing = data_of(one_name([1.1**power for power in range(100)]))["parameters"][0]
    assert growing["ranges"] and growing["log"]


def test_small_parts() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert value_shown(Odd()) == "(Odd, which has no text: RuntimeError)"
    assert [number_of(text) for text in ("1", "-.5", "1e3", "0", "1e400", "1_0", "0x8", "", "1" * 41)] == [
        1.0, -0.5, 1000.0, 0.0, None, None, None, None, None,
    ]  # fmt: skip
    assert spans_powers([1, 2, 4]) and spans_powers([10, 20, 40, 80]) and not spans_powers([16, 32])
    assert not spans_powers([0, 1, 2]) and not spans_powers(list(range(1, 100)))
    assert [time_text(us) for us in (None, 0.0, 0.00123456, 1234.5, 123456.7, float("inf"))] == [
        "–", "0.000", "0.001235", "1,234.500", "123,457", "–",
    ]  # fmt: skip
    assert [tune_page.duration_text(s) for s in (0.04, 61.0, 7322.0)] == ["0.0 s", "1 min 1 s", "2 h 2 min"]


def test_one_trial_and_none() -> None:
    text = Parts(tune_page.page_of(one_name([1]))).text()
    assert "Worst / best 1.00 ×" in text and "Two parameters together" not in text
    empty = Parts(tune_page.page_of(TuneResult((), "host", "k", complete=False))).text()
    assert "No configuration was tried." in empty and "Best time none nothing could be measured" in empty


def test_figures_that_are_none() -> None:
    nan = float("nan")
    trials = (Trial(0, {}, MEASURED, nan, nan, nan, predicted_us=nan), Trial(1, {}, MEASURED, 0.0))
    data = data_of(TuneResult(trials, "host", "k", (1,), correlation=nan))
    assert data["trials"]["time"] == [None, 0.0] and data["correlation"] is None


def test_all_failed() -> None:
    trials = tuple(Trial(at, {"a": at}, "crashed", reason="signal 11") for at in range(5))
    text = Parts(tune_page.page_of(TuneResult(trials, "host", "k"))).text()
    assert "No configuration could be measured. The causes are listed below with their logs." in text
    assert "Failed 5 100 % of those tried" in text and "Effect of each parameter" not in text


def big(count: int) -> TuneResult:
    """Every text is long and its own, and most of its characters need six in JSON."""
    trials = []
    for number in range(count):
        config = {"a": 2 ** (number % 6), "b": f"Shape<{number % 7}>", "c": number, "d": "é" * 400 + str(number)}
        if number % 5:
            time = 5.0 + (number * 7919) % count
            trials.append(Trial(number, config, MEASURED, time, predicted_us=time, elapsed_seconds=float(number + 1)))
        else:
            reason, log = f"error {number} " + "<" * 500, "é<" * 2_000 + str(number)
            trials.append(
                Trial(number, config, "does not compile", reason=reason, log=log, elapsed_seconds=1.0 + number)
            )
    best = min((trial for trial in trials if trial.good), key=lambda trial: trial.time_us or 0.0)
    return TuneResult(tuple(trials), "host", "k", (best.number,))


def test_a_hundred_thousand_trials_stay_small_and_exact(written: Callable[[TuneResult], Path]) -> None:
    result = big(100_000)
    path = written(result)
    assert path.stat().st_size < MOST_BYTES
    parts = Parts(path.read_text(encoding="utf-8"))
    data = parts.data()
    kept = data["trials"]["number"]
    assert 200 <= len(kept) < 20_000 and len(set(kept)) == len(kept) and data["best"] in kept
    assert {step[3] for step in data["steps"]} <= set(kept)
    assert f"{100_000 - len(kept):,} of 100,000 configurations are not in the table" in parts.text()
    assert "Tried 100,000 Failed 20,000" in parts.text()
    # Figures are of all trials, and the map has the best of every pair.
    first, second = data["parameters"][0], data["parameters"][1]
    assert sum(value[2] for value in first["values"]) == 100_000
    assert first["values"][0][4] == min(t.time_us or 0.0 for t in result if t.good and t.config["a"] == 1)
    labels = [[value[0] for value in parameter["values"]] for parameter in (first, second)]
    cells, times, _ = data["pairs"]["0,1"]
    shown = {(labels[0][cell // 7], labels[1][cell % 7]): time for cell, time in zip(cells, times, strict=True)}
    real: dict[tuple[str, str], float] = {}
    for trial in result:
        if trial.time_us is not None:
            cell = str(trial.config["a"]), trial.config["b"]
            real[cell] = min(trial.time_us, real.get(cell, trial.time_us))
    assert shown == real


def test_the_last_limits_hold_for_many_long_names(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = tuple(
        Trial(at, {f"{'é' * 500}{name}": f"{'é' * 3000}{at}" for name in range(60)}, MEASURED, 1.0 + at)
        for at in range(300)
    )
    text = tune_page.page_of(TuneResult(trials, "host", "é" * 10_000, (0,)))
    assert len(text.encode()) < MOST_BYTES
    assert "20 of 60 tuned names." in text
    assert LIMITS[-1].trials == 200


def test_not_written_where_it_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"to_html: output folder .*absent cannot be used: it does not exist"):
        write_page(one_name([1]), tmp_path / "absent" / "page.html")


# --------------------------------------------------------------------------- in a browser

PageOf = Callable[[Path], Opened]


def quiet(opened: Opened) -> None:
    assert opened.run("document.documentElement.dataset.ready") == "yes"
    assert opened.errors == [] and opened.requests == [] and opened.dialogs == []


def column(opened: Opened, place: str, number: int) -> list[str]:
    return opened.texts(f"#{place} tbody tr:not(.detail) > td:nth-child({number})")


def test_a_real_page(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    result = tuning()
    opened = page_of(written(result))
    quiet(opened)
    assert opened.text("h1") == "basic_matmul" and opened.text(".figure.best .value") == "10.000 µs"
    # Sorted by time at first: the ranking, then the failures.
    assert column(opened, "trials", 2)[:50] == [str(t.number) for t in result.ranking][:50]
    assert column(opened, "trials", 4)[0] == "10.000" and opened.text("#trials .status") == "1–50 of 60 configurations"
    opened.page.click("#trials .pager button:last-child")
    assert column(opened, "trials", 2) == [
        *(str(t.number) for t in result.ranking[50:]),
        *(str(t.number) for t in result.failures),
    ]
    # No button that would send the chart away.
    buttons = opened.run("[...document.querySelectorAll('#progress-plot .modebar-btn')].map((b) => b.dataset.title)")
    assert buttons == ["Download plot as a PNG", "Zoom", "Pan", "Reset axes"]
    # The drawn points are the measured times.
    drawn = opened.run("[...document.getElementById('progress-plot').data[1].y].sort((a, b) => a - b)")
    assert drawn == pytest.approx([t.time_us for t in result.ranking])
    assert opened.run("document.getElementById('progress-plot').data[2].x.length") == 8
    assert opened.run("[0, 1, 2].map((at) => document.getElementById(`effect-plot-${at}`).layout.xaxis.type)") == [
        "linear", "log", "linear",
    ]  # fmt: skip
    assert opened.run("document.getElementById('effect-plot-0').layout.xaxis.title.text") == "GemmShape&lt;…, 256&gt;"
    quiet(opened)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1024, 4096, 16384, 1020], ["1020", "1024", "4096", "16384"]),
        ([2**power for power in range(8, 20)], ["256", "1024", "4096", "16384", "65536", "262144"]),
        ([1000 + 17 * at for at in range(17)], ["1000", "1051", "1102", "1153", "1204", "1255"]),
        (["Shape<1024>", "Shape<2>"], None),
    ],
)
def test_labels_of_numbers_are_the_values(
    written: Callable[[TuneResult], Path], page_of: PageOf, values: list[Any], labels: list[str] | None
) -> None:
    opened = page_of(written(one_name(values)))
    axis = "document.getElementById('effect-plot-0').layout.xaxis"
    found = opened.run(f"{axis}.ticktext")
    if labels is not None:
        assert found == labels and opened.run(f"{axis}.tickvals") == [float(text) for text in labels]
    assert column(opened, "trials", 6) == ["2"] * len(values)  # samples
    opened.page.click("#trials tbody tr:first-child .opener")
    assert "-, 2 samples" in opened.text("#trials tr.detail")
    quiet(opened)


def test_sorting_filtering_and_details(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    result = tuning()
    opened = page_of(written(result))
    opened.page.click("#trials th >> text=No.")
    assert column(opened, "trials", 2) == [str(number) for number in range(50)]
    opened.page.click("#trials th >> text=No.")
    assert column(opened, "trials", 2)[0] == "59"
    assert opened.run("document.querySelector('#trials th[aria-sort]').getAttribute('aria-sort')") == "descending"
    opened.page.fill("#trials input", '64 "GemmShape<64, 64"')
    expected = [str(t.number) for t in reversed(result.trials) if "<64, 64" in t.config["TileShape"]]
    assert column(opened, "trials", 2) == expected
    opened.page.fill("#trials input", "no such text")
    assert opened.text("#trials tbody") == "No row has all of these words."
    opened.page.fill("#trials input", "")
    opened.page.select_option("#trials select", "crashed")
    crashed = [str(t.number) for t in reversed(result.trials) if t.ending == "crashed"]
    assert column(opened, "trials", 2) == crashed
    opened.page.click("#trials tbody tr:first-child .opener")
    detail = opened.text("#trials tr.detail")
    assert "signal 11 in the launch" in detail and "at kernel.cpp:88" in detail and "kStages" in detail
    opened.page.click("#trials tbody tr:first-child .opener")
    assert opened.texts("#trials tr.detail") == []
    # From a cause to its configurations, and its log.
    opened.page.click("#failures tbody tr:first-child button.link")
    assert column(opened, "trials", 2) == ["45", "24", "3"]
    opened.page.click("#failures tbody tr:first-child .opener")
    assert "41 | assert" in opened.text("#failures tr.detail pre")
    quiet(opened)


def test_selectors_and_axes(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    result = tuning()
    opened = page_of(written(result))

    def shown() -> list[list[float | None]]:
        cells: list[list[float | None]] = opened.run("document.getElementById('pair-plot').data[0].z")
        return cells

    def best(across: str, up: str) -> list[list[float | None]]:
        parameters = {p["name"]: [value[0] for value in p["values"]] for p in data_of(result)["parameters"]}
        out: list[list[float | None]] = []
        for y in parameters[up]:
            cells = [
                [t.time_us for t in result.ranking if str(t.config[across]) == x and str(t.config[up]) == y]
                for x in parameters[across]
            ]
            out.append([cell[0] if cell else None for cell in cells])
        return out

    opened.page.select_option("#pair select >> nth=0", "1")
    opened.page.select_option("#pair select >> nth=1", "2")
    assert shown() == best("kTile", "kStages")
    opened.page.select_option("#pair select >> nth=0", "0")
    assert shown() == best("TileShape", "kStages")
    # The same name on both sides: they change places.
    opened.page.select_option("#pair select >> nth=0", "2")
    assert opened.run("[...document.querySelectorAll('#pair select')].map((s) => s.value)") == ["2", "0"]
    assert shown() == best("kStages", "TileShape")

    layout = "document.getElementById('progress-plot').layout"
    assert opened.run(f"{layout}.xaxis.title.text") == "seconds since the search began"
    opened.page.click("#progress [data-value=count]")
    assert opened.run(f"{layout}.xaxis.title.text") == "trials ended"
    assert opened.run("document.getElementById('progress-plot').data[0].x.slice(-1)[0]") == 60
    opened.page.click("#progress [data-value=log]")
    opened.page.click("#effect [data-value=log]")
    opened.page.click("#prediction [data-value=log]")
    for plot in ("progress-plot", "effect-plot-2", "prediction-plot"):
        assert opened.run(f"document.getElementById('{plot}').layout.yaxis.type") == "log"
    quiet(opened)


def test_nothing_of_the_user_runs(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    trials = []
    for at in range(30):
        config = {EVIL + "n": EVIL + str(at % 4), "<b onmouseover=alert(5)>": at % 3, "$x$": "$y$" * (at % 2)}
        if at % 5:
            trials.append(Trial(at, config, MEASURED, 5.0 + at, 4.9 + at, 5.1 + at, 3, predicted_us=3.0 + at))
        else:
            trials.append(Trial(at, config, "crashed", reason=EVIL, log=EVIL))
    opened = page_of(written(TuneResult(tuple(trials), EVIL, EVIL, (1, 2))))
    quiet(opened)
    for place in ("failures", "trials"):
        opened.page.click(f"#{place} th >> nth=2")
        for at in range(3):
            opened.page.click(f"#{place} tbody .opener >> nth={0 if place == 'failures' else at}")
    # Hover boxes are drawn from the same texts.
    for plot in ("progress-plot", "effect-plot-0", "pair-plot"):
        opened.page.locator(f"#{plot}").scroll_into_view_if_needed()
        opened.run(f"Plotly.Fx.hover('{plot}', [{{curveNumber: 1, pointNumber: 1}}])" if plot != "pair-plot" else "0")
    opened.page.hover("#pair-plot", position={"x": 300, "y": 80})
    assert opened.run("window.ran") is None
    assert (
        opened.run("document.querySelectorAll('main img, main a[href^=\"javascript\"], main script, svg a').length")
        == 0
    )
    assert opened.text("h1").startswith('</script><img src=x onerror="alert(1)"><b>${alert(2)}</b>')
    quiet(opened)


def test_the_policy_stops_what_would_run(tmp_path: Path, page_of: PageOf) -> None:
    """Were a text to become HTML after all, it still could not run or load anything."""
    body = Html('<img src="http://127.0.0.1:9/x" onerror="window.ran = 1"><script>window.ran = 2</script>')
    path = tmp_path / "bad.html"
    path.write_text(page("x", body, {}), encoding="utf-8")
    opened = page_of(path)
    opened.run("fetch('http://127.0.0.1:9/x').catch(() => 0)")
    assert opened.run("window.ran") is None
    assert len([text for text in opened.errors if "Content Security Policy" in text]) >= 3


@pytest.mark.parametrize(
    "result",
    [
        one_name([1]),
        one_name(["x" * 5000]),
        TuneResult((), "host", "k", complete=False),
        TuneResult((Trial(0, {}, NOT_TRIED),), "host", "k", complete=False),
        TuneResult(tuple(Trial(at, {"a": at, "b": "x"}, "crashed", reason="r") for at in range(5)), "host", "k"),
        TuneResult((Trial(0, {"a": 1, "b": 2}, MEASURED, 0.0, predicted_us=0.0),), "host", "k", (0,)),
        one_name(list(range(1000))),
    ],
    ids=["one", "long", "empty", "not tried", "all failed", "zero", "ranges"],
)
def test_edges_are_drawn(result: TuneResult, written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    opened = page_of(written(result))
    quiet(opened)
    rows = [row for row in column(opened, "trials", 2) if row != ""]
    assert len(rows) == min(50, len(result))


def test_a_large_page_is_drawn(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    opened = page_of(written(big(20_000)))
    quiet(opened)
    assert "are not in the table" in opened.text("#left-out")
    said = opened.run("document.getElementById('pair-plot').data[0].customdata.flat()")
    assert len(said) > 30 and all(text.startswith("<b>No.") for text in said if text)
    assert (
        opened.run(
            "Math.max(...[...document.querySelectorAll('.plot')].map((p) => p.querySelectorAll('.point').length))"
        )
        < 7000
    )


def test_it_prints(written: Callable[[TuneResult], Path], page_of: PageOf) -> None:
    opened = page_of(written(tuning()))
    printed = opened.page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    quiet(opened)
    opened.run("window.dispatchEvent(new Event('beforeprint'))")
    assert len(column(opened, "trials", 2)) == 60
    opened.run("window.dispatchEvent(new Event('afterprint'))")
    assert len(column(opened, "trials", 2)) == 50
