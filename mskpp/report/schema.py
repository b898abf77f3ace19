# SPDX-License-Identifier: Apache-2.0
"""result.json: what a prediction holds as one JSON document, and back. docs/result_json.md explains its fields.

The document's fields are those of the dataclasses below and of mskpp/report/analysis.py: a field that is added there is
written and read without more. SCHEMA grows when a field goes away or changes its meaning, not when one is added.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import stat
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mskpp import __version__
from mskpp.errors import ArgumentError, FileError, InputError, StateError
from mskpp.report.analysis import CoreRoofline, CriticalPath, Gain, Ledger, MemoryUse, Unmeasured
from mskpp.report.compare import Comparison
from mskpp.report.portable import Portable
from mskpp.report.result import Event, Result, Statistic

SCHEMA = 1
KIND = "mskpp result"
MOST_BYTES = 256 << 20
FILE_NAME = "result.json"
_LARGEST = 1 << 64
_SHOWN_BLOCKS = 10
_CURE = "write it anew with mskpp run --out, or chip.result.write_json()"


@dataclass(frozen=True)
class Total:
    """The makespan."""

    cycles: int
    us: float
    """In microseconds."""


@dataclass(frozen=True)
class Document:
    """What result.json holds, beside ``schema`` and ``kind``."""

    mskpp: str
    """The version that made the prediction."""
    chip: str
    clock_mhz: float
    cache_hit_ratio: float | None
    """As ``set_cache_hit_ratio`` set it; null where it changed within the block."""
    total: Total
    bound: str | None
    """The busiest pipe; null for an empty program."""
    instruction_count: int
    """Flags and barriers included."""
    origins: dict[str, int]
    """How many instructions by the origin of their cost."""
    notes: tuple[str, ...]
    """What the chip takes from another chip's tables."""
    warnings: tuple[str, ...]
    """A line for each local memory whose peak exceeds the chip's capacity."""
    pipes: tuple[Statistic, ...]
    """In the order they were first used."""
    instructions: tuple[Statistic, ...]
    """By name, likewise."""
    costs_not_measured: tuple[Unmeasured, ...]
    """Sorted by cycles, the most first."""
    ledger: Ledger
    critical_path: CriticalPath
    what_if: tuple[Gain, ...]
    """Sorted by gain, the most first."""
    roofline: tuple[CoreRoofline, ...]
    memory: tuple[MemoryUse, ...]
    comparison: Comparison | None
    """With a measurement; null where none was given."""


class SavedResult(Portable):
    """A result.json. It has the attributes of ``chip.result``, but the timeline: events() and slack() are errors."""

    def __init__(self, document: Document) -> None:
        self.mskpp_version = document.mskpp
        self.chip = document.chip
        self.clock_mhz = document.clock_mhz
        self.cache_hit_ratio = document.cache_hit_ratio
        self.total_cycles = document.total.cycles
        self.duration_us = document.total.us
        self.bound = document.bound
        self.origins = document.origins
        self.notes = list(document.notes)
        self.warnings = list(document.warnings)
        self.pipes = {pipe.name: pipe for pipe in document.pipes}
        self.instructions = {instruction.name: instruction for instruction in document.instructions}
        self.costs_not_measured = document.costs_not_measured
        self.ledger = document.ledger
        self.critical_path = document.critical_path
        self.what_if = document.what_if
        self.roofline = document.roofline
        self.memory = document.memory
        self.comparison = document.comparison
        self._count = document.instruction_count

    def __len__(self) -> int:
        return self._count

    def events(self) -> Iterator[Event]:
        """Raises StateError: a result.json has no timeline."""
        return _no_timeline("events()")

    def slack(self) -> memoryview:
        """Raises StateError: a result.json has no timeline."""
        return _no_timeline("slack()")


def _no_timeline(what: str) -> NoReturn:
    raise StateError(f"{what}: a result that was loaded has no timeline; run the script again and use chip.result")


# ---------------------------------------------------------------- write


