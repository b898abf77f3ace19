// SPDX-License-Identifier: Apache-2.0
#include "mskpp/cost.h"

#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/curve.h"
#include "base/text.h"
#include "chip/in_data.h"
#include "mskpp/error.h"

namespace mskpp {

namespace fs = std::filesystem;
using base::concat;
using base::Curve;

namespace {

constexpr double gib = 1073741824.0;
constexpr std::int64_t repeat_unit_bytes = 512;  // what one repeat of L1->L0A/L0B and GM->L0A/L0B moves
constexpr int cube_tile = 16;                    // m and n of one fractal, on every architecture

constexpr std::string_view origin_names[] = {"measured",    "interpolated", "below_table", "beyond_table",
                                             "theoretical", "inherited",    "user"};

Origin origin_of(Curve::Position position) {
    switch (position) {
        case Curve::Position::on_point:
            return Origin::measured;
        case Curve::Position::between:
            return Origin::interpolated;
        case Curve::Position::below:
            return Origin::below_table;
        case Curve::Position::beyond:
            return Origin::beyond_table;
    }
    return Origin::interpolated;
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

std::string rate_key(std::string_view instruction, std::string_view dtypes) { return concat(instruction, " ", dtypes); }

// A point whose rate falls below a quarter of what smaller work reached is a failed measurement, not the machine.
void add_point(const base::Csv& table, const base::Csv::Row& row, Curve& curve, double size, double rate) {
    if (rate < curve.largest_y() / 4)
        table.fail(row, concat("rate ", rate, " is below a quarter of ", curve.largest_y(),
                               ", the best rate at smaller sizes; such a point is a failed measurement, remove it"));
    if (!curve.add(size, rate))
        table.fail(row, concat("size ", size, " does not follow a smaller one; sizes must grow"));
}

// "VADD FP16 FP16 FP16", whatever the spelling.
std::string parse_rate_key(const base::Csv& table, const base::Csv::Row& row) {
    std::string key = base::upper(table.text(row, "instruction"));
    const std::vector<std::string> dtypes = base::words(table.text(row, "dtypes"));
    if (key.empty() || dtypes.empty()) table.fail(row, "names no instruction or no dtypes");
    for (const std::string& dtype : dtypes)
        key +=
            concat(" ", mskpp::name(in_data([&] { return parse_dtype(dtype, concat("data: ", table.place(row))); })));
    return key;
}

}  // namespace

struct RateTable {
    Curve curve;
    double per_cycle = 1;    // from the table's unit to bytes (MAC) per cycle of the chip it was measured on
    double cycle_scale = 1;  // from that chip's cycles to this one's
    bool inherited = false;
};

struct Costs::PathTables {
    std::unique_ptr<RateTable> by_size, by_size_transformed, by_repeat;
};

std::string_view name(Origin origin) { return origin_names[static_cast<std::size_t>(origin)]; }

std::int64_t whole_cycles(double cycles) {
    constexpr double most = 4611686018427387904.0;  // 2^62: sums of two still fit
    if (!(cycles >= 0) || cycles > most)
        throw Error(ErrorKind::overflow, concat("cost: ", cycles, " cycles; allowed are 0 to 2^62"));
    return static_cast<std::int64_t>(std::ceil(cycles - 1e-9));
}

Costs::Costs(std::shared_ptr<const Chip> chip) : chip_(std::move(chip)) {
    for (int i = 0; i < memory_count * memory_count; ++i) paths_.push_back(std::make_unique<PathTables>());
    for (const char* table : {"mov", "mov_repeat", "mmad", "vec"}) {
        bool inherited = false;
        for (const Chip* from = chip_.get(); from != nullptr; from = from->base_of(table).get()) {
            read_table(*from, table, chip_->clock_mhz() / from->clock_mhz(), inherited);
            inherited = true;
        }
    }
}

Costs::~Costs() = default;

// Paths that touch GM keep their time, so their cycles go with the clock; the rest keeps its cycles.
void Costs::read_table(const Chip& chip, const std::string& table, double scale, bool inherited) {
    const std::string file = table + ".csv";
    if (!chip.has_file(file)) return;
    if (table == "mov") read_moves(chip, "bytes", false, scale, inherited);
    if (table == "mov_repeat") read_moves(chip, "repeat", true, scale, inherited);
    if (table == "mmad") read_rates(chip, "mmad.csv", "mac", "mac_per_cycle", inherited);
    if (table == "vec") {
        read_rates(chip, "vec.csv", "elements", "bytes_per_cycle", inherited);
        vector_inherited_ = vector_inherited_ || (inherited && !chip_->has_file(file));
    }
}

void Costs::read_moves(const Chip& chip, const char* size_column, bool repeat, double gm_scale, bool inherited) {
    constexpr std::string_view transformed_suffix = "_TRANS";
    const base::Csv table(chip.folder() / (repeat ? "mov_repeat.csv" : "mov.csv"), {"path", size_column, "gib_per_s"});
    std::unordered_map<std::string, std::unique_ptr<RateTable>> read;
    for (const auto& row : table.rows()) {
        auto& rates = read[table.text(row, "path")];
        if (!rates) rates = std::make_unique<RateTable>();
        add_point(table, row, rates->curve, table.number(row, size_column), table.number(row, "gib_per_s"));
    }
    for (auto& [key, rates] : read) {
        std::string path = key;
        const bool transformed =
            path.size() > transformed_suffix.size() &&
            path.compare(path.size() - transformed_suffix.size(), transformed_suffix.size(), transformed_suffix) == 0;
        if (transformed) path.resize(path.size() - transformed_suffix.size());
        const std::size_t arrow = path.find("_TO_");
        const std::string where = concat("data: ", chip.name(), ": path '", key, "'");
        if (arrow == std::string::npos) throw Error(ErrorKind::data, where + " is not written SOURCE_TO_TARGET");
        const Memory source = in_data([&] { return parse_memory(std::string_view(path).substr(0, arrow), where); });
        const Memory target = in_data([&] { return parse_memory(std::string_view(path).substr(arrow + 4), where); });
        if (chip_->path(source, target) == nullptr) continue;  // the base chip's, which this one lost
        const bool touches_gm = source == Memory::GM || target == Memory::GM;
        rates->per_cycle = gib / (chip.clock_mhz() * 1e6);
        rates->cycle_scale = touches_gm ? gm_scale : 1.0;
        rates->inherited = inherited;
        PathTables& tables =
            *paths_[static_cast<std::size_t>(source) * memory_count + static_cast<std::size_t>(target)];
        auto& place = repeat ? tables.by_repeat : transformed ? tables.by_size_transformed : tables.by_size;
        if (!place) place = std::move(rates);
    }
}

void Costs::read_rates(const Chip& chip, const char* file, const char* size_column, const char* rate_column,
                       bool inherited) {
    const base::Csv table(chip.folder() / file, {"instruction", "dtypes", size_column, rate_column});
    std::unordered_map<std::string, std::unique_ptr<RateTable>> read;
    std::string instruction, dtypes;  // as the rows spell them; one table has many rows
    RateTable* rates = nullptr;
    for (const auto& row : table.rows()) {
        if (instruction != table.text(row, "instruction") || dtypes != table.text(row, "dtypes")) {
            instruction = table.text(row, "instruction");
            dtypes = table.text(row, "dtypes");
            const std::string key = parse_rate_key(table, row);
            const bool lost = inherited && chip_->lacks(key.substr(0, key.find(' ')));
            auto& found = read[key];
            if (!found && !lost) found = std::make_unique<RateTable>();
            rates = found.get();
            if (rates != nullptr) rates->inherited = inherited;
        }
        if (rates != nullptr)
            add_point(table, row, rates->curve, table.number(row, size_column), table.number(row, rate_column));
    }
    for (auto& [key, found] : read)
        if (found) rates_.emplace(key, std::move(found));
}

const Costs::PathTables& Costs::tables(const Path& path) const {
    return *paths_[static_cast<std::size_t>(path.source) * memory_count + static_cast<std::size_t>(path.target)];
}

Cost Costs::move(const Path& path, std::int64_t bytes, bool transform, std::int64_t repeat, double hit_ratio) const {
    const PathTables& curves = tables(path);
    // Where a change of format was not measured on its own, the move still takes what it takes without.
    const bool own = transform && curves.by_size_transformed;
    const RateTable* by_size = own ? curves.by_size_transformed.get() : curves.by_size.get();
    const RateTable* rates = by_size;
    double work = static_cast<double>(bytes);
    Curve::Reading reading{work, path.port_bytes_per_cycle, Curve::Position::on_point};
    if (curves.by_repeat && !transform && (repeat > 1 || by_size == nullptr)) {
        rates = curves.by_repeat.get();
        const std::int64_t units = round_up(bytes, repeat_unit_bytes) / repeat_unit_bytes;
        reading = rates->curve.at(static_cast<double>(std::max(repeat, units)));
        work = static_cast<double>(std::max(bytes, repeat_unit_bytes));
    } else if (rates != nullptr) {
        reading = rates->curve.at(work);
        work = reading.x;
    }
    double bandwidth = rates != nullptr ? reading.y * rates->per_cycle : reading.y;
    if (uses_cache(path)) bandwidth *= hit_ratio + (1 - hit_ratio) / chip_->cache_miss_slowdown();
    const double cycles = work / bandwidth * (rates != nullptr ? rates->cycle_scale : 1.0);
    Origin origin = rates == nullptr   ? Origin::theoretical
                    : rates->inherited ? Origin::inherited
                                       : origin_of(reading.position);
    if (transform && !own && origin == Origin::measured) origin = Origin::interpolated;
    return {whole_cycles(cycles), origin};
}

Cost Costs::mmad(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n) const {
    const double peak = chip_->mmad_peak(dtype), reference_peak = chip_->mmad_peak(DType::FP16);
    const int fractal_k = chip_->mmad_fractal_k(dtype);
    const auto found = rates_.find(rate_key("MMAD", "FP16 FP16 FP32"));
    if (peak <= 0 || fractal_k <= 0 || reference_peak <= 0 || found == rates_.end()) {
        std::vector<std::string> taken;
        for (int i = 1; i < 16; ++i)
            if (chip_->mmad_peak(static_cast<DType>(i)) > 0) taken.emplace_back(mskpp::name(static_cast<DType>(i)));
        throw Error(ErrorKind::type, concat("mmad: the cube of ", chip_->name(), " does not take ", mskpp::name(dtype),
                                            "; it takes ", base::join(taken, ", ")));
    }
    const double mac = static_cast<double>(round_up(m, cube_tile)) * static_cast<double>(round_up(n, cube_tile)) *
                       static_cast<double>(round_up(k, fractal_k));
    const auto reading = found->second->curve.at(mac * reference_peak / peak);
    const double rate = reading.position == Curve::Position::beyond ? reference_peak : reading.y;
    Origin origin = origin_of(reading.position);
    if (dtype != DType::FP16 && origin == Origin::measured) origin = Origin::interpolated;
    return {whole_cycles(reading.x / rate), found->second->inherited ? Origin::inherited : origin};
}

const RateTable* Costs::find_vector(std::string_view instruction, std::string_view dtypes) const {
    const auto found = rates_.find(rate_key(instruction, dtypes));
    return found == rates_.end() ? nullptr : found->second.get();
}

std::vector<std::string> Costs::vector_dtypes(std::string_view instruction) const {
    std::vector<std::string> out;
    const std::string start = concat(instruction, " ");
    for (const auto& [key, rates] : rates_)
        if (key.rfind(start, 0) == 0) out.push_back(key.substr(start.size()));
    std::sort(out.begin(), out.end());
    return out;
}

std::vector<std::string> Costs::vector_instructions() const {
    std::vector<std::string> out;
    for (const auto& [key, rates] : rates_) out.push_back(key.substr(0, key.find(' ')));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

Cost Costs::vector(const RateTable& table, DType dtype, std::int64_t elements) const {
    const double work = static_cast<double>(elements);
    const auto reading = table.curve.at(work);
    const double rate = work >= table.curve.last_x() ? table.curve.largest_y() : reading.y;
    const double cycles = bits(dtype) / 8.0 * reading.x / rate;
    return {whole_cycles(cycles), table.inherited ? Origin::inherited : origin_of(reading.position)};
}

Cost Costs::fixed(double cycles) const {
    return {whole_cycles(cycles), vector_inherited_ ? Origin::inherited : Origin::measured};
}

std::optional<double> Costs::move_rate(Memory source, Memory target, std::int64_t bytes, bool transform) const {
    const Path* path = chip_->path(source, target);
    if (path == nullptr) return std::nullopt;
    const PathTables& curves = tables(*path);
    const RateTable* rates = transform ? curves.by_size_transformed.get() : curves.by_size.get();
    if (rates == nullptr) return std::nullopt;
    return rates->curve.at(static_cast<double>(bytes)).y * rates->per_cycle / rates->cycle_scale;
}

std::optional<double> Costs::move_repeat_rate(Memory source, Memory target, std::int64_t repeat) const {
    const Path* path = chip_->path(source, target);
    if (path == nullptr || !tables(*path).by_repeat) return std::nullopt;
    const RateTable& rates = *tables(*path).by_repeat;
    return rates.curve.at(static_cast<double>(repeat)).y * rates.per_cycle / rates.cycle_scale;
}

double Costs::move_peak(const Path& path) const {
    const PathTables& curves = tables(path);
    double best = curves.by_size ? 0 : path.port_bytes_per_cycle;
    for (const auto* rates : {curves.by_size.get(), curves.by_size_transformed.get(), curves.by_repeat.get()})
        if (rates != nullptr) best = std::max(best, rates->curve.largest_y() * rates->per_cycle / rates->cycle_scale);
    return best;
}

std::optional<double> Costs::vector_peak(std::string_view instruction, DType dtype) const {
    std::optional<double> best;
    const std::string_view wanted = mskpp::name(dtype);
    for (const std::string& dtypes : vector_dtypes(instruction)) {
        const std::vector<std::string> words = base::words(dtypes);
        if (std::find(words.begin(), words.end(), wanted) == words.end()) continue;
        const double rate = find_vector(instruction, dtypes)->curve.largest_y();
        best = std::max(best.value_or(0), rate);
    }
    return best;
}

std::optional<double> Costs::mmad_rate(DType dtype, std::int64_t granularity) const {
    const double peak = chip_->mmad_peak(dtype), reference_peak = chip_->mmad_peak(DType::FP16);
    const auto found = rates_.find(rate_key("MMAD", "FP16 FP16 FP32"));
    if (peak <= 0 || reference_peak <= 0 || found == rates_.end()) return std::nullopt;
    const auto reading = found->second->curve.at(static_cast<double>(granularity) * reference_peak / peak);
    const double rate = reading.position == Curve::Position::beyond ? reference_peak : reading.y;
    return rate * peak / reference_peak;
}

std::optional<double> Costs::vector_rate(std::string_view instruction, std::string_view dtypes,
                                         std::int64_t elements) const {
    const RateTable* table = find_vector(instruction, dtypes);
    if (table == nullptr) return std::nullopt;
    const double work = static_cast<double>(elements);
    return work >= table->curve.last_x() ? table->curve.largest_y() : table->curve.at(work).y;
}

}  // namespace mskpp
