// SPDX-License-Identifier: Apache-2.0
// Ledger, critical path, slack and what-if of small programs, worked out by hand.
#include "base/text.h"
#include "fixture.h"

namespace mskpp::test {
namespace {

class Analysis : public testing::Test {
  protected:
    std::vector<std::int64_t> slacks() {
        std::vector<std::int64_t> out(model.program->size());
        slack(model.schedule(), out);
        return out;
    }
    // "PIPE-V 1 2 3 4 5": busy, data, flag, barrier, end.
    std::vector<std::string> pipes() {
        std::vector<std::string> out;
        for (const PipeLedger& row : ledger(model.schedule()).pipes) {
            out.push_back(
                base::concat(row.pipe, " ", row.busy, " ", row.data, " ", row.flag, " ", row.barrier, " ", row.end));
        }
        return out;
    }
    // "PIPE-V data 3 x1 UB tensor [4] FP16 < LOAD PIPE-MTE2 kernel.py:3 | USE kernel.py:4"
    std::vector<std::string> stalls() {
        std::vector<std::string> out;
        for (const Stall& row : ledger(model.schedule()).stalls)
            out.push_back(base::concat(row.pipe, " ", name(row.cause), " ", row.cycles, " x", row.count, " ",
                                       row.tensor, " < ", row.by, " ", row.by_pipe, " ", row.by_line, " | ",
                                       row.waiting, " ", row.line));
        return out;
    }
    // "0 start", "2 data"
    std::vector<std::string> path() {
        const CriticalPath found = critical_path(model.schedule());
        std::int64_t sum = 0;
        for (const Part& part : found.parts) sum += part.cycles;
        EXPECT_EQ(sum, found.total_cycles);
        std::vector<std::string> out;
        for (const mskpp::Step& step : found.steps) out.push_back(base::concat(step.instruction, " ", name(step.why)));
        return out;
    }
    // "pipe PIPE-V 2x": cycles gained.
    std::map<std::string, std::int64_t> gains() {
        std::map<std::string, std::int64_t> out;
        scheduled = 0;
        const Timeline timeline = model.schedule();
        for (const Gain& gain : what_if(timeline, [this] { ++scheduled; })) {
            EXPECT_EQ(gain.gain_cycles, timeline.total_cycles() - gain.total_cycles);
            out[gain.kind + " " + gain.subject + " " + gain.change] = gain.gain_cycles;
        }
        return out;
    }

