# SPDX-License-Identifier: Apache-2.0
"""The call of a tiling function as data (TilingConfig), and the C++ text that makes the call.

The text is the same for the Ascend toolkit and for the host, whose stand-in for the toolkit's tiling interface is
include/mskpp/tiling.h. It holds no address and no value of a tensor, so it stays valid; values go with the call.
"""

from __future__ import annotations

import ctypes
import difflib
import json
import math
import numbers
import os
import re
import reprlib
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.errors import ArgumentError, FileError, InputError
from mskpp.launcher import checks
from mskpp.launcher.arguments import type_text
from mskpp.launcher.code_generator import Callers, fill, metadata_line
from mskpp.launcher.reading import regular_bytes
from mskpp.log import logger

if TYPE_CHECKING:
    import numpy

WHO = "tiling_func"
MOST_TENSORS = 100_000
MOST_ELEMENTS = 4_294_967_295
MOST_DIMENSIONS = 25
MOST_VALUE_BYTES = 64 << 20
VALUE_ALIGNMENT = 64
# What a file of values begins with: so no other file is read as one, replaced or removed. Offsets count from behind it.
VALUES_MARK = b"mskpp: values of inputs; generated, do not edit\n".ljust(VALUE_ALIGNMENT, b"\0")
_MOST_LINE_BYTES = 64 << 20
_MOST_SHOWN = 20
_MOST_SHOWN_CHARACTERS = 200
_MOST_COMPARED = 10_000
INFO_KEYS = ("ori_shape", "shape", "ori_format", "format", "dtype", "data_path")
_CHIP_KEYS = (
    "architecture", "cube_cores", "vector_cores", "ub_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes",
    "bt_bytes", "fb_bytes", "l2_bytes", "gm_bytes",
)  # fmt: skip
_LARGEST_FLOAT = 3.4028234663852886e38

# dtype in Python -> (its name after ge::DT_, bits of an element; 0: not fixed)
DTYPES: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("float", "float32", "fp32"), ("FLOAT", 32)),
    **dict.fromkeys(("float16", "fp16"), ("FLOAT16", 16)),
    **dict.fromkeys(("bf16", "bfloat16"), ("BF16", 16)),
    **dict.fromkeys(("double", "float64"), ("DOUBLE", 64)),
    "int8": ("INT8", 8),
    "int16": ("INT16", 16),
    **dict.fromkeys(("int32", "int"), ("INT32", 32)),
    "int64": ("INT64", 64),
    "uint8": ("UINT8", 8),
    "uint16": ("UINT16", 16),
    "uint32": ("UINT32", 32),
    "uint64": ("UINT64", 64),
    "bool": ("BOOL", 8),
    "string": ("STRING", 0),
    "complex32": ("COMPLEX32", 32),
    "complex64": ("COMPLEX64", 64),
    "complex128": ("COMPLEX128", 128),
    "int4": ("INT4", 4),
    "int2": ("INT2", 2),
    "uint1": ("UINT1", 1),
    "uint2": ("UINT2", 2),
    "qint8": ("QINT8", 8),
    "qint16": ("QINT16", 16),
    "qint32": ("QINT32", 32),
    "quint8": ("QUINT8", 8),
    "quint16": ("QUINT16", 16),
    "dual_sub_int8": ("DUAL_SUB_INT8", 8),
    "dual_sub_uint8": ("DUAL_SUB_UINT8", 8),
    "hifloat8": ("HIFLOAT8", 8),
    **dict.fromkeys(("float8_e5m2", "fp8_e5m2"), ("FLOAT8_E5M2", 8)),
    **dict.fromkeys(("float8_e4m3fn", "fp8_e4m3fn"), ("FLOAT8_E4M3FN", 8)),
    **dict.fromkeys(("float8_e8m0", "fp8_e8m0", "float8_e8m0fnu"), ("FLOAT8_E8M0", 8)),
    **dict.fromkeys(("float6_e3m2", "fp6_e3m2", "float6_e3m2fn"), ("FLOAT6_E3M2", 6)),
    **dict.fromkeys(("float6_e2m3", "fp6_e2m3", "float6_e2m3fn"), ("FLOAT6_E2M3", 6)),
    **dict.fromkeys(("float4_e2m1", "fp4_e2m1", "float4_e2m1fn"), ("FLOAT4_E2M1", 4)),
    **dict.fromkeys(("float4_e1m2", "fp4_e1m2"), ("FLOAT4_E1M2", 4)),
}
# Types whose values a tiling function gets to see.
VALUE_TYPES = frozenset(["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT", "DOUBLE"])

