# SPDX-License-Identifier: Apache-2.0
"""The emulated toolkit itself: the tests of the backend are worth what it catches."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

# What every client of these tests starts with. Each is a process of its own, as aclInit may be called once in one.
PRELUDE = """
import ctypes as c, os, sys, time
home = os.environ["ASCEND_HOME_PATH"]
acl = c.CDLL(home + "/lib64/libascendcl.so")
rt = c.CDLL(home + "/lib64/libruntime.so")
acl.aclGetRecentErrMsg.restype = c.c_char_p
acl.aclrtGetSocName.restype = c.c_char_p
for name in ("aclrtFree", "aclrtDestroyStream", "aclrtDestroyStreamForce"):
    getattr(acl, name).argtypes = [c.c_void_p]
acl.aclrtSynchronizeStream.argtypes = [c.c_void_p]
acl.aclrtSynchronizeStreamWithTimeout.argtypes = [c.c_void_p, c.c_int32]
acl.aclrtMemcpy.argtypes = [c.c_void_p, c.c_size_t, c.c_void_p, c.c_size_t, c.c_int]
H2D, D2H, D2D = 1, 2, 3

def message():
    return (acl.aclGetRecentErrMsg() or b"").decode()

def start(device=0):
    assert acl.aclInit(None) == 0
    assert acl.aclrtSetDevice(device) == 0

def malloc(size):
    out = c.c_void_p()
    code = acl.aclrtMalloc(c.byref(out), c.c_size_t(size), 0)
    assert code == 0, code
    return out.value

def stream():
    out = c.c_void_p()
    assert acl.aclrtCreateStream(c.byref(out)) == 0
    return out.value

def upload(values):
    data = (c.c_float * len(values))(*values)
    to = malloc(c.sizeof(data))
    assert acl.aclrtMemcpy(to, c.sizeof(data), data, c.sizeof(data), H2D) == 0
    return to

def download(address, count):
    data = (c.c_float * count)()
    assert acl.aclrtMemcpy(data, c.sizeof(data), address, c.sizeof(data), D2H) == 0
    return list(data)

class Binary(c.Structure):
    _fields_ = [("magic", c.c_uint32), ("version", c.c_uint32), ("data", c.c_char_p), ("length", c.c_uint64)]

class Arguments(c.Structure):
    _fields_ = [("args", c.c_void_p), ("hostInputInfo", c.c_void_p), ("argsSize", c.c_uint32), ("rest", c.c_uint8 * 20)]

VECTOR, MIX = 0x41415246, 0x43554245

def register(path, magic=VECTOR):
    data = open(path, "rb").read()
    handle = c.c_void_p()
    code = rt.rtRegisterAllKernel(c.byref(Binary(magic, 0, data, len(data))), c.byref(handle))
    return code, handle

def rt_launch(handle, key, blocks, addresses, on=None):
    block = (c.c_uint64 * len(addresses))(*addresses)
    given = Arguments(c.addressof(block), None, c.sizeof(block))
    assert c.sizeof(given) == 40
    return rt.rtKernelLaunchWithHandleV2(handle, c.c_uint64(key), blocks, c.byref(given), None, c.c_void_p(on), None)
