// SPDX-License-Identifier: Apache-2.0
#include "program/dependencies.h"

#include <algorithm>

namespace mskpp {

namespace {

Box whole_box(const Shape& shape) {
    Box box;
    box.rank = shape.rank();
    for (int i = 0; i < shape.rank(); ++i) box.end[static_cast<std::size_t>(i)] = shape[i];
    return box;
}

}  // namespace

std::uint32_t Dependencies::shape_id(const Shape& shape) {
    const auto hash = static_cast<std::uint32_t>(shape.elements()) * 31 +
                      static_cast<std::uint32_t>(shape.rank() == 0 ? 0 : shape[0]);
    std::uint32_t& recent = recent_shape_[(hash * 0x9e3779b1u) >> 26];
    if (recent != 0 && shapes_[recent - 1] == shape) return recent - 1;
    shapes_.push_back(shape);
    recent = static_cast<std::uint32_t>(shapes_.size());
    return recent - 1;
}

// What another program knows the storage by.
void Dependencies::keep_latest(Storage& storage) {
    const auto ended = [](const Storage::Enrolment& other) { return other.program.expired(); };
    if (!storage.others) storage.others = std::make_unique<std::vector<Storage::Enrolment>>();
    storage.others->erase(std::remove_if(storage.others->begin(), storage.others->end(), ended), storage.others->end());
    storage.others->push_back(storage.latest);
}

std::uint32_t Dependencies::enrol_anew(Storage& storage) {
    if (storage.others)
        for (const Storage::Enrolment& other : *storage.others)
            if (other.in(identity_)) return other.number;
    const auto number = static_cast<std::uint32_t>(tensors_.size());
    tensors_.push_back({storage.line, shape_id(storage.type.shape), storage.memory, storage.type.dtype,
                        storage.type.format, storage.ready_at_start, none});
    if (!storage.latest.program.expired()) keep_latest(storage);
    storage.latest = {identity_, number};
    return number;
}

Dependencies::Log* Dependencies::find_log(std::uint32_t number) {
    const TensorRecord& tensor = tensors_[number];
    return has_log(tensor) ? logs_[tensor.writer_or_log & ~log_bit].get() : nullptr;
}

Dependencies::Log& Dependencies::log_of(std::uint32_t number) {
    if (Log* log = find_log(number)) return *log;
    TensorRecord& tensor = tensors_[number];
    if (free_logs_.empty()) {
        free_logs_.push_back(static_cast<std::uint32_t>(logs_.size()));
        logs_.push_back(std::make_unique<Log>());
    }
    const std::uint32_t writer = tensor.writer_or_log;
    tensor.writer_or_log = free_logs_.back() | log_bit;
    Log& log = *logs_[free_logs_.back()];
    free_logs_.pop_back();
    log.tensor = number;
    if (writer != none) log.writes.add(whole_box(shapes_[tensor.shape]), writer);
    return log;
}

// Goes back to the short form when the log says no more than "written as a whole by `writer`".
void Dependencies::drop_plain_log(std::uint32_t number, std::uint32_t writer) {
    Log* log = find_log(number);
    if (log == nullptr || !log->waits.empty() || !log->marks.empty() || !log->marked_waits.empty()) return;
    log->writes.clear();
    log->earlier.clear();
    free_logs_.push_back(tensors_[number].writer_or_log & ~log_bit);
    tensors_[number].writer_or_log = writer;
}

// The part of the tensor. A tensor that has changed its shape since (in another program, or as the output of the very
// instruction that reads it) counts as a whole.
Box Dependencies::region(const Tensor& view, std::uint32_t number) const {
    const Shape& shape = shapes_[tensors_[number].shape];
    return view.storage()->type.shape == shape ? view.region() : whole_box(shape);
}

void Dependencies::visible_writers(std::uint32_t number, const Box& box, std::vector<Dependency>& out,
                                   std::vector<Box>& unwritten) {
    const TensorRecord& tensor = tensors_[number];
    Log* log = find_log(number);
    if (log == nullptr) {
        if (tensor.writer_or_log != none)
            out.push_back({tensor.writer_or_log, number});
        else
            unwritten.push_back(box);
        return;
    }
    std::vector<std::uint32_t> candidates;
    log->writes.find(box, candidates);
    unwritten.push_back(box);
    for (auto it = candidates.rbegin(); it != candidates.rend() && !unwritten.empty(); ++it) {
        const BoxMap::Entry& write = log->writes.entry(*it);
        std::vector<Box> rest;
        bool seen = false;
        for (const Box& part : unwritten) {
            seen = seen || overlap(part, write.box);
            subtract(part, write.box, rest);
        }
        if (seen) out.push_back({write.value, number});
        unwritten = std::move(rest);
    }
    if (unwritten.empty() || log->earlier.empty()) return;
    for (const std::uint32_t writer : log->earlier) out.push_back({writer, number});
    unwritten.clear();
}

// A tensor that was written in parts takes another shape: which part holds what is not known any more, so a read of any
// waits for all.
void Dependencies::reshape(std::uint32_t number, const Shape& shape) {
    TensorRecord& tensor = tensors_[number];
    Log& log = log_of(number);
    std::vector<Dependency> writers;
    std::vector<Box> unwritten;
    visible_writers(number, whole_box(shapes_[tensor.shape]), writers, unwritten);
    log.earlier.clear();
    for (const Dependency& writer : writers) log.earlier.push_back(writer.producer);
    log.writes.clear();
    const Box box = whole_box(shape);
    BoxMap waits;
    log.waits.each([&](const BoxMap::Entry& wait) { waits.add(box, wait.value); });
    log.waits = std::move(waits);
    for (auto* marks : {&log.marks, &log.marked_waits})
        for (Mark& mark : *marks) mark.box = box;
    tensor.shape = shape_id(shape);
}

void Dependencies::read_parts(const Tensor& view, std::uint32_t number, std::vector<Dependency>& out) {
    std::vector<Box> unwritten;
    visible_writers(number, region(view, number), out, unwritten);
    if (tensors_[number].ready) return;
    for (const Box& part : unwritten) found_.push_back({number, no_mark, part});
}

void Dependencies::read_existing(const Tensor& view, std::vector<Dependency>& out) {
    std::vector<Box> unwritten;
    const std::uint32_t number = enrol(view);
    visible_writers(number, region(view, number), out, unwritten);
}

void Dependencies::read_marked(const Tensor& view, std::int64_t mark, std::vector<Dependency>& out) {
    const std::uint32_t number = enrol(view);
    const Box box = region(view, number);
    if (const Log* log = find_log(number))
        for (auto it = log->marks.rbegin(); it != log->marks.rend(); ++it)
            if (it->value == mark && overlap(it->box, box)) {
                out.push_back({it->instruction, number});
                return;
            }
    found_.push_back({number, mark, box});
}

void Dependencies::start_waiting(std::uint32_t reader) {
    for (const Found& found : found_) {
        Log& log = log_of(found.tensor);
        if (found.mark == no_mark)
            log.waits.add(found.box, reader);
        else
            log.marked_waits.push_back({found.mark, reader, found.box});
    }
    found_.clear();
}

// Gives the waiting readers the writer they waited for; parts it does not cover go on waiting.
void Dependencies::serve(Log& log, std::uint32_t number, const Box& box, bool whole, std::int64_t mark,
                         std::uint32_t writer) {
    std::vector<std::pair<Box, std::uint32_t>> left;
    const auto take = [&](const BoxMap::Entry& wait) {
        late_.push_back({wait.value, writer, number});
        if (whole) return;
        std::vector<Box> rest;
        subtract(wait.box, box, rest);
        for (const Box& part : rest) left.emplace_back(part, wait.value);
    };
    if (whole) {
        log.waits.each(take);
        log.waits.clear();
    } else if (!log.waits.empty()) {
        std::vector<std::uint32_t> waiting;
        log.waits.find(box, waiting);
        for (const std::uint32_t entry : waiting) {
            take(log.waits.entry(entry));
            log.waits.remove(entry);
        }
        for (const auto& [part, reader] : left) log.waits.add(part, reader);
    }
    if (mark == no_mark) return;
    const auto served = [&](const Mark& wait) {
        const bool fits = wait.value == mark && (whole || overlap(wait.box, box));
        if (fits) late_.push_back({wait.instruction, writer, number});
        return fits;
    };
    log.marked_waits.erase(std::remove_if(log.marked_waits.begin(), log.marked_waits.end(), served),
                           log.marked_waits.end());
}

void Dependencies::write_whole(std::uint32_t number, const Tensor& tensor, std::int64_t mark, std::uint32_t writer) {
    TensorRecord& record = tensors_[number];
    const TensorType& type = tensor.storage()->type;
    const bool reshaped = !(shapes_[record.shape] == type.shape);
    if (reshaped) record.shape = shape_id(type.shape);
    record.dtype = type.dtype;
    record.format = type.format;
    Log* log = mark == no_mark ? find_log(number) : &log_of(number);
    if (log == nullptr) {
        record.writer_or_log = writer;
        return;
    }
    const Box box = whole_box(type.shape);
    serve(*log, number, box, true, mark, writer);
    log->writes.clear();
    log->writes.add(box, writer);
    log->earlier.clear();
    for (auto* marks : {&log->marks, &log->marked_waits})
        if (reshaped)
            for (Mark& other : *marks) other.box = box;  // no part of the new shape holds it more than another
    if (mark != no_mark) log->marks.push_back({mark, writer, box});
    drop_plain_log(number, writer);
}

void Dependencies::write(const Tensor& view, std::int64_t mark, std::uint32_t writer) {
    const std::size_t known = tensors_.size();
    const std::uint32_t number = enrol(view);
    if (number >= known && !view.is_view() && mark == no_mark) {  // its record is new and has its type
        tensors_[number].writer_or_log = writer;
        return;
    }
    if (!view.is_view()) return write_whole(number, view, mark, writer);
    if (!(shapes_[tensors_[number].shape] == view.storage()->type.shape)) reshape(number, view.storage()->type.shape);
    const Box box = view.region();
    if (contains(box, whole_box(view.storage()->type.shape))) return write_whole(number, view, mark, writer);
    Log& log = log_of(number);
    serve(log, number, box, false, mark, writer);
    std::vector<std::uint32_t> earlier;
    log.writes.find(box, earlier);
    for (const std::uint32_t entry : earlier)
        if (contains(box, log.writes.entry(entry).box)) log.writes.remove(entry);
    log.writes.add(box, writer);
    if (mark != no_mark) log.marks.push_back({mark, writer, box});
}

void Dependencies::set_ready(const Tensor& tensor, bool ready) {
    const std::uint32_t number = enrol(tensor);
    tensors_[number].ready = ready;
    if (Log* log = find_log(number)) {
        log->writes.clear();
        log->earlier.clear();
        log->marks.clear();
        drop_plain_log(number, none);
    } else {
        tensors_[number].writer_or_log = none;
    }
}

bool Dependencies::has_value(const Tensor& view) {
    const std::uint32_t number = enrol(view);
    if (tensors_[number].ready) return true;
    if (!view.has_shape()) return false;
    std::vector<Dependency> writers;
    std::vector<Box> unwritten;
    visible_writers(number, region(view, number), writers, unwritten);
    return unwritten.empty();
}

std::vector<Starved> Dependencies::starved() const {
    std::vector<Starved> out;
    for (const auto& log : logs_) {
        log->waits.each([&](const BoxMap::Entry& wait) { out.push_back({wait.value, log->tensor, no_mark}); });
        for (const Mark& wait : log->marked_waits) out.push_back({wait.instruction, log->tensor, wait.value});
    }
    std::stable_sort(out.begin(), out.end(), [](const Starved& a, const Starved& b) { return a.reader < b.reader; });
    return out;
}

}  // namespace mskpp
