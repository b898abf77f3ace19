// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace mskpp::test {
namespace {

TensorType type(DType dtype, const Shape& shape, Format format = Format::ND) { return {dtype, format, shape}; }

TensorType output(const std::string& function, const TensorType& x, const Attributes& attributes = {},
                  const TensorType& y = {}, const TensorType& b = {}) {
    return infer_output(instruction(function), x, y, b, attributes);
}

Attributes count(std::int64_t value) {
    Attributes attributes;
    attributes.count = value;
    return attributes;
}

TEST(InstructionTable, mmad_is_read_as_written) {
    const Instruction& mmad = instruction("mmad");
    EXPECT_EQ(mmad.name, "MMAD");
    EXPECT_EQ(mmad.pipe, Pipe::M);
    EXPECT_EQ(mmad.output, -1);
    EXPECT_EQ(mmad.cost, CostRule::mmad);
    EXPECT_EQ(mmad.work, WorkRule::mkn);
    EXPECT_EQ(mmad.dtype, DTypeRule::b);
    EXPECT_EQ(mmad.shape, ShapeRule::mn);
    EXPECT_FALSE(mmad.accumulates);
    EXPECT_EQ(mmad.signature(), "(x, y, b, is_inited=False)");
    ASSERT_EQ(mmad.arguments.size(), 4u);
    EXPECT_TRUE(mmad.arguments[2].read);
    EXPECT_FALSE(mmad.arguments[3].read);
    EXPECT_EQ(mmad.arguments[3].kind, ArgumentKind::flag);
    EXPECT_TRUE(mmad.arguments[3].has_default);
    EXPECT_FALSE(mmad.pairs_x_and_y());
}

TEST(InstructionTable, vector_instructions_are_read_as_written) {
    const Instruction& vadd = instruction("vadd");
    EXPECT_EQ(vadd.output, 2);
    EXPECT_EQ(vadd.key, (std::vector<char>{'x', 'x', 'o'}));
    EXPECT_TRUE(vadd.pairs_x_and_y());
    EXPECT_EQ(vadd.operand_memory(), Memory::UB);
    EXPECT_EQ(vadd.summary, "Addition");
    EXPECT_EQ(instruction("vmrgsort").key, (std::vector<char>{'x', 'y', 'o'}));
    EXPECT_FALSE(instruction("vmrgsort").pairs_x_and_y());
    EXPECT_FALSE(instruction("vabs").pairs_x_and_y());
    EXPECT_EQ(instruction("vtranspose").cost, CostRule::fixed);
    EXPECT_EQ(instruction("vtranspose").cycles, 21.168);
    EXPECT_EQ(instruction("rv_vadd").cost, CostRule::per_register);
    EXPECT_EQ(instruction("rv_vadd").cycles, 1);
    EXPECT_EQ(instruction("rv_vadd").operand_memory(), Memory::VEC);
    EXPECT_EQ(instruction("vbrcb").arguments[2].kind, ArgumentKind::count);
    EXPECT_EQ(instruction("vconv").arguments[2].kind, ArgumentKind::dtype);
    EXPECT_EQ(instruction("vector_dup").arguments[2].kind, ArgumentKind::shape);
    EXPECT_EQ(instruction("vector_dup").work, WorkRule::out);
    EXPECT_FALSE(instruction("vadds").arguments[1].read);  // a scalar
}

TEST(InstructionTable, accumulators_are_those_the_specification_names) {
    std::vector<std::string> accumulators;
    for (const auto& one : read_instructions(data_folder() / "instructions.csv"))
        if (one->accumulates) accumulators.push_back(one->function);
    EXPECT_EQ(accumulators, (std::vector<std::string>{"vmadd", "vmaddrelu", "vaxpy", "vmla"}));
}

TEST(InstructionTable, every_keyed_instruction_has_a_rate_on_ascend910b1) {
    for (const auto& one : read_instructions(data_folder() / "instructions.csv"))
        EXPECT_TRUE(one->cost != CostRule::rate || !costs_of("Ascend910B1")->vector_dtypes(one->name).empty())
            << one->name;
}

TEST(InferOutput, keeps_x_unless_a_rule_says_otherwise) {
    const TensorType out = output("vabs", type(DType::FP32, {4, 8}, Format::NZ));
    EXPECT_EQ(out.dtype, DType::FP32);
    EXPECT_EQ(out.shape.text(), "[4,8]");
    EXPECT_EQ(out.format, Format::NZ);
}

TEST(InferOutput, narrow_halves_the_dtype) {
    EXPECT_EQ(output("vaddreluconv", type(DType::FP32, {4})).dtype, DType::FP16);
    EXPECT_EQ(output("vaddreluconv", type(DType::FP16, {4})).dtype, DType::INT8);
    EXPECT_EQ(output("vsubreluconv", type(DType::INT16, {4})).dtype, DType::INT8);
    EXPECT_EQ(error(ErrorKind::type, [] { output("vaddreluconv", type(DType::INT8, {4, 2})); }),
              "vaddreluconv: x is INT8 [4,2]; it converts FP32 to FP16, and FP16 or INT16 to INT8");
}

TEST(InferOutput, if_mix_and_dtype_choose_the_dtype) {
    Attributes mix;
    mix.flag = true;
    EXPECT_EQ(output("vmla", type(DType::FP16, {4}), mix).dtype, DType::FP32);
    EXPECT_EQ(output("vmla", type(DType::FP16, {4})).dtype, DType::FP16);
    Attributes conversion;
    conversion.dtype = DType::INT4;
    EXPECT_EQ(output("vconv", type(DType::FP16, {4}), conversion).dtype, DType::INT4);
}

TEST(InferOutput, reductions_divide_the_last_axis_and_drop_it_when_one_is_left) {
    EXPECT_EQ(output("vcadd", type(DType::FP16, {4, 128}), count(64)).shape.text(), "[4,2]");
    EXPECT_EQ(output("vcadd", type(DType::FP16, {4, 128}), count(128)).shape.text(), "[4]");
    EXPECT_EQ(output("vcadd", type(DType::FP16, {4, 128}), count(1000)).shape.text(), "[4]");
    EXPECT_EQ(output("vcadd", type(DType::FP16, {128}), count(128)).shape.text(), "[1]");
    EXPECT_EQ(output("vcadd", type(DType::FP16, {100}), count(64)).shape.text(), "[1]");
    EXPECT_EQ(output("vcadd", type(DType::FP16, {4, 200}), count(64)).shape.text(), "[4,3]");
}

TEST(InferOutput, broadcasts_multiply_the_last_axis) {
    EXPECT_EQ(output("vbrcb", type(DType::UINT16, {4, 8}), count(16)).shape.text(), "[4,128]");
    EXPECT_EQ(error(ErrorKind::value, [] { output("vbrcb", type(DType::UINT16, {4, 8}), count(2147483647)); }),
              "vbrcb: broadcast_num: axis 1 has extent 17179869176; allowed are 1 to 2147483647");
}

TEST(InferOutput, other_shape_rules) {
    Attributes fill;
    fill.shape = Shape{3, 5};
    EXPECT_EQ(output("vector_dup", type(DType::FP16, {1}), fill).shape.text(), "[3,5]");
    EXPECT_EQ(output("vreduce", type(DType::UINT16, {4, 8}), count(7)).shape.text(), "[7]");
    EXPECT_EQ(error(ErrorKind::value, [] { output("vreduce", type(DType::UINT16, {4}), count(0)); }),
              "vreduce: reserve_num: axis 0 has extent 0; allowed are 1 to 2147483647");
    EXPECT_EQ(output("vbitsort", type(DType::FP16, {2, 32})).shape.text(), "[4,64]");
    EXPECT_EQ(output("vtranspose", type(DType::FP16, {16, 16})).shape.text(), "[16,16]");
    EXPECT_EQ(error(ErrorKind::value, [] { output("vtranspose", type(DType::FP16, {16, 15})); }),
              "vtranspose: x has 240 elements [16,15]; it must have exactly 256");
}

TEST(InferOutput, mmad_takes_dtype_and_format_of_b_and_the_outer_extents) {
    const TensorType x = type(DType::FP16, {32, 16}, Format::NZ), y = type(DType::FP16, {16, 48}, Format::NZ);
    const TensorType with_format = output("mmad", x, {}, y, type(DType::FP32, {32, 48}, Format::NC1HWC0));
    EXPECT_EQ(with_format.dtype, DType::FP32);
    EXPECT_EQ(with_format.shape.text(), "[32,48]");
    EXPECT_EQ(with_format.format, Format::NC1HWC0);
    EXPECT_EQ(output("mmad", x, {}, y, type(DType::FP32, {32, 48}, Format::ND)).format, Format::NZ);
    EXPECT_EQ(output("mmad", x, {}, y, type(DType::FP32, {32, 48}, Format::unset)).format, Format::NZ);
}

// Where this fails it stops the whole process, so it runs in one of its own.
TEST(InferOutputDeathTest, a_reduction_by_zero_is_an_error) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_EXIT(
        {
            try {
                output("vcadd", type(DType::FP16, {4, 8}), count(0));
            } catch (const Error&) {
                std::exit(7);
            }
            std::exit(1);
        },
        testing::ExitedWithCode(7), "");
}

