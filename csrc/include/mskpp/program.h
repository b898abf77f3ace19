// SPDX-License-Identifier: Apache-2.0
// A program: the instructions of one model in the order issued, as plain numbers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mskpp/chip.h"
#include "mskpp/chunked_vector.h"
#include "mskpp/cost.h"
#include "mskpp/instruction.h"
#include "mskpp/tensor.h"
#include "mskpp/types.h"

namespace mskpp {

inline constexpr std::uint32_t none = 0xffffffffu;
inline constexpr std::int64_t no_mark = -1;

enum class Kind : std::uint8_t { move, computation, set_flag, wait_flag, barrier };

// One instruction. 32 bytes, so that ten million fit in memory.
struct Record {
    std::int64_t cycles;
    std::int64_t work;               // bytes of a move, operations of a computation
    std::uint32_t first_dependency;  // its dependencies end where the next instruction's begin
    std::uint32_t line;              // id in the source table, 0 when not known
    std::uint16_t pipe;
    std::uint16_t name;
    Kind kind;
    Origin origin;
    bool late : 1;       // has late dependencies
    bool starved : 1;    // waits for something that nothing writes
    bool transform : 1;  // a move that changes the format
};
static_assert(sizeof(Record) == 32);

// What an instruction writes into a memory of a core.
struct Output {
    std::int64_t bytes;
    Memory memory;
    DType dtype;  // of a built-in computation, that of x, the unit of its rate; unset else
};

// One of the outputs of an instruction that has several.
struct FurtherOutput {
    std::uint32_t instruction;
    std::uint32_t tensor;
    std::int64_t bytes;
    Memory memory;
};

// A computation that writes over what it reads: its output takes the place of what the producer wrote.
struct InPlace {
    std::uint32_t reader;
    std::uint32_t producer;
};

// "Waits for the end of `producer`", because of a tensor or (tensor == none) because of a flag or barrier.
struct Dependency {
    std::uint32_t producer;
    std::uint32_t tensor;
};

// A dependency on an instruction issued after its reader.
struct LateDependency {
    std::uint32_t reader;
    std::uint32_t producer;
    std::uint32_t tensor;
};

// An instruction that waits for a value that nothing writes.
struct Starved {
    std::uint32_t reader;
    std::uint32_t tensor;
    std::int64_t mark;  // of the version it waits for, or no_mark
};

// A move with a repeat count above 1.
struct Repeated {
    std::uint32_t move;
    std::int64_t repeat;
};

// The cache hit ratio of the instructions from `first` on.
struct RatioFrom {
    std::uint32_t first;
    double ratio;
};

// What messages say of a tensor, and (for the recording only) who wrote it.
struct TensorRecord {
    std::uint32_t line;
    std::uint32_t shape;
    Memory memory;
    DType dtype;
    Format format;
    bool ready;
    std::uint32_t writer_or_log;
};

struct PipeInfo {
    std::uint16_t core;
    Pipe pipe;
    std::uint32_t first = none, last = none;  // instructions, in issue order
    std::uint32_t barrier = none;             // barrier its next instruction has already waited for
    std::string name;                         // "aic0-PIPE-MTE1", or "PIPE-MTE1" outside any core
};

// The lines of user code, by id. Id 0 is "not known". Any thread.
class SourceTable {
  public:
    SourceTable() : places_(1) {}
    std::uint32_t add(const std::string& file, int line);  // keeps the file's name without its folders
    std::string text(std::uint32_t id) const;              // "kernel.py:18", "" for id 0

  private:
    mutable std::mutex mutex_;
    std::vector<std::string> places_;
    std::unordered_map<std::string, std::uint32_t> ids_;
};

// Where an instruction is issued from.
struct Place {
    std::uint16_t core = 0;      // 0: outside any core
    std::uint32_t scope = none;  // vector scope
    std::uint32_t line = 0;
};

struct LoadOptions {
    std::int64_t repeat = 1;              // >= 1
    std::int64_t set_value = no_mark;     // marks the version written
    std::int64_t expect_value = no_mark;  // waits for the version so marked
};

// A checked move. `path` is null where the chip has no such path (only with allow_any_path).
struct Move {
    Memory source, target;
    std::int64_t bytes;
    bool transform;
    const Path* path;
};

// Checks `target.load(source)`; changes nothing. Error (value, type).
Move prepare_move(const Chip& chip, const Tensor& target, const Tensor& source, const LoadOptions& options,
                  bool allow_any_path);
// Gives the target what it lacks of dtype, shape and format.
void apply_move(Tensor& target, const Tensor& source);

// The operands of one call, in the order of the instruction's arguments; null for numbers and attributes.
struct Call {
    std::array<Tensor*, 8> operands{};
    Attributes attributes;
};

// A checked computation.
struct Computation {
    const Instruction* instruction = nullptr;
    TensorType output;                 // its type; Tensor: the operand that is written, or a new one
    DType x_dtype = DType::unset;      // the unit of the rate
    std::array<DType, 4> key{};        // dtypes of the cost key, unset behind the last
    std::int64_t work = 0;             // operations reported
    std::int64_t m = 0, k = 0, n = 0;  // of mmad
    std::int64_t registers = 0;        // 256-byte registers of x