_FORMATS = """
    nchw nhwc nd nc1hwc0 fractal_z nc1c0hwpad nhwc1c0 fsr_nchw fractal_deconv c1hwnc0 fractal_deconv_transpose
    fractal_deconv_sp_stride_trans nc1hwc0_c04 fractal_z_c04 chwn fractal_deconv_sp_stride8_trans hwcn nc1khkwhwc0
    bn_weight filter_hwck hashtable_lookup_lookups hashtable_lookup_keys hashtable_lookup_value hashtable_lookup_output
    hashtable_lookup_hits c1hwncoc0 md ndhwc fractal_zz fractal_nz ncdhw dhwcn ndc1hwc0 fractal_z_3d cn nc dhwnc
    fractal_z_3d_transpose fractal_zn_lstm fractal_z_g reserved all null nd_rnn_bias fractal_zn_rnn nyuv nyuv_a ncl
    fractal_z_wino c1hwc0
"""
# format in Python, in lower case -> its name after ge::FORMAT_
FORMATS: Mapping[str, str] = {name: name.upper() for name in _FORMATS.split()} | {"c1hwncoc0": "C1HWNCoC0"}


# ------------------------------------------------------------------------------------------ messages


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or nothing."""
    found = difflib.get_close_matches(name[:_MOST_SHOWN_CHARACTERS], list(known)[:_MOST_COMPARED], 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _near(key: object, known: Iterable[str]) -> str:
    return nearest(key, known) if isinstance(key, str) else ""


def listed(names: Sequence[str], between: str = ", ") -> str:
    """The names, of many the first ones and how many more there are."""
    text = between.join(name[:_MOST_SHOWN_CHARACTERS] for name in names[:_MOST_SHOWN])
    return text if len(names) <= _MOST_SHOWN else f"{text} and {len(names) - _MOST_SHOWN:,} more"


def shown(value: object) -> str:
    """The repr of whatever was given, or the beginning of it: values may be large, nested deep, or have none."""
    brief = reprlib.Repr()
    brief.maxlist = brief.maxtuple = brief.maxdict = brief.maxset = 6
    brief.maxstring = brief.maxother = brief.maxlong = _MOST_SHOWN_CHARACTERS
    try:
        return brief.repr(value)
    except Exception:  # the repr of a user's class, an int with too many digits
        return type_text(value)


def _unknown(what: str, name: str, known: Iterable[str], label: str = "Known") -> str:
    known = list(known)
    return f"unknown {what} {shown(name)}{nearest(name, known) or '.'} {label}: {', '.join(known)}"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # numpy's, of either name


def _whole_number(value: object) -> int | None:
    """The value of an int, a numpy integer or the like; None for anything else, bool included."""
    if isinstance(value, numbers.Integral) and not _is_bool(value):
        return int(value)
    return None


# ------------------------------------------------------------------------------------------ tensors


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_torch(value: object) -> bool:
    return any(base.__name__ == "Tensor" and base.__module__.startswith("torch") for base in type(value).__mro__)


def is_tensor(value: object) -> bool:
    """A numpy array, or an object of a class Tensor of a torch module (known by name; torch is not imported)."""
    return _is_array(value) or _is_torch(value)


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype.name if _is_array(tensor) else tensor.dtype).removeprefix("torch.")


def _value(tensor: Any) -> numpy.ndarray:
    """The elements on the CPU, in C order and in the machine's byte order."""
    import numpy

    array = tensor if _is_array(tensor) else tensor.detach().cpu().contiguous().numpy()
    array = numpy.ascontiguousarray(array)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@dataclass(frozen=True)
class TensorCall:
    """One tensor of the call. ``value`` is an array or, where the value is in a file, its path; None: not known."""

    dtype: str
    origin_format: str
    storage_format: str
    origin_shape: tuple[int, ...]
    storage_shape: tuple[int, ...]
    value: numpy.ndarray | Path | None

    def needed_bytes(self) -> int | None:
        """Bytes of the storage shape; None where elements have no fixed size."""
        bits = next(bits for name, bits in DTYPES.values() if name == self.dtype)
        return (math.prod(self.storage_shape) * bits + 7) // 8 if bits else None


