// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/text.h"
#include "bindings/bindings.h"

namespace mskpp::bindings {

using base::concat;

namespace {

constexpr const char* kind_names[] = {"move", "computation", "set_flag", "wait_flag", "barrier"};

nb::tuple event_of(const Timeline& self, std::size_t i) {
    if (i >= self.program().size()) throw nb::index_error();
    const Program& program = self.program();
    const Record& record = program.record(i);
    return nb::make_tuple(program.name(record), program.pipes()[record.pipe].name, self.start(i), self.end(i),
                          kind_names[static_cast<int>(record.kind)], record.work, std::string(name(record.origin)),
                          program.source_text(record.line));
}

nb::list statistics_of(const std::vector<Statistic>& statistics) {
    nb::list out;
    for (const Statistic& s : statistics) {
        nb::dict origins;
        for (std::size_t i = 0; i < s.origins.size(); ++i)
            if (s.origins[i] != 0) origins[std::string(name(static_cast<Origin>(i))).c_str()] = s.origins[i];
        out.append(nb::make_tuple(s.name, s.cycles, s.bytes, s.operations, s.moves, s.computations, origins));
    }
    return out;
}

nb::tuple measured(const Timeline& timeline) {
    Metrics metrics;
    {
        nb::gil_scoped_release release;
        metrics = measure(timeline);
    }
    return nb::make_tuple(metrics.total_cycles, statistics_of(metrics.pipes), statistics_of(metrics.instructions));
}

void trace(const Timeline& timeline, const std::filesystem::path& file, nb::object progress) {
    std::function<void(std::size_t)> hear;
    if (!progress.is_none())
        hear = [&progress](std::size_t written) {
            nb::gil_scoped_acquire acquire;
            progress(written);
        };
    nb::gil_scoped_release release;
    write_trace(timeline, file, hear);
}

std::string line_of(const Program& program, std::size_t i, const char* what) {
    const Record& record = program.record(i);
    const std::string place = program.source_text(record.line);
    return concat(what, " ", program.pipes()[record.pipe].name, " ", program.name(record),
                  place.empty() ? "" : " (" + place + ")");
}

// What debug mode logs: every instruction as it joins its pipe's queue and as it leaves it, and what is stuck.
nb::tuple debugged(const Program& program) {
    nb::list enqueued, dequeued;
    Attempt done;
    std::vector<std::uint32_t> order;
    {
        nb::gil_scoped_release release;
        done = attempt(program);
        for (std::size_t i = 0; i < program.size(); ++i)
            if (done.end[i] >= 0) order.push_back(static_cast<std::uint32_t>(i));
        std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return done.end[a] != done.end[b]                         ? done.end[a] < done.end[b]
                   : program.record(a).pipe != program.record(b).pipe ? program.record(a).pipe < program.record(b).pipe
                                                                      : a < b;
        });
    }
    for (std::size_t i = 0; i < program.size(); ++i) enqueued.append(line_of(program, i, "enqueue"));
    for (const std::uint32_t i : order)
        dequeued.append(concat(line_of(program, i, "dequeue"), " from ", done.end[i] - program.record(i).cycles, " to ",
                               done.end[i]));
    return nb::make_tuple(enqueued, dequeued, done.deadlock);
}

}  // namespace

void bind_schedule(nb::module_& m) {
    nb::class_<Timeline>(m, "Timeline", "When every instruction of a program runs, in cycles.")
        .def_prop_ro("total_cycles", &Timeline::total_cycles)
        .def("__len__", [](const Timeline& self) { return self.program().size(); })
        .def("event", event_of, nb::sig("def event(self, i: int) -> tuple[str, str, int, int, str, int, str, str]"),
             nb::arg("i"), "(name, pipe, start, end, kind, work, origin, line) of instruction i.");
    m.def(
        "schedule",
        [](std::shared_ptr<Program> program) {
            nb::gil_scoped_release release;
            return std::make_shared<Timeline>(schedule(std::move(program)));
        },
        nb::arg("program"), "Schedules a finished program.");
    m.def("measure", measured,
          nb::sig("def measure(timeline: Timeline) -> tuple[int, list[tuple[Any, ...]], list[tuple[Any, ...]]]"),
          nb::arg("timeline"),
          "(total cycles, pipes, instructions); of each (name, cycles, bytes, operations, moves, computations, "
          "origins).");
    m.def("write_trace", trace, nb::arg("timeline"), nb::arg("file"), nb::arg("progress").none() = nb::none(),
          "Writes the trace-event JSON to a new file.");
    m.def("debug", debugged, nb::sig("def debug(program: Program) -> tuple[list[str], list[str], str]"),
          nb::arg("program"), "(enqueue lines, dequeue lines, deadlock text) of a finished program.");
}

}  // namespace mskpp::bindings
