# SPDX-License-Identifier: Apache-2.0
"""The ``// tunable`` marks of a C++ source, and copies of the source with other values.

A mark is a comment at the end of a line of code:

- ``using Tile = Shape<1, 2>; // tunable`` is plain: the key is the name that is declared on the line. A line that
  declares several has a key for each. Where a line declares none, it is the declaration whose value ends there.
- ``Shape<1, 2>, // tunable: ALIAS``: the key is ALIAS, and its place is the value that stands on the line: that of a
  declaration, or the arguments of a list that goes on over several lines. A line that has neither is one place as a
  whole, without its semicolon.

Values: what stands behind ``=``, inside ``{}`` or ``()`` of an initialiser, the text of a macro, the type of a typedef.
Assignments and designated initialisers count as declarations. ``tunable`` may follow another comment
(``// stages // tunable``). Only such comments count: none in a string, a block comment, a commented-out line or
``#if 0``, and none with other text behind it. Lines joined by a backslash are one line. A value that goes on behind the
line of its mark is replaced as a whole, the mark too.

A key must fit one place. A name or alias in several branches of one #if/#else fits all of them, and so does an alias on
several lines whose values are the same text now; all are replaced. Everything else is ambiguous and refused.

A value given for a place may be

- the value alone; a ``;`` or ``,`` at its end that the source has there already is not doubled;
- the whole code of the line, as it is but for the value;
- a whole declaration of the same name, which then replaces the statement (not its semicolon).

It is one line of C++ with its brackets closed, in template lists its angle brackets too. It cannot hold comments,
directives, a semicolon, or a comma outside brackets where that would begin another declaration. In string literals
anything but a line end is allowed. The text that stands there now is always allowed.

Sources may have any encoding in which ASCII is ASCII. They are never written to.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import math
import os
import re
import shutil
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mskpp.errors import ArgumentError, FileError, InputError, MskppError, StateError
from mskpp.launcher import checks
from mskpp.launcher.signature import INCLUDE, QUALIFIERS, blank

if TYPE_CHECKING:
    from tree_sitter import Node

WHO = "autotune"
MOST_FILES = 2000
MOST_SHOWN = 20

Span = tuple[int, int]
Branches = tuple[tuple[int, int], ...]  # (which #if, which of its branches), outermost first

_SPLICE = re.compile(rb"\\[ \t]*\r?\n")
_TOKEN = re.compile(
    rb"""(?P<splice>\\[ \t]*\r?\n) | (?P<newline>\n) | (?P<space>[ \t\r\f\v]+)
    | (?P<line>//(?:\\[ \t]*\r?\n|[^\n])*) | (?P<block>/\*.*?(?:\*/|\Z))
    | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^ ()\\\t\v\f\r\n]{0,16})\(.*?\)(?P=mark)")
    | (?P<text>(?:u8|[uUL])?(?:"(?:\\\r?\n|\\.|[^"\\\n])*"?|'(?:\\\r?\n|\\.|[^'\\\n])*'?))
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[A-Za-z0-9_.])*)
    | (?P<word>[A-Za-z_$\x80-\xff][A-Za-z0-9_$\x80-\xff]*)
    | (?P<sign>->|<=>|<=|>=|<<<|<<|::|.)""",
    re.VERBOSE | re.DOTALL,
)
_MARK = re.compile(rb"//[ \t]*tunable[ \t]*(?::[ \t]*([^\s/*]+)[ \t]*)?\Z")
_NEAR_MARK = re.compile(rb"\btunable\b", re.IGNORECASE)
_CONTROL = re.compile(r"[\0-\x08\n-\x1f\x7f]")
_CLOSING = {")": "(", "]": "[", "}": "{"}
_NEVER_A_VALUE = frozenset(
    ["using", "typedef", "static", "constexpr", "constinit", "inline", "extern", "template", "namespace", "friend"]
)
_STATEMENTS = frozenset(
    ["declaration", "field_declaration", "alias_declaration", "type_definition", "expression_statement"]
    + ["return_statement"]
)
_NAMED = frozenset(["qualified_identifier", "template_type", "template_function"])
_LISTS = frozenset(["template_argument_list", "argument_list", "initializer_list"])
_NEXT = re.compile(rb"\s*(.?)", re.DOTALL)
_ENDS = frozenset([b";", b",", b")", b"}", b">", b"]"])


@dataclass(frozen=True)
class Marker:
    """One place whose value can be replaced: ``value`` is what ``file[start:end]`` holds."""

    name: str  # what is declared there, "" where nothing is
    alias: str | None
    file: Path
    line: int  # of the mark
    start: int
    end: int
    value: str  # bytes that are no UTF-8 as surrogates
    statement: Span | None = None  # the declaration without its semicolon
    declares: tuple[str, ...] = ()  # all the names that it declares
    before: tuple[str, ...] = ()  # the tokens of the line on both sides of the value
    after: tuple[str, ...] = ()
    is_list: bool = False  # a comma outside brackets does not begin another declaration
    inside: str = ""  # the bracket around it that the value must not close, # of a macro, ; of a whole statement
    branches: Branches = ()

    @property
    def key(self) -> str:
        return self.name if self.alias is None else self.alias


@dataclass(frozen=True)
class Unmarked:
    """A comment that looks like a mark and is none, or a mark where nothing can be replaced."""

    file: Path
    line: int
    comment: str
    why: str
    code: frozenset[str]  # the words of the line


class Markers(list[Marker]):
    """The places of a source and of the headers that it includes by relative names."""

    def __init__(
        self, places: Iterable[Marker], path: Path, unmarked: Sequence[Unmarked], digests: Mapping[Path, str]
    ) -> None:
        super().__init__(places)
        self.path = path
        self.unmarked = list(unmarked)
        self.digests = dict(digests)  # SHA-256 of every file that was read

    def where(self, one: Marker | Unmarked) -> str:
        return f"line {one.line}" if one.file == self.path else f"{one.file.name} line {one.line}"


# ---------------------------------------------------------------- files


@dataclass(frozen=True)
class _Source:
    place: str  # where the compiler looks for it, links not followed
    file: Path  # what it finds there
    data: bytes


def _read(path: str, seen: dict[Path, bytes]) -> tuple[Path, bytes]:
    file = checks.readable_file(path, WHO)
    if file not in seen:
        try:
            seen[file] = file.read_bytes()
        except OSError as error:
            raise FileError(f"{WHO}: {file} cannot be read: {error.strerror}") from None
    return file, seen[file]


def _sources(path: Path) -> tuple[list[_Source], set[str]]:
    """The source and all that it includes by relative names; and the folders that those names go through."""
    seen: dict[Path, bytes] = {}
    file, data = _read(str(path), seen)
    found = {str(file): _Source(str(file), file, data)}
    folders = {str(file.parent)}
    waiting = [(str(file), str(file))]  # where it is looked for, how it is opened
    while waiting:
        place, opened = waiting.pop(0)
        for raw in INCLUDE.findall(found[place].data):
            name = os.fsdecode(raw.rstrip(b"\r"))
            opened_name = os.path.join(os.path.dirname(opened), name)
            if os.path.isabs(name) or not os.path.isfile(opened_name):
                continue  # an absolute name stays what it is; others are looked for along -I
            at = os.path.normpath(os.path.join(os.path.dirname(place), name))
            parts = name.split("/")[:-1]
            for i in range(len(parts) + 1):
                folders.add(os.path.normpath(os.path.join(os.path.dirname(place), *parts[:i])))
            if at in found:
                if not os.path.samefile(opened_name, found[at].file):
                    raise InputError(
                        f"{WHO}: {name} means {found[at].file} and {os.path.realpath(opened_name)}, through links; "
                        "copies cannot tell them apart. Include it without going through links"
                    )
                continue
            if len(found) == MOST_FILES:
                raise InputError(
                    f"{WHO}: {path.name} includes more than {MOST_FILES} files by relative names; include the ones "
                    "without marks along -I"
                )
            file, data = _read(opened_name, seen)
            found[at] = _Source(at, file, data)
            waiting.append((at, opened_name))
    return list(found.values()), folders


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Token:
    kind: str
    start: int
    end: int
    text: str


def _tokens(source: bytes) -> Iterator[_Token]:
    """All of the source, comments and blanks too."""
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or ""
        yield _Token(kind, match.start(), match.end(), match.group().decode("utf-8", "surrogateescape"))


@dataclass
class _Place:
    """Something that can be replaced; ``named`` is where its name stands."""

    name: str
    named: int
    start: int
    end: int
    statement: Span | None = None
    declares: tuple[str, ...] = ()
    is_list: bool = False
    inside: str = ""


@dataclass
class _File:
    """A source, cut into tokens and freed of all that is no C++ for a parser. Every byte stays where it is."""

    source: bytes
    code: list[_Token] = field(default_factory=list)  # no comments, no directives but the text of macros
    comments: list[_Token] = field(default_factory=list)
    clean: bytearray = field(default_factory=bytearray)
    macros: list[_Place] = field(default_factory=list)
    segments: list[tuple[int, Branches, bool]] = field(default_factory=list)  # from where, branches, never compiled
    line_ends: list[int] = field(default_factory=list)  # joined lines are one
    newlines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clean = bytearray(self.source)
        if self.source.startswith(b"\xef\xbb\xbf"):
            self.clean[:3] = b"   "
        self.newlines = [m.start() for m in re.finditer(b"\n", self.source)]
        joined = set()
        directive: list[_Token] = []
        at_start, directives = True, []
        for token in _tokens(bytes(self.clean)):
            kind = token.kind
            if kind in ("splice", "line", "text"):
                joined |= {m.end() - 1 for m in _SPLICE.finditer(self.source, token.start, token.end)}
            if kind in ("splice", "line", "block"):
                self._blank(token.start, token.end)
                if kind != "splice":
                    self.comments.append(token)
            elif kind == "newline":
                if directive:
                    directives.append((directive, token.start))
                directive, at_start = [], True
            elif kind != "space":
                if directive or (at_start and token.text == "#"):
                    directive.append(token)
                else:
                    self.code.append(token)
                    self._plain(token)
                at_start = False
        if directive:
            directives.append((directive, len(self.source)))
        self.line_ends = [n for n in self.newlines if n not in joined]
        self._conditions(directives)
        self.code.sort(key=lambda token: token.start)
        self.clean = bytearray(self._without_qualifiers(bytes(self.clean)))

    def _blank(self, start: int, end: int) -> None:
        self.clean[start:end] = b" " * (end - start)

    def _plain(self, token: _Token) -> None:
        """What stands in a literal, and bytes that a parser of UTF-8 could stumble over, become letters."""
        raw = self.source[token.start : token.end]
        if token.kind in ("text", "raw"):
            opening, closing = (
                (b"(", b")") if token.kind == "raw" else (token.text[-1:].encode("utf-8", "replace"),) * 2
            )
            first, last = raw.find(opening) + 1, raw.rfind(closing)
            raw = raw[:first] + b"x" * (last - first) + raw[last:] if first <= last else raw
        self.clean[token.start : token.end] = re.sub(rb"[\x80-\xff]", b"x", raw)

    def _conditions(self, directives: list[tuple[list[_Token], int]]) -> None:
        """Takes the directives out, and notes the branches of each #if and the macros."""
        # Number, branch, and its state: 0 may be compiled, 1 never is, 2 is and all behind it are 3, never.
        stack: list[list[int]] = []
        groups = 0
        self.segments.append((0, (), False))
        for tokens, end in directives:
            start = tokens[0].start
            self._blank(start, end)
            word = tokens[1].text if len(tokens) > 1 else ""
            condition = "".join(t.text for t in tokens[2:])
            if word in ("if", "ifdef", "ifndef"):
                state = {"0": 1, "false": 1, "1": 2, "true": 2}.get(condition, 0) if word == "if" else 0
                stack.append([groups, 0, state])
                groups += 1
            elif word.startswith("el") and stack:
                top = stack[-1]
                top[1] += 1
                top[2] = 3 if top[2] in (2, 3) else int(condition in ("0", "false") and word == "elif")
            elif word == "endif" and stack:
                stack.pop()
            elif word == "define":
                self._macro(tokens, start)
                continue
            else:
                continue
            branches = tuple((number, branch) for number, branch, _ in stack)
            self.segments.append((start, branches, any(state in (1, 3) for _, _, state in stack)))

    def _macro(self, tokens: list[_Token], start: int) -> None:
        body = 3
        if len(tokens) > 3 and tokens[3].text == "(" and tokens[3].start == tokens[2].end:
            body = next((i + 1 for i, t in enumerate(tokens) if i > 3 and t.text == ")"), len(tokens))
        self.code += tokens
        if len(tokens) > body:
            first, last = tokens[body].start, tokens[-1].end
            self.macros.append(_Place(tokens[2].text, tokens[2].start, first, last, is_list=True, inside="#"))

    @staticmethod
    def _without_qualifiers(clean: bytes) -> bytes:
        def qualifier(match: re.Match[bytes]) -> bytes:
            """A name like FAST_KERNEL that is declared stays."""
            behind = _NEXT.match(clean, match.end())
            is_declared = behind is not None and behind[1] in (b"=", b"{", b"[", b";", b",")
            return match.group() if is_declared and match.group()[:1] not in (b"_", b"[") else blank(match)

        clean = QUALIFIERS.sub(qualifier, clean)
        # A launch reads as a call of a call.
        return re.sub(rb"<<<(.*?)>>>(?=\s*\()", rb"  (\1)  ", clean, flags=re.DOTALL)

    def line(self, offset: int) -> int:
        """Which line, from 1, as an editor counts."""
        return bisect_right(self.newlines, offset - 1) + 1

    def joined_line(self, offset: int) -> Span:
        """The line around it; lines joined by a backslash are one."""
        i = bisect_right(self.line_ends, offset - 1)
        start = self.line_ends[i - 1] + 1 if i else 0
        return start, self.line_ends[i] if i < len(self.line_ends) else len(self.source)

    def tokens(self, start: int, end: int) -> list[_Token]:
        first = bisect_right(self.code, start - 1, key=lambda t: t.start)
        last = bisect_right(self.code, end - 1, key=lambda t: t.start)
        return self.code[first:last]

    def segment(self, offset: int) -> tuple[Branches, bool]:
        _, branches, dead = self.segments[bisect_right(self.segments, offset, key=lambda s: s[0]) - 1]
        return branches, dead

    def variants(self, lines: Sequence[Span]) -> Iterator[bytes]:
        """The source as it may be compiled, so often that each of the lines is in one: of each #if one branch."""
        choices: list[dict[int, int]] = []
        for start, _ in lines:
            wanted = dict(self.segment(start)[0])
            for choice in choices:
                if all(choice.get(number, branch) == branch for number, branch in wanted.items()):
                    choice.update(wanted)
                    break
            else:
                choices.append(wanted)
        ends = [start for start, _, _ in self.segments[1:]] + [len(self.source)]
        for choice in choices:
            text = bytearray(self.clean)
            for (start, branches, dead), end in zip(self.segments, ends, strict=True):
                if dead or any(branch != choice.get(number, 0) for number, branch in branches):
                    text[start:end] = b" " * (end - start)
            yield bytes(text)


