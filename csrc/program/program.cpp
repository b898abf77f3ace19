// SPDX-License-Identifier: Apache-2.0
#include "mskpp/program.h"

#include <algorithm>

#include "base/text.h"
#include "mskpp/error.h"
#include "program/dependencies.h"

namespace mskpp {

using base::concat;

namespace {

constexpr std::uint16_t no_id = 0xffff;
constexpr std::uint32_t vec_target = 1u << 16;  // beside the flag id
constexpr std::size_t longest_name = 128;

void check_core_name(std::string_view name) {
    const bool fits = !name.empty() && name.size() <= longest_name && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    });
    if (!fits)
        throw Error(ErrorKind::value, concat("Core: name '", name.substr(0, 64), "'; allowed are 1 to ", longest_name,
                                             " letters A-Z a-z and digits 0-9"));
}

const char* const wait_names[] = {"SET_FLAG", "WAIT_FLAG", "PIPE_BARRIER"};

}  // namespace

std::uint32_t SourceTable::add(const std::string& file, int line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string place = concat(file.substr(file.find_last_of('/') + 1), ":", line);
    const auto [found, added] = ids_.try_emplace(place, static_cast<std::uint32_t>(places_.size()));
    if (added) places_.push_back(std::move(place));
    return found->second;
}

std::string SourceTable::text(std::uint32_t id) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return places_[id];
}

Program::Program(std::shared_ptr<const Costs> costs, std::shared_ptr<SourceTable> sources)
    : costs_(std::move(costs)), sources_(std::move(sources)), data_(std::make_unique<Dependencies>(late_)) {
    outputs_.push_back({0, Memory::GM, DType::unset});
    move_names_.fill(no_id);
    core_names_.emplace_back();
    core_barrier_.push_back(none);
    core_pipes_.emplace_back().fill(no_id);
}

Program::~Program() = default;

std::uint16_t Program::core(std::string_view name) {
    const auto found = std::find(core_names_.begin() + 1, core_names_.end(), name);
    if (found != core_names_.end()) return static_cast<std::uint16_t>(found - core_names_.begin());
    require_open();
    check_core_name(name);
    if (core_names_.size() >= 4096) throw Error(ErrorKind::value, "Core: more than 4095 cores in one program");
    core_names_.emplace_back(name);
    core_barrier_.push_back(none);
    core_pipes_.emplace_back().fill(no_id);
    return static_cast<std::uint16_t>(core_names_.size() - 1);
}

std::uint16_t Program::new_pipe_id(const FlagEnd& end) {
    std::uint16_t& id = core_pipes_[end.core][static_cast<std::size_t>(end.pipe)];
    id = static_cast<std::uint16_t>(pipes_.size());
    const std::string& core = core_names_[end.core];
    pipes_.push_back(
        {end.core, end.pipe, none, none, none, concat(core, core.empty() ? "" : "-", mskpp::name(end.pipe))});
    return id;
}

std::uint16_t Program::name_id(const std::string& name) {
    const auto known = name_ids_.find(name);
    if (known != name_ids_.end()) return known->second;
    if (names_.size() >= no_id - 1) throw Error(ErrorKind::value, "program: more than 65534 different instructions");
    names_.push_back(name);
    return name_ids_.emplace(name, static_cast<std::uint16_t>(names_.size() - 1)).first->second;
}

void Program::refuse() const {
    if (finished_) throw Error(ErrorKind::state, "program: it is finished; start a new one");
    throw Error(ErrorKind::overflow, "program: more than 2^31 instructions or dependencies");
}

std::uint32_t Program::new_output_id(std::uint64_t key, const Output& output) {
    const auto known = output_ids_.find(key);
    if (known != output_ids_.end()) return known->second;
    outputs_.push_back(output);
    return output_ids_.emplace(key, static_cast<std::uint32_t>(outputs_.size() - 1)).first->second;
}

void Program::add_further(std::uint32_t instruction, const Tensor& written) {
    if (written.memory() != Memory::GM)
        further_.push_back({instruction, data_->number(written), written.bytes(), written.memory()});
}

