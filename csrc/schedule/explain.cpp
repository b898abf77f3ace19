// SPDX-License-Identifier: Apache-2.0
#include "schedule/explain.h"

#include <algorithm>

#include "base/text.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::size_t most_listed = 20;     // pipes that starve
constexpr std::size_t most_behind = 8;      // pipes that are stuck behind others
constexpr std::size_t most_cycles = 3;      // drawn
constexpr std::size_t most_in_a_cycle = 6;  // pipes drawn of one cycle; the others are counted

class Explanation {
  public:
    Explanation(const Program& program, const std::vector<std::uint32_t>& head, const ChunkedVector<std::int64_t>& end)
        : program_(program), head_(head), end_(end), waits_(head.size()) {}

    std::string text() {
        for (std::uint32_t pipe = 0; pipe < head_.size(); ++pipe) {
            if (head_[pipe] == none) continue;
            ++stuck_;
            find_waits(pipe);
        }
        find_cycles();
        const std::string reasons = starved() + cycles();
        return concat("schedule: deadlock, ", stuck_, stuck_ == 1 ? " pipe stuck" : " pipes stuck", reasons, behind(),
                      hint(), pointer());
    }

  private:
    struct Wait {
        std::uint32_t pipe;  // of the producer
        Dependency dependency;
    };
    using Way = std::vector<std::uint32_t>;  // pipes, each of which waits for the next

    // What the head of a pipe waits for, the first of each pipe.
    void find_waits(std::uint32_t pipe) {
        program_.each_dependency(head_[pipe], [&](const Dependency& dependency) {
            if (end_[dependency.producer] >= 0) return;
            const std::uint32_t other = program_.record(dependency.producer).pipe;
            for (const Wait& known : waits_[pipe])
                if (known.pipe == other) return;
            waits_[pipe].push_back({other, dependency});
        });
    }

    // The shortest cycle through each pipe that is on none found before, and nothing of pipes that only lead to one.
    void find_cycles() {
        std::vector<char> on_one(head_.size(), 0);
        for (std::uint32_t pipe = 0; pipe < head_.size(); ++pipe) {
            if (on_one[pipe] != 0 || waits_[pipe].empty()) continue;
            const Way way = shortest(pipe);
            if (way.empty()) continue;
            // Else it is another way through a cycle that is drawn.
            if (std::any_of(way.begin(), way.end(), [&](std::uint32_t one) { return on_one[one] != 0; })) continue;
            for (const std::uint32_t one : way) on_one[one] = 1;
            cycles_.push_back(way);
        }
    }

    // From the pipe back to itself by the fewest waits; empty where there is no way.
    Way shortest(std::uint32_t from) const {
        std::vector<std::uint32_t> next_of(head_.size(), none);  // towards `from`, by whom a pipe was reached
        Way frontier{from};
        for (std::size_t i = 0; i < frontier.size(); ++i) {
            for (const Wait& wait : waits_[frontier[i]]) {
                if (wait.pipe == from) {
                    Way way{frontier[i]};
                    while (way.back() != from) way.push_back(next_of[way.back()]);
                    std::reverse(way.begin(), way.end());
                    return way;
                }
                if (next_of[wait.pipe] != none || head_[wait.pipe] == none) continue;
                next_of[wait.pipe] = frontier[i];
                frontier.push_back(wait.pipe);
            }
        }
        return {};
    }

    std::string instruction(std::uint32_t i) const {
        const Record& record = program_.record(i);
        const Program::FlagKey* flag = program_.flag_of(i);
        const std::string line = program_.source_text(record.line);
        return concat(program_.name(record), flag == nullptr ? "" : concat(" ", flag->number()),
                      line.empty() ? "" : concat(" (", line, ")"));
    }

    std::string pipe_and_head(std::uint32_t pipe) const {
        return concat(program_.pipes()[pipe].name, "  ", instruction(head_[pipe]));
    }

    bool is_starved(std::uint32_t pipe) const { return head_[pipe] != none && program_.record(head_[pipe]).starved; }

    // Heads that wait for what nothing writes: no cycle is needed to stop those.
    std::string starved() const {
        std::string out;
        std::size_t count = 0;
        for (std::uint32_t pipe = 0; pipe < head_.size(); ++pipe) {
            if (!is_starved(pipe) || ++count > most_listed) continue;
            const auto& all = program_.starved();
            const auto it = std::find_if(all.begin(), all.end(),
                                         [&](const Starved& starved) { return starved.reader == head_[pipe]; });
            out += concat("\n  ", pipe_and_head(pipe), " waits for ", program_.tensor_text(it->tensor),
                          ", which nothing writes", it->mark == no_mark ? "" : concat(" with set_value=", it->mark));
        }
        return out + more(count, most_listed, "\n  ");
    }

    static std::string more(std::size_t count, std::size_t shown, const char* indent) {
        return count > shown ? concat(indent, "... and ", count - shown, " more") : std::string();
    }

