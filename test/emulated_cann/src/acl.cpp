// SPDX-License-Identifier: Apache-2.0
// The C functions of libascendcl.so.
#include "acl/acl.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "device.h"
#include "memory.h"

using namespace emulated;

namespace {

struct KernelArguments {
    const Function* function;
    std::vector<void*> values;
    std::map<size_t, std::vector<unsigned char>> holders;  // position -> what shall lie behind the address there
    bool finished = false;
};

struct RawBinary {
    std::vector<char> bytes;
};

// Handles that this library gives out. Arguments live until their binary goes.
struct Handles {
    std::mutex mutex;
    std::map<void*, std::unique_ptr<KernelArguments>> arguments;
    std::map<void*, std::unique_ptr<RawBinary>> binaries;
};

Handles& handles() {
    static Handles* const only = new Handles;
    return *only;
}

KernelArguments* argumentsOf(void* handle) {
    const std::lock_guard lock(handles().mutex);
    const auto found = handles().arguments.find(handle);
    return found == handles().arguments.end() ? nullptr : found->second.get();
}

int load(const void* data, size_t size, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    if (handle == nullptr) return fail(kInvalidParam, "a binary needs a place for its handle");
    if (const int code = needDevice()) return code;
    uint32_t magic = 0;
    for (size_t i = 0; options != nullptr && i < options->numOpt; ++i) {
        if (options->options[i].type == ACL_RT_BINARY_LOAD_OPT_MAGIC) magic = options->options[i].value.magic;
    }
    Binary* out = nullptr;
    if (const int code = loadBinary(data, size, magic, &out)) return code;
    *handle = out;
    return kSuccess;
}

int givenFunction(Function* function, aclrtFuncHandle* out) {
    if (out == nullptr) return fail(kInvalidParam, "a kernel needs a place for its handle");
    if (function == nullptr) return fail(kRtParamInvalid, "the binary has no such kernel");
    *out = function;
    return kSuccess;
}

// Copies the blocks behind the place holders to the device for the time of the launch.
int launchValues(aclrtFuncHandle handle, uint32_t blocks, aclrtStream stream, std::vector<void*> values,
                 const std::map<size_t, std::vector<unsigned char>>& holders) {
    if (!isFunction(handle)) return fail(kInvalidHandle, "no kernel of a loaded binary");
    std::vector<void*> owned;
    for (const auto& [position, bytes] : holders) {
        void* block = nullptr;
        if (const int code = allocate(currentDevice(), bytes.size(), false, &block)) return code;
        std::memcpy(block, bytes.data(), bytes.size());
        values[position] = block;
        owned.push_back(block);
    }
    if (const int code = launchFunction(static_cast<Function*>(handle), blocks, stream, std::move(values))) return code;
    if (owned.empty()) return kSuccess;
    return enqueue(stream, [owned](std::string&) {
        for (void* block : owned) release(block, false);
        return 0;
    });
}

int launchBytes(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size, aclrtStream stream,
                const aclrtPlaceHolderInfo* holders, size_t count) {
    if (size != 0 && arguments == nullptr) return fail(kInvalidParam, "no arguments");
    size_t own = size;  // before the first block of a place holder
    for (size_t i = 0; i < count; ++i) {
        if (holders[i].addrOffset % 8 != 0 || holders[i].dataOffset >= size)
            return fail(kInvalidParam, "a place holder");
        own = std::min<size_t>(own, holders[i].dataOffset);
    }
    if (own % 8 != 0) return fail(kInvalidParam, text(own, " bytes of arguments"));
    std::vector<void*> values(own / 8);
    if (own != 0) std::memcpy(values.data(), arguments, own);
    std::map<size_t, std::vector<unsigned char>> blocks_behind;
    const auto* const bytes = static_cast<const unsigned char*>(arguments);
    for (size_t i = 0; i < count; ++i) {
        if (holders[i].addrOffset / 8 >= values.size()) return fail(kInvalidParam, "a place holder");
        blocks_behind[holders[i].addrOffset / 8].assign(bytes + holders[i].dataOffset, bytes + size);
    }
    return launchValues(function, blocks, stream, std::move(values), blocks_behind);
}

}  // namespace

