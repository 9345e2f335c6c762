// Boxes that are left once overlapping ones are suppressed: NON_MAX_SUPPRESSION, and
// TFLite_Detection_PostProcess, the custom operator in which detectors of TFLite end, whose boxes
// are offsets from anchors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

constexpr int64_t kDetectionsPerClass = 100;  // where the file says nothing

struct Settings {
  explicit Settings(Node& n)
      : most(Count(n, "max_detections")),
        each(Count(n, "max_classes_per_detection")),
        classes(Count(n, "num_classes")),
        per_class(static_cast<uint32_t>(std::clamp<int64_t>(
            n.Integer("detections_per_class", kDetectionsPerClass), 1, 1 << 20))),
        regular(n.Flag("use_regular_nms")),
        overlap(n.Real("nms_iou_threshold")),
        // Scores have to reach it, and in QNN to lie above.
        score(std::nextafter(n.Real("nms_score_threshold"),
                             -std::numeric_limits<float>::infinity())) {}

  static uint32_t Count(Node& n, const char* option) {
    const int64_t count = n.Integer(option);
    if (count < 1 || count > 1 << 20) Damaged("%s of %lld", option, static_cast<long long>(count));
    return static_cast<uint32_t>(count);
  }

  const uint32_t most, each, classes, per_class;
  const bool regular;
  const float overlap, score;
};

Value Column(Node& n, const Value& x, uint32_t from, uint32_t count) {
  return CutAlong(n, x, x.rank() - 1, from, from + count);
}

