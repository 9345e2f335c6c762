// A result that carries a QNN error code and, when it is an error, one sentence that says what was
// expected, what came and what to do. Inside the runtime nothing throws: functions return Status or
// Result<T>; csrc/api turns a Status into the number that crosses the C boundary.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "abi/qnn_errors.h"

namespace qnnrt {

using ErrorCode = uint32_t;  // the low 16 bits of a Qnn_ErrorHandle_t; 0 is success

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  // Where there is no memory for a message it becomes "out of memory"; the code stays.
  Status(ErrorCode code, std::string message) noexcept : code_(code) {
    message_.reset(new (std::nothrow) std::string(std::move(message)));
    shortage_ = message_ == nullptr;
  }
  Status(ErrorCode code, const char* message) noexcept : code_(code) {
    try {
      message_ = std::make_unique<std::string>(message);
    } catch (const std::exception&) {
      shortage_ = true;
    }
  }

  // A code without a message, which allocates nothing: for results that the caller expects.
  explicit Status(ErrorCode code) noexcept : code_(code) {}

  // "out of memory", which needs none to be said.
  static Status OutOfMemory(ErrorCode code = QNN_COMMON_ERROR_MEM_ALLOC) noexcept {
    Status status(code);
    status.shortage_ = true;
    return status;
  }

  static Status Ok() noexcept { return {}; }
  bool ok() const noexcept { return code_ == 0; }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept {
    // So short that the string holds it without memory of its own.
    static const std::string empty, shortage = "out of memory";
    return message_ ? *message_ : shortage_ ? shortage : empty;
  }
  // The same error, seen from further out: "<context>: <message>", as far as there is memory.
  Status Within(const std::string& context) && noexcept {
    try {
      if (message_) message_->insert(0, context + ": ");
    } catch (const std::exception&) {
    }
    return std::move(*this);
  }
  Status WithCode(ErrorCode code) && {
    if (code_ != 0) code_ = code;
    return std::move(*this);
  }

 private:
  ErrorCode code_ = 0;
  bool shortage_ = false;
  std::unique_ptr<std::string> message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(runtime/explicit)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(runtime/explicit)
  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const& noexcept { return status_; }
  Status&& status() && noexcept { return std::move(status_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// printf into a Status: Error(6004, "tensor '%s': ...", name)
template <typename... Args>
Status Error(ErrorCode code, const char* format, Args... args) noexcept {
  if constexpr (sizeof...(Args) == 0) {
    return Status(code, format);
  } else {
    try {
      int n = std::snprintf(nullptr, 0, format, args...);
      std::string text(n > 0 ? static_cast<size_t>(n) : 0, '\0');
      if (n > 0) std::snprintf(text.data(), text.size() + 1, format, args...);
      return Status(code, std::move(text));
    } catch (const std::exception&) {
      return Status::OutOfMemory(code);
    }
  }
}

#define QNNRT_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::qnnrt::Status qnnrt_status_ = (expr);        \
    if (!qnnrt_status_.ok()) return qnnrt_status_; \
  } while (0)

#define QNNRT_CONCAT_(a, b) a##b
#define QNNRT_CONCAT(a, b) QNNRT_CONCAT_(a, b)
// QNNRT_ASSIGN_OR_RETURN(auto fd, Open(path));
#define QNNRT_ASSIGN_OR_RETURN(lhs, expr) \
  QNNRT_ASSIGN_OR_RETURN_(QNNRT_CONCAT(qnnrt_result_, __LINE__), lhs, expr)
#define QNNRT_ASSIGN_OR_RETURN_(tmp, lhs, expr)  \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()

}  // namespace qnnrt
