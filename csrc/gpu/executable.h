// What a graph of the gpu backend compiles to: kernels' sources, the list of their launches, and
// the memory that they work in. It is what the compiler answers with (qnnrt/gpu/executable.py
// writes it) and what a context binary holds; docs/decisions/0041-gpu-compiler-process.md describes
// the format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "ir/types.h"
#include "opencl/command_list.h"

namespace qnnrt::gpu {

// Where constants begin that a device reads in place: CPUs, and devices that share memory but no
// caches.
inline constexpr uint64_t kLine = 64, kPage = 4096;
inline constexpr uint64_t kUseHostPtr = 1 << 3;  // CL_MEM_USE_HOST_PTR

// Read-only bytes of constants: a mapping of an fd that cannot shrink, or of a context binary.
struct Region {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
};

struct Executable {
  struct Io {
    std::string name;
    uint32_t id = 0, data_type = 0, flags = 0;  // as in Qnnrt_OpenClTensor_t
    std::vector<uint32_t> dims;
    uint64_t nbytes = 0;
  };
  // kFaults: one for all kernels that note what they find (Qnnrt_OpenClFault_t), each in the
  // element that the argument behind it says.
  enum class Kind : uint8_t { kIo, kArena, kConstant, kFaults };
  struct Memory {
    Kind kind = Kind::kIo;
    uint32_t where = 0;  // number of the input or output, of the arena or of the region
    uint64_t offset = 0, size = 0;
  };
  struct Program {
    std::string source;
    std::string binary;  // of `device`; empty: none
  };
  enum class Argument : uint8_t { kMemory, kInt, kFloat };
  struct Arg {
    Argument kind = Argument::kMemory;
    uint32_t bits = 0;  // the number of a memory, or the argument's bits
  };
  struct Step {
    std::string node, name;  // of the kernel, whose function in OpenCL is kernel
    std::string kernel;
    uint32_t program = 0;
    std::vector<uint64_t> total, group;  // an empty group: the driver chooses
    std::vector<Arg> args;
  };

  std::string device;            // Device::Identity of the one that it was compiled for
  std::string options, rounded;  // of builds; `rounded` for devices that round correctly
  std::vector<Io> io;            // inputs, then outputs
  std::vector<uint64_t> arenas;  // bytes
  std::vector<Memory> memories;
  std::vector<Program> programs;
  std::vector<Step> steps;
  std::string description;  // JSON

  // `regions`: the sizes of those that constants lie in. Errors: a damaged one, with what is wrong.
  static Result<Executable> Read(const uint8_t* data, uint64_t size,
                                 const std::vector<uint64_t>& regions);
  std::string Write() const;
};

// A graph's kernels and memory in one cl_context.
class Instance {
 public:
  // `regions` have to stay as long. Errors: 1002, 1100.
  static Result<std::unique_ptr<Instance>> Make(const Executable& executable,
                                                const std::vector<Region>& regions,
                                                std::shared_ptr<ClContext> context,
                                                uint64_t qnn_context, uint32_t flags);
  ~Instance();
  Instance(const Instance&) = delete;
  opencl::CommandList& list() { return *list_; }
  const ClContext& context() const { return *context_; }
  // What the driver made of a program; empty where it does not say.
  std::string BinaryOf(size_t program) const;

 private:
  explicit Instance(std::shared_ptr<ClContext> context);
  Result<void*> NewBuffer(uint64_t flags, uint64_t size, void* host);
  Result<void*> Part(void* buffer, uint64_t flags, uint64_t offset, uint64_t size);
  Status MakeConstants(const Executable& executable, const std::vector<Region>& regions);
  Status MakeFaults(const Executable& executable);
  Status MakeKernels(const Executable& executable);
  Status MakeList(const Executable& executable, uint64_t qnn_context, uint32_t flags);

  const std::shared_ptr<ClContext> context_;
  const uint32_t forks_;
  std::vector<void*> buffers_;   // to be released
  std::vector<void*> memories_;  // of each memory; null: an input or output, or in an arena
  std::vector<void*> programs_;  // of each program, the context's; null: nothing is of it
  std::vector<void*> kernels_;   // of each step
  std::unique_ptr<opencl::CommandList> list_;
};

}  // namespace qnnrt::gpu
