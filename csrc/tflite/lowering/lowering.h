// From operators of TFLite to QNN operations: the one lowering, of the delegate and of importers.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tflite/lowering/node.h"

namespace qnnrt::tflite {

// Why a node is not lowered; thrown by the functions of operators, caught where nodes are chosen.
struct Refused : std::runtime_error {
  enum Kind {
    kUnsupported,  // it cannot be expressed
    kNotFixed,     // it cannot be expressed in fixed point; in floats it can
    kDamaged,      // it contradicts itself or its inputs
    kTooLarge,     // a constant of `detail` bytes, beyond the budget
    kWrongType,    // the text is an element type; output `detail` has another
  };
  Refused(Kind kind, const std::string& text, uint64_t detail = 0)
      : std::runtime_error(text), kind(kind), detail(detail) {}
  Kind kind;
  uint64_t detail;
};

[[noreturn]] void Unsupported(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void Damaged(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void NotFixed(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A tensor of the plan under a shape of TFLite's; `at` < 0: omitted.
struct Value {
  int at = -1;
  Dims dims;

  uint32_t rank() const { return static_cast<uint32_t>(dims.size()); }
  bool given() const { return at >= 0; }
};

// What an operator becomes.
struct NodePlan : Plan {
  std::vector<Value> outputs;
  std::vector<std::pair<int, Value>> next_states;  // of the variable tensors at these inputs
  uint64_t spent = 0;                              // bytes of constants made
};

// How the numbers of a node are computed: as they are, or as float32 between Dequantize and
// Quantize where no operation does it in fixed point.
enum class Numbers { kOwn, kFloats };

// Whether an input or output has fixed-point numbers; quantized constants alone are decoded.
bool IsFixed(const NodeView& node);

// The real numbers of a `decoded` constant, unless it has them.
void Decode(const NodeView& view, PlannedTensor* tensor);

// Throws Refused.
NodePlan Lower(const NodeView& node, Numbers numbers);

// One node while it is lowered, and what its function needs.
class Node {
 public:
  Node(const NodeView& view, NodePlan* plan, bool floats);

  // ---- The node ----
  const NodeView& view() const { return view_; }
  bool Is(const char* name) const;
  int64_t Integer(const char* option, int64_t fallback = 0) const;
  bool Flag(const char* option) const { return Integer(option) != 0; }
  float Real(const char* option) const;
  template <typename T>
  std::vector<T> List(const char* option) const {
    const Option* found = Find(option);
    return found == nullptr ? std::vector<T>()
                            : std::vector<T>(found->list.begin(), found->list.end());
  }
  int inputs() const { return static_cast<int>(view_.inputs.size()); }
  int outputs() const { return static_cast<int>(view_.outputs.size()); }
  bool has(int i) const { return i < inputs() && !view_.inputs[i].omitted; }
  Value In(int i, int rank = -1);
  Value Optional(int i) { return has(i) ? In(i) : Value(); }
  std::vector<Value> Inputs();
  // What a variable tensor is before the run; omitted: zeros.
  Value State(int i, const Dims& dims);
  // And what it is to be after it.
  void NextState(int i, const Value& value);
  // The operation keeps these variable tensors itself.
  bool Keeps(std::initializer_list<int> inputs) const;
  // A constant of whole numbers that decides what is computed.
  std::vector<int64_t> Ints(int i, const char* what) const;
  int64_t Int(int i, const char* what) const;
  Dims Shape(int i) const;
  void NeedConstant(int i, const char* what) const;
  Qnn_DataType_t OutType(int i = 0) const;
  Encoding OutEncoding(int i = 0) const;
  void Set(int i, Value value);

  // ---- Values ----
  Qnn_DataType_t type(const Value& v) const { return spec(v).dtype; }
  bool floating(const Value& v) const;
  bool whole(const Value& v) const;  // integers, fixed-point ones among them
  const Encoding& encoding(const Value& v) const { return spec(v).encoding; }
  bool constant(const Value& v) const { return spec(v).type == QNN_TENSOR_TYPE_STATIC; }
  // The elements of a constant in their order; null for any other value.
  const void* data(const Value& v) const;
  // The one element of a constant as a real number.
  double Element(const Value& v, const char* what) const;
  // A constant of such elements is about to be made.
  void Spend(const Dims& dims, uint32_t element_bytes, const char* what);
  Value Constant(Dims dims, Qnn_DataType_t dtype, const void* data, Encoding encoding = {});
  // One element everywhere; null: zeros.
  Value Filled(const Dims& dims, Qnn_DataType_t dtype, const void* element, const char* what,
               Encoding encoding = {});
  // FLOAT_32 elements that are worked out, which takes no more than `what` may.
  template <typename Make>
  Value Floats(const Dims& dims, const char* what, Make make) {
    Spend(dims, sizeof(float), what);
    const std::vector<float> values = make();
    return Constant(dims, QNN_DATATYPE_FLOAT_32, values.data());
  }
  Value Scalar(float value, const Value& like);
  // The integers of a constant under another encoding; `values`: those, in 32 bits.
  Value Reencoded(const Value& v, Dims dims, Encoding encoding, const int32_t* values = nullptr);

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
  // Inputs that broadcast.
  Value Nary(const char* type, const std::vector<Value>& inputs);
  Value Nary(const char* type, const std::vector<Value>& inputs, Qnn_DataType_t dtype);
  Value Compare(const char* type, const std::vector<Value>& inputs) {
    return Nary(type, inputs, QNN_DATATYPE_BOOL_8);
  }
  Value Select(const Value& condition, const Value& a, const Value& b) {
    return Nary("ElementWiseSelect", {condition, a, b}, type(a));
  }
  Value Add(const Value& a, const Value& b) { return Nary("ElementWiseAdd", {a, b}); }
  Value Multiply(const Value& a, const Value& b) { return Nary("ElementWiseMultiply", {a, b}); }
  Value Reshape(const Value& v, const Dims& dims);
  // A tensor of its own with the elements of `v`.
  Value Copy(const Value& v, const Dims& dims);
  Value Transpose(const Value& v, const std::vector<uint32_t>& order);
  Value Cast(const Value& v, Qnn_DataType_t dtype);
  Value Dequantize(const Value& v);
  Value Quantize(const Value& v, Qnn_DataType_t dtype, Encoding encoding);
  // ActivationFunctionType's numbers.
  Value Activate(Value v, int64_t activation);
  // Through the fused activation of the node.
  Value Fused(const Value& v);

 private:
  const Option* Find(const char* option) const;
  const PlannedTensor& spec(const Value& v) const { return plan_->tensors[v.at]; }
  Value Add(PlannedTensor tensor, Dims dims);
  Value Input(int i, bool state);
  Value Reshaped(const Value& v, const Dims& dims);
  Value Decoded(int i, const Value& v);

  const NodeView& view_;
  NodePlan* const plan_;
  const bool floats_;  // quantized inputs are read as float32, outputs are quantized again
  std::vector<Value> values_;
  std::vector<Value> decoded_;  // quantized constants, as what they stand for
};

// Numbers of the schema.
enum : int64_t { kPaddingSame = 0, kPaddingValid = 1 };
enum : int64_t {
  kActNone = 0,
  kActRelu = 1,
  kActReluN1To1 = 2,
  kActRelu6 = 3,
  kActTanh = 4,
  kActSignBit = 5
};

// A dimension of a result.
uint32_t Dim(int64_t size);
// -1 counts from the end.
uint32_t Axis(int64_t axis, size_t rank);
Dims Broadcast(const std::vector<Dims>& shapes);
// x[begin:end:stride] for every dimension; an end of -1 with a negative stride: through 0.
struct Range {
  int64_t begin, end, stride;
  bool operator==(const Range& o) const {
    return begin == o.begin && end == o.end && stride == o.stride;
  }
};
Value Cut(Node& n, const Value& x, const std::vector<Range>& ranges);
// x[.., begin:end, ..] along one dimension.
Value CutAlong(Node& n, const Value& x, uint32_t axis, int64_t begin, int64_t end);
// `x` along `axis` at indices, whose shape replaces the dimension.
Value Take(Node& n, const Value& x, const Value& at, uint32_t axis);
// x[start:start + sizes], where the start is computed: one number for each dimension.
Value BlockAt(Node& n, const Value& x, const Dims& sizes, const Value& start);
// The one element of `x` everywhere.
Value Repeated(Node& n, const Value& x, const Dims& dims);
// a x b of matrices, each one turned first where its flag says so; dimensions before broadcast.
Value Product(Node& n, const Value& a, const Value& b, bool turned_a = false,
              bool turned_b = false);
// Constant padding with a real number: (before, after) of every dimension.
Value Padded(Node& n, const Value& x, const std::vector<uint32_t>& pads, double value);

// `steps[d] - 1` elements of `value` between any two along dimension d.
Value Spread(Node& n, Value x, const std::vector<int64_t>& steps, double value);

// What becomes of an operator's fixed-point numbers.
enum class Fixed {
  kOwn,     // one operation takes them; floats where the backend does not
  kFloats,  // it takes several operations, whose results in between have no encoding
};

// What the delegate takes.
enum class Delegated {
  kAll,
  kNotFixed,  // fixed-point numbers are left to TFLite's kernel, which takes the integers as they
              // are
  kNone,      // the lowering is for importers
};

// BuiltinOperator's number of all custom operators, which names tell apart.
constexpr int32_t kCustomOperator = 32;

struct Operator {
  int32_t code;  // BuiltinOperator's number
  const char* name;
  void (*lower)(Node&);
  const char* to;  // the QNN operations that it becomes, for the coverage page
  // The table of its options; "" when it has none that matters. Of a custom operator the struct
  // that they are the bytes of; "" when they are a map of FlexBuffers.
  const char* options = "";
  Fixed fixed = Fixed::kOwn;
  Delegated delegated = Delegated::kAll;
  const char* note = "";  // limits, for the coverage page
};

// All operators. Null for those without a counterpart here.
const std::vector<Operator>& Operators();
const Operator* FindOperator(int32_t code);  // of builtin operators
const Operator* FindOperator(const std::string& name);

// The families' parts of the table.
std::vector<Operator> ConvOperators();
std::vector<Operator> DetectionOperators();
std::vector<Operator> ElementwiseOperators();
std::vector<Operator> GatherOperators();
std::vector<Operator> MediapipeOperators();
std::vector<Operator> MovementOperators();
std::vector<Operator> RecurrentOperators();
std::vector<Operator> ReduceOperators();
std::vector<Operator> SlicePadOperators();
std::vector<Operator> SpectrumOperators();
std::vector<Operator> StablehloOperators();

}  // namespace qnnrt::tflite
