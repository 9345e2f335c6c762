// What is said when OpenCL, or memory that an execution is given, is refused.
#pragma once

#include <cstdint>
#include <string>

#include "abi/qnn_types.h"
#include "ir/types.h"
#include "support/status.h"

namespace qnnrt::opencl {

// "CL_OUT_OF_RESOURCES"; null for a number that OpenCL 3.0 has not.
const char* ErrorName(int32_t code);

// "<what> (CL_OUT_OF_RESOURCES, OpenCL error -5)". 1002 where the device has no memory or resources
// left, else 1100.
Status DriverError(int32_t code, const std::string& what);

// "float32[1, 16]", as the Python package has it.
std::string TypeText(Qnn_DataType_t type, const Shape& shape);

}  // namespace qnnrt::opencl
