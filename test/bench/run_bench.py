# SPDX-License-Identifier: Apache-2.0
"""Speed and memory on the documented six-instruction matmul tile, repeated: in C++ and through Python.

    python3 build.py bench [--tiles N]

Times on a shared machine vary by a factor of two and more; compare figures of one run only. Memory is the peak of a
process that models the tiles less the peak of one that models none.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import mskpp
from mskpp import Tensor, mmad

INSTRUCTIONS_PER_TILE = 6
CPP_ROWS = [
    ("C++ record", "record/documented_tile", ""),
    ("C++ schedule", "schedule_only", ""),
    ("C++ record and schedule", "record_and_schedule/documented_tile", "10 M/s"),
    ("  with its GM tensors made anew too", "record_and_schedule/all_tensors_new", ""),
    ("  with no tensor made anew", "record_and_schedule/no_tensor_new", ""),
]
RUNS = 3  # the best counts: the machine's other work only ever slows a run


def my_mmad(gm_x: Tensor, gm_y: Tensor) -> Tensor:
    """The function of the documented script: its on-chip tensors are made anew for each tile."""
    l1_x = Tensor("L1")
    l1_y = Tensor("L1")
    l1_x.load(gm_x)
    l1_y.load(gm_y)
    x = Tensor("L0A")
    y = Tensor("L0B")
    x.load(l1_x)
    y.load(l1_y)
    b = Tensor("L0C", "FP32", [32, 16], format="NC1HWC0")
    out = mmad(x, y, b, True)()
    return out[0]


def model(tiles: int, outputs: bool) -> None:
    """Models the tiles in this process and prints seconds and peak memory as JSON."""
    begin = time.perf_counter()
    with mskpp.Chip("Ascend910B1") as chip:
        if outputs:
            chip.enable_trace()
            chip.enable_metrics()
        gm_x = mskpp.Tensor("GM", "FP16", [32, 48], format="ND")
        gm_y = mskpp.Tensor("GM", "FP16", [48, 16], format="ND")
        gm_z = mskpp.Tensor("GM", "FP32", [32, 16], format="NC1HWC0")
        for _ in range(tiles):
            gm_z.load(my_mmad(gm_x, gm_y))
    seconds = time.perf_counter() - begin
    assert len(chip.result) == tiles * INSTRUCTIONS_PER_TILE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


def run_model(tiles: int, outputs: bool) -> dict[str, float]:
    command = [sys.executable, __file__, "--model", str(tiles), *(["--outputs"] if outputs else [])]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


def best_rate(tiles: int, outputs: bool) -> float:
    seconds = min(run_model(tiles, outputs)["seconds"] for _ in range(RUNS))
    return tiles * INSTRUCTIONS_PER_TILE / seconds


def cpp_rates(executable: str) -> dict[str, float]:
    command = [executable, "--benchmark_format=json", "--benchmark_repetitions=10", "--benchmark_min_time=0.1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    best: dict[str, float] = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] == "iteration":
            best[row["run_name"]] = max(best.get(row["run_name"], 0), row["items_per_second"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks mskpp on the documented matmul tile.")
    parser.add_argument("--cpp-bench", help="the C++ benchmark executable")
    parser.add_argument(
        "--tiles", type=int, default=200_000, help="tiles a run through Python models (default %(default)s)"
    )
    parser.add_argument("--model", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--outputs", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.model is not None:
        model(arguments.model, arguments.outputs)
        return
    rows: list[tuple[str, str, str]] = []

    def million(rate: float) -> str:
        return f"{rate / 1e6:.2f} M/s"

    if arguments.cpp_bench:
        rates = cpp_rates(arguments.cpp_bench)
        for name, key, target in CPP_ROWS:
            rows.append((name, million(rates[key]), target))
    rows.append(("Python, no outputs", million(best_rate(arguments.tiles, False)), "1 M/s"))
    rows.append(("Python, trace and both CSV files", million(best_rate(arguments.tiles, True)), "0.5 M/s"))
    grown = run_model(arguments.tiles, False)["peak_bytes"] - run_model(0, False)["peak_bytes"]
    rows.append(
        (
            "peak memory, Python, no outputs",
            f"{grown / (arguments.tiles * INSTRUCTIONS_PER_TILE):.0f} B/instruction",
            "100 B",
        )
    )
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {arguments.tiles:,} tiles of six instructions")
    print(f"{'':48}{'measured':>20}{'to reach':>12}")
    for name, measured, target in rows:
        print(f"{name:48}{measured:>20}{target:>12}")


if __name__ == "__main__":
    main()
