#include "graph/weights.h"

#include <cstdlib>
#include <cstring>

#include "abi/qnn_errors.h"
#include "graph/binary/binary.h"
#include "ops/blocked_layout.h"
#include "ops/rules.h"

namespace qnnrt {

Result<uint64_t> ConstantsToKeep(std::optional<bool> asked, bool released) {
  if (asked.has_value()) return *asked ? UINT64_MAX : uint64_t{0};
  if (released) return uint64_t{0};
  static const char* const text = std::getenv("QNNRT_KEEP_CONSTANTS_MIB");
  if (text == nullptr || *text == '\0') return uint64_t{64} << 20;
  const size_t digits = std::strspn(text, "0123456789");
  if (text[digits] != '\0' || digits > 9) {
    return Error(
        QNN_GRAPH_ERROR_INVALID_ARGUMENT,
        "QNNRT_KEEP_CONSTANTS_MIB in the environment is a whole number of MiB, up to which "
        "a graph's constants are kept (0: none are), not '%s'",
        text);
  }
  return uint64_t{std::strtoul(text, nullptr, 10)} << 20;
}

Result<SharedBytes> WeightRecorder::Packed(uint64_t size, const std::string& layout, Fill fill) {
  QNNRT_ASSIGN_OR_RETURN(SharedBytes bytes, PackWeights(KernelOptions(), size, layout, fill));
  packed_.push_back({layout, bytes});
  return bytes;
}

Status WeightReader::Mismatch(const std::string& wanted, const std::string& there) const {
  if (threads_.before != threads_.now) {
    return Error(QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES,
                 "the weights of the context binary were packed for %d threads (%s) and do not fit "
                 "%d here (%s): wanted as %s, the binary has %s; leave out the number of threads, "
                 "or prepare the model for %d",
                 threads_.before, made_with_.c_str(), threads_.now,
                 KernelIdentity(portable_only_).c_str(), wanted.c_str(), there.c_str(),
                 threads_.now);
  }
  return Error(QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES,
               "the context binary was prepared for other kernels (%s; this machine has %s): "
               "weights are wanted as %s, the binary has %s; prepare the model again on this "
               "machine, or with its constants (KEEP_CONSTANTS, or QNNRT_KEEP_CONSTANTS_MIB)",
               made_with_.c_str(), KernelIdentity(portable_only_).c_str(), wanted.c_str(),
               there.c_str());
}

Result<bool> WeightReader::MoveNext(uint64_t size, const std::string& layout) {
  PackedWeight& next = packed_[next_];
  if (!moves_ || next.bytes->data() == nullptr) return false;
  std::shared_ptr<AlignedBytes> moved = AlignedBytes::Make(size);
  if (moved == nullptr) return OutOfMemory();
  if (!MoveBlocks(next.layout, next.bytes->data(), next.bytes->size(), layout, moved->data(), size))
    return false;
  next = {layout, std::move(moved)};
  moved_bytes_ += size;
  return true;
}

Result<SharedBytes> WeightReader::Packed(uint64_t size, const std::string& layout, Fill) {
  const std::string wanted = layout + ", " + std::to_string(size) + " bytes";
  if (next_ == packed_.size()) return Mismatch("'" + wanted + "'", "no more");
  const PackedWeight& next = packed_[next_];
  bool fits = next.layout == layout && next.bytes->size() == size;
  if (!fits) {
    QNNRT_ASSIGN_OR_RETURN(fits, MoveNext(size, layout));
  }
  if (!fits) {
    return Mismatch("'" + wanted + "'",
                    "'" + next.layout + ", " + std::to_string(next.bytes->size()) + " bytes'");
  }
  ++next_;
  return next.bytes;
}

Status WeightReader::Done() const {
  if (next_ == packed_.size()) return Status::Ok();
  return Mismatch("no more", std::to_string(packed_.size() - next_) + " that no kernel reads");
}

}  // namespace qnnrt
