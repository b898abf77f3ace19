# SPDX-License-Identifier: Apache-2.0
"""The command ``mskpp``: help, wrong usage, errors and exit codes, the same for every subcommand."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from utils.kernels import ROOT

import mskpp
from mskpp.command import main as main_module
from mskpp.command import table
from mskpp.command.main import main
from mskpp.command.table import Column
from mskpp.optune import store

COMMANDS = ["run", "report", "diff", "compare", "lint", "tune", "tune show", "tune export", "tune clear"]
COMMANDS += ["chips", "instructions", "data check"]
SLOW = ("numpy", "plotly", "rich", "pandas", "sqlite3", "mskpp.launcher", "mskpp.optune")


def python(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, *words], env=environment, text=True, timeout=120, **{"capture_output": True, **options}
    )


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["tune", "--help"], ["tune", "show", "--help"], ["x"]])
def test_help_is_quick(words: list[str]) -> None:
    """It loads nothing that is slow to load."""
    is_slow = f"m in {SLOW} or m.startswith({tuple(f'{m}.' for m in SLOW)})"
    code = (
        "import sys\nfrom mskpp.command.main import main\nmain(sys.argv[1:])\n"
        f"print([m for m in sys.modules if {is_slow}], file=sys.stderr)"
    )
    done = python("-c", code, *words)
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == "[]"


def test_the_version() -> None:
    done = python("-m", "mskpp", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mskpp {mskpp.__version__}\n", "")


def test_every_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^    ([a-z]+(?: [a-z]+)?)  ", text, re.MULTILINE) == COMMANDS
    assert "\nexit codes:\n  0    all went well\n" in text and "\nexamples:\n  mskpp run" in text
    for name in COMMANDS:
        assert main([*name.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: mskpp {name}") and "\n  --json " in text
        assert f"\nexamples:\n  mskpp {name}" in text
        assert re.findall(r"^  (\d+)  ", text[text.index("exit codes:") :], re.MULTILINE) == ["0", "1", "2", "130"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], f"mskpp: no command; there are {', '.join(COMMANDS)}. More: mskpp --help"),
        (["tun"], "unknown command 'tun'; did you mean 'tune'? There are run, report,"),
        (["q"], "unknown command 'q'. There are run, report, diff,"),
        (["--verson"], "mskpp: error: there is no option '--verson'; did you mean '--version'?"),
        (["--all"], "mskpp: error: there is no option '--all'. There are --help, --version\n"),
        (["tune", "show", "--", "x"], "mskpp tune show: error: nothing may follow --, and 'x' does"),
        (["tune", "show", "x"], "mskpp tune show: error: 'x' is one word too many\n"),
        (
            ["tune", "show", "--kernels=x"],
            "mskpp tune show: error: there is no option '--kernels'; did you mean '--kernel'?\n",
        ),
        (["tune", "show", "--limit", "-1"], "argument --limit: '-1' is no whole number from 0"),
        (["--", "tune"], "no command"),
        (["data"], "unknown command 'data'; did you mean 'data check'?"),
        (["data", "chek", "x"], "unknown command 'data chek'; did you mean 'data check'?"),
    ],
)
def test_wrong_usage_of_the_frame(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == "" and expected in told.err and told.err.startswith("usage: ")


def test_python_m_gives_the_same() -> None:
    done = python("-m", "mskpp", "tun")
    assert done.returncode == 2 and "mskpp: error: unknown command 'tun'" in done.stderr


def test_an_error_of_ours_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MSKPP_CACHE_DIR", "relative")
    assert main(["tune", "show"]) == 1
    expected = "mskpp tune show: trial store: MSKPP_CACHE_DIR is 'relative'; set MSKPP_CACHE_DIR to the absolute path"
    told = capsys.readouterr()
    assert told.out == "" and told.err == f"{expected} of a folder\n"


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), OSError(5, "x"), OSError(2, "x", "file"), BrokenPipeError()])
def test_an_error_that_should_not_be(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raises(monkeypatch, error)
    assert main(["tune", "show"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback") and type(error).__name__ in told.splitlines()[-1]


def raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> Path:
        raise error

    monkeypatch.setattr(store, "default_path", fail)


def test_an_interrupt_of_any_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raises(monkeypatch, KeyboardInterrupt())
    assert main(["tune", "show"]) == 130
    assert capsys.readouterr().err == "mskpp tune show: interrupted\n"


def shell(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The script, in which "$@" is ``mskpp``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MSKPP_CACHE_DIR": str(tmp_path)}
    words = ["bash", "-c", script, "bash", sys.executable, "-m", "mskpp"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def test_a_reader_that_has_gone(tmp_path: Path) -> None:
    done = shell('"$@" tune show > >(exec >&- <&-; sleep 0.1); echo $?', tmp_path)
    assert done.stderr == ""
    reader = 'mkfifo f; (exec 3<f; exec 3<&-; touch gone) & exec 4>f; wait; "$@" tune show >&4; echo $?'
    done = shell(reader, tmp_path)
    assert (done.stdout, done.stderr) == ("1\n", "")
    for buffering in ("PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1"):
        script = reader.replace("tune show", "--help").replace("mkfifo f; ", "").replace('"$@"', f'{buffering} "$@"')
        done = shell(script, tmp_path)
        assert (done.stdout.strip() in ("0", "1"), done.stderr) == (True, "")


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    for buffering in ("PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1"):
        done = shell(f'{buffering} "$@" tune show >/dev/full', tmp_path)
        assert done.returncode == 1
        assert done.stderr == "mskpp tune show: stdout cannot be written: No space left on device\n"


def test_streams_that_are_closed(tmp_path: Path) -> None:
    for streams in (">&-", "2>&-", "<&-", "<&- >&- 2>&-"):
        for words in ("tune show", "tune show --json"):
            done = shell(f'"$@" {words} {streams}', tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), streams
    assert shell('"$@" tune clear <&-', tmp_path).returncode == 2
    assert shell('"$@" tune 2>&-', tmp_path).returncode == 2


def test_commands_have_what_the_frame_needs() -> None:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for module in main_module.MODULES:
        module.add(subparsers)
    assert list(subparsers.choices) == COMMANDS
    for one in subparsers.choices.values():
        assert callable(one.get_default("run")) and one.get_default("parser") is one


def test_columns_that_fit() -> None:
    columns = [Column("a", True), Column("b", rank=1), Column("c", True, 2), Column("d")]
    assert table.fitted(columns, [5, 4, 5, 100], 200) == {0: 5, 1: 4, 2: 5, 3: 100}
    assert table.fitted(columns, [5, 4, 5, 100], 50) == {0: 5, 1: 4, 2: 5, 3: 27}
    assert table.fitted(columns, [5, 4, 5, 100], 33) == {0: 5, 1: 4, 3: 18}
    assert table.fitted(columns, [5, 4, 5, 100], 24) == {0: 5, 3: 16}
    assert table.fitted(columns, [5, 4, 5, 100], 3) == {0: 5, 3: 1}
    assert table.fitted([Column("a", True)], [9], 3) == {0: 9}
    text = table.drawn([Column("name"), Column("us", True)], [["日本語" * 9, "1.5"], ["[bold]", "10.25"]], 20)
    assert [len(line) for line in text.splitlines()[1:2]] == [20] and "[bold]" in text and " 1.5" in text
