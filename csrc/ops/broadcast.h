// The loop nest of an op whose inputs broadcast to one output: dims that are walked alike are
// merged, so that most nests have one or two loops, and the inner one runs over whole vectors.
#pragma once

#include <array>
#include <cstddef>

#include "ir/types.h"

namespace qnnrt {

template <size_t N>
struct BroadcastPlan {
  int rank = 1;                                    // after merging; the last dim is the inner one
  std::array<size_t, 8> dims{1};                   // of the output
  std::array<std::array<size_t, 8>, N> strides{};  // in elements; 0 where an input repeats
  size_t total = 0;                                // elements of the output

  size_t inner() const { return dims[static_cast<size_t>(rank) - 1]; }
  // 1: input i runs along the inner dim; 0: one value of it serves the whole inner run
  size_t inner_stride(size_t i) const { return strides[i][static_cast<size_t>(rank) - 1]; }

  BroadcastPlan() = default;
  BroadcastPlan(const Shape& out, const std::array<const Shape*, N>& in) {
    const size_t n = out.size();
    std::array<size_t, N> step;  // stride of the next outer dim of each input
    step.fill(1);
    // Collect from the inner dim outwards, merging where every input keeps its pattern.
    size_t count = 0;
    std::array<size_t, 8> d{};
    std::array<std::array<size_t, 8>, N> s{};
    for (size_t i = n; i-- > 0;) {
      if (out[i] == 1) continue;
      std::array<size_t, N> stride;
      for (size_t k = 0; k < N; ++k) {
        const size_t shift = n - in[k]->size();
        const size_t size = i >= shift ? (*in[k])[i - shift] : 1;
        stride[k] = size == 1 ? 0 : step[k];
        step[k] *= size;
      }
      bool merge = count > 0;
      for (size_t k = 0; merge && k < N; ++k) {
        merge = stride[k] == s[k][count - 1] * d[count - 1];
      }
      if (merge) {
        d[count - 1] *= out[i];
        continue;
      }
      d[count] = out[i];
      for (size_t k = 0; k < N; ++k) s[k][count] = stride[k];
      ++count;
    }
    if (count == 0) {  // one element
      d[0] = 1, count = 1;
    }
    rank = static_cast<int>(count);
    total = 1;
    for (size_t i = 0; i < count; ++i) {
      dims[i] = d[count - 1 - i];
      total *= dims[i];
      for (size_t k = 0; k < N; ++k) strides[k][i] = s[k][count - 1 - i];
    }
  }

  // run(offsets, out_offset, length) for the parts of inner runs inside [begin, end) of the output
  template <typename F>
  void ForRuns(size_t begin, size_t end, const F& run) const {
    if (begin >= end) return;
    std::array<size_t, 8> index{};
    std::array<size_t, N> base{};  // of the run; the position inside it is `at`
    size_t rest = begin / inner(), at = begin % inner();
    for (int i = rank - 2; i >= 0; --i) {
      const size_t u = static_cast<size_t>(i);
      index[u] = rest % dims[u];
      rest /= dims[u];
      for (size_t k = 0; k < N; ++k) base[k] += index[u] * strides[k][u];
    }
    for (size_t out = begin; out < end;) {
      size_t length = inner() - at;
      if (length > end - out) length = end - out;
      std::array<size_t, N> offset;
      for (size_t k = 0; k < N; ++k) offset[k] = base[k] + at * inner_stride(k);
      run(offset, out, length);
      out += length;
      at = 0;
      for (int i = rank - 2; i >= 0; --i) {
        const size_t u = static_cast<size_t>(i);
        for (size_t k = 0; k < N; ++k) base[k] += strides[k][u];
        if (++index[u] < dims[u]) break;
        index[u] = 0;
        for (size_t k = 0; k < N; ++k) base[k] -= strides[k][u] * dims[u];
      }
    }
  }
};

}  // namespace qnnrt
