# SPDX-License-Identifier: Apache-2.0
"""Files of the profilers msprof and msprof op, and of the framework's: what one operator took, per pipe.

Read are op_summary*.csv, PipeUtilization.csv, kernel_details*.csv and OpBasicInfo.csv of all vintages. Columns are
found by their names, wherever they stand; what is not a time of a core, a pipe or a task is left alone.
"""

from __future__ import annotations

import csv
import difflib
import fnmatch
import io
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mskpp.errors import ArgumentError, FileError, InputError

MOST_BYTES = 1 << 30
MOST_ROWS = 1_000  # of the operator that are kept; a row is two columns in the pipe table
_MOST_LINE = 1 << 20
_MOST_CELL = 131_072  # of the csv module
_MOST_OPERATORS = 10_000
_MOST_BEFORE_HEADER = 10
_MOST_ENTRIES = 10_000
_DEEPEST = 4
_SHOWN = 12

# What a folder of the profiler may hold, the best first.
_KINDS = ("pipeutilization*.csv", "op_summary*.csv", "kernel_details*.csv", "opbasicinfo*.csv")
_PIPES = {
    "mac": "PIPE-M",
    "cube": "PIPE-M",
    "vec": "PIPE-V",
    "mte1": "PIPE-MTE1",
    "mte2": "PIPE-MTE2",
    "mte3": "PIPE-MTE3",
    "fixpipe": "PIPE-FIX",
    "scalar": "PIPE-S",
}
_CORES = {"aicore": "cube", "ai_core": "cube", "aic": "cube", "aiv": "vector", "ai*": "plain", None: "plain"}
_US = {"us": 1.0, "µs": 1.0, "μs": 1.0, "ns": 1e-3, "ms": 1e3, "s": 1e6, "": 1.0}
_TIME = re.compile(rf"(?:(aicore|ai_core|aic|aiv|ai\*)_)?(?:({'|'.join(_PIPES)})_)?(?:exe_)?time")
_HEADING = re.compile(r"([^()]*?)\s*(?:\(\s*([^()]*?)\s*\))?")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_MISSING = frozenset(("", "n/a", "na", "-", "--", "unknown", "undefined", "null", "none"))
_NEEDED = (
    "aicore_time(us), aic_time(us), aiv_time(us), a pipe's time as aic_mte2_time(us) or vec_time(us), or Op Name with "
    "Task Duration(us); PipeUtilization.csv, op_summary*.csv, kernel_details*.csv and OpBasicInfo.csv have them"
)

_Key = tuple[str, str]  # core and pipe; core "" for what belongs to the row


@dataclass(frozen=True)
class Row:
    """A row of the file: a call of the operator, or of ``msprof op`` a block of it. Times in microseconds."""

    line: int
    """In the file, from 1."""
    operator: str
    """"" where the file does not say."""
    block: str
    """As "0 cube0"; "" where a row is a whole call."""
    total_us: float | None
    """The time of the core; of cube and vector cores together the larger."""
    cube: Mapping[str, float]
    """By pipe (PIPE-M, PIPE-MTE2 ...), of the cube core."""
    vector: Mapping[str, float]
    """Of the vector core."""
    plain: Mapping[str, float]
    """Of a chip whose core does both."""
    is_task: bool
    """Whether total_us is the task's duration, which has the launch in it, for want of a core's time."""

    @property
    def pipes(self) -> dict[str, float]:
        """By pipe; where several cores have one, the larger."""
        found: dict[str, float] = {}
        for times in (self.plain, self.cube, self.vector):
            for pipe, time_us in times.items():
                found[pipe] = max(time_us, found.get(pipe, 0.0))
        return found


@dataclass(frozen=True)
class Profile:
    """What a file has of one operator."""

    path: str
    operator: str
    """"" where the file does not say."""
    rows: tuple[Row, ...]
    """In the order of the file; at most 1,000."""
    left_out: int
    """How many rows of the operator came after those."""
    summary: Row
    """One for all: of calls the one of median time, of blocks the longest of each kind of core."""

    @property
    def is_of_blocks(self) -> bool:
        """Whether a row is a block of one call."""
        return bool(self.rows[0].block)

    @property
    def what(self) -> str:
        """What ``summary`` is, as "median of 3 calls"."""
        count = len(self.rows) + self.left_out
        if self.is_of_blocks:
            return f"longest of {count:,} blocks" if count > 1 else "1 block"
        if self.left_out:
            return f"median of the first {len(self.rows):,} of {count:,} calls"
        return f"median of {count:,} calls" if count > 1 else "1 call"


