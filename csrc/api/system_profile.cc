// Profile events into a file: docs/profile-log.md describes the format. One JSON object a line, so
// a log that was cut short reads up to there, and one write a call, so that it is cut between
// lines.
#include <cinttypes>
#include <filesystem>
#include <mutex>

#include "api/runtime.h"
#include "api/system.h"
#include "support/json.h"
#include "support/line_log.h"
#include "support/number_of.h"
#include "support/version.h"

namespace qnnrt::system {
namespace {

constexpr ErrorCode kArgument = QNN_SYSTEM_PROFILE_ERROR_INVALID_ARGUMENT;
constexpr int kDeepest = 64;  // sub-events within each other

const char* Text(const char* text) { return text == nullptr ? "" : text; }

// ---- events as JSON ----

std::string Base64(const uint8_t* data, uint64_t size) {
  static const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (uint64_t i = 0; i < size; i += 3) {
    uint32_t word = static_cast<uint32_t>(data[i]) << 16;
    if (i + 1 < size) word |= static_cast<uint32_t>(data[i + 1]) << 8;
    if (i + 2 < size) word |= data[i + 2];
    text += kDigits[word >> 18];
    text += kDigits[word >> 12 & 63];
    text += i + 1 < size ? kDigits[word >> 6 & 63] : '=';
    text += i + 2 < size ? kDigits[word & 63] : '=';
  }
  return text;
}

Status Scalar(JsonWriter* json, const Qnn_Scalar_t& s) {
  json->Key("value");
  switch (s.dataType) {
    case QNN_DATATYPE_UINT_64:
      json->Number(s.uint64Value);
      break;
    case QNN_DATATYPE_INT_64:
      json->Number(s.int64Value);
      break;
    case QNN_DATATYPE_UINT_32:
      json->Number(s.uint32Value);
      break;
    case QNN_DATATYPE_INT_32:
      json->Number(s.int32Value);
      break;
    case QNN_DATATYPE_UINT_16:
      json->Number(s.uint16Value);
      break;
    case QNN_DATATYPE_INT_16:
      json->Number(s.int16Value);
      break;
    case QNN_DATATYPE_UINT_8:
      json->Number(s.uint8Value);
      break;
    case QNN_DATATYPE_INT_8:
      json->Number(s.int8Value);
      break;
    case QNN_DATATYPE_BOOL_8:
      json->Bool(s.bool8Value != 0);
      break;
    case QNN_DATATYPE_FLOAT_32:
      json->Number(s.floatValue);
      break;
    case QNN_DATATYPE_FLOAT_64:
      json->Number(s.doubleValue);
      break;
    case QNN_DATATYPE_STRING:
      json->String(Text(s.stringValue));
      break;
    default:
      return Error(kArgument, "an event's value has data type 0x%x, which no scalar has",
                   static_cast<unsigned>(s.dataType));
  }
  return Status::Ok();
}

Status Extended(JsonWriter* json, const QnnProfile_ExtendedEventData_t& data) {
  if (data.version != QNN_PROFILE_DATA_VERSION_1)
    return Error(kArgument, "extended event data of version %d: known is 1",
                 static_cast<int>(data.version));
  const QnnProfile_ExtendedEventDataV1_t& e = data.v1;
  json->Key("type").Number(e.type).Key("unit").Number(e.unit);
  if (e.unit == QNN_PROFILE_EVENTUNIT_OBJECT) {
    const Qnn_OpaqueObject_t& object = e.backendOpaqueObject.opaqueObject;
    if (object.data == nullptr && object.len != 0)
      return Error(kArgument, "an event's object has %" PRIu64 " bytes at a null address",
                   object.len);
    json->Key("object").Object().Key("file").String(Text(e.backendOpaqueObject.fileName));
    json->Key("base64").String(Base64(static_cast<const uint8_t*>(object.data), object.len)).End();
  } else {
    QNNRT_RETURN_IF_ERROR(Scalar(json, e.value));
  }
  json->Key("id").String(Text(e.identifier)).Key("timestamp").Number(e.timestamp);
  return Status::Ok();
}

Status Events(JsonWriter* json, const QnnSystemProfile_ProfileEventV1_t* events, uint32_t count,
              int depth) {
  if (depth > kDeepest) return Error(kArgument, "events nest deeper than %d levels", kDeepest);
  if (events == nullptr && count != 0)
    return Error(kArgument, "%u events at a null address", count);
  json->Key("events").Array();
  for (uint32_t i = 0; i < count; ++i) {
    const QnnSystemProfile_ProfileEventV1_t& event = events[i];
    json->Object();
    if (event.type == QNN_SYSTEM_PROFILE_EVENT_DATA) {
      const QnnProfile_EventData_t& e = event.eventData;
      json->Key("type").Number(e.type).Key("unit").Number(e.unit).Key("value").Number(e.value);
      json->Key("id").String(Text(e.identifier));
    } else if (event.type == QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA) {
      QNNRT_RETURN_IF_ERROR(Extended(json, event.extendedEventData));
    } else {
      return Error(kArgument, "event data type %d is unknown: 0 or 1",
                   static_cast<int>(event.type));
    }
    if (event.numSubEvents != 0)
      QNNRT_RETURN_IF_ERROR(Events(json, event.profileSubEventData, event.numSubEvents, depth + 1));
    json->End();
  }
  json->End();
  return Status::Ok();
}

Status Message(const QnnSystemProfile_ProfileData_t* data, std::string* text) {
  if (data == nullptr) return Status(kArgument, "profile data must not be null");
  if (data->version != QNN_SYSTEM_PROFILE_DATA_VERSION_1)
    return Error(kArgument, "profile data of version %d: known is 1",
                 static_cast<int>(data->version));
  const QnnSystemProfile_HeaderV1_t& h = data->v1.header;
  JsonWriter json;
  json.Object().Key("method").Number(NumberOf(h.methodType));
  if (h.graphName != nullptr) json.Key("graph").String(h.graphName);
  json.Key("start").Number(h.startTime).Key("stop").Number(h.stopTime);
  json.Key("start_mem").Number(h.startMem).Key("stop_mem").Number(h.stopMem);
  json.Key("private").Bool(NumberOf(h.visibility) == QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE);
  QNNRT_RETURN_IF_ERROR(Events(&json, data->v1.profilingEvents, data->v1.numProfilingEvents, 1));
  json.End();
  *text += json.Take();
  *text += '\n';
  return Status::Ok();
}

// ---- the file ----

class LogFile {
 public:
  // A client may come back to a file for each of its messages, as ONNX Runtime does: so a header
  // may stand behind an end.
  Status Open(const std::string& path, uint64_t most_messages,
              const QnnSystemProfile_SerializationFileHeader_t& header) {
    most_ = most_messages;
    JsonWriter json;
    json.Object().Key("format").String("qnnrt-profile-log").Key("version").Number(1);
    std::string head = JsonWriter(json).Take();
    json.Key("writer").String("qnnrt " QNNRT_VERSION);
    json.Key("app").String(Text(header.appName));
    json.Key("app_version").String(Text(header.appVersion));
    json.Key("backend_version").String(Text(header.backendVersion)).End();
    QNNRT_RETURN_IF_ERROR(log_.Open(path, head + ',', kArgument));
    return log_.Append(json.Take() + '\n');
  }

