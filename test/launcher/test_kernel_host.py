# SPDX-License-Identifier: Apache-2.0
"""Kernels on the CPU: values arrive, results come back, failing blocks are named, and nothing is left of anything."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from utils.kernels import FAST, Tensor, build, python, running, wait_until, write

from mskpp.errors import ArgumentError, FileError, InputError, LaunchError, StateError, TimeLimitError, UnsafeError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile
from mskpp.launcher.backend import host, host_worker

SOURCE = r"""
#include <unistd.h>
#include <csignal>
struct Shape { uint32_t m; int64_t n; float scale[3]; };
enum class Kind : int8_t { minus = -3, plus = 3 };
using Number = half;

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, half scale) {
    auto *a = (__gm__ float*)x, *b = (__gm__ float*)y, *c = (__gm__ float*)z;
    for (uint32_t i = GetBlockIdx(); i < n; i += GetBlockNum()) c[i] = a[i] + b[i] * (float)scale;
}

__global__ __aicore__ void blocks(int64_t* index, int64_t* count) {
    __atomic_fetch_add(index + AscendC::GetBlockIdx(), 1 + GetBlockIdx(), __ATOMIC_RELAXED);
    count[GetBlockIdx()] = GetBlockNum();
}

// Each argument's bytes, one after the other.
template <class T>
void store(uint8_t*& to, T value) { memcpy(to, &value, sizeof value); to += sizeof value; }

__global__ __aicore__ void scalars(GM_ADDR out, bool a, char b, int8_t c, uint8_t d, int16_t e, uint16_t f, int32_t g,
                                   uint32_t h, int64_t i, uint64_t j, size_t k, half l, bfloat16_t m, float n, double o,
                                   Kind p, const Number q, const Shape& r, long long s) {
    store(out, a); store(out, b); store(out, c); store(out, d); store(out, e); store(out, f); store(out, g);
    store(out, h); store(out, i); store(out, j); store(out, k); store(out, l); store(out, m); store(out, n);
    store(out, o); store(out, p); store(out, q); store(out, r); store(out, s);
}

__global__ __aicore__ void memory(int32_t* a, const int32_t* b, int32_t** list, int64_t n) {
    if (a == nullptr) return;
    for (int64_t i = 0; i < n; ++i) a[i] = b == nullptr ? -a[i] : a[i] + b[i];
    if (list != nullptr && *(int64_t*)list == 8)
        for (int64_t i = 0; list[1 + i] != a; ++i) if (list[1 + i]) list[1 + i][0] += 100;
}

int64_t overflow(volatile int64_t depth) {
    volatile char room[4096];
    room[0] = (char)depth;
    return overflow(depth + 1) + room[0];
}

__global__ __aicore__ void fail(GM_ADDR x, int how, int64_t block) {
    if (GetBlockIdx() != block) return;
    volatile int zero = 0;
    if (how == 0) *(volatile int*)8 = 1;
    if (how == 1) zero = 7 / zero;
    if (how == 2) abort();
    if (how == 3) x[0] = (uint8_t)overflow(1);
    if (how == 4) _exit(3);
    if (how == 5) exit(4);
    if (how == 6) for (;;) zero = 1;
    if (how == 7) throw std::runtime_error("the text of it");
    if (how == 8) throw 5;
    if (how == 9) x[4096] = 1;
    if (how == 10) x[-4096] = 1;
    if (how == 11) raise(SIGKILL);
    if (how == 12) __builtin_trap();
    if (how == 13) std::terminate();
    if (how == 14) usleep(300000);
    x[0] = 9;
}

