// What a program beside the runtime asks of a delegate: buffers of its own, and what was done.
#include "abi/qnn_errors.h"
#include "tflite/delegate/delegate.h"

namespace qnnrt::tflite {

Status Delegate::Bind(int32_t index, void* address, uint64_t nbytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  TfLiteContext* context = nullptr;
  uint64_t bytes = 0;
  std::vector<Kernel*> users;
  for (Kernel* kernel : kernels_) {
    for (const Port& port : kernel->graph_->ports()) {
      if (port.index != index) continue;
      if (context != nullptr && context != kernel->context_)
        return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                     "several interpreters of this delegate have a tensor %d", index);
      context = kernel->context_;
      bytes = port.bytes;
      users.push_back(kernel);
    }
  }
  if (context == nullptr)
    return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                 "tensor %d is no input or output of a delegated partition", index);
  TfLiteTensor& t = context->tensors[index];
  const auto key = std::make_pair(static_cast<const TfLiteContext*>(context), index);
  auto known = allocations_.find(key);
  const bool ours = known != allocations_.end() && known->second.address == t.data;
  if ((t.allocation_type == kTfLiteCustom && !ours) ||
      (t.allocation_type != kTfLiteCustom && !InArena(t)))
    return Error(QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED,
                 "tensor %d has memory of the application's or of the model's", index);
  Allocation next;
  next.uses = known == allocations_.end() ? 0 : known->second.uses;
  next.before = known == allocations_.end() ? t.allocation_type : known->second.before;
  if (address == nullptr) {
    QNNRT_RETURN_IF_ERROR(Provide(&next, bytes));
  } else {
    if (reinterpret_cast<uintptr_t>(address) % kTfLiteDefaultTensorAlignment != 0)
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT,
                   "%p is not on a boundary of %d bytes, which TFLite asks of tensors", address,
                   kTfLiteDefaultTensorAlignment);
    if (nbytes < bytes)
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "%llu bytes for tensor %d, which has %llu",
                   static_cast<unsigned long long>(nbytes), index,
                   static_cast<unsigned long long>(bytes));
    uint64_t offset = 0;
    qnnrt_buffer_info_t info;
    if (qnnrt_buffer_lookup(address, &next.buffer.handle, &offset) != QNN_SUCCESS ||
        qnnrt_buffer_info(next.buffer.handle, &info) != QNN_SUCCESS)
      return Error(QNN_MEM_ERROR_INVALID_HANDLE,
                   "there is no buffer of this library at %p: allocate or import one", address);
    if (offset > info.nbytes || info.nbytes - offset < nbytes)
      return Error(QNN_COMMON_ERROR_INVALID_ARGUMENT, "%llu bytes reach beyond the buffer at %p",
                   static_cast<unsigned long long>(nbytes), address);
    next.address = address;
    next.capacity = nbytes;
    next.bound = true;
  }
  Allocation& allocation = allocations_[key];
  allocation = std::move(next);
  for (Kernel* kernel : users) {
    if (kernel->allocated_.insert(index).second) ++allocation.uses;
  }
  t.allocation_type = kTfLiteCustom;
  t.data = allocation.address;
  return Status::Ok();
}

uint32_t Delegate::Tensors(Qnnrt_TfliteTensor_t* out, uint32_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t count = 0;
  for (Kernel* kernel : kernels_) {
    for (const Port& port : kernel->graph_->ports()) {
      if (count++ >= capacity) continue;
      Qnnrt_TfliteTensor_t& found = out[count - 1];
      found = {};
      const TfLiteTensor& t = kernel->context_->tensors[port.index];
      found.index = port.index;
      found.output = port.output ? 1 : 0;
      found.address = t.data;
      found.nbytes = found.capacity = port.bytes;
      found.fd = -1;
      auto allocation = allocations_.find({kernel->context_, port.index});
      if (allocation != allocations_.end() && allocation->second.address == t.data) {
        found.memory = allocation->second.bound ? QNNRT_TFLITE_BOUND : QNNRT_TFLITE_SHARED;
        found.capacity = allocation->second.capacity;
      } else if (port.handle != nullptr && port.address == t.data) {
        found.memory = QNNRT_TFLITE_APPLICATION;
      }
      Buffer buffer;
      uint64_t offset = 0;
      qnnrt_buffer_info_t info;
      if (found.memory == QNNRT_TFLITE_COPIED ||
          qnnrt_buffer_lookup(t.data, &buffer.handle, &offset) != QNN_SUCCESS)
        continue;
      if (qnnrt_buffer_info(buffer.handle, &info) == QNN_SUCCESS)
        found.fd_offset = info.fd_offset + offset;
      qnnrt_buffer_fd(buffer.handle, &found.fd);
    }
  }
  return count;
}

void Delegate::Count(Qnnrt_TfliteCounters_t* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  *out = {};
  for (const auto& entry : nodes_) {
    out->nodes += entry.second.first;
    out->delegated += entry.second.second;
  }
  out->partitions = kernels_.size();
  out->invokes = invokes_;
  out->copied_in_bytes = copied_in_;
  out->copied_out_bytes = copied_out_;
  for (Kernel* kernel : kernels_) {
    uint64_t in, bytes_out;
    kernel->graph_->Copied(&in, &bytes_out);
    out->copied_in_bytes += in;
    out->copied_out_bytes += bytes_out;
    out->invokes += kernel->invokes_;
    for (const Port& port : kernel->graph_->ports())
      ++(kernel->graph_->InPlace(port) ? out->shared_tensors : out->copied_tensors);
  }
}

}  // namespace qnnrt::tflite
