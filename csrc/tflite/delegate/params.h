// Builtin operators: their numbers, and the parameters that nodes carry as builtin_data. Flags are
// bytes, because what follows the last field is not cleared. tests/native/tflite_layout_test.cc
// holds every offset.
#pragma once

#include <stdint.h>

namespace qnnrt::tflite {

struct ConvParams {
  int32_t padding, stride_w, stride_h, activation, dilation_w, dilation_h, bias_type;
};

struct DepthwiseParams {
  int32_t padding, stride_w, stride_h, multiplier, activation, dilation_w, dilation_h;
};

struct Conv3dParams {
  int32_t padding, stride_w, stride_h, stride_d, dilation_w, dilation_h, dilation_d, activation;
};

struct PoolParams {
  int32_t padding, stride_w, stride_h, filter_w, filter_h, activation, computed[4];
};

struct DenseParams {
  int32_t activation, weights_format;
  uint8_t keep_num_dims, asymmetric_inputs;
  int32_t bias_type;
};

struct TransposeConvParams {
  int32_t padding, stride_w, stride_h, activation, bias_type;
};

struct SumParams {  // ADD, SUB
  int32_t activation;
  uint8_t pot_scale_int16;
};

struct ActivationParams {  // MUL, DIV, L2_NORMALIZATION
  int32_t activation;
};

struct ConcatParams {
  int32_t axis, activation;
};

struct SoftmaxParams {
  float beta;
};

struct MatMulParams {
  uint8_t adjoint_x, adjoint_y, asymmetric_inputs;
};

struct ReshapeParams {
  int32_t shape[8], rank;
};

struct ResizeParams {
  uint8_t align_corners, half_pixel_centers;
};

struct ReduceParams {
  uint8_t keep_dims;
};

struct SplitParams {
  int32_t count;
};

struct SqueezeParams {
  int32_t dims[8], count;
};

struct StridedSliceParams {
  int32_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
  uint8_t offset;
};

struct GatherParams {
  int32_t axis, batch_dims;
};

struct ArgParams {
  int32_t output_type;
};

struct PackParams {
  int32_t count, axis;
};

struct CastParams {
  int32_t in_type, out_type;
};

struct LeakyReluParams {
  float alpha;
};

struct BlockParams {  // DEPTH_TO_SPACE, SPACE_TO_DEPTH
  int32_t block_size;
};

struct GeluParams {
  uint8_t approximate;
};

struct CumsumParams {
  uint8_t exclusive, reverse;
};

struct OneHotParams {
  int32_t axis;
};

struct LrnParams {
  int32_t radius;
  float bias, alpha, beta;
};

struct LstmParams {
  int32_t activation;
  float cell_clip, projection_clip;
  int32_t kernel;  // 0: full, 1: basic
  uint8_t asymmetric_inputs;
};

struct SequenceLstmParams {
  int32_t activation;
  float cell_clip, projection_clip;
  uint8_t time_major, asymmetric_inputs, diagonal;
};

struct MirrorPadParams {
  int32_t mode;  // 1: reflect, 2: symmetric
};

}  // namespace qnnrt::tflite
