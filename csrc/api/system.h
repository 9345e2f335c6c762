// What the system*.cc files share. The system library knows context binaries and profiles, but no
// backend, context or graph.
#pragma once

#include "abi/qnn_system.h"
#include "support/status.h"

namespace qnnrt::system {

// ONNX Runtime's QNN provider asks for a system library of at least this version.
inline constexpr Qnn_Version_t kApiVersion = {1, 15, 0};

// As qnnrt::Report; the log is every live one made through systemLogCreate, since the calls of this
// interface name none.
Qnn_ErrorHandle_t ReportToLogs(const Status& status);

void FillContext(QnnSystemInterface_ImplementationV1_7_t* table);
void FillProfile(QnnSystemInterface_ImplementationV1_7_t* table);

}  // namespace qnnrt::system
