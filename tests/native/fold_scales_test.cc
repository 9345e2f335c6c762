// Scales and shifts that go into the weights before them: what is rewritten, and what is left as it
// lies.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "abi/qnn_op_names.h"
#include "check.h"
#include "graph/passes/node_graph.h"

using namespace qnnrt;

namespace {

// x -> a product with w -> op(.., operand) -> y, as a client would have described it.
class Pair {
 public:
  Pair(const char* product, const Shape& x, Qnn_DataType_t type, const Shape& weights,
       const char* op, const std::vector<std::vector<float>>& operands) {
    const uint32_t channels = static_cast<uint32_t>(operands[0].size());
    Shape y = x;
    y.back() = channels;
    values.resize(ElementCount(weights));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 2.0f;
    w = Add(QNN_TENSOR_TYPE_STATIC, type, weights, values);
    Tensor* in = Add(QNN_TENSOR_TYPE_APP_WRITE, type, x);
    between = Add(QNN_TENSOR_TYPE_NATIVE, type, y);
    out = Add(QNN_TENSOR_TYPE_APP_READ, type, y);
    std::vector<Node> nodes(2);
    nodes[0].type = product;
    nodes[0].inputs = {in, w};
    nodes[0].outputs = {between};
    nodes[1].type = op;
    nodes[1].inputs = {between};
    for (const auto& o : operands)
      nodes[1].inputs.push_back(Add(QNN_TENSOR_TYPE_STATIC, type, {channels}, o));
    nodes[1].outputs = {out};
    graph = std::make_unique<NodeGraph>(std::move(nodes));
    graph->Index();
    CHECK_OK(FoldScales(graph.get(), Threads(2), &changes));
  }

  const Node& node() const { return graph->nodes[0]; }
  std::vector<float> Bias() const { return StaticFloats(*node().inputs[2]); }

  std::vector<float> values;
  Tensor *w, *between, *out;
  std::unique_ptr<NodeGraph> graph;
  int changes = 0;

