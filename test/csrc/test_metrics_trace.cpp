// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <random>

#include "fixture.h"

namespace mskpp::test {
namespace {

const Statistic& statistic(const std::vector<Statistic>& all, const std::string& name) {
    for (const Statistic& one : all)
        if (one.name == name) return one;
    throw std::logic_error("no statistic of " + name);
}

TEST(Metrics, of_nothing_are_empty) {
    Model model;
    const Metrics metrics = measure(model.schedule());
    EXPECT_EQ(metrics.total_cycles, 0);
    EXPECT_TRUE(metrics.pipes.empty());
    EXPECT_TRUE(metrics.instructions.empty());
}

TEST(Metrics, count_cycles_bytes_operations_and_origins) {
    Model model;
    model.on("aiv0");
    Tensor x(Memory::UB), y(Memory::UB);
    const Tensor in = tensor(Memory::GM, {512});
    model.load(x, in);                               // 242 cycles, 1024 bytes, measured
    model.load(Tensor(Memory::UB), rows(in, 0, 1));  // 242 cycles, 2 bytes, below the table
    model.issue("vabs", {&x, &y});                   // 512 * 2 / 253.754 = 4.04: 5 cycles, measured
    model.own(Pipe::V, 10, {}, {}, "OWN", 33);
    const Metrics metrics = measure(model.schedule());
    ASSERT_EQ(metrics.pipes.size(), 2u);
    EXPECT_EQ(metrics.pipes[0].name, "aiv0-PIPE-MTE2");
    EXPECT_EQ(metrics.pipes[0].cycles, 484);
    EXPECT_EQ(metrics.pipes[0].bytes, 1026);
    EXPECT_EQ(metrics.pipes[0].operations, 0);
    EXPECT_EQ(metrics.pipes[0].moves, 2);
    EXPECT_EQ(metrics.pipes[0].computations, 0);
    EXPECT_EQ(metrics.pipes[0].origins[static_cast<std::size_t>(Origin::measured)], 1);
    EXPECT_EQ(metrics.pipes[0].origins[static_cast<std::size_t>(Origin::below_table)], 1);
    EXPECT_EQ(metrics.pipes[1].name, "aiv0-PIPE-V");
    EXPECT_EQ(metrics.pipes[1].cycles, 15);
    EXPECT_EQ(metrics.pipes[1].operations, 512 + 33);
    EXPECT_EQ(metrics.pipes[1].computations, 2);
    EXPECT_EQ(metrics.pipes[1].origins[static_cast<std::size_t>(Origin::user)], 1);
    ASSERT_EQ(metrics.instructions.size(), 3u);
    EXPECT_EQ(metrics.instructions[0].name, "MOV-GM_TO_UB");
    EXPECT_EQ(metrics.instructions[0].cycles, 484);
    EXPECT_EQ(metrics.instructions[1].name, "VABS");
    EXPECT_EQ(metrics.instructions[2].name, "OWN");
    // MTE2 ends at 484, V starts with the first load's end: 242 + 5 + 10
    EXPECT_EQ(metrics.total_cycles, 484);
}

TEST(Metrics, leave_out_flags_and_barriers) {
    Model model;
    model.own(Pipe::MTE2, 10);
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);
    model.barrier("PIPE-ALL");
    const Metrics metrics = measure(model.schedule());
    EXPECT_EQ(metrics.total_cycles, 12);
    ASSERT_EQ(metrics.pipes.size(), 1u);  // PIPE-V and PIPE-S had flags and barriers only
    EXPECT_EQ(metrics.pipes[0].name, "PIPE-MTE2");
    EXPECT_EQ(metrics.pipes[0].cycles, 10);
    ASSERT_EQ(metrics.instructions.size(), 1u);
    EXPECT_EQ(metrics.instructions[0].name, "OWN");
}

TEST(Metrics, one_instruction_on_several_cores_is_one_row) {
    Model model;
    for (const char* core : {"aiv0", "aiv1"}) {
        model.on(core);
        model.own(Pipe::V, 5);
    }
    const Metrics metrics = measure(model.schedule());
    EXPECT_EQ(metrics.pipes.size(), 2u);
    EXPECT_EQ(statistic(metrics.instructions, "OWN").cycles, 10);
    EXPECT_EQ(statistic(metrics.instructions, "OWN").computations, 2);
    EXPECT_EQ(statistic(metrics.pipes, "aiv1-PIPE-V").cycles, 5);
}

TEST(Metrics, refuse_sums_that_cannot_be_counted) {
    Model model;
    model.own(Pipe::V, std::int64_t{1} << 62);
    model.own(Pipe::MTE2, std::int64_t{1} << 62);
    const Timeline timeline = model.schedule();
    EXPECT_EQ(error(ErrorKind::overflow, [&] { measure(timeline); }),
              "metrics: a sum of cycles, bytes or operations passes 2^63-1");
    Model work;
    work.own(Pipe::V, 1, {}, {}, "OWN", INT64_MAX);
    work.own(Pipe::V, 1, {}, {}, "OWN", 1);
    const Timeline works = work.schedule();
    EXPECT_EQ(error(ErrorKind::overflow, [&] { measure(works); }),
              "metrics: a sum of cycles, bytes or operations passes 2^63-1");
}

// --- trace ---

class Trace : public testing::Test {
  protected:
    std::string write(const Timeline& timeline, const std::string& name = "trace.json") {
        const fs::path file = folder.path() / name;
        write_trace(timeline, file);
        return read_text(file);
    }
    std::string write() { return write(model.schedule()); }

