// SPDX-License-Identifier: Apache-2.0
// Timeline -> trace-event JSON for chrome://tracing, Perfetto and MindStudio Insight (docs/read_a_report.md).
#pragma once

#include <filesystem>
#include <functional>

#include "mskpp/schedule.h"

namespace mskpp {

// Streams the trace to a new file of mode 0600; a process per core, a thread per pipe, a counter per local
// memory with its live bytes (memory_use.h). `progress`, if given, hears the number of instructions written, every
// million. Times are microseconds with 6 decimals, derived from whole cycles so that neighbours on a pipe never
// overlap, even after reading them as doubles. Error (io) when the file exists or cannot be written; nothing is left
// behind then.
void write_trace(const Timeline& timeline, const std::filesystem::path& file,
                 const std::function<void(std::size_t)>& progress = {});

}  // namespace mskpp
