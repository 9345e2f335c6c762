// What a program needs of TFLite's C++ runtime as libtensorflow_cc.so.2 exports it: declarations of
// our own, under the names of its headers. Layouts are not declared: objects are made and used by
// exported functions alone, and lie in storage that is larger than they are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tflite/delegate/runtime.h"

namespace tflite {

constexpr int kDefaultTensorAlignment = kTfLiteDefaultTensorAlignment;

namespace impl {

// Made by InterpreterBuilder.
class Interpreter {
 public:
  ~Interpreter();
  TfLiteStatus SetCustomAllocationForTensor(int index, const TfLiteCustomAllocation& allocation,
                                            int64_t flags = 0);
  TfLiteStatus AllocateTensors();
  TfLiteStatus ModifyGraphWithDelegate(TfLiteDelegate* delegate);
  TfLiteStatus Invoke();

 private:
  Interpreter();
};

}  // namespace impl

using impl::Interpreter;

}  // namespace tflite
