// The text of the recorded program: its frame, and C for the values that calls are given. It is C11
// and C++17.
#pragma once

#include <string>

#include "saver/recorder.h"

namespace qnnrt::saver {

inline std::string Number(uint64_t value) { return std::to_string(value); }

std::string Header(const std::string& weights_file);
std::string Footer();

// Whose tensors are variables of the program, by their ids.
struct Owners {
  const Object* graph = nullptr;
  const Object* context = nullptr;
  const std::string* Find(uint32_t id) const;
};

// A literal, or NULL.
std::string Quoted(const char* text);

// One call: declarations of what it is given, then itself, in a block of its own.
class Call {
 public:
  // `what` stands as a comment above it.
  Call(Recorder* recorder, const std::string& what);

  void Line(const std::string& statement) { text_ += "    " + statement + "\n"; }
  // Of a variable that later calls use: outside of the block.
  void Declare(const std::string& type, const std::string& variable) {
    before_ += "  static " + type + " " + variable + ";\n";
  }
  // check(name, qnn.name(arguments));
  void Check(const std::string& function, const std::string& arguments);

  // These write what a value needs and return the expression for it. Errors: 1000 for what cannot
  // be written, 1003.
  Result<std::string> Data(const void* data, uint64_t size);
  // Into an element that is declared already.
  Status Tensor(const std::string& lvalue, const Qnn_Tensor_t& tensor);
  // An array of them; those that the owners have are copies of variables.
  Result<std::string> Tensors(const Qnn_Tensor_t* tensors, uint32_t count, const Owners& owners);
  Result<std::string> Op(const Qnn_OpConfig_t& op, const Owners& owners);
  Result<std::string> Configs(const QnnBackend_Config_t** list);
  Result<std::string> Configs(const QnnContext_Config_t** list);
  Result<std::string> Configs(const QnnDevice_Config_t** list);
  Result<std::string> Configs(const QnnGraph_Config_t** list);
  Result<std::string> Configs(const QnnProfile_Config_t** list);

  Status Write() { return recorder_->Write(before_ + "  {\n" + text_ + "  }\n"); }

 private:
  template <typename T, typename Text>
  std::string Array(const char* type, const T* values, uint64_t count, Text text);
  template <typename Config, typename Fill>
  Result<std::string> List(const char* type, const Config** list, Fill fill);
  Status Quantization(const std::string& lvalue, const Qnn_QuantizeParams_t& params,
                      const Qnn_TensorV1_t& tensor);
  Status Scalar(const std::string& lvalue, const Qnn_Scalar_t& scalar);
  // The bytes of a backend's own struct; without one: a comment that it is left out.
  std::string Bytes(const void* value, uint64_t size);

  Recorder* recorder_;
  std::string before_, text_;
};

}  // namespace qnnrt::saver
