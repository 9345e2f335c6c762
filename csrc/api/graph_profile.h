// Continuous profiling: a profile that belongs to a graph and collects the events of its
// executions.
#pragma once

#include <atomic>
#include <mutex>

#include "api/config.h"
#include "api/profile_call.h"

namespace qnnrt {

class GraphProfile {
 public:
  GraphProfile() = default;
  GraphProfile(const GraphProfile&) = delete;
  ~GraphProfile();

  // What a config list asked for. Errors: 6006 no profile, 6032 another graph's, or one that a call
  // records with right now. After an error nothing has changed.
  Status Apply(const GraphSettings& settings);

  // A profile is set, enabled or not: executions take no handle of their own.
  bool bound() const { return bound_.load(std::memory_order_acquire); }
  // For one execution: its events are added to those of earlier ones. Nothing while the profile is
  // disabled or has seen as many executions as it should. Errors: 6032 somebody records with it.
  Result<ProfileCall> Begin();
  // What an execution with a handle of its own gets: 6006 when the graph has a profile.
  Status CheckCall(Qnn_ProfileHandle_t handle) const;

 private:
  std::mutex mutex_;
  std::atomic<bool> bound_{false};
  ProfilePin profile_;
  Qnn_ProfileHandle_t handle_ = nullptr;
  bool enabled_ = true;
  uint32_t left_ = UINT32_MAX;  // executions still to be seen
};

}  // namespace qnnrt
