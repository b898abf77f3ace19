// SPDX-License-Identifier: Apache-2.0
// mskpp.vadd and its like: `vadd(x, y, z)` gives a launch, calling that issues the instruction and returns its outputs.
// Both are plain C types with vectorcall, since a model makes millions of them.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <structmember.h>

#include <new>

#include "base/text.h"
#include "bindings/bindings.h"

namespace mskpp::bindings {

using base::concat;

void set_python_error(const std::exception_ptr& pointer);  // bind_error.cpp

namespace {

constexpr std::size_t most_arguments = 8;

struct InstructionObject {
    PyObject_HEAD vectorcallfunc call;
    std::shared_ptr<const Instruction> instruction;
    PyObject* model;  // the user's cost, a callable; or null
};

struct LaunchObject {
    PyObject_HEAD vectorcallfunc call;
    InstructionObject* made_by;
    PyObject* arguments[most_arguments];
    Attributes attributes;
    bool launched;
};

PyTypeObject* instruction_type = nullptr;
PyTypeObject* launch_type = nullptr;

bool is_number(PyObject* value) {
    if (PyBool_Check(value) || PySequence_Check(value)) return false;
    if (PyLong_Check(value) || PyFloat_Check(value)) return true;
    const std::string type = Py_TYPE(value)->tp_name;  // numpy's scalars; its bool is no number either
    if (type == "numpy.bool_" || type == "numpy.bool") return false;
    const PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
    return number != nullptr && (number->nb_index != nullptr || number->nb_float != nullptr);
}

void check_operand(const Instruction& instruction, std::size_t i, PyObject* value) {
    if (tensor_of(value) != nullptr) return;
    const Argument& argument = instruction.arguments[i];
    const bool tensor_only = i == 0 || static_cast<int>(i) == instruction.output || instruction.cost == CostRule::mmad;
    if (tensor_only || !is_number(value))
        throw Error(ErrorKind::type, concat(instruction.function, ": ", argument.name, " must be a Tensor",
                                            tensor_only ? "" : " or a number", ", got ", kind_of(value)));
}

void take_argument(const Instruction& instruction, std::size_t i, PyObject* value, Attributes& attributes) {
    const Argument& argument = instruction.arguments[i];
    const char* where = instruction.function.c_str();
    switch (argument.kind) {
        case ArgumentKind::operand:
            check_operand(instruction, i, value);
            break;
        case ArgumentKind::flag:
            attributes.flag = flag_of(value, where, argument.name.c_str());
            break;
        case ArgumentKind::dtype:
            attributes.dtype = parse_dtype(text_of(value, where, argument.name.c_str()), where);
            break;
        case ArgumentKind::shape:
            attributes.shape = shape_of(value, where, argument.name.c_str());
            break;
        case ArgumentKind::count:
            attributes.count = integer_of(value, where, argument.name.c_str());
            if (attributes.count < 1 || attributes.count > Shape::max_elements)
                throw Error(ErrorKind::value, concat(where, ": ", argument.name, " is ", attributes.count,
                                                     "; allowed are 1 to ", Shape::max_elements));
            break;
    }
}

[[noreturn]] void wrong_arguments(const Instruction& instruction, const std::string& what) {
    throw Error(ErrorKind::type, concat(instruction.function, ": ", what, "; it is called as ", instruction.function,
                                        instruction.signature(), "()"));
}

// The value of every argument, positional and by keyword; borrowed, null where the default stands.
void sort_arguments(const Instruction& instruction, PyObject* const* values, std::size_t positional, PyObject* names,
                    PyObject** out) {
    const std::size_t wanted = instruction.arguments.size();
    if (positional > wanted) wrong_arguments(instruction, concat(positional, " arguments given"));
    std::copy(values, values + positional, out);
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t n = 0; n < named; ++n) {
        const std::string_view name = text_of(PyTuple_GET_ITEM(names, n), instruction.function.c_str(), "a keyword");
        std::size_t i = 0;
        while (i < wanted && instruction.arguments[i].name != name) ++i;
        if (i == wanted) wrong_arguments(instruction, concat("unknown argument '", name, "'"));
        if (out[i] != nullptr) wrong_arguments(instruction, concat("argument '", name, "' given twice"));
        out[i] = values[positional + static_cast<std::size_t>(n)];
    }
    for (std::size_t i = 0; i < wanted; ++i)
        if (out[i] == nullptr && !instruction.arguments[i].has_default)
            wrong_arguments(instruction, concat("argument '", instruction.arguments[i].name, "' is missing"));
}

PyObject* launch_call(PyObject* self_object, PyObject* const*, std::size_t argument_count, PyObject* names);

PyObject* instruction_call(PyObject* self_object, PyObject* const* values, std::size_t count, PyObject* names) {
    auto* self = reinterpret_cast<InstructionObject*>(self_object);
    LaunchObject* launch = nullptr;
    try {
        PyObject* sorted[most_arguments] = {};
        const Instruction& instruction = *self->instruction;
        sort_arguments(instruction, values, static_cast<std::size_t>(PyVectorcall_NARGS(count)), names, sorted);
        Attributes attributes;
        for (std::size_t i = 0; i < instruction.arguments.size(); ++i)
            if (sorted[i] != nullptr) take_argument(instruction, i, sorted[i], attributes);
        launch = PyObject_New(LaunchObject, launch_type);
        if (launch == nullptr) return nullptr;
        launch->call = launch_call;
        launch->made_by = self;
        Py_INCREF(self_object);
        for (std::size_t i = 0; i < most_arguments; ++i) launch->arguments[i] = Py_XNewRef(sorted[i]);
        new (&launch->attributes) Attributes(attributes);
        launch->launched = false;
        return reinterpret_cast<PyObject*>(launch);
    } catch (...) {
        set_python_error(std::current_exception());
        return nullptr;
    }
}

// The user's cost of one of the built-in instructions.
ModelAnswer ask_user(const LaunchObject& launch, nb::handle output) {
    const Instruction& instruction = *launch.made_by->instruction;
    nb::list inputs;
    nb::dict attributes;
    for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
        if (launch.arguments[i] == nullptr || static_cast<int>(i) == instruction.output) continue;
        const Argument& argument = instruction.arguments[i];
        if (argument.kind == ArgumentKind::operand)
            inputs.append(nb::handle(launch.arguments[i]));
        else
            attributes[argument.name.c_str()] = nb::handle(launch.arguments[i]);
    }
    return ask_model(nb::borrow(launch.made_by->model), nb::tuple(inputs), nb::make_tuple(output), attributes);
}

