"""The node test cases that the ``onnx`` package generates, and which of them apply here.

A case either passes or is listed in `EXCLUDED` with its reason. What takes parameters of the graph
as inputs (a Reshape's shape, axes, pads) has them fixed at load time, as QNN wants it: `PARAMETERS`
says which inputs those are.
"""

from __future__ import annotations

import fcntl
import fnmatch
import functools
import gc
import pickle
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from qnnrt.importers import onnx as importer
from qnnrt.model import Model

#: Where the processes of a run, and later runs, find the cases that this module made.
FILE = Path(__file__).resolve().parents[3] / (
    f"build/tests/onnx-{onnx.__version__}-{zlib.crc32(Path(__file__).read_bytes()):08x}.pickle"
)
Runner = Callable[[Model, dict[str, np.ndarray]], dict[str, np.ndarray]]

#: ONNX op -> inputs that are parameters of the operation in QNN.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "CastLike": (1,),
    "Compress": (1,),
    "ConvInteger": (2, 3),
    "DequantizeLinear": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "If": (0,),
    "Loop": (0, 1),
    "OneHot": (1, 2),
    "MatMulInteger": (2, 3),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "Pad": (1, 2, 3),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "ReverseSequence": (1,),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{f"{kind}Window": (0,) for kind in ("Blackman", "Hamming", "Hann")},
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (4,)),
    **{
        f"Reduce{kind}": (1,)
        for kind in (
            "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare",
        )
    },
}  # fmt: skip

#: Element types of tensors, ONNX's names.
TYPES = {"BOOL", "FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}
TYPES |= {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}

#: Operators without a QNN counterpart -> why. Every case of theirs has to be refused.
EXCLUDED_OPS: dict[str, str] = {
    **dict.fromkeys(("Adagrad", "Adam", "Momentum"), "training"),
    **dict.fromkeys(
        (
            "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
            "TfIdfVectorizer",
        ),
        "text",
    ),
    **dict.fromkeys(
        (
            "ImageDecoder",
        ),
        "no QNN operation corresponds to it yet",
    ),
}  # fmt: skip

#: Pattern of case names -> why. Every case that it fits has to be refused or fail.
EXCLUDED: dict[str, str] = {
    "test_bitcast_*float*": "QNN has no operations on the bits of floats",
    "test_bernoulli*": "random numbers",
    "test_ai_onnx_ml_tree_ensemble_set_membership": "comparisons with members of sets",
    # What has to be 0 is 2e-7 there, at a tolerance of 1e-7; here it is 3e-15.
    "test_dft_inverse": "the expected result has a larger error than its tolerance",
    "test_dft_inverse_opset19": "the expected result has a larger error than its tolerance",
    "test_training_dropout_[dm]*": "training",
    "test_training_dropout": "training",
    # In 16 bits the expected value lies 0.6 units from the exact one; ours 0.5, on the other side.
    "test_attention_4d_causal_fp16*": "half precision: neighbouring values are further apart",
    "test_attention_*_bf16*": "bfloat16: neighbouring values are further apart",
    "test_scan_sum": "Scan of opset 8 has sequences of unequal lengths in a batch",
}


@dataclass(frozen=True)
class Case:
    name: str
    op: str
    model: onnx.ModelProto
    inputs: list[object]
    outputs: list[object]
    rtol: float
    atol: float
    parameters: tuple[str, ...]  # names of graph inputs to fix at load time


@functools.cache
def cases() -> dict[str, Case]:
    """All node cases, by name. Their making takes seconds: a file has them for other processes."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with open(FILE.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if FILE.exists():
            out: dict[str, Case] = pickle.loads(FILE.read_bytes())
        else:
            out = _made()
            part = FILE.with_suffix(".part")
            part.write_bytes(pickle.dumps(out))
            part.rename(FILE)
    # They live as long as the process: no need for every garbage collection to visit them.
    gc.collect()
    gc.freeze()
    return out


def _made() -> dict[str, Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases("")  # of every operator
    out: dict[str, Case] = {}
    fixed: dict[str, tuple[str, tuple[str, ...]]] = {}
    for case in found:
        base = case.name.split("_expanded")[0]
        if base not in fixed:
            node = case.model.graph.node[0]
            wanted = PARAMETERS.get(node.op_type, ())
            names = tuple(node.input[i] for i in wanted if i < len(node.input) and node.input[i])
            fixed[base] = (node.op_type, names)
        op, names = fixed[base]
        inputs, outputs = case.data_sets[0]
        out[case.name] = Case(
            case.name, op, case.model, list(inputs), list(outputs), case.rtol, case.atol, names
        )
    return out


def reason(case: Case) -> str | None:
    """Why the case is excluded; None when it has to pass."""
    if case.op in EXCLUDED_OPS:
        return EXCLUDED_OPS[case.op]
    for pattern, why in EXCLUDED.items():
        if fnmatch.fnmatchcase(case.name, pattern):
            return why
    graph = case.model.graph
    for value in (*graph.input, *graph.output):
        if not value.type.HasField("tensor_type"):
            return "sequences and optional values"
        if onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type) not in TYPES:
            return "an element type that QNN does not have"
    return None


def _current(model: onnx.ModelProto) -> onnx.ModelProto:
    """A case for an operator that has not changed since opset 1 says opset 1: say 7 instead."""
    old = [o for o in model.opset_import if o.domain == "" and o.version < 7]
    if not old:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for opset in copy.opset_import:
        if opset.domain == "":
            opset.version = 7
    return copy


def run(case: Case, runner: Runner) -> None:
    """Raises when the case does not import, does not run, or gives another result."""
    graph = case.model.graph
    given = {
        value.name: numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x
        for value, x in zip(graph.input, case.inputs, strict=True)
    }
    constants = {k: np.asarray(v) for k, v in given.items() if k in case.parameters}
    # The value decides the rank of what the case leaves open, as for any other user.
    shapes = {k: np.shape(v) for k, v in given.items() if k not in constants}
    model = importer.load(_current(case.model), constants=constants, shapes=shapes)
    feeds = {
        name: np.ascontiguousarray(given[name]).reshape(model.tensors[name].shape)
        for name in model.inputs
    }
    found = runner(model, feeds)
    for output, wanted in zip(graph.output, case.outputs, strict=True):
        if isinstance(wanted, onnx.TensorProto):
            wanted = numpy_helper.to_array(wanted)
        y, ref = np.asarray(found[output.name]), np.asarray(wanted)
        if f"{output.name}.count" in found and y.ndim == ref.ndim:  # of the rows there is room for
            axis = next((i for i in range(y.ndim) if y.shape[i] != ref.shape[i]), 0)
            y = y.take(np.arange(int(found[f"{output.name}.count"][0])), axis)
        assert y.dtype == ref.dtype, f"{output.name}: {y.dtype}, expected {ref.dtype}"
        np.testing.assert_allclose(
            y.reshape(ref.shape) if y.size == ref.size else y,
            ref,
            rtol=case.rtol,
            atol=case.atol,
            err_msg=output.name,
        )
