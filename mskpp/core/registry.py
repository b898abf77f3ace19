# SPDX-License-Identifier: Apache-2.0
"""Instructions and costs of the user's own (docs/add_an_instruction.md)."""

from __future__ import annotations

import inspect
import math
import numbers
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mskpp import _core
from mskpp.core.instructions import BUILT_IN
from mskpp.core.place import at_user_line, shown
from mskpp.errors import ArgumentError, CountOverflowError, InputError
from mskpp.log import logger

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
_MOVE = re.compile(r"MOV-([A-Za-z0-9]+)_TO_([A-Za-z0-9]+)")
_MOST_CYCLES = 1 << 62

_instructions: dict[str, OwnInstruction] = {}  # by function name
_models: dict[str, type] = {}  # by instruction name
_move_pipes: dict[str, str] = {}  # by instruction name


class PrefModel:
    """The cost of one instruction: a subclass gives ``time()``, and is registered with ``@RegisterPrefOf``.

    inputs, outputs: tuples of Tensors (and numbers); the outputs already have their dtype and size.
    attr: dict of the other arguments.
    """

    def __init__(self, inputs: Any, outputs: Any, *rest: Any) -> None:
        # Scripts for the public tool pass the instruction's name first.
        if isinstance(inputs, str):
            inputs, outputs, *rest = outputs, *rest  # type: ignore[assignment]
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.attr: dict[str, Any] = dict(rest[0]) if rest and rest[0] is not None else {}

    def size(self) -> int:
        """Work: bytes of a move, operations of a computation. By default a plain move's, or the elements of x."""
        if "bytes" in self.attr:
            return int(self.attr["bytes"])
        return next((math.prod(t.size or ()) for t in self.inputs if isinstance(t, _core.Tensor)), 0)

    def time(self) -> float:
        """Cycles: a finite number of at least 0; it is rounded up. 0 means free."""
        raise NotImplementedError(f"{type(self).__name__} must define time()")


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls with as many of the arguments as the function takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return function(*arguments)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function(*arguments)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return function(*arguments[: len(positional)])


def _number(value: Any, cls: type, method: str, name: str) -> float:
    where = f"{cls.__name__}.{method}() of {name} returned {shown(value)!r} ({type(value).__name__})"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise at_user_line(ArgumentError, f"{where}; it must be a finite number of at least 0")
    try:
        plain = float(value)
    except OverflowError:
        raise at_user_line(CountOverflowError, f"{where}; at most 2^62 is allowed") from None
    if not math.isfinite(plain) or plain < 0:
        raise at_user_line(InputError, f"{where}; it must be a finite number of at least 0")
    if (value if isinstance(value, int) else plain) > _MOST_CYCLES:
        raise at_user_line(CountOverflowError, f"{where}; at most 2^62 is allowed")
    return value if isinstance(value, int) else plain


def _ask(
    cls: type, name: str, inputs: Sequence[Any], outputs: Sequence[Any], attr: Mapping[str, Any]
) -> tuple[int, int]:
    """Cycles and work by the registered class, whose methods are called once each."""
    model = _call(cls, tuple(inputs), tuple(outputs), dict(attr))
    cycles = _number(model.time(), cls, "time", name)
    work = _number(model.size(), cls, "size", name)
    return math.ceil(cycles - 1e-9) if not isinstance(cycles, int) else cycles, math.ceil(work)


def _canonical(name: Any, decorator: str) -> str:
    if not isinstance(name, str):
        raise at_user_line(ArgumentError, f"{decorator}: the name must be a str, got {type(name).__name__}")
    upper = name.upper()
    if not _NAME.fullmatch(upper) and not _MOVE.fullmatch(upper):
        shown = ascii(name[:64])
        raise at_user_line(
            InputError, f"{decorator}: name {shown}; allowed are letters, digits and _, or MOV-SRC_TO_DST"
        )
    return upper


def _built_in(name: str) -> Any:
    return next((i for i in BUILT_IN.values() if i.instruction == name), None)


