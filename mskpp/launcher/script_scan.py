# SPDX-License-Identifier: Apache-2.0
"""Finds the commands of a shell script that raise privileges, wherever they stand.

The script is parsed, so the same word in a comment, an argument or a string is no finding. A command is looked for
behind ``env``, ``exec``, ``timeout 5`` and the like, in command strings (``bash -c``, ``eval``, ``trap``), in what is
written for a shell to read, in the arguments of functions that run them, and behind quotes, backslashes, folders,
braces and variables that the script itself sets. A variable has each value that the script gives it anywhere, and an
expansion at the place of a command may be empty, so that the next word is the command. Texts that a script writes are
scripts as soon as it has a shell read its input, or runs a file that it writes. What is too much to be followed is
refused (TooMuch), never counted as clean.

It is a guard against accidents and careless scripts, no sandbox. It does not follow: other scripts that are sourced or
run, other languages (``python -c``, ``awk``, ``sed``, makefiles, ``git -c alias``, ``tar --checkpoint-action``), names
made only when the script runs (``$(echo odus | rev)``), code that bash evaluates within
arithmetic and subscripts or by ${x@P}, and braces within braces.
"""

from __future__ import annotations

import bisect
import codecs
import fnmatch
import itertools
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mskpp.launcher import bash

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PRIVILEGED = frozenset(
    ("sudo", "su", "pkexec", "doas", "run0", "runuser", "sudoedit", "gksu", "gksudo", "kdesu", "kdesudo")
    + ("chown", "chgrp", "setcap", "setpriv", "newgrp", "capsh")
)
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash"))

