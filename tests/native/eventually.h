// Conditions that come true some time after what caused them.
#pragma once

#include <chrono>
#include <thread>

// Whether it came true, in far more time than it takes on a busy machine.
template <typename F>
bool Eventually(F condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}
