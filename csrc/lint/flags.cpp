// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "lint/flag_graph.h"
#include "mskpp/lint.h"

namespace mskpp {

using base::concat;

namespace {

// CANN's documentation of SetFlag and CrossCoreSetFlag, architectures 2201 and 3510.
constexpr std::uint32_t last_id_in_a_core = 7;
constexpr std::uint32_t last_id_between_cores = 15;
constexpr std::size_t pending_in_a_core = 1;
constexpr std::size_t pending_between_cores = 15;
constexpr std::size_t most_hops = 5;  // of a cycle, told
constexpr std::size_t most_ids = 8;   // listed

using Pair = std::pair<std::uint32_t, std::uint32_t>;
using FlagKey = Program::FlagKey;
using Flag = Program::Flag;

class FlagLint {
  public:
    explicit FlagLint(const Program& program) : program_(program), graph_(program) {
        for (const auto& [key, flag] : program.flags()) flags_.push_back({&key, &flag});
        std::sort(flags_.begin(), flags_.end(),
                  [](const Channel& a, const Channel& b) { return a.first() < b.first(); });
    }

    std::vector<Finding> findings() {
        unmatched();
        crossed();
        unordered();
        own_pipe();
        never_needed();
        set_twice();
        ids();
        std::vector<Finding> out;
        std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
            return std::tie(a.finding.severity, a.at) < std::tie(b.finding.severity, b.at);
        });
        for (Found& one : found_) out.push_back(std::move(one.finding));
        return out;
    }

  private:
    struct Channel {
        const FlagKey* key;
        const Flag* flag;
        std::uint32_t first() const {
            return std::min(flag->sets.empty() ? none : flag->sets[0], flag->waits.empty() ? none : flag->waits[0]);
        }
    };
    struct Found {
        std::uint32_t at;  // an instruction, for the order
        Finding finding;
    };
    struct Matched {
        const FlagKey* key;
        std::uint32_t set, wait;
        bool implied = false, implied_without_data = false;
    };
    // What the user can take out: a line, as far as it serves two kinds of pipe, on all cores that run it. An
    // instruction without a line is its own.
    using Place = std::uint64_t;
    static constexpr Place lineless = Place{1} << 63;

    std::uint32_t line_of(std::uint32_t i) const { return program_.record(i).line; }

    Place place(std::uint32_t i, const FlagKey& key) const { return place(i, key.source, key.target); }
    Place place(std::uint32_t i, std::uint16_t source, std::uint16_t target) const {
        if (line_of(i) == 0) return lineless | i;
        return Place{line_of(i)} << 32 | kinds(source, target);
    }

    // The kinds of two pipes, and whether they are on one core.
    std::uint32_t kinds(std::uint16_t source, std::uint16_t target) const {
        const PipeInfo &from = program_.pipes()[source], &to = program_.pipes()[target];
        return static_cast<std::uint32_t>(from.pipe) << 16 | static_cast<std::uint32_t>(to.pipe) << 1 |
               (from.core == to.core ? 1u : 0u);
    }

    std::string at(std::uint32_t i) const {
        const std::string line = program_.source_text(line_of(i));
        return line.empty() ? "" : concat(" (", line, ")");
    }
    std::string set_text(const FlagKey& key) const { return concat("set_flag(", program_.flag_text(key), ")"); }
    std::string wait_text(const FlagKey& key) const { return concat("wait_flag(", program_.flag_text(key), ")"); }
    const std::string& pipe(std::uint16_t number) const { return program_.pipes()[number].name; }