    std::string cycles() const {
        std::string out;
        for (std::size_t i = 0; i < std::min(cycles_.size(), most_cycles); ++i) out += drawn(cycles_[i]);
        const std::size_t left = cycles_.size() - std::min(cycles_.size(), most_cycles);
        return left == 0 ? out : concat(out, "\n  ... and ", left, left == 1 ? " more cycle" : " more cycles");
    }

    // The pipes one below the other; the line on the left leads back from the last to the first.
    std::string drawn(const Way& way) const {
        std::string out = concat("\n  cycle: ", way.size() == 1 ? "1 pipe waits for itself"
                                                                : concat(way.size(), " pipes wait for each other"));
        const std::size_t first = way.size() > most_in_a_cycle ? most_in_a_cycle / 2 : way.size();
        const std::size_t last = way.size() > most_in_a_cycle ? way.size() - most_in_a_cycle / 2 : way.size();
        for (std::size_t i = 0; i < way.size(); ++i) {
            if (i == first && i < last) {
                out += concat("\n    |   ... ", last - first, " more pipes\n    |     v");
                i = last;
            }
            out += concat(i == 0 ? "\n    +-> " : "\n    |   ", pipe_and_head(way[i]));
            out += edge(way[i], way[(i + 1) % way.size()]);
            if (i + 1 < way.size()) out += "\n    |     v";
        }
        return out + "\n    +-----+";
    }

    // Why the head of one pipe waits for the head of the other, in lines that read on to that head.
    std::string edge(std::uint32_t from, std::uint32_t to) const {
        const auto& waits = waits_[from];
        const Dependency found =
            std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.pipe == to; })->dependency;
        const std::string producer = instruction(found.producer);
        const bool is_head = found.producer == head_[to];
        std::string why;
        if (found.tensor != none)
            why = concat("data: ", program_.tensor_text(found.tensor), ",\n    |     | written by",
                         is_head ? "" : concat(" ", producer));
        else if (is_flag(from, found.producer))
            why = concat("flag: raised by", is_head ? "" : concat(" ", producer));
        else
            why = concat("barrier: starts after", is_head ? "" : concat(" ", producer));
        return concat(
            "\n    |     | ", why,
            is_head ? std::string() : concat(",\n    |     | which comes on ", program_.pipes()[to].name, " behind"));
    }

    bool is_flag(std::uint32_t pipe, std::uint32_t producer) const {
        return program_.record(head_[pipe]).kind == Kind::wait_flag && program_.record(producer).kind == Kind::set_flag;
    }

    // Pipes that are on no cycle and do not starve themselves.
    std::string behind() const {
        std::vector<char> told(head_.size(), 0);
        for (const Way& way : cycles_)
            for (const std::uint32_t pipe : way) told[pipe] = 1;
        std::string out;
        std::size_t count = 0;
        for (std::uint32_t pipe = 0; pipe < head_.size(); ++pipe) {
            if (head_[pipe] == none || told[pipe] != 0 || is_starved(pipe) || waits_[pipe].empty()) continue;
            if (++count > most_behind) continue;
            out += concat("\n    ", pipe_and_head(pipe), " waits for ", provider(waits_[pipe].front()));
        }
        return out.empty() ? out : concat("\n  stuck behind that:", out, more(count, most_behind, "\n    "));
    }

    std::string provider(const Wait& wait) const {
        const Dependency& found = wait.dependency;
        std::string out = concat(found.tensor == none ? "" : program_.tensor_text(found.tensor) + ", written by ",
                                 instruction(found.producer), " on ", program_.pipes()[wait.pipe].name);
        const std::uint32_t in_front = head_[wait.pipe];
        if (in_front != found.producer && in_front != none) out += concat(", behind ", instruction(in_front));
        return out;
    }

    std::string hint() const {
        return program_.starved().empty()
                   ? ""
                   : "\n  to give a tensor its first value: load it, set_valid(), or is_inited=True";
    }

    // Where a flag is on a circle that is drawn.
    std::string pointer() const {
        for (std::size_t c = 0; c < std::min(cycles_.size(), most_cycles); ++c)
            for (std::size_t i = 0; i < cycles_[c].size(); ++i) {
                const std::uint32_t from = cycles_[c][i], to = cycles_[c][(i + 1) % cycles_[c].size()];
                for (const Wait& wait : waits_[from])
                    if (wait.pipe == to && is_flag(from, wait.dependency.producer))
                        return "\n  mskpp lint SCRIPT.py explains the flags";
            }
        return "";
    }

    const Program& program_;
    const std::vector<std::uint32_t>& head_;
    const ChunkedVector<std::int64_t>& end_;
    std::size_t stuck_ = 0;
    std::vector<std::vector<Wait>> waits_;  // by pipe
    std::vector<Way> cycles_;
};

}  // namespace

std::string explain_deadlock(const Program& program, const std::vector<std::uint32_t>& head,
                             const ChunkedVector<std::int64_t>& end) {
    return Explanation(program, head, end).text();
}

}  // namespace mskpp
