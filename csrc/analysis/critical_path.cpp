// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "analysis/release.h"
#include "mskpp/analysis.h"
#include "schedule/engine.h"

namespace mskpp {

namespace {

// The instruction before each on its pipe, or none.
std::vector<std::uint32_t> pipe_predecessors(const Program& program) {
    std::vector<std::uint32_t> latest(program.pipes().size(), none), out(program.size());
    for (std::size_t i = 0; i < program.size(); ++i) {
        std::uint32_t& last = latest[program.record(i).pipe];
        out[i] = last;
        last = static_cast<std::uint32_t>(i);
    }
    return out;
}

// Of what ends at the makespan, what was issued last; none for an empty program.
std::uint32_t last_to_end(const Timeline& timeline) {
    for (std::size_t i = timeline.program().size(); i-- > 0;)
        if (timeline.end(i) == timeline.total_cycles()) return static_cast<std::uint32_t>(i);
    return none;
}

// Backwards from the end. Each instruction starts when one that it waits for ends, so there is no gap; none waits for
// itself, however far round, so there are no more steps than instructions.
std::vector<Step> walk(const Timeline& timeline) {
    const std::vector<std::uint32_t> before = pipe_predecessors(timeline.program());
    std::vector<Step> steps;
    std::uint32_t i = last_to_end(timeline);
    while (i != none) {
        const std::int64_t start = timeline.start(i);
        if (start == 0) {
            steps.push_back({i, Cause::start});
            break;
        }
        if (before[i] != none && timeline.end(before[i]) == start) {
            steps.push_back({i, Cause::pipe});
            i = before[i];
            continue;
        }
        const Release release = last_awaited(timeline, i);
        steps.push_back({i, release.cause});
        i = release.producer;
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
}

std::vector<Part> parts_of(const Program& program, const std::vector<Step>& steps) {
    struct Sum {
        std::int64_t cycles = 0, count = 0;
    };
    std::unordered_map<std::uint64_t, Sum> sums;
    for (const Step& step : steps) {
        const Record& record = program.record(step.instruction);
        Sum& sum = sums[std::uint64_t{record.line} << 32 | std::uint64_t{record.pipe} << 16 | record.name];
        sum.cycles += record.cycles;
        ++sum.count;
    }
    std::vector<Part> parts;
    for (const auto& [key, sum] : sums)
        parts.push_back({program.names()[key & 0xffff], program.pipes()[key >> 16 & 0xffff].name,
                         program.source_text(static_cast<std::uint32_t>(key >> 32)), sum.cycles, sum.count});
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
        return std::tie(b.cycles, b.count, a.name, a.pipe, a.line) <
               std::tie(a.cycles, a.count, b.name, b.pipe, b.line);
    });
    return parts;
}

// The order in which instructions complete: each behind everything it waits for, also where many complete at one time.
struct InOrder : AsRecorded {
    std::uint32_t* next;
    void completed(std::uint32_t i) { *next++ = i; }
};

}  // namespace

CriticalPath critical_path(const Timeline& timeline) {
    CriticalPath out;
    out.total_cycles = timeline.total_cycles();
    out.steps = walk(timeline);
    out.parts = parts_of(timeline.program(), out.steps);
    return out;
}

void slack(const Timeline& timeline, std::span<std::int64_t> out) {
    const Program& program = timeline.program();
    std::vector<std::uint32_t> order(program.size());
    Engine<InOrder>(InOrder{{program}, order.data()}).run();
    // `out` holds the latest end that each may have: nothing that waits for it would start later than it may.
    std::fill(out.begin(), out.end(), timeline.total_cycles());
    for (std::size_t n = order.size(); n-- > 0;) {
        const std::uint32_t i = order[n];
        const std::uint32_t next = program.next_on_pipe(i);
        if (next != none) out[i] = std::min(out[i], out[next] - program.record(next).cycles);
        const std::int64_t latest_start = out[i] - program.record(i).cycles;
        program.each_dependency(i, [&](const Dependency& dependency) {
            out[dependency.producer] = std::min(out[dependency.producer], latest_start);
        });
    }
    for (std::size_t i = 0; i < program.size(); ++i) out[i] -= timeline.end(i);
}

}  // namespace mskpp
