// SPDX-License-Identifier: Apache-2.0
// The matmul of example/01_matmul.py without Python: 125 tiles [32,48] x [48,16] through the cube of one core.
// Usage: matmul DATA_FOLDER [CHIP], where DATA_FOLDER holds instructions.csv and chips/, as mskpp/data does.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "mskpp/mskpp.h"

using namespace mskpp;

namespace {

void matmul_tile(Program& program, const Instruction& mmad) {
    const Shape m_k{32, 48}, k_n{48, 16}, m_n{32, 16};
    Tensor gm_x(Memory::GM, DType::FP16, m_k, Format::ND), gm_y(Memory::GM, DType::FP16, k_n, Format::ND);
    Tensor gm_z(Memory::GM, DType::FP32, m_n, Format::NC1HWC0), b(Memory::L0C, DType::FP32, m_n, Format::NC1HWC0);
    Tensor l1_x(Memory::L1), l1_y(Memory::L1), x(Memory::L0A), y(Memory::L0B);
    program.load(l1_x, gm_x);
    program.load(l1_y, gm_y);
    program.load(x, l1_x);
    program.load(y, l1_y);
    Call call;
    call.operands = {&x, &y, &b};
    call.attributes.flag = true;  // is_inited: b holds a value
    const Tensor out = program.issue(mmad, call);
    program.load(gm_z, out);
}

}  // namespace

int main(int count, char** arguments) try {
    if (count < 2) return std::fprintf(stderr, "usage: matmul DATA_FOLDER [CHIP]\n"), 2;
    const std::filesystem::path data = arguments[1];
    const auto chip = Chip::load(count > 2 ? arguments[2] : "Ascend910B1", {data / "chips"});
    std::shared_ptr<const Instruction> mmad;
    for (const auto& instruction : read_instructions(data / "instructions.csv"))
        if (instruction->function == "mmad") mmad = instruction;
    if (mmad == nullptr) throw Error(ErrorKind::data, "matmul: instructions.csv has no row mmad");

    const auto program =
        std::make_shared<Program>(std::make_shared<const Costs>(chip), std::make_shared<SourceTable>());
    for (int tile = 0; tile < 125; ++tile) matmul_tile(*program, *mmad);
    program->finish();
    const Timeline timeline = schedule(program);

    std::printf("%s: %lld cycles\n", chip->name().c_str(), static_cast<long long>(timeline.total_cycles()));
    for (const Statistic& pipe : measure(timeline).pipes)
        std::printf("%-10s %7lld cycles busy\n", pipe.name.c_str(), static_cast<long long>(pipe.cycles));
    return 0;
} catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
