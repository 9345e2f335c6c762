"""Operators of classical machine learning (domain ai.onnx.ml) as those of ONNX they can be made of.

Converters of scikit-learn, XGBoost and LightGBM write them. Where ONNX's text leaves something
open, it is as in ONNX Runtime. Ensembles of trees are in `trees`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnx

from .bodies import CLASSICAL, Body, body
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported

#: What is made of a node may have so many numbers, or so many times what the node gives.
FREE, GROWTH = 2**20, 64

FLOAT, INT64 = int(onnx.TensorProto.FLOAT), int(onnx.TensorProto.INT64)


def floats(n: OnnxNode, name: str) -> np.ndarray:
    found: Any = n.attrs.get(name)
    return np.array([] if found is None else found, np.float32)


def longs(n: OnnxNode, name: str) -> np.ndarray:
    found: Any = n.attrs.get(name)
    return np.array([] if found is None else found, np.int64)


def as_floats(b: Body, index: int = 0) -> str:
    given = b.given(index)
    return given if b.node.input(index).dtype == np.float32 else b.op("Cast", [given], to=FLOAT)


def rows_of(n: OnnxNode, index: int = 0) -> tuple[int, int]:
    """How many samples an input has, and how many features each."""
    shape = n.input(index).shape
    if len(shape) == 1:
        return 1, shape[0]
    if len(shape) != 2:
        raise Unsupported(f"samples of shape {list(shape)}: they are rows of a matrix")
    return shape[0], shape[1]


def samples(b: Body, index: int = 0) -> str:
    """An input as a matrix of floats."""
    x, size = as_floats(b, index), rows_of(b.node, index)
    return reshaped(b, x, size) if b.node.input(index).rank == 1 else x


def transformed(b: Body, scores: str, softmax: bool = True) -> str:
    """What the attribute post_transform makes of scores."""
    kind = b.node.text("post_transform", "NONE")
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return b.op("Sigmoid", [scores])
    if kind == "SOFTMAX" and softmax:
        return b.op("Softmax", [scores], axis=-1)
    if kind == "SOFTMAX_ZERO" and softmax:  # scores of 0 stay 0, and count for nothing
        counts = b.op("Greater", [b.op("Abs", [scores]), b.number(1e-7)])
        largest = b.op("ReduceMax", [scores, ints(b, [-1])])
        powers = b.op("Exp", [b.op("Sub", [scores, largest])])
        powers = b.op("Where", [counts, powers, b.number(0)])
        return b.op("Div", [powers, b.op("ReduceSum", [powers, ints(b, [-1])])])
    raise Unsupported(f"post_transform {kind!r} of these scores")


def label_of(b: Body, places: str, labels: np.ndarray) -> str:
    """The labels at places among them. Texts are refused where they are used."""
    if not b.node.wants(0):
        return places
    if b.node.texts("classlabels_strings"):
        raise Unsupported("labels that are texts: outputs= of the scores alone leaves them out")
    return b.op("Gather", [array(b, labels), places])


def labels_of(n: OnnxNode, numbers: str = "classlabels_int64s") -> np.ndarray:
    texts, given = n.texts("classlabels_strings"), longs(n, numbers)
    if bool(texts) == bool(given.size):
        raise ValueError(f"it has {len(texts)} labels that are texts, and {given.size} numbers")
    return np.arange(len(texts)) if texts else given


# ---- features ------------------------------------------------------------------------------------


@body(CLASSICAL, "Scaler", to="ElementWiseSubtract, ElementWiseMultiply")
def _scaler(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    x = as_floats(b)
    for name, op in (("offset", "Sub"), ("scale", "Mul")):
        values = floats(n, name)
        if values.size not in (1, shape[-1] if shape else 1):
            raise ValueError(f"{name} has {values.size} values for an input of {list(shape)}")
        x = b.op(op, [x, array(b, values)])
    return b.proto(x, opset=OPSET)


@body(CLASSICAL, "Normalizer", to="ElementWiseDivide, ReduceMax, ReduceSum")
def _normalizer(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    rows_of(n)  # or it is refused
    x, norm, axis = as_floats(b), n.text("norm", "MAX"), ints(b, [-1])
    if norm == "MAX":
        by = b.op("ReduceMax", [x, axis])
    elif norm == "L1":
        by = b.op("ReduceSum", [b.op("Abs", [x]), axis])
    elif norm == "L2":
        by = b.op("Sqrt", [b.op("ReduceSum", [b.op("Mul", [x, x]), axis])])
    else:
        raise ValueError(f"norm is {norm!r}; it has to be 'MAX', 'L1' or 'L2'")
    none = b.op("Equal", [by, b.number(0)])  # such a row stays as it is
    return b.proto(b.op("Div", [x, b.op("Where", [none, b.number(1), by])]), opset=OPSET)


@body(CLASSICAL, "Binarizer", to="ElementWiseGreater, Cast")
def _binarizer(n: OnnxNode) -> onnx.FunctionProto:
    b, dtype = Body(n), n.input(0).dtype
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    x = b.given(0) if dtype.kind == "f" else as_floats(b)
    threshold = np.array(n.number("threshold"), dtype if dtype.kind == "f" else np.float32)
    return b.proto(b.op("Cast", [b.op("Greater", [x, array(b, threshold)])], to=kind), opset=OPSET)


@body(CLASSICAL, "Imputer", to="ElementWiseSelect")
def _imputer(n: OnnxNode) -> onnx.FunctionProto:
    b, dtype, shape = Body(n), n.input(0).dtype, n.input(0).shape
    real = dtype.kind == "f"
    kind = "float" if real else "int64"
    values = (floats if real else longs)(n, f"imputed_value_{kind}s").astype(dtype)
    if values.size not in (1, shape[-1] if shape else 1):
        raise ValueError(
            f"imputed_value_{kind}s has {values.size} values for an input of {list(shape)}"
        )
    missing = np.array(n.attrs.get(f"replaced_value_{kind}", 0), dtype)
    x = b.given(0)
    if real and np.isnan(missing):
        gone = b.op("IsNaN", [x])
    else:
        gone = b.op("Equal", [x, array(b, missing)])
    return b.proto(b.op("Where", [gone, array(b, values), x]), opset=OPSET)


@body(CLASSICAL, "ArrayFeatureExtractor", to="Gather")
def _features(n: OnnxNode) -> onnx.FunctionProto:
    b, shape = Body(n), n.input(0).shape
    if not shape:
        raise ValueError("input 0 is a number; features are those of a list or of rows")
    count = math.prod(n.input(1).shape)
    places = reshaped(b, b.given(1), [count])
    y = b.op("Gather", [b.given(0), places], axis=-1)
    return b.proto(reshaped(b, y, [1, count]) if len(shape) == 1 else y, opset=OPSET)


@body(CLASSICAL, "FeatureVectorizer", to="Concat")
def _vectorizer(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    sizes = longs(n, "inputdimensions")
    if sizes.size not in (0, len(n.inputs)):
        raise ValueError(f"inputdimensions has {sizes.size} sizes for {len(n.inputs)} inputs")
    parts = []
    for i in range(len(n.inputs)):
        parts.append(samples(b, i))
        shape = n.input(i).shape
        width = int(sizes[i]) if sizes.size else shape[-1]
        if width != shape[-1]:
            raise Unsupported(f"{width} features of an input of shape {list(shape)}")
    return b.proto(b.op("Concat", parts, axis=-1), opset=OPSET)


@body(CLASSICAL, "OneHotEncoder", to="ElementWiseEqual, Cast")
def _one_hot(n: OnnxNode) -> onnx.FunctionProto:
    b, kinds = Body(n), longs(n, "cats_int64s")
    if n.texts("cats_strings"):
        raise Unsupported("categories that are texts")
    if not n.integer("zeros", 1):
        raise Unsupported("zeros is 0: a category that is not listed would be an error")
    x = b.given(0) if n.input(0).dtype == np.int64 else b.op("Cast", [b.given(0)], to=INT64)
    same = b.op("Equal", [b.op("Unsqueeze", [x, ints(b, [-1])]), array(b, kinds)])
    return b.proto(b.op("Cast", [same], to=FLOAT), opset=OPSET)


_KEYS = {
    "keys_int64s": np.int64, "keys_floats": np.float32, "keys_tensor": None,
    "values_int64s": np.int64, "values_floats": np.float32, "values_tensor": None,
}  # fmt: skip


@body(CLASSICAL, "LabelEncoder", to="ElementWiseEqual, Argmax, Gather")
def _label_encoder(n: OnnxNode) -> onnx.FunctionProto:
    """Numbers to numbers. The tables of texts are refused."""
    if n.version < 2 or any("strings" in name and n.texts(name) for name in n.attrs):
        raise Unsupported("labels that are texts")
    b, found = Body(n), {}
    for part in ("keys", "values"):
        given = [name for name in _KEYS if name.startswith(part) and name in n.attrs]
        if len(given) != 1:
            raise ValueError(f"{part} of {len(given)} kinds; they have one")
        value: Any = n.attrs[given[0]]
        kind = _KEYS[given[0]]
        found[part] = onnx.numpy_helper.to_array(value) if kind is None else np.array(value, kind)
    keys, values = found["keys"].ravel(), found["values"].ravel()
    if "O" in (keys.dtype.kind, values.dtype.kind):
        raise Unsupported("labels that are texts")
    if keys.size != values.size or not keys.size:
        raise ValueError(f"it has {keys.size} keys and {values.size} values")
    if keys.dtype != n.input(0).dtype:
        raise ValueError(f"its keys are {keys.dtype.name}, its input {n.input(0).dtype.name}")
    name = "default_float" if values.dtype.kind == "f" else "default_int64"
    default: Any = n.attrs.get(name)
    tensor: Any = n.attrs.get("default_tensor")
    if tensor is not None:
        default = onnx.numpy_helper.to_array(tensor).ravel()[0]
    last = np.array([0 if default is None else default]).astype(values.dtype)
    # The first key that fits counts, and behind all keys is the default.
    x = b.op("Unsqueeze", [b.given(0), ints(b, [-1])])
    same = b.op("Equal", [x, array(b, keys)])
    if n.version >= 4 and keys.dtype.kind == "f" and np.isnan(keys).any():
        alike = b.op("And", [b.op("IsNaN", [x]), array(b, np.isnan(keys))])
        same = b.op("Or", [same, alike])
    shape = [*n.input(0).shape, 1]
    all_ = b.op(
        "Concat",
        [b.op("Cast", [same], to=FLOAT), array(b, np.full(shape, 0.5, np.float32))],
        axis=-1,
    )
    place = b.op("ArgMax", [all_], axis=-1, keepdims=0)
    return b.proto(b.op("Gather", [array(b, np.concatenate([values, last])), place]), opset=OPSET)


# ---- linear models -------------------------------------------------------------------------------


def _linear(b: Body, name: str, targets: int) -> str:
    n = b.node
    _, features = rows_of(n)
    weights, offsets = floats(n, name), floats(n, "intercepts")
    if targets < 1 or weights.size != targets * features:
        raise ValueError(
            f"{name} has {weights.size} values for {targets} results of {features} features"
        )
    if offsets.size not in (0, targets):
        raise ValueError(f"intercepts has {offsets.size} values for {targets} results")
    y = b.op("MatMul", [samples(b), array(b, weights.reshape(targets, features).T)])
    return b.op("Add", [y, array(b, offsets)]) if offsets.size else y


@body(CLASSICAL, "LinearRegressor", to="MatMul, ElementWiseAdd")
def _regressor(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    return b.proto(transformed(b, _linear(b, "coefficients", n.integer("targets", 1))), opset=OPSET)


@body(CLASSICAL, "LinearClassifier", to="MatMul, ElementWiseAdd, Argmax")
def _classifier(n: OnnxNode) -> onnx.FunctionProto:
    b, labels = Body(n), labels_of(n, "classlabels_ints")
    _, features = rows_of(n)
    targets = floats(n, "coefficients").size // max(features, 1)
    scores = _linear(b, "coefficients", targets)
    if targets == 1 and labels.size == 2:
        raise Unsupported("one score for two labels")
    if targets != labels.size:
        raise ValueError(f"{targets} scores for {labels.size} labels")
    place = b.op("ArgMax", [scores], axis=-1, keepdims=0)
    return b.proto(label_of(b, place, labels), transformed(b, scores), opset=OPSET)


@body(CLASSICAL, "SVMRegressor", to="MatMul, ElementWiseUnary")
def _support_vectors(n: OnnxNode) -> onnx.FunctionProto:
    b = Body(n)
    _, features = rows_of(n)
    vectors, weights = floats(n, "support_vectors"), floats(n, "coefficients")
    number = n.integer("n_supports")
    rho = floats(n, "rho")
    x = samples(b)
    if number == 0:  # the vectors are multiplied into one
        kind, number, vectors, weights = "LINEAR", 1, weights, np.ones(1, np.float32)
    else:
        kind = n.text("kernel_type", "LINEAR")
    if number < 0 or vectors.size != number * features or weights.size != number or rho.size != 1:
        raise ValueError(
            f"{vectors.size} values of support vectors, {weights.size} coefficients and "
            f"{rho.size} values of rho for {number} vectors of {features} features"
        )
    products = _kernel(b, x, vectors.reshape(number, features), kind)
    y = b.op("MatMul", [products, array(b, weights.reshape(number, 1))])
    y = b.op("Add", [y, array(b, rho)])
    if n.integer("one_class"):
        above = b.op("Greater", [y, b.number(0)])
        y = b.op("Where", [above, b.number(1), b.number(-1)])
    return b.proto(transformed(b, y, softmax=False), opset=OPSET)


def _kernel(b: Body, x: str, vectors: np.ndarray, kind: str) -> str:
    """The kernel of each row of `x` with each vector."""
    given = floats(b.node, "kernel_params")
    gamma, coef0, degree = (float(v) for v in (given if given.size == 3 else (0, 0, 0)))
    if kind == "RBF":  # of differences, since squares minus products would cancel each other
        apart = b.op("Sub", [b.op("Unsqueeze", [x, ints(b, [1])]), array(b, vectors[None])])
        squares = b.op("ReduceSum", [b.op("Mul", [apart, apart]), ints(b, [2])], keepdims=0)
        return b.op("Exp", [b.op("Mul", [squares, b.number(-gamma)])])
    products = b.op("MatMul", [x, array(b, vectors.T)])
    if kind == "LINEAR":
        return products
    products = b.op("Add", [b.op("Mul", [products, b.number(gamma)]), b.number(coef0)])
    if kind == "POLY":
        return b.op("Pow", [products, b.number(degree)])
    if kind == "SIGMOID":
        return b.op("Tanh", [products])
    raise ValueError(f"kernel_type is {kind!r}; it has to be LINEAR, POLY, RBF or SIGMOID")


@body(CLASSICAL, "SVMClassifier", to="MatMul, ElementWiseUnary, Argmax")
def _vector_classifier(n: OnnxNode) -> onnx.FunctionProto:
    """Each two classes are told apart by a score, and it has a vote: above 0 for the first."""
    b, labels = Body(n), labels_of(n, "classlabels_ints")
    _, features = rows_of(n)
    sizes, classes = longs(n, "vectors_per_class"), labels.size
    if not sizes.size:
        raise Unsupported("a machine without support vectors (vectors_per_class)")
    vectors, weights, rho = (floats(n, k) for k in ("support_vectors", "coefficients", "rho"))
    number, count = int(sizes.sum()), classes * (classes - 1) // 2
    if (
        classes < 2
        or (sizes < 0).any()
        or (sizes.size, vectors.size, weights.size, rho.size)
        != (classes, number * features, number * (classes - 1), count)
    ):
        raise ValueError(
            f"{vectors.size} values of support vectors, {weights.size} coefficients and "
            f"{rho.size} values of rho for {number} vectors of {features} features and "
            f"{classes} classes"
        )
    if number * count > max(FREE, GROWTH * weights.size):
        raise Unsupported(f"{count} pairs of classes with {number} vectors: too large a matrix")
    kind = n.text("post_transform", "NONE")
    if n.wants(1) and n.attrs.get("prob_a"):
        raise Unsupported(
            "probabilities (prob_a), which are found step by step: outputs= of the labels alone "
            "leaves them out"
        )
    if n.wants(1) and classes == 2 and kind not in ("NONE", "LOGISTIC"):
        raise Unsupported(f"post_transform {kind!r} of one score for two classes")
    pairs, ends = list(itertools.combinations(range(classes), 2)), np.cumsum(sizes)
    of = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    told = np.zeros((number, len(pairs)), np.float32)  # what vectors add to the score of each pair
    for pair, (i, j) in enumerate(pairs):
        told[of[i], pair] = weights.reshape(classes - 1, number)[j - 1, of[i]]
        told[of[j], pair] = weights.reshape(classes - 1, number)[i, of[j]]
    products = _kernel(
        b, samples(b), vectors.reshape(number, features), n.text("kernel_type", "LINEAR")
    )
    scores = b.op("Add", [b.op("MatMul", [products, array(b, told)]), array(b, rho)])
    chosen = np.eye(classes, dtype=np.float32)
    first, second = (chosen[[pair[k] for pair in pairs]] for k in (0, 1))
    wins = b.op("Cast", [b.op("Greater", [scores, b.number(0)])], to=FLOAT)
    votes = b.op("MatMul", [wins, array(b, first - second)])
    votes = b.op("Add", [votes, array(b, second.sum(0))])
    place = b.op("ArgMax", [votes], axis=-1, keepdims=0)
    if classes == 2:
        scores = b.op("Concat", [b.op("Neg", [scores]), scores], axis=-1)
    return b.proto(label_of(b, place, labels), transformed(b, scores), opset=OPSET)
