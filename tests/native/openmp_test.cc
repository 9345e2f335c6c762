// A library that was compiled for OpenMP runs its regions on the pool.
#include "ops/onednn/openmp.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "support/threads.h"

using qnnrt::Team;
using qnnrt::onednn::BindToPool;
using qnnrt::onednn::RegionSize;

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1  // it cannot follow threads started after a fork
#endif

namespace {

void* Build(const char* name, const char* options) {
  char folder[] = "/tmp/qnnrt-openmp-XXXXXX";
  if (mkdtemp(folder) == nullptr) return nullptr;
  const std::string here = __FILE__;
  const std::string library = std::string(folder) + "/" + name;
  const std::string command = "cc -O1 -fopenmp -shared -fPIC " + std::string(options) + " " +
                              here.substr(0, here.rfind('/') + 1) + "openmp_regions.c -o " +
                              library;
  const bool built = std::system(command.c_str()) == 0;
  void* opened = built ? dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(library.c_str());
  rmdir(folder);
  return opened;
}

struct Regions {
  void (*set_threads)(int);  // the OpenMP runtime's
  int (*max_threads)();
  int (*members)(int, int*);
  int (*default_members)();
  int (*neighbours)(int, int);
  int (*spinning)(int, int);
  int (*nested)(int);
  void (*loop)(int, long, long, long, long, int*);
  void (*nested_loop)(int, long, int*);
};

template <typename F>
void Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
}

const Regions* Get() {
  static Regions regions;
  static const bool bound = [] {
    void* library = Build("libregions.so", "");
    if (library == nullptr || !BindToPool(library)) return false;
    Find(library, "omp_set_num_threads", &regions.set_threads);
    Find(library, "max_threads", &regions.max_threads);
    Find(library, "members", &regions.members);
    Find(library, "default_members", &regions.default_members);
    Find(library, "neighbours", &regions.neighbours);
    Find(library, "spinning", &regions.spinning);
    Find(library, "nested", &regions.nested);
    Find(library, "loop", &regions.loop);
    Find(library, "nested_loop", &regions.nested_loop);
    return true;
  }();
  return bound ? &regions : nullptr;
}

int ThreadsOfThisProcess() {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

}  // namespace

TEST(a_region_has_the_members_that_it_asks_for) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  for (int count : {1, 2, 3, 8, 64}) {
    std::vector<int> seen(64, 0);
    CHECK_EQ(r->members(count, seen.data()), count);
    for (int i = 0; i < 64; ++i) CHECK_EQ(seen[static_cast<size_t>(i)], i < count ? 1 : 0);
  }
}

TEST(a_region_that_asks_for_none_has_those_of_its_thread) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  CHECK_EQ(r->default_members(), qnnrt::Threads::DefaultLimit());
  {
    const RegionSize three(3);
    CHECK_EQ(r->max_threads(), 3);
    CHECK_EQ(r->default_members(), 3);
    {
      const RegionSize one(1);
      CHECK_EQ(r->default_members(), 1);
    }
    CHECK_EQ(r->default_members(), 3);
  }
  CHECK_EQ(r->max_threads(), qnnrt::Threads::DefaultLimit());
}

TEST(an_application_that_calls_the_library_says_it_to_the_runtime) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  for (int count : {1, 3, qnnrt::Threads::DefaultLimit()}) {
    r->set_threads(count);
    CHECK_EQ(r->max_threads(), count);
    CHECK_EQ(r->default_members(), count);
    const RegionSize two(2);
    CHECK_EQ(r->default_members(), 2);
  }
}

TEST(members_wait_for_each_other) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  for (int count : {1, 2, 3, 7}) {
    REQUIRE(Team::Reserve(count));
    CHECK_EQ(r->neighbours(count, 200), 0);
  }
}

TEST(regions_within_regions_have_one_member) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  for (int count : {1, 2, 5}) CHECK_EQ(r->nested(count), count);
  std::vector<int> seen(50, 0);
  r->nested_loop(3, 50, seen.data());
  for (int times : seen) CHECK_EQ(times, 3);
}

TEST(a_static_loop_visits_each_index_once) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  for (int count : {1, 2, 3, 6}) {
    for (long chunk : {0L, 1L, 3L, 1000L}) {
      for (long turns : {0L, 1L, 2L, 7L, 100L}) {
        for (long step : {1L, 4L, -1L, -3L}) {
          // The last index does not have to be hit exactly.
          const long slack = turns != 0 && (step > 1 || step < -1) ? step / 2 : 0;
          std::vector<int> seen(static_cast<size_t>(turns) + 1, 0);
          r->loop(count, 5, 5 + turns * step - slack, step, chunk, seen.data());
          for (long i = 0; i < turns; ++i) CHECK_EQ(seen[static_cast<size_t>(i)], 1);
        }
      }
    }
  }
}

TEST(regions_that_wait_do_not_lock_each_other_out) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  REQUIRE(Team::Reserve(4));
  std::vector<std::thread> callers;
  std::vector<int> wrong(5, 0);
  for (size_t c = 0; c < wrong.size(); ++c) {
    callers.emplace_back([&, c] {
      const qnnrt::Executing executing;  // so that workers are kept back
      const int count = 2 + static_cast<int>(c % 3);
      for (int i = 0; i < 50; ++i) {
        wrong[c] += r->neighbours(count, 10);
        if (i % 8 == static_cast<int>(c)) wrong[c] += r->spinning(count, 10) - 10 * count;
        qnnrt::Threads(count).For(100, 1, [](size_t, size_t) {});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (int w : wrong) CHECK_EQ(w, 0);
}

TEST(there_are_no_other_threads_than_those_of_the_pool) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  std::vector<int> seen(64, 0);
  r->members(64, seen.data());
  const int before = ThreadsOfThisProcess();
  for (int i = 0; i < 20; ++i) {
    r->members(64, seen.data());
    qnnrt::Threads(64).For(6400, 1, [](size_t, size_t) {});
  }
  CHECK_EQ(ThreadsOfThisProcess(), before);
}

#ifndef UNDER_THREAD_SANITIZER
TEST(regions_run_in_a_forked_child) {
  const Regions* r = Get();
  REQUIRE(r != nullptr);
  CHECK_EQ(r->neighbours(3, 20), 0);
  const pid_t child = fork();
  if (child == 0) _exit(r->neighbours(3, 20) == 0 && ThreadsOfThisProcess() == 3 ? 0 : 1);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
}
#endif

TEST(a_library_that_calls_something_else_is_left_as_it_is) {
  void* library = Build("libcritical.so", "-DWITH_CRITICAL");
  REQUIRE(library != nullptr);
  CHECK(!BindToPool(library));
  int (*critical)() = nullptr;
  Find(library, "critical", &critical);
#ifndef UNDER_THREAD_SANITIZER
  CHECK_EQ(critical(), 2);  // by the runtime that it came with
#endif
}

TEST(a_library_without_regions_is_left_as_it_is) {
  CHECK(!BindToPool(dlopen("libm.so.6", RTLD_NOW)));
}

CHECK_MAIN("openmp_test")
