// Profile events as a tree of values. Times are microseconds, as the QNN profile API has them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace qnnrt {

struct ProfileEvent {
  uint32_t type = 0;  // QNN_PROFILE_EVENTTYPE_*
  uint32_t unit = 0;  // QNN_PROFILE_EVENTUNIT_*
  uint64_t value = 0;
  uint64_t timestamp = 0;  // microseconds of the monotonic clock, when the event began
  std::string identifier;
  std::vector<uint32_t> children;  // indices into the same list
};

// Where one call writes its events. `detailed` adds the events of single nodes.
class ProfileScope {
 public:
  ProfileScope(bool detailed, uint64_t max_events) : detailed_(detailed), max_events_(max_events) {}
  bool detailed() const { return detailed_; }
  // The event's index, or kFull when the client's limit is reached. parent < 0: a top-level event.
  static constexpr int kFull = -1;
  int Add(uint32_t type, uint32_t unit, uint64_t value, uint64_t timestamp, std::string identifier,
          int parent = -1) {
    if (events.size() >= max_events_) return kFull;
    int index = static_cast<int>(events.size());
    events.push_back({type, unit, value, timestamp, std::move(identifier), {}});
    if (parent >= 0) {
      events[parent].children.push_back(static_cast<uint32_t>(index));
    } else {
      top.push_back(static_cast<uint32_t>(index));
    }
    return index;
  }

  std::vector<ProfileEvent> events;
  std::vector<uint32_t> top;

 private:
  bool detailed_;
  uint64_t max_events_;
};

}  // namespace qnnrt
