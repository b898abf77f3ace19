// SPDX-License-Identifier: Apache-2.0
// Random programs against an oracle that knows nothing but the rules: a region is a set of cells, a cell remembers who
// wrote it last, and the schedule is found by going over all instructions until nothing moves any more.
#include <random>

#include "fixture.h"

namespace mskpp::test {
namespace {

constexpr std::int64_t never = -1;

// A slice as it is given and the cells of its box.
struct Region {
    std::size_t storage;
    std::vector<Index> subscript;
    std::vector<std::size_t> cells;
};

struct Step {
    enum class Kind { own, load, ready, set, wait, barrier } kind = Kind::own;
    Pipe pipe = Pipe::V;
    std::size_t core = 0;
    std::int64_t cycles = 0;
    std::vector<Region> reads, writes;
    std::size_t storage = 0;  // of ready
    bool ready = false;
    Pipe from = Pipe::V, to = Pipe::V;  // of flags
    int id = 0;
    bool all = false;                                 // of a barrier
    std::int64_t mark = no_mark, expected = no_mark;  // of a load
};

struct Recipe {
    struct Place {
        Memory memory;
        std::vector<int> extents;
        bool ready;
    };
    std::vector<Place> storages;
    std::vector<Step> steps;
};

// What a program must come to.
struct Expectation {
    std::vector<Set> data;  // whom each instruction waits for because of data
    std::vector<char> starved;
    std::vector<std::int64_t> end;  // never: it does not complete
    bool deadlock = false;
    std::int64_t total = 0;
};

class Oracle {
  public:
    // `cycles` are those of the instructions as recorded: a load's come from the tables.
    Oracle(const Recipe& recipe, const std::vector<std::int64_t>& cycles) : recipe_(recipe), cycles_(cycles) {
        for (const Step& step : recipe.steps)
            if (step.kind != Step::Kind::ready) instructions_.push_back(&step);
    }

    Expectation expect() {
        const std::size_t n = instructions_.size();
        out_.data.resize(n);
        out_.starved.assign(n, 0);
        after_.resize(n);
        list_writers();
        find_data();
        find_flags();
        find_order();
        find_ends();
        return out_;
    }

  private:
    void find_data() {
        std::vector<std::vector<std::int64_t>> writer;
        std::vector<char> ready;
        std::vector<std::size_t> forgotten(recipe_.storages.size(), 0);  // marks of instructions before this are gone
        for (const auto& place : recipe_.storages) {
            std::size_t cells = 1;
            for (const int extent : place.extents) cells *= static_cast<std::size_t>(extent);
            writer.emplace_back(cells, never);
            ready.push_back(place.ready || place.memory == Memory::GM);
        }
        std::size_t i = 0;
        for (const Step& step : recipe_.steps) {
            if (step.kind == Step::Kind::ready) {
                std::fill(writer[step.storage].begin(), writer[step.storage].end(), never);
                ready[step.storage] = step.ready;
                forgotten[step.storage] = i;
                continue;
            }
            for (const Region& region : step.reads) {
                if (step.expected != no_mark) {
                    wait_for_mark(i, region, step.expected, forgotten[region.storage]);
                    continue;
                }
                for (const std::size_t cell : region.cells) {
                    const std::int64_t last = writer[region.storage][cell];
                    if (last != never)
                        out_.data[i].insert(static_cast<std::uint32_t>(last));
                    else if (!ready[region.storage])
                        wait_for_next(i, region.storage, cell);
                }
            }
            for (const Region& region : step.writes)
                for (const std::size_t cell : region.cells) writer[region.storage][cell] = static_cast<std::int64_t>(i);
            ++i;
        }
        for (std::size_t reader = 0; reader < instructions_.size(); ++reader)
            for (const std::uint32_t producer : out_.data[reader]) after_[reader].insert(producer);
    }

