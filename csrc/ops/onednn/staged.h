// A kernel whose primitive reads one input in another form than it lies: each run writes that form
// into scratch first.
#pragma once

#include "ops/op.h"

namespace qnnrt::onednn {

class StagedInput : public Kernel {
 public:
  Status Run(const ExecArgs& args) final;
  size_t ScratchBytes() const final;
  bool ReadsInput(size_t i) const final { return i == input_ || inner_->ReadsInput(i); }
  const char* Name() const final { return inner_->Name(); }
  size_t WeightBytes() const final { return inner_->WeightBytes(); }

 protected:
  // `inputs` of the node; input number `input` takes `bytes` in its other form.
  StagedInput(KernelPtr inner, size_t inputs, size_t input, size_t bytes);
  virtual void Stage(const void* from, void* to, const Threads& threads) const = 0;

 private:
  KernelPtr inner_;
  size_t inputs_, input_;
  size_t pointers_bytes_, staged_bytes_;
};

// Input 0, channels last, of 8-bit elements, with `fill` around it: [spatial] elements before and
// after.
KernelPtr MakePadded(KernelPtr inner, const Node& node, const std::vector<int64_t>& before,
                     const std::vector<int64_t>& after, uint8_t fill);

// Input 1 of unsigned 8-bit elements as signed ones, 128 less.
KernelPtr MakeSigned(KernelPtr inner, const Node& node);

}  // namespace qnnrt::onednn
