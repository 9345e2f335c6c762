"""``run(feeds)``: arrays copied into the bound memory, results copied out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ..dtypes import is_number
from ..errors import CopyError
from ..support.guard import Guard
from .binding import BoundTensor, bring, foreign_device, same_memory, without_dimensions
from .stats import Counters

_FED: Final = "the array fed is not the bound memory"
_RETURNED: Final = "run(feeds) returns arrays of the caller's own"


def _converted(t: BoundTensor, array: np.ndarray) -> str:
    """How numbers of another type become what an input takes; nothing is rounded unasked."""
    if array.shape != t.shape or array.dtype == t.dtype or not is_number(array.dtype):
        return ""
    return f": np.asarray(values, {t.dtype.name!r}) converts them"


def check_named(feeds: object, inputs: Mapping[str, object]) -> None:
    if not isinstance(feeds, Mapping):
        first = next(iter(inputs), "x")
        raise TypeError(
            f"run takes arrays by the names of inputs, {{{first!r}: array}}, not a "
            f"{type(feeds).__name__}"
        )


class Feeds:
    """The inputs and outputs of a session, for runs on arrays of the caller's own."""

    def __init__(
        self,
        inputs: Mapping[str, BoundTensor],
        outputs: Mapping[str, BoundTensor],
        strict: bool,
        counters: Counters,
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._strict = strict
        self._counters = counters
        self._guard = Guard()

    def run(self, execute: Callable[[], object], feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Copy in, execute, copy out; see ``Session.run``."""
        check_named(feeds, self._inputs)
        copies = [pair for pair in map(self._fed, feeds.items()) if pair is not None]
        self._refuse_missing(feeds)
        self._refuse_results()
        # From the first copy in to the last copy out: another thread's feeds come before or after.
        with self._guard.lock:
            for t, array in copies:
                t._write(array)
                self._counters.copied(t.name, "in", t.nbytes, _FED)
            execute()
            if self._strict:
                return {name: t.array for name, t in self._outputs.items()}
            return {name: self._result(t) for name, t in self._outputs.items()}

    def _result(self, t: BoundTensor) -> np.ndarray:
        result = t._read()
        if t.nbytes:
            self._counters.copied(t.name, "out", t.nbytes, _RETURNED)
        return result

    def _fed(self, feed: tuple[str, Any]) -> tuple[BoundTensor, np.ndarray] | None:
        """What has to be copied into which tensor; None when it is the bound memory itself."""
        name, value = feed
        if name not in self._inputs:
            raise KeyError(f"no input {name!r}; there are {', '.join(map(repr, self._inputs))}")
        t = self._inputs[name]
        if (device := foreign_device(value)) is not None:
            raise ValueError(
                f"input {name!r}: a {type(value).__name__} lies on {device}, and feeds are the "
                f"host's: {bring(name)}"
            )
        array = without_dimensions(t, np.asarray(value))
        if array.shape != t.shape or array.dtype != t.dtype:
            raise ValueError(
                f"input {name!r} needs {t.dtype}{list(t.shape)}, not "
                f"{array.dtype}{list(array.shape)}{_converted(t, array)}"
            )
        if not t.nbytes:
            return None
        if not t._on_device and same_memory(array, t._memory()):
            return None
        if self._strict and t._on_device:
            raise CopyError(name, f"{_FED}: write into inputs[{name!r}].handle.map()")
        if self._strict:
            raise CopyError(name, f"{_FED}: write into inputs[{name!r}].array, or bind it")
        return t, array

    def _refuse_missing(self, feeds: Mapping[str, Any]) -> None:
        """Inputs that are left out keep what they have, which somebody must have given them."""
        missing = [n for n, t in self._inputs.items() if n not in feeds and not t._given]
        if missing:
            names = ", ".join(map(repr, missing))
            raise ValueError(
                f"{names} of the inputs {'was' if len(missing) == 1 else 'were'} never given: feed "
                "every input once, or write into its array, or bind it; run() without feeds runs "
                "on whatever is bound"
            )

    def _refuse_results(self) -> None:
        """``strict``: outputs that could only be returned as copies."""
        for t in self._outputs.values():
            if self._strict and t._on_device:
                raise CopyError(
                    t.name,
                    "its memory is the device's, which run(feeds) would copy: use run(), and "
                    f"outputs[{t.name!r}].handle.map()",
                )
