// Graphs that come and go under one delegate: whose memory is whose, and what is freed when.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "tflite_model.h"

namespace {

using namespace delegated;

// A place for models, one after the other: each has the address that the one before had.
struct Seat {
  alignas(Model) char bytes[sizeof(Model)];
  Model& Take() { return *new (bytes) Model(); }
};

TEST(ABufferIsBoundToOneGraph) {
  Counts counts;
  TfLiteDelegate* d = Make();
  void* memory = TfLiteQnnDelegateAllocCustomMem(4096, 64);
  Seat seat;
  for (int i = 0; i < 2; ++i) {
    Model& m = seat.Take();
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.it.data(m.x) != memory);  // what was bound is gone with the first graph
    CHECK(m.Right());
    CHECK_EQ(qnnrt_tflite_bind(d, m.x, memory, 4096), 0u);
    CHECK_EQ(m.it.Resize(3), kTfLiteOk);
    CHECK(m.it.data(m.x) == memory);
    CHECK(m.it.tensor(m.x).delegate == nullptr);
    CHECK(m.Right());
    m.~Model();
  }
  TfLiteQnnDelegateFreeCustomMem(memory);
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(ABufferStaysBoundWhereNothingIsPlaced) {
  TfLiteDelegate* d = Make({{"qnnrt_shared_memory", "0"}});
  void* memory = TfLiteQnnDelegateAllocCustomMem(4096, 64);
  {
    Model m;
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK_EQ(qnnrt_tflite_bind(d, m.x, memory, 4096), 0u);
    CHECK_EQ(m.it.Resize(5), kTfLiteOk);
    CHECK(m.it.data(m.x) == memory);
    CHECK_EQ(m.it.tensor(m.y).allocation_type, kTfLiteArenaRw);
    CHECK(m.Right());
    CHECK_EQ(CountersOf(d).copied_in_bytes, 0u);
    CHECK_EQ(CountersOf(d).copied_out_bytes, 5u * kWidth * 4);
  }
  TfLiteQnnDelegateFreeCustomMem(memory);
  tflite_plugin_destroy_delegate(d);
}

TEST(MemoryOfGraphsThatAreGoneIsFreed) {
  Counts counts;
  TfLiteDelegate* d = Make();
  {
    std::vector<Seat> seats(20);
    for (Seat& seat : seats) {
      Model& m = seat.Take();
      CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
      CHECK(m.Right());
      m.~Model();
    }
  }
  CHECK(!counts.Same());
  CHECK_EQ(counts.after.buffers - counts.before.buffers, 8u * 2);  // the last eight's
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(GraphsArePreparedAnewAfterTheDelegateIsDeleted) {
  Counts counts;
  TfLiteDelegate* d = Make();
  {
    Model first, second(true);
    CHECK_EQ(first.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK_EQ(second.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    tflite_plugin_destroy_delegate(d);
    CHECK_EQ(first.it.Resize(9), kTfLiteOk);  // the other one's kernels keep it
    CHECK(first.Right());
    CHECK(second.Right());
  }
  CHECK(counts.Same());
}

struct Quantized {
  TfLiteFloatArray* scale;
  TfLiteIntArray* zero;
  TfLiteAffineQuantization q{};
  Quantized(std::vector<float> scales, const std::vector<int>& zeros) {
    scale = reinterpret_cast<TfLiteFloatArray*>(fake::MakeArray(std::vector<int>(scales.size())));
    std::copy(scales.begin(), scales.end(), scale->data);
    zero = fake::MakeArray(zeros);
    q = {scale, zero, 0};
  }
  ~Quantized() {
    std::free(scale);
    std::free(zero);
  }
};

TEST(EncodingsThatAreWrongAreLeftToTheRuntime) {
  TfLiteDelegate* d = Make();
  Quantized wrong[] = {
      {{1, 1, 1}, {0, 0, 0}}, {{1, 1}, {0, 0, 0}}, {{1, 1, 1, 1}, {0, 0}},
      {{1}, {INT32_MIN}},     {{0}, {0}},          {{-1}, {0}},
      {{NAN}, {0}},
  };
  for (Quantized& each : wrong) {
    fake::Interpreter it;
    const int x = it.Tensor({2, kWidth}, nullptr, kTfLiteInt8);
    const int y = it.Tensor({2, kWidth}, nullptr, kTfLiteInt8);
    it.Node(fake::kRelu, {x}, {y});
    for (int t : {x, y}) it.tensor(t).quantization = {kTfLiteAffineQuantization, &each.q};
    CHECK_EQ(it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK_EQ(CountersOf(d).partitions, 0u);
  }
  tflite_plugin_destroy_delegate(d);
}

}  // namespace

CHECK_MAIN("tflite_graphs_test")
