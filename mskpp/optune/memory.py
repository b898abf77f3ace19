# SPDX-License-Identifier: Apache-2.0
"""What earlier searches found, from the store, and what this one finds, into it.

A time is known by all that it depends on. That an output is right depends on more: a record has the verdicts under
which it was found right (what the reference left, or what the arguments held), and the group of those whose outputs
were found equal, which may stand for one another. What was compared with nothing is not kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mskpp import __version__
from mskpp.errors import InputError
from mskpp.launcher import backend as backends
from mskpp.launcher.record import Moment
from mskpp.log import logger
from mskpp.optune.candidate import ERROR_LINE, Candidate
from mskpp.optune.compiling import Job
from mskpp.optune.measure import Interval
from mskpp.optune.plan import Plan
from mskpp.optune.reads import LAUNCH_CODE_NAMES, Manifest, Observation, Readings
from mskpp.optune.results import MEASURED
from mskpp.optune.space import Space
from mskpp.optune.store import LIMITS, Store, key
from mskpp.optune.targets import Target

# Failures of the machine, which another time need not come back.
PASSING = re.compile(
    r"No space left|File too large|quota exceeded|Input/output error|Cannot allocate|out of memory|memory exhausted"
    r"|Killed|Terminated|Hangup|SIG(?:KILL|TERM|HUP|INT|XCPU|XFSZ)|Too many open files|supervisor"
    r"|Resource temporarily unavailable",
    re.IGNORECASE,
)

ALONE = "alone"  # the group of one that was the only configuration there was
MOST_VERDICTS = 8  # of a candidate
MOST_COMPARED = 10_000


class Memory:
    """The trials of one target under one plan. Nothing in it raises but for an interrupt."""

    def __init__(self, target: Target, space: Space, plan: Plan) -> None:
        self._target = target
        self._store = Store.open()
        source = target.recording.source
        folder = source.parent
        parts = target.parts()
        devices = parts["device"]
        assert isinstance(devices, list)
        self._parts: dict[str, object] = {
            **parts,
            "version": __version__,
            "sources": [
                [os.path.relpath(path, folder), digest] for path, digest in sorted(target.markers.digests.items())
            ],
        }
        compilation = target.recording.compilation
        self._readings = Readings(
            backends.chosen(target.backend, plan.who),
            compilation.build_script,
            compilation.options,
            source,
            Manifest.open(),
            compiler=str(parts["compiler"]),
            names=LAUNCH_CODE_NAMES if target.recording.config is not None else (),
            shared=target.recording.config is not None,
        )
        self._who = plan.who
        self._executed_elsewhere = plan.executor is not None
        # What all candidates read besides; None: not known, and nothing is found or kept.
        self._read: str | None = self._readings.state().digest
        self._read_by: dict[int, str | None] = {}
        self._told = False
        self._limits = {
            "compile": compilation.timeout,
            "run": target.recording.keywords.get("timeout"),
            "memory": plan.memory_bytes,
        }
        self._is_alone = space.size == 1
        self._verdict = target.verdict()
        by_others = plan.reference is None and self._verdict is not None
        # Who is wrong by comparison depends on who else was there; known beforehand where all will be.
        self._others = compared(space, plan) if by_others else ""
        self._wrong = {"verdict": self._verdict, "others": self._others}
        self._group = os.urandom(16).hex() if by_others else f"reference {self._verdict}"
        self._about = {
            "kernel": target.name,
            "backend": target.backend,
            "device": ", ".join(str(one) for one in devices),
            "source": str(source),
        }
        self._kept: dict[int, tuple[object, ...]] = {}

    def close(self) -> None:
        self._store.close()

    def watched(self, job: Job) -> Observation:
        """To be asked for before a compilation."""
        return self._readings.observation(job.output.parent, job.source, job.output)

    def compiled(self, candidate: Candidate, watched: Observation, began: Moment) -> None:
        """The candidate was compiled, from the moment on: what it read is what its trial depends on."""
        if self._executed_elsewhere:  # where its compiler cannot be watched
            self._read_by[candidate.number] = self._read
            return
        state = self._readings.learned(watched, began)
        self._read_by[candidate.number] = state.digest
        if state.digest is None and not self._told:
            self._told = True
            logger.info("%s: trials are not kept: %s", self._who, state.why)

    def _digest(self, candidate: Candidate) -> str | None:
        """Of what the candidate read. One that does not compile does not tell, and read what all read."""
        if candidate.number in self._read_by:
            return self._read_by[candidate.number]
        if self._read is None:
            self._read = self._readings.state().digest
        return self._read

    def _key(self, candidate: Candidate, read: str, limits: object = None) -> str:
        parts = {**self._parts, "config": candidate.config, "reads": read}
        return key(parts if limits is None else {**parts, LIMITS: limits})

    def recall(self, candidate: Candidate) -> bool:
        """Gives the candidate the ending it had, if it is known."""
        if self._read is None:
            return False
        for limits in (None, self._limits, self._wrong):
            record = self._store.get(self._key(candidate, self._read, limits))
            if record is not None and self._is_of_use(record):
                candidate.ending = record["ending"]
                candidate.reason, candidate.log = record["reason"], record["log"]
                candidate.compile_seconds = record.get("compile_seconds", 0.0)
                candidate.from_store = True
                candidate.verdicts = [str(one) for one in record.get("verdicts", [])]
                candidate.group = str(record.get("group", ""))
                if candidate.ending == MEASURED:
                    candidate.known = Interval(
                        record["time_us"], record["low_us"], record["high_us"], record["samples"]
                    )
                return True
        return False

    def _is_of_use(self, record: Mapping[str, Any]) -> bool:
        alone = record["ending"] == MEASURED and record.get("group") == ALONE
        return not alone or (self._is_alone and self._verdict in record.get("verdicts", []))

    def is_right(self, candidate: Candidate) -> bool:
        """Whether its output was found right for these arguments and this reference."""
        return self._verdict is None or self._verdict in candidate.verdicts

    def confirm(self, candidate: Candidate) -> None:
        """Its output was found right here too."""
        candidate.from_store = False
        self.keep(candidate, compared=True)
        candidate.from_store = True

    def keep(self, candidate: Candidate, *, compared: bool) -> None:
        """Puts a finished candidate into the store, unless it is there as it is, its failure may pass, or a good output
        was not ``compared`` with anything."""
        if candidate.from_store or self._executed_elsewhere or not self._may_last(candidate):
            return
        if candidate.good and self._verdict is not None:
            if not compared and not self._is_alone:
                return
            if self._verdict not in candidate.verdicts:
                candidate.verdicts = [*candidate.verdicts[-MOST_VERDICTS + 1 :], self._verdict]
            candidate.group = candidate.group or (self._group if compared else ALONE)
        trial = candidate.trial()
        state = (trial.ending, trial.time_us, trial.samples, candidate.group, *candidate.verdicts)
        read = self._digest(candidate)
        if read is None or self._kept.get(candidate.number) == state:
            return
        record: dict[str, Any] = asdict(trial)
        for name in ("number", "known", "elapsed_seconds", "predicted_us"):
            del record[name]
        limits = self._limits_of(candidate)
        record.update(
            self._about,
            when=time.time(),
            limited=limits is not None,
            verdicts=candidate.verdicts,
            group=candidate.group,
        )
        if candidate.number in self._kept:  # it was good until it was judged
            self._store.forget(self._key(candidate, read))
        self._store.put(self._key(candidate, read, limits), record)
        self._kept[candidate.number] = state

    def _may_last(self, candidate: Candidate) -> bool:
        """Whether it would end so again."""
        if candidate.ending == "wrong result":
            return self._others is not None
        if candidate.ending in ("crashed", "timed out") and self._verdict is None:
            return False  # a program, which may have missed a file
        return may_last(candidate)

    def _limits_of(self, candidate: Candidate) -> object:
        """On what else the ending depends than on the candidate."""
        if candidate.ending == "wrong result":
            return self._wrong
        crashed = candidate.ending in ("crashed", "does not compile") and self._limits["memory"] is not None
        return self._limits if candidate.ending == "timed out" or crashed else None

    def drop(self, candidate: Candidate) -> None:
        """Forgets what is known of it."""
        if self._read is not None:
            for limits in (None, self._limits, self._wrong):
                self._store.forget(self._key(candidate, self._read, limits))
        self._kept.pop(candidate.number, None)


def may_last(candidate: Candidate) -> bool:
    """Whether a candidate that was not found wrong would end so again."""
    if candidate.good:
        return True
    if candidate.suspect or candidate.ending not in ("does not compile", "crashed", "timed out"):
        return False
    if candidate.ending == "does not compile" and not ERROR_LINE.search(candidate.log):
        return False
    return not PASSING.search(candidate.log)


def compared(space: Space, plan: Plan) -> str | None:
    """A digest of the configurations that will be compared with each other; None where that is not known."""
    if plan.trials is not None or plan.seconds is not None or plan.top_k is not None or space.size > MOST_COMPARED:
        return None
    configs = [space.config(number) for number in range(space.size)]
    try:
        return hashlib.sha256(repr([config for config in configs if space.allowed(config)]).encode()).hexdigest()
    except InputError:  # the condition raises, which the search will come to
        return None
