# SPDX-License-Identifier: Apache-2.0
"""mmad: shapes, dtypes, bias, padding, and the K loop."""

from __future__ import annotations

from typing import Any

import pytest
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Tensor, mmad
from mskpp.errors import ArgumentError, InputError


def x_of(m: int = 32, k: int = 48, dtype: str = "FP16", layout: str | None = None) -> Tensor:
    return Tensor("L0A", dtype, [m, k], layout, True)


def y_of(k: int = 48, n: int = 16, dtype: str = "FP16") -> Tensor:
    return Tensor("L0B", dtype, [k, n], None, True)


def b_of(size: Any = (32, 16), dtype: str = "FP32", memory: str = "L0C", layout: str | None = None) -> Tensor:
    return Tensor(memory, dtype, size, layout)


def cycles(m: int, k: int, n: int, dtype: str = "FP16", chip: str = "Ascend910B1") -> int:
    accumulator = "FP32" if dtype in ("FP16", "BF16", "FP32") else "INT32"
    with Chip(chip) as opened:
        mmad(x_of(m, k, dtype), y_of(k, n, dtype), b_of([m, n], accumulator), True)()
    return int(opened.result.total_cycles)


def test_the_output_is_a_new_tensor_of_l0c() -> None:
    b = b_of(layout="NC1HWC0")
    with Chip("Ascend910B1") as chip:
        outputs = mmad(x_of(), y_of(), b, True)()
    [out] = outputs
    assert out is not b
    assert (out.mem_type, out.dtype, out.size, out.format) == ("L0C", "FP32", [32, 16], "NC1HWC0")
    [event] = chip.result.events()
    assert (event.name, event.pipe, event.work) == ("MMAD", "PIPE-M", 32 * 48 * 16)


@pytest.mark.parametrize(
    ("of_b", "of_x", "expected"), [("NZ", "ND", "NZ"), ("ND", "NZ", "NZ"), (None, "NZ", "NZ"), ("ND", "ND", "ND")]
)
def test_the_format_is_that_of_b_unless_it_is_nd_then_that_of_x(of_b: str, of_x: str, expected: str) -> None:
    with Chip("Ascend910B1"):
        assert mmad(x_of(layout=of_x), y_of(), b_of(layout=of_b), True)()[0].format == expected


@pytest.mark.parametrize(
    ("dtype", "of_b"),
    [
        ("FP16", "FP32"),
        ("FP16", "FP16"),
        ("BF16", "FP32"),
        ("BF16", "BF16"),
        ("FP32", "FP32"),
        ("INT8", "INT32"),
        ("UINT8", "INT32"),
        ("INT4", "INT32"),
    ],
)
def test_dtypes(dtype: str, of_b: str) -> None:
    with Chip("Ascend910B1"):
        assert mmad(x_of(dtype=dtype), y_of(dtype=dtype), b_of(dtype=of_b), True)()[0].dtype == of_b


def test_signed_and_unsigned_bytes_mix() -> None:
    with Chip("Ascend910B1"):
        mmad(x_of(dtype="INT8"), y_of(dtype="UINT8"), b_of(dtype="INT32"), True)()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (16, 1, 1), (1, 16, 16), (15, 9, 3)])
def test_small_products_are_padded_to_the_fractal(m: int, k: int, n: int) -> None:
    assert cycles(m, k, n) == cycles(16, 16, 16)


def test_k_is_padded_to_the_fractal_of_the_dtype() -> None:
    sizes = {"FP16": 16, "BF16": 16, "INT8": 32, "UINT8": 32, "FP32": 8, "INT4": 64}
    for dtype, fractal in sizes.items():
        inside, edge, beyond = (cycles(64, k, 64, dtype) for k in (15 * fractal + 1, 16 * fractal, 16 * fractal + 1))
        assert inside == edge < beyond


def test_peaks() -> None:
    """Far beyond the table a product runs at its dtype's peak."""
    size = 1024
    expected = {"FP16": 4096, "BF16": 4096, "INT8": 8192, "UINT8": 8192, "FP32": 1024, "INT4": 16384}
    for dtype, peak in expected.items():
        assert cycles(size, size, size, dtype) == size**3 // peak
    assert cycles(size, size, size, "FP32", "Ascend950PR_9589") == size**3 // 256


def test_int4_is_not_on_the_950() -> None:
    with pytest.raises(ArgumentError) as caught:
        cycles(16, 64, 16, "INT4", "Ascend950PR_9589")
    assert "mmad: the cube of Ascend950PR_9589 does not take INT4; it takes" in str(caught.value)
    assert "FP16, BF16, FP32" in str(caught.value)


@pytest.mark.parametrize("size", [[16], [1, 16]])
def test_bias_in_bt(size: list[int]) -> None:
    with Chip("Ascend910B1") as chip:
        bias = Tensor("BT")
        bias.load(Tensor("L1", "FP32", size, None, True))
        out = mmad(x_of(), y_of(), bias)()[0]
    assert (out.mem_type, out.size) == ("L0C", [32, 16])
    move, product = chip.result.events()
    assert product.start == move.end


