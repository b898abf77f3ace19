// SPDX-License-Identifier: Apache-2.0
// The lint of flags: what it says of each problem, and random programs against reachability found by brute force.
#include <random>

#include "fixture.h"

namespace mskpp::test {
namespace {

class Lint : public testing::Test {
  protected:
    std::vector<Finding> findings(Problem problem) {
        std::vector<Finding> out;
        for (Finding& finding : lint_flags(*model.program))
            if (finding.problem == problem) out.push_back(std::move(finding));
        return out;
    }
    Finding only(Problem problem) {
        const std::vector<Finding> found = findings(problem);
        EXPECT_EQ(found.size(), 1u);
        return found.empty() ? Finding{} : found[0];
    }

    Model model;
    Tensor a = tensor(Memory::UB, {4}), b = tensor(Memory::UB, {4});
};

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
using Lines = std::vector<std::string>;

TEST_F(Lint, has_nothing_to_say_of_a_program_without_flags) {
    EXPECT_TRUE(lint_flags(*model.program).empty());
    model.own(Pipe::V, 1);
    EXPECT_TRUE(lint_flags(*model.program).empty());
}

TEST_F(Lint, a_flag_that_is_needed_is_no_finding) {
    model.line(1).own(Pipe::MTE2, 5);
    model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(4).own(Pipe::V, 5);
    EXPECT_TRUE(lint_flags(*model.program).empty());
}

TEST_F(Lint, sets_and_waits_without_a_partner_are_errors_with_the_ids_that_might_be_meant) {
    for (int i = 0; i < 3; ++i) model.line(4).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(5).wait_flag("PIPE-MTE2", "PIPE-V", 1);
    model.line(6).wait_flag("PIPE-M", "PIPE-V", 1);
    EXPECT_THROW(model.program->finish(), Error);
    const std::vector<Finding> found = lint_flags(*model.program);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].text, "set_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) is never waited for");
    EXPECT_EQ(found[0].cure,
              "wait_flag(\"PIPE-MTE2\", \"PIPE-V\", 1) (kernel.py:5) has no set_flag: give both the same id");
    EXPECT_EQ(found[0].count, 3);
    EXPECT_EQ(found[0].lines, Lines{"kernel.py:4"});
    EXPECT_EQ(found[0].pairs, (Pairs{{0, none}, {1, none}, {2, none}}));
    EXPECT_EQ(found[1].text, "wait_flag(\"PIPE-MTE2\", \"PIPE-V\", 1) waits for a set_flag that is never issued");
    EXPECT_EQ(found[1].cure,
              "set_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) (kernel.py:4) is never waited for: give both the same id");
    EXPECT_EQ(found[2].cure,
              "issue set_flag(\"PIPE-M\", \"PIPE-V\", 1) behind what PIPE-V waits for, or remove the wait_flag");
    for (const Finding& finding : found) {
        EXPECT_EQ(finding.problem, Problem::unmatched);
        EXPECT_EQ(finding.severity, Severity::error);
    }
}

TEST_F(Lint, a_set_without_a_wait_says_where_to_wait) {
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);
    EXPECT_EQ(only(Problem::unmatched).cure,
              "issue wait_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) where PIPE-V must wait, or remove the set_flag");
}

