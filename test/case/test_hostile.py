# SPDX-License-Identifier: Apache-2.0
"""What hostile or unlucky code does to a model: it may be refused, but never crash or leave half of anything."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import mskpp
from mskpp import Chip, PrefModel, RegisterOf, RegisterPrefOf, Tensor, errors, set_flag, vabs, vadd, vcadd, vexp


def run_script(text: str, cwd: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    (cwd / "script.py").write_text(textwrap.dedent(text))
    options = {"capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run([sys.executable, *arguments, "script.py"], cwd=cwd, **options)


def ub(*size: int) -> Tensor:
    return Tensor("UB", "FP16", list(size), is_inited=True)


def test_a_forgotten_launch_under_warnings_as_errors(tmp_path: Path) -> None:
    done = run_script(
        """
        from mskpp import *
        vexp(Tensor("UB", "FP16", [64], is_inited=True), Tensor("UB"))
        print("on")
        """,
        tmp_path,
        "-Werror",
    )
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.count("write vexp(...)()") == 1


class Unborn(Tensor):
    def __init__(self) -> None:
        """Does not call the base class's."""


@pytest.mark.parametrize("make", [Unborn, lambda: Tensor.__new__(Tensor)])
def test_a_tensor_that_was_never_made(make) -> None:
    with Chip("Ascend910B1"):
        for call in (
            lambda: make().load(Tensor("GM", "FP16", [64])),
            lambda: Tensor("UB").load(make()),
            lambda: vexp(make(), Tensor("UB")),
            lambda: vexp(ub(64), make()),
            lambda: vadd(ub(64), make(), Tensor("UB")),
        ):
            with pytest.raises(TypeError):
                call()


@pytest.mark.parametrize("target", [5, None, "x", object()])
def test_load_into_what_is_no_tensor(target) -> None:
    with pytest.raises(TypeError):
        Tensor.load(target, Tensor("GM", "FP16", [64]))


