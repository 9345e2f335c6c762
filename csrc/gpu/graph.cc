#include "gpu/graph.h"

#include <algorithm>
#include <cstdio>

#include "abi/qnn_errors.h"
#include "abi/qnn_gpu.h"
#include "gpu/probe.h"
#include "ir/types.h"
#include "opencl/error.h"
#include "opencl/memory.h"
#include "support/checked.h"
#include "support/fork.h"
#include "support/guard.h"

namespace qnnrt::gpu {
namespace {

using opencl::DriverError;
using opencl::MemoryTable;

constexpr uint32_t kMemType = 0x1100, kMemFlags = 0x1101, kMemSize = 0x1102, kMemHostPtr = 0x1103,
                   kMemContext = 0x1106;  // CL_MEM_*
constexpr uint32_t kBufferType = 0x10F0;  // CL_MEM_OBJECT_BUFFER
constexpr uint32_t kMaxRank = 16;

uint64_t CodeOf(const Status& status, Qnnrt_ExecutorText_t* why) {
  if (why != nullptr && !status.ok())
    std::snprintf(why->text, sizeof why->text, "%s", status.message().c_str());
  return status.code();
}

}  // namespace

// ---- graphs

Result<std::shared_ptr<Instance>> Graph::MakeIn(std::shared_ptr<ClContext> context) const {
  QNNRT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> made,
                         Instance::Make(compiled_->executable, compiled_->regions,
                                        std::move(context), qnn_context_, flags_));
  return std::shared_ptr<Instance>(std::move(made));
}

void Graph::Use(std::shared_ptr<Instance> instance) {
  std::lock_guard<std::mutex> lock(mutex_);
  instance_.swap(instance);
}

std::shared_ptr<Instance> Graph::instance() {
  std::lock_guard<std::mutex> lock(mutex_);
  return instance_;
}

void Graph::Forget(void* mem) { instance()->list().Unbind(mem); }

Graph::Bound* Graph::NewBound() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) {
    free_.reserve(bounds_.size() + 1);
    bounds_.push_back(std::make_unique<Bound>());
    free_.push_back(bounds_.back().get());
  }
  Bound* bound = free_.back();
  free_.pop_back();
  bound->instance = instance_;
  return bound;
}

void Graph::FreeBound(Bound* bound) {
  const std::shared_ptr<Instance> last = std::move(bound->instance);  // ends without the lock
  bound->binding = nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(bound);
}

uint64_t Graph::Bind(void* self, const Qnnrt_Tensors_t* tensors, void** binding,
                     Qnnrt_ExecutorText_t* why) {
  auto* graph = static_cast<Graph*>(self);
  const auto code = [why](const Status& status) { return CodeOf(status, why); };
  return Contained(
      [&]() -> uint64_t {
        if (graph->forks_ != ForkGeneration()) return code(InForkedChild());
        Bound* bound = graph->NewBound();
        Result<opencl::Binding*> made = bound->instance->list().Bind(*tensors);
        if (!made.ok()) {
          graph->FreeBound(bound);
          return code(made.status());
        }
        bound->binding = *made;
        *binding = bound;
        return QNN_SUCCESS;
      },
      code);
}

uint64_t Graph::Run(void*, void* binding, const Qnnrt_ExecutorRun_t* run,
                    Qnnrt_ExecutorText_t* why) {
  auto* bound = static_cast<Bound*>(binding);
  const auto code = [why](const Status& status) { return CodeOf(status, why); };
  return Contained([&] { return code(bound->instance->list().Run(bound->binding, *run)); }, code);
}

void Graph::Release(void* self, void* binding) {
  auto* bound = static_cast<Bound*>(binding);
  Contained([&] {
    bound->instance->list().Release(bound->binding);
    static_cast<Graph*>(self)->FreeBound(bound);
  });
}

Qnnrt_Executor_t Graph::ExecutorFrom(uint64_t started) {
  return {this, started, Bind, Run, Release};
}

// ---- contexts

Result<std::shared_ptr<ClContext>> OwnContext(const OpenCl& cl, const Device& device) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<void*, std::weak_ptr<ClContext>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::weak_ptr<ClContext>& one = (*known)[device.raw];
  if (std::shared_ptr<ClContext> there = one.lock()) return there;
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<ClContext> made, ClContext::Make(cl, device));
  one = made;
  return made;
}

Context::~Context() {
  for (const auto& [handle, held] : held_) Drop(handle, held);
}

Result<std::shared_ptr<ClContext>> Context::ContextNow() {
  if (context_ == nullptr) {
    QNNRT_ASSIGN_OR_RETURN(const OpenCl* cl, OpenCl::Get());
    QNNRT_ASSIGN_OR_RETURN(const Device device, Choose(*cl));
    QNNRT_ASSIGN_OR_RETURN(context_, OwnContext(*cl, device));
  }
  return context_;
}

