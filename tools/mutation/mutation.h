// What mutated C++ sources include: all mutants of a tree are in one build, and an environment
// variable selects one of them when a program starts.
//
//   QNNRT_MUTANT=17            mutant 17 is on
//   QNNRT_MUTANTS_REACHED=F    byte 17 of the file F becomes 1 when the place of mutant 17 is
//   reached,
//                              2 when there is nothing to mutate there (`-` of two strings)
//
// An operator is mutated where it stands, without knowing where its operands end: `a < b` becomes
// `a < mutation::Lt<17>{} < b`, whose operators bind as before.
#pragma once

// The project's warnings are errors, and mutants look odd.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wnarrowing"
#pragma GCC diagnostic ignored "-Wunused"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wmemset-elt-size"
#pragma GCC diagnostic ignored "-Wdiv-by-zero"
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#pragma GCC diagnostic ignored "-Wshift-count-overflow"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace mutation {

struct State {
  int active = 0;
  unsigned char* reached = nullptr;
  size_t size = 0;

  State() {
    if (const char* text = std::getenv("QNNRT_MUTANT")) active = std::atoi(text);
    const char* path = std::getenv("QNNRT_MUTANTS_REACHED");
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat found;
    if (fd >= 0 && fstat(fd, &found) == 0 && found.st_size > 0) {
      size = static_cast<size_t>(found.st_size);
      void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) reached = static_cast<unsigned char*>(at);
    }
    if (fd >= 0) close(fd);
  }
};
inline State state;

inline bool Active(int id) {
  if (state.reached && static_cast<size_t>(id) < state.size && state.reached[id] == 0) {
    state.reached[id] = 1;
  }
  return state.active == id;
}
// Whether mutant `id` is on. Where the compiler needs a constant, none is.
constexpr bool On(int id) { return __builtin_is_constant_evaluated() ? false : Active(id); }

// Says at the program's start that `id` is no mutant.
inline bool Void(int id) {
  static State early;  // `state` may not be there yet
  if (early.reached && static_cast<size_t>(id) < early.size) early.reached[id] = 2;
  return true;
}
template <int id>
struct NoMutant {
  static inline const bool said = Void(id);
};

// ---- binary operators

#define MUTATION_FUNCTION(Name, op)                             \
  struct Name##Call {                                           \
    template <typename A, typename B>                           \
    constexpr auto operator()(A&& a, B&& b) const               \
        -> decltype(std::forward<A>(a) op std::forward<B>(b)) { \
      return std::forward<A>(a) op std::forward<B>(b);          \
    }                                                           \
  };
MUTATION_FUNCTION(Lt, <)
MUTATION_FUNCTION(Le, <=)
MUTATION_FUNCTION(Gt, >)
MUTATION_FUNCTION(Ge, >=)
MUTATION_FUNCTION(Eq, ==)
MUTATION_FUNCTION(Ne, !=)
MUTATION_FUNCTION(Add, +)
MUTATION_FUNCTION(Sub, -)
MUTATION_FUNCTION(Mul, *)
MUTATION_FUNCTION(Div, /)
MUTATION_FUNCTION(Mod, %)
MUTATION_FUNCTION(Shl, <<)
MUTATION_FUNCTION(Shr, >>)
MUTATION_FUNCTION(And, &)
MUTATION_FUNCTION(Or, |)
#undef MUTATION_FUNCTION

template <int id, typename Mutant, typename A, typename B, typename Result>
constexpr bool Possible() {
  if constexpr (std::is_invocable_v<Mutant, A, B>) {
    return std::is_convertible_v<std::invoke_result_t<Mutant, A, B>, Result>;
  }
  return false;
}

template <int id, typename Original, typename... Mutants>
struct Operator {
  template <typename A, typename B>
  static constexpr decltype(auto) Apply(A&& a, B&& b) {
    using Result = std::invoke_result_t<Original, A, B>;
    return Next<id, Result, A, B, Mutants...>(std::forward<A>(a), std::forward<B>(b));
  }

 private:
  template <int at, typename Result, typename A, typename B>
  static constexpr Result Next(A&& a, B&& b) {
    return Original()(std::forward<A>(a), std::forward<B>(b));
  }
  template <int at, typename Result, typename A, typename B, typename Mutant, typename... Rest>
  static constexpr Result Next(A&& a, B&& b) {
    if constexpr (Possible<at, Mutant, A, B, Result>()) {
      if (On(at)) return static_cast<Result>(Mutant()(std::forward<A>(a), std::forward<B>(b)));
    } else if (!__builtin_is_constant_evaluated()) {
      (void)NoMutant<at>::said;
    }
    return Next<at + 1, Result, A, B, Rest...>(std::forward<A>(a), std::forward<B>(b));
  }
};

