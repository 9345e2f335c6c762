// Gather, GatherElements, GatherNd.
#include "ops/movement/gather.h"

#include <algorithm>
#include <cstring>

#include "abi/qnn_op_names.h"
#include "ops/movement/indices.h"

namespace qnnrt {

Status CheckStaticIndices(const Node& node, size_t input, size_t axis, size_t size) {
  const Tensor& indices = *node.inputs[input];
  if (!indices.is_static()) return {};
  const IndexReader reader(indices.dtype);
  for (size_t i = 0; i < indices.elements(); ++i) {
    if (reader.At(indices.data->data(), i, size) < 0) {
      const int64_t index = reader.At(indices.data->data(), i);
      return Invalid("%s", BadIndexText(index, i, axis, size).c_str());
    }
  }
  return {};
}

Status CheckElementIndices(const Node& node, size_t axis) {
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape;
  bool fits = in.size() == indices.size();
  for (size_t i = 0; fits && i < in.size(); ++i) fits = i == axis || indices[i] <= in[i];
  if (!fits) {
    return Invalid("indices of shape %s do not fit the input's %s but for axis %zu",
                   ShapeText(indices).c_str(), ShapeText(in).c_str(), axis);
  }
  return CheckStaticIndices(node, 1, axis, in[axis]);
}

namespace {

constexpr size_t kGrainBytes = 64 << 10;

// memcpy of what is mostly one element
inline void Move(char* to, const char* from, size_t bytes) {
  switch (bytes) {
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

// Elements at the places that a run of indices names.
struct Picks {
  const char* from;
  size_t size;   // of the axis that the indices lie on
  size_t scale;  // elements from one index to the next
  size_t step;   // elements from the place of one index of the run to that of the next
  size_t bytes;  // of an element
};

// Returns how many were copied: fewer than `count` where the next index has no element. The types
// are decided once for a run, since most of what is picked is one number.
template <typename Index, size_t kBytes>
size_t PickRun(const Picks& run, const void* indices, size_t count, char* out) {
  const Index* index = static_cast<const Index*>(indices);
  const size_t bytes = kBytes != 0 ? kBytes : run.bytes;
  for (size_t i = 0; i < count; ++i) {
    const int64_t at = InAxis(index[i], run.size);
    if (at < 0) return i;
    const size_t place = i * run.step + static_cast<size_t>(at) * run.scale;
    std::memcpy(out + i * bytes, run.from + place * bytes, bytes);
  }
  return count;
}

using PickFn = size_t (*)(const Picks&, const void*, size_t, char*);

template <typename Index>
PickFn PickOf(size_t bytes) {
  switch (bytes) {
    case 1:
      return PickRun<Index, 1>;
    case 2:
      return PickRun<Index, 2>;
    case 4:
      return PickRun<Index, 4>;
    case 8:
      return PickRun<Index, 8>;
    default:
      return PickRun<Index, 0>;
  }
}

// For indices of a type that IndexReader reads.
class Picker {
 public:
  Picker(Qnn_DataType_t type, size_t bytes)
      : pick_(type == QNN_DATATYPE_INT_64    ? PickOf<int64_t>(bytes)
              : type == QNN_DATATYPE_UINT_32 ? PickOf<uint32_t>(bytes)
                                             : PickOf<int32_t>(bytes)),
        width_(type == QNN_DATATYPE_INT_64 ? 8 : 4) {}
  size_t operator()(const Picks& run, const void* indices, size_t first, size_t count,
                    char* out) const {
    return pick_(run, static_cast<const char*>(indices) + first * width_, count, out);
  }

 private:
  const PickFn pick_;
  const size_t width_;
};

class GatherKernel final : public Kernel {
 public:
  GatherKernel(const Node& node, size_t axis)
      : reader_(node.inputs[1]->dtype),
        axis_(axis),
        outer_(Product(node.inputs[0]->shape, 0, axis)),
        size_(node.inputs[0]->shape[axis]),
        picks_(node.inputs[1]->elements()),
        chunk_(Product(node.inputs[0]->shape, axis + 1, node.inputs[0]->shape.size()) *
               ElementSize(node.inputs[0]->dtype)),
        pick_(node.inputs[1]->dtype, chunk_) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    FirstBad bad;
    args.threads.For(outer_ * picks_, 1 + kGrainBytes / (chunk_ + 1),
                     [&](size_t begin, size_t end) {
                       size_t pick = begin % picks_;
                       Picks run{in + begin / picks_ * size_ * chunk_, size_, 1, 0, chunk_};
                       for (size_t u = begin; u < end;) {
                         const size_t count = std::min(end - u, picks_ - pick);
                         const size_t done = pick_(run, args.in[1], pick, count, out + u * chunk_);
                         if (done < count) return bad.Note(pick + done);
                         u += count, pick = 0, run.from += size_ * chunk_;
                       }
                     });
    if (!bad.any()) return {};
    return BadIndex(reader_.At(args.in[1], bad.position()), bad.position(), axis_, size_);
  }

 private:
  const IndexReader reader_;
  const size_t axis_, outer_, size_, picks_, chunk_;
  const Picker pick_;
};

Status InferGather(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape;
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", in.size()));
  if (in.size() + indices.size() - 1 > 8) {
    return Invalid("the output would have rank %zu, the most is 8", in.size() + indices.size() - 1);
  }
  QNNRT_RETURN_IF_ERROR(CheckStaticIndices(node, 1, axis, in[axis]));
  Shape& out = (*outputs)[0];
  const ptrdiff_t at = static_cast<ptrdiff_t>(axis);
  out.assign(in.begin(), in.begin() + at);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), in.begin() + at + 1, in.end());
  return {};
}

Result<KernelPtr> MakeGather(const Node& node, const KernelOptions&) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  return KernelPtr(std::make_unique<GatherKernel>(node, axis));
}

