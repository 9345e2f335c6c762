// Graphs that the tests of context binaries write, and what is made of the bytes.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "../fuzz/binary_harness.h"
#include "abi/qnn_errors.h"
#include "check.h"
#include "qnn_tensor.h"
#include "test_graph.h"

namespace binary_test {

using namespace qnnrt;
using binary_harness::LoadAndRun;
using binary_harness::LoadAndRunInPools;
using binary_harness::Repair;

using Bytes = std::vector<uint8_t>;

// The corpus was made with the plainest kernels, which every machine has.
const int kPlainKernels = setenv("QNNRT_ISA", "base", 0);

// y = relu(conv(x) + r), z = x picked by constant indices, s = reshape(softmax(matmul)): packed
// weights, data that is read in place, post ops with an operand, aliases.
class Sample : public TestGraph {
 public:
  explicit Sample(const std::string& name, bool portable, float scale = 0.1f, int threads = 1,
                  bool keep_constants = true)
      : TestGraph(name, portable, threads) {
    GraphOptions options = graph().options();
    options.keep_constants = keep_constants;
    graph().set_options(options);
    const Tensor* x = Add("x", QNN_TENSOR_TYPE_APP_WRITE, {1, 8, 8, 4});
    const Tensor* r = Add("r", QNN_TENSOR_TYPE_APP_WRITE, {1, 8, 8, 8});
    const Tensor* weight = Static("weight", {3, 3, 4, 8}, scale);
    const Tensor* bias = Static("bias", {8}, 1);
    const Tensor* c = Add("c", QNN_TENSOR_TYPE_NATIVE, {1, 8, 8, 8});
    const Tensor* sum = Add("sum", QNN_TENSOR_TYPE_NATIVE, {1, 8, 8, 8});
    const Tensor* y = Add("y", QNN_TENSOR_TYPE_APP_READ, {1, 8, 8, 8});
    CHECK_OK(Op("Conv2d", {x, weight, bias}, {c},
                {Words("stride", {1, 1}), Words("pad_amount", {1, 1, 1, 1}, {2, 2})}));
    CHECK_OK(Op("ElementWiseAdd", {c, r}, {sum}));
    CHECK_OK(Op("Relu", {sum}, {y}));
    const Tensor* rows = Add("rows", QNN_TENSOR_TYPE_NATIVE, {64, 8});
    const Tensor* table = Static("table", {8, 16}, scale);
    const Tensor* product = Add("product", QNN_TENSOR_TYPE_NATIVE, {64, 16});
    const Tensor* soft = Add("soft", QNN_TENSOR_TYPE_NATIVE, {64, 16});
    const Tensor* s = Add("s", QNN_TENSOR_TYPE_APP_READ, {8, 128});
    CHECK_OK(Op("Reshape", {y}, {rows}));
    CHECK_OK(Op("MatMul", {rows, table}, {product}));
    CHECK_OK(Op("Softmax", {product}, {soft}));
    CHECK_OK(Op("Reshape", {soft}, {s}));
    const uint32_t picked[] = {3, 0, 7};
    const Tensor* indices = Add("indices", QNN_TENSOR_TYPE_STATIC, {3}, QNN_DATATYPE_UINT_32,
                                AlignedBytes::Copy(picked, sizeof picked));
    const Tensor* z = Add("z", QNN_TENSOR_TYPE_APP_READ, {1, 3, 8, 4});
    CHECK_OK(Op("Gather", {x, indices}, {z}, {{"axis", int64_t{1}}}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type, const Shape& shape,
                    Qnn_DataType_t dtype = QNN_DATATYPE_FLOAT_32,
                    std::shared_ptr<AlignedBytes> data = nullptr) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = dtype;
    t.shape = shape;
    t.data = std::move(data);
    if (t.name == "r") t.mem_type = QNN_TENSORMEMTYPE_MEMHANDLE;
    if (t.name == "x") {
      t.quantization.defined = true;
      t.quantization.encoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
      t.quantization.scales = {0.5f};
      t.quantization.offsets = {-3};
    }
    return TestGraph::Add(std::move(t));
  }
  const Tensor* Static(const char* name, const Shape& shape, float scale) {
    std::vector<float> values(ElementCount(shape));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 19) - 9);
    return Add(name, QNN_TENSOR_TYPE_STATIC, shape, QNN_DATATYPE_FLOAT_32,
               AlignedBytes::Copy(values.data(), values.size() * sizeof(float)));
  }
};

inline Quantization Encoded(Qnn_QuantizationEncoding_t encoding, std::vector<float> scales,
                            int32_t offset = 0, int32_t axis = -1, uint32_t bitwidth = 0,
                            std::vector<uint32_t> block = {}) {
  std::vector<int32_t> offsets(scales.size(), offset);
  return {true, encoding, axis, bitwidth, std::move(scales), std::move(offsets), std::move(block)};
}