    // All who ever write a cell, in program order.
    void list_writers() {
        for (std::size_t i = 0; i < instructions_.size(); ++i)
            for (const Region& region : instructions_[i]->writes)
                for (const std::size_t cell : region.cells)
                    writers_[{region.storage, cell}].insert(static_cast<std::uint32_t>(i));
    }

    void wait_for_next(std::size_t reader, std::size_t storage, std::size_t cell) {
        const Set& all = writers_[{storage, cell}];
        const auto next = all.upper_bound(static_cast<std::uint32_t>(reader));
        if (next == all.end())
            out_.starved[reader] = 1;
        else
            out_.data[reader].insert(*next);
    }

    void wait_for_mark(std::size_t reader, const Region& region, std::int64_t mark, std::size_t forgotten) {
        const auto fits = [&](std::size_t j) {
            if (instructions_[j]->mark != mark) return false;
            return std::any_of(region.cells.begin(), region.cells.end(), [&](std::size_t cell) {
                return writers_[{region.storage, cell}].count(static_cast<std::uint32_t>(j)) != 0;
            });
        };
        for (std::size_t j = reader; j-- > forgotten;)
            if (fits(j)) {
                out_.data[reader].insert(static_cast<std::uint32_t>(j));
                return;
            }
        for (std::size_t j = reader + 1; j < instructions_.size(); ++j)
            if (fits(j)) {
                out_.data[reader].insert(static_cast<std::uint32_t>(j));
                return;
            }
        out_.starved[reader] = 1;
    }

    void find_flags() {
        std::map<std::tuple<std::size_t, Pipe, Pipe, int>,
                 std::pair<std::vector<std::size_t>, std::vector<std::size_t>>>
            flags;
        for (std::size_t i = 0; i < instructions_.size(); ++i) {
            const Step& step = *instructions_[i];
            auto& [sets, waits] = flags[{step.core, step.from, step.to, step.id}];
            if (step.kind == Step::Kind::set) sets.push_back(i);
            if (step.kind == Step::Kind::wait) waits.push_back(i);
        }
        for (const auto& [key, pair] : flags)
            for (std::size_t k = 0; k < pair.second.size(); ++k) after_[pair.second[k]].insert(pair.first[k]);
    }

    // Order on each pipe, and barriers of all pipes.
    void find_order() {
        std::map<std::pair<std::size_t, Pipe>, std::size_t> last;
        for (std::size_t i = 0; i < instructions_.size(); ++i) {
            const Step& step = *instructions_[i];
            const std::pair pipe{step.core, step.pipe};
            if (last.count(pipe) != 0) after_[i].insert(last[pipe]);
            last[pipe] = i;
            for (std::size_t j = 0; j < i; ++j) {
                const Step& earlier = *instructions_[j];
                const bool between = (step.kind == Step::Kind::barrier && step.all) ||
                                     (earlier.kind == Step::Kind::barrier && earlier.all);
                if (between && earlier.core == step.core) after_[i].insert(j);
            }
        }
    }

    void find_ends() {
        const std::size_t n = instructions_.size();
        std::vector<char> completes(n, 0);
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < n; ++i) {
                if (completes[i] || out_.starved[i]) continue;
                if (std::all_of(after_[i].begin(), after_[i].end(), [&](std::size_t j) { return completes[j] != 0; })) {
                    completes[i] = 1;
                    moved = true;
                }
            }
        }
        out_.end.assign(n, never);
        for (std::size_t i = 0; i < n; ++i) {
            if (completes[i])
                out_.end[i] = 0;
            else
                out_.deadlock = true;
        }
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < n; ++i) {
                if (!completes[i]) continue;
                std::int64_t start = 0;
                for (const std::size_t j : after_[i]) start = std::max(start, out_.end[j]);
                if (out_.end[i] != start + cycles_[i]) {
                    out_.end[i] = start + cycles_[i];
                    moved = true;
                }
            }
        }
        for (const std::int64_t end : out_.end) out_.total = std::max(out_.total, end);
    }

    const Recipe& recipe_;
    const std::vector<std::int64_t>& cycles_;
    std::vector<const Step*> instructions_;
    std::map<std::pair<std::size_t, std::size_t>, Set> writers_;  // by storage and cell
    std::vector<std::set<std::size_t>> after_;
    Expectation out_;
};

