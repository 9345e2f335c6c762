"""Real attributes on integers: exact in the integers' own type, where a detour through floats would
round large numbers and cut off what wraps around."""

from __future__ import annotations

import math

import numpy as np


def truncated_sum(amount: float, dtype: np.dtype) -> tuple[int, int | None]:
    """`amount` added to integers x, cut off towards zero: x + the first number (around the end of
    the type), and 1 more where x is below the second one, if there is one."""
    if not math.isfinite(amount):
        raise ValueError(f"{amount} cannot be added to {dtype.name}")
    step = math.floor(amount)
    turn: int | None = None if step == amount else -step  # below it the sum is negative
    ends = np.iinfo(dtype)
    if turn is not None and turn > ends.max:
        step, turn = step + 1, None
    if turn is not None and turn <= ends.min:
        turn = None
    bits = 8 * dtype.itemsize
    step %= 1 << bits
    return (step - (1 << bits) if step > ends.max else step), turn


def least_above(limit: float, dtype: np.dtype) -> int | None:
    """The least integer of a type that is greater than `limit`; None when there is none."""
    ends = np.iinfo(dtype)
    if math.isnan(limit) or limit >= ends.max:
        return None
    return ends.min if limit < ends.min else math.floor(limit) + 1


def greatest_below(limit: float, dtype: np.dtype) -> int | None:
    """The greatest integer of a type that is less than `limit`; None when there is none."""
    ends = np.iinfo(dtype)
    if math.isnan(limit) or limit <= ends.min:
        return None
    return ends.max if limit > ends.max else math.ceil(limit) - 1
