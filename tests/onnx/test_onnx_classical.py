"""Operators of classical machine learning (domain ai.onnx.ml), beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qnnrt
from qnnrt.errors import ModelError, UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.contrib import check, model_of, ours, theirs, values

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign

ML = "ai.onnx.ml"
TYPES = ("float32", "float64", "int32", "int64")

#: Attributes of a node.
Attrs = dict[str, Any]


def samples(dtype: str, rows: int = 6, features: int = 4) -> np.ndarray:
    """With many equal ones, and zeros."""
    x = np.random.default_rng(3).integers(-3, 4, (rows, features))
    return (x / 2 if dtype.startswith("float") else x).astype(dtype)


def same(
    op: str, *inputs: np.ndarray, outputs: int = 1, static: tuple[int, ...] = (), **how: Any
) -> None:
    check(op, inputs, outputs, static, domain=ML, **how)


def refused(op: str, message: str, *inputs: np.ndarray, outputs: int = 1, **how: Any) -> None:
    proto, _ = model_of(op, inputs, outputs, domain=ML, **how)
    with pytest.raises(UnsupportedOpError, match=message):
        importer.load(proto)


def invalid(op: str, message: str, *inputs: np.ndarray, outputs: int = 1, **how: Any) -> None:
    proto, _ = model_of(op, inputs, outputs, domain=ML, **how)
    with pytest.raises(ModelError, match=message) as e:
        importer.load(proto)
    assert not isinstance(e.value, UnsupportedOpError)


# ---- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_features_are_scaled_and_selected(dtype: str) -> None:
    x = samples(dtype)
    same("Scaler", x, offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 2.0, 1.0, 3.0])
    same("Scaler", x, offset=[1.0], scale=[0.5])
    same("FeatureVectorizer", x, x[:, :3], inputdimensions=[4, 3])
    same("ArrayFeatureExtractor", x, np.array([3, 1]), static=(1,))
    same("ArrayFeatureExtractor", x[0], np.array([3, 1, 1]), static=(1,))
    if dtype != "int32":  # ONNX Runtime has no kernel
        same("OneHotEncoder", x, cats_int64s=[1, -2, 3])
    if dtype == "float32":
        same("Binarizer", x, threshold=0.5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_divided_by_a_norm(dtype: str, norm: str) -> None:
    x = samples(dtype)
    x[2], x[3] = 0, -abs(x[3])
    same("Normalizer", x, norm=norm)


def test_what_is_missing_is_replaced() -> None:
    x = values(6, 4)
    x[1, 2] = x[3, 0] = np.nan
    four = [1.0, 2.0, 3.0, 4.0]
    same("Imputer", x, imputed_value_floats=four, replaced_value_float=float("nan"))
    same("Imputer", x, imputed_value_floats=[1.0], replaced_value_float=float(x[0, 0]))
    whole = samples("int64")
    same("Imputer", whole, imputed_value_int64s=[2**40], replaced_value_int64=2)


def test_labels_are_looked_up() -> None:
    x = np.array([1, 2, 3, 1, 0, 2])
    wide = [10, 2**40, 30]
    same("LabelEncoder", x, keys_int64s=[1, 2, 7], values_int64s=wide, default_int64=-7)
    same("LabelEncoder", x.reshape(2, 3), keys_int64s=[1, 2], values_floats=[0.5, 1.5])
    same("LabelEncoder", x.astype(np.float32), keys_floats=[1.0, 2.0], values_int64s=[10, 20])
    nan = np.array([1.0, np.nan, 3.0], np.float32)
    number = float("nan")
    same("LabelEncoder", nan, keys_floats=[1.0, number], values_floats=[2.0, 3.0], version=4)
    same("LabelEncoder", nan, keys_floats=[1.0, number], values_floats=[2.0, 3.0], version=2)
    invalid("LabelEncoder", "2 keys and 1 values", x, keys_int64s=[1, 2], values_int64s=[1])
    refused("LabelEncoder", "texts", x, keys_int64s=[1], values_strings=["a"])


# ---- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_models(dtype: str, transform: str) -> None:
    x, weights = samples(dtype), values(12).tolist()
    how = {"coefficients": weights, "intercepts": [0.5, 1.0, 0.1], "post_transform": transform}
    same("LinearClassifier", x, outputs=2, classlabels_ints=[5, 7, 2**40], **how)
    if dtype == "float32":
        same("LinearRegressor", x, targets=3, **how)
        same("LinearRegressor", x[0], targets=3, **how)
    how["coefficients"] = weights[:11]
    invalid("LinearRegressor", "11 values for 3 results of 4", x, targets=3, **how)


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str, one_class: int) -> None:
    same(
        "SVMRegressor", samples("float32"), coefficients=values(3).tolist(), kernel_type=kernel,
        kernel_params=[0.1, 0.5, 2.0], n_supports=3, one_class=one_class, rho=[0.2],
        support_vectors=values(12).tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("sizes", [[3, 2], [2, 3, 2], [1, 2, 3, 4]], ids=str)
def test_classes_that_support_vectors_tell_apart(sizes: list[int], transform: str) -> None:
    classes, number = len(sizes), sum(sizes)
    x = values(40, 3)
    how: Attrs = {
        "classlabels_ints": [7, 2**40, -3, 5][:classes],
        "coefficients": values(classes - 1, number).ravel().tolist(),
        "kernel_params": [0.5, 0.0, 3.0],
        "kernel_type": "RBF",
        "post_transform": transform,
        "rho": [-0.5, 0.3, 0.1, -0.2, 0.0, 0.4][: classes * (classes - 1) // 2],
        "support_vectors": values(number, 3).ravel().tolist(),
        "vectors_per_class": sizes,
    }
    if classes == 2 and transform == "SOFTMAX":
        refused("SVMClassifier", "one score for two classes", x, outputs=2, **how)
        return
    same("SVMClassifier", x, outputs=2, **how)
    likely = {**how, "prob_a": how["rho"], "prob_b": how["rho"]}
    refused("SVMClassifier", "probabilities", x, outputs=2, **likely)
    proto, feeds = model_of("SVMClassifier", [x], 2, domain=ML, **likely)
    with qnnrt.Session(importer.load(proto, outputs=["o0"])) as session:
        labels = session.run(feeds)["o0"]
    np.testing.assert_array_equal(labels, theirs(proto, feeds)[0])
    assert len(set(labels.tolist())) > 1
    how["rho"] += [0.0]
    invalid("SVMClassifier", f"{len(how['rho'])} values of rho", x, outputs=2, **how)


class Forest:
    """Random trees as attributes of a node."""

    def __init__(
        self, kind: str, targets: int, trees: int = 4, depth: int = 4,
        modes: tuple[str, ...] = ("BRANCH_LEQ",), tracks: bool = False, positive: bool = False,
        every: bool = True, vote: int | None = None,
    ) -> None:  # fmt: skip
        """`every`: each leaf holds something of each target; `vote`: of this one alone."""
        self.chance = np.random.default_rng(len(modes) + targets + depth)
        self.kind, self.targets, self.modes, self.tracks = kind, targets, modes, tracks
        self.positive, self.every, self.vote, self.trees = positive, every, vote, trees
        names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                 "falsenodeids", "missing_value_tracks_true")  # fmt: skip
        self.attrs: Attrs = {f"nodes_{name}": [] for name in names}
        self.attrs |= {f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
        self.tree = 0
        for self.tree in range(trees):
            self.count = 0
            self.node(depth)

    def row(self, **entries: object) -> int:
        for name, value in entries.items():
            self.attrs[f"nodes_{name}"].append(value)
        self.count += 1
        return len(self.attrs["nodes_nodeids"]) - 1

    def node(self, depth: int) -> int:
        chance, number = self.chance, self.count
        inner = depth > 0 and chance.random() > 0.2
        row = self.row(
            treeids=self.tree, nodeids=number, featureids=int(chance.integers(4)) if inner else 0,
            values=float(chance.integers(-2, 3)) / 2 if inner else 0.0, truenodeids=0,
            modes=str(chance.choice(self.modes)) if inner else "LEAF", falsenodeids=0,
            missing_value_tracks_true=int(self.tracks and inner and chance.integers(2)),
        )  # fmt: skip
        if inner:
            self.attrs["nodes_truenodeids"][row] = self.node(depth - 1)
            self.attrs["nodes_falsenodeids"][row] = self.node(depth - 1)
            return number
        some = range(self.targets) if self.every else chance.permutation(self.targets)[:1]
        for target in some if self.vote is None else [self.vote]:
            weight = float(chance.normal())
            weight = abs(weight) / self.trees if self.positive else weight
            for name, value in (("treeids", self.tree), ("nodeids", number), ("ids", int(target)),
                                ("weights", weight)):  # fmt: skip
                self.attrs[f"{self.kind}_{name}"].append(value)
        return number


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("modes", [*((mode,) for mode in MODES), MODES], ids="-".join)
def test_trees_of_every_comparison(modes: tuple[str, ...], dtype: str) -> None:
    x = samples(dtype, 9)
    if dtype != "int64":
        x[2, 1], x[3] = np.nan, np.nan
    for targets in (1, 3):
        forest = Forest("target", targets, modes=modes, tracks=dtype != "int64")
        how = {"domain": ML, "n_targets": targets, **forest.attrs}
        proto, feeds = model_of("TreeEnsembleRegressor", [x], **how)
        # ONNX Runtime has no kernel for integers.
        wide = x.astype(np.float32) if dtype == "int64" else x
        expected = theirs(*model_of("TreeEnsembleRegressor", [wide], **how))[0]
        np.testing.assert_allclose(ours(proto, feeds)[0], expected, 1e-5, 1e-5)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_what_trees_give_together(aggregate: str) -> None:
    x, how = samples("float32", 9), {"aggregate_function": aggregate, "n_targets": 3}
    base = {"base_values": [0.5, 1.0, -1.0]}
    forest, gaps = Forest("target", 3), Forest("target", 3, every=False)
    same("TreeEnsembleRegressor", x, **how, **base, **forest.attrs)
    if aggregate in ("MIN", "MAX"):
        refused("TreeEnsembleRegressor", f"the {aggregate} of leaves", x, **how, **gaps.attrs)
    else:
        same("TreeEnsembleRegressor", x, **how, **gaps.attrs)
        refused("TreeEnsembleRegressor", "base values", x, **how, **base, **gaps.attrs)


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_trees_that_vote_for_classes(transform: str, base: bool) -> None:
    x, how = samples("float32", 9), {"post_transform": transform}
    more = {"base_values": [0.5, 0.1, -0.2]} if base else {}
    three = {"classlabels_int64s": [4, 2**40, 9], **more}
    for positive in (False, True):
        forest = Forest("class", 3, positive=positive)
        same("TreeEnsembleClassifier", x, outputs=2, **how, **three, **forest.attrs)
        two = Forest("class", 2, positive=positive, vote=0)
        more = {"base_values": [0.1]} if base else {}
        more |= {"classlabels_int64s": [4, 7]}
        if transform in ("NONE", "LOGISTIC"):
            same("TreeEnsembleClassifier", x, outputs=2, **how, **more, **two.attrs)
        else:
            refused(
                "TreeEnsembleClassifier", "one score for two", x, outputs=2, **how, **more,
                **two.attrs,
            )  # fmt: skip


def test_a_tree_of_numbered_leaves() -> None:
    """TreeEnsemble of opset 5: one leaf is a node's side, and a tree can be a leaf alone."""
    x = samples("float32", 9)
    tensor = numpy_helper.from_array
    how: Attrs = {
        "nodes_splits": tensor(np.float32([0.5, -0.5, 0.0])),
        "nodes_featureids": [0, 2, 0],
        "nodes_modes": tensor(np.uint8([0, 3, 0])),
        "nodes_truenodeids": [1, 0, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [1, 1, 1],
        "tree_roots": [0, 2],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": tensor(np.float32([1.0, 2.0, -3.0, 10.0])),
        "n_targets": 2,
    }
    proto, feeds = model_of("TreeEnsemble", [x], domain=ML, version=5, **how)
    below, above = x[:, 0] <= 0.5, x[:, 2] > -0.5
    first = np.where(below, np.where(above, 1, 0), -3)
    second = np.where(below & ~above, 2, 0) + 10
    np.testing.assert_array_equal(ours(proto, feeds)[0], np.stack([first, second], 1))
    how["nodes_modes"] = tensor(np.uint8([0, 6, 0]))
    refused("TreeEnsemble", "BRANCH_MEMBER", x, version=5, **how)
    how |= {"nodes_modes": tensor(np.uint8([0, 3, 0])), "nodes_truenodeids": [0, 0, 3]}
    invalid("TreeEnsemble", "two ways lead", x, version=5, **how)
    how["nodes_truenodeids"] = [7, 0, 3]
    invalid("TreeEnsemble", "not there", x, version=5, **how)


# ---- files ---------------------------------------------------------------------------------------


def test_labels_that_are_texts_are_left_out_by_outputs() -> None:
    how: Attrs = {
        "coefficients": values(12).tolist(),
        "intercepts": [0.0, 0.5, 0.0],
        "classlabels_strings": ["a", "b", "c"],
    }
    x = samples("float32")
    refused("LinearClassifier", "texts: outputs=", x, outputs=2, **how)
    proto, feeds = model_of("LinearClassifier", [x], 2, domain=ML, **how)
    with qnnrt.Session(importer.load(proto, outputs=["o1"])) as session:
        found = session.run(feeds)
    np.testing.assert_allclose(found["o1"], theirs(proto, feeds)[1], 1e-5, 1e-5)


def test_the_dictionaries_of_a_zipmap_are_cut_off() -> None:
    x = samples("float32")
    weights = values(12).tolist()
    proto, feeds = model_of(
        "LinearClassifier", [x], 2, domain=ML, coefficients=weights, classlabels_ints=[0, 1, 2]
    )
    node = helper.make_node("ZipMap", ["o1"], ["z"], domain=ML, classlabels_int64s=[0, 1, 2])
    proto.graph.node.append(node)
    key = onnx.TensorProto.INT64
    value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    proto.graph.output[1].CopyFrom(helper.make_value_info("z", maps))
    with pytest.raises(ModelError, match=r"'z' is a sequence_type.*outputs="):
        importer.load(proto)
    with qnnrt.Session(importer.load(proto, outputs=["o0", "o1"])) as session:
        found = session.run(feeds)
    scores = x @ np.float32(weights).reshape(3, 4).T
    np.testing.assert_allclose(found["o1"], scores, 1e-5, 1e-5)
    np.testing.assert_array_equal(found["o0"], scores.argmax(1))


def test_bad_trees_are_one_error() -> None:
    x = samples("float32")
    good = Forest("target", 1).attrs
    row = good["nodes_modes"].index("BRANCH_LEQ")
    for name, value, message in (
        ("nodes_truenodeids", 0, "no root leads to"),
        ("nodes_falsenodeids", 10**6, "names node 1000000 of tree 0"),
        ("nodes_featureids", 4, "features are 0 to 4 of 4"),
        ("nodes_featureids", -1, "features are -1 to"),
        ("nodes_modes", "BRANCH_XOR", "nodes_modes has 'BRANCH_XOR'"),
    ):
        bad = {**good, name: [*good[name]]}
        bad[name][row] = value
        invalid("TreeEnsembleRegressor", message, x, n_targets=1, **bad)
    for name in good:
        invalid("TreeEnsembleRegressor", "entries", x, **{**good, name: good[name][:-1]})
    ids = {**good, "target_ids": [9] * len(good["target_ids"])}
    invalid("TreeEnsembleRegressor", "target_ids are 9 to 9 of 1", x, **ids)
    wide = {**good, "n_targets": 2**30}
    refused("TreeEnsembleRegressor", "too large a table", x, **wide)
    invalid("TreeEnsembleRegressor", "n_targets is -1", x, **{**good, "n_targets": -1})


def test_the_domain_has_to_be_imported() -> None:
    proto, _ = model_of("Scaler", [samples("float32")], domain=ML, offset=[1.0], scale=[2.0])
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("", 18))
    with pytest.raises(UnsupportedOpError, match=r"does not import .*ai\.onnx\.ml"):
        importer.load(proto)


def test_many_samples_are_within_the_limits_of_a_file() -> None:
    forest = Forest("target", 1)
    proto, _ = model_of(
        "TreeEnsembleRegressor", [samples("float32")], domain=ML, n_targets=1, **forest.attrs
    )
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**28
    with pytest.raises(ModelError, match=r"qnnrt\.Limits"):
        importer.load(proto)
