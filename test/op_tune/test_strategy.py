# SPDX-License-Identifier: Apache-2.0
"""The order of configurations: Optuna's, a prediction's, what top_k leaves out and when it is widened; executors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from utils.kernels import FAST, running

from mskpp.errors import ArgumentError, InputError, StateError
from mskpp.launcher import CompiledKernel, KernelInvokeConfig, Launcher, compile
from mskpp.optune.decorators import Wishes, autotune, overriding
from mskpp.optune.plan import Plan
from mskpp.optune.results import TuneResult
from mskpp.optune.space import Space
from mskpp.optune.strategy import Walk
from mskpp.optune.tuner import ranks

pytestmark = pytest.mark.usefixtures("own_temporary_folder")


def walked(space: Space, plan: Plan, time_of: Callable[[dict[str, Any]], float | None], **more: Any) -> list[int]:
    walk = Walk(space, plan, **more)
    out = []
    while (number := walk.ask()) is not None:
        out.append(number)
        walk.tell(number, time_of(space.config(number)))
    return out


# ------------------------------------------------------------------------------------------------------------ Optuna

BOWL = {"a": list(range(30)), "b": [2**i for i in range(8)], "c": ["x", "y", "z"]}


def bowl(config: dict[str, Any]) -> float:
    return 1 + (config["a"] - 21) ** 2 + (config["b"] - 32) ** 2 / 10 + 50 * (config["c"] != "y")


def test_optuna_learns() -> None:
    space = Space(None, BOWL, None, "autotune")
    found, blind = [], []
    for seed in range(5):
        plan = Plan("autotune", strategy="optuna", trials=60, seed=seed)
        numbers = walked(space, plan, bowl)
        assert len(set(numbers)) == len(numbers) == 60
        found.append(min(bowl(space.config(n)) for n in numbers))
        at_random = walked(space, Plan("autotune", strategy="random", trials=60, seed=seed), bowl)
        blind.append(min(bowl(space.config(n)) for n in at_random))
    assert sum(found) < sum(blind) / 2


def test_optuna_is_the_same_for_a_seed() -> None:
    space = Space(None, BOWL, None, "autotune")
    plan = Plan("autotune", strategy="optuna", trials=25, seed=3)
    assert walked(space, plan, bowl) == walked(space, plan, bowl)


@pytest.mark.parametrize("configs", [True, False])
def test_optuna_comes_to_an_end(configs: bool) -> None:
    """Each allowed configuration once, whatever it proposes; failures are told too."""
    values = {"a": [1, 2, 3], "b": [True, False]}
    where = (lambda a, b: a != 2) if not configs else None
    listed = [{"a": a} for a in range(7)] if configs else None
    space = Space(listed, None if configs else values, where, "autotune")
    plan = Plan("autotune", strategy="optuna")
    numbers = walked(space, plan, lambda config: None if config["a"] == 1 else float(config["a"]))
    assert sorted(numbers) == (list(range(7)) if configs else [0, 1, 4, 5])


def test_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(StateError, match="strategy='optuna' needs Optuna, which is not installed"):
        Walk(Space([{"a": 1}], None, None, "autotune"), Plan("autotune", strategy="optuna"))


# -------------------------------------------------------------------------------------------------------- predictions

RANKED = Space([{"a": a} for a in range(10)], None, None, "autotune")
GUESS: dict[int, float | None] = {n: abs(n - 6.2) for n in range(10)}


def test_the_best_predicted_first() -> None:
    plan = Plan("autotune", predict=lambda a: 1.0)
    assert walked(RANKED, plan, lambda c: 1.0, predictions=GUESS) == [6, 7, 5, 8, 4, 9, 3, 2, 1, 0]
    some = {**GUESS, 6: None, 7: None}
    assert walked(RANKED, plan, lambda c: 1.0, predictions=some)[-2:] == [6, 7]


@pytest.mark.parametrize(("top_k", "count"), [(1, 1), (3, 3), (0.01, 1), (0.25, 2), (0.999, 10), (100, 10)])
def test_top_k(top_k: Any, count: int) -> None:
    plan = Plan("autotune", predict=lambda a: 1.0, top_k=top_k)
    walk = Walk(RANKED, plan, GUESS)
    numbers = []
    while (number := walk.ask()) is not None:
        numbers.append(number)
    assert len(numbers) == count
    assert walk.widen() == (count < 10)
    assert (walk.ask() is not None) == (count < 10)


def test_ranks() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"top_k": 3}, InputError, "top_k=3 needs predict"),
        ({"strategy": "model-ranked"}, InputError, "strategy='model-ranked' needs predict"),
        (
            {"predict": len, "strategy": "random"},
            InputError,
            "predict is given, and strategy is 'random'; leave it out",
        ),
        ({"predict": len, "top_k": "3"}, ArgumentError, "top_k is str; it must be a number"),
        ({"predict": len, "top_k": 0}, InputError, "top_k is 0; it must be an int from 1, or a share"),
        ({"predict": len, "top_k": 1.0}, InputError, "top_k is 1.0; it must be an int from 1, or a share"),
        ({"predict": len, "top_k": True}, ArgumentError, "top_k is bool"),
        ({"predict": 3}, ArgumentError, "predict is int; it must be a function"),
        ({"executor": 3}, ArgumentError, "executor is int; it must be a concurrent.futures.Executor"),
        ({"store": 1}, ArgumentError, "store is int; it must be a bool"),
        ({"flush_cache": 1}, ArgumentError, "flush_cache is int; it must be a bool"),
    ],
)
def test_refused_plans(given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        Plan("autotune", **given)
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------ with real candidates


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch, prebuilt: Path) -> dict[int, int]:
    """Times in ns by the candidate's number, in place of measuring; nothing is compiled."""
    found: dict[int, int] = {}

    def measure(self: CompiledKernel, *values: Any, repeat: int, **keywords: Any) -> list[int]:
        return [found[int(Path(self.module_path).parent.name)]] * repeat

    monkeypatch.setattr(CompiledKernel, "measure", measure)
    return found