"""

# Kernels of a binary, without any header of the product: a vector add with one block per element, ...
BINARY = """
#include <cstdint>
extern "C" void add_custom_7(float* x, float* y, float* z, float*, int32_t* count) {
    for (int i = 0; i < *count; ++i) z[i] = x[i] + y[i];
}
extern "C" void overrun_1(float* x, int32_t* count) { x[*count] = 1; }
extern "C" void crash_2(float*) { *reinterpret_cast<volatile int*>(8) = 1; }
extern "C" void never_3(float*) { for (volatile int go = 1; go;) {} }
"""


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("binary")
    (folder / "k.cpp").write_text(BINARY)
    subprocess.run(["g++", "-shared", "-fPIC", "-O0", folder / "k.cpp", "-o", folder / "k.o"], check=True)
    mixed = (
        'extern "C" void both_5_mix_aic(float* x) { x[0] = 1; } extern "C" void both_5_mix_aiv(float* x) { x[1] = 2; }'
    )
    (folder / "m.cpp").write_text(mixed)
    subprocess.run(["g++", "-shared", "-fPIC", folder / "m.cpp", "-o", folder / "m.o"], check=True)
    return folder / "k.o"


Client = Callable[..., str]


@pytest.fixture
def client(emulated_cann: dict[str, str], binary: Path) -> Client:
    """client(code, **env): what the code prints, run with the toolkit; a failing assert of the code fails the test."""

    def run(code: str, base: dict[str, str] | None = None, **more: str) -> str:
        environment = {**os.environ, **(base or emulated_cann), "BINARY": str(binary), **more}
        whole = PRELUDE + textwrap.dedent(code)
        done = subprocess.run(
            [sys.executable, "-c", whole], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_state_has_its_codes(client: Client) -> None:
    client("""
    device = c.c_int32()
    assert acl.aclrtSetDevice(0) == 100001
    assert acl.aclrtGetDevice(c.byref(device)) == 100001
    assert acl.aclInit(None) == 0
    assert acl.aclInit(None) == 100002
    assert acl.aclrtGetDevice(c.byref(device)) == 107002
    assert acl.aclrtMalloc(c.byref(c.c_void_p()), c.c_size_t(8), 0) == 107002
    assert acl.aclrtSetDevice(2) == 107001 and "device 2 of 2" in message()
    assert message() == ""
    assert acl.aclrtSetDevice(1) == 0 and acl.aclrtGetDevice(c.byref(device)) == 0 and device.value == 1
    count = c.c_uint32()
    assert acl.aclrtGetDeviceCount(c.byref(count)) == 0 and count.value == 2
    assert acl.aclrtGetSocName() == b"Ascend310P3"
    assert acl.aclrtResetDevice(1) == 0 and acl.aclrtGetDevice(c.byref(device)) == 107002
    assert acl.aclFinalize() == 0 and acl.aclFinalize() == 100037
    """, EMULATED_CANN_DEVICES="2", EMULATED_CANN_SOC="Ascend310P3")  # fmt: skip


def test_memory_rejects_what_is_wrong(client: Client) -> None:
    client("""
    start()
    host = (c.c_char * 64)()
    there = malloc(64)
    assert acl.aclrtMemcpy(host, 64, there, 64, D2H) == 0 and bytes(host) == b"\\xa5" * 64   # fresh memory
    assert acl.aclrtMemcpy(there, 64, host, 64, H2D) == 0
    assert acl.aclrtMemcpy(there, 64, host, 64, D2H) == 107000 and "is device memory" in message()
    assert acl.aclrtMemcpy(host, 64, there, 64, H2D) == 107000 and "is no device memory" in message()
    assert acl.aclrtMemcpy(host, 64, there, 64, 0) == 107000
    assert acl.aclrtMemcpy(host, 64, there, 64, D2D) == 107000
    assert acl.aclrtMemcpy(there, 32, host, 64, H2D) == 100000
    assert acl.aclrtMemcpy(there + 1, 64, host, 64, H2D) == 107000 and "63 bytes left, 64 are wanted" in message()
    assert acl.aclrtMemcpy(there, 64, host, 64, 9) == 100000
    out = c.c_void_p()
    assert acl.aclrtMalloc(c.byref(out), c.c_size_t(0), 0) == 100000
    assert acl.aclrtMalloc(c.byref(out), c.c_size_t(1 << 20), 0) == 200000 and "65536" not in message()
    assert acl.aclrtFree(there + 8) == 107000
    assert acl.aclrtFree(there) == 0 and acl.aclrtFree(there) == 107000
    assert acl.aclrtMallocHost(c.byref(out), c.c_size_t(16)) == 0
    assert acl.aclrtFree(out) == 107000 and acl.aclrtFreeHost(out) == 0
    """, EMULATED_CANN_MEMORY="65536")  # fmt: skip


def test_memory_can_be_set(client: Client) -> None:
    client("""
    start()
    acl.aclrtMemset.argtypes = [c.c_void_p, c.c_size_t, c.c_int32, c.c_size_t]
    there, host = malloc(64), (c.c_char * 64)()
    assert acl.aclrtMemset(there, 64, 7, 32) == 0
    assert acl.aclrtMemcpy(host, 64, there, 64, D2H) == 0 and bytes(host) == b"\\7" * 32 + b"\\xa5" * 32
    assert acl.aclrtMemset(None, 64, 7, 64) == 100000
    assert acl.aclrtMemset(there, 32, 7, 64) == 100000 and "64 bytes to set in room for 32" in message()
    assert acl.aclrtMemset(there + 1, 64, 7, 64) == 107000 and "63 bytes left" in message()
    assert acl.aclrtMemset(c.addressof(host), 64, 7, 64) == 107000 and "is no device memory" in message()
    """)


POISONED = """
start()
code, handle = register(os.environ["BINARY"])
count = c.c_int32(1)
n = malloc(4); acl.aclrtMemcpy(n, 4, c.byref(count), 4, H2D)
x = upload([1])
def launched(key=7):
    s = stream()
    assert rt_launch(handle, key, 1, [x, x, x, 0, n], s) == 0
    code = acl.aclrtSynchronizeStream(s)
    return code, message()
