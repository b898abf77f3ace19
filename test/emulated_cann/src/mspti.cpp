// SPDX-License-Identifier: Apache-2.0
// libmspti.so: records of the kernels that the emulated runtime ran. It hears of none when it was loaded after aclInit.
//   EMULATED_CANN_RECORDS=reversed   later kernels come first
//   EMULATED_CANN_RECORDS=drop:N     the last N records of each flush are lost
//   EMULATED_CANN_RECORDS=memset     each aclrtMemset leaves a record of its own kind, and one of a kernel MemSet
#include "mspti/mspti.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device.h"

using namespace emulated;

namespace {

constexpr size_t kLeastBuffer = 2u << 20;

struct Monitor {
    std::mutex mutex;
    void* subscriber = nullptr;
    bool enabled[MSPTI_ACTIVITY_KIND_COUNT] = {};
    void (*request)(uint8_t**, size_t*, size_t*) = nullptr;
    void (*complete)(uint8_t*, size_t, size_t) = nullptr;
    std::vector<KernelRecord> waiting;
    std::set<std::string> names;  // kept, as records point to them
};

Monitor& monitor() {
    static Monitor* const only = new Monitor;
    return *only;
}

void hear(const KernelRecord& record) {
    Monitor& now = monitor();
    const std::lock_guard lock(now.mutex);
    if (now.enabled[MSPTI_ACTIVITY_KIND_KERNEL]) now.waiting.push_back(record);
}

const bool listening = [] {
    listen(hear);
    return true;
}();

// Hands the records over in buffers of the subscriber, as the real library from a thread of its own.
int deliver() {
    Monitor& now = monitor();
    std::vector<msptiActivityKernel> records;
    decltype(now.request) request = nullptr;
    decltype(now.complete) complete = nullptr;
    {
        const std::lock_guard lock(now.mutex);
        request = now.request;
        complete = now.complete;
        if (request == nullptr || complete == nullptr) return MSPTI_SUCCESS;
        for (const KernelRecord& one : now.waiting) {
            msptiActivityKernel record{};
            // Of a record of another kind only the kind and the place of the next one count.
            record.kind = one.memset ? MSPTI_ACTIVITY_KIND_MEMSET : MSPTI_ACTIVITY_KIND_KERNEL;
            record.start = one.start;
            record.end = one.end;
            record.ds.deviceId = one.device;
            record.ds.streamId = one.stream;
            record.correlationId = one.correlation;
            record.type = now.names.insert("AI_CORE").first->c_str();
            record.name = now.names.insert(one.name).first->c_str();
            records.push_back(record);
        }
        now.waiting.clear();
    }
    const std::string wish = setting("EMULATED_CANN_RECORDS");
    if (wish == "reversed") std::reverse(records.begin(), records.end());
    if (wish.rfind("drop:", 0) == 0) {
        records.resize(records.size() - std::min<size_t>(records.size(), std::strtoull(wish.c_str() + 5, nullptr, 10)));
    }
    for (size_t done = 0; done < records.size();) {
        uint8_t* buffer = nullptr;
        size_t size = 0;
        size_t most = 0;
        request(&buffer, &size, &most);
        if (buffer == nullptr || size < kLeastBuffer || reinterpret_cast<uintptr_t>(buffer) % 8 != 0) {
            return MSPTI_ERROR_INNER;
        }
        size_t count = std::min(records.size() - done, size / sizeof(msptiActivityKernel));
        if (most != 0) count = std::min(count, most);
        std::memcpy(buffer, &records[done], count * sizeof(msptiActivityKernel));
        complete(buffer, size, count * sizeof(msptiActivityKernel));
        done += count;
    }
    return MSPTI_SUCCESS;
}

bool known(uint32_t kind) { return kind > MSPTI_ACTIVITY_KIND_INVALID && kind < MSPTI_ACTIVITY_KIND_COUNT; }

template <class Body>
msptiResult result(const char* function, const std::string& arguments, Body&& body) {
    return static_cast<msptiResult>(call(function, arguments, std::forward<Body>(body)));
}

}  // namespace

extern "C" {

EMULATED_API msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc, void*) {
    return result("msptiSubscribe", "", [&]() -> int {
        Monitor& now = monitor();
        const std::lock_guard lock(now.mutex);
        if (subscriber == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
        if (now.subscriber != nullptr) return MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
        now.subscriber = &now;
        *subscriber = now.subscriber;
        return MSPTI_SUCCESS;
    });
}

EMULATED_API msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber) {
    return result("msptiUnsubscribe", "", [&]() -> int {
        Monitor& now = monitor();
        const std::lock_guard lock(now.mutex);
        if (subscriber == nullptr || subscriber != now.subscriber) return MSPTI_ERROR_INVALID_PARAMETER;
        now.subscriber = nullptr;
        return MSPTI_SUCCESS;
    });
}

EMULATED_API msptiResult msptiActivityRegisterCallbacks(void (*request)(uint8_t**, size_t*, size_t*),
                                                        void (*complete)(uint8_t*, size_t, size_t)) {
    return result("msptiActivityRegisterCallbacks", "", [&]() -> int {
        Monitor& now = monitor();
        const std::lock_guard lock(now.mutex);
        if (request == nullptr || complete == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
        now.request = request;
        now.complete = complete;
        return MSPTI_SUCCESS;
    });
}

EMULATED_API msptiResult msptiActivityEnable(msptiActivityKind kind) {
    return result("msptiActivityEnable", text(kind), [&]() -> int {
        Monitor& now = monitor();
        const std::lock_guard lock(now.mutex);
        if (!known(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
        now.enabled[kind] = true;
        return MSPTI_SUCCESS;
    });
}

EMULATED_API msptiResult msptiActivityDisable(msptiActivityKind kind) {
    return result("msptiActivityDisable", text(kind), [&]() -> int {
        Monitor& now = monitor();
        const std::lock_guard lock(now.mutex);
        if (!known(kind)) return MSPTI_ERROR_INVALID_PARAMETER;
        now.enabled[kind] = false;
        return MSPTI_SUCCESS;
    });
}

EMULATED_API bool msptiActivityIsEnabled(msptiActivityKind kind) {
    Monitor& now = monitor();
    const std::lock_guard lock(now.mutex);
    return known(kind) && now.enabled[kind];
}

EMULATED_API msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t valid, msptiActivity** record) {
    if (buffer == nullptr || record == nullptr) return MSPTI_ERROR_INVALID_PARAMETER;
    uint8_t* next = buffer;
    if (*record != nullptr) next = reinterpret_cast<uint8_t*>(*record) + sizeof(msptiActivityKernel);
    if (next + sizeof(msptiActivityKernel) > buffer + valid) return MSPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<msptiActivity*>(next);
    return MSPTI_SUCCESS;
}

EMULATED_API msptiResult msptiActivityFlushAll(uint32_t flag) {
    return result("msptiActivityFlushAll", text(flag), [] {
        int code = MSPTI_SUCCESS;
        std::thread([&] { code = deliver(); }).join();
        return code;
    });
}

EMULATED_API msptiResult msptiActivityFlushPeriod(uint32_t) { return MSPTI_SUCCESS; }

}  // extern "C"
