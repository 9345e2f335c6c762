// Options of operators in the forms that TFLite has them in, under the schema's names.
#pragma once

#include <cstddef>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {

// Those of a C struct of TFLite, whose fields the table of that name has; `size` bytes are there,
// and fields beyond them have no option. Throws Refused where `data` is null.
void ReadOptions(const void* data, size_t size, const char* table, NodeView* view);

// Those of a custom operator: a map of FlexBuffers, or where its row of the table names one, the
// bytes of such a struct.
void ReadCustomOptions(const void* data, size_t size, NodeView* view);

}  // namespace qnnrt::tflite