def _parse(text: bytes) -> Node:
    import tree_sitter_cpp
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cpp.language())).parse(text).root_node


def _name(node: Node | None) -> Node | None:
    """The identifier that a declarator declares."""
    while node is not None and node.type not in ("identifier", "field_identifier", "type_identifier"):
        if node.type in ("reference_declarator", "parenthesized_declarator", "variadic_declarator"):
            node = next(iter(node.named_children), None)
        else:
            node = node.child_by_field_name("name" if node.type in _NAMED else "declarator")
    return node


def _text(node: Node, source: bytes) -> str:
    return b"".join(source[node.start_byte : node.end_byte].split()).decode("utf-8", "surrogateescape")


def _statement(node: Node) -> Node:
    """The declaration around it; itself where it is a part of none."""
    outer: Node | None = node
    while outer is not None and outer.type not in _STATEMENTS:
        outer = outer.parent if outer.type in ("init_declarator", "assignment_expression") else None
    return node if outer is None else outer


def _without_semicolon(node: Node) -> Span:
    is_ended = len(node.children) > 1 and node.children[-1].type == ";"
    return node.start_byte, node.children[-2].end_byte if is_ended else node.end_byte


def _declarators(node: Node, source: bytes) -> tuple[str, ...]:
    """All the names that a statement declares, those without a value too."""
    names = [_name(declarator) for declarator in node.children_by_field_name("declarator")]
    names += [name for part in [node, *node.named_children] for name, _, _ in _valued(part)]
    return tuple(sorted({_text(name, source) for name in names if name is not None}))


