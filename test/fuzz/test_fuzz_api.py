# SPDX-License-Identifier: Apache-2.0
"""Whatever is passed to whatever: an answer or an error of the package, no other error, no crash."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import mskpp
from mskpp import Chip, Core, MskppError, Tensor, VecScope, prof_data
from mskpp.core.chip import current_chip
from mskpp.core.instructions import BUILT_IN

SHAPE = [16, 16]


def tensors() -> list[Any]:
    out = [Tensor(memory, "FP16", SHAPE, None, True) for memory in ("GM", "L1", "L0A", "L0B", "UB", "BT", "FB", "VEC")]
    out += [Tensor("L0C", "FP32", SHAPE, "NZ", True), Tensor("UB"), Tensor("UB", "INT32"), Tensor("UB", None, SHAPE)]
    return [*out, out[0][3:7], out[4][::2, 3], Tensor("GM", "INT4", [3])]


OBJECTS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    16,
    2**31,
    2**62,
    2**63,
    -(2**63) - 1,
    10**30,
    0.0,
    1.5,
    -0.0,
    math.nan,
    math.inf,
    1j,
    Fraction(1, 3),
    numpy.int8(3),
    numpy.uint64(2**64 - 1),
    numpy.float32(1.5),
    numpy.bool_(True),
    numpy.zeros(3),
    numpy.array(5),
    "",
    "UB",
    "GM",
    "fp16",
    "FP32",
    "ND",
    "PIPE-V",
    "PIPE-ALL",
    "PIPE-VEC",
    "aic0_PIPE-MTE2",
    "RVECLD",
    "Ascend910B1",
    "\0",
    "\x01",
    "\ud800",
    "😀",
    "x" * 10_000,
    "a b",
    b"UB",
    [],
    [0],
    [1, 2],
    [True],
    [2**40],
    [1] * 20,
    ["a"],
    (16, 16),
    (),
    {},
    {"cache_hit_ratio": 0.5},
    {1: 2},
    set(),
    slice(None),
    slice(2, 1),
    slice(None, None, 0),
    ...,
    object(),
    int,
    len,
]
anything = st.sampled_from(range(len(OBJECTS) + 15))


def value(number: int, pool: list[Any]) -> Any:
    return OBJECTS[number] if number < len(OBJECTS) else pool[number - len(OBJECTS)]


def launch(name: str) -> Callable[..., Any]:
    return lambda *arguments: BUILT_IN[name](*arguments)()


CALLS: list[tuple[str, Callable[..., Any], int]] = [
    ("Tensor", Tensor, 5),
    ("load", lambda target, *rest: target.load(*rest) if isinstance(target, Tensor) else None, 5),
    ("getitem", lambda target, key: target[key] if isinstance(target, Tensor) else None, 2),
    ("set dtype", lambda target, to: setattr(target, "dtype", to) if isinstance(target, Tensor) else None, 2),
    ("set size", lambda target, to: setattr(target, "size", to) if isinstance(target, Tensor) else None, 2),
    ("set format", lambda target, to: setattr(target, "format", to) if isinstance(target, Tensor) else None, 2),
    ("set_valid", lambda target: target.set_valid() if isinstance(target, Tensor) else None, 1),
    ("is_valid", lambda target: target.is_valid() if isinstance(target, Tensor) else None, 1),
    ("set_flag", mskpp.set_flag, 3),
    ("wait_flag", mskpp.wait_flag, 3),
    ("pipe_barrier", mskpp.pipe_barrier, 1),
    ("Core", Core, 1),
    ("VecScope", VecScope, 1),
    ("Chip", Chip, 2),
    ("cache", lambda config: Chip("Ascend910B1").set_cache_hit_ratio(config), 1),
    ("summary", lambda path: Chip("Ascend910B1").set_prof_summary_path(path), 1),
    ("RegisterPrefOf", lambda name, cls: mskpp.RegisterPrefOf(name)(cls), 2),
    ("RegisterOf", lambda name, cls: mskpp.RegisterOf(name)(cls), 2),
    ("MovData", prof_data.MovData().get, 4),
    ("MmadData", prof_data.MmadData().get, 2),
    ("VaddData", lambda *arguments: prof_data.VaddData().get(*arguments), 2),
    *((name, launch(name), len(inspect.signature(function).parameters)) for name, function in BUILT_IN.items()),
]
BUILTINS = (ValueError, TypeError, IndexError, RuntimeError, OverflowError, OSError)


def check(call: Callable[..., Any], arguments: list[Any]) -> None:
    try:
        call(*arguments)
    except MskppError as error:
        assert isinstance(error, BUILTINS)
        text = str(error)
        assert text and len(text) < 5000 and text.replace("\n", "").isprintable(), text


@settings(max_examples=800)
@given(st.sampled_from(CALLS), st.lists(anything, min_size=5, max_size=5))
def test_anything_passed_to_anything(call: Any, numbers: list[int]) -> None:
    _, function, count = call
    with contextlib.suppress(mskpp.FlagError, mskpp.DeadlockError), Chip("Ascend910B1") as chip:
        pool = tensors()
        with VecScope("vf"):
            check(function, [value(number, pool) for number in numbers[:count]])
        assert current_chip() is chip
    assert current_chip() is None


@settings(max_examples=300)
@given(
    st.sampled_from(sorted(BUILT_IN)), st.lists(st.integers(len(OBJECTS), len(OBJECTS) + 14), min_size=4, max_size=4)
)
def test_any_tensors_passed_to_any_instruction_on_either_architecture(name: str, numbers: list[int]) -> None:
    attributes = {
        "reduce_num": 2,
        "broadcast_num": 3,
        "fill_shape": [8],
        "reserve_num": 5,
        "dtype": "FP32",
        "if_mix": True,
        "is_inited": True,
    }
    parameters = list(inspect.signature(BUILT_IN[name]).parameters)
    for chip_name in ("Ascend910B1", "Ascend950PR_9589"):
        with Chip(chip_name) as chip:
            pool = tensors()
            before = [(tensor.dtype, tensor.size, tensor.format) for tensor in pool]
            operands = [pool[number - len(OBJECTS)] for number in numbers]
            arguments = [attributes.get(parameter) or operands.pop() for parameter in parameters]
            issued = 0
            with VecScope("vf"):
                try:
                    BUILT_IN[name](*arguments)()
                    issued = 1
                except MskppError:
                    after = [(tensor.dtype, tensor.size, tensor.format) for tensor in pool]
                    assert after == before  # what was refused has changed nothing
            for tensor in pool:
                if not tensor.is_valid():
                    tensor.set_valid()
        assert len(chip.result) == issued
