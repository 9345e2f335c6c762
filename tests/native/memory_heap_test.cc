// One contract for every heap that this machine has, and for the adaptors on top.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "check.h"
#include "memory/adaptors.h"
#include "memory/heaps.h"
#include "memory/mapping.h"
#include "memory/pool.h"

using namespace qnnrt;

namespace {

Counters g_counters;

// Builds fakerpc.c beside a temporary directory's other files; empty when there is no C compiler.
std::string BuildFake(const char* name, const char* options, const char* source = "fakerpc.c") {
  static char folder[] = "/tmp/qnnrt-fakerpc-XXXXXX";
  static bool made = mkdtemp(folder) != nullptr;
  if (!made) return "";
  std::string here = __FILE__;
  here = here.substr(0, here.rfind('/') + 1);
  std::string library = std::string(folder) + "/" + name;
  std::string path = *source == '/' ? source : here + source;
  std::string command = "cc -shared -fPIC -w -x c " + path + " " + options + " -o " + library +
                        " -lpthread 2>/dev/null";
  if (std::system(command.c_str()) != 0) return "";
  return library;
}

struct Named {
  std::string name;
  std::unique_ptr<Heap> heap;
};

std::vector<Named>& Heaps() {
  static std::vector<Named> heaps = [] {
    std::vector<Named> all;
    auto add = [&all](const char* name, std::unique_ptr<Heap> heap) {
      Result<Allocation> tried = heap->Allocate(1, 1);
      if (!tried.ok()) return check::Skip(name, tried.status().message());
      heap->Free(*tried);
      all.push_back({name, std::move(heap)});
    };
    add("memfd", NewMemfdHeap(&g_counters));
    add("udmabuf", NewUdmabufHeap("/dev/udmabuf", &g_counters));
    add("dma_heap", NewDmaHeap("/dev/dma_heap/system", &g_counters));
    std::string fake = BuildFake("libfakerpc.so", "");
    if (fake.empty()) {
      check::Skip("vendor", "no C compiler to build fakerpc.c with");
    } else {
      Result<VendorApi> api = LoadVendorApi(fake);
      if (CHECK_OK(api.status())) add("vendor", NewVendorHeap(*api, &g_counters));
    }
    return all;
  }();
  return heaps;
}

void ForEachHeap(const std::function<void(Heap&)>& body) {
  for (Named& named : Heaps()) {
    const int64_t maps = g_counters.maps, fds = g_counters.fds;
    const int failures = check::failures;
    body(*named.heap);
    CHECK_EQ(g_counters.maps.load(), maps);
    CHECK_EQ(g_counters.fds.load(), fds);
    if (check::failures != failures) std::fprintf(stderr, "  with heap %s\n", named.name.c_str());
  }
}

uintptr_t Address(const Allocation& a) { return reinterpret_cast<uintptr_t>(a.address); }

TEST(TheHeapsAreThere) {
  CHECK(!Heaps().empty());
  // On a machine that is known to have them, a missing one is a failure: "dma_heap udmabuf".
  const char* text = std::getenv("QNNRT_TEST_REQUIRE_HEAPS");
  std::istringstream required(text ? text : "");
  for (std::string name; required >> name;) {
    bool found = false;
    for (const Named& heap : Heaps()) found |= heap.name == name;
    if (!CHECK(found)) std::fprintf(stderr, "  required heap: %s\n", name.c_str());
  }
}

TEST(SizesAndAlignments) {
  ForEachHeap([](Heap& heap) {
    for (size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1} << 20,
                        (size_t{2} << 20) + 1, size_t{4} << 20}) {
      for (size_t alignment :
           {size_t{1}, size_t{64}, size_t{4096}, size_t{65536}, size_t{2} << 20}) {
        Result<Allocation> a = heap.Allocate(size, alignment);
        if (!CHECK_OK(a.status())) continue;
        CHECK(a->size >= size);
        CHECK_EQ(a->size % PageSize(), 0u);
        CHECK_EQ(Address(*a) % alignment, 0u);
        CHECK(a->fd >= 0);
        CHECK(fcntl(a->fd, F_GETFD) & FD_CLOEXEC);
        CHECK(a->reusable);
        Result<FileId> id = IdOfFd(a->fd);
        CHECK(id.ok() && *id == a->id);
        Result<uint64_t> behind = SizeOfFd(a->fd);
        CHECK(behind.ok() && *behind >= a->fd_offset + a->size);
        auto* bytes = static_cast<unsigned char*>(a->address);
        CHECK(bytes[0] == 0 && bytes[a->size - 1] == 0);  // fresh from the kernel
        bytes[0] = 0xAB;
        bytes[a->size - 1] = 0xCD;
        heap.Free(*a);
        CHECK(a->address == nullptr && a->fd == -1);
      }
    }
  });
}

