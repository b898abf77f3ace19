// SPDX-License-Identifier: Apache-2.0
// Text without domain words: splitting, numbers, nearest match, messages.
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace mskpp::base {

// Everything put one after another, as operator<< prints it.
template <typename... Parts>
std::string concat(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

std::string_view trim(std::string_view text);
std::string upper(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);
std::vector<std::string> words(std::string_view text);  // split at blanks
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The whole text as a number, or nothing. Not a number and infinity are nothing.
std::optional<double> to_double(std::string_view text);
std::optional<std::int64_t> to_int(std::string_view text);

// The candidate that starts with `text`, or the one with the fewest edits from it if it is near enough to be what was
// meant; case ignored.
std::optional<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates);

// The end of a sentence about an unknown name: "; did you mean 'X'?" or ".".
std::string suggestion(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace mskpp::base
