// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"

NB_MODULE(_core, m) {
    using namespace mskpp::bindings;
    m.doc() = "C++ core of mskpp: chips, costs, tensors, recording, scheduling, statistics and traces.";
    nanobind::set_leak_warnings(false);  // module state lives as long as the interpreter
    bind_error(m);
    bind_chip(m);
    bind_tensor(m);
    bind_program(m);
    bind_instruction(m);
    bind_schedule(m);
    bind_memory(m);
    bind_lint(m);
    bind_analysis(m);
}