    Model model;
    int scheduled = 0;
    Tensor a = tensor(Memory::UB, {4}), b = tensor(Memory::UB, {4}), c = tensor(Memory::UB, {4});
};

using Texts = std::vector<std::string>;
using Gains = std::map<std::string, std::int64_t>;

// --- the ledger ---

TEST_F(Analysis, of_nothing_is_empty) {
    EXPECT_EQ(pipes(), Texts{});
    EXPECT_EQ(stalls(), Texts{});
    EXPECT_EQ(path(), Texts{});
    EXPECT_EQ(slacks(), Ends{});
    EXPECT_EQ(gains(), Gains{});
    EXPECT_EQ(scheduled, 0);
}

TEST_F(Analysis, idle_cycles_are_charged_to_what_ended_last) {
    model.line(3).own(Pipe::MTE2, 5, {}, {a}, "LOAD");
    model.line(4).own(Pipe::MTE1, 9, {}, {b}, "OTHER");
    model.line(5).own(Pipe::V, 2, {a, b}, {c}, "USE");
    EXPECT_EQ(pipes(), (Texts{"PIPE-MTE2 5 0 0 0 6", "PIPE-MTE1 9 0 0 0 2", "PIPE-V 2 9 0 0 0"}));
    EXPECT_EQ(stalls(), (Texts{"PIPE-V data 9 x1 UB tensor [4] FP16 < OTHER PIPE-MTE1 kernel.py:4 | USE kernel.py:5",
                               "PIPE-MTE2 end 6 x1  <    |  ", "PIPE-MTE1 end 2 x1  <    |  "}));
}

TEST_F(Analysis, tensors_made_on_one_line_are_one_row_of_the_ledger) {
    for (int tile = 0; tile < 3; ++tile) {
        const Tensor fresh = model.made_on(7, tensor(Memory::UB, {4}));
        model.line(8).own(Pipe::MTE2, 5, {}, {fresh}, "LOAD");
        model.line(9).own(Pipe::V, 1, {fresh}, {}, "USE");
    }
    EXPECT_EQ(
        stalls(),
        (Texts{"PIPE-V data 13 x3 UB tensor [4] FP16 (kernel.py:7) < LOAD PIPE-MTE2 kernel.py:8 | USE kernel.py:9",
               "PIPE-MTE2 end 1 x1  <    |  "}));
}

TEST_F(Analysis, tensors_of_other_shapes_or_memories_are_other_rows) {
    for (const Tensor& fresh : {tensor(Memory::UB, {4}), tensor(Memory::UB, {4, 1}), tensor(Memory::L1, {4}),
                                tensor(Memory::UB, {4}, DType::FP32)}) {
        model.own(Pipe::MTE2, 5, {}, {fresh});
        model.own(Pipe::V, 1, {fresh}, {});
    }
    EXPECT_EQ(ledger(model.schedule()).stalls.size(), 5u);
}

// 300 shapes push each other out of the short list of known ones, so that one shape gets many numbers.
TEST_F(Analysis, a_shape_seen_again_is_the_same_row) {
    for (int round = 0; round < 3; ++round)
        for (int extent = 1; extent <= 300; ++extent) {
            const Tensor fresh = tensor(Memory::UB, {extent});
            model.own(Pipe::MTE2, 5, {}, {fresh});
            model.own(Pipe::V, 1, {fresh}, {});
        }
    const Ledger found = ledger(model.schedule());
    ASSERT_EQ(found.stalls.size(), 301u);
    for (const Stall& stall : found.stalls) EXPECT_EQ(stall.count, stall.cause == Cause::end ? 1 : 3);
}

TEST_F(Analysis, of_what_ends_together_data_goes_before_flags_before_barriers) {
    model.own(Pipe::MTE2, 4, {}, {a});
    model.set_flag("PIPE-MTE1", "PIPE-V", 0);
    model.own(Pipe::MTE1, 3, {}, {b});
    model.barrier("PIPE-ALL");
    model.wait_flag("PIPE-MTE1", "PIPE-V", 0);  // its set ended at 1, the barrier at 4
    EXPECT_EQ(pipes()[2], "PIPE-V 1 0 0 4 0");
    model = Model();
    model.own(Pipe::MTE1, 3);
    model.set_flag("PIPE-MTE1", "PIPE-V", 0);  // ends at 4
    model.barrier("PIPE-ALL");                 // as the barrier
    model.wait_flag("PIPE-MTE1", "PIPE-V", 0);
    EXPECT_EQ(pipes(), (Texts{"PIPE-MTE1 4 0 0 0 1", "PIPE-V 1 0 4 0 0", "PIPE-S 0 0 0 4 1"}));
    model = Model();
    model.own(Pipe::MTE1, 4, {}, {a});
    model.barrier("PIPE-ALL");
    model.own(Pipe::V, 1, {a}, {});  // the value is there at 4, as the barrier
    EXPECT_EQ(pipes()[2], "PIPE-V 1 4 0 0 0");
}

TEST_F(Analysis, of_what_ends_together_the_one_issued_last_is_named) {
    model.line(1).own(Pipe::MTE2, 4, {}, {a}, "FIRST");
    model.line(2).own(Pipe::MTE1, 4, {}, {b}, "SECOND");
    model.line(3).own(Pipe::V, 1, {b, a}, {}, "USE");
    EXPECT_EQ(stalls()[0], "PIPE-V data 4 x1 UB tensor [4] FP16 < SECOND PIPE-MTE1 kernel.py:2 | USE kernel.py:3");
}

TEST_F(Analysis, a_barrier_of_all_pipes_waits_and_is_waited_for) {
    model.line(1).own(Pipe::MTE2, 7, {}, {}, "LOAD");
    model.line(2).barrier("PIPE-ALL");
    model.line(3).own(Pipe::V, 2, {}, {}, "USE");
    model.line(4).barrier("PIPE-V");  // waits for its own pipe alone
    EXPECT_EQ(pipes(), (Texts{"PIPE-MTE2 7 0 0 0 2", "PIPE-S 0 0 0 7 2", "PIPE-V 2 0 0 7 0"}));
    EXPECT_EQ(stalls()[0], "PIPE-S barrier 7 x1  < LOAD PIPE-MTE2 kernel.py:1 | PIPE_BARRIER kernel.py:2");
    EXPECT_EQ(stalls()[1], "PIPE-V barrier 7 x1  < PIPE_BARRIER PIPE-S kernel.py:2 | USE kernel.py:3");
    EXPECT_EQ(path(), (Texts{"0 start", "1 barrier", "2 barrier", "3 pipe"}));
}

TEST_F(Analysis, cores_have_their_own_pipes) {
    model.on("aic0");
    model.own(Pipe::FIX, 6, {}, {a});
    model.on("aiv0");
    model.own(Pipe::MTE2, 3, {a}, {});
    EXPECT_EQ(pipes(), (Texts{"aic0-PIPE-FIX 6 0 0 0 3", "aiv0-PIPE-MTE2 3 6 0 0 0"}));
}

TEST_F(Analysis, a_flag_is_told_with_the_work_beside_it) {
    model.on("aic0");
    model.line(1).own(Pipe::MTE2, 5, {}, {a}, "LOAD");
    model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 7);
    model.line(3).set_flag("PIPE-MTE2", "PIPE-MTE3", 1);
    model.line(4).wait_flag("PIPE-MTE2", "PIPE-V", 7);
    model.line(5).wait_flag("PIPE-MTE2", "PIPE-MTE3", 1);
    model.line(6).barrier("PIPE-V");
    model.line(7).own(Pipe::V, 1, {}, {}, "USE");
    EXPECT_EQ(stalls()[0],
              "aic0-PIPE-MTE3 flag 7 x1 flag 1 of aic0-PIPE-MTE2 to aic0-PIPE-MTE3 < SET_FLAG behind LOAD "
              "aic0-PIPE-MTE2 kernel.py:1 | WAIT_FLAG kernel.py:5");
    EXPECT_EQ(stalls()[1],
              "aic0-PIPE-V flag 6 x1 flag 7 of aic0-PIPE-MTE2 to aic0-PIPE-V < SET_FLAG behind LOAD "
              "aic0-PIPE-MTE2 kernel.py:1 | WAIT_FLAG before USE kernel.py:4");
}

TEST_F(Analysis, a_flag_without_work_beside_it) {
    model.line(1).set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.line(2).wait_flag("PIPE-MTE2", "PIPE-V", 0);
    EXPECT_EQ(stalls()[0],
              "PIPE-V flag 1 x1 flag 0 of PIPE-MTE2 to PIPE-V < SET_FLAG PIPE-MTE2 kernel.py:1 | WAIT_FLAG "
              "kernel.py:2");
}

TEST_F(Analysis, flags_with_other_work_beside_them_are_other_rows) {
    for (const char* name : {"FIRST", "SECOND", "FIRST"}) {
        model.line(1).own(Pipe::MTE2, 5, {}, {}, name);
        model.line(2).set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(3).wait_flag("PIPE-MTE2", "PIPE-V", 0);
        model.line(4).own(Pipe::V, 1, {}, {}, "USE");
    }
    // A round is 6 cycles of MTE2; of the second and third, the wait and USE take 2 of V.
    const std::string flag = "flag 0 of PIPE-MTE2 to PIPE-V < SET_FLAG behind ";
    const std::string rest = " PIPE-MTE2 kernel.py:1 | WAIT_FLAG before USE kernel.py:3";
    EXPECT_EQ(stalls(), (Texts{"PIPE-V flag 10 x2 " + flag + "FIRST" + rest,
                               "PIPE-V flag 4 x1 " + flag + "SECOND" + rest, "PIPE-MTE2 end 2 x1  <    |  "}));
}

// --- the critical path ---

TEST_F(Analysis, the_path_has_no_gap) {
    model.own(Pipe::MTE2, 5, {}, {a});
    model.own(Pipe::V, 3, {a}, {b});
    model.own(Pipe::V, 4);
    model.own(Pipe::MTE3, 2, {b}, {});
    model.own(Pipe::MTE2, 1);
    EXPECT_EQ(path(), (Texts{"0 start", "1 data", "2 pipe"}));
    EXPECT_EQ(slacks(), (Ends{0, 0, 0, 2, 6}));
}

TEST_F(Analysis, the_path_stays_on_a_pipe_where_it_can) {
    model.own(Pipe::MTE2, 4, {}, {a});
    model.own(Pipe::V, 4);
    model.own(Pipe::V, 1, {a}, {});
    EXPECT_EQ(path(), (Texts{"1 start", "2 pipe"}));
    EXPECT_EQ(slacks(), (Ends{0, 0, 0}));
}

TEST_F(Analysis, a_reader_issued_before_its_writer) {
    model.on("aiv0");
    model.own(Pipe::V, 2, {a}, {});
    model.on("aic0");
    model.own(Pipe::M, 6, {}, {a});
    model.own(Pipe::M, 1);
    EXPECT_EQ(path(), (Texts{"1 start", "0 data"}));
    EXPECT_EQ(slacks(), (Ends{0, 0, 1}));
    EXPECT_EQ(pipes(), (Texts{"aiv0-PIPE-V 2 6 0 0 0", "aic0-PIPE-M 7 0 0 0 1"}));
}

// By time alone all of these are equal; only the order of completion tells who waits for whom.
TEST_F(Analysis, free_instructions_that_wait_for_later_issued_ones_in_one_cycle) {
    model.own(Pipe::MTE2, 5, {}, {a});
    std::vector<Tensor> chain;
    for (int i = 0; i < 50; ++i) chain.push_back(tensor(Memory::UB, {4}));
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) {  // each reads what the next one issued writes
        model.on(base::concat("aiv", i));
        model.own(Pipe::V, 0, {chain[i + 1]}, {chain[i]});
    }
    model.on("last");
    model.own(Pipe::V, 0, {a}, {chain.back()});
    model.own(Pipe::V, 9);
    model.on("");
    model.own(Pipe::MTE3, 3, {chain[0]}, {});
    Ends expected(52, 6);  // the chain ends at 5, its reader at 8, all else at 14
    expected[0] = expected[51 - 1] = expected[51] = 0;
    expected.push_back(6);
    EXPECT_EQ(slacks(), expected);
    EXPECT_EQ(path(), (Texts{"0 start", "50 data", "51 pipe"}));
}

