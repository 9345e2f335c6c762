// How the fields of a context binary are written and read: little-endian, one after the other, no
// padding. A reader that fails once stays failed, so that a whole record is read before asking.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "graph/binary/binary.h"

namespace qnnrt {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are copied as they lie in memory");

inline constexpr uint8_t kBinaryMagic[8] = {0x89, 'Q', 'N', 'N', 'R', 'T', '\r', '\n'};
inline constexpr uint32_t kBinaryMaxRank = 16;
inline constexpr uint32_t kBinaryNoTensor = UINT32_MAX;  // an omitted input or output

// Where fields of the header lie; those of text are padded with zeros.
struct BinaryHeaderAt {
  static constexpr size_t kFormat = 8, kHeaderSize = 12, kSize = 16, kMetadataOffset = 24,
                          kMetadataSize = 32, kWeightsOffset = 40, kWeightsSize = 48,
                          kBackendId = 56, kNumGraphs = 60, kCoreApi = 64, kBackendApi = 76,
                          kFlags = 88, kMetadataChecksum = 92, kBuildId = 96, kKernels = 144,
                          kReserved = 240, kHeaderChecksum = 252;
  static constexpr size_t kBuildIdSize = kKernels - kBuildId, kKernelsSize = kReserved - kKernels;
};

class ByteWriter {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    Bytes(&value, sizeof value);
  }
  void Text(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    Bytes(text.data(), text.size());
  }
  void Bytes(const void* data, size_t size) {
    const uint8_t* from = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  size_t size() const { return bytes_.size(); }
  // Of a field that was put before.
  template <typename T>
  void Set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

class ByteReader {
 public:
  ByteReader(const uint8_t* data, uint64_t size) : data_(data), left_(size) {}

  template <typename T>
  T Get() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value{};
    const uint8_t* from = Bytes(sizeof value);
    if (from != nullptr) std::memcpy(&value, from, sizeof value);
    return value;
  }
  // A pointer to the next bytes; null when fewer are left.
  const uint8_t* Bytes(uint64_t size) {
    if (!ok_ || size > left_) {
      ok_ = false;
      return nullptr;
    }
    const uint8_t* at = data_;
    data_ += size;
    left_ -= size;
    return at;
  }
  // Without zeros inside, since it comes back to clients as a C string.
  std::string Text() {
    const uint32_t size = Get<uint32_t>();
    const uint8_t* from = Bytes(size);
    if (from == nullptr || std::memchr(from, 0, size) != nullptr) {
      ok_ = false;
      return {};
    }
    return std::string(reinterpret_cast<const char*>(from), size);
  }
  // The number of records that follow, each of at least so many bytes: no more than fit into what
  // is left.
  uint32_t Count(uint64_t bytes_each) {
    const uint32_t count = Get<uint32_t>();
    if (ok_ && count > left_ / bytes_each) ok_ = false;
    return ok_ ? count : 0;
  }
  // A yes or no; an enumerator from 0 to `last`.
  bool Flag() { return Enum(1) != 0; }
  uint32_t Enum(uint32_t last) {
    const uint8_t value = Get<uint8_t>();
    if (value > last) ok_ = false;
    return ok_ ? value : 0;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  uint64_t left() const { return left_; }
  const uint8_t* at() const { return data_; }

 private:
  const uint8_t* data_;
  uint64_t left_;
  bool ok_ = true;
};

// Everything of a tensor but its data and where it is stored.
void WriteTensor(const Tensor& tensor, ByteWriter* out);
// Errors: 5005, a field that no tensor has. The caller checks whether the reader failed.
Status ReadTensor(ByteReader* in, Tensor* tensor);

// "this context binary is damaged (<what>): ...", with code 5005.
Status DamagedBinary(const std::string& what);

}  // namespace qnnrt
