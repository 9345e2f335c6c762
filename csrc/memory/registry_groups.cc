// Registers the tensors of one buffer together: what one call says of all is looked up once.
#include <algorithm>
#include <new>

#include "memory/registry.h"
#include "support/checked.h"

namespace qnnrt {

RegistrationGroup::Member* RegistrationGroup::Find(uint64_t offset) {
  auto found = std::lower_bound(members.begin(), members.end(), offset,
                                [](const Member& m, uint64_t at) { return m.offset < at; });
  return found != members.end() && found->offset == offset ? &*found : nullptr;
}

const MemRegistration* Registry::Find(const RegistrationIndex::Key& key) {
  if (const MemRegistration* r = registered_.Find(key)) return r;
  auto group = groups_.find({key.context, key.id});
  if (group == groups_.end()) return nullptr;
  const RegistrationGroup::Member* member = group->second.Find(key.offset);
  return member ? member->registration : nullptr;
}

bool Registry::RegisterTogether(uint64_t context, const MemDescriptor* descriptors, uint32_t count,
                                uint32_t kinds, SlotHandle* handles, ProcessDomain* domain) {
  const MemDescriptor& d = descriptors[0];
  if (d.kind != MemKind::kSharedBuffer || !(kinds & KindBit(d.kind)) || !d.states_size)
    return false;
  const Result<FileId> id = IdOfFd(d.fd);
  BufferPin pin(buffers_, buffers_->PinByFd(d.fd));
  if (!id.ok() || !pin || pin->id != id.value() || d.offset < pin->fd_offset) return false;
  MemRegistration r;  // what all have in common
  r.context = context;
  r.kind = d.kind;
  r.fd = d.fd;
  r.id = id.value();
  if (!CheckShape(d, &r).ok() || !LocateIn(pin.get(), d, &r).ok()) return false;
  const FileOfContext file{context, r.id};
  MemRegistration** first;
  try {
    const auto [entry, fresh] = groups_.try_emplace(file);
    if (!fresh) return false;
    r.group = &entry->second;
    r.group->members.reserve(count);
    first = &by_context_.try_emplace(context, nullptr).first->second;
  } catch (const std::bad_alloc&) {
    if (r.group) groups_.erase(file);
    return false;
  }
  if ((domain && !MapFile(&r, domain, count).ok()) ||
      !FillTogether(descriptors, count, *first, &r, handles)) {
    for (uint32_t i = 0; i < count; ++i) UnmapFile(r);
    groups_.erase(file);
    return false;
  }
  if (*first) (*first)->previous = r.group->members.front().registration;
  *first = r.group->members.back().registration;
  r.group->live = count;
  buffers_->PinMore(r.buffer, count - 1);
  BufferTable::Keep(pin.release(), Hold::kRegistration, static_cast<int32_t>(count));
  r.buffer->stated_size = d.size;
  counters_->handles.fetch_add(count, std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) slots_.Publish(handles[i]);
  return true;
}

// Fills slots that are not published, in a list before `rest`. Gives them back where it returns
// false.
bool Registry::FillTogether(const MemDescriptor* descriptors, uint32_t count, MemRegistration* rest,
                            MemRegistration* r, SlotHandle* handles) {
  const Buffer& b = *r->buffer;
  uint32_t made = 0;
  try {
    for (; made < count; ++made) {
      const MemDescriptor& d = descriptors[made];
      uint64_t end;
      if (d.kind != r->kind || d.fd != r->fd || !d.states_size || d.size != descriptors[0].size ||
          d.offset < b.fd_offset || (made > 0 && d.offset <= r->offset) || !CheckShape(d, r).ok() ||
          !CheckedAdd(d.offset, r->nbytes, &end) || end > d.size || end - b.fd_offset > b.nbytes ||
          registered_.Find({r->context, r->id, d.offset})) {
        break;
      }
      MemRegistration* slot = slots_.Insert(&handles[made]);
      if (!slot) break;
      r->handle = handles[made];
      r->data_type = d.data_type;
      r->offset = d.offset;
      r->address = b.address + (d.offset - b.fd_offset);
      r->available = b.nbytes - (d.offset - b.fd_offset);
      r->next = rest;
      *slot = *r;
      if (made > 0) rest->previous = slot;
      rest = slot;
      r->group->members.push_back({d.offset, slot});
    }
  } catch (const std::bad_alloc&) {
  }
  if (made == count) return true;
  while (made > 0) slots_.Cancel(handles[--made]);
  std::fill_n(handles, count, SlotHandle{0});
  return false;
}

}  // namespace qnnrt
