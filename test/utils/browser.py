# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests of pages: headless Chromium, started once a session, without a network.

Any test may ask for ``page_of``; it skips with a reason where there is no browser.
MSKPP_CHROMIUM names the browser where it is not found by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE_MS = 120_000  # for a page of 10 MB on a busy machine


@dataclass
class Opened:
    """A page in the browser, and what came up since it was opened."""

    page: Any
    errors: list[str] = field(default_factory=list)  # of the console and of scripts
    requests: list[str] = field(default_factory=list)  # other than for the file itself and data: or blob: texts
    dialogs: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]

    def run(self, code: str, argument: Any = None) -> Any:
        return self.page.evaluate(code, argument)


def found() -> str | None:
    """The browser's program; None where there is none."""
    given = os.environ.get("MSKPP_CHROMIUM")
    if given:
        return shutil.which(given)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = found()
    if program is None:
        pytest.skip("no Chromium: install one (apt-get install chromium) or name it in MSKPP_CHROMIUM")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; see requirements-dev.txt")
    with api.sync_playwright() as playwright:
        # Its own sandbox cannot be set up by root or in a container; the pages are those of the tests.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture
def page_of(browser: Any) -> Iterator[Callable[[Path], Opened]]:
    """page_of(path) opens a file in a page of its own and waits until its scripts have run."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)

    def opened(path: Path) -> Opened:
        address = path.resolve().as_uri()
        out = Opened(context.new_page())

        def request(made: Any) -> None:
            if made.url != address and not made.url.startswith(("data:", "blob:")):
                out.requests.append(made.url)

        def dialog(shown: Any) -> None:
            out.dialogs.append(shown.message)
            shown.dismiss()

        out.page.on("request", request)
        out.page.on("dialog", dialog)
        out.page.on("pageerror", lambda error: out.errors.append(str(error)))
        out.page.on("console", lambda said: out.errors.append(said.text) if said.type in ("error", "warning") else None)
        out.page.goto(address, wait_until="load")
        return out

    yield opened
    context.close()
