// The events of an execution, out of OpenCL's timestamps.
#include <algorithm>

#include "abi/qnn_objects.h"
#include "opencl/command_list.h"

namespace qnnrt::opencl {
namespace {

enum : uint32_t { kQueued = 0x1280, kStart = 0x1282, kEnd = 0x1283 };  // CL_PROFILING_COMMAND_*

}  // namespace

// Nanoseconds of the device's clock.
class CommandList::Timeline {
 public:
  Timeline(const CommandList& list, const Commands& commands, const Spans& spans)
      : list_(list), events_(*commands.events()), spans_(spans) {}

  // 0 when the command has none.
  uint64_t At(uint32_t command, uint32_t which) const {
    uint64_t t = 0;
    void* event = events_[command];
    if (event == nullptr ||
        list_.cl_.getEventProfilingInfo(event, which, sizeof(t), &t, nullptr) != 0)
      return 0;
    return t;
  }

  // What these commands took, all of them together.
  uint64_t Sum(uint32_t first, uint32_t end) const {
    uint64_t total = 0;
    for (uint32_t i = first; i < end; ++i) {
      // Of a call only the end is known.
      const uint64_t start = i > 0 && IsCall(i) ? At(i - 1, kEnd) : At(i, kStart);
      total += std::max(At(i, kEnd), start) - start;
    }
    return total;
  }

 private:
  bool IsCall(uint32_t command) const {
    const size_t step = size_t{command} - spans_.first_step;
    return command >= spans_.first_step && step < list_.steps_.size() &&
           list_.steps_[step].info.kernel == nullptr;
  }

  const CommandList& list_;
  const std::vector<void*>& events_;
  const Spans& spans_;
};

// The host's clock and the device's meet where the first command was queued.
void CommandList::AddEvents(const Commands& commands, const Spans& spans,
                            const Qnnrt_ExecutorRun_t& options, uint64_t start,
                            uint64_t end) const {
  const auto add = [&](uint32_t type, uint64_t nanoseconds, uint64_t at, const char* name,
                       int32_t parent) {
    return options.add_event(options.profile, type, QNN_PROFILE_EVENTUNIT_MICROSEC,
                             nanoseconds / 1000, at / 1000, name, parent);
  };
  const bool timed = commands.events() != nullptr;
  const int32_t top =
      add(QNN_PROFILE_EVENTTYPE_EXECUTE, end - start, start,
          Has(QNNRT_OPENCL_PROFILE_NODES) && !timed
              ? "execute (the host's time: the queue has no CL_QUEUE_PROFILING_ENABLE)"
              : "execute",
          -1);
  if (top < 0 || !timed || commands.size() == 0) return;

  const Timeline timeline(*this, commands, spans);
  const uint64_t queued = timeline.At(0, kQueued), began = timeline.At(0, kStart);
  const uint64_t ended = timeline.At(commands.size() - 1, kEnd);
  const auto on_host = [&](uint64_t time) { return time - queued + start; };
  add(QNN_PROFILE_EVENTTYPE_EXECUTE_QUEUE_WAIT, std::max(began, queued) - queued, start,
      "device queue", top);
  add(QNN_PROFILE_EVENTTYPE_EXECUTE_DEVICE, std::max(ended, began) - began, on_host(began),
      "device", top);

  const auto add_copies = [&](bool output, uint32_t first, uint32_t last, uint64_t at) {
    uint64_t nbytes = 0;
    for (const Io& io : io_) nbytes += io.staged && io.output == output ? io.nbytes : 0;
    if (first == last || nbytes == 0) return;
    const int32_t copies =
        add(output ? QNN_PROFILE_EVENTTYPE_EXECUTE_POSTPROCESS
                   : QNN_PROFILE_EVENTTYPE_EXECUTE_PREPROCESS,
            timeline.Sum(first, last), at, output ? "stage out" : "stage in", top);
    if (copies < 0) return;
    options.add_event(options.profile, QNN_PROFILE_EVENTTYPE_BACKEND, QNN_PROFILE_EVENTUNIT_BYTES,
                      nbytes, at / 1000, output ? "copied out" : "copied in", copies);
  };
  add_copies(false, 0, spans.first_step, start);
  // The kernels of a node follow one another.
  for (uint32_t first = 0, next; options.detailed != 0 && first < steps_.size(); first = next) {
    for (next = first + 1; next < steps_.size() && steps_[next].node == steps_[first].node;) ++next;
    add(QNN_PROFILE_EVENTTYPE_NODE, timeline.Sum(spans.first_step + first, spans.first_step + next),
        on_host(timeline.At(spans.first_step + first, kStart)), steps_[first].node.c_str(), top);
  }
  if (spans.first_read < commands.size())
    add_copies(true, spans.first_read, commands.size(),
               on_host(timeline.At(spans.first_read, kStart)));
}

}  // namespace qnnrt::opencl
