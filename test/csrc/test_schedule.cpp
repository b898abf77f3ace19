// SPDX-License-Identifier: Apache-2.0
// When each instruction ends, worked out by hand; and what is said when one never does.
#include "fixture.h"

namespace mskpp::test {
namespace {

const std::string hint = "\n  to give a tensor its first value: load it, set_valid(), or is_inited=True";

class Schedule : public testing::Test {
  protected:
    Model model;
    Tensor a = tensor(Memory::UB, {4}), b = tensor(Memory::UB, {4}), c = tensor(Memory::UB, {4});
};

TEST_F(Schedule, of_nothing_takes_no_time) { EXPECT_EQ(model.total(), 0); }

TEST_F(Schedule, of_one_instruction_takes_its_cost) {
    model.own(Pipe::V, 7);
    const Timeline timeline = model.schedule();
    EXPECT_EQ(timeline.start(0), 0);
    EXPECT_EQ(timeline.end(0), 7);
    EXPECT_EQ(timeline.total_cycles(), 7);
}

TEST_F(Schedule, a_pipe_runs_one_at_a_time_in_issue_order) {
    model.own(Pipe::V, 7);
    model.own(Pipe::V, 3);
    EXPECT_EQ(model.ends(), (Ends{7, 10}));
}

TEST_F(Schedule, pipes_run_side_by_side) {
    model.own(Pipe::V, 7);
    model.own(Pipe::MTE2, 3);
    EXPECT_EQ(model.ends(), (Ends{7, 3}));
    EXPECT_EQ(model.total(), 7);
}

TEST_F(Schedule, a_reader_starts_when_its_writer_has_ended) {
    model.own(Pipe::MTE2, 5, {}, {a});
    model.own(Pipe::V, 3, {a}, {b});
    model.own(Pipe::MTE3, 2, {b}, {});
    EXPECT_EQ(model.ends(), (Ends{5, 8, 10}));
}

TEST_F(Schedule, an_instruction_starts_with_the_last_of_what_it_waits_for) {
    model.own(Pipe::MTE2, 5, {}, {a});
    model.own(Pipe::MTE1, 9, {}, {b});
    model.own(Pipe::V, 1, {a, b}, {});
    EXPECT_EQ(model.ends(), (Ends{5, 9, 10}));
}

// The textbook pipeline: load, compute and store of three tiles, 4, 3 and 2 cycles each.
TEST_F(Schedule, three_tiles_overlap) {
    for (int i = 0; i < 3; ++i) {
        const Tensor in = tensor(Memory::UB, {4}), out = tensor(Memory::UB, {4});
        model.own(Pipe::MTE2, 4, {}, {in});
        model.own(Pipe::V, 3, {in}, {out});
        model.own(Pipe::MTE3, 2, {out}, {});
    }
    // loads end at 4 8 12, computations at 7 11 15, stores at 9 13 17
    EXPECT_EQ(model.ends(), (Ends{4, 7, 9, 8, 11, 13, 12, 15, 17}));
    EXPECT_EQ(model.total(), 17);
}

TEST_F(Schedule, a_head_that_waits_holds_what_is_queued_behind_it) {
    model.own(Pipe::MTE2, 10, {}, {a});
    model.own(Pipe::V, 1, {a}, {});
    model.own(Pipe::V, 1);  // free to go, but behind
    EXPECT_EQ(model.ends(), (Ends{10, 11, 12}));
}

TEST_F(Schedule, a_consumer_may_be_written_before_its_producer) {
    model.on("aiv0");
    model.own(Pipe::V, 2, {a}, {});
    model.on("aic0");
    model.own(Pipe::M, 6, {}, {a});
    EXPECT_EQ(model.ends(), (Ends{8, 6}));
}

TEST_F(Schedule, flags_hold_a_pipe) {
    model.own(Pipe::MTE2, 10);                  // 0: ends at 10
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);   // 1: 11
    model.own(Pipe::V, 3);                      // 2: 3
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);  // 3: max(3, 11) + 1 = 12
    model.own(Pipe::V, 1);                      // 4: 13
    EXPECT_EQ(model.ends(), (Ends{10, 11, 3, 12, 13}));
}

TEST_F(Schedule, a_flag_set_long_ago_holds_nothing) {
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);   // 1
    model.own(Pipe::V, 30);                     // 30
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);  // max(30, 1) + 1 = 31
    EXPECT_EQ(model.ends(), (Ends{1, 30, 31}));
}

