// Graphs out of context binaries.
#include "abi/qnn_errors.h"
#include "graph/binary_nodes.h"
#include "graph/graph.h"

namespace qnnrt {

Status Graph::Declare(const BinaryGraph& described) {
  auto lock = Lock();
  for (const auto* tensors : {&described.inputs, &described.outputs}) {
    for (const Tensor& tensor : *tensors) QNNRT_RETURN_IF_ERROR(Add(tensor));
  }
  declared_ = true;
  options_.threads = described.threads;
  options_.portable_only = described.portable_only;
  return Status::Ok();
}

Status Graph::Load(const BinaryView& binary, const BinaryGraph& described,
                   const LoadOptions& load) {
  auto lock = Lock();
  if (finalized() || !declared_)
    return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, "graph '%s' is no declared graph",
                 name_.c_str());
  std::vector<const Tensor*> io = inputs_;
  io.insert(io.end(), outputs_.begin(), outputs_.end());
  QNNRT_ASSIGN_OR_RETURN(
      ReadGraphNodes nodes,
      ReadNodes(ByteReader(binary.data() + described.nodes_offset, described.nodes_size), io,
                {load.weights, described.weights_size, load.owner}, load.most_bytes));
  WeightReader packed(std::move(nodes.packed), binary.header().kernels, described.portable_only);
  PlanOptions options;
  options.kernels.portable_only = described.portable_only;
  options.kernels.threads = described.threads;
  options.packed = &packed;
  options.owner = load.owner;
  nodes.places.order = nodes.order.c_str();
  options.places = nodes.places.offsets.empty() ? nullptr : &nodes.places;
  options.weights_counted = load.counted;
  options.arena = load.arena;
  options.most_bytes = load.most_bytes;
  if (!load.checked) {
    options.check = WeightCheck{load.weights, described.weights_size, described.weights_checksum,
                                described.name};
  }
  QNNRT_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan,
                         Plan::Make(std::move(nodes.ir), inputs_, outputs_, options));
  return Install(std::move(plan), std::move(nodes.passes), [](const Staging*) {});
}

}  // namespace qnnrt
