// SPDX-License-Identifier: Apache-2.0
// Cycles worked out by hand from the tables. One GiB/s is 2^30 / (1850 MHz * 10^6) = 0.580401 bytes per cycle on
// Ascend910B1.
#include <cmath>
#include <limits>

#include "fixture.h"

namespace mskpp::test {
namespace {

constexpr double per_gib = 1073741824.0 / 1850e6;

Cost move(const std::string& chip, Memory source, Memory target, std::int64_t bytes, double hit_ratio = 0,
          std::int64_t repeat = 1, bool transform = false) {
    const auto costs = costs_of(chip);
    return costs->move(*costs->chip().path(source, target), bytes, transform, repeat, hit_ratio);
}

#define EXPECT_COST(given, wanted_cycles, wanted_origin)    \
    do {                                                    \
        const Cost found = given;                           \
        EXPECT_EQ(found.cycles, wanted_cycles);             \
        EXPECT_EQ(name(found.origin), name(wanted_origin)); \
    } while (false)

TEST(Cost, origins_have_names) {
    EXPECT_EQ(name(Origin::measured), "measured");
    EXPECT_EQ(name(Origin::interpolated), "interpolated");
    EXPECT_EQ(name(Origin::below_table), "below_table");
    EXPECT_EQ(name(Origin::beyond_table), "beyond_table");
    EXPECT_EQ(name(Origin::theoretical), "theoretical");
    EXPECT_EQ(name(Origin::inherited), "inherited");
    EXPECT_EQ(name(Origin::user), "user");
}

TEST(Cost, whole_cycles_round_up_what_is_more_than_noise) {
    EXPECT_EQ(whole_cycles(0), 0);
    EXPECT_EQ(whole_cycles(3), 3);
    EXPECT_EQ(whole_cycles(3 + 1e-10), 3);
    EXPECT_EQ(whole_cycles(3 + 1e-8), 4);
    EXPECT_EQ(whole_cycles(2.5), 3);
    EXPECT_EQ(whole_cycles(4611686018427387904.0), std::int64_t{1} << 62);
}

TEST(Cost, whole_cycles_refuse_what_cannot_be_counted) {
    EXPECT_EQ(error(ErrorKind::overflow, [] { whole_cycles(1e20); }), "cost: 1e+20 cycles; allowed are 0 to 2^62");
    EXPECT_EQ(error(ErrorKind::overflow, [] { whole_cycles(-1); }), "cost: -1 cycles; allowed are 0 to 2^62");
    error(ErrorKind::overflow, [] { whole_cycles(std::numeric_limits<double>::quiet_NaN()); });
    error(ErrorKind::overflow, [] { whole_cycles(std::numeric_limits<double>::infinity()); });
}

TEST(MoveCost, at_a_measured_point) {
    // 433.99 GiB/s = 251.888 B/cycle; 32768 / 251.888 = 130.09
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::L0A, 32768), 131, Origin::measured);
    // 436.7 GiB/s = 253.461 B/cycle; 1024 / 253.461 = 4.04
    EXPECT_COST(move("Ascend910B1", Memory::UB, Memory::UB, 1024), 5, Origin::measured);
    // 7.29443411662 GiB/s = 4.23370 B/cycle; 1024 / 4.23370 = 241.87
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::UB, 1024), 242, Origin::measured);
}

TEST(MoveCost, between_two_points) {
    // halfway from 286.91 to 349.61: 318.26 GiB/s = 184.718 B/cycle; 1536 / 184.718 = 8.315
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::L0A, 1536), 9, Origin::interpolated);
    // (7.29443411662 + 13.4789240938) / 2 = 10.3866791 GiB/s = 6.02844 B/cycle; 1536 / 6.02844 = 254.79
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::UB, 1536), 255, Origin::interpolated);
}

TEST(MoveCost, below_the_table_costs_what_the_first_point_costs) {
    // 35.75 GiB/s = 20.7493 B/cycle; 64 / 20.7493 = 3.08, for 32 bytes and for one as well
    for (const std::int64_t bytes : {1, 32, 63})
        EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::BT, bytes), 4, Origin::below_table);
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::BT, 64), 4, Origin::measured);
}

TEST(MoveCost, beyond_the_table_keeps_the_last_rate) {
    // 437.55 GiB/s = 253.954 B/cycle; 131072 / 253.954 = 516.12
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::L0A, 131072), 517, Origin::beyond_table);
}

