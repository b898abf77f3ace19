# SPDX-License-Identifier: Apache-2.0
"""The backend ``ascend`` on the emulated toolkit. Each test launches in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mskpp.errors import BackendError, LaunchError, UnsafeError
from mskpp.launcher.backend.acl import meaning, toolkit
from mskpp.launcher.backend.ascend import Ascend
from mskpp.launcher.backend.mspti import KernelMonitor, Record, is_of, merged

# Launch code written by hand: what the generated one looks like from outside.
LAUNCH_CODE = """
// mskpp: {"scenario": "kernel", "kernel": "combine"}
#include <mskpp/kernel.h>
#include <cstdint>
#include <stdexcept>
struct Shape { std::int64_t rows; std::int32_t columns; };
// z = x * scale + y; one block a row
__global__ __aicore__ void combine(GM_ADDR x, GM_ADDR y, GM_ADDR z, Shape shape, float scale) {
    const float* a = reinterpret_cast<const float*>(x);
    const float* b = reinterpret_cast<const float*>(y);
    float* c = reinterpret_cast<float*>(z);
    if (scale == -2) throw std::runtime_error("scale is -2");
    if (scale == -3) *reinterpret_cast<volatile int*>(8) = 1;
    if (scale == -4) c[shape.rows * shape.columns] = 1;
    for (std::int64_t row = GetBlockIdx(); row < shape.rows; row += GetBlockNum()) {
        for (int i = 0; i < shape.columns; ++i) {
            const std::int64_t at = row * shape.columns + i;
            c[at] = (a == nullptr ? 0 : a[at]) * scale + b[at];
        }
    }
}
struct Described { std::uint32_t kind, bytes; };
static thread_local const char* text = "";
extern "C" int mskpp_launch(std::uint32_t blockdim, void* l2ctrl, void* stream, void** args, std::uint32_t count) {
    text = "";
    const float scale = *static_cast<float*>(args[4]);
    if (count != 5 || scale == -5) return text = "scale is -5", 7;
    combine<<<blockdim, l2ctrl, stream>>>(*static_cast<GM_ADDR*>(args[0]), *static_cast<GM_ADDR*>(args[1]),
                                          *static_cast<GM_ADDR*>(args[2]), *static_cast<Shape*>(args[3]), scale);
    return 0;
}
extern "C" std::uint32_t mskpp_describe(Described* out, std::uint32_t capacity) {
    const Described all[] = {{1, 8}, {1, 8}, {1, 8}, {6, sizeof(Shape)}, {4, 4}};
    for (std::uint32_t i = 0; i < 5 && i < capacity; ++i) out[i] = all[i];
    return 5;
}
extern "C" const char* mskpp_error() { return text; }
"""
# Takes any number of pointers: an aclTensorList-like block of addresses of two floats each, and the result.
LIST_CODE = """
// mskpp: {"scenario": "kernel", "kernel": "sum_all"}
#include <mskpp/kernel.h>
#include <cstdint>
__global__ __aicore__ void sum_all(GM_ADDR list, GM_ADDR out) {
    const std::uint64_t* block = reinterpret_cast<const std::uint64_t*>(list);
    float* sum = reinterpret_cast<float*>(out);
    for (std::uint64_t i = block[0] / 8; i < 3; ++i) {
        const float* values = reinterpret_cast<const float*>(block[i]);
        sum[0] += values[0];
        sum[1] += values[1];
    }
}
extern "C" int mskpp_launch(std::uint32_t blockdim, void* l2ctrl, void* stream, void** args, std::uint32_t) {
    sum_all<<<blockdim, l2ctrl, stream>>>(*static_cast<GM_ADDR*>(args[0]), *static_cast<GM_ADDR*>(args[1]));
    return 0;
}
extern "C" std::uint32_t mskpp_describe(void*, std::uint32_t) { return 0xffffffff; }
extern "C" const char* mskpp_error() { return ""; }
"""

PRELUDE = """
import ctypes, logging, os, signal, sys, threading, time
from pathlib import Path
import numpy as np
from mskpp.errors import ArgumentError, BackendError, InputError, LaunchError, TimeLimitError
from mskpp.launcher.backend.ascend import Ascend

class Shape(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("columns", ctypes.c_int32)]

def combine():
    return Ascend().load(Path(os.environ["LIBRARY"]), {"kernel": "combine"})

def arrays(rows=4, columns=6):
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    return x, x * 10, np.full_like(x, -1)

def run(library, x, y, z, scale=2.0, **options):
    options.setdefault("blockdim", 3)
    return library.launch([x, y, z, Shape(*y.shape), scale], **options)

def live():
    runtime = ctypes.CDLL(os.environ["ASCEND_HOME_PATH"] + "/lib64/libruntime.so")
    count = runtime.emulated_cann_live_allocations
    return count(0), count(1), runtime.emulated_cann_live_streams()

