# SPDX-License-Identifier: Apache-2.0
"""The base of every page that mskpp writes: one HTML file that needs no network and runs nothing but its own scripts.

A page is the chart library, page.js and page.css (page_files/), what a report adds to them, one JSON document with the
data, and HTML made by tag(). Two rules keep texts of the user from becoming code: HTML is made by tag() alone, which
escapes, and scripts take texts from the JSON and hand them to textContent. Should both fail, the
Content-Security-Policy lets only those scripts run whose hashes it names, and forbids every connection.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILES = Path(__file__).with_name("page_files")
DATA_ID = "page-data"
LIBRARY_ID = "page-library"
_VOID = ("br", "input", "link", "meta")


class Html(str):
    """A text that is HTML already. Only tag() and page() make it."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. What is not Html is escaped; an attribute's ``_`` stands for ``-`` and is dropped at its end
    (``class_``, ``aria_label``); None leaves an attribute or a child out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(child if isinstance(child, Html) else escaped(child) for child in children if child is not None)
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{inner}</{name}>")


def joined(parts: Sequence[Html]) -> Html:
    return Html("".join(parts))


def escaped(text: object) -> Html:
    """As HTML text or attribute, in ASCII; what no file can hold, as half a surrogate pair, too."""
    return Html(html.escape(str(text)).replace("\0", "\ufffd").encode("ascii", "xmlcharrefreplace").decode("ascii"))


def shortened(text: str, most: int) -> str:
    """Of a long text the begin and the end, and how much is missing between them."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]} … ({len(text) - most:,} characters left out) … {text[len(text) - tail :]}"


def json_text(data: object) -> str:
    """JSON in ASCII that cannot end the script element it stands in. ValueError for a NaN, which JSON does not have."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def page(
    title: str,
    body: Html,
    data: Any,
    *,
    scripts: Sequence[Path] = (),
    styles: Sequence[Path] = (),
    charts_later: bool = False,
) -> str:
    """A whole page. ``scripts`` and ``styles`` are files of a report; they come after the chart library and the base.

    The scripts run when the body is there. They find ``data`` by ``page.data()``. ``charts_later``: the chart library,
    which takes a browser longer than all else, runs when the rest can be used; ``page.draw`` then waits for it.
    """
    own = [_read(path) for path in (FILES / "page.js", *scripts)]
    code = [_library(), *own]
    sources = " ".join(f"'sha256-{_hash(text)}'" for text in code)
    # Styles are free: the chart library makes its own. They can load nothing, as every source of anything is closed.
    policy = (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
    head = joined(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="referrer", content="no-referrer"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("link", rel="icon", href="data:,"),
            tag("title", title),
            *(tag("style", Html(_read(path))) for path in (FILES / "page.css", *styles)),
        ]
    )
    document = tag("script", Html(json_text(data)), type="application/json", id=DATA_ID)
    # As a text it does not run; page.js makes a script of it, which the policy allows by the same hash.
    kind = {"type": "text/plain", "id": LIBRARY_ID} if charts_later else {}
    loaded = joined([tag("script", Html(_library()), **kind), *(tag("script", Html(text)) for text in own)])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}\n{document}\n{loaded}</body></html>\n'


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def _library() -> str:
    """The chart library as a script; it has no closing tag inside. A browser reads CR as LF before it hashes."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


@functools.lru_cache(maxsize=16)
def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
