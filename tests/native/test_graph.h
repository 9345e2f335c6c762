// A graph for the tests below the C API: a tensor or a node in a line each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "graph/graph.h"

namespace qnnrt {

class TestGraph {
 public:
  TestGraph(const std::string& name, bool portable, int threads, GraphHost host = {})
      : graph_(name, 1, Options(portable, threads), std::move(host)) {}

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  // One without a name is named by its number.
  const Tensor* Add(Tensor t) {
    if (t.name.empty()) t.name = "t" + std::to_string(tensors_++);
    uint32_t id = 0;
    CHECK_OK(graph_.AddTensor(std::move(t), &id));
    return graph_.FindTensor(id);
  }
  Status Op(const std::string& type, std::vector<const Tensor*> inputs,
            std::vector<const Tensor*> outputs, std::vector<Param> params = {}) {
    Node node;
    node.name = type + std::to_string(nodes_++);
    node.package = "qti.aisw";
    node.type = type;
    node.params = std::move(params);
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    return graph_.AddNode(std::move(node));
  }
  // A parameter of rank 1, or of the shape given.
  static Param Words(const char* name, const std::vector<uint32_t>& values, Shape shape = {}) {
    Tensor t;
    t.name = name;
    t.type = QNN_TENSOR_TYPE_STATIC;
    t.dtype = QNN_DATATYPE_UINT_32;
    t.shape = shape.empty() ? Shape{static_cast<uint32_t>(values.size())} : std::move(shape);
    t.data = AlignedBytes::Copy(values.data(), values.size() * 4);
    return {name, t};
  }

 private:
  static GraphOptions Options(bool portable, int threads) {
    GraphOptions options;
    options.portable_only = portable;
    options.threads = threads;
    return options;
  }

  Graph graph_;
  int tensors_ = 0, nodes_ = 0;
};

}  // namespace qnnrt