// (y, x, height, width) to corners: [boxes, 4].
Value Decoded(Node& n, const Value& offsets, const Value& anchors) {
  Value low[2], high[2];
  const char* const scales[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  const auto part = [&](const Value& x, uint32_t i) { return Column(n, x, i, 1); };
  for (uint32_t d = 0; d < 2; ++d) {
    const float middle_scale = n.Real(scales[d]), size_scale = n.Real(scales[2 + d]);
    if (!(middle_scale > 0) || !(size_scale > 0)) Damaged("scales that are not above 0");
    const Value middle = part(offsets, d), size = part(offsets, 2 + d);
    const Value length = part(anchors, 2 + d);
    const Value share = n.Nary("ElementWiseDivide", {middle, n.Scalar(middle_scale, middle)});
    const Value center = n.Add(n.Multiply(share, length), part(anchors, d));
    const Value grown = n.Nary("ElementWiseDivide", {size, n.Scalar(size_scale, size)});
    const Value exponent = n.Op("ElementWiseExp", {grown}, grown.dims);
    const Value half = n.Multiply(n.Multiply(n.Scalar(0.5F, exponent), exponent), length);
    low[d] = n.Nary("ElementWiseSubtract", {center, half});
    high[d] = n.Add(center, half);
  }
  Dims dims = offsets.dims;
  return n.Op("Concat", {low[0], low[1], high[0], high[1]}, dims, {U32("axis", 1)});
}

// Rows (batch, class, box) of what is left, and how many of them there are.
struct Left {
  Value classes, boxes, count;  // int32: [rows], [rows], [1]
  uint32_t rows;
};

Left Suppress(Node& n, float overlap, float score, const Value& boxes, const Value& scores,
              uint32_t limit) {
  const uint32_t count = boxes.dims[0], classes = scores.dims[0];
  const uint32_t rows = classes * std::min(limit, count);
  const std::vector<Value> found =
      n.Ops("NonMaxSuppression",
            {n.Reshape(boxes, {1, count, 4}), n.Reshape(scores, {1, classes, count})},
            {{{rows, 3}, QNN_DATATYPE_INT_32}, {{1}, QNN_DATATYPE_UINT_32}},
            {F32("iou_threshold", overlap), F32("score_threshold", score),
             U32("max_boxes_selected", limit)});
  return {n.Reshape(Column(n, found[0], 1, 1), {rows}),
          n.Reshape(Column(n, found[0], 2, 1), {rows}), n.Cast(found[1], QNN_DATATYPE_INT_32),
          rows};
}

// x[index], rows of x.
Value Rows(Node& n, const Value& x, const Value& index) {
  Dims dims = x.dims;
  dims[0] = index.dims[0];
  return n.Op("Gather", {x, index}, dims, {I32("axis", 0)});
}

std::vector<Value> TopK(Node& n, const Value& x, uint32_t k) {
  Dims dims = x.dims;
  dims.back() = k;
  return n.Ops("TopK", {x}, {{dims, n.type(x)}, {dims, QNN_DATATYPE_INT_32}}, {U32("k", k)});
}

// Whether a row counts: [rows].
Value Counts(Node& n, uint32_t rows, const Value& count) {
  std::vector<int32_t> places(rows);
  std::iota(places.begin(), places.end(), 0);
  n.Spend({rows}, 4, "the places of rows");
  const Value at = n.Constant({rows}, QNN_DATATYPE_INT_32, places.data());
  return n.Compare("ElementWiseLess", {at, count});
}

// With zeros where no row counts, and behind them up to `most` rows: [most, ...].
Value Filled(Node& n, const Value& x, const Value& counts, uint32_t most) {
  Dims along(x.rank(), 1);
  along[0] = x.dims[0];
  const Value kept = n.Select(n.Reshape(counts, along), x, n.Scalar(0, x));
  std::vector<uint32_t> pads(2 * x.rank(), 0);
  pads[1] = most - x.dims[0];
  return pads[1] == 0 ? kept : Padded(n, kept, pads, 0);
}

void PostProcess(Node& n) {
  const Value offsets = n.In(0, 3), given = n.In(1, 3), anchors = n.In(2, 2);
  const Settings s(n);
  if (!(s.overlap > 0 && s.overlap <= 1)) Damaged("nms_iou_threshold of %g", double{s.overlap});
  const uint32_t count = offsets.dims[1];
  if (offsets.dims[0] != 1) Unsupported("a batch of %u", offsets.dims[0]);
  if (offsets.dims[2] < 4 || given.dims[0] != 1 || given.dims[1] != count ||
      given.dims[2] < s.classes || given.dims[2] - s.classes > 1 ||
      anchors.dims != Dims({count, 4}))
    Damaged("offsets %s, scores %s of %u classes and anchors %s", Text(offsets.dims).c_str(),
            Text(given.dims).c_str(), s.classes, Text(anchors.dims).c_str());
  if (n.outputs() != 4) Damaged("%d outputs", n.outputs());
  const Value flat = Column(n, n.Reshape(offsets, {count, offsets.dims[2]}), 0, 4);
  const Value boxes = Decoded(n, flat, anchors);
  // The first class may be the background.
  const Value scores =
      Column(n, n.Reshape(given, {count, given.dims[2]}), given.dims[2] - s.classes, s.classes);
  const uint32_t each = s.regular ? 1 : std::min(s.each, s.classes);
  const uint32_t room = s.most * s.each;
  Value found_boxes, found_classes, found_scores, number;
  if (s.regular) {
    const Value by_class = n.Transpose(scores, {1, 0});
    const Left left = Suppress(n, s.overlap, s.score, boxes, by_class, s.per_class);
    const Value places = n.Op(
        "Concat", {n.Reshape(left.classes, {left.rows, 1}), n.Reshape(left.boxes, {left.rows, 1})},
        {left.rows, 2}, {U32("axis", 1)});
    const Value marks = n.Op("GatherNd", {by_class, places}, {left.rows});
    const float lowest = std::numeric_limits<float>::lowest();
    const Value counted =
        n.Select(Counts(n, left.rows, left.count), marks, n.Scalar(lowest, marks));
    const uint32_t kept = std::min(s.most, left.rows);
    const std::vector<Value> best = TopK(n, counted, kept);
    const int32_t most = static_cast<int32_t>(kept);
    number =
        n.Nary("ElementWiseMinimum", {left.count, n.Constant({1}, QNN_DATATYPE_INT_32, &most)});
    const Value counts = Counts(n, kept, number);
    const Value rows = Rows(n, boxes, Rows(n, left.boxes, best[1]));
    const Value labels = n.Cast(Rows(n, left.classes, best[1]), QNN_DATATYPE_FLOAT_32);
    found_boxes = Filled(n, rows, counts, room);
    found_classes = Filled(n, labels, counts, room);
    found_scores = Filled(n, best[0], counts, room);
  } else {
    const std::vector<Value> best = TopK(n, scores, each);
    const Value first = n.Reshape(Column(n, best[0], 0, 1), {1, count});
    const Left left = Suppress(n, s.overlap, s.score, boxes, first, s.most);
    number = left.count;
    const Value counts = Counts(n, left.rows, number);
    // Rows for so many classes of a box as the file says; there may be fewer.
    const std::vector<uint32_t> behind = {0, 0, 0, s.each - each};
    const auto spread = [&](const Value& x) {
      const Value kept = Filled(n, Rows(n, x, left.boxes), counts, s.most);
      return s.each == each ? kept : Padded(n, kept, behind, 0);
    };
    found_classes = spread(n.Cast(best[1], QNN_DATATYPE_FLOAT_32));
    found_scores = spread(best[0]);
    found_boxes = Filled(n, Rows(n, boxes, left.boxes), counts, s.most);
    if (each > 1) {
      found_boxes = n.Op("Tile", {n.Reshape(found_boxes, {s.most, 1, 4})}, {s.most, each, 4},
                         {U32s("multiples", {1, each, 1})});
    }
    if (s.each != each) {
      found_boxes = n.Reshape(found_boxes, {s.most, each, 4});
      found_boxes = Padded(n, found_boxes, {0, 0, 0, s.each - each, 0, 0}, 0);
    }
  }
  n.Set(0, n.Reshape(found_boxes, {1, room, 4}));
  n.Set(1, n.Reshape(found_classes, {1, room}));
  n.Set(2, n.Reshape(found_scores, {1, room}));
  n.Set(3, n.Cast(number, QNN_DATATYPE_FLOAT_32));
}

// One step for each box that is left. With a `sigma` it lowers the scores of those it overlaps
// with, by exp(-overlap^2 / 2 sigma), before the next one is found.
constexpr uint32_t kMostSteps = 1024;

struct Stepped {
  Value boxes, scores, count;  // [steps], zeros where there are fewer; []
};

Stepped SuppressInSteps(Node& n, float overlap, float least, float sigma, const Value& boxes,
                        const Value& scores, uint32_t steps) {
  const uint32_t count = boxes.dims[0];
  if (steps > kMostSteps)
    Unsupported(
        "%u boxes, with %s", steps,
        sigma > 0 ? "scores that overlapping boxes lower (soft_nms_sigma)" : "an overlap of 0");
  const auto greatest = [&](const Value& a, const Value& b) {
    return n.Nary("ElementWiseMaximum", {a, b});
  };
  const auto smallest = [&](const Value& a, const Value& b) {
    return n.Nary("ElementWiseMinimum", {a, b});
  };
  const auto less = [&](const Value& a, const Value& b) {
    return n.Nary("ElementWiseSubtract", {a, b});
  };
  std::vector<Value> edges;
  for (uint32_t i = 0; i < 4; ++i) edges.push_back(n.Reshape(Column(n, boxes, i, 1), {1, count}));
  // Any two opposite corners: from (low, high) of y to those of x, then the area.
  std::vector<Value> facts = {smallest(edges[0], edges[2]), greatest(edges[0], edges[2]),
                              smallest(edges[1], edges[3]), greatest(edges[1], edges[3])};
  facts.push_back(n.Multiply(less(facts[1], facts[0]), less(facts[3], facts[2])));
  std::vector<int32_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  n.Spend({count}, 4, "the places of boxes");
  const Value at = n.Constant({1, count}, QNN_DATATYPE_INT_32, places.data());
  Value left = n.Reshape(scores, {1, count});
  const Value zero = n.Scalar(0, left), threshold = n.Scalar(least, left);
  const Value limit = n.Scalar(overlap, left),
              slope = n.Scalar(sigma > 0 ? -0.5F / sigma : 0, left);
  const Value none = n.Scalar(-std::numeric_limits<float>::infinity(), left);
  const int32_t first = 0;
  const Value nowhere = n.Constant({1, 1}, QNN_DATATYPE_INT_32, &first);
  std::vector<Value> found_boxes, found_scores, found;
  for (uint32_t step = 0; step < steps; ++step) {
    left = n.Select(n.Compare("ElementWiseGreater", {left, threshold}), left, none);
    const std::vector<Value> best = TopK(n, left, 1);
    const Value counts = n.Compare("ElementWiseGreater", {best[0], threshold});
    found_boxes.push_back(n.Select(counts, best[1], nowhere));
    found_scores.push_back(n.Select(counts, best[0], zero));
    found.push_back(n.Cast(counts, QNN_DATATYPE_INT_32));
    std::vector<Value> own;
    const Value index = n.Reshape(best[1], {1});
    for (const Value& fact : facts)
      own.push_back(n.Op("Gather", {fact, index}, {1, 1}, {I32("axis", 1)}));
    const auto along = [&](size_t d) {
      return greatest(less(smallest(facts[d + 1], own[d + 1]), greatest(facts[d], own[d])), zero);
    };
    const Value both = n.Multiply(along(0), along(2));
    const Value either = less(n.Add(facts[4], own[4]), both);
    const Value share = n.Select(n.Compare("ElementWiseGreater", {both, zero}),
                                 n.Nary("ElementWiseDivide", {both, either}), zero);
    const Value power = n.Multiply(n.Multiply(share, slope), share);
    const Value lowered = n.Multiply(left, n.Op("ElementWiseExp", {power}, power.dims));
    const Value gone =
        n.Compare("ElementWiseOr", {n.Compare("ElementWiseGreaterEqual", {share, limit}),
                                    n.Compare("ElementWiseEqual", {at, best[1]})});
    const Value dropped = n.Compare("ElementWiseLessEqual", {left, threshold});
    left = n.Select(n.Compare("ElementWiseOr", {gone, dropped}), none, lowered);
  }
  const auto joined = [&](const std::vector<Value>& parts) {
    return n.Reshape(steps == 1 ? parts[0] : n.Op("Concat", parts, {1, steps}, {U32("axis", 1)}),
                     {steps});
  };
  const Value all = joined(found);
  const Value sum = n.Op("ReduceSum", {all}, {1}, {U32s("axes", {0}), Flag("keep_dims", true)});
  return {joined(found_boxes), joined(found_scores), n.Reshape(sum, {})};
}

// Version 5 gives the scores besides, and may lower those of overlapping boxes instead.
void NonMaxSuppression(Node& n) {
  const Value boxes = n.In(0, 2), scores = n.In(1, 1);
  const int64_t most = n.Int(2, "the number of boxes");
  for (int i = 3; i < n.inputs(); ++i) n.NeedConstant(i, "a threshold");
  const float overlap = static_cast<float>(n.Element(n.In(3), "the overlap"));
  const float score = static_cast<float>(n.Element(n.In(4), "the least score"));
  const bool softly = n.Is("NON_MAX_SUPPRESSION_V5");
  const float sigma = softly ? static_cast<float>(n.Element(n.In(5), "the deviation")) : 0;
  const uint32_t count = scores.dims[0];
  if (most < 1 || most > 1 << 20 || count == 0 || boxes.dims != Dims({count, 4}))
    Damaged("%lld of the boxes %s with scores %s", static_cast<long long>(most),
            Text(boxes.dims).c_str(), Text(scores.dims).c_str());
  // Boxes that overlap by just so much are suppressed in TFLite, those above it in QNN.
  const float above = std::nextafter(overlap, -std::numeric_limits<float>::infinity());
  const auto room = static_cast<uint32_t>(most);
  if (!(sigma > 0 || above <= 1)) Unsupported("an overlap of %g", static_cast<double>(overlap));
  if (sigma > 0 || above < 0) {
    const uint32_t steps = std::min(room, count);
    const Stepped left = SuppressInSteps(n, overlap, score, sigma, boxes, scores, steps);
    n.Set(0, Padded(n, left.boxes, {0, room - steps}, 0));
    if (softly) n.Set(1, Padded(n, left.scores, {0, room - steps}, 0));
    n.Set(softly ? 2 : 1, left.count);
    return;
  }
  const Left left =
      Suppress(n, above, score, boxes, n.Reshape(scores, {1, count}), std::min(room, count));
  const Value counts = Counts(n, left.rows, left.count);
  n.Set(0, Filled(n, left.boxes, counts, room));
  if (softly) n.Set(1, Filled(n, Rows(n, scores, left.boxes), counts, room));
  n.Set(softly ? 2 : 1, n.Reshape(left.count, {}));
}

}  // namespace

std::vector<Operator> DetectionOperators() {
  const char* const limits = "constant number and thresholds; of equal scores the first box";
  return {
      {120, "NON_MAX_SUPPRESSION_V4", NonMaxSuppression, "NonMaxSuppression", "", Fixed::kFloats,
       Delegated::kNone, limits},
      {121, "NON_MAX_SUPPRESSION_V5", NonMaxSuppression,
       "NonMaxSuppression, Gather, TopK, elementwise", "", Fixed::kFloats, Delegated::kNone,
       limits},
      {kCustomOperator, "TFLite_Detection_PostProcess", PostProcess,
       "NonMaxSuppression, TopK, elementwise", "", Fixed::kFloats, Delegated::kAll, "one picture"}};
}

}  // namespace qnnrt::tflite
