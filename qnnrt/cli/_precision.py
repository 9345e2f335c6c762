"""What another precision would bring a model: time, and how far its results would be."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..dtypes import is_float
from ..model import DynamicModel, Model
from ..session import Session
from ._common import AnyModel, shape_sessions


def faster_session(
    model: AnyModel, given: Mapping[str, Any], options: argparse.Namespace
) -> AbstractContextManager[Session | None]:
    """The model in the fastest precision of this processor; None where that is float32, where the
    user chose one, or where it was chosen when a context binary was made."""
    if (
        options.precision is not None
        or options.backend not in ("cpu", "htp")
        or not isinstance(model, (Model, DynamicModel))
    ):
        return nullcontext()
    session = Session(model, **{**given, "precision": "fastest"})
    try:
        if next(shape_sessions(session, options)).precision != "float32":
            return session
    except BaseException:
        session.close()
        raise
    session.close()
    return nullcontext()


def distance(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """Root mean square of the difference over that of the result, of the worst float output."""
    worst = 0.0
    for name, values in wanted.items():
        if not is_float(values.dtype) or values.size == 0:
            continue
        right = values.astype(np.float64)
        with np.errstate(all="ignore"):
            off = np.sqrt(np.mean((got[name] - right) ** 2) / np.mean(right**2))
        worst = max(worst, float(np.nan_to_num(off)))
    return worst