extern "C" {

EMULATED_API aclError aclInit(const char* path) {
    return call("aclInit", path != nullptr ? path : "null", [] { return initialize(); });
}

EMULATED_API aclError aclFinalize() {
    return call("aclFinalize", "", [] { return finalize(); });
}

EMULATED_API const char* aclGetRecentErrMsg() { return takeMessage(); }

EMULATED_API aclError aclrtSetDevice(int32_t device) {
    return call("aclrtSetDevice", text(device), [&] { return setDevice(device); });
}

EMULATED_API aclError aclrtResetDevice(int32_t device) {
    return call("aclrtResetDevice", text(device), [&] { return resetDevice(device, false); });
}

EMULATED_API aclError aclrtResetDeviceForce(int32_t device) {
    return call("aclrtResetDeviceForce", text(device), [&] { return resetDevice(device, true); });
}

EMULATED_API aclError aclrtGetDevice(int32_t* device) {
    return call("aclrtGetDevice", "", [&]() -> int {
        if (const int code = needDevice()) return code;
        if (device == nullptr) return fail(kInvalidParam, "no place for the device");
        *device = currentDevice();
        return kSuccess;
    });
}

EMULATED_API aclError aclrtGetDeviceCount(uint32_t* count) {
    return call("aclrtGetDeviceCount", "", [&]() -> int {
        if (count == nullptr) return fail(kInvalidParam, "no place for the number");
        *count = static_cast<uint32_t>(deviceCount());
        return kSuccess;
    });
}

EMULATED_API aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value) {
    return call("aclrtGetDeviceInfo", text(device, ", ", attribute), [&]() -> int {
        if (value == nullptr) return fail(kInvalidParam, "no place for the value");
        if (device >= static_cast<uint32_t>(deviceCount())) return fail(kInvalidDevice, text("device ", device));
        *value = 24;  // cores
        return kSuccess;
    });
}

// A device has one context here; its handle is the number of the device and one.
EMULATED_API aclError aclrtGetCurrentContext(aclrtContext* context) {
    return call("aclrtGetCurrentContext", "", [&]() -> int {
        if (const int code = needDevice()) return code;
        if (context == nullptr) return fail(kInvalidParam, "no place for the context");
        *context = reinterpret_cast<void*>(static_cast<size_t>(currentDevice()) + 1);
        return kSuccess;
    });
}

EMULATED_API aclError aclrtSetCurrentContext(aclrtContext context) {
    return call("aclrtSetCurrentContext", text(context), [&]() -> int {
        if (context == nullptr) return fail(kInvalidParam, "no context");
        return useDevice(static_cast<int>(reinterpret_cast<size_t>(context)) - 1);
    });
}

EMULATED_API const char* aclrtGetSocName() {
    static thread_local std::string name;
    name = socName();
    return name.c_str();
}

EMULATED_API aclError aclrtCreateStream(aclrtStream* stream) {
    return call("aclrtCreateStream", "", [&] { return createStream(stream); });
}

EMULATED_API aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
    return call("aclrtCreateStreamWithConfig", text(priority, ", ", flag), [&] { return createStream(stream); });
}

EMULATED_API aclError aclrtDestroyStream(aclrtStream stream) {
    return call("aclrtDestroyStream", text(stream), [&] { return destroyStream(stream, false); });
}

EMULATED_API aclError aclrtDestroyStreamForce(aclrtStream stream) {
    return call("aclrtDestroyStreamForce", text(stream), [&] { return destroyStream(stream, true); });
}

EMULATED_API aclError aclrtSynchronizeStream(aclrtStream stream) {
    return call("aclrtSynchronizeStream", text(stream), [&] { return synchronizeStream(stream, -1); });
}

