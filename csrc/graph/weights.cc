#include "graph/weights.h"

#include "abi/qnn_errors.h"
#include "graph/binary/binary.h"
#include "ops/blocked_layout.h"
#include "ops/rules.h"

namespace qnnrt {

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
               "machine",
               made_with_.c_str(), KernelIdentity(portable_only_).c_str(), wanted.c_str(),
               there.c_str());
}

Result<bool> WeightReader::MoveNext(uint64_t size, const std::string& layout) {
  PackedWeight& next = packed_[next_];
  if (threads_.before == threads_.now || next.bytes->data() == nullptr) return false;
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
