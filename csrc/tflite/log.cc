#include "tflite/log.h"

#include <cstdarg>
#include <cstdio>
#include <string>

namespace qnnrt::tflite {

void Log::Write(int level, const char* format, ...) const {
  if (!Wants(level)) return;
  static const char* const kNames[] = {
      "", "ERROR: ", "WARNING: ", "INFO: ", "VERBOSE: ", "DEBUG: "};
  char text[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  std::fprintf(stderr, "%s%s\n", kNames[level], text);  // one call: lines of threads stay whole
}

}  // namespace qnnrt::tflite
