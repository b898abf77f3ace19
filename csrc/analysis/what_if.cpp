// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "mskpp/analysis.h"
#include "schedule/engine.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::size_t most_names = 200;  // paths and instructions, by their cycles on the critical path

enum class Pace : std::uint8_t { recorded, twice, free };

std::int64_t at(Pace pace, std::int64_t cycles) {
    return pace == Pace::recorded ? cycles : pace == Pace::twice ? cycles - cycles / 2 : 0;
}

bool has_cost(const Record& record) { return record.kind == Kind::move || record.kind == Kind::computation; }

// Other costs: cycles(i, record) in place of the recorded ones.
template <typename Cycles>
struct Repriced {
    const Program& program;
    Cycles price;

    std::int64_t cycles(std::uint32_t i, const Record& record) const { return price(i, record); }
    template <typename Visit>
    void each_dependency(std::uint32_t i, Visit visit) const {
        program.each_dependency(i, visit);
    }
    void completed(std::uint32_t) {}
};

// Waits that take another set, by the set they took: an earlier one of the same pipe, or none.
struct Rematched {
    const Program& program;
    const std::uint32_t* instead;

    std::int64_t cycles(std::uint32_t, const Record& record) const { return record.cycles; }
    template <typename Visit>
    void each_dependency(std::uint32_t i, Visit visit) const {
        if (program.record(i).kind != Kind::wait_flag) return program.each_dependency(i, visit);
        program.each_dependency(i, [&](Dependency dependency) {
            if (dependency.tensor == none && program.record(dependency.producer).kind == Kind::set_flag)
                dependency.producer = instead[dependency.producer];
            if (dependency.producer != none) visit(dependency);
        });
    }
    void completed(std::uint32_t) {}
};

// The pipes of a core that one flag end can name: the register pipes are one.
Pipe station(Pipe pipe) { return is_register_pipe(pipe) ? Pipe::VEC : pipe; }

// All flags from one pipe to another: the sets, in program order, and where those of each id begin.
struct Channel {
    std::vector<std::vector<std::uint32_t>> ids;
};

class WhatIf {
  public:
    WhatIf(const Timeline& timeline, const std::function<void()>& between)
        : timeline_(timeline), program_(timeline.program()), between_(between) {}

    std::vector<Gain> table() {
        weigh();
        try_pipes();
        try_names();
        try_cache();
        try_buffers();
        std::stable_sort(out_.begin(), out_.end(),
                         [](const Gain& a, const Gain& b) { return a.gain_cycles > b.gain_cycles; });
        return std::move(out_);
    }

  private:
    // What a pipe or a name uses at all, and what of that lies on one critical path. A change that touches nothing on a
    // critical path leaves the path as long as it is, so it gains nothing and need not be scheduled.
    struct Weight {
        std::int64_t instructions = 0;  // that take any time
        std::int64_t converting = 0;    // moves that change the format
        std::int64_t critical = 0, critical_halved = 0;

        void add(const Record& record) {
            instructions += record.cycles != 0;
            converting += record.kind == Kind::move && record.transform;
        }
        void add_critical(const Record& record) {
            critical += record.cycles;
            critical_halved += at(Pace::twice, record.cycles);
        }
    };

    void weigh() {
        pipes_.resize(program_.pipes().size());
        for (auto& names : names_) names.resize(program_.names().size());
        for (std::size_t i = 0; i < program_.size(); ++i) {
            const Record& record = program_.record(i);
            if (!has_cost(record)) continue;
            pipes_[record.pipe].add(record);
            names_of(record.kind)[record.name].add(record);
        }
        critical_ = critical_path(timeline_).steps;
        for (const Step& step : critical_) {
            const Record& record = program_.record(step.instruction);
            if (!has_cost(record)) continue;
            pipes_[record.pipe].add_critical(record);
            names_of(record.kind)[record.name].add_critical(record);
        }
    }

