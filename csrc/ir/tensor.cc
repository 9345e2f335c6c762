#include "ir/tensor.h"

#include <cstring>
#include <new>

#include "ir/blocks.h"
#include "ir/content_table.h"

namespace qnnrt {

std::shared_ptr<AlignedBytes> AlignedBytes::Make(size_t size) {
  void* const data = NewBlock(size);
  return data == nullptr ? nullptr : Wrap(data, size);
}

std::shared_ptr<AlignedBytes> AlignedBytes::Wrap(void* data, size_t size) {
  AlignedBytes* bytes = new (std::nothrow) AlignedBytes(data, size);
  if (bytes == nullptr) {
    FreeBlock(data, size);
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

std::optional<LyingElements> AlignedBytes::Unread() const {
  if (later_ == nullptr) return std::nullopt;
  std::lock_guard<std::mutex> lock(later_->mutex);
  if (later_->source == nullptr) return std::nullopt;
  return later_->source->Lying();
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
  if (!foreign_) FreeBlock(data_, size_);
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