def caught(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")
"""


def compiled(environment: dict[str, str], folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.cpp").write_text(text)
    command = ["bisheng", "-O1", folder / f"{name}.cpp", "--shared", "-o", folder / f"{name}.so"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / f"{name}.so"


@pytest.fixture(scope="session")
def library(emulated_cann: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(emulated_cann, tmp_path_factory.mktemp("launch"), "combine", LAUNCH_CODE)


Client = Callable[..., str]


@pytest.fixture
def client(emulated_cann: dict[str, str], library: Path, tmp_path: Path) -> Client:
    """client(code, **env): what the code prints; its failure fails the test. The call log is in tmp_path/calls.log.

    LD_LIBRARY_PATH is not set: the backend finds the toolkit by ASCEND_HOME_PATH.
    """

    def run(code: str, **more: str) -> str:
        home = {key: value for key, value in emulated_cann.items() if key != "LD_LIBRARY_PATH"}
        own = {"LIBRARY": str(library), "EMULATED_CANN_LOG": str(tmp_path / "calls.log")}
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
        environment = {**os.environ, **home, **own, **more}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def calls(tmp_path: Path) -> list[str]:
    """The names of the functions that were called, in their order."""
    return [line.split("(")[0] for line in (tmp_path / "calls.log").read_text().splitlines()]


# ---------------------------------------------------------------------------------------------------------- launching


def test_a_launch_computes(client: Client) -> None:
    client("""
    x, y, z = arrays()
    assert run(combine(), x, y, z) == []
    np.testing.assert_array_equal(z, x * 2 + y)
    assert live() == (0, 0, 0)
    """)


def test_results_land_in_the_callers_memory_whatever_its_strides(client: Client) -> None:
    client("""
    library = combine()
    x, y, _ = arrays()
    for z in (np.zeros((6, 4), np.float32).T, np.zeros((8, 12), np.float32)[::2, ::2],
              np.zeros((4, 6), np.float32)[::-1, ::-1], np.zeros((4, 6), np.float32, order="F")):
        run(library, np.asfortranarray(x), y[:, :], z)
        np.testing.assert_array_equal(z, x * 2 + y)
    x.flags.writeable = False
    z = (ctypes.c_float * 24)()
    run(library, x, y, z)
    np.testing.assert_array_equal(np.array(z).reshape(4, 6), x * 2 + y)
    """)


def test_one_array_given_twice_is_one_buffer(client: Client, tmp_path: Path) -> None:
    client("""
    x, y, _ = arrays()
    expected = x * 3 + x
    run(combine(), x, x, x, 3.0)
    np.testing.assert_array_equal(x, expected)
    """)
    assert calls(tmp_path).count("aclrtMalloc") == 1


def test_null_and_addresses_are_passed_on(client: Client) -> None:
    client("""
    library = combine()
    _, y, z = arrays()
    run(library, None, y, z)
    np.testing.assert_array_equal(z, y)
    assert "is given" not in caught(ArgumentError, run, library, "text", y, z)
    assert "4 arguments are given, the kernel takes 5" in caught(ArgumentError, library.launch, [y] * 4, blockdim=1)
    run(library, np.zeros((0,), np.float32), y, z)                # nothing to copy: null
    """)


def test_a_list_is_a_block_of_addresses(
    client: Client, emulated_cann: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("list")
    client("""
    library = Ascend().load(Path(os.environ["LIBRARY"]), {"kernel": "sum_all"})
    out = np.zeros(2, np.float32)
    library.launch([[np.float32([1, 2]), np.float32([30, 40])], out], blockdim=1)
    assert list(out) == [31, 42] and live() == (0, 0, 0)
    """, LIBRARY=str(compiled(emulated_cann, folder, "list", LIST_CODE)))  # fmt: skip


def test_the_calls_of_a_launch_come_in_order(client: Client, tmp_path: Path) -> None:
    client("""
    library = combine()
    for _ in range(2):
        run(library, *arrays(), repeat=2)
    """)
    names = [name for name in calls(tmp_path) if name not in ("aclrtGetDevice", "aclrtGetDeviceCount")]
    begin = names.index("aclrtCreateStream")
    assert names[:begin] == ["aclInit", "aclrtSetDevice"]
    assert names[begin : begin + 8] == ["aclrtCreateStream", *["aclrtMalloc", "aclrtMemcpy"] * 3, "<<<>>>"]
    launch = names[begin : names.index("aclrtDestroyStream")]
    assert launch.count("<<<>>>") == launch.count("aclrtSynchronizeStreamWithTimeout") == 2
    assert launch[-3:] == ["aclrtMemcpy"] * 3
    end = names.index("aclrtDestroyStream")
    assert names[end : end + 4] == ["aclrtDestroyStream", "aclrtFree", "aclrtFree", "aclrtFree"]
    assert names.count("aclInit") == 1 and "aclFinalize" not in names and "aclrtResetDevice" not in names


def test_threads_launch_at_once(client: Client) -> None:
    client("""
    library = combine()
    failures = []
    def work(scale):
        try:
            for _ in range(10):
                x, y, z = arrays(8, 100)
                run(library, x, y, z, scale)
                np.testing.assert_array_equal(z, x * scale + y)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failures, failures
    assert live() == (0, 0, 0)
    """)


# ----------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("aclrtSetDevice:1=107001", "combine: aclrtSetDevice(0) failed with 107001 (no such device)"),
        ("aclrtCreateStream:1=507899", "combine: aclrtCreateStream failed with 507899"),
        ("aclrtMalloc:1=200000", "combine: aclrtMalloc of 96 bytes failed with 200000 (out of memory)"),
        ("aclrtMalloc:3=200000", "combine: aclrtMalloc of 96 bytes failed with 200000 (out of memory)"),
        ("aclrtMemcpy:2=107000", "aclrtMemcpy of 96 bytes to the device failed with 107000 (invalid parameter)"),
        ("<<<>>>:1=107000", "combine: the launch failed: "),
        ("aclrtSynchronizeStreamWithTimeout:1=507015", "failed with 507015 (the kernel failed on the AI core)"),
        ("aclrtMemcpy:5=107000", "aclrtMemcpy of 96 bytes to the host failed with 107000"),
        ("aclrtDestroyStream:1=107017", "aclrtDestroyStream failed with 107017 (invalid handle)"),
        ("aclrtFree:2=507899", "aclrtFree failed with 507899"),
    ],
)
def test_a_call_that_fails_is_told_and_leaves_nothing(client: Client, fault: str, text: str) -> None:
    out = client("""
    library = combine()
    x, y, z = arrays()
    print(caught(LaunchError, run, library, x, y, z))
    os.environ["EMULATED_CANN_FAIL"] = ""
    assert (z == -1).all()                       # nothing half done
    print("live", live())
    run(library, x, y, z)                        # and the next launch works
    np.testing.assert_array_equal(z, x * 2 + y)
    """, EMULATED_CANN_FAIL=fault)  # fmt: skip
    assert text in out and f"{fault.split(':')[0]} was told to fail" in out
    kept = {"aclrtFree": "(1, 0, 0)", "aclrtDestroyStream": "(0, 0, 1)"}.get(fault.split(":")[0], "(0, 0, 0)")
    assert f"live {kept}" in out


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (-2, "kernel combine: block 0 threw: scale is -2"),
        (-3, "kernel combine: block 0 crashed with signal 11"),
        (-4, "byte 96 of an allocation of 96 bytes"),
        (-5, "combine: the launch failed with 7: scale is -5"),
    ],
)
def test_a_kernel_that_fails_names_its_block(client: Client, scale: int, text: str) -> None:
    out = client(f"""
    library = combine()
    x, y, z = arrays()
    print(caught(LaunchError, run, library, x, y, z, {scale}))
    assert (z == -1).all()
    assert live() == (0, 0, 0)
    run(library, x, y, z)
    """)
    assert text in out


@pytest.mark.parametrize("code", ["107019", "507046"])
def test_a_time_out_ends_the_launch(client: Client, code: str) -> None:
    out = client("""
    library = combine()
    began = time.monotonic()
    print(caught(TimeLimitError, run, library, *arrays(), timeout_ms=50))
    assert time.monotonic() - began < 5 and live() == (0, 0, 0)
    os.environ["EMULATED_CANN_HANG"] = ""
    x, y, z = arrays()
    run(library, x, y, z, timeout_ms=-1)
    np.testing.assert_array_equal(z, x * 2 + y)
    """, EMULATED_CANN_HANG="combine", EMULATED_CANN_TIMEOUT_CODE=code)  # fmt: skip
    assert "combine: the launch did not end within 50 ms; give a longer timeout=" in out


def test_a_time_out_in_another_thread_too(client: Client) -> None:
    client("""
    library = combine()
    found = []
    thread = threading.Thread(
        target=lambda: found.append(caught(TimeLimitError, run, library, *arrays(), timeout_ms=50)))
    thread.start(), thread.join()
    assert "did not end within 50 ms" in found[0] and live() == (0, 0, 0)
    """, EMULATED_CANN_HANG="combine")  # fmt: skip


def test_an_interrupt_ends_the_launch_at_once(emulated_cann: dict[str, str], library: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls.log"
    code = PRELUDE + textwrap.dedent("""
    library = combine()
    x, y, z = arrays()
    try:
        run(library, x, y, z, timeout_ms=-1)
    except KeyboardInterrupt:
        print("interrupted", live(), (z == -1).all(), flush=True)
    """)
    environment = {**os.environ, **emulated_cann, "LIBRARY": str(library), "EMULATED_CANN_LOG": str(log)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, env={**environment, "EMULATED_CANN_HANG": "combine"}, stdout=subprocess.PIPE, text=True
    ) as child:
        deadline = time.monotonic() + 60
        while not log.exists() or "<<<>>>" not in log.read_text():
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.02)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
        assert time.monotonic() - began < 3
    assert out.strip() == "interrupted (0, 0, 0) True"


def test_interrupts_at_any_moment_leave_nothing(client: Client) -> None:
    out = client("""
    import random
    def interrupt(*arguments):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    library, moments, hits = combine(), random.Random(7), 0
    x, y, z = arrays()
    for _ in range(300):
        try:
            signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-4, 2e-3))
            for _ in range(100):
                run(library, x, y, z)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        deadline = time.monotonic() + 5
        while live() != (0, 0, 0):
            assert time.monotonic() < deadline, live()
            time.sleep(0.001)
    run(library, x, y, z)
    np.testing.assert_array_equal(z, x * 2 + y)
    print(hits)
    """)
    assert int(out.splitlines()[0]) > 200  # some hit Python where it can only print them


# ------------------------------------------------------------------------------------------------- devices and streams


def test_devices_are_chosen_and_given_back(client: Client, tmp_path: Path) -> None:
    client("""
    library = combine()
    runtime = Ascend().runtime()
    run(library, *arrays(), device_id=1)
    assert runtime.current_device() is None        # the launch has its own thread
    runtime.set_device(1, "test")
    run(library, *arrays())                        # the current one
    run(library, *arrays(), device_id=0)
    assert runtime.current_device() == 1
    message = caught(InputError, run, library, *arrays(), device_id=2)
    assert message == "combine: device_id is 2; allowed are 0 to 1", message
    assert live() == (0, 0, 0)
    """, EMULATED_CANN_DEVICES="2")  # fmt: skip
    ran = [line.split(" stream")[0] for line in (tmp_path / "calls.log").read_text().splitlines() if "# kernel" in line]
    assert [line[-1] for line in ran] == ["1", "1", "0"]


def test_a_given_stream_is_used_and_kept(client: Client, tmp_path: Path) -> None:
    client("""
    library = combine()
    runtime = Ascend().runtime()
    runtime.set_device(0, "test")
    stream = runtime.create_stream("test")
    for handle in (stream, 0):               # 0 is the default stream of the device
        x, y, z = arrays()
        run(library, x, y, z, stream=handle)
        np.testing.assert_array_equal(z, x * 2 + y)
    assert live() == (0, 0, 1)
    assert "combine: the launch failed: " in caught(LaunchError, run, library, *arrays(), stream=8)
    runtime.destroy_stream(stream, "test")
    assert live() == (0, 0, 0)
    """)
    assert calls(tmp_path).count("aclrtCreateStream") == calls(tmp_path).count("aclrtDestroyStream") == 1


def test_memory_stays_while_a_given_stream_may_use_it(client: Client) -> None:
    out = client("""
    library = combine()
    runtime = Ascend().runtime()
    runtime.set_device(0, "test")
    stream = runtime.create_stream("test")
    caught(TimeLimitError, run, library, *arrays(), stream=stream, timeout_ms=50)
    assert live() == (3, 0, 1)
    """, EMULATED_CANN_HANG="combine")  # fmt: skip
    assert "combine: 288 bytes stay on device 0: the stream that was given may still use them" in out


# --------------------------------------------------------------------------------------------------- what is not there


def test_a_missing_toolkit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with pytest.raises(BackendError, match=r"no toolkit: ASCEND_HOME_PATH is not set; .*MSKPP_BACKEND=host"):
        Ascend()
    assert not Ascend.available()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(BackendError, match=r"ASCEND_HOME_PATH is .*/nowhere, which is no folder"):
        toolkit()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match=r"libascendcl.so is not in .*/lib64"):
        Ascend().runtime()
    with pytest.raises(BackendError, match=r"no compiler: bisheng is not in .*/bin, .* and not on PATH"):
        Ascend().identity()
    with Ascend().script_environment() as environment:  # a script may know better
        assert environment["PATH"].startswith(f"{tmp_path}/bin:")
    (tmp_path / "lib64").mkdir()
    broken = tmp_path / "lib64" / "libascendcl.so"
    broken.write_text("no library")
    with pytest.raises(BackendError, match=r"libascendcl.so cannot be loaded: .*is the driver installed"):
        Ascend().runtime()
    broken.chmod(0o666)
    with pytest.raises(UnsafeError, match=r"libascendcl.so is refused"):
        Ascend().runtime()
    assert not Ascend.available()


def test_a_library_without_a_function_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib64").mkdir()
    (tmp_path / "a.c").write_text("int aclInit(const char* path) { return 0; }")
    library = tmp_path / "lib64" / "libascendcl.so"
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "a.c", "-o", library], check=True)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    with pytest.raises(BackendError, match=r"libascendcl.so has no function aclGetRecentErrMsg; use another version"):
        Ascend().runtime()


def test_a_missing_device_is_told(client: Client) -> None:
    out = client("""
    assert not Ascend.available()
    print(caught(BackendError, run, combine(), *arrays()))
    """, EMULATED_CANN_DEVICES="0")  # fmt: skip
    assert "no device: AscendCL finds 0; `npu-smi info` lists those" in out
    out = client("print(caught(BackendError, Ascend().runtime))", EMULATED_CANN_FAIL="aclInit:1=507899")
    assert "backend ascend: aclInit failed with 507899: " in out


def test_a_file_that_is_no_launch_code_is_told(client: Client, emulated_cann: dict[str, str], tmp_path: Path) -> None:
    home = Path(emulated_cann["ASCEND_HOME_PATH"])
    out = client("""
    print(caught(LaunchError, run, combine(), *arrays()))
    library = Ascend().load(Path("nowhere.so"), {"kernel": "combine"})
    print(caught(LaunchError, run, library, *arrays()))
    assert live() == (0, 0, 0)
    """, LIBRARY=str(home / "lib64" / "libgraph.so"))  # fmt: skip
    assert "libgraph.so is no launch code of mskpp" in out and "nowhere.so cannot be loaded" in out


def test_codes_have_a_meaning() -> None:
    assert meaning(107017) == "107017 (invalid handle)" and meaning(-3) == "-3"


# ----------------------------------------------------------------------------------------------------------- compiling


@pytest.mark.parametrize(
    ("chip", "architecture", "documented"),
    [("Ascend910B3", "dav-c220", True), ("Ascend910_9362", "dav-c220", True), ("Ascend950DT_9571", "dav-c310", False)],
)
def test_the_device_decides_the_architecture(client: Client, chip: str, architecture: str, documented: bool) -> None:
    out = client("""
    import json
    print(json.dumps(Ascend().compile_command(Path("a.cpp"), Path("a.so"), ["-DX=1"], shared=True)))
    """, EMULATED_CANN_SOC=chip)  # fmt: skip
    command = json.loads(out)
    assert command[0].endswith("/bin/bisheng") and f"--cce-aicore-arch={architecture}" in command
    assert "--shared" in command and "-DX=1" in command and command[-2:] == ["-o", "a.so"]
    assert ("-cce-aicore-addr-transform" in command) == documented


def test_an_option_decides_the_architecture_without_a_device(client: Client) -> None:
    out = client("""
    import json
    option = "--cce-aicore-arch=dav-c220"
    print(json.dumps(Ascend().compile_command(Path("a.cpp"), Path("a"), [option], shared=False)))
    print(caught(BackendError, Ascend().compile_command, Path("a.cpp"), Path("a"), [], shared=False))
    """, EMULATED_CANN_DEVICES="0")  # fmt: skip
    first, second = out.splitlines()[:2]
    assert json.loads(first).count("--cce-aicore-arch=dav-c220") == 1 and "--shared" not in first
    assert "no device" in second and "give options=['--cce-aicore-arch=...'] or a build_script" in second
    out = client("""
    print(caught(BackendError, Ascend().compile_command, Path("a.cpp"), Path("a"), [], shared=False))
    """, EMULATED_CANN_SOC="Ascend9000")  # fmt: skip
    assert "architecture of the chip 'Ascend9000' is not known; give options=" in out


def test_identity_names_compiler_and_toolkit(emulated_cann: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in emulated_cann.items():
        monkeypatch.setenv(name, value)
    identity = Ascend().identity()
    assert emulated_cann["ASCEND_HOME_PATH"] in identity and "bisheng of the emulated toolkit, version 1.0" in identity
    with Ascend().script_environment() as environment:
        assert environment["PATH"].startswith(f"{emulated_cann['ASCEND_HOME_PATH']}/bin:")


KERNEL = """
#include <mskpp/kernel.h>
template <int Each>
__global__ __aicore__ void shift(GM_ADDR data, float by, int count) {
    float* x = reinterpret_cast<float*>(data);
    for (int i = GetBlockIdx() * Each; i < count && i < (GetBlockIdx() + 1) * Each; ++i) x[i] += by;
}
"""
BY_API = """
import os, numpy as np, mskpp
def get_kernel():
    config = mskpp.KernelInvokeConfig("shift.cpp", "shift")
    launcher = mskpp.Launcher(config, template_param=[8])
    return mskpp.compile(os.environ.get("SCRIPT"), launcher.code_gen("launch.cpp"), "launch.so", backend="ascend")
