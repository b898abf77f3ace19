// SPDX-License-Identifier: Apache-2.0
#include "mskpp/instruction.h"

#include <algorithm>

#include "base/csv.h"
#include "base/text.h"
#include "chip/in_data.h"
#include "mskpp/error.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::int64_t transposed_elements = 256;  // vtranspose works on one 16 x 16 block

template <typename Rule>
struct RuleName {
    std::string_view text;
    Rule rule;
};

constexpr RuleName<ArgumentKind> attribute_kinds[] = {
    {"is_inited", ArgumentKind::flag},   {"if_mix", ArgumentKind::flag},       {"broadcast_num", ArgumentKind::count},
    {"reduce_num", ArgumentKind::count}, {"reserve_num", ArgumentKind::count}, {"dtype", ArgumentKind::dtype},
    {"fill_shape", ArgumentKind::shape},
};
constexpr RuleName<WorkRule> work_rules[] = {{"x", WorkRule::x}, {"out", WorkRule::out}, {"mkn", WorkRule::mkn}};
constexpr RuleName<DTypeRule> dtype_rules[] = {{"x", DTypeRule::x},
                                               {"b", DTypeRule::b},
                                               {"narrow", DTypeRule::narrow},
                                               {"if_mix", DTypeRule::if_mix},
                                               {"dtype", DTypeRule::dtype}};
constexpr RuleName<ShapeRule> shape_rules[] = {{"x", ShapeRule::x},
                                               {"x exactly 256", ShapeRule::x_exactly_256},
                                               {"x doubled", ShapeRule::x_doubled},
                                               {"mn", ShapeRule::mn},
                                               {"last * broadcast_num", ShapeRule::last_times},
                                               {"last / reduce_num", ShapeRule::last_divided},
                                               {"fill_shape", ShapeRule::fill_shape},
                                               {"reserve_num", ShapeRule::reserve_num}};

template <typename Rule, std::size_t n>
Rule parse_rule(const base::Csv& table, const base::Csv::Row& row, const char* column,
                const RuleName<Rule> (&names)[n]) {
    std::vector<std::string> allowed;
    for (const auto& candidate : names) {
        if (candidate.text == table.text(row, column)) return candidate.rule;
        allowed.emplace_back(candidate.text);
    }
    table.fail(row, concat(column, " is '", table.text(row, column), "'; allowed: ", base::join(allowed, ", ")));
}

bool is_name(std::string_view text) {
    constexpr std::size_t longest = 128;
    return !text.empty() && text.size() <= longest && !(text[0] >= '0' && text[0] <= '9') &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
           });
}

void parse_arguments(const base::Csv& table, const base::Csv::Row& row, Instruction& out) {
    const std::vector<std::string> reads = base::words(table.text(row, "reads"));
    for (std::string argument : base::words(table.text(row, "arguments"))) {
        Argument parsed;
        const std::size_t equals = argument.find('=');
        if (equals != std::string::npos) {
            if (argument.substr(equals) != "=False")
                table.fail(row, concat("argument '", argument, "': the only default is False"));
            parsed.has_default = true;
            argument.resize(equals);
        }
        if (!is_name(argument)) table.fail(row, concat("argument '", argument, "' is no identifier"));
        for (const auto& kind : attribute_kinds)
            if (kind.text == argument) parsed.kind = kind.rule;
        if (parsed.has_default != (parsed.kind == ArgumentKind::flag))
            table.fail(row, concat("argument '", argument, "': flags, and only they, have the default False"));
        parsed.read = std::find(reads.begin(), reads.end(), argument) != reads.end();
        parsed.name = argument;
        if (table.text(row, "writes") == argument) out.output = static_cast<int>(out.arguments.size());
        out.arguments.push_back(std::move(parsed));
    }
    if (out.arguments.empty() || out.arguments[0].name != "x" || !out.arguments[0].read)
        table.fail(row, "the first argument must be x, and it must be read");
    for (const std::string& read : reads)
        if (std::none_of(out.arguments.begin(), out.arguments.end(), [&](const Argument& a) { return a.name == read; }))
            table.fail(row, concat("reads '", read, "', which is no argument"));
    if (out.output == -1 && table.text(row, "writes") != "new")
        table.fail(row, concat("writes '", table.text(row, "writes"),
                               "', which is no argument; allowed: an argument, or new"));
    if (out.arguments.size() > 8) table.fail(row, "more than 8 arguments");
}