    // Finds the finding of this problem and these places, or starts one that `make` fills.
    template <typename Make>
    void add(Problem problem, Severity severity, const std::vector<Place>& places, const Pair& pair, Make make) {
        const auto [it, is_new] = known_.try_emplace({problem, places}, found_.size());
        if (is_new) {
            Found one{std::min(pair.first, pair.second), {problem, severity, {}, {}, {}, 0, {}}};
            std::set<std::uint32_t> seen;
            for (const Place where : places) {
                const auto line = static_cast<std::uint32_t>(where >> 32);
                if ((where & lineless) == 0 && seen.insert(line).second)
                    one.finding.lines.push_back(program_.source_text(line));
            }
            make(one.finding);
            found_.push_back(std::move(one));
        }
        Finding& finding = found_[it->second].finding;
        ++finding.count;
        if (finding.pairs.size() < Finding::most_pairs) finding.pairs.push_back(pair);
    }

    void unmatched() {
        std::map<std::pair<std::uint16_t, std::uint16_t>, std::array<const Channel*, 2>> left;
        for (const Channel& channel : flags_) {
            auto& both = left[{channel.key->source, channel.key->target}];
            if (channel.flag->matched < channel.flag->sets.size() && both[0] == nullptr) both[0] = &channel;
            if (channel.flag->matched < channel.flag->waits.size() && both[1] == nullptr) both[1] = &channel;
        }
        const auto swapped = [&](const FlagKey& key, std::size_t which) -> const Channel* {
            const auto it = left.find({key.target, key.source});
            return key.source == key.target || it == left.end() ? nullptr : it->second[which];
        };
        for (const Channel& channel : flags_) {
            const auto [sets, waits] = left[{channel.key->source, channel.key->target}];
            const FlagKey& key = *channel.key;
            const Flag& flag = *channel.flag;
            const Channel *swapped_set = swapped(key, 0), *swapped_wait = swapped(key, 1);
            for (std::size_t i = flag.matched; i < flag.sets.size(); ++i)
                add(Problem::unmatched, Severity::error, {place(flag.sets[i], key)}, {flag.sets[i], none},
                    [&](Finding& finding) {
                        finding.text = concat(set_text(key), " is never waited for");
                        finding.cure = waits != nullptr ? concat(wait_text(*waits->key), at(waits->flag->waits.back()),
                                                                 " has no set_flag: give both the same id")
                                       : swapped_wait != nullptr
                                           ? concat(wait_text(*swapped_wait->key), at(swapped_wait->flag->waits.back()),
                                                    " has no set_flag: swap source and target of one of the two")
                                           : concat("issue ", wait_text(key), " where ", pipe(key.target),
                                                    " must wait, or remove the set_flag");
                    });
            for (std::size_t i = flag.matched; i < flag.waits.size(); ++i)
                add(Problem::unmatched, Severity::error, {place(flag.waits[i], key)}, {none, flag.waits[i]},
                    [&](Finding& finding) {
                        finding.text = concat(wait_text(key), " waits for a set_flag that is never issued");
                        finding.cure = sets != nullptr ? concat(set_text(*sets->key), at(sets->flag->sets.back()),
                                                                " is never waited for: give both the same id")
                                       : swapped_set != nullptr
                                           ? concat(set_text(*swapped_set->key), at(swapped_set->flag->sets.back()),
                                                    " is never waited for: swap source and target of one of the two")
                                           : concat("issue ", set_text(key), " behind what ", pipe(key.target),
                                                    " waits for, or remove the wait_flag");
                    });
        }
    }

    void crossed() {
        for (const auto& cycle : graph_.flag_cycles()) {
            std::vector<Place> places;
            std::vector<Pair> pairs;
            for (const FlagGraph::Edge& edge : cycle) {
                if (edge.why == FlagGraph::Why::pipe) continue;
                for (const std::uint32_t i : {edge.reader, edge.producer})
                    places.push_back(place(i, program_.record(i).pipe, program_.record(i).pipe));
                if (edge.why == FlagGraph::Why::flag) pairs.emplace_back(edge.producer, edge.reader);
            }
            add(Problem::crossed, Severity::error, places, pairs[0], [&](Finding& finding) {
                finding.text = concat("a certain deadlock: ", told(cycle));
                finding.cure = concat("issue set_flag(", program_.flag_text(*program_.flag_of(pairs[0].first)), ")",
                                      at(pairs[0].first), " earlier, or one of the waits later");
                if (const Pair* flag = first_pass(pairs))
                    finding.cure += concat("; or set_flag(", program_.flag_text(*program_.flag_of(flag->first)),
                                           ") once before the loop, whose first pass waits for what its end sets");
            });
            Finding& finding = found_[known_.at({Problem::crossed, places})].finding;
            if (finding.count == 1) finding.pairs = std::move(pairs);
        }
    }

