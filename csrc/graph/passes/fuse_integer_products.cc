// The second half of fuse_dynamic.cc: products of integers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "abi/qnn_op_names.h"
#include "graph/passes/fuse_dynamic.h"
#include "ops/dynamic/dynamic.h"
#include "ops/op.h"

namespace qnnrt {
namespace {

bool IsByte(Qnn_DataType_t type) {
  return type == QNN_DATATYPE_UINT_8 || type == QNN_DATATYPE_INT_8;
}

// Fixed-point bytes that stand for integers.
bool HoldsIntegers(const Tensor& t) {
  const Quantization& q = t.quantization;
  return (t.is_static() || q.per_tensor()) && (TypeBit(t.dtype) & types::kFixed8) != 0 &&
         !q.in_blocks() && (q.bitwidth == 0 || q.bitwidth == 8) &&
         std::all_of(q.scales.begin(), q.scales.end(), [](float s) { return s == 1.0f; });
}

class ProductFusion {
 public:
  ProductFusion(NodeGraph* graph, ZeroPoints* zeros) : to_(graph), zeros_(*zeros) {
    for (size_t i = 0; i < to_.size(); ++i) {
      for (const Tensor* t : to_.node(i).inputs) readers_[t] = i;
    }
  }

  int Run() {
    int found = 0;
    for (size_t i = 0; i < to_.size(); ++i) found += Fuse(i) ? 1 : 0;
    to_.Apply();
    return found;
  }

 private:
  // A factor: codes - zero.
  struct Factor {
    const Tensor* codes;
    const Tensor* zero = nullptr;  // of one element, any type; null: none
  };

  std::optional<Factor> AsFactor(const Tensor* t) const {
    if (const Node* node = to_.Maker(t, QNN_OP_ELEMENT_WISE_MULTIPLY)) {
      const Tensor* other = Beside(node, 1);
      if (other == nullptr || other->shape != t->shape) return std::nullopt;
      t = other;
    }
    if (const Node* node = to_.Maker(t, QNN_OP_DEQUANTIZE)) {
      if (!HoldsIntegers(*node->inputs[0])) return std::nullopt;
      return Factor{node->inputs[0]};
    }
    Factor factor{};
    if (const Node* node = to_.Maker(t, QNN_OP_ELEMENT_WISE_SUBTRACT)) {
      if (node->inputs[0]->shape != t->shape || node->inputs[1]->elements() != 1)
        return std::nullopt;
      factor.zero = to_.Number(node->inputs[1]);
      if (const Node* real = to_.Maker(factor.zero, QNN_OP_CAST)) {
        factor.zero = to_.Number(real->inputs[0]);
        if (!IsByte(factor.zero->dtype)) return std::nullopt;
      } else if (!factor.zero->is_static() || factor.zero->dtype != QNN_DATATYPE_FLOAT_32) {
        return std::nullopt;
      }
      t = node->inputs[0];
    }
    const Node* cast = to_.Maker(t, QNN_OP_CAST);
    if (cast == nullptr || !IsByte(cast->inputs[0]->dtype) || t->dtype != QNN_DATATYPE_FLOAT_32) {
      return std::nullopt;
    }
    factor.codes = cast->inputs[0];
    return factor;
  }

  // A zero point as INT_32, before node i; null: none, or `ok` is false.
  const Tensor* Zero(size_t i, const Tensor* zero, bool* ok) {
    if (zero == nullptr) return nullptr;
    if (auto found = zeros_.find(zero); found != zeros_.end()) return found->second;
    int32_t value = 0;
    if (zero->is_static() && zero->dtype == QNN_DATATYPE_FLOAT_32) {
      const float real = *zero->data_as<float>();
      *ok = std::fabs(real) <= 255 && std::nearbyint(real) == real;
      if (!*ok) return nullptr;
      value = static_cast<int32_t>(real);
    } else if (zero->is_static()) {
      value =
          zero->dtype == QNN_DATATYPE_INT_8 ? *zero->data_as<int8_t>() : *zero->data_as<uint8_t>();
    }
    Tensor* made = to_.graph()->NewTensor(*zero);
    made->name += ".int32";
    made->dtype = QNN_DATATYPE_INT_32;
    made->shape = {1};
    made->quantization = {};
    zeros_[zero] = made;
    if (zero->is_static()) {
      made->type = QNN_TENSOR_TYPE_STATIC;
      made->data = AlignedBytes::Copy(&value, sizeof value);
      *ok = made->data != nullptr;
      return made;
    }
    Node node;
    node.name = made->name;
    node.package = QNN_OP_PACKAGE_NAME_QTI_AISW;
    node.type = QNN_OP_CAST;
    node.inputs = {zero};
    node.outputs = {made};
    to_.Insert(i, std::move(node));
    return made;
  }

  // Weights that are plain constants as fixed-point numbers, which say their zero point themselves.
  const Tensor* AsFixed(const Tensor& codes, const Tensor* zero) {
    if (zero != nullptr && !zero->is_static()) return nullptr;
    Tensor* made = to_.graph()->NewTensor(codes);
    made->type = QNN_TENSOR_TYPE_STATIC;
    made->data = codes.data;
    made->dtype = codes.dtype == QNN_DATATYPE_INT_8 ? QNN_DATATYPE_SFIXED_POINT_8
                                                    : QNN_DATATYPE_UFIXED_POINT_8;
    Quantization& q = made->quantization;
    q.defined = true;
    q.encoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
    q.scales = {1.0f};
    q.offsets = {zero == nullptr ? 0 : -*zero->data_as<int32_t>()};
    return made;
  }

