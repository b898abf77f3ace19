# SPDX-License-Identifier: Apache-2.0
"""Finished trials, kept at once and found again by everything that a time depends on.

The store is an SQLite file, ``trials.sqlite``, in ``$MSKPP_CACHE_DIR``, else ``$XDG_CACHE_HOME/mskpp``, else
``~/.cache/mskpp``. Processes and threads may share it.

What holds, whatever happens to the file:

1. A hit is what was put under that key. Each record has a checksum over key, content and schema.
2. Nothing that is wrong with the file, its folder or the disk raises. It is a miss, with one warning of each kind for
   each store that is open. A store that cannot be read or written goes on in memory until it is closed.
3. A file that is damaged is moved aside to ``trials.sqlite.damaged-<n>``, and its whole records go into a new one.
   A file of a newer version is left as it is and not used.
4. A put that returned is on the disk. One that was killed is there as a whole or not at all.
5. A store waits at most PATIENCE_SECONDS for others that have the file locked, then goes on without it. An interrupt
   ends the wait.

The journal is SQLite's rollback journal: a write-ahead log needs memory that all its users share, which network file
systems do not have. The price is two synchronisations of the disk for each put.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import fcntl
import hashlib
import itertools
import json
import math
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

from mskpp.errors import ArgumentError, FileError, InputError, MskppError, StateError
from mskpp.launcher import checks
from mskpp.log import logger
from mskpp.optune.results import ENDINGS, MEASURED, plain

WHO = "trial store"
NAME = "trials.sqlite"
SCHEMA = 1
APPLICATION = 0x6D736B70  # "mskp", in the file's header
_NEWER = 100  # versions further ahead than that are damage

MOST_ENTRIES = 100_000  # in the file; those that were not used for longest go first
MOST_IN_MEMORY = 10_000  # where there is no file
MOST_LOG = 16_384  # characters
MOST_REASON = 1_000  # characters
MOST_BYTES = 65_536  # of one record
MOST_DAMAGED = 8  # files moved aside
PRUNE_EVERY = 500  # puts
CHECKED_BYTES = 4 << 20  # a file up to this size is checked as a whole when it is opened, a larger one as it is read
PATIENCE_SECONDS = 20.0
MAKING_SECONDS = 5.0  # how long to wait for another process that makes or mends the file
_DAY = 86_400

PARTS = {
    "sources": "digests of the source and of each file that it includes (tunable.Markers.digests)",
    "script": "digest of the build script, or None",
    "options": "compiler options, in their order",
    "compiler": "backend.identity()",
    "backend": "backend.name",
    "device": "name of the chip or processor",
    "arguments": "of each argument shape, dtype and strides, or type and value of a scalar",
    "blockdim": "number of blocks",
    "kernel": "name of the kernel",
    "template": "template arguments",
    "environment": "what compilers read (backend.environment_key())",
    "method": "how it is measured: version of mskpp, warm-up, repeat, clock, reference",
    "config": "the configuration",
}
LIMITS = "limits"  # an optional part: seconds and bytes that a trial may use
_LIMITED = "-limited"
_KEY = re.compile(f"[0-9a-f]{{64}}(?:{_LIMITED})?")

_TABLE = (
    "CREATE TABLE trials (key BLOB PRIMARY KEY, content BLOB NOT NULL, checksum BLOB NOT NULL, used INTEGER NOT NULL) "
    "WITHOUT ROWID"
)
_COLUMNS = [b"key", b"content", b"checksum", b"used"]
_SELECT = "SELECT key, content, checksum, used FROM trials"
_INSERT = "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?)"
_BESIDE = ("-journal", "-wal", "-shm")  # files of SQLite that belong to one of its databases

_FAILED = object()  # in place of a result

Record = dict[str, Any]
Row = tuple[bytes, bytes, bytes, int]
Result = TypeVar("Result")


# ---------------------------------------------------------------- keys


def key(parts: Mapping[str, object]) -> str:
    """The key of a trial: SHA-256 of its parts in a form in which no two of them look alike.

    ``parts`` must have all the names of PARTS, and may have others. Values: None, bool, int, float, str, bytes, paths,
    numpy scalars, and mappings (their order does not count), lists and tuples of them. 1, 1.0, True and "1" differ.

    With the part ``limits`` the key is for what depends on limits of time or memory, and ends with "-limited"; only
    under such a key a trial that timed out can be kept. Look a trial up without limits first, then with them.
    Raises InputError for a missing part, ArgumentError for a value of another type.
    """
    missing = [name for name in PARTS if name not in parts]
    if missing:
        others = [str(name) for name in parts if name not in PARTS]
        near = difflib.get_close_matches(missing[0], others, 1)
        hint = f"; is {near[0]!r} meant for it?" if near else ""
        raise InputError(f"{WHO}: the key lacks {', '.join(map(repr, missing))} ({PARTS[missing[0]]}){hint}")
    if not parts["sources"]:
        raise InputError(f"{WHO}: the key's sources are {parts['sources']!r}; give {PARTS['sources']}")
    digest = hashlib.sha256()
    for piece in _canonical(dict(parts), "parts", 0):
        digest.update(piece)
    return digest.hexdigest() + (_LIMITED if parts.get(LIMITS) else "")


def _canonical(value: object, where: str, depth: int) -> Iterator[bytes]:
    """A tag for the type, the length, and the value."""
    if depth > 50:
        raise ArgumentError(f"{WHO}: {where} is nested more than 50 deep; give flat values")
    if isinstance(value, Mapping):
        items = sorted(
            (b"".join(_canonical(name, where, depth + 1)), b"".join(_canonical(item, f"{where}[{name!r}]", depth + 1)))
            for name, item in value.items()
        )
        yield b"m%d:" % len(items)
        for name, item in items:
            yield name + item
    elif isinstance(value, list | tuple):
        yield b"l%d:" % len(value)
        for number, item in enumerate(value):
            yield from _canonical(item, f"{where}[{number}]", depth + 1)
    else:
        tag, data = _scalar(value, where)
        yield b"%b%d:%b" % (tag, len(data), data)


def _scalar(value: object, where: str) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, bool):
        return b"b", b"1" if value else b"0"
    if isinstance(value, str | PurePath):
        return b"s", str(value).encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"y", value
    if isinstance(value, int):
        return b"i", b"%x" % int(value)
    if isinstance(value, float):
        return b"f", float(value).hex().encode()
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        python = value.item()
        if isinstance(python, bool | int | float | str | bytes):
            return _scalar(python, where)
    raise ArgumentError(
        f"{WHO}: {where} is {type(value).__name__}, of which a key cannot be made; give numbers, text, bytes, or "
        "lists and dicts of them"
    )


def _checked_key(given: object) -> str:
    if not isinstance(given, str) or not _KEY.fullmatch(given):
        raise InputError(f"{WHO}: the key is {given!r}; give what key() returned")
    return given


# ---------------------------------------------------------------- records


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _wrong_field(record: object) -> str:
    """What keeps the record from being that of a trial, or ""."""
    if not isinstance(record, dict):
        return f"is {type(record).__name__}, no dict"
    types: dict[str, type] = {"ending": str, "config": dict, "reason": str, "log": str, "samples": int}
    for name, kind in types.items():
        if name not in record:
            return f"has no {name!r}"
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            return f"has {name}={record[name]!r:.80}; it must be {kind.__name__}"
    if record["ending"] not in ENDINGS or record["ending"] == "not tried":
        return f"has the ending {record['ending']!r:.80}; finished trials have {', '.join(ENDINGS)} but 'not tried'"
    seconds = record.get("compile_seconds", 0.0)
    if not _is_number(seconds) or seconds < 0 or record["samples"] < 0:
        return f"has compile_seconds={seconds!r:.80}, samples={record['samples']}; they must be numbers from 0"
    times = [record.get(name) for name in ("low_us", "time_us", "high_us")]
    if record["ending"] == MEASURED:
        good = all(_is_number(t) and t > 0 for t in times) and times == sorted(times)  # type: ignore[operator,type-var]
        if not good or record["samples"] < 1:
            return f"has low_us, time_us, high_us = {times}, samples={record['samples']}; they cannot be a measurement"
    elif times != [None] * 3:
        return f"has the ending {record['ending']!r} and times {times}; only what is measured has times"
    return ""


def _cut(text: str, most: int) -> str:
    """The text with its middle left out where it is longer."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n... {len(text) - most // 2 * 2:,} characters are left out ...\n{text[-(most // 2) :]}"


