"""Ops in Python, for prototyping: a shape rule, and a function on views of the runtime's memory.

``qnnrt.qnn.register_op`` is what programs call; docs/op-packages.md has the rules. To a backend the
ops are those of one op package, ``qnnrt.python``, whose functions enter Python.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from ._native import _core
from .dtypes import data_type_name, numpy_dtype

__all__ = [
    "PYTHON_PACKAGE",
    "OpTensor",
    "PythonOp",
    "find_onnx_op",
    "python_ops",
    "register_op",
    "typed_params",
    "unregister_op",
]

#: The op package that the ops are in.
PYTHON_PACKAGE: Final = "qnnrt.python"


@dataclass(frozen=True)
class OpTensor:
    """A tensor as shape rules see it, and as they may give it.

    Attributes:
        shape: QNN's: a tensor has at least one dimension.
        dtype: numpy's element type.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{np.dtype(self.dtype).name}{list(self.shape)}"


Inputs: TypeAlias = Sequence[OpTensor | None]
#: A shape alone has the element type of the first input.
Result: TypeAlias = OpTensor | Sequence[int]
ShapeRule: TypeAlias = Callable[..., "Result | Sequence[Result]"]
OpFunction: TypeAlias = Callable[..., None]


@dataclass(eq=False)
class PythonOp:
    """A registered op, and what it has cost so far.

    Attributes:
        name, shape_rule, fn, domain: as they were registered.
        calls: how often `fn` was called, on all graphs together.
        seconds: what those calls took, views and the wait for the interpreter included.
    """

    name: str
    shape_rule: ShapeRule
    fn: OpFunction
    domain: str | None
    calls: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def infer(self, inputs: Inputs, params: Mapping[str, Any]) -> list[OpTensor]:
        """The outputs that the shape rule gives.

        Raises:
            TypeError: it gives something else than shapes.
        """
        given = self.shape_rule(tuple(inputs), **params)
        results: Any = [given] if isinstance(given, OpTensor) or _is_shape(given) else given
        if isinstance(results, (str, bytes)) or not isinstance(results, Sequence):
            raise TypeError(_not_shapes(self.name, given))
        return [self._tensor(result, inputs) for result in results]

    def _tensor(self, given: Any, inputs: Inputs) -> OpTensor:
        if isinstance(given, OpTensor):
            shape, dtype = given.shape, np.dtype(given.dtype)
        elif _is_shape(given):
            first = next((t for t in inputs if t is not None), None)
            if first is None:
                raise TypeError(
                    f"the shape rule of op {self.name!r} gives a shape without a type, and there "
                    "is no input to take it from: give an OpTensor"
                )
            shape, dtype = given, first.dtype
        else:
            raise TypeError(_not_shapes(self.name, given))
        return OpTensor(tuple(int(d) for d in shape) or (1,), dtype)

    def count(self, seconds: float) -> None:
        """One call of `fn` more."""
        with self._lock:
            self.calls += 1
            self.seconds += seconds


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(
        isinstance(d, (int, np.integer)) and not isinstance(d, bool) for d in given
    )


def _not_shapes(name: str, given: Any) -> str:
    return (
        f"the shape rule of op {name!r} has to give a shape, an OpTensor or a list of those for "
        f"each output, not {given!r}"
    )


_ops: dict[str, PythonOp] = {}


def register_op(
    name: str, shape_rule: ShapeRule, fn: OpFunction, *, domain: str | None = None
) -> PythonOp:
    """Make an op of a Python function, for the cpu and htp backends of this package.

    ``graph.add_node(..., package=qnnrt.qnn.PYTHON_PACKAGE)`` adds its nodes; ``qnnrt.load`` and
    ``Session`` take ONNX nodes of that op type whose domain is not one of ONNX's.

    Args:
        name: the op type.
        shape_rule: called with a tuple of ``OpTensor`` (None: left out) and the params as keywords;
            gives the shape or ``OpTensor`` of the output, or a list with one for each. A node whose
            outputs are declared in another way is refused. Raising refuses the node, with that
            reason.
        fn: called for each execution with a tuple of input arrays (read-only), a tuple of output
            arrays (to write into) and the params as keywords. The arrays are the runtime's memory,
            and must not be kept.
        domain: of ONNX nodes; unless given, any but ONNX's own.

    Raises:
        ValueError: there is an op of this name, or the name is none.
        TypeError: no functions.
    """
    if not isinstance(name, str) or not name or "::" in name:
        raise ValueError(f"an op needs a name without '::', not {name!r}")
    for what, function in (("shape_rule", shape_rule), ("fn", fn)):
        if not callable(function):
            raise TypeError(f"{what} of op {name!r} has to be a function, not {function!r}")
    op = PythonOp(name, shape_rule, fn, domain)
    if _ops.setdefault(name, op) is not op:
        raise ValueError(f"op {name!r} is registered already: unregister_op({name!r}) removes it")
    return op


