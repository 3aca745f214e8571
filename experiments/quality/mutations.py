"""The mutants of a module: comparisons, arithmetic, conditions, numbers, returned values and statements without a value."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        line: the first line of the change.
        end: its last line.
        change: the old and the new text.
        source: the whole mutated module.
    """

    line: int
    end: int
    change: str
    source: str


def mutants(module: ast.Module) -> Iterator[Mutant]:
    """All mutants of a module. Annotations, decorators, ``strict=`` and texts are not changed."""
    for holder, field, index, node in list(_places(module)):
        for new in _changes(node):
            _put(holder, field, index, new)
            yield Mutant(node.lineno, node.end_lineno or node.lineno, _said(node, new), ast.unparse(ast.fix_missing_locations(module)))
            _put(holder, field, index, node)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr | ast.stmt]]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "format_spec"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or (isinstance(child, ast.keyword) and child.arg == "strict"):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield node, field, index, child
            if not isinstance(child, ast.AnnAssign) or child.value is not None:
                yield from _places(child)


def _put(holder: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[index] = node


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, [*before, last], compared) if type(last) in COMPARED:
            yield ast.Compare(left, [*before, COMPARED[type(last)]()], compared)
        case ast.BinOp(left, operator, right) if type(operator) in COMPUTED and not isinstance(left, ast.Constant | ast.JoinedStr):
            yield ast.BinOp(left, COMPUTED[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(COMPUTED[type(operator)](), values)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.Constant(value) if isinstance(value, bool):
            yield ast.Constant(not value)
        case ast.Constant(value) if isinstance(value, int | float):
            yield ast.Constant(value + 1)
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.If(test, body, orelse) if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test, body, orelse) if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("super"))))):
            return  # the classes above have no state
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _said(old: ast.AST, new: ast.AST) -> str:
    before, after = (ast.unparse(ast.fix_missing_locations(node)).splitlines()[0][:100] for node in (old, new))
    return f"{before}  ->  {after}"
