# SPDX-License-Identifier: Apache-2.0
"""Random programs, written in the DSL and, side by side, as the steps that the oracle understands.

A program is a list of integers, one an operation: Hypothesis makes it smaller by leaving operations out.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from oracle import Cells, Step

import mskpp

# Written down here a second time on purpose: the rule must not be taken from what it is to check.
PATHS = {
    "Ascend910B1": {
        "GM": {"UB": "PIPE-MTE2", "L1": "PIPE-MTE2", "L0A": "PIPE-MTE2", "L0B": "PIPE-MTE2"},
        "L1": {"L0A": "PIPE-MTE1", "L0B": "PIPE-MTE1", "BT": "PIPE-MTE1", "FB": "PIPE-FIX", "GM": "PIPE-MTE3"},
        "UB": {"GM": "PIPE-MTE3", "UB": "PIPE-V"},
        "L0C": {"GM": "PIPE-FIX", "L1": "PIPE-FIX"},
    },
    "Ascend950PR_9589": {
        "GM": {"UB": "PIPE-MTE2", "L1": "PIPE-MTE2"},
        "L1": {
            "L0A": "PIPE-MTE1",
            "L0B": "PIPE-MTE1",
            "BT": "PIPE-MTE1",
            "UB": "PIPE-MTE1",
            "FB": "PIPE-FIX",
            "GM": "PIPE-MTE3",
        },
        "UB": {"GM": "PIPE-MTE3", "L1": "PIPE-MTE3", "UB": "PIPE-V"},
        "L0C": {"GM": "PIPE-FIX", "L1": "PIPE-FIX", "UB": "PIPE-FIX"},
    },
}
CORES = ("", "aic0", "aiv0", "aiv1")
FLAG_PIPES = ("PIPE-MTE1", "PIPE-MTE2", "PIPE-MTE3", "PIPE-FIX", "PIPE-M", "PIPE-V", "PIPE-S")
UNARY = ("vabs", "vexp", "vrelu", "vsqrt")
BINARY = ("vadd", "vmul", "vmax", "vsub")
ACCUMULATING = ("vmla", "vmadd")
ROWS, COLUMNS = 4, 6
SHAPES = {
    "GM0": [ROWS, COLUMNS],
    "GM1": [ROWS, COLUMNS],
    "L10": [ROWS, COLUMNS],
    "L11": [ROWS, COLUMNS],
    "L0A0": [ROWS, COLUMNS],
    "L0B0": [COLUMNS, ROWS],
    "L0C0": [ROWS, ROWS],
    "UB0": [ROWS, COLUMNS],
    "UB1": [ROWS, COLUMNS],
    "UB2": [ROWS, COLUMNS],
    "BT0": [ROWS],
    "FB0": [ROWS, COLUMNS],
    "VEC0": [ROWS, COLUMNS],
    "VEC1": [ROWS, COLUMNS],
}
PRICED = [
    "MMAD",
    "VABS",
    "VEXP",
    "VRELU",
    "VSQRT",
    "VADD",
    "VMUL",
    "VMAX",
    "VSUB",
    "VMLA",
    "VMADD",
    "VADDS",
    "VAXPY",
    "RV_VADD",
    *(f"MOV-{source}_TO_{target}" for source, ways in PATHS["Ascend910B1"].items() for target in ways),
]


class View:
    """A tensor or a slice of one, and the cells of its region: the box around all that it selects."""

    def __init__(self, name: str, tensor: Any, key: tuple[Any, ...] = ()) -> None:
        extents = tensor.size
        whole = [slice(None)] * (len(extents) - len(key) + (... in key))
        at = key.index(...) if ... in key else len(key)
        axes = [*key[:at], *whole, *key[at + 1 :]]
        selected = [
            range(extent)[axis] if isinstance(axis, slice) else [range(extent)[axis]]
            for extent, axis in zip(extents, axes, strict=True)
        ]
        box = [range(min(axis), max(axis) + 1) for axis in selected]
        self.cells: Cells = frozenset((name, *cell) for cell in itertools.product(*box))
        self.elements = math.prod(map(len, selected))
        self.name = name
        self.key = key
        self.tensor = tensor[key] if key else tensor

    @property
    def bytes(self) -> int:
        return self.elements * {"FP16": 2, "FP32": 4}[self.tensor.dtype]


class Program:
    """Issues operations to the chip in force; `steps` is what the oracle makes of them.

    wild: with reads before writes, and waits before sets, in numbers that often end in a deadlock.
    """

    def __init__(self, chip: str, flags: bool = True, wild: bool = True) -> None:
        self.paths = PATHS[chip]
        self.flags = flags
        self.steps: list[Step] = []
        self.core = ""
        self.tensors: dict[str, Any] = {}
        self.made = 0
        self.sets: Counter[Any] = Counter()
        self.waits: Counter[Any] = Counter()
        self.wanted: set[tuple[str, int | None]] = set()  # tensors (and marks) that somebody may wait for in vain
        empty = ("L10", "UB0", "L0A0", "BT0") if wild else ("L0A0", "FB0")
        self.wild = wild
        self.marked: set[tuple[str, int]] = set()  # tensors with a version so marked
        for name, shape in SHAPES.items():
            memory = name[:-1]
            if memory == "VEC" and "UB" not in self.paths["L0C"]:
                continue
            ready = memory == "GM" or name not in empty
            if not ready:
                self.wanted.add((name, None))
            self.tensors[name] = mskpp.Tensor(memory, "FP32" if memory == "L0C" else "FP16", shape, None, ready)
            if ready:
                self.steps.append(Step(writes=View(name, self.tensors[name]).cells))

    def write(self, codes: list[int]) -> None:
        kinds: list[Callable[[random.Random], None]] = [self.load] * 5 + [self.vector] * 4 + [self.mmad, self.validity]
        kinds += [self.flag] * 3 + [self.barrier] if self.flags else []
        kinds += [self.scope] * 4 if "VEC0" in self.tensors else []
        for code in codes:
            choice = random.Random(code)
            with self.on(choice.choice(CORES)):
                choice.choice(kinds)(choice)
        self.write_what_is_wanted(random.Random(sum(codes)))
        for key in sorted(self.sets | self.waits):
            (source, target, number) = key
            for _ in range(self.waits[key] - self.sets[key]):
                self.issue_flag("set_flag", source, target, number, True)
            for _ in range(self.sets[key] - self.waits[key]):
                self.issue_flag("wait_flag", source, target, number, True)

    def write_what_is_wanted(self, choice: random.Random) -> None:
        """Most of it: what is left out ends in a deadlock, if somebody reads it."""
        for name, mark in sorted(self.wanted, key=str):
            sources = [memory for memory, ways in self.paths.items() if name[:-1] in ways]
            if choice.random() < 0.85 and sources:
                source = "GM1" if "GM" in sources else f"{sources[0]}0"
                view = View(source, self.tensors[source], (slice(1), slice(4)))
                pipe = self.paths[source[:-1]][name[:-1]]
                self.record_move(View(name, self.tensors[name]), view, pipe, -1 if mark is None else mark, -1)

    @contextlib.contextmanager
    def on(self, core: str) -> Iterator[None]:
        self.core = core
        with mskpp.Core(core) if core else contextlib.nullcontext():
            yield
        self.core = ""

    # --- operands ---

    def view(self, choice: random.Random, name: str) -> View:
        tensor = self.tensors[name]
        if choice.random() < 0.4:
            return View(name, tensor)
        key: list[Any] = []
        for extent in tensor.size:
            start = choice.randrange(extent)
            stop = choice.randint(start + 1, extent)
            way = choice.randrange(8)
            key.append(
                start
                if way == 0
                else slice(None, None, -1)
                if way == 1
                else slice(start, stop, 2)
                if way == 2
                else slice(start - extent, None)
                if way == 3
                else slice(start, stop)
            )
        if choice.random() < 0.1:
            key = [..., key[-1]]
        return View(name, tensor, tuple(key))

    def names(self, memory: str) -> list[str]:
        return [name for name in self.tensors if name[:-1] == memory or name.startswith(memory + "-")]

    # --- operations ---

    def load(self, choice: random.Random) -> None:
        source_memory = choice.choice(list(self.paths))
        target_memory = choice.choice(list(self.paths[source_memory]))
        source = self.view(choice, choice.choice(self.names(source_memory)))
        self.move(choice, source, target_memory, self.paths[source_memory][target_memory])

    def move(self, choice: random.Random, source: View, target_memory: str, pipe: str) -> None:
        name = choice.choice([name for name in self.names(target_memory) if "-" not in name])
        target = self.view(choice, name)
        if target.elements < source.elements:
            target = View(name, self.tensors[name])
        if target.elements < source.elements:
            return
        marks, expects = choice.choice([(-1, -1)] * 6 + [(0, -1), (1, -1)] * 2 + [(-1, 0), (-1, 1)] * (1 + self.wild))
        if expects >= 0 and not self.wild and (source.name, expects) not in self.marked:
            expects = -1
        self.record_move(target, source, pipe, marks, expects)
        if expects >= 0:
            self.wanted.add((source.name, expects))
        self.marked.add((target.name, marks))

    def record_move(self, target: View, source: View, pipe: str, marks: int, expects: int) -> None:
        target.tensor.load(source.tensor, set_value=marks, expect_value=expects)
        marked, expected = (None if mark < 0 else mark for mark in (marks, expects))
        step = Step(self.core, pipe, reads=source.cells, writes=target.cells, marks=marked, expects=expected)
        self.steps.append(step._replace(bytes=target.bytes))

    def vector(self, choice: random.Random) -> None:
        x = self.view(choice, choice.choice(self.names("UB")))
        y, z = self.like(x, choice), self.like(x, choice)
        if x.key and choice.random() < 0.2:
            y = View("UB1", self.tensors["UB1"], (slice(1, 2), slice(2, 3)))  # one value for all
        kind = choice.randrange(8)
        reads, updates = x.cells | y.cells, frozenset()
        if kind < 2:
            getattr(mskpp, choice.choice(UNARY))(x.tensor, z.tensor)()
            reads = x.cells
        elif kind == 2:
            mskpp.vadds(x.tensor, 1.5, z.tensor)()
            reads = x.cells
        elif kind == 3:
            mskpp.vaxpy(x.tensor, 2, z.tensor)()
            reads, updates = x.cells, z.cells
        elif kind == 4:
            getattr(mskpp, choice.choice(ACCUMULATING))(x.tensor, y.tensor, z.tensor)()
            updates = z.cells
        else:
            getattr(mskpp, choice.choice(BINARY))(x.tensor, y.tensor, z.tensor)()
        over = (reads | updates) & z.cells
        step = Step(self.core, "PIPE-V", reads=reads, updates=updates, writes=z.cells, bytes=z.bytes, over=over)
        self.steps.append(step)

    def like(self, x: View, choice: random.Random) -> View:
        """A view of the same shape: x itself, or the same part of another tensor of its memory."""
        name = choice.choice([n for n in self.names(x.name[:-1]) if n != x.name] + [x.name])
        return x if name == x.name else View(name, self.tensors[name], x.key)

    def mmad(self, choice: random.Random) -> None:
        m, k, n = (choice.randint(1, extent) for extent in (ROWS, COLUMNS, ROWS))
        x = View("L0A0", self.tensors["L0A0"], (slice(m), slice(k)))
        y = View("L0B0", self.tensors["L0B0"], (slice(COLUMNS - k, None), slice(n)))
        if choice.random() < 0.3:
            b = View("BT0", self.tensors["BT0"], (slice(n),))
        else:
            b = View("L0C0", self.tensors["L0C0"], (slice(ROWS - m, None), slice(n)))
        ready = choice.random() < 0.5
        if ready:
            self.steps.append(Step(writes=View(b.name, self.tensors[b.name]).cells))
        out = mskpp.mmad(x.tensor, y.tensor, b.tensor, ready)()[0]
        self.made += 1
        name = f"L0C-{self.made}"
        self.tensors[name] = out
        written = View(name, out)
        over = b.cells if b.name == "L0C0" else frozenset()
        step = Step(self.core, "PIPE-M", reads=x.cells | y.cells | b.cells, writes=written.cells)
        self.steps.append(step._replace(bytes=written.bytes, over=over))

    def validity(self, choice: random.Random) -> None:
        name = choice.choice(list(self.tensors))
        cells = View(name, self.tensors[name]).cells
        self.marked = {pair for pair in self.marked if pair[0] != name}
        part = self.view(choice, name).tensor  # of a slice, the whole tensor is meant
        if choice.random() < (0.5 if self.wild else 0.95):
            part.set_valid()
            self.steps.append(Step(writes=cells))
        else:
            part.set_invalid()
            self.steps.append(Step(empties=cells))
            if "-" not in name:
                self.wanted.add((name, None))

    def flag(self, choice: random.Random) -> None:
        source, target = ((choice.choice(CORES), choice.choice(FLAG_PIPES)) for _ in range(2))
        if choice.random() < 0.5:
            source, target = (self.core, source[1]), (self.core, target[1])
        if "" in (source[0], target[0]) and self.core:
            source, target = (source[0] or self.core, source[1]), (target[0] or self.core, target[1])
        if choice.random() < 0.2 and "VEC0" in self.tensors:
            source, target = choice.choice([(source, (target[0], "PIPE-VEC")), ((source[0], "PIPE-VEC"), target)])
        # Mostly the set first, or both: the other way round, most programs would end in a deadlock.
        number = choice.randrange(2)
        for what in choice.choice([("set_flag",)] * 5 + [("set_flag", "wait_flag")] * 5 + [("wait_flag",)] * self.wild):
            self.issue_flag(what, source, target, number, choice.random() < 0.5)

    def issue_flag(self, what: str, source: Any, target: Any, number: int, qualified: bool) -> None:
        names = [
            f"{core}_{pipe}" if core and (qualified or core != self.core) else pipe for core, pipe in (source, target)
        ]
        getattr(mskpp, what)(*names, number)
        key = (source, target, number)
        if what == "set_flag":
            self.sets[key] += 1
            pipe = "RVECST" if source[1] == "PIPE-VEC" else source[1]
            self.steps.append(Step(source[0], pipe, 1, sets=key))
            return
        self.waits[key] += 1
        pipes = ("RVECLD0", "RVECLD1") if target[1] == "PIPE-VEC" else (target[1],)
        self.steps += [Step(target[0], pipe, 1, awaits=key) for pipe in pipes]

    def barrier(self, choice: random.Random) -> None:
        everything = choice.random() < 0.7
        pipe = choice.choice(FLAG_PIPES)
        mskpp.pipe_barrier("PIPE-ALL" if everything else pipe)
        self.steps.append(Step(self.core, "PIPE-S" if everything else pipe, barrier=everything))

    def scope(self, choice: random.Random) -> None:
        loads = executes = 0
        with mskpp.VecScope("scope"):
            for _ in range(choice.randint(1, 4)):
                kind = choice.randrange(3)
                if kind == 0:
                    before = len(self.steps)
                    source = self.view(choice, choice.choice(self.names("UB")))
                    self.move(choice, source, "VEC", f"RVECLD{loads % 2}")
                    loads += len(self.steps) - before
                elif kind == 1:
                    x = self.view(choice, choice.choice(self.names("VEC")))
                    y, z = self.like(x, choice), self.like(x, choice)
                    mskpp.rv_vadd(x.tensor, y.tensor, z.tensor)()
                    reads = x.cells | y.cells
                    step = Step(self.core, f"RVECEX{executes % 2}", reads=reads, writes=z.cells)
                    self.steps.append(step._replace(bytes=z.bytes, over=reads & z.cells))
                    executes += 1
                else:
                    self.move(choice, self.view(choice, choice.choice(self.names("VEC"))), "UB", "RVECST")


def issued(steps: list[Step]) -> list[int]:
    """Numbers of the steps that are instructions."""
    return [i for i, step in enumerate(steps) if step.pipe]


def full_name(step: Step) -> str:
    """The pipe as results spell it."""
    return f"{step.core}-{step.pipe}" if step.core else step.pipe