__global__ __aicore__ void print(int64_t n) { printf("block %ld of %ld: %ld\n", GetBlockIdx(), GetBlockNum(), n); }
"""

Load = Callable[[str], CompiledKernel]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledKernel]:
    return {"folder": tmp_path_factory.mktemp("kernels")}  # type: ignore[dict-item]


@pytest.fixture
def kernel(libraries: dict[str, Any]) -> Load:
    """A kernel of SOURCE, compiled once."""

    def get(name: str) -> CompiledKernel:
        if name not in libraries:
            source = libraries["folder"] / "kernels.cpp"
            if not source.exists():
                write(source, SOURCE)
            libraries[name] = build(source, name)
        return libraries[name]

    return get


# ------------------------------------------------------------------------------------------------------------- values


def test_vector_add_of_arrays_of_any_stride(kernel: Load) -> None:
    x = numpy.arange(1000, dtype=numpy.float32)
    y = numpy.ones(2000, numpy.float32)[::-2]
    z = numpy.zeros((1000, 3), numpy.float32)
    for scale in (2.0, numpy.float16(2), 2, ctypes.c_float(2)):
        z[...] = 5
        kernel("add")[8](x, y, z[:, 1], 1000, scale)
        numpy.testing.assert_array_equal(z[:, 1], x + 2)
        assert (z[:, [0, 2]] == 5).all() and (x == numpy.arange(1000)).all()


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_every_block_runs_once_with_its_index(kernel: Load, count: int) -> None:
    index, number = numpy.zeros(count, numpy.int64), numpy.zeros(count, numpy.int64)
    kernel("blocks")[count](index, number)
    assert (index == 1 + numpy.arange(count)).all() and (number == count).all()
    kernel("blocks").launch(index, number, blockdim=numpy.int64(count), repeat=3)
    assert (index == 4 * (1 + numpy.arange(count))).all()


class Shape(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_int64), ("scale", ctypes.c_float * 3)]


LIMITS = [
    (False, -128, -128, 0, -(1 << 15), 0, -(1 << 31), 0, -(1 << 63), 0, 0, -1.5, -2.0, -1e-3, -1e300, -3, -0.5,
     Shape(0, -1, (1, 2, 3)), -(1 << 63)),
    (True, 127, 127, 255, (1 << 15) - 1, (1 << 16) - 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1,
     (1 << 64) - 1, 65504.0, 3.0, 1e30, 1e-300, 3, 0.25, Shape((1 << 32) - 1, 1 << 62, (0, -1, 1e9)), (1 << 63) - 1),
]  # fmt: skip


def stored(values: tuple[Any, ...]) -> bytes:
    """What the kernel scalars leaves of them."""
    *numbers, shape, last = values
    numbers[12] = struct.unpack("<H", struct.pack("<f", numbers[12])[2:])[0]
    return struct.pack("<?bbBhHiIqQQeHfdbe", *numbers) + bytes(shape) + struct.pack("<q", last)


@pytest.mark.parametrize("values", LIMITS, ids=["lowest", "highest"])
def test_scalars_of_every_type_at_their_limits(kernel: Load, values: tuple[Any, ...]) -> None:
    out = numpy.zeros(128, numpy.uint8)
    kernel("scalars")[1](out, *values)
    expected = stored(values)
    assert out.tobytes()[: len(expected)] == expected and not out[len(expected) :].any()


def test_the_same_compiled_by_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("clang++"):
        pytest.skip("no clang++ here")
    monkeypatch.setenv("CXX", "clang++")
    out = numpy.zeros(128, numpy.uint8)
    build(write(tmp_path / "kernels.cpp", SOURCE), "scalars")[1](out, *LIMITS[1])
    assert out.tobytes().startswith(stored(LIMITS[1]))


def test_scalars_of_numpy_and_ctypes(kernel: Load) -> None:
    out, again = numpy.zeros(128, numpy.uint8), numpy.zeros(128, numpy.uint8)
    kernel("scalars")[1](out, True, *range(1, 16), 16.0, Shape(), 18)
    types = [numpy.bool_, ctypes.c_char, ctypes.c_int8, numpy.uint8, numpy.int16, ctypes.c_uint16, numpy.int32,
             ctypes.c_uint32, numpy.int64, ctypes.c_uint64, ctypes.c_size_t, numpy.float16, ctypes.c_float,
             numpy.float64, ctypes.c_double, numpy.int8, numpy.float32]  # fmt: skip
    numbers = [t(i if i else 1) for i, t in enumerate(types)]
    kernel("scalars")[1](again, *numbers, Shape(), ctypes.c_longlong(18))
    assert out.tobytes() == again.tobytes()


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (1, 2, "argument 2 (a): 2 is out of range; allowed are 0 to 1"),
        (6, 1 << 16, "argument 7 (f): 65536 is out of range; allowed are 0 to 65535"),
        (7, 1 << 31, "argument 8 (g): 2147483648 is out of range; allowed are -2147483648 to 2147483647"),
        (9, 1 << 63, f"argument 10 (i): {1 << 63} is out of range; allowed are {-(1 << 63)} to {(1 << 63) - 1}"),
        (10, -1, "argument 11 (j): -1 is out of range; allowed are 0 to 18446744073709551615"),
        (12, 1e6, "argument 13 (l): 1000000.0 does not fit a floating point type of 2 bytes"),
        (14, "x", "argument 15 (n): it is str; it must be a number"),
        (16, 128, "argument 17 (p): 128 is out of range; allowed are -128 to 127"),
        (18, (ctypes.c_int * 2)(), "argument 19 (r): c_int_Array_2 has 8 bytes, but 32 in C++; fields and their types"),
        (18, 5, "argument 19 (r): it is int; it must be a ctypes structure of 32 bytes"),
        (0, 1.5, "argument 1 is float, but the parameter is 'GM_ADDR out'; it must be an array"),
        (0, numpy.array([None]), "argument 1 (out): an array of object; its elements must be plain numbers"),
    ],
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_a_type_error(kernel: Load, place: int, value: object, text: str) -> None:
    values: list[Any] = [None, *LIMITS[0]]
    values[place] = value
    worker = kernel("scalars")._library._state.get("worker")
    with pytest.raises(TypeError) as caught:
        kernel("scalars")[1](*values)
    assert isinstance(caught.value, ArgumentError)
    assert str(caught.value).startswith(f"scalars: {text}")
    assert str(caught.value).endswith("\n  void scalars(GM_ADDR out, bool a, char b, int8_t c, uint8_t d, int16_t e, "
        "uint16_t f, int32_t g, uint32_t h, int64_t i, uint64_t j, size_t k, half l, bfloat16_t m, float n, double o, "
        "Kind p, const Number q, const Shape& r, long long s)")  # fmt: skip
    if worker is not None:
        assert kernel("scalars")._library._state["worker"] is worker  # nothing was launched, so nothing was lost


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (3, "add: 3 arguments for 5 parameters; missing: uint32_t n, half scale"),
        (7, "add: 7 arguments for 5 parameters; 2 too many"),
    ],
)
def test_wrong_number_of_arguments(kernel: Load, count: int, text: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{text}\n  void add"):
        kernel("add")[1](*[None] * count)


def as_tensor(array: numpy.ndarray) -> Tensor:
    return Tensor(array)


@pytest.mark.parametrize("wrap", [lambda array: array, as_tensor], ids=["array", "tensor"])
def test_memory_of_every_shape(kernel: Load, wrap: Callable[[Any], Any]) -> None:
    whole = numpy.arange(24, dtype=numpy.int32).reshape(4, 6)
    views = [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[1],
        lambda a: a[:, ::-2],
        lambda a: a[2, 2, ...],
    ]
    for view in [*views, lambda a: numpy.asfortranarray(a)]:
        a = whole.copy()
        part = view(a)
        before = part.copy()
        kernel("memory")[1](wrap(part), None, None, part.size)
        numpy.testing.assert_array_equal(part, -before)


def test_the_same_array_twice(kernel: Load) -> None:
    for view in (lambda a: a, lambda a: a[:, 1], lambda a: a.T):
        a = numpy.arange(12, dtype=numpy.int32).reshape(3, 4)
        part = view(a)
        before = part.copy()
        kernel("memory")[1](part, view(a), None, part.size)
        numpy.testing.assert_array_equal(part, 2 * before)


def test_lists_null_empty_read_only_and_ctypes_memory(kernel: Load) -> None:
    a, b, c = numpy.zeros(4, numpy.int32), numpy.zeros((2, 2), numpy.int32).T, (ctypes.c_int32 * 2)()
    kernel("memory")[1](a, None, [b, None, c, a], 0)
    assert (b[0, 0], b.sum(), list(c), a.any()) == (100, 100, [100, 0], False)
    kernel("memory")[1](None, numpy.zeros(0, numpy.int32), None, 5)
    a[:] = 1
    a.flags.writeable = False
    with pytest.raises(ArgumentError, match="memory: the kernel wrote into a read-only array of 16 bytes"):
        kernel("memory")[1](a, None, None, 4)
    assert a.tolist() == [1, 1, 1, 1]
    data = bytearray(struct.pack("<2i", 3, 4))
    kernel("memory")[1](data, None, None, 2)
    assert struct.unpack("<2i", data) == (-3, -4)


# ---------------------------------------------------------------------------------------------------- keywords, objects


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"blockdim": 0}, InputError, "blocks: blockdim is 0; allowed are 1 to 4294967295"),
        ({"blockdim": -1}, InputError, "blocks: blockdim is -1; allowed"),
        ({"blockdim": 1 << 32}, InputError, "blocks: blockdim is 4294967296; allowed"),
        ({"blockdim": True}, ArgumentError, "blocks: blockdim is bool; it must be an int"),
        ({"blockdim": 1.0}, ArgumentError, "blocks: blockdim is float; it must be an int"),
        ({"blockdim": None}, ArgumentError, "blocks: blockdim is NoneType; it must be an int"),
        ({"blockdim": 1, "repeat": 0}, InputError, "blocks: repeat is 0; allowed"),
        ({"blockdim": 1, "repeat": True}, ArgumentError, "blocks: repeat is bool; it must be an int"),
        ({"blockdim": 1, "timeout": 0}, InputError, "blocks: timeout is 0 ms; give more, or -1 for no limit"),
        ({"blockdim": 1, "timeout": -2}, InputError, "blocks: timeout is -2; allowed are -1 to 2147483647"),
        ({"blockdim": 1, "timeout": 1.5}, ArgumentError, "blocks: timeout is float; it must be an int"),
        ({"blockdim": 1, "stream": "s"}, ArgumentError, "blocks: stream is str; it must be an int"),
        ({"blockdim": 1, "device_id": 1024}, InputError, "blocks: device_id is 1024; allowed are 0 to 1023"),
        ({"blockdim": 1, "device_id": 1}, LaunchError, "blocks: device_id is 1; the backend host has one device, 0"),
        ({"blockdim": 1, "blocks": 1}, TypeError, ".*unexpected keyword argument 'blocks'"),
    ],
)
def test_wrong_keywords(kernel: Load, keywords: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        kernel("blocks")(None, None, **keywords)
    if len(keywords) == 1:
        with pytest.raises(error, match=f"^{text}"):
            kernel("blocks")[keywords["blockdim"]](None, None)


def test_keywords_that_are_allowed(kernel: Load) -> None:
    x, n = numpy.zeros(2, numpy.int64), numpy.zeros(2, numpy.int64)
    kernel("blocks")[2](x, n, stream=0, device_id=0, timeout=-1, repeat=2, kernel_name="other")
    assert x.tolist() == [2, 4]


def test_measuring_changes_no_argument_and_starts_each_launch_anew(kernel: Load) -> None:
    x, n = numpy.full(2, 5, numpy.int64), numpy.zeros((2, 2), numpy.int64)[:, 1]
    times = kernel("blocks").measure(x, n, blockdim=2, repeat=3, warmup_us=1)
    assert len(times) == 3 and all(isinstance(time, int) and time > 0 for time in times)
    assert x.tolist() == [5, 5] and n.tolist() == [0, 0]
    waited = kernel("fail").measure(numpy.zeros(1, numpy.uint8), 14, 0, blockdim=1, device_id=0)
    assert len(waited) == 1 and 0.3e9 <= waited[0] < 0.6e9
    with pytest.raises(LaunchError, match="fail: block 0 threw: the text of it"):
        kernel("fail").measure(None, 7, 0, blockdim=1)
    with pytest.raises(TimeLimitError, match="fail: the launch did not end within 100 ms"):
        kernel("fail").measure(None, 6, 0, blockdim=1, timeout=100)
    with pytest.raises(InputError, match="blocks: warmup_us is -1"):
        kernel("blocks").measure(x, n, blockdim=2, warmup_us=-1)
    with pytest.raises(LaunchError, match="blocks: device_id is 3; the backend host has one device, 0"):
        kernel("blocks").measure(x, n, blockdim=2, device_id=3)


def test_measuring_sees_the_same_memory_each_time(kernel: Load) -> None:
    """memory() negates in place: an even number of launches on one memory would leave it as it was."""
    a = numpy.arange(1, 5, dtype=numpy.int32)
    before = a.copy()
    kernel("memory").measure(a, None, None, 4, blockdim=1, repeat=2)
    assert (a == before).all()
    kernel("memory")[1](a, None, None, 4, repeat=2)
    assert (a == before).all()
    kernel("memory")[1](a, None, None, 4, repeat=3)
    assert (a == -before).all()


def test_measuring_with_an_empty_cache(kernel: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    ask = host.Worker.ask

    def noted(self: host.Worker, request: dict[str, Any], *rest: Any) -> dict[str, Any]:
        asked.append(request)
        return ask(self, request, *rest)

    monkeypatch.setattr(host.Worker, "ask", noted)
    monkeypatch.setattr(host, "flushed_bytes", lambda: (1 << 20) + 1)
    a = numpy.arange(1, 5, dtype=numpy.int32)
    times = kernel("memory").measure(a, None, None, 4, blockdim=1, repeat=3, warmup_us=5, flush_cache=True)
    assert len(times) == 3 and min(times) > 0 and a.tolist() == [1, 2, 3, 4]
    kernel("memory").measure(a, None, None, 4, blockdim=1)
    kernel("memory")[1](a, None, None, 4)
    assert [request["flushed"] for request in asked if request["do"] == "launch"] == [(1 << 20) + 1, 0, 0]
    with pytest.raises(ArgumentError, match="memory: flush_cache is int; it must be True or False"):
        kernel("memory").measure(a, None, None, 4, blockdim=1, flush_cache=1)
    monkeypatch.setattr(host, "flushed_bytes", lambda: 1 << 60)
    said = r"memory: MemoryError: flush_cache: no room for 1152921504606846976 bytes: .*; measure without it"
    with pytest.raises(LaunchError, match=said):
        kernel("memory").measure(a, None, None, 4, blockdim=1, timeout=-1, flush_cache=True)


def test_the_walk_comes_between_the_launches_and_outside_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the worker: restore, walk, launch; the warm-up does without."""
    steps: list[str] = []

    class Code:
        mskpp_error = staticmethod(lambda: b"")

        def launch_code(self, *arguments: object) -> int:
            steps.append("launch")
            return 0

    class Memory:
        addresses: tuple[int, ...] = ()
        contents = staticmethod(lambda buffers: [])
        restore = staticmethod(lambda contents: steps.append("restore"))
        close = staticmethod(lambda: steps.append("free"))

    class Walk:
        def __init__(self, size: int) -> None:
            steps.append(f"allocate {size}")

        def __call__(self) -> None:
            steps.append("walk")

        close = staticmethod(lambda: steps.append("give back"))

    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(host_worker, "Memory", lambda *arguments: Memory())
    monkeypatch.setattr(host_worker, "Walk", Walk)
    monkeypatch.setattr(host_worker.time, "perf_counter_ns", lambda: next(ticks))
    library = host_worker.Library.__new__(host_worker.Library)
    library.process, library.code, library.launch_code = os.getpid(), Code(), Code().launch_code
    request = {"buffers": [], "slots": [], "blockdim": 1, "warmup_ns": 15, "repeat": 2, "flushed": 99}
    assert library.launch(request, -1) == {"error": None, "ns": [10, 10]}
    warm, counted = ["restore", "launch"], ["restore", "walk", "launch"]
    assert steps == ["allocate 99", *warm, *warm, *counted, *counted, "free", "give back"]


