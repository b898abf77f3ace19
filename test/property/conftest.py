# SPDX-License-Identifier: Apache-2.0
"""Thousands of programs use two chips: their tables are read once."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace

import pytest

from mskpp import _core
from mskpp.core import chip, data


@functools.cache
def read_once(name: str) -> _core.Costs:
    return _core.Costs.load(name, data.search_path())


def load(name: str, folders: list[Path]) -> _core.Costs:
    return read_once(name)


@pytest.fixture(autouse=True)
def chips_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: getattr(_core, name) for name in dir(_core)}
    monkeypatch.setattr(chip, "_core", SimpleNamespace(**names | {"Costs": SimpleNamespace(load=load)}))
