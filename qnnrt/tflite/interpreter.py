"""An interpreter of .tflite files with TFLite's steps and rules, on qnnrt's own kernels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ClosedError
from ..importers.tflite.schema import SignatureInfo, read
from ..importers.tflite.values import Key
from ..qnn.backend import Backend
from ..session import Copy
from .delegate import QnnDelegate, log
from .memory import TfLiteCustomAllocation
from .subgraph import Subgraph

__all__ = ["Interpreter", "SignatureRunner"]

_initialized = False


class Interpreter:
    """A .tflite file, ready to be run after ``allocate_tensors()``.

    Operators run on qnnrt's cpu backend, those that a delegate takes on its backend. State of
    recurrent operators and resource variables last from run to run; a delegate takes none of the
    latter.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[QnnDelegate] = (),
        num_threads: int | None = None,
    ) -> None:
        """
        Args:
            model_path: a file; or
            model_content: the bytes of one.
            experimental_delegates: at most one; as ``modify_graph_with_delegate``.
            num_threads: of the CPU's kernels.

        Raises:
            ModelError: the file is damaged.
            UnsupportedOpError: operators that have no counterpart in QNN.
        """
        global _initialized
        if (model_path is None) == (model_content is None):
            raise ValueError("give model_path or model_content")
        data = Path(model_path).read_bytes() if model_path is not None else model_content
        assert data is not None
        file = read(model_path if model_path is not None else data)
        if not _initialized:
            _initialized = True
            log.info("Initialized TensorFlow Lite runtime.")
        self._file = file
        digest = hashlib.sha256(data).hexdigest()
        name = os.path.basename(file.where) if model_path is not None else "the model"
        # Of its own, since its lines about each graph are not what this logs.
        self._cpu = Backend.open("cpu", log_level="warning")
        variables: dict[Key, np.ndarray] = {}
        self._graphs = [
            Subgraph(
                file,
                g,
                f"the interpreter of {name}" + (f", subgraph {g.index}" if g.index else ""),
                digest,
                self._cpu,
                num_threads,
                variables,
            )
            for g in file.subgraphs
        ]
        self._closed = False
        try:
            self._graph.parts  # noqa: B018 - operators that nothing runs are refused at once
            for delegate in experimental_delegates:
                self.modify_graph_with_delegate(delegate)
        except BaseException:
            self.close()
            raise

    @property
    def _graph(self) -> Subgraph:
        if self._closed:
            raise ClosedError("this interpreter is closed")
        return self._graphs[0]

    # ---- the workflow

    def set_custom_allocation_for_tensor(
        self, index: int, allocation: TfLiteCustomAllocation, *, skip_align_check: bool = False
    ) -> None:
        """Let a tensor lie in the application's memory, from the next ``allocate_tensors()`` on.

        The memory has to outlive its use here; ``CustomMem`` refuses to be freed before.

        Args:
            index: of the tensor: an input, an output, or one between two partitions.
            allocation: the memory.
            skip_align_check: take an address that is no multiple of 64.

        Raises:
            IndexError: there is no such tensor.
            ValueError: the address is not aligned, or the tensor is a constant.
        """
        if not isinstance(allocation, TfLiteCustomAllocation):
            raise TypeError(
                f"a TfLiteCustomAllocation is needed, not a {type(allocation).__name__}"
            )
        self._graph.set_custom(index, allocation, not skip_align_check)

    def allocate_tensors(self) -> None:
        """Memory for the tensors; needed before the first run, and after changes.

        Raises:
            ValueError: custom memory is too small for its tensor.
        """
        self._graph.allocate()

    def modify_graph_with_delegate(self, delegate: QnnDelegate) -> None:
        """Let the delegate's backend take the operators that it knows; the others stay here.

        The delegate must not be closed before this interpreter.

        Raises:
            RuntimeError: there is a delegate already.
            QnnError: the backend refuses; the interpreter goes on without it.
        """
        if not isinstance(delegate, QnnDelegate):
            raise TypeError(
                f"a qnnrt.tflite.QnnDelegate is needed, not a {type(delegate).__name__}; a "
                "delegate library is for ai-edge-litert's interpreter: qnnrt.tflite.delegate_path()"
            )
        self._graph.modify(delegate)

    def invoke(self) -> None:
        """Run once.

        Raises:
            RuntimeError: ``allocate_tensors()`` has to come first.
            QnnError: the backend failed.
        """
        self._graph.invoke()

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Another shape of an input; ``allocate_tensors()`` makes it so.

        Args:
            strict: only dimensions that the file leaves open may change.

        Raises:
            ValueError: no input, or not such a size.
        """
        graph = self._graph
        graph.check(input_index)
        shape = tuple(int(d) for d in tensor_size)
        signature = graph.graph.tensors[input_index].signature
        fits = len(shape) == len(signature) and all(
            s in (-1, d) for s, d in zip(signature, shape, strict=True)
        )
        if strict and not fits:
            raise ValueError(
                f"tensor {input_index} is {list(signature)}, where -1 is open, not {list(shape)}"
            )
        graph.resize(input_index, shape)

    def reset_all_variables(self) -> None:
        """State of recurrent operators starts from zeros again. What resource variables hold stays,
        as in TFLite: a new interpreter begins with their first values."""
        self._graph.reset_variables()

    # ---- tensors

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that gives a view of the tensor's memory of now."""
        self._graph.check(tensor_index)
        return lambda: self._graph.array(tensor_index)

    def get_tensor(self, tensor_index: int) -> np.ndarray:
        """A copy of a tensor."""
        return self._graph.array(tensor_index).copy()

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy a value into a tensor.

        Raises:
            ValueError: not the tensor's shape or type.
        """
        array = self._graph.array(tensor_index)
        value = np.asarray(value)
        if value.dtype != array.dtype or value.shape != array.shape:
            raise ValueError(
                f"tensor {tensor_index} needs {array.dtype}{list(array.shape)}, not "
                f"{value.dtype}{list(value.shape)}"
            )
        array[...] = value

    def get_input_details(self) -> list[dict[str, Any]]:
        """What the inputs are; see ``get_tensor_details``."""
        return [self._details(i) for i in self._graph.graph.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """What the outputs are; see ``get_tensor_details``."""
        return [self._details(i) for i in self._graph.graph.outputs]

    def get_tensor_details(self) -> list[dict[str, Any]]:
        """Name, index, shape, shape_signature, dtype and quantization of every tensor of a type
        that QNN has."""
        tensors = self._graph.graph.tensors
        return [self._details(t.index) for t in tensors if t.dtype is not None]

    def _details(self, index: int) -> dict[str, Any]:
        graph = self._graph
        tensor = graph.graph.tensors[index]
        q = tensor.quantized
        scales = q.scale if q is not None else np.empty(0, np.float32)
        zeros = q.zero_point if q is not None else np.empty(0, np.int32)
        one = (float(scales[0]), int(zeros[0])) if scales.size == 1 else (0.0, 0)
        return {
            "name": tensor.name,
            "index": index,
            "shape": np.array(graph.shape(index), np.int32),
            "shape_signature": np.array(tensor.signature, np.int32),
            "dtype": graph.dtype(index).type,
            "quantization": one,
            "quantization_parameters": {
                "scales": scales.astype(np.float32),
                "zero_points": zeros.astype(np.int32),
                "quantized_dimension": q.axis if q is not None else 0,
            },
            "sparsity_parameters": {},
        }

    # ---- signatures

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Signature key -> the names of its inputs and outputs."""
        return {
            s.key: {"inputs": sorted(s.inputs.values()), "outputs": sorted(s.outputs.values())}
            for s in self._file.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """What runs a signature by name, on its own subgraph.

        Raises:
            ValueError: no such signature.
        """
        delegate = self._graph.delegate
        found = {s.key: s for s in self._file.signatures}
        if signature_key is None and len(found) == 1:
            signature_key = next(iter(found))
        if signature_key not in found:
            raise ValueError(
                f"{self._file.where} has no signature {signature_key!r}; there are "
                f"{', '.join(map(repr, found)) or 'none'}"
            )
        signature = found[signature_key]
        graph = self._graphs[signature.subgraph]
        if graph.delegate is None and delegate is not None:
            graph.modify(delegate)
        return SignatureRunner(graph, signature)

    # ---- what happened

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """What runs one after the other: ("cpu" or the delegate's name, operators)."""
        graph = self._graph
        name = graph.delegate.name if graph.delegate is not None else ""
        return [(name if p.delegated else "cpu", len(p.operators)) for p in graph.plan]

    @property
    def copies(self) -> tuple[Copy, ...]:
        """What backends copied because a tensor was not in memory that they see, in all runs.

        ``set_tensor`` and ``get_tensor`` copy besides, on the caller's behalf.
        """
        found: dict[tuple[str, str, str], int] = {}
        for copy in (c for graph in self._graphs for c in graph.copies()):
            key = (copy.tensor, copy.direction, copy.reason)
            found[key] = found.get(key, 0) + copy.nbytes
        return tuple(Copy(t, d, n, r) for (t, d, r), n in found.items())

    @property
    def copied_bytes(self) -> int:
        """The sum of ``copies``."""
        return sum(c.nbytes for c in self.copies)

    # ---- the end

    def close(self) -> None:
        """Release memory and delegate; views of tensors stay valid. Twice is harmless."""
        for graph in self._graphs:  # each step again, if an interrupt ended it the last time
            graph.close()
        self._cpu.close()
        self._closed = True

    def __enter__(self) -> Interpreter:
        self._graph  # noqa: B018 - raises when closed
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<qnnrt.tflite.Interpreter of {self._file.where}>"


class SignatureRunner:
    """Runs one signature of a file: inputs by name in, outputs by name out."""

    def __init__(self, graph: Subgraph, signature: SignatureInfo) -> None:
        self._graph = graph
        self._inputs = {name: i for i, name in signature.inputs.items()}
        self._outputs = {name: i for i, name in signature.outputs.items()}
        self._key = signature.key

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Run once.

        Raises:
            ValueError: an input is missing, unknown, or of the wrong type.
        """
        graph = self._graph
        if set(inputs) != set(self._inputs):
            raise ValueError(
                f"signature {self._key!r} takes {', '.join(sorted(self._inputs))}, not "
                f"{', '.join(sorted(inputs)) or 'nothing'}"
            )
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        for name, array in arrays.items():
            wanted = graph.dtype(self._inputs[name])
            if array.dtype != wanted:
                raise ValueError(f"input {name!r} needs {wanted}, not {array.dtype}")
            graph.resize(self._inputs[name], array.shape)
        if not graph.ready:
            graph.allocate()
        for name, array in arrays.items():
            graph.array(self._inputs[name])[...] = array
        graph.invoke()
        return {name: graph.array(i).copy() for name, i in self._outputs.items()}
