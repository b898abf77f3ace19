// SPDX-License-Identifier: Apache-2.0
// Devices, streams and kernels of the emulated toolkit. Lives in libruntime.so; libascendcl.so calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "faults.h"

namespace emulated {

// ---- the process and its threads ----------------------------------------------------------------------------------

EMULATED_API int initialize();
EMULATED_API int finalize();
EMULATED_API bool isInitialized();

EMULATED_API int deviceCount();
EMULATED_API std::string socName();

// The device of this thread, or -1.
EMULATED_API int currentDevice();
EMULATED_API int setDevice(int device);
EMULATED_API int resetDevice(int device, bool force);

// Puts the device on which this thread runs blocks of a kernel into its error state; see README.md.
EMULATED_API void poison();

// Makes a device that is set somewhere the one of this thread, without a further use of it.
EMULATED_API int useDevice(int device);

// kSuccess, or why a call that needs a device cannot do its work.
EMULATED_API int needDevice();

// ---- streams ------------------------------------------------------------------------------------------------------

EMULATED_API int createStream(void** out);
EMULATED_API int destroyStream(void* stream, bool force);
EMULATED_API int synchronizeStream(void* stream, int timeout_ms);
EMULATED_API int synchronizeDevice();

EMULATED_API size_t liveStreams();

// Puts work into the stream (null: the default stream of the device). What it returns other than 0 fails the stream.
EMULATED_API int enqueue(void* stream, std::function<int(std::string& message)> work);

// ---- kernels ------------------------------------------------------------------------------------------------------

// One launched kernel, as libmspti.so hears of it. Times in ns.
struct KernelRecord {
    uint64_t start;
    uint64_t end;
    uint32_t device;
    uint32_t stream;
    uint64_t correlation;
    std::string name;
    bool memset = false;  // it is no kernel
};

// Tells the listener of an aclrtMemset in this thread: with EMULATED_CANN_RECORDS=memset only.
EMULATED_API void noteMemset();

// Who wants to hear of kernels (one listener); must have been set before aclInit, as with the real profiler.
EMULATED_API void listen(void (*listener)(const KernelRecord&));

// Runs the blocks on threads; `run` is called once a block.
EMULATED_API int launch(std::string kernel, uint32_t blocks, void* stream,
                        std::function<void(uint32_t index, uint32_t count)> run);

// ---- kernel binaries ----------------------------------------------------------------------------------------------

struct Binary;

// A kernel of a binary: its halves are the functions that share name and key (aic and aiv of a mixed kernel).
struct Function {
    Binary* binary;
    std::string name;  // without key and half
    uint64_t key;
    std::vector<std::pair<std::string, void*>> halves;
};

constexpr uint32_t kMagicMix = 0x43554245;
constexpr uint32_t kMagicVector = 0x41415246;
constexpr uint32_t kMagicCube = 0x41494343;

// Loads an ELF shared object from memory. magic 0: as the binary says. Null and a message when it is none.
EMULATED_API int loadBinary(const void* data, size_t bytes, uint32_t magic, Binary** out);
EMULATED_API int unloadBinary(Binary* binary);
EMULATED_API bool isBinary(const void* handle);
EMULATED_API uint32_t magicOf(const Binary* binary);
EMULATED_API Function* findFunction(Binary* binary, uint64_t key);
EMULATED_API Function* findFunction(Binary* binary, const std::string& name);
EMULATED_API bool isFunction(const void* handle);

// Launches a kernel whose arguments are addresses; each must be device memory or null when the kernel runs.
EMULATED_API int launchFunction(const Function* function, uint32_t blocks, void* stream, std::vector<void*> arguments);

// What rtGetC2cCtrlAddr answers.
constexpr uint64_t kC2cAddress = 0xC2C0C2C000;

}  // namespace emulated
