# SPDX-License-Identifier: Apache-2.0
"""Finds the commands of a shell script that raise privileges, wherever they stand.

The script is parsed, so the same word in a comment, an argument or a string is no finding. A command is looked for
behind ``env``, ``exec``, ``timeout 5`` and the like, in command strings (``bash -c``, ``eval``, ``trap``), in what is
piped or redirected into a shell, and behind quotes, backslashes, folders and variables that the script itself sets.
It is a guard against accidents and careless scripts, no sandbox: other scripts that are sourced, other languages
(``python -c``), and names that are only known at run time are not followed.
"""

from __future__ import annotations

import bisect
import codecs
import fnmatch
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mskpp.errors import BackendError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PRIVILEGED = frozenset(
    ("sudo", "su", "pkexec", "doas", "run0", "runuser", "sudoedit", "gksu", "gksudo", "kdesu", "kdesudo")
    + ("chown", "chgrp", "setcap", "setpriv", "newgrp", "capsh")
)
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash"))

# Programs that run the rest of their words as a command: the options that take the next word, and the number of
# words of their own before the command.
_PREFIXES: dict[str, tuple[str, int]] = {
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("a", 0),
    "env": ("uC", 0),
    "nohup": ("", 0),
    "time": ("fo", 0),
    "nice": ("n", 0),
    "ionice": ("cnp", 0),
    "chrt": ("TPD", 1),
    "taskset": ("", 1),
    "numactl": ("CNmipl", 0),
    "xargs": ("aEIdLnPs", 0),
    "parallel": ("jNn", 0),
    "timeout": ("ks", 1),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "coproc": ("", 0),
    "chroot": ("", 1),
    "unshare": ("SGRw", 0),
    "nsenter": ("tSG", 0),
    "flock": ("wE", 1),
    "strace": ("abEeIOopPsSuUX", 0),
    "ltrace": ("aeFnopsuxDl", 0),
    "valgrind": ("", 0),
    "watch": ("nq", 0),
    "unbuffer": ("", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "fakeroot": ("lsib", 0),
    "catchsegv": ("", 0),
    "then": ("", 0),
    "do": ("", 0),
    "else": ("", 0),
    "!": ("", 0),
    "{": ("", 0),
}
_STRING_OPTIONS = {"env": ("-S", "--split-string"), "flock": ("-c", "--command"), "script": ("-c", "--command")}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SYMBOLIC_MODE = re.compile(r"[ugoa]*([-+=][rwxXstugo]*)+(,[ugoa]*([-+=][rwxXstugo]*)+)*")
_MOST_VALUES = 16  # of one word, when variables with several values are put in
_MOST_DEPTH = 8  # of scripts within strings within scripts

# A word: each text that it may have, as far as that is known; and None for the rest.
Values = tuple["str | None", ...]


@dataclass(frozen=True)
class Found:
    """A command that raises privileges: its line (from 1), its name and its text."""

    line: int
    name: str
    shown: str


def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise BackendError(
            f"script: build scripts cannot be checked without {error.name}; pip install tree-sitter tree-sitter-bash"
        ) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def privileged_commands(script: bytes) -> list[Found]:
    """All of them in the order of their lines; [] for a script that asks for no privileges."""
    found = list(_Scan(_parser(), 1, 0).script(script))
    return sorted(set(found), key=lambda one: (one.line, one.name))


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="surrogateescape")


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)


def _joined_lines(script: bytes, root: Node) -> tuple[bytes, list[int]]:
    """The script with lines that end in a backslash joined, and where in it they were joined.

    Not in comments, which end with their line.
    """
    comments = [(node.start_byte, node.end_byte) for node in _walk(root) if node.type == "comment"]
    joined = bytearray()
    places = []
    start = 0
    for match in re.finditer(rb"(?<!\\)(?:\\\\)*(\\\r?\n)", script):
        if not any(first <= match.start(1) <= last for first, last in comments):
            joined += script[start : match.start(1)]
            places.append(len(joined))
            start = match.end(1)
    return bytes(joined + script[start:]), places