TEST(MoveCost, format_conversion_has_its_own_curve) {
    // 8.79 GiB/s = 5.10172 B/cycle; 4096 / 5.10172 = 802.87
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L1, 4096, 1, 1, true), 803, Origin::measured);
    // 75.09 GiB/s = 43.5823 B/cycle; 4096 / 43.5823 = 93.98, without conversion 85.79 GiB/s: 82.26
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::GM, 4096, 1, 1, true), 94, Origin::measured);
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::GM, 4096, 1, 1, false), 83, Origin::measured);
    // Ascend950PR_9589 has no such curve, so the move takes what it takes without: 44.83 GiB/s * 2^30 / 1650e6
    // = 29.1733 B/cycle; 4096 / 29.1733 = 140.40
    EXPECT_COST(move("Ascend950PR_9589", Memory::L0C, Memory::GM, 4096, 1, 1, true), 141, Origin::interpolated);
    EXPECT_COST(move("Ascend950PR_9589", Memory::L0C, Memory::GM, 4096, 1, 1, false), 141, Origin::measured);
}

TEST(MoveCost, cache_misses_slow_gm_to_l1_and_anything_to_gm) {
    // GM->L1: 9.93243472316 GiB/s = 5.764795 B/cycle: 177.63 cycles for 1024 bytes when all hits,
    // / (1/4.5) = 799.33 when none does, / (0.5 + 0.5/4.5 = 0.611111) = 290.67 when every second one does
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L1, 1024, 1), 178, Origin::measured);
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L1, 1024, 0), 800, Origin::measured);
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L1, 1024, 0.5), 291, Origin::measured);
    // UB->GM: 11.39450292 GiB/s = 6.613381 B/cycle: 154.84, * 4.5 = 696.77
    EXPECT_COST(move("Ascend910B1", Memory::UB, Memory::GM, 1024, 1), 155, Origin::measured);
    EXPECT_COST(move("Ascend910B1", Memory::UB, Memory::GM, 1024, 0), 697, Origin::measured);
    // L0C->GM: 82.26 * 4.5 = 370.18
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::GM, 4096, 0), 371, Origin::measured);
    // L1->GM has no curve: 4096 / 128 = 32, * 4.5 = 144
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::GM, 4096, 1), 32, Origin::theoretical);
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::GM, 4096, 0), 144, Origin::theoretical);
}

TEST(MoveCost, cache_hits_do_not_touch_other_paths) {
    for (const double h : {0.0, 0.5, 1.0}) {
        EXPECT_EQ(move("Ascend910B1", Memory::GM, Memory::UB, 1024, h).cycles, 242);
        EXPECT_EQ(move("Ascend910B1", Memory::L1, Memory::L0A, 32768, h).cycles, 131);
        EXPECT_EQ(move("Ascend910B1", Memory::GM, Memory::L0A, 4096, h).cycles, 75);
    }
}

TEST(MoveCost, without_a_curve_is_the_width_of_the_port) {
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::L1, 4096), 32, Origin::theoretical);  // 4096 / 128
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::L1, 4097), 33, Origin::theoretical);
    EXPECT_COST(move("Ascend910B1", Memory::L0C, Memory::L1, 1), 1, Origin::theoretical);
    EXPECT_COST(move("Ascend950PR_9589", Memory::UB, Memory::VEC, 257), 2, Origin::theoretical);
}

TEST(MoveCost, repeats_serve_a_path_that_has_no_curve_by_size) {
    // r = max(1, ceil(4096 / 512)) = 8: 94.53 GiB/s = 54.8653 B/cycle; 4096 / 54.8653 = 74.66
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, 4096), 75, Origin::measured);
    // less than one repeat counts as one: 512 bytes at 12.58 GiB/s = 7.30144 B/cycle: 70.12
    for (const std::int64_t bytes : {1, 100, 512})
        EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, bytes), 71, Origin::measured);
    // 513 bytes are two repeats: 24.6 GiB/s = 14.27786 B/cycle; 513 / 14.27786 = 35.93
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, 513), 36, Origin::measured);
    // 131072 bytes are 256 repeats, and the table ends at 128: 229.42 GiB/s = 133.1556 B/cycle; 984.35
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, 131072), 985, Origin::beyond_table);
}

