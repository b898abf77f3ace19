// SPDX-License-Identifier: Apache-2.0
// What an instruction waited for last.
#pragma once

#include "mskpp/analysis.h"

namespace mskpp {

// A dependency, its cause, and when it ended; at Cause::start, none.
struct Release {
    Cause cause = Cause::start;
    std::uint32_t producer = none;
    std::uint32_t tensor = none;
    std::int64_t end = 0;
};

inline Cause cause_of(const Program& program, std::uint32_t reader, const Dependency& dependency) {
    if (dependency.tensor != none) return Cause::data;
    const bool flag =
        program.record(reader).kind == Kind::wait_flag && program.record(dependency.producer).kind == Kind::set_flag;
    return flag ? Cause::flag : Cause::barrier;
}

// The dependency that ended last; of several, data before flag before barrier, then the one issued last.
inline Release last_awaited(const Timeline& timeline, std::uint32_t i) {
    Release last;
    const auto later = [&](std::int64_t end, Cause cause, std::uint32_t producer) {
        if (last.producer == none || end != last.end) return last.producer == none || end > last.end;
        if (cause != last.cause) return cause < last.cause;
        return producer > last.producer;
    };
    timeline.program().each_dependency(i, [&](const Dependency& dependency) {
        const std::int64_t end = timeline.end(dependency.producer);
        if (last.producer != none && end < last.end) return;
        const Cause cause = cause_of(timeline.program(), i, dependency);
        if (later(end, cause, dependency.producer)) last = {cause, dependency.producer, dependency.tensor, end};
    });
    return last;
}

}  // namespace mskpp