def test_a_k_loop_passes_its_result_on() -> None:
    register_cost(["MMAD"], lambda: 10)
    with Chip("Ascend910B1") as chip:
        c, inited = b_of(), True
        for core in ("a", "b", "c"):
            with mskpp.Core(core):
                c = mmad(x_of(), y_of(), c, inited)()[0]
            inited = False
    assert [event.start for event in chip.result.events()] == [0, 10, 20]


def test_is_inited_makes_b_ready_and_forgets_who_wrote_it() -> None:
    register_cost(["MMAD"], lambda: 10)
    with Chip("Ascend910B1") as chip:
        c = mmad(x_of(), y_of(), b_of(), True)()[0]
        with mskpp.Core("other"):
            mmad(x_of(), y_of(), c, is_inited=True)()
        assert c.is_valid()
    assert chip.result.total_cycles == 10


def test_an_empty_b_is_waited_for_in_vain() -> None:
    with (
        pytest.raises(mskpp.DeadlockError, match=r"waits for L0C tensor \[32,16\] FP32 .*, which nothing writes"),
        Chip("Ascend910B1"),
    ):
        mmad(x_of(), y_of(), b_of())()


def test_parts_of_tensors() -> None:
    with Chip("Ascend910B1") as chip:
        x, y, b = x_of(64, 64), y_of(64, 64), b_of([64, 64])
        for k in range(0, 64, 16):
            out = mmad(x[:, k : k + 16], y[k : k + 16], b, True)()[0]
    assert out.size == [64, 64]
    assert [event.work for event in chip.result.events()] == [64 * 16 * 64] * 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((x_of(32, 47), y_of(), b_of()), InputError, "x is [32,47] and y is [48,16]; they must be [m,k] and [k,n]"),
        ((Tensor("L0A", "FP16", [32], None, True), y_of(), b_of()), InputError, "x is [32] and y is [48,16]"),
        ((x_of(), Tensor("L0B", "FP16", [48, 4, 4], None, True), b_of()), InputError, "y is [48,4,4]"),
        ((x_of(), y_of(), b_of([16, 32])), InputError, "b is [16,32] in L0C; it must be [m,n] = [32,16]"),
        ((x_of(), y_of(), b_of([16])), InputError, "b is [16] in L0C; it must be [m,n]"),
        ((x_of(), y_of(), b_of([32], memory="BT")), InputError, "b is [32] in BT; it must be [n] = [16]"),
        (
            (x_of(), y_of(dtype="BF16"), b_of()),
            ArgumentError,
            "x is FP16 [32,48] but y is BF16 [48,16]; their dtypes must agree",
        ),
        (
            (x_of(), y_of(), b_of(dtype="INT32")),
            ArgumentError,
            "b is INT32 but x is FP16; b must be FP32 (or FP16, BF16)",
        ),
        ((x_of(dtype="INT8"), y_of(dtype="INT8"), b_of()), ArgumentError, "b is FP32 but x is INT8; b must be INT32"),
        (
            (x_of(dtype="INT16"), y_of(dtype="INT16"), b_of(dtype="INT32")),
            ArgumentError,
            "the cube of Ascend910B1 does not take INT16; it takes",
        ),
        ((y_of(), y_of(), b_of()), InputError, "x lies in L0B; it must lie in L0A"),
        ((x_of(), x_of(), b_of()), InputError, "y lies in L0A; it must lie in L0B"),
        ((x_of(), y_of(), b_of(memory="UB")), InputError, "b lies in UB; it must lie in L0C or BT"),
        ((Tensor("L0A"), y_of(), b_of()), InputError, "x, a L0A tensor [?] none, has no dtype or no size yet"),
        ((x_of(), Tensor("L0B"), b_of()), InputError, "y, a L0B tensor"),
        ((x_of(), y_of(), Tensor("L0C")), InputError, "b, a L0C tensor"),
    ],
)
def test_what_it_does_not_take(arguments: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught, Chip("Ascend910B1"):
        mmad(*arguments, True)()
    assert words in str(caught.value)
    assert str(caught.value).startswith("mmad: ") and "(test_mmad.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((x_of(), y_of(), 1.0), "mmad: b must be a Tensor, got float"),
        ((x_of(), 1, b_of()), "mmad: y must be a Tensor, got int"),
        ((x_of(), y_of(), b_of(), 1), "mmad: is_inited must be a bool, got int"),
        ((x_of(), y_of(), b_of(), None), "mmad: is_inited must be a bool, got NoneType"),
    ],
)
def test_arguments_of_another_type(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        mmad(*arguments)


def test_a_refused_product_leaves_nothing_behind() -> None:
    with Chip("Ascend910B1") as chip:
        b = b_of()
        with pytest.raises(ArgumentError):
            mmad(x_of(dtype="INT16"), y_of(dtype="INT16"), b_of(dtype="INT32"), True)()
        with pytest.raises(InputError):
            mmad(x_of(32, 47), y_of(), b, True)()
        assert not b.is_valid()
    assert len(chip.result) == 0 and chip.result.total_cycles == 0