def _shape(info: Mapping[str, Any], key: str, place: str) -> tuple[int, ...] | None:
    if info.get(key) is None:
        return None
    given = info[key]
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise ArgumentError(f"{place}: {key} is {type_text(given)}; it must be a list of positive ints")
    dims = [_whole_number(dim) for dim in given]
    if not dims:
        raise InputError(f"{place}: {key} is empty; it must have at least one dimension (leave the key out for none)")
    for index, dim in enumerate(dims):
        if dim is None:
            raise ArgumentError(f"{place}: {key}[{index}] is {shown(given[index])}; dimensions are positive ints")
        if dim <= 0:
            raise InputError(f"{place}: {key}[{index}] is {shown(dim)}; dimensions are positive ints")
    known = tuple(dim for dim in dims if dim is not None)
    _check_size(known, f"{place}: {key}")
    return known


def _check_size(shape: tuple[int, ...], place: str) -> None:
    if len(shape) > MOST_DIMENSIONS:
        raise InputError(f"{place} has {len(shape)} dimensions; at most {MOST_DIMENSIONS} are allowed")
    if math.prod(shape) > MOST_ELEMENTS:
        raise InputError(
            f"{place} {shown(list(shape))} has {shown(math.prod(shape))} elements; at most {MOST_ELEMENTS} are allowed"
        )


def _format(info: Mapping[str, Any], key: str, place: str) -> str | None:
    given = info.get(key)
    if given is None:
        return None
    if not isinstance(given, str):
        raise ArgumentError(f"{place}: {key} is {type_text(given)}; it must be a str such as 'ND'")
    found = FORMATS.get(given.lower())
    if found is None:
        raise InputError(f"{place}: {_unknown(key, given.lower(), FORMATS, 'Known, in any case')}")
    return found


def _dtype(name: object, place: str) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"{place}: dtype is {type_text(name)}; it must be a str such as 'float16'")
    if name not in DTYPES:
        raise InputError(f"{place}: {_unknown('dtype', name, DTYPES, 'Known, case counts')}")
    return DTYPES[name][0]


def _checked_info(info: object, place: str) -> Mapping[str, Any]:
    if not isinstance(info, Mapping):
        raise ArgumentError(f"{place} is {type_text(info)}; it must be a dict with the keys {', '.join(INFO_KEYS)}")
    for key in info:
        if key not in INFO_KEYS:
            raise InputError(
                f"{place}: unknown key {shown(key)}; allowed: {', '.join(INFO_KEYS)}{_near(key, INFO_KEYS)}"
            )
    return info


def _data_file(info: Mapping[str, Any], place: str) -> Path | None:
    if info.get("data_path") is None:
        return None
    return checks.readable_file(info["data_path"], f"{place}: data_path")


def describe(tensor: Any, info: object, place: str, wants_value: bool) -> TensorCall:
    """What the call says of one tensor: from the tensor, its info, or both (the info has the last word)."""
    given = _checked_info({} if info is None else info, place)
    shape, origin = _shape(given, "shape", place), _shape(given, "ori_shape", place)
    storage_format, origin_format = _format(given, "format", place), _format(given, "ori_format", place)
    dtype = None
    if given.get("dtype") is not None:
        dtype = _dtype(given["dtype"], place)
    file = _data_file(given, place)
    own_dtype = None
    if tensor is None:
        if shape is None or dtype is None:
            missing = " and ".join(repr(k) for k, v in (("shape", shape), ("dtype", dtype)) if v is None)
            raise InputError(f"{place}: {missing} must be given, as there is no tensor to take it from")
    else:
        own_shape, own_dtype = _of_tensor(tensor, dtype, place)
        shape = _merged_shape(shape, own_shape, place)
        if dtype and own_dtype and own_dtype != dtype:
            logger.warning("%s: dtype is %s, the tensor's is %s; %s is used", place, dtype, own_dtype, dtype)
        dtype = dtype or own_dtype
    assert shape is not None and dtype is not None
    call = TensorCall(
        dtype=dtype,
        origin_format=origin_format or storage_format or "ND",
        storage_format=storage_format or "ND",
        origin_shape=origin or shape,
        storage_shape=shape,
        value=None,
    )
    if not wants_value:
        if file is not None:
            logger.warning("%s: data_path of an output is not used", place)
        return call
    value: numpy.ndarray | Path | None = _checked_file(file, call, place) if file else None
    if file is None and tensor is not None:
        value = _passed_value(tensor, own_dtype, call, place)
    return TensorCall(**(vars(call) | {"value": value}))


def _of_tensor(tensor: Any, dtype: str | None, place: str) -> tuple[tuple[int, ...], str | None]:
    """Shape and dtype of a tensor; None for a dtype that is unknown but given otherwise."""
    own_shape = tuple(int(dim) for dim in tensor.shape)
    _check_size(own_shape, f"{place}: the tensor's shape")
    name = _dtype_name(tensor)
    if name in DTYPES:
        return own_shape, DTYPES[name][0]
    if dtype is None:
        raise InputError(
            f"{place}: {_unknown('dtype', name, DTYPES)}. Convert the tensor, or name one of these in its info"
        )
    return own_shape, None