TEST_F(Lint, crossed_flags_are_told_with_the_pair) {
    model.line(2).wait_flag("PIPE-M", "PIPE-V", 0);
    model.line(3).set_flag("PIPE-V", "PIPE-M", 1);
    model.line(4).wait_flag("PIPE-V", "PIPE-M", 1);
    model.line(5).set_flag("PIPE-M", "PIPE-V", 0);
    const Finding found = only(Problem::crossed);
    EXPECT_EQ(found.text,
              "a certain deadlock: wait_flag(\"PIPE-M\", \"PIPE-V\", 0) (kernel.py:2) waits for set_flag(\"PIPE-M\", "
              "\"PIPE-V\", 0) (kernel.py:5), which comes on PIPE-M behind wait_flag(\"PIPE-V\", \"PIPE-M\", 1) "
              "(kernel.py:4); that waits for set_flag(\"PIPE-V\", \"PIPE-M\", 1) (kernel.py:3), which comes on PIPE-V "
              "behind wait_flag(\"PIPE-M\", \"PIPE-V\", 0) (kernel.py:2)");
    EXPECT_EQ(found.cure, "issue set_flag(\"PIPE-M\", \"PIPE-V\", 0) (kernel.py:5) earlier, or one of the waits later");
    EXPECT_EQ(found.lines, (Lines{"kernel.py:2", "kernel.py:5", "kernel.py:4", "kernel.py:3"}));
    EXPECT_EQ(found.pairs, (Pairs{{3, 0}, {1, 2}}));
    EXPECT_EQ(found.severity, Severity::error);
}

TEST_F(Lint, a_cycle_of_data_alone_is_not_a_matter_of_flags) {
    model.own(Pipe::V, 1, {a}, {b});
    model.own(Pipe::M, 1, {b}, {a});
    EXPECT_TRUE(lint_flags(*model.program).empty());
    EXPECT_TRUE(has(model.deadlock(), "cycle: 2 pipes wait for each other"));
}

TEST_F(Lint, a_cycle_of_a_flag_and_data_is_crossed) {
    model.line(1).wait_flag("PIPE-V", "PIPE-MTE2", 0);
    model.line(2).own(Pipe::MTE2, 1, {}, {a}, "MAKE");
    model.line(3).own(Pipe::V, 1, {a}, {}, "USE");
    model.line(4).set_flag("PIPE-V", "PIPE-MTE2", 0);
    const Finding found = only(Problem::crossed);
    EXPECT_TRUE(has(found.text,
                    "which comes on PIPE-V behind USE (kernel.py:3); that waits for UB tensor [4] FP16, "
                    "written by MAKE (kernel.py:2)"))
        << found.text;
    EXPECT_EQ(found.pairs, (Pairs{{3, 0}}));
}

TEST_F(Lint, a_long_cycle_is_cut) {
    for (int i = 0; i < 9; ++i) {
        model.on("aiv" + std::to_string(i));
        model.wait_flag("aiv" + std::to_string((i + 1) % 9) + "_PIPE-V", "PIPE-V", 0);
        model.set_flag("PIPE-V", "aiv" + std::to_string((i + 8) % 9) + "_PIPE-V", 0);
    }
    const Finding found = only(Problem::crossed);
    EXPECT_TRUE(has(found.text, "; and so on, over 4 more waits, back to the first")) << found.text;
    EXPECT_EQ(found.pairs.size(), 9u);
}

TEST_F(Lint, a_wait_that_another_flag_implies_is_a_warning) {
    for (int i = 0; i < 4; ++i) {
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 1);
        model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 1);
        model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    }
    const Finding found = only(Problem::never_needed);
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_EQ(found.text,
              "wait_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) never delays anything: pipe order and other flags "
              "put its set_flag (kernel.py:1) before it anyway");
    EXPECT_EQ(found.cure, "remove both, with what else is reported of this flag: all they do is take a cycle each");
    EXPECT_EQ(found.lines, (Lines{"kernel.py:4", "kernel.py:1"}));
    EXPECT_EQ(found.count, 4);
    EXPECT_EQ(found.pairs[1], (std::pair<std::uint32_t, std::uint32_t>{4, 7}));
}

TEST_F(Lint, a_wait_that_only_data_implies_is_a_hint_since_hardware_tracks_none) {
    model.line(1).own(Pipe::MTE2, 5, {}, {a});
    model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(3).own(Pipe::MTE2, 5, {}, {b});
    model.line(4).own(Pipe::V, 5, {b}, {});
    model.line(5).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    const Finding found = only(Problem::never_needed);
    EXPECT_EQ(found.severity, Severity::hint);
    EXPECT_TRUE(has(found.text, "never delays anything: data dependencies put its set_flag (kernel.py:2)"));
    EXPECT_TRUE(has(found.cure, "hardware does not track data between pipes")) << found.cure;
}