def RegisterPrefOf(name: str) -> Callable[[type], type]:
    """Decorator: the class is the cost of the instruction (or path, ``MOV-SRC_TO_DST``) from now on.

    The class gives ``time()``, cycles, and ``size()``, work; a subclass of PrefModel has inputs, outputs and attr. A
    built-in name gets the new cost in place of its own. Raises ArgumentError or InputError for another kind of name
    or class.
    """
    canonical = _canonical(name, "RegisterPrefOf")

    def register(cls: type) -> type:
        if not isinstance(cls, type) or not all(callable(getattr(cls, method, None)) for method in ("time", "size")):
            raise at_user_line(ArgumentError, f"RegisterPrefOf: {canonical} needs a class with time() and size()")
        if canonical in _models:
            logger.info("the cost of %s is registered anew", canonical)
        _models[canonical] = cls

        def model(inputs: Sequence[Any], outputs: Sequence[Any], attr: Mapping[str, Any]) -> tuple[int, int]:
            return _ask(cls, canonical, inputs, outputs, attr)

        move = _MOVE.fullmatch(canonical)
        if move:
            pipe = getattr(cls, "pipe", None) or _move_pipes.get(canonical)
            _core.set_move_model(move[1], move[2], model, pipe)
        elif (instruction := _built_in(canonical)) is not None:
            instruction.model = model
        return cls

    return register


def RegisterOf(name: str) -> Callable[[type], Any]:
    """Decorator: the class is an instruction from now on, called as ``mskpp.<name in lower case>(x, ..., out)()``.
     The class has ``pipe`` and ``infer_shape(inputs, outputs, attr)``, which sets size, dtype and format of the outputs
    or returns new ones. The last Tensor of a call is the output; keyword arguments become attr. For a path,
    MOV-SRC_TO_DST, only ``pipe`` counts. Returns the instruction.
    Raises ArgumentError or InputError for another kind of name or class.
    """
    canonical = _canonical(name, "RegisterOf")

    def register(cls: type) -> Any:
        if not isinstance(cls, type):
            raise at_user_line(ArgumentError, f"RegisterOf: {canonical} needs a class, got {type(cls).__name__}")
        pipe = _core.check_pipe(getattr(cls, "pipe", None), f"RegisterOf: {canonical}")
        move = _MOVE.fullmatch(canonical)
        if move:
            for memory in move.groups():
                _core.check_memory(memory, f"RegisterOf: {canonical}")
            _move_pipes[canonical] = pipe
            if canonical in _models:
                RegisterPrefOf(canonical)(_models[canonical])
            return cls
        if not callable(getattr(cls, "infer_shape", None)):
            raise at_user_line(
                ArgumentError, f"RegisterOf: {canonical} needs a class with infer_shape(inputs, outputs, attr)"
            )
        if canonical.lower() in _instructions or canonical.lower() in BUILT_IN:
            logger.info("the instruction %s is registered anew", canonical)
        instruction = OwnInstruction(canonical, cls, pipe)
        _instructions[canonical.lower()] = instruction
        if canonical.lower() in BUILT_IN:  # the module's own name would hide it
            setattr(sys.modules["mskpp"], canonical.lower(), instruction)
        return instruction

    return register


