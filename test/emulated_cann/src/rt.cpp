// SPDX-License-Identifier: Apache-2.0
// The C functions of libruntime.so. Built with EMULATED_WITHOUT_HANDLE_LAUNCH it is a toolkit that has dropped
// rtKernelLaunchWithHandleV2.
#include "runtime/rt.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "device.h"
#include "memory.h"

using namespace emulated;

namespace {

// Stubs of rtFunctionRegister: the address or name that stands for a kernel -> the kernel.
struct Stubs {
    std::mutex mutex;
    std::map<const void*, Function*> functions;
    std::map<std::string, const void*> names;
};

Stubs& stubs() {
    static Stubs* const only = new Stubs;
    return *only;
}

int registerBinary(const rtDevBinary_t* binary, void** handle) {
    if (binary == nullptr || handle == nullptr) return fail(kRtParamInvalid, "a binary needs its bytes and a handle");
    Binary* out = nullptr;
    if (binary->magic == 0) return fail(kRtParamInvalid, "the magic of the binary is 0");
    if (const int code = loadBinary(binary->data, binary->length, binary->magic, &out)) return code;
    *handle = out;
    return kSuccess;
}

std::string describe(const rtDevBinary_t* binary) {
    return binary == nullptr ? "null" : text("magic=0x", std::hex, binary->magic, std::dec, " length=", binary->length);
}

int launchWithArguments(const Function* function, uint32_t blocks, const void* arguments, uint32_t size, void* stream) {
    if (size % sizeof(void*) != 0 || (size != 0 && arguments == nullptr)) {
        return fail(kRtParamInvalid, text(size, " bytes of arguments"));
    }
    std::vector<void*> values(size / sizeof(void*));
    if (size != 0) std::memcpy(values.data(), arguments, size);
    // A mixed kernel of a 910B gets the address of the cores' shared flags before its own arguments.
    if (socName().find("Ascend910B") != std::string::npos && magicOf(function->binary) != kMagicVector) {
        if (values.empty() || reinterpret_cast<uint64_t>(values.front()) != kC2cAddress) {
            return fail(kRtParamInvalid, text("kernel ", function->name,
                                              " is mixed: its first argument must be the address of rtGetC2cCtrlAddr"));
        }
        values.erase(values.begin());
    }
    return launchFunction(function, blocks, stream, std::move(values));
}

int launchWithHandle(void* handle, uint64_t key, uint32_t blocks, const rtArgsEx_t* arguments, void* stream) {
    if (!isBinary(handle)) return fail(kInvalidHandle, text(handle, " is no registered binary"));
    if (arguments == nullptr || arguments->hasTiling > 1) return fail(kRtParamInvalid, "no arguments");
    const Function* function = findFunction(static_cast<Binary*>(handle), key);
    if (function == nullptr) return fail(kRtParamInvalid, text("the binary has no kernel of tiling key ", key));
    return launchWithArguments(function, blocks, arguments->args, arguments->argsSize, stream);
}

}  // namespace

extern "C" {

EMULATED_API rtError_t rtGetSocVersion(char* version, const uint32_t maxLen) {
    return call("rtGetSocVersion", text(maxLen), [&]() -> int {
        const std::string name = socName();
        if (version == nullptr || name.size() >= maxLen) return fail(kRtParamInvalid, "no room for the name");
        std::memcpy(version, name.c_str(), name.size() + 1);
        return kSuccess;
    });
}

EMULATED_API rtError_t rtSetDevice(int32_t device) {
    return call("rtSetDevice", text(device), [&] { return setDevice(device); });
}

EMULATED_API rtError_t rtStreamSynchronize(rtStream_t stream) {
    return call("rtStreamSynchronize", text(stream), [&] { return synchronizeStream(stream, -1); });
}

EMULATED_API rtError_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length) {
    return call("rtGetC2cCtrlAddr", "", [&]() -> int {
        if (address == nullptr || length == nullptr) return fail(kRtParamInvalid, "no place for the address");
        if (const int code = needDevice()) return code;
        *address = kC2cAddress;
        *length = 8;
        return kSuccess;
    });
}

EMULATED_API rtError_t rtDevBinaryRegister(const rtDevBinary_t* binary, void** handle) {
    return call("rtDevBinaryRegister", describe(binary), [&] { return registerBinary(binary, handle); });
}

EMULATED_API rtError_t rtRegisterAllKernel(const rtDevBinary_t* binary, void** handle) {
    return call("rtRegisterAllKernel", describe(binary), [&] { return registerBinary(binary, handle); });
}

