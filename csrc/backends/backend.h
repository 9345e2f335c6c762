// The traits of a backend: names, versions, limits and memory policy. Code never checks which
// backend it serves, only these traits.
#pragma once

#include <cstdint>

#include "abi/qnn_types.h"
#include "ir/node.h"
#include "memory/descriptor.h"
#include "memory/process_domain.h"
#include "support/status.h"

namespace qnnrt {

struct OpDef;

// Which config options a backend takes: a column of the config table.
enum class ConfigSet : uint8_t { kCpu, kHtp, kLpai, kGpu };

struct BackendTraits {
  uint32_t id = 0;
  const char* provider = nullptr;
  Qnn_Version_t api_version = {0, 0, 0};
  // The struct behind customInfo of a CUSTOM memory descriptor, and which kinds (KindBit) register.
  CustomMem custom_memory = CustomMem::kNone;
  uint32_t memory_kinds = 0;
  // RAW tensors are copied through buffers of the runtime's own, since the accelerator that this
  // backend stands for sees shared buffers alone; what it maps counts against a process domain.
  bool stages_raw = false;
  bool has_device = false;  // device handles, platform info, performance votes
  // The client brings the memory that graphs work in, and graphFinalize takes it: of graphs from a
  // binary, too.
  bool client_memory = false;
  // Graphs are executed by an executor of the binding's: they cannot be written into a binary.
  bool external = false;
  // Whether the backend takes a valid node, and whether it takes any node of an op. Null: all.
  Status (*admit)(const Node& node) = nullptr;
  bool (*takes_op)(const OpDef& op) = nullptr;
  ConfigSet configs = ConfigSet::kCpu;
  bool op_packages = false;  // ops of the client's may be registered
  // Executions may be queued, signals may end them, and memory may be bound before them.
  bool async = false;
  bool signals = false;
  bool environments = false;
  const uint32_t* capabilities = nullptr;  // property keys supported, ascending, 0 at the end
};

// Every property key of the API, ascending, 0 at the end; what is not here is unknown.
extern const uint32_t kKnownProperties[];

// The process domain of the backend's mappings; null for one that maps nothing.
inline ProcessDomain* DomainOf(const BackendTraits& traits) {
  return traits.stages_raw ? &ProcessDomain::Htp() : nullptr;
}

const BackendTraits& CpuBackend();
const BackendTraits& HtpBackend();
const BackendTraits& LpaiBackend();
const BackendTraits& GpuBackend();

}  // namespace qnnrt