    // A wait, issued more than once, whose first comes before the first set: a loop that hands a buffer back.
    const Pair* first_pass(const std::vector<Pair>& pairs) const {
        for (const Pair& pair : pairs) {
            const Flag& flag = program_.flags().at(*program_.flag_of(pair.first));
            if (flag.waits.size() > 1 && flag.sets[0] == pair.first && pair.second < pair.first) return &pair;
        }
        return nullptr;
    }

    // The vector unit takes its instructions and its register queues in order, and registers belong to it.
    bool hardware_orders(std::uint16_t writer, std::uint16_t reader) const {
        const auto is_vector = [&](std::uint16_t number) {
            return program_.pipes()[number].pipe == Pipe::V || is_register_pipe(program_.pipes()[number].pipe) ||
                   program_.pipes()[number].pipe == Pipe::RVECST;
        };
        return writer == reader || (program_.pipes()[writer].core == program_.pipes()[reader].core &&
                                    is_vector(writer) && is_vector(reader));
    }

    struct Read {
        std::uint32_t writer, reader, tensor;
        bool operator<(const Read& other) const {
            return std::tie(reader, writer, tensor) < std::tie(other.reader, other.writer, other.tensor);
        }
    };

    // Each writer and reader of local memory on pipes that hardware does not order by itself, once.
    std::vector<Read> local_reads() const {
        std::vector<Read> reads;
        for (std::uint32_t i = 0; i < program_.size(); ++i) {
            if (!graph_.runs(i)) continue;
            const std::size_t first = reads.size();
            graph_.each_edge(i, [&](const FlagGraph::Edge& edge) {
                if (edge.why != FlagGraph::Why::data) return;
                const Memory memory = program_.tensor(edge.tensor).memory;
                if (memory == Memory::GM || memory == Memory::VEC) return;
                if (hardware_orders(program_.record(edge.producer).pipe, program_.record(i).pipe)) return;
                reads.push_back({edge.producer, i, edge.tensor});
            });
            const auto begin = reads.begin() + static_cast<std::ptrdiff_t>(first);
            std::sort(begin, reads.end());
            reads.erase(
                std::unique(begin, reads.end(), [](const Read& a, const Read& b) { return a.writer == b.writer; }),
                reads.end());
        }
        return reads;
    }

    void unordered() {
        const std::vector<Read> reads = local_reads();
        std::vector<FlagGraph::Question> questions;
        for (const Read& read : reads) questions.push_back({read.writer, read.reader});
        bool ordered = !flags_.empty();  // without flags and barriers nothing puts one pipe behind another
        for (std::uint32_t i = 0; i < program_.size() && !ordered; ++i)
            ordered = program_.record(i).kind == Kind::barrier;
        has_flags_within_ = std::any_of(flags_.begin(), flags_.end(),
                                        [&](const Channel& channel) { return is_within_a_core(*channel.key); });
        if (ordered) graph_.answer(questions, false);  // they stay in the order of the reads
        for (std::size_t q = 0; q < reads.size(); ++q)
            if (!questions[q].answer) tell_unordered(reads[q]);
    }

