// The QNN core interface in one include. Backend extensions have their own headers: qnn_htp.h,
// qnn_gpu.h, qnn_lpai.h, qnn_cpu.h, qnn_saver.h, qnn_ir.h; the system library is in qnn_system.h.
#pragma once

#include "qnn_context.h"
#include "qnn_enums.h"
#include "qnn_errors.h"
#include "qnn_interface.h"
#include "qnn_objects.h"
#include "qnn_property.h"
#include "qnn_soc.h"
#include "qnn_types.h"
