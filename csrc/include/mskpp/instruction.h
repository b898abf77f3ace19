// SPDX-License-Identifier: Apache-2.0
// The instruction table: one row an instruction (docs/add_an_instruction.md). Everything that speaks of instructions,
// the Python functions and their stubs included, derives from the rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mskpp/types.h"

namespace mskpp {

// What an argument is; the name of an attribute decides its kind.
enum class ArgumentKind : std::uint8_t { operand, flag, count, dtype, shape };

struct Argument {
    std::string name;
    ArgumentKind kind = ArgumentKind::operand;
    bool has_default = false;  // the only defaults are False, of flags
    bool read = false;         // an operand the instruction waits for
};

enum class CostRule : std::uint8_t { rate, fixed, per_register, mmad };
enum class WorkRule : std::uint8_t { x, out, mkn };  // elements of x, elements of the output, m*k*n
enum class DTypeRule : std::uint8_t { x, b, narrow, if_mix, dtype };
enum class ShapeRule : std::uint8_t {
    x,
    x_exactly_256,
    x_doubled,
    mn,
    last_times,
    last_divided,
    fill_shape,
    reserve_num
};

// Dtype, shape and format of an operand, all an instruction needs to know of it.
struct TensorType {
    DType dtype = DType::unset;
    Format format = Format::unset;
    Shape shape;
};

// Values of the attribute arguments of one call.
struct Attributes {
    bool flag = false;       // is_inited, if_mix
    std::int64_t count = 1;  // broadcast_num, reduce_num, reserve_num
    DType dtype = DType::unset;
    Shape shape;  // fill_shape
};

struct Instruction : std::enable_shared_from_this<Instruction> {
    std::string function;  // "vadd", the Python name
    std::string name;      // "VADD", as statistics, traces and cost tables spell it
    std::vector<Argument> arguments;
    int output = -1;           // the argument that is written; -1: a new tensor (mmad)
    bool accumulates = false;  // also reads its output once it holds a value
    Pipe pipe = Pipe::V;
    WorkRule work = WorkRule::x;
    CostRule cost = CostRule::rate;
    double cycles = 0;      // of CostRule::fixed, and per register of CostRule::per_register
    std::vector<char> key;  // of CostRule::rate: 'x', 'y', 'o' (output)
    DTypeRule dtype = DTypeRule::x;
    ShapeRule shape = ShapeRule::x;
    std::string summary;

    // True when y must share x's dtype and broadcast to its shape: the cost key names x's dtype twice.
    bool pairs_x_and_y() const { return key.size() > 1 && key[0] == 'x' && key[1] == 'x'; }
    Memory operand_memory() const;  // where its operands lie: UB, or the registers; not for mmad
    std::string signature() const;  // "(x, y, z, if_mix=False)"
};

// Dtype, shape and format of the output of one call on x (and, for mmad, y and b). Error (value, type) that begins with
// the function's name when the rule of the row does not allow them.
TensorType infer_output(const Instruction& instruction, const TensorType& x, const TensorType& y, const TensorType& b,
                        const Attributes& attributes);

// Rows of one table file. Error (data) naming file and line when a row is wrong.
std::vector<std::shared_ptr<const Instruction>> read_instructions(const std::filesystem::path& file);

}  // namespace mskpp
