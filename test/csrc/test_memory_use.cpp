// SPDX-License-Identifier: Apache-2.0
#include "mskpp/memory_use.h"

#include <map>

#include "fixture.h"
#include "mskpp/roofline.h"

namespace mskpp::test {
namespace {

using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;

class MemoryUseTest : public testing::Test {
  protected:
    const MemoryUse& use(Memory memory, std::uint16_t core = 0) {
        if (!timeline_) {
            timeline_ = std::make_unique<Timeline>(model.schedule());
            all_ = memory_use(*timeline_);
        }
        for (const MemoryUse& one : all_)
            if (one.memory == memory && one.core == core) return one;
        throw std::logic_error("nothing is written there");
    }
    Points points(Memory memory, std::uint16_t core = 0) {
        Points out;
        for (const MemoryPoint& point : use(memory, core).points) out.emplace_back(point.cycle, point.bytes);
        return out;
    }
    // What writes the tensor in so many cycles, having read the others.
    void write(const Tensor& written, std::int64_t cycles, std::vector<Tensor> reads = {}, Pipe pipe = Pipe::V) {
        model.own(pipe, cycles, std::move(reads), {written});
    }
    void read(const Tensor& read, std::int64_t cycles, Pipe pipe = Pipe::S) { model.own(pipe, cycles, {read}); }

    Model model;

