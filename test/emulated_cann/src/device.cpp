// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "memory.h"

namespace emulated {

namespace {

using Clock = std::chrono::steady_clock;

thread_local int current_device = -1;
thread_local int block_device = -1;  // of a thread that runs blocks

// ---- crashes ------------------------------------------------------------------------------------------------------

// A block that crashes fails its launch and not the process: the handler leaves the block by a jump.
thread_local sigjmp_buf* way_out = nullptr;
struct sigaction before[NSIG];

void crashed(int number, siginfo_t* info, void* context) {
    if (way_out != nullptr) siglongjmp(*way_out, number);
    const struct sigaction& old = before[number];
    if ((old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction != nullptr) {
        old.sa_sigaction(number, info, context);
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
        old.sa_handler(number);
    } else {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void catchCrashes() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action{};
        action.sa_sigaction = crashed;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, &before[number]);
    });
}

// Empty, or why the block failed.
std::string runBlock(const std::function<void(uint32_t, uint32_t)>& run, uint32_t index, uint32_t count) {
    sigjmp_buf here;
    const int number = sigsetjmp(here, 1);
    if (number != 0) {
        way_out = nullptr;
        return text("block ", index, " crashed with signal ", number);
    }
    way_out = &here;
    std::string message;
    try {
        run(index, count);
    } catch (const std::exception& error) {
        message = text("block ", index, " threw: ", error.what());
    } catch (...) {
        message = text("block ", index, " threw an exception of unknown type");
    }
    way_out = nullptr;
    return message;
}

// ---- streams ------------------------------------------------------------------------------------------------------

struct Stream {
    uint32_t number;
    int device;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<int(std::string&)>> waiting;
    bool busy = false;
    bool ending = false;  // no more work is taken
    std::atomic<bool> abandoned{false};
    bool ended = false;
    int error = 0;  // stays: a failed stream is of no more use
    std::string message;

    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return ending || !waiting.empty(); });
            if (waiting.empty() || abandoned) break;
            const auto work = std::move(waiting.front());
            waiting.pop_front();
            if (error != 0) continue;  // what follows a failed kernel does not run
            busy = true;
            lock.unlock();
            std::string why;
            const int code = work(why);
            lock.lock();
            busy = false;
            if (code != 0) {
                error = code;
                message = std::move(why);
            }
            changed.notify_all();
        }
        waiting.clear();
        ended = true;
        changed.notify_all();
    }

    // kSuccess when all work has ended.
    int wait(int timeout_ms) {
        std::unique_lock lock(mutex);
        const auto idle = [&] { return waiting.empty() && !busy; };
        if (timeout_ms < 0) {
            changed.wait(lock, idle);
        } else if (!changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), idle)) {
            const int code = std::atoi(setting("EMULATED_CANN_TIMEOUT_CODE", "507046").c_str());
            return fail(code, text("stream ", number, " did not end in ", timeout_ms, " ms"));
        }
        if (error != 0) return fail(error, message);
        const std::string bytes = damage(device);
        return bytes.empty() ? kSuccess : fail(kKernelException, bytes);
    }
};

thread_local Stream* running_stream = nullptr;  // of a worker

