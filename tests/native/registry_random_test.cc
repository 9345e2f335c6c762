// The registry against a model of it, and every end of a buffer against arithmetic: what is
// accepted lies where it says, what goes a byte too far is refused, and nothing is left of either.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "memory_client.h"

using namespace memory_test;  // NOLINT(build/namespaces)

namespace {

constexpr uint64_t kPage = 4096;

// ---- ends of buffers

MemDescriptor Bytes(MemKind kind, int fd, const uint32_t* nbytes) {
  MemDescriptor d;
  d.kind = kind;
  d.fd = fd;
  d.rank = 1;
  d.dims = nbytes;
  d.data_type = QNN_DATATYPE_UINT_8;
  return d;
}

// Registers, compares what executions get with what is expected, and deregisters.
bool Holds(const MemDescriptor& d, bool accepted, const uint8_t* address, uint64_t offset,
           uint64_t nbytes, uint64_t available) {
  const qnnrt_memory_counts_t before = Counts();
  SlotHandle handle = 0;
  const uint32_t code = Register(d, &handle);
  bool good = CHECK_EQ(code == 0, accepted);
  if (code != 0) {
    good &= CHECK(code == QNN_MEM_ERROR_INVALID_ARGUMENT || code == QNN_MEM_ERROR_MAPPING);
  } else {
    auto r = registry().Acquire(handle, 1);
    if (CHECK_OK(r.status())) {
      const MemRegistration& found = **r;
      if (address) good &= CHECK(found.address == address);
      good &= CHECK_EQ(found.offset, offset) & CHECK_EQ(found.nbytes, nbytes) &
              CHECK_EQ(found.available, available) & CHECK(found.kind == d.kind) &
              CHECK_EQ(found.data_type, d.data_type) & CHECK_EQ(found.rank, d.rank) &
              CHECK_EQ(found.fd, d.fd) & CHECK(found.writable);
      if (d.rank != 0) good &= CHECK_EQ(found.dims[0], d.dims[0]);
      registry().Release(handle);
    }
    good &= CHECK_EQ(Deregister(handle), 0u);
  }
  const qnnrt_memory_counts_t after = Counts();
  return good & CHECK_EQ(after.fds, before.fds) & CHECK_EQ(after.handles, before.handles) &
         CHECK_EQ(after.maps, before.maps) & CHECK_EQ(after.buffers, before.buffers);
}

TEST(every_end_of_a_buffer_of_ours_is_judged_by_its_size) {
  for (int size : {1, 4095, 4096, 5000, 8192}) {
    Rpc rpc(size);
    auto* base = static_cast<uint8_t*>(rpc.address);
    const uint64_t bytes = static_cast<uint64_t>(size);
    const uint64_t pages = (bytes + kPage - 1) / kPage * kPage;
    for (int64_t by : {-1, 0, 1}) {
      const auto nbytes = static_cast<uint32_t>(size + by);
      if (nbytes == 0) continue;
      CHECK(Holds(Bytes(MemKind::kIon, rpc.fd, &nbytes), by <= 0, base, 0, nbytes, bytes));
      // What is stated is the size asked for, or that in whole pages.
      const uint32_t one = 1;
      MemDescriptor d = Bytes(MemKind::kSharedBuffer, rpc.fd, &one);
      d.states_size = true;
      for (uint64_t stated : {bytes, pages}) {
        d.size = stated + static_cast<uint64_t>(by);
        const bool good = d.size >= bytes && d.size <= pages;
        CHECK(Holds(d, good, base, 0, 1, bytes));
      }
      d.size = pages;
      for (uint64_t tensor : {1u, 17u}) {
        if (tensor > bytes) continue;
        const auto dim = static_cast<uint32_t>(tensor);
        d.dims = &dim;
        d.offset = bytes - tensor + static_cast<uint64_t>(by);
        if (d.offset > bytes && by < 0) continue;
        CHECK(Holds(d, by <= 0, base + d.offset, d.offset, tensor, bytes - d.offset));
      }
    }
  }
}

TEST(every_end_of_a_foreign_file_is_judged_by_its_size) {
  for (uint64_t size : {uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{5000}}) {
    const int fd = NewMemfd(size);
    for (int64_t by : {-1, 0, 1}) {
      const auto nbytes = static_cast<uint32_t>(static_cast<int64_t>(size) + by);
      if (nbytes == 0) continue;
      CHECK(Holds(Bytes(MemKind::kIon, fd, &nbytes), by <= 0, nullptr, 0, nbytes, size));
      const uint32_t one = 1;
      MemDescriptor d = Bytes(MemKind::kSharedBuffer, fd, &one);
      d.states_size = true;
      d.size = nbytes;  // no more than the file
      CHECK(Holds(d, by <= 0, nullptr, 0, 1, size));
      d.size = size;
      d.offset = nbytes - 1;  // the byte before the end, and those after it
      CHECK(Holds(d, by <= 0, nullptr, d.offset, 1, size - d.offset));
    }
    close(fd);
  }
}

TEST(every_end_of_a_clients_mapping_is_judged_by_it_and_by_the_file) {
  constexpr uint64_t kFile = 3 * kPage + 100;
  const int fd = NewMemfd(kFile);
  // Of the file the second page to the last, between pages that nobody may read.
  auto* room = static_cast<uint8_t*>(
      mmap(nullptr, 6 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  auto* mapped = static_cast<uint8_t*>(
      mmap(room + kPage, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, kPage));
  auto* last = static_cast<uint8_t*>(
      mmap(room + 4 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 3 * kPage));
  REQUIRE(room != MAP_FAILED && mapped != MAP_FAILED && last != MAP_FAILED);
  auto check = [&](uint8_t* address, uint32_t nbytes, bool good, uint64_t available) {
    MemDescriptor d = Bytes(MemKind::kDmaBuf, fd, &nbytes);
    d.data = address;
    const uint64_t offset = address < last ? kPage + static_cast<uint64_t>(address - mapped)
                                           : 3 * kPage + static_cast<uint64_t>(address - last);
    CHECK(Holds(d, good, address, offset, nbytes, available));
  };
  check(mapped, 2 * kPage, true, 2 * kPage);
  check(mapped, 2 * kPage + 1, false, 0);
  check(mapped + 2 * kPage - 1, 1, true, 1);
  check(mapped + 2 * kPage - 1, 2, false, 0);
  check(mapped + 2 * kPage, 1, false, 0);  // the first byte behind it
  check(mapped - 1, 1, false, 0);
  check(last, 100, true, 100);  // mapped as a page, of which the file has 100 bytes
  check(last, 101, false, 0);
  check(last + 99, 1, true, 1);
  check(last + 100, 1, false, 0);
  // A mapping that may only be read is fit for inputs alone.
  CHECK_EQ(mprotect(mapped, 2 * kPage, PROT_READ), 0);
  const uint32_t nbytes = 16;
  MemDescriptor d = Bytes(MemKind::kDmaBuf, fd, &nbytes);
  d.data = mapped;
  SlotHandle handle = 0;
  CHECK_EQ(Register(d, &handle), 0u);
  auto r = registry().Acquire(handle, 1);
  if (CHECK_OK(r.status())) {
    CHECK(!(*r)->writable);
    CHECK((*r)->watch_fd >= 0 && (*r)->sync_fd == -1);  // a memfd needs no brackets
    registry().Release(handle);
  }
  CHECK_EQ(Deregister(handle), 0u);
  CHECK_EQ(mprotect(mapped, 2 * kPage, PROT_WRITE), 0);
  const int other = NewMemfd(kFile);
  d.fd = other;  // mapped there is another file
  CHECK_EQ(Register(d, &handle), QNN_MEM_ERROR_MAPPING);
  close(other);
  munmap(room, 6 * kPage);
  close(fd);
}

TEST(a_buffer_without_a_tensor_is_what_is_left_of_it) {
  for (int size : {5000, 8192}) {
    Rpc rpc(size);
    const auto bytes = static_cast<uint64_t>(size);
    for (MemKind kind : {MemKind::kWeights, MemKind::kSpillFill, MemKind::kVtcmBackup}) {
      MemDescriptor d;
      d.kind = kind;
      d.fd = rpc.fd;
      d.data_type = QNN_DATATYPE_UNDEFINED;
      d.states_size = true;
      auto* base = static_cast<uint8_t*>(rpc.address);
      for (uint64_t stated : {bytes, (bytes + kPage - 1) / kPage * kPage}) {
        d.size = stated;
        for (uint64_t offset : {uint64_t{0}, uint64_t{64}, bytes - 1}) {
          d.offset = offset;
          CHECK(Holds(d, true, base + offset, offset, bytes - offset, bytes - offset));
        }
        d.offset = stated;
        CHECK(Holds(d, false, nullptr, 0, 0, 0));
        d.offset = 0;
      }
      d.data_type = QNN_DATATYPE_UINT_8;
      CHECK(Holds(d, false, nullptr, 0, 0, 0));
      d.data_type = QNN_DATATYPE_UNDEFINED;
      d.rank = 1;
      SlotHandle handle = 0;
      CHECK_EQ(Register(d, &handle), QNN_MEM_ERROR_INVALID_SHAPE);
    }
  }
}

TEST(a_contexts_newest_buffer_of_a_kind_is_found) {
  Rpc rpc(8192);
  MemDescriptor d;
  d.fd = rpc.fd;
  d.data_type = QNN_DATATYPE_UNDEFINED;
  d.states_size = true;
  d.size = 8192;
  std::vector<SlotHandle> handles;
  for (MemKind kind : {MemKind::kWeights, MemKind::kSpillFill, MemKind::kWeights}) {
    SlotHandle handle = 0;
    d.kind = kind;
    d.offset = handles.size() * 64;
    CHECK_EQ(Register(d, &handle), 0u);
    handles.push_back(handle);
  }
  auto found = [&](MemKind kind, uint64_t context) -> SlotHandle {
    auto use = registry().AcquireKind(context, kind);
    if (!CHECK_OK(use.status())) return 0;
    return *use ? (*use)->handle : 0;
  };
  CHECK_EQ(found(MemKind::kWeights, 1), handles[2]);
  CHECK_EQ(found(MemKind::kSpillFill, 1), handles[1]);
  CHECK_EQ(found(MemKind::kVtcmBackup, 1), SlotHandle{0});
  CHECK_EQ(found(MemKind::kWeights, 2), SlotHandle{0});
  CHECK_EQ(Deregister(handles[2]), 0u);
  CHECK_EQ(found(MemKind::kWeights, 1), handles[0]);
  CHECK_EQ(registry().FreeContext(1), 2u);
  CHECK_EQ(found(MemKind::kWeights, 1), SlotHandle{0});
}

// ---- random calls

struct Registered {
  uint64_t context, offset;
  size_t file;
  uint32_t nbytes, pins;
  bool live;
};

class Model {
 public:
  explicit Model(uint32_t seed) : rng_(seed) {
    for (int i = 0; i < 3; ++i) files_.push_back(std::make_unique<Rpc>(8192));
  }
  ~Model() {
    for (auto& [handle, one] : all_) {
      for (; one.pins > 0; --one.pins) registry().Release(handle);
    }
    for (uint64_t context : {1, 2, 3}) registry().FreeContext(context);
  }

  void Step() {
    switch (Pick(8)) {
      case 0:
      case 1:
      case 2:
        return Add();
      case 3:
        return Acquire();
      case 4:
        return Release();
      case 5:
        return Remove();
      case 6:
        return RemoveSome();
      default:
        if (Pick(6) == 0) FreeContext();
    }
  }

  bool Agrees() {
    bool good = true;
    int64_t live = 0;
    for (const auto& [handle, one] : all_) {
      live += one.live;
      for (uint64_t context : {1, 2, 3}) {
        const MemRegistration* r = registry().TryAcquire(handle, context);
        const bool expected = one.live && context == one.context;
        good &= CHECK_EQ(r != nullptr, expected);
        good &= CHECK_EQ(registry().Acquire(handle, context).ok(), expected);
        if (expected) registry().Release(handle);
        if (!r) continue;
        auto* address = static_cast<uint8_t*>(files_[one.file]->address) + one.offset;
        good &= CHECK(r->address == address) & CHECK_EQ(r->nbytes, uint64_t{one.nbytes}) &
                CHECK_EQ(r->handle, handle) & CHECK_EQ(r->fd, files_[one.file]->fd);
        registry().Release(handle);
      }
    }
    good &= CHECK_EQ(Memory::Get().counters().handles.load(), live);
    return good;
  }

 private:
  static constexpr uint32_t kMost = 6;  // at once
  size_t Pick(size_t count) { return rng_() % count; }
  SlotHandle Any(bool dead = false) {
    std::vector<SlotHandle> found;
    for (const auto& [handle, one] : all_) {
      if (one.live || dead) found.push_back(handle);
    }
    return found.empty() ? 0 : found[Pick(found.size())];
  }

  void Add() {
    // Every second time in one file and mostly in order, as what is registered in a group.
    const bool together = Pick(2) == 0, ordered = Pick(4) != 0;
    const auto count = static_cast<uint32_t>(1 + Pick(together ? kMost : 3));
    const uint64_t context = 1 + Pick(3);
    const size_t one_file = Pick(files_.size());
    uint32_t dims[kMost];
    std::vector<MemDescriptor> descriptors;
    std::vector<Registered> wanted;
    bool good = true;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t file = together ? one_file : Pick(files_.size());
      dims[i] = static_cast<uint32_t>(1 + Pick(100));
      MemDescriptor d = Bytes(MemKind::kSharedBuffer, files_[file]->fd, &dims[i]);
      d.states_size = true;
      d.size = 8192;
      d.offset = 1024 * (together && ordered ? i + Pick(2) : Pick(kMost));
      if (Pick(12) == 0) d.offset = 8192, good = false;
      descriptors.push_back(d);
      for (const Registered& w : wanted) good &= w.file != file || w.offset != d.offset;
      for (const auto& [handle, one] : all_) {
        good &= !one.live || one.context != context || one.file != file || one.offset != d.offset;
      }
      wanted.push_back({context, d.offset, file, dims[i], 0, true});
    }
    SlotHandle handles[kMost];
    std::fill_n(handles, kMost, SlotHandle{77});
    const Status status = registry().Register(context, descriptors.data(), count, kAll, handles);
    CHECK_EQ(status.ok(), good);
    for (uint32_t i = 0; i < count; ++i) {
      if (!CHECK_EQ(handles[i] != 0, good) || !good) continue;
      CHECK(all_.count(handles[i]) == 0);
      all_[handles[i]] = wanted[i];
    }
  }
  void Acquire() {
    const SlotHandle handle = Any();
    if (!handle) return;
    CHECK(registry().TryAcquire(handle, all_[handle].context) != nullptr);
    ++all_[handle].pins;
  }
  void Release() {
    const SlotHandle handle = Any();
    if (!handle || all_[handle].pins == 0) return;
    registry().Release(handle);
    --all_[handle].pins;
  }
  void Remove() {
    const SlotHandle handle = Any(true);
    if (!handle) return;
    Registered& one = all_[handle];
    CHECK_EQ(Deregister(handle), CodeOf(one));
    one.live &= one.pins != 0;
  }
  // What deregistering it returns.
  static uint32_t CodeOf(const Registered& one) {
    if (!one.live) return QNN_MEM_ERROR_INVALID_HANDLE;
    return one.pins != 0 ? uint32_t{QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED} : 0u;
  }
  // Those that can go do, whatever the others are; the first that cannot gives the code.
  void RemoveSome() {
    std::vector<SlotHandle> handles;
    uint32_t expected = 0;
    for (size_t i = 2 + Pick(3); i > 0; --i) {
      const SlotHandle handle = Any(true);
      if (!handle) return;
      handles.push_back(handle);
      Registered& one = all_[handle];
      const uint32_t code = CodeOf(one);
      if (expected == 0) expected = code;
      one.live &= one.pins != 0;
    }
    const auto count = static_cast<uint32_t>(handles.size());
    CHECK_EQ(registry().Deregister(handles.data(), count).code(), expected);
  }
  void FreeContext() {
    const uint64_t context = 1 + Pick(3);
    uint32_t gone = 0, kept = 0, in_use = 77;
    for (auto& [handle, one] : all_) {
      if (!one.live || one.context != context) continue;
      ++(one.pins != 0 ? kept : gone);
      one.live = one.pins != 0;
    }
    CHECK_EQ(registry().FreeContext(context, &in_use), gone);
    CHECK_EQ(in_use, kept);
  }

  std::mt19937 rng_;
  std::vector<std::unique_ptr<Rpc>> files_;
  std::map<SlotHandle, Registered> all_;
};

TEST(random_calls_leave_what_the_model_says) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Model model(seed);
    for (int step = 0; step < 150; ++step) {
      model.Step();
      if (!model.Agrees()) {
        std::fprintf(stderr, "  seed %u, step %d\n", seed, step);
        return;
      }
    }
  }
}

TEST(NothingIsLeft) { CheckNothingIsLeft(); }

}  // namespace

CHECK_MAIN("registry_random_test")