Result<Device> Context::DeviceNow() {
  std::lock_guard<std::mutex> lock(mutex_);
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<ClContext> context, ContextNow());
  return context->device();
}

Result<Graph*> Context::Prepare(const CompileRequest& request, uint32_t flags, const LogLine& log) {
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<Compiled> compiled, Compile(request, log));
  return Add(request.name, std::move(compiled), flags);
}

Result<Graph*> Context::Add(const std::string& name, std::shared_ptr<const Compiled> compiled,
                            uint32_t flags) {
  auto graph = std::make_unique<Graph>(std::move(compiled), id_, flags);
  // The context may have become a client's while the graph was compiled.
  std::lock_guard<std::mutex> lock(mutex_);
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<ClContext> context, ContextNow());
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<Instance> instance, graph->MakeIn(context));
  graph->Use(std::move(instance));
  std::unique_ptr<Graph>& kept = graphs_[name];
  kept = std::move(graph);
  return kept.get();
}

Graph* Context::Find(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = graphs_.find(name);
  return found == graphs_.end() ? nullptr : found->second.get();
}

// Graphs move to the cl_context of the memory that they are to use.
Status Context::Adopt(const OpenCl& cl, void* raw) {
  if (context_ != nullptr && context_->raw() == raw) return Status::Ok();
  if (clients_ && !held_.empty()) {
    return Status(QNN_MEM_ERROR_INVALID_ARGUMENT,
                  "the OpenCL buffer belongs to another OpenCL context than the memory that is "
                  "registered already: a graph runs in one, so deregister that first, or use a QNN "
                  "context for each");
  }
  QNNRT_ASSIGN_OR_RETURN(const Device preferred,
                         context_ != nullptr ? Result<Device>(context_->device()) : Choose(cl));
  QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<ClContext> adopted, ClContext::Of(cl, raw, preferred));
  std::vector<std::pair<Graph*, std::shared_ptr<Instance>>> moved;
  for (const auto& [handle, graph] : graphs_) {
    QNNRT_ASSIGN_OR_RETURN(std::shared_ptr<Instance> instance, graph->MakeIn(adopted));
    moved.emplace_back(graph.get(), std::move(instance));
  }
  for (auto& [graph, instance] : moved) graph->Use(std::move(instance));
  context_ = std::move(adopted);
  clients_ = true;
  return Status::Ok();
}

Result<Qnnrt_OpenClMemory_t> Context::Check(const OpenCl& cl, const Qnn_MemDescriptor_t& d,
                                            void** cl_context) {
  const auto refuse = [](uint32_t code, const std::string& text) { return Status(code, text); };
  if (d.memType != QNN_MEM_TYPE_CUSTOM) {
    return refuse(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                  "the gpu backend takes OpenCL buffers alone: memType CUSTOM with "
                  "QNN_GPU_MEM_OPENCL");
  }
  if (d.customInfo == nullptr) {
    return refuse(QNN_MEM_ERROR_INVALID_ARGUMENT,
                  "memType CUSTOM: expected customInfo to point at a QnnGpu_MemInfoCustom_t, got "
                  "null");
  }
  const auto& custom = *static_cast<const QnnGpu_MemInfoCustom_t*>(d.customInfo);
  if (custom.memType != QNN_GPU_MEM_OPENCL) {
    return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                 "GPU memory type %d: expected QNN_GPU_MEM_OPENCL (0)",
                 static_cast<int>(custom.memType));
  }
  void* mem = custom.buffer;
  if (mem == nullptr)
    return refuse(QNN_MEM_ERROR_INVALID_ARGUMENT, "the descriptor names no OpenCL buffer");
  if (!LooksLikeObject(mem)) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "%p is no cl_mem: buffer is the handle that clCreateBuffer gives, not the address "
                 "of the bytes",
                 mem);
  }
  for (const auto& [handle, held] : held_) {
    if (held.mem != mem) continue;
    return Error(QNN_MEM_ERROR_ALREADY_REGISTERED,
                 "the OpenCL buffer %p is registered already, for %s: deregister it for another "
                 "shape or type",
                 mem, held.text.c_str());
  }
  uint32_t type = 0;
  uint64_t flags = 0;
  size_t size = 0;
  void* host = nullptr;
  const auto ask = [&](uint32_t what, auto* value) {
    return cl.getMemObjectInfo(mem, what, sizeof *value, value, nullptr);
  };
  int32_t code = ask(kMemType, &type);
  if (code == 0) code = ask(kMemFlags, &flags);
  if (code == 0) code = ask(kMemSize, &size);
  if (code == 0) code = ask(kMemHostPtr, &host);
  if (code == 0) code = ask(kMemContext, cl_context);
  if (code != 0) {
    return DriverError(code, "the driver does not know this cl_mem")
        .WithCode(QNN_MEM_ERROR_INVALID_ARGUMENT);
  }
  if (type != kBufferType) {
    return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                 "%p is an OpenCL memory object of type 0x%x, not a buffer: copy it into one "
                 "(clEnqueueCopyImageToBuffer for images) and register that",
                 mem, type);
  }
  const uint32_t rank = d.memShape.numDim;
  if (rank > kMaxRank || (rank != 0 && d.memShape.dimSize == nullptr)) {
    return Error(QNN_MEM_ERROR_INVALID_SHAPE, "memShape has %u dimensions%s", rank,
                 rank > kMaxRank ? "" : " and no dimSize");
  }
  const Shape shape(d.memShape.dimSize, d.memShape.dimSize + rank);
  const uint64_t each = ElementSize(d.dataType);
  uint64_t elements = 0, nbytes = 0;
  if (each == 0 || !ElementCount(shape, &elements) || !CheckedMul(elements, each, &nbytes)) {
    return Error(QNN_MEM_ERROR_INVALID_SHAPE, "shape %s of %s has no size",
                 ShapeText(shape).c_str(), DataTypeName(d.dataType));
  }
  if (size < nbytes) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "shape %s needs %llu bytes, the OpenCL buffer has %zu", ShapeText(shape).c_str(),
                 static_cast<unsigned long long>(nbytes), size);
  }
  if (context_ != nullptr && context_->device().cpu && (flags & kUseHostPtr) != 0 &&
      reinterpret_cast<uintptr_t>(host) % kLine != 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "the OpenCL buffer lies on the host's memory at %p: kernels of a CPU need a "
                 "multiple of %u; make the buffer on aligned memory, or without USE_HOST_PTR",
                 host, static_cast<unsigned>(kLine));
  }
  Qnnrt_OpenClMemory_t memory = {};
  memory.mem = mem;
  memory.context = reinterpret_cast<Qnn_ContextHandle_t>(uintptr_t{id_});
  memory.nbytes = nbytes;
  memory.flags = flags;
  memory.data_type = static_cast<uint32_t>(d.dataType);
  memory.rank = rank;
  memory.dims = d.memShape.dimSize;
  return memory;
}

