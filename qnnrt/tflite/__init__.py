"""The TFLite delegate's shared-memory workflow.

The application allocates shared memory for inputs and outputs, gives it to the interpreter, and
lets the delegate take the graph: what the backend reads and writes is the application's memory.

    import logging
    from qnnrt.tflite import *

    logging.basicConfig(level="INFO", format="%(levelname)s: %(message)s")
    delegate = QnnDelegate(backend_type="htp")
    interpreter = Interpreter("model.tflite")
    index, nbytes = interpreter.get_input_details()[0]["index"], 4 * 224 * 224 * 3
    memory = alloc_custom_mem(nbytes, DEFAULT_TENSOR_ALIGNMENT)
    interpreter.set_custom_allocation_for_tensor(index, TfLiteCustomAllocation(memory, nbytes))
    interpreter.allocate_tensors()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.invoke()
    interpreter.close()
    free_custom_mem(memory)
    delegate.close()

Lines such as "Tensor 0 is successfully registered to shared memory." go to the logger
``qnnrt.tflite``. docs/tflite-delegate.md has the whole story, and that of ai-edge-litert's own
interpreter with ``libQnnTFLiteDelegate.so``.
"""

from __future__ import annotations

from .delegate import QnnDelegate, get_api_version, has_capability
from .interpreter import Interpreter, SignatureRunner
from .memory import (
    DEFAULT_TENSOR_ALIGNMENT,
    CustomMem,
    TfLiteCustomAllocation,
    alloc_custom_mem,
    free_custom_mem,
)
from .options import DspOptions, GpuOptions, HtpOptions, QnnDelegateOptions, SkipOptions

__all__ = [
    "DEFAULT_TENSOR_ALIGNMENT",
    "CustomMem",
    "DspOptions",
    "GpuOptions",
    "HtpOptions",
    "Interpreter",
    "QnnDelegate",
    "QnnDelegateOptions",
    "SignatureRunner",
    "SkipOptions",
    "TfLiteCustomAllocation",
    "alloc_custom_mem",
    "free_custom_mem",
    "get_api_version",
    "has_capability",
]
