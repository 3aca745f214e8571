"""What is done with systems on a dataset: plan, run into folders, experiment in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pyterrier as pt

from ..conversations import dataset as dataset_named
from ..conversations.datasets import IkatDataset, QrelsSource, Turns
from ..errors import DataError, UsageError, counted, list_first
from ..evaluation import TRACK_2023, as_measures
from ..evaluation.evaluator import (
    check_baseline,
    check_common_turns,
    experiment_rows,
)
from ..evaluation.experiment_table import DEVIATIONS, experiment_table, notes_of, repeated_rows
from ..evaluation.finished_runs import ranking_frame, ranking_of
from ..evaluation.score_frame import ScoreFrame
from ..evaluation.scored_turns import TURNS
from ..evaluation.scores import make_evaluator
from ..evaluation.units import check_unit
from ..events import in_chain, observed_by
from ..llms import Ledger
from ..llms.failures import BatchUnderWay, Waiting
from ..operator import without_unread_texts
from ..planning import REFUSED, PlanTable, estimate
from ..progress import doing
from ..runs import RunFolder
from ..tables import Table, of_frame
from .given import Measures, baseline_of, check_options, data_of, named_systems, only_topics
from .in_folders import Run, run_in_folders
from .recorder import Shown
from .study import Study
from .systems import (
    Given,
    System,
    Systems,
    check_ranking,
)


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """The results of a study. They are displayed as a table of scores.

    Attributes:
        study: the systems, and the data and resources that they ran on.
        out: the folder of the runs.
        runs: the finished runs with their scores, by name.
        table: the scores, as from :func:`pyterrier_ikat.experiment`, or with several repeats as
            from :func:`~pyterrier_ikat.evaluation.repeated_rows`; only the names if no turn is
            judged.
        baseline: the system that the others are compared with.
        unit: what the clusters of turns are in tests and intervals; None for the dataset's own
            unit.
    """

    study: Study
    out: Path
    runs: Mapping[str, Run]
    table: pd.DataFrame
    baseline: str | None = None
    unit: str | None = None

    @property
    def folders(self) -> dict[str, RunFolder]:
        """The folder of each run, by name."""
        return {name: run.folder for name, run in self.runs.items()}

    @property
    def ledger(self) -> Ledger:
        """The ledger of the LLM calls of this call. Each folder has the ledger of its run, over all its starts."""
        return self.study.ledger

    def shown(self) -> Table:
        """The table of scores, to print. Its last notes say how the systems differ from those of the papers."""
        if self.study.qrels.empty:
            shown = of_frame(self.table)
        else:
            shown = experiment_table(self.table.to_dict("records"), self.table.attrs.get(TURNS, ()))
        return replace(shown, rows=self.table, notes=[*shown.notes, *notes_of(self.table)])

    def gaps(self) -> Iterator[str]:
        """Sentences on the turns without results that are not judged, and the notes of the runs. The table names the judged ones."""
        for one in self.study.systems:
            unjudged = set(self.study.turns_of(one).ids) - self.study.labels.keys()
            if lost := sorted(unjudged - self.runs[one.name].found):
                yield f"{one.name}: {counted(len(lost), 'turn')} without any passage, not judged: {list_first(lost)}"
            for note in self.folders[one.name].parameters().get("notes", ()):
                yield f"{one.name}: {note}"

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


class ScoreTable(ScoreFrame):
    """A frame of scores. Below it stand the sentences of ``attrs["deviations"]``: how its systems differ from those of the papers."""

    @classmethod
    def of(cls, scores: pd.DataFrame, systems: Iterable[System]) -> pd.DataFrame:
        """The scores with the deviations of these systems, or as they are if there are none.

        That is how models and retrievers differ from the papers': each difference once, with the
        systems that have it, the most common first.
        """
        having: dict[str, list[str]] = {}
        named = [one for one in systems if one.repeat == 1]
        for one in named:
            for line in one.deviations:
                having.setdefault(line, []).append(one.name)
        if not having:
            return scores
        made, common = cls(scores), sorted(having.items(), key=lambda item: -len(item[1]))
        made.attrs.update(scores.attrs)
        made.attrs[DEVIATIONS] = [
            f"{'all systems' if 1 < len(names) == len(named) else ', '.join(names)}: {line}"
            for line, names in common
        ]
        return made


def plan(
    systems: Systems,
    dataset: IkatDataset | str | pd.DataFrame | None = None,
    *,
    topics: pd.DataFrame | None = None,
    turns: Turns | None = None,
    repeats: int = 1,
    out: str | Path | None = None,
    measures: Measures | None = None,
    baseline: str | None = None,
    unit: str | None = None,
    **resources: Any,
) -> PlanTable:
    """Estimate the LLM calls, tokens and cost of systems before you spend anything.

    Nothing is asked, nothing is retrieved and no model is loaded.

    The plan follows the stages in order. A completion in the cache is used and counted as known.
    Otherwise a stand-in of typical length is used. So tokens are estimates (four characters per
    token), and so are calls that depend on them. The stand-in for a trained rewriter's query or a
    retrieved passage is the user's utterance. The stand-in for ranked statements are the first ones
    of the persona. A :class:`~pyterrier_ikat.Judge` in a pipeline judges every passage up to the
    cutoff (``% k``) before it, or 1000 per turn without one. A request that several systems share
    counts once, for the first of them.

    Each operator estimates its own requests and output (``Operator.plan``). For a stage of another
    package the plan knows only the columns. A stage that returns passages for queries is a
    retriever, which doesn't ask a model. A stage of PyTerrier that turns queries into queries
    (``pt.apply.query``) is run. Any other stage is a row with unknown counts.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name, or a turn frame (for a judge alone, the pool to
            judge).
        topics: the turns, instead of the dataset's.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        repeats: the number of runs of each system, as for :func:`pyterrier_ikat.run`; each repeat
            is a system in the table.
        out: the folder of the runs. With it the plan says which runs would be refused, such as
            those of another prompt in a folder that holds a run already.
        measures: the measures, as for :func:`pyterrier_ikat.run`; an unknown one is an error here,
            too.
        baseline: the system that the others will be compared with.
        unit: what the clusters of turns will be in tests, as for :func:`pyterrier_ikat.run`.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests
        of the stage), ``known`` (paid for already, or under way in a batch), ``shared`` (repeats of
        a request made before), ``new`` (still to be paid), ``prompt_tokens`` and
        ``completion_tokens`` of the new ones, and ``cost`` in US dollars (missing if the price is
        unknown). The counts of a stage that can't be planned are missing. ``.total`` has the sums,
        which are printed below the table, and ``.refused`` the reasons for which the run would be
        refused.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none price_in=2.5 price_out=10")
        >>> ikat.plan({"AD": ikat.Answer(llm)}, "ikat:sample").total["new"]
        24
    """
    if isinstance(dataset, pd.DataFrame):
        dataset, topics = None, dataset
    study = Study(
        systems, dataset, topics=topics, turns=turns, repeats=repeats, only_plan=True, **resources
    )
    as_measures(TRACK_2023 if measures is None else measures)
    check_baseline(
        list(dict.fromkeys(one.method.name for one in study.systems)), baseline, "systems"
    )
    check_unit(unit, baseline)
    table = estimate(
        [
            (one.name, one.pipeline, study.turns_of(one).frame, one.repeat - 1)
            for one in study.systems
        ]
    )
    if out is not None:
        table.attrs[REFUSED] = _refusals(study, Path(out))
    return table


def _refusals(study: Study, out: Path) -> list[str]:
    """Why runs of these systems into a folder would be refused, as far as it can be told without loading a model."""
    found = []
    for one in study.systems:
        turns = study.turns_of(one)
        try:
            turns.check_once()
            columns = one.columns(turns.frame)
            if columns is not None:
                check_ranking(one.name, columns)
            Run(study, one, out)
        except (UsageError, DataError) as error:
            found.append(str(error))
    return found


def run(
    systems: Systems,
    dataset: IkatDataset | str | None = None,
    *,
    out: str | Path = "runs",
    topics: pd.DataFrame | None = None,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    turns_at_once: int | None = None,
    measures: Sequence[ir_measures.Measure | str] | None = None,
    baseline: str | None = None,
    unit: str | None = None,
    repeats: int = 1,
    **resources: Any,
) -> Results:
    """Run systems on a dataset. Each gets a folder in ``out`` with its ranking, turns, scores and ledger, and an interrupted run resumes.

    An existing run is not repeated, and an interrupted run resumes after its last finished batch of
    turns. A folder whose run used other models, prompts, passages, topics or stages is an error.
    Stages are identified by their repr. The repr of some stages, such as a function in
    ``pt.apply``, can't identify them. When stored results of such a stage are reused, an
    ``AlikeWarning`` names it.

    Stages at the beginning of a pipeline with ``one_row_per_turn`` get all turns at once. The
    others, and all stages of other packages, get ``turns_at_once`` turns at a time, and must treat each
    turn independently.

    Args:
        systems: a dict name -> system, a single system, or a list of systems with names. A system
            is the name of a method (``"aqd"``, or ``"mq4cs:n=3"`` with an argument), a file of
            methods (``"my_systems.py"``, ``"my_systems.py:gate"``), a function whose arguments name
            resources, or any PyTerrier pipeline.
        dataset: an iKAT dataset or its name.
        out: the folder of the runs, by default ``runs``. Nothing in it is overwritten.
        topics: the turns, instead of the dataset's. Scores are over the judged turns among them.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels
            file.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        turns_at_once: the number of turns at a time after the first stages, 128 by default.
        measures: the measures of the returned table, from ir_measures or by name; by default those
            of the dataset, or the track's. The folders have the track's measures and these. If some
            are missing in the folder of a finished run, they are computed.
        baseline: the system that the others are compared with: see
            :func:`~pyterrier_ikat.evaluate`.
        unit: what the clusters of turns are in tests and intervals: ``"turn"``, ``"conversation"``,
            ``"topic"`` or ``"user"``. By default the highest unit that the dataset's turns are
            known to share.
        repeats: the number of runs of each system that asks an LLM, each with its own completions.
            The first is the plain run, in the folder NAME. The others are in ``NAME.repeat-2``,
            ``NAME.repeat-3``, ...
        **resources: the resources of methods, each as text or as an object: ``index``, ``llm``,
            ``second_llm``, ``retriever``, ``reranker``, ``rewriter``, ``expander``, ``prompts``;
            see :class:`~pyterrier_ikat.study.Resources`. Or an argument of the systems' functions,
            such as ``n=3``, for all that have it. One system alone has it in its name:
            ``"mq4cs:n=3"``.

    Returns:
        The results, which show the table of scores: ``.table`` as a frame, ``.folders`` by name
        (``.folders["aqd"].results()`` is a ranking) and ``.ledger``.

    Raises:
        UsageError: before anything is run, for an unknown system, option, turn or resource, a
            resource that no system uses, a model that can't be loaded, a folder that isn't writable
            or holds another run, or a run that another process is making.
        DataError: for an index or file that can't be used, or an invalid ranking; or when the turns
            are judged and none of the passages of a run is. Its results are kept, without scores.
        BatchUnderWay: when systems wait for an LLM's batches (``batch=on``). All others are
            finished. Run it again later.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> index = ikat.PassageIndex("run.index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
        >>> mine = ikat.AllUtterances() >> index.bm25(num_results=20)
        >>> ikat.run({"mine": mine, "raw": "raw"}, "ikat:sample", out="my-runs", index=index).table["name"].tolist()
        ['mine', 'raw']
    """
    data = None if dataset is None else dataset_named(dataset)
    wanted = as_measures(
        measures if measures is not None else getattr(data, "measures", ()) or TRACK_2023
    )
    study = Study(
        systems, data, topics=topics, qrels=qrels, turns=turns, repeats=repeats, **resources
    )
    groups: dict[str, list[str]] = {}
    for one in study.systems:
        groups.setdefault(one.method.name, []).append(one.name)
    check_baseline(list(groups), baseline, "systems")
    check_unit(unit, baseline)
    clusters = None
    if baseline is not None and len(study.qrels):
        clusters = study.clusters(list(study.labels), unit)
    runs = run_in_folders(study, out, turns_at_once, wanted)
    table = pd.DataFrame({"name": list(groups)})
    if len(study.qrels):
        scores = {name: run.scores for name, run in runs.items()}
        repeated = {name: [scores[one] for one in names] for name, names in groups.items()}
        silent = [
            name
            for name, ones in groups.items()
            if not any(runs[one].found & study.labels.keys() for one in ones)
        ]
        if repeats == 1:
            rows = experiment_rows(scores, wanted, baseline, clusters, silent=silent)
        else:
            rows = repeated_rows(repeated, wanted, baseline, clusters, silent=silent)
        table = study.about_turns(
            pd.DataFrame(rows), {name: run.found for name, run in runs.items()}
        )
    return Results(study, Path(out), runs, ScoreTable.of(table, study.systems), baseline, unit)


def experiment(
    systems: Given | Mapping[str, Given | pd.DataFrame] | Sequence[Given | pd.DataFrame],
    *data: Any,
    dataset: IkatDataset | str | Path | None = None,
    measures: Measures | None = None,
    eval_metrics: Measures | None = None,
    baseline: str | int | None = None,
    names: Sequence[str] | None = None,
    topics: pd.DataFrame | None = None,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    unit: str | None = None,
    **resources: Any,
) -> pd.DataFrame:
    """Run systems on the judged turns in memory and compare them as TREC does. :func:`pyterrier_ikat.run` does so with folders.

    Turns without judgements are not run. Means are over all turns of the qrels. A turn for which a
    system finds nothing counts 0. The order is that of the ranks, as in :func:`pyterrier_ikat.run`:
    tied scores are lowered by the smallest possible step.

    The order of ``pt.Experiment`` works, too: ``experiment(systems, topics, qrels, measures)``. As
    there, only the judgements of these topics count.

    Args:
        systems: as for :func:`pyterrier_ikat.run`, and finished runs (result frames) among them.
            Pipelines in a list may have no name: they are called by their repr.
        *data: ``dataset, measures, baseline``, or as in PyTerrier ``topics, qrels, measures``.
        dataset: an iKAT dataset or its name.
        measures: ir_measures measures, or their names; by default those of the track in 2023.
        eval_metrics: PyTerrier's name for ``measures``.
        baseline: the system that the others are compared with, by its name, or by its number from
            0: see :func:`~pyterrier_ikat.evaluate`.
        names: the names of the systems in a list.
        topics: the turns, instead of the dataset's: ``get_topics("manual")`` for pipelines that use
            gold fields.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels
            file.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        unit: what the clusters of turns are in tests and intervals, as for
            :func:`pyterrier_ikat.run`.
        **resources: as for :func:`pyterrier_ikat.run`. With ``repeats``, each run of a system is a
            row.

    Returns:
        PyTerrier's experiment table: see :func:`~pyterrier_ikat.evaluation.evaluate`. Notes below
        it say how methods differ from their papers: another model, no re-ranker, fewer passages.

    Raises:
        UsageError: before anything is run, for invalid names, baseline, measures, files or options,
            or systems that don't make a ranking.
        DataError: when topics, qrels or a ranking are invalid, or don't fit each other.
        BatchUnderWay: when systems wait for an LLM's batches (``batch=on``); all batches are sent.
            Run it again later.

    Example:
        >>> topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "never judged"]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> find_a = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
        >>> experiment({"always a": find_a}, measures=["R@20"], topics=topics, qrels=qrels).values.tolist()
        [['always a', 0.5, 2]]
    """
    if measures is not None and eval_metrics is not None:
        raise UsageError("measures and eval_metrics are the same: omit one")
    measures = eval_metrics if measures is None else measures
    check_options(resources)
    given = data_of(
        data,
        {
            "dataset": dataset,
            "measures": measures,
            "baseline": baseline,
            "topics": topics,
            "qrels": qrels,
        },
    )
    wanted = as_measures(TRACK_2023 if given.measures is None else given.measures)
    if given.dataset is None and (given.topics is None or given.qrels is None):
        raise UsageError(
            'there is nothing to run or evaluate on: give a dataset such as "ikat:sample", or topics=... and qrels=...'
        )
    in_order = bool(data) and isinstance(data[0], pd.DataFrame)
    judged_by = only_topics(data[0], given.qrels) if in_order else given.qrels
    called = named_systems(systems, names)
    finished = {}
    for name, one in called.items():
        if isinstance(one, pd.DataFrame):
            finished[name] = ranking_frame(name, one)
    pipelines = {
        name: pt.Transformer.from_df(finished[name]) if name in finished else one
        for name, one in called.items()
    }
    study = Study(
        pipelines,
        given.dataset,
        topics=given.topics,
        qrels=judged_by,
        turns=turns,
        in_memory=True,
        **resources,
    )
    base = baseline_of(list(called), given.baseline)
    check_baseline([one.name for one in study.systems], base, "systems")
    check_unit(unit, base)
    if study.unasked:
        raise DataError(
            f"{counted(len(study.unasked), 'turn')} of the qrels not in the topics ({list_first(study.unasked)}), which would count "
            '0; give the topics they belong to, or omit them with qrels[qrels["qid"].isin(topics["qid"])]'
        )
    evaluator, scores, waiting = (
        make_evaluator(study.qrels, wanted),
        dict[str, dict[str, list[float]]](),
        list[Waiting](),
    )
    clusters = None if base is None else study.clusters(evaluator.turns, unit)
    answered: dict[str, set[str]] = {}
    for one in sorted(
        study.systems, key=lambda one: one.name not in finished
    ):  # what needs no run is checked first
        judged = study.turns_of(one).among(set(study.qrels["qid"])).frame
        try:
            with in_chain(one.repeat - 1), doing(one.name), observed_by(Shown()):
                found = (
                    finished[one.name]
                    if one.name in finished
                    else without_unread_texts(one.pipeline).transform(judged)
                )
        except BatchUnderWay as error:  # the other systems send their batches, too
            waiting += error.waiting
            continue
        if len(found) == 0:
            raise DataError(
                f"system {one.name} found no passage for any turn: look at what its first stages give"
            )
        check_common_turns(f"system {one.name}", found["qid"].unique(), evaluator.turns)
        ranking = ranking_of(one.name, found)
        evaluator.check_form(f"system {one.name}", ranking)
        if not study.is_of_judged_collection(one, ranking):
            evaluator.check_some_judged(f"system {one.name}", ranking)
        scores[one.name] = evaluator.per_turn(one.name, ranking)
        answered[one.name] = set(ranking)
    if waiting:
        raise BatchUnderWay(waiting)
    ordered = {one.name: scores[one.name] for one in study.systems}
    rows = experiment_rows(ordered, wanted, base, clusters)
    table = study.about_turns(pd.DataFrame(rows), {name: answered[name] for name in ordered})
    return ScoreTable.of(table, study.systems)
