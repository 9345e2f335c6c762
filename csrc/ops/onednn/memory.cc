// How tensors lie in memory, in oneDNN's terms.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include <algorithm>
#include <cstring>
#include <optional>

#include "ops/blocked_layout.h"
#include "ops/strided_copy.h"

namespace qnnrt::onednn {
namespace {

std::vector<int64_t> Numbers(const_dnnl_memory_desc_t desc, dnnl_query_t what, int count) {
  const dnnl_dims_t* values = nullptr;
  TheApi().memory_desc_query(desc, what, &values);
  return values == nullptr ? std::vector<int64_t>()
                           : std::vector<int64_t>(*values, *values + count);
}

// No strides: it is not in blocks.
BlockedLayout LayoutOf(const_dnnl_memory_desc_t desc) {
  const Api& api = TheApi();
  dnnl_format_kind_t format = dnnl_format_kind_undef;
  dnnl_data_type_t type = dnnl_data_type_undef;
  int rank = 0, blocks = 0;
  dnnl_dim_t offset = 0;
  api.memory_desc_query(desc, dnnl_query_format_kind, &format);
  api.memory_desc_query(desc, dnnl_query_data_type, &type);
  api.memory_desc_query(desc, dnnl_query_ndims_s32, &rank);
  BlockedLayout layout;
  layout.type = static_cast<int>(type);
  layout.dims = Numbers(desc, dnnl_query_dims, rank);
  if (format != dnnl_blocked) return layout;
  api.memory_desc_query(desc, dnnl_query_inner_nblks_s32, &blocks);
  api.memory_desc_query(desc, dnnl_query_submemory_offset_s64, &offset);
  layout.padded = Numbers(desc, dnnl_query_padded_dims, rank);
  layout.strides = Numbers(desc, dnnl_query_strides, rank);
  layout.blocks = Numbers(desc, dnnl_query_inner_blks, blocks);
  layout.of = Numbers(desc, dnnl_query_inner_idxs, blocks);
  layout.offset = offset;
  return layout;
}

// The stride of a dimension that has this one in a dense tensor, where its elements lie by other
// ones; nothing where it goes over several dimensions of the tensor.
std::optional<int64_t> StrideOf(int64_t stride, int64_t count, const Shape& shape,
                                const std::vector<int64_t>& strides) {
  if (strides.empty() || count == 1) return stride;
  int64_t dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t size = shape[axis];
    if (size > 1 && stride % dense == 0 && stride < dense * size) {
      const int64_t times = stride / dense;
      if (times * count > size) return std::nullopt;
      return times * strides[axis];
    }
    dense *= size;
  }
  return std::nullopt;
}

}  // namespace

std::string LayoutText(const_dnnl_memory_desc_t desc) {
  const BlockedLayout layout = LayoutOf(desc);
  if (layout.strides.empty()) {
    dnnl_format_kind_t format = dnnl_format_kind_undef;
    TheApi().memory_desc_query(desc, dnnl_query_format_kind, &format);
    return layout.Elements() + " format " + std::to_string(static_cast<int>(format)) + " of " +
           OneDnnVersion();
  }
  return layout.Text();
}

