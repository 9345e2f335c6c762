"""Variants of kernels: which one is taken, measured when that is asked for, kept on disk."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import qnnrt
from qnnrt.gpu import tune
from qnnrt.gpu.device import choose
from qnnrt.gpu.ir import Launch
from qnnrt.gpu.target import Target
from support.gpu.cases import normal, one_backend  # noqa: F401
from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
from support.one_node import case

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def nothing() -> list[Launch]:
    return []


VARIANTS: tune.Variants = {"first": nothing, "second": nothing, "third": nothing}


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(choose(), tuning_cache=tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Names that were measured; the third is the fastest, the first is of no use."""
    names: list[list[str]] = []

    def measure(device: object, variants: tune.Variants) -> dict[str, float]:
        names.append(list(variants))
        return {"second": 7.0, "third": 3.14159}

    monkeypatch.setattr(tune, "measure", measure)
    return names


def entries(folder: Path) -> list[object]:
    known = json.loads((folder / tune.FILE).read_bytes())
    return [
        entry
        for families in known.values()
        for shapes in families.values()
        for entry in shapes.values()
    ]


def test_the_first_is_taken_where_nothing_is_known(target: Target, asked: list[list[str]]) -> None:
    assert tune.choose(target, "product", "a", VARIANTS) == "first"
    assert not asked
    assert not list(target.tuning_cache.iterdir())  # type: ignore[union-attr]


def test_what_was_measured_is_known_from_then_on(
    target: Target, asked: list[list[str]], tmp_path: Path
) -> None:
    tuning = dataclasses.replace(target, tuning=True)
    for _ in range(2):
        assert tune.choose(tuning, "product", "a", VARIANTS) == "third"
    assert asked == [["first", "second", "third"]]
    assert entries(tmp_path) == [["third", 3.14]]
    assert [p.name for p in tmp_path.iterdir()] == [tune.FILE]  # no temporary file stays
    assert tune.choose(target, "product", "a", VARIANTS) == "third"  # without tuning
    # Another shape, another family, another driver: not known.
    assert tune.choose(target, "product", "b", VARIANTS) == "first"
    assert tune.choose(target, "pool", "a", VARIANTS) == "first"
    other = dataclasses.replace(target.device, version="OpenCL 9.9")
    assert tune.choose(dataclasses.replace(target, device=other), "product", "a", VARIANTS) == (
        "first"
    )
    # What is there stays when more comes.
    assert tune.choose(tuning, "product", "b", VARIANTS) == "third"
    assert len(entries(tmp_path)) == 2


def test_portable_kernels_are_neither_measured_nor_looked_up(
    target: Target, asked: list[list[str]]
) -> None:
    tuning = dataclasses.replace(target, tuning=True)
    assert tune.choose(tuning, "product", "a", VARIANTS) == "third"
    portable = dataclasses.replace(tuning, portable=True)
    assert tune.choose(portable, "product", "a", VARIANTS) == "first"
    assert len(asked) == 1


def test_a_variant_that_is_no_longer_there_is_not_taken(
    target: Target, asked: list[list[str]]
) -> None:
    tuning = dataclasses.replace(target, tuning=True)
    assert tune.choose(tuning, "product", "a", VARIANTS) == "third"
    fewer = dict.fromkeys(("first", "second"), nothing)
    assert tune.choose(target, "product", "a", fewer) == "first"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"d": 1}', '{"d": {"product": {"a": "third"}}}', '{"d": {"f": []}}']
)
def test_a_damaged_file_counts_for_nothing_and_is_replaced(
    text: str, target: Target, asked: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / tune.FILE).write_text(text)
    assert tune.choose(target, "product", "a", VARIANTS) == "first"
    tuning = dataclasses.replace(target, tuning=True)
    assert tune.choose(tuning, "product", "a", VARIANTS) == "third"
    assert entries(tmp_path) == [["third", 3.14]]


def test_a_folder_that_cannot_be_written_is_no_error(
    target: Target, asked: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    tuning = dataclasses.replace(target, tuning=True, tuning_cache=tmp_path / "file" / "below")
    assert tune.choose(tuning, "product", "a", VARIANTS) == "third"


def test_of_many_variants_a_few_that_differ_are_measured(
    target: Target, asked: list[list[str]]
) -> None:
    """Whatever families list: the number of kernels that are built is bounded."""
    sizes = [f"tiles-{n}x64x16-4x4" for n in (128, 64, 32)]
    names = [f"{size}{parts}" for size in sizes for parts in ("", "-2", "-3", "-4")]
    variants = dict.fromkeys((*names, "panels-1x8x2", tune.CLBLAST), nothing)
    tune.choose(dataclasses.replace(target, tuning=True), "product", "a", variants)
    expected = [names[0], names[1], names[4], names[5], tune.CLBLAST]
    assert asked == [expected]
    assert len(expected) == tune.CANDIDATES + 1


def test_no_shape_is_begun_when_a_graphs_time_is_over(
    target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = tune.Bench.of(target.device)
    made: list[list[Launch]] = []
    monkeypatch.setattr(bench, "_time", lambda launches: float(len(made.append(launches) or made)))
    tuning = dataclasses.replace(target, tuning=True, bench=bench)
    assert tune.choose(tuning, "product", "a", VARIANTS) == "first"
    assert (len(made), len(entries(tmp_path))) == (3, 1)
    bench.left = 0.0
    assert tune.choose(tuning, "product", "b", VARIANTS) == "first"
    assert (len(made), len(entries(tmp_path))) == (3, 1)  # nothing is kept: the next time, perhaps
    assert tune.choose(tuning, "product", "a", VARIANTS) == "first"


@pytest.mark.slow
def test_a_session_that_tunes_measures_and_computes_the_same(tmp_path: Path) -> None:
    """All variants run on the device, and the results do not depend on which was taken."""
    x, w = normal(5, 24), normal(24, 20, seed=1)
    model = case("MatMul", [x, w], [(5, 20)], static=[1]).model
    given = {"gpu": {"tuning": True, "cache_dir": tmp_path}}
    with qnnrt.Session(model, "gpu", options=given) as s:
        got = s.run({"in0": x})["out0"]
        s.backend.close()
    np.testing.assert_allclose(got, x @ w, rtol=1e-5, atol=1e-5)
    ((name, microseconds),) = entries(tmp_path)  # type: ignore[misc]
    assert name.startswith(("panels", "tiles", "dots", tune.CLBLAST))
    assert microseconds > 0
