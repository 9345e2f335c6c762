"""A node against the schema of its operator: everything that does not need a shape.

A schema of ``onnx`` is static data: which inputs, outputs, attributes and types an operator has. It
is read once (`spec_of`) and kept in a form that is quick to compare with: from the table that
`schemas` is, or where that has none, from the installed ``onnx``, which builds all its schemas when
it is asked for one. Nothing of a file reaches onnx's native code except the name, version and
domain that a schema is asked for, and these are checked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np
import onnx

from . import schemas
from .nodes import OnnxNode
from .types import TypeOf
from .values import Value
from .written import Written

T = TypeVar("T")

_Attribute = onnx.AttributeProto

#: Kind of an attribute -> the field that its value is in.
_FIELDS = {
    _Attribute.FLOAT: "f",
    _Attribute.INT: "i",
    _Attribute.STRING: "s",
    _Attribute.TENSOR: "t",
    _Attribute.GRAPH: "g",
    _Attribute.SPARSE_TENSOR: "sparse_tensor",
    _Attribute.TYPE_PROTO: "tp",
    _Attribute.FLOATS: "floats",
    _Attribute.INTS: "ints",
    _Attribute.STRINGS: "strings",
    _Attribute.TENSORS: "tensors",
    _Attribute.GRAPHS: "graphs",
    _Attribute.SPARSE_TENSORS: "sparse_tensors",
    _Attribute.TYPE_PROTOS: "type_protos",
}
_LISTS = {name for name in _FIELDS.values() if name.endswith("s") and name != "s"}

#: Attributes whose integers are data, or may say "to the very end": any 64 bits. Everything else
#: counts dimensions, elements or enumerators, which fit 32.
_WIDE = {
    ("Constant", "value_int"),
    ("Constant", "value_ints"),
    ("Shape", "start"),
    ("Shape", "end"),
    ("Slice", "starts"),
    ("Slice", "ends"),
    ("TfIdfVectorizer", "pool_int64s"),
    ("Imputer", "imputed_value_int64s"),
    ("Imputer", "replaced_value_int64"),
    ("LabelEncoder", "default_int64"),
    ("LabelEncoder", "keys_int64s"),
    ("LabelEncoder", "values_int64s"),
    ("LinearClassifier", "classlabels_ints"),
    ("OneHotEncoder", "cats_int64s"),
    ("SVMClassifier", "classlabels_ints"),
    ("TreeEnsembleClassifier", "classlabels_int64s"),
}
#: Operators whose attributes are their weights and tables.
_DATA = {
    "Constant", "LabelEncoder", "LinearClassifier", "LinearRegressor", "SVMClassifier",
    "SVMRegressor", "TfIdfVectorizer", "TreeEnsemble", "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
}  # fmt: skip
#: Attributes that say yes or no.
_FLAGS = {
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "exclusive",
    "fmod", "input_forget", "keepdims", "largest", "layout", "linear_before_reset",
    "noop_with_empty_axes", "reverse", "saturate", "select_last_index", "sorted", "spatial",
    "storage_order", "training_mode", "transA", "transB", "upper",
}  # fmt: skip

_INT32 = range(-(2**31), 2**31)

#: No attribute of an operator has more entries, unless they are data.
_LONGEST = 4096

#: No schema has a name or domain that is longer.
_LONGEST_NAME = 256

#: How many kinds of inputs are remembered for an operator.
_KINDS = 256

_STRING = np.dtype(object)

#: A schema's name of a type -> the type.
TYPES: dict[str, np.dtype] = {
    f"tensor({name.lower()})": np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    for name, number in onnx.TensorProto.DataType.items()
    if number != onnx.TensorProto.UNDEFINED
}
#: ONNX's number of an element type -> the type.
ELEMENT_TYPES: dict[int, np.dtype] = {
    number: TYPES[f"tensor({name.lower()})"]
    for name, number in onnx.TensorProto.DataType.items()
    if number != onnx.TensorProto.UNDEFINED
}


@dataclass(frozen=True, slots=True)
class Formal:
    """One input or output of a schema."""

    name: str
    symbol: str  # inputs of one symbol have one type; "" where each may have its own
    types: frozenset[np.dtype]
    required: bool


@dataclass(frozen=True, slots=True)
class Spec:
    """What is needed of a schema."""

    op: str
    since: int
    function: bool  # the operator is defined by one of others
    formals: tuple[Formal, ...]
    results: tuple[Formal, ...]
    variadic: bool  # the last input may be repeated
    inputs: tuple[int, int]  # at least, at most
    outputs: tuple[int, int]
    attributes: dict[str, int]  # their types
    required: tuple[str, ...]  # of these
    defaults: dict[str, object]
    #: Inputs and outputs that were found to fit: networks have the same few kinds over and over.
    fitting: set[tuple[object, ...]] = field(default_factory=set, compare=False)

    @property
    def tensors(self) -> bool:
        """Are all inputs and outputs tensors, or can they be?"""
        return all(formal.types for formal in (*self.formals, *self.results))

    def formal(self, index: int) -> Formal:
        return self.formals[min(index, len(self.formals) - 1)]


#: The schemas that were asked for. There are some hundred; a version can be any number.
_MOST_SPECS = 4096
_SPECS: dict[tuple[str, int, str], Spec] = {}


def spec_of(op: str, version: int, domain: str) -> Spec | None:
    """The schema's contents; None when there is no such operator (or no longer)."""
    key = op, version, domain
    known = _SPECS.get(key)
    if known is not None:
        return known
    for text in (op, domain):
        if len(text) > _LONGEST_NAME or not text.isascii() or not text.isprintable():
            return None
    found = _spec(op, version, domain) if 0 < version < 2**31 else None
    if found is not None and len(_SPECS) < _MOST_SPECS:
        _SPECS[key] = found
    return found


