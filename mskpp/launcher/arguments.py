# SPDX-License-Identifier: Apache-2.0
"""Python values as the arguments of a kernel.

pointer           numpy array of any stride, torch tensor, ctypes array or structure, bytearray: its bytes, copied to
                  the device and back into the caller's object; torch tensor on the NPU: its address, not copied;
                  list of these: a block of addresses; None: null; int: an address
integer, bool     int, bool, numpy integer, ctypes integer; refused when out of range
floating          float, int, numpy floating, ctypes c_float and c_double
structure         ctypes structure or array, numpy structured scalar, bytes; of the same size as in C++
"""

from __future__ import annotations

import copy
import ctypes
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mskpp.errors import ArgumentError
from mskpp.launcher.signature import Parameter

# Described.kind: as the generated code numbers them, and the one 16-bit type that only its name tells.
POINTER, SIGNED, UNSIGNED, FLOATING, BOOL, OTHER, BFLOAT = range(1, 8)
ANY_NUMBER = 0xFFFFFFFF  # what mskpp_describe returns for kernels that take any number of pointers

INTEGER_NAMES = frozenset(
    [
        "char",
        "signed char",
        "unsigned char",
        "short",
        "unsigned short",
        "int",
        "unsigned",
        "unsigned int",
        "long",
        "unsigned long",
        "long long",
        "unsigned long long",
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint8_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
        "size_t",
        "ssize_t",
        "ptrdiff_t",
        "intptr_t",
        "uintptr_t",
    ]
)
FLOATING_NAMES = frozenset(["float", "double", "half", "bfloat16_t"])
FLOAT_CODES = {2: "e", 4: "f", 8: "d"}


@dataclass(frozen=True)
class Described:
    """One parameter as it was compiled."""

    kind: int
    bytes: int

    def named(self, name: str) -> Described:
        """With what the type's name says: to the compiler ``half`` and ``bfloat16_t`` are structures."""
        kind = {"half": FLOATING, "bfloat16_t": BFLOAT}.get(name) if (self.kind, self.bytes) == (OTHER, 2) else None
        return Described(kind or self.kind, self.bytes)


@dataclass
class Buffer:
    """Memory of the caller: what the kernel sees a copy of.

    ``read()`` gives its bytes, contiguous; ``write_back(data)`` puts bytes into the caller's object, whatever its
    strides; None: it is read-only. Objects with the same ``address`` and size are one buffer to the kernel too.
    """

    address: int
    nbytes: int
    read: Callable[[], Any]
    write_back: Callable[[Any], None] | None
    span: tuple[int, int] = (0, 0)  # the caller's addresses it lies in, for arrays


@dataclass
class Slot:
    """One argument, ready: raw bytes, a buffer, an address on the device, or a list of the latter two."""

    kind: str  # "bytes" | "buffer" | "address" | "list"
    data: bytes = b""
    buffer: Buffer | None = None
    address: int = 0
    items: list[Slot] = field(default_factory=list)


def is_tensor(value: object) -> bool:
    """Of torch, told by the class's name: torch itself is never imported."""
    return type(value).__name__ in ("Tensor", "Parameter") and type(value).__module__.split(".")[0].startswith("torch")


def is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_number(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, int | float | ctypes._SimpleCData) or (
        numpy is not None and isinstance(value, numpy.number | numpy.bool_)
    )


def is_memory(value: object) -> bool:
    return (
        is_array(value)
        or is_tensor(value)
        or isinstance(value, ctypes.Array | ctypes.Structure | ctypes.Union | bytearray)
    )


def copied(value: Any) -> Any:
    """A value of its own memory: a kernel may change what it is given."""
    if is_tensor(value):
        return value.clone()
    if is_array(value):
        return value.copy()
    if isinstance(value, list | tuple):
        return type(value)(copied(item) for item in value)
    return copy.copy(value)


