# cython: language_level=3, embedsignature=True, embedsignature.format=python
# cython: auto_pickle=False, autotestdict=False
"""The one binding: a QNN client for any backend library, and the owners of shared buffers.

Everything here is thin. Objects with lifetimes and defaults are in qnn.py and session.py; this
module turns their arguments into the C structs, calls the function table without the interpreter
lock, and turns error codes into exceptions.
"""

import logging
import os
import weakref

from qnnrt import errors

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release,
    PyObject_GetBuffer
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strcmp
from libcpp.vector cimport vector

from qnnrt.qnn cimport *

cdef object _logger = logging.getLogger("qnnrt")

WatchForks()

include "_core_support.pxi"
include "_core_memory.pxi"
include "_core_dlpack.pxi"
include "_core_tcm.pxi"
include "_core_tensor.pxi"
include "_core_library.pxi"
include "_core_device.pxi"
include "_core_lpai.pxi"
include "_core_planner.pxi"
include "_core_runner.pxi"
include "_core_gpu_memory.pxi"
include "_core_gpu_list.pxi"
include "_core_gpu_profile.pxi"
include "_core_gpu_run.pxi"
include "_core_gpu.pxi"
include "_core_gpu_config.pxi"
include "_core_system.pxi"