def shift(data, by, count):
    get_kernel()[4](data, by, count)
data = np.arange(30, dtype=np.float32)
shift(data, 1.5, 30)
np.testing.assert_array_equal(data, np.arange(30) + np.float32(1.5))
print("fine")
"""


@pytest.mark.parametrize("script", [None, 'bisheng -O2 -xcce --cce-aicore-arch=dav-c220 "$1" --shared -fPIC -o "$2"'])
def test_the_interface_runs_on_the_backend(emulated_cann: dict[str, str], tmp_path: Path, script: str | None) -> None:
    (tmp_path / "shift.cpp").write_text(KERNEL)
    more = {"EMULATED_CANN_LOG": str(tmp_path / "calls.log")}
    if script is not None:
        (tmp_path / "build.sh").write_text(script)
        more["SCRIPT"] = "build.sh"
    home = {"ASCEND_HOME_PATH": emulated_cann["ASCEND_HOME_PATH"]}  # neither PATH nor LD_LIBRARY_PATH
    command = [sys.executable, "-c", BY_API]
    done = subprocess.run(command, env={**os.environ, **home, **more}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fine" in done.stdout and "# kernel shift ran 4 blocks" in (tmp_path / "calls.log").read_text()


BINARY = """
#include <mskpp/kernel.h>
#include <cstdint>
extern "C" __global__ __aicore__ void add_custom_3(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    const std::int32_t each = *reinterpret_cast<std::int32_t*>(tiling);
    for (std::int64_t i = GetBlockIdx() * each; i < (GetBlockIdx() + 1) * each; ++i) {
        reinterpret_cast<float*>(z)[i] = reinterpret_cast<float*>(x)[i] + reinterpret_cast<float*>(y)[i];
    }
    reinterpret_cast<std::uint8_t*>(workspace)[GetBlockIdx()] = GetBlockNum();
}
"""
BY_BINARY = """
import os, numpy as np
from mskpp.errors import LaunchError
from mskpp.launcher.opgen_workflow import get_kernel_from_binary
os.environ["MSKPP_BACKEND"] = "ascend"
x, y = np.arange(32, dtype=np.float32), np.ones(32, np.float32)
def add(kind, key=3):
    z, workspace = np.zeros(32, np.float32), np.zeros(4, np.uint8)
    kernel = get_kernel_from_binary("add.o", kind, key)
    kernel[4](x, y, z, workspace, np.array([8], np.int32))
    np.testing.assert_array_equal(z, x + y)
    assert list(workspace) == [4] * 4
