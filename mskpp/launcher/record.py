# SPDX-License-Identifier: Apache-2.0
"""The record of a compilation: what its output was made from. It lies beside the output (``<output>.mskpp``).

It is only written when it is certain which text was compiled: when nothing that was read has changed since the
compilation began. The system stamps each change of a file, a replacement by another file too, with its own clock
(st_ctime), which no program sets. So files are looked at once, afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mskpp.errors import FileError, UnsafeError
from mskpp.launcher import checks
from mskpp.launcher.reading import regular_bytes
from mskpp.log import logger

MOST_RECORD_BYTES = 16 << 20
MOST_FILE_BYTES = 1 << 30
ABSENT = "absent"
# What file systems stamp changes with; it goes in steps of some milliseconds.
_CLOCK_REALTIME_COARSE = 5
_CLOCK_STEP_NS = 20_000_000
_READ_BYTES = 1 << 20


def record_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.mskpp")


@dataclass(frozen=True)
class Content:
    """What is in a file, and when that was last changed."""

    digest: str
    changed_ns: int


def content(path: str | Path) -> Content | None:
    """None for what is no regular file of a size that one compiles. Waits for nothing, whatever the path is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_FILE_BYTES:
            return None
        found = hashlib.sha256()
        left = MOST_FILE_BYTES
        while data := os.read(descriptor, _READ_BYTES):
            found.update(data)
            left -= len(data)
            if left < 0:  # it grows, or is one of those of /proc that say they are empty
                return None
        return Content(found.hexdigest(), os.fstat(descriptor).st_ctime_ns)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def digest(path: str | Path) -> str:
    found = content(path)
    return ABSENT if found is None else found.digest


@dataclass(frozen=True)
class Moment:
    """A time after every change so far, and before every later one."""

    real_ns: int
    steady_ns: int

    @classmethod
    def now(cls) -> Moment:
        before = time.time_ns()
        steady = time.monotonic_ns()
        while _stamp_ns() <= before and time.monotonic_ns() < steady + _CLOCK_STEP_NS:
            time.sleep(0.001)
        return cls(_stamp_ns(), time.monotonic_ns())

    def clock_went_back(self) -> bool:
        """Whether the clock of the files was put back since: then it does not tell what came later."""
        return time.time_ns() - self.real_ns < time.monotonic_ns() - self.steady_ns - _CLOCK_STEP_NS


def _stamp_ns() -> int:
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except OSError:
        return time.time_ns()


def unchanged(path: str | Path, since: Moment) -> str | None:
    """The digest of a file that nothing has changed or replaced since the moment; else None."""
    found = content(path)
    if found is None or found.changed_ns >= since.real_ns:
        return None
    # A link on the way may have been turned to another file.
    for link in (Path(path), *Path(path).parents):
        try:
            status = os.lstat(link)
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode) and status.st_ctime_ns >= since.real_ns:
            return None
    return found.digest


def read_dependencies(path: Path) -> tuple[list[str], list[str]] | None:
    """What mskpp-cc noted: the files that were read, and those that were looked for in vain; None where not all are."""
    try:
        text = os.fsdecode(regular_bytes(path, MOST_RECORD_BYTES, follow_links=False))
    except (OSError, ValueError):
        return None
    lines = {line for line in text.split("\n") if line}
    missed = sorted(line[1:] for line in lines if line.startswith("!"))
    names = sorted(line for line in lines if not line.startswith("!"))
    return None if not names or "?" in names else (names, missed)


def pairs(fixed: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The files of fixed_key(), each with its digest."""
    return ((pair[0], pair[1]) for pair in (fixed[key] for key in ("script", "source", "kernel")) if pair is not None)


def write(output: Path, fixed: dict[str, Any], dependencies: Path, began: Moment) -> None:
    """Notes what the output was made from. Nothing when the compiler did not say what it read, or when a file that it
    read has changed since the compilation ``began``: which text was compiled is not known then."""
    found = read_dependencies(dependencies)
    if found is None:
        logger.debug("compile: the compiler did not say what it read; %s will not be reused", output)
        return
    names, missed = found
    included: dict[str, str | None] = {name: unchanged(name, began) for name in names}
    included |= {name: None if os.path.lexists(name) else ABSENT for name in missed if "\0" not in name}
    changed = next((name for name, known in included.items() if known is None), None)
    changed = changed or next((name for name, known in pairs(fixed) if unchanged(name, began) != known), None)
    if changed is not None or began.clock_went_back():
        logger.debug("compile: %s has changed meanwhile; %s will not be reused", changed or "the clock", output)
        return
    text = json.dumps({**fixed, "included": included, "output": digest(output)}, indent=1)
    try:
        checks.write_file(record_path(output), text, "compile")
    except (FileError, UnsafeError) as error:  # the output is as good without it
        logger.warning("%s; %s will not be reused", error, output)


def is_current(output: Path, fixed: dict[str, Any]) -> bool:
    """Whether the output is whole and made from what is there now. A broken record is none."""
    try:
        record = json.loads(regular_bytes(record_path(output), MOST_RECORD_BYTES, follow_links=False))
        included = dict(record.pop("included"))
        whole = record.pop("output") == digest(output) != ABSENT
        return bool(whole and record == fixed and all(digest(name) == known for name, known in included.items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def forget(output: Path, who: str) -> None:
    """Removes the record. FileError where that cannot be."""
    path = record_path(output)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    except OSError as error:
        what = "a folder" if error.errno in (errno.EISDIR, errno.EPERM) and path.is_dir() else error.strerror
        raise FileError(
            f"{who}: {path}, where the record of the compilation will be, cannot be replaced: {what}; remove it"
        ) from None
