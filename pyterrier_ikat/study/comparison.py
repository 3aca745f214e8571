"""Systems, their turns and the judgements, checked before anything is run or paid for."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations import dataset as dataset_named
from ..conversations.choice import QrelsSource, Turns, find_qrels, is_variant, read_turns
from ..conversations.datasets import IkatDataset
from ..conversations.folder import STATEMENTS
from ..conversations.frame import each_turn_once, values, with_text_ids
from ..conversations.qrels import check_qrels, read_qrels
from ..errors import UsageError, advice, option
from ..evaluation.evaluator import check_turn_names
from ..llms import LLM, Ledger
from ..methods import Method
from ..operator import every_stage, parts_of
from .identity import distinct_parts
from .systems import Resources, Systems, deviations, methods_in, unused

RANKING = ("qid", "docno", "score", "rank")


class OtherCollectionWarning(UserWarning):
    """The index isn't of the dataset's collection, or its collection is unknown."""


class NoRewritesWarning(UserWarning):
    """A manual system runs on a dataset without manual rewrites, so the run is an automatic one."""


@dataclass(frozen=True)
class Sample:
    """One of several runs of a system.

    Attributes:
        system: the system's name.
        number: the number of the run, 1 for the plain run.
    """

    system: str
    number: int = 1


@dataclass
class Comparison:
    """Systems on a dataset, all checked.

    Attributes:
        methods: the systems as methods, by name.
        systems: their expressions.
        topics: the turns of each; with the manual rewrites only for a manual run.
        qrels: the judgements of these turns; empty where none is judged.
        unasked: judged turns missing from the given topics.
        dataset: the dataset's own name: one has several, sample and ikat:sample.
        deviations: how the models and the retriever of each differ from those of its paper, one line each.
        prompts: the folder of the user's prompts.
        ledger: the account of the LLMs that were given as text.
        samples: the system and number of each run, where systems are run several times.
    """

    methods: dict[str, Method]
    systems: dict[str, pt.Transformer]
    topics: dict[str, pd.DataFrame]
    qrels: pd.DataFrame
    unasked: list[str]
    dataset: str | None
    deviations: dict[str, list[str]]
    prompts: str | Path | None
    ledger: Ledger
    samples: dict[str, Sample] = field(default_factory=dict)

    def sample(self, name: str) -> Sample:
        """The system of the run with that name."""
        return self.samples.get(name, Sample(name))

    def groups(self) -> dict[str, list[str]]:
        """The runs of each system, by name; empty where each is run once."""
        found: dict[str, list[str]] = {}
        for name, sample in self.samples.items():
            found.setdefault(sample.system, []).append(name)
        return found

    def llms(self) -> list[LLM]:
        """The language models of all systems."""
        return [part for part in distinct_parts(self.systems.values()) if isinstance(part, LLM)]


def prepare_comparison(
    systems: Systems,
    dataset: IkatDataset | str | Path | None = None,
    *,
    topics: pd.DataFrame | None = None,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    ledger: Ledger | None = None,
    only_plan: bool = False,
    **resources: Any,
) -> Comparison:
    """Check every name and resource, and load every model, before anything is run.

    The arguments are those of :func:`pyterrier_ikat.run`. LLMs that are given as text count in ``ledger``. With ``only_plan`` no model is
    loaded, and a system need not end in a ranking.

    Raises:
        UsageError: for an unknown option, turn or variant, a missing or unused resource, a model that can't be loaded, or a system that
            fails on the topics or makes no ranking.
        DataError: for an index or recorded file that can't be used, or a duplicate turn.
    """
    if dataset is None and topics is None:
        raise UsageError('there is nothing to run on: give a dataset such as "ikat:sample", or topics=...')
    data: Any = None if dataset is None else dataset_named(dataset)
    judgements = _judgements(data, qrels)
    methods = {entry.name: entry for entry in methods_in(systems)}
    given, counting = Resources.of(resources, methods.values()), ledger or Ledger()
    opened = given.opened(counting)
    built = {name: opened.build(entry) for name, entry in methods.items()}
    check_prompts_are_read(given, built.values())
    frames = {manual: _topics(data, topics, turns, manual) for manual in {entry.manual for entry in methods.values()}}
    of_each = {name: frames[entry.manual] for name, entry in methods.items()}
    if topics is not None:
        check_turn_names("the topics frame", topics["qid"], judgements["qid"])
    asked = {qid for frame in frames.values() for qid in frame["qid"]}
    here = judgements[judgements["qid"].isin(asked)].reset_index(drop=True)
    scored = judgements if topics is None and turns is None and len(here) else here
    if topics is None or not only_plan:
        for name, system in built.items():
            found = check_system(name, system, of_each[name], opened.index)
            if found is not None and not only_plan:
                check_ranking(name, found)
    if data is not None:
        for index in _indexes(built.values()):
            check_collection(index, data, data.name, judgements if here.empty else scored)
    if not only_plan:
        for frame in frames.values():
            each_turn_once(frame)
        load_models(built.values())
    unasked = [] if topics is None or turns is not None else [qid for qid in judgements["qid"].unique() if qid not in asked]
    differences = {name: deviations(entry, given, opened) for name, entry in methods.items()}
    data_name = None if data is None else data.name
    return Comparison(methods, built, of_each, scored, unasked, data_name, differences, given.prompts, counting)


def _judgements(data: Any, qrels: QrelsSource | None) -> pd.DataFrame:
    if data is None:
        unjudged = pd.DataFrame({"qid": [], "docno": [], "label": []}, dtype=object)
        return unjudged if qrels is None else check_qrels(qrels) if isinstance(qrels, pd.DataFrame) else read_qrels(str(qrels))
    if is_variant(qrels, data):
        refuse_statements(data.name, None if qrels is None else str(qrels))
    return find_qrels(qrels, data)


def refuse_statements(name: str, variant: str | None) -> None:
    """Passages are no PTKB statements.

    Raises:
        UsageError: when the qrels judge statements.
    """
    if variant is not None and variant.startswith(STATEMENTS):
        raise UsageError(
            f"the qrels {variant} of {name} judge PTKB statements, and this is a run of passages: give other {option('qrels')}"
        )


def _topics(data: Any, topics: pd.DataFrame | None, turns: Turns | None, manual: bool) -> pd.DataFrame:
    if topics is None:
        frame: pd.DataFrame = data.get_topics("manual" if manual else None)
        if manual and not _is_rewritten(frame):
            message = f"{data.name} has no manual rewrites: manual methods get the utterances as they are, and this is no manual run"
            warnings.warn(message, NoRewritesWarning, stacklevel=3)
    else:
        pt.validate.columns(topics, includes=["qid"])
        frame = with_text_ids("the topics frame", topics, ["qid"])
    if turns is None:
        return frame
    wanted = read_turns(turns, frame["qid"], "the topics frame" if data is None else data.name)
    return frame[frame["qid"].isin(wanted)].reset_index(drop=True)


def _is_rewritten(frame: pd.DataFrame) -> bool:
    """Whether some turn has a rewrite, or no turn needs one because none has a history."""
    rows = zip(values(frame, "qhistory"), values(frame, "qresolved"), values(frame, "qutterance"), strict=True)
    later = [resolved != utterance for history, resolved, utterance in rows if history]
    return any(later) or not later


def check_system(name: str, system: pt.Transformer, turns: pd.DataFrame, index: Any = None) -> list[str] | None:
    """The output columns of a system for these turns; None if a stage can't name them without data.

    Raises:
        UsageError: when its stages can't work with the columns of these turns.
    """
    try:
        return list(pt.inspect.transformer_outputs(system, list(turns.columns)))
    except pt.inspect.InspectError:
        return None
    except pt.validate.InputValidationError as error:
        if index is not None and not index.has_text:
            repair = advice("give texts=PASSAGE_INDEX", "give --texts PASSAGE_INDEX")
            raise UsageError(f"method {name} reads the passages' text, and the index {index.path} has none: {repair} ({error})") from None
        raise UsageError(f"system {name} does not work on these topics: {error}") from None


def check_ranking(name: str, columns: Iterable[str]) -> None:
    """Whether a result with these columns is a ranking of turns.

    Raises:
        UsageError: when it isn't.
    """
    found = set(columns)
    if "qid_0" in found:
        raise UsageError(
            f"system {name} ends in sub-queries, whose passages belong to no turn: "
            "end it with ikat.Interleave, ikat.Union, ikat.RRF, ikat.MeanScore or ikat.RerankAgainst"
        )
    if lacking := [column for column in RANKING if column not in found]:
        raise UsageError(f"system {name} makes no ranking: its result has no {', '.join(lacking)}; end it with a retriever or re-ranker")


def check_collection(index: Any, dataset: Any, name: str | None, qrels: pd.DataFrame) -> None:
    """Check that an index is of the judged collection; another or an unknown collection is a warning.

    Collections are compared by their passages: 2023, 2024 and 2025 share one, and so do all its indexes.

    Raises:
        UsageError: when it has none of the judged passages, so that every score would be 0.
    """
    judged = sorted(set(qrels["docno"]))
    there = index.docnos(judged)
    if judged and next(there, None) is None:
        make = advice(f"ikat.PassageIndex(path).index(pt.get_dataset({name!r}).get_corpus_iter())", f"`ikat index {name} PATH`")
        raise UsageError(
            f"the index {index.path} has none of the {len(judged):,} passages judged in {name} (such as {judged[0]}), so that every score "
            f"would be 0: give an index of its collection, as {make} makes, or the dataset that {index.path} was made for"
        )
    size, docnos = dataset.collection() if hasattr(dataset, "collection") else (None, None)
    if size is None and not judged:
        return  # turns alone, of no collection
    if len(index) == size and (docnos is None or sum(1 for _ in index.docnos(sorted(docnos))) == size):
        return
    what = f"another collection than that of {name}" if size else f"a collection that may be another one than that of {name}"
    sizes = f"{len(index):,} passages" + (f", not the same {size:,}" if size else "")
    known = f"{1 + sum(1 for _ in there) if judged else 0:,} of the {len(judged):,} judged passages are in it"
    warnings.warn(f"the index {index.path} is of {what} ({sizes}): {known}, and what it lacks can't be found", OtherCollectionWarning, 3)


def check_prompts_are_read(given: Resources, systems: Iterable[pt.Transformer]) -> None:
    """Check that a stage of the systems reads the user's folder of prompts, if there is one.

    Raises:
        UsageError: when none does.
    """
    read = {getattr(stage, "prompts", None) for system in systems for stage in every_stage(system)}
    if given.prompts is not None and str(Path(given.prompts).expanduser()) not in read:
        raise unused("prompts")


def load_models(systems: Iterable[pt.Transformer]) -> None:
    """Load every model once, so that a model that can't be loaded is reported before an LLM is asked.

    Raises:
        UsageError: when one can't be loaded.
    """
    row = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "docno": ["1"], "text": ["tea"], "score": [0.0], "rank": [0]})
    done: list[Any] = []
    for system in systems:
        for stage in every_stage(system):
            if getattr(stage, "loads_models", False) and stage not in done:
                done.append(stage)
                stage.transform(row)
        for part in parts_of(system):
            if hasattr(part, "warm_up") and part not in done:
                done.append(part)
                part.warm_up()


def _indexes(systems: Iterable[pt.Transformer]) -> list[Any]:
    """The indexes that are searched, without those that only provide the texts of another index."""
    found = [part for part in distinct_parts(systems) if hasattr(part, "docnos")]
    texts = [getattr(getattr(index, "text", None), "index", None) for index in found]
    return [index for index in found if all(index is not one for one in texts)]
