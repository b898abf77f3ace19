// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analysis/release.h"
#include "base/text.h"
#include "mskpp/analysis.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::string_view cause_names[] = {"start", "pipe", "data", "flag", "barrier", "end"};

// What makes a stall the same as another, as numbers. Tensors made on one line are one.
struct StallKey {
    std::uint32_t line = 0, by_line = 0, tensor_line = 0, tensor_shape = 0;  // of a flag, tensor_line is its number
    std::uint16_t pipe = 0, by_pipe = 0, waiting = 0, by = 0;
    std::uint8_t cause = 0, tensor_memory = 0, tensor_dtype = 0;

    bool operator==(const StallKey&) const = default;
};

struct StallHash {
    std::size_t operator()(const StallKey& key) const {
        std::size_t hash = 0;
        for (const std::size_t part :
             {std::size_t{key.line} << 32 | key.by_line, std::size_t{key.tensor_line} << 32 | key.tensor_shape,
              std::size_t{key.pipe} << 48 | std::size_t{key.by_pipe} << 32 | std::size_t{key.waiting} << 16 | key.by,
              std::size_t{key.cause} << 16 | std::size_t{key.tensor_memory} << 8 | key.tensor_dtype})
            hash = (hash ^ part) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
        return hash;
    }
};

struct Sum {
    std::int64_t cycles = 0, count = 0;
    std::uint32_t tensor = none;  // one of those that are meant
};

constexpr std::uint16_t no_name = 0xffff;

class Bookkeeping {
  public:
    explicit Bookkeeping(const Timeline& timeline)
        : timeline_(timeline), program_(timeline.program()), free_(program_.pipes().size(), 0) {}

    Ledger made() {
        out_.total_cycles = timeline_.total_cycles();
        for (const PipeInfo& pipe : program_.pipes()) out_.pipes.push_back({pipe.name});
        number_flags();
        for (std::size_t i = 0; i < program_.size(); ++i) enter(static_cast<std::uint32_t>(i));
        for (std::size_t pipe = 0; pipe < free_.size(); ++pipe) out_.pipes[pipe].end = out_.total_cycles - free_[pipe];
        list_stalls();
        return std::move(out_);
    }

  private:
    static bool does_work(const Record& record) {
        return record.kind == Kind::move || record.kind == Kind::computation;
    }

    // Of each set its flag's number, and beside each set and wait what does work there.
    void number_flags() {
        if (program_.flags().empty()) return;
        flag_.assign(program_.size(), none);
        beside_.assign(program_.size(), none);
        for (const auto& [key, flag] : program_.flags()) {
            for (const std::uint32_t set : flag.sets) flag_[set] = static_cast<std::uint32_t>(keys_.size());
            keys_.push_back(&key);
        }
        std::vector<std::uint32_t> work(free_.size(), none);
        const auto look = [&](std::uint32_t i, Kind kind) {
            const Record& record = program_.record(i);
            if (does_work(record)) work[record.pipe] = i;
            if (record.kind == kind) beside_[i] = work[record.pipe];
        };
        const auto size = static_cast<std::uint32_t>(program_.size());
        for (std::uint32_t i = 0; i < size; ++i) look(i, Kind::set_flag);
        work.assign(free_.size(), none);
        for (std::uint32_t i = size; i-- > 0;) look(i, Kind::wait_flag);
    }

    // "flag 0 of PIPE-MTE2 to PIPE-V"
    std::string flag_text(std::uint32_t number) const {
        const Program::FlagKey& key = *keys_[number];
        const auto text = [&](std::uint16_t pipe, std::string_view pipe_name) {
            const std::string& core = program_.cores()[program_.pipes()[pipe].core];
            return concat(core, core.empty() ? "" : "-", pipe_name);
        };
        // Sets on the register pipes are all of the store slot.
        const Pipe from = program_.pipes()[key.source].pipe;
        const std::string_view source = name(is_register_pipe(from) ? Pipe::VEC : from);
        const std::string_view target =
            key.has_two_waits() ? std::string_view("PIPE-VEC") : name(program_.pipes()[key.target].pipe);
        return concat("flag ", key.number(), " of ", text(key.source, source), " to ", text(key.target, target));
    }

    std::string beside_text(std::string_view what, std::string_view where, std::uint16_t work) const {
        return work == no_name ? std::string(what) : concat(what, where, program_.names()[work]);
    }

