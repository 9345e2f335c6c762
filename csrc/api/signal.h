// Signals, with which a client ends a call early: by a trigger (ABORT) or after a time (TIMEOUT).
//
//   QNNRT_ASSIGN_OR_RETURN(SignalUse signal, SignalUse::Begin(handle, kGraphSignalCodes));
//   Status status = LongCall(signal.interrupt());   // checks it regularly
//   if (status.ok()) status = signal.Conclude();    // fails after the deadline even if the call is
//   done
//   ... free what the call held; the triggering call returns when `signal` is destroyed
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "abi/qnn_errors.h"
#include "abi/qnn_objects.h"
#include "api/handles.h"
#include "support/interrupt.h"

namespace qnnrt {

// The codes of a call for the events of its signal.
struct SignalCodes {
  ErrorCode invalid, in_use, aborted, timed_out;
};
inline constexpr SignalCodes kGraphSignalCodes = {
    QNN_GRAPH_ERROR_INVALID_ARGUMENT, QNN_GRAPH_ERROR_SIGNAL_IN_USE, QNN_GRAPH_ERROR_ABORTED,
    QNN_GRAPH_ERROR_TIMED_OUT};
inline constexpr SignalCodes kContextSignalCodes = {
    QNN_CONTEXT_ERROR_INVALID_ARGUMENT, QNN_SIGNAL_ERROR_SIGNAL_IN_USE, QNN_CONTEXT_ERROR_ABORTED,
    QNN_CONTEXT_ERROR_TIMED_OUT};

// Notified of an abort: implemented by whoever waits on behalf of a call.
class AbortListener {
 public:
  // The signal's lock is held, so this must neither end nor begin a use of it. True when the call
  // has been withdrawn: everything it held is free and its SignalUse abandoned.
  virtual bool OnAbort() = 0;

 protected:
  ~AbortListener() = default;
};

class Signal final : public Interrupt {
 public:
  Signal();

  // Configures it: the last entry of the list counts; an empty list makes it inert. Errors: 9000
  // in use, 9002 both kinds or no time, 1000 an option that is not known.
  Status Configure(const QnnSignal_Config_t** config);
  // Aborts the call that uses this, and returns when that call has failed and holds nothing any
  // more. Errors: 9005 not configured for ABORT, 9001 no call uses it, or that one was done.
  Status Trigger();
  Status Check() const override;
  Status Conclude() override;
  bool in_use() {
    std::lock_guard<std::mutex> lock(mutex_);
    return in_use_;
  }

 private:
  friend class SignalUse;
  enum class Kind { kInert, kAbort, kTimeout };
  static Status ReadConfig(const QnnSignal_Config_t** config, Kind* kind, uint64_t* timeout);
  void EndLocked();

  const uint32_t generation_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool in_use_ = false;
  bool concluded_ = false;  // the call that uses it is done, and about to free what it held
  uint64_t uses_ = 0;
  AbortListener* listener_ = nullptr;
  // Constant while in use.
  Kind kind_ = Kind::kInert;
  uint64_t timeout_us_ = 0;
  uint64_t deadline_ = UINT64_MAX;  // of MonotonicNanoseconds()
  SignalCodes codes_ = kGraphSignalCodes;
  std::atomic<bool> aborted_{false};
};

// One call's use of a signal, or of none: until its end no other call can use it, and
// it can be neither freed nor configured. May end on another thread than it began on.
class SignalUse {
 public:
  SignalUse() = default;  // of none
  // handle may be null: of none. The clock of a TIMEOUT starts here.
  static Result<SignalUse> Begin(Qnn_SignalHandle_t handle, const SignalCodes& codes);
  SignalUse(SignalUse&&) = default;
  SignalUse& operator=(SignalUse&& other) noexcept;
  ~SignalUse() { End(); }

  // Null when there is no signal.
  Interrupt* interrupt() const { return pin_ ? &*pin_ : nullptr; }
  Status Check() const { return pin_ ? pin_->Check() : Status::Ok(); }
  Status Conclude() const { return pin_ ? pin_->Conclude() : Status::Ok(); }
  bool aborted() const { return pin_ && pin_->aborted_.load(std::memory_order_relaxed); }
  // From when on Check fails; UINT64_MAX: never.
  uint64_t deadline() const { return pin_ ? pin_->deadline_ : UINT64_MAX; }
  // Who is notified of an abort from now on; null: nobody.
  void Listen(AbortListener* listener);
  void End();
  // For AbortListener::OnAbort: drops the use, which the triggering call then ends.
  void Abandon() { pin_.Reset(); }

 private:
  using Pin = HandleTable<Signal, HandleKind::kSignal>::Pin;
  explicit SignalUse(Pin pin) : pin_(std::move(pin)) {}
  Pin pin_;
};

}  // namespace qnnrt
