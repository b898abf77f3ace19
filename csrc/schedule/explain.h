// SPDX-License-Identifier: Apache-2.0
// Why a schedule cannot go on, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mskpp/program.h"

namespace mskpp {

// `head[p]` is the instruction that pipe p could not start, or none; `end[i]` is negative where i never completed.
std::string explain_deadlock(const Program& program, const std::vector<std::uint32_t>& head,
                             const ChunkedVector<std::int64_t>& end);

}  // namespace mskpp
