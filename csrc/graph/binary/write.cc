// Finalized graphs into a context binary.
#include <algorithm>

#include "graph/binary/nodes.h"
#include "graph/graph.h"
#include "support/checked.h"
#include "support/crc32c.h"
#include "support/version.h"

namespace qnnrt {
namespace {

using At = BinaryHeaderAt;

// What is known of a graph once its nodes are written.
struct GraphFields {
  size_t weights_offset, checksum, nodes_offset;  // where these fields of it are in the metadata
};

uint64_t AlignToPage(uint64_t value) { return AlignUp(value, kBinaryPageAlignment); }

GraphFields WriteGraph(const Graph& graph, uint64_t arena_bytes, uint64_t weights_size,
                       uint64_t nodes_size, ByteWriter* out) {
  GraphFields fields;
  const Plan& plan = *graph.plan();
  out->Text(graph.name());
  out->Put(static_cast<uint32_t>(plan.threads()));
  out->Put(static_cast<uint8_t>(graph.options().portable_only));
  out->Put(arena_bytes);
  fields.weights_offset = out->size();
  out->Put(uint64_t{0});
  out->Put(weights_size);
  fields.checksum = out->size();
  out->Put(uint32_t{0});
  fields.nodes_offset = out->size();
  out->Put(uint64_t{0});
  out->Put(nodes_size);
  for (const auto* tensors : {&graph.inputs(), &graph.outputs()}) {
    out->Put(static_cast<uint32_t>(tensors->size()));
    for (const Tensor* tensor : *tensors)
      WriteTensor(tensor->updates == nullptr ? *tensor : *tensor->updates, out);
  }
  return fields;
}

template <typename T>
void PutField(uint8_t* header, size_t at, T value) {
  std::memcpy(header + at, &value, sizeof value);
}

void PutVersion(uint8_t* header, size_t at, const Qnn_Version_t& v) {
  PutField(header, at, v.major);
  PutField(header, at + 4, v.minor);
  PutField(header, at + 8, v.patch);
}

void PutText(uint8_t* header, size_t at, size_t size, const std::string& text) {
  std::memcpy(header + at, text.data(), std::min(text.size(), size - 1));
}

}  // namespace

struct BinaryWriter::Part {
  WeightBlobs blobs;
  uint64_t offset = 0;  // of it in the binary
  size_t checksum = 0;  // where its checksum is in the metadata
  int threads = 1;
};

BinaryWriter::~BinaryWriter() = default;

namespace {

std::vector<uint8_t> NodesOf(const Graph& graph, const ArenaPlan& arena, WeightBlobs* blobs) {
  std::vector<const Tensor*> io = graph.inputs();
  io.insert(io.end(), graph.outputs().begin(), graph.outputs().end());
  ByteWriter out;
  WriteNodes(*graph.plan(), arena, graph.passes(), io, blobs, &out);
  return out.Take();
}

// What more than one of the graphs reads, in the order in which the first ones do.
WeightBlobs InCommon(const std::vector<const Graph*>& graphs) {
  WeightBlobs common;
  std::vector<WeightBlobs> each(graphs.size());
  for (size_t i = 0; i < graphs.size() && graphs.size() > 1; ++i) NodesOf(*graphs[i], {}, &each[i]);
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const WeightBlobs::Blob& blob : each[i].all()) {
      bool again = false;
      for (size_t j = i + 1; j < graphs.size(); ++j) again = again || each[j].Has(blob.bytes);
      if (again && blob.bytes->size() != 0) common.Add(blob.bytes);
    }
  }
  return common;
}

}  // namespace

