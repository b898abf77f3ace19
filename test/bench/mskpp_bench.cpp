// SPDX-License-Identifier: Apache-2.0
// Instructions per second of recording and scheduling the documented matmul tile, without Python.
#include <benchmark/benchmark.h>

#include "matmul_tile.h"

namespace mskpp::bench {
namespace {

constexpr int tiles = 200000;

void count(benchmark::State& state, const Program& program) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.size()));
}

void record(benchmark::State& state, Fresh fresh) {
    const Fixture fixture;
    std::shared_ptr<Program> program;
    for (auto _ : state) program = record_tiles(fixture, tiles, fresh);
    count(state, *program);
}

void record_and_schedule(benchmark::State& state, Fresh fresh) {
    const Fixture fixture;
    std::shared_ptr<Program> program;
    for (auto _ : state) {
        program = record_tiles(fixture, tiles, fresh);
        benchmark::DoNotOptimize(schedule(program).total_cycles());
    }
    count(state, *program);
}

void schedule_only(benchmark::State& state) {
    const Fixture fixture;
    const std::shared_ptr<Program> program = record_tiles(fixture, tiles, Fresh::tile);
    for (auto _ : state) benchmark::DoNotOptimize(schedule(program).total_cycles());
    count(state, *program);
}

BENCHMARK_CAPTURE(record, documented_tile, Fresh::tile)->Unit(benchmark::kMillisecond);
BENCHMARK(schedule_only)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(record_and_schedule, documented_tile, Fresh::tile)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(record_and_schedule, all_tensors_new, Fresh::all)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(record_and_schedule, no_tensor_new, Fresh::none)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mskpp::bench
