# SPDX-License-Identifier: Apache-2.0
"""Instructions and costs of the user's own: RegisterOf and RegisterPrefOf in all forms, and answers that are none."""

from __future__ import annotations

import logging
import math
from fractions import Fraction
from typing import Any

import numpy
import pytest
from utils import results

import mskpp
from mskpp import Chip, Core, PrefModel, RegisterOf, RegisterPrefOf, Tensor, VecScope
from mskpp.errors import ArgumentError, CountOverflowError, InputError


def ub(size: Any = (4, 128), dtype: str = "FP16") -> Tensor:
    return Tensor("UB", dtype, size, None, True)


class Same:
    """An instruction of the same shape."""

    pipe = "PIPE-V"

    def infer_shape(self, inputs: Any, outputs: Any, attr: Any) -> None:
        for out in outputs:
            out.dtype, out.size = inputs[0].dtype, inputs[0].size


def register(name: str = "VFOO", cls: type = Same, cycles: Any = 7, size: Any = 11) -> Any:
    class Cost(PrefModel):
        def time(self) -> Any:
            return cycles

        def size(self) -> Any:
            return size

    RegisterPrefOf(name)(Cost)
    return RegisterOf(name)(cls)


# --- instructions ---


def test_usable_at_once_like_a_built_in_one() -> None:
    made = register()
    assert mskpp.vfoo is made and made.__name__ == "vfoo" and made.__doc__ == "An instruction of the same shape."
    assert made.instruction == "VFOO" and made.pipe == "PIPE-V" and repr(made) == "<instruction vfoo>"
    out = Tensor("UB")
    with Chip("Ascend910B1") as chip:
        chip.enable_trace()
        chip.enable_metrics()
        assert mskpp.vfoo(ub(), ub(), out)() == (out,)
        mskpp.vabs(out, Tensor("UB"))()
    assert (out.dtype, out.size) == ("FP16", [4, 128])
    first, second = chip.result.events()
    assert (first.name, first.pipe, first.end, first.work, first.origin) == ("VFOO", "PIPE-V", 7, 11, "user")
    assert second.start == 7
    row = results.table(chip.output_dir, "Instruction_statistic.csv")[0]
    assert (row["Instruction"], row["Cycle"], row["Size(B)"], row["Ops"]) == ("VFOO", "7", "-", "11")
    assert results.slices(chip.output_dir)[0]["args"] == {
        "Cycle": 7,
        "Task Type": "AI_CORE",
        "Ops": 11,
        "Ops/Cycle": Fraction("1.5714"),
    }


def test_the_forms_of_a_call() -> None:
    seen: list[Any] = []

    @RegisterOf("vfoo")  # names in any case
    class Foo:
        pipe = "pipe-v"

        def __init__(self, inputs: Any, outputs: Any, attr: Any) -> None:
            seen.append((inputs, outputs, dict(attr)))

        def infer_shape(self) -> None:
            seen[-1][1][0].dtype, seen[-1][1][0].size = "FP16", [8]

    @RegisterPrefOf("VFOO")
    class Cost:
        def __init__(self, inputs: Any, outputs: Any) -> None:
            assert outputs[0].size == [8]  # known before the cost is asked for

        def time(self) -> int:
            return 1

        def size(self) -> int:
            return 1

    x, y, out = ub(), ub(), Tensor("UB")
    with Chip("Ascend910B1"):
        mskpp.vfoo(x, 2.5, y, out, mode="fast")()
        mskpp.vfoo((x, y), (out,), {"mode": "fast"})()
        mskpp.vfoo([x, 1], [out], {"a": 1}, b=2)()
    assert seen == [
        ((x, 2.5, y), (out,), {"mode": "fast"}),
        ((x, y), (out,), {"mode": "fast"}),
        ((x, 1), (out,), {"a": 1, "b": 2}),
    ]


