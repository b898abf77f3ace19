// SPDX-License-Identifier: Apache-2.0
#include "mskpp/metrics.h"

#include <algorithm>

#include "mskpp/error.h"

namespace mskpp {

namespace {

void add(std::int64_t& sum, std::int64_t value) {
    if (__builtin_add_overflow(sum, value, &sum))
        throw Error(ErrorKind::overflow, "metrics: a sum of cycles, bytes or operations passes 2^63-1");
}

void count(Statistic& statistic, const Record& record) {
    add(statistic.cycles, record.cycles);
    ++statistic.origins[static_cast<std::size_t>(record.origin)];
    const bool move = record.kind == Kind::move;
    ++(move ? statistic.moves : statistic.computations);
    add(move ? statistic.bytes : statistic.operations, record.work);
}

// Drops what only had flags.
std::vector<Statistic> used(std::vector<Statistic> all) {
    const auto idle = [](const Statistic& statistic) { return statistic.moves + statistic.computations == 0; };
    all.erase(std::remove_if(all.begin(), all.end(), idle), all.end());
    return all;
}

}  // namespace

Metrics measure(const Timeline& timeline) {
    const Program& program = timeline.program();
    std::vector<Statistic> pipes(program.pipes().size()), instructions(program.names().size());
    for (std::size_t i = 0; i < pipes.size(); ++i) pipes[i].name = program.pipes()[i].name;
    for (std::size_t i = 0; i < instructions.size(); ++i) instructions[i].name = program.names()[i];
    for (std::size_t i = 0; i < program.size(); ++i) {
        const Record& record = program.record(i);
        if (record.kind != Kind::move && record.kind != Kind::computation) continue;
        count(pipes[record.pipe], record);
        count(instructions[record.name], record);
    }
    return {timeline.total_cycles(), used(std::move(pipes)), used(std::move(instructions))};
}

}  // namespace mskpp