    // Times of the slices of one thread, in the order of the file, as a reader gets them.
    struct Slice {
        double ts, dur;
        std::string name;
    };
    static std::vector<Slice> slices(const std::string& text, int pid, int tid) {
        std::vector<Slice> out;
        const std::string place = "\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) + ",\"ts\":";
        for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + 1)) {
            const std::size_t name = text.rfind("\"name\":\"", at) + 8;
            const std::size_t duration = text.find("\"dur\":", at) + 6;
            out.push_back({std::strtod(text.c_str() + at + place.size(), nullptr),
                           std::strtod(text.c_str() + duration, nullptr),
                           text.substr(name, text.find('"', name) - name)});
        }
        return out;
    }
    Model model;
    TempFolder folder;
};

// load 0-242, set 242-243 | wait 0-244, VABS 244-249, set 249-250 | wait 0-251, store 251-948.
// 1850 cycles are a microsecond, and times are cut after 6 decimals: 242 / 1850 = 0.130810|8.
// 0.130810 + 0.000541 is 0.13135100000000002 as doubles, which passes the next start, so the flag gives up a
// picosecond. 1024 bytes in 242 cycles at 1850 MHz: 7.8281 GB/s; 512 operations in 5 cycles; 1024 bytes in 697
// cycles: 2.7179 GB/s.
TEST_F(Trace, of_a_small_program_is_this) {
    model.on("aiv0");
    Tensor x(Memory::UB), y(Memory::UB);
    model.load(x, tensor(Memory::GM, {512}));
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);
    model.issue("vabs", {&x, &y});
    model.set_flag("PIPE-V", "PIPE-MTE3", 0);
    model.barrier("PIPE-V");
    model.wait_flag("PIPE-V", "PIPE-MTE3", 0);
    model.load(Tensor(Memory::GM), y);
    EXPECT_EQ(write(), R"json({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"args":{"name":"aiv0"}},
{"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"PIPE-MTE2"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{"name":"PIPE-V"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":5,"args":{"sort_index":5}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"PIPE-MTE3"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":2,"args":{"sort_index":2}},
{"ph":"X","name":"MOV-GM_TO_UB","pid":1,"tid":1,"ts":0.000000,"dur":0.130810,"args":{"Cycle":242,"Size(B)":1024,"Bandwidth(GB/s)":7.8281}},
{"ph":"X","name":"SET_FLAG","pid":1,"tid":1,"ts":0.130810,"dur":0.000540,"args":{"Cycle":1,"Task Type":"SET_FLAG"}},
{"ph":"X","name":"WAIT_FLAG","pid":1,"tid":5,"ts":0.000000,"dur":0.131891,"args":{"Cycle":244,"Task Type":"WAIT_FLAG"}},
{"ph":"X","name":"VABS","pid":1,"tid":5,"ts":0.131891,"dur":0.002702,"args":{"Cycle":5,"Task Type":"AI_CORE","Ops":512,"Ops/Cycle":102.4}},
{"ph":"X","name":"SET_FLAG","pid":1,"tid":5,"ts":0.134594,"dur":0.000541,"args":{"Cycle":1,"Task Type":"SET_FLAG"}},
{"ph":"X","name":"WAIT_FLAG","pid":1,"tid":2,"ts":0.000000,"dur":0.135675,"args":{"Cycle":251,"Task Type":"WAIT_FLAG"}},
{"ph":"X","name":"MOV-UB_TO_GM","pid":1,"tid":2,"ts":0.135675,"dur":0.376757,"args":{"Cycle":697,"Size(B)":1024,"Bandwidth(GB/s)":2.7179}},
{"ph":"C","name":"UB live bytes","pid":1,"ts":0.000000,"args":{"bytes":1024}},
{"ph":"C","name":"UB live bytes","pid":1,"ts":0.131891,"args":{"bytes":2048}},
{"ph":"C","name":"UB live bytes","pid":1,"ts":0.134594,"args":{"bytes":1024}},
{"ph":"C","name":"UB live bytes","pid":1,"ts":0.512432,"args":{"bytes":0}}
]}
)json");
}

