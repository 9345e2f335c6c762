// TCM: the allocator that clients see, with the log lines that it has to write.
#include "tcm_fixture.h"

using namespace tcm_test;

namespace {

TEST(LinesOfAnAllocation) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  CHECK_EQ(f.lines, std::vector<Line>{});  // the pool comes with the first piece
  f.Alloc(1000);
  f.Alloc(64);
  const std::vector<Line> expected{kPoolLine,
                                   {kInfo, "Allocate size 1000 from tcm pool 0"},
                                   {kInfo, "Allocate size 64 from tcm pool 0"}};
  CHECK_EQ(f.lines, expected);
}

TEST(PiecesAreBuffersInOneFile) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle a = f.Alloc(100), b = f.Alloc(5000);
  const qnnrt_buffer_info_t first = InfoOf(a), second = InfoOf(b);
  CHECK_EQ(std::string(first.heap), "tcm");
  CHECK_EQ(first.nbytes, 100u);
  CHECK_EQ(first.fd_offset, 0u);
  CHECK_EQ(second.fd_offset, 128u);
  CHECK_EQ(static_cast<uint8_t*>(second.address) - static_cast<uint8_t*>(first.address), 128);
  CHECK_EQ(reinterpret_cast<uintptr_t>(second.address) % 64, 0u);
  CHECK(first.fd_size >= kTcmBytes && first.fd_size == second.fd_size);
  std::memset(first.address, 1, 100);
  std::memset(second.address, 2, 5000);
  int fd = -1;
  CHECK_EQ(qnnrt_buffer_fd(b, &fd), 0u);
  uint8_t byte = 0;  // the same memory through the fd, at the offset
  CHECK_EQ(pread(fd, &byte, 1, 127), 1);
  CHECK_EQ(byte, 0);
  CHECK_EQ(pread(fd, &byte, 1, 128 + 4999), 1);
  CHECK_EQ(byte, 2);
  qnnrt_buffer_t found = 0;
  uint64_t offset = 0;
  CHECK_EQ(qnnrt_buffer_lookup(static_cast<uint8_t*>(second.address) + 5, &found, &offset), 0u);
  CHECK_EQ(found, b);
  CHECK_EQ(offset, 5u);
  CHECK_EQ(qnnrt_buffer_release(found), 0u);
}

TEST(ExactlyThePoolFits) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle all = f.Alloc(kTcmBytes);
  CHECK_EQ(f.Info().used_bytes, kTcmBytes);
  CHECK_EQ(f.Info().free_bytes, 0u);
  CHECK_EQ(f.Fails(1), uint32_t{QNN_COMMON_ERROR_MEM_ALLOC});
  CHECK_OK(f.allocator->Free(all));
  CHECK_EQ(f.Info().free_bytes, kTcmBytes);
}

TEST(OneByteMoreFailsAndCanBeHandled) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  CHECK_EQ(f.Fails(kTcmBytes + 1), uint32_t{QNN_COMMON_ERROR_MEM_ALLOC});
  CHECK(f.Says("TCM memory allocation failure: required size: 2035713"));
  CHECK(f.Says("use smaller or fewer buffers, or mem_type ddr"));
  const std::vector<Line> expected{
      kPoolLine, {kError, "TCM memory allocation failure: required size: 2035713"}};
  CHECK_EQ(f.lines, expected);
  CHECK(!f.Info().fatal);
  f.Alloc(kTcmBytes - 64);
  f.Alloc(64);
  CHECK_EQ(f.Fails(64), uint32_t{QNN_COMMON_ERROR_MEM_ALLOC});  // no other memory steps in
  CHECK_EQ(f.Info().pieces, 2u);
}

