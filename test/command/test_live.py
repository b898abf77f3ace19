# SPDX-License-Identifier: Apache-2.0
"""The live table of a search: on terminals of the tests' own, and where there is none."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from utils.kernels import write
from utils.terminal import ROOT, Terminal

from mskpp.optune import live
from mskpp.optune.live import Live
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial

SETUP = """
import os, sys, time
from pathlib import Path
from mskpp.optune.live import Live
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial

def good(number, time_us, config=None, **more):
    return Trial(number, config or {"kStep": number}, MEASURED, time_us, time_us, time_us, 1, **more)

def bad(number, reason):
    return Trial(number, {"kStep": number}, "does not compile", reason=reason)

def wait_for(name):
    end = time.monotonic() + 60
    while not Path(name).exists():
        if time.monotonic() > end:
            sys.exit("nobody goes on")
        time.sleep(0.02)

one = Live()
"""


def good(number: int, time_us: float, **more: Any) -> Trial:
    return Trial(number, {"kStep": number}, MEASURED, time_us, time_us, time_us, 1, **more)


def bad(number: int, reason: str) -> Trial:
    return Trial(number, {"kStep": number}, "crashed", reason=reason)


def started(folder: Path, code: str, **options: Any) -> Terminal:
    script = write(folder / "program.py", SETUP + code)
    return Terminal([str(script)], folder=folder, **options)


def shown(one: Live, columns: int = 79) -> list[str]:
    return [live.fitted(text, columns) for _, text in one._lines(columns, 20)]


FULL = """
one.begin(8, 3600.0)
one.phase("measuring")
for number, time_us in enumerate((5.0, 3.0, 4.0)):
    one.ended(good(number, time_us))
for number in (3, 4):
    one.ended(bad(number, "a.cpp:3: error: no"))
one.ended(bad(5, "a.cpp:9: error: other"))
wait_for("go")
one.close()
print("No.0: 5.000μs")
"""


def test_the_table_is_there_and_gone(tmp_path: Path) -> None:
    with started(tmp_path, FULL) as terminal:
        assert terminal.shows(lambda lines: any("6 of 8" in line for line in lines))
        lines = terminal.screen.text
        assert lines[0] == "" and lines[1].startswith("autotune: measuring  [━") and " left" in lines[1]
        assert lines[2:] == [
            "best    3.000 us  No.1    kStep=1",
            "        4.000 us  No.2    kStep=2",
            "        5.000 us  No.0    kStep=0",
            "failed  3, 2 of them: does not compile: a.cpp:3: error: no",
        ]
        assert b"\x1b[1mbest" in terminal.raw and b"\x1b[31mfailed" in terminal.raw
        (tmp_path / "go").touch()
        assert terminal.wait() == 0
        assert terminal.screen.text == ["No.0: 5.000μs"]
        assert termios.tcgetattr(terminal.slave) == terminal.modes


def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    with started(tmp_path, FULL, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("failed") for line in lines))
        (tmp_path / "go").touch()
        assert terminal.wait() == 0
        assert b"m" not in {terminal.raw[i : i + 1] for i in marks(terminal.raw)}


def marks(raw: bytes) -> list[int]:
    """Where the commands of the terminal end."""
    import re

    return [found.end() - 1 for found in re.finditer(rb"\x1b\[[0-9;?]*[A-Za-z]", raw)]


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "go").touch()
    with started(tmp_path, FULL.replace('wait_for("go")', "time.sleep(0.5)"), env=env) as terminal:
        assert terminal.wait() == 0
        assert terminal.raw == "No.0: 5.000μs\r\n".encode()


def test_a_pipe_gets_nothing(tmp_path: Path) -> None:
    code = SETUP + FULL.replace('wait_for("go")', "time.sleep(0.5)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "No.0: 5.000μs\n", "")


PRINTS = """
print("before")
one.begin(3)
one.ended(good(0, 5.0))
wait_for("drawn")
print("one\\ntwo")
print("an error", file=sys.stderr)
time.sleep(0.4)
print("half", end="")
time.sleep(0.4)
print("whole")
time.sleep(0.4)
sys.stdout.writelines(["x\\n", "y\\n"])
time.sleep(0.4)
os.write(1, b"past Python\\n")
time.sleep(0.4)
os.write(2, b"half past")
time.sleep(0.4)
if os.fork() == 0:
    print("child")
    os._exit(0)
