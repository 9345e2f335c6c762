#include "saver/program.h"

#include <cmath>
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnnrt_ext.h"
#include "support/number_of.h"

namespace qnnrt::saver {
namespace {

std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Text(const char* format, ...) {
  char text[128];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

std::string Signed(int64_t value) { return std::to_string(value); }

std::string Real(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (!std::isfinite(value)) return Text("real(0x%08xu)", bits);
  const std::string text = Text("%.9g", static_cast<double>(value));
  return text.find_first_of(".e") == std::string::npos ? text + ".0f" : text + "f";
}

// An enumerator by its number: its name may be newer than the headers.
template <typename Enum>
std::string Cast(const char* type, const Enum& value) {
  return Text("(%s)0x%x", type, NumberOf(value));
}

Status Unknown(const char* what, uint32_t number) {
  return Error(QNN_COMMON_ERROR_NOT_SUPPORTED, "%s %u cannot be recorded", what, number);
}

Result<uint64_t> Elements(const Qnn_TensorV1_t& tensor, const uint32_t* block_sizes) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    const uint64_t size = block_sizes == nullptr ? 1 : block_sizes[i];
    if (size == 0 || tensor.dimensions == nullptr)
      return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a block size must not be 0");
    const uint64_t blocks = (tensor.dimensions[i] + size - 1) / size;
    if (blocks != 0 && n > UINT32_MAX / blocks)
      return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a tensor has too many blocks");
    n *= blocks;
  }
  return n;
}

}  // namespace

const std::string* Owners::Find(uint32_t id) const {
  for (const Object* object : {graph, context}) {
    if (object == nullptr) continue;
    auto found = object->tensors.find(id);
    if (found != object->tensors.end()) return &found->second;
  }
  return nullptr;
}

std::string Quoted(const char* text) {
  if (text == nullptr) return "NULL";
  std::string quoted = "\"";
  for (; *text != '\0'; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\' || c == '?') {
      quoted += '\\';
      quoted += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7F) {
      quoted += Text("\\%03o", c);
    } else {
      quoted += static_cast<char>(c);
    }
  }
  return quoted + '"';
}

Call::Call(Recorder* recorder, const std::string& what) : recorder_(recorder) {
  std::string comment;  // names may end a comment
  for (char c : what) comment += c == '*' || c == '\\' || (c & 0xE0) == 0 ? '_' : c;
  before_ = "  /* " + comment + " */\n";
}

void Call::Check(const std::string& function, const std::string& arguments) {
  Line("check(\"" + function + "\", qnn." + function + "(" + arguments + "));");
}

Result<std::string> Call::Data(const void* data, uint64_t size) {
  if (data == nullptr) return std::string("NULL");
  QNNRT_ASSIGN_OR_RETURN(uint64_t offset, recorder_->Keep(data, size));
  return "data(" + Number(offset) + ", " + Number(size) + ")";
}

