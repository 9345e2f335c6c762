#include "support/fork.h"

#include <pthread.h>

#include <atomic>

namespace qnnrt {

uint32_t ForkGeneration() {
  static std::atomic<uint32_t> generation{0};
  static const int once =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)once;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace qnnrt