def newest(op: str) -> Spec | None:
    """The operator of the default domain as the newest operator set has it."""
    return spec_of(op, onnx.defs.onnx_opset_version(), "")


def _spec(op: str, version: int, domain: str) -> Spec | None:
    if domain == "" and version <= min(schemas.newest(), onnx.defs.onnx_opset_version()):
        row = schemas.find(op, version)
        if row is not None:
            return _spec_of_row(op, row)
    return spec_of_installed(op, version, domain)


def _spec_of_row(op: str, row: schemas.Row) -> Spec:
    def formals(parameters: Sequence[schemas.Formal]) -> tuple[Formal, ...]:
        return tuple(
            Formal(name, symbol, _types(schemas.types(types)), required)
            for name, symbol, types, required in parameters
        )

    return Spec(
        op,
        row.since,
        row.function,
        formals(row.inputs),
        formals(row.outputs),
        row.variadic,
        (row.input_count[0], row.input_count[1]),
        (row.output_count[0], row.output_count[1]),
        {name: kind for name, (kind, _, _) in row.attributes.items()},
        tuple(name for name, (_, required, _) in row.attributes.items() if required),
        {
            name: schemas.value_of(kind, default)
            for name, (kind, _, default) in row.attributes.items()
            if default is not None
        },
    )


@cache
def _types(names: str) -> frozenset[np.dtype]:
    keys = (f"tensor({name})" for name in names.split())
    return frozenset(TYPES[key] for key in keys if key in TYPES)


def spec_of_installed(op: str, version: int, domain: str) -> Spec | None:
    """The schema's contents as the installed ``onnx`` has them."""
    try:
        schema: Any = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None
    # One that a later operator set has put right (GroupNormalization of 18) is in files.
    if schema.deprecated and onnx.defs.get_schema(op, domain).deprecated:
        return None
    option = onnx.defs.OpSchema.FormalParameterOption

    def formals(parameters: Sequence[Any]) -> tuple[Formal, ...]:
        return tuple(
            Formal(
                p.name,
                p.type_str if p.is_homogeneous or p.option != option.Variadic else "",
                frozenset(TYPES[t] for t in p.types if t in TYPES),
                p.option == option.Single,
            )
            for p in parameters
        )

    defaults = {
        name: onnx.helper.get_attribute_value(a.default_value)
        for name, a in schema.attributes.items()
        if a.default_value.type
    }
    return Spec(
        op,
        schema.since_version,
        schema.has_function or schema.has_context_dependent_function,
        formals(schema.inputs),
        formals(schema.outputs),
        bool(schema.inputs) and schema.inputs[-1].option == option.Variadic,
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        {name: _number(a.type) for name, a in sorted(schema.attributes.items())},
        tuple(name for name, a in sorted(schema.attributes.items()) if a.required),
        defaults,
    )


def _number(kind: Any) -> int:
    return int(kind.value)


def attributes_of(node: Written) -> dict[str, object]:
    """Name -> value of a node's attributes, whatever its operator. Raises `ValueError`."""
    said = node.said
    if said is not None and said.values is not None:  # lists are the node's own
        return {k: v if type(v) is not list else v.copy() for k, v in said.values.items()}
    found: dict[str, object] = {}
    for attribute, name in zip(node.attribute, node.names, strict=True):
        if not name:
            raise ValueError("an attribute has no name")
        if name in found:
            raise ValueError(f"it has the attribute {_short(name)} twice")
        if attribute.ref_attr_name:
            raise ValueError(f"attribute {_short(name)} refers to one of a function it is not in")
        field = _FIELDS.get(attribute.type)
        if field is None:
            raise ValueError(f"attribute {_short(name)} has no type, or an unknown one")
        value = getattr(attribute, field)
        if field in _LISTS:
            value = list(value)
        elif field not in ("f", "i", "s") and not attribute.HasField(field):
            # Numbers and texts that are 0 or empty may be left out of a file (proto3).
            kind = _Attribute.AttributeType.Name(attribute.type)
            raise ValueError(f"attribute {_short(name)} says that it is {kind} and has none")
        found[name] = value
    if said is not None:
        said.values = {k: v if type(v) is not list else v.copy() for k, v in found.items()}
    return found


