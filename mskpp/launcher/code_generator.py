# SPDX-License-Identifier: Apache-2.0
"""Launch code: the C++ that calls one kernel, with the kernel's own types, through a plain C interface.

``Launcher(config).code_gen(file)`` asks the config for the text and writes it. A new scenario is a new config class
with a method ``generate(callers) -> str``; nothing here changes.
"""

from __future__ import annotations

import ctypes
import json
import numbers
import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from types import FrameType
from typing import Any, Protocol

from mskpp.errors import ArgumentError, InputError
from mskpp.launcher import checks, observation
from mskpp.launcher.arguments import is_number, mismatch, type_text
from mskpp.launcher.signature import Signature, read_signature

TEMPLATES = Path(__file__).resolve().parent / "templates"
# Parameters of the user's function that are not the kernel's.
OTHER_NAMES = frozenset(["template_param", "blockdim", "tiling_key", "device_id", "stream", "timeout", "self", "cls"])
STRUCTURES = (ctypes.Structure, ctypes.Union)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NAMESPACE = re.compile(r"(?:::)?(?:[A-Za-z_]\w*::)*")
TEMPLATE_ARGUMENT = re.compile(r"[\w\s:<>,()*&+\-./'\[\]~=!|^%?{}]+")


@dataclass(frozen=True)
class Caller:
    """A function of the user on the way to ``Launcher``: the values of its parameters, by name and in order."""

    name: str
    values: dict[str, Any]


@dataclass
class Callers:
    """Who called, from the inside out, and what was given to ``Launcher`` itself."""

    frames: list[Caller] = field(default_factory=list)
    arguments: Sequence[Any] | None = None
    template_param: Sequence[Any] | None = None

    @classmethod
    def here(cls, frame: FrameType | None) -> Callers:
        """Those of the frame, without mskpp's own and without modules."""
        package = str(Path(__file__).resolve().parents[1]) + os.sep
        out = cls()
        while frame is not None:
            code = frame.f_code
            inside = code.co_filename.startswith(package)
            if not inside and code.co_name != "<module>":
                names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                out.frames.append(Caller(code.co_name, {n: frame.f_locals[n] for n in names if n in frame.f_locals}))
            frame = frame.f_back
        return out


class Config(Protocol):
    """What ``Launcher`` needs of a config."""

    def generate(self, callers: Callers) -> str:
        """The C++ text."""
        ...


class Launcher:
    """Generates launch code for the kernel that a config describes.

    Args:
        config: KernelInvokeConfig, TilingConfig, KernelBinaryInvokeConfig, or any object with a method ``generate``.
        arguments: the kernel's arguments, for a template whose parameters follow from their types. Without it the
            calling functions are looked through for one whose parameters are the kernel's.
        template_param: the template's arguments: strings of C++, ints, or ctypes classes.
    """

    def __init__(
        self, config: Any, *, arguments: Sequence[Any] | None = None, template_param: Sequence[Any] | None = None
    ) -> None:
        if not callable(getattr(config, "generate", None)):
            raise ArgumentError(
                f"Launcher: config is {type_text(config)}; it must be a KernelInvokeConfig, TilingConfig, "
                "KernelBinaryInvokeConfig or have a method generate"
            )
        self._config = config
        self._callers = Callers.here(sys._getframe(1))
        self._callers.arguments = arguments
        self._callers.template_param = template_param

    def code_gen(self, gen_file: str = "_gen_launch.cpp") -> str:
        """Writes the launch code (0600) and returns ``gen_file`` as it was given.

        Raises ArgumentError when arguments do not fit the kernel, InputError when template parameters are missing.
        """
        if not isinstance(gen_file, str):
            raise ArgumentError(f"code_gen: gen_file is {type_text(gen_file)}; it must be a str")
        observer = observation.observer()
        if observer is not None and observer.generated(self._config, self._callers, Path(gen_file)):
            return gen_file
        path = checks.output_path(gen_file, "code_gen")
        self._check_not_given(path)
        checks.write_file(path, self._config.generate(self._callers), "code_gen")
        written = getattr(self._config, "written", None)
        if callable(written):  # a config that has more to write than text
            written(path)
        return gen_file

    def _check_not_given(self, path: Path) -> None:
        """InputError where the path is, by whatever name, a file that the config was given."""
        for name in ("kernel_src_file", "kernel_binary_file", "lib_path"):
            given = getattr(self._config, name, None)
            if not isinstance(given, str | os.PathLike) or not os.path.exists(given) or not path.exists():
                continue
            if os.path.samefile(path, given):
                raise InputError(f"code_gen: gen_file is {path}, which is {name} of the config; give another path")


