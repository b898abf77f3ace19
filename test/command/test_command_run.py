# SPDX-License-Identifier: Apache-2.0
"""``mskpp run`` and ``mskpp report``: scripts as python runs them, with their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from utils.kernels import ROOT
from utils.terminal import Terminal

import mskpp
from mskpp.command import modelled
from mskpp.command.main import main
from mskpp.core import exploring

Ran = tuple[int, str, str]
Run = Callable[..., Ran]

SCRIPT = """import os, sys
import beside
from mskpp import Chip, Core, Tensor, vexp

def block(size, **options):
    with Chip("Ascend910B1", **options) as chip:
        x, y = Tensor("UB"), Tensor("UB")
        x.load(Tensor("GM", "FP16", [size]))
        vexp(x, y)()
    return chip

if __name__ == "__main__":
    print("modelling", sys.argv, beside.VALUE, __name__, os.path.basename(__file__))
    for size in sys.argv[1:] or ["4096"]:
        block(int(size))
"""


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs ``mskpp``: exit code, stdout, stderr."""
    Path("sub").mkdir()
    Path("sub/kernel.py").write_text(SCRIPT)
    Path("sub/beside.py").write_text("VALUE = 7\n")

    def go(*words: str) -> Ran:
        status = main(list(words))
        told = capfd.readouterr()
        return status, told.out, told.err

    yield go
    sys.modules.pop("beside", None)  # another test may have one of that name


def test_a_script(run: Run) -> None:
    argv, path, modules = sys.argv, list(sys.path), sys.modules["__main__"]
    status, out, err = run("run", "sub/kernel.py")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "modelling ['sub/kernel.py'] 7 __main__ kernel.py",
        "chip            us  cycles  bound by    busy",
        "Ascend910B1  0.246     456  PIPE-MTE2  72.6%",
        "",
        "L2 cache hit ratio 0 (cold, the default)",
        "what would help                               us   gain",
        "GM->UB moves twice as large, half as many  0.180  27.0%",
        "GM->UB moves twice as fast                 0.157  36.2%",
        "VEXP twice as fast                         0.213  13.6%",
        "costs not measured: 1 beyond_table",
    ]
    assert (sys.argv, sys.path, sys.modules["__main__"]) == (argv, path, modules)
    assert os.listdir() == ["sub"]  # nothing is written


def test_several_blocks_and_arguments(run: Run) -> None:
    status, out, err = run("run", "sub/kernel.py", "--", "4096", "8192")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("modelling ['sub/kernel.py', '4096', '8192']")
    assert lines[1].split() == ["block", "chip", "us", "cycles", "bound", "by", "busy"]
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"]
    assert [line for line in lines if line.startswith("block ")][1:] == ["block 1", "block 2"]
    status, out, err = run("run", "sub/kernel.py", "--", "64", "128", "8192", "256")
    assert [line for line in out.splitlines() if line.startswith("block ")][1:] == ["block 3, the slowest"]


def test_all_files_are_written(run: Run) -> None:
    status, out, err = run("run", "sub/kernel.py", "--out", "a/b")
    assert (status, err) == (0, "") and out.splitlines()[-1] == f"files: {Path('a/b').resolve()}"
    names = ["Instruction_statistic.csv", "Pipe_statistic.csv", "report.html", "result.json", "trace.json"]
    assert sorted(os.listdir("a/b")) == names
    assert mskpp.load_result("a/b").total_cycles == 456
    events = json.loads(Path("a/b/trace.json").read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"MOV-GM_TO_UB", "VEXP"}
    assert Path("a/b/Pipe_statistic.csv").read_text().startswith('"Pipe","Duration(us)"')
    assert run("run", "sub/kernel.py", "--out", "a/b", "--", "8192")[0] == 0  # the files are replaced
    assert mskpp.load_result("a/b").total_cycles != 456 and sorted(os.listdir("a/b")) == names


def test_several_blocks_get_folders(run: Run) -> None:
    assert run("run", "sub/kernel.py", "--out", "o")[2] == ""
    status, out, err = run("run", "sub/kernel.py", "--out", "o", "--", "64", "128")
    where = Path("o").resolve()
    assert status == 0 and out.splitlines()[-1] == f"files: {where}/1 ... {where}/2"
    assert err == f"mskpp run: {where} still has the result.json of an earlier run\n"
    assert [mskpp.load_result(f"o/{i}").instructions["VEXP"].operations for i in (1, 2)] == [64, 128]


