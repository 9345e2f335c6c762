// Context binaries made by hand, with every kind of tensor that a description can hold. The format
// is written down a second time here: what the writer and the reader agree on has to be the format.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "graph/binary/io.h"
#include "support/crc32c.h"

inline qnnrt::Tensor IoTensor(uint32_t id, const char* name, Qnn_TensorType_t type,
                              qnnrt::Shape shape, Qnn_TensorMemType_t mem_type) {
  qnnrt::Tensor t;
  t.id = id;
  t.name = name;
  t.type = type;
  t.dtype = QNN_DATATYPE_UINT_8;
  t.shape = std::move(shape);
  t.mem_type = mem_type;
  return t;
}

struct TestGraph {
  std::string name;
  std::vector<qnnrt::Tensor> inputs, outputs;
  uint64_t arena = 0;
  std::vector<uint8_t> weights = {};
};

inline std::vector<uint8_t> MakeBinary(uint32_t backend_id, const std::vector<TestGraph>& graphs) {
  using At = qnnrt::BinaryHeaderAt;
  constexpr uint64_t kPage = qnnrt::kBinaryPageAlignment, kHeader = qnnrt::kBinaryHeaderSize;
  qnnrt::ByteWriter meta;
  std::vector<size_t> offsets;
  for (const TestGraph& g : graphs) {
    meta.Text(g.name);
    meta.Put(uint32_t{2});
    meta.Put(uint8_t{0});
    meta.Put(g.arena);
    offsets.push_back(meta.size());
    meta.Put(uint64_t{0});
    meta.Put((g.weights.size() + kPage - 1) / kPage * kPage);
    meta.Put(uint32_t{0});
    meta.Put(kHeader + 24 * (offsets.size() - 1));  // no nodes: nothing here reads them
    meta.Put(uint64_t{24});                         // but they have a size
    for (const auto* tensors : {&g.inputs, &g.outputs}) {
      meta.Put(static_cast<uint32_t>(tensors->size()));
      for (const qnnrt::Tensor& t : *tensors) qnnrt::WriteTensor(t, &meta);
    }
  }
  uint64_t weights_offset = (kHeader + meta.size() + kPage - 1) / kPage * kPage;
  uint64_t end = weights_offset;
  std::vector<uint8_t> weights;
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::vector<uint8_t> padded = graphs[i].weights;
    padded.resize((padded.size() + kPage - 1) / kPage * kPage);
    meta.Set(offsets[i], end);
    meta.Set(offsets[i] + 16, qnnrt::Crc32c(padded.data(), padded.size()));
    weights.insert(weights.end(), padded.begin(), padded.end());
    end += padded.size();
  }
  std::vector<uint8_t> metadata = meta.Take();
  metadata.resize(weights_offset - kHeader);
  std::vector<uint8_t> out(end);
  auto put = [&](size_t at, auto value) { std::memcpy(&out[at], &value, sizeof value); };
  std::memcpy(&out[0], qnnrt::kBinaryMagic, 8);
  put(At::kFormat, qnnrt::kBinaryFormat);
  put(At::kHeaderSize, static_cast<uint32_t>(kHeader));
  put(At::kSize, end);
  put(At::kMetadataOffset, kHeader);
  put(At::kMetadataSize, weights_offset - kHeader);
  put(At::kWeightsOffset, weights_offset);
  put(At::kWeightsSize, end - weights_offset);
  put(At::kBackendId, backend_id);
  put(At::kNumGraphs, static_cast<uint32_t>(graphs.size()));
  put(At::kCoreApi, Qnn_Version_t{2, 40, 1});
  put(At::kBackendApi, Qnn_Version_t{5, 43, 2});
  put(At::kMetadataChecksum, qnnrt::Crc32c(metadata.data(), metadata.size()));
  std::strcpy(reinterpret_cast<char*>(&out[At::kBuildId]), "qnnrt-test");
  put(At::kHeaderChecksum, qnnrt::Crc32c(out.data(), At::kHeaderChecksum));
  std::copy(metadata.begin(), metadata.end(), out.begin() + kHeader);
  std::copy(weights.begin(), weights.end(), out.begin() + static_cast<ptrdiff_t>(weights_offset));
  return out;
}

// Two graphs: every quantization, both memory types, and weights.
inline std::vector<TestGraph> Graphs() {
  constexpr auto kIn = QNN_TENSOR_TYPE_APP_WRITE, kOut = QNN_TENSOR_TYPE_APP_READ;
  constexpr auto kRaw = QNN_TENSORMEMTYPE_RAW, kHandle = QNN_TENSORMEMTYPE_MEMHANDLE;
  auto quantized = [](qnnrt::Tensor t, Qnn_QuantizationEncoding_t encoding, int32_t axis,
                      uint32_t bitwidth, std::vector<float> scales, std::vector<int32_t> offsets) {
    t.dtype = offsets[0] < 0 ? QNN_DATATYPE_UFIXED_POINT_8 : QNN_DATATYPE_SFIXED_POINT_8;
    t.quantization = {true, encoding, axis, bitwidth, std::move(scales), std::move(offsets)};
    return t;
  };
  TestGraph a{"a", {}, {}, 4096, std::vector<uint8_t>(5000, 7)};
  a.inputs.push_back(quantized(IoTensor(1, "per tensor", kIn, {1, 2, 3}, kHandle),
                               QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, -1, 0, {0.5f}, {-3}));
  a.inputs.push_back(quantized(IoTensor(2, "per axis", kIn, {1, 3}, kRaw),
                               QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET, 1, 0, {1, 2, 3},
                               {-1, -2, -3}));
  a.outputs.push_back(quantized(IoTensor(3, "bits", kOut, {7}, kHandle),
                                QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET, -1, 4, {0.25f}, {-8}));
  a.outputs.push_back(quantized(IoTensor(4, "bits per axis", kOut, {2, 2}, kRaw),
                                QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, 0, 4, {4, 5},
                                {6, 7}));
  TestGraph b{"b", {IoTensor(9, "x", kIn, {64, 64}, kRaw)}, {}, 0};
  b.outputs.push_back(IoTensor(10, "y", kOut, {1}, kRaw));
  return {a, b};
}
