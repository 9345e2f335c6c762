#include "ops/movement/float_copy.h"

#include <algorithm>

namespace qnnrt {
namespace {

constexpr size_t kBlock = 4096;  // floats of a block, which stay in the first cache
constexpr size_t kGrain = 32 * 1024;

class FloatCopy final : public Kernel {
 public:
  FloatCopy(const Node& node, const std::vector<CopyDim>& dims)
      : from_(NarrowFloatOf(node.inputs[0]->dtype)),
        to_(NarrowFloatOf(node.outputs[0]->dtype)),
        in_size_(ElementSize(node.inputs[0]->dtype)),
        out_size_(ElementSize(node.outputs[0]->dtype)) {
    // The inner loops that a block has room for, and as much of the next one.
    size_t first = dims.size();
    while (first > 0 && inner_ * dims[first - 1].count <= kBlock) inner_ *= dims[--first].count;
    const std::vector<CopyDim> within(dims.begin() + static_cast<ptrdiff_t>(first), dims.end());
    outer_.assign(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(first));
    if (!outer_.empty()) {
      most_ = std::min(kBlock / inner_, outer_.back().count);
      blocks_ = Parts();
      for (size_t d = 0; d + 1 < outer_.size(); ++d) blocks_ *= outer_[d].count;
    }
    for (size_t count : {most_, outer_.empty() ? 0 : outer_.back().count % most_}) {
      if (count == 0) continue;
      std::vector<CopyDim> loops = within;
      if (!outer_.empty())
        loops.insert(loops.begin(), {count, outer_.back().src, static_cast<ptrdiff_t>(inner_)});
      copies_.emplace_back(in_size_, loops);
    }
  }

  Status Run(const ExecArgs& args) override {
    const char* in = static_cast<const char*>(args.in[0]);
    char* out = static_cast<char*>(args.out[0]);
    const size_t grain = kGrain / std::max<size_t>(1, inner_ * most_) + 1;
    args.threads.For(blocks_, grain, [&](size_t begin, size_t end) {
      alignas(64) float block[kBlock];
      const Threads one(1);
      for (size_t i = begin; i < end; ++i) {
        const Place place = PlaceOf(i);
        copies_[place.count == most_ ? 0 : 1].Run(
            one, in + place.from * static_cast<ptrdiff_t>(in_size_), block);
        Convert(block, out + place.to * out_size_, place.count * inner_);
      }
    });
    return Status::Ok();
  }

 private:
  struct Place {
    ptrdiff_t from;
    size_t to, count;  // of the last outer loop
  };

  void Convert(const void* block, void* to, size_t count) const {
    if (to_ != nullptr)
      to_->narrow(static_cast<const float*>(block), static_cast<uint16_t*>(to), count);
    else
      from_->widen(static_cast<const uint16_t*>(block), static_cast<float*>(to), count);
  }

  size_t Parts() const { return (outer_.back().count + most_ - 1) / most_; }

  Place PlaceOf(size_t block) const {
    if (outer_.empty()) return {0, 0, 1};
    const CopyDim& last = outer_.back();
    const size_t part = block % Parts() * most_;
    size_t line = block / Parts();
    Place place{static_cast<ptrdiff_t>(part) * last.src, (line * last.count + part) * inner_,
                std::min(most_, last.count - part)};
    for (size_t d = outer_.size() - 1; d-- > 0; line /= outer_[d].count)
      place.from += static_cast<ptrdiff_t>(line % outer_[d].count) * outer_[d].src;
    return place;
  }

  const NarrowFloat *const from_, *const to_;  // one of them is null
  const size_t in_size_, out_size_;
  std::vector<CopyDim> outer_;  // loops around a block
  size_t inner_ = 1;            // floats of what lies within one step of the last of them
  size_t most_ = 1;             // steps of it in a block
  size_t blocks_ = 1;
  std::vector<StridedCopy> copies_;  // of a whole block, and of the last one of a line
};

}  // namespace

KernelPtr MakeFloatCopyKernel(const Node& node, const std::vector<CopyDim>& dims) {
  return std::make_unique<FloatCopy>(node, dims);
}

}  // namespace qnnrt