EMULATED_API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    return call("aclrtSynchronizeStreamWithTimeout", text(stream, ", ", timeout),
                [&] { return synchronizeStream(stream, timeout); });
}

EMULATED_API aclError aclrtSynchronizeDevice() {
    return call("aclrtSynchronizeDevice", "", [] { return synchronizeDevice(); });
}

EMULATED_API aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
    return call("aclrtSetStreamOverflowSwitch", text(stream, ", ", flag),
                [&] { return enqueue(stream, [](std::string&) { return 0; }); });
}

EMULATED_API aclError aclrtMalloc(void** address, size_t size, aclrtMemMallocPolicy policy) {
    return call("aclrtMalloc", text(size, ", ", static_cast<int>(policy)), [&]() -> int {
        if (const int code = needDevice()) return code;
        if (policy < 0 || policy > 7) return fail(kInvalidParam, text("memory policy ", static_cast<int>(policy)));
        return allocate(currentDevice(), size, false, address);
    });
}

EMULATED_API aclError aclrtFree(void* address) {
    return call("aclrtFree", text(address), [&] {
        const int code = needDevice();
        return code != 0 ? code : release(address, false);
    });
}

EMULATED_API aclError aclrtMallocHost(void** address, size_t size) {
    return call("aclrtMallocHost", text(size), [&] {
        const int code = needDevice();
        return code != 0 ? code : allocate(currentDevice(), size, true, address);
    });
}

EMULATED_API aclError aclrtFreeHost(void* address) {
    return call("aclrtFreeHost", text(address), [&] { return release(address, true); });
}

EMULATED_API aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind) {
    return call("aclrtMemcpy", text(to, ", ", room, ", ", from, ", ", count, ", ", static_cast<int>(kind)), [&] {
        const int code = needDevice();
        return code != 0 ? code : copy(to, room, from, count, kind, false);
    });
}

EMULATED_API aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
    return call("aclrtMemcpyAsync", text(to, ", ", room, ", ", from, ", ", count, ", ", static_cast<int>(kind)), [&] {
        if (const int code = copy(to, room, from, count, kind, true)) return code;
        return enqueue(stream, [=](std::string& message) {
            const int code = copy(to, room, from, count, kind, false);
            if (code != 0) message = "an asynchronous copy lost its memory";
            return code;
        });
    });
}

EMULATED_API aclError aclrtMemset(void* address, size_t room, int32_t value, size_t count) {
    return call("aclrtMemset", text(address, ", ", room, ", ", value, ", ", count), [&]() -> int {
        if (const int code = needDevice()) return code;
        if (const int code = fill(address, room, value, count)) return code;
        noteMemset();
        return kSuccess;
    });
}

EMULATED_API aclError aclrtGetHardwareSyncAddr(void** address) {
    return call("aclrtGetHardwareSyncAddr", "", [&]() -> int {
        if (address == nullptr) return fail(kInvalidParam, "no place for the address");
        *address = reinterpret_cast<void*>(kC2cAddress);
        return kSuccess;
    });
}

EMULATED_API aclrtBinary aclrtCreateBinary(const void* data, size_t size) {
    if (data == nullptr) return nullptr;
    auto binary = std::make_unique<RawBinary>();
    binary->bytes.assign(static_cast<const char*>(data), static_cast<const char*>(data) + size);
    void* const handle = binary.get();
    const std::lock_guard lock(handles().mutex);
    handles().binaries[handle] = std::move(binary);
    return handle;
}

EMULATED_API aclError aclrtDestroyBinary(aclrtBinary binary) {
    return call("aclrtDestroyBinary", text(binary), [&]() -> int {
        const std::lock_guard lock(handles().mutex);
        return handles().binaries.erase(binary) != 0 ? static_cast<int>(kSuccess) : fail(kInvalidHandle, "no binary");
    });
}

