// Whether a running call should stop: a signal was triggered, or its time is up.
#pragma once

#include "support/status.h"

namespace qnnrt {

class Interrupt {
 public:
  // Ok, or why to stop, with the code that the call then returns. Called often: cheap.
  virtual Status Check() const = 0;
  // The last check of a call: after Ok the call succeeds and cannot be interrupted any more.
  virtual Status Conclude() { return Check(); }

 protected:
  ~Interrupt() = default;
};

}  // namespace qnnrt
