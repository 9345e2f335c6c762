// The thread pool: every piece runs once, whatever is nested, concurrent or forked around it.
#include "support/threads.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <thread>
#include <vector>

#include "check.h"
#include "eventually.h"
#include "support/cores.h"
#include "support/next_reads.h"

using qnnrt::Placement;
using qnnrt::Threads;

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1  // it cannot follow threads started after a fork
#endif

namespace {

// How often each index of [0, count) is visited.
std::vector<int> Visits(const Threads& threads, size_t count, size_t grain) {
  std::vector<int> visits(count, 0);
  threads.For(count, grain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ++visits[i];
  });
  return visits;
}

bool AllOne(const std::vector<int>& visits) {
  for (int n : visits) {
    if (n != 1) return false;
  }
  return true;
}

// The pieces wait for each other, so that no thread can finish them alone.
bool Meet(const Threads& threads) {
  std::atomic<int> inside{0};
  std::atomic<bool> met{true};
  threads.For(2, 1, [&](size_t, size_t) {
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (inside.load() < 2) {
      if (std::chrono::steady_clock::now() > end) {
        met = false;
        return;
      }
      std::this_thread::yield();
    }
  });
  return met;
}

cpu_set_t MayRunOn() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  return set;
}

}  // namespace

TEST(every_index_is_visited_once) {
  for (int limit : {1, 2, 3, 8}) {
    for (size_t count : {0, 1, 2, 7, 64, 1000, 100003}) {
      for (size_t grain : {0, 1, 3, 50, 1000000}) {
        CHECK(AllOne(Visits(Threads(limit), count, grain)));
      }
    }
  }
}

TEST(shares_are_neighbours_and_together_all_parts) {
  for (const size_t count : {1, 2, 7, 16, 17, 100}) {
    for (const size_t threads : {1, 2, 3, 8, 40}) {
      qnnrt::Job job;
      job.Cut(count, threads);
      REQUIRE(job.shares >= 1 && job.shares <= std::min(count, threads));
      size_t expected = 0, part = 0;
      for (size_t share = 0; share < job.shares; ++share) {
        CHECK(!job.Taken());
        const size_t begin = expected;
        for (; job.Take(share, &part); ++expected) CHECK_EQ(part, expected);
        CHECK(expected > begin);  // none is empty
        CHECK(!job.Take(share, &part));
      }
      CHECK_EQ(expected, count);
      CHECK(job.Taken());
    }
  }
}

TEST(pieces_are_not_smaller_than_the_grain) {
  for (size_t count : {10, 11, 99, 1000}) {
    for (size_t grain : {1, 3, 10}) {
      std::atomic<size_t> least{count}, pieces{0};
      Threads(4).For(count, grain, [&](size_t begin, size_t end) {
        ++pieces;
        size_t seen = least.load();
        while (end - begin < seen && !least.compare_exchange_weak(seen, end - begin)) {
        }
      });
      CHECK(least >= grain);
      CHECK(pieces <= count / grain);
    }
  }
}

TEST(one_thread_or_one_piece_stays_on_the_caller) {
  const std::thread::id caller = std::this_thread::get_id();
  int calls = 0;
  const auto body = [&](size_t begin, size_t end) {
    ++calls;
    CHECK(std::this_thread::get_id() == caller);
    CHECK_EQ(begin, size_t{0});
    CHECK_EQ(end, size_t{100});
  };
  Threads(1).For(100, 1, body);
  Threads(8).For(100, 51, body);
  Threads(-3).For(100, 1, body);
  CHECK_EQ(calls, 3);
}

TEST(several_threads_take_part) { CHECK(Meet(Threads(2))); }