def _valued(node: Node) -> Iterator[tuple[Node | None, Node | None, bool]]:
    """What a node declares: declarator or name, value, and whether ``=`` stands between."""
    kind = node.type
    if kind == "init_declarator":
        yield (
            _name(node.child_by_field_name("declarator")),
            node.child_by_field_name("value"),
            any(c.type == "=" for c in node.children),
        )
    elif kind == "optional_parameter_declaration":
        yield _name(node.child_by_field_name("declarator")), node.child_by_field_name("default_value"), True
    elif kind == "optional_type_parameter_declaration":
        yield node.child_by_field_name("name"), node.child_by_field_name("default_type"), True
    elif kind == "alias_declaration":
        yield node.child_by_field_name("name"), node.child_by_field_name("type"), True
    elif kind == "enumerator":
        yield node.child_by_field_name("name"), node.child_by_field_name("value"), True
    elif kind == "type_definition":
        for declarator in node.children_by_field_name("declarator"):
            yield _name(declarator), node.child_by_field_name("type"), True
    elif kind == "field_declaration":
        declarator, assigned = None, False
        for i, child in enumerate(node.children):
            what = node.field_name_for_child(i)
            if what == "declarator":
                declarator, assigned = child, False
            elif child.type == "=":
                assigned = True
            elif what == "default_value":
                yield _name(declarator), child, assigned
    elif kind == "assignment_expression":
        operator = node.child_by_field_name("operator")
        if operator is None or operator.type == "=":
            yield node.child_by_field_name("left"), node.child_by_field_name("right"), True
    elif kind == "initializer_pair":
        designator = node.child_by_field_name("designator")
        name = None if designator is None else next(iter(designator.named_children), None)
        yield name, node.child_by_field_name("value"), True


