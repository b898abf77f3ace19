// SPDX-License-Identifier: Apache-2.0
// Errors a user can cause. Our own mistakes are assertions.
#pragma once

#include <stdexcept>
#include <string>

namespace mskpp {

// The closed set of kinds; the Python package maps each to an exception class of its own (mskpp/errors.py).
enum class ErrorKind {
    value,     // a value outside its range, an unknown name, shapes that do not fit
    type,      // a dtype, format or argument of the wrong type
    index,     // an index outside its axis
    data,      // a chip folder or table that cannot be used
    state,     // a call at the wrong time
    overflow,  // more cycles, bytes or elements than can be counted
    io,        // a file that cannot be read or written
    flag,      // set_flag and wait_flag that do not pair up
    deadlock,  // a program that cannot go on
};

// What every function of the library throws. The message says where, what was given, what is allowed and what to do:
// "vadd: x is FP16 [32,48] but y is INT8 [32,48]; their dtypes must agree".
class Error : public std::runtime_error {
  public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(printable(message)), kind_(kind) {}
    ErrorKind kind() const noexcept { return kind_; }

  private:
    // Without what would break a log line, a terminal or the message itself.
    static std::string printable(std::string text) {
        constexpr std::size_t longest = 8192;
        if (text.size() > longest) text.replace(longest, std::string::npos, "...");
        for (char& c : text)
            if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = '?';
        return text;
    }

    ErrorKind kind_;
};

}  // namespace mskpp
