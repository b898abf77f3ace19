// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace mskpp::test {
namespace {

using Range = std::pair<std::int32_t, std::int32_t>;

std::vector<Range> region(const Tensor& tensor) {
    const Box box = tensor.region();
    std::vector<Range> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(box.rank); ++i) out.emplace_back(box.begin[i], box.end[i]);
    return out;
}

Index ellipsis() { return {Index::Kind::ellipsis, {}, {}, {}}; }

constexpr std::nullopt_t open = std::nullopt;

TEST(Tensor, only_gm_and_what_is_said_to_be_is_ready) {
    EXPECT_TRUE(tensor(Memory::GM, {4}).storage()->ready_at_start);
    EXPECT_FALSE(tensor(Memory::UB, {4}).storage()->ready_at_start);
    EXPECT_TRUE(tensor(Memory::UB, {4}, DType::FP16, true).storage()->ready_at_start);
}

TEST(Tensor, knows_its_type) {
    const Tensor whole = tensor(Memory::L1, {3, 5}, DType::INT4, false, Format::NZ);
    EXPECT_EQ(whole.memory(), Memory::L1);
    EXPECT_EQ(whole.dtype(), DType::INT4);
    EXPECT_EQ(whole.format(), Format::NZ);
    EXPECT_TRUE(whole.has_shape());
    EXPECT_FALSE(whole.is_view());
    EXPECT_EQ(whole.elements(), 15);
    EXPECT_EQ(whole.bytes(), 8);  // 15 half bytes
    EXPECT_EQ(whole.text(), "L1 tensor [3,5] INT4");
    EXPECT_EQ(whole.type().shape.text(), "[3,5]");
    EXPECT_EQ(Tensor(Memory::UB).text(), "UB tensor [?] none");
    EXPECT_FALSE(Tensor(Memory::UB).has_shape());
}

TEST(Slice, shares_the_storage_and_remembers_its_region) {
    const Tensor whole = tensor(Memory::GM, {8, 10});
    const Tensor part = whole.slice({Index::range(2, 6), Index::range(open, 3)});
    EXPECT_EQ(part.storage(), whole.storage());
    EXPECT_TRUE(part.is_view());
    EXPECT_EQ(part.shape().text(), "[4,3]");
    EXPECT_EQ(part.elements(), 12);
    EXPECT_EQ(part.bytes(), 24);
    EXPECT_EQ(part.text(), "GM tensor [4,3] FP16");
    EXPECT_EQ(region(part), (std::vector<Range>{{2, 6}, {0, 3}}));
    EXPECT_EQ(region(whole), (std::vector<Range>{{0, 8}, {0, 10}}));
}

TEST(Slice, has_the_meaning_it_has_in_numpy) {
    const Tensor t = tensor(Memory::GM, {10});
    const auto check = [&](const Index& index, const std::string& shape, Range wanted) {
        const Tensor part = t.slice({index});
        EXPECT_EQ(part.shape().text(), shape);
        EXPECT_EQ(region(part), std::vector<Range>{wanted});
    };
    check(Index::range(open, open), "[10]", {0, 10});
    check(Index::range(-3, open), "[3]", {7, 10});
    check(Index::range(open, -3), "[7]", {0, 7});
    check(Index::range(-100, 100), "[10]", {0, 10});
    check(Index::range(INT64_MIN, INT64_MAX), "[10]", {0, 10});
    check(Index::range(1, 8, 3), "[3]", {1, 8});  // 1 4 7
    check(Index::range(1, 7, 3), "[2]", {1, 5});  // 1 4: the box ends with the last element
    check(Index::range(open, open, -1), "[10]", {0, 10});
    check(Index::range(8, 1, -3), "[3]", {2, 9});  // 8 5 2
    check(Index::range(open, open, 100), "[1]", {0, 1});
    check(Index::range(open, open, -100), "[1]", {9, 10});
    check(Index::range(open, open, INT64_MAX), "[1]", {0, 1});
    check(Index::range(open, open, INT64_MIN), "[1]", {9, 10});
    check(Index::range(-1, -4, -2), "[2]", {7, 10});     // 9 7
    check(Index::range(100, open, -4), "[3]", {1, 10});  // 9 5 1
}