def _is_broken(node: Node) -> bool:
    """Whether the parser did not understand something inside."""
    waiting = [node] if node.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error:
            return True
        waiting += node.children
    return False


def _places_of(node: Node, source: bytes) -> Iterator[_Place]:
    for name, value, assigned in _valued(node):
        if name is None or value is None or value.is_missing or _is_broken(value):
            continue
        start, end = value.start_byte, value.end_byte
        inside = "<" if node.parent is not None and node.parent.type == "template_parameter_list" else ""
        is_list = not assigned and value.type in ("initializer_list", "argument_list")
        if is_list:
            inside = value.children[0].type
            inner = value.named_children
            start = inner[0].start_byte if inner else value.children[0].end_byte
            end = inner[-1].end_byte if inner else start
        start += len(source[start:end]) - len(source[start:end].lstrip())
        statement = _statement(node)
        span, declares = _without_semicolon(statement), _declarators(statement, source)
        yield _Place(_text(name, source), name.start_byte, start, end, span, declares, is_list, inside)


@dataclass
class _Tree:
    """What the parser found near the marked lines."""

    places: dict[tuple[str, int, int], _Place] = field(default_factory=dict)
    elements: dict[Span, tuple[Span, str]] = field(default_factory=dict)  # an argument, its list, the list's bracket
    statements: dict[Span, _Place] = field(default_factory=dict)

    def read(self, text: bytes, source: bytes, lines: Sequence[Span]) -> None:
        """The text is the source with blanks for what the parser is not to see."""

        def ends_at(offset: int) -> bool:
            """Whether the parser has understood all of the value: what follows shows it."""
            behind = _NEXT.match(text, offset)
            return behind is not None and behind[1] in _ENDS

        waiting = [_parse(text)]
        while waiting:
            node = waiting.pop()
            start, end = node.start_byte, node.end_byte
            if not any(start <= last and end >= first for first, last in lines):
                continue
            for place in _places_of(node, source):
                if place.named < place.end and not ends_at(place.end):  # a typedef's name is behind it
                    continue
                self.places[place.name, place.start, place.end] = place
            if node.type in _LISTS:
                for child in node.named_children:
                    if child.type == "initializer_pair" or _is_broken(child) or not ends_at(child.end_byte):
                        continue
                    self.elements[child.start_byte, child.end_byte] = (start, end), node.children[0].type
            elif node.type in _STATEMENTS:
                first, last = _without_semicolon(node)
                name = next(iter(_declarators(node, source)), "")
                self.statements[first, last] = _Place(name, first, first, last, is_list=True, inside=";")
            waiting += reversed(node.children)


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _plain_places(tree: _Tree, line: Span) -> list[_Place]:
    here = [p for p in tree.places.values() if line[0] <= p.named < line[1]]
    return here or [p for p in tree.places.values() if line[0] < p.end <= line[1] and p.named < line[0]]