def test_a_walk_covers_all_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = host_worker.Walk(3 * host_worker.WALKED + 5)
    for value in (1, 2):
        walk()
        assert ctypes.string_at(walk._base, walk._size) == bytes([value]) * walk._size
    walk.close()
    nothing = host_worker.Walk(0)
    nothing()
    nothing.close()


def test_the_largest_cache_is_found(tmp_path: Path) -> None:
    assert host.flushed_bytes(tmp_path) == 64 << 20
    for i, size in enumerate(["48K", "2048K\n", "x", "", "33M", "-4G", "999999999999G"]):
        (tmp_path / f"cpu{i}/cache/index0").mkdir(parents=True)
        (tmp_path / f"cpu{i}/cache/index0/size").write_text(size)
    assert host.flushed_bytes(tmp_path) == 66 << 20
    (tmp_path / "cpu0/cache/index0/size").write_text("1G")
    assert host.flushed_bytes(tmp_path) == 1 << 30
    (tmp_path / "cpu0/cache/index0/size").write_bytes(b"\xff")
    assert host.flushed_bytes(tmp_path) == 66 << 20
    assert 1 << 16 <= host.flushed_bytes() <= 1 << 30


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some  CPU @ 2.00GHz\n\nmodel name\t: Other\n",
            "Some CPU @ 2.00GHz",
        ),
        ("processor\t: 0\nBogoMIPS\t: 200\n\nModel\t: A board\n", "A board"),
        ("cpu\t: POWER9\n", "POWER9"),
        ("CPU implementer\t: 0x48\nCPU part\t: 0xd01\n", f"{os.uname().machine} of implementer 0x48, part 0xd01"),
        ("model name\t:\n", os.uname().machine),
        ("\0", os.uname().machine),
    ],
)
def test_the_cpu_has_a_name(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert host.cpu_name(tmp_path / "cpuinfo") == name
    assert host.cpu_name(tmp_path / "none") == os.uname().machine
    assert host.Host().device_name().endswith(f", {len(os.sched_getaffinity(0))} cores")
    with pytest.raises(LaunchError, match="backend host: device_id is 1; the backend host has one device, 0"):
        host.Host().device_name(1)


def test_programs_for_a_script_lie_where_they_are_wanted(tmp_path: Path) -> None:
    with host.Host().script_environment(tmp_path) as environment:
        front = Path(environment["PATH"].split(os.pathsep)[0])
        assert front.parent == tmp_path and sorted(path.name for path in front.iterdir()) == ["bisheng", "mskpp-cc"]
    assert not list(tmp_path.iterdir())


def test_without_a_blockdim(kernel: Load) -> None:
    with pytest.raises(StateError, match=r"blocks: called without a blockdim; write kernel\[blockdim\]"):
        kernel("blocks")(None, None)


def test_what_the_object_says_of_itself(kernel: Load) -> None:
    found = kernel("blocks")
    assert found.kernel_name == "blocks" and repr(found) == f"<CompiledKernel blocks of {found.module_path}>"
    assert CompiledKernel(found.module_path, backend="host").kernel_name == "blocks"  # the library tells


@pytest.mark.parametrize(
    "copy", [lambda k: pickle.loads(pickle.dumps(k)), __import__("copy").copy, __import__("copy").deepcopy]
)
def test_pickled_and_copied_kernels_run(kernel: Load, copy: Callable[[Any], Any]) -> None:
    x, n = numpy.zeros(3, numpy.int64), numpy.zeros(3, numpy.int64)
    again = copy(kernel("blocks"))
    again[3](x, n)
    assert x.tolist() == [1, 2, 3] and again.kernel_name == "blocks"
    again.close()
    again[3](x, n)  # begins anew
    assert x.tolist() == [2, 4, 6]


def test_files_that_are_no_kernel(tmp_path: Path) -> None:
    text = write(tmp_path / "text.so", "no library, mskpp_launch")
    with pytest.raises(LaunchError, match=r"text: OSError: .*"):
        CompiledKernel(str(text), backend="host")[1]()
    with pytest.raises(FileError, match=r"CompiledKernel: file .*absent"):
        CompiledKernel(str(tmp_path / "absent.so"))
    with pytest.raises(ArgumentError, match="CompiledKernel: kernel_name is int; it must be a str"):
        CompiledKernel(str(text), 5)  # type: ignore[arg-type]
    text.chmod(0o666)
    with pytest.raises(UnsafeError, match="everybody may write to it; look into it, then: chmod o-w"):
        CompiledKernel(str(text))
    libc = subprocess.run(["gcc", "-shared", "-xc", "/dev/null", "-o", tmp_path / "empty.so"], check=True)
    assert libc.returncode == 0
    with pytest.raises(InputError, match=r"empty.so exports no mskpp_launch: it is not compiled launch code"):
        CompiledKernel(str(tmp_path / "empty.so"), backend="host")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("extern int nowhere; int f() { return nowhere; } ", "undefined symbol: nowhere"),
        ('__attribute__((constructor)) void f() { __builtin_trap(); }', "ended while loading .*: SIGILL"),
        ('__attribute__((constructor)) void f() { _exit(5); }', "ended while loading .*: exit code 5"),
    ],
)  # fmt: skip
def test_a_library_that_fails_while_it_is_loaded(tmp_path: Path, code: str, text: str) -> None:
    write(tmp_path / "a.c", f'#include <unistd.h>\nconst char* name = "mskpp_launch";\n{code}\n')
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "a.c", "-o", tmp_path / "a.so"], check=True)
    with pytest.raises(LaunchError, match=text):
        CompiledKernel(str(tmp_path / "a.so"), backend="host")[1]()


