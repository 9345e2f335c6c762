#include "gpu/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "abi/qnn_errors.h"
#include "gpu/package.h"
#include "ipc/socket.h"
#include "support/clock.h"
#include "support/fork.h"

extern char** environ;

namespace qnnrt::gpu {
namespace {

constexpr const char* kCommand = "QNNRT_GPU_COMPILER";
constexpr const char* kTimeout = "QNNRT_GPU_COMPILER_TIMEOUT";
constexpr uint64_t kDefaultTimeout = 600, kMostTimeout = 86400;  // seconds
constexpr size_t kLongestLine = 2000;
// Of this package's files, wherever the client's folder is.
constexpr const char* kProgram =
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from qnnrt.gpu.compiler import main; sys.exit(main())";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// <prefix>/lib/python3.N/site-packages belongs to <prefix>/bin/python3.N.
std::string PythonOf(const std::string& root) {
  std::vector<std::string> parts;
  for (size_t at = root.size(), n = 0; n < 3 && at != std::string::npos && at != 0; ++n) {
    const size_t slash = root.rfind('/', at - 1);
    if (slash == std::string::npos) break;
    parts.push_back(root.substr(slash + 1, at - slash - 1));
    at = slash;
    if (n == 2) parts.push_back(root.substr(0, slash));
  }
  if (parts.size() < 4 || parts[1].rfind("python3", 0) != 0) return "";
  for (const std::string& name : {parts[1], std::string("python3")}) {
    std::string path = parts[3] + "/bin/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// The command's words, and how it is called in messages.
Result<std::vector<std::string>> Words(std::string* text) {
  const std::string given = Environment(kCommand);
  if (!given.empty()) {
    *text = given;
    return std::vector<std::string>{"/bin/sh", "-c", "exec " + given};
  }
  const std::string& root = PackageRoot();
  if (root.empty()) {
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
                 "there is no compiler for graphs of the gpu backend: libqnnrt.so lies outside of "
                 "the Python package that has it; load the library from there, name a command in "
                 "%s, or make a context binary where there is one",
                 kCommand);
  }
  const std::string own = PythonOf(root);
  const std::string python = own.empty() ? "python3" : own;
  *text = python + " -m qnnrt.gpu.compiler";
  return std::vector<std::string>{python, "-P", "-c", kProgram, root};
}

uint64_t TimeoutSeconds() {
  const std::string given = Environment(kTimeout);
  char* end = nullptr;
  const unsigned long long value = std::strtoull(given.c_str(), &end, 10);
  if (given.empty() || *end != '\0' || value == 0) return kDefaultTimeout;
  return std::min<uint64_t>(value, kMostTimeout);
}

struct Spawning {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  Spawning() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~Spawning() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

// In a group of its own, so that it and what it starts can be ended; no signal is blocked or
// ignored.
int Spawn(const std::vector<std::string>& words, int input, int output, pid_t* pid) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Spawning spawn;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_adddup2(&spawn.actions, input, 0);
  posix_spawn_file_actions_adddup2(&spawn.actions, output, 1);
  posix_spawn_file_actions_adddup2(&spawn.actions, output, 2);
  // Of glibc 2.34 and newer: nothing of the client's stays open in the child.
  using CloseFrom = int (*)(posix_spawn_file_actions_t*, int);
  if (void* found = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np"))
    reinterpret_cast<CloseFrom>(found)(&spawn.actions, 3);
  return posix_spawnp(pid, argv[0], &spawn.actions, &spawn.attributes, argv.data(), environ);
}

// Above the standard ones: a client may have closed those, and dup2 of a number to itself would
// leave the fd to be closed by exec.
int Raised(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return above;
}

}  // namespace

void OwnFd::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<Process>> Process::Start() {
  std::string text;
  QNNRT_ASSIGN_OR_RETURN(const std::vector<std::string> words, Words(&text));
  std::unique_ptr<Process> process(new Process(std::move(text)));
  int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
  const bool connected = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0;
  const bool piped = connected && pipe2(pipes, O_CLOEXEC) == 0;
  const int error = errno;
  process->socket_ = OwnFd(Raised(sockets[0]));
  process->output_ = OwnFd(Raised(pipes[0]));
  const OwnFd input(Raised(sockets[1])), output(Raised(pipes[1]));
  if (!piped || !process->socket_.valid() || !process->output_.valid() || !input.valid() ||
      !output.valid()) {
    return Error(QNN_COMMON_ERROR_SYSTEM, "no socket or pipe for the gpu compiler: %s",
                 std::strerror(error));
  }
  (void)fcntl(process->output_.get(), F_SETFL, O_NONBLOCK);
  const int failed = Spawn(words, input.get(), output.get(), &process->pid_);
  if (failed != 0) {
    process->pid_ = -1;
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE,
                 "the gpu compiler '%s' does not start: %s; %s names another one",
                 process->command_.c_str(), std::strerror(failed), kCommand);
  }
  return process;
}

Process::Process(std::string command) : command_(std::move(command)), forks_(ForkGeneration()) {}

bool Process::ours() const { return forks_ == ForkGeneration(); }

Process::~Process() {
  End([](QnnLog_Level_t, const std::string&) {});
}

// A line of the compiler's begins with its level; anything else is what Python or a shell said.
void Process::Line(const std::string& line, const Say& say) {
  static const struct {
    const char* prefix;
    QnnLog_Level_t level;
  } kLevels[] = {{"error: ", QNN_LOG_LEVEL_ERROR},
                 {"warning: ", QNN_LOG_LEVEL_WARN},
                 {"info: ", QNN_LOG_LEVEL_INFO},
                 {"debug: ", QNN_LOG_LEVEL_DEBUG}};
  if (line.empty()) return;
  for (const auto& each : kLevels) {
    const size_t size = std::strlen(each.prefix);
    if (line.compare(0, size, each.prefix) == 0) return say(each.level, line.substr(size));
  }
  last_line_ = line;
  say(QNN_LOG_LEVEL_WARN, line);
}

void Process::ReadOutput(const Say& say) {
  char bytes[4096];
  for (ssize_t got;
       (got = read(output_.get(), bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR);) {
    for (ssize_t i = 0; i < got; ++i) {
      if (bytes[i] != '\n' && line_.size() < kLongestLine) {
        line_ += bytes[i];
      } else if (bytes[i] == '\n') {
        Line(line_, say);
        line_.clear();
      }
    }
  }
}

Status Process::Receive(void* packet, size_t size, int* fd, const Say& say) {
  *fd = -1;
  const uint64_t seconds = TimeoutSeconds();
  const uint64_t deadline = MonotonicNanoseconds() + seconds * 1000000000u;
  for (;;) {
    const uint64_t now = MonotonicNanoseconds();
    if (now >= deadline) {
      return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "did not answer within %llu seconds (%s)",
                   static_cast<unsigned long long>(seconds), kTimeout);
    }
    pollfd polled[2] = {{socket_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    // A pipe that has ended is always ready.
    const int wait = static_cast<int>(std::min<uint64_t>((deadline - now) / 1000000 + 1, 1000));
    if (poll(polled, closed_ ? 1 : 2, wait) < 0 && errno != EINTR)
      return Error(QNN_COMMON_ERROR_SYSTEM, "cannot be waited for: %s", std::strerror(errno));
    if (!closed_ && polled[1].revents != 0) {
      ReadOutput(say);
      closed_ = (polled[1].revents & POLLIN) == 0;
    }
    if (polled[0].revents == 0) continue;
    bool lost = false;
    const ssize_t got = ipc::ReceivePacket(socket_.get(), packet, size, fd, &lost, MSG_DONTWAIT);
    if (got == -EAGAIN || got == -EINTR) continue;
    if (got == static_cast<ssize_t>(size) && !lost) return Status::Ok();
    if (lost)
      return Status(QNN_COMMON_ERROR_SYSTEM, "answered, but this process takes no more fds");
    if (got > 0)
      return Status(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "answered with something else");
    ReadOutput(say);
    return Status(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, HowItEnded());
  }
}

std::string Process::HowItEnded() {
  int status = 0;
  pid_t ended = 0;
  // It closes its socket before it ends.
  for (int i = 0; i < 100 && (ended = waitpid(pid_, &status, WNOHANG)) == 0; ++i) usleep(10000);
  if (ended != pid_) return "ended without an answer";
  pid_ = -1;
  if (WIFSIGNALED(status))
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " without an answer";
  return "ended with status " + std::to_string(WEXITSTATUS(status)) + " without an answer";
}

void Process::End(const Say& say) {
  if (!ours()) return;
  if (output_.valid()) {
    ReadOutput(say);
    Line(std::string(line_), say);
    line_.clear();
  }
  socket_.Close();
  output_.Close();
  if (pid_ < 0) return;
  // What it had to say is said. A client that ignores SIGCHLD, or waits for any child, may have
  // taken it already: then its number is nobody's, or somebody else's.
  pid_t ended;
  while ((ended = waitpid(pid_, nullptr, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (ended == 0) {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

}  // namespace qnnrt::gpu
