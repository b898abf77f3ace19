// SPDX-License-Identifier: Apache-2.0
// The state of the module, the line of user code, values from Python, and errors on their way to Python.
#include <Python.h>
#include <frameobject.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "base/text.h"
#include "bindings/bindings.h"

namespace mskpp::bindings {

using base::concat;

namespace {

// Lines by code position. Finding a line number walks the code's line table, so the last ones are kept. An entry holds
// its code object: a position cannot come to mean another.
struct LineEntry {
    PyObject* code = nullptr;
    int position = 0;
    bool inside_package = false;
    std::uint32_t line = 0;
};
constexpr std::size_t line_entries = 4096;

struct LineCache {
    std::array<LineEntry, line_entries> entries;
};

LineCache& line_cache() {
    static LineCache cache;
    return cache;
}

int position_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return PyFrame_GetLineNumber(frame);
#endif
}

const LineEntry& entry_of(PyFrameObject* frame) {
    PyObject* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    const int position = position_of(frame);
    const std::size_t hash =
        (reinterpret_cast<std::uintptr_t>(code) >> 4) * 31 + static_cast<std::size_t>(position) / 2;
    LineEntry& entry = line_cache().entries[hash % line_entries];
    if (entry.code == code && entry.position == position) {
        Py_DECREF(code);
        return entry;
    }
    Py_XDECREF(entry.code);
    entry.code = code;  // takes over the reference
    entry.position = position;
    const nb::object file = nb::handle(code).attr("co_filename");
    const char* path = PyUnicode_AsUTF8(file.ptr());
    if (path == nullptr) PyErr_Clear();
    const std::string name = path == nullptr ? "?" : path;
    const std::string& package = state().package_folder;
    entry.inside_package = !package.empty() && name.rfind(package, 0) == 0;
    entry.line = entry.inside_package ? 0 : state().sources->add(name, PyFrame_GetLineNumber(frame));
    return entry;
}

void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const Error& error) {
        std::string message = error.what();
        const bool tells_lines = error.kind() == ErrorKind::deadlock || error.kind() == ErrorKind::flag;
        const std::string place = tells_lines ? "" : state().sources->text(current_line());
        if (!place.empty()) message.insert(std::min(message.find('\n'), message.size()), " (" + place + ")");
        const nb::object& classes = state().errors;
        nb::object type = classes.is_valid() ? nb::object(classes[static_cast<std::size_t>(error.kind())])
                                             : nb::borrow(PyExc_RuntimeError);
        nb::object text =
            nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
        PyErr_SetObject(type.ptr(), text.ptr());
    }
}

}  // namespace

void set_python_error(const std::exception_ptr& pointer) {
    try {
        translate(pointer, nullptr);
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const nb::builtin_exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
}

State& state() {
    static State* the_state = new State();  // never destroyed: it holds Python objects beyond main()
    return *the_state;
}

// Everything is copied out of the frame before any Python code can run again: it may end the block and free the frame.
Here here() {
    PyObject* value = nullptr;
    if (!state().context.is_valid()) return {};
    if (PyContextVar_Get(state().context.ptr(), Py_None, &value) != 0) nb::raise_python_error();
    Here out;
    if (value != Py_None) {
        const Frame* frame = nb::inst_ptr<Frame>(value);
        out.program = frame->program;
        out.place = frame->place;
    }
    Py_DECREF(value);
    out.place.line = current_line();
    return out;
}

std::shared_ptr<const Costs> costs_in_force(const Here& where) {
    if (where.program) return where.program->shared_costs();
    return nb::cast<std::shared_ptr<Costs>>(state().default_costs());
}

Tensor* tensor_of(nb::handle value) {
    return nb::isinstance<Tensor>(value) && nb::inst_ready(value) ? nb::inst_ptr<Tensor>(value) : nullptr;
}

std::uint32_t current_line() {
    PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != nullptr) {
        const LineEntry& entry = entry_of(frame);
        if (!entry.inside_package) {
            Py_DECREF(frame);
            return entry.line;
        }
        PyFrameObject* back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    return 0;
}

std::string kind_of(nb::handle value) { return nb::type_name(value.type()).c_str(); }

std::string_view text_of(nb::handle value, const char* where, const char* argument) {
    if (!PyUnicode_Check(value.ptr()))
        throw Error(ErrorKind::type, concat(where, ": ", argument, " must be a str, got ", kind_of(value)));
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text == nullptr) {
        PyErr_Clear();
        throw Error(ErrorKind::value, concat(where, ": ", argument, " is a str that is not valid Unicode"));
    }
    return {text, static_cast<std::size_t>(size)};
}