def metadata_line(**values: object) -> str:
    return json.dumps(values, ensure_ascii=True, sort_keys=True)


def _well_typed(key: str, value: object) -> bool:
    """Whether a value of the second line is what generated files have under that key; other keys are let pass."""
    if key in ("names", "types"):
        return isinstance(value, list) and all(_well_typed("name", item) for item in value)
    if key not in ("source", "kernel", "declaration", "scenario", "name"):
        return True
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape" if key == "source" else "strict")
    except UnicodeEncodeError:
        return False
    return True


def read_metadata(path: Path) -> dict[str, Any]:
    """What mskpp wrote about a generated file in its second line; {} for any other file and what is no regular file.

    Anybody may have written such a line: source (a path without NUL), kernel, declaration and scenario are str, names
    and types lists of str; what is something else is left out. Raises nothing but the OSError of the file itself.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe does not make it wait
    except ValueError:  # NUL in the path
        return {}
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        lines = [file.readline(65536) for _ in range(2)]
    if not lines[1].startswith(b"// mskpp: "):
        return {}
    try:
        found = json.loads(lines[1][len(b"// mskpp: ") :])
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if _well_typed(key, value)} if isinstance(found, dict) else {}


def fill(template: str, **values: object) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


# ------------------------------------------------------------------------------------------ template library kernels


def generate_kernel(source: Path, kernel: str, callers: Callers) -> str:
    """Launch code for a kernel of a C++ source: ``kernel<arguments><<<blockdim, l2ctrl, stream>>>(...)``."""
    signature = read_signature(source, kernel)
    if any("..." in p.type for p in signature.parameters):
        raise InputError(
            f"Launcher: {kernel} takes a pack of parameters, which cannot be launched from Python; write a kernel with "
            f"named parameters that calls it\n  {signature.declaration}\n  {signature.file}:{signature.line}"
        )
    instance = template_arguments(signature, callers)
    names = template_names(signature)
    namespaces = [n for n in signature.namespace.split("::") if n]
    types = [p.type for p in signature.parameters]
    settings = {n: f"mskpp_{n}" if n in {*names, kernel} else n for n in ("blockdim", "l2ctrl", "stream")}
    metadata = metadata_line(
        scenario="kernel",
        kernel=kernel,
        source=str(source),
        declaration=signature.declaration,
        names=[p.name for p in signature.parameters],
        types=types,
    )
    return fill(
        "kernel.cpp.in",
        metadata=metadata,
        metadata_string=checks.c_string(metadata),
        source=header_name(source),
        open_namespace="".join(f"namespace {n} {{\n" for n in namespaces),
        close_namespace="".join(f"}}  // namespace {n}\n" for n in reversed(namespaces)),
        scope="".join(f"{n}::" for n in namespaces),
        template_header=template_header(signature, names),
        kernel=kernel + (f"<{', '.join(names)}>" if names else ""),
        arguments=", ".join(f"*static_cast<mskpp_value<{t}>*>(mskpp_args[{i}])" for i, t in enumerate(types)),
        descriptions=", ".join(f"mskpp_describe_type<{t}>()" for t in types) or "{}",
        count=f"{len(types)}u",
        instance=f"<{', '.join(instance)}>" if signature.template is not None else "",
        **settings,
    )


def header_name(source: Path) -> str:
    """The source as #include takes it: there a backslash is a character like others, and nothing can be escaped."""
    text = str(source)
    if '"' not in text:
        return f'"{text}"'
    if ">" not in text:
        return f"<{text}>"
    raise InputError(f"code_gen: the path {text} has both a quote and a '>'; no #include can name it, rename it")


def template_names(signature: Signature) -> list[str]:
    """How the launch code hands on the template's parameters."""
    return [(p.name or f"Unnamed{i}") + ("..." if p.is_pack else "") for i, p in enumerate(signature.template or ())]


def template_header(signature: Signature, names: list[str]) -> str:
    if signature.template is None:
        return ""
    parts = []
    for parameter, name in zip(signature.template, names, strict=True):
        text = parameter.declaration
        if not parameter.name:
            head, equals, default = text.partition("=")
            text = f"{head.strip()} {name.removesuffix('...')}" + (f" = {default.strip()}" if equals else "")
        parts.append(text)
    return f"template <{', '.join(parts)}>\n"