// Stores found_, each value that is read once.
void Program::keep_dependencies() {
    constexpr std::size_t few = 8;
    const auto same = [](const Dependency& a, const Dependency& b) {
        return a.producer == b.producer && a.tensor == b.tensor;
    };
    if (found_.size() > few) {
        const auto before = [](const Dependency& a, const Dependency& b) {
            return a.producer != b.producer ? a.producer < b.producer : a.tensor < b.tensor;
        };
        std::stable_sort(found_.begin(), found_.end(), before);
        found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
    }
    for (std::size_t i = 0; i < found_.size(); ++i) {
        bool twice = false;
        for (std::size_t j = 0; j < std::min(i, few); ++j) twice = twice || same(found_[j], found_[i]);
        if (!twice) dependencies_.push_back(found_[i]);
    }
}

// The dependencies in found_, a barrier the pipe has not waited for yet, and the instruction itself.
// REQUIRES: require_open() passed. (Always inline: half of its time would be handing over its arguments.)
[[gnu::always_inline]] inline std::uint32_t Program::append(Kind kind, const FlagEnd& end, std::uint16_t name,
                                                            Cost cost, std::int64_t work, std::uint32_t line,
                                                            std::uint32_t output) {
    const auto id = static_cast<std::uint32_t>(records_.size());
    const std::uint16_t pipe_number = pipe_id(end);
    PipeInfo& pipe = pipes_[pipe_number];
    const auto first = static_cast<std::uint32_t>(dependencies_.size());
    const std::uint32_t barrier = core_barrier_[end.core];
    if (barrier != pipe.barrier) {
        found_.push_back({barrier, none});
        pipe.barrier = barrier;
    }
    if (found_.size() == 1)
        dependencies_.push_back(found_.front());
    else if (!found_.empty())
        keep_dependencies();
    records_.push_back({cost.cycles, work, first, line, pipe_number, name, kind, cost.origin, false, false, false});
    output_of_.push_back(output);
    next_.push_back(none);
    if (pipe.last == none)
        pipe.first = id;
    else
        next_[pipe.last] = id;
    pipe.last = id;
    closed_ = std::max(id, first) >= most_instructions - 1;
    return id;
}

// Register pipes belong to a vector scope, whose span is that of its instructions.
inline std::uint32_t Program::commit(Kind kind, Pipe pipe, std::uint16_t name, Cost cost, std::int64_t work,
                                     const Place& place, std::uint32_t output) {
    const std::uint32_t id = append(kind, {place.core, pipe}, name, cost, work, place.line, output);
    if (is_register_pipe(pipe) && place.scope != none) {
        Scope& scope = scopes_[place.scope];
        if (scope.first == none) scope.first = id;
        scope.last = id;
    }
    return id;
}

void Program::require_scope(Pipe pipe, const Place& place, std::string_view who) const {
    if (place.scope == none && (pipe == Pipe::RVECLD || pipe == Pipe::RVECEX || pipe == Pipe::RVECST))
        throw Error(ErrorKind::state, concat(who, ": vector registers are used inside `with VecScope(name):` only"));
}

Pipe Program::register_slot(Pipe pipe, const Place& place, std::string_view who) {
    if (pipe == Pipe::VEC || pipe == Pipe::ALL)
        throw Error(ErrorKind::value, concat(who, ": ", mskpp::name(pipe), " names no single pipe"));
    require_scope(pipe, place, who);
    Scope& scope = scopes_[place.scope];
    if (pipe == Pipe::RVECLD) return scope.loads++ % 2 == 0 ? Pipe::RVECLD0 : Pipe::RVECLD1;
    if (pipe == Pipe::RVECEX) return scope.executes++ % 2 == 0 ? Pipe::RVECEX0 : Pipe::RVECEX1;
    return pipe;
}

void Program::set_cache_hit_ratio(double ratio) {
    if (!(ratio >= 0 && ratio <= 1))
        throw Error(ErrorKind::value, concat("Chip: cache_hit_ratio is ", ratio, "; allowed are 0 to 1"));
    hit_ratio_ = ratio;
    const auto first = static_cast<std::uint32_t>(records_.size());
    if (!hit_ratios_.empty() && hit_ratios_.back().first == first) hit_ratios_.pop_back();
    hit_ratios_.push_back({first, ratio});
}

