# SPDX-License-Identifier: Apache-2.0
"""What tests of tuning share: a folder for temporary files in which nothing may be left, and a compiled kernel."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from utils.kernels import build, running, wait_until, write
from utils.tuning import SOURCE


@pytest.fixture
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files go to a folder of the test's; in it nothing may be left, nor a process of it."""
    temporary = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("MSKPP_BACKEND", "host")
    monkeypatch.setenv("MSKPP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield temporary
    gc.collect()  # an exception that was caught holds frames, which hold kernels
    assert wait_until(lambda: not running(str(temporary)))
    assert not [path.name for path in temporary.iterdir() if "locks" not in path.name]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "work.cpp", SOURCE)


@pytest.fixture(scope="session")
def prebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of SOURCE as it is, for scripts that copy it: compiled quickly."""
    path = write(tmp_path_factory.mktemp("prebuilt") / "work.cpp", SOURCE)
    kernel = build(path, "work")
    return Path(kernel.module_path)


@pytest.fixture
def copying(prebuilt: Path, tmp_path: Path) -> str:
    return str(write(tmp_path / "copying.sh", f'exec cp "{prebuilt}" "$2"\n'))
