// Convolutions take over the zeros that a Pad before them puts around their input, compute nothing
// that a slice behind them cuts off (what makes a causal convolution of one that pads both sides),
// and leave out the taps of their window that see nothing but zeros, which a dilated one has on a
// small image.
#include <algorithm>
#include <cstring>

#include "abi/qnn_errors.h"
#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "graph/passes/node_graph.h"
#include "ops/op.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// One spatial dim of a convolution.
struct Window {
  int64_t in, out, taps, stride, dilation, before, after;

  int64_t Spread() const { return dilation * (taps - 1) + 1; }
  // What has to be added behind the input so that there are just so many outputs.
  bool SetAfter() {
    after = std::max<int64_t>(0, (out - 1) * stride + Spread() - in - before);
    return before >= 0 && (in + before + after - Spread()) / stride + 1 == out &&
           in + before + after >= Spread();
  }
};

using Windows = std::vector<Window>;

bool IsConvolution(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def != nullptr && def->sums_products() && node.Find("pad_amount") != nullptr &&
         node.Find("dilation") != nullptr && node.type.compare(0, 9, "Transpose") != 0;
}

Windows WindowsOf(const Node& node) {
  const Shape &in = node.inputs[0]->shape, &out = node.outputs[0]->shape;
  const Shape& weights = node.inputs[1]->shape;
  const size_t count = in.size() - 2;
  const auto ints = [&](const char* name) {
    const std::vector<int64_t> values = node.Ints(name);
    return values.empty() ? std::vector<int64_t>{node.Int(name)} : values;  // of one dim: a scalar
  };
  const std::vector<int64_t> stride = ints("stride"), dilation = ints("dilation");
  const std::vector<int64_t> pads = node.Ints("pad_amount");
  Windows windows;
  for (size_t i = 0; i < count; ++i) {
    windows.push_back(
        {in[1 + i], out[1 + i], weights[i], stride[i], dilation[i], pads[2 * i], pads[2 * i + 1]});
  }
  return windows;
}

void SetPads(Node* node, const Windows& windows) {
  const Param* pads = node->Find("pad_amount");
  std::vector<int64_t> values;
  for (const Window& w : windows) values.insert(values.end(), {w.before, w.after});
  const Tensor& before = std::get<Tensor>(pads->value);
  SetInts(node, "pad_amount", before.dtype, before.shape, values);
}

// Writes what stands for zero, into the input's own encoding.
bool PadsWithZeros(const Node& pad) {
  const Tensor &in = *pad.inputs[0], &out = *pad.outputs[0];
  if (pad.Int("scheme") != QNN_OP_PAD_SCHEME_CONSTANT || !SameEncoding(in, out)) return false;
  unsigned char value[8], zero[8];
  const Param* given = pad.Find("pad_constant_value");
  if (given == nullptr || !ScalarBytes("pad_constant_value", given->value, in, value).ok()) {
    return false;
  }
  return ScalarBytes("zero", ParamValue(0.0), in, zero).ok() && std::memcmp(value, zero, 8) == 0;
}

// The Pad before a convolution.
bool TakePad(NodeGraph* graph, Node* node) {
  const Tensor* x = node->inputs[0];
  if (!graph->IsPrivate(x)) return false;
  const Node& pad = graph->nodes[static_cast<size_t>(graph->Producer(x))];
  if (pad.type != QNN_OP_PAD || !pad.post_ops.empty() || !PadsWithZeros(pad)) return false;
  const std::vector<int64_t> amounts = pad.Ints("pad_amount");
  if (amounts.size() != 2 * x->shape.size()) return false;
  const size_t last = amounts.size() - 2;
  if (amounts[0] != 0 || amounts[1] != 0 || amounts[last] != 0 || amounts[last + 1] != 0) {
    return false;
  }
  Windows windows = WindowsOf(*node);
  for (size_t i = 0; i < windows.size(); ++i) {
    Window& w = windows[i];
    w.in = pad.inputs[0]->shape[1 + i];
    w.before += amounts[2 + 2 * i];
    w.after += amounts[3 + 2 * i];
    // Kernels take more for a window that is all padding.
    if (w.before >= w.Spread() || w.after >= w.Spread()) return false;
  }
  node->inputs[0] = pad.inputs[0];
  SetPads(node, windows);
  return true;  // the Pad has no reader left
}