TEST(MoveCost, repeats_given_by_the_user_choose_the_repeat_curve) {
    // 175.65 GiB/s = 101.947 B/cycle; 4096 / 101.947 = 40.18
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, 4096, 0, 16), 41, Origin::measured);
    // 20 lies halfway between 16 (175.65) and 24 (211.14): 193.395 GiB/s = 112.247 B/cycle; 36.49
    EXPECT_COST(move("Ascend910B1", Memory::GM, Memory::L0A, 4096, 0, 20), 37, Origin::interpolated);
    // by size: 286.91 GiB/s = 166.523 B/cycle, 6.15; with 2 repeats: 349.97 GiB/s = 203.123 B/cycle, 5.04
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::L0A, 1024, 0, 1), 7, Origin::measured);
    EXPECT_COST(move("Ascend910B1", Memory::L1, Memory::L0A, 1024, 0, 2), 6, Origin::measured);
    // a path without a repeat table does not care
    EXPECT_COST(move("Ascend910B1", Memory::UB, Memory::UB, 1024, 0, 7), 5, Origin::measured);
}

TEST(MoveCost, inherited_gm_paths_keep_their_time) {
    // 241.869 cycles at 1850 MHz are 196.110 at 1500 MHz; the ratio goes before the rounding: not ceil(242 * 1500/1850)
    EXPECT_COST(move("Ascend910B4", Memory::GM, Memory::UB, 1024), 197, Origin::inherited);
    // 799.335 * 1500 / 1850 = 648.11
    EXPECT_COST(move("Ascend910B4", Memory::GM, Memory::L1, 1024), 649, Origin::inherited);
}

TEST(MoveCost, inherited_paths_on_the_chip_keep_their_cycles) {
    EXPECT_COST(move("Ascend910B4", Memory::L1, Memory::L0A, 32768), 131, Origin::inherited);
    EXPECT_COST(move("Ascend910B4", Memory::L1, Memory::BT, 1), 4, Origin::inherited);
}

TEST(MoveCost, a_theoretical_width_is_never_scaled) {
    EXPECT_COST(move("Ascend910B4", Memory::L1, Memory::GM, 4096, 1), 32, Origin::theoretical);
    EXPECT_COST(move("Ascend910B4", Memory::L0C, Memory::L1, 4096), 32, Origin::theoretical);
}

TEST(MoveCost, no_measured_path_beats_its_port_by_more_than_5_percent) {
    for (const char* chip : {"Ascend910B1", "Ascend950PR_9589"}) {
        const auto costs = costs_of(chip);
        for (const Path& path : costs->chip().paths())
            for (const bool transform : {false, true})
                for (std::int64_t bytes = 512; bytes <= 1 << 20; bytes *= 2) {
                    const Cost cost = costs->move(path, bytes, transform, 1, 1);
                    const double least = static_cast<double>(bytes) / path.port_bytes_per_cycle;
                    EXPECT_GE(static_cast<double>(cost.cycles),
                              std::floor(least / (cost.origin == Origin::theoretical ? 1 : 1.05)))
                        << chip << ' ' << path_name(path.source, path.target) << ' ' << bytes;
                }
    }
}

Cost mmad(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n, const std::string& chip = "Ascend910B1") {
    return costs_of(chip)->mmad(dtype, m, k, n);
}

TEST(MmadCost, fp16_at_and_between_measured_points) {
    EXPECT_COST(mmad(DType::FP16, 16, 32, 16), 5, Origin::measured);      // 8192 / 1684.903 = 4.86
    EXPECT_COST(mmad(DType::FP16, 16, 64, 16), 7, Origin::measured);      // 16384 / 2722.499 = 6.02
    EXPECT_COST(mmad(DType::FP16, 16, 48, 16), 6, Origin::interpolated);  // 12288 / 2203.701 = 5.58
    EXPECT_COST(mmad(DType::FP16, 64, 64, 128), 131, Origin::measured);   // 524288 / 4028.584 = 130.14
}

TEST(MmadCost, pads_to_whole_fractals) {
    // 1*1*1 is a whole 16*16*16 = 4096, which is below the table: what 8192 costs
    EXPECT_COST(mmad(DType::FP16, 1, 1, 1), 5, Origin::below_table);
    // 17*33*1 is 32*48*16 = 24576: 24576 / 2946.763 = 8.34
    EXPECT_COST(mmad(DType::FP16, 17, 33, 1), 9, Origin::measured);
    EXPECT_EQ(mmad(DType::FP16, 32, 48, 16).cycles, 9);
}