Status Call::Quantization(const std::string& lvalue, const Qnn_QuantizeParams_t& params,
                          const Qnn_TensorV1_t& tensor) {
  const std::string at = lvalue + ".quantizeParams.";
  if (params.encodingDefinition == QNN_DEFINITION_UNDEFINED) return Status::Ok();
  Line(at + "encodingDefinition = " + Cast("Qnn_Definition_t", params.encodingDefinition) + ";");
  Line(at + "quantizationEncoding = " +
       Cast("Qnn_QuantizationEncoding_t", params.quantizationEncoding) + ";");
  const auto pointer = [&](const std::string& field, const char* type, const void* values,
                           uint64_t size) -> Status {
    QNNRT_ASSIGN_OR_RETURN(std::string data, Data(values, size));
    Line(field + " = (" + type + "*)" + data + ";");
    return Status::Ok();
  };
  switch (params.quantizationEncoding) {
    case QNN_QUANTIZATION_ENCODING_UNDEFINED:
      return Status::Ok();
    case QNN_QUANTIZATION_ENCODING_SCALE_OFFSET: {
      const Qnn_ScaleOffset_t& e = params.scaleOffsetEncoding;
      Line(at + "scaleOffsetEncoding.scale = " + Real(e.scale) + ";");
      Line(at + "scaleOffsetEncoding.offset = " + Signed(e.offset) + ";");
      return Status::Ok();
    }
    case QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET: {
      const Qnn_BwScaleOffset_t& e = params.bwScaleOffsetEncoding;
      Line(at + "bwScaleOffsetEncoding.bitwidth = " + Number(e.bitwidth) + ";");
      Line(at + "bwScaleOffsetEncoding.scale = " + Real(e.scale) + ";");
      Line(at + "bwScaleOffsetEncoding.offset = " + Signed(e.offset) + ";");
      return Status::Ok();
    }
    case QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: {
      const Qnn_AxisScaleOffset_t& e = params.axisScaleOffsetEncoding;
      const std::string own = at + "axisScaleOffsetEncoding.";
      Line(own + "axis = " + Signed(e.axis) + ";");
      Line(own + "numScaleOffsets = " + Number(e.numScaleOffsets) + ";");
      return pointer(own + "scaleOffset", "Qnn_ScaleOffset_t", e.scaleOffset,
                     e.numScaleOffsets * sizeof(Qnn_ScaleOffset_t));
    }
    case QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: {
      const Qnn_BwAxisScaleOffset_t& e = params.bwAxisScaleOffsetEncoding;
      const std::string own = at + "bwAxisScaleOffsetEncoding.";
      Line(own + "bitwidth = " + Number(e.bitwidth) + ";");
      Line(own + "axis = " + Signed(e.axis) + ";");
      Line(own + "numElements = " + Number(e.numElements) + ";");
      QNNRT_RETURN_IF_ERROR(
          pointer(own + "scales", "float", e.scales, e.numElements * sizeof(float)));
      return pointer(own + "offsets", "int32_t", e.offsets, e.numElements * sizeof(int32_t));
    }
    case QNN_QUANTIZATION_ENCODING_BLOCK: {
      const Qnn_BlockEncoding_t& e = params.blockEncoding;
      QNNRT_ASSIGN_OR_RETURN(uint64_t blocks, Elements(tensor, e.blockSize));
      QNNRT_RETURN_IF_ERROR(pointer(at + "blockEncoding.blockSize", "uint32_t", e.blockSize,
                                    tensor.rank * sizeof(uint32_t)));
      return pointer(at + "blockEncoding.scaleOffset", "Qnn_ScaleOffset_t", e.scaleOffset,
                     blocks * sizeof(Qnn_ScaleOffset_t));
    }
    case QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION: {
      const Qnn_BlockwiseExpansion_t* e = params.blockwiseExpansion;
      if (e == nullptr || e->axis < 0 || static_cast<uint32_t>(e->axis) >= tensor.rank)
        return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a blockwise expansion needs an axis");
      const uint64_t channels = tensor.dimensions[e->axis];
      const std::string name = recorder_->NewName("expansion");
      Line("static Qnn_BlockwiseExpansion_t " + name + ";");
      Line(name + ".axis = " + Signed(e->axis) + ";");
      QNNRT_RETURN_IF_ERROR(pointer(name + ".scaleOffsets", "Qnn_ScaleOffset_t", e->scaleOffsets,
                                    channels * sizeof(Qnn_ScaleOffset_t)));
      Line(name + ".numBlocksPerAxis = " + Number(e->numBlocksPerAxis) + ";");
      Line(name + ".blockScaleBitwidth = " + Number(e->blockScaleBitwidth) + ";");
      Line(name + ".blockScaleStorageType = " +
           Cast("Qnn_BlockwiseExpansionBlockScaleStorageType_t", e->blockScaleStorageType) + ";");
      const bool wide =
          e->blockScaleStorageType == QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16;
      QNNRT_RETURN_IF_ERROR(pointer(name + ".blocksScale8", "uint8_t", e->blocksScale8,
                                    channels * e->numBlocksPerAxis * (wide ? 2 : 1)));
      Line(at + "blockwiseExpansion = &" + name + ";");
      return Status::Ok();
    }
    default:
      return Unknown("quantization encoding", NumberOf(params.quantizationEncoding));
  }
}