void Context::Drop(Qnn_MemHandle_t handle, const Held& held) {
  (void)MemoryTable::Get().Deregister(handle, true);
  for (const auto& [name, graph] : graphs_) graph->Forget(held.mem);
  Result<const OpenCl*> cl = OpenCl::Get();
  if (cl.ok()) (*cl)->releaseMemObject(held.mem);
}

Status Context::Register(const Qnn_MemDescriptor_t* descriptors, uint32_t count,
                         Qnn_MemHandle_t* handles) {
  QNNRT_ASSIGN_OR_RETURN(const OpenCl* cl, OpenCl::Get());
  std::lock_guard<std::mutex> lock(mutex_);
  const auto one = [&](const Qnn_MemDescriptor_t& d) -> Result<Qnn_MemHandle_t> {
    void* raw = nullptr;
    QNNRT_ASSIGN_OR_RETURN(const Qnnrt_OpenClMemory_t memory, Check(*cl, d, &raw));
    Status adopted = Adopt(*cl, raw);
    if (!adopted.ok()) {
      if (adopted.code() == QNN_COMMON_ERROR_GENERAL)
        return std::move(adopted).WithCode(QNN_MEM_ERROR_INVALID_ARGUMENT);
      return adopted;
    }
    QNNRT_ASSIGN_OR_RETURN(Qnn_MemHandle_t handle, MemoryTable::Get().Register(memory));
    const Shape shape(memory.dims, memory.dims + memory.rank);
    held_[handle] = {memory.mem, DataTypeName(d.dataType) + ShapeText(shape)};
    cl->retainMemObject(memory.mem);
    return handle;
  };
  for (uint32_t i = 0; i < count; ++i) {
    Result<Qnn_MemHandle_t> made = one(descriptors[i]);
    if (made.ok()) {
      handles[i] = *made;
      continue;
    }
    while (i-- > 0) {
      Drop(handles[i], held_[handles[i]]);
      held_.erase(handles[i]);
      handles[i] = nullptr;
    }
    return std::move(made).status();
  }
  return Status::Ok();
}

bool Context::Deregister(Qnn_MemHandle_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = held_.find(handle);
  if (found == held_.end()) return false;
  Drop(handle, found->second);
  held_.erase(found);
  return true;
}

Contexts& Contexts::Get() {
  static auto* contexts = new Contexts;
  return *contexts;
}

std::shared_ptr<Context> Contexts::Of(uint64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Context>& one = all_[id];
  if (one == nullptr) one = std::make_shared<Context>(id);
  return one;
}

void Contexts::Drop(uint64_t id) {
  std::shared_ptr<Context> last;  // ends without the lock
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end()) return;
  last = std::move(found->second);
  all_.erase(found);
}

std::vector<std::shared_ptr<Context>> Contexts::All() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Context>> all;
  for (const auto& [id, one] : all_) all.push_back(one);
  return all;
}

}  // namespace qnnrt::gpu
