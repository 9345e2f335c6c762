// Rings of slots: what the producer wrote is what consumers read, whoever waits, is slow or dies.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "check.h"
#include "ipc/ring_api.h"
#include "ipc/ring_control.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#endif

namespace {

constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kPatience = 120 * kSecond;  // for what should come at once
constexpr uint32_t kPadding = 16;              // words of a slot

struct Ring {
  Ring(uint32_t slots, uint32_t flags) {
    config.slots = slots;
    config.flags = flags;
    config.slot_bytes = config.stride = kPadding * sizeof(uint64_t);
    qnnrt_buffer_alloc("memfd", qnnrt_ring_bytes(&config), 0, &control);
    qnnrt_buffer_alloc("memfd", slots * config.stride, 0, &data);
    qnnrt_buffer_info_t info;
    qnnrt_buffer_info(data, &info);
    words = static_cast<uint64_t*>(info.address);
    CHECK_EQ(qnnrt_ring_format(control, &config), 0u);
  }
  ~Ring() {
    CHECK_EQ(qnnrt_buffer_close(control), 0u);
    CHECK_EQ(qnnrt_buffer_close(data), 0u);
  }
  qnnrt_endpoint_t Open(uint32_t role) {
    qnnrt_endpoint_t end = 0;
    CHECK_EQ(qnnrt_ring_open(control, role, &end), 0u);
    return end;
  }
  uint64_t* Words(uint32_t index) { return words + index * kPadding; }
  // The next slot, with the same number in all its words.
  uint64_t Put(qnnrt_endpoint_t end, uint64_t value, uint64_t timeout) {
    qnnrt_ring_slot_t slot;
    const uint64_t code = qnnrt_ring_next(end, timeout, &slot);
    if (code != 0) return code;
    for (uint32_t i = 0; i < kPadding; ++i) Words(slot.index)[i] = value;
    return qnnrt_ring_done(end, slot.index, 1, &slot);
  }
  // The number in the next slot, which is in all its words.
  uint64_t Get(qnnrt_endpoint_t end, uint64_t timeout, uint64_t* value) {
    qnnrt_ring_slot_t slot;
    const uint64_t code = qnnrt_ring_next(end, timeout, &slot);
    if (code != 0) return code;
    *value = Words(slot.index)[0];
    bool same = true;
    for (uint32_t i = 0; i < kPadding; ++i) same &= Words(slot.index)[i] == *value;
    CHECK(same);
    return qnnrt_ring_done(end, slot.index, 1, &slot);
  }
  uint64_t Dropped(qnnrt_endpoint_t end) {
    qnnrt_ring_info_t info;
    CHECK_EQ(qnnrt_ring_info(end, &info), 0u);
    return info.dropped;
  }

  qnnrt_ring_config_t config = {};
  qnnrt_buffer_t control = 0, data = 0;
  uint64_t* words = nullptr;
};

int64_t Held() {
  qnnrt_ipc_counts_t counts;
  qnnrt_ipc_counts(&counts);
  return counts.endpoints + counts.fds;
}

// Numbers 0 to count - 1 through a ring to that many consumers: each one's sum and number.
void Run(uint32_t flags, uint32_t slots, int consumers, uint64_t count) {
  Ring ring(slots, flags);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  struct Seen {
    uint64_t sum = 0, number = 0, dropped = 0, code = 0;
    bool rising = true;
  };
  std::vector<Seen> seen(static_cast<size_t>(consumers));
  std::vector<qnnrt_endpoint_t> ends;
  for (int i = 0; i < consumers; ++i) ends.push_back(ring.Open(QNNRT_RING_CONSUMER));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      Seen& mine = seen[i];
      uint64_t value = 0, next = 0;
      while ((mine.code = ring.Get(ends[i], kPatience, &value)) == 0) {
        mine.rising &= value >= next;
        next = value + 1;
        mine.sum += value;
        ++mine.number;
      }
      mine.dropped = ring.Dropped(ends[i]);
      CHECK_EQ(qnnrt_ring_close(ends[i]), 0u);
    });
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (ring.Put(producer, i, kPatience) != 0) return (void)CHECK_EQ(i, count);
  }
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
  for (std::thread& thread : threads) thread.join();
  const bool queue = (flags & QNNRT_RING_QUEUE) != 0, drops = (flags & QNNRT_RING_DROP_OLDEST) != 0;
  Seen all;
  for (const Seen& one : seen) {
    CHECK_EQ(one.code, uint64_t{QNNRT_RING_CLOSED});
    CHECK(one.rising);
    all.sum += one.sum;
    all.number += one.number;
    all.dropped += one.dropped;
    if (!queue) CHECK_EQ(one.number + one.dropped, count);
    if (!queue && !drops) CHECK_EQ(one.sum, count * (count - 1) / 2);
  }
  if (queue) CHECK_EQ(all.number + all.dropped, count);
  if (queue && !drops) CHECK_EQ(all.sum, count * (count - 1) / 2);
  if (!drops) CHECK_EQ(all.dropped, 0u);
}

}  // namespace

