// SPDX-License-Identifier: Apache-2.0
// What the binding files share: the state of the module and the crossing of values from Python. No logic of the model.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mskpp/mskpp.h"

namespace mskpp::bindings {

namespace nb = nanobind;

// One entry of the stack that mskpp/core/context.py keeps: the program, core and vector scope in force.
struct Frame {
    std::shared_ptr<Program> program;  // null outside any chip
    Place place;
    nb::object parent, owner;
};

// What Python hands over once, when the package is imported.
struct State {
    nb::object context;          // ContextVar whose value is a Frame or None
    nb::object errors;           // tuple of exception classes, by ErrorKind
    nb::object default_costs;    // callable: the costs that check what is outside any chip
    nb::object warn_outside;     // callable: says once that nothing is recorded
    std::string package_folder;  // frames in it are not the user's
    std::array<nb::object, memory_count * memory_count> move_models;  // the user's costs of paths: callable or null
    std::array<std::optional<Pipe>, memory_count * memory_count> move_pipes;
    std::shared_ptr<SourceTable> sources = std::make_shared<SourceTable>();
    std::array<nb::object, 16> dtype_names, format_names, memory_names;
};
State& state();

// What is in force where the user's code calls.
struct Here {
    std::shared_ptr<Program> program;  // null outside any chip
    Place place;                       // with the line of user code
};
Here here();
// The current chip's costs, else the default's.
std::shared_ptr<const Costs> costs_in_force(const Here& where);

// The Tensor, or null for anything else (also for one whose __init__ never ran).
Tensor* tensor_of(nb::handle value);

// Id of the line of user code that is running: the innermost frame outside the package.
std::uint32_t current_line();

// Values from Python. Errors name the operation and the argument: "vadd: ...".
std::string_view text_of(nb::handle value, const char* where, const char* argument);
std::int64_t integer_of(nb::handle value, const char* where, const char* argument);  // any integer but bool
bool flag_of(nb::handle value, const char* where, const char* argument);             // a bool
Shape shape_of(nb::handle value, const char* where, const char* argument);           // list or tuple of integers
std::string kind_of(nb::handle value);
nb::list list_of(const Shape& shape);
nb::object name_of(DType dtype);  // str, or None for unset
nb::object name_of(Format format);

// Cycles and work that a user's cost model gives for one instruction.
struct ModelAnswer {
    std::int64_t cycles;
    std::int64_t work;
};
ModelAnswer ask_model(const nb::object& model, nb::handle inputs, nb::handle outputs, nb::handle attributes);

void bind_error(nb::module_& m);
void bind_chip(nb::module_& m);
void bind_instruction(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_program(nb::module_& m);
void bind_schedule(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_lint(nb::module_& m);
void bind_analysis(nb::module_& m);

}  // namespace mskpp::bindings
