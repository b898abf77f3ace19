# SPDX-License-Identifier: Apache-2.0
"""Scripts in the style of the msKPP documentation, run as files of their own: what users have must go on working."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

MATMUL = """
from mskpp import mmad, Tensor, Chip
def my_mmad(gm_x, gm_y, gm_z):
    # the data path of the cube: GM-L1-L0A, GM-L1-L0B, L0C(initialised)-GM
    l1_x = Tensor("L1")
    l1_y = Tensor("L1")
    l1_x.load(gm_x)
    l1_y.load(gm_y)
    x = Tensor("L0A")
    y = Tensor("L0B")
    x.load(l1_x)
    y.load(l1_y)
    z = Tensor("L0C", "FP32", [32, 16], format="NC1HWC0")
    out = mmad(x, y, z, True)()
    z = out[0]
    return z

if __name__ == '__main__':
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        chip.enable_metrics()
        # a large matrix cut into 5 small ones
        for _ in range(5):
            in_x = Tensor("GM", "FP16", [32, 48], format="ND")
            in_y = Tensor("GM", "FP16", [48, 16], format="ND")
            in_z = Tensor("GM", "FP32", [32, 16], format="NC1HWC0")
            out_z = my_mmad(in_x, in_y, in_z)
            in_z.load(out_z)
"""

VADD = """
from mskpp import vadd, Tensor, Chip, set_flag, wait_flag
def my_vadd(gm_x, gm_y, gm_z):
    x = Tensor("UB")
    y = Tensor("UB")
    x.load(gm_x)
    y.load(gm_y)
    set_flag("PIPE-MTE2", "PIPE-V", 1)
    wait_flag("PIPE-MTE2", "PIPE-V", 1)
    z = Tensor("UB")
    out = vadd(x, y, z)()
    set_flag("PIPE-V", "PIPE-MTE3", 2)
    wait_flag("PIPE-V", "PIPE-MTE3", 2)
    gm_z.load(out[0])

if __name__ == '__main__':
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        chip.enable_metrics()
        for _ in range(4):
            in_x = Tensor("GM", "FP16", [32, 48], format="ND")
            in_y = Tensor("GM", "FP16", [32, 48], format="ND")
            in_z = Tensor("GM", "FP16", [32, 48], format="ND")
            my_vadd(in_x, in_y, in_z)
"""

TWO_CORES = """
from mskpp import Chip, Core, Tensor, mmad, vadd, set_flag, wait_flag

with Chip("Ascend910B1") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    chip.set_cache_hit_ratio({"cache_hit_ratio": 0.6})
    gm_x = Tensor("GM", "FP16", [64, 64], format="ND")
    gm_y = Tensor("GM", "FP16", [64, 64], format="ND")
    gm_c = Tensor("GM", "FP32", [64, 64], format="ND")
    gm_z = Tensor("GM", "FP32", [64, 64], format="ND")
    with Core("aic0"):
        l1_x, l1_y = Tensor("L1", format="NZ"), Tensor("L1", format="NZ")
        l1_x.load(gm_x)
        l1_y.load(gm_y)
        x, y = Tensor("L0A"), Tensor("L0B")
        x.load(l1_x)
        y.load(l1_y)
        c = Tensor("L0C", "FP32", [64, 64], format="NZ")
        out = mmad(x, y, c, True)()[0]
        gm_c.load(out, set_value=1)
        set_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 5)
        set_flag("aic0_PIPE-FIX", "aiv1_PIPE-MTE2", 5)
    for i in range(2):
        with Core("aiv" + str(i)):
            wait_flag("aic0_PIPE-FIX", "aiv" + str(i) + "_PIPE-MTE2", 5)
            half = slice(32 * i, 32 * i + 32)
            a, b, z = Tensor("UB"), Tensor("UB"), Tensor("UB")
            a.load(gm_c[half], expect_value=1)
            b.load(gm_c[half, :], expect_value=1)
            vadd(a, b, z)()
            gm_z[half].load(z)
"""

REGISTERS = """
from mskpp import Chip, Core, Tensor, VecScope, rv_vadd, rv_vadds, set_flag, wait_flag

with Chip("Ascend910_95") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    with Core("AIV0"):
        gm_x, gm_y = Tensor("GM", "FP16", [512], format="ND"), Tensor("GM", "FP16", [512], format="ND")
        gm_z = Tensor("GM", "FP16", [512], format="ND")
        ub_x, ub_y, ub_z = Tensor("UB"), Tensor("UB"), Tensor("UB", "FP16", [512], format="ND")
        ub_x.load(gm_x)
        ub_y.load(gm_y)
        set_flag("PIPE-MTE2", "PIPE-VEC", 0)
        wait_flag("PIPE-MTE2", "PIPE-VEC", 0)
        with VecScope("add"):
            for i in range(4):
                part = slice(i * 128, (i + 1) * 128)
                x, y, z, w = Tensor("VEC"), Tensor("VEC"), Tensor("VEC"), Tensor("VEC")
                x.load(ub_x[part])
                y.load(ub_y[part])
                rv_vadd(x, y, z)()
                rv_vadds(z, 1.0, w)()
                ub_z[part].load(w)
        set_flag("PIPE-VEC", "PIPE-MTE3", 0)
        wait_flag("PIPE-VEC", "PIPE-MTE3", 0)
        gm_z.load(ub_z)
"""

BIAS = """
from mskpp import Chip, Tensor, mmad

