// The outer part of a context binary: header, graphs, io tensors.
#include <algorithm>
#include <cinttypes>
#include <unordered_set>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "graph/binary/io.h"
#include "ops/encoding.h"
#include "ops/op.h"
#include "ops/simd.h"
#include "support/crc32c.h"
#include "support/version.h"

namespace qnnrt {
namespace {

using At = BinaryHeaderAt;

constexpr uint64_t kLeastTensor = 25;  // bytes of a tensor without name, dimensions and scales
constexpr uint64_t kLeastGraph = 61;   // of a graph without name and tensors

template <typename T>
T Field(const uint8_t* header, size_t at) {
  T value;
  std::memcpy(&value, header + at, sizeof value);
  return value;
}

Qnn_Version_t VersionField(const uint8_t* header, size_t at) {
  return {Field<uint32_t>(header, at), Field<uint32_t>(header, at + 4),
          Field<uint32_t>(header, at + 8)};
}

std::string TextField(const uint8_t* header, size_t at, size_t size) {
  const char* text = reinterpret_cast<const char*>(header) + at;
  return std::string(text, strnlen(text, size));
}

Status NotOurs(const uint8_t* data, uint64_t size) {
  std::string begin;
  for (uint64_t i = 0; i < std::min<uint64_t>(size, 8); ++i) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%s%02x", i == 0 ? "" : " ", data[i]);
    begin += hex;
  }
  return Error(
      QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
      "this is no context binary of qnnrt (%" PRIu64
      " bytes that begin with %s): one that the vendor's tools wrote loads in the vendor's "
      "library only; prepare the model again with this one",
      size, begin.empty() ? "nothing" : begin.c_str());
}

Status CheckSizes(const BinaryHeader& h, uint64_t metadata_offset, uint64_t size) {
  if (size < h.size) {
    return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                 "this context binary is truncated: %" PRIu64 " of its %" PRIu64
                 " bytes are there; copy the file again",
                 size, h.size);
  }
  if (size > h.size) {
    return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                 "this context binary has %" PRIu64 " bytes, but was written with %" PRIu64
                 ": something was added to it; copy the file again",
                 size, h.size);
  }
  if (metadata_offset != kBinaryHeaderSize || h.weights_offset % kBinaryPageAlignment != 0 ||
      h.weights_size % kBinaryPageAlignment != 0 || h.weights_offset > h.size ||
      h.weights_offset < kBinaryHeaderSize ||
      h.metadata_size != h.weights_offset - kBinaryHeaderSize ||
      h.weights_size != h.size - h.weights_offset) {
    return DamagedBinary("its sections do not fill it");
  }
  return Status::Ok();
}

// States are among the inputs, and among the outputs where nodes write them.
bool IsIoType(const Tensor& tensor, Qnn_TensorType_t type) {
  return (tensor.type == type || tensor.is_state()) && tensor.id != 0 && !tensor.name.empty();
}

Status ReadIo(ByteReader* in, Qnn_TensorType_t type, std::vector<Tensor>* tensors) {
  const uint32_t count = in->Count(kLeastTensor);
  tensors->resize(count);
  for (Tensor& tensor : *tensors) {
    QNNRT_RETURN_IF_ERROR(ReadTensor(in, &tensor));
    if (!in->ok()) break;
    if (!IsIoType(tensor, type))
      return DamagedBinary("'" + tensor.name + "' is no graph input or output");
  }
  return in->ok() ? Status::Ok() : DamagedBinary("its list of graphs ends too soon");
}

// Whether an output that is a state is one of the inputs, too, and once among the outputs.
bool StatesMatch(const BinaryGraph& graph) {
  std::unordered_set<uint32_t> ids;
  for (const Tensor& out : graph.outputs) {
    if (!out.is_state()) continue;
    const auto same = [&](const Tensor& in) {
      return in.is_state() && in.id == out.id && in.name == out.name && in.dtype == out.dtype &&
             in.shape == out.shape && SameEncoding(in, out);
    };
    if (std::none_of(graph.inputs.begin(), graph.inputs.end(), same) || !ids.insert(out.id).second)
      return false;
  }
  return true;
}

bool SameNameOrId(const BinaryGraph& graph) {
  std::unordered_set<std::string> names;
  std::unordered_set<uint32_t> ids;
  for (const auto* tensors : {&graph.inputs, &graph.outputs}) {
    for (const Tensor& t : *tensors) {
      if (t.is_state() && tensors == &graph.outputs) continue;
      if (!names.insert(t.name).second || !ids.insert(t.id).second) return true;
    }
  }
  return false;
}