  private:
    std::unique_ptr<Timeline> timeline_;
    std::vector<MemoryUse> all_;
};

TEST_F(MemoryUseTest, of_flags_only_is_empty) {
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);
    model.barrier("PIPE-ALL");
    EXPECT_TRUE(memory_use(model.schedule()).empty());
    EXPECT_TRUE(memory_use(Model().schedule()).empty());
}

TEST_F(MemoryUseTest, a_version_lives_from_the_start_of_its_write_to_the_end_of_its_last_read) {
    const Tensor x = tensor(Memory::UB, {100});
    model.own(Pipe::V, 7);
    write(x, 10);             // 7 to 17
    read(x, 5);               // 17 to 22
    read(x, 20, Pipe::MTE3);  // 17 to 37: the last
    read(x, 1);               // 22 to 23
    EXPECT_EQ(points(Memory::UB), (Points{{0, 0}, {7, 200}, {37, 0}}));
    EXPECT_EQ(use(Memory::UB).peak_bytes, 200);
    EXPECT_EQ(use(Memory::UB).peak_cycle, 7);
    EXPECT_EQ(use(Memory::UB).capacity_bytes, 196608);
    EXPECT_TRUE(use(Memory::UB).largest.empty());
}

TEST_F(MemoryUseTest, what_nobody_reads_lives_while_it_is_written) {
    write(tensor(Memory::UB, {8}), 10);
    EXPECT_EQ(points(Memory::UB), (Points{{0, 16}, {10, 0}}));
}

TEST_F(MemoryUseTest, every_write_makes_a_version_of_its_own) {
    const Tensor x = tensor(Memory::UB, {8});
    write(x, 10);            // 0 to 10
    read(x, 100);            // 10 to 110
    write(x, 10);            // 10 to 20, beside the first
    read(x, 1, Pipe::MTE3);  // 20 to 21
    EXPECT_EQ(points(Memory::UB), (Points{{0, 16}, {10, 32}, {21, 16}, {110, 0}}));
    EXPECT_EQ(use(Memory::UB).peak_cycle, 10);
}

TEST_F(MemoryUseTest, one_that_ends_as_another_starts_never_lives_with_it) {
    const Tensor x = tensor(Memory::UB, {8});
    write(x, 10);
    write(x, 5);
    EXPECT_EQ(points(Memory::UB), (Points{{0, 16}, {15, 0}}));
}

TEST_F(MemoryUseTest, what_takes_no_time_takes_no_room) {
    write(tensor(Memory::UB, {8}), 0);
    EXPECT_TRUE(points(Memory::UB).empty());
    EXPECT_EQ(use(Memory::UB).peak_bytes, 0);
}

TEST_F(MemoryUseTest, a_part_counts_its_own_bytes) {
    const Tensor x = tensor(Memory::UB, {10, 16});
    write(rows(x, 0, 4), 10);  // 128 bytes
    write(rows(x, 4, 5), 10);  // 32
    read(rows(x, 3, 5), 1);    // both, to 21
    EXPECT_EQ(points(Memory::UB), (Points{{0, 128}, {10, 160}, {21, 0}}));
}

TEST_F(MemoryUseTest, a_move_counts_the_view_it_writes) {
    // FP32 in L0C becomes FP16 on the way; the target is twice as large as what is loaded.
    model.load(tensor(Memory::L1, {32, 16}), tensor(Memory::L0C, {16, 16}, DType::FP32, true, Format::ND));
    EXPECT_EQ(use(Memory::L1).peak_bytes, 32 * 16 * 2);
}

TEST_F(MemoryUseTest, a_late_reader_counts_too) {
    const Tensor x = tensor(Memory::UB, {8});
    read(x, 3);
    write(x, 10);
    EXPECT_EQ(points(Memory::UB), (Points{{0, 16}, {13, 0}}));
}

TEST_F(MemoryUseTest, it_belongs_to_the_core_that_writes) {
    const Tensor x = tensor(Memory::UB, {8});
    model.on("aiv0");
    write(x, 10);
    model.on("aiv1");
    read(x, 10);
    write(tensor(Memory::L1, {8}), 1);
    EXPECT_EQ(points(Memory::UB, 1), (Points{{0, 16}, {20, 0}}));
    EXPECT_THROW(use(Memory::UB, 2), std::logic_error);
    EXPECT_EQ(use(Memory::L1, 2).peak_bytes, 16);
}

TEST_F(MemoryUseTest, several_outputs_are_several_versions) {
    const Tensor x = tensor(Memory::UB, {8}), y = tensor(Memory::UB, {16}), z = tensor(Memory::L1, {32});
    model.own(Pipe::V, 10, {}, {x, y, z, tensor(Memory::GM, {99})});
    model.own(Pipe::S, 5, {x, y});
    read(y, 5);
    EXPECT_EQ(points(Memory::UB), (Points{{0, 48}, {15, 32}, {20, 0}}));
    EXPECT_EQ(points(Memory::L1), (Points{{0, 64}, {10, 0}}));
}

TEST_F(MemoryUseTest, what_is_written_over_needs_no_second_place) {
    Tensor x = tensor(Memory::UB, {512});
    write(x, 10);
    model.issue("vabs", {&x, &x});  // 10 to 15
    Tensor y = tensor(Memory::UB, {512});
    model.issue("vabs", {&x, &y});  // 15 to 20: beside x
    EXPECT_EQ(points(Memory::UB), (Points{{0, 1024}, {15, 2048}, {20, 0}}));
}

TEST_F(MemoryUseTest, another_reader_keeps_what_is_written_over) {
    Tensor x = tensor(Memory::UB, {512});
    write(x, 10);
    read(x, 2);                     // to 12
    model.issue("vabs", {&x, &x});  // 10 to 15
    EXPECT_EQ(points(Memory::UB), (Points{{0, 1024}, {10, 2048}, {12, 1024}, {15, 0}}));
}

TEST_F(MemoryUseTest, a_part_that_is_read_but_not_written_stays) {
    Tensor x = tensor(Memory::UB, {2, 256});
    write(x, 10);
    Tensor first = rows(x, 0, 1), second = rows(x, 1, 2);
    model.issue("vabs", {&first, &second});
    EXPECT_EQ(use(Memory::UB).peak_bytes, 1024 + 512);
}

TEST_F(MemoryUseTest, an_accumulator_is_handed_on_in_its_place) {
    Tensor x = tensor(Memory::L0A, {16, 16}, DType::FP16, true), y = tensor(Memory::L0B, {16, 16}, DType::FP16, true);
    Tensor c = tensor(Memory::L0C, {16, 16}, DType::FP32);
    Attributes ready;
    ready.flag = true;
    Tensor next = model.issue("mmad", {&x, &y, &c}, ready);
    for (int k = 0; k < 3; ++k) next = model.issue("mmad", {&x, &y, &next});
    model.load(Tensor(Memory::GM), next);
    EXPECT_EQ(use(Memory::L0C).points.size(), 2u);
    EXPECT_EQ(use(Memory::L0C).peak_bytes, 16 * 16 * 4);
}

TEST_F(MemoryUseTest, a_bias_is_not_written_over) {
    Tensor x = tensor(Memory::L0A, {16, 16}, DType::FP16, true), y = tensor(Memory::L0B, {16, 16}, DType::FP16, true);
    Tensor bias = tensor(Memory::BT, {16}, DType::FP32);
    write(bias, 10);
    model.issue("mmad", {&x, &y, &bias});
    const std::int64_t end = use(Memory::L0C).points.back().cycle;
    EXPECT_EQ(points(Memory::BT), (Points{{0, 64}, {end, 0}}));
}

TEST_F(MemoryUseTest, a_vector_accumulator_is_one_place) {
    Tensor x = tensor(Memory::UB, {512}, DType::FP16, true), z = tensor(Memory::UB, {512});
    write(z, 10);
    for (int i = 0; i < 4; ++i) model.issue("vmla", {&x, &x, &z});
    EXPECT_EQ(use(Memory::UB).peak_bytes, 1024);
    EXPECT_EQ(use(Memory::UB).points.size(), 2u);
}

TEST_F(MemoryUseTest, what_is_ready_from_the_start_does_not_count) {
    read(tensor(Memory::UB, {512}, DType::FP16, true), 10);
    EXPECT_THROW(use(Memory::UB), std::logic_error);
}

TEST_F(MemoryUseTest, names_the_largest_where_there_is_too_little_room) {
    for (int i = 0; i < 3; ++i) {
        const Tensor x = model.made_on(22, tensor(Memory::L1, {256, 256}));  // 128 KiB each
        write(x, 10);
        read(x, 1000);
    }
    const Tensor whole = model.made_on(23, tensor(Memory::L1, {512, 384}));  // 384 KiB
    write(whole, 10);
    read(whole, 1);
    read(rows(whole, 0, 1), 1);
    const Tensor small = model.made_on(24, tensor(Memory::L1, {16}));
    model.line(31);
    write(tensor(Memory::L1, {64}), 2000);  // nobody reads it
    write(small, 1);
    const MemoryUse& l1 = use(Memory::L1);
    EXPECT_TRUE(l1.exceeded());
    EXPECT_EQ(l1.capacity_bytes, 524288);
    EXPECT_EQ(l1.peak_bytes, 3 * 131072 + 393216 + 128);
    EXPECT_EQ(l1.peak_cycle, 40);
    ASSERT_EQ(l1.largest.size(), 3u);
    EXPECT_EQ(l1.largest[0].text, "L1 tensor [256,256] FP16 (kernel.py:22)");
    EXPECT_EQ(l1.largest[0].bytes, 393216);
    EXPECT_EQ(l1.largest[0].versions, 3);
    EXPECT_EQ(l1.largest[1].text, "L1 tensor [512,384] FP16 (kernel.py:23)");
    EXPECT_EQ(l1.largest[1].versions, 1);
    EXPECT_EQ(l1.largest[2].text, "what OWN (kernel.py:31) writes and nobody reads");
    EXPECT_EQ(l1.largest[2].bytes, 128);
}

TEST_F(MemoryUseTest, exactly_full_is_not_too_much) {
    write(tensor(Memory::L0A, {32768}), 1);
    EXPECT_EQ(use(Memory::L0A).peak_bytes, use(Memory::L0A).capacity_bytes);
    EXPECT_FALSE(use(Memory::L0A).exceeded());
    EXPECT_TRUE(use(Memory::L0A).largest.empty());
}

TEST_F(MemoryUseTest, registers_have_no_capacity) {
    Model registers("Ascend950PR_9589");
    registers.own(Pipe::V, 1, {}, {tensor(Memory::VEC, {1 << 20})});
    const auto all = memory_use(registers.schedule());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_FALSE(all[0].capacity_bytes);
    EXPECT_FALSE(all[0].exceeded());
}

// Of more changes than points, those that are kept are true ones, and the peak is among them.
TEST_F(MemoryUseTest, many_changes_are_cut_down_to_points_that_are_true) {
    std::map<std::int64_t, std::int64_t> change;
    std::int64_t now = 0;
    for (int i = 0; i < 5000; ++i) {
        const std::int64_t size = 1 + i * 7919 % 4001, cycles = 1 + i % 3;
        write(tensor(Memory::UB, {size}), cycles);
        change[now] = size * 2;
        now += cycles;
    }
    change[now] = 0;
    const MemoryUse& ub = use(Memory::UB);
    EXPECT_LE(ub.points.size(), MemoryUse::most_points);
    EXPECT_GE(ub.points.size(), MemoryUse::most_points / 2);
    std::int64_t peak = 0, before = -1;
    for (const MemoryPoint& point : ub.points) {
        EXPECT_EQ(change.at(point.cycle), point.bytes);
        EXPECT_LT(before, point.cycle);
        before = point.cycle;
        peak = std::max(peak, point.bytes);
    }
    EXPECT_EQ(peak, 8002);
    EXPECT_EQ(ub.peak_bytes, 8002);
    EXPECT_EQ(ub.points.back(), (MemoryPoint{now, 0}));
}

// --- roofline ---

const Achievement& achieved(const std::vector<Achievement>& all, const std::string& name) {
    for (const Achievement& one : all)
        if (one.name == name) return one;
    throw std::logic_error("no " + name);
}

TEST(Achievements, are_work_and_the_least_it_could_take) {
    Model model;
    model.on("aic0");
    Tensor x = tensor(Memory::L0A, {1, 64}), y = tensor(Memory::L0B, {64, 16}, DType::FP16, true);
    Tensor c = tensor(Memory::L0C, {1, 16}, DType::FP32);
    model.load(x, tensor(Memory::L1, {1, 64}, DType::FP16, true));
    Attributes ready;
    ready.flag = true;
    model.issue("mmad", {&x, &y, &c}, ready);
    model.set_flag("PIPE-M", "PIPE-V", 0);
    model.wait_flag("PIPE-M", "PIPE-V", 0);
    Tensor u = tensor(Memory::UB, {512}, DType::FP16, true), v = tensor(Memory::UB, {512});
    model.issue("vabs", {&u, &v});
    model.issue("vabs", {&u, &v});
    Tensor wide = tensor(Memory::UB, {512}, DType::FP32, true);
    model.issue("vabs", {&wide, &wide});
    model.own(Pipe::V, 10, {}, {}, "OWN", 33);
    model.on("aiv0");
    model.issue("vabs", {&u, &v});
    const Timeline timeline = model.schedule();
    const auto all = achievements(timeline);
    ASSERT_EQ(all.size(), 5u);
    const Costs& costs = *model.program->shared_costs();

    const Achievement& load = achieved(all, "L1_TO_L0A");
    EXPECT_TRUE(load.move);
    EXPECT_EQ(load.core, 1);
    EXPECT_EQ(load.work, 128);
    EXPECT_DOUBLE_EQ(load.least_cycles, 128 / costs.move_peak(*costs.chip().path(Memory::L1, Memory::L0A)));

    const Achievement& mmad = achieved(all, "MMAD");
    EXPECT_EQ(mmad.pipe, Pipe::M);
    EXPECT_EQ(mmad.work, 1 * 64 * 16);  // without padding
    EXPECT_DOUBLE_EQ(mmad.least_cycles, 1 * 64 * 16 / 4096.0);

    const Achievement& vabs = achieved(all, "VABS");  // of both dtypes
    EXPECT_EQ(vabs.work, 3 * 512);
    EXPECT_EQ(vabs.rated_work, 3 * 512);
    EXPECT_DOUBLE_EQ(vabs.least_cycles, 1024 * 2 / *costs.vector_peak("VABS", DType::FP16) +
                                            512 * 4 / *costs.vector_peak("VABS", DType::FP32));

    const Achievement& own = achieved(all, "OWN");
    EXPECT_EQ(own.work, 33);
    EXPECT_EQ(own.rated_work, 0);
    EXPECT_EQ(own.least_cycles, 0);
    EXPECT_EQ(all[4].name, "VABS");
    EXPECT_EQ(all[4].core, 2);
}

TEST(Achievements, refuse_sums_that_cannot_be_counted) {
    Model model;
    model.own(Pipe::V, 1, {}, {}, "OWN", INT64_MAX);
    model.own(Pipe::V, 1, {}, {}, "OWN", 1);
    const Timeline timeline = model.schedule();
    EXPECT_EQ(error(ErrorKind::overflow, [&] { achievements(timeline); }),
              "roofline: a sum of bytes or operations passes 2^63-1");
}

TEST(Peaks, are_the_best_of_all_curves_or_the_port) {
    const Costs& b1 = *costs_of("Ascend910B1");
    const auto peak = [&](Memory source, Memory target) { return b1.move_peak(*b1.chip().path(source, target)); };
    EXPECT_GE(peak(Memory::GM, Memory::UB), *b1.move_rate(Memory::GM, Memory::UB, 1 << 20, false));
    EXPECT_NEAR(peak(Memory::GM, Memory::UB), 45.7, 0.1);
    EXPECT_EQ(peak(Memory::L1, Memory::GM), b1.chip().path(Memory::L1, Memory::GM)->port_bytes_per_cycle);
    EXPECT_FALSE(b1.vector_peak("NOTHING", DType::FP16));
    EXPECT_FALSE(b1.vector_peak("VABS", DType::INT4));
}

}  // namespace
}  // namespace mskpp::test
