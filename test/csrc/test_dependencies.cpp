// SPDX-License-Identifier: Apache-2.0
// Who waits for whom because of data. waits(i) is what instruction i waits for, whatever the order they were issued in.
#include "fixture.h"

namespace mskpp::test {
namespace {

class Data : public testing::Test {
  protected:
    std::uint32_t write(const Tensor& to, Pipe pipe = Pipe::MTE2) { return model.own(pipe, 10, {}, {to}); }
    std::uint32_t read(const Tensor& from, Pipe pipe = Pipe::V) { return model.own(pipe, 10, {from}, {}); }
    Set waits(std::uint32_t i) { return model.waits(i); }
    // A read that nothing serves: the program cannot end.
    bool starved(std::uint32_t i) {
        model.program->finish();
        return model.program->record(i).starved;
    }
    std::uint32_t load_marked(Tensor to, std::int64_t mark) {
        LoadOptions options;
        options.set_value = mark;
        return model.load(to, source, options);
    }
    std::uint32_t expect_marked(const Tensor& from, std::int64_t mark) {
        LoadOptions options;
        options.expect_value = mark;
        return model.load(Tensor(Memory::GM), from, options);
    }

    Model model;
    Tensor t = tensor(Memory::UB, {8, 16});
    Tensor source = tensor(Memory::GM, {8, 16});
};

TEST_F(Data, a_reader_waits_for_the_latest_writer) {
    write(t);
    const auto second = write(t);
    const auto reader = read(t);
    write(t);
    EXPECT_EQ(waits(reader), Set{second});
}

TEST_F(Data, readers_and_writers_delay_no_later_writer) {
    write(t);
    read(t);
    const auto again = write(t, Pipe::MTE3);
    EXPECT_TRUE(waits(again).empty());  // a fresh version: no write after read, no write after write
}

TEST_F(Data, gm_is_ready_at_the_start_and_still_waits_for_a_writer) {
    const auto early = read(source);
    const auto writer = write(source);
    const auto late = read(source);
    EXPECT_TRUE(waits(early).empty());
    EXPECT_EQ(waits(late), Set{writer});
}

TEST_F(Data, what_is_ready_from_the_start_is_not_waited_for) {
    const Tensor ready = tensor(Memory::UB, {4}, DType::FP16, true);
    EXPECT_TRUE(waits(read(ready)).empty());
}

TEST_F(Data, an_unwritten_tensor_waits_for_the_next_writer) {
    const auto first = read(t), other = read(t, Pipe::MTE3);
    const auto writer = write(t);
    write(t);
    const auto late = read(t);
    EXPECT_EQ(waits(first), Set{writer});
    EXPECT_EQ(waits(other), Set{writer});
    EXPECT_EQ(waits(late), Set{writer + 1});
}

TEST_F(Data, the_dependency_names_its_tensor) {
    t.storage()->line = model.sources->add("kernel.py", 22);
    const auto reader = read(t);
    write(t);
    model.program->finish();
    std::vector<std::string> texts;
    model.program->each_dependency(reader,
                                   [&](const Dependency& d) { texts.push_back(model.program->tensor_text(d.tensor)); });
    EXPECT_EQ(texts, std::vector<std::string>{"UB tensor [8,16] FP16 (kernel.py:22)"});
}

TEST_F(Data, what_nothing_writes_is_starved) {
    const auto reader = read(t);
    EXPECT_TRUE(starved(reader));
    ASSERT_EQ(model.program->starved().size(), 1u);
    EXPECT_EQ(model.program->starved()[0].reader, reader);
}

TEST_F(Data, no_instruction_waits_for_itself) {
    const auto both = model.own(Pipe::V, 1, {t}, {t});
    const auto reader = read(t);
    EXPECT_EQ(waits(both), Set{});
    EXPECT_EQ(waits(reader), Set{both});
    EXPECT_TRUE(starved(both));
}

TEST_F(Data, an_in_place_instruction_waits_for_a_later_writer_only) {
    const auto both = model.own(Pipe::V, 1, {t}, {t});
    const auto writer = write(t);
    EXPECT_EQ(waits(both), Set{writer});
    EXPECT_FALSE(starved(both));
}

TEST_F(Data, one_dependency_a_producer_however_many_operands) {
    const auto writer = write(t);
    const auto reader = model.own(Pipe::V, 1, {t, t, rows(t, 0, 1)}, {});
    EXPECT_EQ(waits(reader), Set{writer});
    EXPECT_EQ(model.program->dependency_count(), 1u);
}

TEST_F(Data, every_input_counts) {
    const Tensor other = tensor(Memory::UB, {4});
    const auto first = write(t), second = write(other, Pipe::MTE3);
    const auto reader = model.own(Pipe::V, 1, {rows(t, 0, 2), other}, {});
    EXPECT_EQ(waits(reader), (Set{first, second}));
}

// --- parts ---

TEST_F(Data, a_part_waits_for_its_own_writers_only) {
    const auto upper = write(rows(t, 0, 4));
    write(rows(t, 4, 8));
    EXPECT_EQ(waits(read(rows(t, 0, 4))), Set{upper});
}

TEST_F(Data, a_region_over_two_parts_waits_for_both) {
    const auto upper = write(rows(t, 0, 4)), lower = write(rows(t, 4, 8));
    const auto middle = read(rows(t, 3, 5)), whole = read(t);
    EXPECT_EQ(waits(middle), (Set{upper, lower}));
    EXPECT_EQ(waits(whole), (Set{upper, lower}));
}

TEST_F(Data, a_part_written_again_leaves_the_rest_to_the_earlier_writer) {
    const auto whole = write(t), part = write(rows(t, 2, 4));
    EXPECT_EQ(waits(read(t)), (Set{whole, part}));
}

TEST_F(Data, parts_of_a_region_follow_the_rule_each_by_itself) {
    const auto whole = write(t), part = write(rows(t, 2, 4));
    const auto inside = read(rows(t, 2, 4)), outside = read(rows(t, 4, 8)), across = read(rows(t, 3, 6));
    EXPECT_EQ(waits(inside), Set{part});
    EXPECT_EQ(waits(outside), Set{whole});
    EXPECT_EQ(waits(across), (Set{whole, part}));
}

TEST_F(Data, a_writer_wholly_hidden_is_not_waited_for) {
    write(rows(t, 2, 4));
    const auto whole = write(t);
    EXPECT_EQ(waits(read(rows(t, 2, 4))), Set{whole});
}

TEST_F(Data, a_writer_hidden_by_several_together_is_not_waited_for) {
    write(rows(t, 2, 6));
    const auto upper = write(rows(t, 0, 4)), lower = write(rows(t, 4, 8));
    EXPECT_EQ(waits(read(t)), (Set{upper, lower}));
}

TEST_F(Data, columns_and_rows_cross) {
    const auto across = write(rows(t, 2, 4));
    const auto down = write(t.slice({Index::range({}, {}), Index::range(4, 8)}));
    const auto corner = read(t.slice({Index::range(2, 4), Index::range(4, 8)}));
    const auto beside = read(t.slice({Index::range(2, 4), Index::range(0, 4)}));
    const auto both = read(t.slice({Index::range(2, 4), Index::range(3, 5)}));
    EXPECT_EQ(waits(corner), Set{down});
    EXPECT_EQ(waits(beside), Set{across});
    EXPECT_EQ(waits(both), (Set{across, down}));
}

TEST_F(Data, the_written_part_is_waited_for_and_the_unwritten_one_waits_for_the_next) {
    const auto upper = write(rows(t, 0, 4));
    const auto reader = read(t);
    write(rows(t, 0, 4));  // not waited for: an earlier one wrote that part
    const auto lower = write(rows(t, 4, 8), Pipe::MTE3);
    EXPECT_EQ(waits(reader), (Set{upper, lower}));
}

TEST_F(Data, each_unwritten_part_waits_for_its_own_next_writer) {
    const auto reader = read(t);
    const auto first = write(rows(t, 1, 3)), second = write(rows(t, 2, 6));
    const auto third = write(t);
    write(t);
    EXPECT_EQ(waits(reader), (Set{first, second, third}));
}

TEST_F(Data, a_next_writer_that_does_not_overlap_is_passed_over) {
    const auto reader = read(rows(t, 0, 2));
    write(rows(t, 2, 8));
    const auto writer = write(rows(t, 1, 2)), rest = write(rows(t, 0, 1));
    EXPECT_EQ(waits(reader), (Set{writer, rest}));
}

TEST_F(Data, a_part_that_nothing_writes_starves_the_whole_read) {
    write(rows(t, 0, 7));
    const auto reader = read(t);
    EXPECT_TRUE(starved(reader));
}

TEST_F(Data, a_ready_tensor_waits_for_written_parts_only) {
    const auto writer = write(rows(source, 0, 4));
    const auto whole = read(source), rest = read(rows(source, 4, 8));
    write(source);
    EXPECT_EQ(waits(whole), Set{writer});
    EXPECT_TRUE(waits(rest).empty());
}

TEST_F(Data, a_slice_of_the_whole_is_the_whole) {
    const auto writer = write(t.slice({Index::range(0, 8)}));
    EXPECT_EQ(waits(read(t)), Set{writer});
}

TEST_F(Data, an_integer_selects_one_row) {
    const auto row = write(t.slice({Index::at(3)}));
    const auto same = read(t.slice({Index::at(3), Index::at(5)})), around = read(rows(t, 2, 5));
    const auto rest = write(t);
    EXPECT_EQ(waits(same), Set{row});
    EXPECT_EQ(waits(around), (Set{row, rest}));
}

TEST_F(Data, a_step_widens_to_its_box) {
    const Tensor even = t.slice({Index::range(0, 6, 2)});  // rows 0 2 4: the box is 0 to 4
    const auto writer = write(even);
    const auto between = read(rows(t, 1, 2)), behind = read(rows(t, 5, 6));
    const auto next = write(t);
    EXPECT_EQ(waits(between), Set{writer});
    EXPECT_EQ(waits(behind), Set{next});
}

TEST_F(Data, slices_of_slices_are_regions_of_the_storage) {
    const Tensor half = rows(t, 4, 8);
    const auto writer = write(half.slice({Index::range(1, 2)}));  // row 5
    const auto reader = read(rows(t, 5, 6)), other = read(rows(t, 1, 2));
    const auto rest = write(t);
    EXPECT_EQ(waits(reader), Set{writer});
    EXPECT_EQ(waits(other), Set{rest});
}

TEST_F(Data, the_write_of_a_load_covers_the_whole_target) {
    const auto writer = model.load(t, rows(source, 0, 1));
    EXPECT_EQ(waits(read(rows(t, 7, 8))), Set{writer});
}

// --- set_valid and set_invalid ---

TEST_F(Data, set_valid_makes_ready_from_then_on_and_forgets_writers) {
    const auto before = read(t);
    const auto writer = write(t);
    const auto between = read(t);
    model.program->set_ready(t, true);
    const auto after = read(t);
    const auto second = write(t);
    const auto last = read(t);
    EXPECT_EQ(waits(before), Set{writer});
    EXPECT_EQ(waits(between), Set{writer});
    EXPECT_TRUE(waits(after).empty());
    EXPECT_EQ(waits(last), Set{second});
}

TEST_F(Data, set_valid_serves_no_earlier_reader) {
    const auto before = read(t);
    model.program->set_ready(t, true);
    EXPECT_TRUE(starved(before));
}

TEST_F(Data, set_invalid_empties_from_then_on) {
    write(t);
    model.program->set_ready(t, false);
    const auto reader = read(t);
    const auto next = write(t);
    EXPECT_EQ(waits(reader), Set{next});
}

TEST_F(Data, set_invalid_empties_gm_as_well) {
    model.program->set_ready(source, false);
    const auto reader = read(source);
    const auto writer = write(source);
    EXPECT_EQ(waits(reader), Set{writer});
}

TEST_F(Data, validity_is_that_of_the_whole_storage) {
    write(rows(t, 0, 4));
    model.program->set_ready(rows(t, 0, 1), true);
    EXPECT_TRUE(model.program->has_value(t));
    const auto reader = read(t);
    model.program->set_ready(rows(t, 5, 6), false);
    EXPECT_FALSE(model.program->has_value(rows(t, 0, 1)));
    const auto later = read(rows(t, 0, 1));
    const auto writer = write(t);
    EXPECT_TRUE(waits(reader).empty());
    EXPECT_EQ(waits(later), Set{writer});
}

TEST_F(Data, is_valid_is_what_the_program_so_far_says) {
    Program& program = *model.program;
    EXPECT_TRUE(program.has_value(source));
    EXPECT_FALSE(program.has_value(t));
    EXPECT_FALSE(program.has_value(Tensor(Memory::UB)));
    read(t);
    EXPECT_FALSE(program.has_value(t));
    write(rows(t, 0, 4));
    EXPECT_TRUE(program.has_value(rows(t, 1, 3)));
    EXPECT_FALSE(program.has_value(rows(t, 3, 5)));
    EXPECT_FALSE(program.has_value(t));
    write(rows(t, 4, 8));
    EXPECT_TRUE(program.has_value(t));
    program.set_ready(t, false);
    EXPECT_FALSE(program.has_value(t));
    program.set_ready(t, true);
    EXPECT_TRUE(program.has_value(rows(t, 7, 8)));
}

// --- accumulators ---

class Accumulators : public Data {
  protected:
    std::uint32_t vmla(Tensor out) {
        Attributes none;
        model.issue("vmla", {&x, &x, &out}, none);
        return model.last();
    }
    Tensor x = tensor(Memory::UB, {8, 16}, DType::FP16, true);
};

TEST_F(Accumulators, read_their_output_once_it_holds_a_value) {
    const auto first = vmla(t), second = vmla(t), third = vmla(t);
    EXPECT_TRUE(waits(first).empty());
    EXPECT_EQ(waits(second), Set{first});
    EXPECT_EQ(waits(third), Set{second});
}

TEST_F(Accumulators, do_not_wait_for_what_is_not_there) {
    const auto first = vmla(t);
    write(t);
    EXPECT_TRUE(waits(first).empty());
    EXPECT_FALSE(starved(first));
}

TEST_F(Accumulators, read_all_parts_of_their_output) {
    const auto upper = write(rows(t, 0, 4)), lower = write(rows(t, 4, 8));
    EXPECT_EQ(waits(vmla(t)), (Set{upper, lower}));
}

TEST_F(Accumulators, an_output_of_which_a_part_is_missing_holds_no_value) {
    write(rows(t, 0, 4));
    const auto accumulator = vmla(t);
    EXPECT_TRUE(waits(accumulator).empty());
    EXPECT_FALSE(starved(accumulator));
}

TEST_F(Accumulators, read_the_slice_they_write_and_no_more) {
    const auto upper = write(rows(t, 0, 4));
    write(rows(t, 4, 8));
    Tensor row = t.slice({Index::at(1)}), short_x = tensor(Memory::UB, {16}, DType::FP16, true);
    model.issue("vmla", {&short_x, &short_x, &row});
    EXPECT_EQ(waits(model.last()), Set{upper});
}

TEST_F(Accumulators, a_ready_output_is_read_without_waiting) {
    EXPECT_TRUE(waits(vmla(tensor(Memory::UB, {8, 16}, DType::FP16, true))).empty());
}

TEST_F(Accumulators, others_do_not_read_their_output) {
    write(t);
    Tensor out = t;
    model.issue("vadd", {&x, &x, &out});
    EXPECT_TRUE(waits(model.last()).empty());
}

// What the output holds is a question about the tensor as it was before the instruction gives it another shape.
TEST_F(Accumulators, read_an_output_whose_shape_they_change) {
    Tensor out = tensor(Memory::UB, {2, 64});
    const auto upper = write(rows(out, 0, 1)), lower = write(rows(out, 1, 2));
    EXPECT_EQ(waits(vmla(out)), (Set{upper, lower}));
}

// The same with more parts than are looked through one by one. Where it fails it stops the whole process.
TEST(AccumulatorDeathTest, read_an_output_of_many_parts_whose_shape_they_change) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const auto waits_for_all = [] {
        Model model;
        Tensor x = tensor(Memory::UB, {2, 64, 100}, DType::FP16, true), out = tensor(Memory::UB, {100, 128});
        Set writers;
        for (int row = 0; row < 100; ++row) writers.insert(model.own(Pipe::MTE2, 1, {}, {rows(out, row, row + 1)}));
        model.issue("vmla", {&x, &x, &out});
        return model.waits(model.last()) == writers;
    };
    EXPECT_EXIT(std::exit(waits_for_all() ? 7 : 1), testing::ExitedWithCode(7), "");
}

// --- versions ---

TEST_F(Data, expect_value_waits_for_the_version_with_that_mark) {
    const auto one = load_marked(t, 1), two = load_marked(t, 2);
    const auto plain = read(t);
    const auto first = expect_marked(t, 1), second = expect_marked(t, 2);
    EXPECT_EQ(waits(plain), Set{two});
    EXPECT_EQ(waits(first), Set{one});
    EXPECT_EQ(waits(second), Set{two});
}

TEST_F(Data, expect_value_takes_the_latest_earlier_version_before_a_later_one) {
    load_marked(t, 1);
    const auto latest = load_marked(t, 1);
    const auto reader = expect_marked(t, 1);
    load_marked(t, 1);
    EXPECT_EQ(waits(reader), Set{latest});
}

TEST_F(Data, expect_value_waits_for_the_next_version_where_there_is_none_yet) {
    const auto reader = expect_marked(t, 3);
    write(t);
    load_marked(t, 1);
    const auto wanted = load_marked(t, 3);
    load_marked(t, 3);
    EXPECT_EQ(waits(reader), Set{wanted});
}

TEST_F(Data, expect_value_waits_in_gm_too) {
    LoadOptions options;
    options.expect_value = 0;
    const auto reader = model.load(Tensor(Memory::UB), source, options);
    EXPECT_TRUE(starved(reader));
}

TEST_F(Data, a_version_once_marked_can_be_expected_though_overwritten) {
    const auto marked = load_marked(t, 1);
    write(t);
    EXPECT_EQ(waits(expect_marked(t, 1)), Set{marked});
}

TEST_F(Data, marks_are_of_regions) {
    const auto upper = load_marked(rows(t, 0, 8), 1);
    const Tensor lower_half = rows(t, 4, 8);
    LoadOptions mark;
    mark.set_value = 1;
    const auto lower = model.load(lower_half, rows(source, 0, 4), mark);
    const auto above = expect_marked(rows(t, 0, 2), 1), below = expect_marked(rows(t, 6, 8), 1);
    EXPECT_EQ(waits(above), Set{upper});
    EXPECT_EQ(waits(below), Set{lower});
}

TEST_F(Data, a_mark_of_another_part_serves_no_wait) {
    const auto reader = expect_marked(rows(t, 0, 4), 5);
    LoadOptions mark;
    mark.set_value = 5;
    model.load(rows(t, 4, 8), rows(source, 0, 4), mark);
    const auto wanted = model.load(rows(t, 3, 5), rows(source, 0, 2), mark);
    EXPECT_EQ(waits(reader), Set{wanted});
}

TEST_F(Data, set_valid_forgets_marks) {
    load_marked(t, 1);
    model.program->set_ready(t, true);
    const auto reader = expect_marked(t, 1);
    const auto next = load_marked(t, 1);
    EXPECT_EQ(waits(reader), Set{next});
}

// --- shapes, formats and storages ---

TEST_F(Data, a_tensor_without_a_shape_is_written_as_a_whole) {
    Tensor later(Memory::UB);
    const auto writer = model.load(later, source);
    EXPECT_EQ(waits(read(later)), Set{writer});
}

TEST_F(Data, a_write_that_changes_the_shape_hides_all_earlier_parts) {
    for (int row = 0; row < 8; ++row) write(rows(t, row, row + 1));
    Tensor x = tensor(Memory::UB, {128}, DType::FP16, true), out = t;
    model.issue("vabs", {&x, &out});
    const auto writer = model.last();
    const auto reader = read(rows(t, 100, 101));
    const auto part = write(rows(t, 0, 64));
    const auto whole = read(t);
    EXPECT_EQ(waits(reader), Set{writer});
    EXPECT_EQ(waits(whole), (Set{writer, part}));
}

TEST_F(Data, a_whole_write_of_another_shape_serves_earlier_waits) {
    const auto reader = read(rows(t, 2, 3));
    Tensor x = tensor(Memory::UB, {128}, DType::FP16, true), out = t;
    model.issue("vabs", {&x, &out});
    EXPECT_EQ(waits(reader), Set{model.last()});
}

TEST_F(Data, messages_know_the_latest_shape) {
    Tensor x = tensor(Memory::UB, {128}, DType::FP32, true), out = t;
    model.issue("vabs", {&x, &out});
    const auto reader = read(t);
    model.program->finish();
    model.program->each_dependency(reader, [&](const Dependency& d) {
        EXPECT_EQ(model.program->tensor_text(d.tensor), "UB tensor [128] FP32");
        EXPECT_EQ(model.program->tensor(d.tensor).memory, Memory::UB);
    });
}

TEST_F(Data, tensors_of_equal_shape_are_not_one) {
    const Tensor other = tensor(Memory::UB, {8, 16});
    const auto writer = write(t);
    write(other);
    EXPECT_EQ(waits(read(t)), Set{writer});
}

TEST_F(Data, many_tiles_are_found_as_few_are) {
    const Tensor big = tensor(Memory::GM, {64, 64});
    const auto tile = [&](int row, int column) {
        return big.slice({Index::range(row * 4, row * 4 + 4), Index::range(column * 4, column * 4 + 4)});
    };
    std::vector<std::uint32_t> writers;
    for (int i = 0; i < 256; ++i) writers.push_back(write(tile(i / 16, i % 16)));
    const auto one = read(tile(3, 5));
    const auto four = read(big.slice({Index::range(2, 6), Index::range(2, 6)}));
    const auto all = read(big);
    const auto row = write(rows(big, 4, 8));  // hides tiles 16 to 31
    const auto again = read(tile(1, 7)), border = read(rows(big, 7, 9));
    EXPECT_EQ(waits(one), Set{writers[53]});
    EXPECT_EQ(waits(four), (Set{writers[0], writers[1], writers[16], writers[17]}));
    EXPECT_EQ(waits(all), Set(writers.begin(), writers.end()));
    EXPECT_EQ(waits(again), Set{row});
    Set expected{row};
    expected.insert(writers.begin() + 32, writers.begin() + 48);
    EXPECT_EQ(waits(border), expected);
}

TEST_F(Data, many_waits_are_served_as_few_are) {
    const Tensor big = tensor(Memory::UB, {64, 64});
    std::vector<std::uint32_t> readers;
    for (int i = 0; i < 64; ++i) readers.push_back(read(rows(big, i, i + 1)));
    const auto upper = write(rows(big, 0, 32));
    const auto left = write(big.slice({Index::range({}, {}), Index::range(0, 32)}));
    const auto right = write(big.slice({Index::range({}, {}), Index::range(32, 64)}));
    for (int i = 0; i < 64; ++i) {
        const Set wanted = i < 32 ? Set{upper} : Set{left, right};
        EXPECT_EQ(waits(readers[static_cast<std::size_t>(i)]), wanted) << i;
    }
}

// --- a tensor in several programs ---

TEST(TwoPrograms, share_the_type_of_a_tensor_and_nothing_else) {
    Model a, b;
    Tensor t(Memory::UB);
    const Tensor source = tensor(Memory::GM, {8});
    const auto writer = a.load(t, source);
    const auto waiting = b.own(Pipe::V, 1, {t}, {});  // b has not written it
    const auto reader = a.own(Pipe::V, 1, {t}, {});
    EXPECT_TRUE(a.program->has_value(t));
    EXPECT_FALSE(b.program->has_value(t));
    EXPECT_EQ(t.shape().text(), "[8]");
    b.own(Pipe::S, 1);
    const auto other = b.own(Pipe::MTE2, 1, {}, {t});
    EXPECT_EQ(a.waits(reader), Set{writer});
    EXPECT_EQ(b.waits(waiting), Set{other});
}

TEST(TwoPrograms, may_use_a_tensor_by_turns) {
    std::vector<std::unique_ptr<Model>> models;
    for (int i = 0; i < 4; ++i) models.push_back(std::make_unique<Model>());
    const Tensor t = tensor(Memory::UB, {8});
    std::vector<std::uint32_t> writers(4), readers(4);
    for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < 4; ++i) {
            for (std::size_t n = 0; n < i; ++n) models[i]->own(Pipe::S, 1);  // numbers differ from program to program
            writers[i] = models[i]->own(Pipe::MTE2, 1, {}, {t});
        }
    for (std::size_t i = 0; i < 4; ++i) readers[i] = models[i]->own(Pipe::V, 1, {t}, {});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(models[i]->waits(readers[i]), Set{writers[i]});
}