TEST(TheThirtyThirdIsFatalForTheAllocator) {
  Fixture f("tcm"), other("tcm");
  REQUIRE(f.allocator);
  std::vector<SlotHandle> pieces;
  for (uint32_t i = 0; i < kTcmMaxPieces; ++i) pieces.push_back(f.Alloc(64));
  CHECK(!f.Info().fatal);
  f.lines.clear();
  CHECK_EQ(f.Fails(64), uint32_t{QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL});
  const std::vector<Line> expected{{kError, "TCM memory allocation failure: required size: 64"}};
  CHECK_EQ(f.lines, expected);
  CHECK(f.Says("more than 32 pieces") && f.Says("fatal"));
  CHECK(f.Info().fatal);
  // Every later call says so; what was given before stays memory, and another allocator works.
  CHECK_EQ(f.allocator->Free(pieces[0]).code(),
           uint32_t{QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL});
  std::memset(InfoOf(pieces[0]).address, 3, 64);
  CHECK_EQ(qnnrt_buffer_close(pieces[0]), 0u);
  CHECK_EQ(f.Fails(64), uint32_t{QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL});
  other.Alloc(64);
}

TEST(FreedPiecesAreUsedAgain) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  for (int i = 0; i < 100; ++i) {
    const SlotHandle a = f.Alloc(1500000);
    CHECK_OK(f.allocator->Free(a));
    CHECK_EQ(f.allocator->Free(a).code(), uint32_t{QNN_MEM_ERROR_INVALID_HANDLE});
  }
  const SlotHandle a = f.Alloc(1500000);  // closed as a buffer it goes back as well
  CHECK_EQ(qnnrt_buffer_close(a), 0u);
  CHECK_EQ(f.Info().pieces, 0u);
  CHECK_EQ(f.Info().used_bytes, 0u);
  const SlotHandle b = f.Alloc(1500000);
  CHECK_EQ(qnnrt_buffer_release(b), 0u);
  f.Alloc(1500000);
}