    std::string key_text() const;  // "FP16 FP16 FP16"
};

// Checks the operands and infers the output's type; changes nothing. Error (value, type).
Computation prepare_computation(const Chip& chip, const Instruction& instruction, const Call& call);
// The tensor that is written, with its type set: the operand, or a new one.
Tensor apply_computation(const Computation& computation, const Call& call);

// Gives a tensor back the type it had, unless keep() was called. For what can fail after the type was set.
class TypeRollback {
  public:
    explicit TypeRollback(const Tensor& tensor)
        : storage_(tensor.storage()),
          type_(storage_->type),
          has_shape_(storage_->has_shape),
          generation_(storage_->generation) {}
    ~TypeRollback() {
        if (!storage_) return;
        storage_->type = type_;
        storage_->has_shape = has_shape_;
        storage_->generation = generation_;
    }
    TypeRollback(const TypeRollback&) = delete;
    TypeRollback& operator=(const TypeRollback&) = delete;
    void keep() { storage_ = {}; }

  private:
    StorageHandle storage_;
    TensorType type_;
    bool has_shape_;
    std::uint32_t generation_;
};

// An instruction of the user's own, checked by its author.
struct OwnInstruction {
    std::string_view name;
    Pipe pipe;
    Kind kind;
    std::vector<Tensor*> reads, writes;
    std::int64_t work = 0;
    std::int64_t cycles = 0;
};

class Dependencies;

class Program {
  public:
    Program(std::shared_ptr<const Costs> costs, std::shared_ptr<SourceTable> sources);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // --- recording; every function throws before it changes anything, and Error (state) after finish() ---

    // A move, as prepare_move() and add_move() together.
    void load(Tensor& target, const Tensor& source, const LoadOptions& options = {}, const Place& place = {});
    // A computation; returns its output.
    Tensor issue(const Instruction& instruction, const Call& call, const Place& place = {});

    Cost cost(const Move& move, const LoadOptions& options);
    Cost cost(const Computation& computation);
    void add_move(const Move& move, Tensor& target, const Tensor& source, const LoadOptions& options, Cost cost,
                  const Place& place, const Pipe* pipe = nullptr);
    void add_computation(const Computation& computation, const Call& call, const Tensor& output, Cost cost,
                         const Place& place);
    void add_own(const OwnInstruction& own, const Place& place);

    // "PIPE-MTE2" on the current core, or "aic0_PIPE-MTE2". Ids are 0 to 65535.
    void set_flag(std::string_view source, std::string_view target, std::int64_t id, const Place& place);
    void wait_flag(std::string_view source, std::string_view target, std::int64_t id, const Place& place);
    void barrier(std::string_view pipe, const Place& place);

    void set_ready(const Tensor& tensor, bool ready);
    bool has_value(const Tensor& view);

    // Number of the core with that name (1 to 128 letters and digits), given at its first use.
    std::uint16_t core(std::string_view name);
    // A vector scope on the core: register loads and executes take their slots in turn, from the first.
    std::uint32_t open_scope(std::string name, std::uint16_t core);
    void set_cache_hit_ratio(double ratio);  // 0..1, for what is issued from now on

    // Ends the recording. Error (flag) listing the sets and waits that do not pair up.
    void finish();

    // --- reading ---

    struct Scope {
        std::string name;
        std::uint16_t core;
        std::uint32_t first, last;  // instructions on register pipes; first == none: no such instruction
        std::uint8_t loads, executes;
    };

    // The sets and waits of one (source, target, id), in program order: the k-th wait waits for the k-th set. A wait on
    // PIPE-VEC is two instructions, of which the first is listed.
    struct Flag {
        std::vector<std::uint32_t> sets, waits;
        std::size_t matched = 0;  // pairs so far
    };
    struct FlagKey {
        std::uint16_t source, target;  // pipes
        std::uint32_t id;              // bit 16: the target is PIPE-VEC
        std::uint32_t number() const { return id & 0xffffu; }
        bool has_two_waits() const { return id >> 16 != 0; }
        bool operator==(const FlagKey& other) const {
            return source == other.source && target == other.target && id == other.id;
        }
    };
    struct FlagHash {
        std::size_t operator()(const FlagKey& key) const {
            return ((std::size_t{key.source} << 16 | key.target) << 20 ^ key.id) * 0x9e3779b97f4a7c15u;
        }
    };