def test_infer_shape_may_return_new_outputs() -> None:
    class Pair:
        pipe = "PIPE-M"

        def infer_shape(self, inputs: Any) -> Any:
            return Tensor("UB", "FP32", [1]), Tensor("UB", "FP32", [2])

    class Single:
        pipe = "PIPE-M"

        def infer_shape(self, inputs: Any) -> Any:
            return Tensor("UB", "FP32", [3])

    register("VPAIR", Pair)
    register("VONE", Single)
    with Chip("Ascend910B1") as chip:
        assert [t.size for t in mskpp.vpair(ub())()] == [[1], [2]]
        [third] = mskpp.vone(ub())()
        assert third.size == [3] and third.is_valid()
    assert chip.result.total_cycles == 14


def test_inputs_are_waited_for() -> None:
    register("VFOO", cycles=10)
    with Chip("Ascend910B1") as chip:
        x = Tensor("UB", "FP16", [4])
        for core in "ab":
            with Core(core):
                mskpp.vfoo(ub((4,)), x)() if core == "a" else mskpp.vfoo(x, Tensor("UB"))()
    assert [event.start for event in chip.result.events()] == [0, 10]


def test_the_chips_table_may_give_the_cost() -> None:
    RegisterOf("VABS2")(Same)
    with (
        pytest.raises(
            ArgumentError, match=r"vabs2: no cost for FP16 FP16\. Register one with RegisterPrefOf: docs/add_an"
        ),
        Chip("Ascend910B1"),
    ):
        mskpp.vabs2(ub(), Tensor("UB"))()


def test_a_built_in_name_gets_the_new_meaning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mskpp"):
        register("VADD", cycles=99)
    assert "the instruction VADD is registered anew" in caplog.text
    with Chip("Ascend910B1") as chip:
        mskpp.vadd(ub(), ub(), Tensor("UB"))()
    assert chip.result.total_cycles == 99


def test_registered_anew(caplog: pytest.LogCaptureFixture) -> None:
    register(cycles=1)
    with caplog.at_level(logging.INFO, "mskpp"):
        register(cycles=2)
    assert [record.getMessage() for record in caplog.records] == [
        "the cost of VFOO is registered anew",
        "the instruction VFOO is registered anew",
    ]
    with Chip("Ascend910B1") as chip:
        mskpp.vfoo(ub(), Tensor("UB"))()
    assert chip.result.total_cycles == 2


def test_outside_any_chip_it_is_checked(outside_chip: None) -> None:
    register()
    out = Tensor("UB")
    mskpp.vfoo(ub(), out)()
    assert out.size == [4, 128]


@pytest.mark.parametrize("pipe", ["PIPE-V", "PIPE-S", "PIPE-MTE1", "PIPE-FIX"])
def test_every_pipe(pipe: str) -> None:
    register("VFOO", type("Foo", (Same,), {"pipe": pipe}))
    with Chip("Ascend910B1") as chip, Core("aiv0"):
        mskpp.vfoo(ub(), Tensor("UB"))()
    assert list(chip.result.pipes) == [f"aiv0-{pipe}"]


def test_an_own_register_instruction() -> None:
    register("RV_FOO", type("Foo", (Same,), {"pipe": "RVECEX"}))
    with Chip("Ascend950PR_9589") as chip, VecScope("vf"):
        for _ in range(2):
            mskpp.rv_foo(Tensor("VEC", "FP16", [4], None, True), Tensor("VEC"))()
    assert list(chip.result.pipes) == ["RVECEX0", "RVECEX1"]


# --- costs ---


def test_a_class_with_time_and_size_is_enough() -> None:
    @RegisterPrefOf("VABS")
    class Cost:
        def __init__(self, inputs: Any, outputs: Any, attr: Any) -> None:
            self.elements = math.prod(inputs[0].size)

        def time(self) -> float:
            return self.elements / 100

        def size(self) -> int:
            return self.elements

    with Chip("Ascend910B1") as chip:
        mskpp.vabs(ub(), Tensor("UB"))()
    [event] = chip.result.events()
    assert (event.end, event.work, event.origin) == (6, 512, "user")