class OwnInstruction:
    """A registered instruction: ``vfoo(x, y, out, attr=...)()``, or ``vfoo((x, y), (out,), {...})()``."""

    def __init__(self, name: str, cls: type, pipe: str) -> None:
        self.instruction = name
        self.pipe = pipe
        self.__name__ = self.__qualname__ = name.lower()
        self.__doc__ = cls.__doc__
        self.__wrapped__ = cls

    def __call__(self, /, *arguments: Any, **attr: Any) -> OwnLaunch:
        if arguments and isinstance(arguments[0], (tuple, list)):
            groups = [tuple(a) for a in arguments[:2] if isinstance(a, (tuple, list))]
            inputs, outputs = groups[0], groups[1] if len(groups) > 1 else ()
            if len(arguments) > 2 and isinstance(arguments[2], Mapping):
                attr = {**arguments[2], **attr}
        else:
            tensors = [i for i, a in enumerate(arguments) if isinstance(a, _core.Tensor)]
            last = tensors[-1] if len(tensors) > 1 else None
            inputs = tuple(a for i, a in enumerate(arguments) if i != last)
            outputs = () if last is None else (arguments[last],)
        for what in (*inputs, *outputs):
            if not isinstance(what, _core.Tensor) and (isinstance(what, bool) or not isinstance(what, numbers.Real)):
                raise at_user_line(
                    ArgumentError, f"{self.__name__}: operands must be Tensors or numbers, got {type(what).__name__}"
                )
        return OwnLaunch(self, inputs, outputs, attr)

    def __repr__(self) -> str:
        return f"<instruction {self.__name__}>"


class OwnLaunch:
    """One call of a registered instruction; calling it issues it and returns the tuple of its outputs."""

    def __init__(
        self, made_by: OwnInstruction, inputs: tuple[Any, ...], outputs: tuple[Any, ...], attr: dict[str, Any]
    ) -> None:
        self._made_by = made_by
        self.inputs, self.outputs, self.attr = inputs, outputs, attr

    def __call__(self) -> tuple[Any, ...]:
        before = [(t, t.dtype, t.size, t.format) for t in self.outputs]
        try:
            return self._issue()
        except BaseException:
            for tensor, *state in before:  # what failed leaves no traces
                if [tensor.dtype, tensor.size, tensor.format] != state:
                    tensor.dtype, tensor.size, tensor.format = state
            raise

    def _issue(self) -> tuple[Any, ...]:
        made_by = self._made_by
        worker = _call(made_by.__wrapped__, self.inputs, self.outputs, self.attr)
        inferred = _call(worker.infer_shape, self.inputs, self.outputs, self.attr)
        outputs = self.outputs
        if isinstance(inferred, _core.Tensor):
            outputs = (inferred,)
        elif isinstance(inferred, (tuple, list)) and inferred and all(isinstance(t, _core.Tensor) for t in inferred):
            outputs = tuple(inferred)
        elif inferred is not None:
            raise at_user_line(
                ArgumentError,
                f"{made_by.__name__}: infer_shape() of {made_by.__wrapped__.__name__} returned "
                f"{shown(inferred)!r}; it must return nothing, a Tensor or a tuple of Tensors",
            )
        for tensor in outputs:
            if tensor.dtype is None or tensor.size is None:
                raise at_user_line(
                    InputError,
                    f"{made_by.__name__}: infer_shape() of {made_by.__wrapped__.__name__} left an output without dtype "
                    "or size",
                )
        cycles, work = self._cost(outputs)
        reads = [t for t in self.inputs if isinstance(t, _core.Tensor)]
        _core.add_own(made_by.instruction, made_by.pipe, reads, list(outputs), work, cycles)
        return outputs

    def _cost(self, outputs: tuple[Any, ...]) -> tuple[int, int]:
        name = self._made_by.instruction
        if name in _models:
            return _ask(_models[name], name, self.inputs, outputs, self.attr)
        dtypes = " ".join(str(t.dtype) for t in (*self.inputs, *outputs) if isinstance(t, _core.Tensor))
        first = next((t for t in self.inputs if isinstance(t, _core.Tensor)), None)
        cycles = None if first is None else _core.vector_cycles(name, dtypes, first)
        if first is None or cycles is None:
            raise at_user_line(
                ArgumentError,
                f"{self._made_by.__name__}: no cost for {dtypes or 'no Tensor'}. "
                "Register one with RegisterPrefOf: docs/add_an_instruction.md",
            )
        return cycles, math.prod(first.size or ())


def find(function: str) -> OwnInstruction | None:
    """The registered instruction of that function name."""
    return _instructions.get(function)
