#include "memory/process_domain.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace qnnrt {

using Ull = unsigned long long;

bool ParseBytes(const char* text, uint64_t* bytes) {
  const size_t length = text == nullptr ? 0 : std::strlen(text);
  if (length == 0 || std::strspn(text, "0123456789") != length) return false;
  errno = 0;
  const uint64_t value = std::strtoull(text, nullptr, 10);
  if (errno != 0 || value == 0) return false;
  *bytes = value;
  return true;
}

ProcessDomain& ProcessDomain::Htp() {
  static ProcessDomain* domain = [] {
    uint64_t budget = kDefaultBudget;
    const char* text = std::getenv("QNNRT_HTP_DOMAIN_BYTES");
    if (text != nullptr && *text != '\0' && !ParseBytes(text, &budget)) {
      std::fprintf(stderr,
                   "qnnrt: warning: QNNRT_HTP_DOMAIN_BYTES is '%s': expected a number of bytes; "
                   "%llu are used\n",
                   text, Ull{kDefaultBudget});
    }
    return new ProcessDomain(budget);
  }();
  return *domain;
}

Result<ProcessDomain::Share> ProcessDomain::Map(uint64_t bytes, const char* what, std::string who,
                                                ErrorCode code) {
  auto holder = std::make_unique<Holder>(Holder{what, std::move(who), bytes});
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t left = budget_ > used_ ? budget_ - used_ : 0;
  if (bytes > left) {
    std::string holders;
    for (const Held& held : LargestLocked(3)) {
      holders += (holders.empty() ? "; it holds " : ", ") + std::string(held.what) + " '" +
                 held.who + "' (" + std::to_string(held.bytes) + " bytes)";
    }
    return Error(code,
                 "the process domain cannot map %llu bytes for the %s '%s': %llu of its %llu bytes "
                 "are in use%s; free something, or raise the limit (QNNRT_HTP_DOMAIN_BYTES, "
                 "platform option 'domain_bytes:N')",
                 Ull{bytes}, what, holder->who.c_str(), Ull{used_}, Ull{budget_}, holders.c_str());
  }
  used_ += bytes;
  if (bytes > 0) ++holders_;
  peak_ = std::max(peak_, used_);
  holder->next = first_;
  if (first_ != nullptr) first_->previous = holder.get();
  first_ = holder.get();
  return Share(this, holder.release());
}

void ProcessDomain::Share::Reset() {
  if (holder_ == nullptr) return;
  std::unique_ptr<Holder> gone(std::exchange(holder_, nullptr));
  std::lock_guard<std::mutex> lock(domain_->mutex_);
  (gone->previous != nullptr ? gone->previous->next : domain_->first_) = gone->next;
  if (gone->next != nullptr) gone->next->previous = gone->previous;
  domain_->used_ -= gone->bytes;
  if (gone->bytes > 0) --domain_->holders_;
}

uint64_t ProcessDomain::Share::bytes() const { return holder_ == nullptr ? 0 : holder_->bytes; }

void ProcessDomain::SetBudget(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  budget_ = bytes;
}
ProcessDomain::Totals ProcessDomain::totals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {budget_, used_, holders_, peak_};
}

std::vector<ProcessDomain::Held> ProcessDomain::Largest(size_t at_most) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return LargestLocked(at_most);
}

std::vector<ProcessDomain::Held> ProcessDomain::LargestLocked(size_t at_most) const {
  std::vector<const Holder*> all;
  for (const Holder* h = first_; h != nullptr; h = h->next) {
    if (h->bytes > 0) all.push_back(h);
  }
  const size_t n = std::min(at_most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n), all.end(),
                    [](const Holder* a, const Holder* b) { return a->bytes > b->bytes; });
  std::vector<Held> largest;
  for (size_t i = 0; i < n; ++i) largest.push_back({all[i]->what, all[i]->who, all[i]->bytes});
  return largest;
}

}  // namespace qnnrt