"""


def by_binary(environment: dict[str, str], folder: Path, code: str, suffix: str = "") -> str:
    (folder / "add.cpp").write_text(BINARY.replace("add_custom_3", f"add_custom_3{suffix}"))
    command = ["bisheng", "-shared", "-xcce", "--cce-aicore-arch=dav-c220", "add.cpp", "-o", "add.o"]
    environment = {**os.environ, **environment, "EMULATED_CANN_LOG": str(folder / "calls.log")}
    subprocess.run(command, check=True, cwd=folder, env=environment)
    del environment["LD_LIBRARY_PATH"]
    command = [sys.executable, "-c", BY_BINARY + textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_binary_runs_through_the_runtime(emulated_cann: dict[str, str], tmp_path: Path) -> None:
    by_binary(emulated_cann, tmp_path, "add('vec'), add(None)")
    assert calls(tmp_path).count("rtKernelLaunchWithHandleV2") == 2 and "rtGetC2cCtrlAddr" not in calls(tmp_path)
    assert "# kernel add_custom_3 ran 4 blocks" in (tmp_path / "calls.log").read_text()


def test_a_mixed_binary_gets_the_address_of_the_shared_flags(emulated_cann: dict[str, str], tmp_path: Path) -> None:
    out = by_binary(
        emulated_cann,
        tmp_path,
        """
        add("mix"), add(None)
        try:
            add("vec")
        except LaunchError as error:
            print(error)
        """,
        "_mix_aic",
    )
    assert calls(tmp_path).count("rtGetC2cCtrlAddr") == 2
    assert "rtRegisterAllKernel returned 107000" in out and "its magic says vector" in out


def test_a_binary_runs_through_acl(emulated_cann_acl_only: dict[str, str], tmp_path: Path) -> None:
    out = by_binary(
        emulated_cann_acl_only,
        tmp_path,
        """
        add("vec")
        try:
            add("vec", 4)
        except LaunchError as error:
            print(error)
        """,
    )
    assert calls(tmp_path).count("aclrtLaunchKernelWithConfig") == 1
    assert "aclrtBinaryGetFunctionByEntry returned 107000" in out


# -------------------------------------------------------------------------------------------------------------- timing

TIMED = """
library = combine()
with library.timing():
    run(library, *arrays())
    print(run(library, *arrays(), repeat=3))