TEST_F(Schedule, free_instructions_take_no_time_wherever_they_stand) {
    model.own(Pipe::MTE2, 0, {}, {a});
    model.own(Pipe::V, 0, {a}, {b});
    model.own(Pipe::MTE3, 0, {b}, {c});
    model.own(Pipe::MTE2, 0, {c}, {});
    model.own(Pipe::V, 5, {c}, {});
    EXPECT_EQ(model.ends(), (Ends{0, 0, 0, 0, 5}));
    EXPECT_EQ(model.total(), 5);
}

TEST_F(Schedule, ties_change_nothing) {
    for (const Pipe pipe : {Pipe::V, Pipe::MTE2, Pipe::MTE3}) model.own(pipe, 4);
    model.own(Pipe::V, 4, {a}, {b});
    model.own(Pipe::MTE2, 4, {}, {a});
    model.own(Pipe::MTE3, 4, {b}, {});
    EXPECT_EQ(model.ends(), (Ends{4, 4, 4, 12, 8, 16}));
}

TEST_F(Schedule, counts_beyond_32_bits) {
    const std::int64_t huge = std::int64_t{1} << 33;
    model.own(Pipe::MTE2, huge, {}, {a});
    model.own(Pipe::V, huge, {a}, {});
    model.own(Pipe::V, 1);
    EXPECT_EQ(model.ends(), (Ends{huge, 2 * huge, 2 * huge + 1}));
}

TEST_F(Schedule, ends_at_2_to_the_62_at_the_latest) {
    const std::int64_t most = std::int64_t{1} << 62;
    model.own(Pipe::V, most - 1);
    model.own(Pipe::V, 1);
    model.own(Pipe::MTE2, most);
    EXPECT_EQ(model.total(), most);
    Model more;
    more.own(Pipe::V, most);
    more.line(3).own(Pipe::V, 1, {}, {}, "LAST");
    more.program->finish();
    EXPECT_EQ(error(ErrorKind::overflow, [&] { schedule(more.program); }),
              "schedule: the time passes 2^62 cycles at LAST");
    EXPECT_EQ(error(ErrorKind::overflow, [&] { attempt(*more.program); }),
              "schedule: the time passes 2^62 cycles at LAST");
}

TEST_F(Schedule, is_a_pure_function) {
    model.own(Pipe::MTE2, 5, {}, {a});
    model.own(Pipe::V, 3, {a}, {});
    const Timeline first = model.schedule(), second = model.schedule();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(first.end(i), second.end(i));
    EXPECT_EQ(&first.program(), model.program.get());
}

TEST_F(Schedule, a_timeline_keeps_its_program) {
    model.line(3).own(Pipe::V, 3);
    const Timeline timeline = model.schedule();
    model.program.reset();
    EXPECT_EQ(timeline.program().size(), 1u);
    EXPECT_EQ(timeline.start(0), 0);
}

TEST_F(Schedule, a_long_chain_ends_where_it_should) {
    for (int i = 0; i < 20000; ++i) {
        model.own(Pipe::MTE2, 1, {b}, {a});
        model.own(Pipe::V, 1, {a}, {b});
    }
    // The very first load waits for the first b, which waits for it: the chain bites its own tail.
    EXPECT_TRUE(has(model.deadlock(), "schedule: deadlock, 2 pipes stuck"));
    Model open;
    open.program->set_ready(b, true);
    for (int i = 0; i < 20000; ++i) {
        open.own(Pipe::MTE2, 1, {b}, {a});
        open.own(Pipe::V, 1, {a}, {b});
    }
    EXPECT_EQ(open.total(), 40000);
}

// --- deadlocks ---

TEST_F(Schedule, a_tensor_that_nothing_writes_is_told_with_both_lines) {
    model.on("aic0");
    Tensor tile = model.made_on(22, tensor(Memory::L1, {64, 64}));
    model.line(31).load(Tensor(Memory::L0A), tile);
    model.line(32).own(Pipe::MTE1, 1);
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 1 pipe stuck\n"
              "  aic0-PIPE-MTE1  MOV-L1_TO_L0A (kernel.py:31) waits for L1 tensor [64,64] FP16 (kernel.py:22), which "
              "nothing writes" +
                  hint);
}

TEST_F(Schedule, a_deadlock_names_who_would_have_provided_what) {
    model.on("aic0");
    Tensor tile = model.made_on(22, tensor(Memory::L1, {64, 64})),
           left = model.made_on(23, tensor(Memory::L0A, {64, 64}));
    model.line(31).load(left, tile);
    model.line(44).own(Pipe::M, 1, {left}, {}, "USE");
    EXPECT_EQ(
        model.deadlock(),
        "schedule: deadlock, 2 pipes stuck\n"
        "  aic0-PIPE-MTE1  MOV-L1_TO_L0A (kernel.py:31) waits for L1 tensor [64,64] FP16 (kernel.py:22), which nothing "
        "writes\n"
        "  stuck behind that:\n"
        "    aic0-PIPE-M  USE (kernel.py:44) waits for L0A tensor [64,64] FP16 (kernel.py:23), written by "
        "MOV-L1_TO_L0A "
        "(kernel.py:31) on aic0-PIPE-MTE1" +
            hint);
}

