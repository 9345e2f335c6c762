// Memory handles of OpenCL buffers: one table for the process. Who owns the bytes, the host or the
// device, changes around executions where the device asks for it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "abi/qnnrt_opencl.h"
#include "ir/types.h"
#include "support/slot_table.h"
#include "support/status.h"

namespace qnnrt::opencl {

// Bits of cl_mem_flags.
constexpr uint64_t kReadWrite = 1, kWriteOnly = 2, kReadOnly = 4;

// What a memory handle stands for. The table guards what changes.
struct Registration {
  void* mem = nullptr;  // cl_mem
  uint64_t context = 0;
  uint64_t nbytes = 0;
  uint64_t flags = 0;
  Qnn_DataType_t data_type = QNN_DATATYPE_UNDEFINED;
  Shape shape;
  Qnnrt_OpenClOwnership_t ownership = {};

  uint32_t on_device = 0;  // executions between ToDevice and ToHost
  uint32_t readers = 0;    // mappings of the client's
  uint32_t writers = 0;
  bool lost = false;  // the driver did not give it back: the host does not have it
};

// A graph input or output.
struct IoTensor {
  std::string name;
  uint32_t id = 0;
  Qnn_DataType_t data_type = QNN_DATATYPE_UNDEFINED;
  Shape shape;
  uint64_t nbytes = 0;
  bool scalar = false;  // whose dimensions a client may give as [] or [1]: shape and other_shape
  Shape other_shape;
  bool output = false;
  uint64_t refused = 0;  // flags of buffers that its kernels cannot use

  std::string Text(const char* why) const { return "tensor '" + name + "': " + why; }
  Status Refuse(const char* why) const;  // 6004
};

bool IsScalar(const Shape& shape);

class MemoryTable {
 public:
  static MemoryTable& Get();

  // Errors: 1002 the table is full.
  Result<Qnn_MemHandle_t> Register(const Qnnrt_OpenClMemory_t& memory);
  // Waits for the executions that use it. Errors: 8001 stale, 1005 mapped, unless `force`.
  Status Deregister(Qnn_MemHandle_t handle, bool force);

  // A mapping of the client's: waits for the executions that use it. Errors: 8001 stale, 1005 it is
  // mapped already and one of the two writes.
  Status Map(Qnn_MemHandle_t handle, bool write);
  void Unmap(Qnn_MemHandle_t handle, bool write);

  // Pins the memory for an execution of a context's graph, until Release. Errors: 6004 it is not
  // what the tensor needs, 1005 it is mapped.
  Result<Registration*> Acquire(Qnn_MemHandle_t handle, uint64_t context, const IoTensor& tensor);
  void Release(Qnn_MemHandle_t handle);

  // Of pinned memory: before the commands of an execution, and behind them. `commands` counts those
  // that it took. OpenCL's code.
  int32_t ToDevice(Registration* r, uint64_t* commands);
  int32_t ToHost(Registration* r, uint64_t* commands);

  // Executions that use it now, and whether the client has it mapped.
  void Usage(Qnn_MemHandle_t handle, uint32_t* executions, uint32_t* mapped);
  uint32_t live();

 private:
  MemoryTable() = default;
  static int32_t GiveToDevice(Registration* r);

  std::mutex mutex_;
  std::condition_variable idle_;  // an execution has released a memory
  SlotTable<Registration> slots_;
  uint32_t live_ = 0;
};

}  // namespace qnnrt::opencl