    void tell_unordered(const Read& read) {
        const std::uint16_t from = program_.record(read.writer).pipe, to = program_.record(read.reader).pipe;
        std::vector<Place> places{place(read.writer, from, to), place(read.reader, from, to)};
        // Flags between cores alone: the cores take turns, what is within one is left to the model.
        const bool within = program_.pipes()[from].core == program_.pipes()[to].core;
        const bool left_out = within ? !has_flags_within_ : flags_.empty();
        if (left_out) {
            if (!without_flags_.empty()) places = without_flags_;
            without_flags_ = places;
        }
        add(Problem::unordered, left_out ? Severity::hint : Severity::warning, places, {read.writer, read.reader},
            [&](Finding& finding) {
                const std::string what =
                    concat(instruction(read.reader), " on ", pipe(to), " reads ", program_.tensor_text(read.tensor));
                const std::string writer = concat(instruction(read.writer), " on ", pipe(from));
                const bool waits_on_vec = is_register_pipe(program_.pipes()[to].pipe);
                std::string ends = program_.flag_text({from, to, waits_on_vec ? 1u << 16 : 0u});
                ends.replace(ends.rfind('0'), 1, "id");  // which id is free is the user's to say
                const bool has_flags = std::any_of(flags_.begin(), flags_.end(), [&](const Channel& channel) {
                    return channel.key->source == from && channel.key->target == to;
                });
                finding.text =
                    left_out
                        ? concat(flags_.empty() ? "no flags at all" : "no flags within a core",
                                 ": the model orders reads behind writes by itself, hardware does not; the first: ",
                                 what, ", written by ", writer)
                        : concat(what, ", and no flag or barrier puts that behind ", writer, ", which writes it");
                finding.cure = concat(has_flags ? "move set_flag(" : "set_flag(", ends,
                                      ") behind the write and wait_flag(", ends, ") before the read");
                if (left_out) finding.cure += ", and so on; nothing to do for a model that leaves flags out";
            });
    }

    std::string instruction(std::uint32_t i) const {
        const FlagKey* key = program_.flag_of(i);
        const bool sets = program_.record(i).kind == Kind::set_flag;
        const std::string what = key == nullptr ? program_.name(program_.record(i))
                                 : sets         ? set_text(*key)
                                                : wait_text(*key);
        return what + at(i);
    }

    // "A waits for B, which comes on PIPE-V behind C; that waits for D, which comes on PIPE-M behind A"
    std::string told(const std::vector<FlagGraph::Edge>& cycle) const {
        std::string out;
        std::size_t hops = 0;
        for (std::size_t e = 0; e < cycle.size();) {
            const FlagGraph::Edge& edge = cycle[e++];
            std::uint32_t behind = edge.producer;
            while (e < cycle.size() && cycle[e].why == FlagGraph::Why::pipe) behind = cycle[e++].producer;
            if (++hops > most_hops) continue;
            out += out.empty() ? instruction(edge.reader) + " waits for " : "; that waits for ";
            if (edge.why == FlagGraph::Why::data) out += concat(program_.tensor_text(edge.tensor), ", written by ");
            out += instruction(edge.producer);
            if (behind != edge.producer)
                out += concat(", which comes on ", pipe(program_.record(behind).pipe), " behind ", instruction(behind));
        }
        return hops > most_hops ? concat(out, "; and so on, over ", hops - most_hops, " more waits, back to the first")
                                : out;
    }

    void own_pipe() {
        each_pair([&](const FlagKey& key, std::uint32_t set, std::uint32_t wait, std::size_t) {
            if (key.source != key.target) return;
            add(Problem::own_pipe, Severity::warning, {place(set, key), place(wait, key)}, {set, wait},
                [&](Finding& finding) {
                    finding.text =
                        concat(set_text(key), " and its wait_flag are on one pipe, which keeps its order anyway");
                    finding.cure = "remove both; what the hardware needs within a pipe is pipe_barrier";
                });
        });
    }

    // `visit(key, set, wait, k)` for each pair.
    template <typename Visit>
    void each_pair(Visit visit) const {
        for (const Channel& channel : flags_)
            for (std::size_t k = 0; k < channel.flag->matched; ++k)
                visit(*channel.key, channel.flag->sets[k], channel.flag->waits[k], k);
    }

