// Graphs out of context binaries.
#include "abi/qnn_errors.h"
#include "graph/binary/nodes.h"
#include "graph/graph.h"
#include "support/clock.h"

namespace qnnrt {

std::shared_ptr<CommonWeights> CommonOf(const BinaryView& binary, const BinaryGraph& graph,
                                        bool checked, const uint8_t* data,
                                        std::shared_ptr<const void> owner) {
  if (graph.common_size == 0) return nullptr;
  if (data == nullptr) data = binary.data() + graph.common_offset;
  return std::make_shared<CommonWeights>(
      WeightCheck{data, graph.common_size, graph.common_checksum, graph.name}, checked,
      std::move(owner));
}

// Sound nodes, that the backend takes.
Result<ReadGraphNodes> Graph::ReadDescribed(const BinaryView& binary, const BinaryGraph& described,
                                            const LoadOptions& load) const {
  std::vector<const Tensor*> io = inputs_;
  io.insert(io.end(), outputs_.begin(), outputs_.end());
  const std::shared_ptr<CommonWeights> common =
      load.common != nullptr ? load.common
                             : CommonOf(binary, described, load.checked, nullptr, load.owner);
  QNNRT_ASSIGN_OR_RETURN(
      ReadGraphNodes nodes,
      ReadNodes(ByteReader(binary.data() + described.nodes_offset, described.nodes_size), io,
                {load.weights, described.weights_size, load.owner, common}, load.most_bytes,
                host_.find_package_op));
  for (const Node& node : nodes.graph.nodes) {
    if (host_.admit == nullptr) break;
    Status admitted = host_.admit(node);
    if (!admitted.ok())
      return std::move(admitted)
          .WithCode(QNN_CONTEXT_ERROR_BINARY_CONFIGURATION)
          .Within("graph '" + name_ + "' of the context binary");
  }
  return nodes;
}

Status Graph::CheckDeclared() const {
  if (declared_ && !finalized()) return Status::Ok();
  return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY, "graph '%s' is no declared graph",
               name_.c_str());
}

Status Graph::Declare(const BinaryGraph& described) {
  auto lock = Lock();
  for (const auto* tensors : {&described.inputs, &described.outputs}) {
    for (const Tensor& tensor : *tensors) {
      if (tensor.is_state() && tensors == &described.outputs) {
        NewState(by_id_.at(tensor.id), nullptr);
      } else {
        QNNRT_RETURN_IF_ERROR(Add(tensor));
      }
    }
  }
  declared_ = true;
  options_.threads = described.threads;
  options_.portable_only = described.portable_only;
  return Status::Ok();
}

Status Graph::MakePlanFrom(const BinaryView& binary, const BinaryGraph& described,
                           const LoadOptions& given, Prepared* made) const {
  LoadOptions load = given;
  if (load.common == nullptr)
    load.common = CommonOf(binary, described, load.checked, nullptr, load.owner);
  Prepared prepared;
  prepared.start = MonotonicNanoseconds();
  QNNRT_ASSIGN_OR_RETURN(ReadGraphNodes nodes, ReadDescribed(binary, described, load));
  const int threads = ThreadsToMake();
  WeightReader packed(std::move(nodes.packed), binary.header().kernels, described.portable_only,
                      {described.threads, threads},
                      !nodes.complete || threads != described.threads);
  PlanOptions options;
  options.kernels.portable_only = described.portable_only;
  options.kernels.threads = threads;
  options.plan_milliseconds = options_.plan_milliseconds;
  options.packed = &packed;
  options.owner = load.owner;
  nodes.arena_plan.order = nodes.order.c_str();
  // Kernels have other scratch memory for other threads: the plan that is there could fit, and be
  // larger than it has to be.
  if (!nodes.arena_plan.offsets.empty() && threads == described.threads)
    options.known_plan = &nodes.arena_plan;
  options.weights_counted = load.counted;
  options.arena = load.arena;
  options.most_bytes = load.most_bytes;
  UseClientMemory(&options);
  if (load.sizes_alone) options.client_memory = true;
  if (!load.checked) {
    options.check = WeightCheck{load.weights, described.weights_size, described.weights_checksum,
                                described.name};
    if (nodes.reads_common) options.common = load.common;
  }
  options.keep_at_most = nodes.complete ? UINT64_MAX : 0;
  prepared.optimized = MonotonicNanoseconds();
  Result<std::unique_ptr<Plan>> plan =
      Plan::Make(std::move(nodes.graph), inputs_, outputs_, options);
  if (!plan.ok() && plan.status().code() == QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES &&
      nodes.complete) {  // kernels of another kind: these pack the constants anew
    QNNRT_ASSIGN_OR_RETURN(nodes, ReadDescribed(binary, described, load));
    options.packed = nullptr;
    options.known_plan = nullptr;
    plan = Plan::Make(std::move(nodes.graph), inputs_, outputs_, options);
  }
  QNNRT_ASSIGN_OR_RETURN(prepared.plan, std::move(plan));
  if (options_.strict) QNNRT_RETURN_IF_ERROR(CheckInPlace(*prepared.plan));
  prepared.passes = std::move(nodes.passes);
  prepared.end = MonotonicNanoseconds();
  *made = std::move(prepared);
  return Status::Ok();
}

Status Graph::Load(const BinaryView& binary, const BinaryGraph& described,
                   const LoadOptions& load) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(CheckDeclared());
  if (pools_ != nullptr) {
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "graph '%s' needs memory of the client's: graphFinalize makes it ready",
                 name_.c_str());
  }
  Prepared made;
  QNNRT_RETURN_IF_ERROR(MakePlanFrom(binary, described, load, &made));
  return Install(&made, [](const Staging*) {});
}

Result<uint64_t> Graph::ArenaToLoad(const BinaryView& binary, const BinaryGraph& described) {
  auto lock = Lock();
  if (finalized()) return plan_->arena().peak;
  if (ThreadsToMake() == described.threads) return described.arena_bytes;
  LoadOptions load;
  load.weights = binary.data() + described.weights_offset;
  load.checked = load.sizes_alone = true;
  Prepared made;
  QNNRT_RETURN_IF_ERROR(MakePlanFrom(binary, described, load, &made));
  return made.plan->arena().peak;
}

// ---- Graphs with client memory: read now, made when their sizes are asked for ----

namespace {

LoadOptions OptionsFor(const LoadSource& source, const BinaryGraph& described) {
  LoadOptions load;
  load.weights = source.view.data() + described.weights_offset;
  load.owner = source.owner;
  load.checked = source.checked;
  load.common = source.common;
  return load;
}

}  // namespace

Status Graph::Defer(std::shared_ptr<const LoadSource> source) {
  auto lock = Lock();
  QNNRT_RETURN_IF_ERROR(CheckDeclared());
  QNNRT_RETURN_IF_ERROR(NeedsClientMemory());
  const BinaryGraph* described = source->view.Find(name_);
  QNNRT_RETURN_IF_ERROR(
      ReadDescribed(source->view, *described, OptionsFor(*source, *described)).status());
  source_ = std::move(source);
  return Status::Ok();
}

Status Graph::MakeDeferred(Prepared* made) const {
  if (source_ == nullptr) return NotFinalized();
  const BinaryGraph& described = *source_->view.Find(name_);
  return MakePlanFrom(source_->view, described, OptionsFor(*source_, described), made);
}

}  // namespace qnnrt
