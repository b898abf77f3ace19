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

// The tensors of one tile, as the documented script makes them anew for each.
struct Tile {
    Tensor gm_x{Memory::GM, DType::FP16, Shape{32, 48}, Format::ND};
    Tensor gm_y{Memory::GM, DType::FP16, Shape{48, 16}, Format::ND};
    Tensor gm_z{Memory::GM, DType::FP32, Shape{32, 16}, Format::NC1HWC0};
    Tensor l1_x{Memory::L1}, l1_y{Memory::L1}, x{Memory::L0A}, y{Memory::L0B};
    Tensor b{Memory::L0C, DType::FP32, Shape{32, 16}, Format::NC1HWC0};
};

inline void issue_tile(Program& program, const Instruction& mmad, Tile& tile) {
    program.load(tile.l1_x, tile.gm_x);
    program.load(tile.l1_y, tile.gm_y);
    program.load(tile.x, tile.l1_x);
    program.load(tile.y, tile.l1_y);
    Call call;
    call.operands = {&tile.x, &tile.y, &tile.b};
    call.attributes.flag = true;
    program.load(tile.gm_z, program.issue(mmad, call));
}

// `fresh`: new tensors for each tile; else all tiles use the same ones.
inline std::shared_ptr<Program> record_tiles(const Fixture& fixture, int tiles, bool fresh) {
    auto program = std::make_shared<Program>(fixture.costs, std::make_shared<SourceTable>());
    if (fresh) {
        for (int i = 0; i < tiles; ++i) {
            Tile tile;
            issue_tile(*program, *fixture.mmad, tile);
        }
    } else {
        Tile tile;
        for (int i = 0; i < tiles; ++i) issue_tile(*program, *fixture.mmad, tile);
    }
    program->finish();
    return program;
}

}  // namespace mskpp::bench