TEST(every_consumer_gets_every_slot) {
  for (int consumers : {1, 2, 4}) Run(0, 4, consumers, 20000);
  Run(0, 2, 2, 5000);
}

TEST(each_slot_of_a_queue_goes_to_one_consumer) {
  for (int consumers : {1, 2, 4}) Run(QNNRT_RING_QUEUE, 4, consumers, 20000);
}

TEST(a_producer_that_drops_never_waits_for_reading) {
  for (int consumers : {1, 3}) {
    Run(QNNRT_RING_DROP_OLDEST, 8, consumers, 20000);
    Run(QNNRT_RING_DROP_OLDEST | QNNRT_RING_QUEUE, 8, consumers, 20000);
  }
}

TEST(the_oldest_go_first_and_a_slot_that_is_read_stays) {
  Ring ring(4, QNNRT_RING_DROP_OLDEST);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
  CHECK_EQ(ring.Put(producer, 0, 0), 0u);
  qnnrt_ring_slot_t reading;
  CHECK_EQ(qnnrt_ring_next(consumer, 0, &reading), 0u);
  for (uint64_t i = 1; i < 20; ++i) CHECK_EQ(ring.Put(producer, i, 0), 0u);
  CHECK_EQ(ring.Words(reading.index)[0], 0u);
  CHECK_EQ(qnnrt_ring_done(consumer, reading.index, 1, &reading), 0u);
  uint64_t value = 0;
  for (uint64_t expected : {17, 18, 19}) {
    CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
    CHECK_EQ(value, expected);
  }
  CHECK_EQ(ring.Get(consumer, 0, &value), uint64_t{QNNRT_RING_TIMEOUT});
  CHECK_EQ(ring.Dropped(consumer), 16u);
  CHECK_EQ(ring.Dropped(producer), 16u);
  CHECK_EQ(qnnrt_ring_close(consumer), 0u);
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
}

TEST(a_full_ring_has_no_slot_until_one_was_read) {
  for (uint32_t flags : {0u, QNNRT_RING_QUEUE}) {
    Ring ring(3, flags);
    const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
    const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
    for (uint64_t i = 0; i < 3; ++i) CHECK_EQ(ring.Put(producer, i, 0), 0u);
    CHECK_EQ(ring.Put(producer, 3, kSecond / 1000), uint64_t{QNNRT_RING_TIMEOUT});
    uint64_t value = 7;
    CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
    CHECK_EQ(value, 0u);
    CHECK_EQ(ring.Put(producer, 3, 0), 0u);
    CHECK_EQ(ring.Put(producer, 4, 0), uint64_t{QNNRT_RING_TIMEOUT});
    CHECK_EQ(qnnrt_ring_close(consumer), 0u);
    // Nobody is left to read: a queue keeps its slots for who comes, else nothing is in the way.
    CHECK_EQ(ring.Put(producer, 4, 0), uint64_t{flags != 0 ? QNNRT_RING_TIMEOUT : 0u});
    CHECK_EQ(qnnrt_ring_close(producer), 0u);
  }
}

