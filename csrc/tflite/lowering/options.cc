#include "tflite/lowering/options.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tflite/lowering/flexbuffer.h"

namespace qnnrt::tflite {
namespace {

struct Field {
  enum Kind {
    kInt,
    kFlag,  // a byte, because what follows the last field is not cleared
    kFloat,
    kFromOne,  // an enumeration that begins at 0 in the schema, and at 1 in C
    kList,     // eight numbers of 32 bits, and how many of them count
  };

  Field(const char* name, Kind kind = kInt) : name(name), kind(kind) {}
  const char* name;
  Kind kind;
};

// The fields of each table of options in the order of TFLite's struct, up to the last one that the
// lowering reads; each one is on its natural boundary.
const std::map<std::string, std::vector<Field>>& Fields() {
  const Field padding("Padding", Field::kFromOne), stride_w("StrideW"), stride_h("StrideH");
  const Field activation("FusedActivationFunction");
  static const auto* const table = new std::map<std::string, std::vector<Field>>{
      {"Conv2DOptions",
       {padding, stride_w, stride_h, activation, "DilationWFactor", "DilationHFactor"}},
      {"DepthwiseConv2DOptions",
       {padding, stride_w, stride_h, "DepthMultiplier", activation, "DilationWFactor",
        "DilationHFactor"}},
      {"Conv3DOptions",
       {padding, stride_w, stride_h, "StrideD", "DilationWFactor", "DilationHFactor",
        "DilationDFactor", activation}},
      {"TransposeConvOptions", {padding, stride_w, stride_h, activation}},
      {"Pool2DOptions", {padding, stride_w, stride_h, "FilterWidth", "FilterHeight", activation}},
      {"FullyConnectedOptions", {activation, "WeightsFormat", {"KeepNumDims", Field::kFlag}}},
      {"BatchMatMulOptions", {{"AdjX", Field::kFlag}, {"AdjY", Field::kFlag}}},
      {"AddOptions", {activation}},
      {"SubOptions", {activation}},
      {"MulOptions", {activation}},
      {"DivOptions", {activation}},
      {"L2NormOptions", {activation}},
      {"GeluOptions", {{"Approximate", Field::kFlag}}},
      {"LeakyReluOptions", {{"Alpha", Field::kFloat}}},
      {"SoftmaxOptions", {{"Beta", Field::kFloat}}},
      {"LocalResponseNormalizationOptions",
       {"Radius", {"Bias", Field::kFloat}, {"Alpha", Field::kFloat}, {"Beta", Field::kFloat}}},
      {"ConcatenationOptions", {"Axis", activation}},
      {"DepthToSpaceOptions", {"BlockSize"}},
      {"SpaceToDepthOptions", {"BlockSize"}},
      {"ReshapeOptions", {{"NewShape", Field::kList}}},
      {"SqueezeOptions", {{"SqueezeDims", Field::kList}}},
      {"StridedSliceOptions",
       {"BeginMask",
        "EndMask",
        "EllipsisMask",
        "NewAxisMask",
        "ShrinkAxisMask",
        {"Offset", Field::kFlag}}},
      {"SplitOptions", {"NumSplits"}},
      {"PackOptions", {"ValuesCount", "Axis"}},
      {"UnpackOptions", {"Num", "Axis"}},
      {"MirrorPadOptions", {{"Mode", Field::kFromOne}}},
      {"ReducerOptions", {{"KeepDims", Field::kFlag}}},
      {"CumsumOptions", {{"Exclusive", Field::kFlag}, {"Reverse", Field::kFlag}}},
      {"GatherOptions", {"Axis", "BatchDims"}},
      {"OneHotOptions", {"Axis"}},
      {"ResizeBilinearOptions",
       {{"AlignCorners", Field::kFlag}, {"HalfPixelCenters", Field::kFlag}}},
      {"ResizeNearestNeighborOptions",
       {{"AlignCorners", Field::kFlag}, {"HalfPixelCenters", Field::kFlag}}},
      {"LSTMOptions",
       {activation, {"CellClip", Field::kFloat}, {"ProjClip", Field::kFloat}, "KernelType"}},
      {"UnidirectionalSequenceLSTMOptions",
       {activation,
        {"CellClip", Field::kFloat},
        {"ProjClip", Field::kFloat},
        {"TimeMajor", Field::kFlag},
        {"AsymmetricQuantizeInputs", Field::kFlag},
        {"DiagonalRecurrentTensors", Field::kFlag}}},
  };
  return *table;
}

size_t BytesOf(Field::Kind kind) {
  if (kind == Field::kFlag) return 1;
  return (kind == Field::kList ? 9 : 1) * sizeof(int32_t);
}

template <typename T>
T Read(const char** at) {
  T value;
  std::memcpy(&value, *at, sizeof value);
  *at += sizeof value;
  return value;
}

}  // namespace

void ReadOptions(const void* data, size_t size, const char* table, NodeView* view) {
  auto found = Fields().find(table);
  if (found == Fields().end()) return;
  if (data == nullptr) Damaged("its parameters are missing");
  const char* at = static_cast<const char*>(data);
  const char* const begin = at;
  for (const Field& field : found->second) {
    if (BytesOf(field.kind) > size - static_cast<size_t>(at - begin)) break;
    Option& option = view->options[field.name];
    if (field.kind == Field::kFlag) {
      option.number = Read<uint8_t>(&at) != 0;
    } else if (field.kind == Field::kFloat) {
      option.number = Read<float>(&at);
    } else if (field.kind == Field::kList) {
      int32_t values[8];
      for (int32_t& value : values) value = Read<int32_t>(&at);
      const int32_t count = std::clamp(Read<int32_t>(&at), 0, 8);
      option.list.assign(values, values + count);
    } else {
      option.number = Read<int32_t>(&at) - (field.kind == Field::kFromOne ? 1.0 : 0.0);
    }
  }
}

void ReadCustomOptions(const void* data, size_t size, NodeView* view) {
  if (*view->op->options == 0 && size == 0) {
    view->options.clear();
  } else if (*view->op->options == 0) {
    view->options = ReadFlexMap(static_cast<const uint8_t*>(data), size);
  } else {
    view->options.clear();
    ReadOptions(data, size, view->op->options, view);
  }
}

}  // namespace qnnrt::tflite