def type_text(value: object) -> str:
    """What messages say of a value: "float16 array [2,3]", "int", "structure Shape"."""
    if is_array(value):
        return f"{value.dtype} array {list(value.shape)}".replace(", ", ",")  # type: ignore[attr-defined]
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return f"structure {type(value).__name__}"
    return type(value).__name__


# Element types of typed pointers, as numpy's kind and size: an array of another type would be read as garbage.
ELEMENTS = {
    "float": "f4", "double": "f8", "half": "f2", "int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8",
    "short": "i2", "int": "i4", "long": "i8", "long long": "i8", "uint16_t": "u2", "uint32_t": "u4", "uint64_t": "u8",
    "unsigned int": "u4", "unsigned": "u4", "unsigned long": "u8", "size_t": "u8", "bool": "b1",
}  # fmt: skip


def element_mismatch(parameter: Parameter, array: Any) -> str | None:
    """Why an array cannot be a pointer to the parameter's elements; None when it can, or the type says nothing."""
    base = re.sub(r"\b(const|volatile|restrict|__restrict__)\b", " ", parameter.type.rstrip("* "))
    wanted = ELEMENTS.get(" ".join(base.split()))
    given = f"{array.dtype.kind}{array.dtype.itemsize}"
    if parameter.type.count("*") != 1 or wanted is None or wanted == given:
        return None
    if array.dtype.kind in "iu" and wanted[0] in "iuf" and int(wanted[1:]) == array.dtype.itemsize:
        return None  # the same bits, as one hands over what numpy has no type for
    return f"it points to {' '.join(base.split())}, and the array's elements are {array.dtype}"


def mismatch(parameter: Parameter, value: object) -> str | None:
    """Why the value cannot be this parameter, as far as its text tells; None when it can."""
    if parameter.is_pointer:
        if is_array(value):
            return element_mismatch(parameter, value)
        if value is None or is_memory(value) or isinstance(value, ctypes.c_void_p):
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return None
        if isinstance(value, list | tuple):
            return (
                None
                if all(v is None or is_memory(v) for v in value)
                else "a list may hold arrays and tensors only; make numbers an array: numpy.array(...)"
            )
        return "it must be an array, a tensor, None or an address"
    name = parameter.type.removeprefix("const ").removesuffix(" const")
    if name in INTEGER_NAMES or name == "bool":
        number = plain(value) if is_number(value) else None
        return None if isinstance(number, int) else "it must be an integer"
    if name in FLOATING_NAMES:
        return None if is_number(value) and is_real(plain(value)) else "it must be a number"
    if is_array(value) or is_tensor(value) or value is None or isinstance(value, str | list | tuple | dict):
        return "it must be a ctypes structure or a number"
    return None


def plain(value: Any) -> Any:
    """The Python number in a ctypes or numpy scalar."""
    if isinstance(value, ctypes._SimpleCData):
        # The value of a c_char is one byte; that of a c_char_p, bytes too, is no number.
        return value.value[0] if isinstance(value, ctypes.c_char) else value.value
    return value.item() if hasattr(value, "item") and not isinstance(value, int | float) else value


def is_real(number: object) -> bool:
    """A number that has a place on the number line; a bool is meant as something else."""
    return hasattr(number, "__float__") and not isinstance(number, bool | complex)


def byte_bounds(array: Any) -> tuple[int, int]:
    """The first address of the array's elements, and the one after the last."""
    low = high = array.__array_interface__["data"][0]
    for length, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (length - 1) * stride), high + max(0, (length - 1) * stride)
    return low, high + array.itemsize


def array_buffer(array: Any, who: str) -> Buffer:
    import numpy

    if array.dtype.hasobject:
        raise ArgumentError(f"{who}: an array of {array.dtype}; its elements must be plain numbers")
    if not array.dtype.isnative:
        raise ArgumentError(
            f"{who}: an array of {array.dtype.str}, whose byte order is not this machine's; give "
            "array.astype(array.dtype.newbyteorder('='))"
        )

    def write_back(data: Any) -> None:
        numpy.copyto(array, numpy.frombuffer(data, array.dtype, array.size).reshape(array.shape))

    # Two views of the same elements are one buffer, though they are two objects.
    first = array.__array_interface__["data"][0]
    return Buffer(
        first if array.flags.c_contiguous else hash((first, array.shape, array.strides, array.dtype.str)),
        array.nbytes,
        lambda: numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data,
        write_back if array.flags.writeable else None,
        byte_bounds(array),
    )


