// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings/bindings.h"

namespace mskpp::bindings {

namespace {

nb::str text(std::string_view value) { return nb::str(value.data(), value.size()); }

nb::tuple ledger_of(const Timeline& timeline) {
    Ledger found;
    {
        nb::gil_scoped_release release;
        found = ledger(timeline);
    }
    nb::list pipes, stalls;
    for (const PipeLedger& pipe : found.pipes)
        pipes.append(nb::make_tuple(pipe.pipe, pipe.busy, pipe.data, pipe.flag, pipe.barrier, pipe.end));
    for (const Stall& stall : found.stalls)
        stalls.append(nb::make_tuple(stall.pipe, text(name(stall.cause)), stall.cycles, stall.count, stall.tensor,
                                     stall.by, stall.by_pipe, stall.by_line, stall.waiting, stall.line));
    return nb::make_tuple(found.total_cycles, pipes, stalls);
}

nb::tuple critical_path_of(const Timeline& timeline, std::size_t most_steps) {
    CriticalPath found;
    {
        nb::gil_scoped_release release;
        found = critical_path(timeline);
    }
    const Program& program = timeline.program();
    nb::list parts, steps;
    for (const Part& part : found.parts)
        parts.append(nb::make_tuple(part.name, part.pipe, part.line, part.cycles, part.count));
    const std::size_t count = found.steps.size(), kept = std::min(count, most_steps), head = kept - kept / 2;
    for (std::size_t n = 0; n < kept; ++n) {
        const Step& step = found.steps[n < head ? n : count - kept + n];
        const Record& record = program.record(step.instruction);
        steps.append(nb::make_tuple(step.instruction, program.name(record), program.pipes()[record.pipe].name,
                                    timeline.start(step.instruction), timeline.end(step.instruction),
                                    program.source_text(record.line), text(name(step.why))));
    }
    return nb::make_tuple(found.total_cycles, parts, steps, count);
}

// The bytes are the memory view's own; nobody else sees them while they are written.
nb::object slack_of(const Timeline& timeline) {
    const std::size_t size = timeline.program().size();
    const nb::object bytes =
        nb::steal(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size * sizeof(std::int64_t))));
    if (!bytes.is_valid()) nb::raise_python_error();
    const std::span<std::int64_t> out(reinterpret_cast<std::int64_t*>(PyByteArray_AS_STRING(bytes.ptr())), size);
    {
        nb::gil_scoped_release release;
        slack(timeline, out);
    }
    const nb::object view = nb::steal(PyMemoryView_FromObject(bytes.ptr()));
    if (!view.is_valid()) nb::raise_python_error();
    return view.attr("cast")("q").attr("toreadonly")();
}

nb::list what_if_of(const Timeline& timeline) {
    const auto interruptible = [] {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    };
    std::vector<Gain> found;
    {
        nb::gil_scoped_release release;
        found = what_if(timeline, interruptible);
    }
    nb::list gains;
    for (const Gain& gain : found)
        gains.append(nb::make_tuple(gain.kind, gain.subject, gain.change, gain.total_cycles, gain.gain_cycles));
    return gains;
}

}  // namespace

void bind_analysis(nb::module_& m) {
    m.def("ledger", ledger_of,
          nb::sig("def ledger(timeline: Timeline) -> tuple[int, list[tuple[Any, ...]], list[tuple[Any, ...]]]"),
          nb::arg("timeline"), "(total cycles, pipes, stalls), their fields in the order of mskpp.report.analysis.");
    m.def("critical_path", critical_path_of,
          nb::sig("def critical_path(timeline: Timeline, most_steps: int) -> tuple[int, list[tuple[Any, ...]], "
                  "list[tuple[Any, ...]], int]"),
          nb::arg("timeline"), nb::arg("most_steps"),
          "(total cycles, parts, the first and the last steps, how many there are).");
    m.def("slack", slack_of, nb::sig("def slack(timeline: Timeline) -> memoryview"), nb::arg("timeline"),
          "Cycles by which each instruction could end later without changing the makespan.");
    m.def("what_if", what_if_of, nb::sig("def what_if(timeline: Timeline) -> list[tuple[Any, ...]]"),
          nb::arg("timeline"), "(kind, subject, change, total cycles, cycles gained) of each change, sorted by gain.");
}

}  // namespace mskpp::bindings
