// SPDX-License-Identifier: Apache-2.0
// Timeline -> live bytes of the local memories. A local memory never runs full in the model: every write makes a fresh
// version. What a program would really need is counted here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mskpp/schedule.h"

namespace mskpp {

// So many bytes from that cycle on, up to the next point.
struct MemoryPoint {
    std::int64_t cycle;
    std::int64_t bytes;

    bool operator==(const MemoryPoint& other) const { return cycle == other.cycle && bytes == other.bytes; }
};

// Versions of one tensor, or of tensors alike, that live at the same time.
struct LiveTensor {
    std::string text;  // "L1 tensor [64,64] FP16 (kernel.py:22)"
    std::int64_t bytes = 0;
    std::int64_t versions = 0;
};

// One memory of one core.
struct MemoryUse {
    static constexpr std::size_t most_points = 2000;
    static constexpr std::size_t most_listed = 3;

    std::uint16_t core;  // of Program::cores()
    Memory memory;
    std::int64_t peak_bytes = 0;
    std::int64_t peak_cycle = 0;                 // the first with that many
    std::optional<std::int64_t> capacity_bytes;  // nothing where the chip's data does not say
    // In time order, at most most_points: where there were more, the largest and the smallest of each stretch of time.
    std::vector<MemoryPoint> points;
    std::vector<LiveTensor> largest;  // at the peak, the largest first; of a memory that is exceeded only

    bool exceeded() const { return capacity_bytes && peak_bytes > *capacity_bytes; }
};

// The memories that something is written to, by core and memory; without GM.
//  - What one instruction writes into one tensor is a version. Its bytes are those of the view that is written, also
//    where only a part of the tensor is. It is in the memory of the core that writes it.
//  - It lives from the start of its write to the end of its last read; one that nobody reads, until its write ends.
//    Where one ends as another starts, they never live together.
//  - A computation that writes over what it reads, or takes over the accumulator it is handed (mmad's b in L0C), needs
//    no second place: as a read, it counts up to its start only.
//  - What a tensor holds from the start (is_inited, set_valid) is not written and does not count.
// O(n log n) for n instructions and dependencies; 8 bytes each of memory, and 16 per version that lives.
std::vector<MemoryUse> memory_use(const Timeline& timeline);

}  // namespace mskpp
