// SPDX-License-Identifier: Apache-2.0
#include "mskpp/memory_use.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace mskpp {

using base::concat;

namespace {

// A step function in time order, made smaller when it has too many points: then time is cut into equal stretches, and
// of each the largest, the smallest and the last value stay.
class Steps {
  public:
    explicit Steps(std::int64_t total_cycles) : stretch_(total_cycles / stretches + 1) {}

    // REQUIRES: no earlier than the last one.
    void set(std::int64_t cycle, std::int64_t bytes) {
        if (has_latest_ && latest_.cycle != cycle) commit();
        latest_ = {cycle, bytes};
        has_latest_ = true;
    }
    void finish() {
        if (has_latest_) commit();
        has_latest_ = false;
        if (reduced_) close_stretch();
    }
    const MemoryPoint& peak() const { return peak_; }
    std::vector<MemoryPoint> take() { return std::move(points_); }

  private:
    static constexpr std::int64_t stretches = MemoryUse::most_points / 3 - 1;
    static_assert(stretches > 0);

    // Only now is it known what the memory holds in that cycle.
    void commit() {
        if (latest_.bytes == value_) return;
        value_ = latest_.bytes;
        if (latest_.bytes > peak_.bytes) peak_ = latest_;
        if (reduced_) return add_reduced(latest_);
        if (points_.empty() && latest_.cycle > 0) points_.push_back({0, 0});
        points_.push_back(latest_);
        if (points_.size() < MemoryUse::most_points) return;
        reduced_ = true;
        const std::vector<MemoryPoint> exact = std::exchange(points_, {});
        for (const MemoryPoint& point : exact) add_reduced(point);
    }
    void add_reduced(const MemoryPoint& point) {
        const std::int64_t index = point.cycle / stretch_;
        if (index != index_) {
            close_stretch();
            index_ = index;
            largest_ = smallest_ = point;
        }
        if (point.bytes > largest_.bytes) largest_ = point;
        if (point.bytes < smallest_.bytes) smallest_ = point;
        last_ = point;
    }
    void close_stretch() {
        if (index_ < 0) return;
        std::array<MemoryPoint, 3> kept{largest_, smallest_, last_};
        std::sort(kept.begin(), kept.end(),
                  [](const MemoryPoint& a, const MemoryPoint& b) { return a.cycle < b.cycle; });
        for (const MemoryPoint& point : kept)
            if (points_.empty() || points_.back().cycle != point.cycle) points_.push_back(point);
        index_ = -1;
    }

    std::int64_t stretch_;
    MemoryPoint latest_{0, 0}, peak_{0, 0};
    bool has_latest_ = false;
    std::int64_t value_ = 0;  // of the last point
    std::vector<MemoryPoint> points_;
    bool reduced_ = false;
    std::int64_t index_ = -1;  // of the stretch that is open
    MemoryPoint largest_{0, 0}, smallest_{0, 0}, last_{0, 0};
};

// What lives in one memory, followed from start to start.
class Level {
  public:
    explicit Level(std::int64_t total_cycles) : steps_(total_cycles) {}

    // REQUIRES: starts no earlier than the last one.
    void add(std::int64_t start, std::int64_t death, std::int64_t bytes) {
        if (death <= start || bytes == 0) return;
        retire(start);
        live_ += bytes;  // fits: 2^63 are half a billion of the largest tensors
        steps_.set(start, live_);
        deaths_.emplace(death, bytes);
    }
    Steps& finish() {
        while (!deaths_.empty()) retire(deaths_.top().first);
        steps_.finish();
        return steps_;
    }

  private:
    void retire(std::int64_t until) {
        while (!deaths_.empty() && deaths_.top().first <= until) {
            const auto [cycle, bytes] = deaths_.top();
            deaths_.pop();
            live_ -= bytes;
            steps_.set(cycle, live_);
        }
    }