def _alias_places(tree: _Tree, line: Span) -> list[_Place]:
    """The largest values on the line; arguments of one list are one place."""
    places = [p for p in tree.places.values() if _within((p.start, p.end), line)]
    for span, (around, bracket) in tree.elements.items():
        if _within(span, line) and not _within(around, line):
            places.append(_Place("", span[0], *span, is_list=True, inside=bracket))
    largest = []
    for place in places:
        outer = [p for p in places if p is not place and _within((place.start, place.end), (p.start, p.end))]
        if not any((p.start, p.end) != (place.start, place.end) or p.name > place.name for p in outer):
            largest.append(place)
    lists = {tree.elements.get((p.start, p.end)) for p in largest if not p.name}
    if len(largest) > 1 and not any(p.name for p in largest) and len(lists) == 1:
        largest.sort(key=lambda p: p.start)
        return [_Place("", largest[0].start, largest[0].start, largest[-1].end, is_list=True, inside=largest[0].inside)]
    if largest:
        return largest
    named = [p for p in tree.places.values() if line[0] <= p.named < line[1]]
    if named:
        return named
    whole = [p for p in tree.statements.values() if _within((p.start, p.end), line)]
    return [p for p in whole if not any(q is not p and _within((q.start, q.end), (p.start, p.end)) for q in whole)]


def _marks(file: _File, path: Path) -> tuple[list[tuple[_Token, str | None]], list[Unmarked]]:
    """The comments that are marks, with their alias, and those that look like some."""
    marks, unmarked = [], []
    for comment in file.comments:
        raw = file.source[comment.start : comment.end]
        text = _SPLICE.sub(b"", raw).rstrip(b" \t\r\f\v")
        if not _NEAR_MARK.search(text):
            continue
        line = file.joined_line(comment.start)
        code = file.tokens(line[0], comment.start)
        match = _MARK.search(text) if comment.kind == "line" else None
        if match and code and not file.segment(comment.start)[1]:
            alias = match[1].decode("utf-8", "surrogateescape") if match[1] else None
            marks.append((comment, alias))
            continue
        why = "no mark" if not match else "in a branch that is never compiled" if code else "no declaration on its line"
        shown = " ".join(raw.decode("utf-8", "replace").split())
        words = frozenset(re.findall(r"\w+", shown)) | {t.text for t in code}
        unmarked.append(Unmarked(path, file.line(comment.start), shown, why, words))
    return marks, unmarked


def _marker(file: _File, path: Path, line: int, alias: str | None, place: _Place) -> Marker:
    line_start, line_end = file.joined_line(place.start)[0], file.joined_line(place.end)[1]
    return Marker(
        place.name,
        alias,
        path,
        line,
        place.start,
        place.end,
        file.source[place.start : place.end].decode("utf-8", "surrogateescape"),
        place.statement,
        place.declares,
        tuple(t.text for t in file.tokens(line_start, place.start)),
        tuple(t.text for t in file.tokens(place.end, line_end)),
        place.is_list,
        place.inside,
        file.segment(place.start)[0],
    )


def _read_file(path: Path, source: bytes) -> tuple[list[Marker], list[Unmarked]]:
    if not _NEAR_MARK.search(_SPLICE.sub(b"", source)):
        return [], []
    file = _File(source)
    marks, unmarked = _marks(file, path)
    markers: list[Marker] = []
    if not marks:
        return markers, unmarked
    lines = [file.joined_line(comment.start) for comment, _ in marks]
    tree = _Tree()
    for text in file.variants(lines):
        tree.read(text, source, lines)
    for macro in file.macros:
        tree.places[macro.name, macro.start, macro.end] = macro
    for (comment, alias), line in zip(marks, lines, strict=True):
        number = file.line(comment.start)
        found = _plain_places(tree, line) if alias is None else _alias_places(tree, line)
        found.sort(key=lambda place: (place.start, place.named))
        markers += [_marker(file, path, number, alias, place) for place in found]
        if not found:
            words = frozenset(t.text for t in file.tokens(*line))
            shown = " ".join(comment.text.split())
            unmarked.append(Unmarked(path, number, shown, "no value that can be replaced", words))
    return markers, unmarked


def read_markers(path: Path) -> Markers:
    """The marked places of the source and of the headers that it includes by relative names.

    FileError when a file cannot be read.
    """
    places: list[Marker] = []
    unmarked: list[Unmarked] = []
    digests: dict[Path, str] = {}
    sources, _ = _sources(Path(path))
    for source in sources:
        if source.file not in digests:
            digests[source.file] = hashlib.sha256(source.data).hexdigest()
            found, others = _read_file(source.file, source.data)
            places += found
            unmarked += others
    return Markers(places, sources[0].file, unmarked, digests)


