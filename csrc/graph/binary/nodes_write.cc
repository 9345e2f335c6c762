#include <algorithm>

#include "graph/binary/nodes.h"

namespace qnnrt {

using namespace binary_codes;

namespace {

// `typed`: a package gets its scalars as the client gave them.
void WriteParam(const Param& param, bool typed, ByteWriter* out) {
  out->Text(param.name);
  if (typed && param.type != QNN_DATATYPE_UNDEFINED) {
    out->Put(static_cast<uint8_t>(kTyped));
    out->Put(static_cast<uint32_t>(param.type));
  }
  out->Put(static_cast<uint8_t>(param.value.index()));
  switch (param.value.index()) {
    case kInt:
      out->Put(std::get<int64_t>(param.value));
      break;
    case kFloat:
      out->Put(std::get<double>(param.value));
      break;
    case kBool:
      out->Put(static_cast<uint8_t>(std::get<bool>(param.value)));
      break;
    case kText:
      out->Text(std::get<std::string>(param.value));
      break;
    default: {
      const Tensor& tensor = std::get<Tensor>(param.value);
      WriteTensor(tensor, out);
      out->Bytes(tensor.data->data(), tensor.bytes());
    }
  }
}

class TensorNumbers {
 public:
  explicit TensorNumbers(const std::vector<const Tensor*>& io) {
    for (const Tensor* tensor : io) Of(tensor);
    first_inner_ = all_.size();
  }
  uint32_t Of(const Tensor* tensor) {
    if (tensor == nullptr) return kBinaryNoTensor;
    auto added = numbers_.emplace(tensor, static_cast<uint32_t>(all_.size()));
    if (added.second) all_.push_back(tensor);
    return added.first->second;
  }
  std::vector<const Tensor*> Inner() const {
    return {all_.begin() + static_cast<ptrdiff_t>(first_inner_), all_.end()};
  }

 private:
  std::vector<const Tensor*> all_;
  std::unordered_map<const Tensor*, uint32_t> numbers_;
  size_t first_inner_ = 0;
};

void WritePorts(const std::vector<const Tensor*>& ports, TensorNumbers* numbers, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(ports.size()));
  for (const Tensor* tensor : ports) out->Put(numbers->Of(tensor));
}

void WriteNode(const Node& node, TensorNumbers* numbers, ByteWriter* out) {
  out->Text(node.name);
  out->Text(node.package);
  out->Text(node.type);
  // Defaults are of this version of the library: whoever reads the node adds its own.
  const auto given = [](const Param& param) { return param.given; };
  out->Put(static_cast<uint32_t>(std::count_if(node.params.begin(), node.params.end(), given)));
  for (const Param& param : node.params) {
    if (param.given) WriteParam(param, node.package_op != nullptr, out);
  }
  WritePorts(node.inputs, numbers, out);
  WritePorts(node.outputs, numbers, out);
  out->Put(static_cast<uint32_t>(node.post_ops.size()));
  for (const PostOp& op : node.post_ops) {
    out->Put(static_cast<uint8_t>(op.kind));
    out->Put(static_cast<uint8_t>(op.activation));
    out->Put(op.alpha);
    out->Put(op.beta);
    out->Put(op.input);
  }
}

}  // namespace

uint64_t WeightBlobs::Add(const AlignedBytes* bytes) {
  if (common_ != nullptr) {
    const auto found = common_->offsets_.find(At(bytes));
    if (found != common_->offsets_.end()) return found->second | kBinaryInCommon;
  }
  auto added = offsets_.emplace(At(bytes), end_);
  if (added.second) {
    blobs_.push_back({bytes, end_});
    // Sizes of existing memory: no overflow.
    end_ = (end_ + bytes->size() + kBinaryBlobAlignment - 1) & ~(kBinaryBlobAlignment - 1);
  }
  return added.first->second;
}

uint64_t WeightBlobs::size() const {
  return (end_ + kBinaryPageAlignment - 1) & ~(kBinaryPageAlignment - 1);
}

void WriteNodes(const Plan& plan, const ArenaPlan& arena_plan,
                const std::vector<PassReport>& passes, const std::vector<const Tensor*>& io,
                std::vector<BlobField>* blobs, ByteWriter* out) {
  TensorNumbers numbers(io);
  ByteWriter nodes;
  nodes.Put(static_cast<uint32_t>(plan.nodes().size()));
  for (const Node& node : plan.nodes()) WriteNode(node, &numbers, &nodes);
  const std::vector<const Tensor*> inner = numbers.Inner();
  out->Put(static_cast<uint32_t>(inner.size()));
  for (const Tensor* tensor : inner) {
    WriteTensor(*tensor, out);
    const bool is_static = tensor->type == QNN_TENSOR_TYPE_STATIC;
    const bool stored = is_static && tensor->data != nullptr && tensor->data->there();
    out->Put(static_cast<uint8_t>(stored ? kStored : is_static ? kAbsent : kNone));
    if (stored) blobs->push_back({out->size(), tensor->data.get()});
    out->Put(uint64_t{0});
  }
  const std::vector<uint8_t> written = nodes.Take();
  out->Bytes(written.data(), written.size());
  out->Put(static_cast<uint32_t>(plan.packed().size()));
  for (const PackedWeight& packed : plan.packed()) {
    out->Put(packed.node);
    out->Put(packed.input);
    out->Text(packed.layout);
    blobs->push_back({out->size(), packed.bytes.get()});
    out->Put(uint64_t{0});
    out->Put(static_cast<uint64_t>(packed.bytes->size()));
  }
  out->Put(static_cast<uint32_t>(passes.size()));
  for (const PassReport& pass : passes) {
    out->Text(pass.name);
    out->Put(static_cast<int32_t>(pass.changes));
  }
  out->Put(arena_plan.peak);
  out->Put(arena_plan.lower_bound);
  out->Put(arena_plan.sum);
  out->Text(arena_plan.order);
  out->Put(static_cast<uint32_t>(arena_plan.offsets.size()));
  for (uint64_t offset : arena_plan.offsets) out->Put(offset);
}

}  // namespace qnnrt
