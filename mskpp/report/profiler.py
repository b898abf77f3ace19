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

TOTAL = "Total"
MOST_BYTES = 1 << 30
MOST_ROWS = 1_000  # of the operator that are kept; a row is two columns in the pipe table
_MOST_LINE = 1 << 20
_LONGEST_ROW = 4 << 20
_MOST_OPERATORS = 10_000
_MOST_BEFORE_HEADER = 10
_MOST_ENTRIES = 10_000
_DEEPEST = 4
_LONGEST = 1e15  # 30 years
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
_KINDS_OF_CORE = ("cube", "vector", "plain")
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
    """By pipe (PIPE-M, PIPE-MTE2 ...), of the cube core; and its Total."""
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
        found.pop(TOTAL, None)
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
    def caution(self) -> str:
        """What is to be known of the figures, as a sentence, or ""."""
        if self.rows[0].is_task:
            return (
                "Total is the task's duration, which has the launch in it: the file has no core's time of the operator"
            )
        return "" if self.summary.pipes else "the file has no times of pipes; PipeUtilization.csv has them"

    @property
    def what(self) -> str:
        """What ``summary`` is, as "median of 3 calls"."""
        count = len(self.rows) + self.left_out
        if self.is_of_blocks:
            return f"longest of {count:,} rows of blocks" if count > 1 else "1 block"
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
        names = _listed([str(path.relative_to(folder)) for path in best], 100)
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


def _listed(names: list[str], most: int = 40) -> str:
    shown = ", ".join(f"'{_cut(name, most)}'" for name in names[:_SHOWN])
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
                columns.times.setdefault((_CORES[time[1]], _PIPES.get(time[2], TOTAL)), []).append((at, factor))
            elif name in ("task_duration", "duration") and factor is not None:
                tasks.append((at, factor))
            elif name in ("op_name", "name", "op_type", "type", "block_id", "sub_block_id", "core_id"):
                columns.names.setdefault(name.removeprefix("op_"), at)
        if tasks and "name" in columns.names:  # else it is some other table
            columns.times["", TOTAL] = tasks
        return columns

    @classmethod
    def found(cls, line: str) -> _Columns:
        """As the separator that makes most of the line gives them."""
        return max((cls.of(line, delimiter) for delimiter in ",\t;"), key=lambda one: (len(one.times), len(one.header)))


