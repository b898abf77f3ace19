// SPDX-License-Identifier: Apache-2.0
// The part of the runtime that the emulated toolkit has, declared by its C ABI.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using rtError_t = int32_t;
using rtStream_t = void*;

struct rtDevBinary_t {
    uint32_t magic;
    uint32_t version;
    const void* data;
    uint64_t length;
};
static_assert(sizeof(rtDevBinary_t) == 24);

struct rtHostInputInfo_t;

struct rtArgsEx_t {
    void* args;
    rtHostInputInfo_t* hostInputInfoPtr;
    uint32_t argsSize;
    uint32_t tilingAddrOffset;
    uint32_t tilingDataOffset;
    uint16_t hostInputInfoNum;
    uint8_t hasTiling;
    uint8_t isNoNeedH2DCopy;
    uint8_t reserved[4];
};
static_assert(sizeof(rtArgsEx_t) == 40);

struct rtSmDesc_t;
struct rtTaskCfgInfo_t;

rtError_t rtGetSocVersion(char* version, const uint32_t maxLen);
rtError_t rtSetDevice(int32_t device);
rtError_t rtStreamSynchronize(rtStream_t stream);
rtError_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length);

rtError_t rtDevBinaryRegister(const rtDevBinary_t* binary, void** handle);
rtError_t rtRegisterAllKernel(const rtDevBinary_t* binary, void** handle);
rtError_t rtDevBinaryUnRegister(void* handle);
rtError_t rtFunctionRegister(void* handle, const void* stub, const char* stubName, const void* kernelName,
                             uint32_t mode);
rtError_t rtGetFunctionByName(const char* stubName, void** stub);

rtError_t rtKernelLaunch(const void* stub, uint32_t blocks, void* arguments, uint32_t size, rtSmDesc_t* description,
                         rtStream_t stream);
rtError_t rtKernelLaunchWithHandle(void* handle, const uint64_t tilingKey, uint32_t blocks, rtArgsEx_t* arguments,
                                   rtSmDesc_t* description, rtStream_t stream, const void* kernelInfo);
rtError_t rtKernelLaunchWithHandleV2(void* handle, const uint64_t tilingKey, uint32_t blocks, rtArgsEx_t* arguments,
                                     rtSmDesc_t* description, rtStream_t stream, const rtTaskCfgInfo_t* configuration);

}  // extern "C"
