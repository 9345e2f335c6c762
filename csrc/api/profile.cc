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
  if (profile->recording) return std::nullopt;
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
    auto backend = runtime.backends.Find(backend_handle);
    if (!backend)
      return Report(Status(QNN_PROFILE_ERROR_INVALID_ARGUMENT, "the backend handle is not live"));
    if (level != QNN_PROFILE_LEVEL_BASIC && level != QNN_PROFILE_LEVEL_DETAILED) {
      return Report(Error(QNN_PROFILE_ERROR_INVALID_ARGUMENT,
                          "profile level %u is unknown: BASIC is 1, DETAILED is 2", level));
    }
    std::lock_guard<std::mutex> lock(runtime.profile_mutex);
    uint64_t serial = runtime.next_profile++;
    auto entry = runtime.profile_by_serial.emplace(serial, nullptr).first;
    try {
      entry->second =
          runtime.profiles.Add(std::make_unique<Profile>(*backend->backend->traits, level, serial));
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
      QNNRT_RETURN_IF_ERROR(
          AdmitConfig(*profile->traits, ConfigScope::kProfile, c.option, kAtSet).status());
      if (c.option == QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE) {
        profile->optrace = c.enableOptrace != 0;
      } else {
        profile->max_events = c.numMaxEvents == 0 ? kMostEvents : c.numMaxEvents;  // 0: no limit
      }
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
    if (profile->recording) {
      return Report(Status(QNN_PROFILE_ERROR_HANDLE_IN_USE,
                           "a call records with the profile right now: read it after that call"));
    }
    *ids = profile->top_ids.data();
    *count = static_cast<uint32_t>(profile->top_ids.size());
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t GetSubEvents(QnnProfile_EventId_t id, const QnnProfile_EventId_t** ids,
                               uint32_t* count) {
  if (ids == nullptr || count == nullptr) return QNN_PROFILE_ERROR_INVALID_ARGUMENT;
  return WithEvent(id, [&](FoundEvent& found) {
    // Kept with the profile, so that the pointer is valid as long as the events are.
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

Qnn_ErrorHandle_t FreeProfile(Qnn_ProfileHandle_t handle) {
  return Guarded([&] {
    using Table = decltype(Runtime::profiles);
    Runtime& runtime = Runtime::Get();
    std::unique_ptr<Profile> profile;
    switch (runtime.profiles.Take(handle, &profile)) {
      case Table::Taken::kYes:
        break;
      case Table::Taken::kBusy:
        return Report(
            Status(QNN_PROFILE_ERROR_HANDLE_IN_USE,
                   "the profile is in use: a call on another thread records with it, or it is a "
                   "graph's own"));
      default:
        return Report(StaleProfile());
    }
    std::lock_guard<std::mutex> lock(runtime.profile_mutex);
    runtime.profile_by_serial.erase(profile->serial);
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

}  // namespace

void FillProfile(QnnInterface_ImplementationV2_32_t* table) {
  table->profileCreate = Create;
  table->profileSetConfig = SetConfig;
  table->profileGetEvents = GetEvents;
  table->profileGetSubEvents = GetSubEvents;
  table->profileGetEventData = GetEventData;
  table->profileGetExtendedEventData = GetExtendedEventData;
  table->profileFree = FreeProfile;
}

}  // namespace qnnrt::api

namespace qnnrt {

// One call's events at a time: a handle used again starts empty.
void Profile::Clear() {
  events = ProfileScope(level >= QNN_PROFILE_LEVEL_DETAILED || optrace,
                        std::min<uint64_t>(max_events, api::kMostEvents));
  top_ids.clear();
  child_ids.clear();
}

Result<ProfileCall> ProfileCall::Begin(Qnn_ProfileHandle_t handle, ErrorCode code) {
  if (handle == nullptr) return ProfileCall();
  ProfilePin profile = Runtime::Get().profiles.Find(handle);
  if (!profile) return api::StaleProfile().WithCode(code);
  std::lock_guard<std::mutex> lock(profile->mutex);
  if (profile->recording || profile->bound) {
    return Error(QNN_GRAPH_ERROR_PROFILE_IN_USE, "the profile %s; use one profile for each",
                 profile->bound ? "belongs to a graph" : "records another call right now");
  }
  profile->Clear();
  profile->recording = true;
  return ProfileCall(std::move(profile));
}

Result<ProfileCall> ProfileCall::Continue(Qnn_ProfileHandle_t handle) {
  ProfilePin profile = Runtime::Get().profiles.Find(handle);
  if (!profile) return api::StaleProfile().WithCode(QNN_GRAPH_ERROR_SET_PROFILE);
  std::lock_guard<std::mutex> lock(profile->mutex);
  if (profile->recording) {
    return Status(QNN_GRAPH_ERROR_PROFILE_IN_USE,
                  "the graph's profile records another execution right now");
  }
  profile->recording = true;
  return ProfileCall(std::move(profile));
}

ProfileScope* ProfileCall::scope() { return profile_ ? &profile_->events : nullptr; }

void ProfileCall::End() {
  if (!profile_) return;
  {
    std::lock_guard<std::mutex> lock(profile_->mutex);
    profile_->recording = false;
    try {
      const std::vector<uint32_t>& top = profile_->events.top;
      for (size_t i = profile_->top_ids.size(); i < top.size(); ++i) {
        profile_->top_ids.push_back(api::EventId(*profile_, top[i]));
      }
    } catch (const std::bad_alloc&) {
      profile_->top_ids.clear();  // the events are lost, the call they belong to is not
    }
  }
  profile_.Reset();
}

}  // namespace qnnrt
