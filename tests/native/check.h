// The little that a test program needs: CHECK counts and says what failed; Done() is main's result.
#pragma once

#include <atomic>
#include <cstdio>
#include <sstream>
#include <string>

namespace check {

inline std::atomic<int> g_checks{0};
inline std::atomic<int> g_failures{0};

inline bool That(bool good, const char* text, const char* file, int line,
                 const std::string& detail = "") {
  g_checks.fetch_add(1, std::memory_order_relaxed);
  if (good) return true;
  g_failures.fetch_add(1, std::memory_order_relaxed);
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%s\n", file, line, text,
               detail.empty() ? "" : ": ", detail.c_str());
  return false;
}

template <typename A, typename B>
bool Equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return That(true, text, file, line);
  std::ostringstream detail;
  detail << "got " << a << ", expected " << b;
  return That(false, text, file, line, detail.str());
}

template <typename S>
bool Ok(const S& status, const char* text, const char* file, int line) {
  return That(status.ok(), text, file, line, status.message());
}

inline void Skip(const char* what, const std::string& why) {
  std::printf("  skipped %s: %s\n", what, why.c_str());
}

inline int Done(const char* name) {
  std::printf("%s: %d checks%s\n", name, g_checks.load(), g_failures.load() ? ", FAILED" : "");
  return g_failures.load() ? 1 : 0;
}

}  // namespace check

#define CHECK(condition) ::check::That(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(a, b) ::check::Equal((a), (b), #a " == " #b, __FILE__, __LINE__)
// A Status, or a Result's status(), that has to be good; its message is shown when it is not.
#define CHECK_OK(expression) ::check::Ok((expression), #expression " is ok", __FILE__, __LINE__)