    // A wait of PIPE-VEC is two instructions; both must be implied.
    std::vector<Matched> implied_pairs() const {
        std::vector<Matched> pairs;
        each_pair([&](const FlagKey& key, std::uint32_t set, std::uint32_t wait, std::size_t) {
            pairs.push_back({&key, set, wait});
        });
        for (const bool over_data : {true, false}) {
            std::vector<FlagGraph::Question> questions;
            for (const Matched& pair : pairs)
                for (std::uint32_t wait = pair.wait; wait <= pair.wait + (pair.key->has_two_waits() ? 1 : 0); ++wait)
                    if (graph_.runs(wait)) questions.push_back({pair.set, wait});
            graph_.answer(questions, over_data);
            std::vector<std::uint32_t> implied;
            for (const FlagGraph::Question& question : questions)
                if (question.answer) implied.push_back(question.to);  // in rising order
            const auto is_implied = [&](std::uint32_t wait) {
                return std::binary_search(implied.begin(), implied.end(), wait);
            };
            for (Matched& pair : pairs) {
                const bool all = is_implied(pair.wait) && (!pair.key->has_two_waits() || is_implied(pair.wait + 1));
                (over_data ? pair.implied : pair.implied_without_data) = all;
            }
        }
        return pairs;
    }

    // Only whole lines can be taken out: a pair that is needed keeps its lines, and with them all other pairs of these.
    void never_needed() {
        const std::vector<Matched> pairs = implied_pairs();
        std::unordered_map<Place, Place> group;
        const auto find = [&](Place place) {
            Place root = place;
            while (group.try_emplace(root, root).first->second != root) root = group[root];
            while (place != root) place = std::exchange(group[place], root);
            return root;
        };
        for (const Matched& pair : pairs) group[find(place(pair.set, *pair.key))] = find(place(pair.wait, *pair.key));
        std::unordered_set<Place> needed, needs_data;
        for (const Matched& pair : pairs) {
            if (!pair.implied) needed.insert(find(place(pair.set, *pair.key)));
            if (!pair.implied_without_data) needs_data.insert(place(pair.wait, *pair.key));
        }
        for (const Matched& pair : pairs)
            if (needed.count(find(place(pair.set, *pair.key))) == 0 && pair.key->source != pair.key->target)
                tell_never_needed(pair, needs_data.count(place(pair.wait, *pair.key)) != 0);
    }

    void tell_never_needed(const Matched& pair, bool over_data) {
        const FlagKey& key = *pair.key;
        add(Problem::never_needed, over_data ? Severity::hint : Severity::warning,
            {place(pair.wait, key), place(pair.set, key)}, {pair.set, pair.wait}, [&](Finding& finding) {
                finding.text = concat(wait_text(key), " never delays anything: ",
                                      over_data ? "data dependencies put" : "pipe order and other flags put",
                                      " its set_flag", at(pair.set), " before it anyway");
                finding.cure =
                    over_data
                        ? "hardware does not track data between pipes: move the wait before what first "
                          "needs it, or remove set and wait if another flag does that"
                        : "remove both, with what else is reported of this flag: all they do is take a cycle each";
            });
    }

    // How many sets may come before the first of them is waited for.
    std::size_t pending(const FlagKey& key) const {
        return is_within_a_core(key) ? pending_in_a_core : pending_between_cores;
    }

    void set_twice() {
        std::vector<FlagGraph::Question> questions;
        for (const Channel& channel : flags_) {
            const Flag& flag = *channel.flag;
            const std::size_t ahead = pending(*channel.key);
            for (std::size_t k = 0; k < flag.matched && k + ahead < flag.sets.size(); ++k)
                for (std::uint32_t slot = 0; slot <= (channel.key->has_two_waits() ? 1 : 0); ++slot)
                    if (graph_.runs(flag.sets[k + ahead]))
                        questions.push_back({flag.waits[k] + slot, flag.sets[k + ahead]});
        }
        graph_.answer(questions, false);
        std::vector<std::uint32_t> early;  // sets, in rising order
        for (const FlagGraph::Question& question : questions)
            if (!question.answer) early.push_back(question.to);
        for (const Channel& channel : flags_) {
            const Flag& flag = *channel.flag;
            const std::size_t ahead = pending(*channel.key);
            for (std::size_t k = 0; k < flag.matched && k + ahead < flag.sets.size(); ++k)
                if (std::binary_search(early.begin(), early.end(), flag.sets[k + ahead]))
                    tell_set_twice(*channel.key, flag.sets[k + ahead], flag.waits[k]);
        }
    }