os.wait()
assert sys.stdout.isatty() and sys.stdout.fileno() == 1
one.close()
assert type(sys.stdout).__module__ == type(sys.stderr).__module__ == "_io"
print("after")
"""


def test_what_others_print_stays(tmp_path: Path) -> None:
    with started(tmp_path, PRINTS) as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
        assert terminal.screen.text[0] == "before"
        (tmp_path / "drawn").touch()
        assert terminal.wait() == 0
        # Halves of lines are on one line where the table was not drawn in between.
        words = "before one two an error half whole x y past Python half past child after"
        assert "".join(terminal.screen.text).replace(" ", "") == words.replace(" ", "")


def test_stdout_that_is_a_file_is_left_alone(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        code = 'one.begin(3)\none.ended(good(0, 5.0))\nprint("mine")\nwait_for("go")\none.close()\n'
        with started(tmp_path, code, stdout=out) as terminal:
            assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
            (tmp_path / "go").touch()
            assert terminal.wait() == 0
            assert terminal.screen.text == []
    assert (tmp_path / "out").read_text() == "mine\n"


def test_an_interrupt_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    code = """
one.begin(100)
one.ended(good(0, 5.0))
try:
    time.sleep(60)
except KeyboardInterrupt:
    pass
finally:
    one.close()
print("the end")
"""
    with started(tmp_path, code) as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert terminal.screen.text in (["the end"], ["^C", "the end"])
        assert termios.tcgetattr(terminal.slave) == terminal.modes
        assert b"\x1b[?" not in terminal.raw


def test_an_interrupt_that_nobody_catches(tmp_path: Path) -> None:
    """Nobody closes the table; the end of the interpreter does."""
    with started(tmp_path, "one.begin(100)\none.ended(good(0, 5.0))\ntime.sleep(60)\n") as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
        terminal.type("\x03")
        assert terminal.wait() == -signal.SIGINT
        assert terminal.screen.text[-1] == "KeyboardInterrupt"
        assert not any("best" in line for line in terminal.screen.text)


@pytest.mark.parametrize(("columns", "rows"), [(10, 24), (80, 2)])
def test_too_small_a_terminal_gets_nothing(tmp_path: Path, columns: int, rows: int) -> None:
    code = FULL.replace('wait_for("go")', "time.sleep(0.5)").replace("No.0: 5.000μs", "end")
    with started(tmp_path, code, columns=columns, rows=rows) as terminal:
        assert terminal.wait() == 0
        assert terminal.raw == b"end\r\n"


@pytest.mark.parametrize(("columns", "rows"), [(20, 24), (33, 4), (80, 3), (200, 60)])
def test_the_table_fits(tmp_path: Path, columns: int, rows: int) -> None:
    """No line is broken, and nothing is scrolled but once to make room."""
    code = """
print("\\n" * 70 + "before")
one.begin(10**10)
for number in range(9):
    one.ended(good(number, 5.0 + number, {"Tile": "Shape<日本語, 256>" * 9, "N": number}))
one.ended(bad(9, "\\x1b[31ma.cpp:1:\\x1b[m \\x07error: " + "long " * 50))
wait_for("go")
one.close()
print("after")
"""
    with started(tmp_path, code, columns=columns, rows=rows) as terminal:
        assert terminal.shows(lambda lines: lines and lines[-1] and "before" not in lines[-1])
        for _ in range(10):
            terminal.read(0.2)
        lines = terminal.screen.text
        table = lines[lines.index("before") + 1 :]
        assert 2 <= len(table) <= min(rows - 1, 8)
        if rows > 4:
            assert table[-1].startswith("failed  does not")
            assert table[2].startswith("best    5.000 us")
        (tmp_path / "go").touch()
        assert terminal.wait() == 0
        assert terminal.screen.text[-2:] == ["before", "after"]


def test_a_terminal_that_is_stopped_holds_nobody_up(tmp_path: Path) -> None:
    code = """
one.begin(100)
one.ended(good(0, 5.0))
wait_for("stopped")
for number in range(1000):
    one.ended(good(number, 5.0 + number))
begin = time.monotonic()
one.close()
Path("done").write_text(str(time.monotonic() - begin))
"""
    with started(tmp_path, code) as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
        terminal.type("\x13")
        (tmp_path / "stopped").touch()
        assert terminal.process.wait(60) == 0
        assert float((tmp_path / "done").read_text()) < 10


def test_a_terminal_that_goes_away(tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
one.begin(100)
one.ended(good(0, 5.0))
wait_for("gone")
one.ended(good(1, 4.0))
time.sleep(0.5)
one.close()
Path("done").touch()
os._exit(0)
"""
    with started(tmp_path, code) as terminal:
        assert terminal.shows(lambda lines: any(line.startswith("best") for line in lines))
        os.close(terminal.master)
        terminal.master = -1
        (tmp_path / "gone").touch()
        assert terminal.process.wait(60) == 0
        assert (tmp_path / "done").exists()


