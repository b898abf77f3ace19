# SPDX-License-Identifier: Apache-2.0
"""What a kernel's C++ source says of it: its parameters, template parameters and namespace.

The source is parsed (tree-sitter), so comments, strings and text that only looks like the kernel do not matter. The
qualifiers of a kernel (``__global__ __aicore__``, ``__gm__``) are no C++; they are blanked before. Headers that the
source includes by a relative name are looked through too.
"""

from __future__ import annotations

import difflib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mskpp.errors import InputError
from mskpp.launcher.reading import regular_bytes

if TYPE_CHECKING:
    from tree_sitter import Node

QUALIFIERS = re.compile(
    rb"__(?:global|aicore|gm|ubuf|cbuf|ca|cb|cc|cube|vector|restrict|inline|forceinline|host|device)__\b"
    rb"|__(?:mix|launch_bounds)__\s*\([^()]*\)|__restrict\b|\[\s*(?:aicore|host)\s*\]"
    rb"|\b[A-Z][A-Z0-9]*_(?:GLOBAL|KERNEL|DEVICE|HOST_DEVICE|AICORE)\b"
)
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
PARAMETERS = ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
MOST_FILES = 200
MOST_NAMES = 10_000  # of includes that are looked for
MOST_BYTES = 64 << 20
MOST_SHOWN = 20
POINTER_NAMES = frozenset(["GM_ADDR"])


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type as C++ text without the device's qualifiers, and its name ("" when it has none)."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        bare = re.sub(r"[ &]*\b(?:const|volatile)$|&+$", "", self.type.removeprefix("const ")).rstrip()
        return bare.endswith("*") or bare in POINTER_NAMES

    def __str__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


@dataclass(frozen=True)
class TemplateParameter:
    """One parameter of the template; ``is_type``: it is declared with class or typename."""

    declaration: str
    name: str
    is_type: bool
    has_default: bool
    is_pack: bool


@dataclass(frozen=True)
class Signature:
    """A kernel as its source declares it."""

    name: str
    namespace: str  # "a::b", "" outside any
    parameters: tuple[Parameter, ...]
    template: tuple[TemplateParameter, ...] | None  # None: not a template
    file: str
    line: int

    @property
    def declaration(self) -> str:
        """One line of C++, for messages."""
        head = "" if self.template is None else f"template <{', '.join(p.declaration for p in self.template)}> "
        scope = f"{self.namespace}::" if self.namespace else ""
        return f"{head}void {scope}{self.name}({', '.join(map(str, self.parameters))})"


def blank(match: re.Match[bytes]) -> bytes:
    """As many blanks, so that every byte stays where it was. Line ends stay too."""
    return re.sub(rb"[^\r\n]", b" ", match.group())


def text_of(node: Node, source: bytes) -> str:
    return " ".join(source[node.start_byte : node.end_byte].decode("utf-8", "replace").split())