assert run(library, *arrays()) == []
with library.timing():
    print(run(library, *arrays(), repeat=2))
"""


def test_times_come_from_the_profiler(client: Client) -> None:
    assert client(TIMED, EMULATED_CANN_KERNEL_NS="combine:15000").split("\n")[:2] == [
        "[15000, 15000, 15000]",
        "[15000, 15000]",
    ]
    real = json.loads(client(TIMED).splitlines()[0])
    assert len(real) == 3 and all(0 < ns < 10**10 for ns in real)


def test_records_may_come_in_any_order(client: Client) -> None:
    out = client(TIMED, EMULATED_CANN_RECORDS="reversed", EMULATED_CANN_KERNEL_NS="combine:7")
    assert out.splitlines()[0] == "[7, 7, 7]"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"EMULATED_CANN_RECORDS": "drop:1"}, "combine: the profiler has 1 records of combine for 2 launches"),
        ({"EMULATED_CANN_KERNEL_NS": "combine:0"}, "the profiler collected no time of combine (start 0, end 0 ns)"),
        ({"EMULATED_CANN_FAIL": "msptiSubscribe:1=2"}, "failed with 2 (another profiler is at work in this process)"),
        (
            {"EMULATED_CANN_FAIL": "msptiActivityFlushAll:2=999"},
            "msptiActivityFlushAll failed with 999 (internal error)",
        ),
    ],
)
def test_missing_times_are_told(client: Client, more: dict[str, str], text: str) -> None:
    out = client("""
    library = combine()
    def timed():
        with library.timing():
            run(library, *arrays(), repeat=2)
    print(caught(LaunchError, timed))
    assert live() == (0, 0, 0)
    """, **more)  # fmt: skip
    assert text in out


MEASURED = """
from mskpp.launcher.backend import ascend
ascend.FLUSHED_BYTES = 1 << 20
x, y, z = arrays()
def measure(**options):
    return combine().measure([x, y, z, Shape(4, 6), 2.0], blockdim=3, **options)
