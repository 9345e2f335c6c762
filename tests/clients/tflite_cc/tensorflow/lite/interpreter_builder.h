// What makes an interpreter of a model; see interpreter.h.
#pragma once

#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model_builder.h"

namespace tflite {

class Allocation;
class ErrorReporter;
class InterpreterOptions;
ErrorReporter* DefaultErrorReporter();

namespace impl {

class InterpreterBuilder {
 public:
  InterpreterBuilder(const Model* model, const OpResolver& resolver, ErrorReporter* reporter,
                     const InterpreterOptions* options, const Allocation* allocation);
  ~InterpreterBuilder();
  TfLiteStatus operator()(std::unique_ptr<Interpreter>* interpreter);

 private:
  alignas(64) char storage_[4096];
};

}  // namespace impl

class InterpreterBuilder : public impl::InterpreterBuilder {
 public:
  InterpreterBuilder(const FlatBufferModel& model, const OpResolver& resolver)
      : impl::InterpreterBuilder(model.root(), resolver, DefaultErrorReporter(), nullptr, nullptr) {
  }
};

}  // namespace tflite
