"""Fixed-point numbers for tests: what the integers stand for, in numpy; one node run on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qnnrt import _core
from qnnrt.model import Quantization
from support.one_node import run_op
from support.processor import processor_has


def integer_products() -> bool:
    """Whether oneDNN is here and adds products of bytes without an intermediate 16-bit sum."""
    there = processor_has("avx512_vnni") or processor_has("avx_vnni")
    return there and _core.kernel_library().startswith("oneDNN")


@dataclass(frozen=True)
class Fixed:
    """A fixed-point type: real = scale * (q + offset), one pair or one for each index of `axis`."""

    dtype: Any
    scale: Any = 1.0
    offset: Any = 0
    axis: int | None = None
    bitwidth: int | None = None

    @classmethod
    def covering(cls, dtype: Any, low: float, high: float) -> Fixed:
        """The type whose integers reach from about `low` to about `high`; 0 is one of them."""
        info = np.iinfo(dtype)
        low, high = min(low, 0.0), max(high, 0.0)
        scale = float(np.float32((high - low) / (info.max - info.min)))
        return cls(np.dtype(dtype), scale, round(low / scale) - info.min)

    @property
    def quantization(self) -> Quantization:
        return Quantization(self.scale, self.offset, self.axis, self.bitwidth)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer."""
        info = np.iinfo(self.dtype)
        if self.bitwidth is None:
            return info.min, info.max
        signed = info.min < 0
        span = 1 << self.bitwidth
        return (-span // 2, span // 2 - 1) if signed else (0, span - 1)

    def codes(self) -> np.ndarray:
        """Every integer of the type, ascending."""
        low, high = self.limits
        return np.arange(low, high + 1).astype(self.dtype)

    def random(self, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        low, high = self.limits
        return rng.integers(low, high, tuple(shape), np.int64, endpoint=True).astype(self.dtype)

    def _along(self, values: Any, dtype: Any, rank: int) -> np.ndarray:
        values = np.asarray(values, dtype)
        if self.axis is None:
            return values
        return values.reshape([-1 if d == self.axis else 1 for d in range(rank)])

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Rounded half to even in float32, saturated; NaN becomes real 0."""
        wide = np.float64 if np.dtype(self.dtype).itemsize == 4 else np.float32
        real = np.asarray(real, np.float32).astype(wide)
        scale = self._along(self.scale, np.float32, real.ndim).astype(wide)
        offset = self._along(self.offset, np.int64, real.ndim)
        low, high = self.limits
        with np.errstate(all="ignore"):
            x = real / scale
        x = np.where(np.isnan(x), wide(0), x)
        x = np.clip(x, (low + offset).astype(wide), (high + offset).astype(wide))
        return np.clip(np.rint(x).astype(np.int64) - offset, low, high).astype(self.dtype)

    def dequantize(self, codes: np.ndarray) -> np.ndarray:
        """As float32."""
        scale = self._along(self.scale, np.float32, codes.ndim)
        offset = self._along(self.offset, np.int32, codes.ndim).astype(np.float32)
        return np.asarray(scale * (codes.astype(np.float32) + offset))


#: One of each type, for tests to which it does not matter.
U8 = Fixed("uint8", 0.037, -117)
S8 = Fixed("int8", 0.0213, 12)
U16 = Fixed("uint16", 1.7e-4, -30011)
S16 = Fixed("int16", 3.3e-4, 0)
S32 = Fixed("int32", 2.5e-7, 0)
TYPES = (U8, S8, U16, S16)

# What one tensor of a node is: an array, or an array of integers and its type.
Value = np.ndarray | tuple[np.ndarray, Fixed] | None
Type = Any  # a Fixed, or anything that np.dtype takes


def _dtype(of: Type) -> np.dtype[Any]:
    return np.dtype(of.dtype if isinstance(of, Fixed) else of)


def run_fixed(
    op: str,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[tuple[int, ...], Type]],
    params: Mapping[str, Any] | None = None,
    *,
    then: Sequence[tuple[str, Mapping[str, Any], Type]] = (),
    **options: Any,
) -> list[np.ndarray]:
    """The outputs of one node.

    inputs: arrays; with a Fixed, integers that stand for real numbers. outputs: shape and type of
    each. then: op, params and type of the result of elementwise ops after output 0. options:
    static, kernels, threads of run_op.
    """
    encodings: dict[str, Any] = {}
    arrays: list[np.ndarray | None] = []
    for i, value in enumerate(inputs):
        if isinstance(value, tuple):
            encodings[f"in{i}"] = value[1].quantization
            value = value[0]
        arrays.append(value)
    named = [(f"out{i}", of) for i, (_, of) in enumerate(outputs)]
    named += [(f"then{i}", of) for i, (_, _, of) in enumerate(then)]
    encodings |= {name: of.quantization for name, of in named if isinstance(of, Fixed)}
    return run_op(
        op,
        arrays,
        [shape for shape, _ in outputs],
        params,
        dtype=[_dtype(of) for _, of in outputs],
        then=[(after, after_params) for after, after_params, _ in then],
        encodings=encodings,
        **options,
    )


def via_float(
    op: str,
    inputs: Sequence[Value],
    outputs: Sequence[tuple[tuple[int, ...], Type]],
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[np.ndarray]:
    """What run_fixed must give: the float op on the real numbers, its results quantized."""
    reals = [v[1].dequantize(v[0]) if isinstance(v, tuple) else v for v in inputs]
    types = [np.dtype(np.float32) if isinstance(of, Fixed) else _dtype(of) for _, of in outputs]
    results = run_op(op, reals, [shape for shape, _ in outputs], params, dtype=types, **options)
    return [
        of.quantize(result) if isinstance(of, Fixed) else result
        for result, (_, of) in zip(results, outputs, strict=True)
    ]


def within(got: np.ndarray, expected: np.ndarray, steps: int = 0) -> None:
    """Asserts that two arrays of integers are equal, or differ by at most `steps` anywhere."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if steps == 0:
        np.testing.assert_array_equal(got, expected)
        return
    apart = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    worst = np.unravel_index(int(apart.argmax()), apart.shape) if apart.size else ()
    assert apart.size == 0 or apart.max() <= steps, (
        f"{apart.max()} steps apart at {worst}: {got[worst]}, expected {expected[worst]}; "
        f"{np.count_nonzero(apart > steps)} of {apart.size} elements further than {steps}"
    )
