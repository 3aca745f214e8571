"""The content of a template: a checksum of its renderings for probe inputs, whatever its source is.

The inputs are derived from the template: for every value that it names, a text, or a list if the template loops over it. Each value is
present or missing, in all combinations, and has each of the texts with which the template compares it. So comments, and the division of a
template into macros or files, don't change the checksum. If a template does more than show values, loop over a list, and test whether a
value is present, probes can't find out everything that it does. Then its source also counts.
"""

from functools import lru_cache
from itertools import product
from typing import Any

from jinja2 import nodes
from jinja2.environment import Environment
from jinja2.meta import find_referenced_templates, find_undeclared_variables

from ..portable import digest
from .bounded import render_bounded

MOST = 256
"""The maximum number of inputs. A template that distinguishes more is identified by its source."""
PLAIN = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr, nodes.Const),
    *(nodes.Not, nodes.And, nodes.Or, nodes.Compare, nodes.Operand, nodes.Macro, nodes.Keyword),
)
FILTERS = ("quoted", "length")


def checksum(environment: Environment, name: str) -> str:
    """The checksum of a template's renderings for its probe inputs.

    Raises:
        TemplateError: when the template, or one that it includes, is missing or is not a template.

    Example:
        >>> from jinja2 import DictLoader
        >>> from pyterrier_ikat.prompts.bounded import BoundedEnvironment
        >>> texts = {"a": "{# old #}{% if x %}X: {{ x }}{% endif %}", "b": "{% if x %}X: {{x}}{% endif %}", "c": "Y: {{ x }}"}
        >>> a, b, c = (checksum(BoundedEnvironment(loader=DictLoader(texts)), name) for name in texts)
        >>> a == b, a == c
        (True, False)
    """
    return _of_sources(environment, name, tuple(_sources(environment, name, {}).values()))


@lru_cache(maxsize=1024)
def _of_sources(environment: Environment, name: str, sources: tuple[str, ...]) -> str:
    """The checksum for these sources. It is cached because every operator of every system asks for it."""
    trees = [environment.parse(source) for source in sources]
    template = environment.get_template(name)
    try:
        inputs = None if any(_hides(tree) for tree in trees) else _inputs(trees)
        said = [part for values in inputs or () for part in (repr(values), render_bounded(template, values))]
    except Exception:  # a user's template that needs other values than texts and lists, such as a number
        said = []
    return digest("said", *said).hex() if said else digest("source", *sources).hex()


def _sources(environment: Environment, name: str, found: dict[str, str]) -> dict[str, str]:
    """Name -> source, for a template and those that it includes."""
    if name not in found:
        assert environment.loader is not None
        found[name] = environment.loader.get_source(environment, name)[0]
        for included in _included(environment, found[name]):
            _sources(environment, included, found)
    return found


@lru_cache(maxsize=1024)
def _included(environment: Environment, source: str) -> list[str]:
    """The names of the templates that a source includes."""
    return [name for name in find_referenced_templates(environment.parse(source)) if name is not None]


def _inputs(trees: list[nodes.Template]) -> list[dict[str, Any]] | None:
    """All probe inputs; None if there are too many."""
    options: dict[str, list[Any]] = {}
    looped = {node.iter.name for tree in trees for node in tree.find_all(nodes.For) if isinstance(node.iter, nodes.Name)}
    for name in sorted({name for tree in trees for name in find_undeclared_variables(tree)}):
        text = f"[{name}] </passage>"
        options[name] = ["", [f"{text} 1", f"{text} 2"] if name in looped else text]
    for tree in trees:
        for node in tree.find_all(nodes.Compare):
            name, value = node.expr.name, node.ops[0].expr.value  # type: ignore[attr-defined]
            options[name] += [value] * (value not in options[name])
    size = 1
    for values in options.values():
        size *= len(values)
    return None if size > MOST else [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def _hides(tree: nodes.Template) -> bool:
    """Whether a template does something that probes can't detect."""
    imported = {str(name) for found in tree.find_all(nodes.FromImport) if not found.with_context for name in found.names}
    return _shows_part(tree, find_undeclared_variables(tree), imported | {macro.name for macro in tree.find_all(nodes.Macro)})


def _shows_part(node: nodes.Node, given: set[str], macros: set[str]) -> bool:
    if isinstance(node, nodes.Macro):
        given = given | {argument.name for argument in node.args}
    return not _is_plain(node, given, macros) or any(_shows_part(child, given, macros) for child in node.iter_child_nodes())


def _is_plain(node: nodes.Node, given: set[str], macros: set[str]) -> bool:
    if isinstance(node, nodes.If | nodes.CondExpr):
        return _is_asked(node.test, given)
    if isinstance(node, nodes.For):
        return isinstance(node.iter, nodes.Name) and node.test is None and not node.recursive
    if isinstance(node, nodes.Include):
        return isinstance(node.template, nodes.Const) and not node.ignore_missing
    if isinstance(node, nodes.Filter):
        return node.name in FILTERS and not (node.args or node.kwargs or node.dyn_args or node.dyn_kwargs)
    if isinstance(node, nodes.FromImport):
        return isinstance(node.template, nodes.Const) and all(isinstance(name, str) for name in node.names)
    if isinstance(node, nodes.Call):
        return _is_call(node, given, macros)
    return isinstance(node, PLAIN)


def _is_call(node: nodes.Call, given: set[str], macros: set[str]) -> bool:
    """Whether a call passes only values and constants to a macro, so that the macro's tests are tests of the values."""
    passed = [*node.args, *(pair.value for pair in node.kwargs)]
    of_macro = isinstance(node.node, nodes.Name) and node.node.name in macros and not (node.dyn_args or node.dyn_kwargs)
    return of_macro and all(isinstance(one, nodes.Const) or (isinstance(one, nodes.Name) and one.name in given) for one in passed)


def _is_asked(test: nodes.Node, given: set[str]) -> bool:
    """Whether a condition only tests whether values are present, or what they are."""
    if isinstance(test, nodes.Compare):
        named = isinstance(test.expr, nodes.Name) and test.expr.name in given
        return named and len(test.ops) == 1 and test.ops[0].op == "eq" and isinstance(test.ops[0].expr, nodes.Const)
    if isinstance(test, nodes.Name):
        return test.name in given
    return isinstance(test, nodes.Not | nodes.And | nodes.Or) and all(_is_asked(one, given) for one in test.iter_child_nodes())
