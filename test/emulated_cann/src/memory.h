// SPDX-License-Identifier: Apache-2.0
// The memory of the emulated devices: a heap of its own, of which each byte is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "faults.h"

namespace emulated {

// Fresh memory holds this, so that a kernel which reads what nobody wrote gives a wrong result.
constexpr unsigned char kFresh = 0xA5;

// Layout of an allocation: guard page | red zone | data | red zone | guard page. Kernels that leave their memory hit a
// red zone, seen at the next synchronize or free, or a guard page, seen at once.

EMULATED_API int allocate(int device, size_t bytes, bool host, void** out);
EMULATED_API int release(void* address, bool host);

// Checks and does a copy; kinds as in aclrtMemcpyKind.
EMULATED_API int copy(void* to, size_t room, const void* from, size_t bytes, int kind, bool check_only);

// Checks and does what aclrtMemset does; device memory only.
EMULATED_API int fill(void* to, size_t room, int value, size_t bytes);

// Whether the address lies in live device memory of the device.
EMULATED_API bool isDeviceMemory(const void* address, int device);

// The first allocation of the device whose red zone was written to, as a text; empty when all are whole.
EMULATED_API std::string damage(int device);

EMULATED_API void releaseAll(int device);
EMULATED_API size_t liveAllocations(int device);

}  // namespace emulated