"""


@pytest.mark.parametrize("reset", ["aclrtResetDevice", "aclrtResetDeviceForce"])
def test_a_broken_device_fails_every_process_until_it_is_reset(client: Client, tmp_path: Path, reset: str) -> None:
    state = {"EMULATED_CANN_STATE": str(tmp_path), "EMULATED_CANN_DEVICES": "2"}
    client(POISONED + """
assert launched() == (507015, "emulated toolkit: kernel add_custom_7 has broken device 0")
os.environ["EMULATED_CANN_POISON"] = ""
assert launched() == (507899, "emulated toolkit: device 0 is in an error state; it must be reset")
""", EMULATED_CANN_POISON="vadd,add_custom", **state)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["device0.error"]
    client(POISONED.replace("start()", "start(1)") + "assert launched() == (0, '')", **state)
    client(POISONED + f"""
assert launched()[0] == 507899
assert acl.{reset}(0) == 0
{POISONED.replace("start()", "assert acl.aclrtSetDevice(0) == 0")}
assert launched() == (0, "")
""", **state)  # fmt: skip
    client(POISONED + "assert launched() == (0, '')", **state)


def test_without_a_folder_an_error_state_ends_with_its_process(client: Client) -> None:
    client(POISONED + "assert launched()[0] == 507015 and launched()[0] == 507899", EMULATED_CANN_POISON="add_custom_7")
    client(POISONED + "assert launched()[0] == 0")


def test_streams_run_in_order_and_time_out(client: Client) -> None:
    client("""
    start()
    code, handle = register(os.environ["BINARY"])
    s = stream()
    count = c.c_int32(4)
    n = malloc(4); acl.aclrtMemcpy(n, 4, c.byref(count), 4, H2D)
    x, y, z = upload([1, 2, 3, 4]), upload([10, 20, 30, 40]), malloc(16)
    began = time.monotonic()
    assert rt_launch(handle, 7, 1, [x, y, z, 0, n], s) == 0
    assert rt_launch(handle, 7, 1, [z, y, z, 0, n], s) == 0
    assert time.monotonic() - began < 0.6                                   # it has not waited
    assert acl.aclrtSynchronizeStreamWithTimeout(s, 1) == 507046 and "did not end in 1 ms" in message()
    assert acl.aclrtSynchronizeStreamWithTimeout(s, 60000) == 0
    assert download(z, 4) == [21, 42, 63, 84]
    assert acl.aclrtSynchronizeStreamWithTimeout(s, -1) == 0 and acl.aclrtSynchronizeStreamWithTimeout(s, -2) == 107000
    assert acl.aclrtDestroyStream(s) == 0
    assert acl.aclrtSynchronizeStream(s) == 107017
    assert acl.aclrtDestroyStreamForce(s) == 107017
    """, EMULATED_CANN_DELAY_MS="600")  # fmt: skip


def test_streams_belong_to_a_device(client: Client) -> None:
    client("""
    start(1)
    s = stream()
    assert acl.aclrtSetDevice(0) == 0
    assert acl.aclrtSynchronizeStream(s) == 107003
    assert acl.aclrtSynchronizeStream(None) == 0
    """, EMULATED_CANN_DEVICES="2")  # fmt: skip


def test_the_code_of_a_time_out_can_be_chosen_and_a_hung_kernel_ends_with_its_stream(client: Client) -> None:
    client("""
    start()
    code, handle = register(os.environ["BINARY"])
    s = stream()
    assert rt_launch(handle, 2, 1, [0], s) == 0
    assert acl.aclrtSynchronizeStreamWithTimeout(s, 20) == 107019
    assert acl.aclrtDestroyStreamForce(s) == 0
    s = stream()
    assert rt_launch(handle, 3, 1, [0], s) == 0          # one that really never ends
    assert acl.aclrtSynchronizeStreamWithTimeout(s, 20) == 107019
    assert acl.aclrtDestroyStreamForce(s) == 0
    """, EMULATED_CANN_HANG="crash", EMULATED_CANN_TIMEOUT_CODE="107019")  # fmt: skip


def test_kernels_that_leave_their_memory_are_caught(client: Client) -> None:
    client("""
    start()
    code, handle = register(os.environ["BINARY"])
    s, count = stream(), c.c_int32(4)
    n = malloc(4); acl.aclrtMemcpy(n, 4, c.byref(count), 4, H2D)
    x = upload([0, 0, 0, 0])
    assert rt_launch(handle, 1, 1, [x, n], s) == 0
    assert acl.aclrtSynchronizeStream(s) == 507015 and "byte 16 of an allocation of 16 bytes" in message()
    assert acl.aclrtFree(x) == 507015                                        # gone, and told
    assert rt_launch(handle, 2, 3, [0], s) == 0
    assert acl.aclrtSynchronizeStream(s) == 507015 and "block 0 crashed with signal 11" in message()
    assert rt_launch(handle, 2, 3, [0], s) == 507015                         # a failed stream stays one
    s = stream()
    host = c.c_int32()
    assert rt_launch(handle, 2, 1, [c.addressof(host)], s) == 0
    assert acl.aclrtSynchronizeStream(s) == 507015 and "is no memory of device 0" in message()
    """)


def test_failures_can_be_injected_by_number(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "calls.log"
    client(
        """
    start()
    malloc(8); malloc(8)
    out = c.c_void_p()
    assert acl.aclrtMalloc(c.byref(out), c.c_size_t(8), 0) == 200000 and "aclrtMalloc was told to fail" in message()
    malloc(8)
    assert acl.aclrtSynchronizeDevice() == 507899 and acl.aclrtSynchronizeDevice() == 507899
    os.environ["EMULATED_CANN_FAIL"] = ""
    assert acl.aclrtSynchronizeDevice() == 0
    """,
        EMULATED_CANN_LOG=str(log),
        EMULATED_CANN_FAIL="aclrtMalloc:3=200000;aclrtSynchronizeDevice:*=507899",
    )
    lines = log.read_text().splitlines()
    assert lines[:2] == ["aclInit(null) = 0", "aclrtSetDevice(0) = 0"]
    assert lines.count("aclrtMalloc(8, 0) = 0") == 3
    assert lines.count("aclrtMalloc(8, 0) = 200000") == 1


def test_binaries_follow_magic_and_key(client: Client) -> None:
    client("""
    start()
    mixed = os.environ["BINARY"].replace("k.o", "m.o")
    assert register(sys.executable)[0] == 107000
    assert register(os.environ["BINARY"], 0)[0] == 107000 and register(os.environ["BINARY"], 5)[0] == 107000
    assert register(mixed, VECTOR)[0] == 107000
    code, handle = register(mixed, MIX)
    assert code == 0
    address, length = c.c_uint64(), c.c_uint32()
    assert rt.rtGetC2cCtrlAddr(c.byref(address), c.byref(length)) == 0 and address.value == 0xC2C0C2C000
    x = upload([0, 0])
    assert rt_launch(handle, 5, 1, [x]) == 107000 and "rtGetC2cCtrlAddr" in message()
    assert rt_launch(handle, 6, 1, [address.value, x]) == 107000 and "key 6" in message()
    assert rt_launch(handle, 5, 0, [address.value, x]) == 107000
    assert rt_launch(handle, 5, 1, [address.value, x]) == 0
    assert acl.aclrtSynchronizeStream(None) == 0 and download(x, 2) == [1, 2]    # both halves ran
    assert rt.rtDevBinaryUnRegister(handle) == 0 and rt.rtDevBinaryUnRegister(handle) == 107017
    name = c.create_string_buffer(64)
    assert rt.rtGetSocVersion(name, 64) == 0 and name.value == b"Ascend910B1" and rt.rtGetSocVersion(name, 4) == 107000
    """)


def test_binaries_load_through_acl(client: Client, emulated_cann_acl_only: dict[str, str]) -> None:
    client("""
    assert not hasattr(rt, "rtKernelLaunchWithHandleV2") and hasattr(rt, "rtKernelLaunchWithHandle")
    start()
    binary, function, arguments, parameter = (c.c_void_p() for _ in range(4))
    assert acl.aclrtBinaryLoadFromFile(b"/nowhere.o", None, c.byref(binary)) == 100000
    assert acl.aclrtBinaryLoadFromFile(os.environ["BINARY"].encode(), None, c.byref(binary)) == 0
    assert acl.aclrtBinaryGetFunctionByEntry(binary, c.c_uint64(8), c.byref(function)) == 107000
    assert acl.aclrtBinaryGetFunctionByEntry(binary, c.c_uint64(7), c.byref(function)) == 0
    count = c.c_int32(2)
    n = malloc(4); acl.aclrtMemcpy(n, 4, c.byref(count), 4, H2D)
    x, y, z = upload([1, 2]), upload([3, 4]), malloc(8)
    block = (c.c_uint64 * 5)(x, y, z, 0, n)
    assert acl.aclrtKernelArgsInit(function, c.byref(arguments)) == 0
    assert acl.aclrtKernelArgsAppend(arguments, block, c.c_size_t(40), c.byref(parameter)) == 0
    assert acl.aclrtLaunchKernelWithConfig(function, 1, None, None, arguments, None) == 100000     # not finalized
    assert acl.aclrtKernelArgsFinalize(arguments) == 0
    assert acl.aclrtLaunchKernelWithConfig(function, 1, None, None, arguments, None) == 0
    assert acl.aclrtSynchronizeDevice() == 0 and download(z, 2) == [4, 6]
    assert acl.aclrtLaunchKernel(function, 1, block, c.c_size_t(40), None) == 0
    raw = (c.c_char * 48).from_buffer_copy(bytes(block)[:32] + bytes(8) + bytes(c.c_int64(2)))
    holder = (c.c_uint32 * 2)(32, 40)
    assert acl.aclrtLaunchKernelWithHostArgs(function, 1, None, None, raw, c.c_size_t(48), holder, c.c_size_t(1)) == 0
    assert acl.aclrtSynchronizeDevice() == 0
    assert acl.aclrtBinaryUnLoad(binary) == 0
    assert acl.aclrtLaunchKernel(function, 1, block, c.c_size_t(40), None) == 107017
    """, emulated_cann_acl_only)  # fmt: skip


MSPTI = """
mspti = c.CDLL(home + "/lib64/libmspti.so")
REQUEST = c.CFUNCTYPE(None, c.POINTER(c.c_void_p), c.POINTER(c.c_size_t), c.POINTER(c.c_size_t))
COMPLETE = c.CFUNCTYPE(None, c.c_void_p, c.c_size_t, c.c_size_t)
memory = c.create_string_buffer(SIZE + 8)
found = []

