// ScatterElements and ScatterNd: the input with some elements replaced by, or combined with,
// updates. Updates are applied in their order, on one thread, so that duplicates have one meaning.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "abi/qnn_op_names.h"
#include "abi/qnn_op_values.h"
#include "ir/visit.h"
#include "ops/isa.h"
#include "ops/movement/gather.h"
#include "ops/movement/indices.h"
#include "ops/strided_copy.h"

namespace qnnrt {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax };

// to[i] = to[i] (reduction) from[i]
using Combine = void (*)(char* to, const char* from, size_t count);

template <Reduction r, typename T>
QNNRT_INLINE T Combined(T a, T b) {
  if constexpr (r == Reduction::kNone) {
    return b;
  } else if constexpr (r == Reduction::kMax) {
    const T greater = b > a ? b : a;  // an instruction of its own; as one condition, a jump
    return b != b ? b : greater;
  } else if constexpr (std::is_integral_v<T>) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(r == Reduction::kAdd ? x + y : x * y);
  } else {
    return r == Reduction::kAdd ? a + b : a * b;
  }
}

template <typename T, Reduction r>
struct CombineRow {
  static QNNRT_INLINE void Run(char* to, const char* from, size_t count) {
    T* t = reinterpret_cast<T*>(to);
    const T* f = reinterpret_cast<const T*>(from);
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) t[i] = Combined<r>(t[i], f[i]);
  }
};

template <size_t size>
void Replace(char* to, const char* from, size_t count) {
  std::memcpy(to, from, count * size);
}

Combine PickCombine(Reduction r, Qnn_DataType_t type) {
  if (r == Reduction::kNone) {
    switch (ElementSize(type)) {
      case 1:
        return Replace<1>;
      case 2:
        return Replace<2>;
      case 4:
        return Replace<4>;
      default:
        return Replace<8>;
    }
  }
  return VisitNumber(type, [&](auto t) -> Combine {
    using T = decltype(t);
    if (r == Reduction::kAdd) return PickIsa<CombineRow<T, Reduction::kAdd>>();
    if (r == Reduction::kMul) return PickIsa<CombineRow<T, Reduction::kMul>>();
    return PickIsa<CombineRow<T, Reduction::kMax>>();
  });
}

// Where the elements of a run of indices lie.
struct Places {
  char* to;
  size_t size;   // of the axis that the indices lie on
  size_t scale;  // elements from one index to the next
  size_t step;   // elements from the place of one index of the run to that of the next
};

// Returns how many updates were made: fewer than `count` where the next index has no element. As
// when gathering, the types are decided once for a run.
template <typename Index, typename T, Reduction r>
size_t PlaceRun(const Places& run, const void* indices, size_t count, const char* updates) {
  const Index* index = static_cast<const Index*>(indices);
  const T* from = reinterpret_cast<const T*>(updates);
  T* to = reinterpret_cast<T*>(run.to);
  for (size_t i = 0; i < count; ++i) {
    const int64_t at = InAxis(index[i], run.size);
    if (at < 0) return i;
    T& place = to[i * run.step + static_cast<size_t>(at) * run.scale];
    place = Combined<r>(place, from[i]);
  }
  return count;
}

using PlaceFn = size_t (*)(const Places&, const void*, size_t, const char*);

template <typename T, Reduction r>
PlaceFn PlaceOf(Qnn_DataType_t index) {
  switch (index) {
    case QNN_DATATYPE_INT_64:
      return PlaceRun<int64_t, T, r>;
    case QNN_DATATYPE_UINT_32:
      return PlaceRun<uint32_t, T, r>;
    default:
      return PlaceRun<int32_t, T, r>;
  }
}

PlaceFn PickPlace(Reduction r, Qnn_DataType_t type, Qnn_DataType_t index) {
  if (r == Reduction::kNone) {
    switch (ElementSize(type)) {
      case 1:
        return PlaceOf<uint8_t, Reduction::kNone>(index);
      case 2:
        return PlaceOf<uint16_t, Reduction::kNone>(index);
      case 4:
        return PlaceOf<uint32_t, Reduction::kNone>(index);
      default:
        return PlaceOf<uint64_t, Reduction::kNone>(index);
    }
  }
  return VisitNumber(type, [&](auto t) -> PlaceFn {
    using T = decltype(t);
    if (r == Reduction::kAdd) return PlaceOf<T, Reduction::kAdd>(index);
    if (r == Reduction::kMul) return PlaceOf<T, Reduction::kMul>(index);
    return PlaceOf<T, Reduction::kMax>(index);
  });
}

class ScatterElementsKernel final : public Kernel {
 public:
  ScatterElementsKernel(const Node& node, size_t axis)
      : reader_(node.inputs[1]->dtype),
        place_(PickPlace(static_cast<Reduction>(node.Int("reduction")), node.inputs[0]->dtype,
                         node.inputs[1]->dtype)),
        index_bytes_(ElementSize(node.inputs[1]->dtype)),
        positions_(node.inputs[0]->shape, node.inputs[1]->shape, axis),
        element_(ElementSize(node.inputs[0]->dtype)),
        bytes_(node.inputs[0]->bytes()),
        count_(node.inputs[1]->elements()) {}

