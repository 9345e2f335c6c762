// The inner loops of StridedCopy: rows of chunks, tiles that are transposed, rows that are
// interleaved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/isa.h"

namespace qnnrt {

constexpr size_t kTile = 16;  // elements on a side of a transposed tile

// What is read may lie on any boundary: constants do, in the files that they come from.
template <typename T>
struct Anywhere {
  typedef T Type __attribute__((aligned(1), may_alias));
};

template <typename T>
void CopyRow(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t dst_stride, size_t count,
             size_t) {
  const ptrdiff_t n = static_cast<ptrdiff_t>(count);
  if (src_stride == 0 && dst_stride == static_cast<ptrdiff_t>(sizeof(T))) {
    T value;
    std::memcpy(&value, src, sizeof(T));
    for (ptrdiff_t i = 0; i < n; ++i) {
      std::memcpy(dst + i * static_cast<ptrdiff_t>(sizeof(T)), &value, sizeof(T));
    }
    return;
  }
  for (ptrdiff_t i = 0; i < n; ++i) {
    std::memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(T));
  }
}

struct Sixteen {
  char bytes[16];
};

inline void CopyChunks(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t dst_stride,
                       size_t count, size_t bytes) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(dst, src, bytes);
    src += src_stride;
    dst += dst_stride;
  }
}

// Chunks for which calling memcpy takes as long as copying: of at least one block, and not many.
constexpr size_t kCopyBlock = 32, kMostBlocks = 16;
struct CopyShortChunks {
  static QNNRT_INLINE void Run(const char* src, ptrdiff_t src_stride, char* dst,
                               ptrdiff_t dst_stride, size_t count, size_t bytes) {
    const size_t last = bytes - kCopyBlock;  // its block overlaps the one before
    for (size_t i = 0; i < count; ++i) {
      for (size_t b = 0; b < last; b += kCopyBlock) std::memcpy(dst + b, src + b, kCopyBlock);
      std::memcpy(dst + last, src + last, kCopyBlock);
      src += src_stride;
      dst += dst_stride;
    }
  }
};

// block[k][i] = element k of line i, for kTile lines of `columns` elements, `stride` bytes apart.
#if defined(__GNUC__) && !defined(__clang__)
// The elements of two vectors of 16 bytes in turn: of their first halves, of their second ones.
template <typename T>
struct Zip;
template <>
struct Zip<uint64_t> {
  typedef uint64_t Vector __attribute__((vector_size(16)));
  static constexpr Vector kLow = {0, 2}, kHigh = {1, 3};
};
template <>
struct Zip<uint32_t> {
  typedef uint32_t Vector __attribute__((vector_size(16)));
  static constexpr Vector kLow = {0, 4, 1, 5}, kHigh = {2, 6, 3, 7};
};
template <>
struct Zip<uint16_t> {
  typedef uint16_t Vector __attribute__((vector_size(16)));
  static constexpr Vector kLow = {0, 8, 1, 9, 2, 10, 3, 11};
  static constexpr Vector kHigh = {4, 12, 5, 13, 6, 14, 7, 15};
};
template <>
struct Zip<uint8_t> {
  typedef uint8_t Vector __attribute__((vector_size(16)));
  static constexpr Vector kLow = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  static constexpr Vector kHigh = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
};

// Squares of vectors are turned in registers, halves zipped until each holds a column: less than
// half of what a store for each element takes, a fifth for bytes.
template <typename T>
QNNRT_INLINE void LoadTile(const char* src, ptrdiff_t stride, size_t columns, T* block) {
  using V = typename Zip<T>::Vector;
  constexpr size_t kSide = sizeof(V) / sizeof(T);
  const size_t whole = columns / kSide * kSide;
  for (size_t i = 0; i < kTile; i += kSide) {
    const char* from = src + static_cast<ptrdiff_t>(i) * stride;
    for (size_t k = 0; k < whole; k += kSide, from += sizeof(V)) {
      V v[kSide], w[kSide];
      for (size_t j = 0; j < kSide; ++j) {
        std::memcpy(&v[j], from + static_cast<ptrdiff_t>(j) * stride, sizeof(V));
      }
      for (size_t step = 1; step < kSide; step *= 2) {
        for (size_t j = 0; j < kSide / 2; ++j) {
          w[2 * j] = __builtin_shuffle(v[j], v[j + kSide / 2], Zip<T>::kLow);
          w[2 * j + 1] = __builtin_shuffle(v[j], v[j + kSide / 2], Zip<T>::kHigh);
        }
        for (size_t j = 0; j < kSide; ++j) v[j] = w[j];
      }
      for (size_t j = 0; j < kSide; ++j) std::memcpy(block + (k + j) * kTile + i, &v[j], sizeof(V));
    }
    for (size_t k = whole; k < kTile && k < columns; ++k, from += sizeof(T)) {
      for (size_t j = 0; j < kSide; ++j) {
        std::memcpy(block + k * kTile + i + j, from + static_cast<ptrdiff_t>(j) * stride,
                    sizeof(T));
      }
    }
  }
}
#else
template <typename T>
QNNRT_INLINE void LoadTile(const char* src, ptrdiff_t stride, size_t columns, T* block) {
  for (size_t i = 0; i < kTile; ++i) {
    T line[kTile];
    std::memcpy(line, src + static_cast<ptrdiff_t>(i) * stride, columns * sizeof(T));
    for (size_t k = 0; k < columns; ++k) block[k * kTile + i] = line[k];
  }
}
#endif

