// SPDX-License-Identifier: Apache-2.0
// A vector that grows by whole chunks: no element moves, and growing never holds two copies, so the peak is the size.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace mskpp {

template <typename T>
class ChunkedVector {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    static constexpr std::size_t chunk_bits = 14;
    static constexpr std::size_t chunk_size = std::size_t{1} << chunk_bits;

    ChunkedVector() = default;
    ChunkedVector(ChunkedVector&&) = default;
    ChunkedVector& operator=(ChunkedVector&&) = default;

    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return chunks_[i >> chunk_bits][i & (chunk_size - 1)]; }
    const T& operator[](std::size_t i) const { return chunks_[i >> chunk_bits][i & (chunk_size - 1)]; }
    T& back() { return (*this)[size_ - 1]; }

    void push_back(const T& value) {
        if ((size_ & (chunk_size - 1)) == 0 && (size_ >> chunk_bits) == chunks_.size())
            chunks_.push_back(std::make_unique_for_overwrite<T[]>(chunk_size));
        (*this)[size_++] = value;
    }

    void assign(std::size_t count, const T& value) {
        size_ = 0;
        for (std::size_t i = 0; i < count; ++i) push_back(value);
    }

private:
    std::vector<std::unique_ptr<T[]>> chunks_;
    std::size_t size_ = 0;
};

}  // namespace mskpp
