// Declarations of our own for Khronos' C++ header: as much of it as the tutorial's program uses, on
// the C functions of the loader that it is linked with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using cl_int = std::int32_t;
using cl_uint = std::uint32_t;
using cl_bool = cl_uint;
using cl_bitfield = std::uint64_t;
using cl_mem_flags = cl_bitfield;
using cl_map_flags = cl_bitfield;
using cl_device_type = cl_bitfield;
using cl_platform_id = struct CLPlatform*;
using cl_device_id = struct CLDevice*;
using cl_context = struct CLContext*;
using cl_command_queue = struct CLQueue*;
using cl_mem = struct CLMem*;
using cl_event = struct CLEvent*;

constexpr cl_int CL_SUCCESS = 0;
constexpr cl_bool CL_TRUE = 1;
constexpr cl_device_type CL_DEVICE_TYPE_DEFAULT = 1;
constexpr cl_mem_flags CL_MEM_READ_WRITE = 1, CL_MEM_USE_HOST_PTR = 8;
constexpr cl_map_flags CL_MAP_READ = 1;

extern "C" {
cl_int clGetPlatformIDs(cl_uint, cl_platform_id*, cl_uint*);
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id*, cl_uint*);
cl_context clCreateContext(const std::intptr_t*, cl_uint, const cl_device_id*,
                           void (*)(const char*, const void*, std::size_t, void*), void*, cl_int*);
cl_int clReleaseContext(cl_context);
cl_int clGetContextInfo(cl_context, cl_uint, std::size_t, void*, std::size_t*);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_bitfield, cl_int*);
cl_int clReleaseCommandQueue(cl_command_queue);
cl_mem clCreateBuffer(cl_context, cl_mem_flags, std::size_t, void*, cl_int*);
cl_int clReleaseMemObject(cl_mem);
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, std::size_t, std::size_t,
                            const void*, cl_uint, const cl_event*, cl_event*);
void* clEnqueueMapBuffer(cl_command_queue, cl_mem, cl_bool, cl_map_flags, std::size_t, std::size_t,
                         cl_uint, const cl_event*, cl_event*, cl_int*);
cl_int clEnqueueUnmapMemObject(cl_command_queue, cl_mem, void*, cl_uint, const cl_event*,
                               cl_event*);
}

namespace cl {

class Event;

// Owns one reference, and is moved alone.
template <typename T, cl_int (*kRelease)(T)>
class Object {
 public:
  Object() = default;
  explicit Object(T object) : object_(object) {}
  Object(Object&& other) noexcept { std::swap(object_, other.object_); }
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() {
    if (object_ != nullptr) kRelease(object_);
  }
  T operator()() const { return object_; }

 protected:
  T object_ = nullptr;
};

class Context : public Object<cl_context, clReleaseContext> {
 public:
  explicit Context(cl_device_type type) {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_int status = clGetPlatformIDs(1, &platform, nullptr);
    if (status == CL_SUCCESS) status = clGetDeviceIDs(platform, type, 1, &device, nullptr);
    if (status == CL_SUCCESS)
      object_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  }
};

class Buffer : public Object<cl_mem, clReleaseMemObject> {
 public:
  Buffer() = default;
  Buffer(const Context& context, cl_mem_flags flags, std::size_t size, void* host = nullptr,
         cl_int* status = nullptr)
      : Object(clCreateBuffer(context(), flags, size, host, status)) {}
};

class CommandQueue : public Object<cl_command_queue, clReleaseCommandQueue> {
 public:
  explicit CommandQueue(const Context& context) {
    constexpr cl_uint kContextDevices = 0x1081;
    cl_device_id device = nullptr;
    cl_int status = clGetContextInfo(context(), kContextDevices, sizeof device, &device, nullptr);
    if (status == CL_SUCCESS) object_ = clCreateCommandQueue(context(), device, 0, &status);
  }
  cl_int enqueueWriteBuffer(const Buffer& buffer, cl_bool blocking, std::size_t offset,
                            std::size_t size, const void* data) const {
    return clEnqueueWriteBuffer(object_, buffer(), blocking, offset, size, data, 0, nullptr,
                                nullptr);
  }
  void* enqueueMapBuffer(const Buffer& buffer, cl_bool blocking, cl_map_flags flags,
                         std::size_t offset, std::size_t size, const std::vector<Event>*, Event*,
                         cl_int* status) const {
    return clEnqueueMapBuffer(object_, buffer(), blocking, flags, offset, size, 0, nullptr, nullptr,
                              status);
  }
  cl_int enqueueUnmapMemObject(const Buffer& buffer, void* mapped, const std::vector<Event>*,
                               Event*) const {
    return clEnqueueUnmapMemObject(object_, buffer(), mapped, 0, nullptr, nullptr);
  }
};

}  // namespace cl