def _content(record: Mapping[str, Any]) -> bytes:
    """The record as it is kept. InputError or ArgumentError when it is none of a finished trial."""
    if not isinstance(record, Mapping):
        raise ArgumentError(f"{WHO}: the record is {type(record).__name__}; it must be a dict")
    short = dict(record)
    for name, most in (("log", MOST_LOG), ("reason", MOST_REASON)):
        if isinstance(short.get(name), str):
            short[name] = _cut(short[name], most)
    try:
        text = json.dumps(short, default=plain, allow_nan=False, separators=(",", ":"))
        wrong = _wrong_field(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{WHO}: the record cannot be written as JSON: {error}") from None
    if wrong:
        raise InputError(f"{WHO}: the record {wrong}")
    return text.encode("ascii")


def depends_on_limits(record: Mapping[str, Any]) -> bool:
    """Whether other limits could have made another trial of it: it timed out, or its field ``limited`` is true."""
    return record.get("ending") == "timed out" or record.get("limited") is True


def checksum(key_bytes: bytes, content: bytes) -> bytes:
    return hashlib.sha256(b"mskpp trial %d %d:%b%b" % (SCHEMA, len(key_bytes), key_bytes, content)).digest()


def _read(row: tuple[Any, ...]) -> Record:
    """The record of a row. ValueError when it is not whole."""
    name, content, check, used = row
    if not isinstance(name, bytes) or not _KEY.fullmatch(name.decode("latin-1")):
        raise ValueError("its key is none")
    if not isinstance(content, bytes) or check != checksum(name, content):
        raise ValueError("its checksum is wrong")
    if not isinstance(used, int):
        raise ValueError("the moment of its last use is no number")
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    wrong = _wrong_field(record)
    if wrong:
        raise ValueError(f"it {wrong}")
    if depends_on_limits(record) and not name.endswith(_LIMITED.encode()):
        raise ValueError("it depends on limits that its key does not have")
    assert isinstance(record, dict)
    return record


# ---------------------------------------------------------------- where


def default_path() -> Path:
    """Where the store lies. InputError when the environment does not say it."""
    given = os.environ.get("MSKPP_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if given is not None:
        origin, text, folder = "MSKPP_CACHE_DIR", given, given
    elif os.path.isabs(base):  # a relative one does not count, as its specification says
        origin, text, folder = "XDG_CACHE_HOME", base, os.path.join(base, "mskpp")
    else:
        origin, text = "HOME", os.environ.get("HOME", "")
        folder = os.path.join(text, ".cache", "mskpp")
    if not os.path.isabs(text):
        raise InputError(f"{WHO}: {origin} is {text!r}; set MSKPP_CACHE_DIR to the absolute path of a folder")
    return Path(_printable(folder, origin), NAME)


def _printable(text: str, origin: str) -> str:
    found = re.search("[\0-\x1f\x7f]", text)
    if found:
        raise InputError(f"{WHO}: {origin} is {text!r}, with the control character {found[0]!r}; use another name")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise InputError(f"{WHO}: {origin} is {text!r}, which no file can be called; use another name") from None
    return text


def _made_folder(folder: Path) -> Path:
    """The folder, made with all that is missing above it; links on the way are followed."""
    real = Path(os.path.realpath(folder))
    missing = list(itertools.takewhile(lambda p: not os.path.exists(p), real.parents))
    for above in reversed(missing):
        checks.make_folder(above, WHO)
    return checks.make_folder(real, WHO)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process or thread at a time makes or replaces the file. Where a file system cannot lock, or somebody holds
    the lock for too long, the work goes on without: it is made of steps that are whole."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    held = False
    end = time.monotonic() + MAKING_SECONDS
    try:
        while not held:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                if time.monotonic() >= end:
                    break
                time.sleep(0.005)
            except OSError:
                break
        yield
    finally:
        if held:  # closing alone would leave the lock to a child that was forked meanwhile
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


# ---------------------------------------------------------------- the file


class _DamageError(Exception):
    """The file is not what the store wrote."""


# What using a file can raise; UnicodeDecodeError where SQLite's message quotes damaged bytes.
_DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_ERRORS = (*_DATABASE_ERRORS, OSError, MskppError, MemoryError)


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


# What SQLite says of the world around the file; all else is the file's fault.
_OUTSIDE = re.compile("locked|readonly|is full|disk I/O|unable to open|permission|locking protocol|large file|memory")


def _is_damage(error: BaseException, path: Path) -> bool:
    if isinstance(error, _DamageError | UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.Error) or isinstance(error, sqlite3.ProgrammingError):
        return False
    if "readonly" in str(error):  # a byte of the header says so, too
        return all(os.access(p, os.W_OK, effective_ids=True) for p in (path, path.parent))
    return not _OUTSIDE.search(str(error))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _File:
    """The store's file and this process's connection to it. Methods raise MskppError, OSError and sqlite3.Error.

    Nothing here opens and closes the file but SQLite: closing any descriptor of a file ends all locks that the process
    has on it.
    """

    def __init__(self, path: Path, warn: Callable[[str, str], None]) -> None:
        self.path = path
        self._warn = warn
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def abandon(self) -> None:
        """After a fork: the connection is the parent's. SQLite allows no use of it here, not even to close it."""
        if self._connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._connection = None

    def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Runs the work on the file that is there now, again while others have it locked."""
        if self._connection is not None:
            status = self._status()
            if status is None or _identity(status) != self._opened:  # replaced or removed
                self.close()
        if self._connection is None:
            self.open()
        assert self._connection is not None
        return _patiently(self._connection, work)

    def _status(self) -> os.stat_result | None:
        try:
            return self.path.lstat()
        except FileNotFoundError:
            return None

    def open(self, damage: str = "") -> None:
        """Connects to the file, which is made where there is none. ``damage``: what is known to be wrong with the file
        that was open."""
        self.close()
        is_mended = False
        folder = _made_folder(self.path.parent)
        with _alone(folder):
            for _ in range(3):
                status = self._status()
                if status is None:
                    self._make(())
                    continue
                if not stat.S_ISREG(status.st_mode):
                    kind = "a link, which is not followed" if stat.S_ISLNK(status.st_mode) else "no regular file"
                    raise FileError(f"{WHO}: {self.path} is {kind}; remove it")
                checks.trusted(self.path, WHO)
                connection = self._connected()
                try:
                    if damage and _identity(status) == self._opened:
                        raise _DamageError(damage)
                    _patiently(connection, lambda c, size=status.st_size: _check(c, size))  # type: ignore[misc]
                except BaseException as error:
                    if not _is_damage(error, self.path):
                        connection.close()
                        raise
                    if is_mended:
                        connection.close()
                        raise FileError(f"{WHO}: {self.path} is damaged as soon as it is made: {error}") from None
                    self._mend(connection, (str(error).splitlines() or ["?"])[-1])
                    is_mended, damage = True, ""
                    continue
                self._connection, self._opened = connection, _identity(status)
                return
        raise FileError(f"{WHO}: {self.path} is gone again as soon as it is made; look at what removes it")

    def _connected(self, path: Path | None = None) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{(path or self.path).as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        connection.text_factory = bytes  # damaged text must not be an error of its own
        return connection

    def _make(self, rows: Iterable[Row], make_room: Callable[[], None] = lambda: None) -> None:
        """A new file with these rows; it appears under its name only when it is whole, after ``make_room``."""
        part = self.path.with_name(f".{self.path.name}-{os.getpid()}-{os.urandom(8).hex()}.part")
        self._sweep()
        try:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            os.fchmod(descriptor, 0o600)  # whatever the umask
            os.close(descriptor)
            with contextlib.closing(self._connected(part)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                connection.execute(_TABLE)
                connection.executemany(_INSERT, rows)
                connection.execute("COMMIT")
            make_room()
            try:
                with contextlib.suppress(FileExistsError):  # another process made one: that is used
                    os.link(part, self.path)
            except OSError:  # a file system without links
                part.rename(self.path)
        finally:
            for name in ("", *_BESIDE):
                Path(f"{part}{name}").unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes unfinished files of processes that were killed."""
        for old in self.path.parent.iterdir():
            if old.name.startswith(f".{self.path.name}-") and ".part" in old.name:
                with contextlib.suppress(OSError):
                    if old.lstat().st_mtime < time.time() - 3600:
                        old.unlink()

    def _mend(self, damaged: sqlite3.Connection, why: str) -> None:
        """Moves the file aside and makes a new one of its whole records."""
        kept: set[bytes] = set()

        def whole_rows(order: str) -> Iterator[Row]:
            with contextlib.suppress(*_DATABASE_ERRORS):
                rows = _patiently(damaged, lambda c: c.execute(f"{_SELECT} ORDER BY key {order}"))
                for row in itertools.islice(rows, MOST_ENTRIES):  # a damaged tree can lead in a circle
                    with contextlib.suppress(ValueError):
                        _read(row)
                        kept.add(row[0])
                        yield row

        def make_room() -> None:
            damaged.close()
            aside, removed = self._moved_aside()
            forgotten = f"; an older {aside.name} was removed, of {MOST_DAMAGED} that are kept" if removed else ""
            self._warn(
                aside.name,
                f"{self.path} is damaged ({why}); it is {aside.name} now, and its {len(kept)} whole records are in a "
                f"new file{forgotten}. What is missing is measured again; remove {aside.name} when it is not needed",
            )

        try:
            # From both ends: each way may stop at the damage.
            self._make(itertools.chain(whole_rows("ASC"), whole_rows("DESC")), make_room)
        finally:
            damaged.close()

    def _moved_aside(self) -> tuple[Path, bool]:
        """Where the file is now, and whether another file had to go for it."""
        names = [self.path.with_name(f"{self.path.name}.damaged-{n}") for n in range(1, MOST_DAMAGED + 1)]
        aside = next((name for name in names if not os.path.lexists(name)), None)
        removed = aside is None
        if aside is None:
            aside = min(names, key=lambda name: name.lstat().st_ctime_ns)
        # The journals first: the new file must not find one.
        for end in (*_BESIDE, ""):
            try:
                os.replace(f"{self.path}{end}", f"{aside}{end}")
            except FileNotFoundError:
                Path(f"{aside}{end}").unlink(missing_ok=True)
        return aside, removed


def _patiently(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Runs the work, again while others have the file locked. Waits here, not in SQLite: an interrupt ends it."""
    end = time.monotonic() + PATIENCE_SECONDS
    pause = 0.0005
    while True:
        try:
            return work(connection)
        except BaseException as error:
            if connection.in_transaction:
                with contextlib.suppress(*_DATABASE_ERRORS):
                    connection.execute("ROLLBACK")
            if not _is_busy(error) or time.monotonic() >= end:
                raise
        # Short: who waits longer than the holder takes between two puts would never get in.
        time.sleep(pause)
        pause = min(2 * pause, 0.004)


def _check(connection: sqlite3.Connection, size: int) -> None:
    """_DamageError or sqlite3.Error when the file is not a whole store of this version."""

    def pragma(text: str) -> Any:
        rows = connection.execute(f"PRAGMA {text}").fetchall()
        return rows[0][0] if rows else None

    application, version = pragma("application_id"), pragma("user_version")
    if size == 0:
        raise _DamageError("it is empty")
    if application != APPLICATION:
        raise _DamageError("it is not a trial store, or its header is damaged")
    if SCHEMA < version < SCHEMA + _NEWER:
        raise FileError(
            f"{WHO}: the file is of a newer mskpp (schema {version}, this one has {SCHEMA}) and is left as it is; set "
            "MSKPP_CACHE_DIR to another folder for this version"
        )
    if version != SCHEMA:
        raise _DamageError(f"its schema is {version}, and {SCHEMA} is used now")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(trials)").fetchall()]
    if columns != _COLUMNS:
        raise _DamageError("its table is another")
    pragma("journal_mode = TRUNCATE")
    pragma("synchronous = NORMAL")
    if size > CHECKED_BYTES:
        return
    found = pragma("quick_check(1)")
    if found != b"ok":
        raise _DamageError(str(found, "utf-8", "replace") if isinstance(found, bytes) else repr(found))
    last = b""
    for row in connection.execute(_SELECT):
        try:
            _read(row)
        except ValueError as error:
            raise _DamageError(f"a record: {error}") from None
        if row[0] <= last:
            raise _DamageError("its records are out of order")
        last = row[0]


def _write(statement: str, *rows: tuple[object, ...]) -> Callable[[sqlite3.Connection], None]:
    """The work of one transaction. Only its first step can find the file locked."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN EXCLUSIVE")
        connection.executemany(statement, rows)
        connection.execute("COMMIT")

    return work


def _prune(connection: sqlite3.Connection) -> None:
    """Forgets what was not used for longest, beyond the bound."""
    (count,) = connection.execute("SELECT count(*) FROM trials").fetchall()[0]
    if count > MOST_ENTRIES:
        _write(
            "DELETE FROM trials WHERE key IN (SELECT key FROM trials ORDER BY used LIMIT ?)", (count - MOST_ENTRIES,)
        )(connection)


# ---------------------------------------------------------------- the store


class Store:
    """Trials by key. It may be used by several threads; after a fork the child goes on with a connection of its own.

    A record is a dict of JSON values with the fields of results.Trial but ``number``; others may be added. The field
    ``limited=True`` says that the ending depends on limits (see key()).
    """

    def __init__(self, path: Path | None, problem: str = "") -> None:
        """Use open()."""
        self._told: set[str] = set()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        # What the file does not hold; None: forgotten, whatever the file holds.
        self._memory: dict[str, bytes | None] = {}
        self._used: set[str] = set()
        self._puts = 0
        self._can_write = True
        self._file = _File(path, self._warn) if path is not None else None
        if problem:
            self._warn_of_memory(problem)

    @classmethod
    def open(cls, path: str | Path | None = None) -> Store:
        """Opens the store's file, made where there is none. ArgumentError when ``path`` is no path, no other error."""
        if path is not None and not isinstance(path, str | Path):
            raise ArgumentError(f"{WHO}: path is {type(path).__name__}; it must be a str or a pathlib.Path, or None")
        try:
            place = default_path() if path is None else Path(os.path.abspath(_printable(os.fspath(path), "path")))
        except (InputError, OSError) as error:
            return cls(None, str(error))
        store = cls(place)
        store._on_disk(lambda connection: None, None, writes=False)
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def path(self) -> Path | None:
        """Of the file; None when the store is in memory only."""
        return self._file.path if self._file is not None and self._can_write else None

    def get(self, key: str) -> Record | None:
        """What was put under the key; None when there is nothing whole."""
        name = _checked_key(key)
        with self._mine():
            if name in self._memory:
                content = self._memory[name]
                return None if content is None else dict(json.loads(content))
            rows = self._on_disk(
                lambda c: c.execute(f"{_SELECT} WHERE key = ?", (name.encode(),)).fetchall(), [], writes=False
            )
            if not rows:
                return None
            try:
                record = _read(rows[0])
            except ValueError as error:
                self._drop(rows[0], error)
                return None
            if abs(time.time() - rows[0][3]) > _DAY:  # not at each hit, which would make each a write
                self._used.add(name)
            return record

    def put(self, key: str, record: Mapping[str, Any]) -> None:
        """Keeps a finished trial, in place of one with that key. Logs are cut.

        InputError for what is no finished trial, and for one that depends on limits under a key without them.
        """
        name = _checked_key(key)
        content = _content(record)
        if depends_on_limits(record) and not name.endswith(_LIMITED):
            raise InputError(f"{WHO}: a trial that {record['ending']!r} needs a key with the part {LIMITS!r}")
        with self._mine():
            if len(content) > MOST_BYTES:
                self._warn("size", f"a record of {len(content):,} bytes is not kept; {MOST_BYTES:,} are allowed")
                return
            row = (name.encode(), content, checksum(name.encode(), content), int(time.time()))
            self._used.discard(name)
            if self._on_disk(_write(_INSERT, row), _FAILED, writes=True) is _FAILED:
                self._remember(name, content)
                return
            self._memory.pop(name, None)
            if self._puts % PRUNE_EVERY == 0:
                self._on_disk(_prune, None, writes=True)
            self._puts += 1

    def forget(self, key: str) -> None:
        """Removes the trial of the key, if there is one."""
        name = _checked_key(key)
        with self._mine():
            self._memory.pop(name, None)
            self._used.discard(name)
            statement = "DELETE FROM trials WHERE key = ?"
            if self._on_disk(_write(statement, (name.encode(),)), _FAILED, writes=True) is _FAILED:
                self._remember(name, None)

    def entries(self) -> Iterator[tuple[str, Record]]:
        """Every key with its record, once each. The store may be used meanwhile."""
        with self._mine():
            memory = dict(self._memory)
        for name, content in memory.items():
            if content is not None:
                yield name, json.loads(content)
        last = b""
        while True:
            with self._mine():
                statement, after = f"{_SELECT} WHERE key > ? ORDER BY key LIMIT 100", (last,)
                # In pages: a statement that is not finished keeps others from writing.
                rows = self._on_disk(lambda c, s=statement, a=after: c.execute(s, a).fetchall(), [], writes=False)  # type: ignore[misc]
            for row in rows:
                if not isinstance(row[0], bytes) or row[0] <= last:  # a damaged tree could lead in a circle
                    return
                last = row[0]
                try:
                    record = _read(row)
                except ValueError as error:
                    with self._mine():
                        self._drop(row, error)
                    continue
                if last.decode() not in memory:
                    yield last.decode(), record
            if not rows:
                return

    def clear(self) -> None:
        """Removes every trial. Files that were moved aside stay."""
        with self._mine():
            self._memory.clear()
            self._used.clear()
            if self._on_disk(_write("DELETE FROM trials", ()), _FAILED, writes=True) is _FAILED:
                self._leave_file()
                return
            self._on_disk(lambda c: c.execute("VACUUM").fetchall(), None, writes=True, quietly=True)

    def close(self) -> None:
        """Gives the file back. What is in memory only is gone."""
        if self._closed:
            return
        with self._mine():
            if self._used and self._can_write:
                now = int(time.time())
                rows = [(now, name.encode()) for name in self._used]
                self._on_disk(
                    _write("UPDATE trials SET used = ? WHERE key = ?", *rows), None, writes=True, quietly=True
                )
            if self._file is not None:
                self._file.close()
            self._closed = True

    # --- one thread at a time, in this process ---

    @contextlib.contextmanager
    def _mine(self) -> Iterator[None]:
        """The store for this thread alone, with a connection of this process."""
        if os.getpid() != self._process:
            # A thread of the parent may have had the lock; here is no other thread yet that has the store.
            self._lock = threading.RLock()
            self._process = os.getpid()
            if self._file is not None:
                self._file.abandon()
        with self._lock:
            if self._closed:
                raise StateError(f"{WHO}: it is closed; open it again")
            yield

    def _on_disk(
        self, work: Callable[[sqlite3.Connection], Any], otherwise: Any, *, writes: bool, quietly: bool = False
    ) -> Any:
        """What the work returns, or ``otherwise`` when the file cannot be used for it."""
        for is_second in (False, True):
            if self._file is None or (writes and not self._can_write):
                return otherwise
            try:
                return self._file.run(work)
            except _ERRORS as error:
                if is_second or not self._mended(error):
                    if not quietly:
                        self._give_up(error, writes)
                    return otherwise
        raise AssertionError

    def _mended(self, error: Exception) -> bool:
        """Whether there is a whole file in place of a damaged one, so that the work can be done once more."""
        assert self._file is not None
        if not _is_damage(error, self._file.path):
            return False
        try:
            self._file.open(damage=str(error))
            return True
        except _ERRORS as further:
            self._give_up(further, False)
            return False

    def _give_up(self, error: Exception, writing: bool) -> None:
        """Goes on in memory; as long as only writing fails, the file is still read."""
        if self._file is None:
            return
        text = str(error)
        if _is_busy(error):
            text = f"{self._file.path} was locked by another process for {PATIENCE_SECONDS:g} s"
        elif isinstance(error, sqlite3.Error) or str(self._file.path) not in text:
            text = f"{self._file.path}: {text.removeprefix(f'{WHO}: ')}"
        self._can_write = False
        if not writing:
            self._leave_file()
        self._warn_of_memory(text)

    def _leave_file(self) -> None:
        if self._file is not None:
            with contextlib.suppress(*_DATABASE_ERRORS):
                self._file.close()
        self._file = None
        self._can_write = False

    def _drop(self, row: tuple[Any, ...], why: ValueError) -> None:
        """Removes a record that is not whole, so that another can be put there."""
        self._warn("record", f"a record is damaged and removed: {why}. Its trial is measured again")
        self._on_disk(_write("DELETE FROM trials WHERE key = ?", (row[0],)), None, writes=True, quietly=True)

    def _remember(self, name: str, content: bytes | None) -> None:
        self._memory.pop(name, None)
        self._memory[name] = content
        if len(self._memory) > MOST_IN_MEMORY:
            self._memory.pop(next(iter(self._memory)))

    def _warn_of_memory(self, text: str) -> None:
        self._warn("memory", f"{text.removeprefix(f'{WHO}: ')}. Trials are kept in memory only, and will be lost")

    def _warn(self, kind: str, text: str) -> None:
        """Once for each kind."""
        if kind not in self._told:
            self._told.add(kind)
            logger.warning("%s: %s", WHO, text)
