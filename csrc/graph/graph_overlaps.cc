// Inputs and outputs of an execution that have memory in common: whether results stay right.
#include <algorithm>
#include <cinttypes>

#include "abi/qnn_errors.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace qnnrt {

bool Plan::MayShare(size_t input, size_t output, bool same) const {
  const auto step_of = [&](const Slot& slot) {
    const auto behind = std::upper_bound(
        steps_.begin(), steps_.end(), static_cast<const void* const*>(slot.pointer),
        [](const void* const* pointer, const Step& step) { return pointer < step.in; });
    return static_cast<size_t>(behind - steps_.begin()) - 1;
  };
  size_t written = steps_.size();
  for (const Slot& slot : patches_[output]) written = std::min(written, step_of(slot));
  size_t ports = 0;  // of the step that writes the output first, from the input
  for (const Slot& slot : patches_[input]) {
    const size_t at = step_of(slot);
    if (at < written) continue;
    if (at > written || !same) return false;
    const Step& step = steps_[at];
    const Node& node = graph_.nodes[step_nodes_[at]];
    const size_t port =
        static_cast<size_t>(static_cast<const void* const*>(slot.pointer) - step.in);
    if (!IsAlias(node) && !MayOverwrite(node, port)) return false;
    const auto is_whole = [&](const Slot& out) {
      return out.pointer == step.out && out.offset == 0;
    };
    if (slot.offset != 0 ||
        std::none_of(patches_[output].begin(), patches_[output].end(), is_whole)) {
      return false;
    }
    // These read their operand when the node has written.
    for (const PostOp& op : node.post_ops) {
      if (op.kind == PostOp::Kind::kAdd && op.input == port) return false;
    }
    if (++ports > 1 && (FindOp(node.type)->flags & OpDef::kInPlace) == 0) return false;
  }
  return true;
}

Status Graph::CheckOverlap(size_t a, size_t b) const {
  const size_t input = std::min(a, b), output = std::max(a, b);  // or two outputs
  if (output < inputs_.size() || app_[a].bytes == 0 || app_[b].bytes == 0) return Status::Ok();
  const Tensor &in = *app_[input].tensor, &out = *app_[output].tensor;
  if (out.updates == &in) return Status::Ok();  // the state that it is
  const auto planned = [this](size_t i) {
    return pools_ != nullptr && !options_.exclude_io && patched_[i] == plan_->IoAddress(i);
  };
  if (planned(a) && planned(b)) return Status::Ok();
  const bool same = patched_[a] == patched_[b] && app_[a].bytes == app_[b].bytes;
  const bool read = input < inputs_.size();
  if (read && plan_->MayShare(input, output, same)) return Status::Ok();
  const char *begin = static_cast<const char*>(patched_[a]),
             *other = static_cast<const char*>(patched_[b]);
  const char* end = std::min(begin + app_[a].bytes, other + app_[b].bytes);
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "%s '%s' and output '%s' have memory in common (%" PRIu64
               " bytes at %p)%s: give "
               "the output memory of its own",
               read ? "input" : "output", in.name.c_str(), out.name.c_str(),
               static_cast<uint64_t>(end - std::max(begin, other)),
               static_cast<const void*>(std::max(begin, other)),
               read ? ", and the graph would write there what it has yet to read" : "");
}

// What the steps point at, since it has changed.
Status Graph::CheckOverlaps() {
  const auto lower = [&](size_t a, size_t b) { return patched_[a] < patched_[b]; };
  // As a rule other memory lies in the same order.
  if (!std::is_sorted(by_address_.begin(), by_address_.end(), lower))
    std::sort(by_address_.begin(), by_address_.end(), lower);
  for (size_t i = 0; i < by_address_.size(); ++i) {
    const size_t a = by_address_[i];
    const char* end = static_cast<const char*>(patched_[a]) + app_[a].bytes;
    for (size_t j = i + 1; j < by_address_.size() && patched_[by_address_[j]] < end; ++j)
      QNNRT_RETURN_IF_ERROR(CheckOverlap(a, by_address_[j]));
  }
  moved_ = false;
  return Status::Ok();
}

}  // namespace qnnrt