TEST(MmadCost, beyond_the_table_runs_at_the_peak) {
    // 128*64*128 = 1048576; / 4096 = 256
    EXPECT_COST(mmad(DType::FP16, 128, 64, 128), 256, Origin::beyond_table);
    EXPECT_COST(mmad(DType::BF16, 128, 64, 128), 256, Origin::beyond_table);
    EXPECT_COST(mmad(DType::INT8, 256, 64, 128), 256, Origin::beyond_table);  // 2097152 / 8192
    EXPECT_COST(mmad(DType::FP32, 128, 64, 128), 1024, Origin::beyond_table);
    EXPECT_COST(mmad(DType::INT4, 256, 64, 256), 256, Origin::beyond_table);  // 4194304 / 16384
}

TEST(MmadCost, other_dtypes_are_scaled_by_their_peak_and_padded_by_their_fractal) {
    // 16*32*16 = 8192 INT8 at twice the rate are 4096 FP16: below the table
    EXPECT_COST(mmad(DType::INT8, 16, 32, 16), 5, Origin::below_table);
    EXPECT_COST(mmad(DType::UINT8, 16, 1, 16), 5, Origin::below_table);
    // 16*64*16 = 16384 INT8 are 8192 FP16, a measured point of another dtype: 4.86
    EXPECT_COST(mmad(DType::INT8, 16, 64, 16), 5, Origin::interpolated);
    // 16*8*16 = 2048 FP32 at a quarter of the rate are 8192 FP16; k = 9 is 16: 16384, 6.02
    EXPECT_COST(mmad(DType::FP32, 16, 8, 16), 5, Origin::interpolated);
    EXPECT_COST(mmad(DType::FP32, 16, 9, 16), 7, Origin::interpolated);
    // INT4: k = 65 is 128: 32768 / 4 = 8192
    EXPECT_COST(mmad(DType::INT4, 16, 65, 16), 5, Origin::interpolated);
    EXPECT_COST(mmad(DType::BF16, 16, 32, 16), 5, Origin::interpolated);
}

TEST(MmadCost, belongs_to_the_architecture) {
    // 3510: 16384 / 3846.009 = 4.26; FP32 at a sixteenth of the rate: 2048 * 16 = 32768 / 3967.070 = 8.26
    EXPECT_COST(mmad(DType::FP16, 16, 64, 16, "Ascend950PR_9589"), 5, Origin::measured);
    EXPECT_COST(mmad(DType::FP32, 16, 8, 16, "Ascend950PR_9589"), 9, Origin::interpolated);
    EXPECT_COST(mmad(DType::FP16, 16, 32, 16, "Ascend910B4"), 5, Origin::inherited);  // its clock does not matter
}

TEST(MmadCost, refuses_what_the_cube_does_not_take) {
    EXPECT_EQ(error(ErrorKind::type, [] { mmad(DType::INT32, 16, 16, 16); }),
              "mmad: the cube of Ascend910B1 does not take INT32; it takes UINT8, INT4, INT8, FP16, BF16, FP32");
    EXPECT_EQ(error(ErrorKind::type, [] { mmad(DType::INT4, 16, 16, 16, "Ascend950PR_9589"); }),
              "mmad: the cube of Ascend950PR_9589 does not take INT4; it takes UINT8, INT8, FP16, BF16, FP32");
}

Cost vector(const std::string& name, const std::string& dtypes, DType dtype, std::int64_t elements,
            const std::string& chip = "Ascend910B1") {
    const RateTable* table = costs_of(chip)->find_vector(name, dtypes);
    if (table == nullptr) throw std::logic_error("no table for " + name);
    return costs_of(chip)->vector(*table, dtype, elements);
}

TEST(VectorCost, at_between_and_below_points) {
    // 128 elements of 2 bytes / 42.26068238 B/cycle = 6.06
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 128), 7, Origin::measured);
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 1), 7, Origin::below_table);
    // halfway between 42.26068238 and 84.46461477: 63.36264858; 384 / 63.36 = 6.06
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 192), 7, Origin::interpolated);
    // 448 * 4 / 226.6128461 = 7.91: a real dip between 384 (256.69) and 512 (259.08)
    EXPECT_COST(vector("VCONV", "FP32 FP16", DType::FP32, 448), 8, Origin::measured);
}