TEST(a_slot_that_is_given_back_was_never_published) {
  Ring ring(2, 0);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
  qnnrt_ring_slot_t slot;
  for (int i = 0; i < 5; ++i) {
    CHECK_EQ(qnnrt_ring_next(producer, 0, &slot), 0u);
    CHECK_EQ(qnnrt_ring_next(producer, 0, &slot),
             uint64_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
    CHECK_EQ(qnnrt_ring_done(producer, slot.index, 0, &slot), 0u);
  }
  CHECK_EQ(qnnrt_ring_next(consumer, 0, &slot), uint64_t{QNNRT_RING_TIMEOUT});
  CHECK_EQ(ring.Put(producer, 5, 0), 0u);
  uint64_t value = 0;
  CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
  CHECK_EQ(value, 5u);
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
  CHECK_EQ(qnnrt_ring_close(consumer), 0u);
}

TEST(one_producer_and_thirty_two_consumers) {
  const int64_t before = Held();
  {
    Ring ring(2, 0);
    const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
    qnnrt_endpoint_t none = 0;
    CHECK_EQ(qnnrt_ring_open(ring.control, QNNRT_RING_PRODUCER, &none), uint64_t{QNNRT_RING_TAKEN});
    std::vector<qnnrt_endpoint_t> consumers;
    for (uint32_t i = 0; i < QNNRT_RING_CONSUMERS; ++i) {
      consumers.push_back(ring.Open(QNNRT_RING_CONSUMER));
    }
    CHECK_EQ(qnnrt_ring_open(ring.control, QNNRT_RING_CONSUMER, &none), uint64_t{QNNRT_RING_TAKEN});
    for (qnnrt_endpoint_t end : consumers) CHECK_EQ(qnnrt_ring_close(end), 0u);
    CHECK_EQ(qnnrt_ring_close(producer), 0u);
    CHECK_EQ(qnnrt_ring_close(producer), uint64_t{QNN_MEM_ERROR_INVALID_HANDLE});
    CHECK_EQ(qnnrt_ring_close(ring.Open(QNNRT_RING_PRODUCER)), 0u);  // free again
  }
  CHECK_EQ(Held(), before);
}

// While a consumer looks whether its producer lives, as it does when it first finds nothing.
TEST(a_producer_that_closes_is_never_taken_for_dead) {
  std::map<uint64_t, int> found;
  for (int i = 0; i < 5000; ++i) {
    Ring ring(2, 0);
    const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
    const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
    std::atomic<int> ready{0};
    const auto together = [&ready] {
      for (++ready; ready.load() < 2;) std::this_thread::yield();
    };
    std::thread thread([&] {
      uint64_t value = 0;
      together();
      ++found[ring.Get(consumer, kPatience, &value)];
    });
    together();
    for (volatile int pause = i % 500; pause > 0; pause = pause - 1) {
    }
    CHECK_EQ(qnnrt_ring_close(producer), 0u);
    thread.join();
    CHECK_EQ(qnnrt_ring_close(consumer), 0u);
  }
  CHECK_EQ(found[QNNRT_RING_CLOSED], 5000);
}

TEST(other_memory_is_no_ring) {
  Ring ring(4, 0);
  qnnrt_endpoint_t end = 0;
  CHECK_EQ(qnnrt_ring_open(ring.data, QNNRT_RING_CONSUMER, &end), uint64_t{QNNRT_RING_LAYOUT});
  qnnrt_buffer_info_t info;
  qnnrt_buffer_info(ring.control, &info);
  auto* control = static_cast<qnnrt::ipc::Control*>(info.address);
  for (uint32_t slots : {0u, 1u, 4097u, 4096u, UINT32_MAX}) {
    control->config.slots = slots;
    CHECK_EQ(qnnrt_ring_open(ring.control, QNNRT_RING_CONSUMER, &end), uint64_t{QNNRT_RING_LAYOUT});
  }
  control->config.slots = 4;
  const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  CHECK_EQ(ring.Put(producer, 1, 0), 0u);
  control->order(ring.config)[0].store(4000000);  // a slot that is not there
  uint64_t value = 0;
  CHECK_EQ(ring.Get(consumer, 0, &value), uint64_t{QNNRT_RING_TIMEOUT});
  CHECK_EQ(qnnrt_ring_close(consumer), 0u);
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
}

// Where a consumer and its producer share a core, looking for a frame keeps it from being made.
TEST(a_consumer_leaves_the_producers_core_and_may_still_run_everywhere) {
  cpu_set_t all, one;
  CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) return;  // nowhere to go
  size_t core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  Ring ring(4, 0);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
  std::atomic<bool> apart{false};
  std::thread thread([&] {
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    uint64_t value = 0, expected = 0;
    for (; ring.Get(consumer, kPatience, &value) == 0; ++expected) {
      CHECK_EQ(value, expected);
      // It begins beside the producer, and may go.
      if (value == 0) CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
      if (sched_getcpu() != static_cast<int>(core)) apart.store(true);
    }
    cpu_set_t after;
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_EQUAL(&after, &all));
  });
  CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatience);
  for (uint64_t i = 0; !apart.load() && std::chrono::steady_clock::now() < end; ++i) {
    CHECK_EQ(ring.Put(producer, i, kPatience), 0u);
  }
  CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  CHECK(apart.load());
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
  thread.join();
  CHECK_EQ(qnnrt_ring_close(consumer), 0u);
}

