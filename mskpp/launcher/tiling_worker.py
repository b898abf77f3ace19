# SPDX-License-Identifier: Apache-2.0
"""Calls the tiling function of one compiled library and writes down what came of it; a program of its own.

``python -I -S tiling_worker.py REQUEST``: REQUEST is a JSON file with the keys library, values (a file, or null),
places (per input [offset, bytes] in that file, or null), tiling_library (or ""), result and data (files to write).
Offsets count from behind the mark that a file of values begins with (its length is MARK). Only the standard library is
used. A tiling function that crashes or never ends takes this process with it, not the
caller's.
"""

import ctypes
import json
import mmap
import os
import sys

CAPACITY = 131072  # bytes of tiling data, as in tiling.cpp.in
MARK = 64  # bytes, as VALUES_MARK of tiling.py
NO_FUNCTION = 2
NOT_LOADED = -1


class Result(ctypes.Structure):
    """mskpp_tiling_result of the generated file."""

    _fields_ = [
        ("blockdim", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("workspace_size", ctypes.c_uint64),
        ("tiling_key", ctypes.c_uint64),
        ("tiling_data_size", ctypes.c_uint64),
        ("tiling_data", ctypes.c_uint8 * CAPACITY),
    ]


def registered(path: str) -> list[str]:
    """The operators that a tiling library for the host has functions for; [] for any other library."""
    try:
        names = ctypes.CDLL(path).mskpp_tiling_names_v1
    except (OSError, AttributeError):
        return []
    names.restype = ctypes.c_char_p
    return (names() or b"").decode(errors="replace").split()


def write(path: str, data: bytes) -> None:
    """In place of whatever the tiling function may have put there; links are not followed."""
    part = f"{path}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
    os.replace(part, path)


def main(request_file: str) -> None:
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    try:
        library = ctypes.CDLL(request["library"])
    except OSError as error:
        answer: dict[str, object] = {"code": NOT_LOADED, "error": str(error)}
        write(request["result"], json.dumps(answer).encode())
        return
    places = request["places"]
    values = (ctypes.c_void_p * max(len(places), 1))()
    memory = None
    if request["values"]:
        with open(request["values"], "rb") as values_file:
            memory = mmap.mmap(values_file.fileno(), 0, access=mmap.ACCESS_COPY)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for index, place in enumerate(places):
            if place:
                values[index] = start + MARK + place[0]
    result = Result()
    library.mskpp_error.restype = ctypes.c_char_p
    code = library.mskpp_tiling(values, ctypes.c_uint32(len(places)), ctypes.byref(result))
    answer = {
        "code": code,
        "error": (library.mskpp_error() or b"").decode(errors="replace"),
        "status": result.status,
        "blockdim": result.blockdim,
        "workspace_size": result.workspace_size,
        "tiling_key": result.tiling_key,
        "names": registered(request["tiling_library"]) if code == NO_FUNCTION and request["tiling_library"] else [],
    }
    write(request["data"], bytes(result.tiling_data)[: result.tiling_data_size])
    write(request["result"], json.dumps(answer).encode())
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)  # destructors of a toolkit's libraries have nothing to add


if __name__ == "__main__":
    main(sys.argv[1])
