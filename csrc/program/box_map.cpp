// SPDX-License-Identifier: Apache-2.0
#include "program/box_map.h"

#include <algorithm>

namespace mskpp {

bool overlap(const Box& a, const Box& b) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.rank); ++i)
        if (a.begin[i] >= b.end[i] || b.begin[i] >= a.end[i]) return false;
    return true;
}

bool contains(const Box& outer, const Box& inner) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(outer.rank); ++i)
        if (inner.begin[i] < outer.begin[i] || inner.end[i] > outer.end[i]) return false;
    return true;
}

void subtract(const Box& from, const Box& taken, std::vector<Box>& out) {
    if (!overlap(from, taken)) {
        out.push_back(from);
        return;
    }
    Box rest = from;
    for (std::size_t i = 0; i < static_cast<std::size_t>(from.rank); ++i) {
        if (rest.begin[i] < taken.begin[i]) {
            out.push_back(rest);
            out.back().end[i] = taken.begin[i];
            rest.begin[i] = taken.begin[i];
        }
        if (rest.end[i] > taken.end[i]) {
            out.push_back(rest);
            out.back().begin[i] = taken.end[i];
            rest.end[i] = taken.end[i];
        }
    }
}

void BoxMap::add(const Box& box, std::uint32_t value) {
    if (entries_.size() > linear_entries && live_ < entries_.size() / 2) rebuild();
    entries_.push_back({box, value, false});
    ++live_;
    if (indexed_)
        index(static_cast<std::uint32_t>(entries_.size() - 1));
    else if (entries_.size() > linear_entries)
        rebuild();
}

void BoxMap::remove(std::uint32_t number) {
    entries_[number].removed = true;
    --live_;
}

void BoxMap::clear() { *this = BoxMap(); }

bool BoxMap::cells(const Box& box, std::vector<std::uint64_t>& out) const {
    std::int64_t count = 1;
    Box span;
    for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i) {
        span.begin[i] = box.begin[i] / cell_.end[i];
        span.end[i] = (box.end[i] - 1) / cell_.end[i] + 1;
        count *= span.end[i] - span.begin[i];
        if (count > most_cells) return false;
    }
    std::array<std::int32_t, Shape::max_rank> at = span.begin;
    for (std::int64_t n = 0; n < count; ++n) {
        std::uint64_t key = 0xcbf29ce484222325u;  // different cells with one key only cost a look
        for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i)
            key = (key ^ static_cast<std::uint32_t>(at[i])) * 0x100000001b3u + (key >> 29);
        out.push_back(key);
        for (std::size_t i = static_cast<std::size_t>(box.rank); i-- > 0;) {
            if (++at[i] < span.end[i]) break;
            at[i] = span.begin[i];
        }
    }
    return true;
}

void BoxMap::index(std::uint32_t number) {
    std::vector<std::uint64_t> keys;
    if (cells(entries_[number].box, keys)) {
        for (const std::uint64_t key : keys) grid_[key].push_back(number);
    } else {
        wide_.push_back(number);
    }
}

void BoxMap::rebuild() {
    std::vector<Entry> kept;
    for (const Entry& entry : entries_)
        if (!entry.removed) kept.push_back(entry);
    entries_ = std::move(kept);
    grid_.clear();
    wide_.clear();
    indexed_ = entries_.size() > linear_entries;
    if (!indexed_) return;
    const Box& model = entries_.back().box;
    for (std::size_t i = 0; i < static_cast<std::size_t>(model.rank); ++i) cell_.end[i] = model.end[i] - model.begin[i];
    for (std::uint32_t number = 0; number < entries_.size(); ++number) index(number);
}

void BoxMap::find(const Box& box, std::vector<std::uint32_t>& out) const {
    const auto take = [&](std::uint32_t number) {
        if (!entries_[number].removed && overlap(entries_[number].box, box)) out.push_back(number);
    };
    std::vector<std::uint64_t> keys;
    if (!indexed_ || !cells(box, keys)) {
        for (std::uint32_t number = 0; number < entries_.size(); ++number) take(number);
        return;
    }
    for (const std::uint64_t key : keys) {
        const auto found = grid_.find(key);
        if (found == grid_.end()) continue;
        for (const std::uint32_t number : found->second) take(number);
    }
    for (const std::uint32_t number : wide_) take(number);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
}

}  // namespace mskpp
