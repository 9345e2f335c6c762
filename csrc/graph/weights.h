// The weight stores of a graph: one that remembers what kernels packed, so that it can be written
// to a context binary, and one that gives them what such a binary holds.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/content_table.h"
#include "ops/weights.h"
#include "support/threads.h"

namespace qnnrt {

// In which scope of the ContentTable a graph's constants and packed weights are; nothing: in none.
using ShareScope = std::optional<uint64_t>;

// `data`, or the equal bytes that somebody in the scope has already.
std::shared_ptr<AlignedBytes> Shared(const ShareScope& scope, std::shared_ptr<AlignedBytes> data,
                                     const Threads& threads);

// The bytes of constants up to which a graph keeps them beside what its kernels pack: all or none
// where that was asked for; else none where they are released as they are packed; else
// QNNRT_KEEP_CONSTANTS_MIB of the environment, or 64 MiB.
// Errors: 6000 where the environment has no such number.
Result<uint64_t> ConstantsToKeep(std::optional<bool> asked, bool released);

struct PackedWeight {
  uint32_t node;   // its number in the graph
  uint32_t input;  // see WeightStore
  std::string layout;
  SharedBytes bytes;
};

// The store of one graph.
class GraphWeights : public WeightStore {
 public:
  // Whose kernel is made next.
  virtual void SetNode(size_t number, const Node&) { node_ = static_cast<uint32_t>(number); }

 protected:
  uint32_t node() const { return node_; }

 private:
  uint32_t node_ = 0;
};

// Packs, or finds what was packed from equal constants for an equal node, and keeps a share of it,
// in order.
class WeightRecorder final : public GraphWeights {
 public:
  WeightRecorder(const ShareScope& scope, const Threads& threads)
      : scope_(scope), threads_(threads) {}
  void SetNode(size_t number, const Node& node) override;
  Result<SharedBytes> Packed(size_t input, uint64_t size, const std::string& layout, Fill fill,
                             const std::string& from) override;
  std::vector<PackedWeight> Take() { return std::move(packed_); }

 private:
  ContentKey KeyOf(size_t input, uint64_t size, const std::string& layout, const std::string& from);

  const ShareScope scope_;
  const Threads threads_;
  const Node* of_ = nullptr;
  std::vector<uint8_t> node_text_;  // of it, once it was asked for
  std::vector<size_t> asked_;       // inputs, of this node
  std::vector<PackedWeight> packed_;
};

// For how many threads a graph of a context binary was prepared, and for how many it is made.
struct ThreadChange {
  int before = 0, now = 0;
};

// Hands out what was packed before. oneDNN chooses other blocks for other threads and other
// instructions: these are moved. Errors: 1008 when this machine's kernels ask for something else.
class WeightReader final : public GraphWeights {
 public:
  // `made_with`: the KernelIdentity that the weights were packed for. `moves`: in another layout
  // they are moved. Not where constants are there to be packed anew.
  WeightReader(std::vector<PackedWeight> packed, std::string made_with, bool portable_only,
               ThreadChange threads, bool moves);
  Result<SharedBytes> Packed(size_t input, uint64_t size, const std::string& layout, Fill fill,
                             const std::string& from) override;
  // After the last kernel was made. Errors: 1008 when weights are left over.
  Status Done() const;
  std::vector<PackedWeight> Take() { return std::move(packed_); }
  // Of memory of its own, for weights that were moved.
  uint64_t moved_bytes() const { return moved_bytes_; }

 private:
  // False: that cannot be done.
  Result<bool> Move(PackedWeight* weight, uint64_t size, const std::string& layout);
  Status Mismatch(const std::string& wanted, const std::string& there) const;

  static uint64_t Key(uint32_t node, uint32_t input) { return uint64_t{node} << 32 | input; }

  std::vector<PackedWeight> packed_;
  std::unordered_map<uint64_t, std::vector<size_t>> waiting_;  // in packed_, the last one first
  size_t left_;
  uint64_t moved_bytes_ = 0;
  const std::string made_with_;
  const bool portable_only_;
  const ThreadChange threads_;
  const bool moves_;
};

}  // namespace qnnrt
