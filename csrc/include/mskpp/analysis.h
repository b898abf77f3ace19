// SPDX-License-Identifier: Apache-2.0
// Why a timeline is as long as it is: where each pipe's cycles go, what decides the makespan, what a change would gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mskpp/schedule.h"

namespace mskpp {

// What an instruction waited for last, or what a pipe's idle cycles are charged to.
enum class Cause : std::uint8_t {
    start,    // nothing: it starts at 0
    pipe,     // the instruction before it on its pipe
    data,     // a value
    flag,     // the set_flag that its wait_flag matches
    barrier,  // a barrier, or, of a barrier, what it collects
    end,      // nothing is left to do
};
std::string_view name(Cause cause);

// Idle cycles of one pipe with one cause; equal causes are one row. Texts are "" where there is nothing to say.
struct Stall {
    std::string pipe;
    Cause cause = Cause::end;
    std::int64_t cycles = 0;
    std::int64_t count = 0;            // gaps
    std::string tensor;                // "L1 tensor [64,64] FP16 (kernel.py:22)", "flag 0 of PIPE-MTE2 to PIPE-V"
    std::string by, by_pipe, by_line;  // what was waited for; of a flag "SET_FLAG behind MOV-GM_TO_L1", the move's line
    std::string waiting, line;         // what waited; of a flag "WAIT_FLAG before VADD", the wait's line
};

// Where the cycles of a pipe from 0 to the makespan went: the five sum to it.
struct PipeLedger {
    std::string pipe;
    std::int64_t busy = 0;  // an instruction of any kind runs, flags too
    std::int64_t data = 0, flag = 0, barrier = 0, end = 0;
};

struct Ledger {
    std::int64_t total_cycles = 0;
    std::vector<PipeLedger> pipes;  // in the order they were first used
    std::vector<Stall> stalls;      // the most cycles first
};

// Before an instruction starts, the idle cycles of its pipe are charged to the one dependency that ended last; of
// several, data before flag before barrier, then the one issued last. Of a flag, the last move or computation before
// the set on its pipe and the next one behind the wait on its pipe are named as well. O(instructions and dependencies).
Ledger ledger(const Timeline& timeline);

// What the instructions of one name, pipe and line contribute.
struct Part {
    std::string name, pipe, line;
    std::int64_t cycles = 0;
    std::int64_t count = 0;
};

struct Step {
    std::uint32_t instruction;
    Cause why;  // what it waited for last: the step before it, which ends when this one starts
};

// A chain of instructions without a gap from 0 to the makespan. Where an instruction could have waited for several, the
// one before it on its pipe goes first, then as in the ledger.
struct CriticalPath {
    std::int64_t total_cycles = 0;  // the makespan: the sum of the parts
    std::vector<Part> parts;        // the most cycles first
    std::vector<Step> steps;        // in time order
};
CriticalPath critical_path(const Timeline& timeline);

// Writes for each instruction by how many cycles it could end later without changing the makespan, all else going on as
// early as it can. REQUIRES: `out` has the program's size.
void slack(const Timeline& timeline, std::span<std::int64_t> out);

// The makespan if one thing were different.
struct Gain {
    std::string kind;     // pipe, path, instruction, cache, buffer
    std::string subject;  // "PIPE-MTE2", "MOV-GM_TO_L1", "MMAD", "cache_hit_ratio", "PIPE-M -> PIPE-MTE1"
    std::string change;   // "2x", "free", "2x larger", "no conversion", "ratio 0", "ratio 1", "+1", "+1 per id"
    std::int64_t total_cycles = 0;
    std::int64_t gain_cycles = 0;
};

// What each change would gain, the most first, each scheduled anew. Only changes of what the program uses:
//  - a pipe (all of that kind, whatever the core), a path (all moves of that name), an instruction (all computations of
//    that name): its cycles halved and rounded up, or none. Flags keep theirs.
//  - a path's moves twice as large and half as many: each costs half, rounded up, of what one of twice its bytes costs
//    with the same repeat count. And its moves that change the format at what they would cost without. Both where that
//    changes a cost; the user's own costs stay.
//  - the cache hit ratio 0 and 1, where moves would cost something else then. The user's own costs stay.
//  - one more buffer between two pipes of which the second only takes what the first gives, and gives buffers back by
//    flags: each of its waits takes the set before the one it took, of all ids ("+1") or of its own ("+1 per id").
// At most the 200 paths or instructions with the most cycles on the critical path. `between` is called before each
// scheduling, and may throw.
std::vector<Gain> what_if(const Timeline& timeline, const std::function<void()>& between = {});

}  // namespace mskpp