// What kinds of steps and regions a program is made of.
struct Flavour {
    int storages, steps, most_rank, most_extent;
    bool tiles;  // regions are tiles of a grid
    bool flags, loads;
    int start_ready;  // of ten storages
};

class Generator {
  public:
    Generator(unsigned seed, const Flavour& flavour) : random_(seed), flavour_(flavour) {}

    Recipe recipe() {
        Recipe out;
        std::vector<int> common;
        for (int i = 0; i < flavour_.storages; ++i) {
            std::vector<int> extents;
            const int rank = 1 + below(flavour_.most_rank);
            for (int axis = 0; axis < rank; ++axis) extents.push_back(1 + below(flavour_.most_extent));
            if (flavour_.tiles) extents.assign(2, flavour_.most_extent);
            if (flavour_.loads) {  // so that every storage can be loaded from every other
                if (common.empty()) common = extents;
                extents = common;
            }
            const Memory memory = flavour_.loads && i % 2 == 0 ? Memory::GM : Memory::UB;
            out.storages.push_back({memory, extents, below(10) < flavour_.start_ready});
        }
        while (static_cast<int>(out.steps.size()) < flavour_.steps) add_step(out);
        // In any order, but for each flag as many sets as waits.
        for (auto& [key, balance] : balance_)
            for (; balance != 0; balance += balance > 0 ? -1 : 1) out.steps.push_back(flag_step(key, balance < 0));
        return out;
    }

  private:
    using FlagKey = std::tuple<std::size_t, Pipe, Pipe, int>;

    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

    Pipe pipe() {
        static constexpr Pipe pipes[] = {Pipe::MTE1, Pipe::MTE2, Pipe::MTE3, Pipe::V, Pipe::M, Pipe::S};
        return pipes[below(6)];
    }

    void add_step(Recipe& out) {
        Step step;
        step.core = static_cast<std::size_t>(below(2));
        const int kind = below(20);
        if (kind == 0) {
            step.kind = Step::Kind::ready;
            step.storage = static_cast<std::size_t>(below(flavour_.storages));
            step.ready = below(2) == 0;
        } else if (kind <= 4 && flavour_.flags) {
            const FlagKey key{step.core, pipe(), pipe(), below(2)};
            const bool set = below(3) != 0 || balance_[key] > 0 ? balance_[key] <= 0 : below(2) == 0;
            step = flag_step(key, set);
            balance_[key] += set ? 1 : -1;
        } else if (kind == 5 && flavour_.flags) {
            step.kind = Step::Kind::barrier;
            step.all = below(2) == 0;
            step.pipe = step.all ? Pipe::S : pipe();
        } else if (kind <= 12 && flavour_.loads) {
            add_load(out, step);
        } else {
            step.pipe = pipe();
            step.cycles = below(4) == 0 ? 0 : below(20);
            for (int i = below(3); i > 0; --i) step.reads.push_back(region(out, below(flavour_.storages)));
            for (int i = below(5) == 0 ? 2 : below(2); i > 0; --i)
                step.writes.push_back(region(out, below(flavour_.storages)));
        }
        out.steps.push_back(step);
    }

    static Step flag_step(const FlagKey& key, bool set) {
        Step step;
        step.kind = set ? Step::Kind::set : Step::Kind::wait;
        std::tie(step.core, step.from, step.to, step.id) = key;
        step.pipe = set ? step.from : step.to;
        step.cycles = 1;
        return step;
    }

