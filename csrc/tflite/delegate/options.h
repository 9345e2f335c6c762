// The options of a delegate, with strings of their own, from the C struct or from the string keys
// of an external delegate.
#pragma once

#include <set>
#include <string>

#include "abi/QNN/TFLiteDelegate/QnnTFLiteDelegate.h"
#include "support/status.h"

namespace qnnrt::tflite {

struct Options {
  TfLiteQnnDelegateOptions c = TfLiteQnnDelegateOptionsDefault();  // its pointers are null
  std::string library_path, dump_path;
  std::set<int> skip_ops, skip_nodes;
};

// Errors: 1004 with one sentence that names the field or key.
Result<Options> ReadOptions(const TfLiteQnnDelegateOptions& given);
Result<Options> ReadKeys(const char* const* keys, const char* const* values, size_t count);

}  // namespace qnnrt::tflite