def request(buffer, size, most):
    buffer[0], size[0], most[0] = (c.addressof(memory) + 7) // 8 * 8, SIZE, 0

def complete(buffer, size, valid):
    record = c.c_void_p()
    while mspti.msptiActivityGetNextRecord(c.c_void_p(buffer), c.c_size_t(valid), c.byref(record)) == 0:
        raw = c.string_at(record.value, 56)
        found.append((int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:12], "little"),
                      int.from_bytes(raw[12:20], "little"), int.from_bytes(raw[20:24], "little"),
                      int.from_bytes(raw[28:36], "little"),
                      c.string_at(int.from_bytes(raw[44:52], "little")).decode()))

keep = REQUEST(request), COMPLETE(complete)
handle = c.c_void_p()
assert mspti.msptiSubscribe(c.byref(handle), None, None) == 0
assert mspti.msptiSubscribe(c.byref(c.c_void_p()), None, None) == 2
assert mspti.msptiActivityRegisterCallbacks(*keep) == 0
assert mspti.msptiActivityEnable(2) == 0 and mspti.msptiActivityEnable(99) == 1
start()
code, binary = register(os.environ["BINARY"])
count = c.c_int32(1)
n = malloc(4); acl.aclrtMemcpy(n, 4, c.byref(count), 4, H2D)
x = upload([1])
for i in range(3):
    assert rt_launch(binary, 7, 1, [x, x, x, 0, n]) == 0
