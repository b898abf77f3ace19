# SPDX-License-Identifier: Apache-2.0
"""``mskpp tune FILE.py:function``: what it runs, what it reports, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from utils.kernels import ROOT, wait_until, write
from utils.terminal import Terminal

from mskpp.command import output, user_file
from mskpp.command.main import main

# In place of a search: what one leaves behind for the command.
STAND_IN = """
import os, subprocess, sys
from mskpp.errors import InputError
from mskpp.optune import decorators
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult

def result(count=3, kernel="scale", **changes):
    good = [Trial(n, {"kStep": n, "Tile": f"Shape<{n}, 16>"}, MEASURED, 9.0 + n, 8.5 + n, 9.5 + n, 7) for n in range(count)]
    bad = [Trial(count + n, {"kStep": f"bad{n}"}, "does not compile", reason="a.cpp:1: error") for n in range(2)]
    found = TuneResult(**{"trials": (*good, *bad), "backend": "host", "kernel": kernel, "ties": (0, 1)[:count], **changes})
    decorators._overriding.get().results.append(found)
    return found

def tuned(function):
    function.__mskpp_tuned__ = True
    return function
"""  # noqa: E501

Ran = tuple[int, str, str]
Tune = Callable[..., Ran]


@pytest.fixture
def tune(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tune:
    """Runs ``mskpp tune`` on code in tune_it.py: exit code, stdout, stderr."""
    monkeypatch.setenv("MSKPP_CACHE_DIR", str(tmp_path / "cache"))

    def run(code: str, *words: str, target: str = "tune_it.py:go") -> Ran:
        write(tmp_path / "tune_it.py", STAND_IN + code)
        status = main(["tune", target, *words])
        told = capfd.readouterr()
        return status, told.out, told.err

    return run


def test_it_runs_the_function_and_sums_up(tune: Tune) -> None:
    status, out, err = tune('def go():\n    result(seconds=3.21, correlation=0.5)\n    print("mine")\n')
    assert (status, err) == (0, "")
    assert out == (
        "mine\n"
        "\n"
        "scale on host: 5 configurations, 2 failed, 3.2 s\n"
        "No.      us    95 % interval  samples  configuration\n"
        "  0   9.000    8.500 - 9.500        7  kStep=0 Tile=Shape<0, 16>\n"
        "  1  10.000   9.500 - 10.500        7  kStep=1 Tile=Shape<1, 16>\n"
        "  2  11.000  10.500 - 11.500        7  kStep=2 Tile=Shape<2, 16>\n"
        "not to be told apart: No.0, No.1\n"
        "failures:\n"
        "  2 x does not compile: a.cpp:1: error\n"
        "rank correlation of prediction and measurement: 0.50\n"
    )


def test_what_is_many_is_cut(tune: Tune) -> None:
    code = """
def go():
    bad = [Trial(100 + n, {}, "crashed", reason=f"reason\\t{n}") for n in range(15)]
    good = [Trial(n, {"k": n}, MEASURED, 9.0, 9.0, 9.0, 1, predicted_us=2.5, known=n < 4) for n in range(15)]
    result(trials=(*good, *bad, Trial(200, {}, NOT_TRIED)), complete=False)
"""
    status, out, _ = tune(code)
    assert status == 0
    assert "30 configurations, 15 failed, 1 not tried, 4 known from the store, 0.0 s, incomplete\n" in out
    assert out.count("2.500  k=") == 10 and "... 5 more; --csv OUT writes all\n" in out
    assert out.count("x crashed: reason?") == 10 and "... 5 more causes\n" in out


def test_options_go_before_what_the_decorators_say(tune: Tune) -> None:
    code = "def go():\n    print(decorators._overriding.get().wishes)\n    result()\n"
    assert "Wishes(trials=None, seconds=None, strategy=None, seed=None, top_k=None, store=None)\n" in tune(code)[1]
    words = [
        "--trials",
        "5",
        "--seconds",
        "1.5",
        "--strategy",
        "in-order",
        "--seed",
        "0",
        "--top-k",
        "0.25",
        "--no-store",
    ]
    expected = "Wishes(trials=5, seconds=1.5, strategy='in order', seed=0, top_k=0.25, store=False)\n"
    assert expected in tune(code, *words, "--no-store")[1]
    assert "top_k=3," in tune(code, "--top-k", "3", "--strategy", "random")[1]


LOUD = """
import ctypes
def go():
    print("of Python")
    os.write(1, b"past Python\\n")
    subprocess.run(["echo", "of a child"], check=True)
    ctypes.CDLL(None).puts(b"of C")
    result(kernel="\\u03b2\\x1b[31m")
    result(trials=(), ties=(), seconds=float("inf"))
