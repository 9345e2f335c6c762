// Inputs and outputs of an execution that have memory in common: whether results stay right.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <tuple>

#include "abi/qnn_errors.h"
#include "graph/graph.h"
#include "memory/memory.h"
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

bool Graph::MayOverlap(size_t a, size_t b, bool same) const {
  const size_t input = std::min(a, b), output = std::max(a, b);  // or two outputs
  if (output < inputs_.size() || app_[a].bytes == 0 || app_[b].bytes == 0) return true;
  if (app_[output].tensor->updates == app_[input].tensor) return true;  // the state that it is
  const auto planned = [this](size_t i) {
    return pools_ != nullptr && !options_.exclude_io && patched_[i] == plan_->IoAddress(i);
  };
  if (planned(a) && planned(b)) return true;
  same = same && app_[a].bytes == app_[b].bytes;
  return input < inputs_.size() && plan_->MayShare(input, output, same);
}

Status Graph::InCommon(size_t a, size_t b, uint64_t bytes, const std::string& where) const {
  const size_t input = std::min(a, b), output = std::max(a, b);
  const bool read = input < inputs_.size();
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR,
               "%s '%s' and output '%s' have memory in common (%" PRIu64
               " bytes %s)%s: give "
               "the output memory of its own",
               read ? "input" : "output", app_[input].tensor->name.c_str(),
               app_[output].tensor->name.c_str(), bytes, where.c_str(),
               read ? ", and the graph would write there what it has yet to read" : "");
}

Status Graph::CheckAddresses() {
  const auto lower = [&](size_t a, size_t b) { return patched_[a] < patched_[b]; };
  // As a rule other memory lies in the same order.
  if (!std::is_sorted(by_address_.begin(), by_address_.end(), lower))
    std::sort(by_address_.begin(), by_address_.end(), lower);
  for (size_t i = 0; i < by_address_.size(); ++i) {
    const size_t a = by_address_[i];
    const char* end = static_cast<const char*>(patched_[a]) + app_[a].bytes;
    for (size_t j = i + 1; j < by_address_.size() && patched_[by_address_[j]] < end; ++j) {
      const size_t b = by_address_[j];
      if (MayOverlap(a, b, patched_[a] == patched_[b])) continue;
      const char* begin = static_cast<const char*>(patched_[b]);
      const uint64_t bytes = std::min<uint64_t>(static_cast<uint64_t>(end - begin), app_[b].bytes);
      char where[32];
      std::snprintf(where, sizeof where, "at %p", patched_[b]);
      return InCommon(a, b, bytes, where);
    }
  }
  return Status::Ok();
}

// The same for memory at several addresses: by file and place. A client's own mappings are known
// where they were registered, not where they are given as raw memory.
Status Graph::CheckFiles(const Binding& binding) {
  Memory& memory = Memory::Get();
  places_.clear();
  for (size_t i = 0; i < app_.size(); ++i) {
    const Binding::Entry& entry = binding.entries[i];
    // What the steps use in its place is nobody else's.
    if (app_[i].bytes == 0 || entry.address != patched_[i]) continue;
    if (entry.handle != 0) {
      const MemRegistration* r = memory.registry().TryAcquire(entry.handle, context_);
      if (r == nullptr) continue;  // the binding has it pinned: it is there
      if (r->fd >= 0) places_.push_back({r->id, r->offset, i});
      memory.registry().Release(entry.handle);
      continue;
    }
    const BufferPin buffer(&memory.buffers(), memory.buffers().PinByAddress(entry.address));
    if (!buffer || buffer->fd < 0) continue;
    const auto within =
        static_cast<uint64_t>(static_cast<uint8_t*>(entry.address) - buffer->address);
    places_.push_back({buffer->id, buffer->fd_offset + within, i});
  }
  std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return std::tie(a.id.device, a.id.inode, a.begin) < std::tie(b.id.device, b.id.inode, b.begin);
  });
  for (auto a = places_.begin(); a != places_.end(); ++a) {
    const uint64_t end = a->begin + app_[a->app_tensor].bytes;
    for (auto b = a + 1; b != places_.end() && b->id == a->id && b->begin < end; ++b) {
      if (MayOverlap(a->app_tensor, b->app_tensor, a->begin == b->begin)) continue;
      char where[128];
      std::snprintf(where, sizeof where, "of a file that is mapped at %p and at %p",
                    patched_[a->app_tensor], patched_[b->app_tensor]);
      const uint64_t bytes = std::min(end - b->begin, app_[b->app_tensor].bytes);
      return InCommon(a->app_tensor, b->app_tensor, bytes, where);
    }
  }
  return Status::Ok();
}

// What the steps point at, since it has changed.
Status Graph::CheckOverlaps(const Binding& binding, uint64_t mapped_twice) {
  QNNRT_RETURN_IF_ERROR(CheckAddresses());
  if (mapped_twice != 0) QNNRT_RETURN_IF_ERROR(CheckFiles(binding));
  moved_ = false;
  compared_with_ = mapped_twice;
  return Status::Ok();
}

}  // namespace qnnrt
