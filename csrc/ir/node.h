// A node as the client described it: plain values, deep copies of what came in.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ir/tensor.h"

namespace qnnrt {

// One op parameter. Scalars of every integer type are widened, so that a rule asks for a number
// and not for the exact type that the client chose.
using ParamValue = std::variant<int64_t, double, bool, std::string, Tensor>;
struct Param {
  std::string name;
  ParamValue value;
  bool given = true;  // by the client; false: the default of the op's definition
  Qnn_DataType_t type = QNN_DATATYPE_UNDEFINED;  // of a scalar, as the client gave it
};

// What an activation computes, its params and traits: its row in ops/elementwise/activation.cc. The
// numbers are part of the format of context binaries.
enum class Activation : uint8_t {
  kRelu,
  kRelu6,
  kReluMinMax,
  kSigmoid,
  kTanh,
  kElu,
  kGelu,
  kHardSwish,
  kHardSigmoid,
  kSoftplus,
  kLeakyRelu,
  kSwish,  // x sigmoid(alpha x)
  kGeluTanh,
  kMish,
};
// An activation or an add that was merged into its producer by a pass. Applied in order to the
// producer's result. kAdd reads one more input of the node (`input`), of the output's shape.
struct PostOp {
  enum class Kind : uint8_t { kActivation, kAdd } kind = Kind::kActivation;
  Activation activation = Activation::kRelu;
  float alpha = 0, beta = 0;  // of the activation
  uint32_t input = 0;         // kAdd: index into Node::inputs
};

// A tensor that does not lie densely: rows of `row` elements, each `pitch` elements behind the
// last.
struct Pitch {
  bool output;  // else an input
  uint32_t port;
  uint64_t row, pitch;
};

class PackageOp;

struct Node {
  std::string name;
  std::string package;
  std::string type;
  std::vector<Param> params;
  std::vector<const Tensor*> inputs;   // an omitted input is null
  std::vector<const Tensor*> outputs;  // likewise
  std::vector<PostOp> post_ops;        // filled by passes only
  // Filled when the plan is made, for its kernel: ports that OpDef::takes_pitch takes so, and what
  // lies in the whole already of OpDef::parts, or may lie in output 0 of what a post op adds: the
  // kernel adds it in place, or reads it as an input, and it lies elsewhere (Kernel::ReadsInput).
  std::vector<Pitch> pitches{};
  std::vector<bool> in_place{};
  // The op of a node of another package than qti.aisw (ops/package_op.h).
  std::shared_ptr<const PackageOp> package_op{};

  const Param* Find(const char* name) const;
  bool HasInput(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  bool HasOutput(size_t i) const { return i < outputs.size() && outputs[i] != nullptr; }
  // Elements from one row of a port to the next; `dense` where nothing else is said.
  uint64_t PitchOf(bool output, size_t port, uint64_t dense) const {
    for (const Pitch& p : pitches) {
      if (p.output == output && p.port == port) return p.pitch;
    }
    return dense;
  }
  bool InPlace(size_t part) const { return part < in_place.size() && in_place[part]; }
  // Typed access, once the node is valid: its params are complete, their types checked. A param
  // that has no default and was not given is 0, or empty.
  int64_t Int(const char* name) const;
  float Float(const char* name) const;
  bool Bool(const char* name) const;
  std::vector<int64_t> Ints(
      const char* name) const;  // a tensor param of any integer type; empty if absent
  std::vector<float> Floats(const char* name) const;
};

}  // namespace qnnrt