def test_json_has_whole_results(run: Run) -> None:
    status, out, err = run("run", "sub/kernel.py", "--json", "--out", "o", "--", "64", "128")
    assert status == 0 and err.startswith("modelling ")
    document = json.loads(out)
    assert list(document) == ["schema", "script", "failure", "left_out", "files", "results"]
    assert (document["script"], document["failure"], document["left_out"]) == ("kernel.py", None, 0)
    assert len(document["files"]) == 10 and all(os.path.isfile(file) for file in document["files"])
    assert document["results"] == [json.loads(Path(f"o/{i}/result.json").read_text()) for i in (1, 2)]


@pytest.mark.parametrize("name", ["910b4", "./chips/MyNpu", "mynpu"])
def test_another_chip(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("chips/MyNpu").mkdir(parents=True)
    Path("chips/MyNpu/chip.csv").write_text("key,value\nbase,Ascend910B1\nclock_mhz,1000\n")
    monkeypatch.setenv("MSKPP_CHIP_PATH", f"{Path('chips').resolve()}")
    Path("moves.py").write_text(
        "import os, runpy, sys\nos.chdir('sub')\nsys.path.insert(0, os.getcwd())\n"
        "runpy.run_path('kernel.py', run_name='__main__')\n"
    )
    status, out, err = run("run", "moves.py", "--chip", name)
    assert status == 0, err
    assert out.splitlines()[2].split()[0] == ("Ascend910B4" if name == "910b4" else "MyNpu")
    with mskpp.Chip("Ascend910B1") as chip:  # and not one longer
        pass
    assert chip.name == "Ascend910B1" and exploring.wished("x", False) == ("x", False)


def test_strict(run: Run) -> None:
    Path("large.py").write_text(
        "from mskpp import Chip, Tensor\n"
        "with Chip('Ascend910B1'):\n"
        "    Tensor('UB').load(Tensor('GM', 'FP32', [1 << 16]))\n"
    )
    status, out, err = run("run", "large.py")
    assert status == 0 and "\nwarning: UB holds up to 262,144 bytes" in out
    status, out, err = run("run", "large.py", "--strict")
    assert (status, out) == (1, "") and err.startswith("mskpp run: Chip: more live bytes than the memory has; ")


def test_a_script_that_fails_shows_what_it_did_before(run: Run) -> None:
    Path("bad.py").write_text("import sys\nsys.path.insert(0, 'sub')\nfrom kernel import block\nblock(64)\n1 / 0\n")
    status, out, err = run("run", "bad.py", "--out", "o")
    assert status == 1 and out.splitlines()[1].startswith("Ascend910B1") and os.path.exists("o/result.json")
    assert err.startswith("Traceback (most recent call last):\n") and 'bad.py", line 5' in err
    assert err.splitlines()[-1] == "mskpp run: the script ended with ZeroDivisionError: division by zero"
    status, out, err = run("run", "bad.py", "--json")
    assert status == 1 and json.loads(out)["failure"].startswith("the script ended with ZeroDivisionError")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.py ran no `with Chip(...)` block to its end, so there is nothing to show"),
        ("import sys; sys.exit(3)", "the script ended itself with sys.exit(3) (s.py:1)"),
        ("from mskpp import Chip\nChip('x')", "Chip: unknown chip 'x'"),
    ],
)
def test_scripts_without_a_result(run: Run, text: str, message: str) -> None:
    Path("s.py").write_text(text)
    status, out, err = run("run", "s.py", "--out", "o")
    assert (status, out) == (1, "") and err.startswith(f"mskpp run: {message}")
    assert not os.path.exists("o")


def test_a_script_may_end_itself_well(run: Run) -> None:
    Path("s.py").write_text("import sys\nfrom mskpp import Chip\nwith Chip('Ascend910B1'): pass\nsys.exit()\n")
    status, out, err = run("run", "s.py")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].split() == ["Ascend910B1", "0.000", "0", "-", "-"]
    assert out.splitlines()[-1] == "what would help: nothing that was tried gains 1 %"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "none.py"], "none.py does not exist. Give a script"),
        (["run", "sub/kernal.py"], "sub/kernal.py does not exist; did you mean 'sub/kernel.py'? Give a script"),
        (["run", "sub"], "sub is a folder, no file. Give a script"),
        (["run", "sub/kernel.py", "--chip", "Ascend910B9"], "--chip: unknown chip 'Ascend910B9'; did you mean "),
        (
            ["run", "sub/kernel.py", "--out", "sub/kernel.py/x"],
            "kernel.py is no folder; give a folder, or the name of a",
        ),
        (["report", "none.json"], "none.json does not exist. Give a result.json, its folder, or a script"),
        (["report", "sub", "--block", "1"], "--block is for scripts, and sub is none"),
        (["report", "sub", "--", "1"], "words after -- are for scripts, and sub is none"),
    ],
)
def test_wrong_usage(run: Run, words: list[str], message: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "") and f"mskpp {words[0]}: error: " in err and message in err


