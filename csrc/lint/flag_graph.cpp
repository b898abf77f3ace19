// SPDX-License-Identifier: Apache-2.0
#include "lint/flag_graph.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

namespace mskpp {

namespace {

constexpr std::uint32_t unseen = none;

}  // namespace

FlagGraph::FlagGraph(const Program& program)
    : program_(program), before_(program.size(), none), late_(program.late_dependencies()) {
    for (const PipeInfo& pipe : program.pipes())
        for (std::uint32_t i = pipe.first; i != none && program.next_on_pipe(i) != none; i = program.next_on_pipe(i))
            before_[program.next_on_pipe(i)] = i;
    if (!late_.empty()) {
        std::stable_sort(late_.begin(), late_.end(),
                         [](const LateDependency& a, const LateDependency& b) { return a.reader < b.reader; });
        late_first_.assign(program.size(), static_cast<std::uint32_t>(late_.size()));
        for (std::size_t d = late_.size(); d-- > 0;) late_first_[late_[d].reader] = static_cast<std::uint32_t>(d);
    }
    put_in_order();
}

FlagGraph::Why FlagGraph::why(std::uint32_t reader, const Dependency& dependency) const {
    if (dependency.tensor != none) return Why::data;
    return program_.record(reader).kind == Kind::wait_flag &&
                   program_.record(dependency.producer).kind == Kind::set_flag
               ? Why::flag
               : Why::barrier;
}

// Each pipe goes on until its next instruction waits for one that has no place yet; that one lets it go on.
void FlagGraph::put_in_order() {
    runs_.assign(program_.size(), 0);
    order_.reserve(program_.size());
    if (late_.empty()) {  // program order is such an order
        for (std::uint32_t i = 0; i < program_.size(); ++i) order_.push_back(i);
        runs_.assign(program_.size(), 1);
        return;
    }
    std::unordered_multimap<std::uint32_t, std::uint32_t> waiting;  // whom for, and the head that waits
    std::vector<std::uint32_t> heads;
    for (const PipeInfo& pipe : program_.pipes())
        if (pipe.first != none) heads.push_back(pipe.first);
    while (!heads.empty()) {
        std::uint32_t i = heads.back();
        heads.pop_back();
        for (; i != none; i = program_.next_on_pipe(i)) {
            std::uint32_t missing = none;
            each_dependency(i, [&](const Dependency& dependency) {
                if (runs_[dependency.producer] == 0) missing = dependency.producer;
            });
            if (missing != none) {
                waiting.emplace(missing, i);
                break;
            }
            runs_[i] = 1;
            order_.push_back(i);
            if (waiting.empty()) continue;
            const auto [first, last] = waiting.equal_range(i);
            for (auto it = first; it != last; ++it) heads.push_back(it->second);
            waiting.erase(first, last);
        }
    }
}

// For each instruction, and each of `width` pipes, the last instruction of that pipe that ends before it starts (its
// number + 1; 0 for none): what it takes from all that it waits for.
template <std::size_t width>
void FlagGraph::answer_columns(std::vector<Question>& questions, const std::vector<std::uint32_t>& by_reader,
                               const std::vector<std::uint32_t>& column, std::uint32_t first, bool over_data) const {
    using Row = std::array<std::uint32_t, width>;
    std::vector<Row> rows(program_.size());
    const auto join = [](Row& row, const Row& other) {
        for (std::size_t c = 0; c < width; ++c) row[c] = std::max(row[c], other[c]);
    };
    for (const std::uint32_t i : order_) {
        Row row{};
        if (before_[i] != none) row = rows[before_[i]];
        const bool waits = program_.record(i).kind == Kind::wait_flag;
        std::uint32_t set = none;
        each_dependency(i, [&](const Dependency& dependency) {
            if (waits && why(i, dependency) == Why::flag)
                set = dependency.producer;
            else if (over_data || dependency.tensor == none)
                join(row, rows[dependency.producer]);
        });
        for (std::uint32_t q = by_reader[i]; q < questions.size() && questions[q].to == i; ++q) {
            const std::uint32_t at = column[program_.record(questions[q].from).pipe];
            if (at >= first && at < first + width) questions[q].answer = row[at - first] > questions[q].from;
        }
        if (set != none) join(row, rows[set]);
        const std::uint32_t own = column[program_.record(i).pipe];
        if (own >= first && own < first + width) row[own - first] = i + 1;
        rows[i] = row;
    }
}

void FlagGraph::answer(std::vector<Question>& questions, bool over_data) const {
    if (questions.empty()) return;
    std::stable_sort(questions.begin(), questions.end(),
                     [](const Question& a, const Question& b) { return a.to < b.to; });
    std::vector<std::uint32_t> by_reader(program_.size(), none);
    for (std::size_t q = questions.size(); q-- > 0;) by_reader[questions[q].to] = static_cast<std::uint32_t>(q);
    std::vector<std::uint32_t> column(program_.pipes().size(), none);  // of the pipes that are asked for
    std::uint32_t columns = 0;
    for (const Question& question : questions) {
        std::uint32_t& own = column[program_.record(question.from).pipe];
        if (own == none) own = columns++;
    }
    // Few at a time bounds the memory: 64 bytes an instruction, and 16 of large programs.
    constexpr std::size_t large = std::size_t{1} << 22;
    for (std::uint32_t first = 0; first < columns;) {
        if (columns - first <= 4 || program_.size() > large) {
            answer_columns<4>(questions, by_reader, column, first, over_data);
            first += 4;
        } else {
            answer_columns<16>(questions, by_reader, column, first, over_data);
            first += 16;
        }
    }
}

// Tarjan's algorithm without recursion, among the instructions that do not run: the group of each.
std::vector<std::uint32_t> FlagGraph::components() const {
    const std::size_t n = program_.size();
    std::vector<std::uint32_t> component(n, none), number(n, unseen), lowest(n, 0), stack, path;
    std::vector<std::vector<std::uint32_t>> left;  // of each instruction on the path, whom to visit yet
    std::uint32_t numbers = 0, components = 0;
    const auto enter = [&](std::uint32_t i) {
        number[i] = lowest[i] = numbers++;
        stack.push_back(i);
        path.push_back(i);
        left.emplace_back();
        each_edge(i, [&](const Edge& edge) {
            if (runs_[edge.producer] == 0) left.back().push_back(edge.producer);
        });
    };
    for (std::uint32_t root = 0; root < n; ++root) {
        if (runs_[root] != 0 || number[root] != unseen) continue;
        enter(root);
        while (!path.empty()) {
            const std::uint32_t i = path.back();
            if (!left.back().empty()) {
                const std::uint32_t next = left.back().back();
                left.back().pop_back();
                if (number[next] == unseen)
                    enter(next);
                else if (component[next] == none)
                    lowest[i] = std::min(lowest[i], number[next]);
                continue;
            }
            path.pop_back();
            left.pop_back();
            if (!path.empty()) lowest[path.back()] = std::min(lowest[path.back()], lowest[i]);
            if (lowest[i] != number[i]) continue;
            std::uint32_t member = none;
            while (member != i) {
                member = stack.back();
                stack.pop_back();
                component[member] = components;
            }
            ++components;
        }
    }
    return component;
}

// From the set back to the wait: steps along a pipe are free, so that the way has as few waits as can be.
std::vector<FlagGraph::Edge> FlagGraph::cycle(const Edge& flag, const std::vector<std::uint32_t>& component,
                                              std::vector<std::uint32_t>& distance, std::vector<Edge>& way) const {
    std::deque<std::uint32_t> frontier{flag.producer};
    distance[flag.producer] = 0;
    while (!frontier.empty()) {
        const std::uint32_t i = frontier.front();
        frontier.pop_front();
        if (i == flag.reader) break;
        each_edge(i, [&](const Edge& edge) {
            const std::uint32_t cost = edge.why == Why::pipe ? 0 : 1;
            if (component[edge.producer] != component[i] || distance[edge.producer] <= distance[i] + cost) return;
            distance[edge.producer] = distance[i] + cost;
            way[edge.producer] = edge;
            if (cost == 0)
                frontier.push_front(edge.producer);
            else
                frontier.push_back(edge.producer);
        });
    }
    std::vector<Edge> out;
    for (std::uint32_t i = flag.reader; i != flag.producer; i = way[i].reader) out.push_back(way[i]);
    out.push_back(flag);
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<std::vector<FlagGraph::Edge>> FlagGraph::flag_cycles() const {
    std::vector<std::vector<Edge>> out;
    if (all_run()) return out;
    const std::vector<std::uint32_t> component = components();
    std::vector<char> told(program_.size(), 0);  // by group
    std::vector<std::uint32_t> distance(program_.size(), none);
    std::vector<Edge> way(program_.size());
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
        if (runs_[i] != 0 || program_.record(i).kind != Kind::wait_flag) continue;
        each_edge(i, [&](const Edge& edge) {
            if (edge.why != Why::flag || component[edge.producer] != component[i] || told[component[i]] != 0) return;
            told[component[i]] = 1;
            out.push_back(cycle(edge, component, distance, way));
        });
    }
    return out;
}

}  // namespace mskpp
