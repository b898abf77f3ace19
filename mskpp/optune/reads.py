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
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
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
from mskpp.optune.closure import FORMAT, Look, State, Unknown
from mskpp.optune.script_reads import COMPILERS, OUTPUT, PRIVATE, SOURCE, VARIABLES, Script

if TYPE_CHECKING:
    pass

WHO = "autotune"
MOST_COMMANDS = 200
MOST_KEPT = 1_000  # files of a manifest
MOST_KEPT_BYTES = 1 << 20  # of one of them
MOST_RESPONSE_FILES = 20

LAUNCH_CODE_NAMES = ("cstdint", "cstdio", "exception", "type_traits", "mskpp/kernel.h")  # that it includes
INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
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

    look: Look
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
                raise Unknown(f"what the compiler's option {word} reads is not followed")
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
                raise Unknown(f"what the compiler's option {word} reads is not followed")
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
                raise Unknown(f"what the compiler reads in the folder {text} of an option is not followed")
        if "/" in text or os.path.lexists(path):
            self.look.look(path)

    def _response(self, text: str) -> list[str] | None:
        """The words in the file; None where there is none, and the word means itself."""
        path = self._path(text)
        if path.startswith("\x01"):
            raise Unknown(f"the response file @{text} is made when the script runs")
        self.response_files += 1
        if self.response_files > MOST_RESPONSE_FILES:
            raise Unknown(f"there are more than {MOST_RESPONSE_FILES} response files")
        found = self.look.look(path)
        if found is None:
            return None
        try:
            return shlex.split(os.fsdecode(regular_bytes(Path(found), MOST_KEPT_BYTES)))
        except (OSError, ValueError) as error:
            raise Unknown(f"the response file {text} cannot be read: {error}") from None

    def check(self) -> None:
        """Whether all that was compiled is known."""
        if SOURCE not in self.inputs:
            raise Unknown("no compilation of the source was seen; call bisheng or mskpp-cc by its name, from PATH")
        if OUTPUT not in self.outputs:
            raise Unknown("no compilation to the output was seen; call bisheng or mskpp-cc by its name, from PATH")
        for path in sorted(self.inputs - self.outputs - {SOURCE}):
            raise Unknown(f"what {path[1:]} holds, which the script made, is not known")


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
        look = Look()
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
        except Unknown as error:
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
                raise Unknown("no compiler was seen; call bisheng or mskpp-cc by its name, from PATH")
            self.why = ""
            return Reads(tuple(dict.fromkeys(commands)))
        except Unknown as error:
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
                    raise Unknown("a call of the compiler was not noted as a whole")
                while fields:
                    total += 1
                    if total > MOST_COMMANDS:
                        raise Unknown(f"the compiler was called more than {MOST_COMMANDS} times")
                    count = int(fields[6])
                    call, fields = fields[: _FIELDS + count + 1], fields[_FIELDS + count + 1 :]
                    if call[0] != "begin" or call[-1] != "end" or len(call) != _FIELDS + count + 1:
                        raise Unknown("a call of the compiler was not noted as a whole")
                    yield self._named(call[1], call[2], call[3:6], call[_FIELDS:-1])
        except (OSError, ValueError, IndexError):
            raise Unknown("a call of the compiler was not noted as a whole") from None

    def _named(self, program: str, folder: str, variables: list[str], arguments: list[str]) -> Command:
        if any("\x01" in word for word in (program, folder, *variables, *arguments)):
            raise Unknown("an argument of the compiler has the control character \\x01")
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
        look = Look()
        try:
            for name in VERSION_FILES:
                look.look(os.path.join(self._home, name))
        except Unknown as error:
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
