#include "memory/heaps.h"

#include <cstring>
#include <functional>

#include "abi/qnn_errors.h"

namespace qnnrt {
namespace {

constexpr char kDmaHeapDevice[] = "/dev/dma_heap/system";
constexpr char kUdmabufDevice[] = "/dev/udmabuf";
constexpr char kVendorLibrary[] = "libcdsprpc.so";

// A device node that opens can still have nothing behind it: only an allocation shows.
Status Try(Heap* heap) {
  QNNRT_ASSIGN_OR_RETURN(Allocation allocation, heap->Allocate(1, 1));
  heap->Free(allocation);
  return Status::Ok();
}

}  // namespace

HeapSet::HeapSet(const char* forced, const char* vendor_library, Counters* counters) {
  if (forced && !*forced) forced = nullptr;
  if (!vendor_library || !*vendor_library) vendor_library = kVendorLibrary;
  auto add = [&](const char* name, Result<std::unique_ptr<Heap>> made, const std::string& uses,
                 bool certain = false) {
    HeapStatus status;
    status.name = name;
    Status tried = !made.ok() ? std::move(made).status() : certain ? Status() : Try(made->get());
    if (tried.ok()) {
      status.heap = made->get();
      status.reason = uses;
      owned_.push_back(std::move(*made));
    } else {
      status.reason = tried.message();
    }
    all_.push_back(std::move(status));
  };
  auto vendor = [&]() -> Result<std::unique_ptr<Heap>> {
    QNNRT_ASSIGN_OR_RETURN(VendorApi api, LoadVendorApi(vendor_library));
    return NewVendorHeap(api, counters);
  };
  add("vendor", vendor(), std::string("rpcmem of ") + vendor_library);
  add("dma_heap", NewDmaHeap(kDmaHeapDevice, counters), kDmaHeapDevice);
  add("udmabuf", NewUdmabufHeap(kUdmabufDevice, counters), kUdmabufDevice);
  // Every kernel has it: were it tried, one shortage of fds or memory now would be held against it
  // as long as the process lives.
  add("memfd", NewMemfdHeap(counters), "memfd_create, sealed against shrinking", true);

  std::string skipped;
  for (const HeapStatus& status : all_) {
    if (forced ? std::strcmp(forced, status.name) == 0 : status.heap != nullptr) {
      default_ = status.heap;
      if (!forced) {
        default_reason_ =
            std::string("best available") + (skipped.empty() ? "" : "; without " + skipped);
      } else if (default_) {
        default_reason_ = "QNNRT_HEAP asks for it";
      } else {
        default_reason_ = std::string("QNNRT_HEAP asks for ") + forced +
                          ", which this machine does not have: " + status.reason;
      }
      return;
    }
    skipped +=
        (skipped.empty() ? "" : "; ") + std::string(status.name) + " (" + status.reason + ")";
  }
  default_reason_ = forced ? std::string("QNNRT_HEAP=") + forced +
                                 " is not a heap; expected vendor, dma_heap, udmabuf or memfd"
                           : "no heap works: " + skipped;
}

Result<Heap*> HeapSet::Find(const char* name) const {
  if (!name || !*name) {
    if (default_) return default_;
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "%s", default_reason_.c_str());
  }
  for (const HeapStatus& status : all_) {
    if (std::strcmp(name, status.name) != 0) continue;
    if (status.heap) return status.heap;
    return Error(QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE, "heap '%s' is not on this machine: %s",
                 name, status.reason.c_str());
  }
  return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
               "heap '%s' is not known; expected vendor, dma_heap, udmabuf or memfd", name);
}

}  // namespace qnnrt
