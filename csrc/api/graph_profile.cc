#include "api/graph_profile.h"

#include "api/runtime.h"

namespace qnnrt {
namespace {

void Unbind(Profile* profile) {
  std::lock_guard<std::mutex> lock(profile->mutex);
  profile->bound = false;
}

}  // namespace

GraphProfile::~GraphProfile() {
  if (profile_) Unbind(&*profile_);
}

Status GraphProfile::Apply(const GraphSettings& settings) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (settings.profile.has_value() && *settings.profile != handle_) {
    ProfilePin next;
    if (*settings.profile != nullptr) {
      ProfilePin found = Runtime::Get().profiles.Find(*settings.profile);
      if (!found)
        return Status(QNN_GRAPH_ERROR_SET_PROFILE, "PROFILE_HANDLE is no live profile handle");
      std::lock_guard<std::mutex> profile_lock(found->mutex);
      if (found->bound || found->recording) {
        return Status(QNN_GRAPH_ERROR_PROFILE_IN_USE,
                      "the profile is another graph's, or a call records with it right now: use "
                      "one profile for each graph");
      }
      found->bound = true;
      found->Clear();
      next = std::move(found);
    }
    if (profile_) Unbind(&*profile_);
    profile_ = std::move(next);
    handle_ = *settings.profile;
    bound_.store(handle_ != nullptr, std::memory_order_release);
  }
  if (settings.profiling.has_value()) enabled_ = *settings.profiling;
  if (settings.profiled_executions.has_value()) left_ = *settings.profiled_executions;
  return Status::Ok();
}

Result<ProfileCall> GraphProfile::Begin() {
  if (!bound()) return ProfileCall();
  std::lock_guard<std::mutex> lock(mutex_);
  if (!profile_ || !enabled_ || left_ == 0) return ProfileCall();
  Result<ProfileCall> call = ProfileCall::Continue(handle_);
  if (call.ok() && left_ != UINT32_MAX) --left_;
  return call;
}

Status GraphProfile::CheckCall(Qnn_ProfileHandle_t handle) const {
  if (handle == nullptr || !bound()) return Status::Ok();
  return Status(QNN_GRAPH_ERROR_SET_PROFILE,
                "the graph has a profile of its own (PROFILE_HANDLE), which excludes one for a "
                "single execution: pass null, or take the graph's away first");
}

}  // namespace qnnrt