    std::vector<Weight>& names_of(Kind kind) { return names_[kind == Kind::computation ? 1 : 0]; }

    // The makespan with other costs or flags.
    template <typename Source>
    std::int64_t makespan(Source source) {
        if (between_) between_();
        Engine<Source> engine(std::move(source));
        const std::int64_t total = engine.run();
        // Costs decide when an instruction starts, never what it waits for; and a wait that takes an earlier set of the
        // same pipe waits for less than before. So nothing can come to wait for itself.
        assert(!engine.stuck());
        return total;
    }
    template <typename Cycles>
    std::int64_t repriced(Cycles price) {
        return makespan(Repriced<Cycles>{program_, std::move(price)});
    }

    void add(std::string kind, std::string subject, std::string change, std::int64_t total) {
        out_.push_back(
            {std::move(kind), std::move(subject), std::move(change), total, timeline_.total_cycles() - total});
    }

    // `changed(record)`: whether the subject is meant.
    template <typename Changed>
    void try_paces(const char* kind, const std::string& subject, const Weight& weight, Changed changed) {
        if (weight.instructions == 0) return;
        for (const Pace pace : {Pace::twice, Pace::free}) {
            const bool can_gain = pace == Pace::free ? weight.critical != 0 : weight.critical_halved != weight.critical;
            const auto price = [&](std::uint32_t, const Record& record) {
                return changed(record) ? at(pace, record.cycles) : record.cycles;
            };
            add(kind, subject, pace == Pace::twice ? "2x" : "free",
                can_gain ? repriced(price) : timeline_.total_cycles());
        }
    }

    void try_pipes() {
        for (int queue = 0; queue < queue_count; ++queue) {
            std::vector<char> meant(pipes_.size(), 0);
            Weight weight;
            for (std::size_t i = 0; i < pipes_.size(); ++i) {
                if (program_.pipes()[i].pipe != static_cast<Pipe>(queue)) continue;
                meant[i] = 1;
                weight.instructions += pipes_[i].instructions;
                weight.critical += pipes_[i].critical;
                weight.critical_halved += pipes_[i].critical_halved;
            }
            try_paces("pipe", std::string(name(static_cast<Pipe>(queue))), weight,
                      [&](const Record& record) { return has_cost(record) && meant[record.pipe] != 0; });
        }
    }

    void try_names() {
        std::vector<std::pair<Kind, std::uint16_t>> used;
        for (const Kind kind : {Kind::move, Kind::computation})
            for (std::size_t i = 0; i < program_.names().size(); ++i)
                if (names_of(kind)[i].instructions != 0) used.emplace_back(kind, static_cast<std::uint16_t>(i));
        std::stable_sort(used.begin(), used.end(), [&](const auto& a, const auto& b) {
            return names_of(a.first)[a.second].critical > names_of(b.first)[b.second].critical;
        });
        if (used.size() > most_names) used.resize(most_names);
        for (const auto& [kind, id] : used) {
            try_paces(
                kind == Kind::move ? "path" : "instruction", program_.names()[id], names_of(kind)[id],
                [kind = kind, id = id](const Record& record) { return record.name == id && record.kind == kind; });
            if (kind == Kind::move) try_moves(id);
        }
    }

    // --- the cache ---

    static bool has_model_cost(const Record& record) {
        return record.kind == Kind::move && record.origin != Origin::user;
    }

    // The cycles of every instruction with other costs of moves, and what that changes.
    struct Recosted {
        ChunkedVector<std::int64_t> cycles;
        bool changed = false, raised = false;
    };

