# SPDX-License-Identifier: Apache-2.0
"""Builds the emulated toolkit into a folder that looks like $ASCEND_HOME_PATH. For tests; never installed with mskpp.

    python3 test/emulated_cann/install.py FOLDER

Devices, streams, kernels and profiling are emulated on the CPU behind the C ABI of the real libraries; see README.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PRODUCT = HERE.parents[1]
# Libraries that launch code links to and that hold nothing here.
STUBS = ("tiling_api", "graph_base", "graph", "c_sec", "register", "opp_registry", "ascendalog", "platform", "nnopbase")
# Where operator projects look for the tiling surface. All of it is in the product's header.
TILING_HEADERS = (
    "register/tilingdata_base.h",
    "register/op_def_registry.h",
    "register/op_impl_registry.h",
    "exe_graph/runtime/storage_shape.h",
    "exe_graph/runtime/tiling_context.h",
    "graph/types.h",
    "tiling/context/context_builder.h",
    "tiling/platform/platform_ascendc.h",
    "tiling/tiling_api.h",
)


def _library(prefix: Path, name: str, sources: list[str], options: list[str]) -> None:
    output = prefix / "lib64" / f"lib{name}.so"
    command = ["g++", "-std=c++20", "-O0", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    command += [f"-I{HERE / 'include'}", *(str(HERE / "src" / source) for source in sources), "-o", str(output)]
    command += [f"-Wl,-soname,{output.name}", "-Wl,-rpath,$ORIGIN", f"-L{output.parent}", *options, "-pthread", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"lib{name}.so does not compile: {' '.join(command)}\n{done.stderr}")


def install(prefix: Path, *, runtime_launch: bool = True) -> Path:
    """Builds the toolkit into ``prefix`` and returns it. runtime_launch=False: without rtKernelLaunchWithHandleV2."""
    for folder in ("bin", "lib64", "python/site-packages"):
        (prefix / folder).mkdir(parents=True, exist_ok=True)
    shutil.copytree(HERE / "include", prefix / "include", dirs_exist_ok=True)
    for script in (HERE / "bin").iterdir():
        shutil.copy(script, prefix / "bin")
        (prefix / "bin" / script.name).chmod(0o755)
    where = {"python": sys.executable, "product": str(PRODUCT)}
    (prefix / "emulated_cann.json").write_text(json.dumps(where), encoding="utf-8")
    tiling = PRODUCT / "mskpp" / "launcher" / "include" / "mskpp" / "tiling.h"
    for name in TILING_HEADERS:
        header = prefix / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(
            f'// SPDX-License-Identifier: Apache-2.0\n#pragma once\n#include "{tiling}"\n', encoding="utf-8"
        )

    runtime = ["rt.cpp", "device.cpp", "binary.cpp", "memory.cpp", "faults.cpp"]
    _library(prefix, "runtime", runtime, [] if runtime_launch else ["-DEMULATED_WITHOUT_HANDLE_LAUNCH"])
    later = [("ascendcl", ["acl.cpp"]), ("mspti", ["mspti.cpp"]), ("ascend_dump", ["dump.cpp"])]
    with ThreadPoolExecutor(2) as pool:
        built = [pool.submit(_library, prefix, name, sources, ["-lruntime"]) for name, sources in later]
        built += [pool.submit(_library, prefix, name, ["stub.cpp"], []) for name in STUBS]
    for one in built:
        one.result()
    return prefix


if __name__ == "__main__":
    print(install(Path(sys.argv[1]).resolve()))
