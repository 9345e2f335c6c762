// What a graph says of itself to a backend that compiles it elsewhere, and what it keeps then.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi/qnn_errors.h"
#include "check.h"
#include "graph/graph.h"
#include "test_graph.h"

using namespace qnnrt;

namespace {

Tensor Floats(Qnn_TensorType_t type, const std::string& name, const Shape& shape,
              const std::vector<float>& values = {}) {
  Tensor t;
  t.name = name;
  t.type = type;
  t.shape = shape;
  if (!values.empty()) t.data = AlignedBytes::Copy(values.data(), values.size() * sizeof(float));
  return t;
}

// y = relu(x * (2 + 3)) with a node that nobody reads.
class Net : public TestGraph {
 public:
  Net() : TestGraph("net", true, 1) {
    auto two = Add(Floats(QNN_TENSOR_TYPE_STATIC, "two", {1}, {2}));
    auto three = Add(Floats(QNN_TENSOR_TYPE_STATIC, "three", {1}, {3}));
    auto five = Add(Floats(QNN_TENSOR_TYPE_NATIVE, "five", {1}));
    x = Add(Floats(QNN_TENSOR_TYPE_APP_WRITE, "x", {4}));
    auto scaled = Add(Floats(QNN_TENSOR_TYPE_NATIVE, "scaled", {4}));
    auto unused = Add(Floats(QNN_TENSOR_TYPE_NATIVE, "unused", {4}));
    auto y = Add(Floats(QNN_TENSOR_TYPE_APP_READ, "y", {4}));
    CHECK_OK(Op("ElementWiseAdd", {two, three}, {five}));
    CHECK_OK(Op("ElementWiseMultiply", {x, five}, {scaled}));
    CHECK_OK(Op("Tanh", {x}, {unused}));
    CHECK_OK(Op("Relu", {scaled}, {y}));
  }
  const Tensor* x;
};

// The address of the constant of this name in the description.
const void* Address(const std::string& json, const std::string& name) {
  size_t at = json.find("{\"name\":\"" + name + "\"");
  if (at == std::string::npos) return nullptr;
  at = json.find("\"address\":", at);
  if (at == std::string::npos) return nullptr;
  uintptr_t address = 0;
  CHECK(std::sscanf(json.c_str() + at, "\"address\":%" SCNuPTR, &address) == 1);
  return reinterpret_cast<const void*>(address);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST(ConstantsAreFoldedAndTheRestIsTold) {
  Net net;
  for (PassLevel level : {PassLevel::kConstants, PassLevel::kPortable}) {
    auto lowered = net.graph().Lower(level);
    REQUIRE(lowered.ok());
    const std::string json = *lowered;
    CHECK_EQ(Count(json, "\"params\""), 2u);
    CHECK_EQ(Count(json, "\"unused\""), 0u);
    float value = 0;
    std::memcpy(&value, Address(json, "five"), sizeof(value));
    CHECK_EQ(value, 5.0f);
  }
  CHECK_OK(net.graph().Finalize(nullptr));  // lowering has changed nothing
  CHECK_EQ(net.graph().Lower(PassLevel::kPortable).status().code(),
           ErrorCode{QNN_GRAPH_ERROR_GRAPH_FINALIZED});
}

TEST(ParamsAreComplete) {
  TestGraph net("elu", true, 1);
  auto x = net.Add(Floats(QNN_TENSOR_TYPE_APP_WRITE, "x", {4}));
  auto y = net.Add(Floats(QNN_TENSOR_TYPE_APP_READ, "y", {4}));
  CHECK_OK(net.Op("Elu", {x}, {y}));
  auto lowered = net.graph().Lower(PassLevel::kPortable);
  REQUIRE(lowered.ok());
  CHECK_EQ(Count(*lowered, "\"params\":{\"alpha\":{\"real\":1}}"), 1u);  // no integer
}

TEST(OnlyConstantsThatAreReadStay) {
  Net net;
  auto lowered = net.graph().Lower(PassLevel::kPortable);
  REQUIRE(lowered.ok());
  const void* five = Address(*lowered, "five");
  CHECK_OK(net.graph().ReleaseConstants(&five, 1));
  float value = 0;
  std::memcpy(&value, five, sizeof(value));
  CHECK_EQ(value, 5.0f);
  CHECK_EQ(net.graph().ReleaseConstants(nullptr, 0).code(),
           ErrorCode{QNN_GRAPH_ERROR_GRAPH_FINALIZED});
  CHECK_EQ(net.graph().Finalize(nullptr).code(), ErrorCode{QNN_GRAPH_ERROR_GRAPH_FINALIZED});
  uint32_t id = 0;
  Status added = net.graph().AddTensor(Floats(QNN_TENSOR_TYPE_NATIVE, "late", {1}), &id);
  CHECK_EQ(added.code(), ErrorCode{QNN_GRAPH_ERROR_GRAPH_FINALIZED});
}

TEST(WhatNothingProducesIsAnError) {
  TestGraph net("open", true, 1);
  auto a = net.Add(Floats(QNN_TENSOR_TYPE_NATIVE, "a", {4}));
  auto y = net.Add(Floats(QNN_TENSOR_TYPE_APP_READ, "y", {4}));
  CHECK_OK(net.Op("Relu", {a}, {y}));
  CHECK_EQ(net.graph().Lower(PassLevel::kPortable).status().code(),
           ErrorCode{QNN_GRAPH_ERROR_UNCONNECTED_NODE});
}

TEST(StateIsOfGraphsThatAreCompiledHere) {
  TestGraph net("net", true, 1);
  const Tensor* state = net.Add(Floats(QNN_TENSOR_TYPE_APP_READWRITE, "state", {4}));
  CHECK_OK(net.Op("Relu", {state}, {state}));
  const Status status = net.graph().Lower(PassLevel::kPortable).status();
  CHECK_EQ(status.code(), QNN_GRAPH_ERROR_UNSUPPORTED_FEATURE);
  CHECK(status.message().find("'state'") != std::string::npos);
}

CHECK_MAIN("lower_test")