Status Call::Tensor(const std::string& lvalue, const Qnn_Tensor_t& tensor) {
  const bool second = tensor.version == QNN_TENSOR_VERSION_2;
  if (!second && tensor.version != QNN_TENSOR_VERSION_1)
    return Unknown("tensor version", NumberOf(tensor.version));
  const Qnn_TensorV1_t& t = tensor.v1;
  if (t.rank > kMostDims || (t.rank != 0 && t.dimensions == nullptr)) {
    return Error(
        QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM,
        "tensor '%s': rank %u with %s dimensions; a tensor has at most %u, and an array of "
        "them",
        t.name == nullptr ? "" : t.name, t.rank, t.dimensions == nullptr ? "null" : "its",
        kMostDims);
  }
  const std::string at = lvalue + ".v1";
  Line(lvalue + " = new_tensor();");
  if (second) Line(lvalue + ".version = QNN_TENSOR_VERSION_2;");
  if (t.id != 0) Line(at + ".id = " + Number(t.id) + ";");
  Line(at + ".name = " + Quoted(t.name) + ";");
  Line(at + ".type = " + Cast("Qnn_TensorType_t", t.type) + ";");
  if (t.dataFormat != 0) Line(at + ".dataFormat = " + Number(t.dataFormat) + ";");
  Line(at + ".dataType = " + Cast("Qnn_DataType_t", t.dataType) + ";");
  QNNRT_RETURN_IF_ERROR(Quantization(at, t.quantizeParams, t));
  if (t.rank != 0) {
    const std::string name = recorder_->NewName("dimensions");
    std::string list;
    for (uint32_t i = 0; i < t.rank; ++i) list += (i == 0 ? "" : ", ") + Number(t.dimensions[i]);
    Line("static uint32_t " + name + "[] = {" + list + "};");
    Line(at + ".rank = " + Number(t.rank) + ";");
    Line(at + ".dimensions = " + name + ";");
  }
  if (t.memType == QNN_TENSORMEMTYPE_MEMHANDLE) {
    Line(at + ".memType = QNN_TENSORMEMTYPE_MEMHANDLE;");
    Line(at + ".memHandle = NULL;");
  } else if (t.memType != QNN_TENSORMEMTYPE_RAW) {
    return Unknown("the memory type of a tensor", NumberOf(t.memType));
  } else if (t.clientBuf.data != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(std::string data, Data(t.clientBuf.data, t.clientBuf.dataSize));
    Line(at + ".clientBuf.data = " + data + ";");
    Line(at + ".clientBuf.dataSize = " + Number(t.clientBuf.dataSize) + ";");
  }
  if (!second) return Status::Ok();
  if (tensor.v2.isDynamicDimensions != nullptr) {
    QNNRT_ASSIGN_OR_RETURN(std::string data, Data(tensor.v2.isDynamicDimensions, t.rank));
    Line(lvalue + ".v2.isDynamicDimensions = (uint8_t*)" + data + ";");
  }
  if (tensor.v2.sparseParams.type != QNN_SPARSE_LAYOUT_UNDEFINED) {
    const Qnn_SparseParams_t& sparse = tensor.v2.sparseParams;
    const std::string own = lvalue + ".v2.sparseParams.";
    Line(own + "type = " + Cast("Qnn_SparseLayoutType_t", sparse.type) + ";");
    Line(own + "hybridCoo.numSpecifiedElements = " + Number(sparse.hybridCoo.numSpecifiedElements) +
         ";");
    Line(own + "hybridCoo.numSparseDimensions = " + Number(sparse.hybridCoo.numSparseDimensions) +
         ";");
  }
  if (tensor.v2.isProduced != 0) Line(lvalue + ".v2.isProduced = 1;");
  return Status::Ok();
}

