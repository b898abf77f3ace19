# SPDX-License-Identifier: Apache-2.0
"""Python values as arguments of a kernel: their bytes, their buffers, and what is refused with which words."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from utils.kernels import Tensor

from mskpp.errors import ArgumentError
from mskpp.launcher import arguments
from mskpp.launcher.arguments import (
    BFLOAT,
    BOOL,
    FLOATING,
    OTHER,
    POINTER,
    SIGNED,
    UNSIGNED,
    Described,
    buffers,
    mismatch,
    prepare,
    type_text,
    write_back,
)
from mskpp.launcher.signature import Parameter


def raw(value: object, kind: int, size: int) -> bytes:
    (slot,) = prepare([value], [Described(kind, size)], "k")
    assert slot.kind == "bytes" and len(slot.data) == size
    return slot.data


def refusal(value: object, kind: int, size: int) -> str:
    with pytest.raises(ArgumentError) as caught:
        prepare([value], [Described(kind, size)], "k", ["n"])
    assert str(caught.value).startswith("k: argument 1 (n): ")
    return str(caught.value).removeprefix("k: argument 1 (n): ")


# -------------------------------------------------------------------------------------------------------------- scalars


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED])
@given(data=st.data())
def test_integers_of_every_width(size: int, kind: int, data: st.DataObject) -> None:
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if kind == SIGNED else (0, (1 << 8 * size) - 1)
    number = data.draw(st.sampled_from([low, high, low + 1, high - 1]) | st.integers(low, high))
    assert int.from_bytes(raw(number, kind, size), "little", signed=kind == SIGNED) == number
    for outside in (low - 1, high + 1, 1 << 64, -(1 << 64)):
        assert refusal(outside, kind, size) == f"{outside} is out of range; allowed are {low} to {high}"


@pytest.mark.parametrize(
    "value",
    [
        *(t(42) for t in (numpy.int8, numpy.int16, numpy.int32, numpy.int64, numpy.uint8, numpy.uint16, numpy.uint32)),
        *(t(42) for t in (numpy.uint64, ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8)),
        *(t(42) for t in (ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_longlong)),
        ctypes.c_char(b"*"),
        42,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED])
@pytest.mark.parametrize("size", [1, 8])
def test_integers_of_ctypes_and_numpy(value: object, kind: int, size: int) -> None:
    assert raw(value, kind, size) == (42).to_bytes(size, "little")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (1.0, "float"),
        (numpy.float32(1), "float32"),
        (ctypes.c_float(1), "c_float"),
        ("1", "str"),
        (b"1", "bytes"),
        (ctypes.c_char_p(b"1"), "c_char_p"),
        (ctypes.c_char_p(b""), "c_char_p"),
        (ctypes.c_wchar("1"), "c_wchar"),
        (None, "NoneType"),
        (1j, "complex"),
        (numpy.complex64(1), "complex64"),
        ([1], "list"),
        (numpy.array([1, 2]), "int64 array [2]"),
        (numpy.array(1), "int64 array []"),
        (object(), "object"),
        (int, "type"),
    ],
)
def test_what_is_no_integer(value: object, what: str) -> None:
    for kind in (SIGNED, UNSIGNED, BOOL):
        assert refusal(value, kind, 4) == f"it is {what}; it must be an integer"


@pytest.mark.parametrize("value", [True, 1, numpy.bool_(True), ctypes.c_bool(True), numpy.uint8(1)])
def test_booleans(value: object) -> None:
    assert raw(value, BOOL, 1) == b"\1"
    assert raw(value, UNSIGNED, 1) == b"\1"
    assert raw(type(value)(0), BOOL, 1) == b"\0"
    assert refusal(2, BOOL, 1) == "2 is out of range; allowed are 0 to 1"


@pytest.mark.parametrize(
    "value",
    [1.5, numpy.float16(1.5), numpy.float32(1.5), numpy.float64(1.5), numpy.longdouble(1.5), ctypes.c_float(1.5),
     ctypes.c_double(1.5), ctypes.c_longdouble(1.5)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_floats_of_every_kind(value: object) -> None:
    assert raw(value, FLOATING, 2) == struct.pack("<e", 1.5)
    assert raw(value, FLOATING, 4) == struct.pack("<f", 1.5)
    assert raw(value, FLOATING, 8) == struct.pack("<d", 1.5)
    assert raw(value, BFLOAT, 2) == b"\xc0\x3f"


@pytest.mark.parametrize("value", [3, numpy.int8(3), ctypes.c_uint64(3)], ids=lambda value: type(value).__name__)
def test_integers_for_floats(value: object) -> None:
    assert raw(value, FLOATING, 4) == struct.pack("<f", 3)
    assert raw(value, FLOATING, 2) == struct.pack("<e", 3)
    assert raw(value, BFLOAT, 2) == b"\x40\x40"


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (-2.0, 0xC000),
        (1 + 2**-8, 0x3F80),  # half-way: to even
        (1 + 3 * 2**-8, 0x3F82),
        (1 + 2**-8 + 2**-20, 0x3F81),
        (3.4e38, 0x7F80),  # rounds up to infinity
        (math.inf, 0x7F80),
        (-math.inf, 0xFF80),
        (math.nan, 0x7FC0),
        (0.0, 0),
        (-0.0, 0x8000),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value: float, bits: int) -> None:
    assert int.from_bytes(raw(value, BFLOAT, 2), "little") == bits


@pytest.mark.parametrize(
    ("value", "size", "text"),
    [(65520.0, 2, "65520.0"), (1e39, 4, "1e+39"), (10**400, 8, "1" + "0" * 400), (-1e39, 4, "-1e+39")],
)
def test_floats_out_of_range(value: float, size: int, text: str) -> None:
    assert refusal(value, FLOATING, size) == f"{text} does not fit a floating point type of {size} bytes"
    assert refusal(1e39, BFLOAT, 2) == "1e+39 does not fit a floating point type of 2 bytes"


@pytest.mark.parametrize(
    "value",
    [True, numpy.bool_(False), ctypes.c_bool(1), 1j, numpy.complex128(1), "1", None, [1.0], b"1", numpy.ones(1)],
)
@pytest.mark.parametrize("kind", [FLOATING, BFLOAT])
def test_what_is_no_float(value: object, kind: int) -> None:
    assert refusal(value, kind, 2) == f"it is {type_text(value)}; it must be a number"


# ----------------------------------------------------------------------------------------------------------- structures


class Shape(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint16)]


class Either(ctypes.Union):
    _fields_ = [("i", ctypes.c_uint32), ("f", ctypes.c_float)]


SAME = "fields and their types must be those of the C++ type"


def test_structures_of_the_same_size() -> None:
    assert raw(Shape(1, 2), OTHER, 8) == b"\1\0\0\0\2\0\0\0"
    assert raw(Either(f=1.0), OTHER, 4) == struct.pack("<f", 1)
    assert raw((ctypes.c_uint16 * 3)(1, 2, 3), OTHER, 6) == b"\1\0\2\0\3\0"
    assert raw(b"12345", OTHER, 5) == b"12345"
    assert raw(bytearray(b"12"), OTHER, 2) == b"12"
    record = numpy.zeros(1, [("a", "<u4"), ("b", "<f4")])
    record["b"] = 1
    assert raw(record[0], OTHER, 8) == b"\0\0\0\0" + struct.pack("<f", 1)


@pytest.mark.parametrize(
    ("value", "size", "text"),
    [
        (Shape(), 12, f"structure Shape has 8 bytes, but 12 in C++; {SAME}"),
        (Shape(), 4, f"structure Shape has 8 bytes, but 4 in C++; {SAME}"),
        ((ctypes.c_int * 2)(), 4, f"c_int_Array_2 has 8 bytes, but 4 in C++; {SAME}"),
        (3, 4, "it is int; it must be a ctypes structure of 4 bytes"),
        (3.0, 4, "it is float; it must be a ctypes structure of 4 bytes"),
        (numpy.zeros(2), 16, "it is float64 array [2]; it must be a ctypes structure of 16 bytes"),
        (None, 4, "it is NoneType; it must be a ctypes structure of 4 bytes"),
        ("abcd", 4, "it is str; it must be a ctypes structure of 4 bytes"),
    ],
)  # fmt: skip
def test_structures_that_do_not_fit(value: object, size: int, text: str) -> None:
    assert refusal(value, OTHER, size) == text


def test_two_bytes_of_unknown_type_are_half_for_a_float_only() -> None:
    assert raw(1.5, OTHER, 2) == struct.pack("<e", 1.5)
    assert refusal(1, OTHER, 2) == "it is int; it must be a ctypes structure of 2 bytes"


def test_half_and_bfloat_are_told_by_their_names() -> None:
    assert Described(OTHER, 2).named("half") == Described(FLOATING, 2)
    assert Described(OTHER, 2).named("bfloat16_t") == Described(BFLOAT, 2)
    assert Described(OTHER, 2).named("Pair") == Described(OTHER, 2)
    assert Described(OTHER, 4).named("half") == Described(OTHER, 4)


# ------------------------------------------------------------------------------------------------------------- pointers


def buffer_of(value: object) -> arguments.Buffer:
    (slot,) = prepare([value], None, "k")
    assert slot.kind == "buffer" and slot.buffer is not None
    return slot.buffer


def through(value: Any, change: bytes | None = None) -> bytes:
    """What the kernel sees of the value; it leaves the change, or each byte increased."""
    buffer = buffer_of(value)
    seen = bytes(buffer.read())
    assert len(seen) == buffer.nbytes
    assert buffer.write_back is not None
    buffer.write_back(bytes((b + 1) % 256 for b in seen) if change is None else change)
    return seen


WHOLE = numpy.arange(24, dtype=numpy.int32).reshape(4, 6)
VIEWS = {
    "contiguous": lambda a: a,
    "column": lambda a: a[:, 2],
    "step": lambda a: a[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1],
    "reversed row": lambda a: a[1, ::-1],
    "transposed": lambda a: a.T,
    "0-d": lambda a: a[1, 1, ...],
    "part": lambda a: a[1:3, 1:4],
    "new axis": lambda a: a[:, None, :, None],
    "one element": lambda a: a[3:, 5:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_results_land_in_the_array_whatever_its_strides(view: Any, order: Any, kind: str) -> None:
    whole = numpy.array(WHOLE, order=order)
    array = view(whole)
    before = array.copy()
    seen = through(array if kind == "array" else Tensor(array), (before + 100).tobytes())
    assert seen == before.tobytes()
    numpy.testing.assert_array_equal(array, before + 100)
    expected = numpy.array(WHOLE)
    view(expected)[...] += 100
    numpy.testing.assert_array_equal(whole, expected)  # and nothing else


@pytest.mark.parametrize(
    "dtype",
    [
        "?",
        "i1",
        "u2",
        "f2",
        "f4",
        "f8",
        "g",
        "c8",
        "c16",
        "S3",
        "U2",
        "M8[s]",
        "V5",
        "(2,)i4",
        [("a", "u1"), ("b", "f8")],
    ],
    ids=str,
)
def test_arrays_of_every_dtype(dtype: Any) -> None:
    array = numpy.zeros(6, dtype)[::2]
    bytes_seen = through(array, b"\1" * array.nbytes)
    assert bytes_seen == b"\0" * array.nbytes
    assert array.tobytes() == b"\1" * array.nbytes


def test_an_array_that_may_not_be_written_is_left_alone() -> None:
    """It may be read. A kernel that changes it is an error, before any other argument changes."""
    other, array = numpy.zeros(4, numpy.int8), numpy.arange(4, dtype=numpy.int8)
    array.flags.writeable = False
    for readable in (array, numpy.broadcast_to(numpy.int8(7), (2, 2))):
        parts = buffers(prepare([other, readable], None, "k"))
        same = [bytes(part.read()) for part in parts]
        write_back(parts, same, "k")
        with pytest.raises(
            ArgumentError, match=r"^k: the kernel wrote into a read-only array of 4 bytes; give it a copy"
        ):
            write_back(parts, [b"\1" * 4, b"\2" * 4], "k")
        assert other.tolist() == [0] * 4


@pytest.mark.parametrize(
    "value",
    [numpy.zeros(0), numpy.zeros((3, 0, 2)), Tensor(numpy.zeros(0)), (ctypes.c_int * 0)(), bytearray(), None, 0,
     ctypes.c_void_p()],
    ids=lambda value: type_text(value),
)  # fmt: skip
def test_nothing_is_a_null_pointer(value: object) -> None:
    (slot,) = prepare([value], None, "k")
    assert (slot.kind, slot.address, slot.buffer) == ("address", 0, None)


def test_addresses() -> None:
    slots = prepare([1 << 63, ctypes.c_void_p(5), Tensor(numpy.ones(1), "npu:0")], None, "k")
    assert [slot.kind for slot in slots] == ["address"] * 3
    assert [slot.address for slot in slots][:2] == [1 << 63, 5]
    for value in (-1, 1 << 64):
        assert refusal(value, POINTER, 8) == f": the address {value}; allowed are 0 to 2^64-1"[2:]


def test_memory_of_ctypes() -> None:
    array = (ctypes.c_int16 * 2 * 2)((1, 2), (3, 4))
    assert through(array, struct.pack("<4h", 5, 6, 7, 8)) == struct.pack("<4h", 1, 2, 3, 4)
    assert [list(row) for row in array] == [[5, 6], [7, 8]]
    shape = Shape(1, 2)
    assert through(shape, b"\7" + b"\0" * 7) == b"\1\0\0\0\2\0\0\0"
    assert (shape.m, shape.n) == (7, 0)
    union = Either(i=1)
    through(union, struct.pack("<I", 9))
    assert union.i == 9
    data = bytearray(b"ab")
    assert through(data) == b"ab" and data == b"bc"
    data += b"longer"  # nothing holds on to it


def test_the_same_memory_is_one_buffer() -> None:
    a, s = numpy.zeros((4, 4)), Shape()
    tensor = Tensor(a)
    same = [a, a, a[:], a.reshape(16), tensor, [a, None, (a,)[0]], s, s]
    assert len(buffers(prepare(same, None, "k"))) == 2
    # Views of the same elements, though other objects each time.
    assert len(buffers(prepare([a[:, 0], a[:, 0], a.T, a.T, a[::-1], a[::-1]], None, "k"))) == 3
    assert len(buffers(prepare([a[:, 0], a[:, 1], a[:2], a[::2]], None, "k"))) == 4


@pytest.mark.parametrize("flip", [False, True])
def test_an_unchanged_view_does_not_undo_an_overlapping_one(flip: bool) -> None:
    x = numpy.arange(8, dtype=numpy.int8)
    parts = buffers(prepare([x[2:6], x] if flip else [x, x[2:6]], None, "k"))
    results = [bytes(part.read()) for part in parts]
    results[not flip] = b"\x63\x63\x63\x63"  # the kernel wrote through the small one
    write_back(parts, results, "k")
    assert x.tolist() == [0, 1, 99, 99, 99, 99, 6, 7]


def test_lists_of_arrays() -> None:
    a, b = numpy.ones(3), numpy.zeros(2)
    (slot,) = prepare([[a, None, (b), Tensor(b)]], None, "k")
    assert slot.kind == "list" and [item.kind for item in slot.items] == ["buffer", "address", "buffer", "buffer"]
    assert len(buffers([slot])) == 2
    assert prepare([()], None, "k")[0].items == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1.5, "it is float; it must be an array, a tensor, None or an address"),
        (True, "it is bool; it must be an array, a tensor, None or an address"),
        ("x", "it is str; it must be an array, a tensor, None or an address"),
        (b"x", "it is bytes; it must be an array, a tensor, None or an address"),
        ({}, "it is dict; it must be an array, a tensor, None or an address"),
        (numpy.float32(1), "it is float32; it must be an array, a tensor, None or an address"),
        ([1.5], "it is float; it must be an array, a tensor, None or an address"),
        (numpy.array([None]), "an array of object; its elements must be plain numbers"),
        (numpy.zeros(2, ">f4"), "an array of >f4, whose byte order is not this machine's; give "
         "array.astype(array.dtype.newbyteorder('='))"),
    ],
)  # fmt: skip
def test_what_is_no_pointer(value: object, reason: str) -> None:
    assert refusal(value, POINTER, 8) == reason


# ---------------------------------------------------------------------------------------- what the declaration tells


ARRAY = numpy.zeros(2)


@pytest.mark.parametrize(
    ("type_name", "good", "bad"),
    [
        ("float*", [ARRAY.astype(numpy.float32), None, 0, 5, ctypes.c_void_p(1), [ARRAY, None], (), Tensor(ARRAY),
                    Shape(), Either()],
         [1.0, True, "x", b"x", [1], {}, numpy.int32(1)]),
        ("GM_ADDR", [ARRAY, None, bytearray(1)], [1.5]),
        ("uint32_t", [1, True, -5, numpy.int8(1), ctypes.c_int(1)], [1.0, "1", None, ARRAY, [1], 1j, Shape()]),
        ("const int64_t", [1 << 62], [1.0]),
        ("bool", [True, 0, numpy.bool_(True)], [0.0, None, "x"]),
        ("float", [1, 1.0, numpy.float16(1), ctypes.c_float(1), numpy.longdouble(1)],
         [True, 1j, numpy.complex64(1), "1", None]),
        ("half", [1.0], [ARRAY]),
        ("bfloat16_t const", [1], ["x"]),
        ("ns::Shape<4>", [Shape(), Either(), b"1234", 3, 3.0], [ARRAY, Tensor(ARRAY), None, "x", [1], {}]),
        ("const Kind&", [1, numpy.int8(2)], [None]),
    ],
)  # fmt: skip
def test_values_against_the_declaration(type_name: str, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert mismatch(Parameter(type_name, "x"), value) is None, value
    for value in bad:
        assert mismatch(Parameter(type_name, "x"), value), value


def test_values_in_words() -> None:
    assert type_text(numpy.zeros((2, 3), "f2")) == "float16 array [2,3]"
    assert type_text(Shape()) == "structure Shape"
    assert type_text(None) == "NoneType"
