// A tensor as the client described it: a plain value, a deep copy of what came in.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ir/types.h"
#include "support/digest.h"

namespace qnnrt {

class AlignedBytes;
using SharedBytes = std::shared_ptr<const AlignedBytes>;

// Elements where somebody else has them, on any boundary.
struct LyingElements {
  const char* data = nullptr;
  std::vector<int64_t> strides{};  // in bytes, one for each dimension; none: as rows
};

// Where bytes are until somebody reads them.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Of the bytes that Write gives: equal for what is equal and lies in the same way.
  virtual Digest Hash(const Threads& threads) const = 0;
  virtual void Write(void* to) const = 0;
  // Nothing: they are made when they are written.
  virtual std::optional<LyingElements> Lying() const { return std::nullopt; }
  // Where those that others have already may take their place.
  virtual std::optional<uint64_t> scope() const { return std::nullopt; }
};

// Bytes on a 64-byte boundary: the memory of static tensors and packed weights.
class AlignedBytes {
 public:
  static std::shared_ptr<AlignedBytes> Make(size_t size);  // null when out of memory
  static std::shared_ptr<AlignedBytes> Copy(const void* data, size_t size);
  // Read-only bytes of somebody else's, which are valid as long as `owner` is kept.
  static std::shared_ptr<AlignedBytes> Foreign(const void* data, size_t size,
                                               std::shared_ptr<const void> owner);
  // A size without data, for bytes that nobody reads any more: data() is null.
  static std::shared_ptr<AlignedBytes> Absent(size_t size);
  // Bytes that `source` gives when they are read first: data() throws std::bad_alloc then.
  static std::shared_ptr<AlignedBytes> Later(size_t size, std::unique_ptr<const ByteSource> source);
  // What `source` gives, now; those of its scope that have the digest, where there are any. Throws
  // std::bad_alloc.
  static std::shared_ptr<AlignedBytes> Of(const ByteSource& source, size_t size,
                                          const Digest& digest);
  // Writes those that are not read yet, and leaves them so. False: they are, and nothing is
  // written.
  bool WriteUnread(void* to) const;
  // Those that are not read yet, for who packs them from there: they stay until graphFinalize.
  std::optional<LyingElements> Unread() const;
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  void* data() { return later_ == nullptr ? data_ : Load(); }
  const void* data() const { return const_cast<AlignedBytes*>(this)->data(); }
  size_t size() const { return size_; }
  // Whether there are any, read already or not.
  bool there() const { return later_ != nullptr || data_ != nullptr; }
  // Whether they are in memory.
  bool loaded() const;
  // What they are, of bytes that are there and do not change any more; found once.
  const Digest& digest(const Threads& threads) const;
  // These, or those that Load gave: equal bytes that are held once are one object.
  const AlignedBytes& origin() const;

  // Graphs that read them, by their plans' count.
  std::atomic<uint32_t>& users() const { return users_; }
  // What pays for them in a process domain. Of the ContentTable, which has the lock.
  std::weak_ptr<const void>& payer() const { return payer_; }

 private:
  struct LaterBytes {
    std::mutex mutex;
    std::unique_ptr<const ByteSource> source;
    bool shares = false;                  // the source has a scope
    std::shared_ptr<AlignedBytes> bytes;  // once they are loaded
    std::atomic<void*> data{nullptr};
  };

  AlignedBytes(void* data, size_t size) : data_(data), size_(size) {}
  static std::shared_ptr<AlignedBytes> Wrap(void* data, size_t size);
  void* Load();
  void* data_;
  size_t size_;
  bool foreign_ = false;
  std::shared_ptr<const void> owner_;
  std::unique_ptr<LaterBytes> later_;
  mutable std::mutex digest_mutex_;
  mutable std::unique_ptr<Digest> digest_;  // under it until it is there
  mutable std::atomic<uint32_t> users_{0};
  mutable std::weak_ptr<const void> payer_;
};

// Quantization of a tensor, real = scale x (q + offset): one pair for the whole tensor, one for
// each index of an axis, or one for each block of elements (of static tensors only, in row-major
// order of the blocks, and axis is -1).
struct Quantization {
  bool defined = false;
  Qnn_QuantizationEncoding_t encoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
  int32_t axis = -1;
  uint32_t bitwidth = 0;  // 0: all bits of the type
  std::vector<float> scales;
  std::vector<int32_t> offsets;
  std::vector<uint32_t> block{};  // size of a block along each dim; empty: no blocks

  bool per_tensor() const { return axis < 0 && block.empty(); }
  bool in_blocks() const { return !block.empty(); }
};

struct Tensor {
  uint32_t id = 0;
  std::string name;
  Qnn_TensorType_t type = QNN_TENSOR_TYPE_NATIVE;
  Qnn_DataType_t dtype = QNN_DATATYPE_FLOAT_32;
  Shape shape;
  Quantization quantization;
  Qnn_TensorMemType_t mem_type = QNN_TENSORMEMTYPE_RAW;
  std::shared_ptr<AlignedBytes> data;  // the value of a STATIC tensor, else null
  // Of a graph output (APP_READ) that is the new value of an APP_READWRITE tensor: that tensor,
  // whose memory, id and name it has.
  const Tensor* updates = nullptr;
  // The data of a client's constant of 4 bits in an 8-bit type: two elements in a byte, the first
  // in its low half. What passes leave is unpacked, so that no kernel sees such a tensor.
  bool two_in_byte = false;

  bool is_static() const { return data != nullptr; }
  bool is_state() const { return type == QNN_TENSOR_TYPE_APP_READWRITE; }
  // A state is an input that has an output of its own once a node writes it.
  bool is_input() const { return type == QNN_TENSOR_TYPE_APP_WRITE || is_state(); }
  bool is_output() const { return type == QNN_TENSOR_TYPE_APP_READ; }
  uint64_t elements() const { return ElementCount(shape); }
  uint64_t bytes() const {
    return two_in_byte ? (elements() + 1) / 2 : elements() * ElementSize(dtype);
  }
  template <typename T>
  const T* data_as() const {
    return data ? static_cast<const T*>(data->data()) : nullptr;
  }
};

// Whether both hold the same values, as the same bytes: one element type and, of fixed-point
// numbers, one encoding of as many bits.
bool SameEncoding(const Tensor& a, const Tensor& b);

}  // namespace qnnrt
