// SPDX-License-Identifier: Apache-2.0
// Checking of one instruction before it is recorded: nothing is changed until everything is known to be right.
#include <algorithm>

#include "base/text.h"
#include "mskpp/error.h"
#include "mskpp/program.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::int64_t register_bytes = 256;

bool converts(Memory source, Memory target, Format from, Format to) {
    if (source == Memory::GM && target == Memory::L1)
        return (from == Format::ND && to == Format::NZ) || (from == Format::NHWC && to == Format::NC1HWC0);
    if (source == Memory::L0C && target == Memory::GM)
        return (from == Format::NZ && to == Format::ND) || (from == Format::NC1HWC0 && to == Format::NHWC);
    return false;
}

bool converts(Memory source, DType from, DType to) {
    if (source != Memory::L0C) return false;
    return (from == DType::FP32 && (to == DType::FP16 || to == DType::BF16)) ||
           (from == DType::INT32 && (to == DType::FP16 || to == DType::INT8));
}

[[noreturn]] void no_path(const Chip& chip, Memory source, Memory target) {
    std::vector<std::string> allowed;
    for (const Path& path : chip.paths())
        if (path.source == source) allowed.emplace_back(name(path.target));
    throw Error(ErrorKind::value,
                concat("load: ", chip.name(), " has no path ", name(source), " to ", name(target), "; from ",
                       name(source), " data goes to ", allowed.empty() ? "nowhere" : base::join(allowed, ", ")));
}

// A source without a format fits any target that the way could not have converted to.
void check_formats(const Tensor& target, const Tensor& source) {
    const Format from = source.format(), to = target.format();
    if (to == Format::unset || to == from || converts(source.memory(), target.memory(), from, to)) return;
    const bool could_convert = converts(source.memory(), target.memory(), Format::ND, to) ||
                               converts(source.memory(), target.memory(), Format::NHWC, to) ||
                               converts(source.memory(), target.memory(), Format::NZ, to) ||
                               converts(source.memory(), target.memory(), Format::NC1HWC0, to);
    if (from == Format::unset && !could_convert) return;
    throw Error(
        ErrorKind::type,
        concat("load: the source ", from == Format::unset ? "has no format" : concat("is ", name(from)), " in ",
               name(source.memory()), " but the target is ", name(to), " in ", name(target.memory()),
               from == Format::unset ? "; give the source its format" : "",
               "; on the way only GM to L1 converts (ND to NZ, NHWC to NC1HWC0) and L0C to GM (NZ to ND, NC1HWC0 to "
               "NHWC)"));
}

}  // namespace

Move prepare_move(const Chip& chip, const Tensor& target, const Tensor& source, const LoadOptions& options,
                  bool allow_any_path) {
    if (options.repeat < 1)
        throw Error(ErrorKind::value, concat("load: repeat is ", options.repeat, "; it must be at least 1"));
    if (source.dtype() == DType::unset || !source.has_shape())
        throw Error(ErrorKind::value, concat("load: the source, a ", source.text(),
                                             ", has no dtype or no size yet; give it both, or load it first"));
    const Path* path = chip.path(source.memory(), target.memory());
    if (path == nullptr && !allow_any_path) no_path(chip, source.memory(), target.memory());
    const std::int64_t elements = source.elements();
    if (target.dtype() != DType::unset && target.dtype() != source.dtype() &&
        !converts(source.memory(), source.dtype(), target.dtype()))
        throw Error(
            ErrorKind::type,
            concat("load: the source is ", name(source.dtype()), " ", source.shape().text(), " in ",
                   name(source.memory()), " but the target is ", name(target.dtype()), " in ", name(target.memory()),
                   "; dtypes must agree, but from L0C, where FP32 becomes FP16 or BF16 and INT32 "
                   "FP16 or INT8"));
    check_formats(target, source);
    if (target.has_shape() && target.elements() < elements)
        throw Error(ErrorKind::value, concat("load: the target ", target.shape().text(), " is smaller than the source ",
                                             source.shape().text(), "; it must hold at least ", elements, " elements"));
    const bool transform = target.format() != Format::unset && target.format() != source.format();
    return {source.memory(), target.memory(), size_bytes(source.dtype(), elements), transform, path};
}

void apply_move(Tensor& target, const Tensor& source) {
    Storage& storage = *target.storage();
    if (storage.type.dtype == DType::unset) storage.type.dtype = source.dtype();
    if (storage.type.format == Format::unset) storage.type.format = source.format();
    if (!storage.has_shape) {
        storage.type.shape = source.shape();
        storage.has_shape = true;
    }
}