def document_of(result: Result | SavedResult) -> dict[str, Any]:
    """The document as dicts and lists."""
    found = Document(
        mskpp=result.mskpp_version,
        chip=result.chip,
        clock_mhz=result.clock_mhz,
        cache_hit_ratio=result.cache_hit_ratio,
        total=Total(result.total_cycles, result.duration_us),
        bound=result.bound,
        instruction_count=len(result),
        origins=result.origins,
        notes=tuple(result.notes),
        warnings=tuple(result.warnings),
        pipes=tuple(result.pipes.values()),
        instructions=tuple(result.instructions.values()),
        costs_not_measured=result.costs_not_measured,
        ledger=result.ledger,
        critical_path=result.critical_path,
        what_if=result.what_if,
        roofline=result.roofline,
        memory=result.memory,
        comparison=result.comparison,
    )
    return {"schema": SCHEMA, "kind": KIND, **_encoded(found)}


def dump(result: Result | SavedResult) -> str:
    """The document as text: ASCII, a line for each field, so that two can be compared by eye."""
    return json.dumps(document_of(result), indent=1, allow_nan=False) + "\n"


def _encoded(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _encoded(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _encoded(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encoded(item) for item in value]
    return value


# ---------------------------------------------------------------- read


def load_result(path: str | os.PathLike[str]) -> SavedResult:
    """Reads a result.json, or the one in a folder, as ``mskpp run --out`` and ``chip.result.write_json`` write it.

    Fields that this version does not know are left alone. Raises FileError where the system refuses to read it,
    InputError for anything that is not a whole result of this or an earlier schema, ArgumentError for another type.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"load_result: the path must be a str or a path, got {type(path).__name__}")
    where = os.fsdecode(path)
    if os.path.isdir(where):
        folder, where = where, os.path.join(where, FILE_NAME)
        blocks = [] if os.path.lexists(where) else _blocks_in(folder)
        if blocks:
            raise FileError(
                f"load_result: {folder} has blocks {', '.join(map(str, blocks[:_SHOWN_BLOCKS]))}"
                f"{' ...' if len(blocks) > _SHOWN_BLOCKS else ''}: name one, as {os.path.join(folder, str(blocks[0]))}"
            )
    return load(_read(where), os.path.basename(where))


def _blocks_in(folder: str) -> list[int]:
    """The numbers of the folders that mskpp run --out makes of a script with several blocks."""
    try:
        names = [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]
    except OSError:
        return []
    return sorted(int(name) for name in names if os.path.isfile(os.path.join(folder, name, FILE_NAME)))


def _read(path: str) -> bytes:
    name = os.path.basename(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"load_result: {name} is no regular file; give a result.json")
        if status.st_size > MOST_BYTES:
            raise InputError(
                f"load_result: {name} has {status.st_size >> 20:,} MiB; at most {MOST_BYTES >> 20} MiB are read, and a "
                "result.json is far smaller"
            )
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"load_result: {path} cannot be read: {reason}; mskpp run --out writes one") from None


def load(text: str | bytes, name: str = FILE_NAME) -> SavedResult:
    """The result in a document; ``name`` is what messages call it. InputError as load_result."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"load_result: {name} is no JSON ({error}); {_CURE}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        kind = document.get("kind") if isinstance(document, dict) else None
        given = f"its kind is {str(kind)[:64]!r}" if kind is not None else "it has no kind"
        raise InputError(f"load_result: {name} is no result of mskpp: {given}, {KIND!r} is needed; {_CURE}")
    schema = document.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise InputError(f"load_result: {name} has schema {str(schema)[:64]!r}, a whole number from 1 is needed")
    if schema > SCHEMA:
        raise InputError(
            f"load_result: {name} has schema {str(schema)[:64]}, and mskpp {__version__} reads up to {SCHEMA}; use the "
            "mskpp that wrote it, or a newer one"
        )
    try:
        found: Document = _decoded(Document, document)
        for field in ("pipes", "instructions"):
            names = [row.name for row in getattr(found, field)]
            twice = next((one for one in names if names.count(one) > 1), None) if len(set(names)) < len(names) else None
            if twice is not None:
                raise _DamageError(f" has {twice[:64]!r} twice", field)
        _check(found)
    except _DamageError as damage:
        raise InputError(f"load_result: {name} is damaged: {damage}; {_CURE}") from None
    return SavedResult(found)


def _check(found: Document) -> None:
    """What no prediction has."""
    if not found.clock_mhz > 0:
        raise _DamageError(f" is {found.clock_mhz}, a number above 0 is needed", "clock_mhz")
    if not 0 <= found.instruction_count < 1 << 63:
        raise _DamageError(f" is {found.instruction_count}, 0 to 2^63-1 is needed", "instruction_count")
    names = [pipe.name for pipe in found.pipes]
    if found.bound is not None and found.bound not in names:
        raise _DamageError(f" is {found.bound[:64]!r}, which is none of pipes", "bound")
    for field in ("pipes", "instructions"):
        for row in getattr(found, field):
            for name in ("cycles", "bytes", "operations", "count"):
                value = getattr(row, name)
                if value is not None and not 0 <= value < 1 << 63:
                    raise _DamageError(f" of {row.name[:64]!r} is {value}, 0 to 2^63-1 is needed", f"{field}.{name}")


class _DamageError(Exception):
    """What is wrong, and where: the path is put together on the way out, as it is seldom needed."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    def under(self, name: str) -> _DamageError:
        return _DamageError(self.what, f"{name}{'.' if self.path and self.path[0] != '[' else ''}{self.path}")

    def __str__(self) -> str:
        return f"{self.path or 'it'}{self.what}"


@functools.cache
def fields_of(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    """Name and type of each field of a dataclass, and whether it may be missing."""
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (field.name, hints[field.name], field.default is not missing or field.default_factory is not missing)
        for field in dataclasses.fields(kind)
    )


def _decoded(kind: Any, value: Any) -> Any:
    """The value as the type says; _DamageError where it is something else."""
    if kind in (int, float, str, bool):
        return _plain(kind, value)
    parts = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (kind,) = (part for part in parts if part is not type(None))
        return _decoded(kind, value)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value)
    if origin is tuple:
        return _tuple(parts, value)
    if not isinstance(value, dict):  # a mapping
        raise _DamageError(f" is {_shown(value)}, an object is needed")
    found = {}
    for name, item in value.items():
        try:
            found[name] = _decoded(parts[1], item)
        except _DamageError as damage:
            raise damage.under(name[:64]) from None
    return found


def _plain(kind: type, value: Any) -> Any:
    if kind in (str, bool):
        good = isinstance(value, kind)
    else:
        good = isinstance(value, int | float if kind is float else int) and not isinstance(value, bool)
        good = good and -_LARGEST <= value <= _LARGEST and not (isinstance(value, float) and math.isnan(value))
    if not good:
        needed = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[kind]
        raise _DamageError(f" is {_shown(value)}, {needed} is needed")
    return float(value) if kind is float else value


def _dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise _DamageError(f" is {_shown(value)}, an object is needed")
    found = {}
    for name, hint, optional in fields_of(kind):
        if name not in value:
            if optional:
                continue
            raise _DamageError(f" has no {name!r}")
        try:
            found[name] = _decoded(hint, value[name])
        except _DamageError as damage:
            raise damage.under(name) from None
    return kind(**found)


def _tuple(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _DamageError(f" is {_shown(value)}, a list is needed")
    is_endless = parts[-1] is Ellipsis
    if not is_endless and len(value) != len(parts):
        raise _DamageError(f" has {len(value)} items, {len(parts)} are needed")
    found = []
    for at, item in enumerate(value):
        try:
            found.append(_decoded(parts[0] if is_endless else parts[at], item))
        except _DamageError as damage:
            raise damage.under(f"[{at}]") from None
    return tuple(found)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return str(json.dumps(value))[:64]
