// Finalized graphs into a context binary.
#include <algorithm>

#include "graph/binary/container.h"
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

GraphFields WriteGraph(const BinaryPart& part, ByteWriter* out) {
  GraphFields fields;
  out->Text(part.name);
  out->Put(static_cast<uint32_t>(part.threads));
  out->Put(static_cast<uint8_t>(part.portable_only));
  out->Put(part.arena_bytes);
  fields.weights_offset = out->size();
  out->Put(uint64_t{0});
  out->Put(part.weights_size);
  fields.checksum = out->size();
  out->Put(uint32_t{0});
  fields.nodes_offset = out->size();
  out->Put(uint64_t{0});
  out->Put(static_cast<uint64_t>(part.nodes.size()));
  for (const auto* tensors : {&part.inputs, &part.outputs}) {
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

std::vector<uint8_t> LayOut(const std::vector<BinaryPart*>& graphs, BinaryPart* common,
                            BinaryHeader* header) {
  std::vector<GraphFields> fields;
  ByteWriter out;
  for (BinaryPart* graph : graphs) {
    fields.push_back(WriteGraph(*graph, &out));
    graph->checksum = fields.back().checksum;
  }
  if (common != nullptr) {
    header->format = kBinaryFormatCommon;
    out.Put(common->weights_size);
    common->checksum = out.size();
    out.Put(uint32_t{0});
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    out.Set(fields[i].nodes_offset, static_cast<uint64_t>(kBinaryHeaderSize + out.size()));
    out.Bytes(graphs[i]->nodes.data(), graphs[i]->nodes.size());
  }
  header->weights_offset = AlignToPage(kBinaryHeaderSize + out.size());
  header->size = header->weights_offset;
  const auto place = [header](BinaryPart* part) {
    part->offset = header->size;
    header->size += part->weights_size;
  };
  if (common != nullptr) place(common);
  for (size_t i = 0; i < graphs.size(); ++i) {
    place(graphs[i]);
    out.Set(fields[i].weights_offset, graphs[i]->offset);
  }
  header->weights_size = header->size - header->weights_offset;
  header->metadata_size = header->weights_offset - kBinaryHeaderSize;
  header->build_id = kBuildId;
  std::vector<uint8_t> metadata = out.Take();
  metadata.resize(header->metadata_size, 0);
  return metadata;
}

void WriteBinary(const BinaryHeader& header, uint32_t num_graphs,
                 const std::vector<uint8_t>& fields, const std::vector<const BinaryPart*>& parts,
                 uint8_t* to) {
  uint8_t* metadata = to + kBinaryHeaderSize;
  std::memcpy(metadata, fields.data(), fields.size());
  for (const BinaryPart* part : parts) {
    uint8_t* weights = to + part->offset;
    uint64_t end = 0;
    for (const BinaryPart::Bytes& bytes : part->weights) {
      std::memset(weights + end, 0, bytes.offset - end);
      if (bytes.size != 0) std::memcpy(weights + bytes.offset, bytes.data, bytes.size);
      end = bytes.offset + bytes.size;
    }
    std::memset(weights + end, 0, part->weights_size - end);
    PutField(metadata, part->checksum,
             Checksum(weights, part->weights_size, Threads(part->threads)));
  }
  std::memset(to, 0, kBinaryHeaderSize);
  std::memcpy(to, kBinaryMagic, sizeof kBinaryMagic);
  PutField(to, At::kFormat, header.format);
  PutField(to, At::kHeaderSize, static_cast<uint32_t>(kBinaryHeaderSize));
  PutField(to, At::kSize, header.size);
  PutField(to, At::kMetadataOffset, kBinaryHeaderSize);
  PutField(to, At::kMetadataSize, header.metadata_size);
  PutField(to, At::kWeightsOffset, header.weights_offset);
  PutField(to, At::kWeightsSize, header.weights_size);
  PutField(to, At::kBackendId, header.backend_id);
  PutField(to, At::kNumGraphs, num_graphs);
  PutVersion(to, At::kCoreApi, header.core_api);
  PutVersion(to, At::kBackendApi, header.backend_api);
  PutField(to, At::kMetadataChecksum, Crc32c(metadata, header.metadata_size));
  PutText(to, At::kBuildId, At::kBuildIdSize, header.build_id);
  PutText(to, At::kKernels, At::kKernelsSize, header.kernels);
  PutField(to, At::kHeaderChecksum, Crc32c(to, At::kHeaderChecksum));
}

// ---- graphs of the runtime's own kernels

struct BinaryWriter::Part {
  WeightBlobs blobs;
  BinaryPart part;

  BinaryPart* Fill() {
    for (const WeightBlobs::Blob& blob : blobs.all())
      part.weights.push_back({blob.offset, blob.bytes->data(), blob.bytes->size()});
    part.weights_size = blobs.size();
    return &part;
  }
};

BinaryWriter::~BinaryWriter() = default;

namespace {

// Nodes, but for the places of what they read.
struct WrittenNodes {
  explicit WrittenNodes(const Graph& graph) {
    const ArenaPlan arena = graph.plan()->ArenaWithoutIo();
    arena_bytes = arena.peak;
    std::vector<const Tensor*> io = graph.inputs();
    io.insert(io.end(), graph.outputs().begin(), graph.outputs().end());
    WriteNodes(*graph.plan(), arena, graph.passes(), io, &fields, &bytes);
  }
  ByteWriter bytes;
  std::vector<BlobField> fields;
  uint64_t arena_bytes;
};

// What more than one of the graphs reads, in the order in which the first ones do.
WeightBlobs InCommon(const std::vector<WrittenNodes>& graphs) {
  WeightBlobs common;
  std::vector<WeightBlobs> each(graphs.size());
  for (size_t i = 0; i < graphs.size() && graphs.size() > 1; ++i) {
    for (const BlobField& field : graphs[i].fields) each[i].Add(field.bytes);
  }
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
  std::vector<WrittenNodes> nodes;
  nodes.reserve(graphs.size());
  for (const Graph* graph : graphs) nodes.emplace_back(*graph);
  Part common{InCommon(nodes), {}};
  const bool shares = common.blobs.size() != 0;
  bool portable_only = true;
  parts_.reserve(graphs.size() + 1);
  std::vector<BinaryPart*> parts;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const Graph* graph = graphs[i];
    parts_.push_back({WeightBlobs(&common.blobs), {}});
    BinaryPart& part = parts_.back().part;
    for (const BlobField& field : nodes[i].fields)
      nodes[i].bytes.Set(field.at, parts_.back().blobs.Add(field.bytes));
    part.nodes = nodes[i].bytes.Take();
    part.name = graph->name();
    part.threads = graph->plan()->threads();
    part.portable_only = graph->options().portable_only;
    part.arena_bytes = nodes[i].arena_bytes;
    part.inputs.assign(graph->inputs().begin(), graph->inputs().end());
    part.outputs.assign(graph->outputs().begin(), graph->outputs().end());
    parts.push_back(parts_.back().Fill());
    common.part.threads = std::max(common.part.threads, part.threads);
    portable_only = portable_only && part.portable_only;
  }
  BinaryPart* shared = nullptr;
  if (shares) {
    parts_.push_back(std::move(common));
    shared = parts_.back().Fill();
  }
  header_.backend_id = backend.id;
  header_.core_api = backend.core_api;
  header_.backend_api = backend.api;
  header_.kernels = KernelIdentity(portable_only);
  metadata_ = LayOut(parts, shared, &header_);
}

uint64_t BinaryWriter::size() const { return header_.size; }

void BinaryWriter::Write(uint8_t* to) const {
  std::vector<const BinaryPart*> parts;
  for (const Part& each : parts_) parts.push_back(&each.part);
  WriteBinary(header_, num_graphs_, metadata_, parts, to);
}

}  // namespace qnnrt
