// One execution: the device acquires the memory, commands are enqueued and waited for.
#include <algorithm>
#include <chrono>
#include <thread>

#include "abi/qnn_errors.h"
#include "ir/bad_index.h"
#include "opencl/command_list.h"
#include "opencl/error.h"
#include "support/clock.h"
#include "support/guard.h"

namespace qnnrt::opencl {
namespace {

constexpr uint64_t kProfilingEnable = 2;       // CL_QUEUE_PROFILING_ENABLE
constexpr uint32_t kExecutionStatus = 0x11D3;  // CL_EVENT_COMMAND_EXECUTION_STATUS

Status Given(Status status) { return status; }

// Asks for the event's state, every eighth of the time that it has taken so far: the thread uses a
// few percent of a core where waits of the driver's may take a whole one.
int32_t Sleep(const Qnnrt_OpenClFunctions_t& cl, void* queue, void* event) {
  using std::chrono::microseconds;
  constexpr microseconds kLeast{20}, kMost{1000};
  int32_t code = cl.flush(queue);
  const auto began = std::chrono::steady_clock::now();
  for (int32_t state = 1; code == 0;) {  // 0: complete; negative: why it is not
    code = cl.getEventInfo(event, kExecutionStatus, sizeof state, &state, nullptr);
    if (code != 0 || state <= 0) return code != 0 ? code : state;
    const auto passed = std::chrono::steady_clock::now() - began;
    std::this_thread::sleep_for(
        std::clamp(std::chrono::duration_cast<microseconds>(passed / 8), kLeast, kMost));
  }
  return code;
}

Status NoCommands(int32_t code) { return DriverError(code, "the queue takes no commands"); }

}  // namespace

// An execution, for the lists beside this one: its arenas are its own until it is done.
class CommandList::Running {
 public:
  explicit Running(CommandList* list) : list_(list) {
    if (list_->pool_ != nullptr) ++list_->pool_->running;
  }
  ~Running() {
    if (taken_) list_->pool_->GiveBack(list_->set_);
    if (list_->pool_ != nullptr) --list_->pool_->running;
  }
  Running(const Running&) = delete;
  Status TakeArenas() {
    if (list_->sizes_.empty()) return Status::Ok();
    QNNRT_ASSIGN_OR_RETURN(list_->set_, list_->pool_->Take(list_->sizes_, list_->set_));
    taken_ = true;
    return Status::Ok();
  }

