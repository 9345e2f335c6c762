// Command buffers of a list's kernels (cl_khr_command_buffer), by the memory that these work on: a
// buffer has the arguments that its kernels had when it was recorded.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "abi/qnnrt_opencl.h"

namespace qnnrt::opencl {

class Recordings {
 public:
  using Key = std::vector<uint64_t>;  // numbers that stand for the memory

  // Null: the device has no such thing.
  explicit Recordings(const Qnnrt_OpenClRecording_t* functions) : on_(functions != nullptr) {
    if (on_) cl_ = *functions;
  }
  Recordings(const Recordings&) = delete;

  bool on() const { return on_; }
  void TurnOff() { on_ = false; }
  const Qnnrt_OpenClRecording_t& functions() const { return cl_; }

  // The recording for this memory; null where there is none yet.
  void* Find(const Key& key);
  // This execution is none that is recorded.
  void Skip() { current_ = nullptr; }
  // Whether an execution before had the memory that was asked for: then another one may have, too.
  bool SeenBefore() const { return current_ != nullptr && seen_; }
  // all(add): calls add for each kernel, in order, until that gives another code than 0. Null where
  // the driver refuses it, which ends recording.
  template <typename F>
  void* Record(void* queue, F all) {
    int32_t code = 0;
    void* made = cl_.createCommandBuffer(1, &queue, nullptr, &code);
    if (made != nullptr) {
      code = all([&](const Qnnrt_OpenClStep_t& s) {
        return cl_.commandNDRangeKernel(made, nullptr, nullptr, s.kernel, s.dims, nullptr, s.total,
                                        s.group[0] != 0 ? s.group : nullptr, 0, nullptr, nullptr,
                                        nullptr);
      });
      if (code == 0) code = cl_.finalizeCommandBuffer(made);
      if (code == 0) return current_->buffer = made;
      cl_.releaseCommandBuffer(made);
    }
    Clear();
    on_ = false;
    return nullptr;
  }

  // Memory that may become another's.
  void Forget(uint64_t number);
  void Clear();

 private:
  struct Entry {
    Key key;
    void* buffer = nullptr;
    uint64_t used = 0;  // 0: it stands for nothing
  };
  void Drop(Entry* entry);

  bool on_;
  Qnnrt_OpenClRecording_t cl_ = {};
  std::array<Entry, 4> entries_;  // clients often take turns with two or three sets of memory
  Entry* current_ = nullptr;      // of this execution
  bool seen_ = false;
  uint64_t clock_ = 0;
};

}  // namespace qnnrt::opencl
