#include "tflite/delegate/log.h"

#include <cstdarg>
#include <cstdio>
#include <string>

namespace qnnrt::tflite {

void Log::Write(int level, const char* format, ...) const {
  if (!Wants(level)) return;
  static const char* const kNames[] = {
      "", "ERROR: ", "WARNING: ", "INFO: ", "VERBOSE: ", "DEBUG: "};
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(length < 0 ? 0 : static_cast<size_t>(length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, args);
  va_end(args);
  std::fprintf(stderr, "%s%s\n", kNames[level],
               text.c_str());  // one call: lines of threads stay whole
}

}  // namespace qnnrt::tflite
