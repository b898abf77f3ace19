// SPDX-License-Identifier: Apache-2.0
#include "mskpp/roofline.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "mskpp/error.h"

namespace mskpp {

using base::concat;

namespace {

void add(std::int64_t& sum, std::int64_t value) {
    if (__builtin_add_overflow(sum, value, &sum))
        throw Error(ErrorKind::overflow, "roofline: a sum of bytes or operations passes 2^63-1");
}

// One pipe, name and dtype.
struct Sum {
    std::uint16_t pipe, name;
    DType dtype;
    bool move;
    std::int64_t work = 0, rated_work = 0;
    double rated_cycles = 0;
};

// The name of an instruction that moves over the path.
std::string move_name(const Path& path) {
    if (path.source == Memory::UB && path.target == Memory::VEC) return "RV_VLD";
    if (path.source == Memory::VEC && path.target == Memory::UB) return "RV_VST";
    return concat("MOV-", path_name(path.source, path.target));
}

// Work per cycle at best; nothing where the chip has no curve.
std::optional<double> best_rate(const Costs& costs, const std::string& name, DType dtype) {
    if (dtype == DType::unset) return std::nullopt;
    if (name == "MMAD") {
        const double peak = costs.chip().mmad_peak(dtype);
        return peak > 0 ? std::optional<double>(peak) : std::nullopt;
    }
    const std::optional<double> bytes = costs.vector_peak(name, dtype);
    return bytes ? std::optional<double>(*bytes * 8 / bits(dtype)) : std::nullopt;
}

std::vector<Sum> sums_of(const Timeline& timeline) {
    const Program& program = timeline.program();
    std::vector<Sum> sums;
    std::unordered_map<std::uint64_t, std::size_t> places;
    for (std::size_t i = 0; i < program.size(); ++i) {
        const Record& record = program.record(i);
        if (record.kind != Kind::move && record.kind != Kind::computation) continue;
        const DType dtype = program.output(i).dtype;
        const std::uint64_t key = std::uint64_t{record.pipe} << 32 | std::uint64_t{record.name} << 8 |
                                  static_cast<std::uint64_t>(dtype) << 1 | (record.kind == Kind::move ? 1u : 0u);
        const auto [found, added] = places.try_emplace(key, sums.size());
        if (added) sums.push_back({record.pipe, record.name, dtype, record.kind == Kind::move, 0, 0, 0});
        Sum& sum = sums[found->second];
        add(sum.work, record.work);
        if (record.origin == Origin::user) continue;
        sum.rated_work += record.work;  // no more than `work`
        sum.rated_cycles += static_cast<double>(record.cycles);
    }
    return sums;
}

}  // namespace

std::vector<Achievement> achievements(const Timeline& timeline) {
    const Program& program = timeline.program();
    const Costs& costs = *program.shared_costs();
    std::unordered_map<std::string, const Path*> paths;
    for (const Path& path : costs.chip().paths()) paths.emplace(move_name(path), &path);
    std::vector<Achievement> out;
    for (const Sum& sum : sums_of(timeline)) {
        const PipeInfo& pipe = program.pipes()[sum.pipe];
        const std::string& name = program.names()[sum.name];
        Achievement row{pipe.core, pipe.pipe, sum.move, name, sum.work, sum.rated_work, sum.rated_cycles};
        if (sum.move) {
            const auto path = paths.find(name);
            row.name = path != paths.end() ? path_name(path->second->source, path->second->target)
                                           : name.substr(std::min(name.size(), std::string_view("MOV-").size()));
            row.rated_work =
                path != paths.end() ? sum.work : 0;  // the path's best is the chip's, whoever gave the cost
            row.least_cycles =
                path != paths.end() ? static_cast<double>(sum.work) / costs.move_peak(*path->second) : 0.0;
        } else if (const std::optional<double> rate = best_rate(costs, name, sum.dtype)) {
            row.least_cycles = static_cast<double>(sum.rated_work) / *rate;
        }
        const auto same = [&](const Achievement& other) {
            return other.core == row.core && other.pipe == row.pipe && other.move == row.move && other.name == row.name;
        };
        const auto known = std::find_if(out.begin(), out.end(), same);
        if (known == out.end()) {
            out.push_back(std::move(row));
            continue;
        }
        add(known->work, row.work);
        known->rated_work += row.rated_work;
        known->least_cycles += row.least_cycles;
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Achievement& a, const Achievement& b) { return a.core < b.core; });
    return out;
}

}  // namespace mskpp
