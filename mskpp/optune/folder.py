# SPDX-License-Identifier: Apache-2.0
"""A tuner's private folder. What a tuner that was killed has left is removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "mskpp-tune-"
LOCK = "lock"
OLD_SECONDS = 3600.0  # more than any tuner takes to lock its folder


class PrivateFolder:
    """A new folder among the temporary files, named with the process's number.

    A file in it is locked for as long as the process lives, which is how others tell that it does: process numbers are
    given anew, and mean something else in each container.
    """

    def __init__(self) -> None:
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)
        new = self.path / f"{LOCK}.new"
        self._lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / LOCK)  # nobody finds it unlocked

    def close(self) -> None:
        """Removes the folder with all that is in it; links are removed, not followed."""
        self._folder.cleanup()
        with contextlib.suppress(OSError):  # closed before
            os.close(self._lock)
        self._lock = -1


def remove_abandoned() -> None:
    """Removes the folders of tuners that have ended without doing so: the caller's own ones, and no links."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):  # it is locked, or gone, or has no lock yet
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid():
                    remove_unlocked(entry.path, is_old=time.time() - status.st_mtime > OLD_SECONDS)


def remove_unlocked(folder: str, *, is_old: bool = False) -> None:
    """Removes the folder unless its lock is held: OSError then, and where a new one has no lock yet."""
    try:
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if not is_old:
            raise
        shutil.rmtree(folder, ignore_errors=True)  # its tuner was killed before it had made the lock
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
