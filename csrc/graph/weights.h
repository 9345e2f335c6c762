// The weight stores of a graph: one that remembers what kernels packed, so that it can be written
// to a context binary, and one that gives them what such a binary holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/weights.h"

namespace qnnrt {

// The bytes of constants up to which a graph keeps them beside what its kernels pack: all or none
// where that was asked for; else none where they are released as they are packed; else
// QNNRT_KEEP_CONSTANTS_MIB of the environment, or 64 MiB.
// Errors: 6000 where the environment has no such number.
Result<uint64_t> ConstantsToKeep(std::optional<bool> asked, bool released);

struct PackedWeight {
  std::string layout;
  SharedBytes bytes;
};

// Packs, and keeps a share of what was packed, in order.
class WeightRecorder final : public WeightStore {
 public:
  Result<SharedBytes> Packed(uint64_t size, const std::string& layout, Fill fill) override;
  std::vector<PackedWeight> Take() { return std::move(packed_); }

 private:
  std::vector<PackedWeight> packed_;
};

// For how many threads a graph of a context binary was prepared, and for how many it is made.
struct ThreadChange {
  int before = 0, now = 0;
};

// Hands out what was packed before, in the same order. oneDNN chooses other blocks for other
// threads and other instructions: these are moved. Errors: 1008 when this machine's kernels ask for
// something else.
class WeightReader final : public WeightStore {
 public:
  // `made_with`: the KernelIdentity that the weights were packed for. `moves`: in another layout
  // they are moved. Not where constants are there to be packed: a kernel that reads its own in
  // place would leave what was packed for it to the next.
  WeightReader(std::vector<PackedWeight> packed, std::string made_with, bool portable_only,
               ThreadChange threads, bool moves)
      : packed_(std::move(packed)),
        made_with_(std::move(made_with)),
        portable_only_(portable_only),
        threads_(threads),
        moves_(moves) {}
  Result<SharedBytes> Packed(uint64_t size, const std::string& layout, Fill fill) override;
  // After the last kernel was made. Errors: 1008 when weights are left over.
  Status Done() const;
  std::vector<PackedWeight> Take() { return std::move(packed_); }
  // Of memory of its own, for weights that were moved.
  uint64_t moved_bytes() const { return moved_bytes_; }

 private:
  // False: that cannot be done.
  Result<bool> MoveNext(uint64_t size, const std::string& layout);
  Status Mismatch(const std::string& wanted, const std::string& there) const;

  std::vector<PackedWeight> packed_;
  size_t next_ = 0;
  uint64_t moved_bytes_ = 0;
  const std::string made_with_;
  const bool portable_only_;
  const ThreadChange threads_;
  const bool moves_;
};

}  // namespace qnnrt