TEST(TheFdIsTheMemory) {
  ForEachHeap([](Heap& heap) {
    Result<Allocation> a = heap.Allocate(16384, 65536);
    if (!CHECK_OK(a.status())) return;
    CHECK_OK(heap.Sync(*a, CpuAccess::kWrite, SyncPoint::kBegin));
    std::memset(a->address, 0x5A, a->size);
    CHECK_OK(heap.Sync(*a, CpuAccess::kWrite, SyncPoint::kEnd));
    int other = dup(a->fd);
    const uint64_t skew = a->fd_offset % PageSize();
    CHECK_EQ(skew, 0u);
    void* second = mmap(nullptr, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, other,
                        static_cast<off_t>(a->fd_offset));
    REQUIRE(second != MAP_FAILED);
    close(other);
    if (!heap.coherent()) CHECK_OK(DmaBufSync(a->fd, CpuAccess::kRead, SyncPoint::kBegin));
    CHECK_EQ(std::memcmp(second, a->address, a->size), 0);
    static_cast<char*>(second)[100] = 7;
    CHECK_EQ(static_cast<char*>(a->address)[100], 7);
    if (!heap.coherent()) CHECK_OK(DmaBufSync(a->fd, CpuAccess::kRead, SyncPoint::kEnd));
    heap.Free(*a);
    CHECK_EQ(static_cast<char*>(second)[100], 7);  // the file lives on in the other mapping
    munmap(second, 16384);
  });
}