BinaryWriter::BinaryWriter(const Backend& backend, const std::vector<const Graph*>& graphs)
    : num_graphs_(static_cast<uint32_t>(graphs.size())) {
  Part common{InCommon(graphs)};
  const bool shares = common.blobs.size() != 0;
  if (shares) header_.format = kBinaryFormatCommon;
  bool portable_only = true;
  std::vector<std::vector<uint8_t>> nodes(graphs.size());
  std::vector<GraphFields> fields(graphs.size());
  ByteWriter out;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph& graph = *graphs[i];
    const ArenaPlan arena = graph.plan()->ArenaWithoutIo();
    Part part{WeightBlobs(&common.blobs)};
    part.threads = graph.plan()->threads();
    nodes[i] = NodesOf(graph, arena, &part.blobs);
    fields[i] = WriteGraph(graph, arena.peak, part.blobs.size(), nodes[i].size(), &out);
    part.checksum = fields[i].checksum;
    common.threads = std::max(common.threads, part.threads);
    parts_.push_back(std::move(part));
    portable_only = portable_only && graph.options().portable_only;
  }
  if (shares) {
    out.Put(common.blobs.size());
    common.checksum = out.size();
    out.Put(uint32_t{0});
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    out.Set(fields[i].nodes_offset, static_cast<uint64_t>(kBinaryHeaderSize + out.size()));
    out.Bytes(nodes[i].data(), nodes[i].size());
  }
  header_.weights_offset = AlignToPage(kBinaryHeaderSize + out.size());
  header_.size = header_.weights_offset + common.blobs.size();
  common.offset = header_.weights_offset;
  for (size_t i = 0; i < graphs.size(); ++i) {
    parts_[i].offset = header_.size;
    out.Set(fields[i].weights_offset, header_.size);
    header_.size += parts_[i].blobs.size();
  }
  if (shares) parts_.insert(parts_.begin(), std::move(common));
  header_.weights_size = header_.size - header_.weights_offset;
  header_.metadata_size = header_.weights_offset - kBinaryHeaderSize;
  header_.backend_id = backend.id;
  header_.core_api = backend.core_api;
  header_.backend_api = backend.api;
  header_.build_id = kBuildId;
  header_.kernels = KernelIdentity(portable_only);
  metadata_ = out.Take();
  metadata_.resize(header_.metadata_size, 0);
}

uint64_t BinaryWriter::size() const { return header_.size; }

void BinaryWriter::Write(uint8_t* to) const {
  uint8_t* metadata = to + kBinaryHeaderSize;
  std::memcpy(metadata, metadata_.data(), metadata_.size());
  for (const Part& part : parts_) {
    uint8_t* weights = to + part.offset;
    uint64_t end = 0;
    for (const WeightBlobs::Blob& blob : part.blobs.all()) {
      std::memset(weights + end, 0, blob.offset - end);
      if (blob.bytes->size() != 0)
        std::memcpy(weights + blob.offset, blob.bytes->data(), blob.bytes->size());
      end = blob.offset + blob.bytes->size();
    }
    std::memset(weights + end, 0, part.blobs.size() - end);
    PutField(metadata, part.checksum, Checksum(weights, part.blobs.size(), Threads(part.threads)));
  }
  std::memset(to, 0, kBinaryHeaderSize);
  std::memcpy(to, kBinaryMagic, sizeof kBinaryMagic);
  PutField(to, At::kFormat, header_.format);
  PutField(to, At::kHeaderSize, static_cast<uint32_t>(kBinaryHeaderSize));
  PutField(to, At::kSize, header_.size);
  PutField(to, At::kMetadataOffset, kBinaryHeaderSize);
  PutField(to, At::kMetadataSize, header_.metadata_size);
  PutField(to, At::kWeightsOffset, header_.weights_offset);
  PutField(to, At::kWeightsSize, header_.weights_size);
  PutField(to, At::kBackendId, header_.backend_id);
  PutField(to, At::kNumGraphs, num_graphs_);
  PutVersion(to, At::kCoreApi, header_.core_api);
  PutVersion(to, At::kBackendApi, header_.backend_api);
  PutField(to, At::kMetadataChecksum, Crc32c(metadata, header_.metadata_size));
  PutText(to, At::kBuildId, At::kBuildIdSize, header_.build_id);
  PutText(to, At::kKernels, At::kKernelsSize, header_.kernels);
  PutField(to, At::kHeaderChecksum, Crc32c(to, At::kHeaderChecksum));
}

}  // namespace qnnrt
