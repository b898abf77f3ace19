// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"

namespace mskpp::bindings {

namespace {

nb::object number_of(std::uint32_t instruction) {
    return instruction == none ? nb::object(nb::none()) : nb::object(nb::int_(instruction));
}

// The interpreter's lock stays held: other threads may still be recording into the program.
nb::list linted(const Program& program) {
    nb::list out;
    for (const Finding& finding : lint_flags(program)) {
        nb::list pairs;
        for (const auto& [set, wait] : finding.pairs) pairs.append(nb::make_tuple(number_of(set), number_of(wait)));
        out.append(nb::make_tuple(std::string(name(finding.problem)), std::string(name(finding.severity)),
                                  nb::tuple(nb::cast(finding.lines)), finding.text, finding.cure, finding.count,
                                  nb::tuple(pairs)));
    }
    return out;
}

}  // namespace

void bind_lint(nb::module_& m) {
    m.def("lint_flags", linted, nb::sig("def lint_flags(program: Program) -> list[tuple[Any, ...]]"),
          nb::arg("program"),
          "Each (kind, severity, lines, text, cure, count, pairs of set and wait as instruction numbers).");
}

}  // namespace mskpp::bindings
