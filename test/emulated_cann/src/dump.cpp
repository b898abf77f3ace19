// SPDX-License-Identifier: Apache-2.0
// libascend_dump.so: prints of kernels are not emulated; that somebody asked for them is logged.
#include <cstddef>

#include "device.h"
#include "faults.h"
#include "memory.h"

namespace Adx {

EMULATED_API void AdumpPrintWorkSpace(const void* workspace, const size_t bytes, void* stream, const char* op_type) {
    const bool device = emulated::isDeviceMemory(workspace, emulated::currentDevice());
    emulated::log(emulated::text("AdumpPrintWorkSpace(", workspace, ", ", bytes, ", ", stream, ", ", op_type,
                                 ") = ", device ? "printed" : "no device memory"));
}

}  // namespace Adx