def read_profile(path: str | os.PathLike[str], *, operator: str | None = None) -> Profile:
    """Reads a profiler's file, or the one in a folder PROF_* or OPPROF_*.

    operator: which, by name or else by type (case ignored); needed where the file has several that were measured.
    The rows of an operator that have no core's time are left out; if none has one, the task's duration is the total.
    Raises InputError, with file and line, for what cannot be used, FileError where the system refuses to read it, and
    ArgumentError for arguments of another type.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ArgumentError(f"profile: the path must be a str or a path, got {type(path).__name__}")
    if operator is not None and not isinstance(operator, str):
        raise ArgumentError(f"profile: operator must be a str, got {type(operator).__name__}")
    if operator is not None and not operator.strip():
        raise InputError("profile: operator is empty; give the name of one, or leave it out")
    text = os.fspath(path)
    if not text or "\0" in text:
        raise InputError("profile: the path is empty or has a NUL character")
    file = Path(text)
    try:
        if file.is_dir():
            file = _file_in(file)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"profile: {_cut(file.name)} is no regular file; give a .csv file of msprof")
        if not 0 < status.st_size <= MOST_BYTES:
            raise InputError(f"profile: {_cut(file.name)} is empty or larger than 1 GiB; export fewer operators")
        with file.open("rb") as opened:
            return _Reading(file, operator).profile(opened)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"profile: {_cut(file.name)} cannot be read: {error.strerror or error}") from None


# ---------------------------------------------------------------- the folder


def _file_in(folder: Path) -> Path:
    """The file to read of a folder that the profiler made."""
    found: dict[str, list[Path]] = {kind: [] for kind in _KINDS}
    entries = 0
    for where, folders, files in os.walk(folder, onerror=_refused):
        folders.sort()
        if len(Path(where).relative_to(folder).parts) >= _DEEPEST:
            folders.clear()
        for name in sorted(files):
            for kind in _KINDS:
                if fnmatch.fnmatchcase(name.lower(), kind):
                    found[kind].append(Path(where) / name)
        entries += len(folders) + len(files)
        if entries > _MOST_ENTRIES:
            raise InputError(
                f"profile: folder {_cut(folder.name)} has more than {_MOST_ENTRIES:,} entries; give the file itself"
            )
    best: list[Path] = next((paths for paths in found.values() if paths), [])
    if not best:
        raise InputError(
            f"profile: folder {_cut(folder.name)} has no PipeUtilization.csv, op_summary*.csv, kernel_details*.csv or "
            "OpBasicInfo.csv; give the folder that msprof wrote, or the file itself"
        )
    if len(best) > 1:
        names = _listed([str(path.relative_to(folder)) for path in best])
        raise InputError(f"profile: folder {_cut(folder.name)} has {len(best)} such files; give one of {names}")
    return best[0]


def _refused(error: OSError) -> None:
    raise error


# ---------------------------------------------------------------- the text


def _lines(file: io.BufferedReader, name: str) -> Iterator[str]:
    """The lines of the text, one after the other: the file may be large."""
    start = file.peek(4)[:4]
    encoding = "utf-8-sig"
    if start in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        encoding = "utf-32"
    elif start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    # Names in another encoding do no harm: times are ASCII.
    text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
    read = 0
    for number, line in enumerate(iter(lambda: text.readline(_MOST_LINE), ""), 1):
        read += len(line)
        if "\0" in line:
            raise InputError(
                f"profile: {name}:{number}: a NUL byte; the file is no text, or UTF-16 without a mark. Save it as "
                "UTF-8, comma separated"
            )
        if len(line) == _MOST_LINE or read > MOST_BYTES:
            raise InputError(f"profile: {name}:{number}: the line or file does not end; is it a .csv file of msprof?")
        yield line


def _cut(text: str, most: int = 64) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= most else text[:most] + "..."


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{_cut(name)}'" for name in names[:_SHOWN])
    return shown + (f" ... ({len(names) - _SHOWN:,} more)" if len(names) > _SHOWN else "")


# ---------------------------------------------------------------- the columns


@dataclass
class _Columns:
    """Where in a row stands what is wanted. Two names may mean the same, and a name may be there twice."""

    delimiter: str
    header: list[str]
    times: dict[_Key, list[tuple[int, float]]] = field(default_factory=dict)
    """Positions, with what makes microseconds of the cell."""
    names: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, line: str, delimiter: str) -> _Columns:
        try:
            cells = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter, strict=True), [])
        except csv.Error:
            cells = []
        columns = cls(delimiter, [cell.strip() for cell in cells])
        tasks: list[tuple[int, float]] = []
        for at, cell in enumerate(columns.header):
            matched = _HEADING.fullmatch(cell.replace("\uff08", "(").replace("\uff09", ")").strip(" \t\"'").lower())
            if matched is None:
                continue
            name = re.sub(r"[\s_-]+", "_", matched[1]).strip("_")
            factor = _US.get(matched[2] or "")
            time = _TIME.fullmatch(name)
            if time is not None and (time[1] or time[2]) and factor is not None:
                columns.times.setdefault((_CORES[time[1]], _PIPES.get(time[2], "")), []).append((at, factor))
            elif name in ("task_duration", "duration") and factor is not None:
                tasks.append((at, factor))
            elif name in ("op_name", "name", "op_type", "type", "block_id", "sub_block_id", "core_id"):
                columns.names.setdefault(name.removeprefix("op_"), at)
        if tasks and "name" in columns.names:  # else it is some other table
            columns.times["", ""] = tasks
        return columns

    @classmethod
    def found(cls, line: str) -> _Columns:
        """As the separator that makes most of the line gives them."""
        return max((cls.of(line, delimiter) for delimiter in ",\t;"), key=lambda one: (len(one.times), len(one.header)))


@dataclass
class _Operator:
    """What was read of one."""

    name: str
    type: str
    measured: list[Row] = field(default_factory=list)
    tasks: list[Row] = field(default_factory=list)
    measured_count: int = 0
    tasks_count: int = 0
    longest: dict[str, Row] = field(default_factory=dict)
    """By the kind of core, of a file with a row a block."""

    def add(self, row: Row) -> None:
        if row.is_task:
            self.tasks_count += 1
            if len(self.tasks) < MOST_ROWS:
                self.tasks.append(row)
            return
        self.measured_count += 1
        if len(self.measured) < MOST_ROWS:
            self.measured.append(row)
        for core in ("cube", "vector", "plain") if row.block else ():
            before = self.longest.get(core)
            if getattr(row, core) and (before is None or (row.total_us or 0.0) > (before.total_us or 0.0)):
                self.longest[core] = row

    def forget(self) -> None:
        """Drops the rows, of which only the number is wanted."""
        self.measured, self.tasks, self.longest = [], [], {}


# ---------------------------------------------------------------- the rows


class _Reading:
    """One pass over a file."""

    def __init__(self, path: Path, operator: str | None) -> None:
        self._path = path
        self._name = _cut(path.name)
        self._wanted = None if operator is None else operator.strip()
        self._operators: dict[str, _Operator] = {}
        self._rows = 0

    def profile(self, file: io.BufferedReader) -> Profile:
        lines = _lines(file, self._name)
        columns, skipped = self._header(lines)
        if self._wanted is not None and "name" not in columns.names:
            raise InputError(
                f"profile: {self._name} has no column of operators' names, and operator is '{_cut(self._wanted)}'; "
                "leave it out for this file"
            )
        for number, cells in self._cells(lines, columns, skipped):
            self._take(number, cells, columns)
        return self._chosen(columns)

    def _header(self, lines: Iterator[str]) -> tuple[_Columns, int]:
        """The columns, and the number of the line that has them."""
        first: _Columns | None = None
        number = 0
        for number, line in enumerate(lines, 1):
            columns = _Columns.found(line)
            if columns.times:
                return columns, number
            if first is None and any(columns.header):
                first = columns
            if number >= _MOST_BEFORE_HEADER:
                break
        if first is None:
            raise InputError(f"profile: {self._name} has no columns; needed are {_NEEDED}")
        names = [name for name in first.header if name]
        raise InputError(f"profile: {self._name} has no time of an operator. It has {_listed(names)}; needed are {_NEEDED}")

    def _cells(self, lines: Iterator[str], columns: _Columns, skipped: int) -> Iterator[tuple[int, list[str]]]:
        """The rows that hold something, with the numbers of their lines."""
        last = ""

        def followed() -> Iterator[str]:
            nonlocal last
            for line in lines:
                last = line
                yield line

        reader = csv.reader(followed(), delimiter=columns.delimiter, strict=True)
        width = len(columns.header)
        while True:
            number = skipped + reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise InputError(f"profile: {self._name}:{number}: {error}; is a quote not closed?") from None
            if cells is None:
                return
            if not any(map(str.strip, cells)) or [cell.strip() for cell in cells] == columns.header:
                continue  # blank, or files were put together
            if any(map(str.strip, cells[width:])):
                raise InputError(
                    f"profile: {self._name}:{number}: {len(cells)} cells under {width} columns; a cell with a comma "
                    "needs quotes"
                )
            if len(cells) < width and any(columns.header[len(cells) :]) and not last.endswith(("\n", "\r")):
                raise InputError(
                    f"profile: {self._name}:{number}: the file ends in the middle of a row; export it again, or remove "
                    "the row"
                )
            yield number, cells

    def _take(self, number: int, cells: list[str], columns: _Columns) -> None:
        self._rows += 1
        name, kind = (self._text(cells, columns, what) for what in ("name", "type"))
        if self._wanted is not None and self._wanted.casefold() not in (name.casefold(), kind.casefold()):
            if len(self._operators) < _MOST_OPERATORS:  # for the message, if there is one
                self._operators.setdefault(name, _Operator(name, kind))
            return
        operator = self._operators.get(name)
        if operator is None:
            operator = _Operator(name, kind)
            if len(self._operators) < _MOST_OPERATORS:
                self._operators[name] = operator
        row = self._row(number, cells, columns, name)
        if row is None:
            return
        operator.add(row)
        if self._wanted is None and len(self._operators) > 1:
            for others in (lambda one: one.measured_count, lambda one: one.tasks_count):
                several = [one for one in self._operators.values() if others(one)] if operator.name else []
                if len(several) > 1 and others is not None and row.is_task is (others(operator) == operator.tasks_count):
                    pass

    def _text(self, cells: list[str], columns: _Columns, what: str) -> str:
        at = columns.names.get(what)
        return cells[at].strip() if at is not None and at < len(cells) else ""
