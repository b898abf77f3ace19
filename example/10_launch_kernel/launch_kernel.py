# SPDX-License-Identifier: Apache-2.0
"""Launches a template kernel from Python with numpy arrays; no Ascend software is needed, a C++ compiler is.

The kernel's source is parsed for its parameters. Its template parameters follow from the layout structures below, which
are the C++ ones field by field.
"""

import ctypes
import os
import tempfile
from pathlib import Path

import numpy as np

import mskpp

SOURCE = Path(__file__).with_name("basic_matmul.cpp")
BLOCKDIM = 8
TILE = 32 * 64  # elements, of L1TileShape


class Coord(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint32), ("k", ctypes.c_uint32)]


class RowMajor(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_uint32), ("columns", ctypes.c_uint32), ("stride", ctypes.c_int64)]

    @staticmethod
    def get_namespace() -> str:
        return "gemm::"


def get_kernel() -> "mskpp.CompiledKernel":
    config = mskpp.KernelInvokeConfig(str(SOURCE), "BasicMatmul")
    return mskpp.compile(gen_file=mskpp.Launcher(config).code_gen())


def basic_matmul(problem, a, layout_a, b, layout_b, bias, c, layout_c, workspace) -> None:  # as in C++
    get_kernel()[BLOCKDIM](problem, a, layout_a, b, layout_b, bias, c, layout_c, workspace)


m, n, k = 256, 512, 128
random = np.random.default_rng(1)
a, b = random.random((m, k), np.float32), random.random((k, n), np.float32)
bias, c = random.random(n, np.float32), np.zeros((m, n), np.float32)
workspace = np.zeros(BLOCKDIM * TILE, np.float32)
with tempfile.TemporaryDirectory() as folder:  # for the generated files
    os.chdir(folder)
    basic_matmul(Coord(m, n, k), a, RowMajor(m, k, k), b, RowMajor(k, n, n), bias, c, RowMajor(m, n, n), workspace)
    os.chdir("/")
print(f"C [{m},{n}] = A [{m},{k}] x B [{k},{n}] + bias")
print("equal to numpy:", np.allclose(c, a @ b + bias, rtol=1e-4))
