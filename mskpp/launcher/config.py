# SPDX-License-Identifier: Apache-2.0
"""What there is to launch. Each class is one scenario; ``Launcher`` takes any of them."""

from __future__ import annotations

from mskpp.errors import ArgumentError
from mskpp.launcher import checks
from mskpp.launcher.arguments import type_text
from mskpp.launcher.code_generator import Callers, generate_kernel


class KernelInvokeConfig:
    """A kernel of a C++ source, launched as ``kernel<<<blockdim, l2ctrl, stream>>>(...)``.

    Args:
        kernel_src_file: the source that defines it, or includes a header that does.
        kernel_name: its name without namespace: letters, digits and underscores.
    """

    type = "Act"  # as existing scripts read it

    def __init__(self, kernel_src_file: str, kernel_name: str) -> None:
        who = "KernelInvokeConfig"
        for name, value in (("kernel_src_file", kernel_src_file), ("kernel_name", kernel_name)):
            if not isinstance(value, str):
                raise ArgumentError(f"{who}: {name} is {type_text(value)}; it must be a str")
        self._source = checks.readable_file(kernel_src_file, who)
        self.kernel_src_file = str(self._source)
        self.kernel_name = checks.identifier(kernel_name, who)

    def generate(self, callers: Callers) -> str:
        return generate_kernel(self._source, self.kernel_name, callers)
