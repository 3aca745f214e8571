"""The base of all operators: a repr that can be pasted back, value equality, and the questions that planning and running ask a stage.

Planning and running never ask for the class of a stage. They use this protocol:
:meth:`Operator.plan` estimates the stage's requests to a language model and its output;
``one_row_per_turn`` says whether a run may be cut into batches after it; :meth:`Operator.parts`
lists what a finished run depends on; ``loads_models`` says whether to try the stage before anything
is paid for; ``reads_texts`` says whether it may read passages' texts; :meth:`Operator.citing` makes
it cite passages; :meth:`Operator.doing` describes its work for a user who waits for an answer. A
stage of another package is identified by its repr and by the models and indexes in its attributes.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial, wraps
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd
import pyterrier as pt
from typing_extensions import dataclass_transform

from .arguments import Checked, checked_frame, missing_columns
from .errors import DataError, counted
from .events import OBSERVERS, observed
from .foreign import held_by, named_file, untold

if TYPE_CHECKING:
    from .planning import Plan

Made = TypeVar("Made", bound="Operator")


COPIES_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
"""Whether pandas copies the columns of a shallow copy when they are written to."""


Transform = Callable[[Any, pd.DataFrame], pd.DataFrame]


def _entered(transform: Transform) -> Transform:
    """Wrap a stage's work: the frames are checked, and the observers are told."""

    @wraps(transform)
    def run(self: Any, inp: pd.DataFrame) -> pd.DataFrame:
        inp = checked_frame(self, inp)
        try:
            found = (
                observed(self, inp, partial(transform, self, inp))
                if OBSERVERS.get()
                else transform(self, inp)
            )
        except pt.validate.InputValidationError as error:
            raise missing_columns(self, inp, error) from None
        if self.one_row_per_turn and not (
            found["qid"].array.equals(inp["qid"].array) or [*found["qid"]] == [*inp["qid"]]
        ):
            repair = "return one row per row, in their order, or set one_row_per_turn = False"
            raise DataError(
                f"{self!r} got {len(inp)} rows and returned {len(found)}, or other turns: {repair}"
            )
        return found

    return run


class _Cutoff(pt.RankCutoff):
    def schematic(self, *, input_columns: Any = None) -> dict[str, Any]:
        drawn = super().schematic(input_columns=input_columns)  # type: ignore[no-untyped-call]
        return {**drawn, "help_url": ""}  # otherwise drawing looks it up on the network


