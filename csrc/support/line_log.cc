#include "support/line_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "abi/qnn_errors.h"

namespace qnnrt {
namespace {

// False at the end of the file or when it cannot be read.
bool ReadAt(int fd, void* to, size_t size, uint64_t at) {
  char* out = static_cast<char*>(to);
  for (size_t done = 0; done < size;) {
    ssize_t n = pread(fd, out + done, size - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

LineLog::~LineLog() {
  if (fd_ >= 0) close(fd_);
}

Status LineLog::Failed(const char* what, ErrorCode code) const {
  return Error(code, "cannot %s %s: %s", what, path_.c_str(), std::strerror(errno));
}

Status LineLog::Open(const std::string& path, const std::string& head, ErrorCode code) {
  path_ = path;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // open says what is wrong
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  do {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EINTR);
  return fd_ < 0 ? Failed("write", code) : Continue(head, code);
}

Status LineLog::Continue(const std::string& head, ErrorCode code) {
  struct stat info;
  if (fstat(fd_, &info) != 0) return Failed("look at", code);
  if (!S_ISREG(info.st_mode) || info.st_size == 0) return Status::Ok();
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  std::string begin(std::min<uint64_t>(size, head.size()), '\0');
  if (!ReadAt(fd_, begin.data(), begin.size(), 0) || head.compare(0, begin.size(), begin) != 0)
    return Error(code,
                 "%s is there and was not written by this version of qnnrt: remove it or choose "
                 "another name",
                 path_.c_str());
  return DropCutLine(size, code);
}

Status LineLog::DropCutLine(uint64_t size, ErrorCode code) {
  std::vector<char> block(1 << 16);
  for (uint64_t end = size; end > 0;) {
    const uint64_t begin = end - std::min<uint64_t>(end, block.size());
    if (!ReadAt(fd_, block.data(), end - begin, begin)) return Failed("read", code);
    for (uint64_t at = end; at > begin; --at) {
      if (block[at - 1 - begin] != '\n') continue;
      return at == size || ftruncate(fd_, static_cast<off_t>(at)) == 0 ? Status::Ok()
                                                                       : Failed("mend", code);
    }
    end = begin;
  }
  return ftruncate(fd_, 0) == 0 ? Status::Ok() : Failed("mend", code);
}

Status LineLog::Append(const std::string& lines) {
  size_t done = 0;
  while (done < lines.size()) {
    ssize_t n = write(fd_, lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = EIO;
      Status error = Failed("write to", QNN_COMMON_ERROR_SYSTEM);
      off_t end = lseek(fd_, 0, SEEK_END);
      if (done != 0 && end >= static_cast<off_t>(done) &&
          ftruncate(fd_, end - static_cast<off_t>(done)) != 0)
        return std::move(error).Within("its last line is cut");
      return error;
    }
    done += static_cast<size_t>(n);
  }
  return Status::Ok();
}

}  // namespace qnnrt
