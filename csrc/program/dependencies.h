// SPDX-License-Identifier: Apache-2.0
// Who waits for whom because of data: read after write, part by part of a region (docs/how_it_works.md).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mskpp/chunked_vector.h"
#include "mskpp/program.h"
#include "mskpp/tensor.h"
#include "program/box_map.h"

namespace mskpp {

// Invariants:
//  1. A tensor without a log was written as a whole by one instruction, or not at all; no reader of it still waits.
//  2. A log holds the writes that are still visible, in program order, and the parts that readers still wait for.
//  3. No instruction ever waits for itself.
//  4. All boxes of a tensor lie in the shape of its record, the one it had at its last write as a whole.
class Dependencies {
    static constexpr std::uint32_t log_bit = 0x80000000u;  // writer_or_log: below, a writer; else a log, or none

  public:
    explicit Dependencies(std::vector<LateDependency>& late) : late_(late) {}

    // Forgets what the reads of an instruction that was not issued left behind.
    void begin() { found_.clear(); }
    // Appends to `out` the earlier instructions that the read of the view waits for. What no earlier one wrote is kept
    // and, once await() is called for this reader, waits for the next writer.
    void read(const Tensor& view, std::vector<Dependency>& out) {
        const std::uint32_t number = enrol(view);
        const TensorRecord& tensor = tensors_[number];
        if (tensor.writer_or_log < log_bit)  // written as a whole: the usual case
            out.push_back({tensor.writer_or_log, number});
        else if (tensor.writer_or_log != none || !tensor.ready)
            read_parts(view, number, out);
    }
    // As read(), for the version of the tensor marked with the value only.
    void read_marked(const Tensor& view, std::int64_t mark, std::vector<Dependency>& out);
    // As read(), but what has no value yet is not waited for.
    void read_existing(const Tensor& view, std::vector<Dependency>& out);
    void write(const Tensor& view, std::int64_t mark, std::uint32_t writer);
    // Starts the waiting for the parts that the reads found nobody for. After write(), so that no one waits for itself.
    void await(std::uint32_t reader) {
        if (!found_.empty()) start_waiting(reader);
    }

    void set_ready(const Tensor& tensor, bool ready);
    bool has_value(const Tensor& view);

    // Readers that nobody serves, in their order.
    std::vector<Starved> starved() const;
    std::uint32_t number(const Tensor& tensor) { return enrol(tensor); }
    const TensorRecord& tensor(std::uint32_t number) const { return tensors_[number]; }
    const Shape& shape(const TensorRecord& tensor) const { return shapes_[tensor.shape]; }

  private:
    struct Mark {
        std::int64_t value;
        std::uint32_t instruction;  // the writer; of a wait, the reader
        Box box;
    };
    struct Log {  // a free one holds nothing
        std::uint32_t tensor = none;
        BoxMap writes;                       // value: writer
        BoxMap waits;                        // value: reader
        std::vector<std::uint32_t> earlier;  // writers from before a change of shape, behind all of `writes`
        std::vector<Mark> marks;             // in program order
        std::vector<Mark> marked_waits;
    };
    struct Found {
        std::uint32_t tensor;
        std::int64_t mark;  // no_mark: an ordinary wait
        Box box;
    };

    // The tensor's number in this program, given at its first use.
    std::uint32_t enrol(const Tensor& tensor) {
        const Storage::Enrolment& latest = tensor.storage()->latest;
        return latest.in(identity_) ? latest.number : enrol_anew(*tensor.storage());
    }
    void read_parts(const Tensor& view, std::uint32_t number, std::vector<Dependency>& out);
    void start_waiting(std::uint32_t reader);
    std::uint32_t enrol_anew(Storage& storage);
    static void keep_latest(Storage& storage);
    std::uint32_t shape_id(const Shape& shape);
    static bool has_log(const TensorRecord& tensor) {
        return tensor.writer_or_log != none && tensor.writer_or_log >= log_bit;
    }
    Log& log_of(std::uint32_t number);
    Log* find_log(std::uint32_t number);
    void drop_plain_log(std::uint32_t number, std::uint32_t writer);
    void visible_writers(std::uint32_t number, const Box& box, std::vector<Dependency>& out,
                         std::vector<Box>& unwritten);
    Box region(const Tensor& view, std::uint32_t number) const;
    void reshape(std::uint32_t number, const Shape& shape);
    void write_whole(std::uint32_t number, const Tensor& tensor, std::int64_t mark, std::uint32_t writer);
    void serve(Log& log, std::uint32_t number, const Box& box, bool whole, std::int64_t mark, std::uint32_t writer);

    ChunkedVector<TensorRecord> tensors_;
    std::vector<Shape> shapes_;
    std::array<std::uint32_t, 64> recent_shape_{};  // by hash: id + 1
    std::vector<std::unique_ptr<Log>> logs_;
    std::vector<std::uint32_t> free_logs_;
    std::vector<Found> found_;  // between the reads and await()
    std::vector<LateDependency>& late_;
    std::shared_ptr<const char> identity_ = std::make_shared<const char>();
};

}  // namespace mskpp
