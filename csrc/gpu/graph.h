// Graphs of libQnnGpu.so and the OpenCL context that each QNN context's graphs and memory are in.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/qnnrt_ext.h"
#include "gpu/compiler.h"
#include "gpu/executable.h"
#include "support/fork.h"

namespace qnnrt::gpu {

// A finalized graph: what it compiled to, and its instance in the cl_context of the time.
// Executions keep the instance that they were bound to.
class Graph {
 public:
  Graph(std::shared_ptr<const Compiled> compiled, uint64_t qnn_context, uint32_t flags)
      : compiled_(std::move(compiled)), qnn_context_(qnn_context), flags_(flags) {}

  // Errors: those of Instance::Make.
  Result<std::shared_ptr<Instance>> MakeIn(std::shared_ptr<ClContext> context) const;
  void Use(std::shared_ptr<Instance> instance);
  // The next execution sets the arguments of this cl_mem anew.
  void Forget(void* mem);
  const Compiled& compiled() const { return *compiled_; }
  std::shared_ptr<Instance> instance();

  // What the runtime's graph is given. The object has to stay as long.
  Qnnrt_Executor_t ExecutorFrom(uint64_t started);

 private:
  struct Bound {
    std::shared_ptr<Instance> instance;
    opencl::Binding* binding = nullptr;
  };
  Bound* NewBound();
  void FreeBound(Bound* bound);
  static uint64_t Bind(void* self, const Qnnrt_Tensors_t* tensors, void** binding,
                       Qnnrt_ExecutorText_t* why);
  static uint64_t Run(void* self, void* binding, const Qnnrt_ExecutorRun_t* run,
                      Qnnrt_ExecutorText_t* why);
  static void Release(void* self, void* binding);

  const std::shared_ptr<const Compiled> compiled_;
  const uint64_t qnn_context_;
  const uint32_t flags_;
  const uint32_t forks_ = ForkGeneration();
  std::mutex mutex_;
  std::shared_ptr<Instance> instance_;
  std::vector<std::unique_ptr<Bound>> bounds_;
  std::vector<Bound*> free_;  // with room for all of them
};

// The cl_context of our own on a device, shared by all who use it. Errors: those of
// ClContext::Make.
Result<std::shared_ptr<ClContext>> OwnContext(const OpenCl& cl, const Device& device);

// Of one QNN context.
class Context {
 public:
  explicit Context(uint64_t id) : id_(id) {}
  ~Context();

  // Registers all of them or none. Errors: 8000, 8002, 8005, 1002.
  Status Register(const Qnn_MemDescriptor_t* descriptors, uint32_t count, Qnn_MemHandle_t* handles);
  // False: the handle is none of this context's. Waits for executions that use it.
  bool Deregister(Qnn_MemHandle_t handle);

  // Compiles a graph and makes it ready; it is kept until the context ends. `log` as Compile's.
  // Errors: of Compile, Instance::Make.
  Result<Graph*> Prepare(const CompileRequest& request, uint32_t flags, const LogLine& log);
  // The same of a graph that is compiled already.
  Result<Graph*> Add(const std::string& name, std::shared_ptr<const Compiled> compiled,
                     uint32_t flags);
  // Null: none of this name is ready.
  Graph* Find(const std::string& name);
  // The device whose kernels graphs are compiled for now. Errors: 1010.
  Result<Device> DeviceNow();

 private:
  struct Held {
    void* mem;
    std::string text;  // "FLOAT_32[2, 3]"
  };
  Result<std::shared_ptr<ClContext>> ContextNow();
  Result<Qnnrt_OpenClMemory_t> Check(const OpenCl& cl, const Qnn_MemDescriptor_t& descriptor,
                                     void** cl_context);
  Status Adopt(const OpenCl& cl, void* cl_context);
  void Drop(Qnn_MemHandle_t handle, const Held& held);

  const uint64_t id_;  // the runtime's
  std::mutex mutex_;
  std::shared_ptr<ClContext> context_;  // null until something needs it
  bool clients_ = false;                // it is a client's
  std::map<Qnn_MemHandle_t, Held> held_;
  std::map<std::string, std::unique_ptr<Graph>> graphs_;
};

// Of this library, by the runtime's numbers.
class Contexts {
 public:
  static Contexts& Get();
  std::shared_ptr<Context> Of(uint64_t id);
  void Drop(uint64_t id);
  std::vector<std::shared_ptr<Context>> All();

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Context>> all_;
};

}  // namespace qnnrt::gpu
