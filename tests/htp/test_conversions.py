"""Which conversions are taken: every pair of types, asked of the simulator and of our backend."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import numpy as np
import pytest

from qnnrt import qnn
from qnnrt.errors import QnnError
from qnnrt.model import Quantization
from support.outside import printed
from support.vendor import vendor_library

pytestmark = pytest.mark.foreign

PLAIN = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
         "bool")  # fmt: skip
FIXED = ("uint8", "int8", "uint16", "int16", "int32")
#: Types, and whether a tensor of it has an encoding.
TYPES = [*((t, False) for t in PLAIN), *((t, True) for t in FIXED)]
OPS = ("Quantize", "Dequantize", "Convert", "Cast")


def taken(library: str, **device: int) -> set[tuple[str, str, str]]:
    """Op, from, to; the names of fixed-point types begin with q."""
    found = set()

    def tensor(graph: qnn.Graph, name: str, type: tuple[str, bool]) -> Any:
        q = Quantization(0.5, 0) if type[1] else None
        return graph.add_tensor(name, (2, 8), np.dtype(type[0]), quantization=q)

    with qnn.Backend.open(library, log_level="error", **device) as backend:
        for one, two in itertools.product(TYPES, TYPES):
            with backend.create_context() as context:
                graph = context.create_graph("g")
                x, y = tensor(graph, "x", one), tensor(graph, "y", two)
                for op in OPS:
                    with contextlib.suppress(QnnError):
                        backend.validate_op(op, [x], [y])
                        found.add((op, *("q" * fixed + dtype for dtype, fixed in (one, two))))
    return found


def test_what_the_simulator_converts_is_converted_here() -> None:
    # In a process of its own: the simulator keeps what devices were made with.
    asked = printed(
        "import json, os, sys\n"
        "from htp.test_conversions import taken\n"
        "found = taken(sys.argv[1], soc_model=69, htp_arch=79)\n"
        "print(json.dumps(sorted(found)), flush=True)\n"
        "os._exit(0)",
        vendor_library("libQnnHtp.so"),
    )
    theirs = {tuple(one) for one in json.loads(asked.splitlines()[-1])}
    ours = taken("htp")
    assert len(theirs) > 80
    assert theirs <= ours
    # To plain integers Dequantize goes on neither: that is Cast's, or Convert's to INT_32.
    whole = {t for t in PLAIN if not t.startswith("float")}
    for found in (theirs, ours):
        assert not {(op, to) for op, _, to in found if op in OPS[:2]} & set(
            itertools.product(OPS[:2], whole)
        )
