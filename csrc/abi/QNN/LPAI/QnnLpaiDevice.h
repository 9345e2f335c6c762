// A name that QNN programs include.
#pragma once

#include "../../qnn_errors.h"
#include "../../qnn_init.h"
#include "../../qnn_lpai.h"
#include "../../qnn_versions.h"