TEST(Slice, an_integer_drops_its_axis) {
    const Tensor t = tensor(Memory::GM, {4, 6, 8});
    const Tensor row = t.slice({Index::at(1), Index::range(2, 4)});
    EXPECT_EQ(row.shape().text(), "[2,8]");
    EXPECT_EQ(region(row), (std::vector<Range>{{1, 2}, {2, 4}, {0, 8}}));
    const Tensor last = t.slice({Index::at(-1)});
    EXPECT_EQ(region(last), (std::vector<Range>{{3, 4}, {0, 6}, {0, 8}}));
    const Tensor one = t.slice({Index::at(0), Index::at(5), Index::at(7)});
    EXPECT_EQ(one.shape().text(), "[1]");
    EXPECT_EQ(one.elements(), 1);
}

TEST(Slice, an_ellipsis_stands_for_the_axes_left) {
    const Tensor t = tensor(Memory::GM, {4, 6, 8});
    EXPECT_EQ(region(t.slice({ellipsis(), Index::range(0, 2)})), (std::vector<Range>{{0, 4}, {0, 6}, {0, 2}}));
    EXPECT_EQ(region(t.slice({Index::at(2), ellipsis(), Index::at(3)})), (std::vector<Range>{{2, 3}, {0, 6}, {3, 4}}));
    EXPECT_EQ(t.slice({ellipsis()}).shape().text(), "[4,6,8]");
    EXPECT_EQ(t.slice({}).shape().text(), "[4,6,8]");
    EXPECT_EQ(t.slice({Index::at(0), Index::at(0), Index::at(0), ellipsis()}).shape().text(), "[1]");
}

TEST(Slice, of_a_slice_counts_within_it) {
    const Tensor t = tensor(Memory::GM, {100, 10});
    const Tensor outer = t.slice({Index::range(10, 50)});
    const Tensor inner = outer.slice({Index::range(5, 15), Index::at(3)});
    EXPECT_EQ(inner.shape().text(), "[10]");
    EXPECT_EQ(region(inner), (std::vector<Range>{{15, 25}, {3, 4}}));
    EXPECT_EQ(region(inner.slice({Index::at(-1)})), (std::vector<Range>{{24, 25}, {3, 4}}));
    // steps multiply: 10 14 18 ... 46 -> every second of them backwards: 46 38 30 22 14
    const Tensor stepped = t.slice({Index::range(10, 50, 4)}).slice({Index::range(open, open, -2)});
    EXPECT_EQ(stepped.shape().text(), "[5,10]");
    EXPECT_EQ(region(stepped), (std::vector<Range>{{14, 47}, {0, 10}}));
    EXPECT_EQ(region(stepped.slice({Index::range(open, open, INT64_MAX)})), (std::vector<Range>{{46, 47}, {0, 10}}));
    EXPECT_EQ(region(stepped.slice({Index::at(1)})), (std::vector<Range>{{38, 39}, {0, 10}}));
}

TEST(Slice, refuses_what_lies_outside) {
    const Tensor t = tensor(Memory::GM, {4, 6});
    EXPECT_EQ(error(ErrorKind::index, [&] { t.slice({Index::at(4)}); }),
              "Tensor: index 4 is outside axis 0 with 4 elements");
    EXPECT_EQ(error(ErrorKind::index, [&] { t.slice({Index::at(0), Index::at(-7)}); }),
              "Tensor: index -7 is outside axis 1 with 6 elements");
    EXPECT_EQ(error(ErrorKind::index, [&] { t.slice({Index::at(0), Index::at(0), Index::at(0)}); }),
              "Tensor: 3 indices for a tensor of 2 axes [4,6]");
    EXPECT_EQ(error(ErrorKind::index, [&] { t.slice({ellipsis(), ellipsis()}); }),
              "Tensor: more than one ellipsis in a subscript");
    // an axis once dropped cannot be named again
    EXPECT_EQ(error(ErrorKind::index, [&] { t.slice({Index::at(0)}).slice({Index::at(0), Index::at(0)}); }),
              "Tensor: 2 indices for a tensor of 1 axes [6]");
}

