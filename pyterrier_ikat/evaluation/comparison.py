"""Comparing systems: run each on the topics, and evaluate what it found."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import ir_measures
import pandas as pd
import pyterrier as pt
from ir_measures import NumQ

from ..arguments import checked
from ..conversations import datasets
from ..conversations.datasets import IkatDataset
from ..conversations.frame import with_text_ids
from ..conversations.qrels import check_qrels
from ..errors import DataError, UsageError
from ..operator import Operator
from ..runs import trec_eval_order, write_run
from .evaluator import Evaluator, check_baseline, check_form, check_shared, experiment_rows
from .measures import TRACK_2023, as_measures
from .scores import RANKING, open_evaluator, ranking_of

System: TypeAlias = "pt.Transformer | pd.DataFrame"


def named_systems(systems: Mapping[str, System] | Sequence[System], names: Sequence[str] | None) -> dict[str, System]:
    """Name -> system, each name once.

    Raises:
        UsageError: when names are missing, repeated or blank, or there is no system.
    """
    if isinstance(systems, Mapping):
        if names is not None:
            raise UsageError("the systems have names already: leave names=... out, or give the systems as a list")
        named = dict(systems)
    else:
        if isinstance(systems, str) or not isinstance(systems, Sequence | pt.Transformer | pd.DataFrame):
            raise UsageError(f'the systems are a {type(systems).__name__}: give {{"name": system, ...}}, or a list and names=[...]')
        given = [systems] if isinstance(systems, pt.Transformer | pd.DataFrame) else list(systems)
        if names is None or isinstance(names, str) or len(names) != len(given):
            raise UsageError(f'{len(given)} systems need a list of {len(given)} names: give {{"name": system, ...}}, or names=[...]')
        named = dict(zip(names, given, strict=True))
        if len(named) < len(given):
            twice = next(name for name in names if list(names).count(name) > 1)
            raise UsageError(f"two systems are named {twice!r}: give each its own name")
    if not named:
        raise UsageError("there is no system: give at least one")
    for name in named:
        if not isinstance(name, str) or len(name.strip()) == 0:
            raise UsageError(f"a system is named {name!r}: a name is a text that is not blank")
    return named


def turns_and_qrels(
    dataset: IkatDataset | str | Path | None, topics: pd.DataFrame | None, qrels: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The judged turns among the topics, and the judgements.

    Raises:
        UsageError: when there is neither dataset nor both frames.
        DataError: when a turn or judgement is there twice, or a judged turn is not among the topics.
    """
    data: Any = None if dataset is None else datasets.dataset(dataset)
    if data is None and (topics is None or qrels is None):
        raise UsageError('there is nothing to run or evaluate on: give a dataset such as "ikat:sample", or topics=... and qrels=...')
    turns = data.get_topics() if topics is None else topics
    judged = check_qrels(data.get_qrels() if qrels is None else qrels)
    pt.validate.query_frame(turns)
    turns = with_text_ids("the topics frame", turns, ["qid"])
    twice = turns["qid"].duplicated()
    if twice.any():
        raise DataError(f"the topics have turn {turns['qid'][twice].iloc[0]} twice: keep one")
    check_form("the topics frame", turns["qid"], judged["qid"])
    lacking = [qid for qid in judged["qid"].drop_duplicates() if qid not in set(turns["qid"])]
    if lacking:
        shown = ", ".join(map(str, lacking[:3])) + ", ..." * (len(lacking) > 3)
        raise DataError(
            f"{len(lacking)} turns of the qrels are not in the topics ({shown}): they would all count 0; give the topics they "
            'belong to, or leave them out by qrels[qrels["qid"].isin(topics["qid"])]'
        )
    return turns[turns["qid"].isin(judged["qid"])].reset_index(drop=True), judged


def check_system(name: str, system: System, turns: pd.DataFrame) -> None:
    """Whether a system makes a ranking of these turns, or is one; nothing is run.

    Raises:
        UsageError: when it doesn't.
        DataError: when a finished run is about other turns.
    """
    if isinstance(system, pd.DataFrame):
        named = system["qid"].unique() if "qid" in system.columns else []
        check_form(f"run {name}", named, turns["qid"])
        check_shared(f"run {name}", named, turns["qid"])
        found = list(system.columns)
    elif isinstance(system, pt.Transformer):
        try:
            found = pt.inspect.transformer_outputs(system, list(turns.columns))
        except pt.inspect.InspectError:  # a stage that cannot be asked without data; the ranking is checked when it is there
            return
        except pt.validate.InputValidationError as error:
            raise UsageError(f"system {name} does not work on these topics: {error}") from error
    else:
        raise UsageError(f"system {name} is a {type(system).__name__}: give a pipeline or a result frame")
    if "qid_0" in found:
        raise UsageError(
            f"system {name} ends in sub-queries, whose passages belong to no turn: "
            "end it with ikat.Interleave, ikat.Union, ikat.RRF, ikat.MeanScore or ikat.RerankAgainst"
        )
    lacking = [column for column in RANKING if column not in found]
    if lacking:
        raise UsageError(f"system {name} makes no ranking: its result has no {', '.join(lacking)}; end it with a retriever or re-ranker")