def unregister_op(name: str) -> None:
    """Remove an op: no node of it is added any more. Finalized graphs keep what they have.

    Raises:
        KeyError: there is none of this name.
    """
    if _ops.pop(name, None) is None:
        known = ", ".join(sorted(_ops)) or "none"
        raise KeyError(f"no op {name!r} is registered; there are {known}")


def python_ops() -> dict[str, PythonOp]:
    """The registered ops by name."""
    return dict(_ops)


def find_onnx_op(domain: str, name: str) -> PythonOp | None:
    """The op for ONNX nodes of this domain and type."""
    op = _ops.get(name)
    return op if op is not None and domain != "" and op.domain in (None, domain) else None


def typed_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Params as a backend hands them on: numbers have 32 bits, lists are arrays."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, float):
            value = float(np.float32(value))
        elif isinstance(value, (list, tuple)):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            value = value.astype(np.float32)
        found[name] = value
    return found


# ---- what the package's functions call ---------------------------------------------------------

#: Shape, QNN data type.
_Described: TypeAlias = tuple[tuple[int, ...], int]
#: An object with the buffer protocol.
_Memory: TypeAlias = Any


def _op_of(type_: str) -> PythonOp:
    op = _ops.get(type_)
    if op is None:
        raise LookupError(f"no op {type_!r} is registered in Python any more")
    return op


def _tensor(described: _Described, what: str) -> OpTensor:
    shape, code = described
    if "FIXED_POINT" in data_type_name(code):
        raise TypeError(
            f"{what} has the type {data_type_name(code)}: ops in Python take plain numbers; put a "
            "Dequantize before the node and a Quantize behind it"
        )
    return OpTensor(shape, numpy_dtype(code))


def _tensors(described: Sequence[_Described | None], what: str) -> list[OpTensor | None]:
    return [None if d is None else _tensor(d, f"{what} {i}") for i, d in enumerate(described)]


def _params(described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: np.frombuffer(value[2], numpy_dtype(value[1])).reshape(value[0])
        if isinstance(value, tuple)
        else value
        for name, value in described.items()
    }


def _types() -> tuple[str, ...]:
    return tuple(_ops)


def _validate(
    type_: str,
    inputs: Sequence[_Described | None],
    outputs: Sequence[_Described | None],
    params: Mapping[str, Any],
) -> None:
    op = _op_of(type_)
    wanted = op.infer(_tensors(inputs, "input"), _params(params))
    found = _tensors(outputs, "output")
    if len(wanted) != len(found):
        raise ValueError(
            f"it has {len(wanted)} outputs by its shape rule; the node has {len(found)}"
        )
    for i, (rule, declared) in enumerate(zip(wanted, found, strict=True)):
        if declared is not None and rule != declared:
            raise ValueError(f"output {i} is {rule} by its shape rule; declared is {declared}")


def _create(
    type_: str,
    inputs: Sequence[_Described | None],
    outputs: Sequence[_Described | None],
    params: Mapping[str, Any],
) -> tuple[Callable[[list[_Memory], list[_Memory]], None], list[int], list[int]]:
    op = _op_of(type_)
    ins, outs = _tensors(inputs, "input"), _tensors(outputs, "output")
    given = _params(params)
    fn, count, clock = op.fn, op.count, time.perf_counter

    def run(in_memory: list[_Memory], out_memory: list[_Memory]) -> None:
        begin = clock()
        try:
            result = fn(_views(in_memory, ins), _views(out_memory, outs), **given)
        finally:
            count(clock() - begin)
        if result is not None:
            raise TypeError(
                f"the function of op {op.name!r} has to write into its output arrays and return "
                f"None; it returned a {type(result).__name__}"
            )

    return run, [_nbytes(t) for t in ins], [_nbytes(t) for t in outs]


def _nbytes(tensor: OpTensor | None) -> int:
    return 0 if tensor is None else math.prod(tensor.shape) * tensor.dtype.itemsize


def _views(
    memory: Sequence[_Memory], tensors: Sequence[OpTensor | None]
) -> tuple[np.ndarray | None, ...]:
    return tuple(
        None if m is None or t is None else np.frombuffer(m, t.dtype).reshape(t.shape)
        for m, t in zip(memory, tensors, strict=True)
    )


_core.set_python_ops(PYTHON_PACKAGE, _types, _validate, _create)
