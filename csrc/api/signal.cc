#include "api/signal.h"

#include <algorithm>
#include <thread>

#include "api/functions.h"
#include "support/clock.h"
#include "support/fork.h"

namespace qnnrt {

Signal::Signal() : generation_(ForkGeneration()) {}

Status Signal::ReadConfig(const QnnSignal_Config_t** config, Kind* kind, uint64_t* timeout) {
  constexpr ErrorCode kBad = QNN_SIGNAL_ERROR_INVALID_ARGUMENT;
  *kind = Kind::kInert;
  *timeout = 0;
  return api::ForEachConfig(config, [&](const QnnSignal_Config_t& c) -> Status {
    if (c.option != QNN_SIGNAL_CONFIG_OPTION_ABORT &&
        c.option != QNN_SIGNAL_CONFIG_OPTION_TIMEOUT) {
      return Error(QNN_SIGNAL_ERROR_UNSUPPORTED,
                   "signal config option %d is not supported: use ABORT (1) or TIMEOUT (2)",
                   static_cast<int>(c.option));
    }
    const Kind wanted = c.option == QNN_SIGNAL_CONFIG_OPTION_ABORT ? Kind::kAbort : Kind::kTimeout;
    if (*kind != Kind::kInert && *kind != wanted) {
      return Status(kBad, "a signal is for ABORT or for TIMEOUT, not for both: use two signals");
    }
    *kind = wanted;
    if (wanted == Kind::kAbort) return Status::Ok();
    *timeout = c.timeoutDurationUs;
    if (*timeout != 0) return Status::Ok();
    return Status(kBad, "a timeout needs at least 1 microsecond: with 0 nothing could ever run");
  });
}

Status Signal::Configure(const QnnSignal_Config_t** config) {
  Kind kind;
  uint64_t timeout;
  QNNRT_RETURN_IF_ERROR(ReadConfig(config, &kind, &timeout));
  std::lock_guard<std::mutex> lock(mutex_);
  if (in_use_) {
    return Status(QNN_SIGNAL_ERROR_SIGNAL_IN_USE,
                  "a call uses the signal: configure it after that call, or use another one");
  }
  kind_ = kind;
  timeout_us_ = timeout;
  return Status::Ok();
}

Status Signal::Trigger() {
  if (generation_ != ForkGeneration()) {
    return Status(QNN_SIGNAL_ERROR_INVALID_HANDLE,
                  "this signal belongs to the parent of this forked process");
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (kind_ != Kind::kAbort) {
    return Error(QNN_SIGNAL_ERROR_INCOMPATIBLE_SIGNAL_TYPE,
                 "only a signal configured for ABORT can be triggered; this one is %s",
                 kind_ == Kind::kTimeout ? "for TIMEOUT" : "inert");
  }
  if (!in_use_) return Status(QNN_SIGNAL_ERROR_SIGNAL_IDLE, "no call uses this signal right now");
  const uint64_t use = uses_;
  const bool late = concluded_;
  if (!late) {
    aborted_.store(true, std::memory_order_relaxed);
    if (listener_ != nullptr && listener_->OnAbort()) EndLocked();
  }
  idle_.wait(lock, [&] { return !in_use_ || uses_ != use; });
  if (!late) return Status::Ok();
  return Status(QNN_SIGNAL_ERROR_SIGNAL_IDLE, "the call that used this signal was done already");
}

Status Signal::Conclude() {
  std::lock_guard<std::mutex> lock(mutex_);
  Status status = Check();
  concluded_ = status.ok();
  return status;
}

Status Signal::Check() const {
  if (aborted_.load(std::memory_order_relaxed)) {
    return Status(codes_.aborted, "aborted by its signal; what it was writing is undefined");
  }
  if (deadline_ != UINT64_MAX && MonotonicNanoseconds() >= deadline_) {
    return Error(codes_.timed_out,
                 "not done within the %llu us of its signal; what it was writing is undefined",
                 static_cast<unsigned long long>(timeout_us_));
  }
  return Status::Ok();
}

void Signal::EndLocked() {
  in_use_ = concluded_ = false;
  listener_ = nullptr;
  deadline_ = UINT64_MAX;
  idle_.notify_all();
}

Result<SignalUse> SignalUse::Begin(Qnn_SignalHandle_t handle, const SignalCodes& codes) {
  if (handle == nullptr) return SignalUse();
  Pin pin = Runtime::Get().signals.Find(handle);
  if (!pin) return Status(codes.invalid, "the signal is no live signal handle");
  Signal& signal = *pin;
  if (signal.generation_ != ForkGeneration())
    return Status(codes.invalid, "this signal belongs to the parent of this forked process");
  {
    std::lock_guard<std::mutex> lock(signal.mutex_);
    if (signal.in_use_)
      return Status(codes.in_use, "another call uses the signal: a signal is for one at a time");
    signal.in_use_ = true;
    ++signal.uses_;
    signal.codes_ = codes;
    signal.aborted_.store(false, std::memory_order_relaxed);
    if (signal.kind_ == Signal::Kind::kTimeout) {
      const uint64_t now = MonotonicNanoseconds();
      const uint64_t most = (UINT64_MAX - 1 - now) / 1000;
      signal.deadline_ = now + std::min(signal.timeout_us_, most) * 1000;
    }
  }
  return SignalUse(std::move(pin));
}

SignalUse& SignalUse::operator=(SignalUse&& other) noexcept {
  if (this == &other) return *this;
  End();
  pin_ = std::move(other.pin_);
  return *this;
}

void SignalUse::Listen(AbortListener* listener) {
  if (!pin_) return;
  std::lock_guard<std::mutex> lock(pin_->mutex_);
  pin_->listener_ = listener;
}

void SignalUse::End() {
  if (!pin_) return;
  Pin pin = std::move(pin_);
  std::lock_guard<std::mutex> lock(pin->mutex_);
  pin->EndLocked();
}

namespace api {
namespace {

Status StaleSignal() {
  return Status(QNN_SIGNAL_ERROR_INVALID_HANDLE, "this is no live signal handle");
}

Qnn_ErrorHandle_t Create(Qnn_BackendHandle_t backend_handle, const QnnSignal_Config_t** config,
                         Qnn_SignalHandle_t* handle) {
  return Guarded([&] {
    if (handle == nullptr)
      return Report(Status(QNN_SIGNAL_ERROR_INVALID_ARGUMENT,
                           "the signal handle to fill in must not be null"));
    *handle = nullptr;
    auto backend = Runtime::Get().backends.Find(backend_handle);
    if (!backend)
      return Report(Status(QNN_SIGNAL_ERROR_INVALID_ARGUMENT, "the backend handle is not live"));
    auto signal = std::make_unique<Signal>();
    Status status = signal->Configure(config);
    if (!status.ok()) return Report(status, backend->backend->log.get());
    *handle = Runtime::Get().signals.Add(std::move(signal));
    if (*handle == nullptr)
      return Report(Status(QNN_SIGNAL_ERROR_MEM_ALLOC, "too many live signals"));
    return Qnn_ErrorHandle_t{QNN_SUCCESS};
  });
}

Qnn_ErrorHandle_t SetConfig(Qnn_SignalHandle_t handle, const QnnSignal_Config_t** config) {
  return Guarded([&] {
    auto signal = Runtime::Get().signals.Find(handle);
    return Report(signal ? signal->Configure(config) : StaleSignal());
  });
}

Qnn_ErrorHandle_t Trigger(Qnn_SignalHandle_t handle) {
  return Guarded([&] {
    auto signal = Runtime::Get().signals.Find(handle);
    return Report(signal ? signal->Trigger() : StaleSignal());
  });
}

Qnn_ErrorHandle_t FreeSignal(Qnn_SignalHandle_t handle) {
  return Guarded([&] {
    using Table = decltype(Runtime::signals);
    auto& signals = Runtime::Get().signals;
    std::unique_ptr<Signal> signal;
    Table::Taken taken;
    while ((taken = signals.Take(handle, &signal)) == Table::Taken::kBusy) {
      auto pinned = signals.Find(handle);
      if (pinned && pinned->in_use())
        return Report(Status(QNN_SIGNAL_ERROR_SIGNAL_IN_USE,
                             "a call uses the signal: free it after that call"));
      pinned.Reset();
      std::this_thread::yield();  // a call that has ended its use is about to unpin it
    }
    return taken == Table::Taken::kYes ? Qnn_ErrorHandle_t{QNN_SUCCESS} : Report(StaleSignal());
  });
}

}  // namespace

void FillSignal(const BackendTraits& traits, QnnInterface_ImplementationV2_32_t* table) {
  constexpr ErrorCode kNo = QNN_SIGNAL_ERROR_UNSUPPORTED;
  Refuse<kNo>(&table->signalCreate);
  Refuse<kNo>(&table->signalSetConfig);
  Refuse<kNo>(&table->signalTrigger);
  Refuse<kNo>(&table->signalFree);
  if (!traits.signals) return;
  table->signalCreate = Create;
  table->signalSetConfig = SetConfig;
  table->signalTrigger = Trigger;
  table->signalFree = FreeSignal;
}

}  // namespace api
}  // namespace qnnrt