Status ReadGraph(ByteReader* in, const BinaryHeader& header, BinaryGraph* graph) {
  graph->name = in->Text();
  const uint32_t threads = in->Get<uint32_t>();
  graph->portable_only = in->Flag();
  graph->arena_bytes = in->Get<uint64_t>();
  graph->weights_offset = in->Get<uint64_t>();
  graph->weights_size = in->Get<uint64_t>();
  graph->weights_checksum = in->Get<uint32_t>();
  graph->nodes_offset = in->Get<uint64_t>();
  graph->nodes_size = in->Get<uint64_t>();
  QNNRT_RETURN_IF_ERROR(ReadIo(in, QNN_TENSOR_TYPE_APP_WRITE, &graph->inputs));
  QNNRT_RETURN_IF_ERROR(ReadIo(in, QNN_TENSOR_TYPE_APP_READ, &graph->outputs));
  if (graph->name.empty() || threads < 1 || threads > 1024)
    return DamagedBinary("a graph without name or threads");
  graph->threads = static_cast<int>(threads);
  if (!StatesMatch(*graph))
    return DamagedBinary("a state of graph '" + graph->name + "' is none of its inputs");
  if (SameNameOrId(*graph))
    return DamagedBinary("two tensors of graph '" + graph->name + "' are the same");
  const uint64_t end = header.size, begin = header.weights_offset;
  if (graph->weights_offset < begin || graph->weights_offset > end ||
      graph->weights_size > end - graph->weights_offset ||
      graph->weights_offset % kBinaryPageAlignment != 0 ||
      graph->weights_size % kBinaryPageAlignment != 0) {
    return DamagedBinary("the weights of graph '" + graph->name + "' lie outside");
  }
  if (graph->nodes_offset < kBinaryHeaderSize || graph->nodes_offset > begin ||
      graph->nodes_size > begin - graph->nodes_offset) {
    return DamagedBinary("the nodes of graph '" + graph->name + "' lie outside");
  }
  return Status::Ok();
}

// The part that graphs have together, before those of each.
Status ReadCommon(ByteReader* in, const BinaryHeader& header, std::vector<BinaryGraph>* graphs) {
  const uint64_t size = in->Get<uint64_t>();
  const uint32_t checksum = in->Get<uint32_t>();
  if (!in->ok() || size == 0 || size > header.weights_size || size % kBinaryPageAlignment != 0)
    return DamagedBinary("what its graphs have in common lies outside");
  for (BinaryGraph& graph : *graphs) {
    if (graph.weights_offset - header.weights_offset < size)
      return DamagedBinary("weights of graph '" + graph.name + "' are those of all graphs");
    graph.common_offset = header.weights_offset;
    graph.common_size = size;
    graph.common_checksum = checksum;
  }
  return Status::Ok();
}

// Whether the encoding is one that has the fields which are there. The bit width is that of a
// fixed-point type; other types may name the encoding without one.
bool FieldsFit(uint32_t encoding, const Quantization& q, bool fixed) {
  switch (encoding) {
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET:
      return q.per_tensor() && q.bitwidth == 0;
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET:
      return q.axis >= 0 && !q.in_blocks() && q.bitwidth == 0;
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET:
      return q.per_tensor() && (q.bitwidth != 0 || !fixed);
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET:
      return q.axis >= 0 && !q.in_blocks() && q.bitwidth != 0;
    case QNN_QUANTIZATION_ENCODING_BLOCK:
    case QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION:
      return q.axis == -1 && q.in_blocks();
    default:
      return false;
  }
}