struct World {
    std::mutex mutex;
    bool initialized = false;
    bool finalized = false;
    std::map<int, int> users;  // of each device
    std::map<Stream*, std::shared_ptr<Stream>> streams;
    std::map<int, std::shared_ptr<Stream>> defaults;
    uint32_t next_stream = 1;
    std::atomic<uint64_t> next_correlation{1};
    std::atomic<uint64_t> virtual_clock{1'000'000'000};
    std::atomic<void (*)(const KernelRecord&)> listener{nullptr};
    std::atomic<bool> listener_in_time{false};
};

World& world() {
    static World* const only = new World;  // never destroyed: workers may still run while the process ends
    return *only;
}

std::shared_ptr<Stream> makeStream(World& now, int device) {
    catchCrashes();
    auto stream = std::make_shared<Stream>();
    stream->number = now.next_stream++;
    stream->device = device;
    std::thread([stream] {
        running_stream = stream.get();
        current_device = stream->device;
        stream->serve();
    }).detach();
    return stream;
}

// The stream behind a handle, or null and a code.
std::shared_ptr<Stream> resolve(void* handle, int& code) {
    code = needDevice();
    if (code != 0) return nullptr;
    World& now = world();
    const std::lock_guard lock(now.mutex);
    if (handle == nullptr) {
        auto& stream = now.defaults[current_device];
        if (!stream) stream = makeStream(now, current_device);
        return stream;
    }
    const auto found = now.streams.find(static_cast<Stream*>(handle));
    if (found == now.streams.end()) {
        code = fail(kInvalidHandle, text(handle, " is no live stream"));
        return nullptr;
    }
    if (found->second->device != current_device) {
        code = fail(kStreamContext, text("stream ", found->second->number, " belongs to device ", found->second->device,
                                         ", this thread uses device ", current_device));
        return nullptr;
    }
    return found->second;
}

void end(const std::shared_ptr<Stream>& stream, bool force) {
    std::unique_lock lock(stream->mutex);
    stream->ending = true;
    if (force) stream->abandoned = true;
    stream->changed.notify_all();
    if (force) {  // a kernel that never ends keeps its thread, as there is no way to take it
        stream->changed.wait_for(lock, std::chrono::seconds(1), [&] { return stream->ended; });
    } else {
        stream->changed.wait(lock, [&] { return stream->ended; });
    }
}

// "a:1,b:2" -> the value of the kernel, or nothing. A kernel is named with or without its key and half.
std::string kernelSetting(const char* name, const std::string& kernel, const std::string& base) {
    std::istringstream entries(setting(name));
    for (std::string entry; std::getline(entries, entry, ',');) {
        const size_t colon = entry.rfind(':');
        const std::string which = entry.substr(0, colon);
        if (which == kernel || which == base) return colon == std::string::npos ? "" : entry.substr(colon + 1);
    }
    return "";
}

bool namedIn(const char* name, const std::string& kernel, const std::string& base) {
    std::istringstream entries(setting(name));
    for (std::string entry; std::getline(entries, entry, ',');) {
        if (entry == kernel || entry == base) return true;
    }
    return false;
}

std::string withoutKey(std::string name) {
    for (const std::string half : {"_mix_aic", "_mix_aiv"}) {
        if (name.size() > half.size() && name.compare(name.size() - half.size(), half.size(), half) == 0) {
            name.resize(name.size() - half.size());
        }
    }
    const size_t last = name.rfind('_');
    if (last != std::string::npos && last + 1 < name.size() &&
        name.find_first_not_of("0123456789", last + 1) == std::string::npos) {
        name.resize(last);
    }
    return name;
}

// ---- devices in an error state ------------------------------------------------------------------------------------

// Who shares EMULATED_CANN_STATE shares its devices' error states; without it each process has its own.
struct Errors {
    std::mutex mutex;
    std::set<int> devices;
};

Errors& errors() {
    static Errors* const only = new Errors;
    return *only;
}

// The file that is there while the device is in its error state; empty without a folder for it.
std::string errorFile(int device) {
    const std::string folder = setting("EMULATED_CANN_STATE");
    return folder.empty() ? folder : text(folder, "/device", device, ".error");
}

bool isPoisoned(int device) {
    const std::string file = errorFile(device);
    if (!file.empty()) return access(file.c_str(), F_OK) == 0;
    const std::lock_guard lock(errors().mutex);
    return errors().devices.count(device) != 0;
}

void setPoisoned(int device, bool on) {
    const std::string file = errorFile(device);
    if (file.empty()) {
        const std::lock_guard lock(errors().mutex);
        if (on) {
            errors().devices.insert(device);
        } else {
            errors().devices.erase(device);
        }
    } else if (on) {
        const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (made >= 0) close(made);
    } else {
        unlink(file.c_str());
    }
}

void record(const KernelRecord& one, uint32_t blocks) {
    World& now = world();
    if (now.listener_in_time) {
        if (const auto listener = now.listener.load()) listener(one);
    }
    const std::string path = setting("EMULATED_CANN_TIMES");
    if (path.empty()) return;
    const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    const std::string line =
        text(one.name, '\t', one.end - one.start, '\t', blocks, '\t', one.device, '\t', getpid(), '\n');
    [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
    close(file);
}

int runKernel(const std::string& kernel, uint64_t correlation, uint32_t blocks,
              const std::function<void(uint32_t, uint32_t)>& run, std::string& message) {
    World& now = world();
    Stream& stream = *running_stream;
    const std::string base = withoutKey(kernel);
    const std::string delay = setting("EMULATED_CANN_DELAY_MS");
    if (!delay.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(delay.c_str())));
    if (isPoisoned(stream.device)) {
        message = text("device ", stream.device, " is in an error state; it must be reset");
        return kDriverInternal;
    }
    if (namedIn("EMULATED_CANN_POISON", kernel, base)) setPoisoned(stream.device, true);
    if (namedIn("EMULATED_CANN_HANG", kernel, base)) {
        while (!stream.abandoned) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        message = text("kernel ", kernel, " was ended by the end of its stream");
        return kKernelException;
    }
    const auto start = Clock::now();
    std::atomic<uint32_t> next{0};
    std::mutex failing;
    uint32_t failed = blocks;
    const auto work = [&] {
        block_device = stream.device;
        for (uint32_t block = next++; block < blocks; block = next++) {
            const std::string why = runBlock(run, block, blocks);
            if (why.empty()) continue;
            const std::lock_guard lock(failing);
            if (block < failed) {
                failed = block;
                message = text("kernel ", kernel, ": ", why);
            }
            next = blocks;
        }
    };
    std::vector<std::thread> others;
    const uint32_t threads = std::min(blocks, std::max(1u, std::thread::hardware_concurrency()));
    for (uint32_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    const auto stop = Clock::now();
    const auto nanoseconds = [](Clock::time_point time) {
        return static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
    };
    KernelRecord one{nanoseconds(start), nanoseconds(stop), static_cast<uint32_t>(stream.device),
                     stream.number,      correlation,       kernel};
    const std::string exact = kernelSetting("EMULATED_CANN_KERNEL_NS", kernel, base);
    if (!exact.empty()) {
        const uint64_t length = std::strtoull(exact.c_str(), nullptr, 10);
        one.start = length == 0 ? 0 : now.virtual_clock.fetch_add(length + 1000);  // both 0: not collected
        one.end = one.start + length;
    }
    log(text("# kernel ", kernel, " ran ", blocks, " blocks on device ", stream.device, " stream ", stream.number));
    if (failed != blocks) return kKernelException;
    if (isPoisoned(stream.device)) {
        message = text("kernel ", kernel, " has broken device ", stream.device);
        return kKernelException;
    }
    record(one, blocks);
    return kSuccess;
}

}  // namespace

// ---- the process and its threads ----------------------------------------------------------------------------------

int initialize() {
    World& now = world();
    const std::lock_guard lock(now.mutex);
    if (now.initialized || now.finalized) return fail(kRepeatInitialize, "aclInit may be called once in a process");
    now.initialized = true;
    now.listener_in_time = now.listener.load() != nullptr;
    return kSuccess;
}

int finalize() {
    World& now = world();
    const std::lock_guard lock(now.mutex);
    if (now.finalized) return fail(kRepeatFinalize, "aclFinalize was called before");
    if (!now.initialized) return fail(kUninitialized, "aclInit was not called");
    now.initialized = false;
    now.finalized = true;
    return kSuccess;
}

bool isInitialized() {
    World& now = world();
    const std::lock_guard lock(now.mutex);
    return now.initialized;
}

int deviceCount() { return std::atoi(setting("EMULATED_CANN_DEVICES", "1").c_str()); }

std::string socName() { return setting("EMULATED_CANN_SOC", "Ascend910B1"); }

int currentDevice() { return current_device; }

int needDevice() {
    if (!isInitialized()) return fail(kUninitialized, "aclInit was not called");
    return current_device < 0 ? fail(kContextNull, "this thread has set no device") : kSuccess;
}

int setDevice(int device) {
    if (!isInitialized()) return fail(kUninitialized, "aclInit was not called");
    if (device < 0 || device >= deviceCount()) {
        return fail(kInvalidDevice, text("device ", device, " of ", deviceCount(), " devices"));
    }
    World& now = world();
    const std::lock_guard lock(now.mutex);
    ++now.users[device];
    current_device = device;
    return kSuccess;
}

void poison() {
    if (block_device >= 0) setPoisoned(block_device, true);
}

int useDevice(int device) {
    World& now = world();
    const std::lock_guard lock(now.mutex);
    if (!now.initialized) return fail(kUninitialized, "aclInit was not called");
    if (now.users[device] == 0) return fail(kContextNull, text("device ", device, " is not set anywhere"));
    current_device = device;
    return kSuccess;
}

int resetDevice(int device, bool force) {
    if (!isInitialized()) return fail(kUninitialized, "aclInit was not called");
    World& now = world();
    std::vector<std::shared_ptr<Stream>> streams;
    {
        const std::lock_guard lock(now.mutex);
        int& users = now.users[device];
        if (users == 0) return fail(kInvalidDevice, text("device ", device, " was not set"));
        users = force ? 0 : users - 1;
        if (users > 0) return kSuccess;
        for (auto one = now.streams.begin(); one != now.streams.end();) {
            if (one->second->device == device) {
                streams.push_back(one->second);
                one = now.streams.erase(one);
            } else {
                ++one;
            }
        }
        if (now.defaults.count(device) != 0) streams.push_back(now.defaults[device]);
        now.defaults.erase(device);
    }
    for (const auto& stream : streams) end(stream, true);
    releaseAll(device);
    setPoisoned(device, false);
    if (current_device == device) current_device = -1;
    return kSuccess;
}

// ---- streams ------------------------------------------------------------------------------------------------------

int createStream(void** out) {
    if (const int code = needDevice()) return code;
    if (out == nullptr) return fail(kInvalidParam, "a stream needs a place for its handle");
    World& now = world();
    const std::lock_guard lock(now.mutex);
    auto stream = makeStream(now, current_device);
    now.streams.emplace(stream.get(), stream);
    *out = stream.get();
    return kSuccess;
}

int destroyStream(void* handle, bool force) {
    if (handle == nullptr) return fail(kInvalidHandle, "the default stream cannot be destroyed");
    int code = 0;
    const auto stream = resolve(handle, code);
    if (!stream) return code;
    {
        const std::lock_guard lock(world().mutex);
        world().streams.erase(stream.get());
    }
    end(stream, force);
    return kSuccess;
}

int synchronizeStream(void* handle, int timeout_ms) {
    if (timeout_ms < -1) return fail(kRtParamInvalid, text("a time-out of ", timeout_ms, " ms"));
    int code = 0;
    const auto stream = resolve(handle, code);
    return stream ? stream->wait(timeout_ms) : code;
}

int synchronizeDevice() {
    if (const int code = needDevice()) return code;
    std::vector<std::shared_ptr<Stream>> streams;
    {
        World& now = world();
        const std::lock_guard lock(now.mutex);
        for (const auto& [handle, stream] : now.streams) {
            if (stream->device == current_device) streams.push_back(stream);
        }
        if (now.defaults.count(current_device) != 0) streams.push_back(now.defaults[current_device]);
    }
    for (const auto& stream : streams) {
        if (const int code = stream->wait(-1)) return code;
    }
    return kSuccess;
}

size_t liveStreams() {
    World& now = world();
    const std::lock_guard lock(now.mutex);
    return now.streams.size();
}

int enqueue(void* handle, std::function<int(std::string&)> work) {
    int code = 0;
    const auto stream = resolve(handle, code);
    if (!stream) return code;
    const std::lock_guard lock(stream->mutex);
    if (stream->error != 0) return fail(stream->error, stream->message);
    stream->waiting.push_back(std::move(work));
    stream->changed.notify_all();
    return kSuccess;
}

// ---- kernels ------------------------------------------------------------------------------------------------------

void noteMemset() {
    World& now = world();
    if (setting("EMULATED_CANN_RECORDS") != "memset" || !now.listener_in_time) return;
    const auto listener = now.listener.load();
    if (listener == nullptr) return;
    KernelRecord one{now.virtual_clock.fetch_add(2000), 0, static_cast<uint32_t>(current_device), 0,
                     now.next_correlation++, "MemSet", true};
    one.end = one.start + 1000;
    listener(one);
    one.memset = false;  // once more as by a kernel of the toolkit
    one.correlation = now.next_correlation++;
    listener(one);
}

void listen(void (*listener)(const KernelRecord&)) { world().listener = listener; }

int launch(std::string kernel, uint32_t blocks, void* stream, std::function<void(uint32_t, uint32_t)> run) {
    if (blocks == 0) return fail(kRtParamInvalid, text("kernel ", kernel, " with 0 blocks"));
    const uint64_t correlation = world().next_correlation++;
    return enqueue(stream, [kernel = std::move(kernel), correlation, blocks, run = std::move(run)](
                               std::string& message) { return runKernel(kernel, correlation, blocks, run, message); });
}

}  // namespace emulated
