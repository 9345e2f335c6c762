// OpenCL devices and the contexts that graphs run in.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/loader.h"
#include "opencl/arena_pool.h"

namespace qnnrt::gpu {

struct Device {
  void* raw = nullptr;       // cl_device_id
  void* platform = nullptr;  // cl_platform_id
  std::string platform_name, name, version, driver;
  uint64_t type = 0;  // CL_DEVICE_TYPE_* bits
  bool cpu = false;
  bool shared = false;        // it computes in the host's memory
  bool rounds = false;        // divisions and roots can be rounded correctly
  uint64_t most_bytes = 0;    // of one buffer
  uint64_t memory_bytes = 0;  // of everything
  uint64_t alignment = 0;     // of sub-buffers, in bytes

  std::string Text() const { return platform_name + ": " + name; }
  // What program binaries depend on.
  std::string Identity() const;
};

// Errors: 1100 the driver does not say what it is.
Result<Device> Describe(const OpenCl& cl, void* raw);
// What the compiler wants to know of it: a JSON object, by pyopencl's names.
std::string FactsOf(const OpenCl& cl, const Device& device);
// The device that QNNRT_GPU_DEVICE names, or the best: as qnnrt.gpu.choose. Errors: 1010 with what
// there is, or which driver does not load.
Result<Device> Choose(const OpenCl& cl);

// A cl_context with a queue, and the programs in it. Shared by what was made in it.
class ClContext {
 public:
  // A context of our own. Errors: 1002, 1100.
  static Result<std::shared_ptr<ClContext>> Make(const OpenCl& cl, const Device& device);
  // The client's, which is retained; its device `preferred`, or the first. Errors as Make.
  static Result<std::shared_ptr<ClContext>> Of(const OpenCl& cl, void* context,
                                               const Device& preferred);
  ~ClContext();
  ClContext(const ClContext&) = delete;

  const OpenCl& cl() const { return cl_; }
  const Device& device() const { return device_; }
  void* raw() const { return raw_; }
  void* queue() const { return queue_; }
  // Of the intermediates of everything that runs in it.
  std::shared_ptr<opencl::ArenaPool>& arenas() { return arenas_; }

  // The built program of a source, and the binary that the device's driver makes of it. A binary
  // that the driver refuses is no error: the source is built. Errors: 1002, 1100 with the build's
  // log.
  Result<void*> Program(const std::string& source, const std::string& options,
                        const std::string& binary);
  // Empty where the driver gives none.
  std::string BinaryOf(void* program) const;

 private:
  ClContext(const OpenCl& cl, const Device& device, void* raw)
      : cl_(cl),
        device_(device),
        raw_(raw),
        arenas_(std::make_shared<opencl::ArenaPool>(cl, raw)) {}
  Status MakeQueue();
  Result<void*> Build(void* program, const std::string& options);
  Result<void*> OfBinary(const std::string& binary, const std::string& options);

  const OpenCl& cl_;
  const Device device_;
  void* const raw_;
  void* queue_ = nullptr;
  std::shared_ptr<opencl::ArenaPool> arenas_;
  const uint32_t forks_ = ForkNow();
  std::mutex mutex_;
  std::map<std::string, void*> programs_;

  static uint32_t ForkNow();
};

}  // namespace qnnrt::gpu