# ------------------------------------------------------------------------------------------------------ failing blocks


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (0, r"block 5 crashed: SIGSEGV \(memory that is not its own\)"),
        (1, r"block 5 crashed: SIGFPE \(a division by zero\)"),
        (2, r"block 5 crashed: SIGABRT \(abort, or an assertion\)"),
        (3, r"block 5 crashed: SIGSEGV"),
        (4, r"the process that ran it ended: exit code 3, while these blocks ran: .*\b5\b"),
        (5, r"the process that ran it ended: exit code 4, while these blocks ran: .*\b5\b"),
        (7, r"block 5 threw: the text of it$"),
        (8, r"block 5 threw: an exception of unknown type$"),
        (9, r"block 5 crashed: SIGSEGV"),
        (10, r"block 5 crashed: SIGSEGV"),
        (11, r"the process that ran it ended: SIGKILL \(killed, .*\), while these blocks ran: .*\b5\b"),
        (12, r"block 5 crashed: SIGILL"),
        (13, r"block 5 crashed: SIGABRT"),
    ],
    ids=[
        "segv",
        "fpe",
        "abort",
        "stack",
        "_exit",
        "exit",
        "exception",
        "number",
        "beyond",
        "before",
        "killed",
        "trap",
        "terminate",
    ],
)
def test_a_failing_block_is_named_and_the_caller_goes_on(kernel: Load, how: int, text: str) -> None:
    x = numpy.zeros(4, numpy.uint8)
    with pytest.raises(LaunchError, match=f"^fail: {text}"):
        kernel("fail")[8](x, how, 5)
    assert not x.any()  # nothing of a failed launch comes back
    kernel("fail")[8](x, -1, 5)
    assert x.tolist() == [9, 0, 0, 0]


