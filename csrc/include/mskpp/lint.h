// SPDX-License-Identifier: Apache-2.0
// What is wrong or needless about the flags of a program, found without scheduling it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mskpp/program.h"

namespace mskpp {

enum class Problem : std::uint8_t {
    unmatched,     // a set that is never waited for, a wait whose set is never issued: the block ends with an error
    crossed,       // flags that wait for each other: a certain deadlock, whatever the costs
    unordered,     // a read of local memory that no pipe order, barrier or flag puts behind the write on another pipe
    never_needed,  // the wait can never delay anything, whatever the costs
    own_pipe,      // set and wait on one pipe, which keeps its order anyway
    set_twice,     // the next set may come before the wait for this one, which hardware cannot count: within a core
                   // it has one bit, between cores it counts to 15
    id,            // an id that the hardware does not have
};
enum class Severity : std::uint8_t { error, warning, hint };

std::string_view name(Problem problem);
std::string_view name(Severity severity);

// Flags of the same lines and kinds of pipe, on all cores, with the same problem.
struct Finding {
    Problem problem;
    Severity severity;
    std::vector<std::string> lines;  // of user code, each once, "kernel.py:18"
    std::string text;                // what is the matter with the first of them
    std::string cure;                // what to do
    std::int64_t count = 0;          // how many there are
    // The set and the wait of each, as instruction numbers; none for what is not there. Of set_twice, the wait and the
    // set that may come before it; of unordered, the writer and the reader. At most most_pairs.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;

    static constexpr std::size_t most_pairs = 10000;
};

// Errors first, then in program order. The program may still be in the making, or one whose finish() failed.
//
// crossed: there is one for each group of instructions that reach each other in the graph of pipe order, data,
// barriers and flags, if a flag is part of it. never_needed: all waits of that line, for such pipes, have a way
// in this graph from their set to themselves other than the flag; a warning if there is one over pipe order, barriers
// and flags alone, a hint if only data leads there, which hardware does not track between pipes. Taking such flags away
// leaves every start as it is, but for the cycle that each set and wait takes, with any costs.
//
// unordered: the reader waits for the writer because of data alone, which hardware does not track between pipes. Not
// told of GM, of registers, among the vector queues, and of what a deadlock stops. A program without any flag (of what
// lies within a core: within one) is a model that leaves them out: there it is one hint, with the first pair's lines.
//
// O(n * pipes that flags or local data come from) for n instructions and dependencies, of which 16 pipes are done at a
// time.
std::vector<Finding> lint_flags(const Program& program);

}  // namespace mskpp
