"""Why an operator is not mapped, and what to do where something can be done."""

from __future__ import annotations

from . import control_flow, variables
from .native import TABLE

CONTROL = "control flow: a QNN graph runs every operation once, in order"
_RANDOM = "random numbers: a QNN graph gives the same outputs for the same inputs"
_DATA = "the shape of its result depends on the data; a QNN graph has fixed shapes"
_TABLES = "tables of strings or keys are outside QNN's tensors"
_BITS = "QNN has no operations that move bits"
_NONE = "no QNN operation corresponds to it yet"

REASONS: dict[str, str] = {
    **dict.fromkeys(("STABLEHLO_WHILE", "STABLEHLO_CASE"), CONTROL),
    **dict.fromkeys(
        ("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL",
         "STABLEHLO_RNG_BIT_GENERATOR"),
        _RANDOM,
    ),
    **dict.fromkeys(("UNIQUE", "WHERE"), _DATA),
    **dict.fromkeys(
        ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "HASHTABLE_LOOKUP",
         "LSH_PROJECTION", "SKIP_GRAM", "EMBEDDING_LOOKUP_SPARSE", "CONCAT_EMBEDDINGS"),
        _TABLES,
    ),
    **dict.fromkeys(("BITCAST", "RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT"), _BITS),
    "DELEGATE": "it stands for a part that a delegate had taken; load the model as converted",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "the file names the placeholder itself as an operator",
}  # fmt: skip


def reason_for(op: str) -> str | None:
    """None when the operator is mapped."""
    if op in TABLE or op in control_flow.TABLE or op in variables.TABLE:
        return None
    if op == "CUSTOM":
        return "custom operators have kernels of their own, which a .tflite file does not hold"
    if op in REASONS:
        return REASONS[op]
    if op.startswith("BUILTIN_"):
        return "a builtin operator that is newer than the installed tflite package"
    if op.startswith("STABLEHLO_"):
        return "StableHLO operators are not mapped; convert the model to TFLite's own operators"
    return _NONE
