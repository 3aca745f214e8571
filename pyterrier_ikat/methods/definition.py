"""A method: a function that makes an operator expression from named resources, together with the facts from its paper.

The arguments of the function name the resources: ``llm``, ``second_llm``, ``rewriter``, ``expander``, ``retriever``, ``dense``,
``reranker``. Resources with a default are optional. :func:`method` gives the function a name and makes it available to ``ikat run``, ``ikat
methods`` and ``ikat.run``.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import UsageError, counted, option
from ..generate import SelectStatements, ShowStatements
from ..operator import Operator
from ..prompts import prompts_from
from .differences import in_words, model_differences, returned

if TYPE_CHECKING:
    from ..planning import Plan

RESOURCES = ("llm", "second_llm", "rewriter", "expander", "retriever", "dense", "reranker")
STATEMENTS = ("none", "chosen")
"""Which statements about the user a method can show to the LLM, instead of all."""
OF_VARIANTS = ("second_llm", "dense")
"""Resources that turn a function into another system. If they are optional in the function, a method takes them only if it says so."""

System = Callable[..., pt.Transformer]
Decorated = TypeVar("Decorated", bound=System)


class StandIn(Operator):
    """A placeholder for a resource in a printed expression and in a plan. In a plan, it counts its input rows of each turn."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.rows = name, Counter[str]()

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """Count the rows of the frame, and return it."""
        self.rows.update(frame["qid"])
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Raise an error, because this is not a resource."""
        raise UsageError(f"{self.name} only stands for a resource: build the method with a real one")

    ask = transform

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Method:
    """A system with a name. :func:`method` makes one.

    Attributes:
        name: its name on the command line.
        system: the function that makes the expression.
        paper: where it comes from.
        settings: the function's arguments that this variant fixes.
        models: the paper's models and parameters, by resource, as text.
        bm25: the paper's BM25 parameters if they are not k1 0.9, b 0.4.
        roles: resources that replace others, such as ``{"llm": "second_llm"}``.
        given: the resources among ``second_llm`` and ``dense`` that the method requires although the function has a default.
        several: whether ``reranker`` may be a list.
        uses_gold: whether it reads the organisers' gold data, such as the manual rewrite.
    """

    name: str
    system: System
    paper: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    bm25: Mapping[str, float] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    several: bool = False
    uses_gold: bool = False

    def __post_init__(self) -> None:
        for name, parameter in inspect.signature(self.system).parameters.items():
            if name not in RESOURCES and name not in self.settings and parameter.default is inspect.Parameter.empty:
                repair = "name it retriever" if name == "index" else f"name it one of {', '.join(RESOURCES)}"
                raise UsageError(f"method {self.name}: the argument {name!r} is not a resource: {repair}, or give it a default")

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.system) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The function's docstring before its sections, in paragraphs."""
        return re.split(r"\n+(?=(?:Args|Raises|Returns|Example|Attributes):\n)", inspect.getdoc(self.system) or "")[0]

    @property
    def depth(self) -> int:
        """Passages per query: the function's ``depth``, or 1000 without one."""
        parameter = inspect.signature(self.system).parameters.get("depth")
        return int(self.settings.get("depth", 1000 if parameter is None else parameter.default))

    @property
    def resources(self) -> dict[str, str]:
        """Argument of the function -> the resource that it takes."""
        names = inspect.signature(self.system).parameters
        return {name: self.roles.get(name, name) for name in names if name in RESOURCES and self._uses(name)}

    @property
    def needs(self) -> list[str]:
        """The required resources."""
        return [resource for argument, resource in self.resources.items() if self._requires(argument)]

    @property
    def takes(self) -> list[str]:
        """The optional resources."""
        return [resource for argument, resource in self.resources.items() if not self._requires(argument)]

    def deviations(self, given: Mapping[str, Any]) -> list[str]:
        """How the models, the retriever and its depth in a run differ from the paper's, one line each; none without a paper's models.

        Args:
            given: resource -> what the run uses, as text or as an object; ``None`` for nothing.
        """
        paper = {name: one for name, one in self.models.items() if name in self.resources.values()}
        used = {name: in_words(given.get(name)) for name in paper}
        if paper.get("retriever") == "BM25" and (used["retriever"] or "").startswith("BM25 k1="):
            k1, b = (self.bm25.get(name, default) for name, default in (("k1", 0.9), ("b", 0.4)))
            paper["retriever"] = f"BM25 k1={k1} b={b}"
        found = [line for name, of_paper in paper.items() for line in model_differences(name, of_paper, used[name])]
        depth = returned(given.get("retriever")) if self.models else None
        if depth is not None and depth < self.depth:
            found.append(f"retriever: the paper takes {self.depth} passages per query, this run {depth}")
        return found

    def is_called_by(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call of its function with these arguments makes this method and not another one of the function."""
        named = inspect.signature(self.system).parameters
        fixed = {name for other in methods_of(self.system) for name in other.settings}
        of_variants = {name for name in OF_VARIANTS if arguments.get(name) is not None}
        same = all(arguments[name] == self.settings.get(name, named[name].default) for name in fixed)
        return bool(self.models) and same and not self.roles and of_variants == {name for name in OF_VARIANTS if name in self.resources}

    def called_with(self, arguments: Mapping[str, Any]) -> list[str]:
        """Like :meth:`deviations`, for the arguments of a call of its function, with the depths among them."""
        if not self.models:
            return []
        named = inspect.signature(self.system).parameters
        ours = {name: self.settings.get(name, one.default) for name, one in named.items() if name.endswith("depth")}
        depths = [f"{name}: the paper has {ours[name]}, this run {arguments[name]}" for name in ours if arguments[name] != ours[name]]
        return self.deviations({resource: arguments[name] for name, resource in self.resources.items()}) + depths

    @property
    def manual(self) -> bool:
        """Whether it makes a manual run, on ``get_topics("manual")``."""
        return self.uses_gold or self.settings.get("question") == "qresolved" or bool(self.settings.get("manual"))

    def build(self, *, prompts: str | Path | None = None, statements: str | None = None, **given: Any) -> pt.Transformer:
        """The operator expression over the resources in ``given``. Other resources are ignored.

        Args:
            prompts: a folder of your own prompt templates. It applies to all LLM operators without a folder of their own.
            statements: which statements about the user the LLM sees: ``"none"``, or ``"chosen"``, those that it chooses first (one more
                call per turn); None: all.
            **given: resources by name.

        Raises:
            UsageError: when a required resource is missing, or the retriever returns fewer passages than ``depth``.
        """
        taken = {argument: given.get(resource) for argument, resource in self.resources.items()}
        missing = [self.resources[name] for name, value in taken.items() if value is None and self._requires(name)]
        if missing:
            options = [option("index" if name == "retriever" else name) for name in missing]
            raise UsageError(f"method {self.name} needs {' and '.join(missing)}: give {' and '.join(options)}")
        if isinstance(several := taken.get("reranker"), list) and not self.several:
            raise UsageError(f"method {self.name} takes one re-ranker, not {len(several)}")
        for name in taken.keys() & {"retriever", "dense"}:
            found = getattr(taken[name], "num_results", self.depth)
            if found < self.depth:
                called = "dense retriever" if self.resources[name] == "dense" else "retriever"
                wanted = f"give it num_results={self.depth}"
                raise UsageError(
                    f"method {self.name} takes {counted(self.depth, 'passage')} per query, the {called} returns {found}: {wanted}"
                )
        with prompts_from(prompts):
            built = self._checked(self.system(**{name: value for name, value in taken.items() if value is not None}, **self.settings))
            return built if statements is None or "llm" not in taken else _shown(statements, taken["llm"]) >> built

    def _checked(self, built: Any) -> pt.Transformer:
        """The result of the method's function, if it is a pipeline."""
        if isinstance(built, pt.Transformer):
            return built
        if inspect.iscoroutine(built):
            built.close()  # otherwise it warns that it was never awaited
            what = "a coroutine: write def, not async def"
        else:
            what = "nothing: end it with return" if built is None else f"{type(built).__name__}: return a PyTerrier pipeline"
        code = getattr(self.system, "__code__", None)
        where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        raise UsageError(f"the function of method {self.name}{where} returns {what}")

    def _uses(self, name: str) -> bool:
        of_variants = name in OF_VARIANTS and inspect.signature(self.system).parameters[name].default is not inspect.Parameter.empty
        return name in self.given if of_variants else True

    def _requires(self, argument: str) -> bool:
        default = inspect.signature(self.system).parameters[argument].default
        return default is inspect.Parameter.empty or argument in OF_VARIANTS

    @property
    def expression(self) -> str:
        """The expression as text, over the names of its resources."""
        names: dict[str, Any] = {name: StandIn(name) for name in RESOURCES}
        built = self.build(**names)
        shown = re.sub(r" >> RankCutoff\((\d+)\)", r" % \1", repr(built))
        shown = shown[1:-1] if shown.startswith("(") else shown
        return re.sub(r"\((\w+ % \d+)\)(?=[,)])", r"\1", shown)


@overload
def method(name: Decorated) -> Decorated: ...
@overload
def method(name: str | None = None, *, paper: str = "", **said: Any) -> Callable[[Decorated], Decorated]: ...
def method(name: str | Decorated | None = None, *, paper: str = "", **said: Any) -> Any:
    """A decorator that makes a function a method.

    One function can be several methods, each with its own name, settings and models. Decorate it once for each.

    Args:
        name: the method's name; None: that of the function.
        paper: where it comes from.
        **said: further attributes of :class:`Method`: ``settings``, ``models``, ``bm25``, ``roles``, ``given``, ``several``, ``uses_gold``.

    Raises:
        UsageError: when the function has an argument without a default that is not a resource.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> @ikat.method(paper="ours", models={"llm": "openai:gpt-4o"})
        ... def gate(llm, retriever, reranker=None, *, depth=1000):
        ...     return ikat.Rewrite(llm) >> retriever % depth
        >>> methods_of(gate)[0].needs
        ['llm', 'retriever']
    """

    def decorate(system: Decorated) -> Decorated:
        made = Method(name if isinstance(name, str) else system.__name__, system, paper, **said)
        vars(system)["methods"] = [made, *vars(system).get("methods", [])]
        return system

    return decorate(name) if callable(name) else decorate


def methods_of(system: System) -> list[Method]:
    """The methods of a function, in the order of its decorators; without a decorator, one with the function's name."""
    return vars(system).get("methods") or [Method(system.__name__, system)]


def noting(system: System) -> System:
    """The function of methods, whose pipelines note how they differ from the paper: ``pipeline.deviations``.

    Of several methods, those with the same settings as the call are compared, and the one with the fewest differences counts.
    """

    @wraps(system)
    def noted(*args: Any, **kwargs: Any) -> pt.Transformer:
        built = system(*args, **kwargs)
        if isinstance(built, pt.Compose):
            bound = inspect.signature(system).bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            found = [one.called_with(given) for one in methods_of(system) if one.is_called_by(given)]
            vars(built)["deviations"] = min(found, key=len, default=[])
        return built

    return noted


def _shown(statements: str, llm: Any) -> pt.Transformer:
    """The stages before a method that show it a part of the persona."""
    one_of(STATEMENTS, statements=statements)
    return ShowStatements(statements) if statements == "none" else SelectStatements(llm) >> ShowStatements(statements)
