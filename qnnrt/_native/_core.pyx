# cython: language_level=3, embedsignature=True, embedsignature.format=python
# cython: auto_pickle=False, autotestdict=False, freethreading_compatible=True
"""The one binding: a QNN client for any backend library, and the owners of shared buffers.

Everything here is thin. Objects with lifetimes and defaults are in qnnrt.qnn and qnnrt.session;
this module turns their arguments into the C structs, calls the function table without the
interpreter lock, and turns error codes into exceptions.
"""

import logging
import os
import re
from array import array

from qnnrt import errors
from qnnrt._native import descriptor

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo,
    PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetInterrupt
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset, strlen
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from qnnrt._native.client cimport *
from qnnrt._native.qnn cimport *

cdef object _logger = logging.getLogger("qnnrt")

WatchForks()

include "support.pxi"
include "memory.pxi"
include "buffer.pxi"
include "share.pxi"
include "prefix.pxi"
include "ring.pxi"
include "dlpack.pxi"
include "tcm.pxi"
include "tensor.pxi"
include "provider.pxi"
include "python_ops.pxi"
include "context_calls.pxi"
include "compose.pxi"
include "library.pxi"
include "device.pxi"
include "lpai.pxi"
include "planner.pxi"
include "tflite.pxi"
include "background.pxi"
include "held.pxi"
include "parts.pxi"
include "runner.pxi"
include "together.pxi"
include "execution.pxi"
include "gpu.pxi"
include "gpu_config.pxi"
include "system.pxi"
include "system_info.pxi"
include "model_library.pxi"
include "protobuf.pxi"
