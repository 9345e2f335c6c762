// No exception leaves a C function, also where nothing is left to say so with.
#include "support/guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "abi/qnn_errors.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "memory/memory_api.h"
#include "memory/rpcmem.h"
#include "support/allocations.h"
#include "support/per_thread.h"

namespace {

using namespace qnnrt;  // NOLINT(build/namespaces)

Status Given(Status status) { return status; }

template <typename E>
Status Thrown(E what) {
  return Contained([&]() -> Status { throw what; }, Given);
}

// f on a thread of its own, which has said nothing yet, with no memory from the n-th allocation on.
void Starved(int64_t n, const std::function<void()>& f) {
  std::thread thread([&] {
    FailAllocation(n, true);
    f();
    FailAllocation(0);
  });
  thread.join();
}

TEST(AnExceptionBecomesAStatus) {
  CHECK(Contained([] { return Status::Ok(); }, Given).ok());
  CHECK_EQ(Thrown(std::bad_alloc()).code(), QNN_COMMON_ERROR_MEM_ALLOC);
  CHECK_EQ(Thrown(std::bad_alloc()).message(), "out of memory");
  CHECK_EQ(Thrown(std::runtime_error("why")).message(), "why");
  CHECK_EQ(Thrown(std::runtime_error("why")).code(), QNN_COMMON_ERROR_GENERAL);
  CHECK_EQ(Thrown(7).code(), QNN_COMMON_ERROR_GENERAL);
}

TEST(AnErrorKeepsItsCodeWithoutMemoryForItsText) {
  const std::string long_text(100, 'x'), context = "a context that is long";
  for (int64_t n = 1; n < 6; ++n) {
    FailAllocation(n, true);
    const Status formatted = Error(6004, "%s and more", long_text.c_str());
    const Status plain(6004, "a text that is too long for the string itself");
    const Status within = Error(6004, "%s", long_text.c_str()).Within(context);
    FailAllocation(0);
    for (const Status* status : {&formatted, &plain, &within}) {
      CHECK_EQ(status->code(), 6004u);
      CHECK(!status->message().empty());
    }
  }
}

TEST(TheFirstErrorOfAThreadNeedsNoMemory) {
  qnnrt_pool_trim(0);  // makes what the process has once
  for (int64_t n = 1; n < 12; ++n) {
    uint64_t code = 0, general = 0;
    bool said = false;
    Starved(n, [&] {
      code = qnnrt_buffer_release(0x123400000001);
      said = *qnnrt_last_error() != '\0';
      general = qnnrt_graph_reset_state(nullptr);
      said = said && *qnnrt_error_message() != '\0';
    });
    CHECK_EQ(code, uint64_t{QNN_MEM_ERROR_INVALID_HANDLE});
    CHECK(general != 0);
    CHECK(said);
  }
}

// The old code of these had no guard. (A check takes memory itself, so it comes afterwards.)
TEST(NoCallOfTheMemoryApiThrows) {
  for (int64_t n = 1; n < 8; ++n) {
    bool refused = true;
    Starved(n, [&] {
      const qnnrt_buffer_t stale = 0x123400000001;
      qnnrt_buffer_info_t info;
      qnnrt_heap_info_t heap;
      uint64_t offset = 0;
      qnnrt_buffer_t buffer = 0;
      int fd = 0;
      for (const uint64_t code :
           {qnnrt_buffer_fd(stale, &fd), qnnrt_buffer_borrow_fd(stale, &fd),
            qnnrt_buffer_info(stale, &info), qnnrt_buffer_lookup(&offset, &buffer, &offset),
            qnnrt_buffer_retain(stale), qnnrt_buffer_close(stale), qnnrt_buffer_export_begin(stale),
            qnnrt_buffer_export_end(stale), qnnrt_buffer_execution_begin(stale),
            qnnrt_buffer_execution_end(stale), qnnrt_buffer_check_alive(stale),
            qnnrt_buffer_access_begin(stale, 1), qnnrt_buffer_access_end(stale, 9),
            qnnrt_heap_info(1000, &heap), qnnrt_buffer_alloc("no such heap", 4096, 0, &buffer)}) {
        refused = refused && code != 0;
      }
    });
    CHECK(refused);
  }
}

TEST(FastrpcSaysThatThereIsNoMemory) {
  const int fd = memfd_create("guard", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, 4096) == 0);
  CHECK_EQ(qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 4096, 0), QNNRT_AEE_SUCCESS);
  CHECK_EQ(qnnrt_fastrpc_munmap(3, fd, nullptr, 4096), QNNRT_AEE_SUCCESS);
  int mapped = 0;
  Starved(1, [&] {
    mapped = qnnrt_fastrpc_mmap(3, fd, nullptr, 0, 4096, 0);
    qnnrt_remote_register_buf(&mapped, 4, fd);
  });
  CHECK_EQ(mapped, QNNRT_AEE_ENOMEMORY);
  CHECK_EQ(qnnrt_remote_registered_bufs(), 0u);
  CHECK_EQ(qnnrt_fastrpc_munmap(3, fd, nullptr, 4096), QNNRT_AEE_EBADPARM);
  close(fd);
}

// It warns, deregisters and frees: none of that may stop half-way.
TEST(RpcmemFreeFreesWithoutMemory) {
  for (int64_t n = 1; n < 6; ++n) {
    void* memory = qnnrt_rpcmem_alloc(25, 1, 4096);
    REQUIRE(memory != nullptr);
    qnnrt_memory_counts_t counts;
    Starved(n, [&] { qnnrt_rpcmem_free(memory); });
    qnnrt_pool_trim(0);
    qnnrt_memory_counts(&counts);
    CHECK_EQ(counts.buffers, 0);
  }
}

TEST(WhatAThreadHasGoesWithIt) {
  struct Counted {
    Counted() { ++Live(); }
    ~Counted() { --Live(); }
    static int& Live() {
      static int live = 0;
      return live;
    }
  };
  static PerThread<Counted> mine;
  CHECK(mine.Find() == nullptr);
  std::thread([] {
    CHECK(mine.Get() != nullptr);
    CHECK(mine.Get() == mine.Find());
    CHECK_EQ(Counted::Live(), 1);
  }).join();
  CHECK_EQ(Counted::Live(), 0);
  bool none = false;
  Starved(1, [&] { none = mine.Get() == nullptr; });
  CHECK(none);
}

}  // namespace

CHECK_MAIN("guard_test")
