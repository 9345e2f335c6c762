#include "graph/plan.h"

#include <cinttypes>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "abi/qnn_errors.h"
#include "support/clock.h"
#include "support/json.h"

namespace qnnrt {
namespace {

// What stands for a node whose output is its input under another shape, when the two could not be
// given the same memory (both belong to the client).
class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  Status Run(const ExecArgs& args) override {
    if (args.in[0] != args.out[0]) std::memcpy(args.out[0], args.in[0], bytes_);
    return Status::Ok();
  }
  const char* Name() const override { return "copy"; }

 private:
  size_t bytes_;
};

bool IsAlias(const Node& node) {
  const OpDef* def = FindOp(node.type);
  return def != nullptr && (def->flags & OpDef::kAlias) != 0;
}

constexpr int kNever = -1;

}  // namespace

// Decides which tensors share memory, then asks the planner for offsets. A tensor's root is the
// tensor whose memory it lives in; app tensors and static ones are always their own roots.
class Plan::Layout {
 public:
  Layout(const Ir& ir, const std::vector<KernelPtr>& kernels) : ir_(ir), kernels_(kernels) {
    Lifetimes();
    ShareAliases();
    ShareInPlace();
  }

  const Tensor* Root(const Tensor* tensor) const {
    auto found = root_.find(tensor);
    while (found != root_.end()) {
      tensor = found->second;
      found = root_.find(tensor);
    }
    return tensor;
  }

  Result<ArenaPlan> PlanMemory() {
    std::vector<ArenaItem> items;
    for (size_t s = 0; s < ir_.nodes.size(); ++s) {
      for (const Tensor* t : ir_.nodes[s].outputs) {
        if (t == nullptr || Root(t) != t || !InArena(t)) continue;
        item_[t] = items.size();
        const Life& life = life_[t];
        items.push_back(
            {static_cast<uint32_t>(life.first), static_cast<uint32_t>(life.last), t->bytes(), 64});
      }
      uint32_t step = static_cast<uint32_t>(s);
      scratch_.push_back(items.size());
      items.push_back({step, step, kernels_[s]->ScratchBytes(), 64});
    }
    return PlanArena(items);
  }

  bool InArena(const Tensor* root) const {
    return root->type == QNN_TENSOR_TYPE_NATIVE && !root->is_static();
  }
  size_t Item(const Tensor* root) const { return item_.at(root); }
  size_t ScratchItem(size_t step) const { return scratch_[step]; }

 private:
  struct Life {
    int first = kNever, last = kNever;
  };

  void Lifetimes() {
    for (size_t s = 0; s < ir_.nodes.size(); ++s) {
      int step = static_cast<int>(s);
      for (const Tensor* t : ir_.nodes[s].outputs) {
        if (t != nullptr) life_[t] = {step, step};
      }
      for (const Tensor* t : ir_.nodes[s].inputs) {
        if (t != nullptr) life_[t].last = step;
      }
    }
  }

  // `tensor` moves into `root`'s memory, which now has to last for both.
  void Share(const Tensor* tensor, const Tensor* root) {
    root_[tensor] = root;
    Life& life = life_[root];
    const Life& joined = life_[tensor];
    if (life.first == kNever || (joined.first != kNever && joined.first < life.first))
      life.first = joined.first;
    life.last = std::max(life.last, joined.last);
  }

  void ShareAliases() {
    // Backwards, so that a chain that ends in an app output is written there from its start.
    for (size_t s = ir_.nodes.size(); s-- > 0;) {
      const Node& node = ir_.nodes[s];
      if (!IsAlias(node)) continue;
      const Tensor *in = Root(node.inputs[0]), *out = Root(node.outputs[0]);
      if (in != out && InArena(in) && (out->is_output() || InArena(out))) Share(in, out);
    }
    for (const Node& node : ir_.nodes) {
      if (!IsAlias(node)) continue;
      const Tensor *in = Root(node.inputs[0]), *out = Root(node.outputs[0]);
      if (in != out && InArena(out) && (in->is_static() || in->is_input())) Share(out, in);
    }
  }

