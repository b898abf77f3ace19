// SPDX-License-Identifier: Apache-2.0
// Reading of comma-separated tables: RFC 4180 quoting, '#' comment lines, a byte order mark and CRLF are accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mskpp::base {

// A table read whole. Every row has a cell for every column of the header.
class Csv {
  public:
    struct Row {
        int line;  // 1-based line of the file
        std::vector<std::string> cells;
    };

    // Error (io) when the file cannot be read, (data) naming file and line when it is no table or lacks a column.
    Csv(const std::filesystem::path& file, const std::vector<std::string>& required_columns);

    const std::vector<Row>& rows() const { return rows_; }
    const std::string& text(const Row& row, std::string_view column) const { return row.cells[index(column)]; }
    double number(const Row& row, std::string_view column) const;  // Error (data) unless finite and > 0

    // "mov.csv:17" for messages; only the folder and name, never the whole path.
    std::string place(const Row& row) const;
    [[noreturn]] void fail(const Row& row, const std::string& what) const;

  private:
    std::size_t index(std::string_view column) const;

    std::string name_;
    std::vector<std::string> header_;
    std::vector<Row> rows_;
};

}  // namespace mskpp::base
