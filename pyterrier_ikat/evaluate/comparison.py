"""Systems compared from end to end: pipelines over the turns of a dataset, shared stages once, TREC's figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ir_measures
import pandas as pd
import pyterrier as pt
from ir_measures import NumQ

from ..arguments import checked
from ..conversations.dataset import IkatDataset
from ..errors import DataError
from ..operator import Operator
from ..runs import write_run
from .evaluation import check_baseline
from .figures import Scorer
from .measures import TRACK_2023, as_measures
from .same_turns import check_shared
from .significance import experiment_table
from .systems import System, check_system, named_systems, run_files, turns_and_qrels


@checked
def experiment(
    systems: Mapping[str, System] | Sequence[System],
    dataset: IkatDataset | str | None = None,
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
        PyTerrier's experiment table: see :func:`~pyterrier_ikat.evaluate.evaluate`.

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
    files, scorer = run_files(save, named), Scorer(judged, wanted)
    figures: dict[str, pd.DataFrame] = {}
    _run(named, turns, judged, lambda name, found: figures.update({name: _kept(scorer, name, found, files.get(name))}))
    return experiment_table({name: figures[name] for name in named}, wanted, baseline)


Keep = Callable[[str, pd.DataFrame], None]


def _kept(scorer: Scorer, name: str, found: pd.DataFrame, path: Path | None) -> pd.DataFrame:
    if len(found) == 0:
        raise DataError(f"system {name} found no passage for any turn: look at what its first stages give")
    check_shared(f"system {name}", found["qid"].unique(), scorer.turns)
    ranking = scorer.ranking(name, found)
    if path is not None:
        write_run(ranking, path, name)
    return scorer.per_turn(ranking)


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
