// Where one call writes its profile events.
#pragma once

#include "abi/qnn_objects.h"
#include "api/handles.h"
#include "support/profile.h"
#include "support/status.h"

namespace qnnrt {

struct Profile;
using ProfilePin = Pinned<HandleTable<Profile, HandleKind::kProfile>>;

// The client's profile, emptied first, or none. The profile belongs to the call from Begin until
// this is destroyed, on whatever threads the call runs.
class ProfileCall {
 public:
  ProfileCall() = default;  // nothing
  // handle may be null. Errors: `code` when it is no profile, 6032 another call records with it or
  // it belongs to a graph.
  static Result<ProfileCall> Begin(Qnn_ProfileHandle_t handle, ErrorCode code);
  // For the graph that it belongs to: after the events that are there. Errors: as above.
  static Result<ProfileCall> Continue(Qnn_ProfileHandle_t handle);
  ProfileScope* scope();
  void End();
  ~ProfileCall() { End(); }
  ProfileCall(ProfileCall&&) = default;
  ProfileCall& operator=(ProfileCall&& other) noexcept {
    if (this != &other) {
      End();
      profile_ = std::move(other.profile_);
    }
    return *this;
  }

 private:
  explicit ProfileCall(ProfilePin profile) : profile_(std::move(profile)) {}
  ProfilePin profile_;
};

}  // namespace qnnrt
