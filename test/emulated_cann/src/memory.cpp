// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace emulated {

namespace {

constexpr unsigned char kRed = 0xFB;
constexpr size_t kRedBytes = 64;
constexpr size_t kAlignment = 64;

struct Allocation {
    unsigned char* data;
    size_t bytes;
    unsigned char* mapping;
    size_t mapped;  // guard pages included
    int device;
    bool host;

    unsigned char* writable() const { return mapping + getpagesize(); }
    unsigned char* writableEnd() const { return mapping + mapped - getpagesize(); }
    bool holds(const void* address) const { return address >= data && address < data + bytes; }

    // The first damaged byte, or null.
    const unsigned char* damaged() const {
        const unsigned char* before = std::max(writable(), data - kRedBytes);
        for (const unsigned char* at = before; at < data; ++at) {
            if (*at != kRed) return at;
        }
        for (const unsigned char* at = data + bytes; at < writableEnd(); ++at) {
            if (*at != kRed) return at;
        }
        return nullptr;
    }
};

struct Heap {
    std::mutex mutex;
    std::map<uintptr_t, Allocation> live;  // by address of the data
    std::map<int, size_t> used;            // by device

    const Allocation* find(const void* address) const {
        const auto next = live.upper_bound(reinterpret_cast<uintptr_t>(address));
        if (next == live.begin()) return nullptr;
        const Allocation& one = std::prev(next)->second;
        return one.holds(address) ? &one : nullptr;
    }
};

Heap& heap() {
    static Heap* const only = new Heap;  // never destroyed: streams may still run while the process ends
    return *only;
}

size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

std::string describe(const Allocation& one, const unsigned char* at) {
    return text("byte ", at - one.data, " of an allocation of ", one.bytes, " bytes at ",
                static_cast<const void*>(one.data), " was written to");
}

// Where a copy ends up: null and a message when the range is no part of what the kind promises.
int checkSide(const Heap& now, const void* address, size_t bytes, bool device, const char* side) {
    const Allocation* one = now.find(address);
    if (device) {
        if (one == nullptr || one->host) {
            return fail(kRtParamInvalid, text("the ", side, " ", address, " of the copy is no device memory"));
        }
        const size_t left = static_cast<size_t>(one->data + one->bytes - static_cast<const unsigned char*>(address));
        if (bytes > left) {
            return fail(kRtParamInvalid,
                        text("the ", side, " of the copy has ", left, " bytes left, ", bytes, " are wanted"));
        }
    } else if (one != nullptr && !one->host) {
        return fail(kRtParamInvalid, text("the ", side, " ", address, " of the copy is device memory"));
    }
    return kSuccess;
}

}  // namespace

int allocate(int device, size_t bytes, bool host, void** out) {
    if (out == nullptr || bytes == 0)
        return fail(kInvalidParam, "an allocation needs a size and a place for the address");
    const size_t capacity = std::strtoull(setting("EMULATED_CANN_MEMORY", "4294967296").c_str(), nullptr, 10);
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    if (!host && (bytes > capacity || now.used[device] > capacity - bytes)) {
        return fail(kBadAlloc, text("device ", device, " has ", capacity - std::min(capacity, now.used[device]),
                                    " bytes left, ", bytes, " are wanted"));
    }
    const size_t page = static_cast<size_t>(getpagesize());
    const size_t body = roundUp(kRedBytes + roundUp(bytes, kAlignment) + kRedBytes, page);
    const size_t mapped = body + 2 * page;
    void* const mapping = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return fail(kBadAlloc, "the machine has no memory left");
    Allocation one{nullptr, bytes, static_cast<unsigned char*>(mapping), mapped, device, host};
    if (mprotect(one.writable(), body, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, mapped);
        return fail(kBadAlloc, "the machine has no memory left");
    }
    one.data = one.writableEnd() - kRedBytes - roundUp(bytes, kAlignment);
    std::memset(std::max(one.writable(), one.data - kRedBytes), kRed,
                static_cast<size_t>(one.data - std::max(one.writable(), one.data - kRedBytes)));
    std::memset(one.data, kFresh, bytes);
    std::memset(one.data + bytes, kRed, static_cast<size_t>(one.writableEnd() - (one.data + bytes)));
    now.live.emplace(reinterpret_cast<uintptr_t>(one.data), one);
    if (!host) now.used[device] += bytes;
    *out = one.data;
    return kSuccess;
}

int release(void* address, bool host) {
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    const auto found = now.live.find(reinterpret_cast<uintptr_t>(address));
    if (found == now.live.end() || found->second.host != host) {
        return fail(kRtParamInvalid, text(address, " is no live ", host ? "host" : "device", " allocation"));
    }
    const Allocation one = found->second;
    const unsigned char* const at = one.damaged();
    const std::string damage = at != nullptr ? describe(one, at) : std::string();
    if (!host) now.used[one.device] -= one.bytes;
    now.live.erase(found);
    munmap(one.mapping, one.mapped);
    return at != nullptr ? fail(kKernelException, damage) : kSuccess;
}

int copy(void* to, size_t room, const void* from, size_t bytes, int kind, bool check_only) {
    if (to == nullptr || from == nullptr) return fail(kInvalidParam, "a copy needs two addresses");
    if (bytes > room) return fail(kInvalidParam, text("a copy of ", bytes, " bytes into room for ", room));
    if (kind < 0 || kind > 3) return fail(kInvalidParam, text("copies of kind ", kind, " are not emulated"));
    {
        Heap& now = heap();
        const std::lock_guard lock(now.mutex);
        const bool from_device = kind == 2 || kind == 3;
        const bool to_device = kind == 1 || kind == 3;
        if (const int code = checkSide(now, to, bytes, to_device, "target")) return code;
        if (const int code = checkSide(now, from, bytes, from_device, "source")) return code;
    }
    if (!check_only) std::memmove(to, from, bytes);
    return kSuccess;
}

int fill(void* to, size_t room, int value, size_t bytes) {
    if (to == nullptr) return fail(kInvalidParam, "memory to set needs an address");
    if (bytes > room) return fail(kInvalidParam, text(bytes, " bytes to set in room for ", room));
    {
        Heap& now = heap();
        const std::lock_guard lock(now.mutex);
        if (const int code = checkSide(now, to, bytes, true, "target")) return code;
    }
    std::memset(to, value, bytes);
    return kSuccess;
}

bool isDeviceMemory(const void* address, int device) {
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    const Allocation* one = now.find(address);
    return one != nullptr && !one->host && one->device == device;
}

std::string damage(int device) {
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    for (const auto& [address, one] : now.live) {
        if (one.host || one.device != device) continue;
        if (const unsigned char* at = one.damaged()) return describe(one, at);
    }
    return "";
}

void releaseAll(int device) {
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    for (auto one = now.live.begin(); one != now.live.end();) {
        if (one->second.host || one->second.device != device) {
            ++one;
            continue;
        }
        munmap(one->second.mapping, one->second.mapped);
        one = now.live.erase(one);
    }
    now.used[device] = 0;
}

size_t liveAllocations(int device) {
    Heap& now = heap();
    const std::lock_guard lock(now.mutex);
    return static_cast<size_t>(std::count_if(now.live.begin(), now.live.end(), [&](const auto& one) {
        return !one.second.host && one.second.device == device;
    }));
}

}  // namespace emulated
