// Profile logs, as a C client has them written: every kind of event, bad data, files and memory.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_system.h"
#include "check.h"
#include "support/allocations.h"

extern "C" Qnn_ErrorHandle_t qnnrt_system_get_providers(const QnnSystemInterface_t*** list,
                                                        uint32_t* count);

namespace {

using Code = Qnn_ErrorHandle_t;

const QnnSystemInterface_ImplementationV1_7_t& q =
    []() -> const QnnSystemInterface_ImplementationV1_7_t& {
  const QnnSystemInterface_t** list = nullptr;
  uint32_t count = 0;
  qnnrt_system_get_providers(&list, &count);
  return list[0]->v1_7;
}();

std::string g_folder;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

QnnSystemProfile_SerializationTarget_t FileTarget(const char* name) {
  QnnSystemProfile_SerializationTarget_t target;
  target.type = QNN_SYSTEM_PROFILE_SERIALIZATION_TARGET_FILE;
  target.file = {name, g_folder.c_str()};
  return target;
}

QnnSystemProfile_ProfileEventV1_t Extended(Qnn_DataType_t type, const Qnn_Scalar_t& value) {
  QnnSystemProfile_ProfileEventV1_t e;
  std::memset(&e, 0, sizeof(e));
  e.type = QNN_SYSTEM_PROFILE_EXTENDED_EVENT_DATA;
  e.extendedEventData.version = QNN_PROFILE_DATA_VERSION_1;
  e.extendedEventData.v1.type = 404;
  e.extendedEventData.v1.unit = QNN_PROFILE_EVENTUNIT_COUNT;
  e.extendedEventData.v1.value = value;
  e.extendedEventData.v1.value.dataType = type;
  e.extendedEventData.v1.timestamp = 5;
  e.extendedEventData.v1.identifier = "e";
  return e;
}

QnnSystemProfile_ProfileData_t Data(QnnSystemProfile_ProfileEventV1_t* events, uint32_t n) {
  QnnSystemProfile_ProfileData_t data;
  std::memset(&data, 0, sizeof(data));
  data.version = QNN_SYSTEM_PROFILE_DATA_VERSION_1;
  data.v1.header.startTime = 1;
  data.v1.header.stopTime = 2;
  data.v1.header.startMem = 3;
  data.v1.header.stopMem = 4;
  data.v1.header.methodType = QNN_SYSTEM_PROFILE_METHOD_TYPE_BACKEND_EXECUTE;
  data.v1.header.visibility = QNN_SYSTEM_PROFILE_VISIBILITY_PRIVATE;
  data.v1.header.graphName = "g";
  data.v1.profilingEvents = events;
  data.v1.numProfilingEvents = n;
  return data;
}

struct Target {
  explicit Target(const char* name) : path(g_folder + "/" + name) {
    CHECK_EQ(q.systemProfileCreateSerializationTarget(FileTarget(name), nullptr, 0, &handle),
             Code{0});
  }
  ~Target() {
    if (handle != nullptr) CHECK_EQ(q.systemProfileFreeSerializationTarget(handle), Code{0});
  }
  Code Write(const QnnSystemProfile_ProfileData_t& data) {
    const QnnSystemProfile_ProfileData_t* one = &data;
    return q.systemProfileSerializeEventData(handle, &one, 1);
  }
  std::string path;
  QnnSystemProfile_SerializationTargetHandle_t handle = nullptr;
};

TEST(ExtendedEventsOfEveryTypeAreWritten) {
  std::vector<QnnSystemProfile_ProfileEventV1_t> events;
  std::string expected;
  auto add = [&](Qnn_DataType_t type, Qnn_Scalar_t value, const char* text) {
    events.push_back(Extended(type, value));
    expected += std::string(events.size() > 1 ? "," : "") +
                "{\"type\":404,\"unit\":4,\"value\":" + text + ",\"id\":\"e\",\"timestamp\":5}";
  };
  Qnn_Scalar_t s;
  std::memset(&s, 0, sizeof(s));
  s.uint64Value = UINT64_MAX;
  add(QNN_DATATYPE_UINT_64, s, "18446744073709551615");
  add(QNN_DATATYPE_INT_64, s, "-1");
  add(QNN_DATATYPE_UINT_32, s, "4294967295");
  add(QNN_DATATYPE_INT_32, s, "-1");
  add(QNN_DATATYPE_UINT_16, s, "65535");
  add(QNN_DATATYPE_INT_16, s, "-1");
  add(QNN_DATATYPE_UINT_8, s, "255");
  add(QNN_DATATYPE_INT_8, s, "-1");
  add(QNN_DATATYPE_BOOL_8, s, "true");
  s.floatValue = 0.1f;
  add(QNN_DATATYPE_FLOAT_32, s, "0.1");
  s.doubleValue = 1e300;
  add(QNN_DATATYPE_FLOAT_64, s, "1e+300");
  s.doubleValue = -INFINITY;
  add(QNN_DATATYPE_FLOAT_64, s, "\"-inf\"");
  s.stringValue = "a \"b\"";
  add(QNN_DATATYPE_STRING, s, "\"a \\\"b\\\"\"");
  uint8_t object[] = {0, 1, 2, 253, 254};
  QnnSystemProfile_ProfileEventV1_t opaque = Extended(QNN_DATATYPE_UINT_64, s);
  opaque.extendedEventData.v1.unit = QNN_PROFILE_EVENTUNIT_OBJECT;
  opaque.extendedEventData.v1.backendOpaqueObject = {{object, sizeof(object)}, "trace.bin"};
  events.push_back(opaque);
  expected +=
      ",{\"type\":404,\"unit\":5,\"object\":{\"file\":\"trace.bin\",\"base64\":\"AAEC/f4=\"},"
      "\"id\":\"e\",\"timestamp\":5}";
  std::string path;
  {
    Target target("extended.log");
    path = target.path;
    CHECK_EQ(target.Write(Data(events.data(), static_cast<uint32_t>(events.size()))), Code{0});
    // Each call is on disk when it returns.
    CHECK(Read(path).find(expected) != std::string::npos);
  }
  const std::string text = Read(path);
  CHECK(text.find("\n{\"method\":1,\"graph\":\"g\",\"start\":1,\"stop\":2,\"start_mem\":3,"
                  "\"stop_mem\":4,\"private\":true,\"events\":[" +
                  expected + "]}\n") != std::string::npos);
  CHECK(text.find("\n{\"end\":true,\"messages\":1,\"dropped\":0}\n") != std::string::npos);
}

TEST(BadProfileDataLeavesTheLogAsItWas) {
  Target target("bad.log");
  const std::string before = Read(target.path);
  Qnn_Scalar_t s;
  std::memset(&s, 0, sizeof(s));
  auto refused = [&](const QnnSystemProfile_ProfileData_t& data) {
    CHECK_EQ(target.Write(data), Code{30001});
    CHECK_EQ(Read(target.path), before);
  };
  QnnSystemProfile_ProfileEventV1_t event = Extended(QNN_DATATYPE_FLOAT_16, s);
  refused(Data(&event, 1));
  event = Extended(QNN_DATATYPE_UINT_8, s);
  event.extendedEventData.version = static_cast<QnnProfile_ExtendedEventDataVersion_t>(2);
  refused(Data(&event, 1));
  event = Extended(QNN_DATATYPE_UINT_8, s);
  event.type = static_cast<QnnSystemProfile_EventDataType_t>(2);
  refused(Data(&event, 1));
  event = Extended(QNN_DATATYPE_UINT_8, s);
  event.numSubEvents = 1;  // at a null address
  refused(Data(&event, 1));
  event.profileSubEventData = &event;  // in itself: without end
  refused(Data(&event, 1));
  event = Extended(QNN_DATATYPE_UINT_8, s);
  event.extendedEventData.v1.unit = QNN_PROFILE_EVENTUNIT_OBJECT;
  event.extendedEventData.v1.backendOpaqueObject = {{nullptr, 4}, nullptr};
  refused(Data(&event, 1));
  refused(Data(nullptr, 1));
  QnnSystemProfile_ProfileData_t data = Data(nullptr, 0);
  data.version = static_cast<QnnSystemProfile_ProfileDataVersion_t>(2);
  refused(data);
  // The second of two is bad: neither is written.
  QnnSystemProfile_ProfileData_t good = Data(nullptr, 0);
  const QnnSystemProfile_ProfileData_t* two[] = {&good, nullptr};
  CHECK_EQ(q.systemProfileSerializeEventData(target.handle, two, 2), Code{30001});
  CHECK_EQ(q.systemProfileSerializeEventData(target.handle, nullptr, 2), Code{30001});
  CHECK_EQ(Read(target.path), before);
  CHECK_EQ(target.Write(good), Code{0});
}

TEST(ATargetGoesOnBehindWhatIsThere) {
  std::string path;
  for (int i = 0; i < 3; ++i) {  // as a client does that makes a target for each message
    Target target("on.log");
    path = target.path;
    CHECK_EQ(target.Write(Data(nullptr, 0)), Code{0});
  }
  const std::string text = Read(path);
  size_t messages = 0;
  for (size_t at = 0; (at = text.find("{\"method\":1", at)) != std::string::npos; ++at) ++messages;
  CHECK_EQ(messages, 3u);
  // A line that a crash cut off, longer than what is read at once, goes; those before it stay.
  std::ofstream(path, std::ios::app) << std::string(200000, 'x');
  { Target target("on.log"); }
  const std::string mended = Read(path);
  CHECK_EQ(mended.compare(0, text.size(), text), 0);
  CHECK(mended.find('x') == text.find('x'));
}

TEST(BadTargetsAreRefused) {
  QnnSystemProfile_SerializationTargetHandle_t handle = &g_folder;
  auto create = [&](const QnnSystemProfile_SerializationTarget_t& target,
                    QnnSystemProfile_SerializationTargetConfig_t* configs, uint32_t n) {
    handle = &g_folder;
    Code code = q.systemProfileCreateSerializationTarget(target, configs, n, &handle);
    CHECK(handle == nullptr);
    return code;
  };
  QnnSystemProfile_SerializationTarget_t target = FileTarget("x.log");
  CHECK_EQ(q.systemProfileCreateSerializationTarget(target, nullptr, 0, nullptr), Code{30001});
  CHECK_EQ(create(target, nullptr, 1), Code{30001});
  QnnSystemProfile_SerializationTargetConfig_t config;
  std::memset(&config, 0, sizeof(config));
  config.type = static_cast<QnnSystemProfile_SerializationTargetConfigType_t>(5);
  CHECK_EQ(create(target, &config, 1), Code{30001});
  target.type = static_cast<QnnSystemProfile_SerializationTargetType_t>(2);
  CHECK_EQ(create(target, nullptr, 0), Code{30001});
  CHECK_EQ(create(FileTarget(nullptr), nullptr, 0), Code{30001});
  CHECK_EQ(create(FileTarget(""), nullptr, 0), Code{30001});
  std::string taken = g_folder + "/taken";
  std::ofstream(taken) << "x";
  target = FileTarget("x.log");
  target.file.fileDirectory = taken.c_str();
  CHECK_EQ(create(target, nullptr, 0), Code{30001});
}

TEST(ATargetMayFailToAllocateOnce) {
  Qnn_Scalar_t s;
  std::memset(&s, 0, sizeof(s));
  QnnSystemProfile_ProfileEventV1_t event = Extended(QNN_DATATYPE_UINT_8, s);
  QnnSystemProfile_ProfileData_t data = Data(&event, 1);
  const QnnSystemProfile_ProfileData_t* one = &data;
  int failed = 0;
  for (int64_t n = 1; n < 500; ++n) {
    QnnSystemProfile_SerializationTargetHandle_t handle = nullptr;
    auto target = FileTarget("fails.log");
    qnnrt::FailAllocation(n);
    Code code = q.systemProfileCreateSerializationTarget(target, nullptr, 0, &handle);
    if (code == 0) code = q.systemProfileSerializeEventData(handle, &one, 1);
    if (code == 0) {
      code = q.systemProfileFreeSerializationTarget(handle);
      handle = nullptr;
    }
    qnnrt::FailAllocation(-1);
    CHECK(code == 0 || code == 31000);
    if (handle != nullptr) CHECK_EQ(q.systemProfileFreeSerializationTarget(handle), Code{0});
    if (code == 0) break;
    ++failed;
  }
  CHECK(failed > 10);
}

}  // namespace

int main(int argc, char** argv) {
  char folder[] = "/tmp/qnnrt-profile-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  g_folder = folder;
  int status = check::Main(argc, argv, "system_profile_test");
  for (const char* name : {"extended.log", "bad.log", "on.log", "fails.log", "taken", "x.log"})
    unlink((g_folder + "/" + name).c_str());
  if (rmdir(folder) != 0) std::perror(folder);
  return status;
}
