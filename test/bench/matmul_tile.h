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

// The tensors that the documented script makes once ...
struct Operands {
    Tensor x{Memory::GM, DType::FP16, Shape{32, 48}, Format::ND};
    Tensor y{Memory::GM, DType::FP16, Shape{48, 16}, Format::ND};
    Tensor z{Memory::GM, DType::FP32, Shape{32, 16}, Format::NC1HWC0};
};

// ... and those that its function makes for each tile.
struct Tile {
    Tensor l1_x{Memory::L1}, l1_y{Memory::L1}, x{Memory::L0A}, y{Memory::L0B};
    Tensor b{Memory::L0C, DType::FP32, Shape{32, 16}, Format::NC1HWC0};
};

inline void issue_tile(Program& program, const Instruction& mmad, Operands& gm, Tile& tile) {
    program.load(tile.l1_x, gm.x);
    program.load(tile.l1_y, gm.y);
    program.load(tile.x, tile.l1_x);
    program.load(tile.y, tile.l1_y);
    Call call;
    call.operands = {&tile.x, &tile.y, &tile.b};
    call.attributes.flag = true;
    program.load(gm.z, program.issue(mmad, call));
}

enum class Fresh { none, tile, all };  // which tensors are made anew for each tile; `tile` is the documented script

inline std::shared_ptr<Program> record_tiles(const Fixture& fixture, int tiles, Fresh fresh) {
    auto program = std::make_shared<Program>(fixture.costs, std::make_shared<SourceTable>());
    const auto issue = [&](Operands& gm, Tile& tile) { issue_tile(*program, *fixture.mmad, gm, tile); };
    Operands gm;
    Tile first;
    for (int i = 0; i < tiles; ++i) {
        if (fresh == Fresh::none) {
            issue(gm, first);
        } else if (fresh == Fresh::tile) {
            Tile tile;
            issue(gm, tile);
        } else {
            Operands own;
            Tile tile;
            issue(own, tile);
        }
    }
    program->finish();
    return program;
}

}  // namespace mskpp::bench
