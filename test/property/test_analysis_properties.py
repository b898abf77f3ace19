# SPDX-License-Identifier: Apache-2.0
"""Ledger, critical path, slack and what-if of random programs, against an oracle and against programs run anew."""

from __future__ import annotations

import contextlib
import io
import itertools
import runpy
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from analysis_oracle import Analysis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Step
from programs import PRICED, Program, View, full_name, issued
from test_schedule_properties import Run, codes
from utils.registrations import forget_registrations, register_cost

import mskpp
from mskpp import _core
from mskpp.report import advice
from mskpp.report.analysis import Gain

# Often free, often equal, so that much happens in one cycle; seldom so long that it hides everything else.
costs = st.lists(st.one_of(st.sampled_from([0, 0, 1, 1, 2, 3]), st.integers(0, 40)), min_size=1, max_size=25)
# Programs as they are on this machine use every core; with few operations each, little would wait for anything.
programs = st.one_of(codes, st.lists(st.integers(0, 2**32 - 1), min_size=20, max_size=60))


class Priced:
    """Runs programs whose costs are given by a list, round and round."""

    def __init__(self) -> None:
        register_cost(PRICED, self.next)

    def next(self) -> int:
        self.position += 1
        return self.list[(self.position - 1) % len(self.list)]

    def run(self, prices: list[int], program: list[int]) -> Run:
        self.list, self.position = prices or [0], 0
        return Run("Ascend910B1", program)


@pytest.fixture(scope="module")
def priced() -> Any:
    """Set up anew for each example, since the package is cleaned after every test."""
    yield Priced
    forget_registrations()


def check_ledger(run: Run, analysis: Analysis) -> None:
    ledger = run.result.ledger
    total = run.result.total_cycles
    assert ledger.total_cycles == total == analysis.total
    for row in ledger.pipes:
        assert min(row.busy, row.data, row.flag, row.barrier, row.end) >= 0
        assert row.busy + row.data + row.flag + row.barrier + row.end == total
    pipes, stalls = analysis.ledger()
    expected = {full_name(analysis.steps[0]._replace(core=core, pipe=pipe)): row for (core, pipe), row in pipes.items()}
    assert [row.pipe for row in ledger.pipes] == sorted(expected, key=[row.pipe for row in ledger.pipes].index)
    for row in ledger.pipes:
        assert {cause: getattr(row, cause) for cause in expected[row.pipe]} == expected[row.pipe]
    event = dict(zip(run.instructions, run.events, strict=True))
    wanted: Counter[Any] = Counter()
    flags: Counter[str] = Counter()
    for (cause, by, waiting), cycles in stalls.items():
        one, other = event[by], event[waiting]
        named = [one.name, one.pipe, one.line, other.name]
        if cause == "flag":
            before, after = analysis.beside(by), analysis.beside(waiting)
            if before is not None:
                named[0], named[2] = f"SET_FLAG behind {event[before].name}", event[before].line
            if after is not None:
                named[3] = f"WAIT_FLAG before {event[after].name}"
            flags[analysis.flag(by)] += cycles
        wanted[(other.pipe, cause, *named, other.line)] += cycles
    got: Counter[Any] = Counter()
    for stall in ledger.stalls:
        assert stall.cycles > 0 and stall.count > 0
        assert bool(stall.tensor) == (stall.cause in ("data", "flag"))
        if stall.cause == "flag":
            flags[stall.tensor] -= stall.cycles
        if stall.cause != "end":
            got[stall.pipe, stall.cause, stall.by, stall.by_pipe, stall.by_line, stall.waiting, stall.line] += (
                stall.cycles
            )
    assert got == wanted
    assert not any(flags.values())
    assert sum(stall.count for stall in ledger.stalls if stall.cause != "end") == len(stalls)
    assert list(ledger.stalls) == sorted(ledger.stalls, key=lambda stall: -stall.cycles)
    idle = Counter({(row.pipe, cause): getattr(row, cause) for row in ledger.pipes for cause in CAUSES})
    for stall in ledger.stalls:
        idle[stall.pipe, stall.cause] -= stall.cycles
    assert not any(idle.values())


