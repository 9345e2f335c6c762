#include "api/convert.h"

#include <algorithm>
#include <new>
#include <optional>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "api/encoding.h"
#include "ir/match.h"
#include "ops/encoding.h"
#include "ops/fixed/bias_scale.h"
#include "ops/strided_copy.h"
#include "support/number_of.h"

namespace qnnrt {
namespace {

Status Bad(const char* tensor, const std::string& what) {
  return Status(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
                std::string("tensor '") + tensor + "': " + what);
}

bool IsSupportedType(Qnn_TensorType_t type) {
  switch (type) {
    case QNN_TENSOR_TYPE_APP_WRITE:
    case QNN_TENSOR_TYPE_APP_READ:
    case QNN_TENSOR_TYPE_APP_READWRITE:
    case QNN_TENSOR_TYPE_NATIVE:
    case QNN_TENSOR_TYPE_STATIC:
      return true;
    default:
      return false;
  }
}

// The copy of elements with strides to rows.
Result<StridedCopy> ToRows(const char* name, const int64_t* strides, const Tensor& tensor) {
  const size_t element = ElementSize(tensor.dtype);
  const std::vector<ptrdiff_t> rows = DenseStrides(tensor.shape);
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const int64_t stride = strides[d];
    if (stride % static_cast<int64_t>(element) != 0) {
      return Bad(name, "dimension " + std::to_string(d) + " has a stride of " +
                           std::to_string(stride) + " bytes, no multiple of the element's " +
                           std::to_string(element));
    }
    dims.push_back({tensor.shape[d], stride / static_cast<int64_t>(element), rows[d]});
  }
  return StridedCopy(element, std::move(dims));
}

// Whether the elements fill their part of memory, in whatever order.
bool IsDense(const int64_t* strides, const Tensor& tensor) {
  std::vector<std::pair<int64_t, uint32_t>> dims;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] != 1) dims.emplace_back(strides[d], tensor.shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = static_cast<int64_t>(ElementSize(tensor.dtype));
  for (const auto& [stride, count] : dims) {
    if (stride != expected) return false;
    expected *= count;
  }
  return true;
}

// Data of the client's, which is copied when the graph reads it.
class LentData final : public ByteSource {
 public:
  LentData(const void* data, size_t size, const StaticSource& source)
      : data_(data),
        size_(size),
        threads_(source.threads),
        scope_(source.scope),
        known_(source.lent ? source.known : nullptr) {}

  // As rows; `strides` are those of dense elements.
  void Reorder(StridedCopy copy, const int64_t* strides, const Tensor& tensor) {
    copy_.emplace(std::move(copy));
    order_.assign(strides, strides + tensor.shape.size());
    order_.insert(order_.end(), tensor.shape.begin(), tensor.shape.end());
  }

  Digest Hash(const Threads& threads) const override {
    Digest digest =
        known_ != nullptr ? known_->Of(data_, size_, threads) : DigestOf(data_, size_, threads);
    if (!copy_) return digest;
    const Digest order = DigestOf(order_.data(), order_.size() * sizeof(int64_t));
    for (size_t i = 0; i < digest.size(); ++i) digest[i] += order[i] + order_.size();
    return digest;
  }

  void Write(void* to) const override {
    if (copy_) {
      copy_->Run(threads_, data_, to);
    } else {
      ParallelCopy(threads_, to, data_, size_);
    }
  }

  std::optional<LyingElements> Lying() const override {
    const auto dims = order_.begin() + static_cast<ptrdiff_t>(order_.size() / 2);
    return LyingElements{static_cast<const char*>(data_), {order_.begin(), dims}};
  }

  ShareScope scope() const override { return scope_; }

 private:
  const void* const data_;
  const size_t size_;
  const Threads threads_;
  const ShareScope scope_;
  const std::shared_ptr<KnownDigests> known_;
  std::optional<StridedCopy> copy_;
  std::vector<int64_t> order_;
};

