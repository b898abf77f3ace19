# SPDX-License-Identifier: Apache-2.0
"""Chips: names and aliases, figures, folders of the user's own, and folders that cannot be used."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from utils import tables

import mskpp
from mskpp import Chip, Tensor
from mskpp.core import data
from mskpp.errors import ArgumentError, DataError, FileError, InputError

# name: cube cores, vector cores, MHz. From the public CANN platform configuration.
CHIPS = {
    "Ascend350_354f": (14, 28, 1650),
    "Ascend350_355e": (16, 32, 1650),
    "Ascend910B1": (24, 48, 1850),
    "Ascend910B2": (24, 48, 1800),
    "Ascend910B2C": (24, 48, 1800),
    "Ascend910B3": (20, 40, 1800),
    "Ascend910B4": (20, 40, 1500),
    "Ascend910B4-1": (20, 40, 1500),
    "Ascend910_9362": (20, 40, 1500),
    "Ascend910_9363": (20, 40, 1500),
    "Ascend910_9372": (20, 40, 1800),
    "Ascend910_9381": (24, 48, 1800),
    "Ascend910_9382": (24, 48, 1800),
    "Ascend910_9391": (24, 48, 1850),
    "Ascend910_9392": (24, 48, 1850),
    "Ascend950DT_950x": (8, 16, 1650),
    "Ascend950DT_950y": (8, 16, 1650),
    "Ascend950PR_950z": (4, 8, 1650),
    **{f"Ascend950DT_957{n}": (28, 56, 1650) for n in range(1, 9)},
    **{f"Ascend950DT_958{n}": (32, 64, 1650) for n in range(1, 9)},
    **{f"Ascend950DT_{n}": (36, 72, 1800) for n in ("9591", "9592", "9595", "9596", "95A1", "95A2")},
    **{f"Ascend950PR_957{n}": (28, 56, 1650) for n in "9bcd"},
    "Ascend950PR_9589": (32, 64, 1650),
    "Ascend950PR_958b": (32, 64, 1650),
    "Ascend950PR_9599": (36, 72, 1800),
}
OF_950 = [name for name in CHIPS if name.startswith("Ascend950")]


def costs_of(chip: Chip) -> Any:
    return chip._costs


def test_the_list() -> None:
    assert len(CHIPS) == 47
    assert mskpp.chips() == sorted(CHIPS)


@pytest.mark.parametrize("name", sorted(CHIPS))
def test_figures(name: str) -> None:
    costs = costs_of(Chip(name))
    assert (costs.cube_cores, costs.vector_cores, costs.clock_mhz) == CHIPS[name]
    assert costs.architecture == ("2201" if "910" in name else "3510")
    for memory in ("UB", "L1", "L0A", "L0B", "L0C", "BT"):
        assert costs.capacity_bytes(memory) > 0
    assert costs.capacity_bytes("VEC") is None


@pytest.mark.parametrize("name", sorted(CHIPS))
@pytest.mark.parametrize("spell", [str, str.lower, str.upper, lambda name: name.removeprefix("Ascend")], ids=range(4))
def test_names_in_any_case_and_as_npu_smi_prints_them(name: str, spell: Callable[[str], str]) -> None:
    assert Chip(spell(name)).name == name


@pytest.mark.parametrize("name", OF_950)
def test_older_names_of_the_950_family(name: str) -> None:
    number = name.split("_")[1]
    assert Chip(f"Ascend910_{number}").name == name
    assert Chip(f"910_{number.upper()}").name == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [("Ascend910_95", "Ascend950PR_9589"), ("ascend910_958A", "Ascend950PR_958b"), ("910b4-1", "Ascend910B4-1")],
)
def test_particular_aliases(alias: str, name: str) -> None:
    chip = Chip(alias)
    assert chip.name == name and repr(chip) == f"Chip({name!r})"


@pytest.mark.parametrize("name", sorted(CHIPS))
def test_what_is_inherited_is_said(name: str) -> None:
    said = {}
    for note in Chip(name).notes:
        source, taken = note.removeprefix(f"{name} inherits costs from ").split(": ")
        said |= dict.fromkeys(taken.split(", "), source)
    if name == "Ascend910B1":
        assert said == {}
    elif "910" in name:
        assert said == dict.fromkeys(("mov", "mov_repeat", "mmad", "vec"), "Ascend910B1")
    else:
        of_950 = {} if name == "Ascend950PR_9589" else dict.fromkeys(("mov", "mmad"), "Ascend950PR_9589")
        assert said == of_950 | {"vec": "Ascend910B1"}


def test_what_is_inherited_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mskpp"), Chip("Ascend910B4") as chip:
        pass
    assert [record.getMessage() for record in caplog.records] == chip.notes != []


@pytest.mark.parametrize("name", ["VADDRELU", "VADDRELUCONV", "VSUBRELU", "VSUBRELUCONV", "VMULCONV", "VMADDRELU"])
def test_instructions_lost_on_the_950(name: str) -> None:
    function = getattr(mskpp, name.lower())
    x, y = (Tensor("UB", "FP16", [128], None, True) for _ in range(2))
    arguments = (x, y, Tensor("UB"), "INT8") if name == "VMULCONV" else (x, y, Tensor("UB"))
    for chip in ("Ascend950PR_9589", "Ascend950DT_9591", "Ascend350_354f"):
        with pytest.raises(InputError) as caught, Chip(chip):
            function(*arguments)()
        assert f"{name.lower()}: {chip} (architecture 3510) does not have this instruction (" in str(caught.value)
    with Chip("Ascend910B1"):
        function(*arguments)()


# --- names that are none ---


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "Ascend910B9",
            "unknown chip 'Ascend910B9'; did you mean 'Ascend910B1'? Known: Ascend350_354f, Ascend350_355e, "
            "Ascend910B1, ... (44 more). Add a folder: docs/add_a_chip.md",
        ),
        ("Ascend910B", "unknown chip 'Ascend910B'; did you mean 'Ascend910B1'?"),
        ("", "the name must be a str of printable characters, at least one"),
        ("A" * 100_000, "unknown chip '" + "A" * 64 + "'. Known: "),
        ("核心", "unknown chip '核心'. Known: "),
        ("no/such/folder", "folder 'no/such/folder' has no chip.csv. How to write one: docs/add_a_chip.md"),
        (".", "unknown chip '.'. Known: "),
        ("a\0b", "the name must be a str of printable characters"),
    ],
)
def test_unknown_names(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Chip(name)
    assert str(caught.value).startswith(f"Chip: {words}"), str(caught.value)
    assert isinstance(caught.value, ValueError) and "(test_chips.py:" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", [None, 910, True, b"Ascend910B1", ["Ascend910B1"]], ids=repr)
def test_names_that_are_no_text(name: Any) -> None:
    with pytest.raises(
        ArgumentError, match=rf"Chip: the name must be a str or a path, got {type(name).__name__} \(test_chips"
    ):
        Chip(name)


def test_a_name_that_is_no_unicode() -> None:
    with pytest.raises(InputError, match=r"^Chip: .*\(test_chips\.py:\d+\)$"):
        Chip("\ud800")


def test_a_path_of_bytes_is_no_name() -> None:
    class Bytes(os.PathLike):  # type: ignore[type-arg]
        def __fspath__(self) -> bytes:
            return b"Ascend910B1"

    with pytest.raises(InputError, match="the name must be a str of printable characters"):
        Chip(Bytes())


@pytest.mark.parametrize("mode", [1, 0, None, "yes"])
def test_debug_mode_is_a_bool(mode: Any) -> None:
    with pytest.raises(ArgumentError, match="Chip: debug_mode must be a bool, got "):
        Chip("Ascend910B1", mode)


# --- folders of the user's own ---

Write = Callable[..., Path]


@pytest.fixture
def chip_folder(tmp_path: Path) -> Write:
    """chip_folder(name, key=value ..., files={name: text}): a folder that inherits Ascend910B1 by default."""

    def write(
        name: str = "MyChip", files: dict[str, str] | None = None, base: str | None = "Ascend910B1", **keys: Any
    ) -> Path:
        folder = tmp_path / "mine" / name
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["# mine", "key,value", *([f"base,{base}"] if base else [])]
        lines += [f'{key.replace("__", ".")},"{value}"' for key, value in keys.items()]
        (folder / "chip.csv").write_text("\n".join(lines) + "\n")
        for file, text in (files or {}).items():
            (folder / file).write_text(text)
        return folder

    return write


def one_move(chip: Any, size: int = 1024) -> tuple[int, str]:
    with Chip(chip) as opened:
        tables.move("GM", "UB", size)
    [event] = opened.result.events()
    return event.end, event.origin


def test_a_folder_by_its_path(chip_folder: Write) -> None:
    folder = chip_folder(clock_mhz=3700)
    for given in (folder, str(folder), f"{folder}/", os.path.relpath(folder)):
        chip = Chip(given)
        assert chip.name == "MyChip" and costs_of(chip).clock_mhz == 3700
    base, _ = one_move("Ascend910B1")
    twice, origin = one_move(folder)
    assert (twice, origin) in ((2 * base, "inherited"), (2 * base - 1, "inherited"))  # the same time at twice the clock


def test_a_folder_of_the_current_directory_is_found_by_its_name(
    chip_folder: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(chip_folder().parent)
    assert Chip("MyChip").name == "MyChip"


def test_search_path(chip_folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = chip_folder(aliases="Mine MyOldChip")
    monkeypatch.setenv("MSKPP_CHIP_PATH", os.pathsep.join(["", str(folder.parent), ""]))
    assert "MyChip" in mskpp.chips() and len(mskpp.chips()) == 48
    assert {Chip(name).name for name in ("mychip", "MINE", "myoldchip")} == {"MyChip"}


def test_the_first_folder_of_the_search_path_wins(chip_folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = chip_folder("Ascend910B2", clock_mhz=1000)
    monkeypatch.setenv("MSKPP_CHIP_PATH", str(folder.parent))
    assert costs_of(Chip("Ascend910B2")).clock_mhz == 1000
    assert mskpp.chips() == sorted(CHIPS)


def test_a_missing_folder_of_the_search_path_is_warned_of_without_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MSKPP_CHIP_PATH", f"/no/such/secret{os.pathsep}/neither/secret")
    assert len(data.search_path()) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"MSKPP_CHIP_PATH: entry {number} is not a folder; it is ignored" for number in (1, 2)
    ]


def test_a_symlinked_folder_is_a_folder(chip_folder: Write, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(chip_folder())
    assert Chip(tmp_path / "link").name == "link"


def test_an_own_table_comes_before_the_inherited_one(chip_folder: Write) -> None:
    table = "path,bytes,gib_per_s\nGM_TO_UB,1024,10\n"
    folder = chip_folder(files={"mov.csv": table})
    assert one_move(folder) == (tables.ceil(1024 / (10 * 2**30 / 1.85e9)), "measured")
    assert one_move(folder, 100)[1] == "below_table"
    assert one_move(folder, 2000)[1] == "beyond_table"


def test_own_paths_replace_the_inherited_ones(chip_folder: Write) -> None:
    folder = chip_folder(files={"paths.csv": "source,target,pipe,port_bytes_per_cycle\nGM,UB,PIPE-MTE3,16\n"})
    with Chip(folder) as chip:
        tables.move("GM", "UB", 1024)
        with pytest.raises(InputError, match="MyChip has no path UB to GM; from UB data goes to nowhere"):
            tables.move("UB", "GM", 1024)
    assert next(chip.result.events()).pipe == "PIPE-MTE3"


def test_a_chip_on_its_own_has_only_port_widths(chip_folder: Write) -> None:
    paths = "source,target,pipe,port_bytes_per_cycle,note\nGM,UB,PIPE-MTE2,16,slow\n"
    folder = chip_folder(base=None, architecture=9999, clock_mhz=500, files={"paths.csv": paths})
    assert one_move(folder) == (64, "theoretical")
    with pytest.raises(ArgumentError, match="no cost for FP16 FP16 FP16 on MyChip; costs exist for none"), Chip(folder):
        tables.vector_call("VADD", ["FP16"] * 3, 128)
    assert Chip(folder).notes == []


def test_bases_of_single_tables(chip_folder: Write) -> None:
    folder = chip_folder(base="Ascend950PR_9589", base__vec="Ascend910B2", clock_mhz=1650)
    assert Chip(folder).notes == [
        "MyChip inherits costs from Ascend950PR_9589: mov, mmad",
        "MyChip inherits costs from Ascend910B1: vec",
    ]


def test_lost_instructions(chip_folder: Write) -> None:
    folder = chip_folder(lost_instructions="VADD VMUL")
    with (
        pytest.raises(InputError, match=r"vadd: MyChip \(architecture 2201\) does not have this instruction"),
        Chip(folder),
    ):
        tables.vector_call("VADD", ["FP16"] * 3, 128)


def test_an_own_instruction_is_one_row(chip_folder: Write) -> None:
    columns = "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,out_dtype,out_shape,summary"
    square, nothing = "rate x out,x,x,Square", "fixed 3,x,x,Nothing"
    rows = f"{columns}\nvsquare,VSQUARE,x y,x,y,,PIPE-V,x,{square}\nvnop,VNOP,x y,x,y,,PIPE-V,x,{nothing}\n"
    table = "instruction,dtypes,elements,bytes_per_cycle\nVSQUARE,FP16 FP16,128,64\n"
    folder = chip_folder(files={"instructions.csv": rows, "vec.csv": table})
    with Chip(folder) as chip:
        x = Tensor("UB", "FP16", [128], None, True)
        mskpp.vsquare(x, Tensor("UB"))()
        mskpp.vnop(x, Tensor("UB"))()
    assert [(e.name, e.end - e.start) for e in chip.result.events()] == [("VSQUARE", 4), ("VNOP", 3)]
    assert list(chip.result.instructions) == ["VSQUARE", "VNOP"]
    with pytest.raises(AttributeError):  # it belongs to that chip
        mskpp.vsquare  # noqa: B018


def test_a_registered_instruction_may_take_its_cost_from_the_chips_table(chip_folder: Write) -> None:
    @mskpp.RegisterOf("VSQUARE")
    class Square:
        pipe = "PIPE-V"

        def infer_shape(self, inputs: Any, outputs: Any) -> None:
            outputs[0].dtype, outputs[0].size = "FP16", inputs[0].size

    table = "instruction,dtypes,elements,bytes_per_cycle\nVSQUARE,FP16 FP16,128,64\n"
    with Chip(chip_folder(files={"vec.csv": table})) as chip:
        mskpp.vsquare(Tensor("UB", "FP16", [128], None, True), Tensor("UB"))()
    [event] = chip.result.events()
    assert (event.end, event.work) == (4, 128)


BAD_CHIPS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"clock_mgz": 5}, r"MyChip/chip.csv:4: unknown key 'clock_mgz'; did you mean 'clock_mhz'\?"),
    "clock of 0": ({"clock_mhz": 0}, "clock_mhz is 0"),
    "clock not a number": ({"clock_mhz": "fast"}, "clock_mhz is 'fast'; it must be a finite number of at least 0"),
    "clock not finite": ({"clock_mhz": "inf"}, "clock_mhz is 'inf'"),
    "clock NaN": ({"clock_mhz": "nan"}, "clock_mhz is 'nan'"),
    "clock negative": ({"clock_mhz": -5}, "clock_mhz is '-5'"),
    "slowdown below 1": ({"cache_miss_slowdown": 0.5}, "cache_miss_slowdown 0.5; they must be"),
    "unknown base": ({"base": "Nobody"}, "base is 'Nobody', which is no known chip"),
    "unknown base of a table": ({"base__vec": "Nobody"}, "base.vec is 'Nobody', which is no known chip"),
    "no base and no paths": ({"base": None, "clock_mhz": 5}, "has neither a paths.csv nor a base chip"),
    "dtype of a peak": ({"mmad_peak__FP17": 5}, "MyChip/chip.csv: unknown dtype 'FP17'"),
    "peak not a number": ({"mmad_peak__FP16": "x"}, "mmad_peak.FP16 is 'x'"),
}


@pytest.mark.parametrize("what", BAD_CHIPS)
def test_chip_files_that_cannot_be_used(chip_folder: Write, what: str) -> None:
    keys, words = BAD_CHIPS[what]
    with pytest.raises((DataError, InputError), match=words) as caught:
        Chip(chip_folder(**keys))
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, mskpp.MskppError)
    assert "data: " in str(caught.value)


MOV, VEC, PATHS = (
    "path,bytes,gib_per_s\n",
    "instruction,dtypes,elements,bytes_per_cycle\n",
    "source,target,pipe,port_bytes_per_cycle\n",
)
BAD_TABLES = {
    "no rate": (
        "mov.csv",
        MOV + "GM_TO_UB,1024,\n",
        r"MyChip/mov.csv:2: gib_per_s is ''; it must be a finite number above 0",
    ),
    "rate 0": ("mov.csv", MOV + "GM_TO_UB,1024,0\n", "gib_per_s is '0'"),
    "rate NaN": ("mov.csv", MOV + "GM_TO_UB,1024,nan\n", "gib_per_s is 'nan'"),
    "rate infinite": ("mov.csv", MOV + "GM_TO_UB,1024,1e999\n", "gib_per_s is '1e999'"),
    "size negative": ("mov.csv", MOV + "GM_TO_UB,-4,10\n", "bytes is '-4'"),
    "sizes fall": ("mov.csv", MOV + "GM_TO_UB,1024,9\nGM_TO_UB,1024,9\n", "size 1024 does not follow a smaller one"),
    "rate falls to nothing": (
        "mov.csv",
        MOV + "GM_TO_UB,1024,40\nGM_TO_UB,2048,9\n",
        "mov.csv:3: rate 9 is below a quarter of 40, the best rate at smaller sizes; such a point is a failed measure",
    ),
    "a cell too few": ("mov.csv", MOV + "GM_TO_UB,1024\n", "has 2 cells, the header has 3"),
    "a cell too many": ("mov.csv", MOV + "GM_TO_UB,1024,5,6\n", "has 4 cells, the header has 3"),
    "no path": ("mov.csv", MOV + "GM-UB,1024,5\n", "path 'GM-UB' is not written SOURCE_TO_TARGET"),
    "unknown memory": ("mov.csv", MOV + "GM_TO_XX,1024,5\n", "unknown mem_type 'XX'"),
    "missing column": (
        "mov.csv",
        "path,bytes\nGM_TO_UB,1024\n",
        "mov.csv has no column 'gib_per_s'; it has path, bytes, it needs",
    ),
    "empty file": ("mov.csv", "", "mov.csv has no column 'path'; it has none"),
    "unknown dtype": ("vec.csv", VEC + "VADD,FP16 XX FP16,128,5\n", "vec.csv:2: unknown dtype 'XX'"),
    "no dtypes": ("vec.csv", VEC + "VADD,,128,5\n", "names no instruction or no dtypes"),
    "no instruction": ("vec.csv", VEC + ",FP16,128,5\n", "names no instruction or no dtypes"),
    "unknown pipe": ("paths.csv", PATHS + "GM,UB,PIPE-X,5\n", "paths.csv:2: unknown pipe 'PIPE-X'"),
    "path twice": ("paths.csv", PATHS + "GM,UB,PIPE-V,5\nGM,UB,PIPE-V,6\n", "path GM_TO_UB stands here a second time"),
    "key twice": (
        "chip.csv",
        "key,value\nclock_mhz,5\nclock_mhz,6\n",
        "chip.csv:3: key 'clock_mhz' stands here a second time",
    ),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_tables_that_cannot_be_used(chip_folder: Write, what: str) -> None:
    file, text, words = BAD_TABLES[what]
    with pytest.raises((DataError, InputError)) as caught:
        Chip(chip_folder(files={file: text}))
    assert words in str(caught.value), str(caught.value)
    assert str(caught.value).startswith("data: ")


ROW = "vfoo,VFOO,x y,x,y,,PIPE-V,x,rate x out,x,x,Foo"
BAD_ROWS = {
    "built in": (ROW.replace("vfoo", "vadd"), "'vadd' is built in; choose another name"),
    "no identifier": (ROW.replace("vfoo", "v foo"), "function and instruction must be identifiers"),
    "twice": (f"{ROW}\n{ROW}", "instruction VFOO stands here a second time"),
    "default": (ROW.replace("x y,x", "x y if_mix=True,x"), "the only default is False"),
    "no flag with a default": (ROW.replace("x y,x", "x y=False,x"), "flags, and only they, have the default False"),
    "argument": (ROW.replace("x y,x", "x 2y,x"), "argument '2y' is no identifier"),
    "x not first": (ROW.replace("x y,x,y", "y x,x,y"), "the first argument must be x, and it must be read"),
    "writes": (ROW.replace("x,y,,", "x,z,,"), "writes 'z', which is no argument; allowed: an argument, or new"),
    "nine": (ROW.replace("x y,", "x y a b c d e f g,"), "more than 8 arguments"),
    "cost": (ROW.replace("rate x out", "cheap"), "cost is 'cheap'; allowed: 'rate' with x, y, out"),
    "fixed": (ROW.replace("rate x out", "fixed -1"), "cost is 'fixed -1'"),
    "pipe": (ROW.replace("PIPE-V", "PIPE-MTE1"), "pipe is PIPE-MTE1; allowed: PIPE-V, PIPE-M, RVECEX"),
    "rule": (ROW.replace("out,x,x,", "out,x,sideways,"), "out_shape is 'sideways'; allowed: x, x exactly 256"),
    "mmad": (ROW.replace("PIPE-V", "PIPE-M"), "cost mmad, work mkn, pipe PIPE-M and writes new go together"),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_instruction_rows_that_cannot_be_used(chip_folder: Write, what: str) -> None:
    rows, words = BAD_ROWS[what]
    columns = "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,out_dtype,out_shape,summary"
    with pytest.raises(DataError) as caught:
        Chip(chip_folder(files={"instructions.csv": f"{columns}\n{rows}\n"}))
    assert words in str(caught.value) and "MyChip/instructions.csv" in str(caught.value)


def test_bases_in_a_circle(chip_folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = chip_folder("Hen", base="Egg")
    chip_folder("Egg", base="Hen")
    monkeypatch.setenv("MSKPP_CHIP_PATH", str(folder.parent))
    with pytest.raises(DataError, match="the chain of base chips is longer than 8; does it lead back to itself"):
        Chip("Hen")


def test_a_table_that_is_a_folder(chip_folder: Write) -> None:
    folder = chip_folder()
    (folder / "mov.csv").mkdir()
    with pytest.raises(FileError, match=r"data: MyChip/mov\.csv is missing or not a regular file") as caught:
        Chip(folder)
    assert isinstance(caught.value, OSError)


def test_a_table_of_many_gigabytes(chip_folder: Write) -> None:
    folder = chip_folder()
    with open(folder / "mov.csv", "wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(DataError, match=r"mov.csv is larger than 64 MiB"):
        Chip(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_table_that_may_not_be_read(chip_folder: Write) -> None:
    folder = chip_folder(files={"mov.csv": MOV})
    (folder / "mov.csv").chmod(0)
    with pytest.raises(FileError, match=r"mov.csv cannot be read; check its permissions"):
        Chip(folder)


def test_files_as_other_programs_write_them(chip_folder: Write) -> None:
    """A byte order mark, carriage returns, quotes, blanks and comments."""
    text = '\ufeff# a comment\r\n"path" , "bytes","gib_per_s"\r\n\r\n"GM_TO_UB", 1024 ,10\r\n'
    folder = chip_folder(files={"mov.csv": text})
    assert one_move(folder)[1] == "measured"


def test_any_bytes_give_an_error_and_no_crash(chip_folder: Write) -> None:
    folder = chip_folder()
    good = (tables.CHIPS / "Ascend910B1" / "mov.csv").read_bytes()[:400]
    for cut in range(0, 400, 7):
        for damaged in (good[:cut], good[:cut] + b'\xff\0",' + good[cut:]):
            (folder / "mov.csv").write_bytes(damaged)
            try:
                Chip(folder)
            except (DataError, InputError) as error:
                assert str(error).startswith("data: ")


def test_a_copied_chip_is_the_same_chip(tmp_path: Path) -> None:
    copied = tmp_path / "Copy"
    shutil.copytree(tables.CHIPS / "Ascend910B1", copied)
    assert one_move(copied) == one_move("Ascend910B1")
