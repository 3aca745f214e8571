"""The base of all operators, and the one face through which a run sees any stage.

Planning and running never ask for the class of a stage. They ask :func:`face`, which gives the
stage itself if it is an :class:`Operator`, or a :class:`~pyterrier_ikat.foreign.Foreign` with the
careful answers for a stage of another package. Everything that may be asked is declared on
:class:`Operator`, with its default. docs/stage.md follows a stage through a run.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial, wraps
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, ClassVar, TypeVar

import pandas as pd
import pyterrier as pt
from typing_extensions import dataclass_transform

from .arguments import Checked, check_same_turns, checked_frame, missing_columns
from .errors import counted
from .events import OBSERVERS, observed
from .foreign import (
    Answers,
    Foreign,
    held_by,
    inspected_subpipelines,
    is_asked,
    is_fingerprinted,
    loader_of,
    named_file,
)

OperatorT = TypeVar("OperatorT", bound="Operator")
Transform = Callable[[Any, pd.DataFrame], pd.DataFrame]


def _entered(transform: Transform) -> Transform:
    """Wrap a stage's work: frames are checked on the way in and out, and observers are told."""

    @wraps(transform)
    def run(self: Any, inp: pd.DataFrame) -> pd.DataFrame:
        inp = checked_frame(self, inp)
        try:
            if OBSERVERS.get():
                out = observed(self, inp, partial(transform, self, inp))
            else:
                out = transform(self, inp)
        except pt.validate.InputValidationError as error:
            raise missing_columns(self, inp, error) from None
        if self.one_row_per_turn:
            check_same_turns(self, inp, out)
        return out

    return run


class _Cutoff(pt.RankCutoff):
    def schematic(self, *, input_columns: Any = None) -> dict[str, Any]:
        drawn = super().schematic(input_columns=input_columns)  # type: ignore[no-untyped-call]
        return {**drawn, "help_url": ""}  # otherwise drawing looks it up on the network


