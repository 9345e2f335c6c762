// The tutorial "Running Inference Using Shared Memory" of the TFLite delegate: an interpreter whose
// input and output lie in memory that the backend shares.
//
//   c++ -std=c++17 tutorial_tflite.cc -o tflite -I"$(qnnrt include-dir)/qnnrt" -I TFLITE_HEADERS
//   with -L"$(qnnrt lib-dir)" -lQnnTFLiteDelegate and TFLite's own library behind it
//   ./tflite model.tflite INPUT BYTES OUTPUT BYTES      # tensors by index, all of float32
//
// What stands between [NAME] and [end] is the tutorial's code: docs/tutorials.md lists what had to
// be changed in it.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/interpreter_builder.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model_builder.h"

// [tflite-shared-memory 5]
#include "QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
// [end]

namespace {

void Expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  Expect(argc == 6, "usage: tflite model.tflite INPUT BYTES OUTPUT BYTES");
  const int tensor_idx = std::atoi(argv[2]), output_idx = std::atoi(argv[4]);
  const size_t num_bytes = std::strtoul(argv[3], nullptr, 10);
  const size_t output_bytes = std::strtoul(argv[5], nullptr, 10);

  const auto model = tflite::FlatBufferModel::BuildFromFile(argv[1]);
  Expect(model != nullptr, "reading the model");
  const tflite::ops::builtin::BuiltinOpResolver resolver;
  std::unique_ptr<tflite::Interpreter> interpreter_;
  tflite::InterpreterBuilder(*model, resolver)(&interpreter_);
  Expect(interpreter_ != nullptr, "making the interpreter");

  // clang-format off
  // [tflite-shared-memory 5]
  TfLiteQnnDelegateOptions options = TfLiteQnnDelegateOptionsDefault();
  options.backend_type = kHtpBackend;
  TfLiteDelegate* delegate = TfLiteQnnDelegateCreate(&options);
  // [tflite-shared-memory 1]
  void* custom_ptr = TfLiteQnnDelegateAllocCustomMem(num_bytes, tflite::kDefaultTensorAlignment);
  // [end]
  // [tflite-shared-memory 2]
  TfLiteCustomAllocation tensor_alloc = {custom_ptr, num_bytes};
  // [end]
  // [tflite-shared-memory 3]
  interpreter_->SetCustomAllocationForTensor(tensor_idx, tensor_alloc);
  // [end]
  // Changed: the log that the text shows is of an input and an output; each has memory of its own
  void* output_ptr = TfLiteQnnDelegateAllocCustomMem(output_bytes, tflite::kDefaultTensorAlignment);
  TfLiteCustomAllocation output_alloc = {output_ptr, output_bytes};
  interpreter_->SetCustomAllocationForTensor(output_idx, output_alloc);
  // Changed: it fails without enough memory for a tensor
  Expect(interpreter_->AllocateTensors() == kTfLiteOk, "AllocateTensors");
  // Changed: it fails when the backend refuses the graph
  Expect(interpreter_->ModifyGraphWithDelegate(delegate) == kTfLiteOk, "ModifyGraphWithDelegate");
  // Changed: the input is written where it is
  for (size_t i = 0; i < num_bytes / sizeof(float); ++i)
    static_cast<float*>(custom_ptr)[i] = static_cast<float>(i) / 8;
  // Changed: an operator that is left to the interpreter may fail
  Expect(interpreter_->Invoke() == kTfLiteOk, "Invoke");
  // Changed: the output is read where it is
  for (size_t i = 0; i < output_bytes / sizeof(float); ++i)
    std::printf("%g\n", static_cast<const float*>(output_ptr)[i]);
  // Changed: the interpreter uses memory and delegate as long as it is there
  interpreter_.reset();
  // [tflite-shared-memory 4]
  TfLiteQnnDelegateFreeCustomMem(custom_ptr);
  // [end]
  // Changed: the output's, too
  TfLiteQnnDelegateFreeCustomMem(output_ptr);
  TfLiteQnnDelegateDelete(delegate);
  // [end]
  // clang-format on
  return 0;
}
