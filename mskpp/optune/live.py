# SPDX-License-Identifier: Apache-2.0
"""What a person at a terminal sees while a search runs: how far it is, the best so far, what failed.

The table is drawn on stderr by a thread of its own, below whatever else the program prints, and is gone after close().
What holds:

1. Nothing is drawn where stderr is no terminal (files, pipes, notebooks) or a dumb one, and nothing by a job in
   the background.
2. No method raises or waits for the terminal; close() waits a moment for the table to go.
3. What others print is never overdrawn. Prints through sys.stdout and sys.stderr first take the table away. For all
   else (C code, children, an echoed ^C) the cursor stands at the table's first line: what is printed there is above the
   next table, at worst with remains of the last one behind it.
4. The cursor is never hidden, nor any mode of the terminal changed: a program that is killed leaves it as it was.
"""

from __future__ import annotations

import _thread
import atexit
import codecs
import contextlib
import heapq
import math
import os
import re
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, TextIO

from mskpp.log import logger
from mskpp.optune.results import NOT_TRIED, Trial

PAUSE_SECONDS = 0.125  # between two drawings
IDLE_SECONDS = 1.0  # when nothing but the clock has changed
LONGEST_SECONDS = 1e6  # left; more says nothing
CLOSE_SECONDS = 1.0  # that close() waits
WRITE_MS = 50  # that the terminal may take to be ready
BEST = 5  # shown
WIDEST_BAR = 30
LEAST_COLUMNS = 20
LEAST_LINES = 3

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ERASE = "\x1b[J"  # from the cursor to the end of the screen
_PLAIN, _BOLD, _RED = "", "\x1b[1m", "\x1b[31m"

Line = tuple[str, str]  # a style and a text


