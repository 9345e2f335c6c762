#include "gpu/compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "abi/qnn_errors.h"
#include "gpu/package.h"
#include "gpu/process.h"
#include "graph/lowering.h"
#include "ipc/socket.h"
#include "support/checked.h"
#include "support/clock.h"
#include "support/json.h"

extern char** environ;

namespace qnnrt::gpu {
namespace {

Status SystemError(const char* what) {
  return Error(QNN_COMMON_ERROR_SYSTEM, "%s: %s", what, std::strerror(errno));
}

enum class Ask : uint32_t { kCompile, kCheck };

// A request's packet, with the memory's fd beside it.
struct RequestPacket {
  uint32_t magic = kProtocolMagic, version = kProtocolVersion;
  Ask ask = Ask::kCompile;
  uint32_t reserved = 0;
  uint64_t text_offset = 0, text_size = 0;  // JSON, behind the constants
  uint64_t size = 0;                        // of the memory
};

// The answer, likewise. An error's memory is its text alone.
struct AnswerPacket {
  uint32_t magic = 0, code = 0;
  uint64_t executable_size = 0;   // from 0
  uint64_t constants_offset = 0;  // to the end; a multiple of the page size
  uint64_t size = 0;
};

// Constants in a memory that both processes have, the request's text behind them.
struct Request {
  OwnFd fd;
  Mapping mapping;
  RequestPacket packet;
};

using Places = std::map<const void*, std::pair<uint64_t, uint64_t>>;  // address -> offset, bytes

uint64_t AlignmentOf(uint64_t nbytes) { return nbytes >= kPage ? kPage : kLine; }

// Constants at their places, and the text behind them.
Result<Request> MakeRequest(Ask ask, const Places& placed, uint64_t end, const std::string& text) {
  Request request;
  request.packet.ask = ask;
  request.packet.text_offset = end;
  request.packet.text_size = text.size();
  request.packet.size = AlignUp(end + text.size(), kPage);
  request.fd = OwnFd(memfd_create("qnnrt-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!request.fd.valid()) return SystemError("no memory that a compiler could share");
  const int fd = request.fd.get();
  // Allocated at once: a shortage is an error here, and not SIGBUS later.
  const int allocated = posix_fallocate(fd, 0, static_cast<off_t>(request.packet.size));
  if (allocated != 0) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "no memory of %llu bytes for a compiler: %s",
                 static_cast<unsigned long long>(request.packet.size), std::strerror(allocated));
  }
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return SystemError("the memory for a compiler cannot be sealed");
  QNNRT_ASSIGN_OR_RETURN(request.mapping, Mapping::Of(fd, request.packet.size, true));
  for (const auto& [data, place] : placed)
    if (place.second != 0) std::memcpy(request.mapping.data() + place.first, data, place.second);
  std::memcpy(request.mapping.data() + end, text.data(), text.size());
  return request;
}

std::string TextOfRequest(const std::string& name, const Places& placed,
                          const std::string& device_facts, const std::string& configs,
                          const char* lowered) {
  JsonWriter json;
  json.Object().Key("name").String(name).Key("constants").Array();
  for (const auto& [data, place] : placed) {
    json.Array().Number(reinterpret_cast<uintptr_t>(data)).Number(place.first);
    json.Number(place.second).End();
  }
  json.End().End();
  std::string text = json.Take();
  text.pop_back();
  return text + ",\"device\":" + device_facts + ",\"configs\":" + configs +
         ",\"graph\":" + lowered + "}";
}

Result<Request> MakeCompileRequest(const CompileRequest& asked) {
  Places placed;
  uint64_t end = 0;
  for (const LoweredConstant& c : ConstantsOf(asked.lowered)) {
    if (placed.count(c.data) != 0) continue;
    const uint64_t offset = AlignUp(end, AlignmentOf(c.nbytes));
    placed[c.data] = {offset, c.nbytes};
    end = offset + c.nbytes;
  }
  return MakeRequest(
      Ask::kCompile, placed, end,
      TextOfRequest(asked.name, placed, asked.device_facts, asked.configs, asked.lowered));
}

Status Lost(const std::string& what, const Process& process) {
  std::string text = "the gpu compiler (" + process.command() + ") " + what;
  if (!process.last_line().empty()) text += "; its last words: " + process.last_line();
  return Status(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, std::move(text));
}

// What the compiler sent, checked: memory that it can neither change nor take away.
Result<Mapping> MapAnswer(int fd, const AnswerPacket& answer, uint64_t most,
                          const Process& process) {
  struct stat about = {};
  const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (fd < 0 || seals < 0 || (seals & kSealed) != kSealed || fstat(fd, &about) != 0 ||
      static_cast<uint64_t>(about.st_size) != answer.size || answer.size == 0)
    return Lost("answered with no sealed memory of the size that it says", process);
  if (answer.size > most) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC,
                 "the gpu compiler answered with %llu bytes, more than the device has",
                 static_cast<unsigned long long>(answer.size));
  }
  return Mapping::Of(fd, answer.size, false);
}

