# SPDX-License-Identifier: Apache-2.0
"""The output folder: when it is made, its name, when it goes away, and what happens when it cannot be written."""

from __future__ import annotations

import errno
import gc
import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from utils import results

import mskpp
from mskpp import Chip, Tensor
from mskpp.errors import FileError, InputError, StateError
from mskpp.report import output, tables

NAME = re.compile(r"MSKPP\d{14}(_\d+)?")


def move() -> None:
    Tensor("UB").load(Tensor("GM", "FP16", [128]))


def folders(where: Path) -> list[Path]:
    return sorted(where.iterdir())


def test_the_folder_lies_in_the_current_directory_and_has_the_utc_time_as_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    monkeypatch.setattr(output.time, "gmtime", lambda: output.time.struct_time((2026, 1, 2, 3, 4, 5, 0, 0, 0)))
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        assert chip.output_dir == str(tmp_path / "MSKPP20260102030405")
        assert Path(chip.output_dir).is_dir() and stat.S_IMODE(os.stat(chip.output_dir).st_mode) == 0o750
        move()
    assert folders(tmp_path) == [tmp_path / "MSKPP20260102030405"]


@pytest.mark.parametrize("use", [Chip.enable_trace, Chip.enable_metrics, lambda chip: chip.output_dir], ids=range(3))
def test_it_is_reserved_at_the_first_use(tmp_path: Path, use: Callable[[Chip], Any]) -> None:
    with Chip("Ascend910B1") as chip:
        assert folders(tmp_path) == []
        use(chip)
        [folder] = folders(tmp_path)
        assert NAME.fullmatch(folder.name) and os.path.isabs(chip.output_dir) and chip.output_dir == str(folder)
        use(chip)
        assert folders(tmp_path) == [folder]


def test_the_rights_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with Chip("Ascend910B1") as chip:
            chip.enable_metrics()
            move()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(chip.output_dir).st_mode) == 0o750
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in Path(chip.output_dir).iterdir())


@pytest.mark.parametrize("name", ["read only", "never entered", "debug"])
def test_it_goes_away_when_nothing_was_written(tmp_path: Path, name: str) -> None:
    chip = Chip("Ascend910B1", debug_mode=name == "debug")
    assert chip.output_dir
    if name != "never entered":
        with chip:
            move()
    del chip
    gc.collect()
    assert folders(tmp_path) == []


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_exception_inside_passes_and_leaves_no_folder(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        chip.enable_metrics()
        move()
        raise error
    assert folders(tmp_path) == []
    with Chip("Ascend910B1") as chip:  # the next block starts clean
        move()
    assert len(chip.result) == 1


@pytest.mark.parametrize("error", [mskpp.FlagError, mskpp.DeadlockError])
def test_a_program_that_cannot_be_scheduled_leaves_no_folder(tmp_path: Path, error: type[Exception]) -> None:
    with pytest.raises(error), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        if error is mskpp.FlagError:
            mskpp.set_flag("PIPE-V", "PIPE-M", 0)
        else:
            Tensor("GM").load(Tensor("UB", "FP16", [128]))
    assert folders(tmp_path) == []
    with pytest.raises(StateError, match="its block failed"):
        chip.result  # noqa: B018


def test_twenty_runs_in_one_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.time, "strftime", lambda *_: "20260102030405")
    seen = set()
    for _ in range(20):
        with Chip("Ascend910B1") as chip:
            chip.enable_trace()
            move()
        seen.add(chip.output_dir)
    assert len(seen) == 20 == len(folders(tmp_path))
    assert all(len(results.slices(folder)) == 1 for folder in seen)
    assert tmp_path / "MSKPP20260102030405_19" in folders(tmp_path)


