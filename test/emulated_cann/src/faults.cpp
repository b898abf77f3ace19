// SPDX-License-Identifier: Apache-2.0
#include "faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace emulated {

namespace {

thread_local std::string recent;
thread_local std::string taken;

// Which calls shall fail: function -> (number of the call, 0 for each) -> code. Read again when the setting changes.
struct Plan {
    std::mutex mutex;
    std::string setting;
    std::map<std::string, std::map<uint64_t, int>> failures;
    std::map<std::string, uint64_t> calls;

    void read(const std::string& wanted) {
        setting = wanted;
        failures.clear();
        calls.clear();
        std::istringstream entries(wanted);
        for (std::string entry; std::getline(entries, entry, ';');) {
            const size_t colon = entry.find(':');
            const size_t equals = entry.find('=');
            if (colon == std::string::npos || equals == std::string::npos || equals < colon) continue;
            const std::string number = entry.substr(colon + 1, equals - colon - 1);
            const uint64_t nth = number == "*" ? 0 : std::strtoull(number.c_str(), nullptr, 10);
            failures[entry.substr(0, colon)][nth] = std::atoi(entry.c_str() + equals + 1);
        }
    }
};

Plan& plan() {
    static Plan* const only = new Plan;  // never destroyed: calls may come while the process ends
    return *only;
}

}  // namespace

void setMessage(std::string message) { recent = std::move(message); }

const char* takeMessage() {
    taken = std::exchange(recent, std::string());
    return taken.empty() ? nullptr : taken.c_str();
}

void log(const std::string& line) {
    const std::string path = setting("EMULATED_CANN_LOG");
    if (path.empty()) return;
    const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    const std::string whole = line + "\n";  // one write, so that lines of several threads do not mix
    [[maybe_unused]] const ssize_t written = write(file, whole.data(), whole.size());
    close(file);
}

int injected(const char* function) {
    Plan& now = plan();
    const std::string wanted = setting("EMULATED_CANN_FAIL");
    const std::lock_guard lock(now.mutex);
    if (wanted != now.setting) now.read(wanted);
    const auto found = now.failures.find(function);
    if (found == now.failures.end()) return 0;
    const uint64_t nth = ++now.calls[function];
    for (const uint64_t which : {nth, uint64_t{0}}) {
        const auto failure = found->second.find(which);
        if (failure != found->second.end()) return failure->second;
    }
    return 0;
}

}  // namespace emulated
