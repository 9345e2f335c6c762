"""Results with as many rows as the data decide, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import qnnrt
from qnnrt.errors import UnsupportedOpError
from qnnrt.importers import onnx as importer
from support.onnx.agreement import make, random
from support.onnx.models import node

#: ONNX Runtime keeps fds and maps of its own.
pytestmark = pytest.mark.foreign


def check(
    nodes: list[onnx.NodeProto],
    feeds: list[dict[str, np.ndarray]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
    **types: int,
) -> qnnrt.Model:
    """`outputs`: along which axis of each the data decide how many rows there are."""
    shapes = {name: x.shape for name, x in feeds[0].items()}
    proto = make(nodes, shapes, list(outputs), constants, types=types)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    model = importer.load(proto)
    assert model.outputs == [*outputs, *(f"{name}.count" for name in outputs)]
    for kernels in ("auto", "portable"):
        with qnnrt.Session(model, "cpu", options={"kernels": kernels}) as session:
            for given in feeds:
                found = session.run(given)
                for (name, axis), ref in zip(
                    outputs.items(), reference.run(None, given), strict=True
                ):
                    (count,) = found[f"{name}.count"]
                    assert count == ref.shape[axis]
                    y = found[name]
                    assert y.dtype == ref.dtype
                    assert y.shape[axis] == model.tensors[name].shape[axis] >= count
                    y = y.take(np.arange(count), axis)
                    np.testing.assert_allclose(y, ref, rtol=1e-5, atol=1e-6, err_msg=name)
    return model


def several(*shape: int) -> list[dict[str, np.ndarray]]:
    """Some, all and none of the numbers are above 0; the last rows, too."""
    x = random(1, *shape)
    return [{"x": x}, {"x": np.abs(x) + 1}, {"x": -np.abs(x)}, {"x": -x}]


ABOVE = [node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["places"])]
ZERO = {"zero": np.float32(0)}


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...]) -> None:
    model = check(ABOVE, several(*shape), {"places": 1}, ZERO)
    assert model.tensors["places"].shape == (len(shape), int(np.prod(shape)))


def test_a_choice_by_a_mask() -> None:
    """As torch writes x[x > 0], and with what is computed of each."""
    nodes = [
        *ABOVE,
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["x", "rows"], ["y"]),
        node("Mul", ["y", "factor"], ["z"]),
        node("Relu", ["z"], ["u"]),
        node("Add", ["u", "y"], ["sum"]),
    ]
    check(nodes, several(3, 4), {"y": 0, "sum": 0}, {**ZERO, "factor": np.float32(-2)})


def test_rows_of_a_table_and_the_first_few_of_them() -> None:
    """As after a threshold on scores: boxes and scores of what is left, 5 at most."""
    boxes = random(2, 12, 4)
    nodes = [
        *ABOVE,
        node("Squeeze", ["places", "first"], ["kept"]),
        node("Gather", ["boxes", "kept"], ["some"]),
        node("Gather", ["x", "kept"], ["scores"]),
        node("Slice", ["some", "from", "to", "first"], ["few"]),
        node("Slice", ["scores", "from", "to", "first"], ["few_scores"]),
        node("Unsqueeze", ["few_scores", "last"], ["column"]),
        node("Concat", ["few", "column"], ["y"], axis=1),
        node("MatMul", ["some", "weights"], ["p"]),
        node("Softmax", ["p"], ["q"], axis=-1),
        node("ArgMax", ["q"], ["best"], axis=1, keepdims=0),
    ]
    constants = {
        **ZERO, "boxes": boxes, "first": np.array([0]), "last": np.array([-1]),
        "from": np.array([0]), "to": np.array([5]), "weights": random(3, 4, 3),
    }  # fmt: skip
    model = check(nodes, several(12), {"y": 0, "scores": 0, "best": 0}, constants)
    assert model.tensors["y"].shape == (5, 5)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_choice_along_an_axis(axis: int | None) -> None:
    how = {} if axis is None else {"axis": axis}
    length = {0: 3, 1: 4, None: 12}[axis]
    rng = np.random.default_rng(0)
    feeds = [{"x": random(1, 3, 4), "c": rng.integers(0, 2, length) > n} for n in (-1, 0, 1)]
    check([node("Compress", ["x", "c"], ["y"], **how)], feeds, {"y": axis or 0}, c=TensorProto.BOOL)


def test_the_largest_of_a_number_that_is_computed() -> None:
    nodes = [node("TopK", ["x", "k"], ["y", "i"], axis=1)]
    feeds = [{"x": random(n, 2, 6), "k": np.array([n])} for n in (1, 3, 6)]
    model = check(nodes, feeds, {"y": 1, "i": 1}, k=TensorProto.INT64)
    assert model.tensors["y"].shape == (2, 6)


CHOSEN = [
    *ABOVE,
    node("Squeeze", ["places", "first"], ["kept"]),
    node("Gather", ["x", "kept"], ["y"]),
]
FIRST = {**ZERO, "first": np.array([0])}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([node("Add", ["y", "x"], ["z"])], r"input 1 has 6 rows"),
        ([node("Reshape", ["y", "two"], ["z"])], "a reshape of"),
        ([node("Split", ["y", "two_two"], ["z", "w"])], "known numbers of them"),
        ([node("Tile", ["y", "back"], ["z"])], "as many rows as the data decide|among others"),
        ([node("Shape", ["y"], ["s"]), node("Unsqueeze", ["x", "s"], ["z"])], "must be known when"),
    ],
)
def test_what_would_mix_rows_is_refused(more: list[onnx.NodeProto], message: str) -> None:
    constants = {**FIRST, "two": np.array([2, -1]), "back": np.array([2])}
    constants["two_two"] = np.array([2, 2])
    proto = make([*CHOSEN, *more], {"x": (6,)}, ["z"], constants)
    with pytest.raises(UnsupportedOpError, match=message):
        importer.load(proto)


# ---- all rows together ---------------------------------------------------------------------------


def check_whole(
    nodes: list[onnx.NodeProto],
    feeds: list[dict[str, np.ndarray]],
    outputs: list[str],
    constants: dict[str, np.ndarray],
) -> None:
    """Results of a fixed shape, of what has as many rows as the data decide."""
    proto = make(nodes, {name: x.shape for name, x in feeds[0].items()}, outputs, constants)
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto), "cpu") as session:
        for given in feeds:
            found = session.run(given)
            assert set(found) == set(outputs)
            for name, ref in zip(outputs, reference.run(None, given), strict=True):
                assert found[name].dtype == ref.dtype
                np.testing.assert_allclose(found[name], ref, rtol=1e-5, atol=1e-6, err_msg=name)


def some(*shape: int) -> list[dict[str, np.ndarray]]:
    """As several(), but always one row: what the largest of none is, runtimes do not agree on."""
    return several(*shape)[:2] + several(*shape)[3:]


@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean", "L1", "L2", "SumSquare"])
def test_sums_of_the_rows_that_count(op: str) -> None:
    nodes = [*CHOSEN, node(f"Reduce{op}", ["y"], ["z"], keepdims=0)]
    check_whole(nodes, some(9), ["z"], FIRST)
    rows = [
        *CHOSEN[:-1], node("Gather", ["table", "kept"], ["y"]),
        node("ReduceSum", ["y", "first"], ["z"]) if op == "Sum"
        else node(f"Reduce{op}", ["y"], ["z"], axes=[0]),
    ]  # fmt: skip
    check_whole(rows, some(9), ["z"], {**FIRST, "table": random(3, 9, 4)})


def test_the_best_of_the_rows_that_count() -> None:
    nodes = [
        *CHOSEN,
        node("ArgMax", ["y"], ["most"], axis=0),
        node("ArgMin", ["y"], ["least"], axis=0, keepdims=0),
        node("Gather", ["y", "last"], ["end"], axis=0),
        node("Size", ["y"], ["n"]),
        node("Shape", ["y"], ["shape"]),
    ]
    constants = {**FIRST, "last": np.array([-1])}
    check_whole(nodes, some(9), ["most", "least", "end", "n", "shape"], constants)


def test_a_softmax_over_rows_and_places_among_them() -> None:
    nodes = [
        *CHOSEN,
        node("Softmax", ["y"], ["soft"], axis=0),
        node("Greater", ["y", "half"], ["high"]),
        node("NonZero", ["high"], ["where"]),
        node("Transpose", ["where"], ["rows"]),
        node("GatherND", ["y", "rows"], ["best"]),
        node("Compress", ["y", "high"], ["same"], axis=0),
    ]
    constants = {**FIRST, "half": np.float32(0.5)}
    check(nodes, several(9), {"soft": 0, "where": 1, "best": 0, "same": 0}, constants)


def test_rows_one_behind_the_other() -> None:
    """Of two numbers, and of a fixed one between them."""
    nodes = [
        *CHOSEN,
        node("Less", ["x", "zero"], ["under"]),
        node("Compress", ["x", "under"], ["low"], axis=0),
        node("Concat", ["low", "table", "y"], ["z"], axis=0),
        node("Concat", ["y", "low"], ["again"], axis=0),
        node("Concat", ["y"], ["alone"], axis=0),
        node("Add", ["alone", "y"], ["twice"]),
    ]
    outputs = {"z": 0, "again": 0, "twice": 0}
    check(nodes, several(9), outputs, {**FIRST, "table": random(4, 3)})


def test_the_best_few_as_torch_writes_them() -> None:
    """k is the least of 4 and of how many there are; boxes go by the places."""
    nodes = [
        *CHOSEN,
        node("Shape", ["y"], ["shape"]),
        node("Gather", ["shape", "zeroth"], ["n"]),
        node("Unsqueeze", ["n", "first"], ["list"]),
        node("Concat", ["four", "list"], ["both"], axis=0),
        node("ReduceMin", ["both"], ["k"], keepdims=0),
        node("Reshape", ["k", "one"], ["ks"]),
        node("TopK", ["y", "ks"], ["best", "at"], axis=-1),
        node("Gather", ["boxes", "kept"], ["rest"]),
        node("Gather", ["rest", "at"], ["found"]),
        node("Shape", ["best"], ["size"]),
        node("ConstantOfShape", ["size"], ["label"],
             value=onnx.numpy_helper.from_array(np.array([7]))),
    ]  # fmt: skip
    constants = {
        **FIRST, "zeroth": np.array(0), "four": np.array([4]), "one": np.array([1]),
        "boxes": random(5, 9, 4),
    }  # fmt: skip
    outputs = {"best": 0, "at": 0, "found": 0, "label": 0}
    model = check(nodes, several(9), outputs, constants)
    assert model.tensors["found"].shape == (4, 4)


def test_shapes_of_rows() -> None:
    """Reshape, Expand, Range and Slice by a number of rows; arithmetic on it."""
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["table", "kept"], ["y"]),
        node("Shape", ["y"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"]),
        node("Reshape", ["y", "flat"], ["all"]),
        node("Concat", ["n", "rest"], ["target"], axis=0),
        node("Reshape", ["all", "target"], ["cube"]),
        node("Squeeze", ["n", "first"], ["number"]),
        node("Range", ["start", "number", "step"], ["order"]),
        node("Unsqueeze", ["order", "behind"], ["column"]),
        node("Equal", ["shape", "minus"], ["open"]),
        node("Where", ["open", "ones", "shape"], ["wanted"]),
        node("Expand", ["column", "wanted"], ["wide"]),
        node("Slice", ["table", "first", "n", "first"], ["front"]),
        node("Div", ["number", "two"], ["half"]),
        node("Unsqueeze", ["half", "first"], ["halves"]),
        node("Slice", ["y", "first", "halves", "first"], ["part"]),
        node("Cast", ["number"], ["real"], to=1),
        node("Mul", ["y", "real"], ["scaled"]),
    ]
    constants = {
        **FIRST, "table": random(6, 9, 6), "flat": np.array([-1]), "rest": np.array([2, 3]),
        "start": np.array(0), "step": np.array(1), "behind": np.array([1]),
        "minus": np.array([-1]), "ones": np.array([1, 1]), "two": np.array(2),
    }  # fmt: skip
    outputs = {"all": 0, "cube": 0, "order": 0, "wide": 0, "front": 0, "part": 0, "scaled": 0}
    model = check(nodes, several(9), outputs, constants)
    assert model.tensors["all"].shape == (54,)
    assert model.tensors["part"].shape == (4, 6)


@pytest.mark.parametrize("op", ["Less", "Greater", "Equal", "LessOrEqual"])
@pytest.mark.parametrize("inputs", [("n", "four"), ("four", "n")])
def test_a_size_less_than_nothing_is_compared_as_what_it_is(
    op: str, inputs: tuple[str, str]
) -> None:
    """What there are more rows than four, or fewer."""
    nodes = [
        *CHOSEN,
        node("Shape", ["y"], ["n"]),
        node("Sub", inputs, ["more"]),
        node(op, ["more", "minus"], ["is"]),
        node("Mul", ["more", "n"], ["product"]),
        node(op, ["product", "minus"], ["was"]),
        node("Cast", ["is"], ["z"], to=TensorProto.INT64),
        node("Cast", ["was"], ["w"], to=TensorProto.INT64),
    ]
    constants = {**FIRST, "four": np.array([4]), "minus": np.array([-1])}
    check_whole(
        nodes, [*several(6), {"x": np.float32([1, 1, 1, -1, -1, -1])}], ["z", "w"], constants
    )


@pytest.mark.parametrize("how", ["pad", "pad of some", "zeros"])
def test_rows_are_filled_up_to_a_known_number(how: str) -> None:
    """As key points and boxes are exported for a client that wants so many: nothing counts then."""
    more = [
        node("Shape", ["rows"], ["n"]),
        node("Sub", ["seven", "n"], ["rest"]),
        node("Concat", ["first", "rest"], ["pads"], axis=0),
    ]
    ends = {
        "pad": [*more, node("Pad", ["rows", "pads", "minus"], ["z"])],
        "pad of some": [*more, node("Pad", ["rows", "pads", "", "first"], ["z"])],
        "zeros": [
            *more, node("ConstantOfShape", ["rest"], ["zeros"]),
            node("Concat", ["rows", "zeros"], ["z"], axis=0),
        ],
    }[how]  # fmt: skip
    nodes = [*CHOSEN[:-1], node("Gather", ["x", "kept"], ["all"]),
             node("Slice", ["all", "first", "seven"], ["rows"]), *ends]  # fmt: skip
    constants = {**FIRST, "seven": np.array([7]), "minus": np.float32(-1)}
    proto = make(nodes, {"x": (9,)}, ["z"], constants)
    proto.opset_import[0].version = 18
    reference = onnxruntime.InferenceSession(proto.SerializeToString())
    with qnnrt.Session(importer.load(proto)) as session:
        assert session.outputs["z"].shape == (7,)
        for given in several(9):
            assert np.array_equal(session.run(given)["z"], reference.run(None, given)[0])


def test_a_pad_by_another_number_than_what_is_missing_counts() -> None:
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["x", "kept"], ["rows"]),
        node("Shape", ["rows"], ["n"]),
        node("Concat", ["first", "n"], ["pads"], axis=0),
        node("Pad", ["rows", "pads"], ["twice"]),
        node("Pad", ["x", "pads"], ["more"]),
    ]
    check(nodes, several(9), {"twice": 0, "more": 0}, FIRST)


def test_a_pad_in_front_by_a_number_that_the_data_decide() -> None:
    """As the newest of a history are kept behind zeros."""
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["x", "kept"], ["rows"]),
        node("Gather", ["table", "kept"], ["columns"]),
        node("Shape", ["rows"], ["n"]),
        node("Concat", ["n", "first"], ["pads"], axis=0),
        node("Pad", ["x", "pads", "minus"], ["more"]),
        node("Pad", ["rows", "pads", "minus"], ["twice"]),
        node("Sub", ["four", "n"], ["rest"]),
        node("Max", ["rest", "first"], ["missing"]),
        node("Concat", ["missing", "one", "one", "first"], ["four pads"], axis=0),
        node("Pad", ["columns", "four pads"], ["filled"]),
    ]
    constants = {
        **FIRST, "table": random(8, 9, 2), "minus": np.float32(-1), "four": np.array([4]),
        "one": np.array([1]),
    }  # fmt: skip
    check(nodes, several(9), {"more": 0, "twice": 0, "filled": 0}, constants)


@pytest.mark.parametrize("known", [4, 9, 12])
def test_rows_are_filled_up_in_front_to_a_known_number(known: int) -> None:
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["x", "kept"], ["rows"]),
        node("Shape", ["rows"], ["n"]),
        node("Sub", ["known", "n"], ["rest"]),
        node("Concat", ["rest", "first"], ["pads"], axis=0),
        node("Pad", ["rows", "pads"], ["z"]),
    ]
    constants = {**FIRST, "known": np.array([known])}
    check_whole(nodes, several(9), ["z"], constants)


def test_rows_are_split_by_sizes_that_count_them() -> None:
    """As torch.export writes tensors of several images that go one behind the other."""
    nodes = [
        node("Greater", ["x", "zero"], ["high"]),
        node("Less", ["x", "zero"], ["low"]),
        node("Compress", ["x", "high"], ["a"], axis=0),
        node("Compress", ["x", "low"], ["b"], axis=0),
        node("Concat", ["a", "b"], ["both"], axis=0),
        node("Shape", ["a"], ["na"]),
        node("Shape", ["b"], ["nb"]),
        node("Concat", ["na", "nb"], ["sizes"], axis=0),
        node("Split", ["both", "sizes"], ["c", "d"], axis=0),
        node("Add", ["c", "a"], ["twice"]),
        node("Shape", ["both"], ["n"]),
        node("Split", ["both", "n"], ["e"], axis=0),
        node("Neg", ["e"], ["f"]),
    ]
    check(nodes, several(9), {"c": 0, "d": 0, "twice": 0, "f": 0}, ZERO)


def test_images_one_after_the_other() -> None:
    """As masks of the regions of a picture."""
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["table", "kept"], ["y"]),
        node("Reshape", ["y", "image"], ["images"]),
        node("Conv", ["images", "weights"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", ["m", "back"], ["t"], strides=[2, 2]),
        node("Pad", ["t", "pads"], ["p"]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["z"]),
    ]
    constants = {
        **FIRST, "table": random(8, 9, 16), "image": np.array([-1, 1, 4, 4]),
        "weights": random(9, 2, 1, 3, 3), "back": random(10, 2, 3, 2, 2),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    }  # fmt: skip
    check(nodes, several(9), {"m": 0, "p": 0, "z": 0}, constants)
    behind = [*nodes[:9], node("Pad", ["t", "more"], ["z"])]
    constants["more"] = np.array([0, 0, 0, 0, 1, 0, 0, 0])
    check(behind, several(9), {"z": 0}, constants)


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_rows_go_back_to_their_places(op: str) -> None:
    """As rows of levels go back among those of all levels."""
    index = {
        "ScatterElements": [
            node("Reshape", ["kept", "column"], ["tall"]),
            node("Shape", ["twice"], ["shape"]),
            node("Expand", ["tall", "shape"], ["index"]),
        ],
        "ScatterND": [node("Unsqueeze", ["kept", "one"], ["index"])],
    }[op]
    nodes = [
        *CHOSEN[:-1],
        node("Gather", ["table", "kept"], ["y"]),
        node("Mul", ["y", "two"], ["twice"]),
        *index,
        node(op, ["table", "index", "twice"], ["z"]),
    ]
    constants = {
        **FIRST, "table": random(7, 9, 4), "two": np.float32(2), "one": np.array([1]),
        "column": np.array([-1, 1]),
    }  # fmt: skip
    check_whole(nodes, several(9), ["z"], constants)


AT = [*ABOVE, node("Transpose", ["places"], ["at"])]
COUNTED = [
    node("Reshape", ["mask", "all"], ["flat"]),
    node("Cast", ["flat"], ["ones"], to=TensorProto.INT64),
    node("ReduceSum", ["ones"], ["n"]),
]
AGAIN = [
    node("Greater", ["x", "same"], ["mask 2"]),
    node("NonZero", ["mask 2"], ["places 2"]),
    node("Transpose", ["places 2"], ["at 2"]),
    node("Shape", ["at 2"], ["size"]),
    node("Gather", ["size", "first"], ["n"]),
]
DOUBLED = [
    node("GatherND", ["x", "at"], ["chosen"]),
    node("Mul", ["chosen", "number"], ["twice"]),
]
WRITTEN = {
    "one number": [*AT, *COUNTED, node("Expand", ["number", "n"], ["new"])],
    "one by a shape": [*AT, *COUNTED, node("ConstantOfShape", ["n"], ["new"])],
    "what is computed": [*AT, *COUNTED, *DOUBLED, node("Expand", ["twice", "n"], ["new"])],
    "by another mask": [*AT, *AGAIN, *DOUBLED, node("Slice", ["twice", "first", "n"], ["new"])],
    "the first of others": [*AT, *AGAIN, node("Slice", ["row", "first", "n"], ["new"])],
    "numbers from 0": [
        *AT,
        *COUNTED,
        node("Squeeze", ["n"], ["end"]),
        node("Range", ["nought", "end", "step"], ["range"]),
        node("Cast", ["range"], ["new"], to=TensorProto.FLOAT),
    ],
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_places_that_a_mask_chooses_are_written(kind: str) -> None:
    """As torch exports ``x[x > 0] = 7``, ``x[x > 0] = x[x > 0] * 7`` and ``masked_scatter``: the
    mask is counted, or computed once more."""
    constants = {
        **ZERO, "same": np.float32(0), "all": np.array([-1]), "first": np.array([0]),
        "number": np.float32(7), "row": random(5, 15), "nought": np.array(0), "step": np.array(1),
    }  # fmt: skip
    nodes = [*WRITTEN[kind], node("ScatterND", ["x", "at", "new"], ["y"])]
    check_whole(nodes, several(3, 5), ["y"], constants)


@pytest.mark.parametrize("value", ["number", "row"])
def test_rows_that_a_mask_chooses_are_written(value: str) -> None:
    """As torch.export writes ``y[x > 0] = 7`` and ``y[x > 0] = row``, where a place of the mask is
    a row of `y`: the mask goes over each of its elements, and the number of rows is a size beside
    another one."""
    nodes = [
        node("Greater", ["x", "zero"], ["mask"]),
        node("Unsqueeze", ["mask", "all"], ["column"]),
        node("Expand", ["column", "shape"], ["each"]),
        node("NonZero", ["each"], ["places"]),
        node("Transpose", ["places"], ["at"]),
        *COUNTED,
        node("Concat", ["n", "width"], ["size"], axis=0),
        node("Expand", [value, "size"], ["rows"]),
        node("Reshape", ["rows", "all"], ["new"]),
        node("ScatterND", ["table", "at", "new"], ["y"]),
    ]
    constants = {
        **ZERO, "all": np.array([-1]), "shape": np.array([3, 5, 4]), "width": np.array([4]),
        "table": random(6, 3, 5, 4), "number": np.float32(7), "row": random(5, 4),
    }  # fmt: skip
    check_whole(nodes, several(3, 5), ["y"], constants)


def test_a_count_beside_others_is_a_size_whatever_was_loaded_before() -> None:
    """Numbers that count nothing were joined like that in another file."""
    types = {"a": TensorProto.INT64}
    join = node("Concat", ["a", "width"], ["y"], axis=0)
    importer.load(make([join], {"a": (1,)}, ["y"], {"width": np.array([4])}, types=types))
    test_rows_that_a_mask_chooses_are_written("row")


def test_a_count_beside_other_numbers_is_data() -> None:
    nodes = [
        node("Greater", ["x", "zero"], ["mask"]),
        *COUNTED,
        node("Concat", ["n", "width", "n"], ["y"], axis=0),
    ]
    constants = {**ZERO, "all": np.array([-1]), "width": np.array([4])}
    check_whole(nodes, several(3, 5), ["y"], constants)


def test_masks_that_differ_are_two_numbers_of_rows() -> None:
    nodes = [*AT, *AGAIN, *DOUBLED, node("ScatterND", ["x", "at 2", "twice"], ["y"])]
    constants = {**ZERO, "same": np.float32(1), "first": np.array([0]), "number": np.float32(7)}
    with pytest.raises(UnsupportedOpError, match="two numbers of rows"):
        importer.load(make(nodes, {"x": (3, 5)}, ["y"], constants))


def test_random_masks_are_two_numbers_of_rows() -> None:
    """Two draws of one node's kind are not one, however alike the nodes."""
    nodes = [
        *(node("RandomUniformLike", ["x"], [f"r{i}"]) for i in range(2)),
        *(node("Greater", [f"r{i}", "half"], [f"m{i}"]) for i in range(2)),
        *(node("Compress", ["x", f"m{i}"], [f"c{i}"]) for i in range(2)),
        node("Add", ["c0", "c1"], ["y"]),
    ]
    with pytest.raises(UnsupportedOpError, match="two numbers of rows"):
        importer.load(make(nodes, {"x": (6,)}, ["y"], {"half": np.float32(0.5)}))


