// The rows of the table that config_table.h asks.
#pragma once

#include <iterator>

#include "api/config_table.h"

namespace qnnrt {

struct ConfigRows {
  const ConfigRow* first;
  const ConfigRow* last;
  const ConfigRow* begin() const { return first; }
  const ConfigRow* end() const { return last; }
};
const ConfigRows& AllConfigRows();

}  // namespace qnnrt