def test_a_block_that_never_ends(kernel: Load) -> None:
    x = numpy.zeros(4, numpy.uint8)
    begin = time.monotonic()
    with pytest.raises(TimeLimitError, match=r"^fail: the launch did not end within 200 ms; blocks that still ran: 6$"):
        kernel("fail")[8](x, 6, 6, timeout=200)
    assert time.monotonic() - begin < 2
    kernel("fail")[8](x, -1, 5)
    assert x[0] == 9


def test_a_process_that_was_killed_in_between_is_replaced(kernel: Load) -> None:
    x = numpy.zeros(4, numpy.uint8)
    kernel("fail")[8](x, -1, 5)
    worker = kernel("fail")._library._state["worker"]
    found = running(str(kernel("fail")._library._path))
    assert len(found) == 1
    os.kill(found[0], signal.SIGKILL)
    assert wait_until(lambda: worker.running.poll() is not None)
    x[:] = 0
    kernel("fail")[8](x, -1, 5)
    assert x[0] == 9


def test_threads_that_launch_one_kernel_and_two(kernel: Load) -> None:
    results: list[bool] = []

    def launch(name: str) -> None:
        for i in range(20):
            x, n = numpy.zeros(9, numpy.int64), numpy.zeros(9, numpy.int64)
            if name == "blocks":
                kernel(name)[9](x, n)
                results.append(bool((x == 1 + numpy.arange(9)).all()))
            else:
                a = numpy.full(9, i, numpy.int32)
                kernel(name)[1](a, None, None, 9)
                results.append(bool((a == -i).all()))

    kernel("blocks"), kernel("memory")
    threads = [threading.Thread(target=launch, args=(name,)) for name in ("blocks", "memory", "blocks", "memory")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_two_kernels_run_at_the_same_time(kernel: Load) -> None:
    first, second = kernel("fail"), pickle.loads(pickle.dumps(kernel("fail")))
    x = numpy.zeros((2, 8), numpy.uint8)
    for one in (first, second):
        one[1](x[0], -1, 0)
    begin = time.monotonic()
    threads = [threading.Thread(target=one[1], args=(row, 14, 0)) for one, row in zip((first, second), x, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.3 <= time.monotonic() - begin < 0.55


# ------------------------------------------------------------------------------------------------------------ processes

CHILD = """
import os, sys, signal, time, gc
import numpy
from mskpp.launcher import CompiledKernel
x = numpy.zeros(4, numpy.uint8)
kernel = CompiledKernel({path!r}, backend="host")
"""


def child(tmp_path: Path, kernel: CompiledKernel, code: str, **options: Any) -> subprocess.Popen[str]:
    """A program of its own copy of the library, so that its processes can be told from others."""
    path = tmp_path / "lib-of-child.so"
    shutil.copy2(kernel.module_path, path)
    import textwrap

    return python(tmp_path, CHILD.format(path=str(path)) + textwrap.dedent(code), **options)


def left_over(tmp_path: Path) -> list[int]:
    return running(f"{tmp_path}/")  # where the child's temporary files are, its copy of the library among them


def test_interrupt_while_a_kernel_runs(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("fail"), """
        kernel[2](x, -1, 0)
        print("begun", flush=True)
        try:
            kernel[2](x, 6, 1, timeout=-1)
        except KeyboardInterrupt:
            print("interrupted")
        x[:] = 0
        kernel[2](x, -1, 0)
        print(x[0])
    """)  # fmt: skip
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    time.sleep(0.1)
    begin = time.monotonic()
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=20)
    assert time.monotonic() - begin < 2
    assert (out, err, program.returncode) == ("interrupted\n9\n", "", 0)
    assert not left_over(tmp_path)


def test_a_killed_caller_leaves_no_worker(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("fail"), "kernel[2](x, -1, 0); print('begun', flush=True); kernel[2](x, 6, 1)")
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    assert left_over(tmp_path)
    program.kill()
    program.communicate()
    assert wait_until(lambda: not left_over(tmp_path), 5)


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "raise SystemExit", "del kernel; gc.collect()", "kernel.close(); kernel.close()"]
)
def test_the_end_of_the_program_is_quiet(kernel: Load, tmp_path: Path, end: str) -> None:
    program = child(
        tmp_path, kernel("fail"), f"kernel[2](x, -1, 0)\nother = kernel\n{end}\n", env={"TMPDIR": str(tmp_path)}
    )
    assert (*program.communicate(timeout=30), program.returncode) == ("", "", 0)
    assert not left_over(tmp_path) and not list(tmp_path.glob("mskpp-kernel-*"))


