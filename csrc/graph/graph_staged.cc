// Executions on a backend that sees shared memory alone: RAW tensors through staging memory, and
// CPU access to memory without coherence between its sync calls.
#include <algorithm>
#include <string>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "graph/graph.h"
#include "memory/mapping.h"
#include "memory/memory.h"

namespace qnnrt {
namespace {

// DMA_BUF_IOCTL_SYNC around one execution's access, for each such tensor.
class CpuAccessScope {
 public:
  explicit CpuAccessScope(const std::vector<Binding::Sync>& syncs) : syncs_(syncs) {}
  ~CpuAccessScope() { (void)End(); }
  CpuAccessScope(const CpuAccessScope&) = delete;
  CpuAccessScope& operator=(const CpuAccessScope&) = delete;

  Status Begin() {
    for (; begun_ < syncs_.size(); ++begun_) {
      QNNRT_RETURN_IF_ERROR(
          DmaBufSync(syncs_[begun_].fd, syncs_[begun_].access, SyncPoint::kBegin));
    }
    return Status::Ok();
  }
  // Of everything that began, whatever fails; the first error.
  Status End() {
    Status first;
    while (begun_ > 0) {
      --begun_;
      Status status = DmaBufSync(syncs_[begun_].fd, syncs_[begun_].access, SyncPoint::kEnd);
      if (first.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  const std::vector<Binding::Sync>& syncs_;
  size_t begun_ = 0;
};

}  // namespace

Status Graph::CheckStrict(const Binding& binding) const {
  for (size_t i = 0; i < app_.size(); ++i) {
    const Binding::Entry& entry = binding.entries[i];
    if (app_[i].bytes == 0) continue;  // nothing is copied
    if (entry.handle == 0 && entry.address != staging_->address(i)) return staging_->Refuse(i);
  }
  return Status::Ok();
}

// Points the steps at registered memory and at the staging slots of RAW tensors, and copies RAW
// inputs into theirs.
Status Graph::StageIn(const Binding& binding) {
  QNNRT_RETURN_IF_ERROR(staging_->CheckOwned());
  unstaged_.clear();
  for (size_t i = 0; i < app_.size(); ++i) {
    const bool staged =
        binding.entries[i].handle == 0 && app_[i].bytes != 0 && app_[i].tensor->updates == nullptr;
    if (staged && staging_->address(i) == nullptr) unstaged_.push_back(i);
  }
  if (!unstaged_.empty()) QNNRT_RETURN_IF_ERROR(staging_->ReserveFor(unstaged_));
  for (size_t i = 0; i < app_.size(); ++i) {
    const Binding::Entry& entry = binding.entries[i];
    Patch(i, entry.handle == 0 ? staging_->address(i) : entry.address);
    if (entry.handle == 0 && i < inputs_.size()) staging_->CopyIn(i, entry.address);
  }
  return Status::Ok();
}

void Graph::StageOut(const Binding& binding) {
  for (size_t i = inputs_.size(); i < app_.size(); ++i) {
    if (binding.entries[i].handle == 0) staging_->CopyOut(i, binding.entries[i].address);
  }
}

Status Graph::RunStaged(const Binding& binding, const RunOptions& options) {
  const uint64_t first = Ticks::Now();
  ProfileScope* profile = options.profile;
  const bool nodes = profile != nullptr && profile->detailed();
  if (options.interrupt != nullptr) QNNRT_RETURN_IF_ERROR(options.interrupt->Check());
  const StagingStats before =
      profile == nullptr || staging_ == nullptr ? StagingStats() : staging_->stats();
  const auto now = [profile] { return profile == nullptr ? 0 : MonotonicNanoseconds(); };
  const uint64_t start = now();
  CpuAccessScope access(binding.syncs);
  QNNRT_RETURN_IF_ERROR(access.Begin());
  if (staging_ != nullptr) {
    QNNRT_RETURN_IF_ERROR(StageIn(binding));
  } else {
    Apply(binding);
  }
  QNNRT_RETURN_IF_ERROR(CheckMoved(binding));
  const uint64_t staged = now();
  if (nodes)
    std::fill(step_times_.begin(), step_times_.end(), 0);  // an early termination skips steps
  Status status = profile == nullptr && options.interrupt == nullptr
                      ? plan_->Run()
                      : plan_->RunWatched(nodes ? step_times_.data() : nullptr, options.interrupt);
  if (!Executed(status)) return status;
  const uint64_t computed = now();
  if (staging_ != nullptr && status.ok()) StageOut(binding);
  QNNRT_RETURN_IF_ERROR(access.End());
  Count(first);
  if (profile == nullptr) return status;
  const uint64_t end = now();
  const int top = profile->Add(QNN_PROFILE_EVENTTYPE_EXECUTE, QNN_PROFILE_EVENTUNIT_MICROSEC,
                               (end - start) / 1000, start / 1000, "execute");
  if (top < 0) return status;
  AddCopyEvents(before, true, start, staged, profile, top);
  uint64_t at = staged;
  for (size_t s = 0; nodes && s < step_times_.size(); ++s) {
    profile->Add(QNN_PROFILE_EVENTTYPE_NODE, QNN_PROFILE_EVENTUNIT_MICROSEC, step_times_[s] / 1000,
                 at / 1000, plan_->node(s).name, top);
    at += step_times_[s];
  }
  AddCopyEvents(before, false, computed, end, profile, top);
  return status;
}

// PREPROCESS or POSTPROCESS of this execution: its time, with the bytes that it copied below.
void Graph::AddCopyEvents(const StagingStats& before, bool input, uint64_t start, uint64_t end,
                          ProfileScope* profile, int top) const {
  if (staging_ == nullptr) return;
  const int event = profile->Add(
      input ? QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS : QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS,
      QNN_PROFILE_EVENTUNIT_MICROSEC, (end - start) / 1000, start / 1000,
      input ? "stage in" : "stage out", top);
  if (event < 0) return;
  const StagingStats after = staging_->stats();
  const auto add = [&](uint64_t bytes, const char* what) {
    profile->Add(QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_BYTES, bytes, start / 1000,
                 what, event);
  };
  if (!input) return add(after.copied_out - before.copied_out, "copied out");
  add(after.copied_in - before.copied_in, "copied in");
  if (after.reserved_at_execute != before.reserved_at_execute)
    add(after.reserved_at_execute - before.reserved_at_execute, "reserved for staging");
}

Result<void*> Graph::StagingAddress(uint32_t id) {
  auto lock = Lock();
  if (!finalized()) return NotFinalized();
  if (staging_ == nullptr) {
    return Error(QNN_COMMON_ERROR_NOT_SUPPORTED,
                 "graph '%s' stages nothing: it uses the client's memory where it is",
                 name_.c_str());
  }
  QNNRT_RETURN_IF_ERROR(staging_->CheckOwned());
  for (size_t i = 0; i < app_.size(); ++i) {
    if (app_[i].tensor->id != id) continue;
    if (staging_->address(i) == nullptr) QNNRT_RETURN_IF_ERROR(staging_->ReserveFor({i}));
    return staging_->address(i);
  }
  return Error(QNN_GRAPH_ERROR_INVALID_TENSOR, "graph '%s' has no input or output of id %u",
               name_.c_str(), id);
}

// Without the lock: the client's log callback may call into this graph, or wait for a thread that
// does.
void Graph::LogCopies() {
  if (!host_.warn) return;
  std::vector<std::string> lines;
  try {
    auto lock = Lock();
    lines = staging_->TakeLogLines();
  } catch (const std::bad_alloc&) {
    return;  // the execution succeeded; a later one logs it
  }
  for (const std::string& line : lines) host_.warn(line.c_str());
}

}  // namespace qnnrt
