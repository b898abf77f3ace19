# SPDX-License-Identifier: Apache-2.0
"""``chip.lint()``: when it can be called and what a finding holds. test/csrc/test_lint.cpp has each problem."""

from __future__ import annotations

import dataclasses
import re

import pytest

from mskpp import Chip, Core, DeadlockError, FlagError, Tensor, VecScope, set_flag, vexp, wait_flag
from mskpp.core import exploring
from mskpp.core.lint import SEVERITIES, Finding
from mskpp.core.place import at_user_line, with_place
from mskpp.errors import StateError


def without_places(text: str) -> str:
    return re.sub(r"test_lint\.py:\d+", "LINE", text)


def test_nothing_to_look_at_before_the_block() -> None:
    with pytest.raises(StateError) as caught:
        Chip("Ascend910B1").lint()
    assert "Chip: lint() of Ascend910B1 has nothing to look at before its block" in str(caught.value)


def test_a_clean_block_has_no_findings_inside_and_after() -> None:
    with Chip("Ascend910B1") as chip:
        assert chip.lint() == []
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        (open_set,) = chip.lint()
        assert (open_set.kind, open_set.severity) == ("unmatched", "error")
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
        assert chip.lint() == []
    assert chip.lint() == [] and chip.result.total_cycles > 0


def test_after_flags_that_do_not_pair_up() -> None:
    with pytest.raises(FlagError), Chip("Ascend910B1") as chip:
        for number in range(100):
            set_flag("PIPE-MTE2", "PIPE-V", number % 8)
    (finding,) = chip.lint()
    assert (finding.kind, finding.severity, finding.count) == ("unmatched", "error", 100)
    assert finding.text == 'set_flag("PIPE-MTE2", "PIPE-V", 0) is never waited for'
    assert set(finding.pairs) == {(i, None) for i in range(100)} and len(finding.lines) == 1
    assert without_places(str(finding)) == (
        'error: unmatched (LINE), 100 times: set_flag("PIPE-MTE2", "PIPE-V", 0) is never waited for; '
        'issue wait_flag("PIPE-MTE2", "PIPE-V", 0) where PIPE-V must wait, or remove the set_flag'
    )


def test_after_a_deadlock() -> None:
    with pytest.raises(DeadlockError), Chip("Ascend910B1") as chip, Core("aiv0"):
        wait_flag("PIPE-V", "PIPE-MTE2", 0)
        set_flag("PIPE-MTE2", "PIPE-V", 1)
        wait_flag("PIPE-MTE2", "PIPE-V", 1)
        set_flag("PIPE-V", "PIPE-MTE2", 0)
    (finding,) = chip.lint()
    assert (finding.kind, finding.severity, finding.pairs) == ("crossed", "error", ((3, 0), (1, 2)))
    assert len(finding.lines) == 4 and all(re.fullmatch(r"test_lint\.py:\d+", line) for line in finding.lines)


def test_after_an_error_of_the_user_in_the_block() -> None:
    with pytest.raises(KeyError), Chip("Ascend910B1") as chip:
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        raise KeyError("mine")
    assert [finding.kind for finding in chip.lint()] == ["unmatched"]


def test_a_deadlock_that_is_not_a_matter_of_flags_is_no_finding() -> None:
    with pytest.raises(DeadlockError), Chip("Ascend910B1") as chip:
        vexp(Tensor("UB", "FP16", [64]), Tensor("UB"))()
    assert chip.lint() == []


def test_severities_come_in_their_order_and_findings_do_not_change() -> None:
    with Chip("Ascend910B1") as chip:
        for _ in range(2):
            set_flag("PIPE-MTE2", "PIPE-V", 9)
            wait_flag("PIPE-MTE2", "PIPE-V", 9)
        set_flag("PIPE-V", "PIPE-V", 0)
        wait_flag("PIPE-V", "PIPE-V", 0)
    found = chip.lint()
    assert [finding.kind for finding in found] == ["own-pipe", "id", "set-twice"]
    assert [SEVERITIES.index(finding.severity) for finding in found] == [1, 2, 2]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].kind = "other"  # type: ignore[misc]
    assert str(Finding("id", "hint", (), "text", "cure", 1, ())) == "hint: id: text; cure"


class Later(exploring.Explorer):
    schedules = False


def test_a_block_that_was_put_off_is_scheduled_when_its_result_is_read() -> None:
    with Later(quiet=True).looking_on(), Chip("Ascend910B1") as chip:
        set_flag("PIPE-MTE2", "PIPE-V", 0)
        wait_flag("PIPE-MTE2", "PIPE-V", 0)
    assert chip.result.total_cycles == 2 and chip.result is chip.result


def test_a_block_that_was_put_off_fails_when_its_result_is_read() -> None:
    with Later(quiet=True).looking_on():
        with Chip("Ascend910B1") as chip:
            set_flag("PIPE-MTE2", "PIPE-V", 0)
        with pytest.raises(FlagError, match="1 of set_flag and wait_flag do not pair up"):
            _ = chip.result


def test_a_place_stands_at_the_end_of_the_first_line() -> None:
    assert with_place("one", " (kernel.py:3)") == "one (kernel.py:3)"
    assert with_place("all:\n  one\n  two", " (kernel.py:3)") == "all: (kernel.py:3)\n  one\n  two"
    error = at_user_line(StateError, "all:\n  one")
    assert without_places(str(error)) == "all: (LINE)\n  one"


def test_register_loads_wait_for_the_load_with_a_flag_to_pipe_vec() -> None:
    for target, missing in (("PIPE-VEC", 0), ("PIPE-V", 1)):
        with Chip("Ascend950PR_9589") as chip, Core("aiv0"):
            x, register = Tensor("UB"), Tensor("VEC")
            x.load(Tensor("GM", "FP16", [64]))
            set_flag("PIPE-MTE2", target, 0)
            wait_flag("PIPE-MTE2", target, 0)
            with VecScope("scope"):
                register.load(x)
        found = [finding for finding in chip.lint() if finding.kind == "unordered"]
        assert len(found) == missing
        for finding in found:
            assert finding.cure.startswith('set_flag("aiv0_PIPE-MTE2", "aiv0_PIPE-VEC", id) behind the write and ')
