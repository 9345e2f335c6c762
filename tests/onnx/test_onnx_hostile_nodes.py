"""Nodes that their operators do not allow: one error that names the node, whatever is in them.

They are loaded in a process of its own: an import that hands them to native code may end it.
"""

from __future__ import annotations

import pytest

from support.onnx import hostile

NAMES = sorted(hostile.cases())


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    return hostile.outcomes(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_node_is_one_error_that_names_it(
    name: str, outcomes: dict[str, tuple[str, str]]
) -> None:
    kind, text = outcomes[name]
    assert kind == "ModelError", f"{kind or 'loaded'}: {text}"
    assert "'bad'" in text
    assert len(text) < 900
    assert not any(raw in text for raw in _RAW), text


#: What the text of an exception of Python or numpy would say.
_RAW = ("Error", "NoneType", "unpack", "out of bounds", "subscript", "object", "Python int")
