// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "fixture.h"
#include "program/box_map.h"

namespace mskpp::test {
namespace {

Box box(const std::vector<std::pair<int, int>>& axes) {
    Box out;
    out.rank = static_cast<int>(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
        out.begin[i] = axes[i].first;
        out.end[i] = axes[i].second;
    }
    return out;
}

std::vector<std::uint32_t> values(const BoxMap& map, const Box& where) {
    std::vector<std::uint32_t> found, out;
    map.find(where, found);
    for (const std::uint32_t number : found) out.push_back(map.entry(number).value);
    return out;
}

TEST(Box, overlaps_where_every_axis_does) {
    EXPECT_TRUE(overlap(box({{0, 4}, {0, 4}}), box({{3, 5}, {3, 5}})));
    EXPECT_FALSE(overlap(box({{0, 4}, {0, 4}}), box({{4, 5}, {0, 4}})));  // half open
    EXPECT_FALSE(overlap(box({{0, 4}, {0, 4}}), box({{0, 4}, {4, 5}})));
    EXPECT_TRUE(overlap(box({}), box({})));
}

TEST(Box, contains_what_sticks_out_nowhere) {
    EXPECT_TRUE(contains(box({{0, 4}, {0, 4}}), box({{0, 4}, {1, 2}})));
    EXPECT_TRUE(contains(box({{0, 4}}), box({{0, 4}})));
    EXPECT_FALSE(contains(box({{0, 4}, {0, 4}}), box({{0, 4}, {1, 5}})));
    EXPECT_FALSE(contains(box({{1, 4}}), box({{0, 4}})));
}

TEST(Box, subtract_leaves_disjoint_parts) {
    std::vector<Box> rest;
    subtract(box({{0, 3}, {0, 3}}), box({{1, 2}, {1, 2}}), rest);
    ASSERT_EQ(rest.size(), 4u);
    rest.clear();
    subtract(box({{0, 3}}), box({{3, 4}}), rest);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].end[0], 3);
    rest.clear();
    subtract(box({{1, 2}}), box({{0, 3}}), rest);
    EXPECT_TRUE(rest.empty());
}

TEST(Box, subtract_keeps_every_other_cell_exactly_once) {
    std::mt19937 random(7);
    const auto interval = [&] {
        const int a = static_cast<int>(random() % 5), b = static_cast<int>(random() % 5);
        return std::pair{std::min(a, b), std::max(a, b) + 1};
    };
    for (int round = 0; round < 500; ++round) {
        const Box from = box({interval(), interval(), interval()}), taken = box({interval(), interval(), interval()});
        std::vector<Box> rest;
        subtract(from, taken, rest);
        EXPECT_LE(rest.size(), 6u);
        for (int x = 0; x < 6; ++x)
            for (int y = 0; y < 6; ++y)
                for (int z = 0; z < 6; ++z) {
                    const Box cell = box({{x, x + 1}, {y, y + 1}, {z, z + 1}});
                    const auto covering =
                        std::count_if(rest.begin(), rest.end(), [&](const Box& part) { return contains(part, cell); });
                    ASSERT_EQ(covering, contains(from, cell) && !contains(taken, cell) ? 1 : 0);
                }
    }
}

TEST(BoxMap, finds_in_the_order_of_adding_and_forgets_what_is_removed) {
    BoxMap map;
    EXPECT_TRUE(map.empty());
    map.add(box({{0, 4}}), 10);
    map.add(box({{2, 6}}), 11);
    map.add(box({{5, 9}}), 12);
    EXPECT_EQ(values(map, box({{3, 6}})), (std::vector<std::uint32_t>{10, 11, 12}));
    EXPECT_EQ(values(map, box({{0, 2}})), std::vector<std::uint32_t>{10});
    EXPECT_TRUE(values(map, box({{9, 20}})).empty());
    map.remove(1);
    EXPECT_EQ(values(map, box({{3, 6}})), (std::vector<std::uint32_t>{10, 12}));
    std::vector<std::uint32_t> seen;
    map.each([&](const BoxMap::Entry& entry) { seen.push_back(entry.value); });
    EXPECT_EQ(seen, (std::vector<std::uint32_t>{10, 12}));
    map.clear();
    EXPECT_TRUE(map.empty());
    EXPECT_TRUE(values(map, box({{0, 9}})).empty());
}

TEST(BoxMap, finds_tiles_boxes_over_many_cells_and_the_whole) {
    BoxMap map;
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 16; ++column)
            map.add(box({{row * 8, row * 8 + 8}, {column * 4, column * 4 + 4}}),
                    static_cast<std::uint32_t>(row * 16 + column));
    map.add(box({{0, 128}, {0, 64}}), 1000);  // over 256 cells of the grid
    EXPECT_EQ(values(map, box({{9, 10}, {5, 6}})), (std::vector<std::uint32_t>{17, 1000}));
    EXPECT_EQ(values(map, box({{7, 9}, {3, 5}})), (std::vector<std::uint32_t>{0, 1, 16, 17, 1000}));
    EXPECT_EQ(values(map, box({{0, 128}, {0, 64}})).size(), 257u);
}

// Against a plain list, over sizes that cross from the list to the grid and back.
TEST(BoxMap, equals_a_plain_list) {
    for (unsigned seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        const std::size_t rank = 1 + seed % 3;
        const int extent = seed % 2 == 0 ? 12 : 200;
        const auto any_box = [&] {
            std::vector<std::pair<int, int>> axes;
            for (std::size_t i = 0; i < rank; ++i) {
                const int tile = extent / 12, kind = below(8);
                const int begin = kind == 0 ? below(extent) : below(12) * tile;
                const int end = kind == 1 ? extent : kind == 0 ? begin + 1 + below(extent - begin) : begin + tile;
                axes.emplace_back(kind == 1 ? 0 : begin, end);
            }
            return box(axes);
        };
        BoxMap map;
        std::vector<BoxMap::Entry> plain;
        for (int step = 0; step < 400; ++step) {
            const Box where = any_box();
            std::vector<std::uint32_t> wanted;
            for (const auto& entry : plain)
                if (overlap(entry.box, where)) wanted.push_back(entry.value);
            ASSERT_EQ(values(map, where), wanted) << "seed " << seed << " step " << step;
            if (below(3) == 0) {  // take away all that overlap
                std::vector<std::uint32_t> numbers;
                map.find(where, numbers);
                for (const std::uint32_t number : numbers) map.remove(number);
                plain.erase(std::remove_if(plain.begin(), plain.end(),
                                           [&](const auto& entry) { return overlap(entry.box, where); }),
                            plain.end());
            }
            map.add(where, static_cast<std::uint32_t>(step));
            plain.push_back({where, static_cast<std::uint32_t>(step)});
            ASSERT_EQ(map.empty(), plain.empty());
        }
    }
}

}  // namespace
}  // namespace mskpp::test
