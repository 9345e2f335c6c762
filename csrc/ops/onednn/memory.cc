// How tensors lie in memory, in oneDNN's terms.
#include "ops/onednn/kernel.h"

#ifdef QNNRT_ONEDNN_HEADERS

#include "ops/blocked_layout.h"

namespace qnnrt::onednn {
namespace {

std::vector<int64_t> Numbers(const_dnnl_memory_desc_t desc, dnnl_query_t what, int count) {
  const dnnl_dims_t* values = nullptr;
  TheApi().memory_desc_query(desc, what, &values);
  return values == nullptr ? std::vector<int64_t>()
                           : std::vector<int64_t>(*values, *values + count);
}

}  // namespace

std::string LayoutText(const_dnnl_memory_desc_t desc) {
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
  if (format != dnnl_blocked) {
    return layout.Elements() + " format " + std::to_string(static_cast<int>(format)) + " of " +
           OneDnnVersion();
  }
  api.memory_desc_query(desc, dnnl_query_inner_nblks_s32, &blocks);
  api.memory_desc_query(desc, dnnl_query_submemory_offset_s64, &offset);
  layout.padded = Numbers(desc, dnnl_query_padded_dims, rank);
  layout.strides = Numbers(desc, dnnl_query_strides, rank);
  layout.blocks = Numbers(desc, dnnl_query_inner_blks, blocks);
  layout.of = Numbers(desc, dnnl_query_inner_idxs, blocks);
  layout.offset = offset;
  return layout.Text();
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
