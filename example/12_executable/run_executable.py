# SPDX-License-Identifier: Apache-2.0
"""Compiles a program with its own main() and runs it. Without a build script the backend's own compilation is used."""

import tempfile
from pathlib import Path

import mskpp

SOURCE = Path(__file__).with_name("vector_scale.cpp")

with tempfile.TemporaryDirectory() as folder:
    executable = mskpp.compile_executable(src_file=str(SOURCE), output_bin_path=f"{folder}/vector_scale")
    print(executable(1000, 0.5), end="")
    try:
        executable(1000)
    except RuntimeError as error:
        print(str(error).replace(folder, "..."))
