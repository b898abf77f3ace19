// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace mskpp::test {
namespace {

// The least a chip needs.
const char* const chip_csv =
    "key,value,source\n"
    "architecture,2201,\n"
    "clock_mhz,1000,\n"
    "cube_cores,2,\n"
    "vector_cores,4,\n"
    "ub_bytes,1024,\n"
    "cache_miss_slowdown,4,\n"
    "mmad_peak.FP16,4096,\n"
    "mmad_fractal_k.FP16,16,\n"
    "lost_instructions,VADD VSUB,\n";
const char* const paths_csv =
    "source,target,pipe,port_bytes_per_cycle,note\n"
    "GM,UB,PIPE-MTE2,128,\n"
    "UB,GM,PIPE-MTE3,64.5,\n";

class ChipTest : public testing::Test {
  protected:
    void chip(const std::string& name, const std::string& attributes) { folder_.write(name + "/chip.csv", attributes); }
    void paths(const std::string& name, const std::string& table) { folder_.write(name + "/paths.csv", table); }
    void root(const std::string& name = "Root") {
        chip(name, chip_csv);
        paths(name, paths_csv);
    }
    std::shared_ptr<const Chip> load(const std::string& name) { return Chip::load(name, {folder_.path()}); }
    std::string failure(const std::string& name, ErrorKind kind = ErrorKind::data) {
        return error(kind, [&] { load(name); });
    }
    TempFolder folder_;
};

TEST(ChipData, every_folder_is_listed_once_and_sorted) {
    std::vector<std::string> folders;
    for (const auto& entry : fs::directory_iterator(data_folder() / "chips"))
        folders.push_back(entry.path().filename().string());
    std::sort(folders.begin(), folders.end());
    EXPECT_EQ(Chip::list(chip_path()), folders);
    EXPECT_EQ(Chip::list({chip_path()[0], chip_path()[0]}), folders);
    EXPECT_GE(folders.size(), 3u);
}

TEST(ChipData, every_chip_loads_with_sound_figures_and_its_costs) {
    for (const std::string& name : Chip::list(chip_path())) {
        SCOPED_TRACE(name);
        const auto chip = load_chip(name);
        EXPECT_EQ(chip->name(), name);
        EXPECT_TRUE(chip->architecture() == "2201" || chip->architecture() == "3510");
        EXPECT_GE(chip->clock_mhz(), 1000);
        EXPECT_GE(chip->cube_cores(), 1);
        EXPECT_GE(chip->vector_cores(), 1);
        for (const Memory memory :
             {Memory::GM, Memory::UB, Memory::L1, Memory::L0A, Memory::L0B, Memory::L0C, Memory::BT, Memory::FB})
            EXPECT_GE(chip->capacity_bytes(memory).value_or(0), 1024) << mskpp::name(memory);
        const Costs costs(chip);
        EXPECT_TRUE(costs.find_vector("VADD", "FP16 FP16 FP16"));
        EXPECT_GE(costs.mmad(DType::FP16, 16, 16, 16).cycles, 1);
        for (const Path& path : chip->paths()) {
            EXPECT_EQ(chip->path(path.source, path.target)->pipe, path.pipe);
            EXPECT_GE(costs.move(path, 1024, false, 1, 0).cycles, 1) << path_name(path.source, path.target);
        }
    }
}

TEST(ChipData, names_are_forgiving) {
    EXPECT_EQ(load_chip("Ascend910B1")->name(), "Ascend910B1");
    EXPECT_EQ(load_chip("ascend910b1")->name(), "Ascend910B1");
    EXPECT_EQ(load_chip("910B4")->name(), "Ascend910B4");  // as npu-smi prints it
    EXPECT_EQ(load_chip("Ascend910_95")->name(), "Ascend950PR_9589");
    EXPECT_EQ(load_chip("910_9599")->name(), "Ascend950PR_9599");
}

TEST(ChipData, ascend910b1_is_as_documented) {
    const auto chip = load_chip("Ascend910B1");
    EXPECT_EQ(chip->folder(), data_folder() / "chips" / "Ascend910B1");
    EXPECT_EQ(chip->clock_mhz(), 1850);
    EXPECT_EQ(chip->cube_cores(), 24);
    EXPECT_EQ(chip->vector_cores(), 48);
    EXPECT_EQ(chip->cache_miss_slowdown(), 4.5);
    EXPECT_EQ(chip->capacity_bytes(Memory::UB), 196608);
    EXPECT_EQ(chip->capacity_bytes(Memory::GM), std::int64_t{64} << 30);
    EXPECT_EQ(chip->capacity_bytes(Memory::VEC), std::nullopt);
    EXPECT_EQ(chip->mmad_peak(DType::INT4), 16384);
    EXPECT_EQ(chip->mmad_fractal_k(DType::INT4), 64);
    EXPECT_EQ(chip->mmad_peak(DType::INT32), 0);
    EXPECT_EQ(chip->mmad_fractal_k(DType::INT32), 0);
    EXPECT_FALSE(chip->lacks("VADDRELU"));
    EXPECT_EQ(chip->base_of("mov"), nullptr);
    EXPECT_EQ(chip->attributes().at("clock_mhz"), "1850");
    // The documentation's pipes for the two paths that the public tool has elsewhere.
    EXPECT_EQ(chip->path(Memory::UB, Memory::UB)->pipe, Pipe::V);
    EXPECT_EQ(chip->path(Memory::L0C, Memory::L1)->port_bytes_per_cycle, 128);
    EXPECT_EQ(chip->path(Memory::UB, Memory::L1), nullptr);
    EXPECT_EQ(chip->path(Memory::UB, Memory::VEC), nullptr);
}

TEST(ChipData, ascend950_differs_where_its_architecture_does) {
    const auto chip = load_chip("Ascend950PR_9589");
    EXPECT_EQ(chip->architecture(), "3510");
    EXPECT_EQ(chip->mmad_peak(DType::FP32), 256);
    EXPECT_EQ(chip->mmad_peak(DType::INT4), 0);
    EXPECT_EQ(chip->path(Memory::GM, Memory::L0A), nullptr);
    EXPECT_EQ(chip->path(Memory::L0C, Memory::UB)->pipe, Pipe::FIX);
    EXPECT_EQ(chip->path(Memory::UB, Memory::VEC)->pipe, Pipe::RVECLD);
    EXPECT_EQ(chip->path(Memory::VEC, Memory::UB)->pipe, Pipe::RVECST);
    EXPECT_TRUE(chip->lacks("VADDRELU"));
    EXPECT_FALSE(chip->lacks("VADD"));
    EXPECT_EQ(chip->base_of("vec")->name(), "Ascend910B1");
    EXPECT_EQ(chip->base_of("mov"), nullptr);
    EXPECT_EQ(load_chip("Ascend950PR_9599")->base_of("vec")->name(), "Ascend950PR_9589");
    EXPECT_TRUE(load_chip("Ascend950PR_9599")->lacks("VMULCONV"));
}

TEST(ChipData, paths_have_the_name_the_tables_use) {
    EXPECT_EQ(path_name(Memory::GM, Memory::UB), "GM_TO_UB");
    EXPECT_EQ(path_name(Memory::L0C, Memory::L1), "L0C_TO_L1");
}

TEST(ChipData, an_unknown_chip_is_answered_with_the_nearest_and_how_to_add_one) {
    const std::size_t more = Chip::list(chip_path()).size() - 3;
    EXPECT_EQ(error(ErrorKind::value, [] { load_chip("Ascend910B9"); }),
              "Chip: unknown chip 'Ascend910B9'; did you mean 'Ascend910B1'? Known: Ascend350_354f, Ascend350_355e, "
              "Ascend910B1, ... (" +
                  std::to_string(more) + " more). Add a folder: docs/add_a_chip.md");
}

TEST_F(ChipTest, few_chips_are_all_named) {
    root("One");
    root("Two");
    EXPECT_EQ(failure("Z80", ErrorKind::value),
              "Chip: unknown chip 'Z80'. Known: One, Two. Add a folder: docs/add_a_chip.md");
}

TEST_F(ChipTest, no_chips_at_all_is_said_too) {
    EXPECT_EQ(failure("One", ErrorKind::value),
              "Chip: unknown chip 'One'. No chip folder was found. Add a folder: docs/add_a_chip.md");
    EXPECT_TRUE(Chip::list({folder_.path(), folder_.path() / "missing"}).empty());
}

TEST_F(ChipTest, a_long_name_is_shown_in_part) {
    EXPECT_TRUE(has(failure(std::string(100, 'x'), ErrorKind::value), "'" + std::string(64, 'x') + "'"));
}

TEST_F(ChipTest, a_chip_is_what_its_folder_says) {
    root();
    const auto chip = load("root");
    EXPECT_EQ(chip->name(), "Root");
    EXPECT_EQ(chip->architecture(), "2201");
    EXPECT_EQ(chip->clock_mhz(), 1000);
    EXPECT_EQ(chip->cube_cores(), 2);
    EXPECT_EQ(chip->vector_cores(), 4);
    EXPECT_EQ(chip->cache_miss_slowdown(), 4);
    EXPECT_EQ(chip->capacity_bytes(Memory::UB), 1024);
    EXPECT_EQ(chip->capacity_bytes(Memory::L1), std::nullopt);
    EXPECT_TRUE(chip->lacks("VSUB"));
    ASSERT_EQ(chip->paths().size(), 2u);
    EXPECT_EQ(chip->paths()[1].port_bytes_per_cycle, 64.5);
}

TEST_F(ChipTest, a_folder_may_be_given_instead_of_a_name) {
    root("mine");
    const std::string folder = (folder_.path() / "mine").string();
    EXPECT_EQ(Chip::load(folder, {})->name(), "mine");
    EXPECT_EQ(Chip::load(folder + "/", {})->name(), "mine");
    EXPECT_EQ(Chip::load(folder + "/../mine", {})->name(), "mine");
    EXPECT_EQ(error(ErrorKind::value, [] { Chip::load("/no/such/chip", {}); }),
              "Chip: folder '/no/such/chip' has no chip.csv. How to write one: docs/add_a_chip.md");
}

TEST_F(ChipTest, the_first_folder_of_the_search_path_wins) {
    folder_.write("a/Chip/chip.csv", chip_csv);
    folder_.write("a/Chip/paths.csv", paths_csv);
    folder_.write("b/Chip/chip.csv", std::string(chip_csv) + "l1_bytes,5,\n");
    folder_.write("b/Chip/paths.csv", paths_csv);
    const fs::path a = folder_.path() / "a", b = folder_.path() / "b";
    EXPECT_EQ(Chip::load("Chip", {a, b})->capacity_bytes(Memory::L1), std::nullopt);
    EXPECT_EQ(Chip::load("Chip", {b, a})->capacity_bytes(Memory::L1), 5);
    EXPECT_EQ(Chip::list({a, b}), std::vector<std::string>{"Chip"});
}

TEST_F(ChipTest, a_name_goes_before_an_alias) {
    root("Ascend1");
    chip("Ascend0", std::string(chip_csv) + "aliases,Ascend1 Other,\n");
    paths("Ascend0", paths_csv);
    EXPECT_EQ(load("Ascend1")->name(), "Ascend1");
    EXPECT_EQ(load("other")->name(), "Ascend0");
}

TEST_F(ChipTest, a_base_gives_what_the_chip_leaves_out) {
    root();
    chip("Child", "key,value\nbase,Root\nclock_mhz,1500\nl1_bytes,77\n");
    const auto child = load("Child");
    EXPECT_EQ(child->clock_mhz(), 1500);
    EXPECT_EQ(child->architecture(), "2201");
    EXPECT_EQ(child->cube_cores(), 2);
    EXPECT_EQ(child->vector_cores(), 4);
    EXPECT_EQ(child->cache_miss_slowdown(), 4);
    EXPECT_EQ(child->capacity_bytes(Memory::UB), 1024);
    EXPECT_EQ(child->capacity_bytes(Memory::L1), 77);
    EXPECT_EQ(child->mmad_peak(DType::FP16), 4096);
    EXPECT_TRUE(child->lacks("VADD"));
    EXPECT_EQ(child->path(Memory::UB, Memory::GM)->port_bytes_per_cycle, 64.5);
    EXPECT_EQ(child->base_of("mov")->name(), "Root");
}

TEST_F(ChipTest, a_chip_overrides_its_base) {
    root();
    chip("Child",
         "key,value\nbase,Root\narchitecture,9000\nmmad_peak.FP16,1\nmmad_peak.INT8,2\nlost_instructions,\n"
         "cache_miss_slowdown,2\ncube_cores,9\nvector_cores,8\n");
    paths("Child", "source,target,pipe,port_bytes_per_cycle\nL1,L0A,PIPE-MTE1,256\n");
    const auto child = load("Child");
    EXPECT_EQ(child->architecture(), "9000");
    EXPECT_EQ(child->mmad_peak(DType::FP16), 1);
    EXPECT_EQ(child->mmad_peak(DType::INT8), 2);
    EXPECT_FALSE(child->lacks("VADD"));
    EXPECT_EQ(child->cache_miss_slowdown(), 2);
    EXPECT_EQ(child->cube_cores(), 9);
    EXPECT_EQ(child->vector_cores(), 8);
    EXPECT_EQ(child->path(Memory::GM, Memory::UB), nullptr);
    EXPECT_EQ(child->paths().size(), 1u);
}

TEST_F(ChipTest, one_table_may_have_a_base_of_its_own) {
    root();
    root("Other");
    chip("Child", "key,value\nbase,Root\nbase.vec,Other\n");
    EXPECT_EQ(load("Child")->base_of("vec")->name(), "Other");
    EXPECT_EQ(load("Child")->base_of("mmad")->name(), "Root");
}

TEST_F(ChipTest, a_chip_has_paths_or_a_base) {
    chip("Alone", chip_csv);
    EXPECT_EQ(failure("Alone"), "data: chip Alone has neither a paths.csv nor a base chip");
}

TEST_F(ChipTest, a_base_must_be_known) {
    chip("Child", "key,value\nbase,Rood\n");
    EXPECT_EQ(failure("Child"), "data: Child/chip.csv: base is 'Rood', which is no known chip");
    chip("Child", "key,value\nbase.vec,Rood\n");
    EXPECT_EQ(failure("Child"), "data: Child/chip.csv: base.vec is 'Rood', which is no known chip");
}

TEST_F(ChipTest, a_chip_cannot_be_its_own_base) {
    chip("Loop", "key,value\nbase,Loop\n");
    EXPECT_EQ(failure("Loop"),
              "data: Loop/chip.csv: the chain of base chips is longer than 8; does it lead back to itself?");
}

TEST_F(ChipTest, a_key_stands_once) {
    chip("Chip", std::string(chip_csv) + "clock_mhz,1001,\n");
    EXPECT_EQ(failure("Chip"), "data: Chip/chip.csv:11: key 'clock_mhz' stands here a second time");
}

TEST_F(ChipTest, an_unknown_key_is_answered_with_the_nearest) {
    chip("Chip", std::string(chip_csv) + "clock_mhs,1,\n");
    EXPECT_EQ(failure("Chip"),
              "data: Chip/chip.csv:11: unknown key 'clock_mhs'; did you mean 'clock_mhz'? docs/add_a_chip.md "
              "lists all");
}

TEST_F(ChipTest, figures_are_numbers_of_at_least_zero) {
    root();
    for (const char* wrong : {"-1", "many", "inf"}) {
        chip("Child", std::string("key,value\nbase,Root\ncube_cores,") + wrong + "\n");
        EXPECT_EQ(failure("Child"), std::string("data: Child/chip.csv: cube_cores is '") + wrong +
                                        "'; it must be a finite number of at least 0");
    }
}

TEST_F(ChipTest, the_clock_and_the_slowdown_have_ranges) {
    root();
    chip("Child", "key,value\nbase,Root\nclock_mhz,0\n");
    EXPECT_EQ(failure("Child"),
              "data: Child/chip.csv: clock_mhz is 0 and cache_miss_slowdown 4; they must be 1 to 1000000 and "
              "at least 1");
    chip("Child", "key,value\nbase,Root\nclock_mhz,2000000\n");
    EXPECT_TRUE(has(failure("Child"), "clock_mhz is 2e+06 and"));
    chip("Child", "key,value\nbase,Root\ncache_miss_slowdown,0.5\n");
    EXPECT_TRUE(has(failure("Child"), "clock_mhz is 1000 and cache_miss_slowdown 0.5;"));
    chip("NoClock", "key,value\narchitecture,2201\n");
    EXPECT_TRUE(has(failure("NoClock"), "clock_mhz is 0 and cache_miss_slowdown 1;"));
}

TEST_F(ChipTest, a_path_stands_once) {
    root();
    paths("Root", std::string(paths_csv) + "gm,ub,PIPE-MTE3,1,\n");
    EXPECT_EQ(failure("Root"), "data: Root/paths.csv:4: path GM_TO_UB stands here a second time");
}

TEST_F(ChipTest, a_port_is_wider_than_nothing) {
    root();
    paths("Root", "source,target,pipe,port_bytes_per_cycle\nGM,UB,PIPE-MTE2,0\n");
    EXPECT_EQ(failure("Root"),
              "data: Root/paths.csv:2: port_bytes_per_cycle is '0'; it must be a finite number above 0");
}

// chip.h promises an Error of kind data for every wrong table, and the message already says so.
TEST_F(ChipTest, an_unknown_name_in_a_table_is_an_error_of_the_data) {
    root();
    paths("Root", "source,target,pipe,port_bytes_per_cycle\nGM,UC,PIPE-MTE2,1\n");
    EXPECT_TRUE(has(failure("Root"), "data: Root/paths.csv:2: unknown mem_type 'UC'; did you mean 'UB'?"));
    paths("Root", "source,target,pipe,port_bytes_per_cycle\nGM,UB,PIPE-MTE9,1\n");
    EXPECT_TRUE(has(failure("Root"), "data: Root/paths.csv:2: unknown pipe 'PIPE-MTE9'"));
    root();
    chip("Root", std::string(chip_csv) + "mmad_peak.FP17,1,\n");
    EXPECT_TRUE(has(failure("Root"), "data: Root/chip.csv: unknown dtype 'FP17'; did you mean 'FP16'?"));
}

// A capacity is a figure like any other: what is no number is told when the chip is loaded, not when it is first asked
// for.
TEST_F(ChipTest, a_capacity_is_checked_when_the_chip_is_loaded) {
    chip("Root", std::string(chip_csv) + "l1_bytes,half,\n");
    paths("Root", paths_csv);
    EXPECT_EQ(failure("Root"), "data: Root/chip.csv: l1_bytes is 'half'; it must be a finite number of at least 0");
}

TEST_F(ChipTest, a_table_without_its_columns_is_refused) {
    chip("Chip", "name,value\na,b\n");
    EXPECT_EQ(failure("Chip"), "data: Chip/chip.csv has no column 'key'; it has name, value, it needs key, value");
}

}  // namespace
}  // namespace mskpp::test