TEST(PiecesOfOthersAreRefused) {
  Fixture f("tcm"), g("tcm");
  REQUIRE(f.allocator && g.allocator);
  CHECK_EQ(f.allocator->Free(g.Alloc(64)).code(), uint32_t{QNN_MEM_ERROR_INVALID_HANDLE});
  CHECK_EQ(f.allocator->Free(0).code(), uint32_t{QNN_MEM_ERROR_INVALID_HANDLE});
  CHECK_EQ(f.Fails(0), uint32_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
}

TEST(DdrHasNoPool) {
  for (const char* name : {"ddr", static_cast<const char*>(nullptr)}) {
    for (bool direct_mode : {false, true}) {
      Fixture f(name, direct_mode);
      REQUIRE(f.allocator);
      CHECK_EQ(f.allocator->mem_type(), QNN_LPAI_MEM_TYPE_DDR);
      for (int i = 0; i < 40; ++i) f.Alloc(64);
      const SlotHandle large = f.Alloc(2 * kTcmBytes);
      CHECK(std::string(InfoOf(large).heap) != "tcm");
      CHECK_EQ(f.Info().pieces, 41u);
      CHECK_EQ(f.Info().max_pieces, 0u);
      CHECK_EQ(f.Info().pool_bytes, 0u);
      CHECK_EQ(f.lines, std::vector<Line>{});
      CHECK_OK(f.allocator->Free(large));
    }
  }
}

TEST(UnknownTypeIsUndefinedAndAllocatesNothing) {
  for (const char* name : {"llc", "TCM", "", "ddr "}) {
    Fixture f(name);
    REQUIRE(f.allocator);  // known to be wrong, but not fatal before memory is asked for
    CHECK_EQ(f.allocator->mem_type(), QNN_LPAI_MEM_TYPE_UNDEFINED);
    std::vector<Line> expected{{kError, "Invalid memory type"}};
    CHECK_EQ(f.lines, expected);
    CHECK_EQ(f.Fails(64), uint32_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
    expected.push_back({kError, "Memory type only supports DDR & TCM"});
    CHECK_EQ(f.lines, expected);
    CHECK(f.Says("Memory type only supports DDR & TCM"));
  }
}

TEST(TcmNeedsDirectMode) {
  Fixture f("tcm", false);
  CHECK(f.allocator == nullptr);
  CHECK_EQ(f.code, uint32_t{QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED});
  CHECK(f.Says("TCM is there in aDSP direct mode alone"));
}

TEST(AlignmentOfTheBackend) {
  Fixture f("tcm", true, 1024);
  REQUIRE(f.allocator);
  for (int i = 0; i < 3; ++i)
    CHECK_EQ(reinterpret_cast<uintptr_t>(InfoOf(f.Alloc(1)).address) % 1024, 0u);
  CHECK_EQ(f.Info().free_bytes, kTcmBytes - 3 * 1024);
}

TEST(RegisteredPiecesLieWhereTheyWereMade) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle a = f.Alloc(100), b = f.Alloc(100);
  qnnrt::Registry& registry = Memory::Get().registry();
  SlotHandle handles[] = {Register(a, 7, 100), Register(b, 7, 100)};
  for (int i = 0; i < 2; ++i) {
    auto r = registry.Acquire(handles[i], 7);
    REQUIRE(r.ok());
    CHECK_EQ(static_cast<void*>((*r)->address), InfoOf(i ? b : a).address);
    CHECK_EQ((*r)->available, 100u);
    registry.Release(handles[i]);
  }
  // A tensor larger than its piece is refused, though the file goes on.
  const uint32_t bytes = 101;
  qnnrt::MemDescriptor d;
  d.kind = qnnrt::MemKind::kLpaiCustom;
  CHECK_EQ(qnnrt_buffer_borrow_fd(a, &d.fd), 0u);
  d.rank = 1;
  d.dims = &bytes;
  d.data_type = QNN_DATATYPE_UINT_8;
  SlotHandle handle = 0;
  CHECK_EQ(registry.Register(8, &d, 1, qnnrt::KindBit(d.kind), &handle).code(),
           uint32_t{QNN_MEM_ERROR_INVALID_ARGUMENT});
  CHECK_OK(registry.Deregister(handles, 2));
}

TEST(PiecesInUseStay) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle idle = f.Alloc(64), held = f.Alloc(64);
  auto refused = [&](const char* who) {
    for (bool all : {false, true}) {
      qnnrt::Status status = all ? f.allocator->Close() : f.allocator->Free(held);
      CHECK_EQ(status.code(), uint32_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
      if (!CHECK(status.message().find(who) != std::string::npos))
        std::fprintf(stderr, "  the message was: %s\n", status.message().c_str());
    }
    InfoOf(idle);  // closing refuses as a whole
  };
  SlotHandle handle = Register(held, 9, 64);
  refused("1 registered memory handle");
  CHECK_OK(Memory::Get().registry().Deregister(&handle, 1));
  CHECK_EQ(qnnrt_buffer_export_begin(held), 0u);
  refused("1 exported view");
  CHECK_EQ(qnnrt_buffer_export_end(held), 0u);
  CHECK_EQ(qnnrt_buffer_execution_begin(held), 0u);
  refused("1 running execution");
  CHECK_EQ(qnnrt_buffer_execution_end(held), 0u);
  CHECK_EQ(qnnrt_buffer_retain(held), 0u);
  refused("1 other owner");
  CHECK_EQ(qnnrt_buffer_release(held), 0u);
  CHECK_OK(f.allocator->Close());
  qnnrt_buffer_info_t info;
  CHECK_EQ(qnnrt_buffer_info(idle, &info), uint64_t{QNN_MEM_ERROR_INVALID_HANDLE});
  CHECK_EQ(f.Fails(64), uint32_t{QNN_COMMON_ERROR_INVALID_ARGUMENT});
}

// Closing refuses as a whole, whoever holds one of the pieces.
TEST(PiecesThatHoldAGraphsMemoryStay) {
  Fixture f("ddr");
  REQUIRE(f.allocator);
  const SlotHandle idle = f.Alloc(64), held = f.Alloc(64);
  qnnrt::ClientPool pool(qnnrt::PoolKind::kScratch, "g", &f);
  CHECK_OK(pool.Hold(InfoOf(held).address, 64));
  const qnnrt::Status status = f.allocator->Close();
  CHECK_EQ(status.code(), uint32_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
  CHECK(status.message().find("the scratch memory of graph 'g'") != std::string::npos);
  InfoOf(idle);
  pool.Reset();
  CHECK_OK(f.allocator->Close());
}

TEST(AReleasedPieceStaysAsLongAsItsViews) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle piece = f.Alloc(64);
  CHECK_EQ(qnnrt_buffer_export_begin(piece), 0u);
  CHECK_EQ(qnnrt_buffer_release(piece), 0u);
  const qnnrt::Status status = f.allocator->Close();
  CHECK_EQ(status.code(), uint32_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED});
  CHECK(status.message().find("1 exported view") != std::string::npos);
  CHECK_EQ(f.Info().pieces, 1u);
  CHECK_EQ(qnnrt_buffer_export_end(piece), 0u);
  CHECK_EQ(f.Info().pieces, 0u);
}

