"""The tables that the runtime gives as text."""

from __future__ import annotations

import json

from qnnrt import _core
from qnnrt._native.op_table import op_table
from support.outside import printed

ORDERS = (("op_coverage_json", "config_table"), ("config_table", "op_coverage_json"))


def test_each_table_is_itself_whichever_is_asked_for_first() -> None:
    for order in ORDERS:
        code = "from qnnrt import _core\n" + "\n".join(f"print(_core.{f}())" for f in order)
        decoder, text, found = json.JSONDecoder(), printed(code), {}
        for name in order:
            found[name], end = decoder.raw_decode(text)
            text = text[end:].lstrip()
        assert "inputs" in found["op_coverage_json"][0]
        assert "scope" in found["config_table"][0]


def test_one_op_is_as_it_is_in_the_table() -> None:
    for op in json.loads(_core.op_coverage_json()):
        text = _core.op_json(op["type"])
        assert text is not None
        assert json.loads(text) == op
    for unknown in ("", "conv2d", "Conv2d\0", "\ud800", "package::Conv2d"):
        assert _core.op_json(unknown) is None
        assert unknown not in op_table()