"""


def test_json_is_alone_on_stdout(tune: Tune) -> None:
    status, out, err = tune(LOUD, "--json")
    found = json.loads(out)
    assert status == 1  # the second has no best
    assert out.isascii() and list(found) == ["schema", "interrupted", "error", "files", "results"]
    assert [one["kernel"] for one in found["results"]] == ["β\x1b[31m", "scale"]
    assert found["results"][0]["trials"][1]["config"] == {"kStep": 1, "Tile": "Shape<1, 16>"}
    assert found["results"][1]["seconds"] is None
    assert set(err.splitlines()) == {"of Python", "past Python", "of a child", "of C"}


def test_json_where_stdout_is_no_file(tune: Tune, tmp_path: Path) -> None:
    """The same in a program of its own, whose stdout is a pipe, with stderr closed."""
    write(tmp_path / "tune_it.py", STAND_IN + LOUD)
    words = [sys.executable, "-m", "mskpp", "tune", "tune_it.py:go", "--json"]
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1 and len(json.loads(done.stdout)["results"]) == 2


def test_files_of_every_result(tune: Tune, tmp_path: Path) -> None:
    status, out, _ = tune("def go():\n    result()\n    result(kernel='other', count=1)\n", "--csv", "out.csv")
    assert status == 0 and out.endswith(f"files: {tmp_path}/out.csv, {tmp_path}/out.2.csv\n")
    with open("out.2.csv", newline="") as file:
        assert [row["config.kStep"] for row in csv.DictReader(file)] == ["0", "bad0", "bad1"]
    assert output.numbered("a.b/out", 3) == "a.b/out.3"


def test_a_page(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mskpp.optune.results import TuneResult

    monkeypatch.setattr(TuneResult, "to_html", lambda self, path: Path(path).write_text(self.kernel))
    status, out, _ = tune("def go():\n    result()\n", "--html", "out.html", "--json")
    assert (status, json.loads(out)["files"]) == (0, [f"{tmp_path}/out.html"])
    assert Path("out.html").read_text() == "scale"


def test_files_go_where_the_command_was_given(tune: Tune, tmp_path: Path) -> None:
    """The file changes the current folder before there are results."""
    (tmp_path / "other").mkdir()
    code = "def go():\n    os.chdir('other')\n    result()\n"
    status, _, _ = tune(code, "--csv", "out.csv", "--html", "out.html")
    os.chdir(tmp_path)
    assert status == 0 and not list((tmp_path / "other").iterdir())
    assert (tmp_path / "out.csv").exists() and (tmp_path / "out.html").exists()


def test_few_samples_have_no_interval(tune: Tune) -> None:
    code = (
        "def go():\n    result(trials=tuple(Trial(n, {}, MEASURED, 9.0, 8.5, 9.5, n) for n in (1, 2, 3)), ties=(1,))\n"
    )
    lines = tune(code)[1].splitlines()
    assert [line.split()[1:] for line in lines[-3:]] == [
        ["9.000", "-", "1"], ["9.000", "-", "2"], ["9.000", "8.500", "-", "9.500", "3"],
    ]  # fmt: skip


def test_a_tuned_function_is_given_what_its_space_has(tune: Tune) -> None:
    code = """