EMULATED_API aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle* handle) {
    return call("aclrtBinaryLoad", text(binary), [&]() -> int {
        std::vector<char> bytes;
        {
            const std::lock_guard lock(handles().mutex);
            const auto found = handles().binaries.find(binary);
            if (found == handles().binaries.end()) return fail(kInvalidHandle, "no binary");
            bytes = found->second->bytes;
        }
        return load(bytes.data(), bytes.size(), nullptr, handle);
    });
}

EMULATED_API aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options,
                                              aclrtBinHandle* handle) {
    return call("aclrtBinaryLoadFromFile", text(path != nullptr ? path : "null"), [&]() -> int {
        if (path == nullptr) return fail(kInvalidParam, "no path");
        std::ifstream file(path, std::ios::binary);
        if (!file) return fail(kInvalidParam, text(path, " cannot be read"));
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        return load(bytes.data(), bytes.size(), options, handle);
    });
}

EMULATED_API aclError aclrtBinaryLoadFromData(const void* data, size_t size, const aclrtBinaryLoadOptions* options,
                                              aclrtBinHandle* handle) {
    return call("aclrtBinaryLoadFromData", text(size), [&] { return load(data, size, options, handle); });
}

EMULATED_API aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
    return call("aclrtBinaryUnLoad", text(handle), [&]() -> int {
        if (!isBinary(handle)) return fail(kInvalidHandle, "no loaded binary");
        {
            const std::lock_guard lock(handles().mutex);
            for (auto one = handles().arguments.begin(); one != handles().arguments.end();) {
                one = one->second->function->binary == handle ? handles().arguments.erase(one) : std::next(one);
            }
        }
        return unloadBinary(static_cast<Binary*>(handle));
    });
}

EMULATED_API aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function) {
    return call("aclrtBinaryGetFunction", text(name != nullptr ? name : "null"), [&]() -> int {
        if (!isBinary(handle) || name == nullptr) return fail(kInvalidHandle, "no loaded binary, or no name");
        return givenFunction(findFunction(static_cast<Binary*>(handle), std::string(name)), function);
    });
}

EMULATED_API aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle handle, uint64_t entry, aclrtFuncHandle* function) {
    return call("aclrtBinaryGetFunctionByEntry", text(entry), [&]() -> int {
        if (!isBinary(handle)) return fail(kInvalidHandle, "no loaded binary");
        return givenFunction(findFunction(static_cast<Binary*>(handle), entry), function);
    });
}

EMULATED_API aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* arguments) {
    return call("aclrtKernelArgsInit", text(function), [&]() -> int {
        if (!isFunction(function)) return fail(kInvalidHandle, "no kernel of a loaded binary");
        if (arguments == nullptr) return fail(kInvalidParam, "no place for the handle");
        auto fresh = std::make_unique<KernelArguments>();
        fresh->function = static_cast<Function*>(function);
        *arguments = fresh.get();
        const std::lock_guard lock(handles().mutex);
        handles().arguments[fresh.get()] = std::move(fresh);
        return kSuccess;
    });
}

EMULATED_API aclError aclrtKernelArgsAppend(aclrtArgsHandle handle, void* data, size_t size,
                                            aclrtParamHandle* parameter) {
    return call("aclrtKernelArgsAppend", text(size), [&]() -> int {
        KernelArguments* arguments = argumentsOf(handle);
        if (arguments == nullptr || arguments->finished) return fail(kInvalidHandle, "no open arguments");
        if (data == nullptr || parameter == nullptr || size == 0 || size % 8 != 0) {
            return fail(kInvalidParam, text("an argument of ", size, " bytes"));
        }
        const size_t position = arguments->values.size();
        arguments->values.resize(position + size / 8);
        std::memcpy(&arguments->values[position], data, size);
        *parameter = reinterpret_cast<void*>(position + 1);
        return kSuccess;
    });
}