"""


def test_the_cache_is_emptied_before_each_launch_that_counts(client: Client, tmp_path: Path) -> None:
    out = client(
        f"{MEASURED}\nprint(measure(warmup_us=1000, repeat=3, flush_cache=True))\n"
        "assert live() == (0, 0, 0) and (z == -1).all()",
        EMULATED_CANN_KERNEL_NS="combine:400000",
        EMULATED_CANN_RECORDS="memset",  # are not taken for the kernel's
    )
    assert out.splitlines()[0] == "[400000, 400000, 400000]"
    log = (tmp_path / "calls.log").read_text().splitlines()
    steps = [line for line in log if line.startswith(("aclrtMemset", "# kernel combine"))]
    assert [line[:5] for line in steps] == ["# ker"] * 4 + ["aclrt", "# ker"] * 3
    assert all(line.endswith(", 1048576, 0, 1048576) = 0") for line in steps if line.startswith("aclrt"))
    # All is as it was, and in that order: the arguments are restored, the cache is emptied, the kernel runs.
    last = [line.split("(")[0] for line in log[log.index(steps[-2]) - 3 :]]
    assert last[:5] == ["aclrtMemcpy"] * 3 + ["aclrtMemset", "msptiActivityFlushAll"]
    assert sum(line.startswith("aclrtMalloc(1048576,") for line in log) == 1


def test_without_flushing_there_is_no_flush(client: Client, tmp_path: Path) -> None:
    out = client(f"{MEASURED}\nprint(measure(repeat=2))", EMULATED_CANN_KERNEL_NS="combine:7")
    assert out.splitlines()[0] == "[7, 7]"
    assert "aclrtMemset" not in calls(tmp_path)
    assert calls(tmp_path).count("<<<>>>") == 3  # one warms up


def test_each_measured_launch_starts_on_the_memory_as_it_was(
    client: Client, emulated_cann: dict[str, str], tmp_path: Path
) -> None:
    """sum_all() adds to what is there, and fails here when that is not what was given."""
    again = 'if (sum[0] != 0) throw std::runtime_error("it is not as it was");'
    text = LIST_CODE.replace("    for (", f"    {again}\n    for (").replace("<cstdint>", "<stdexcept>")
    library = compiled(emulated_cann, tmp_path, "anew", text)
    client(f"""
    library = Ascend().load(Path({str(library)!r}), {{"kernel": "sum_all"}})
    parts, out = [np.ones(2, np.float32), np.ones(2, np.float32)], np.zeros(2, np.float32)
    assert len(library.measure([parts, out], blockdim=1, repeat=3, warmup_us=1)) == 3 and not out.any()
    library.launch([parts, out], blockdim=1)
    assert out.tolist() == [2, 2]
    assert "block 0 threw: it is not as it was" in caught(LaunchError, library.launch, [parts, out], blockdim=1)
    """)


def test_memory_that_is_not_there_for_emptying_the_cache_is_told(client: Client) -> None:
    out = client(f"""{MEASURED}
