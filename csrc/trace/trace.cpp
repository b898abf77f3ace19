// SPDX-License-Identifier: Apache-2.0
#include "mskpp/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/text.h"
#include "mskpp/error.h"
#include "mskpp/memory_use.h"

namespace mskpp {

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr std::size_t progress_step = 1000000;
constexpr std::int64_t vec_thread = static_cast<std::int64_t>(Pipe::VEC), lane_distance = 100;
constexpr std::size_t most_digits = 32;
constexpr std::int64_t picoseconds = 1000000;  // of a microsecond: the unit written times are counted in

// A new file, written through a buffer under a hidden name; it gets its own name when it is whole, and is gone else.
class File {
  public:
    explicit File(const std::filesystem::path& path)
        : path_(path), part_(path.parent_path() / base::concat(".", path.filename().string(), ".part")) {
        std::error_code error;
        if (std::filesystem::exists(std::filesystem::symlink_status(path_, error))) fail(EEXIST);
        ::unlink(part_.c_str());  // what a killed run left
        descriptor_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (descriptor_ < 0) fail(errno);
        (void)::fchmod(descriptor_, 0600);  // whatever the umask
        buffer_.reserve(buffer_bytes + 4096);
    }
    ~File() {
        if (descriptor_ < 0) return;
        ::close(descriptor_);
        ::unlink(part_.c_str());
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    File& operator<<(std::string_view text) {
        buffer_ += text;
        if (buffer_.size() >= buffer_bytes) flush();
        return *this;
    }
    File& operator<<(std::int64_t value) {
        char digits[24];
        const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
        return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
    }
    void close() {
        flush();
        const int descriptor = descriptor_;
        descriptor_ = -1;
        if (::close(descriptor) == 0 && take_name()) return;
        const int reason = errno;
        ::unlink(part_.c_str());
        fail(reason);
    }

  private:
    // Never in place of another file, where the file system can promise that.
    bool take_name() const {
        if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) return true;
        return (errno == EINVAL || errno == ENOSYS) && ::rename(part_.c_str(), path_.c_str()) == 0;
    }
    void flush() {
        for (std::size_t written = 0; written < buffer_.size();) {
            const ssize_t n = ::write(descriptor_, buffer_.data() + written, buffer_.size() - written);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail(errno);
            written += static_cast<std::size_t>(n);
        }
        buffer_.clear();
    }
    [[noreturn]] void fail(int reason) const {
        throw Error(ErrorKind::io,
                    base::concat("trace: ", path_.filename().string(), " cannot be written: ", std::strerror(reason)));
    }

    std::filesystem::path path_, part_;
    int descriptor_ = -1;
    std::string buffer_;
};

std::string json_string(std::string_view text) {
    static constexpr char hex[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            out += "\\u00";
            out += hex[byte >> 4];
            out += hex[byte & 15];
        } else {
            out += c;
        }
    }
    return out + '"';
}

class TraceWriter {
  public:
    TraceWriter(const Timeline& timeline, File& out)
        : timeline_(timeline),
          program_(timeline.program()),
          mhz_(program_.chip().clock_mhz()),
          out_(out),
          free_(program_.pipes().size(), 0) {
        for (const std::string& name : program_.names()) names_.push_back(json_string(name));
    }

    void write(const std::function<void(std::size_t)>& progress) {
        out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
        write_heads();
        for (std::size_t i = 0; i < program_.size(); ++i) {
            write_instruction(i);
            if (progress && (i + 1) % progress_step == 0) progress(i + 1);
        }
        write_scopes();
        write_memories();
        out_ << "\n]}\n";
    }

  private:
    // A time, in microseconds and picoseconds of the next. The same cycle always gives the same one.
    struct Moment {
        std::int64_t us, ps;
        // The double that a reader makes of the written digits.
        double value() const {
            constexpr std::int64_t exact_us = (std::int64_t{1} << 53) / picoseconds - 1;
            if (us < exact_us) return static_cast<double>(us * picoseconds + ps) / picoseconds;
            char digits[most_digits];
            double read = 0;
            std::from_chars(digits, write(digits), read);
            return read;
        }
        char* write(char* digits) const {
            char* end = std::to_chars(digits, digits + most_digits, us).ptr;
            *end++ = '.';
            for (std::int64_t scale = picoseconds / 10; scale > 0; scale /= 10)
                *end++ = static_cast<char>('0' + ps / scale % 10);
            return end;
        }
    };