class InstructionFileTest : public testing::Test {
  protected:
    // The failure of a table whose only row is VADD's with one cell changed.
    std::string failure(std::size_t column, const std::string& cell) {
        std::vector<std::string> cells = {"vadd",   "VADD", "x y z",        "x y", "z", "",
                                          "PIPE-V", "x",    "rate x x out", "x",   "x", "Sum"};
        cells[column] = cell;
        return failure_of(row(cells));
    }
    std::string failure_of(const std::string& rows) {
        return error(ErrorKind::data, [&] { read(rows); });
    }
    std::vector<std::shared_ptr<const Instruction>> read(const std::string& rows) {
        return read_instructions(folder_.write("data/instructions.csv",
                                               "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,"
                                               "out_dtype,out_shape,summary\n" +
                                                   rows));
    }
    static std::string row(const std::vector<std::string>& cells) {
        std::string out;
        for (const std::string& cell : cells) out += (out.empty() ? "" : ",") + cell;
        return out + "\n";
    }
    TempFolder folder_;
};

const char* const here = "data: data/instructions.csv:2: ";
enum Column : std::size_t {
    function,
    name_,
    arguments,
    reads,
    writes,
    accumulates,
    pipe,
    work,
    cost,
    out_dtype,
    out_shape
};

TEST_F(InstructionFileTest, names_are_identifiers) {
    const std::string message = here + std::string("function and instruction must be identifiers");
    for (const std::string& wrong :
         {std::string("v add"), std::string("1vadd"), std::string("vadd!"), std::string(129, 'v')}) {
        EXPECT_EQ(failure(function, wrong), message);
        EXPECT_EQ(failure(name_, wrong), message);
    }
    EXPECT_EQ(failure(name_, ""), message);
}

