"""Ensembles of decision trees (domain ai.onnx.ml) as lookups in tables of their nodes.

Each sample has a place in each tree. It starts at the roots, and moves by as many comparisons as
the deepest tree has; a leaf leads to itself. What the leaves hold is looked up and summed at last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from .bodies import CLASSICAL, Body, body
from .classical import (
    FREE,
    GROWTH,
    INT64,
    floats,
    label_of,
    labels_of,
    longs,
    rows_of,
    samples,
    transformed,
)
from .expanded import OPSET, array, ints, reshaped
from .nodes import OnnxNode, Unsupported

#: Comparison of a feature with a node's value -> the operator; the others are its opposite.
_MODES = {
    "BRANCH_LEQ": ("LessOrEqual", False),
    "BRANCH_LT": ("Less", False),
    "BRANCH_GTE": ("GreaterOrEqual", False),
    "BRANCH_GT": ("Greater", False),
    "BRANCH_EQ": ("Equal", False),
    "BRANCH_NEQ": ("Equal", True),
}
_NUMBERED = list(_MODES)  # as TreeEnsemble numbers them, before BRANCH_MEMBER


@dataclass
class Trees:
    """Nodes of all trees, by one number.

    Attributes:
        yes, no: where a comparison leads; a leaf to itself.
        modes: names of comparisons, "LEAF" of leaves.
        tracks: whether a feature that is missing (NaN) leads to `yes`.
        leaves: what each node holds of each target, [nodes, targets].
        given: of which targets it holds something.
    """

    features: np.ndarray
    values: np.ndarray
    modes: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    tracks: np.ndarray
    roots: np.ndarray
    leaves: np.ndarray
    given: np.ndarray

    @cached_property
    def walk(self) -> tuple[int, np.ndarray]:
        """The depth of the deepest tree, and which tree each node is of (-1: of none).

        Raises `ValueError` where two ways lead to a node.
        """
        owner = np.full(len(self.features), -1)
        level, of, depth = self.roots, np.arange(len(self.roots)), 0
        while True:
            if (owner[level] >= 0).any() or len(np.unique(level)) != len(level):
                raise ValueError("two ways lead to a node of a tree")
            owner[level] = of
            inner = self.modes[level] != "LEAF"
            if not inner.any():
                return depth, owner
            of = np.tile(of[inner], 2)
            level = np.concatenate([self.yes[level[inner]], self.no[level[inner]]])
            depth += 1

    def always(self) -> np.ndarray:
        """Which targets some tree gives whatever the sample is."""
        owner = self.walk[1]
        leaf = (self.modes == "LEAF") & (owner >= 0)
        lacking = np.zeros((len(self.roots), self.given.shape[1]), bool)
        np.logical_or.at(lacking, owner[leaf], ~self.given[leaf])
        return np.logical_not(lacking.all(axis=0))


def _numbers(n: OnnxNode, name: str) -> np.ndarray:
    """Values that may be given as a tensor of another type."""
    tensor: Any = n.attrs.get(f"{name}_as_tensor")
    return floats(n, name) if tensor is None else onnx.numpy_helper.to_array(tensor).ravel()


def _column(what: str, values: np.ndarray, count: int) -> np.ndarray:
    if values.size != count:
        raise ValueError(f"{what} has {values.size} entries for {count} nodes")
    return values


def _table(shape: tuple[int, int], places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` summed at `places` of a table, row by row."""
    if shape[0] * shape[1] > max(FREE, GROWTH * values.size):
        raise Unsupported(f"{shape[0]} nodes with {shape[1]} results each: too large a table")
    table = np.zeros(shape, values.dtype)
    np.add.at(table, (places // shape[1], places % shape[1]), values)
    return table


def _read(n: OnnxNode, kind: str, targets: int) -> Trees:
    """The trees of a TreeEnsembleRegressor ("target") or -Classifier ("class")."""
    tree = longs(n, "nodes_treeids")
    count = tree.size
    if not count:
        raise ValueError("it has no nodes")
    number = _column("nodes_nodeids", longs(n, "nodes_nodeids"), count)
    place = {key: i for i, key in enumerate(zip(tree.tolist(), number.tolist(), strict=True))}
    if len(place) != count:
        raise ValueError("a tree has two nodes of one number")
    modes = _column("nodes_modes", np.array(n.texts("nodes_modes"), object), count)
    leaf = modes == "LEAF"
    here = np.arange(count)

    def found(what: str, trees: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        keys = zip(trees.tolist(), numbers.tolist(), strict=True)
        try:
            return np.array([place[key] for key in keys], np.int64)
        except KeyError as exc:
            raise ValueError(
                f"{what} names node {exc.args[0][1]} of tree {exc.args[0][0]}, "
                "which does not have it"
            ) from None

    sides = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        side = here.copy()
        ids = _column(name, longs(n, name), count)
        side[~leaf] = found(name, tree[~leaf], ids[~leaf])
        sides.append(side)
    tracks = longs(n, "nodes_missing_value_tracks_true")
    weights = _numbers(n, f"{kind}_weights")
    owner, which = longs(n, f"{kind}_nodeids"), longs(n, f"{kind}_ids")
    for name in ("treeids", "nodeids", "ids"):
        _column(f"{kind}_{name}", longs(n, f"{kind}_{name}"), weights.size)
    if which.size and not 0 <= which.min() <= which.max() < targets:
        raise ValueError(f"{kind}_ids are {which.min()} to {which.max()} of {targets} results")
    places = found(f"{kind}_nodeids", longs(n, f"{kind}_treeids"), owner) * targets + which
    shape = count, targets
    leaves = np.where(leaf[:, None], _table(shape, places, weights), 0)
    below = np.zeros(count, bool)
    below[sides[0][~leaf]] = below[sides[1][~leaf]] = True
    roots = np.flatnonzero(~below)
    trees = Trees(
        np.where(leaf, 0, _column("nodes_featureids", longs(n, "nodes_featureids"), count)),
        _column("nodes_values", _numbers(n, "nodes_values"), count),
        modes,
        sides[0],
        sides[1],
        _column("nodes_missing_value_tracks_true", tracks, count).astype(bool) & ~leaf
        if tracks.size
        else np.zeros(count, bool),
        roots,
        leaves,
        _table(shape, places, np.ones(weights.size, np.int32)) > 0,
    )
    if len(np.unique(tree[roots])) != len(roots) or (trees.walk[1] < 0).any():
        raise ValueError("a tree has several roots, or nodes that no root leads to")
    return trees


def _read_newest(n: OnnxNode, targets: int) -> Trees:
    """The trees of a TreeEnsemble: leaves have numbers of their own."""
    tensors: Any = n.attrs
    to_array = onnx.numpy_helper.to_array
    values, weights = to_array(tensors["nodes_splits"]), to_array(tensors["leaf_weights"])
    modes = to_array(tensors["nodes_modes"]).ravel()
    inner, outer = values.size, weights.size
    _column("nodes_modes", modes, inner)
    if modes.size and modes.max() >= len(_NUMBERED):
        raise Unsupported("comparisons with members of sets (BRANCH_MEMBER)")
    here, sides = np.arange(inner, inner + outer), []
    for side, what in (("true", "trueleafs"), ("false", "falseleafs")):
        ids = _column(f"nodes_{side}nodeids", longs(n, f"nodes_{side}nodeids"), inner)
        ends = _column(f"nodes_{what}", longs(n, f"nodes_{what}"), inner) != 0
        if inner and ((ids < 0) | (ids >= np.where(ends, outer, inner))).any():
            raise ValueError(f"nodes_{side}nodeids names a node that is not there")
        sides.append(np.concatenate([np.where(ends, ids + inner, ids), here]))
    which = _column("leaf_targetids", longs(n, "leaf_targetids"), outer)
    if outer and not 0 <= which.min() <= which.max() < targets:
        raise ValueError(f"leaf_targetids are {which.min()} to {which.max()} of {targets} results")
    roots, tracks = longs(n, "tree_roots"), longs(n, "nodes_missing_value_tracks_true")
    if not roots.size or not 0 <= roots.min() <= roots.max() < inner:
        raise ValueError("tree_roots names a node that is not there, or none")
    none = np.zeros(outer, np.int64)
    # A tree of a leaf alone is a node of which both sides are that leaf.
    alone = sides[0][roots] == sides[1][roots]
    roots = np.where(alone, sides[0][roots], roots)
    places = here * targets + which
    return Trees(
        np.concatenate([_column("nodes_featureids", longs(n, "nodes_featureids"), inner), none]),
        np.concatenate([values.ravel(), none.astype(values.dtype)]),
        np.array([*(_NUMBERED[m] for m in modes), *["LEAF"] * outer], object),
        sides[0],
        sides[1],
        np.concatenate(
            [_column("nodes_missing_value_tracks_true", tracks, inner) != 0, none != 0]
            if tracks.size
            else [np.zeros(inner + outer, bool)]
        ),
        roots,
        _table((inner + outer, targets), places, weights.ravel()),
        _table((inner + outer, targets), places, np.ones(outer, np.int32)) > 0,
    )


def _places(b: Body, trees: Trees) -> str:
    """The leaf of each sample in each tree, [samples, trees]."""
    count, features = rows_of(b.node)
    inner = trees.modes != "LEAF"
    used = trees.features[inner]
    if used.size and not 0 <= used.min() <= used.max() < features:
        raise ValueError(f"its features are {used.min()} to {used.max()} of {features}")
    unknown = set(trees.modes[inner]) - {*_MODES}
    if unknown:
        raise ValueError(f"nodes_modes has {sorted(unknown)[0]!r}")
    dtype: np.dtype = np.dtype(np.float32)
    x = ""
    if b.node.input(0).dtype == np.float64:  # a rounded feature may lie on the other side
        dtype, x = np.dtype(np.float64), reshaped(b, b.given(0), [count, features])
    x = x or samples(b)
    width = np.dtype(np.int32 if len(trees.features) < 2**30 else np.int64)
    kind = onnx.helper.np_dtype_to_tensor_dtype(width)
    nodes = len(trees.features)
    columns = {
        "features": trees.features.astype(width),
        "values": trees.values.astype(dtype),
        "tracks": trees.tracks,
        "sides": np.concatenate([trees.no, trees.yes]).astype(width),
    }
    modes = sorted(set(trees.modes[inner]))
    columns |= {mode: trees.modes == mode for mode in modes}
    tables = {name: array(b, column) for name, column in columns.items()}
    second = array(b, np.array(nodes, width))
    roots = array(b, trees.roots.astype(width))
    at = b.op("Expand", [roots, ints(b, [count, len(trees.roots)])])
    for _ in range(trees.walk[0]):

        def here(name: str, at: str = at) -> str:
            return b.op("Gather", [tables[name], at])

        feature, value = b.op("GatherElements", [x, here("features")], axis=1), here("values")
        follows = ""
        for mode in modes:
            op, opposite = _MODES[mode]
            holds = b.op(op, [feature, value])
            holds = b.op("Not", [holds]) if opposite else holds
            follows = b.op("Where", [here(mode), holds, follows]) if follows else holds
        if trees.tracks.any():
            missing = b.op("And", [b.op("IsNaN", [feature]), here("tracks")])
            follows = b.op("Or", [follows, missing])
        half = b.op("Mul", [b.op("Cast", [follows], to=kind), second])
        at = b.op("Gather", [tables["sides"], b.op("Add", [at, half])])
    return at


def _scores(b: Body, trees: Trees, aggregate: str, base: np.ndarray) -> str:
    """What the trees' leaves give together, [samples, targets]."""
    if aggregate in ("MIN", "MAX"):
        if not trees.given[trees.modes == "LEAF"].all():
            raise Unsupported(f"the {aggregate} of leaves that do not hold every result")
    elif aggregate not in ("SUM", "AVERAGE"):
        raise ValueError(f"it aggregates by {aggregate!r}")
    if base.size and not trees.always().all():
        raise Unsupported("base values of results that leaves leave out: runtimes differ there")
    table = array(b, trees.leaves.astype(np.float32))
    y = b.op("Gather", [table, _places(b, trees)], axis=0)
    op = {"MIN": "ReduceMin", "MAX": "ReduceMax"}.get(aggregate, "ReduceSum")
    y = b.op(op, [y, ints(b, [1])], keepdims=0)
    if aggregate == "AVERAGE":
        y = b.op("Div", [y, b.number(len(trees.roots))])
    return b.op("Add", [y, array(b, base.astype(np.float32))]) if base.size else y


@body(CLASSICAL, "TreeEnsembleRegressor", to="Gather, GatherElements, ReduceSum")
def _regressor(n: OnnxNode) -> onnx.FunctionProto:
    b, targets = Body(n), n.integer("n_targets", 1)
    if targets < 1:
        raise ValueError(f"n_targets is {targets}")
    base = _numbers(n, "base_values")
    if base.size not in (0, targets):
        raise ValueError(f"base_values has {base.size} values for {targets} results")
    y = _scores(b, _read(n, "target", targets), n.text("aggregate_function", "SUM"), base)
    return b.proto(transformed(b, y), opset=OPSET)


@body(CLASSICAL, "TreeEnsemble", to="Gather, GatherElements, ReduceSum")
def _ensemble(n: OnnxNode) -> onnx.FunctionProto:
    b, targets = Body(n), n.integer("n_targets", 1)
    if targets < 1:
        raise ValueError(f"n_targets is {targets}")
    how = n.integer("aggregate_function", 1)
    names = ("AVERAGE", "SUM", "MIN", "MAX")
    if not 0 <= how < 4:
        raise ValueError(f"aggregate_function is {how}; it has to be 0 to 3")
    y = _scores(b, _read_newest(n, targets), names[how], np.zeros(0))
    kind = n.integer("post_transform")
    kinds = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    if not 0 <= kind < len(kinds):
        raise ValueError(f"post_transform is {kind}; it has to be 0 to 4")
    n.attrs["post_transform"] = kinds[kind]
    y = transformed(b, y)
    if n.input(0).dtype != np.float32:
        y = b.op("Cast", [y], to=onnx.helper.np_dtype_to_tensor_dtype(n.input(0).dtype))
    return b.proto(y, opset=OPSET)


@body(CLASSICAL, "TreeEnsembleClassifier", to="Gather, GatherElements, ReduceSum, Argmax")
def _classifier(n: OnnxNode) -> onnx.FunctionProto:
    b, labels, base = Body(n), labels_of(n), _numbers(n, "base_values")
    trees = _read(n, "class", labels.size)
    if base.size not in (0, 1, labels.size):
        raise ValueError(f"base_values has {base.size} values for {labels.size} classes")
    voted = np.flatnonzero(trees.given.any(0))
    if labels.size == 2 and len(voted) == 1:
        if voted[0] != 0 or base.size == 2:
            raise Unsupported("votes for the second of two classes alone: runtimes differ there")
        return _of_two(b, trees, labels, base)
    if base.size not in (0, labels.size) or (base.size and labels.size == 2):
        raise Unsupported("base values of two classes, or of fewer than there are")
    if n.wants(0) and (labels.size == 2 or not trees.always().all()):
        raise Unsupported(
            "labels where trees vote for both of two classes, or leaves leave some out: runtimes "
            "differ there. outputs= of the scores alone leaves them out"
        )
    scores = _scores(b, trees, "SUM", base)
    place = b.op("ArgMax", [scores], axis=-1, keepdims=0)
    return b.proto(label_of(b, place, labels), transformed(b, scores), opset=OPSET)


def _of_two(b: Body, trees: Trees, labels: np.ndarray, base: np.ndarray) -> onnx.FunctionProto:
    """Trees that vote for the second of two classes, which they call the first: by probabilities
    where no weight is below 0."""
    kind = b.node.text("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC"):
        raise Unsupported(f"post_transform {kind!r} of one score for two classes")
    trees.leaves, trees.given = trees.leaves[:, :1], trees.given[:, :1]
    likely = not (trees.leaves < 0).any()
    score = _scores(b, trees, "SUM", base)
    place = b.op("Greater", [score, b.number(0.5 if likely else 0)])
    place = b.op("Squeeze", [b.op("Cast", [place], to=INT64), ints(b, [1])])
    if kind == "LOGISTIC":
        other = b.op("Sigmoid", [b.op("Neg", [score])])
        score = b.op("Sigmoid", [score])
    elif likely:
        other = b.op("Sub", [b.number(1), score])
    else:
        other = b.op("Neg", [score])
    both = b.op("Concat", [other, score], axis=-1)
    return b.proto(label_of(b, place, labels), both, opset=OPSET)
