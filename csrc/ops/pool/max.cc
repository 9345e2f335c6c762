// The greatest of each channel over the windows of an image or a volume.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/visit.h"
#include "ops/isa.h"
#include "ops/pool/pool.h"
#include "ops/rules.h"

namespace qnnrt {
namespace {

// Windows along one line of the output: the planes and rows that all of them see, and columns of
// which the first and the last ones may see less. Strides in elements.
struct MaxWindows {
  size_t planes, rows, plane_stride, row_stride;
  size_t channels, pixels;
  int64_t columns, first, stride, width;  // of the input; of the window
};

struct Brain {  // BFLOAT_16
  uint16_t bits;
};

template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, float>) return -std::numeric_limits<float>::infinity();
  return std::numeric_limits<T>::lowest();
}

// The greatest so far of so many bytes of channels. What is no number is passed over.
template <typename T, size_t kBytes>
struct Best {
  typedef T Vector __attribute__((vector_size(kBytes)));
  Vector best;

  QNNRT_INLINE void Start() {
    T lowest[kBytes / sizeof(T)];
    for (T& element : lowest) element = Lowest<T>();
    std::memcpy(&best, lowest, kBytes);
  }
  template <typename From>
  QNNRT_INLINE void Take(const From& x) {
    Vector v;
    std::memcpy(&v, &x, kBytes);
    best = v > best ? v : best;
  }
  QNNRT_INLINE void Store(T* out) const { std::memcpy(out, &best, kBytes); }
};

// Two channels from a word are the upper halves of two floats.
template <size_t kBytes>
struct Best<Brain, kBytes> {
  using Words = typename Best<uint32_t, kBytes>::Vector;
  Best<float, kBytes> even, odd;

  QNNRT_INLINE void Start() {
    even.Start();
    odd.Start();
  }
  QNNRT_INLINE void Take(const Brain& x) {
    Words words;
    std::memcpy(&words, &x, kBytes);
    const Words low = words << 16, high = words & 0xffff0000u;
    even.Take(low);
    odd.Take(high);
  }
  QNNRT_INLINE void Store(Brain* out) const {
    Words low, high;
    std::memcpy(&low, &even, kBytes);
    std::memcpy(&high, &odd, kBytes);
    const Words words = low >> 16 | high;
    std::memcpy(out, &words, kBytes);
  }
};

template <typename T, size_t kVector>  // bytes
struct MaxLine {
  static constexpr size_t kMany = 4;    // vectors whose maxima are in registers at once
  static constexpr size_t kShort = 16;  // bytes of the shortest vector

  static QNNRT_INLINE void Run(const T* in, const MaxWindows& w, T* out) {
    const size_t bytes = w.channels * sizeof(T);
    if (bytes >= kMany * kVector) {
      for (size_t x = 0; x < w.pixels; ++x) Channels(in, w, x, out + x * w.channels);
    } else if (bytes < kShort) {
      for (size_t x = 0; x < w.pixels; ++x) Few(in, w, x, out + x * w.channels);
    } else {
      Pixels<kVector>(in, w, out);
    }
  }

  // The columns that a window sees.
  struct Columns {
    QNNRT_INLINE Columns(const MaxWindows& w, size_t x)
        : start(w.first + static_cast<int64_t>(x) * w.stride),
          begin(std::max<int64_t>(start, 0)),
          count(std::max<int64_t>(std::min(start + w.width, w.columns) - begin, 0)) {}
    int64_t start, begin, count;
    QNNRT_INLINE const T* In(const T* line, const MaxWindows& w) const {
      return line + begin * static_cast<int64_t>(w.channels);
    }
  };