def fitting_values(signature: Signature, callers: Callers) -> list[Any] | None:
    """The kernel's arguments among what the callers hold; None when no one holds them.

    Given ones must fit. Of the calling functions the nearest whose parameters fit counts: by name where they have the
    kernel's names, else in order.
    """
    parameters = signature.parameters
    if callers.arguments is not None:
        values = list(callers.arguments)
        check_values(signature, values, "Launcher")
        return values
    refusal: ArgumentError | None = None
    for caller in callers.frames:
        values_by_name = {n: v for n, v in caller.values.items() if n not in OTHER_NAMES}
        wanted = [p.name for p in parameters]
        if all(wanted) and set(wanted) <= set(caller.values):
            values = [caller.values[n] for n in wanted]
        else:
            values = list(values_by_name.values())
        shares_names = len(set(wanted) & set(values_by_name)) > 0
        if len(values) != len(parameters) and not shares_names:
            continue
        if not values:
            continue
        try:
            check_values(signature, values, f"{caller.name}()", list(values_by_name))
        except ArgumentError as error:
            refusal = refusal or error
            continue
        return values
    if refusal is not None:
        raise refusal
    return None


def check_values(signature: Signature, values: Sequence[Any], who: str, given: Sequence[str] = ()) -> None:
    """ArgumentError, with the C++ declaration, when number or types of the values are not the kernel's."""
    parameters = signature.parameters
    where = f"\n  {signature.declaration}\n  {signature.file}:{signature.line}"
    counts = f"{who}: {len(values)} arguments for {len(parameters)} parameters of {signature.name}"
    if len(values) < len(parameters):
        missing = ", ".join(str(p) for p in parameters[len(values) :])
        raise ArgumentError(f"{counts}; missing: {missing}{where}")
    if len(values) > len(parameters):
        extra = ", ".join(given[len(parameters) :]) or f"{len(values) - len(parameters)} of them"
        raise ArgumentError(f"{counts}; too many: {extra}{where}")
    types = {p.name for p in signature.template or () if p.is_type}
    for i, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
        if base_type(parameter.type) in types:
            reason = None if is_number(value) or isinstance(value, STRUCTURES) else "it must be a structure or a number"
        else:
            reason = mismatch(parameter, value)
        if reason:
            name = given[i] if i < len(given) else f"argument {i + 1}"
            raise ArgumentError(
                f"{who}: {name} is {type_text(value)}, but the parameter is '{parameter}'; {reason}{where}"
            )


def template_arguments(signature: Signature, callers: Callers) -> list[str]:
    """The template's arguments as C++: those given, then those that follow from the types of the values."""
    if signature.template is None:
        if callers_template_param(callers):
            raise ArgumentError(
                f"Launcher: template_param is given, but {signature.name} is no template\n  {signature.declaration}"
            )
        fitting_values_or_none(signature, callers)
        return []
    given = [template_argument(item, i) for i, item in enumerate(callers_template_param(callers))]
    packed = any(p.is_pack for p in signature.template)
    if len(given) > len(signature.template) and not packed:
        raise ArgumentError(
            f"Launcher: template_param has {len(given)} items for {len(signature.template)} template parameters\n"
            f"  {signature.declaration}"
        )
    fitting_values_or_none(signature, callers)
    out = list(given)
    for number, parameter in enumerate(signature.template):
        if number < len(given) or parameter.is_pack:
            continue
        deduced = None
        if parameter.is_type and any(base_type(p.type) == parameter.name for p in signature.parameters):
            try:
                deduced = deduce(signature, parameter.name, fitting_values(signature, callers) or [])
            except ArgumentError:
                if not parameter.has_default:
                    raise
        if deduced is None and parameter.has_default:
            break  # it and, as C++ demands, all behind it
        if deduced is None:
            raise InputError(
                f"Launcher: the template parameter '{parameter.declaration}' of {signature.name} is not known; give "
                f"template_param=[...] with {len(signature.template)} items, or call Launcher in a function (or in "
                f"one it calls) whose parameters are the kernel's, with a ctypes structure for {parameter.name}"
                f"{looked_at(callers)}\n  {signature.declaration}\n  {signature.file}:{signature.line}"
            )
        out.append(deduced)
    return out


def looked_at(callers: Callers) -> str:
    """Which functions were looked through for the arguments, in brackets; "" when none was."""
    names = [f"{caller.name}({', '.join(caller.values)})" for caller in callers.frames[:3]]
    return f" (looked at: {'; '.join(names)})" if names else " (it is called outside any function)"


def fitting_values_or_none(signature: Signature, callers: Callers) -> None:
    """Checks what the nearest fitting caller holds. A mismatch is the caller's mistake only if arguments were given:
    other functions may have as many parameters by chance, and the launch checks again."""
    if callers.arguments is not None:
        fitting_values(signature, callers)


