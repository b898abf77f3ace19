# SPDX-License-Identifier: Apache-2.0
"""A compiled kernel binary as something to launch (KernelBinaryInvokeConfig), and the C++ text that launches it.

Three texts: for the host (the binary is a shared object made by mskpp-cc), for the toolkit's runtime, and for AscendCL
where the runtime lacks the call that takes a tiling key. The functions of a binary are named ``<name>_<tiling key>``,
on mixed kernels with _mix_aic or _mix_aiv behind; a name without a number stands for key 0.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mskpp.errors import ArgumentError, BackendError, FileError, InputError, StateError
from mskpp.launcher import checks, session
from mskpp.launcher.arguments import type_text
from mskpp.launcher.code_generator import Callers, fill, metadata_line
from mskpp.launcher.tiling import listed, nearest
from mskpp.log import logger

WHO = "get_kernel_from_binary"
# kernel_type -> magic number of the binary in the runtime
MAGICS: Mapping[str, int] = {"mix": 0x43554245, "vec": 0x41415246, "cube": 0x41494343}
PRINTF_BYTES = 78_643_200  # workspace that printf in a kernel needs
RUNTIME_CALL = "rtKernelLaunchWithHandleV2"
_MOST_JSON_BYTES = 10 << 20
_MIX_SUFFIX = re.compile(r"_mix_ai[cv]$")
_MOST_NAME_BYTES = 64 << 20  # of all functions together
_KEY = re.compile(r"(.*?)_([0-9]{1,20})")


def symbols(path: Path, who: str, table: str) -> list[str]:
    """The functions that an ELF file defines, by one of its tables: .symtab, or .dynsym for those it exports."""
    try:
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection
    except ImportError:
        raise BackendError(f"{who}: the Python package pyelftools is missing; pip install pyelftools") from None
    found = []
    try:
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"{who}: {path} cannot be read: {error.strerror}") from None
    total = 0
    with file:
        try:
            section = ELFFile(file).get_section_by_name(table)
            if isinstance(section, SymbolTableSection):
                for symbol in section.iter_symbols():
                    info = symbol["st_info"]
                    if symbol["st_shndx"] != "SHN_UNDEF" and info["type"] in ("STT_FUNC", "STT_GNU_IFUNC"):
                        found.append((str(symbol.name), str(info["bind"])))
                        total += len(symbol.name)
                        if total > _MOST_NAME_BYTES:
                            raise ValueError(f"the names of its functions have more than {_MOST_NAME_BYTES:,} bytes")
        except Exception as error:  # damaged files make the parser fail in ever new ways: OSError, ZeroDivisionError...
            raise InputError(
                f"{who}: {path} cannot be read as a kernel binary ({error or type(error).__name__}); it must be an ELF "
                "file"
            ) from None
    return [name for name, bind in found if table == ".symtab" or bind == "STB_GLOBAL"]


def name_and_key(symbol: str) -> tuple[str, int]:
    """("add_custom", 3) of add_custom_3_mix_aic; the key is 0 where the name has none."""
    plain = _MIX_SUFFIX.sub("", symbol)
    match = _KEY.fullmatch(plain)
    return (match[1], int(match[2])) if match else (plain, 0)


def host_functions(path: Path, tiling_key: int) -> list[str]:
    """The exported functions of a host binary for a tiling key: one, or the cube and the vector half in this order.

    Raises InputError that lists the keys there are.
    """
    names = [
        name
        for name in sorted(set(symbols(path, WHO, ".dynsym")))
        if not name.startswith(("_", "mskpp_"))  # C++ names, the loader's and mskpp's own
    ]
    if not names:
        raise InputError(
            f"{WHO}: {path} exports no kernel; a binary for the host is compiled by mskpp-cc -shared from "
            'extern "C" __global__ functions'
        )
    keys: dict[int, list[str]] = {}
    for name in names:
        keys.setdefault(name_and_key(name)[1], []).append(name)
    wanted = keys.get(tiling_key)
    if wanted is None:
        there = listed([f"{key} ({listed(keys[key], ' and ')})" for key in sorted(keys)])
        raise InputError(f"{WHO}: {path} has no kernel for tiling_key {tiling_key}; it has: {there}")
    if len({_MIX_SUFFIX.sub("", name) for name in wanted}) > 1:
        raise InputError(
            f"{WHO}: {path} has several kernels for tiling_key {tiling_key}: {listed(wanted)}; a binary has one "
            "kernel, with a function <name>_<key> for each tiling key"
        )
    return wanted


def _uses_printf(binary: Path) -> bool:
    """Whether the description beside the binary says that the kernel prints."""
    description = binary.with_suffix(".json")
    if binary.suffix != ".o" or not description.is_file():
        return False
    try:
        if description.stat().st_size > _MOST_JSON_BYTES:
            raise ValueError(f"it has more than {_MOST_JSON_BYTES} bytes")
        found = json.loads(description.read_text(encoding="utf-8"))
        options = found.get("debugOptions", "") if isinstance(found, dict) else ""
        if "printf" not in str(options):
            return False
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s: %s cannot be read (%s); printf of the kernel is not shown", WHO, description, error)
        return False
    logger.info("%s: %s says that the kernel prints; its output is shown after each launch", WHO, description)
    return True


class KernelBinaryInvokeConfig:
    """A kernel binary (.o) of an msOpGen project; ``Launcher(config).code_gen(file)`` writes the C++ that launches it.

    kernel_binary_file: the binary. kernel_type: mix, vec or cube; None: as its symbols say. tiling_key: the variant;
    None: that of the latest tiling_func.

    Raises ArgumentError, InputError, FileError, UnsafeError; StateError without tiling_key before any tiling_func.
    """

    type = "Binary"

    def __init__(
        self,
        kernel_binary_file: str | os.PathLike[str],
        kernel_type: str | None = None,
        tiling_key: int | None = None,
    ) -> None:
        if kernel_binary_file is None or kernel_binary_file == "":
            raise InputError(
                f"{WHO}: kernel_binary_file is {kernel_binary_file!r}; give the path of a kernel binary (.o)"
            )
        if kernel_type is not None and not isinstance(kernel_type, str):
            raise ArgumentError(f"{WHO}: kernel_type is {type_text(kernel_type)}; it must be mix, vec, cube or None")
        if kernel_type is not None and kernel_type not in MAGICS:
            raise InputError(
                f"{WHO}: unknown kernel_type {kernel_type!r}{nearest(kernel_type, MAGICS) or '.'} "
                f"Known: {', '.join(MAGICS)}, or None to look into the binary"
            )
        self._binary = checks.readable_file(kernel_binary_file, f"{WHO}: kernel_binary_file", limit_bytes=1 << 30)
        checks.trusted(self._binary, f"{WHO}: kernel_binary_file")
        self.kernel_binary_file = str(self._binary)
        self.kernel_name = "kernel_binary"
        self.kernel_type = kernel_type
        self.tiling_key = _tiling_key(tiling_key)
        self.op_type = session.op_type() or self._binary.stem
        self.enable_printf = _uses_printf(self._binary)

    def generate(self, callers: Callers | None = None) -> str:
        """The C++ text for the backend in force."""
        from mskpp.launcher import backend as backends

        return self.text_for(backends.chosen(None, WHO).name)

    def text_for(self, backend: str) -> str:
        """The C++ text for ``host`` or ``ascend``."""
        if backend == "host":
            return self._for_host()
        if runtime_takes_tiling_keys():
            return self._for_runtime()
        return self._for_acl()

    def _for_host(self) -> str:
        functions = host_functions(self._binary, self.tiling_key)
        name = name_and_key(functions[0])[0]
        return fill(
            "binary_host.cpp.in",
            **self._metadata(name),
            binary=checks.c_string(self.kernel_binary_file),
            count=len(functions),
            symbols=", ".join(f'"{checks.c_string(function)}"' for function in functions),
        )

    def _for_runtime(self) -> str:
        names = self._names()
        kernel_type = self.kernel_type
        if kernel_type is None:
            kernel_type = "mix" if any("_mix_" in name for name in names) else "vec"
            logger.info("%s: %s is taken for a %s kernel, by its symbols", WHO, self._binary.name, kernel_type)
        return fill(
            "binary_runtime.cpp.in",
            **self._common(names),
            kernel_type=kernel_type,
            magic=f"0x{MAGICS[kernel_type]:08x}",
            magic_is_given="true" if self.kernel_type is not None else "false",
        )

    def _for_acl(self) -> str:
        return fill("binary_acl.cpp.in", **self._common(self._names()))

    def _names(self) -> list[str]:
        return symbols(self._binary, WHO, ".symtab") or symbols(self._binary, WHO, ".dynsym")

    def _common(self, names: list[str]) -> dict[str, Any]:
        kernels = {name_and_key(name)[0] for name in names if _KEY.fullmatch(_MIX_SUFFIX.sub("", name))}
        return {
            **self._metadata(kernels.pop() if len(kernels) == 1 else self._binary.stem),
            "binary": checks.c_string(self.kernel_binary_file),
            "tiling_key": self.tiling_key,
            "printf": int(self.enable_printf),
            "printf_bytes": PRINTF_BYTES,
            "op_type": checks.c_string(self.op_type),
        }

    def _metadata(self, kernel: str) -> dict[str, str]:
        line = metadata_line(
            declaration=f"{kernel}(void* ...)",
            scenario="binary",
            kernel=kernel,
            binary=self.kernel_binary_file,
            tiling_key=self.tiling_key,
        )
        return {"metadata": line, "metadata_string": checks.c_string(line)}


def _tiling_key(given: object) -> int:
    if given is None:
        tiling = session.latest_tiling()
        if tiling is None:
            raise StateError(f"{WHO}: tiling_key is not given and no tiling_func ran here before; give tiling_key")
        return tiling.tiling_key
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ArgumentError(
            f"{WHO}: tiling_key is {type_text(given)}; it must be an int, or None for the latest tiling's"
        )
    key = int(given.__index__())
    if not 0 <= key < 2**64:
        raise InputError(f"{WHO}: tiling_key is {key}; allowed are 0 to 2^64 - 1")
    return key


def runtime_takes_tiling_keys() -> bool:
    """Whether the toolkit's runtime has the call that launches by tiling key."""
    library = Path(os.environ.get("ASCEND_HOME_PATH", ""), "lib64", "libruntime.so")
    if not os.environ.get("ASCEND_HOME_PATH") or not library.is_file():
        return False
    return RUNTIME_CALL in symbols(library.resolve(), WHO, ".dynsym")