def test_eight_processes_at_once(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import sys, time\n"
        "from mskpp import Chip, Tensor\n"
        "from mskpp.report import output\n"
        "output.time.strftime = lambda *_: '20260102030405'\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for _ in range(5):\n"
        "    with Chip('Ascend910B1') as chip:\n"
        "        chip.enable_trace()\n"
        "        Tensor('UB').load(Tensor('GM', 'FP16', [128]))\n"
        "    print(chip.output_dir)\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    processes = [
        subprocess.Popen([sys.executable, script], cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    named = [line for text in printed for line in text.splitlines() if line.startswith(str(work))]
    assert len(named) == len(set(named)) == 40
    assert {str(folder) for folder in folders(work)} == set(named)
    assert all(len(results.slices(folder)) == 1 for folder in named)


def test_a_symlinked_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        move()
    assert len(results.slices(chip.output_dir)) == 1


def test_changing_the_directory_inside_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        move()
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert Path(chip.output_dir).parent == tmp_path and len(results.slices(chip.output_dir)) == 1


def test_ten_thousand_folders_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def exists(*_: Any, **__: Any) -> None:
        raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", exists)
    with (
        pytest.raises(FileError, match=r"output: 10000 folders MSKPP\d+_\* exist already"),
        Chip("Ascend910B1") as chip,
    ):
        chip.enable_trace()


def test_a_directory_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FileError) as caught, Chip("Ascend910B1") as chip:
        chip.enable_metrics()
    assert re.match(
        r"output: folder MSKPP\d+ cannot be made in the current directory: Permission denied", str(caught.value)
    )
    assert isinstance(caught.value, OSError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_the_right_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with (
            pytest.raises(FileError, match="cannot be made in the current directory: Permission denied"),
            Chip("Ascend910B1") as chip,
        ):
            chip.enable_trace()
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second table cannot be written: nothing is left, not even the first."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tables, "write_instructions", full)
    with (
        pytest.raises(
            FileError, match=r"output: Instruction_statistic\.csv cannot be written: No space left on device"
        ) as caught,
        Chip("Ascend910B1") as chip,
    ):
        chip.enable_metrics()
        move()
    assert isinstance(caught.value, OSError)
    assert folders(tmp_path) == []


def test_our_own_mistake_in_a_report_passes_as_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "write_instructions", lambda *_: {}["nothing"])
    with pytest.raises(KeyError, match="nothing"), Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        move()
    assert folders(tmp_path) == []


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """No file may grow beyond 16 KiB, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_gets_full_under_the_trace(tmp_path: Path, small_files_only: None) -> None:
    with (
        pytest.raises(FileError, match=r"^trace: trace\.json cannot be written: File too large \(test_output_folder"),
        Chip("Ascend910B1") as chip,
    ):
        chip.enable_trace()
        for _ in range(1000):
            move()
    assert folders(tmp_path) == []


def test_a_disk_that_gets_full_under_the_pie_page(tmp_path: Path, small_files_only: None) -> None:
    with (
        pytest.raises(
            FileError, match=r"output: instruction_cycle_consumption\.html cannot be written: File too large"
        ),
        Chip("Ascend910B1") as chip,
    ):
        chip.enable_metrics()
        move()
    assert folders(tmp_path) == []


def test_the_folder_vanishes_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be written: No such file or directory"), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        os.rmdir(chip.output_dir)
        move()
    assert folders(tmp_path) == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        Path(chip.output_dir, "notes.txt").write_text("mine")
        raise ZeroDivisionError
    assert Path(chip.output_dir, "notes.txt").read_text() == "mine"


def test_a_file_that_is_in_the_way(tmp_path: Path) -> None:
    """No file is written over, and no link is followed."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        Path(chip.output_dir, "Pipe_statistic.csv").symlink_to(victim)
        move()
    assert victim.read_text() == "precious"
    assert results.table(chip.output_dir, "Pipe_statistic.csv")[0]["Pipe"] == "Total"


def test_what_python_leaves_behind_is_removed_at_exit(tmp_path: Path) -> None:
    script = "from mskpp import Chip\nchip = Chip('Ascend910B1')\nprint(chip.output_dir)\n"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "MSKPP")) and folders(tmp_path) == []


def test_no_progress_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress(10**9) as progress:
        progress("step")
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress(2_000_000) as progress:
        progress("trace: 1,000,000 instructions")
    out, err = capsys.readouterr()
    assert out == "" and "2,000,000 instructions" in err


def test_a_large_trace_is_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(output, "_LARGE_TRACE_BYTES", 100)
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        move()
    assert "chrome://tracing and Perfetto open about 256 MiB" in caplog.text


# --- set_prof_summary_path ---


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    file = tmp_path / "op_summary.csv"
    file.write_text("Op Name,Task Duration(us)\ncopy,4.5\n")
    return file


def test_a_profiler_summary_is_checked(summary: Path) -> None:
    chip = Chip("Ascend910B1")
    for given in (summary, str(summary), os.path.relpath(summary)):
        chip.set_prof_summary_path(given)
    summary.rename(summary.with_suffix(".CSV"))
    chip.set_prof_summary_path(summary.with_suffix(".CSV"))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("nothing.csv", None, "summary 'nothing.csv' is not an existing .csv file"),
        ("table.txt", "a", "summary 'table.txt' is not an existing .csv file"),
        ("empty.csv", "", "summary 'empty.csv' is empty or larger than 1 GiB"),
        ("", None, "the summary path is empty or has control characters"),
        ("a\nb.csv", None, "the summary path is empty or has control characters"),
        ("a\0.csv", None, "the summary path is empty or has control characters"),
    ],
)
def test_summaries_that_cannot_be_used(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        Chip("Ascend910B1").set_prof_summary_path(name)
    assert words in str(caught.value) and "(test_output_folder.py:" in str(caught.value)


def test_a_summary_of_many_gigabytes(tmp_path: Path) -> None:
    with open(tmp_path / "big.csv", "wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match="is empty or larger than 1 GiB"):
        Chip("Ascend910B1").set_prof_summary_path("big.csv")


def test_a_summary_that_cannot_be_read(summary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=r"summary 'op_summary.csv' cannot be read: Permission denied"):
        Chip("Ascend910B1").set_prof_summary_path(summary)


@pytest.mark.parametrize("path", [None, 5, True, b"x.csv"])
def test_a_summary_path_of_another_type(path: Any) -> None:
    with pytest.raises((TypeError, InputError), match="Chip: the summary path"):
        Chip("Ascend910B1").set_prof_summary_path(path)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_regular_file_stays(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    os.mkfifo(place) if kind == "pipe" else place.mkdir()
    with Chip("Ascend910B1") as chip:
        pass
    for write in (chip.result.write_json, chip.result.to_html):
        with pytest.raises(FileError, match="place is no regular file; give another path"):
            write(place)
    assert place.exists() and not place.is_file()
