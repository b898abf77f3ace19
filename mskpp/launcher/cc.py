# SPDX-License-Identifier: Apache-2.0
"""mskpp-cc: compiles a kernel's source for the CPU. The compiler front of the backend ``host``.

    mskpp-cc [options] source... -o output

It takes the options of bisheng and of g++. What has no meaning on a CPU is dropped: the device's architecture, its
stack sizes, the toolkit's libraries. Every source is preprocessed, its launches ``kernel<<<blockdim, l2ctrl,
stream>>>(...)`` are rewritten to calls (mskpp/kernel.h), and the result is compiled with -O3 -march=native -fPIC unless
the options say otherwise. Line numbers in messages are those of the source. The compiler is $MSKPP_CXX, $CXX, g++ or
clang++, the first that is there. Exit code: the compiler's.

Preprocessed text is rewritten, not the source: so launches in headers and macros come out right, and comments and
inactive branches are out of the way. A launch becomes a call that holds its arguments by value; a real parser is not
needed for that, matching of brackets is enough. ``[aicore]``, which is no C++, is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

INCLUDE = Path(__file__).resolve().parent / "include"
SOURCES = (".cpp", ".cc", ".cxx", ".C", ".cce", ".asc")
# Libraries of the toolkit, which a CPU program does not need; kept where a -L folder has them.
TOOLKIT_LIBRARIES = frozenset(
    [
        "acl_op_compiler",
        "ascend_dump",
        "ascend_hal",
        "ascendalog",
        "ascendc_runtime",
        "ascendcl",
        "c_sec",
        "error_manager",
        "graph",
        "graph_base",
        "mmpa",
        "msprofiler",
        "nnopbase",
        "opapi",
        "opp_registry",
        "platform",
        "profapi",
        "register",
        "runtime",
        "runtime_camodel",
        "tiling_api",
    ]
)
TAKES_A_VALUE = frozenset(
    [
        "-o",
        "-I",
        "-L",
        "-D",
        "-U",
        "-l",
        "-x",
        "-include",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-MF",
        "-MT",
        "-MQ",
        "-T",
        "-u",
        "-Xlinker",
        "-z",
    ]
)
DROPPED_WITH_VALUE = frozenset(["-mllvm", "-Xaicore"])
DROPPED = re.compile(r"--?cce-.*|-fcce-.*|--npu-(arch|soc).*|--cce.*|-Xaicore-.*|-mcpu=dav-.*|-march=dav-.*")
# Options that do not make the program depend on a file that nobody would look at.
PLAIN_LINK = re.compile(
    r"-[sSEO]\w*|-Bsymbolic(-functions)?|--?((no-)?(as-needed|whole-archive|undefined|gc-sections|export-dynamic)"
    r"|(start|end)-group|strip-(all|debug)|enable-new-dtags|build-id(=.*)?|hash-style=.*|soname=.*|rpath(-link)?=.*"
    r"|exclude-libs(=.*)?|allow-multiple-definition)|[()]"
)
PLAIN_LINK_WITH_VALUE = re.compile(r"-z|--?(soname|rpath|rpath-link|exclude-libs)|-h")
NAMES_A_FILE = re.compile(r"-f(plugin|profile|auto-profile|sanitize-(black|ignore)list|pass-plugin).*|--?specs.*|-B.*"
                          r"|--sysroot.*|--config.*|-T.*|-imacros.*|-wrapper|-isysroot.*|-iprefix.*")  # fmt: skip
OLD_STANDARD = re.compile(r"--?std=(?:c|gnu)\+\+(?:98|03|0x|11|1y|14)")  # mskpp/kernel.h needs C++17

TOKEN = re.compile(
    r"""
    (?P<raw>  (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)" )
  | (?P<text> (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<line> ^\#[^\n]* )
  | (?P<word> [A-Za-z_]\w* | \.?\d(?:'?[\w.])* )
  | (?P<open> <<< ) | (?P<close> >>> )
  | (?P<sign> :: | -> | >= | <= | << | [^\s\w] )
    """,
    re.VERBOSE | re.MULTILINE,
)


MARKER = re.compile(r'^# (?P<line>\d+) "(?P<file>(?:\\.|[^"\\])*)"(?P<flags>[ \d]*)\n', re.MULTILINE)
BEFORE_AN_EXPRESSION = frozenset(["return", "else", "do", "throw", "case", "co_return", "co_yield", "co_await"])
DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
LITERAL = re.compile(r"\d|\.\d|'|\"|(?:nullptr|__null|true|false)$")


class LaunchSyntaxError(Exception):
    """A launch that cannot be made out; the text says where."""


@dataclass
class Arguments:
    """The command line, sorted."""

    sources: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)  # objects and libraries, in their order
    preprocess: list[str] = field(default_factory=list)
    compile: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    output: str | None = None
    mode: str | None = None  # -c, -E, -S
    only_ask: bool = False  # --version and the like


def sort(arguments: Sequence[str]) -> Arguments:
    """Sorts a command line of bisheng or g++; what means nothing on a CPU is left out."""
    out = Arguments()
    folders = [a[2:] or b for a, b in zip(arguments, [*arguments[1:], ""], strict=True) if a.startswith("-L")]
    rest = list(arguments)
    device_only = any_source = False
    while rest:
        word = rest.pop(0)
        if word in ("-Xhost-start", "-Xhost-end"):
            continue
        if word == "-Xaicore-start":
            device_only = True
        if device_only:
            device_only = word != "-Xaicore-end"
            continue
        if word in DROPPED_WITH_VALUE:
            rest[:1] = []
            continue
        if DROPPED.fullmatch(word) or OLD_STANDARD.fullmatch(word):
            continue
        value = rest.pop(0) if word in TAKES_A_VALUE and rest else None
        if word.startswith("-o"):
            out.output = value or word[2:]
            continue
        if word.startswith("-x"):
            any_source = (value or word[2:]) != "none"  # a language: whatever the files are called, they are sources
            continue
        if word == "--shared":
            word = "-shared"
        both = [word] if value is None else [word, value]
        if word in ("-c", "-E", "-S"):
            out.mode = word
        elif word in ("--version", "-v", "-dumpversion", "-dumpmachine", "--help"):
            out.only_ask = True
            out.compile += both
        elif word.startswith("-l"):
            name = value if word == "-l" and value else word[2:]
            there = any((Path(f) / f"lib{name}.{end}").exists() for f in folders for end in ("so", "a"))
            if there or name not in TOOLKIT_LIBRARIES:
                out.inputs += both
        elif word.startswith(("-L", "-Wl,", "-z")) or word in (
            "-shared",
            "-static",
            "-pie",
            "-no-pie",
            "-s",
            "-Xlinker",
        ):
            out.link += both
        elif word.startswith(("-I", "-D", "-U", "-i", "-M")):
            out.preprocess += both
        elif word.startswith("-"):
            out.compile += both
        elif word.endswith(SOURCES) or (any_source and not word.endswith((".o", ".so", ".a"))):
            out.sources.append(word)
        else:
            out.inputs.append(word)
    return out


def callee_start(tokens: list[re.Match[str]], launch: int) -> int:
    """Index of the first token of the expression in front of ``<<<``: ``ns::name<arguments>``, ``this->name``."""

    def text(i: int) -> str:
        return tokens[i].group() if i >= 0 else ""

    at = launch - 1
    while True:
        if text(at) in (">", ">>>"):
            at = before_angles(tokens, at)
        if at < 0 or not tokens[at].group("word"):
            raise LaunchSyntaxError("no kernel's name stands before <<<")
        if text(at - 1) == "template":
            at -= 1
        if text(at - 1) in (".", "->"):
            at -= 2  # a member: what stands before belongs to it
            continue
        if text(at - 1) != "::":
            return at
        scoped = at > 1 and (tokens[at - 2].group("word") or text(at - 2) in (">", ">>>"))
        if not scoped or text(at - 2) in BEFORE_AN_EXPRESSION:
            return at - 1
        at -= 2


def kernel_name(tokens: list[re.Match[str]], launch: int) -> str:
    """The name in front of ``<<<``, without namespace and template arguments. After callee_start() has found one."""
    at = launch - 1
    return tokens[before_angles(tokens, at) if tokens[at].group() in (">", ">>>") else at].group()


def before_angles(tokens: list[re.Match[str]], at: int) -> int:
    """Index of the token before the < that belongs to the > at ``at``; -1 when there is none."""
    pairs = {")": "(", "]": "[", "}": "{"}
    wanted: list[str] = []
    while at >= 0:
        text = tokens[at].group()
        if wanted and text == wanted[-1]:
            wanted.pop()
            if not wanted:
                return at - 1
        elif text in pairs:
            wanted.append(pairs[text])
        elif text in (">", ">>>") and (not wanted or wanted[-1] == "<"):  # inside brackets > compares
            wanted += ["<"] * len(text)
        at -= 1
    return -1


def matching(tokens: list[re.Match[str]], at: int) -> int:
    """Index of the bracket that closes the one at ``at``."""
    depth = 0
    for i in range(at, len(tokens)):
        text = tokens[i].group()
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return i
    raise LaunchSyntaxError("the launch's bracket is never closed")


def rewrite(text: str) -> str:
    """Preprocessed text with each launch as a call of ``::mskpp::launch``. All else keeps its bytes and lines."""
    if "<<<" not in text and "aicore" not in text:
        return text
    tokens = own_tokens(text)
    edits: list[tuple[int, int, str]] = []  # start, end, text
    at = 0
    while at < len(tokens):
        if tokens[at].group() == "aicore" and brackets(tokens, at) == "[]":
            edits.append((tokens[at - 1].start(), tokens[at + 1].end(), ""))
        if not tokens[at].group("open"):
            at += 1
            continue
        try:
            start = callee_start(tokens, at)
            end = closing_angles(tokens, at)
            opening = end + 1
            if opening == len(tokens) or tokens[opening].group() != "(":
                raise LaunchSyntaxError("no arguments in ( ) follow >>>")
            closing = matching(tokens, opening)
        except LaunchSyntaxError as error:
            raise LaunchSyntaxError(f"{place(text, tokens[at].start())}: error: launch: {error}") from None
        callee = text[tokens[start].start() : tokens[at].start()]
        setting = text[tokens[at].end() : tokens[end].start()]
        inside = tokens[at + 1 : end]
        parts = len(split(inside))
        if not inside or (parts > 3 and not has_ambiguous_comma(inside)):
            raise LaunchSyntaxError(
                f"{place(text, tokens[at].start())}: error: launch: {parts if inside else 0} settings in <<< >>>; "
                "they are blockdim, l2ctrl and stream"
            )
        setting += ", nullptr" * max(0, 3 - parts)
        edits.append((tokens[start].start(), tokens[at].end(), "::mskpp::launch("))
        edits.append(
            (
                tokens[at].end(),
                tokens[closing].end(),
                f'{setting}, {bound(text, callee, tokens[opening : closing + 1])}, "{kernel_name(tokens, at)}")',
            )
        )
        at = closing + 1
    out: list[str] = []
    done = 0
    for first, last, new in edits:
        out += [text[done:first], new]
        done = last
    return "".join([*out, text[done:]])


def own_tokens(text: str) -> list[re.Match[str]]:
    """The tokens of what is not in system headers: they hold no launches, and most of the text."""
    out: list[re.Match[str]] = []
    start = 0  # -1 in a system header
    for marker in [*MARKER.finditer(text), None]:
        flags = marker["flags"].split() if marker else ["1"]
        # Only 1 (a file begins) and 2 (it goes on) change the file; others stand around macros of system headers.
        if not {"1", "2"} & set(flags):
            continue
        if start >= 0:
            end = marker.start() if marker else len(text)
            out += [m for m in TOKEN.finditer(text, start, end) if not m.group("line")]
        if marker:
            start = -1 if "3" in flags else marker.end()
    return out


def brackets(tokens: list[re.Match[str]], at: int) -> str:
    """The tokens on both sides of one."""
    return tokens[at - 1].group() + tokens[at + 1].group() if 0 < at < len(tokens) - 1 else ""


def closing_angles(tokens: list[re.Match[str]], launch: int) -> int:
    """Index of the >>> that closes the <<< at ``launch``."""
    depth = 0
    for i in range(launch + 1, len(tokens)):
        if depth == 0 and tokens[i].group("close"):
            return i
        depth += DEPTH.get(tokens[i].group(), 0)
    raise LaunchSyntaxError("<<< is never closed by >>>")


def bound(text: str, callee: str, tokens: list[re.Match[str]]) -> str:
    """The call of a launch, for mskpp/kernel.h: its arguments (tokens, with their brackets) evaluated once and kept.

    Literals and braced lists stay in the call itself: 0 may mean a pointer there, and braces have no type of their own.
    With a comma between < and > it takes a parser to tell the arguments apart; all are kept then.
    """
    begin, end = tokens[0].end(), tokens[-1].start()
    inner = tokens[1:-1]
    if has_ambiguous_comma(inner):
        return f"::mskpp::bound([=](auto... mskpp_all) mutable {{ {callee}(mskpp_all...); }}, {text[begin:end]})"
    called: list[str] = []
    kept: list[str] = []
    for part in split(inner) if inner else []:
        words = text[part[0].start() : part[-1].end()] if part else ""
        if part and (part[0].group() == "{" or (len(part) == 1 and LITERAL.match(words))):
            called.append(" ".join(MARKER.sub("", words).split()))
        else:
            called.append(f"mskpp_{len(kept)}")
            kept.append(words)
    given = "".join(f", auto mskpp_{i}" for i in range(len(kept)))[2:]
    out = f"::mskpp::bound([=]({given}) mutable {{ {callee}({', '.join(called)}); }}{''.join(f', {k}' for k in kept)})"
    # What follows keeps its line number.
    *_, marker = [None, *MARKER.finditer(text, begin, end)]
    if marker:
        return f"{out}\n{marker.group()}" + "\n" * text.count("\n", marker.end(), end)
    return out + "\n" * (text.count("\n", begin, end) - sum(k.count("\n") for k in kept))


def has_ambiguous_comma(tokens: list[re.Match[str]]) -> bool:
    """Whether a comma outside brackets stands between a < and a >: it may be one of a template's arguments."""
    depth = angles = 0
    between = False
    for token in tokens:
        sign = token.group()
        depth += DEPTH.get(sign, 0)
        if depth:
            continue
        if sign == ">" and angles and between:
            return True
        angles = max(0, angles + {"<": 1, ">": -1, ">>>": -3}.get(sign, 0))
        between = angles > 0 and (between or sign == ",")
    return between and any(token.group() == ">>>" for token in tokens)


def split(tokens: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The parts that commas outside brackets make of the tokens."""
    depth = 0
    parts: list[list[re.Match[str]]] = [[]]
    for token in tokens:
        depth += DEPTH.get(token.group(), 0)
        if token.group() == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def place(text: str, offset: int) -> str:
    """``file:line`` of an offset in preprocessed text, from its line markers."""
    marker = None
    for marker in MARKER.finditer(text, 0, offset):  # noqa: B007
        pass
    if marker is None:
        return f"line {text.count(chr(10), 0, offset) + 1}"
    return f"{marker['file']}:{int(marker['line']) + text.count(chr(10), marker.end(), offset)}"


def compiler() -> list[str]:
    """The host compiler: what $MSKPP_CXX or $CXX names, else g++ or clang++; empty when it is not there."""
    for variable in ("MSKPP_CXX", "CXX"):
        words = os.environ.get(variable, "").split()
        if words:
            return words if shutil.which(words[0]) else []
    return next(([name] for name in ("g++", "clang++") if shutil.which(name)), [])


def no_compiler() -> str:
    """Why there is none."""
    for variable in ("MSKPP_CXX", "CXX"):
        if os.environ.get(variable, "").strip():
            return f"no C++ compiler: {variable} is '{os.environ[variable]}', which is no program; correct or unset it"
    return "no C++ compiler: neither g++ nor clang++ is on PATH; install one, for example: apt install g++"


def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run(); but a compiler that is ended in between is asked to, so that it ends its own programs."""
    with subprocess.Popen(command, **options) as child:  # type: ignore[call-overload]
        try:
            out, _ = child.communicate()
        except BaseException:
            child.terminate()
            raise
    return subprocess.CompletedProcess(command, child.returncode, out)


def default_options(given: Sequence[str]) -> list[str]:
    """-O3 -march=native -fPIC, each unless the options already decide it."""
    out = []
    if not any(re.fullmatch(r"-O\w*", word) for word in given):
        out.append("-O3")
    if not any(word.startswith(("-march=", "-mcpu=", "-m32")) for word in given):
        out.append("-march=native")
    if not any(word in ("-fPIC", "-fpic", "-fPIE", "-fpie", "-fno-PIC", "-fno-pic") for word in given):
        out.append("-fPIC")
    if not any(word.startswith(("-std=", "--std=")) for word in given):
        out.append("-std=c++17")
    return out


def note_dependencies(text: bytes, options: Sequence[str]) -> None:
    """Notes the files that the preprocessed text came from, and in which folders of the options others of their names
    would have come first."""
    names = re.findall(rb'^# \d+ "((?:\\.|[^"\\])*)"', text, re.MULTILINE)
    paths = [re.sub(rb"\\(.)", rb"\1", name) for name in dict.fromkeys(names) if not name.startswith(b"<")]
    read = [os.fsdecode(os.path.abspath(path)) for path in paths if os.path.isfile(path)]
    folders = [os.path.abspath(folder) + os.sep for folder in values_of(options, "-I", "-iquote", "-isystem")]
    missed: dict[str, None] = {}
    for path in read:
        for name in (path[len(folder) :] for folder in folders if path.startswith(folder)):
            missed.update((f"!{folder}{name}", None) for folder in folders if not os.path.lexists(folder + name))
    note(*read, *missed)


def values_of(options: Sequence[str], *names: str) -> list[str]:
    """The values of the options of these names, written in one word or in two."""
    found = []
    for number, word in enumerate(options):
        name = next((name for name in names if word.startswith(name)), None)
        if name is not None:
            found.append(word[len(name) :] or "".join(options[number + 1 : number + 2]))
    return found


def note_libraries(arguments: Arguments) -> None:
    """Notes the libraries that the linker finds in the folders of the options; those of the system it knows itself.

    "?" for objects and libraries given as files (nobody knows what they were made from) and for options that name
    files in other ways.
    """
    folders = values_of(arguments.link, "-L")
    folders += [folder for folder in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if folder]
    words = iter(arguments.inputs)
    for word in words:
        if not word.startswith("-l"):
            note("?")
            return
        note_library(word[2:] or next(words, ""), folders)
    if not are_plain(arguments.link):
        note("?")


def note_library(name: str, folders: Sequence[str]) -> None:
    names = [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"]
    for path in (os.path.abspath(os.path.join(folder, file)) for folder in folders for file in names):
        if not os.path.isfile(path):
            note(f"!{path}")
            continue
        with open(path, "rb") as file:
            is_script = file.read(8) not in (b"!<arch>\n",) and not file.seek(0) and file.read(4) != b"\x7fELF"
        note("?" if is_script else path)  # a script of the linker names others
        return


def are_plain(link: Sequence[str]) -> bool:
    """Whether these options of the linker name no file but by -L."""
    words: list[str] = []
    given = iter(link)
    for word in given:
        if word == "-L":
            next(given, None)
        elif word == "-Xlinker":
            words.append(next(given, ""))
        elif word == "-z":
            words += [word, next(given, "")]
        elif word.startswith("-Wl,"):
            words += word.split(",")[1:]
    has_value = False
    for word in words:
        if has_value:
            has_value = False
        elif PLAIN_LINK_WITH_VALUE.fullmatch(word):
            has_value = True
        elif not PLAIN_LINK.fullmatch(word) and not re.fullmatch(r"-z.+", word):
            return False
    return True


def note(*lines: str) -> None:
    """Adds lines to the file $MSKPP_DEPENDENCIES: absolute paths of what was read, "!" and the path of what would have
    been read instead, or "?" for what cannot be told. OSError for what is no regular file: it is not waited for."""
    file = os.environ.get("MSKPP_DEPENDENCIES")
    if not file:
        return
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    with open(os.open(file, flags, 0o600), "ab") as out:
        if not stat.S_ISREG(os.fstat(out.fileno()).st_mode):
            raise OSError(f"{file}, which MSKPP_DEPENDENCIES names, is no regular file")
        out.write(b"".join(os.fsencode("?" if "\n" in line else line) + b"\n" for line in lines))


def compile_only(arguments: Arguments, command: Sequence[str], rewritten: Sequence[str]) -> int:
    """-E, -S and -c."""
    if arguments.mode == "-E":
        # Unbuffered: what the system refuses shows here, and not when the interpreter ends.
        with open(arguments.output or os.dup(1), "wb", buffering=0) as out:
            for name in rewritten:
                data = memoryview(Path(name).read_bytes())
                while data:
                    data = data[out.write(data) :]
        return 0
    if arguments.output and len(rewritten) > 1:
        print(f"mskpp-cc: error: -o with {arguments.mode} and {len(rewritten)} sources; leave -o out", file=sys.stderr)
        return 1
    for source, name in zip(arguments.sources, rewritten, strict=True):
        output = arguments.output or Path(source).stem + (".o" if arguments.mode == "-c" else ".s")
        code = run([*command, str(arguments.mode), name, "-o", output]).returncode
        if code != 0:
            return code
    return 0


class Ended(BaseException):
    """A signal asks us to end."""


@contextlib.contextmanager
def ends_well() -> Iterator[None]:
    """A signal that ends this program first ends the block, which takes its files away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        for other in signals:
            signal.signal(other, signal.SIG_IGN)
        came.append(number)
        raise Ended

    for number in signals:
        if before[number] != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, end)
    try:
        yield
    except Ended:
        signal.signal(came[0], signal.SIG_DFL)
        os.kill(os.getpid(), came[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the front; returns the exit code."""
    try:
        with ends_well():
            return compiled(sys.argv[1:] if argv is None else argv)
        return 1  # not reached: the signal has ended us
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
        message = f"mskpp-cc: error: {error.strerror or error}{where}\n"
        with contextlib.suppress(OSError):
            os.write(2, message.encode("utf-8", "surrogateescape"))
        return 1


def compiled(argv: Sequence[str]) -> int:
    """The exit code of the compilation that the command line asks for. OSError for what the system refuses."""
    arguments = sort(argv)
    host = compiler()
    if not host:
        print(f"mskpp-cc: error: {no_compiler()}", file=sys.stderr)
        return 1
    if arguments.only_ask:
        return run([*host, *arguments.compile]).returncode
    if not arguments.sources and not arguments.inputs:
        print("mskpp-cc: error: no input file", file=sys.stderr)
        return 1
    if any(map(NAMES_A_FILE.fullmatch, [*arguments.compile, *arguments.preprocess])):
        note("?")
    options = [*default_options(arguments.compile), *arguments.compile]
    preprocess = ["-DMSKPP_CC=1", f"-I{INCLUDE}", "-include", "mskpp/kernel.h", *arguments.preprocess]
    preprocess += [f"-idirafter{INCLUDE / 'host'}"]  # a toolkit's own headers come first
    with tempfile.TemporaryDirectory(prefix="mskpp-cc-") as folder:
        rewritten: list[str] = []
        for number, source in enumerate(arguments.sources):
            done = run([*host, "-E", "-x", "c++", *options, *preprocess, source], stdout=subprocess.PIPE)
            if done.returncode != 0:
                return done.returncode
            try:
                # Bytes that are no UTF-8 stand in comments and strings; they go through as they are.
                text = rewrite(done.stdout.decode("utf-8", "surrogateescape"))
            except LaunchSyntaxError as error:
                print(error, file=sys.stderr)
                return 1
            note_dependencies(done.stdout, arguments.preprocess)
            path = Path(folder) / f"{number}_{Path(source).stem}.ii"
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            rewritten.append(str(path))
        if arguments.mode:
            return compile_only(arguments, [*host, *options], rewritten)
        note_libraries(arguments)
        output = ["-o", arguments.output] if arguments.output else []
        link = [*arguments.link, *arguments.inputs, "-pthread"]
        return run([*host, *options, *rewritten, *link, *output]).returncode


if __name__ == "__main__":
    sys.exit(main())