  Status Run(const ExecArgs& args) override {
    const char* updates = static_cast<const char*>(args.in[2]);
    char* out = static_cast<char*>(args.out[0]);
    if (out != args.in[0]) {
      ParallelCopy(args.threads, out, args.in[0], bytes_);
    } else {
      QNNRT_RETURN_IF_ERROR(CheckIndices(args.in[1]));
    }
    const char* indices = static_cast<const char*>(args.in[1]);
    for (size_t u = 0; u < count_; u += positions_.row()) {
      const Places run{out + positions_.At(u, 0) * element_, positions_.size(), positions_.scale(),
                       positions_.step()};
      const size_t done =
          place_(run, indices + u * index_bytes_, positions_.row(), updates + u * element_);
      if (done < positions_.row()) {
        return BadIndex(reader_.At(indices, u + done), u + done, positions_.axis(),
                        positions_.size());
      }
    }
    return {};
  }

 private:
  // Before anything is overwritten: an execution that fails leaves a state as it was.
  Status CheckIndices(const void* indices) const {
    for (size_t u = 0; u < count_; ++u) {
      if (reader_.At(indices, u, positions_.size()) < 0)
        return BadIndex(reader_.At(indices, u), u, positions_.axis(), positions_.size());
    }
    return {};
  }

  const IndexReader reader_;
  const PlaceFn place_;
  const size_t index_bytes_;
  const ElementPositions positions_;
  const size_t element_, bytes_, count_;
};

Status CheckReduction(const Node& node) {
  const int64_t reduction = node.Int("reduction");
  if (reduction != 0 && node.inputs[0]->dtype == QNN_DATATYPE_BOOL_8) {
    return Invalid("param 'reduction' is %lld, expected 0 for BOOL_8 values",
                   static_cast<long long>(reduction));
  }
  return {};
}

Status InferScatterElements(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape,
              &updates = node.inputs[2]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  QNNRT_RETURN_IF_ERROR(CheckReduction(node));
  QNNRT_RETURN_IF_ERROR(CheckElementIndices(node, axis));
  if (updates != indices) {
    return Invalid("updates have shape %s, expected the indices' %s", ShapeText(updates).c_str(),
                   ShapeText(indices).c_str());
  }
  (*outputs)[0] = in;
  return {};
}

// Reductions of 16-bit floats are made in float.
bool ReducesHalves(const Node& node) {
  return static_cast<Reduction>(node.Int("reduction")) != Reduction::kNone &&
         NarrowFloatOf(node.inputs[0]->dtype) != nullptr;
}

Result<KernelPtr> MakeScatterElements(const Node& node, const KernelOptions& options) {
  if (ReducesHalves(node)) return MakeViaFloat(*FindOp(node.type), node, options);
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  return KernelPtr(std::make_unique<ScatterElementsKernel>(node, axis));
}

class ScatterNdKernel final : public Kernel {
 public:
  explicit ScatterNdKernel(const Node& node)
      : reader_(node.inputs[1]->dtype),
        combine_(PickCombine(static_cast<Reduction>(node.Int("reduction")), node.inputs[0]->dtype)),
        shape_(node.inputs[0]->shape),
        depth_(node.inputs[1]->shape.back()),
        picks_(Product(node.inputs[1]->shape, 0, node.inputs[1]->shape.size() - 1)),
        elements_(Product(shape_, depth_, shape_.size())),
        chunk_(elements_ * ElementSize(node.inputs[0]->dtype)),
        bytes_(node.inputs[0]->bytes()) {
    if (node.inputs[1]->is_static()) FindStretches(node.inputs[1]->data->data());
  }

  Status Run(const ExecArgs& args) override {
    const char* updates = static_cast<const char*>(args.in[2]);
    char* out = static_cast<char*>(args.out[0]);
    if (out != args.in[0]) {
      ParallelCopy(args.threads, out, args.in[0], bytes_);
    } else if (stretches_.empty()) {
      QNNRT_RETURN_IF_ERROR(CheckIndices(args.in[1]));
    }
    if (!stretches_.empty()) {
      constexpr size_t kGrainBytes = size_t{1} << 16;
      const size_t mean = std::max<size_t>(1, BytesOf(picks_) / stretches_.size());
      args.threads.For(stretches_.size(),
                       ascending_ ? std::max<size_t>(1, kGrainBytes / mean) : stretches_.size(),
                       [&](size_t begin, size_t end) {
                         for (size_t i = begin; i < end; ++i) {
                           const Stretch& stretch = stretches_[i];
                           combine_(out + BytesOf(stretch.to), updates + BytesOf(stretch.from),
                                    stretch.count * elements_);
                         }
                       });
      return {};
    }
    for (size_t u = 0; u < picks_; ++u) {
      size_t at = 0;
      for (size_t d = 0; d < depth_; ++d) {
        const size_t position = u * depth_ + d;
        const int64_t index = reader_.At(args.in[1], position, shape_[d]);
        if (index < 0) {
          return BadIndex(reader_.At(args.in[1], position), position, d, shape_[d]);
        }
        at = at * shape_[d] + static_cast<size_t>(index);
      }
      combine_(out + at * chunk_, updates + u * chunk_, elements_);
    }
    return {};
  }

