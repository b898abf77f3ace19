// SPDX-License-Identifier: Apache-2.0
// Timeline -> what each core did, beside the least it would have taken by the chip's best rates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mskpp/schedule.h"

namespace mskpp {

// What ran on one pipe under one name. Flags and barriers do not count.
struct Achievement {
    std::uint16_t core;  // of Program::cores()
    Pipe pipe;
    bool move;
    std::string name;       // of a move its path, "GM_TO_L1"; else the instruction's
    std::int64_t work = 0;  // bytes of a move; operations as the program counts them, mmad m*k*n
    // Of `work`, what the chip's data has a best rate for: not what the user gave a cost.
    std::int64_t rated_work = 0;
    double least_cycles = 0;  // that rated_work takes at the best rates
};

// In the order of the cores and of what they did first. The best rates: of a path, the best of its curves, or the port
// where there is none, with every access hitting the cache; of mmad, the cube's peak for the dtype; of a vector
// instruction, the best in its tables for the dtype of x; what has no curve runs at its best always.
// Error (overflow) when a sum passes 2^63-1.
std::vector<Achievement> achievements(const Timeline& timeline);

}  // namespace mskpp