 private:
  Tensor* Add(Qnn_TensorType_t kind, Qnn_DataType_t type, const Shape& shape,
              const std::vector<float>& of = {}) {
    tensors_.push_back(std::make_unique<Tensor>());
    Tensor* t = tensors_.back().get();
    t->type = kind;
    t->dtype = type;
    t->shape = shape;
    if (of.empty()) return t;
    t->data = AlignedBytes::Make(of.size() * ElementSize(type));
    if (type == QNN_DATATYPE_FLOAT_16) {
      FloatToHalf(of.data(), static_cast<uint16_t*>(t->data->data()), of.size());
    } else {
      std::memcpy(t->data->data(), of.data(), of.size() * sizeof(float));
    }
    return t;
  }
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

}  // namespace

TEST(ABiasLeavesTheWeightsWhereTheyAre) {
  for (const char* op : {QNN_OP_ELEMENT_WISE_ADD, QNN_OP_ELEMENT_WISE_SUBTRACT}) {
    Pair p(QNN_OP_MAT_MUL, {4, 3}, QNN_DATATYPE_FLOAT_32, {3, 2}, op, {{0.5f, -4.0f}});
    CHECK_EQ(p.changes, 1);
    REQUIRE(p.graph->nodes.size() == 1);
    CHECK(p.node().inputs[1] == p.w);
    const float sign = std::strcmp(op, QNN_OP_ELEMENT_WISE_ADD) == 0 ? 1.0f : -1.0f;
    CHECK(p.Bias() == (std::vector<float>{sign * 0.5f, sign * -4.0f}));
  }
  Pair one(QNN_OP_MAT_MUL, {4, 3}, QNN_DATATYPE_FLOAT_32, {3, 2}, QNN_OP_BATCHNORM,
           {{1.0f, 1.0f}, {2.0f, 3.0f}});
  CHECK(one.node().inputs[1] == one.w);
  CHECK(one.Bias() == (std::vector<float>{2.0f, 3.0f}));
}

TEST(EachWeightIsScaledByItsChannel) {
  const std::vector<float> scale = {2.0f, -0.5f, 3.0f}, shift = {1.0f, 0.0f, -1.0f};
  for (Qnn_DataType_t type : {QNN_DATATYPE_FLOAT_32, QNN_DATATYPE_FLOAT_16}) {
    // [inputs, outputs]: channels beside each other; [outputs, inputs]: channel by channel. Enough
    // of them for several pieces of work.
    Pair across(QNN_OP_MAT_MUL, {4, 60000}, type, {60000, 3}, QNN_OP_BATCHNORM, {scale, shift});
    Pair along(QNN_OP_FULLY_CONNECTED, {4, 60000}, type, {3, 60000}, QNN_OP_BATCHNORM,
               {scale, shift});
    for (const Pair* p : {&across, &along}) {
      REQUIRE(p->graph->nodes.size() == 1);
      const Tensor* w = p->node().inputs[1];
      CHECK(w != p->w);
      CHECK_EQ(w->dtype, type);
      const std::vector<float> got = StaticFloats(*w), before = StaticFloats(*p->w);
      CHECK(before == p->values);  // the client's own stay what they are
      size_t wrong = 0;
      for (size_t i = 0; i < got.size(); ++i)
        wrong += got[i] != p->values[i] * scale[p == &across ? i % 3 : i / 60000];
      CHECK_EQ(wrong, 0u);
      CHECK(p->Bias() == shift);
    }
  }
}

TEST(TheGraphKnowsWhoWritesWhatAfterwards) {
  Pair p(QNN_OP_MAT_MUL, {4, 3}, QNN_DATATYPE_FLOAT_32, {3, 2}, QNN_OP_ELEMENT_WISE_MULTIPLY,
         {{0.5f, -4.0f}});
  CHECK_EQ(p.graph->Producer(p.out), 0);
  CHECK_EQ(p.graph->Producer(p.between), -1);
  CHECK_EQ(p.graph->Uses(p.between), 0);
}

TEST(AChainOfFoldsIsIndexedAsItGoes) {
  // Multiply, add, multiply behind one product: each finds the product that took the one before.
  std::vector<std::unique_ptr<Tensor>> made;
  const auto add = [&](Qnn_TensorType_t kind, const Shape& shape, std::vector<float> of = {}) {
    made.push_back(std::make_unique<Tensor>());
    made.back()->type = kind;
    made.back()->shape = shape;
    if (!of.empty()) made.back()->data = AlignedBytes::Copy(of.data(), of.size() * sizeof(float));
    return made.back().get();
  };
  const Tensor* at = add(QNN_TENSOR_TYPE_NATIVE, {1, 2});
  std::vector<Node> nodes(4);
  nodes[0].type = QNN_OP_MAT_MUL;
  nodes[0].inputs = {add(QNN_TENSOR_TYPE_APP_WRITE, {1, 2}),
                     add(QNN_TENSOR_TYPE_STATIC, {2, 2}, {1, 2, 3, 4})};
  nodes[0].outputs = {at};
  const char* ops[] = {QNN_OP_ELEMENT_WISE_MULTIPLY, QNN_OP_ELEMENT_WISE_ADD,
                       QNN_OP_ELEMENT_WISE_MULTIPLY};
  for (size_t i = 0; i < 3; ++i) {
    nodes[i + 1].type = ops[i];
    nodes[i + 1].inputs = {at, add(QNN_TENSOR_TYPE_STATIC, {2}, {2, 10})};
    at = add(i == 2 ? QNN_TENSOR_TYPE_APP_READ : QNN_TENSOR_TYPE_NATIVE, {1, 2});
    nodes[i + 1].outputs = {at};
  }
  NodeGraph graph(std::move(nodes));
  graph.Index();
  int changes = 0;
  CHECK_OK(FoldScales(&graph, Threads(1), &changes));
  CHECK_EQ(changes, 3);
  REQUIRE(graph.nodes.size() == 1);
  CHECK(graph.nodes[0].outputs[0] == at);
  CHECK(StaticFloats(*graph.nodes[0].inputs[1]) == (std::vector<float>{4, 200, 12, 400}));
  CHECK(StaticFloats(*graph.nodes[0].inputs[2]) == (std::vector<float>{4, 100}));
}

// Two products with the same weights, which the client gives up; behind `scaled` of them is a
// factor.
class Shared {
 public:
  explicit Shared(size_t scaled) {
    const std::vector<float> values = {1, 2, 3, 4};
    w = Add(QNN_TENSOR_TYPE_STATIC, {2, 2});
    w->data = AlignedBytes::Copy(values.data(), values.size() * sizeof(float));
    const float factor[] = {2, 10};
    std::vector<Node> nodes;
    for (size_t i = 0; i < 2; ++i) {
      const bool last = i >= scaled;
      const Tensor* y = Add(last ? QNN_TENSOR_TYPE_APP_READ : QNN_TENSOR_TYPE_NATIVE, {1, 2});
      nodes.push_back({});
      nodes.back().name = "product" + std::to_string(i);
      nodes.back().type = QNN_OP_MAT_MUL;
      nodes.back().inputs = {Add(QNN_TENSOR_TYPE_APP_WRITE, {1, 2}), w};
      nodes.back().outputs = {y};
      if (last) continue;
      Tensor* scale = Add(QNN_TENSOR_TYPE_STATIC, {2});
      scale->data = AlignedBytes::Copy(factor, sizeof(factor));
      nodes.push_back({});
      nodes.back().type = QNN_OP_ELEMENT_WISE_MULTIPLY;
      nodes.back().inputs = {y, scale};
      nodes.back().outputs = {Add(QNN_TENSOR_TYPE_APP_READ, {1, 2})};
    }
    graph = std::make_unique<NodeGraph>(std::move(nodes));
    graph->MayRelease({w});
    graph->Index();
  }
  bool Gone() const { return w->data->data() == nullptr; }

