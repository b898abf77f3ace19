# SPDX-License-Identifier: Apache-2.0
"""Tensors: what they take, what they tell, and slicing, which is numpy's."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mskpp
from mskpp import Chip, Tensor
from mskpp.errors import ArgumentError, InputError, StateError, SubscriptError

DTYPES = (
    "BOOL",
    "UINT1",
    "UINT2",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT4",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "BF16",
    "FP32",
)
BITS = (8, 1, 2, 8, 16, 32, 64, 4, 8, 16, 32, 64, 16, 16, 32)


def test_what_is_given_is_told() -> None:
    tensor = Tensor("GM", "FP16", [32, 48], "ND")
    assert (tensor.mem_type, tensor.dtype, tensor.size, tensor.format) == ("GM", "FP16", [32, 48], "ND")
    assert repr(tensor) == "Tensor(GM, FP16, [32,48], ND)"


def test_what_is_not_given_is_none() -> None:
    tensor = Tensor("L1")
    assert (tensor.dtype, tensor.size, tensor.format, tensor.is_inited) == (None, None, None, False)
    assert repr(tensor) == "Tensor(L1, ?, [?])"


def test_size_is_a_list_of_its_own() -> None:
    tensor = Tensor("UB", "FP16", (4, 8))
    assert isinstance(tensor.size, list)
    tensor.size.append(3)
    assert tensor.size == [4, 8]


@pytest.mark.parametrize("memory", ["GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB", "VEC"])
def test_memories_in_any_case(memory: str) -> None:
    assert Tensor(memory.lower()).mem_type == memory
    assert Tensor(memory).is_inited == (memory == "GM")


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ("fp16", "FP16"),
        ("Float16", "FP16"),
        ("half", "FP16"),
        ("HALF", "FP16"),
        ("bf16", "BF16"),
        ("bfloat16", "BF16"),
        ("float32", "FP32"),
        ("float", "FP32"),
        ("int8", "INT8"),
        ("uInt64", "UINT64"),
        ("bool", "BOOL"),
        *((dtype, dtype) for dtype in DTYPES),
    ],
)
def test_dtypes_in_their_usual_spellings(given: str, dtype: str) -> None:
    assert Tensor("GM", given).dtype == dtype


@pytest.mark.parametrize("given", ["nd", "NZ", "NCHW", "nhwc", "NC1HWC0", "fractal", "FRACTAL_NZ"])
def test_formats_in_any_case(given: str) -> None:
    assert Tensor("GM", format=given).format == {"FRACTAL_NZ": "NZ"}.get(given, given.upper())


@pytest.mark.parametrize("size", [[2, 3], (2, 3), [numpy.int32(2), numpy.uint8(3)], list(numpy.array([2, 3]))])
def test_shapes_take_lists_tuples_and_numpy_integers(size: Any) -> None:
    assert Tensor("UB", "FP16", size).size == [2, 3]


@pytest.mark.parametrize("size", [[1], [2**31 - 1], [1] * 8, [2**15, 2**15, 1], [1, 2**31 - 1]])
def test_the_largest_shapes(size: list[int]) -> None:
    assert Tensor("GM", "INT64", size).size == size


@pytest.mark.parametrize(("dtype", "bits"), list(zip(DTYPES, BITS, strict=True)))
def test_bytes_of_a_dtype(dtype: str, bits: int) -> None:
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(Tensor("GM", dtype, [33]))
    assert next(chip.result.events()).work == -(-33 * bits // 8)  # rounded up for the tensor as a whole


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            ("L2",),
            InputError,
            "unknown mem_type 'L2'; did you mean 'L1'? Allowed: GM, L1, L0A, L0B, L0C, UB, BT, FB, VEC",
        ),
        (("",), InputError, "unknown mem_type ''"),
        ((1,), ArgumentError, "mem_type must be a str, got int"),
        ((None,), ArgumentError, "mem_type must be a str, got NoneType"),
        (("\ud800",), InputError, "mem_type is a str that is not valid Unicode"),
        (("GM", "FP17"), InputError, "unknown dtype 'FP17'; did you mean 'FP16'? Allowed: BOOL, UINT1, UINT2"),
        (("GM", 16), ArgumentError, "dtype must be a str, got int"),
        (("GM", "FP16", [4], "XY"), InputError, "unknown format 'XY'"),
        (("GM", "FP16", [4], 7), ArgumentError, "format must be a str, got int"),
        (("GM", "FP16", [4], "ND", 1), ArgumentError, "is_inited must be a bool, got int"),
        (("GM", "FP16", [4], "ND", None), ArgumentError, "is_inited must be a bool, got NoneType"),
        (("GM", "FP16", []), InputError, "size is empty; it must have at least one axis"),
        (("GM", "FP16", 4), ArgumentError, "size must be a list or tuple of int, got int"),
        (("GM", "FP16", "44"), ArgumentError, "size must be a list or tuple of int, got str"),
        (("GM", "FP16", [True, 48]), ArgumentError, "size must be an int, got bool"),
        (("GM", "FP16", [numpy.bool_(True)]), ArgumentError, "size must be an int, got "),
        (("GM", "FP16", [4.0]), ArgumentError, "size must be an int, got float"),
        (("GM", "FP16", ["4"]), ArgumentError, "size must be an int, got str"),
        (("GM", "FP16", [4, 0]), InputError, "axis 1 has extent 0; allowed are 1 to 2147483647"),
        (("GM", "FP16", [-4]), InputError, "axis 0 has extent -4"),
        (("GM", "FP16", [2**31]), InputError, "axis 0 has extent 2147483648"),
        (("GM", "FP16", [2**63]), InputError, "size is an integer outside -2^63 to 2^63-1"),
        (("GM", "FP16", [2**16, 2**15]), InputError, "more than 2147483647 elements (2^31-1)"),
        (("GM", "FP16", [1] * 9), InputError, "more than 8 axes"),
    ],
)
def test_what_a_tensor_cannot_be(arguments: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Tensor(*arguments)
    assert isinstance(caught.value, mskpp.MskppError)
    assert isinstance(caught.value, ValueError if error is InputError else TypeError)
    assert str(caught.value).startswith("Tensor: ")
    assert words in str(caught.value)
    assert "(test_tensor.py:" in str(caught.value)


def test_wrong_calls_of_the_constructor() -> None:
    with pytest.raises(TypeError):
        Tensor()
    with pytest.raises(TypeError):
        Tensor("GM", shape=[4])


# --- what can be set ---


def test_dtype_size_and_format_can_be_set() -> None:
    tensor = Tensor("UB")
    tensor.dtype, tensor.size, tensor.format = "half", (4, 8), "nz"
    assert (tensor.dtype, tensor.size, tensor.format) == ("FP16", [4, 8], "NZ")
    tensor.dtype = tensor.size = tensor.format = None
    assert (tensor.dtype, tensor.size, tensor.format) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("dtype", "FP99", InputError),
        ("dtype", 3, ArgumentError),
        ("size", [0], InputError),
        ("size", 3, ArgumentError),
        ("format", "??", InputError),
        ("format", True, ArgumentError),
    ],
)
def test_wrong_values_leave_it_as_it_was(name: str, value: Any, error: type[Exception]) -> None:
    tensor = Tensor("UB", "FP16", [4, 8], "ND")
    with pytest.raises(error, match=r"^Tensor: .*\(test_tensor\.py:\d+\)$"):
        setattr(tensor, name, value)
    assert (tensor.dtype, tensor.size, tensor.format) == ("FP16", [4, 8], "ND")


@pytest.mark.parametrize("name", ["mem_type", "is_inited"])
def test_what_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Tensor("UB"), name, "L1")


@pytest.mark.parametrize(("name", "value"), [("dtype", "FP16"), ("size", [2]), ("format", "ND")])
def test_a_slice_cannot_be_set(name: str, value: Any) -> None:
    part = Tensor("UB", "FP16", [4, 8])[1:3]
    with pytest.raises(StateError, match=f"{name} of a slice cannot be set; set it on the tensor itself"):
        setattr(part, name, value)


# --- slices ---

_SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
_BOUND = st.none() | st.integers(-9, 9)
_STEP = st.none() | st.integers(-3, 3).filter(bool)
_KEYS = st.lists(st.integers(-7, 6) | st.builds(slice, _BOUND, _BOUND, _STEP) | st.just(...), max_size=5).map(tuple)


def _expected(array: Any, key: Any) -> Any:
    """What numpy makes of the key: the selection, or the kind of error."""
    try:
        selected = array[key]
    except IndexError:
        return (IndexError, ValueError) if _selects_nothing(array, key) else IndexError
    return selected if selected.size else ValueError


def _selects_nothing(array: Any, key: Any) -> bool:
    """Whether some slice of the key is empty as well: then either error is right."""
    slices = [part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, slice)]
    return any(not range(extent)[part] for part in slices for extent in array.shape)


@settings(max_examples=1500)
@given(_SHAPES, st.lists(_KEYS, min_size=1, max_size=2))
def test_slices_are_numpys(shape: list[int], keys: list[Any]) -> None:
    tensor, array = Tensor("UB", "FP16", shape), numpy.zeros(shape)
    for key in keys:
        if not isinstance(array, numpy.ndarray) or array.ndim == 0:
            return
        wanted = _expected(array, key)
        if isinstance(wanted, (type, tuple)):
            with pytest.raises(wanted) as caught:
                tensor[key]
            assert isinstance(caught.value, mskpp.MskppError)
            return
        tensor, array = tensor[key], wanted
        assert tensor.size == (list(numpy.shape(array)) or [1])  # a single element has the shape [1]


@settings(max_examples=300)
@given(_SHAPES, st.integers(-9, 9) | st.builds(slice, _BOUND, _BOUND, _STEP))
def test_a_key_that_is_no_tuple(shape: list[int], key: Any) -> None:
    wanted = _expected(numpy.zeros(shape), key)
    if isinstance(wanted, (type, tuple)):
        with pytest.raises(wanted):
            Tensor("UB", "FP16", shape)[key]
    else:
        assert Tensor("UB", "FP16", shape)[key].size == (list(numpy.shape(wanted)) or [1])


def test_numpy_integers_and_huge_bounds_as_indices() -> None:
    tensor = Tensor("UB", "FP16", [4, 8])
    assert tensor[numpy.int64(-1), numpy.uint8(2) : numpy.int16(6)].size == [4]
    assert tensor[: 10**30, -(10**30) :].size == [4, 8]
    assert tensor[:: 10**12].size == [1, 8]


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (4, SubscriptError, "index 4 is outside axis 0 with 4 elements"),
        ((0, -9), SubscriptError, "index -9 is outside axis 1 with 8 elements"),
        ((0, 0, 0), SubscriptError, "3 indices for a tensor of 2 axes [4,8]"),
        ((..., ...), SubscriptError, "more than one ellipsis"),
        (slice(2, 2), InputError, "selects nothing of axis 0 with 4 elements"),
        (slice(None, None, 0), InputError, "a slice step of 0"),
        (True, ArgumentError, "an index must be an int, a slice or ..., got bool"),
        (1.5, ArgumentError, "got float"),
        ("0", ArgumentError, "got str"),
        (None, ArgumentError, "got NoneType"),
        ([0, 1], ArgumentError, "got list"),
        (slice(True, None), ArgumentError, "a slice bound must be an int, got bool"),
        (slice("a", None), ArgumentError, "a slice bound must be an int, got str"),
        (10**30, SubscriptError, "an index is an integer outside -2^63 to 2^63-1"),
    ],
)
def test_wrong_keys(key: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Tensor("UB", "FP16", [4, 8])[key]
    assert words in str(caught.value) and "(test_tensor.py:" in str(caught.value)
    assert not isinstance(caught.value, SubscriptError) or isinstance(caught.value, IndexError)


def test_a_tensor_without_a_shape_cannot_be_sliced() -> None:
    with pytest.raises(
        InputError, match="a UB tensor without a shape cannot be sliced; give it a size or load it first"
    ):
        Tensor("UB")[0]


def test_a_tensor_is_not_iterated_by_accident() -> None:
    parts = list(Tensor("UB", "FP16", [3, 8]))
    assert [part.size for part in parts] == [[8]] * 3


def test_a_slice_tells_what_its_tensor_is() -> None:
    part = Tensor("L1", "BF16", [4, 8], "NZ", True)[1:3, 2]
    assert (part.mem_type, part.dtype, part.format, part.size, part.is_inited) == ("L1", "BF16", "NZ", [2], True)


def test_a_stale_slice_is_an_error() -> None:
    tensor = Tensor("UB", "FP16", [4, 8])
    part = tensor[1:3]
    tensor.size = [2, 2]
    assert "stale" in repr(part)  # a debugger shows it without falling over
    for use in (lambda: part.size, lambda: part[0]):
        with pytest.raises(
            StateError, match=r"this slice is stale, it was taken before its UB tensor took the shape \[2,2\]"
        ):
            use()


def test_a_slice_taken_before_an_instruction_gave_another_shape_is_stale() -> None:
    with Chip("Ascend910B1"):
        x = Tensor("UB", "FP16", [4, 128], None, True)
        z = Tensor("UB", "FP16", [2, 128])
        part = z[0]
        mskpp.vabs(x, z)()
        with pytest.raises(StateError, match="take the slice again"):
            mskpp.vabs(part, Tensor("UB"))()


# --- validity ---


def test_validity_inside_a_block() -> None:
    with Chip("Ascend910B1"):
        source, target = Tensor("GM", "FP16", [4, 8]), Tensor("UB")
        assert source.is_valid() and not target.is_valid()
        target.load(source)
        assert target.is_valid() and target[1:3].is_valid()
        target.set_invalid()
        assert not target.is_valid()
        target[1:3].load(source[1:3])
        assert target[1:3].is_valid() and not target.is_valid() and not target[2:].is_valid()
        target[0].load(source[0])
        target[3].load(source[0])
        assert target.is_valid()
        target.set_invalid()
        target[0].set_valid()  # of a slice: the whole tensor
        assert target.is_valid()


def test_validity_belongs_to_the_block() -> None:
    tensor = Tensor("UB", "FP16", [8])
    with Chip("Ascend910B1"):
        tensor.set_valid()
        assert tensor.is_valid()
    with Chip("Ascend910B1"):
        assert not tensor.is_valid()


def test_validity_outside_any_block_is_where_blocks_start() -> None:
    tensor = Tensor("UB", "FP16", [8])
    assert not tensor.is_valid()
    tensor.set_valid()
    assert tensor.is_valid() and tensor.is_inited
    with Chip("Ascend910B1"):
        assert tensor.is_valid()
        tensor.set_invalid()
        assert not tensor.is_valid()
    assert tensor.is_valid()
    tensor.set_invalid()
    assert not tensor.is_valid()


def test_type_stays_with_the_tensor_but_writers_do_not() -> None:
    tensor = Tensor("UB")
    with Chip("Ascend910B1"):
        tensor.load(Tensor("GM", "FP16", [4, 128], "ND"))
    assert (tensor.dtype, tensor.size, tensor.format) == ("FP16", [4, 128], "ND")
    with pytest.raises(mskpp.DeadlockError, match=r"waits for UB tensor \[4,128\] FP16"), Chip("Ascend910B1"):
        mskpp.vabs(tensor, Tensor("UB"))()
