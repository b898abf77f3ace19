// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/text.h"
#include "bindings/bindings.h"

namespace mskpp::bindings {

using base::concat;

namespace {

std::vector<Tensor*> tensors_of(nb::handle list, const std::string& who, const char* what) {
    std::vector<Tensor*> out;
    for (nb::handle item : list) {
        Tensor* const tensor = tensor_of(item);
        if (tensor == nullptr)
            throw Error(ErrorKind::type, concat(who, ": ", what, " must be Tensors, got ", kind_of(item)));
        out.push_back(tensor);
    }
    return out;
}

void add_own(const std::string& name, const std::string& pipe, nb::handle inputs, nb::handle outputs, std::int64_t work,
             std::int64_t cycles) {
    const Here where = here();
    if (!where.program) return state().warn_outside(), void();
    const Chip& chip = where.program->chip();
    const Pipe queue = parse_queue(pipe, name);
    if (is_register_pipe(queue) && chip.path(Memory::UB, Memory::VEC) == nullptr)
        throw Error(ErrorKind::value, concat(name, ": ", chip.name(), " has no vector registers, so no ", pipe));
    where.program->add_own({name, queue, Kind::computation, tensors_of(inputs, name, "inputs"),
                            tensors_of(outputs, name, "outputs"), work, cycles},
                           where.place);
}

// Outside any chip a flag is checked on a program of its own, which is dropped.
template <typename Issue>
void with_program(Issue issue) {
    Here where = here();
    if (where.program) {
        issue(*where.program, where.place);
        return;
    }
    state().warn_outside();
    where.place.core = 0;
    Program scratch(costs_in_force(where), state().sources);
    issue(scratch, where.place);
}

void set_flag(nb::handle pipe_src, nb::handle pipe_dst, nb::handle event_id) {
    const std::string_view source = text_of(pipe_src, "set_flag", "pipe_src"),
                           target = text_of(pipe_dst, "set_flag", "pipe_dst");
    const std::int64_t id = integer_of(event_id, "set_flag", "event_id");
    with_program([&](Program& program, const Place& place) { program.set_flag(source, target, id, place); });
}

void wait_flag(nb::handle pipe_src, nb::handle pipe_dst, nb::handle event_id) {
    const std::string_view source = text_of(pipe_src, "wait_flag", "pipe_src"),
                           target = text_of(pipe_dst, "wait_flag", "pipe_dst");
    const std::int64_t id = integer_of(event_id, "wait_flag", "event_id");
    with_program([&](Program& program, const Place& place) { program.wait_flag(source, target, id, place); });
}

void pipe_barrier(nb::handle pipe) {
    const std::string_view text = text_of(pipe, "pipe_barrier", "pipe");
    with_program([&](Program& program, const Place& place) { program.barrier(text, place); });
}

void set_move_model(const std::string& source, const std::string& target, nb::object model, nb::handle pipe) {
    const auto path = static_cast<std::size_t>(parse_memory(source, "RegisterPrefOf")) * memory_count +
                      static_cast<std::size_t>(parse_memory(target, "RegisterPrefOf"));
    state().move_models[path] = model.is_none() ? nb::object() : std::move(model);
    state().move_pipes[path] =
        pipe.is_none() ? std::nullopt
                       : std::optional<Pipe>(parse_queue(text_of(pipe, "RegisterOf", "pipe"), "RegisterOf"));
}

std::string check_pipe(nb::handle pipe, const std::string& who) {
    return std::string(name(parse_queue(text_of(pipe, who.c_str(), "pipe"), who)));
}

}  // namespace

void bind_program(nb::module_& m) {
    nb::class_<Program>(m, "Program", "The instructions of one model, in the order issued.")
        .def(
            "__init__",
            [](Program* self, std::shared_ptr<Costs> costs) { new (self) Program(std::move(costs), state().sources); },
            nb::arg("costs"))
        .def("__len__", &Program::size)
        .def("set_cache_hit_ratio", &Program::set_cache_hit_ratio, nb::arg("ratio"))
        .def(
            "core", [](Program& self, const std::string& name) { return self.core(name); }, nb::arg("name"))
        .def("open_scope", &Program::open_scope, nb::arg("name"), nb::arg("core"))
        .def("finish", &Program::finish);
    nb::class_<Frame>(m, "Frame", "One entry of the stack of chips, cores and vector scopes in force.")
        .def(
            "__init__",
            [](Frame* self, std::shared_ptr<Program> program, std::uint16_t core, std::uint32_t scope,
               nb::object parent, nb::object owner) {
                new (self) Frame{std::move(program), {core, scope, 0}, std::move(parent), std::move(owner)};
            },
            nb::arg("program").none(), nb::arg("core"), nb::arg("scope"), nb::arg("parent").none(),
            nb::arg("owner").none())
        .def_prop_ro(
            "program", [](const Frame& self) { return self.program; }, nb::sig("def program(self) -> Program | None"))
        .def_prop_ro("core", [](const Frame& self) { return self.place.core; })
        .def_prop_ro("scope", [](const Frame& self) { return self.place.scope; })
        .def_prop_ro(
            "parent", [](const Frame& self) { return self.parent; }, nb::sig("def parent(self) -> Frame | None"))
        .def_prop_ro("owner", [](const Frame& self) { return self.owner; });
    m.attr("NO_SCOPE") = none;
    m.def("set_flag", set_flag, nb::sig("def set_flag(pipe_src: str, pipe_dst: str, event_id: int) -> None"),
          nb::arg("pipe_src").none(), nb::arg("pipe_dst").none(), nb::arg("event_id").none(),
          R"(set_flag(pipe_src, pipe_dst, event_id)

Raises the flag on pipe_src once everything issued on it before has ended. Takes 1 cycle.

Pipes: PIPE-MTE1, PIPE-MTE2, PIPE-MTE3, PIPE-FIX, PIPE-M, PIPE-V, PIPE-S, PIPE-VEC, alone or behind a core: 'aic0_PIPE-FIX'.
event_id: 0 to 65535, free for use again: the k-th wait of (pipe_src, pipe_dst, event_id) waits for the k-th set.
Raises InputError for an unknown pipe or an id out of range.)");
    m.def("wait_flag", wait_flag, nb::sig("def wait_flag(pipe_src: str, pipe_dst: str, event_id: int) -> None"),
          nb::arg("pipe_src").none(), nb::arg("pipe_dst").none(), nb::arg("event_id").none(),
          R"(wait_flag(pipe_src, pipe_dst, event_id)

Holds pipe_dst until the matching set_flag has ended. Takes 1 cycle. Arguments as for set_flag.)");
    m.def("pipe_barrier", pipe_barrier, nb::sig("def pipe_barrier(pipe: str) -> None"), nb::arg("pipe").none(),
          R"(pipe_barrier(pipe)

Costs nothing. On one pipe, waits for what was issued on it before. With 'PIPE-ALL', nothing of the core issued later starts
before everything issued on it earlier has ended.)");
    m.def("add_own", add_own, nb::arg("name"), nb::arg("pipe"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("work"),
          nb::arg("cycles"), "Records an instruction of the user's own.");
    m.def("set_move_model", set_move_model, nb::arg("source"), nb::arg("target"), nb::arg("model").none(),
          nb::arg("pipe").none(),
          "Makes the callable the cost of a path: model(inputs, outputs, attributes) -> (cycles, bytes). None removes "
          "it.");
    m.def(
        "check_memory", [](const std::string& memory, const std::string& who) { parse_memory(memory, who); },
        nb::arg("memory"), nb::arg("who"), "Raises InputError unless it is the name of a memory.");
    m.def("check_pipe", check_pipe, nb::arg("pipe").none(), nb::arg("who"),
          "The name of the pipe as results spell it.");
}

}  // namespace mskpp::bindings
