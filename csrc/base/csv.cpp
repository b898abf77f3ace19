// SPDX-License-Identifier: Apache-2.0
#include "base/csv.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "mskpp/error.h"

namespace mskpp::base {

namespace {

constexpr std::uintmax_t largest_file_bytes = 64u << 20;

std::string read_file(const std::filesystem::path& file, const std::string& name) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error))
        throw Error(ErrorKind::io, concat("data: ", name, " is missing or not a regular file"));
    if (std::filesystem::file_size(file, error) > largest_file_bytes)
        throw Error(ErrorKind::data, concat("data: ", name, " is larger than 64 MiB; a table has a few thousand rows"));
    std::ifstream in(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in) throw Error(ErrorKind::io, concat("data: ", name, " cannot be read; check its permissions"));
    if (text.rfind("\xEF\xBB\xBF", 0) == 0) text.erase(0, 3);
    return text;
}

// Splits one record, starting at `at`; moves `at` behind its line end and counts the lines passed.
std::vector<std::string> take_record(const std::string& text, std::size_t& at, int& line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\n') ++line;
        if (quoted) {
            if (c != '"') {
                cells.back() += c;
            } else if (at + 1 < text.size() && text[at + 1] == '"') {
                cells.back() += c;
                ++at;
            } else {
                quoted = false;
            }
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            cells.emplace_back();
        } else if (c == '\n') {
            ++at;
            return cells;
        } else if (c != '\r') {
            cells.back() += c;
        }
    }
    if (quoted) cells.clear();  // the quote never ends
    return cells;
}

}  // namespace

Csv::Csv(const std::filesystem::path& file, const std::vector<std::string>& required_columns)
    : name_((file.parent_path().filename() / file.filename()).string()) {
    const std::string text = read_file(file, name_);
    int line = 1;
    for (std::size_t at = 0; at < text.size();) {
        const int first_line = line;
        if (text[at] == '#') {
            const std::size_t end = text.find('\n', at);
            at = end == std::string::npos ? text.size() : end + 1;
            ++line;
            continue;
        }
        std::vector<std::string> cells = take_record(text, at, line);
        if (cells.empty())
            throw Error(ErrorKind::data, concat("data: ", name_, ":", first_line, ": a quote that never ends"));
        for (std::string& cell : cells) cell = std::string(trim(cell));
        if (cells.size() == 1 && cells[0].empty()) continue;
        if (header_.empty()) {
            header_ = std::move(cells);
            continue;
        }
        Row row{first_line, std::move(cells)};
        if (row.cells.size() != header_.size())
            fail(row, concat("has ", row.cells.size(), " cells, the header has ", header_.size()));
        rows_.push_back(std::move(row));
    }
    for (const std::string& column : required_columns)
        if (std::find(header_.begin(), header_.end(), column) == header_.end())
            throw Error(ErrorKind::data, concat("data: ", name_, " has no column '", column, "'; it has ",
                                                header_.empty() ? "none" : join(header_, ", "), ", it needs ",
                                                join(required_columns, ", ")));
}

std::size_t Csv::index(std::string_view column) const {
    return static_cast<std::size_t>(std::find(header_.begin(), header_.end(), column) - header_.begin());
}

double Csv::number(const Row& row, std::string_view column) const {
    const auto value = to_double(text(row, column));
    if (!value || *value <= 0)
        fail(row, concat(column, " is '", text(row, column), "'; it must be a finite number above 0"));
    return *value;
}

std::string Csv::place(const Row& row) const { return concat(name_, ":", row.line); }

void Csv::fail(const Row& row, const std::string& what) const {
    throw Error(ErrorKind::data, concat("data: ", place(row), ": ", what));
}

}  // namespace mskpp::base