Cost Program::cost(const Move& move, const LoadOptions& options) {
    const std::size_t path =
        static_cast<std::size_t>(move.source) * memory_count + static_cast<std::size_t>(move.target);
    const std::size_t way = static_cast<std::uint64_t>(move.bytes) * 0x9e3779b97f4a7c15u >> 62;
    MoveMemo& memo = move_memo_[(path * 2 + (move.transform ? 1 : 0)) * moves_remembered + way];
    if (memo.bytes != move.bytes || memo.repeat != options.repeat || memo.hit_ratio != hit_ratio_)
        memo = {move.bytes, options.repeat, hit_ratio_,
                costs_->move(*move.path, move.bytes, move.transform, options.repeat, hit_ratio_)};
    return memo.cost;
}

namespace {

const RateTable& find_table(const Costs& costs, const Computation& computation) {
    const Instruction& instruction = *computation.instruction;
    const std::string dtypes = computation.key_text();
    if (const RateTable* table = costs.find_vector(instruction.name, dtypes)) return *table;
    const std::vector<std::string> known = costs.vector_dtypes(instruction.name);
    throw Error(ErrorKind::type, concat(instruction.function, ": no cost for ", dtypes, " on ", costs.chip().name(),
                                        "; costs exist for ", known.empty() ? "none" : base::join(known, ", "),
                                        ". Register one: docs/add_an_instruction.md"));
}

}  // namespace

Program::InstructionMemo& Program::memo_of(const Instruction& instruction) {
    if (latest_memo_ != nullptr && latest_memo_->instruction == &instruction) return *latest_memo_;
    latest_memo_ = &instruction_memo_[&instruction];
    latest_memo_->instruction = &instruction;
    latest_memo_->alive = instruction.weak_from_this().lock();
    return *latest_memo_;
}

Cost Program::cost(const Computation& computation) {
    const Instruction& instruction = *computation.instruction;
    if (instruction.cost == CostRule::fixed) return costs_->fixed(instruction.cycles);
    if (instruction.cost == CostRule::per_register)
        return {whole_cycles(static_cast<double>(computation.registers) * instruction.cycles), Origin::theoretical};
    InstructionMemo& memo = memo_of(instruction);
    if (instruction.cost == CostRule::mmad) {
        if (memo.x_dtype == computation.x_dtype && memo.m == computation.m && memo.k == computation.k &&
            memo.n == computation.n)
            return memo.cost;
        memo.cost = costs_->mmad(computation.x_dtype, computation.m, computation.k, computation.n);
        memo.x_dtype = computation.x_dtype;
        memo.m = computation.m;
        memo.k = computation.k;
        memo.n = computation.n;
        return memo.cost;
    }
    if (memo.table == nullptr || memo.key != computation.key) {
        memo.table = &find_table(*costs_, computation);
        memo.key = computation.key;
        memo.work = 0;
    }
    if (memo.work != computation.work) {
        memo.cost = costs_->vector(*memo.table, computation.x_dtype, computation.work);
        memo.work = computation.work;
    }
    return memo.cost;
}

void Program::load(Tensor& target, const Tensor& source, const LoadOptions& options, const Place& place) {
    const Move move = prepare_move(chip(), target, source, options, false);
    add_move(move, target, source, options, cost(move, options), place);
}

void Program::add_move(const Move& move, Tensor& target, const Tensor& source, const LoadOptions& options, Cost cost,
                       const Place& place, const Pipe* pipe) {
    const std::size_t path =
        static_cast<std::size_t>(move.source) * memory_count + static_cast<std::size_t>(move.target);
    require_open();
    target.require_current();
    const Pipe queue = slot(pipe != nullptr ? *pipe : move.path->pipe, place, "load");
    if (move_names_[path] == no_id) {
        const bool vld = move.source == Memory::UB && move.target == Memory::VEC;
        const bool vst = move.source == Memory::VEC && move.target == Memory::UB;
        move_names_[path] = name_id(vld ? "RV_VLD" : vst ? "RV_VST" : "MOV-" + path_name(move.source, move.target));
    }
    apply_move(target, source);
    data_->begin();
    found_.clear();
    if (options.expect_value != no_mark)
        data_->read_marked(source, options.expect_value, found_);
    else
        data_->read(source, found_);
    const std::uint32_t output = output_id(target, DType::unset);
    const std::uint32_t id = commit(Kind::move, queue, move_names_[path], cost, move.bytes, place, output);
    if (move.transform) records_[id].transform = true;
    if (options.repeat > 1 && cost.origin != Origin::user) repeated_.push_back({id, options.repeat});
    data_->write(target, options.set_value, id);
    if (output == 0) add_further(id, target);
    data_->await(id);
}

