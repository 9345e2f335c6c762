// Custom operators of MediaPipe's landmark models: the part of a picture that landmarks enclose,
// cut out upright, and landmarks found there, brought back. A transform is a matrix [1, 4, 4] that
// takes (x, y, 0, 1) of what was cut out to the picture's. Which numbers its kernels give was seen
// by running MediaPipe 0.10.14 on models of one such operator.
#include <cmath>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

uint32_t Size(Node& n, const char* option) {
  const int64_t size = n.Integer(option);
  if (size < 1 || size > 1 << 16) Damaged("%s of %lld", option, static_cast<long long>(size));
  return static_cast<uint32_t>(size);
}

void NeedVersion2(Node& n) {
  if (n.view().version != 2) Unsupported("version %d of it: 2 is known", n.view().version);
}

Value Few(Node& n, const Dims& dims, const std::vector<float>& values) {
  return n.Floats(dims, "a matrix", [&] { return values; });
}

Value Joined(Node& n, const std::vector<Value>& parts, uint32_t axis) {
  Dims dims = parts[0].dims;
  for (size_t i = 1; i < parts.size(); ++i) dims[axis] += parts[i].dims[axis];
  return n.Op("Concat", parts, dims, {U32("axis", axis)});
}

// The first two of the last dimension.
Value Pair(Node& n, const Value& x) { return CutAlong(n, x, x.rank() - 1, 0, 2); }

// The landmark of that number: [1, 2].
Value Landmark(Node& n, const Value& landmarks, const char* option) {
  const int64_t at = n.Integer(option, -1);
  if (at < 0 || at >= landmarks.dims[0])
    Damaged("%s of %lld, of %u landmarks", option, static_cast<long long>(at), landmarks.dims[0]);
  return Pair(n, CutAlong(n, landmarks, 0, at, at + 1));
}

// From the line between two landmarks and the box around some, once that line has its angle, to
// what takes pixels of a picture of the output's size to those of the box.
void LandmarksToTransform(Node& n) {
  NeedVersion2(n);
  const Value given = n.In(0, 3);
  const uint32_t width = Size(n, "output_width"), height = Size(n, "output_height");
  if (given.dims[0] != 1) Unsupported("a batch of %u", given.dims[0]);
  std::vector<int32_t> subset;
  for (double i : n.List<double>("subset_idxs")) {
    if (!(i >= 0 && i < given.dims[1])) Damaged("landmark %g of %u", i, given.dims[1]);
    subset.push_back(static_cast<int32_t>(i));
  }
  if (given.dims[2] < 2 || subset.empty())
    Damaged("%zu of the landmarks %s", subset.size(), Text(given.dims).c_str());
  const Value landmarks = n.Reshape(given, {given.dims[1], given.dims[2]});
  const Value line = n.Nary("ElementWiseSubtract", {Landmark(n, landmarks, "right_rotation_idx"),
                                                    Landmark(n, landmarks, "left_rotation_idx")});
  // Its cosine and sine; a line without length lies along x.
  const Value squared = n.Op("ReduceSum", {n.Multiply(line, line)}, {1, 1},
                             {U32s("axes", {1}), Flag("keep_dims", true)});
  const Value length = n.Op("ElementWiseSquareRoot", {squared}, squared.dims);
  const Value unit = n.Select(n.Compare("ElementWiseEqual", {length, n.Scalar(0, length)}),
                              Few(n, {1, 2}, {1, 0}), n.Nary("ElementWiseDivide", {line, length}));
  // The rotation by the angle wanted, less that of the line: its rows are (cosine, -sine) and
  // (sine, cosine), each a sum of the line's.
  const float target = n.Real("target_rotation_radians");
  const float c = std::cos(target), s = std::sin(target);
  const Value first = Product(n, unit, Few(n, {2, 2}, {c, -s, s, c}));
  const Value second = Product(n, unit, Few(n, {2, 2}, {s, c, -c, s}));
  const Value rotation = Joined(n, {first, second}, 0);

  n.Spend({static_cast<uint32_t>(subset.size())}, sizeof(int32_t), "numbers of landmarks");
  const Value numbers =
      n.Constant({static_cast<uint32_t>(subset.size())}, QNN_DATATYPE_INT_32, subset.data());
  const Value some = n.Op("Gather", {Pair(n, landmarks), numbers},
                          {static_cast<uint32_t>(subset.size()), 2}, {I32("axis", 0)});
  const Value upright = Product(n, some, rotation, false, true);
  const auto reduced = [&](const char* type) {
    return n.Op(type, {upright}, {1, 2}, {U32s("axes", {0}), Flag("keep_dims", true)});
  };
  const Value most = reduced("ReduceMax"), least = reduced("ReduceMin");
  const Value sum = n.Add(most, least);
  const Value center = Product(n, n.Multiply(sum, n.Scalar(0.5F, sum)), rotation);
  const Value step = n.Multiply(n.Nary("ElementWiseSubtract", {most, least}),
                                Few(n, {1, 2},
                                    {n.Real("scale_x") / static_cast<float>(width),
                                     n.Real("scale_y") / static_cast<float>(height)}));
  const Value turned = n.Multiply(n.Transpose(rotation, {1, 0}), step);
  const Value middle =
      Few(n, {1, 2}, {static_cast<float>(width) / 2, static_cast<float>(height) / 2});
  const Value shift =
      n.Nary("ElementWiseSubtract", {center, Product(n, middle, turned, false, true)});
  const Value rows = Joined(n, {turned, Few(n, {2, 1}, {0, 0}), n.Reshape(shift, {2, 1})}, 1);
  const Value rest = Few(n, {2, 4}, {0, 0, 1, 0, 0, 0, 0, 1});
  n.Set(0, n.Reshape(Joined(n, {rows, rest}, 0), {1, 4, 4}));
}

