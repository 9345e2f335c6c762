// Qnn_MemDescriptor_t as clients pass it -> MemDescriptor. Which struct customInfo points to
// depends on the backend.
#pragma once

#include "abi/qnn_types.h"
#include "memory/registry.h"
#include "support/status.h"

namespace qnnrt {

enum class CustomMem { kNone, kHtp, kLpai };

// Errors: 8000 a null custom pointer, 8005 a memory type that the backend does not know.
Result<MemDescriptor> FromQnn(const Qnn_MemDescriptor_t& descriptor, CustomMem custom);

// Nulls the handles of a call that registers `count` descriptors. Without descriptors the count
// says nothing of how long the other array is.
void ClearHandles(const Qnn_MemDescriptor_t* descriptors, uint32_t count, Qnn_MemHandle_t* handles);

// Registers an array of them; the output is nulled first, all or nothing.
Status RegisterQnn(Registry* registry, uint64_t context, const Qnn_MemDescriptor_t* descriptors,
                   uint32_t count, CustomMem custom, uint32_t kinds, Qnn_MemHandle_t* handles,
                   ProcessDomain* domain = nullptr);
Status DeregisterQnn(Registry* registry, const Qnn_MemHandle_t* handles, uint32_t count);

inline SlotHandle HandleFromQnn(Qnn_MemHandle_t handle) {
  return reinterpret_cast<uintptr_t>(handle);
}
inline Qnn_MemHandle_t HandleToQnn(SlotHandle handle) {
  return reinterpret_cast<Qnn_MemHandle_t>(static_cast<uintptr_t>(handle));
}

}  // namespace qnnrt