 private:
  CommandList* const list_;
  bool taken_ = false;
};

std::string CommandList::Step::Text(uint32_t at) const {
  return "step " + std::to_string(at) + ", node '" + node + "', kernel " + name + ": ";
}

// The memory that a step works on.
Status CommandList::SetArgument(uint32_t at, uint32_t index, void* mem) {
  Step& step = steps_[at];
  if (step.info.kernel == nullptr) {
    step.memories[index] = mem;
    return Status::Ok();
  }
  arguments_ += 1;
  const int32_t code = cl_.setKernelArg(step.info.kernel, index, sizeof(mem), &mem);
  return code == 0 ? Status::Ok() : DriverError(code, "a kernel does not take its memory");
}

// Of what has changed since they were set last.
Status CommandList::SetArguments() {
  for (Io& io : io_) {
    if (io.given == nullptr || io.given == io.bound) continue;
    io.bound = nullptr;
    for (const Io::Patch& patch : io.patches) {
      Status set = SetArgument(patch.step, patch.index, io.given);
      if (!set.ok()) return std::move(set).Within("tensor '" + io.name + "'");
    }
    io.bound = io.given;
  }
  for (size_t i = 0; i < arenas_.size(); ++i) {
    Arena& arena = arenas_[i];
    if (arena.bound == set_->serial(i)) continue;
    recordings_.Forget(arena.bound);  // they would keep memory that is gone
    arena.bound = 0;
    for (const Qnnrt_OpenClPlace_t& p : arena.places) {
      void* mem = set_->whole(i);
      if (!arena.whole) {
        QNNRT_ASSIGN_OR_RETURN(mem, set_->Part(i, p.offset, p.size));
      }
      QNNRT_RETURN_IF_ERROR(SetArgument(p.step, p.index, mem));
    }
    arena.bound = set_->serial(i);
  }
  return Status::Ok();
}

Status CommandList::EnqueueCopy(Io* io, void* data, Commands* commands) {
  const int32_t code = commands->Add([&](uint32_t count, void* const* events, void** event) {
    const auto transfer = [&](auto enqueue) {
      return enqueue(commands->queue(), io->staging, 0, 0, io->nbytes, data, count, events, event);
    };
    return io->output ? transfer(cl_.enqueueReadBuffer) : transfer(cl_.enqueueWriteBuffer);
  });
  if (code != 0) return DriverError(code, io->Text("its memory cannot be copied"));
  io->copied += io->nbytes;
  (io->output ? reads_ : writes_) += 1;
  (io->output ? read_bytes_ : written_bytes_) += io->nbytes;
  return Status::Ok();
}

Status CommandList::AcquireMemory(Binding* binding, Commands* commands) {
  for (size_t i = 0; i < io_.size(); ++i) {
    Binding::Entry& entry = binding->entries[i];
    if (entry.registration == nullptr) continue;
    uint64_t moves = 0;
    const int32_t code = MemoryTable::Get().ToDevice(entry.registration, &moves);
    given_ += moves;
    if (code != 0)
      return DriverError(code, io_[i].Text("the device does not take its memory over"));
    entry.on_device = true;
  }
  // Behind everything that was enqueued before.
  int32_t code = 0;
  if (commands->queue() != base_) {
    code = cl_.finish(base_);
  } else if (commands->chained()) {
    code = commands->WaitForAll();
  }
  return code == 0 ? Status::Ok() : NoCommands(code);
}

// What the steps are to work on; RAW inputs are on their way then.
Status CommandList::BindMemory(const Binding& binding, Commands* commands) {
  for (size_t i = 0; i < io_.size(); ++i) {
    Io& io = io_[i];
    const Binding::Entry& entry = binding.entries[i];
    io.staged = entry.registration == nullptr && io.nbytes != 0;
    io.given = nullptr;
    if (entry.registration == nullptr && !io.staged) continue;  // no step reads or writes it
    if (io.staged && io.staging == nullptr) {
      int32_t code = 0;
      io.staging = cl_.createBuffer(cl_context_, kReadWrite, io.nbytes, nullptr, &code);
      if (io.staging == nullptr) {
        return DriverError(code, io.Text("no staging memory on the device"))
            .WithCode(QNN_COMMON_ERROR_MEM_ALLOC);
      }
      reserved_bytes_ += io.nbytes;
    }
    io.given = io.staged ? io.staging : entry.registration->mem;
    if (io.staged && !io.output) QNNRT_RETURN_IF_ERROR(EnqueueCopy(&io, entry.data, commands));
  }
  return CheckShared();
}

// One buffer may be an input and an output where every kernel that reads it is done before one
// writes it, or that one reads only what it writes itself: work items keep no order. Kernels of one
// step that run one after the other are in the order of their arguments.
Status CommandList::CheckShared() {
  const auto seen = [](const Io& io) { return io.given == io.checked; };
  if (std::all_of(io_.begin(), io_.end(), seen)) return Status::Ok();
  const auto read_first = [](const Io& input, const Io& output) {
    for (const Io::Patch& read : input.patches) {
      for (const Io::Patch& written : output.patches)
        if (read.step > written.step ||
            (read.step == written.step && read.index >= output.args_before))
          return false;
    }
    return true;
  };
  for (size_t o = inputs_; o < io_.size(); ++o) {
    const Io& output = io_[o];
    for (size_t i = 0; output.given != nullptr && i < o; ++i) {
      const Io& other = io_[i];
      if (other.given != output.given || (i < inputs_ && read_first(other, output))) continue;
      return Status(QNN_GRAPH_ERROR_INVALID_TENSOR,
                    std::string(i < inputs_ ? "input '" : "output '") + other.name +
                        "' and output '" + output.name +
                        "' are one OpenCL buffer, which kernels would read and write in turn: give "
                        "the output a buffer of its own");
    }
  }
  for (Io& io : io_) io.checked = io.given;
  return Status::Ok();
}

Status CommandList::EnqueueStep(uint32_t at, Commands* commands) {
  const Step& step = steps_[at];
  const Qnnrt_OpenClStep_t& s = step.info;
  int32_t code = 0;
  if (s.kernel != nullptr) {
    code = commands->Add([&](uint32_t count, void* const* events, void** event) {
      return cl_.enqueueNDRangeKernel(commands->queue(), s.kernel, s.dims, nullptr, s.total,
                                      s.group[0] != 0 ? s.group : nullptr, count, events, event);
    });
  } else {
    Qnnrt_ExecutorText_t why = {};
    bool called = true;
    code = commands->AddCall(
        [&] {
          return s.call(s.user, commands->queue(), step.memories.data(), s.num_memories, &why) == 0;
        },
        &called);
    if (!called) return Status(QNN_COMMON_ERROR_GENERAL, step.Text(at) + "it raised " + why.text);
  }
  if (code != 0) return DriverError(code, step.Text(at) + "it did not start");
  kernels_ += 1;
  return Status::Ok();
}

// The command buffer of all steps for the memory of this execution.
void* CommandList::Recorded(const Commands& commands) {
  if (!recordings_.on() || commands.events() != nullptr || commands.queue() != queue_) {
    recordings_.Skip();
    return nullptr;
  }
  for (size_t i = 0; i < io_.size(); ++i) key_[i] = reinterpret_cast<uintptr_t>(io_[i].given);
  for (size_t i = 0; i < arenas_.size(); ++i) key_[io_.size() + i] = set_->serial(i);
  return recordings_.Find(key_);
}

Status CommandList::EnqueueSteps(Commands* commands, const Qnnrt_ExecutorRun_t& options) {
  const auto stopped = [&] {
    return options.interrupt != nullptr && options.stopped(options.interrupt) != 0;
  };
  const auto aborted = [] {  // the runtime's text is its own
    return Status(QNN_GRAPH_ERROR_ABORTED, "a signal has ended it");
  };
  void* recorded = Recorded(*commands);
  if (recorded == nullptr) {
    QNNRT_RETURN_IF_ERROR(SetArguments());
    if (recordings_.SeenBefore()) {
      recorded = recordings_.Record(queue_, [&](auto add) {
        int32_t code = 0;
        for (uint32_t i = 0; code == 0 && i < steps_.size(); ++i) code = add(steps_[i].info);
        return code;
      });
    }
  }
  if (recorded == nullptr) {
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      if (stopped()) return aborted();
      QNNRT_RETURN_IF_ERROR(EnqueueStep(i, commands));
    }
    return Status::Ok();
  }
  if (stopped()) return aborted();
  const int32_t code = commands->Add([&](uint32_t count, void* const* events, void** event) {
    return recordings_.functions().enqueueCommandBuffer(0, nullptr, recorded, count, events, event);
  });
  if (code != 0) return DriverError(code, "its recorded commands did not start");
  recorded_ += 1;
  kernels_ += steps_.size();
  return Status::Ok();
}

