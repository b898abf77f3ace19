# SPDX-License-Identifier: Apache-2.0
"""Devices that a candidate breaks: what follows finds them whole. On the emulated toolkit."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from utils.kernels import python, write

from mskpp.errors import InputError, LaunchError, TimeLimitError
from mskpp.launcher import KernelInvokeConfig, Launcher, compile
from mskpp.launcher.process import Limits, Stop
from mskpp.optune.device import Device, DeviceProcess, HostDevice

SOURCE = """
extern "C" void emulated_cann_poison();
__global__ __aicore__ void twice(GM_ADDR x) {
    if (KIND == 1) emulated_cann_poison();
    for (volatile int go = KIND == 2; go;) {}
    float* values = reinterpret_cast<float*>(x);
    values[0] *= 2;
}
"""
INNOCENT, BREAKS, HANGS = 0, 1, 2
KEYWORDS: dict[str, Any] = {"blockdim": 1, "timeout": 20000}
Candidate = Callable[[int], Path]


@pytest.fixture
def candidate(tmp_path: Path, emulated_cann: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Candidate:
    """candidate(kind): the compiled kernel. The call log is in tmp_path/calls, the devices' state in tmp_path/state."""
    (tmp_path / "state").mkdir()
    more = {"EMULATED_CANN_STATE": str(tmp_path / "state"), "EMULATED_CANN_LOG": str(tmp_path / "calls")}
    for name, value in {**emulated_cann, **more, "EMULATED_CANN_KERNEL_NS": "twice:5000"}.items():
        monkeypatch.setenv(name, value)

    def compiled(kind: int) -> Path:
        source = write(tmp_path / f"twice{kind}.cpp", f"#define KIND {kind}\n{SOURCE}")
        launch = Launcher(KernelInvokeConfig(str(source), "twice")).code_gen(str(tmp_path / f"launch{kind}.cpp"))
        output = tmp_path / f"twice{kind}.so"
        options = ["-O0", "--cce-aicore-arch=dav-c220"]
        compile(gen_file=launch, output_bin_path=str(output), options=options, backend="ascend")
        return output

    return compiled


@pytest.fixture
def device() -> Iterator[DeviceProcess]:
    one = DeviceProcess(0, Limits())
    yield one
    one.close()


def resets(tmp_path: Path) -> int:
    return (tmp_path / "calls").read_text().count("aclrtResetDeviceForce(0) = ")


def works(device: Device, library: Path) -> bool:
    (value,) = device.launch(library, [numpy.full(1, 3, numpy.float32)], **KEYWORDS)
    times = device.measure(library, [numpy.zeros(1, numpy.float32)], **KEYWORDS, repeat=2, warmup_us=1)
    return bool(value == 6) and times == [5000, 5000]


def test_innocents_after_one_that_breaks_its_device(
    device: DeviceProcess, candidate: Candidate, tmp_path: Path
) -> None:
    innocent, breaks = candidate(INNOCENT), candidate(BREAKS)
    assert works(device, innocent) and resets(tmp_path) == 0
    for number in (1, 2):
        with pytest.raises(LaunchError, match="twice has broken device 0"):
            device.launch(breaks, [numpy.zeros(1, numpy.float32)], **KEYWORDS)
        # At once: whoever is next finds it whole, also when it is no candidate.
        assert resets(tmp_path) == number and not list((tmp_path / "state").iterdir())
        assert works(device, innocent)


def test_the_device_is_whole_for_the_callers_own_launch(
    device: DeviceProcess, candidate: Candidate, tmp_path: Path
) -> None:
    innocent, breaks = candidate(INNOCENT), candidate(BREAKS)
    with pytest.raises(LaunchError, match="twice has broken device 0"):
        device.measure(breaks, [numpy.zeros(1, numpy.float32)], **KEYWORDS, repeat=1, warmup_us=1)
    device.close()
    own = f"""
    import numpy
    from mskpp.launcher import CompiledKernel
    x = numpy.ones(1, numpy.float32)
    CompiledKernel({str(innocent)!r}, backend="ascend")[1](x)
    print(x[0])
    """
    out, error = python(tmp_path, own, env=dict(os.environ)).communicate(timeout=100)
    assert out == "2.0\n", error


def test_a_device_is_reset_after_a_time_out(device: DeviceProcess, candidate: Candidate, tmp_path: Path) -> None:
    innocent, hangs = candidate(INNOCENT), candidate(HANGS)
    with pytest.raises(TimeLimitError, match="twice: the launch did not end within 200 ms"):
        device.launch(hangs, [numpy.zeros(1, numpy.float32)], blockdim=1, timeout=200)
    assert resets(tmp_path) == 1 and works(device, innocent)


def test_a_reset_that_fails_is_told_and_no_error_of_the_next(
    device: DeviceProcess,
    candidate: Candidate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    innocent, breaks = candidate(INNOCENT), candidate(BREAKS)
    monkeypatch.setenv("EMULATED_CANN_FAIL", "aclrtResetDeviceForce:1=507899")
    with caplog.at_level(logging.WARNING), pytest.raises(LaunchError, match="twice has broken device 0"):
        device.launch(breaks, [numpy.zeros(1, numpy.float32)], **KEYWORDS)
    assert "device 0 was not reset after a launch that failed: backend ascend: aclrtResetDeviceForce(0)" in caplog.text
    (tmp_path / "state" / "device0.error").unlink()  # it was nothing lasting
    assert works(device, innocent)


def test_nothing_is_reset_after_an_interrupt(candidate: Candidate, tmp_path: Path) -> None:
    breaks, stop = candidate(BREAKS), Stop()
    device = DeviceProcess(0, Limits(stop=stop))
    stop.set()
    with pytest.raises(LaunchError):
        device.launch(breaks, [numpy.zeros(1, numpy.float32)], **KEYWORDS)
    device.close()
    assert not (tmp_path / "calls").exists() or resets(tmp_path) == 0


def test_devices_have_names(device: DeviceProcess, candidate: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_CANN_SOC", "Ascend910B3")
    assert device.name() == "Ascend910B3"
    other = DeviceProcess(7, Limits())
    with pytest.raises(InputError, match="backend ascend: device_id is 7; allowed are 0 to 0"):
        other.name()
    other.close()
    host = HostDevice(Limits())
    assert host.name().endswith(f", {len(os.sched_getaffinity(0))} cores")
    host.close()
