// SPDX-License-Identifier: Apache-2.0
// Kernel binaries: an ELF shared object of the host whose functions are named <name>, <name>_<key> or
// <name>_<key>_mix_aic and _mix_aiv, and take addresses only.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <list>
#include <mutex>
#include <set>

#include "device.h"
#include "memory.h"

namespace emulated {

struct Binary {
    uint32_t magic;
    bool mixed = false;  // by its symbols
    void* library = nullptr;
    // Sets the index of the block for this thread: the library's own, from mskpp/kernel.h.
    void (*enter)(uint32_t index, uint32_t count) = nullptr;
    std::list<Function> functions;
};

namespace {

struct Loaded {
    std::mutex mutex;
    std::set<const void*> binaries;
    std::set<const void*> functions;
};

Loaded& loaded() {
    static Loaded* const only = new Loaded;
    return *only;
}

bool endsWith(const std::string& name, const std::string& end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// The functions that a binary defines and shows; what C++, the compiler and mskpp-cc add is none of them.
std::vector<std::string> kernelNames(const unsigned char* data, size_t bytes) {
    std::vector<std::string> names;
    ElfW(Ehdr) header;
    if (bytes < sizeof header) return names;
    std::memcpy(&header, data, sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN) return names;
    const auto section = [&](size_t index, ElfW(Shdr) & out) {
        const size_t at = header.e_shoff + index * sizeof out;
        if (index >= header.e_shnum || at > bytes || bytes - at < sizeof out) return false;
        std::memcpy(&out, data + at, sizeof out);
        return out.sh_offset <= bytes && out.sh_size <= bytes - out.sh_offset;
    };
    for (size_t i = 0; i < header.e_shnum; ++i) {
        ElfW(Shdr) table{}, strings{};
        if (!section(i, table) || table.sh_type != SHT_DYNSYM || !section(table.sh_link, strings)) continue;
        for (size_t at = 0; at + sizeof(ElfW(Sym)) <= table.sh_size; at += sizeof(ElfW(Sym))) {
            ElfW(Sym) symbol;
            std::memcpy(&symbol, data + table.sh_offset + at, sizeof symbol);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL ||
                symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings.sh_size) {
                continue;
            }
            const char* const first = reinterpret_cast<const char*>(data + strings.sh_offset + symbol.st_name);
            const std::string name(first, strnlen(first, strings.sh_size - symbol.st_name));
            if (name.rfind('_', 0) == 0 || name.rfind("mskpp_", 0) == 0) continue;
            names.push_back(name);
        }
    }
    return names;
}

void split(std::string symbol, std::string& name, uint64_t& key) {
    for (const char* half : {"_mix_aic", "_mix_aiv"}) {
        if (endsWith(symbol, half)) symbol.resize(symbol.size() - std::strlen(half));
    }
    key = 0;
    name = symbol;
    const size_t last = symbol.rfind('_');
    if (last == std::string::npos || last + 1 == symbol.size()) return;
    if (symbol.find_first_not_of("0123456789", last + 1) != std::string::npos) return;
    key = std::strtoull(symbol.c_str() + last + 1, nullptr, 10);
    name = symbol.substr(0, last);
}

template <size_t... Index>
void callWith(void* function, void* const* arguments, std::index_sequence<Index...>) {
    using Kernel = void (*)(decltype(static_cast<void>(Index), static_cast<void*>(nullptr))...);
    reinterpret_cast<Kernel>(function)(arguments[Index]...);
}

constexpr size_t kMostArguments = 64;

// In this calling convention the caller removes the arguments, so those that the kernel does not take do no harm.
void callKernel(void* function, std::vector<void*> arguments) {
    arguments.resize(kMostArguments, nullptr);
    callWith(function, arguments.data(), std::make_index_sequence<kMostArguments>());
}

}  // namespace

int loadBinary(const void* data, size_t bytes, uint32_t magic, Binary** out) {
    if (data == nullptr || out == nullptr) return fail(kRtParamInvalid, "a binary needs its bytes");
    if (magic != 0 && magic != kMagicMix && magic != kMagicVector && magic != kMagicCube) {
        return fail(kRtParamInvalid, text("0x", std::hex, magic, " is no magic of a binary"));
    }
    const std::vector<std::string> names = kernelNames(static_cast<const unsigned char*>(data), bytes);
    if (names.empty()) return fail(kRtParamInvalid, "the binary is no ELF shared object with kernels");
    auto binary = std::make_unique<Binary>();
    for (const std::string& name : names) {
        if (name.find("_mix_") != std::string::npos) binary->mixed = true;
    }
    if (magic == kMagicVector && binary->mixed) {
        return fail(kRtParamInvalid, "the binary holds mixed kernels, its magic says vector");
    }
    binary->magic = magic != 0 ? magic : binary->mixed ? kMagicMix : kMagicVector;

    const int file = memfd_create("kernel", MFD_CLOEXEC);
    if (file < 0) return fail(kBadAlloc, "no memory for the binary");
    size_t done = 0;
    while (done < bytes) {
        const ssize_t written = write(file, static_cast<const char*>(data) + done, bytes - done);
        if (written <= 0) break;
        done += static_cast<size_t>(written);
    }
    const std::string path = text("/proc/self/fd/", file);
    binary->library = done == bytes ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    const char* const why = binary->library == nullptr ? dlerror() : nullptr;
    close(file);
    if (binary->library == nullptr) return fail(kRtParamInvalid, text("the binary: ", why != nullptr ? why : "?"));
    binary->enter = reinterpret_cast<decltype(binary->enter)>(dlsym(binary->library, "mskpp_host_block"));
    for (const std::string& symbol : names) {
        std::string name;
        uint64_t key = 0;
        split(symbol, name, key);
        void* const address = dlsym(binary->library, symbol.c_str());
        Function* known = nullptr;
        for (Function& one : binary->functions) {
            if (one.name == name && one.key == key) known = &one;
        }
        if (known == nullptr) known = &binary->functions.emplace_back(Function{binary.get(), name, key, {}});
        known->halves.emplace_back(symbol, address);
    }
    Loaded& now = loaded();
    const std::lock_guard lock(now.mutex);
    now.binaries.insert(binary.get());
    for (const Function& one : binary->functions) now.functions.insert(&one);
    *out = binary.release();
    return kSuccess;
}

int unloadBinary(Binary* binary) {
    Loaded& now = loaded();
    const std::lock_guard lock(now.mutex);
    if (now.binaries.erase(binary) == 0) return fail(kInvalidHandle, "no loaded binary");
    for (const Function& one : binary->functions) now.functions.erase(&one);
    dlclose(binary->library);
    delete binary;
    return kSuccess;
}

bool isBinary(const void* handle) {
    Loaded& now = loaded();
    const std::lock_guard lock(now.mutex);
    return now.binaries.count(handle) != 0;
}

bool isFunction(const void* handle) {
    Loaded& now = loaded();
    const std::lock_guard lock(now.mutex);
    return now.functions.count(handle) != 0;
}

uint32_t magicOf(const Binary* binary) { return binary->magic; }

Function* findFunction(Binary* binary, uint64_t key) {
    for (Function& one : binary->functions) {
        if (one.key == key) return &one;
    }
    return nullptr;
}

Function* findFunction(Binary* binary, const std::string& name) {
    for (Function& one : binary->functions) {
        if (one.name == name || text(one.name, '_', one.key) == name) return &one;
        for (const auto& [symbol, address] : one.halves) {
            if (symbol == name) return &one;
        }
    }
    return nullptr;
}

int launchFunction(const Function* function, uint32_t blocks, void* stream, std::vector<void*> arguments) {
    if (arguments.size() > kMostArguments) return fail(kRtParamInvalid, text(arguments.size(), " arguments"));
    const auto enter = function->binary->enter;
    const int device = currentDevice();
    auto run = [function, enter, device, arguments = std::move(arguments)](uint32_t index, uint32_t count) {
        for (const void* argument : arguments) {
            if (argument != nullptr && !isDeviceMemory(argument, device)) {
                throw std::runtime_error(text("argument ", argument, " is no memory of device ", device));
            }
        }
        if (enter != nullptr) enter(index, count);
        for (const auto& half : function->halves) callKernel(half.second, arguments);
    };
    return launch(function->halves.front().first, blocks, stream, std::move(run));
}

}  // namespace emulated