def test_the_end_of_the_program_while_a_thread_launches(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("fail"), """
        import threading
        kernel[2](x, -1, 0)
        threading.Thread(target=kernel[2], args=(x, 6, 1), kwargs={"timeout": -1}, daemon=True).start()
        time.sleep(0.2)
    """)  # fmt: skip
    out, err = program.communicate(timeout=10)
    assert (out, program.returncode) == ("", 0)
    assert err == "" or err.startswith("Exception in thread")  # cut off where the interpreter has ended
    assert not left_over(tmp_path)


def test_pools_of_processes(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("fail"), """
        import multiprocessing, threading

        def work(kernel):
            y = numpy.zeros(1, numpy.uint8)
            kernel[2](y, -1, 0)
            return int(y[0])

        if __name__ == "__main__":
            work(kernel)
            threads = [threading.Thread(target=time.sleep, args=(0.5,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for how in ("fork", "spawn"):
                with multiprocessing.get_context(how).Pool(2) as pool:
                    print(pool.map(work, [kernel] * 4))
            print(work(kernel))
    """)  # fmt: skip
    assert program.communicate(timeout=60) == ("[9, 9, 9, 9]\n[9, 9, 9, 9]\n9\n", "")
    assert wait_until(lambda: not left_over(tmp_path), 5)


