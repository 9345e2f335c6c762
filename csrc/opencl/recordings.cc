#include "opencl/recordings.h"

#include <algorithm>

namespace qnnrt::opencl {

void Recordings::Drop(Entry* entry) {
  if (entry->buffer != nullptr) cl_.releaseCommandBuffer(entry->buffer);
  entry->buffer = nullptr;
  entry->used = 0;
  if (entry == current_) current_ = nullptr;
}

void* Recordings::Find(const Key& key) {
  const auto same = [&](const Entry& entry) { return entry.used != 0 && entry.key == key; };
  auto found = std::find_if(entries_.begin(), entries_.end(), same);
  seen_ = found != entries_.end();
  if (!seen_) {
    found = std::min_element(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.used < b.used; });
    Drop(&*found);
    found->key = key;
  }
  found->used = ++clock_;
  current_ = &*found;
  return found->buffer;
}

void Recordings::Forget(uint64_t number) {
  for (Entry& entry : entries_)
    if (std::find(entry.key.begin(), entry.key.end(), number) != entry.key.end()) Drop(&entry);
}

void Recordings::Clear() {
  for (Entry& entry : entries_) Drop(&entry);
}

}  // namespace qnnrt::opencl