template <typename Tag, typename A>
struct Left {
  A&& a;
};

#define MUTATION_BINARY(Name, op, ...)                                           \
  template <int id>                                                              \
  struct Name {                                                                  \
    using Choice = Operator<id, Name##Call, __VA_ARGS__>;                        \
  };                                                                             \
  template <typename A, int id>                                                  \
  constexpr Left<Name<id>, A> operator op(A&& a, Name<id>) {                     \
    return {std::forward<A>(a)};                                                 \
  }                                                                              \
  template <typename A, int id, typename B>                                      \
  constexpr decltype(auto) operator op(Left<Name<id>, A> left, B&& b) {          \
    return Name<id>::Choice::Apply(std::forward<A>(left.a), std::forward<B>(b)); \
  }
// tools/mutation/cpp.py has the same mutants in the same order.
MUTATION_BINARY(Lt, <, LeCall, GeCall)
MUTATION_BINARY(Le, <=, LtCall, GtCall)
MUTATION_BINARY(Gt, >, GeCall, LeCall)
MUTATION_BINARY(Ge, >=, GtCall, LtCall)
MUTATION_BINARY(Eq, ==, NeCall)
MUTATION_BINARY(Ne, !=, EqCall)
MUTATION_BINARY(Add, +, SubCall)
MUTATION_BINARY(Sub, -, AddCall)
MUTATION_BINARY(Mul, *, DivCall)
MUTATION_BINARY(Div, /, MulCall)
MUTATION_BINARY(Mod, %, MulCall)
MUTATION_BINARY(Shl, <<, ShrCall)
MUTATION_BINARY(Shr, >>, ShlCall)
MUTATION_BINARY(And, &, OrCall)
MUTATION_BINARY(Or, |, AndCall)
#undef MUTATION_BINARY

// ---- `a += b` becomes `a += mutation::AddTo<17>{} += b`, which binds from the right

template <typename Tag, typename B>
struct Right {
  B&& b;
};
#define MUTATION_COMPOUND(Name, op, mutant)                          \
  template <int id>                                                  \
  struct Name {};                                                    \
  template <int id, typename B>                                      \
  constexpr Right<Name<id>, B> operator op(Name<id>, B&& b) {        \
    return {std::forward<B>(b)};                                     \
  }                                                                  \
  template <typename A, int id, typename B>                          \
  constexpr A& operator op(A& a, Right<Name<id>, B> right) {         \
    if constexpr (std::is_arithmetic_v<A> || std::is_pointer_v<A>) { \
      if (On(id)) return a mutant std::forward<B>(right.b);          \
    } else {                                                         \
      (void)NoMutant<id>::said;                                      \
    }                                                                \
    return a op std::forward<B>(right.b);                            \
  }
MUTATION_COMPOUND(AddTo, +=, -=)
MUTATION_COMPOUND(SubTo, -=, +=)
#undef MUTATION_COMPOUND

// ---- `!a` becomes `mutation::Not<17>{} ->* a`

template <int id>
struct Not {};
template <int id, typename A>
constexpr bool operator->*(Not<id>, A&& a) {
  return On(id) ? static_cast<bool>(std::forward<A>(a)) : !std::forward<A>(a);
}

// ---- conditions, and std::min and std::max

template <int id, typename A>
constexpr bool Never(A&& a) {
  const bool value = static_cast<bool>(std::forward<A>(a));
  return On(id) ? false : value;
}
template <int id, typename A>
constexpr bool Always(A&& a) {
  const bool value = static_cast<bool>(std::forward<A>(a));
  return On(id) ? true : value;
}

template <int id, bool min>
struct Least {
  template <typename T, typename... Rest>
  static constexpr T Of(const T& a, const T& b, Rest... rest) {
    return min != On(id) ? std::min(a, b, rest...) : std::max(a, b, rest...);
  }
  template <typename T, typename... Rest>
  static constexpr T Of(std::initializer_list<T> all, Rest... rest) {
    return min != On(id) ? std::min(all, rest...) : std::max(all, rest...);
  }
};

}  // namespace mutation
