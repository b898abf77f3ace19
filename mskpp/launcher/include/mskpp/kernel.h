// SPDX-License-Identifier: Apache-2.0
// A kernel's source on the CPU: the qualifiers it is written with, the index of its block, and what `<<<>>>` becomes.
// mskpp-cc includes this file before everything else; a source may include it too. Any other compiler is the Ascend
// one and gets the real definitions. Blocks run on a pool of threads, each to its end; nothing orders them, as on the
// device. A block that crashes or throws names itself: to the process that launched it, else on stderr.
#pragma once

#ifndef MSKPP_CC
#include "kernel_operator.h"
#else

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __cube__
#define __vector__
#define __mix__(...)
#define __launch_bounds__(...)
#define GM_ADDR __gm__ uint8_t*

#if defined(__clang__) && __clang_major__ < 15
// This compiler can store the type and not pass it.
struct half {
    half() = default;
    half(float value) : bits(static_cast<__fp16>(value)) {}
    operator float() const { return bits; }
    __fp16 bits;
};
#else
using half = _Float16;
#endif

// The upper half of a float, rounded to nearest even.
struct bfloat16_t {
    bfloat16_t() = default;
    bfloat16_t(float value) {
        std::uint32_t word;
        std::memcpy(&word, &value, sizeof word);
        bits = value != value ? std::uint16_t{0x7fc0} : static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
    }
    operator float() const {
        const std::uint32_t word = std::uint32_t{bits} << 16;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
    std::uint16_t bits;
};

namespace mskpp {
namespace host {

constexpr int most_threads = 64;
constexpr std::int64_t idle = -1;

// How the blocks fare, in memory that the launching process sees too (the host worker of mskpp), so that it can tell
// which blocks were running when it gave up, or which one took the process down. The layout is the worker's as well.
struct Status {
    std::atomic<std::int64_t> running[most_threads];  // block of each thread, or idle
    std::atomic<std::int64_t> failed_block;           // idle: none
    std::atomic<std::int64_t> failed_signal;
};

struct Block {
    std::uint32_t index = 0, count = 1;
    int thread = 0;
};

inline Block& this_block() {
    thread_local Block block;
    return block;
}

inline std::atomic<Status*>& status() {
    static std::atomic<Status*> page{nullptr};
    return page;
}

// Sets the block index of this thread for as long as it lives.
class BlockScope {
  public:
    BlockScope(std::uint32_t index, std::uint32_t count) : before_(this_block()) {
        this_block().index = index;
        this_block().count = count;
        if (Status* page = status()) page->running[this_block().thread] = index;
    }
    ~BlockScope() {
        this_block() = before_;
        if (Status* page = status()) page->running[this_block().thread] = idle;
    }
    BlockScope(const BlockScope&) = delete;
    BlockScope& operator=(const BlockScope&) = delete;

  private:
    Block before_;
};

// Only what a signal handler may do.
inline void crashed(int number) {
    if (Status* page = status()) {
        std::int64_t nobody = idle;
        if (page->failed_block.compare_exchange_strong(nobody, this_block().index)) page->failed_signal = number;
    } else {
        char text[64] = "mskpp: a kernel crashed in block ";
        std::size_t size = std::strlen(text), first = size;
        for (std::uint32_t left = this_block().index; size == first || left != 0; left /= 10) text[size++] = static_cast<char>('0' + left % 10);
        for (std::size_t i = first, j = size - 1; i < j; ++i, --j) std::swap(text[i], text[j]);
        text[size++] = '\n';
        if (::write(2, text, size) < 0) {}
    }
    ::signal(number, SIG_DFL);
    ::raise(number);
}

// A kernel that overflows its stack must still be able to say so.
class CrashStack {
  public:
    CrashStack() : memory_(new char[size]) {
        stack_t stack{};
        stack.ss_sp = memory_.get();
        stack.ss_size = size;
        ::sigaltstack(&stack, nullptr);
    }
    ~CrashStack() {
        stack_t off{};
        off.ss_flags = SS_DISABLE;
        ::sigaltstack(&off, nullptr);
    }

  private:
    static constexpr std::size_t size = 65536;
    std::unique_ptr<char[]> memory_;
};

// Names the block of a crash for as long as it lives; handlers that were there before come back.
class CrashHandlers {
  public:
    CrashHandlers() {
        struct sigaction action {};
        action.sa_handler = crashed;
        action.sa_flags = SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < count; ++i) ::sigaction(numbers()[i], &action, &before_[i]);
    }
    ~CrashHandlers() {
        for (int i = 0; i < count; ++i) ::sigaction(numbers()[i], &before_[i], nullptr);
    }

  private:
    static constexpr int count = 5;
    static const int* numbers() {
        static const int all[count] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
        return all;
    }
    struct sigaction before_[count];
};

// Threads that wait for work; the one that launches works too.
class Pool {
  public:
    static Pool& instance() {
        static Pool& pool = *new Pool;  // never ended: a block that calls exit() must not wait for itself
        return pool;
    }

