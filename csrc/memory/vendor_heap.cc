// The vendor's rpcmem: memory that FastRPC has mapped for the DSP already.
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include "abi/qnn_errors.h"
#include "abi/rpcmem.h"
#include "memory/heap_common.h"
#include "memory/heaps.h"
#include "support/checked.h"

namespace qnnrt {
namespace {

class VendorHeap final : public Heap {
 public:
  VendorHeap(const VendorApi& api, Counters* counters)
      : api_(api), counters_(counters), pid_(getpid()) {}

  const char* name() const override { return "vendor"; }
  // FastRPC allocates cached memory and does the cache maintenance itself.
  bool coherent() const override { return true; }
  Status Sync(const Allocation&, CpuAccess, SyncPoint) override { return Status::Ok(); }

  Result<Allocation> Allocate(size_t size, size_t alignment) override {
    if (getpid() != pid_) {
      return Error(
          QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
          "the vendor's session belongs to the parent process; start this one without fork");
    }
    QNNRT_ASSIGN_OR_RETURN(size_t rounded, RoundAllocation(size, alignment, PageSize()));
    // rpcmem aligns to pages. More is found inside a larger block; to_fd knows only the block's
    // start, which is why base stays in the record.
    uint64_t block = rounded;
    if (alignment > PageSize() && !CheckedAdd(rounded, alignment, &block)) {
      return Error(QNN_COMMON_ERROR_MEM_ALLOC, "%zu bytes aligned to %zu: too large", size,
                   alignment);
    }
    void* base = nullptr;
    if (api_.alloc2) {
      base = api_.alloc2(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, block);
    } else if (block <= INT_MAX) {
      base = api_.alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, static_cast<int>(block));
    } else {
      return Error(QNN_COMMON_ERROR_MEM_ALLOC,
                   "%zu bytes: this rpcmem has no rpcmem_alloc2 and rpcmem_alloc takes at most %d",
                   size, INT_MAX);
    }
    if (!base) return Error(QNN_COMMON_ERROR_MEM_ALLOC, "rpcmem_alloc of %zu bytes failed", size);
    Allocation allocation;
    allocation.fd = api_.to_fd(base);
    uintptr_t start = (reinterpret_cast<uintptr_t>(base) + alignment - 1) & ~(alignment - 1);
    uint64_t shift = start - reinterpret_cast<uintptr_t>(base);
    Result<FileId> id = IdOfFd(allocation.fd);
    if (!id.ok() || shift > block - rounded) {
      api_.free(base);
      return Error(QNN_COMMON_ERROR_SYSTEM, "%s",
                   id.ok() ? "rpcmem_alloc gave an address that is not aligned to pages"
                           : "rpcmem_to_fd knows no fd for rpcmem_alloc's own memory");
    }
    allocation.id = *id;
    allocation.address = reinterpret_cast<void*>(start);
    allocation.size = rounded;
    allocation.fd_offset = shift;
    allocation.base = base;
    allocation.base_size = block;
    counters_->maps.fetch_add(1, std::memory_order_relaxed);
    counters_->fds.fetch_add(1, std::memory_order_relaxed);
    return allocation;
  }

  void Free(Allocation& allocation) override {
    if (allocation.base && getpid() == pid_) {
      api_.free(allocation.base);
      counters_->maps.fetch_sub(1, std::memory_order_relaxed);
      counters_->fds.fetch_sub(1, std::memory_order_relaxed);
    }
    allocation = Allocation();
  }

 private:
  VendorApi api_;
  Counters* counters_;
  pid_t pid_;
};

template <typename F>
void Resolve(void* library, const char* symbol, F* out) {
  *out = reinterpret_cast<F>(dlsym(library, symbol));
}

}  // namespace

Result<VendorApi> LoadVendorApi(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return Error(QNN_COMMON_ERROR_LOADING_BINARIES, "%s", why ? why : library.c_str());
  }
  if (dlsym(handle, "qnnrt_is_shim")) {
    dlclose(handle);
    return Error(QNN_COMMON_ERROR_LOADING_BINARIES, "%s is qnnrt's own drop-in, not the vendor's",
                 library.c_str());
  }
  VendorApi api;
  Resolve(handle, "rpcmem_alloc", &api.alloc);
  Resolve(handle, "rpcmem_alloc2", &api.alloc2);
  Resolve(handle, "rpcmem_free", &api.free);
  Resolve(handle, "rpcmem_to_fd", &api.to_fd);
  if (!api.alloc || !api.free || !api.to_fd) {
    dlclose(handle);
    return Error(QNN_COMMON_ERROR_LOADING_BINARIES,
                 "%s lacks rpcmem_alloc, rpcmem_free or rpcmem_to_fd", library.c_str());
  }
  return api;
}

std::unique_ptr<Heap> NewVendorHeap(const VendorApi& api, Counters* counters) {
  return std::make_unique<VendorHeap>(api, counters);
}

}  // namespace qnnrt
