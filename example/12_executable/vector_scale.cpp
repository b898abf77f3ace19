// SPDX-License-Identifier: Apache-2.0
// A program with a kernel and its host code: vector_scale ELEMENTS FACTOR
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include <mskpp/kernel.h>

constexpr uint32_t kBlocks = 4;

__global__ __aicore__ void scale(GM_ADDR x, uint32_t n, float factor) {
    auto* values = reinterpret_cast<__gm__ float*>(x);
    for (uint32_t i = GetBlockIdx(); i < n; i += GetBlockNum()) values[i] *= factor;
}

int main(int argc, char** argv) {
    if (argc != 3) return std::fprintf(stderr, "usage: vector_scale ELEMENTS FACTOR\n"), 2;
    const uint32_t n = std::strtoul(argv[1], nullptr, 10);
    std::vector<float> values(n);
    for (uint32_t i = 0; i < n; ++i) values[i] = i;
    const std::size_t bytes = n * sizeof(float);
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    void* device = nullptr;
    if (aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 1;
    aclrtMemcpy(device, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    scale<<<kBlocks, nullptr, stream>>>(static_cast<uint8_t*>(device), n, std::strtof(argv[2], nullptr));
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(values.data(), bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtFree(device);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    std::printf("last of %u: %g\n", n, values.back());
}