    const Chip& chip() const { return costs_->chip(); }
    const std::shared_ptr<const Costs>& shared_costs() const { return costs_; }
    std::size_t size() const { return records_.size(); }
    const Record& record(std::size_t i) const { return records_[i]; }
    // Its only output, if that lies in a core; else one of 0 bytes.
    const Output& output(std::size_t i) const { return outputs_[output_of_[i]]; }
    bool has_one_output(std::size_t i) const { return output_of_[i] != 0; }
    // The outputs of those with several that lie in a core, by instruction.
    const std::vector<FurtherOutput>& further_outputs() const { return further_; }
    // By reader.
    const std::vector<InPlace>& in_place() const { return in_place_; }
    // The instruction behind this one on its pipe, or none.
    std::uint32_t next_on_pipe(std::size_t i) const { return next_[i]; }
    const std::vector<PipeInfo>& pipes() const { return pipes_; }
    const std::vector<std::string>& cores() const { return core_names_; }
    const std::vector<Scope>& scopes() const { return scopes_; }
    const std::string& name(const Record& record) const { return names_[record.name]; }
    const std::vector<std::string>& names() const { return names_; }
    const TensorRecord& tensor(std::uint32_t number) const;
    std::string tensor_text(std::uint32_t number) const;  // "L1 tensor [64,64] FP16 (kernel.py:22)"
    std::string source_text(std::uint32_t line) const { return sources_->text(line); }

    // The dependencies of an instruction: `visit(Dependency)` for each, the late ones after the rest.
    template <typename Visit>
    void each_dependency(std::size_t i, Visit visit) const {
        const std::size_t end = i + 1 < size() ? records_[i + 1].first_dependency : dependency_count();
        for (std::size_t d = records_[i].first_dependency; d < end; ++d) visit(dependency(d));
        if (records_[i].late)
            for (std::size_t d = first_late(static_cast<std::uint32_t>(i)); d < late_.size() && late_[d].reader == i;
                 ++d)
                visit(Dependency{late_[d].producer, late_[d].tensor});
    }
    std::size_t dependency_count() const { return dependencies_.size(); }
    const Dependency& dependency(std::size_t d) const { return dependencies_[d]; }
    std::size_t first_late(std::uint32_t reader) const;
    // By reader, once the recording has ended.
    const std::vector<LateDependency>& late_dependencies() const { return late_; }
    // In program order.
    const std::vector<Starved>& starved() const { return starved_; }
    // In no particular order.
    const std::unordered_map<FlagKey, Flag, FlagHash>& flags() const { return flags_; }
    std::string flag_text(const FlagKey& key) const;  // "\"PIPE-MTE2\", \"PIPE-V\", 0"
    // The flag that this set or wait is of; null for any other instruction. O(flags).
    const FlagKey* flag_of(std::uint32_t i) const;
    // In program order; without moves whose cost is the user's.
    const std::vector<Repeated>& repeated() const { return repeated_; }
    // In program order; before the first of them the ratio is 0.
    const std::vector<RatioFrom>& hit_ratios() const { return hit_ratios_; }
    // The path that moves of that name (Record::name) take, or null.
    const Path* path_of(std::uint16_t name) const;
    // The sets of each (source pipe, target pipe, id), in program order: `visit(source, target, sets)`. The k-th set is
    // the k-th wait's. Of target PIPE-VEC, `target` is the first of the load slots. The flags come in no order.
    template <typename Visit>
    void each_flag(Visit visit) const {
        for (const auto& [key, flag] : flags_) visit(key.source, key.target, flag.sets);
    }

  private:
    struct FlagEnd {
        std::uint16_t core;
        Pipe pipe;
    };
    // Costs found last, per path and per instruction: tiles repeat.
    struct MoveMemo {
        std::int64_t bytes = 0, repeat = 0;
        double hit_ratio = 0;
        Cost cost;
    };
    static constexpr std::size_t most_instructions = std::size_t{1} << 31;  // numbers share 32 bits with a log mark
    static constexpr std::size_t moves_remembered = 4;  // per path, with and without a change of format
    struct InstructionMemo {
        const Instruction* instruction = nullptr;
        std::shared_ptr<const Instruction> alive;  // so that its address stays its own
        std::uint16_t name = 0xffff;               // not known yet
        DType x_dtype = DType::unset;
        std::array<DType, 4> key{};
        std::int64_t m = 0, k = 0, n = 0, work = 0;
        const RateTable* table = nullptr;
        Cost cost;
    };