Status CommandList::EnqueueAll(Binding* binding, Commands* commands,
                               const Qnnrt_ExecutorRun_t& options, Spans* spans) {
  QNNRT_RETURN_IF_ERROR(AcquireMemory(binding, commands));
  QNNRT_RETURN_IF_ERROR(BindMemory(*binding, commands));
  if (commands->events() != nullptr && commands->size() == 0 && !steps_.empty() &&
      steps_[0].info.kernel == nullptr) {
    // A command whose end is when a call begins, of which only the end is known.
    const int32_t code = commands->Add([&](uint32_t count, void* const* events, void** event) {
      return cl_.enqueueBarrierWithWaitList(commands->queue(), count, events, event);
    });
    if (code != 0) return NoCommands(code);
  }
  spans->first_step = commands->size();
  QNNRT_RETURN_IF_ERROR(EnqueueSteps(commands, options));
  spans->first_read = commands->size();
  for (size_t i = inputs_; i < io_.size(); ++i)
    if (io_[i].staged)
      QNNRT_RETURN_IF_ERROR(EnqueueCopy(&io_[i], binding->entries[i].data, commands));
  return Status::Ok();
}

// Memory becomes its owner's again, and everything is done. After a failure as well: what was
// enqueued may still use the caller's memory.
Status CommandList::Complete(Binding* binding, const Commands& commands) {
  int32_t unfinished = 0, lost = 0;
  if (commands.queue() != base_) {
    unfinished = Wait(commands.queue());
  } else if (commands.chained()) {
    unfinished = cl_.enqueueBarrierWithWaitList(commands.queue(), 0, nullptr, nullptr);
  }
  bool back = false;
  const Io* first_lost = nullptr;
  for (size_t i = 0; i < io_.size(); ++i) {
    Binding::Entry& entry = binding->entries[i];
    if (!entry.on_device) continue;
    back = true;
    entry.on_device = false;
    uint64_t moves = 0;
    const int32_t code = MemoryTable::Get().ToHost(entry.registration, &moves);
    taken_back_ += moves;
    if (code != 0 && lost == 0) lost = code, first_lost = &io_[i];
  }
  if (back || commands.queue() == base_) {
    const int32_t code = Wait(base_);
    if (unfinished == 0 && lost == 0) unfinished = code;
  }
  if (unfinished != 0) return DriverError(unfinished, "the device did not finish");
  if (lost != 0)
    return DriverError(lost, first_lost->Text("the device does not give its memory back"));
  return Status::Ok();
}