    // Of moves with a cost of the model that are `meant(record)`: cost(path, record, repeat, hit ratio).
    template <typename Meant, typename MoveCost>
    Recosted recosted(Meant meant, MoveCost cost) const {
        using Work = std::tuple<std::uint16_t, bool, std::int64_t, std::int64_t, double>;
        std::map<Work, std::int64_t> known;  // tiles repeat
        Recosted out;
        auto repeated = program_.repeated().begin();
        auto next_ratio = program_.hit_ratios().begin();
        double ratio = 0;
        for (std::size_t i = 0; i < program_.size(); ++i) {
            const Record& record = program_.record(i);
            std::int64_t repeat = 1, cycles = record.cycles;
            if (repeated != program_.repeated().end() && repeated->move == i) repeat = (repeated++)->repeat;
            while (next_ratio != program_.hit_ratios().end() && next_ratio->first <= i) ratio = (next_ratio++)->ratio;
            const Path* path = has_model_cost(record) && meant(record) ? program_.path_of(record.name) : nullptr;
            if (path != nullptr) {
                const auto [found, anew] =
                    known.try_emplace({record.name, record.transform, record.work, repeat, ratio});
                if (anew) found->second = cost(*path, record, repeat, ratio);
                cycles = found->second;
            }
            out.changed = out.changed || cycles != record.cycles;
            out.raised = out.raised || cycles > record.cycles;
            out.cycles.push_back(cycles);
        }
        return out;
    }

    // A row, if it changes anything. What only gets cheaper, off the critical path, leaves the path as long as it is.
    void try_recosted(const char* kind, const std::string& subject, const char* change, const Recosted& other) {
        if (!other.changed) return;
        const bool matters = other.raised || std::any_of(critical_.begin(), critical_.end(), [&](const Step& step) {
                                 return other.cycles[step.instruction] != program_.record(step.instruction).cycles;
                             });
        add(kind, subject, change,
            matters ? repriced([&](std::uint32_t i, const Record&) { return other.cycles[i]; })
                    : timeline_.total_cycles());
    }

    void try_cache() {
        std::vector<char> cached(program_.names().size(), 0);
        for (std::size_t i = 0; i < cached.size(); ++i) {
            const Path* path = program_.path_of(static_cast<std::uint16_t>(i));
            cached[i] = path != nullptr && uses_cache(*path);
        }
        const Costs& costs = *program_.shared_costs();
        for (const double wanted : {0.0, 1.0})
            try_recosted("cache", "cache_hit_ratio", wanted == 0 ? "ratio 0" : "ratio 1",
                         recosted([&](const Record& record) { return cached[record.name] != 0; },
                                  [&](const Path& path, const Record& record, std::int64_t repeat, double) {
                                      return costs.move(path, record.work, record.transform, repeat, wanted).cycles;
                                  }));
    }

    // --- other moves over the same path ---

    void try_moves(std::uint16_t name) {
        // A move beyond it is left as it is: what twice its bytes cost could not be counted.
        constexpr std::int64_t most = std::int64_t{1} << 58;
        const Costs& costs = *program_.shared_costs();
        const std::string& subject = program_.names()[name];
        try_recosted("path", subject, "2x larger",
                     recosted([&](const Record& record) { return record.name == name; },
                              [&](const Path& path, const Record& record, std::int64_t repeat, double ratio) {
                                  if (record.work > most || record.cycles > most) return record.cycles;
                                  return at(Pace::twice,
                                            costs.move(path, 2 * record.work, record.transform, repeat, ratio).cycles);
                              }));
        if (names_[0][name].converting != 0)
            try_recosted("path", subject, "no conversion",
                         recosted([&](const Record& record) { return record.name == name && record.transform; },
                                  [&](const Path& path, const Record& record, std::int64_t repeat, double ratio) {
                                      return costs.move(path, record.work, false, repeat, ratio).cycles;
                                  }));
    }

    // --- buffers ---

    static std::uint64_t pair(std::uint64_t from, std::uint64_t to) { return from << 32 | to; }
    std::uint32_t place(std::uint16_t pipe) const {
        const PipeInfo& info = program_.pipes()[pipe];
        return std::uint32_t{info.core} << 8 | static_cast<std::uint32_t>(station(info.pipe));
    }