from mskpp import autotune
@autotune(space={"tile": [1, 2]}, backend="model")
def gate(tile):
    return float(tile)
@autotune([{"tile": 1}], backend="model")
def other(n, tile):
    return float(tile)
"""
    status, out, _ = tune(code, target="tune_it.py:gate")
    assert status == 0 and "gate on model: 2 configurations, 0 failed" in out
    status, _, err = tune(code, target="tune_it.py:other")
    assert status == 2 and "other needs the parameter n, and is called without any" in err


def test_files_that_cannot_be_written(tune: Tune, tmp_path: Path) -> None:
    """Known before the work is done; and when it shows later, the rest is still told."""
    code = "def go():\n    result()\n    print('ran')\n"
    status, out, err = tune(code, "--csv", "nowhere/out.csv")
    assert (status, out) == (1, "")
    assert err == f"mskpp tune: output folder {tmp_path}/nowhere cannot be used: it does not exist; check the path\n"
    code = "def go():\n    result()\n    os.mkdir('out.csv')\n"
    status, out, err = tune(code, "--csv", "out.csv")
    assert status == 1 and "scale on host" in out
    assert "out.csv is a folder already; give the path of a file" in err and "Traceback" not in err


# ---------------------------------------------------------------- what is run


def test_the_file_sees_what_python_would_give_it(tune: Tune, tmp_path: Path) -> None:
    write(tmp_path / "next_to_tune_it.py", "NAME = 'beside'\n")
    code = """
import next_to_tune_it
def go():
    result()
    print(__name__, __file__, sys.argv, sys.path[0], next_to_tune_it.NAME, sys.modules[__name__].go is go)