    using Death = std::pair<std::int64_t, std::int64_t>;  // cycle, bytes
    std::priority_queue<Death, std::vector<Death>, std::greater<>> deaths_;
    std::int64_t live_ = 0;
    Steps steps_;
};

// Until when each version lives.
class Lifetimes {
  public:
    explicit Lifetimes(const Timeline& timeline) : timeline_(timeline), program_(timeline.program()) {
        death_.assign(program_.size(), 0);
        for (const FurtherOutput& output : program_.further_outputs())
            further_death_.push_back(timeline.end(output.instruction));
        std::size_t replaced = 0;         // of in_place()
        std::vector<std::uint32_t> over;  // the producers whose values the reader writes over
        for (std::uint32_t reader = 0; reader < program_.size(); ++reader) {
            extend(death_[reader], timeline.end(reader));
            const auto& in_place = program_.in_place();
            over.clear();
            for (; replaced < in_place.size() && in_place[replaced].reader == reader; ++replaced)
                over.push_back(in_place[replaced].producer);
            std::sort(over.begin(), over.end());
            program_.each_dependency(reader, [&](const Dependency& read) {
                if (read.tensor == none) return;
                const bool replaces = std::binary_search(over.begin(), over.end(), read.producer);
                const std::int64_t until = replaces ? timeline.start(reader) : timeline.end(reader);
                extend(death_[read.producer], until);
                const std::size_t further = find_further(read.producer, read.tensor);
                if (further < further_death_.size()) extend(further_death_[further], until);
            });
        }
    }

    // `visit(memory, bytes, start, death, tensor)` for each version of the instruction; tensor: none where not known.
    template <typename Visit>
    void each_version(std::uint32_t i, Visit visit) const {
        if (program_.has_one_output(i)) {
            const Output& output = program_.output(i);
            visit(output.memory, output.bytes, timeline_.start(i), death_[i], none);
        } else if (!further_death_.empty()) {
            const auto& all = program_.further_outputs();
            for (std::size_t f = first_further(i); f < all.size() && all[f].instruction == i; ++f)
                visit(all[f].memory, all[f].bytes, timeline_.start(i), further_death_[f], all[f].tensor);
        }
    }

  private:
    static void extend(std::int64_t& death, std::int64_t until) { death = std::max(death, until); }
    std::size_t first_further(std::uint32_t instruction) const {
        const auto& all = program_.further_outputs();
        const auto before = [](const FurtherOutput& output, std::uint32_t i) { return output.instruction < i; };
        return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), instruction, before) - all.begin());
    }
    std::size_t find_further(std::uint32_t instruction, std::uint32_t tensor) const {
        const auto& all = program_.further_outputs();
        if (all.empty() || program_.has_one_output(instruction)) return further_death_.size();
        for (std::size_t f = first_further(instruction); f < all.size() && all[f].instruction == instruction; ++f)
            if (all[f].tensor == tensor) return f;
        return further_death_.size();
    }

    const Timeline& timeline_;
    const Program& program_;
    ChunkedVector<std::int64_t> death_;        // of the only output of each instruction
    std::vector<std::int64_t> further_death_;  // of further_outputs()
};

using Levels = std::array<std::unique_ptr<Level>, memory_count>;

// Follows the instructions of one core by their start: each of its pipes has them in order.
template <typename Visit>
void each_by_start(const Timeline& timeline, std::vector<std::uint32_t> heads, Visit visit) {
    const Program& program = timeline.program();
    while (!heads.empty()) {
        auto next = heads.begin();
        for (auto other = next + 1; other != heads.end(); ++other)
            if (timeline.start(*other) < timeline.start(*next)) next = other;
        visit(*next);
        *next = program.next_on_pipe(*next);
        if (*next == none) heads.erase(next);
    }
}

// Finds what lives in the exceeded memories at their peaks.
class Culprits {
  public:
    Culprits(const Timeline& timeline, const Lifetimes& lifetimes) : program_(timeline.program()), lives_(lifetimes) {}