TEST(BadArguments) {
  ForEachHeap([](Heap& heap) {
    CHECK_EQ(heap.Allocate(0, 64).status().code(), QNN_COMMON_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(heap.Allocate(64, 0).status().code(), QNN_COMMON_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(heap.Allocate(64, 48).status().code(), QNN_COMMON_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(heap.Allocate(64, kMaxAlignment * 2).status().code(),
             QNN_COMMON_ERROR_INVALID_ARGUMENT);
    CHECK_EQ(heap.Allocate(SIZE_MAX, 64).status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
    CHECK_EQ(heap.Allocate(SIZE_MAX / 2, 64).status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
    if (std::string(heap.name()) != "vendor") {  // 16 TiB: says no instead of being killed
      CHECK_EQ(heap.Allocate(size_t{1} << 44, 64).status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
    }
  });
}

TEST(SealedAgainstShrinking) {
  ForEachHeap([](Heap& heap) {
    Result<Allocation> a = heap.Allocate(8192, 1);
    if (!CHECK_OK(a.status())) return;
    if (std::string(heap.name()) != "vendor") CHECK(ftruncate(a->fd, 4096) != 0);
    heap.Free(*a);
  });
}

TEST(RunningOutOfFds) {
  ForEachHeap([](Heap& heap) {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int probe = dup(0);
    close(probe);
    rlimit low = limit;
    low.rlim_cur = static_cast<rlim_t>(probe) + 3;
    setrlimit(RLIMIT_NOFILE, &low);
    std::vector<Allocation> held;
    Status status;
    for (int i = 0; i < 8 && status.ok(); ++i) {
      Result<Allocation> a = heap.Allocate(4096, 4096);
      if (a.ok()) {
        held.push_back(*a);
      } else {
        status = std::move(a).status();
      }
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK(!status.ok() && !status.message().empty());
    for (Allocation& a : held) heap.Free(a);
    Result<Allocation> again = heap.Allocate(4096, 4096);
    if (CHECK_OK(again.status())) heap.Free(*again);
  });
}

TEST(RunningOutOfAddresses) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return check::Skip("address limit", "sanitizers reserve terabytes");
#endif
  ForEachHeap([](Heap& heap) {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    rlimit low = limit;
    low.rlim_cur = pages * PageSize() + (rlim_t{8} << 20);
    setrlimit(RLIMIT_AS, &low);
    rlimit holds;
    getrlimit(RLIMIT_AS, &holds);
    if (holds.rlim_cur != low.rlim_cur) return check::Skip("address limit", "none under qemu-user");
    Result<Allocation> plain = heap.Allocate(size_t{32} << 20, 4096);
    Result<Allocation> aligned = heap.Allocate(4096, size_t{64} << 20);
    setrlimit(RLIMIT_AS, &limit);
    CHECK_EQ(plain.status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
    CHECK_EQ(aligned.status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
  });
}

TEST(ManyThreads) {
  ForEachHeap([](Heap& heap) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&heap, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 50; ++i) {
          Result<Allocation> a = heap.Allocate(1 + random() % 20000, 64);
          if (!CHECK_OK(a.status())) return;
          std::memset(a->address, static_cast<int>(t), a->size);
          CHECK_EQ(static_cast<unsigned char*>(a->address)[a->size - 1], t);
          heap.Free(*a);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

// The value in kB of a line of the mapping's entry in smaps, -1 when absent.
long SmapsValue(const void* address, const std::string& key) {
  std::ifstream smaps("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<uintptr_t>(address) << "-";
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.rfind(start.str(), 0) == 0) inside = true;
    if (inside && line.rfind(key + ":", 0) == 0) return std::atol(line.c_str() + key.size() + 1);
  }
  return -1;
}

bool OnHugePages(const void* address, size_t size) {
  return SmapsValue(address, "KernelPageSize") == kHugePageSize >> 10 ||
         SmapsValue(address, "ShmemPmdMapped") == static_cast<long>(size >> 10);
}

// Whether this machine has huge pages now: in a pool, or for a memfd of our own that asks for them.
// (Others take them, and memory may lie in pieces.)
bool MachineGrantsHugePages(size_t size) {
  const auto number = [](const std::string& name) {
    std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/" + name);
    long value = 0;
    file >> value;
    return value;
  };
  const long pages = static_cast<long>(size / kHugePageSize);
  if (number("free_hugepages") - number("resv_hugepages") >= pages) return true;
  const int fd = memfd_create("huge", MFD_CLOEXEC);
  const size_t room = size + kHugePageSize;
  void* reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool granted = false;
  if (fd >= 0 && reserved != MAP_FAILED && ftruncate(fd, static_cast<off_t>(size)) == 0) {
    const uintptr_t aligned =
        (reinterpret_cast<uintptr_t>(reserved) + kHugePageSize - 1) / kHugePageSize * kHugePageSize;
    void* mapped = mmap(reinterpret_cast<void*>(aligned), size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, fd, 0);
    if (mapped != MAP_FAILED && madvise(mapped, size, MADV_HUGEPAGE) == 0) {
      std::memset(mapped, 1, size);
      granted = OnHugePages(mapped, size);
    }
  }
  if (reserved != MAP_FAILED) munmap(reserved, room);
  if (fd >= 0) close(fd);
  return granted;
}

TEST(HugePagesWhereTheMachineGrantsThem) {
  constexpr size_t kSize = kHugePageSize * 2;
  auto heap = NewMemfdHeap(&g_counters);
  bool huge = false, granted = true;
  for (int i = 0; i < 20 && !huge && granted; ++i) {
    Result<Allocation> a = heap->Allocate(kSize, 4096);
    REQUIRE(CHECK_OK(a.status()));
    static_cast<char*>(a->address)[kHugePageSize] = 1;
    CHECK(fcntl(a->fd, F_GET_SEALS) & F_SEAL_SHRINK);
    CHECK_EQ(a->size, kSize);
    huge = OnHugePages(a->address, kSize);
    heap->Free(*a);
    granted = MachineGrantsHugePages(kSize);
  }
  if (huge || granted) {
    CHECK(huge);
  } else {
    check::Skip("huge pages", "this machine grants none now");
  }
  Result<Allocation> a = heap->Allocate(kSize + 4096, 4096);  // not whole huge pages
  REQUIRE(CHECK_OK(a.status()));
  CHECK_EQ(a->size, kSize + 4096);
  heap->Free(*a);
}

TEST(StatisticsCount) {
  StatisticsHeap heap(Heaps().front().heap.get());
  Result<Allocation> a = heap.Allocate(4096, 64), b = heap.Allocate(8192, 64);
  REQUIRE(a.ok() && b.ok());
  CHECK(!heap.Allocate(0, 64).ok());
  CHECK_EQ(heap.totals().live_bytes, 12288);
  heap.Free(*b);
  CHECK_EQ(heap.totals().live_bytes, 4096);
  CHECK_EQ(heap.totals().peak_bytes, 12288);
  CHECK_EQ(heap.totals().live_allocations, 1);
  CHECK_EQ(heap.totals().allocations, 2);
  CHECK_EQ(heap.totals().failures, 1);
  heap.Free(*a);
}

TEST(PoolReuses) {
  StatisticsHeap counted(Heaps().front().heap.get());
  ReusePool pool(64 * 4096);
  PoolHeap heap(&counted, &pool);
  Result<Allocation> a = heap.Allocate(5000, 4096);
  REQUIRE(a.ok());
  void* address = a->address;
  const int fd = a->fd;
  heap.Free(*a);
  CHECK(a->address == nullptr);
  a = heap.Allocate(8000, 4096);  // the same two pages
  REQUIRE(a.ok());
  CHECK_EQ(a->address, address);
  CHECK_EQ(a->fd, fd);
  CHECK_EQ(counted.totals().allocations, 1);
  heap.Free(*a);
  Result<Allocation> aligned = heap.Allocate(8192, size_t{1} << 21);
  REQUIRE(aligned.ok());
  CHECK_EQ(Address(*aligned) % (size_t{1} << 21), 0u);
  aligned->reusable = false;  // as if its fd had left
  heap.Free(*aligned);
  CHECK_EQ(pool.stats().entries, (reinterpret_cast<uintptr_t>(address) % (1u << 21)) ? 1u : 0u);
  CHECK_EQ(heap.Allocate(4096, 3).status().code(), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  CHECK(pool.Trim(0) <= 8192u);
  CHECK_EQ(counted.totals().live_bytes, 0);
}

TEST(PoolIsBounded) {
  StatisticsHeap counted(Heaps().front().heap.get());
  ReusePool pool(10 * 4096);
  PoolHeap heap(&counted, &pool);
  std::mt19937 random(20260101);
  std::vector<Allocation> held;
  for (int i = 0; i < 500; ++i) {
    if (held.empty() || random() % 2) {
      Result<Allocation> a = heap.Allocate(1 + random() % (12 * 4096), 1);
      REQUIRE(a.ok());
      held.push_back(*a);
    } else {
      std::swap(held[random() % held.size()], held.back());
      heap.Free(held.back());
      held.pop_back();
    }
    CHECK(pool.stats().bytes <= pool.stats().limit);
  }
  CHECK(pool.stats().hits > 0 && pool.stats().evictions > 0);
  pool.SetLimit(4096);
  CHECK(pool.stats().bytes <= 4096);
  for (Allocation& a : held) heap.Free(a);
  pool.Trim(0);
  CHECK_EQ(pool.stats().bytes, 0u);
  CHECK_EQ(counted.totals().live_bytes, 0);
  CHECK_EQ(counted.totals().live_allocations, 0);
}

TEST(VendorLibraryWithoutAlloc2) {
  std::string fake = BuildFake("libfakerpc_old.so", "-DFAKERPC_OLD");
  if (fake.empty()) return check::Skip("old vendor library", "no C compiler");
  Result<VendorApi> api = LoadVendorApi(fake);
  REQUIRE(CHECK_OK(api.status()));
  CHECK(api->alloc2 == nullptr);
  auto heap = NewVendorHeap(*api, &g_counters);
  Result<Allocation> a = heap->Allocate(4096, size_t{1} << 21);  // found inside a larger block
  REQUIRE(CHECK_OK(a.status()));
  CHECK_EQ(Address(*a) % (size_t{1} << 21), 0u);
  std::memset(a->address, 1, a->size);
  heap->Free(*a);
  CHECK_EQ(heap->Allocate(size_t{3} << 30, 4096).status().code(), QNN_COMMON_ERROR_MEM_ALLOC);
  void* library = dlopen(fake.c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto live = reinterpret_cast<int (*)()>(dlsym(library, "fakerpc_live"));
  CHECK_EQ(live(), 0);
}

TEST(VendorFunctionsThatFail) {
  VendorApi api;
  api.alloc2 = [](int, uint32_t, size_t) -> void* { return nullptr; };
  api.to_fd = [](void*) { return -1; };
  static int freed;
  freed = 0;
  api.free = [](void*) { ++freed; };
  CHECK_EQ(NewVendorHeap(api, &g_counters)->Allocate(64, 64).status().code(),
           QNN_COMMON_ERROR_MEM_ALLOC);
  api.alloc2 = [](int, uint32_t, size_t) -> void* { return reinterpret_cast<void*>(0x10000); };
  CHECK_EQ(NewVendorHeap(api, &g_counters)->Allocate(64, 64).status().code(),
           QNN_COMMON_ERROR_SYSTEM);
  CHECK_EQ(freed, 1);
}

TEST(OurOwnShimIsRefused) {
  CHECK(!LoadVendorApi("/nonexistent/libcdsprpc.so").ok());
  std::string marked = BuildFake("libmarked.so", "-Dfakerpc_live=qnnrt_is_shim");
  if (marked.empty()) return check::Skip("marked library", "no C compiler");
  Result<VendorApi> api = LoadVendorApi(marked);
  CHECK(!api.ok() && api.status().message().find("own drop-in") != std::string::npos);
  std::string other = BuildFake("libother.so", "-Drpcmem_free=other_free");
  CHECK(!LoadVendorApi(other).ok());  // lacks a function
}

TEST(DefaultsAndForcedHeaps) {
  std::string fake = BuildFake("libcdsprpc.so", "");
  if (!fake.empty()) {
    HeapSet best(nullptr, fake.c_str(), &g_counters);
    REQUIRE(best.default_heap());
    CHECK_EQ(std::string(best.default_heap()->name()), "vendor");
    CHECK_EQ(best.all().size(), 4u);
  }
  HeapSet forced("memfd", "/nonexistent.so", &g_counters);
  REQUIRE(forced.default_heap());
  CHECK_EQ(std::string(forced.default_heap()->name()), "memfd");
  CHECK(forced.default_reason().find("QNNRT_HEAP") != std::string::npos);
  CHECK_EQ(forced.Find("vendor").status().code(), QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE);
  CHECK_EQ(forced.Find("nonsense").status().code(), QNN_COMMON_ERROR_INVALID_ARGUMENT);
  HeapSet absent("vendor", "/nonexistent.so", &g_counters);
  CHECK(absent.default_heap() == nullptr);
  CHECK_EQ(absent.Find(nullptr).status().code(), QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE);
  HeapSet unknown("nonsense", "/nonexistent.so", &g_counters);
  CHECK(unknown.default_heap() == nullptr);
  CHECK(unknown.default_reason().find("nonsense") != std::string::npos);
}

}  // namespace

CHECK_MAIN("memory_heap_test")
