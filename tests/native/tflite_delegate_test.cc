// The TFLite delegate as a runtime drives it, failures included: kernels made and freed in any
// order, memory that the application brings, changes of size, refusals.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "abi/QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
#include "abi/qnn_errors.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "memory/memory_api.h"
#include "tflite_model.h"

namespace {

using namespace delegated;

TEST(WholeGraphOnSharedMemory) {
  Counts counts;
  TfLiteDelegate* d = Make();
  REQUIRE(d != nullptr);
  {
    Model m;
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK_EQ(m.it.nodes_in_plan(), size_t{1});
    for (int i = 0; i < 10; ++i) CHECK(m.Right());
    CHECK_EQ(m.it.tensor(m.x).allocation_type, kTfLiteCustom);
    const auto c = CountersOf(d);
    CHECK_EQ(c.invokes, 10u);
    CHECK_EQ(c.copied_in_bytes + c.copied_out_bytes, 0u);
    CHECK_EQ(c.shared_tensors, 2u);
    for (const auto& t : TensorsOf(d)) CHECK(t.memory == QNNRT_TFLITE_SHARED && t.fd >= 0);
  }
  CHECK_EQ(CountersOf(d).partitions, 0u);
  CHECK_EQ(CountersOf(d).invokes, 10u);
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(WithoutSharedMemoryTheBytesAreCounted) {
  TfLiteDelegate* d = Make({{"qnnrt_shared_memory", "0"}});
  REQUIRE(d != nullptr);
  {
    Model m;
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    for (int i = 0; i < 3; ++i) CHECK(m.Right());
    const auto c = CountersOf(d);
    CHECK_EQ(c.copied_in_bytes, 3u * 2 * kWidth * 4);
    CHECK_EQ(c.copied_out_bytes, 3u * 2 * kWidth * 4);
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(ARefusedNodeSplitsTheGraph) {
  TfLiteDelegate* d = Make();
  Model m(true);
  CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
  CHECK_EQ(m.it.nodes_in_plan(), size_t{3});
  for (int i = 0; i < 3; ++i) CHECK(m.Right());
  const auto c = CountersOf(d);
  CHECK_EQ(c.partitions, 2u);
  CHECK_EQ(c.delegated, 3u);
  CHECK_EQ(c.nodes, 4u);
  CHECK_EQ(c.copied_in_bytes + c.copied_out_bytes, 0u);
  // The delegate goes first: kernels keep what they use, and take it with them.
  tflite_plugin_destroy_delegate(d);
  CHECK(m.Right());
}

TEST(SizesChange) {
  Counts counts;
  TfLiteDelegate* d = Make();
  {
    Model m(true);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    const void* first = m.it.data(m.x);
    CHECK_EQ(m.it.Resize(1), kTfLiteOk);
    CHECK(m.Right());
    CHECK(m.it.data(m.x) == first);  // grows only
    CHECK_EQ(m.it.Resize(1000), kTfLiteOk);
    CHECK(m.Right());
    const void* grown = m.it.data(m.x);
    CHECK_EQ(m.it.Resize(2), kTfLiteOk);
    CHECK(m.Right());
    CHECK(m.it.data(m.x) == grown);
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK(m.Right());
  }
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(LaterDelegationsMayTakeLess) {
  TfLiteDelegate* d = Make();
  {
    Model m;
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    m.it.fail_replace = 1;  // nothing is taken any more: tensors are the arena's again
    CHECK(m.it.Resize(8) != kTfLiteOk);
    CHECK_EQ(m.it.tensor(m.x).allocation_type, kTfLiteArenaRw);
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK(m.Right());
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(MemoryOfTheApplication) {
  Counts counts;
  TfLiteQnnDelegateOptions options = TfLiteQnnDelegateOptionsDefault();
  options.backend_type = kHtpBackend;
  options.log_level = kLogLevelError;
  TfLiteDelegate* d = TfLiteQnnDelegateCreate(&options);
  REQUIRE(d != nullptr);
  void* in = TfLiteQnnDelegateAllocCustomMem(64, 64);
  void* out = TfLiteQnnDelegateAllocCustomMem(64, 256);
  CHECK(reinterpret_cast<uintptr_t>(out) % 256 == 0);
  {
    Model m;
    CHECK_EQ(m.it.SetCustomAllocationForTensor(m.x, {in, 64}), kTfLiteOk);
    CHECK_EQ(m.it.SetCustomAllocationForTensor(m.y, {out, 64}), kTfLiteOk);
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    CHECK(m.it.data(m.x) == in && m.it.data(m.y) == out);
    const auto c = CountersOf(d);
    CHECK_EQ(c.copied_in_bytes + c.copied_out_bytes, 0u);
    for (const auto& t : TensorsOf(d)) CHECK_EQ(t.memory, QNNRT_TFLITE_APPLICATION);
    // Not the delegate's to bind.
    CHECK_EQ(qnnrt_tflite_bind(d, m.x, out, 64),
             uint64_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
    TfLiteQnnDelegateFreeCustomMem(in);  // as in the tutorial: before the delegate goes
    TfLiteQnnDelegateFreeCustomMem(out);
    CHECK(m.Right());  // still used, so still there
  }
  TfLiteQnnDelegateDelete(d);
  CHECK(counts.Same());
}

TEST(MemoryOfTheApplicationThatIsNotShared) {
  TfLiteDelegate* d = Make();
  alignas(64) float in[16], out[16];
  {
    Model m;
    CHECK_EQ(m.it.SetCustomAllocationForTensor(m.x, {in, 64}), kTfLiteOk);
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    // Only one is the application's: the other stays in the arena, for the runtime checks them all.
    CHECK_EQ(m.it.tensor(m.y).allocation_type, kTfLiteArenaRw);
    const auto c = CountersOf(d);
    CHECK_EQ(c.copied_in_bytes, 32u);
    CHECK_EQ(c.copied_out_bytes, 32u);
    CHECK_EQ(c.copied_tensors, 2u);
    CHECK_EQ(m.it.SetCustomAllocationForTensor(m.y, {out, 64}), kTfLiteOk);
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK(m.Right());
    CHECK(m.it.data(m.y) == out);
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(Binding) {
  Counts counts;
  TfLiteDelegate* d = Make();
  qnnrt_buffer_t buffer = 0;
  qnnrt_buffer_info_t info;
  REQUIRE(qnnrt_buffer_alloc(nullptr, 4096, 0, &buffer) == 0);
  REQUIRE(qnnrt_buffer_info(buffer, &info) == 0);
  auto* memory = static_cast<char*>(info.address);
  {
    Model m;
    CHECK_EQ(qnnrt_tflite_bind(d, 0, memory, 4096), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK_EQ(qnnrt_tflite_bind(d, m.x, memory + 64, 128), 0u);
    CHECK(m.Right());
    CHECK(reinterpret_cast<char*>(m.it.data(m.x)) == memory + 64);
    CHECK_EQ(qnnrt_tflite_bind(d, m.y, memory + 4, 32),
             uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    CHECK_EQ(qnnrt_tflite_bind(d, m.y, memory, 31), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    CHECK_EQ(qnnrt_tflite_bind(d, m.y, memory, 5000), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    alignas(64) static char mine[64];
    CHECK_EQ(qnnrt_tflite_bind(d, m.y, mine, 64), uint64_t{QNN_MEM_ERROR_INVALID_HANDLE});
    CHECK(std::string(qnnrt_tflite_error()).find("no buffer of this library") != std::string::npos);
    CHECK_EQ(qnnrt_tflite_bind(d, 99, memory, 64), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    CHECK_EQ(qnnrt_buffer_release(buffer), 0u);  // bound: the delegate holds it
    CHECK(m.Right());
    CHECK_EQ(m.it.Resize(4), kTfLiteOk);  // still fits
    CHECK(reinterpret_cast<char*>(m.it.data(m.x)) == memory + 64);
    CHECK(m.Right());
    CHECK_EQ(m.it.Resize(100), kTfLiteOk);  // no more
    CHECK(reinterpret_cast<char*>(m.it.data(m.x)) != memory + 64);
    CHECK(m.Right());
    CHECK_EQ(qnnrt_tflite_bind(d, m.x, nullptr, 0), 0u);
    CHECK(m.Right());
    const auto c = CountersOf(d);
    CHECK_EQ(c.copied_in_bytes + c.copied_out_bytes, 0u);
  }
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(AllocationsFail) {
  Counts counts;
  for (int nth = 1; nth < 6; ++nth) {
    TfLiteDelegate* d = Make({{"log_level", "0"}});
    REQUIRE(d != nullptr);
    {
      Model m;
      qnnrt_memory_fail_nth(nth);
      const TfLiteStatus status = m.it.ModifyGraphWithDelegate(d);
      qnnrt_memory_fail_nth(0);
      // Either it runs, with what had no shared memory copied, or the runtime is told.
      if (status == kTfLiteOk) {
        CHECK(m.Right());
      } else {
        CHECK(!m.it.errors().empty());
      }
    }
    tflite_plugin_destroy_delegate(d);
  }
  CHECK(TfLiteQnnDelegateAllocCustomMem(0, 64) == nullptr);
  for (const size_t alignment : {0, 3, 24, 48, 63, 65, 100})  // no powers of two
    CHECK(TfLiteQnnDelegateAllocCustomMem(64, alignment) == nullptr);
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* memory = TfLiteQnnDelegateAllocCustomMem(64, alignment);
    CHECK(memory != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(memory) % std::max<size_t>(alignment, 64) == 0);
    TfLiteQnnDelegateFreeCustomMem(memory);
  }
  TfLiteQnnDelegateFreeCustomMem(&counts);  // none of ours: ignored
  CHECK(counts.Same());
}

TEST(EveryAllocationFailsOnce) {
  Counts counts;
  int64_t n = 1;
  for (bool failed = true; failed && n < 100000; ++n) {
    TfLiteDelegate* d = Make({{"log_level", "0"}});
    REQUIRE(d != nullptr);
    {
      Model m(true);
      const uint64_t before = qnnrt_debug_allocations();
      qnnrt_debug_fail_allocation(n);
      const TfLiteStatus status = m.it.ModifyGraphWithDelegate(d);
      qnnrt_debug_fail_allocation(-1);
      failed = qnnrt_debug_allocations() - before >= static_cast<uint64_t>(n);
      if (status == kTfLiteOk) CHECK(m.Right());
      if (!failed) CHECK_EQ(status, kTfLiteOk);
    }
    tflite_plugin_destroy_delegate(d);
  }
  CHECK(n > 100 || qnnrt_debug_allocations() == 0);  // valgrind has an operator new of its own
  CHECK(counts.Same());
}

TEST(OptionsThatAreWrong) {
  struct Wrong {
    const char* key;
    const char* value;
    const char* said;
  };
  const Wrong wrong[] = {
      {"htp_performance_mode", "burst", "htp_performance_mode"},
      {"htp_performance_mode", "10", "from 0 to 9"},
      {"device_id", "0", "there is no option 'device_id'"},
      {"log_level", "", "log_level"},
      {"backend_type", "npu", "htp, cpu, gpu, dsp or ir"},
      {"backend_type", "dsp", "library_path"},
      {"library_path", "/nowhere/libQnnHtp.so", "/nowhere/libQnnHtp.so"},
      {"library_path", "libc.so.6", "no QNN backend"},
      {"skip_delegate_ops", "1,x", "skip_delegate_ops"},
  };
  for (const Wrong& w : wrong) {
    CHECK(Make({{w.key, w.value}}) == nullptr);
    CHECK(reported.find(w.said) != std::string::npos);
  }
  CHECK(tflite_plugin_create_delegate(nullptr, nullptr, 0, Report) == nullptr);
  CHECK(reported.find("backend_type is missing") != std::string::npos);
  CHECK(tflite_plugin_create_delegate(nullptr, nullptr, 3, nullptr) == nullptr);
  CHECK(TfLiteQnnDelegateCreate(nullptr) == nullptr);
  tflite_plugin_destroy_delegate(nullptr);
  CHECK_EQ(qnnrt_tflite_counters(nullptr, nullptr), uint64_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
}

TEST(EveryOptionIsTaken) {
  TfLiteDelegate* d = Make({{"htp_performance_mode", "2"},
                            {"htp_perf_ctrl_strategy", "1"},
                            {"htp_precision", "1"},
                            {"htp_optimization_strategy", "2"},
                            {"htp_use_conv_hmx", "0"},
                            {"htp_use_fold_relu", "0"},
                            {"htp_vtcm_size", "4"},
                            {"htp_num_hvx_threads", "2"},
                            {"graph_priority", "3"},
                            {"skip_delegate_node_ids", "2"},
                            {"skel_library_dir", "/x"}});
  REQUIRE(d != nullptr);
  {
    Model m;
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    CHECK_EQ(CountersOf(d).delegated, 2u);
  }
  tflite_plugin_destroy_delegate(d);
  d = Make({{"skip_delegate_ops", "0,18,19"}});
  {
    Model m;
    CHECK_EQ(m.it.AllocateTensors(), kTfLiteOk);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    CHECK_EQ(CountersOf(d).delegated, 0u);
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(TheCpuBackendNeedsNoHandles) {
  TfLiteDelegate* d = Make({{"backend_type", "cpu"}, {"qnnrt_shared_memory", "0"}});
  REQUIRE(d != nullptr);
  {
    Model m(true);
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
    CHECK_EQ(CountersOf(d).copied_in_bytes, 0u);  // it reads memory where it is
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(ThreadsWithInterpretersOfTheirOwn) {
  Counts counts;
  TfLiteDelegate* d = Make();
  {
    Model models[4] = {Model(false), Model(true), Model(false, 5), Model(true, 3)};
    std::vector<std::thread> threads;
    for (Model& m : models) {
      threads.emplace_back([&m, d] {
        bool right = m.it.ModifyGraphWithDelegate(d) == kTfLiteOk;
        for (int i = 0; i < 50; ++i) right = right && m.Right();
        right = right && m.it.Resize(7) == kTfLiteOk && m.Right();
        CHECK(right);
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK_EQ(CountersOf(d).invokes, 4u * 51 + 2u * 51);
  }
  tflite_plugin_destroy_delegate(d);
  CHECK(counts.Same());
}

TEST(WithoutPreviewAndBackAgain) {
  TfLiteDelegate* d = Make();
  for (int i = 0; i < 5; ++i) {  // interpreters come and go, at the same address perhaps
    Model m(i % 2 == 1, 1 + i);
    m.it.context()->PreviewDelegatePartitioning = nullptr;
    CHECK_EQ(m.it.ModifyGraphWithDelegate(d), kTfLiteOk);
    CHECK(m.Right());
  }
  tflite_plugin_destroy_delegate(d);
}

TEST(VersionAndCapabilities) {
  CHECK_EQ(TfLiteQnnDelegateGetApiVersion().minor, 24);
  CHECK_EQ(TfLiteQnnDelegateHasCapability(kHtpRuntimeQuantized), kCapabilitySupported);
  for (const auto capability : {kHtpRuntimeFp16, kGpuRuntime, kDspRuntime})
    CHECK_EQ(TfLiteQnnDelegateHasCapability(capability), kCapabilityNotSupported);
}

}  // namespace

CHECK_MAIN("tflite_delegate_test")
