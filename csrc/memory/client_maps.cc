#include "memory/client_maps.h"

#include "abi/rpcmem.h"

namespace qnnrt {

bool ClientMaps::RegisterBuffer(void* address, size_t size, int fd) {
  const uintptr_t key = reinterpret_cast<uintptr_t>(address);
  if (fd == -1) {
    std::lock_guard<std::mutex> lock(mutex_);
    return buffers_.erase(key) == 1;
  }
  if (!address || size == 0 || fd < 0 || !IdOfFd(fd).ok()) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_[key] = {size, fd};
  return true;
}

size_t ClientMaps::registered_buffers() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return buffers_.size();
}

ClientMaps::Outcome ClientMaps::Map(int domain, int fd, void* address, int offset, size_t length,
                                    int flags) {
  if (domain < ADSP_DOMAIN_ID || domain > CDSP1_DOMAIN_ID) return Outcome::kBadArgument;
  if (flags != FASTRPC_MAP_STATIC && flags != FASTRPC_MAP_FD && flags != FASTRPC_MAP_FD_DELAYED &&
      flags != FASTRPC_MAP_FD_NOMAP) {
    return Outcome::kUnsupported;
  }
  const size_t page = PageSize();
  if (offset < 0 || length == 0 || static_cast<size_t>(offset) % page != 0 || length % page != 0) {
    return Outcome::kBadArgument;
  }
  Result<FdInfo> info = InspectFd(fd);
  if (!info.ok() || static_cast<uint64_t>(offset) > info->size ||
      length > ((info->size + page - 1) & ~(uint64_t{page} - 1)) - static_cast<uint64_t>(offset)) {
    return Outcome::kBadArgument;
  }
  Mapped wanted{info->id, address, static_cast<uint64_t>(offset), length};
  std::lock_guard<std::mutex> lock(mutex_);
  auto range = mapped_.equal_range({domain, fd});
  for (auto it = range.first; it != range.second;) {
    if (it->second.id != wanted.id) {  // the number means another file by now
      it = mapped_.erase(it);
      continue;
    }
    if (it->second.offset == wanted.offset && it->second.length == length) return Outcome::kAlready;
    ++it;
  }
  mapped_.emplace(std::make_pair(domain, fd), wanted);
  return Outcome::kOk;
}

ClientMaps::Outcome ClientMaps::Unmap(int domain, int fd, void* address, size_t length) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto range = mapped_.equal_range({domain, fd});
  for (auto it = range.first; it != range.second; ++it) {
    if (it->second.length != length || (address && it->second.address != address)) continue;
    mapped_.erase(it);
    return Outcome::kOk;
  }
  return Outcome::kUnknown;
}

}  // namespace qnnrt