// Whole bytes that lie as the tensor has them, or with strides. Null: out of memory.
Result<std::shared_ptr<AlignedBytes>> TakeData(const Qnn_TensorV1_t& t, const char* name,
                                               const StaticSource& source, const Tensor& tensor) {
  constexpr uint64_t kLeastLent = 4096;
  const void* const data = t.clientBuf.data;
  const uint64_t bytes = tensor.bytes();
  const bool strided = source.strides != nullptr && bytes > 0;
  std::optional<StridedCopy> rows;
  if (strided) {
    QNNRT_ASSIGN_OR_RETURN(rows, ToRows(name, source.strides, tensor));
  }
  if (source.lent && bytes >= kLeastLent && (!strided || IsDense(source.strides, tensor))) {
    auto lent = std::make_unique<LentData>(data, bytes, source);
    if (strided) lent->Reorder(std::move(*rows), source.strides, tensor);
    return AlignedBytes::Later(bytes, std::move(lent));
  }
  if (!strided && source.scope && bytes >= kLeastShared) {
    // Looked for before it is copied.
    return AlignedBytes::Of(LentData(data, bytes, source), bytes,
                            DigestOf(data, bytes, source.threads));
  }
  std::shared_ptr<AlignedBytes> made = AlignedBytes::Make(bytes);
  if (made == nullptr || bytes == 0) return made;
  if (strided) {
    rows->Run(source.threads, data, made->data());
  } else {
    ParallelCopy(source.threads, made->data(), data, bytes);
  }
  return Shared(source.scope, std::move(made), source.threads);
}

// `packed`: two elements in a byte.
Status CopyData(const Qnn_TensorV1_t& t, const char* name, bool packed, const StaticSource& source,
                Tensor* tensor) {
  const uint64_t bytes = packed ? (tensor->elements() + 1) / 2 : tensor->bytes();
  if (t.memType != QNN_TENSORMEMTYPE_RAW)
    return Bad(name, "a static tensor brings its data as RAW memory");
  if (bytes > 0 && t.clientBuf.data == nullptr)
    return Bad(name, "it is static but its data pointer is null");
  // dataSize is 32 bits wide: beyond that it is the lower half of the size, or the most that it can
  // say. Elements that come unpacked would be read as others: their size has to be the exact one.
  const uint32_t given = t.clientBuf.dataSize;
  const bool wide = bytes > UINT32_MAX, exact = given == static_cast<uint32_t>(bytes);
  if (!exact && (packed || (wide ? given != UINT32_MAX : given < bytes))) {
    return Bad(name, "its data has " + std::to_string(given) + " bytes, " +
                         DataTypeName(t.dataType) + " " + ShapeText(tensor->shape) + " needs " +
                         std::to_string(bytes) + (packed ? ", two elements in each" : ""));
  }
  if (packed && source.strides != nullptr)
    return Bad(name, "two elements in a byte have no strides");
  const uint32_t bits = tensor->quantization.bitwidth;
  const bool narrow = bits != 0 && bits < 8 && IsFixed(tensor->dtype) &&
                      ElementSize(tensor->dtype) == 1;  // others are cut off
  const bool unpacks = packed && !source.keep_packed;
  if (unpacks) {
    tensor->data = AlignedBytes::Make(tensor->bytes());
    if (tensor->data != nullptr) {
      Unpack4(static_cast<const uint8_t*>(t.clientBuf.data), tensor->elements(),
              t.dataType == QNN_DATATYPE_SFIXED_POINT_4,
              static_cast<uint8_t*>(tensor->data->data()));
    }
  } else {
    tensor->two_in_byte = packed;
    StaticSource taken = source;
    if (narrow && !packed) taken.scope.reset(), taken.lent = false;
    QNNRT_ASSIGN_OR_RETURN(tensor->data, TakeData(t, name, taken, *tensor));
  }
  if (tensor->data == nullptr)
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "tensor '%s': out of memory for its data", name);
  if (narrow && !packed) {
    KeepLowBits(bits, bytes, tensor->dtype == QNN_DATATYPE_SFIXED_POINT_8,
                static_cast<uint8_t*>(tensor->data->data()));
  }
  if (unpacks || (narrow && !packed))
    tensor->data = Shared(source.scope, std::move(tensor->data), source.threads);
  return Status::Ok();
}