void parse_cost(const base::Csv& table, const base::Csv::Row& row, Instruction& out) {
    const std::vector<std::string> words = base::words(table.text(row, "cost"));
    const std::string kind = words.empty() ? "" : words[0];
    const double cycles = words.size() == 2 ? base::to_double(words[1]).value_or(-1) : -1;
    const bool keyed = words.size() > 1 && std::all_of(words.begin() + 1, words.end(), [](const std::string& word) {
                           return word == "x" || word == "y" || word == "out";
                       });
    if (kind == "mmad" && words.size() == 1) {
        out.cost = CostRule::mmad;
    } else if (kind == "rate" && keyed) {
        out.cost = CostRule::rate;
        for (std::size_t i = 1; i < words.size(); ++i) out.key.push_back(words[i][0]);
    } else if ((kind == "fixed" || kind == "register") && cycles >= 0) {
        out.cost = kind == "fixed" ? CostRule::fixed : CostRule::per_register;
        out.cycles = cycles;
    } else {
        table.fail(row, concat("cost is '", table.text(row, "cost"),
                               "'; allowed: 'rate' with x, y, out; 'fixed CYCLES'; 'register CYCLES'; 'mmad'"));
    }
}

std::shared_ptr<const Instruction> parse_row(const base::Csv& table, const base::Csv::Row& row) {
    auto out = std::make_shared<Instruction>();
    out->function = table.text(row, "function");
    out->name = table.text(row, "instruction");
    if (!is_name(out->function) || !is_name(out->name)) table.fail(row, "function and instruction must be identifiers");
    parse_arguments(table, row, *out);
    parse_cost(table, row, *out);
    const std::string& accumulates = table.text(row, "accumulates");
    if (!accumulates.empty() && accumulates != "yes")
        table.fail(row, concat("accumulates is '", accumulates, "'; allowed: yes, or nothing"));
    out->accumulates = !accumulates.empty();
    out->pipe = in_data([&] { return parse_pipe(table.text(row, "pipe"), concat("data: ", table.place(row))); });
    if (out->pipe != Pipe::V && out->pipe != Pipe::M && out->pipe != Pipe::RVECEX)
        table.fail(row, concat("pipe is ", table.text(row, "pipe"), "; allowed: PIPE-V, PIPE-M, RVECEX"));
    out->work = parse_rule(table, row, "work", work_rules);
    out->dtype = parse_rule(table, row, "out_dtype", dtype_rules);
    out->shape = parse_rule(table, row, "out_shape", shape_rules);
    out->summary = table.text(row, "summary");
    const bool matrix = out->cost == CostRule::mmad;
    if (matrix != (out->pipe == Pipe::M) || matrix != (out->work == WorkRule::mkn) || matrix != (out->output == -1))
        table.fail(row, "cost mmad, work mkn, pipe PIPE-M and writes new go together");
    return out;
}

DType infer_dtype(const Instruction& instruction, const TensorType& x, const TensorType& b,
                  const Attributes& attributes) {
    switch (instruction.dtype) {
        case DTypeRule::x:
            return x.dtype;
        case DTypeRule::b:
            return b.dtype;
        case DTypeRule::dtype:
            return attributes.dtype;
        case DTypeRule::if_mix:
            return attributes.flag ? DType::FP32 : x.dtype;
        case DTypeRule::narrow:
            if (x.dtype == DType::FP32) return DType::FP16;
            if (x.dtype == DType::FP16 || x.dtype == DType::INT16) return DType::INT8;
            throw Error(ErrorKind::type, concat(instruction.function, ": x is ", name(x.dtype), " ", x.shape.text(),
                                                "; it converts FP32 to FP16, and FP16 or INT16 to INT8"));
    }
    return x.dtype;
}