def test_the_data_choose_between_results_of_different_sizes() -> None:
    """As torchvision asks before it suppresses boxes whether there are any."""
    info = onnx.helper.make_tensor_value_info
    none = onnx.helper.make_graph(
        [node("Constant", [], ["a"], value=onnx.numpy_helper.from_array(np.zeros(0, np.float32)))],
        "none", [], [info("a", TensorProto.FLOAT, None)],
    )  # fmt: skip
    all_of_them = onnx.helper.make_graph(
        [node("ReduceMax", ["y"], ["m"]), node("Div", ["y", "m"], ["b"])],
        "some", [], [info("b", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        *CHOSEN,
        node("Shape", ["y"], ["shape"]),
        node("ReduceProd", ["shape"], ["n"], keepdims=0),
        node("Equal", ["n", "no"], ["empty"]),
        node("If", ["empty"], ["z"], then_branch=none, else_branch=all_of_them),
    ]
    check(nodes, several(9), {"z": 0}, {**FIRST, "no": np.array(0)})


# ---- boxes ---------------------------------------------------------------------------------------


def boxes(seed: int, *shape: int) -> np.ndarray:
    r = np.random.default_rng(seed)
    corners = r.uniform(0, 20, (*shape, 2))
    return np.concatenate([corners, corners + r.uniform(1, 9, (*shape, 2))], -1).astype(np.float32)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("given", [2, 3, 4, 5])
def test_suppression(center: int, given: int) -> None:
    constants = {"most": np.array([5]), "iou": np.float32([0.3]), "score": np.float32([0.2])}
    names = ["boxes", "scores", "most", "iou", "score"][:given]
    nodes = [node("NonMaxSuppression", names, ["y"], center_point_box=center)]
    feeds = [
        {"boxes": boxes(n, 2, 30), "scores": scale * random(n, 2, 3, 30)}
        for n, scale in enumerate(np.float32([1, 0.1, -1]))
    ]
    if given == 2:  # none of each class
        proto = make(nodes, {n: x.shape for n, x in feeds[0].items()}, ["y"])
        with qnnrt.Session(importer.load(proto), "cpu") as session:
            found = session.run(feeds[0])
        assert [(name, x.shape, x.dtype) for name, x in found.items()] == [("y", (0, 3), np.int64)]
        return
    used = {name: constants[name] for name in names[2:]}
    model = check(nodes, feeds, {"y": 0}, used)
    assert model.tensors["y"].shape == (2 * 3 * 5, 3)
    assert model.op_counts()["NonMaxSuppression"] == 1


def test_suppression_by_a_threshold_that_is_computed() -> None:
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "score"], ["y"])]
    feeds = [
        {"boxes": boxes(n, 1, 30), "scores": random(n, 1, 2, 30), "score": np.float32([limit])}
        for n, limit in enumerate((0.5, -1, 9))
    ]
    check(nodes, feeds, {"y": 0}, {"most": np.array([50]), "iou": np.float32([0.4])})
    proto = make(nodes, {"boxes": (1, 6, 4), "scores": (1, 2, 6), "iou": (1,)}, ["y"],
                 {"most": np.array([5]), "score": np.float32([0])})  # fmt: skip
    with pytest.raises(UnsupportedOpError, match=r"iou_threshold .input 3. must be known"):
        importer.load(proto)


