# SPDX-License-Identifier: Apache-2.0
"""The process that runs candidates on one NPU for device.py: what a candidate breaks there ends with it.

Over a connection come (what to do, library, values, keywords); back go (times or None, values), or the class and the
text of an error.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from mskpp.errors import MskppError
from mskpp.launcher.kernel import CompiledKernel


def answer(
    kernels: dict[str, CompiledKernel], do: str, library: str, values: list[Any], keywords: dict[str, Any]
) -> Any:
    try:
        if library not in kernels:
            kernels[library] = CompiledKernel(library, backend="ascend", private=True)
        if do == "measure":
            return kernels[library].measure(*values, **keywords), []
        kernels[library].launch(*values, **keywords)
        return None, values
    except MskppError as error:
        return type(error).__name__, str(error)
    except Exception as error:
        return "LaunchError", f"{type(error).__name__}: {error}"


def main(descriptor: int) -> None:
    kernels: dict[str, CompiledKernel] = {}
    with Connection(descriptor) as channel:
        while True:
            try:
                request = channel.recv()
            except EOFError:
                return
            channel.send(answer(kernels, *request))
