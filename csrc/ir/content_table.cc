#include "ir/content_table.h"

#include <pthread.h>

#include <utility>

namespace qnnrt {

// With the last owner of published bytes: takes their entry along, unless somebody has published
// others under the key since.
class ContentTable::Forget {
 public:
  Forget(std::shared_ptr<AlignedBytes> bytes, const ContentKey& key, uint64_t number)
      : bytes_(std::move(bytes)), key_(key), number_(number) {}

  void operator()(AlignedBytes*) noexcept {
    ContentTable& table = Get();
    {
      std::lock_guard<std::mutex> lock(table.mutex_);
      const auto found = table.entries_.find(key_);
      if (found != table.entries_.end() && found->second.number == number_) {
        --table.totals_.entries;
        table.totals_.bytes -= key_.size;
        table.entries_.erase(found);
      }
    }
    bytes_ = nullptr;
  }

 private:
  std::shared_ptr<AlignedBytes> bytes_;
  ContentKey key_;
  uint64_t number_;
};

ContentTable::ContentTable() = default;

ContentTable& ContentTable::Get() {
  static ContentTable* const table = [] {
    auto* made = new ContentTable;
    // A child finds the table whole, with what its parent's graphs had.
    pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); },
                   [] { Get().mutex_.unlock(); });
    return made;
  }();
  return *table;
}

std::shared_ptr<AlignedBytes> ContentTable::FindLocked(const ContentKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  std::shared_ptr<AlignedBytes> bytes = found->second.bytes.lock();
  if (bytes == nullptr) return nullptr;  // its last owner is about to take the entry along
  ++totals_.found;
  totals_.found_bytes += key.size;
  return bytes;
}

std::shared_ptr<AlignedBytes> ContentTable::Find(const ContentKey& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  return FindLocked(key);
}

std::shared_ptr<AlignedBytes> ContentTable::Publish(const ContentKey& key,
                                                    std::shared_ptr<AlignedBytes> bytes) {
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    number = ++next_;
  }
  AlignedBytes* const at = bytes.get();
  // Ends outside of the lock, whatever happens: its end takes the lock.
  std::shared_ptr<AlignedBytes> published(at, Forget(std::move(bytes), key, number));
  std::shared_ptr<AlignedBytes> earlier;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    earlier = FindLocked(key);
    if (earlier == nullptr) {
      Entry& entry = entries_[key];
      if (entry.number == 0) {
        ++totals_.entries;
        totals_.bytes += key.size;
      }
      entry.bytes = published;
      entry.number = number;
    }
  }
  return earlier != nullptr ? earlier : published;
}

std::vector<std::shared_ptr<const void>> ContentTable::Payers(
    const std::vector<const AlignedBytes*>& all, uint64_t* paid) const {
  std::vector<std::shared_ptr<const void>> payers;
  payers.reserve(all.size());
  *paid = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const AlignedBytes* bytes : all) {
    std::shared_ptr<const void> payer = bytes->payer().lock();
    if (payer == nullptr) continue;
    *paid += bytes->size();
    payers.push_back(std::move(payer));
  }
  return payers;
}

bool ContentTable::Pay(const std::vector<const AlignedBytes*>& all, uint64_t paid,
                       const std::shared_ptr<const void>& payer) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t now = 0;
  for (const AlignedBytes* bytes : all) now += bytes->payer().expired() ? 0 : bytes->size();
  if (now != paid) return false;
  for (const AlignedBytes* bytes : all) {
    if (bytes->payer().expired()) bytes->payer() = payer;
  }
  return true;
}

ContentTable::Totals ContentTable::totals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return totals_;
}

}  // namespace qnnrt