Value Transform(Node& n) {
  const Value transform = n.In(1, 3);
  if (transform.dims != Dims({1, 4, 4})) Damaged("a transform %s", Text(transform.dims).c_str());
  return transform;
}

// The picture where the transform takes the middles of pixels, between four of its own; 0 where
// that lies beyond the middles of its outermost ones.
void TransformBilinear(Node& n) {
  NeedVersion2(n);
  const Value x = n.In(0, 4), transform = Transform(n);
  const uint32_t width = Size(n, "output_width"), height = Size(n, "output_height");
  if (x.dims[0] != 1) Unsupported("a batch of %u", x.dims[0]);
  const uint32_t count = Dim(int64_t{height} * width);
  const Value from = n.Floats({1, count, 4}, "places of pixels", [&] {
    std::vector<float> places;
    for (uint32_t v = 0; v < height; ++v) {
      for (uint32_t u = 0; u < width; ++u) {
        const float across = static_cast<float>(u) + 0.5F, down = static_cast<float>(v) + 0.5F;
        places.insert(places.end(), {across, down, 0, 1});
      }
    }
    return places;
  });
  const Value at = Pair(n, Product(n, from, transform, false, true));
  // GridSample counts from -1 to 1, from edge to edge of the picture.
  const float sizes[] = {static_cast<float>(x.dims[2]), static_cast<float>(x.dims[1])};
  const Value grid =
      n.Nary("ElementWiseSubtract",
             {n.Multiply(at, Few(n, {1, 1, 2}, {2 / sizes[0], 2 / sizes[1]})), n.Scalar(1, at)});
  const Value sampled = n.Op("GridSample", {x, n.Reshape(grid, {1, height, width, 2})},
                             {1, height, width, x.dims[3]}, {Flag("align_corners", false)});
  const Value low = n.Compare("ElementWiseGreaterEqual", {at, n.Scalar(0.5F, at)});
  const Value high = n.Compare("ElementWiseLessEqual",
                               {at, Few(n, {1, 1, 2}, {sizes[0] - 0.5F, sizes[1] - 0.5F})});
  const Value both = n.Cast(n.Compare("ElementWiseAnd", {low, high}), QNN_DATATYPE_FLOAT_32);
  const Value inside =
      n.Op("ReduceMin", {both}, {1, count, 1}, {U32s("axes", {2}), Flag("keep_dims", true)});
  const Value within = n.Reshape(inside, {1, height, width, 1});
  n.Set(0, n.Select(n.Compare("ElementWiseGreater", {within, n.Scalar(0, within)}), sampled,
                    n.Scalar(0, sampled)));
}

void TransformLandmarks(Node& n) {
  NeedVersion2(n);
  const Value x = n.In(0, 3), transform = Transform(n);
  if (x.dims[0] != 1) Unsupported("a batch of %u", x.dims[0]);
  if (x.dims[2] != 2) Unsupported("landmarks of %u coordinates", x.dims[2]);
  const Value behind = n.Floats(x.dims, "coordinates", [&] {
    std::vector<float> values;
    for (uint32_t i = 0; i < x.dims[1]; ++i) values.insert(values.end(), {0, 1});
    return values;
  });
  const Value places = Joined(n, {x, behind}, 2);
  n.Set(0, Pair(n, Product(n, places, transform, false, true)));
}

}  // namespace

std::vector<Operator> MediapipeOperators() {
  const char* const note = "version 2, one picture";
  const Fixed floats = Fixed::kFloats;
  const Delegated all = Delegated::kAll;
  return {
      {kCustomOperator, "Landmarks2TransformMatrix", LandmarksToTransform,
       "Gather, ReduceMax, ReduceMin, MatMul, elementwise", "", floats, all, note},
      {kCustomOperator, "TransformTensorBilinear", TransformBilinear,
       "MatMul, GridSample, elementwise", "", floats, all, note},
      {kCustomOperator, "TransformLandmarks", TransformLandmarks, "Concat, MatMul", "", floats, all,
       note},
  };
}

}  // namespace qnnrt::tflite