CAUSES = ("data", "flag", "barrier", "end")
OTHER_MOVES = ("2x larger", "no conversion")


def check_critical_path(run: Run, analysis: Analysis) -> None:
    path = run.result.critical_path
    steps = path.steps
    assert path.step_count == len(steps)
    assert path.total_cycles == run.result.total_cycles == sum(part.cycles for part in path.parts)
    assert sum(part.count for part in path.parts) == len(steps)
    if steps:
        assert steps[0].start == 0 and steps[0].why == "start" and steps[-1].end == run.result.total_cycles
    for before, after in itertools.pairwise(steps):
        assert before.end == after.start and after.why != "start"
    assert [(run.instructions[step.index], step.why) for step in steps] == analysis.critical_path()
    for step in steps:
        event = run.events[step.index]
        assert (step.name, step.pipe, step.start, step.end, step.line) == event[:4] + (event.line,)
    parts: Counter[Any] = Counter()
    for step in steps:
        parts[step.name, step.pipe, step.line] += step.end - step.start
    assert {(part.name, part.pipe, part.line): part.cycles for part in path.parts} == parts
    slack = run.result.slack()
    assert all(slack[step.index] == 0 for step in steps)


def check_slack(run: Run, analysis: Analysis) -> None:
    slack = run.result.slack()
    assert len(slack) == len(run.instructions)
    for i, spare in zip(run.instructions, slack, strict=True):
        later = list(analysis.cycles)
        later[i] += spare
        assert analysis.total_with(later) == analysis.total
        later[i] += 1
        assert analysis.total_with(later) == analysis.total + 1


