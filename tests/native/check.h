// What the native tests are written with: cases that register themselves, and checks that say where
// and with what they failed and go on.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace check {

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}
struct Registrar {
  Registrar(const char* name, void (*run)()) { Cases().push_back({name, run}); }
};
inline std::atomic<int> checks{0}, failures{0};  // checks may be made on any thread
inline const char* current = "";

inline bool Report(bool ok, const char* file, int line, const std::string& what) {
  ++checks;
  if (!ok) {
    ++failures;
    std::fprintf(stderr, "%s:%d: in %s: %s\n", file, line, current, what.c_str());
  }
  return ok;
}

template <typename T>
std::string Text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    std::ostringstream out;
    out << value;
    return out.str();
  }
}

template <typename A, typename B>
bool Equal(const A& a, const B& b, const char* expression, const char* file, int line) {
  bool same = a == b;
  return Report(same, file, line,
                same ? "" : std::string(expression) + ": " + Text(a) + " against " + Text(b));
}

template <typename S>
bool Ok(const S& status, const char* expression, const char* file, int line) {
  return Report(status.ok(), file, line,
                status.ok() ? "" : std::string(expression) + ": " + status.message());
}

// For what this machine does not have.
inline void Skip(const std::string& what, const std::string& why) {
  std::printf("  %s: skipped %s: %s\n", current, what.c_str(), why.c_str());
}

// Runs every case, or those with one of the arguments in their name. Status 1 when a check failed,
// or when none was made.
inline int Main(int argc, char** argv, const char* program) {
  for (const Case& c : Cases()) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted |= std::string(c.name).find(argv[i]) != std::string::npos;
    if (!wanted) continue;
    current = c.name;
    c.run();
  }
  std::printf("%s: %d checks, %d failed\n", program, checks.load(), failures.load());
  return failures != 0 || checks == 0 ? 1 : 0;
}

}  // namespace check

#define TEST(name)                                              \
  static void name();                                           \
  static const check::Registrar registrar_##name{#name, &name}; \
  static void name()
#define CHECK(condition) check::Report((condition) ? true : false, __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) check::Equal((a), (b), #a " == " #b, __FILE__, __LINE__)
// A Status, or a Result's status(); shows the message of one that is not ok.
#define CHECK_OK(expression) check::Ok((expression), #expression, __FILE__, __LINE__)
// For what a test cannot go on without.
#define REQUIRE(condition)                                                                  \
  do {                                                                                      \
    if (!check::Report((condition) ? true : false, __FILE__, __LINE__, #condition)) return; \
  } while (0)
#define CHECK_MAIN(program) \
  int main(int argc, char** argv) { return check::Main(argc, argv, program); }