TEST(VectorCost, from_the_last_point_on_runs_at_the_best_rate_of_the_table) {
    // the last point is 24576 at 127.981606, the best rate 127.9825019 at 23040: 65536 / 127.9825019 = 512.07
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 32768), 513, Origin::beyond_table);
    // where the two rates tell: 55672 / 127.9825019 = 434.997, by the last point it would be 435.00001
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 27836), 435, Origin::beyond_table);
    // 2048 * 4 / 262.0762376 = 31.26
    EXPECT_COST(vector("VCONV", "FP32 FP16", DType::FP32, 2048), 32, Origin::measured);
    EXPECT_DOUBLE_EQ(*costs_of("Ascend910B1")->vector_rate("VADD", "FP16 FP16 FP16", 24576), 127.9825019);
    EXPECT_DOUBLE_EQ(*costs_of("Ascend910B1")->vector_rate("VADD", "FP16 FP16 FP16", 128), 42.26068238);
}

TEST(VectorCost, is_inherited_in_cycles_without_the_lost_instructions) {
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 128, "Ascend950PR_9589"), 7, Origin::inherited);
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 128, "Ascend950PR_9599"), 7, Origin::inherited);
    EXPECT_COST(vector("VADD", "FP16 FP16 FP16", DType::FP16, 128, "Ascend910B4"), 7, Origin::inherited);
    EXPECT_TRUE(costs_of("Ascend910B4")->find_vector("VADDRELU", "FP16 FP16 FP16"));
    EXPECT_FALSE(costs_of("Ascend950PR_9589")->find_vector("VADDRELU", "FP16 FP16 FP16"));
    EXPECT_FALSE(costs_of("Ascend950PR_9599")->find_vector("VADDRELU", "FP16 FP16 FP16"));
}

TEST(VectorCost, fixed_costs_are_rounded_and_inherited_like_the_others) {
    EXPECT_COST(costs_of("Ascend910B1")->fixed(21.168), 22, Origin::measured);
    EXPECT_COST(costs_of("Ascend910B1")->fixed(15.970), 16, Origin::measured);
    EXPECT_COST(costs_of("Ascend950PR_9589")->fixed(15.970), 16, Origin::inherited);
    EXPECT_COST(costs_of("Ascend910B4")->fixed(15.970), 16, Origin::inherited);
}

TEST(VectorCost, tables_are_found_by_instruction_and_dtypes) {
    const auto costs = costs_of("Ascend910B1");
    EXPECT_EQ(costs->vector_dtypes("VADD"),
              (std::vector<std::string>{"FP16 FP16 FP16", "FP32 FP32 FP32", "INT16 INT16 INT16", "INT32 INT32 INT32"}));
    EXPECT_TRUE(costs->vector_dtypes("VAD").empty());  // the beginning of a name is no name
    EXPECT_EQ(costs->find_vector("VADD", "BF16 BF16 BF16"), nullptr);
    const auto names = costs->vector_instructions();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_EQ(std::count(names.begin(), names.end(), "VADD"), 1);
    EXPECT_EQ(std::count(names.begin(), names.end(), "VGATHERB"), 1);
}

TEST(Rates, are_given_in_the_units_of_this_chip) {
    const auto b1 = costs_of("Ascend910B1"), b4 = costs_of("Ascend910B4");
    EXPECT_NEAR(*b1->move_rate(Memory::GM, Memory::UB, 1024, false), 7.29443411662 * per_gib, 1e-9);
    // the same time at 1500 MHz: more bytes in a cycle
    EXPECT_NEAR(*b4->move_rate(Memory::GM, Memory::UB, 1024, false), 7.29443411662 * per_gib * 1850 / 1500, 1e-9);
    EXPECT_NEAR(*b4->move_rate(Memory::L1, Memory::L0A, 1024, false), 286.91 * per_gib, 1e-9);
    EXPECT_NEAR(*b1->move_rate(Memory::GM, Memory::L1, 4096, true), 8.79 * per_gib, 1e-9);
    EXPECT_FALSE(b1->move_rate(Memory::UB, Memory::UB, 1024, true));
    EXPECT_FALSE(b1->move_rate(Memory::UB, Memory::L1, 1024, false));
    EXPECT_NEAR(*b1->move_repeat_rate(Memory::L1, Memory::L0A, 2), 349.97 * per_gib, 1e-9);
    EXPECT_NEAR(*b4->move_repeat_rate(Memory::GM, Memory::L0A, 1), 12.58 * per_gib * 1850 / 1500, 1e-9);
    EXPECT_FALSE(b1->move_repeat_rate(Memory::UB, Memory::UB, 2));
    EXPECT_FALSE(b1->move_repeat_rate(Memory::UB, Memory::L1, 2));
}

