# SPDX-License-Identifier: Apache-2.0
"""Launching and tuning under the name that scripts of the separate tool use."""

from typing import Any

import mskpp

__all__ = list(mskpp.LATER)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in mskpp.LATER:
        raise AttributeError(f"module 'mskl' has no {name!r}")
    return getattr(mskpp, name)
