# SPDX-License-Identifier: Apache-2.0
"""Build scripts, parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mskpp.errors import BackendError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


def parser() -> Parser:
    """BackendError where the grammar is not installed."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise BackendError(
            f"script: build scripts cannot be checked without {error.name}; pip install tree-sitter tree-sitter-bash"
        ) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def text(node: Node) -> str:
    return (node.text or b"").decode(errors="surrogateescape")


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.children)
