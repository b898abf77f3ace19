# SPDX-License-Identifier: Apache-2.0
"""For tests that tune: a kernel with tunable lines, and scripts that tune it for some seconds."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path

from utils.kernels import python, write

# z = x + y. KIND says what goes wrong, or what else is done; MUCH how long it takes.
SOURCE = """
    #include <mskpp/kernel.h>
    #include <csignal>
    #include <cstdlib>
    #include <stdexcept>
    constexpr int KIND = 0;  // tunable
    constexpr int MUCH = 1;  // tunable
    using Number = float;  // tunable
    static_assert(KIND != 1, "kind 1 is not supported");
    extern "C" __global__ __aicore__ void work(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t n) {
        auto *a = (__gm__ Number*)x, *b = (__gm__ Number*)y, *c = (__gm__ Number*)z;
        volatile int zero = 0;
        if (KIND == 2) *(volatile int*)8 = 1;
        if (KIND == 3) std::abort();
        if (KIND == 4) std::raise(SIGFPE);
        if (KIND == 5) for (zero = 1; zero;) {}
        if (KIND == 6) std::exit(3);
        if (KIND == 7) throw std::runtime_error("no such thing");
        if (KIND == 8) for (;;) if (std::malloc(1 << 28) == nullptr) throw std::bad_alloc();
        if (KIND == 9) n /= 2;
        for (volatile int i = 0; i < 1000 * MUCH; i = i + 1) {}
        for (int i = GetBlockIdx(); i < n; i += GetBlockNum()) {
            if (KIND == 10) b[i] += a[i];
            else c[i] = a[i] + b[i] + (KIND == 11) + (KIND == 12) * 2;
        }
    }
"""
PRELUDE = """
    import ctypes, os, sys
    import numpy as np
    import mskpp
    from mskpp.optune.decorators import TuneError
    autotune = mskpp.autotune
"""
LONG = """
    @autotune([{"MUCH": i} for i in range(10)], warmup=20000)
    def work(x, y, z, n):
        code = mskpp.Launcher(mskpp.KernelInvokeConfig("work.cpp", "work")).code_gen()
        mskpp.compile("slow.sh", code)[2](x, y, z, n)
    x = np.arange(50, dtype=np.float32)
    z = x.copy()
    print("begin", flush=True)
    found = work(x, x, z, 50)
    print("end", flush=True)
"""


def tuning(folder: Path, code: str, stdin: int = subprocess.DEVNULL, home: Path | None = None) -> subprocess.Popen[str]:
    """A script of its own session that tunes work.cpp in the folder on the host. Its temporary files and its trial
    store are in ``folder / "temporary"`` and ``folder / "cache"``, the script itself in home, else the folder."""
    write(folder / "work.cpp", SOURCE)
    (folder / "temporary").mkdir(exist_ok=True)
    places = {"TMPDIR": str(folder / "temporary"), "MSKPP_CACHE_DIR": str(folder / "cache"), "MSKPP_BACKEND": "host"}
    text = textwrap.dedent(PRELUDE) + f"os.chdir({str(folder)!r})\n" + textwrap.dedent(code)
    return python(home or folder, text, env=places, stdin=stdin)


def long_run(folder: Path, prebuilt: Path, code: str = LONG, seconds: float = 0.2) -> subprocess.Popen[str]:
    """The script, which is about to tune: most of the time it sleeps, ``seconds`` for each compilation."""
    return long_runs([folder], prebuilt, code, seconds)[0]


def long_runs(
    folders: Sequence[Path], prebuilt: Path, code: str = LONG, seconds: float = 0.2
) -> list[subprocess.Popen[str]]:
    """As long_run(), several that start together."""
    children = []
    for folder in folders:
        write(folder / "slow.sh", f'touch "$TMPDIR/mine"; sleep {seconds}; exec cp "{prebuilt}" "$2"\n')
        children.append(tuning(folder, code))
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "begin\n", child.communicate(timeout=10)
    return children


def numbers_told(out: str) -> list[int]:
    """The candidates that a tuner told of on stdout."""
    lines = [line for line in out.splitlines() if line.startswith("No.")]
    return [int(line.partition(":")[0].removeprefix("No.")) for line in lines]