// out[i][j][k] = in[i][indices[i][j][k]][k], along any axis
class GatherElementsKernel final : public Kernel {
 public:
  GatherElementsKernel(const Node& node, size_t axis)
      : reader_(node.inputs[1]->dtype),
        positions_(node.inputs[0]->shape, node.inputs[1]->shape, axis),
        element_(ElementSize(node.inputs[0]->dtype)),
        count_(node.inputs[1]->elements()),
        pick_(node.inputs[1]->dtype, element_) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    FirstBad bad;
    args.threads.For(count_, 4 << 10, [&](size_t begin, size_t end) {
      for (size_t u = begin; u < end;) {
        const size_t count = std::min(end - u, positions_.row() - u % positions_.row());
        const Picks run{in + positions_.At(u, 0) * element_, positions_.size(), positions_.scale(),
                        positions_.step(), element_};
        const size_t done = pick_(run, args.in[1], u, count, out + u * element_);
        if (done < count) return bad.Note(u + done);
        u += count;
      }
    });
    if (!bad.any()) return {};
    return BadIndex(reader_.At(args.in[1], bad.position()), bad.position(), positions_.axis(),
                    positions_.size());
  }

 private:
  const IndexReader reader_;
  const ElementPositions positions_;
  const size_t element_, count_;
  const Picker pick_;
};

Status InferGatherElements(const Node& node, std::vector<Shape>* outputs) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  QNNRT_RETURN_IF_ERROR(CheckElementIndices(node, axis));
  (*outputs)[0] = node.inputs[1]->shape;
  return {};
}

Result<KernelPtr> MakeGatherElements(const Node& node, const KernelOptions&) {
  QNNRT_ASSIGN_OR_RETURN(const size_t axis, GetAxis(node, "axis", node.inputs[0]->shape.size()));
  return KernelPtr(std::make_unique<GatherElementsKernel>(node, axis));
}