TEST(Rates, of_the_cube_are_in_mac_of_the_dtype) {
    const auto costs = costs_of("Ascend910B1");
    EXPECT_NEAR(*costs->mmad_rate(DType::FP16, 8192), 1684.903332, 1e-6);
    EXPECT_NEAR(*costs->mmad_rate(DType::INT8, 16384), 2 * 1684.903332, 1e-6);
    EXPECT_EQ(*costs->mmad_rate(DType::FP16, 1 << 20), 4096);
    EXPECT_EQ(*costs->mmad_rate(DType::FP32, 1 << 20), 1024);
    EXPECT_FALSE(costs->mmad_rate(DType::INT64, 8192));
    EXPECT_FALSE(costs->vector_rate("VADD", "INT64 INT64 INT64", 8192));
}

// A chip of one's own with one table each, to see what the loader refuses.
class CostTableTest : public testing::Test {
  protected:
    CostTableTest() {
        folder_.write("Mine/chip.csv",
                      "key,value\narchitecture,1\nclock_mhz,1000\nmmad_peak.FP16,4096\nmmad_fractal_k.FP16,16\n");
        folder_.write("Mine/paths.csv",
                      "source,target,pipe,port_bytes_per_cycle\nGM,UB,PIPE-MTE2,128\nUB,GM,PIPE-MTE3,128\n");
        folder_.write("Child/chip.csv", "key,value\nbase,Mine\nclock_mhz,500\nlost_instructions,VOLD\n");
    }
    std::shared_ptr<const Costs> costs(const std::string& chip = "Mine") {
        return std::make_shared<const Costs>(Chip::load(chip, {folder_.path()}));
    }
    std::string failure(const std::string& file, const std::string& text) {
        folder_.write("Mine/" + file, text);
        return error(ErrorKind::data, [&] { costs(); });
    }
    TempFolder folder_;
};

TEST_F(CostTableTest, a_chip_without_tables_has_theoretical_moves_only) {
    const auto mine = costs();
    EXPECT_COST(mine->move(*mine->chip().path(Memory::GM, Memory::UB), 256, false, 5, 0), 2, Origin::theoretical);
    EXPECT_TRUE(mine->vector_instructions().empty());
    EXPECT_EQ(error(ErrorKind::type, [&] { mine->mmad(DType::FP16, 1, 1, 1); }),
              "mmad: the cube of Mine does not take FP16; it takes FP16");
    EXPECT_FALSE(mine->mmad_rate(DType::FP16, 1));
    EXPECT_COST(mine->fixed(1.5), 2, Origin::measured);
}

TEST_F(CostTableTest, a_rate_below_a_quarter_of_the_best_is_a_failed_measurement) {
    EXPECT_EQ(
        failure("mov.csv", "path,bytes,gib_per_s\nGM_TO_UB,1,100\nGM_TO_UB,2,25\nGM_TO_UB,3,24.9\n"),
        "data: Mine/mov.csv:4: rate 24.9 is below a quarter of 100, the best rate at smaller sizes; such a point is a "
        "failed measurement, remove it");
    fs::remove(folder_.path() / "Mine/mov.csv");
    EXPECT_TRUE(has(failure("vec.csv", "instruction,dtypes,elements,bytes_per_cycle\nVADD,FP16,1,8\nVADD,FP16,2,1\n"),
                    "data: Mine/vec.csv:3: rate 1 is below a quarter of 8"));
}

TEST_F(CostTableTest, sizes_grow) {
    EXPECT_EQ(failure("mov.csv", "path,bytes,gib_per_s\nGM_TO_UB,8,100\nUB_TO_GM,4,100\nGM_TO_UB,8,100\n"),
              "data: Mine/mov.csv:4: size 8 does not follow a smaller one; sizes must grow");
    fs::remove(folder_.path() / "Mine/mov.csv");
    EXPECT_TRUE(has(failure("mov_repeat.csv", "path,repeat,gib_per_s\nGM_TO_UB,2,1\nGM_TO_UB,1,1\n"),
                    "data: Mine/mov_repeat.csv:3: size 1 does not follow a smaller one"));
}

