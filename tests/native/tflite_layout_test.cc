// Holds every struct size and field offset of the TFLite runtime that the delegate relies on; the
// checks are compile-time. What ai-edge-litert lays out is tried in
// tests/tflite/test_tflite_delegate*.
#include <cstddef>
#include <cstdio>

#include "tflite/delegate/params.h"
#include "tflite/delegate/runtime.h"

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

namespace qnnrt::tflite {

SIZE(ConvParams, 28);
AT(ConvParams, stride_w, 4);
AT(ConvParams, stride_h, 8);
AT(ConvParams, activation, 12);
AT(ConvParams, dilation_w, 16);
AT(ConvParams, dilation_h, 20);
AT(ConvParams, bias_type, 24);
SIZE(DepthwiseParams, 28);
AT(DepthwiseParams, stride_w, 4);
AT(DepthwiseParams, stride_h, 8);
AT(DepthwiseParams, multiplier, 12);
AT(DepthwiseParams, activation, 16);
AT(DepthwiseParams, dilation_w, 20);
AT(DepthwiseParams, dilation_h, 24);
SIZE(Conv3dParams, 32);
AT(Conv3dParams, stride_d, 12);
AT(Conv3dParams, dilation_d, 24);
AT(Conv3dParams, activation, 28);
SIZE(PoolParams, 40);
AT(PoolParams, stride_w, 4);
AT(PoolParams, stride_h, 8);
AT(PoolParams, filter_w, 12);
AT(PoolParams, filter_h, 16);
AT(PoolParams, activation, 20);
AT(PoolParams, computed, 24);
SIZE(DenseParams, 16);
AT(DenseParams, weights_format, 4);
AT(DenseParams, keep_num_dims, 8);
AT(DenseParams, asymmetric_inputs, 9);
AT(DenseParams, bias_type, 12);
SIZE(TransposeConvParams, 20);
AT(TransposeConvParams, stride_w, 4);
AT(TransposeConvParams, stride_h, 8);
AT(TransposeConvParams, activation, 12);
AT(TransposeConvParams, bias_type, 16);
SIZE(SumParams, 8);
AT(SumParams, pot_scale_int16, 4);
SIZE(ActivationParams, 4);
SIZE(ConcatParams, 8);
AT(ConcatParams, activation, 4);
SIZE(SoftmaxParams, 4);
SIZE(MatMulParams, 3);
AT(MatMulParams, adjoint_y, 1);
AT(MatMulParams, asymmetric_inputs, 2);
SIZE(ReshapeParams, 36);
AT(ReshapeParams, rank, 32);
SIZE(ResizeParams, 2);
AT(ResizeParams, half_pixel_centers, 1);
SIZE(ReduceParams, 1);
SIZE(SplitParams, 4);
SIZE(SqueezeParams, 36);
AT(SqueezeParams, count, 32);
SIZE(StridedSliceParams, 24);
AT(StridedSliceParams, end_mask, 4);
AT(StridedSliceParams, ellipsis_mask, 8);
AT(StridedSliceParams, new_axis_mask, 12);
AT(StridedSliceParams, shrink_axis_mask, 16);
AT(StridedSliceParams, offset, 20);
SIZE(GatherParams, 8);
AT(GatherParams, batch_dims, 4);
SIZE(ArgParams, 4);
SIZE(PackParams, 8);
AT(PackParams, axis, 4);
SIZE(CastParams, 8);
AT(CastParams, out_type, 4);
SIZE(LeakyReluParams, 4);
SIZE(BlockParams, 4);
SIZE(GeluParams, 1);
SIZE(MirrorPadParams, 4);
SIZE(LstmParams, 20);
AT(LstmParams, kernel, 12);
SIZE(SequenceLstmParams, 16);
AT(SequenceLstmParams, projection_clip, 8);
AT(SequenceLstmParams, time_major, 12);
AT(SequenceLstmParams, diagonal, 14);
SIZE(CumsumParams, 2);
AT(CumsumParams, reverse, 1);
SIZE(OneHotParams, 4);
SIZE(LrnParams, 16);
AT(LrnParams, bias, 4);
AT(LrnParams, alpha, 8);
AT(LrnParams, beta, 12);

}  // namespace qnnrt::tflite

int main() {
  std::puts("tflite_layout_test: 42 structs and enums are laid out as the runtime's");
  return 0;
}
