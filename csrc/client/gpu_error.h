// Why the last execution on the gpu backend failed, for the thread that asked for it. Header only,
// part of the binding.
#pragma once

#include <cstdint>

namespace qnnrt::client {

struct GpuError {
  uint64_t code = 0;      // what the execution returned
  int32_t opencl = 0;     // the OpenCL function's code; 0 when none failed
  uint32_t tensor = 0;    // position among inputs, then outputs; UINT32_MAX for none
  uint32_t step = 0;      // of the command list; meant when a kernel did not start
  uint64_t graph = 0;     // its handle
  uint64_t memory = 0;    // the memory handle that was refused; 0 for none
  const char* what = "";  // a literal
};

inline GpuError& LastGpuError() {
  thread_local GpuError error;
  return error;
}

}  // namespace qnnrt::client
