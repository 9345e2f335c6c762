// Locks of executions: whoever has waited for a while comes before those that come later.
#include "support/fair_mutex.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "check.h"
#include "eventually.h"
#include "memory/writers.h"

using qnnrt::FairMutex;

namespace {

// Whether a thread of this process is blocked in the kernel.
bool Sleeps(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end = text.rfind(") ");
  return end != std::string::npos && text.compare(end + 2, 1, "S") == 0;
}

void Pass() { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }

}  // namespace

TEST(a_thread_that_has_waited_comes_before_the_one_that_had_it) {
  FairMutex mutex;
  std::atomic<long> id{0};
  std::atomic<bool> had{false}, enough{false};
  mutex.lock();
  std::thread waiting([&] {
    id = syscall(SYS_gettid);
    std::lock_guard<FairMutex> lock(mutex);
    had = true;
    while (!enough) Pass();
  });
  CHECK(Eventually([&] { return id != 0 && Sleeps(id); }));
  Pass();
  mutex.unlock();
  CHECK(!mutex.try_lock());  // free, perhaps, but not for this one
  CHECK(Eventually([&] { return had.load(); }));
  CHECK(!mutex.try_lock());
  enough = true;
  mutex.lock();
  mutex.unlock();
  waiting.join();
  CHECK(mutex.try_lock());  // nothing is left of who waited
  mutex.unlock();
}

// The same for memory that executions of several graphs write.
TEST(a_graph_that_has_waited_writes_before_the_one_that_has_written) {
  float state[4];
  qnnrt::WrittenMemory looping, other;
  for (qnnrt::WrittenMemory* w : {&looping, &other}) {
    w->Resize(1);
    w->Set(0, state, sizeof state, 0, 0);
  }
  std::atomic<long> id{0};
  bool had = false;
  CHECK(looping.Lock(nullptr).ok());
  std::thread waiting([&] {
    id = syscall(SYS_gettid);
    CHECK(other.Lock(nullptr).ok());
    had = true;
    other.Unlock();
  });
  CHECK(Eventually([&] { return id != 0 && Sleeps(id); }));
  Pass();
  looping.Unlock();
  CHECK(looping.Lock(nullptr).ok());
  CHECK(had);
  looping.Unlock();
  waiting.join();
}

TEST(a_free_mutex_is_taken_at_once) {
  FairMutex mutex;
  for (int i = 0; i < 1000; ++i) {
    CHECK(mutex.try_lock());
    std::thread([&] { CHECK(!mutex.try_lock()); }).join();
    mutex.unlock();
  }
}

TEST(one_thread_at_a_time_has_it) {
  FairMutex mutex;
  int64_t sum = 0;
  std::thread threads[4];
  for (std::thread& t : threads) {
    t = std::thread([&] {
      for (int i = 0; i < 20000; ++i) {
        std::lock_guard<FairMutex> lock(mutex);
        ++sum;
        if (i % 5000 == 0) Pass();  // long enough for others to be next
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(sum, 80000);
}

CHECK_MAIN("fair_mutex_test")