Tensor Program::issue(const Instruction& instruction, const Call& call, const Place& place) {
    const Computation computation = prepare_computation(chip(), instruction, call);
    const Cost found = cost(computation);
    require_open();
    require_scope(instruction.pipe, place, instruction.function);
    Tensor output = apply_computation(computation, call);
    add_computation(computation, call, output, found, place);
    return output;
}

namespace {

// Whether the output lies where the operand did: an accumulator handed on in L0C, or the part of the tensor that is
// read, or more of it.
bool takes_place(const Instruction& instruction, const Tensor& output, const Tensor& operand) {
    if (instruction.cost == CostRule::mmad) return operand.memory() == Memory::L0C;
    if (!(output.storage() == operand.storage())) return false;
    return !output.is_view() || (operand.is_view() && contains(output.region(), operand.region()));
}

}  // namespace

void Program::add_computation(const Computation& computation, const Call& call, const Tensor& output, Cost cost,
                              const Place& place) {
    const Instruction& instruction = *computation.instruction;
    require_open();
    output.require_current();
    const Pipe queue = slot(instruction.pipe, place, instruction.function);
    InstructionMemo& memo = memo_of(instruction);
    if (memo.name == no_id) memo.name = name_id(instruction.name);
    data_->begin();
    found_.clear();
    if (instruction.cost == CostRule::mmad && call.attributes.flag) data_->set_ready(*call.operands[2], true);
    for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
        const Tensor* operand = call.operands[i];
        if (!instruction.arguments[i].read || operand == nullptr) continue;
        const std::size_t before = found_.size();
        data_->read(*operand, found_);
        if (found_.size() != before && takes_place(instruction, output, *operand)) note_in_place(before);
    }
    if (instruction.accumulates && data_->has_value(output)) {
        const std::size_t before = found_.size();
        data_->read_existing(output, found_);
        note_in_place(before);
    }
    const std::uint32_t written = output_id(output, computation.x_dtype);
    const std::uint32_t id = commit(Kind::computation, queue, memo.name, cost, computation.work, place, written);
    data_->write(output, no_mark, id);
    if (written == 0) add_further(id, output);
    data_->await(id);
}

void Program::add_own(const OwnInstruction& own, const Place& place) {
    require_open();
    for (const Tensor* read : own.reads) read->require_current();
    for (const Tensor* written : own.writes) written->require_current();
    const Pipe queue = slot(own.pipe, place, own.name);
    const std::uint16_t name = name_id(std::string(own.name));
    data_->begin();
    found_.clear();
    for (const Tensor* read : own.reads) data_->read(*read, found_);
    const std::uint32_t output = own.writes.size() == 1 ? output_id(*own.writes.front(), DType::unset) : 0;
    const std::uint32_t id = commit(own.kind, queue, name, {own.cycles, Origin::user}, own.work, place, output);
    for (const Tensor* written : own.writes) data_->write(*written, no_mark, id);
    if (output == 0)
        for (const Tensor* written : own.writes) add_further(id, *written);
    data_->await(id);
}

void Program::set_ready(const Tensor& tensor, bool ready) {
    require_open();
    data_->set_ready(tensor, ready);
}

bool Program::has_value(const Tensor& view) {
    require_open();
    return data_->has_value(view);
}

std::uint32_t Program::open_scope(std::string name, std::uint16_t core) {
    require_open();
    scopes_.push_back({std::move(name), core, none, none, 0, 0});
    return static_cast<std::uint32_t>(scopes_.size() - 1);
}