// dst[c][r] = src[r][c] for a band of at most kTile columns, through a small block: whole lines
// are read and written whatever the strides are.
template <typename T>
struct TransposeBand {
  static QNNRT_INLINE void Run(const char* src, ptrdiff_t src_stride, char* dst,
                               ptrdiff_t dst_stride, size_t rows, size_t columns) {
    alignas(64) T block[kTile * kTile];
    for (size_t r = 0; r < rows; r += kTile) {
      const size_t height = std::min(kTile, rows - r);
      const char* from = src + static_cast<ptrdiff_t>(r) * src_stride;
      if (height == kTile) {
        if (columns == kTile) {
          LoadTile(from, src_stride, kTile, block);
        } else {
          LoadTile(from, src_stride, columns, block);
        }
        for (size_t k = 0; k < columns; ++k) {
          std::memcpy(dst + static_cast<ptrdiff_t>(k) * dst_stride + r * sizeof(T),
                      block + k * kTile, kTile * sizeof(T));
        }
        continue;
      }
      for (size_t i = 0; i < height; ++i) {
        const char* line = from + static_cast<ptrdiff_t>(i) * src_stride;
        for (size_t k = 0; k < columns; ++k) {
          std::memcpy(block + k * kTile + i, line + k * sizeof(T), sizeof(T));
        }
      }
      for (size_t k = 0; k < columns; ++k) {
        std::memcpy(dst + static_cast<ptrdiff_t>(k) * dst_stride + r * sizeof(T), block + k * kTile,
                    height * sizeof(T));
      }
    }
  }
};

// dst[i] = src[from[i]] for one block.
template <typename T>
struct GatherBlock {
  static QNNRT_INLINE void Run(const char* src, char* dst, const int32_t* from, size_t count) {
    const auto* s = reinterpret_cast<const typename Anywhere<T>::Type*>(src);
    T* d = reinterpret_cast<T*>(dst);
    QNNRT_SIMD
    for (size_t i = 0; i < count; ++i) d[i] = s[from[i]];
  }
};

// The same for a block of kRows rows that are interleaved, which compilers turn into shuffles: a
// third of what the table takes. What is left of the columns behind whole vectors, which would be
// copied one by one, is done in short vectors, the last of its columns again.
template <typename T, size_t kRows>
struct InterleaveBlock {
  static constexpr size_t kWhole = std::max<size_t>(32 / sizeof(T), 8), kShort = 16;
  static QNNRT_INLINE void Run(const char* src, char* dst, const int32_t*, size_t count) {
    T* d = reinterpret_cast<T*>(dst);
    const size_t columns = count / kRows;
    // Two rows in so short vectors are copied one by one, too.
    if (kRows == 2 || columns < kShort) return Columns(src, d, 0, columns, columns);
    size_t c = columns / kWhole * kWhole;
    Columns(src, d, 0, c, columns);
    for (; c + kShort <= columns; c += kShort) Columns(src, d, c, kShort, columns);
    if (c < columns) Columns(src, d, columns - kShort, kShort, columns);
  }
  static QNNRT_INLINE void Columns(const char* src, T* d, size_t first, size_t n, size_t columns) {
    const auto* s = reinterpret_cast<const typename Anywhere<T>::Type*>(src);
    QNNRT_SIMD
    for (size_t c = first; c < first + n; ++c) {
      for (size_t r = 0; r < kRows; ++r) d[c * kRows + r] = s[r * columns + c];
    }
  }
};

// A band of as many columns as there are, of kRows rows that are interleaved: the planes of an
// image that become the channels of its pixels.
template <typename T, size_t kRows>
struct InterleaveBand {
  static QNNRT_INLINE void Run(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t, size_t,
                               size_t columns) {
    const typename Anywhere<T>::Type* rows[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      rows[r] = reinterpret_cast<const typename Anywhere<T>::Type*>(
          src + static_cast<ptrdiff_t>(r) * src_stride);
    }
    T* d = reinterpret_cast<T*>(dst);
    QNNRT_SIMD
    for (size_t c = 0; c < columns; ++c) {
      for (size_t r = 0; r < kRows; ++r) d[c * kRows + r] = rows[r][c];
    }
  }
};

// The way back: dst[k][r] = src[r][k], of rows of kColumns elements that lie one behind the other.
template <typename T, size_t kColumns>
struct DeinterleaveBand {
  static QNNRT_INLINE void Run(const char* src, ptrdiff_t, char* dst, ptrdiff_t dst_stride,
                               size_t rows, size_t) {
    const auto* s = reinterpret_cast<const typename Anywhere<T>::Type*>(src);
    for (size_t k = 0; k < kColumns; ++k) {
      T* d = reinterpret_cast<T*>(dst + static_cast<ptrdiff_t>(k) * dst_stride);
      QNNRT_SIMD
      for (size_t r = 0; r < rows; ++r) d[r] = s[r * kColumns + k];
    }
  }
};

}  // namespace qnnrt