  Tensor* w;
  std::unique_ptr<NodeGraph> graph;
  int changes = 0;

 private:
  Tensor* Add(Qnn_TensorType_t kind, const Shape& shape) {
    tensors_.push_back(std::make_unique<Tensor>());
    tensors_.back()->type = kind;
    tensors_.back()->shape = shape;
    return tensors_.back().get();
  }
  std::vector<std::unique_ptr<Tensor>> tensors_;
};

TEST(WeightsGoWithTheirLastReader) {
  for (size_t scaled : {1u, 2u}) {
    Shared s(scaled);
    CHECK_OK(FoldScales(s.graph.get(), Threads(1), &s.changes));
    CHECK_EQ(s.changes, static_cast<int>(scaled));
    CHECK_EQ(s.Gone(), scaled == 2);
    for (const Node& node : s.graph->nodes) {
      if (node.inputs[1] != s.w)
        CHECK(StaticFloats(*node.inputs[1]) == (std::vector<float>{2, 20, 6, 40}));
    }
    CHECK_EQ(s.w->data->size(), 4 * sizeof(float));
  }
}

TEST(WeightsGoWhenAllReadThemIn16Bits) {
  for (const bool kept : {false, true}) {
    Shared s(0);
    KeptFloats floats;
    if (kept) floats.nodes.insert("product1");
    CHECK_OK(LowerPrecision(s.graph.get(), QNN_DATATYPE_BFLOAT_16, floats, &s.changes));
    CHECK_EQ(s.Gone(), !kept);
    REQUIRE(!s.graph->nodes.empty());
    size_t readers = 0;
    for (const Node& node : s.graph->nodes) {
      if (node.type != QNN_OP_MAT_MUL) continue;
      ++readers;
      const bool wide = kept && node.name == "product1";
      CHECK_EQ(node.inputs[1]->dtype, wide ? QNN_DATATYPE_FLOAT_32 : QNN_DATATYPE_BFLOAT_16);
      CHECK_EQ(node.inputs[1] == s.w, wide);
    }
    CHECK_EQ(readers, 2u);
  }
}

TEST(ScaledWeightsAreMadeWhenTheyAreRead) {
  const std::vector<float> scale = {2.0f, -0.5f}, other = {2.0f, 0.5f}, shift = {0.0f, 0.0f};
  const auto scaled = [&](const std::vector<float>& by) {
    return Pair(QNN_OP_MAT_MUL, {4, 3}, QNN_DATATYPE_FLOAT_32, {3, 2}, QNN_OP_BATCHNORM,
                {by, shift});
  };
  const Pair one = scaled(scale), same = scaled(scale), different = scaled(other);
  const auto data = [](const Pair& p) -> const AlignedBytes& { return *p.node().inputs[1]->data; };
  const AlignedBytes& w = data(one);
  CHECK(!w.loaded());
  // What they are is known before.
  const Digest digest = w.digest(Threads(1));
  CHECK(digest == data(same).digest(Threads(1)));
  CHECK(digest != data(different).digest(Threads(1)));
  CHECK(digest != one.w->data->digest(Threads(1)));
  std::vector<float> elsewhere(6), wanted(6);
  for (size_t i = 0; i < 6; ++i) wanted[i] = one.values[i] * scale[i % 2];
  CHECK(w.WriteUnread(elsewhere.data()));
  CHECK(elsewhere == wanted);
  CHECK(!w.loaded());
  CHECK(StaticFloats(*one.node().inputs[1]) == wanted);
  CHECK(w.loaded());
  CHECK(!w.WriteUnread(elsewhere.data()));
}

CHECK_MAIN("fold_scales_test")