TEST_F(InstructionFileTest, arguments_are_checked) {
    EXPECT_EQ(failure(arguments, "x y z if_mix=True"),
              here + std::string("argument 'if_mix=True': the only default is False"));
    EXPECT_EQ(failure(arguments, "x y- z"), here + std::string("argument 'y-' is no identifier"));
    EXPECT_EQ(failure(arguments, "x y z if_mix"),
              here + std::string("argument 'if_mix': flags, and only they, have the default False"));
    EXPECT_EQ(failure(arguments, "x y=False z"),
              here + std::string("argument 'y': flags, and only they, have the default False"));
    EXPECT_EQ(failure(arguments, "y x z"), here + std::string("the first argument must be x, and it must be read"));
    EXPECT_EQ(failure(arguments, ""), here + std::string("the first argument must be x, and it must be read"));
    EXPECT_EQ(failure(reads, "y"), here + std::string("the first argument must be x, and it must be read"));
    EXPECT_EQ(failure(writes, "w"),
              here + std::string("writes 'w', which is no argument; allowed: an argument, or new"));
    EXPECT_EQ(failure(arguments, "x y z a b c d e f"), here + std::string("more than 8 arguments"));
}

TEST_F(InstructionFileTest, costs_are_checked) {
    for (const char* wrong :
         {"", "rate", "rate z", "fixed", "fixed -1", "fixed many", "fixed 1 2", "register", "mmad 1", "free"})
        EXPECT_EQ(failure(cost, wrong),
                  here + std::string("cost is '") + wrong +
                      "'; allowed: 'rate' with x, y, out; 'fixed CYCLES'; 'register CYCLES'; 'mmad'");
}