class Live:
    """The live table of one search. begin(), then ended() and phase() from any thread, then close().

    Each may be called again. A second table at the same time is not shown.
    """

    def __init__(self, title: str = "autotune") -> None:
        self._title = title
        self._state = _thread.allocate_lock()  # never held while something is written
        self._screen = threading.RLock()  # whoever writes; again in a signal's handler
        self._wake = _thread.allocate_lock()
        self._gone = _thread.allocate_lock()  # held while the thread lives
        self._process = 0  # that draws; 0: none
        self._closing = False
        self._is_drawn = False
        self._columns = 80  # when it was drawn
        self._bar = "#"
        self._changed = True
        self._total: int | None = None
        self._seconds: float | None = None
        self._began = 0.0
        self._phase = ""
        self._trials: dict[int, Trial] = {}
        self._times: dict[int, float] = {}
        self._causes: dict[int, str] = {}
        self._from_store: set[int] = set()
        self._best: list[int] | None = []  # None: to be found anew

    # --- what the search says ---

    def begin(self, total: int | None = None, seconds: float | None = None) -> None:
        """The search begins: of so many trials and so many seconds, as far as they are known."""
        with self._state:
            self._total, self._seconds = total, seconds
            self._began = self._began or time.monotonic()
        if self._process or self._closing:
            return
        try:
            self._start()
        except Exception as error:
            logger.debug("live table: it is not shown: %s", error)

    def ended(self, trial: Trial) -> None:
        """A trial has ended, or its figures have changed."""
        if trial.ending == NOT_TRIED:
            return
        number, time_us = trial.number, trial.time_us
        with self._state:
            self._trials[number] = trial
            self._times.pop(number, None)
            self._causes.pop(number, None)
            if trial.good and time_us is not None:
                self._times[number] = time_us
            else:
                self._causes[number] = f"{trial.ending}: {trial.reason}" if trial.reason else trial.ending
            if trial.known:
                self._from_store.add(number)
            else:
                self._from_store.discard(number)
            best = self._best
            if best is not None and (
                len(best) < BEST or number in best or self._times.get(number, math.inf) < self._times[best[-1]]
            ):
                self._best = None
            self._changed = True

    def phase(self, text: str) -> None:
        """What is being done now, in a word or two."""
        with self._state:
            self._phase = text
            self._changed = True

    def close(self) -> None:
        """Takes the table away. What is printed afterwards stands where it was."""
        with self._state:
            is_first, self._closing = not self._closing, True
        atexit.unregister(self.close)
        if self._process != os.getpid():  # none is drawn, or by the process that this one was forked from
            return
        if is_first:
            with contextlib.suppress(RuntimeError):  # it is awake already
                self._wake.release()
        if self._gone.acquire(timeout=CLOSE_SECONDS):
            self._gone.release()

    # --- the terminal ---

    def _start(self) -> None:
        stream = sys.stderr
        if not is_terminal(stream) or isinstance(stream, Above):
            return
        self._stream: TextIO = stream
        self._is_colored = not os.environ.get("NO_COLOR")
        self._encoding = getattr(stream, "encoding", None) or "ascii"
        self._bar = "━" if codecs.lookup(self._encoding).name == "utf-8" else "#"
        self._wake.acquire()
        self._gone.acquire()
        atexit.register(self.close)  # where nobody closes it
        try:
            self._process = os.getpid()
            for name in ("stdout", "stderr"):
                if is_terminal(getattr(sys, name)):
                    setattr(sys, name, Above(getattr(sys, name), self))
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        self._process = 0
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if isinstance(stream, Above) and stream.live is self:
                setattr(sys, name, stream.below)
        self._gone.release()

    def _run(self) -> None:
        """The thread that draws. All that is written and put back is in its hands: no interrupt falls between."""
        try:
            while not self._closing:
                begin = time.monotonic()
                self._draw()
                # A slow terminal, or very many trials, must not cost more than a tenth of a processor.
                pause = max(PAUSE_SECONDS, 9 * (time.monotonic() - begin))
                end = time.monotonic() + max(pause, IDLE_SECONDS)
                while not self._wake.acquire(timeout=pause):
                    if self._changed or time.monotonic() >= end:
                        break
        except Exception as error:
            logger.debug("live table: it is not shown any more: %s", error)
        finally:
            try:
                with self._room():
                    self._closing = True
            except Exception as error:
                logger.debug("live table: the terminal is gone: %s", error)
            finally:
                self._leave()

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """The screen without the table, for one who writes."""
        if self._process != os.getpid():  # a forked child, where the lock may be held for ever; or it is over
            yield
            return
        with self._screen:
            if self._is_drawn:
                self._is_drawn = False
                self._changed = True
                self._put(fresh_line(self._columns) + _ERASE)
            yield

    def _draw(self) -> None:
        descriptor = self._stream.fileno()
        if is_background(descriptor):
            return
        columns, rows = os.get_terminal_size(descriptor)
        columns, rows = columns or 80, rows or 24  # some say that they have none
        if columns < LEAST_COLUMNS or rows < LEAST_LINES:
            return
        with self._state:
            self._changed = False
            lines = self._lines(columns - 1, rows - 2)
        shown = [self._styled(style, text, columns - 1) for style, text in lines]
        text = fresh_line(columns) + "\x1b[K" + "".join(f"\r\n{line}\x1b[K" for line in shown)
        text += f"{_ERASE}\r\x1b[{len(shown)}A"
        with self._screen:
            if not self._closing:
                self._columns = columns
                self._is_drawn = self._put(text) or self._is_drawn

    def _put(self, text: str) -> bool:
        """Writes to the terminal, past the stream: one who waits there would hold a lock that the end of the
        interpreter needs. False when the terminal takes nothing now (Ctrl-S)."""
        descriptor = self._stream.fileno()
        data = text.encode(self._encoding, "replace")
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        while data:
            if not poll.poll(WRITE_MS):
                return False
            data = data[os.write(descriptor, data) :]
        return True

    def _styled(self, style: str, text: str, columns: int) -> str:
        text = fitted(text.encode(self._encoding, "replace").decode(self._encoding), columns)
        return f"{style}{text}\x1b[0m" if style and self._is_colored else text

    # --- the table ---

    def _lines(self, columns: int, most: int) -> list[Line]:
        failed: list[Line] = []
        if self._causes:
            ((cause, count),) = Counter(self._causes.values()).most_common(1)
            text = f"{len(self._causes)}, {count} of them: {printable(cause)}" if count > 1 else printable(cause)
            failed.append((_RED, f"failed  {text}"))
        best = self._best_lines()[: max(1, most - 1 - len(failed))]
        return [(_PLAIN, self._head(columns)), *best, *failed][:most]

    def _best_lines(self) -> list[Line]:
        if self._best is None:
            self._best = heapq.nsmallest(BEST, self._times, key=lambda number: (self._times[number], number))
        times = [f"{self._times[number]:,.3f} us" for number in self._best]
        widest = max(map(len, times), default=0)
        lines = []
        for number, text in zip(self._best, times, strict=True):
            label, style = ("best", _BOLD) if number == self._best[0] else ("", _PLAIN)
            config = " ".join(f"{name}={value}" for name, value in self._trials[number].config.items())
            lines.append((style, f"{label:6}  {text:>{widest}}  No.{number:<4} {printable(config)}"))
        return lines

    def _head(self, columns: int) -> str:
        tried, elapsed = len(self._trials), time.monotonic() - self._began
        words = [self._title + (f": {printable(self._phase)}" if self._phase else "")]
        words.append(f"{tried} of {self._total}" if self._total is not None else f"{tried} tried")
        if self._from_store:
            words[-1] += f" ({len(self._from_store)} from the store)"
        left = self._left(elapsed)
        words.append(clock(elapsed) + (f", about {clock(left)} left" if left is not None else ""))
        room = min(WIDEST_BAR, columns - sum(len(word) + 2 for word in words) - 2)
        if self._total and room >= 5:
            done = min(room, room * tried // self._total)
            words.insert(1, f"[{self._bar * done}{' ' * (room - done)}]")
        return "  ".join(words)

    def _left(self, elapsed: float) -> float | None:
        """Seconds until all are tried or the budget is spent, as far as anything is known of them."""
        known = []
        measured = len(self._trials) - len(self._from_store)
        if self._total is not None and len(self._trials) >= self._total:  # what is measured again ends by itself
            return None
        if self._total is not None and measured:
            known.append(elapsed / measured * (self._total - len(self._trials)))
        if self._seconds is not None:
            known.append(max(0.0, self._seconds - elapsed))
        return min(known) if known and min(known) < LONGEST_SECONDS else None


class Above:
    """A stream of the terminal while the table is there: what is written to it comes above the table, unchanged."""

    def __init__(self, below: TextIO, live: Live) -> None:
        self.below = below
        self.live = live

    def write(self, text: str) -> int:
        with self.live._room():
            count = self.below.write(text)
            self.below.flush()  # not when the table is there again
            return count

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


def fresh_line(columns: int) -> str:
    """What takes the cursor to the begin of a line with nothing on it. Where somebody has left half a line, an echoed
    ^C for example, the blanks end on the next one, else at the end of this one."""
    return " " * (columns - 1) + "\r"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a table can be drawn there. Notebooks say no by their own isatty()."""
    if stream is None or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    try:
        return stream.isatty() and os.isatty(stream.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or none of the system's
        return False


def is_background(descriptor: int) -> bool:
    """Whether another job has the terminal, so that writing to it could stop this one."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:  # not the terminal that controls this process
        return False


def printable(text: str) -> str:
    """The text without what could move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in _ESCAPES.sub("", text))


def fitted(text: str, columns: int) -> str:
    """The text in at most so many columns; wide letters take two."""
    if len(text) * 2 <= columns:
        return text
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, columns - 3).rstrip() + "..."


def clock(seconds: float) -> str:
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"