TEST_F(Schedule, lines_that_are_not_known_are_left_out) {
    model.own(Pipe::V, 1, {a}, {});
    EXPECT_EQ(
        model.deadlock(),
        "schedule: deadlock, 1 pipe stuck\n  PIPE-V  OWN waits for UB tensor [4] FP16, which nothing writes" + hint);
}

TEST_F(Schedule, crossed_flags_are_a_cycle) {
    model.line(1).own(Pipe::V, 5);
    model.line(2).wait_flag("PIPE-M", "PIPE-V", 0);
    model.line(3).set_flag("PIPE-V", "PIPE-M", 0);
    model.line(4).wait_flag("PIPE-V", "PIPE-M", 0);
    model.line(5).set_flag("PIPE-M", "PIPE-V", 0);
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 2 pipes stuck\n"
              "  cycle: 2 pipes wait for each other\n"
              "    +-> PIPE-V  WAIT_FLAG 0 (kernel.py:2)\n"
              "    |     | flag: raised by SET_FLAG 0 (kernel.py:5),\n"
              "    |     | which comes on PIPE-M behind\n"
              "    |     v\n"
              "    |   PIPE-M  WAIT_FLAG 0 (kernel.py:4)\n"
              "    |     | flag: raised by SET_FLAG 0 (kernel.py:3),\n"
              "    |     | which comes on PIPE-V behind\n"
              "    +-----+\n"
              "  mskpp lint SCRIPT.py explains the flags");
}

TEST_F(Schedule, a_consumer_before_its_producer_on_one_pipe_is_a_cycle_of_one) {
    model.line(8).own(Pipe::V, 1, {a}, {}, "USE");
    model.line(9).own(Pipe::V, 1, {}, {a}, "MAKE");
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 1 pipe stuck\n"
              "  cycle: 1 pipe waits for itself\n"
              "    +-> PIPE-V  USE (kernel.py:8)\n"
              "    |     | data: UB tensor [4] FP16,\n"
              "    |     | written by MAKE (kernel.py:9),\n"
              "    |     | which comes on PIPE-V behind\n"
              "    +-----+");
}

TEST_F(Schedule, a_cycle_is_found_behind_those_that_only_lead_to_it) {
    model.own(Pipe::MTE3, 1, {c}, {}, "OUTSIDE");
    model.own(Pipe::V, 1, {a}, {b}, "ONE");
    model.own(Pipe::M, 1, {b}, {a}, "TWO");
    model.own(Pipe::V, 1, {}, {c}, "THREE");
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 3 pipes stuck\n"
              "  cycle: 2 pipes wait for each other\n"
              "    +-> PIPE-V  ONE\n"
              "    |     | data: UB tensor [4] FP16,\n"
              "    |     | written by\n"
              "    |     v\n"
              "    |   PIPE-M  TWO\n"
              "    |     | data: UB tensor [4] FP16,\n"
              "    |     | written by\n"
              "    +-----+\n"
              "  stuck behind that:\n"
              "    PIPE-MTE3  OUTSIDE waits for UB tensor [4] FP16, written by THREE on PIPE-V, behind ONE");
}

TEST_F(Schedule, each_cycle_is_drawn_and_pipes_that_starve_are_told_first) {
    const auto ring = [&](const char* core, const char* one, const char* other) {
        Tensor x = tensor(Memory::UB, {4}), y = tensor(Memory::UB, {4});
        model.on(core);
        model.own(Pipe::V, 1, {x}, {y}, one);
        model.own(Pipe::M, 1, {y}, {x}, other);
    };
    for (int i = 0; i < 5; ++i) ring(("aiv" + std::to_string(i)).c_str(), "ONE", "TWO");
    model.own(Pipe::MTE1, 1, {a}, {}, "STARVED");
    const std::string message = model.deadlock();
    EXPECT_TRUE(has(message,
                    "11 pipes stuck\n  aiv4-PIPE-MTE1  STARVED waits for UB tensor [4] FP16, which nothing "
                    "writes\n  cycle: 2 pipes"))
        << message;
    EXPECT_TRUE(has(message, "+-> aiv2-PIPE-V  ONE")) << message;
    EXPECT_FALSE(has(message, "+-> aiv3-PIPE-V  ONE")) << message;
    EXPECT_TRUE(has(message, "\n  ... and 2 more cycles\n")) << message;
}

