// SPDX-License-Identifier: Apache-2.0
// The call log and the injected failures of the emulated toolkit.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#define EMULATED_API __attribute__((visibility("default")))

namespace emulated {

// Error codes of AscendCL and the runtime that the emulation answers with.
enum Code : int {
    kSuccess = 0,
    kInvalidParam = 100000,
    kUninitialized = 100001,
    kRepeatInitialize = 100002,
    kRepeatFinalize = 100037,
    kRtParamInvalid = 107000,
    kInvalidDevice = 107001,
    kContextNull = 107002,
    kStreamContext = 107003,
    kInvalidHandle = 107017,
    kBadAlloc = 200000,
    kWaitTimeout = 107019,
    kKernelException = 507015,
    kDriverInternal = 507899,
    kStreamSyncTimeout = 507046,
};

// The environment is read at each use, so that a test can change it within one process.
inline std::string setting(const char* name, const char* otherwise = "") {
    const char* value = std::getenv(name);
    return value != nullptr ? value : otherwise;
}

template <class... Parts>
std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

// The text that aclGetRecentErrMsg gives once in this thread.
EMULATED_API void setMessage(std::string message);
EMULATED_API const char* takeMessage();

// Appends one line to the file EMULATED_CANN_LOG, if that is set.
EMULATED_API void log(const std::string& line);

// The code that EMULATED_CANN_FAIL wants from this call of the function (counted from 1), or 0.
EMULATED_API int injected(const char* function);

// Runs one function of the API: an injected failure instead of the body, a log line in each case.
template <class Body>
int call(const char* function, const std::string& arguments, Body&& body) {
    int code = injected(function);
    if (code != 0) {
        setMessage(text("emulated toolkit: ", function, " was told to fail with ", code));
    } else {
        code = std::forward<Body>(body)();
    }
    log(text(function, "(", arguments, ") = ", code));
    return code;
}

inline int fail(int code, std::string message) {
    setMessage("emulated toolkit: " + std::move(message));
    return code;
}

}  // namespace emulated
