# SPDX-License-Identifier: Apache-2.0
"""Blocks: nested, in threads, in generators, entered twice, left half-way; and instructions outside any block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import mskpp
from mskpp import Chip, Core, PrefModel, RegisterOf, RegisterPrefOf, Tensor, VecScope, pipe_barrier, set_flag, wait_flag
from mskpp.core import chip as chip_module
from mskpp.core import context
from mskpp.errors import ArgumentError, InputError, StateError


def move() -> None:
    Tensor("UB").load(Tensor("GM", "FP16", [128]))


def counts(*chips: Chip) -> list[int]:
    return [len(chip.result) for chip in chips]


# --- life of a Chip ---


def test_a_chip_models_one_block() -> None:
    chip = Chip("Ascend910B1")
    with chip:
        move()
        with (
            pytest.raises(
                StateError, match=r"this Ascend910B1 has already been entered; make a new Chip for a new block \(test_c"
            ),
            chip,
        ):
            pass
    with pytest.raises(StateError, match="has already been entered"), chip:
        pass
    assert counts(chip) == [1]


@pytest.mark.parametrize("enable", ["enable_trace", "enable_metrics"])
def test_enabling_twice_and_before_the_block(enable: str) -> None:
    chip = Chip("Ascend910B1")
    getattr(chip, enable)()
    with chip:
        getattr(chip, enable)()
        move()
    assert any(Path(chip.output_dir).iterdir())


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    "late",
    [
        Chip.enable_trace,
        Chip.enable_metrics,
        lambda chip: chip.set_cache_hit_ratio({"cache_hit_ratio": 1}),
        lambda chip: chip.set_prof_summary_path("x.csv"),
    ],
    ids=range(4),
)
def test_after_the_block_it_is_too_late(late: Any, failed: bool, tmp_path: Path) -> None:
    chip = Chip("Ascend910B1")
    try:
        with chip:
            assert not failed or 1 // 0
    except ZeroDivisionError:
        pass
    with pytest.raises(StateError, match="after the block has ended has no effect; call it before or inside") as caught:
        late(chip)
    assert isinstance(caught.value, RuntimeError)
    assert list(tmp_path.iterdir()) == []


def test_a_repr_is_one_before_and_after() -> None:
    chip = Chip("910b1", debug_mode=False)
    assert repr(chip) == "Chip('Ascend910B1')"
    with chip:
        assert repr(chip) == "Chip('Ascend910B1')"


def test_the_current_chip() -> None:
    assert chip_module.current_chip() is None
    with Chip("Ascend910B1") as outer, Core("aic0"), Chip("Ascend910B2") as inner, Core("aic0"):
        assert chip_module.current_chip() is inner is not outer
    assert chip_module.current_chip() is None


# --- nesting ---


def test_nested_chips_share_nothing() -> None:
    with Chip("Ascend910B1") as outer:
        move()
        with Core("aic0"):
            with Chip("Ascend910B2") as inner:
                move()
                with Core("aiv0"):
                    move()
            move()
    assert counts(outer, inner) == [2, 2]
    assert list(outer.result.pipes) == ["PIPE-MTE2", "aic0-PIPE-MTE2"]
    assert list(inner.result.pipes) == ["PIPE-MTE2", "aiv0-PIPE-MTE2"]  # an inner block starts outside any core


def test_an_inner_block_may_fail_and_the_outer_goes_on() -> None:
    with Chip("Ascend910B1") as outer:
        move()
        with pytest.raises(mskpp.DeadlockError), Chip("Ascend910B1"):
            Tensor("GM").load(Tensor("UB", "FP16", [128]))
        with pytest.raises(ZeroDivisionError), Chip("Ascend910B1"):
            move()
            raise ZeroDivisionError
        move()
    assert counts(outer) == [2]


def test_one_tensor_in_two_blocks() -> None:
    x = Tensor("UB")
    with Chip("Ascend910B1") as outer:
        x.load(Tensor("GM", "FP16", [128]))
        with Chip("Ascend910B1") as inner:
            assert not x.is_valid()
            x.load(Tensor("GM", "FP16", [128]))
            mskpp.vabs(x, Tensor("UB"))()
        assert x.is_valid()
        mskpp.vabs(x, Tensor("UB"))()
    for chip in (outer, inner):
        load, compute = chip.result.events()
        assert compute.start == load.end


def test_exceptions_are_never_swallowed() -> None:
    class Stop(BaseException):
        pass

    with pytest.raises(Stop), Chip("Ascend910B1"), Core("aic0"), VecScope("vf"):
        raise Stop
    assert context.current() is None


def test_settings_do_not_leak_into_the_next_block() -> None:
    def total(ratio: float | None) -> int:
        with Chip("Ascend910B1") as chip:
            if ratio is not None:
                chip.set_cache_hit_ratio({"cache_hit_ratio": ratio})
            Tensor("L1").load(Tensor("GM", "FP16", [4096]))
        return int(chip.result.total_cycles)

    missing = total(None)
    assert total(1) < missing == total(0) == total(None)


# --- cache hit ratio ---


def test_the_cache_hit_ratio_counts_from_now_on() -> None:
    chip = Chip("Ascend910B1")
    chip.set_cache_hit_ratio({"cache_hit_ratio": 1})
    with chip:
        Tensor("L1").load(Tensor("GM", "FP16", [4096]))
        chip.set_cache_hit_ratio({"cache_hit_ratio": numpy.float32(0)})
        Tensor("L1").load(Tensor("GM", "FP16", [4096]))
    fast, slow = (event.end - event.start for event in chip.result.events())
    assert slow == pytest.approx(4.5 * fast, rel=0.01)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"cache_hit_ratio": 1.5}, InputError, "cache_hit_ratio is 1.5; allowed are 0 to 1"),
        ({"cache_hit_ratio": -0.1}, InputError, "cache_hit_ratio is -0.1"),
        ({"cache_hit_ratio": float("nan")}, InputError, "cache_hit_ratio is nan"),
        ({"cache_hit_ratio": float("inf")}, InputError, "cache_hit_ratio is inf"),
        ({"cache_hit_ratio": True}, ArgumentError, "cache_hit_ratio must be a number, got bool"),
        ({"cache_hit_ratio": "0.5"}, ArgumentError, "cache_hit_ratio must be a number, got str"),
        ({"cache_hit_ratio": None}, ArgumentError, "cache_hit_ratio must be a number, got NoneType"),
        ({"cache_hit_ratio": 10**400}, InputError, "cache_hit_ratio is "),
        ({"cache_hit": 0.5}, InputError, 'set_cache_hit_ratio takes {"cache_hit_ratio": a number from 0 to 1}'),
        ({"cache_hit_ratio": 0.5, "more": 1}, InputError, "set_cache_hit_ratio takes"),
        ({}, InputError, "set_cache_hit_ratio takes"),
        (0.5, ArgumentError, "set_cache_hit_ratio takes"),
        (None, ArgumentError, "set_cache_hit_ratio takes"),
        ([("cache_hit_ratio", 1)], ArgumentError, "set_cache_hit_ratio takes"),
    ],
    ids=range(14),
)
def test_ratios_that_are_none(config: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Chip("Ascend910B1").set_cache_hit_ratio(config)
    assert str(caught.value).startswith(f"Chip: {words}") and "(test_contexts.py:" in str(caught.value)


# --- threads, tasks, generators ---


def test_threads_have_blocks_of_their_own() -> None:
    chips: list[Chip] = []
    inside = threading.Barrier(4)

    def model(count: int) -> None:
        with Chip("Ascend910B1") as chip, Core(f"aic{count}"):
            chips.append(chip)
            for _ in range(count):
                inside.wait(60)
                move()

    threads = [threading.Thread(target=model, args=(5,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    with Chip("Ascend910B1") as mine:
        move()
        for thread in threads:
            thread.join()
    assert counts(*chips) == [5] * 4 and counts(mine) == [1]


def test_a_new_thread_is_outside_any_block(outside_chip: None) -> None:
    seen: list[Any] = []
    with Chip("Ascend910B1"):
        thread = threading.Thread(target=lambda: seen.append(chip_module.current_chip()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_asyncio_tasks_have_blocks_of_their_own() -> None:
    async def model(count: int) -> int:
        with Chip("Ascend910B1") as chip:
            for _ in range(count):
                move()
                await asyncio.sleep(0)
        return len(chip.result)

    async def both() -> list[int]:
        return await asyncio.gather(model(3), model(5))

    assert asyncio.run(both()) == [3, 5]


def tiles(chip: Chip) -> Iterator[None]:
    with chip, Core("aic0"):
        while True:
            move()
            yield


def test_a_generator_left_half_way() -> None:
    chip = Chip("Ascend910B1")
    generator = tiles(chip)
    next(generator)
    next(generator)
    generator.close()
    assert context.current() is None
    with pytest.raises(StateError, match="its block failed"):
        chip.result  # noqa: B018
    with Chip("Ascend910B1") as after:
        move()
    assert list(after.result.pipes) == ["PIPE-MTE2"]


def test_a_generator_closed_while_a_younger_block_is_open() -> None:
    chip = Chip("Ascend910B1")
    generator = tiles(chip)
    next(generator)
    with Chip("Ascend910B2") as younger, Core("aiv0"):
        move()
        generator.close()
        move()
        assert chip_module.current_chip() is younger
    assert context.current() is None
    assert list(younger.result.pipes) == ["aiv0-PIPE-MTE2"] and counts(younger) == [2]


def test_blocks_left_in_the_wrong_order() -> None:
    first, second = Chip("Ascend910B1"), Chip("Ascend910B2")
    first.__enter__()
    second.__enter__()
    move()
    first.__exit__(None, None, None)
    move()
    second.__exit__(None, None, None)
    assert counts(first, second) == [0, 2] and context.current() is None


@pytest.mark.parametrize("make", [lambda: Core("aic0"), lambda: VecScope("vf")], ids=["Core", "VecScope"])
def test_leaving_what_was_never_entered_does_no_harm(make: Any) -> None:
    with Chip("Ascend910B1") as chip:
        make().__exit__(None, None, None)
        move()
    assert counts(chip) == [1]


def test_leaving_a_chip_that_was_never_entered() -> None:
    chip = Chip("Ascend910B1")
    chip.__exit__(None, None, None)
    with pytest.raises(StateError):
        chip.result  # noqa: B018


# --- outside any block ---


OUTSIDE: dict[str, Any] = {
    "load": move,
    "instruction": lambda: mskpp.vabs(Tensor("UB", "FP16", [128], None, True), Tensor("UB"))(),
    "set_flag": lambda: set_flag("PIPE-V", "PIPE-M", 0),
    "wait_flag": lambda: wait_flag("PIPE-V", "PIPE-M", 0),
    "barrier": lambda: pipe_barrier("PIPE-ALL"),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_outside_any_chip_it_is_said_once(what: str) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"outside any `with Chip\(\.\.\.\)`: it is checked as on Ascend910B1 but not recorded"
    ) as caught:
        OUTSIDE[what]()
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for issue in OUTSIDE.values():
            issue()


def test_outside_any_chip_outputs_get_their_type(outside_chip: None) -> None:
    x = Tensor("UB")
    x.load(Tensor("GM", "FP16", [4, 128], "ND"))
    [out] = mskpp.vconv(x, Tensor("UB"), "FP32")()
    assert (x.size, out.dtype, out.size, out.format) == ([4, 128], "FP32", [4, 128], "ND")
    a, b = Tensor("L0A", "FP16", [16, 16]), Tensor("L0B", "FP16", [16, 32])
    assert mskpp.mmad(a, b, Tensor("L0C", "FP32", [16, 32]), True)()[0].size == [16, 32]
    assert not x.is_valid()


@pytest.mark.parametrize(
    ("issue", "words"),
    [
        (lambda: Tensor("L0C").load(Tensor("GM", "FP16", [4])), "load: Ascend910B1 has no path GM to L0C"),
        (
            lambda: mskpp.vabs(Tensor("UB", "INT64", [4]), Tensor("UB"))(),
            "vabs: no cost for INT64 INT64 on Ascend910B1",
        ),
        (lambda: mskpp.vabs(Tensor("L1", "FP16", [4]), Tensor("UB"))(), "x lies in L1; it must lie in UB"),
        (lambda: set_flag("PIPE-Q", "PIPE-V", 0), "unknown pipe 'PIPE-Q'"),
        (lambda: pipe_barrier("PIPE-Q"), "unknown pipe 'PIPE-Q'"),
        (lambda: mskpp.rv_vadd(*[Tensor("VEC", "FP16", [4])] * 3)(), "has no vector registers"),
    ],
    ids=range(6),
)
def test_outside_any_chip_operands_are_checked(outside_chip: None, issue: Any, words: str) -> None:
    with pytest.raises(mskpp.MskppError) as caught:
        issue()
    assert words in str(caught.value) and "(test_contexts.py:" in str(caught.value)


def test_outside_any_chip_own_costs_are_not_asked(outside_chip: None) -> None:
    @RegisterPrefOf("VABS")
    class Cost(PrefModel):
        def time(self) -> int:
            raise AssertionError("asked")

    RegisterPrefOf("MOV-L1_TO_UB")(Cost)
    mskpp.vabs(Tensor("UB", "INT64", [4]), Tensor("UB"))()
    Tensor("UB").load(Tensor("L1", "FP16", [4]))


def test_an_own_instruction_outside_any_chip_is_said_too() -> None:
    @RegisterOf("VOWN")
    class Own:
        pipe = "PIPE-V"

        def infer_shape(self, inputs: Any, outputs: Any) -> None:
            outputs[0].dtype, outputs[0].size = "FP16", [1]

    RegisterPrefOf("VOWN")(type("Cost", (PrefModel,), {"time": lambda self: 1}))
    with pytest.warns(RuntimeWarning, match="outside any"):
        mskpp.vown(Tensor("UB", "FP16", [4]), Tensor("UB"))()


# --- importing and logging ---


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **environment}, check=True
    )


def test_importing_loads_nothing_optional() -> None:
    done = python(
        "import sys, mskpp\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'plotly', 'rich', 'pandas'}))"
    )
    assert done.stdout == "\n" and done.stderr == ""


def test_names_of_the_package() -> None:
    for name in mskpp.__all__:
        assert getattr(mskpp, name) is not None
    assert mskpp.__version__.count(".") == 2


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("INFO ", True), ("warning", False), ("error", False)])
def test_the_level_of_the_log(level: str, shown: bool) -> None:
    done = python("from mskpp import Chip\nwith Chip('Ascend910B2'): pass", MSKPP_LOG_LEVEL=level)
    assert ("mskpp INFO: Ascend910B2 inherits costs from Ascend910B1" in done.stderr) == shown
    assert done.stdout == ""


def test_an_unknown_level_is_said_without_its_value() -> None:
    done = python("import mskpp", MSKPP_LOG_LEVEL="secret")
    assert done.stderr == "mskpp WARNING: MSKPP_LOG_LEVEL is not one of debug, info, warning, error; warning is used\n"


def test_a_program_with_logging_of_its_own_gets_each_record_once() -> None:
    script = (
        "import logging, sys\nlogging.basicConfig(stream=sys.stdout, level='INFO', format='mine %(message)s')\n"
        "from mskpp import Chip\nwith Chip('Ascend910B2'): pass"
    )
    done = python(script, MSKPP_LOG_LEVEL="info")
    assert done.stderr == "" and done.stdout.count("inherits costs") == 1 and done.stdout.startswith("mine ")
