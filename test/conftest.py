# SPDX-License-Identifier: Apache-2.0
"""What every test gets: a folder of its own, a clean package, comparison with test/golden/, and the emulated Ascend
toolkit for tests of the backend ``ascend``, built once a session."""

from __future__ import annotations

import difflib
import fcntl
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from emulated_cann.install import install
from utils.browser import browser, page_of  # noqa: F401  # fixtures, of which a session may have one only
from utils.registrations import forget_registrations

from mskpp.core import context, outside

GOLDEN = Path(__file__).parent / "golden"

# The same examples every time, so that a red build is red for everybody; --hypothesis-profile=search looks on.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected results of test/golden anew")


@pytest.fixture(autouse=True)
def clean_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test runs in a folder of its own and leaves no registration, warning mark or open block to the next one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MSKPP_CHIP_PATH", raising=False)
    monkeypatch.setenv("MSKPP_CACHE_DIR", f"{tmp_path}-cache")  # beside the folder, whose files tests list
    token = context.variable.set(None)
    outside.warn_outside.cache_clear()
    yield
    context.variable.reset(token)
    outside.warn_outside.cache_clear()
    forget_registrations()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): the whole text is what test/golden/<name> holds."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        expected = file.read_text(encoding="utf-8") if file.exists() else ""
        if text == expected:
            return
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), f"test/golden/{name}", "now", lineterm=""
        )
        shown = "\n".join(itertools.islice(lines, 60))
        pytest.fail(
            f"{shown}\n\ntest/golden/{name} differs. If the new output is right: python3 build.py golden", pytrace=False
        )

    return compare


@pytest.fixture
def outside_chip() -> Iterator[None]:
    """For tests that issue instructions outside any chip on purpose: the warning given there is no failure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "an instruction outside any", RuntimeWarning)
        yield


def _built(tmp_path_factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """The folder that ``build`` fills, shared by the workers of pytest-xdist: the first builds, the others wait."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            build(folder)
            (folder / "complete").touch()
    return folder


def _environment(home: Path) -> dict[str, str]:
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {
        "ASCEND_HOME_PATH": str(home),
        "LD_LIBRARY_PATH": str(home / "lib64"),
        "PATH": f"{home / 'bin'}{os.pathsep}{path}",
    }


@pytest.fixture(scope="session")
def emulated_cann(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that has the emulated toolkit: ASCEND_HOME_PATH, LD_LIBRARY_PATH, PATH."""
    return _environment(_built(tmp_path_factory, "emulated_cann", install))


@pytest.fixture(scope="session")
def emulated_cann_acl_only(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As emulated_cann, of a toolkit whose runtime has dropped rtKernelLaunchWithHandleV2."""
    folder = _built(tmp_path_factory, "emulated_cann_acl_only", lambda to: install(to, runtime_launch=False))
    return _environment(folder)
