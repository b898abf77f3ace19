// SPDX-License-Identifier: Apache-2.0
// The schedule as discrete events, over where costs and dependencies come from: the program as recorded, or changed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "base/text.h"
#include "mskpp/chunked_vector.h"
#include "mskpp/error.h"
#include "mskpp/program.h"

namespace mskpp {

// Costs and dependencies as they were recorded. What takes its place may change both; pipes and their order stay.
struct AsRecorded {
    const Program& program;

    std::int64_t cycles(std::uint32_t, const Record& record) const { return record.cycles; }
    template <typename Visit>
    void each_dependency(std::uint32_t i, Visit visit) const {
        program.each_dependency(i, visit);
    }
    // Called for each instruction as it completes: behind everything it waits for.
    void completed(std::uint32_t) {}
};

// What completes next is on top of `running_`; a pipe whose head waits is listed at the pipe of the instruction it
// waits for, and looked at again when that one completes.
template <typename Source>
class Engine {
  public:
    static constexpr std::int64_t not_ended = -1;
    static constexpr std::int64_t latest_end = std::int64_t{1} << 62;

    explicit Engine(Source source) : source_(std::move(source)) {
        for (const PipeInfo& pipe : source_.program.pipes()) pipes_.push_back({pipe.first});
        end_.assign(source_.program.size(), not_ended);
    }

    // The makespan; what never ended stays at not_ended.
    std::int64_t run() {
        for (std::size_t pipe = 0; pipe < pipes_.size(); ++pipe) start(static_cast<std::uint32_t>(pipe));
        std::int64_t now = 0;
        while (!running_.empty()) {
            now = running_.top().end;
            const std::uint32_t pipe = running_.top().pipe;
            running_.pop();
            complete(pipe, now);
        }
        return now;
    }

    ChunkedVector<std::int64_t>& end() { return end_; }

    // Per pipe, what it never completed first, or none.
    std::vector<std::uint32_t> heads() const {
        std::vector<std::uint32_t> out;
        for (const Queue& pipe : pipes_) out.push_back(pipe.head);
        return out;
    }
    bool stuck() const {
        return std::any_of(pipes_.begin(), pipes_.end(), [](const Queue& pipe) { return pipe.head != none; });
    }

  private:
    struct Queue {
        std::uint32_t head;                  // its next instruction, or none
        std::uint32_t awaited = none;        // what the head waits for
        std::uint32_t next_waiting = none;   // the next in the list it waits in
        std::uint32_t first_waiting = none;  // pipes whose head waits for an instruction of this pipe
        std::uint32_t first_awaited = none;  // the earliest of those instructions
        std::int64_t free = 0;               // when the pipe is free
    };
    struct Running {
        std::int64_t end;
        std::uint32_t pipe;
        bool operator<(const Running& other) const {  // priority_queue keeps the largest on top
            return end != other.end ? end > other.end : pipe > other.pipe;
        }
    };

    // Starts the head of the pipe if it can go, else leaves the pipe with what it waits for.
    void start(std::uint32_t number) {
        Queue& pipe = pipes_[number];
        if (pipe.head == none) return;
        const Record& record = source_.program.record(pipe.head);
        if (record.starved) return;
        std::uint32_t blocked_by = none;  // the latest issued of what has not ended: on its pipe, all others end before
        std::int64_t ready = pipe.free;
        source_.each_dependency(pipe.head, [&](const Dependency& dependency) {
            const std::int64_t end = end_[dependency.producer];
            if (end == not_ended)
                blocked_by = blocked_by == none ? dependency.producer : std::max(blocked_by, dependency.producer);
            else
                ready = std::max(ready, end);
        });
        if (blocked_by != none) {
            pipe.awaited = blocked_by;
            wait_at(pipes_[source_.program.record(blocked_by).pipe], number);
            return;
        }
        const std::int64_t cycles = source_.cycles(pipe.head, record);
        if (cycles > latest_end - ready) too_late(record);
        running_.push({ready + cycles, number});
    }

    [[noreturn]] void too_late(const Record& record) const {
        throw Error(ErrorKind::overflow,
                    base::concat("schedule: the time passes 2^62 cycles at ", source_.program.name(record)));
    }

    void wait_at(Queue& producer, std::uint32_t number) {
        Queue& pipe = pipes_[number];
        pipe.next_waiting = producer.first_waiting;
        producer.first_waiting = number;
        producer.first_awaited = std::min(producer.first_awaited, pipe.awaited);
    }

    void complete(std::uint32_t number, std::int64_t now) {
        Queue& pipe = pipes_[number];
        const std::uint32_t done = pipe.head;
        end_[done] = now;
        source_.completed(done);
        pipe.free = now;
        pipe.head = source_.program.next_on_pipe(done);
        start(number);
        if (pipe.first_awaited != done) return;
        std::uint32_t waiting = std::exchange(pipe.first_waiting, none);
        pipe.first_awaited = none;
        while (waiting != none) {
            const std::uint32_t next = pipes_[waiting].next_waiting;
            if (pipes_[waiting].awaited == done)
                start(waiting);
            else
                wait_at(pipe, waiting);
            waiting = next;
        }
    }

    Source source_;
    std::vector<Queue> pipes_;
    ChunkedVector<std::int64_t> end_;
    std::priority_queue<Running> running_;
};

}  // namespace mskpp