def test_a_fork_of_the_caller_has_workers_of_its_own(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("fail"), """
        kernel[2](x, -1, 0)
        child = os.fork()
        if child == 0:
            x[:] = 0
            kernel[2](x, -1, 0)
            print("child", x[0], flush=True)
            del kernel
            gc.collect()
            sys.exit(0)  # with all that happens at exit
        print("status", os.waitpid(child, 0)[1], flush=True)
        idle = os.fork()
        if idle == 0:
            sys.exit(0)
        os.waitpid(idle, 0)
        x[:] = 0
        worker = kernel._library._state["worker"]
        kernel[2](x, -1, 0)
        print("parent", x[0], kernel._library._state["worker"] is worker, os.path.exists(kernel._library._path))
    """)  # fmt: skip
    out, err = program.communicate(timeout=30)
    assert (out, err) == ("child 9\nstatus 0\nparent 9 True True\n", "")
    assert not left_over(tmp_path)


def test_what_a_kernel_prints_comes_out_before_the_launch_returns(kernel: Load, tmp_path: Path) -> None:
    program = child(tmp_path, kernel("print"), "kernel[1](7); print('after', flush=True); kernel[1](8)")
    assert program.communicate(timeout=30) == ("block 0 of 1: 7\nafter\nblock 0 of 1: 8\n", "")


def test_a_kernel_that_is_gone_takes_its_process_and_its_copy_along(kernel: Load) -> None:
    again = pickle.loads(pickle.dumps(kernel("fail")))
    again[1](numpy.zeros(1, numpy.uint8), -1, 0)
    path = again._library._path
    assert running(str(path)) and path.exists()
    del again
    gc.collect()
    assert not running(str(path)) and not path.parent.exists()


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_the_copy_is_the_users_alone(kernel: Load, umask: int) -> None:
    before = os.umask(umask)
    try:
        again = pickle.loads(pickle.dumps(kernel("print")))
    finally:
        os.umask(before)
    assert again._library._path.stat().st_mode & 0o777 == 0o700
    assert again._library._path.parent.stat().st_mode & 0o077 == 0


