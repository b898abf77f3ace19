// SPDX-License-Identifier: Apache-2.0
#include "base/csv.h"
#include "base/curve.h"
#include "base/text.h"
#include "fixture.h"

namespace mskpp::test {
namespace {

using base::Csv;
using base::Curve;

TEST(Text, concat_prints_as_streams_do) { EXPECT_EQ(base::concat("a", 1, ' ', 2.5, std::string("b")), "a1 2.5b"); }

TEST(Text, trim_takes_blanks_of_both_ends_only) {
    EXPECT_EQ(base::trim(" \t a b\r\n"), "a b");
    EXPECT_EQ(base::trim("a"), "a");
    EXPECT_EQ(base::trim(" \t\r\n"), "");
    EXPECT_EQ(base::trim(""), "");
}

TEST(Text, upper_changes_ascii_letters_only) { EXPECT_EQ(base::upper("aZ09_\xC3\xA9"), "AZ09_\xC3\xA9"); }

TEST(Text, equal_ignoring_case_compares_whole_texts) {
    EXPECT_TRUE(base::equal_ignoring_case("Fp16", "fP16"));
    EXPECT_TRUE(base::equal_ignoring_case("", ""));
    EXPECT_FALSE(base::equal_ignoring_case("fp16", "fp1"));
    EXPECT_FALSE(base::equal_ignoring_case("fp1", "fp16"));
    EXPECT_FALSE(base::equal_ignoring_case("fp16", "fp32"));
}

TEST(Text, words_are_split_at_any_run_of_blanks) {
    EXPECT_EQ(base::words("  FP16\tFP32 \n x "), (std::vector<std::string>{"FP16", "FP32", "x"}));
    EXPECT_EQ(base::words("one"), std::vector<std::string>{"one"});
    EXPECT_TRUE(base::words(" \t ").empty());
    EXPECT_TRUE(base::words("").empty());
}

TEST(Text, join_puts_the_separator_between) {
    EXPECT_EQ(base::join({"a", "b", "c"}, ", "), "a, b, c");
    EXPECT_EQ(base::join({"a"}, ", "), "a");
    EXPECT_EQ(base::join({}, ", "), "");
}

TEST(Text, to_double_takes_whole_finite_numbers) {
    EXPECT_EQ(base::to_double(" 1.5 "), 1.5);
    EXPECT_EQ(base::to_double("-2e3"), -2000.0);
    EXPECT_EQ(base::to_double("0"), 0.0);
    for (const char* text : {"", " ", "x", "1x", "1 2", "nan", "inf", "-inf", "1e999", "0x10", "1,5"})
        EXPECT_FALSE(base::to_double(text)) << text;
}

TEST(Text, to_int_takes_whole_numbers_of_64_bits) {
    EXPECT_EQ(base::to_int(" -42\n"), -42);
    EXPECT_EQ(base::to_int("9223372036854775807"), INT64_MAX);
    for (const char* text : {"", "1.0", "9223372036854775808", "one", "7 8"}) EXPECT_FALSE(base::to_int(text)) << text;
}

TEST(Text, nearest_is_the_fewest_edits_with_case_ignored) {
    const std::vector<std::string> chips = {"Ascend910B1", "Ascend910B2", "Ascend950PR_9589"};
    EXPECT_EQ(base::nearest("ascend910b9", chips), "Ascend910B1");  // one edit from both, the first one wins
    EXPECT_EQ(base::nearest("Ascend910B2x", chips), "Ascend910B2");
    EXPECT_EQ(base::nearest("Ascend95PR_9589", chips), "Ascend950PR_9589");
    EXPECT_EQ(base::nearest("ASCEND910B2", chips), "Ascend910B2");
}

TEST(Text, nearest_allows_a_third_of_the_letters_and_at_least_one) {
    EXPECT_EQ(base::nearest("abc", {"abd"}), "abd");
    EXPECT_EQ(base::nearest("mte2", {"PIPE-MTE1", "PIPE-MTE2"}), "PIPE-MTE2");  // the last word is enough
    EXPECT_FALSE(base::nearest("abc", {"ade"}));                                // 2 edits of 3 letters
    EXPECT_EQ(base::nearest("abcdef", {"abcdxy"}), "abcdxy");
    EXPECT_FALSE(base::nearest("abcdef", {"abcxyz"}));  // 3 edits of 6 letters
    EXPECT_EQ(base::nearest("a", {"b"}), "b");
    EXPECT_EQ(base::nearest("kitten", {"mitten"}), "mitten");
}

TEST(Text, nearest_takes_a_name_of_which_three_letters_or_more_are_the_beginning) {
    EXPECT_EQ(base::nearest("asc", {"Descend", "Ascend910B1", "Ascend910B2"}), "Ascend910B1");
    EXPECT_EQ(base::nearest("PIPE", {"PIPE-MTE1", "PIPS"}), "PIPE-MTE1");  // before what has fewer edits
    EXPECT_FALSE(base::nearest("As", {"Ascend910B1"}));
}

TEST(Text, nearest_looks_at_no_endless_names) {
    const std::string longest(64, 'a'), longer(65, 'a');
    EXPECT_EQ(base::nearest(longest, {longest}), longest);
    EXPECT_FALSE(base::nearest(longer, {longer}));
    EXPECT_FALSE(base::nearest("b" + longest.substr(1), {longer}));
    EXPECT_FALSE(base::nearest("", {"a"}));
    EXPECT_FALSE(base::nearest("a", {}));
}

TEST(Text, suggestion_is_a_piece_of_a_message) {
    EXPECT_EQ(base::suggestion("GN", {"GM", "UB"}), "; did you mean 'GM'?");
    EXPECT_EQ(base::suggestion("register", {"GM", "UB"}), ".");
}

TEST(Curve, is_read_by_linear_interpolation) {
    Curve curve;
    EXPECT_TRUE(curve.empty());
    EXPECT_TRUE(curve.add(100, 10));
    EXPECT_TRUE(curve.add(200, 30));
    EXPECT_TRUE(curve.add(400, 20));
    EXPECT_FALSE(curve.empty());
    EXPECT_EQ(curve.last_x(), 400);
    EXPECT_EQ(curve.largest_y(), 30);

    // 10 + (150-100)/(200-100) * (30-10) = 20; 30 + (250-200)/(400-200) * (20-30) = 27.5
    EXPECT_DOUBLE_EQ(curve.at(150).y, 20);
    EXPECT_DOUBLE_EQ(curve.at(250).y, 27.5);
    EXPECT_EQ(curve.at(250).position, Curve::Position::between);
    EXPECT_EQ(curve.at(250).x, 250);
    for (const auto& [x, y] : {std::pair{100.0, 10.0}, {200.0, 30.0}, {400.0, 20.0}}) {
        EXPECT_EQ(curve.at(x).y, y);
        EXPECT_EQ(curve.at(x).position, Curve::Position::on_point);
    }
}

TEST(Curve, work_below_the_first_point_is_that_points_work) {
    Curve curve;
    curve.add(100, 10);
    curve.add(200, 30);
    const Curve::Reading below = curve.at(1);
    EXPECT_EQ(below.x, 100);
    EXPECT_EQ(below.y, 10);
    EXPECT_EQ(below.position, Curve::Position::below);
    const Curve::Reading beyond = curve.at(1000);
    EXPECT_EQ(beyond.x, 1000);
    EXPECT_EQ(beyond.y, 30);
    EXPECT_EQ(beyond.position, Curve::Position::beyond);
}

TEST(Curve, refuses_points_that_do_not_grow) {
    Curve curve;
    curve.add(100, 10);
    EXPECT_FALSE(curve.add(100, 99));
    EXPECT_FALSE(curve.add(50, 99));
    EXPECT_EQ(curve.last_x(), 100);
    EXPECT_EQ(curve.largest_y(), 10);
    EXPECT_EQ(curve.at(100).y, 10);
}

class CsvTest : public testing::Test {
  protected:
    Csv read(const std::string& text, const std::vector<std::string>& required = {}) {
        return Csv(folder_.write("chip/table.csv", text), required);
    }
    std::string failure(const std::string& text, const std::vector<std::string>& required = {}) {
        return error(ErrorKind::data, [&] { read(text, required); });
    }
    TempFolder folder_;
};

TEST_F(CsvTest, reads_quotes_comments_blank_lines_crlf_and_a_byte_order_mark) {
    const Csv table =
        read("\xEF\xBB\xBF# heading\r\nname, value ,note\r\n\r\na, 1 ,\"x, \"\"y\"\"\"\r\n# between\r\nb,2,z");
    ASSERT_EQ(table.rows().size(), 2u);
    EXPECT_EQ(table.text(table.rows()[0], "name"), "a");
    EXPECT_EQ(table.number(table.rows()[0], "value"), 1);
    EXPECT_EQ(table.text(table.rows()[0], "note"), "x, \"y\"");
    EXPECT_EQ(table.text(table.rows()[1], "note"), "z");
    EXPECT_EQ(table.rows()[0].line, 4);
    EXPECT_EQ(table.rows()[1].line, 6);
}

TEST_F(CsvTest, a_quoted_line_end_belongs_to_its_cell_and_counts_as_a_line) {
    const Csv table = read("name,note\na,\"two\nlines\"\nb,x\n");
    ASSERT_EQ(table.rows().size(), 2u);
    EXPECT_EQ(table.text(table.rows()[0], "note"), "two\nlines");
    EXPECT_EQ(table.rows()[0].line, 2);
    EXPECT_EQ(table.rows()[1].line, 4);
}

TEST_F(CsvTest, a_comment_may_be_the_last_line_without_an_end) {
    EXPECT_EQ(read("name\na\n# end").rows().size(), 1u);
    EXPECT_TRUE(read("# nothing but a comment").rows().empty());
}

TEST_F(CsvTest, a_sign_of_a_comment_inside_a_row_is_text) {
    const Csv table = read("name,note\na,#1\n");
    EXPECT_EQ(table.text(table.rows()[0], "note"), "#1");
}

TEST_F(CsvTest, places_name_the_folder_the_file_and_the_line) {
    const Csv table = read("name\na\n");
    EXPECT_EQ(table.place(table.rows()[0]), "chip/table.csv:2");
    EXPECT_EQ(error(ErrorKind::data, [&] { table.fail(table.rows()[0], "is odd"); }), "data: chip/table.csv:2: is odd");
}

TEST_F(CsvTest, rows_have_as_many_cells_as_the_header) {
    EXPECT_EQ(failure("a,b\n1,2\n1\n"), "data: chip/table.csv:3: has 1 cells, the header has 2");
    EXPECT_EQ(failure("a,b\n1,2,3\n"), "data: chip/table.csv:2: has 3 cells, the header has 2");
}

TEST_F(CsvTest, a_missing_column_is_named_with_those_there_are) {
    EXPECT_EQ(failure("key,valve\n", {"key", "value"}),
              "data: chip/table.csv has no column 'value'; it has key, valve, it needs key, value");
    EXPECT_EQ(failure("", {"key"}), "data: chip/table.csv has no column 'key'; it has none, it needs key");
}

TEST_F(CsvTest, numbers_are_finite_and_above_zero) {
    const Csv table = read("rate\n0\n-1\nfast\nnan\n\"\"\n1e-3\n");
    const auto message = [&](std::size_t row) {
        return error(ErrorKind::data, [&] { table.number(table.rows()[row], "rate"); });
    };
    EXPECT_EQ(message(0), "data: chip/table.csv:2: rate is '0'; it must be a finite number above 0");
    EXPECT_EQ(message(1), "data: chip/table.csv:3: rate is '-1'; it must be a finite number above 0");
    EXPECT_EQ(message(2), "data: chip/table.csv:4: rate is 'fast'; it must be a finite number above 0");
    EXPECT_EQ(message(3), "data: chip/table.csv:5: rate is 'nan'; it must be a finite number above 0");
    EXPECT_EQ(table.number(table.rows().back(), "rate"), 1e-3);
}

TEST_F(CsvTest, a_missing_file_and_a_folder_are_no_tables) {
    EXPECT_EQ(error(ErrorKind::io, [&] { Csv(folder_.path() / "none.csv", {}); }),
              "data: " + folder_.path().filename().string() + "/none.csv is missing or not a regular file");
    fs::create_directory(folder_.path() / "dir.csv");
    EXPECT_TRUE(has(error(ErrorKind::io, [&] { Csv(folder_.path() / "dir.csv", {}); }),
                    "/dir.csv is missing or not a regular file"));
}

TEST_F(CsvTest, a_huge_file_is_refused_before_it_is_read) {
    const fs::path file = folder_.write("chip/huge.csv", "a\n");
    fs::resize_file(file, (std::uintmax_t{64} << 20) + 1);  // a hole: it takes no space
    EXPECT_EQ(error(ErrorKind::data, [&] { Csv(file, {}); }),
              "data: chip/huge.csv is larger than 64 MiB; a table has a few thousand rows");
}

}  // namespace
}  // namespace mskpp::test
