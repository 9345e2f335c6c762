// Where an interpreter finds the kernels of operators; see interpreter.h.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tflite/delegate/runtime.h"

namespace tflite {

enum BuiltinOperator : int32_t;

// The order of its virtual functions is the library's.
class OpResolver {
 public:
  using Delegate = std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>;
  virtual const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const = 0;
  virtual const TfLiteRegistration* FindOp(const char* op, int version) const = 0;
  virtual std::vector<Delegate> GetDelegates(int) const { return {}; }
  virtual std::vector<std::function<Delegate(TfLiteContext*)>> GetDelegateCreators() const {
    return {};
  }
  virtual std::vector<std::function<Delegate(int)>> GetOpaqueDelegateCreators() const { return {}; }
  virtual ~OpResolver() = default;

 private:
  virtual bool MayContainUserDefinedOps() const { return false; }
  std::shared_ptr<void> cache_;
};

namespace ops::builtin {

// libtensorflow_cc.so.2 has no kernels of TFLite's. These stand for all of them, and cannot run:
// what is not delegated fails, with a message of the runtime's.
class BuiltinOpResolver : public OpResolver {
 public:
  BuiltinOpResolver() {
    kernel_.prepare = [](TfLiteContext*, TfLiteNode*) { return kTfLiteOk; };
    kernel_.invoke = [](TfLiteContext*, TfLiteNode*) { return kTfLiteError; };
    kernel_.version = 1;
  }
  const TfLiteRegistration* FindOp(BuiltinOperator op, int) const override {
    TfLiteRegistration& found = kernels_[op & 0xFF];
    found = kernel_;
    found.builtin_code = op;
    return &found;
  }
  const TfLiteRegistration* FindOp(const char*, int) const override { return nullptr; }

 private:
  TfLiteRegistration kernel_{};
  mutable TfLiteRegistration kernels_[256]{};
};

}  // namespace ops::builtin
}  // namespace tflite