    // From where to where values go.
    std::unordered_set<std::uint64_t> flows() const {
        std::unordered_set<std::uint64_t> out;
        std::uint64_t latest = 0;
        for (std::size_t i = 0; i < program_.size(); ++i)
            program_.each_dependency(i, [&](const Dependency& dependency) {
                if (dependency.tensor == none) return;
                const std::uint64_t pipes =
                    pair(program_.record(dependency.producer).pipe, program_.record(i).pipe) + 1;
                if (pipes == latest) return;
                latest = pipes;
                out.insert(pair(place(program_.record(dependency.producer).pipe), place(program_.record(i).pipe)));
            });
        return out;
    }

    // Flags by which a pipe gives buffers back to the one that fills them, by the names of the two pipes.
    std::map<std::string, std::map<std::uint64_t, Channel>> backward_channels() const {
        std::map<std::string, std::map<std::uint64_t, Channel>> out;
        std::optional<std::unordered_set<std::uint64_t>> data;
        program_.each_flag([&](std::uint16_t source, std::uint16_t target, const std::vector<std::uint32_t>& sets) {
            if (sets.empty()) return;
            if (!data) data = flows();
            const std::uint64_t from = place(source), to = place(target);
            if (data->count(pair(to, from)) == 0 || data->count(pair(from, to)) != 0) return;
            const std::string subject = concat(name(station(program_.pipes()[source].pipe)), " -> ",
                                               name(station(program_.pipes()[target].pipe)));
            out[subject][pair(source, target)].ids.push_back(sets);
        });
        return out;
    }

    void try_buffers() {
        const auto subjects = backward_channels();
        if (subjects.empty()) return;
        std::vector<std::uint32_t> instead(program_.size());
        for (std::uint32_t i = 0; i < instead.size(); ++i) instead[i] = i;
        for (const auto& [subject, channels] : subjects) {
            const bool several = std::any_of(channels.begin(), channels.end(),
                                             [](const auto& channel) { return channel.second.ids.size() > 1; });
            for (const bool per_id : {false, true}) {
                if (per_id && !several) continue;
                for (const auto& [pipes, channel] : channels) shift(channel, per_id, instead);
                add("buffer", subject, per_id ? "+1 per id" : "+1",
                    touches_critical(instead) ? makespan(Rematched{program_, instead.data()})
                                              : timeline_.total_cycles());
                for (const auto& [pipes, channel] : channels)
                    for (const auto& sets : channel.ids)
                        for (const std::uint32_t set : sets) instead[set] = set;
            }
        }
    }

    static void shift(const Channel& channel, bool per_id, std::vector<std::uint32_t>& instead) {
        std::vector<std::vector<std::uint32_t>> all(1);
        for (const auto& sets : channel.ids) all[0].insert(all[0].end(), sets.begin(), sets.end());
        std::sort(all[0].begin(), all[0].end());
        for (const auto& sets : per_id ? channel.ids : all)
            for (std::size_t k = 0; k < sets.size(); ++k) instead[sets[k]] = k == 0 ? none : sets[k - 1];
    }

    // Whether a wait on the critical path takes another set than the one before it there.
    bool touches_critical(const std::vector<std::uint32_t>& instead) const {
        for (std::size_t n = 1; n < critical_.size(); ++n) {
            const std::uint32_t set = critical_[n - 1].instruction;
            if (critical_[n].why == Cause::flag && instead[set] != set) return true;
        }
        return false;
    }

    const Timeline& timeline_;
    const Program& program_;
    const std::function<void()>& between_;
    std::vector<Step> critical_;
    std::vector<Weight> pipes_;
    std::array<std::vector<Weight>, 2> names_;  // of moves, of computations
    std::vector<Gain> out_;
};

}  // namespace

std::vector<Gain> what_if(const Timeline& timeline, const std::function<void()>& between) {
    return WhatIf(timeline, between).table();
}

}  // namespace mskpp