// "PIPE-MTE2" or "aic0_PIPE-MTE2" (also "aic0-PIPE-MTE2", as results spell it). Changes nothing.
Program::FlagEndText Program::parse_end(std::string_view text, const char* who) const {
    const std::size_t split = text.find_first_of("_-");
    const bool qualified = split != std::string_view::npos && !base::equal_ignoring_case(text.substr(0, split), "PIPE");
    const FlagEndText end{qualified ? text.substr(0, split) : std::string_view(),
                          parse_pipe(qualified ? text.substr(split + 1) : text, who)};
    const bool barrier = who == std::string_view("pipe_barrier");
    if (end.pipe == Pipe::RVECLD || end.pipe == Pipe::RVECEX || (end.pipe == Pipe::ALL && !barrier) ||
        (end.pipe == Pipe::VEC && barrier))
        throw Error(ErrorKind::value, concat(who, ": '", text.substr(0, 64), "' names no single pipe",
                                             barrier ? "; name one, or PIPE-ALL" : ""));
    if ((end.pipe == Pipe::VEC || is_register_pipe(end.pipe)) && chip().path(Memory::UB, Memory::VEC) == nullptr)
        throw Error(ErrorKind::value, concat(who, ": ", chip().name(), " (architecture ", chip().architecture(),
                                             ") has no vector registers, so no '", text.substr(0, 64), "'"));
    if (qualified) check_core_name(end.core);
    return end;
}

Program::FlagEnd Program::end_of(const FlagEndText& text, const Place& place) {
    return {text.core.empty() ? place.core : core(text.core), text.pipe};
}

std::pair<const Program::FlagKey, Program::Flag>& Program::flag(std::string_view source, std::string_view target,
                                                                std::int64_t id, const Place& place, const char* who) {
    if (id < 0 || id > 65535)
        throw Error(ErrorKind::value, concat(who, ": event_id is ", id, "; allowed are 0 to 65535"));
    const FlagEndText source_text = parse_end(source, who), target_text = parse_end(target, who);
    require_open();
    FlagEnd from = end_of(source_text, place), to = end_of(target_text, place);
    FlagKey key{0, 0, static_cast<std::uint32_t>(id)};
    if (from.pipe == Pipe::VEC) from.pipe = Pipe::RVECST;
    if (to.pipe == Pipe::VEC) {
        to.pipe = Pipe::RVECLD0;
        key.id |= vec_target;
    }
    key.source = pipe_id(from);
    key.target = pipe_id(to);
    return *flags_.try_emplace(key).first;
}

void Program::set_flag(std::string_view source, std::string_view target, std::int64_t id, const Place& place) {
    auto& [key, flag] = this->flag(source, target, id, place, "set_flag");
    found_.clear();
    const PipeInfo& pipe = pipes_[key.source];
    const std::uint32_t set =
        append(Kind::set_flag, {pipe.core, pipe.pipe}, name_id(wait_names[0]), {1, Origin::theoretical}, 0, place.line);
    flag.sets.push_back(set);
    if (flag.matched < flag.waits.size()) {  // the wait was issued first
        const std::uint32_t wait = flag.waits[flag.matched++];
        late_.push_back({wait, set, none});
        if (key.has_two_waits()) late_.push_back({wait + 1, set, none});
    }
}

void Program::wait_flag(std::string_view source, std::string_view target, std::int64_t id, const Place& place) {
    auto& [key, flag] = this->flag(source, target, id, place, "wait_flag");
    const bool matched = flag.matched < flag.sets.size();
    const std::uint32_t set = matched ? flag.sets[flag.matched] : none;
    const std::uint16_t name = name_id(wait_names[1]);
    const auto wait_on = [&](const FlagEnd& end) {
        found_.clear();
        if (matched) found_.push_back({set, none});
        return append(Kind::wait_flag, end, name, {1, Origin::theoretical}, 0, place.line);
    };
    const FlagEnd end{pipes_[key.target].core, pipes_[key.target].pipe};
    flag.waits.push_back(wait_on(end));
    if (key.has_two_waits()) wait_on({end.core, Pipe::RVECLD1});
    if (matched) ++flag.matched;
}

// On one pipe, order alone does it. Of all pipes, the scalar pipe waits for the last of each, and the next of each for
// it.
void Program::barrier(std::string_view pipe, const Place& place) {
    const FlagEndText text = parse_end(pipe, "pipe_barrier");
    require_open();
    FlagEnd end = end_of(text, place);
    const bool all = end.pipe == Pipe::ALL;
    if (all) end.pipe = Pipe::S;
    const std::uint16_t own = pipe_id(end);
    found_.clear();
    if (all)
        for (const PipeInfo& other : pipes_)
            if (other.core == end.core && other.last != none && &other != &pipes_[own])
                found_.push_back({other.last, none});
    const std::uint32_t id =
        append(Kind::barrier, end, name_id(wait_names[2]), {0, Origin::theoretical}, 0, place.line);
    if (!all) return;
    core_barrier_[end.core] = id;
    pipes_[own].barrier = id;
}