EMULATED_API rtError_t rtDevBinaryUnRegister(void* handle) {
    return call("rtDevBinaryUnRegister", text(handle), [&] {
        return isBinary(handle) ? unloadBinary(static_cast<Binary*>(handle)) : fail(kInvalidHandle, "no binary");
    });
}

EMULATED_API rtError_t rtFunctionRegister(void* handle, const void* stub, const char* stub_name,
                                          const void* kernel_name, uint32_t mode) {
    return call("rtFunctionRegister", text(stub_name, ", ", mode), [&]() -> int {
        if (!isBinary(handle)) return fail(kInvalidHandle, "no binary");
        if (stub == nullptr || stub_name == nullptr || kernel_name == nullptr) return fail(kRtParamInvalid, "no name");
        Function* function = findFunction(static_cast<Binary*>(handle), static_cast<const char*>(kernel_name));
        if (function == nullptr) return fail(kRtParamInvalid, "the binary has no such kernel");
        const std::lock_guard lock(stubs().mutex);
        stubs().functions[stub] = function;
        stubs().names[stub_name] = stub;
        return kSuccess;
    });
}

EMULATED_API rtError_t rtGetFunctionByName(const char* stub_name, void** stub) {
    return call("rtGetFunctionByName", text(stub_name), [&]() -> int {
        const std::lock_guard lock(stubs().mutex);
        const auto found = stubs().names.find(stub_name);
        if (found == stubs().names.end() || stub == nullptr) return fail(kRtParamInvalid, "no such stub");
        *stub = const_cast<void*>(found->second);
        return kSuccess;
    });
}

EMULATED_API rtError_t rtKernelLaunch(const void* stub, uint32_t blocks, void* arguments, uint32_t size, rtSmDesc_t*,
                                      rtStream_t stream) {
    return call("rtKernelLaunch", text(blocks, ", ", size, ", ", stream), [&]() -> int {
        const Function* function = nullptr;
        {
            const std::lock_guard lock(stubs().mutex);
            const auto found = stubs().functions.find(stub);
            if (found != stubs().functions.end()) function = found->second;
        }
        if (function == nullptr || !isFunction(function)) return fail(kRtParamInvalid, "no registered stub");
        return launchWithArguments(function, blocks, arguments, size, stream);
    });
}

EMULATED_API rtError_t rtKernelLaunchWithHandle(void* handle, const uint64_t key, uint32_t blocks,
                                                rtArgsEx_t* arguments, rtSmDesc_t*, rtStream_t stream, const void*) {
    return call("rtKernelLaunchWithHandle", text("key=", key, " blocks=", blocks),
                [&] { return launchWithHandle(handle, key, blocks, arguments, stream); });
}

#ifndef EMULATED_WITHOUT_HANDLE_LAUNCH
EMULATED_API rtError_t rtKernelLaunchWithHandleV2(void* handle, const uint64_t key, uint32_t blocks,
                                                  rtArgsEx_t* arguments, rtSmDesc_t*, rtStream_t stream,
                                                  const rtTaskCfgInfo_t*) {
    return call("rtKernelLaunchWithHandleV2",
                text("key=", key, " blocks=", blocks, " bytes=", arguments != nullptr ? arguments->argsSize : 0),
                [&] { return launchWithHandle(handle, key, blocks, arguments, stream); });
}
#endif

// For tests: what a process still holds.
EMULATED_API size_t emulated_cann_live_allocations(int device) { return liveAllocations(device); }
EMULATED_API size_t emulated_cann_live_streams() { return liveStreams(); }

EMULATED_API void emulated_cann_poison() { poison(); }

// What emulated_launch.h calls for `<<<>>>`.
EMULATED_API int emulated_cann_launch(const char* kernel, uint32_t blocks, void* stream,
                                      void (*run)(void* body, uint32_t index, uint32_t count), void (*drop)(void* body),
                                      void* body) {
    // "ns::name<int, 3>" is known as "name".
    std::string name = kernel != nullptr ? kernel : "kernel";
    name = name.substr(0, name.find('<'));
    const size_t scope = name.rfind("::");
    if (scope != std::string::npos) name = name.substr(scope + 2);
    while (!name.empty() && name.back() == ' ') name.pop_back();
    const std::shared_ptr<void> owned(body, drop);
    return call("<<<>>>", text(name, ", blocks=", blocks, ", stream=", stream), [&] {
        return launch(name, blocks, stream,
                      [owned, run](uint32_t index, uint32_t count) { run(owned.get(), index, count); });
    });
}

}  // extern "C"