TEST_F(Trace, marks_where_a_memory_holds_more_than_there_is) {
    model.on("aic0");
    model.own(Pipe::MTE1, 1850, {}, {tensor(Memory::L0A, {32768})});
    model.own(Pipe::MTE1, 1850, {}, {tensor(Memory::L0A, {32769})});
    model.own(Pipe::MTE1, 1850, {}, {tensor(Memory::L0B, {32768})});
    const std::string text = write();
    EXPECT_TRUE(has(
        text,
        R"json({"ph":"i","name":"L0A over capacity","pid":1,"ts":1.000000,"s":"p","args":{"Peak(B)":65538,"Capacity(B)":65536}})json"));
    EXPECT_FALSE(has(text, "L0B over capacity"));
}

TEST_F(Trace, has_a_few_thousand_events_of_a_memory_at_most) {
    for (int i = 0; i < 20000; ++i) model.own(Pipe::V, 1, {}, {tensor(Memory::UB, {1 + i % 7})});
    const std::string text = write();
    std::size_t events = 0;
    for (std::size_t at = text.find("\"ph\":\"C\""); at != std::string::npos; at = text.find("\"ph\":\"C\"", at + 1))
        ++events;
    EXPECT_GT(events, 1000u);
    EXPECT_LE(events, MemoryUse::most_points);
}

