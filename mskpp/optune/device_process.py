# SPDX-License-Identifier: Apache-2.0
"""The process that runs candidates on one NPU for device.py: what a candidate breaks there ends with it.

Over a connection come requests (what to do, library, values, keywords):

    launch    runs the kernel once                           answer: None, the values after it
    measure   CompiledKernel.measure()                       answer: the times, no values
    name      what the device is                             answer: its name
    renew     resets the device, which a process broke       answer: None

Back go ("", answer), or the class and the text of an error.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from mskpp.errors import MskppError
from mskpp.launcher.backend.ascend import Ascend
from mskpp.launcher.kernel import CompiledKernel


def done(kernels: dict[str, CompiledKernel], do: str, library: str, values: list[Any], keywords: dict[str, Any]) -> Any:
    """The answer to a request."""
    if do == "name":
        return Ascend().device_name(**keywords)
    if do == "renew":
        return Ascend().renew_device(**keywords)
    if library not in kernels:
        kernels[library] = CompiledKernel(library, backend="ascend", private=True)
    if do == "measure":
        return kernels[library].measure(*values, **keywords), []
    kernels[library].launch(*values, **keywords)
    return None, values


def answer(kernels: dict[str, CompiledKernel], request: tuple[str, str, list[Any], dict[str, Any]]) -> tuple[str, Any]:
    try:
        return "", done(kernels, *request)
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
            channel.send(answer(kernels, request))
