"""Templates with limits: a loop, a macro or a long text in a user's template can't block the process."""

from collections.abc import Iterable, Iterator, Sized
from contextvars import ContextVar
from itertools import count
from typing import Any

from jinja2 import TemplateRuntimeError, nodes, pass_context
from jinja2.runtime import Context, Macro
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

STEPS = 1_000_000
"""The maximum number of loop iterations, macro calls and included templates in one prompt."""
LONGEST = 10_000_000
"""The maximum number of characters in a text that a template computes."""
_steps: ContextVar["count[int] | None"] = ContextVar("steps", default=None)


class Own(str):
    """A text that a macro makes. Its headings are those of the template, and the values in it are already escaped."""

    __slots__ = ()


class BoundedEnvironment(SandboxedEnvironment):
    """A sandbox with limits: after ``STEPS`` steps, or with a text that is too long, templates raise a ``TemplateRuntimeError``.

    Example:
        >>> endless = BoundedEnvironment().from_string("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}")
        >>> render_bounded(endless, {})
        Traceback (most recent call last):
        jinja2.exceptions.TemplateRuntimeError: its loops take more than 1,000,000 steps
    """

    intercepted_binops = frozenset(["*", "**", "+", "%"])

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filters |= {"_counted": _counted, "_bounded": _bounded, "_step": _step_here}

    def _generate(self, source: nodes.Template, *arguments: Any, **named: Any) -> str:
        return super()._generate(_Counting().visit(source), *arguments, **named)

    def call(self, context: Context, called: Any, *arguments: Any, **named: Any) -> Any:
        """The result of a call. The text of a macro is marked as the template's own."""
        said = super().call(context, called, *arguments, **named)
        return Own(said) if isinstance(called, Macro) else said

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result of an operation, unless it would be too long."""
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise TemplateRuntimeError(f"it uses the operator {operator}, which templates may not: compute the value outside")
        sizes = [len(one) if isinstance(one, Sized) else abs(one) if isinstance(one, int) else 1 for one in (left, right)]
        if operator == "*" and sizes[0] * sizes[1] > LONGEST:
            raise _too_long()
        return _bounded(super().call_binop(context, operator, left, right))


def render_bounded(template: Any, values: dict[str, Any]) -> str:
    """Render a template of a :class:`BoundedEnvironment`.

    Raises:
        TemplateRuntimeError: when it takes too many steps.
    """
    token = _steps.set(count(1))
    try:
        return str(template.render(**values))
    finally:
        _steps.reset(token)


class _Counting(NodeTransformer):
    """Adds a counter to each loop, macro and template, and a limit to joined texts."""

    def visit_Template(self, node: nodes.Template) -> nodes.Template:  # noqa: N802 (the name that jinja2 calls)
        self.generic_visit(node)
        node.body.insert(0, _count())
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, _count())
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_counted")
        if node.recursive:
            node.body.insert(0, _count())
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, "_bounded")


def _count() -> nodes.ExprStmt:
    return nodes.ExprStmt(_filtered(nodes.Const(None), "_step"))


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _step()
        yield item


@pass_context  # otherwise it is computed when the template is compiled
def _step_here(context: Context, nothing: None) -> None:
    _step()


def _step() -> None:
    steps = _steps.get()
    if steps is not None and next(steps) > STEPS:
        raise TemplateRuntimeError(f"its loops take more than {STEPS:,} steps")


def _bounded(value: Any) -> Any:
    if isinstance(value, Sized) and len(value) > LONGEST:
        raise _too_long()
    return value


def _too_long() -> TemplateRuntimeError:
    return TemplateRuntimeError(f"it computes a value beyond {LONGEST:,}")