  void ShareInPlace() {
    for (size_t s = 0; s < ir_.nodes.size(); ++s) {
      const Node& node = ir_.nodes[s];
      const OpDef* def = FindOp(node.type);
      if (def == nullptr || (def->flags & OpDef::kInPlace) == 0 || node.outputs.size() != 1)
        continue;
      const Tensor* out = Root(node.outputs[0]);
      if (!InArena(out)) continue;
      for (const Tensor* t : node.inputs) {
        if (t == nullptr || t->bytes() != node.outputs[0]->bytes()) continue;
        const Tensor* in = Root(t);
        bool dies_here = life_[in].last == static_cast<int>(s);
        bool same_size = in->bytes() == out->bytes();
        if (in == out || !InArena(in) || !dies_here || !same_size || ReadByPostOp(node, in))
          continue;
        if (life_[out].first < static_cast<int>(s)) continue;  // its memory is in use already
        Share(out, in);
        break;
      }
    }
  }

  // Post ops read their operand after the node has written: it must still be what it was.
  bool ReadByPostOp(const Node& node, const Tensor* root) const {
    for (const PostOp& op : node.post_ops) {
      if (op.kind == PostOp::Kind::kAdd && Root(node.inputs[op.input]) == root) return true;
    }
    return false;
  }

  const Ir& ir_;
  const std::vector<KernelPtr>& kernels_;
  std::unordered_map<const Tensor*, const Tensor*> root_;
  std::unordered_map<const Tensor*, Life> life_;
  std::unordered_map<const Tensor*, size_t> item_;
  std::vector<size_t> scratch_;
};

Result<std::unique_ptr<Plan>> Plan::Make(Ir ir, const std::vector<const Tensor*>& inputs,
                                         const std::vector<const Tensor*>& outputs,
                                         const KernelOptions& options) {
  std::unique_ptr<Plan> plan(new Plan(std::move(ir), options.threads));
  QNNRT_RETURN_IF_ERROR(plan->MakeKernels(options));
  QNNRT_RETURN_IF_ERROR(plan->LayOut(inputs, outputs));
  plan->CountWeights();
  return plan;
}

Status Plan::MakeKernels(const KernelOptions& options) {
  for (const Node& node : ir_.nodes) {
    if (IsAlias(node)) {
      kernels_.push_back(std::make_unique<CopyKernel>(node.outputs[0]->bytes()));
      continue;
    }
    Result<KernelPtr> kernel = MakeKernel(node, options);
    if (!kernel.ok()) {
      return std::move(kernel).status().Within("node '" + node.name + "' (" + node.type + ")");
    }
    kernels_.push_back(std::move(kernel).value());
  }
  return Status::Ok();
}

