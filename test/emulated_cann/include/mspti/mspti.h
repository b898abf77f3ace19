// SPDX-License-Identifier: Apache-2.0
// The part of the profiling interface that the emulated toolkit has, declared by its C ABI.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum msptiResult {
    MSPTI_SUCCESS = 0,
    MSPTI_ERROR_INVALID_PARAMETER = 1,
    MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 2,
    MSPTI_ERROR_MAX_LIMIT_REACHED = 3,
    MSPTI_ERROR_DEVICE_OFFLINE = 4,
    MSPTI_ERROR_QUEUE_EMPTY = 5,
    MSPTI_ERROR_WITHOUT_LD_PRELOAD = 6,
    MSPTI_ERROR_INNER = 999,
};

enum msptiActivityKind : uint32_t {
    MSPTI_ACTIVITY_KIND_INVALID = 0,
    MSPTI_ACTIVITY_KIND_MARKER = 1,
    MSPTI_ACTIVITY_KIND_KERNEL = 2,
    MSPTI_ACTIVITY_KIND_API = 3,
    MSPTI_ACTIVITY_KIND_MEMSET = 6,
    MSPTI_ACTIVITY_KIND_COUNT = 13,
};

struct msptiActivity {
    uint32_t kind;
} __attribute__((packed, aligned(8)));

struct msptiActivityKernel {
    uint32_t kind;
    uint64_t start;  // ns
    uint64_t end;
    struct {
        uint32_t deviceId;
        uint32_t streamId;
    } ds;
    uint64_t correlationId;
    const char* type;
    const char* name;
} __attribute__((packed, aligned(8)));
static_assert(sizeof(msptiActivityKernel) == 56);
static_assert(offsetof(msptiActivityKernel, correlationId) == 28 && offsetof(msptiActivityKernel, name) == 44);

using msptiSubscriberHandle = void*;
using msptiCallbackFunc = void (*)(void* userdata, uint32_t domain, uint32_t cbid, const void* cbdata);

msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc callback, void* userdata);
msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber);
msptiResult msptiActivityRegisterCallbacks(void (*request)(uint8_t** buffer, size_t* size, size_t* maxNumRecords),
                                           void (*complete)(uint8_t* buffer, size_t size, size_t validSize));
msptiResult msptiActivityEnable(msptiActivityKind kind);
msptiResult msptiActivityDisable(msptiActivityKind kind);
bool msptiActivityIsEnabled(msptiActivityKind kind);
msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validSize, msptiActivity** record);
msptiResult msptiActivityFlushAll(uint32_t flag);
msptiResult msptiActivityFlushPeriod(uint32_t milliseconds);

}  // extern "C"
