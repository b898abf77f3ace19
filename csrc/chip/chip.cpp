// SPDX-License-Identifier: Apache-2.0
#include "mskpp/chip.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/csv.h"
#include "base/text.h"
#include "chip/in_data.h"
#include "mskpp/error.h"

namespace mskpp {

namespace fs = std::filesystem;
using base::concat;

namespace {

constexpr int deepest_inheritance = 8;
constexpr std::string_view prefix = "Ascend";
const char* const table_names[] = {"mov", "mov_repeat", "mmad", "vec"};

bool is_chip_folder(const fs::path& folder) {
    std::error_code error;
    return fs::is_regular_file(folder / "chip.csv", error);
}

std::vector<fs::path> chip_folders(const fs::path& parent) {
    std::vector<fs::path> folders;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
        if (is_chip_folder(it->path())) folders.push_back(it->path());
    std::sort(folders.begin(), folders.end());
    return folders;
}

// "910B4", as npu-smi prints it, means "Ascend910B4".
bool means(std::string_view given, std::string_view name) {
    return base::equal_ignoring_case(given, name) ||
           (name.substr(0, prefix.size()) == prefix && base::equal_ignoring_case(given, name.substr(prefix.size())));
}

bool has_alias(const fs::path& folder, std::string_view given) {
    try {
        const base::Csv table(folder / "chip.csv", {"key", "value"});
        for (const auto& row : table.rows())
            if (table.text(row, "key") == "aliases")
                for (const std::string& alias : base::words(table.text(row, "value")))
                    if (means(given, alias)) return true;
    } catch (const Error&) {
        return false;  // whoever asks for that chip by its name is told; others are not kept from theirs
    }
    return false;
}

std::optional<fs::path> find_chip(const std::string& given, const std::vector<fs::path>& search_path) {
    for (const fs::path& parent : search_path)
        for (const fs::path& folder : chip_folders(parent))
            if (means(given, folder.filename().string())) return folder;
    for (const fs::path& parent : search_path)
        for (const fs::path& folder : chip_folders(parent))
            if (has_alias(folder, given)) return folder;
    return std::nullopt;
}

[[noreturn]] void unknown_chip(const std::string& given, const std::vector<std::string>& known) {
    constexpr std::size_t shown = 3, longest = 64;
    std::vector<std::string> first(known.begin(),
                                   known.begin() + static_cast<std::ptrdiff_t>(std::min(shown, known.size())));
    std::string list = base::join(first, ", ");
    if (known.size() > shown) list += concat(", ... (", known.size() - shown, " more)");
    throw Error(ErrorKind::value,
                concat("Chip: unknown chip '", given.substr(0, longest), "'", base::suggestion(given, known),
                       known.empty() ? " No chip folder was found." : " Known: " + list + ".",
                       " Add a folder: docs/add_a_chip.md"));
}

}  // namespace

std::string path_name(Memory source, Memory target) { return concat(mskpp::name(source), "_TO_", mskpp::name(target)); }

std::shared_ptr<const Chip> Chip::load(const std::string& name, const std::vector<fs::path>& search_path) {
    if (name.find('/') != std::string::npos || is_chip_folder(name)) {
        if (!is_chip_folder(name))
            throw Error(ErrorKind::value, concat("Chip: folder '", name.substr(0, 256),
                                                 "' has no chip.csv. How to write one: docs/add_a_chip.md"));
        return load_folder(fs::absolute(name).lexically_normal(), search_path, 0);
    }
    const auto folder = find_chip(name, search_path);
    if (!folder) unknown_chip(name, list(search_path));
    return load_folder(*folder, search_path, 0);
}

std::vector<std::string> Chip::list(const std::vector<fs::path>& search_path) {
    std::set<std::string> names;
    for (const fs::path& parent : search_path)
        for (const fs::path& folder : chip_folders(parent)) names.insert(folder.filename().string());
    return {names.begin(), names.end()};
}

std::shared_ptr<const Chip> Chip::load_folder(const fs::path& folder, const std::vector<fs::path>& search_path,
                                              int depth) {
    if (depth > deepest_inheritance)
        throw Error(ErrorKind::data,
                    concat("data: ", folder.filename().string(), "/chip.csv: the chain of base chips is longer than ",
                           deepest_inheritance, "; does it lead back to itself?"));
    std::shared_ptr<Chip> chip(new Chip());
    const fs::path clean = folder.has_filename() ? folder : folder.parent_path();
    chip->name_ = clean.filename().string();
    chip->folder_ = clean;
    chip->read_attributes(clean / "chip.csv");
    chip->load_bases(search_path, depth);
    chip->read_figures();
    if (chip->has_file("paths.csv")) {
        chip->read_paths(clean / "paths.csv");
    } else if (chip->base_) {
        chip->paths_ = chip->base_->paths_;
        chip->path_index_ = chip->base_->path_index_;
    } else {
        throw Error(ErrorKind::data, concat("data: chip ", chip->name_, " has neither a paths.csv nor a base chip"));
    }
    return chip;
}

void Chip::read_attributes(const fs::path& file) {
    const base::Csv table(file, {"key", "value"});
    for (const auto& row : table.rows())
        if (!attributes_.emplace(table.text(row, "key"), table.text(row, "value")).second)
            table.fail(row, concat("key '", table.text(row, "key"), "' stands here a second time"));
    static const std::vector<std::string> plain = {"architecture",
                                                   "base",
                                                   "base.mov",
                                                   "base.mov_repeat",
                                                   "base.mmad",
                                                   "base.vec",
                                                   "aliases",
                                                   "cube_cores",
                                                   "vector_cores",
                                                   "clock_mhz",
                                                   "gm_bytes",
                                                   "l2_bytes",
                                                   "ub_bytes",
                                                   "l1_bytes",
                                                   "l0a_bytes",
                                                   "l0b_bytes",
                                                   "l0c_bytes",
                                                   "bt_bytes",
                                                   "fb_bytes",
                                                   "cache_miss_slowdown",
                                                   "lost_instructions",
                                                   "ddr_bytes_per_cycle_per_cube_core",
                                                   "ddr_bytes_per_cycle_per_vector_core",
                                                   "l2_read_bytes_per_cycle_per_cube_core",
                                                   "l2_write_bytes_per_cycle_per_cube_core"};
    for (const auto& row : table.rows()) {
        const std::string& key = table.text(row, "key");
        const bool known = std::find(plain.begin(), plain.end(), key) != plain.end() ||
                           key.rfind("mmad_peak.", 0) == 0 || key.rfind("mmad_fractal_k.", 0) == 0;
        if (!known)
            table.fail(
                row, concat("unknown key '", key, "'", base::suggestion(key, plain), " docs/add_a_chip.md lists all"));
    }
}

void Chip::load_bases(const std::vector<fs::path>& search_path, int depth) {
    const auto load_base = [&](const std::string& key) -> std::shared_ptr<const Chip> {
        const auto found = attributes_.find(key);
        if (found == attributes_.end()) return nullptr;
        const auto folder = find_chip(found->second, search_path);
        if (!folder)
            throw Error(ErrorKind::data, concat("data: ", name_, "/chip.csv: ", key, " is '", found->second,
                                                "', which is no known chip"));
        return load_folder(*folder, search_path, depth + 1);
    };
    base_ = load_base("base");
    for (const char* table : table_names)
        if (auto base = load_base(concat("base.", table))) base_of_table_.emplace(table, std::move(base));
}

double Chip::figure(const std::string& key) const {
    const auto found = attributes_.find(key);
    if (found == attributes_.end()) return 0;
    const auto value = base::to_double(found->second);
    if (!value || *value < 0)
        throw Error(ErrorKind::data, concat("data: ", name_, "/chip.csv: ", key, " is '", found->second,
                                            "'; it must be a finite number of at least 0"));
    return *value;
}

double Chip::whole_figure(const std::string& key) const {
    const double value = figure(key);
    const double most = key.find("_bytes") != std::string::npos ? 9e15 : 1e6;
    if (value != std::floor(value) || value > most)
        throw Error(ErrorKind::data, concat("data: ", name_, "/chip.csv: ", key, " is '", attributes_.at(key),
                                            "'; it must be a whole number up to ", most));
    return value;
}

void Chip::read_figures() {
    if (base_) {
        architecture_ = base_->architecture_;
        clock_mhz_ = base_->clock_mhz_;
        cube_cores_ = base_->cube_cores_;
        vector_cores_ = base_->vector_cores_;
        cache_miss_slowdown_ = base_->cache_miss_slowdown_;
        mmad_peak_ = base_->mmad_peak_;
        mmad_fractal_k_ = base_->mmad_fractal_k_;
        lost_ = base_->lost_;
    }
    if (attributes_.count("architecture")) architecture_ = attributes_.at("architecture");
    if (attributes_.count("clock_mhz")) clock_mhz_ = figure("clock_mhz");
    if (attributes_.count("cube_cores")) cube_cores_ = static_cast<int>(whole_figure("cube_cores"));
    if (attributes_.count("vector_cores")) vector_cores_ = static_cast<int>(whole_figure("vector_cores"));
    if (attributes_.count("cache_miss_slowdown")) cache_miss_slowdown_ = figure("cache_miss_slowdown");
    if (attributes_.count("lost_instructions")) lost_ = base::words(attributes_.at("lost_instructions"));
    for (const auto& [key, value] : attributes_) {
        if (key.find("_bytes") != std::string::npos || key.find("_cores") != std::string::npos) whole_figure(key);
        const std::size_t dot = key.find('.');
        if (key.rfind("mmad_", 0) != 0 || dot == std::string::npos) continue;
        const auto dtype = static_cast<std::size_t>(in_data(
            [&] { return parse_dtype(std::string_view(key).substr(dot + 1), concat("data: ", name_, "/chip.csv")); }));
        if (key.rfind("mmad_peak.", 0) == 0) mmad_peak_[dtype] = figure(key);
        if (key.rfind("mmad_fractal_k.", 0) == 0) mmad_fractal_k_[dtype] = static_cast<int>(whole_figure(key));
    }
    if (!(clock_mhz_ >= 1 && clock_mhz_ <= 1e6) || !(cache_miss_slowdown_ >= 1))
        throw Error(ErrorKind::data,
                    concat("data: ", name_, "/chip.csv: clock_mhz is ", clock_mhz_, " and cache_miss_slowdown ",
                           cache_miss_slowdown_, "; they must be 1 to 1000000 and at least 1"));
}

void Chip::read_paths(const fs::path& file) {
    const base::Csv table(file, {"source", "target", "pipe", "port_bytes_per_cycle"});
    for (const auto& row : table.rows()) {
        const std::string where = concat("data: ", table.place(row));
        const Path path = in_data([&] {
            return Path{parse_memory(table.text(row, "source"), where), parse_memory(table.text(row, "target"), where),
                        parse_queue(table.text(row, "pipe"), where), table.number(row, "port_bytes_per_cycle")};
        });
        int& index = path_index_[static_cast<std::size_t>(path.source)][static_cast<std::size_t>(path.target)];
        if (index != 0)
            table.fail(row, concat("path ", path_name(path.source, path.target), " stands here a second time"));
        paths_.push_back(path);
        index = static_cast<int>(paths_.size());
    }
}

std::optional<std::int64_t> Chip::capacity_bytes(Memory memory) const {
    std::string key(mskpp::name(memory));
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    key += "_bytes";
    if (attributes_.count(key)) return static_cast<std::int64_t>(figure(key));
    return base_ ? base_->capacity_bytes(memory) : std::nullopt;
}

bool Chip::has_file(const std::string& file) const {
    std::error_code error;  // a link that leads nowhere counts: reading it says what is wrong
    return fs::exists(fs::symlink_status(folder_ / file, error));
}

bool Chip::lacks(std::string_view instruction) const {
    return std::find(lost_.begin(), lost_.end(), instruction) != lost_.end();
}

const std::shared_ptr<const Chip>& Chip::base_of(const std::string& table) const {
    const auto own = base_of_table_.find(table);
    return own != base_of_table_.end() ? own->second : base_;
}

}  // namespace mskpp