// The last dim of the indices is a position in the dims of the input after the batch dims.
class GatherNdKernel final : public Kernel {
 public:
  GatherNdKernel(const Node& node, size_t batch_dims)
      : reader_(node.inputs[1]->dtype),
        shape_(node.inputs[0]->shape),
        first_(batch_dims),
        depth_(node.inputs[1]->shape.back()),
        batches_(Product(shape_, 0, batch_dims)),
        picks_(batches_ == 0 || depth_ == 0
                   ? Product(node.inputs[1]->shape, batch_dims, node.inputs[1]->shape.size() - 1)
                   : node.inputs[1]->elements() / depth_ / batches_),
        chunk_(Product(shape_, first_ + depth_, shape_.size()) *
               ElementSize(node.inputs[0]->dtype)) {}

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t batch_bytes = Product(shape_, first_, first_ + depth_) * chunk_;
    FirstBad bad;
    args.threads.For(
        batches_ * picks_, 1 + kGrainBytes / (chunk_ + 1), [&](size_t begin, size_t end) {
          for (size_t u = begin; u < end; ++u) {
            size_t at = 0;
            for (size_t d = 0; d < depth_; ++d) {
              const int64_t index = reader_.At(args.in[1], u * depth_ + d, shape_[first_ + d]);
              if (index < 0) return bad.Note(u * depth_ + d);
              at = at * shape_[first_ + d] + static_cast<size_t>(index);
            }
            Move(out + u * chunk_, in + u / picks_ * batch_bytes + at * chunk_, chunk_);
          }
        });
    if (!bad.any()) return {};
    const size_t axis = first_ + bad.position() % depth_;
    return BadIndex(reader_.At(args.in[1], bad.position()), bad.position(), axis, shape_[axis]);
  }

 private:
  const IndexReader reader_;
  const Shape shape_;
  const size_t first_, depth_, batches_, picks_, chunk_;
};

Status InferGatherNd(const Node& node, std::vector<Shape>* outputs) {
  const Shape &in = node.inputs[0]->shape, &indices = node.inputs[1]->shape;
  const int64_t batch = node.Int("batch_dims");
  if (batch < 0 || batch >= static_cast<int64_t>(std::min(in.size(), indices.size()))) {
    return Invalid("param 'batch_dims' is %lld, expected a value in [0, %zu)",
                   static_cast<long long>(batch), std::min(in.size(), indices.size()));
  }
  const size_t first = static_cast<size_t>(batch);
  if (!std::equal(in.begin(), in.begin() + batch, indices.begin())) {
    return Invalid("the first %zu dims of the input's %s and the indices' %s are expected to agree",
                   first, ShapeText(in).c_str(), ShapeText(indices).c_str());
  }
  if (first + indices.back() > in.size()) {
    return Invalid("indices of shape %s address %u dims, the input has %zu after the batch dims",
                   ShapeText(indices).c_str(), indices.back(), in.size() - first);
  }
  Shape& out = (*outputs)[0];
  out.assign(indices.begin(), indices.end() - 1);
  out.insert(out.end(), in.begin() + batch + indices.back(), in.end());
  if (out.size() > 8) return Invalid("the output would have rank %zu, the most is 8", out.size());
  return {};
}

Result<KernelPtr> MakeGatherNd(const Node& node, const KernelOptions&) {
  return KernelPtr(
      std::make_unique<GatherNdKernel>(node, static_cast<size_t>(node.Int("batch_dims"))));
}

}  // namespace

OpList GatherOps() {
  PortSpec in{"in[0]", types::kAny}, indices{"in[1]", types::kIndex};
  in.min_rank = 1;
  PortSpec positions = indices;
  positions.min_rank = 1;
  const PortSpec out{"out[0]", types::kAny, PortSpec::kOne, 0};
  OpList ops = {
      {QNN_OP_GATHER,
       {in, indices},
       {out},
       {{"axis", ParamSpec::kInt, Required(), ""}},
       InferGather,
       MakeGather,
       OpDef::kNativeHalf | OpDef::kMoves | OpDef::kLpai},
      {QNN_OP_GATHER_ELEMENTS,
       {in, positions},
       {out},
       {{"axis", ParamSpec::kInt, Default(0)}},
       InferGatherElements,
       MakeGatherElements,
       OpDef::kNativeHalf | OpDef::kMoves},
      {QNN_OP_GATHER_ND,
       {in, positions},
       {out},
       {{"batch_dims", ParamSpec::kInt, Default(0), "leading dims that both inputs share"}},
       InferGatherNd,
       MakeGatherNd,
       OpDef::kNativeHalf | OpDef::kMoves},
  };
  for (OpDef& def : ScatterOps()) ops.push_back(std::move(def));
  ops.push_back(OneHotOp());
  ops.push_back(NonZeroOp());
  ops.push_back(NonMaxSuppressionOp());
  ops.push_back(GridSampleOp());
  ops.push_back(RoiAlignOp());
  return ops;
}

}  // namespace qnnrt
