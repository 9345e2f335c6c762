#include "graph/weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "abi/qnn_errors.h"
#include "graph/binary/binary.h"
#include "graph/binary/io.h"
#include "graph/node_text.h"
#include "ops/blocked_layout.h"
#include "ops/op.h"
#include "ops/rules.h"

namespace qnnrt {

Result<uint64_t> ConstantsToKeep(std::optional<bool> asked, bool released) {
  if (asked.has_value()) return *asked ? UINT64_MAX : uint64_t{0};
  if (released) return uint64_t{0};
  static const char* const text = std::getenv("QNNRT_KEEP_CONSTANTS_MIB");
  if (text == nullptr || *text == '\0') return uint64_t{64} << 20;
  const size_t digits = std::strspn(text, "0123456789");
  if (text[digits] != '\0' || digits > 9) {
    return Error(
        QNN_GRAPH_ERROR_INVALID_ARGUMENT,
        "QNNRT_KEEP_CONSTANTS_MIB in the environment is a whole number of MiB, up to which "
        "a graph's constants are kept (0: none are), not '%s'",
        text);
  }
  return uint64_t{std::strtoul(text, nullptr, 10)} << 20;
}

std::shared_ptr<AlignedBytes> Shared(const ShareScope& scope, std::shared_ptr<AlignedBytes> data,
                                     const Threads& threads) {
  if (!scope || data->size() < kLeastShared || !data->loaded()) return data;
  const ContentKey key{data->digest(threads), data->size(), *scope};
  std::shared_ptr<AlignedBytes> found = ContentTable::Get().Find(key);
  return found != nullptr ? found : ContentTable::Get().Publish(key, std::move(data));
}

namespace {

// What bytes that a kernel packs may depend on: all of a node but its name, what is fused to it,
// and the shapes of tensors without data.
std::vector<uint8_t> TextOf(const Node& node, const Threads& threads) {
  ByteWriter out;
  const auto port = [&](const Tensor* tensor) {
    out.Put(static_cast<uint8_t>(tensor != nullptr));
    if (tensor == nullptr) return;
    PutElements(*tensor, &out);
    out.Put(static_cast<uint32_t>(tensor->shape.size()));
    const bool known = tensor->is_static() && tensor->data->there();
    out.Put(static_cast<uint8_t>(known));
    if (!known) return;
    PutShape(*tensor, &out);
    PutData(*tensor, threads, &out);
  };
  PutOp(
      node, [&](const Tensor& value) { port(&value); }, &out);
  // Behind those of the op are operands of what is fused.
  const OpDef* def = FindOp(node.type);
  const size_t inputs =
      std::min(node.inputs.size(), def == nullptr ? SIZE_MAX : def->inputs.size());
  for (size_t i = 0; i < inputs; ++i) port(node.inputs[i]);
  for (const Tensor* tensor : node.outputs) port(tensor);
  return out.Take();
}

}  // namespace

void WeightRecorder::SetNode(size_t number, const Node& node) {
  GraphWeights::SetNode(number, node);
  of_ = &node;
  node_text_.clear();
  asked_.clear();
}

ContentKey WeightRecorder::KeyOf(size_t input, uint64_t size, const std::string& layout,
                                 const std::string& from) {
  if (node_text_.empty()) node_text_ = TextOf(*of_, threads_);
  ByteWriter text;
  text.Put(static_cast<uint64_t>(input));
  text.Put(static_cast<uint64_t>(std::count(asked_.begin(), asked_.end(), input)));
  asked_.push_back(input);
  text.Text(layout);
  text.Text(from);
  text.Bytes(node_text_.data(), node_text_.size());
  // A size of its own, so that no text is taken for a constant's bytes.
  const std::vector<uint8_t> bytes = text.Take();
  Digest digest = DigestOf(bytes.data(), bytes.size());
  digest[3] ^= bytes.size() << 1 | 1;
  return {digest, size, *scope_};
}

Result<SharedBytes> WeightRecorder::Packed(size_t input, uint64_t size, const std::string& layout,
                                           Fill fill, const std::string& from) {
  std::shared_ptr<const AlignedBytes> bytes;
  std::optional<ContentKey> key;
  if (scope_ && of_ != nullptr && size >= kLeastShared) {
    key = KeyOf(input, size, layout, from);
    bytes = ContentTable::Get().Find(*key);
  }
  if (bytes == nullptr) {
    std::shared_ptr<AlignedBytes> packed = AlignedBytes::Make(size);
    if (packed == nullptr) return OutOfMemory();
    QNNRT_RETURN_IF_ERROR(fill(packed->data()));
    bytes = key ? ContentTable::Get().Publish(*key, std::move(packed)) : std::move(packed);
  }
  packed_.push_back({node(), static_cast<uint32_t>(input), layout, bytes});
  return bytes;
}

WeightReader::WeightReader(std::vector<PackedWeight> packed, std::string made_with,
                           bool portable_only, ThreadChange threads, bool moves)
    : packed_(std::move(packed)),
      left_(packed_.size()),
      made_with_(std::move(made_with)),
      portable_only_(portable_only),
      threads_(threads),
      moves_(moves) {
  for (size_t i = packed_.size(); i-- > 0;)
    waiting_[Key(packed_[i].node, packed_[i].input)].push_back(i);
}

Status WeightReader::Mismatch(const std::string& wanted, const std::string& there) const {
  if (threads_.before != threads_.now) {
    return Error(QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES,
                 "the weights of the context binary were packed for %d threads (%s) and do not fit "
                 "%d here (%s): wanted as %s, the binary has %s; leave out the number of threads, "
                 "or prepare the model for %d",
                 threads_.before, made_with_.c_str(), threads_.now,
                 KernelIdentity(portable_only_).c_str(), wanted.c_str(), there.c_str(),
                 threads_.now);
  }
  return Error(QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES,
               "the context binary was prepared for other kernels (%s; this machine has %s): "
               "weights are wanted as %s, the binary has %s; prepare the model again on this "
               "machine, or with its constants (KEEP_CONSTANTS, or QNNRT_KEEP_CONSTANTS_MIB)",
               made_with_.c_str(), KernelIdentity(portable_only_).c_str(), wanted.c_str(),
               there.c_str());
}

Result<bool> WeightReader::Move(PackedWeight* weight, uint64_t size, const std::string& layout) {
  if (!moves_ || weight->bytes->data() == nullptr) return false;
  std::shared_ptr<AlignedBytes> moved = AlignedBytes::Make(size);
  if (moved == nullptr) return OutOfMemory();
  if (!MoveBlocks(weight->layout, weight->bytes->data(), weight->bytes->size(), layout,
                  moved->data(), size))
    return false;
  weight->layout = layout;
  weight->bytes = std::move(moved);
  moved_bytes_ += size;
  return true;
}

Result<SharedBytes> WeightReader::Packed(size_t input, uint64_t size, const std::string& layout,
                                         Fill, const std::string&) {
  const std::string wanted = "'" + layout + ", " + std::to_string(size) + " bytes'";
  const auto found = waiting_.find(Key(node(), static_cast<uint32_t>(input)));
  if (found == waiting_.end() || found->second.empty())
    return Mismatch(wanted, "none for input " + std::to_string(input));
  PackedWeight& weight = packed_[found->second.back()];
  bool fits = weight.layout == layout && weight.bytes->size() == size;
  if (!fits) {
    QNNRT_ASSIGN_OR_RETURN(fits, Move(&weight, size, layout));
  }
  if (!fits) {
    return Mismatch(wanted,
                    "'" + weight.layout + ", " + std::to_string(weight.bytes->size()) + " bytes'");
  }
  found->second.pop_back();
  --left_;
  return weight.bytes;
}

Status WeightReader::Done() const {
  if (left_ == 0) return Status::Ok();
  return Mismatch("no more", std::to_string(left_) + " that no kernel reads");
}

}  // namespace qnnrt
