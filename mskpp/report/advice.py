# SPDX-License-Identifier: Apache-2.0
"""Of all that was tried in what-if, the few changes that are worth a thought first."""

from __future__ import annotations

from collections.abc import Iterable

from mskpp.report.analysis import Gain

LEAST_SHARE = 0.01  # of the makespan: what gains less is not worth a thought
_DOABLE = ("2x larger", "no conversion", "+1", "+1 per id")  # what a kernel's author can write differently
_SPECIFIC = ("path", "instruction", "buffer", "cache", "pipe")  # what tells more about where to look comes first

_HOW = {
    "2x": "twice as fast",
    "free": "at no cost",
    "2x larger": "twice as large, half as many",
    "no conversion": "without change of format",
}


def first_changes(what_if: Iterable[Gain], most: int = 3) -> list[Gain]:
    """What can be written differently, then what would have to be faster, the most gain first; none if nothing that was
    tried gains 1 %. Left out are changes that nobody can make (free, no cache hits), and of those with one gain of the
    same kind of thing, as a pipe whose time is all in one path, the ones that say less. The hit ratio is an assumption
    of the model's rather than a change of the kernel, so it comes last."""
    real = [gain for gain in what_if if _is_worth_it(gain) and gain.change not in ("free", "ratio 0")]
    real.sort(
        key=lambda gain: (
            gain.kind == "cache",
            gain.change not in _DOABLE,
            -gain.gain_cycles,
            _SPECIFIC.index(gain.kind) if gain.kind in _SPECIFIC else 9,
        )
    )
    found: list[Gain] = []
    for gain in real:
        as_good = [one for one in found if one.total_cycles == gain.total_cycles]
        is_pipe_again = gain.kind == "pipe" and any(one.change == gain.change for one in as_good)
        is_buffer_again = any((one.kind, one.subject) == ("buffer", gain.subject) for one in as_good)
        if not is_pipe_again and not is_buffer_again:
            found.append(gain)
    return found[:most]


def _is_worth_it(gain: Gain) -> bool:
    return gain.gain_cycles > 0 and gain.gain_cycles >= LEAST_SHARE * (gain.total_cycles + gain.gain_cycles)


def sentence(gain: Gain) -> str:
    """The change in words, as "GM->L1 moves twice as fast"."""
    if gain.kind == "cache":
        return f"L2 cache hit {gain.change}"
    if gain.kind == "buffer":
        consumer, arrow, producer = gain.subject.partition(" -> ")
        buffer = "one more buffer per flag id" if gain.change == "+1 per id" else "one more buffer"
        return f"{buffer} from {producer} to {consumer}" if arrow else f"{buffer} {gain.subject}"
    how = _HOW.get(gain.change, gain.change)
    source, to, target = gain.subject.removeprefix("MOV-").partition("_TO_")
    if gain.change == "no conversion" and "GM" in (source, target):
        how += " (keep GM in NZ)"
    if gain.kind == "path" and to:
        return f"{source}->{target} moves {how}"
    return f"all of {gain.subject} {how}" if gain.kind == "pipe" else f"{gain.subject} {how}"


def effect(gain: Gain, clock_mhz: float) -> str:
    """What it gains, as "12.3 us -> 8.1 us (-34 %)"."""
    before_us = (gain.total_cycles + gain.gain_cycles) / clock_mhz
    digits = 0 if before_us >= 10_000 else 1 if before_us >= 10 else 3
    after_us = gain.total_cycles / clock_mhz
    return f"{before_us:,.{digits}f} us -> {after_us:,.{digits}f} us ({_percent(gain)})"


def _percent(gain: Gain) -> str:
    """By how much the makespan changes."""
    before = gain.total_cycles + gain.gain_cycles
    percent = -100 * gain.gain_cycles / before if before else 0.0
    if not percent:
        return "0 %"
    if abs(percent) < 0.01:
        return "less than 0.01 %"
    return f"{percent:+.{0 if abs(percent) >= 9.95 else 1 if abs(percent) >= 0.095 else 2}f} %"
