# SPDX-License-Identifier: Apache-2.0
"""Launching kernels from Python: code generation, compilation, launch, tiling functions and kernel binaries.

    config = KernelInvokeConfig("vadd.cpp", "vadd")
    kernel = compile(gen_file=Launcher(config).code_gen())
    kernel[8](x, y, z, n)

Nothing here is imported by modelling, and nothing needs a toolkit before it is used. The modules load at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mskpp.launcher.binary import KernelBinaryInvokeConfig as KernelBinaryInvokeConfig
    from mskpp.launcher.code_generator import Launcher as Launcher
    from mskpp.launcher.compiler import compile as compile
    from mskpp.launcher.compiler import compile_executable as compile_executable
    from mskpp.launcher.compiler import compile_kernel_binary as compile_kernel_binary
    from mskpp.launcher.compiler import compile_tiling as compile_tiling
    from mskpp.launcher.config import KernelInvokeConfig as KernelInvokeConfig
    from mskpp.launcher.kernel import CompiledExecutable as CompiledExecutable
    from mskpp.launcher.kernel import CompiledKernel as CompiledKernel
    from mskpp.launcher.opgen_workflow import TilingOutput as TilingOutput
    from mskpp.launcher.opgen_workflow import get_kernel_from_binary as get_kernel_from_binary
    from mskpp.launcher.opgen_workflow import tiling_func as tiling_func
    from mskpp.launcher.tiling import TilingConfig as TilingConfig

import mskpp

__all__ = [name for name, module in mskpp.LATER.items() if module.startswith("launcher.")]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'mskpp.launcher' has no {name!r}")
    return getattr(mskpp, name)