    Moment moment(std::int64_t cycle) const {
        constexpr long double most = 9e18L;  // picoseconds that an int64 holds: a quarter of a year
        const long double time = static_cast<long double>(cycle) * picoseconds / mhz_;
        if (time < most) return moment_of(static_cast<std::int64_t>(time));
        const long double us = std::floor(static_cast<long double>(cycle) / mhz_);
        const long double rest = std::fma(-us, static_cast<long double>(mhz_), static_cast<long double>(cycle));
        const auto ps = static_cast<std::int64_t>(std::max(0.0L, rest) * picoseconds / mhz_);
        return {static_cast<std::int64_t>(us), std::min(ps, picoseconds - 1)};
    }

    static Moment moment_of(std::int64_t ps) { return {ps / picoseconds, ps % picoseconds}; }

    void write_time(const char* key, const Moment& time) {
        char digits[most_digits];
        out_ << key << std::string_view(digits, static_cast<std::size_t>(time.write(digits) - digits));
    }

    void write_ratio(double value) {
        char digits[40];
        const auto end = std::to_chars(digits, digits + sizeof digits, std::round(value * 1e4) / 1e4).ptr;
        out_ << std::string_view(digits, static_cast<std::size_t>(end - digits));
    }

    // A reader adds ts and dur as doubles; where that would pass the end, the duration gives way.
    void write_span(std::int64_t begin, std::int64_t end) {
        const Moment from = moment(begin), to = moment(end);
        Moment duration{to.us - from.us, to.ps - from.ps};
        for (std::int64_t step = 1;; step *= 2) {
            if (duration.ps < 0) duration = {duration.us - 1, duration.ps + picoseconds};
            if (duration.us < 0) duration = {0, 0};
            if (from.value() + duration.value() <= to.value() || (duration.us == 0 && duration.ps == 0)) break;
            duration.us -= step / picoseconds;
            duration.ps -= step % picoseconds;
        }
        write_time(",\"ts\":", from);
        write_time(",\"dur\":", duration);
    }

    void begin_event(std::string_view name, std::uint16_t core, std::int64_t thread) {
        out_ << (first_ ? "\n" : ",\n") << "{\"ph\":\"X\",\"name\":" << name << ",\"pid\":" << std::int64_t{core}
             << ",\"tid\":" << thread;
        first_ = false;
    }

    void write_head(const char* what, std::uint16_t core, std::int64_t thread, const std::string& argument) {
        out_ << (first_ ? "\n" : ",\n") << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << std::int64_t{core};
        if (thread >= 0) out_ << ",\"tid\":" << thread;
        out_ << ",\"args\":{" << argument << "}}";
        first_ = false;
    }

    void write_thread(std::uint16_t core, Pipe pipe, std::int64_t lane = 0) {
        const auto thread = static_cast<std::int64_t>(pipe) + lane * lane_distance;
        write_head("thread_name", core, thread, "\"name\":" + json_string(name(pipe)));
        write_head("thread_sort_index", core, thread, "\"sort_index\":" + std::to_string(thread));
    }

    void write_heads() {
        std::map<std::uint16_t, bool> cores;
        for (const PipeInfo& pipe : program_.pipes()) cores.emplace(pipe.core, true);
        for (const auto& [core, used] : cores) {
            const std::string& core_name = program_.cores()[core];
            write_head("process_name", core, -1,
                       "\"name\":" + json_string(core_name.empty() ? "kernel perf prediction" : core_name));
            write_head("process_sort_index", core, -1, "\"sort_index\":" + std::to_string(core));
        }
        for (const PipeInfo& pipe : program_.pipes()) write_thread(pipe.core, pipe.pipe);
    }

