// A file of lines that several owners may write to, one after the other or at once. A line that
// a crash or a full disk cut off is removed, so that those before and after stay whole.
#pragma once

#include <cstdint>
#include <string>

#include "support/status.h"

namespace qnnrt {

class LineLog {
 public:
  LineLog() = default;
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;
  ~LineLog();

  // Creates the file and its folders, or appends: a file that does not begin with `head` is not a
  // log of ours and stays as it is. Errors: `code`.
  Status Open(const std::string& path, const std::string& head, ErrorCode code);
  // Whole lines, in one write; all of them or none. Errors: 1003.
  Status Append(const std::string& lines);

 private:
  Status Continue(const std::string& head, ErrorCode code);
  Status DropCutLine(uint64_t size, ErrorCode code);
  Status Failed(const char* what, ErrorCode code) const;

  std::string path_;
  int fd_ = -1;
};

}  // namespace qnnrt
