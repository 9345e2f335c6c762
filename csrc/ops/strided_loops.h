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
template <typename T>
QNNRT_INLINE void LoadTile(const char* src, ptrdiff_t stride, size_t columns, T* block) {
  for (size_t i = 0; i < kTile; ++i) {
    T line[kTile];
    std::memcpy(line, src + static_cast<ptrdiff_t>(i) * stride, columns * sizeof(T));
    for (size_t k = 0; k < columns; ++k) block[k * kTile + i] = line[k];
  }
}

#if defined(__GNUC__) && !defined(__clang__)
// Of 32 bits, 4 x 4 at a time in registers: less than half of what a store for each element takes.
template <>
QNNRT_INLINE void LoadTile<uint32_t>(const char* src, ptrdiff_t stride, size_t columns,
                                     uint32_t* block) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  const size_t whole = columns / 4 * 4;
  for (size_t i = 0; i < kTile; i += 4) {
    const char* from = src + static_cast<ptrdiff_t>(i) * stride;
    for (size_t k = 0; k < whole; k += 4, from += sizeof(Four)) {
      Four a, b, c, d;
      std::memcpy(&a, from, sizeof(Four));
      std::memcpy(&b, from + stride, sizeof(Four));
      std::memcpy(&c, from + 2 * stride, sizeof(Four));
      std::memcpy(&d, from + 3 * stride, sizeof(Four));
      const Four ab = __builtin_shuffle(a, b, Four{0, 4, 1, 5});
      const Four cd = __builtin_shuffle(c, d, Four{0, 4, 1, 5});
      const Four ab2 = __builtin_shuffle(a, b, Four{2, 6, 3, 7});
      const Four cd2 = __builtin_shuffle(c, d, Four{2, 6, 3, 7});
      const Four out[4] = {__builtin_shuffle(ab, cd, Four{0, 1, 4, 5}),
                           __builtin_shuffle(ab, cd, Four{2, 3, 6, 7}),
                           __builtin_shuffle(ab2, cd2, Four{0, 1, 4, 5}),
                           __builtin_shuffle(ab2, cd2, Four{2, 3, 6, 7})};
      for (size_t j = 0; j < 4; ++j)
        std::memcpy(block + (k + j) * kTile + i, &out[j], sizeof(Four));
    }
    for (size_t k = whole; k < columns; ++k, from += sizeof(uint32_t)) {
      for (size_t j = 0; j < 4; ++j) {
        std::memcpy(block + k * kTile + i + j, from + static_cast<ptrdiff_t>(j) * stride,
                    sizeof(uint32_t));
      }
    }
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
// third of what the table takes.
template <typename T, size_t kRows>
struct InterleaveBlock {
  static QNNRT_INLINE void Run(const char* src, char* dst, const int32_t*, size_t count) {
    const auto* s = reinterpret_cast<const typename Anywhere<T>::Type*>(src);
    T* d = reinterpret_cast<T*>(dst);
    const size_t columns = count / kRows;
    QNNRT_SIMD
    for (size_t c = 0; c < columns; ++c) {
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
