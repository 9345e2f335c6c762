"""The tables that the runtime gives as text."""

from __future__ import annotations

import json

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
