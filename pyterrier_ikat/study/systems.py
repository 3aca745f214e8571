"""Systems: pipelines with names and resources, checked before they run; the identity of a run."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations import Conversation, conversation
from ..conversations.datasets import IkatDataset
from ..errors import UsageError, advice, counted, option
from ..foreign import ADDRESS, HeldFiles, fingerprint_of
from ..generate.respond import ABSTENTION
from ..llms import LLM, Ledger
from ..llms.spec import deciding_options
from ..methods import Method, find_all, methods_of
from ..operator import citing, every_stage, face, limited, parts_of, stages, subpipelines
from ..retrieve.artifact import IndexArtifact
from ..search_index import SearchIndex
from ..store.cache import digest
from ..store.models import model_state
from .resources import OF_SPLADE, OpenedResources, Resources, deviations, unused

SystemLike = str | Method | Callable[..., pt.Transformer] | pt.Transformer
"""The values that a user can give as systems."""
Systems = SystemLike | Mapping[str, SystemLike] | Sequence[SystemLike]
RESOURCE_NAMES = tuple(item.name for item in fields(Resources))


@dataclass(frozen=True, eq=False)
class System:
    """A pipeline with its name and its resources; :func:`open_systems` makes and checks it.

    Attributes:
        method: its name, and the facts from its paper.
        pipeline: the expression.
        resources: its opened resources. Systems that are opened together share them.
        deviations: how its models and its retriever differ from those of its paper, one line each.
        repeat: the number of its run, from 1, if it is run several times.
        recorded: the conversations that its recorded completions answer, if they are known.
    """

    method: Method
    pipeline: pt.Transformer
    resources: Resources = Resources()
    deviations: Sequence[str] = ()
    repeat: int = 1
    recorded: Sequence[Conversation] = field(default=(), repr=False)

    @classmethod
    def of(cls, pipeline: pt.Transformer, name: str = "") -> "System":
        """A pipeline that already has all its resources."""
        return cls(Method(name, lambda: pipeline), pipeline)

    @cached_property
    def name(self) -> str:
        """The name of its run. The first one has the name of the system."""
        return self.method.name if self.repeat == 1 else f"{self.method.name}.repeat-{self.repeat}"

    @property
    def models(self) -> list[LLM]:
        """Its language models."""
        return [part for part in parts_of(self.pipeline) if isinstance(part, LLM)]

    @property
    def replays(self) -> bool:
        """Whether one of its models replays recorded completions."""
        return any(model.backend.replays for model in self.models)

    @property
    def waits(self) -> bool:
        """Whether one of its models asks in batches, which take up to a day."""
        return any(model.batches for model in self.models)

    @cached_property
    def writes_response(self) -> bool | None:
        """Whether it writes a response for the user; None if a stage doesn't say what it writes.

        This is the response of ``Respond``, or of a system that retrieves nothing.
        """
        columns = self.columns(conversation([{"role": "user", "content": "?"}]))
        if columns is None:
            return None
        return "used" in columns or ("qanswer" in columns and "docno" not in columns)

    @cached_property
    def abstention(self) -> str:
        """Its response to a turn for which nothing was found.

        That of its last stage which has one, or the one of ``Respond``.
        """
        abstention = ABSTENTION
        for stage in every_stage(self.pipeline):
            abstention = face(stage).abstains_with() or abstention
        return abstention

    @cached_property
    def retriever(self) -> pt.Transformer | None:
        """Its first stage that finds passages for a query without asking a language model."""
        return next((stage for stage in every_stage(self.pipeline) if _retrieves(stage)), None)

    def columns(self, turns: pd.DataFrame) -> list[str] | None:
        """Return the columns of its results for these turns; None if a stage can't name them.

        Raises:
            UsageError: when its stages can't work with the columns of these turns.
        """
        try:
            return list(pt.inspect.transformer_outputs(self.pipeline, list(turns.columns)))
        except pt.inspect.InspectError:
            return None
        except pt.validate.InputValidationError as error:
            message = f"system {self.method.name} does not work on these topics: {error}"
            index = self.resources.index
            if index is not None and not index.has_text:
                repair = "let its retriever() return the column text"
                if isinstance(index, IndexArtifact):
                    repair = f"give {option('texts')}"
                message += f"; the index {index.path} has no texts: {repair}"
            raise UsageError(message) from None

    def parameters(self) -> dict[str, Any]:
        """Return the identity of its results apart from the turns.

        That are its stages, prompt texts, and the state of models, indexes and folders. Stages are
        identified by their repr, see :meth:`written`.
        """
        shown = {}
        prompts = defaultdict[str, list[str]](list)
        for number, stage in enumerate(stages(self.pipeline), 1):
            shown[str(number)] = self.written(repr(stage))
            for inner in every_stage(stage):
                for template, checksum in face(inner).prompt_checksums().items():
                    prompts[f"{number} {template}"].append(checksum)
        states = {}
        on_error = {}
        for name, part in self._parts:
            if isinstance(part, str):
                states[name] = digest("model", *model_state(part)).hex()
            else:
                states[name] = fingerprint_of(part)
            if isinstance(part, LLM):
                on_error[name] = part.on_error
        return {
            "prompts": {name: " ".join(checksums) for name, checksums in prompts.items()},
            "stages": shown,
            "parts": states,
            "on_error": on_error,
            "expression": self.written(repr(self.pipeline)),
        }

    def written(self, text: str) -> str:
        """Return the repr of a stage as it stands in run folders.

        It omits what doesn't change results.

        That is the path of an index (which has a fingerprint), the folder of prompts (whose texts
        count), the budget of an LLM, and an address in memory.
        """
        for shown, name in self._names.items():
            text = text.replace(shown, name)
        return ADDRESS.sub("", text)

    @cached_property
    def _names(self) -> dict[str, str]:
        """The repr of a part -> its name in run folders. The longest are replaced first."""
        names = {}
        for name, part in reversed(self._parts):
            if not isinstance(part, str | HeldFiles) and not _is_stage(part):
                names[repr(part)] = name
        read = [face(stage).own_prompts() for stage in every_stage(self.pipeline)]
        folders = dict.fromkeys(folder for folder in read if folder is not None)
        for number, folder in enumerate(folders, 1):
            name = "own" if number == 1 else f"own {number}"
            names[f"prompts={folder!r}"] = f"prompts={name!r}"
        return {shown: names[shown] for shown in sorted(names, key=len, reverse=True)}

    @property
    def _parts(self) -> list[tuple[str, Any]]:
        """Its language models, indexes, folders and files, with their names in run folders.

        A stage with a fingerprint has the name of its class.
        """
        distinct: dict[Any, Any] = {}
        for part in parts_of(self.pipeline):
            key: Any = id(part)
            if isinstance(part, str):
                key = part
            elif isinstance(part, HeldFiles):
                key = part.path
            before = distinct.get(key)
            # of an artifact it is known which of its files count
            if not (isinstance(before, HeldFiles) and before.artifact):
                distinct[key] = part
        names_and_parts: list[tuple[str, Any]] = []
        of_kind = Counter[str]()
        for part in distinct.values():
            if isinstance(part, str):
                name = part
            elif isinstance(part, HeldFiles):
                name = part.path
            elif isinstance(part, LLM):
                name = f"ikat.llm({deciding_options(part.spec)!r})"
            else:
                name = type(part).__name__ if _is_stage(part) else "index"
                of_kind[name] += 1
                if of_kind[name] > 1:
                    name = f"{name} {of_kind[name]}"
            names_and_parts.append((name, part))
        return names_and_parts

    @property
    def may_be_written(self) -> set[str]:
        """The names of files that a stage may write itself while it runs.

        Those are the files of an object that is no artifact of PyTerrier.
        """
        names = set()
        for name, part in self._parts:
            if isinstance(part, HeldFiles) and not part.artifact:
                names.add(name)
        return names


def _is_stage(part: Any) -> bool:
    """Whether a part with a fingerprint is a stage of another package, whose repr counts, too."""
    return isinstance(part, pt.Transformer) and not isinstance(part, pt.Artifact | SearchIndex)


def _retrieves(stage: pt.Transformer) -> bool:
    """Whether a stage finds passages by itself, without a language model."""
    if subpipelines(stage) or any(isinstance(part, LLM) for part in parts_of(stage)):
        return False
    outputs = pt.inspect.transformer_outputs(stage, ["qid", "query"], strict=False)
    return outputs is not None and "docno" in outputs


def open_systems(
    systems: Systems,
    ledger: Ledger | None = None,
    *,
    live: bool = False,
    connect: bool = False,
    only_plan: bool = False,
    cite: bool = False,
    spare: Collection[str] = (),
    **resources: Any,
) -> list[System]:
    """Check every name and resource, and build every system.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the ledger of language models that are given as text.
        live: whether users wait for the answers. Then a system that can't answer at once is an
            error, and every model is loaded.
        connect: whether language models will certainly be asked, so that a missing key is an error
            now. Otherwise they may answer from the cache alone.
        only_plan: load no model.
        cite: whether responses cite their passages, see :func:`~pyterrier_ikat.operator.citing`.
        spare: resources that may be given although no system takes them. Others are an error.
        **resources: see :class:`~pyterrier_ikat.study.Resources`; or arguments of the systems'
            functions, such as ``n=3``, for all that have them.

    Raises:
        UsageError: for an unknown system or option, or a missing or unused resource. With ``live``
            also for a system that reads manual rewrites or gold statements, a language model that
            asks in batches, or a model that can't be loaded.
        FatalLLMError: with ``connect``, when the key of a language model is missing.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> mine, = open_systems({"mine": ikat.Answer(ikat.llm(Model()))}, live=True)
        >>> mine.name, mine.pipeline, mine.writes_response
        ('mine', ikat.Answer(ikat.llm('Model')), True)
    """
    of_methods = {name: resources[name] for name in sorted(resources) if name not in RESOURCE_NAMES}
    methods, of_methods = _with_arguments(methods_in(systems), of_methods)
    resources = {name: value for name, value in resources.items() if name not in of_methods}
    if live:
        _check_live(methods)
    ledger = Ledger() if ledger is None else ledger
    common = Resources.of(resources, methods, spare)
    known: OpenedResources = {}
    opened = []
    for entry in methods:
        given = common
        if entry.own.get("retriever", "splade") != "splade":
            given = replace(given, **dict.fromkeys(OF_SPLADE))
        given = replace(given, **entry.own)
        opened.append(_open_system(entry, given, given.opened(ledger, known), cite))
    if common.prompts is not None and "prompts" not in spare:
        _check_prompts_are_read(common.prompts, opened)
    if live:
        _check_answers_at_once(opened)
    if live and not only_plan:
        load_models(opened)
    if live and not only_plan and connect:
        for model in distinct_models(opened):
            model.open()
    return opened


def _with_arguments(
    methods: Sequence[Method], options: Mapping[str, Any]
) -> tuple[list[Method], dict[str, Any]]:
    """The methods with those options that are arguments of their functions, and these options."""
    taken = {}
    changed = []
    for entry in methods:
        arguments = {name: options[name] for name in options if name in entry.arguments}
        taken.update(arguments)
        changed.append(entry.with_arguments(arguments) if arguments else entry)
    return changed, taken


def _open_system(entry: Method, given: Resources, opened: Resources, cite: bool) -> System:
    """A method built on its resources."""
    pipeline = opened.build(entry)
    lines = deviations(entry, given, opened)
    return System(entry, citing(pipeline) if cite else pipeline, opened, lines)


def with_limit(systems: Sequence[System], words: int) -> list[System]:
    """Give the responses of systems a limit of words; those without a limit stay as they are.

    Raises:
        UsageError: when none of them has one.
    """
    changed = []
    has_limit = False
    for system in systems:
        pipeline = limited(system.pipeline, words)
        if pipeline is None:
            changed.append(system)
        else:
            has_limit = True
            changed.append(replace(system, pipeline=pipeline))
    if not has_limit:
        raise UsageError(
            f"{option('words')} limits the response of ikat.Respond, and no system here has this "
            f"stage: omit {option('words')}"
        )
    return changed


def _check_live(methods: Iterable[Method]) -> None:
    for entry in methods:
        if entry.manual:
            raise UsageError(
                f"method {entry.name} reads annotations of each turn, such as manual rewrites, and "
                "a live user gives none: choose another"
            )


def _check_answers_at_once(systems: Iterable[System]) -> None:
    """Check that the stages of each system fit together, and that it answers while a user waits."""
    for system in systems:
        _ = system.writes_response  # raises where stages don't fit together
        if system.waits:
            raise UsageError(
                f"a live user can't wait a day for an answer of {system.name}: omit batch=on in "
                "the specification of the LLM"
            )


def _check_prompts_are_read(folder: str | Path, systems: Iterable[System]) -> None:
    read = set()
    for system in systems:
        for stage in every_stage(system.pipeline):
            read.add(face(stage).own_prompts())
    if str(Path(folder).expanduser()) not in read:
        raise unused("prompts")


def methods_in(systems: Systems) -> list[Method]:
    """Return the systems as methods, each name once.

    Raises:
        UsageError: when a value is not a system, a system has no name, or two have the same name.
    """
    named: list[tuple[Any, Any]] = []
    if isinstance(systems, Mapping):
        named = list(systems.items())
    elif isinstance(systems, list | tuple):
        named = [(None, system) for system in systems]
    else:
        named = [(None, systems)]
    by_name: dict[str, Method] = {}
    for name, system in named:
        for entry in _methods_of(name, system):
            same = by_name.setdefault(entry.name, entry)
            if same.system is not entry.system or same.settings != entry.settings:
                raise UsageError(
                    f"two systems are named {entry.name!r}: give each its own name, or run them in "
                    "two calls"
                )
    if not by_name:
        raise UsageError("there is no system: give at least one")
    return list(by_name.values())


def _methods_of(name: Any, system: Any) -> list[Method]:
    """The methods of a system, or its only one with this name."""
    if isinstance(system, pt.Transformer):
        if name is None:
            raise UsageError(f"the pipeline {system!r} has no name: give {{'name': pipeline}}")
        return [Method(name, lambda: system)]
    if isinstance(system, str | Path):
        methods = find_all(str(system))
    elif isinstance(system, Method):
        methods = [system]
    elif callable(system):
        methods = methods_of(system)
    else:
        raise UsageError(
            f"a system is a {type(system).__name__}: give the name of a method, a function, or "
            "{'name': pipeline}"
        )
    if name is None:
        return methods
    if len(methods) > 1:
        several = ", ".join(entry.name for entry in methods)
        raise UsageError(
            f"system {name} is several methods ({several}): give one, or a list without names"
        )
    return [replace(methods[0], name=name)]


def check_ranking(name: str, columns: Iterable[str]) -> None:
    """Check that a result with these columns is a ranking of turns.

    Raises:
        UsageError: when it isn't.
    """
    present = set(columns)
    if "qid_0" in present:
        raise UsageError(
            f"system {name} ends in sub-queries, whose passages belong to no turn: end it with "
            "ikat.Interleave, ikat.Union, ikat.RRF, ikat.MeanScore or ikat.RerankAgainst"
        )
    lacking = [column for column in ("qid", "docno", "score", "rank") if column not in present]
    if lacking:
        raise UsageError(
            f"system {name} makes no ranking: its result has no {', '.join(lacking)}; end it with "
            "a retriever or re-ranker"
        )


def check_names(names: Iterable[Any], in_memory: bool = False) -> None:
    """Check that each system's name can be that of its folder; in memory, that it is a text.

    Raises:
        UsageError: when one can't.
    """
    for name in names:
        is_text = isinstance(name, str) and name.strip() != ""
        if is_text and (in_memory or (Path(name).name == name and not name.startswith("."))):
            continue
        raise UsageError(
            f"a system is named {name!r}: a name is a text that can be a folder's, without slash "
            "or leading dot"
        )


def load_models(systems: Iterable[System]) -> None:
    """Load every model once, so that one that can't be loaded is reported before an LLM is asked.

    Raises:
        UsageError: when one can't be loaded.
    """
    row = pd.DataFrame(
        {
            "qid": ["1_1"],
            "query": ["tea"],
            "docno": ["1"],
            "text": ["tea"],
            "score": [0.0],
            "rank": [0],
        }
    )
    loaded: list[Any] = []
    for system in systems:
        for stage in every_stage(system.pipeline):
            if face(stage).loads_models and stage not in loaded:
                loaded.append(stage)
                stage.transform(row)
        for part in parts_of(system.pipeline):
            if isinstance(part, SearchIndex) and part not in loaded:
                loaded.append(part)
                part.warm_up()


def distinct_models(systems: Iterable[System]) -> list[LLM]:
    """Return the language models of systems, each once."""
    return list({id(model): model for system in systems for model in system.models}.values())


class OtherCollectionWarning(UserWarning):
    """The index isn't built from the dataset's collection, or its collection is unknown."""


def check_collection(
    index: SearchIndex, dataset: IkatDataset, name: str | None, qrels: pd.DataFrame
) -> None:
    """Check that an index is built from the judged collection.

    Another or an unknown collection causes a warning. Collections are compared by their passages.
    2023, 2024 and 2025 share one collection, and so do all its indexes.

    Raises:
        UsageError: when the index has none of the judged passages, so every score would be 0.
    """
    judged = sorted(set(qrels["docno"]))
    present = index.present(judged)
    if judged and next(present, None) is None:
        make = advice(
            f"ikat.PassageIndex(path).index(pt.get_dataset({name!r}).get_corpus_iter())",
            f"`ikat index {name} PATH`",
        )
        raise UsageError(
            f"the index {index.path} has none of the {counted(len(judged), 'passage')} judged in "
            f"{name} (such as {judged[0]}), so that every score would be 0: give an index of its "
            f"collection, as {make} makes, or the dataset that {index.path} was made for"
            f"{_way_to_run_without_scores(dataset)}"
        )
    size, docnos = dataset.collection()
    if size is None and not judged:
        return  # only turns, without a collection
    passages_in_index = index.size()
    same_size = passages_in_index == size
    if same_size and (docnos is None or _count(index.present(sorted(docnos))) == size):
        return
    is_other = "is" if size else "may be"
    passages = counted(passages_in_index, "passage")
    if size:
        passages += f", not the same {size:,}"
    found = 1 + _count(present) if judged else 0
    warnings.warn(
        f"the index {index.path} {is_other} of another collection than that of {name} "
        f"({passages}): {found:,} of {counted(len(judged), 'judged passage')} found in it, and "
        "what it lacks can't be found",
        OtherCollectionWarning,
        3,
    )


def _count(docnos: Iterable[str]) -> int:
    return sum(1 for _ in docnos)


def _way_to_run_without_scores(dataset: IkatDataset) -> str:
    """How the topics of a year are run on other passages, and submitted.

    Empty for a dataset without a topics file of its own.
    """
    file = dataset.topics_file
    if file is None:
        return ""
    give = advice(f"dataset={str(file)!r}", f"--dataset {file}")
    way = f". To run its topics on your own passages, without scores: {give}"
    if dataset.year is None:
        return way
    return f"{way}, then `ikat submit RUN --dataset {dataset.name}`"


def searches_judged(system: System, docnos: Iterable[str]) -> bool:
    """Return whether an index of the system has one of the judged passages.

    Then a run without any is a bad one of the right collection.
    """
    judged = sorted(docnos)
    return any(next(index.present(judged), None) for index in indexes_of([system]))


def indexes_of(systems: Iterable[System]) -> list[SearchIndex]:
    """Return the indexes that are searched, each once.

    Those that only provide the texts of another index are not among them.
    """
    indexes = {}
    for system in systems:
        for part in parts_of(system.pipeline):
            if isinstance(part, SearchIndex):
                indexes[id(part)] = part
    of_texts = set[int]()
    for index in indexes.values():
        of_texts.update(id(part) for part in parts_of(index.text))
    return [index for index in indexes.values() if id(index) not in of_texts]
