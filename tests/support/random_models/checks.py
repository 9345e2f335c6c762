"""What is compared, of one model: each check gives what is wrong, in lines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import qnnrt
from qnnrt.errors import GraphError, QnnError, UnsupportedOpError
from qnnrt.model import Model

from .compare import Truth, difference, truth

Outputs = Mapping[str, np.ndarray]


class Refused(Exception):
    """The backend does not take the model: nothing to compare."""


@dataclass
class Case:
    """A model with what it is fed; results that several checks need are computed once."""

    model: Model
    feeds: dict[str, np.ndarray]
    seed: int = 0

    @cached_property
    def plain(self) -> Outputs:
        """On one thread, from memory handles."""
        with session(self, threads=1) as s:
            return run(s, self)

    @cached_property
    def truth(self) -> Truth:
        return truth(self.model, self.feeds, seed=self.seed)


@contextmanager
def session(case: Case, backend: str = "cpu", **options: Any) -> Iterator[qnnrt.Session]:
    with qnnrt.Session(case.model, backend, **options) as s:
        yield s


def run(s: qnnrt.Session, case: Case) -> Outputs:
    if any(n.type == "Buffer" for n in case.model.nodes):
        s.reset_state()
    return {n: np.array(y) for n, y in s.run(case.feeds).items()}


def same(case: Case, got: Outputs) -> list[str]:
    """To the bit what the plain session gave."""
    return [
        difference(n, got[n], case.plain[n]) or f"{n}: other NaN or other zeros"
        for n in case.model.outputs
        if got[n].tobytes() != case.plain[n].tobytes()
    ]


def true(case: Case, got: Outputs, least: float = 0.0) -> list[str]:
    """Near enough to the evaluation in float64; what is not is looked at again, with more noise:
    a decision that goes the other way by a rounding is not in every sample."""
    known = truth(case.model, case.feeds, seed=case.seed, least=least) if least else case.truth
    if not _far(case, got, known):
        return []
    known = truth(case.model, case.feeds, samples=80, seed=case.seed + 1, least=least)
    return _far(case, got, known)


def _far(case: Case, got: Outputs, known: Truth) -> list[str]:
    found = (difference(n, got[n], known.values[n], known.allowed[n]) for n in case.model.outputs)
    return [line for line in found if line is not None]


# ---- checks


def float64(case: Case) -> list[str]:
    return true(case, case.plain)


def portable(case: Case) -> list[str]:
    with session(case, threads=1, options={"kernels": "portable"}) as s:
        return true(case, run(s, case))


def bfloat16(case: Case) -> list[str]:
    """Floats between nodes in 16 bits: operands and results of each node rounded to 8 of them."""
    with session(case, threads=1, precision="bfloat16") as s:
        return true(case, run(s, case), least=2.0**-9)


def exposed(case: Case) -> list[str]:
    """Every tensor is an output: nothing is merged, nothing shares memory."""
    model = replace(case.model, outputs=[n for node in case.model.nodes for n in node.outputs if n])
    if len(model.inputs) + len(model.outputs) > 64:
        raise Refused("too many outputs")
    other = Case(model, case.feeds, case.seed)
    return true(other, other.plain)


def threads(case: Case) -> list[str]:
    with session(case, threads=2) as s:
        return same(case, run(s, case))


def raw(case: Case) -> list[str]:
    with session(case, threads=1, io="raw") as s:
        return same(case, run(s, case))


def asynchronous(case: Case) -> list[str]:
    with session(case, threads=1) as s:
        for name, value in case.feeds.items():
            s.inputs[name].array[...] = value
        s.run_async().result(120)
        return same(case, {n: np.array(t.array) for n, t in s.outputs.items()})


def again(case: Case) -> list[str]:
    """After a run on other values nothing of it is left."""
    with session(case, threads=1) as s:
        with suppress(GraphError):  # coordinates in another order may be outside
            s.run({n: np.roll(x, 1) for n, x in case.feeds.items()})
        return same(case, run(s, case))


def binary(case: Case) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bin"
        with session(case, threads=1) as s:
            s.save_binary(path)
        with qnnrt.Session(qnnrt.load(path)) as s:
            return same(case, run(s, case))


def htp(case: Case) -> list[str]:
    with _taken(case, "htp", threads=1) as s:
        return same(case, run(s, case))


def lpai(case: Case) -> list[str]:
    with _taken(case, "lpai") as s:
        return same(case, run(s, case))


def gpu(case: Case) -> list[str]:
    with _taken(case, "gpu") as s:
        # Drivers' functions round less well than the cpu's.
        return true(case, run(s, case), least=1e-6)


@contextmanager
def _taken(case: Case, backend: str, **options: Any) -> Iterator[qnnrt.Session]:
    try:
        s = qnnrt.Session(case.model, backend, **options)
    except (UnsupportedOpError, QnnError) as e:
        raise Refused(f"{backend}: {e}") from e
    with s:
        yield s


CHECKS: dict[str, Callable[[Case], list[str]]] = {
    "float64": float64, "portable": portable, "bfloat16": bfloat16, "exposed": exposed,
    "threads": threads, "raw": raw, "async": asynchronous, "again": again,
    "binary": binary, "htp": htp, "lpai": lpai, "gpu": gpu,
}  # fmt: skip
#: Those of a run that names none.
USUAL = tuple(name for name in CHECKS if name != "gpu")


def check(case: Case, name: str) -> list[str]:
    """What is wrong; an exception of a model that was accepted is wrong, too."""
    try:
        return CHECKS[name](case)
    except Refused:
        raise
    except Exception as e:
        return [f"{type(e).__name__}: {e}"]