    void enter(std::uint32_t i) {
        const Record& record = program_.record(i);
        const std::int64_t start = timeline_.start(i);
        const std::int64_t idle = start - free_[record.pipe];
        PipeLedger& pipe = out_.pipes[record.pipe];
        pipe.busy += record.cycles;
        free_[record.pipe] = start + record.cycles;
        if (idle == 0) return;
        const Release release = last_awaited(timeline_, i);
        (release.cause == Cause::data ? pipe.data : release.cause == Cause::flag ? pipe.flag : pipe.barrier) += idle;
        charge(i, release, idle);
    }

    void charge(std::uint32_t waiting, const Release& release, std::int64_t idle) {
        const Record& record = program_.record(waiting);
        const Record& by = program_.record(release.producer);
        StallKey key;
        key.line = record.line;
        key.by_line = by.line;
        key.pipe = record.pipe;
        key.by_pipe = by.pipe;
        key.waiting = record.name;
        key.by = by.name;
        key.cause = static_cast<std::uint8_t>(release.cause);
        if (release.cause == Cause::flag) {
            const std::uint32_t before = beside_[release.producer], after = beside_[waiting];
            if (before != none) key.by_line = program_.record(before).line;
            key.by = before == none ? no_name : program_.record(before).name;
            key.waiting = after == none ? no_name : program_.record(after).name;
            key.tensor_line = flag_[release.producer];
        }
        if (release.tensor != none) {
            const TensorRecord& tensor = program_.tensor(release.tensor);
            key.tensor_line = tensor.line;
            key.tensor_shape = tensor.shape;
            key.tensor_memory = static_cast<std::uint8_t>(tensor.memory);
            key.tensor_dtype = static_cast<std::uint8_t>(tensor.dtype);
        }
        Sum& sum = sums_[key];
        sum.cycles += idle;
        ++sum.count;
        sum.tensor = release.tensor;
    }

    // Equal shapes may have several numbers, so tensors are compared once more, by their texts.
    void list_stalls() {
        using Text = std::tuple<std::string, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t, std::uint32_t,
                                std::uint32_t, std::uint8_t>;
        std::map<Text, Sum> rows;
        for (const auto& [key, sum] : sums_) {
            const bool flag = static_cast<Cause>(key.cause) == Cause::flag;
            const std::string tensor = flag                 ? flag_text(key.tensor_line)
                                       : sum.tensor == none ? std::string()
                                                            : program_.tensor_text(sum.tensor);
            Sum& row = rows[{tensor, key.pipe, key.by_pipe, key.waiting, key.by, key.line, key.by_line, key.cause}];
            row.cycles += sum.cycles;
            row.count += sum.count;
        }
        for (const auto& [text, sum] : rows) {
            const auto& [tensor, pipe, by_pipe, waiting, by, line, by_line, cause] = text;
            const bool flag = static_cast<Cause>(cause) == Cause::flag;
            out_.stalls.push_back({program_.pipes()[pipe].name, static_cast<Cause>(cause), sum.cycles, sum.count,
                                   tensor, flag ? beside_text("SET_FLAG", " behind ", by) : program_.names()[by],
                                   program_.pipes()[by_pipe].name, program_.source_text(by_line),
                                   flag ? beside_text("WAIT_FLAG", " before ", waiting) : program_.names()[waiting],
                                   program_.source_text(line)});
        }
        for (std::size_t pipe = 0; pipe < out_.pipes.size(); ++pipe)
            if (out_.pipes[pipe].end > 0)
                out_.stalls.push_back(
                    {out_.pipes[pipe].pipe, Cause::end, out_.pipes[pipe].end, 1, {}, {}, {}, {}, {}, {}});
        std::stable_sort(out_.stalls.begin(), out_.stalls.end(),
                         [](const Stall& a, const Stall& b) { return a.cycles > b.cycles; });
    }

    const Timeline& timeline_;
    const Program& program_;
    std::vector<std::int64_t> free_;  // per pipe, when it has done what was entered
    std::unordered_map<StallKey, Sum, StallHash> sums_;
    std::vector<const Program::FlagKey*> keys_;
    ChunkedVector<std::uint32_t> flag_;    // of a set, where its flag is in keys_
    ChunkedVector<std::uint32_t> beside_;  // the work before a set, behind a wait; empty without flags
    Ledger out_;
};

}  // namespace

std::string_view name(Cause cause) { return cause_names[static_cast<std::size_t>(cause)]; }

Ledger ledger(const Timeline& timeline) { return Bookkeeping(timeline).made(); }

}  // namespace mskpp