// 4-bit elements are kept in 8 bits; only constants can come as such.
Status SetWidth4(Qnn_DataType_t packed, Tensor* tensor) {
  if (tensor->type != QNN_TENSOR_TYPE_STATIC) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': %s is for STATIC tensors, two elements in a byte; use %s with a "
                 "BW_SCALE_OFFSET encoding of bit width 4",
                 tensor->name.c_str(), DataTypeName(packed), DataTypeName(tensor->dtype));
  }
  Quantization& q = tensor->quantization;
  if (q.bitwidth == 0) q.bitwidth = 4;
  if (q.encoding == QNN_QUANTIZATION_ENCODING_SCALE_OFFSET)
    q.encoding = QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET;
  if (q.encoding == QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET)
    q.encoding = QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET;
  if (q.bitwidth <= 4) return Status::Ok();
  return Bad(tensor->name.c_str(), "the bit width of its quantization is " +
                                       std::to_string(q.bitwidth) +
                                       ", but its elements have 4 bits");
}

}  // namespace

bool IsOmitted(const Qnn_Tensor_t& tensor) {
  const Qnn_TensorV1_t& t = tensor.v1;
  if (t.type == QNN_TENSOR_TYPE_NULL) return true;
  if (t.dimensions == nullptr || t.rank > kMostDims) return false;
  for (uint32_t d = 0; d < t.rank; ++d) {
    if (t.dimensions[d] == 0) return true;
  }
  return false;
}

Result<Tensor> TensorFromQnn(const Qnn_Tensor_t& tensor, bool with_data,
                             const StaticSource& source) {
  if (!HasKnownVersion(tensor)) {
    return Error(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
                 "tensor version %d is unknown; 1 and 2 are supported",
                 static_cast<int>(tensor.version));
  }
  const Qnn_TensorV1_t& t = tensor.v1;  // version 2 begins with the same fields
  const char* name = t.name == nullptr ? "" : t.name;
  if (t.rank > kMostDims || (t.rank > 0 && t.dimensions == nullptr)) {
    return Bad(name, t.rank > kMostDims ? "rank " + std::to_string(t.rank) + " is beyond 16"
                                        : "its dimensions are null");
  }
  if (!IsSupportedType(t.type)) {
    return Error(
        QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
        "tensor '%s': tensor type %d is not supported (APP_WRITE, APP_READ, APP_READWRITE, NATIVE "
        "and STATIC are)",
        name, static_cast<int>(t.type));
  }
  if (t.dataFormat != QNN_TENSOR_DATA_FORMAT_DENSE) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': data format %u is not supported; use DENSE (0)", name, t.dataFormat);
  }
  if (tensor.version == QNN_TENSOR_VERSION_2 && tensor.v2.isDynamicDimensions != nullptr) {
    for (uint32_t d = 0; d < t.rank; ++d) {
      if (tensor.v2.isDynamicDimensions[d] != 0) {
        return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                     "tensor '%s': dimension %u is dynamic; give every dimension its size", name,
                     d);
      }
    }
  }
  // Of zeros alone it says nothing, though COO is the number 0.
  if (tensor.version == QNN_TENSOR_VERSION_2 &&
      NumberOf(tensor.v2.sparseParams.type) == QNN_SPARSE_LAYOUT_HYBRID_COO &&
      tensor.v2.sparseParams.hybridCoo.numSparseDimensions != 0) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': it is sparse (hybrid COO, %u of its dimensions), which is not "
                 "supported; give it dense",
                 name, tensor.v2.sparseParams.hybridCoo.numSparseDimensions);
  }
  const bool app = t.type != QNN_TENSOR_TYPE_NATIVE && t.type != QNN_TENSOR_TYPE_STATIC;
  if (app && NumberOf(t.memType) == QNN_TENSORMEMTYPE_RETRIEVE_RAW) {
    return Error(QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM,
                 "tensor '%s': memory type RETRIEVE_RAW (2) is not supported; use RAW (0) or "
                 "MEMHANDLE (1)",
                 name);
  }
  Tensor result;
  result.id = t.id;
  result.name = name;
  result.type = t.type;
  result.dtype = t.dataType;
  result.shape.assign(t.dimensions, t.dimensions + t.rank);
  result.mem_type = t.memType;
  const bool packed = IsPacked4(t.dataType);
  if (packed) result.dtype = UnpackedType(t.dataType);
  uint64_t count, bytes;
  if (!ElementCount(result.shape, &count) ||
      __builtin_mul_overflow(count, ElementSize(result.dtype), &bytes) ||
      bytes > (uint64_t{1} << 48)) {
    return Bad(name,
               "shape " + ShapeText(result.shape) + " has more elements than memory can hold");
  }
  QNNRT_RETURN_IF_ERROR(ReadEncoding(t.quantizeParams, &result));
  if (packed) QNNRT_RETURN_IF_ERROR(SetWidth4(t.dataType, &result));
  if (t.type == QNN_TENSOR_TYPE_STATIC && with_data)
    QNNRT_RETURN_IF_ERROR(CopyData(t, name, packed, source, &result));
  return result;
}

