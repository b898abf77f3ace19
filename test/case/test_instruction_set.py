# SPDX-License-Identifier: Apache-2.0
"""Each of the 63 instructions: how it is called, what it costs, reads and writes. The list is the package's table."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy
import pytest
from utils import tables
from utils.registrations import register_cost

import mskpp
from mskpp import Chip, Tensor
from mskpp.core.instructions import BUILT_IN
from mskpp.errors import ArgumentError, InputError

NAMES = sorted(BUILT_IN)
REGISTER = [name for name in NAMES if name.startswith("rv_")]
VECTOR = [name for name in NAMES if name != "mmad" and name not in REGISTER]
PRICED: dict[str, list[list[str]]] = {name: [] for name in VECTOR}
for _name, _dtypes in tables.curves("Ascend910B1", "vec"):
    PRICED[next(n for n in VECTOR if BUILT_IN[n].instruction == _name)].append(_dtypes.split())
FIXED = {"vtranspose": 21.168, "vbitsort": 15.970}
ACCUMULATING = ("vmla", "vmadd", "vmaddrelu", "vaxpy")
ALL_ROWS = [(name, dtypes) for name in VECTOR for dtypes in PRICED[name]]


def ub(dtype: str = "FP16", size: Any = (4, 128), layout: str | None = "ND") -> Tensor:
    return Tensor("UB", dtype, size, layout, True)


def arguments_of(name: str) -> list[str]:
    return list(inspect.signature(BUILT_IN[name]).parameters)


def attributes_for(name: str, dtypes: list[str]) -> dict[str, Any]:
    """Arguments beside the operands that lead to these dtypes."""
    values = {
        "dtype": dtypes[-1],
        "fill_shape": [4, 128],
        "broadcast_num": 8,
        "reduce_num": 4,
        "reserve_num": 77,
        "if_mix": dtypes[0] == "FP16" and dtypes[-1] == "FP32",
    }
    return {key: value for key, value in values.items() if key in arguments_of(name)}


def call(name: str, dtypes: list[str], size: Any = (4, 128), out: Tensor | None = None) -> tuple[Any, Any]:
    """The outputs of a call, and the tensor that was to be written."""
    size = [16, 16] if name == "vtranspose" else size
    has_z = "z" in arguments_of(name)
    out = Tensor("UB") if out is None else out
    operands = [ub(dtypes[0], size), ub(dtypes[1], size), out] if has_z else [ub(dtypes[0], size), out]
    return getattr(mskpp, name)(*operands, **attributes_for(name, dtypes))(), out


def expected_shape(name: str, size: list[int]) -> list[int]:
    if name == "vbitsort":
        return [2 * extent for extent in size]
    if name == "vbrcb":
        return [*size[:-1], size[-1] * 8]
    if "reduce_num" in arguments_of(name):
        return [*size[:-1], size[-1] // 4]
    if "fill_shape" in arguments_of(name):
        return [4, 128]
    return [77] if "reserve_num" in arguments_of(name) else size


# --- the functions ---


def test_there_are_63() -> None:
    assert len(NAMES) == 63
    assert len({instruction.instruction for instruction in BUILT_IN.values()}) == 63
    assert set(NAMES) < set(mskpp.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_signature_documentation_and_names(name: str) -> None:
    function = getattr(mskpp, name)
    assert function is BUILT_IN[name]
    assert function.__name__ == function.__qualname__ == name
    signature = str(inspect.signature(function))
    assert signature == function.__text_signature__ and signature.startswith("(x, y")
    assert function.__doc__.startswith(f"{name}{signature}()\n\n{function.summary}.")
    assert function.instruction in function.__doc__ and "Raises" in function.__doc__
    assert function.instruction.replace("_", "") == name.upper().replace("_", "")
    assert repr(function) == f"<instruction {name}{signature}>"


@pytest.mark.parametrize("name", ["mmad", "vadd", "rv_vadd"])
def test_functions_are_found_where_users_find_them(name: str) -> None:
    function = getattr(mskpp, name)
    assert function.__module__ == "mskpp"
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", NAMES)
def test_pipe(name: str) -> None:
    pipe = "PIPE-M" if name == "mmad" else "RVECEX" if name in REGISTER else "PIPE-V"
    assert BUILT_IN[name].pipe == pipe


@pytest.mark.parametrize("name", NAMES)
def test_wrong_numbers_of_arguments_show_the_call(name: str) -> None:
    form = f"it is called as {name}{inspect.signature(BUILT_IN[name])}()"
    required = [p.name for p in inspect.signature(BUILT_IN[name]).parameters.values() if p.default is p.empty]
    for arguments, keywords, words in (
        ((), {}, "argument 'x' is missing"),
        ((ub(),) * (len(required) - 1), {}, f"argument '{required[-1]}' is missing"),
        ((ub(),) * 9, {}, "9 arguments given"),
        ((ub(),), {"other": 1}, "unknown argument 'other'"),
        ((ub(),), {"x": ub()}, "argument 'x' given twice"),
    ):
        with pytest.raises(ArgumentError) as caught:
            BUILT_IN[name](*arguments, **keywords)
        assert str(caught.value).startswith(f"{name}: {words}; {form} (test_instruction_set.py:")


@pytest.mark.parametrize("name", NAMES)
def test_operands_that_are_no_tensors(name: str) -> None:
    for wrong in ("x", True, None, [1], object()):
        with pytest.raises(
            ArgumentError, match=rf"^{name}: x must be a Tensor, got \w+ \(test_instruction_set\.py:\d+\)$"
        ):
            BUILT_IN[name](
                *[wrong] * len([p for p in arguments_of(name) if p in "xyzb"]), **attributes_for(name, ["FP16"])
            )


# --- results of a call ---


@pytest.mark.parametrize(("name", "dtypes"), ALL_ROWS)
def test_output(name: str, dtypes: list[str]) -> None:
    size = [16, 16] if name == "vtranspose" else [4, 128]
    with Chip("Ascend910B1") as chip:
        outputs, out = call(name, dtypes)
    assert isinstance(outputs, tuple) and len(outputs) == 1 and outputs[0] is out
    assert (out.dtype, out.size, out.format) == (dtypes[-1], expected_shape(name, size), "ND")
    [event] = chip.result.events()
    assert (event.name, event.pipe, event.kind) == (BUILT_IN[name].instruction, "PIPE-V", "computation")
    by_output = name in ("vbrcb", "vector_dup")
    assert event.work == numpy.prod(expected_shape(name, size) if by_output else size)


@pytest.mark.parametrize("name", FIXED)
def test_fixed_costs(name: str) -> None:
    with Chip("Ascend910B1") as chip:
        outputs, out = call(name, ["FP16", "FP16", "FP16"])
    assert chip.result.total_cycles == tables.ceil(FIXED[name])
    assert outputs == (out,)
    assert (out.dtype, out.size) == ("FP16", expected_shape(name, [16, 16] if name == "vtranspose" else [4, 128]))


@pytest.mark.parametrize("name", [*PRICED])
def test_the_output_takes_over_whatever_it_had(name: str) -> None:
    dtypes = PRICED[name][0] if PRICED[name] else ["FP16"] * 3
    with Chip("Ascend910B1"):
        _, out = call(name, dtypes, out=Tensor("UB", "INT64", [7], "NZ"))
    assert (out.dtype, out.format) == (dtypes[-1], "ND") and out.size != [7]


@pytest.mark.parametrize(("name", "dtypes"), [(name, rows[0]) for name, rows in PRICED.items() if rows])
def test_inputs_keep_dtype_and_shape(name: str, dtypes: list[str]) -> None:
    x, y = ub(dtypes[0]), ub(dtypes[1])
    operands = (x, y, Tensor("UB")) if "z" in arguments_of(name) else (x, Tensor("UB"))
    with Chip("Ascend910B1"):
        getattr(mskpp, name)(*operands, **attributes_for(name, dtypes))()
    assert (x.dtype, x.size, y.dtype, y.size) == (dtypes[0], [4, 128], dtypes[1], [4, 128])


@pytest.mark.parametrize(("name", "dtypes"), [(name, rows[0]) for name, rows in PRICED.items() if rows])
def test_arguments_by_keyword(name: str, dtypes: list[str]) -> None:
    out = Tensor("UB")
    keywords: dict[str, Any] = {"x": ub(dtypes[0]), "y": out, **attributes_for(name, dtypes)}
    if "z" in arguments_of(name):
        keywords.update(y=ub(dtypes[1]), z=out)
    with Chip("Ascend910B1"):
        assert getattr(mskpp, name)(**keywords)()[0] is out


@pytest.mark.parametrize("name", [name for name in VECTOR if not FIXED.get(name)])
def test_a_dtype_without_a_cost_lists_those_that_have_one(name: str) -> None:
    attributes = attributes_for(name, ["INT64", "INT64"])
    operands = [ub("INT64"), ub("INT64"), Tensor("UB")] if "z" in arguments_of(name) else [ub("INT64"), Tensor("UB")]
    with pytest.raises(ArgumentError) as caught, Chip("Ascend910B1"):
        getattr(mskpp, name)(*operands, **attributes)()
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    if "converts FP32 to FP16" not in message:  # narrowing says first what it can narrow
        known = ", ".join(sorted(" ".join(dtypes) for dtypes in PRICED[name]))
        assert "no cost for INT64" in message
        assert f"on Ascend910B1; costs exist for {known}. Register one: docs/add_an_instruction.md" in message
    assert operands[-1].dtype is None


@pytest.mark.parametrize("name", VECTOR)
def test_operands_lie_in_ub(name: str) -> None:
    dtypes = PRICED[name][0] if PRICED[name] else ["FP16"] * 3
    good = [ub(dtypes[0], [16, 16]), ub(dtypes[1], [16, 16]), Tensor("UB")]
    good = good if "z" in arguments_of(name) else [good[0], good[2]]
    for i in range(len(good)):
        operands = [*good]
        operands[i] = Tensor("L1", dtypes[0], [16, 16], None, True)
        with pytest.raises(InputError) as caught, Chip("Ascend910B1"):
            getattr(mskpp, name)(*operands, **attributes_for(name, dtypes))()
        assert f"{name}: {'xyz'[i]} lies in L1; it must lie in UB (" in str(caught.value)


@pytest.mark.parametrize("name", VECTOR)
def test_inputs_without_a_type(name: str) -> None:
    operands = [Tensor("UB"), ub(), Tensor("UB")] if "z" in arguments_of(name) else [Tensor("UB"), Tensor("UB")]
    attributes = attributes_for(name, ["FP16", "FP16"])
    with pytest.raises(InputError, match=r"x, a UB tensor .* has no dtype or no size yet"), Chip("Ascend910B1"):
        getattr(mskpp, name)(*operands, **attributes)()


# --- pairs ---

# x and y agree where the cost key takes x.dtype for both.
PAIRED = [name for name in VECTOR if "z" in arguments_of(name) and name not in ("vmrgsort", "vbitsort")]


@pytest.mark.parametrize("name", PAIRED)
def test_y_has_the_dtype_of_x(name: str) -> None:
    dtypes = PRICED[name][0]
    other = "INT64" if dtypes[0] != "INT64" else "FP32"
    with pytest.raises(ArgumentError) as caught, Chip("Ascend910B1"):
        getattr(mskpp, name)(ub(dtypes[0]), ub(other), Tensor("UB"), **attributes_for(name, dtypes))()
    assert f"{name}: x is {dtypes[0]} [4,128] but y is {other} [4,128]; their dtypes must agree" in str(caught.value)


@pytest.mark.parametrize("size", [[4, 128], [1, 128], [4, 1], [1, 1], [128], [1], [1, 1, 1]])
def test_y_is_broadcast(size: list[int]) -> None:
    with Chip("Ascend910B1") as chip:
        out = mskpp.vadd(ub(), ub(size=size), Tensor("UB"))()[0]
        mskpp.vadd(ub(), ub(), Tensor("UB"))()
    assert out.size == [4, 128]
    first, second = (event.end - event.start for event in chip.result.events())
    assert first == second


@pytest.mark.parametrize("size", [[4, 127], [2, 128], [128, 4], [4], [4, 128, 2], [1, 4, 128]])
def test_y_of_another_shape(size: list[int]) -> None:
    with pytest.raises(InputError) as caught, Chip("Ascend910B1"):
        mskpp.vadd(ub(), ub(size=size), Tensor("UB"))()
    text = str(size).replace(" ", "")
    assert f"vadd: x is FP16 [4,128] but y is FP16 {text}; each axis of y must equal x's or be 1" in str(caught.value)


SCALAR = [name for name in PAIRED if name.endswith("s") and name not in ("vsubs",)] + ["vlrelu", "vaxpy"]


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("value", [1.5, 2, numpy.float16(0.5), numpy.int64(3)], ids=repr)
def test_scalars_are_numbers(name: str, value: Any) -> None:
    dtypes = next(row for row in PRICED[name] if row[0] == row[-1])
    with Chip("Ascend910B1") as chip:
        assert getattr(mskpp, name)(ub(dtypes[0]), value, Tensor("UB"))()[0].size == [4, 128]
    assert len(chip.result) == 1


@pytest.mark.parametrize("name", SCALAR)
def test_scalars_are_tensors_of_one_element(name: str) -> None:
    dtypes = next(row for row in PRICED[name] if row[0] == row[-1])
    with Chip("Ascend910B1") as chip:
        getattr(mskpp, name)(ub(dtypes[0]), ub(dtypes[0], [1]), Tensor("UB"))()
    assert len(chip.result) == 1


@pytest.mark.parametrize("value", [True, "1", None, numpy.bool_(True), [1], 1j], ids=repr)
def test_scalars_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(ArgumentError, match="vadds: y must be a Tensor or a number, got "):
        mskpp.vadds(ub(), value, Tensor("UB"))


# --- particular rules ---


def test_vtranspose_takes_256_elements() -> None:
    with Chip("Ascend910B1"):
        assert mskpp.vtranspose(ub(size=[4, 64]), Tensor("UB"))()[0].size == [4, 64]
    with (
        pytest.raises(InputError, match=r"vtranspose: x has 255 elements \[255\]; it must have exactly 256"),
        Chip("Ascend910B1"),
    ):
        mskpp.vtranspose(ub(size=[255]), Tensor("UB"))()


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [
        ([4, 128], 4, [4, 32]),
        ([4, 128], 128, [4]),
        ([4, 128], 1000, [4]),
        ([128], 128, [1]),
        ([128], 300, [1]),
        ([4, 100], 3, [4, 33]),
        ([2, 3, 64], 64, [2, 3]),
        ([4, 128], 1, [4, 128]),
    ],
)
def test_reductions_shorten_the_last_axis(size: list[int], count: int, expected: list[int]) -> None:
    with Chip("Ascend910B1"):
        assert mskpp.vcadd(ub(size=size), Tensor("UB"), count)()[0].size == expected


def test_counts_and_shapes_out_of_range() -> None:
    for value, error, words in (
        (0, InputError, "vcadd: reduce_num is 0; allowed are 1 to 2147483647"),
        (-1, InputError, "reduce_num is -1"),
        (2**31, InputError, "reduce_num is 2147483648"),
        (True, ArgumentError, "vcadd: reduce_num must be an int, got bool"),
        (2.0, ArgumentError, "vcadd: reduce_num must be an int, got float"),
    ):
        with pytest.raises(error, match=words):
            mskpp.vcadd(ub(), Tensor("UB"), value)
    with pytest.raises(InputError, match="vector_dup: axis 0 has extent 0"):
        mskpp.vector_dup(ub(size=[1]), Tensor("UB"), [0])
    with pytest.raises(InputError, match=r"vbrcb: broadcast_num: .*(extent|elements)"), Chip("Ascend910B1"):
        mskpp.vbrcb(ub("UINT16"), Tensor("UB"), 2**31 - 1)()
    with pytest.raises(InputError, match=r"vbitsort: (axis|more than)"), Chip("Ascend910B1"):
        mskpp.vbitsort(ub(size=[2**30]), ub(size=[2**30]), Tensor("UB"))()


def test_conversions_take_any_spelling_of_the_dtype() -> None:
    with Chip("Ascend910B1"):
        assert mskpp.vconv(ub("FP16"), Tensor("UB"), "float")()[0].dtype == "FP32"
    with pytest.raises(InputError, match="vconv: unknown dtype 'FP31'; did you mean 'FP32'"):
        mskpp.vconv(ub("FP16"), Tensor("UB"), "FP31")
    with pytest.raises(ArgumentError, match="vconv: dtype must be a str, got int"):
        mskpp.vconv(ub("FP16"), Tensor("UB"), 32)


@pytest.mark.parametrize("name", ["vaddreluconv", "vsubreluconv"])
def test_narrowing(name: str) -> None:
    with (
        pytest.raises(ArgumentError, match=r"x is INT32 .* it converts FP32 to FP16, and FP16 or INT16 to INT8"),
        Chip("Ascend910B1"),
    ):
        getattr(mskpp, name)(ub("INT32"), ub("INT32"), Tensor("UB"))()


@pytest.mark.parametrize("name", ["vmla", "vaxpy"])
@pytest.mark.parametrize("value", [1, None, "True"], ids=repr)
def test_if_mix_is_a_bool(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name}: if_mix must be a bool, got "):
        getattr(mskpp, name)(ub(), ub(), Tensor("UB"), value)


def test_vmrgsort_takes_its_dtypes_from_both_operands() -> None:
    with pytest.raises(ArgumentError, match="vmrgsort: no cost for FP16 FP16 FP16"), Chip("Ascend910B1"):
        mskpp.vmrgsort(ub(), ub(), Tensor("UB"))()
    with (
        pytest.raises(ArgumentError, match="vmrgsort: y must be a Tensor; its dtype decides the cost"),
        Chip("Ascend910B1"),
    ):
        mskpp.vmrgsort(ub(), 3, Tensor("UB"))()


# --- dependencies of a call ---


def pairs_of_steps(name: str, prepare: Any) -> list[int]:
    """Starts of two calls on different cores that share their output, when each call costs 10."""
    register_cost([BUILT_IN[name].instruction], lambda: 10)
    with Chip("Ascend910B1") as chip:
        z = prepare()
        for core in ("a", "b"):
            with mskpp.Core(core):
                operands = [ub(), ub(), z] if "z" in arguments_of(name) else [ub(), z]
                getattr(mskpp, name)(*operands, **attributes_for(name, ["FP16", "FP16"]))()
    return [event.start for event in chip.result.events()]


@pytest.mark.parametrize("name", ACCUMULATING)
def test_accumulators_wait_for_themselves(name: str) -> None:
    assert pairs_of_steps(name, lambda: Tensor("UB", "FP16", [4, 128])) == [0, 10]
    assert pairs_of_steps(name, ub) == [0, 10]


@pytest.mark.parametrize("name", [name for name in VECTOR if name not in (*ACCUMULATING, "vtranspose")])
def test_the_others_do_not(name: str) -> None:
    assert pairs_of_steps(name, lambda: Tensor("UB")) == [0, 0]


def test_an_accumulator_does_not_wait_for_an_output_without_a_value() -> None:
    register_cost(["VMLA"], lambda: 10)
    with Chip("Ascend910B1") as chip:
        z = Tensor("UB", "FP16", [4, 128])
        mskpp.vmla(ub(), ub(), z)()
    assert chip.result.total_cycles == 10


@pytest.mark.parametrize("name", ["vadd", "vabs", "vadds", "vmla"])
def test_which_inputs_are_waited_for(name: str) -> None:
    """Each input is written by a load of its own length; the start tells which were waited for."""
    costs = iter((100, 1000))
    register_cost(["MOV-GM_TO_UB"], lambda: next(costs))
    with Chip("Ascend910B1") as chip:
        x, y, z = (Tensor("UB", "FP16", [4, 128]) for _ in range(3))
        for core, tensor in (("a", x), ("b", y)):
            with mskpp.Core(core):
                tensor.load(Tensor("GM", "FP16", [4, 128]))
        getattr(mskpp, name)(*([x, z] if name == "vabs" else [x, y[:1, :1] if name == "vadds" else y, z]))()
    start = list(chip.result.events())[-1].start
    assert start == (1000 if name in ("vadd", "vmla") else 100)


def test_in_place() -> None:
    with Chip("Ascend910B1") as chip:
        x = ub()
        for _ in range(3):
            mskpp.vabs(x, x)()
    assert len(chip.result) == 3 and x.size == [4, 128]


def test_writing_into_a_slice() -> None:
    with Chip("Ascend910B1"):
        z = Tensor("UB", "FP16", [8, 128])
        out = mskpp.vadd(ub(), ub(), z[2:6])()[0]
        assert out.size == [4, 128] and z.size == [8, 128]
        assert z[2:6].is_valid() and not z.is_valid()
    with (
        pytest.raises(
            ArgumentError, match=r"vadd: writes FP16 \[4,128\] into a slice of FP32 \[4,128\]; a slice keeps"
        ),
        Chip("Ascend910B1"),
    ):
        mskpp.vadd(ub(), ub(), Tensor("UB", "FP32", [8, 128])[:4])()
    with (
        pytest.raises(InputError, match=r"writes \[4,128\] into a slice of \[5,128\]; they must have the same number"),
        Chip("Ascend910B1"),
    ):
        mskpp.vadd(ub(), ub(), Tensor("UB", "FP16", [8, 128])[:5])()


# --- the two pairs of brackets ---


def test_a_launch_tells_what_it_is() -> None:
    launch = mskpp.vadd(ub(), ub(), Tensor("UB"))
    assert repr(launch) == "<launch of vadd; call it to issue it>"
    with Chip("Ascend910B1"):
        launch()
        for arguments, keywords in (((1,), {}), ((), {"x": 1})):
            with pytest.raises(
                ArgumentError, match="vadd: the second pair of brackets takes no arguments; it is called as "
            ):
                launch(*arguments, **keywords)


def test_a_launch_may_be_issued_again() -> None:
    with Chip("Ascend910B1") as chip:
        launch = mskpp.vabs(ub(), Tensor("UB"))
        launch()
        launch()
    assert len(chip.result) == 2


def test_a_launch_that_is_never_issued_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match=r"vabs\(\.\.\.\) was made but never issued; write vabs\(\.\.\.\)\(\)"):
        mskpp.vabs(ub(), Tensor("UB"))


def test_types_cannot_be_made_by_hand() -> None:
    for kind in (type(mskpp.vadd), type(launch := mskpp.vabs(ub(), ub()))):
        with pytest.raises(TypeError):
            kind()
    with Chip("Ascend910B1"):
        launch()


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'mskpp' has no 'vfoo'"):
        mskpp.vfoo  # noqa: B018