TEST_F(Analysis, parts_are_grouped_by_name_pipe_and_line) {
    for (int i = 0; i < 3; ++i) {
        model.line(1).own(Pipe::V, 2, {}, {}, "SAME");
        model.line(2).own(Pipe::V, 1, {}, {}, "SAME");
    }
    const CriticalPath found = critical_path(model.schedule());
    ASSERT_EQ(found.parts.size(), 2u);
    EXPECT_EQ(found.parts[0].line, "kernel.py:1");
    EXPECT_EQ(found.parts[0].cycles, 6);
    EXPECT_EQ(found.parts[0].count, 3);
    EXPECT_EQ(found.parts[1].cycles, 3);
}

// --- what-if ---

TEST_F(Analysis, halves_and_frees_pipes_and_instructions) {
    model.own(Pipe::MTE2, 5, {}, {a}, "LOAD");
    model.own(Pipe::V, 3, {a}, {}, "USE");
    model.own(Pipe::MTE1, 7, {}, {}, "ASIDE");
    EXPECT_EQ(gains(), (Gains{{"pipe PIPE-MTE2 2x", 1},  // to 7, which ASIDE takes
                              {"pipe PIPE-MTE2 free", 1},
                              {"pipe PIPE-V 2x", 1},
                              {"pipe PIPE-V free", 1},
                              {"pipe PIPE-MTE1 2x", 0},
                              {"pipe PIPE-MTE1 free", 0},
                              {"instruction LOAD 2x", 1},
                              {"instruction LOAD free", 1},
                              {"instruction USE 2x", 1},
                              {"instruction USE free", 1},
                              {"instruction ASIDE 2x", 0},
                              {"instruction ASIDE free", 0}}));
    EXPECT_EQ(scheduled, 8);  // what is off the critical path gains nothing, without a try
}

