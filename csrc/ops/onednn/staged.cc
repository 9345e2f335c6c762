#include "ops/onednn/staged.h"

#include <cstring>

#include "ops/isa.h"

namespace qnnrt::onednn {
namespace {

constexpr size_t kGrainBytes = 128 * 1024;  // worth a thread

// The input as [batch, depth, height, width x channels]; padding in the same terms.
struct PaddedShape {
  size_t batch = 1, depth = 1, height = 1, row = 1;  // row in bytes
  size_t depth_before = 0, depth_after = 0, top = 0, bottom = 0, left = 0, right = 0;

  size_t padded_depth() const { return depth_before + depth + depth_after; }
  size_t padded_height() const { return top + height + bottom; }
  size_t padded_row() const { return left + row + right; }
  size_t bytes() const { return batch * padded_depth() * padded_height() * padded_row(); }
};

class Padded final : public StagedInput {
 public:
  Padded(KernelPtr inner, size_t inputs, const PaddedShape& shape, uint8_t fill)
      : StagedInput(std::move(inner), inputs, 0, shape.bytes()), s_(shape), fill_(fill) {}

 protected:
  void Stage(const void* from, void* to, const Threads& threads) const override {
    const uint8_t* in = static_cast<const uint8_t*>(from);
    uint8_t* out = static_cast<uint8_t*>(to);
    const size_t rows = s_.batch * s_.padded_depth() * s_.padded_height();
    const size_t row_bytes = s_.padded_row();
    threads.For(rows, kGrainBytes / row_bytes + 1, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        uint8_t* row = out + r * row_bytes;
        // A plane outside of the input wraps around to a large number.
        const size_t y = r % s_.padded_height() - s_.top;
        const size_t z = r / s_.padded_height() % s_.padded_depth() - s_.depth_before;
        if (y >= s_.height || z >= s_.depth) {
          std::memset(row, fill_, row_bytes);
          continue;
        }
        const size_t n = r / s_.padded_height() / s_.padded_depth();
        std::memset(row, fill_, s_.left);
        std::memcpy(row + s_.left, in + ((n * s_.depth + z) * s_.height + y) * s_.row, s_.row);
        std::memset(row + s_.left + s_.row, fill_, s_.right);
      }
    });
  }

 private:
  const PaddedShape s_;
  const uint8_t fill_;
};

struct FlipRun {
  static QNNRT_INLINE void Run(const uint8_t* in, uint8_t* out, size_t n) {
    QNNRT_SIMD
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(in[i] ^ 0x80u);
  }
};

class Signed final : public StagedInput {
 public:
  Signed(KernelPtr inner, size_t inputs, size_t elements)
      : StagedInput(std::move(inner), inputs, 1, elements), elements_(elements) {}

 protected:
  void Stage(const void* from, void* to, const Threads& threads) const override {
    const uint8_t* in = static_cast<const uint8_t*>(from);
    uint8_t* out = static_cast<uint8_t*>(to);
    threads.For(elements_, kGrainBytes,
                [&](size_t begin, size_t end) { flip_(in + begin, out + begin, end - begin); });
  }

 private:
  const size_t elements_;
  decltype(PickIsa<FlipRun>()) flip_ = PickIsa<FlipRun>();
};

}  // namespace

StagedInput::StagedInput(KernelPtr inner, size_t inputs, size_t input, size_t bytes)
    : inner_(std::move(inner)),
      inputs_(inputs),
      input_(input),
      pointers_bytes_(ScratchRoom(inputs * sizeof(void*))),
      staged_bytes_(ScratchRoom(bytes)) {}

size_t StagedInput::ScratchBytes() const {
  return pointers_bytes_ + staged_bytes_ + inner_->ScratchBytes();
}

Status StagedInput::Run(const ExecArgs& args) {
  char* scratch = static_cast<char*>(args.scratch);
  const void** in = reinterpret_cast<const void**>(scratch);
  std::memcpy(in, args.in, inputs_ * sizeof(void*));
  char* staged = scratch + pointers_bytes_;
  Stage(args.in[input_], staged, args.threads);
  in[input_] = staged;
  return inner_->Run({in, args.out, staged + staged_bytes_, args.threads});
}

KernelPtr MakePadded(KernelPtr inner, const Node& node, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& after, uint8_t fill) {
  const Shape& shape = node.inputs[0]->shape;
  const size_t spatial = before.size(), channels = shape.back();
  PaddedShape s;
  s.batch = shape[0];
  s.row = shape[spatial] * channels;
  s.left = static_cast<size_t>(before[spatial - 1]) * channels;
  s.right = static_cast<size_t>(after[spatial - 1]) * channels;
  if (spatial > 1) {
    s.height = shape[spatial - 1];
    s.top = static_cast<size_t>(before[spatial - 2]);
    s.bottom = static_cast<size_t>(after[spatial - 2]);
  }
  if (spatial > 2) {
    s.depth = shape[1];
    s.depth_before = static_cast<size_t>(before[0]);
    s.depth_after = static_cast<size_t>(after[0]);
  }
  return std::make_unique<Padded>(std::move(inner), node.inputs.size(), s, fill);
}

KernelPtr MakeSigned(KernelPtr inner, const Node& node) {
  return std::make_unique<Signed>(std::move(inner), node.inputs.size(), node.inputs[1]->elements());
}

}  // namespace qnnrt::onednn