def _merged_shape(shape: tuple[int, ...] | None, own: tuple[int, ...], place: str) -> tuple[int, ...]:
    if shape is None:
        return own
    if math.prod(shape) > math.prod(own):
        logger.warning(
            "%s: shape %s has more elements than the tensor of shape %s; its value is not passed",
            place,
            list(shape),
            list(own),
        )
    return shape


def _checked_file(file: Path, call: TensorCall, place: str) -> Path:
    size, needed = file.stat().st_size, call.needed_bytes()
    if needed is not None and size < needed:
        raise InputError(
            f"{place}: data_path {file} has {size} bytes; "
            f"shape {list(call.storage_shape)} of {call.dtype} needs {needed}"
        )
    return file


def _passed_value(tensor: Any, own_dtype: str | None, call: TensorCall, place: str) -> numpy.ndarray | None:
    """The value, where a tiling function may see it: a number type, not relabelled, and not huge."""
    needed = call.needed_bytes()
    if own_dtype != call.dtype or call.dtype not in VALUE_TYPES or not needed:
        return None
    if needed > MOST_VALUE_BYTES:
        logger.info("%s: a value of %d bytes is not passed to the tiling function; data_path passes it", place, needed)
        return None
    value = _value(tensor)
    return value if value.nbytes >= needed else None


def _sides(tensors: object, infos: object, name: str) -> list[list[TensorCall]]:
    """Per parameter of the operator its tensors: one, any number for a list, none for None."""
    for given, label in ((tensors, name), (infos, f"{name}_info")):
        if given is not None and not isinstance(given, (list, tuple)):
            raise ArgumentError(f"{WHO}: {label} is {type_text(given)}; it must be a list, one element a parameter")
        if given is not None and len(given) > MOST_TENSORS:
            raise InputError(f"{WHO}: {label} has {len(given)} elements; at most {MOST_TENSORS} are allowed")
    if tensors is None and infos is None:
        raise InputError(
            f"{WHO}: neither {name} nor {name}_info is given; give at least one ([] for an operator with none)"
        )
    tensor_list: Sequence[Any] = tensors if isinstance(tensors, (list, tuple)) else [None] * len(_listed(infos))
    info_list: Sequence[Any] = infos if isinstance(infos, (list, tuple)) else [None] * len(tensor_list)
    if len(tensor_list) != len(info_list):
        raise InputError(
            f"{WHO}: {name} has {len(tensor_list)} elements and {name}_info {len(info_list)}; they belong together, "
            "one by one (None where there is nothing to say)"
        )
    out = [
        list(_parameter(tensor, info, f"{name}[{index}]", f"{name}_info[{index}]", name == "inputs"))
        for index, (tensor, info) in enumerate(zip(tensor_list, info_list, strict=True))
    ]
    total = sum(map(len, out))
    if total > MOST_TENSORS:
        raise InputError(f"{WHO}: {name} are {total} tensors; at most {MOST_TENSORS} are allowed")
    return out


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else []


def _parameter(tensor: Any, info: Any, place: str, info_place: str, is_input: bool) -> Iterator[TensorCall]:
    if not isinstance(tensor, (list, tuple)) and not isinstance(info, (list, tuple)):
        if tensor is None and info is None:
            return
        _check_tensor(tensor, place, " or a list of them")
        yield describe(tensor, info, f"{WHO}: {place if info is None else info_place}", is_input)
        return
    if tensor is not None and info is not None:
        both = isinstance(tensor, (list, tuple)) and isinstance(info, (list, tuple))
        if not both or len(tensor) != len(info):
            raise InputError(
                f"{WHO}: {place} is {_size_text(tensor)} and {info_place} {_size_text(info)}; "
                "a parameter of several tensors has lists of the same length in both, or None in one"
            )
    several = len(info if tensor is None else tensor)
    for index in range(several):
        one, its_info = tensor and tensor[index], info and info[index]
        where, info_where = f"{place}[{index}]", f"{info_place}[{index}]"
        if one is None and its_info is None:
            raise InputError(f"{WHO}: {where} is None and has no info; give a tensor or a dict in {info_where}")
        _check_tensor(one, where, "")
        yield describe(one, its_info, f"{WHO}: {where if its_info is None else info_where}", is_input)


def _size_text(value: object) -> str:
    return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else type_text(value)


