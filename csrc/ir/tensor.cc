#include "ir/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "support/checked.h"

namespace qnnrt {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;  // x86-64's, and aarch64's with pages of 4 KiB

}  // namespace

std::shared_ptr<AlignedBytes> AlignedBytes::Make(size_t size) {
  uint64_t rounded;
  // Weights are filled once: with small pages half of that time is page faults.
  const bool huge = size >= 2 * kHugePage;
  const size_t alignment = huge ? kHugePage : kAlignment;
  // Size 0 still gets an address, so that "has a value" and "is not null" stay the same thing.
  if (!CheckedAlignUp(size == 0 ? 1 : size, alignment, &rounded)) return nullptr;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) return nullptr;
  // Advice; of whole pages, so that the last one takes no more memory than there are bytes.
  if (huge) (void)madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return Wrap(data, size);
}

std::shared_ptr<AlignedBytes> AlignedBytes::Wrap(void* data, size_t size) {
  AlignedBytes* bytes = new (std::nothrow) AlignedBytes(data, size);
  if (bytes == nullptr) {
    std::free(data);
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

AlignedBytes::~AlignedBytes() {
  if (!foreign_) std::free(data_);
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