    void tell_set_twice(const FlagKey& key, std::uint32_t set, std::uint32_t wait) {
        add(Problem::set_twice, Severity::hint, {place(set, key), place(wait, key)}, {set, wait},
            [&](Finding& finding) {
                const bool within = is_within_a_core(key);
                finding.text = concat(set_text(key), " may come before the wait_flag", at(wait), " for the set ",
                                      within ? "before it" : concat(pending_between_cores, " before it"),
                                      ": nothing holds ", pipe(key.source), " back");
                finding.cure = concat("the model counts all sets, hardware ",
                                      within ? "has one bit" : concat("up to ", pending_between_cores), ": let ",
                                      pipe(key.source), " wait for a flag that ", pipe(key.target),
                                      " sets behind the wait, and alternate between ids");
            });
    }

    void ids() {
        struct Beyond {
            std::set<std::uint32_t> ids;
            const Channel* first;
        };
        std::map<std::uint32_t, Beyond> beyond;  // by kinds of pipes
        for (const Channel& channel : flags_)
            if (channel.key->number() > last_id(*channel.key)) {
                const std::uint32_t pipes = kinds(channel.key->source, channel.key->target);
                beyond.try_emplace(pipes, Beyond{{}, &channel}).first->second.ids.insert(channel.key->number());
            }
        for (const auto& [pipes, found] : beyond) tell_ids(*found.first, found.ids);
    }

    std::uint32_t last_id(const FlagKey& key) const {
        return is_within_a_core(key) ? last_id_in_a_core : last_id_between_cores;
    }

    bool is_within_a_core(const FlagKey& key) const {
        return program_.pipes()[key.source].core == program_.pipes()[key.target].core;
    }

    void tell_ids(const Channel& channel, const std::set<std::uint32_t>& ids) {
        const FlagKey& key = *channel.key;
        add(Problem::id, Severity::hint, {place(channel.first(), key)}, {channel.first(), none}, [&](Finding& finding) {
            std::string list;
            std::size_t count = 0;
            for (const std::uint32_t id : ids)
                if (++count <= most_ids) list += concat(list.empty() ? "" : ", ", id);
            if (count > most_ids) list += concat(" and ", count - most_ids, " more");
            finding.text = concat(count == 1 ? "id " : "ids ", list, " from ", pipe(key.source), " to ",
                                  pipe(key.target), ": the hardware has 0 to ", last_id(key));
            finding.cure = "use ids again: the k-th wait takes the k-th set of an id";
        });
    }

    const Program& program_;
    FlagGraph graph_;
    std::vector<Channel> flags_;  // in program order
    std::vector<Found> found_;
    std::map<std::pair<Problem, std::vector<Place>>, std::size_t> known_;
    bool has_flags_within_ = false;     // a core
    std::vector<Place> without_flags_;  // the places of the one finding on unordered reads, where there are no flags
};

}  // namespace

std::string_view name(Problem problem) {
    static constexpr std::string_view names[] = {"unmatched", "crossed",   "unordered", "never-needed",
                                                 "own-pipe",  "set-twice", "id"};
    return names[static_cast<std::size_t>(problem)];
}

std::string_view name(Severity severity) {
    static constexpr std::string_view names[] = {"error", "warning", "hint"};
    return names[static_cast<std::size_t>(severity)];
}

std::vector<Finding> lint_flags(const Program& program) { return FlagLint(program).findings(); }

}  // namespace mskpp
