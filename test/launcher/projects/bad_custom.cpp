// SPDX-License-Identifier: Apache-2.0
// A tiling function that does what the environment variable BAD says.
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "register/op_impl_registry.h"

static ge::graphStatus BadTiling(gert::TilingContext* context) {
    const std::string mode = std::getenv("BAD") != nullptr ? std::getenv("BAD") : "";
    context->SetBlockDim(1);
    if (mode == "status") {
        std::fputs("m must be a multiple of 16\n", stderr);
        return 7;
    }
    if (mode == "failed") {
        return ge::GRAPH_FAILED;
    }
    if (mode == "crash") {
        std::puts("about to crash");
        std::fflush(stdout);
        return static_cast<uint32_t>(context->GetInputShape(9)->GetStorageShape().GetDim(0));
    }
    if (mode == "attribute beyond") {
        const int64_t beta = *context->GetAttrs()->GetInt(1);
        return static_cast<uint32_t>(beta);
    }
    if (mode == "attribute beyond, and talk") {
        const int64_t* beta = context->GetAttrs()->GetInt(1);
        for (int line = 0; line < 1000; ++line) {
            std::fprintf(stderr, "line %d\n", line);
        }
        return static_cast<uint32_t>(*beta);
    }
    if (mode == "shell" || mode == "shell, then on") {
        const int status = std::system(std::getenv("COMMAND"));
        if (mode == "shell") {
            std::_Exit(status);
        }
    }
    if (mode == "hang") {
        for (;;) {
            pause();
        }
    }
    if (mode == "exit") {
        std::_Exit(3);
    }
    if (mode == "throw") {
        throw std::runtime_error("no tile fits");
    }
    if (mode == "no block") {
        context->SetBlockDim(0);
    }
    if (mode == "wrong attribute" && context->GetAttrs()->GetFloat(0) == nullptr) {
        return 9;
    }
    if (mode == "too much") {
        context->GetRawTilingData()->SetDataSize(1 << 20);
    }
    if (mode == "print") {
        std::puts("from the tiling function");
    }
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(BadCustom).Tiling(BadTiling);
