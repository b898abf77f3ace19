// SPDX-License-Identifier: Apache-2.0
#include "mskpp/types.h"

#include <algorithm>

#include "base/text.h"
#include "mskpp/error.h"

namespace mskpp {

namespace {

using base::concat;

template <typename Value>
struct Spelling {
    std::string_view text;
    Value value;
};

// The first spelling of a value is its name; the rest are accepted.
constexpr Spelling<Memory> memories[] = {
    {"GM", Memory::GM}, {"L1", Memory::L1}, {"L0A", Memory::L0A}, {"L0B", Memory::L0B}, {"L0C", Memory::L0C},
    {"UB", Memory::UB}, {"BT", Memory::BT}, {"FB", Memory::FB},   {"VEC", Memory::VEC},
};

constexpr Spelling<DType> dtypes[] = {
    {"BOOL", DType::BOOL},     {"UINT1", DType::UINT1},   {"UINT2", DType::UINT2},   {"UINT8", DType::UINT8},
    {"UINT16", DType::UINT16}, {"UINT32", DType::UINT32}, {"UINT64", DType::UINT64}, {"INT4", DType::INT4},
    {"INT8", DType::INT8},     {"INT16", DType::INT16},   {"INT32", DType::INT32},   {"INT64", DType::INT64},
    {"FP16", DType::FP16},     {"BF16", DType::BF16},     {"FP32", DType::FP32},     {"FLOAT16", DType::FP16},
    {"HALF", DType::FP16},     {"F16", DType::FP16},      {"BFLOAT16", DType::BF16}, {"FLOAT32", DType::FP32},
    {"FLOAT", DType::FP32},    {"SINGLE", DType::FP32},   {"F32", DType::FP32},      {"BOOLEAN", DType::BOOL},
};

constexpr Spelling<Format> formats[] = {
    {"ND", Format::ND},           {"NZ", Format::NZ},           {"NCHW", Format::NCHW},     {"NHWC", Format::NHWC},
    {"NC1HWC0", Format::NC1HWC0}, {"FRACTAL", Format::FRACTAL}, {"FRACTAL_NZ", Format::NZ}, {"5HD", Format::NC1HWC0},
};

constexpr Spelling<Pipe> pipes[] = {
    {"PIPE-MTE1", Pipe::MTE1},  {"PIPE-MTE2", Pipe::MTE2},  {"PIPE-MTE3", Pipe::MTE3},  {"PIPE-FIX", Pipe::FIX},
    {"PIPE-M", Pipe::M},        {"PIPE-V", Pipe::V},        {"PIPE-S", Pipe::S},        {"RVECLD0", Pipe::RVECLD0},
    {"RVECLD1", Pipe::RVECLD1}, {"RVECEX0", Pipe::RVECEX0}, {"RVECEX1", Pipe::RVECEX1}, {"RVECST", Pipe::RVECST},
    {"RVECLD", Pipe::RVECLD},   {"RVECEX", Pipe::RVECEX},   {"PIPE-VEC", Pipe::VEC},    {"PIPE-ALL", Pipe::ALL},
};

template <typename Value, std::size_t n>
std::string_view first_spelling(const Spelling<Value> (&table)[n], Value value) {
    for (const auto& spelling : table)
        if (spelling.value == value) return spelling.text;
    return "none";
}

template <typename Value, std::size_t n>
Value parse(const Spelling<Value> (&table)[n], std::string_view text, std::string_view where, std::string_view what,
            ErrorKind kind) {
    for (const auto& spelling : table)
        if (spelling.text == text) return spelling.value;
    std::vector<std::string> names;
    for (const auto& spelling : table) {
        if (base::equal_ignoring_case(spelling.text, text)) return spelling.value;
        if (first_spelling(table, spelling.value) == spelling.text) names.emplace_back(spelling.text);
    }
    constexpr std::size_t shown = 64;
    throw Error(kind, concat(where, ": unknown ", what, " '", text.substr(0, shown), "'", base::suggestion(text, names),
                             " Allowed: ", base::join(names, ", ")));
}

}  // namespace

Memory parse_memory(std::string_view text, std::string_view where) {
    return parse(memories, text, where, "mem_type", ErrorKind::value);
}

DType parse_dtype(std::string_view text, std::string_view where) {
    return parse(dtypes, text, where, "dtype", ErrorKind::value);
}

Format parse_format(std::string_view text, std::string_view where) {
    return parse(formats, text, where, "format", ErrorKind::value);
}

Pipe parse_pipe(std::string_view text, std::string_view where) {
    return parse(pipes, text, where, "pipe", ErrorKind::value);
}

Pipe parse_queue(std::string_view text, std::string_view where) {
    const Pipe pipe = parse_pipe(text, where);
    if (pipe == Pipe::VEC || pipe == Pipe::ALL)
        throw Error(ErrorKind::value,
                    concat(where, ": '", text,
                           "' names no single pipe; an instruction runs on PIPE-MTE1, "
                           "PIPE-MTE2, PIPE-MTE3, PIPE-FIX, PIPE-M, PIPE-V, PIPE-S, RVECLD, RVECEX or RVECST"));
    return pipe;
}

std::string_view name(Memory memory) { return first_spelling(memories, memory); }

std::string_view name(DType dtype) { return first_spelling(dtypes, dtype); }

std::string_view name(Format format) { return first_spelling(formats, format); }

std::string_view name(Pipe pipe) { return first_spelling(pipes, pipe); }

void Shape::refuse(std::int64_t extent, std::string_view where) const {
    if (rank_ == max_rank)
        throw Error(ErrorKind::value,
                    concat(where, ": more than ", max_rank, " axes; at most ", max_rank, " are allowed"));
    if (extent < 1 || extent > max_elements)
        throw Error(ErrorKind::value,
                    concat(where, ": axis ", rank_, " has extent ", extent, "; allowed are 1 to ", max_elements));
    throw Error(ErrorKind::value, concat(where, ": more than ", max_elements,
                                         " elements (2^31-1), which is the most a tensor may have; split it"));
}

void Shape::replace_last(std::int64_t extent, std::string_view where) {
    Shape changed = *this;
    changed.pop_back();
    changed.push_back(extent, where);
    *this = changed;
}

std::string Shape::text() const {
    std::string out = "[";
    for (int axis = 0; axis < rank_; ++axis) {
        if (axis != 0) out += ',';
        out += std::to_string((*this)[axis]);
    }
    return out + "]";
}

}  // namespace mskpp
