// The lpai backend: quantized graphs whose memory the client brings. Numbers that the vendor does
// not publish are stand-ins: docs/decisions/0016-lpai-backend.md.
#include "backends/lpai.h"

#include <array>
#include <charconv>

#include "abi/qnn_errors.h"
#include "abi/qnn_interface.h"
#include "backends/backend.h"
#include "backends/capabilities.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

// ---- which nodes it takes ----

bool TakesOp(const OpDef& op) { return (op.flags & OpDef::kLpai) != 0; }

// Ops with an `operation` stand for several; the same ones are taken as by their own names.
bool TakesOperation(const OpDef& op, const Node& node) {
  return (op.lpai_operations >> (node.Int("operation") & 31) & 1) != 0;
}

// What brings numbers in and takes them out has a float side.
bool MayBeFloat(const OpDef& op, const std::vector<PortSpec>& ports, size_t i) {
  return (op.flags & OpDef::kConverts) != 0 && i < ports.size() && ports[i].types == types::kFloat;
}

std::string FloatTensors(const OpDef& op, const Node& node) {
  std::string names;
  for (const bool input : {true, false}) {
    const auto& tensors = input ? node.inputs : node.outputs;
    const auto& ports = input ? op.inputs : op.outputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor* t = tensors[i];
      if (t == nullptr || t->elements() == 0 || MayBeFloat(op, ports, i)) continue;
      if ((TypeBit(t->dtype) & (types::kFloat | types::kF64)) == 0) continue;
      names += (names.empty() ? "'" : ", '") + t->name + "' (" + DataTypeName(t->dtype) + ")";
    }
  }
  return names;
}

Status Admit(const Node& node) {
  const OpDef* op = FindOp(node.type);
  if (op == nullptr || !TakesOp(*op)) {
    return Error(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND,
                 "node '%s': the lpai backend has no op '%s'; backendGetSupportedOperations lists "
                 "those it has",
                 node.name.c_str(), node.type.c_str());
  }
  if (!TakesOperation(*op, node)) {
    return Error(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE,
                 "%s '%s': the lpai backend does not take operation %lld", node.type.c_str(),
                 node.name.c_str(), static_cast<long long>(node.Int("operation")));
  }
  const std::string floats = FloatTensors(*op, node);
  if (floats.empty()) return Status::Ok();
  return Error(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE,
               "%s '%s': the lpai backend computes with quantized tensors alone, and these are "
               "float: %s; quantize the model (float is taken as the input of Quantize and the "
               "output of Dequantize)",
               node.type.c_str(), node.name.c_str(), floats.c_str());
}

// ---- the accelerator ----

struct LpaiHardware {
  QnnLpaiBackend_HwVersion_t version;
  const char* name;
  uint32_t cores, macs;
};

// Stand-ins: no page of the vendor's says how many cores and multipliers a version has.
constexpr LpaiHardware kHardware[] = {
    {QNN_LPAI_BACKEND_HW_VERSION_V1, "V1", 1, 32},
    {QNN_LPAI_BACKEND_HW_VERSION_V2, "V2", 1, 64},
    {QNN_LPAI_BACKEND_HW_VERSION_V3, "V3", 1, 128},
    {QNN_LPAI_BACKEND_HW_VERSION_V4, "V4", 1, 256},
    {QNN_LPAI_BACKEND_HW_VERSION_V5, "V5", 1, 512},
    {QNN_LPAI_BACKEND_HW_VERSION_V5_1, "V5_1", 1, 512},
    {QNN_LPAI_BACKEND_HW_VERSION_V6, "V6", 2, 512},
    {QNN_LPAI_BACKEND_HW_VERSION_V7, "V7", 2, 1024},
};

const LpaiHardware* Find(uint32_t version) {
  for (const LpaiHardware& hardware : kHardware) {
    if (hardware.version == version) return &hardware;
  }
  return nullptr;
}

// ---- platform options ----

Status BadOption(const std::string& key, const std::string& value, const std::string& wanted) {
  return Error(QNN_BACKEND_ERROR_INVALID_CONFIG, "platform option '%s:%s': expected %s",
               key.c_str(), value.c_str(), wanted.c_str());
}

