// SPDX-License-Identifier: Apache-2.0
// Cost of one instruction in cycles, from measured tables. docs/how_it_works.md gives every formula.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mskpp/chip.h"
#include "mskpp/types.h"

namespace mskpp {

// Where a cost comes from. `inherited` covers every cost read from a base chip's table, wherever in the table it lay.
enum class Origin : std::uint8_t {
    measured,      // exactly at a measured point
    interpolated,  // between two measured points, or scaled from the dtype that was measured
    below_table,   // less work than the smallest measured point: costs what that point costs
    beyond_table,  // more work than the largest measured point
    theoretical,   // the width of the port, or one cycle per register
    inherited,
    user,
};
inline constexpr int origin_count = 7;
std::string_view name(Origin origin);

struct Cost {
    std::int64_t cycles = 0;
    Origin origin = Origin::user;
};

// Whole cycles of a computed number of cycles: ceil(v - 1e-9). Error (overflow) above 2^62.
std::int64_t whole_cycles(double cycles);

// Whether the cache hit ratio changes what a move over the path costs: GM->L1 and anything->GM.
inline bool uses_cache(const Path& path) {
    return path.target == Memory::GM || (path.source == Memory::GM && path.target == Memory::L1);
}

// A table of rates for one path or for one instruction and its dtypes.
struct RateTable;

// The cost tables of one chip, its own and the inherited ones. Immutable; any thread.
class Costs {
  public:
    // Reads mov.csv, mov_repeat.csv, mmad.csv and vec.csv of the chip's folder and of its base chips.
    // Error (data) naming file and line when a point cannot be right: sizes must grow, and a rate may not fall below a
    // quarter of the best rate at smaller sizes (the signature of a failed measurement).
    explicit Costs(std::shared_ptr<const Chip> chip);
    ~Costs();
    Costs(const Costs&) = delete;
    Costs& operator=(const Costs&) = delete;

    const Chip& chip() const { return *chip_; }

    // A move of `bytes` >= 1 over the path. `transform`: the format changes on the way. `hit_ratio` in 0..1 slows
    // paths that use the cache to h + (1-h)/cache_miss_slowdown of the bandwidth.
    Cost move(const Path& path, std::int64_t bytes, bool transform, std::int64_t repeat, double hit_ratio) const;

    // A matrix product of m*k times k*n elements of the dtype. Error (type) when the chip's cube does not take it.
    Cost mmad(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n) const;

    // The table of a vector instruction ("VADD", "FP16 FP16 FP16"), or null.
    const RateTable* find_vector(std::string_view instruction, std::string_view dtypes) const;
    // Dtype combinations that have a table, sorted.
    std::vector<std::string> vector_dtypes(std::string_view instruction) const;
    std::vector<std::string> vector_instructions() const;
    // `elements` of work of an instruction whose rate is in the table; the rate counts elements of `dtype`.
    Cost vector(const RateTable& table, DType dtype, std::int64_t elements) const;
    // A cost that is the same whatever the work, measured on the chip whose vector table this one uses.
    Cost fixed(double cycles) const;

    // Rates for the user: bytes (mmad: MAC) per cycle of this chip, nothing where there is no figure.
    std::optional<double> move_rate(Memory source, Memory target, std::int64_t bytes, bool transform) const;
    std::optional<double> move_repeat_rate(Memory source, Memory target, std::int64_t repeat) const;
    std::optional<double> mmad_rate(DType dtype, std::int64_t granularity) const;
    std::optional<double> vector_rate(std::string_view instruction, std::string_view dtypes,
                                      std::int64_t elements) const;

    // The best rates there are: bytes per cycle over the path, whatever the size, repeat count and format, with every
    // access hitting the cache ...
    double move_peak(const Path& path) const;
    // ... and, of a vector instruction on elements of the dtype, whatever the other dtypes; nothing without a table.
    std::optional<double> vector_peak(std::string_view instruction, DType dtype) const;

  private:
    struct PathTables;
    void read_moves(const Chip& chip, const char* size_column, bool repeat, double gm_scale, bool inherited);
    void read_table(const Chip& chip, const std::string& table, double scale, bool inherited);
    void read_rates(const Chip& chip, const char* file, const char* size_column, const char* rate_column,
                    bool inherited);
    const PathTables& tables(const Path& path) const;

    std::shared_ptr<const Chip> chip_;
    std::vector<std::unique_ptr<PathTables>> paths_;
    std::unordered_map<std::string, std::unique_ptr<RateTable>> rates_;  // "VADD FP16 FP16 FP16"
    bool vector_inherited_ = false;
};

}  // namespace mskpp