    // Between GM and UB, into a whole tensor, with or without marks.
    void add_load(const Recipe& out, Step& step) {
        step.kind = Step::Kind::load;
        const int target = below(flavour_.storages);
        int source = below(flavour_.storages);
        while (out.storages[static_cast<std::size_t>(source)].memory ==
               out.storages[static_cast<std::size_t>(target)].memory)
            source = below(flavour_.storages);
        step.pipe = out.storages[static_cast<std::size_t>(target)].memory == Memory::UB ? Pipe::MTE2 : Pipe::MTE3;
        step.reads.push_back(region(out, source));
        step.writes.push_back(whole(out, static_cast<std::size_t>(target)));
        if (below(3) == 0) step.mark = below(2);
        if (below(6) == 0) step.expected = below(2);
    }

    static Region whole(const Recipe& out, std::size_t storage) {
        Region region{storage, {}, {}};
        fill_cells(out.storages[storage].extents, std::vector<int>(out.storages[storage].extents.size(), 0),
                   out.storages[storage].extents, region.cells);
        return region;
    }

    Region region(const Recipe& out, int number) {
        const auto storage = static_cast<std::size_t>(number);
        const std::vector<int>& extents = out.storages[storage].extents;
        if (below(flavour_.tiles ? 40 : 4) == 0) return whole(out, storage);
        Region region{storage, {}, {}};
        std::vector<int> begin, end;
        for (const int extent : extents) {
            int first = 0, last = extent - 1;
            if (flavour_.tiles && below(20) != 0) {
                constexpr int tile = 3;
                first = below(extent / tile) * tile;
                last = first + tile - 1;
                region.subscript.push_back(Index::range(first, last + 1));
            } else if (below(4) == 0) {
                first = last = below(extent);
                region.subscript.push_back(Index::at(below(2) == 0 ? first : first - extent));
            } else {
                const int a = below(extent), b = below(extent), step = 1 + below(3);
                const int low = std::min(a, b), high = std::max(a, b);
                std::vector<int> selected;  // as range() selects
                if (below(3) == 0) {
                    for (int at = high; at >= low; at -= step) selected.push_back(at);
                    region.subscript.push_back(
                        Index::range(high, low == 0 ? std::optional<std::int64_t>() : low - 1, -step));
                } else {
                    for (int at = low; at <= high; at += step) selected.push_back(at);
                    region.subscript.push_back(Index::range(low, high + 1, step));
                }
                first = std::min(selected.front(), selected.back());
                last = std::max(selected.front(), selected.back());
            }
            begin.push_back(first);
            end.push_back(last + 1);
        }
        fill_cells(extents, begin, end, region.cells);
        return region;
    }

    static void fill_cells(const std::vector<int>& extents, const std::vector<int>& begin, const std::vector<int>& end,
                           std::vector<std::size_t>& cells) {
        std::vector<int> at = begin;
        for (;;) {
            std::size_t cell = 0;
            for (std::size_t i = 0; i < extents.size(); ++i)
                cell = cell * static_cast<std::size_t>(extents[i]) + static_cast<std::size_t>(at[i]);
            cells.push_back(cell);
            std::size_t axis = extents.size();
            while (axis > 0 && ++at[axis - 1] == end[axis - 1]) {
                at[axis - 1] = begin[axis - 1];
                --axis;
            }
            if (axis == 0) return;
        }
    }

    std::mt19937 random_;
    Flavour flavour_;
    std::map<FlagKey, int> balance_;  // sets minus waits
};

