# SPDX-License-Identifier: Apache-2.0
"""Adding an instruction is one row and adding a chip one folder: everything else derives from them."""

from __future__ import annotations

import shutil
from pathlib import Path

from utils import stubs

import mskpp
from mskpp import _core
from mskpp.core.data import DATA
from mskpp.core.instructions import TABLE, read_table

ROW = 'vsquare,VSQUARE,x y,x,y,,PIPE-V,x,rate x out,x,x,"Square, element by element"\n'


def test_an_instruction_is_one_row(tmp_path: Path, monkeypatch) -> None:
    table = tmp_path / "instructions.csv"
    table.write_text(TABLE.read_text() + ROW)
    rows = read_table(table)
    assert len(rows) == 64
    vsquare = rows["vsquare"]
    assert str(vsquare.__signature__) == "(x, y)"
    assert "Square, element by element" in vsquare.__doc__
    monkeypatch.setattr(stubs, "BUILT_IN", rows)
    assert "def vsquare(x: Tensor, y: Tensor) -> Launch:" in stubs.package_stub()


def test_a_chip_is_one_folder_and_may_bring_its_instruction(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "chips" / "MyChip"
    folder.mkdir(parents=True)
    (folder / "chip.csv").write_text("key,value\nbase,Ascend910B1\nclock_mhz,925\naliases,Mine\n")
    (folder / "instructions.csv").write_text(TABLE.read_text().splitlines()[2] + "\n" + ROW)
    (folder / "vec.csv").write_text(
        "instruction,dtypes,elements,bytes_per_cycle\nVSQUARE,FP16 FP16,128,64\nVSQUARE,FP16 FP16,1024,128\n"
    )
    monkeypatch.setenv("MSKPP_CHIP_PATH", str(tmp_path / "chips"))
    assert "MyChip" in mskpp.chips() and len(mskpp.chips()) == 48
    with mskpp.Chip("mine") as chip:
        gm = mskpp.Tensor("GM", "FP16", [1024])
        x, y = mskpp.Tensor("UB"), mskpp.Tensor("UB")
        x.load(gm)
        (out,) = mskpp.vsquare(x, y)()
        assert out is y and y.size == [1024] and y.dtype == "FP16"
    vsquare = chip.result.instructions["VSQUARE"]
    assert vsquare.cycles == 16 and vsquare.origins == {"measured": 1}  # 2048 bytes at 128 bytes per cycle
    with mskpp.Chip("Ascend910B1") as base:
        mskpp.Tensor("UB").load(mskpp.Tensor("GM", "FP16", [1024]))
    # Half the clock: the move keeps its time, so it takes half the cycles, rounded up.
    half = chip.result.instructions["MOV-GM_TO_UB"].cycles
    assert 2 * half - 1 <= base.result.total_cycles <= 2 * half
    assert chip.result.instructions["MOV-GM_TO_UB"].origins == {"inherited": 1}


def test_the_package_data_may_be_copied_whole(tmp_path: Path) -> None:
    shutil.copytree(DATA / "chips", tmp_path / "chips")
    assert _core.list_chips([tmp_path / "chips"]) == _core.list_chips([DATA / "chips"])
