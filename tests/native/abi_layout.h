// What the tests of the C interface's layout are written with: compile-time checks that count.
#pragma once

#include <cstddef>
#include <cstdio>

#include "abi/qnn.h"
#include "abi/qnn_cpu.h"
#include "abi/qnn_gpu.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_ir.h"
#include "abi/qnn_lpai.h"
#include "abi/qnn_model.h"
#include "abi/qnn_op_names.h"
#include "abi/qnn_op_package.h"
#include "abi/qnn_saver.h"
#include "abi/qnn_system.h"
#include "abi/qnnrt_ext.h"
#include "abi/rpcmem.h"

namespace {

int g_checked = 0;

}  // namespace

#define AT(field, offset)                                             \
  static_assert(offsetof(T, field) == (offset), "offset of " #field); \
  ++n;

// LAYOUT(Type, size, AT(field, offset) ...): one check for the size, one for each field.
#define LAYOUT(Type, size, ...)                                   \
  namespace layout_##Type {                                       \
    int Check() {                                                 \
      using T = Type;                                             \
      static_assert(sizeof(T) == (size), "size of " #Type);       \
      int n = 1;                                                  \
      __VA_ARGS__                                                 \
      return n;                                                   \
    }                                                             \
    [[maybe_unused]] const int kChecked = (g_checked += Check()); \
  }

#define ENUM(Type)                                                     \
  static_assert(sizeof(Type) == 4, "an enum is 4 bytes wide: " #Type); \
  [[maybe_unused]] const int kEnum_##Type = ++g_checked;

#define VALUE(name, value)                                                            \
  static_assert(static_cast<unsigned long long>(name) == (value), "value of " #name); \
  [[maybe_unused]] const int kValue_##name = ++g_checked;
