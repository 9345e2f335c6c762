// A delegate as programs make it, a model that it takes whole or in two parts, and counts of
// memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "abi/QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
#include "check.h"
#include "memory/memory_api.h"
#include "tflite_runtime.h"

extern "C" {
TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values,
                                              size_t count, void (*report_error)(const char*));
void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate);
}

namespace delegated {

constexpr int kWidth = 4;

inline std::string reported;
inline void Report(const char* text) { reported = text; }

inline TfLiteDelegate* Make(std::vector<std::pair<const char*, const char*>> more = {}) {
  std::vector<const char*> keys = {"backend_type", "log_level"}, values = {"htp", "1"};
  for (const auto& [key, value] : more) {
    keys.push_back(key);
    values.push_back(value);
  }
  reported.clear();
  // The upper half of the count is what Python leaves there.
  return tflite_plugin_create_delegate(keys.data(), values.data(),
                                       keys.size() | size_t{0xABCD} << 32, Report);
}

struct Counts {
  qnnrt_memory_counts_t before{}, after{};
  Counts() {
    qnnrt_pool_trim(0);
    qnnrt_memory_counts(&before);
  }
  bool Same() {
    qnnrt_pool_trim(0);
    qnnrt_memory_counts(&after);
    return before.buffers == after.buffers && before.maps == after.maps &&
           before.fds == after.fds && before.handles == after.handles;
  }
};

// x + 1, [MyOp,] * 2, relu: tensors 0 (x), then one for each node.
struct Model {
  fake::Interpreter it;
  int x, y;
  explicit Model(bool refused = false, int batch = 2) {
    const std::vector<float> one(kWidth, 1), two(kWidth, 2);
    x = it.Tensor({batch, kWidth});
    const int c1 = it.Tensor({kWidth}, &one), c2 = it.Tensor({kWidth}, &two);
    int at = it.Tensor({batch, kWidth});
    it.Node(fake::kAdd, {x, c1}, {at});
    if (refused) {
      const int next = it.Tensor({batch, kWidth});
      it.Node(fake::kCustom, {at}, {next});
      at = next;
      bias = 2;
    }
    const int product = it.Tensor({batch, kWidth});
    it.Node(fake::kMul, {at, c2}, {product});
    y = it.Tensor({batch, kWidth});
    it.Node(fake::kRelu, {product}, {y});
  }
  bool Right() {
    const size_t n = it.tensor(x).bytes / 4;
    for (size_t i = 0; i < n; ++i) it.data(x)[i] = static_cast<float>(i) - 3;
    if (it.Invoke() != kTfLiteOk) return false;
    for (size_t i = 0; i < n; ++i) {
      const float v = (static_cast<float>(i) - 3 + bias) * 2;
      if (it.data(y)[i] != (v > 0 ? v : 0)) return false;
    }
    return true;
  }
  float bias = 1;
};

inline Qnnrt_TfliteCounters_t CountersOf(const TfLiteDelegate* d) {
  Qnnrt_TfliteCounters_t c{};
  CHECK_EQ(qnnrt_tflite_counters(d, &c), 0u);
  return c;
}

inline std::vector<Qnnrt_TfliteTensor_t> TensorsOf(const TfLiteDelegate* d) {
  uint32_t count = 0;
  CHECK_EQ(qnnrt_tflite_tensors(d, nullptr, 0, &count), 0u);
  std::vector<Qnnrt_TfliteTensor_t> found(count);
  CHECK_EQ(qnnrt_tflite_tensors(d, found.data(), count, &count), 0u);
  return found;
}

}  // namespace delegated
