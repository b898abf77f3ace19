// SPDX-License-Identifier: Apache-2.0
#include "schedule/explain.h"

#include <algorithm>

#include "base/text.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::size_t most_listed = 20;

class Explanation {
  public:
    Explanation(const Program& program, const std::vector<std::uint32_t>& head, const ChunkedVector<std::int64_t>& end)
        : program_(program), head_(head), end_(end) {}

    std::string text() const {
        std::size_t stuck = 0;
        std::string lines;
        for (std::size_t pipe = 0; pipe < head_.size(); ++pipe) {
            if (head_[pipe] == none) continue;
            if (++stuck <= most_listed)
                lines += concat("\n  ", program_.pipes()[pipe].name, "  ", instruction(head_[pipe]), " ",
                                reason(head_[pipe]));
        }
        if (stuck > most_listed) lines += concat("\n  ... and ", stuck - most_listed, " more");
        return concat("schedule: deadlock, ", stuck, stuck == 1 ? " pipe stuck" : " pipes stuck", lines, cycle(),
                      hint());
    }

  private:
    std::string instruction(std::uint32_t i) const {
        const Record& record = program_.record(i);
        const std::string line = program_.source_text(record.line);
        return program_.name(record) + (line.empty() ? "" : " (" + line + ")");
    }

    // The first instruction that i waits for and that never ended.
    Dependency blocker(std::uint32_t i) const {
        Dependency found{none, none};
        program_.each_dependency(i, [&](const Dependency& dependency) {
            if (found.producer == none && end_[dependency.producer] < 0) found = dependency;
        });
        return found;
    }

    std::string reason(std::uint32_t i) const {
        const Dependency found = blocker(i);
        if (found.producer == none) {
            const auto& starved = program_.starved();
            const auto it =
                std::find_if(starved.begin(), starved.end(), [&](const Starved& s) { return s.reader == i; });
            if (it == starved.end()) return "cannot start";
            return concat("waits for ", program_.tensor_text(it->tensor), ", which nothing writes",
                          it->mark == no_mark ? "" : concat(" with set_value=", it->mark));
        }
        const std::string what =
            found.tensor == none ? std::string() : program_.tensor_text(found.tensor) + ", written by ";
        const Record& producer = program_.record(found.producer);
        std::string out =
            concat("waits for ", what, instruction(found.producer), " on ", program_.pipes()[producer.pipe].name);
        const std::uint32_t in_front = head_[producer.pipe];
        if (in_front != found.producer && in_front != none)
            out += concat(", which is queued behind ", instruction(in_front));
        return out;
    }

    std::string hint() const {
        return program_.starved().empty()
                   ? ""
                   : "\n  to give a tensor its first value: load it, set_valid(), or is_inited=True";
    }

    // Following what each stuck head waits for leads to something that nothing provides, or round in a circle.
    std::string cycle() const {
        std::vector<char> seen(head_.size(), 0);
        for (std::size_t first = 0; first < head_.size(); ++first) {
            std::vector<std::size_t> way;
            std::size_t pipe = first;
            while (head_[pipe] != none && seen[pipe] == 0) {
                seen[pipe] = 1;
                way.push_back(pipe);
                const Dependency found = blocker(head_[pipe]);
                if (found.producer == none) break;
                pipe = program_.record(found.producer).pipe;
                const auto start = std::find(way.begin(), way.end(), pipe);
                if (start != way.end()) return circle({start, way.end()});
            }
        }
        return {};
    }

    std::string circle(const std::vector<std::size_t>& pipes) const {
        std::string out = "\n  cycle: ";
        for (std::size_t i = 0; i < std::min(pipes.size(), most_listed); ++i)
            out += concat(program_.pipes()[pipes[i]].name, " ", instruction(head_[pipes[i]]), " -> ");
        return out + (pipes.size() > most_listed ? "... -> " : "") + program_.pipes()[pipes[0]].name;
    }

    const Program& program_;
    const std::vector<std::uint32_t>& head_;
    const ChunkedVector<std::int64_t>& end_;
};

}  // namespace

std::string explain_deadlock(const Program& program, const std::vector<std::uint32_t>& head,
                             const ChunkedVector<std::int64_t>& end) {
    return Explanation(program, head, end).text();
}

}  // namespace mskpp