TEST(TwoPrograms, one_may_die_first) {
    const Tensor t = tensor(Memory::UB, {8});
    Model lasting;
    const auto writer = lasting.own(Pipe::MTE2, 1, {}, {t});
    for (int i = 0; i < 50; ++i) {
        Model passing;
        passing.own(Pipe::MTE2, 1, {}, {t});
        EXPECT_TRUE(passing.program->has_value(t));
    }
    Model fresh;  // maybe where a dead one was
    EXPECT_FALSE(fresh.program->has_value(t));
    const auto reader = lasting.own(Pipe::V, 1, {t}, {});
    EXPECT_EQ(lasting.waits(reader), Set{writer});
}

TEST(TwoPrograms, set_valid_belongs_to_one) {
    const Tensor t = tensor(Memory::UB, {8});
    Model a, b;
    a.program->set_ready(t, true);
    EXPECT_TRUE(a.program->has_value(t));
    EXPECT_FALSE(b.program->has_value(t));
}

// dtype, shape and format stay with a tensor, so another program may change the shape; who wrote it here does not
// change.
TEST(TwoPrograms, one_may_change_the_shape_of_what_the_other_wrote) {
    Model a, b;
    Tensor t = tensor(Memory::UB, {2, 64}), x = tensor(Memory::UB, {128}, DType::FP16, true);
    const auto upper = a.own(Pipe::MTE2, 1, {}, {rows(t, 0, 1)}), lower = a.own(Pipe::MTE2, 1, {}, {rows(t, 1, 2)});
    b.issue("vabs", {&x, &t});
    EXPECT_EQ(t.shape().text(), "[128]");
    EXPECT_EQ(a.waits(a.own(Pipe::V, 1, {t}, {})), (Set{upper, lower}));
}

}  // namespace
}  // namespace mskpp::test
