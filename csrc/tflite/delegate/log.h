// The delegate's lines, on stderr in the form of the runtime's own: "INFO: ...".
#pragma once

#include "abi/QNN/TFLiteDelegate/QnnTFLiteDelegate.h"

namespace qnnrt::tflite {

class Log {
 public:
  explicit Log(int level = kLogLevelInfo) : level_(level) {}
  int level() const { return level_; }
  bool Wants(int level) const { return level <= level_; }
  void Write(int level, const char* format, ...) const __attribute__((format(printf, 3, 4)));

 private:
  int level_;
};

}  // namespace qnnrt::tflite