  // Of many channels: vectors of one pixel at once.
  static QNNRT_INLINE void Channels(const T* in, const MaxWindows& w, size_t x, T* out) {
    constexpr size_t kBlock = kVector / sizeof(T);
    const Columns columns(w, x);
    const T* const at = columns.In(in, w);
    size_t c = 0;
    for (; c + kMany * kBlock <= w.channels; c += kMany * kBlock)
      Window<kVector, kMany>(at + c, w, columns.count, kBlock, out + c, kBlock);
    for (; c < w.channels; c += kBlock) {
      const size_t channel = std::min(c, w.channels - kBlock);  // the last ones may overlap
      Window<kVector, 1>(at + channel, w, columns.count, 0, out + channel, 0);
    }
  }

  // Of few channels: vectors of several pixels at once, where all of their windows are inside.
  template <size_t kBytes>
  static QNNRT_INLINE void Pixels(const T* in, const MaxWindows& w, T* out) {
    if constexpr (kBytes > kShort) {
      if (w.channels * sizeof(T) < kBytes) return Pixels<kBytes / 2>(in, w, out);
    }
    constexpr size_t kBlock = kBytes / sizeof(T);
    const size_t step = static_cast<size_t>(w.stride) * w.channels;
    for (size_t x = 0; x < w.pixels;) {
      const Columns columns(w, x), last(w, x + kMany - 1);
      const bool many =
          x + kMany <= w.pixels && columns.start >= 0 && last.start + w.width <= w.columns;
      const T* const at = columns.In(in, w);
      T* const to = out + x * w.channels;
      for (size_t c = 0; c < w.channels; c += kBlock) {
        const size_t channel = std::min(c, w.channels - kBlock);
        if (many) {
          Window<kBytes, kMany>(at + channel, w, columns.count, step, to + channel, w.channels);
        } else {
          Window<kBytes, 1>(at + channel, w, columns.count, 0, to + channel, 0);
        }
      }
      x += many ? kMany : 1;
    }
  }

  template <size_t kBytes, size_t kCount>
  static QNNRT_INLINE void Window(const T* in, const MaxWindows& w, int64_t columns, size_t in_step,
                                  T* out, size_t out_step) {
    Best<T, kBytes> best[kCount];
#pragma GCC unroll 4
    for (size_t b = 0; b < kCount; ++b) best[b].Start();
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = in + z * w.plane_stride + y * w.row_stride;
        for (int64_t i = 0; i < columns; ++i, x += w.channels) {
#pragma GCC unroll 4
          for (size_t b = 0; b < kCount; ++b) best[b].Take(x[b * in_step]);
        }
      }
    }
#pragma GCC unroll 4
    for (size_t b = 0; b < kCount; ++b) best[b].Store(out + b * out_step);
  }

  // Fewer channels than the shortest vector has.
  static QNNRT_INLINE void Few(const T* in, const MaxWindows& w, size_t at, T* out) {
    const Columns columns(w, at);
    T channels[kShort / sizeof(T)] = {};
    Best<T, kShort> best;
    best.Start();
    for (size_t z = 0; z < w.planes; ++z) {
      for (size_t y = 0; y < w.rows; ++y) {
        const T* x = columns.In(in, w) + z * w.plane_stride + y * w.row_stride;
        for (int64_t i = 0; i < columns.count; ++i, x += w.channels) {
          std::memcpy(channels, x, w.channels * sizeof(T));
          best.Take(channels[0]);
        }
      }
    }
    best.Store(channels);
    std::memcpy(out, channels, w.channels * sizeof(T));
  }
};

template <typename T>
using MaxLineFn = void (*)(const T*, const MaxWindows&, T*);

#if defined(__x86_64__)

template <typename T>
__attribute__((target("avx2"))) void MaxLineAvx2(const T* in, const MaxWindows& w, T* out) {
  MaxLine<T, 32>::Run(in, w, out);
}
template <typename T>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2"))) void MaxLineAvx512(
    const T* in, const MaxWindows& w, T* out) {
  MaxLine<T, 64>::Run(in, w, out);
}

#endif

