// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "base/text.h"
#include "bindings/bindings.h"

namespace mskpp::bindings {

using base::concat;

namespace {

void init_tensor(Tensor* self, nb::handle mem_type, nb::handle dtype, nb::handle size, nb::handle format,
                 nb::handle is_inited) {
    const Memory memory = parse_memory(text_of(mem_type, "Tensor", "mem_type"), "Tensor");
    const DType parsed = dtype.is_none() ? DType::unset : parse_dtype(text_of(dtype, "Tensor", "dtype"), "Tensor");
    const Format layout =
        format.is_none() ? Format::unset : parse_format(text_of(format, "Tensor", "format"), "Tensor");
    const bool ready = flag_of(is_inited, "Tensor", "is_inited");
    if (size.is_none())
        new (self) Tensor(memory, parsed, layout, ready);
    else
        new (self) Tensor(memory, parsed, shape_of(size, "Tensor", "size"), layout, ready);
    self->storage()->line = current_line();
}

std::optional<std::int64_t> bound_of(PyObject* value) {
    if (value == Py_None) return std::nullopt;
    if (PyLong_CheckExact(value)) {  // as numpy, a bound beyond the axis is the end of the axis, however far beyond
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow == 0 ? number : overflow > 0 ? INT64_MAX : -INT64_MAX;
    }
    return integer_of(value, "Tensor", "a slice bound");
}

Index index_of(PyObject* key) {
    if (PySlice_Check(key)) {
        const auto* slice = reinterpret_cast<PySliceObject*>(key);
        return Index::range(bound_of(slice->start), bound_of(slice->stop), bound_of(slice->step));
    }
    if (key == Py_Ellipsis) return {Index::Kind::ellipsis, {}, {}, {}};
    if (PyBool_Check(key) || !PyIndex_Check(key))
        throw Error(ErrorKind::type, concat("Tensor: an index must be an int, a slice or ..., got ", kind_of(key)));
    try {
        return Index::at(integer_of(key, "Tensor", "an index"));
    } catch (const Error& error) {  // too large for any axis
        throw Error(error.kind() == ErrorKind::value ? ErrorKind::index : error.kind(), error.what());
    }
}

Tensor subscript(const Tensor& self, nb::handle key) {
    std::vector<Index> indices;
    if (PyTuple_Check(key.ptr())) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key.ptr()); ++i)
            indices.push_back(index_of(PyTuple_GET_ITEM(key.ptr(), i)));
    } else {
        indices.push_back(index_of(key.ptr()));
    }
    return self.slice(indices);
}

// A move whose path the user gave a cost, and perhaps a pipe. It keeps the program: the user's code may end the block.
void load_with_model(std::shared_ptr<Program> program, Tensor& self, nb::handle self_object, nb::handle source_object,
                     const Tensor& source, const LoadOptions& options, std::size_t path, const Place& place) {
    State& s = state();
    Move move = prepare_move(program->chip(), self, source, options, true);
    if (!s.move_pipes[path] && move.path == nullptr)
        throw Error(ErrorKind::value, concat("load: ", program->chip().name(), " has no path ", name(move.source),
                                             " to ", name(move.target),
                                             " and its registration names no pipe; set `pipe` on the "
                                             "registered class: docs/add_an_instruction.md"));
    const Pipe pipe = s.move_pipes[path] ? *s.move_pipes[path] : move.path->pipe;
    TypeRollback rollback(self);
    apply_move(self, source);  // the model sees the target as it will be
    nb::dict attributes;
    attributes["repeat"] = options.repeat;
    attributes["transform"] = move.transform;
    attributes["bytes"] = move.bytes;
    const ModelAnswer answer =
        ask_model(s.move_models[path], nb::make_tuple(source_object), nb::make_tuple(self_object), attributes);
    move.bytes = answer.work;
    program->add_move(move, self, source, options, {answer.cycles, Origin::user}, place, &pipe);
    rollback.keep();
}

void load(nb::handle self_object, nb::handle source_object, nb::handle repeat, nb::handle set_value,
          nb::handle expect_value) {
    Tensor* const target = tensor_of(self_object);
    Tensor* const given = tensor_of(source_object);
    if (target == nullptr)
        throw Error(ErrorKind::type, concat("load: the target must be a Tensor, got ", kind_of(self_object)));
    if (given == nullptr)
        throw Error(ErrorKind::type,
                    concat("load: the source must be a Tensor, got ", kind_of(source_object),
                           PyTuple_Check(source_object.ptr()) ? "; an instruction returns a tuple, take its [0]" : ""));
    Tensor& self = *target;
    const Tensor& source = *given;
    const LoadOptions options{integer_of(repeat, "load", "repeat"), integer_of(set_value, "load", "set_value"),
                              integer_of(expect_value, "load", "expect_value")};
    if (options.set_value < no_mark || options.expect_value < no_mark)
        throw Error(ErrorKind::value, concat("load: set_value is ", options.set_value, " and expect_value ",
                                             options.expect_value, "; allowed are -1 (none) and above"));
    const Here where = here();
    const auto path =
        static_cast<std::size_t>(source.memory()) * memory_count + static_cast<std::size_t>(self.memory());
    const bool own_cost = state().move_models[path].is_valid();
    if (!where.program) {
        state().warn_outside();
        prepare_move(costs_in_force(where)->chip(), self, source, options, own_cost);
        apply_move(self, source);
    } else if (own_cost) {
        load_with_model(where.program, self, self_object, source_object, source, options, path, where.place);
    } else {
        where.program->load(self, source, options, where.place);
    }
}