TEST_F(Lint, a_line_that_is_needed_once_stays) {
    for (int i = 0; i < 2; ++i) {
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
        if (i == 0) {
            model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 1);
            model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 1);
        }
        model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    }
    EXPECT_TRUE(findings(Problem::never_needed).empty());
}

TEST_F(Lint, flags_within_a_pipe_are_a_warning) {
    model.line(1).set_flag("PIPE-V", "PIPE-V", 0);
    model.line(2).wait_flag("PIPE-V", "PIPE-V", 0);
    const std::vector<Finding> found = lint_flags(*model.program);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].problem, Problem::own_pipe);
    EXPECT_EQ(found[0].severity, Severity::warning);
    EXPECT_EQ(found[0].text,
              "set_flag(\"PIPE-V\", \"PIPE-V\", 0) and its wait_flag are on one pipe, which keeps its "
              "order anyway");
    EXPECT_EQ(found[0].cure, "remove both; what the hardware needs within a pipe is pipe_barrier");
}

TEST_F(Lint, a_second_set_that_nothing_holds_back_is_a_hint) {
    for (int i = 0; i < 3; ++i) {
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(2).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    }
    const Finding found = only(Problem::set_twice);
    EXPECT_EQ(found.severity, Severity::hint);
    EXPECT_EQ(found.count, 2);
    EXPECT_EQ(found.pairs, (Pairs{{2, 1}, {4, 3}}));
    EXPECT_EQ(found.text,
              "set_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) may come before the wait_flag (kernel.py:2) for the "
              "set before it: nothing holds PIPE-MTE2 back");
    EXPECT_TRUE(has(found.cure, "let PIPE-MTE2 wait for a flag that PIPE-V sets behind the wait")) << found.cure;
}

TEST_F(Lint, between_cores_fifteen_sets_may_be_pending) {
    const auto pair = [&] {
        model.line(1).set_flag("aic0_PIPE-FIX", "aiv0_PIPE-V", 0);
        model.line(2).wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-V", 0);
    };
    for (int i = 0; i < 15; ++i) pair();
    EXPECT_TRUE(lint_flags(*model.program).empty());
    pair();
    const Finding found = only(Problem::set_twice);
    EXPECT_EQ(found.pairs, (Pairs{{30, 1}}));
    EXPECT_EQ(found.text,
              "set_flag(\"aic0_PIPE-FIX\", \"aiv0_PIPE-V\", 0) may come before the wait_flag (kernel.py:2) "
              "for the set 15 before it: nothing holds aic0-PIPE-FIX back");
    EXPECT_TRUE(has(found.cure, "the model counts all sets, hardware up to 15: let aic0-PIPE-FIX wait")) << found.cure;
}

TEST_F(Lint, a_flag_back_makes_the_next_set_safe) {
    for (int i = 0; i < 3; ++i) {
        if (i > 0) model.line(1).wait_flag("PIPE-V", "PIPE-MTE2", 0);
        model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 0);
        if (i < 2) model.line(4).set_flag("PIPE-V", "PIPE-MTE2", 0);
    }
    EXPECT_TRUE(lint_flags(*model.program).empty());
}

