"""What a session is given: options, and a choice for each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, SupportsIndex, TypeAlias

from .._native import _core
from ..model.binary import MEM_TYPES
from ..qnn.options import PRECISIONS, SHARE_WEIGHTS, Custom, own_graph_config
from ..support import named
from .policies import MemoryPolicy

_OPTIONS: Final = (
    "kernels",
    "heap",
    "priority",
    "context",
    "graph_config",
    "graph",
    "lpai",
    "gpu",
    "plan_milliseconds",
    "float32_nodes",
    "keep_constants",
    "share_weights",
    "byte_activations",
    "max_shapes",
    "max_shape_bytes",
    "prepare_shapes",
)
#: Those for models of many shapes.
_FOR_SHAPES: Final = ("max_shapes", "max_shape_bytes", "prepare_shapes")
#: Those that are on or off; None: as unless given.
_SWITCHES: Final = ("keep_constants", "byte_activations", "prepare_shapes")
#: Those that a context binary's graph cannot take any more.
_FOR_FINALIZE: Final = frozenset(
    (
        "kernels",
        "plan_milliseconds",
        "float32_nodes",
        "keep_constants",
        "share_weights",
        "byte_activations",
    )
)
#: How tensors are bound, or were prepared: one choice for all, or a mapping from names.
Choice: TypeAlias = "str | Mapping[str, str]"


def check_choice(what: str, value: Choice | None) -> None:
    """Raises ``ValueError`` for anything but "memhandle", "raw" and, for "io", "scratch"."""
    pairs = value.items() if isinstance(value, Mapping) else [("", value or "raw")]
    known = (*MEM_TYPES, "scratch") if what == "io" else tuple(MEM_TYPES)
    for name, one in pairs:
        if one not in known:
            where = f"{what}[{name!r}]" if name else what
            raise ValueError(f"{where} must be {' or '.join(map(repr, known))}, not {one!r}")


def choices(
    what: str, value: Choice | None, names: Sequence[str], default: Mapping[str, str]
) -> dict[str, str]:
    """The choice for each tensor; those that a mapping omits get the default's.

    Raises:
        ValueError: the mapping names a tensor that is no input or output.
    """
    if isinstance(value, str):
        return dict.fromkeys(names, value)
    given = dict(value or {})
    if unknown := [name for name in given if name not in names]:
        raise ValueError(
            f"{what}: no input or output {unknown[0]!r}; there are {', '.join(map(repr, names))}"
        )
    return {name: given.get(name, default[name]) for name in names}


def common(choices: Iterable[str]) -> str:
    """The choice that all of them are, or "mixed"."""
    found = set(choices)
    return found.pop() if len(found) == 1 else "mixed"


class Options:
    """``Session(options=...)`` with ``threads`` and ``strict``, checked."""

    def __init__(
        self,
        given: Mapping[str, Any] | None,
        threads: int | None,
        strict: bool,
        precision: str | None = None,
    ) -> None:
        self.given = dict(given or {})
        if unknown := [name for name in self.given if name not in _OPTIONS]:
            raise ValueError(f"unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        if threads is not None and not isinstance(threads, SupportsIndex):
            raise TypeError(f"threads must be a whole number, not {threads!r}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.threads = threads
        if precision is not None:
            named("precision", precision, PRECISIONS)
        self.precision = precision
        self.share_weights: str = self.given.get("share_weights", "process")
        named("option 'share_weights'", self.share_weights, SHARE_WEIGHTS)
        for name in _SWITCHES:
            if self.given.get(name) not in (None, False, True):
                raise ValueError(f"option {name!r} is True or False, not {self.given[name]!r}")
        for name in ("max_shapes", "max_shape_bytes"):
            most = self.given.get(name, 1)
            if isinstance(most, bool) or not isinstance(most, int) or most < 1:
                raise ValueError(f"option {name!r} is a whole number of at least 1, not {most!r}")
        self._strict = strict
        self.priority: str | int | None = self.given.get("priority")
        self.queue_depth: int | None = self.given.get("context", {}).get("async_queue_depth")

    def refuse_for_shapes(self) -> None:
        """Raises ``ValueError`` for options of models of many shapes."""
        if found := [name for name in _FOR_SHAPES if name in self.given]:
            raise ValueError(
                f"option {found[0]!r} is for models of many shapes: load(path, shapes=...)"
            )

    def refuse_graph(self) -> None:
        """Raises ``ValueError`` where one of several graphs is chosen and there is one only."""
        if "graph" in self.given:
            raise ValueError("option 'graph' is for context binaries: a model is one graph")

    @property
    def graph(self) -> str | None:
        """The one graph that is chosen.

        Raises:
            ValueError: several are.
        """
        given = self.given.get("graph")
        if given is None or isinstance(given, str):
            return given
        names = list(given)
        if len(names) != 1:
            raise ValueError(
                f"graph={names!r}: several graphs are for binaries of which they are the shapes of "
                "one model; choose one"
            )
        return str(names[0])

    @property
    def for_finalize(self) -> bool:
        """Whether there are options that a context binary's graph cannot take any more."""
        return self.precision is not None or not _FOR_FINALIZE.isdisjoint(self.given)

    def for_graph(
        self,
        library: _core.Library,
        policy: MemoryPolicy,
        io: Mapping[str, str],
        byte_activations: bool = False,
    ) -> list[Custom]:
        """Custom config structs of the graph; `byte_activations`: what the model says."""
        asked = self.given.get("byte_activations")
        return [
            *map(bytes, self.given.get("graph_config", ())),
            *own_graph_config(
                library,
                threads=self.threads,
                kernels=self.given.get("kernels"),
                plan_milliseconds=self.given.get("plan_milliseconds"),
                strict=self._strict,
                exclude_io=policy.excludes_io(io),
                release_constants=True,
                keep_constants=self.given.get("keep_constants"),
                share_weights=self.share_weights,
                byte_activations=byte_activations if asked is None else bool(asked),
            ),
            *policy.for_graph(self.precision, self.given.get("float32_nodes", ())),
        ]

    def for_context(self, policy: MemoryPolicy) -> dict[str, Any]:
        """Arguments for ``Backend.create_context``."""
        options = dict(self.given.get("context", {}))
        if custom := policy.for_context():
            options["custom"] = [*options.get("custom", ()), *custom]
        return options