Result<std::string> Call::Tensors(const Qnn_Tensor_t* tensors, uint32_t count,
                                  const Owners& owners) {
  if (count == 0) return std::string("NULL");
  if (tensors == nullptr)
    return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a list of tensors must not be null");
  const std::string name = recorder_->NewName("tensors");
  Line("static Qnn_Tensor_t " + name + "[" + Number(count) + "];");
  for (uint32_t i = 0; i < count; ++i) {
    const std::string element = name + "[" + Number(i) + "]";
    const std::string* variable = owners.Find(tensors[i].v1.id);
    if (variable != nullptr) {
      Line(element + " = " + *variable + ";");
    } else {
      QNNRT_RETURN_IF_ERROR(Tensor(element, tensors[i]));
    }
  }
  return name;
}

Status Call::Scalar(const std::string& lvalue, const Qnn_Scalar_t& scalar) {
  Line(lvalue + ".dataType = " + Cast("Qnn_DataType_t", scalar.dataType) + ";");
  switch (scalar.dataType) {
    case QNN_DATATYPE_FLOAT_32:
      Line(lvalue + ".floatValue = " + Real(scalar.floatValue) + ";");
      break;
    case QNN_DATATYPE_STRING:
      Line(lvalue + ".stringValue = " + Quoted(scalar.stringValue) + ";");
      break;
    default:  // all 8 bytes of it, whatever they mean
      Line(lvalue + ".uint64Value = " + Number(scalar.uint64Value) + "u;");
      break;
  }
  return Status::Ok();
}

Result<std::string> Call::Op(const Qnn_OpConfig_t& op, const Owners& owners) {
  if (op.version != QNN_OPCONFIG_VERSION_1)
    return Unknown("op config version", NumberOf(op.version));
  const Qnn_OpConfigV1_t& v = op.v1;
  if (v.numOfParams != 0 && v.params == nullptr)
    return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "a list of params must not be null");
  const std::string name = recorder_->NewName("op"), at = name + ".v1.";
  Line("static Qnn_OpConfig_t " + name + " = QNN_OPCONFIG_INIT;");
  std::string params = "NULL";
  if (v.numOfParams != 0) {
    params = recorder_->NewName("params");
    Line("static Qnn_Param_t " + params + "[" + Number(v.numOfParams) + "];");
  }
  for (uint32_t i = 0; i < v.numOfParams; ++i) {
    const Qnn_Param_t& param = v.params[i];
    const std::string element = params + "[" + Number(i) + "]";
    Line(element + ".paramType = " + Cast("Qnn_ParamType_t", param.paramType) + ";");
    Line(element + ".name = " + Quoted(param.name) + ";");
    if (param.paramType == QNN_PARAMTYPE_TENSOR) {
      QNNRT_ASSIGN_OR_RETURN(std::string tensor, Tensors(&param.tensorParam, 1, owners));
      Line(element + ".tensorParam = " + tensor + "[0];");
    } else if (param.paramType == QNN_PARAMTYPE_SCALAR) {
      QNNRT_RETURN_IF_ERROR(Scalar(element + ".scalarParam", param.scalarParam));
    } else {
      return Unknown("param type", NumberOf(param.paramType));
    }
  }
  QNNRT_ASSIGN_OR_RETURN(std::string inputs, Tensors(v.inputTensors, v.numOfInputs, owners));
  QNNRT_ASSIGN_OR_RETURN(std::string outputs, Tensors(v.outputTensors, v.numOfOutputs, owners));
  Line(at + "name = " + Quoted(v.name) + ";");
  Line(at + "packageName = " + Quoted(v.packageName) + ";");
  Line(at + "typeName = " + Quoted(v.typeName) + ";");
  Line(at + "numOfParams = " + Number(v.numOfParams) + ";");
  Line(at + "params = " + params + ";");
  Line(at + "numOfInputs = " + Number(v.numOfInputs) + ";");
  Line(at + "inputTensors = " + inputs + ";");
  Line(at + "numOfOutputs = " + Number(v.numOfOutputs) + ";");
  Line(at + "outputTensors = " + outputs + ";");
  return name;
}

}  // namespace qnnrt::saver
