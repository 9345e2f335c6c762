#include "api/error_table.h"

#include <algorithm>
#include <iterator>

namespace qnnrt {
namespace {

struct Entry {
  uint32_t code;
  const char* message;
};

// By code. Codes that several components share (1000 to 1100) stand once, with the common message.
constexpr Entry kErrors[] = {
#include "api/error_codes.inc"
};

}  // namespace

const char* ErrorMessage(uint32_t code) {
  const Entry* found = std::lower_bound(std::begin(kErrors), std::end(kErrors), code,
                                        [](const Entry& e, uint32_t c) { return e.code < c; });
  return found != std::end(kErrors) && found->code == code ? found->message : nullptr;
}

}  // namespace qnnrt
