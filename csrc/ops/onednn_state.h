// What clients are told of the library of fast kernels.
#ifndef QNNRT_OPS_ONEDNN_STATE_H_
#define QNNRT_OPS_ONEDNN_STATE_H_

#include <string>

namespace qnnrt {

// What QNNRT_ONEDNN names, and why it could not be loaded; empty when it was not tried, or loaded.
std::string OneDnnIgnored();
// Whether it names anything: a path, or "none".
bool OneDnnChosen();

}  // namespace qnnrt

#endif  // QNNRT_OPS_ONEDNN_STATE_H_