bool PackBytes(const_dnnl_memory_desc_t lying, const Shape& shape,
               const std::vector<int64_t>& strides, const void* from,
               const_dnnl_memory_desc_t wanted, void* to, const Threads& threads) {
  const BlockedLayout before = LayoutOf(lying), now = LayoutOf(wanted);
  const size_t rank = now.dims.size();
  if (now.strides.empty() || before.strides.empty() || !before.blocks.empty() ||
      before.dims != now.dims || before.offset != 0 || now.offset != 0) {
    return false;
  }
  if (before.type != now.type || (now.type != dnnl_s8 && now.type != dnnl_u8)) return false;
  uint64_t bytes = 1;
  for (int64_t size : now.padded) bytes *= static_cast<uint64_t>(size);
  const uint64_t all = TheApi().memory_desc_get_size(wanted);
  if (bytes != all) return false;  // sums go along
  // Loops over a part of a dimension: whole blocks, or what is left of them.
  struct Part {
    ptrdiff_t src = 0, dst = 0;
    std::vector<CopyDim> loops;
  };
  std::vector<Part> parts(1);
  for (size_t d = 0; d < rank; ++d) {
    const std::optional<int64_t> stride =
        StrideOf(before.strides[d], before.dims[d], shape, strides);
    if (!stride) return false;
    const ptrdiff_t src = *stride;
    std::vector<CopyDim> inner;  // innermost first
    ptrdiff_t block = 1, step = 1;
    for (size_t b = now.blocks.size(); b-- > 0;) {
      if (static_cast<size_t>(now.of[b]) == d) {
        inner.push_back({static_cast<size_t>(now.blocks[b]), src * block, step});
        block *= now.blocks[b];
      }
      step *= now.blocks[b];
    }
    std::reverse(inner.begin(), inner.end());
    const ptrdiff_t whole = now.dims[d] / block, left = now.dims[d] % block;
    std::vector<Part> cut;
    if (whole > 0) {
      cut.push_back({0, 0, inner});
      cut[0].loops.insert(cut[0].loops.begin(),
                          {static_cast<size_t>(whole), src * block, now.strides[d]});
    }
    if (left > 0) {
      CopyDim last = inner.back();
      if (static_cast<size_t>(left) > last.count) return false;
      last.count = static_cast<size_t>(left);
      cut.push_back({whole * block * src, whole * now.strides[d], {last}});
    }
    std::vector<Part> both;
    for (const Part& part : parts) {
      for (const Part& more : cut) {
        Part joined{part.src + more.src, part.dst + more.dst, part.loops};
        joined.loops.insert(joined.loops.end(), more.loops.begin(), more.loops.end());
        both.push_back(std::move(joined));
      }
    }
    parts = std::move(both);
  }
  if (now.padded != now.dims) std::memset(to, 0, all);
  for (Part& part : parts) {
    // In the order in which they are written.
    std::stable_sort(part.loops.begin(), part.loops.end(),
                     [](const CopyDim& a, const CopyDim& b) { return a.dst > b.dst; });
    const StridedCopy copy(1, std::move(part.loops), static_cast<size_t>(part.src),
                           static_cast<size_t>(part.dst));
    copy.Run(threads, from, to);
  }
  return true;
}

MemoryDesc MemoryDesc::Strided(const Dims& dims, const Dims& strides, dnnl_data_type_t type) {
  MemoryDesc md;
  if (dims.size() > DNNL_MAX_NDIMS || dims.size() != strides.size()) return md;
  TheApi().memory_desc_create_with_strides(md.handle_.out(), static_cast<int>(dims.size()),
                                           dims.data(), type, strides.data());
  return md;
}

MemoryDesc MemoryDesc::Dense(const Dims& dims, dnnl_data_type_t type) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return Strided(dims, strides, type);
}

MemoryDesc MemoryDesc::Any(const Dims& dims, dnnl_data_type_t type) {
  MemoryDesc md;
  if (dims.size() > DNNL_MAX_NDIMS) return md;
  TheApi().memory_desc_create_with_tag(md.handle_.out(), static_cast<int>(dims.size()), dims.data(),
                                       type, dnnl_format_tag_any);
  return md;
}

MemoryDesc ChannelLast(const Tensor& tensor, dnnl_data_type_t type) {
  const Shape& s = tensor.shape;
  const size_t rank = s.size();
  Dims dims(rank), strides(rank);
  dims[0] = s[0];
  dims[1] = s[rank - 1];
  strides[1] = 1;
  int64_t stride = s[rank - 1];
  for (size_t i = rank - 1; i-- > 1;) {
    dims[i + 1] = s[i];
    strides[i + 1] = stride;
    stride *= s[i];
  }
  strides[0] = stride;
  return MemoryDesc::Strided(dims, strides, type);
}

}  // namespace qnnrt::onednn

#endif  // QNNRT_ONEDNN_HEADERS