Status ReadQuantization(ByteReader* in, const std::string& name, Tensor* tensor) {
  Quantization& q = tensor->quantization;
  const uint32_t scales = in->Count(sizeof(float) + sizeof(int32_t));
  if (in->ok() && scales != 0) {
    q.defined = true;
    const uint32_t encoding = in->Get<uint32_t>();
    q.axis = in->Get<int32_t>();
    q.bitwidth = in->Get<uint32_t>();
    q.block.resize(in->Count(sizeof(uint32_t)));
    for (uint32_t& size : q.block) size = in->Get<uint32_t>();
    if (!in->ok() || !FieldsFit(encoding, q, IsFixed(tensor->dtype)))
      return DamagedBinary(name + " has no valid quantization");
    q.encoding = static_cast<Qnn_QuantizationEncoding_t>(encoding);
    q.scales.resize(scales);
    q.offsets.resize(scales);
    for (float& scale : q.scales) scale = in->Get<float>();
    for (int32_t& offset : q.offsets) offset = in->Get<int32_t>();
  }
  if (!in->ok()) return Status::Ok();  // for the caller to ask
  const auto none = std::find(tensor->shape.begin(), tensor->shape.end(), 0u);
  if (scales == 0 && IsFixed(tensor->dtype) && none != tensor->shape.end()) {
    q.defined = true;  // the scales of an axis without an index
    q.encoding = QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET;
    q.axis = static_cast<int32_t>(none - tensor->shape.begin());
  }
  if (!IsFixed(tensor->dtype) && (scales > 1 || !q.per_tensor()))
    return DamagedBinary(name + " has a quantization that its type does not take");
  const Status sound = CheckEncoding(*tensor);
  return sound.ok() ? Status::Ok() : DamagedBinary(sound.message());
}

bool IsTensorType(uint32_t type) {
  return type == QNN_TENSOR_TYPE_APP_WRITE || type == QNN_TENSOR_TYPE_APP_READ ||
         type == QNN_TENSOR_TYPE_APP_READWRITE || type == QNN_TENSOR_TYPE_NATIVE ||
         type == QNN_TENSOR_TYPE_STATIC;
}

bool IsMemType(uint32_t type) {
  return type == QNN_TENSORMEMTYPE_RAW || type == QNN_TENSORMEMTYPE_MEMHANDLE;
}

}  // namespace

Status DamagedBinary(const std::string& what) {
  return Status(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                "this context binary is damaged (" + what + "): prepare the model again");
}

void WriteTensor(const Tensor& tensor, ByteWriter* out) {
  out->Put(tensor.id);
  out->Text(tensor.name);
  out->Put(static_cast<uint32_t>(tensor.type));
  out->Put(static_cast<uint32_t>(tensor.dtype));
  // The client's own handles and pointers are not kept: what counts is the type declared.
  out->Put(static_cast<uint8_t>(
      tensor.mem_type == QNN_TENSORMEMTYPE_MEMHANDLE ? tensor.mem_type : QNN_TENSORMEMTYPE_RAW));
  out->Put(static_cast<uint32_t>(tensor.shape.size()));
  for (uint32_t dim : tensor.shape) out->Put(dim);
  const Quantization& q = tensor.quantization;
  const size_t count = std::min(q.scales.size(), q.offsets.size());
  out->Put(static_cast<uint32_t>(q.defined ? count : 0));
  if (!q.defined || count == 0) return;
  out->Put(static_cast<uint32_t>(q.encoding));
  out->Put(q.axis);
  out->Put(q.bitwidth);
  out->Put(static_cast<uint32_t>(q.block.size()));
  for (uint32_t size : q.block) out->Put(size);
  for (size_t i = 0; i < count; ++i) out->Put(q.scales[i]);
  for (size_t i = 0; i < count; ++i) out->Put(q.offsets[i]);
}

Status ReadTensor(ByteReader* in, Tensor* tensor) {
  tensor->id = in->Get<uint32_t>();
  tensor->name = in->Text();
  const uint32_t type = in->Get<uint32_t>();
  const uint32_t dtype = in->Get<uint32_t>();
  const uint8_t mem_type = in->Get<uint8_t>();
  const uint32_t rank = in->Count(sizeof(uint32_t));
  if (!in->ok() || rank > kBinaryMaxRank) return DamagedBinary("a tensor has no valid rank");
  tensor->shape.resize(rank);
  for (uint32_t& dim : tensor->shape) dim = in->Get<uint32_t>();
  const std::string name = "tensor '" + tensor->name + "'";
  if (!IsTensorType(type) || TypeBit(dtype) == 0 || !IsMemType(mem_type))
    return DamagedBinary(name + " has no valid type");
  tensor->type = static_cast<Qnn_TensorType_t>(type);
  tensor->dtype = static_cast<Qnn_DataType_t>(dtype);
  tensor->mem_type = static_cast<Qnn_TensorMemType_t>(mem_type);
  uint64_t count;
  if (!ElementCount(tensor->shape, &count) || count > (uint64_t{1} << 48))
    return DamagedBinary(name + " is larger than any memory");
  return ReadQuantization(in, name, tensor);
}

