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
    Evaluator,
    RankingScores,
    check_baseline,
    check_common_turns,
    experiment_rows,
)
from ..evaluation.experiment_table import (
    DEVIATIONS_ATTRIBUTE,
    experiment_table,
    notes_of,
    repeated_rows,
)
from ..evaluation.finished_runs import ranking_frame, ranking_of
from ..evaluation.score_frame import ScoreFrame
from ..evaluation.scored_turns import TURNS_ATTRIBUTE
from ..evaluation.scores import make_evaluator
from ..evaluation.units import check_unit
from ..events import in_chain, observed_by
from ..llms import Ledger
from ..llms.failures import BatchUnderWay, Waiting
from ..operator import stages, without_unread_texts
from ..planning import REFUSED, PlanTable, estimate
from ..progress import doing
from ..runs import RunFolder
from ..tables import Table, of_frame
from .experiment_arguments import (
    Measures,
    baseline_of,
    data_of,
    named_systems,
    only_topics,
)
from .in_folders import Run, run_in_folders
from .recorder import Shown
from .study import Study
from .systems import (
    System,
    SystemLike,
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
        """The ledger of this call's LLM calls. A folder has that of its run, over all starts."""
        return self.study.ledger

    def shown(self) -> Table:
        """Return the table of scores, to print.

        Its last notes say how the systems differ from those of the papers.
        """
        if self.study.qrels.empty:
            shown = of_frame(self.table)
        else:
            about_turns = self.table.attrs.get(TURNS_ATTRIBUTE, ())
            shown = experiment_table(self.table.to_dict("records"), about_turns)
        return replace(shown, rows=self.table, notes=[*shown.notes, *notes_of(self.table)])

    def gaps(self) -> Iterator[str]:
        """Yield sentences on unjudged turns without results, and the notes of the runs.

        The table names the judged turns.
        """
        for system in self.study.systems:
            name = system.name
            unjudged = set(self.study.turns_of(system).ids) - self.study.labels.keys()
            lost = sorted(unjudged - self.runs[name].answered)
            if lost:
                turns = counted(len(lost), "turn")
                yield f"{name}: {turns} without any passage, not judged: {list_first(lost)}"
            for note in self.folders[name].parameters().get("notes", ()):
                yield f"{name}: {note}"

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


class ScoreTable(ScoreFrame):
    """A frame of scores. Below it stand the sentences of ``attrs["deviations"]``."""

    @classmethod
    def of(cls, scores: pd.DataFrame, systems: Iterable[System]) -> pd.DataFrame:
        """Return the scores with the deviations of these systems, or as they are if there are none.

        A deviation is a difference from a paper's models or retriever. Each stands once, with the
        systems that have it, the most common first.
        """
        first_runs = [system for system in systems if system.repeat == 1]
        having: dict[str, list[str]] = {}
        for system in first_runs:
            for line in system.deviations:
                having.setdefault(line, []).append(system.name)
        if not having:
            return scores
        lines = []
        for line, names in sorted(having.items(), key=lambda item: -len(item[1])):
            of_all = len(names) > 1 and len(names) == len(first_runs)
            who = "all systems" if of_all else ", ".join(names)
            lines.append(f"{who}: {line}")
        table = cls(scores)
        table.attrs.update(scores.attrs)
        table.attrs[DEVIATIONS_ATTRIBUTE] = lines
        return table


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
        if topics is not None:
            raise UsageError("the turns are given twice, as a frame and as topics=: omit one")
        dataset, topics = None, dataset
    study = Study(
        systems, dataset, topics=topics, turns=turns, repeats=repeats, only_plan=True, **resources
    )
    as_measures(TRACK_2023 if measures is None else measures)
    check_baseline(list(_repeats_by_system(study)), baseline, "systems")
    check_unit(unit, baseline)
    planned = []
    for system in study.systems:
        turns_of_system = study.turns_of(system).frame
        planned.append((system.name, system.pipeline, turns_of_system, system.repeat - 1))
    table = estimate(planned)
    if out is not None:
        table.attrs[REFUSED] = _refusals(study, Path(out))
    return table


def _refusals(study: Study, out: Path) -> list[str]:
    """Why runs into a folder would be refused, as far as no model has to be loaded."""
    reasons = []
    for system in study.systems:
        turns = study.turns_of(system)
        try:
            turns.check_once()
            columns = system.columns(turns.frame)
            if columns is not None:
                check_ranking(system.name, columns)
            Run(study, system, out)
        except (UsageError, DataError) as error:
            reasons.append(str(error))
    return reasons


def _repeats_by_system(study: Study) -> dict[str, list[str]]:
    """The name of each system -> the names of its runs."""
    names: dict[str, list[str]] = {}
    for system in study.systems:
        names.setdefault(system.method.name, []).append(system.name)
    return names


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
    """Run systems on a dataset, each into a folder with its ranking, turns, scores and ledger.

    An existing run is not repeated, and an interrupted run resumes after its last finished batch of
    turns. A folder whose run used other models, prompts, passages, topics or stages is an error.
    Stages are identified by their repr. The repr of some stages, such as a function in
    ``pt.apply``, can't identify them. When stored results of such a stage are reused, an
    ``AlikeWarning`` names it.

    Stages at the beginning of a pipeline with ``one_row_per_turn`` get all turns at once. The
    others, and all stages of other packages, get ``turns_at_once`` turns at a time, and must treat
    each turn independently.

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
        >>> sample = pt.get_dataset("ikat:sample")
        >>> passages = sample.get_corpus_iter(verbose=False)
        >>> index = ikat.PassageIndex("run.index").index(passages)
        >>> mine = ikat.AllUtterances() >> index.bm25(num_results=20)
        >>> systems = {"mine": mine, "raw": "raw"}
        >>> results = ikat.run(systems, "ikat:sample", out="my-runs", index=index)
        >>> results.table["name"].tolist()
        ['mine', 'raw']
    """
    data = None if dataset is None else dataset_named(dataset)
    if measures is None:
        measures = TRACK_2023 if data is None else data.measures or TRACK_2023
    measures_scored = as_measures(measures)
    study = Study(
        systems, data, topics=topics, qrels=qrels, turns=turns, repeats=repeats, **resources
    )
    groups = _repeats_by_system(study)
    check_baseline(list(groups), baseline, "systems")
    check_unit(unit, baseline)
    clusters = None
    if baseline is not None and len(study.qrels):
        clusters = study.clusters(list(study.labels), unit)
    runs = run_in_folders(study, out, turns_at_once, measures_scored)
    table = pd.DataFrame({"name": list(groups)})
    if len(study.qrels):
        silent = []
        for name, repeat_names in groups.items():
            if not any(runs[repeat].answered & study.labels.keys() for repeat in repeat_names):
                silent.append(name)
        scores = {name: finished.scores for name, finished in runs.items()}
        if repeats == 1:
            rows = experiment_rows(scores, measures_scored, baseline, clusters, silent=silent)
        else:
            repeated = {}
            for name, repeat_names in groups.items():
                repeated[name] = [scores[repeat] for repeat in repeat_names]
            rows = repeated_rows(repeated, measures_scored, baseline, clusters, silent=silent)
        found = {name: finished.answered for name, finished in runs.items()}
        table = study.about_turns(pd.DataFrame(rows), found)
    return Results(study, Path(out), runs, ScoreTable.of(table, study.systems), baseline, unit)


def experiment(
    systems: SystemLike
    | Mapping[str, SystemLike | pd.DataFrame]
    | Sequence[SystemLike | pd.DataFrame],
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
    """Run systems on the judged turns in memory and compare them as TREC does.

    :func:`pyterrier_ikat.run` does so with folders. Turns without judgements are not run. Means are
    over all turns of the qrels. A turn for which a system finds nothing counts 0. The order is that
    of the ranks, as in :func:`pyterrier_ikat.run`: tied scores are lowered by the smallest possible
    step.

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
        >>> topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "ale"]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> find_a = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
        >>> systems = {"always a": find_a}
        >>> table = experiment(systems, measures=["R@20"], topics=topics, qrels=qrels)
        >>> table.values.tolist()
        [['always a', 0.5, 2]]
    """
    if measures is not None and eval_metrics is not None:
        raise UsageError("measures and eval_metrics are the same: omit one")
    measures = eval_metrics if measures is None else measures
    inputs = data_of(
        data,
        {
            "dataset": dataset,
            "measures": measures,
            "baseline": baseline,
            "topics": topics,
            "qrels": qrels,
        },
    )
    measures_scored = as_measures(TRACK_2023 if inputs.measures is None else inputs.measures)
    if inputs.dataset is None and (inputs.topics is None or inputs.qrels is None):
        raise UsageError(
            'there is nothing to run or evaluate on: give a dataset such as "ikat:sample", or '
            "topics=... and qrels=..."
        )
    in_pyterriers_order = bool(data) and isinstance(data[0], pd.DataFrame)
    judged_by = only_topics(data[0], inputs.qrels) if in_pyterriers_order else inputs.qrels
    systems_by_name = named_systems(systems, names)
    finished = _finished_runs(systems_by_name)
    pipelines = dict(systems_by_name)
    for name, run_frame in finished.items():
        pipelines[name] = pt.Transformer.from_df(run_frame)
    study = Study(
        pipelines,
        inputs.dataset,
        topics=inputs.topics,
        qrels=judged_by,
        turns=turns,
        in_memory=True,
        **resources,
    )
    baseline_name = baseline_of(list(systems_by_name), inputs.baseline)
    check_baseline([system.name for system in study.systems], baseline_name, "systems")
    check_unit(unit, baseline_name)
    _check_all_asked(study)
    return _run_and_compare(study, finished, measures_scored, baseline_name, unit)


def _finished_runs(systems: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The systems that are finished runs: frames, checked for the columns of a ranking."""
    finished = {}
    for name, system in systems.items():
        if isinstance(system, pd.DataFrame):
            finished[name] = ranking_frame(name, system)
    return finished


def _check_all_asked(study: Study) -> None:
    """Check that the topics have all judged turns."""
    if study.unasked:
        raise DataError(
            f"{counted(len(study.unasked), 'turn')} of the qrels not in the topics "
            f"({list_first(study.unasked)}), which would count 0; give the topics they belong to, "
            'or omit them with qrels[qrels["qid"].isin(topics["qid"])]'
        )


def _run_and_compare(
    study: Study,
    finished: Mapping[str, pd.DataFrame],
    measures: Sequence[ir_measures.Measure],
    baseline: str | None,
    unit: str | None,
) -> pd.DataFrame:
    """Run the systems of a study in memory, and make the table of their scores."""
    evaluator = make_evaluator(study.qrels, measures)
    clusters = None if baseline is None else study.clusters(evaluator.turns, unit)
    rankings = _rankings(study, evaluator, finished)
    scores = {}
    for system in study.systems:
        scores[system.name] = evaluator.per_turn(system.name, rankings[system.name])
    rows = experiment_rows(scores, measures, baseline, clusters)
    found = {name: set(rankings[name]) for name in scores}
    table = study.about_turns(pd.DataFrame(rows), found)
    return ScoreTable.of(table, study.systems)


def _rankings(
    study: Study, evaluator: Evaluator, finished: Mapping[str, pd.DataFrame]
) -> dict[str, RankingScores]:
    """Run each system in memory, and check its ranking against the judgements.

    Raises:
        DataError: when a ranking is empty, or doesn't fit the judgements.
        BatchUnderWay: when systems wait for an LLM's batches, once all have sent theirs.
    """
    rankings: dict[str, RankingScores] = {}
    waiting: list[Waiting] = []
    # finished runs first: what needs no run is checked before anything is paid
    in_order = sorted(study.systems, key=lambda system: system.name not in finished)
    for system in in_order:
        name = system.name
        who = f"system {name}"
        if name in finished:
            results = finished[name]
        else:
            judged = study.turns_of(system).among(set(study.qrels["qid"])).frame
            try:
                with in_chain(system.repeat - 1), doing(name), observed_by(Shown()):
                    lost = study.lost_columns(system)
                    results = judged
                    for stage in stages(without_unread_texts(system.pipeline)):
                        results = lost.transform(stage, results)
            except BatchUnderWay as error:  # the other systems send their batches, too
                waiting += error.waiting
                continue
        if len(results) == 0:
            raise DataError(
                f"{who} found no passage for any turn: look at what its first stages give"
            )
        check_common_turns(who, results["qid"].unique(), evaluator.turns)
        ranking = ranking_of(name, results)
        evaluator.check_form(who, ranking)
        if not study.is_of_judged_collection(system, ranking):
            evaluator.check_some_judged(who, ranking)
        rankings[name] = ranking
    if waiting:
        raise BatchUnderWay(waiting)
    return rankings
