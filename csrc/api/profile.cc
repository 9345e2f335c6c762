#include <optional>

#include "api/functions.h"

namespace qnnrt::api {
namespace {

constexpr int kIndexBits = 24;  // event id: serial of its profile, then index + 1
constexpr uint64_t kMostEvents = (1u << kIndexBits) - 1;

Status StaleProfile() {
  return Status(QNN_PROFILE_ERROR_INVALID_HANDLE, "this is no live profile handle");
}
QnnProfile_EventId_t EventId(const Profile& profile, uint32_t index) {
  return profile.serial << kIndexBits | (index + 1);
}

// The profile that an event id belongs to, pinned and locked, and the event.
struct FoundEvent {
  decltype(Runtime::profiles)::Pin profile;
  std::unique_lock<std::mutex> lock;
  const ProfileEvent* event = nullptr;
  uint32_t index = 0;
};

std::optional<FoundEvent> FindEvent(QnnProfile_EventId_t id) {
  Runtime& runtime = Runtime::Get();
  Qnn_ProfileHandle_t handle = nullptr;
  {
    std::lock_guard<std::mutex> lock(runtime.profile_mutex);
    auto entry = runtime.profile_by_serial.find(id >> kIndexBits);
    if (entry == runtime.profile_by_serial.end()) return std::nullopt;
    handle = entry->second;
  }
  auto profile = runtime.profiles.Find(handle);
  if (!profile) return std::nullopt;
  std::unique_lock<std::mutex> lock(profile->mutex);
  uint64_t index = (id & kMostEvents) - 1;
  if (index >= profile->events.events.size()) return std::nullopt;
  const ProfileEvent* event = &profile->events.events[index];
  return FoundEvent{std::move(profile), std::move(lock), event, static_cast<uint32_t>(index)};
}

template <typename Body>
Qnn_ErrorHandle_t WithEvent(QnnProfile_EventId_t id, Body body) {
  return Guarded([&] {
    std::optional<FoundEvent> found = FindEvent(id);
    if (!found) {
      return Report(Error(QNN_PROFILE_ERROR_INVALID_HANDLE,
                          "event %llu is of no live profile, or its profile was used again since",
                          static_cast<unsigned long long>(id)));
    }
    body(*found);
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t Create(Qnn_BackendHandle_t backend_handle, QnnProfile_Level_t level,
                         Qnn_ProfileHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_PROFILE_ERROR_INVALID_ARGUMENT,
                           "the profile handle to fill in must not be null"));
    *handle = nullptr;
    Runtime& runtime = Runtime::Get();
    if (!runtime.backends.Find(backend_handle))
      return Report(Status(QNN_PROFILE_ERROR_INVALID_ARGUMENT, "the backend handle is not live"));
    if (level != QNN_PROFILE_LEVEL_BASIC && level != QNN_PROFILE_LEVEL_DETAILED) {
      return Report(Error(QNN_PROFILE_ERROR_INVALID_ARGUMENT,
                          "profile level %u is unknown: BASIC is 1, DETAILED is 2", level));
    }
    std::lock_guard<std::mutex> lock(runtime.profile_mutex);
    uint64_t serial = runtime.next_profile++;
    auto entry = runtime.profile_by_serial.emplace(serial, nullptr).first;
    try {
      entry->second = runtime.profiles.Add(std::make_unique<Profile>(level, serial));
    } catch (...) {
      runtime.profile_by_serial.erase(entry);
      throw;
    }
    if (entry->second == nullptr) {
      runtime.profile_by_serial.erase(entry);
      return Report(Status(QNN_PROFILE_ERROR_MEM_ALLOC, "too many live profiles"));
    }
    *handle = entry->second;
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetConfig(Qnn_ProfileHandle_t handle, const QnnProfile_Config_t** config) {
  return Guarded([&] {
    auto profile = Runtime::Get().profiles.Find(handle);
    if (!profile) return Report(StaleProfile());
    std::lock_guard<std::mutex> lock(profile->mutex);
    return Report(ForEachConfig(config, [&](const QnnProfile_Config_t& c) -> Status {
      if (c.option != QNN_PROFILE_CONFIG_OPTION_MAX_EVENTS) {
        return Error(QNN_PROFILE_ERROR_UNSUPPORTED, "profile config option %d is not supported",
                     static_cast<int>(c.option));
      }
      profile->max_events = c.numMaxEvents == 0 ? kMostEvents : c.numMaxEvents;  // 0: no limit
      return Status::Ok();
    }));
  });
}

Qnn_ErrorHandle_t GetEvents(Qnn_ProfileHandle_t handle, const QnnProfile_EventId_t** ids,
                            uint32_t* count) {
  return Guarded([&] {
    if (ids == nullptr || count == nullptr)
      return Report(Status(QNN_PROFILE_ERROR_INVALID_ARGUMENT, "ids and count must not be null"));
    auto profile = Runtime::Get().profiles.Find(handle);
    if (!profile) return Report(StaleProfile());
    std::lock_guard<std::mutex> lock(profile->mutex);
    *ids = profile->top_ids.data();
    *count = static_cast<uint32_t>(profile->top_ids.size());
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t GetSubEvents(QnnProfile_EventId_t id, const QnnProfile_EventId_t** ids,
                               uint32_t* count) {
  if (ids == nullptr || count == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  return WithEvent(id, [&](FoundEvent& found) {
    // Kept with the profile, so that the pointer lives as long as the events do.
    auto& kept = found.profile->child_ids[found.index];
    if (kept.empty()) {
      kept.reserve(found.event->children.size());  // all of them or none
      for (uint32_t child : found.event->children) kept.push_back(EventId(*found.profile, child));
    }
    *ids = kept.data();
    *count = static_cast<uint32_t>(kept.size());
  });
}

Qnn_ErrorHandle_t GetEventData(QnnProfile_EventId_t id, QnnProfile_EventData_t* data) {
  if (data == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  return WithEvent(id, [&](FoundEvent& found) {
    const ProfileEvent& e = *found.event;
    *data = {e.type, e.unit, e.value, e.identifier.c_str()};
  });
}

Qnn_ErrorHandle_t GetExtendedEventData(QnnProfile_EventId_t id,
                                       QnnProfile_ExtendedEventData_t* data) {
  if (data == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  return WithEvent(id, [&](FoundEvent& found) {
    const ProfileEvent& e = *found.event;
    data->version = QNN_PROFILE_DATA_VERSION_1;
    data->v1.type = e.type;
    data->v1.unit = e.unit;
    data->v1.value.dataType = QNN_DATATYPE_UINT_64;
    data->v1.value.uint64Value = e.value;
    data->v1.timestamp = e.timestamp;
    data->v1.identifier = e.identifier.c_str();
  });
}

Qnn_ErrorHandle_t Free(Qnn_ProfileHandle_t handle) {
  return Guarded([&] {
    using Table = decltype(Runtime::profiles);
    Runtime& runtime = Runtime::Get();
    std::unique_ptr<Profile> profile;
    switch (runtime.profiles.Take(handle, &profile)) {
      case Table::Taken::kYes:
        break;
      case Table::Taken::kBusy:
        return Report(Status(QNN_PROFILE_ERROR_HANDLE_IN_USE,
                             "the profile is in use by a call on another thread"));
      default:
        return Report(StaleProfile());
    }
    std::lock_guard<std::mutex> lock(runtime.profile_mutex);
    runtime.profile_by_serial.erase(profile->serial);
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

}  // namespace

Result<ProfileCall> ProfileCall::Begin(Qnn_ProfileHandle_t handle, ErrorCode code) {
  if (handle == nullptr) return ProfileCall(Pin());
  Pin profile = Runtime::Get().profiles.Find(handle);
  if (!profile) return StaleProfile().WithCode(code);
  ProfileCall call(std::move(profile));
  std::unique_lock<std::mutex> lock(call.profile_->mutex, std::try_to_lock);
  if (!lock.owns_lock())
    return Status(QNN_GRAPH_ERROR_PROFILE_IN_USE,
                  "the profile records another call right now; use one profile for each");
  // One call's events at a time: a handle used again starts empty.
  Profile& p = *call.profile_;
  p.events = ProfileScope(p.level >= QNN_PROFILE_LEVEL_DETAILED,
                          std::min<uint64_t>(p.max_events, kMostEvents));
  p.top_ids.clear();
  p.child_ids.clear();
  call.lock_ = std::move(lock);
  return call;
}

ProfileCall::~ProfileCall() {
  if (!lock_.owns_lock() || !profile_) return;
  try {
    for (uint32_t index : profile_->events.top) {
      profile_->top_ids.push_back(EventId(*profile_, index));
    }
  } catch (const std::bad_alloc&) {
    profile_->top_ids.clear();  // the events are lost, the call they belong to is not
  }
}

void FillProfile(QnnInterface_ImplementationV2_32_t* table) {
  table->profileCreate = Create;
  table->profileSetConfig = SetConfig;
  table->profileGetEvents = GetEvents;
  table->profileGetSubEvents = GetSubEvents;
  table->profileGetEventData = GetEventData;
  table->profileGetExtendedEventData = GetExtendedEventData;
  table->profileFree = Free;
}

}  // namespace qnnrt::api
