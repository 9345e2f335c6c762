// Why the last execution on the gpu backend failed, for the thread that it failed on. Header only,
// part of the binding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace qnnrt::client {

struct GpuError {
  uint64_t code = 0;      // what the execution returned
  int32_t opencl = 0;     // the OpenCL function's code; 0 when none failed
  uint32_t tensor = 0;    // position among inputs, then outputs; UINT32_MAX for none
  uint32_t step = 0;      // of the command list; UINT32_MAX for none
  uint64_t graph = 0;     // its handle
  uint64_t memory = 0;    // the memory handle that was refused; 0 for none
  const char* what = "";  // a literal
  char detail[200] = "";  // what follows it
};

inline GpuError& LastGpuError() {
  thread_local GpuError error;
  return error;
}

inline void SetGpuDetail(GpuError* e, const char* text) {
  std::snprintf(e->detail, sizeof(e->detail), "%s", text);
}

// "CL_OUT_OF_RESOURCES"; null for a number that OpenCL 3.0 has not.
inline const char* OpenClErrorName(int32_t code) {
  static const char* const kRun[] = {"CL_SUCCESS",
                                     "CL_DEVICE_NOT_FOUND",
                                     "CL_DEVICE_NOT_AVAILABLE",
                                     "CL_COMPILER_NOT_AVAILABLE",
                                     "CL_MEM_OBJECT_ALLOCATION_FAILURE",
                                     "CL_OUT_OF_RESOURCES",
                                     "CL_OUT_OF_HOST_MEMORY",
                                     "CL_PROFILING_INFO_NOT_AVAILABLE",
                                     "CL_MEM_COPY_OVERLAP",
                                     "CL_IMAGE_FORMAT_MISMATCH",
                                     "CL_IMAGE_FORMAT_NOT_SUPPORTED",
                                     "CL_BUILD_PROGRAM_FAILURE",
                                     "CL_MAP_FAILURE",
                                     "CL_MISALIGNED_SUB_BUFFER_OFFSET",
                                     "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"};
  static const char* const kInvalid[] = {
      // from -30 down
      "CL_INVALID_VALUE",           "CL_INVALID_DEVICE_TYPE",
      "CL_INVALID_PLATFORM",        "CL_INVALID_DEVICE",
      "CL_INVALID_CONTEXT",         "CL_INVALID_QUEUE_PROPERTIES",
      "CL_INVALID_COMMAND_QUEUE",   "CL_INVALID_HOST_PTR",
      "CL_INVALID_MEM_OBJECT",      "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
      "CL_INVALID_IMAGE_SIZE",      "CL_INVALID_SAMPLER",
      "CL_INVALID_BINARY",          "CL_INVALID_BUILD_OPTIONS",
      "CL_INVALID_PROGRAM",         "CL_INVALID_PROGRAM_EXECUTABLE",
      "CL_INVALID_KERNEL_NAME",     "CL_INVALID_KERNEL_DEFINITION",
      "CL_INVALID_KERNEL",          "CL_INVALID_ARG_INDEX",
      "CL_INVALID_ARG_VALUE",       "CL_INVALID_ARG_SIZE",
      "CL_INVALID_KERNEL_ARGS",     "CL_INVALID_WORK_DIMENSION",
      "CL_INVALID_WORK_GROUP_SIZE", "CL_INVALID_WORK_ITEM_SIZE",
      "CL_INVALID_GLOBAL_OFFSET",   "CL_INVALID_EVENT_WAIT_LIST",
      "CL_INVALID_EVENT",           "CL_INVALID_OPERATION",
      "CL_INVALID_GL_OBJECT",       "CL_INVALID_BUFFER_SIZE",
      "CL_INVALID_MIP_LEVEL",       "CL_INVALID_GLOBAL_WORK_SIZE",
      "CL_INVALID_PROPERTY"};
  const auto at = [code](auto& names, int32_t first) -> const char* {
    const int64_t i = int64_t{first} - code;
    return i >= 0 && i < static_cast<int64_t>(sizeof(names) / sizeof(*names)) ? names[i] : nullptr;
  };
  const char* name = at(kRun, 0);
  return name != nullptr ? name : at(kInvalid, -30);
}

// The reason in one sentence. Null where there is no such name.
inline void WriteGpuError(const GpuError& e, const char* tensor, const char* node,
                          const char* kernel, char* text, size_t size) {
  size_t used = 0;
  const auto add = [&](const char* format, auto... values) {
    if (used >= size) return;
    const int n = std::snprintf(text + used, size - used, format, values...);
    used += n > 0 ? static_cast<size_t>(n) : 0;
  };
  text[0] = '\0';
  if (tensor != nullptr) add("tensor '%s': ", tensor);
  if (e.step != UINT32_MAX) {
    add("step %u", e.step);
    if (node != nullptr) add(", node '%s'", node);
    if (kernel != nullptr) add(", kernel %s", kernel);
    add(": %s", "");
  }
  add("%s%s", e.what, e.detail);
  if (e.opencl == 0) return;
  const char* name = OpenClErrorName(e.opencl);
  add(" (%s, OpenCL error %d)", name == nullptr ? "a code of the driver's own" : name, e.opencl);
}

}  // namespace qnnrt::client
