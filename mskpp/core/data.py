# SPDX-License-Identifier: Apache-2.0
"""Where the data folders are: the package's own and, before it, the user's of MSKPP_CHIP_PATH."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from mskpp import _core
from mskpp.log import logger

DATA = Path(__file__).resolve().parent.parent / "data"
DEFAULT_CHIP = "Ascend910B1"


def search_path() -> list[Path]:
    """Folders that hold chip folders, first come first found."""
    folders = []
    for number, entry in enumerate(filter(None, os.environ.get("MSKPP_CHIP_PATH", "").split(os.pathsep)), 1):
        if os.path.isdir(entry):
            folders.append(Path(entry).resolve())
        else:
            logger.warning("MSKPP_CHIP_PATH: entry %d is not a folder; it is ignored", number)
    return [*folders, DATA / "chips"]


def chips() -> list[str]:
    """Names of all chips that ``Chip(name)`` finds, sorted: the package's and those of MSKPP_CHIP_PATH."""
    return _core.list_chips(search_path())


@functools.cache
def default_costs() -> _core.Costs:
    """The chip that instructions outside any ``with Chip`` are checked on."""
    return _core.Costs.load(DEFAULT_CHIP, [DATA / "chips"])