def test_a_collected_generator_may_end_the_block(tmp_path: Path) -> None:
    """The collector may run at any allocation, also inside a call of ours."""
    done = run_script(
        """
        import gc, contextlib
        from mskpp import *
        gc.disable()
        def block():
            with Chip("Ascend910B1"): yield
        class Node: pass
        def set_up():
            it = block(); next(it); node = Node(); node.me = node; node.it = it
        calls = [lambda: set_flag("PIPE-V", "PIPE-V", 0), lambda: Tensor("UB").load(Tensor("GM", "FP16", [64])),
                 lambda: vexp(Tensor("UB", "FP16", [64], is_inited=True), Tensor("UB"))(),
                 lambda: Tensor("UB").set_valid(), lambda: Tensor("UB", "FP16", [4]).is_valid()]
        for call in calls:
            for n in range(12):
                gc.collect(); set_up(); gc.set_threshold(gc.get_count()[0] + n); gc.enable()
                with contextlib.suppress(Exception): call()
                gc.disable()
        print("on")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


def test_an_index_may_change_the_list_it_is_in() -> None:
    size: list = []

    class Evil:
        def __index__(self) -> int:
            size.clear()
            return 1

    size.extend([Evil(), Evil(), Evil()])
    with pytest.raises(errors.InputError, match="changed while it was read"):
        Tensor("UB", "FP16", size)


def test_a_finished_block_takes_nothing_from_another_thread() -> None:
    with Chip("Ascend910B1"):
        kept = contextvars.copy_context()
    caught: list[BaseException] = []

    def late() -> None:
        for enter in (lambda: mskpp.Core("aic0"), lambda: mskpp.VecScope("s")):
            try:
                with enter():
                    pass
            except BaseException as error:
                caught.append(error)
        for call in (ub(4).set_valid, ub(4).is_valid, lambda: set_flag("PIPE-V", "PIPE-M", 0)):
            try:
                call()
            except BaseException as error:
                caught.append(error)

    thread = threading.Thread(target=kept.run, args=(late,))
    thread.start()
    thread.join(60)
    assert [type(error) for error in caught] == [errors.StateError] * 5


def test_a_cost_that_issues_itself() -> None:
    @RegisterPrefOf("VABS")
    class Endless(PrefModel):
        def time(self) -> int:
            vabs(self.inputs[0], Tensor("UB"))()
            return 1

    with Chip("Ascend910B1"), pytest.raises(RecursionError):
        vabs(ub(64), Tensor("UB"))()


@pytest.mark.parametrize("after", [vcadd, mskpp.vbrcb])
def test_a_change_of_shape_in_place_waits_for_all_parts(after) -> None:
    ends = []
    for in_place in (True, False):
        with Chip("Ascend910B1") as chip:
            gm = Tensor("GM", "FP16", [64])
            x = Tensor("UB", "UINT16" if after is mskpp.vbrcb else "FP16", [128])
            source = Tensor("GM", x.dtype, [64]) if gm.dtype != x.dtype else gm
            x[:64].load(source)
            x[64:].load(source)
            after(x, x if in_place else Tensor("UB"), 2)()
        ends.append(chip.result.total_cycles)
    assert ends[0] == ends[1]


def test_a_new_size_keeps_the_writers() -> None:
    with Chip("Ascend910B1") as chip:
        out = Tensor("GM", "FP16", [64, 64], format="ND")
        rows = ub(32, 64)
        out[:32].load(rows)
        out[32:].load(rows)
        out.size = [4096]
        Tensor("UB").load(out[2048:])
        out[:16].load(ub(16))  # and goes on to keep them
        Tensor("UB").load(out[2048:])
    stores = [e for e in chip.result.events() if e.name == "MOV-UB_TO_GM"]
    loads = [e for e in chip.result.events() if e.name == "MOV-GM_TO_UB"]
    assert loads[0].start == stores[1].end
    assert loads[1].start >= stores[1].end


def test_no_size_makes_slices_stale() -> None:
    x = Tensor("UB", "FP16", [64, 64])
    part = x[:32]
    x.size = None
    x.size = [16, 16]
    with Chip("Ascend910B1"), pytest.raises(errors.StateError, match="stale"):
        vexp(part, Tensor("UB"))()


def test_instructions_of_chips_that_are_gone(tmp_path: Path) -> None:
    header = "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,out_dtype,out_shape,summary\n"
    for chip, name in (("A", "VSWISH"), ("B", "VOTHER")):
        folder = tmp_path / chip
        folder.mkdir()
        (folder / "chip.csv").write_text("key,value\nbase,Ascend910B1\n")
        row = f"{name.lower()},{name},x y,x,y,,PIPE-V,x,fixed 7,x,x,own\n"
        (folder / "instructions.csv").write_text(header + row)
    with Chip("Ascend910B1") as chip:
        for n in range(50):
            other = Chip(tmp_path / "AB"[n % 2])
            instruction = other._instructions[("vswish", "vother")[n % 2]]
            instruction(ub(64), Tensor("UB"))()
            del other, instruction
            gc.collect()
    counts = {name: row.count for name, row in chip.result.instructions.items()}
    assert counts == {"VSWISH": 25, "VOTHER": 25}


def test_a_refused_call_records_nothing() -> None:
    @RegisterPrefOf("MOV-GM_TO_UB")
    class Reshaper(PrefModel):
        def time(self) -> int:
            whole.size = [7]
            return 5

    with Chip("Ascend910B1") as chip:
        whole = Tensor("UB", "FP16", [64])
        with pytest.raises(errors.StateError):
            whole[:32].load(Tensor("GM", "FP16", [32]))
    assert len(chip.result) == 0


def test_refused_flags_use_up_no_core() -> None:
    with Chip("Ascend910B1") as chip:
        for n in range(5000):
            with pytest.raises(errors.InputError):
                set_flag(f"z{n}_PIPE-V", "nope", 0)
        with mskpp.Core("aic0"):
            Tensor("UB").load(Tensor("GM", "FP16", [64]))
    assert list(chip.result.pipes) == ["aic0-PIPE-MTE2"]


def test_a_script_beside_the_package_keeps_its_lines(tmp_path: Path) -> None:
    script = Path(mskpp.__file__).parent.parent / "mskpp_kernel.py"
    code = compile("import mskpp\nmskpp.Tensor('L9')\n", str(script), "exec")
    with pytest.raises(errors.InputError, match=r"\(mskpp_kernel.py:2\)"):
        exec(code, {})


def test_many_tiles_read_at_once() -> None:
    """Linear, whatever the number: 30,000 tiles took half a minute when each woke the reader once."""
    with Chip("Ascend910B1") as chip:
        ring = Tensor("GM", "FP16", [30_000, 16], format="ND")
        tile = ub(1, 16)
        for i in range(30_000):
            ring[i : i + 1].load(tile)
        Tensor("UB").load(ring)
    assert len(chip.result) == 30_001
    events = list(chip.result.events())
    assert events[-1].start == events[-2].end


def test_an_interrupt_while_writing_leaves_no_file(tmp_path: Path, monkeypatch) -> None:
    from mskpp.report import output

    written = output._write_trace

    def interrupted(*arguments) -> None:
        written(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "_write_trace", interrupted)
    with pytest.raises(KeyboardInterrupt), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        chip.enable_metrics()
        vexp(ub(64), Tensor("UB"))()
    assert not list(tmp_path.glob("MSKPP*"))


MODEL = """
import sys
from mskpp import *
if "nowhere" in sys.argv: sys.stdout = None
with Chip("Ascend910B1") as chip:
    chip.enable_metrics()
    vexp(Tensor("UB", "FP16", [64], is_inited=True), Tensor("UB"))()
"""


def test_no_stdout(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MODEL)
    done = subprocess.run([sys.executable, "script.py", "nowhere"], cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("MSKPP*/*"))) == 3


def test_a_full_stderr_keeps_nobody_from_modelling(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run_script(
            MODEL,
            tmp_path,
            capture_output=False,
            stdout=subprocess.DEVNULL,
            stderr=full,
            env={**os.environ, "MSKPP_LOG_LEVEL": "nonsense"},
        )
    assert len(list(tmp_path.glob("MSKPP*/*"))) == 3
    assert done.returncode in (0, 120)  # 120: the interpreter could not flush stderr


def test_long_names_keep_the_table_short(capsys, monkeypatch) -> None:
    cores = [f"{'C' * 120}{n}" for n in range(40)]
    for n in range(40):

        @RegisterOf(f"V{'X' * 120}{n}")
        class Own:
            pipe = "PIPE-V"

            def infer_shape(self, inputs, outputs, attr) -> None:
                outputs[0].size, outputs[0].dtype = inputs[0].size, inputs[0].dtype

        @RegisterPrefOf(f"V{'X' * 120}{n}")
        class Cost(PrefModel):
            def time(self) -> int:
                return 1

    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        for n, core in enumerate(cores):
            with mskpp.Core(core):
                getattr(mskpp, f"v{'x' * 120}{n}")(ub(64), Tensor("UB"))()
    assert len(capsys.readouterr().out.splitlines()) < 100


def test_a_forked_child_leaves_the_folder_alone(tmp_path: Path) -> None:
    done = run_script(
        """
        import os, sys
        from mskpp import *
        with Chip("Ascend910B1") as chip:
            chip.enable_trace()
            vexp(Tensor("UB", "FP16", [64], is_inited=True), Tensor("UB"))()
            if (child := os.fork()) == 0: sys.exit(0)
            os.waitpid(child, 0)
        print(os.listdir(chip.output_dir))
        """,
        tmp_path,
    )
    assert done.stdout.splitlines()[-1] == "['trace.json']", done.stderr


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        with contextlib.redirect_stdout(None), Chip("Ascend910B1") as chip:
            chip.enable_trace()
            chip.enable_metrics()
            vexp(ub(64), Tensor("UB"))()
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in Path(chip.output_dir).iterdir()}
    assert len(modes) == 4 and set(modes.values()) == {0o600}


def test_numbers_of_thousands_of_digits() -> None:
    huge = 10**5000
    with Chip("Ascend910B1") as chip:
        with pytest.raises(errors.InputError, match="allowed are 0 to 1"):
            chip.set_cache_hit_ratio({"cache_hit_ratio": huge})
        with pytest.raises(errors.SubscriptError):
            ub(4)[huge]

        @RegisterPrefOf("VABS")
        class Huge(PrefModel):
            def time(self) -> int:
                return huge

        with pytest.raises(errors.CountOverflowError):
            vabs(ub(64), Tensor("UB"))()
    with pytest.raises(errors.InputError):
        mskpp.prof_data.MmadData().get(huge)


@pytest.mark.parametrize("name", ["mov.csv", "paths.csv", "vec.csv", "instructions.csv"])
def test_a_link_to_itself_as_a_table(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "Loop"
    folder.mkdir()
    (folder / "chip.csv").write_text("key,value\nbase,Ascend910B1\n")
    (folder / name).symlink_to(name)
    if name == "instructions.csv":  # Python's exists() does not see it
        Chip(folder)
        return
    with pytest.raises(errors.FileError, match=name):
        Chip(folder)


def test_one_broken_chip_hides_no_other(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "Broken"
    folder.mkdir()
    (folder / "chip.csv").write_text('"never ends')
    monkeypatch.setenv("MSKPP_CHIP_PATH", str(tmp_path))
    assert Chip("Ascend910_95").name == "Ascend950PR_9589"
    with pytest.raises(errors.InputError, match="unknown chip"):
        Chip("Ascend42")
    with pytest.raises(errors.DataError, match="a quote that never ends"):
        Chip("Broken")


def test_names_of_folders_need_not_be_unicode(tmp_path: Path, monkeypatch) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/chip.csv", "w") as file:
        file.write("key,value\nbase,Ascend910B1\n")
    monkeypatch.setenv("MSKPP_CHIP_PATH", str(tmp_path))
    assert len(mskpp.chips()) == 48


@pytest.mark.parametrize("figure", ["cube_cores,1e300", "gm_bytes,1e19", "cube_cores,0.3", "mmad_fractal_k.FP16,1e300"])
def test_figures_that_no_chip_has(figure: str, tmp_path: Path) -> None:
    (tmp_path / "chip.csv").write_text(f"key,value\nbase,Ascend910B1\n{figure}\n")
    with pytest.raises(errors.DataError, match="whole number"):
        Chip(tmp_path)


def test_a_chip_here(tmp_path: Path) -> None:
    (tmp_path / "chip.csv").write_text("key,value\nbase,Ascend910B1\n")
    assert Chip(".").name == tmp_path.name
    with pytest.raises(errors.InputError):
        Chip("")


def test_copies_of_an_instruction(tmp_path: Path) -> None:
    assert copy.copy(vadd) is copy.deepcopy(vadd) is pickle.loads(pickle.dumps(vadd)) is vadd


def test_an_array_is_no_number() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(errors.ArgumentError, match="y must be a Tensor or a number"):
        mskpp.vadds(ub(64), numpy.array([1, 2, 3]), Tensor("UB"))


def test_what_infer_shape_may_return() -> None:
    @RegisterOf("VJUNK")
    class Junk:
        pipe = "PIPE-V"

        def infer_shape(self, inputs, outputs, attr) -> list:
            return [1]

    with Chip("Ascend910B1"), pytest.raises(errors.ArgumentError, match="must return nothing, a Tensor or a tuple"):
        mskpp.vjunk(ub(64), Tensor("UB"))()


def test_a_core_inside_a_scope_of_the_same_core() -> None:
    with Chip("Ascend950PR_9589") as chip, mskpp.Core("aiv0"), mskpp.VecScope("s"), mskpp.Core("aiv0"):
        register = Tensor("VEC")
        register.load(ub(128))
    assert list(chip.result.pipes) == ["aiv0-RVECLD0"]


def test_the_pie_page_offers_to_send_nothing(capsys) -> None:
    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        vexp(ub(64), Tensor("UB"))()
    page = Path(chip.output_dir, "instruction_cycle_consumption.html").read_text()
    assert "displayModeBar: false" in page[-2000:]  # the library's button would upload the figures


def test_a_reduced_axis_is_given_back() -> None:
    with Chip("Ascend910B1") as chip:
        x, mean, centred = ub(8, 1024), Tensor("UB"), Tensor("UB")
        vcadd(x, mean, 1024)()
        with pytest.raises(errors.InputError, match=r"y\.size = \[8,1\]"):
            mskpp.vsub(x, mean, centred)()
        mean.size = [8, 1]
        mskpp.vsub(x, mean, centred)()
    vcadd_event, vsub_event = chip.result.events()
    assert vsub_event.start == vcadd_event.end and centred.size == [8, 1024]


def test_a_file_of_the_users_is_not_taken_for_ours() -> None:
    with pytest.raises(errors.FileError, match=r"trace\.json"), Chip("Ascend910B1") as chip:
        chip.enable_trace()
        mine = Path(chip.output_dir, "trace.json")
        mine.write_text("mine")
        vexp(ub(64), Tensor("UB"))()
    assert mine.read_text() == "mine"