#ifndef UNDER_THREAD_SANITIZER
namespace {

// A child that does that and then waits to be killed; returns once it has done it.
template <typename F>
pid_t Child(F work) {
  int ready[2];
  CHECK_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const char done = work() ? 'y' : 'n';
    (void)!write(ready[1], &done, 1);
    for (;;) pause();
  }
  char done = 0;
  CHECK_EQ(read(ready[0], &done, 1), 1);
  CHECK_EQ(done, 'y');
  close(ready[0]);
  close(ready[1]);
  return pid;
}

void Kill(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_EQ(waitpid(pid, nullptr, 0), pid);
}

}  // namespace

TEST(a_consumer_that_dies_does_not_block_the_producer) {
  for (uint32_t flags : {0u, QNNRT_RING_QUEUE, QNNRT_RING_DROP_OLDEST}) {
    Ring ring(2, flags);
    const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
    CHECK_EQ(ring.Put(producer, 0, 0), 0u);
    const pid_t pid = Child([&] {
      qnnrt_endpoint_t end;
      qnnrt_ring_slot_t slot;
      if (qnnrt_ring_open(ring.control, QNNRT_RING_CONSUMER, &end) != 0) return false;
      return flags != QNNRT_RING_QUEUE || qnnrt_ring_next(end, 0, &slot) == 0;
    });
    CHECK_EQ(ring.Put(producer, 1, 0), 0u);
    if (flags == 0) CHECK_EQ(ring.Put(producer, 2, 0), 0u);  // the first was nobody's
    if (flags == QNNRT_RING_QUEUE) {
      CHECK_EQ(ring.Put(producer, 2, kSecond / 10), uint64_t{QNNRT_RING_TIMEOUT});
    }
    Kill(pid);
    const qnnrt_endpoint_t other = flags == QNNRT_RING_QUEUE ? ring.Open(QNNRT_RING_CONSUMER) : 0;
    for (uint64_t i = 3; i < 6; ++i) {
      CHECK_EQ(ring.Put(producer, i, kPatience), 0u);
      uint64_t value;
      if (other != 0) CHECK_EQ(ring.Get(other, 0, &value), 0u);
    }
    if (other != 0) CHECK_EQ(qnnrt_ring_close(other), 0u);
    qnnrt_ring_info_t info;
    CHECK_EQ(qnnrt_ring_info(producer, &info), 0u);
    if (flags == 0) CHECK_EQ(info.consumers, 0u);
    CHECK_EQ(qnnrt_ring_close(producer), 0u);
  }
}

TEST(a_producer_that_dies_is_told_of_and_replaced) {
  Ring ring(4, 0);
  const qnnrt_endpoint_t consumer = ring.Open(QNNRT_RING_CONSUMER);
  const pid_t pid = Child([&] {
    qnnrt_endpoint_t end;
    qnnrt_ring_slot_t slot;
    return qnnrt_ring_open(ring.control, QNNRT_RING_PRODUCER, &end) == 0 &&
           ring.Put(end, 1, 0) == 0 && ring.Put(end, 2, 0) == 0 &&
           qnnrt_ring_next(end, 0, &slot) == 0;
  });
  uint64_t value = 0;
  CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
  CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
  CHECK_EQ(ring.Get(consumer, kSecond / 10, &value), uint64_t{QNNRT_RING_TIMEOUT});
  Kill(pid);
  CHECK_EQ(ring.Get(consumer, kPatience, &value), uint64_t{QNNRT_RING_ENDED});
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  for (uint64_t i = 3; i < 7; ++i) CHECK_EQ(ring.Put(producer, i, 0), 0u);  // no slot was lost
  for (uint64_t i = 3; i < 7; ++i) {
    CHECK_EQ(ring.Get(consumer, 0, &value), 0u);
    CHECK_EQ(value, i);
  }
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
  CHECK_EQ(ring.Get(consumer, 0, &value), uint64_t{QNNRT_RING_CLOSED});
  CHECK_EQ(qnnrt_ring_close(consumer), 0u);
}

TEST(a_child_does_not_keep_its_parents_ends_alive) {
  Ring ring(2, 0);
  const qnnrt_endpoint_t producer = ring.Open(QNNRT_RING_PRODUCER);
  const pid_t pid = Child([&] {
    qnnrt_ring_slot_t slot;
    return qnnrt_ring_next(producer, 0, &slot) == QNN_MEM_ERROR_INVALID_HANDLE;
  });
  CHECK_EQ(qnnrt_ring_close(producer), 0u);
  CHECK_EQ(qnnrt_ring_close(ring.Open(QNNRT_RING_PRODUCER)), 0u);
  Kill(pid);
}
#endif

CHECK_MAIN("ring_test")