"""
    argv, folders = sys.argv, list(sys.path)
    status, out, _ = tune(code, "--", "--size", "7", "--", "x")
    place = f"{tmp_path}/tune_it.py"
    assert status == 0
    assert out.startswith(f"tune_it {place} ['tune_it.py', '--size', '7', '--', 'x'] {tmp_path} beside True\n")
    assert sys.argv == argv and sys.path == folders and "tune_it" not in sys.modules
    sys.modules.pop("next_to_tune_it")
    assert not list(tmp_path.glob("__pycache__/tune_it*"))


@pytest.mark.parametrize("name", ["json.py", "no-name.py", "a:b.py", "mskpp.py"])
def test_names_that_are_taken_or_are_none(tune: Tune, tmp_path: Path, name: str) -> None:
    write(tmp_path / name, STAND_IN + "import json\ndef go():\n    result(kernel=json.dumps(__name__))\n")
    before = sys.modules["json"]
    status, out, _ = tune("", target=f"{name}:go")
    assert status == 0 and '"mskpp_user_file" on host' in out
    assert sys.modules["json"] is before


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("@tuned\ndef one():\n    result(kernel='one')\ndef two():\n    result(kernel='two')\n", "one on host"),
        ("result(kernel='as it is loaded')\n", "as it is loaded on host"),
    ],
)
def test_a_file_alone(tune: Tune, code: str, expected: str) -> None:
    status, out, _ = tune(code, target="tune_it.py")
    assert status == 0 and expected in out and out.count(" on host") == 1


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        ("def going():\n    pass\n", ["tune_it.py:goign"], "tune_it.py has no function 'goign'; did you mean 'going'?"),
        ("", ["tune_it.py:x"], "tune_it.py has no function 'x'. It has result, tuned"),
        ("go = 3\n", ["tune_it.py:go"], "go of tune_it.py is int, no function."),
        (
            "def go(x, *, n, m=2):\n    pass\ndef free():\n    pass\n", ["tune_it.py:go"],
            "go needs the parameters x, n, and is called without any; write a function without parameters that makes "
            "the arrays and calls go, and name that one: tune_it.py:function. Without parameters: result, free",
        ),
        ("def go(x):\n    pass\n", ["tune_it.py:go"], "go needs the parameter x, and is called"),
        ("@tuned\ndef go(x):\n    pass\n", ["tune_it.py"], "go needs the parameter x, and is called"),
        ("def go():\n    pass\n", ["tune_it.py"], "has no function with @mskpp.autotune; name one: tune_it.py:result"),
        (
            "@tuned\ndef one():\n    pass\n@tuned\ndef two():\n    pass\n", ["tune_it.py"],
            "has 2 functions with @mskpp.autotune; name one: tune_it.py:one|two|result",
        ),
        ("", ["tune_itt.py:go"], "tune_itt.py does not exist; did you mean 'tune_it.py'?"),
        ("", ["folder.py:go"], "folder.py is a folder, no file"),
        ("", ["tune_it.py:a.b"], "'a.b' in 'tune_it.py:a.b' is no name of a function; write tune_it.py:function"),
        ("", ["shwo"], "'shwo' is neither FILE.py:function nor one of show, export, clear; did you mean 'show'?"),
        ("", ["tune_it:go"], "'tune_it:go' is neither FILE.py:function nor one of show, export, clear."),
        ("", ["tune_it.py:go", "--strategy", "randon"], "--strategy is 'randon'; did you mean 'random'?"),
        ("", ["tune_it.py:go", "--trials", "0"], "argument --trials: '0' is no whole number from 1"),
        ("", ["tune_it.py:go", "--seed", "x"], "argument --seed: 'x' is no whole number from 0"),
        ("", ["tune_it.py:go", "--seconds", "nan"], "argument --seconds: 'nan' is no number above 0"),
        ("", ["tune_it.py:go", "--seconds", "x"], "argument --seconds: 'x' is no number above 0"),
        ("", ["tune_it.py:go", "--top-k", "1.5"], "argument --top-k: '1.5' is neither a whole number from 1 nor"),
        ("", ["tune_it.py:go", "--top-k", "x"], "argument --top-k: 'x' is neither"),
        (
            "", ["tune_it.py:go", "--trails", "3"],
            "usage: mskpp tune [options] FILE.py[:function] [-- ARGS...]\n"
            "       mskpp tune show|export|clear [--help]\n"
            "mskpp tune: error: there is no option '--trails'; did you mean '--trials'? Words for the file go after "
            "--: mskpp tune tune_it.py:go -- --trails 3\n",
        ),
        (
            "", ["tune_it.py:go", "a b"],
            "mskpp tune: error: 'a b' is one word too many. Words for the file go after --: "
            "mskpp tune tune_it.py:go -- 'a b'\n",
        ),
        (
            "@tuned\ndef go(x, tile):\n    pass\ngo.__mskpp_given__ = frozenset({'tile'})\n", ["tune_it.py:go"],
            "go needs the parameter x, and is called",
        ),
        ("", [], "the following arguments are required: FILE.py:function"),
    ],
)  # fmt: skip
def test_wrong_usage(
    tune: Tune, tmp_path: Path, capfd: pytest.CaptureFixture[str], code: str, words: list[str], expected: str
) -> None:
    (tmp_path / "folder.py").mkdir()
    write(tmp_path / "tune_it.py", STAND_IN.replace("count=3", "count=3") + code)
    assert main(["tune", *words]) == 2
    told = capfd.readouterr()
    assert told.out == "" and expected in told.err and "Traceback" not in told.err
    assert told.err.startswith("usage: mskpp")


# ---------------------------------------------------------------- how it ends


def test_a_file_that_raises(tune: Tune) -> None:
    status, out, err = tune("def go():\n    result()\n    inner()\ndef inner():\n    raise KeyError('mine')\n")
    assert status == 1 and "scale on host" in out
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and lines[-1] == "KeyError: 'mine'"
    assert "tune_it.py" in lines[1] and "in go" in lines[1] and "mskpp/command" not in err
    status, out, _ = tune("def go():\n    raise KeyError('mine')\n", "--json")
    assert status == 1 and json.loads(out)["error"] == "KeyError: 'mine'"


def test_a_file_that_is_no_python(tune: Tune) -> None:
    status, out, err = tune("def go(:\n")
    assert (status, out) == (1, "")
    assert "def go(:" in err and err.rstrip().splitlines()[-1].startswith("SyntaxError: ") and "command" not in err
    status, out, err = tune("import no_such_module_at_all\n")
    assert status == 1 and "ModuleNotFoundError: No module named 'no_such_module_at_all'" in err


def test_a_file_that_cannot_be_read(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **keywords: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(user_file, "open", refuse, raising=False)
    expected = f"mskpp tune: {tmp_path}/tune_it.py cannot be read: Permission denied\n"
    assert tune("") == (1, "", expected)


def test_an_error_that_says_all(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def go():\n    raise InputError('autotune: no mark of that name')\n"
    status, _, err = tune(code)
    line = (STAND_IN + code).lstrip("\n").splitlines().index(
        "    raise InputError('autotune: no mark of that name')"
    ) + 1
    assert (status, err) == (1, f"mskpp tune: autotune: no mark of that name (tune_it.py:{line})\n")
    import logging

    monkeypatch.setattr(logging.getLogger("mskpp"), "level", logging.DEBUG)
    logging.getLogger("mskpp").manager._clear_cache()  # type: ignore[attr-defined]
    assert "Traceback" in tune(code)[2]
    monkeypatch.undo()
    logging.getLogger("mskpp").manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("code", "expected"), [("3", 1), ("'text'", 1), ("0", 0), ("", 0)])
def test_a_file_that_ends_itself(tune: Tune, code: str, expected: int) -> None:
    status, out, err = tune(f"def go():\n    result()\n    sys.exit({code})\n")
    assert status == expected and "scale on host" in out
    assert (f"the file ended itself with sys.exit({code}) (tune_it.py:" in err) == bool(expected)


def test_nothing_was_tuned(tune: Tune) -> None:
    status, out, err = tune("def go():\n    pass\n")
    assert (status, out) == (1, "")
    assert err.startswith(
        "mskpp tune: tune_it.py:go called no function with @mskpp.autotune; name a function that does"
    )
    assert json.loads(tune("def go():\n    pass\n", "--json")[1])["error"].startswith("tune_it.py:go called no")


def test_no_configuration_was_good(tune: Tune) -> None:
    code = "def go():\n    raise decorators.TuneError('scale: none of 2', result(count=0))\n"
    status, out, err = tune(code)
    assert status == 1 and "scale on host: 2 configurations, 2 failed" in out and "2 x does not compile" in out
    assert "mskpp tune: scale: none of 2 (tune_it.py:" in err and "Traceback" not in err


def test_an_interrupt(tune: Tune) -> None:
    code = "def go():\n    result(complete=False)\n    raise KeyboardInterrupt\n"
    status, out, err = tune(code)
    assert (status, err) == (130, "mskpp tune: interrupted\n") and "s, incomplete" in out
    status, out, err = tune(code, "--json")
    assert (status, json.loads(out)["interrupted"], len(json.loads(out)["results"])) == (130, True, 1)


def test_an_interrupt_from_outside(tune: Tune, tmp_path: Path) -> None:
    code = "import time\ndef go():\n    result()\n    open('begun', 'w').close()\n    time.sleep(100)\n"
    write(tmp_path / "tune_it.py", STAND_IN + code)
    words = [sys.executable, "-m", "mskpp", "tune", "tune_it.py:go"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert wait_until(Path("begun").exists, 60)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "mskpp tune: interrupted\n") and "scale on host" in out


def test_a_reader_that_goes_away(tune: Tune, tmp_path: Path) -> None:
    """Without a word; also when the user's own code is the one that writes."""
    for code in ("def go():\n    result()\n", "def go():\n    result()\n    print('x' * 10**6)\n"):
        write(tmp_path / "tune_it.py", STAND_IN + code)
        script = 'sleep 2 | "$@" | true; exit "${PIPESTATUS[1]}"'
        words = ["bash", "-c", script, "bash", sys.executable, "-c", SLOW, "tune", "tune_it.py:go"]
        done = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


