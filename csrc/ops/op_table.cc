// The only list of ops, and what holds for all of them.
#include <memory>
#include <unordered_map>

#include "abi/qnn_op_names.h"
#include "ops/fixed/kernels.h"
#include "ops/fixed/rules.h"
#include "ops/op.h"
#include "ops/package_op.h"
#include "ops/random/random.h"
#include "ops/rules.h"
#include "ops/transform/transform.h"

namespace qnnrt {
namespace {

struct Table {
  OpList ops;
  std::vector<const OpDef*> list;
  std::unordered_map<std::string, const OpDef*> by_type;
};

const Table& TheTable() {
  static const Table* const table = [] {
    auto t = std::make_unique<Table>();
    for (OpList (*family)() :
         {ConvOps, MatMulOps, DynamicOps, PoolOps, NormOps, ResizeOps, RecurrentOps, StreamOps,
          ElementWiseOps, ActivationOps, ReduceOps, SoftmaxOps, CastOps, ShapeOps, ConcatSplitOps,
          GatherOps, TransformOps, RandomOps}) {
      for (OpDef& def : family()) t->ops.push_back(std::move(def));
    }
    for (const OpDef& def : t->ops) {
      if ((def.flags & OpDef::kInternal) == 0) t->list.push_back(&def);
      t->by_type.emplace(def.type, &def);
    }
    return t.release();  // never freed: kernels may still be asked for while the process exits
  }();
  return *table;
}

// Some clients send an empty tensor where they omit an optional input or output.
bool IsOmitted(const PortSpec& port, const Tensor* tensor) {
  return tensor == nullptr || (port.count == PortSpec::kOptional && tensor->elements() == 0);
}

std::string PortText(const PortSpec& port, const char* kind, size_t i, const Tensor& tensor) {
  return std::string(kind) + " " + std::to_string(i) + " (" + port.name + ") '" + tensor.name + "'";
}

Status CheckPort(const Node& node, const OpDef& def, const PortSpec& port, const char* kind,
                 size_t i, const Tensor& tensor) {
  const std::string where = PortText(port, kind, i, tensor);
  const TypeSet bit = TypeBit(tensor.dtype);
  const TypeSet allowed = AcceptedTypes(port);
  if ((allowed & bit) == 0) {
    return Invalid("%s has type %s; allowed: %s", where.c_str(), DataTypeName(tensor.dtype),
                   TypeSetNames(allowed).c_str())
        .WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
  }
  if (port.same_type_as >= 0 && node.HasInput(static_cast<size_t>(port.same_type_as))) {
    const Tensor& other = *node.inputs[static_cast<size_t>(port.same_type_as)];
    // Ops that convert check themselves what may lie beside a fixed-point input.
    const bool converts = (def.flags & OpDef::kConverts) != 0;
    const bool fits = (IsFixed(other.dtype) && (converts || IsFixed(tensor.dtype))) ||
                      (HasFixedWeights(node, def) && &tensor == node.inputs[1]);
    if (other.dtype != tensor.dtype && !fits) {
      return Invalid("%s has type %s; it must be %s, the type of input %d '%s'", where.c_str(),
                     DataTypeName(tensor.dtype), DataTypeName(other.dtype), port.same_type_as,
                     other.name.c_str())
          .WithCode(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE);
    }
  }
  const int rank = static_cast<int>(tensor.shape.size());
  if (rank < port.min_rank || rank > port.max_rank) {
    const std::string allowed =
        port.min_rank == port.max_rank
            ? std::to_string(port.min_rank)
            : std::to_string(port.min_rank) + " to " + std::to_string(port.max_rank);
    return Invalid("%s has rank %d (shape %s); allowed: %s", where.c_str(), rank,
                   ShapeText(tensor.shape).c_str(), allowed.c_str());
  }
  uint64_t count;
  if (!ElementCount(tensor.shape, &count) || count > static_cast<uint64_t>(INT64_MAX) / 8) {
    return Invalid("%s: shape %s has more elements than memory can hold", where.c_str(),
                   ShapeText(tensor.shape).c_str());
  }
  return Status::Ok();
}

Status CheckPorts(const Node& node, const OpDef& def, const std::vector<PortSpec>& ports,
                  const char* kind, const std::vector<const Tensor*>& tensors) {
  const bool variadic = !ports.empty() && ports.back().count == PortSpec::kVariadic;
  if (tensors.size() > ports.size() && !variadic) {
    return Invalid("%zu %ss given; it takes at most %zu", tensors.size(), kind, ports.size());
  }
  for (size_t i = 0; i < std::max(ports.size(), tensors.size()); ++i) {
    const PortSpec& port = ports[std::min(i, ports.size() - 1)];
    const Tensor* tensor = i < tensors.size() ? tensors[i] : nullptr;
    if (IsOmitted(port, tensor)) {
      if (port.count == PortSpec::kOptional) continue;
      return Invalid("%s %zu (%s) is missing", kind, i, port.name);
    }
    QNNRT_RETURN_IF_ERROR(CheckPort(node, def, port, kind, i, *tensor));
  }
  return Status::Ok();
}

bool KindMatches(const ParamSpec& spec, const Param& param) {
  const auto& value = param.value;
  const bool whole = std::holds_alternative<int64_t>(value);
  const bool real = std::holds_alternative<double>(value);
  const bool truth = std::holds_alternative<bool>(value);
  const Tensor* tensor = std::get_if<Tensor>(&value);
  switch (spec.kind) {
    case ParamSpec::kInt:
      return whole;
    case ParamSpec::kFloat:
      return real || whole;
    case ParamSpec::kBool:
      return truth || (whole && (std::get<int64_t>(value) & ~int64_t{1}) == 0);
    case ParamSpec::kNumber:
      return whole || real || truth;
    case ParamSpec::kInts:
      return tensor != nullptr && tensor->data && (TypeBit(tensor->dtype) & types::kInt) != 0;
    case ParamSpec::kFloats:
      return tensor != nullptr && tensor->data &&
             (TypeBit(tensor->dtype) & (types::kFloat | types::kF64)) != 0;
  }
  return false;
}

const char* KindName(ParamSpec::Kind kind) {
  switch (kind) {
    case ParamSpec::kInt:
      return "an integer scalar";
    case ParamSpec::kFloat:
      return "a floating-point scalar";
    case ParamSpec::kBool:
      return "a BOOL_8 scalar";
    case ParamSpec::kNumber:
      return "a scalar";
    case ParamSpec::kInts:
      return "a static integer tensor";
    case ParamSpec::kFloats:
      return "a static floating-point tensor";
  }
  return "";
}

// "0 zeros, 1 border, 2 reflection", and what there is to say.
std::string RuleText(const ParamSpec& spec) {
  std::string text;
  for (size_t i = 0; i < spec.values.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(i) + " " + spec.values[i];
  return text + (text.empty() || *spec.rule == 0 ? "" : "; ") + spec.rule;
}

Status CheckParams(const Node& node, const OpDef& def) {
  for (size_t i = 0; i < node.params.size(); ++i) {
    const Param& param = node.params[i];
    const ParamSpec* spec = nullptr;
    for (const ParamSpec& candidate : def.params) {
      if (param.name == candidate.name) spec = &candidate;
    }
    if (spec == nullptr) {
      std::string known;
      for (const ParamSpec& candidate : def.params) {
        known += (known.empty() ? "" : ", ") + std::string(candidate.name);
      }
      return Invalid("unknown param '%s'; it takes: %s", param.name.c_str(),
                     known.empty() ? "none" : known.c_str());
    }
    for (size_t j = 0; j < i; ++j) {
      if (node.params[j].name == param.name) {
        return Invalid("param '%s' is given twice", param.name.c_str());
      }
    }
    if (!KindMatches(*spec, param)) {
      return Invalid("param '%s' must be %s", spec->name, KindName(spec->kind));
    }
    if (!spec->values.empty()) {
      const int64_t last = static_cast<int64_t>(spec->values.size()) - 1;
      QNNRT_RETURN_IF_ERROR(CheckRange(spec->name, node.Int(spec->name), 0, last));
    }
  }
  for (const ParamSpec& spec : def.params) {
    if (spec.fallback.kind == ParamDefault::kRequired && node.Find(spec.name) == nullptr) {
      return Invalid("param '%s' is missing; it must be %s, %s", spec.name, KindName(spec.kind),
                     RuleText(spec).c_str());
    }
  }
  return Status::Ok();
}

void Complete(Node* node, const OpDef& def) {
  for (const ParamSpec& spec : def.params) {
    const ParamDefault& fallback = spec.fallback;
    if (fallback.kind < ParamDefault::kValue || node->Find(spec.name) != nullptr) continue;
    const bool fixed = fallback.kind == ParamDefault::kValue;
    node->params.push_back({spec.name, fixed ? fallback.value : fallback.of_node(*node), false});
  }
}

// The first of a node's tensors that is empty where its port may be left out, from `i` on.
size_t EmptyOptional(const std::vector<const Tensor*>& tensors, const std::vector<PortSpec>& ports,
                     size_t i = 0) {
  const size_t n = std::min(tensors.size(), ports.size());
  while (i < n && (tensors[i] == nullptr || !IsOmitted(ports[i], tensors[i]))) ++i;
  return i < n ? i : SIZE_MAX;
}

bool HasEmptyOptional(const Node& node, const OpDef& def) {
  return EmptyOptional(node.inputs, def.inputs) != SIZE_MAX ||
         EmptyOptional(node.outputs, def.outputs) != SIZE_MAX;
}

// The node with such empty tensors taken out, so that a family sees null and nothing else.
Node WithoutEmptyOptionals(const Node& node, const OpDef& def) {
  Node copy = node;
  const auto remove = [](std::vector<const Tensor*>* tensors, const std::vector<PortSpec>& ports) {
    for (size_t i = 0; (i = EmptyOptional(*tensors, ports, i)) != SIZE_MAX;)
      (*tensors)[i] = nullptr;
  };
  remove(&copy.inputs, def.inputs);
  remove(&copy.outputs, def.outputs);
  return copy;
}

bool HasType(const Node& node, TypeSet types) {
  for (const auto* tensors : {&node.inputs, &node.outputs}) {
    for (const Tensor* tensor : *tensors) {
      if (tensor != nullptr && (TypeBit(tensor->dtype) & types) != 0) return true;
    }
  }
  return false;
}

// Weights in blocks of which each has its scale: only a Codec knows them.
bool HasBlocks(const Node& node) {
  for (const Tensor* tensor : node.inputs) {
    if (tensor != nullptr && tensor->quantization.in_blocks()) return true;
  }
  return false;
}

// INT_64 beside fixed-point numbers is what they stand for, cut off: as the vendor's library casts,
// which takes the stored integers for all other types.
bool CastsRealNumbers(const Node& node) {
  return node.type == QNN_OP_CAST && HasType(node, TypeBit(QNN_DATATYPE_INT_64));
}

Result<KernelPtr> MakePortable(const OpDef& def, const Node& node, const KernelOptions& options) {
  if (HasBlocks(node)) return MakeViaFloat(def, node, options);
  if (HasType(node, types::kFixed)) {
    if ((def.flags & OpDef::kIntegers) != 0 && !CastsRealNumbers(node))
      return MakeOnIntegers(def, node, options);
    KernelPtr fixed;
    if ((def.flags & OpDef::kMoves) != 0) {
      QNNRT_ASSIGN_OR_RETURN(fixed, MakeFixedMove(def, node, options));
      if (fixed) return fixed;
    }
    if (def.fixed != nullptr) {
      QNNRT_ASSIGN_OR_RETURN(fixed, def.fixed(node, options));
      if (fixed) return fixed;
    }
    return MakeViaFloat(def, node, options);
  }
  if (HasType(node, types::kFloat & ~types::kF32)) {
    // Where some have 32 bits, kernels that compute convert by themselves; others count on one
    // size.
    const bool mixes = (def.flags & (OpDef::kMoves | OpDef::kMixes)) != OpDef::kMoves &&
                       def.keeps_state == nullptr;
    const bool native =
        (def.flags & OpDef::kNativeHalf) != 0 && (mixes || !HasType(node, types::kF32));
    if (!native) return MakeViaFloat(def, node, options);
  }
  return def.portable(node, options);
}

// Clients that have no tensors of rank 0 write a scalar as [1]; those that have some convert from
// the one to the other, where the shape is of no other concern.
bool IsDeclaredAs(const OpDef& def, const Shape& declared, const Shape& inferred) {
  if (declared == inferred || (inferred.empty() && declared == Shape{1})) return true;
  const bool converts = (def.flags & OpDef::kConverts) != 0 && def.infer == SameShapeAsInput;
  return converts && declared.empty() && inferred == Shape{1};
}

Status Validate(Node* checked, const OpDef& def) {
  const Node& node = *checked;
  QNNRT_RETURN_IF_ERROR(CheckPorts(node, def, def.inputs, "input", node.inputs));
  QNNRT_RETURN_IF_ERROR(CheckPorts(node, def, def.outputs, "output", node.outputs));
  QNNRT_RETURN_IF_ERROR(CheckParams(node, def));
  Complete(checked, def);
  QNNRT_RETURN_IF_ERROR(CheckFixedPoint(node, def));
  std::vector<Shape> shapes(node.outputs.size());
  QNNRT_RETURN_IF_ERROR(def.infer(node, &shapes));
  for (size_t i = 0; i < node.outputs.size() && i < shapes.size(); ++i) {
    const Tensor* output = node.outputs[i];
    if (output != nullptr && !IsDeclaredAs(def, output->shape, shapes[i])) {
      return Invalid("output %zu '%s' is declared as %s but comes out as %s", i,
                     output->name.c_str(), ShapeText(output->shape).c_str(),
                     ShapeText(shapes[i]).c_str());
    }
  }
  return {};
}

Status UnknownOp(const Node& node) {
  return Error(QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND,
               "node '%s': no op '%s' in package qti.aisw here; the op coverage page lists those "
               "there are",
               node.name.c_str(), node.type.c_str());
}

}  // namespace

const OpDef* FindOp(const std::string& type) {
  const auto& by_type = TheTable().by_type;
  const auto it = by_type.find(type);
  if (it != by_type.end()) return it->second;
  return IsPackageOpType(type) ? &PackageOpDef() : nullptr;
}

const std::vector<const OpDef*>& AllOps() { return TheTable().list; }

size_t OutputAxis(const OpDef& def, const Node& node) {
  const int axis = node.Bool("transpose_in1") ? -3 - def.weights_axis : def.weights_axis;
  return node.inputs[1]->shape.size() - static_cast<size_t>(-axis);
}

bool KeepsState(const Node& node) {
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || def->keeps_state == nullptr) return false;
  if (!HasEmptyOptional(node, *def)) return def->keeps_state(node);
  return def->keeps_state(WithoutEmptyOptionals(node, *def));
}

Status ValidateNode(Node* node) {
  if (node->package_op != nullptr) return node->package_op->Validate(*node);
  const OpDef* def = FindOp(node->type);
  if (def == nullptr || def == &PackageOpDef()) return UnknownOp(*node);
  const std::string label = node->type + " '" + node->name + "'";
  if (!HasEmptyOptional(*node, *def)) return Validate(node, *def).Within(label);
  Node copy = WithoutEmptyOptionals(*node, *def);
  Status status = Validate(&copy, *def).Within(label);
  node->params = std::move(copy.params);
  return status;
}

Status ValidateClientNode(Node* node) {
  const OpDef* def = FindOp(node->type);
  if (def != nullptr && (def->flags & OpDef::kInternal) != 0) return UnknownOp(*node);
  return ValidateNode(node);
}

void CompleteParams(Node* node) {
  if (const OpDef* def = FindOp(node->type)) Complete(node, *def);
}

ParamDefault DefaultInts(const Shape& shape, int32_t value) {
  Tensor tensor;
  tensor.type = QNN_TENSOR_TYPE_STATIC;
  tensor.dtype = QNN_DATATYPE_INT_32;
  tensor.shape = shape;
  const std::vector<int32_t> values(tensor.elements(), value);
  tensor.data = AlignedBytes::Copy(values.data(), tensor.bytes());
  return {ParamDefault::kValue, std::move(tensor)};
}

Result<KernelPtr> MakeKernel(const Node& node, const KernelOptions& options) {
  if (node.package_op != nullptr) return node.package_op->MakeKernel(node);
  const OpDef* def = FindOp(node.type);
  if (def == nullptr || def == &PackageOpDef()) return UnknownOp(node);
  if (HasEmptyOptional(node, *def)) return MakeKernel(WithoutEmptyOptionals(node, *def), options);
  if (!HasBlocks(node)) {
    QNNRT_ASSIGN_OR_RETURN(KernelPtr fast, MakeOneDnnKernel(node, options));
    if (fast) return fast;
  }
  QNNRT_ASSIGN_OR_RETURN(KernelPtr kernel, MakePortable(*def, node, options));
  if (!kernel) {
    return Error(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "%s '%s': no kernel for these types",
                 node.type.c_str(), node.name.c_str());
  }
  return kernel;
}

}  // namespace qnnrt
