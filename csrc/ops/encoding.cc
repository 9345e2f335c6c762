#include "ops/encoding.h"

#include <cmath>

#include "abi/qnn_errors.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

constexpr uint32_t kLeastBits = 2;

template <typename... Args>
Status Broken(const Tensor& tensor, const char* format, Args... args) {
  return Error(QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM, format, args...)
      .Within("tensor '" + tensor.name + "'");
}

// How many pairs of scale and offset there must be.
Status CountOfPairs(const Tensor& tensor, size_t* count) {
  const Quantization& q = tensor.quantization;
  const size_t rank = tensor.shape.size();
  *count = 1;
  if (q.in_blocks()) {
    if (tensor.type != QNN_TENSOR_TYPE_STATIC)
      return Broken(tensor, "only a STATIC tensor may be quantized in blocks");
    if (q.block.size() != rank || q.axis >= 0)
      return Broken(tensor, "blocks of %zu dims do not fit rank %zu", q.block.size(), rank);
    for (size_t d = 0; d < rank; ++d) {
      if (q.block[d] == 0 || tensor.shape[d] % q.block[d] != 0) {
        return Broken(tensor, "blocks of %u do not divide dimension %zu of size %u", q.block[d], d,
                      tensor.shape[d]);
      }
      *count *= tensor.shape[d] / q.block[d];
    }
  } else if (q.axis >= 0) {
    if (static_cast<size_t>(q.axis) >= rank) {
      return Broken(tensor, "its quantization names axis %d, but its rank is %zu", q.axis, rank);
    }
    *count = tensor.shape[static_cast<size_t>(q.axis)];
  } else if (q.axis != -1) {
    return Broken(tensor, "its quantization names axis %d; axes count from 0", q.axis);
  }
  return Status::Ok();
}

Status CheckPair(const Tensor& tensor, size_t i, FixedRange range) {
  const Quantization& q = tensor.quantization;
  const std::string which = q.per_tensor() ? "" : " " + std::to_string(i);
  const float scale = q.scales[i];
  if (!(scale > 0) || !std::isfinite(scale)) {
    return Broken(tensor, "scale%s is %g; a scale is a positive, finite number", which.c_str(),
                  static_cast<double>(scale));
  }
  const int64_t zero = -int64_t{q.offsets[i]};
  if (zero < range.low || zero > range.high) {
    return Broken(
        tensor,
        "offset%s is %d, which puts zero at %lld; %s of %u bits has the integers %lld to "
        "%lld (real = scale x (q + offset))",
        which.c_str(), q.offsets[i], static_cast<long long>(zero), DataTypeName(tensor.dtype),
        q.bitwidth != 0 ? q.bitwidth : static_cast<uint32_t>(8 * ElementSize(tensor.dtype)),
        static_cast<long long>(range.low), static_cast<long long>(range.high));
  }
  return Status::Ok();
}

}  // namespace

FixedRange RangeOf(Qnn_DataType_t type, uint32_t bitwidth) {
  const bool is_signed = type == QNN_DATATYPE_SFIXED_POINT_8 ||
                         type == QNN_DATATYPE_SFIXED_POINT_16 ||
                         type == QNN_DATATYPE_SFIXED_POINT_32;
  const uint32_t bits = bitwidth != 0 ? bitwidth : static_cast<uint32_t>(8 * ElementSize(type));
  if (is_signed) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

Status CheckEncoding(const Tensor& tensor) {
  if (!IsFixed(tensor.dtype)) return Status::Ok();
  const Quantization& q = tensor.quantization;
  if (!q.defined) {
    return Broken(
        tensor,
        "%s needs an encoding: a scale and an offset, for the tensor or for each index of "
        "an axis",
        DataTypeName(tensor.dtype));
  }
  const uint32_t bits = static_cast<uint32_t>(8 * ElementSize(tensor.dtype));
  if (q.bitwidth != 0 && (q.bitwidth < kLeastBits || q.bitwidth > bits)) {
    return Broken(tensor, "its bit width is %u; %s takes %u to %u", q.bitwidth,
                  DataTypeName(tensor.dtype), kLeastBits, bits);
  }
  size_t count;
  QNNRT_RETURN_IF_ERROR(CountOfPairs(tensor, &count));
  if (q.scales.size() != count || q.offsets.size() != count) {
    return Broken(tensor, "%zu scales and %zu offsets are given; it needs %zu of each",
                  q.scales.size(), q.offsets.size(), count);
  }
  const FixedRange range = RangeOf(tensor.dtype, q.bitwidth);
  for (size_t i = 0; i < count; ++i) QNNRT_RETURN_IF_ERROR(CheckPair(tensor, i, range));
  return Status::Ok();
}

bool SameStored(const Tensor& a, const Tensor& b) {
  const Quantization &p = a.quantization, &q = b.quantization;
  if (p.per_tensor()) return SameEncoding(a, b);
  if (a.dtype != b.dtype || !IsFixed(a.dtype) || p.axis < 0 || q.axis < 0) return false;
  const FixedRange x = RangeOf(a.dtype, p.bitwidth), y = RangeOf(b.dtype, q.bitwidth);
  const auto before = [](const Tensor& t) {
    return Product(t.shape, 0, static_cast<size_t>(t.quantization.axis));
  };
  return x.low == y.low && x.high == y.high && p.scales == q.scales && p.offsets == q.offsets &&
         before(a) == before(b);
}

void Unpack4(const uint8_t* packed, uint64_t count, bool is_signed, uint8_t* to) {
  for (uint64_t i = 0; i < count; ++i) to[i] = packed[i / 2] >> (i % 2 * 4);
  KeepLowBits(4, count, is_signed, to);
}

std::shared_ptr<AlignedBytes> Unpacked(const Tensor& tensor) {
  auto bytes = AlignedBytes::Make(tensor.elements());
  if (bytes != nullptr) {
    Unpack4(tensor.data_as<uint8_t>(), tensor.elements(),
            tensor.dtype == QNN_DATATYPE_SFIXED_POINT_8, static_cast<uint8_t*>(bytes->data()));
  }
  return bytes;
}

void KeepLowBits(uint32_t bits, uint64_t count, bool is_signed, uint8_t* elements) {
  const uint32_t mask = (1u << bits) - 1, sign = is_signed ? 1u << (bits - 1) : 0;
  for (uint64_t i = 0; i < count; ++i)
    elements[i] = static_cast<uint8_t>(((elements[i] & mask) ^ sign) - sign);
}

}  // namespace qnnrt