class _Scan:
    """One script and, below it, the scripts in its strings. first_line is that of its first line in the file."""

    def __init__(self, parser: Parser, first_line: int, depth: int, outer: _Scan | None = None) -> None:
        self._parser = parser
        self._first_line = first_line
        self._depth = depth
        self._variables: dict[str, list[str]] = dict(outer._variables if outer else {"SHELL": ["sh"], "BASH": ["bash"]})
        self._callers: set[str] = set(outer._callers) if outer else set()  # functions that run their arguments
        self._joined_at: Sequence[int] = ()  # where lines were joined, by byte

    def script(self, script: bytes, joined_at: Sequence[int] = ()) -> Iterator[Found]:
        self._joined_at = joined_at
        script = script.replace(b"\0", b"")  # bash ignores them
        root = self._parser.parse(script).root_node
        yield from self._tree(root)
        if root.has_error:
            # What the parser cannot read it may have skipped: each line is looked at once more by itself.
            place = 0
            for number, line in enumerate(script.split(b"\n")):
                if line.strip() and line != script:
                    yield from self._inner(line, number + bisect.bisect_right(joined_at, place))
                place += len(line) + 1
        joined, places = _joined_lines(script, root)
        if places and self._depth < _MOST_DEPTH:  # the end of a line may cut a word
            yield from _Scan(self._parser, self._first_line, self._depth + 1, self).script(joined, places)

    def _line(self, node: Node) -> int:
        """The line, from 0, of the start of the node in the script as it was before lines were joined."""
        return node.start_point[0] + bisect.bisect_right(self._joined_at, node.start_byte)

    def _inner(self, script: bytes, line: int) -> Iterator[Found]:
        """A script within this one, of which line is the number, from 0, of its first line."""
        if self._depth < _MOST_DEPTH:
            yield from _Scan(self._parser, self._first_line + line, self._depth + 1, self).script(script)

    def _tree(self, root: Node) -> Iterator[Found]:
        nodes = list(_walk(root))
        for node in nodes:
            self._learn(node)
        for node in nodes:
            if node.type == "command":
                yield from self._command(node)
            elif node.type == "command_name" and node.parent is not None and node.parent.type == "ERROR":
                yield from self._run([self._values(node)], self._line(node), _text(node))
            elif node.type in ("heredoc_redirect", "herestring_redirect"):
                yield from self._redirected_text(node)
            elif node.type == "pipeline":
                yield from self._piped_text(node)
            elif node.type == "command_substitution" and _text(node).startswith("`") and "\\`" in _text(node):
                inner = re.sub(r"\\([`\\$])", r"\1", _text(node)[1:-1])
                yield from self._inner(inner.encode(errors="surrogateescape"), self._line(node))
            elif node.type == "word" and node.parent is not None and node.parent.type == "expansion":
                yield from self._backticks(node)  # ${x:-`command`}: the parser takes it for a word

    # Variables and functions

    def _learn(self, node: Node) -> None:
        if node.type == "variable_assignment":
            name = node.child_by_field_name("name")
            value = node.child_by_field_name("value")
            if name is not None and value is not None:
                adds = any(child.type == "+=" for child in node.children)
                self._assign(_text(name), self._words_of(value), adds)
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            for value in node.children_by_field_name("value") if name is not None else ():
                self._assign(_text(name), self._words_of(value), False)  # type: ignore[arg-type]
        elif node.type == "function_definition":
            name = node.child_by_field_name("name")
            body = node.child_by_field_name("body")
            if name is not None and body is not None and any(self._runs_arguments(n) for n in _walk(body)):
                self._callers.add(_text(name))

    def _words_of(self, value: Node) -> Values:
        if value.type != "array":
            return self._values(value)
        words = [self._values(child) for child in value.named_children]
        return tuple(" ".join(word for word in one if word is not None) for one in self._product(words))

    def _assign(self, name: str, values: Values, adds: bool) -> None:
        known = self._variables.setdefault(name, [])
        texts = [value for value in values if value is not None]
        if adds:
            texts = [old + new for old in known or [""] for new in texts]
        known += [text for text in texts if text not in known][: max(0, _MOST_VALUES - len(known))]

    @staticmethod
    def _runs_arguments(node: Node) -> bool:
        if node.type != "command":
            return False
        words = [
            _text(child).strip('"')
            for child in node.named_children
            if child.type not in ("variable_assignment", "file_redirect")
        ]
        while len(words) > 1 and (words[0] in _PREFIXES or words[0] == "eval"):
            words = words[1:]
        return bool(words) and words[0] in ("$@", "$*", "${@}", "${*}", "$1", "${1}")

    # Words

    @staticmethod
    def _product(parts: Sequence[Values]) -> list[tuple[str | None, ...]]:
        return list(itertools.islice(itertools.product(*parts), _MOST_VALUES))

    def _values(self, node: Node) -> Values:
        """The texts that a word may stand for; None where it depends on what is known only when it runs."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "special_variable_name", "extglob_pattern", "regex"):
            return (re.sub(r"\\(?:\r?\n|(.))", r"\1", _text(node), flags=re.DOTALL) if kind == "word" else _text(node),)
        if kind == "raw_string":
            return (_text(node)[1:-1],)
        if kind == "ansi_c_string":
            try:
                return (codecs.decode(_text(node)[2:-1].encode("latin-1", "replace"), "unicode_escape"),)
            except UnicodeDecodeError:
                return (None,)
        if kind == "string_content":
            return (re.sub(r"\\(?:\r?\n|([\\\"$`]))", lambda m: m[1] or "", _text(node)),)
        if kind in ("simple_expansion", "expansion"):
            return self._expansion(node)
        if kind == "command_substitution":
            return self._echoed(node)
        if kind in ("concatenation", "string", "translated_string", "command_name", "subscript"):
            parts = [self._values(child) for child in node.children if child.type not in ('"', "$")]
            if kind == "string":
                parts = self._with_gaps(node, parts)
            return tuple(
                None if any(part is None for part in one) else "".join(part for part in one if part is not None)
                for one in self._product(parts)
            )
        return (None,) if node.named_children else (_text(node),)

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

    def _expansion(self, node: Node) -> Values:
        match = re.match(r"\$\{?!?([A-Za-z_]\w*)(?:\[[^\]]*\])?(.*)", _text(node), re.DOTALL)
        if match is None:
            return (None,)
        known: list[str | None] = list(self._variables.get(match[1], ()))
        instead = re.match(r":?[-=+](.*)\}$", match[2], re.DOTALL)
        if instead is not None:
            known.append(instead[1].strip("\"'"))
        return tuple(known) or (None,)

    def _echoed(self, node: Node) -> Values:
        """What $(echo WORDS) and $(printf WORDS) give; the place of a program where it is $(which PROGRAM)."""
        commands = [child for child in node.named_children if child.type == "command"]
        if len(commands) != 1 or len(node.named_children) != 1:
            return (None,)
        words = self._words(commands[0])
        if len(words) < 2 or not {"echo", "printf", "which", "command", "type"} & set(words[0]):
            return (None,)
        texts = [
            " ".join(word for word in one if word is not None and not word.startswith("-")).replace("\\n", "")
            for one in self._product(words[1:])
        ]
        return tuple(texts)

    def _words(self, command: Node) -> list[Values]:
        """The words of a command, its name first, without assignments before it and redirections."""
        words: list[Values] = []
        for child in command.children:
            if child.type in ("variable_assignment", "comment") or child.type.endswith("_redirect"):
                continue
            words.append(self._values(child))
        return words

    # Commands

    def _command(self, node: Node) -> Iterator[Found]:
        line = self._line(node)
        name = node.child_by_field_name("name")
        if name is not None:
            line = self._line(name)
        words = self._words(node)
        if words:
            shown = " ".join(_text(node).replace("\\\n", " ").split())
            yield from self._run(words, line, shown if len(shown) <= 80 else shown[:77] + "...")

    def _run(self, words: Sequence[Values], line: int, shown: str) -> Iterator[Found]:
        """A command: for each text that its first word may have."""
        for first in words[0]:
            pieces = (first or "").split()
            if pieces:
                yield from self._named([*((piece,) for piece in pieces), *words[1:]], pieces[0], line, shown)

    def _named(self, words: Sequence[Values], first: str, line: int, shown: str) -> Iterator[Found]:
        name = first.rsplit("/", 1)[-1]
        rest = words[1:]
        if self._is_privileged(name) or self._sets_ids(name, rest):
            yield Found(self._first_line + line, name, shown)
        elif name in _SHELLS:
            for text in self._option_string(rest, "c"):
                yield from self._inner(text.encode(errors="surrogateescape"), line)
        elif name == "eval":
            for one in self._product(rest):
                text = " ".join(word for word in one if word is not None)
                yield from self._inner(text.encode(errors="surrogateescape"), line)
        elif name in ("trap", "alias"):
            for word in rest[:1] if name == "trap" else rest:
                for one_text in word:
                    code = (one_text or "").partition("=")[2] if name == "alias" else one_text or ""
                    yield from self._inner(code.encode(errors="surrogateescape"), line)
        elif name == "find":
            for number, argument in enumerate(rest[:-1]):
                if {"-exec", "-execdir", "-ok", "-okdir"} & set(argument):
                    yield from self._run(rest[number + 1 :], line, shown)
        elif name in self._callers and rest:
            yield from self._run(rest, line, shown)
        else:
            yield from self._behind_prefix(name, rest, line, shown)

    def _behind_prefix(self, name: str, rest: Sequence[Values], line: int, shown: str) -> Iterator[Found]:
        for option in _STRING_OPTIONS.get(name, ()):
            for number, word in enumerate(rest):
                for text in word:
                    if text is None or not text.startswith(option):
                        continue
                    attached = text[len(option) :].lstrip("=")
                    inner = (attached,) if attached else rest[number + 1] if number + 1 < len(rest) else ()
                    for code in inner:
                        yield from self._inner((code or "").encode(errors="surrogateescape"), line)
        if name not in _PREFIXES:
            return
        with_value, own = _PREFIXES[name]
        if name == "command" and any({"-v", "-V"} & set(word) for word in rest[:1]):
            return  # asks where the program is
        number = 0
        while number < len(rest):
            text = rest[number][0] or ""
            if text == "--":
                number += 1
                break
            if text.startswith("-") and len(text) > 1:
                number += 2 if len(text) == 2 and text[1] in with_value else 1
                # A long option may have taken the next word, or not: what follows that word is looked at as well.
                if text.startswith("--") and "=" not in text and number + own + 1 < len(rest):
                    after = number + own + 1
                    if any(one is not None and self._is_privileged(one.rsplit("/", 1)[-1]) for one in rest[after]):
                        yield from self._run(rest[after:], line, shown)
                continue
            if _ASSIGNMENT.match(text):
                number += 1
                continue
            break
        number += own
        if number < len(rest):
            yield from self._run(rest[number:], line, shown)

    @staticmethod
    def _is_privileged(name: str) -> bool:
        if name in PRIVILEGED:
            return True
        braces = re.match(r"\{?([^,{}]+),.*\}$", name)  # {sudo,ls}, of which the parser may leave out the first brace
        if braces is not None:
            return braces[1] in PRIVILEGED
        if len(re.findall(r"[a-z]", name)) < 2 or not re.search(r"[*?[]", name):
            return False
        return any(fnmatch.fnmatchcase(one, name) for one in PRIVILEGED)

    def _sets_ids(self, name: str, rest: Sequence[Values]) -> bool:
        """chmod, install and mkdir that set a setuid or setgid bit, and install that gives a file away."""
        if name == "chmod":
            for word in rest:
                texts = [text for text in word if text is not None]
                if any(text.startswith("--reference") for text in texts):
                    return False
                if any(text.startswith("--") or re.fullmatch("-[Rcfv]+", text) for text in texts):
                    continue
                return any(_mode_sets_ids(text) for text in texts)
            return False
        if name not in ("install", "mkdir"):
            return False
        for number, word in enumerate(rest):
            for text in word:
                match = re.match(r"(?:-[A-Za-z]*m|--mode)(?:=?(.*))$", text or "")
                if match is not None:
                    modes = (match[1],) if match[1] else rest[number + 1] if number + 1 < len(rest) else ()
                    if any(mode is not None and _mode_sets_ids(mode) for mode in modes):
                        return True
                if name == "install" and re.match(r"-[og]|--owner|--group", text or ""):
                    return True
        return False

    @staticmethod
    def _option_string(rest: Sequence[Values], option: str) -> list[str]:
        """The command strings of ``bash -c``, also ``-lc`` and ``-o pipefail -c``."""
        number = 0
        wanted = False
        while number < len(rest):
            text = rest[number][0] or ""
            if not re.match(r"[-+].", text):
                return [one for one in rest[number] if one is not None] if wanted else []
            if not text.startswith("--") and option in text:
                wanted = True
            number += 2 if re.fullmatch(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file", text) else 1
        return []

    # Texts that a shell reads

    def _reads_script_from_stdin(self, command: Node) -> bool:
        words = self._words(command)
        while words:
            name = (words[0][0] or "").rsplit("/", 1)[-1]
            if name in _SHELLS:
                rest = [word[0] or "" for word in words[1:]]
                return not any(not re.match("[-+]", word) for word in rest) or any(
                    re.fullmatch(r"-[a-z]*s[a-z]*", word) for word in rest
                )
            if name in ("source", ".") and any("/dev/stdin" in word for word in words[1:]):
                return True
            if name not in _PREFIXES:
                return False
            words = words[1:]
            while words and re.match(r"-|\d|[A-Za-z_]\w*=", words[0][0] or ""):
                words = words[1:]
        return False

    def _shell_around(self, node: Node) -> bool:
        """Whether a shell in the same pipeline or redirected statement may read the text of this redirection."""
        top = node
        while top.parent is not None and top.parent.type in ("redirected_statement", "pipeline", "command", "subshell"):
            top = top.parent
        return any(n.type == "command" and self._reads_script_from_stdin(n) for n in _walk(top))

    def _backticks(self, node: Node) -> Iterator[Found]:
        text = _text(node)
        for match in re.finditer(r"(?<!\\)`([^`]*)`", text):
            line = self._line(node) + text[: match.start()].count("\n")
            yield from self._inner(match[1].encode(errors="surrogateescape"), line)

    def _redirected_text(self, node: Node) -> Iterator[Found]:
        for child in node.named_children:
            if child.type == "heredoc_body":
                literal = any(
                    n.type == "heredoc_start" and re.search(r"[\"'\\]", _text(n)) for n in node.named_children
                )
                if not literal:
                    yield from self._backticks(child)
                if self._shell_around(node):
                    yield from self._inner(_text(child).encode(errors="surrogateescape"), self._line(child))
            elif node.type == "herestring_redirect" and self._shell_around(node):
                for text in self._values(child):
                    yield from self._inner((text or "").encode(errors="surrogateescape"), self._line(child))

    def _piped_text(self, node: Node) -> Iterator[Found]:
        commands = [n for n in _walk(node) if n.type == "command"]
        if not any(self._reads_script_from_stdin(command) for command in commands):
            return
        for command in commands:
            words = self._words(command)
            if words and {"echo", "printf"} & set(words[0]):
                for one in self._product(words[1:]):
                    text = " ".join(word for word in one if word is not None and not re.fullmatch("-[neE]+", word))
                    code = text.replace("\\n", "\n").replace("%s", " ")
                    yield from self._inner(code.encode(errors="surrogateescape"), self._line(command))


def _mode_sets_ids(mode: str) -> bool:
    octal = re.fullmatch(r"([-+=]?)([0-7]+)", mode)
    if octal is not None:
        return octal[1] != "-" and bool(int(octal[2], 8) & 0o6000)
    if not _SYMBOLIC_MODE.fullmatch(mode):
        return False
    return any("s" in change[1:] for change in re.findall(r"[-+=][rwxXstugo]*", mode) if change[0] != "-")