// Records a recipe. `scale` multiplies the costs of own instructions, `slower` adds to one of them.
std::unique_ptr<Model> record(const Recipe& recipe, std::int64_t scale = 1, std::size_t slower = SIZE_MAX) {
    auto model = std::make_unique<Model>();
    std::vector<Tensor> storages;
    for (const auto& place : recipe.storages) {
        Shape shape;
        for (const int extent : place.extents) shape.push_back(extent);
        storages.push_back(tensor(place.memory, shape, DType::FP16, place.ready));
    }
    const auto views = [&](const std::vector<Region>& regions) {
        std::vector<Tensor> out;
        for (const Region& region : regions)
            out.push_back(region.subscript.empty() ? storages[region.storage]
                                                   : storages[region.storage].slice(region.subscript));
        return out;
    };
    for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
        const Step& step = recipe.steps[i];
        model->on("core" + std::to_string(step.core));
        switch (step.kind) {
            case Step::Kind::own:
                model->own(step.pipe, step.cycles * scale + (i == slower ? 7 : 0), views(step.reads),
                           views(step.writes));
                break;
            case Step::Kind::load: {
                LoadOptions options;
                options.set_value = step.mark;
                options.expect_value = step.expected;
                model->load(views(step.writes)[0], views(step.reads)[0], options);
                break;
            }
            case Step::Kind::ready:
                model->program->set_ready(storages[step.storage], step.ready);
                break;
            case Step::Kind::set:
                model->set_flag(std::string(name(step.from)), std::string(name(step.to)), step.id);
                break;
            case Step::Kind::wait:
                model->wait_flag(std::string(name(step.from)), std::string(name(step.to)), step.id);
                break;
            case Step::Kind::barrier:
                model->barrier(step.all ? "PIPE-ALL" : std::string(name(step.pipe)));
                break;
        }
    }
    model->program->finish();
    return model;
}

// How many programs of each kind there were, so that a change cannot quietly make all of them trivial.
struct Seen {
    int programs = 0, deadlocks = 0, late = 0, starved = 0;
};

void check(unsigned seed, const Flavour& flavour, Seen& seen) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Recipe recipe = Generator(seed, flavour).recipe();
    const auto model = record(recipe);
    const Program& program = *model->program;
    std::vector<std::int64_t> cycles;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < program.size(); ++i) {
        cycles.push_back(program.record(i).cycles);
        sum += cycles.back();
    }
    const Expectation expected = Oracle(recipe, cycles).expect();
    ++seen.programs;
    seen.deadlocks += expected.deadlock;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
        Set data;
        program.each_dependency(i, [&](const Dependency& dependency) {
            if (dependency.tensor != none) data.insert(dependency.producer);
            seen.late += dependency.producer > i;
        });
        ASSERT_EQ(data, expected.data[i]) << "instruction " << i;
        ASSERT_EQ(program.record(i).starved, expected.starved[i] != 0) << "instruction " << i;
        seen.starved += expected.starved[i];
    }
    const Attempt done = attempt(program);
    for (std::size_t i = 0; i < program.size(); ++i) ASSERT_EQ(done.end[i], expected.end[i]) << "instruction " << i;
    ASSERT_EQ(done.total, expected.total);
    ASSERT_EQ(!done.deadlock.empty(), expected.deadlock) << done.deadlock;
    if (expected.deadlock) {
        ASSERT_TRUE(has(error(ErrorKind::deadlock, [&] { schedule(model->program); }), "schedule: deadlock, "));
        return;
    }
    ASSERT_LE(expected.total, sum);
    const Metrics metrics = measure(schedule(model->program));
    for (const Statistic& pipe : metrics.pipes) ASSERT_LE(pipe.cycles, metrics.total_cycles);
}

TEST(RandomPrograms, of_small_tensors) {
    Seen seen;
    for (unsigned seed = 0; seed < 1500 && !testing::Test::HasFatalFailure(); ++seed)
        check(seed, {3, 14, 3, 5, false, true, false, 5}, seen);
    EXPECT_GT(seen.deadlocks, 100);
    EXPECT_LT(seen.deadlocks, 1400);
    EXPECT_GT(seen.late, 1000);
    EXPECT_GT(seen.starved, 100);
}

TEST(RandomPrograms, of_ready_tensors_seldom_deadlock) {
    Seen seen;
    for (unsigned seed = 0; seed < 1500 && !testing::Test::HasFatalFailure(); ++seed)
        check(seed, {4, 30, 2, 8, false, false, false, 10}, seen);
    EXPECT_LT(seen.deadlocks, 1200);
}

