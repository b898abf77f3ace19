// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"
#include "mskpp/chunked_vector.h"

namespace mskpp::test {
namespace {

TEST(Types, every_name_reads_back_as_its_value) {
    for (int i = 0; i < memory_count; ++i) {
        const auto memory = static_cast<Memory>(i);
        EXPECT_EQ(parse_memory(name(memory), "t"), memory);
    }
    for (int i = 1; i < 16; ++i) {
        const auto dtype = static_cast<DType>(i);
        EXPECT_EQ(parse_dtype(name(dtype), "t"), dtype);
    }
    for (int i = 1; i < 7; ++i) {
        const auto format = static_cast<Format>(i);
        EXPECT_EQ(parse_format(name(format), "t"), format);
    }
    for (int i = 0; i < 16; ++i) {
        const auto pipe = static_cast<Pipe>(i);
        EXPECT_EQ(parse_pipe(name(pipe), "t"), pipe);
    }
}

TEST(Types, names_are_the_users_spellings) {
    EXPECT_EQ(name(Memory::L0A), "L0A");
    EXPECT_EQ(name(Memory::VEC), "VEC");
    EXPECT_EQ(name(DType::BF16), "BF16");
    EXPECT_EQ(name(DType::unset), "none");
    EXPECT_EQ(name(Format::NZ), "NZ");
    EXPECT_EQ(name(Format::NC1HWC0), "NC1HWC0");
    EXPECT_EQ(name(Format::unset), "none");
    EXPECT_EQ(name(Pipe::MTE1), "PIPE-MTE1");
    EXPECT_EQ(name(Pipe::RVECLD0), "RVECLD0");
    EXPECT_EQ(name(Pipe::VEC), "PIPE-VEC");
    EXPECT_EQ(name(Pipe::ALL), "PIPE-ALL");
}

TEST(Types, spellings_are_forgiving) {
    EXPECT_EQ(parse_memory("gm", "t"), Memory::GM);
    EXPECT_EQ(parse_dtype("float16", "t"), DType::FP16);
    EXPECT_EQ(parse_dtype("Half", "t"), DType::FP16);
    EXPECT_EQ(parse_dtype("f16", "t"), DType::FP16);
    EXPECT_EQ(parse_dtype("bfloat16", "t"), DType::BF16);
    EXPECT_EQ(parse_dtype("float", "t"), DType::FP32);
    EXPECT_EQ(parse_dtype("float32", "t"), DType::FP32);
    EXPECT_EQ(parse_dtype("single", "t"), DType::FP32);
    EXPECT_EQ(parse_dtype("boolean", "t"), DType::BOOL);
    EXPECT_EQ(parse_dtype("int8", "t"), DType::INT8);
    EXPECT_EQ(parse_format("fractal_nz", "t"), Format::NZ);
    EXPECT_EQ(parse_format("5hd", "t"), Format::NC1HWC0);
    EXPECT_EQ(parse_pipe("pipe-mte2", "t"), Pipe::MTE2);
}

TEST(Types, an_unknown_memory_is_answered_with_all_and_the_nearest) {
    EXPECT_EQ(error(ErrorKind::value, [] { parse_memory("L0D", "Tensor"); }),
              "Tensor: unknown mem_type 'L0D'; did you mean 'L0A'? Allowed: GM, L1, L0A, L0B, L0C, UB, BT, FB, VEC");
    EXPECT_EQ(error(ErrorKind::value, [] { parse_memory("", "Tensor"); }),
              "Tensor: unknown mem_type ''. Allowed: GM, L1, L0A, L0B, L0C, UB, BT, FB, VEC");
}

TEST(Types, an_unknown_pipe_is_answered_with_all_and_the_nearest) {
    EXPECT_EQ(error(ErrorKind::value, [] { parse_pipe("PIPE-MTE4", "set_flag"); }),
              "set_flag: unknown pipe 'PIPE-MTE4'; did you mean 'PIPE-MTE1'? Allowed: PIPE-MTE1, PIPE-MTE2, PIPE-MTE3, "
              "PIPE-FIX, PIPE-M, PIPE-V, PIPE-S, RVECLD0, RVECLD1, RVECEX0, RVECEX1, RVECST, RVECLD, RVECEX, PIPE-VEC, "
              "PIPE-ALL");
}

TEST(Types, an_instruction_runs_on_a_queue_or_on_slots_that_take_turns) {
    EXPECT_EQ(parse_queue("pipe-v", "t"), Pipe::V);
    EXPECT_EQ(parse_queue("RVECLD", "t"), Pipe::RVECLD);
    EXPECT_EQ(parse_queue("RVECST", "t"), Pipe::RVECST);
    for (const std::string group : {"PIPE-VEC", "PIPE-ALL"})
        EXPECT_EQ(error(ErrorKind::value, [&] { parse_queue(group, "RegisterOf"); }),
                  "RegisterOf: '" + group +
                      "' names no single pipe; an instruction runs on PIPE-MTE1, PIPE-MTE2, PIPE-MTE3, "
                      "PIPE-FIX, PIPE-M, PIPE-V, PIPE-S, RVECLD, RVECEX or RVECST");
    EXPECT_TRUE(has(error(ErrorKind::value, [] { parse_queue("PIPE-W", "t"); }), "unknown pipe 'PIPE-W'"));
}

TEST(Types, an_unknown_dtype_or_format_lists_each_name_once_and_no_other_spelling) {
    EXPECT_EQ(error(ErrorKind::value, [] { parse_dtype("FP17", "Tensor"); }),
              "Tensor: unknown dtype 'FP17'; did you mean 'FP16'? Allowed: BOOL, UINT1, UINT2, UINT8, UINT16, UINT32, "
              "UINT64, "
              "INT4, INT8, INT16, INT32, INT64, FP16, BF16, FP32");
    EXPECT_EQ(error(ErrorKind::value, [] { parse_format("NHCW", "Tensor"); }),
              "Tensor: unknown format 'NHCW'. Allowed: ND, NZ, NCHW, NHWC, NC1HWC0, FRACTAL");
}

TEST(Types, a_message_shows_no_more_than_64_letters_of_what_was_given) {
    const std::string message = error(ErrorKind::value, [] { parse_memory(std::string(1000, 'x'), "Tensor"); });
    EXPECT_TRUE(has(message, "'" + std::string(64, 'x') + "'")) << message;
}

TEST(Types, bits_are_the_width_of_one_element) {
    const std::vector<std::pair<DType, int>> widths = {
        {DType::unset, 0},  {DType::BOOL, 8},    {DType::UINT1, 1},   {DType::UINT2, 2},
        {DType::UINT8, 8},  {DType::UINT16, 16}, {DType::UINT32, 32}, {DType::UINT64, 64},
        {DType::INT4, 4},   {DType::INT8, 8},    {DType::INT16, 16},  {DType::INT32, 32},
        {DType::INT64, 64}, {DType::FP16, 16},   {DType::BF16, 16},   {DType::FP32, 32}};
    EXPECT_EQ(widths.size(), 16u);
    for (const auto& [dtype, width] : widths) EXPECT_EQ(bits(dtype), width) << name(dtype);
}

TEST(Types, bytes_are_rounded_up_for_the_whole_tensor) {
    EXPECT_EQ(size_bytes(DType::FP16, 3), 6);
    EXPECT_EQ(size_bytes(DType::INT4, 3), 2);
    EXPECT_EQ(size_bytes(DType::INT4, 4), 2);
    EXPECT_EQ(size_bytes(DType::UINT1, 9), 2);
    EXPECT_EQ(size_bytes(DType::UINT2, 5), 2);
    EXPECT_EQ(size_bytes(DType::INT64, Shape::max_elements), 17179869176);
}

TEST(Shape, knows_rank_extents_elements_and_text) {
    const Shape shape{32, 48, 2};
    EXPECT_EQ(shape.rank(), 3);
    EXPECT_EQ(shape[0], 32);
    EXPECT_EQ(shape[2], 2);
    EXPECT_EQ(shape.elements(), 3072);
    EXPECT_EQ(shape.text(), "[32,48,2]");
    EXPECT_EQ(Shape().text(), "[]");
    EXPECT_EQ(Shape().elements(), 1);
}

TEST(Shape, is_equal_axis_by_axis) {
    EXPECT_TRUE((Shape{2, 6}) == (Shape{2, 6}));
    EXPECT_FALSE((Shape{2, 6}) == (Shape{3, 4}));
    EXPECT_FALSE((Shape{12}) == (Shape{12, 1}));
    Shape shrunk{2, 6, 5};
    shrunk.pop_back();
    EXPECT_TRUE(shrunk == (Shape{2, 6}));  // however it came to be
    shrunk.replace_last(7, "t");
    EXPECT_TRUE(shrunk == (Shape{2, 7}));
}

TEST(Shape, takes_and_replaces_the_last_axis) {
    Shape shape{32, 48};
    shape.replace_last(3, "t");
    EXPECT_EQ(shape.text(), "[32,3]");
    EXPECT_EQ(shape.elements(), 96);
    shape.pop_back();
    EXPECT_EQ(shape.text(), "[32]");
    EXPECT_EQ(shape.elements(), 32);
}

TEST(Shape, refuses_extents_out_of_range) {
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{4, 0}; }), "shape: axis 1 has extent 0; allowed are 1 to 2147483647");
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{-1}; }), "shape: axis 0 has extent -1; allowed are 1 to 2147483647");
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{2147483648}; }),
              "shape: axis 0 has extent 2147483648; allowed are 1 to 2147483647");
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{INT64_MAX, INT64_MAX}; }),
              "shape: axis 0 has extent 9223372036854775807; allowed are 1 to 2147483647");
}

