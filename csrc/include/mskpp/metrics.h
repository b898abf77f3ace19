// SPDX-License-Identifier: Apache-2.0
// Timeline -> statistics per pipe and per instruction.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mskpp/cost.h"
#include "mskpp/schedule.h"

namespace mskpp {

// What ran on one pipe, or under one instruction name. Flags and barriers do not count.
struct Statistic {
    std::string name;
    std::int64_t cycles = 0;      // busy
    std::int64_t bytes = 0;       // moved; of moves
    std::int64_t operations = 0;  // of computations
    std::int64_t moves = 0;       // how many
    std::int64_t computations = 0;
    std::array<std::int64_t, origin_count> origins{};  // instructions by the origin of their cost
};

struct Metrics {
    std::int64_t total_cycles = 0;        // makespan
    std::vector<Statistic> pipes;         // in the order they were first used
    std::vector<Statistic> instructions;  // likewise
};

// Error (overflow) when a sum passes 2^63-1.
Metrics measure(const Timeline& timeline);

}  // namespace mskpp