TEST_F(Lint, ids_that_hardware_does_not_have_are_a_hint_for_each_pair_of_pipes) {
    for (int id = 0; id < 20; ++id) {
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", id);
        model.line(2).wait_flag("PIPE-MTE2", "PIPE-V", id);
        model.line(3).set_flag("aic0_PIPE-FIX", "aiv0_PIPE-V", id);
        model.line(4).wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-V", id);
    }
    const std::vector<Finding> found = findings(Problem::id);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].text,
              "ids 8, 9, 10, 11, 12, 13, 14, 15 and 4 more from PIPE-MTE2 to PIPE-V: the hardware has 0 to 7");
    EXPECT_EQ(found[1].text, "ids 16, 17, 18, 19 from aic0-PIPE-FIX to aiv0-PIPE-V: the hardware has 0 to 15");
    EXPECT_EQ(found[0].cure, "use ids again: the k-th wait takes the k-th set of an id");
}

TEST_F(Lint, a_wait_of_all_load_slots_is_needless_when_both_are) {
    Model registers("Ascend950PR_9589");
    const auto count = [&] {
        int found = 0;
        for (const Finding& finding : lint_flags(*registers.program)) found += finding.problem == Problem::never_needed;
        return found;
    };
    registers.line(1).set_flag("PIPE-MTE2", "PIPE-VEC", 0);
    registers.line(2).set_flag("PIPE-MTE2", "RVECLD0", 1);
    registers.line(3).wait_flag("PIPE-MTE2", "RVECLD0", 1);
    registers.line(4).wait_flag("PIPE-MTE2", "PIPE-VEC", 0);
    EXPECT_EQ(count(), 0);  // the other slot waits in earnest
    registers.line(5).set_flag("PIPE-MTE2", "PIPE-VEC", 2);
    registers.line(6).set_flag("PIPE-MTE2", "PIPE-VEC", 3);
    registers.line(7).wait_flag("PIPE-MTE2", "PIPE-VEC", 3);
    registers.line(8).wait_flag("PIPE-MTE2", "PIPE-VEC", 2);
    EXPECT_EQ(count(), 1);
}

TEST_F(Lint, the_same_lines_on_many_cores_are_one_finding) {
    for (int core = 0; core < 20; ++core) {
        model.on("aiv" + std::to_string(core));
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 9);
        model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 9);
        model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(5).wait_flag("PIPE-V", "PIPE-MTE3", 0);
    }
    const std::vector<Finding> found = lint_flags(*model.program);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].count, 20);
    EXPECT_EQ(found[0].problem, Problem::unmatched);
    EXPECT_EQ(found[1].count, 20);
    EXPECT_EQ(found[1].problem, Problem::never_needed);
    EXPECT_EQ(found[2].problem, Problem::id);
    model.on("aic0");  // where it is needed, so that the line stays
    model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    EXPECT_TRUE(findings(Problem::never_needed).empty());
}

TEST_F(Lint, a_read_that_no_flag_puts_behind_the_write_is_a_warning) {
    for (int i = 0; i < 3; ++i) {
        model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);  // in front of what it is for
        model.line(2).own(Pipe::MTE2, 5, {}, {a}, "MAKE");
        model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(4).own(Pipe::V, 5, {a}, {b}, "USE");
        model.line(5).own(Pipe::MTE3, 5, {b}, {}, "TAKE");
    }
    const std::vector<Finding> found = findings(Problem::unordered);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].severity, Severity::warning);
    EXPECT_EQ(found[0].count, 3);
    EXPECT_EQ(found[0].lines, (Lines{"kernel.py:2", "kernel.py:4"}));
    EXPECT_EQ(found[0].pairs[0], (std::pair<std::uint32_t, std::uint32_t>{1, 3}));
    EXPECT_EQ(found[0].text,
              "USE (kernel.py:4) on PIPE-V reads UB tensor [4] FP16, and no flag or barrier puts that behind MAKE "
              "(kernel.py:2) on PIPE-MTE2, which writes it");
    EXPECT_EQ(found[0].cure,
              "move set_flag(\"PIPE-MTE2\", \"PIPE-V\", id) behind the write and wait_flag(\"PIPE-MTE2\", "
              "\"PIPE-V\", id) before the read");
    EXPECT_EQ(found[1].cure,
              "set_flag(\"PIPE-V\", \"PIPE-MTE3\", id) behind the write and wait_flag(\"PIPE-V\", \"PIPE-MTE3\", "
              "id) before the read");
}