def run_files(folder: str | Path | None, named: Mapping[str, System]) -> dict[str, Path]:
    """Name -> run file in ``folder``; none without a folder.

    Raises:
        UsageError: when a name can't be a file's, or a file is there already.
    """
    if folder is None:
        return {}
    for name in named:
        if Path(name).name != name or name.startswith(".") or len(name.split()) != 1:
            raise UsageError(f"a run file cannot be named {name!r}: save systems under names without slash, white space or leading dot")
    files = {name: Path(folder) / f"{name}.trec" for name in named}
    there = [str(path) for path in files.values() if path.exists()]
    if there:
        raise UsageError(f"{there[0]} is there already: choose another folder, or remove it")
    return files


@checked
def experiment(
    systems: Mapping[str, System] | Sequence[System],
    dataset: IkatDataset | str | Path | None = None,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
    baseline: str | None = None,
    *,
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | None = None,
    names: Sequence[str] | None = None,
    save: str | Path | None = None,
) -> pd.DataFrame:
    """Run systems over the judged turns through ``pt.Experiment(..., plan="tree")``, and compare them as TREC does.

    A stage that several systems start with runs once; turns without judgements are not run. Means are over all turns of
    the qrels, a turn for which a system finds nothing counts 0. Ties are ordered
    by docno, as trec_eval does; what is saved is in that order, too.

    Args:
        systems: name -> pipeline or finished run (a result frame), also the same under two names; or a list, with ``names``.
        dataset: an iKAT dataset or its name.
        measures: ir_measures measures, or their names.
        baseline: the system that the others are compared with: two-sided paired t-test, Bonferroni.
        topics: the turns, in place of ``dataset.get_topics()``: ``get_topics("manual")`` for systems that use gold fields.
        qrels: the judgements, in place of ``dataset.get_qrels()``.
        names: the systems' names, where ``systems`` is a list.
        save: a folder in which every system leaves ``<name>.trec`` as soon as it has finished.

    Returns:
        PyTerrier's experiment table: see :func:`~pyterrier_ikat.evaluation.evaluate`.

    Raises:
        UsageError: before anything is run: for names, baseline, measures, files, and systems that make no ranking.
        DataError: when topics, qrels or a ranking are not clean, or don't fit each other.

    Example:
        >>> topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "never judged"]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> find_a = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
        >>> experiment({"always a": find_a}, measures=["R@20"], topics=topics, qrels=qrels).values.tolist()
        [['always a', 0.5, 2]]
    """
    named, wanted = named_systems(systems, names), as_measures(measures)
    check_baseline(named, baseline, "systems")
    turns, judged = turns_and_qrels(dataset, topics, qrels)
    for name, system in named.items():
        check_system(name, system, turns)
    files, evaluator = run_files(save, named), open_evaluator(judged, wanted)
    scores: dict[str, dict[str, list[float]]] = {}
    _run(named, turns, judged, lambda name, found: scores.update({name: _scored(evaluator, name, found, files.get(name))}))
    return pd.DataFrame(experiment_rows({name: scores[name] for name in named}, wanted, baseline))


Keep = Callable[[str, pd.DataFrame], None]


def _scored(evaluator: Evaluator, name: str, found: pd.DataFrame, path: Path | None) -> dict[str, list[float]]:
    if len(found) == 0:
        raise DataError(f"system {name} found no passage for any turn: look at what its first stages give")
    check_shared(f"system {name}", found["qid"].unique(), evaluator.turns)
    scores = evaluator.per_turn(name, ranking_of(name, found))
    if path is not None:
        write_run(trec_eval_order(found), path, name)
    return scores


def _run(systems: Mapping[str, System], turns: pd.DataFrame, judged: pd.DataFrame, keep: Keep) -> None:
    pipelines = {name: system for name, system in systems.items() if isinstance(system, pt.Transformer)}
    for name, system in systems.items():
        if isinstance(system, pd.DataFrame):
            keep(name, system)
    if not pipelines:
        return
    # PyTerrier runs the tree. Its own evaluation goes through every frame row by row, so it gets one passage a turn.
    pt.Experiment(
        [_ending(pipeline, name, keep) for name, pipeline in pipelines.items()],
        turns,
        judged.drop_duplicates("qid"),
        [NumQ],
        names=list(pipelines),
        filter_by_topics=False,
        verbose=False,
        validate="ignore",
        plan="tree",
    )


def _ending(pipeline: pt.Transformer, name: str, keep: Keep) -> pt.Transformer:
    stages = list(pipeline) if isinstance(pipeline, pt.Compose) else [pipeline]
    apart = [stage if isinstance(stage, Operator) else _Apart(stage) for stage in stages]
    return pt.Compose(*apart, _Last(name, keep))


class _Last(pt.Transformer):
    """The end of a system. It differs from every other's, so that PyTerrier takes pipelines that are otherwise the same."""

    def __init__(self, name: str, keep: Keep) -> None:
        super().__init__()
        self.name, self.keep = name, keep

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        self.keep(self.name, inp)
        return inp.drop_duplicates("qid")


class _Apart(pt.Transformer):
    """A stage that gets a copy of its input: in a tree several stages read one frame, foreign ones may change it."""

    def __init__(self, stage: pt.Transformer) -> None:
        super().__init__()
        self.stage = stage

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        return self.stage.transform(inp.copy())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Apart) and bool(self.stage == other.stage)

    def __hash__(self) -> int:
        return hash(self.stage)
