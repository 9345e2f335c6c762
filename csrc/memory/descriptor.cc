#include "memory/descriptor.h"

#include <algorithm>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_lpai.h"

namespace qnnrt {
namespace {

Status NullCustomInfo() {
  return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
               "memType CUSTOM: expected customInfo to point at the backend's struct, got null");
}

Status FromHtp(const QnnMemHtp_Descriptor_t& htp, MemDescriptor* d) {
  switch (static_cast<int>(htp.type)) {
    case QNN_HTP_MEM_QURT:
      d->kind = MemKind::kQurt;
      return Status::Ok();
    case QNN_HTP_MEM_SHARED_BUFFER:
      d->kind = MemKind::kSharedBuffer;
      break;
    case QNN_HTP_MEM_WEIGHTS_BUFFER:
      d->kind = MemKind::kWeights;
      break;
    case QNN_HTP_MEM_SHARED_SPILLFILL_BUFFER:
      d->kind = MemKind::kSpillFill;
      break;
    default:
      return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE, "HTP memory type %d is not known",
                   static_cast<int>(htp.type));
  }
  d->fd = htp.sharedBufferConfig.fd;  // the buffer kinds all have this layout
  d->offset = static_cast<uint64_t>(htp.sharedBufferConfig.offset);
  d->size = htp.size;
  d->states_size = true;
  return Status::Ok();
}

}  // namespace

Result<MemDescriptor> FromQnn(const Qnn_MemDescriptor_t& q, CustomMem custom) {
  MemDescriptor d;
  d.rank = q.memShape.numDim;
  d.dims = q.memShape.dimSize;
  d.shape_config = q.memShape.shapeConfig;
  d.data_type = static_cast<uint32_t>(q.dataType);
  switch (static_cast<int>(q.memType)) {
    case QNN_MEM_TYPE_ION:
      d.kind = MemKind::kIon;
      d.fd = q.ionInfo.fd;
      return d;
    case QNN_MEM_TYPE_DMA_BUF:
      d.kind = MemKind::kDmaBuf;
      d.fd = q.dmaBufInfo.fd;
      d.data = q.dmaBufInfo.data;
      return d;
    case QNN_MEM_TYPE_CUSTOM:
      break;
    default:
      return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                   "memType %d: expected ION (1), CUSTOM (2) or DMA_BUF (3)",
                   static_cast<int>(q.memType));
  }
  if (custom == CustomMem::kNone) {
    return Error(QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE,
                 "memType CUSTOM: this backend has no custom memory");
  }
  if (!q.customInfo) return NullCustomInfo();
  if (custom == CustomMem::kHtp) {
    QNNRT_RETURN_IF_ERROR(FromHtp(*static_cast<const QnnMemHtp_Descriptor_t*>(q.customInfo), &d));
    return d;
  }
  const auto& lpai = *static_cast<const QnnLpaiMem_MemInfoCustom_t*>(q.customInfo);
  d.kind = MemKind::kLpaiCustom;
  d.fd = lpai.fd;
  d.offset = lpai.offset;
  return d;
}

void ClearHandles(const Qnn_MemDescriptor_t* descriptors, uint32_t count,
                  Qnn_MemHandle_t* handles) {
  if (handles != nullptr)
    std::fill_n(handles, descriptors != nullptr ? count : std::min(count, 1U), nullptr);
}

Status RegisterQnn(Registry* registry, uint64_t context, const Qnn_MemDescriptor_t* descriptors,
                   uint32_t count, CustomMem custom, uint32_t kinds, Qnn_MemHandle_t* handles,
                   ProcessDomain* domain) {
  ClearHandles(descriptors, count, handles);
  if (!descriptors || !handles || count == 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT,
                 "expected at least one descriptor and room for its handle");
  }
  if (count == 1) {  // what nearly every client does
    QNNRT_ASSIGN_OR_RETURN(MemDescriptor d, FromQnn(descriptors[0], custom));
    SlotHandle handle;
    QNNRT_RETURN_IF_ERROR(registry->Register(context, &d, 1, kinds, &handle, domain));
    handles[0] = HandleToQnn(handle);
    return Status::Ok();
  }
  std::vector<MemDescriptor> parsed;
  parsed.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    Result<MemDescriptor> d = FromQnn(descriptors[i], custom);
    if (!d.ok()) return std::move(d).status().Within("descriptor " + std::to_string(i));
    parsed.push_back(*d);
  }
  std::vector<SlotHandle> made(count);
  QNNRT_RETURN_IF_ERROR(
      registry->Register(context, parsed.data(), count, kinds, made.data(), domain));
  std::transform(made.begin(), made.end(), handles, HandleToQnn);
  return Status::Ok();
}

Status DeregisterQnn(Registry* registry, const Qnn_MemHandle_t* handles, uint32_t count) {
  static_assert(sizeof(Qnn_MemHandle_t) == sizeof(SlotHandle), "handles travel as pointers");
  if (!handles || count == 0) {
    return Error(QNN_MEM_ERROR_INVALID_ARGUMENT, "expected at least one handle");
  }
  // In pieces on the stack: giving back must not need memory.
  Status first;
  SlotHandle slots[64];
  for (uint32_t done = 0; done < count;) {
    const uint32_t n = std::min<uint32_t>(count - done, 64);
    std::transform(handles + done, handles + done + n, slots, HandleFromQnn);
    Status status = registry->Deregister(slots, n);
    if (first.ok()) first = std::move(status);
    done += n;
  }
  return first;
}

}  // namespace qnnrt