TEST(Shape, refuses_more_than_eight_axes) {
    EXPECT_EQ((Shape{1, 2, 1, 2, 1, 2, 1, 2}).rank(), 8);
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }),
              "shape: more than 8 axes; at most 8 are allowed");
}

TEST(Shape, refuses_more_elements_than_31_bits_count) {
    EXPECT_EQ((Shape{2147483647}).elements(), 2147483647);
    EXPECT_EQ((Shape{65535, 32768}).elements(), 2147450880);
    EXPECT_EQ(error(ErrorKind::value, [] { Shape{65536, 32768}; }),
              "shape: more than 2147483647 elements (2^31-1), which is the most a tensor may have; split it");
}

TEST(Shape, keeps_its_value_when_a_change_is_refused) {
    Shape shape{32, 48};
    error(ErrorKind::value, [&] { shape.push_back(0, "vadd"); });
    EXPECT_EQ(error(ErrorKind::value, [&] { shape.replace_last(0, "vadd: n"); }),
              "vadd: n: axis 1 has extent 0; allowed are 1 to 2147483647");
    EXPECT_EQ(shape.text(), "[32,48]");
    EXPECT_EQ(shape.elements(), 1536);
}

TEST(ChunkedVector, keeps_its_elements_over_chunk_borders) {
    ChunkedVector<std::uint32_t> vector;
    const std::size_t count = 2 * ChunkedVector<std::uint32_t>::chunk_size + 3;
    vector.push_back(0);
    const std::uint32_t* first = &vector[0];
    for (std::size_t i = 1; i < count; ++i) vector.push_back(static_cast<std::uint32_t>(i));
    ASSERT_EQ(vector.size(), count);
    EXPECT_EQ(first, &vector[0]);  // no element moves
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += vector[i] != i;
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(vector[vector.size() - 1], count - 1);
}

TEST(ChunkedVector, assign_replaces_what_was_there) {
    ChunkedVector<std::int64_t> vector;
    for (int i = 0; i < 20000; ++i) vector.push_back(i);
    vector.assign(3, -1);
    ASSERT_EQ(vector.size(), 3u);
    EXPECT_EQ(vector[0], -1);
    EXPECT_EQ(vector[2], -1);
    vector.push_back(7);
    EXPECT_EQ(vector[vector.size() - 1], 7);
    const ChunkedVector<std::int64_t> moved = std::move(vector);
    EXPECT_EQ(moved.size(), 4u);
    EXPECT_EQ(moved[3], 7);
}

}  // namespace
}  // namespace mskpp::test