# ---------------------------------------------------------------- values


def value_text(value: object, who: str = WHO) -> str:
    """The value as C++ text: strings as they are, numbers and truth values of Python and numpy as literals."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        item = value.item()
        value = float(item) if isinstance(item, numpy.floating) else item  # long double has no other form
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise InputError(f"{who}: the value has {value.bit_length()} bits; C++ integers have 64, give C++ text")
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{who}: the value {value!r} has no literal in C++; give C++ text")
        return float.__repr__(value)
    raise ArgumentError(
        f"{who}: the value {value!r} is {type(value).__name__}; give C++ text, an int, float, bool or numpy scalar"
    )


def _brackets(tokens: Sequence[_Token]) -> str:
    """Which bracket has no other, or "". Angle brackets are not looked at."""
    waiting: list[str] = []
    for token in tokens:
        if token.kind == "sign" and token.text in "([{":
            waiting.append(token.text)
        elif token.kind == "sign" and token.text in _CLOSING and (not waiting or waiting.pop() != _CLOSING[token.text]):
            return f"'{token.text}' without its opening bracket"
    return f"'{waiting[-1]}' that is not closed" if waiting else ""


def _angles_are_closed(tokens: Sequence[_Token]) -> bool:
    """Whether < and > outside other brackets go together, taking each for a bracket."""
    angles = others = 0
    for token in tokens:
        if token.kind == "sign":
            others += (token.text in _CLOSING.values()) - (token.text in _CLOSING)
            angles += 0 if others else (token.text == "<") - (token.text == ">")
            if angles < 0:
                return False
    return angles == 0


def _has_outer_comma(tokens: Sequence[_Token]) -> bool:
    """A comma outside brackets; ``<`` counts as one until its ``>``, or until the bracket around it closes."""
    waiting: list[str] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text == "," and not waiting:
            return True
        if token.text in "([{<":
            waiting.append(token.text)
        elif token.text == ">" and waiting and waiting[-1] == "<":
            waiting.pop()
        elif token.text in _CLOSING:
            while waiting and waiting.pop() == "<":
                pass
    return False


def _code(text: str) -> list[_Token]:
    """The tokens of a value, offsets in its bytes."""
    tokens = _tokens(text.encode("utf-8", "surrogateescape"))
    return [t for t in tokens if t.kind not in ("space", "newline", "splice")]


def _cut(text: str, tokens: Sequence[_Token]) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    return raw[tokens[0].start : tokens[-1].end].decode("utf-8", "surrogateescape") if tokens else ""


def _problem(text: str, is_list: bool, inside: str) -> str:
    """Why the text is not one value in such a place, or ""."""
    tokens = _code(text)
    for token in tokens:
        if token.kind in ("line", "block"):
            return f"a comment ({token.text[:2]}) inside"
        if token.kind == "text":
            quote = token.text.lstrip("u8UL")[:1]
            if len(token.text.lstrip("u8UL")) < 2 or not re.search(rf"(?<!\\)(?:\\\\)*{quote}\Z", token.text):
                return f"a {quote} that is not closed"
        elif token.kind in ("sign", "splice") and token.text in ("#", ";", "\\", "`", '"', "'"):
            return f"'{token.text}' inside"
    bare = "".join(" " * len(t.text) if t.kind in ("text", "raw") else t.text for t in tokens)
    for digraph in ("%:", "<%", "%>", ":>", "??/", "??=", "??<", "??>"):
        if digraph in bare:
            return f"'{digraph}' inside"
    if wrong := _brackets(tokens):
        return wrong
    if inside == "<" and not _angles_are_closed(tokens):
        return "'<' or '>' that does not belong to another (comparisons need brackets)"
    if inside == ";" and len(_statements(text)) != 1:
        return "more than one statement"
    if not is_list and _has_outer_comma(tokens):
        return "a comma outside brackets, which would begin another declaration,"
    return ""


def _from_line(text: str, tokens: list[_Token], marker: Marker) -> str | None:
    """The value out of the code of a whole line, where the text is that."""
    words = tuple(t.text for t in tokens)
    before, after = marker.before, marker.after
    for tail in (after, after[:-1]) if after and after[-1] in ";," else (after,):
        first, last = len(before), len(words) - len(tail)
        if first < last and (before or len(tail) > 1 or tail[:1] not in ((), (";",), (",",))):
            middle = tokens[first:last]
            fits = words[:first] == before and words[last:] == tail and not _brackets(middle)
            if fits and (before or _angles_are_closed(middle)):
                return _cut(text, middle)
    return None


def _statements(text: str) -> list[Node]:
    """The text as a parser reads it."""
    root = _parse(bytes(_File(text.encode("utf-8", "surrogateescape") + b";").clean))
    return [node for node in root.named_children if node.type != ";"]


def _declared(text: str) -> tuple[str, ...]:
    """The names that the text declares, as far as it is one whole declaration with a value for at least one of them."""
    statements = _statements(text)
    if len(statements) != 1 or statements[0].type not in _STATEMENTS or statements[0].has_error:
        return ()
    if not any(True for node in [statements[0], *statements[0].named_children] for _ in _valued(node)):
        return ()
    return _declarators(statements[0], text.encode("utf-8", "surrogateescape"))


def _replacement(marker: Marker, given: str, is_one_of_many: bool) -> tuple[int, int, str]:
    """What to write where. InputError, without who it is, for text that is not allowed."""
    text = given.strip(" \t")
    unchanged = (marker.start, marker.end, marker.value)
    if text == marker.value and not is_one_of_many:
        return unchanged
    found = _CONTROL.search(text)
    if found:
        raise InputError(f"has {found[0]!r} inside; give one line of C++")
    try:
        tokens = _code(text)
    except UnicodeEncodeError:
        raise InputError("has characters that have no UTF-8 form; give C++ text") from None
    if not tokens:
        raise InputError("is empty; give C++ text")
    value = None if is_one_of_many else _from_line(text, tokens, marker)
    is_list = marker.is_list
    inside = marker.inside
    start, end = marker.start, marker.end
    if value is None:
        ending = tokens[-1].text if tokens[-1].text in (";", ",") else ""
        value = _cut(text, tokens[:-1] if ending else tokens)
        is_whole = False
        if marker.statement is not None and any(t.text == marker.name for t in tokens):
            declared = () if _problem(value, True, "") else _declared(value)
            is_whole = marker.name in declared
            if is_whole and declared != marker.declares:
                ours, others = ", ".join(declared), ", ".join(marker.declares)
                raise InputError(f"declares {ours} in the place of {others}; give the value alone, or declare them all")
        if is_whole and marker.statement is not None:
            start, end = marker.statement
            is_list, inside = True, inside if inside == "<" else ""
        elif is_one_of_many:
            raise InputError("is for a line with several values; give the whole declaration, or mark the line plainly")
        elif ending and marker.after[:1] != (ending,):
            there = f"'{marker.after[0]}'" if marker.after else "nothing"
            raise InputError(f"ends with '{ending}', but the value in the source is followed by {there}; leave it out")
        elif tokens[0].text in _NEVER_A_VALUE and marker.before and inside != "#":
            what = f"of '{marker.name}'" if marker.name else "that fits there"
            raise InputError(f"begins a declaration, but not one {what}; give the value alone")
    if not value:
        raise InputError("is empty; give C++ text")
    problem = _problem(value, is_list, inside)
    if problem:
        raise InputError(f"has {problem} that is not allowed; give one C++ value or declaration")
    is_initialiser = marker.inside == "{" and marker.statement is not None and start == marker.start
    if is_initialiser and not marker.value.startswith("{"):
        inner = _code(value)
        if inner[0].text == "{" and not _brackets(inner[1:-1]) and inner[-1].text == "}":
            value = _cut(value, inner[1:-1])  # the braces are there already
    return start, end, value


# ---------------------------------------------------------------- configurations


def _exclusive(one: Marker, other: Marker) -> bool:
    """Whether they stand in different branches of one #if, so that at most one of them is compiled."""
    branches = dict(one.branches)
    return one.file == other.file and any(branches.get(n, b) != b for n, b in other.branches)