# Runs the command when its stdin has ended, which is after its reader has.
SLOW = "import sys\nsys.stdin.read()\nfrom mskpp.command.main import main\nsys.exit(main())"


def test_a_broken_pipe_of_the_user(tune: Tune) -> None:
    status, _, err = tune("def go():\n    raise BrokenPipeError('mine')\n")
    assert status == 1 and err.endswith("BrokenPipeError: mine\n") and "Traceback" in err


def test_letters_that_stdout_does_not_have(tune: Tune, tmp_path: Path) -> None:
    write(tmp_path / "tune_it.py", STAND_IN + "def go():\n    result(kernel='\\u03b2')\n")
    words = [sys.executable, "-m", "mskpp", "tune", "tune_it.py:go"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "\n\\u03b2 on host: " in done.stdout


@pytest.mark.parametrize(("columns", "encoding"), [(25, "utf-8"), (120, "utf-8"), (40, "ascii")])
def test_tables_fit_the_terminal(tune: Tune, tmp_path: Path, columns: int, encoding: str) -> None:
    code = STAND_IN + "def go():\n    result()\n"
    write(tmp_path / "tune_it.py", code)
    words = ["-m", "mskpp", "tune", "tune_it.py:go"]
    env = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "NO_COLOR": "1"}
    with Terminal(words, columns=columns, env=env, folder=tmp_path) as terminal:
        assert terminal.wait() == 0
        lines = terminal.raw.decode().replace("\r", "").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("scale on host")) + 1
    table = [re.sub(r"\x1b\[[0-9]*m", "", line) for line in lines[start : start + 5]]
    assert max(map(len, table)) <= columns
    assert ("│" in table[2]) == (encoding == "utf-8") and "us" in table[0] and "9.000" in table[2]
    assert ("samples" in table[0]) == (columns > 60)
    assert "kStep=0" in table[2] and ("…" in table[2]) == (columns == 25)


