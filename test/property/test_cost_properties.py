# SPDX-License-Identifier: Apache-2.0
"""Costs: every point of the tables, what lies between them, and what no cost may be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from utils import tables
from utils.tables import GIB, ceil, clock_mhz, curves, lerp, path_of

import mskpp

MEASURED = ("Ascend910B1", "Ascend950PR_9589")
MOVES = [(chip, key[0]) for chip in MEASURED for key in curves(chip, "mov")]
REPEATED = [(chip, key[0]) for chip in MEASURED for key in curves(chip, "mov_repeat")]
VECTORS = list(curves("Ascend910B1", "vec"))
PEAKS = {"FP16": 4096, "BF16": 4096, "INT8": 8192, "UINT8": 8192, "FP32": 1024, "INT4": 16384}
FRACTAL_K = {"FP16": 16, "BF16": 16, "INT8": 32, "UINT8": 32, "FP32": 8, "INT4": 64}
INHERITING = [chip for chip in mskpp.chips() if chip not in MEASURED]


def ports(chip: str) -> dict[tuple[str, str], float]:
    return {(row["source"], row["target"]): float(row["port_bytes_per_cycle"]) for row in tables.rows(chip, "paths")}


def open_chip(name: str, hit_ratio: float = 1.0) -> mskpp.Chip:
    chip = mskpp.Chip(name)
    chip.set_cache_hit_ratio({"cache_hit_ratio": hit_ratio})
    return chip


def costs_of(chip: mskpp.Chip) -> list[tuple[int, str]]:
    return [(event.end - event.start, event.origin) for event in chip.result.events()]


def move_costs(
    chip_name: str, path: str, sizes: list[int], repeat: int = 1, hit_ratio: float = 1.0
) -> list[tuple[int, str]]:
    source, target, transform = path_of(path)
    with open_chip(chip_name, hit_ratio) as chip:
        for size in sizes:
            tables.move(source, target, size, transform, repeat)
    return costs_of(chip)


def mmad_costs(chip_name: str, dtype: str, shapes: list[tuple[int, int, int]]) -> list[tuple[int, str]]:
    floating = dtype in ("FP16", "BF16", "FP32")
    with mskpp.Chip(chip_name) as chip:
        for m, k, n in shapes:
            x, y = mskpp.Tensor("L0A", dtype, [m, k], None, True), mskpp.Tensor("L0B", dtype, [k, n], None, True)
            mskpp.mmad(x, y, mskpp.Tensor("L0C", "FP32" if floating else "INT32", [m, n]), True)()
    return costs_of(chip)


def bytes_per_cycle(chip: str, rate: float) -> float:
    return rate * GIB / (clock_mhz(chip) * 1e6)


# --- every point reproduces itself ---


@pytest.mark.parametrize(("chip", "path"), MOVES)
def test_every_move_point(chip: str, path: str) -> None:
    points = curves(chip, "mov")[(path,)]
    expected = [(ceil(size / bytes_per_cycle(chip, rate)), "measured") for size, rate in points]
    assert move_costs(chip, path, [size for size, _ in points]) == expected


@pytest.mark.parametrize(("chip", "path"), REPEATED)
def test_every_repeat_point(chip: str, path: str) -> None:
    by_size = (path,) in curves(chip, "mov")
    for repeat, rate in curves(chip, "mov_repeat")[(path,)]:
        if repeat == 1 and by_size:
            continue  # a single repeat is priced by its size
        expected = [(ceil(512 * repeat / bytes_per_cycle(chip, rate)), "measured")]
        assert move_costs(chip, path, [512 * repeat], repeat) == expected


def test_every_cube_point() -> None:
    for chip in MEASURED:
        for size, rate in curves(chip, "mmad")["MMAD", "FP16 FP16 FP32"]:
            assert mmad_costs(chip, "FP16", [(16, size // 256, 16)]) == [(ceil(size / rate), "measured")]


@pytest.mark.parametrize(("name", "dtypes"), VECTORS)
def test_every_vector_point(name: str, dtypes: str) -> None:
    points = curves("Ascend910B1", "vec")[name, dtypes]
    best = max(rate for _, rate in points)
    bits = tables.BITS[dtypes.split()[0]]
    with mskpp.Chip("Ascend910B1") as chip:
        for elements, _ in points:
            tables.vector_call(name, dtypes.split(), elements)
    expected = [(ceil(bits * elements / 8 / rate), "measured") for elements, rate in points[:-1]]
    expected.append((ceil(bits * points[-1][0] / 8 / best), "measured"))  # at the last point: the best rate
    assert costs_of(chip) == expected


# --- between, below and beyond the points ---


@settings(max_examples=300)
@given(st.sampled_from(MOVES), st.integers(1, 2**21))
def test_moves_are_interpolated(which: tuple[str, str], size: int) -> None:
    chip, path = which
    curve = curves_of(chip, "mov")[(path,)]
    first, last = curve[0][0], curve[-1][0]
    [(cycles, origin)] = move_costs(chip, path, [size])
    assert cycles == ceil(max(size, first) / bytes_per_cycle(chip, lerp(curve, size)))
    if size not in dict(curve):
        assert origin == ("below_table" if size < first else "beyond_table" if size > last else "interpolated")


@settings(max_examples=200)
@given(st.sampled_from(MOVES), st.data())
def test_between_two_points_the_rate_lies_between_theirs(which: tuple[str, str], data: Any) -> None:
    chip, path = which
    curve = curves_of(chip, "mov")[(path,)]
    i = data.draw(st.integers(0, len(curve) - 2))
    size = data.draw(st.integers(curve[i][0], curve[i + 1][0]))
    [(cycles, _)] = move_costs(chip, path, [size])
    slow, fast = sorted(bytes_per_cycle(chip, rate) for _, rate in curve[i : i + 2])
    assert ceil(size / fast) <= cycles <= ceil(size / slow)


@settings(max_examples=200)
@given(st.sampled_from(VECTORS), st.integers(1, 20_000))
def test_vectors_are_interpolated(which: tuple[str, str], elements: int) -> None:
    curve = curves_of("Ascend910B1", "vec")[which]
    with mskpp.Chip("Ascend910B1") as chip:
        tables.vector_call(which[0], which[1].split(), elements)
    rate = lerp(curve, elements) if elements < curve[-1][0] else max(rate for _, rate in curve)
    work = max(elements, curve[0][0])
    [(cycles, _)] = costs_of(chip)
    assert cycles == ceil(tables.BITS[which[1].split()[0]] * work / 8 / rate)


@settings(max_examples=300)
@given(st.sampled_from(sorted(PEAKS)), *[st.integers(1, 300)] * 3)
def test_mmad_is_padded_and_scaled_by_its_peak(dtype: str, m: int, k: int, n: int) -> None:
    curve = curves_of("Ascend910B1", "mmad")["MMAD", "FP16 FP16 FP32"]
    fractal = FRACTAL_K[dtype]
    padded = math.ceil(m / 16) * 16 * math.ceil(n / 16) * 16 * math.ceil(k / fractal) * fractal
    g = padded * 4096 / PEAKS[dtype]
    rate = 4096 if g > curve[-1][0] else lerp(curve, g)
    assert mmad_costs("Ascend910B1", dtype, [(m, k, n)])[0][0] == ceil(max(g, curve[0][0]) / rate)


_curves: dict[tuple[str, str], Any] = {}


def curves_of(chip: str, table: str) -> dict[tuple[str, ...], tables.Curve]:
    """curves(), read once."""
    return _curves.setdefault((chip, table), curves(chip, table))


# --- more work never costs less where the measurement says so ---


@settings(max_examples=200)
@given(st.sampled_from(MOVES), st.data())
def test_more_bytes_never_cost_less_within_a_monotone_part(which: tuple[str, str], data: Any) -> None:
    chip, path = which
    curve = curves_of(chip, "mov")[(path,)]
    times = [size / rate for size, rate in curve]
    i = data.draw(st.integers(0, len(curve) - 2))
    # Between two points x/(a + b x) grows or falls as a whole, so that its ends tell which.
    if times[i] > times[i + 1]:
        return
    less, more = sorted(data.draw(st.lists(st.integers(curve[i][0], curve[i + 1][0]), min_size=2, max_size=2)))
    (first, _), (second, _) = move_costs(chip, path, [less, more])
    assert first <= second


@settings(max_examples=100)
@given(st.sampled_from(MOVES), st.lists(st.integers(0, 2**20), min_size=2, max_size=4))
def test_beyond_the_table_cost_grows_with_the_work(which: tuple[str, str], more: list[int]) -> None:
    chip, path = which
    last = curves_of(chip, "mov")[(path,)][-1][0]
    cycles = [cost for cost, _ in move_costs(chip, path, [last + size for size in sorted(more)])]
    assert cycles == sorted(cycles)


@pytest.mark.parametrize(("chip", "path"), MOVES)
def test_below_the_table_everything_costs_the_first_point(chip: str, path: str) -> None:
    first = curves(chip, "mov")[(path,)][0][0]
    costs = move_costs(chip, path, [1, 2, first // 2, first - 1, first])
    assert {cycles for cycles, _ in costs} == {costs[-1][0]}
    assert [origin for _, origin in costs] == ["below_table"] * 4 + ["measured"]


# --- nothing beats its port ---


@pytest.mark.parametrize("chip", mskpp.chips())
def test_no_move_beats_its_port(chip: str) -> None:
    base = chip if chip in MEASURED else MEASURED["3510" in tables.figures(chip)["architecture"]]
    kept_time = max(
        1.0, clock_mhz(base) / clock_mhz(chip)
    )  # to GM, an inherited time is fewer cycles of a slower clock
    sizes = [1, 31, 512, 4096, 65536, 196608, 524288, 1 << 20]
    for (source, target), width in ports(base).items():
        if (source, target) in (("UB", "VEC"), ("VEC", "UB")):
            continue  # registers move inside a vector scope only
        for (cycles, origin), size in zip(move_costs(chip, f"{source}_TO_{target}", sizes), sizes, strict=True):
            allowed = width if origin == "theoretical" else width * 1.05
            if origin == "inherited" and "GM" in (source, target):
                allowed *= kept_time
            assert size / cycles <= allowed, (source, target, size, cycles, origin)


@pytest.mark.parametrize("chip", MEASURED)
def test_a_path_without_a_table_runs_at_its_port_width(chip: str) -> None:
    tabled = {path_of(key[0])[:2] for table in ("mov", "mov_repeat") for key in curves(chip, table)}
    untabled = [path for path in ports(chip) if path not in tabled and "VEC" not in path]
    assert untabled  # else this test says nothing
    for source, target in untabled:
        costs = move_costs(chip, f"{source}_TO_{target}", [1, 1000, 4096])
        expected = [(ceil(size / ports(chip)[source, target]), "theoretical") for size in (1, 1000, 4096)]
        assert costs == expected


@pytest.mark.parametrize("path", ["GM_TO_L1", "GM_TO_L1_TRANS", "UB_TO_GM", "L0C_TO_GM"])
@pytest.mark.parametrize("hit_ratio", [0, 0.25, 0.6, 1])
def test_cache_misses_slow_down_what_goes_through_the_cache(path: str, hit_ratio: float) -> None:
    for size, rate in curves("Ascend910B1", "mov")[(path,)][::8]:
        slowed = bytes_per_cycle("Ascend910B1", rate) * (hit_ratio + (1 - hit_ratio) / 4.5)
        assert move_costs("Ascend910B1", path, [size], 1, hit_ratio)[0][0] == ceil(size / slowed)


@pytest.mark.parametrize("path", ["GM_TO_UB", "L1_TO_L0A", "L1_TO_L0B", "UB_TO_UB"])
def test_cache_misses_leave_the_other_paths_alone(path: str) -> None:
    sizes = [4096, 65536]
    assert move_costs("Ascend910B1", path, sizes, 1, 0.0) == move_costs("Ascend910B1", path, sizes, 1, 1.0)


# --- inheritance ---


@pytest.mark.parametrize("chip", INHERITING)
def test_inherited_moves_keep_cycles_on_chip_and_time_to_gm(chip: str) -> None:
    base = MEASURED["3510" in tables.figures(chip)["architecture"]]
    ratio = clock_mhz(chip) / clock_mhz(base)
    for table in ("mov", "mov_repeat"):
        for (path,), points in curves_of(base, table).items():
            source, target, _ = path_of(path)
            scale = ratio if "GM" in (source, target) else 1
            chosen = points[:: max(1, len(points) // 5)]
            unit = 512 if table == "mov_repeat" else 1
            for size, rate in chosen:
                expected = ceil(size * unit / bytes_per_cycle(base, rate) * scale)
                repeat = size if table == "mov_repeat" else 1
                if repeat == 1 and table == "mov_repeat" and (path,) in curves_of(base, "mov"):
                    continue  # a single repeat is priced by size
                assert move_costs(chip, path, [size * unit], repeat) == [(expected, "inherited")]


@pytest.mark.parametrize("chip", INHERITING)
def test_inherited_computations_keep_their_cycles(chip: str) -> None:
    base = MEASURED["3510" in tables.figures(chip)["architecture"]]
    shapes = [(16, 16, 16), (64, 48, 80), (128, 256, 256)]
    inherited = [(cycles, "inherited") for cycles, _ in mmad_costs(base, "FP16", shapes)]
    assert mmad_costs(chip, "FP16", shapes) == inherited

    def vectors(name: str) -> list[tuple[int, str]]:
        with mskpp.Chip(name) as opened:
            for elements in (1, 300, 5000):
                tables.vector_call("VADD", ["FP16"] * 3, elements)
        return costs_of(opened)

    assert vectors(chip) == [(cycles, "inherited") for cycles, _ in vectors("Ascend910B1")]


def test_950_takes_its_vector_costs_from_910b1_and_says_so() -> None:
    with mskpp.Chip("Ascend950PR_9589") as chip:
        tables.vector_call("VADD", ["FP16"] * 3, 4096)
    assert costs_of(chip)[0][1] == "inherited"
    assert chip.notes == ["Ascend950PR_9589 inherits costs from Ascend910B1: vec"] == chip.result.notes
