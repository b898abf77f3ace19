# SPDX-License-Identifier: Apache-2.0
"""The timeline as a few bytes an instruction, for a page that draws it.

A column is a row of whole numbers: each as 7 bits a byte, the lowest first, the top bit set on all bytes but the last;
signed ones folded first (0, -1, 1, -2 become 0, 1, 2, 3); all of it in base64. Instructions stand lane by lane, each
lane in the order of time. What repeats is stored as a difference that is then 0: a duration, a work and a slack against
the instruction of the same kind before it, a start against the end of the one before it on the lane.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mskpp.report.result import Event

Numbers = np.ndarray[Any, np.dtype[np.int64]]

BINS = 1_000  # of a lane's busy time, where not all of its instructions are kept
_PIPES = ("MTE2", "MTE1", "M", "FIX", "V", "VEC", "MTE3", "S")  # as data goes through them


@dataclass(frozen=True)
class Kind:
    """What instructions on the page share."""

    name: str
    kind: str
    origin: str
    line: str


class Slices:
    """All instructions of a timeline as numbers, in the order of their lanes and of time."""

    def __init__(self, events: Iterable[Event], slack: Sequence[int] | memoryview) -> None:
        kinds: dict[tuple[str, str, str, str], int] = {}
        lanes: dict[str, int] = {}
        columns = [array("q") for _ in range(5)]
        add_lane, add_kind, add_start, add_end, add_work = (column.append for column in columns)
        for name, pipe, start, end, kind, work, origin, line in events:
            add_lane(lanes.setdefault(pipe, len(lanes)))
            add_kind(kinds.setdefault((name, kind, origin, line), len(kinds)))
            add_start(start)
            add_end(end)
            add_work(work)
        self.kinds = [Kind(*key) for key in kinds]
        self.pipes = _in_order(lanes)
        place = np.zeros(max(len(lanes), 1), np.int64)
        place[[lanes[pipe] for pipe in self.pipes]] = np.arange(len(lanes))
        given: list[Numbers] = [np.frombuffer(column, np.int64) for column in columns]
        given[0] = place[given[0]]
        order = np.lexsort((given[3], given[2], given[0]))
        self.lane, self.kind, self.start, self.end, self.work = (column[order] for column in given)
        self.slack = np.asarray(slack, np.int64)[order]

    def __len__(self) -> int:
        return len(self.lane)

    def chosen(self, most: int) -> Numbers:
        """The places of at most so many: the longest ones, of equal ones those without slack first."""
        if len(self) <= most:
            return np.arange(len(self))
        rank = np.lexsort((self.slack, self.start - self.end))
        return np.sort(rank[:most])

    def data(self, most: int) -> dict[str, Any]:
        """For the scripts. ``busy``: for each lane, in thousandths, how much of each bin is busy; where some are left
        out only."""
        kept = self.chosen(most)
        lane, start, end = self.lane[kept], self.start[kept], self.end[kept]
        used, kind = np.unique(self.kind[kept], return_inverse=True)
        before = np.zeros(len(kept), np.int64)
        before[1:] = np.where(lane[1:] == lane[:-1], end[:-1], 0)
        kinds = [self.kinds[at] for at in used]
        texts: dict[str, int] = {}
        table = [
            [texts.setdefault(cut(text), len(texts)) for text in (one.name, one.kind, one.origin, one.line)]
            for one in kinds
        ]
        out = {
            "count": len(self),
            "kept": len(kept),
            "shortest": int((end - start).min()) if len(kept) else 0,
            "lanes": [
                {"pipe": cut(pipe), "all": int(every), "kept": int(shown)}
                for pipe, every, shown in zip(
                    self.pipes,
                    np.bincount(self.lane, minlength=len(self.pipes)),
                    np.bincount(lane, minlength=len(self.pipes)),
                    strict=True,
                )
            ],
            "kinds": table,
            "texts": list(texts),
            "kind": packed(kind),
            "gap": packed(folded(start - before)),
            "duration": packed(folded(_against_same(end - start, kind))),
            "work": packed(folded(_against_same(self.work[kept], kind))),
            "slack": packed(folded(_against_same(self.slack[kept], kind))),
        }
        if len(kept) < len(self):
            out["busy"] = self.busy()
        return out

    def busy(self) -> list[str]:
        """Each lane's busy share in BINS equal parts of the makespan, in thousandths."""
        total = int(self.end.max(initial=0))
        edges = np.linspace(0, total, BINS + 1)
        out = []
        for at in range(len(self.pipes)):
            mine = self.lane == at
            start, end = self.start[mine], self.end[mine]
            # Busy cycles before each edge: the sum of what has begun less what of it is still to come.
            begun = np.concatenate([[0], np.cumsum(start)])[np.searchsorted(start, edges)]
            ends = np.sort(end)
            ended = np.concatenate([[0], np.cumsum(ends)])[np.searchsorted(ends, edges)]
            running = np.searchsorted(start, edges) - np.searchsorted(ends, edges)
            before = ended - begun + running * edges
            share = np.diff(before) / max(total / BINS, 1e-9)
            out.append(packed(np.clip(np.round(1000 * share), 0, 1000).astype(np.int64)))
        return out


def cut(text: str, most: int = 120) -> str:
    """A name as the page keeps it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def folded(values: Numbers) -> Numbers:
    """Signed numbers as numbers from 0: 0, -1, 1, -2 become 0, 1, 2, 3."""
    out: Numbers = (values << 1) ^ (values >> 63)
    return out


def packed(values: Numbers) -> str:
    """Numbers from 0 as a text; see above."""
    given = values.astype(np.uint64)
    length = np.ones(len(given), np.int64)
    for bits in range(7, 64, 7):
        length += given >= np.uint64(1 << bits)
    last = np.cumsum(length)
    out = np.zeros(int(last[-1]) if len(last) else 0, np.uint8)
    first = last - length
    for place in range(int(length.max(initial=0))):
        has = length > place
        low = (given[has] >> np.uint64(7 * place)) & np.uint64(127)
        out[first[has] + place] = low | np.where(length[has] > place + 1, np.uint64(128), np.uint64(0))
    return base64.b64encode(out.tobytes()).decode("ascii")


def _against_same(values: Numbers, kind: Numbers) -> Numbers:
    """Each less the one before it of the same kind."""
    order = np.argsort(kind, kind="stable")
    sorted_values, sorted_kind = values[order], kind[order]
    difference = sorted_values.copy()
    difference[1:] -= np.where(sorted_kind[1:] == sorted_kind[:-1], sorted_values[:-1], 0)
    out: Numbers = np.empty_like(difference)
    out[order] = difference
    return out


def _in_order(pipes: Iterable[str]) -> list[str]:
    """Core by core as they came, the pipes of a core as data goes through them."""
    cores: dict[str, int] = {}
    keys = {}
    for at, pipe in enumerate(pipes):
        core, _, name = pipe.rpartition("PIPE-")
        keys[pipe] = (
            cores.setdefault(core, len(cores)),
            _PIPES.index(name) if name in _PIPES else len(_PIPES),
            at,
        )
    return sorted(keys, key=lambda pipe: keys[pipe])