class Operator(Answers, Checked, pt.Transformer):
    """A PyTerrier transformer that is a value: equal arguments make equal operators.

    Subclasses store every ``__init__`` argument under its own name and set ``schematic = {"label":
    ...}`` (at most 20 characters). Because equal operators are found by ``==`` and ``hash``,
    ``pt.Experiment(..., plan="tree")`` runs a stage once when several systems start with it.

    The attributes and methods below are what a run asks a stage. Override what differs.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Interleave(num_results=100)
        ikat.Interleave(num_results=100)
        >>> ikat.Interleave() == ikat.Interleave()
        True
    """

    one_row_per_turn: ClassVar[bool] = False
    """Whether it returns one row per input row, in their order, and treats each row independently.
    Such stages at the beginning of a pipeline run for all turns at once, so that a model gets as
    many concurrent requests as it allows; the later stages run batch by batch."""

    loads_models: ClassVar[bool] = False
    """Whether its first use loads a model. Before a run it gets one row, so that a model that can't
    be loaded is found before anything is paid for."""

    reads_texts: ClassVar[bool] = True
    """Whether it may read the column ``text`` of its input, besides passing it on. It isn't
    inherited, because only a subclass knows what it reads."""

    on_passages: ClassVar[str] = ""
    """The operator that does the same with passages that are there already, for the error where it
    gets passages in place of turns."""

    activity: ClassVar[str] = ""
    """Its work in words, for a user who waits for an answer, such as ``"rewriting"`` or
    ``"searching {queries}"``; see :meth:`doing`."""

    drawn_as: ClassVar[str] = ""
    """Its name in drawings, taken from ``schematic``; empty for the name of its class."""

    last_in_repr: ClassVar[Sequence[str]] = ()
    """Arguments that stand behind those of subclasses, in this order."""

    gives_texts: bool = True
    """Whether it looks up the texts of the passages that it finds; see :meth:`without_texts`."""

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.reads_texts = cls.__dict__.get("reads_texts", True)
        drawing = cls.__dict__.get("schematic")
        if isinstance(drawing, dict):
            drawing.setdefault("help_url", "")  # without it, drawing asks the network
            cls.drawn_as = str(drawing.get("label", ""))
        elif drawing is not None:
            cls.drawn_as = ""
        if "transform" in cls.__dict__:
            cls.transform = _entered(cls.transform)  # type: ignore[assignment]

    def __mod__(self, right: int) -> pt.Transformer:
        return self >> _Cutoff(right)

    def plan(self, frame: pd.DataFrame, plan: Any) -> pd.DataFrame:
        """Return the frame after this stage in a plan, where nothing is asked, loaded or retrieved.

        By default an operator that turns queries into queries is run, and one that returns passages
        keeps the turns unchanged. Override this method where running would load or ask a model:
        count requests by ``plan.ask`` and inner pipelines by ``plan.follow``.

        Args:
            frame: its input, with stand-ins for texts that are not written yet.
            plan: the :class:`~pyterrier_ikat.planning.Plan`, which imports this class.
        """
        planned: pd.DataFrame = plan.by_columns(self, frame)
        return planned

    def parts(self) -> list[Any]:
        """Return the values in which its models, indexes, folders and files are looked for.

        With its repr and its prompts, these parts determine its results. By default the values are
        its arguments without the folder of prompts, because their texts count, and without a cache,
        because it is written to. :func:`parts_of` finds the parts.
        """
        arguments = self.arguments().items()
        return [value for name, value in arguments if name not in ("prompts", "cache")]

    def subpipelines(self) -> list[pt.Transformer]:
        """Return the pipelines that it runs inside, such as the branches of a fusion."""
        nesting = (pt.Transformer, list, tuple)
        if not any(isinstance(value, nesting) for value in self.arguments().values()):
            return []  # PyTerrier would inspect the class first
        return inspected_subpipelines(self)

    def is_untracked(self) -> bool:
        """Return whether it depends on something whose change can't be noticed."""
        return False

    def passages_at_most(self) -> int | None:
        """Return the maximum number of passages per query, by default ``num_results``."""
        number = self.arguments().get("num_results")
        return number if isinstance(number, int) else None

    def without_texts(self: OperatorT) -> OperatorT:
        """Return a copy that may omit the column ``text``, if no later stage reads it."""
        return self._copy(gives_texts=False)

    def _copy(self: OperatorT, **changed: Any) -> OperatorT:
        """Return a copy with changed attributes, which shares everything that is open."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), **changed)
        return copied

    def citing(self: OperatorT) -> OperatorT | None:
        """Return a copy that asks for citations of its passages, or None if it can't."""
        return None

    def limited(self: OperatorT, words: int) -> OperatorT | None:
        """Return a copy whose response has at most this many words, or None if it has no limit."""
        return None

    def own_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame that others read, too, as it is: an operator never changes its input."""
        return frame

    def name_shown(self) -> str:
        """Return its name in drawings, or that of its class."""
        return self.drawn_as or type(self).__name__

    def doing(self, frame: pd.DataFrame) -> str:
        """Describe its work on ``frame`` for a user who waits.

        The text is empty for an operator that neither loads nor asks a model.
        """
        asks = any(is_asked(value) for value in self.arguments().values())
        if not (self.activity or self.loads_models or asks):
            return ""
        words = self.activity or f"running {self.name_shown()}"
        words = words.replace("{queries}", counted(len(frame), "query"))
        return words.replace("{passages}", counted(len(frame), "passage"))

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str] | None:
        """Return a function that turns partial model output into displayable text.

        None if the output isn't an answer.
        """
        return None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments it was made with, by name, in the order of ``__init__``."""
        return {name: getattr(self, name) for name in self._defaults()}

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        """The default of each argument, those of ``last_in_repr`` last."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        defaults = {}
        for parameter in parameters:
            if parameter.kind not in variadic:
                defaults[parameter.name] = parameter.default
        for name in cls.last_in_repr:
            if name in defaults:
                defaults[name] = defaults.pop(name)
        return defaults

    def __repr__(self) -> str:
        arguments: list[str] = []
        defaults = self._defaults()
        for name, value in self.arguments().items():
            default = defaults.get(name, inspect.Parameter.VAR_POSITIONAL)
            if default is inspect.Parameter.VAR_POSITIONAL:
                arguments += map(repr, value)
            elif default is inspect.Parameter.empty:
                arguments.append(repr(value))
            elif value != default:
                arguments.append(f"{name}={value!r}")
        return f"{self._called()}({', '.join(arguments)})"

    @classmethod
    @cache
    def _called(cls) -> str:
        """The class name as a user writes it, such as ``ikat.RRF``.

        A class of another package has its module's name in front.
        """
        package, *rooms = cls.__module__.split(".")
        if package == "__main__":
            return cls.__name__
        if package != __package__:
            return f"{cls.__module__}.{cls.__name__}"
        if cls.__name__ in _public_names(package):
            return f"ikat.{cls.__name__}"
        if cls.__name__ in _public_names(f"{package}.{rooms[0]}"):
            return f"ikat.{rooms[0]}.{cls.__name__}"
        return f"ikat.{cls.__name__}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Operator) or type(self) is not type(other):
            return NotImplemented
        return self.gives_texts == other.gives_texts and self.arguments() == other.arguments()

    def __hash__(self) -> int:
        arguments = tuple(_hashable(value) for value in self.arguments().values())
        return hash((type(self), self.gives_texts, arguments))


def _public_names(module: str) -> Sequence[str]:
    names: Sequence[str] = getattr(sys.modules.get(module), "__all__", ())
    return names


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    hashable: Hashable = value
    return hashable


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def with_fields(cls: type[OperatorT]) -> type[OperatorT]:
    """Make the annotated attributes of an operator its arguments, as `dataclasses.dataclass` does.

    Example:
        >>> @with_fields
        ... class Shout(Operator):
        ...     mark: str = "!"
        ...     def transform(self, inp):
        ...         return inp.assign(query=inp["query"] + self.mark)
        >>> Shout("?").arguments()
        {'mark': '?'}
    """
    operator_class = dataclass(eq=False, repr=False)(cls)
    operator_class.__doc__ = _with_inherited_arguments(operator_class)
    return operator_class


_ARGUMENTS = re.compile(r"^Args:\n(?: {4}.+\n?)+", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}(\w+): .+\n?(?: {5,}.+\n?)*", re.MULTILINE)


def _with_inherited_arguments(cls: type) -> str | None:
    """The docstring of a class. Arguments that only a base class describes follow its own."""
    text = inspect.cleandoc(cls.__doc__ or "")
    own_section = _ARGUMENTS.search(text)
    if own_section is None:
        return cls.__doc__
    described: dict[str, str] = {}
    for base in cls.__mro__:
        section = _ARGUMENTS.search(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        if section is None:
            continue
        for argument in _ARGUMENT.finditer(section[0]):
            described.setdefault(argument[1], argument[0].rstrip())
    lines = [own_section[0].rstrip()]
    for argument_field in fields(cls):  # type: ignore[arg-type]
        entry = described.get(argument_field.name)
        if argument_field.init and entry is not None and entry not in own_section[0]:
            lines.append(entry)
    return text[: own_section.start()] + "\n".join(lines) + "\n" + text[own_section.end() :]


# Pipelines, whose stages are seen through one face


def face(stage: pt.Transformer) -> Operator | Foreign:
    """Return the stage as a run sees it: itself if it is an operator, else a :class:`Foreign`.

    A ``pt.Compose`` is flattened by :func:`stages` before its stages are asked.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> face(ikat.Interleave()), face(pt.RankCutoff(10)).passages_at_most()
        (ikat.Interleave(), 10)
    """
    return stage if isinstance(stage, Operator) else Foreign(stage)


def stages(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """Yield the stages of a pipeline, in order, nested compositions flattened."""
    if isinstance(pipeline, pt.Compose):
        for stage in pipeline:
            yield from stages(stage)
    else:
        yield pipeline


def every_stage(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """Yield the stages of a pipeline, each followed by those of its inner pipelines."""
    for stage in stages(pipeline):
        yield stage
        for inner in subpipelines(stage):
            yield from every_stage(inner)


def subpipelines(stage: pt.Transformer) -> list[pt.Transformer]:
    """Return the pipelines that a stage runs inside, such as the branches of a union."""
    return face(stage).subpipelines()


def citing(pipeline: pt.Transformer) -> pt.Transformer:
    """Turn on citations in the last stage that supports them.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos [1]." for chat in chats]
        >>> citing(ikat.Respond(ikat.llm(Model()), passages=3) >> ikat.Interleave())
        (ikat.Respond(ikat.llm('Model'), passages=3, cite=True) >> ikat.Interleave())
    """
    cited = _last_changed(pipeline, lambda stage: face(stage).citing())
    return pipeline if cited is None else cited


def limited(pipeline: pt.Transformer, words: int) -> pt.Transformer | None:
    """Limit the response of the last stage that has a limit; None if no stage has one.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> limited(ikat.Respond(ikat.llm("recorded:sample")) % 10, 100)
        (ikat.Respond(ikat.llm('recorded:sample'), words=100) >> RankCutoff(10))
    """
    return _last_changed(pipeline, lambda stage: face(stage).limited(words))


def _last_changed(
    pipeline: pt.Transformer, change: Callable[[pt.Transformer], pt.Transformer | None]
) -> pt.Transformer | None:
    """The pipeline with the last stage replaced that ``change`` has another one for, or None."""
    before = list(stages(pipeline))
    after: list[pt.Transformer] = []
    while before:
        stage = before.pop()
        changed = change(stage)
        if changed is not None:
            return _composed([*before, changed, *after])
        after.insert(0, stage)
    return None


def _composed(parts: Sequence[pt.Transformer]) -> pt.Transformer:
    return parts[0] if len(parts) == 1 else pt.Compose(*parts)


def label_of(stage: pt.Transformer) -> str:
    """Return a stage's name in drawings, or that of its class.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> label_of(ikat.Interleave()), label_of(pt.Transformer.identity())
        ('Interleave', 'IdentityTransformer')
    """
    return face(stage).name_shown()


def parts_of(value: Any) -> Iterator[Any]:
    """Yield the models, indexes, folders and files in ``value``, an argument or a pipeline.

    Models and indexes are whatever has a ``fingerprint()``. For a stage of another package they are
    looked for in its attributes, see :mod:`pyterrier_ikat.foreign`.
    """
    return _parts_of(value, {})


def _parts_of(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Yield the parts of a value. Each object is searched once.

    ``seen`` has the objects by identity, and keeps them, so that no other one gets their identity.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _parts_of(item, seen)
        return
    if isinstance(value, str | Path):
        yield from _named_by(value)
        return
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, Operator):
        yield from _parts_of(value.parts(), seen)
    elif is_fingerprinted(value):
        yield value
        yield from _parts_of(loader_of(value), seen)
    elif isinstance(value, pt.Transformer):
        yield from _parts_of(face(value).parts(), seen)
    else:
        yield from _parts_of(held_by(value), seen)


def _named_by(text: str | Path) -> Iterator[Any]:
    """Yield the folder or the file that an argument names, if it names one."""
    if os.path.isdir(text):  # never an error, however long the text is
        yield str(text)
        return
    file = named_file(text)
    if file is not None:
        yield file


def unidentified_stages(pipeline: pt.Transformer) -> list[str]:
    """Return the stages that can't be identified.

    They show an address in memory, or hold a function or untracked files or objects, and have no
    fingerprint of their own.
    """
    unidentified: dict[str, None] = {}
    for stage in every_stage(pipeline):
        seen = face(stage)
        if isinstance(seen, Foreign) and is_fingerprinted(stage):
            continue
        is_alike = " at 0x" in repr(stage) or _holds_function(seen)
        if seen.is_untracked() or (is_alike and not seen.subpipelines()):
            unidentified[repr(stage)] = None
    return list(unidentified)


def _holds_function(face_of_stage: Operator | Foreign) -> bool:
    functions = (FunctionType, MethodType, partial)
    return any(isinstance(value, functions) for value in face_of_stage.arguments().values())


def frame_for(stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` for a stage when others read the same frame.

    A stage of another package gets a copy, because it may write into it.
    """
    return face(stage).own_frame(frame)


def without_unread_texts(pipeline: pt.Transformer) -> pt.Transformer:
    """Return the pipeline for a caller that doesn't read passage texts: it may omit ``text``.

    Looking up 1000 texts takes several times as long as a search. So the stages are asked from the
    last one backwards whether they read texts. One that doesn't answer reads them, and so does
    every stage of another package, except a rank cutoff.

    Example:
        >>> import tempfile, pandas as pd, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "green tea"}]
        >>> bm25 = ikat.PassageIndex(tempfile.mkdtemp()).index(passages).bm25()
        >>> turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
        >>> list(without_unread_texts(bm25 % 5)(turns).columns)
        ['qid', 'query', 'docno', 'score', 'rank']
    """
    before = list(stages(pipeline))
    after: list[pt.Transformer] = []
    while before and not face(before[-1]).reads_texts:
        stage = face(before.pop())
        after.insert(0, stage.without_texts())
        if stage.subpipelines():  # it may read the texts of its input
            break
    return _composed([*before, *after]) if after else pipeline
