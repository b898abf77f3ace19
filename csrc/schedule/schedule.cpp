// SPDX-License-Identifier: Apache-2.0
#include "mskpp/schedule.h"

#include <algorithm>
#include <queue>

#include "base/text.h"
#include "mskpp/error.h"
#include "schedule/explain.h"

namespace mskpp {

namespace {

constexpr std::int64_t not_ended = -1;
constexpr std::int64_t latest_end = std::int64_t{1} << 62;

// Discrete events: what completes next is on top of `running_`; a pipe whose head waits is listed at the pipe of the
// instruction it waits for, and looked at again when that one completes.
class Engine {
  public:
    explicit Engine(const Program& program) : program_(program) {
        for (const PipeInfo& pipe : program.pipes()) pipes_.push_back({pipe.first, 0, {}});
        end_.assign(program.size(), not_ended);
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

    std::vector<std::uint32_t> heads() const {
        std::vector<std::uint32_t> out;
        for (const Queue& pipe : pipes_) out.push_back(pipe.head);
        return out;
    }

  private:
    struct Waiting {
        std::uint32_t instruction;
        std::uint32_t pipe;
    };
    struct Queue {
        std::uint32_t head;
        std::int64_t free;             // when the pipe is free
        std::vector<Waiting> waiting;  // pipes whose head waits for an instruction of this pipe
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
        const Record& record = program_.record(pipe.head);
        if (record.starved) return;
        std::uint32_t blocked_by = none;  // the latest issued of what has not ended: on its pipe, all others end before
        std::int64_t ready = pipe.free;
        program_.each_dependency(pipe.head, [&](const Dependency& dependency) {
            const std::int64_t end = end_[dependency.producer];
            if (end == not_ended)
                blocked_by = blocked_by == none ? dependency.producer : std::max(blocked_by, dependency.producer);
            else
                ready = std::max(ready, end);
        });
        if (blocked_by != none) {
            pipes_[program_.record(blocked_by).pipe].waiting.push_back({blocked_by, number});
            return;
        }
        if (record.cycles > latest_end - ready)
            throw Error(ErrorKind::overflow,
                        base::concat("schedule: the time passes 2^62 cycles at ", program_.name(record)));
        running_.push({ready + record.cycles, number});
    }

    void complete(std::uint32_t number, std::int64_t now) {
        Queue& pipe = pipes_[number];
        const std::uint32_t done = pipe.head;
        end_[done] = now;
        pipe.free = now;
        pipe.head = program_.next_on_pipe(done);
        start(number);
        if (pipe.waiting.empty()) return;
        released_.clear();
        const auto waits_for_this = [&](const Waiting& waiting) {
            if (waiting.instruction == done) released_.push_back(waiting.pipe);
            return waiting.instruction == done;
        };
        pipe.waiting.erase(std::remove_if(pipe.waiting.begin(), pipe.waiting.end(), waits_for_this),
                           pipe.waiting.end());
        for (std::size_t i = 0; i < released_.size(); ++i) start(released_[i]);
    }

    const Program& program_;
    std::vector<Queue> pipes_;
    ChunkedVector<std::int64_t> end_;
    std::priority_queue<Running> running_;
    std::vector<std::uint32_t> released_;
};

}  // namespace

Attempt attempt(const Program& program) {
    Engine engine(program);
    Attempt out;
    out.total = engine.run();
    const std::vector<std::uint32_t> heads = engine.heads();
    if (std::any_of(heads.begin(), heads.end(), [](std::uint32_t head) { return head != none; }))
        out.deadlock = explain_deadlock(program, heads, engine.end());
    out.end = std::move(engine.end());
    return out;
}

Timeline schedule(std::shared_ptr<const Program> program) {
    Attempt done = attempt(*program);
    if (!done.deadlock.empty()) throw Error(ErrorKind::deadlock, done.deadlock);
    return Timeline(std::move(program), std::move(done.end), done.total);
}

}  // namespace mskpp