// The output as Python sees it: the argument itself, or a new Tensor.
nb::object output_object(const LaunchObject& launch, const Tensor& output) {
    const int argument = launch.made_by->instruction->output;
    return argument >= 0 ? nb::borrow(launch.arguments[argument]) : nb::cast(output);
}

// An instruction that the user gave a cost: the model sees the output as it will be. It keeps the program: the user's
// code may end the block.
Tensor issue_with_model(const LaunchObject& launch, const Call& call, std::shared_ptr<Program> program,
                        const Place& place, nb::object& object) {
    const Instruction& instruction = *launch.made_by->instruction;
    Computation computation = prepare_computation(program->chip(), instruction, call);
    TypeRollback rollback(*call.operands[static_cast<std::size_t>(std::max(instruction.output, 0))]);
    const Tensor output = apply_computation(computation, call);
    object = output_object(launch, output);
    const ModelAnswer answer = ask_user(launch, object);
    computation.work = answer.work;
    program->add_computation(computation, call, output, {answer.cycles, Origin::user}, place);
    rollback.keep();
    return output;
}

// Outside any chip: checked as on the default chip, then dropped.
Tensor check_only(const LaunchObject& launch, const Call& call) {
    const std::shared_ptr<const Costs> costs = costs_in_force({});
    state().warn_outside();
    const Computation computation = prepare_computation(costs->chip(), *launch.made_by->instruction, call);
    if (launch.made_by->model == nullptr) Program(costs, state().sources).cost(computation);
    return apply_computation(computation, call);
}

PyObject* issue(LaunchObject& launch) {
    const Instruction& instruction = *launch.made_by->instruction;
    Call call;
    call.attributes = launch.attributes;
    for (std::size_t i = 0; i < instruction.arguments.size(); ++i)
        if (launch.arguments[i] != nullptr) call.operands[i] = tensor_of(launch.arguments[i]);
    const Here where = here();
    nb::object object;
    const Tensor output = !where.program ? check_only(launch, call)
                          : launch.made_by->model != nullptr
                              ? issue_with_model(launch, call, where.program, where.place, object)
                              : where.program->issue(instruction, call, where.place);
    if (instruction.output < 0) output.storage()->line = where.place.line;
    if (!object.is_valid()) object = output_object(launch, output);
    return PyTuple_Pack(1, object.ptr());
}

PyObject* launch_call(PyObject* self, PyObject* const*, std::size_t count, PyObject* names) {
    auto& launch = *reinterpret_cast<LaunchObject*>(self);
    launch.launched = true;                                                           // tried, whatever comes of it
    if (Py_EnterRecursiveCall(" while issuing an instruction") != 0) return nullptr;  // a user's cost may issue itself
    PyObject* result = nullptr;
    try {
        if (PyVectorcall_NARGS(count) != 0 || (names != nullptr && PyTuple_GET_SIZE(names) != 0))
            wrong_arguments(*launch.made_by->instruction, "the second pair of brackets takes no arguments");
        result = issue(launch);
    } catch (...) {
        set_python_error(std::current_exception());
    }
    Py_LeaveRecursiveCall();
    return result;
}

