# SPDX-License-Identifier: Apache-2.0
"""What a user's function launches, learnt by running it with the launcher observed.

The function is run until it launches its kernel: nothing is compiled and nothing runs. Later it is run once more, and
then gets the winner for the kernel it asks for, so that its own code sees the winner's results.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mskpp.errors import ArgumentError, InputError, StateError
from mskpp.launcher.config import KernelInvokeConfig
from mskpp.launcher.kernel import whole_number
from mskpp.launcher.observation import Compilation, observed_by
from mskpp.optune.outputs import Snapshot, copies

LAUNCH_KEYWORDS = ("blockdim", "stream", "device_id", "timeout", "kernel_name", "repeat")


class Launched(BaseException):
    """Ends the recording run at the launch. No Exception: handlers of the user's let it through."""


@dataclass(frozen=True)
class Recording:
    """One launch: what was compiled, how, and what it was called with."""

    config: KernelInvokeConfig
    callers: Any
    compilation: Compilation
    args: tuple[Any, ...]
    keywords: dict[str, Any]  # blockdim among them

    @property
    def source(self) -> Path:
        return Path(self.config.kernel_src_file)


class StandIn:
    """A kernel while nothing is compiled: a launch ends the run."""

    def __init__(self, compilation: Compilation, recorder: Recorder) -> None:
        self._compilation = compilation
        self._recorder = recorder

    def __getitem__(self, blockdim: int) -> Callable[..., None]:
        return lambda *args, **keywords: self.launch(*args, blockdim=blockdim, **keywords)

    def __call__(self, *args: Any, **keywords: Any) -> None:
        self.launch(*args, **keywords)

    def launch(self, *args: Any, **keywords: Any) -> None:
        self._recorder.launched(self._compilation, args, keywords)
        raise Launched


class Recorder:
    """Notes the generations, the compilations and the first launch of one run."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._generated: dict[str, tuple[Any, Any]] = {}
        self._launch: tuple[Compilation, tuple[Any, ...], dict[str, Any]] | None = None

    def generated(self, config: Any, callers: Any, path: Path) -> bool:
        self._generated[os.path.realpath(path)] = (config, callers)
        return True

    def compiled(self, compilation: Compilation, *, shared: bool) -> Any:
        if not shared:
            raise StateError(f"{self._who}: the function compiles a program; autotune_v2 tunes those")
        return StandIn(compilation, self)

    def launched(self, compilation: Compilation, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if self._launch is None:  # a function may go on after Launched, and launch again
            self._launch = (compilation, args, keywords)

    def recording(self) -> Recording:
        """What was noted. StateError when the function did not launch a generated kernel."""
        if self._launch is None:
            raise StateError(
                f"{self._who}: the function launched no kernel; it must call compile() and kernel[blockdim](...), "
                "itself or through others"
            )
        compilation, args, keywords = self._launch
        found = self._generated.get(os.path.realpath(compilation.source))
        if found is None or not isinstance(found[0], KernelInvokeConfig):
            raise StateError(
                f"{self._who}: the function compiled {compilation.source}, which no "
                "Launcher(KernelInvokeConfig(...)).code_gen() wrote in this run; tuning needs the kernel's source"
            )
        check_keywords(keywords, f"{self._who}: {found[0].kernel_name}")
        return Recording(found[0], found[1], compilation, args, keywords)


def check_keywords(keywords: Mapping[str, Any], who: str) -> None:
    """What a launch would refuse of every candidate."""
    for name in keywords:
        if name not in LAUNCH_KEYWORDS:
            raise ArgumentError(f"{who}: the launch has no keyword {name!r}; it has {', '.join(LAUNCH_KEYWORDS)}")
    if "blockdim" not in keywords:
        raise ArgumentError(f"{who}: the kernel was called without a blockdim; write kernel[blockdim](...)")
    whole_number(keywords["blockdim"], f"{who}: blockdim", 1, (1 << 32) - 1)
    if whole_number(keywords.get("timeout", -1), f"{who}: timeout", -1, (1 << 31) - 1) == 0:
        raise InputError(f"{who}: timeout is 0 ms; give more, or -1 for no limit")


def record(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], who: str) -> Recording:
    """Runs the function up to its launch. Its own exceptions go through.

    What it did to the memory of its arguments until then is in the recording's, and is undone in the caller's: it will
    be done again when the function is run to its end.
    """
    recorder = Recorder(who)
    before = Snapshot([*args, dict(keywords)])
    with contextlib.suppress(Launched), observed_by(recorder):
        function(*args, **keywords)
    recording = recorder.recording()
    as_launched = copies(recording.args)
    before.restore()
    return replace(recording, args=tuple(as_launched))


class Replay:
    """Gives the function the kernel that was found where it asks for the one that was tuned, and others as ever."""

    def __init__(self, recording: Recording, kernel: Any) -> None:
        self._config = recording.config
        self._kernel = kernel
        self._paths: set[str] = set()

    def generated(self, config: Any, callers: Any, path: Path) -> bool:
        where = os.path.realpath(path)
        self._paths.discard(where)
        if not isinstance(config, KernelInvokeConfig):
            return False
        wanted = (self._config.kernel_src_file, self._config.kernel_name)
        if (config.kernel_src_file, config.kernel_name) != wanted:
            return False
        self._paths.add(where)
        return True

    def compiled(self, compilation: Compilation, *, shared: bool) -> Any:
        return self._kernel if shared and os.path.realpath(compilation.source) in self._paths else None


def replay(
    recording: Recording, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], kernel: Any
) -> Any:
    """Runs the function for real with that kernel; what it returns."""
    with observed_by(Replay(recording, kernel)):
        return function(*args, **keywords)