    void write_instruction(std::size_t i) {
        const Record& record = program_.record(i);
        if (record.kind == Kind::barrier) {
            free_[record.pipe] = timeline_.end(i);
            return;
        }
        const PipeInfo& pipe = program_.pipes()[record.pipe];
        // A waiting pipe is busy waiting from the moment it is free.
        const std::int64_t begin = record.kind == Kind::wait_flag ? free_[record.pipe] : timeline_.start(i);
        free_[record.pipe] = timeline_.end(i);
        begin_event(names_[record.name], pipe.core, static_cast<std::int64_t>(pipe.pipe));
        write_span(begin, timeline_.end(i));
        out_ << ",\"args\":{\"Cycle\":" << timeline_.end(i) - begin;
        const double cycles = static_cast<double>(record.cycles), work = static_cast<double>(record.work);
        if (record.kind == Kind::move) {
            out_ << ",\"Size(B)\":" << record.work << ",\"Bandwidth(GB/s)\":";
            write_ratio(record.cycles == 0 ? 0 : work / cycles * mhz_ / 1e3);
        } else if (record.kind == Kind::computation) {
            out_ << ",\"Task Type\":\"AI_CORE\",\"Ops\":" << record.work << ",\"Ops/Cycle\":";
            write_ratio(record.cycles == 0 ? 0 : work / cycles);
        } else {
            out_ << ",\"Task Type\":" << names_[record.name];
        }
        out_ << "}}";
    }

    // From the first start to the last end on the register pipes of the scope.
    std::pair<std::int64_t, std::int64_t> span(const Program::Scope& scope) const {
        std::int64_t begin = timeline_.start(scope.first), end = timeline_.end(scope.first);
        for (std::size_t i = scope.first; i <= scope.last; ++i) {
            const Record& record = program_.record(i);
            const PipeInfo& pipe = program_.pipes()[record.pipe];
            const bool flag = record.kind == Kind::set_flag || record.kind == Kind::wait_flag;
            if (pipe.core != scope.core || !is_register_pipe(pipe.pipe) || flag) continue;
            begin = std::min(begin, timeline_.start(i));
            end = std::max(end, timeline_.end(i));
        }
        return {begin, end};
    }

    // One slice over each vector scope. A scope may begin before the last one has stored all; slices of one thread must
    // not overlap, so it goes to a further thread of the same name then.
    void write_scopes() {
        std::map<std::uint16_t, std::vector<std::int64_t>> lanes;  // per core: when each thread is free
        for (const Program::Scope& scope : program_.scopes()) {
            if (scope.first == none) continue;
            const auto [begin, end] = span(scope);
            std::vector<std::int64_t>& free = lanes[scope.core];
            std::size_t lane = 0;
            while (lane < free.size() && free[lane] > begin) ++lane;
            if (lane == free.size()) {
                free.push_back(0);
                write_thread(scope.core, Pipe::VEC, static_cast<std::int64_t>(lane));
            }
            free[lane] = end;
            begin_event("\"PIPE-VEC\"", scope.core, vec_thread + static_cast<std::int64_t>(lane) * lane_distance);
            write_span(begin, end);
            out_ << ",\"args\":{\"Cycle\":" << end - begin << ",\"Scope\":" << json_string(scope.name) << "}}";
        }
    }

    void begin_mark(const char* phase, const std::string& name, std::uint16_t core, std::int64_t cycle) {
        out_ << (first_ ? "\n" : ",\n") << "{\"ph\":\"" << phase << "\",\"name\":\"" << name
             << "\",\"pid\":" << std::int64_t{core};
        write_time(",\"ts\":", moment(cycle));
        first_ = false;
    }

    // A counter track over each local memory, and a mark where one holds more than there is.
    void write_memories() {
        for (const MemoryUse& use : memory_use(timeline_)) {
            const std::string memory(name(use.memory));
            for (const MemoryPoint& point : use.points) {
                begin_mark("C", memory + " live bytes", use.core, point.cycle);
                out_ << ",\"args\":{\"bytes\":" << point.bytes << "}}";
            }
            if (!use.exceeded()) continue;
            begin_mark("i", memory + " over capacity", use.core, use.peak_cycle);
            out_ << ",\"s\":\"p\",\"args\":{\"Peak(B)\":" << use.peak_bytes
                 << ",\"Capacity(B)\":" << *use.capacity_bytes << "}}";
        }
    }

    const Timeline& timeline_;
    const Program& program_;
    double mhz_;
    File& out_;
    std::vector<std::string> names_;
    std::vector<std::int64_t> free_;  // per pipe: end of the instruction written last
    bool first_ = true;
};

}  // namespace

void write_trace(const Timeline& timeline, const std::filesystem::path& file,
                 const std::function<void(std::size_t)>& progress) {
    File out(file);
    TraceWriter(timeline, out).write(progress);
    out.close();
}

}  // namespace mskpp
