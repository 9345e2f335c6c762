// A compiler as a child process: its standard input is a socket, what it prints goes to the log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "abi/qnn_objects.h"
#include "support/status.h"

namespace qnnrt::gpu {

inline constexpr uint32_t kProtocolMagic = 0x51474331;  // what qnnrt/gpu/compiler.py has, too
inline constexpr uint32_t kProtocolVersion = 1;

// An fd, closed with its owner.
class OwnFd {
 public:
  explicit OwnFd(int fd = -1) : fd_(fd) {}
  OwnFd(OwnFd&& other) noexcept { *this = std::move(other); }
  OwnFd& operator=(OwnFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnFd() { Close(); }
  void Close();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class Process {
 public:
  using Say = std::function<void(QnnLog_Level_t level, const std::string& text)>;

  // QNNRT_GPU_COMPILER's command, or the package's own Python. Errors: 1010.
  static Result<std::unique_ptr<Process>> Start();
  ~Process();
  Process(const Process&) = delete;

  int socket() const { return socket_.get(); }
  const std::string& command() const { return command_; }
  const std::string& last_line() const { return last_line_; }
  // Of the process that started it.
  bool ours() const;
  // One packet of this size, with the fd beside it, within QNNRT_GPU_COMPILER_TIMEOUT seconds.
  // Errors: what went wrong, to stand behind the compiler's name.
  Status Receive(void* packet, size_t size, int* fd, const Say& say);
  // Logs what is left and ends it: nothing of the child stays.
  void End(const Say& say);

 private:
  explicit Process(std::string command);
  void ReadOutput(const Say& say);
  void Line(const std::string& line, const Say& say);
  std::string HowItEnded();

  const std::string command_;
  const uint32_t forks_;  // a child of the client's leaves its parent's compiler alone
  pid_t pid_ = -1;
  OwnFd socket_, output_;
  bool closed_ = false;  // nobody writes any more
  std::string line_, last_line_;
};

}  // namespace qnnrt::gpu