TEST_F(Lint, a_wait_behind_the_read_comes_too_late_and_one_before_it_is_enough) {
    model.line(1).own(Pipe::MTE2, 5, {}, {a});
    model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(3).own(Pipe::V, 5, {a}, {});
    model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(5).own(Pipe::V, 5, {a}, {});
    EXPECT_EQ(only(Problem::unordered).pairs, (Pairs{{0, 2}}));
}

TEST_F(Lint, a_barrier_orders_reads_and_so_does_a_chain_of_flags) {
    model.own(Pipe::MTE2, 5, {}, {a});
    model.barrier("PIPE-ALL");
    model.own(Pipe::V, 5, {a}, {b});
    model.set_flag("PIPE-V", "PIPE-S", 0);
    model.wait_flag("PIPE-V", "PIPE-S", 0);
    model.set_flag("PIPE-S", "PIPE-MTE3", 0);
    model.wait_flag("PIPE-S", "PIPE-MTE3", 0);
    model.own(Pipe::MTE3, 5, {b}, {});
    EXPECT_TRUE(findings(Problem::unordered).empty());
}

TEST_F(Lint, without_flags_there_is_one_hint_and_global_memory_is_none) {
    const Tensor gm = tensor(Memory::GM, {4});
    model.line(1).own(Pipe::MTE3, 5, {}, {gm});
    model.line(2).own(Pipe::MTE2, 5, {gm}, {a});
    EXPECT_TRUE(lint_flags(*model.program).empty());
    model.line(3).own(Pipe::V, 5, {a}, {b});
    model.line(4).own(Pipe::MTE3, 5, {b}, {});
    Finding found = only(Problem::unordered);
    EXPECT_EQ(found.severity, Severity::hint);
    EXPECT_EQ(found.count, 2);
    EXPECT_EQ(found.lines, (Lines{"kernel.py:2", "kernel.py:3"}));
    EXPECT_TRUE(has(found.text, "no flags at all: the model orders reads behind writes by itself, hardware does not"))
        << found.text;
    EXPECT_TRUE(has(found.cure, "nothing to do for a model that leaves flags out")) << found.cure;
    model.line(5).set_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 0);
    model.line(6).wait_flag("aic0_PIPE-FIX", "aiv0_PIPE-MTE2", 0);
    found = only(Problem::unordered);
    EXPECT_EQ(found.severity, Severity::hint);
    EXPECT_TRUE(has(found.text, "no flags within a core: ")) << found.text;
}

TEST_F(Lint, swapped_ends_are_named) {
    model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(2).wait_flag("PIPE-V", "PIPE-MTE2", 0);
    const std::vector<Finding> found = findings(Problem::unmatched);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].cure,
              "wait_flag(\"PIPE-V\", \"PIPE-MTE2\", 0) (kernel.py:2) has no set_flag: swap source and target of one of "
              "the two");
    EXPECT_EQ(found[1].cure,
              "set_flag(\"PIPE-MTE2\", \"PIPE-V\", 0) (kernel.py:1) is never waited for: swap source and target of one "
              "of the two");
}

TEST_F(Lint, a_loop_that_waits_for_the_flag_of_its_end_is_told_to_set_it_once_before) {
    for (int i = 0; i < 2; ++i) {
        model.line(1).wait_flag("PIPE-V", "PIPE-MTE2", 0);
        model.line(2).own(Pipe::MTE2, 1, {}, {a});
        model.line(3).own(Pipe::V, 1, {a}, {});
        model.line(4).set_flag("PIPE-V", "PIPE-MTE2", 0);
    }
    const Finding found = findings(Problem::crossed).at(0);
    EXPECT_TRUE(has(found.cure,
                    "; or set_flag(\"PIPE-V\", \"PIPE-MTE2\", 0) once before the loop, whose first pass waits for what "
                    "its end sets"))
        << found.cure;
}

