// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"

namespace mskpp::bindings {

namespace {

nb::list memory_use_of(const Timeline& timeline) {
    std::vector<MemoryUse> found;
    {
        nb::gil_scoped_release release;
        found = memory_use(timeline);
    }
    nb::list out;
    for (const MemoryUse& use : found) {
        nb::list points, largest;
        for (const MemoryPoint& point : use.points) points.append(nb::make_tuple(point.cycle, point.bytes));
        for (const LiveTensor& live : use.largest) largest.append(nb::make_tuple(live.text, live.bytes, live.versions));
        const nb::object capacity = use.capacity_bytes ? nb::cast(*use.capacity_bytes) : nb::none();
        out.append(nb::make_tuple(timeline.program().cores()[use.core], std::string(name(use.memory)), use.peak_bytes,
                                  use.peak_cycle, capacity, nb::tuple(points), nb::tuple(largest)));
    }
    return out;
}

nb::list achievements_of(const Timeline& timeline) {
    std::vector<Achievement> found;
    {
        nb::gil_scoped_release release;
        found = achievements(timeline);
    }
    nb::list out;
    for (const Achievement& row : found)
        out.append(nb::make_tuple(timeline.program().cores()[row.core], std::string(name(row.pipe)), row.move, row.name,
                                  row.work, row.rated_work, row.least_cycles));
    return out;
}

}  // namespace

void bind_memory(nb::module_& m) {
    m.def("memory_use", memory_use_of, nb::sig("def memory_use(timeline: Timeline) -> list[tuple[Any, ...]]"),
          nb::arg("timeline"),
          "Of each local memory (core, memory, peak bytes, peak cycle, capacity or None, ((cycle, live bytes), ...), "
          "((tensor, bytes, versions), ...) that live at a peak above the capacity).");
    m.def(
        "achievements", achievements_of, nb::sig("def achievements(timeline: Timeline) -> list[tuple[Any, ...]]"),
        nb::arg("timeline"),
        "Of each pipe and path or instruction (core, pipe, is a move, name, bytes or operations, those that the chip's "
        "data has a best rate for, cycles they take at that rate).");
}

}  // namespace mskpp::bindings