class Operator(Checked, pt.Transformer):
    """A PyTerrier transformer that is a value: equal arguments make equal operators.

    Subclasses store every ``__init__`` argument under its own name and set ``schematic = {"label":
    ...}`` (at most 20 characters). Because equal operators are found by ``==`` and ``hash``,
    ``pt.Experiment(..., plan="tree")`` runs a stage once when several systems start with it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Interleave(num_results=100)
        ikat.Interleave(num_results=100)
        >>> ikat.Interleave() == ikat.Interleave()
        True
    """

    one_row_per_turn: ClassVar[bool] = False
    """Whether it returns one row per input row, in their order, and treats each row independently. Such stages at the beginning
    of a pipeline run for all turns at once, so that a model gets as many concurrent requests as it
    allows; the later stages run batch by batch."""

    loads_models: ClassVar[bool] = False
    """Whether its first use loads a model. Before a run it gets one row, so that a model that can't be loaded is found before anything
    is paid for."""

    reads_texts: ClassVar[bool] = True
    """Whether it may read the column ``text`` of its input, besides passing it on. It isn't inherited, because only a subclass knows what
    it reads."""

    on_passages: ClassVar[str] = ""
    """The operator that does the same with passages that are there already, for the error where it gets passages in place of turns."""

    gives_texts: bool = True
    """Whether it looks up the texts of the passages that it finds; see :meth:`without_texts`."""

    activity: ClassVar[str] = ""
    """Its work in words, for a user who waits for an answer, such as ``"rewriting"`` or ``"searching {queries}"``; see :meth:`doing`."""

    last_in_repr: ClassVar[Sequence[str]] = ()
    """Arguments that stand behind those of subclasses, in this order."""

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.reads_texts = cls.__dict__.get("reads_texts", True)
        if isinstance(label := cls.__dict__.get("schematic"), dict):
            label.setdefault(
                "help_url", ""
            )  # without it, drawing a pipeline looks its documentation up on the network
        if "transform" in cls.__dict__:
            cls.transform = _entered(cls.transform)  # type: ignore[assignment]

    def __mod__(self, right: int) -> pt.Transformer:
        return self >> _Cutoff(right)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The frame after this stage in a plan, where no model is loaded or asked and nothing is retrieved.

        By default an operator that turns queries into queries is run, and one that returns passages
        keeps the turns unchanged. Override this method where running would load or ask a model:
        count requests by ``plan.ask`` and inner pipelines by ``plan.follow``.
        """
        return plan.by_columns(self, frame)

    def parts(self) -> Iterator[Any]:
        """The language models, indexes, folders and files in its arguments.

        With its repr and its prompts, they determine its results. A folder of prompts is not among
        them, because their texts count, and no cache, because it is written to.
        """
        return parts_of(
            [value for name, value in self.arguments().items() if name not in ("prompts", "cache")]
        )

    def without_texts(self: Made) -> Made:
        """This operator for a pipeline in which no later stage reads texts: it may omit the column ``text``."""
        found = object.__new__(type(self))  # with all that is open
        vars(found).update(vars(self), gives_texts=False)
        return found

    def citing(self: Made) -> Made | None:
        """This operator, asking for citations of the passages that its text rests on; None for one that can't.

        A stage of another package may also have this method; see :func:`citing`.
        """
        return None

    def doing(self, frame: pd.DataFrame) -> str:
        """A description of its work on ``frame`` for a user who waits. Empty for an operator that neither loads nor asks a model."""
        waits = (
            self.activity
            or self.loads_models
            or any(hasattr(one, "ask") for one in self.arguments().values())
        )
        if not waits:
            return ""
        rows = len(frame)
        said = self.activity or f"running {label_of(self)}"
        return said.replace("{queries}", counted(rows, "query")).replace(
            "{passages}", counted(rows, "passage")
        )

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str] | None:
        """What makes of the text that a model still writes for a turn what its user may read; None where the text is not an answer."""
        return None

    def arguments(self) -> dict[str, Any]:
        """The arguments this operator was made with, by name, in the order of ``__init__``."""
        return {name: getattr(self, name) for name in self._defaults()}

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        fixed, last = (
            (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD),
            cls.last_in_repr,
        )
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        found = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.kind not in fixed
        }
        return {
            name: found[name]
            for name in sorted(found, key=lambda name: last.index(name) if name in last else -1)
        }

    def __repr__(self) -> str:
        shown: list[str] = []
        defaults = self._defaults()
        for name, value in self.arguments().items():
            default = defaults.get(name, inspect.Parameter.VAR_POSITIONAL)
            if default is inspect.Parameter.VAR_POSITIONAL:
                shown += map(repr, value)
            elif default is inspect.Parameter.empty:
                shown.append(repr(value))
            elif value != default:
                shown.append(f"{name}={value!r}")
        return f"{self._called()}({', '.join(shown)})"

    @classmethod
    @cache
    def _called(cls) -> str:
        """The class name as a user writes it, such as ``ikat.RRF``. A class of another package has its module's name in front."""
        house, *rooms = cls.__module__.split(".")
        if house != __package__:
            return cls.__name__ if house == "__main__" else f"{cls.__module__}.{cls.__name__}"
        front = sys.modules[house].__all__
        listed = getattr(sys.modules.get(f"{house}.{rooms[0]}"), "__all__", ())
        of = f"ikat.{rooms[0]}" if cls.__name__ in listed and cls.__name__ not in front else "ikat"
        return f"{of}.{cls.__name__}"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        same = isinstance(other, Operator) and self.gives_texts == other.gives_texts
        return same and self.arguments() == other.arguments()

    def __hash__(self) -> int:
        return hash(
            (
                type(self),
                self.gives_texts,
                tuple(_hashable(value) for value in self.arguments().values()),
            )
        )


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def with_fields(cls: type[Made]) -> type[Made]:
    """An operator whose arguments are its annotated attributes, as in a `dataclasses.dataclass`.

    Example:
        >>> @with_fields
        ... class Shout(Operator):
        ...     mark: str = "!"
        ...     def transform(self, inp):
        ...         return inp.assign(query=inp["query"] + self.mark)
        >>> Shout("?").arguments()
        {'mark': '?'}
    """
    made = dataclass(eq=False, repr=False)(cls)
    made.__doc__ = _with_inherited_arguments(made)
    return made


_ARGUMENTS = re.compile(r"^Args:\n(?: {4}.+\n?)+", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}(\w+): .+\n?(?: {5,}.+\n?)*", re.MULTILINE)


