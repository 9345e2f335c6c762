"""The mutants of Python sources: one is written into the syntax tree as its module is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .mutant import Mutant, Numbering

_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
#: What coverage calls before each statement that has mutants.
REACHED = "__qnnrt_mutants_reached__"


def mutants(path: str, text: str, numbering: Numbering) -> list[Mutant]:
    """All of a file, in the order of their numbers."""
    return _Walk(path, text, numbering, 0).mutants


def mutated(path: str, text: str, first: int, wanted: int) -> ast.Module:
    """The module with mutant ``wanted``; ``first`` is the number of the file's first one."""
    return _Walk(path, text, Numbering(first - 1), wanted).tree


def instrumented(path: str, text: str, first: int) -> ast.Module:
    """The module with a call of ``REACHED`` before each statement that has mutants."""
    walk = _Walk(path, text, Numbering(first - 1), 0)
    _Instrument(walk.of_statement).visit(walk.tree)
    return ast.fix_missing_locations(walk.tree)


class _Walk:
    """Numbers the places of a tree, and writes the wanted mutant into it."""

    def __init__(self, path: str, text: str, numbering: Numbering, wanted: int) -> None:
        self.path, self.text, self.wanted, self._numbering = path, text, wanted, numbering
        self.mutants: list[Mutant] = []
        self.of_statement: dict[ast.stmt, list[int]] = {}
        lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self.tree = ast.parse(text)
        self._body(self.tree.body)
        ast.fix_missing_locations(self.tree)

    def _is(self, node: ast.AST, statement: ast.stmt, what: str) -> bool:
        """Whether this is the wanted one."""
        at = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        mutant = self._numbering.make(self.path, self.text, at, what)
        self.mutants.append(mutant)
        self.of_statement.setdefault(statement, []).append(mutant.id)
        return mutant.id == self.wanted

    def _body(self, body: list[ast.stmt]) -> None:
        for i, statement in enumerate(body):
            self._expressions(statement)
            deleted = isinstance(statement, ast.Raise | ast.AugAssign) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            )
            if deleted and self._is(statement, statement, "statement deleted"):
                body[i] = ast.copy_location(ast.Pass(), statement)
            for name in ("body", "orelse", "finalbody"):
                self._body(getattr(statement, name, []))
            for handler in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
                self._body(handler.body)

    def _expressions(self, statement: ast.stmt) -> None:
        """Those of a statement itself, not of the statements in it."""
        never = always = False
        if isinstance(statement, ast.If | ast.While):
            never = self._is(statement, statement, "never")
            plain = not isinstance(statement.test, ast.Compare | ast.BoolOp | ast.UnaryOp)
            if isinstance(statement, ast.If) and plain:
                always = self._is(statement, statement, "always")
        for parent, name, index, node in list(_own(statement)):
            new = self._changed(node, statement)
            if new is not None:
                ast.copy_location(new, node)
                if index is None:
                    setattr(parent, name, new)
                else:
                    getattr(parent, name)[index] = new
        if isinstance(statement, ast.If | ast.While) and (never or always):
            op = ast.Or() if always else ast.And()
            statement.test = ast.BoolOp(op, [statement.test, ast.Constant(always)])

    def _changed(self, node: ast.AST, of: ast.stmt) -> ast.AST | None:
        """What stands for the node, if it is another one; changes within the node are made."""
        if isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                for other in _COMPARE[type(op)]:
                    if self._is(node, of, f"{type(op).__name__} -> {other.__name__}"):
                        node.ops[i] = other()
        elif isinstance(node, ast.BoolOp):
            other_op = ast.Or if isinstance(node.op, ast.And) else ast.And
            if self._is(node, of, f"{type(node.op).__name__} -> {other_op.__name__}"):
                node.op = other_op()
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            if _is_type(node):
                return None
            other_type = _ARITHMETIC[type(node.op)]
            if self._is(node, of, f"{type(node.op).__name__} -> {other_type.__name__}"):
                node.op = other_type()
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            if self._is(node, of, "not removed"):
                return node.operand
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            if self._is(node, of, f"{node.value} negated"):
                return ast.Constant(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            if self._is(node, of, f"{node.value} + 1"):
                return ast.Constant(node.value + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            swapped = {"min": "max", "max": "min", "any": "all", "all": "any"}.get(node.func.id)
            if swapped and self._is(node, of, f"{node.func.id} -> {swapped}"):
                node.func.id = swapped
        return None


def _own(statement: ast.stmt) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """The expressions of a statement: parent, field, index, node. Not annotations."""
    todo: list[ast.AST] = [statement]
    while todo:
        parent = todo.pop()
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "type_comment"):
                continue
            many = isinstance(value, list)
            for index, node in enumerate(value if many else [value]):
                if not isinstance(node, ast.AST) or isinstance(
                    node, ast.stmt | ast.excepthandler | ast.match_case
                ):
                    continue
                yield parent, name, index if many else None, node
                todo.append(node)


def _is_type(node: ast.BinOp) -> bool:
    """Whether it is a union of types, such as ``int | None``."""
    return isinstance(node.op, ast.BitOr) and any(
        (isinstance(side, ast.Constant) and side.value is None)
        or (
            isinstance(side, ast.Name)
            and side.id in ("int", "str", "float", "bool", "bytes", "list", "tuple", "dict")
        )
        for side in (node.left, node.right)
    )


class _Instrument(ast.NodeTransformer):
    def __init__(self, ids: dict[ast.stmt, list[int]]) -> None:
        self._ids = ids

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if isinstance(node, ast.stmt) and node in self._ids:
            numbers = ast.Tuple([ast.Constant(i) for i in self._ids[node]], ast.Load())
            call = ast.Call(ast.Name(REACHED, ast.Load()), [numbers], [])
            return [ast.copy_location(ast.Expr(call), node), node]
        return node
