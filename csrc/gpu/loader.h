// OpenCL as this process has it: the loader is opened when something needs a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/qnnrt_opencl.h"
#include "support/status.h"

namespace qnnrt::gpu {

// The functions of one loader. Objects (cl_context, cl_mem, ...) are pointers.
struct OpenCl : Qnnrt_OpenClFunctions_t {
  int32_t (*getPlatformIDs)(uint32_t room, void** platforms, uint32_t* count);
  int32_t (*getPlatformInfo)(void* platform, uint32_t name, size_t size, void* value, size_t* got);
  int32_t (*getDeviceIDs)(void* platform, uint64_t type, uint32_t room, void** devices,
                          uint32_t* count);
  int32_t (*getDeviceInfo)(void* device, uint32_t name, size_t size, void* value, size_t* got);
  void* (*createContext)(const intptr_t* properties, uint32_t count, void* const* devices,
                         void (*notify)(const char*, const void*, size_t, void*), void* user,
                         int32_t* status);
  int32_t (*retainContext)(void* context);
  int32_t (*releaseContext)(void* context);
  int32_t (*getContextInfo)(void* context, uint32_t name, size_t size, void* value, size_t* got);
  void* (*createProgramWithSource)(void* context, uint32_t count, const char** texts,
                                   const size_t* sizes, int32_t* status);
  void* (*createProgramWithBinary)(void* context, uint32_t count, void* const* devices,
                                   const size_t* sizes, const unsigned char** binaries,
                                   int32_t* each, int32_t* status);
  int32_t (*buildProgram)(void* program, uint32_t count, void* const* devices, const char* options,
                          void (*notify)(void*, void*), void* user);
  int32_t (*getProgramBuildInfo)(void* program, void* device, uint32_t name, size_t size,
                                 void* value, size_t* got);
  int32_t (*getProgramInfo)(void* program, uint32_t name, size_t size, void* value, size_t* got);
  int32_t (*releaseProgram)(void* program);
  void* (*createKernel)(void* program, const char* name, int32_t* status);
  int32_t (*releaseKernel)(void* kernel);
  int32_t (*getMemObjectInfo)(void* mem, uint32_t name, size_t size, void* value, size_t* got);
  int32_t (*retainMemObject)(void* mem);

  // QNNRT_OPENCL_LIBRARY's loader or, without it, the one that the process has already, the
  // system's, or pyopencl's beside this package. Errors: 1010 there is none, or it lacks a
  // function.
  // 1005 a forked child, in which the driver of its parent has no threads.
  static Result<const OpenCl*> Get();
  // Which file it is.
  static std::string Name();
};

// What a forked child is told. Errors: 1005.
Status InForkedChild();

}  // namespace qnnrt::gpu