void launch_dealloc(PyObject* self) {
    auto* launch = reinterpret_cast<LaunchObject*>(self);
    const bool forgotten = !launch->launched && PyErr_Occurred() == nullptr;
    launch->launched = true;
    if (forgotten) {
        const char* function = launch->made_by->instruction->function.c_str();
        if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s(...) was made but never issued; write %s(...)()", function,
                             function) != 0)
            PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(launch->made_by));
    }
    for (PyObject* argument : launch->arguments) Py_XDECREF(argument);
    Py_DECREF(reinterpret_cast<PyObject*>(launch->made_by));
    launch->attributes.~Attributes();
    PyTypeObject* type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

void instruction_dealloc(PyObject* self) {
    auto* object = reinterpret_cast<InstructionObject*>(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(object->model);
    object->instruction.~shared_ptr();
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

int instruction_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(reinterpret_cast<InstructionObject*>(self)->model);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int instruction_clear(PyObject* self) {
    Py_CLEAR(reinterpret_cast<InstructionObject*>(self)->model);
    return 0;
}

const Instruction& row_of(PyObject* self) { return *reinterpret_cast<InstructionObject*>(self)->instruction; }

PyObject* instruction_repr(PyObject* self) {
    return PyUnicode_FromFormat("<instruction %s%s>", row_of(self).function.c_str(), row_of(self).signature().c_str());
}

PyObject* launch_repr(PyObject* self) {
    return PyUnicode_FromFormat("<launch of %s; call it to issue it>",
                                reinterpret_cast<LaunchObject*>(self)->made_by->instruction->function.c_str());
}

PyObject* text_object(const std::string& text) {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

std::string documentation(const Instruction& row) {
    std::string reads;
    for (const Argument& argument : row.arguments)
        if (argument.read) reads += (reads.empty() ? "" : ", ") + argument.name;
    const std::string pipe = row.pipe == Pipe::RVECEX ? "RVECEX0 and RVECEX1 in turn" : std::string(name(row.pipe));
    const std::string operands = row.cost == CostRule::mmad ? "x lies in L0A, y in L0B, b in L0C ([m,n]) or BT ([n])"
                                                            : concat("Operands lie in ", name(row.operand_memory()));
    const std::string output =
        row.output < 0 ? "a new L0C tensor" : row.arguments[static_cast<std::size_t>(row.output)].name;
    return concat(
        row.function, row.signature(), "()\n\n", row.summary, ".\n\nInstruction ", row.name, " on ", pipe, ". ",
        operands, ". Reads ", reads, row.accumulates ? " and, once it holds a value, its output" : "", "; writes ",
        output,
        ".\nCalling the result issues it and returns the tuple of its outputs.\n"
        "Raises InputError for operands in the wrong memory or of unfit shapes, ArgumentError for wrong dtypes and\n"
        "for dtypes without a cost on the chip.");
}

PyObject* get_name(PyObject* self, void*) { return text_object(row_of(self).function); }
PyObject* get_instruction(PyObject* self, void*) { return text_object(row_of(self).name); }
PyObject* get_doc(PyObject* self, void*) { return text_object(documentation(row_of(self))); }
PyObject* get_summary(PyObject* self, void*) { return text_object(row_of(self).summary); }
PyObject* get_text_signature(PyObject* self, void*) { return text_object(row_of(self).signature()); }

PyObject* get_output(PyObject* self, void*) {
    const Instruction& row = row_of(self);
    return text_object(row.output < 0 ? "" : row.arguments[static_cast<std::size_t>(row.output)].name);
}

PyObject* get_pipe(PyObject* self, void*) { return text_object(std::string(name(row_of(self).pipe))); }

PyObject* get_signature(PyObject* self, void*) {
    try {
        const nb::module_ inspect = nb::module_::import_("inspect");
        const nb::object parameter = inspect.attr("Parameter");
        nb::list parameters;
        for (const Argument& argument : row_of(self).arguments) {
            const nb::object kind = parameter.attr("POSITIONAL_OR_KEYWORD");
            const nb::object otherwise =
                argument.has_default ? nb::object(nb::bool_(false)) : nb::object(parameter.attr("empty"));
            parameters.append(parameter(argument.name.c_str(), kind, nb::arg("default") = otherwise));
        }
        return nb::object(inspect.attr("Signature")(parameters)).release().ptr();
    } catch (...) {
        set_python_error(std::current_exception());
        return nullptr;
    }
}

PyObject* get_model(PyObject* self, void*) {
    PyObject* model = reinterpret_cast<InstructionObject*>(self)->model;
    return Py_NewRef(model == nullptr ? Py_None : model);
}

int set_model(PyObject* self, PyObject* value, void*) {
    auto* object = reinterpret_cast<InstructionObject*>(self);
    PyObject* model = value == nullptr || value == Py_None ? nullptr : value;
    Py_XINCREF(model);
    Py_XSETREF(object->model, model);
    return 0;
}

PyObject* reduce(PyObject* self, PyObject*) {
    try {
        const nb::object named = nb::module_::import_("mskpp.core.instructions").attr("named");
        return nb::object(nb::make_tuple(named, nb::make_tuple(row_of(self).function))).release().ptr();
    } catch (...) {
        set_python_error(std::current_exception());
        return nullptr;
    }
}

PyGetSetDef instruction_getset[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__qualname__", get_name, nullptr, nullptr, nullptr},
    {"__doc__", get_doc, nullptr, nullptr, nullptr},
    {"__signature__", get_signature, nullptr, nullptr, nullptr},
    {"__text_signature__", get_text_signature, nullptr, nullptr, nullptr},
    {"instruction", get_instruction, nullptr, "Its name in statistics, traces and tables.", nullptr},
    {"summary", get_summary, nullptr, "What it does, in a few words.", nullptr},
    {"output", get_output, nullptr, "The argument it writes; '' where it makes a new tensor.", nullptr},
    {"pipe", get_pipe, nullptr, "The pipe it runs on.", nullptr},
    {"model", get_model, set_model, "The user's cost: model(inputs, outputs, attributes) -> (cycles, work); or None.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* same(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyMethodDef instruction_methods[] = {{"__reduce__", reduce, METH_NOARGS, "Pickled by name."},
                                     {"__copy__", same, METH_NOARGS, "Itself: it has no state."},
                                     {"__deepcopy__", same, METH_O, "Itself: it has no state."},
                                     {nullptr, nullptr, 0, nullptr}};

PyMemberDef instruction_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(InstructionObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef launch_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(LaunchObject, call), READONLY, nullptr},
                                {nullptr, 0, 0, 0, nullptr}};

template <typename Function>
void* slot_of(Function* function) {
    return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(const char* name, std::size_t size, unsigned flags, PyType_Slot* slots) {
    PyType_Spec spec{
        name, static_cast<int>(size), 0,
        static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION) |
            flags,
        slots};
    PyObject* type = PyType_FromSpec(&spec);
    if (type == nullptr) nb::raise_python_error();
    return reinterpret_cast<PyTypeObject*>(type);
}

nb::object make_instruction(std::shared_ptr<const Instruction> row) {
    auto* object = PyObject_GC_New(InstructionObject, instruction_type);
    if (object == nullptr) nb::raise_python_error();
    object->call = instruction_call;
    new (&object->instruction) std::shared_ptr<const Instruction>(std::move(row));
    object->model = nullptr;
    PyObject_GC_Track(object);
    return nb::steal(reinterpret_cast<PyObject*>(object));
}

}  // namespace

void bind_instruction(nb::module_& m) {
    PyType_Slot instruction_slots[] = {{Py_tp_dealloc, slot_of(instruction_dealloc)},
                                       {Py_tp_traverse, slot_of(instruction_traverse)},
                                       {Py_tp_clear, slot_of(instruction_clear)},
                                       {Py_tp_call, slot_of(PyVectorcall_Call)},
                                       {Py_tp_repr, slot_of(instruction_repr)},
                                       {Py_tp_getset, instruction_getset},
                                       {Py_tp_methods, instruction_methods},
                                       {Py_tp_members, instruction_members},
                                       {0, nullptr}};
    PyType_Slot launch_slots[] = {{Py_tp_dealloc, slot_of(launch_dealloc)},
                                  {Py_tp_call, slot_of(PyVectorcall_Call)},
                                  {Py_tp_repr, slot_of(launch_repr)},
                                  {Py_tp_members, launch_members},
                                  {0, nullptr}};
    instruction_type = make_type("mskpp.Instruction", sizeof(InstructionObject), Py_TPFLAGS_HAVE_GC, instruction_slots);
    launch_type = make_type("mskpp.Launch", sizeof(LaunchObject), 0, launch_slots);
    m.attr("Instruction") = nb::borrow(reinterpret_cast<PyObject*>(instruction_type));
    m.attr("Launch") = nb::borrow(reinterpret_cast<PyObject*>(launch_type));
    m.def(
        "read_instructions",
        [](const std::filesystem::path& file) {
            nb::list out;
            for (auto& row : read_instructions(file)) out.append(make_instruction(row));
            return out;
        },
        nb::arg("file"), "The rows of an instruction table as callables.");
}

}  // namespace mskpp::bindings
