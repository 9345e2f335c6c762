#include "opencl/error.h"

#include "abi/qnn_errors.h"

namespace qnnrt::opencl {
namespace {

constexpr int32_t kNoBufferMemory = -4;  // CL_MEM_OBJECT_ALLOCATION_FAILURE
constexpr int32_t kNoHostMemory = -6;    // CL_OUT_OF_HOST_MEMORY; -5 CL_OUT_OF_RESOURCES

}  // namespace

const char* ErrorName(int32_t code) {
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

Status DriverError(int32_t code, const std::string& what) {
  if (code == 0) return Status(QNN_COMMON_ERROR_GENERAL, what);  // no object, and no reason
  const char* name = ErrorName(code);
  return Error(code <= kNoBufferMemory && code >= kNoHostMemory ? QNN_COMMON_ERROR_MEM_ALLOC
                                                                : QNN_COMMON_ERROR_GENERAL,
               "%s (%s, OpenCL error %d)", what.c_str(),
               name == nullptr ? "a code of the driver's own" : name, code);
}

std::string TypeText(Qnn_DataType_t type, const Shape& shape) {
  static const char* const kKinds[] = {"int", "uint", "float", "int", "uint"};  // fixed point last
  // A type is its kind and its bits, two decimal digits: 0x0216 is FLOAT_16.
  const uint32_t kind = static_cast<uint32_t>(type) >> 8;
  char text[16] = "bool";
  if (kind < sizeof(kKinds) / sizeof(*kKinds))
    std::snprintf(text, sizeof(text), "%s%x", kKinds[kind], static_cast<uint32_t>(type) & 0xFF);
  return text + ShapeText(shape);
}

}  // namespace qnnrt::opencl
