# SPDX-License-Identifier: Apache-2.0
"""mskpp: how fast an AI kernel will be on an Ascend NPU, and why, before it runs on hardware.

import mskpp
from mskpp import Chip, Tensor, mmad

with Chip("Ascend910B1") as chip:
    ...
print(chip.result)
"""

import os
from typing import Any

__version__ = "0.1.0"

from mskpp import _core, errors, log
from mskpp._core import Tensor, pipe_barrier, set_flag, wait_flag
from mskpp.core import context, instructions
from mskpp.core.data import chips, default_costs
from mskpp.core.outside import warn_outside

log.set_up()
_core.connect(context.variable, errors.BY_KIND, default_costs, warn_outside, os.path.join(__path__[0], ""))

from mskpp.core import registry
from mskpp.core.chip import Chip, current_chip
from mskpp.core.core import Core, VecScope
from mskpp.core.registry import PrefModel, RegisterOf, RegisterPrefOf
from mskpp.core.tasks import Schedule
from mskpp.errors import DeadlockError, FlagError, MskppError

globals().update(instructions.BUILT_IN)

__all__ = [
    "Chip", "Core", "DeadlockError", "FlagError", "MskppError", "PrefModel", "RegisterOf", "RegisterPrefOf", "Schedule",
    "Tensor", "VecScope", "chips", "pipe_barrier", "set_flag", "wait_flag", *instructions.BUILT_IN,
]  # fmt: skip

# Loaded at first use, with the module of each. Not in __all__: `from mskpp import *` would replace the builtin compile.
LATER = {
    "CompiledExecutable": "launcher.kernel",
    "CompiledKernel": "launcher.kernel",
    "KernelBinaryInvokeConfig": "launcher.binary",
    "KernelInvokeConfig": "launcher.config",
    "Launcher": "launcher.code_generator",
    "TilingConfig": "launcher.tiling",
    "TilingOutput": "launcher.opgen_workflow",
    "TuneError": "errors",
    "TuneResult": "optune.results",
    "autotune": "optune.decorators",
    "autotune_v2": "optune.decorators",
    "compile": "launcher.compiler",
    "compile_executable": "launcher.compiler",
    "compile_kernel_binary": "launcher.compiler",
    "compile_tiling": "launcher.compiler",
    "get_kernel_from_binary": "launcher.opgen_workflow",
    "load_result": "report.schema",
    "tiling_func": "launcher.opgen_workflow",
}


def __getattr__(name: str) -> Any:
    """Modules loaded at first use, instructions that were registered, and those of the chip in force."""
    if name == "prof_data" or name in LATER:
        import importlib

        if name == "prof_data":
            return importlib.import_module("mskpp.prof_data")
        return getattr(importlib.import_module(f"mskpp.{LATER[name]}"), name)
    chip = current_chip()
    found = registry.find(name) or (chip and chip._instructions.get(name))
    if found:
        return found
    raise AttributeError(f"module 'mskpp' has no {name!r}")
