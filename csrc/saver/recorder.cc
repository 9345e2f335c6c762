#include "saver/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "abi/qnn_errors.h"
#include "saver/program.h"

namespace qnnrt::saver {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr const char* kVariables[] = {"log", "backend", "device", "context", "graph", "profile"};

Status Failed(const std::string& what) {
  return Error(QNN_COMMON_ERROR_SYSTEM, "%s: %s", what.c_str(), std::strerror(errno));
}

Status MakeDirectories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) return Failed(part);
  }
  return Status::Ok();
}

// "saver_output.c" -> "saver_output_20261125_083000.c"
std::string Stamped(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "_%Y%m%d_%H%M%S", &utc);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name + text : name.substr(0, dot) + text + name.substr(dot);
}

}  // namespace

Recorder& Recorder::Get() {
  static auto* const recorder = new Recorder();
  return *recorder;
}

Status Recorder::Configure(const QnnSaver_Config_t** list) {
  if (program_file_ >= 0) {
    return Status(QNN_SAVER_ERROR_ALREADY_INSTANTIATED,
                  "QnnSaver_initialize comes before every call that is recorded");
  }
  constexpr ErrorCode kBad = QNN_COMMON_ERROR_INVALID_ARGUMENT;
  for (; list != nullptr && *list != nullptr; ++list) {
    const QnnSaver_Config_t& config = **list;
    const auto text = [](const char* from, std::string* to) -> Status {
      if (from == nullptr || *from == '\0')
        return Status(kBad, "a name in a config of the saver must not be empty");
      *to = from;
      return Status::Ok();
    };
    switch (config.option) {
      case QNN_SAVER_CONFIG_OPTION_OUTPUT_DIRECTORY:
        QNNRT_RETURN_IF_ERROR(text(config.outputDirectory, &directory_));
        break;
      case QNN_SAVER_CONFIG_OPTION_APPEND_TIMESTAMP:
        timestamp_ = config.appendTimestamp != 0;
        break;
      case QNN_SAVER_CONFIG_OPTION_BACKEND_ID:
        backend_id_ = config.backendId;
        break;
      case QNN_SAVER_CONFIG_OPTION_FILE_CONFIG:
        QNNRT_RETURN_IF_ERROR(text(config.fileConfig.modelFileName, &program_));
        QNNRT_RETURN_IF_ERROR(text(config.fileConfig.dataFileName, &weights_));
        break;
      case QNN_SAVER_CONFIG_WRITE_OUTPUT_HEADER:
        header_ = config.writeOutputHeader != 0;
        break;
      case QNN_SAVER_CONFIG_WRITE_OUTPUT_FOOTER:
        footer_ = config.writeOutputFooter != 0;
        break;
      default:
        return Error(kBad, "option %u of the saver is unknown: 0 to 5 are there",
                     static_cast<unsigned>(config.option));
    }
  }
  return Status::Ok();
}

Status Recorder::Open() {
  if (program_file_ >= 0) return Status::Ok();
  QNNRT_RETURN_IF_ERROR(MakeDirectories(directory_));
  const std::string program = timestamp_ ? Stamped(program_) : program_;
  const std::string weights = timestamp_ ? Stamped(weights_) : weights_;
  constexpr int kMode = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  if (weights_file_ < 0) weights_file_ = open((directory_ + "/" + weights).c_str(), kMode, 0666);
  if (weights_file_ < 0) return Failed(directory_ + "/" + weights);
  program_file_ = open((directory_ + "/" + program).c_str(), kMode, 0666);
  if (program_file_ < 0) return Failed(directory_ + "/" + program);
  return header_ ? Write(Header(weights)) : Status::Ok();
}

Status Recorder::PutAt(int file, uint64_t offset, const void* data, uint64_t size) const {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = pwrite(file, from, size, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Failed("a file of " + directory_ + " cannot be written");
    from += put;
    offset += static_cast<uint64_t>(put);
    size -= static_cast<uint64_t>(put);
  }
  return Status::Ok();
}

Status Recorder::Write(const std::string& statements) {
  QNNRT_RETURN_IF_ERROR(Open());
  // The footer is overwritten by the next call, which is longer.
  const std::string text = footer_ ? statements + Footer() : statements;
  QNNRT_RETURN_IF_ERROR(PutAt(program_file_, program_end_, text.data(), text.size()));
  program_end_ += statements.size();
  return Status::Ok();
}

Result<uint64_t> Recorder::Keep(const void* data, uint64_t size) {
  QNNRT_RETURN_IF_ERROR(Open());
  const uint64_t at = (weights_end_ + kAlignment - 1) / kAlignment * kAlignment;
  QNNRT_RETURN_IF_ERROR(PutAt(weights_file_, at, data, size));
  weights_end_ = at + size;
  return at;
}

void* Recorder::Add(Kind kind, void* parent, std::string* variable) {
  void* handle = reinterpret_cast<void*>(++last_handle_);
  *variable = NewName(kVariables[static_cast<size_t>(kind)]);
  Object object;
  object.kind = kind;
  object.variable = *variable;
  object.parent = parent;
  objects_[handle] = std::move(object);
  return handle;
}

Object* Recorder::Find(const void* handle, Kind kind) {
  auto found = objects_.find(handle);
  return found == objects_.end() || found->second.kind != kind ? nullptr : &found->second;
}

Object* Recorder::FindGraph(const void* context, const std::string& name) {
  for (auto& [handle, object] : objects_) {
    if (object.kind == Kind::kGraph && object.parent == context && object.name == name)
      return &object;
  }
  return nullptr;
}

void Recorder::Remove(const void* handle) {
  for (auto it = objects_.begin(); it != objects_.end();) {
    const bool goes =
        it->first == handle || (it->second.kind == Kind::kGraph && it->second.parent == handle);
    it = goes ? objects_.erase(it) : std::next(it);
  }
}

std::string Recorder::NewName(const char* prefix) {
  return prefix + ("_" + std::to_string(last_number_[prefix]++));
}

}  // namespace qnnrt::saver
