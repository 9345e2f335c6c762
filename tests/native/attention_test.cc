// The Attention that a file may hold: it reads and writes nothing outside of its tensors.
#include "ops/matmul/attention.h"
#include "check.h"
#include "test_graph.h"

using namespace qnnrt;

namespace {

Tensor Floats(const Shape& shape) {
  Tensor t;
  t.name = "t";
  t.shape = shape;
  t.dtype = QNN_DATATYPE_FLOAT_32;
  return t;
}

// Two heads of 4 rows and 5 keys, 3 deep and 2 wide, everything in order.
struct Sample {
  Tensor q = Floats({2, 4, 3}), k = Floats({2, 5, 3}), v = Floats({2, 5, 2});
  Tensor mask = Floats({4, 5}), out = Floats({2, 4, 2});
  std::vector<uint32_t> dims = {1, 2, 4, 5, 3, 2};
  std::vector<uint32_t> strides = {0, 12, 3, 1, 0, 15, 3, 1, 0, 10, 2, 1, 0, 0, 5, 1, 0, 8, 2, 1};

  Node node() const {
    Node node;
    node.name = "one";
    node.package = "qti.aisw";
    node.type = kAttention;
    node.params = {
        {"scale", 1.0}, TestGraph::Words("dims", dims), TestGraph::Words("strides", strides)};
    node.inputs = {&q, &k, &v, &mask};
    node.outputs = {&out};
    return node;
  }
  Status Validate() const {
    Node made = node();
    return ValidateNode(&made);
  }
};

}  // namespace

TEST(NoClientNamesIt) {
  const Sample sample;
  Node node = sample.node();
  CHECK_OK(ValidateNode(&node));
  CHECK(!ValidateClientNode(&node).ok());
}

TEST(StridesStayInside) {
  for (size_t i = 0; i < 20; ++i) {
    Sample sample;
    if (i % 4 == 0) continue;  // one batch: its stride is not used
    sample.strides[i] += 100;
    if (!CHECK(!sample.Validate().ok())) std::printf("stride %zu\n", i);
  }
}

TEST(DimsFitTheTensors) {
  for (size_t i = 0; i < 6; ++i) {
    for (uint32_t value : {uint32_t{0}, uint32_t{40}, UINT32_MAX}) {
      Sample sample;
      sample.dims[i] = value;
      if (!CHECK(!sample.Validate().ok())) std::printf("dim %zu of %u\n", i, value);
    }
  }
  Sample sample;
  sample.dims.pop_back();
  CHECK(!sample.Validate().ok());
}

CHECK_MAIN("attention_test")
