// A small TFLite runtime that drives a delegate as the real one does: prepares every node before
// the delegate is asked, forms partitions of neighbours, makes and frees kernels, undoes and redoes
// the delegation when an input is resized, keeps custom allocations. Elementwise nodes of floats
// alone.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tflite/delegate/runtime.h"

namespace fake {

enum Op { kAdd = 0, kMul = 18, kRelu = 19, kCustom = 32, kDelegate = 51 };

inline TfLiteIntArray* MakeArray(const std::vector<int>& values) {
  auto* a = static_cast<TfLiteIntArray*>(std::malloc(sizeof(int) * (values.size() + 1)));
  a->size = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), a->data);
  return a;
}

inline std::vector<int> Values(const TfLiteIntArray* a) { return {a->data, a->data + a->size}; }

class Interpreter {
 public:
  Interpreter() {
    context_.GetExecutionPlan = GetPlan;
    context_.GetNodeAndRegistration = GetNode;
    context_.ReplaceNodeSubsetsWithDelegateKernels = Replace;
    context_.PreviewDelegatePartitioning = Preview;
    context_.ReportError = ReportError;
    context_.impl_ = this;
    context_.recommended_num_threads = 1;
  }
  Interpreter(const Interpreter&) = delete;

  ~Interpreter() {
    Undo();
    for (TfLiteTensor& t : tensors_) std::free(t.dims);
    for (auto& n : nodes_) Release(n.get());
    ClearPreview();
  }

  // ---- The model ----

  int Tensor(const std::vector<int>& dims, const std::vector<float>* constant = nullptr,
             TfLiteType type = kTfLiteFloat32) {
    TfLiteTensor t{};
    t.type = type;
    t.dims = MakeArray(dims);
    t.allocation_type = constant == nullptr ? kTfLiteArenaRw : kTfLiteMmapRo;
    t.buffer_handle = kTfLiteNullBufferHandle;
    t.bytes = Bytes(t);
    names_.push_back(std::make_unique<std::string>("t" + std::to_string(tensors_.size())));
    t.name = names_.back()->c_str();
    if (constant != nullptr) {
      constants_.push_back(std::make_unique<std::vector<float>>(*constant));
      t.data = constants_.back()->data();
    }
    tensors_.push_back(t);
    context_.tensors = tensors_.data();
    context_.tensors_size = tensors_.size();
    return static_cast<int>(tensors_.size()) - 1;
  }

  int Node(int32_t op, const std::vector<int>& inputs, const std::vector<int>& outputs) {
    auto n = std::make_unique<Held>();
    n->node.inputs = MakeArray(inputs);
    n->node.outputs = MakeArray(outputs);
    n->node.intermediates = MakeArray({});
    n->node.temporaries = MakeArray({});
    n->node.builtin_data = &n->params;
    n->registration.builtin_code = op;
    if (op == kCustom) n->registration.custom_name = "MyOp";
    nodes_.push_back(std::move(n));
    plan_.push_back(static_cast<int>(nodes_.size()) - 1);
    return plan_.back();
  }

  // ---- What an application calls ----

  TfLiteStatus SetCustomAllocationForTensor(int index, const TfLiteCustomAllocation& allocation) {
    TfLiteTensor& t = tensors_[index];
    if (reinterpret_cast<uintptr_t>(allocation.data) % kTfLiteDefaultTensorAlignment != 0)
      return Fail("not aligned");
    if (t.allocation_type != kTfLiteArenaRw && t.allocation_type != kTfLiteCustom)
      return Fail("not a tensor of the arena");
    custom_[index] = allocation;
    t.allocation_type = kTfLiteCustom;
    t.data = allocation.data;
    return kTfLiteOk;
  }

  TfLiteStatus AllocateTensors() {
    for (const auto& [index, allocation] : custom_) {
      if (allocation.bytes < tensors_[index].bytes) return Fail("custom allocation too small");
    }
    for (int index : plan_) {
      Held& n = *nodes_[index];
      if (n.registration.prepare != nullptr &&
          n.registration.prepare(&context_, &n.node) != kTfLiteOk)
        return Fail("Node number " + std::to_string(index) + " failed to prepare.");
      // As the real one: with one custom allocation, all of outputs have to be known.
      for (int o : Values(n.node.outputs)) {
        if (!custom_.empty() && tensors_[o].allocation_type == kTfLiteCustom &&
            custom_.count(o) == 0)
          return Fail("a custom tensor without an allocation");
      }
    }
    arena_.clear();
    for (int index : plan_) {
      for (const TfLiteIntArray* list : {nodes_[index]->node.inputs, nodes_[index]->node.outputs}) {
        for (int i : Values(list)) {
          TfLiteTensor& t = tensors_[i];
          if (t.allocation_type != kTfLiteArenaRw || arena_.count(i) != 0) continue;
          arena_[i].reset(static_cast<char*>(std::aligned_alloc(64, (t.bytes + 63) / 64 * 64)));
          t.data = arena_[i].get();
        }
      }
    }
    return kTfLiteOk;
  }

