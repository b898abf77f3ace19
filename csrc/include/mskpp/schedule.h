// SPDX-License-Identifier: Apache-2.0
// Program -> Timeline. A pure function: no globals, no callbacks, no files; the same program gives the same timeline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mskpp/chunked_vector.h"
#include "mskpp/program.h"

namespace mskpp {

// When every instruction of a program runs, in cycles from 0. Immutable; keeps its program alive.
class Timeline {
  public:
    Timeline(std::shared_ptr<const Program> program, ChunkedVector<std::int64_t> end, std::int64_t total)
        : program_(std::move(program)), end_(std::move(end)), total_(total) {}

    const Program& program() const { return *program_; }
    std::int64_t total_cycles() const { return total_; }  // makespan: the latest end, 0 for an empty program
    std::int64_t end(std::size_t i) const { return end_[i]; }
    std::int64_t start(std::size_t i) const { return end_[i] - program_->record(i).cycles; }

  private:
    std::shared_ptr<const Program> program_;
    ChunkedVector<std::int64_t> end_;
    std::int64_t total_;
};

// How far a program gets. Where it gets to its end, `deadlock` is empty.
struct Attempt {
    ChunkedVector<std::int64_t> end;  // per instruction; negative where it never completes
    std::int64_t total = 0;
    std::string deadlock;  // what each stuck pipe waits for
};

// As schedule(), for debugging: a deadlock is a part of the answer. Error (overflow) only.
Attempt attempt(const Program& program);

// Schedules a finished program: each pipe runs its instructions in issue order, one at a time; an instruction starts
// when its pipe is free and everything it waits for has ended. Instructions complete in order of end time (ties: the
// pipe created first). O(n log pipes) for n instructions and dependencies. Error (deadlock) that says what each stuck
// pipe waits for, (overflow) when the time passes 2^62 cycles.
Timeline schedule(std::shared_ptr<const Program> program);

}  // namespace mskpp