// What a worker that lost its core looks like: the owner sleeps, and the worker did not compute.
// From here on the machine counts as loaded.
void Load(const Threads& threads) {
  const std::thread::id owner = std::this_thread::get_id();
  std::atomic<bool> came{false};
  threads.For(2, 1, [&](size_t, size_t) {
    if (std::this_thread::get_id() == owner) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!came && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    } else {
      came = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

// A small loop keeps to its thread then, and where it is cut must not show it.
TEST(a_loaded_machine_changes_no_piece) {
  const Threads threads(2);
  const auto cut = [&] {
    std::vector<size_t> ends(9, 0);
    threads.For(9, 2, [&](size_t begin, size_t end) { ends[begin] = end; });
    return ends;
  };
  const auto stays = [&] {
    const std::thread::id owner = std::this_thread::get_id();
    std::atomic<bool> here{true};
    threads.For(9, 2, [&](size_t, size_t) {
      if (std::this_thread::get_id() != owner) here = false;
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // a worker would come
    });
    return here.load();
  };
  const std::vector<size_t> expected{3, 0, 0, 5, 0, 7, 0, 9, 0};
  CHECK(cut() == expected);
  CHECK(Eventually([&] {  // again where another process had this thread's core for too long
    Load(threads);
    CHECK(cut() == expected);
    return stays();
  }));
}

TEST(a_small_loop_stays_on_its_thread_where_each_core_executes) {
  std::deque<qnnrt::Executing> graphs;
  for (int i = 0; i < Threads::DefaultLimit(); ++i) graphs.emplace_back();
  const std::thread::id owner = std::this_thread::get_id();
  for (const bool backwards : {false, true}) {
    std::vector<size_t> begins;
    const auto body = [&](size_t begin, size_t) {
      CHECK(std::this_thread::get_id() == owner);
      begins.push_back(begin);
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // a worker would come
    };
    Threads(2).For(9, 1, body, {true, backwards});
    REQUIRE(begins.size() == 8);
    if (backwards) std::reverse(begins.begin(), begins.end());
    CHECK(begins == (std::vector<size_t>{0, 2, 3, 4, 5, 6, 7, 8}));
  }
}

// What lasts gets its workers on a loaded machine, too: the pieces wait for each other.
TEST(a_long_loop_is_shared_on_a_loaded_machine) {
  const Threads threads(2);
  for (int i = 0; i < 3; ++i) {
    Load(threads);
    CHECK(Meet(threads));
  }
}

TEST(nested_calls_run_to_the_end) {
  std::atomic<int> sum{0};
  Threads(4).For(16, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Threads(4).For(16, 1, [&](size_t b, size_t e) { sum += static_cast<int>(e - b); });
    }
  });
  CHECK_EQ(sum.load(), 256);
}

TEST(many_callers_share_the_pool) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&wrong, c] {
      for (int i = 0; i < 300; ++i) {
        if (!AllOne(Visits(Threads(2 + c % 3), static_cast<size_t>(17 * (c + 1) + i), 1))) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(writes_of_one_call_are_seen_by_the_next) {
  std::vector<long> values(5000, 1);
  for (int round = 0; round < 200; ++round) {
    Threads(4).For(values.size(), 16, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++values[i];
    });
    // Read here, and by other threads than those that wrote.
    std::atomic<long> sum{0};
    Threads(4).For(values.size(), 100, [&](size_t begin, size_t end) {
      sum += std::accumulate(values.begin() + static_cast<long>(begin),
                             values.begin() + static_cast<long>(end), 0L);
    });
    if (sum != static_cast<long>(values.size()) * (round + 2)) return (void)CHECK_EQ(sum, -1L);
  }
  CHECK_EQ(values[0], 201L);
}

// Counts who asks it; what it says is gone by the time that it is fetched.
class GoneReader : public qnnrt::Reader {
 public:
  void FirstReads(size_t share, size_t shares, qnnrt::NextReads* to) const override {
    ++asked;
    if (share >= shares) ++wrong;
    for (size_t i = 0; i < 2 * qnnrt::NextReads::kMostPlaces; ++i)
      to->Add(reinterpret_cast<const void*>(4096 * (i + 1)), i % 2 * 5000);
    if (to->count > qnnrt::NextReads::kMostPlaces) ++wrong;
  }
  mutable std::atomic<int> asked{0}, wrong{0};
};

TEST(what_is_read_next_is_asked_for_inside_its_scope_only) {
  const GoneReader reader;
  {
    const qnnrt::BeforeReader before(&reader);
    {
      const qnnrt::BeforeReader none(nullptr);
      CHECK(Meet(Threads(2)));
      CHECK_EQ(reader.asked.load(), 0);
    }
    CHECK(Meet(Threads(2)));  // two threads took part, so a worker had a share
    CHECK(reader.asked.load() > 0);
    for (int i = 0; i < 100; ++i) CHECK(AllOne(Visits(Threads(4), 100, 1)));
  }
  const int asked = reader.asked;
  CHECK(Meet(Threads(2)));
  CHECK_EQ(reader.asked.load(), asked);
  CHECK_EQ(reader.wrong.load(), 0);
}

TEST(sleeping_workers_wake_up) {
  for (int i = 0; i < 20; ++i) {
    CHECK(AllOne(Visits(Threads(3), 100, 1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
  }
}

#ifndef UNDER_THREAD_SANITIZER
TEST(a_forked_child_works_on) {
  CHECK(AllOne(Visits(Threads(4), 1000, 1)));
  // Forked both at rest and out of a running call, where the parent's pool is taken.
  for (bool inside : {false, true}) {
    std::atomic<bool> forked{false};
    std::atomic<pid_t> child{-1};
    const auto fork_once = [&](size_t, size_t) {
      if (forked.exchange(true)) return;
      const pid_t pid = fork();
      if (pid == 0) {
        bool good = true;
        for (int i = 0; i < 50; ++i) good &= AllOne(Visits(Threads(4), 1000, 1));
        _exit(good ? 0 : 1);
      }
      child = pid;
    };
    if (inside) {
      Threads(4).For(8, 1, fork_once);
    } else {
      fork_once(0, 1);
    }
    int status = -1;
    REQUIRE(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child.load());
    CHECK_EQ(status, 0);
    CHECK(AllOne(Visits(Threads(4), 1000, 1)));
  }
}
#endif

TEST(a_core_that_is_avoided_is_given_back) {
  cpu_set_t all = MayRunOn();
  if (CPU_COUNT(&all) < 2) return;
  int cores[2], found = 0;
  for (int core = 0; found < 2; ++core) {
    if (CPU_ISSET(core, &all)) cores[found++] = core;
  }
  Placement placement;
  for (int core : {cores[0], cores[1], cores[1]}) {
    CHECK(placement.Avoid(core));
    cpu_set_t others = all;
    CPU_CLR(core, &others);
    const cpu_set_t now = MayRunOn();
    CHECK(CPU_EQUAL(&now, &others));
  }
  CHECK(!placement.Avoid(-1));
  cpu_set_t now = MayRunOn();
  CHECK(CPU_EQUAL(&now, &all));

  // What someone else says meanwhile holds; that its last core be avoided is refused.
  if (CPU_COUNT(&all) == 2) return;
  REQUIRE(placement.Avoid(cores[0]));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[1], &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(!placement.Avoid(cores[1]));
  now = MayRunOn();
  CHECK(CPU_EQUAL(&now, &one));
  sched_setaffinity(0, sizeof all, &all);
}

TEST(the_default_is_what_the_process_may_use) {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK_EQ(Threads::DefaultLimit(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK_EQ(Threads::DefaultLimit(), 1);
  CHECK(AllOne(Visits(Threads(4), 1000, 1)));  // more threads than cores: slow, not stuck
  sched_setaffinity(0, sizeof before, &before);
}

CHECK_MAIN("threads_test")