def _unmatched(markers: Markers, key: str) -> str:
    """The end of the message for a key without a place."""
    shown: dict[str, list[str]] = {}
    for marker in markers:
        shown.setdefault(marker.key, []).append(markers.where(marker))
    text = ", ".join(f"{name} ({', '.join(dict.fromkeys(lines))})" for name, lines in list(shown.items())[:MOST_SHOWN])
    if len(shown) > MOST_SHOWN:
        text += f", ... ({len(shown) - MOST_SHOWN} more)"
    text = f"marked: {text}" if text else "nothing is marked: end a line with '// tunable'"
    aliased = [m for m in markers if m.name == key]
    folded = {name.lower(): name for name in shown}
    near = [folded[n] for n in difflib.get_close_matches(key.lower(), folded, 1)]
    if aliased:
        text += f"; {markers.where(aliased[0])} declares it, but its mark gives it the name '{aliased[0].key}'"
    elif near:
        text += f"; did you mean '{near[0]}'?"
    others = [u for u in markers.unmarked if key in u.code] or [u for u in markers.unmarked if len(u.comment) <= 40]
    if others:
        shown_others = [f"{markers.where(u)} {u.comment[:60]!r} ({u.why})" for u in others[:5]]
        text += f"; not taken for marks: {', '.join(shown_others)}"
    return text


def _matches(markers: Markers, key: object, who: str) -> list[Marker]:
    """The places of a key."""
    if not isinstance(key, str):
        raise ArgumentError(f"{who}: the name of a tunable is {key!r} ({type(key).__name__}); give a string")
    found = [marker for marker in markers if marker.key == key]
    if not found:
        raise InputError(
            f"{who}: tunable '{key}' matches no marked line of {markers.path.name}; {_unmatched(markers, key)}"
        )
    for i, one in enumerate(found):
        for other in found[i + 1 :]:
            if _exclusive(one, other):
                continue
            both_aliases = one.alias is not None and other.alias is not None
            if both_aliases and (one.value == other.value or (one.file, one.line) == (other.file, other.line)):
                continue
            lines = f"{markers.where(one)} and {markers.where(other)}"
            if one.line == other.line:
                lines = f"{markers.where(one)}, twice"
            why = f" with different values ({one.value} and {other.value})" if both_aliases else ""
            raise InputError(
                f"{who}: tunable '{key}' is ambiguous: it is marked in {lines}{why}; give one of them another name: "
                "// tunable: NAME"
            )
    return found