 private:
  // Updates from one on that go to places beside each other.
  struct Stretch {
    size_t from, to, count;
  };
  // Of places that are known, those that an exporter writes for a slice that is assigned to. None
  // where most are alone, or one is outside, which each execution has to say.
  void FindStretches(const void* indices) {
    constexpr size_t kLeastMean = 4;
    for (size_t u = 0; u < picks_; ++u) {
      size_t at = 0;
      for (size_t d = 0; d < depth_; ++d) {
        const int64_t index = reader_.At(indices, u * depth_ + d, shape_[d]);
        if (index < 0) return stretches_.clear();
        at = at * shape_[d] + static_cast<size_t>(index);
      }
      if (!stretches_.empty() && stretches_.back().to + stretches_.back().count == at) {
        ++stretches_.back().count;
        continue;
      }
      if (!stretches_.empty() && at < stretches_.back().to + stretches_.back().count)
        ascending_ = false;
      stretches_.push_back({u, at, 1});
      if (stretches_.size() > picks_ / kLeastMean + 1) return stretches_.clear();
    }
    stretches_.shrink_to_fit();
  }
  size_t BytesOf(size_t picks) const { return picks * chunk_; }

  // Before anything is overwritten: an execution that fails leaves a state as it was.
  Status CheckIndices(const void* indices) const {
    for (size_t at = 0; at < picks_ * depth_; ++at) {
      const size_t d = at % depth_;
      if (reader_.At(indices, at, shape_[d]) < 0)
        return BadIndex(reader_.At(indices, at), at, d, shape_[d]);
    }
    return {};
  }

  const IndexReader reader_;
  const Combine combine_;
  const Shape shape_;
  const size_t depth_, picks_, elements_, chunk_, bytes_;
  std::vector<Stretch> stretches_;
  bool ascending_ = true;  // no place twice: threads may share them
};

Status InferScatterNd(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape,
              &updates = node.inputs[2]->shape;
  // Max is in the newer ONNX op and costs nothing here.
  QNNRT_RETURN_IF_ERROR(CheckReduction(node));
  if (indices.back() > in.size()) {
    return Invalid("indices of shape %s address %u dims, the input has %zu",
                   ShapeText(indices).c_str(), indices.back(), in.size());
  }
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), in.begin() + indices.back(), in.end());
  if (updates != expected) {
    return Invalid("updates have shape %s, expected %s", ShapeText(updates).c_str(),
                   ShapeText(expected).c_str());
  }
  (*outputs)[0] = in;
  return {};
}

Result<KernelPtr> MakeScatterNd(const Node& node, const KernelOptions& options) {
  if (ReducesHalves(node)) return MakeViaFloat(*FindOp(node.type), node, options);
  return KernelPtr(std::make_unique<ScatterNdKernel>(node));
}

}  // namespace

OpList ScatterOps() {
  PortSpec in{"in[0]", types::kAny}, indices{"in[1]", types::kIndex};
  in.min_rank = indices.min_rank = 1;
  const PortSpec updates{"in[2]", types::kAny, PortSpec::kOne, 0};
  const PortSpec out{"out[0]", types::kAny, PortSpec::kOne, 0};
  const ParamSpec reduction{
      "reduction", ParamSpec::kInt, Default(0), "", {"none", "add", "mul", "max"}};
  OpList ops = {
      {QNN_OP_SCATTER_ELEMENTS,
       {in, indices, updates},
       {out},
       {{"axis", ParamSpec::kInt, Default(0)}, reduction},
       InferScatterElements,
       MakeScatterElements,
       OpDef::kNativeHalf | OpDef::kMoves | OpDef::kUpdates},
      {QNN_OP_SCATTER_ND,
       {in, indices, updates},
       {out},
       {reduction},
       InferScatterNd,
       MakeScatterNd,
       OpDef::kNativeHalf | OpDef::kMoves | OpDef::kUpdates},
  };
  for (OpDef& def : ops) {
    def.moves = [](const Node& node) {
      const int64_t reduction = node.Int("reduction");
      return reduction == QNN_OP_SCATTER_ELEMENTS_REDUCTION_NONE ||
             reduction == QNN_OP_SCATTER_ELEMENTS_REDUCTION_MAX;
    };
  }
  return ops;
}

}  // namespace qnnrt