TEST_F(Lint, names_are_as_documented) {
    EXPECT_EQ(name(Problem::unordered), "unordered");
    EXPECT_EQ(name(Problem::never_needed), "never-needed");
    EXPECT_EQ(name(Problem::id), "id");
    EXPECT_EQ(name(Severity::hint), "hint");
}

TEST_F(Lint, a_million_instructions_take_seconds) {
    for (int core = 0; core < 20; ++core) {
        model.on("aiv" + std::to_string(core));
        for (int i = 0; i < 10000; ++i) {
            const int id = i % 2;
            if (i > 1) model.line(1).wait_flag("PIPE-V", "PIPE-MTE2", id);
            model.line(2).own(Pipe::MTE2, 9, {}, {a});
            model.line(3).set_flag("PIPE-MTE2", "PIPE-V", id);
            model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", id);
            model.line(5).own(Pipe::V, 9, {a}, {});
            if (i < 9998) model.line(6).set_flag("PIPE-V", "PIPE-MTE2", id);
        }
    }
    EXPECT_EQ(model.program->size(), 20u * (60000 - 4));
    EXPECT_TRUE(lint_flags(*model.program).empty());
}

// --- random programs ---

struct Op {
    enum class Kind { own, set, wait, barrier } kind = Kind::own;
    std::string core;
    Pipe pipe = Pipe::V;
    std::int64_t cycles = 0;
    std::vector<std::size_t> reads, writes;
    std::string source, target;
    int id = 0;
    bool all = false;
};
using Recipe = std::vector<Op>;

std::string end_name(const std::string& core, Pipe pipe) { return core + "_" + std::string(name(pipe)); }

constexpr Pipe some_pipes[] = {Pipe::MTE2, Pipe::V, Pipe::M};

Recipe recipe(std::mt19937& random) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const auto core = [&] { return std::string(below(3) == 0 ? "aic0" : "aiv0"); };
    const bool wild = below(3) == 0;
    Recipe out;
    for (std::size_t i = below(10); i-- > 0;) {
        Op op{Op::Kind::own, core(), some_pipes[below(3)], static_cast<std::int64_t>(below(20)), {}, {}, "", "", 0,
              false};
        if (below(2) == 0) op.reads.push_back(below(wild ? 4 : 3));
        if (below(2) == 0) op.writes.push_back(below(4));
        if (below(10) == 0) op = {Op::Kind::barrier, core(), some_pipes[below(3)], 0, {}, {}, "", "", 0, below(2) == 0};
        out.push_back(op);
    }
    for (std::size_t i = below(12); i-- > 0;) {
        Op op{Op::Kind::set, "aiv0", Pipe::V, 0, {}, {}, "", "", static_cast<int>(below(2)), false};
        op.source = end_name(core(), some_pipes[below(3)]);
        op.target = end_name(core(), some_pipes[below(3)]);
        std::size_t first = below(out.size() + 1), second = below(out.size() + 1);
        if (first > second && (!wild || below(4) != 0)) std::swap(first, second);
        Op wait = op;
        wait.kind = Op::Kind::wait;
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(first), op);
        if (second >= first) ++second;
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(second), wait);
    }
    return out;
}

