// Floats of 16 bits and fixed-point numbers through a float kernel: convert what is read, run,
// round what was written.
#include <cstring>

#include "ops/fixed/codec.h"
#include "ops/op.h"
#include "ops/rules.h"
#include "ops/weights.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr size_t kGrain = 16 * 1024;  // elements worth a thread

struct Slot {
  bool convert = false;
  Codec codec;
  size_t elements = 0;
  size_t offset = 0;            // in scratch
  const void* fixed = nullptr;  // a static input, widened when the kernel was made
};

class ViaFloat final : public Kernel {
 public:
  static Result<KernelPtr> Make(const OpDef& def, const Node& node, const KernelOptions& options) {
    std::unique_ptr<ViaFloat> kernel(new ViaFloat);
    QNNRT_RETURN_IF_ERROR(kernel->Widen(node));
    KernelOptions inner = options;
    inner.brain_inputs = BrainInputs(node);
    QNNRT_ASSIGN_OR_RETURN(kernel->inner_, MakeOneDnnKernel(kernel->node_, inner));
    if (!kernel->inner_) {
      QNNRT_ASSIGN_OR_RETURN(kernel->inner_, def.portable(kernel->node_, inner));
    }
    if (!kernel->inner_) return KernelPtr();
    QNNRT_RETURN_IF_ERROR(kernel->KeepWidened(options));
    kernel->Layout();
    return KernelPtr(std::move(kernel));
  }

  Status Run(const ExecArgs& args) override {
    char* scratch = static_cast<char*>(args.scratch);
    // The pointers passed on live in scratch too: a node may have any number of ports.
    const void** in = reinterpret_cast<const void**>(scratch);
    void** out = reinterpret_cast<void**>(scratch + inputs_.size() * sizeof(void*));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Slot& slot = inputs_[i];
      in[i] = args.in[i];
      if (!slot.convert) continue;
      if (slot.fixed != nullptr) {
        in[i] = slot.fixed;
        continue;
      }
      float* wide = reinterpret_cast<float*>(scratch + slot.offset);
      args.threads.For(slot.elements, kGrain, [&](size_t begin, size_t end) {
        slot.codec.Decode(args.in[i], wide, begin, end);
      });
      in[i] = wide;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      out[i] = outputs_[i].convert ? scratch + outputs_[i].offset : args.out[i];
    }
    QNNRT_RETURN_IF_ERROR(
        inner_->Run({in, out, inner_->ScratchBytes() ? scratch + inner_offset_ : nullptr,
                     args.threads, args.persistent}));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].convert) continue;
      const float* wide = static_cast<const float*>(out[i]);
      args.threads.For(outputs_[i].elements, kGrain, [&](size_t begin, size_t end) {
        outputs_[i].codec.Encode(wide, args.out[i], begin, end);
      });
    }
    return Status::Ok();
  }

  size_t ScratchBytes() const override { return inner_offset_ + inner_->ScratchBytes(); }
  size_t PersistentBytes() const override { return inner_->PersistentBytes(); }
  bool ReadsInput(size_t i) const override {
    return inner_->ReadsInput(i) && (i >= inputs_.size() || inputs_[i].fixed == nullptr);
  }
  const char* Name() const override { return inner_->Name(); }
  size_t WeightBytes() const override { return inner_->WeightBytes() + widened_bytes_; }

 private:
  ViaFloat() = default;

  static uint64_t BrainInputs(const Node& node) {
    uint64_t inputs = 0;
    for (size_t i = 0; i < std::min<size_t>(64, node.inputs.size()); ++i) {
      const Tensor* t = node.inputs[i];
      if (t != nullptr && t->dtype == QNN_DATATYPE_BFLOAT_16) inputs |= uint64_t{1} << i;
    }
    return inputs;
  }

  Status Widen(const Node& node) {
    node_ = node;
    node_.in_place.clear();  // in float it lies elsewhere
    tensors_.reserve(node.inputs.size() + node.outputs.size());
    for (auto* ports : {&node_.inputs, &node_.outputs}) {
      for (const Tensor*& tensor : *ports) {
        if (tensor == nullptr || !Codec::Needs(*tensor)) continue;
        auto wide = std::make_unique<Tensor>(*tensor);
        wide->dtype = QNN_DATATYPE_FLOAT_32;
        wide->quantization = {};
        if (tensor->data) {
          // Where the store has what became of it, nobody reads it here.
          const bool absent = !tensor->data->there();
          wide->data =
              absent ? AlignedBytes::Absent(wide->bytes()) : AlignedBytes::Make(wide->bytes());
          if (!wide->data) return OutOfMemory();
          if (!absent) {
            Codec(*tensor).Decode(tensor->data->data(), static_cast<float*>(wide->data->data()), 0,
                                  wide->elements());
          }
        }
        tensor = wide.get();
        tensors_.push_back(std::move(wide));
      }
    }
    inputs_.resize(node.inputs.size());
    outputs_.resize(node.outputs.size());
    for (size_t i = 0; i < inputs_.size(); ++i) Describe(node.inputs[i], &inputs_[i]);
    for (size_t i = 0; i < outputs_.size(); ++i) Describe(node.outputs[i], &outputs_[i]);
    return Status::Ok();
  }

  static void Describe(const Tensor* tensor, Slot* slot) {
    slot->convert = tensor != nullptr && Codec::Needs(*tensor);
    if (!slot->convert) return;
    slot->codec = Codec(*tensor);
    slot->elements = tensor->elements();
  }

  // What the float kernel packed goes; the widened static inputs that it reads as they are stay.
  Status KeepWidened(const KernelOptions& options) {
    kept_.resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].convert || !node_.inputs[i]->data) continue;
      const std::shared_ptr<AlignedBytes> wide = node_.inputs[i]->data;
      if (inner_->ReadsInput(i)) {
        const auto copy = [&](void* to) {
          std::memcpy(to, wide->data(), wide->size());
          return Status::Ok();
        };
        QNNRT_ASSIGN_OR_RETURN(kept_[i],
                               PackWeights(options, i, wide->size(), "as FLOAT_32", copy));
      }
    }
    for (auto& tensor : tensors_) tensor->data.reset();
    return Status::Ok();
  }

  void Layout() {
    size_t offset = ScratchRoom((inputs_.size() + outputs_.size()) * sizeof(void*));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Slot& slot = inputs_[i];
      if (!slot.convert) continue;
      if (!inner_->ReadsInput(i)) {
        slot.convert = false;  // packed inside
      } else if (kept_[i]) {
        slot.fixed = kept_[i]->data();
        widened_bytes_ += kept_[i]->size();
      } else {
        slot.offset = offset;
        offset += ScratchRoom(slot.elements * sizeof(float));
      }
    }
    for (Slot& slot : outputs_) {
      if (!slot.convert) continue;
      slot.offset = offset;
      offset += ScratchRoom(slot.elements * sizeof(float));
    }
    inner_offset_ = offset;
  }

  Node node_;  // in float; kept because kernels may look at it until they are made
  std::vector<std::unique_ptr<Tensor>> tensors_;
  KernelPtr inner_;
  std::vector<Slot> inputs_, outputs_;
  std::vector<SharedBytes> kept_;  // by input
  size_t inner_offset_ = 0;
  size_t widened_bytes_ = 0;
};

}  // namespace

Result<KernelPtr> MakeViaFloat(const OpDef& def, const Node& node, const KernelOptions& options) {
  return ViaFloat::Make(def, node, options);
}

}  // namespace qnnrt