    void list(std::vector<MemoryUse*> exceeded) {
        for (MemoryUse* use : exceeded) uses_.emplace(std::pair(use->core, use->memory), use);
        for (std::uint32_t i = 0; i < program_.size(); ++i)
            lives_.each_version(i, [&](Memory memory, std::int64_t bytes, std::int64_t start, std::int64_t death,
                                       std::uint32_t tensor) {
                const auto found = uses_.find(std::pair(program_.pipes()[program_.record(i).pipe].core, memory));
                if (found == uses_.end()) return;
                const std::int64_t peak = found->second->peak_cycle;
                if (start <= peak && peak < death) live_.push_back({found->second, i, tensor, bytes, 1});
            });
        name_tensors();
        std::map<Alike, Live> alike;  // with the sum of the bytes
        for (const Live& live : live_) {
            const auto [found, added] = alike.try_emplace(key_of(live), live);
            if (added) continue;
            found->second.bytes += live.bytes;
            found->second.versions += live.versions;
        }
        std::map<std::pair<MemoryUse*, std::string>, LiveTensor> groups;
        for (const auto& [key, live] : alike) {
            const std::string text = live.tensor != none ? program_.tensor_text(live.tensor) : text_of_unread(live);
            LiveTensor& group = groups[{live.use, text}];
            group.text = text;
            group.bytes += live.bytes;
            group.versions += live.versions;
        }
        for (auto& [key, group] : groups) key.first->largest.push_back(std::move(group));
        for (MemoryUse* use : exceeded) {
            std::stable_sort(use->largest.begin(), use->largest.end(),
                             [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
            if (use->largest.size() > MemoryUse::most_listed) use->largest.resize(MemoryUse::most_listed);
        }
    }

  private:
    struct Live {
        MemoryUse* use;
        std::uint32_t writer, tensor;
        std::int64_t bytes;
        std::int64_t versions;
    };
    // Equal for tensors that have the same text, before there is one: there may be millions.
    using Alike = std::tuple<MemoryUse*, bool, std::uint32_t, std::uint32_t, DType>;
    Alike key_of(const Live& live) const {
        if (live.tensor == none) {
            const Record& record = program_.record(live.writer);
            return {live.use, false, record.line, record.name, DType::unset};
        }
        const TensorRecord& tensor = program_.tensor(live.tensor);
        return {live.use, true, tensor.line, tensor.shape, tensor.dtype};
    }

    // Which tensor an only output lies in is known to its readers.
    void name_tensors() {
        std::unordered_map<std::uint32_t, std::uint32_t> tensors;
        for (const Live& live : live_)
            if (live.tensor == none) tensors.emplace(live.writer, none);
        for (std::uint32_t i = 0; i < program_.size() && !tensors.empty(); ++i)
            program_.each_dependency(i, [&](const Dependency& read) {
                if (read.tensor == none) return;
                const auto found = tensors.find(read.producer);
                if (found != tensors.end()) found->second = read.tensor;
            });
        for (Live& live : live_)
            if (live.tensor == none) live.tensor = tensors[live.writer];
    }

    std::string text_of_unread(const Live& live) const {
        const Record& record = program_.record(live.writer);
        const std::string line = program_.source_text(record.line);
        return concat("what ", program_.name(record), line.empty() ? "" : " (" + line + ")",
                      " writes and nobody reads");
    }

    const Program& program_;
    const Lifetimes& lives_;
    std::map<std::pair<std::uint16_t, Memory>, MemoryUse*> uses_;
    std::vector<Live> live_;
};

}  // namespace

std::vector<MemoryUse> memory_use(const Timeline& timeline) {
    const Program& program = timeline.program();
    const Lifetimes lifetimes(timeline);
    std::map<std::uint16_t, std::vector<std::uint32_t>> heads;  // per core, the first instruction of each pipe
    for (const PipeInfo& pipe : program.pipes())
        if (pipe.first != none) heads[pipe.core].push_back(pipe.first);
    std::vector<MemoryUse> out;
    for (const auto& [core, firsts] : heads) {
        Levels levels;
        each_by_start(timeline, firsts, [&](std::uint32_t i) {
            lifetimes.each_version(
                i, [&](Memory memory, std::int64_t bytes, std::int64_t start, std::int64_t death, std::uint32_t) {
                    auto& level = levels[static_cast<std::size_t>(memory)];
                    if (!level) level = std::make_unique<Level>(timeline.total_cycles());
                    level->add(start, death, bytes);
                });
        });
        for (std::size_t m = 0; m < levels.size(); ++m) {
            if (!levels[m]) continue;
            const auto memory = static_cast<Memory>(m);
            Steps& steps = levels[m]->finish();
            out.push_back({core,
                           memory,
                           steps.peak().bytes,
                           steps.peak().cycle,
                           program.chip().capacity_bytes(memory),
                           steps.take(),
                           {}});
        }
    }
    std::vector<MemoryUse*> exceeded;
    for (MemoryUse& use : out)
        if (use.exceeded()) exceeded.push_back(&use);
    if (!exceeded.empty()) Culprits(timeline, lifetimes).list(exceeded);
    return out;
}

}  // namespace mskpp
