// SPDX-License-Identifier: Apache-2.0
// Boxes with a value each, found by overlap. Tiles of one tensor are many and alike, so a grid of the first tile's size
// finds them in constant time; the few boxes that span many cells are looked through one by one.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "mskpp/tensor.h"

namespace mskpp {

bool overlap(const Box& a, const Box& b);
bool contains(const Box& outer, const Box& inner);

// Appends what is left of `from` without `taken`: at most two boxes an axis, none overlapping.
void subtract(const Box& from, const Box& taken, std::vector<Box>& out);

// Invariants: entries keep the order they were added in; a removed entry is never found again; the number of an entry
// holds until the next add().
class BoxMap {
  public:
    struct Entry {
        Box box;
        std::uint32_t value;
        bool removed = false;
    };

    void add(const Box& box, std::uint32_t value);
    // Numbers of the live entries that overlap the box, in the order they were added.
    void find(const Box& box, std::vector<std::uint32_t>& out) const;
    const Entry& entry(std::uint32_t number) const { return entries_[number]; }
    void remove(std::uint32_t number);
    bool empty() const { return live_ == 0; }
    void clear();
    template <typename Visit>
    void each(Visit visit) const {
        for (const Entry& entry : entries_)
            if (!entry.removed) visit(entry);
    }

  private:
    static constexpr std::size_t linear_entries = 24;  // below this, looking at all is fastest
    static constexpr std::int64_t most_cells = 64;     // a box over more cells goes to `wide_`

    bool cells(const Box& box, std::vector<std::uint64_t>& out) const;  // false when there are too many
    void index(std::uint32_t number);
    void rebuild();

    std::vector<Entry> entries_;
    std::size_t live_ = 0;
    Box cell_;  // extents in `end`
    bool indexed_ = false;
    std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> grid_;
    std::vector<std::uint32_t> wide_;
};

}  // namespace mskpp
