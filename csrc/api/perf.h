// The htp backend's performance infrastructure: votes are checked, kept and reported. No clock of
// this machine is touched.
#pragma once

#include "abi/qnn_htp.h"
#include "support/json.h"

namespace qnnrt {

const QnnHtpDevice_Infrastructure_t& PerfInfrastructure();
// "power_configs", "memory_configs" and "power_counts" into an open object.
void DescribePerf(JsonWriter* json);

}  // namespace qnnrt