Result<uint32_t> ReadNumber(const std::string& key, const std::string& value, uint32_t most) {
  uint32_t number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || rest != end || number < 1 || number > most)
    return BadOption(key, value, "a number from 1 to " + std::to_string(most));
  return number;
}

constexpr uint32_t kMostAlignment = 4096;

Result<uint32_t> ReadAlignment(const std::string& key, const std::string& value) {
  Result<uint32_t> bytes = ReadNumber(key, value, kMostAlignment);
  if (!bytes.ok() || (*bytes & (*bytes - 1)) != 0)
    return BadOption(key, value, "a power of two from 1 to " + std::to_string(kMostAlignment));
  return bytes;
}

// ---- traits ----

constexpr std::array kLpaiProperties = {QNN_PROPERTY_BACKEND_SUPPORT_CUSTOM_PROPERTY,
                                        QNN_PROPERTY_GRAPH_SUPPORT_ASYNC_EXECUTION,
                                        QNN_PROPERTY_GRAPH_SUPPORT_FINALIZE_DESERIALIZED_GRAPH,
                                        QNN_PROPERTY_GRAPH_SUPPORT_CUSTOM_PROPERTY};
constexpr auto kLpaiCapabilities = WithCommonCapabilities(kLpaiProperties);

}  // namespace

uint32_t LpaiSettings::CoreCount() const { return cores.value_or(Find(version)->cores); }
uint32_t LpaiSettings::MacCount() const { return macs.value_or(Find(version)->macs); }

Result<bool> ReadLpaiOption(const std::string& key, const std::string& value,
                            LpaiSettings* settings) {
  if (key == "direct_mode") {
    if (value != "adsp") return BadOption(key, value, "adsp");
    settings->direct_mode = true;
  } else if (key == "start_alignment") {
    QNNRT_ASSIGN_OR_RETURN(settings->start_alignment, ReadAlignment(key, value));
  } else if (key == "size_alignment") {
    QNNRT_ASSIGN_OR_RETURN(settings->size_alignment, ReadAlignment(key, value));
  } else if (key == "enpu_cores") {
    QNNRT_ASSIGN_OR_RETURN(settings->cores, ReadNumber(key, value, kMaxLpaiCores));
  } else if (key == "enpu_macs") {
    QNNRT_ASSIGN_OR_RETURN(settings->macs, ReadNumber(key, value, 1u << 20));
  } else {
    return false;
  }
  return true;
}

const char* LpaiVersionName(uint32_t version) {
  const LpaiHardware* hardware = Find(version);
  return hardware == nullptr ? nullptr : hardware->name;
}

const char* LpaiTargetName(uint32_t target) {
  static const char* const kNames[] = {"X86", "ARM", "ADSP", "TENSILICA"};
  return target <= QNN_LPAI_BACKEND_TARGET_TENSILICA ? kNames[target] : nullptr;
}

const char* LpaiMemTypeName(uint32_t type) {
  static const char* const kNames[] = {nullptr, "DDR", "LLC", "TCM", "PSRAM"};
  return type <= QNN_LPAI_MEM_TYPE_PSRAM ? kNames[type] : nullptr;
}

const BackendTraits& LpaiBackend() {
  static const BackendTraits traits = [] {
    BackendTraits t;
    t.id = QNN_BACKEND_ID_LPAI;
    t.provider = QNN_PROVIDER_NAME_LPAI;
    t.api_version = {2, 26, 0};
    t.custom_memory = CustomMem::kLpai;
    t.memory_kinds =
        KindBit(MemKind::kIon) | KindBit(MemKind::kDmaBuf) | KindBit(MemKind::kLpaiCustom);
    t.client_memory = true;
    t.takes_op = TakesOp;
    t.admit = Admit;
    t.configs = ConfigSet::kLpai;
    t.async = true;
    t.capabilities = kLpaiCapabilities.data();
    return t;
  }();
  return traits;
}

}  // namespace qnnrt