TEST_F(Analysis, a_cycle_is_not_halved_and_what_is_free_is_not_listed) {
    model.own(Pipe::V, 1, {}, {}, "ONE");
    model.own(Pipe::V, 0, {}, {}, "NONE");
    model.set_flag("PIPE-V", "PIPE-MTE2", 0);
    model.wait_flag("PIPE-V", "PIPE-MTE2", 0);  // flags keep their cycles
    EXPECT_EQ(
        gains(),
        (Gains{
            {"pipe PIPE-V 2x", 0}, {"pipe PIPE-V free", 1}, {"instruction ONE 2x", 0}, {"instruction ONE free", 1}}));
    EXPECT_EQ(scheduled, 2);
}

TEST_F(Analysis, a_pipe_is_meant_on_every_core) {
    for (const char* core : {"aiv0", "aiv1"}) {
        model.on(core);
        model.own(Pipe::V, 10, {}, {}, "USE");
    }
    EXPECT_EQ(gains().at("pipe PIPE-V 2x"), 5);
}

TEST_F(Analysis, a_name_is_of_moves_or_of_computations) {
    model.load(Tensor(Memory::L1), tensor(Memory::GM, {64, 64}));
    const std::int64_t cycles = model.program->record(0).cycles;
    model.own(Pipe::MTE2, 10, {}, {}, "MOV-GM_TO_L1");
    const Gains found = gains();
    EXPECT_EQ(found.at("path MOV-GM_TO_L1 free"), cycles);
    EXPECT_EQ(found.at("instruction MOV-GM_TO_L1 free"), 10);
}