// Each operation is one instruction, on a line of its own. `idle`: flags in whose place something takes their cycle.
std::unique_ptr<Model> built(const Recipe& ops, const Set& idle, std::size_t one_line = 0) {
    auto model = std::make_unique<Model>();
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) tensors.push_back(tensor(Memory::UB, {4}, DType::FP16, i < 3));
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
        const Op& op = ops[i];
        model->on(op.core);
        model->line(one_line != 0 ? static_cast<int>(i % one_line) + 1 : static_cast<int>(i) + 1);
        std::vector<Tensor> reads, writes;
        for (const std::size_t t : op.reads) reads.push_back(tensors[t]);
        for (const std::size_t t : op.writes) writes.push_back(tensors[t]);
        if (idle.count(i) != 0) {
            const std::string& end = op.kind == Op::Kind::set ? op.source : op.target;
            model->on(end.substr(0, 4));
            model->own(parse_pipe(end.substr(5), "test"), 1);
        } else if (op.kind == Op::Kind::own) {
            model->own(op.pipe, op.cycles, reads, writes);
        } else if (op.kind == Op::Kind::set) {
            model->set_flag(op.source, op.target, op.id);
        } else if (op.kind == Op::Kind::wait) {
            model->wait_flag(op.source, op.target, op.id);
        } else {
            model->barrier(op.all ? "PIPE-ALL" : std::string(name(op.pipe)));
        }
    }
    model->program->finish();
    return model;
}

// Whom each instruction waits for in the end, by brute force.
class Reach {
  public:
    Reach(const Program& program, bool over_data, std::pair<std::uint32_t, std::uint32_t> without = {none, none})
        : n_(program.size()), reached_(n_, std::vector<char>(n_, 0)) {
        for (std::uint32_t i = 0; i < n_; ++i) {
            if (program.next_on_pipe(i) != none) reached_[program.next_on_pipe(i)][i] = 1;
            program.each_dependency(i, [&](const Dependency& dependency) {
                if (!over_data && dependency.tensor != none) return;
                if (without == std::pair{dependency.producer, i}) return;
                reached_[i][dependency.producer] = 1;
            });
        }
        for (std::size_t k = 0; k < n_; ++k)
            for (std::size_t i = 0; i < n_; ++i)
                for (std::size_t j = 0; reached_[i][k] != 0 && j < n_; ++j) reached_[i][j] |= reached_[k][j];
    }
    bool waits(std::uint32_t i, std::uint32_t j) const { return reached_[i][j] != 0; }
    bool runs(std::uint32_t i) const {
        for (std::uint32_t j = 0; j < n_; ++j)
            if ((i == j || waits(i, j)) && waits(j, j)) return false;
        return true;
    }

  private:
    std::size_t n_;
    std::vector<std::vector<char>> reached_;
};

using PairSet = std::set<std::pair<std::uint32_t, std::uint32_t>>;

PairSet pairs_of(const std::vector<Finding>& findings, Problem problem, int severity = -1) {
    PairSet out;
    for (const Finding& finding : findings)
        if (finding.problem == problem && (severity < 0 || static_cast<int>(finding.severity) == severity))
            out.insert(finding.pairs.begin(), finding.pairs.end());
    return out;
}

// Set and wait of each pair, in the order of the sets.
std::vector<std::pair<std::uint32_t, std::uint32_t>> matched(const Program& program) {
    PairSet out;
    for (std::uint32_t i = 0; i < program.size(); ++i)
        program.each_dependency(i, [&](const Dependency& dependency) {
            if (program.record(i).kind == Kind::wait_flag && program.record(dependency.producer).kind == Kind::set_flag)
                out.emplace(dependency.producer, i);
        });
    return {out.begin(), out.end()};
}

