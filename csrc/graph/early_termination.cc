#include "graph/early_termination.h"

#include <unordered_map>

#include "ops/op.h"

namespace qnnrt {

EarlyTermination::EarlyTermination(const std::vector<Node>& nodes,
                                   const std::vector<size_t>& step_nodes)
    : step_nodes_(step_nodes), sources_(nodes.size()), wanted_(nodes.size()), waits_(nodes.size()) {
  std::unordered_map<const Tensor*, size_t> producer;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const Tensor* tensor : nodes[n].inputs) {
      const auto found = producer.find(tensor);
      if (found != producer.end()) sources_[n].push_back(found->second);
    }
    for (const Tensor* tensor : nodes[n].outputs) {
      if (tensor != nullptr) producer[tensor] = n;
    }
  }
  for (size_t n = nodes.size(); n-- > 0;) {
    if (KeepsState(nodes[n])) wanted_[n] = true;
    if (!wanted_[n]) continue;
    for (size_t source : sources_[n]) wanted_[source] = true;
  }
}

}  // namespace qnnrt