// Vectors are as long as registers: of longer ones the compiler compares the elements one by one.
template <typename T>
MaxLineFn<T> PickMaxLine() {
#if defined(__x86_64__)
  if (CpuIsa() == Isa::kAvx512) return MaxLineAvx512<T>;
  if (CpuIsa() == Isa::kAvx2) return MaxLineAvx2<T>;
#endif
  return MaxLine<T, 16>::Run;
}

// Each thread has the same lines in every run: those that it read lie in its core's cache.
template <typename T>
class MaxPool final : public Kernel {
 public:
  MaxPool(const PoolGeometry& g, int threads)
      : g_(g),
        parts_(std::clamp<int64_t>(Lines() / static_cast<int64_t>(LinesWorthAThread(g)), 1,
                                   threads)) {}

  Status Run(const ExecArgs& args) override {
    args.threads.For(static_cast<size_t>(parts_), 1, [&](size_t begin, size_t end) {
      const int64_t last = Lines() * static_cast<int64_t>(end) / parts_;
      for (int64_t l = Lines() * static_cast<int64_t>(begin) / parts_; l < last; ++l)
        RunLine(static_cast<const T*>(args.in[0]), l, static_cast<T*>(args.out[0]));
    });
    return Status::Ok();
  }

 private:
  int64_t Lines() const { return g_.batch * g_.out[0] * g_.out[1]; }

  void RunLine(const T* in, int64_t l, T* out) const {
    const int64_t n = l / (g_.out[0] * g_.out[1]), line = g_.in[2] * g_.channels;
    const PoolSpan d = SpanOf(g_, 0, l / g_.out[1] % g_.out[0]);
    const PoolSpan h = SpanOf(g_, 1, l % g_.out[1]);
    MaxWindows w;
    w.planes = static_cast<size_t>(d.size());
    w.rows = static_cast<size_t>(h.size());
    w.plane_stride = static_cast<size_t>(line * g_.in[1]);
    w.row_stride = static_cast<size_t>(line);
    w.channels = static_cast<size_t>(g_.channels);
    w.pixels = static_cast<size_t>(g_.out[2]);
    w.columns = g_.in[2];
    w.first = -g_.pad_before[2];
    w.stride = g_.stride[2];
    w.width = g_.kernel[2];
    run_(in + ((n * g_.in[0] + d.begin) * g_.in[1] + h.begin) * line, w,
         out + l * g_.out[2] * g_.channels);
  }

  const PoolGeometry g_;
  const int64_t parts_;
  const MaxLineFn<T> run_ = PickMaxLine<T>();
};

}  // namespace

bool TakesMaxPool(const Node& node) {
  if (node.type.compare(0, 7, "PoolMax") != 0 || CpuIsa() != Isa::kAvx512) return false;
  const Tensor& in = *node.inputs[0];
  const uint32_t channels = in.shape.back();
  return (in.dtype == QNN_DATATYPE_FLOAT_32 && channels >= 16) ||
         (in.dtype == QNN_DATATYPE_BFLOAT_16 && channels >= 64);
}

Result<KernelPtr> MakeMaxPool(const Node& node, const KernelOptions& options) {
  QNNRT_ASSIGN_OR_RETURN(const PoolGeometry g, ReadPool(node));
  const Qnn_DataType_t type = node.inputs[0]->dtype;
  const int threads = options.threads;
  if (type == QNN_DATATYPE_FLOAT_32) {
    if (KernelPtr planes = MakePlanePool(g, false, threads)) return planes;
  }
  if (type == QNN_DATATYPE_BFLOAT_16) return KernelPtr(new MaxPool<Brain>(g, threads));
  if (type == QNN_DATATYPE_FLOAT_16) return MakeViaFloat(*FindOp(node.type), node, options);
  return VisitNumber(type, [&](auto t) {
    using T = std::conditional_t<sizeof(t) == 8, float, decltype(t)>;  // none of the op's types
    return KernelPtr(new MaxPool<T>(g, threads));
  });
}

}  // namespace qnnrt