def nodes(node: Node, kind: str) -> Iterator[Node]:
    """Every node of that kind below, in source order."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type == kind:
            yield node
        waiting += reversed(node.children)


def name_node(node: Node | None) -> Node | None:
    """The identifier that a declarator declares."""
    while node is not None and node.type != "identifier":
        if node.type in ("reference_declarator", "variadic_declarator", "parenthesized_declarator"):
            node = next((c for c in node.named_children), None)
        else:
            node = node.child_by_field_name("declarator")
    return node


def parameter(node: Node, source: bytes) -> Parameter:
    """One parameter; the type of a pack ends with "..."."""
    declarator = node.child_by_field_name("declarator")
    default = node.child_by_field_name("default_value")
    end = node.end_byte
    if default is not None:
        end = source.rindex(b"=", node.start_byte, default.start_byte)
    name = name_node(declarator)
    text = source[node.start_byte : end]
    if name is not None:
        text = text[: name.start_byte - node.start_byte] + text[name.end_byte - node.start_byte :]
    type_text = " ".join(re.sub(rb"/\*.*?\*/|//[^\n]*", b" ", text, flags=re.DOTALL).decode("utf-8", "replace").split())
    type_text = re.sub(r"\s*([*&])\s*", r"\1", type_text)
    type_text = re.sub(r"\s*\[[^\]]*\]$", "*", type_text)  # an array is handed over as a pointer
    return Parameter(
        re.sub(r"([*&]+)(const)\b", r"\1 \2", type_text), text_of(name, source) if name is not None else ""
    )


def template_parameter(node: Node, source: bytes) -> TemplateParameter:
    of_template = node.type.startswith("template_template")
    declared = node.named_children[-1] if of_template else node  # of template <...> class C: class C
    kind = declared.type
    found: Node | None
    if "type_parameter" in kind:
        default = declared.child_by_field_name("default_type")
        found = next((c for c in declared.named_children if c.type == "type_identifier" and c != default), None)
    else:
        found = name_node(declared.child_by_field_name("declarator"))
    return TemplateParameter(
        text_of(node, source),
        text_of(found, source) if found is not None else "",
        "type_parameter" in kind and not of_template,
        "optional" in kind,
        "variadic" in kind,
    )


def signatures(path: Path, source: bytes) -> list[Signature]:
    """The functions that a source declares or defines, definitions first, as far as they can be kernels."""
    import tree_sitter_cpp
    from tree_sitter import Language, Parser

    clean = QUALIFIERS.sub(blank, source)
    root = Parser(Language(tree_sitter_cpp.language())).parse(clean).root_node
    found: list[tuple[bool, bool, Signature]] = []
    for declarator in nodes(root, "function_declarator"):
        name = declarator.child_by_field_name("declarator")
        parameters = declarator.child_by_field_name("parameters")
        if name is None or parameters is None or name.type not in ("identifier", "field_identifier"):
            continue
        outer: Any = declarator
        namespaces: list[str] = []
        template = None
        body = marked = False
        while outer.parent is not None:
            outer = outer.parent
            if outer.type == "compound_statement":
                break
            if outer.type == "preproc_if" and is_off(outer, declarator, clean):
                break
            if outer.type in ("class_specifier", "struct_specifier"):
                break
            if outer.type in ("function_definition", "declaration"):
                body = body or outer.type == "function_definition"
                before = source[max(0, outer.start_byte - 200) : declarator.start_byte]
                marked = marked or b"__global__" in before.rpartition(b";")[2].rpartition(b"}")[2]
            elif outer.type == "template_declaration":
                lists = outer.child_by_field_name("parameters")
                template = tuple(template_parameter(c, clean) for c in lists.named_children if c.type != "comment")
            elif outer.type == "namespace_definition":
                named = outer.child_by_field_name("name")
                namespaces.append(text_of(named, clean) if named is not None else "")
        if outer.type != "translation_unit":
            continue
        found.append(
            (
                body,
                marked,
                Signature(
                    text_of(name, clean),
                    "::".join(n for n in reversed(namespaces) if n),
                    tuple(
                        parameter(c, clean)
                        for c in parameters.named_children
                        if c.type in PARAMETERS and text_of(c, clean) != "void"
                    ),
                    template,
                    str(path),
                    name.start_point[0] + 1,
                ),
            )
        )
    found.sort(key=lambda one: (not one[1], not one[0]))  # stable: kernels first, definitions before declarations
    return [signature for _, _, signature in found]


def is_off(condition: Node, inside: Node, source: bytes) -> bool:
    """Whether a node stands in the first branch of an ``#if 0``."""
    test = condition.child_by_field_name("condition")
    other = condition.child_by_field_name("alternative")
    before = other is None or inside.start_byte < other.start_byte
    return test is not None and text_of(test, source) in ("0", "false") and before


def sources(path: Path) -> Iterator[tuple[Path, bytes]]:
    """The file and the headers it includes by relative names, each once.

    What is no regular file, cannot be read, or has more than MOST_BYTES is passed over: of a wrong include the compiler
    says more.
    """
    waiting = deque([path])
    named: set[Path] = {path}
    seen: set[Path] = set()
    while waiting and len(seen) < MOST_FILES:
        try:
            path = waiting.popleft().resolve()
            if path in seen:
                continue
            source = regular_bytes(path, MOST_BYTES)
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a circle of links, before Python 3.13
            continue
        seen.add(path)
        yield path, source
        for found in INCLUDE.finditer(source):
            name = path.parent / found[1].decode("utf-8", "surrogateescape")
            if len(named) < MOST_NAMES and name not in named:
                named.add(name)
                waiting.append(name)


def read_signature(path: Path, kernel: str) -> Signature:
    """The kernel's signature. InputError, with the kernels there are, when the source has no such function."""
    known: list[str] = []
    for file, source in sources(path):
        if kernel.encode() not in source and b"__global__" not in source:
            continue
        for signature in signatures(file, source):
            if signature.name == kernel:
                return signature
            known.append(signature.name)
    near = difflib.get_close_matches(kernel, known, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ";"
    names = list(dict.fromkeys(known))
    there = ", ".join(names[:MOST_SHOWN]) or "none"
    if len(names) > MOST_SHOWN:
        there += f" and {len(names) - MOST_SHOWN:,} more"
    raise InputError(f"KernelInvokeConfig: {path.name} has no function '{kernel}'{hint} Functions found: {there}")