def test_a_folder_that_cannot_be_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    status, _, err = run("run", "sub/kernel.py", "--out", "o")
    assert status == 2 and "cannot be written to" in err


def test_only_so_many_blocks_are_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelled, "MOST_BLOCKS", 2)
    status, _, err = run("run", "sub/kernel.py", "--", "64", "128", "256")
    assert status == 0 and err == "mskpp run: 1 more blocks ran; the first 2 are kept\n"


def test_what_the_script_writes_stays(run: Run) -> None:
    Path("s.py").write_text(
        "from mskpp import Chip, Tensor\nwith Chip('Ascend910B1') as chip:\n    chip.enable_metrics()\n"
        "    Tensor('UB').load(Tensor('GM', 'FP16', [64]))\n"
    )
    assert run("run", "s.py")[0] == 0
    (folder,) = Path().glob("MSKPP*")
    assert (folder / "Pipe_statistic.csv").exists()


def test_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import sys, time\nfrom mskpp import Chip\nwith Chip('Ascend910B1'): pass\n"
        "print('here', flush=True)\ntime.sleep(60)\n"
    )
    words = [sys.executable, "-m", "mskpp", "run", "s.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "mskpp run: interrupted\n" and "Ascend910B1" in out


def test_tables_fit_the_terminal(run: Run) -> None:
    words = ["-m", "mskpp", "run", "sub/kernel.py", "--", "4096", "8192"]
    with Terminal(words, columns=48, folder=Path.cwd()) as terminal:
        assert terminal.wait() == 0
        assert any("Ascend910B1" in line for line in terminal.screen.text)


# ---------------------------------------------------------------- report


def test_the_page_of_a_script(run: Run) -> None:
    status, out, err = run("report", "sub/kernel.py", "--out", "x.html", "--block", "2", "--", "64", "128")
    assert status == 0, err
    assert out.splitlines()[-1] == f"report: {Path('x.html').absolute()}"
    assert "Ascend910B1" in Path("x.html").read_text()
    status, _, err = run("report", "sub/kernel.py", "--", "64", "128")
    assert status == 1 and "kernel.py has 2 Chip blocks; choose one with --block: 1 (Ascend910B1, 0." in err
    status, _, err = run("report", "sub/kernel.py", "--block", "2")
    assert status == 1 and "--block is 2, and kernel.py has 1 Chip block\n" in err


def test_the_page_of_a_result(run: Run) -> None:
    run("run", "sub/kernel.py", "--out", "o")
    for source in ("o", "o/result.json"):
        status, out, err = run("report", source, "--json")
        assert (status, err) == (0, "")
        assert json.loads(out) == {
            "schema": 1,
            "report": str(Path("report.html").absolute()),
            "chip": "Ascend910B1",
            "total": {"cycles": 456, "us": 456 / 1850},
        }
    Path("o/result.json").write_text("{}")
    status, out, err = run("report", "o")
    assert status == 1 and "load_result: result.json is no result of mskpp: it has no kind" in err


def test_a_script_without_a_block_has_no_page(run: Run) -> None:
    Path("s.py").write_text("")
    status, _, err = run("report", "s.py")
    assert status == 1 and err == "mskpp report: s.py ended no Chip block; give a script that models with Chip\n"
    Path("s.py").write_text("1 / 0")
    assert run("report", "s.py")[0] == 1 and not os.path.exists("report.html")


def test_without_a_report_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mskpp.report import files

    monkeypatch.setattr(files, "_PAGE", "mskpp.report.no_page")
    status, _, err = run("run", "sub/kernel.py", "--out", "o")
    assert status == 0 and err == "mskpp run: this mskpp has no report page; report.html is not written\n"
    assert not os.path.exists("o/report.html")
    status, _, err = run("report", "o")
    assert status == 1 and err.startswith("mskpp report: report: this mskpp has no report page; install it anew")


@pytest.mark.parametrize("what", ["sys.stdout = io.StringIO()", "sys.stdout.close()"])
def test_a_script_that_takes_stdout_away(tmp_path: Path, what: str) -> None:
    (tmp_path / "takes.py").write_text(
        f"import io, sys\nfrom mskpp import Chip\nwith Chip('Ascend910B1'): pass\n{what}\n"
    )
    command = [sys.executable, "-m", "mskpp", "run", "takes.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and "Ascend910B1" in done.stdout, done.stderr
