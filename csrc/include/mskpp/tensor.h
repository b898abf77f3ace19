// SPDX-License-Identifier: Apache-2.0
// Tensors: a storage (memory, dtype, format, shape, ready at the start or not) or a view of one. They hold no data.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mskpp/instruction.h"
#include "mskpp/types.h"

namespace mskpp {

class Program;

// One position of a subscript, with numpy's meaning: an integer drops its axis, a slice keeps it, an ellipsis stands
// for as many whole axes as are left.
struct Index {
    enum class Kind : std::uint8_t { integer, slice, ellipsis };
    Kind kind = Kind::slice;
    std::optional<std::int64_t> start, stop, step;  // an integer is in `start`

    static Index at(std::int64_t i) { return {Kind::integer, i, {}, {}}; }
    static Index range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                       std::optional<std::int64_t> step = {}) {
        return {Kind::slice, start, stop, step};
    }
};

// A box of a storage: one half-open interval per axis.
struct Box {
    int rank = 0;
    std::array<std::int32_t, Shape::max_rank> begin{}, end{};
};

// What tensors share: copies of a Tensor and slices of it are handles to one Storage.
// REQUIRES: used from one thread at a time, together with the programs that use it.
struct Storage {
    Storage(Memory where, bool ready, const TensorType& given, bool shaped)
        : memory(where), ready_at_start(ready), has_shape(shaped), type(given) {}

    Memory memory;
    bool ready_at_start;
    bool has_shape;
    std::uint32_t generation = 0;   // of the shape; a slice of another one is stale
    std::uint32_t generations = 0;  // how many there were: none comes again
    std::uint32_t line = 0;         // where it was made: an id of the program's source table, 0 when not known
    TensorType type;

    // Its number in the program that used it last, and in others that are still there.
    struct Enrolment {
        std::weak_ptr<const char> program;  // its identity: one object a program, which dies with it
        std::uint32_t number = 0;

        bool in(const std::shared_ptr<const char>& other) const {
            return !program.owner_before(other) && !other.owner_before(program);
        }
    };
    Enrolment latest;
    std::unique_ptr<std::vector<Enrolment>> others;
    std::uint32_t owners = 0;  // a plain number, as only one thread at a time uses a storage
};

// Keeps a Storage alive.
class StorageHandle {
  public:
    StorageHandle() = default;
    explicit StorageHandle(Storage* storage) : storage_(storage) { take(); }
    StorageHandle(const StorageHandle& other) : storage_(other.storage_) { take(); }
    StorageHandle(StorageHandle&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
    StorageHandle& operator=(StorageHandle other) noexcept {
        std::swap(storage_, other.storage_);
        return *this;
    }
    ~StorageHandle() {
        if (storage_ != nullptr && --storage_->owners == 0) delete storage_;
    }

    Storage* operator->() const { return storage_; }
    Storage& operator*() const { return *storage_; }
    explicit operator bool() const { return storage_ != nullptr; }
    bool operator==(const StorageHandle& other) const { return storage_ == other.storage_; }

  private:
    void take() {
        if (storage_ != nullptr) ++storage_->owners;
    }

    Storage* storage_ = nullptr;
};

class Tensor {
  public:
    Tensor() = default;
    // GM tensors and tensors with `ready` hold a value from the start; the rest are empty until written. What is not
    // given (dtype unset, no shape, format unset) is taken from what is first loaded.
    explicit Tensor(Memory memory, DType dtype = DType::unset, Format format = Format::unset, bool ready = false)
        : storage_(new Storage(memory, ready || memory == Memory::GM, TensorType{dtype, format, {}}, false)) {}
    Tensor(Memory memory, DType dtype, const Shape& shape, Format format = Format::unset, bool ready = false)
        : storage_(new Storage(memory, ready || memory == Memory::GM, TensorType{dtype, format, shape}, true)) {}

    Memory memory() const { return storage_->memory; }
    DType dtype() const { return storage_->type.dtype; }
    Format format() const { return storage_->type.format; }
    bool has_shape() const { return storage_->has_shape; }
    bool is_view() const { return view_ != nullptr; }
    bool is_stale() const { return view_ && view_->generation != storage_->generation; }
    // Of the view; [1] where every axis was dropped. Error (state) for a stale slice.
    Shape shape() const { return view_ ? view_shape() : storage_->type.shape; }
    std::int64_t elements() const { return view_ ? view_shape().elements() : storage_->type.shape.elements(); }
    std::int64_t bytes() const { return size_bytes(dtype(), elements()); }
    TensorType type() const { return {dtype(), format(), shape()}; }
    std::string text() const;  // "L1 tensor [64,64] FP16"

    // The view that the subscript selects. Error (index) outside the axes, (value) when it selects nothing or the
    // tensor has no shape yet. A step keeps every step-th element; as a region the view counts as the box around them.
    Tensor slice(const std::vector<Index>& indices) const;
    Box region() const;

    // Error (type, value) when the type cannot be written here: a slice keeps its storage's dtype and its number of
    // elements. `who` starts the message.
    void check_type(const TensorType& type, std::string_view who) const;
    // Gives the tensor the type of what is written into it; a slice keeps its own. REQUIRES: check_type() passed.
    void set_type(const TensorType& type);
    void drop_shape();              // takes the next one from what is loaded; slices are stale then
    void require_current() const {  // Error (state) for a stale slice
        if (is_stale()) refuse_stale();
    }

    const StorageHandle& storage() const { return storage_; }

  private:
    struct Axis {
        std::int32_t start, step, count;
        bool visible;
    };
    struct View {
        int rank;
        std::uint32_t generation;
        std::array<Axis, Shape::max_rank> axis;
    };
    [[noreturn]] void refuse_stale() const;
    Shape view_shape() const;
    View whole() const;
    static void apply(Axis& axis, const Index& index, int position);

    StorageHandle storage_;
    std::shared_ptr<const View> view_;  // null: the whole storage
};

}  // namespace mskpp
