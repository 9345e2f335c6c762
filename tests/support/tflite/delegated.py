"""ai-edge-litert's interpreter with libQnnTFLiteDelegate.so, beside the same one without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

from qnnrt.tflite import external

QUIET = {"log_level": "1"}


def delegate(**options: Any) -> Any:
    """The delegate on the htp backend, silent unless asked otherwise."""
    given = {"backend_type": "htp", **QUIET, **options}
    return load_delegate(external.delegate_path(), {k: str(v) for k, v in given.items()})


def interpreter(data: bytes, *delegates: Any, **more: Any) -> Interpreter:
    """With TFLite's own kernels for what no delegate takes."""
    more.setdefault(
        "experimental_op_resolver_type", OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    made = Interpreter(
        model_content=data, num_threads=1, experimental_delegates=list(delegates) or None, **more
    )
    made.allocate_tensors()
    return made


def indices(runner: Interpreter) -> tuple[list[int], list[int]]:
    """The numbers of the inputs and of the outputs."""
    return (
        [d["index"] for d in runner.get_input_details()],
        [d["index"] for d in runner.get_output_details()],
    )


def run(runner: Interpreter, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    inputs, outputs = indices(runner)
    for index, array in zip(inputs, feeds, strict=True):
        runner.set_tensor(index, array)
    runner.invoke()
    return [np.array(runner.get_tensor(i)) for i in outputs]


def io_bytes(runner: Interpreter) -> tuple[int, int]:
    """Bytes of all inputs, and of all outputs."""
    inputs, outputs = (
        sum(int(np.prod(d["shape"])) * np.dtype(d["dtype"]).itemsize for d in details)
        for details in (runner.get_input_details(), runner.get_output_details())
    )
    return inputs, outputs


def close(found: np.ndarray, wanted: np.ndarray, steps: int = 1, rtol: float = 1e-5) -> None:
    """Floats within `rtol` of the value or of the largest one, quantized numbers within `steps`."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        scale = np.abs(wanted).max(initial=0)
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)
    else:
        apart = np.abs(found.astype(np.int64) - wanted.astype(np.int64)).max(initial=0)
        assert apart <= steps


def agree(
    data: bytes, feeds: Sequence[np.ndarray], steps: int = 1, **options: Any
) -> external.Counters:
    """With the delegate and without: the same outputs. Returns what the delegate counted."""
    given = delegate(**options)
    runner = interpreter(data, given)
    found, wanted = run(runner, feeds), run(interpreter(data), feeds)
    for a, b in zip(found, wanted, strict=True):
        close(a, b, steps)
    counted = external.counters(given)
    del runner
    return counted
