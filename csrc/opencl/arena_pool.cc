#include "opencl/arena_pool.h"

#include <algorithm>

#include "opencl/error.h"
#include "opencl/memory.h"

namespace qnnrt::opencl {
namespace {

constexpr uint32_t kRegion = 0x1220;  // CL_BUFFER_CREATE_TYPE_REGION
constexpr size_t kManyParts = 4096;

}  // namespace

// A set that is taken for a while.
class ArenaPool::Taken {
 public:
  explicit Taken(Set* set) : set_(set) { set_->taken_ = true; }
  ~Taken() {
    if (set_ != nullptr) set_->taken_ = false;
  }
  Taken(const Taken&) = delete;
  Set* Keep() { return std::exchange(set_, nullptr); }

 private:
  Set* set_;
};

Result<void*> ArenaPool::Set::Part(size_t arena, uint64_t offset, uint64_t size) {
  Buffer& buffer = buffers_[arena];
  void*& part = buffer.parts[{offset, size}];
  if (part != nullptr) return part;
  const size_t region[2] = {offset, size};
  int32_t code = 0;
  part = pool_->cl_.createSubBuffer(buffer.mem, kReadWrite, kRegion, region, &code);
  if (part == nullptr) return DriverError(code, "an arena has no sub-buffers");
  return part;
}

ArenaPool::~ArenaPool() {
  if (forks_ != ForkGeneration()) return;  // a forked child has no driver that knows them
  for (const auto& set : sets_)
    for (Set::Buffer& buffer : set->buffers_) Free(&buffer);
}

void ArenaPool::Free(Set::Buffer* buffer) {
  for (const auto& [place, part] : buffer->parts)
    if (part != nullptr) cl_.releaseMemObject(part);
  if (buffer->mem != nullptr) cl_.releaseMemObject(buffer->mem);
  *buffer = {};
}

// Those of lists that are gone are among them. Where there are many, lists ask for theirs again.
void ArenaPool::DropParts(Set::Buffer* buffer) {
  if (buffer->parts.size() <= kManyParts) return;
  for (const auto& [place, part] : buffer->parts)
    if (part != nullptr) cl_.releaseMemObject(part);
  buffer->parts.clear();
  buffer->serial = ++serials_;
}

void* ArenaPool::NewBuffer(uint64_t size, int32_t* code) {
  void* mem = cl_.createBuffer(context_, kReadWrite, size, nullptr, code);
  if (mem != nullptr) return mem;
  // What nobody uses now may be in the way.
  bool freed = false;
  for (const auto& set : sets_) {
    if (set->taken_) continue;
    for (Set::Buffer& buffer : set->buffers_) {
      freed = freed || buffer.mem != nullptr;
      Free(&buffer);
    }
  }
  return freed ? cl_.createBuffer(context_, kReadWrite, size, nullptr, code) : nullptr;
}

// The set is marked as taken, so that it is not what makes room.
Status ArenaPool::Grow(Set* set, const Sizes& sizes) {
  if (set->buffers_.size() < sizes.size()) set->buffers_.resize(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    Set::Buffer& buffer = set->buffers_[i];
    if (buffer.mem != nullptr && buffer.size >= sizes[i]) continue;
    Free(&buffer);
    int32_t code = 0;
    const uint64_t size = std::max<uint64_t>(sizes[i], 1);
    buffer.mem = NewBuffer(size, &code);
    if (buffer.mem == nullptr) {
      return DriverError(code,
                         "the device has no " + std::to_string(size) + " bytes for intermediates")
          .WithCode(QNN_COMMON_ERROR_MEM_ALLOC);
    }
    buffer.size = size;
    buffer.serial = ++serials_;
  }
  return Status::Ok();
}

// One that is free: the last, or one that is large enough, or any. Null: all are taken.
ArenaPool::Set* ArenaPool::Choose(const Sizes& sizes, Set* last) {
  if (last != nullptr && !last->taken_) return last;
  const auto fits = [&](const Set& set) {
    if (set.buffers_.size() < sizes.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (set.buffers_[i].mem == nullptr || set.buffers_[i].size < sizes[i]) return false;
    return true;
  };
  Set* any = nullptr;
  for (const auto& set : sets_) {
    if (set->taken_) continue;
    if (fits(*set)) return set.get();
    if (any == nullptr || any->buffers_.empty()) any = set.get();
  }
  return any;
}

Result<ArenaPool::Set*> ArenaPool::Take(const Sizes& sizes, Set* last) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    Set* set = Choose(sizes, last);
    if (set == nullptr) {
      sets_.reserve(sets_.size() + 1);
      sets_.emplace_back(new Set(this));
      set = sets_.back().get();
    }
    Status grown;
    {
      Taken taken(set);
      grown = Grow(set, sizes);
      if (grown.ok()) return taken.Keep();
    }
    const auto taken = [](const std::unique_ptr<Set>& each) { return each->taken_; };
    if (std::none_of(sets_.begin(), sets_.end(), taken)) return grown;
    // A set that comes back is one that can be had, or memory that can.
    const uint64_t seen = returns_;
    given_back_.wait(lock, [&] { return returns_ != seen; });
  }
}