TEST_F(Analysis, what_is_called_between_may_end_it) {
    model.own(Pipe::V, 2);
    const Timeline timeline = model.schedule();
    EXPECT_THROW(what_if(timeline, [] { throw std::runtime_error("enough"); }), std::runtime_error);
    EXPECT_FALSE(what_if(timeline).empty());
}

TEST_F(Analysis, of_many_instructions_the_most_critical_are_tried) {
    for (int i = 0; i < 300; ++i) model.own(Pipe::V, 2 + i, {}, {}, base::concat("OWN", i));
    const Gains found = gains();
    EXPECT_EQ(found.size(), 2u + 400u);
    EXPECT_EQ(found.count("instruction OWN100 free"), 1u);
    EXPECT_EQ(found.count("instruction OWN99 free"), 0u);
}

TEST_F(Analysis, what_costs_need_to_be_found_again_is_recorded) {
    const Tensor source = tensor(Memory::GM, {64, 64});
    model.load(tensor(Memory::L1, {64, 64}, DType::FP16, false, Format::NZ), source);
    model.load(Tensor(Memory::L1), source, {3});
    model.load(Tensor(Memory::L1), source);
    model.own(Pipe::V, 1);
    EXPECT_TRUE(model.program->record(0).transform);
    for (const std::size_t i : {1u, 2u, 3u}) EXPECT_FALSE(model.program->record(i).transform);
    ASSERT_EQ(model.program->repeated().size(), 1u);
    EXPECT_EQ(model.program->repeated()[0].move, 1u);
    EXPECT_EQ(model.program->repeated()[0].repeat, 3);
    const Path* path = model.program->path_of(model.program->record(0).name);
    ASSERT_NE(path, nullptr);
    EXPECT_EQ(path->target, Memory::L1);
    EXPECT_EQ(model.program->path_of(model.program->record(3).name), nullptr);
}

