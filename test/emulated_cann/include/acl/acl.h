// SPDX-License-Identifier: Apache-2.0
// The part of AscendCL that the emulated toolkit has, declared by its C ABI.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using aclError = int;
using aclrtStream = void*;
using aclrtContext = void*;
using aclrtBinary = void*;
using aclrtBinHandle = void*;
using aclrtFuncHandle = void*;
using aclrtArgsHandle = void*;
using aclrtParamHandle = void*;

constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;

enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};

enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
};

enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3,
};

struct aclrtBinaryLoadOption {
    aclrtBinaryLoadOptionType type;
    union {
        uint32_t isLazyLoad;
        uint32_t magic;
        int32_t cpuKernelMode;
        uint32_t rsv[4];
    } value;
};

struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption* options;
    size_t numOpt;
};

struct aclrtPlaceHolderInfo {
    uint32_t addrOffset;
    uint32_t dataOffset;
};

struct aclrtLaunchKernelCfg;
using aclrtDevAttr = int;

aclError aclInit(const char* configPath);
aclError aclFinalize();
const char* aclGetRecentErrMsg();

aclError aclrtSetDevice(int32_t device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtResetDeviceForce(int32_t device);
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtSetCurrentContext(aclrtContext context);
const char* aclrtGetSocName();

aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
aclError aclrtSynchronizeDevice();
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);

aclError aclrtMalloc(void** address, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* address);
aclError aclrtMallocHost(void** address, size_t size);
aclError aclrtFreeHost(void* address);
aclError aclrtMemcpy(void* to, size_t destMax, const void* from, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* to, size_t destMax, const void* from, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream);
aclError aclrtMemset(void* address, size_t maxCount, int32_t value, size_t count);
aclError aclrtGetHardwareSyncAddr(void** address);

aclrtBinary aclrtCreateBinary(const void* data, size_t size);
aclError aclrtDestroyBinary(aclrtBinary binary);
aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle* handle);
aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* handle);
aclError aclrtBinaryLoadFromData(const void* data, size_t size, const aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* handle);
aclError aclrtBinaryUnLoad(aclrtBinHandle handle);
aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function);
aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle handle, uint64_t entry, aclrtFuncHandle* function);

aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* arguments);
aclError aclrtKernelArgsAppend(aclrtArgsHandle arguments, void* data, size_t size, aclrtParamHandle* parameter);
aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle arguments, aclrtParamHandle* parameter);
aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle arguments, aclrtParamHandle parameter, size_t size,
                                             void** buffer);
aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle arguments, aclrtParamHandle parameter, void* data, size_t size);
aclError aclrtKernelArgsFinalize(aclrtArgsHandle arguments);

aclError aclrtLaunchKernel(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size,
                           aclrtStream stream);
aclError aclrtLaunchKernelV2(aclrtFuncHandle function, uint32_t blocks, const void* arguments, size_t size,
                             aclrtLaunchKernelCfg* configuration, aclrtStream stream);
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                     aclrtLaunchKernelCfg* configuration, aclrtArgsHandle arguments, void* reserve);
aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream,
                                       aclrtLaunchKernelCfg* configuration, void* arguments, size_t size,
                                       aclrtPlaceHolderInfo* holders, size_t holderCount);

}  // extern "C"