namespace {

void require_memory(const Instruction& instruction, std::string_view argument, const Tensor& tensor,
                    std::initializer_list<Memory> allowed) {
    if (std::find(allowed.begin(), allowed.end(), tensor.memory()) != allowed.end()) return;
    std::vector<std::string> names;
    for (const Memory memory : allowed) names.emplace_back(name(memory));
    throw Error(ErrorKind::value, concat(instruction.function, ": ", argument, " lies in ", name(tensor.memory()),
                                         "; it must lie in ", base::join(names, " or ")));
}

void require_type(const Instruction& instruction, std::string_view argument, const Tensor& tensor) {
    if (tensor.dtype() != DType::unset && tensor.has_shape()) return;
    throw Error(ErrorKind::value, concat(instruction.function, ": ", argument, ", a ", tensor.text(),
                                         ", has no dtype or no size yet; give it both, or load it first"));
}

bool broadcasts(const Shape& from, const Shape& to) {
    if (from.rank() > to.rank()) return from.elements() == 1;
    for (int i = 1; i <= from.rank(); ++i)
        if (from[from.rank() - i] != 1 && from[from.rank() - i] != to[to.rank() - i]) return false;
    return true;
}

// A reduction drops the axis it reduces to one; to broadcast its output, that axis is wanted back.
std::string reduced_hint(const Shape& x, const Shape& y) {
    if (y.rank() + 1 != x.rank()) return {};
    std::string size = "[";
    for (int axis = 0; axis < y.rank(); ++axis) {
        if (y[axis] != x[axis]) return {};
        size += concat(y[axis], ",");
    }
    return concat("; after a reduction, give y its axis back: y.size = ", size, "1]");
}

void check_pair(const Instruction& instruction, const Tensor& x, const Tensor& y) {
    const auto text = [](const Tensor& tensor) { return concat(name(tensor.dtype()), " ", tensor.shape().text()); };
    if (x.dtype() != y.dtype())
        throw Error(ErrorKind::type, concat(instruction.function, ": x is ", text(x), " but y is ", text(y),
                                            "; their dtypes must agree"));
    if (!broadcasts(y.shape(), x.shape()))
        throw Error(ErrorKind::value,
                    concat(instruction.function, ": x is ", text(x), " but y is ", text(y),
                           "; each axis of y must equal x's or be 1", reduced_hint(x.shape(), y.shape())));
}

void check_vector(const Instruction& instruction, const Call& call) {
    for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
        const Argument& argument = instruction.arguments[i];
        const Tensor* tensor = call.operands[i];
        if (argument.kind != ArgumentKind::operand || tensor == nullptr) continue;
        require_memory(instruction, argument.name, *tensor, {instruction.operand_memory()});
        if (static_cast<int>(i) != instruction.output) require_type(instruction, argument.name, *tensor);
        const bool paired = instruction.pairs_x_and_y() || instruction.cost == CostRule::per_register;
        if (i == 1 && static_cast<int>(i) != instruction.output && paired)
            check_pair(instruction, *call.operands[0], *tensor);
    }
}

void check_mmad_operands(const Instruction& instruction, const Tensor& x, const Tensor& y, const Tensor& b) {
    require_memory(instruction, "x", x, {Memory::L0A});
    require_memory(instruction, "y", y, {Memory::L0B});
    require_memory(instruction, "b", b, {Memory::L0C, Memory::BT});
    require_type(instruction, "x", x);
    require_type(instruction, "y", y);
    require_type(instruction, "b", b);
}

