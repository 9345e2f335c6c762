// The exported functions: the external delegate's two, the vendor's, this runtime's own. Exceptions
// stop here.
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <unordered_map>

#include "abi/qnn_errors.h"
#include "memory/memory_api.h"
#include "support/guard.h"
#include "support/per_thread.h"
#include "tflite/delegate/delegate.h"

namespace qnnrt::tflite {
namespace {

LastStatus& Errors() {
  static LastStatus errors;
  return errors;
}

uint64_t Report(const Status& status) {
  if (!status.ok()) Errors().Set(status);
  return status.code();
}

// Buffers behind the pointers of TfLiteQnnDelegateAllocCustomMem.
struct CustomMemory {
  std::mutex mutex;
  std::unordered_map<void*, qnnrt_buffer_t> buffers;
};

CustomMemory& Custom() {
  static auto* const memory = new CustomMemory;  // never destroyed: others free at exit, too
  return *memory;
}

Status Given(Status status) { return status; }

template <typename F>
uint64_t Guarded(const TfLiteDelegate* delegate, const F& call) {
  return Contained(
      [&] {
        if (delegate == nullptr)
          return Report(Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "the delegate must not be null"));
        return Report(call(*Delegate::Of(delegate)));
      },
      Report);
}

// Null, with the reason, where the options are refused or the backend is not to be had.
template <typename F>
TfLiteDelegate* Make(const F& read, Status* error) {
  TfLiteDelegate* delegate = nullptr;
  *error = Contained(
      [&]() -> Status {
        QNNRT_ASSIGN_OR_RETURN(Options options, read());
        QNNRT_ASSIGN_OR_RETURN(Delegate * made, Delegate::Create(std::move(options)));
        delegate = made->c();
        return Status::Ok();
      },
      Given);
  return delegate;
}

}  // namespace
}  // namespace qnnrt::tflite

using qnnrt::Status;
using qnnrt::tflite::Delegate;

extern "C" {

// ---- External delegates ----

QNN_API TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys,
                                                      const char* const* values, size_t count,
                                                      void (*report_error)(const char*)) {
  // Python gives an int, C programs a size_t: the upper half may be anything.
  count &= 0xFFFFFFFFu;
  Status error;
  TfLiteDelegate* made =
      qnnrt::tflite::Make([&] { return qnnrt::tflite::ReadKeys(keys, values, count); }, &error);
  if (made == nullptr && report_error != nullptr)
    report_error(std::move(error).Within("TfLiteQnnDelegate").message().c_str());
  return made;
}

QNN_API void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  TfLiteQnnDelegateDelete(delegate);
}

// ---- The vendor's ----

TfLiteDelegate* TfLiteQnnDelegateCreate(const TfLiteQnnDelegateOptions* options) {
  Status error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "the options must not be null");
  if (options != nullptr) {
    TfLiteDelegate* made =
        qnnrt::tflite::Make([&] { return qnnrt::tflite::ReadOptions(*options); }, &error);
    if (made != nullptr) return made;
  }
  const qnnrt::tflite::Log log(options == nullptr ? kLogLevelError : options->log_level);
  log.Write(kLogLevelError, "TfLiteQnnDelegate: %s", error.message().c_str());
  return nullptr;
}

void TfLiteQnnDelegateDelete(TfLiteDelegate* delegate) {
  qnnrt::Contained([&] { Delegate::Destroy(delegate); });
}

TfLiteQnnDelegateCapabilityStatus TfLiteQnnDelegateHasCapability(
    TfLiteQnnDelegateCapability capability) {
  switch (static_cast<int>(capability)) {
    case kHtpRuntimeQuantized:
      return kCapabilitySupported;
    default:  // kHtpRuntimeFp16 among them: floats of 16 bits are computed in 32
      return kCapabilityNotSupported;
  }
}

TfLiteQnnDelegateApiVersion TfLiteQnnDelegateGetApiVersion(void) { return {0, 24, 0}; }

void* TfLiteQnnDelegateAllocCustomMem(size_t num_bytes, size_t alignment) {
  if (num_bytes == 0) return nullptr;
  // Less than TFLite's is rounded up below, which is a multiple of powers of two alone.
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return nullptr;
  qnnrt_buffer_t buffer = 0;
  qnnrt_buffer_info_t info;
  if (alignment < kTfLiteDefaultTensorAlignment) alignment = kTfLiteDefaultTensorAlignment;
  if (qnnrt_buffer_alloc(nullptr, num_bytes, alignment, &buffer) != QNN_SUCCESS) return nullptr;
  void* given = qnnrt::Contained(
      [&]() -> void* {
        if (qnnrt_buffer_info(buffer, &info) != QNN_SUCCESS) return nullptr;
        auto& custom = qnnrt::tflite::Custom();
        std::lock_guard<std::mutex> lock(custom.mutex);
        custom.buffers[info.address] = buffer;
        return info.address;
      },
      [](const Status&) -> void* { return nullptr; });
  if (given == nullptr) qnnrt_buffer_release(buffer);
  return given;
}

void TfLiteQnnDelegateFreeCustomMem(void* buffer_ptr) {
  qnnrt::Contained([&] {
    auto& custom = qnnrt::tflite::Custom();
    qnnrt_buffer_t buffer = 0;
    {
      std::lock_guard<std::mutex> lock(custom.mutex);
      auto found = custom.buffers.find(buffer_ptr);
      if (found == custom.buffers.end()) return;
      buffer = found->second;
      custom.buffers.erase(found);
    }
    qnnrt_buffer_release(buffer);
  });
}

// ---- This runtime's own ----

const char* qnnrt_tflite_error(void) { return qnnrt::tflite::Errors().Get().message().c_str(); }

uint64_t qnnrt_tflite_tensors(const TfLiteDelegate* delegate, Qnnrt_TfliteTensor_t* out,
                              uint32_t capacity, uint32_t* count) {
  return qnnrt::tflite::Guarded(delegate, [&](Delegate& d) {
    if (count == nullptr || (out == nullptr && capacity != 0))
      return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "out and count must not be null");
    *count = d.Tensors(out, capacity);
    return Status::Ok();
  });
}

uint64_t qnnrt_tflite_bind(const TfLiteDelegate* delegate, int32_t index, void* address,
                           uint64_t nbytes) {
  return qnnrt::tflite::Guarded(delegate,
                                [&](Delegate& d) { return d.Bind(index, address, nbytes); });
}

uint64_t qnnrt_tflite_counters(const TfLiteDelegate* delegate, Qnnrt_TfliteCounters_t* out) {
  return qnnrt::tflite::Guarded(delegate, [&](Delegate& d) {
    if (out == nullptr) return Status(QNN_COMMON_ERROR_INVALID_ARGUMENT, "out must not be null");
    d.Count(out);
    return Status::Ok();
  });
}

}  // extern "C"
