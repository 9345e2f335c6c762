#pragma once

#include "abi/qnn_types.h"

#define QNNRT_VERSION "0.1.0"

namespace qnnrt {

// The core API version reported to clients: ONNX Runtime's provider refuses anything below 2.40.
inline constexpr Qnn_Version_t kCoreApiVersion = {2, 40, 0};

// Of the libraries and of what they write. ExecuTorch and LiteRT's plugin read it as
// vMajor.Minor.Patch, those of the core API, and what follows as they like.
inline constexpr char kBuildId[] = "v2.40.0.0-qnnrt-" QNNRT_VERSION;

}  // namespace qnnrt