std::string Program::flag_text(const FlagKey& key) const {
    const auto text = [&](std::uint16_t pipe, std::string_view pipe_name) {
        const std::string& core = core_names_[pipes_[pipe].core];
        return concat('"', core, core.empty() ? "" : "_", pipe_name, '"');
    };
    return concat(text(key.source, mskpp::name(pipes_[key.source].pipe)), ", ",
                  text(key.target, key.has_two_waits() ? "PIPE-VEC" : mskpp::name(pipes_[key.target].pipe)), ", ",
                  key.number());
}

const Program::FlagKey* Program::flag_of(std::uint32_t i) const {
    const Kind kind = records_[i].kind;
    if (kind != Kind::set_flag && kind != Kind::wait_flag) return nullptr;
    for (const auto& [key, flag] : flags_) {
        const auto& list = kind == Kind::set_flag ? flag.sets : flag.waits;
        const bool second = kind == Kind::wait_flag && key.has_two_waits() && i > 0;
        if (std::binary_search(list.begin(), list.end(), i) ||
            (second && std::binary_search(list.begin(), list.end(), i - 1)))
            return &key;
    }
    return nullptr;
}

void Program::finish() {
    constexpr std::size_t most_listed = 20;
    if (finished_) return;
    struct Left {
        std::uint32_t first;  // instruction
        std::size_t count;
    };
    std::size_t count = 0;
    std::unordered_map<std::string, Left> alike;  // by what is said of them
    for (const auto& [key, flag] : flags_) {
        const auto note = [&](const std::vector<std::uint32_t>& list, const char* what, const char* fate) {
            for (std::size_t i = flag.matched; i < list.size(); ++i) {
                const std::string line = source_text(records_[list[i]].line);
                const std::string said =
                    concat("\n  ", what, "(", flag_text(key), ")", line.empty() ? "" : " (" + line + ")", fate);
                Left& group = alike.try_emplace(said, Left{list[i], 0}).first->second;
                ++group.count;
                ++count;
            }
        };
        note(flag.sets, "set_flag", " is never waited for");
        note(flag.waits, "wait_flag", " waits for a set_flag that is never issued");
    }
    if (count != 0) {
        std::vector<std::pair<std::uint32_t, std::string>> left;
        for (const auto& [said, group] : alike)
            left.emplace_back(group.first, group.count == 1 ? said : concat(said, " x ", group.count));
        std::sort(left.begin(), left.end());
        std::string message = concat("flags: ", count, " of set_flag and wait_flag do not pair up");
        for (std::size_t i = 0; i < std::min(most_listed, left.size()); ++i) message += left[i].second;
        if (left.size() > most_listed) message += concat("\n  ... and ", left.size() - most_listed, " more");
        throw Error(ErrorKind::flag, message + "\n  mskpp lint SCRIPT.py explains the flags");
    }
    finished_ = closed_ = true;
    std::stable_sort(late_.begin(), late_.end(),
                     [](const LateDependency& a, const LateDependency& b) { return a.reader < b.reader; });
    for (const LateDependency& late : late_) records_[late.reader].late = true;
    starved_ = data_->starved();
    for (const Starved& starved : starved_) records_[starved.reader].starved = true;
}

std::size_t Program::first_late(std::uint32_t reader) const {
    const auto before = [](const LateDependency& late, std::uint32_t wanted) { return late.reader < wanted; };
    return static_cast<std::size_t>(std::lower_bound(late_.begin(), late_.end(), reader, before) - late_.begin());
}

const Path* Program::path_of(std::uint16_t name) const {
    for (std::size_t path = 0; path < move_names_.size(); ++path)
        if (move_names_[path] == name)
            return chip().path(static_cast<Memory>(path / memory_count), static_cast<Memory>(path % memory_count));
    return nullptr;
}

const TensorRecord& Program::tensor(std::uint32_t number) const { return data_->tensor(number); }

std::string Program::tensor_text(std::uint32_t number) const {
    const TensorRecord& tensor = data_->tensor(number);
    const std::string line = source_text(tensor.line);
    return concat(mskpp::name(tensor.memory), " tensor ", data_->shape(tensor).text(), " ", mskpp::name(tensor.dtype),
                  line.empty() ? "" : " (" + line + ")");
}

}  // namespace mskpp
