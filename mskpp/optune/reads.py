# SPDX-License-Identifier: Apache-2.0
"""What compilations read, so that a time that is known is used again only for what it was measured of.

    readings = Readings(backend, build_script, options, source, Manifest.open(), compiler=backend.identity())
    before = readings.state()                     # of what is there now; before.digest is None where it is not known
    began = record.Moment.now()                   # then the candidate's source is written, and
    observed = readings.observation(private, launch, library)
    compile_alone(..., observed=observed.environment)
    after = readings.learned(observed, began)     # under its digest, if it has one, the trial can be kept

What is read is only known when a compiler ran. So commands are observed: a front of the compiler's name stands first on
PATH, notes its arguments, and becomes the compiler. What a build script did once (Reads) is remembered (Manifest); the
next time the files that it leads to are looked up as they are then (State). The built-in command is known beforehand.

What a digest covers:

1. The source and all that it may include: each ``#include``, whatever ``#if`` says, in *every* folder that a command or
   a variable names, whatever their order. Names that are not there count as well: a file that appears changes it.
2. Files that commands name: other sources, objects, libraries, response files. Binaries by size and times.
3. The commands themselves, in which the paths of the candidate have names of their own.
4. The build script, scripts that it sources, files that it names, and the values of the variables that it names.
5. The folder that it runs in, what a toolkit says of its version, and the compiler's file.

What it does not: the system's headers and libraries and the compiler's own, which the compiler's identity stands for;
headers beside them that shadow what only *they* include; the text of generated launch code, which follows from the
kernel's signature and mskpp's version; files outside the toolkit that the toolkit's own scripts read; changes of a
compiler that a wrapper of its name calls.

Nothing is guessed: what cannot be told makes the digest None, and ``why`` says what it was. That is so for scripts that
run programs of which it is not known what they read (cmake, make, python), for a compiler that is called by its path,
names of files that are made when the script runs, patterns (``*.cpp``), and ``#include`` of a macro.
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
import shlex
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mskpp import __version__
from mskpp.errors import InputError, MskppError
from mskpp.launcher import backend as backends
from mskpp.launcher import cc, checks, record
from mskpp.launcher.reading import regular_bytes
from mskpp.log import logger
from mskpp.optune import store

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

WHO = "autotune"
FORMAT = 1
MOST_FILES = 20_000
MOST_BYTES = 256 << 20
MOST_FILE_BYTES = 64 << 20
MOST_COMMANDS = 200
MOST_LOOKUPS = 2_000_000
MOST_KEPT = 1_000  # files of a manifest
MOST_KEPT_BYTES = 1 << 20  # of one of them
MOST_VALUES = 64  # of a word of a script
MOST_SCRIPTS = 20  # that source one another
MOST_RESPONSE_FILES = 20
MOST_STEPS = 100_000  # of finding out what words of a script stand for
MOST_SCRIPT_BYTES = 256 << 10

LAUNCH_CODE_NAMES = ("cstdint", "cstdio", "exception", "type_traits", "mskpp/kernel.h")  # that it includes
COMPILERS = ("bisheng", "mskpp-cc")
# In remembered commands, for the paths of the candidate that was compiled. No path and no argument begins with this.
SOURCE, OUTPUT, PRIVATE = "\x01source", "\x01output", "\x01private"
INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
# Of what compilers, linkers and bash do, besides backend.environment_key().
VARIABLES = (
    ("CCC_OVERRIDE_OPTIONS", "GCC_COMPARE_DEBUG", "LD_LIBRARY_PATH", "LD_PRELOAD", "SOURCE_DATE_EPOCH", "CDPATH")
    + ("GLOBIGNORE", "HOME", "POSIXLY_CORRECT", "BASHOPTS", "SHELLOPTS", "LD_RUN_PATH", "MAKEFLAGS")
)  # fmt: skip
# Where a toolkit says of which version it is: the number of the compiler may stay as it was.
VERSION_FILES = (
    "version.cfg",
    "version.info",
    "compiler/version.info",
    "runtime/version.info",
    "ascend_toolkit_install.info",
)

# A shell is there faster than Python, and NUL between the fields needs no quoting. The names are odd because a variable
# that the build exports must not change.
FRONT = """\
#!/bin/sh
# Notes how the compiler is called, and becomes it.
set -f
mskpp_front_real=
mskpp_front_path=$PATH:
while [ -n "$mskpp_front_path" ]; do
    mskpp_front_folder=${{mskpp_front_path%%:*}}
    mskpp_front_path=${{mskpp_front_path#*:}}
    [ -n "$mskpp_front_folder" ] || mskpp_front_folder=.
    if [ -f "$mskpp_front_folder/{name}" ] && [ -x "$mskpp_front_folder/{name}" ] \\
            && ! [ "$mskpp_front_folder/{name}" -ef {here}/{name} ]; then
        mskpp_front_real=$mskpp_front_folder/{name}
        break
    fi
done
{{
    printf '%s\\0' begin "$mskpp_front_real" "$PWD" "${{CPATH-}}" "${{CPLUS_INCLUDE_PATH-}}" "${{C_INCLUDE_PATH-}}" \\
        "$#" "$@" end >> {log}/$$
}} 2> /dev/null
if [ -z "$mskpp_front_real" ]; then
    echo "{name}: not found on PATH" >&2
    exit 127
fi
exec "$mskpp_front_real" "$@"
"""
_FIELDS = 7  # before the arguments


class _Unknown(Exception):
    """It cannot be told what is read; the text says why."""


# ---------------------------------------------------------------------------------------------------- files as they are


@dataclass(frozen=True)
class _Scanned:
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


def _includes(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...], str]:
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


def _signature(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _scan(path: str, signature: Signature) -> _Scanned:
    """Reads the file whose status was looked at. OSError, ValueError: it cannot be read, or is another one now."""
    data = regular_bytes(Path(path), MOST_FILE_BYTES)
    if _signature(os.stat(path)) != signature:
        raise OSError(errno.EAGAIN, "it changes while it is read")
    digest = hashlib.sha256(data).hexdigest()
    return _Scanned(digest, len(data), *_includes(data))


_scan_once = functools.lru_cache(maxsize=2 * MOST_FILES)(_scan)


@dataclass
class _Look:
    """Collects the files that a digest is made of."""

    began_ns: int = field(default_factory=time.time_ns)
    states: dict[str, str] = field(default_factory=dict)  # by path: digest, absent, folder
    changed_ns: dict[str, int] = field(default_factory=dict)  # of files
    absent_ns: dict[str, int] = field(default_factory=dict)  # of folders in which a name is not
    folders: set[str] = field(default_factory=set)  # of names before links were followed
    bytes: int = 0
    lookups: int = 0
    scans: dict[str, _Scanned] = field(default_factory=dict)
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
                raise _Unknown(f"more than {MOST_LOOKUPS:,} names would have to be looked up")
            state = self.states[path] = self._state(path, is_program or _BINARY.fullmatch(path) is not None)
        return path if state not in (record.ABSENT, "folder") else None

    def _state(self, path: str, is_binary: bool) -> str:
        try:
            status = os.stat(path)
        except ValueError:
            raise _Unknown(f"{path!r} is a name that no file can have") from None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise _Unknown(f"{path!r} cannot be looked at: {error.strerror}") from None
            self._note_absence(path)
            return record.ABSENT
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        if not stat.S_ISREG(status.st_mode):
            raise _Unknown(f"{path!r} is no regular file")
        self.changed_ns[path] = status.st_ctime_ns
        if os.path.islink(path):
            with contextlib.suppress(OSError):
                self.changed_ns[path] = max(status.st_ctime_ns, os.lstat(path).st_ctime_ns)
            self.folders.add(os.path.realpath(path))
        if is_binary:
            return f"binary {_signature(status)}"
        return self._scanned(path, status).digest

    def _scanned(self, path: str, status: os.stat_result) -> _Scanned:
        # The clock of the files goes in steps: what has just been changed may change again without a sign.
        is_old = self.began_ns - status.st_ctime_ns > 100_000_000
        try:
            found = (_scan_once if is_old else _scan)(path, _signature(status))
        except (OSError, ValueError) as error:
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise _Unknown(f"{path!r} cannot be read: {text}") from None
        self.bytes += found.size
        self.scans[path] = found
        if len(self.scans) > MOST_FILES:
            raise _Unknown(f"more than {MOST_FILES:,} files would have to be read")
        if self.bytes > MOST_BYTES:
            raise _Unknown(f"more than {MOST_BYTES:,} bytes would have to be read")
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
                raise _Unknown(f"{path}: {scan.why}")
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


# ------------------------------------------------------------------------------------------------------------- commands


@dataclass(frozen=True)
class Command:
    """One call of a compiler; paths of the candidate are SOURCE, OUTPUT and PRIVATE."""

    program: str  # "" where it is the backend's own
    folder: str
    variables: tuple[str, ...]  # of INCLUDE_VARIABLES
    arguments: tuple[str, ...]


_QUOTE, _AHEAD, _FORCED, _LIBRARIES, _LIBRARY, _NOTHING, _INNER = range(7)
_VALUED = {
    "-iquote": _QUOTE, "-isystem": _AHEAD, "-cxx-isystem": _AHEAD, "-idirafter": _AHEAD,
    "--include-directory-after": _AHEAD, "--include-directory": _AHEAD, "-stdlib++-isystem": _AHEAD,
    "-internal-isystem": _AHEAD, "-internal-externc-isystem": _AHEAD, "-c-isystem": _AHEAD,
    "-include": _FORCED, "--include": _FORCED, "-imacros": _FORCED, "--imacros": _FORCED,
    "--library-directory": _LIBRARIES, "-MF": _NOTHING, "-MT": _NOTHING, "-MQ": _NOTHING, "-MJ": _NOTHING,
    "-mllvm": _NOTHING, "-Xaicore": _NOTHING, "-Xpreprocessor": _INNER, "-Xclang": _INNER, "-Xlinker": _NOTHING,
    "-I": _AHEAD, "-L": _LIBRARIES, "-l": _LIBRARY, "-D": _NOTHING, "-U": _NOTHING, "-x": _NOTHING, "-u": _NOTHING,
    "-z": _NOTHING,
}  # fmt: skip
# Options that read files in ways that are not followed.
_UNFOLLOWED = re.compile(
    r"-I-|-B.*|--?sysroot.*|-isysroot.*|--?config.*|--?specs.*|-fplugin.*|-fpass-plugin.*|-fprofile-(?:use|instr-use|samp"
    r"le).*|-fauto-profile.*|-fbranch-probabilities|-iwithprefix.*|-iprefix.*|-fmodule.*|-F.*|-ivfsoverlay.*|-wrapper|-T.*"
    r"|-include-p[ct]h.*|-working-directory.*|--?gcc-toolchain.*|--?gcc-install-dir.*|-resource-dir.*|-imultilib.*"
    r"|--prefix.*|-finput-charset.*|-no-canonical-prefixes|-fuse-ld=.*|--ld-path.*|-load|-add-plugin|-iframework.*|-isystem-after.*"
)
_PREFIX_MAPS = re.compile(r"-f(?:debug|file|macro|profile|coverage)-prefix-map=.*")


@dataclass
class _Parsed:
    """What commands read, made out of their arguments."""

    look: _Look
    folders: dict[str, None] = field(default_factory=dict)
    forced: dict[str, None] = field(default_factory=dict)
    roots: dict[str, None] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)  # that have names of the candidate
    outputs: set[str] = field(default_factory=set)
    response_files: int = 0

    def command(self, command: Command) -> None:
        self._at = command.folder
        self._library_folders: list[str] = []
        self._library_names: list[str] = []
        if command.program:
            self.look.look(command.program, is_program=True)
        for value in command.variables:
            if value:
                for folder in value.split(os.pathsep):
                    self._folder(folder or ".")
        self._words(list(command.arguments))
        for folder, name in itertools.product(self._library_folders, self._library_names):
            if not folder.startswith("\x01"):
                self.roots[os.path.join(folder, name)] = None

    def _path(self, text: str) -> str:
        return text if text.startswith("\x01") else os.path.join(self._at, text)

    def _folder(self, text: str) -> None:
        path = self._path(text)
        if not path.startswith(PRIVATE):  # it holds what is generated only
            self.folders[path] = None

    def _words(self, words: list[str]) -> None:
        waiting = words
        while waiting:
            word = waiting.pop(0)
            if word.startswith("@") and len(word) > 1:
                inner = self._response(word[1:])
                if inner is not None:
                    waiting[:0] = inner
                    continue
            if _UNFOLLOWED.fullmatch(word):
                raise _Unknown(f"what the compiler's option {word} reads is not followed")
            if word == "-o" or (word.startswith("-o") and not word.startswith("-object")):
                self.outputs.add(self._path(word[2:] or (waiting.pop(0) if waiting else "")))
            elif word.startswith("-Wp,"):
                waiting[:0] = [part for part in word.split(",")[1:] if part]
            elif word.startswith("-Wl,"):
                for part in word.split(",")[1:]:
                    self._maybe_file(part.rpartition("=")[2], folders=True)
            elif word.startswith("-"):
                self._option(word, waiting)
            elif word:
                self._input(word)

    def _option(self, word: str, waiting: list[str]) -> None:
        # The longest name that fits: -include is no -I.
        name = next((n for n in sorted(_VALUED, key=len, reverse=True) if word.startswith(n)), "")
        if name.startswith("--") and word != name and not word.startswith(f"{name}="):
            name = ""
        if not name:
            value = word.partition("=")[2]
            if value:
                self._maybe_file(value, folders=_PREFIX_MAPS.fullmatch(word) is not None)
            return
        value = word[len(name) :] or (waiting.pop(0) if waiting else "")
        if name.startswith("--"):
            value = value.removeprefix("=")
        kind = _VALUED[name]
        if kind in (_QUOTE, _AHEAD):
            if value.startswith("="):
                raise _Unknown(f"what the compiler's option {word} reads is not followed")
            self._folder(value)
        elif kind == _FORCED:
            self.forced[value] = None
            self.roots[self._path(value)] = None
        elif kind == _LIBRARIES:
            self._library_folders.append(self._path(value))
        elif kind == _LIBRARY:
            names = [value[1:]] if value.startswith(":") else [f"lib{value}.so", f"lib{value}.a"]
            self._library_names += names
        elif kind == _INNER:
            waiting.insert(0, value)
        elif name != "-D":
            self._maybe_file(value.rpartition("=")[2], folders=True)

    def _input(self, word: str) -> None:
        path = self._path(word)
        if path.startswith("\x01"):
            self.inputs.add(path)
        else:
            self.roots[path] = None

    def _maybe_file(self, text: str, *, folders: bool) -> None:
        """An option's value that may name a file."""
        if not text or text.startswith("\x01"):
            return
        path = self._path(text)
        with contextlib.suppress(OSError, ValueError):
            if os.path.isdir(path) and not folders:
                raise _Unknown(f"what the compiler reads in the folder {text} of an option is not followed")
        if "/" in text or os.path.lexists(path):
            self.look.look(path)

    def _response(self, text: str) -> list[str] | None:
        """The words in the file; None where there is none, and the word means itself."""
        path = self._path(text)
        if path.startswith("\x01"):
            raise _Unknown(f"the response file @{text} is made when the script runs")
        self.response_files += 1
        if self.response_files > MOST_RESPONSE_FILES:
            raise _Unknown(f"there are more than {MOST_RESPONSE_FILES} response files")
        found = self.look.look(path)
        if found is None:
            return None
        try:
            return shlex.split(os.fsdecode(regular_bytes(Path(found), MOST_KEPT_BYTES)))
        except (OSError, ValueError) as error:
            raise _Unknown(f"the response file {text} cannot be read: {error}") from None

    def check(self) -> None:
        """Whether all that was compiled is known."""
        if SOURCE not in self.inputs:
            raise _Unknown("no compilation of the source was seen; call bisheng or mskpp-cc by its name, from PATH")
        if OUTPUT not in self.outputs:
            raise _Unknown("no compilation to the output was seen; call bisheng or mskpp-cc by its name, from PATH")
        for path in sorted(self.inputs - self.outputs - {SOURCE}):
            raise _Unknown(f"what {path[1:]} holds, which the script made, is not known")


@dataclass(frozen=True)
class Reads:
    """How a source is compiled: every call of a compiler. Another candidate of the same search has the same ones."""

    commands: tuple[Command, ...]

    def to_json(self) -> str:
        """Canonical, in ASCII."""
        rows = [[c.program, c.folder, list(c.variables), list(c.arguments)] for c in self.commands]
        return json.dumps([FORMAT, rows], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Reads:
        """ValueError for what is none."""
        try:
            version, rows = json.loads(text)
            commands = tuple(Command(p, f, tuple(v), tuple(a)) for p, f, v, a in rows)
        except (ValueError, TypeError, RecursionError):
            raise ValueError("it is no record of compilations") from None
        words = [w for c in commands for w in (c.program, c.folder, *c.variables, *c.arguments)]
        if version != FORMAT or not all(isinstance(word, str) for word in words):
            raise ValueError("it is no record of compilations")
        return cls(commands)

    @classmethod
    def of_command(cls, backend: backends.Backend, options: Sequence[str], *, shared: bool = True) -> Reads:
        """Of the backend's own command. Raises what its compile_command() raises."""
        words = backend.compile_command(Path("/" + SOURCE), Path("/" + OUTPUT), options, shared=shared)
        words = [word.removeprefix("/") if word in ("/" + SOURCE, "/" + OUTPUT) else word for word in words]
        front = [str(part) for part in words[:3]]
        own = 3 if backend.name == "host" and front[2:] == [cc.__file__] else 1
        program = "" if own == 3 else words[0]
        values = tuple(os.environ.get(name, "") for name in INCLUDE_VARIABLES)
        return cls((Command(program, os.getcwd(), values, tuple(words[own:])),))

    def state(self, source: str | Path, *, names: Sequence[str] = (), script: Script | None = None) -> State:
        """All that a compilation of the source would read, as it is now.

        ``names``: what the launch code includes besides the source. ``script``: what the build script depends on.
        """
        look = _Look()
        try:
            if script is not None:
                look = script.look_again()
            parsed = _Parsed(look)
            for command in self.commands:
                parsed.command(command)
            parsed.check()
            if cc.INCLUDE.is_dir():
                parsed.folders[str(cc.INCLUDE)] = parsed.folders[str(cc.INCLUDE / "host")] = None
            roots = [os.path.abspath(source), *parsed.roots]
            look.closure(roots, [*parsed.forced, *names], list(parsed.folders))
        except _Unknown as error:
            return State(None, str(error))
        values = {name: os.environ.get(name) for name in VARIABLES}
        return look.state([self.to_json(), values, "" if script is None else script.digest])


# ---------------------------------------------------------------------------------------------------------- observation


class Observation:
    """The compilers that one compilation calls. ``folder`` is the candidate's own, which it may fill."""

    def __init__(
        self, folder: Path, source: Path, output: Path, before: State | None = None, problem: str = ""
    ) -> None:
        self.folder = folder
        self._problem = problem  # why it is of no use
        self.before = before  # the compilation
        self._source = source
        self._output = output
        self._place = folder / f"observed-{os.urandom(4).hex()}"
        self._tools = ""
        self.why = "nothing was compiled"

    @property
    def dependencies(self) -> Path:
        """What mskpp-cc says that it read."""
        return self._place / "dependencies"

    def environment(self, given: dict[str, str]) -> dict[str, str]:
        """The environment of the compilation: with the fronts first on PATH. As given where they cannot be made, or
        are of no use: what cmake finds, for example, it writes down."""
        if self._problem:
            self.why = self._problem
            return given
        try:
            for name in ("bin", "log"):
                (self._place / name).mkdir(parents=True, mode=0o700)
            path = given.get("PATH", os.defpath)
            for name in COMPILERS:
                if shutil.which(name, path=path) is None:
                    continue
                front = self._place / "bin" / name
                here, log = (shlex.quote(str(self._place / part)) for part in ("bin", "log"))
                front.write_text(FRONT.format(here=here, log=log, name=name), "utf-8", "surrogateescape")
                front.chmod(0o700)
        except OSError as error:
            self.why = f"compilers cannot be observed: {error.strerror}"
            return given
        self._tools = path.split(os.pathsep)[0]
        changed = {**given, "PATH": f"{self._place / 'bin'}{os.pathsep}{path}"}
        return {**changed, "MSKPP_DEPENDENCIES": str(self.dependencies)}

    def reads(self) -> Reads | None:
        """What was called; None where that is not known, and ``why`` says what is missing."""
        try:
            commands = sorted(self._commands(), key=repr)
            if not commands:
                raise _Unknown("no compiler was seen; call bisheng or mskpp-cc by its name, from PATH")
            self.why = ""
            return Reads(tuple(dict.fromkeys(commands)))
        except _Unknown as error:
            self.why = str(error)
        return None

    def _commands(self) -> Iterator[Command]:
        log = self._place / "log"
        try:
            files = sorted(log.iterdir())
            total = 0
            for file in files:
                fields = os.fsdecode(regular_bytes(file, MOST_KEPT_BYTES, follow_links=False)).split("\0")
                if fields.pop() != "" or not fields:
                    raise _Unknown("a call of the compiler was not noted as a whole")
                while fields:
                    total += 1
                    if total > MOST_COMMANDS:
                        raise _Unknown(f"the compiler was called more than {MOST_COMMANDS} times")
                    count = int(fields[6])
                    call, fields = fields[: _FIELDS + count + 1], fields[_FIELDS + count + 1 :]
                    if call[0] != "begin" or call[-1] != "end" or len(call) != _FIELDS + count + 1:
                        raise _Unknown("a call of the compiler was not noted as a whole")
                    yield self._named(call[1], call[2], call[3:6], call[_FIELDS:-1])
        except (OSError, ValueError, IndexError):
            raise _Unknown("a call of the compiler was not noted as a whole") from None

    def _named(self, program: str, folder: str, variables: list[str], arguments: list[str]) -> Command:
        if any("\x01" in word for word in (program, folder, *variables, *arguments)):
            raise _Unknown("an argument of the compiler has the control character \\x01")
        names = []
        for path, name in ((self._source, SOURCE), (self._output, OUTPUT), (self.folder, PRIVATE)):
            names += [(text, name) for text in {str(path), os.path.realpath(path)}]
        names.sort(key=lambda pair: -len(pair[0]))

        def named(word: str) -> str:
            for path, name in names:
                word = re.sub(re.escape(path) + r"(?![\w.-])" if name == PRIVATE else re.escape(path), name, word)
            return word

        if os.path.dirname(program) == self._tools and os.path.basename(self._tools).startswith("mskpp-bin-"):
            program = ""  # the backend's own front, in a folder of this compilation
        return Command(program, named(folder), tuple(map(named, variables)), tuple(map(named, arguments)))


# --------------------------------------------------------------------------------------------------------- build script

# Commands of which nothing that they read goes into what is compiled.
_PURE = frozenset(
    ("echo", "printf", "set", "shopt", "mkdir", "rm", "rmdir", "export", "local", "declare", "typeset", "readonly")
    + ("unset", "shift", "exit", "return", "true", "false", ":", "dirname", "basename", "pwd", "chmod", "touch")
    + ("sleep", "wait", "ulimit", "umask", "nproc", "uname", "break", "continue", "read", "getopts", "let", "cd")
    + ("pushd", "popd", "tee")
)
# Commands that read the files that they name.
_READERS = frozenset(
    ("cat", "cp", "mv", "ln", "head", "tail", "grep", "egrep", "fgrep", "sed", "cut", "tr", "sort", "uniq", "wc")
    + ("md5sum", "sha256sum", "diff", "cmp", "stat", "test", "[", "realpath", "readlink", "file")
)
_FINDERS = frozenset(("which", "type", "hash"))  # that look for programs
_BEFORE = frozenset(("exec", "command", "builtin", "time", "nohup"))
_SETS = frozenset(("read", "getopts", "let", "mapfile", "readarray", "printf"))
_CHANGING = frozenset(("RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "BASHPID", "PPID", "HOSTNAME"))
_NAMED = re.compile(rb"\$\{?[#!]?([A-Za-z_]\w*)")
_TESTED = re.compile(rb"-v[ \t]+\"?([A-Za-z_]\w*)")
_FILE_TEST = re.compile("-[abcdefghkprsuwxGLNOS]")
_PATTERN = re.compile(r"(?<!\\)[*?\[]")

Values = frozenset[str]


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="surrogateescape")


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)


def _inside(node: Node, *kinds: str) -> bool:
    above = node.parent
    while above is not None:
        if above.type in kinds:
            return True
        above = above.parent
    return False


class Script:
    """What a build script depends on besides the source: see the module. ``digest`` is None where it is not known."""

    def __init__(self, path: str | Path, toolkit: str | None = None) -> None:
        self.path = os.path.abspath(path)
        self.digest: str | None = None
        self.why = ""
        self._toolkit = None if toolkit is None else os.path.realpath(toolkit)
        self._look = _Look()
        self._files: dict[str, None] = {}
        self._programs: dict[str, None] = {}
        self._variables: set[str] = set(VARIABLES)
        self._scripts: dict[str, None] = {}
        self._given: dict[str, list[tuple[str, Node]]] = {}  # what variables are given, and in which file
        self._moving: set[str] = set()  # variables that get what is not followed
        self._functions: set[str] = set()
        self._positional = True
        self._steps = 0
        self._sets_unknown = False  # a script that is not followed may set variables
        self._places: set[str] | None = set()  # where it may look for files
        try:
            here = os.getcwd()
            self._places.add(here)
            self._follow()
            values = {name: os.environ.get(name) for name in sorted(self._variables)}
            patterns = [
                name for name, value in values.items() if name not in VARIABLES and _PATTERN.search(value or "")
            ]
            if patterns:
                raise _Unknown(f"{self.path}: ${patterns[0]} is a pattern, which may match other files each time")
            self._look_into(self._look)
            states = sorted(self._look.states.items())
            parts = json.dumps([FORMAT, self.path, here, values, states])
            self.digest = hashlib.sha256(parts.encode()).hexdigest()
        except _Unknown as error:
            self.why = str(error)
        except FileNotFoundError:
            self.why = "the current folder is gone"
        except RecursionError:
            self.why = f"{self.path}: it has too many things within one another"

    def look_again(self) -> _Look:
        """A new look that has the script's files in it."""
        look = _Look()
        self._look_into(look)
        return look

    def _look_into(self, look: _Look) -> None:
        for path in self._programs:
            look.look(path, is_program=True)
        for path in self._files:
            look.look(path)

    def _follow(self) -> None:
        if os.environ.get("BASH_ENV"):
            raise _Unknown("BASH_ENV is set: what it names is read before the script")
        self._variables |= {name for name in os.environ if name.startswith("BASH_FUNC_")}
        self._scripts[self.path] = None
        seen: list[str] = []
        done: list[tuple[str, Node]] = []
        while len(self._scripts) > len(seen):  # sourced ones come to its end
            path = list(self._scripts)[len(seen)]
            seen.append(path)
            self._files[path] = None
            if self._is_toolkit(path):
                self._sets_unknown = True
                continue
            root = self._parsed(path)
            done.append((path, root))
            for node in _walk(root):
                self._learn(path, node)
            # Sourced scripts may set variables that others use, so they are all learned before anything is judged.
            self._find_sourced(path, root)
        for path, root in done:
            for node in _walk(root):
                if node.type == "command" and not _inside(node, "command_substitution", "process_substitution"):
                    self._moves(path, self._words(node))
        for path, root in done:
            for node in _walk(root):
                self._judge(path, node)

    def _is_toolkit(self, path: str) -> bool:
        return self._toolkit is not None and os.path.realpath(path).startswith(self._toolkit + os.sep)

    def _parsed(self, path: str) -> Node:
        try:
            text = regular_bytes(Path(path), MOST_SCRIPT_BYTES)
        except (OSError, ValueError) as error:
            raise _Unknown(f"{path} cannot be read: {error}") from None
        root = _parser().parse(text).root_node
        if root.has_error:
            raise _Unknown(f"{path}: its syntax is not understood as a whole")
        if b"${!" in text:
            raise _Unknown(f"{path}: it uses variables by names that are made when it runs (${{!...}})")
        self._variables |= {name.decode() for name in (*_NAMED.findall(text), *_TESTED.findall(text))}
        changing = sorted(self._variables & _CHANGING)
        if changing:
            raise _Unknown(f"{path}: it uses ${changing[0]}, which is another one each time")
        return root

    def _learn(self, path: str, node: Node) -> None:
        if node.type == "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None or value is None:
                return
            base = _text(name).partition("[")[0]
            adds = any(child.type == "+=" for child in node.children)
            if adds or "[" in _text(name) or value.type == "array":
                self._moving.add(base)
            self._given.setdefault(base, []).append((path, value))
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            if name is not None:
                values = node.children_by_field_name("value")
                self._given.setdefault(_text(name), []).extend((path, value) for value in values)
                if not values:
                    self._moving.add(_text(name))
        elif node.type == "function_definition":
            name = node.child_by_field_name("name")
            self._functions.add("" if name is None else _text(name))
        elif node.type in ("arithmetic_expansion", "c_style_for_statement") or _text(node)[:2] == "((":
            names = set(re.findall(r"[A-Za-z_]\w*", _text(node)))
            self._moving |= names
            self._variables |= names
        elif node.type == "command":
            words = [_text(child) for child in node.named_children]
            if words and words[0] in _SETS:
                self._moving |= {word for word in words[1:] if re.fullmatch(r"[A-Za-z_]\w*", word)}
            keeps = all(re.match(r"[-+]\w|pipefail$", word) for word in words[1:])
            if words[:1] == ["shift"] or (words[:1] == ["set"] and not keeps):
                self._positional = False

    def _find_sourced(self, path: str, root: Node) -> None:
        for node in _walk(root):
            words = self._words(node) if node.type == "command" else []
            if words and _text(words[0]) in ("source", "."):
                for found in self._named_files(path, node, words[1:2]):
                    if os.path.lexists(found):
                        self._scripts[found] = None
                    self._files[found] = None
                if len(words) > 2:
                    self._positional = False
                if len(self._scripts) > MOST_SCRIPTS:
                    raise _Unknown(f"{path}: more than {MOST_SCRIPTS} scripts are sourced")

    @staticmethod
    def _words(command: Node) -> list[Node]:
        return [
            child
            for child in command.named_children
            if child.type not in ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect")
        ]

    def _where(self, path: str, node: Node) -> str:
        return f"{path} line {node.start_point[0] + 1}"

    def _judge(self, path: str, node: Node) -> None:
        """Notes what the node reads. _Unknown where that cannot be told."""
        if node.type == "command":
            self._command(path, node, self._words(node))
        elif node.type == "declaration_command" and not node.named_children:
            raise _Unknown(f"{self._where(path, node)}: {_text(node)} lists all variables")
        elif node.type == "process_substitution":
            raise _Unknown(f"{self._where(path, node)}: <( ) and >( ) are not followed")
        elif node.type == "file_redirect":
            if re.match(r"\d*<(?!&)", _text(node)):
                self._read(path, node, node.named_children[-1:])
        elif node.type == "unary_expression" and _inside(node, "test_command"):
            if node.children and _FILE_TEST.fullmatch(_text(node.children[0])):
                self._read(path, node, node.named_children[1:] or node.named_children)
        elif node.type == "binary_expression" and _inside(node, "test_command"):
            if re.search(r"\s-(?:nt|ot|ef)\s", _text(node)):
                raise _Unknown(f"{self._where(path, node)}: it compares times of files")
        elif node.type in ("word", "extglob_pattern") and _PATTERN.search(_text(node)) and not self._is_text(node):
            raise _Unknown(f"{self._where(path, node)}: {_text(node)} may match other files each time")

    def _is_text(self, node: Node) -> bool:
        """Whether a pattern is compared with texts, or only says what is removed."""
        if _inside(node, "test_command", "case_statement", "case_item", "expansion", "arithmetic_expansion"):
            # A command within is found by its own words.
            return not _inside(node, "command") or _inside(node, "test_command", "expansion")
        above = node.parent
        while above is not None and above.type != "command":
            above = above.parent
        words = [] if above is None else self._words(above)
        return bool(words) and _text(words[0]) == "rm"

    def _command(self, path: str, node: Node, words: Sequence[Node], functions: bool = True) -> None:
        if not words:
            return
        where = self._where(path, node)
        for name in sorted(self._values(path, words[0]) or [""], key=lambda one: (-len(one), one)):
            if name in COMPILERS or name in ("source", ".") or (functions and name in self._functions):
                continue
            if os.path.basename(name) in COMPILERS:
                raise _Unknown(f"{where}: the compiler is called by its path ({name}) and not seen; call it by name")
            if name in _BEFORE:
                rest = [word for word in words[1:] if not _text(word).startswith("-")]
                if name == "command" and any(_text(word) in ("-v", "-V") for word in words[1:]):
                    self._find(path, node, rest)
                else:
                    self._command(path, node, rest, functions=False)
            elif name in _FINDERS:
                self._find(path, node, [word for word in words[1:] if not _text(word).startswith("-")])
            elif name == "set" and len(words) == 1:
                raise _Unknown(f"{where}: set lists all variables")
            elif name == "trap":
                code = {_text(word) for word in words[1:2]}
                if not all(re.fullmatch(r"'(?:rm -r?f [^;&|`()]*|)'|-|\"rm -r?f [^;&|`()]*\"", one) for one in code):
                    raise _Unknown(f"{where}: what trap runs is not followed")
            elif name in _READERS:
                self._read(path, node, words[1:])
            elif name not in _PURE:
                shown = name or _text(words[0])
                raise _Unknown(f"{where}: it runs {shown}, of which it is not known what it reads")

    def _moves(self, path: str, words: Sequence[Node]) -> None:
        """Notes where a command may go to: files are looked for in all these folders."""
        if not words or _text(words[0]) not in ("cd", "pushd", "popd"):
            return
        for word in words[1:]:
            values = self._values(path, word)
            if values is None or self._places is None:
                self._places = None
                return
            bases = set(self._places)
            self._places |= {os.path.join(base, value) for base in bases for value in values if value[:1] != "-"}
            if len(self._places) > MOST_VALUES:
                self._places = None

    def _find(self, path: str, node: Node, words: Sequence[Node]) -> None:
        """Where programs are is told by each folder of PATH."""
        for word in words:
            values = self._values(path, word)
            if values is None:
                raise _Unknown(f"{self._where(path, node)}: which program is looked for is known only when it runs")
            if values & frozenset(COMPILERS) and not self._is_quiet(node):
                raise _Unknown(
                    f"{self._where(path, node)}: it asks where the compiler is, which is observed in its place"
                )
            for name in values - frozenset(COMPILERS):
                for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
                    self._programs[os.path.abspath(os.path.join(folder, name))] = None

    @staticmethod
    def _is_quiet(node: Node) -> bool:
        """Whether what the command says goes nowhere."""
        above = node.parent
        if above is not None and above.type == "negated_command":
            above = above.parent
        redirected = "" if above is None or above.type != "redirected_statement" else _text(above)
        return re.search(r"(?:\s|\s1|&)>\s*/dev/null", redirected) is not None

    def _read(self, path: str, node: Node, words: Sequence[Node]) -> None:
        for found in self._named_files(path, node, words):
            self._files[found] = None

    def _named_files(self, path: str, node: Node, words: Sequence[Node]) -> Iterator[str]:
        """The files that the words may name."""
        for word in words:
            if word.type in ("file_redirect", "test_operator"):
                continue
            values = self._values(path, word)
            if values is None:
                raise _Unknown(f"{self._where(path, node)}: what {_text(word)[:80]} names is known only when it runs")
            for value in values:
                if not value or value.startswith(("\x01", "-")) or "\n" in value or len(value) > 4000:
                    continue
                if os.path.isabs(value):
                    yield value
                elif self._places is None:
                    raise _Unknown(f"{self._where(path, node)}: {value} is looked for in a folder that is not known")
                else:
                    yield from (os.path.join(place, value) for place in self._places)

    # Words

    def _values(self, path: str, node: Node, depth: int = 0) -> Values | None:
        """The texts that a word may stand for; None: that is not known."""
        kind = node.type
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _Unknown(f"{path}: it has too many variables within one another")
        if depth > 20:
            return None
        if kind in ("word", "number", "variable_name", "string_content", "test_operator", "special_variable_name"):
            text = _text(node)
            if text == "~" or text.startswith("~/"):
                return frozenset([os.environ.get("HOME", "") + text[1:]])
            return frozenset([re.sub(r"\\(.)", r"\1", text)])
        if kind == "raw_string":
            return frozenset([_text(node)[1:-1]])
        if kind in ("simple_expansion", "expansion"):
            return self._expanded(path, node, depth)
        if kind == "command_substitution":
            return self._substituted(path, node, depth)
        if kind in ("concatenation", "string", "command_name"):
            children = [child for child in node.children if child.type != '"']
            if kind == "string" and sum(len(child.text or b"") for child in children) != len(node.text or b"") - 2:
                return None  # blanks between expansions belong to no part
            parts = [self._values(path, child, depth + 1) for child in children]
            found: set[str] = {""}
            for part in parts:
                if part is None or len(found) * len(part) > MOST_VALUES:
                    return None
                found = {one + more for one in found for more in part}
            return frozenset(found)
        return None

    def _variable(self, path: str, node: Node, name: str, depth: int) -> Values | None:
        if name in ("0", "BASH_SOURCE"):
            return frozenset([self.path if name == "0" else path])
        if name in ("1", "2"):
            if not self._positional or _inside(node, "function_definition"):
                return None
            return frozenset([SOURCE if name == "1" else OUTPUT])
        if name == "PWD":
            return None if self._places is None else frozenset(self._places)
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in self._moving or self._sets_unknown:
            return None
        found = {os.environ.get(name, "")}  # until, or unless, the script gives it another
        for place, value in self._given.get(name, ()):
            if place == path and value.start_byte <= node.start_byte < value.end_byte:
                continue  # in terms of itself
            values = self._values(place, value, depth + 1)
            if values is None or len(found) + len(values) > MOST_VALUES:
                return None
            found |= values
        return frozenset(found)

    def _expanded(self, path: str, node: Node, depth: int) -> Values | None:
        text = _text(node)
        match = re.fullmatch(r"\$(\w+)|\$\{(\w+)(?:\[0\])?(?::?-(?P<other>.*))?\}", text, re.DOTALL)
        if match is None:
            return None
        found = self._variable(path, node, match[1] or match[2], depth + 1)
        if found is None or match["other"] is None:
            return found
        name = node.named_children[0]
        for child in node.named_children:
            if child is not name and child.start_byte > name.end_byte:
                values = self._values(path, child, depth + 1)
                if values is None or _text(child).strip("\"'") != match["other"].strip("\"'"):
                    return None
                found |= values
        return found

    def _substituted(self, path: str, node: Node, depth: int) -> Values | None:
        """$(dirname X), $(cd X && pwd) and the like."""
        inner = node.named_children
        if len(inner) == 1 and inner[0].type == "list":
            inner = inner[0].named_children
        if not all(child.type == "command" for child in inner) or not inner:
            return None
        words = self._words(inner[0])
        arguments = [word for word in words[1:] if not _text(word).startswith("-")]
        name = _text(words[0]) if words else ""
        values = self._values(path, arguments[0], depth + 1) if len(arguments) == 1 else None
        if len(inner) == 2 and name == "cd" and re.fullmatch(r"pwd(?: -[LP])?", _text(inner[1])):
            name = "realpath"
        elif len(inner) != 1:
            return None
        if name == "pwd" and not arguments:
            return None if self._places is None else frozenset(self._places)
        if values is None or self._places is None:
            return None
        if name == "dirname":
            return frozenset(PRIVATE if v in (SOURCE, OUTPUT) else os.path.dirname(v) or "." for v in values)
        if name == "echo":
            return values
        if name in ("realpath", "readlink"):
            return frozenset(
                v if v.startswith("\x01") else os.path.realpath(os.path.join(place, v))
                for v in values
                for place in self._places
            )
        return None


def _parser() -> Parser:
    from mskpp.launcher import script_scan

    return script_scan._parser()


# ------------------------------------------------------------------------------------------------------------- manifest


class Manifest:
    """What compilations read, by what is known before them: a small file for each, in a folder beside the trials.

    Nothing that is wrong with the folder or a file raises: then nothing is known, and the rest goes on in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, str] = {}

    @classmethod
    def open(cls) -> Manifest:
        """The one beside the trial store, which says itself what is wrong with its folder."""
        try:
            return cls(store.default_path().parent / "reads")
        except InputError:
            return cls(None)

    def known(self, key: str) -> Reads | None:
        """What was remembered under the key; None where there is nothing, or where candidates differed."""
        text = self._text(key)
        if not text:
            return None
        try:
            return Reads.from_json(text)
        except ValueError:
            return None

    def remember(self, key: str, reads: Reads) -> bool:
        """Keeps it. False, now and later, where it is not the same as what is kept under the key."""
        text = reads.to_json()
        before = self._text(key)
        if before is not None and before != text:
            self._write(key, "")
            return False
        if before is None:
            self._write(key, text)
        return True

    def _text(self, key: str) -> str | None:
        """What is kept: "" for what differed."""
        if key in self._memory:
            return self._memory[key]
        if self._folder is None:
            return None
        try:
            data = regular_bytes(self._folder / key, MOST_KEPT_BYTES, follow_links=False)
            check, text = data.decode("ascii").split("\n", 1)
        except (OSError, ValueError):
            return None
        if check != _check(key, text):
            return None
        self._memory[key] = text
        return text

    def _write(self, key: str, text: str) -> None:
        if len(self._memory) >= MOST_KEPT:
            self._memory.pop(next(iter(self._memory)))
        self._memory[key] = text
        if self._folder is None or len(text) > MOST_KEPT_BYTES - 100:
            return
        try:
            checks.make_folder(self._folder, WHO)
            checks.write_file(self._folder / key, f"{_check(key, text)}\n{text}", WHO)
            self._prune()
        except (OSError, MskppError) as error:
            logger.debug("%s: what compilations read is not kept: %s", WHO, error)
            self._folder = None

    def _prune(self) -> None:
        assert self._folder is not None
        files = [path for path in self._folder.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name)]
        if len(files) > MOST_KEPT:
            for old in sorted(files, key=lambda path: path.lstat().st_mtime_ns)[: len(files) - MOST_KEPT]:
                old.unlink(missing_ok=True)


def _check(key: str, text: str) -> str:
    return hashlib.sha256(f"mskpp reads {FORMAT} {key} {text}".encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------ all of it


class Readings:
    """What the candidates of one search read. Methods may be called by several threads; none raises MskppError but
    what the backend's compile_command() raises.

    ``source`` is the kernel's, as the user wrote it. ``names``: what launch code includes besides it; () for a
    program, which is not ``shared``.
    """

    def __init__(
        self,
        backend: backends.Backend,
        build_script: str | Path | None,
        options: Sequence[str],
        source: str | Path,
        manifest: Manifest,
        *,
        compiler: str,
        names: Sequence[str] = LAUNCH_CODE_NAMES,
        shared: bool = True,
    ) -> None:
        self._backend = backend
        self._build_script = build_script
        self._options = list(options)
        self._source = os.path.abspath(source)
        self._manifest = manifest
        self._compiler = compiler
        self._names = tuple(names)
        self._shared = shared
        self._home = os.environ.get("ASCEND_HOME_PATH") if backend.name == "ascend" else None

    def state(self) -> State:
        """All that a candidate would read, as it is now; not known before a script's first compilation."""
        script, key = self._script()
        if script is None:
            reads = self._own()
            return self._of(reads, None) if reads is not None else State(None, "the current folder is gone")
        if script.digest is None:
            return State(None, script.why)
        known = self._manifest.known(key)
        if known is None:
            return State(None, "it has not been seen yet what the build script compiles, or it differed")
        return self._of(known, script)

    def observation(self, folder: Path, source: Path, output: Path) -> Observation:
        """For the compilation of launch code to an output, both in the candidate's own folder. To be made before."""
        script, _ = self._script()
        return Observation(folder, source, output, self.state(), "" if script is None else script.why)

    def learned(self, observed: Observation, began: record.Moment) -> State:
        """After a compilation that went well: what it read. digest None where that is not known, or where it has
        changed since ``began``, which must be before the candidate's source was written."""
        script, key = self._script()
        if script is None:
            reads = self._own()
        else:
            if script.digest is None:
                return State(None, script.why)
            reads = observed.reads()
        if reads is None:
            return State(None, observed.why)
        state = self._of(reads, script)
        if state.digest is None:
            return state
        if script is not None and not self._manifest.remember(key, reads):
            return State(None, "the build script does not compile every candidate in the same way")
        changed = state.changed_since(began, observed.before) or self._unforeseen(observed, state)
        return (
            State(None, f"{changed} has changed since the compilation began, or was not foreseen") if changed else state
        )

    def _own(self) -> Reads | None:
        """What the backend's own command reads."""
        try:
            return Reads.of_command(self._backend, self._options, shared=self._shared)
        except FileNotFoundError:  # the current folder
            return None

    def _script(self) -> tuple[Script | None, str]:
        """The script as it is now, and the key of what is remembered of it."""
        if self._build_script is None:
            return None, ""
        script = Script(os.path.realpath(self._build_script), self._home)
        parts = [__version__, self._backend.name, self._compiler, script.digest, self._options, self._source]
        text = json.dumps([*parts, list(backends.environment_key())])
        return script, hashlib.sha256(text.encode()).hexdigest()

    def _of(self, reads: Reads, script: Script | None) -> State:
        state = reads.state(self._source, names=self._names, script=script)
        if self._home is None or state.digest is None:
            return state
        look = _Look()
        try:
            for name in VERSION_FILES:
                look.look(os.path.join(self._home, name))
        except _Unknown as error:
            return State(None, str(error))
        more = look.state(state.digest)
        return State(
            more.digest,
            "",
            {**state.changed_ns, **more.changed_ns},
            {**state.absent_ns, **more.absent_ns},
            state.folders | more.folders,
            state.paths | more.paths,
            state.looked | more.looked,
        )

    def _unforeseen(self, observed: Observation, state: State) -> str:
        """A file of the user's that mskpp-cc says it has read, and that is not in the state."""
        try:
            data = regular_bytes(observed.dependencies, record.MOST_RECORD_BYTES, follow_links=False)
        except FileNotFoundError:
            return ""
        except (OSError, ValueError):
            return "what the compiler has read"
        # "!" is what it looked for in vain, "?" what was made of files: those are the commands' inputs.
        names = {line for line in os.fsdecode(data).split("\n") if line.startswith("/")}
        own = [os.path.realpath(folder) for folder in (observed.folder, self._home) if folder is not None]
        for name in sorted(names):
            folder = os.path.realpath(os.path.dirname(name))
            path = os.path.join(folder, os.path.basename(name))
            # What lies where nothing is looked for is the toolchain's.
            if folder in state.looked and path not in state.paths and not path.startswith(tuple(f"{o}/" for o in own)):
                return name
        return ""