EMULATED_API aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle handle, aclrtParamHandle* parameter) {
    return call("aclrtKernelArgsAppendPlaceHolder", "", [&]() -> int {
        KernelArguments* arguments = argumentsOf(handle);
        if (arguments == nullptr || arguments->finished) return fail(kInvalidHandle, "no open arguments");
        if (parameter == nullptr) return fail(kInvalidParam, "no place for the handle");
        arguments->values.push_back(nullptr);
        *parameter = reinterpret_cast<void*>(arguments->values.size());
        return kSuccess;
    });
}

EMULATED_API aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle handle, aclrtParamHandle parameter,
                                                          size_t size, void** buffer) {
    return call("aclrtKernelArgsGetPlaceHolderBuffer", text(size), [&]() -> int {
        KernelArguments* arguments = argumentsOf(handle);
        const size_t position = reinterpret_cast<size_t>(parameter) - 1;
        if (arguments == nullptr || position >= arguments->values.size()) return fail(kInvalidHandle, "no argument");
        if (buffer == nullptr || size == 0) return fail(kInvalidParam, "no size, or no place for the address");
        auto& bytes = arguments->holders[position];
        bytes.assign(size, kFresh);
        *buffer = bytes.data();
        return kSuccess;
    });
}

EMULATED_API aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle handle, aclrtParamHandle parameter, void* data,
                                                size_t size) {
    return call("aclrtKernelArgsParaUpdate", text(size), [&]() -> int {
        KernelArguments* arguments = argumentsOf(handle);
        const size_t position = reinterpret_cast<size_t>(parameter) - 1;
        if (arguments == nullptr || position >= arguments->values.size()) return fail(kInvalidHandle, "no argument");
        if (data == nullptr || size > (arguments->values.size() - position) * 8) return fail(kInvalidParam, "no value");
        std::memcpy(&arguments->values[position], data, size);
        return kSuccess;
    });
}

EMULATED_API aclError aclrtKernelArgsFinalize(aclrtArgsHandle handle) {
    return call("aclrtKernelArgsFinalize", "", [&]() -> int {
        KernelArguments* arguments = argumentsOf(handle);
        if (arguments == nullptr) return fail(kInvalidHandle, "no arguments");
        arguments->finished = true;
        return kSuccess;
    });
}

EMULATED_API aclError aclrtLaunchKernel(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size,
                                        aclrtStream stream) {
    return call("aclrtLaunchKernel", text(blocks, ", ", size, ", ", stream),
                [&] { return launchBytes(function, blocks, arguments, size, stream, nullptr, 0); });
}

EMULATED_API aclError aclrtLaunchKernelV2(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size,
                                          aclrtLaunchKernelCfg*, aclrtStream stream) {
    return call("aclrtLaunchKernelV2", text(blocks, ", ", size, ", ", stream),
                [&] { return launchBytes(function, blocks, arguments, size, stream, nullptr, 0); });
}

EMULATED_API aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                                  aclrtLaunchKernelCfg*, aclrtArgsHandle handle, void*) {
    return call("aclrtLaunchKernelWithConfig", text(blocks, ", ", stream), [&]() -> int {
        const KernelArguments* arguments = argumentsOf(handle);
        if (arguments == nullptr || arguments->function != function)
            return fail(kInvalidHandle, "no arguments of this kernel");
        if (!arguments->finished) return fail(kInvalidParam, "the arguments are not finalized");
        return launchValues(function, blocks, stream, arguments->values, arguments->holders);
    });
}

EMULATED_API aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                                    aclrtLaunchKernelCfg*, void* arguments, size_t size,
                                                    aclrtPlaceHolderInfo* holders, size_t count) {
    return call("aclrtLaunchKernelWithHostArgs", text(blocks, ", ", size, ", ", stream),
                [&] { return launchBytes(function, blocks, arguments, size, stream, holders, count); });
}

}  // extern "C"