assert acl.aclrtSynchronizeStream(None) == 0
code = mspti.msptiActivityFlushAll(1)
"""


def test_mspti_tells_the_times_of_kernels(client: Client) -> None:
    out = client(f"SIZE = 2 << 20\n{MSPTI}\nassert code == 0\nprint(found)", EMULATED_CANN_KERNEL_NS="add_custom:15000")
    records = eval(out)
    assert [(kind, end - start, device, name) for kind, start, end, device, _, name in records] == [
        (2, 15000, 0, "add_custom_7")
    ] * 3
    assert [correlation for *_, correlation, _ in records] == [1, 2, 3]


def test_mspti_can_be_out_of_order_lossy_and_strict(client: Client) -> None:
    out = client(f"SIZE = 2 << 20\n{MSPTI}\nprint([r[4] for r in found])", EMULATED_CANN_RECORDS="reversed")
    assert out.strip() == "[3, 2, 1]"
    out = client(f"SIZE = 2 << 20\n{MSPTI}\nprint([r[4] for r in found])", EMULATED_CANN_RECORDS="drop:1")
    assert out.strip() == "[1, 2]"
    memset = "for _ in range(2): acl.aclrtMemset(c.c_void_p(x), c.c_size_t(4), 0, c.c_size_t(4))\n"
    flushed = MSPTI.replace("code = mspti", f"{memset}code = mspti")
    kinds = f"SIZE = 2 << 20\n{flushed}\nprint([(kind, name) for kind, *_, name in found])"
    memsets = [(6, "MemSet"), (2, "MemSet")] * 2
    assert eval(client(kinds, EMULATED_CANN_RECORDS="memset")) == [(2, "add_custom_7")] * 3 + memsets
    assert eval(client(kinds)) == [(2, "add_custom_7")] * 3
    assert client(f"SIZE = 1 << 20\n{MSPTI}\nprint(code)").strip() == "999"  # a buffer of 2 MiB is the least


def test_the_headers_hold_the_layouts(emulated_cann: dict[str, str], tmp_path: Path) -> None:
    home = Path(emulated_cann["ASCEND_HOME_PATH"])
    (tmp_path / "a.cpp").write_text(
        '#include "acl/acl.h"\n#include "mspti/mspti.h"\n#include "runtime/rt.h"\n'
        "namespace Adx { void AdumpPrintWorkSpace(const void*, const size_t, aclrtStream, const char*); }\n"
        'int main() { Adx::AdumpPrintWorkSpace(nullptr, 1, nullptr, "x"); return aclInit(nullptr); }\n'
    )
    names = "tiling_api graph_base graph c_sec register opp_registry ascendalog platform ascendcl runtime ascend_dump"
    link = [f"-l{name}" for name in names.split()]
    command = ["g++", tmp_path / "a.cpp", f"-I{home / 'include'}", f"-L{home / 'lib64'}", *link, "-o", tmp_path / "a"]
    subprocess.run(command, check=True)
    subprocess.run([tmp_path / "a"], check=True, env={**os.environ, **emulated_cann})


def test_the_tiling_headers_forward_to_the_product(emulated_cann: dict[str, str], tmp_path: Path) -> None:
    names = (
        "register/tilingdata_base.h exe_graph/runtime/storage_shape.h graph/types.h tiling/context/context_builder.h"
    )
    lines = [f'#include "{name}"' for name in [*names.split(), "tiling/platform/platform_ascendc.h"]]
    lines += ["using gert::TilingContext;", "using context_ascendc::ContextBuilder;"]
    (tmp_path / "t.cpp").write_text("#define _GLIBCXX_USE_CXX11_ABI 0\n" + "\n".join(lines) + "\n")
    include = f"-I{emulated_cann['ASCEND_HOME_PATH']}/include"
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", include, tmp_path / "t.cpp"], check=True)


# A program of its own with launches, as the application-level tuner starts them.
PROGRAM = """
#include <acl/acl.h>
#include <mskpp/kernel.h>
#include <cstdio>
#include <vector>
template <int Scale>
__global__ __aicore__ void scale_all(GM_ADDR data, int each) {
    float* x = reinterpret_cast<float*>(data) + GetBlockIdx() * each;
    for (int i = 0; i < each; ++i) x[i] = x[i] * Scale + GetBlockNum();
}
int main() {
    if (aclInit(nullptr) || aclrtSetDevice(0)) return 1;
    aclrtStream stream;
    aclrtCreateStream(&stream);
    std::vector<float> host(64, 2);
    void* device = nullptr;
    aclrtMalloc(&device, 256, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(device, 256, host.data(), 256, ACL_MEMCPY_HOST_TO_DEVICE);
    scale_all<3><<<8, nullptr, stream>>>(static_cast<GM_ADDR>(device), 8);
    if (int code = aclrtSynchronizeStream(stream)) return std::printf("%d %s", code, aclGetRecentErrMsg()), 2;
    aclrtMemcpy(host.data(), 256, device, 256, ACL_MEMCPY_DEVICE_TO_HOST);
    for (float x : host) if (x != 14) return std::printf("%f", x), 3;
    return aclrtFree(device) | aclrtDestroyStream(stream) | aclFinalize();
}
"""


@pytest.fixture(scope="session")
def program(emulated_cann: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "app.cpp").write_text(PROGRAM)
    options = ["-O2", "-std=c++17", "-xcce", "--cce-aicore-arch=dav-c220", "-mllvm", "-cce-aicore-stack-size=0x8000"]
    done = subprocess.run(
        ["bisheng", *options, folder / "app.cpp", "-lplatform", "-ltiling_api", "-o", folder / "app"],
        env={**os.environ, **emulated_cann},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "app"


def test_bisheng_sends_launches_to_the_streams(emulated_cann: dict[str, str], program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run([program], check=True, env={**os.environ, **emulated_cann, "EMULATED_CANN_LOG": str(log)})
    assert "# kernel scale_all ran 8 blocks on device 0 stream 1" in log.read_text()


def _msprof(environment: dict[str, str], *words: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = ["msprof", *map(str, words)]
    return subprocess.run(command, env={**os.environ, **environment, **more}, capture_output=True, text=True)


def test_msprof_writes_the_times(emulated_cann: dict[str, str], program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    more = {"EMULATED_CANN_KERNEL_NS": "scale_all:14982", "EMULATED_CANN_LOG": str(log)}
    done = _msprof(emulated_cann, "op", "--warm-up=2", f"--output={tmp_path}", program, **more)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.rsplit("Profiling results saved in ", 1)[1].strip())
    assert folder.name.startswith("OPPROF_") and folder.parent == tmp_path
    header, row = list(csv.reader((folder / "OpBasicInfo.csv").read_text().splitlines()))
    assert header[2] == "Task Duration(us)" and len(header) == 9
    assert row[0] == "scale_all" and float(row[2]) == 14.982 and row[3] == "8"
    assert log.read_text().count("# kernel scale_all") == 3


SEVERAL = PROGRAM.replace(
    "    if (int code",
    """    twice<<<2, nullptr, stream>>>(static_cast<GM_ADDR>(device));
    other::twice<<<3, nullptr, stream>>>(static_cast<GM_ADDR>(device));
    if (int code""",
).replace(
    "int main",
    """__global__ __aicore__ void twice(GM_ADDR) {}
namespace other { __global__ __aicore__ void twice(GM_ADDR) {} }
int main""",
)


def _rows(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.rsplit("Profiling results saved in ", 1)[1].strip())
    return list(csv.reader((folder / "OpBasicInfo.csv").read_text().splitlines()))


def test_msprof_has_a_row_for_each_kernel(emulated_cann: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "app.cpp").write_text(SEVERAL)
    command = ["bisheng", tmp_path / "app.cpp", "-o", tmp_path / "app"]
    subprocess.run(command, env={**os.environ, **emulated_cann}, check=True)
    more = {"EMULATED_CANN_KERNEL_NS": "scale_all:5000,twice:1"}
    words = ["op", "--warm-up=0", f"--output={tmp_path}"]

    def rows(*options: str, **extra: str) -> list[list[str]]:
        return _rows(_msprof(emulated_cann, *words, *options, tmp_path / "app", **more, **extra))

    header, *found = rows()
    assert [row[:4] for row in found] == [
        ["scale_all", "vector", "5.000000", "8"],
        ["twice", "vector", "0.001000", "2"],
        ["twice", "vector", "0.001000", "3"],
    ]
    assert [row[3] for row in rows("--kernel-name=twice")[1:]] == ["2", "3"]
    assert [row[3] for row in rows("--kernel-name=twice", "--launch-count=1")[1:]] == ["2"]
    old, *found = rows(EMULATED_MSPROF_COLUMNS="old")
    assert header[4] == "Mix Block Dim" and old == header[:4] + header[5:]
    assert found[0][:4] == ["scale_all", "vector", "5.000000", "8"] and len(found[0]) == 8


def test_msprof_fails_for_one_program_only(emulated_cann: dict[str, str], program: Path, tmp_path: Path) -> None:
    words = ["op", "--warm-up=0", f"--output={tmp_path}", program]
    assert len(_rows(_msprof(emulated_cann, *words, EMULATED_MSPROF_FAIL="exit=7@other"))) == 2
    assert _msprof(emulated_cann, *words, EMULATED_MSPROF_FAIL="exit=7@app").returncode == 7
    assert _rows(_msprof(emulated_cann, *words, EMULATED_MSPROF_FAIL="text@app"))[1][2] == "N/A"


def test_msprof_hangs_as_told(emulated_cann: dict[str, str], program: Path) -> None:
    environment = {**os.environ, **emulated_cann, "EMULATED_MSPROF_FAIL": "hang"}
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["msprof", "op", program], env=environment, timeout=2, capture_output=True)


@pytest.mark.parametrize("fault", ["exit", "silent", "nofolder", "nocsv", "empty", "header", "zero", "text"])
def test_msprof_fails_as_told(emulated_cann: dict[str, str], program: Path, tmp_path: Path, fault: str) -> None:
    words = ["op", "--warm-up=0", f"--output={tmp_path}", program]
    done = _msprof(emulated_cann, *words, EMULATED_MSPROF_FAIL=fault)
    assert (done.returncode == 0) == (fault != "exit")
    assert ("saved in" in done.stdout) == (fault not in ("exit", "silent"))
    tables = list(tmp_path.glob("OPPROF_*/OpBasicInfo.csv"))
    lines = {"empty": 0, "header": 1, "zero": 2, "text": 2, "silent": 2}
    assert [len(table.read_text().splitlines()) for table in tables] == ([lines[fault]] if fault in lines else [])


def test_msprof_wants_a_kernel(emulated_cann: dict[str, str], program: Path, tmp_path: Path) -> None:
    assert _msprof(emulated_cann, "op", "--warm-up=501", program).returncode == 1
    done = _msprof(emulated_cann, "op", "--warm-up=0", f"--output={tmp_path}", "--kernel-name=other", program)
    assert done.returncode == 1 and "no kernel other was launched" in done.stderr
    done = _msprof(emulated_cann, "op", "--launch-count=0", program)
    assert done.returncode == 1 and "--launch-count=0: 1 to 100" in done.stderr
    done = _msprof(emulated_cann, "op", tmp_path / "none")
    assert done.returncode == 1 and "none cannot be started: No such file" in done.stderr
    assert _msprof(emulated_cann, "op", "--warm-up=0", "/bin/true").returncode == 1
