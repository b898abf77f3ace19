// SPDX-License-Identifier: Apache-2.0
// Who must end before whom in a program, whatever the costs: pipe order, data, barriers and flags.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mskpp/program.h"

namespace mskpp {

// Invariants:
//  1. `order_` has each instruction behind all that it waits for, and none that waits for itself in the end.
//  2. Instructions of a pipe have rising numbers, so that the number says which of two comes first.
class FlagGraph {
  public:
    // Why one instruction waits for another.
    enum class Why : std::uint8_t { pipe, data, barrier, flag };
    struct Edge {
        std::uint32_t reader, producer;
        std::uint32_t tensor;
        Why why;
    };

    explicit FlagGraph(const Program& program);

    // Whether the instruction gets its turn, unless a value is missing: it is not on a cycle and not behind one.
    bool runs(std::uint32_t i) const { return runs_[i] != 0; }
    bool all_run() const { return order_.size() == program_.size(); }

    // Every instruction that i waits for: `visit(Edge)`.
    template <typename Visit>
    void each_edge(std::uint32_t i, Visit visit) const {
        if (before_[i] != none) visit(Edge{i, before_[i], none, Why::pipe});
        each_dependency(i, [&](const Dependency& dependency) {
            visit(Edge{i, dependency.producer, dependency.tensor, why(i, dependency)});
        });
    }

    // One question: does a way lead from the end of `from` to the start of `to`? The flag between the two, if there is
    // one, is no such way. `over_data`: data dependencies are ways.
    struct Question {
        std::uint32_t from, to;
        bool answer = false;
    };
    // Sets the answers. REQUIRES: `to` runs.
    void answer(std::vector<Question>& questions, bool over_data) const;

    // The groups of instructions that wait for themselves over a flag: of each a shortest cycle, from a wait over its
    // set back to that wait.
    std::vector<std::vector<Edge>> flag_cycles() const;

  private:
    template <typename Visit>
    void each_dependency(std::uint32_t i, Visit visit) const {
        const std::size_t end =
            i + 1 < program_.size() ? program_.record(i + 1).first_dependency : program_.dependency_count();
        for (std::size_t d = program_.record(i).first_dependency; d < end; ++d) visit(program_.dependency(d));
        if (late_first_.empty()) return;
        for (std::uint32_t d = late_first_[i]; d < late_.size() && late_[d].reader == i; ++d)
            visit(Dependency{late_[d].producer, late_[d].tensor});
    }
    Why why(std::uint32_t reader, const Dependency& dependency) const;
    void put_in_order();
    std::vector<std::uint32_t> components() const;
    std::vector<Edge> cycle(const Edge& flag, const std::vector<std::uint32_t>& component,
                            std::vector<std::uint32_t>& distance, std::vector<Edge>& way) const;
    template <std::size_t width>
    void answer_columns(std::vector<Question>& questions, const std::vector<std::uint32_t>& by_reader,
                        const std::vector<std::uint32_t>& column, std::uint32_t first, bool over_data) const;

    const Program& program_;
    std::vector<std::uint32_t> before_;      // the instruction in front on its pipe, or none
    std::vector<LateDependency> late_;       // by reader; the program may not have sorted them yet
    std::vector<std::uint32_t> late_first_;  // by instruction, its first in late_; empty where there are none
    std::vector<std::uint32_t> order_;
    std::vector<char> runs_;
};

}  // namespace mskpp
