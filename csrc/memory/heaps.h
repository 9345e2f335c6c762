// The heaps of this machine: how each is made, which ones work, which is the default and why.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "memory/counters.h"
#include "memory/heap.h"

namespace qnnrt {

// The functions of libcdsprpc.so, as a struct so that tests can replace them.
struct VendorApi {
  void* (*alloc)(int heap_id, uint32_t flags, int size) = nullptr;
  void* (*alloc2)(int heap_id, uint32_t flags,
                  size_t size) = nullptr;  // may be missing: old images
  void (*free)(void* address) = nullptr;
  int (*to_fd)(void* address) = nullptr;
};
// dlopens `library` (never closed: the vendor's threads run in it) and resolves the functions.
// Refuses a library that carries qnnrt's own marker symbol. Errors: 1009 with the reason.
Result<VendorApi> LoadVendorApi(const std::string& library);

std::unique_ptr<Heap> NewVendorHeap(const VendorApi& api, Counters* counters);
std::unique_ptr<Heap> NewDmaHeap(const std::string& device, Counters* counters);
std::unique_ptr<Heap> NewUdmabufHeap(const std::string& device, Counters* counters);
std::unique_ptr<Heap> NewMemfdHeap(Counters* counters);

struct HeapStatus {
  const char* name = "";
  Heap* heap = nullptr;  // null: not available on this machine
  std::string reason;    // why not, or what it uses
};

// Probes each source once with a small allocation, best first: vendor, dma_heap, udmabuf, memfd.
class HeapSet {
 public:
  // `forced`: a heap's name, as from QNNRT_HEAP; null or empty for the best one that works.
  // `vendor_library`: as from QNNRT_VENDOR_LIBRARY; null for libcdsprpc.so.
  HeapSet(const char* forced, const char* vendor_library, Counters* counters);

  const std::vector<HeapStatus>& all() const { return all_; }
  Heap* default_heap() const { return default_; }  // null when a forced heap does not work
  const std::string& default_reason() const { return default_reason_; }
  // Null name: the default. Errors: 1004 unknown name, 1010 not on this machine.
  Result<Heap*> Find(const char* name) const;

 private:
  std::vector<std::unique_ptr<Heap>> owned_;
  std::vector<HeapStatus> all_;
  Heap* default_ = nullptr;
  std::string default_reason_;
};

}  // namespace qnnrt