    struct RecentOutput {
        std::uint64_t key = 0;  // of GM, which has no outputs
        std::uint32_t id = 0;
    };

    void require_open() const {
        if (closed_) refuse();
    }
    [[noreturn]] void refuse() const;
    void keep_dependencies();
    InstructionMemo& memo_of(const Instruction& instruction);
    std::uint32_t append(Kind kind, const FlagEnd& end, std::uint16_t name, Cost cost, std::int64_t work,
                         std::uint32_t line, std::uint32_t output = 0);
    std::uint32_t commit(Kind kind, Pipe pipe, std::uint16_t name, Cost cost, std::int64_t work, const Place& place,
                         std::uint32_t output);
    // Index of the output; 0 outside the cores.
    std::uint32_t output_id(const Tensor& written, DType dtype) {
        if (written.memory() == Memory::GM) return 0;
        const std::int64_t bytes = written.bytes();
        const std::uint64_t key = static_cast<std::uint64_t>(bytes) << 8 |
                                  static_cast<std::uint64_t>(written.memory()) << 4 | static_cast<std::uint64_t>(dtype);
        RecentOutput& recent = recent_output_[key * 0x9e3779b97f4a7c15u >> 60];
        if (recent.key != key) recent = {key, new_output_id(key, {bytes, written.memory(), dtype})};
        return recent.id;
    }
    std::uint32_t new_output_id(std::uint64_t key, const Output& output);
    void add_further(std::uint32_t instruction, const Tensor& written);
    // The last dependencies found, from that one on, are of a value that the instruction writes over.
    void note_in_place(std::size_t first) {
        for (std::size_t i = first; i < found_.size(); ++i)
            in_place_.push_back({static_cast<std::uint32_t>(records_.size()), found_[i].producer});
    }
    std::uint16_t pipe_id(const FlagEnd& end) {
        const std::uint16_t id = core_pipes_[end.core][static_cast<std::size_t>(end.pipe)];
        return id != 0xffff ? id : new_pipe_id(end);
    }
    std::uint16_t new_pipe_id(const FlagEnd& end);
    std::uint16_t name_id(const std::string& name);
    void require_scope(Pipe pipe, const Place& place, std::string_view who) const;
    // The queue a group of pipes stands for this time.
    Pipe slot(Pipe pipe, const Place& place, std::string_view who) {
        return pipe < Pipe::RVECST ? pipe : register_slot(pipe, place, who);
    }
    Pipe register_slot(Pipe pipe, const Place& place, std::string_view who);
    struct FlagEndText {
        std::string_view core;  // empty: the current one
        Pipe pipe;
    };
    FlagEndText parse_end(std::string_view text, const char* who) const;
    FlagEnd end_of(const FlagEndText& text, const Place& place);
    std::pair<const FlagKey, Flag>& flag(std::string_view source, std::string_view target, std::int64_t id,
                                         const Place& place, const char* who);

    std::shared_ptr<const Costs> costs_;
    std::shared_ptr<SourceTable> sources_;
    double hit_ratio_ = 0;
    std::vector<RatioFrom> hit_ratios_;
    bool finished_ = false;
    bool closed_ = false;  // finished or full
    ChunkedVector<Record> records_;
    ChunkedVector<std::uint32_t> next_;
    ChunkedVector<Dependency> dependencies_;
    std::vector<LateDependency> late_;
    std::vector<Starved> starved_;
    std::vector<Output> outputs_;             // each kind once; the first stands for none or several
    ChunkedVector<std::uint32_t> output_of_;  // index into outputs_
    std::vector<FurtherOutput> further_;
    std::vector<InPlace> in_place_;
    std::unordered_map<std::uint64_t, std::uint32_t> output_ids_;
    std::array<RecentOutput, 16> recent_output_{};
    std::vector<Repeated> repeated_;
    std::unique_ptr<Dependencies> data_;
    std::vector<Dependency> found_;  // of the instruction being issued
    std::vector<std::string> core_names_;
    std::vector<std::uint32_t> core_barrier_;
    std::vector<std::array<std::uint16_t, queue_count>> core_pipes_;
    std::vector<PipeInfo> pipes_;
    std::vector<std::string> names_;
    std::unordered_map<std::string, std::uint16_t> name_ids_;
    std::vector<Scope> scopes_;
    std::unordered_map<FlagKey, Flag, FlagHash> flags_;
    std::array<MoveMemo, memory_count * memory_count * 2 * moves_remembered> move_memo_{};
    std::array<std::uint16_t, memory_count * memory_count> move_names_;
    std::unordered_map<const Instruction*, InstructionMemo> instruction_memo_;
    InstructionMemo* latest_memo_ = nullptr;
};

}  // namespace mskpp
