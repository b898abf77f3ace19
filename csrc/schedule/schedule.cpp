// SPDX-License-Identifier: Apache-2.0
#include "mskpp/schedule.h"

#include <utility>

#include "mskpp/error.h"
#include "schedule/engine.h"
#include "schedule/explain.h"

namespace mskpp {

Attempt attempt(const Program& program) {
    Engine<AsRecorded> engine(AsRecorded{program});
    Attempt out;
    out.total = engine.run();
    if (engine.stuck()) out.deadlock = explain_deadlock(program, engine.heads(), engine.end());
    out.end = std::move(engine.end());
    return out;
}

Timeline schedule(std::shared_ptr<const Program> program) {
    Attempt done = attempt(*program);
    if (!done.deadlock.empty()) throw Error(ErrorKind::deadlock, done.deadlock);
    return Timeline(std::move(program), std::move(done.end), done.total);
}

}  // namespace mskpp