// y = conv(x) with weights of some encoding, d = dequantize(c) of scales along an axis.
class FixedSample : public TestGraph {
 public:
  explicit FixedSample(Quantization weights) : TestGraph("fixed", true, 1) {
    constexpr auto kIn = QNN_TENSOR_TYPE_APP_WRITE, kOut = QNN_TENSOR_TYPE_APP_READ,
                   kStatic = QNN_TENSOR_TYPE_STATIC;
    constexpr auto kPlain = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    const Tensor* x =
        Add("x", kIn, QNN_DATATYPE_UFIXED_POINT_8, {1, 2, 2, 4}, Encoded(kPlain, {0.1f}, -128));
    const Tensor* w =
        Add("w", kStatic, QNN_DATATYPE_SFIXED_POINT_8, {1, 1, 4, 2}, std::move(weights));
    const Tensor* y = Add("y", kOut, QNN_DATATYPE_UFIXED_POINT_16, {1, 2, 2, 2},
                          Encoded(kPlain, {1e-4f}, -30000));
    CHECK_OK(Op("Conv2d", {x, w}, {y},
                {Words("stride", {1, 1}), Words("pad_amount", {0, 0, 0, 0}, {2, 2})}));
    const Tensor* c =
        Add("c", kIn, QNN_DATATYPE_SFIXED_POINT_8, {2, 3},
            Encoded(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, {1, 2, 3}, 5, 1, 4));
    CHECK_OK(Op("Dequantize", {c}, {Add("d", kOut, QNN_DATATYPE_FLOAT_32, {2, 3}, {})}));
    CHECK_OK(graph().Finalize(nullptr));
  }

 private:
  const Tensor* Add(const char* name, Qnn_TensorType_t type, Qnn_DataType_t dtype, Shape shape,
                    Quantization quantization) {
    Tensor t;
    t.name = name;
    t.type = type;
    t.dtype = dtype;
    t.shape = std::move(shape);
    t.quantization = std::move(quantization);
    if (type == QNN_TENSOR_TYPE_STATIC) {
      t.data = AlignedBytes::Make(t.bytes());
      std::memset(t.data->data(), 3, t.bytes());
    }
    return TestGraph::Add(std::move(t));
  }
};

// One for each encoding of weights.
inline std::vector<Quantization> WeightEncodings() {
  return {
      Encoded(QNN_QUANTIZATION_ENCODING_SCALE_OFFSET, {0.5f}),
      Encoded(QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET, {0.5f, 0.25f}, 0, 3),
      Encoded(QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET, {0.5f}, -2, -1, 4),
      Encoded(QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET, {0.5f, 0.25f}, 0, 3, 4),
      Encoded(QNN_QUANTIZATION_ENCODING_BLOCK, {1, 2, 3, 4}, 0, -1, 0, {1, 1, 2, 1}),
      Encoded(QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION, {1, 2, 3, 4}, 0, -1, 4, {1, 1, 2, 1})};
}

inline Bytes Written(const std::vector<const Graph*>& graphs) {
  BinaryWriter writer({6, {2, 40, 0}, {5, 43, 0}}, graphs);
  Bytes bytes(writer.size(), 0xEE);
  writer.Write(bytes.data());
  return bytes;
}

inline Bytes SampleBinary(bool keep_constants = true) {
  Sample sample("sample", true, 0.1f, 1, keep_constants);
  return Written({&sample.graph()});
}

// What a graph makes of a ramp.
inline std::vector<std::vector<float>> Results(Graph* graph, Status* status) {
  std::vector<std::vector<float>> memory, results;
  std::vector<Qnn_Tensor_t> in, out;
  for (const auto* tensors : {&graph->inputs(), &graph->outputs()}) {
    for (const Tensor* t : *tensors) {
      memory.emplace_back(t->elements());
      for (size_t i = 0; i < memory.back().size(); ++i)
        memory.back()[i] = static_cast<float>(i % 23) * 0.25f - 2;
      (t->is_input() ? in : out).push_back(RawOf(*t, memory.back().data(), t->bytes()));
    }
  }
  *status = graph->Execute(in.data(), static_cast<uint32_t>(in.size()), out.data(),
                           static_cast<uint32_t>(out.size()), {});
  results.assign(memory.begin() + static_cast<ptrdiff_t>(in.size()), memory.end());
  return results;
}

// A graph of a binary; the binary stays as long as `bytes` does.
inline std::unique_ptr<Graph> Loaded(const BinaryView& view, size_t number, Status* status) {
  const BinaryGraph& described = view.graphs()[number];
  auto graph = std::make_unique<Graph>(described.name, 1, GraphOptions());
  LoadOptions load;
  load.weights = view.data() + described.weights_offset;
  *status = graph->Declare(described);
  if (status->ok()) *status = graph->Load(view, described, load);
  return graph;
}

inline ErrorCode Run(const Bytes& bytes, bool trusted) {
  return LoadAndRun(bytes.data(), bytes.size(), trusted).code();
}

}  // namespace binary_test