TEST_F(Schedule, a_pipe_in_a_cycle_may_also_wait_for_others) {
    model.own(Pipe::V, 1, {a, c}, {b}, "ONE");  // a: starved; c: written on another pipe that waits for this one
    model.own(Pipe::M, 1, {b}, {c}, "TWO");
    const std::string message = model.deadlock();
    EXPECT_TRUE(has(message, "  PIPE-V  ONE waits for UB tensor [4] FP16, which nothing writes\n")) << message;
    EXPECT_TRUE(has(message, "  cycle: 2 pipes wait for each other\n    +-> PIPE-V  ONE\n")) << message;
    EXPECT_FALSE(has(message, "stuck behind")) << message;
}

TEST_F(Schedule, a_barrier_in_a_cycle_is_named) {
    model.line(1).own(Pipe::V, 1, {a}, {}, "USE");
    model.line(2).barrier("PIPE-ALL");
    model.line(3).own(Pipe::M, 1, {}, {a}, "MAKE");
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 3 pipes stuck\n"
              "  cycle: 3 pipes wait for each other\n"
              "    +-> PIPE-V  USE (kernel.py:1)\n"
              "    |     | data: UB tensor [4] FP16,\n"
              "    |     | written by\n"
              "    |     v\n"
              "    |   PIPE-M  MAKE (kernel.py:3)\n"
              "    |     | barrier: starts after\n"
              "    |     v\n"
              "    |   PIPE-S  PIPE_BARRIER (kernel.py:2)\n"
              "    |     | barrier: starts after\n"
              "    +-----+");
}

TEST_F(Schedule, a_missing_version_is_a_deadlock) {
    LoadOptions options;
    options.expect_value = 3;
    model.load(Tensor(Memory::UB), tensor(Memory::GM, {4}), options);
    EXPECT_EQ(model.deadlock(),
              "schedule: deadlock, 1 pipe stuck\n  PIPE-MTE2  MOV-GM_TO_UB waits for GM tensor [4] FP16, which nothing "
              "writes with set_value=3" +
                  hint);
}

TEST_F(Schedule, many_stuck_pipes_are_counted_and_not_all_listed) {
    for (int i = 0; i < 25; ++i) {
        model.on("aiv" + std::to_string(i));
        model.own(Pipe::V, 1, {a}, {});
    }
    const std::string message = model.deadlock();
    EXPECT_TRUE(has(message, "schedule: deadlock, 25 pipes stuck\n  aiv0-PIPE-V  OWN waits")) << message;
    EXPECT_TRUE(has(message, "\n  aiv19-PIPE-V  OWN")) << message;
    EXPECT_FALSE(has(message, "aiv20")) << message;
    EXPECT_TRUE(has(message, "\n  ... and 5 more")) << message;
}

TEST_F(Schedule, a_long_cycle_is_cut) {
    std::vector<Tensor> ring;
    for (int i = 0; i < 25; ++i) ring.push_back(tensor(Memory::UB, {4}));
    for (std::size_t i = 0; i < 25; ++i) {
        model.on("aiv" + std::to_string(i));
        model.own(Pipe::V, 1, {ring[(i + 1) % 25]}, {ring[i]});
    }
    const std::string message = model.deadlock();
    EXPECT_TRUE(has(message, "\n  cycle: 25 pipes wait for each other\n    +-> aiv0-PIPE-V  OWN\n")) << message;
    EXPECT_TRUE(has(message,
                    "    |   aiv2-PIPE-V  OWN\n"
                    "    |     | data: UB tensor [4] FP16,\n"
                    "    |     | written by\n"
                    "    |     v\n"
                    "    |   ... 19 more pipes\n"
                    "    |     v\n"
                    "    |   aiv22-PIPE-V  OWN\n"))
        << message;
    EXPECT_FALSE(has(message, "stuck behind")) << message;
}

TEST_F(Schedule, an_attempt_tells_how_far_it_got) {
    model.own(Pipe::MTE2, 5, {}, {b});
    model.own(Pipe::V, 3, {b}, {});
    model.own(Pipe::V, 1, {a}, {});
    model.own(Pipe::V, 1);
    model.program->finish();
    const Attempt far = attempt(*model.program);
    EXPECT_EQ(far.end[0], 5);
    EXPECT_EQ(far.end[1], 8);
    EXPECT_LT(far.end[2], 0);
    EXPECT_LT(far.end[3], 0);
    EXPECT_EQ(far.total, 8);
    EXPECT_TRUE(has(far.deadlock, "which nothing writes"));
    Model good;
    good.own(Pipe::V, 2);
    good.program->finish();
    EXPECT_EQ(attempt(*good.program).deadlock, "");
    EXPECT_EQ(attempt(*good.program).total, 2);
}

}  // namespace
}  // namespace mskpp::test
