// SPDX-License-Identifier: Apache-2.0
// A chip: a folder of data (docs/add_a_chip.md). Nothing in code lists the chips.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mskpp/types.h"

namespace mskpp {

// A legal move, the pipe that serves it and the width of its port in bytes per cycle.
struct Path {
    Memory source;
    Memory target;
    Pipe pipe;
    double port_bytes_per_cycle;
};

// "GM_TO_UB", as the tables spell a path.
std::string path_name(Memory source, Memory target);

// Immutable once loaded; shared by everything that uses it, from any thread.
class Chip {
  public:
    // The chip called `name` (case ignored; aliases and names without "Ascend" are accepted) in one of the folders, the
    // first that has it; or, when `name` is a path of a folder with a chip.csv, that one. Error (value) with the known
    // names when there is none, (data) naming file and line when a table is wrong.
    static std::shared_ptr<const Chip> load(const std::string& name,
                                            const std::vector<std::filesystem::path>& search_path);

    // Names of all chips in the folders, sorted, each once.
    static std::vector<std::string> list(const std::vector<std::filesystem::path>& search_path);

    const std::string& name() const { return name_; }
    const std::filesystem::path& folder() const { return folder_; }
    bool has_file(const std::string& file) const;  // in its own folder
    const std::string& architecture() const { return architecture_; }
    double clock_mhz() const { return clock_mhz_; }
    int cube_cores() const { return cube_cores_; }
    int vector_cores() const { return vector_cores_; }

    // Bytes of a memory of one core (GM: of the chip); nothing where the folder does not say.
    std::optional<std::int64_t> capacity_bytes(Memory memory) const;

    // Null when there is no such path.
    const Path* path(Memory source, Memory target) const {
        const int index = path_index_[static_cast<std::size_t>(source)][static_cast<std::size_t>(target)];
        return index == 0 ? nullptr : &paths_[static_cast<std::size_t>(index - 1)];
    }
    const std::vector<Path>& paths() const { return paths_; }

    // The matrix unit: peak in MAC per cycle and the k of one fractal; 0 for a dtype it does not take.
    double mmad_peak(DType dtype) const { return mmad_peak_[static_cast<std::size_t>(dtype)]; }
    int mmad_fractal_k(DType dtype) const { return mmad_fractal_k_[static_cast<std::size_t>(dtype)]; }

    // How many times slower GM answers when the L2 cache misses.
    double cache_miss_slowdown() const { return cache_miss_slowdown_; }

    // Instructions of the base chip that this one does not have.
    bool lacks(std::string_view instruction) const;

    // The chip that provides what this one's own table ("mov", "mov_repeat", "mmad", "vec") lacks; null when none does.
    const std::shared_ptr<const Chip>& base_of(const std::string& table) const;

    // Every key of chip.csv as written.
    const std::unordered_map<std::string, std::string>& attributes() const { return attributes_; }

  private:
    Chip() = default;
    static std::shared_ptr<const Chip> load_folder(const std::filesystem::path& folder,
                                                   const std::vector<std::filesystem::path>& search_path, int depth);
    void read_attributes(const std::filesystem::path& file);
    void read_paths(const std::filesystem::path& file);
    void load_bases(const std::vector<std::filesystem::path>& search_path, int depth);
    void read_figures();
    double figure(const std::string& key) const;
    double whole_figure(const std::string& key) const;

    std::string name_, architecture_;
    std::filesystem::path folder_;
    double clock_mhz_ = 0, cache_miss_slowdown_ = 1;
    int cube_cores_ = 0, vector_cores_ = 0;
    std::unordered_map<std::string, std::string> attributes_;
    std::vector<Path> paths_;
    std::array<std::array<int, memory_count>, memory_count> path_index_{};
    std::array<double, 16> mmad_peak_{};
    std::array<int, 16> mmad_fractal_k_{};
    std::vector<std::string> lost_;
    std::shared_ptr<const Chip> base_;                                            // of all tables ...
    std::unordered_map<std::string, std::shared_ptr<const Chip>> base_of_table_;  // ... and of single ones
};

}  // namespace mskpp