def test_a_model_sees_inputs_outputs_and_attributes() -> None:
    seen = []

    @RegisterPrefOf("VCADD")
    class Cost(PrefModel):
        def time(self) -> int:
            seen.append((self.inputs, self.outputs, self.attr, self.outputs[0].size))
            return 1

    x, out = ub(), Tensor("UB")
    with Chip("Ascend910B1") as chip:
        mskpp.vcadd(x, out, reduce_num=4)()
    assert seen == [((x,), (out,), {"reduce_num": 4}, [4, 32])]
    assert next(chip.result.events()).work == 512  # by default, the elements of the first input


def test_the_documented_form_with_the_name_first() -> None:
    def total() -> int:
        with Chip("Ascend910B1") as chip:
            mskpp.vadd(ub(), ub(), Tensor("UB"))()
        return int(chip.result.total_cycles)

    built_in = total()

    @RegisterPrefOf("VADD")
    class VaddPref(PrefModel):
        def __init__(self, inputs: Any, outputs: Any) -> None:
            super().__init__("VADD", inputs, outputs)

        def size(self) -> int:
            return int(numpy.prod(self.inputs[0].size))

        def time(self) -> int:
            rate = mskpp.prof_data.VaddData().get(self.size(), "FP16_FP16_FP16")
            return 2 * math.ceil(2 * self.size() / rate)

    assert total() == 2 * built_in


def test_each_instruction_is_asked_once_while_recording() -> None:
    asked = []

    @RegisterPrefOf("MMAD")
    class Cost(PrefModel):
        def time(self) -> int:
            asked.append("time")
            return 5

        def size(self) -> int:
            asked.append("size")
            return 5

    with Chip("Ascend910B1") as chip:
        x, y = Tensor("L0A", "FP16", [16, 16], None, True), Tensor("L0B", "FP16", [16, 16], None, True)
        [out] = mskpp.mmad(x, y, Tensor("L0C", "FP32", [16, 16]), True)()
        assert asked == ["time", "size"] and out.size == [16, 16]
    assert asked == ["time", "size"] and chip.result.total_cycles == 5


def test_a_cost_lifts_the_need_for_a_table() -> None:
    with Chip("Ascend910B1") as chip:
        RegisterPrefOf("VABS")(type("Cost", (PrefModel,), {"time": lambda self: 3}))
        mskpp.vabs(ub(dtype="INT64"), Tensor("UB"))()
    assert chip.result.total_cycles == 3


@pytest.mark.parametrize(
    ("answer", "cycles"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (0.4, 1),
        (1e-10, 0),
        (1e-8, 1),
        (3, 3),
        (3.0, 3),
        (3.0000000001, 3),
        (3.01, 4),
        (numpy.float32(2.5), 3),
        (numpy.float64(7), 7),
        (numpy.int8(100), 100),
        (numpy.uint64(2**40), 2**40),
        (Fraction(7, 2), 4),
        (2**31, 2**31),
        (2**33 + 1, 2**33 + 1),
        (2**53 + 1, 2**53 + 1),
        (2**62, 2**62),
    ],
    ids=repr,
)
def test_answers_that_are_cycles(answer: Any, cycles: int) -> None:
    register(cycles=answer)
    with Chip("Ascend910B1") as chip:
        mskpp.vfoo(ub(), Tensor("UB"))()
    assert chip.result.total_cycles == cycles


BAD_ANSWERS = [
    ("7", ArgumentError),
    (None, ArgumentError),
    (1j, ArgumentError),
    (True, ArgumentError),
    (numpy.bool_(True), ArgumentError),
    ([3], ArgumentError),
    (b"3", ArgumentError),
    (math.nan, InputError),
    (math.inf, InputError),
    (-math.inf, InputError),
    (-1, InputError),
    (-1e-3, InputError),
    (numpy.float32("nan"), InputError),
    (numpy.int8(-5), InputError),
    (2**63, CountOverflowError),
    (2**62 + 1, CountOverflowError),
    (1e19, CountOverflowError),
    (10**400, CountOverflowError),
    (Fraction(10**400), CountOverflowError),
]