RESULT = """
    y = numpy.arange(6, dtype=numpy.int32)[::2]
    kernel[3](y, None, None, 3)
    print(y.tolist())
"""


def test_under_gdb(kernel: Load, tmp_path: Path) -> None:
    if not shutil.which("gdb"):
        pytest.skip("no gdb here")
    prefix = ["gdb", "-q", "-batch", "-ex", "run", "--args"]
    out, err = child(tmp_path, kernel("memory"), RESULT.replace("kernel[3]", "kernel[1]"), prefix=prefix).communicate(
        timeout=60
    )
    assert "[0, -2, -4]\n" in out and "exited normally" in out, err
    assert not left_over(tmp_path)


def test_with_a_library_preloaded(kernel: Load, tmp_path: Path) -> None:
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "/dev/null", "-o", tmp_path / "nothing.so"], check=True)
    environment = {"LD_PRELOAD": str(tmp_path / "nothing.so")}
    program = child(tmp_path, kernel("memory"), RESULT.replace("kernel[3]", "kernel[1]"), env=environment)
    assert program.communicate(timeout=30) == ("[0, -2, -4]\n", "")


# ----------------------------------------------------------------------------------------------------------- templates

MATMUL = """
#include <mskpp/kernel.h>
namespace Lib {
struct Coord { uint32_t m, n, k; };
namespace layout { struct RowMajor { int32_t shape[2]; int64_t stride[2]; }; }
template <uint32_t M_, uint32_t N_> struct Tile { static constexpr uint32_t M = M_, N = N_; };
}
namespace Kernels {
template <class LayoutA, class LayoutB, class LayoutC, class TileShape = Lib::Tile<8, 8>, class T = half>
__global__ __aicore__ void matmul(Lib::Coord shape, __gm__ T* a, LayoutA la, __gm__ T* b, LayoutB lb, __gm__ float* c,
                                  const LayoutC& lc, T bias) {
    const uint32_t M = TileShape::M, N = TileShape::N;
    const uint32_t columns = (shape.n + N - 1) / N, rows = (shape.m + M - 1) / M;
    for (uint32_t tile = GetBlockIdx(); tile < rows * columns; tile += GetBlockNum())
        for (uint32_t i = tile / columns * M; i < shape.m && i < (tile / columns + 1) * M; ++i)
            for (uint32_t j = tile % columns * N; j < shape.n && j < (tile % columns + 1) * N; ++j) {
                float sum = bias;
                for (uint32_t k = 0; k < shape.k; ++k)
                    sum += (float)a[i * la.stride[0] + k] * (float)b[k * lb.stride[0] + j];
                c[i * lc.stride[0] + j] = sum;
            }
}
}
"""


class Coord(ctypes.Structure):
    _fields_ = [("m", ctypes.c_uint32), ("n", ctypes.c_uint32), ("k", ctypes.c_uint32)]

    @staticmethod
    def get_namespace() -> str:
        return "Lib::"


class RowMajor(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_int32 * 2), ("stride", ctypes.c_int64 * 2)]

    def __init__(self, rows: int = 0, columns: int = 0) -> None:
        super().__init__((rows, columns), (columns, 1))

    @staticmethod
    def get_namespace() -> str:
        return "Lib::layout::"


@pytest.mark.parametrize(
    "template_param",
    [None, [RowMajor, RowMajor, RowMajor, "Lib::Tile<16, 4>", "bfloat16_t"]],
    ids=["deduced half", "given bfloat16"],
)
def test_a_tiled_matmul_with_layouts(tmp_path: Path, template_param: Any) -> None:
    write(tmp_path / "matmul.cpp", MATMUL)
    m, n, k = 33, 17, 9
    a = numpy.random.default_rng(1).integers(-4, 4, (m, k)).astype(numpy.float16)
    b = numpy.random.default_rng(2).integers(-4, 4, (k, n)).astype(numpy.float16)
    c = numpy.zeros((m, n), numpy.float32)

    def get_kernel() -> CompiledKernel:
        launcher = Launcher(KernelInvokeConfig("matmul.cpp", "matmul"), template_param=template_param)
        return compile(gen_file=launcher.code_gen(), options=FAST, backend="host")

    def matmul(shape: Any, a: Any, la: Any, b: Any, lb: Any, c: Any, lc: Any, bias: float) -> None:
        get_kernel()[20](shape, a, la, b, lb, c, lc, bias)

    def upper_half(array: numpy.ndarray) -> numpy.ndarray:
        return (array.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)

    given = [a, b] if template_param is None else [upper_half(a), upper_half(b)]
    matmul(Coord(m, n, k), given[0], RowMajor(m, k), given[1], RowMajor(k, n), c, RowMajor(m, n), 1.5)
    numpy.testing.assert_array_equal(c, a.astype(numpy.float32) @ b.astype(numpy.float32) + 1.5)
