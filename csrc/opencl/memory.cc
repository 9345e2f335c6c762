#include "opencl/memory.h"

#include "abi/qnn_errors.h"
#include "opencl/error.h"

namespace qnnrt::opencl {
namespace {

constexpr uint64_t kMapReadWrite = 3;  // CL_MAP_READ | CL_MAP_WRITE

using MapFunction = void* (*)(void* queue, void* mem, uint32_t blocking, uint64_t flags,
                              size_t offset, size_t size, uint32_t num_events, void* const* events,
                              void** event, int32_t* status);
using UnmapFunction = int32_t (*)(void* queue, void* mem, void* address, uint32_t num_events,
                                  void* const* events, void** event);
// clEnqueueAcquireExternalMemObjectsKHR, clEnqueueReleaseExternalMemObjectsKHR
using Exchange = int32_t (*)(void* queue, uint32_t count, void* const* mems, uint32_t num_events,
                             void* const* events, void** event);

int32_t ExchangeOne(void* function, const Qnnrt_OpenClOwnership_t& o) {
  return reinterpret_cast<Exchange>(function)(o.queue, 1, &o.address, 0, nullptr, nullptr);
}

// A handle of the runtime's own table is none of this one: the generations lie far apart.
constexpr uint64_t kMark = uint64_t{1} << 62;

SlotHandle ToSlot(Qnn_MemHandle_t handle) { return reinterpret_cast<uintptr_t>(handle) ^ kMark; }
Qnn_MemHandle_t ToHandle(SlotHandle slot) {
  return reinterpret_cast<Qnn_MemHandle_t>(slot ^ kMark);
}

bool Mapped(const Registration& r) { return r.readers != 0 || r.writers != 0; }

// Why the tensor cannot use the memory; null where it can.
const char* WhyNot(const Registration& r, uint64_t context, const IoTensor& tensor) {
  if (r.context != context)
    return "its memory handle belongs to another context: register the buffer with the graph's own";
  if (r.nbytes != tensor.nbytes || r.data_type != tensor.data_type ||
      !(tensor.scalar ? IsScalar(r.shape) : r.shape == tensor.shape))
    return "its memory handle is for another shape or type";
  if ((r.flags & tensor.refused) == 0) return nullptr;
  return (r.flags & kReadOnly) != 0 ? "kernels write it, and its OpenCL buffer is READ_ONLY"
                                    : "kernels read it, and its OpenCL buffer is WRITE_ONLY";
}

}  // namespace

Status IoTensor::Refuse(const char* why) const {
  return Status(QNN_GRAPH_ERROR_INVALID_TENSOR, Text(why));
}

bool IsScalar(const Shape& shape) { return shape.empty() || (shape.size() == 1 && shape[0] == 1); }

MemoryTable& MemoryTable::Get() {
  static MemoryTable* table = new MemoryTable;  // stays: executions may end behind main
  return *table;
}

Result<Qnn_MemHandle_t> MemoryTable::Register(const Qnnrt_OpenClMemory_t& memory) {
  Registration r;
  r.mem = memory.mem;
  r.context = reinterpret_cast<uintptr_t>(memory.context);
  r.nbytes = memory.nbytes;
  r.flags = memory.flags;
  r.data_type = static_cast<Qnn_DataType_t>(memory.data_type);
  r.shape.assign(memory.dims, memory.dims + memory.rank);
  r.ownership = memory.ownership;
  std::lock_guard<std::mutex> lock(mutex_);
  SlotHandle slot;
  Registration* value = slots_.Insert(&slot);
  if (value == nullptr) return Status(QNN_COMMON_ERROR_MEM_ALLOC);
  *value = std::move(r);
  slots_.Publish(slot);
  ++live_;
  return ToHandle(slot);
}

Status MemoryTable::Deregister(Qnn_MemHandle_t handle, bool force) {
  const SlotHandle slot = ToSlot(handle);
  std::unique_lock<std::mutex> lock(mutex_);
  Registration* r = slots_.Peek(slot);
  if (r == nullptr) return Status(QNN_MEM_ERROR_INVALID_HANDLE);
  if (Mapped(*r) && !force) return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  slots_.Close(slot);  // no execution finds it from here on
  idle_.wait(lock, [&] { return slots_.Drained(slot); });
  if (r->ownership.kind == QNNRT_OPENCL_MAPPED) GiveToDevice(r);  // ends the mapping
  *r = {};
  slots_.Recycle(slot);
  --live_;
  return Status::Ok();
}

Status MemoryTable::Map(Qnn_MemHandle_t handle, bool write) {
  const SlotHandle slot = ToSlot(handle);
  std::unique_lock<std::mutex> lock(mutex_);
  Registration* r = slots_.Peek(slot);
  if (r == nullptr) return Status(QNN_MEM_ERROR_INVALID_HANDLE);
  if (r->writers != 0 || (write && r->readers != 0))
    return Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED);
  ++(write ? r->writers : r->readers);
  idle_.wait(lock, [&] { return slots_.PinsOf(slot) <= 0; });
  return Status::Ok();
}