TEST_F(InstructionFileTest, rules_are_checked) {
    EXPECT_EQ(failure(work, "y"), here + std::string("work is 'y'; allowed: x, out, mkn"));
    EXPECT_EQ(failure(out_dtype, "y"), here + std::string("out_dtype is 'y'; allowed: x, b, narrow, if_mix, dtype"));
    EXPECT_EQ(failure(out_shape, "y"),
              here + std::string("out_shape is 'y'; allowed: x, x exactly 256, x doubled, mn, last * "
                                 "broadcast_num, last / reduce_num, fill_shape, reserve_num"));
    EXPECT_EQ(failure(pipe, "PIPE-MTE1"), here + std::string("pipe is PIPE-MTE1; allowed: PIPE-V, PIPE-M, RVECEX"));
}

TEST_F(InstructionFileTest, what_belongs_to_the_cube_goes_together) {
    const std::string message = here + std::string("cost mmad, work mkn, pipe PIPE-M and writes new go together");
    EXPECT_EQ(failure(pipe, "PIPE-M"), message);
    EXPECT_EQ(failure(work, "mkn"), message);
    EXPECT_EQ(failure(cost, "mmad"), message);
    EXPECT_EQ(failure(writes, "new"), message);
}

// instruction.h promises an Error of kind data for every wrong row, and the message already says so.
TEST_F(InstructionFileTest, an_unknown_pipe_is_an_error_of_the_data) {
    EXPECT_TRUE(has(failure(pipe, "PIPE-W"), here + std::string("unknown pipe 'PIPE-W'; did you mean 'PIPE-M'?")));
}

TEST_F(InstructionFileTest, an_instruction_stands_once) {
    const std::string vadd = "vadd,VADD,x y z,x y,z,,PIPE-V,x,rate x x out,x,x,Sum\n";
    EXPECT_EQ(failure_of(vadd + "vadd,VADD2,x y z,x y,z,,PIPE-V,x,rate x x out,x,x,Sum\n"),
              "data: data/instructions.csv:3: instruction VADD2 stands here a second time");
    EXPECT_EQ(failure_of(vadd + "vadd2,VADD,x y z,x y,z,,PIPE-V,x,rate x x out,x,x,Sum\n"),
              "data: data/instructions.csv:3: instruction VADD stands here a second time");
}

TEST_F(InstructionFileTest, accumulates_is_yes_or_empty) {
    const auto one = read("vadd,VADD,x y z,x y,z,yes,PIPE-V,x,fixed 0,x,x,Sum\n");
    ASSERT_EQ(one.size(), 1u);
    EXPECT_TRUE(one[0]->accumulates);
    EXPECT_EQ(one[0]->cycles, 0);
    EXPECT_TRUE(has(failure(accumulates, "true"), "accumulates"));
}

TEST_F(InstructionFileTest, reads_name_arguments) { EXPECT_TRUE(has(failure(reads, "x w"), "'w'")); }

}  // namespace
}  // namespace mskpp::test