def tuned(script: str | None, configs: Any = None, **plan: Any) -> TuneResult:
    @autotune(configs, **plan)
    def work(x: Any, y: Any, z: Any, n: int) -> None:
        code = Launcher(KernelInvokeConfig("work.cpp", "work")).code_gen()
        compile(script, code, options=FAST if script is None else ())[2](x, y, z, n)

    x, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    found = work(x, x, z, 64)
    np.testing.assert_array_equal(z, 2 * x)
    return found


SIXTEEN = [{"MUCH": i} for i in range(16)]


def good(MUCH: int) -> float:
    return 1.0 + MUCH


def bad(MUCH: int) -> float:
    return 100.0 - MUCH


def test_a_good_prediction_saves_compilations(source: Path, copying: str, times: dict[int, int]) -> None:
    times.update({i: 1000 * (i + 1) for i in range(16)})
    found = tuned(copying, SIXTEEN, predict=good, top_k=4)
    assert [trial.number for trial in found] == [0, 1, 2, 3] and found.correlation == 1
    assert found.ties == (0,) and not found.complete
    assert [trial.predicted_us for trial in found] == [1.0, 2.0, 3.0, 4.0]


def test_a_poor_one_is_not_relied_on(
    source: Path, copying: str, times: dict[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    times.update({i: 1000 * (i + 1) for i in range(16)})
    found = tuned(copying, SIXTEEN, predict=bad, top_k=4)
    assert found.ties == (0,) and found.complete and len(found) == 16 and found.correlation == -1
    assert "prediction and measurement agree poorly (-1.00); more are tried than top_k" in caplog.text


def test_where_the_best_predicted_fail(source: Path, copying: str, times: dict[int, int]) -> None:
    times.update({i: 1000 if i > 1 else 0 for i in range(16)})
    found = tuned(copying, SIXTEEN, predict=good, top_k=2)
    assert len(found) == 4 and found.ties == (2, 3)


def test_a_prediction_that_fails(
    source: Path, copying: str, times: dict[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    times.update(dict.fromkeys(range(16), 1000))

    def partly(MUCH: int) -> float:
        if MUCH < 14:
            raise ValueError("no such tile")
        return MUCH

    found = tuned(copying, SIXTEEN, predict=partly, top_k=3)
    assert [trial.number for trial in found] == [0, 14, 15]
    assert (
        "predict failed for 14 of 16 configurations, which come last; 14 times: ValueError: no such tile" in caplog.text
    )
    with pytest.raises(InputError, match="predict: partly takes no keyword 'KIND'; its parameters are: MUCH"):
        tuned(copying, [{"KIND": 0}], predict=partly)


def test_optuna_on_a_kernel(source: Path, copying: str, times: dict[int, int]) -> None:
    times.update({i: 1000 + 100 * abs(i - 300) for i in range(1000)})
    found = tuned(copying, space={"MUCH": range(1000)}, strategy="optuna", trials=12, seed=1)
    assert len(found) == 12 and not found.complete


def test_wishes_go_before_what_the_decorator_says(source: Path, copying: str, times: dict[int, int]) -> None:
    times.update(dict.fromkeys(range(16), 1000))
    with overriding(Wishes(trials=3, strategy="random", seed=5, store=False)) as results:
        found = tuned(copying, SIXTEEN, trials=10)
    assert results == [found] and len(found) == 3 and not found.complete
    with pytest.raises(InputError, match="needs predict"), overriding(Wishes(top_k=3)):
        tuned(copying, SIXTEEN)


# ---------------------------------------------------------------------------------------------------------- executors


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_compiles(source: Path, times: dict[int, int], kind: Callable[[int], Executor]) -> None:
    times.update(dict.fromkeys(range(3), 1000))
    with kind(2) as executor:
        found = tuned(None, [{"MUCH": 1}, {"KIND": 1}, {"KIND": 0}], executor=executor)
    assert [trial.ending for trial in found] == ["measured", "does not compile", "measured"]
    assert found[1].reason.startswith("work.cpp:") and "kind 1 is not supported" in found[1].reason


class Broken(Executor):
    """It takes work and breaks."""

    def submit(self, *args: Any, **keywords: Any) -> Future[Any]:  # type: ignore[override]
        from concurrent.futures import BrokenExecutor

        found: Future[Any] = Future()
        found.set_exception(BrokenExecutor("a worker has died"))
        return found


def test_an_executor_that_breaks(source: Path) -> None:
    with pytest.raises(StateError, match="autotune: the executor broke: a worker has died"):
        tuned(None, [{"MUCH": 1}], executor=Broken())


def test_a_cluster_compiles_and_models(source: Path, times: dict[int, int], tmp_path: Path) -> None:
    """dask.distributed, as one would use a cluster: its executor compiles, and evaluates the model."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    import dask

    times.update({i: 1000 * (i + 1) for i in range(4)})
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "dask")}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        found = tuned(None, [{"MUCH": 3}, {"MUCH": 4}, {"KIND": 1}], executor=executor, predict=lambda **c: 1.0)
        assert [trial.ending for trial in found] == ["measured", "measured", "does not compile"]

        @autotune(space={"tile": range(1, 200)}, backend="model", executor=executor)
        def modelled(tile: int) -> float:
            return float(abs(tile - 70) + 1)

        best = modelled().best
        assert best is not None and best.config == {"tile": 70}
    assert not running(str(tmp_path / "dask"))
