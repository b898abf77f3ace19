# SPDX-License-Identifier: Apache-2.0
"""What a build script depends on besides the source: files that it names, scripts that it sources, variables."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mskpp.launcher import bash
from mskpp.launcher.reading import regular_bytes
from mskpp.optune.closure import FORMAT, Look, Unknown

if TYPE_CHECKING:
    from tree_sitter import Node

COMPILERS = ("bisheng", "mskpp-cc")
# In remembered commands, for the paths of the candidate that was compiled. No path and no argument begins with this.
SOURCE, OUTPUT, PRIVATE = "\x01source", "\x01output", "\x01private"
# Of what compilers, linkers and bash do, besides backend.environment_key().
VARIABLES = (
    ("CCC_OVERRIDE_OPTIONS", "GCC_COMPARE_DEBUG", "LD_LIBRARY_PATH", "LD_PRELOAD", "SOURCE_DATE_EPOCH", "CDPATH")
    + ("GLOBIGNORE", "HOME", "POSIXLY_CORRECT", "BASHOPTS", "SHELLOPTS", "LD_RUN_PATH", "MAKEFLAGS")
)  # fmt: skip
MOST_VALUES = 64  # of a word of a script
MOST_SCRIPTS = 20  # that source one another
MOST_STEPS = 100_000  # of finding out what words of a script stand for
MOST_SCRIPT_BYTES = 256 << 10

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
        self._look = Look()
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
                raise Unknown(f"{self.path}: ${patterns[0]} is a pattern, which may match other files each time")
            self._look_into(self._look)
            states = sorted(self._look.states.items())
            parts = json.dumps([FORMAT, self.path, here, values, states])
            self.digest = hashlib.sha256(parts.encode()).hexdigest()
        except Unknown as error:
            self.why = str(error)
        except FileNotFoundError:
            self.why = "the current folder is gone"
        except RecursionError:
            self.why = f"{self.path}: it has too many things within one another"

    def look_again(self) -> Look:
        """A new look that has the script's files in it."""
        look = Look()
        self._look_into(look)
        return look

    def _look_into(self, look: Look) -> None:
        for path in self._programs:
            look.look(path, is_program=True)
        for path in self._files:
            look.look(path)

    def _follow(self) -> None:
        if os.environ.get("BASH_ENV"):
            raise Unknown("BASH_ENV is set: what it names is read before the script")
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
            for node in bash.walk(root):
                self._learn(path, node)
            # Sourced scripts may set variables that others use, so they are all learned before anything is judged.
            self._find_sourced(path, root)
        for path, root in done:
            for node in bash.walk(root):
                if node.type == "command" and not _inside(node, "command_substitution", "process_substitution"):
                    self._moves(path, self._words(node))
        for path, root in done:
            for node in bash.walk(root):
                self._judge(path, node)

    def _is_toolkit(self, path: str) -> bool:
        return self._toolkit is not None and os.path.realpath(path).startswith(self._toolkit + os.sep)

    def _parsed(self, path: str) -> Node:
        try:
            text = regular_bytes(Path(path), MOST_SCRIPT_BYTES)
        except (OSError, ValueError) as error:
            raise Unknown(f"{path} cannot be read: {error}") from None
        root = bash.parser().parse(text).root_node
        if root.has_error:
            raise Unknown(f"{path}: its syntax is not understood as a whole")
        if b"${!" in text:
            raise Unknown(f"{path}: it uses variables by names that are made when it runs (${{!...}})")
        self._variables |= {name.decode() for name in (*_NAMED.findall(text), *_TESTED.findall(text))}
        changing = sorted(self._variables & _CHANGING)
        if changing:
            raise Unknown(f"{path}: it uses ${changing[0]}, which is another one each time")
        return root

    def _learn(self, path: str, node: Node) -> None:
        if node.type == "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is None or value is None:
                return
            base = bash.text(name).partition("[")[0]
            adds = any(child.type == "+=" for child in node.children)
            if adds or "[" in bash.text(name) or value.type == "array":
                self._moving.add(base)
            self._given.setdefault(base, []).append((path, value))
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            if name is not None:
                values = node.children_by_field_name("value")
                self._given.setdefault(bash.text(name), []).extend((path, value) for value in values)
                if not values:
                    self._moving.add(bash.text(name))
        elif node.type == "function_definition":
            name = node.child_by_field_name("name")
            self._functions.add("" if name is None else bash.text(name))
        elif node.type in ("arithmetic_expansion", "c_style_for_statement") or bash.text(node)[:2] == "((":
            names = set(re.findall(r"[A-Za-z_]\w*", bash.text(node)))
            self._moving |= names
            self._variables |= names
        elif node.type == "command":
            words = [bash.text(child) for child in node.named_children]
            if words and words[0] in _SETS:
                self._moving |= {word for word in words[1:] if re.fullmatch(r"[A-Za-z_]\w*", word)}
            keeps = all(re.match(r"[-+]\w|pipefail$", word) for word in words[1:])
            if words[:1] == ["shift"] or (words[:1] == ["set"] and not keeps):
                self._positional = False

    def _find_sourced(self, path: str, root: Node) -> None:
        for node in bash.walk(root):
            words = self._words(node) if node.type == "command" else []
            if words and bash.text(words[0]) in ("source", "."):
                for found in self._named_files(path, node, words[1:2]):
                    if os.path.lexists(found):
                        self._scripts[found] = None
                    self._files[found] = None
                if len(words) > 2:
                    self._positional = False
                if len(self._scripts) > MOST_SCRIPTS:
                    raise Unknown(f"{path}: more than {MOST_SCRIPTS} scripts are sourced")

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
        """Notes what the node reads. Unknown where that cannot be told."""
        if node.type == "command":
            self._command(path, node, self._words(node))
        elif node.type == "declaration_command" and not node.named_children:
            raise Unknown(f"{self._where(path, node)}: {bash.text(node)} lists all variables")
        elif node.type == "process_substitution":
            raise Unknown(f"{self._where(path, node)}: <( ) and >( ) are not followed")
        elif node.type == "file_redirect":
            if re.match(r"\d*<(?!&)", bash.text(node)):
                self._read(path, node, node.named_children[-1:])
        elif node.type == "unary_expression" and _inside(node, "test_command"):
            if node.children and _FILE_TEST.fullmatch(bash.text(node.children[0])):
                self._read(path, node, node.named_children[1:] or node.named_children)
        elif node.type == "binary_expression" and _inside(node, "test_command"):
            if re.search(r"\s-(?:nt|ot|ef)\s", bash.text(node)):
                raise Unknown(f"{self._where(path, node)}: it compares times of files")
        elif node.type in ("word", "extglob_pattern") and _PATTERN.search(bash.text(node)) and not self._is_text(node):
            raise Unknown(f"{self._where(path, node)}: {bash.text(node)} may match other files each time")

    def _is_text(self, node: Node) -> bool:
        """Whether a pattern is compared with texts, or only says what is removed."""
        if _inside(node, "test_command", "case_statement", "case_item", "expansion", "arithmetic_expansion"):
            # A command within is found by its own words.
            return not _inside(node, "command") or _inside(node, "test_command", "expansion")
        above = node.parent
        while above is not None and above.type != "command":
            above = above.parent
        words = [] if above is None else self._words(above)
        return bool(words) and bash.text(words[0]) == "rm"

    def _command(self, path: str, node: Node, words: Sequence[Node], functions: bool = True) -> None:
        if not words:
            return
        where = self._where(path, node)
        for name in sorted(self._values(path, words[0]) or [""], key=lambda one: (-len(one), one)):
            if name in COMPILERS or name in ("source", ".") or (functions and name in self._functions):
                continue
            if os.path.basename(name) in COMPILERS:
                raise Unknown(f"{where}: the compiler is called by its path ({name}) and not seen; call it by name")
            if name in _BEFORE:
                rest = [word for word in words[1:] if not bash.text(word).startswith("-")]
                if name == "command" and any(bash.text(word) in ("-v", "-V") for word in words[1:]):
                    self._find(path, node, rest)
                else:
                    self._command(path, node, rest, functions=False)
            elif name in _FINDERS:
                self._find(path, node, [word for word in words[1:] if not bash.text(word).startswith("-")])
            elif name == "set" and len(words) == 1:
                raise Unknown(f"{where}: set lists all variables")
            elif name == "trap":
                code = {bash.text(word) for word in words[1:2]}
                if not all(re.fullmatch(r"'(?:rm -r?f [^;&|`()]*|)'|-|\"rm -r?f [^;&|`()]*\"", one) for one in code):
                    raise Unknown(f"{where}: what trap runs is not followed")
            elif name in _READERS:
                self._read(path, node, words[1:])
            elif name not in _PURE:
                shown = name or bash.text(words[0])
                raise Unknown(f"{where}: it runs {shown}, of which it is not known what it reads")

    def _moves(self, path: str, words: Sequence[Node]) -> None:
        """Notes where a command may go to: files are looked for in all these folders."""
        if not words or bash.text(words[0]) not in ("cd", "pushd", "popd"):
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
                raise Unknown(f"{self._where(path, node)}: which program is looked for is known only when it runs")
            if values & frozenset(COMPILERS) and not self._is_quiet(node):
                raise Unknown(
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
        redirected = "" if above is None or above.type != "redirected_statement" else bash.text(above)
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
                raise Unknown(
                    f"{self._where(path, node)}: what {bash.text(word)[:80]} names is known only when it runs"
                )
            for value in values:
                if not value or value.startswith(("\x01", "-")) or "\n" in value or len(value) > 4000:
                    continue
                if os.path.isabs(value):
                    yield value
                elif self._places is None:
                    raise Unknown(f"{self._where(path, node)}: {value} is looked for in a folder that is not known")
                else:
                    yield from (os.path.join(place, value) for place in self._places)

    # Words

    def _values(self, path: str, node: Node, depth: int = 0) -> Values | None:
        """The texts that a word may stand for; None: that is not known."""
        kind = node.type
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Unknown(f"{path}: it has too many variables within one another")
        if depth > 20:
            return None
        if kind in ("word", "number", "variable_name", "string_content", "test_operator", "special_variable_name"):
            text = bash.text(node)
            if text == "~" or text.startswith("~/"):
                return frozenset([os.environ.get("HOME", "") + text[1:]])
            return frozenset([re.sub(r"\\(.)", r"\1", text)])
        if kind == "raw_string":
            return frozenset([bash.text(node)[1:-1]])
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
        text = bash.text(node)
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
                if values is None or bash.text(child).strip("\"'") != match["other"].strip("\"'"):
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
        arguments = [word for word in words[1:] if not bash.text(word).startswith("-")]
        name = bash.text(words[0]) if words else ""
        values = self._values(path, arguments[0], depth + 1) if len(arguments) == 1 else None
        if len(inner) == 2 and name == "cd" and re.fullmatch(r"pwd(?: -[LP])?", bash.text(inner[1])):
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
