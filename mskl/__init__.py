# SPDX-License-Identifier: Apache-2.0
"""The launcher of mskpp under the name that scripts of the separate tool use."""

from typing import Any

import mskpp

__all__ = ["KernelInvokeConfig", "Launcher", "compile", "compile_executable", "get_kernel_from_binary", "tiling_func"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in mskpp.LAUNCHER:
        return getattr(mskpp, name)
    raise AttributeError(f"module 'mskl' has no {name!r}")