@pytest.mark.parametrize(("answer", "error"), BAD_ANSWERS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("method", ["time", "size"])
@pytest.mark.parametrize("name", ["VFOO", "VABS", "MOV-GM_TO_UB"])
def test_answers_that_are_none(answer: Any, error: type[Exception], method: str, name: str) -> None:
    class MyCost(PrefModel):
        def time(self) -> Any:
            return answer if method == "time" else 1

        def size(self) -> Any:
            return answer if method == "size" else 1

    RegisterPrefOf(name)(MyCost)
    RegisterOf("VFOO")(Same)

    def issue(out: Tensor) -> None:
        if name.startswith("MOV"):
            out.load(Tensor("GM", "FP16", [4, 128]))
        else:
            getattr(mskpp, name.lower())(ub(), out)()

    with Chip("Ascend910B1") as chip:
        out = Tensor("UB")
        with pytest.raises(error) as caught:
            issue(out)
        message = str(caught.value)
        assert message.startswith(f"MyCost.{method}() of {name} returned ")
        assert "must be a finite number of at least 0" in message or "at most 2^62 is allowed" in message
        assert "(test_registry.py:" in message and len(message) < 300
        assert (out.dtype, out.size) == (None, None)  # nothing half-done
    assert len(chip.result) == 0


@pytest.mark.parametrize("name", ["VFOO", "VABS", "MOV-GM_TO_UB"])
def test_an_exception_propagates_as_itself_and_the_next_call_is_clean(name: str) -> None:
    failing = [True]

    @RegisterPrefOf(name)
    class Cost(PrefModel):
        def time(self) -> int:
            if failing.pop():
                raise KeyError("mine")
            return 5

    RegisterOf("VFOO")(Same)
    failing[:] = [False, True]
    with Chip("Ascend910B1") as chip:
        for i in range(2):
            out = Tensor("UB")
            try:
                if name.startswith("MOV"):
                    out.load(Tensor("GM", "FP16", [4, 128]))
                else:
                    getattr(mskpp, name.lower())(ub(), out)()
            except KeyError as error:
                assert i == 0 and error.args == ("mine",)
                assert (out.dtype, out.size) == (None, None)
            else:
                assert i == 1
    assert [event.end - event.start for event in chip.result.events()] == [5]


def test_methods_whose_signature_cannot_be_told() -> None:
    """As of those written in C; slice stands for one that takes what it is given, all three arguments."""
    register("VFOO", type("Foo", (), {"pipe": "PIPE-V", "infer_shape": slice}))
    with Chip("Ascend910B1"), pytest.raises(ArgumentError, match=r"returned 'slice\(\(Tensor.*, \(Tensor.*, \{\}"):
        mskpp.vfoo(ub(), Tensor("UB", "FP16", [4]))()


def test_a_model_without_time() -> None:
    RegisterPrefOf("VABS")(type("Lazy", (PrefModel,), {}))
    with Chip("Ascend910B1"), pytest.raises(NotImplementedError, match=r"Lazy must define time\(\)"):
        mskpp.vabs(ub(), Tensor("UB"))()


def test_sums_of_costs_that_overflow() -> None:
    register(cycles=2**62)
    with (
        pytest.raises(CountOverflowError, match=r"schedule: the time passes 2\^62 cycles at VFOO") as caught,
        Chip("Ascend910B1"),
    ):
        for _ in range(3):
            mskpp.vfoo(ub(), Tensor("UB"))()
    assert isinstance(caught.value, OverflowError)


def test_work_that_overflows_in_the_sum() -> None:
    register(size=2**62)
    with pytest.raises(CountOverflowError), Chip("Ascend910B1"):
        for _ in range(3):
            mskpp.vfoo(ub(), Tensor("UB"))()


# --- paths ---


def test_a_path_the_chip_does_not_have() -> None:
    @RegisterOf("MOV-L1_TO_UB")
    class Path:
        pipe = "PIPE-MTE1"

    RegisterPrefOf("mov-l1_to_ub")(type("Cost", (PrefModel,), {"time": lambda self: 42}))
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(Tensor("L1", "FP16", [128], None, True))
    [event] = chip.result.events()
    assert (event.name, event.pipe, event.end, event.origin) == ("MOV-L1_TO_UB", "PIPE-MTE1", 42, "user")


def test_a_path_whose_pipe_stands_on_the_cost() -> None:
    RegisterPrefOf("MOV-L0C_TO_UB")(type("Cost", (PrefModel,), {"time": lambda self: 1, "pipe": "PIPE-FIX"}))
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(Tensor("L0C", "FP32", [128], None, True))
    assert list(chip.result.pipes) == ["PIPE-FIX"]


def test_the_pipe_of_a_path_may_come_after_its_cost() -> None:
    RegisterPrefOf("MOV-GM_TO_UB")(type("Cost", (PrefModel,), {"time": lambda self: 1}))
    RegisterOf("MOV-GM_TO_UB")(type("Path", (), {"pipe": "PIPE-S"}))
    with Chip("Ascend910B1") as chip:
        Tensor("UB").load(Tensor("GM", "FP16", [128]))
    assert list(chip.result.pipes) == ["PIPE-S"]


def test_a_new_path_without_a_pipe() -> None:
    RegisterPrefOf("MOV-L1_TO_UB")(type("Cost", (PrefModel,), {"time": lambda self: 1}))
    with (
        pytest.raises(InputError, match="has no path L1 to UB and its registration names no pipe; set `pipe` on the"),
        Chip("Ascend910B1"),
    ):
        Tensor("UB").load(Tensor("L1", "FP16", [128], None, True))


def test_a_model_of_a_path_sees_repeat_and_transform() -> None:
    seen = []

    @RegisterPrefOf("MOV-GM_TO_L1")
    class Cost(PrefModel):
        def time(self) -> int:
            seen.append((self.attr["repeat"], self.attr["transform"], self.inputs[0].mem_type, self.outputs[0].size))
            return 1

    with Chip("Ascend910B1"):
        Tensor("L1", format="NZ").load(Tensor("GM", "FP16", [16, 16], "ND"), repeat=3)
    assert seen == [(3, True, "GM", [16, 16])]


# --- what cannot be registered ---


@pytest.mark.parametrize("decorator", [RegisterOf, RegisterPrefOf])
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (5, ArgumentError, "the name must be a str, got int"),
        (None, ArgumentError, "the name must be a str, got NoneType"),
        ("", InputError, "name ''; allowed are letters, digits and _, or MOV-SRC_TO_DST"),
        ("V FOO", InputError, "name 'V FOO'"),
        ("1V", InputError, "name '1V'"),
        ('V"\n', InputError, "allowed are letters"),
        ("V" * 129, InputError, "allowed are letters"),
        ("MOV-GM", InputError, "allowed are letters"),
        ("核", InputError, "allowed are letters"),
    ],
)
def test_names_that_cannot_be_registered(decorator: Any, name: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        decorator(name)
    assert str(caught.value).startswith(f"{decorator.__name__}: ") and words in str(caught.value)
    assert "(test_registry.py:" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("decorator", [RegisterOf, RegisterPrefOf])
def test_a_path_between_memories_that_do_not_exist(decorator: Any) -> None:
    cls = type("Cost", (PrefModel,), {"time": lambda self: 1, "pipe": "PIPE-V"})
    with pytest.raises(InputError, match="unknown mem_type 'L9'"):
        decorator("MOV-L9_TO_UB")(cls)


@pytest.mark.parametrize(
    "cls", [5, None, object, type("T", (), {"time": 1, "size": lambda self: 1}), lambda: 1], ids=range(5)
)
def test_costs_need_time_and_size(cls: Any) -> None:
    with pytest.raises(ArgumentError, match=r"RegisterPrefOf: VFOO needs a class with time\(\) and size\(\)"):
        RegisterPrefOf("VFOO")(cls)


@pytest.mark.parametrize(
    ("cls", "error", "words"),
    [
        (5, ArgumentError, "RegisterOf: VFOO needs a class, got int"),
        (type("A", (), {"pipe": "PIPE-V"}), ArgumentError, "needs a class with infer_shape(inputs, outputs, attr)"),
        (type("B", (), {}), ArgumentError, "RegisterOf: VFOO: pipe must be a str, got NoneType"),
        (type("C", (), {"pipe": 3}), ArgumentError, "RegisterOf: VFOO: pipe must be a str, got int"),
        (type("D", (), {"pipe": "PIPE-Q"}), InputError, "RegisterOf: VFOO: unknown pipe 'PIPE-Q'"),
    ],
)
def test_instructions_need_a_pipe_and_infer_shape(cls: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        RegisterOf("VFOO")(cls)
    assert words in str(caught.value)
    with pytest.raises(AttributeError):
        mskpp.vfoo  # noqa: B018


@pytest.mark.parametrize("pipe", ["PIPE-ALL", "PIPE-VEC"])
def test_a_pipe_that_is_no_single_queue(pipe: str) -> None:
    with pytest.raises(InputError, match=f"RegisterOf: VFOO: .*{pipe}"):
        register("VFOO", type("Foo", (Same,), {"pipe": pipe}))


@pytest.mark.parametrize("operand", ["x", None, True, object()], ids=range(4))
def test_operands_of_an_own_instruction(operand: Any) -> None:
    register()
    with pytest.raises(ArgumentError, match="vfoo: operands must be Tensors or numbers, got "):
        mskpp.vfoo(ub(), operand, Tensor("UB"))


@pytest.mark.parametrize("operands", [(), (2.5,), (2.5, 3)])
def test_a_call_without_tensors_has_no_cost_to_look_up(operands: Any) -> None:
    RegisterOf("VFOO")(Same)
    with pytest.raises(ArgumentError, match=r"vfoo: .*\(test_registry\.py:"), Chip("Ascend910B1"):
        mskpp.vfoo(*operands)()


def test_the_size_of_a_call_whose_first_operand_is_a_number() -> None:
    RegisterOf("VFOO")(type("Foo", (Same,), {"infer_shape": lambda self, i, o: setattr(o[0], "dtype", "FP16")}))
    RegisterPrefOf("VFOO")(type("Cost", (PrefModel,), {"time": lambda self: 1}))
    with Chip("Ascend910B1") as chip:
        mskpp.vfoo(2.5, ub(), Tensor("UB", "FP16", [4]))()
    assert next(chip.result.events()).work == 512  # the elements of the first Tensor


def test_infer_shape_that_leaves_something_open() -> None:
    register("VFOO", type("Foo", (Same,), {"infer_shape": lambda *_: None}))
    with (
        pytest.raises(InputError, match=r"vfoo: infer_shape\(\) of Foo left an output without dtype or size"),
        Chip("Ascend910B1"),
    ):
        mskpp.vfoo(ub(), Tensor("UB"))()


def test_an_exception_in_infer_shape_takes_back_what_it_set() -> None:
    class Failing(Same):
        def infer_shape(self, inputs: Any, outputs: Any, attr: Any) -> None:
            super().infer_shape(inputs, outputs, attr)
            raise ZeroDivisionError

    register("VFOO", Failing)
    out = Tensor("UB")
    with Chip("Ascend910B1") as chip, pytest.raises(ZeroDivisionError):
        mskpp.vfoo(ub(), out)()
    assert (out.dtype, out.size) == (None, None) and len(chip.result) == 0
