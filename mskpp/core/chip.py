# SPDX-License-Identifier: Apache-2.0
"""Chip: the block that records a program and, at its end, schedules it and writes what was asked for."""

from __future__ import annotations

import logging
import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mskpp import _core
from mskpp.core import context, data, exploring
from mskpp.core.instructions import chip_instructions
from mskpp.core.place import at_user_line, shown
from mskpp.errors import ArgumentError, CapacityError, DeadlockError, FileError, InputError, StateError
from mskpp.log import at_least, logger

if TYPE_CHECKING:
    from mskpp.core.lint import Finding
    from mskpp.report.output import OutputFolder
    from mskpp.report.profiler import Profile
    from mskpp.report.result import Result

_LARGEST_SUMMARY_BYTES = 1 << 30


class Chip:
    """A chip to model on: ``with Chip("Ascend910B1") as chip:`` records what is issued inside, then schedules it.

    name: a chip of ``mskpp.chips()`` (case ignored; "910B4" and old spellings are accepted), or the path of a chip
    folder (docs/add_a_chip.md). debug_mode: write no files, log the order in which instructions join and leave pipes.
    strict: more live bytes than a local memory has are an error, not a warning.

    After the block ``chip.result`` holds the prediction. One Chip models one block. An exception inside the block
    passes through; nothing is scheduled or written then.
    Raises InputError for an unknown name, DataError for a folder that cannot be used, and at the end of the block
    FlagError, DeadlockError, CapacityError or FileError.
    """

    def __init__(self, name: str | os.PathLike[str], debug_mode: bool = False, strict: bool = False) -> None:
        if not isinstance(name, (str, os.PathLike)):
            raise at_user_line(ArgumentError, f"Chip: the name must be a str or a path, got {type(name).__name__}")
        if not isinstance(debug_mode, bool):
            raise at_user_line(ArgumentError, f"Chip: debug_mode must be a bool, got {type(debug_mode).__name__}")
        if not isinstance(strict, bool):
            raise at_user_line(ArgumentError, f"Chip: strict must be a bool, got {type(strict).__name__}")
        text = os.fspath(name)
        if not isinstance(text, str) or not text.isprintable() or not text:
            raise at_user_line(InputError, "Chip: the name must be a str of printable characters, at least one")
        text, strict = exploring.wished(text, strict)
        self._costs, self._instructions = self._loaded(text)
        self._debug = debug_mode
        self._strict = strict
        self._program: _core.Program | None = None
        self._recorded: _core.Program | None = None  # also when the block has ended or failed
        self._state = "new"
        self._hit_ratio: float = 0.0
        self._hit_ratio_changed = False  # after something was issued
        self._trace = self._metrics = False
        self._instr_log = True
        self._profile: Profile | None = None
        self._output: OutputFolder | None = None
        self._result: Result | None = None

    @staticmethod
    def _loaded(name: str) -> tuple[_core.Costs, dict[str, _core.Instruction]]:
        """The costs, and the instructions that the chip adds. Neither is ever changed."""
        explorer = exploring.current()
        folders = data.search_path()
        key = (name, *folders)
        if explorer is not None and key in explorer.chips:
            return explorer.chips[key]
        costs = _core.Costs.load(name, folders)
        found = costs, chip_instructions(costs)
        if explorer is not None:
            explorer.chips[key] = found
        return found

    # --- what the user sets ---

    def enable_trace(self) -> None:
        """Writes trace.json (for chrome://tracing, Perfetto, MindStudio Insight) at the end of the block."""
        self._require_open("enable_trace")
        self._trace = True
        self._reserve_unless_exploring()

    def enable_metrics(self) -> None:
        """Writes Pipe_statistic.csv, Instruction_statistic.csv and the pie page at the end, and prints a table."""
        self._require_open("enable_metrics")
        self._metrics = True
        self._reserve_unless_exploring()

    def set_cache_hit_ratio(self, config: Mapping[str, float]) -> None:
        """Sets the L2 cache hit ratio for what is issued from now on: ``{"cache_hit_ratio": 0.6}``.

        Allowed are 0 to 1; 0 at the start.
        Moves GM->L1 and anything->GM run at bandwidth * (h + (1 - h) / 4.5).
        """
        self._require_open("set_cache_hit_ratio")
        if not isinstance(config, Mapping) or set(config) != {"cache_hit_ratio"}:
            mapping = isinstance(config, Mapping)
            given = sorted(map(str, config)) if mapping else type(config).__name__
            raise at_user_line(
                InputError if mapping else ArgumentError,
                f'Chip: set_cache_hit_ratio takes {{"cache_hit_ratio": a number from 0 to 1}}, got {given}',
            )
        ratio = config["cache_hit_ratio"]
        if isinstance(ratio, bool) or not isinstance(ratio, numbers.Real):
            raise at_user_line(ArgumentError, f"Chip: cache_hit_ratio must be a number, got {type(ratio).__name__}")
        if not 0 <= ratio <= 1:
            raise at_user_line(InputError, f"Chip: cache_hit_ratio is {shown(ratio)}; allowed are 0 to 1")
        if self._program is not None and len(self._program) and float(ratio) != self._hit_ratio:
            self._hit_ratio_changed = True
        self._hit_ratio = float(ratio)
        if self._program is not None:
            self._program.set_cache_hit_ratio(self._hit_ratio)

    def set_prof_summary_path(self, csv: str | os.PathLike[str], *, operator: str | None = None) -> None:
        """Compares with a measurement: PipeUtilization.csv, op_summary*.csv, kernel_details*.csv or OpBasicInfo.csv of
        msprof, or the folder that has it. It is read at once; ``chip.result.comparison`` has the figures, and the pipe
        table two columns for each of its rows: ProfDuration(us)_0, ProfRatio_0 ...

        operator: which, by name or type, where the file has several.
        Raises InputError for a file that cannot be used or an operator that it does not have, FileError when it cannot
        be opened.
        """
        self._require_open("set_prof_summary_path")
        if not isinstance(csv, (str, os.PathLike)):
            raise at_user_line(
                ArgumentError, f"Chip: the summary path must be a str or a path, got {type(csv).__name__}"
            )
        text = os.fspath(csv)
        if not isinstance(text, str) or not text.isprintable() or not text:
            raise at_user_line(InputError, "Chip: the summary path is empty or has control characters")
        path = Path(text)
        if not path.is_dir():
            self._check_summary(path)
        from mskpp.report import profiler

        try:
            self._profile = profiler.read_profile(path, operator=operator)
        except (ArgumentError, InputError, FileError) as error:
            raise at_user_line(type(error), "Chip: " + str(error).removeprefix("profile: ")) from None

    @staticmethod
    def _check_summary(path: Path) -> None:
        if path.suffix.lower() != ".csv" or not path.is_file():
            raise at_user_line(InputError, f"Chip: summary '{path.name[:64]}' is not an existing .csv file")
        try:
            with path.open("rb") as file:
                first = file.read(1)
        except OSError as error:
            raise at_user_line(
                FileError, f"Chip: summary '{path.name[:64]}' cannot be read: {error.strerror}"
            ) from None
        if not first or path.stat().st_size > _LARGEST_SUMMARY_BYTES:
            raise at_user_line(InputError, f"Chip: summary '{path.name[:64]}' is empty or larger than 1 GiB")

    def disable_instr_log(self) -> None:
        """Keeps debug mode from logging every instruction."""
        self._instr_log = False

    # --- what the user reads ---

    @property
    def output_dir(self) -> str:
        """Absolute path of this block's output folder, made in the current directory at the first use.

        While a search explores (autotune with the model), an empty temporary folder, removed after the call.
        """
        explorer = exploring.current()
        if explorer is not None and self._output is None:
            return explorer.folder()
        return str(self._reserve().path)

    @property
    def result(self) -> Result:
        """The prediction. Raises StateError before the block has ended, and after one that could not be scheduled."""
        if self._result is None and self._state == "done" and self._recorded is not None:
            self._finish(self._recorded)  # it was put off
        if self._result is None:
            when = (
                "is ready when its block has ended" if self._state != "failed" else "does not exist: its block failed"
            )
            raise at_user_line(StateError, f"Chip: the result of {self.name} {when}")
        return self._result

    def lint(self) -> list[Finding]:
        """What is wrong or needless about the flags of the block, errors first; found without scheduling.

        After the block, also one that ended with an error, or inside it, for what has been issued so far.
        docs/errors.md explains the kinds. Raises StateError before the block.
        """
        if self._recorded is None:
            raise at_user_line(StateError, f"Chip: lint() of {self.name} has nothing to look at before its block")
        from mskpp.core import lint

        return lint.findings(self._recorded)

    @property
    def name(self) -> str:
        """The chip's name as ``mskpp.chips()`` spells it."""
        return self._costs.name

    @property
    def notes(self) -> list[str]:
        """What this chip takes from another one's tables."""
        taken: dict[str, list[str]] = {}
        for table in ("mov", "mov_repeat", "mmad", "vec"):
            for source in self._costs.sources_of(table):
                if source != self.name:
                    taken.setdefault(source, []).append(table)
        return [f"{self.name} inherits costs from {source}: {', '.join(tables)}" for source, tables in taken.items()]

    def __repr__(self) -> str:
        costs = getattr(self, "_costs", None)  # also while an __init__ fails
        return "Chip(?)" if costs is None else f"Chip({costs.name!r})"

    # --- the block ---

    def __enter__(self) -> Chip:
        if self._state != "new":
            raise at_user_line(
                StateError, f"Chip: this {self.name} has already been entered; make a new Chip for a new block"
            )
        for note in self.notes if exploring.current() is None else ():
            logger.info("%s", note)
        self._program = self._recorded = _core.Program(self._costs)
        self._program.set_cache_hit_ratio(self._hit_ratio)
        self._state = "open"
        context.push(self, self._program)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        context.pop(self)
        program, self._program = self._program, None
        self._state = "failed"
        try:
            if kind is None and program is not None:
                if exploring.schedules():
                    self._finish(program)
                self._state = "done"
                exploring.ended(self)
        finally:
            if self._output is not None:
                self._output.close()

    def _finish(self, program: _core.Program) -> None:
        from mskpp.report import output, result

        program.finish()
        if exploring.current() is not None:
            explored = result.Result.of(self._costs, _core.schedule(program), self.notes)
            if self._strict:
                self._check_memory(explored)
            self._result = explored
            self._describe(self._result)
            return
        if self._debug:
            self._log_order(program)
        with output.progress(len(program)) as progress:
            timeline = _core.schedule(program)
            progress("scheduled")
            predicted = result.Result.of(self._costs, timeline, self.notes)
            self._check_memory(predicted)
            self._result = predicted
            self._describe(self._result)
            if not self._debug and (self._trace or self._metrics):
                output.write(self._reserve(), self._result, timeline, self._trace, self._metrics, progress)

    def _describe(self, predicted: Result) -> None:
        """What a result cannot see in the timeline."""
        predicted.cache_hit_ratio = None if self._hit_ratio_changed else self._hit_ratio
        predicted.compare(self._profile)

    def _check_memory(self, predicted: Result) -> None:
        from mskpp.report import memory

        if self._strict:
            refusal = memory.refusal_of(predicted.memory)
            if refusal:
                raise CapacityError(refusal)
        for warning in predicted.warnings:
            logger.warning("%s", memory.with_cure(warning))

    def _log_order(self, program: _core.Program) -> None:
        enqueued, dequeued, deadlock = _core.debug(program)
        with at_least(logging.INFO):
            if self._instr_log:
                for line in (*enqueued, *dequeued):
                    logger.info("%s", line)
            if deadlock:
                logger.error("%s", deadlock)
                raise DeadlockError(deadlock)

    def _require_open(self, what: str) -> None:
        if self._state not in ("new", "open"):
            raise at_user_line(
                StateError, f"Chip: {what} after the block has ended has no effect; call it before or inside"
            )

    def _reserve_unless_exploring(self) -> None:
        if exploring.current() is None:
            self._reserve()

    def _reserve(self) -> OutputFolder:
        from mskpp.report.output import OutputFolder

        if self._output is None:
            self._output = OutputFolder()
        return self._output


def current_chip() -> Any:
    """The innermost Chip in force, or None."""
    return context.current_owner(Chip)