// A reduction leaves at least one value; an innermost axis that is reduced to one goes.
Shape reduced(const Shape& shape, std::int64_t count, const std::string& function) {
    if (count < 1)
        throw Error(ErrorKind::value, concat(function, ": reduce_num is ", count, "; it must be at least 1"));
    Shape out = shape;
    const std::int64_t left = shape[shape.rank() - 1] / count;
    if (left <= 1 && shape.rank() > 1)
        out.pop_back();
    else
        out.replace_last(std::max<std::int64_t>(left, 1), function);
    return out;
}

Shape infer_shape(const Instruction& instruction, const TensorType& x, const TensorType& y,
                  const Attributes& attributes) {
    const std::string& function = instruction.function;
    Shape out;
    switch (instruction.shape) {
        case ShapeRule::x:
            return x.shape;
        case ShapeRule::x_exactly_256:
            if (x.shape.elements() != transposed_elements)
                throw Error(ErrorKind::value, concat(function, ": x has ", x.shape.elements(), " elements ",
                                                     x.shape.text(), "; it must have exactly ", transposed_elements));
            return x.shape;
        case ShapeRule::x_doubled:
            for (int axis = 0; axis < x.shape.rank(); ++axis) out.push_back(std::int64_t{2} * x.shape[axis], function);
            break;
        case ShapeRule::mn:
            out.push_back(x.shape[0], function);
            out.push_back(y.shape[1], function);
            break;
        case ShapeRule::last_times:
            out = x.shape;
            out.replace_last(out[out.rank() - 1] * attributes.count, function + ": broadcast_num");
            break;
        case ShapeRule::last_divided:
            return reduced(x.shape, attributes.count, function);
        case ShapeRule::fill_shape:
            return attributes.shape;
        case ShapeRule::reserve_num:
            out.push_back(attributes.count, function + ": reserve_num");
            break;
    }
    return out;
}

}  // namespace

Memory Instruction::operand_memory() const { return pipe == Pipe::RVECEX ? Memory::VEC : Memory::UB; }

std::string Instruction::signature() const {
    std::vector<std::string> parts;
    for (const Argument& argument : arguments) parts.push_back(argument.name + (argument.has_default ? "=False" : ""));
    return concat("(", base::join(parts, ", "), ")");
}

TensorType infer_output(const Instruction& instruction, const TensorType& x, const TensorType& y, const TensorType& b,
                        const Attributes& attributes) {
    const bool from_b = instruction.cost == CostRule::mmad && b.format != Format::unset && b.format != Format::ND;
    return {infer_dtype(instruction, x, b, attributes), from_b ? b.format : x.format,
            infer_shape(instruction, x, y, attributes)};
}

std::vector<std::shared_ptr<const Instruction>> read_instructions(const std::filesystem::path& file) {
    const base::Csv table(file, {"function", "instruction", "arguments", "reads", "writes", "accumulates", "pipe",
                                 "work", "cost", "out_dtype", "out_shape", "summary"});
    std::vector<std::shared_ptr<const Instruction>> out;
    for (const auto& row : table.rows()) {
        auto parsed = parse_row(table, row);
        const bool twice = std::any_of(out.begin(), out.end(), [&](const auto& other) {
            return other->function == parsed->function || other->name == parsed->name;
        });
        if (twice) table.fail(row, concat("instruction ", parsed->name, " stands here a second time"));
        out.push_back(std::move(parsed));
    }
    return out;
}

}  // namespace mskpp