def test_boxes_above_a_threshold_class_by_class() -> None:
    """As torchvision writes it: what is left of a threshold, offsets by class, suppression, the
    best few; what was found of none, too."""
    nodes = [
        node("Greater", ["scores", "limit"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("Split", ["rows"], ["box", "class"], axis=1),
        node("Squeeze", ["box", "one"], ["at"]),
        node("Squeeze", ["class", "one"], ["label"]),
        node("GatherND", ["scores", "rows"], ["marks"]),
        node("Gather", ["boxes", "at"], ["some"]),
        node("ReduceMax", ["some"], ["most"], keepdims=0),
        node("Add", ["most", "unit"], ["step"]),
        node("Cast", ["label"], ["real"], to=1),
        node("Mul", ["real", "step"], ["offsets"]),
        node("Unsqueeze", ["offsets", "one"], ["column"]),
        node("Add", ["some", "column"], ["moved"]),
        node("Unsqueeze", ["moved", "first"], ["batch"]),
        node("Unsqueeze", ["marks", "twice"], ["batch_marks"]),
        node("NonMaxSuppression", ["batch", "batch_marks", "huge", "iou"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["index"], axis=1),
        node("Squeeze", ["index", "one"], ["kept"]),
        node("Slice", ["kept", "first", "ten", "first"], ["few"]),
        node("Gather", ["some", "few"], ["z"]),
        node("Gather", ["label", "few"], ["labels"]),
        node("Gather", ["marks", "few"], ["best"]),
    ]
    constants = {
        "limit": np.float32(0.6), "one": np.array([1]), "first": np.array([0]),
        "unit": np.float32(1), "twice": np.array([0, 1]), "huge": np.array([2**62]),
        "iou": np.float32([0.4]), "two": np.array([2]), "ten": np.array([10]),
    }  # fmt: skip
    feeds = [
        {"boxes": boxes(n, 40), "scores": scale * random(n, 40, 3)}
        for n, scale in enumerate(np.float32([1, 0.3, 0]))
    ]
    model = check(nodes, feeds, {"z": 0, "labels": 0, "best": 0}, constants)
    assert model.tensors["z"].shape == (10, 4)


def test_a_one_stage_detector_with_suppression_behind_it() -> None:
    """As YOLO's exports have it: centers and sizes, scores of each class, and rows of (picture,
    corners, class, score) of what is left."""
    nodes = [
        node("Transpose", ["head"], ["rows"], perm=[0, 2, 1]),
        node("Split", ["rows", "parts"], ["raw", "logits"], axis=2),
        node("Sigmoid", ["logits"], ["likely"]),
        node("Transpose", ["likely"], ["scores"], perm=[0, 2, 1]),
        node("Softplus", ["raw"], ["centers"]),
        node("NonMaxSuppression", ["centers", "scores", "most", "iou", "limit"], ["found"],
             center_point_box=1),
        node("Gather", ["found", "two"], ["box"], axis=1),
        node("Gather", ["found", "zero_and_two"], ["picture_and_box"], axis=1),
        node("GatherND", ["centers", "picture_and_box"], ["corners"]),
        node("GatherND", ["scores", "found"], ["marks"]),
        node("Unsqueeze", ["marks", "last"], ["column"]),
        node("Gather", ["found", "one"], ["label"], axis=1),
        node("Cast", ["label"], ["label_column"], to=1),
        node("Gather", ["found", "first"], ["picture"], axis=1),
        node("Cast", ["picture"], ["picture_column"], to=1),
        node("Concat", ["picture_column", "corners", "label_column", "column"], ["z"], axis=1),
        node("Shape", ["box"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"]),
        node("Concat", ["n", "limit_of_all"], ["both"], axis=0),
        node("ReduceMin", ["both"], ["k"]),
        node("TopK", ["marks", "k"], ["best", "at"], axis=0),
        node("Gather", ["z", "at"], ["top"]),
    ]  # fmt: skip
    constants = {
        "parts": np.array([4, 5]), "most": np.array([20]), "iou": np.float32([0.45]),
        "limit": np.float32([0.6]), "two": np.array([2]), "zero_and_two": np.array([0, 2]),
        "last": np.array([1]), "one": np.array([1]), "first": np.array([0]),
        "limit_of_all": np.array([15]),
    }  # fmt: skip
    heads = [random(11, 2, 9, 50), random(12, 2, 9, 50), random(13, 2, 9, 50)]
    heads[1] += 1
    heads[2][:, 4:] = -1
    model = check(nodes, [{"head": x} for x in heads], {"z": 0, "top": 0, "best": 0}, constants)
    assert model.tensors["z"].shape == (2 * 5 * 20, 7)
    assert model.tensors["top"].shape == (15, 7)
