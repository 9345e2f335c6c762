// Client structs -> the runtime's own values. Deep copies: nothing of the client's is kept.
#pragma once

#include <deque>

#include "abi/qnn_types.h"
#include "api/op_package.h"
#include "graph/graph.h"
#include "support/known_digests.h"
#include "support/status.h"

namespace qnnrt {

// How the data of a STATIC tensor lies, and who copies it.
struct StaticSource {
  const int64_t* strides = nullptr;  // in bytes, one for each dimension; null: as rows
  Threads threads = Threads(1);
  ShareScope scope{};                     // where equal data is looked for
  bool lent = false;                      // it stays where it is until the graph is finalized
  std::shared_ptr<KnownDigests> known{};  // of lent data that stays beyond that
  bool keep_packed = false;  // Tensor::two_in_byte; else elements of 4 bits become bytes
};

// `with_data`: a STATIC tensor brings its bytes (creating) or may come without (validating).
// Errors: 7004 a bad field, 7005 one this runtime does not know.
Result<Tensor> TensorFromQnn(const Qnn_Tensor_t& tensor, bool with_data,
                             const StaticSource& source = {});

// What a node needs that is no tensor of the graph: its params, and its op where another package
// than qti.aisw has it (`packages`). Inputs and outputs stay empty. `context`: the id of the one
// that the node is for.
Result<Node> NodeFromQnn(const Qnn_OpConfig_t& config, const OpPackages& packages,
                         uint64_t context);

// The same with its inputs and outputs: a node of no graph, to be validated.
struct NodeAlone {
  Node node;
  std::deque<Tensor> tensors;  // what it points to
};
Result<NodeAlone> NodeAloneFromQnn(const Qnn_OpConfig_t& config, const OpPackages& packages);

// Stands for an omitted input or output: a NULL tensor, or one without elements.
bool IsOmitted(const Qnn_Tensor_t& tensor);

}  // namespace qnnrt