std::int64_t integer_of(nb::handle value, const char* where, const char* argument) {
    PyObject* object = value.ptr();
    if (PyLong_CheckExact(object)) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow == 0) return number;
    } else if (!PyBool_Check(object) && PyIndex_Check(object)) {
        nb::object index = nb::steal(PyNumber_Index(object));
        if (index.is_valid() && PyLong_CheckExact(index.ptr())) return integer_of(index, where, argument);
        PyErr_Clear();
    }
    if (PyLong_CheckExact(object))
        throw Error(ErrorKind::value, concat(where, ": ", argument, " is an integer outside -2^63 to 2^63-1"));
    throw Error(ErrorKind::type, concat(where, ": ", argument, " must be an int, got ", kind_of(value)));
}

bool flag_of(nb::handle value, const char* where, const char* argument) {
    if (value.ptr() == Py_True) return true;
    if (value.ptr() == Py_False) return false;
    throw Error(ErrorKind::type, concat(where, ": ", argument, " must be a bool, got ", kind_of(value)));
}

Shape shape_of(nb::handle value, const char* where, const char* argument) {
    const bool list = PyList_Check(value.ptr());
    if (!list && !PyTuple_Check(value.ptr()))
        throw Error(ErrorKind::type,
                    concat(where, ": ", argument, " must be a list or tuple of int, got ", kind_of(value)));
    const Py_ssize_t rank = list ? PyList_GET_SIZE(value.ptr()) : PyTuple_GET_SIZE(value.ptr());
    if (rank == 0)
        throw Error(ErrorKind::value, concat(where, ": ", argument, " is empty; it must have at least one axis"));
    Shape shape;
    for (Py_ssize_t i = 0; i < rank; ++i) {
        if ((list ? PyList_GET_SIZE(value.ptr()) : rank) != rank)  // an extent's __index__ may do anything
            throw Error(ErrorKind::value, concat(where, ": ", argument, " changed while it was read"));
        const nb::object extent = nb::borrow(list ? PyList_GET_ITEM(value.ptr(), i) : PyTuple_GET_ITEM(value.ptr(), i));
        shape.push_back(integer_of(extent, where, argument), where);
    }
    return shape;
}

nb::list list_of(const Shape& shape) {
    nb::list out;
    for (int i = 0; i < shape.rank(); ++i) out.append(shape[i]);
    return out;
}

nb::object name_of(DType dtype) { return state().dtype_names[static_cast<std::size_t>(dtype)]; }

nb::object name_of(Format format) { return state().format_names[static_cast<std::size_t>(format)]; }

ModelAnswer ask_model(const nb::object& model, nb::handle inputs, nb::handle outputs, nb::handle attributes) {
    const nb::object answer = model(inputs, outputs, attributes);
    return {nb::cast<std::int64_t>(answer[0]), nb::cast<std::int64_t>(answer[1])};
}

void bind_error(nb::module_& m) {
    nb::register_exception_translator(translate);
    const auto text = [](std::string_view name) { return nb::object(nb::str(name.data(), name.size())); };
    State& s = state();
    for (std::size_t i = 0; i < 16; ++i) {
        const bool format = i <= static_cast<std::size_t>(Format::FRACTAL);
        s.dtype_names[i] = i == 0 ? nb::none() : text(name(static_cast<DType>(i)));
        if (format) s.format_names[i] = i == 0 ? nb::none() : text(name(static_cast<Format>(i)));
        if (i < memory_count) s.memory_names[i] = text(name(static_cast<Memory>(i)));
    }
    m.def(
        "connect",
        [](nb::object context, nb::tuple errors, nb::object default_costs, nb::object warn_outside,
           std::string package_folder) {
            State& into = state();
            into.context = std::move(context);
            into.errors = std::move(errors);
            into.default_costs = std::move(default_costs);
            into.warn_outside = std::move(warn_outside);
            into.package_folder = std::move(package_folder);
        },
        nb::arg("context"), nb::arg("errors"), nb::arg("default_costs"), nb::arg("warn_outside"),
        nb::arg("package_folder"),
        "Hands over what the package provides: the context variable, the exception classes in the order of ErrorKind, "
        "the "
        "costs used outside any chip, the warning given there, and the folder whose frames are not the user's.");
    m.def(
        "user_line", [] { return state().sources->text(current_line()); },
        "The line of user code that is running, as 'kernel.py:18', or ''.");
}

}  // namespace mskpp::bindings