@dataclass
class _Operator:
    """What was read of one: either rows with a core's time, or rows with the task's."""

    name: str
    rows: list[Row] = field(default_factory=list)
    count: int = 0
    longest: dict[str, Row] = field(default_factory=dict)
    """By the kind of core, of a file with a row a block."""

    def add(self, row: Row) -> None:
        self.count += 1
        if len(self.rows) < MOST_ROWS:
            self.rows.append(row)
        for core in _KINDS_OF_CORE if row.block else ():
            times: Mapping[str, float] = getattr(row, core)
            if times and (core not in self.longest or _total(times) > _total(getattr(self.longest[core], core))):
                self.longest[core] = row

    def summary(self) -> Row:
        if self.longest:
            first = min(self.longest.values(), key=lambda row: row.line)
            longest = {core: getattr(row, core) for core, row in self.longest.items()}
            totals = [times[TOTAL] for times in longest.values() if TOTAL in times]
            return replace(first, total_us=max(totals, default=first.total_us), **longest)
        ordered = sorted(self.rows, key=lambda row: row.total_us or 0.0)
        return ordered[(len(ordered) - 1) // 2]


def _total(times: Mapping[str, float]) -> float:
    """What tells which of two is the longer."""
    return times.get(TOTAL, max(times.values(), default=0.0))


# ---------------------------------------------------------------- the rows


class _Reading:
    """One pass over a file."""

    def __init__(self, path: Path, operator: str | None) -> None:
        self._path = path
        self._name = _cut(path.name)
        self._wanted = None if operator is None else operator.strip()
        self._names: dict[str, str] = {}
        """The operators of the file, with their types."""
        self._measured: dict[str, _Operator] = {}
        self._tasks: dict[str, _Operator] = {}
        self._rows = 0
        self._short = ""
        """Of the first row that ends before the last column of a time."""

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
        raise InputError(
            f"profile: {self._name} has no time of an operator. It has {_listed(names)}; needed are {_NEEDED}"
        )

    def _cells(self, lines: Iterator[str], columns: _Columns, skipped: int) -> Iterator[tuple[int, list[str]]]:
        """The rows that hold something, with the numbers of their lines."""
        last, length = "", 0

        def followed() -> Iterator[str]:
            nonlocal last, length
            for line in lines:
                last = line
                length += len(line)
                if length > _LONGEST_ROW:  # the csv module's own limit may have been raised
                    raise csv.Error(f"a row of more than {_LONGEST_ROW:,} letters")
                yield line

        reader = csv.reader(followed(), delimiter=columns.delimiter, strict=True)
        width = len(columns.header)
        while True:
            number = skipped + reader.line_num + 1
            length = 0
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise InputError(f"profile: {self._name}:{number}: {error}; is a quote not closed?") from None
            if cells is None:
                return
            if not any(map(str.strip, cells)) or (
                cells[0].strip() == columns.header[0] and [cell.strip() for cell in cells] == columns.header
            ):
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
        if not self._short and any(at >= len(cells) for places in columns.times.values() for at, _ in places):
            self._short = f"line {number:,} has {len(cells)} cells under {len(columns.header)} columns"
        name, kind = (_text(cells, columns, what) for what in ("name", "type"))
        if len(self._names) < _MOST_OPERATORS:
            self._names.setdefault(name, kind)
        wanted = None if self._wanted is None else self._wanted.casefold()
        if wanted is not None and wanted not in (name.casefold(), kind.casefold()):
            return
        row = self._row(number, cells, columns, name)
        if row is None:
            return
        operators = self._tasks if row.is_task else self._measured
        if name in operators:
            operators[name].add(row)
        elif len(operators) < _MOST_OPERATORS:
            operators[name] = _Operator(name)
            operators[name].add(row)
        if wanted is None and len(operators) > 1:  # there is a choice to make: their names will do
            for one in operators.values():
                one.rows.clear()
                one.longest.clear()

    def _row(self, number: int, cells: list[str], columns: _Columns, name: str) -> Row | None:
        """None for a row that has no time."""
        times: dict[_Key, float] = {}
        for key, places in columns.times.items():
            before = None
            for at, factor in places:
                text = cells[at] if at < len(cells) else ""
                if not _NUMBER.fullmatch(text):
                    text = text.strip().strip("\"'").strip()
                    if text.lower() in _MISSING:
                        continue
                time_us = self._time(text, number, columns, at) * factor
                if before is not None and time_us != times[key]:
                    names = " and ".join(dict.fromkeys(_cut(columns.header[place]) for place in (before, at)))
                    raise InputError(
                        f"profile: {self._name}:{number}: {names} mean the same and say {times[key]:g} us and "
                        f"{time_us:g} us; leave one of the columns"
                    )
                before, times[key] = at, time_us
        # A core that did not run has zeros, or nothing.
        ran = {core for (core, _), time_us in times.items() if core and time_us > 0}
        cores: dict[str, dict[str, float]] = {core: {} for core in _KINDS_OF_CORE}
        for (core, pipe), time_us in times.items():
            if core in ran:
                cores[core][pipe] = time_us
        totals = [of[TOTAL] for of in cores.values() if TOTAL in of]
        block = " ".join(
            text for what in ("core_id", "block_id", "sub_block_id") if (text := _text(cells, columns, what))
        )
        total = max(totals, default=times.get(("", TOTAL)))
        if not ran and not total:
            return None
        return Row(number, name, block, total, cores["cube"], cores["vector"], cores["plain"], is_task=not ran)

    def _time(self, text: str, number: int, columns: _Columns, at: int) -> float:
        is_grouped = "," in text and columns.delimiter != ";" and _THOUSANDS.fullmatch(text)
        plain = text.replace(",", "") if is_grouped else text
        value = float(plain) if _NUMBER.fullmatch(plain) else math.nan
        if 0 <= value < _LONGEST:
            return value
        column = _cut(columns.header[at])
        where = f"profile: {self._name}:{number}: {column} is '{_cut(text)}'"
        if columns.delimiter == ";" and "," in text:
            raise InputError(f"{where}; in a file with semicolons the comma is ambiguous, write a decimal point")
        raise InputError(f"{where}; a time is a number from 0 to 10^15, or N/A")

    # --- what is given back ---

    def _chosen(self, columns: _Columns) -> Profile:
        operators = self._measured or self._tasks
        if self._wanted is not None and operators:
            wanted = self._wanted
            for equals in (lambda name: name == wanted, lambda name: name.casefold() == wanted.casefold()):
                both = {**self._tasks, **self._measured}
                named = {name: one for name, one in both.items() if equals(name)}
                if named:
                    operators = named
                    break
        if len(operators) > 1:
            raise InputError(
                f"profile: {self._name} has {len(operators):,} operators"
                + (f" of type '{_cut(self._wanted)}'" if self._wanted is not None else "")
                + f"; give one as operator: {_listed(list(operators), 100)}"
            )
        if operators:
            (one,) = operators.values()
            return Profile(str(self._path), one.name, tuple(one.rows), one.count - len(one.rows), one.summary())
        if self._wanted is not None and not self._is_known(self._wanted):
            names = [name for name in self._names if name]
            near = self._nearest(self._wanted)
            meant = f"; did you mean '{_cut(near)}'?" if near else "."
            there = _listed(names, 100) or "none"
            raise InputError(f"profile: {self._name} has no operator '{_cut(self._wanted)}'{meant} It has {there}")
        needed = [columns.header[at] for places in columns.times.values() for at, _ in places]
        if not self._rows:
            raise InputError(f"profile: {self._name} has no row below its columns; export it again")
        of = f" of '{_cut(self._wanted)}'" if self._wanted is not None else ""
        short = f"; {self._short}" if self._short else ""
        raise InputError(
            f"profile: {self._name} has no time in any row{of}; {_listed(needed)} are 0, N/A or empty{short}. "
            "Measure on a device, with PipeUtilization as the metric"
        )

    def _nearest(self, wanted: str) -> str:
        """The operator or type that is most like it, else one that has it within; case does not matter."""
        known: dict[str, str] = {}
        for name in (*self._names, *self._names.values()):
            if name:
                known.setdefault(name.casefold(), name)
        word = wanted.casefold()
        near = difflib.get_close_matches(word, list(known), 1, 0.5)
        within = [name for name in known if len(word) > 1 and (word in name or name in word)]
        return known[near[0]] if near else known[within[0]] if within else ""

    def _is_known(self, wanted: str) -> bool:
        return any(wanted.casefold() in (name.casefold(), kind.casefold()) for name, kind in self._names.items())


def _text(cells: list[str], columns: _Columns, what: str) -> str:
    """The cell of a name, or "" where there is none."""
    at = columns.names.get(what)
    return cells[at].strip() if at is not None and at < len(cells) else ""
