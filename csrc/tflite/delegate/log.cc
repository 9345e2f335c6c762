#include "tflite/delegate/log.h"

#include <cstdarg>
#include <cstdio>
#include <string>

#include "support/guard.h"

namespace qnnrt::tflite {

void Log::Write(int level, const char* format, ...) const {
  if (!Wants(level)) return;
  static const char* const kNames[] = {
      "", "ERROR: ", "WARNING: ", "INFO: ", "VERBOSE: ", "DEBUG: "};
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  char text[1024];
  std::string whole;
  const int length = std::vsnprintf(text, sizeof(text), format, again);
  va_end(again);
  if (length >= static_cast<int>(sizeof(text))) {
    Contained([&] {  // without memory for it the line is cut
      whole.resize(static_cast<size_t>(length));
      std::vsnprintf(whole.data(), whole.size() + 1, format, args);
    });
  }
  va_end(args);
  // One call: lines of threads stay whole.
  std::fprintf(stderr, "%s%s\n", kNames[level], whole.empty() ? text : whole.c_str());
}

}  // namespace qnnrt::tflite
