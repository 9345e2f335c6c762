// Whether a pointer of a client's can be an OpenCL object at all: drivers crash on others.
#pragma once

namespace qnnrt::gpu {

// An object of a driver that the ICD loader serves begins with the address of a table of functions.
bool LooksLikeObject(const void* object);

}  // namespace qnnrt::gpu
