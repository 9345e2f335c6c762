"""What a graph became, in words: JSON like that of the cpu backend, with what is the device's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .allocation import Arena
from .compile import Compiled
from .ir import Ir, Launch, Node
from .target import Target
from .together import each_kernel

__all__ = ["describe", "description", "sizes"]


def describe(compiled: Compiled, target: Target) -> str:
    """Its passes, arenas, weights, programs and kernels."""
    memory = compiled.memory
    built = {n: compiled.origins[n] for n in ("built", "disk", "memory")}
    more = {"weights_in_place": len(memory.kept), "programs": built}
    weights = memory.weight_bytes
    return description(compiled.ir, compiled.launches, memory.arenas, target, weights, more)


def description(
    ir: Ir,
    launches: Sequence[tuple[Node, Launch]],
    planned: Sequence[Arena],
    target: Target,
    weight_bytes: int,
    more: Mapping[str, Any] | None = None,
) -> str:
    """The same of its parts, with ``more`` that is known of a graph that is ready."""
    arenas = [_arena(a) for a in planned]
    return json.dumps(
        {
            "device": str(target.device),
            "precision": "tf32" if target.tf32 else target.precision,
            "passes": [{"name": n, "changes": c} for n, c in ir.passes],
            "arena": {
                "peak": sum(a["peak"] for a in arenas),
                "lower_bound": sum(a["lower_bound"] for a in arenas),
                "sum": sum(a["sum"] for a in arenas),
                "order": arenas[0]["order"] if arenas else "",
                "proved": all(a["proved"] for a in arenas),
                "items": [{**i, "arena": n} for n, a in enumerate(arenas) for i in a["items"]],
            },
            "arenas": len(arenas),
            "weight_bytes": weight_bytes,
            **(more or {}),
            "steps": [
                _step(*each) | {"start": i}
                for i, one in enumerate(launches)
                for each in each_kernel([one])
            ],
        }
    )


def sizes(compiled: Compiled) -> dict[str, int]:
    """Its memory in bytes and its steps, as the counters of other backends' graphs name them."""
    plans = [arena.plan for arena in compiled.memory.arenas]
    return {
        "arena_bytes": sum(p.peak for p in plans),
        "arena_lower_bound": sum(p.lower_bound for p in plans),
        "arena_sum": sum(p.sum for p in plans),
        "weight_bytes": compiled.memory.weight_bytes,
        "num_steps": len(compiled.launches),
    }


def _arena(arena: Arena) -> dict[str, Any]:
    plan = arena.plan
    items = []
    for value, item, offset in zip(arena.values, arena.items, plan.offsets, strict=True):
        entry = {"name": value.name, "kind": "tensor", "offset": offset, "size": item.size}
        entry |= {"first": item.first, "last": item.last}
        if value in arena.shared:
            entry["shared"] = [v.name for v in arena.shared[value]]
        items.append(entry)
    return {
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "sum": plan.sum,
        "order": plan.order,
        "proved": plan.proved,
        "items": items,
    }


def _step(node: Node, launch: Launch) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.type,
        "kernel": f"{launch.file}.{launch.function}",
        "defines": dict(launch.defines),
        "total": launch.total,
        "group": launch.group,
        "fused": [post.expression for post in node.post],
        "inputs": ["" if v is None else v.name for v in node.inputs],
        "outputs": [v.name for v in node.outputs],
    }
