// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace mskpp::base {

namespace {

constexpr std::string_view blanks = " \t\r\n";

char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// Levenshtein distance of two short texts.
std::size_t edits(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[b.size()];
}

template <typename Number>
std::optional<Number> parse(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string upper(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), to_upper);
    return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return to_upper(x) == to_upper(y); });
}

std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> out;
    for (std::size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
        out.emplace_back(text.substr(at, end - at));
        at = text.find_first_not_of(blanks, end);
    }
    return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i != 0) out += separator;
        out += parts[i];
    }
    return out;
}

std::optional<double> to_double(std::string_view text) {
    const auto value = parse<double>(trim(text));
    return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::int64_t> to_int(std::string_view text) { return parse<std::int64_t>(trim(text)); }

std::optional<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates) {
    constexpr std::size_t longest_compared = 64;  // the cost is quadratic, and nobody mistypes a longer name
    if (text.empty() || text.size() > longest_compared) return std::nullopt;
    const std::string wanted = upper(text);
    constexpr std::size_t shortest_start = 3;
    for (const std::string& candidate : candidates)
        if (text.size() >= shortest_start && upper(candidate).rfind(wanted, 0) == 0) return candidate;
    for (const std::string& candidate : candidates) {  // the last word of a name: MTE2 of PIPE-MTE2
        const std::size_t dash = candidate.rfind('-');
        if (dash != std::string::npos && upper(candidate).substr(dash + 1) == wanted) return candidate;
    }
    std::size_t best = std::max<std::size_t>(1, text.size() / 3) + 1;
    std::optional<std::string> found;
    for (const std::string& candidate : candidates) {
        if (candidate.size() > longest_compared) continue;
        const std::size_t distance = edits(wanted, upper(candidate));
        if (distance < best) {
            best = distance;
            found = candidate;
        }
    }
    return found;
}

std::string suggestion(std::string_view text, const std::vector<std::string>& candidates) {
    const auto found = nearest(text, candidates);
    return found ? concat("; did you mean '", *found, "'?") : std::string(".");
}

}  // namespace mskpp::base
