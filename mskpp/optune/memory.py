# SPDX-License-Identifier: Apache-2.0
"""What earlier searches found, from the store, and what this one finds, into it."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict
from typing import Any

from mskpp import __version__
from mskpp.optune.candidate import ERROR_LINE, Candidate
from mskpp.optune.measure import Interval
from mskpp.optune.plan import Plan
from mskpp.optune.results import MEASURED
from mskpp.optune.space import Space
from mskpp.optune.store import LIMITS, Store, key
from mskpp.optune.targets import Target

# Failures of the machine, which another time need not come back.
PASSING = re.compile(
    r"No space left|Cannot allocate|out of memory|memory exhausted|Killed|signal 9|SIGKILL|Too many open files"
    r"|Resource temporarily unavailable|supervisor",
    re.IGNORECASE,
)


class Memory:
    """The trials of one target under one plan. Nothing in it raises but for an interrupt."""

    def __init__(self, target: Target, space: Space, plan: Plan) -> None:
        self._target = target
        self._store = Store.open()
        source = target.recording.source
        folder = source.parent
        self._parts: dict[str, object] = {
            **target.parts(),
            "version": __version__,
            "sources": [
                [os.path.relpath(path, folder), digest] for path, digest in sorted(target.markers.digests.items())
            ],
        }
        compilation = target.recording.compilation
        self._limits = {
            "compile": compilation.timeout,
            "run": target.recording.keywords.get("timeout"),
            "memory": plan.memory_bytes,
        }
        self._judged_by_others = plan.reference is None
        self._others = {"others": space.identity()}
        self._about = {"kernel": target.name, "backend": target.backend, "source": str(source)}
        self._kept: dict[int, tuple[object, ...]] = {}

    def close(self) -> None:
        self._store.close()

    def _key(self, candidate: Candidate, limits: object = None) -> str:
        parts = {**self._parts, "config": candidate.config}
        return key(parts if limits is None else {**parts, LIMITS: limits})

    def recall(self, candidate: Candidate) -> bool:
        """Gives the candidate the ending it had, if it is known."""
        for limits in (None, self._limits, self._others):
            record = self._store.get(self._key(candidate, limits))
            if record is not None:
                candidate.ending = record["ending"]
                candidate.reason, candidate.log = record["reason"], record["log"]
                candidate.compile_seconds = record.get("compile_seconds", 0.0)
                candidate.from_store = True
                if candidate.ending == MEASURED:
                    candidate.known = Interval(
                        record["time_us"], record["low_us"], record["high_us"], record["samples"]
                    )
                return True
        return False

    def keep(self, candidate: Candidate) -> None:
        """Puts a finished candidate into the store, unless it is there as it is, or its failure may pass."""
        if candidate.from_store or not may_last(candidate):
            return
        trial = candidate.trial()
        state = (trial.ending, trial.time_us, trial.samples)
        if self._kept.get(candidate.number) == state:
            return
        record: dict[str, Any] = asdict(trial)
        for name in ("number", "known", "elapsed_seconds", "predicted_us"):
            del record[name]
        limits = self._limits_of(candidate)
        record.update(self._about, when=time.time(), limited=limits is not None)
        if candidate.number in self._kept:  # it was good until it was judged
            self._store.forget(self._key(candidate))
        self._store.put(self._key(candidate, limits), record)
        self._kept[candidate.number] = state

    def _limits_of(self, candidate: Candidate) -> object:
        """On what else the ending depends than on the candidate."""
        if candidate.ending == "wrong result" and self._judged_by_others:
            return self._others
        crashed = candidate.ending in ("crashed", "does not compile") and self._limits["memory"] is not None
        return self._limits if candidate.ending == "timed out" or crashed else None

    def drop(self, candidate: Candidate) -> None:
        """Forgets what is known of it."""
        for limits in (None, self._limits, self._others):
            self._store.forget(self._key(candidate, limits))
        self._kept.pop(candidate.number, None)


def may_last(candidate: Candidate) -> bool:
    """Whether it would end so again."""
    if candidate.good:
        return True
    if candidate.suspect or candidate.ending not in ("does not compile", "crashed", "timed out", "wrong result"):
        return False
    if candidate.ending == "does not compile" and not ERROR_LINE.search(candidate.log):
        return False
    return candidate.ending == "wrong result" or not PASSING.search(candidate.log)
