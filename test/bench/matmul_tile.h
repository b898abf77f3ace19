// SPDX-License-Identifier: Apache-2.0
// The documented matmul tile, six instructions, in C++.
#pragma once

#include <memory>

#include "mskpp/mskpp.h"

namespace mskpp::bench {

struct Fixture {
    std::shared_ptr<const Costs> costs;
    std::shared_ptr<const Instruction> mmad;

    Fixture() {
        const std::filesystem::path data = std::filesystem::path(MSKPP_SOURCE_DIR) / "mskpp" / "data";
        costs = std::make_shared<const Costs>(Chip::load("Ascend910B1", {data / "chips"}));
        for (const auto& instruction : read_instructions(data / "instructions.csv"))
            if (instruction->function == "mmad") mmad = instruction;
    }
};

inline void issue_tile(Program& program, const Instruction& mmad) {
    const Shape xs{32, 48}, ys{48, 16}, zs{32, 16};
    Tensor gm_x(Memory::GM, DType::FP16, xs, Format::ND);
    Tensor gm_y(Memory::GM, DType::FP16, ys, Format::ND);
    Tensor gm_z(Memory::GM, DType::FP32, zs, Format::NC1HWC0);
    Tensor l1_x(Memory::L1), l1_y(Memory::L1), x(Memory::L0A), y(Memory::L0B);
    Tensor b(Memory::L0C, DType::FP32, zs, Format::NC1HWC0);
    program.load(l1_x, gm_x);
    program.load(l1_y, gm_y);
    program.load(x, l1_x);
    program.load(y, l1_y);
    Call call;
    call.operands = {&x, &y, &b};
    call.attributes.flag = true;
    const Tensor out = program.issue(mmad, call);
    program.load(gm_z, out);
}

inline std::shared_ptr<Program> record_tiles(const Fixture& fixture, int tiles) {
    auto program = std::make_shared<Program>(fixture.costs, std::make_shared<SourceTable>());
    for (int i = 0; i < tiles; ++i) issue_tile(*program, *fixture.mmad);
    program->finish();
    return program;
}

}  // namespace mskpp::bench