def test_the_background_draws_nothing(tmp_path: Path) -> None:
    code = """
if os.fork() == 0:
    os.setpgid(0, 0)
    one.begin(100)
    one.ended(good(0, 5.0))
    time.sleep(0.5)
    one.close()
    os._exit(0)
sys.exit(os.wait()[1])
"""
    with started(tmp_path, code) as terminal:
        assert terminal.wait() == 0
        assert terminal.raw == b""


def test_a_second_table_is_not_shown(tmp_path: Path) -> None:
    code = """
one.begin(100)
two = Live("two")
two.begin(7)
two.ended(good(0, 5.0))
one.ended(good(0, 6.0))
wait_for("go")
two.close()
one.close()
one.close()
one.begin(3)
one.ended(good(0, 5.0))
time.sleep(0.3)
"""
    with started(tmp_path, code) as terminal:
        assert terminal.shows(lambda lines: any("6.000 us" in line for line in lines))
        assert "two" not in "".join(terminal.screen.text)
        (tmp_path / "go").touch()
        assert terminal.wait() == 0
        assert terminal.screen.text == []


class Broken(io.StringIO):
    """Says that it is a terminal, and is none."""

    def isatty(self) -> bool:
        return True


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Broken()], ids=["none", "closed", "broken"])
def test_without_a_stream_nothing_happens(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    one = Live()
    one.begin(2, 1.0)
    one.ended(good(0, 1.0))
    one.phase("measuring")
    one.close()
    one.close()
    assert sys.stderr is stream


def test_figures_that_change() -> None:
    one = Live()
    one.begin(None)
    for number in range(9):
        one.ended(good(number, 10.0 + number))
    assert shown(one)[1].startswith("best    10.000 us  No.0 ") and len(shown(one)) == 6
    one.ended(good(0, 30.0))
    assert [line.split()[-1] for line in shown(one)[1:]] == [f"kStep={n}" for n in (1, 2, 3, 4, 5)]
    one.ended(good(8, 1.0))
    assert shown(one)[1].split() == ["best", "1.000", "us", "No.8", "kStep=8"]
    one.ended(bad(8, "it fell"))
    assert shown(one)[1].split()[-1] == "kStep=1" and shown(one)[-1] == "failed  crashed: it fell"
    one.ended(good(8, 2.0))
    assert shown(one)[1].split()[-1] == "kStep=8" and "failed" not in str(shown(one))
    one.ended(Trial(9, {}, NOT_TRIED))
    assert shown(one)[0].startswith("autotune  9 tried  0:0")


def test_nothing_good_yet() -> None:
    one = Live("autotune_v2")
    one.begin(4)
    assert shown(one) == [f"autotune_v2  [{' ' * 30}]  0 of 4  0:00"]
    one.ended(bad(0, "x\n\x1b[2Jy"))
    assert shown(one)[1:] == ["failed  crashed: x y"]


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    one = Live()
    one.begin(10, 7200.0)
    now = 1060.0
    assert "1:00, about 1:59:00 left" in shown(one)[0]
    one.ended(good(0, 1.0, known=True))  # took no time, and says nothing of the others
    assert "1 of 10 (1 from the store)" in shown(one)[0] and "1:59:00" in shown(one)[0]
    one.ended(good(1, 1.0))
    one.ended(good(2, 1.0))
    assert "1:00, about 3:30 left" in shown(one)[0]
    now = 9000.0
    assert "2:13:20, about 0:00 left" in shown(one)[0]


def test_when_all_are_tried_nothing_is_said_of_the_time_left() -> None:
    one = Live()
    one.begin(2, 60.0)
    one.ended(good(0, 1.0))
    assert "left" in shown(one)[0]
    one.ended(good(1, 1.0))
    assert "2 of 2  0:0" in shown(one)[0] and "left" not in shown(one)[0]


def test_where_lines_are_few_the_best_and_the_failures_stay() -> None:
    one = Live()
    one.begin(9)
    for number in range(5):
        one.ended(good(number, 1.0 + number))
    one.ended(bad(5, "it fell"))
    for most in (1, 2, 3, 5, 7, 9):
        words = [text.split()[0] for _, text in one._lines(79, most)]
        expected = ["autotune", "best", "2.000", "3.000", "4.000", "5.000"][: max(2, most - 1)]
        assert words == [*expected, "failed"][:most]


def test_a_space_without_end_has_no_time_left() -> None:
    one = Live()
    one.begin(10**10)
    one._began -= 1.0
    one.ended(good(0, 1.0))
    assert "left" not in shown(one)[0] and "1 of 10000000000" in shown(one)[0]
