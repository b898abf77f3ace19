# SPDX-License-Identifier: Apache-2.0
"""Runs an msOpGen project from Python: calls its tiling function, then its kernel with what that gave.

A project's own build leaves a tiling library and a kernel's binary. Here mskpp-cc makes both for the CPU.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import mskpp

PROJECT = Path(__file__).parent


def build(folder: str) -> None:
    for source, output in (("add_custom_host.cpp", "liboptiling.so"), ("add_custom_kernel.cpp", "AddCustom.o")):
        command = [sys.executable, "-m", "mskpp.launcher.cc", "-shared", str(PROJECT / source), "-o", output]
        subprocess.run(command, cwd=folder, check=True)


def run_kernel(x, y, z, workspace, tiling_data) -> None:
    kernel = mskpp.get_kernel_from_binary("AddCustom.o", "vec")
    kernel(x, y, z, workspace, tiling_data)  # with the blockdim of the tiling


x = np.arange(1000, dtype=np.float32)
y = np.full(1000, 0.5, np.float32)
z = np.zeros(1000, np.float32)
with tempfile.TemporaryDirectory() as folder:
    build(folder)
    os.chdir(folder)
    tiling = mskpp.tiling_func("AddCustom", inputs=[x, y], outputs=[z], lib_path="liboptiling.so")
    run_kernel(x, y, z, tiling.workspace, tiling.tiling_data)
    os.chdir("/")
print(tiling)
print("compare success" if np.array_equal(z, x + y) else "compare failed")
