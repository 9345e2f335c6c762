// The running example of the delegate's tutorial, on the installed header and library alone: 128
// nodes whose input and output the application brings as shared memory.
//
//   tflite_client [batch]
//
// The interpreter is the tests' own small one: there is no package of TFLite's C++ library.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
#include "tflite_runtime.h"

namespace {

constexpr int kNodes = 128, kConstants = 191, kWidth = 256;

void Expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "expected %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 4;

  // Setup interpreter with a model: tensor 0, constants, and one tensor for each node.
  fake::Interpreter interpreter;
  interpreter.chatty = true;
  std::fprintf(stderr, "INFO: Initialized TensorFlow Lite runtime.\n");
  const std::vector<float> half(kWidth, 0.5F);
  int at = interpreter.Tensor({batch, kWidth});
  const int input = at;
  for (int i = 0; i < kConstants; ++i) interpreter.Tensor({kWidth}, &half);
  for (int i = 0; i < kNodes; ++i) {
    const int next = interpreter.Tensor({batch, kWidth});
    interpreter.Node(fake::kAdd, {at, 1 + i}, {next});
    at = next;
  }
  const int output = at;
  const size_t num_bytes = static_cast<size_t>(batch) * kWidth * sizeof(float);

  // Create QNN Delegate options structure, with the mandatory backend_type.
  TfLiteQnnDelegateOptions options = TfLiteQnnDelegateOptionsDefault();
  options.backend_type = kHtpBackend;
  TfLiteDelegate* delegate = TfLiteQnnDelegateCreate(&options);
  Expect(delegate != nullptr, "a delegate");

  // Step 1 to 3: shared memory, wrapped, given to the tensors.
  void* custom_ptrs[2];
  const int tensors[2] = {input, output};
  for (int i = 0; i < 2; ++i) {
    custom_ptrs[i] = TfLiteQnnDelegateAllocCustomMem(num_bytes, kTfLiteDefaultTensorAlignment);
    Expect(custom_ptrs[i] != nullptr, "shared memory");
    const TfLiteCustomAllocation tensor_alloc = {custom_ptrs[i], num_bytes};
    Expect(interpreter.SetCustomAllocationForTensor(tensors[i], tensor_alloc) == kTfLiteOk,
           "a custom allocation");
  }
  Expect(interpreter.AllocateTensors() == kTfLiteOk, "tensors");

  // Delegate the nodes, and perform inference as usual: twice, in place.
  Expect(interpreter.ModifyGraphWithDelegate(delegate) == kTfLiteOk, "a delegated graph");
  auto* in = static_cast<float*>(custom_ptrs[0]);
  const auto* out = static_cast<const float*>(custom_ptrs[1]);
  for (int run = 0; run < 2; ++run) {
    for (int i = 0; i < batch * kWidth; ++i) in[i] = static_cast<float>(i + run);
    Expect(interpreter.Invoke() == kTfLiteOk, "an inference");
    for (int i = 0; i < batch * kWidth; ++i)
      Expect(out[i] == static_cast<float>(i + run) + 0.5F * kNodes, "the sum");
  }
  Qnnrt_TfliteCounters_t counters;
  Expect(qnnrt_tflite_counters(delegate, &counters) == 0, "counters");
  std::printf(
      "%llu of %llu nodes, %llu invokes, %llu bytes copied\n",
      static_cast<unsigned long long>(counters.delegated),
      static_cast<unsigned long long>(counters.nodes),
      static_cast<unsigned long long>(counters.invokes),
      static_cast<unsigned long long>(counters.copied_in_bytes + counters.copied_out_bytes));

  // Step 4: the user frees the memory; then the delegate goes.
  for (void* custom_ptr : custom_ptrs) TfLiteQnnDelegateFreeCustomMem(custom_ptr);
  TfLiteQnnDelegateDelete(delegate);
  return 0;
}