void ArenaPool::GiveBack(Set* set) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    set->taken_ = false;
    TrimOne(set);
    ++returns_;
  }
  given_back_.notify_all();
}

// Buffers beyond what the lists that there are need.
void ArenaPool::TrimOne(Set* set) {
  for (size_t i = 0; i < set->buffers_.size(); ++i) {
    Set::Buffer& buffer = set->buffers_[i];
    if (i >= needed_.size() || buffer.size > std::max<uint64_t>(needed_[i], 1)) Free(&buffer);
  }
}

void ArenaPool::Trim() {
  needed_.clear();
  for (const Sizes& sizes : users_) {
    if (needed_.size() < sizes.size()) needed_.resize(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) needed_[i] = std::max(needed_[i], sizes[i]);
  }
  size_t sets = 0;  // no more than lists can run at a time
  for (const auto& set : sets_) {
    if (set->taken_) {
      ++sets;
      continue;
    }
    TrimOne(set.get());
    for (Set::Buffer& buffer : set->buffers_) DropParts(&buffer);
    if (++sets > users_.size())
      for (Set::Buffer& buffer : set->buffers_) Free(&buffer);
  }
}

Status ArenaPool::Join(const Sizes& sizes) {
  std::lock_guard<std::mutex> lock(mutex_);
  users_.push_back(sizes);
  Trim();
  Set* set = Choose(sizes, nullptr);
  if (set == nullptr && !sets_.empty()) return Status::Ok();  // all are taken: it is made, or free
  if (set == nullptr) {
    sets_.emplace_back(new Set(this));
    set = sets_.back().get();
  }
  Status grown;
  {
    Taken taken(set);
    grown = Grow(set, sizes);
  }
  if (!grown.ok()) {
    users_.pop_back();
    Trim();
  }
  return grown;
}

void ArenaPool::Leave(const Sizes& sizes) {
  if (forks_ != ForkGeneration()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find(users_.begin(), users_.end(), sizes);
  if (found != users_.end()) users_.erase(found);
  Trim();
}

Qnnrt_OpenClPoolCounts_t ArenaPool::counts() {
  std::lock_guard<std::mutex> lock(mutex_);
  Qnnrt_OpenClPoolCounts_t counts = {};
  for (const auto& set : sets_) {
    bool any = false;
    for (const Set::Buffer& buffer : set->buffers_) {
      if (buffer.mem == nullptr) continue;
      any = true;
      counts.bytes += buffer.size;
      ++counts.buffers;
    }
    counts.sets += any ? 1 : 0;
  }
  return counts;
}

}  // namespace qnnrt::opencl
