"""Operations on single elements, alone or with others behind them: one kernel for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..ir import Launch, Node, Value
from ..target import Target
from .broadcast import ElementIndex, element_index
from .common import Refused
from .formulas import ELEMENTWISE, FLOATS, formula, narrows_doubles

#: Work items in a group: one size for all, since some devices compile kernels for it.
_GROUP: Final = 128
#: Element types in memory.
_STORED: Final = {
    "bool": "uchar", "float16": "half", "float32": "float", "float64": "double",
    "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}  # fmt: skip
#: What they are computed in.
_COMPUTED: Final = {
    "half": "float",
    "char": "int",
    "short": "int",
    "uchar": "uint",
    "ushort": "uint",
}


@dataclass(frozen=True)
class _Operand:
    """One that the kernel reads, of one element or WIDTH of them for a work item."""

    number: int
    value: Value
    index: ElementIndex
    stored: str
    width: int
    computed: str

    @property
    def single(self) -> bool:
        """One element serves all neighbours."""
        return self.width == 1 or self.index.together == "same"

    @property
    def inputs(self) -> str:
        numbers = "".join(f"const int n{self.number}{p}, " for p in self.index.params)
        return f"__global const {self.stored}* a{self.number}, {numbers}"

    @property
    def function(self) -> str:
        """The C function of its index."""
        if not self.index.body or self.index.one:
            return ""
        params = "".join(f", const int {p}" for p in self.index.params)
        head = f"static inline uint KERNEL(index{self.number})(uint i{params})"
        return f"{head} {{ {self.index.body} }}\n"

    def at(self, i: str) -> str:
        if self.index.one:
            return "0"
        if not self.index.body:
            return i
        numbers = "".join(f", n{self.number}{p}" for p in self.index.params)
        return f"KERNEL(index{self.number})({i}{numbers})"

    def load(self, i: str) -> str:
        pointer, at = f"a{self.number}", self.at(i)
        return f"vload_half({at}, {pointer})" if self.stored == "half" else f"{pointer}[{at}]"

    @property
    def fetch(self) -> str:
        """Declares its element, or elements."""
        name, t = f"x{self.number}", self.computed
        if self.single:
            return f"const {t} {name} = {self.load('i')}; "
        if self.index.together == "apart":
            each = ", ".join(self.load(f"i + {n}" if n else "i") for n in range(4))
            return f"const {t}4 {name} = ({t}4)({each}); "
        pointer = f"a{self.number} + {self.at('i')}"
        if self.stored == "half":
            return f"const {t}4 {name} = vloada_half4(0, {pointer}); "
        whole = f"*(__global const {self.stored}4*)({pointer})"
        if t != self.stored:
            whole = f"convert_{t}4({whole})"
        return f"const {t}4 {name} = {whole}; "

    @property
    def component(self) -> str:
        """Its element for component ``c`` of the result."""
        return f"x{self.number}" if self.single else f"x{self.number} c"


def _stored(node: Node, value: Value, target: Target) -> str:
    if value.dtype.name == "float64":
        if node.type == "ElementWiseSelect":
            return "ulong"
        if node.type not in ("Cast", "Convert") and not narrows_doubles(node):
            raise Refused(f"tensor {value.name!r} is float64, which kernels only convert")
        if not target.device.raw.double_fp_config:
            raise Refused(f"tensor {value.name!r} is float64, which {target.device} has not")
    return _STORED[value.dtype.name]


def _elementwise(node: Node, target: Target) -> list[Launch]:
    y = node.outputs[0]
    form = formula(node)
    # What lies in memory is fixed-point numbers where the last of ``post`` gives these.
    stored = _stored(node, y.root, target)
    wanted = [(v, y.shape) for v in node.inputs if v is not None]
    wanted += [(v, post.shape or y.shape) for post in node.post for v, _ in post.operands]
    types = [_stored(node, v, target) for v, _ in wanted]
    wide = y.size % 4 == 0 and not any(t in ("double", "long", "ulong") for t in (stored, *types))
    operands: dict[Any, _Operand] = {}
    names = []
    for (value, shape), t in zip(wanted, types, strict=True):
        found = element_index(value.shape, shape)
        key = (value.root, t, found)
        if key not in operands:
            computed = "float" if t == "double" and narrows_doubles(node) else _COMPUTED.get(t, t)
            operands[key] = _Operand(len(operands), value, found, t, 4 if wide else 1, computed)
        names.append(operands[key])
    inputs = names[: len(names) - sum(len(p.operands) for p in node.post)]
    result = form.of(*(o.component for o in inputs))
    before = "".join(o.function for o in operands.values())
    kept = [post.keep for post in node.post if post.keep is not None and post.stored]
    if node.post:
        text, used = _after(node, names[len(inputs) :])
        before += text
        stores = [f"kept{k}" for k in range(len(kept))]
        given = [result, "i + n", *(o.component for o in used), *stores]
        result = f"KERNEL(after)({', '.join(given)})"
    defines = [
        ("WIDTH", "4" if wide else "1"),
        ("STORED", stored),
        ("INPUTS", "".join([*(o.inputs for o in operands.values()), *_stores(kept)])),
        ("FETCH", "".join(o.fetch for o in operands.values())),
        ("VALUE(c, n)", result),
        *((("HALF", "1"),) if stored == "half" else (("VECTOR", f"{stored}4"),)),
    ]
    items = y.size // 4 if wide else y.size
    group = min(_GROUP, target.device.raw.max_work_group_size)
    args: list[Value | int | float] = []
    for operand in operands.values():
        args += [operand.value, *operand.index.args]
    return [
        Launch(
            "elementwise",
            "elementwise",
            tuple(defines),
            (-(-items // group) * group,),
            (*args, *kept, y, y.size),
            (group,),
            before,
            tuple((y, o.value) for o in operands.values() if not o.index.body and not o.index.one),
        )
    ]


def _stores(kept: Sequence[Value]) -> list[str]:
    """The parameters for values that are written beside the result."""
    return [f"__global REAL* kept{k}, " for k in range(len(kept))]


def _after(node: Node, operands: list[_Operand]) -> tuple[str, list[_Operand]]:
    """The function of what is done behind the node's own operation, and what it takes but that."""
    used = sorted(set(operands), key=lambda o: o.number)
    params = "".join(f", const float x{o.number}" for o in used)
    body, n, kept, stored = "", 0, 0, 0
    for post in node.post:
        if post.keep is not None:
            body += f"  const float k{kept} = v;\n"
            kept += 1
            if post.stored:
                body += f"  STORE(kept{stored}, i, v);\n"
                params += f", __global REAL* kept{stored}"
                stored += 1
        declared = ""
        for k in range(len(post.operands)):
            declared += f"const float p{k} = x{operands[n].number}; "
            n += 1
        body += f"  {{ {declared}v = {post.expression}; }}\n"
    head = f"static inline float KERNEL(after)(float v, const uint i{params})"
    return f"{head} {{\n{body}  return v;\n}}\n", used


#: Families whose kernels do `Node.post`: see the pass that gives it to them.
TAKES_POST: Final = FLOATS
OPS: Final = dict.fromkeys(ELEMENTWISE, _elementwise)