  TfLiteStatus ModifyGraphWithDelegate(TfLiteDelegate* delegate) {
    try {
      undone_ = plan_;
      delegate_ = delegate;
      if (delegate->Prepare(&context_, delegate) == kTfLiteOk) return AllocateTensors();
    } catch (const std::bad_alloc&) {  // of this class: tests make allocations fail
    }
    Undo();
    return kTfLiteError;
  }

  // Every tensor that is no constant has this first dimension from now on.
  TfLiteStatus Resize(int first) {
    TfLiteDelegate* delegate = delegate_;
    Undo();
    for (TfLiteTensor& t : tensors_) {
      if (t.allocation_type == kTfLiteMmapRo) continue;
      t.dims->data[0] = first;
      t.bytes = Bytes(t);
      if (t.allocation_type == kTfLiteArenaRw) t.data = nullptr;
    }
    return delegate == nullptr ? AllocateTensors() : ModifyGraphWithDelegate(delegate);
  }

  TfLiteStatus Invoke() {
    for (int index : plan_) {
      Held& n = *nodes_[index];
      if (n.registration.invoke != nullptr) {
        if (n.registration.invoke(&context_, &n.node) != kTfLiteOk)
          return Fail("Node number " + std::to_string(index) + " failed to invoke.");
      } else {
        Run(n);
      }
    }
    return kTfLiteOk;
  }

  float* data(int index) { return static_cast<float*>(tensors_[index].data); }
  TfLiteTensor& tensor(int index) { return tensors_[index]; }
  TfLiteContext* context() { return &context_; }
  size_t nodes_in_plan() const { return plan_.size(); }
  const std::string& errors() const { return errors_; }

  bool chatty = false;   // lines as the real one logs them
  int fail_replace = 0;  // the delegate's call into the runtime fails

 private:
  struct FreeMemory {
    void operator()(char* p) const { std::free(p); }
  };
  struct Held {
    TfLiteNode node{};
    TfLiteRegistration registration{};
    int params[10] = {0};  // no fused activation
  };

  static Interpreter* Of(TfLiteContext* c) { return static_cast<Interpreter*>(c->impl_); }

  static size_t Bytes(const TfLiteTensor& t) {
    size_t bytes = 4;
    for (int i = 0; i < t.dims->size; ++i) bytes *= static_cast<size_t>(t.dims->data[i]);
    return bytes;
  }

  TfLiteStatus Fail(const std::string& text) {
    errors_ += text + "\n";
    return kTfLiteError;
  }

  static void ReportError(TfLiteContext* c, const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    Of(c)->Fail(text);
  }

  static TfLiteStatus GetPlan(TfLiteContext* c, TfLiteIntArray** plan) {
    Interpreter* self = Of(c);
    self->plan_array_.reset(reinterpret_cast<char*>(MakeArray(self->plan_)));
    *plan = reinterpret_cast<TfLiteIntArray*>(self->plan_array_.get());
    return kTfLiteOk;
  }

  static TfLiteStatus GetNode(TfLiteContext* c, int index, TfLiteNode** node,
                              TfLiteRegistration** registration) {
    Interpreter* self = Of(c);
    if (index < 0 || static_cast<size_t>(index) >= self->nodes_.size()) return kTfLiteError;
    *node = &self->nodes_[index]->node;
    *registration = &self->nodes_[index]->registration;
    return kTfLiteOk;
  }

  // Neighbours in the plan.
  std::vector<std::vector<int>> Partitions(const TfLiteIntArray* nodes) const {
    const std::vector<int> wanted = Values(nodes);
    const std::set<int> taken(wanted.begin(), wanted.end());
    std::vector<std::vector<int>> found;
    bool open = false;
    for (int index : plan_) {
      if (taken.count(index) == 0) {
        open = false;
        continue;
      }
      if (!open) found.emplace_back();
      found.back().push_back(index);
      open = true;
    }
    return found;
  }

