# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests: programs run on a pseudo terminal, and what its screen shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.DOTALL)
WIDE = "日本語"  # letters of two columns that the tests use


class Screen:
    """What a terminal makes of the text that it gets, as far as the tests need it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]  # those that were scrolled away too
        self.row = self.column = 0
        self.is_full = False  # the next letter goes to the next line

    @property
    def text(self) -> list[str]:
        """The lines down to the last that is not blank."""
        lines = ["".join(line).rstrip() for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def top(self) -> int:
        return max(0, len(self.lines) - self.rows)

    def feed(self, text: str) -> None:
        for numbers, command, letter in TOKEN.findall(text):
            if letter:
                self.letter(letter)
            else:
                self.command(numbers, command)

    def letter(self, letter: str) -> None:
        if letter == "\r":
            self.column, self.is_full = 0, False
        elif letter == "\n":
            self.down()
        else:
            assert letter.isprintable(), repr(letter)
            width = 2 if letter in WIDE else 1
            if self.is_full or self.column + width > self.columns:
                self.column, self.is_full = 0, False
                self.down()
            line = self.lines[self.row]
            line.extend(" " * (self.column + width - len(line)))
            line[self.column : self.column + width] = [letter, ""][:width]
            self.column += width
            if self.column == self.columns:
                self.column, self.is_full = self.columns - 1, True

    def down(self) -> None:
        self.is_full = False
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def command(self, numbers: str, command: str) -> None:
        if command == "A":
            self.row, self.is_full = max(self.top, self.row - int(numbers or 1)), False
        elif command in "JK":
            assert not numbers
            del self.lines[self.row][self.column :]
            if command == "J":
                del self.lines[self.row + 1 :]
        else:
            assert command == "m", f"a command that is not expected: {numbers}{command}"


class Terminal:
    """A Python program on a terminal of its own, which it is controlled by."""

    def __init__(
        self, words: Sequence[str], *, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None,
        folder: Path | None = None, stdout: Any = None,
    ) -> None:  # fmt: skip
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        environment |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **(env or {})}
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.modes = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.slave = slave

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        os.close(self.slave)
        if self.master >= 0:
            os.close(self.master)

    def read(self, seconds: float) -> None:
        """Takes what comes, at most for so long, or until something came."""
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 1 << 16)
            self.raw += data
            self.screen.feed(data.decode())

    def shows(self, condition: Callable[[list[str]], object], seconds: float = 30.0) -> bool:
        """Whether the screen comes to show it in time."""
        end = time.monotonic() + seconds
        while not condition(self.screen.text):
            if time.monotonic() > end:
                return False
            self.read(0.05)
        return True

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait(self, seconds: float = 60.0) -> int:
        """The program's exit code, when all that it wrote has been read."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        code = self.process.wait(1)
        while select.select([self.master], [], [], 0.1)[0]:
            self.read(0)
        return code