namespace {

Result<ParamValue> ScalarFromQnn(const std::string& name, const Qnn_Scalar_t& s) {
  switch (s.dataType) {
    case QNN_DATATYPE_INT_8:
      return ParamValue(int64_t{s.int8Value});
    case QNN_DATATYPE_INT_16:
      return ParamValue(int64_t{s.int16Value});
    case QNN_DATATYPE_INT_32:
      return ParamValue(int64_t{s.int32Value});
    case QNN_DATATYPE_INT_64:
      return ParamValue(int64_t{s.int64Value});
    case QNN_DATATYPE_UINT_8:
      return ParamValue(int64_t{s.uint8Value});
    case QNN_DATATYPE_UINT_16:
      return ParamValue(int64_t{s.uint16Value});
    case QNN_DATATYPE_UINT_32:
      return ParamValue(int64_t{s.uint32Value});
    case QNN_DATATYPE_UINT_64:
      return ParamValue(static_cast<int64_t>(s.uint64Value));
    case QNN_DATATYPE_FLOAT_16:
    case QNN_DATATYPE_BFLOAT_16:
      // ONNX Runtime's provider stores a float32 under this type, whose lower half is another
      // number.
      if (s.uint32Value >> 16 != 0) {
        return Error(QNN_GRAPH_ERROR_INVALID_OP_CONFIG,
                     "param '%s': a scalar of type %s has 16 bits, got 0x%08x; give them in "
                     "uint16Value, with zeros above",
                     name.c_str(), DataTypeName(s.dataType), s.uint32Value);
      }
      return ParamValue(double{NarrowFloatOf(s.dataType)->Wide(s.uint16Value)});
    case QNN_DATATYPE_FLOAT_32:
      return ParamValue(double{s.floatValue});
    case QNN_DATATYPE_FLOAT_64:
      return ParamValue(s.doubleValue);
    case QNN_DATATYPE_BOOL_8:
      return ParamValue(s.bool8Value != 0);
    case QNN_DATATYPE_STRING:
      return ParamValue(std::string(s.stringValue == nullptr ? "" : s.stringValue));
    default:
      return Error(QNN_GRAPH_ERROR_INVALID_OP_CONFIG,
                   "param '%s': scalars of type %s are not supported", name.c_str(),
                   DataTypeName(s.dataType));
  }
}

}  // namespace

