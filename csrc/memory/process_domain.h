// What an accelerator's process domain has mapped, against the limit of its address space:
// registered buffers, staging memory, weights, arenas. The runtime's own bookkeeping: a CPU would
// take more, so that running out happens here where it happens on the device.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/status.h"

namespace qnnrt {

// Thread safe.
class ProcessDomain {
  struct Holder;

 public:
  // A Hexagon process domain addresses 32 bits, of which about this much can be mapped.
  static constexpr uint64_t kDefaultBudget = 3300000000u;

  explicit ProcessDomain(uint64_t budget) : budget_(budget) {}
  ProcessDomain(const ProcessDomain&) = delete;
  ProcessDomain& operator=(const ProcessDomain&) = delete;

  // The one that the htp backend of this process works in; never destroyed. Its first budget is
  // QNNRT_HTP_DOMAIN_BYTES, or kDefaultBudget.
  static ProcessDomain& Htp();

  // A part of the budget, returned by the destructor.
  class Share {
   public:
    Share() = default;
    Share(Share&& o) noexcept
        : domain_(std::exchange(o.domain_, nullptr)), holder_(std::exchange(o.holder_, nullptr)) {}
    Share& operator=(Share&& o) noexcept {
      if (this != &o) {
        Reset();
        domain_ = std::exchange(o.domain_, nullptr);
        holder_ = std::exchange(o.holder_, nullptr);
      }
      return *this;
    }
    ~Share() { Reset(); }
    void Reset();
    uint64_t bytes() const;

   private:
    friend class ProcessDomain;
    Share(ProcessDomain* domain, Holder* holder) : domain_(domain), holder_(holder) {}
    ProcessDomain* domain_ = nullptr;
    Holder* holder_ = nullptr;
  };

  // `what`: a static text ("staging of graph", "registered buffer", "weights of context",
  // "arena of graph"); `who`: its name. 0 bytes always fit. Errors: `code` (8003 for memory that is
  // mapped, 1002 for weights and arenas) with the budget, what is used and who holds most of it.
  Result<Share> Map(uint64_t bytes, const char* what, std::string who, ErrorCode code);

  // A budget below what is used revokes nothing: nothing more fits until enough is returned.
  void SetBudget(uint64_t bytes);
  struct Totals {
    uint64_t budget, used, holders;
    uint64_t peak;  // the most that was ever used
  };
  Totals totals() const;
  uint64_t budget() const { return totals().budget; }
  uint64_t used() const { return totals().used; }
  uint64_t peak() const { return totals().peak; }

  struct Held {
    const char* what;
    std::string who;
    uint64_t bytes;
  };
  std::vector<Held> Largest(size_t at_most) const;

  std::mutex& mutex() { return mutex_; }

 private:
  struct Holder {
    const char* what;
    std::string who;
    uint64_t bytes;
    Holder* previous = nullptr;
    Holder* next = nullptr;
  };
  std::vector<Held> LargestLocked(size_t at_most) const;

  mutable std::mutex mutex_;
  Holder* first_ = nullptr;
  uint64_t budget_;
  uint64_t used_ = 0, peak_ = 0, holders_ = 0;
};

// A number of bytes above 0 as a client writes it, decimal digits alone. False: it is not one.
bool ParseBytes(const char* text, uint64_t* bytes);

}  // namespace qnnrt