Status Plan::LayOut(const std::vector<const Tensor*>& inputs,
                    const std::vector<const Tensor*>& outputs) {
  Layout layout(ir_, kernels_);
  QNNRT_ASSIGN_OR_RETURN(arena_plan_, layout.PlanMemory());
  arena_ = AlignedBytes::Make(arena_plan_.peak);
  if (arena_ == nullptr) {
    return Error(QNN_GRAPH_ERROR_MEM_ALLOC, "out of memory: the arena needs %" PRIu64 " bytes",
                 arena_plan_.peak);
  }
  char* base = static_cast<char*>(arena_->data());

  size_t count = 0;
  for (const Node& node : ir_.nodes) count += node.inputs.size() + node.outputs.size();
  pointers_.assign(count, nullptr);
  patches_.resize(inputs.size() + outputs.size());
  std::unordered_map<const Tensor*, size_t> app;
  for (size_t i = 0; i < inputs.size(); ++i) app[inputs[i]] = i;
  for (size_t i = 0; i < outputs.size(); ++i) app[outputs[i]] = inputs.size() + i;

  void** next = pointers_.data();
  auto place = [&](const Tensor* t) {
    void** slot = next++;
    if (t == nullptr) return;
    const Tensor* root = layout.Root(t);
    if (root->is_static()) {
      *slot = root->data->data();
    } else if (layout.InArena(root)) {
      *slot = base + arena_plan_.offsets[layout.Item(root)];
    } else {
      patches_[app.at(root)].push_back(slot);
    }
  };
  for (size_t s = 0; s < ir_.nodes.size(); ++s) {
    const Node& node = ir_.nodes[s];
    bool nothing_to_do =
        IsAlias(node) && layout.Root(node.inputs[0]) == layout.Root(node.outputs[0]);
    if (nothing_to_do) continue;
    void** in = next;
    for (const Tensor* t : node.inputs) place(t);
    void** out = next;
    for (const Tensor* t : node.outputs) place(t);
    void* scratch = base + arena_plan_.offsets[layout.ScratchItem(s)];
    steps_.push_back({kernels_[s].get(), in, out, scratch});
    step_nodes_.push_back(s);
  }
  return Status::Ok();
}

void Plan::CountWeights() {
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Node& n = node(s);
    weight_bytes_ += steps_[s].kernel->WeightBytes();
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == nullptr || !n.inputs[i]->is_static() || !steps_[s].kernel->ReadsInput(i))
        continue;
      if (kept_.insert(n.inputs[i]->data.get()).second) weight_bytes_ += n.inputs[i]->data->size();
    }
  }
  // What was folded into other tensors or packed by kernels is held by nobody else from here on.
  std::vector<std::unique_ptr<Tensor>>& owned = ir_.owned;
  for (auto& tensor : owned) {
    if (tensor->is_static() && !Reads(tensor->data.get())) tensor->data = nullptr;
  }
}

Status Plan::RunTimed(uint64_t* times) {
  uint64_t before = MonotonicNanoseconds();
  for (const Step& step : steps_) {
    Status status = step.kernel->Run({step.in, step.out, step.scratch, threads_});
    if (!status.ok()) return Failed(step, std::move(status));
    uint64_t now = MonotonicNanoseconds();
    *times++ = now - before;
    before = now;
  }
  return Status::Ok();
}

Status Plan::Failed(const Step& step, Status status) const {
  const Node& n = node(static_cast<size_t>(&step - steps_.data()));
  return std::move(status).Within("node '" + n.name + "' (" + n.type + ")");
}

std::string Plan::Describe(const std::vector<PassReport>& passes) const {
  JsonWriter json;
  json.Object();
  json.Key("passes").Array();
  for (const PassReport& pass : passes) {
    json.Object().Key("name").String(pass.name).Key("changes").Number(pass.changes).End();
  }
  json.End();
  json.Key("arena").Object();
  json.Key("peak").Number(arena_plan_.peak).Key("lower_bound").Number(arena_plan_.lower_bound);
  json.Key("sum").Number(arena_plan_.sum).Key("order").String(arena_plan_.order).End();
  json.Key("weight_bytes").Number(weight_bytes_);
  json.Key("threads").Number(threads_.limit());
  json.Key("steps").Array();
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Node& n = node(s);
    json.Object().Key("name").String(n.name).Key("op").String(n.type);
    json.Key("kernel").String(steps_[s].kernel->Name());
    json.Key("fused").Array();
    for (const PostOp& op : n.post_ops) json.String(PostOpName(op));
    json.End();
    json.Key("inputs").Array();
    for (const Tensor* t : n.inputs) json.String(t == nullptr ? "" : t->name);
    json.End().Key("outputs").Array();
    for (const Tensor* t : n.outputs) json.String(t == nullptr ? "" : t->name);
    json.End().End();
  }
  json.End().End();
  return json.Take();
}

}  // namespace qnnrt
