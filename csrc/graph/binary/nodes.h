// The nodes of a graph in a context binary: what a graph is after its passes, and where its weights
// lie.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/binary/io.h"
#include "graph/passes/node_graph.h"
#include "graph/plan.h"
#include "graph/weights.h"
#include "ops/package_op.h"

namespace qnnrt {

// Codes of the format.
namespace binary_codes {
enum Storage : uint8_t { kNone, kStored, kAbsent };  // of a tensor's data
// kTyped: the scalar's data type and then its value, as one of the others.
enum ParamKind : uint8_t { kInt, kFloat, kBool, kText, kTensor, kTyped };
}  // namespace binary_codes

// Of an offset: in the part that several graphs read, not in the graph's own.
inline constexpr uint64_t kBinaryInCommon = uint64_t{1} << 63;

// Bytes that go into a part of the weights, each on a boundary of kBinaryBlobAlignment.
class WeightBlobs {
 public:
  struct Blob {
    const AlignedBytes* bytes;
    uint64_t offset;  // from the start of the part
  };
  // `common`: bytes that are there are no part of these. Not empty from then on; null: there are
  // none.
  explicit WeightBlobs(const WeightBlobs* common = nullptr) : common_(common) {}
  // The same bytes are kept once: those that lie at one address. With kBinaryInCommon where they
  // are in common.
  uint64_t Add(const AlignedBytes* bytes);
  bool Has(const AlignedBytes* bytes) const { return offsets_.count(At(bytes)) != 0; }
  const std::vector<Blob>& all() const { return blobs_; }
  uint64_t size() const;  // whole pages

 private:
  using Place = std::pair<const void*, uint64_t>;
  struct Hash {
    size_t operator()(const Place& place) const noexcept {
      return std::hash<const void*>()(place.first) ^ static_cast<size_t>(place.second);
    }
  };
  static Place At(const AlignedBytes* bytes) { return {bytes->data(), bytes->size()}; }

  std::vector<Blob> blobs_;
  std::unordered_map<Place, uint64_t, Hash> offsets_;
  uint64_t end_ = 0;
  const WeightBlobs* common_;
};

// Where nodes that are written say what WeightBlobs::Add gives for these bytes.
struct BlobField {
  size_t at;
  const AlignedBytes* bytes;
};

// `arena_plan`: without inputs and outputs. `io`: the graph's inputs, then its outputs. Adds to
// `blobs` the fields that are zero until somebody sets them.
void WriteNodes(const Plan& plan, const ArenaPlan& arena_plan,
                const std::vector<PassReport>& passes, const std::vector<const Tensor*>& io,
                std::vector<BlobField>* blobs, ByteWriter* out);

// What was read back. Static tensors and packed weights point into the weights.
struct ReadGraphNodes {
  NodeGraph graph{{}};
  bool complete = true;  // every constant is there, also those that kernels packed
  bool reads_common = false;
  std::vector<PackedWeight> packed;
  std::vector<PassReport> passes;
  // Empty in a binary without it. `order` is for its reader to point at.
  ArenaPlan arena_plan;
  std::string order;
};
struct WeightsAt {
  const uint8_t* data = nullptr;
  uint64_t size = 0;
  std::shared_ptr<const void> owner;        // null: the client keeps them
  std::shared_ptr<CommonWeights> common{};  // null: the binary has no such part
};

// Checks everything that building and finalizing a graph checks, and that all bytes are used.
// No tensor may take more than `most_bytes`. `find` has the ops of other packages; null: there are
// none. Errors: 5005, 5008 an op of a package that is not there or does not take the node.
Result<ReadGraphNodes> ReadNodes(ByteReader in, const std::vector<const Tensor*>& io,
                                 const WeightsAt& weights, uint64_t most_bytes,
                                 const FindPackageOp& find);

}  // namespace qnnrt
