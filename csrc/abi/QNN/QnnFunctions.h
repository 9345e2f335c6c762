// A name that QNN programs include.
#pragma once

#include "../qnn_functions.h"