def _check_tensor(value: object, place: str, more: str) -> None:
    if value is not None and not is_tensor(value):
        raise ArgumentError(
            f"{WHO}: {place} is {type_text(value)}; it must be a numpy array, a torch tensor, None{more}"
        )


# ------------------------------------------------------------------------------------------ attributes


def _int_text(value: object, place: str) -> str:
    number = _whole_number(value)
    if number is None:
        raise ArgumentError(f"{place} is {shown(value)}; it must be an int")
    if not -(2**63) <= number < 2**63:
        raise InputError(f"{place} is {shown(number)}; an int must be from -2^63 to 2^63 - 1")
    # The positive part of the smallest number does not fit a C++ literal.
    return f"(int64_t){number}" if number > -(2**63) else "std::numeric_limits<int64_t>::min()"


def _float_text(value: object, place: str) -> str:
    if _is_bool(value) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{place} is {shown(value)}; it must be a float")
    try:
        number = float(value)
    except OverflowError:
        raise InputError(
            f"{place} is {shown(value)}; attributes are 32-bit floats, at most {_LARGEST_FLOAT!r}"
        ) from None
    if math.isnan(number):
        return "std::numeric_limits<float>::quiet_NaN()"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}std::numeric_limits<float>::infinity()"
    if math.isinf(ctypes.c_float(number).value):
        raise InputError(f"{place} is {number!r}; attributes are 32-bit floats, at most {_LARGEST_FLOAT!r}")
    return f"(float){number!r}"


def _bool_text(value: object, place: str) -> str:
    if not _is_bool(value):
        raise ArgumentError(f"{place} is {shown(value)}; it must be a bool")
    return "true" if value else "false"


def _str_text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{place} is {shown(value)}; it must be a str")
    if "\0" in value:
        raise InputError(f"{place} is {shown(value)}; C++ strings end at the character \\0, remove it")
    try:
        return f'std::string{{"{checks.c_string(value)}"}}'
    except InputError:
        raise InputError(f"{place} is {shown(value)}, which has no UTF-8 form; remove half surrogate pairs") from None


@dataclass(frozen=True)
class _Kind:
    """A type of attribute: how one value is spelled, and the C++ type of a list of them."""

    text: Callable[[object, str], str]
    cpp: str


_INT, _FLOAT = _Kind(_int_text, "int64_t"), _Kind(_float_text, "float")
_BOOL, _STR = _Kind(_bool_text, "bool"), _Kind(_str_text, "std::string")
_KINDS: Mapping[str, _Kind] = {
    "bool": _BOOL,
    "float": _FLOAT,
    "float32": _FLOAT,
    "int": _INT,
    "int64": _INT,
    "str": _STR,
    "string": _STR,
}
ATTRIBUTE_DTYPES = (
    *_KINDS,
    *(f"list_{name}" for name in _KINDS),
    "list_list_int",
    "list_list_int64",
)


def _list_text(kind: _Kind, value: object, place: str) -> str:
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{place} is {shown(value)}; it must be a list")
    texts = [kind.text(item, f"{place}[{index}]") for index, item in enumerate(value)]
    return f"std::vector<{kind.cpp}>{{{', '.join(texts)}}}"


def _list_list_text(value: object, place: str) -> str:
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{place} is {shown(value)}; it must be a list of lists of int")
    rows = [_list_text(_INT, row, f"{place}[{index}]") for index, row in enumerate(value)]
    return f"std::vector<std::vector<int64_t>>{{{', '.join(rows)}}}"


def _typed_text(dtype: str, value: object, place: str) -> str:
    if dtype.startswith("list_list_"):
        return _list_list_text(value, place)
    if dtype.startswith("list_"):
        return _list_text(_KINDS[dtype.removeprefix("list_")], value, place)
    return _KINDS[dtype].text(value, place)