KERNEL = """
#include <mskpp/kernel.h>
constexpr uint32_t kFactor = 1;  // tunable
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR z, uint32_t n) {
    auto *a = (__gm__ float*)x, *c = (__gm__ float*)z;
    for (uint32_t i = GetBlockIdx(); i < n; i += GetBlockNum()) c[i] = 2 * a[i] * kFactor / kFactor;
}
"""
SCRIPT = """
import numpy as np
import mskpp

def get_kernel():
    config = mskpp.KernelInvokeConfig("scale.cpp", "scale")
    return mskpp.compile(None, mskpp.Launcher(config).code_gen(), options=["-O0"], backend="host")

@mskpp.autotune([{"kFactor": 1}, {"kFactor": 2}, {"kFactor": "no number"}])
def scale(x, z, n):
    get_kernel()[1](x, z, n)

def go():
    x, z = np.ones(64, np.float32), np.zeros(64, np.float32)
    scale(x, z, x.size)
    assert z.sum() == 128
"""


def test_a_real_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """From the command line to the compiler, the host and the store."""
    monkeypatch.setenv("MSKPP_CACHE_DIR", str(tmp_path / "cache"))
    write(tmp_path / "scale.cpp", KERNEL)
    write(tmp_path / "real.py", SCRIPT)
    assert main(["tune", "real.py:go", "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    (result,) = found["results"]
    assert [trial["ending"] for trial in result["trials"]] == ["measured", "measured", "does not compile"]
    assert main(["tune", "real.py:go", "--trials", "1", "--csv", "out.csv"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("No.0: ") and "Best config: No.0" in out and "\nscale on host: 1 config" in out
    assert main(["tune", "show", "--json"]) == 0
    kept = json.loads(capfd.readouterr().out)
    assert sorted(trial["ending"] for trial in kept["trials"]) == ["does not compile", "measured", "measured"]
    assert {trial["kernel"] for trial in kept["trials"]} == {"scale"}