Result<Node> NodeFromQnn(const Qnn_OpConfig_t& config, const OpPackages& packages,
                         uint64_t context) {
  constexpr ErrorCode kBad = QNN_GRAPH_ERROR_INVALID_OP_CONFIG;
  if (config.version != QNN_OPCONFIG_VERSION_1)
    return Error(kBad, "op config version %d is unknown; 1 is supported",
                 static_cast<int>(config.version));
  const Qnn_OpConfigV1_t& c = config.v1;
  if (c.typeName == nullptr) return Error(kBad, "op config without a type name");
  Node node;
  node.name = c.name == nullptr ? "" : c.name;
  node.type = c.typeName;
  node.package = c.packageName == nullptr ? QNN_OP_PACKAGE_NAME_QTI_AISW : c.packageName;
  if (node.package != QNN_OP_PACKAGE_NAME_QTI_AISW) {
    Result<std::shared_ptr<const PackageOp>> op = packages.Find(node.package, node.type, context);
    if (!op.ok()) return std::move(op).status().Within("node '" + node.name + "'");
    node.package_op = std::move(op).value();
    node.type = PackageOpType(node.package, node.type);
  }
  bool arrays = (c.numOfParams == 0 || c.params != nullptr) &&
                (c.numOfInputs == 0 || c.inputTensors != nullptr) &&
                (c.numOfOutputs == 0 || c.outputTensors != nullptr);
  if (!arrays)
    return Error(kBad,
                 "node '%s': an array of params, inputs or outputs is null but its count is not 0",
                 node.name.c_str());
  for (uint32_t i = 0; i < c.numOfParams; ++i) {
    const Qnn_Param_t& p = c.params[i];
    std::string name = p.name == nullptr ? "" : p.name;
    if (p.paramType == QNN_PARAMTYPE_SCALAR) {
      QNNRT_ASSIGN_OR_RETURN(ParamValue value, ScalarFromQnn(name, p.scalarParam));
      node.params.push_back({name, std::move(value), true, p.scalarParam.dataType});
    } else if (p.paramType == QNN_PARAMTYPE_TENSOR) {
      Result<Tensor> value = TensorFromQnn(p.tensorParam, true);
      if (!value.ok())
        return std::move(value).status().WithCode(kBad).Within("node '" + node.name + "', param '" +
                                                               name + "'");
      value.value().id = 0;  // part of the node, whether or not the client made it a tensor before
      node.params.push_back({name, std::move(value).value()});
    } else {
      return Error(kBad, "node '%s': param '%s' is neither scalar nor tensor", node.name.c_str(),
                   name.c_str());
    }
  }
  return node;
}

namespace {

// With its data where it brings them, since some ops have rules for constants: what indices lie
// between. None has one for fixed-point numbers. Data that do not fit are left out here.
Result<Tensor> TensorToValidate(const Qnn_Tensor_t& tensor) {
  const Qnn_DataType_t type = tensor.v1.dataType;
  if (tensor.v1.type == QNN_TENSOR_TYPE_STATIC && !IsFixed(type) && !IsPacked4(type) &&
      tensor.v1.clientBuf.data != nullptr) {
    StaticSource source;
    source.lent = true;
    Result<Tensor> whole = TensorFromQnn(tensor, true, source);
    if (whole.ok()) return whole;
  }
  return TensorFromQnn(tensor, false);
}

}  // namespace

Result<NodeAlone> NodeAloneFromQnn(const Qnn_OpConfig_t& config, const OpPackages& packages) {
  NodeAlone alone;
  QNNRT_ASSIGN_OR_RETURN(alone.node, NodeFromQnn(config, packages, 0));
  const auto take = [&](const Qnn_Tensor_t* from, uint32_t n,
                        std::vector<const Tensor*>* to) -> Status {
    for (uint32_t i = 0; i < n; ++i) {
      Result<Tensor> tensor = TensorToValidate(from[i]);
      if (from[i].v1.type == QNN_TENSOR_TYPE_NULL || (IsOmitted(from[i]) && !tensor.ok())) {
        to->push_back(nullptr);
        continue;
      }
      if (!tensor.ok()) return std::move(tensor).status();
      QNNRT_RETURN_IF_ERROR(CheckTensor(*tensor));  // as a graph would, when it is created
      alone.tensors.push_back(std::move(tensor).value());
      to->push_back(&alone.tensors.back());
    }
    return Status::Ok();
  };
  QNNRT_RETURN_IF_ERROR(take(config.v1.inputTensors, config.v1.numOfInputs, &alone.node.inputs));
  QNNRT_RETURN_IF_ERROR(take(config.v1.outputTensors, config.v1.numOfOutputs, &alone.node.outputs));
  return alone;
}

}  // namespace qnnrt
