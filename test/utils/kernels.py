# SPDX-License-Identifier: Apache-2.0
"""For tests that compile and launch kernels: sources, stand-ins, and Python programs run as children."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy

from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile

ROOT = Path(__file__).resolve().parents[2]
# Where the time of a kernel does not matter.
FAST = ("-O0",)
COMPILER = (sys.executable, "-I", str(ROOT / "mskpp" / "launcher" / "cc.py"))


class Tensor:
    """Stands in for torch.Tensor, which is told by its class's name and module; over a numpy array of any stride."""

    def __init__(self, array: numpy.ndarray, device: str = "cpu") -> None:
        self.array = array
        self.device = device

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def contiguous(self) -> Tensor:
        return Tensor(numpy.ascontiguousarray(self.array), self.device)

    def copy_(self, other: Tensor) -> Tensor:
        self.array[...] = other.array
        return self

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return int(self.array.itemsize)


Tensor.__module__ = "torch_standin"


def write(path: Path, text: str | bytes) -> Path:
    """The file with the text, which may be indented as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(textwrap.dedent(text).lstrip("\n").encode() if isinstance(text, str) else text)
    return path


def build(
    source: Path, kernel: str, *, options: Sequence[str] = FAST, template_param: Sequence[Any] | None = None
) -> CompiledKernel:
    """The kernel of a source, compiled for the host beside it."""
    launch = source.with_name(f"{source.stem}_{kernel}.gen.cpp")
    Launcher(KernelInvokeConfig(str(source), kernel), template_param=template_param).code_gen(str(launch))
    output = str(launch.with_suffix(".so"))
    return compile(gen_file=str(launch), output_bin_path=output, options=options, backend="host")


def python(folder: Path, code: str, *, prefix: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
    """Starts a Python program of its own session in the folder, which gets its temporary files too; stdout and stderr
    are pipes."""
    script = write(folder / "program.py", code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}
    environment.update(options.pop("env", {}))
    return subprocess.Popen(
        [*prefix, sys.executable, str(script)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def running(words: str) -> list[int]:
    """The processes, zombies apart, whose command line or one of whose open or mapped files holds the words."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "maps").read_bytes()
        except OSError:
            continue
        if words.encode() in told:
            found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())