def _with_inherited_arguments(cls: type) -> str | None:
    """The docstring of a class. Arguments that only a base class describes follow its own."""
    text = inspect.cleandoc(cls.__doc__ or "")
    own = _ARGUMENTS.search(text)
    if own is None:
        return cls.__doc__
    described: dict[str, str] = {}
    for base in cls.__mro__:
        section = _ARGUMENTS.search(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        for argument in _ARGUMENT.finditer(section[0] if section else ""):
            described.setdefault(argument[1], argument[0].rstrip())
    given = [described[one.name] for one in fields(cls) if one.init and one.name in described]  # type: ignore[arg-type]
    lines = [own[0].rstrip(), *(entry for entry in given if entry not in own[0])]
    return text[: own.start()] + "\n".join(lines) + "\n" + text[own.end() :]


def stages(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """The stages of a pipeline, in order, nested compositions flattened."""
    if isinstance(pipeline, pt.Compose):
        for stage in pipeline:
            yield from stages(stage)
    else:
        yield pipeline


def every_stage(pipeline: pt.Transformer) -> Iterator[pt.Transformer]:
    """The stages of a pipeline, each followed by those of the pipelines that it runs inside."""
    for stage in stages(pipeline):
        yield stage
        for inner in subpipelines(stage):
            yield from every_stage(inner)


def citing(pipeline: pt.Transformer) -> pt.Transformer:
    """A pipeline whose response cites its passages: the last stage that can ask for it does; a pipeline without one stays as it is.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos [1]." for chat in chats]
        >>> citing(ikat.Respond(ikat.llm(Model()), passages=3) >> ikat.Interleave())
        (ikat.Respond(ikat.llm('Model'), passages=3, cite=True) >> ikat.Interleave())
    """
    found = list(stages(pipeline))
    for place in reversed(range(len(found))):
        asked = getattr(found[place], "citing", None)  # of another package's stage, where it has it
        turned = asked() if asked is not None else None
        if turned is not None:
            found[place] = turned
            return pt.Compose(*found) if len(found) > 1 else turned
    return pipeline


def label_of(stage: pt.Transformer) -> str:
    """A stage's name in drawings, or that of its class.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> label_of(ikat.Interleave()), label_of(pt.Transformer.identity())
        ('Interleave', 'IdentityTransformer')
    """
    drawn = getattr(type(stage), "schematic", None)
    return (
        str(drawn["label"])
        if isinstance(drawn, dict) and drawn.get("label")
        else type(stage).__name__
    )


def subpipelines(stage: pt.Transformer) -> list[pt.Transformer]:
    """The pipelines that a stage runs inside, such as the branches of a union."""
    nested: list[pt.Transformer] = []
    if isinstance(stage, pt.Compose):
        return list(stage)  # as PyTerrier finds them, which would read the signature of its class
    if isinstance(stage, Operator) and not any(
        isinstance(value, pt.Transformer | list | tuple) for value in stage.arguments().values()
    ):
        return nested  # PyTerrier would inspect the class first
    for found in pt.inspect.subtransformers(stage).values():
        nested += found if isinstance(found, Sequence) else [found]
    return nested


def parts_of(value: Any) -> Iterator[Any]:
    """The language models, indexes (whatever has a ``fingerprint()``), folders and files in ``value``, an argument or a pipeline.

    For a stage of another package they are looked for in its attributes, see
    :mod:`pyterrier_ikat.foreign`.
    """
    return _parts_of(value, {})


def _parts_of(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Objects are looked at once. ``seen`` has them by identity, and keeps them, so that no other one gets their identity."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _parts_of(one, seen)
    elif isinstance(value, str | Path):
        if os.path.isdir(value):  # never an error, however long the text is
            yield str(value)
        elif (file := named_file(value)) is not None:
            yield file
    elif id(value) not in seen:
        seen[id(value)] = value
        if isinstance(value, Operator):
            yield from value.parts()
        elif callable(getattr(value, "fingerprint", None)):
            yield value
            yield from _parts_of(getattr(value, "text", None), seen)
        else:
            if isinstance(value, pt.Transformer):
                yield from _parts_of(subpipelines(value), seen)
            for one in held_by(value):
                yield from _parts_of(one, seen)


def alike(pipeline: pt.Transformer) -> list[str]:
    """The stages that can't be identified: those that show an address in memory, or hold a function or untold files or objects."""
    found: dict[str, None] = {}
    for stage in every_stage(pipeline):
        shown = repr(stage)
        is_untold = not isinstance(stage, Operator) and untold(stage)
        is_alike = " at 0x" in shown or _holds_function(stage)
        if is_untold or (is_alike and not subpipelines(stage)):
            found[shown] = None
    return list(found)


def _holds_function(stage: pt.Transformer) -> bool:
    held = stage.arguments() if isinstance(stage, Operator) else vars(stage)
    return any(isinstance(value, FunctionType | MethodType | partial) for value in held.values())


def frame_for(stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` for a stage when others read the same frame. A stage of another package gets a copy, because it may write into it."""
    return frame if isinstance(stage, Operator) else frame.copy(deep=not COPIES_ON_WRITE)


def without_unread_texts(pipeline: pt.Transformer) -> pt.Transformer:
    """The pipeline for a caller that doesn't read passage texts: it may omit the column ``text``. Everything else is the same.

    Looking up 1000 texts takes several times as long as a search. So the stages are asked from the
    last one backwards whether they read texts. One that doesn't answer reads them, and so does
    every stage of another package, except a rank cutoff.

    Example:
        >>> import tempfile, pandas as pd, pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex(tempfile.mkdtemp()).index([{"docno": "d1", "text": "green tea"}]).bm25()
        >>> turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
        >>> list(without_unread_texts(bm25 % 5)(turns).columns)
        ['qid', 'query', 'docno', 'score', 'rank']
    """
    before = list(stages(pipeline))
    behind: list[pt.Transformer] = []
    while before and not getattr(
        before[-1], "reads_texts", not isinstance(before[-1], pt.RankCutoff)
    ):
        stage: Any = before.pop()
        behind.insert(0, stage.without_texts() if hasattr(stage, "without_texts") else stage)
        if subpipelines(stage):  # it may read the texts of its input
            break
    return pt.Compose(*before, *behind) if behind else pipeline


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    hashable: Hashable = value
    return hashable
