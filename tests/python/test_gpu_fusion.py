"""What kernels do to a result before they store it, and the widths of floats that they take."""

from __future__ import annotations

import numpy as np
import pytest
from opencl import gpu, opencl_is_up  # noqa: F401
from toy import F32

from qnnrt.gpu import ir
from qnnrt.gpu.ops import Refused
from qnnrt.gpu.ops.common import fused, reals

pytestmark = pytest.mark.foreign  # OpenCL drivers are


def value(name: str, dtype: type = np.float32) -> ir.Value:
    return ir.Value(name, 1, (2, 3), np.dtype(dtype), F32, "native")


def test_operations_are_done_in_their_order_on_operands_of_their_own() -> None:
    a, b = value("a"), value("b")
    posts = [ir.Post("v + p0", ((a, "i"),)), ir.Post("v * p0 - v", ((b, "i / 3"),))]
    got = fused(ir.Node("n", "Relu", [a], [b], {}, posts))
    assert got.args == (a, b)
    assert dict(got.defines) == {
        "POST_PARAMS": ", __global const REAL* post0, __global const REAL* post1",
        "POST(v, i)": "KERNEL(post)(v, i, post0, post1)",
    }
    first, second = got.before.index("v = v + p0;"), got.before.index("v = v * p0 - v;")
    assert first < second
    assert "LOAD(post1, i / 3)" in got.before


def test_floats_of_two_widths_in_one_kernel_are_refused_by_name() -> None:
    assert reals(value("a"), None, value("b")) == ()
    assert reals(value("a", np.float16)) == (("HALF", "1"),)
    with pytest.raises(Refused, match="'a' and 'b' are float32 and float16"):
        reals(value("a"), value("b", np.float16))
    with pytest.raises(Refused, match="'b' is int32"):
        reals(value("a"), value("b", np.int32))
