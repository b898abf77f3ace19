# SPDX-License-Identifier: Apache-2.0
"""The errors a user can meet. Each is also the builtin one would catch; its docstring is its help page."""

from __future__ import annotations

from typing import Any


class MskppError(Exception):
    """Base of every error that mskpp raises on purpose."""


class InputError(MskppError, ValueError):
    """A value that is not allowed: an unknown name, a number out of range, shapes that do not fit.

    Cause: for example ``Tensor("L2")`` or a load over a path the chip does not have.
    Cure: the message lists what is allowed and, for a name, the nearest match.
    """


class ArgumentError(MskppError, TypeError):
    """An argument of the wrong type: dtypes or formats that do not agree, a bool for a number, a dtype without a cost.

    Cause: for example ``vadd`` of FP16 and INT8, or ``repeat=True``.
    Cure: the message shows both sides; where a cost is missing, register one (docs/add_an_instruction.md).
    """


class SubscriptError(MskppError, IndexError):
    """An index outside its axis, or more indices than axes.

    Cause: for example ``x[32]`` of an axis of 32 elements.
    Cure: indices run from 0 (or, from the end, -1) as in numpy; slices are cut to the axis.
    """


class DataError(MskppError, ValueError):
    """A chip folder or table that cannot be used.

    Cause: for example a measured rate that fell to nothing, or an unknown key in chip.csv.
    Cure: the message names file and line; docs/add_a_chip.md explains every key and column.
    """


class StateError(MskppError, RuntimeError):
    """A call at the wrong time.

    Cause: for example entering a Chip a second time, or vector registers outside ``with VecScope``.
    Cure: the message says when the call is allowed.
    """


class CountOverflowError(MskppError, OverflowError):
    """More cycles, bytes, operations or instructions than can be counted.

    Cause: costs or sizes near 2^62, or more than 2^31 instructions.
    Cure: model a part of the work and scale the result.
    """


class FileError(MskppError, OSError):
    """A file that cannot be read or written.

    Cause: a missing file, missing rights, a full disk.
    Cure: the message names the file and the system's reason. Nothing half-written is left.
    """


class FlagError(MskppError, RuntimeError):
    """set_flag and wait_flag that do not pair up by the end of the block.

    Cause: a set that is never waited for, or a wait for a set that is never issued.
    Cure: the message lists each with its line; for one (source, target, id) the k-th wait meets the k-th set.
    """


class DeadlockError(MskppError, RuntimeError):
    """A program that cannot go on.

    Cause: an instruction waits for a tensor that nothing writes, or instructions wait for each other in a circle.
    Cure: the message names each stuck pipe, its instruction, the line, and what it waits for.
    """


class CapacityError(MskppError, ValueError):
    """More live bytes than a local memory of the chip has, in a block with ``strict=True``.

    Cause: tiles that are too large, or loads that run ahead of what reads them, as nothing makes them wait.
    Cure: the message names the memory, its peak and when, its capacity, and the largest tensors there; make the tiles
    smaller or add flags.
    """


class CompileError(MskppError, RuntimeError):
    """A kernel, launch code or program that does not compile.

    Cause: an error in the source, in the build script or in its options.
    Cure: the message holds the command and what the compiler said.
    """


class LaunchError(MskppError, RuntimeError):
    """A kernel that could not be launched, or that failed while it ran.

    Cause: for example a block that reads outside its memory, or a device out of memory.
    Cure: the message names the kernel, the block where it is known, and the code of the failing call.
    """


class BackendError(MskppError, RuntimeError):
    """Compiler, toolkit or device is not there.

    Cause: for example the backend ``ascend`` on a machine without CANN.
    Cure: the message says what is missing and where it was looked for; ``MSKPP_BACKEND=host`` runs on the CPU.
    """


class UnsafeError(MskppError, PermissionError):
    """A file that mskpp will not run or write, for safety.

    Cause: a build script that raises privileges, or a script, binary or library that others may write or own.
    Cure: the message has the command that makes the file safe; ``MSKPP_ALLOW_UNSAFE=1`` accepts it as it is.
    """


class TimeLimitError(MskppError, TimeoutError):
    """A compilation or launch that did not end in time. Everything it started has been ended.

    Cause: a block that never ends, a compiler that hangs, or a limit that is too short.
    Cure: the message has the limit; give a longer ``timeout`` where the work needs it.
    """


class TuneError(MskppError, RuntimeError):
    """No configuration of a tuning could be measured.

    Cause: every candidate failed; the message has the causes with their counts.
    Cure: ``result`` (also of the exception) has each with its log; most often the source does not compile with any.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result  # the TuneResult


# In the order of ErrorKind in csrc/include/mskpp/error.h.
BY_KIND = (
    InputError,
    ArgumentError,
    SubscriptError,
    DataError,
    StateError,
    CountOverflowError,
    FileError,
    FlagError,
    DeadlockError,
)
