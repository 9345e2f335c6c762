// A compiled graph as a list of OpenCL commands, and its executions: kernels with their arguments
// set are enqueued in order and waited for once. A run that succeeds allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/qnnrt_opencl.h"
#include "opencl/arena_pool.h"
#include "opencl/commands.h"
#include "opencl/memory.h"
#include "opencl/recordings.h"
#include "support/fork.h"
#include "support/status.h"

namespace qnnrt::opencl {

// What one execution was given, checked and pinned: inputs, then outputs.
struct Binding {
  struct Entry {
    bool given = false;
    bool on_device = false;                // has been given to the device
    Registration* registration = nullptr;  // null: RAW
    Qnn_MemHandle_t handle = nullptr;
    void* data = nullptr;
  };
  std::vector<Entry> entries;
};

class CommandList {
 public:
  // Errors: 1004 a patch or place of what the list does not have, 1002 no memory for arenas.
  static Result<std::unique_ptr<CommandList>> Make(const Qnnrt_OpenClListInfo_t& info);
  ~CommandList();
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;
  static uint32_t live() { return live_.load(std::memory_order_relaxed); }

  // Before the first execution: whose memory handles it takes.
  void set_context(uint64_t context) { context_ = context; }

  // Checks and pins what an execution is given. Any thread, several at once. Errors: 6004 with the
  // tensor's name, 1005 memory that the client has mapped.
  Result<Binding*> Bind(const Qnnrt_Tensors_t& given);
  // One execution at a time. Errors: 1002 and 1100 with what the driver refused, 6004 an index that
  // has no element, 6031 stopped.
  Status Run(Binding* binding, const Qnnrt_ExecutorRun_t& options);
  void Release(Binding* binding);

  // The next execution sets the arguments of this cl_mem anew.
  void Unbind(const void* mem);
  // Beside a running execution, too.
  void Counts(Qnnrt_OpenClCounts_t* counts, uint64_t* copied) const;
  void Reset();

 private:
  // Written by the execution that runs, read by anybody.
  class Counter {
   public:
    void operator+=(uint64_t n) { Set(value_.load(std::memory_order_relaxed) + n); }
    void Set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
    operator uint64_t() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<uint64_t> value_{0};
  };
  struct Step {
    Qnnrt_OpenClStep_t info;  // without the strings and memories, which are those below
    std::string node, name;
    std::vector<void*> memories;

    std::string Text(uint32_t at) const;  // "step 3, node 'conv1', kernel conv_2: "
  };
  struct Io : IoTensor {
    struct Patch {
      uint32_t step, index;
    };
    std::vector<Patch> patches;
    uint32_t args_before = 0;  // QNNRT_OPENCL_ARGS_BEFORE
    void* bound = nullptr;     // the cl_mem that the steps have; null: to be set
    void* given = nullptr;     // that of the execution
    void* checked = nullptr;   // the one that CheckShared has seen
    void* staging = nullptr;   // for RAW memory; made when it is first needed
    bool staged = false;       // by the last execution
    Counter copied;
  };
  struct Arena {
    std::vector<Qnnrt_OpenClPlace_t> places;
    bool whole = true;   // all places begin at 0
    uint64_t bound = 0;  // serial of the buffer that the steps have
  };
  class Running;
  struct Spans {  // where the parts of an execution begin among its commands
    uint32_t first_step = 0, first_read = 0;
  };
  class Timeline;  // profile.cc

  explicit CommandList(const Qnnrt_OpenClListInfo_t& info);
  bool Has(uint32_t flag) const { return (flags_ & flag) != 0; }

  Binding* NewBinding();
  Status Match(const Qnn_Tensor_t* tensors, uint32_t count, size_t first, size_t end, bool strict,
               Binding* binding) const;
  Status BindOne(const Qnn_TensorV1_t& given, const Io& io, bool strict,
                 Binding::Entry* entry) const;

  bool HasMemory(uint32_t step, uint32_t index) const;
  Status TakePlaces(const Qnnrt_OpenClListInfo_t& info);

  bool UseTimestamps(void** queue, bool* chained);
  Status EnqueueAll(Binding* binding, Commands* commands, const Qnnrt_ExecutorRun_t& options,
                    Spans* spans);
  Status AcquireMemory(Binding* binding, Commands* commands);
  Status BindMemory(const Binding& binding, Commands* commands);
  Status CheckShared();
  Status SetArguments();
  Status SetArgument(uint32_t step, uint32_t index, void* mem);
  Status EnqueueSteps(Commands* commands, const Qnnrt_ExecutorRun_t& options);
  // Null: the steps are enqueued one by one.
  void* Recorded(const Commands& commands);
  int32_t Wait(void* queue);
  Status EnqueueCopy(Io* io, void* data, Commands* commands);
  Status EnqueueStep(uint32_t at, Commands* commands);
  Status Complete(Binding* binding, const Commands& commands);
  Status CheckFaults(void* queue);

  void AddEvents(const Commands& commands, const Spans& spans, const Qnnrt_ExecutorRun_t& options,
                 uint64_t start, uint64_t end) const;

  const Qnnrt_OpenClFunctions_t cl_;
  void* const cl_context_;
  void* const device_;
  void* const queue_;
  void* const base_;
  const uint32_t flags_, flush_every_;
  const uint32_t forks_ = ForkGeneration();
  uint64_t context_ = 0;
  size_t inputs_ = 0;
  std::vector<Step> steps_;
  std::vector<Io> io_;  // inputs, then outputs
  void* const fault_memory_;
  const std::vector<uint32_t> fault_steps_;

  const std::shared_ptr<ArenaPool> pool_;  // null: there are no arenas, and nobody is beside
  ArenaPool::Sizes sizes_;                 // of arenas
  bool joined_ = false;

  std::mutex mutex_;  // one execution at a time; guards what follows
  std::vector<Qnnrt_OpenClFault_t> faults_;
  std::vector<Arena> arenas_;      // with what the steps have of them
  ArenaPool::Set* set_ = nullptr;  // of this execution, or the last
  Recordings recordings_;
  std::vector<uint64_t> key_;  // of the execution's memory
  void* timed_ = nullptr;      // a queue with timestamps; made when first needed
  std::vector<void*> events_;
  Counter executes_, kernels_, writes_, reads_, written_bytes_, read_bytes_, reserved_bytes_,
      given_, taken_back_, arguments_, recorded_;

  std::mutex bindings_mutex_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::vector<Binding*> free_;  // with room for all of them

  static std::atomic<uint32_t> live_;
};

}  // namespace qnnrt::opencl