TEST(LintOfRandomPrograms, agrees_with_brute_force_and_its_needless_flags_change_nothing) {
    std::mt19937 random(5);
    int deadlocks = 0, needless = 0, by_data = 0, twice = 0, raced = 0;
    for (int run = 0; run < 3000; ++run) {
        const Recipe ops = recipe(random);
        const auto model = built(ops, {});
        const Program& program = *model->program;
        const std::vector<Finding> found = lint_flags(program);
        const Reach all(program, true), order(program, false);
        bool crossed = false, starved = !program.starved().empty(), cyclic = false;
        PairSet warnings, hints, early, races;
        for (std::uint32_t i = 0; i < program.size(); ++i)
            program.each_dependency(i, [&](const Dependency& dependency) {
                if (dependency.tensor != none && program.record(i).pipe != program.record(dependency.producer).pipe &&
                    all.runs(i) && !order.waits(i, dependency.producer))
                    races.emplace(dependency.producer, i);
            });
        ASSERT_EQ(pairs_of(found, Problem::unordered), races);
        raced += !races.empty();
        for (std::uint32_t i = 0; i < program.size(); ++i) cyclic = cyclic || all.waits(i, i);
        std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> latest;
        for (const auto& [set, wait] : matched(program)) {
            crossed = crossed || all.waits(set, wait);
            const Op& op = ops[set];
            const auto [before, is_first] =
                latest.try_emplace(op.source + op.target + std::to_string(op.id), set, wait);
            if (!is_first && op.source.substr(0, 4) == op.target.substr(0, 4) && all.runs(set) &&
                !order.waits(set, before->second.second))
                early.emplace(set, before->second.second);
            before->second = {set, wait};
            if (op.source == op.target || !all.runs(wait)) continue;
            if (Reach(program, false, {set, wait}).waits(wait, set))
                warnings.emplace(set, wait);
            else if (Reach(program, true, {set, wait}).waits(wait, set))
                hints.emplace(set, wait);
        }
        ASSERT_EQ(!pairs_of(found, Problem::crossed).empty(), crossed);
        const Attempt before = attempt(program);
        ASSERT_EQ(!before.deadlock.empty(), cyclic || starved);
        ASSERT_EQ(pairs_of(found, Problem::never_needed, static_cast<int>(Severity::warning)), warnings);
        ASSERT_EQ(pairs_of(found, Problem::never_needed, static_cast<int>(Severity::hint)), hints);
        ASSERT_EQ(pairs_of(found, Problem::set_twice), early);
        Set idle;
        for (const auto& [set, wait] : pairs_of(found, Problem::never_needed)) idle.insert({set, wait});
        const auto without = built(ops, idle);
        const Attempt after = attempt(*without->program);
        ASSERT_EQ(after.deadlock.empty(), before.deadlock.empty());
        for (std::size_t i = 0; i < program.size(); ++i) ASSERT_EQ(after.end[i], before.end[i]);
        deadlocks += crossed;
        needless += !warnings.empty();
        by_data += !hints.empty();
        twice += !early.empty();
    }
    EXPECT_GT(deadlocks, 100);
    EXPECT_GT(needless, 200);
    EXPECT_GT(by_data, 30);
    EXPECT_GT(twice, 200);
    EXPECT_GT(raced, 200);
}

TEST(LintOfRandomPrograms, of_few_lines_takes_out_whole_lines_only) {
    std::mt19937 random(6);
    int needless = 0;
    for (int run = 0; run < 1000; ++run) {
        const Recipe ops = recipe(random);
        const auto model = built(ops, {}, 6);
        const PairSet found = pairs_of(lint_flags(*model->program), Problem::never_needed);
        const auto single = built(ops, {});
        const PairSet each = pairs_of(lint_flags(*single->program), Problem::never_needed);
        for (const auto& pair : found) ASSERT_TRUE(each.count(pair) != 0);
        const auto place = [&](std::uint32_t i) {
            const std::string &source = ops[i].source, &target = ops[i].target;
            return std::tuple(model->program->record(i).line, source.substr(5) + target.substr(5),
                              source.substr(0, 4) == target.substr(0, 4));
        };
        std::set<std::tuple<std::uint32_t, std::string, bool>> taken;
        for (const auto& [set, wait] : found) taken.insert({place(set), place(wait)});
        for (const auto& [set, wait] : matched(*model->program))
            ASSERT_EQ(
                found.count({set, wait}) != 0,
                ops[set].source != ops[set].target && (taken.count(place(set)) != 0 || taken.count(place(wait)) != 0));
        needless += !found.empty();
    }
    EXPECT_GT(needless, 30);
}

}  // namespace
}  // namespace mskpp::test
