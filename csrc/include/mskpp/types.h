// SPDX-License-Identifier: Apache-2.0
// The small enumerations every other header speaks in. Strings are parsed here, once, and never compared again.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mskpp {

// Storage of a core (or, GM, of the chip). VEC stands for the vector registers of architecture 3510.
enum class Memory : std::uint8_t { GM, L1, L0A, L0B, L0C, UB, BT, FB, VEC };
inline constexpr int memory_count = 9;

enum class DType : std::uint8_t {
    unset,
    BOOL,
    UINT1,
    UINT2,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    FP16,
    BF16,
    FP32
};

enum class Format : std::uint8_t { unset, ND, NZ, NCHW, NHWC, NC1HWC0, FRACTAL };

// An in-order queue of a core. The last four name groups: the two load slots, the two execute slots, all register slots
// (as flags name them), all pipes of a core (as pipe_barrier names them).
enum class Pipe : std::uint8_t {
    MTE1,
    MTE2,
    MTE3,
    FIX,
    M,
    V,
    S,
    RVECLD0,
    RVECLD1,
    RVECEX0,
    RVECEX1,
    RVECST,  // queues
    RVECLD,
    RVECEX,
    VEC,
    ALL,  // groups
};
inline constexpr int queue_count = 12;

inline bool is_register_pipe(Pipe pipe) { return pipe >= Pipe::RVECLD0 && pipe <= Pipe::RVECEX; }

// Spellings are forgiving (case, "float16", "half", "FRACTAL_NZ"); what is not known is an Error of kind value
// that starts with `where`, lists what is allowed and names the nearest match.
Memory parse_memory(std::string_view text, std::string_view where);
DType parse_dtype(std::string_view text, std::string_view where);
Format parse_format(std::string_view text, std::string_view where);
Pipe parse_pipe(std::string_view text, std::string_view where);
// As parse_pipe(), for where an instruction runs: a queue, or RVECLD or RVECEX, whose slots take turns.
Pipe parse_queue(std::string_view text, std::string_view where);

std::string_view name(Memory memory);
std::string_view name(DType dtype);
std::string_view name(Format format);
std::string_view name(Pipe pipe);  // "PIPE-MTE1", "RVECLD0"

// Width of one element in bits: 1 for UINT1 up to 64 for INT64; 0 for unset.
inline int bits(DType dtype) {
    constexpr std::uint8_t width[] = {0, 8, 1,  2,  8,  16, 32, 64,
                                      4, 8, 16, 32, 64, 16, 16, 32};  // in the order of DType
    return width[static_cast<std::size_t>(dtype)];
}

// Extents per axis, outermost first. At most max_rank axes and 2^31-1 elements.
class Shape {
  public:
    static constexpr int max_rank = 8;
    static constexpr std::int64_t max_elements = 2147483647;

    Shape() = default;
    Shape(std::initializer_list<std::int64_t> extents) {
        for (const std::int64_t extent : extents) push_back(extent);
    }

    // Adds an innermost axis; Error (value) when the extent is not in 1..2^31-1 or a limit is passed.
    void push_back(std::int64_t extent, std::string_view where = "shape") {
        if (rank_ == max_rank || extent < 1 || extent > max_elements || std::int64_t{elements_} * extent > max_elements)
            refuse(extent, where);
        extent_[static_cast<std::size_t>(rank_++)] = static_cast<std::int32_t>(extent);
        elements_ *= static_cast<std::int32_t>(extent);
    }
    void pop_back() {
        std::int32_t& last = extent_[static_cast<std::size_t>(--rank_)];
        elements_ /= last;
        last = 1;
    }
    void replace_last(std::int64_t extent, std::string_view where);

    int rank() const { return rank_; }
    std::int32_t operator[](int axis) const { return extent_[static_cast<std::size_t>(axis)]; }
    std::int64_t elements() const { return elements_; }
    bool operator==(const Shape& other) const {
        if (rank_ != other.rank_ || elements_ != other.elements_) return false;
        for (std::size_t i = 0; i < static_cast<std::size_t>(rank_); ++i)
            if (extent_[i] != other.extent_[i]) return false;
        return true;
    }
    std::string text() const;  // "[32,48]"

  private:
    [[noreturn]] void refuse(std::int64_t extent, std::string_view where) const;

    std::array<std::int32_t, max_rank> extent_{1, 1, 1, 1, 1, 1, 1, 1};
    std::int32_t rank_ = 0;
    std::int32_t elements_ = 1;
};

// Bytes of that many elements, the whole rounded up (three INT4 are two bytes).
inline std::int64_t size_bytes(DType dtype, std::int64_t elements) { return (elements * bits(dtype) + 7) / 8; }

}  // namespace mskpp