void set_ready(const Tensor& self, bool ready) {
    const Here where = here();
    if (where.program)
        where.program->set_ready(self, ready);
    else
        self.storage()->ready_at_start = ready;
}

bool is_valid(const Tensor& self) {
    const Here where = here();
    return where.program ? where.program->has_value(self) : self.storage()->ready_at_start;
}

void require_whole(const Tensor& self, const char* what) {
    if (self.is_view())
        throw Error(ErrorKind::state,
                    concat("Tensor: ", what, " of a slice cannot be set; set it on the tensor itself"));
}

void set_size(Tensor& self, nb::handle size) {
    require_whole(self, "size");
    if (size.is_none()) {
        self.drop_shape();
        return;
    }
    self.set_type({self.dtype(), self.format(), shape_of(size, "Tensor", "size")});
}

std::string represent(const Tensor& self) {
    const bool format = self.format() != Format::unset;
    return concat("Tensor(", name(self.memory()), ", ", self.dtype() == DType::unset ? "?" : name(self.dtype()), ", ",
                  self.is_stale()    ? "stale slice"
                  : self.has_shape() ? self.shape().text()
                                     : "[?]",
                  format ? ", " : "", format ? name(self.format()) : "", ")");
}

}  // namespace

void bind_tensor(nb::module_& m) {
    nb::class_<Tensor>(m, "Tensor", R"(Tensor(mem_type, dtype=None, size=None, format=None, is_inited=False)

A place in a memory of the chip with a dtype, a shape and a format. It holds no data.

mem_type: GM, L1, L0A, L0B, L0C, UB, BT, FB, VEC. dtype: BOOL, UINT1, UINT2, UINT8 ... FP32. size: list or tuple of 1 to 8
extents, at most 2^31-1 elements. format: ND, NZ, NCHW, NHWC, NC1HWC0, FRACTAL. What is left out is taken from what is first
loaded. GM tensors and tensors with is_inited=True hold a value from the start.
Raises InputError (a ValueError) for an unknown name or size, ArgumentError (a TypeError) for a wrong type.)")
        .def("__init__", init_tensor,
             nb::sig("def __init__(self, mem_type: str, dtype: str | None = None, size: Sequence[int] | None = None, "
                     "format: str | None = None, is_inited: bool = False) -> None"),
             nb::arg("mem_type").none(), nb::arg("dtype").none() = nb::none(), nb::arg("size").none() = nb::none(),
             nb::arg("format").none() = nb::none(), nb::arg("is_inited").none() = false)
        .def(
            "load", load,
            nb::sig(
                "def load(self, tensor: Tensor, repeat: int = 1, set_value: int = -1, expect_value: int = -1) -> None"),
            nb::arg("tensor").none(), nb::arg("repeat").none() = 1, nb::arg("set_value").none() = -1,
            nb::arg("expect_value").none() = -1,
            R"(load(tensor, repeat=1, set_value=-1, expect_value=-1)

Moves the tensor's data here, over the path from its memory to this one.

repeat: at least 1; paths with a repeat table (L1 and GM to L0A and L0B) then cost by it. set_value=v marks the version
written with v (0 and above); expect_value=v waits for the version of the source so marked.
Raises InputError for an illegal path, a source without dtype or size, or a target that is too small; ArgumentError for
dtypes or formats that differ and cannot be converted on the way.)")
        .def("__getitem__", subscript, nb::sig("def __getitem__(self, key: Any) -> Tensor"), nb::arg("key").none(),
             "A view of the part selected, as numpy selects. A step widens to its box.")
        .def(
            "set_valid", [](const Tensor& self) { set_ready(self, true); },
            "The whole tensor holds a value from now on.")
        .def(
            "set_invalid", [](const Tensor& self) { set_ready(self, false); }, "The whole tensor is empty from now on.")
        .def("is_valid", is_valid, "Whether the program so far gives the whole view a value.")
        .def_prop_ro(
            "mem_type",
            [](const Tensor& self) { return state().memory_names[static_cast<std::size_t>(self.memory())]; },
            nb::sig("def mem_type(self) -> str"))
        .def_prop_rw(
            "dtype", [](const Tensor& self) { return name_of(self.dtype()); },
            [](Tensor& self, nb::handle value) {
                require_whole(self, "dtype");
                self.storage()->type.dtype =
                    value.is_none() ? DType::unset : parse_dtype(text_of(value, "Tensor", "dtype"), "Tensor");
            },
            nb::for_setter(nb::arg("value").none()), nb::for_getter(nb::sig("def dtype(self) -> str | None")),
            nb::for_setter(nb::sig("def dtype(self, value: str | None, /) -> None")))
        .def_prop_rw(
            "format", [](const Tensor& self) { return name_of(self.format()); },
            [](Tensor& self, nb::handle value) {
                require_whole(self, "format");
                self.storage()->type.format =
                    value.is_none() ? Format::unset : parse_format(text_of(value, "Tensor", "format"), "Tensor");
            },
            nb::for_setter(nb::arg("value").none()), nb::for_getter(nb::sig("def format(self) -> str | None")),
            nb::for_setter(nb::sig("def format(self, value: str | None, /) -> None")))
        .def_prop_rw(
            "size",
            [](const Tensor& self) { return self.has_shape() ? nb::object(list_of(self.shape())) : nb::none(); },
            set_size, nb::for_setter(nb::arg("value").none()),
            nb::for_getter(nb::sig("def size(self) -> list[int] | None")),
            nb::for_setter(nb::sig("def size(self, value: Sequence[int] | None, /) -> None")))
        .def_prop_ro("is_inited", [](const Tensor& self) { return self.storage()->ready_at_start; })
        .def("__repr__", represent);
}

}  // namespace mskpp::bindings
