// A result that carries a QNN error code and, when it is an error, one sentence that says what was
// expected, what came and what to do. Inside the runtime nothing throws: functions return Status or
// Result<T>; csrc/api turns a Status into the number that crosses the C boundary.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace qnnrt {

using ErrorCode = uint32_t;  // the low 16 bits of a Qnn_ErrorHandle_t; 0 is success

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ErrorCode code, std::string message)
      : code_(code), message_(new std::string(std::move(message))) {}

  // A code without a message, which allocates nothing: for results that the caller expects.
  explicit Status(ErrorCode code) noexcept : code_(code) {}

  static Status Ok() noexcept { return {}; }
  bool ok() const noexcept { return code_ == 0; }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept {
    static const std::string empty;
    return message_ ? *message_ : empty;
  }
  // The same error, seen from further out: "<context>: <message>".
  Status Within(const std::string& context) && {
    if (message_) message_->insert(0, context + ": ");
    return std::move(*this);
  }
  Status WithCode(ErrorCode code) && {
    if (code_ != 0) code_ = code;
    return std::move(*this);
  }

 private:
  ErrorCode code_ = 0;
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
Status Error(ErrorCode code, const char* format, Args... args) {
  if constexpr (sizeof...(Args) == 0) {
    return Status(code, format);
  } else {
    int n = std::snprintf(nullptr, 0, format, args...);
    std::string text(n > 0 ? static_cast<size_t>(n) : 0, '\0');
    if (n > 0) std::snprintf(text.data(), text.size() + 1, format, args...);
    return Status(code, std::move(text));
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