TEST_F(Trace, of_nothing_is_a_trace_too) { EXPECT_EQ(write(), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n"); }

TEST_F(Trace, outside_any_core_has_a_process_of_its_own) {
    model.own(Pipe::V, 1);
    model.on("aic0");
    model.own(Pipe::M, 1);
    const std::string text = write();
    EXPECT_TRUE(
        has(text, R"json({"ph":"M","name":"process_name","pid":0,"args":{"name":"kernel perf prediction"}})json"));
    EXPECT_TRUE(has(text, R"json({"ph":"M","name":"process_name","pid":1,"args":{"name":"aic0"}})json"));
}

TEST_F(Trace, free_instructions_have_no_rates) {
    model.own(Pipe::V, 0, {}, {}, "FREE", 7);
    OwnInstruction move{"FREEMOVE", Pipe::MTE2, Kind::move, {}, {}, 64, 0};
    model.program->add_own(move, {});
    const std::string text = write();
    EXPECT_TRUE(has(
        text,
        R"json("name":"FREE","pid":0,"tid":5,"ts":0.000000,"dur":0.000000,"args":{"Cycle":0,"Task Type":"AI_CORE","Ops":7,"Ops/Cycle":0})json"));
    EXPECT_TRUE(has(text, R"json("args":{"Cycle":0,"Size(B)":64,"Bandwidth(GB/s)":0})json"));
}

TEST_F(Trace, names_are_quoted_as_json_wants) {
    model.own(Pipe::V, 1, {}, {}, "a\"b\\c\n\x01\x7f\xC3\xA9");
    EXPECT_TRUE(has(write(), "\"name\":\"a\\\"b\\\\c\\u000a\\u0001\\u007f\xC3\xA9\""));
}

TEST_F(Trace, a_wait_begins_when_its_pipe_is_free) {
    model.own(Pipe::MTE2, 1850);
    model.set_flag("PIPE-MTE2", "PIPE-V", 0);
    model.own(Pipe::V, 185);
    model.wait_flag("PIPE-MTE2", "PIPE-V", 0);
    const auto v = slices(write(), 0, 5);
    ASSERT_EQ(v.size(), 2u);
    EXPECT_EQ(v[1].name, "WAIT_FLAG");
    EXPECT_DOUBLE_EQ(v[1].ts, 0.1);
    EXPECT_DOUBLE_EQ(v[1].dur, 0.901081);  // to cycle 1852: 1.001081
}

// Between two barriers the scalar pipe is not free: the barrier sits in its queue.
TEST_F(Trace, a_wait_behind_a_barrier_begins_when_the_barrier_has_ended) {
    model.own(Pipe::MTE2, 1850);
    model.barrier("PIPE-ALL");
    model.set_flag("PIPE-MTE2", "PIPE-S", 0);
    model.wait_flag("PIPE-MTE2", "PIPE-S", 0);
    const auto s = slices(write(), 0, static_cast<int>(Pipe::S));
    ASSERT_EQ(s.size(), 1u);
    EXPECT_DOUBLE_EQ(s[0].ts, 1.0);
}

TEST_F(Trace, a_scope_is_a_slice_over_its_register_instructions) {
    Model registers("Ascend950PR_9589");  // 1650 MHz
    registers.on("aiv0");
    registers.own(Pipe::V, 165);
    registers.place.scope = registers.program->open_scope("softmax", registers.place.core);
    Tensor source = tensor(Memory::UB, {12800}, DType::FP16, true), in(Memory::VEC), out(Memory::VEC);
    registers.load(in, source);                    // 25600 bytes / 256 = 100 cycles: 0-100
    registers.issue("rv_vadd", {&in, &in, &out});  // 100 registers: 100-200
    registers.load(Tensor(Memory::UB), out);       // 200-300
    registers.program->open_scope("empty", registers.place.core);
    const std::string text = write(registers.schedule());
    EXPECT_TRUE(has(text, R"json({"ph":"M","name":"thread_name","pid":1,"tid":14,"args":{"name":"PIPE-VEC"}})json"));
    // 300 / 1650 = 0.181818
    EXPECT_TRUE(has(
        text,
        R"json({"ph":"X","name":"PIPE-VEC","pid":1,"tid":14,"ts":0.000000,"dur":0.181818,"args":{"Cycle":300,"Scope":"softmax"}})json"))
        << text;
    EXPECT_FALSE(has(text, "empty"));
    EXPECT_TRUE(has(text, R"json("name":"RV_VLD","pid":1,"tid":7)json"));
    EXPECT_TRUE(has(text, R"json("name":"RV_VADD","pid":1,"tid":9)json"));
    EXPECT_TRUE(has(text, R"json("name":"RV_VST","pid":1,"tid":11)json"));
}

TEST_F(Trace, a_scope_leaves_out_flags_and_other_cores) {
    Model registers("Ascend950PR_9589");
    registers.on("aiv1");
    registers.place.scope = registers.program->open_scope("one", registers.place.core);
    Tensor source = tensor(Memory::UB, {12800}, DType::FP16, true), in = tensor(Memory::VEC, {12800});
    registers.load(in, source);  // 0-100
    registers.set_flag("RVECLD1", "PIPE-V", 0);
    registers.wait_flag("RVECLD1", "PIPE-V", 0);
    const std::uint16_t mine = registers.place.core;
    registers.on("aiv0");
    registers.place.scope = none;
    registers.own(Pipe::RVECLD0, 1000);
    registers.place.core = mine;
    registers.place.scope = 0;
    registers.load(Tensor(Memory::UB), in);  // 100-200
    const std::string text = write(registers.schedule());
    EXPECT_TRUE(has(text, R"json("args":{"Cycle":200,"Scope":"one"})json")) << text;
}

TEST_F(Trace, neighbours_never_overlap_even_as_doubles) {
    for (const char* chip : {"Ascend910B1", "Ascend910B4", "Ascend950PR_9589"})
        for (unsigned seed = 0; seed < 20; ++seed) {
            std::mt19937_64 random(seed);
            Model many(chip);
            std::vector<std::int64_t> cycles;
            for (int i = 0; i < 500; ++i) {
                cycles.push_back(static_cast<std::int64_t>(random() % (std::uint64_t{1} << (seed + 1))));
                many.own(Pipe::V, cycles.back());
            }
            const double mhz = many.program->chip().clock_mhz();
            const auto v = slices(write(many.schedule(), "trace" + std::to_string(seed) + chip), 0, 5);
            ASSERT_EQ(v.size(), 500u);
            for (std::size_t i = 0; i < 500; ++i) {
                ASSERT_TRUE(i == 0 || v[i - 1].ts + v[i - 1].dur <= v[i].ts) << chip << " seed " << seed << " at " << i;
                ASSERT_NEAR(v[i].dur, static_cast<double>(cycles[i]) / mhz, 2.1e-6);
            }
        }
}

// A week of cycles is a long kernel, but it is less than 2^62: its times are right, or it is refused.
TEST_F(Trace, of_a_very_long_program_has_its_times_right_or_is_refused) {
    for (const int power : {45, 50, 53, 54, 58, 62}) {
        const std::int64_t cycles = std::int64_t{1} << power;
        Model lasting;
        lasting.own(Pipe::V, cycles / 2);
        lasting.own(Pipe::V, cycles / 2);
        const std::string name = "trace" + std::to_string(power);
        try {
            const std::string text = write(lasting.schedule(), name);
            const auto v = slices(text, 0, 5);
            ASSERT_EQ(v.size(), 2u);
            const double half = static_cast<double>(cycles) / 2 / 1850;
            EXPECT_NEAR(v[1].ts, half, half * 1e-12) << "2^" << power;
            EXPECT_NEAR(v[1].dur, half, half * 1e-12) << "2^" << power;
            EXPECT_LE(v[0].ts + v[0].dur, v[1].ts) << "2^" << power;
        } catch (const Error& thrown) {
            EXPECT_EQ(static_cast<int>(thrown.kind()), static_cast<int>(ErrorKind::overflow)) << thrown.what();
            EXPECT_FALSE(fs::exists(folder.path() / name));
        }
    }
}

TEST_F(Trace, neighbours_of_a_very_long_program_do_not_overlap) {
    std::mt19937_64 random(5);
    for (int power = 40; power <= 61; ++power) {
        Model lasting;
        lasting.own(Pipe::V, std::int64_t{1} << power);
        for (int i = 0; i < 200; ++i) lasting.own(Pipe::V, static_cast<std::int64_t>(random() % 10000));
        const auto v = slices(write(lasting.schedule(), "trace" + std::to_string(power)), 0, 5);
        ASSERT_EQ(v.size(), 201u);
        std::size_t overlaps = 0;
        for (std::size_t i = 1; i < v.size(); ++i) overlaps += v[i - 1].ts + v[i - 1].dur > v[i].ts;
        EXPECT_EQ(overlaps, 0u) << "after 2^" << power << " cycles";
    }
}

TEST_F(Trace, is_private_to_the_user) {
    model.own(Pipe::V, 1);
    write();
    struct stat status{};
    ASSERT_EQ(::stat((folder.path() / "trace.json").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Trace, overwrites_nothing) {
    model.own(Pipe::V, 1);
    folder.write("trace.json", "mine");
    const Timeline timeline = model.schedule();
    EXPECT_EQ(error(ErrorKind::io, [&] { write_trace(timeline, folder.path() / "trace.json"); }),
              "trace: trace.json cannot be written: File exists");
    EXPECT_EQ(read_text(folder.path() / "trace.json"), "mine");
    // nor what a link points at
    fs::create_symlink(folder.path() / "target.json", folder.path() / "link.json");
    EXPECT_EQ(error(ErrorKind::io, [&] { write_trace(timeline, folder.path() / "link.json"); }),
              "trace: link.json cannot be written: File exists");
    EXPECT_EQ(folder.entries(), (std::vector<std::string>{"link.json", "trace.json"}));
}

TEST_F(Trace, of_a_missing_folder_leaves_nothing) {
    model.own(Pipe::V, 1);
    const Timeline timeline = model.schedule();
    EXPECT_EQ(error(ErrorKind::io, [&] { write_trace(timeline, folder.path() / "none" / "trace.json"); }),
              "trace: trace.json cannot be written: No such file or directory");
    EXPECT_TRUE(folder.entries().empty());
}

TEST_F(Trace, that_cannot_be_written_to_its_end_leaves_nothing) {
    for (int i = 0; i < 100; ++i) model.own(Pipe::V, 1);
    const Timeline timeline = model.schedule();
    // A file may not grow beyond 100 bytes for a moment; the signal that comes with it is not wanted.
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 100;
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::string message;
    try {
        write_trace(timeline, folder.path() / "trace.json");
    } catch (const Error& thrown) {
        message = thrown.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    EXPECT_EQ(message, "trace: trace.json cannot be written: File too large");
    EXPECT_TRUE(folder.entries().empty());
}

// A million instructions are needed to be told of the first million, so one timeline serves three tests.
class LongTrace : public Trace {
  protected:
    static constexpr int count = 1000001;
    static const Timeline& timeline() {
        static const Timeline built = [] {
            Model lasting;
            const OwnInstruction one{"OWN", Pipe::V, Kind::computation, {}, {}, 0, 1};
            for (int i = 0; i < count; ++i) lasting.program->add_own(one, {});
            return lasting.schedule();
        }();
        return built;
    }
    fs::path file = folder.path() / "trace.json";
};

TEST_F(LongTrace, tells_its_progress_every_million_and_may_be_stopped) {
    EXPECT_EQ(timeline().total_cycles(), count);
    std::vector<std::size_t> heard;
    const auto stop = [&](std::size_t written) {
        heard.push_back(written);
        throw std::runtime_error("stop");
    };
    EXPECT_THROW(write_trace(timeline(), file, stop), std::runtime_error);
    EXPECT_EQ(heard, std::vector<std::size_t>{1000000});
    EXPECT_TRUE(folder.entries().empty());
}

TEST_F(LongTrace, does_not_replace_a_folder_that_came_meanwhile) {
    const auto make_folder = [&](std::size_t) { fs::create_directory(file); };
    EXPECT_TRUE(has(error(ErrorKind::io, [&] { write_trace(timeline(), file, make_folder); }),
                    "trace: trace.json cannot be written: "));
    EXPECT_EQ(folder.entries(), std::vector<std::string>{"trace.json"});
}

// An Error (io) when the file exists, at whatever moment it came to be.
TEST_F(LongTrace, does_not_replace_a_file_that_came_meanwhile) {
    const auto make_file = [&](std::size_t) { folder.write("trace.json", "mine"); };
    EXPECT_EQ(error(ErrorKind::io, [&] { write_trace(timeline(), file, make_file); }),
              "trace: trace.json cannot be written: File exists");
    EXPECT_EQ(fs::file_size(file), 4u);
    EXPECT_EQ(folder.entries(), std::vector<std::string>{"trace.json"});
}

// What an earlier run that was killed left behind is no reason to write no trace for ever, and no "File exists" either.
TEST_F(Trace, is_written_beside_what_a_killed_run_left_behind) {
    model.own(Pipe::V, 1);
    const Timeline timeline = model.schedule();
    folder.write(".trace.json.part", "half of a tr");
    write_trace(timeline, folder.path() / "trace.json");
    EXPECT_TRUE(has(read_text(folder.path() / "trace.json"), "\"name\":\"OWN\""));
}

}  // namespace
}  // namespace mskpp::test