std::string KernelIdentity(bool portable_only) {
  const char* library = portable_only ? nullptr : OneDnnVersion();
  return std::string(library == nullptr ? "portable" : library) + ", " + Simd().name;
}

bool BinaryView::HasMagic(const void* data, uint64_t size) {
  return data != nullptr && size >= sizeof kBinaryMagic &&
         std::memcmp(data, kBinaryMagic, sizeof kBinaryMagic) == 0;
}

Result<BinaryView> BinaryView::Open(const void* data, uint64_t size) {
  if (data == nullptr)
    return Status(QNN_CONTEXT_ERROR_INVALID_ARGUMENT, "the context binary must not be null");
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  if (!HasMagic(data, size)) return NotOurs(bytes, size);
  if (size < kBinaryHeaderSize) {
    return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                 "this context binary is truncated: %" PRIu64
                 " bytes are less than its header; copy the file again",
                 size);
  }
  BinaryView view;
  view.data_ = bytes;
  BinaryHeader& h = view.header_;
  h.format = Field<uint32_t>(bytes, At::kFormat);
  if (h.format != kBinaryFormat && h.format != kBinaryFormatCommon) {
    return Error(QNN_CONTEXT_ERROR_BINARY_VERSION,
                 "this context binary has format %u, this library (%s) reads formats %u and %u: "
                 "prepare the model again with this version",
                 h.format, "qnnrt " QNNRT_VERSION, kBinaryFormat, kBinaryFormatCommon);
  }
  if (Crc32c(bytes, At::kHeaderChecksum) != Field<uint32_t>(bytes, At::kHeaderChecksum))
    return DamagedBinary("its header does not have its checksum");
  h.size = Field<uint64_t>(bytes, At::kSize);
  h.metadata_size = Field<uint64_t>(bytes, At::kMetadataSize);
  h.weights_offset = Field<uint64_t>(bytes, At::kWeightsOffset);
  h.weights_size = Field<uint64_t>(bytes, At::kWeightsSize);
  h.backend_id = Field<uint32_t>(bytes, At::kBackendId);
  h.core_api = VersionField(bytes, At::kCoreApi);
  h.backend_api = VersionField(bytes, At::kBackendApi);
  h.build_id = TextField(bytes, At::kBuildId, At::kBuildIdSize);
  h.kernels = TextField(bytes, At::kKernels, At::kKernelsSize);
  QNNRT_RETURN_IF_ERROR(CheckSizes(h, Field<uint64_t>(bytes, At::kMetadataOffset), size));
  if (Field<uint32_t>(bytes, At::kHeaderSize) != kBinaryHeaderSize ||
      Field<uint32_t>(bytes, At::kFlags) != 0) {
    return DamagedBinary("its header has fields that this format does not know");
  }
  const uint8_t* metadata = bytes + kBinaryHeaderSize;
  if (Crc32c(metadata, h.metadata_size) != Field<uint32_t>(bytes, At::kMetadataChecksum))
    return DamagedBinary("its metadata does not have its checksum");
  ByteReader in(metadata, h.metadata_size);
  const uint32_t count = Field<uint32_t>(bytes, At::kNumGraphs);
  if (count > in.left() / kLeastGraph) return DamagedBinary("it has fewer graphs than it says");
  view.graphs_.resize(count);
  std::unordered_set<std::string> names;
  // Parts that many graphs had in common would be read, and copied, once for each of them.
  uint64_t nodes_end = 0, weights_end = 0;
  for (BinaryGraph& graph : view.graphs_) {
    QNNRT_RETURN_IF_ERROR(ReadGraph(&in, h, &graph));
    if (graph.nodes_offset < nodes_end || graph.weights_offset < weights_end)
      return DamagedBinary("graph '" + graph.name + "' shares nodes or weights with another");
    nodes_end = graph.nodes_offset + graph.nodes_size;
    weights_end = graph.weights_offset + graph.weights_size;
    if (!names.insert(graph.name).second)
      return DamagedBinary("two graphs are called '" + graph.name + "'");
  }
  if (h.format == kBinaryFormatCommon) QNNRT_RETURN_IF_ERROR(ReadCommon(&in, h, &view.graphs_));
  return view;
}

const BinaryGraph* BinaryView::Find(const std::string& name) const {
  for (const BinaryGraph& graph : graphs_) {
    if (graph.name == name) return &graph;
  }
  return nullptr;
}

}  // namespace qnnrt
