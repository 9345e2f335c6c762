"""Models of many shapes, as `load` gives them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import qnnrt
from support.many_shapes import check, network, saved


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path)


def test_lists_of_sizes_are_all_their_combinations(path: Path) -> None:
    model = qnnrt.load(path, shapes={"batch": [1, 4], "seq": [2, 5, 9]})
    assert isinstance(model, qnnrt.DynamicModel)
    assert model.shapes == tuple({"batch": b, "seq": s} for b in (1, 4) for s in (2, 5, 9))
    assert model.listed is not None
    assert model.listed[1] == ((1, 5, 4),)
    assert model.at({"batch": 4, "seq": 9}).tensors["y"].shape == (4, 9, 3)


def test_a_list_of_dicts_is_the_combinations_that_it_lists(path: Path) -> None:
    model = qnnrt.load(path, shapes=[{"batch": 1, "seq": 8}, {"batch": [2, 3], "seq": 1}])
    assert model.shapes == (
        {"batch": 1, "seq": 8}, {"batch": 2, "seq": 1}, {"batch": 3, "seq": 1},
    )  # fmt: skip


def test_shapes_of_inputs_are_listed_as_such(path: Path) -> None:
    model = qnnrt.load(path, shapes={"x": [(1, 2, 4), (3, 5, 4)]})
    assert model.listed == (((1, 2, 4),), ((3, 5, 4),))
    assert isinstance(qnnrt.load(path, shapes={"x": [1, 2, 4]}), qnnrt.Model)


def test_any_leaves_open_what_it_stands_for(path: Path) -> None:
    assert qnnrt.load(path, shapes="any").shapes == ({"batch": "any", "seq": "any"},)
    some = qnnrt.load(path, shapes={"batch": [1, 2], "seq": "any"})
    assert some.shapes == ({"batch": 1, "seq": "any"}, {"batch": 2, "seq": "any"})
    assert some.listed is None
    assert some.at({"batch": 2, "seq": 7}).inputs == ["x"]
    with pytest.raises(ValueError, match="no graph for batch=3 seq=7"):
        some.at({"batch": 3, "seq": 7})


def test_one_size_for_each_is_a_model_as_ever(path: Path) -> None:
    model = qnnrt.load(path, shapes={"batch": 1, "seq": 2})
    assert isinstance(model, qnnrt.Model)


def test_graphs_are_called_by_their_shape(path: Path) -> None:
    model = qnnrt.load(path, shapes="any")
    assert model.at({"batch": 1, "seq": 64}).name == "net_batch_1_seq_64"
    assert model.at({"x": (2, 3, 4)}).name == "net_batch_2_seq_3"


def test_names_without_letters_stay_apart() -> None:
    model = qnnrt.importers.onnx.load(network(("a b", "a.b", 4)), shapes="any")
    names = {model.at({"a b": i, "a.b": j}).name for i in (1, 2) for j in (1, 2)}
    assert len(names) == 4


def test_dimensions_without_a_name_are_called_by_their_place() -> None:
    model = qnnrt.importers.onnx.load(network((None, None, 4)), shapes={"x": ("any", 3, 4)})
    assert model.shapes == ({"x_0": "any", "x_1": 3},)
    assert model.at({"x_0": 5}).name == "net_x_0_5_x_1_3"


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ({"batch": [1, 2]}, "is not fixed, and shapes= does not say it"),
        ({"batch": [1], "seq": []}, "lists no size for 'seq'"),
        ({"batch": [1, -2], "seq": 1}, "-2 for 'batch'"),
        ({"batch": [1, True], "seq": 1}, "True for 'batch'"),
        ({"batch": ["all"], "seq": 1}, "'all' for 'batch'"),
        ({"batch": [1], "seq": 1, "time": 3}, "no input or dimension named 'time'"),
        ({"x": [(1, 2, 5), (1, 2, 4)]}, r"shapes= gives it \[1, 2, 5\]"),
        ({"x": [(1, 2), (1, 2, 4)]}, r"shapes= gives it \[1, 2\]"),
        ([], "lists no shape"),
        ({"batch": list(range(1, 100)), "seq": list(range(1, 100))}, "more than 4096 shapes"),
    ],
)
def test_bad_lists_are_one_error(path: Path, shapes: Any, why: str) -> None:
    with pytest.raises(qnnrt.ModelError, match=why):
        qnnrt.load(path, shapes=shapes)


@pytest.mark.parametrize(("shapes", "kind"), [("every", ValueError), (3, TypeError)])
def test_what_is_no_list_is_refused(path: Path, shapes: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="shapes is a dict, a list of dicts or 'any'"):
        qnnrt.load(path, shapes=shapes)


def test_what_is_wrong_with_the_first_listed_shape_shows_when_it_is_loaded() -> None:
    bad = network(("batch", "seq", "width"))
    with pytest.raises(qnnrt.ModelError, match="MatMul"):
        qnnrt.importers.onnx.load(bad, shapes={"batch": [1], "seq": 2, "width": [5]})


def test_a_model_of_many_shapes_is_pickled_as_its_file(path: Path) -> None:
    model = pickle.loads(pickle.dumps(qnnrt.load(path, shapes={"batch": [1, 2], "seq": "any"})))
    with qnnrt.Session(model) as session:
        check(session, 2, 3)
