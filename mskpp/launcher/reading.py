# SPDX-License-Identifier: Apache-2.0
"""Reading files that somebody else may have put there, or may change meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular_bytes(path: Path, most: int, *, follow_links: bool = True, prefix: bool = False) -> bytes:
    """What a regular file of at most ``most`` bytes holds; ``prefix``: its first ``most`` bytes, if it has more.

    Raises OSError (of any other kind of file too, without waiting for it) and ValueError (a name no file can have).
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        # Files of /proc say that they are empty, so the bytes that come are counted as well.
        wanted = most if prefix else most + 1
        data: bytes | None = b"" if status.st_size > most and not prefix else file.read(wanted)
        if data is None:  # some files of /proc have nothing to say yet
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if not prefix and (status.st_size > most or len(data) > most):
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
        return data