with Chip("Ascend910B3") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    gm_x = Tensor("GM", "INT8", [128, 256], format="ND")
    gm_y = Tensor("GM", "INT8", [256, 128], format="ND")
    gm_bias = Tensor("GM", "INT32", [128], format="ND")
    gm_scale = Tensor("GM", "UINT64", [128], format="ND")
    l1_x, l1_y, l1_bias, l1_scale = Tensor("L1"), Tensor("L1"), Tensor("L1"), Tensor("L1")
    l1_x.load(gm_x)
    l1_y.load(gm_y)
    l1_bias.load(gm_bias)
    l1_scale.load(gm_scale)
    bt, fb = Tensor("BT"), Tensor("FB")
    bt.load(l1_bias)
    fb.load(l1_scale)
    c = bt
    for k in range(0, 256, 128):
        x, y = Tensor("L0A"), Tensor("L0B")
        x.load(l1_x[:, k:k + 128], repeat=32)
        y.load(l1_y[k:k + 128, :], repeat=32)
        c = mmad(x, y, c)()[0]
    gm_z = Tensor("GM", "INT8", [128, 128], format="ND")
    gm_z.load(c)
"""

OWN_COST = """
import math
from mskpp import Chip, PrefModel, RegisterPrefOf, Tensor, prof_data, vadd

@RegisterPrefOf("VADD")
class VaddPref(PrefModel):
    def __init__(self, inputs, outputs):
        super(VaddPref, self).__init__("VADD", inputs, outputs)

    def size(self):
        return self.inputs[0].size[0] * self.inputs[0].size[1]

    def time(self):
        real_perf = prof_data.VaddData().get(self.size(), "FP16_FP16_FP16")
        return math.ceil(2 * self.size() / real_perf)

with Chip("Ascend910B1") as chip:
    chip.enable_trace()
    chip.enable_metrics()
    x = Tensor("UB", "FP16", [32, 48], is_inited=True)
    y = Tensor("UB", "FP16", [32, 48], is_inited=True)
    vadd(x, y, Tensor("UB"))()
"""

# Script: the slices of the trace by pipe, and the pipes of the statistics.
SCRIPTS = {
    "matmul": (MATMUL, {"PIPE-MTE2": 10, "PIPE-MTE1": 10, "PIPE-M": 5, "PIPE-FIX": 5}),
    "vadd": (VADD, {"PIPE-MTE2": 12, "PIPE-V": 12, "PIPE-MTE3": 8}),
    "two cores": (
        TWO_CORES,
        {
            "aic0-PIPE-MTE2": 2,
            "aic0-PIPE-MTE1": 2,
            "aic0-PIPE-M": 1,
            "aic0-PIPE-FIX": 3,
            "aiv0-PIPE-MTE2": 3,
            "aiv0-PIPE-V": 1,
            "aiv0-PIPE-MTE3": 1,
            "aiv1-PIPE-MTE2": 3,
            "aiv1-PIPE-V": 1,
            "aiv1-PIPE-MTE3": 1,
        },
    ),
    "registers": (
        REGISTERS,
        {
            "AIV0-PIPE-MTE2": 3,
            "AIV0-RVECLD0": 5,
            "AIV0-RVECLD1": 5,
            "AIV0-RVECEX0": 4,
            "AIV0-RVECEX1": 4,
            "AIV0-RVECST": 5,
            "AIV0-PIPE-MTE3": 2,
            "AIV0-PIPE-VEC": 1,
        },
    ),
    "bias": (BIAS, {"PIPE-MTE2": 4, "PIPE-MTE1": 5, "PIPE-FIX": 2, "PIPE-M": 2}),
    "own cost": (OWN_COST, {"PIPE-V": 1}),
}


def run(script: str, where: Path) -> tuple[Path, str]:
    (where / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=where, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    [folder] = where.glob("MSKPP*")
    return folder, done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str, tmp_path: Path) -> None:
    script, expected = SCRIPTS[name]
    folder, stdout = run(script, tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == [
        "Instruction_statistic.csv",
        "Pipe_statistic.csv",
        "instruction_cycle_consumption.html",
        "trace.json",
    ]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    cores = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    pipes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found: dict[str, int] = {}
    for event in events:
        if event["ph"] == "X":
            core, pipe = cores[event["pid"]], pipes[event["pid"], event["tid"]]
            full = pipe if not event["pid"] else f"{core}-{pipe}"
            found[full] = found.get(full, 0) + 1
    assert found == expected
    with open(folder / "Pipe_statistic.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["Pipe"] == "Total"
    assert {row["Pipe"] for row in rows[1:]} == expected.keys() - {"AIV0-PIPE-VEC"}
    busy = [int(row["Cycle"]) for row in rows[1:]]
    assert max(busy) <= int(rows[0]["Cycle"]) <= sum(busy) + sum(expected.values())
    assert f"{int(rows[0]['Cycle']):,} cycles" in stdout.splitlines()[0]


def test_the_consumer_core_waits_for_the_producer(tmp_path: Path) -> None:
    folder, _ = run(TWO_CORES, tmp_path)
    events = [e for e in json.loads((folder / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    stored = next(e for e in events if e["name"] == "MOV-L0C_TO_GM")
    for load in [e for e in events if e["name"] == "MOV-GM_TO_UB"]:
        assert load["ts"] >= stored["ts"] + stored["dur"]
