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

RUN_KEYWORDS = ("profiling_cmd", "timeout")
LAUNCH_KEYWORDS = ("blockdim", "stream", "device_id", "timeout", "kernel_name", "repeat")


class Launched(BaseException):
    """Ends the recording run at the launch. No Exception: handlers of the user's let it through."""


@dataclass(frozen=True)
class Recording:
    """One launch, or one run of a program: what was compiled, how, and what it was called with."""

    config: KernelInvokeConfig | None  # None of a program
    callers: Any
    compilation: Compilation
    args: tuple[Any, ...]
    keywords: dict[str, Any]  # of a launch blockdim among them

    @property
    def source(self) -> Path:
        """The file with the marks."""
        return Path(self.compilation.source if self.config is None else self.config.kernel_src_file)


class StandIn:
    """A kernel, or a program, while nothing is compiled: a launch ends the run."""

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
    """Notes the generations, the compilations and the first launch of one run; ``program``: of a program."""

    def __init__(self, who: str, program: bool) -> None:
        self._who = who
        self._program = program
        self._generated: dict[str, tuple[Any, Any]] = {}
        self._launch: tuple[Compilation, tuple[Any, ...], dict[str, Any]] | None = None

    def generated(self, config: Any, callers: Any, path: Path) -> bool:
        self._generated[os.path.realpath(path)] = (config, callers)
        return not self._program

    def compiled(self, compilation: Compilation, *, shared: bool) -> Any:
        if self._program:
            return None if shared else StandIn(placed(compilation), self)
        if not shared:
            raise StateError(f"{self._who}: the function compiles a program; autotune_v2 tunes those")
        return StandIn(placed(compilation), self)

    def launched(self, compilation: Compilation, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if self._launch is None:  # a function may go on after Launched, and launch again
            self._launch = (compilation, args, keywords)

    def recording(self) -> Recording:
        """What was noted. StateError when the function did not launch what is tuned."""
        if self._launch is None:
            if self._program:
                raise StateError(
                    f"{self._who}: the function ran no program; it must call compile_executable() and executable(...), "
                    "itself or through others; compile_executable() must be called in the function, not before it"
                )
            raise StateError(
                f"{self._who}: the function launched no kernel; it must call compile() and kernel[blockdim](...), "
                "itself or through others; compile() must be called in the function, not before it; a function that "
                'models a kernel needs backend="model"'
            )
        compilation, args, keywords = self._launch
        if self._program:
            check_run(keywords, self._who)
            return Recording(None, None, compilation, args, keywords)
        found = self._generated.get(os.path.realpath(compilation.source))
        if found is None or not isinstance(found[0], KernelInvokeConfig):
            raise StateError(
                f"{self._who}: the function compiled {compilation.source}, which no "
                "Launcher(KernelInvokeConfig(...)).code_gen() wrote in this run; tuning needs the kernel's source"
            )
        check_keywords(keywords, f"{self._who}: {found[0].kernel_name}")
        return Recording(found[0], found[1], compilation, args, keywords)


def placed(compilation: Compilation) -> Compilation:
    """With absolute paths: the function may change its folder before it launches."""
    script = compilation.build_script
    return replace(
        compilation,
        build_script=os.path.abspath(script) if isinstance(script, str | os.PathLike) else script,
        source=os.path.abspath(compilation.source),
    )


def check_run(keywords: Mapping[str, Any], who: str) -> None:
    """What a program would refuse of every candidate."""
    for name in keywords:
        if name not in RUN_KEYWORDS:
            raise ArgumentError(f"{who}: the program's call has no keyword {name!r}; it has {', '.join(RUN_KEYWORDS)}")
    timeout = keywords.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise InputError(f"{who}: timeout is {timeout!r}; it must be a number of seconds above 0, or None")


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


def record(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], who: str, *, program: bool = False
) -> Recording:
    """Runs the function up to its launch, or its run of a program. Its own exceptions go through.

    What it did to the memory of its arguments until then is in the recording's, and is undone in the caller's: it will
    be done again when the function is run to its end.
    """
    recorder = Recorder(who, program)
    before = Snapshot([*args, dict(keywords)])
    with contextlib.suppress(Launched), observed_by(recorder):
        function(*args, **keywords)
    recording = recorder.recording()
    as_launched = copies(recording.args)
    before.restore()
    return replace(recording, args=tuple(as_launched))


class Replay:
    """Gives the function what was found where it asks for what was tuned, and the rest as ever."""

    def __init__(self, recording: Recording, found: Any) -> None:
        self._recording = recording
        self._found = found
        self._paths: set[str] = set()
        if recording.config is None:
            self._paths.add(os.path.realpath(recording.source))

    def generated(self, config: Any, callers: Any, path: Path) -> bool:
        tuned = self._recording.config
        if tuned is None:
            return False
        where = os.path.realpath(path)
        self._paths.discard(where)
        if not isinstance(config, KernelInvokeConfig):
            return False
        if (config.kernel_src_file, config.kernel_name) != (tuned.kernel_src_file, tuned.kernel_name):
            return False
        self._paths.add(where)
        return True

    def compiled(self, compilation: Compilation, *, shared: bool) -> Any:
        is_tuned = shared == (self._recording.config is not None)
        return self._found if is_tuned and os.path.realpath(compilation.source) in self._paths else None


def replay(
    recording: Recording, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], found: Any
) -> Any:
    """Runs the function for real with that kernel or program; what it returns."""
    with observed_by(Replay(recording, found)):
        return function(*args, **keywords)
