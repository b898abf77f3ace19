# SPDX-License-Identifier: Apache-2.0
"""What a tuning says of mistakes in its arguments, before anything is compiled, and of what it found."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.kernels import FAST

from mskpp.errors import ArgumentError, InputError, StateError
from mskpp.launcher import KernelInvokeConfig, Launcher, compile
from mskpp.optune.decorators import Wishes, autotune, autotune_v2, lines, overriding
from mskpp.optune.names import name_of
from mskpp.optune.plan import Plan
from mskpp.optune.reference import Reference
from mskpp.optune.results import MEASURED, NOT_TRIED, Trial, TuneResult

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def said(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"predict": lambda tile: 1.0}, "predict is <lambda>,"),
        ({"top_k": 3}, "top_k is 3,"),
        ({"reference": print}, "reference is print,"),
        ({"flush_cache": True}, "flush_cache is True,"),
        ({"strategy": "model-ranked"}, "strategy is 'model-ranked',"),
        ({"device_ids": [1]}, "device_ids is [1],"),
    ],
)
def test_what_the_model_has_no_use_for(given: dict[str, Any], words: str) -> None:
    (name,) = given
    text = said(InputError, lambda: autotune([{"tile": 1}], backend="model", **given))
    assert text.startswith(f"autotune: {words} which is for kernels that are compiled; ")
    assert text.endswith(f'backend="model" compiles and runs none: leave out {name} or backend')


def test_wishes_that_the_model_has_no_use_for() -> None:
    def work(tile: int) -> float:
        return float(tile)

    with overriding(Wishes(top_k=3)):
        assert "top_k is 3, which is for" in said(InputError, autotune([{"tile": 1}], backend="model")(work))


def test_configurations_of_a_model_may_be_anything(capsys: pytest.CaptureFixture[str]) -> None:
    @autotune(space={"shape": [(1, 2), (3, 4)], "mode": [None, ["x"]]}, backend="model")
    def work(shape: tuple[int, int], mode: Any) -> float:
        return float(math.prod(shape)) + (mode is None)

    result = work()
    assert result.best is not None and result.best.config == {"shape": (1, 2), "mode": ["x"]}
    assert result.size == 4 and "No.0: 3.000μs, {'shape': (1, 2), 'mode': None}\n" in capsys.readouterr().out


def test_parameters_that_the_space_has() -> None:
    """A model whose backend was forgotten; and a kernel's function that asks for what goes into the source."""

    def model(n: int, tile: int, other: int = 3) -> None: ...

    assert said(ArgumentError, lambda: autotune([{"tile": 1, "other": 2}])(model)(5)) == (
        "autotune: model has the parameters tile, which the call does not give; the space puts their values into the "
        "source of a kernel, so the function must do without them. A function that models a kernel takes them with "
        'backend="model"'
    )
    text = said(ArgumentError, lambda: autotune_v2([{"tile": 1}])(model)(5))
    assert text.startswith("autotune_v2: model has the parameters tile") and text.endswith("must do without them.")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'tile'"):
        autotune([{"else": 1}])(model)(5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'strange'"):
        autotune([{"tile": 1}])(model)(5, strange=1)


def test_a_program_that_is_not_run() -> None:
    text = said(StateError, lambda: autotune_v2([{"A": 1}])(lambda: None)())
    assert text.endswith("compile_executable() must be called in the function, not before it")


@pytest.mark.parametrize("seconds", [10**400, math.inf, math.nan, 0, -1, 1 << 63])
def test_seconds_that_cannot_be(seconds: Any) -> None:
    assert "seconds is " in said(InputError, lambda: Plan("autotune", seconds=seconds))


@pytest.mark.parametrize(
    ("given", "expected"), [(np.int64(3), 3), (np.float32(0.5), 0.5), (np.float64(0.25), 0.25), (np.uint8(1), 1)]
)
def test_top_k_of_numpy(given: Any, expected: float) -> None:
    found = Plan("autotune", predict=print, top_k=given).top_k
    assert found == expected and isinstance(found, type(expected))


@pytest.mark.parametrize("given", [10**400, np.int64(0), np.float32(1.5), -1, math.nan])
def test_top_k_that_cannot_be(given: Any) -> None:
    kind = ArgumentError if given != given else InputError
    assert "top_k is" in said(kind, lambda: Plan("autotune", predict=print, top_k=given))


@pytest.mark.parametrize("given", [True, np.bool_(True), "3", np.array([3])])
def test_top_k_that_is_no_number(given: Any) -> None:
    assert "it must be a number" in said(ArgumentError, lambda: Plan("autotune", predict=print, top_k=given))


# ------------------------------------------------------------------------------------------------ references


def tuned(source: Path, reference: Callable[..., Any]) -> None:
    @autotune([{"MUCH": 1}], warmup=1, reference=reference)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        compile(None, Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen(), options=FAST)[2](x, y, z, n)

    x = np.ones(4, np.float32)
    work(x, x, np.zeros(4, np.float32), 4)


def test_a_reference_that_raises_or_returns(source: Path) -> None:
    def bad(x: Any, y: Any) -> None: ...

    text = said(InputError, lambda: tuned(source, bad))
    assert text.startswith("autotune: reference: bad: TypeError: ") and "takes 2 positional arguments" in text
    assert text.endswith("; it is called with copies of the kernel's arguments (ndarray, ndarray, ndarray, int)")
    text = said(ArgumentError, lambda: tuned(source, lambda x, y, z, n: x + y))
    assert text.startswith(
        "autotune: reference: it returned an ndarray; write the results into its arguments, z[:] = ...; it is called"
    )


@pytest.mark.parametrize(
    "reference", [lambda x, y, z, n: np.add(x, y, out=z), lambda x, y, z, n: np.add(x, y, out=z[:])[:2]]
)
def test_a_reference_may_return_what_it_wrote_to(source: Path, reference: Any) -> None:
    tuned(source, reference)


def test_a_reference_is_known_by_its_code() -> None:
    """What tells references apart in the store must not be the wrapping's."""

    class Called:
        def __call__(self) -> None: ...

    def function() -> None: ...

    one = Reference(function, "autotune")
    assert one.__code__ is function.__code__ and one.__closure__ is None and one.__defaults__ is None
    assert (one.__module__, one.__qualname__, name_of(one)) == (__name__, function.__qualname__, "function")
    assert Reference(Called(), "autotune").__qualname__ == Called.__qualname__
    partial = functools.partial(function)
    assert Reference(partial, "autotune").func is function
    assert not hasattr(Reference(Called(), "autotune"), "nothing")


# ------------------------------------------------------------------------------------------------ relative paths


def test_a_function_that_changes_its_folder(source: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()

    @autotune([{"MUCH": 1}, {"MUCH": 2}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        os.chdir(tmp_path)
        kernel = compile(None, Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen(), options=FAST)
        os.chdir("elsewhere")
        kernel[2](x, y, z, n)

    x, z = np.ones(4, np.float32), np.zeros(4, np.float32)
    try:
        result = work(x, x, z, 4)
    finally:
        os.chdir(tmp_path)
    assert not result.failures and list(z) == [2] * 4
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_build_script_that_is_given_relatively(source: Path, tmp_path: Path, copying: str) -> None:
    (tmp_path / "elsewhere").mkdir()

    @autotune([{"MUCH": 1}], warmup=1)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        os.chdir(tmp_path)
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
        kernel = compile(os.path.relpath(copying), code)
        os.chdir("elsewhere")
        kernel[2](x, y, z, n)

    x, z = np.ones(4, np.float32), np.zeros(4, np.float32)
    try:
        assert not work(x, x, z, 4).failures
    finally:
        os.chdir(tmp_path)
    assert list(z) == [2] * 4


# ------------------------------------------------------------------------------------------------ what is printed


def test_lines_of_the_end() -> None:
    trials = (
        Trial(0, {"a": 1}, MEASURED, 1.0, 1.0, 1.0, 3, known=True),
        Trial(1, {"a": 2}, MEASURED, 2.0, 2.0, 2.0, 3),
        Trial(2, {"a": 3}, NOT_TRIED),
    )

    def end(**more: Any) -> list[str]:
        return list(lines(TuneResult(trials, "host", "k", (0,), **more), "μs"))[2:]

    assert end() == ["Best config: No.0", "Known from the store: 1 of 3"]
    assert end(complete=False)[2:] == ["The search is incomplete; 1 were not tried"]
    assert end(complete=False, size=4800)[2:] == ["The search is incomplete: 2 of at most 4,800 were tried"]