TEST(RandomPrograms, with_loads_and_versions) {
    Seen seen;
    for (unsigned seed = 0; seed < 1000 && !testing::Test::HasFatalFailure(); ++seed)
        check(seed, {4, 16, 2, 6, false, true, true, 8}, seen);
    EXPECT_LT(seen.deadlocks, 950);
}

TEST(RandomPrograms, of_many_tiles) {
    Seen seen;
    for (unsigned seed = 0; seed < 60 && !testing::Test::HasFatalFailure(); ++seed)
        check(seed, {2, 500, 2, 45, true, false, false, 5}, seen);
    EXPECT_GT(seen.late, 100);
}

TEST(RandomPrograms, a_slower_instruction_never_makes_the_whole_faster) {
    const Flavour flavour{4, 25, 2, 6, false, true, false, 10};
    int compared = 0;
    for (unsigned seed = 5000; seed < 5400; ++seed) {
        const Recipe recipe = Generator(seed, flavour).recipe();
        const Attempt before = attempt(*record(recipe)->program);
        if (!before.deadlock.empty()) continue;
        for (std::size_t i = 0; i < recipe.steps.size(); i += 3) {
            if (recipe.steps[i].kind != Step::Kind::own) continue;
            const std::int64_t total = attempt(*record(recipe, 1, i)->program).total;
            ASSERT_GE(total, before.total) << "seed " << seed << " step " << i;
            ASSERT_LE(total, before.total + 7) << "seed " << seed << " step " << i;
            ++compared;
        }
    }
    EXPECT_GT(compared, 200);
}

TEST(RandomPrograms, all_costs_times_k_take_k_times_as_long) {
    const Flavour flavour{4, 25, 2, 6, false, false, false, 10};  // flags always take one cycle
    int compared = 0;
    for (unsigned seed = 6000; seed < 6200; ++seed) {
        const Recipe recipe = Generator(seed, flavour).recipe();
        const auto once = record(recipe), thousandfold = record(recipe, 1000);
        const Attempt before = attempt(*once->program), after = attempt(*thousandfold->program);
        ASSERT_EQ(after.total, 1000 * before.total) << "seed " << seed;
        ++compared;
    }
    EXPECT_EQ(compared, 200);
}

TEST(RandomPrograms, recorded_by_turns_are_as_recorded_alone) {
    // Two programs over the same tensors, one step of each in turn, against each alone.
    for (unsigned seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        std::vector<Tensor> shared;
        for (int i = 0; i < 3; ++i) shared.push_back(tensor(Memory::UB, {6}));
        struct Act {
            std::size_t storage;
            int begin, end;
            bool write;
        };
        std::vector<Act> acts[2];
        for (auto& list : acts)
            for (int i = 0; i < 20; ++i) {
                const int begin = static_cast<int>(random() % 6);
                list.push_back({random() % 3, begin,
                                begin + 1 + static_cast<int>(random() % static_cast<unsigned>(6 - begin)),
                                random() % 2 == 0});
            }
        const auto apply = [](Model& model, const std::vector<Tensor>& storages, const Act& act) {
            const Tensor view = rows(storages[act.storage], act.begin, act.end);
            if (act.write)
                model.own(Pipe::MTE2, 3, {}, {view});
            else
                model.own(Pipe::V, 2, {view}, {});
        };
        Model together[2];
        for (std::size_t i = 0; i < 20; ++i)
            for (std::size_t which = 0; which < 2; ++which) apply(together[which], shared, acts[which][i]);
        for (std::size_t which = 0; which < 2; ++which) {
            std::vector<Tensor> fresh;
            for (int i = 0; i < 3; ++i) fresh.push_back(tensor(Memory::UB, {6}));
            Model alone;
            for (const Act& act : acts[which]) apply(alone, fresh, act);
            for (std::uint32_t i = 0; i < 20; ++i)
                ASSERT_EQ(together[which].waits(i), alone.waits(i)) << "seed " << seed;
        }
    }
}

}  // namespace
}  // namespace mskpp::test