// Their dtypes and shapes; `b_memory` is where the bias lies.
void check_mmad_types(const Instruction& instruction, const TensorType& x, const TensorType& y, const TensorType& b,
                      Memory b_memory) {
    const Shape &xs = x.shape, &ys = y.shape, &bs = b.shape;
    if (xs.rank() != 2 || ys.rank() != 2 || xs[1] != ys[0])
        throw Error(ErrorKind::value, concat(instruction.function, ": x is ", xs.text(), " and y is ", ys.text(),
                                             "; they must be [m,k] and [k,n] with the same k"));
    const auto eight_bit = [](DType dtype) { return dtype == DType::INT8 || dtype == DType::UINT8; };
    if (x.dtype != y.dtype && !(eight_bit(x.dtype) && eight_bit(y.dtype)))
        throw Error(ErrorKind::type, concat(instruction.function, ": x is ", name(x.dtype), " ", xs.text(),
                                            " but y is ", name(y.dtype), " ", ys.text(), "; their dtypes must agree"));
    const bool whole_bias = bs.rank() == 2 && bs[0] == xs[0] && bs[1] == ys[1];
    const bool row_bias = bs.elements() == ys[1] && bs[bs.rank() - 1] == ys[1];
    if (b_memory == Memory::BT ? !row_bias : !whole_bias)
        throw Error(ErrorKind::value,
                    concat(instruction.function, ": b is ", bs.text(), " in ", name(b_memory), "; it must be ",
                           b_memory == Memory::BT ? "[n]" : "[m,n]", " = ",
                           b_memory == Memory::BT ? concat("[", ys[1], "]") : concat("[", xs[0], ",", ys[1], "]")));
    const bool floating = x.dtype == DType::FP16 || x.dtype == DType::BF16 || x.dtype == DType::FP32;
    const bool fits =
        floating ? b.dtype == DType::FP32 || b.dtype == DType::FP16 || b.dtype == DType::BF16 : b.dtype == DType::INT32;
    if (!fits)
        throw Error(ErrorKind::type, concat(instruction.function, ": b is ", name(b.dtype), " but x is ", name(x.dtype),
                                            "; b must be ", floating ? "FP32 (or FP16, BF16)" : "INT32"));
}

std::array<DType, 4> key_of(const Instruction& instruction, const Call& call, DType output) {
    std::array<DType, 4> key{};
    for (std::size_t i = 0; i < instruction.key.size(); ++i) {
        const char part = instruction.key[i];
        const Tensor* y = call.operands[1];
        if (part == 'y' && y == nullptr)
            throw Error(ErrorKind::type,
                        concat(instruction.function, ": y must be a Tensor; its dtype decides the cost"));
        key[i] = part == 'o' ? output : part == 'x' ? call.operands[0]->dtype() : y->dtype();
    }
    return key;
}

Computation prepare_mmad(const Instruction& instruction, const Call& call) {
    const Tensor &x_operand = *call.operands[0], &y_operand = *call.operands[1], &b_operand = *call.operands[2];
    check_mmad_operands(instruction, x_operand, y_operand, b_operand);
    const TensorType x = x_operand.type(), y = y_operand.type(), b = b_operand.type();
    check_mmad_types(instruction, x, y, b, b_operand.memory());
    const std::int64_t m = x.shape[0], k = x.shape[1], n = y.shape[1];
    return {.instruction = &instruction,
            .output = infer_output(instruction, x, y, b, call.attributes),
            .x_dtype = x.dtype,
            .work = m * n * k,  // m*n and k are below 2^31
            .m = m,
            .k = k,
            .n = n};
}

Computation prepare_vector(const Instruction& instruction, const Call& call) {
    const TensorType x = call.operands[0]->type(), nothing;
    Computation out{.instruction = &instruction,
                    .output = infer_output(instruction, x, nothing, nothing, call.attributes),
                    .x_dtype = x.dtype};
    out.key = key_of(instruction, call, out.output.dtype);
    out.registers = (size_bytes(x.dtype, x.shape.elements()) + register_bytes - 1) / register_bytes;
    out.work = instruction.work == WorkRule::out ? out.output.shape.elements() : x.shape.elements();
    call.operands[static_cast<std::size_t>(instruction.output)]->check_type(out.output, instruction.function);
    return out;
}

}  // namespace

std::string Computation::key_text() const {
    std::string text;
    for (const DType dtype : key)
        if (dtype != DType::unset) text += concat(text.empty() ? "" : " ", name(dtype));
    return text;
}

Computation prepare_computation(const Chip& chip, const Instruction& instruction, const Call& call) {
    if (chip.lacks(instruction.name))
        throw Error(ErrorKind::value, concat(instruction.function, ": ", chip.name(), " (architecture ",
                                             chip.architecture(), ") does not have this instruction"));
    if (instruction.cost == CostRule::mmad) return prepare_mmad(instruction, call);
    check_vector(instruction, call);
    if (instruction.pipe == Pipe::RVECEX && chip.path(Memory::UB, Memory::VEC) == nullptr)
        throw Error(ErrorKind::value,
                    concat(instruction.function, ": ", chip.name(), " (architecture ", chip.architecture(),
                           ") has no vector registers; they came with architecture 3510"));
    return prepare_vector(instruction, call);
}

Tensor apply_computation(const Computation& computation, const Call& call) {
    const TensorType& type = computation.output;
    const int output = computation.instruction->output;
    if (output < 0) return Tensor(Memory::L0C, type.dtype, type.shape, type.format);
    call.operands[static_cast<std::size_t>(output)]->set_type(type);
    return *call.operands[static_cast<std::size_t>(output)];
}

}  // namespace mskpp
