#include "gpu/ptx.h"

#include <cctype>

namespace qnnrt::gpu {

std::string Rewritten(const std::string& binary) {
  const std::string mark = "//@ ", target = "\n.target sm_90";  // the mark of mma.cl
  size_t at = binary.find(mark);
  if (at == std::string::npos) return "";
  std::string text;
  size_t done = 0;
  for (; at != std::string::npos; at = binary.find(mark, done)) {
    text.append(binary, done, at - done);
    done = at + mark.size();
  }
  text.append(binary, done, std::string::npos);
  text.resize(text.find_last_not_of('\0') + 1);
  const size_t behind = text.find(target);
  if (behind == std::string::npos) return text;
  const size_t end = behind + target.size();
  const bool whole = end == text.size() || !(std::isalnum(static_cast<unsigned char>(text[end])));
  return whole ? text.insert(end, "a") : text;
}

}  // namespace qnnrt::gpu
