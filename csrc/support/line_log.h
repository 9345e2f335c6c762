// A file of lines that several owners may write to, one after the other or at once. What a crash or
// a full disk cut off is taken away again, so that the lines before and after stay whole.
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

  // Makes the file, or goes on behind what is in it: that has to begin with `head`, or it is
  // somebody else's and stays as it is. Folders are made. Errors: `code`.
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