def changed_costs(run: Run, analysis: Analysis, gain: Any) -> list[int]:
    cycles = list(analysis.cycles)
    for i, event in zip(run.instructions, run.events, strict=True):
        meant = {
            "pipe": event.pipe.rpartition("-PIPE-")[2] == gain.subject.removeprefix("PIPE-")
            or event.pipe.removeprefix("PIPE-").rpartition("-")[2] == gain.subject.removeprefix("PIPE-"),
            "path": event.name == gain.subject and event.kind == "move",
            "instruction": event.name == gain.subject and event.kind == "computation",
        }[gain.kind]
        if meant and event.kind in ("move", "computation"):
            cycles[i] = {"2x": (cycles[i] + 1) // 2, "free": 0}[gain.change]
    return cycles


def check_what_if(run: Run, analysis: Analysis) -> None:
    gains = run.result.what_if
    assert [gain.gain_cycles for gain in gains] == sorted((gain.gain_cycles for gain in gains), reverse=True)
    by_change = {(gain.kind, gain.subject, gain.change): gain.gain_cycles for gain in gains}
    assert len(by_change) == len(gains)
    for gain in gains:
        assert gain.gain_cycles == run.result.total_cycles - gain.total_cycles
        assert gain.gain_cycles >= 0 or gain.change in ("ratio 0", *OTHER_MOVES)
        if gain.kind in ("pipe", "path", "instruction") and gain.change not in OTHER_MOVES:
            assert analysis.total_with(changed_costs(run, analysis, gain)) == gain.total_cycles
        if gain.change == "2x":
            assert by_change[gain.kind, gain.subject, "free"] >= gain.gain_cycles
    used = {(event.kind, event.name) for event in run.events if event.end > event.start}
    names = {("path", name) for kind, name in used if kind == "move"}
    names |= {("instruction", name) for kind, name in used if kind == "computation"}
    assert {(gain.kind, gain.subject) for gain in gains if gain.kind in ("path", "instruction")} == names
    found = {(gain.subject, gain.change): gain.total_cycles for gain in gains if gain.kind == "buffer"}
    ways = {(key[0][1], key[1][1]) for step in analysis.steps if (key := step.sets) is not None}
    for source, target in ways:
        subject = f"{source} -> {target}"
        plain = analysis.total_with_one_more_buffer(source, target, False)
        assert found.get((subject, "+1")) == plain
        if (subject, "+1 per id") in found:
            assert found[subject, "+1 per id"] == analysis.total_with_one_more_buffer(source, target, True)
            assert found[subject, "+1 per id"] <= found[subject, "+1"]


def check(run: Run) -> None:
    if run.result is None:
        return
    barriers = {i for i, event in zip(run.instructions, run.events, strict=True) if event.kind == "barrier"}
    analysis = Analysis(run.steps, frozenset(barriers))
    check_ledger(run, analysis)
    check_critical_path(run, analysis)
    check_slack(run, analysis)
    check_what_if(run, analysis)


@settings(max_examples=400)
@given(costs, programs)
def test_any_costs_agree_with_the_oracle(priced: Any, given_costs: list[int], program: list[int]) -> None:
    check(priced().run(given_costs, program))


@settings(max_examples=150)
@given(codes)
def test_910_agrees_with_the_oracle(program: list[int]) -> None:
    check(Run("Ascend910B1", program))


@settings(max_examples=250)
@given(codes)
def test_950_with_vector_scopes_agrees_with_the_oracle(program: list[int]) -> None:
    check(Run("Ascend950PR_9589", program))


# --- buffers: random programs seldom hand any back ---


class Pipeline(Program):
    """Tiles through MTE2, V and MTE3. Buffers go back by flags: V gives what MTE2 fills, MTE3 what V fills. An id
    stands for one buffer (`ids`), or all share one id and its sets at the start say how many there are."""

    def write_tiles(self, tiles: int, buffers: tuple[int, int], ids: bool, cores: int) -> None:
        for core in ("aiv0", "aiv1")[:cores]:
            with self.on(core):
                self.tiles(core, tiles, buffers, ids)

    def tiles(self, core: str, tiles: int, buffers: tuple[int, int], ids: bool) -> None:
        ways = ((core, "PIPE-V"), (core, "PIPE-MTE2")), ((core, "PIPE-MTE3"), (core, "PIPE-V"))
        for way, count in zip(ways, buffers, strict=True):
            for number in range(count):
                self.issue_flag("set_flag", *way, number if ids else 0, False)
        for tile in range(tiles):
            first, second = (tile % count if ids else 0 for count in buffers)
            self.issue_flag("wait_flag", *ways[0], first, False)
            views = []
            for memory in ("UB", "UB", "GM"):
                self.made += 1
                name = f"{memory}-{self.made}"
                self.tensors[name] = mskpp.Tensor(memory, "FP16", [4, 6])
                views.append(View(name, self.tensors[name]))
            into, out, back = views
            self.record_move(into, View("GM0", self.tensors["GM0"]), "PIPE-MTE2", -1, -1)
            self.issue_flag("wait_flag", *ways[1], second, False)
            mskpp.vabs(into.tensor, out.tensor)()
            self.steps.append(Step(core, "PIPE-V", reads=into.cells, writes=out.cells))
            self.issue_flag("set_flag", *ways[0], first, False)
            self.record_move(back, out, "PIPE-MTE3", -1, -1)
            self.issue_flag("set_flag", *ways[1], second, False)
        for way, count in zip(ways, buffers, strict=True):
            for number in range(count):
                self.issue_flag("wait_flag", *way, (tiles + number) % count if ids else 0, False)


class PipelineRun(Run):
    def __init__(self, prices: list[int], *shape: Any) -> None:
        position = itertools.count()
        register_cost(PRICED, lambda: prices[next(position) % len(prices)])
        with mskpp.Chip("Ascend910B1") as chip:
            written = Pipeline("Ascend910B1")
            written.write_tiles(*shape)
        self.result, self.steps = chip.result, written.steps
        self.instructions = issued(self.steps)
        self.events = list(self.result.events())
        for i, event in zip(self.instructions, self.events, strict=True):
            self.steps[i] = self.steps[i]._replace(cycles=event.end - event.start)


@pytest.fixture
def pipelines() -> Any:
    yield None
    forget_registrations()


buffer_counts = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 60), min_size=1, max_size=7), st.integers(1, 7), buffer_counts, st.booleans())
def test_one_more_buffer_agrees_with_the_oracle(
    pipelines: None, prices: list[int], tiles: int, buffers: tuple[int, int], ids: bool
) -> None:
    run = PipelineRun(prices, tiles, buffers, ids, 2)
    rows = {(gain.subject, gain.change) for gain in run.result.what_if if gain.kind == "buffer"}
    for subject, count in zip(("PIPE-V -> PIPE-MTE2", "PIPE-MTE3 -> PIPE-V"), buffers, strict=True):
        assert (subject, "+1") in rows
        assert ((subject, "+1 per id") in rows) == (ids and count > 1)
    check(run)


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_one_more_buffer_gains_what_the_script_gains_with_it(pipelines: None, buffers: int, ids: bool) -> None:
    """Each flag more takes its cycle, so the two may differ by a few."""
    prices = [400, 100, 50, 400, 100, 50, 5, 700, 50]
    before = PipelineRun(prices, 30, (buffers, 8), ids, 1).result
    after = PipelineRun(prices, 30, (buffers + 1, 8), ids, 1).result
    told = next(gain for gain in before.what_if if (gain.subject, gain.change) == ("PIPE-V -> PIPE-MTE2", "+1"))
    assert abs(told.total_cycles - after.total_cycles) <= 4
    assert buffers > 1 or told.gain_cycles > 1000