def check(spec: Spec, node: OnnxNode) -> None:
    """Raises `ValueError` that says what the operator takes and what came."""
    outputs = len(_present(node.outputs))
    kind = (outputs, *[None if v is None else v.dtype for v in node.inputs])
    if kind not in spec.fitting:
        _check_count("output", outputs, spec.outputs)
        given = _present(node.inputs)
        _check_count("input", len(given), spec.inputs)
        _check_inputs(spec, given)
        if len(spec.fitting) < _KINDS:
            spec.fitting.add(kind)
    check_attributes(spec, node)


def check_attributes(spec: Spec, node: OnnxNode) -> None:
    """The part of `check` that holds for inputs of every kind."""
    attrs = node.attrs
    # In the order of the file, as `attributes_of` gives them.
    for kind, name in zip(node.written.kinds, attrs, strict=True):
        known = spec.attributes.get(name)
        if known is None:
            allowed = ", ".join(sorted(spec.attributes)) or "none"
            raise ValueError(
                f"it has the attribute {_short(name)}; those of {spec.op} of opset {spec.since} "
                f"are: {allowed}"
            )
        if kind != known:
            kinds = _Attribute.AttributeType
            raise ValueError(
                f"attribute {name!r} is {kinds.Name(kind)}; it has to be {kinds.Name(known)}"
            )
        _check_value(spec.op, name, attrs[name])
    for name in spec.required:
        if name not in attrs:
            raise ValueError(f"the attribute {name!r} is missing")


def _check_value(op: str, name: str, value: object) -> None:
    """Text is text, integers that count something are in range, lists have an end."""
    if type(value) is float or (type(value) is int and value in _INT32 and name not in _FLAGS):
        return
    if (
        type(value) is list
        and 0 < len(value) <= _LONGEST
        and type(value[0]) is int  # and so are the others
        and name not in _FLAGS
        and min(value) in _INT32
        and max(value) in _INT32
    ):
        return
    entries: Sequence[object] = value if isinstance(value, list) else (value,)
    wide = (op, name) in _WIDE
    if len(entries) > _LONGEST and op not in _DATA and _listed(entries):
        raise ValueError(f"attribute {name!r} has {len(entries)} entries; {_LONGEST} are the most")
    for entry in entries:
        if isinstance(entry, int) and not wide and entry not in _INT32:
            raise ValueError(f"attribute {name!r} holds {entry}, which does not fit 32 bits")
        if name in _FLAGS and entry not in (0, 1):
            raise ValueError(f"attribute {name!r} is {entry!r}; it has to be 0 or 1")
        if isinstance(entry, bytes) and op != "Constant":
            try:
                entry.decode()
            except UnicodeDecodeError:
                raise ValueError(f"attribute {name!r} is not UTF-8 text: {entry[:40]!r}") from None


def _listed(entries: Sequence[object]) -> bool:
    return isinstance(entries[0], int | float)


def check_results(spec: Spec, types: Sequence[TypeOf]) -> None:
    """The inferred types have to be ones that the operator gives."""
    for index, found in enumerate(types):
        formal = spec.results[min(index, len(spec.results) - 1)]
        if found is not None and found[1] not in formal.types:
            raise ValueError(
                f"output {index} ({formal.name!r}) would be {_name(found[1])}; {spec.op} of opset "
                f"{spec.since} gives {_names(formal)}"
            )


def _names(formal: Formal) -> str:
    return ", ".join(sorted(map(_name, formal.types))) or "no tensor"


def _present(given: list[T]) -> list[T]:
    """Without what is left out at the end."""
    count = len(given)
    while count and not given[count - 1]:
        count -= 1
    return given if count == len(given) else given[:count]


def _check_count(what: str, count: int, allowed: tuple[int, int]) -> None:
    least, most = allowed
    if least <= count <= most:
        return
    if what == "output" and count < least:
        return  # nobody reads the others
    wanted = f"{least}" if least == most else f"{least} to {most}"
    if count < least and most > 2**20:
        wanted = f"{least} or more"
    raise ValueError(f"it has {count} {what}s; it has to have {wanted}")


def _check_inputs(spec: Spec, inputs: Sequence[Value | None]) -> None:
    symbols: dict[str, tuple[int, np.dtype]] = {}
    for index, value in enumerate(inputs):
        formal = spec.formal(index)
        if value is None:
            if formal.required or (spec.variadic and index >= len(spec.formals) - 1):
                raise ValueError(f"input {index} ({formal.name!r}) is missing")
            continue
        dtype = value.dtype if value.dtype.kind not in "SU" else _STRING
        if dtype not in formal.types:
            raise ValueError(
                f"input {index} ({formal.name!r}) is {_name(dtype)}; {spec.op} of opset "
                f"{spec.since} takes {_names(formal)}"
            )
        if not formal.symbol:
            continue
        first = symbols.setdefault(formal.symbol, (index, dtype))
        if first[1] != dtype:
            raise ValueError(
                f"input {index} ({formal.name!r}) is {_name(dtype)} and input {first[0]} "
                f"{_name(first[1])}; they have to have one type"
            )


def _name(dtype: np.dtype) -> str:
    return "string" if dtype == _STRING else dtype.name


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
