// CPU access to memory that devices share without coherence: each execution brackets its own with
// DMA_BUF_IOCTL_SYNC, around everything it does and whatever happens in between.
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "api/runtime.h"
#include "memory/memory.h"
#include "qmem_net.h"

using namespace qmem;

namespace {

struct Call {
  int fd;
  uint64_t flags;
};
std::vector<Call> g_calls;
int g_pretend = -1;       // an fd that is taken for a dma-buf
int g_fail_at = 1 << 30;  // the call that fails

}  // namespace

// Ours before libc's: every sync is noted on its way.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list args;
  va_start(args, request);
  void* argument = va_arg(args, void*);
  va_end(args);
  if (request == DMA_BUF_IOCTL_SYNC) {
    g_calls.push_back({fd, static_cast<dma_buf_sync*>(argument)->flags});
    if (static_cast<int>(g_calls.size()) > g_fail_at) {
      errno = EINVAL;
      return -1;
    }
    if (fd == g_pretend) return 0;
  }
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

namespace {

qnnrt::Graph& GraphOf(const Net& net) {
  return qnnrt::Runtime::Get().graphs.Find(net.graph)->graph;
}

constexpr uint64_t kBeginRead = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ;
constexpr uint64_t kEndRead = DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ;
constexpr uint64_t kBeginAll = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW;
constexpr uint64_t kEndAll = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;

// Which flags were passed, in order.
std::vector<uint64_t> Flags() {
  std::vector<uint64_t> flags;
  for (const Call& c : g_calls) flags.push_back(c.flags);
  return flags;
}

}  // namespace

TEST(each_execution_brackets_and_a_failing_sync_ends_what_began) {
  Net net;
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kHandle, kHandle) == 0 && net.Finalize() == 0);
  REQUIRE(net.UseAll(kRaw, kHandle, kHandle) == 0 && net.Right(1));
  CHECK(g_calls.empty());  // memory of rpcmem is coherent by its own promise
  qnnrt::Binding binding;
  CHECK_OK(GraphOf(net).Bind(net.t, 2, net.t + 2, 1, &binding));
  g_pretend = net.shared[1]->fd();
  binding.syncs = {{g_pretend, qnnrt::CpuAccess::kRead}, {g_pretend, qnnrt::CpuAccess::kReadWrite}};
  CHECK_OK(GraphOf(net).Run(binding, {}));
  CHECK(Flags() == (std::vector<uint64_t>{kBeginRead, kBeginAll, kEndAll, kEndRead}));

  // The second begin fails: nothing runs, the first one is ended.
  g_calls.clear();
  g_fail_at = 1;
  net.shared[2]->floats()[0] = -7;
  CHECK(!GraphOf(net).Run(binding, {}).ok());
  CHECK_EQ(net.shared[2]->floats()[0], -7.0f);
  CHECK(Flags() == (std::vector<uint64_t>{kBeginRead, kBeginAll, kEndRead}));
  CHECK_EQ(net.Stats().executes, 2u);

  // An end fails: the caller hears of it, and every other one is still ended.
  g_calls.clear();
  g_fail_at = 2;
  CHECK(!GraphOf(net).Run(binding, {}).ok());
  CHECK_EQ(g_calls.size(), 4u);
  g_fail_at = 1 << 30;
  g_calls.clear();
  qnnrt::Graph::Release(&binding);
  CHECK(binding.syncs.empty());
}

// With real dma-bufs, where this machine makes them: see tests/beds.
TEST(registered_dma_bufs_are_bracketed_and_memory_of_our_own_is_not) {
  const char* const names[] = {"dma_heap", "udmabuf"};
  for (const char* name : names) {
    qnnrt::Memory& memory = qnnrt::Memory::Get();
    qnnrt::Result<qnnrt::SlotHandle> made = memory.Allocate(name, 4096, 0);
    if (!made.ok()) {
      check::Skip(name, made.status().message());
      continue;
    }
    qnnrt::Buffer* buffer = memory.buffers().Pin(*made);
    const int fd = buffer->fd;
    auto* data = reinterpret_cast<float*>(buffer->address);
    memory.buffers().Unpin(buffer);
    const int outside = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, outside, 0);
    REQUIRE(mapped != MAP_FAILED);
    Net net;
    REQUIRE(net.Open() == 0 && net.Compose(kHandle, kHandle, kHandle) == 0 && net.Finalize() == 0);
    auto use = [&net](Qnn_MemType_t type, int from, void* address) {
      Qnn_MemDescriptor_t d = {};
      d.memShape = {2, net.dims, nullptr};
      d.dataType = QNN_DATATYPE_FLOAT_32;
      d.memType = type;
      if (type == QNN_MEM_TYPE_ION) {
        d.ionInfo.fd = from;
      } else {
        d.dmaBufInfo = {from, address};
      }
      Qnn_MemHandle_t h = nullptr;
      const Code e = q.memRegister(net.context, &d, 1, &h);
      net.t[2].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
      net.t[2].v1.memHandle = net.handles[2] = h;
      return e;
    };
    auto check_run = [&](size_t syncs) {
      REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0);
      net.t[2].v1.memType = QNN_TENSORMEMTYPE_MEMHANDLE;
      net.t[2].v1.memHandle = net.handles[2];
      net.raw[0].assign(net.count, 2.5f);
      data[7] = 0;
      g_calls.clear();
      CHECK_EQ(net.Run(), 0u);
      CHECK_EQ(data[7], 2.5f);
      CHECK_EQ(g_calls.size(), syncs);
      if (syncs == 2) CHECK(Flags() == (std::vector<uint64_t>{kBeginAll, kEndAll}));
      CHECK_EQ(q.memDeRegister(&net.handles[2], 1), 0u);
      net.handles[2] = nullptr;
    };
    REQUIRE(use(QNN_MEM_TYPE_DMA_BUF, outside, mapped) == 0);  // the client's own mapping
    check_run(2);
    REQUIRE(use(QNN_MEM_TYPE_DMA_BUF, fd, data) == 0);  // our buffer, as a dma-buf
    check_run(2);
    REQUIRE(use(QNN_MEM_TYPE_ION, fd, nullptr) == 0);  // our buffer, which nobody else has
    check_run(0);
    munmap(mapped, 4096);
    close(outside);
    net.Close();
    CHECK_OK(memory.buffers().Release(*made));
  }
}

CHECK_MAIN("qmem_sync_test")