def callers_template_param(callers: Callers) -> list[Any]:
    """The explicit template arguments: Launcher's, else the nearest caller's parameter of that name."""
    given: Any = callers.template_param
    if given is None:
        given = next((c.values["template_param"] for c in callers.frames if "template_param" in c.values), None)
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise ArgumentError(f"Launcher: template_param is {type_text(given)}; it must be a list")
    return list(given)


def template_argument(item: Any, number: int) -> str:
    """One item of template_param as C++ text."""
    if isinstance(item, ctypes.Structure | ctypes.Union):
        item = type(item)
    if isinstance(item, type):
        return class_text(item)
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, numbers.Integral):
        whole = int(item)
        return f"{whole}u" if whole >= 1 << 63 else str(whole)
    if not isinstance(item, str):
        raise ArgumentError(
            f"Launcher: template_param[{number}] is {type_text(item)}; it must be a str of C++, an int or a ctypes "
            "class"
        )
    pairs = {"(": ")", "<": ">", "[": "]", "{": "}"}
    wanted: list[str] = []
    balanced = True
    for sign in re.sub(r"->|>=|<=|(?<!\w)'[^'\s]'|(?<=\w)'(?=\w)", " ", item):
        if sign in pairs:
            wanted.append(pairs[sign])
        elif sign in pairs.values():
            if wanted and wanted[-1] == sign:
                wanted.pop()
            elif not (sign == ">" and wanted and wanted[-1] != ">"):  # inside brackets > compares
                balanced = False
        elif sign == "'" or (sign == "," and not wanted):
            balanced = False
    if (
        not item.strip()
        or not TEMPLATE_ARGUMENT.fullmatch(item)
        or not balanced
        or wanted
        or "//" in item
        or "/*" in item
        or "*/" in item
    ):
        raise InputError(
            f"Launcher: template_param[{number}] is {item[:80]!r}; it must be one template argument in C++, with "
            'balanced brackets and without ; # " \\ and comments'
        )
    return " ".join(item.split())  # on one line: no digraph can begin a directive


def scalar_code(cls: type) -> str:
    """The code that ctypes has for a scalar."""
    return str(cls._type_)  # type: ignore[attr-defined]


def class_text(cls: type) -> str:
    """The C++ name of a ctypes class: that of the number it is, else its ``get_namespace()`` and its name."""
    if issubclass(cls, ctypes._SimpleCData) and cls.__module__ in ("ctypes", "_ctypes") and scalar_code(cls) in SCALARS:
        return SCALARS[scalar_code(cls)]
    if not IDENTIFIER.fullmatch(cls.__name__):
        raise InputError(
            f"Launcher: the class is named {cls.__name__[:80]!r}; it must have the name of its C++ type, an identifier"
        )
    namespace: object = ""
    getter = getattr(cls, "get_namespace", None)
    if callable(getter):
        try:
            try:
                namespace = getter()
            except TypeError:
                namespace = getter(cls())  # an ordinary method
        except Exception as error:
            raise InputError(
                f"Launcher: {cls.__name__}.get_namespace() raised {type(error).__name__}: {error}; it must give a "
                "namespace like 'ns::inner::'"
            ) from error
    if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
        raise InputError(f"Launcher: {cls.__name__}.get_namespace() gives {namespace!r}; it must be like 'ns::inner::'")
    return namespace + cls.__name__


def base_type(text: str) -> str:
    """The type without const and reference."""
    return text.rstrip("& ").removeprefix("const ").removesuffix(" const").rstrip()


def deduce(signature: Signature, name: str, values: Sequence[Any]) -> str | None:
    """The type that a template parameter has because of an argument of it: a ctypes structure, or a number."""
    for parameter, value in zip(signature.parameters, values, strict=False):
        if base_type(parameter.type) != name:
            continue
        if isinstance(value, ctypes.Structure | ctypes.Union):
            return class_text(type(value))
        if isinstance(value, ctypes._SimpleCData):
            return SCALARS.get(scalar_code(type(value)))
        if hasattr(value, "dtype"):  # of numpy
            return SCALARS.get(value.dtype.char)
        if isinstance(value, bool | float):
            return type(value).__name__
        if isinstance(value, int):
            return "int" if -(1 << 31) <= value < 1 << 31 else "long long" if value < 1 << 63 else "unsigned long long"
    return None


# By the codes of ctypes, where c_int64 and c_long are one class, and of numpy, which are the same but for "e".
SCALARS = {
    "b": "signed char", "B": "unsigned char", "c": "char", "h": "short", "H": "unsigned short", "i": "int",
    "I": "unsigned int", "l": "long", "L": "unsigned long", "q": "long long", "Q": "unsigned long long",
    "e": "half", "f": "float", "d": "double", "?": "bool",
}  # fmt: skip