// The parts of the request that no constant refers to are given back.
void DropUnused(const Executable& executable, Mapping* request) {
  std::vector<std::pair<uint64_t, uint64_t>> used;
  for (const Executable::Memory& m : executable.memories)
    if (m.kind == Executable::Kind::kConstant && m.where == 0 && m.size != 0)
      used.emplace_back(m.offset, m.offset + m.size);
  std::sort(used.begin(), used.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : used) {
    if (begin > at) request->Drop(at, begin);
    at = std::max(at, end);
  }
  request->Drop(at, request->size());
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<Mapping> Mapping::Of(int fd, uint64_t size, bool writable) {
  Mapping mapping;
  void* data = mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return SystemError("memory shared with a compiler cannot be mapped");
  mapping.data_ = static_cast<uint8_t*>(data);
  mapping.size_ = size;
  return mapping;
}

void Mapping::Drop(uint64_t begin, uint64_t end) {
  begin = AlignUp(begin, kPage);
  end -= end % kPage;
  if (begin < end) (void)madvise(data_ + begin, end - begin, MADV_REMOVE);  // or it stays
}

// ---- asking

namespace {

// An answer whose code is not a failure of the compiler's.
struct Answered {
  AnswerPacket packet;
  Mapping mapping;

  std::string Text() const {
    const char* text = reinterpret_cast<const char*>(mapping.data());
    return std::string(text, strnlen(text, std::min<uint64_t>(mapping.size(), 4096)));
  }
};

Result<Answered> Exchange(const Request& request, uint64_t most, Process* process,
                          const LogLine& log) {
  const int sent = ipc::SendPacket(process->socket(), &request.packet, sizeof request.packet,
                                   request.fd.get(), 0);
  // One that has ended already is asked how it did, below.
  if (sent != 0 && sent != EPIPE && sent != ECONNRESET)
    return Lost(std::string("takes no request: ") + std::strerror(sent), *process);
  Answered answer;
  int raw = -1;
  Status received = process->Receive(&answer.packet, sizeof answer.packet, &raw, log);
  const OwnFd fd(raw);
  if (!received.ok()) return Lost(received.message(), *process);
  if (answer.packet.magic != kProtocolMagic) return Lost("answered with something else", *process);
  QNNRT_ASSIGN_OR_RETURN(answer.mapping, MapAnswer(fd.get(), answer.packet, most, *process));
  return answer;
}

// A compiler that waits for questions.
struct Standby {
  std::mutex mutex;
  std::unique_ptr<Process> process;  // null: none yet, or it is of no use
  bool useless = false;

  static Standby& Get() {
    static auto* one = new Standby;
    return *one;
  }
  std::unique_ptr<Process> Take() {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Process> taken = std::move(process);
    return taken != nullptr && taken->ours() ? std::move(taken) : nullptr;
  }
};

constexpr uint64_t kRest = uint64_t{64} << 20;  // bytes of sources and descriptions

// By the compiler that waits, or by a new one where there is none, or it is lost.
Result<Answered> AskForProgram(const Request& request, uint64_t most, const LogLine& log,
                               std::unique_ptr<Process>* process) {
  *process = Standby::Get().Take();
  if (*process != nullptr) {
    Result<Answered> answer = Exchange(request, most, process->get(), log);
    if (answer.ok()) return answer;
  }
  QNNRT_ASSIGN_OR_RETURN(*process, Process::Start());
  return Exchange(request, most, process->get(), log);
}

}  // namespace

Status CheckNode(const std::string& configs, const std::string& device_facts,
                 const std::string& node, const LogLine& log) {
  Standby& standby = Standby::Get();
  std::lock_guard<std::mutex> lock(standby.mutex);
  if (standby.useless) return Status::Ok();
  const auto ask = [&]() -> Result<Answered> {
    QNNRT_ASSIGN_OR_RETURN(const Request request,
                           MakeRequest(Ask::kCheck, {}, 0,
                                       TextOfRequest("", {}, device_facts, configs, node.c_str())));
    if (standby.process == nullptr || !standby.process->ours()) {
      QNNRT_ASSIGN_OR_RETURN(standby.process, Process::Start());
    }
    return Exchange(request, kRest, standby.process.get(), log);
  };
  Result<Answered> answer = ask();
  if (!answer.ok()) {
    log(QNN_LOG_LEVEL_WARN,
        "whether there are kernels is seen in graphFinalize alone: " + answer.status().message());
    standby.process = nullptr;
    standby.useless = true;
    return Status::Ok();
  }
  if (answer->packet.code == QNN_SUCCESS) return Status::Ok();
  return Status(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, answer->Text());
}

void StopStandby() {
  Standby& standby = Standby::Get();
  std::lock_guard<std::mutex> lock(standby.mutex);
  standby.process = nullptr;
  standby.useless = false;
}

Result<std::shared_ptr<Compiled>> Compile(const CompileRequest& asked, const LogLine& log) {
  QNNRT_ASSIGN_OR_RETURN(Request request, MakeCompileRequest(asked));
  std::unique_ptr<Process> process;
  Result<Answered> asked_for = AskForProgram(request, asked.memory_bytes + kRest, log, &process);
  if (process != nullptr) process->End(log);
  if (!asked_for.ok()) return std::move(asked_for).status();
  const AnswerPacket& answer = asked_for->packet;
  Mapping& mapping = asked_for->mapping;
  if (answer.code != QNN_SUCCESS) {
    const ErrorCode code = answer.code == QNN_COMMON_ERROR_MEM_ALLOC
                               ? ErrorCode{QNN_COMMON_ERROR_MEM_ALLOC}
                               : ErrorCode{QNN_GRAPH_ERROR_FINALIZE_FAILED};
    return Status(code, asked_for->Text());
  }
  if (answer.executable_size > answer.constants_offset || answer.constants_offset > answer.size)
    return Lost("answered with parts that lie outside of its memory", *process);
  auto compiled = std::make_shared<Compiled>();
  const uint64_t sizes[] = {request.packet.text_offset, answer.size - answer.constants_offset};
  Result<Executable> read =
      Executable::Read(mapping.data(), answer.executable_size, {sizes[0], sizes[1]});
  if (!read.ok())
    return Lost("answered with a damaged program: " + read.status().message(), *process);
  compiled->executable = std::move(*read);
  compiled->executable.device = asked.device;
  compiled->regions = {{request.mapping.data(), sizes[0]},
                       {mapping.data() + answer.constants_offset, sizes[1]}};
  DropUnused(compiled->executable, &request.mapping);
  compiled->mappings.push_back(std::move(request.mapping));
  compiled->mappings.push_back(std::move(mapping));
  return compiled;
}

}  // namespace qnnrt::gpu