// The slice behind a convolution; `slice` becomes empty.
bool TakeSlice(NodeGraph* graph, Node* slice) {
  const Tensor *x = slice->inputs[0], *out = slice->outputs[0];
  if (!graph->IsPrivate(x) || !slice->post_ops.empty() || !SameEncoding(*x, *out)) return false;
  Node& node = graph->nodes[static_cast<size_t>(graph->Producer(x))];
  if (!IsConvolution(node) || !node.post_ops.empty() || out->shape.size() != x->shape.size()) {
    return false;
  }
  for (const char* mask : {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"}) {
    if (slice->Int(mask) != 0) return false;
  }
  const std::vector<int64_t> ranges = slice->Ints("ranges");
  if (ranges.size() != 3 * x->shape.size()) return false;
  Windows windows = WindowsOf(node);
  for (size_t d = 0; d < x->shape.size(); ++d) {
    const int64_t size = x->shape[d], count = out->shape[d];
    const int64_t begin = ranges[3 * d] < 0 ? ranges[3 * d] + size : ranges[3 * d];
    if (count == size) {
      if (ranges[3 * d + 2] != 1 && size != 1) return false;
      continue;
    }
    if (d == 0 || d + 1 == x->shape.size() || count == 0 || begin < 0) return false;
    if (ranges[3 * d + 2] != 1 && count != 1) return false;
    Window& w = windows[d - 1];
    w.out = count;
    w.before -= begin * w.stride;
    if (!w.SetAfter()) return false;
  }
  SetPads(&node, windows);
  node.outputs[0] = out;
  graph->Absorbed(x, static_cast<size_t>(&node - graph->nodes.data()));
  *slice = Node{};
  return true;
}

// Taps [first, end) of a window that see the input for one output at least.
void Seeing(const Window& w, int64_t* first, int64_t* end) {
  const auto sees = [&](int64_t tap) {
    const int64_t from = tap * w.dilation - w.before, to = from + (w.out - 1) * w.stride;
    if (to < 0 || from >= w.in) return false;
    // With strides, the steps may pass the input by.
    const int64_t step = from >= 0 ? 0 : (-from + w.stride - 1) / w.stride;
    return from + step * w.stride < w.in;
  };
  *first = 0;
  *end = w.taps;
  while (*first + 1 < *end && !sees(*first)) ++*first;
  while (*end - 1 > *first && !sees(*end - 1)) --*end;
}

// Whether the node has such weights; `*left` is what is left of the windows then.
bool SeesZerosOnly(const Node& node, Windows* left, std::vector<int64_t>* firsts) {
  const Tensor& weights = *node.inputs[1];
  if (!weights.is_static() || weights.quantization.in_blocks()) return false;
  if (weights.quantization.axis >= 0 &&
      weights.quantization.axis < static_cast<int32_t>(left->size())) {
    return false;
  }
  bool any = false;
  for (Window& w : *left) {
    int64_t first, end;
    Seeing(w, &first, &end);
    firsts->push_back(first);
    if (end - first == w.taps) continue;
    any = true;
    w.taps = end - first;
    w.before -= first * w.dilation;
    if (w.taps == 1) w.dilation = 1;
    if (!w.SetAfter()) return false;
  }
  return any;
}

Status LeaveOutTaps(NodeGraph* graph, Node* node, int* changes) {
  Windows left = WindowsOf(*node);
  std::vector<int64_t> firsts;
  if (!SeesZerosOnly(*node, &left, &firsts)) return {};
  const Tensor& weights = *node->inputs[1];
  Tensor* less = graph->NewTensor(weights);
  less->name = node->name + ".weight";
  less->type = QNN_TENSOR_TYPE_STATIC;
  for (size_t i = 0; i < left.size(); ++i) less->shape[i] = static_cast<uint32_t>(left[i].taps);
  std::shared_ptr<AlignedBytes> data = AlignedBytes::Make(less->bytes());
  if (data == nullptr) return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory");
  const size_t spatial = left.size();
  const size_t tap = ElementSize(weights.dtype) * weights.shape[spatial] * weights.shape.back();
  const char* from = static_cast<const char*>(weights.data->data());
  char* to = static_cast<char*>(data->data());
  const size_t count = less->bytes() / tap;
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i, at = 0, step = 1;
    for (size_t d = spatial; d-- > 0; step *= weights.shape[d]) {
      at += (rest % less->shape[d] + static_cast<size_t>(firsts[d])) * step;
      rest /= less->shape[d];
    }
    std::memcpy(to + i * tap, from + at * tap, tap);
  }
  less->data = std::move(data);
  node->inputs[1] = less;
  std::vector<int64_t> dilations;
  for (const Window& w : left) dilations.push_back(w.dilation);
  const Param* dilation = node->Find("dilation");
  if (const Tensor* values = std::get_if<Tensor>(&dilation->value)) {
    const Tensor before = *values;
    SetInts(node, "dilation", before.dtype, before.shape, dilations);
  } else {
    for (Param& param : node->params) {
      if (param.name == "dilation") param.value = dilations[0];
    }
  }
  SetPads(node, left);
  ++*changes;
  return {};
}

}  // namespace

Status FitWindows(NodeGraph* graph, int* changes) {
  std::vector<bool> dead(graph->nodes.size(), false);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    Node& node = graph->nodes[i];
    if (node.type == QNN_OP_STRIDED_SLICE && TakeSlice(graph, &node)) {
      dead[i] = true;
      ++*changes;
    } else if (IsConvolution(node) && node.HasInput(0) && node.HasInput(1) &&
               TakePad(graph, &node)) {
      ++*changes;
    }
  }
  graph->Erase(dead);
  for (Node& node : graph->nodes) {
    if (IsConvolution(node)) QNNRT_RETURN_IF_ERROR(LeaveOutTaps(graph, &node, changes));
  }
  int removed = 0;
  return RemoveDeadNodes(graph, &removed);
}

}  // namespace qnnrt