  // The product that node i casts to INT_32.
  std::optional<Node> Product(size_t i) {
    const Node& cast = to_.node(i);
    if (cast.type != QNN_OP_CAST || cast.outputs[0]->dtype != QNN_DATATYPE_INT_32 ||
        !to_.graph()->IsPrivate(cast.inputs[0])) {
      return std::nullopt;
    }
    const Node* from = to_.Maker(cast.inputs[0], nullptr);
    if (from == nullptr || from->HasInput(2)) return std::nullopt;
    const bool dense = from->type == QNN_OP_FULLY_CONNECTED;
    const bool depthwise = from->type == QNN_OP_DEPTH_WISE_CONV_2D;
    const bool windows = depthwise || from->type == QNN_OP_CONV_2D;
    if (!dense && !windows && from->type != QNN_OP_MAT_MUL) return std::nullopt;
    if (dense && (from->inputs[0]->shape.size() != 2 || from->outputs[0]->shape.size() != 2))
      return std::nullopt;
    const std::optional<Factor> a = AsFactor(from->inputs[0]), b = AsFactor(from->inputs[1]);
    if (!a || !b || a->codes->is_static()) return std::nullopt;
    bool ok = true;
    Node node;
    node.name = from->name;
    node.package = from->package;
    node.type = kIntegerMatMul;
    node.params = {{"transpose_in0", !dense && from->Bool("transpose_in0")},
                   {"transpose_in1", dense || from->Bool("transpose_in1")}};
    node.inputs.assign(kScalePort + 1, nullptr);
    node.outputs = {cast.outputs[0]};
    node.inputs[0] = a->codes;
    node.inputs[1] = b->codes;
    node.inputs[kZero0Port] = Zero(i, a->zero, &ok);
    const Tensor* zero = Zero(i, b->zero, &ok);
    if (b->codes->is_static() && !IsFixed(b->codes->dtype)) {
      node.inputs[1] = AsFixed(*b->codes, zero);
    } else {
      node.inputs[kZero1Port] = zero;
    }
    if (!ok || node.inputs[1] == nullptr) return std::nullopt;
    if (windows) {
      node.type = kIntegerConv2d;
      node.params.clear();
      for (const char* name : {"stride", "pad_amount", "dilation", "group"}) {
        if (const Param* param = from->Find(name)) node.params.push_back(*param);
      }
      if (depthwise) node.params.push_back({"group", int64_t{a->codes->shape.back()}});
    }
    return node;
  }

  // The only reader of a tensor that nobody else needs, if it is of this type.
  const Node* Reader(const Tensor* t, const char* type) {
    const auto found = readers_.find(t);
    if (found == readers_.end() || to_.graph()->Uses(t) != 1) return nullptr;
    if (t->type != QNN_TENSOR_TYPE_NATIVE) return nullptr;
    const Node& node = to_.node(found->second);
    return node.type == type && node.post_ops.empty() ? &node : nullptr;
  }

  // The other input of a binary reader, when it is FLOAT_32 with one element for each column
  // (or one for all, if that will do), and the result is as large as `t`.
  static const Tensor* PerColumn(const Node& reader, const Tensor* t, bool one_will_do) {
    const Tensor* other = reader.inputs[reader.inputs[0] == t ? 1 : 0];
    if (other->dtype != QNN_DATATYPE_FLOAT_32 || reader.outputs[0]->shape != t->shape)
      return nullptr;
    const uint32_t columns = t->shape.back();
    if (other->elements() == 1 && (one_will_do || columns == 1)) return other;
    return other->elements() == columns && other->shape.back() == columns ? other : nullptr;
  }

  // Takes what follows the sums: to float, times the scale, plus the bias. Returns the last node.
  size_t TakeRest(size_t i, Node* node) {
    const Node* real = Reader(node->outputs[0], QNN_OP_CAST);
    if (real == nullptr || real->outputs[0]->dtype != QNN_DATATYPE_FLOAT_32) return i;
    size_t last = Take(i, *real, node);
    const Tensor* out = node->outputs[0];
    if (const Node* times = Reader(out, QNN_OP_ELEMENT_WISE_MULTIPLY)) {
      if (const Tensor* scale = PerColumn(*times, out, true)) {
        node->inputs[kScalePort] = scale;
        last = Take(last, *times, node);
        out = node->outputs[0];
      }
    }
    if (const Node* plus = Reader(out, QNN_OP_ELEMENT_WISE_ADD)) {
      const Tensor* bias = PerColumn(*plus, out, false);
      if (bias != nullptr && (bias->is_static() || bias->shape.size() == 1)) {
        node->inputs[kBiasPort] = AsRow(*bias);
        last = Take(last, *plus, node);
      }
    }
    return last;
  }

  size_t Take(size_t before, const Node& next, Node* node) {
    to_.Drop(before);
    node->outputs = {next.outputs[0]};
    return to_.IndexOf(next.outputs[0]);
  }

  const Tensor* AsRow(const Tensor& bias) {
    if (bias.shape.size() == 1) return &bias;
    Tensor* row = to_.graph()->NewTensor(bias);
    row->type = QNN_TENSOR_TYPE_STATIC;
    row->data = bias.data;
    row->shape = {bias.shape.back()};
    return row;
  }

  bool Fuse(size_t i) {
    if (to_.dropped(i)) return false;
    std::optional<Node> node = Product(i);
    if (!node) return false;
    Node checked = *node;
    if (!ValidateNode(&checked).ok()) return false;  // no elements, or too many dims
    const size_t last = TakeRest(i, &*node);
    CompleteParams(&*node);
    to_.node(last) = std::move(*node);
    return true;
  }

  Rewriter to_;
  ZeroPoints& zeros_;
  std::unordered_map<const Tensor*, size_t> readers_;
};

}  // namespace

int FuseIntegerProducts(NodeGraph* graph, ZeroPoints* zeros) {
  return ProductFusion(graph, zeros).Run();
}

}  // namespace qnnrt
