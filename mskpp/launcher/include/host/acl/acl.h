// SPDX-License-Identifier: Apache-2.0
// AscendCL as far as a kernel's own program needs it, on the CPU: the "device" is this process, a stream is done as soon
// as it is given something, device memory is ordinary memory. For programs with a main() that is to run anywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using aclError = int;
using aclrtStream = void*;
using aclrtContext = void*;
using aclrtEvent = void*;

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;

enum aclrtMemcpyKind { ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE };
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY };

inline aclError aclInit(const char*) { return ACL_SUCCESS; }
inline aclError aclFinalize() { return ACL_SUCCESS; }
inline aclError aclrtSetDevice(std::int32_t device) { return device >= 0 ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM; }
inline aclError aclrtResetDevice(std::int32_t) { return ACL_SUCCESS; }
inline aclError aclrtGetDevice(std::int32_t* device) { return *device = 0, ACL_SUCCESS; }
inline aclError aclrtGetDeviceCount(std::uint32_t* count) { return *count = 1, ACL_SUCCESS; }
inline aclError aclrtCreateContext(aclrtContext* context, std::int32_t) { return *context = nullptr, ACL_SUCCESS; }
inline aclError aclrtDestroyContext(aclrtContext) { return ACL_SUCCESS; }
inline aclError aclrtCreateStream(aclrtStream* stream) { return *stream = nullptr, ACL_SUCCESS; }
inline aclError aclrtDestroyStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtDestroyStreamForce(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStream(aclrtStream) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeStreamWithTimeout(aclrtStream, std::int32_t) { return ACL_SUCCESS; }
inline aclError aclrtSynchronizeDevice() { return ACL_SUCCESS; }
inline const char* aclGetRecentErrMsg() { return ""; }

inline aclError aclrtMallocHost(void** memory, std::size_t bytes) {
    *memory = bytes == 0 ? nullptr : std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    return *memory != nullptr ? ACL_SUCCESS : bytes == 0 ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_BAD_ALLOC;
}
inline aclError aclrtMalloc(void** memory, std::size_t bytes, aclrtMemMallocPolicy) { return aclrtMallocHost(memory, bytes); }
inline aclError aclrtFree(void* memory) { return std::free(memory), ACL_SUCCESS; }
inline aclError aclrtFreeHost(void* memory) { return std::free(memory), ACL_SUCCESS; }
inline aclError aclrtMemset(void* memory, std::size_t most, std::int32_t value, std::size_t count) {
    if (count > most) return ACL_ERROR_INVALID_PARAM;
    return std::memset(memory, value, count), ACL_SUCCESS;
}
inline aclError aclrtMemcpy(void* to, std::size_t most, const void* from, std::size_t count, aclrtMemcpyKind) {
    if (count > most) return ACL_ERROR_INVALID_PARAM;
    return std::memcpy(to, from, count), ACL_SUCCESS;
}
inline aclError aclrtMemcpyAsync(void* to, std::size_t most, const void* from, std::size_t count, aclrtMemcpyKind kind,
                                 aclrtStream) {
    return aclrtMemcpy(to, most, from, count, kind);
}

// An event is the moment it was recorded at.
inline aclError aclrtCreateEvent(aclrtEvent* event) { return *event = new std::chrono::steady_clock::time_point(), ACL_SUCCESS; }
inline aclError aclrtDestroyEvent(aclrtEvent event) {
    return delete static_cast<std::chrono::steady_clock::time_point*>(event), ACL_SUCCESS;
}
inline aclError aclrtRecordEvent(aclrtEvent event, aclrtStream) {
    *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now();
    return ACL_SUCCESS;
}
inline aclError aclrtSynchronizeEvent(aclrtEvent) { return ACL_SUCCESS; }
inline aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
    using Point = std::chrono::steady_clock::time_point;
    *milliseconds = std::chrono::duration<float, std::milli>(*static_cast<Point*>(end) - *static_cast<Point*>(start)).count();
    return ACL_SUCCESS;
}
