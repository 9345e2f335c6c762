// One execution: the device acquires the memory, commands are enqueued and waited for.
#include "abi/qnn_errors.h"
#include "opencl/command_list.h"
#include "opencl/error.h"
#include "support/clock.h"
#include "support/guard.h"

namespace qnnrt::opencl {
namespace {

constexpr uint64_t kProfilingEnable = 2;  // CL_QUEUE_PROFILING_ENABLE

Status Given(Status status) { return status; }

Status NoCommands(int32_t code) { return DriverError(code, "the queue takes no commands"); }

}  // namespace

std::string CommandList::Step::Text(uint32_t at) const {
  return "step " + std::to_string(at) + ", node '" + node + "', kernel " + name + ": ";
}

Status CommandList::Patch(Io* io, void* mem) {
  if (mem == io->bound) return Status::Ok();
  io->bound = nullptr;
  for (const Io::Patch& patch : io->patches) {
    Step& step = steps_[patch.step];
    if (step.info.kernel == nullptr) {
      step.memories[patch.index] = mem;
      continue;
    }
    const int32_t code = cl_.setKernelArg(step.info.kernel, patch.index, sizeof(mem), &mem);
    if (code != 0) return DriverError(code, io->Text("a kernel does not take its memory"));
  }
  io->bound = mem;
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

// The steps' arguments; RAW inputs are on their way then.
Status CommandList::BindMemory(const Binding& binding, Commands* commands) {
  for (size_t i = 0; i < io_.size(); ++i) {
    Io& io = io_[i];
    const Binding::Entry& entry = binding.entries[i];
    io.staged = entry.registration == nullptr && io.nbytes != 0;
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
    QNNRT_RETURN_IF_ERROR(Patch(&io, io.staged ? io.staging : entry.registration->mem));
    if (io.staged && !io.output) QNNRT_RETURN_IF_ERROR(EnqueueCopy(&io, entry.data, commands));
  }
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
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    if (options.interrupt != nullptr && options.stopped(options.interrupt) != 0)
      return Status(QNN_GRAPH_ERROR_ABORTED, "a signal has ended it");  // the runtime's is its own
    QNNRT_RETURN_IF_ERROR(EnqueueStep(i, commands));
  }
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
    unfinished = cl_.finish(commands.queue());
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
    const int32_t code = cl_.finish(base_);
    if (unfinished == 0 && lost == 0) unfinished = code;
  }
  if (unfinished != 0) return DriverError(unfinished, "the device did not finish");
  if (lost != 0)
    return DriverError(lost, first_lost->Text("the device does not give its memory back"));
  return Status::Ok();
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
  Commands commands(cl_, queue, chained, flush_every_, timed ? &events_ : nullptr);
  Spans spans;
  Status status = Contained([&] { return EnqueueAll(binding, &commands, options, &spans); }, Given);
  Status completed = Contained([&] { return Complete(binding, commands); }, Given);
  if (!status.ok()) return status;  // what came of it is nothing new
  QNNRT_RETURN_IF_ERROR(std::move(completed));
  if (options.profile != nullptr)
    AddEvents(commands, spans, options, start, MonotonicNanoseconds());
  executes_ += 1;
  return Status::Ok();
}

}  // namespace qnnrt::opencl
