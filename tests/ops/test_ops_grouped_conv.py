"""Convolutions in groups of a few channels, with every set of instructions and in 16 bits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support import reference
from support.one_node import KERNELS, pairs, run_op, u32
from support.outside import PATHS, printed

#: Channels of a group, groups, and outputs for each channel (1 if not said): whole vectors of 4, 8
#: and 16, parts of one, less than one.
GROUPS = [
    (2, 2), (2, 9), (2, 32), (4, 2), (4, 5), (4, 32), (8, 2), (8, 3), (8, 55), (16, 2), (16, 3),
    (3, 8), (12, 4), (24, 2), (32, 2), (8, 4, 2), (4, 13, 3), (32, 3, 2), (40, 5), (2, 21, 4),
]  # fmt: skip
#: By the type of what goes in and out, of the largest value.
TOLERANCES = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


def grouped_case(
    group: int, groups: int, outputs: int = 1
) -> tuple[list[np.ndarray], dict[str, Any]]:
    r = np.random.default_rng(100 * group + groups)
    channels = group * groups
    kernel = r.integers(1, 4, 2)
    stride, dilation = r.integers(1, 3, 2), r.integers(1, 3, 2)
    before, after = r.integers(0, 3, 2), r.integers(0, 3, 2)
    size = dilation * (kernel - 1) + 1 + r.integers(0, 22, 2)
    x = r.standard_normal((2, *size, channels), np.float32)
    w = r.standard_normal((*kernel, group, channels * outputs), np.float32)
    bias = r.standard_normal(channels * outputs).astype(np.float32)
    params = {
        "stride": u32(*stride), "dilation": u32(*dilation), "pad_amount": pairs(before, after),
        "group": groups,
    }  # fmt: skip
    return [x, w] if groups % 3 == 2 else [x, w, bias], params


def stored(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def worst(kernels: str) -> dict[str, float]:
    """Of each case the largest error, of the largest value."""
    found = {}
    for case in GROUPS:
        inputs, params = grouped_case(*case)
        for name in TOLERANCES:
            given = [x.astype(stored(name)) for x in inputs]
            wide = [x.astype(np.float64) for x in given]
            wanted = np.maximum(reference.of("Conv2d", wide, params), 0)
            for static in ((1, 2), ()):
                (got,) = run_op(
                    "Conv2d", given, [wanted.shape], params, static=static, kernels=kernels,
                    threads=2, then=[("Relu", {})],
                )  # fmt: skip
                error = np.abs(got.astype(np.float64) - wanted).max() / wanted.max()
                found[f"{name} {case} {'static' if static else ''}"] = float(error)
    return found


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512", None])
def test_groups_of_any_width_match_their_definition(isa: str | None, kernels: str) -> None:
    """Without a name, with whatever the processor has."""
    code = "import json\nfrom ops import test_ops_grouped_conv as t\n"
    sets = {"PYTHONPATH": PATHS} | ({} if isa is None else {"QNNRT_ISA": isa})
    found = json.loads(printed(f"{code}print(json.dumps(t.worst({kernels!r})))", **sets))
    assert len(found) == len(GROUPS) * len(TOLERANCES) * 2
    wrong = {k: error for k, error in found.items() if error > TOLERANCES[k.split()[0]]}
    assert wrong == {}
