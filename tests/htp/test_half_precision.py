"""Half precision on our htp backend beside the vendor's simulator: docs/htp-half-precision.md."""

from __future__ import annotations

import pytest

from support.htp import half

pytestmark = pytest.mark.foreign


@pytest.mark.slow
def test_every_op_is_as_near_to_the_simulator_as_the_page_says() -> None:
    found = half.sweep()
    assert not half.worse(found, half.PAGE.read_text())
    # Inputs in half precision, one rounding: what the float kernels' own errors leave of that.
    assert {label: d.ours for label, d in found.items() if d.ours > 1} == {}