void MemoryTable::Unmap(Qnn_MemHandle_t handle, bool write) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Registration* r = slots_.Peek(ToSlot(handle))) --(write ? r->writers : r->readers);
}

Result<Registration*> MemoryTable::Acquire(Qnn_MemHandle_t handle, uint64_t context,
                                           const IoTensor& tensor) {
  std::lock_guard<std::mutex> lock(mutex_);
  Registration* r = slots_.Peek(ToSlot(handle));
  if (r == nullptr) return tensor.Refuse("its memory handle is not registered on the gpu backend");
  const char* why = WhyNot(*r, context, tensor);
  ErrorCode code = QNN_GRAPH_ERROR_INVALID_TENSOR;
  if (why == nullptr && (r->writers != 0 || (tensor.output && r->readers != 0))) {
    code = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
    why = "its OpenCL buffer is mapped: execute after the 'with handle.map()' block";
  }
  if (why != nullptr) {
    return Status(code, tensor.Text(why) + " (it needs " +
                            TypeText(tensor.data_type, tensor.shape) + ", the handle is for " +
                            TypeText(r->data_type, r->shape) + ")");
  }
  return slots_.Acquire(ToSlot(handle));
}

void MemoryTable::Release(Qnn_MemHandle_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (slots_.Release(ToSlot(handle)) == 0) idle_.notify_all();
}

int32_t MemoryTable::GiveToDevice(Registration* r) {
  if (r->lost) {  // the device has it already
    r->lost = false;
    return 0;
  }
  const Qnnrt_OpenClOwnership_t& o = r->ownership;
  if (o.kind == QNNRT_OPENCL_MAPPED) {
    return reinterpret_cast<UnmapFunction>(o.to_device)(o.queue, r->mem, o.address, 0, nullptr,
                                                        nullptr);
  }
  return o.kind == QNNRT_OPENCL_EXTERNAL ? ExchangeOne(o.to_device, o) : 0;
}

int32_t MemoryTable::ToDevice(Registration* r, uint64_t* commands) {
  if (r->ownership.kind == QNNRT_OPENCL_SHARED) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  int32_t status = 0;
  if (r->on_device == 0) {
    ++*commands;
    status = GiveToDevice(r);
  }
  r->on_device += status == 0 ? 1 : 0;
  return status;
}

int32_t MemoryTable::ToHost(Registration* r, uint64_t* commands) {
  const Qnnrt_OpenClOwnership_t& o = r->ownership;
  if (o.kind == QNNRT_OPENCL_SHARED) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (--r->on_device != 0) return 0;
  ++*commands;
  int32_t status = 0;
  if (o.kind == QNNRT_OPENCL_MAPPED) {
    reinterpret_cast<MapFunction>(o.to_host)(o.queue, r->mem, 0, kMapReadWrite, 0, r->nbytes, 0,
                                             nullptr, nullptr, &status);
  } else {
    status = ExchangeOne(o.to_host, o);
  }
  r->lost = status != 0;
  return status;
}

void MemoryTable::Usage(Qnn_MemHandle_t handle, uint32_t* executions, uint32_t* mapped) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Registration* r = slots_.Peek(ToSlot(handle));
  *executions = r == nullptr ? 0 : static_cast<uint32_t>(slots_.PinsOf(ToSlot(handle)));
  *mapped = r != nullptr && Mapped(*r) ? 1 : 0;
}

uint32_t MemoryTable::live() {
  std::lock_guard<std::mutex> lock(mutex_);
  return live_;
}

}  // namespace qnnrt::opencl
