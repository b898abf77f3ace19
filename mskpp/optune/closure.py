# SPDX-License-Identifier: Apache-2.0
"""Files that a compilation may read, as they are now: a source with all that it may include, looked up in folders.

More is looked up than a compiler would: each ``#include``, whatever ``#if`` says, in every folder. Names that are not
there count too. What cannot be told raises Unknown, which says why.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mskpp.launcher import cc, record
from mskpp.launcher.reading import regular_bytes

FORMAT = 1
MOST_FILES = 20_000
MOST_BYTES = 256 << 20
MOST_FILE_BYTES = 64 << 20
MOST_LOOKUPS = 2_000_000


class Unknown(Exception):
    """It cannot be told what is read; the text says why."""


@dataclass(frozen=True)
class Scanned:
    """A file: its digest, and what it includes."""

    digest: str
    size: int
    quoted: tuple[str, ...] = ()  # "name"
    angled: tuple[str, ...] = ()  # <name>
    why: str = ""  # not all that it includes is known


_SPLICE = re.compile(rb"\\[ \t]*\r?\n")
_BLANK = rb"(?:[ \t\f\v]|/\*(?s:.*?)\*/)*"
_INCLUDES = re.compile(
    rb"(?:\#|%:|\?\?=)" + _BLANK + rb"(?:include_next|include|import|embed)\b" + _BLANK
    + rb"(?:\"(?P<quoted>[^\"\n]*)\"|<(?P<angled>[^>\n]*)>|(?P<other>[^\s\"<]))"
)  # fmt: skip
_HAS = re.compile(
    rb"__has_(?:include_next|include|embed)\b(?:"
    + _BLANK
    + rb"\("
    + _BLANK
    + rb"(?:\"(?P<quoted>[^\"\n]*)\"|<(?P<angled>[^>\n]*)>|(?P<other>.)))?",
    re.DOTALL,
)
_ASKED = re.compile(rb"(?:defined[ \t]*\(?|ifn?def|(?:el)?ifn?def|define|undef)[ \t]*\Z")
_LINE_START = re.compile(rb"(?:\A|\n|\*/)[ \t\f\v\r]*\Z")
_BINARY = re.compile(r".*\.(?:so(?:\.[\d.]+)?|o|a|bc|lo)", re.DOTALL)


def includes_of(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """More than what the preprocessor would see: comments and strings count too."""
    if b"\\" in data:
        data = _SPLICE.sub(b"", data)
    names: dict[str, dict[str, None]] = {"quoted": {}, "angled": {}}
    why = ""
    for match in itertools.chain(_INCLUDES.finditer(data), _HAS.finditer(data)):
        kind = match.lastgroup
        if kind in names:
            names[kind][os.fsdecode(match[kind])] = None
            continue
        before = data[max(0, match.start() - 200) : match.start()]
        line = data.count(b"\n", 0, match.start()) + 1
        if match.re is _HAS:
            if not _ASKED.search(before):
                why = why or f"line {line} asks for a file that only its macros name"
        elif _LINE_START.search(before):
            why = why or f"line {line} includes what only its macros name"
    if b".incbin" in data:
        why = why or "it has an .incbin"
    return tuple(names["quoted"]), tuple(names["angled"]), why


Signature = tuple[int, int, int, int, int, int]


def signature_of(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def scan_of(path: str, signature: Signature) -> Scanned:
    """Reads the file whose status was looked at. OSError, ValueError: it cannot be read, or is another one now."""
    data = regular_bytes(Path(path), MOST_FILE_BYTES)
    if signature_of(os.stat(path)) != signature:
        raise OSError(errno.EAGAIN, "it changes while it is read")
    digest = hashlib.sha256(data).hexdigest()
    return Scanned(digest, len(data), *includes_of(data))


scan_once = functools.lru_cache(maxsize=2 * MOST_FILES)(scan_of)


@dataclass
class Look:
    """Collects the files that a digest is made of."""

    began_ns: int = field(default_factory=time.time_ns)
    states: dict[str, str] = field(default_factory=dict)  # by path: digest, absent, folder
    changed_ns: dict[str, int] = field(default_factory=dict)  # of files
    absent_ns: dict[str, int] = field(default_factory=dict)  # of folders in which a name is not
    folders: set[str] = field(default_factory=set)  # of names before links were followed
    bytes: int = 0
    lookups: int = 0
    scans: dict[str, Scanned] = field(default_factory=dict)
    _real: dict[str, str] = field(default_factory=dict)

    def real(self, folder: str) -> str:
        """The folder without links."""
        found = self._real.get(folder)
        if found is None:
            self.folders.add(folder)
            found = self._real[folder] = os.path.realpath(folder)
        return found

    def look(self, path: str, *, is_program: bool = False) -> str | None:
        """The path of the file in a folder without links, where there is a file. Its state counts from now on: its
        content, of programs, objects and libraries (which can be large) size, times and number."""
        folder, _, name = path.rpartition("/")
        if name in (".", ".."):
            folder, name = path, ""
        path = f"{self.real(folder or '/').rstrip('/')}/{name}"
        state = self.states.get(path)
        if state is None:
            self.lookups += 1
            if self.lookups > MOST_LOOKUPS:
                raise Unknown(f"more than {MOST_LOOKUPS:,} names would have to be looked up")
            state = self.states[path] = self._state(path, is_program or _BINARY.fullmatch(path) is not None)
        return path if state not in (record.ABSENT, "folder") else None

    def _state(self, path: str, is_binary: bool) -> str:
        try:
            status = os.stat(path)
        except ValueError:
            raise Unknown(f"{path!r} is a name that no file can have") from None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise Unknown(f"{path!r} cannot be looked at: {error.strerror}") from None
            self._note_absence(path)
            return record.ABSENT
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        if not stat.S_ISREG(status.st_mode):
            raise Unknown(f"{path!r} is no regular file")
        self.changed_ns[path] = status.st_ctime_ns
        if os.path.islink(path):
            with contextlib.suppress(OSError):
                self.changed_ns[path] = max(status.st_ctime_ns, os.lstat(path).st_ctime_ns)
            self.folders.add(os.path.realpath(path))
        if is_binary:
            return f"binary {signature_of(status)}"
        return self._scanned(path, status).digest

    def _scanned(self, path: str, status: os.stat_result) -> Scanned:
        # The clock of the files goes in steps: what has just been changed may change again without a sign.
        is_old = self.began_ns - status.st_ctime_ns > 100_000_000
        try:
            found = (scan_once if is_old else scan_of)(path, signature_of(status))
        except (OSError, ValueError) as error:
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Unknown(f"{path!r} cannot be read: {text}") from None
        self.bytes += found.size
        self.scans[path] = found
        if len(self.scans) > MOST_FILES:
            raise Unknown(f"more than {MOST_FILES:,} files would have to be read")
        if self.bytes > MOST_BYTES:
            raise Unknown(f"more than {MOST_BYTES:,} bytes would have to be read")
        return found

    def _note_absence(self, path: str) -> None:
        """A file that was there until a moment ago shows in the folder where it was."""
        folder = path.rpartition("/")[0] or "/"
        while folder not in self.absent_ns:
            try:
                self.absent_ns[folder] = os.stat(folder).st_ctime_ns
            except OSError:
                if folder == os.path.dirname(folder):
                    return
                folder = os.path.dirname(folder)

    def closure(self, roots: Iterable[str], names: Iterable[str], folders: Sequence[str]) -> None:
        """Looks up the roots, the names along the folders, and all that these may include."""
        waiting = [path for path in map(self.look, roots) if path is not None]
        asked: set[str] = set()

        def along(name: str) -> Iterator[str]:
            if name not in asked:
                asked.add(name)
                for folder in () if name.startswith("/") else folders:
                    yield f"{folder}/{name}"
                if name.startswith("/"):
                    yield name

        for name in names:
            waiting += [found for found in map(self.look, along(name)) if found is not None]
        done: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path in done or path not in self.scans:
                continue
            done.add(path)
            scan = self.scans[path]
            # What kernel.h includes by a macro is given with -D, by toolkits that emulate another.
            if scan.why and not path.startswith(f"{cc.INCLUDE}/"):
                raise Unknown(f"{path}: {scan.why}")
            own = os.path.dirname(path)
            for name in scan.quoted:
                waiting += [p for p in map(self.look, (os.path.join(own, name), *along(name))) if p is not None]
            for name in scan.angled:
                waiting += [p for p in map(self.look, along(name)) if p is not None]

    def state(self, parts: object) -> State:
        digest = hashlib.sha256(json.dumps([FORMAT, parts]).encode())
        for path in sorted(self.states):
            digest.update(b"\0%b\0%b" % (os.fsencode(path), self.states[path].encode()))
        present = frozenset(path for path, state in self.states.items() if state not in (record.ABSENT, "folder"))
        looked = frozenset(map(os.path.dirname, self.states))
        return State(digest.hexdigest(), "", self.changed_ns, self.absent_ns, frozenset(self.folders), present, looked)


@dataclass(frozen=True)
class State:
    """All that compilations of a source read, as it was at one time. ``digest`` is None where that is not known."""

    digest: str | None
    why: str = ""
    changed_ns: Mapping[str, int] = field(default_factory=dict, repr=False)  # of files
    absent_ns: Mapping[str, int] = field(default_factory=dict, repr=False)  # of folders in which a name is not
    folders: frozenset[str] = field(default=frozenset(), repr=False)
    paths: frozenset[str] = field(default=frozenset(), repr=False)  # of files that are there
    looked: frozenset[str] = field(default=frozenset(), repr=False)  # folders where files were looked for

    def changed_since(self, moment: record.Moment, before: State | None = None) -> str:
        """What has changed since the moment, or ""; a link on the way that was turned and a clock that was put back
        count as well.

        A file that has gone shows only in its folder, in which others come and go. That does not count where the
        state was the same ``before``.
        """
        if moment.clock_went_back():
            return "the clock"
        is_same = before is not None and before.digest is not None and before.digest == self.digest
        for path, when in itertools.chain(self.changed_ns.items(), () if is_same else self.absent_ns.items()):
            if when >= moment.real_ns:
                return path
        seen: set[str] = set()
        for folder in self.folders:
            while folder not in seen:
                seen.add(folder)
                with contextlib.suppress(OSError, ValueError):
                    status = os.lstat(folder)
                    if stat.S_ISLNK(status.st_mode) and status.st_ctime_ns >= moment.real_ns:
                        return folder
                folder = os.path.dirname(folder)
        return ""
