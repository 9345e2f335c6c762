"""Models and single ops on the gpu backend, compared with the cpu backend.

A test module of a family of kernels::

    from support.gpu.cases import against_cpu, normal, one_backend  # noqa: F401
    from support.gpu.opencl import gpu, opencl_is_up  # noqa: F401
    from support.one_node import case, u32

    def test_sums() -> None:
        x = normal(3, 70)
        against_cpu(
            case("ReduceSum", [x], [(3,)], {"axes": u32(1)}, name="last"), ..., terms=70
        )

All cases of a call are one graph, whose kernels are one program, since building programs is what
takes the time.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import qnnrt
from qnnrt.model import Model, Node, Tensor
from support.one_node import Case

__all__ = [
    "against_cpu",
    "compare",
    "feeds_for",
    "joined",
    "launches",
    "loops_and_lanes",
    "normal",
    "on_gpu",
    "one_backend",
]

#: Cases of a graph: an execution takes 64 inputs and outputs at most, and oclgrind adds up what all
#: kernels of a program have of local memory.
_TOGETHER = 1 if os.environ.get("QNNRT_GPU_DEVICE") == "oclgrind" else 15
#: How far a result may lie from the cpu's, relative to it.
TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


@pytest.fixture(scope="module", autouse=True)
def one_backend(opencl_is_up: None) -> Iterator[qnnrt.qnn.Backend]:
    """The backend of a module's sessions: ``Session(model, "gpu")`` shares it while it is open."""
    with qnnrt.qnn.Backend.shared("gpu") as backend:
        yield backend


@pytest.fixture(params=["loops", "lanes"])
def loops_and_lanes(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, one_backend: qnnrt.qnn.Backend
) -> str:
    """The kernels for devices whose work groups are loops, and then those for work items side by
    side, with local memory and barriers, whatever the device is."""
    library = one_backend.library
    kind = {"loops": "cpu", "lanes": "gpu"}[request.param]
    monkeypatch.setattr(library, "device", dataclasses.replace(library.device, kind=kind))
    return str(request.param)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Random numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def feeds_for(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: normal floats, integers of 0 to 9, bools."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name in model.inputs:
        t = model.tensors[name]
        if t.dtype.kind == "f":
            feeds[name] = np.asarray(rng.standard_normal(t.shape)).astype(t.dtype)
        else:
            feeds[name] = np.asarray(
                rng.integers(0, 2 if t.dtype == np.bool_ else 10, t.shape)
            ).astype(t.dtype)
    return feeds


def joined(cases: Sequence[Case], first: int = 0) -> Case:
    """One graph of many; tensors and nodes get their case's number, from ``first`` on, before
    their names.

    Inputs that are fed the same array are one.
    """
    if len(cases) == 1 and not first:
        return cases[0]
    all_of = Case(Model("cases"), {})
    known: dict[Any, str] = {}
    for i, part in enumerate(cases, first):
        model = part.model
        names = {old: f"{i}.{old}" for old in model.tensors}
        for old, value in part.feeds.items():
            t = model.tensors[old]
            key = (value.ctypes.data, value.shape, value.strides, t.dtype, str(t.quantization))
            names[old] = known.setdefault(key, names[old])

        def name(old: str, names: dict[str, str] = names) -> str:
            return names[old] if old else ""

        for t in model.tensors.values():
            all_of.model.tensors.setdefault(
                name(t.name), Tensor(name(t.name), t.shape, t.dtype, t.data, t.quantization)
            )
        for n in model.nodes:
            ins, outs = list(map(name, n.inputs)), list(map(name, n.outputs))
            all_of.model.nodes.append(Node(f"{i}.{n.name}", n.type, ins, outs, dict(n.params)))
        all_of.model.outputs += map(name, model.outputs)
        all_of.feeds |= {name(k): v for k, v in part.feeds.items()}
    all_of.model.inputs = [*all_of.feeds]
    return all_of


def on_gpu(
    model: Model, feeds: Mapping[str, np.ndarray], **options: Any
) -> tuple[dict[str, np.ndarray], int]:
    """Its outputs, and how many kernels a run has; ``options`` are Session's."""
    with qnnrt.Session(model, "gpu", **options) as s:
        got = s.run(dict(feeds))
        steps = json.loads(s.graph.describe() or "")["steps"]
        # Those that run as one are started once.
        started = s.backend.library.gpu_counts(s.graph.handle)["kernels"]
        assert started == len({step["start"] for step in steps})
    return got, len(steps)


def launches(model: Model, **options: Any) -> int:
    """How many kernels a run of a model has."""
    return on_gpu(model, feeds_for(model), **options)[1]


def against_cpu(
    *what: Case | Model,
    feeds: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    terms: int = 1,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Run cases, or models with random inputs, on both backends and compare; the gpu's results.

    Integers and bools are equal; floats as near as `TOLERANCE` says, or ``rtol``. ``terms``: how
    many products a result is a sum of; more than one let it lie further off, measured by the
    largest result. ``atol``: instead of that. ``feeds``: of a single model. ``options``: Session's.
    """
    cases = [
        Case(w, dict(feeds or feeds_for(w, seed))) if isinstance(w, Model) else w for w in what
    ]
    assert feeds is None or len(cases) == 1
    results = {}
    for i in range(0, len(cases), _TOGETHER):
        whole = joined(cases[i : i + _TOGETHER], i)
        with qnnrt.Session(whole.model, "cpu", threads=1) as s:
            expected = s.run(whole.feeds)
        got, _ = on_gpu(whole.model, whole.feeds, **options)
        compare(got, expected, rtol=rtol, atol=atol, terms=terms, model=whole.model)
        results |= got
    return results


def compare(
    got: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    terms: int = 1,
    model: Model | None = None,
) -> None:
    """All outputs, as `against_cpu` says; an assertion that names the first that differs."""
    assert list(got) == list(expected)
    for name, wanted in expected.items():
        found = got[name]
        text = name
        if model is not None:
            ops = [n.type for n in model.nodes if name in n.outputs]
            text = f"{name} of {', '.join(ops)}"
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), text
        if wanted.dtype.name not in TOLERANCE:
            np.testing.assert_array_equal(found, wanted, text)
            continue
        near = TOLERANCE[wanted.dtype.name] if rtol is None else rtol
        wide = wanted.astype(np.float64)
        top = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
        scaled = near * terms**0.5 * top if terms > 1 else 1e-30
        np.testing.assert_allclose(
            found.astype(np.float64),
            wide,
            rtol=near,
            atol=scaled if atol is None else atol,
            err_msg=text,
        )