# Programs that run the rest of their words as a command: the options that take the next word, short and long, and the
# number of words of their own before the command.
_PREFIXES: dict[str, tuple[str, str, int]] = {
    "command": ("", "", 0),
    "builtin": ("", "", 0),
    "exec": ("a", "", 0),
    "env": ("uCS", "unset chdir split-string", 0),
    "nohup": ("", "", 0),
    "time": ("fo", "format output", 0),
    "nice": ("n", "adjustment", 0),
    "ionice": ("cnpPu", "class classdata pid pgid uid", 0),
    "chrt": ("TPD", "sched-runtime sched-period sched-deadline", 1),
    "taskset": ("", "", 1),
    "numactl": ("CNmipl", "cpunodebind physcpubind membind interleave preferred", 0),
    "xargs": ("aEIdLnPs", "arg-file delimiter max-lines max-args max-procs max-chars process-slot-var", 0),
    "parallel": ("jNn", "jobs max-args max-replace-args", 0),
    "timeout": ("ks", "kill-after signal", 1),
    "setsid": ("", "", 0),
    "stdbuf": ("ioe", "input output error", 0),
    "coproc": ("", "", 0),
    "chroot": ("", "userspec groups", 1),
    "unshare": ("SGRwm", "setuid setgid root wd propagation map-user map-group", 0),
    "nsenter": ("tSG", "target setuid setgid", 0),
    "flock": ("wE", "timeout wait conflict-exit-code", 1),
    "strace": ("abEeIOopPsSuUX", "", 0),
    "ltrace": ("aeFnopsuxDl", "", 0),
    "valgrind": ("", "", 0),
    "watch": ("nq", "interval equexit", 0),
    "unbuffer": ("", "", 0),
    "busybox": ("", "", 0),
    "toybox": ("", "", 0),
    "fakeroot": ("lsib", "lib faked fd-base", 0),
    "catchsegv": ("", "", 0),
    "prlimit": ("po", "pid output", 0),
    "setarch": ("", "", 0),
    "linux32": ("", "", 0),
    "linux64": ("", "", 0),
    "i386": ("", "", 0),
    "x86_64": ("", "", 0),
    "aarch64": ("", "", 0),
    "choom": ("np", "adjust pid", 0),
    "then": ("", "", 0),
    "do": ("", "", 0),
    "else": ("", "", 0),
    "!": ("", "", 0),
    "{": ("", "", 0),
}
_STRING_OPTIONS = {
    "env": ("S", "split-string"),
    "flock": ("c", "command"),
    "script": ("c", "command"),
    "compgen": ("C", "command"),
    "complete": ("C", "command"),
    "mapfile": ("C", "callback"),
    "readarray": ("C", "callback"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SYMBOLIC_MODE = re.compile(r"[ugoa]*([-+=][rwxXstugo]*)+(,[ugoa]*([-+=][rwxXstugo]*)+)*")
_MOST_VALUES = 256  # of one word or variable
_MOST_DEPTH = 8  # of scripts within strings within scripts
_MOST_BYTES = 1 << 18
_MOST_SECONDS = 5.0
_MOST_ROUNDS = 4  # of scans: what a variable has because of another one is known only afterwards
_SUSPECT = re.compile(r"(?<!\w)(?:" + "|".join(sorted((*PRIVILEGED, "chmod"))) + r")(?!\w)")
_BRACES = re.compile(rb"(?<![\w${/.\\-])[\w/.+-]*(?:(?<!\$)\{[^{}\s\"'`$;]*\}[\w/.]*)+")
_HEREDOC = re.compile(rb"<<-?[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'|[\\\w]+)[ \t]*([;&|][^\n]+)")
_INPUT = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution")

# A word: each text that it may have, as far as that is known; "" for the rest, and _CUT where there are too many.
Values = tuple[str, ...]
_CUT = "\0"


class TooMuch(Exception):
    """The script cannot be checked: what was too much."""


@dataclass(frozen=True)
class Found:
    """A command that raises privileges: its line (from 1), its name and its text."""

    line: int
    name: str
    shown: str


@dataclass
class _Known:
    """What is known of the whole script. Variables by name; positional ones by the function and the number or @."""

    until: float
    variables: dict[str, list[str]] = field(default_factory=lambda: {"SHELL": ["sh"], "BASH": ["bash"]})
    functions: dict[str, tuple[bool, bool]] = field(default_factory=dict)  # runs its arguments; from any place
    texts: set[tuple[str, int]] = field(default_factory=set)  # written by echo, printf and here-documents, and lines
    written: set[str] = field(default_factory=set)  # files
    executed: set[str] = field(default_factory=set)  # files
    reads_scripts: bool = False  # a shell reads its input
    references: bool = False  # declare -n
    long_arrays: set[str] = field(default_factory=set)  # that have too many values to be joined
    run_arrays: set[str] = field(default_factory=set)  # that are the first word of a command
    added: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)  # to variables
    done: set[object] = field(default_factory=set)  # in this round

    def size(self) -> tuple[object, ...]:
        values = sum(len(values) for values in self.variables.values())
        arrays = self.long_arrays & self.run_arrays
        return values, len(self.functions), len(self.texts), self.written & self.executed, self.reads_scripts, arrays

    def check_time(self) -> None:
        if time.monotonic() > self.until:
            raise TooMuch(f"the check has not ended within {_MOST_SECONDS:g} s")


def privileged_commands(script: bytes) -> list[Found]:
    """All of them in the order of their lines; [] for a script that asks for no privileges.

    Raises TooMuch where the script is too large or too involved for an answer.
    """
    if len(script) > _MOST_BYTES:
        raise TooMuch(f"it has {len(script):,} bytes, and at most {_MOST_BYTES:,} are checked")
    parser = bash.parser()
    known = _Known(time.monotonic() + _MOST_SECONDS)
    found: set[Found] = set()
    try:
        for _ in range(_MOST_ROUNDS):
            before = known.size()
            known.done.clear()
            found |= set(_Scan(parser, 1, 0, known).script(script))
            if known.reads_scripts or known.written & known.executed:
                for text, line in sorted(known.texts):
                    code = text.encode(errors="surrogateescape")
                    found |= set(_Scan(parser, line, 1, known).script(code))
            if known.size() == before:
                break
    except RecursionError:
        if not found:
            raise TooMuch("it has too many things within one another") from None
    except TooMuch:
        if not found:
            raise
    return sorted(found, key=lambda one: (one.line, one.name))


def _braces_expanded(script: bytes, known: _Known) -> bytes:
    """Words with braces as the words that bash makes of them; in quotes too, where it does not matter."""

    def expanded(match: re.Match[bytes]) -> bytes:
        known.check_time()
        words = [b""]
        for piece in re.split(rb"(\{[^{}]*\})", match[0]):
            ends = re.fullmatch(rb"\{([A-Za-z])\.\.([A-Za-z])\}", piece)
            if ends is not None:
                first, last = sorted((ends[1][0], ends[2][0]))
                parts = [bytes([one]) for one in range(first, last + 1)]
            else:
                parts = piece[1:-1].split(b",") if piece.startswith(b"{") and b"," in piece else [piece]
            if len(words) * len(parts) > 16 * _MOST_VALUES:
                raise TooMuch("it has too many braces to expand")
            words = [word + part for word in words for part in parts]
        return b" ".join(word for word in words if word)

    return _BRACES.sub(expanded, script)


def _joined_lines(script: bytes, root: Node) -> tuple[bytes, list[int]]:
    """The script with lines that end in a backslash joined, and where in it they were joined.

    Not in comments, which end with their line.
    """
    comments = sorted((node.start_byte, node.end_byte) for node in bash.walk(root) if node.type == "comment")
    joined = bytearray()
    places = []
    start = 0
    for match in re.finditer(rb"(?<!\\)(?:\\\\)*(\\\n)", script):
        before = bisect.bisect_right(comments, (match.start(1), len(script) + 1)) - 1
        if before < 0 or comments[before][1] < match.start(1):
            joined += script[start : match.start(1)]
            places.append(len(joined))
            start = match.end(1)
    return bytes(joined + script[start:]), places


class _Scan:
    """One script and, below it, the scripts in its strings. first_line is that of its first line in the file."""

    def __init__(self, parser: Parser, first_line: int, depth: int, known: _Known, function: str = "") -> None:
        self._parser = parser
        self._first_line = first_line
        self._depth = depth
        self._known = known
        self._function = function  # whose positional parameters the script sees
        self._joined_at: Sequence[int] = ()  # where lines were joined, by byte

    def script(self, script: bytes, joined_at: Sequence[int] = ()) -> Iterator[Found]:
        self._known.check_time()
        self._joined_at = joined_at
        script = script.replace(b"\0", b"")  # bash ignores them
        script = re.sub(rb"\\\r\n", b"\r\n", script)  # for bash no end of a line that is joined, for the parser one
        script = _braces_expanded(script, self._known)
        root = self._parser.parse(script).root_node
        yield from self._tree(root)
        if root.has_error:
            # What the parser cannot read it may have skipped: each line is looked at once more by itself.
            place = 0
            for number, line in enumerate(script.split(b"\n")):
                if line.strip() and line.strip() != script.strip():
                    yield from self._inner(line, number + bisect.bisect_right(joined_at, place))
                place += len(line) + 1
            for match in _HEREDOC.finditer(script):
                line_number = script.count(b"\n", 0, match.start())
                yield from self._inner(match[1].lstrip(b";&| \t"), line_number)
        joined, places = _joined_lines(script, root)
        if places:  # the end of a line may cut a word
            inner = _Scan(self._parser, self._first_line, self._depth + 1, self._known, self._function)
            yield from inner.script(joined, places)

    def _line(self, node: Node) -> int:
        """The line, from 0, of the start of the node in the script as it was before lines were joined."""
        return node.start_point[0] + bisect.bisect_right(self._joined_at, node.start_byte)

    def _inner(self, script: bytes | str, line: int, function: str | None = None) -> Iterator[Found]:
        """A script within this one, of which line is the number, from 0, of its first line."""
        if script == _CUT:
            raise TooMuch(f"line {self._first_line + line} runs a text that may have more than {_MOST_VALUES} values")
        code = script.encode(errors="surrogateescape") if isinstance(script, str) else script
        function = self._function if function is None else function
        key = (code, line + self._first_line, function)
        if not code.strip() or key in self._known.done:
            return
        self._known.done.add(key)
        if self._depth >= _MOST_DEPTH:
            raise TooMuch(f"line {self._first_line + line} has scripts within scripts, more than {_MOST_DEPTH} deep")
        inner = _Scan(self._parser, self._first_line + line, self._depth + 1, self._known, function)
        yield from inner.script(code)

    def _tree(self, root: Node) -> Iterator[Found]:
        nodes = list(bash.walk(root))
        for node in nodes:
            self._learn(node)
        for node in nodes:
            self._known.check_time()
            if node.type == "command":
                yield from self._command(node)
            elif node.type == "array" and node.parent is not None and self._known.long_arrays:
                name = re.match(r"\w*", bash.text(node.parent))
                if name is not None and name[0] in self._known.long_arrays & self._known.run_arrays:
                    yield from self._run(self._items(node), self._line(node), bash.text(node)[:80])
            elif node.type == "command_name" and node.parent is not None and node.parent.type == "ERROR":
                yield from self._run([self._values(node)], self._line(node), bash.text(node))
            elif node.type in ("heredoc_redirect", "herestring_redirect"):
                yield from self._redirected_text(node)
            elif node.type == "file_redirect":
                if re.match(r"\d*(&?>|>[>|&])", bash.text(node)) and node.named_children:
                    self._known.written |= self._file_names(node.named_children[-1])
            elif node.type == "command_substitution" and bash.text(node).startswith("`") and "\\`" in bash.text(node):
                inner = re.sub(r"\\([`\\$])", r"\1", bash.text(node)[1:-1])
                yield from self._inner(inner, self._line(node))
            elif node.type == "word" and node.parent is not None and node.parent.type == "expansion":
                yield from self._backticks(node)  # ${x:-`command`}: the parser takes it for a word

    # Variables and functions

    def _learn(self, node: Node) -> None:
        if node.type == "variable_assignment":
            name = node.child_by_field_name("name")
            value = node.child_by_field_name("value")
            if name is not None and value is not None:
                self._learn_assignment(bash.text(name), value, any(child.type == "+=" for child in node.children))
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            for value in node.children_by_field_name("value") if name is not None else ():
                values = self._values(value)
                self._assign(bash.text(name), [*values, *(w for v in values for w in v.split())])  # type: ignore[arg-type]
        elif node.type == "expansion":
            match = re.match(r"\$\{([A-Za-z_]\w*):?=(.*)\}$", bash.text(node), re.DOTALL)
            if match is not None:
                self._assign(match[1], [match[2].strip("\"'")])
        elif node.type == "declaration_command" and re.search(r"\s-[A-Za-z]*n", bash.text(node)):
            self._known.references = True
        elif node.type == "function_definition":
            name = node.child_by_field_name("name")
            body = node.child_by_field_name("body")
            if name is not None and body is not None:
                runs = any(self._runs_arguments(n) for n in bash.walk(body))
                anywhere = re.search(r"\bshift\b|[@*]:|\$\{?[2-9]", bash.text(body)) is not None
                self._known.functions[bash.text(name)] = (runs, anywhere)

    def _learn_assignment(self, name: str, value: Node, adds: bool) -> None:
        base = name.partition("[")[0]
        if base in ("BASH_ENV", "ENV"):
            self._known.reads_scripts = True
        if base in ("PS4", "PROMPT_COMMAND"):  # which bash evaluates
            self._known.texts |= {(text, self._first_line + self._line(value)) for text in self._values(value)}
            self._known.reads_scripts = True
        if value.type != "array":
            text = bash.text(value).lstrip('"')
            before = self._known.variables.get(base)
            if before and re.search(rf"\$\{{?{base}\b", text):
                # In terms of itself: what is put behind it is added, else it is one of the first values only.
                adds = re.match(rf"\$(?:{base}|\{{{base}\}})(?!\w)", text) is not None
                self._known.variables[base] = [""] if adds else before[:4]
                values = self._values(value)
                self._known.variables[base] = before
                self._assign(base, values, adds)
            else:
                self._assign(base, self._values(value), adds)
            if "[" in name:
                self._assign(f"{base}[]", self._values(value), adds)
            return
        words = self._items(value)
        for word in words:
            self._assign(f"{base}[]", word)
        texts = self._joined(words)
        if texts[-1] == _CUT and not any(_CUT in word for word in words):
            # Too many to be joined: each is varied alone here, and as a command all are looked at (see _tree).
            self._known.long_arrays.add(base)
            usual = [word[0] for word in words]
            texts = [
                " ".join([*usual[:number], text, *usual[number + 1 :]])
                for number, word in enumerate(words)
                for text in word
            ][: _MOST_VALUES // 4]
        self._assign(base, [" " + text for text in texts] if adds else texts, adds)

    def _items(self, array: Node) -> list[Values]:
        return [
            tuple(re.sub(r"^\[[^\]]*\]=", "", text) for text in self._values(child)) for child in array.named_children
        ]

    def _assign(self, name: str, values: Sequence[str], adds: bool = False) -> None:
        known = self._known.variables.setdefault(name, [])
        texts = list(values)
        if adds:
            key = (name, tuple(texts))
            if key in self._known.added:
                return
            self._known.added.add(key)
        if adds and _CUT not in known and _CUT not in texts:
            # What begins with a space is a word of its own, and only the first word of a text is a command: with many
            # of them the last text is added to, which is what it mostly is, and each is known by itself.
            few = len(known) * len(texts) <= 16 or not all(text.startswith(" ") for text in texts)
            texts = [old + new for old in (known if few else known[-1:]) or [""] for new in texts] + texts
        elif adds:
            texts = [_CUT]
        if name in ("PATH", "LD_LIBRARY_PATH", "IFS"):
            texts = [text for text in texts if len(known) < _MOST_VALUES]
        for text in texts:
            if text not in known and _CUT not in known:
                known.append(text if len(known) < _MOST_VALUES and len(text) < 65536 else _CUT)

    def _call(self, function: str, rest: Sequence[Values], anywhere: bool) -> None:
        """The positional parameters of a function have these values, too."""
        for number, word in enumerate(rest):
            self._assign(f"{function}\0{number + 1}", word)
            if anywhere:
                for first in range(1, min(number, 9) + 1):
                    self._assign(f"{function}\0{first}", word)
        for first in range(len(rest) if anywhere else 1):
            self._assign(f"{function}\0@", self._joined(rest[first:]))

    @staticmethod
    def _runs_arguments(node: Node) -> bool:
        if node.type != "command":
            return False
        words = [
            bash.text(child).strip('"')
            for child in node.named_children
            if child.type not in ("variable_assignment", "file_redirect")
        ]
        while len(words) > 1 and (words[0] in _PREFIXES or words[0] == "eval"):
            words = words[1:]
        return bool(words) and re.match(r"\$([@*1-9]|\{[@*1-9])", words[0]) is not None

    def _written(self, names: Sequence[str]) -> None:
        """Variables that are read: each line of each text that the script writes may be what is read."""
        for name in names:
            if re.fullmatch(r"[A-Za-z_]\w*", name):
                for text, _ in sorted(self._known.texts):
                    self._assign(name, [text, *text.split("\n")])
                    self._assign(f"{name}[]", text.split("\n"))

    def _text_written(self, text: str, line: int) -> None:
        if text == _CUT:
            return
        for one in {text, _unescaped(text)}:
            if _SUSPECT.search(one):
                self._known.texts.add((one, self._first_line + line))

    @staticmethod
    def _file_names(node: Node) -> set[str]:
        text = bash.text(node).replace('"', "").replace("'", "")
        return {text.rsplit("/", 1)[-1]} - {"", "null"}

    # Words

    @staticmethod
    def _product(parts: Sequence[Values]) -> list[tuple[str, ...]]:
        """The combinations; _CUT alone as the last one where there are more."""
        found = list(itertools.islice(itertools.product(*parts), _MOST_VALUES))
        return found if math.prod(len(part) for part in parts) <= _MOST_VALUES else [*found, (_CUT,)]

    def _joined(self, words: Sequence[Values], between: str = " ") -> list[str]:
        return [_CUT if _CUT in one else between.join(one) for one in self._product(words)]

    @classmethod
    def _is_expansion(cls, node: Node) -> bool:
        """Whether nothing of the word is known to be there."""
        if node.type in _EXPANSIONS:
            return re.match(r"\$\d[A-Za-z_]", bash.text(node)) is None
        if node.type not in ("command_name", "string", "concatenation"):
            return False
        children = [child for child in node.children if child.type not in ('"', "$")]
        return bool(children) and all(cls._is_expansion(child) for child in children)

    def _word(self, node: Node) -> Values:
        """The values of a word of a command; "" among them where it may be nothing."""
        if node.type == "process_substitution":
            return ("/dev/fd/63",)
        values = self._values(node)
        return (*values, "") if self._is_expansion(node) and "" not in values else values

    def _values(self, node: Node) -> Values:
        """The texts that a word may stand for; what is known only when it runs is left out of it."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "special_variable_name", "extglob_pattern", "regex"):
            text = bash.text(node)
            if kind != "word":
                return (text,)
            return (re.sub(r"\\(?:\r?\n|(.))", r"\1", text.replace("``", ""), flags=re.DOTALL),)
        if kind == "raw_string":
            return (bash.text(node)[1:-1],)
        if kind == "ansi_c_string":
            return (_unescaped(bash.text(node)[2:-1]),)
        if kind == "string_content":
            return (re.sub(r"\\(?:\r?\n|([\\\"$`]))", lambda m: m[1] or "", bash.text(node)),)
        if kind in ("simple_expansion", "expansion"):
            return self._expansion(node)
        if kind in ("command_substitution", "process_substitution"):
            return self._echoed(node)
        if kind in ("concatenation", "string", "translated_string", "command_name", "subscript"):
            children = [child for child in node.children if child.type not in ('"', "$")]
            parts = [self._values(child) for child in children]
            least: list[Values] = [
                ("",) if self._is_expansion(child) else part[:1] for child, part in zip(children, parts, strict=True)
            ]
            if kind == "string":
                parts = self._with_gaps(node, parts)
                least = self._with_gaps(node, least)
            return tuple(dict.fromkeys([*self._joined(parts, ""), "".join(part[0] for part in least if part)]))
        return ("",) if node.named_children else (bash.text(node).replace("``", ""),)

    @staticmethod
    def _with_gaps(node: Node, parts: list[Values]) -> list[Values]:
        """Puts back the spaces between the parts of a string, which belong to no node."""
        if not node.children or node.text is None:
            return parts
        result: list[Values] = []
        place = node.start_byte
        index = 0
        for child in node.children:
            gap = node.text[place - node.start_byte : child.start_byte - node.start_byte]
            if gap:
                result.append((gap.decode(errors="surrogateescape"),))
            place = child.end_byte
            if child.type not in ('"', "$"):
                result.append(parts[index])
                index += 1
        return result

    def _function_of(self, node: Node) -> str:
        above: Node | None = node
        while above is not None:
            if above.type == "function_definition":
                name = above.child_by_field_name("name")
                return bash.text(name) if name is not None else self._function
            above = above.parent
        return self._function

    def _variable(self, name: str, subscript: str, node: Node) -> list[str]:
        if not re.match(r"[A-Za-z_]", name):
            name = f"{self._function_of(node)}\0{name.replace('*', '@')}"
        if subscript and subscript not in ("[@]", "[*]"):
            name = f"{name}[]" if f"{name}[]" in self._known.variables else name
        found = list(self._known.variables.get(name, ()))
        if self._known.references:
            found += [value for other in tuple(found) for value in self._known.variables.get(other, ())]
        return found

    def _expansion(self, node: Node) -> Values:
        text = bash.text(node)
        if re.match(r"\$\d[A-Za-z_]", text):  # $1word, which the parser takes for one name
            values = self._variable(text[1], "", node) or [""]
            return tuple(dict.fromkeys([*(value + text[2:] for value in values), text[2:]]))
        match = re.match(r"\$\{?(!?)([A-Za-z_]\w*|\d+|[@*])(\[[^\]]*\])?(.*)", text, re.DOTALL)
        if match is None:
            return ("",)
        known = self._variable(match[2], match[3] or "", node)
        if match[1]:
            known = [value for name in known for value in self._known.variables.get(name, ())]
        operation = match[4].removesuffix("}") if text.startswith("${") else ""
        if re.match(r":?[-=+?]", operation):
            if not re.search(r"[$`]", operation):
                known.append(re.sub(r"^:?[-=+?]", "", operation).strip("\"'"))
            for child in node.named_children[1:]:
                known += self._values(child)
        elif operation:
            known = [result for value in known for result in _changed(value, operation)]
        known = list(dict.fromkeys(known))
        return tuple(known[:_MOST_VALUES]) + ((_CUT,) if len(known) > _MOST_VALUES else ()) or ("",)

    def _echoed(self, node: Node) -> Values:
        """What echo, printf and here-documents in $( ) give; the place of a program where it is $(which PROGRAM)."""
        found: list[str] = [""]
        if node.type == "command_substitution" and bash.text(node).startswith("`") and "\\`" in bash.text(node):
            inner = re.sub(r"\\([`\\$])", r"\1", bash.text(node)[1:-1])
            node = self._parser.parse(inner.encode(errors="surrogateescape")).root_node
        for one in bash.walk(node):
            if one.type == "command":
                words = self._words(one)
                if words and {"which", "command", "type"} & set(words[0]):
                    found += self._joined([w for w in words[1:] if not w[0].startswith("-")] or [("",)])
                elif words and {"echo", "printf"} & set(words[0]):
                    found += self._output(words)
                elif words and set(words[0]) & set(self._known.functions):
                    found += [text for text, _ in sorted(self._known.texts)]
            elif one.type == "heredoc_body":
                found.append(bash.text(one))
            elif one.type == "herestring_redirect":
                found += [value for child in one.named_children for value in self._values(child)]
        found = list(dict.fromkeys(text.strip() for text in found))
        return tuple(found[:_MOST_VALUES]) + ((_CUT,) if len(found) > _MOST_VALUES else ())

    def _output(self, words: Sequence[Values]) -> list[str]:
        """What a command echo or printf writes."""
        found = []
        for one in self._product(words[1:]):
            if _CUT in one:
                found.append(_CUT)
                continue
            texts = list(one)
            while texts and re.fullmatch(r"-[neE]+|--", texts[0]):
                texts = texts[1:]
            if "printf" in words[0]:
                if texts[:1] == ["-v"]:
                    texts = texts[2:]
                found.append(_printed(texts))
            if "echo" in words[0]:
                found.append(" ".join(texts))
                found.append(_unescaped(" ".join(texts)))
        return list(dict.fromkeys(found))

    def _words(self, command: Node) -> list[Values]:
        """The words of a command, its name first, without assignments before it and redirections."""
        words: list[Values] = []
        for child in command.children:
            if child.type in ("variable_assignment", "comment") or child.type.endswith("_redirect"):
                continue
            words.append(self._word(child))
        return words

    # Commands

    def _command(self, node: Node) -> Iterator[Found]:
        line = self._line(node)
        name = node.child_by_field_name("name")
        if name is not None:
            line = self._line(name)
        words = self._words(node)
        self._known.run_arrays |= set(re.findall(r"\$\{([A-Za-z_]\w*)\[[@*]\]", bash.text(node)))
        if words:
            shown = " ".join(bash.text(node).replace("\\\n", " ").split())
            yield from self._run(words, line, shown if len(shown) <= 80 else shown[:77] + "...")

    def _split(self, text: str) -> list[str]:
        """The words of a text that is not quoted."""
        separators = "".join(set("".join(self._known.variables.get("IFS", ()))) - {"/", "-", "_", ".", "="})
        return (re.sub(f"[{re.escape(separators)}]", " ", text) if separators.strip() else text).split()

    def _run(self, words: Sequence[Values], line: int, shown: str, skipped: bool = False) -> Iterator[Found]:
        """A command: for each text that its first word may have. skipped: only if words before it are nothing."""
        key = (tuple(words), line, self._first_line, self._function)
        if not words or key in self._known.done:
            return
        self._known.done.add(key)
        self._known.check_time()
        for first in words[0]:
            if first == _CUT:
                if not skipped:
                    number = self._first_line + line
                    raise TooMuch(
                        f"line {number} runs a command that may have more than {_MOST_VALUES} values ({shown})"
                    )
                continue
            pieces = self._split(first)
            if pieces:
                yield from self._named([*((piece,) for piece in pieces), *words[1:]], pieces[0], line, shown)
            else:
                yield from self._run(words[1:], line, shown, True)

    def _named(self, words: Sequence[Values], first: str, line: int, shown: str) -> Iterator[Found]:
        name = first.rsplit("/", 1)[-1]
        rest = words[1:]
        self._known.executed.add(name)
        if self._is_privileged(name, "/" in first) or self._sets_ids(name, rest) or self._copies(name, rest):
            yield Found(self._first_line + line, name, shown)
        elif name in _SHELLS:
            yield from self._shell(rest, line)
        elif name in ("source", "."):
            self._reads(rest[0] if rest else ())
        elif name == "eval":
            yield from self._evaluated(rest, line, shown)
        elif name in ("trap", "alias"):
            for word in [w for w in rest if not w[0].startswith("-")][:1] if name == "trap" else rest:
                for code in word:
                    yield from self._inner(code.partition("=")[2] if name == "alias" else code, line)
        elif name == "find":
            for number, argument in enumerate(rest[:-1]):
                if {"-exec", "-execdir", "-ok", "-okdir"} & set(argument):
                    yield from self._run(rest[number + 1 :], line, shown)
        elif name == "set":
            self._call(self._function, [w for w in rest if not re.match(r"[-+]", w[0])], True)
        elif name in ("echo", "printf"):
            for text in self._output(words):
                self._text_written(text, line)
                if name == "printf" and rest and rest[0][0] == "-v" and len(rest) > 1:
                    self._assign(rest[1][0], [text])
        elif name == "tee":
            self._known.written |= {text.rsplit("/", 1)[-1] for word in rest for text in word} - {"", "null"}
        elif name == "read":
            self._written([word[0] for word in rest])
        elif name in self._known.functions:
            runs, anywhere = self._known.functions[name]
            self._call(name, rest, anywhere)
            for number in range((len(rest) if anywhere else 1) if runs else 0):
                yield from self._run(rest[number:], line, shown, number > 0)
        else:
            if name in ("mapfile", "readarray"):
                self._written([word[0] for word in rest[-1:]])
            yield from self._behind_prefix(name, rest, line, shown)

    def _evaluated(self, rest: Sequence[Values], line: int, shown: str) -> Iterator[Found]:
        texts = self._joined(rest)
        if texts[-1] != _CUT or any(_CUT in word for word in rest):
            for text in texts:
                yield from self._inner(text, line)
            return
        # Too many to be joined. A command begins with the first word, or within or behind one that ends another.
        yield from self._run(rest, line, shown)
        for number, word in enumerate(rest):
            for text in word:
                yield from self._inner(text, line)
            if any(re.search(r"[;&|`({!\n]", text) for text in word):
                yield from self._run(rest[number + 1 :], line, shown)

    def _reads(self, word: Values) -> None:
        """A shell reads the file as a script."""
        for text in word:
            if not text or _INPUT.search(text):
                self._known.reads_scripts = self._known.reads_scripts or bool(_INPUT.search(text))
            else:
                self._known.executed.add(text.rsplit("/", 1)[-1])

    def _shell(self, rest: Sequence[Values], line: int) -> Iterator[Found]:
        texts, arguments = self._option_string(rest, "c")
        if texts:
            function = f"\0{self._first_line + line}"
            for number, word in enumerate(arguments):
                self._assign(f"{function}\0{number}", word)
            self._call(function, arguments[1:], "shift" in "".join(texts))
            for text in texts:
                yield from self._inner(text, line, function)
            return
        words = [word for word in rest if not re.match("[-+]", word[0])]
        if not words or any(re.fullmatch(r"-[a-z]*s[a-z]*|-", word[0]) for word in rest):
            self._known.reads_scripts = True
        else:
            self._reads(words[0])

    def _behind_prefix(self, name: str, rest: Sequence[Values], line: int, shown: str) -> Iterator[Found]:
        if name in _STRING_OPTIONS:
            short, long = _STRING_OPTIONS[name]
            for number, word in enumerate(rest):
                for text in word:
                    match = re.match(rf"-[A-Za-z]*?{short}(.*)$|--(\w[-\w]*)(?:=(.*))?$", text, re.DOTALL)
                    if match is None or (match[2] is not None and not long.startswith(match[2])):
                        continue
                    attached = match[1] or match[3]
                    for code in (attached,) if attached else rest[number + 1] if number + 1 < len(rest) else ():
                        yield from self._inner(code.lstrip("="), line)
        if (name == "hash" and any("-p" in word for word in rest)) or re.match(r"ld-linux.*\.so", name):
            for number in range(len(rest)):
                yield from self._run(rest[number:], line, shown, True)
        if name not in _PREFIXES:
            return
        if name == "command" and any({"-v", "-V"} & set(word) for word in rest[:1]):
            return  # asks where the program is
        if name == "coproc" and len(rest) > 1 and rest[1][0] in ("{", "("):
            rest = rest[2:]
        if name == "watch":
            for text in self._joined([word for word in rest if not word[0].startswith("-")]):
                yield from self._inner(text, line)
        if name in ("xargs", "parallel"):
            given = tuple(text for text, _ in sorted(self._known.texts))
            rest = [
                tuple(text.replace("{}", one) for text in word for one in given) if given and "{}" in word[0] else word
                for word in rest
            ]
            rest += [given] if given else []
        for number in sorted(self._command_places(name, rest)):
            yield from self._run(rest[number:], line, shown)

    @staticmethod
    def _command_places(name: str, rest: Sequence[Values]) -> set[int]:
        """Where the command may begin behind the options, assignments and own words of a program that runs one."""
        short, long, own = _PREFIXES[name]
        found = set()
        waiting = [(0, own, True)]
        seen = set(waiting)
        while waiting:
            number, left, options = waiting.pop()
            if number >= len(rest):
                continue
            text = next((one for one in rest[number] if one), "")
            after: list[tuple[int, int, bool]] = []
            if options and text == "--":
                after = [(number + 1, left, False)]
            elif options and text.startswith("-") and len(text) > 1:
                if text.startswith("--"):
                    takes = "=" not in text and any(one.startswith(text[2:]) for one in long.split())
                else:
                    takes = text[-1] in short and not (len(text) > 2 and text[1] in short)
                after = [(number + (2 if takes else 1), left, True)]
            elif options and _ASSIGNMENT.match(text):
                after = [(number + 1, left, True)]
            elif left:
                after = [(number + 1, left - 1, False)]
            else:
                found.add(number)
            if "" in rest[number]:
                after.append((number + 1, left, options))
            for one in after:
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        return found

    @staticmethod
    def _copies(name: str, rest: Sequence[Values]) -> bool:
        """Whether a program that raises privileges gets another name."""
        return name in ("cp", "ln", "mv") and any(
            re.search(r"(^|/)s?bin/[^/]+$", text) is not None and text.rsplit("/", 1)[-1] in PRIVILEGED
            for word in rest[:-1]
            for text in word
        )

    @staticmethod
    def _is_privileged(name: str, in_folder: bool) -> bool:
        if name in PRIVILEGED:
            return True
        braces = re.match(r"\{?([^,{}]+),.*\}$", name)  # {sudo,ls}, of which the parser may leave out the first brace
        if braces is not None:
            return braces[1] in PRIVILEGED
        # A pattern is the name of a file; one that is found on PATH has its letters in the current folder only.
        if len(re.findall(r"[a-z]", name)) < (1 if in_folder else 2) or not re.search(r"[*?[]|[@+?*!]\(", name):
            return False
        return any(fnmatch.fnmatchcase(one, name) for one in PRIVILEGED)

    def _sets_ids(self, name: str, rest: Sequence[Values]) -> bool:
        """chmod, install and mkdir that set a setuid or setgid bit, and install that gives a file away."""
        if name == "chmod":
            for word in rest:
                texts = [piece for text in word for piece in text.split()]
                if any(text.startswith("--reference") for text in texts):
                    return False
                if any(text.startswith("--") or re.fullmatch("-[Rcfv]+", text) for text in texts):
                    continue
                if any(_mode_sets_ids(text) for text in texts):
                    return True
                if "" not in word:
                    return False
            return False
        if name not in ("install", "mkdir"):
            return False
        for number, word in enumerate(rest):
            for text in word:
                match = re.match(r"(?:-[A-Za-z]*m|--m(?:o(?:d(?:e)?)?)?(?==|$))=?(.*)$", text)
                if match is not None:
                    modes = (match[1],) if match[1] else rest[number + 1] if number + 1 < len(rest) else ()
                    if any(_mode_sets_ids(mode) for mode in modes):
                        return True
                if name == "install" and re.match(r"-[og]|--ow|--g", text):
                    return True
        return False

    @staticmethod
    def _option_string(rest: Sequence[Values], option: str) -> tuple[list[str], Sequence[Values]]:
        """The command strings of ``bash -c``, also ``-lc`` and ``-o pipefail -c``, and the words behind them."""
        number = 0
        wanted = False
        while number < len(rest):
            text = rest[number][0]
            if not re.match(r"[-+].", text):
                if wanted:
                    return list(rest[number]), rest[number + 1 :]
                if "" not in rest[number]:
                    return [], ()
            if not text.startswith("--") and text.startswith(("-", "+")) and option in text:
                wanted = True
            number += 2 if re.fullmatch(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file", text) else 1
        return [], ()

    # Texts that a shell reads

    def _backticks(self, node: Node) -> Iterator[Found]:
        text = bash.text(node)
        for match in re.finditer(r"(?<!\\)`([^`]*)`", text):
            line = self._line(node) + text[: match.start()].count("\n")
            yield from self._inner(match[1], line)

    def _redirected_text(self, node: Node) -> Iterator[Found]:
        for child in node.named_children:
            if child.type == "heredoc_body":
                literal = any(
                    n.type == "heredoc_start" and re.search(r"[\"'\\]", bash.text(n)) for n in node.named_children
                )
                if not literal:
                    yield from self._backticks(child)
                self._text_written(bash.text(child), self._line(child))
                for inner in () if literal else child.named_children:
                    for text in self._values(inner) if inner.type in _EXPANSIONS else ():
                        self._text_written(text, self._line(inner))
            elif node.type == "herestring_redirect":
                for text in self._values(child):
                    self._text_written(text, self._line(child))


def _unescaped(text: str) -> str:
    """The text with the escapes of $'...', echo -e and printf."""
    if "\\" not in text:
        return text
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape").replace("\0", "")
    except UnicodeDecodeError:
        return text


def _printed(texts: Sequence[str]) -> str:
    """What printf writes of a format and its values."""
    if not texts:
        return ""
    form, values = _unescaped(texts[0]), [_unescaped(text) for text in texts[1:]]
    written = ""
    while True:
        left = iter(values)
        used = 0
        for piece in re.split(r"(%[-+ #0-9.]*[a-zA-Z])", form):
            if piece.startswith("%") and len(piece) > 1:
                written += next(left, "")
                used += 1
            else:
                written += piece.replace("%%", "%")
        values = values[used:]
        if not values or not used or len(written) > 65536:
            return written


def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob.strip("\"'")))


def _changed(value: str, operation: str) -> list[str]:
    """What ${name operation} may give for a value."""
    if value == _CUT or len(value) > 1024:
        return [_CUT]
    if operation[0] in "#%":
        wanted = _pattern(operation.lstrip(operation[0]))
        places = range(len(value) + 1)
        if operation[0] == "#":
            return [value, *(value[n:] for n in places if wanted.match(value[:n]))]
        return [value, *(value[:n] for n in places if wanted.match(value[n:]))]
    if operation[0] in ",^":
        return [value.lower(), value.upper()]
    if operation[0] == "/":
        glob, _, new = operation.lstrip("/#%").partition("/")
        part = re.compile(fnmatch.translate(glob.strip("\"'")).replace(r"\Z", "").replace(r"\z", ""))
        return [value, part.sub(lambda _: new, value, count=1), part.sub(lambda _: new, value)]
    if operation[0] == ":":
        numbers = re.fullmatch(r":\s*(-?\d+)(?::\s*(-?\d+))?", operation)
        if numbers is None:
            return [value, *(name for name in PRIVILEGED if name in value)]
        start = int(numbers[1])
        rest = value[start:]
        length = int(numbers[2]) if numbers[2] is not None else len(rest)
        return [rest[:length], value]
    return [value]


def _mode_sets_ids(mode: str) -> bool:
    octal = re.fullmatch(r"([-+=]?)([0-7]+)", mode)
    if octal is not None:
        return octal[1] != "-" and bool(int(octal[2], 8) & 0o6000)
    if not _SYMBOLIC_MODE.fullmatch(mode):
        return False
    return any("s" in change[1:] for change in re.findall(r"[-+=][rwxXstugo]*", mode) if change[0] != "-")
