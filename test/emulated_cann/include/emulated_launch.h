// SPDX-License-Identifier: Apache-2.0
// What `<<<>>>` becomes when the emulated bisheng compiles: the blocks go to the stream of the emulated runtime.
// Included by mskpp/kernel.h, which defines mskpp::host::BlockScope above.
#pragma once

#include <cstdint>
#include <utility>

extern "C" int emulated_cann_launch(const char* kernel, std::uint32_t blocks, void* stream,
                                    void (*run)(void* body, std::uint32_t index, std::uint32_t count),
                                    void (*drop)(void* body), void* body);

// For kernels that break their device: their launch fails, and so does each one there, of any process, until a reset.
extern "C" void emulated_cann_poison();

namespace mskpp {

// Returns the code of the runtime. Each block calls its own copy of `body`, which holds the arguments by value.
template <class Body>
int launch(std::uint32_t blockdim, void*, void* stream, Body body, const char* kernel = "kernel") {
    return emulated_cann_launch(
        kernel, blockdim, stream,
        [](void* data, std::uint32_t index, std::uint32_t count) {
            const host::BlockScope scope(index, count);
            Body own = *static_cast<Body*>(data);
            own();
        },
        [](void* data) { delete static_cast<Body*>(data); }, new Body(std::move(body)));
}

}  // namespace mskpp
