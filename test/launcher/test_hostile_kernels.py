# SPDX-License-Identifier: Apache-2.0
"""Kernels that turn on the process that runs them: an error says so, and the next launch is right."""

from __future__ import annotations

import time
from pathlib import Path

import numpy
import pytest

from mskpp.errors import ArgumentError, LaunchError, TimeLimitError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile
from mskpp.launcher.arguments import overlapping

SOURCE = r"""
#include <mskpp/kernel.h>
#include <sys/socket.h>
#include <unistd.h>

template <class Body> void each_socket(Body body) {
    for (int file = 3; file < 256; ++file) {
        int type;
        socklen_t size = sizeof type;
        if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0) body(file);
    }
}
void say(const char* text) { each_socket([&](int file) { (void)!write(file, text, strlen(text)); }); }

extern "C" __global__ __aicore__ void hostile(GM_ADDR x, int how) {
    x[0] += 1;
    if (GetBlockIdx() != 0) return;
    switch (how) {
        case 1: for (int file = 3; file < 256; ++file) (void)!ftruncate(file, 0); break;
        case 2: for (int file = 3; file < 256; ++file) (void)!ftruncate(file, 0); abort();
        case 3: fork(); break;
        case 4: for (;;) { say(" "); usleep(50000); }
        case 5: say("junk\n"); break;
        case 6: say("[]\n"); break;
        case 7: say("{\"error\": null, \"number\": 2}\n"); break;
        case 8: say("\xff\xfe\n"); break;
        case 9: say(std::string(200000, '[').c_str()); say("\n"); break;
        case 10: for (std::string many(1 << 20, ' ');;) say(many.c_str());
        case 11: say("{\"error\": null, \"number\": 2, \"ns\": [\"x\"]}\n"); break;
    }
}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> CompiledKernel:
    folder = tmp_path_factory.mktemp("hostile")
    source = folder / "hostile.cpp"
    source.write_text(SOURCE)
    launch = Launcher(KernelInvokeConfig(str(source), "hostile")).code_gen(str(folder / "launch.cpp"))
    return compile(gen_file=launch, output_bin_path=str(folder / "hostile.so"), options=["-O1"], backend="host")


def is_well(kernel: CompiledKernel) -> bool:
    x = numpy.zeros(64, numpy.uint8)
    kernel[1](x, 0)
    return x.tolist() == [1] + [0] * 63


def test_shared_memory_cannot_be_cut(kernel: CompiledKernel) -> None:
    kernel[1](numpy.zeros(64, numpy.uint8), 1)
    with pytest.raises(LaunchError, match="block 0 crashed: SIGABRT"):
        kernel[1](numpy.zeros(64, numpy.uint8), 2)
    assert is_well(kernel)


def test_a_fork_of_the_kernels_answers_nothing(kernel: CompiledKernel) -> None:
    kernel.close()
    for how in (3, 0, 0, 3, 0, 0, 0):
        x = numpy.zeros(64, numpy.uint8)
        kernel[1](x, how)
        assert x[0] in ((1, 2) if how else (1,))
        time.sleep(0.02)


def test_a_trickle_of_bytes_does_not_stretch_the_time_limit(kernel: CompiledKernel) -> None:
    begin = time.monotonic()
    with pytest.raises(TimeLimitError, match="did not end within 400 ms; blocks that still ran: 0"):
        kernel[1](numpy.zeros(64, numpy.uint8), 4, timeout=400)
    assert time.monotonic() - begin < 10
    assert is_well(kernel)


@pytest.mark.parametrize("how", [5, 6, 7, 8, 9, 10, 11])
def test_what_is_no_answer(kernel: CompiledKernel, how: int) -> None:
    kernel.close()  # so that the launch is the second request
    x = numpy.zeros(64, numpy.uint8)
    with pytest.raises(
        LaunchError, match=r"^hostile: (the process that ran it sent what is no answer|0 of 1 launches)"
    ):
        kernel[1](x, how)
    assert not x.any()
    assert is_well(kernel)


def test_a_list_that_holds_itself(kernel: CompiledKernel) -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="a list"):
        kernel[1](endless, 0)


def test_many_arrays_take_no_quadratic_time(kernel: CompiledKernel) -> None:
    arrays = [numpy.zeros(1, numpy.uint8) for _ in range(8000)]
    begin = time.monotonic()
    kernel[1](arrays, 0)
    assert time.monotonic() - begin < 5


def test_overlaps_are_those_of_every_pair() -> None:
    random = numpy.random.default_rng(1)
    for _ in range(300):
        lows = random.integers(0, 30, 8)
        spans = [(int(low), int(low + random.integers(0, 8))) for low in lows]
        pairs = [
            any(a[0] < b[1] and b[0] < a[1] for k, b in enumerate(spans) if k != i and b[0] < b[1]) and a[0] < a[1]
            for i, a in enumerate(spans)
        ]
        assert overlapping(spans) == pairs


def test_no_room_is_an_error_of_the_launch(kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    assert is_well(kernel)
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", full)
        with pytest.raises(LaunchError, match="hostile: the launch could not be set up: No space left on device"):
            kernel[1](numpy.zeros(64, numpy.uint8), 0)
    assert is_well(kernel)


def test_no_room_for_the_copy_of_a_library(
    kernel: CompiledKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from mskpp.errors import FileError

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(FileError, match=r"CompiledKernel: .* cannot be copied to the temporary folder: No space left"):
        CompiledKernel(kernel.module_path, backend="host")