# --- the cache: the cost model recomputes, so programs with the ratio set from the start must agree ---

moves = st.tuples(
    st.sampled_from(["in", "in_transformed", "out", "out_transformed", "ub_in", "ub_out"]),
    st.sampled_from([1, 16, 64, 500]),
    st.sampled_from([1, 1, 2, 7]),
    st.sampled_from([None, None, 0, 0.3, 1]),
)


@pytest.fixture(scope="module")
def chip_with_repeats(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A chip on which the repeat count changes what goes through the cache."""
    folder = tmp_path_factory.mktemp("chips") / "Repeats"
    shutil.copytree(Path(mskpp.__file__).parent / "data" / "chips" / "Ascend910B1", folder)
    with (folder / "mov_repeat.csv").open("a") as file:
        for path in ("GM_TO_L1", "L0C_TO_GM", "UB_TO_GM"):
            file.write("".join(f"{path},{repeat},{rate}\n" for repeat, rate in ((1, 4.0), (4, 9.5), (16, 30.0))))
    return str(folder)


def cached_program(chip: str, work: list[Any], ratio: float | None) -> Any:
    with mskpp.Chip(chip) as model:
        if ratio is not None:
            model.set_cache_hit_ratio({"cache_hit_ratio": ratio})
        for kind, rows, repeat, new_ratio in work:
            if new_ratio is not None and ratio is None:
                model.set_cache_hit_ratio({"cache_hit_ratio": new_ratio})
            source, target, dtype, formats = {
                "in": ("GM", "L1", "FP16", ("ND", "ND")),
                "in_transformed": ("GM", "L1", "FP16", ("ND", "NZ")),
                "out": ("L0C", "GM", "FP32", ("NZ", "NZ")),
                "out_transformed": ("L0C", "GM", "FP32", ("NZ", "ND")),
                "ub_in": ("GM", "UB", "FP16", ("ND", "ND")),
                "ub_out": ("UB", "GM", "FP16", ("ND", "ND")),
            }[kind]
            given_tensor = mskpp.Tensor(source, dtype, [rows, 16], formats[0], is_inited=True)
            mskpp.Tensor(target, dtype, [rows, 16], formats[1]).load(given_tensor, repeat=repeat)
    return model.result


@settings(max_examples=150)
@given(st.lists(moves, min_size=1, max_size=12))
def test_cache_ratios_agree_with_programs_recorded_at_them(chip_with_repeats: str, work: list[Any]) -> None:
    for chip in ("Ascend910B1", chip_with_repeats):
        result = cached_program(chip, work, None)
        gains = {gain.change: gain.total_cycles for gain in result.what_if if gain.kind == "cache"}
        for ratio in (0, 1):
            other = cached_program(chip, work, ratio)
            same = [event.end for event in other.events()] == [event.end for event in result.events()]
            assert (f"ratio {ratio}" in gains) == (not same)
            assert gains.get(f"ratio {ratio}", result.total_cycles) == other.total_cycles


def test_costs_of_the_users_own_do_not_depend_on_the_cache(priced: Any) -> None:
    register_cost(["MOV-GM_TO_L1"], lambda: 500)
    result = cached_program("Ascend910B1", [("in", 64, 3, 0.5), ("in_transformed", 64, 1, 0.5)], None)
    assert not [gain for gain in result.what_if if gain.kind == "cache"]


# --- other moves: the costs come from programs of such moves, and are registered for the program itself ---


def told(result: Any, subject: str) -> dict[str, int]:
    return {gain.change: gain.total_cycles for gain in result.what_if if gain.subject == subject}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(moves, min_size=1, max_size=10), st.sampled_from([None, 0.25]))
def test_other_moves_agree_with_programs_recorded_with_such_costs(
    pipelines: None, chip_with_repeats: str, work: list[Any], ratio: float | None
) -> None:
    plain = [(kind.removesuffix("_transformed"), *rest) for kind, *rest in work]
    larger = [(kind, 2 * rows, *rest) for kind, rows, *rest in work]
    for chip in ("Ascend910B1", chip_with_repeats):
        result = cached_program(chip, work, ratio)
        events = list(result.events())
        for change, others in (("2x larger", larger), ("no conversion", plain)):
            costs = [event.end - event.start for event in cached_program(chip, others, ratio).events()]
            if change == "2x larger":
                costs = [(cycles + 1) // 2 for cycles in costs]
            for path in {event.name for event in events}:
                mine = [cycles for cycles, event in zip(costs, events, strict=True) if event.name == path]
                same = mine == [event.end - event.start for event in events if event.name == path]
                prices = iter(mine)
                register_cost([path], lambda prices=prices: next(prices))
                other = cached_program(chip, work, ratio)
                forget_registrations()
                assert (change in told(result, path)) == (not same)
                assert told(result, path).get(change, result.total_cycles) == other.total_cycles


def test_costs_of_the_users_own_do_not_depend_on_size_or_format(pipelines: None) -> None:
    register_cost(["MOV-GM_TO_L1"], lambda: 500)
    result = cached_program("Ascend910B1", [("in", 64, 3, 0.5), ("in_transformed", 64, 1, 0.5)], None)
    assert set(told(result, "MOV-GM_TO_L1")) == {"2x", "free"}


# --- the documented matmul ---


MATMUL = Path(__file__).resolve().parents[2] / "example" / "01_matmul.py"


def documented_matmul() -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(MATMUL))["chip"].result


def changed_matmul(tmp_path: Path, *changes: tuple[str, str]) -> Any:
    """The script with other text in it."""
    text = MATMUL.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "changed.py").write_text(text, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(tmp_path / "changed.py"))["chip"].result


def test_the_first_advice_on_the_documented_matmul_is_what_larger_tiles_gain(tmp_path: Path) -> None:
    first = advice.first_changes(documented_matmul().what_if)[0]
    assert advice.sentence(first) == "GM->L1 moves twice as large, half as many"
    # K of the script is no multiple of twice its TILE_K, so here it is twice as long.
    longer = ("M, K, N = 160, 240, 80", "M, K, N = 160, 480, 80")
    before = changed_matmul(tmp_path, longer)
    after = changed_matmul(tmp_path, longer, ("TILE_K, TILE_N = 32, 48, 16", "TILE_K, TILE_N = 32, 96, 16"))
    first = advice.first_changes(before.what_if)[0]
    assert advice.sentence(first) == "GM->L1 moves twice as large, half as many"
    assert first.gain_cycles > 0.4 * before.total_cycles
    assert abs(first.total_cycles - after.total_cycles) < 0.01 * after.total_cycles


def test_the_advice_to_keep_gm_in_nz_is_what_the_script_gains(tmp_path: Path) -> None:
    names = "l1_x, l1_y = Tensor("
    converting = (f'{names}"L1"), Tensor("L1")', f'{names}"L1", format="NZ"), Tensor("L1", format="NZ")')
    before = changed_matmul(tmp_path, converting)
    kept = [
        (
            f'{name} = Tensor("GM", "FP16", [{tile}], format="ND")',
            f'{name} = Tensor("GM", "FP16", [{tile}], format="NZ")',
        )
        for name, tile in (("gm_x", "TILE_M, TILE_K"), ("gm_y", "TILE_K, TILE_N"))
    ]
    after = changed_matmul(tmp_path, converting, *kept)
    first = advice.first_changes(before.what_if, 2)
    assert {advice.sentence(gain) for gain in first} == {
        "GM->L1 moves twice as large, half as many",
        "GM->L1 moves without change of format (keep GM in NZ)",
    }
    gain = next(gain for gain in first if gain.change == "no conversion")
    assert gain.gain_cycles > 0.1 * before.total_cycles
    assert gain.total_cycles == after.total_cycles


def test_advice_puts_first_what_can_be_written_differently() -> None:
    def gain(kind: str, subject: str, change: str, gained: int) -> Gain:
        return Gain(kind, subject, change, 1000 - gained, gained)

    faster, hits = gain("path", "MOV-GM_TO_L1", "2x", 500), gain("cache", "cache_hit_ratio", "ratio 1", 700)
    larger, plain = gain("path", "MOV-GM_TO_L1", "2x larger", 10), gain("path", "MOV-GM_TO_L1", "no conversion", 20)
    one, per_id = (
        gain("buffer", "PIPE-M -> PIPE-MTE1", "+1", 30),
        gain("buffer", "PIPE-M -> PIPE-MTE1", "+1 per id", 30),
    )
    small, free = gain("instruction", "MMAD", "2x", 9), gain("pipe", "PIPE-M", "free", 900)
    pipe = gain("pipe", "PIPE-MTE2", "2x", 500)
    found = advice.first_changes([free, hits, pipe, faster, one, per_id, plain, larger, small], 9)
    assert found == [one, plain, larger, faster, hits]
    assert advice.sentence(per_id) == "one more buffer per flag id from PIPE-MTE1 to PIPE-M"
    inside = gain("path", "MOV-L1_TO_L0A", "no conversion", 20)
    assert advice.sentence(inside) == "L1->L0A moves without change of format"
    assert advice.first_changes([small, free]) == advice.first_changes([]) == []


def test_the_first_advice_on_the_documented_matmul_is_what_the_script_gains() -> None:
    result = documented_matmul()
    first = result.what_if[0]
    assert (first.kind, first.subject, first.change) == ("pipe", "PIPE-MTE2", "free")
    gains = {(gain.subject, gain.change): gain for gain in result.what_if}
    assert gains["MOV-GM_TO_L1", "free"].gain_cycles == first.gain_cycles > 0.7 * result.total_cycles
    recorded = [event.end - event.start for event in result.events() if event.name == "MOV-GM_TO_L1"]
    for change, price in (("2x", lambda cycles: (cycles + 1) // 2), ("free", lambda cycles: 0)):
        prices = iter([price(cycles) for cycles in recorded])
        register_cost(["MOV-GM_TO_L1"], lambda prices=prices: next(prices))
        assert documented_matmul().total_cycles == gains["MOV-GM_TO_L1", change].total_cycles
        forget_registrations()
    parts = result.critical_path.parts
    assert parts[0].name == parts[1].name == "MOV-GM_TO_L1"
    assert parts[0].cycles + parts[1].cycles > 0.99 * result.total_cycles
    assert {part.line for part in parts[:2]} == {"01_matmul.py:20", "01_matmul.py:21"}


def test_the_ratio_that_the_table_names_for_the_documented_matmul_is_what_the_script_gains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratios = told(documented_matmul(), "cache_hit_ratio")
    assert set(ratios) == {"ratio 1"}  # the script runs at 0
    begin = mskpp.Chip.__enter__

    def enter(self: Any) -> Any:
        self.set_cache_hit_ratio({"cache_hit_ratio": 1})
        return begin(self)

    monkeypatch.setattr(mskpp.Chip, "__enter__", enter)
    assert documented_matmul().total_cycles == ratios["ratio 1"]


# --- the edges ---


def test_an_empty_program_has_empty_answers() -> None:
    with mskpp.Chip("Ascend910B1") as chip:
        pass
    result = chip.result
    assert result.ledger.pipes == result.ledger.stalls == ()
    assert (result.critical_path.total_cycles, result.critical_path.steps, result.critical_path.parts) == (0, (), ())
    assert len(result.slack()) == 0 and result.what_if == ()


def test_a_program_of_flags_alone_has_nothing_to_make_faster() -> None:
    with mskpp.Chip("Ascend910B1") as chip:
        mskpp.set_flag("PIPE-M", "PIPE-V", 0)
        mskpp.wait_flag("PIPE-M", "PIPE-V", 0)
    result = chip.result
    assert result.total_cycles == 2
    assert [(row.pipe, row.busy, row.flag, row.end) for row in result.ledger.pipes] == [
        ("PIPE-M", 1, 0, 1),
        ("PIPE-V", 1, 1, 0),
    ]
    assert [(step.name, step.why) for step in result.critical_path.steps] == [
        ("SET_FLAG", "start"),
        ("WAIT_FLAG", "flag"),
    ]
    assert list(result.slack()) == [0, 0] and result.what_if == ()


def test_answers_are_worked_out_once_and_only_when_asked_for() -> None:
    result = documented_matmul()
    assert not {"ledger", "critical_path", "what_if", "_slack"} & vars(result).keys()
    assert result.ledger is result.ledger and result.critical_path is result.critical_path
    assert result.what_if is result.what_if and result.slack() is result.slack()


def test_slack_is_a_read_only_view_of_integers() -> None:
    slack = documented_matmul().slack()
    assert (slack.format, slack.itemsize, slack.ndim, slack.readonly) == ("q", 8, 1, True)
    with pytest.raises(TypeError):
        slack[0] = 1


def test_of_a_long_critical_path_the_first_and_last_steps_are_kept() -> None:
    register_cost(["VABS"], lambda: 1)
    with mskpp.Chip("Ascend910B1") as chip:
        x = mskpp.Tensor("UB", "FP16", [16], is_inited=True)
        for _ in range(10_003):
            mskpp.vabs(x, mskpp.Tensor("UB"))()
    path = chip.result.critical_path
    assert path.step_count == 10_003 and len(path.steps) == 10_000
    assert [step.index for step in path.steps] == [*range(5_000), *range(5_003, 10_003)]
    assert [(part.cycles, part.count) for part in path.parts] == [(10_003, 10_003)]


def test_an_interrupt_ends_the_scenarios() -> None:
    result = documented_matmul()

    def interrupt(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100_000):
                _core.what_if(result._timeline)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert result.what_if[0].subject == "PIPE-MTE2"