def tensor_buffer(tensor: Any) -> Buffer:
    whole = tensor if tensor.is_contiguous() else tensor.contiguous()
    nbytes = whole.numel() * whole.element_size()
    memory = (ctypes.c_char * nbytes).from_address(whole.data_ptr()) if nbytes else b""

    def write_back(data: Any) -> None:
        ctypes.memmove(whole.data_ptr(), bytes(data[:nbytes]), nbytes)
        if whole is not tensor:
            tensor.copy_(whole)

    return Buffer(
        tensor.data_ptr() if whole is tensor else id(tensor), nbytes, lambda: memoryview(memory).cast("B"), write_back
    )


def ctypes_buffer(value: Any) -> Buffer:
    if isinstance(value, bytearray):
        view = memoryview(value)
        return Buffer(
            id(value), len(value), lambda: view, lambda data: view.__setitem__(slice(None), data[: len(value)])
        )
    size = ctypes.sizeof(value)

    def write_back(data: Any) -> None:
        ctypes.memmove(ctypes.addressof(value), bytes(data[:size]), size)

    return Buffer(ctypes.addressof(value), size, lambda: memoryview(value).cast("B"), write_back)


def pointer_slot(value: Any, who: str) -> Slot:
    if value is None:
        return Slot("address", address=0)
    if isinstance(value, ctypes.c_void_p):
        return Slot("address", address=value.value or 0)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            raise ArgumentError(f"{who}: the address {value}; allowed are 0 to 2^64-1")
        return Slot("address", address=value)
    if isinstance(value, list | tuple):
        if any(isinstance(v, list | tuple) for v in value):
            raise ArgumentError(f"{who}: a list in a list; a list may hold arrays, tensors and None")
        return Slot("list", items=[pointer_slot(v, who) for v in value])
    if is_tensor(value) and getattr(value.device, "type", str(value.device)) != "cpu":
        return Slot("address", address=value.data_ptr())
    if is_tensor(value):
        buffer = tensor_buffer(value)
    elif is_array(value):
        buffer = array_buffer(value, who)
    elif is_memory(value):
        buffer = ctypes_buffer(value)
    else:
        raise ArgumentError(f"{who}: it is {type_text(value)}; it must be an array, a tensor, None or an address")
    return Slot("buffer", buffer=buffer) if buffer.nbytes else Slot("address", address=0)


def scalar_bytes(value: Any, described: Described, who: str) -> bytes:
    size = described.bytes
    if described.kind in (FLOATING, BFLOAT):
        number = plain(value) if is_number(value) else None
        if not is_real(number):
            raise ArgumentError(f"{who}: it is {type_text(value)}; it must be a number")
        try:
            if described.kind == BFLOAT:  # the upper half of a float, rounded to nearest even
                word = int.from_bytes(struct.pack("=f", number), sys.byteorder)
                upper = 0x7FC0 if number != number else (word + 0x7FFF + (word >> 16 & 1)) >> 16
                return upper.to_bytes(2, sys.byteorder)
            return struct.pack(f"={FLOAT_CODES[size]}", number)
        except (OverflowError, KeyError, struct.error):
            raise ArgumentError(f"{who}: {number} does not fit a floating point type of {size} bytes") from None
    number = plain(value) if is_number(value) else None
    if not isinstance(number, int):
        raise ArgumentError(f"{who}: it is {type_text(value)}; it must be an integer")
    bits = size * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if described.kind == SIGNED else (0, (1 << bits) - 1)
    if described.kind == BOOL:
        low, high = 0, 1
    if not low <= number <= high:
        raise ArgumentError(f"{who}: {number} is out of range; allowed are {low} to {high}")
    return int(number).to_bytes(size, sys.byteorder, signed=described.kind == SIGNED)


