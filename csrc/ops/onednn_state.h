// What clients are told of the library of fast kernels.
#ifndef QNNRT_OPS_ONEDNN_STATE_H_
#define QNNRT_OPS_ONEDNN_STATE_H_

#include <string>

namespace qnnrt {

// The library that is there, or that QNNRT_ONEDNN names, and why it could not be loaded; empty when
// none was tried, one was loaded, or there is none.
std::string OneDnnIgnored();
// By QNNRT_ONEDNN=none, or since it was built without.
bool OneDnnSwitchedOff();
// Whether it names anything: a path, or "none".
bool OneDnnChosen();

}  // namespace qnnrt

#endif  // QNNRT_OPS_ONEDNN_STATE_H_
