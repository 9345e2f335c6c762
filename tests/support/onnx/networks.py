"""The networks of the onnx package, as parameters of tests: the small ones, and the slow others."""

from __future__ import annotations

import pytest

from zoo.networks import NAMES, SMALL

EACH = [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in NAMES]