  Status Add(const QnnSystemProfile_ProfileData_t** data, uint32_t count) {
    std::string text;
    uint32_t fit = 0;
    std::lock_guard<std::mutex> lock(mutex_);
    for (uint32_t i = 0; i < count; ++i) {
      std::string line;
      QNNRT_RETURN_IF_ERROR(
          Message(data[i], &line)
              .Within("profile data " + std::to_string(i) + " of " + std::to_string(count)));
      if (messages_ + fit == most_) continue;
      text += line;
      ++fit;
    }
    QNNRT_RETURN_IF_ERROR(log_.Append(text));
    messages_ += fit;
    dropped_ += count - fit;
    return Status::Ok();
  }

  // Without this last line a reader knows that something is missing.
  Status Finish() {
    JsonWriter json;
    json.Object().Key("end").Bool(true).Key("messages").Number(messages_);
    json.Key("dropped").Number(dropped_).End();
    return log_.Append(json.Take() + '\n');
  }

 private:
  std::mutex mutex_;
  LineLog log_;
  uint64_t most_ = 0, messages_ = 0, dropped_ = 0;
};

using LogFiles = HandleTable<LogFile, HandleKind::kProfileLog>;
LogFiles& Files() {
  static LogFiles* files = new LogFiles;
  return *files;
}

// ---- the function table's entries ----

Status OpenTarget(const QnnSystemProfile_SerializationTarget_t& target,
                  const QnnSystemProfile_SerializationTargetConfig_t* configs, uint32_t count,
                  LogFile* file) {
  if (target.type != QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE)
    return Error(kArgument, "serialization target type %d is unknown: FILE is 1",
                 static_cast<int>(target.type));
  if (target.file.fileName == nullptr || *target.file.fileName == '\0')
    return Status(kArgument, "the profile log needs a file name");
  if (configs == nullptr && count != 0)
    return Error(kArgument, "%u configs at a null address", count);
  uint64_t most = UINT64_MAX;
  QnnSystemProfile_SerializationFileHeader_t header = {nullptr, nullptr, nullptr};
  for (uint32_t i = 0; i < count; ++i) {
    switch (configs[i].type) {
      case QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_MAX_NUM_MESSAGES:
        most = configs[i].maxNumMessages;
        break;
      case QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_CONFIG_SERIALIZATION_HEADER:
        header = configs[i].serializationHeader;
        break;
      default:
        return Error(kArgument, "serialization config type %d is unknown: 0 or 1",
                     static_cast<int>(configs[i].type));
    }
  }
  std::filesystem::path path(Text(target.file.fileDirectory));
  return file->Open((path / target.file.fileName).string(), most, header);
}

template <typename Body>
Qnn_ErrorHandle_t Entry(Body body) {
  Qnn_ErrorHandle_t code = Guarded(body);
  return code == QNN_COMMON_ERROR_MEM_ALLOC ? Qnn_ErrorHandle_t{QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC}
                                            : code;
}

Qnn_ErrorHandle_t CreateSerializationTarget(QnnSystemProfile_SerializationTarget_t target,
                                            QnnSystemProfile_SerializationTargetConfig_t* configs,
                                            uint32_t count,
                                            QnnSystemProfile_SerializationTargetHandle_t* handle) {
  return Entry([&] {
    if (handle == nullptr)
      return ReportToLogs(Status(kArgument, "the target handle to fill in must not be null"));
    *handle = nullptr;
    auto file = std::make_unique<LogFile>();
    Status opened = OpenTarget(target, configs, count, file.get());
    if (!opened.ok()) return ReportToLogs(opened);
    *handle = Files().Add(std::move(file));
    if (*handle == nullptr)
      return ReportToLogs(
          Status(QNN_SYSTEM_PROFILE_ERROR_MEM_ALLOC, "too many live serialization targets"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Status StaleTarget() {
  return Status(QNN_SYSTEM_PROFILE_ERROR_INVALID_HANDLE,
                "this is no live profile serialization target");
}

Qnn_ErrorHandle_t SerializeEventData(QnnSystemProfile_SerializationTargetHandle_t handle,
                                     const QnnSystemProfile_ProfileData_t** data, uint32_t count) {
  return Entry([&] {
    auto file = Files().Find(handle);
    if (!file) return ReportToLogs(StaleTarget());
    if (data == nullptr && count != 0)
      return ReportToLogs(Error(kArgument, "%u profile data at a null address", count));
    return ReportToLogs(file->Add(data, count));
  });
}

Qnn_ErrorHandle_t FreeSerializationTarget(QnnSystemProfile_SerializationTargetHandle_t handle) {
  return Entry([&] {
    std::unique_ptr<LogFile> file;
    switch (Files().Take(handle, &file)) {
      case LogFiles::Taken::kYes:
        return ReportToLogs(file->Finish());
      case LogFiles::Taken::kBusy:
        return ReportToLogs(Status(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                                   "another thread is writing to this serialization target"));
      default:
        return ReportToLogs(StaleTarget());
    }
  });
}

}  // namespace

void FillProfile(QnnSystemInterface_ImplementationV1_7_t* table) {
  table->systemProfileCreateSerializationTarget = CreateSerializationTarget;
  table->systemProfileSerializeEventData = SerializeEventData;
  table->systemProfileFreeSerializationTarget = FreeSerializationTarget;
}

}  // namespace qnnrt::system
