#include "graph/binary/nodes.h"

#include "abi/qnn_errors.h"
#include "ops/elementwise/activation.h"
#include "ops/op.h"
#include "ops/post_ops.h"
#include "support/checked.h"

namespace qnnrt {

using namespace binary_codes;

namespace {

constexpr size_t kMostInBinary = 16;

Status NoMemory() {
  return Error(QNN_CONTEXT_ERROR_MEM_ALLOC, "out of memory for a context binary");
}

class NodeReader {
 public:
  NodeReader(ByteReader in, const std::vector<const Tensor*>& io, const WeightsAt& weights,
             uint64_t most_bytes, const FindPackageOp& find)
      : in_(in), all_(io), weights_(weights), most_bytes_(most_bytes), find_(find) {}

  Result<ReadGraphNodes> Read() {
    QNNRT_RETURN_IF_ERROR(ReadTensors());
    written_.assign(all_.size(), false);
    const uint32_t nodes = in_.Count(28);
    result_.graph.nodes.reserve(nodes);
    for (uint32_t i = 0; i < nodes; ++i) QNNRT_RETURN_IF_ERROR(ReadNode());
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i]->is_output() && !written_[i] && all_[i]->elements() != 0)
        return DamagedBinary("no node writes the output '" + all_[i]->name + "'");
    }
    QNNRT_RETURN_IF_ERROR(ReadPacked());
    const uint32_t passes = in_.Count(8);
    for (uint32_t i = 0; i < passes; ++i) {
      std::string name = in_.Text();
      result_.passes.push_back({std::move(name), in_.Get<int32_t>()});
    }
    if (in_.ok() && in_.left() != 0) ReadArenaPlan();
    if (!in_.ok() || in_.left() != 0)
      return DamagedBinary("its nodes do not end where they should");
    return std::move(result_);
  }

 private:
  // A range of the weights, as bytes that keep them alive.
  Result<std::shared_ptr<AlignedBytes>> Weights(const std::string& whose, uint64_t offset,
                                                uint64_t size) {
    const bool common = (offset & kBinaryInCommon) != 0 && weights_.common != nullptr;
    const uint64_t whole = common ? weights_.common->size() : weights_.size;
    if (common) {
      offset &= ~kBinaryInCommon;
      result_.reads_common = true;
    }
    if (offset % kBinaryBlobAlignment != 0 || offset > whole || size > whole - offset) {
      return DamagedBinary("the data of " + whose + " lies outside of the weights");
    }
    auto bytes = common ? weights_.common->At(offset, size)
                        : AlignedBytes::Foreign(weights_.data + offset, size, weights_.owner);
    if (bytes == nullptr) return NoMemory();
    return bytes;
  }

  Status CheckSize(const Tensor& tensor) const {
    if (tensor.bytes() <= most_bytes_) return Status::Ok();
    return DamagedBinary("tensor '" + tensor.name + "' of " + std::to_string(tensor.bytes()) +
                         " bytes is larger than this machine's memory");
  }

  Status ReadTensors() {
    for (const Tensor* tensor : all_) QNNRT_RETURN_IF_ERROR(CheckSize(*tensor));
    const uint32_t count = in_.Count(34);
    result_.graph.owned.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      auto tensor = std::make_unique<Tensor>();
      QNNRT_RETURN_IF_ERROR(ReadTensor(&in_, tensor.get()));
      const uint32_t storage = in_.Enum(kAbsent);
      const uint64_t offset = in_.Get<uint64_t>();
      if (!in_.ok()) return DamagedBinary("its list of tensors ends too soon");
      const std::string name = "tensor '" + tensor->name + "'";
      const bool is_static = tensor->type == QNN_TENSOR_TYPE_STATIC;
      if (is_static != (storage != kNone) ||
          (!is_static && tensor->type != QNN_TENSOR_TYPE_NATIVE)) {
        return DamagedBinary(name + " is neither static nor an intermediate result");
      }
      QNNRT_RETURN_IF_ERROR(CheckSize(*tensor));
      if (storage == kStored) {
        QNNRT_ASSIGN_OR_RETURN(tensor->data, Weights(name, offset, tensor->bytes()));
      } else if (storage == kAbsent) {
        // Only weights are packed; what is read while a graph is prepared is always there.
        if ((TypeBit(tensor->dtype) & (types::kFloat | types::kFixed)) == 0)
          return DamagedBinary(name + " has no data");
        tensor->data = AlignedBytes::Absent(tensor->bytes());
        if (tensor->data == nullptr) return NoMemory();
        result_.complete = false;
      }
      all_.push_back(tensor.get());
      result_.graph.owned.push_back(std::move(tensor));
    }
    return Status::Ok();
  }

  // A package reads what the type says.
  static bool IsTypeOf(uint32_t kind, Qnn_DataType_t type) {
    switch (kind) {
      case kInt:
        return (TypeBit(type) & types::kInt) != 0;
      case kFloat:
        return (TypeBit(type) & (types::kFloat | types::kF64)) != 0;
      case kBool:
        return type == QNN_DATATYPE_BOOL_8;
      default:
        return type == QNN_DATATYPE_STRING;
    }
  }

  Status ReadParam(Node* node) {
    Param param;
    param.name = in_.Text();
    uint32_t kind = in_.Enum(kTyped);
    if (kind == kTyped) {
      param.type = static_cast<Qnn_DataType_t>(in_.Get<uint32_t>());
      kind = in_.Enum(kText);
      if (!IsTypeOf(kind, param.type))
        return DamagedBinary("param '" + param.name + "' has another type than its value");
    }
    switch (kind) {
      case kInt:
        param.value = in_.Get<int64_t>();
        break;
      case kFloat:
        param.value = in_.Get<double>();
        break;
      case kBool:
        param.value = in_.Flag();
        break;
      case kText:
        param.value = in_.Text();
        break;
      default: {
        Tensor tensor;
        QNNRT_RETURN_IF_ERROR(ReadTensor(&in_, &tensor));
        const uint8_t* data = in_.Bytes(tensor.bytes());
        if (data == nullptr) return DamagedBinary("param '" + param.name + "' ends too soon");
        tensor.data = AlignedBytes::Copy(data, tensor.bytes());
        if (tensor.data == nullptr) return NoMemory();
        param.value = std::move(tensor);
      }
    }
    node->params.push_back(std::move(param));
    return Status::Ok();
  }

  Status ReadInputs(Node* node) {
    const uint32_t count = in_.Count(sizeof(uint32_t));
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t number = in_.Get<uint32_t>();
      if (number == kBinaryNoTensor) {
        node->inputs.push_back(nullptr);
        continue;
      }
      if (number >= all_.size()) return DamagedBinary("node '" + node->name + "' reads no tensor");
      const Tensor* tensor = all_[number];
      if (!tensor->is_input() && !tensor->is_static() && !written_[number]) {
        return DamagedBinary("node '" + node->name + "' reads '" + tensor->name +
                             "' before it is written");
      }
      node->inputs.push_back(tensor);
    }
    return Status::Ok();
  }

  Status ReadOutputs(Node* node) {
    const uint32_t count = in_.Count(sizeof(uint32_t));
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t number = in_.Get<uint32_t>();
      if (number == kBinaryNoTensor) {
        node->outputs.push_back(nullptr);
        continue;
      }
      if (number >= all_.size() || all_[number]->is_input() || all_[number]->is_static() ||
          written_[number]) {
        return DamagedBinary("node '" + node->name + "' writes what it may not write");
      }
      written_[number] = true;
      node->outputs.push_back(all_[number]);
    }
    return Status::Ok();
  }

  Status ReadPostOps(Node* node) {
    const uint32_t count = in_.Count(14);
    if (count > kMostInBinary) return DamagedBinary("node '" + node->name + "' has many post ops");
    for (uint32_t i = 0; i < count; ++i) {
      PostOp op;
      op.kind = static_cast<PostOp::Kind>(in_.Enum(static_cast<uint32_t>(PostOp::Kind::kAdd)));
      op.activation = static_cast<Activation>(in_.Enum(static_cast<uint32_t>(kLastActivation)));
      op.alpha = in_.Get<float>();
      op.beta = in_.Get<float>();
      op.input = in_.Get<uint32_t>();
      node->post_ops.push_back(op);
    }
    return Status::Ok();
  }

  // What FuseActivations guarantees of a node that it gave post ops to.
  static Status CheckPostOps(const Node& node, const OpDef& def) {
    const std::string who = "node '" + node.name + "'";
    const Tensor* out = node.HasOutput(0) ? node.outputs[0] : nullptr;
    if ((def.flags & OpDef::kPostOps) == 0 || node.outputs.size() != 1 || out == nullptr ||
        (TypeBit(out->dtype) & (types::kFloat | types::kFixed)) == 0) {
      return DamagedBinary(who + " takes no post ops");
    }
    for (const PostOp& op : node.post_ops) {
      const bool fuses = op.kind == PostOp::Kind::kAdd || DefOf(op.activation).fuses;
      if (!fuses) return DamagedBinary(who + " does not take " + PostOpName(op));
      if (IsFixed(out->dtype) && !TakesFixedPostOp(node, op))
        return DamagedBinary(who + " takes no " + PostOpName(op) + " after fixed-point numbers");
    }
    std::vector<bool> used(node.inputs.size(), false);
    for (const PostOp& op : node.post_ops) {
      if (op.kind != PostOp::Kind::kAdd) continue;
      if (op.input < def.inputs.size() || !node.HasInput(op.input) || used[op.input])
        return DamagedBinary(who + " adds what is not there");
      const Tensor& added = *node.inputs[op.input];
      if (added.shape != out->shape || added.dtype != out->dtype)
        return DamagedBinary(who + " adds '" + added.name + "' of another shape or type");
      used[op.input] = true;
    }
    for (size_t i = def.inputs.size(); i < node.inputs.size(); ++i) {
      if (!used[i]) return DamagedBinary(who + " has more inputs than its op takes");
    }
    return Status::Ok();
  }

  // The node with floats for what stands for them in 16 bits: how floats are stored between nodes
  // is no matter of an op's rules, which see one float type in a node.
  class Widened {
   public:
    explicit Widened(const Node& node) : node_(node) {
      for (auto* ports : {&node_.inputs, &node_.outputs}) {
        for (const Tensor*& tensor : *ports) {
          if (tensor == nullptr || NarrowFloatOf(tensor->dtype) == nullptr) continue;
          wide_.push_back(std::make_unique<Tensor>(*tensor));
          wide_.back()->dtype = QNN_DATATYPE_FLOAT_32;
          // Rules ask whether there is data, and read integers alone.
          if (tensor->is_static()) wide_.back()->data = AlignedBytes::Absent(wide_.back()->bytes());
          tensor = wide_.back().get();
        }
      }
    }
    Node* node() { return &node_; }
    bool changed() const { return !wide_.empty(); }

   private:
    Node node_;
    std::vector<std::unique_ptr<Tensor>> wide_;
  };

  // The package says the rest, now as when the node was added.
  Status CheckPackageNode(Node* node) const {
    const std::string prefix = PackageOpType(node->package, "");
    if (node->package.empty() || node->type.compare(0, prefix.size(), prefix) != 0 ||
        !node->post_ops.empty()) {
      return DamagedBinary("node '" + node->name + "' is of no package's op");
    }
    for (const Param& param : node->params) {
      if (param.type == QNN_DATATYPE_UNDEFINED && !std::holds_alternative<Tensor>(param.value))
        return DamagedBinary("param '" + param.name + "' has no type");
    }
    Status status;
    if (find_ == nullptr) {
      status = Status(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND, "this backend takes no op packages");
    } else {
      Result<std::shared_ptr<const PackageOp>> op =
          find_(node->package, node->type.substr(prefix.size()));
      if (op.ok()) {
        node->package_op = std::move(op).value();
        status = ValidateNode(node);
      } else {
        status = std::move(op).status();
      }
    }
    return std::move(status)
        .WithCode(QNN_CONTEXT_ERROR_BINARY_CONFIGURATION)
        .Within("node '" + node->name + "' of the context binary");
  }

  Status CheckNode(Node* checked) const {
    if (IsPackageOpType(checked->type)) return CheckPackageNode(checked);
    Widened widened(*checked);
    if (!widened.changed()) return CheckWide(checked);
    QNNRT_RETURN_IF_ERROR(CheckWide(widened.node()));
    checked->params = std::move(widened.node()->params);
    return Status::Ok();
  }

  static Status CheckWide(Node* checked) {
    const Node& node = *checked;
    const OpDef* def = FindOp(node.type);
    if (def == nullptr) {
      return Error(QNN_CONTEXT_ERROR_CREATE_FROM_BINARY,
                   "node '%s' of the context binary is a '%s', which this library does not know: "
                   "prepare the model again with this version",
                   node.name.c_str(), node.type.c_str());
    }
    Status status;
    if (node.post_ops.empty()) {
      status = ValidateNode(checked);
    } else {
      QNNRT_RETURN_IF_ERROR(CheckPostOps(node, *def));
      Node plain = node;
      plain.post_ops.clear();
      if (plain.inputs.size() > def->inputs.size()) plain.inputs.resize(def->inputs.size());
      status = ValidateNode(&plain);
      checked->params = std::move(plain.params);
    }
    if (status.ok()) return status;
    return DamagedBinary(status.message());
  }

  Status ReadNode() {
    Node node;
    node.name = in_.Text();
    node.package = in_.Text();
    node.type = in_.Text();
    const uint32_t params = in_.Count(6);
    for (uint32_t i = 0; i < params; ++i) QNNRT_RETURN_IF_ERROR(ReadParam(&node));
    QNNRT_RETURN_IF_ERROR(ReadInputs(&node));
    QNNRT_RETURN_IF_ERROR(ReadOutputs(&node));
    QNNRT_RETURN_IF_ERROR(ReadPostOps(&node));
    if (!in_.ok()) return DamagedBinary("its list of nodes ends too soon");
    QNNRT_RETURN_IF_ERROR(CheckNode(&node));
    result_.graph.nodes.push_back(std::move(node));
    return Status::Ok();
  }

  // The arena plan; Plan verifies it.
  void ReadArenaPlan() {
    ArenaPlan& arena_plan = result_.arena_plan;
    arena_plan.peak = in_.Get<uint64_t>();
    arena_plan.lower_bound = in_.Get<uint64_t>();
    arena_plan.sum = in_.Get<uint64_t>();
    result_.order = in_.Text();
    arena_plan.offsets.resize(in_.Count(sizeof(uint64_t)));
    for (uint64_t& offset : arena_plan.offsets) offset = in_.Get<uint64_t>();
  }

  Status ReadPacked() {
    const uint32_t count = in_.Count(28);
    for (uint32_t i = 0; i < count; ++i) {
      PackedWeight packed;
      packed.node = in_.Get<uint32_t>();
      packed.input = in_.Get<uint32_t>();
      packed.layout = in_.Text();
      const uint64_t offset = in_.Get<uint64_t>();
      const uint64_t size = in_.Get<uint64_t>();
      if (!in_.ok()) return DamagedBinary("its list of packed weights ends too soon");
      if (packed.node >= result_.graph.nodes.size()) {
        return DamagedBinary("packed weight " + std::to_string(i) + " is for node " +
                             std::to_string(packed.node) + ", and there are " +
                             std::to_string(result_.graph.nodes.size()));
      }
      QNNRT_ASSIGN_OR_RETURN(packed.bytes,
                             Weights("packed weight " + std::to_string(i), offset, size));
      result_.packed.push_back(std::move(packed));
    }
    return Status::Ok();
  }

  ByteReader in_;
  std::vector<const Tensor*> all_;
  const WeightsAt& weights_;
  const uint64_t most_bytes_;
  const FindPackageOp& find_;
  std::vector<bool> written_;
  ReadGraphNodes result_;
};

}  // namespace

Result<ReadGraphNodes> ReadNodes(ByteReader in, const std::vector<const Tensor*>& io,
                                 const WeightsAt& weights, uint64_t most_bytes,
                                 const FindPackageOp& find) {
  return NodeReader(in, io, weights, most_bytes, find).Read();
}

}  // namespace qnnrt
