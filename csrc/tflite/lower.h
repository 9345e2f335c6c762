// From the runtime's nodes to QNN operations. Shapes are the runtime's own: with delegate flags 0
// it has prepared every node before the delegate is asked.
#pragma once

#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tflite/builtin.h"
#include "tflite/plan.h"
#include "tflite/runtime.h"

namespace qnnrt::tflite {

// Why a node is not taken; thrown by the functions of operators, caught where nodes are chosen.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A tensor of the plan under a shape of the runtime's; `at` < 0: left out.
struct Value {
  int at = -1;
  Dims dims;

  uint32_t rank() const { return static_cast<uint32_t>(dims.size()); }
  bool given() const { return at >= 0; }
};

// How the numbers of a node are computed: as they are, or as float32 between Dequantize and
// Quantize where no operation does it in fixed point.
enum class Numbers { kOwn, kFloats };

class Lowering {
 public:
  Lowering(const TfLiteContext* context, Plan* plan) : context_(context), plan_(plan) {}

  // Throws Refused; the plan is of no use then.
  void Add(const TfLiteNode& node, const TfLiteRegistration& registration, Numbers numbers);
  // These tensors of the runtime are the partition's outputs.
  void Finish(const TfLiteIntArray& outputs);

 private:
  friend class Node;

  const TfLiteTensor& tensor(int index) const;
  Value Get(int index, bool variable = false);
  void Encode(size_t first, const Encoding& encoding, Qnn_DataType_t dtype);

  const TfLiteContext* context_;
  Plan* plan_;
  std::map<int, Value> values_;
  std::map<int, Value> floats_;  // quantized constants, as what they stand for
};

// One node while it is lowered, and what its function needs.
class Node {
 public:
  Node(Lowering* lowering, const TfLiteNode& node, int32_t code, bool floats)
      : code(code),
        lowering_(lowering),
        node_(node),
        first_(static_cast<int>(lowering->plan_->tensors.size())),
        floats_(floats) {}

  // ---- The node ----
  template <typename T>
  const T& params() const {
    if (node_.builtin_data == nullptr) throw Refused("its parameters are missing");
    return *static_cast<const T*>(node_.builtin_data);
  }
  int inputs() const { return node_.inputs->size; }
  int outputs() const { return node_.outputs->size; }
  bool has(int i) const;
  Value In(int i, int rank = -1);
  Value Optional(int i) { return has(i) ? In(i) : Value(); }
  // A variable tensor, as it is before the run, and what it is to be after it.
  Value State(int i, const Dims& dims);
  void NextState(int i, const Value& value);
  // A constant of whole numbers that decides what is computed.
  std::vector<int64_t> Ints(int i, const char* what) const;
  int64_t Int(int i, const char* what) const;
  Dims OutDims(int i = 0) const;
  Qnn_DataType_t OutType(int i = 0) const;
  Encoding OutEncoding(int i = 0) const;
  void Set(int i, Value value);

  // ---- Values ----
  Qnn_DataType_t type(const Value& v) const { return spec(v).dtype; }
  bool floating(const Value& v) const;
  const Encoding& encoding(const Value& v) const { return spec(v).encoding; }
  // The elements of a constant in their order; null for any other value.
  const void* data(const Value& v) const;
  Value Constant(Dims dims, Qnn_DataType_t dtype, const void* data, Encoding encoding = {});
  Value Scalar(float value, const Value& like);
  // The integers of a constant as they are, meaning something else.
  Value Reencoded(const Value& v, Dims dims, Encoding encoding);

  // ---- Operations ----
  Value Op(const char* type, std::vector<Value> inputs, const Dims& dims,
           std::vector<Param> params = {}) {
    return OpOf(type, inputs, dims, this->type(inputs[0]), std::move(params));
  }
  Value OpOf(const char* type, const std::vector<Value>& inputs, const Dims& dims,
             Qnn_DataType_t dtype, std::vector<Param> params = {});
  std::vector<Value> Ops(const char* type, const std::vector<Value>& inputs,
                         const std::vector<std::pair<Dims, Qnn_DataType_t>>& outputs,
                         std::vector<Param> params = {});
  Value Reshape(const Value& v, const Dims& dims);
  Value Transpose(const Value& v, const std::vector<uint32_t>& order);
  Value Cast(const Value& v, Qnn_DataType_t dtype);
  Value Activate(Value v, int32_t activation);
  Value Dequantize(const Value& v);
  Value Quantize(const Value& v, Qnn_DataType_t dtype, Encoding encoding);

  const int32_t code;  // the builtin operator's number

 private:
  const PlannedTensor& spec(const Value& v) const { return lowering_->plan_->tensors[v.at]; }
  int Add(PlannedTensor tensor);
  Value Real(int index, const Value& v);

  Lowering* lowering_;
  const TfLiteNode& node_;
  const int first_;  // of the plan's tensors that this node adds
  bool floats_;      // quantized inputs come as float32, the output goes as its own type
};

[[noreturn]] void Refuse(const char* format, ...) __attribute__((format(printf, 1, 2)));

// -1 counts from the end.
uint32_t Axis(int64_t axis, size_t rank);

// Output size along one dimension is the runtime's; padding before and after follows from it.
std::pair<uint32_t, uint32_t> Padding(int32_t padding, uint32_t in, uint32_t kernel, int32_t stride,
                                      int32_t dilation, uint32_t out);

using LowerFn = void (*)(Node&);

// What becomes of an operator's quantized numbers.
enum class Fixed {
  kOwn,     // one operation takes them; floats where the backend does not
  kFloats,  // it takes several operations, whose results in between have no encoding
  kNever,   // they are left to the runtime's kernel, which takes the integers as they are
};

struct Builtin {
  LowerFn lower;
  Fixed fixed;
  const char* name;
};

// Null for operators without a counterpart here.
const Builtin* FindBuiltin(int32_t code);

// The families' tables: code -> function.
struct BuiltinRow {
  int32_t code;
  Builtin builtin;
};
const std::vector<BuiltinRow>& ConvBuiltins();
const std::vector<BuiltinRow>& ElementwiseBuiltins();
const std::vector<BuiltinRow>& ShapeBuiltins();
const std::vector<BuiltinRow>& ReduceBuiltins();
const std::vector<BuiltinRow>& GatherBuiltins();
const std::vector<BuiltinRow>& RecurrentBuiltins();

}  // namespace qnnrt::tflite