def structure_bytes(value: Any, described: Described, who: str) -> bytes:
    if isinstance(value, ctypes.Structure | ctypes.Union | ctypes.Array | bytes | bytearray):
        data = bytes(value)
    elif type(value).__module__ == "numpy" and hasattr(value, "tobytes") and not is_array(value):
        data = value.tobytes()
    elif described.bytes == 2 and is_number(value) and isinstance(plain(value), float):
        return scalar_bytes(value, Described(FLOATING, 2), who)  # half, where its name does not tell
    else:
        raise ArgumentError(
            f"{who}: it is {type_text(value)}; it must be a ctypes structure of {described.bytes} bytes"
        )
    if len(data) != described.bytes:
        raise ArgumentError(
            f"{who}: {type_text(value)} has {len(data)} bytes, but {described.bytes} in C++; fields and their types "
            "must be those of the C++ type"
        )
    return data


def prepare(
    values: Sequence[object], described: Sequence[Described] | None, who: str, names: Sequence[str] = ()
) -> list[Slot]:
    """The values as slots. ArgumentError, which begins with ``who`` and names the argument, when one does not fit.

    ``described`` None: any number of pointers.
    """
    out = []
    for i, value in enumerate(values):
        name = f" ({names[i]})" if i < len(names) and names[i] else ""
        where = f"{who}: argument {i + 1}{name}"
        one = described[i] if described is not None else Described(POINTER, 8)
        if one.kind == POINTER:
            out.append(pointer_slot(value, where))
        elif one.kind == OTHER:
            out.append(Slot("bytes", structure_bytes(value, one, where)))
        else:
            out.append(Slot("bytes", scalar_bytes(value, one, where)))
    return out


def refined(described: list[Described] | None, metadata: Mapping[str, Any]) -> list[Described] | None:
    """What the compiler knows of the parameters, and of 16-bit numbers what their names say."""
    if described is None:
        return None
    names = [str(t).removeprefix("const ") for t in metadata.get("types", ())]
    return [d.named(names[i]) if i < len(names) else d for i, d in enumerate(described)]


def overlapping(spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Which of the half-open intervals overlap another."""
    out = [False] * len(spans)
    last: int | None = None  # the one that reaches farthest so far
    for i in sorted((i for i, (low, high) in enumerate(spans) if low < high), key=lambda i: spans[i]):
        if last is not None and spans[i][0] < spans[last][1]:
            out[i] = out[last] = True
        if last is None or spans[i][1] > spans[last][1]:
            last = i
    return out


def write_back(parts: Sequence[Buffer], results: Sequence[Any], who: str) -> None:
    """Puts what the kernel left in its buffers into the caller's objects.

    Arrays may overlap: x and x[1:] are two buffers. One that the kernel has not changed must not undo the other then.
    ArgumentError, with nothing written, when the kernel changed what is read-only.
    """
    shared = overlapping([part.span for part in parts])
    changed = []
    for part, result, overlaps in zip(parts, results, shared, strict=True):
        if part.write_back is None:
            if bytes(part.read()) != bytes(result):
                raise ArgumentError(
                    f"{who}: the kernel wrote into a read-only array of {part.nbytes} bytes; give it a copy, or make "
                    "the array writeable. No argument has been changed"
                )
        elif not overlaps or bytes(part.read()) != bytes(result):
            changed.append((part.write_back, result))
    for put, result in changed:
        put(result)


def buffers(slots: Sequence[Slot]) -> list[Buffer]:
    """The different buffers of the slots, in their order."""
    found: dict[tuple[int, int], Buffer] = {}
    for slot in slots:
        for one in (slot, *slot.items):
            if one.buffer is not None:
                found.setdefault((one.buffer.address, one.buffer.nbytes), one.buffer)
    return list(found.values())