print(caught(LaunchError, measure, flush_cache=True))
assert live() == (0, 0, 0)
""", EMULATED_CANN_MEMORY="600000")  # fmt: skip
    assert "combine: aclrtMalloc of 1,048,576 bytes failed with 200000 (out of memory)" in out
    assert "flush_cache needs as much on device 0" in out and "or measure without flush_cache" in out


def test_a_toolkit_that_cannot_empty_the_cache_is_told(client: Client) -> None:
    out = client(f"""{MEASURED}
from mskpp.launcher.backend.acl import AscendCL
whole = AscendCL._optional
AscendCL._optional = lambda self, name, *types: None if name == "aclrtMemset" else whole(self, name, *types)
print(caught(BackendError, measure, flush_cache=True))
assert len(measure(repeat=2)) == 2
""")  # fmt: skip
    assert (
        "combine: " in out and "libascendcl.so has no function aclrtMemset; use another version of the toolkit" in out
    )


def test_the_device_has_a_name(client: Client, tmp_path: Path) -> None:
    out = client("""
    print(Ascend().device_name())
    print(caught(InputError, Ascend().device_name, 2))
    """, EMULATED_CANN_SOC="Ascend910_9392", EMULATED_CANN_DEVICES="2")  # fmt: skip
    assert out.splitlines() == ["Ascend910_9392", "backend ascend: device_id is 2; allowed are 0 to 1"]
    assert "aclrtSetDevice" not in calls(tmp_path)


@pytest.mark.parametrize("function", ["aclrtResetDeviceForce", "aclrtResetDevice"])
def test_a_device_is_reset(client: Client, tmp_path: Path, function: str) -> None:
    out = client(f"""
    from mskpp.launcher.backend.acl import AscendCL
    whole = AscendCL._optional
    missing = "aclrtResetDeviceForce" if {function!r} == "aclrtResetDevice" else ""  # in an older toolkit
    AscendCL._optional = lambda self, name, *types: None if name == missing else whole(self, name, *types)
    print(caught(LaunchError, Ascend().renew_device, 0))
    Ascend().renew_device(0)
    run(combine(), *arrays())
    """, EMULATED_CANN_FAIL=f"{function}:1=507899")  # fmt: skip
    assert f"backend ascend: {function}(0) failed with 507899: emulated toolkit: " in out
    assert calls(tmp_path).count(function) == 2


def test_a_profiler_that_comes_too_late_is_told_and_preloading_cures_it(
    client: Client, emulated_cann: dict[str, str]
) -> None:
    home = Path(emulated_cann["ASCEND_HOME_PATH"])
    early = f'ctypes.CDLL("{home}/lib64/libascendcl.so").aclInit(None)'
    library = home / "lib64" / "libmspti.so"
    out = client(f"{early}\ndef timed():\n  {TIMED.strip().replace(chr(10), chr(10) + '  ')}\n"
                 "print(caught(LaunchError, timed))")  # fmt: skip
    assert "has 0 records of combine for 1 launches" in out and "LD_PRELOAD=$ASCEND_HOME_PATH/lib64/libmspti.so" in out
    client(f"{early}\n{TIMED}", LD_PRELOAD=str(library))


def test_kernels_are_told_apart_by_name() -> None:
    for name in ("vadd", "vadd_0", "vadd_12_mix_aic", "vadd_mix_aiv", "vadd_402e355eb717124771cfc7dbebfe946c_7",
                 "_Z4vaddPhS_S_", "_ZN3app4vaddIiEEvPh"):  # fmt: skip
        assert is_of("vadd", name), name
    for name in ("vadd2", "my_vadd", "vadd_custom", "_Z5vadd2Ph", "_Z14vaddPh", "VADD", ""):
        assert not is_of("vadd", name), name


def test_halves_of_a_kernel_are_one_record() -> None:
    records = [
        Record("b", 50, 60, 0, 1, 9),
        Record("a_mix_aic", 10, 20, 0, 1, 7),
        Record("a_mix_aiv", 12, 25, 0, 1, 7),
    ]
    assert [(r.start, r.end, r.correlation) for r in merged(records)] == [(10, 25, 7), (50, 60, 9)]


def test_a_launch_of_several_kernels_takes_the_time_of_all(
    emulated_cann: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = KernelMonitor(Path(emulated_cann["ASCEND_HOME_PATH"]), "tuning")
    records = [Record("k", 100 * i, 100 * i + i + 1, 0, 1, i) for i in range(6)]
    monkeypatch.setattr(monitor, "_flush", lambda: records[::-1])
    assert monitor.times("k", 2) == [1 + 2 + 3, 4 + 5 + 6]
    with pytest.raises(LaunchError, match="tuning: the profiler has 6 records of k for 4 launches"):
        monitor.times("k", 4)
    with pytest.raises(LaunchError, match="has 0 records of j for 1 launches; others: k"):
        monkeypatch.setattr("mskpp.launcher.backend.mspti.WAIT_SECONDS", 0.0)
        monitor.times("j", 1)
