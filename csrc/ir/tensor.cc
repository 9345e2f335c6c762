#include "ir/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ir/content_table.h"

namespace qnnrt {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;  // x86-64's, and aarch64's with pages of 4 KiB

// From here on memory is mapped and unmapped. Constants come and go while a graph is prepared, and
// the C library would keep what it gets back: its threshold grows with the blocks that are freed.
constexpr size_t kMapped = size_t{128} << 10;

void* Map(size_t size, size_t alignment) {
  const size_t more = alignment == kHugePage ? alignment : 0;
  if (size > SIZE_MAX - more - kHugePage) return nullptr;
  void* const mapped =
      mmap(nullptr, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (more == 0) return mapped;
  char* const first = static_cast<char*>(mapped);
  const size_t before = (alignment - reinterpret_cast<uintptr_t>(first) % alignment) % alignment;
  if (before != 0) (void)munmap(first, before);
  // What comes behind begins with a page of its own.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t end = (before + size + page - 1) / page * page;
  if (end < size + more) (void)munmap(first + end, size + more - end);
  return first + before;
}

void Free(void* data, size_t size) {
  if (data == nullptr || size < kMapped) {
    std::free(data);
  } else {
    (void)munmap(data, size);
  }
}

}  // namespace

std::shared_ptr<AlignedBytes> AlignedBytes::Make(size_t size) {
  // Weights are filled once: with small pages half of that time is page faults.
  const bool huge = size >= kHugePage;
  void* data;
  if (size >= kMapped) {
    data = Map(size, huge ? kHugePage : kAlignment);
  } else {
    // Size 0 still gets an address, so that "has a value" and "is not null" stay the same thing.
    data = std::aligned_alloc(
        kAlignment, std::max<size_t>(1, (size + kAlignment - 1) / kAlignment) * kAlignment);
  }
  if (data == nullptr) return nullptr;
  // Advice; of whole pages, so that the last one takes no more memory than there are bytes.
  if (huge) (void)madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return Wrap(data, size);
}

std::shared_ptr<AlignedBytes> AlignedBytes::Wrap(void* data, size_t size) {
  AlignedBytes* bytes = new (std::nothrow) AlignedBytes(data, size);
  if (bytes == nullptr) {
    Free(data, size);
    return nullptr;
  }
  try {
    return std::shared_ptr<AlignedBytes>(bytes);  // deletes `bytes` when it throws
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<AlignedBytes> AlignedBytes::Copy(const void* data, size_t size) {
  std::shared_ptr<AlignedBytes> bytes = Make(size);
  if (bytes && size != 0) std::memcpy(bytes->data(), data, size);
  return bytes;
}

std::shared_ptr<AlignedBytes> AlignedBytes::Foreign(const void* data, size_t size,
                                                    std::shared_ptr<const void> owner) {
  std::shared_ptr<AlignedBytes> bytes = Absent(size);
  if (bytes == nullptr) return nullptr;
  bytes->data_ = const_cast<void*>(data);
  bytes->foreign_ = true;
  bytes->owner_ = std::move(owner);
  return bytes;
}

std::shared_ptr<AlignedBytes> AlignedBytes::Absent(size_t size) { return Wrap(nullptr, size); }

std::shared_ptr<AlignedBytes> AlignedBytes::Later(size_t size,
                                                  std::unique_ptr<const ByteSource> source) {
  auto later = std::make_unique<LaterBytes>();
  later->shares = source->scope().has_value();
  later->source = std::move(source);
  std::shared_ptr<AlignedBytes> bytes = Absent(size);
  if (bytes != nullptr) bytes->later_ = std::move(later);
  return bytes;
}

std::shared_ptr<AlignedBytes> AlignedBytes::Of(const ByteSource& source, size_t size,
                                               const Digest& digest) {
  const std::optional<uint64_t> scope = source.scope();
  const bool shared = scope && size >= kLeastShared;
  const ContentKey key{digest, size, scope.value_or(kProcessScope)};
  std::shared_ptr<AlignedBytes> bytes = shared ? ContentTable::Get().Find(key) : nullptr;
  if (bytes != nullptr) return bytes;
  bytes = Make(size);
  if (bytes == nullptr) throw std::bad_alloc();
  source.Write(bytes->data());
  return shared ? ContentTable::Get().Publish(key, std::move(bytes)) : bytes;
}

bool AlignedBytes::WriteUnread(void* to) const {
  if (later_ == nullptr) return false;
  std::lock_guard<std::mutex> lock(later_->mutex);
  if (later_->source == nullptr) return false;
  later_->source->Write(to);
  return true;
}

void* AlignedBytes::Load() {
  if (void* data = later_->data.load(std::memory_order_acquire)) return data;
  const Digest known = later_->shares ? digest(Threads(1)) : Digest{};
  std::lock_guard<std::mutex> lock(later_->mutex);
  if (later_->bytes == nullptr) {
    later_->bytes = Of(*later_->source, size_, known);
    later_->source = nullptr;
    later_->data.store(later_->bytes->data(), std::memory_order_release);
  }
  return later_->data.load(std::memory_order_relaxed);
}

bool AlignedBytes::loaded() const {
  return later_ == nullptr ? data_ != nullptr
                           : later_->data.load(std::memory_order_acquire) != nullptr;
}

const Digest& AlignedBytes::digest(const Threads& threads) const {
  std::lock_guard<std::mutex> lock(digest_mutex_);
  if (digest_ == nullptr) {
    std::unique_lock<std::mutex> source;
    if (later_ != nullptr) source = std::unique_lock<std::mutex>(later_->mutex);
    const bool lent = later_ != nullptr && later_->source != nullptr;
    digest_ = std::make_unique<Digest>(lent ? later_->source->Hash(threads)
                                            : DigestOf(origin().data_, size_, threads));
  }
  return *digest_;
}

const AlignedBytes& AlignedBytes::origin() const {
  return later_ != nullptr && loaded() ? *later_->bytes : *this;
}

AlignedBytes::~AlignedBytes() {
  if (!foreign_) Free(data_, size_);
}

bool SameEncoding(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype) return false;
  if (!IsFixed(a.dtype)) return true;
  const auto bits = [](const Tensor& t) -> size_t {
    return t.quantization.bitwidth != 0 ? t.quantization.bitwidth : 8 * ElementSize(t.dtype);
  };
  return bits(a) == bits(b) && a.quantization.axis == b.quantization.axis &&
         a.quantization.block == b.quantization.block &&
         a.quantization.scales == b.quantization.scales &&
         a.quantization.offsets == b.quantization.offsets;
}

}  // namespace qnnrt
