"""Branches, and loops whose number of turns is known when a file is loaded: their bodies, as often
as they are run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx

from ..guard import shortened
from .counts import Number, along, axes_of, more_rows, times
from .functions import defined, needed
from .nodes import TARGETS, OnnxNode, Unsupported, axis_of
from .order import in_order
from .patterns import simplify
from .rows import either_rows
from .scope import CONTROL, Control, Scope, Things
from .values import Items, Thing, Value, constant
from .written import Written, written

Opsets = dict[str, int]

#: A loop that the data can end earlier is unrolled up to so many turns.
_MOST_MASKED = 1000


def controls(*op_types: str, to: str) -> Callable[[Control], Control]:
    """Register the rule of ONNX `op_types`; `to` says for the documentation what they become."""

    def register(rule: Control) -> Control:
        CONTROL.register(op_types, rule)
        TARGETS.update(dict.fromkeys(op_types, to))
        return rule

    return register


class Body:
    """A graph in an attribute of a node."""

    def __init__(self, g: Scope, node: OnnxNode, attribute: str, opsets: Opsets) -> None:
        graph = node.attrs.get(attribute)
        if not isinstance(graph, onnx.GraphProto):
            raise ValueError(f"it has no {attribute}")
        self._g, self._graph, self._opsets = g, graph, opsets
        self.inputs = [i.name for i in graph.input]
        self.outputs = [o.name for o in graph.output]
        self._nodes = in_order(written(graph.node))
        self._names = defined(graph, self._nodes)
        self._needed: dict[tuple[str, ...], list[Written]] = {}
        self._constants: dict[str, Value] = {}

    @staticmethod
    def of(g: Scope, node: OnnxNode, attribute: str, opsets: Opsets) -> Body:
        """The same one each time that a node is run, in the turns of a loop around it."""
        bodies = node.written.bodies
        if attribute not in bodies:
            bodies[attribute] = Body(g, node, attribute, opsets)
        found: Body = bodies[attribute]
        return found

    def declared(self, index: int) -> onnx.TypeProto.Tensor:
        """What the graph says of the type of an output."""
        found: onnx.TypeProto.Tensor = self._graph.output[index].type.tensor_type
        return found

    def tells(self, index: int) -> bool:
        """Whether it says all of that type."""
        kind = self.declared(index)
        known = bool(kind.elem_type) and kind.HasField("shape")
        return known and all(d.dim_value > 0 for d in kind.shape.dim)

    def run(self, given: Sequence[Thing | None], wanted: Sequence[str]) -> Things:
        """Its outputs `wanted`, of inputs `given`."""
        g, key = self._g, tuple(wanted)
        scope = g.b.scope
        with g.budget.inside(g.budget.node), g.inside(self._names):
            for name, thing in zip(self.inputs, given, strict=True):
                g.keep(name, thing)
            first = key not in self._needed
            if first:
                self._needed[key] = [node for _, node in needed(self._nodes, wanted)]
                g.add_initializers(self._graph)
            g.env.update(self._constants)
            g.nodes(simplify(self._needed[key], g.scalar), self._opsets)
            if first:
                self._keep_constants(key)
            g.b.scope = scope
            return g.results(list(wanted))

    def _keep_constants(self, key: tuple[str, ...]) -> None:
        """One tensor for all runs: weights may lie in a body."""
        g, others = self._g, []
        kept = {t.name for t in self._graph.initializer}
        kept |= {s.values.name for s in self._graph.sparse_initializer}
        for node in self._needed[key]:
            if node.op_type == "Constant":
                kept.update(node.output)
            else:
                others.append(node)
        self._needed[key] = others
        self._constants |= {name: g.env[name] for name in kept if name in g.env}


def _where(g: Scope, condition: Value, a: Thing | None, b: Thing | None) -> Value:
    """One of two results. Both are computed."""
    if not isinstance(a, Value) or not isinstance(b, Value):
        raise Unsupported("a condition that depends on the data decides about a sequence")
    condition = g.b.reshape(condition, ())
    if a.count is not None or b.count is not None or a.shape != b.shape:
        found = either_rows(g, condition, a, b)
        if found is not None:
            return found
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise Unsupported(
            f"a condition that depends on the data decides between {_type(a)} and {_type(b)}"
        )
    return g.emitted("Where", [condition, a, b])


def _type(x: Value) -> str:
    return f"{x.dtype.name}{shortened(str(list(x.shape)))}"


@controls("If", to="the branch taken, or both and ElementWiseSelect")
def _if(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    condition = node.input(0)
    count = len(node.outputs)

    def branch(attribute: str) -> Things:
        body = Body.of(g, node, attribute, opsets)
        if len(body.outputs) < count:
            raise ValueError(f"its {attribute} has {len(body.outputs)} outputs, not {count}")
        names = body.outputs[:count]
        wanted = [n for n, out in zip(names, node.outputs, strict=True) if out]
        found = dict(zip(wanted, body.run([], wanted), strict=True))
        return [
            found.get(name) if out else None for name, out in zip(names, node.outputs, strict=True)
        ]

    if condition.is_const:
        return branch("then_branch" if condition.const.all() else "else_branch")
    if math.prod(condition.shape) != 1 or condition.count is not None:
        raise ValueError(f"its condition has the shape {list(condition.shape)}")
    with g.only_if(condition, True):
        then = branch("then_branch")
    with g.only_if(condition, False):
        otherwise = branch("else_branch")
    pairs = zip(then, otherwise, node.outputs, strict=True)
    return [_where(g, condition, a, b) if out else None for a, b, out in pairs]


@controls("Loop", to="its body for each turn")
def _loop(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    last, number = _trips(g, node)
    going = node.optional(1)
    state = [g.thing(name) for name in node.written.input[2:]]
    body = Body.of(g, node, "body", opsets)
    count = len(state)
    if len(body.inputs) != 2 + count or len(body.outputs) < max(1 + count, len(node.outputs) + 1):
        raise ValueError(
            f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs for {count} "
            f"values that it carries and {len(node.outputs)} results"
        )
    used = [i for i in range(count, len(node.outputs)) if node.outputs[i]]
    names = [*body.outputs[: 1 + count], *(body.outputs[1 + i] for i in used)]
    rows: list[Things] = []
    active: Value | None = None  # where the data can end the loop: has it not yet?
    if going is not None and not going.is_const:
        active, going = going, None
        number = None if number is None else g.b.reshape(number, ())
    ran: list[Value] = []  # which turns are, where the data decide it
    longer: list[list[int | None]] = []  # by how much each of those makes its sequences longer
    turn = 0
    while (going is None or going.const.all()) and (last is None or turn < last):
        if (active or number) is not None and (last is None or last > _MOST_MASKED):
            raise Unsupported("the data decide how often it is run")
        g.budget.step(node.written)
        start = [constant(np.array(turn, np.int64)), constant(np.array(True))]
        now = _and(g, active, number, turn)
        if now is None:
            keep, *found = body.run([*start, *state], names)
            state = found[:count]
        else:
            with g.only_if(now, True):
                keep, *found = body.run([*start, *state], names)
            grown = [_grown(a, b) for a, b in zip(found[:count], state, strict=True)]
            state = [
                _where(g, now, a, b) if more is None else a
                for a, b, more in zip(found[:count], state, grown, strict=True)
            ]
            longer.append(grown)
            ran.append(now)
        rows.append(found[count:])
        turn += 1
        if not isinstance(keep, Value) or keep.count is not None:
            raise ValueError("its body says nothing of whether it goes on")
        if not keep.is_const:
            active = keep if active is None else g.emitted("And", [active, keep])
            going = None
        else:
            going = keep
    turns = _turns(g, number if active is None else None, ran, turn) if ran else None
    if turns is not None:
        columns = zip(state, zip(*longer, strict=True), strict=True)
        state = [_as_long(g, v, adds, turns, turn - len(ran)) for v, adds in columns]
    results: Things = [*state, *[None] * (len(node.outputs) - count)]
    kinds: Things = []
    if not rows and not all(map(body.tells, (1 + i for i in used))):
        first = [constant(np.array(0, np.int64)), constant(np.array(True))]
        kinds = body.run([*first, *state], names)[1 + count :]  # nobody reads what it computes
    for k, i in enumerate(used):
        like = kinds[k] if kinds else None
        whole = _stacked(g, body, 1 + i, [row[k] for row in rows], 0, like)
        results[i] = whole if turns is None else along(whole, axes_of(whole) | {0: turns})
    return results[: len(node.outputs)]


def _grown(a: Thing | None, b: Thing | None) -> int | None:
    """How many tensors a turn puts behind a sequence; None if it is none, or it does more to it.
    A turn is run if those before it are, so that the next one may take them for being there."""
    if not isinstance(a, Items) or not isinstance(b, Items) or a.count is not b.count:
        return None
    kept = len(a.values) >= len(b.values) and all(
        v is w for v, w in zip(a.values, b.values, strict=False)
    )
    return len(a.values) - len(b.values) if kept and a.count is None else None


def _as_long(
    g: Scope, v: Thing | None, adds: Sequence[int | None], turns: Number, known: int
) -> Thing | None:
    """A sequence with as many tensors as the turns that were run have put behind it; of all turns
    so many are run whatever the data are."""
    if not isinstance(v, Items) or not any(adds):
        return v
    each = adds[0]
    if each is None or any(more != each for more in adds):
        raise Unsupported("turns that make a sequence longer by different numbers of tensors")
    before = len(v.values) - each * (len(adds) + known)
    return Items(v.values, more_rows(g, times(g, turns, each), before))


def _trips(g: Scope, node: OnnxNode) -> tuple[int | None, Number | None]:
    """How often a loop is run at most, and the number that the data decide."""
    name = node.written.input[0]
    size = g.thing(name) if name else None
    if not isinstance(size, Value) or size.sizes is None or len(size.sizes) != 1:
        trips = node.const_input(0, "the trip count")
        return (None if trips is None else int(trips.reshape(-1)[0])), None
    return int(size.const.reshape(-1)[0]), size.sizes[0]


def _and(g: Scope, active: Value | None, number: Number | None, turn: int) -> Value | None:
    """Whether a turn is run, where the data decide it."""
    if number is None:
        return active
    within = g.b.reshape(g.emitted("Greater", [number, constant(np.array(turn))]), ())
    return within if active is None else g.emitted("And", [g.b.reshape(active, ()), within])


def _turns(g: Scope, number: Number | None, ran: Sequence[Value], turns: int) -> Number:
    """How many turns were run: those in front."""
    if number is not None:
        zero = constant(np.array([0]))
        return g.emitted("Max", [number, zero]) if ("least", number) in g.counts else number
    known = constant(np.array([turns - len(ran)]))
    each = [g.b.reshape(g.emitted("Cast", [v], to=7), (1,)) for v in ran]
    return g.emitted("ReduceSum", [g.emitted("Concat", [known, *each], axis=0)], keepdims=1)


def _stacked(
    g: Scope,
    body: Body,
    index: int,
    rows: Sequence[Thing | None],
    axis: int,
    like: Thing | None = None,
) -> Value:
    """What an output of the body was in each turn, along a new axis. `like`: what it is in a turn,
    where there is none and the body does not say."""
    values = [row for row in rows if isinstance(row, Value)]
    if len(values) != len(rows):
        raise Unsupported("a result of each turn is a sequence")
    if values:
        return stacked(g, values, axis)
    if body.tells(index):
        kind = body.declared(index)
        sizes = [d.dim_value for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    elif isinstance(like, Value):
        sizes, dtype = list(like.shape), like.dtype
    else:
        raise Unsupported("it is never run, and the type of a result is not known")
    return constant(np.zeros([*sizes[:axis], 0, *sizes[axis:]], dtype))


def stacked(g: Scope, values: Sequence[Value], axis: int) -> Value:
    """Tensors of one shape, along a new axis."""
    where = constant(np.array([axis_of(axis, values[0].rank + 1)]))
    parts = [g.emitted("Unsqueeze", [v, where]) for v in values]
    return parts[0] if len(parts) == 1 else g.emitted("Concat", parts, axis=axis)


def taken_apart(g: Scope, x: Value, axis: int) -> list[Value]:
    """The slices along an axis, without that axis."""
    axis = axis_of(axis, x.rank)
    where, count = constant(np.array([axis])), x.shape[axis]
    if x.is_const:
        return [constant(part) for part in np.moveaxis(x.const, axis, 0)]
    parts = (
        [x]
        if count == 1
        else g.emitted_many("Split", [x, constant(np.ones(count, int))], count, axis=axis)
    )
    return [g.emitted("Squeeze", [part, where]) for part in parts]


@controls("Scan", to="its body for each slice")
def _scan(g: Scope, node: OnnxNode, opsets: Opsets) -> Things:
    if node.version < 9:
        raise Unsupported("Scan of opset 8")
    body = Body.of(g, node, "body", opsets)
    inputs = [g.thing(name) for name in node.written.input]
    scanned = node.integer("num_scan_inputs")
    count, results = len(inputs) - scanned, len(body.outputs) - (len(inputs) - scanned)
    if scanned < 1 or count < 0 or len(body.inputs) != len(inputs) or results < 0:
        raise ValueError(
            f"{len(inputs)} inputs, of which it scans {scanned}; its body has {len(body.inputs)} "
            f"inputs and {len(body.outputs)} outputs"
        )
    axes = _each(node, "scan_input_axes", scanned)
    back = _each(node, "scan_input_directions", scanned)
    slices = []
    for x, axis, reverse in zip(inputs[count:], axes, back, strict=True):
        if not isinstance(x, Value):
            raise ValueError("it scans a sequence")
        parts = taken_apart(g, x, axis)
        slices.append(parts[::-1] if reverse else parts)
    lengths = {len(parts) for parts in slices}
    if len(lengths) != 1:
        raise ValueError(f"it scans tensors of different lengths: {sorted(lengths)}")
    state = inputs[:count]
    used = [i for i in range(results) if node.wants(count + i)]
    names = [*body.outputs[:count], *(body.outputs[count + i] for i in used)]
    rows: list[Things] = []
    for turn in range(lengths.pop()):
        g.budget.step(node.written)
        found = body.run([*state, *(parts[turn] for parts in slices)], names)
        state = found[:count]
        rows.append(found[count:])
    axes = _each(node, "scan_output_axes", results)
    back = _each(node, "scan_output_directions", results)
    given: Things = [None] * results
    for k, i in enumerate(used):
        row = [r[k] for r in rows]
        given[i] = _stacked(g, body, count + i, row[::-1] if back[i] else row, axes[i])
    return [*state, *given][: len(node.outputs)]


def _each(node: OnnxNode, name: str, count: int) -> list[int]:
    given = node.integers(name)
    if given is None:
        return [0] * count
    if len(given) != count:
        raise ValueError(f"{name} has {len(given)} entries for {count}")
    return given
