// SPDX-License-Identifier: Apache-2.0
// Recording: what an instruction becomes, what is refused and with which words, and that a refusal changes nothing.
#include <limits>

#include "fixture.h"

namespace mskpp::test {
namespace {

// All of a program that can be seen from outside.
struct Snapshot {
    std::size_t instructions, dependencies, pipes, cores, names, scopes;
    bool operator==(const Snapshot&) const = default;
};

void PrintTo(const Snapshot& snapshot, std::ostream* out) {
    *out << snapshot.instructions << " instructions, " << snapshot.dependencies << " dependencies, " << snapshot.pipes
         << " pipes, " << snapshot.cores << " cores, " << snapshot.names << " names, " << snapshot.scopes << " scopes";
}

Snapshot snapshot(const Model& model) {
    const Program& program = *model.program;
    return {program.size(),         program.dependency_count(), program.pipes().size(),
            program.cores().size(), program.names().size(),     program.scopes().size()};
}

TEST(SourceTable, keeps_the_name_of_the_file_and_the_line) {
    SourceTable table;
    const std::uint32_t id = table.add("/home/user/kernel.py", 18);
    EXPECT_EQ(table.text(id), "kernel.py:18");
    EXPECT_EQ(table.add("kernel.py", 18), id);
    EXPECT_NE(table.add("kernel.py", 19), id);
    EXPECT_EQ(table.text(0), "");
}

TEST(Recording, a_move_has_path_pipe_bytes_cost_and_line) {
    Model model;
    model.on("aic0");
    const std::uint32_t i =
        model.line(31).load(tensor(Memory::L0A, {128, 128}), tensor(Memory::L1, {128, 128}, DType::FP16, true));
    const Record& record = model.program->record(i);
    EXPECT_EQ(model.name_of(i), "MOV-L1_TO_L0A");
    EXPECT_EQ(model.pipe_of(i), "aic0-PIPE-MTE1");
    EXPECT_EQ(record.kind, Kind::move);
    EXPECT_EQ(record.work, 32768);
    EXPECT_EQ(record.cycles, 131);  // test_cost.cpp
    EXPECT_EQ(record.origin, Origin::measured);
    EXPECT_EQ(model.program->source_text(record.line), "kernel.py:31");
}

TEST(Recording, pipes_outside_any_core_have_no_prefix) {
    Model model;
    EXPECT_EQ(model.pipe_of(model.own(Pipe::MTE2, 1)), "PIPE-MTE2");
    model.on("aiv0");
    EXPECT_EQ(model.pipe_of(model.own(Pipe::MTE2, 1)), "aiv0-PIPE-MTE2");
    EXPECT_EQ(model.program->pipes().size(), 2u);
    EXPECT_EQ(model.program->cores(), (std::vector<std::string>{"", "aiv0"}));
}

TEST(Recording, a_target_takes_what_it_lacks_from_the_source) {
    Model model;
    Tensor target(Memory::L1);
    model.load(target, tensor(Memory::GM, {64, 32}, DType::BF16, false, Format::NZ));
    EXPECT_EQ(target.dtype(), DType::BF16);
    EXPECT_EQ(target.shape().text(), "[64,32]");
    EXPECT_EQ(target.format(), Format::NZ);
}

TEST(Recording, a_target_keeps_what_it_has) {
    Model model;
    Tensor target = tensor(Memory::L1, {4096}, DType::FP16, false, Format::NZ);
    model.load(target, tensor(Memory::GM, {64, 32}, DType::FP16, false, Format::ND));
    EXPECT_EQ(target.shape().text(), "[4096]");
    EXPECT_EQ(target.format(), Format::NZ);
    EXPECT_EQ(model.program->record(0).work, 4096);  // the source's bytes
    // The format changes on the way: 8.79 GiB/s for 4096 bytes, and no cache hits
    EXPECT_EQ(model.program->record(0).cycles, 3613);
}

TEST(Recording, the_cache_hit_ratio_holds_from_then_on) {
    Model model;
    const Tensor source = tensor(Memory::GM, {512});
    model.load(Tensor(Memory::L1), source);
    model.program->set_cache_hit_ratio(0.5);
    model.load(Tensor(Memory::L1), source);
    model.program->set_cache_hit_ratio(1);
    model.load(Tensor(Memory::L1), source);
    EXPECT_EQ(model.program->record(0).cycles, 800);
    EXPECT_EQ(model.program->record(1).cycles, 291);
    EXPECT_EQ(model.program->record(2).cycles, 178);
    Model other;  // the ratio is the program's own
    other.load(Tensor(Memory::L1), source);
    EXPECT_EQ(other.program->record(0).cycles, 800);
    for (const double wrong : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_TRUE(
            has(error(ErrorKind::value, [&] { model.program->set_cache_hit_ratio(wrong); }), "allowed are 0 to 1"));
    EXPECT_EQ(error(ErrorKind::value, [&] { model.program->set_cache_hit_ratio(2); }),
              "Chip: cache_hit_ratio is 2; allowed are 0 to 1");
}

TEST(Recording, costs_remembered_from_one_move_do_not_leak_into_another) {
    Model model;
    const Tensor small = tensor(Memory::L1, {512}, DType::FP16, true),
                 large = tensor(Memory::L1, {16384}, DType::FP16, true);
    LoadOptions twice;
    twice.repeat = 2;
    std::vector<std::int64_t> cycles;
    for (int round = 0; round < 2; ++round) {
        cycles.push_back(model.program->record(model.load(Tensor(Memory::L0A), small)).cycles);
        cycles.push_back(model.program->record(model.load(Tensor(Memory::L0A), small, twice)).cycles);
        cycles.push_back(model.program->record(model.load(Tensor(Memory::L0A), large)).cycles);
    }
    EXPECT_EQ(cycles, (Ends{7, 6, 131, 7, 6, 131}));
}

TEST(Recording, costs_remembered_from_one_computation_do_not_leak_into_another) {
    Model model;
    Tensor half = tensor(Memory::UB, {128}, DType::FP16, true), single = tensor(Memory::UB, {1024}, DType::FP32, true);
    Tensor long_half = tensor(Memory::UB, {2048}, DType::FP16, true);
    std::vector<std::int64_t> cycles;
    for (int round = 0; round < 2; ++round) {
        Tensor out(Memory::UB);
        model.issue("vadd", {&half, &half, &out});
        cycles.push_back(model.program->record(model.last()).cycles);  // 128 * 2 / 42.26 = 6.06
        model.issue("vadd", {&single, &single, &out});
        cycles.push_back(model.program->record(model.last()).cycles);  // 1024 * 4 / 127.868 = 32.03
        model.issue("vadd", {&long_half, &long_half, &out});
        cycles.push_back(model.program->record(model.last()).cycles);  // 2048 * 2 / 127.7165 = 32.07
        model.issue("vabs", {&half, &out});
        cycles.push_back(model.program->record(model.last()).cycles);  // 128 * 2 / 63.08 = 4.06
    }
    EXPECT_EQ(cycles, (Ends{7, 33, 33, 5, 7, 33, 33, 5}));
}

TEST(Recording, as_many_elements_of_another_dtype_cost_something_else) {
    Model model;
    Tensor half = tensor(Memory::UB, {128}, DType::FP16, true), single = tensor(Memory::UB, {128}, DType::FP32, true);
    std::vector<std::int64_t> cycles;
    for (Tensor* x : {&half, &single, &half}) {
        Tensor out(Memory::UB);
        model.issue("vadd", {x, x, &out});
        cycles.push_back(model.program->record(model.last()).cycles);
    }
    EXPECT_EQ(cycles, (Ends{7, 5, 7}));  // FP32: 128 * 4 / 125.8614565 = 4.07
}

TEST(Recording, a_computation_has_pipe_operations_cost_and_output) {
    Model model;
    Tensor x = tensor(Memory::UB, {2, 64}, DType::FP16, true, Format::NZ),
           y = tensor(Memory::UB, {64}, DType::FP16, true);
    Tensor z = tensor(Memory::UB, {7}, DType::INT8);
    const Tensor out = model.issue("vadd", {&x, &y, &z});
    EXPECT_EQ(out.storage(), z.storage());
    EXPECT_EQ(z.dtype(), DType::FP16);
    EXPECT_EQ(z.shape().text(), "[2,64]");
    EXPECT_EQ(z.format(), Format::NZ);
    EXPECT_EQ(model.pipe_of(0), "PIPE-V");
    EXPECT_EQ(model.name_of(0), "VADD");
    EXPECT_EQ(model.program->record(0).work, 128);
    EXPECT_EQ(model.program->record(0).cycles, 7);
    EXPECT_EQ(model.program->record(0).kind, Kind::computation);
}

TEST(Recording, work_of_a_fill_is_that_of_its_output) {
    Model model;
    Tensor x = tensor(Memory::UB, {1}, DType::FP16, true), y(Memory::UB);
    Attributes fill;
    fill.shape = Shape{2, 64};
    model.issue("vector_dup", {&x, &y}, fill);
    EXPECT_EQ(model.program->record(0).work, 128);
    EXPECT_EQ(model.program->record(0).cycles, 4);  // 128 * 2 / 84.38484765 = 3.03
}

TEST(Recording, fixed_costs_and_keyed_dtypes) {
    Model model;
    Tensor x = tensor(Memory::UB, {256}, DType::FP16, true), y(Memory::UB);
    model.issue("vtranspose", {&x, &y});
    EXPECT_EQ(model.program->record(0).cycles, 22);  // 21.168
    Attributes int4;
    int4.dtype = DType::INT4;
    Tensor few = tensor(Memory::UB, {128}, DType::FP16, true);
    model.issue("vconv", {&few, &y}, int4);
    EXPECT_EQ(model.program->record(1).cycles, 4);  // 128 * 2 / 84.04395893 = 3.05
    EXPECT_EQ(y.dtype(), DType::INT4);
}

TEST(Recording, mmad_makes_a_new_tensor_in_l0c) {
    Model model;
    Tensor x = tensor(Memory::L0A, {16, 32}, DType::FP16, true, Format::NZ),
           y = tensor(Memory::L0B, {32, 16}, DType::FP16, true);
    Tensor b = tensor(Memory::L0C, {16, 16}, DType::FP32);
    Attributes inited;
    inited.flag = true;
    Tensor c = model.issue("mmad", {&x, &y, &b}, inited);
    EXPECT_EQ(c.memory(), Memory::L0C);
    EXPECT_NE(c.storage(), b.storage());
    EXPECT_EQ(c.dtype(), DType::FP32);
    EXPECT_EQ(c.shape().text(), "[16,16]");
    EXPECT_EQ(c.format(), Format::NZ);  // b's is ND, so x's
    EXPECT_EQ(model.pipe_of(0), "PIPE-M");
    EXPECT_EQ(model.program->record(0).work, 8192);
    EXPECT_EQ(model.program->record(0).cycles, 5);
    EXPECT_TRUE(model.waits(0).empty());
}

TEST(Recording, mmad_reports_the_users_own_work_and_passes_its_result_on) {
    Model model;
    Tensor x = tensor(Memory::L0A, {1, 5}, DType::FP16, true), y = tensor(Memory::L0B, {5, 3}, DType::FP16, true);
    Tensor bias = tensor(Memory::BT, {3}, DType::FP32, true);
    Tensor c = model.issue("mmad", {&x, &y, &bias});
    model.issue("mmad", {&x, &y, &c});
    EXPECT_EQ(model.program->record(0).work, 15);
    EXPECT_EQ(model.program->record(1).cycles, 5);  // a whole fractal
    EXPECT_EQ(model.waits(1), Set{0});
}

TEST(Recording, int4_counts_half_bytes) {
    Model model;
    model.load(Tensor(Memory::UB), tensor(Memory::GM, {5}, DType::INT4));
    EXPECT_EQ(model.program->record(0).work, 3);
}

TEST(Recording, an_own_instruction_is_taken_as_it_is) {
    Model model;
    const std::uint32_t i = model.line(5).own(Pipe::S, 123, {}, {}, "MYSORT", 77);
    EXPECT_EQ(model.name_of(i), "MYSORT");
    EXPECT_EQ(model.program->record(i).cycles, 123);
    EXPECT_EQ(model.program->record(i).work, 77);
    EXPECT_EQ(model.program->record(i).origin, Origin::user);
}

TEST(Recording, knows_65534_different_instructions) {
    Model model;
    for (int i = 0; i < 65534; ++i) {
        const std::string name = "N" + std::to_string(i);
        model.program->add_own({name, Pipe::V, Kind::computation, {}, {}, 0, 1}, {});
    }
    EXPECT_EQ(error(ErrorKind::value, [&] { model.own(Pipe::V, 1, {}, {}, "ONE"); }),
              "program: more than 65534 different instructions");
    EXPECT_EQ(model.program->size(), 65534u);
    EXPECT_EQ(model.name_of(model.own(Pipe::V, 1, {}, {}, "N7")), "N7");  // one it knows already
}

// --- what a load refuses ---

std::string refused(Tensor target, const Tensor& source, ErrorKind kind = ErrorKind::value,
                    const LoadOptions& options = {}, const std::string& chip = "Ascend910B1") {
    Model model(chip);
    const Snapshot before = snapshot(model);
    const TensorType type = target.has_shape() ? target.type() : TensorType{target.dtype(), target.format(), {}};
    const std::string message = error(kind, [&] { model.program->load(target, source, options); });
    EXPECT_EQ(snapshot(model), before);
    EXPECT_EQ(target.dtype(), type.dtype);
    EXPECT_EQ(target.format(), type.format);
    return message;
}

TEST(LoadErrors, an_illegal_path_lists_the_legal_ones) {
    EXPECT_EQ(refused(Tensor(Memory::L0A), tensor(Memory::UB, {4})),
              "load: Ascend910B1 has no path UB to L0A; from UB data goes to GM, UB");
    EXPECT_EQ(refused(Tensor(Memory::L0A), tensor(Memory::BT, {4})),
              "load: Ascend910B1 has no path BT to L0A; from BT data goes to nowhere");
}

TEST(LoadErrors, the_source_has_a_type) {
    EXPECT_EQ(refused(Tensor(Memory::UB), Tensor(Memory::GM)),
              "load: the source, a GM tensor [?] none, has no dtype or no size yet; give it both, or load it first");
    EXPECT_EQ(refused(Tensor(Memory::UB), Tensor(Memory::GM, DType::FP16)),
              "load: the source, a GM tensor [?] FP16, has no dtype or no size yet; give it both, or load it first");
    EXPECT_EQ(refused(Tensor(Memory::UB), tensor(Memory::GM, {4}, DType::unset)),
              "load: the source, a GM tensor [4] none, has no dtype or no size yet; give it both, or load it first");
}

TEST(LoadErrors, dtypes_agree) {
    EXPECT_EQ(
        refused(tensor(Memory::UB, {4}, DType::FP32), tensor(Memory::GM, {4}), ErrorKind::type),
        "load: the source is FP16 [4] in GM but the target is FP32 in UB; dtypes must agree, but from L0C, where FP32 "
        "becomes FP16 or BF16 and INT32 FP16 or INT8");
}

TEST(LoadErrors, only_l0c_converts_dtypes) {
    const auto passes = [](DType from, DType to) {
        Model model;
        try {
            model.load(tensor(Memory::GM, {1024}, to), tensor(Memory::L0C, {1024}, from, true));
        } catch (const Error&) {
            return false;
        }
        return true;
    };
    const std::set<std::pair<DType, DType>> legal = {{DType::FP32, DType::FP16},
                                                     {DType::FP32, DType::BF16},
                                                     {DType::INT32, DType::FP16},
                                                     {DType::INT32, DType::INT8}};
    for (int from = 1; from < 16; ++from)
        for (int to = 1; to < 16; ++to) {
            const std::pair pair{static_cast<DType>(from), static_cast<DType>(to)};
            EXPECT_EQ(passes(pair.first, pair.second), from == to || legal.count(pair) == 1)
                << name(pair.first) << " to " << name(pair.second);
        }
}

TEST(LoadErrors, only_two_paths_convert_formats) {
    const auto passes = [](Memory source, Memory target, Format from, Format to) {
        Model model;
        try {
            model.load(tensor(target, {1024}, DType::FP16, false, to), tensor(source, {1024}, DType::FP16, true, from));
        } catch (const Error& thrown) {
            EXPECT_TRUE(has(thrown.what(), std::string(name(from)))) << thrown.what();
            EXPECT_TRUE(has(thrown.what(), std::string(name(to)))) << thrown.what();
            return false;
        }
        return true;
    };
    for (const auto& [source, target] : {std::pair{Memory::GM, Memory::L1},
                                         {Memory::L0C, Memory::GM},
                                         {Memory::GM, Memory::UB},
                                         {Memory::L1, Memory::L0A},
                                         {Memory::L0C, Memory::L1}})
        for (int from = 1; from < 7; ++from)
            for (int to = 0; to < 7; ++to) {
                const auto a = static_cast<Format>(from), b = static_cast<Format>(to);
                const bool in = source == Memory::GM && target == Memory::L1 &&
                                ((a == Format::ND && b == Format::NZ) || (a == Format::NHWC && b == Format::NC1HWC0));
                const bool out = source == Memory::L0C && target == Memory::GM &&
                                 ((a == Format::NZ && b == Format::ND) || (a == Format::NC1HWC0 && b == Format::NHWC));
                EXPECT_EQ(passes(source, target, a, b), a == b || b == Format::unset || in || out)
                    << path_name(source, target) << ' ' << name(a) << " to " << name(b);
            }
}

TEST(LoadErrors, formats_are_named_with_what_converts) {
    EXPECT_EQ(
        refused(tensor(Memory::UB, {4}, DType::FP16, false, Format::NZ), tensor(Memory::GM, {4}), ErrorKind::type),
        "load: the source is ND in GM but the target is NZ in UB; on the way only GM to L1 converts (ND to NZ, NHWC to "
        "NC1HWC0) and L0C to GM (NZ to ND, NC1HWC0 to NHWC)");
}

TEST(LoadErrors, the_target_is_large_enough) {
    EXPECT_EQ(refused(tensor(Memory::UB, {4, 7}), tensor(Memory::GM, {4, 8})),
              "load: the target [4,7] is smaller than the source [4,8]; it must hold at least 32 elements");
    EXPECT_TRUE(has(refused(rows(tensor(Memory::UB, {4, 8}), 0, 2), tensor(Memory::GM, {4, 8})),
                    "the target [2,8] is smaller"));
}

TEST(LoadErrors, repeats_are_positive) {
    LoadOptions none_at_all;
    none_at_all.repeat = 0;
    EXPECT_EQ(refused(Tensor(Memory::UB), tensor(Memory::GM, {4}), ErrorKind::value, none_at_all),
              "load: repeat is 0; it must be at least 1");
}

TEST(LoadErrors, registers_need_a_vector_scope) {
    Model model("Ascend950PR_9589");
    Tensor target(Memory::VEC);
    EXPECT_EQ(error(ErrorKind::state, [&] { model.load(target, tensor(Memory::UB, {128}, DType::FP16, true)); }),
              "load: vector registers are used inside `with VecScope(name):` only");
    EXPECT_EQ(target.dtype(), DType::unset);
    EXPECT_EQ(model.program->size(), 0u);
}

// --- what a computation refuses ---

std::string refused(const std::string& function, std::vector<Tensor*> operands, ErrorKind kind = ErrorKind::value,
                    const Attributes& attributes = {}, const std::string& chip = "Ascend910B1") {
    Model model(chip);
    const Snapshot before = snapshot(model);
    std::vector<TensorType> types;
    for (const Tensor* one : operands) types.push_back(one == nullptr ? TensorType{} : one->storage()->type);
    const std::string message = error(kind, [&] { model.issue(function, operands, attributes); });
    EXPECT_EQ(snapshot(model), before);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == nullptr) continue;
        EXPECT_EQ(operands[i]->storage()->type.dtype, types[i].dtype);
        EXPECT_EQ(operands[i]->storage()->type.format, types[i].format);
        EXPECT_TRUE(operands[i]->storage()->type.shape == types[i].shape);
    }
    return message;
}

class VectorErrors : public testing::Test {
  protected:
    Tensor x = tensor(Memory::UB, {32, 48}), y = tensor(Memory::UB, {32, 48}), z = Tensor(Memory::UB);
};

TEST_F(VectorErrors, operands_lie_in_ub) {
    Tensor l1 = tensor(Memory::L1, {32, 48});
    EXPECT_EQ(refused("vadd", {&l1, &y, &z}), "vadd: x lies in L1; it must lie in UB");
    EXPECT_EQ(refused("vadd", {&x, &l1, &z}), "vadd: y lies in L1; it must lie in UB");
    EXPECT_EQ(refused("vadd", {&x, &y, &l1}), "vadd: z lies in L1; it must lie in UB");
}

TEST_F(VectorErrors, inputs_have_a_type) {
    EXPECT_EQ(refused("vadd", {&z, &y, &x}),
              "vadd: x, a UB tensor [?] none, has no dtype or no size yet; give it both, or load it first");
    Tensor untyped = tensor(Memory::UB, {32, 48}, DType::unset);
    EXPECT_EQ(refused("vadd", {&x, &untyped, &z}),
              "vadd: y, a UB tensor [32,48] none, has no dtype or no size yet; give it both, or load it first");
}

TEST_F(VectorErrors, x_and_y_agree) {
    Tensor bytes = tensor(Memory::UB, {32, 48}, DType::INT8), odd = tensor(Memory::UB, {32, 47});
    EXPECT_EQ(refused("vadd", {&x, &bytes, &z}, ErrorKind::type),
              "vadd: x is FP16 [32,48] but y is INT8 [32,48]; their dtypes must agree");
    EXPECT_EQ(refused("vadd", {&x, &odd, &z}),
              "vadd: x is FP16 [32,48] but y is FP16 [32,47]; each axis of y must equal x's or be 1");
    EXPECT_TRUE(has(refused("vadds", {&x, &odd, &z}), "each axis of y must equal x's or be 1"));
}

TEST_F(VectorErrors, y_may_be_broadcast_to_x_and_not_x_to_y) {
    for (const Shape& shape : {Shape{1}, Shape{48}, Shape{1, 48}, Shape{32, 1}, Shape{1, 1}, Shape{1, 1, 1}}) {
        Model model;
        Tensor small = tensor(Memory::UB, shape, DType::FP16, true), out(Memory::UB);
        model.issue("vadd", {&x, &small, &out});
        EXPECT_EQ(out.shape().text(), "[32,48]") << shape.text();
        EXPECT_TRUE(has(refused("vadd", {&small, &x, &out}), "each axis of y must equal x's or be 1"));
    }
    Tensor deeper = tensor(Memory::UB, {1, 32, 48});
    EXPECT_TRUE(has(refused("vadd", {&x, &deeper, &z}), "each axis of y must equal x's or be 1"));
}

TEST_F(VectorErrors, other_keys_leave_y_free) {
    Model model;
    Tensor list = tensor(Memory::UB, {7}, DType::UINT64, true), out(Memory::UB);
    model.issue("vmrgsort", {&x, &list, &out});
    EXPECT_EQ(out.shape().text(), "[32,48]");
    EXPECT_EQ(refused("vmrgsort", {&x, nullptr, &z}, ErrorKind::type),
              "vmrgsort: y must be a Tensor; its dtype decides the cost");
}

TEST_F(VectorErrors, a_number_may_stand_for_a_scalar) {
    Model model;
    model.issue("vadds", {&x, nullptr, &z});
    EXPECT_EQ(z.shape().text(), "[32,48]");
}

TEST_F(VectorErrors, no_cost_is_no_guess) {
    Tensor b = tensor(Memory::UB, {64}, DType::BF16), c = tensor(Memory::UB, {64}, DType::BF16);
    EXPECT_EQ(
        refused("vadd", {&b, &c, &z}, ErrorKind::type),
        "vadd: no cost for BF16 BF16 BF16 on Ascend910B1; costs exist for FP16 FP16 FP16, FP32 FP32 FP32, INT16 INT16 "
        "INT16, INT32 INT32 INT32. Register one: docs/add_an_instruction.md");
}

TEST_F(VectorErrors, no_cost_at_all_is_said) {
    Model model;
    Instruction own = instruction("vabs");
    own.function = "vnew";
    own.name = "VNEW";
    Call call;
    call.operands[0] = &x;
    call.operands[1] = &z;
    EXPECT_EQ(
        error(ErrorKind::type, [&] { model.program->issue(own, call); }),
        "vnew: no cost for FP16 FP16 on Ascend910B1; costs exist for none. Register one: docs/add_an_instruction.md");
    EXPECT_EQ(z.dtype(), DType::unset);
}

TEST_F(VectorErrors, a_chip_may_lack_an_instruction) {
    EXPECT_EQ(refused("vaddrelu", {&x, &y, &z}, ErrorKind::value, {}, "Ascend950PR_9589"),
              "vaddrelu: Ascend950PR_9589 (architecture 3510) does not have this instruction");
}

TEST_F(VectorErrors, registers_need_architecture_3510_and_a_scope) {
    Tensor a = tensor(Memory::VEC, {64}), b = tensor(Memory::VEC, {64}), c(Memory::VEC);
    EXPECT_EQ(refused("rv_vadd", {&a, &b, &c}),
              "rv_vadd: Ascend910B1 (architecture 2201) has no vector registers; they came with "
              "architecture 3510");
    EXPECT_EQ(refused("rv_vadd", {&x, &b, &c}, ErrorKind::value, {}, "Ascend950PR_9589"),
              "rv_vadd: x lies in UB; it must lie in VEC");
    EXPECT_EQ(refused("rv_vadd", {&a, &b, &c}, ErrorKind::state, {}, "Ascend950PR_9589"),
              "rv_vadd: vector registers are used inside `with VecScope(name):` only");
    Tensor wide = tensor(Memory::VEC, {64}, DType::FP32);
    EXPECT_TRUE(
        has(refused("rv_vadd", {&a, &wide, &c}, ErrorKind::type, {}, "Ascend950PR_9589"), "their dtypes must agree"));
}

// Its shape would change under the read: no instruction changes the shape of a tensor it reads.
TEST_F(VectorErrors, a_reduction_does_not_write_what_it_reads) {
    Model model;
    Tensor t = tensor(Memory::UB, {4, 128});
    const std::uint32_t upper = model.own(Pipe::MTE2, 1, {}, {rows(t, 0, 2)}),
                        lower = model.own(Pipe::MTE3, 1, {}, {rows(t, 2, 4)});
    Attributes all;
    all.count = 128;
    try {
        model.issue("vcadd", {&t, &t}, all);
    } catch (const Error& thrown) {
        EXPECT_TRUE(has(thrown.what(), "vcadd: ")) << thrown.what();
        EXPECT_EQ(t.shape().text(), "[4,128]");
        return;
    }
    EXPECT_EQ(model.waits(model.last()), (Set{upper, lower}));  // if it is taken, it waits for all that it reads
}

class MmadErrors : public testing::Test {
  protected:
    Tensor x = tensor(Memory::L0A, {32, 16}), y = tensor(Memory::L0B, {16, 48}),
           b = tensor(Memory::L0C, {32, 48}, DType::FP32);
};

TEST_F(MmadErrors, operands_lie_where_the_cube_reads) {
    EXPECT_EQ(refused("mmad", {&y, &y, &b}), "mmad: x lies in L0B; it must lie in L0A");
    EXPECT_EQ(refused("mmad", {&x, &x, &b}), "mmad: y lies in L0A; it must lie in L0B");
    EXPECT_EQ(refused("mmad", {&x, &y, &x}), "mmad: b lies in L0A; it must lie in L0C or BT");
}

TEST_F(MmadErrors, operands_have_a_type) {
    Tensor untyped(Memory::L0C);
    EXPECT_EQ(refused("mmad", {&x, &y, &untyped}),
              "mmad: b, a L0C tensor [?] none, has no dtype or no size yet; give it both, or load it first");
}

TEST_F(MmadErrors, shapes_fit) {
    Tensor deep = tensor(Memory::L0A, {1, 32, 16}), other = tensor(Memory::L0B, {17, 48}),
           flat = tensor(Memory::L0B, {16});
    EXPECT_EQ(refused("mmad", {&deep, &y, &b}),
              "mmad: x is [1,32,16] and y is [16,48]; they must be [m,k] and [k,n] with the same k");
    EXPECT_EQ(refused("mmad", {&x, &other, &b}),
              "mmad: x is [32,16] and y is [17,48]; they must be [m,k] and [k,n] with the same k");
    EXPECT_EQ(refused("mmad", {&x, &flat, &b}),
              "mmad: x is [32,16] and y is [16]; they must be [m,k] and [k,n] with the same k");
    Tensor small = tensor(Memory::L0C, {32, 47}, DType::FP32), bias = tensor(Memory::BT, {47}, DType::FP32);
    EXPECT_EQ(refused("mmad", {&x, &y, &small}), "mmad: b is [32,47] in L0C; it must be [m,n] = [32,48]");
    EXPECT_EQ(refused("mmad", {&x, &y, &bias}), "mmad: b is [47] in BT; it must be [n] = [48]");
}

TEST_F(MmadErrors, dtypes_fit) {
    Tensor single = tensor(Memory::L0B, {16, 48}, DType::FP32), halves = tensor(Memory::L0C, {32, 48}, DType::INT32);
    EXPECT_EQ(refused("mmad", {&x, &single, &b}, ErrorKind::type),
              "mmad: x is FP16 [32,16] but y is FP32 [16,48]; their dtypes must agree");
    EXPECT_EQ(refused("mmad", {&x, &y, &halves}, ErrorKind::type),
              "mmad: b is INT32 but x is FP16; b must be FP32 (or FP16, BF16)");
    Tensor xi = tensor(Memory::L0A, {32, 16}, DType::INT8), yu = tensor(Memory::L0B, {16, 48}, DType::UINT8);
    EXPECT_EQ(refused("mmad", {&xi, &yu, &b}, ErrorKind::type), "mmad: b is FP32 but x is INT8; b must be INT32");
    Model model;
    model.issue("mmad", {&xi, &yu, &halves});  // the two kinds of bytes mix
    Tensor xb = tensor(Memory::L0A, {32, 16}, DType::INT16), yb = tensor(Memory::L0B, {16, 48}, DType::INT16);
    EXPECT_TRUE(has(refused("mmad", {&xb, &yb, &halves}, ErrorKind::type),
                    "mmad: the cube of Ascend910B1 does not take INT16"));
}

TEST_F(MmadErrors, a_product_that_is_too_large_is_told_by_mmad) {
    Tensor tall = tensor(Memory::L0A, {65536, 16}), wide = tensor(Memory::L0B, {16, 65536}),
           bias = tensor(Memory::BT, {65536}, DType::FP32);
    EXPECT_TRUE(has(refused("mmad", {&tall, &wide, &bias}), "mmad: "));
    Tensor flat = tensor(Memory::L0C, {16}, DType::FP32);
    EXPECT_TRUE(has(refused("mmad", {&tall, &wide, &flat}), "mmad: "));
}

// --- cores, scopes, flags, barriers ---

TEST(Cores, have_names_of_letters_and_digits) {
    Model model;
    const std::uint16_t first = model.program->core("aic0");
    EXPECT_EQ(model.program->core("aic0"), first);
    EXPECT_NE(model.program->core("AIC0"), first);
    EXPECT_GT(model.program->core(std::string(128, 'x')), 0);
    for (const std::string& wrong :
         {std::string(), std::string("aic 0"), std::string("aic_0"), std::string("a-b"), std::string("\xC3\xA9")})
        EXPECT_EQ(error(ErrorKind::value, [&] { model.program->core(wrong); }),
                  "Core: name '" + wrong + "'; allowed are 1 to 128 letters A-Z a-z and digits 0-9");
    EXPECT_TRUE(has(error(ErrorKind::value, [&] { model.program->core(std::string(129, 'x')); }),
                    "Core: name '" + std::string(64, 'x') + "'"));
}

TEST(Cores, are_at_most_4095) {
    Model model;
    for (int i = 1; i <= 4095; ++i) model.program->core("c" + std::to_string(i));
    EXPECT_EQ(error(ErrorKind::value, [&] { model.program->core("c4096"); }),
              "Core: more than 4095 cores in one program");
    EXPECT_EQ(model.program->core("c4095"), 4095);
}

class Scopes : public testing::Test {
  protected:
    void open(const std::string& name) { model.place.scope = model.program->open_scope(name, model.place.core); }
    std::string load() { return model.pipe_of(model.load(Tensor(Memory::VEC), source)); }
    std::string store() { return model.pipe_of(model.load(Tensor(Memory::UB), registers)); }
    std::string add() {
        Tensor out(Memory::VEC);
        model.issue("rv_vadd", {&registers, &registers, &out});
        return model.pipe_of(model.last());
    }
    Model model{"Ascend950PR_9589"};
    Tensor source = tensor(Memory::UB, {128}, DType::FP16, true),
           registers = tensor(Memory::VEC, {128}, DType::FP16, true);
};

TEST_F(Scopes, slots_are_taken_in_turn_from_the_first) {
    model.on("aiv0");
    open("one");
    EXPECT_EQ(load(), "aiv0-RVECLD0");
    EXPECT_EQ(load(), "aiv0-RVECLD1");
    EXPECT_EQ(add(), "aiv0-RVECEX0");
    EXPECT_EQ(load(), "aiv0-RVECLD0");
    EXPECT_EQ(add(), "aiv0-RVECEX1");
    EXPECT_EQ(store(), "aiv0-RVECST");
    EXPECT_EQ(store(), "aiv0-RVECST");
    open("two");
    EXPECT_EQ(load(), "aiv0-RVECLD0");
    EXPECT_EQ(add(), "aiv0-RVECEX0");
    EXPECT_EQ(model.name_of(0), "RV_VLD");
    EXPECT_EQ(model.name_of(5), "RV_VST");
}

TEST_F(Scopes, count_their_slots_over_more_than_a_byte) {
    open("long");
    for (int i = 0; i < 300; ++i) ASSERT_EQ(load(), i % 2 == 0 ? "RVECLD0" : "RVECLD1") << i;
}

TEST_F(Scopes, span_their_instructions_on_register_pipes) {
    open("one");
    model.own(Pipe::V, 1);
    load();
    model.own(Pipe::V, 1);
    store();
    model.own(Pipe::V, 1);
    ASSERT_EQ(model.program->scopes().size(), 1u);
    EXPECT_EQ(model.program->scopes()[0].name, "one");
    EXPECT_EQ(model.program->scopes()[0].first, 1u);
    EXPECT_EQ(model.program->scopes()[0].last, 3u);
    open("empty");
    EXPECT_EQ(model.program->scopes()[1].first, none);
}

TEST_F(Scopes, a_register_holds_256_bytes) {
    open("one");
    Tensor many = tensor(Memory::VEC, {129}, DType::FP16, true), out(Memory::VEC);
    model.issue("rv_vadd", {&many, &many, &out});
    EXPECT_EQ(model.program->record(0).cycles, 2);  // 258 bytes are two registers, a cycle each
    EXPECT_EQ(model.program->record(0).origin, Origin::theoretical);
    add();
    EXPECT_EQ(model.program->record(1).cycles, 1);
}

TEST_F(Scopes, a_refused_load_takes_no_slot) {
    open("one");
    error(ErrorKind::type, [&] { model.load(tensor(Memory::VEC, {128}, DType::FP32), source); });
    EXPECT_EQ(load(), "RVECLD0");
    Tensor wide = tensor(Memory::VEC, {128}, DType::FP32, true), out(Memory::VEC);
    error(ErrorKind::type, [&] { model.issue("rv_vadd", {&registers, &wide, &out}); });
    EXPECT_EQ(add(), "RVECEX0");
}

TEST(Flags, sit_on_their_pipes_and_take_a_cycle) {
    Model model;
    model.on("aic0");
    model.line(7).set_flag("PIPE-MTE2", "PIPE-M", 65535);
    model.wait_flag("PIPE-MTE2", "PIPE-M", 65535);
    EXPECT_EQ(model.pipe_of(0), "aic0-PIPE-MTE2");
    EXPECT_EQ(model.pipe_of(1), "aic0-PIPE-M");
    EXPECT_EQ(model.name_of(0), "SET_FLAG");
    EXPECT_EQ(model.name_of(1), "WAIT_FLAG");
    EXPECT_EQ(model.program->record(0).cycles, 1);
    EXPECT_EQ(model.program->record(1).cycles, 1);
    EXPECT_EQ(model.program->record(0).kind, Kind::set_flag);
    EXPECT_EQ(model.program->record(1).kind, Kind::wait_flag);
    EXPECT_EQ(model.waits(1), Set{0});
}

TEST(Flags, a_named_core_goes_before_the_current_one) {
    Model model;
    model.on("aiv0");
    model.set_flag("aic0_PIPE-FIX", "PIPE-MTE2", 0);
    model.on("");
    model.wait_flag("aic0-PIPE-FIX", "aiv0_pipe-mte2", 0);  // as results spell it, and in any case
    EXPECT_EQ(model.pipe_of(0), "aic0-PIPE-FIX");
    EXPECT_EQ(model.pipe_of(1), "aiv0-PIPE-MTE2");
    EXPECT_EQ(model.waits(1), Set{0});
}

TEST(Flags, the_kth_wait_matches_the_kth_set) {
    Model model;
    for (int i = 0; i < 3; ++i) model.set_flag("PIPE-M", "PIPE-V", 0);   // 0 1 2
    model.set_flag("PIPE-M", "PIPE-V", 1);                               // 3
    for (int i = 0; i < 3; ++i) model.wait_flag("PIPE-M", "PIPE-V", 0);  // 4 5 6
    model.wait_flag("PIPE-M", "PIPE-V", 1);                              // 7
    EXPECT_EQ(model.waits(4), Set{0});
    EXPECT_EQ(model.waits(5), Set{1});
    EXPECT_EQ(model.waits(6), Set{2});
    EXPECT_EQ(model.waits(7), Set{3});
}

TEST(Flags, a_wait_may_come_before_its_set) {
    Model model;
    model.wait_flag("PIPE-M", "PIPE-V", 0);  // 0
    model.wait_flag("PIPE-M", "PIPE-V", 0);  // 1
    model.set_flag("PIPE-M", "PIPE-V", 0);   // 2
    model.set_flag("PIPE-M", "PIPE-V", 0);   // 3
    model.set_flag("PIPE-M", "PIPE-V", 0);   // 4
    model.wait_flag("PIPE-M", "PIPE-V", 0);  // 5
    EXPECT_EQ(model.waits(0), Set{2});
    EXPECT_EQ(model.waits(1), Set{3});
    EXPECT_EQ(model.waits(5), Set{4});
}

TEST(Flags, direction_and_core_tell_flags_apart) {
    Model model;
    model.set_flag("PIPE-M", "PIPE-V", 0);
    model.set_flag("PIPE-V", "PIPE-M", 0);
    model.on("aic0");
    model.set_flag("PIPE-M", "PIPE-V", 0);
    model.wait_flag("PIPE-M", "PIPE-V", 0);
    model.on("");
    model.wait_flag("PIPE-V", "PIPE-M", 0);
    model.wait_flag("PIPE-M", "PIPE-V", 0);
    EXPECT_EQ(model.waits(3), Set{2});
    EXPECT_EQ(model.waits(4), Set{1});
    EXPECT_EQ(model.waits(5), Set{0});
}

TEST(Flags, pipe_vec_is_the_store_slot_as_source_and_both_load_slots_as_target) {
    Model model("Ascend950PR_9589");
    model.set_flag("PIPE-VEC", "PIPE-MTE3", 0);   // 0
    model.wait_flag("PIPE-VEC", "PIPE-MTE3", 0);  // 1
    model.set_flag("PIPE-MTE2", "PIPE-VEC", 0);   // 2
    model.wait_flag("PIPE-MTE2", "PIPE-VEC", 0);  // 3 4
    model.wait_flag("PIPE-MTE2", "PIPE-VEC", 1);  // 5 6
    model.set_flag("PIPE-MTE2", "PIPE-VEC", 1);   // 7
    EXPECT_EQ(model.pipe_of(0), "RVECST");
    EXPECT_EQ(model.pipe_of(3), "RVECLD0");
    EXPECT_EQ(model.pipe_of(4), "RVECLD1");
    EXPECT_EQ(model.waits(1), Set{0});
    EXPECT_EQ(model.waits(3), Set{2});
    EXPECT_EQ(model.waits(4), Set{2});
    EXPECT_EQ(model.waits(5), Set{7});
    EXPECT_EQ(model.waits(6), Set{7});
}

TEST(Flags, one_load_slot_alone_is_another_flag) {
    Model model("Ascend950PR_9589");
    model.set_flag("PIPE-MTE2", "RVECLD0", 0);
    model.set_flag("PIPE-MTE2", "PIPE-VEC", 0);
    model.wait_flag("PIPE-MTE2", "PIPE-VEC", 0);
    model.wait_flag("PIPE-MTE2", "RVECLD0", 0);
    EXPECT_EQ(model.waits(2), Set{1});
    EXPECT_EQ(model.waits(4), Set{0});
}

std::string flag_refused(const std::string& source, const std::string& target, std::int64_t id,
                         const std::string& chip = "Ascend910B1") {
    Model model(chip);
    const Snapshot before = snapshot(model);
    const std::string set = error(ErrorKind::value, [&] { model.set_flag(source, target, id); });
    const std::string wait = error(ErrorKind::value, [&] { model.wait_flag(source, target, id); });
    EXPECT_EQ(set.substr(0, 10), "set_flag: ");
    EXPECT_EQ("wait_flag: " + set.substr(10), wait);
    EXPECT_EQ(snapshot(model), before);
    model.program->finish();  // nothing is left that could not pair up
    return set;
}

TEST(Flags, refuse_ids_out_of_range) {
    EXPECT_EQ(flag_refused("PIPE-M", "PIPE-V", 65536), "set_flag: event_id is 65536; allowed are 0 to 65535");
    EXPECT_EQ(flag_refused("PIPE-M", "PIPE-V", -1), "set_flag: event_id is -1; allowed are 0 to 65535");
}

TEST(Flags, refuse_pipes_that_are_none_or_many) {
    EXPECT_TRUE(has(flag_refused("PIPE-X", "PIPE-V", 0), "set_flag: unknown pipe 'PIPE-X'; did you mean 'PIPE-M'?"));
    EXPECT_TRUE(
        has(flag_refused("PIPE_MTE2", "PIPE-V", 0), "set_flag: unknown pipe 'PIPE_MTE2'; did you mean 'PIPE-MTE2'?"));
    EXPECT_EQ(flag_refused("PIPE-ALL", "PIPE-V", 0), "set_flag: 'PIPE-ALL' names no single pipe");
    EXPECT_EQ(flag_refused("PIPE-V", "RVECLD", 0), "set_flag: 'RVECLD' names no single pipe");
    EXPECT_EQ(flag_refused("RVECEX", "PIPE-V", 0), "set_flag: 'RVECEX' names no single pipe");
    EXPECT_EQ(flag_refused("PIPE-VEC", "PIPE-V", 0),
              "set_flag: Ascend910B1 (architecture 2201) has no vector registers, so no 'PIPE-VEC'");
    EXPECT_EQ(flag_refused("PIPE-V", "RVECLD1", 0),
              "set_flag: Ascend910B1 (architecture 2201) has no vector registers, so no 'RVECLD1'");
}

TEST(Flags, refuse_names_that_are_no_cores) {
    Model model;
    EXPECT_TRUE(has(error(ErrorKind::value, [&] { model.set_flag("a.b_PIPE-M", "PIPE-V", 0); }),
                    "name 'a.b'; allowed are 1 to 128 letters A-Z a-z and digits 0-9"));
    EXPECT_EQ(model.program->cores().size(), 1u);
}

TEST(Flags, refuse_without_leaving_a_core_behind) {
    EXPECT_TRUE(has(flag_refused("aic7_PIPE-M", "PIPE-X", 0), "unknown pipe 'PIPE-X'"));
}

TEST(Flags, that_do_not_pair_up_are_all_listed_in_order) {
    Model model("Ascend950PR_9589");
    model.on("aiv0");
    model.line(12).set_flag("PIPE-MTE2", "PIPE-V", 3);
    model.line(13).set_flag("PIPE-MTE2", "PIPE-V", 3);
    model.line(14).wait_flag("PIPE-MTE2", "PIPE-V", 3);
    model.line(15).wait_flag("aic0_PIPE-FIX", "PIPE-VEC", 0);
    model.on("");
    model.line(0).set_flag("PIPE-M", "PIPE-V", 9);
    EXPECT_EQ(error(ErrorKind::flag, [&] { model.program->finish(); }),
              "flags: 3 of set_flag and wait_flag do not pair up\n"
              "  set_flag(\"aiv0_PIPE-MTE2\", \"aiv0_PIPE-V\", 3) (kernel.py:13) is never waited for\n"
              "  wait_flag(\"aic0_PIPE-FIX\", \"aiv0_PIPE-VEC\", 0) (kernel.py:15) waits for a set_flag that is never "
              "issued\n"
              "  set_flag(\"PIPE-M\", \"PIPE-V\", 9) is never waited for\n"
              "  mskpp lint SCRIPT.py explains the flags");
    // The recording goes on, and what was missing can still be issued.
    model.wait_flag("PIPE-M", "PIPE-V", 9);
    model.on("aiv0");
    model.wait_flag("PIPE-MTE2", "PIPE-V", 3);
    model.set_flag("aic0_PIPE-FIX", "PIPE-VEC", 0);
    model.program->finish();
}

TEST(Flags, that_do_not_pair_up_are_counted_however_many) {
    Model model;
    for (int i = 0; i < 25; ++i) model.set_flag("PIPE-M", "PIPE-V", i);
    const std::string message = error(ErrorKind::flag, [&] { model.program->finish(); });
    EXPECT_TRUE(has(message, "flags: 25 of set_flag and wait_flag do not pair up\n")) << message;
    EXPECT_TRUE(has(message, "set_flag(\"PIPE-M\", \"PIPE-V\", 19)")) << message;
    EXPECT_TRUE(has(message, "\n  ... and 5 more\n  mskpp lint SCRIPT.py explains the flags")) << message;
}

TEST(Flags, that_do_not_pair_up_on_one_line_are_told_once) {
    Model model;
    for (int i = 0; i < 12; ++i) model.line(3).set_flag("PIPE-M", "PIPE-V", 0);
    EXPECT_EQ(error(ErrorKind::flag, [&] { model.program->finish(); }),
              "flags: 12 of set_flag and wait_flag do not pair up\n"
              "  set_flag(\"PIPE-M\", \"PIPE-V\", 0) (kernel.py:3) is never waited for x 12\n"
              "  mskpp lint SCRIPT.py explains the flags");
}

TEST(Barriers, of_one_pipe_are_a_place_in_its_queue) {
    Model model;
    model.own(Pipe::V, 10);
    model.barrier("PIPE-V");
    EXPECT_EQ(model.pipe_of(1), "PIPE-V");
    EXPECT_EQ(model.name_of(1), "PIPE_BARRIER");
    EXPECT_EQ(model.program->record(1).cycles, 0);
    EXPECT_EQ(model.program->record(1).kind, Kind::barrier);
    EXPECT_TRUE(model.waits(1).empty());
}

TEST(Barriers, of_all_pipes_hold_everything_of_the_core) {
    Model model;
    model.on("aiv0");
    model.own(Pipe::MTE2, 100);  // 0
    model.own(Pipe::V, 10);      // 1
    model.on("aic0");
    model.own(Pipe::M, 1000);  // 2: another core
    model.on("aiv0");
    model.barrier("PIPE-ALL");  // 3
    model.own(Pipe::V, 1);      // 4
    model.own(Pipe::MTE3, 1);   // 5: a pipe used for the first time
    model.own(Pipe::V, 1);      // 6
    model.on("aic0");
    model.own(Pipe::M, 1);  // 7
    EXPECT_EQ(model.ends(), (Ends{100, 10, 1000, 100, 101, 101, 102, 1001}));
}

TEST(Barriers, follow_each_other) {
    Model model;
    model.own(Pipe::V, 10);     // 0
    model.barrier("PIPE-ALL");  // 1
    model.own(Pipe::M, 5);      // 2
    model.barrier("pipe-all");  // 3
    model.own(Pipe::V, 1);      // 4
    model.own(Pipe::S, 1);      // 5
    model.barrier("PIPE-ALL");  // 6
    model.barrier("PIPE-ALL");  // 7
    EXPECT_EQ(model.ends(), (Ends{10, 10, 15, 15, 16, 16, 16, 16}));
}

TEST(Barriers, are_waited_for_once_by_each_pipe) {
    Model model;
    model.own(Pipe::V, 10);
    model.barrier("PIPE-ALL");
    for (int i = 0; i < 5; ++i) model.own(Pipe::V, 1);
    for (int i = 0; i < 5; ++i) model.own(Pipe::MTE2, 1);
    // the barrier waits for V; the first on V and the first on MTE2 wait for it, the rest are behind them
    EXPECT_EQ(model.program->dependency_count(), 3u);
    EXPECT_EQ(model.waits(2), Set{1});
    EXPECT_TRUE(model.waits(3).empty());
    EXPECT_EQ(model.waits(7), Set{1});
    EXPECT_TRUE(model.waits(8).empty());
}

TEST(Barriers, may_name_a_core) {
    Model model;
    model.on("aiv0");
    model.own(Pipe::V, 10);
    model.on("");
    model.barrier("aiv0_PIPE-ALL");
    model.own(Pipe::V, 1);
    model.on("aiv0");
    model.own(Pipe::MTE2, 1);
    EXPECT_EQ(model.pipe_of(1), "aiv0-PIPE-S");
    EXPECT_EQ(model.ends(), (Ends{10, 10, 1, 11}));
}

TEST(Barriers, refuse_groups_and_unknown_pipes) {
    Model model("Ascend950PR_9589");
    EXPECT_EQ(error(ErrorKind::value, [&] { model.barrier("PIPE-VEC"); }),
              "pipe_barrier: 'PIPE-VEC' names no single pipe; name one, or PIPE-ALL");
    EXPECT_EQ(error(ErrorKind::value, [&] { model.barrier("RVECLD"); }),
              "pipe_barrier: 'RVECLD' names no single pipe; name one, or PIPE-ALL");
    EXPECT_TRUE(has(error(ErrorKind::value, [&] { model.barrier("PIPE"); }), "pipe_barrier: unknown pipe 'PIPE'"));
    EXPECT_EQ(model.program->size(), 0u);
    EXPECT_EQ(model.program->pipes().size(), 0u);
}

// --- a finished program ---

class Finished : public testing::Test {
  protected:
    Finished() {
        model.program->finish();
        model.program->finish();  // once more changes nothing
        before = snapshot(model);
    }
    template <typename Act>
    void refuses(Act act) {
        EXPECT_EQ(error(ErrorKind::state, act), "program: it is finished; start a new one");
        EXPECT_EQ(snapshot(model), before);
    }
    Model model;
    Snapshot before{};
};

TEST_F(Finished, takes_no_move_and_changes_no_tensor) {
    Tensor target(Memory::UB);
    refuses([&] { model.program->load(target, tensor(Memory::GM, {4})); });
    EXPECT_EQ(target.dtype(), DType::unset);
    EXPECT_FALSE(target.has_shape());
}

TEST_F(Finished, takes_no_computation_and_changes_no_tensor) {
    Tensor x = tensor(Memory::UB, {128}), y = tensor(Memory::UB, {7}, DType::INT8);
    refuses([&] { model.issue("vabs", {&x, &y}); });
    EXPECT_EQ(y.dtype(), DType::INT8);
    EXPECT_EQ(y.shape().text(), "[7]");
}

TEST_F(Finished, takes_no_mmad_and_makes_no_tensor_ready) {
    Tensor x = tensor(Memory::L0A, {16, 16}), y = tensor(Memory::L0B, {16, 16}),
           b = tensor(Memory::L0C, {16, 16}, DType::FP32);
    Attributes inited;
    inited.flag = true;
    refuses([&] { model.issue("mmad", {&x, &y, &b}, inited); });
    refuses([&] { model.program->has_value(b); });
}

TEST_F(Finished, takes_no_own_instruction) {
    refuses([&] { model.own(Pipe::V, 1); });
}

TEST_F(Finished, takes_no_flag) {
    refuses([&] { model.set_flag("PIPE-M", "PIPE-V", 0); });
    refuses([&] { model.wait_flag("PIPE-M", "PIPE-V", 0); });
}

TEST_F(Finished, takes_no_barrier) {
    refuses([&] { model.barrier("PIPE-V"); });
    refuses([&] { model.barrier("PIPE-ALL"); });
}

TEST(AllowAnyPath, a_path_of_the_users_own_has_no_row) {
    const auto chip = load_chip("Ascend910B1");
    Tensor target(Memory::L0A);
    const Move move = prepare_move(*chip, target, tensor(Memory::UB, {4}), {}, true);
    EXPECT_EQ(move.path, nullptr);
    EXPECT_EQ(move.bytes, 8);
    EXPECT_FALSE(move.transform);
    EXPECT_EQ(target.dtype(), DType::unset);  // prepared, not applied
    Model model;
    const Pipe pipe = Pipe::MTE3;
    model.program->add_move(move, target, tensor(Memory::UB, {4}, DType::FP16, true), {}, {42, Origin::user}, {},
                            &pipe);
    EXPECT_EQ(model.pipe_of(0), "PIPE-MTE3");
    EXPECT_EQ(model.name_of(0), "MOV-UB_TO_L0A");
    EXPECT_EQ(model.program->record(0).cycles, 42);
}

}  // namespace
}  // namespace mskpp::test