// Until what was enqueued there is done. Where others enqueue there, too, this does not wait for
// what they do behind it.
int32_t CommandList::Wait(void* queue) {
  const bool beside = pool_ != nullptr && pool_->running.load(std::memory_order_relaxed) > 1;
  void* event = nullptr;
  if ((!beside && !Has(QNNRT_OPENCL_SLEEP)) ||
      cl_.enqueueBarrierWithWaitList(queue, 0, nullptr, &event) != 0)
    return cl_.finish(queue);
  const int32_t code =
      Has(QNNRT_OPENCL_SLEEP) ? Sleep(cl_, queue, event) : cl_.waitForEvents(1, &event);
  cl_.releaseEvent(event);
  // After a failure as well nothing may be under way.
  if (code != 0) (void)cl_.finish(queue);
  return code;
}

// What kernels have noted, when everything is done.
Status CommandList::CheckFaults(void* queue) {
  const size_t nbytes = faults_.size() * sizeof(Qnnrt_OpenClFault_t);
  int32_t code = cl_.enqueueReadBuffer(queue, fault_memory_, 1, 0, nbytes, faults_.data(), 0,
                                       nullptr, nullptr);
  if (code != 0) return DriverError(code, "what kernels have noted cannot be read");
  const auto found = std::find_if(faults_.begin(), faults_.end(),
                                  [](const Qnnrt_OpenClFault_t& f) { return f.found != 0; });
  if (found == faults_.end()) return Status::Ok();
  const Qnnrt_OpenClFault_t fault = *found;
  const uint32_t step = fault_steps_[static_cast<size_t>(found - faults_.begin())];
  std::fill(faults_.begin(), faults_.end(), Qnnrt_OpenClFault_t{});
  code = cl_.enqueueWriteBuffer(queue, fault_memory_, 1, 0, nbytes, faults_.data(), 0, nullptr,
                                nullptr);
  if (code != 0) return DriverError(code, "what kernels have noted cannot be erased");
  return Status(QNN_GRAPH_ERROR_INVALID_ARGUMENT,
                "node '" + steps_[step].node + "': " +
                    BadIndexText(fault.index, static_cast<size_t>(fault.found) - 1,
                                 static_cast<size_t>(fault.axis), static_cast<size_t>(fault.size)));
}

bool CommandList::UseTimestamps(void** queue, bool* chained) {
  if (Has(QNNRT_OPENCL_TIMESTAMPS)) return true;
  // Commands of the client's have to come before ours, or behind them.
  if (Has(QNNRT_OPENCL_CLIENT_QUEUE) || device_ == nullptr) return false;
  int32_t status = 0;
  if (timed_ == nullptr)
    timed_ = cl_.createCommandQueue(cl_context_, device_, kProfilingEnable, &status);
  if (timed_ == nullptr) return false;
  *queue = timed_;
  *chained = false;
  return true;
}

Status CommandList::Run(Binding* binding, const Qnnrt_ExecutorRun_t& options) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t start = options.profile != nullptr ? MonotonicNanoseconds() : 0;
  void* queue = queue_;
  bool chained = Has(QNNRT_OPENCL_OUT_OF_ORDER);
  const bool timed = options.profile != nullptr && Has(QNNRT_OPENCL_PROFILE_NODES) &&
                     UseTimestamps(&queue, &chained);
  Running running(this);
  Commands commands(cl_, queue, chained, flush_every_, timed ? &events_ : nullptr);
  Spans spans;
  Status status = Contained(
      [&]() -> Status {
        QNNRT_RETURN_IF_ERROR(running.TakeArenas());
        return EnqueueAll(binding, &commands, options, &spans);
      },
      Given);
  Status completed = Contained([&] { return Complete(binding, commands); }, Given);
  if (!status.ok()) return status;  // what came of it is nothing new
  QNNRT_RETURN_IF_ERROR(std::move(completed));
  if (!faults_.empty()) QNNRT_RETURN_IF_ERROR(CheckFaults(queue));
  if (options.profile != nullptr)
    AddEvents(commands, spans, options, start, MonotonicNanoseconds());
  executes_ += 1;
  return Status::Ok();
}

}  // namespace qnnrt::opencl
