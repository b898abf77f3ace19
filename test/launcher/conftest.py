# SPDX-License-Identifier: Apache-2.0
"""The emulated Ascend toolkit for tests of the backend ``ascend``, built once a session."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from emulated_cann.install import install


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