TEST_F(Analysis, ratios_are_rows_where_they_change_something) {
    model.load(Tensor(Memory::L1), tensor(Memory::GM, {64, 64}));
    EXPECT_EQ(gains().count("cache cache_hit_ratio ratio 0"), 0u);
    EXPECT_EQ(gains().at("cache cache_hit_ratio ratio 1"),
              model.total() - costs_of("Ascend910B1")
                                  ->move(*load_chip("Ascend910B1")->path(Memory::GM, Memory::L1), 8192, false, 1, 1)
                                  .cycles);
    model = Model();
    model.program->set_cache_hit_ratio(0.5);
    model.load(Tensor(Memory::L1), tensor(Memory::GM, {64, 64}));
    EXPECT_LT(gains().at("cache cache_hit_ratio ratio 0"), 0);
    EXPECT_GT(gains().at("cache cache_hit_ratio ratio 1"), 0);
    model = Model();
    model.load(Tensor(Memory::UB), tensor(Memory::GM, {64, 64}));  // does not use it
    for (const auto& [row, gain] : gains()) EXPECT_FALSE(has(row, "cache")) << row;
}

TEST_F(Analysis, moves_twice_as_large_cost_half_of_one_of_twice_the_bytes) {
    const auto costs = costs_of("Ascend910B1");
    const auto chip = load_chip("Ascend910B1");
    const Path& path = *chip->path(Memory::GM, Memory::L1);
    const Tensor source = tensor(Memory::GM, {64, 64});
    std::int64_t total = 0;
    for (const double ratio : {0.0, 0.5, 1.0}) {
        model.program->set_cache_hit_ratio(ratio == 1 ? 0.3 : ratio);  // the latest counts
        model.program->set_cache_hit_ratio(ratio);
        model.load(Tensor(Memory::L1), source);
        model.load(tensor(Memory::L1, {64, 64}, DType::FP16, false, Format::NZ), source);
        for (const bool converts : {false, true})
            total += (costs->move(path, 16384, converts, 1, ratio).cycles + 1) / 2;
    }
    EXPECT_EQ(gains().at("path MOV-GM_TO_L1 2x larger"), model.total() - total);
}

TEST_F(Analysis, moves_without_conversion_cost_what_they_would_without) {
    const Tensor source = tensor(Memory::GM, {64, 64});
    model.load(Tensor(Memory::L1), source);
    const std::int64_t plain = model.total();
    EXPECT_EQ(gains().count("path MOV-GM_TO_L1 no conversion"), 0u);
    model = Model();
    model.load(tensor(Memory::L1, {64, 64}, DType::FP16, false, Format::NZ), source);
    EXPECT_EQ(gains().at("path MOV-GM_TO_L1 no conversion"), model.total() - plain);
    EXPECT_GT(model.total(), plain);
}

// One buffer: each load waits until the tile before it has been used.
TEST_F(Analysis, one_more_buffer_lets_loads_run_ahead) {
    const auto write = [&](int ids) {
        for (int id = 0; id < ids; ++id) model.set_flag("PIPE-V", "PIPE-MTE2", id);
        for (int tile = 0; tile < 10; ++tile) {
            const Tensor fresh = tensor(Memory::UB, {4});
            model.wait_flag("PIPE-V", "PIPE-MTE2", tile % ids);
            model.own(Pipe::MTE2, 50, {}, {fresh}, "LOAD");
            model.own(Pipe::V, 50, {fresh}, {}, "USE");
            model.set_flag("PIPE-V", "PIPE-MTE2", tile % ids);
        }
        for (int id = 0; id < ids; ++id) model.wait_flag("PIPE-V", "PIPE-MTE2", id);
    };
    write(1);
    const std::int64_t one = model.total();
    Gains found = gains();
    EXPECT_EQ(found.count("buffer PIPE-V -> PIPE-MTE2 +1 per id"), 0u);
    const std::int64_t gain = found.at("buffer PIPE-V -> PIPE-MTE2 +1");
    model = Model();
    write(2);
    EXPECT_NEAR(static_cast<double>(model.total()), static_cast<double>(one - gain), 2);
    found = gains();
    EXPECT_LE(found.at("buffer PIPE-V -> PIPE-MTE2 +1"), found.at("buffer PIPE-V -> PIPE-MTE2 +1 per id"));
}

