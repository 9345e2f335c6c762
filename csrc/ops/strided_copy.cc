#include "ops/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/strided_loops.h"

namespace qnnrt {
namespace {

constexpr size_t kGrainBytes = 128 << 10;  // the least that is worth a thread
constexpr size_t kMaxGather = 4096;        // elements of a block that is moved by a table
constexpr size_t kFillBlock = 8 << 10;     // bytes that a fill repeats
constexpr size_t kInterleaveBand = 4096;   // columns of a few rows that are interleaved at a time

using BandFn = void (*)(const char* src, ptrdiff_t src_stride, char* dst, ptrdiff_t dst_stride,
                        size_t rows, size_t columns);

// Null where tiles do as well.
template <typename T>
BandFn PickInterleave(size_t rows) {
  switch (rows) {
    case 2:
      return PickIsa<InterleaveBand<T, 2>>();
    case 3:
      return PickIsa<InterleaveBand<T, 3>>();
    case 4:
      return PickIsa<InterleaveBand<T, 4>>();
    default:
      return nullptr;
  }
}

template <typename T>
BandFn PickDeinterleave(size_t columns) {
  switch (columns) {
    case 2:
      return PickIsa<DeinterleaveBand<T, 2>>();
    case 3:
      return PickIsa<DeinterleaveBand<T, 3>>();
    case 4:
      return PickIsa<DeinterleaveBand<T, 4>>();
    default:
      return nullptr;
  }
}

template <typename T>
BandFn PickBand(bool interleaved, size_t rows, size_t* width) {
  const BandFn interleave = interleaved ? PickInterleave<T>(rows) : nullptr;
  *width = interleave != nullptr ? kInterleaveBand : kTile;
  if (interleave != nullptr) return interleave;
  return rows >= 4 ? PickIsa<TransposeBand<T>>() : nullptr;
}

using BlockFn = void (*)(const char* src, char* dst, const int32_t* from, size_t count);

template <typename T>
BlockFn PickBlock(size_t rows) {
  switch (rows) {
    case 2:
      return PickIsa<InterleaveBlock<T, 2>>();
    case 3:
      return PickIsa<InterleaveBlock<T, 3>>();
    case 4:
      return PickIsa<InterleaveBlock<T, 4>>();
    case 8:
      return PickIsa<InterleaveBlock<T, 8>>();
    default:
      return PickIsa<GatherBlock<T>>();
  }
}

}  // namespace

StridedCopy::StridedCopy(size_t element_size, std::vector<CopyDim> dims, size_t src_offset,
                         size_t dst_offset)
    : chunk_(element_size),
      src_offset_(static_cast<ptrdiff_t>(src_offset * element_size)),
      dst_offset_(static_cast<ptrdiff_t>(dst_offset * element_size)) {
  const ptrdiff_t size = static_cast<ptrdiff_t>(element_size);
  for (CopyDim d : dims) {
    if (d.count == 1) continue;
    d.src *= size, d.dst *= size;
    if (!dims_.empty()) {  // one loop where both sides go on as before
      CopyDim& last = dims_.back();
      const ptrdiff_t count = static_cast<ptrdiff_t>(d.count);
      if (last.src == d.src * count && last.dst == d.dst * count) {
        last = {last.count * d.count, d.src, d.dst};
        continue;
      }
    }
    dims_.push_back(d);
  }
  if (!dims_.empty() && dims_.back().src == size && dims_.back().dst == size) {
    chunk_ *= dims_.back().count;
    dims_.pop_back();
  }
  for (const CopyDim& d : dims_) units_ *= d.count;
  unit_bytes_ = chunk_;
  switch (chunk_) {
    case 1:
      row_ = CopyRow<uint8_t>;
      break;
    case 2:
      row_ = CopyRow<uint16_t>;
      break;
    case 4:
      row_ = CopyRow<uint32_t>;
      break;
    case 8:
      row_ = CopyRow<uint64_t>;
      break;
    case 16:
      row_ = CopyRow<Sixteen>;
      break;
    default:
      row_ = chunk_ >= kCopyBlock && chunk_ <= kMostBlocks * kCopyBlock ? PickIsa<CopyShortChunks>()
                                                                        : CopyChunks;
      break;
  }
  if (!PlanGather()) PlanTiles();
}

// Channels shuffled within a pixel: a dense block on both sides, too narrow for tiles.
bool StridedCopy::PlanGather() {
  if (dims_.size() < 2) return false;
  const CopyDim columns = dims_[dims_.size() - 2], rows = dims_.back();
  const ptrdiff_t size = static_cast<ptrdiff_t>(chunk_);
  const size_t count = columns.count * rows.count;
  const bool dense = columns.src == size && rows.dst == size &&
                     rows.src == static_cast<ptrdiff_t>(columns.count) * size &&
                     columns.dst == static_cast<ptrdiff_t>(rows.count) * size;
  if (!dense || std::min(columns.count, rows.count) >= kTile || count > kMaxGather) return false;
  switch (chunk_) {
    case 1:
      gather_ = PickBlock<uint8_t>(rows.count);
      break;
    case 2:
      gather_ = PickBlock<uint16_t>(rows.count);
      break;
    case 4:
      gather_ = PickBlock<uint32_t>(rows.count);
      break;
    case 8:
      gather_ = PickBlock<uint64_t>(rows.count);
      break;
    default:
      return false;
  }
  for (size_t c = 0; c < columns.count; ++c) {
    for (size_t r = 0; r < rows.count; ++r) {
      from_.push_back(static_cast<int32_t>(r * columns.count + c));
    }
  }
  units_ /= count;
  unit_bytes_ = count * chunk_;
  return true;
}

void StridedCopy::PlanTiles() {
  const ptrdiff_t size = static_cast<ptrdiff_t>(chunk_);
  if (dims_.size() < 2 || dims_.back().dst != size || dims_.back().src == 0) return;
  const auto fastest =
      std::find_if(dims_.begin(), dims_.end() - 1, [&](const CopyDim& d) { return d.src == size; });
  if (fastest == dims_.end() - 1) return;
  const CopyDim columns = *fastest, rows = dims_.back();
  const bool interleaved = columns.dst == static_cast<ptrdiff_t>(rows.count) * size;
  switch (chunk_) {
    case 1:
      tile_ = PickBand<uint8_t>(interleaved, rows.count, &band_);
      break;
    case 2:
      tile_ = PickBand<uint16_t>(interleaved, rows.count, &band_);
      break;
    case 4:
      tile_ = PickBand<uint32_t>(interleaved, rows.count, &band_);
      break;
    case 8:
      tile_ = PickBand<uint64_t>(interleaved, rows.count, &band_);
      break;
    default:
      return;
  }
  // Channels of pixels that become planes; four words of 32 bits have tiles of their own.
  if (rows.src == static_cast<ptrdiff_t>(columns.count) * size && rows.count >= kTile) {
    const BandFn planes = chunk_ == 1   ? PickDeinterleave<uint8_t>(columns.count)
                          : chunk_ == 2 ? PickDeinterleave<uint16_t>(columns.count)
                          : chunk_ == 4 && columns.count < 4
                              ? PickDeinterleave<uint32_t>(columns.count)
                              : nullptr;
    if (planes != nullptr) tile_ = planes;
  }
  if (tile_ == nullptr) return;
  std::rotate(fastest, fastest + 1, dims_.end() - 1);  // next to the last
  bands_ = (columns.count + band_ - 1) / band_;
  units_ = units_ / columns.count / rows.count * bands_;
  unit_bytes_ = std::min(band_, columns.count) * rows.count * chunk_;
}

void StridedCopy::Run(const Threads& threads, const void* src, void* dst) const {
  const char* from = static_cast<const char*>(src) + src_offset_;
  char* to = static_cast<char*>(dst) + dst_offset_;
  if (units_ == 0 || chunk_ == 0) return;
  if (dims_.empty()) return ParallelCopy(threads, to, from, chunk_);
  threads.For(units_, std::max<size_t>(1, kGrainBytes / unit_bytes_),
              [&](size_t begin, size_t end) {
                if (gather_ != nullptr) return RunGather(from, to, begin, end);
                if (tile_ != nullptr) return RunTiles(from, to, begin, end);
                RunRows(from, to, begin, end);
              });
}

void StridedCopy::RunRows(const char* src, char* dst, size_t begin, size_t end) const {
  std::array<size_t, kMaxDims> index;
  const size_t last = dims_.size() - 1;
  size_t rest = begin;
  for (size_t i = dims_.size(); i-- > 0;) {
    index[i] = rest % dims_[i].count;
    rest /= dims_[i].count;
    src += static_cast<ptrdiff_t>(index[i]) * dims_[i].src;
    dst += static_cast<ptrdiff_t>(index[i]) * dims_[i].dst;
  }
  for (size_t at = begin; at < end;) {
    const CopyDim& row = dims_[last];
    const size_t n = std::min(row.count - index[last], end - at);
    row_(src, row.src, dst, row.dst, n, chunk_);
    at += n;
    if (at == end) return;
    src -= static_cast<ptrdiff_t>(index[last]) * row.src;
    dst -= static_cast<ptrdiff_t>(index[last]) * row.dst;
    index[last] = 0;
    for (size_t i = last; i-- > 0;) {
      src += dims_[i].src;
      dst += dims_[i].dst;
      if (++index[i] < dims_[i].count) break;
      src -= static_cast<ptrdiff_t>(dims_[i].count) * dims_[i].src;
      dst -= static_cast<ptrdiff_t>(dims_[i].count) * dims_[i].dst;
      index[i] = 0;
    }
  }
}

void StridedCopy::RunGather(const char* src, char* dst, size_t begin, size_t end) const {
  for (size_t unit = begin; unit < end; ++unit) {
    size_t rest = unit;
    const char* from = src;
    char* to = dst;
    for (size_t i = dims_.size() - 2; i-- > 0;) {
      const ptrdiff_t index = static_cast<ptrdiff_t>(rest % dims_[i].count);
      rest /= dims_[i].count;
      from += index * dims_[i].src;
      to += index * dims_[i].dst;
    }
    gather_(from, to, from_.data(), from_.size());
  }
}

void StridedCopy::RunTiles(const char* src, char* dst, size_t begin, size_t end) const {
  const size_t outer = dims_.size() - 2;
  const CopyDim &columns = dims_[outer], &rows = dims_[outer + 1];
  for (size_t unit = begin; unit < end; ++unit) {
    const size_t first = unit % bands_ * band_;
    size_t rest = unit / bands_;
    const char* from = src + static_cast<ptrdiff_t>(first) * columns.src;
    char* to = dst + static_cast<ptrdiff_t>(first) * columns.dst;
    for (size_t i = outer; i-- > 0;) {
      const ptrdiff_t index = static_cast<ptrdiff_t>(rest % dims_[i].count);
      rest /= dims_[i].count;
      from += index * dims_[i].src;
      to += index * dims_[i].dst;
    }
    tile_(from, rows.src, to, columns.dst, rows.count, std::min(band_, columns.count - first));
  }
}

void FillElements(char* to, const unsigned char* value, size_t element, size_t bytes) {
  if (bytes == 0) return;
  if (std::all_of(value, value + element, [&](unsigned char b) { return b == value[0]; })) {
    std::memset(to, value[0], bytes);
    return;
  }
  std::memcpy(to, value, element);
  for (size_t done = element; done < bytes;) {  // copies stay within a block that caches hold
    const size_t n = std::min(std::min(done, kFillBlock / element * element), bytes - done);
    std::memcpy(to + done, to, n);
    done += n;
  }
}

void ParallelCopy(const Threads& threads, void* dst, const void* src, size_t bytes) {
  if (dst == src) return;
  if (bytes < 2 * kGrainBytes) {
    std::memcpy(dst, src, bytes);
    return;
  }
  threads.For(bytes, kGrainBytes, [&](size_t begin, size_t end) {
    std::memcpy(static_cast<char*>(dst) + begin, static_cast<const char*>(src) + begin,
                end - begin);
  });
}

std::vector<ptrdiff_t> DenseStrides(const Shape& shape) {
  std::vector<ptrdiff_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<ptrdiff_t>(shape[i]);
  }
  return strides;
}

namespace {

class CopyKernel final : public Kernel {
 public:
  CopyKernel(std::vector<CopyTask> tasks, const CopyFill& fill)
      : tasks_(std::move(tasks)), fill_(fill) {}
  Status Run(const ExecArgs& args) override {
    if (fill_.count != 0) {
      FillElements(static_cast<char*>(args.out[0]), fill_.value, fill_.element_size,
                   fill_.count * fill_.element_size);
    }
    for (const CopyTask& t : tasks_) t.copy.Run(args.threads, args.in[t.input], args.out[t.output]);
    return {};
  }

 private:
  const std::vector<CopyTask> tasks_;
  const CopyFill fill_;
};

}  // namespace

KernelPtr MakeCopyKernel(std::vector<CopyTask> tasks, const CopyFill& fill) {
  return std::make_unique<CopyKernel>(std::move(tasks), fill);
}

KernelPtr MakePlainCopy(const Node& node) {
  return MakeCopyKernel({{0, 0, StridedCopy(node.inputs[0]->bytes(), {})}});
}

}  // namespace qnnrt