  // Inputs and outputs of a partition; constants count as inputs, as in the real one.
  TfLiteDelegateParams Params(const std::vector<int>& part, TfLiteDelegate* delegate) const {
    std::set<int> made, read, inside(part.begin(), part.end());
    for (int index : part) {
      for (int i : Values(nodes_[index]->node.outputs)) made.insert(i);
      for (int i : Values(nodes_[index]->node.inputs)) read.insert(i);
    }
    std::vector<int> inputs, outputs;
    for (int i : read) {
      if (made.count(i) == 0) inputs.push_back(i);
    }
    for (int i : made) {
      bool used = false, elsewhere = false;
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n]->node.inputs == nullptr) continue;  // being made
        for (int r : Values(nodes_[n]->node.inputs)) {
          used = used || r == i;
          elsewhere = elsewhere || (r == i && inside.count(static_cast<int>(n)) == 0 &&
                                    nodes_[n]->registration.builtin_code != kDelegate);
        }
      }
      if (!used || elsewhere) outputs.push_back(i);
    }
    return {delegate, MakeArray(part), MakeArray(inputs), MakeArray(outputs)};
  }

  static TfLiteStatus Preview(TfLiteContext* c, const TfLiteIntArray* nodes,
                              TfLiteDelegateParams** partitions, int* count) {
    Interpreter* self = Of(c);
    self->ClearPreview();
    const auto parts = self->Partitions(nodes);
    self->preview_.reserve(parts.size());  // Params gives arrays that nobody else would free
    for (const auto& part : parts) self->preview_.push_back(self->Params(part, nullptr));
    *partitions = self->preview_.data();
    *count = static_cast<int>(self->preview_.size());
    return kTfLiteOk;
  }

  static void FreeParams(const TfLiteDelegateParams& p) {
    std::free(p.nodes_to_replace);
    std::free(p.input_tensors);
    std::free(p.output_tensors);
  }

  void ClearPreview() {
    for (const TfLiteDelegateParams& p : preview_) FreeParams(p);
    preview_.clear();
  }

  static TfLiteStatus Replace(TfLiteContext* c, TfLiteRegistration registration,
                              const TfLiteIntArray* nodes, TfLiteDelegate* delegate) {
    try {
      return Of(c)->ReplaceNodes(registration, nodes, delegate);
    } catch (const std::bad_alloc&) {
      return kTfLiteError;
    }
  }

  TfLiteStatus ReplaceNodes(const TfLiteRegistration& registration, const TfLiteIntArray* nodes,
                            TfLiteDelegate* delegate) {
    if (fail_replace != 0) return kTfLiteError;
    const auto parts = Partitions(nodes);
    if (chatty)
      std::fprintf(stderr,
                   "INFO: Replacing %d node(s) with delegate (%s) node, yielding %zu partitions.\n",
                   nodes->size, registration.custom_name, parts.size());
    std::vector<int> plan;
    for (int index : plan_) {
      const std::vector<int>* part = nullptr;
      bool first = false;
      for (const auto& p : parts) {
        for (int n : p) {
          if (n == index) part = &p, first = p[0] == index;
        }
      }
      if (part == nullptr) plan.push_back(index);
      if (!first) continue;
      auto made = std::make_unique<Held>();
      made->registration = registration;  // Undo knows it by that
      Held* held = made.get();
      nodes_.push_back(std::move(made));
      plan.push_back(static_cast<int>(nodes_.size()) - 1);
      const TfLiteDelegateParams params = Params(*part, delegate);
      held->node.inputs = params.input_tensors;
      held->node.outputs = params.output_tensors;
      held->node.intermediates = MakeArray({});
      held->node.temporaries = MakeArray({});
      held->node.delegate = delegate;
      held->node.user_data =
          registration.init(&context_, reinterpret_cast<const char*>(&params), 0);
      std::free(params.nodes_to_replace);
      const bool failed = held->node.user_data == reinterpret_cast<void*>(~uintptr_t{0});
      if (failed) {
        plan_ = plan;
        Fail("Failed to initialize kernel.");
        return kTfLiteDelegateError;
      }
    }
    plan_ = plan;
    return kTfLiteOk;
  }

  void Release(Held* n) {
    std::free(n->node.inputs);
    std::free(n->node.outputs);
    std::free(n->node.intermediates);
    std::free(n->node.temporaries);
  }

  // The plan as it was, without kernels.
  void Undo() {
    while (!nodes_.empty() && nodes_.back()->registration.builtin_code == kDelegate) {
      Held& n = *nodes_.back();
      if (n.registration.free != nullptr && n.node.user_data != nullptr)
        n.registration.free(&context_, n.node.user_data);
      Release(&n);
      nodes_.pop_back();
    }
    if (!undone_.empty()) plan_.swap(undone_);
    undone_.clear();
    delegate_ = nullptr;
  }

  void Run(const Held& n) {
    const TfLiteTensor& to = tensors_[n.node.outputs->data[0]];
    const float* a = data(n.node.inputs->data[0]);
    const float* b = n.node.inputs->size > 1 ? data(n.node.inputs->data[1]) : nullptr;
    auto* out = static_cast<float*>(to.data);
    const size_t inner = static_cast<size_t>(to.dims->data[to.dims->size - 1]);
    for (size_t i = 0; i < to.bytes / 4; ++i) {
      const float by = b == nullptr ? 0 : b[i % inner];
      switch (n.registration.builtin_code) {
        case kAdd:
          out[i] = a[i] + by;
          break;
        case kMul:
          out[i] = a[i] * by;
          break;
        case kRelu:
          out[i] = a[i] > 0 ? a[i] : 0;
          break;
        default:  // MyOp
          out[i] = a[i] + 1;
      }
    }
  }

  TfLiteContext context_{};
  std::vector<TfLiteTensor> tensors_;
  std::vector<std::unique_ptr<Held>> nodes_;
  std::vector<int> plan_, undone_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<std::unique_ptr<std::vector<float>>> constants_;
  std::map<int, std::unique_ptr<char, FreeMemory>> arena_;
  std::map<int, TfLiteCustomAllocation> custom_;
  std::unique_ptr<char, FreeMemory> plan_array_;
  std::vector<TfLiteDelegateParams> preview_;
  TfLiteDelegate* delegate_ = nullptr;
  std::string errors_;
};

}  // namespace fake