TEST_F(CostTableTest, a_path_is_written_source_to_target) {
    EXPECT_EQ(failure("mov.csv", "path,bytes,gib_per_s\nGM-UB,8,100\n"),
              "data: Mine: path 'GM-UB' is not written SOURCE_TO_TARGET");
}

// cost.h promises an Error of kind data for every wrong table, and the message already says so.
TEST_F(CostTableTest, an_unknown_name_in_a_table_is_an_error_of_the_data) {
    EXPECT_TRUE(has(failure("mov.csv", "path,bytes,gib_per_s\nGM_TO_UC,8,100\n"),
                    "data: Mine: path 'GM_TO_UC': unknown mem_type 'UC'"));
    fs::remove(folder_.path() / "Mine/mov.csv");
    EXPECT_TRUE(has(failure("vec.csv", "instruction,dtypes,elements,bytes_per_cycle\nVADD,FP17,1,1\n"),
                    "data: Mine/vec.csv:2: unknown dtype 'FP17'"));
}

TEST_F(CostTableTest, a_rate_names_its_instruction_and_dtypes) {
    EXPECT_EQ(failure("vec.csv", "instruction,dtypes,elements,bytes_per_cycle\nVADD,,1,1\n"),
              "data: Mine/vec.csv:2: names no instruction or no dtypes");
    EXPECT_EQ(failure("vec.csv", "instruction,dtypes,elements,bytes_per_cycle\n,FP16,1,1\n"),
              "data: Mine/vec.csv:2: names no instruction or no dtypes");
    EXPECT_EQ(failure("vec.csv", "instruction,dtypes,elements,bytes_per_cycle\nVADD,FP16,0,1\n"),
              "data: Mine/vec.csv:2: elements is '0'; it must be a finite number above 0");
}

TEST_F(CostTableTest, rows_of_paths_the_chip_does_not_have_are_passed_over) {
    folder_.write("Mine/mov.csv", "path,bytes,gib_per_s\nL1_TO_L0A,8,100\nGM_TO_UB,1000,1\n");
    const auto mine = costs();
    EXPECT_FALSE(mine->move_rate(Memory::L1, Memory::L0A, 8, false));
    // 1 GiB/s = 1.073741824 B/cycle at 1000 MHz; 1000 / 1.0737 = 931.32
    EXPECT_COST(mine->move(*mine->chip().path(Memory::GM, Memory::UB), 1000, false, 1, 0), 932, Origin::measured);
}

TEST_F(CostTableTest, the_own_table_of_a_path_or_instruction_goes_before_the_base) {
    folder_.write("Mine/mov.csv", "path,bytes,gib_per_s\nGM_TO_UB,1000,1\nUB_TO_GM,1000,1\n");
    folder_.write("Mine/vec.csv",
                  "instruction,dtypes,elements,bytes_per_cycle\nVADD,fp16,100,2\nVSUB,FP16,100,2\nVOLD,FP16,100,2\n");
    folder_.write("Child/mov.csv", "path,bytes,gib_per_s\nGM_TO_UB,1000,2\n");
    folder_.write("Child/vec.csv", "instruction,dtypes,elements,bytes_per_cycle\nvadd,FP16,100,4\n");
    const auto child = costs("Child");
    // own: 2 GiB/s = 4.294967296 B/cycle at 500 MHz; 232.83
    EXPECT_COST(child->move(*child->chip().path(Memory::GM, Memory::UB), 1000, false, 1, 1), 233, Origin::measured);
    // the base's 931.32 cycles take half as many at half the clock
    EXPECT_COST(child->move(*child->chip().path(Memory::UB, Memory::GM), 1000, false, 1, 1), 466, Origin::inherited);
    EXPECT_COST(child->vector(*child->find_vector("VADD", "FP16"), DType::FP16, 100), 50, Origin::measured);
    EXPECT_COST(child->vector(*child->find_vector("VSUB", "FP16"), DType::FP16, 100), 100, Origin::inherited);
    EXPECT_EQ(child->find_vector("VOLD", "FP16"), nullptr);
    EXPECT_COST(child->fixed(3), 3, Origin::measured);
}

TEST_F(CostTableTest, a_table_without_its_columns_is_refused) {
    EXPECT_EQ(failure("mmad.csv", "instruction,dtypes,mac\n"),
              "data: Mine/mmad.csv has no column 'mac_per_cycle'; it has instruction, dtypes, mac, it needs "
              "instruction, dtypes, "
              "mac, mac_per_cycle");
}

}  // namespace
}  // namespace mskpp::test
