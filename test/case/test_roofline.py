# SPDX-License-Identifier: Apache-2.0
"""What each core achieved against the chip's best rates."""

from __future__ import annotations

import pytest
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Core, Tensor, mmad, vabs, vadd

PEAKS = {"FP16": 4096, "BF16": 4096, "INT8": 8192, "FP32": 1024}


def product(m: int, k: int, n: int, dtype: str = "FP16", times: int = 1) -> None:
    x, y = Tensor("L0A", dtype, [m, k], None, True), Tensor("L0B", dtype, [k, n], None, True)
    for _ in range(times):
        out = Tensor("L0C", "INT32" if dtype == "INT8" else "FP32", [m, n])
        mmad(x, y, out, True)()


@pytest.mark.parametrize("dtype", PEAKS)
def test_of_a_large_product_is_its_peak(dtype: str) -> None:
    with Chip("Ascend910B1") as chip, Core("aic0"):
        product(256, 256, 256, dtype)
    [core] = chip.result.roofline
    assert core.core == "aic0" and core.operations == 256**3
    assert core.operations_per_cycle == 256**3 / chip.result.total_cycles
    assert core.peak_operations_per_cycle == PEAKS[dtype]
    assert core.bound == "compute" and core.utilisation == pytest.approx(1)
    assert core.paths == () and core.intensity is None


def test_padding_is_lost() -> None:
    with Chip("Ascend910B1") as chip:
        product(1, 256, 256)
    [core] = chip.result.roofline
    assert core.operations == 256 * 256
    assert core.utilisation is not None and 0.03 < core.utilisation <= 1 / 16


def test_dtypes_are_weighed_by_the_time_they_need() -> None:
    with Chip("Ascend910B1") as chip:
        product(256, 256, 256)
        product(256, 256, 256, "FP32")
    [core] = chip.result.roofline
    assert core.peak_operations_per_cycle == pytest.approx(2 / (1 / 4096 + 1 / 1024))
    assert core.utilisation == pytest.approx(1)


def test_paths_and_bound() -> None:
    with Chip("Ascend910B1") as chip, Core("aiv0"):
        x, y = Tensor("UB"), Tensor("UB")
        x.load(Tensor("GM", "FP16", [16, 1024], format="ND"))
        vabs(x, y)()
        Tensor("GM").load(y)
    result = chip.result
    [core] = result.roofline
    load, store = core.paths
    assert (load.name, load.bytes, store.name, store.bytes) == ("GM_TO_UB", 32768, "UB_TO_GM", 32768)
    costs = chip._costs
    best = max(costs.move_rate("GM", "UB", 2**k, False) for k in range(5, 31))
    assert load.peak_bytes_per_cycle is not None and load.peak_bytes_per_cycle >= best
    for path in core.paths:
        assert path.bytes_per_cycle == 32768 / result.total_cycles
        assert path.share == pytest.approx(path.bytes_per_cycle / path.peak_bytes_per_cycle)
    assert core.operations == 16384 and core.intensity == 16384 / 65536
    assert result.bound == "aiv0-PIPE-MTE3"  # so it is the store that bounds it
    assert core.bound == "UB_TO_GM" and core.utilisation == store.share
    assert core.peak_operations_per_cycle == pytest.approx(costs.vector_rate("VABS", "FP16 FP16", 2**30) / 2)


def test_a_path_without_a_curve_has_its_port() -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("GM").load(Tensor("L1", "FP32", [64], None, True))
    [core] = chip.result.roofline
    [path] = core.paths
    assert path.name == "L1_TO_GM" and path.peak_bytes_per_cycle == chip._costs.port_rate("L1", "GM")
    assert core.operations == 0 and core.peak_operations_per_cycle is None


def test_costs_of_your_own_have_no_peak() -> None:
    register_cost(["VABS"], lambda: 7)
    with Chip("Ascend910B1") as chip:
        x = Tensor("UB", "FP16", [128], None, True)
        vabs(x, Tensor("UB"))()
    [core] = chip.result.roofline
    assert core.operations == 1 and core.peak_operations_per_cycle is None
    assert core.bound == "compute" and core.utilisation is None
    with Chip("Ascend910B1") as chip:
        vabs(x, Tensor("UB"))()
        vadd(x, x, Tensor("UB"))()
    [core] = chip.result.roofline
    assert core.operations == 129 and core.bound == "compute"
    assert core.utilisation is not None and core.utilisation < 1


def test_register_instructions_run_at_their_best() -> None:
    with Chip("Ascend950PR_9589") as chip, mskpp.VecScope("scope"):
        x, y, z = Tensor("VEC"), Tensor("VEC", "FP16", [128]), Tensor("UB")
        x.load(Tensor("UB", "FP16", [128], None, True))
        mskpp.rv_vadd(x, x, y)()
        z.load(y)
    [core] = chip.result.roofline
    assert [path.name for path in core.paths] == ["UB_TO_VEC", "VEC_TO_UB"]
    assert core.peak_operations_per_cycle == 128  # one register a cycle


@pytest.mark.parametrize("chip_name", mskpp.chips())
def test_no_measured_rate_beats_its_peak(chip_name: str) -> None:
    with Chip(chip_name) as chip:
        chip.set_cache_hit_ratio({"cache_hit_ratio": 1.0})
        for size in (16, 512, 8192, 65536):
            x = Tensor("UB")
            x.load(Tensor("GM", "FP16", [size], format="ND"))
            vadd(x, x, Tensor("UB"))()
            Tensor("GM").load(x)
            Tensor("L0A").load(Tensor("L1", "FP16", [size], None, True), repeat=9)
        product(64, 64, 64, times=3)
    [core] = chip.result.roofline
    assert core.utilisation is not None and 0 < core.utilisation <= 1
    for path in core.paths:
        assert path.share is not None and 0 < path.share <= 1


def test_what_keeps_the_core_busy_bounds_it_however_far_from_its_best() -> None:
    """Small moves are slow: their path is nowhere near its best rate, and still all that the core waits for."""
    with Chip("Ascend910B1") as chip, Core("aic0"):
        Tensor("L1", format="NZ").load(Tensor("GM", "FP16", [16, 16], format="ND"))
        for _ in range(8):
            product(64, 64, 64)
    result = chip.result
    [core] = result.roofline
    assert result.bound == "aic0-PIPE-MTE2" and core.bound == "GM_TO_L1"
    shares = [path.share for path in core.paths if path.name == "GM_TO_L1"]
    assert shares == [core.utilisation]
    assert core.peak_operations_per_cycle is not None and core.utilisation is not None
    assert core.operations_per_cycle / core.peak_operations_per_cycle > core.utilisation


def test_of_nothing_is_empty() -> None:
    with Chip("Ascend910B1") as chip:
        mskpp.set_flag("PIPE-MTE2", "PIPE-V", 0)
        mskpp.wait_flag("PIPE-MTE2", "PIPE-V", 0)
    assert chip.result.roofline == ()


def test_free_instructions_have_no_rates() -> None:
    register_cost(["VABS"], lambda: 0)
    with Chip("Ascend910B1") as chip:
        vabs(Tensor("UB", "FP16", [128], None, True), Tensor("UB"))()
    [core] = chip.result.roofline
    assert (core.operations, core.operations_per_cycle, core.bound, core.utilisation) == (1, 0.0, "", None)