TEST_F(Analysis, flags_that_go_with_the_data_are_no_buffers) {
    for (int tile = 0; tile < 3; ++tile) {
        const Tensor fresh = tensor(Memory::UB, {4});
        model.own(Pipe::MTE2, 5, {}, {fresh});
        model.set_flag("PIPE-MTE2", "PIPE-V", 0);
        model.wait_flag("PIPE-MTE2", "PIPE-V", 0);
        model.own(Pipe::V, 5, {fresh}, {});
        model.set_flag("PIPE-M", "PIPE-V", 0);  // no data either way
        model.wait_flag("PIPE-M", "PIPE-V", 0);
    }
    for (const auto& [row, gain] : gains()) EXPECT_FALSE(has(row, "buffer")) << row;
}

TEST_F(Analysis, where_data_goes_both_ways_neither_pipe_only_gives_buffers_back) {
    for (int tile = 0; tile < 3; ++tile) {
        const Tensor there = tensor(Memory::UB, {4}), back = tensor(Memory::UB, {4});
        model.own(Pipe::MTE2, 5, {}, {there});
        model.own(Pipe::V, 5, {there}, {back});
        model.set_flag("PIPE-V", "PIPE-MTE2", 0);
        model.wait_flag("PIPE-V", "PIPE-MTE2", 0);
        model.own(Pipe::MTE2, 5, {back}, {});
    }
    for (const auto& [row, gain] : gains()) EXPECT_FALSE(has(row, "buffer")) << row;
}

// Both load slots of the vector registers take the other set.
TEST_F(Analysis, one_more_buffer_before_the_vector_registers) {
    model = Model("Ascend950PR_9589");
    model.place.scope = model.program->open_scope("scope", 0);
    model.set_flag("PIPE-VEC", "PIPE-MTE2", 0);
    model.set_flag("PIPE-MTE3", "PIPE-VEC", 0);
    for (int tile = 0; tile < 6; ++tile) {
        const Tensor out = tensor(Memory::UB, {4});
        model.wait_flag("PIPE-MTE3", "PIPE-VEC", 0);
        for (int slot = 0; slot < 2; ++slot) model.own(Pipe::RVECLD, 20, {}, {b}, "FETCH");
        model.own(Pipe::RVECST, 20, {b}, {out}, "STORE");
        model.own(Pipe::MTE3, 100, {out}, {}, "OUT");
        model.set_flag("PIPE-MTE3", "PIPE-VEC", 0);
    }
    model.wait_flag("PIPE-MTE3", "PIPE-VEC", 0);
    model.wait_flag("PIPE-VEC", "PIPE-MTE2", 0);
    // A tile takes FETCH, STORE, OUT, the set and the wait; then OUT and the set. So does the credit, and the last
    // wait.
    EXPECT_EQ(model.total(), 1 + 6 * (20 + 20 + 100 + 1 + 1) + 1);
    EXPECT_EQ(gains().at("buffer PIPE-MTE3 -> PIPE-VEC +1"), 5 * 41 + 2);
}

TEST_F(Analysis, of_a_million_instructions_the_ledger_still_sums_up) {
    for (int tile = 0; tile < 250000; ++tile) {
        const Tensor fresh = tensor(Memory::UB, {4});
        model.own(Pipe::MTE2, 3 + tile % 5, {}, {fresh});
        model.own(Pipe::V, 4 + tile % 3, {fresh}, {});
        model.own(Pipe::MTE3, tile % 11);
        model.own(Pipe::MTE1, 0);
    }
    const Timeline timeline = model.schedule();
    for (const PipeLedger& row : ledger(timeline).pipes)
        EXPECT_EQ(row.busy + row.data + row.flag + row.barrier + row.end, timeline.total_cycles());
    std::vector<std::int64_t> spare(model.program->size());
    slack(timeline, spare);
    const CriticalPath found = critical_path(timeline);
    std::int64_t at = 0;
    for (const mskpp::Step& step : found.steps) {
        ASSERT_EQ(timeline.start(step.instruction), at);
        ASSERT_EQ(spare[step.instruction], 0);
        at = timeline.end(step.instruction);
    }
    EXPECT_EQ(at, timeline.total_cycles());
    EXPECT_EQ(*std::min_element(spare.begin(), spare.end()), 0);
}

}  // namespace
}  // namespace mskpp::test
