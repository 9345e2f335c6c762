// Constants and packed weights by what they are, so that graphs hold equal ones once. The table
// keeps nothing alive: an entry goes with the last graph that has its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ir/tensor.h"
#include "support/digest.h"

namespace qnnrt {

// Bytes are shared inside of a scope. kProcessScope is that of all who ask for it, others are the
// ids of contexts.
constexpr uint64_t kProcessScope = 0;

// Fewer bytes are not shared: the notes about them would take as much.
constexpr uint64_t kLeastShared = 1024;

struct ContentKey {
  Digest content;  // of the bytes, or of what they are made from and how
  uint64_t size = 0;
  uint64_t scope = kProcessScope;

  bool operator==(const ContentKey& o) const {
    return content == o.content && size == o.size && scope == o.scope;
  }
};

// Thread safe.
class ContentTable {
 public:
  static ContentTable& Get();  // never destroyed

  // Null: nobody has them.
  std::shared_ptr<AlignedBytes> Find(const ContentKey& key);
  // These, from now on for whoever looks for the key; those of somebody who was faster, instead.
  // They do not change any more. Throws std::bad_alloc, and then nothing has changed.
  std::shared_ptr<AlignedBytes> Publish(const ContentKey& key, std::shared_ptr<AlignedBytes> bytes);

  // Who pays for these bytes in a process domain, and how many bytes are paid for.
  std::vector<std::shared_ptr<const void>> Payers(const std::vector<const AlignedBytes*>& all,
                                                  uint64_t* paid) const;
  // `payer` pays for the others. False, and nothing has changed: others than `paid` bytes are paid
  // for by now.
  bool Pay(const std::vector<const AlignedBytes*>& all, uint64_t paid,
           const std::shared_ptr<const void>& payer);

  struct Totals {
    uint64_t entries = 0, bytes = 0;      // that somebody has now
    uint64_t found = 0, found_bytes = 0;  // by all who looked for them, since the process began
  };
  Totals totals() const;

 private:
  struct Hash {
    size_t operator()(const ContentKey& key) const noexcept {
      return static_cast<size_t>(key.content[0] ^ key.content[2] ^ key.size ^ (key.scope << 32));
    }
  };
  struct Entry {
    std::weak_ptr<AlignedBytes> bytes;
    uint64_t number = 0;  // a key's entries are told apart by it
  };
  class Forget;

  ContentTable();
  std::shared_ptr<AlignedBytes> FindLocked(const ContentKey& key);

  mutable std::mutex mutex_;  // no other one is taken under it
  std::unordered_map<ContentKey, Entry, Hash> entries_;
  uint64_t next_ = 0;
  Totals totals_;
};

}  // namespace qnnrt