    // Calls body(block) for each block once. Throws what a block threw, with the block's index.
    void run(std::uint32_t blocks, const std::function<void(std::uint32_t)>& body) {
        const std::lock_guard<std::mutex> one_launch(launching_);
        const CrashHandlers handlers;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            body_ = &body;
            blocks_ = blocks;
            next_ = 0;
            failed_.clear();
            working_ = threads_.size();
            ++launch_;
        }
        wake_.notify_all();
        static thread_local CrashStack stack;
        work();
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [&] { return working_ == 0; });
        body_ = nullptr;
#ifdef __cpp_exceptions
        if (!failed_.empty()) throw std::runtime_error(failed_);
#endif
    }

    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

  private:
    Pool() {
        long count = static_cast<long>(std::thread::hardware_concurrency());
        if (const char* wanted = std::getenv("MSKPP_HOST_THREADS")) count = std::atol(wanted);
        count = count < 1 ? 1 : count > most_threads ? most_threads : count;
        for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
    }

    void serve(int number) {
        const CrashStack stack;
        this_block().thread = number;
        std::uint64_t seen = 0;
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return launch_ != seen; });
                seen = launch_;
            }
            work();
            const std::lock_guard<std::mutex> lock(mutex_);
            if (--working_ == 0) done_.notify_all();
        }
    }

    void work() {
        for (std::uint32_t block = next_++; block < blocks_; block = next_++) {
#ifdef __cpp_exceptions  // options may turn them off
            try {
                call(block);
            } catch (const std::exception& error) {
                fail(block, error.what());
            } catch (...) {
                fail(block, "an exception of unknown type");
            }
#else
            call(block);
#endif
        }
    }

    void call(std::uint32_t block) {
        const BlockScope scope(block, blocks_);
        (*body_)(block);
    }

    void fail(std::uint32_t block, const char* what) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (failed_.empty()) failed_ = "block " + std::to_string(block) + " threw: " + what;
        next_ = blocks_;  // the rest need not start
    }

    std::mutex launching_, mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    const std::function<void(std::uint32_t)>* body_ = nullptr;
    std::uint32_t blocks_ = 0;
    std::atomic<std::uint64_t> next_{0};
    std::size_t working_ = 0;
    std::uint64_t launch_ = 0;
    std::string failed_;
};

}  // namespace host

// A call with its arguments, which are evaluated once, at the launch, and belong to it from then on.
template <class Call, class... Arguments>
auto bound(Call call, Arguments... arguments) {
    return [call, values = std::tuple<Arguments...>(std::move(arguments)...)]() mutable { std::apply(call, values); };
}

inline std::uint32_t block_index() { return host::this_block().index; }
inline std::uint32_t block_count() { return host::this_block().count; }

}  // namespace mskpp

inline std::int64_t GetBlockIdx() { return mskpp::block_index(); }
inline std::int64_t GetBlockNum() { return mskpp::block_count(); }
namespace AscendC {
using ::GetBlockIdx;
using ::GetBlockNum;
}  // namespace AscendC

#ifdef MSKPP_LAUNCH_HEADER
#include MSKPP_LAUNCH_HEADER
#else
namespace mskpp {

// What `kernel<<<blockdim, l2ctrl, stream>>>(...)` becomes: every block calls a copy of `body`, which holds the arguments
// by value. Returns when all blocks have ended. Who tunes a program names a file by MSKPP_KERNEL_TIMES, and finds a line
// there for each launch: the kernel's name and its ns.
template <class Body>
int launch(std::uint32_t blockdim, void*, void*, Body body, const char* kernel = "") {
    static const char* const times = std::getenv("MSKPP_KERNEL_TIMES");
    const auto begin = std::chrono::steady_clock::now();
    host::Pool::instance().run(blockdim, [&body](std::uint32_t) {
        Body own = body;
        own();
    });
    if (times != nullptr) {
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
        if (std::FILE* file = std::fopen(times, "a")) {
            std::fprintf(file, "%s %lld\n", kernel, static_cast<long long>(took.count()));
            std::fclose(file);
        }
    }
    return 0;
}

}  // namespace mskpp

// The host worker hands over the page that it watches.
extern "C" __attribute__((used, weak, visibility("default"))) void mskpp_host_attach(void* page) {
    mskpp::host::status() = static_cast<mskpp::host::Status*>(page);
}
#endif

// For who calls the kernels of a library that was compiled apart, and so has block indices of its own.
extern "C" __attribute__((used, weak, visibility("default"))) void mskpp_host_block(std::uint32_t index,
                                                                                    std::uint32_t count) {
    mskpp::host::this_block().index = index;
    mskpp::host::this_block().count = count;
}

#endif  // MSKPP_CC