def _edits_of(markers: Markers, key: str, value: object, who: str) -> dict[tuple[Path, int, int], str]:
    """What one key changes: file and span, and the new text."""
    edits: dict[tuple[Path, int, int], str] = {}
    found = _matches(markers, key, who)
    text = value_text(value, f"{who}: tunable '{key}'")
    lines = [(marker.file, marker.line) for marker in found]
    for marker in found:
        try:
            start, end, new = _replacement(marker, text, lines.count((marker.file, marker.line)) > 1)
        except InputError as error:
            raise InputError(f"{who}: tunable '{key}': the value {text!r} {error}") from None
        edits[marker.file, start, end] = new
    return edits


def _disjoint(edits: Mapping[str, Mapping[tuple[Path, int, int], str]], who: str) -> None:
    """Raises InputError where two keys would change the same bytes."""
    spans = sorted((file, start, end, key) for key, places in edits.items() for file, start, end in places)
    for (file, start, end, key), (next_file, next_start, _, other) in itertools.pairwise(spans):
        if file == next_file and (next_start < end or next_start == start):
            raise InputError(
                f"{who}: tunables '{key}' and '{other}' overlap in {file.name}: one is a part of the other; tune one"
            )


def check(markers: Markers, configs: Sequence[Mapping[str, object]], who: str) -> None:
    """Raises InputError, or ArgumentError, where a configuration has a key or a value that cannot be put in.

    Nothing is written. Each key must fit exactly the places that the module describes.
    """
    known: dict[tuple[str, str], dict[tuple[Path, int, int], str]] = {}
    for config in configs:
        if not isinstance(config, Mapping):
            raise ArgumentError(f"{who}: a configuration is {config!r} ({type(config).__name__}); give a dict")
        edits = {}
        for key, value in config.items():
            at = (key, value_text(value, f"{who}: tunable '{key}'"))
            if at not in known:
                known[at] = _edits_of(markers, key, value, who)
            edits[key] = known[at]
        _disjoint(edits, who)


# ---------------------------------------------------------------- instances


def _replaced(data: bytes, edits: Iterable[tuple[int, int, str]]) -> bytes:
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode("utf-8", "surrogateescape") + data[end:]
    return data


def _write(sources: list[_Source], folders: set[str], changed: Mapping[Path, bytes], to: Path) -> Path:
    """Copies all into the new folder; the way from one to another stays. Returns the path of the first."""
    root = os.path.commonpath(folders | {os.path.dirname(s.place) for s in sources})
    checks.make_folder(to, WHO)
    made = {root}
    for folder in sorted(folders | {os.path.dirname(s.place) for s in sources}):
        missing = []
        while folder not in made:
            missing.append(folder)
            folder = os.path.dirname(folder)
        for new in reversed(missing):
            checks.make_folder(to / os.path.relpath(new, root), WHO)
            made.add(new)
    for source in sources:
        target = to / os.path.relpath(source.place, root)
        checks.write_file(target, changed.get(source.file, source.data), WHO)
        if source.file not in changed:
            # A compiler tells by size, time and content whether it has read a file already (#pragma once).
            status = source.file.stat()
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return Path(os.path.relpath(sources[0].place, root))


def instance(path: Path, markers: Markers, config: Mapping[str, object], folder: Path) -> Path:
    """Writes the source with the values of the configuration, and the headers it includes by relative names.

    They appear in the new folder ``folder/source``, all at once, files of mode 0600 in folders of mode 0750. No byte
    but the values differs, and the names in the includes lead to the copies. The caller deletes the folder.
    Returns the path of the new source. InputError as check; StateError when a file changed since it was read.
    """
    edits = {key: _edits_of(markers, key, value, WHO) for key, value in config.items()}
    _disjoint(edits, WHO)
    sources, folders = _sources(Path(path))
    digests = {s.file: hashlib.sha256(s.data).hexdigest() for s in sources}
    if digests != markers.digests:
        changed = sorted({f for f, _ in digests.items() ^ markers.digests.items()})
        raise StateError(f"{WHO}: {changed[0]} was changed since its marks were read; tune again")
    by_file: dict[Path, list[tuple[int, int, str]]] = {}
    for places in edits.values():
        for (file, start, end), text in places.items():
            by_file.setdefault(file, []).append((start, end, text))
    data = {s.file: s.data for s in sources}
    new = {file: _replaced(data[file], changes) for file, changes in by_file.items()}
    private = checks.make_folder(folder, WHO)
    target = private / "source"
    if os.path.lexists(target):
        raise FileError(f"{WHO}: {target} exists already; give each instance a folder of its own")
    part = private / f".source-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        relative = _write(sources, folders, {f: d for f, d in new.items() if d != data[f]}, part)
        part.rename(target)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, MskppError):
            raise FileError(f"{WHO}: {target} cannot be written: {error.strerror or error}") from error
        raise
    return target / relative
