// Holds every struct size and field offset of the TFLite runtime that the delegate relies on. What
// ai-edge-litert lays out is tried in tests/tflite/test_tflite_delegate*.
#include <cstddef>
#include <map>
#include <string>

#include "check.h"
#include "tflite/delegate/runtime.h"
#include "tflite/lowering/options.h"

#define SIZE(Type, size) static_assert(sizeof(Type) == (size), "size of " #Type)
#define AT(Type, field, offset) \
  static_assert(offsetof(Type, field) == (offset), "offset of " #Type "::" #field)

SIZE(TfLiteStatus, 4);
SIZE(TfLiteType, 4);
SIZE(TfLiteAllocationType, 4);
SIZE(TfLiteQuantizationType, 4);
SIZE(TfLiteIntArray, 4);
AT(TfLiteIntArray, data, 4);
SIZE(TfLiteFloatArray, 4);
AT(TfLiteFloatArray, data, 4);

SIZE(TfLiteQuantizationParams, 8);
AT(TfLiteQuantizationParams, zero_point, 4);
SIZE(TfLiteQuantization, 16);
AT(TfLiteQuantization, params, 8);
SIZE(TfLiteAffineQuantization, 24);
AT(TfLiteAffineQuantization, zero_point, 8);
AT(TfLiteAffineQuantization, quantized_dimension, 16);
SIZE(TfLiteCustomAllocation, 16);
AT(TfLiteCustomAllocation, bytes, 8);

SIZE(TfLiteTensor, 112);
AT(TfLiteTensor, type, 0);
AT(TfLiteTensor, data, 8);
AT(TfLiteTensor, dims, 16);
AT(TfLiteTensor, params, 24);
AT(TfLiteTensor, allocation_type, 32);
AT(TfLiteTensor, bytes, 40);
AT(TfLiteTensor, allocation, 48);
AT(TfLiteTensor, name, 56);
AT(TfLiteTensor, delegate, 64);
AT(TfLiteTensor, buffer_handle, 72);
AT(TfLiteTensor, data_is_stale, 76);
AT(TfLiteTensor, is_variable, 77);
AT(TfLiteTensor, quantization, 80);
AT(TfLiteTensor, sparsity, 96);
AT(TfLiteTensor, dims_signature, 104);

SIZE(TfLiteNode, 80);
AT(TfLiteNode, inputs, 0);
AT(TfLiteNode, outputs, 8);
AT(TfLiteNode, intermediates, 16);
AT(TfLiteNode, temporaries, 24);
AT(TfLiteNode, user_data, 32);
AT(TfLiteNode, builtin_data, 40);
AT(TfLiteNode, custom_initial_data, 48);
AT(TfLiteNode, custom_initial_data_size, 56);
AT(TfLiteNode, delegate, 64);
AT(TfLiteNode, might_have_side_effect, 72);

SIZE(TfLiteRegistration, 88);
AT(TfLiteRegistration, init, 0);
AT(TfLiteRegistration, free, 8);
AT(TfLiteRegistration, prepare, 16);
AT(TfLiteRegistration, invoke, 24);
AT(TfLiteRegistration, profiling_string, 32);
AT(TfLiteRegistration, builtin_code, 40);
AT(TfLiteRegistration, custom_name, 48);
AT(TfLiteRegistration, version, 56);
AT(TfLiteRegistration, registration_external, 64);
AT(TfLiteRegistration, async_kernel, 72);
AT(TfLiteRegistration, inplace_operator, 80);

SIZE(TfLiteDelegate, 56);
AT(TfLiteDelegate, data_, 0);
AT(TfLiteDelegate, Prepare, 8);
AT(TfLiteDelegate, CopyFromBufferHandle, 16);
AT(TfLiteDelegate, CopyToBufferHandle, 24);
AT(TfLiteDelegate, FreeBufferHandle, 32);
AT(TfLiteDelegate, flags, 40);
AT(TfLiteDelegate, opaque_delegate_builder, 48);

SIZE(TfLiteDelegateParams, 32);
AT(TfLiteDelegateParams, delegate, 0);
AT(TfLiteDelegateParams, nodes_to_replace, 8);
AT(TfLiteDelegateParams, input_tensors, 16);
AT(TfLiteDelegateParams, output_tensors, 24);

SIZE(TfLiteContext, 200);
AT(TfLiteContext, tensors_size, 0);
AT(TfLiteContext, GetExecutionPlan, 8);
AT(TfLiteContext, tensors, 16);
AT(TfLiteContext, impl_, 24);
AT(TfLiteContext, ResizeTensor, 32);
AT(TfLiteContext, ReportError, 40);
AT(TfLiteContext, AddTensors, 48);
AT(TfLiteContext, GetNodeAndRegistration, 56);
AT(TfLiteContext, ReplaceNodeSubsetsWithDelegateKernels, 64);
AT(TfLiteContext, recommended_num_threads, 72);
AT(TfLiteContext, GetExternalContext, 80);
AT(TfLiteContext, SetExternalContext, 88);
AT(TfLiteContext, allow_fp32_relax_to_fp16, 96);
AT(TfLiteContext, profiler, 104);
AT(TfLiteContext, AllocatePersistentBuffer, 112);
AT(TfLiteContext, AllocateBufferForEval, 120);
AT(TfLiteContext, RequestScratchBufferInArena, 128);
AT(TfLiteContext, GetScratchBuffer, 136);
AT(TfLiteContext, ResizeTensorExplicit, 144);
AT(TfLiteContext, PreviewDelegatePartitioning, 152);
AT(TfLiteContext, GetTensor, 160);
AT(TfLiteContext, GetEvalTensor, 168);
AT(TfLiteContext, GetModelMetadata, 176);
AT(TfLiteContext, AcquireSubgraphContext, 184);
AT(TfLiteContext, ReleaseSubgraphContext, 192);

namespace {

// Where the structs of the runtime have the options that the lowering reads.
struct OptionAt {
  const char* table;
  const char* option;
  size_t offset;
};

const OptionAt kOptions[] = {
    {"Conv2DOptions", "Padding", 0},
    {"Conv2DOptions", "StrideW", 4},
    {"Conv2DOptions", "StrideH", 8},
    {"Conv2DOptions", "FusedActivationFunction", 12},
    {"Conv2DOptions", "DilationWFactor", 16},
    {"Conv2DOptions", "DilationHFactor", 20},
    {"DepthwiseConv2DOptions", "StrideH", 8},
    {"DepthwiseConv2DOptions", "FusedActivationFunction", 16},
    {"DepthwiseConv2DOptions", "DilationWFactor", 20},
    {"DepthwiseConv2DOptions", "DilationHFactor", 24},
    {"Conv3DOptions", "StrideD", 12},
    {"Conv3DOptions", "DilationDFactor", 24},
    {"Conv3DOptions", "FusedActivationFunction", 28},
    {"TransposeConvOptions", "StrideH", 8},
    {"TransposeConvOptions", "FusedActivationFunction", 12},
    {"Pool2DOptions", "StrideH", 8},
    {"Pool2DOptions", "FilterWidth", 12},
    {"Pool2DOptions", "FilterHeight", 16},
    {"Pool2DOptions", "FusedActivationFunction", 20},
    {"FullyConnectedOptions", "WeightsFormat", 4},
    {"FullyConnectedOptions", "KeepNumDims", 8},
    {"BatchMatMulOptions", "AdjY", 1},
    {"AddOptions", "FusedActivationFunction", 0},
    {"ConcatenationOptions", "FusedActivationFunction", 4},
    {"ResizeBilinearOptions", "HalfPixelCenters", 1},
    {"StridedSliceOptions", "EndMask", 4},
    {"StridedSliceOptions", "EllipsisMask", 8},
    {"StridedSliceOptions", "NewAxisMask", 12},
    {"StridedSliceOptions", "ShrinkAxisMask", 16},
    {"StridedSliceOptions", "Offset", 20},
    {"GatherOptions", "BatchDims", 4},
    {"PackOptions", "Axis", 4},
    {"UnpackOptions", "Axis", 4},
    {"MirrorPadOptions", "Mode", 0},
    {"LSTMOptions", "ProjClip", 8},
    {"LSTMOptions", "KernelType", 12},
    {"UnidirectionalSequenceLSTMOptions", "ProjClip", 8},
    {"UnidirectionalSequenceLSTMOptions", "TimeMajor", 12},
    {"UnidirectionalSequenceLSTMOptions", "DiagonalRecurrentTensors", 14},
    {"CumsumOptions", "Reverse", 1},
    {"LocalResponseNormalizationOptions", "Bias", 4},
    {"LocalResponseNormalizationOptions", "Alpha", 8},
    {"LocalResponseNormalizationOptions", "Beta", 12},
};

// The options of a struct that is 0 but for one byte.
std::map<std::string, double> Read(const char* table, size_t offset) {
  char data[40] = {0};
  if (offset < sizeof data) data[offset] = 1;
  qnnrt::tflite::NodeView view;
  qnnrt::tflite::ReadOptions(data, SIZE_MAX, table, &view);
  std::map<std::string, double> found;
  for (const auto& [name, option] : view.options) found[name] = option.number;
  return found;
}

TEST(AnOptionIsReadWhereTheStructHasIt) {
  for (const OptionAt& at : kOptions) {
    std::map<std::string, double> expected = Read(at.table, SIZE_MAX);
    std::map<std::string, double> found = Read(at.table, at.offset);
    CHECK(found.at(at.option) != expected.at(at.option));
    expected[at.option] = found[at.option];
    CHECK(found == expected);  // no other one has changed
  }
}

TEST(FieldsBeyondTheBytesAreLeftOut) {
  const int32_t data[] = {1, 2, 3, 4};
  for (size_t bytes = 0; bytes <= sizeof data; ++bytes) {
    qnnrt::tflite::NodeView view;
    qnnrt::tflite::ReadOptions(data, bytes, "TransposeConvOptions", &view);
    CHECK_EQ(view.options.size(), bytes / sizeof(int32_t));
  }
}

TEST(AListHasItsLengthBehindIt) {
  int32_t data[9] = {2, 3, 4, 0, 0, 0, 0, 0, 3};
  for (const char* table : {"ReshapeOptions", "SqueezeOptions"}) {
    qnnrt::tflite::NodeView view;
    qnnrt::tflite::ReadOptions(data, SIZE_MAX, table, &view);
    CHECK(view.options.begin()->second.list == std::vector<double>({2, 3, 4}));
  }
}

}  // namespace

CHECK_MAIN("tflite_layout_test")
