# SPDX-License-Identifier: Apache-2.0
"""Files of the user that a subcommand runs: ``FILE.py:function``."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any

from mskpp.errors import FileError

STAND_IN = "mskpp_user_file"  # the module's name where the file's own is taken


def split(target: str) -> tuple[str, str | None]:
    """File and function of ``FILE.py:function``; the function is None where there is none."""
    if target.endswith(".py") or ":" not in target:
        return target, None
    file, _, function = target.rpartition(":")
    return file, function


@contextlib.contextmanager
def program(file: str, rest: Sequence[str]) -> Iterator[ModuleType]:
    """A module for the file, not run yet; within the block arguments and the search path are as python gives them."""
    path = os.path.abspath(file)
    stem = os.path.splitext(os.path.basename(path))[0]
    name = stem if stem.isidentifier() and stem not in sys.modules and not is_builtin(stem) else STAND_IN
    module = ModuleType(name)
    module.__file__ = path
    module.__spec__ = importlib.util.spec_from_file_location(name, path)
    argv, folders, before = sys.argv, list(sys.path), sys.modules.get(name)
    sys.argv = [file, *rest]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    sys.modules[name] = module
    try:
        yield module
    finally:
        sys.argv = argv
        sys.path[:] = folders
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before


def is_builtin(name: str) -> bool:
    return name in sys.builtin_module_names or name in sys.stdlib_module_names


def run_file(module: ModuleType) -> None:
    """Runs the file in its module. Nothing is written beside it. Exceptions are the user's, but the
    FileError of a file that cannot be read."""
    path = str(module.__file__)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    code = compile(text, path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions that the file defines, in their order."""
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not isinstance(value, type) and getattr(value, "__module__", None) == module.__name__
    }


def required(function: Callable[..., Any]) -> list[str]:
    """The parameters that a call must give; of a tuned function without those that its space gives."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some written in C do not say
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind not in optional]
    given: frozenset[str] = getattr(function, "__mskpp_given__", frozenset())
    return [name for name in needed if name not in given]


def users_part(trace: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from where the user's file begins; all of it where it never does."""
    begin = trace
    while begin is not None:
        if begin.tb_frame.f_code.co_filename == path:
            return begin
        begin = begin.tb_next
    return trace


def traceback_text(error: BaseException, path: str) -> str:
    """As Python prints it, without what stands before the user's code."""
    begin = None if isinstance(error, SyntaxError) else users_part(error.__traceback__, path)
    return "".join(traceback.TracebackException(type(error), error, begin).format()).rstrip()


def place(error: BaseException, path: str) -> str:
    """`` (file.py:18)``: the last line of the user's file that led to the error, or nothing."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
    return f" ({os.path.basename(path)}:{lines[-1]})" if lines else ""


def placed(error: BaseException, path: str) -> str:
    """The message with that line at the end of its first line; as it is where it names lines of that file itself."""
    from mskpp.core.place import with_place

    message, where = str(error), place(error, path)
    told = message.endswith(where) or ("\n" in message and f"({os.path.basename(path)}:" in message)
    return message if told else with_place(message, where)
