// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"

namespace mskpp::bindings {

namespace {

using Folders = std::vector<std::filesystem::path>;

nb::list paths_of(const Costs& costs) {
    nb::list out;
    for (const Path& path : costs.chip().paths())
        out.append(nb::make_tuple(std::string(name(path.source)), std::string(name(path.target)),
                                  std::string(name(path.pipe)), path.port_bytes_per_cycle));
    return out;
}

// Names of the chips whose folders give the table, the chip itself first if it has one.
std::vector<std::string> sources_of(const Costs& costs, const std::string& table) {
    std::vector<std::string> out;
    for (const Chip* chip = &costs.chip(); chip != nullptr; chip = chip->base_of(table).get())
        if (chip->has_file(table + ".csv")) out.push_back(chip->name());
    return out;
}

// The chip's own folder and those of the chips it takes vector tables from, in that order.
Folders folders_of(const Costs& costs) {
    Folders out;
    for (const Chip* chip = &costs.chip(); chip != nullptr; chip = chip->base_of("vec").get())
        out.push_back(chip->folder());
    return out;
}

// Cycles by the chip's table of an instruction that is not built in, or None where it has none.
nb::object vector_cycles(const std::string& instruction, const std::string& dtypes, const Tensor& x) {
    const std::shared_ptr<const Costs> costs = costs_in_force(here());
    const RateTable* table = costs->find_vector(instruction, dtypes);
    return table == nullptr ? nb::none() : nb::cast(costs->vector(*table, x.dtype(), x.elements()).cycles);
}

}  // namespace

void bind_chip(nb::module_& m) {
    m.def(
        "list_chips",
        [](const Folders& folders) {
            nb::list out;  // names of files are not always Unicode
            for (const std::string& name : Chip::list(folders))
                out.append(
                    nb::steal(PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size()))));
            return out;
        },
        nb::sig("def list_chips(folders: Sequence[str | os.PathLike]) -> list[str]"), nb::arg("folders"),
        "Names of all chips in the folders, sorted.");
    m.def("vector_cycles", vector_cycles,
          nb::sig("def vector_cycles(instruction: str, dtypes: str, x: Tensor) -> int | None"), nb::arg("instruction"),
          nb::arg("dtypes"), nb::arg("x"),
          "Cycles of a vector instruction on x by the table of the chip in force, or None.");
    nb::class_<Costs>(m, "Costs", "A chip with its cost tables.")
        .def_static(
            "load",
            [](const std::string& name, const Folders& folders) {
                return std::make_shared<Costs>(Chip::load(name, folders));
            },
            nb::arg("name"), nb::arg("folders"), "The chip of that name, alias or folder.")
        .def_prop_ro("name", [](const Costs& costs) { return costs.chip().name(); })
        .def_prop_ro("folder", [](const Costs& costs) { return costs.chip().folder(); })
        .def_prop_ro("architecture", [](const Costs& costs) { return costs.chip().architecture(); })
        .def_prop_ro("clock_mhz", [](const Costs& costs) { return costs.chip().clock_mhz(); })
        .def_prop_ro("cube_cores", [](const Costs& costs) { return costs.chip().cube_cores(); })
        .def_prop_ro("vector_cores", [](const Costs& costs) { return costs.chip().vector_cores(); })
        .def_prop_ro("attributes", [](const Costs& costs) { return costs.chip().attributes(); })
        .def_prop_ro("paths", paths_of, "(source, target, pipe, port bytes per cycle) of every legal move.")
        .def_prop_ro("folders", folders_of, "Its own folder, then those of the chips it inherits vector tables from.")
        .def("sources_of", sources_of, nb::arg("table"),
             "Names of the chips whose folders give the table, the chip itself first if it has one.")
        .def(
            "capacity_bytes",
            [](const Costs& costs, const std::string& memory) {
                return costs.chip().capacity_bytes(parse_memory(memory, "capacity_bytes"));
            },
            nb::arg("memory"))
        .def("vector_instructions", &Costs::vector_instructions)
        .def(
            "vector_dtypes", [](const Costs& costs, const std::string& name) { return costs.vector_dtypes(name); },
            nb::arg("instruction"))
        .def(
            "move_rate",
            [](const Costs& costs, const std::string& source, const std::string& target, std::int64_t bytes,
               bool transform) {
                return costs.move_rate(parse_memory(source, "MovData"), parse_memory(target, "MovData"), bytes,
                                       transform);
            },
            nb::arg("source"), nb::arg("target"), nb::arg("bytes"), nb::arg("transform"))
        .def(
            "move_repeat_rate",
            [](const Costs& costs, const std::string& source, const std::string& target, std::int64_t repeat) {
                return costs.move_repeat_rate(parse_memory(source, "MovData"), parse_memory(target, "MovData"), repeat);
            },
            nb::arg("source"), nb::arg("target"), nb::arg("repeat"))
        .def(
            "port_rate",
            [](const Costs& costs, const std::string& source, const std::string& target) -> std::optional<double> {
                const Path* path = costs.chip().path(parse_memory(source, "MovData"), parse_memory(target, "MovData"));
                return path == nullptr ? std::nullopt : std::optional<double>(path->port_bytes_per_cycle);
            },
            nb::arg("source"), nb::arg("target"))
        .def(
            "mmad_rate",
            [](const Costs& costs, const std::string& dtype, std::int64_t granularity) {
                return costs.mmad_rate(parse_dtype(dtype, "MmadData"), granularity);
            },
            nb::arg("dtype"), nb::arg("granularity"))
        .def(
            "vector_rate",
            [](const Costs& costs, const std::string& instruction, const std::string& dtypes, std::int64_t elements) {
                return costs.vector_rate(instruction, dtypes, elements);
            },
            nb::arg("instruction"), nb::arg("dtypes"), nb::arg("elements"));
}

}  // namespace mskpp::bindings