TEST(Slice, refuses_to_select_nothing) {
    const Tensor t = tensor(Memory::GM, {4, 6});
    const std::string message =
        "Tensor: the slice selects nothing of axis 1 with 6 elements; every slice must select at least one";
    for (const Index& empty :
         {Index::range(3, 3), Index::range(4, 2), Index::range(6, open), Index::range(2, 4, -1), Index::range(open, 0)})
        EXPECT_EQ(error(ErrorKind::value, [&] { t.slice({Index::at(0), empty}); }), message);
    EXPECT_EQ(error(ErrorKind::value, [&] { t.slice({Index::range(0, 4, 0)}); }),
              "Tensor: a slice step of 0; it must not be 0");
    EXPECT_EQ(error(ErrorKind::value, [] { Tensor(Memory::UB).slice({Index::at(0)}); }),
              "Tensor: a UB tensor without a shape cannot be sliced; give it a size or load it first");
}

TEST(Slice, is_stale_once_its_tensor_takes_another_shape) {
    Model model;
    Tensor x = tensor(Memory::UB, {2, 128}, DType::FP16, true), out = tensor(Memory::UB, {4, 64});
    const Tensor part = rows(out, 0, 2);
    model.issue("vabs", {&x, &out});
    EXPECT_EQ(out.shape().text(), "[2,128]");
    const std::string message =
        "Tensor: this slice is stale, it was taken before its UB tensor took the shape [2,128]; take the slice again";
    EXPECT_EQ(error(ErrorKind::state, [&] { part.shape(); }), message);
    EXPECT_EQ(error(ErrorKind::state, [&] { part.elements(); }), message);
    EXPECT_EQ(error(ErrorKind::state, [&] { part.region(); }), message);
    EXPECT_EQ(error(ErrorKind::state, [&] { part.slice({Index::at(0)}); }), message);
    EXPECT_EQ(rows(out, 0, 1).shape().text(), "[1,128]");
}

TEST(Slice, outlives_a_write_that_keeps_the_shape) {
    Model model;
    Tensor x = tensor(Memory::UB, {4, 64}, DType::FP16, true), out = tensor(Memory::UB, {4, 64}, DType::FP32);
    const Tensor part = rows(out, 0, 2);
    model.issue("vabs", {&x, &out});
    EXPECT_EQ(out.dtype(), DType::FP16);
    EXPECT_EQ(part.shape().text(), "[2,64]");
}

TEST(Slice, keeps_the_type_of_its_storage_when_written) {
    Model model;
    Tensor x = tensor(Memory::UB, {128}, DType::FP16, true), out = tensor(Memory::UB, {4, 128}, DType::FP16);
    Tensor row = out.slice({Index::at(2)}), two = rows(out, 0, 2);
    model.issue("vabs", {&x, &row});
    EXPECT_EQ(out.shape().text(), "[4,128]");
    EXPECT_EQ(error(ErrorKind::value, [&] { model.issue("vabs", {&x, &two}); }),
              "vabs: writes [128] into a slice of [2,128]; they must have the same number of elements");
    Tensor wide = tensor(Memory::UB, {4, 128}, DType::FP32);
    Tensor wide_row = wide.slice({Index::at(2)});
    EXPECT_EQ(error(ErrorKind::type, [&] { model.issue("vabs", {&x, &wide_row}); }),
              "vabs: writes FP16 [128] into a slice of FP32 [128]; a slice keeps its dtype");
    EXPECT_EQ(model.program->size(), 1u);
}

}  // namespace
}  // namespace mskpp::test
