#include "memory/memory.h"

#include <pthread.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "abi/qnn_errors.h"
#include "memory/process_domain.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr uint64_t kDefaultPoolBytes = uint64_t{256} << 20;

uint64_t PoolLimitFromEnvironment() {
  const char* text = std::getenv("QNNRT_POOL_BYTES");
  if (!text || !*text) return kDefaultPoolBytes;
  char* end;
  unsigned long long bytes = std::strtoull(text, &end, 10);
  return *end == '\0' ? bytes : kDefaultPoolBytes;
}

bool Flag(const char* name) {
  const char* text = std::getenv(name);
  return text && *text && std::strcmp(text, "0") != 0;
}

Memory* g_memory = nullptr;  // the same object as Get()'s; null before it is made

}  // namespace

Memory& Memory::Get() {
  static Memory* memory = [] {
    g_memory = new Memory();
    pthread_atfork(&BeforeFork, &AfterForkParent, &AfterForkChild);
    return g_memory;
  }();
  return *memory;
}

Memory::Memory()
    : heaps_(std::getenv("QNNRT_HEAP"), std::getenv("QNNRT_VENDOR_LIBRARY"), &counters_),
      pool_(PoolLimitFromEnvironment()),
      buffers_(&counters_),
      registry_(&buffers_, &counters_),
      strict_(Flag("QNNRT_STRICT")),
      forced_heap_(Flag("QNNRT_HEAP")) {
  for (const HeapStatus& status : heaps_.all()) {
    Stack stack;
    if (status.heap) {
      stack.statistics = std::make_unique<StatisticsHeap>(status.heap);
      stack.pool = std::make_unique<PoolHeap>(stack.statistics.get(), &pool_);
    }
    stacks_.push_back(std::move(stack));
  }
}

Result<SlotHandle> Memory::Allocate(const char* heap, uint64_t nbytes, uint64_t alignment,
                                    uint32_t flags) {
  if (alignment == 0) alignment = PageSize();
  if (nbytes == 0 || !IsPowerOfTwo(alignment) || alignment > kMaxAlignment) {
    return Error(
        QNN_COMMON_ERROR_INVALID_ARGUMENT,
        "expected a size above 0 and an alignment that is a power of two up to %zu, got %llu "
        "bytes aligned to %llu",
        kMaxAlignment, static_cast<unsigned long long>(nbytes),
        static_cast<unsigned long long>(alignment));
  }
  if (fail_countdown_.load(std::memory_order_relaxed) > 0 &&
      fail_countdown_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    return Error(QNN_COMMON_ERROR_MEM_ALLOC, "allocation of %llu bytes failed on request",
                 static_cast<unsigned long long>(nbytes));
  }
  QNNRT_ASSIGN_OR_RETURN(Heap * chosen, heaps_.Find(heap));
  const bool any = (!heap || !*heap) && !forced_heap_;
  Status first;
  bool reached = false;
  for (size_t i = 0; i < stacks_.size(); ++i) {
    reached |= heaps_.all()[i].heap == chosen;
    if (!reached || !stacks_[i].pool) continue;
    Result<SlotHandle> buffer = buffers_.Allocate(stacks_[i].pool.get(), nbytes, alignment, flags);
    if (buffer.ok()) return buffer;
    if (first.ok()) first = std::move(buffer).status();
    if (!any) break;
  }
  return std::move(first).Within(std::string("heap ") + chosen->name());
}

Status Memory::Close(SlotHandle buffer) {
  Status status = buffers_.Close(buffer);
  if (status.code() != QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED) return status;
  const BufferPin b = Pin(buffer);
  if (!b) return status;
  return WithHolders(std::move(status), b.get());
}

Status Memory::CheckFree(SlotHandle buffer) {
  const BufferPin b = Pin(buffer);
  if (!b || !b->Held()) return Status::Ok();
  return WithHolders(BufferTable::InUse(*b.get()), b.get());
}

Status Memory::WithHolders(Status status, const Buffer* b) {
  const std::string pools = client_pools_.HoldersOf(b);
  if (!pools.empty())
    return Error(status.code(), "%s (it is %s)", status.message().c_str(), pools.c_str());
  const bool registered = b->registrations.load(std::memory_order_relaxed) > 0;
  const uint32_t running = registered ? registry_.InFlight(b) : 0;
  if (running == 0) return status;
  return Error(status.code(), "%s (executions in flight use %u of its memory handles)",
               status.message().c_str(), running);
}

StatisticsHeap::Totals Memory::HeapTotals(const char* name) const {
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (stacks_[i].statistics && std::strcmp(heaps_.all()[i].name, name) == 0) {
      return stacks_[i].statistics->totals();
    }
  }
  return {};
}

void Memory::Warn(const char* format, ...) const {
  char message[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  if (WarningSink sink = sink_.load(std::memory_order_acquire)) {
    sink(message);
  } else {
    std::fprintf(stderr, "qnnrt: warning: %s\n", message);
  }
}

// ---- fork ----
// The locks are taken across a fork so that the child sees whole tables. In the child they are made
// anew (a lock belongs to the thread id that took it), what came from the parent is marked, and the
// pool is dropped: its memory is still shared with the parent.

void Memory::BeforeFork() {
  g_memory->registry_.mutex().lock();
  g_memory->buffers_.mutex().lock();
  g_memory->pool_.mutex().lock();
  g_memory->client_maps_.mutex().lock();
  g_memory->client_pools_.mutex().lock();
  ProcessDomain::Htp().mutex().lock();
}

void Memory::AfterForkParent() {
  ProcessDomain::Htp().mutex().unlock();
  g_memory->client_pools_.mutex().unlock();
  g_memory->client_maps_.mutex().unlock();
  g_memory->pool_.mutex().unlock();
  g_memory->buffers_.mutex().unlock();
  g_memory->registry_.mutex().unlock();
}

void Memory::AfterForkChild() {
  new (&ProcessDomain::Htp().mutex()) std::mutex;
  new (&g_memory->client_pools_.mutex()) std::mutex;
  new (&g_memory->client_maps_.mutex()) std::mutex;
  new (&g_memory->pool_.mutex()) std::mutex;
  new (&g_memory->buffers_.mutex()) std::shared_mutex;
  new (&g_memory->registry_.mutex()) std::mutex;
  g_memory->pool_.ResetAfterFork();
  g_memory->buffers_.MarkInheritedAfterFork();
  g_memory->registry_.InvalidateAfterFork();
}

}  // namespace qnnrt