def _dtype_of(value: object, place: str) -> str:
    """The dtype that a value of the dict form has by itself."""
    if _is_bool(value):
        return "bool"
    if isinstance(value, str):
        return "str"
    if isinstance(value, numbers.Integral):
        return "int"
    if isinstance(value, numbers.Real):
        return "float"
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(
            f"{place} is {type_text(value)}; it must be an int, bool, str, float, a list of one of them, "
            "or a list of lists of int"
        )
    if not value:
        raise InputError(
            f"{place} is empty, so its type is not known; give attr as a list: "
            "[{'name': ..., 'dtype': 'list_int', 'value': []}]"
        )
    if any(isinstance(item, (list, tuple)) for item in value):
        return "list_list_int"
    kinds = [_dtype_of(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if len(set(kinds)) > 1:
        other = next(index for index, kind in enumerate(kinds) if kind != kinds[0])
        raise ArgumentError(
            f"{place} mixes types: [0] is {kinds[0]}, [{other}] is {kinds[other]}; all must be of one "
            "type (among floats 1.0, not 1)"
        )
    return f"list_{kinds[0]}"


def _checked_name(name: object, place: str) -> str:
    return checks.identifier(name, place)


def _attributes(attr: object) -> list[tuple[str, str]]:
    """(name, C++ text) of each attribute, in order: tiling functions know attributes by position."""
    if attr is None:
        return []
    if isinstance(attr, Mapping):
        out = []
        for key, value in attr.items():
            place = f"{WHO}: attr[{_checked_name(key, f'{WHO}: attr')!r}]"
            out.append((str(key), _typed_text(_dtype_of(value, place), value, place)))
        return out
    if not isinstance(attr, (list, tuple)):
        raise ArgumentError(
            f"{WHO}: attr is {type_text(attr)}; it must be a dict, or a list of dicts (name, dtype, value)"
        )
    names: set[str] = set()
    out = []
    for index, entry in enumerate(attr):
        name, text = _entry(entry, f"{WHO}: attr[{index}]")
        if name in names:
            raise InputError(f"{WHO}: attr[{index}]: the name {name!r} was given before; names are given once")
        names.add(name)
        out.append((name, text))
    return out


def _entry(entry: object, place: str) -> tuple[str, str]:
    keys = ("name", "dtype", "value")
    if not isinstance(entry, Mapping):
        raise ArgumentError(f"{place} is {type_text(entry)}; it must be a dict with the keys {', '.join(keys)}")
    for key in entry:
        if key not in keys:
            raise InputError(f"{place}: unknown key {shown(key)}; allowed: {', '.join(keys)}{_near(key, keys)}")
    for key in keys:
        if key not in entry:
            raise InputError(f"{place}: the key {key!r} is missing; needed: {', '.join(keys)}")
    name = _checked_name(entry["name"], place)
    dtype = entry["dtype"]
    if not isinstance(dtype, str):
        raise ArgumentError(f"{place}: dtype is {type_text(dtype)}; it must be a str such as 'int'")
    if dtype not in ATTRIBUTE_DTYPES:
        raise InputError(f"{place}: {_unknown('dtype', dtype, ATTRIBUTE_DTYPES)}")
    return name, _typed_text(dtype, entry["value"], f"{place}: {name!r}")


# ------------------------------------------------------------------------------------------ the config


def _tiling_library(lib_path: str | os.PathLike[str] | None) -> Path | None:
    if lib_path is None:
        toolkit = os.environ.get("ASCEND_HOME_PATH", "")
        deployed = Path(toolkit, "lib64", "liboptiling.so")
        if not toolkit or not deployed.is_file():
            return None
        lib_path = deployed
    if not isinstance(lib_path, (str, os.PathLike)):
        raise ArgumentError(
            f"{WHO}: lib_path is {type_text(lib_path)}; it must be the path of a tiling library, or None"
        )
    if not os.fspath(lib_path):
        raise InputError(f"{WHO}: lib_path is empty; give the path of a tiling library, or None for the deployed one")
    path = checks.readable_file(lib_path, f"{WHO}: lib_path", limit_bytes=1 << 30)
    checks.trusted(path, f"{WHO}: lib_path")
    return path


class TilingConfig:
    """A call of the tiling function of one operator; ``Launcher(config).code_gen(file)`` writes the C++ that makes it.

    op_type: the operator's name as registered. inputs, outputs: one element a parameter of the operator: a tensor
    (numpy or torch), a list of tensors for a parameter with several, None for an optional one left out. inputs_info,
    outputs_info: dicts in the same places, with the keys ori_shape, shape, ori_format, format, dtype and data_path (a
    file with the value); needed where there is no tensor, and stronger than the tensor where there is one.
    lib_path: the tiling library; None takes $ASCEND_HOME_PATH/lib64/liboptiling.so. attr: a dict, or a list of dicts
    (name, dtype, value), in the order of the operator's definition. soc_version: the chip; None is the one at hand.

    Raises ArgumentError, InputError, FileError or UnsafeError that names the element.
    """

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[Any] | None = None,
        outputs: Sequence[Any] | None = None,
        lib_path: str | os.PathLike[str] | None = None,
        inputs_info: Sequence[Any] | None = None,
        outputs_info: Sequence[Any] | None = None,
        attr: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        soc_version: str | None = None,
    ) -> None:
        self.op_type = checks.identifier(op_type, f"{WHO}: op_type")
        self.soc_version = None
        if soc_version is not None:
            self.soc_version = checks.identifier(soc_version, f"{WHO}: soc_version", "[A-Za-z0-9_-]+")
        self.lib_path = _tiling_library(lib_path)
        self._inputs = _sides(inputs, inputs_info, "inputs")
        self._outputs = _sides(outputs, outputs_info, "outputs")
        self._attributes = _attributes(attr)

    def values(self) -> list[numpy.ndarray | None]:
        """Per input tensor its value, where it goes with the call and is not read from a file."""
        return [
            None if isinstance(tensor.value, Path) else tensor.value for several in self._inputs for tensor in several
        ]

    def generate(self, callers: Callers | None = None) -> str:
        """The C++ text: a library that exports mskpp_tiling, mskpp_error and mskpp_metadata."""
        inputs = [tensor for several in self._inputs for tensor in several]
        outputs = [tensor for several in self._outputs for tensor in several]
        metadata = metadata_line(
            scenario="tiling",
            op_type=self.op_type,
            library=str(self.lib_path or ""),
            soc_version=self.soc_version,
            inputs=len(inputs),
            values=[[i, *place] for i, place in enumerate(places(self.values())) if place],
        )
        return fill(
            "tiling.cpp.in",
            metadata=metadata,
            metadata_string=checks.c_string(metadata),
            op_type=self.op_type,
            library=checks.c_string(str(self.lib_path or "")),
            chip=f'"{self.soc_version}"' if self.soc_version else "nullptr",
            input_count=len(inputs),
            output_count=len(outputs),
            instances=", ".join(str(len(several)) for several in self._inputs),
            inputs="".join(map(_row, inputs)),
            outputs="".join(map(_row, outputs)),
            attributes="".join(f'    builder.AddAttr("{name}", {text});\n' for name, text in self._attributes),
        )

    def written(self, path: Path) -> None:
        """Called when the text of ``generate`` was written: puts the values beside it, where compile_tiling looks."""
        values = values_path(path)
        there = os.path.lexists(values)
        ours = there and _is_ours(values)
        if any(value is not None for value in self.values()):
            if there and not ours:
                raise FileError(
                    f"{WHO}: the values of the inputs are written to {values}, and what is there was not written by "
                    "mskpp; move it away, or write the code to another file"
                )
            self.write_values(values)
        elif ours:
            values.unlink(missing_ok=True)

    def write_values(self, path: Path) -> bool:
        """Writes the values of the inputs where ``places`` says (0600); False, and no file, if there are none."""
        values = self.values()
        wanted = places(values)
        if not any(wanted):
            return False
        data = bytearray(VALUES_MARK)
        for value, place in zip(values, wanted, strict=True):
            if value is not None and place is not None:
                data.extend(bytes(len(VALUES_MARK) + place[0] - len(data)))
                data.extend(value.tobytes())
        checks.write_file(path, bytes(data), WHO)
        return True


def _row(tensor: TensorCall) -> str:
    value, file = "kNone", "nullptr"
    if isinstance(tensor.value, Path):
        value, file = "kInFile", f'"{checks.c_string(str(tensor.value))}"'
    elif tensor.value is not None:
        value = "kGiven"
    origin, storage = (", ".join(map(str, s)) for s in (tensor.origin_shape, tensor.storage_shape))
    return (
        f"    {{ge::DT_{tensor.dtype}, ge::FORMAT_{tensor.origin_format}, ge::FORMAT_{tensor.storage_format}, "
        f"{{{origin}}}, {{{storage}}}, Value::{value}, {file}}},\n"
    )


@dataclass(frozen=True)
class CallMetadata:
    """What the second line of generated tiling code says. ``places``: as of ``places``, one an input."""

    op_type: str
    library: str
    soc_version: str | None
    places: list[list[int] | None]


def read_metadata(source: Path) -> CallMetadata:
    """The second line of a generated file, however long. InputError where it is not as ``generate`` writes it."""
    who = "compile_tiling"
    try:
        with open(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError(f"{who}: {source} is no regular file; give generated tiling code")
            file.readline(_MOST_LINE_BYTES)
            line = file.readline(_MOST_LINE_BYTES)
        found = json.loads(line.removeprefix(b"// mskpp: "))
    except FileError:
        raise
    except OSError as error:
        raise FileError(error.errno, f"{who}: {source} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("scenario") != "tiling":
        raise InputError(f"{who}: {source} is no tiling code; write it with Launcher(TilingConfig(...))")
    try:
        return _checked_metadata(found)
    except InputError as error:
        raise InputError(
            f"{who}: line 2 of {source} is damaged: {error}; write the file anew with Launcher(TilingConfig(...))"
        ) from None


def _checked_metadata(found: Mapping[str, Any]) -> CallMetadata:
    def wrong(key: str, wanted: str) -> InputError:
        return InputError(f"{key} is {shown(found[key]) if key in found else 'missing'}, not {wanted}")

    op_type, library, soc_version = (found.get(key) for key in ("op_type", "library", "soc_version"))
    if not isinstance(op_type, str) or not re.fullmatch("[A-Za-z0-9_]+", op_type):
        raise wrong("op_type", "the name of an operator")
    if not isinstance(library, str) or "\0" in library:
        raise wrong("library", "a path")
    if soc_version is not None and not (isinstance(soc_version, str) and re.fullmatch("[A-Za-z0-9_-]+", soc_version)):
        raise wrong("soc_version", "the name of a chip")
    inputs, values = found.get("inputs"), found.get("values")
    if not isinstance(inputs, int) or not _is_count(inputs, MOST_TENSORS):
        raise wrong("inputs", f"a number from 0 to {MOST_TENSORS}")
    if not isinstance(values, list):
        raise wrong("values", "a list")
    given: list[list[int] | None] = [None] * inputs
    for entry in values:
        if not isinstance(entry, list) or len(entry) != 3 or not all(_is_count(n, 2**62) for n in entry):
            raise InputError(f"values has {shown(entry)}, not [input, offset, bytes]")
        index, offset, size = entry
        if index >= len(given) or given[index] is not None:
            raise InputError(f"values has {shown(entry)}; there are {len(given)} inputs, with one value each")
        if size == 0:
            raise InputError(f"values has {shown(entry)}, a value of 0 bytes")
        given[index] = [offset, size]
    return CallMetadata(op_type, library, soc_version, given)


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_ours(path: Path) -> bool:
    """Whether a file of values is there that mskpp wrote; a link to one is none."""
    try:
        return regular_bytes(path, len(VALUES_MARK), follow_links=False, prefix=True) == VALUES_MARK
    except OSError:
        return False


def check_values(path: Path, needed: int, source: Path) -> None:
    """A file of values, links followed, with at least ``needed`` bytes of them. Raises FileError or InputError."""
    try:
        mark, size = regular_bytes(path, len(VALUES_MARK), prefix=True), path.stat().st_size
    except OSError as error:
        raise FileError(
            error.errno, f"compile_tiling: {path}, the values of the inputs, cannot be read: {error.strerror}"
        ) from None
    anew = f"write it and {source} anew with Launcher(...).code_gen"
    if mark != VALUES_MARK:
        raise InputError(f"compile_tiling: {path} is no file of values that mskpp wrote; {anew}")
    if size - len(VALUES_MARK) < needed:
        raise InputError(
            f"compile_tiling: {path} has fewer than the {needed} bytes of values that {source} needs; {anew}"
        )


def values_path(source: Path) -> Path:
    """Where the values of the inputs of a generated file are."""
    return source.with_name(f"{source.name}.values")


def places(values: Sequence[numpy.ndarray | None]) -> list[list[int] | None]:
    """Where each value lies in the file of values: [offset, bytes], aligned; None where there is none."""
    out: list[list[int] | None] = []
    end = 0
    for value in values:
        if value is None:
            out.append(None)
            continue
        offset = (end + VALUE_ALIGNMENT - 1) // VALUE_ALIGNMENT * VALUE_ALIGNMENT
        out.append([offset, value.nbytes])
        end = offset + value.nbytes
    return out


# ------------------------------------------------------------------------------------------ the chip


def chip_text(soc_version: str | None) -> str:
    """The figures of a chip, as include/mskpp/tiling.h reads them: those of the default chip for an unknown name."""
    from mskpp.core import data

    costs = data.default_costs()
    name = soc_version or costs.name
    if soc_version is not None:
        try:
            costs = costs.load(soc_version, data.search_path())
            name = costs.name
        except InputError:
            logger.warning(
                "%s: no data of chip %r; the tiling function sees the core counts and memory sizes of %s",
                WHO,
                soc_version,
                costs.name,
            )
    figures = {key: costs.attributes.get(key, "") for key in _CHIP_KEYS}
    figures |= {"cube_cores": str(costs.cube_cores), "vector_cores": str(costs.vector_cores)}
    figures["architecture"] = costs.architecture
    return ";".join([f"name={name}", *(f"{key}={value}" for key, value in figures.items() if value)])
