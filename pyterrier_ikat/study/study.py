"""Systems, their turns and the judgements, checked before anything is run or paid for."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..conversations import dataset as dataset_named
from ..conversations.choice import QrelsSource, Turns, find_qrels, is_variant, read_turns
from ..conversations.datasets import IkatDataset
from ..conversations.folder import STATEMENTS
from ..conversations.frame import each_turn_once, values, with_text_ids
from ..conversations.qrels import check_qrels, read_qrels
from ..errors import UsageError, advice, option
from ..evaluation.evaluator import check_turn_names
from ..generate.samples import SamplesWarning as SamplesWarning
from ..llms import Ledger
from ..planning import PlanTable, estimate
from .identity import distinct_parts
from .systems import System, Systems, check_ranking, load_models, open_systems


class OtherCollectionWarning(UserWarning):
    """The index isn't of the dataset's collection, or its collection is unknown."""


class NoRewritesWarning(UserWarning):
    """A manual system runs on a dataset without manual rewrites, so the run is an automatic one."""


class Study:
    """Systems on a data set, all checked: every name and resource is known, and every model is loaded, before anything is run.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name.
        topics: the turns, instead of the dataset's.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels file.
        turns: only these turns.
        samples: the number of runs of each system that asks an LLM.
        ledger: the account of the LLMs that are given as text.
        only_plan: whether nothing is to be run: no model is loaded, and a system need not end in a ranking.
        **resources: see :class:`~pyterrier_ikat.study.Resources`.

    Attributes:
        systems: the systems, each sample for itself.
        samples: the number of runs.
        qrels: the judgements of their turns; empty where none is judged.
        unasked: judged turns missing from the given topics.
        dataset: the dataset's own name: one has several, sample and ikat:sample.
        ledger: the account.

    Raises:
        UsageError: for an unknown option, turn or variant, a missing or unused resource, a model that can't be loaded, or a system that
            fails on the topics or makes no ranking.
        DataError: for an index or recorded file that can't be used, or a duplicate turn.
    """

    def __init__(
        self,
        systems: Systems,
        dataset: IkatDataset | str | Path | None = None,
        *,
        topics: pd.DataFrame | None = None,
        qrels: QrelsSource | None = None,
        turns: Turns | None = None,
        samples: int = 1,
        ledger: Ledger | None = None,
        only_plan: bool = False,
        **resources: Any,
    ) -> None:
        if dataset is None and topics is None:
            raise UsageError('there is nothing to run on: give a dataset such as "ikat:sample", or topics=...')
        data: Any = None if dataset is None else dataset_named(dataset)
        judgements = _judgements(data, qrels)
        self.ledger, self.dataset = ledger or Ledger(), None if data is None else str(data.name)
        opened = open_systems(systems, self.ledger, **resources)
        self._turns = {manual: _topics(data, topics, turns, manual) for manual in {one.method.manual for one in opened}}
        if topics is not None:
            check_turn_names("the topics frame", topics["qid"], judgements["qid"])
        asked = self.asked
        here = judgements[judgements["qid"].isin(asked)].reset_index(drop=True)
        self.qrels = judgements if topics is None and turns is None and len(here) else here
        self.unasked = [] if topics is None or turns is not None else [qid for qid in judgements["qid"].unique() if qid not in asked]
        for one in opened if topics is None or not only_plan else ():
            columns = one.columns(self.turns_of(one))
            if columns is not None and not only_plan:
                check_ranking(one.name, columns)
        if data is not None:
            for index in _indexes(opened):
                check_collection(index, data, data.name, judgements if here.empty else self.qrels)
        if not only_plan:
            for frame in self._turns.values():
                each_turn_once(frame)
            load_models(opened)
        self.systems, self.samples = list(_samples(opened, samples)), samples

    @property
    def asked(self) -> set[str]:
        """The turns that systems are run on."""
        return {qid for frame in self._turns.values() for qid in frame["qid"]}

    def turns_of(self, system: System) -> pd.DataFrame:
        """The turns that a system is run on: with the manual rewrites only for a manual run."""
        return self._turns[system.method.manual]

    def groups(self) -> dict[str, list[str]]:
        """The runs of each system, by name; empty where each is run once."""
        found: dict[str, list[str]] = {}
        for one in self.systems if self.samples > 1 else ():
            found.setdefault(one.method.name, []).append(one.name)
        return found

    def plan(self) -> PlanTable:
        """The estimated LLM calls, tokens and cost."""
        return estimate([(one.name, one.pipeline, self.turns_of(one), one.sample - 1) for one in self.systems])


def _samples(systems: Sequence[System], samples: int) -> Iterator[System]:
    """``samples`` runs of each system that asks an LLM.

    Raises:
        UsageError: when ``samples`` is below 1, or a system has the name of another system's sample.
    """
    if samples < 1:
        raise UsageError(f"{advice(f'samples={samples}', f'--samples {samples}')}: run each system at least once")
    names = {one.name for one in systems}
    found = [replace(one, sample=number) for one in systems for number in range(1, 1 + (samples if one.models else 1))]
    if taken := [one.name for one in found if one.sample > 1 and one.name in names]:
        raise UsageError(f"a system is named {taken[0]!r}, as a sample of another one: give it another name")
    for one in systems if samples > 1 else ():
        reasons = {model: why for model in one.models if (why := model.backend.repeats(samples))}
        if not one.models:
            told = f"system {one.name} asks no LLM, so that every sample would be the same: it is run once"
        elif reasons:
            told = f"samples of {one.name} may be the same: {'; '.join(f'{model!r} has {why}' for model, why in reasons.items())}"
        else:
            continue
        warnings.warn(told, SamplesWarning, stacklevel=4)
    yield from found


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


def _indexes(systems: Iterable[System]) -> list[Any]:
    """The indexes that are searched, without those that only provide the texts of another index."""
    found = [part for part in distinct_parts(one.pipeline for one in systems) if hasattr(part, "docnos")]
    texts = [getattr(getattr(index, "text", None), "index", None) for index in found]
    return [index for index in found if all(index is not one for one in texts)]


@checked
def plan(
    systems: Systems,
    dataset: IkatDataset | str | pd.DataFrame | None = None,
    *,
    topics: pd.DataFrame | None = None,
    turns: Turns | None = None,
    samples: int = 1,
    **resources: Any,
) -> PlanTable:
    """Estimate the LLM calls, tokens and cost of systems before you spend anything.

    Nothing is asked, nothing is retrieved and no model is loaded.

    The plan follows the stages in order. A completion in the cache is used and counted as cached. Otherwise a stand-in of typical length is
    used, so tokens are estimates (four characters a token), and so are calls that depend on them. The stand-in for a trained rewriter's
    query or a retrieved passage is the user's question; for ranked statements, the first ones of the persona. A
    :class:`~pyterrier_ikat.Judge` in a pipeline judges every passage up to the cut (``% k``) before it, or 1000 per turn without a cut. A
    request that several systems share counts once, for the first of them.

    Each operator estimates its own requests and output (``Operator.plan``). For a stage of another package the plan knows only the columns.
    A stage that returns passages for queries is a retriever, which asks nothing; a stage of PyTerrier that turns queries into queries
    (``pt.apply.query``) is run; any other stage is a row with unknown counts.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name; or a turn frame (for a judge alone, the pool to judge).
        topics: the turns, instead of the dataset's.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        samples: the number of runs of each system, as for :func:`pyterrier_ikat.run`; each sample is a system in the table.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests of the stage),
        ``cached`` (paid for already, or under way in a batch), ``shared`` (repeats of a request made before), ``new`` (still to be paid),
        ``prompt_tokens`` and ``completion_tokens`` of the new ones, ``cost`` in US dollars (missing when the price is
        unknown). The counts of a stage that can't be planned are missing. ``.total`` has the sums, which are printed below the table.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none price_in=2.5 price_out=10")
        >>> ikat.plan({"AD": ikat.Answer(llm)}, "ikat:sample").total["new"]
        24
    """
    if isinstance(dataset, pd.DataFrame):
        dataset, topics = None, dataset
    return Study(systems, dataset, topics=topics, turns=turns, samples=samples, only_plan=True, **resources).plan()