TEST(PoolsOfGraphsAreNeverInTcm) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle piece = f.Alloc(128);
  for (auto kind : {qnnrt::PoolKind::kScratch, qnnrt::PoolKind::kPersistent}) {
    qnnrt::ClientPool pool(kind, "g", &f);
    const qnnrt::Status status = pool.Hold(InfoOf(piece).address, 128);
    CHECK_EQ(status.code(), uint32_t{QNN_GRAPH_ERROR_INVALID_ARGUMENT});
    CHECK(status.message().find("are always in DDR") != std::string::npos);
  }
}

TEST(NothingIsLeftBehind) {
  const qnnrt_memory_counts_t before = Counts();
  for (const char* name : {"tcm", "ddr"}) {
    Fixture f(name);
    REQUIRE(f.allocator);
    for (int i = 0; i < 20; ++i) f.Alloc(10000);
    if (f.allocator->mem_type() == QNN_LPAI_MEM_TYPE_TCM) f.Fails(kTcmBytes);
    CHECK_EQ(Counts().buffers, before.buffers + 20);
  }
  const qnnrt_memory_counts_t after = Counts();
  CHECK_EQ(after.buffers, before.buffers);
  CHECK_EQ(after.fds, before.fds);
  CHECK_EQ(after.maps, before.maps);
}

TEST(ThreadsShareAPool) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  f.Alloc(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto piece = f.allocator->Allocate(1000 + static_cast<uint64_t>(t));
        CHECK_OK(piece.status());
        if (!piece.ok()) return;
        std::memset(InfoOf(*piece).address, t, 1000);
        // Half of them go as buffers, past the allocator.
        if (i % 2) {
          CHECK_OK(f.allocator->Free(*piece));
        } else {
          CHECK_EQ(qnnrt_buffer_release(*piece), 0u);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(f.Info().pieces, 1u);
  CHECK_EQ(f.Info().used_bytes, 64u);
}

#if !defined(__SANITIZE_THREAD__)
TEST(AForkedChildIsRefused) {
  Fixture f("tcm");
  REQUIRE(f.allocator);
  const SlotHandle piece = f.Alloc(64);
  const pid_t child = fork();
  if (child == 0) {
    const uint32_t refused = QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED;
    const bool good = f.allocator->Allocate(64).status().code() == refused &&
                      f.allocator->Free(piece).code() == refused &&
                      f.allocator->info().status().code() == refused &&
                      f.allocator->Close().code() == refused;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_OK(f.allocator->Free(piece));
}
#endif

}  // namespace

CHECK_MAIN("tcm_test")
