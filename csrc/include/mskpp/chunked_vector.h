// SPDX-License-Identifier: Apache-2.0
// A vector that grows by whole chunks: no element moves, and growing never holds two copies, so the peak is the size.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mskpp {

template <typename T>
class ChunkedVector {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;  // of a huge page
    static constexpr std::size_t chunk_bits = std::bit_width(chunk_bytes / sizeof(T)) - 1;
    static constexpr std::size_t chunk_size = std::size_t{1} << chunk_bits;

    ChunkedVector() = default;
    ChunkedVector(ChunkedVector&&) = default;
    ChunkedVector& operator=(ChunkedVector&&) = default;

    std::size_t size() const { return (chunks_.size() << chunk_bits) - room(); }
    T& operator[](std::size_t i) { return chunks_[i >> chunk_bits].get()[i & (chunk_size - 1)]; }
    const T& operator[](std::size_t i) const { return chunks_[i >> chunk_bits].get()[i & (chunk_size - 1)]; }

    void push_back(const T& value) {
        if (next_ == end_) grow();
        *next_++ = value;
    }

    // `count` elements of the value in place of what there was.
    void assign(std::size_t count, const T& value) {
        *this = ChunkedVector();
        while (count > 0) {
            grow();
            const std::size_t here = std::min(room(), count);
            next_ = std::fill_n(next_, here, value);
            count -= here;
        }
    }

  private:
    struct Free {
        void operator()(T* chunk) const { std::free(chunk); }
    };

    std::size_t room() const { return static_cast<std::size_t>(end_ - next_); }

    // A page is only used once it is touched, so a small vector costs little. From the second chunk on, huge pages save
    // most of the page faults.
    void grow() {
        const bool huge = !chunks_.empty();
        void* chunk = huge ? std::aligned_alloc(chunk_bytes, chunk_bytes) : std::malloc(chunk_size * sizeof(T));
        if (chunk == nullptr) throw std::bad_alloc();
        chunks_.emplace_back(static_cast<T*>(chunk));
#ifdef __linux__
        if (huge) (void)::madvise(chunk, chunk_bytes, MADV_HUGEPAGE);  // a hint; refused, all goes on as before
#endif
        next_ = chunks_.back().get();
        end_ = next_ + chunk_size;
    }

    std::vector<std::unique_ptr<T[], Free>> chunks_;
    T* next_ = nullptr;  // up to end_, what is free of the last chunk
    T* end_ = nullptr;
};

}  // namespace mskpp
