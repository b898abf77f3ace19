// SPDX-License-Identifier: Apache-2.0
// What the tests share: chips and instructions of the data folder, programs in a few words, folders that vanish again.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mskpp/mskpp.h"

namespace mskpp::test {

namespace fs = std::filesystem;

inline const fs::path& data_folder() {
    static const fs::path folder = fs::path(MSKPP_SOURCE_DIR) / "mskpp" / "data";
    return folder;
}

inline std::vector<fs::path> chip_path() { return {data_folder() / "chips"}; }

inline std::shared_ptr<const Chip> load_chip(const std::string& name) { return Chip::load(name, chip_path()); }

// Tables take a while to read, and are immutable: each chip's are read once.
inline std::shared_ptr<const Costs> costs_of(const std::string& name) {
    static std::map<std::string, std::shared_ptr<const Costs>> known;
    auto& costs = known[name];
    if (!costs) costs = std::make_shared<const Costs>(load_chip(name));
    return costs;
}

inline const Instruction& instruction(const std::string& function) {
    static const auto all = read_instructions(data_folder() / "instructions.csv");
    for (const auto& one : all)
        if (one->function == function) return *one;
    throw std::logic_error("the instruction table has no " + function);
}

// The message of the Error that `act` throws; fails the test when it throws none, or one of another kind.
template <typename Act>
std::string error(ErrorKind kind, Act act) {
    try {
        act();
    } catch (const Error& thrown) {
        EXPECT_EQ(static_cast<int>(thrown.kind()), static_cast<int>(kind)) << thrown.what();
        return thrown.what();
    }
    ADD_FAILURE() << "no Error was thrown";
    return {};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A folder of this test alone, removed with all it holds.
class TempFolder {
  public:
    TempFolder() {
        std::string name = testing::TempDir() + "mskpp-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder " + name);
        path_ = name;
    }
    ~TempFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const fs::path& path() const { return path_; }
    fs::path write(const std::string& name, const std::string& text) const {
        const fs::path file = path_ / name;
        fs::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
        return file;
    }
    std::vector<std::string> entries() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
        std::sort(names.begin(), names.end());
        return names;
    }

  private:
    fs::path path_;
};

inline std::string read_text(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline Tensor tensor(Memory memory, const Shape& shape, DType dtype = DType::FP16, bool ready = false,
                     Format format = Format::ND) {
    return Tensor(memory, dtype, shape, format, ready);
}

// Rows [begin, end) of the first axis.
inline Tensor rows(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
    return tensor.slice({Index::range(begin, end)});
}

// A program in the making.
class Model {
  public:
    explicit Model(const std::string& chip = "Ascend910B1")
        : sources(std::make_shared<SourceTable>()), program(std::make_shared<Program>(costs_of(chip), sources)) {}

    // From now on instructions are issued on that core ("": outside any), as from that line of kernel.py (0: not
    // known).
    void on(const std::string& core) { place.core = core.empty() ? std::uint16_t{0} : program->core(core); }
    Model& line(int number) {
        place.line = number == 0 ? 0 : sources->add("/home/user/kernel.py", number);
        return *this;
    }
    // A tensor made on that line.
    Tensor made_on(int number, Tensor tensor) {
        tensor.storage()->line = sources->add("/home/user/kernel.py", number);
        return tensor;
    }

    std::uint32_t load(Tensor target, const Tensor& source, const LoadOptions& options = {}) {
        program->load(target, source, options, place);
        return last();
    }
    // An instruction whose cost the test chooses.
    std::uint32_t own(Pipe pipe, std::int64_t cycles, std::vector<Tensor> reads = {}, std::vector<Tensor> writes = {},
                      const std::string& name = "OWN", std::int64_t work = 0) {
        OwnInstruction own{name, pipe, Kind::computation, {}, {}, work, cycles};
        for (Tensor& one : reads) own.reads.push_back(&one);
        for (Tensor& one : writes) own.writes.push_back(&one);
        program->add_own(own, place);
        return last();
    }
    Tensor issue(const std::string& function, std::vector<Tensor*> operands, const Attributes& attributes = {}) {
        Call call;
        std::copy(operands.begin(), operands.end(), call.operands.begin());
        call.attributes = attributes;
        return program->issue(instruction(function), call, place);
    }
    void set_flag(const std::string& source, const std::string& target, std::int64_t id) {
        program->set_flag(source, target, id, place);
    }
    void wait_flag(const std::string& source, const std::string& target, std::int64_t id) {
        program->wait_flag(source, target, id, place);
    }
    void barrier(const std::string& pipe) { program->barrier(pipe, place); }

    std::uint32_t last() const { return static_cast<std::uint32_t>(program->size() - 1); }
    std::string pipe_of(std::uint32_t i) const { return program->pipes()[program->record(i).pipe].name; }
    std::string name_of(std::uint32_t i) const { return program->name(program->record(i)); }

    // Everything after this reads the finished program.
    Timeline schedule() {
        program->finish();
        return mskpp::schedule(program);
    }
    std::vector<std::int64_t> ends() {
        const Timeline timeline = schedule();
        std::vector<std::int64_t> out;
        for (std::size_t i = 0; i < program->size(); ++i) out.push_back(timeline.end(i));
        return out;
    }
    std::int64_t total() { return schedule().total_cycles(); }
    std::string deadlock() {
        program->finish();
        return error(ErrorKind::deadlock, [&] { mskpp::schedule(program); });
    }
    // Whom instruction i waits for; finishes the program, so that late ones are seen as well.
    std::set<std::uint32_t> waits(std::uint32_t i) {
        program->finish();
        std::set<std::uint32_t> out;
        program->each_dependency(i, [&](const Dependency& dependency) { out.insert(dependency.producer); });
        return out;
    }

    std::shared_ptr<SourceTable> sources;
    std::shared_ptr<Program> program;
    Place place;
};

using Set = std::set<std::uint32_t>;
using Ends = std::vector<std::int64_t>;

}  // namespace mskpp::test
